//! The evaluation of the EvenDB paper as one command, at any scale, for every store that is there.
//!
//! ```text
//!   figures --> cells --> families (cells of one loaded store), smallest first
//!                            |
//!      for each family, round and store in turn: a process of its own (measure), under a limit
//!      of memory, that appends each finished cell to DIR/results.jsonl
//!                            |
//!      at the end: DIR/report.md; again with the same DIR: what is finished is not run again
//! ```
//! Thread safety: one run at a time in a directory; a lock refuses others. Not here: adapters.

mod cells;
mod measure;
pub mod report;

use super::results_file::ResultsFile;
use super::steps::{Owner, Runner, Step, begun_with, data_directory, minutes};
use super::{Failure, machine, processes};
use crate::calibrate;
use crate::distribution::{DistributionKind, THETA_DEFAULT, parse_theta};
use crate::mix::{LoadOrder, Mix};
use crate::opener::{Durability, Opener, Settings};
use crate::phase_length::PhaseLengths;
use crate::stores::undone;
use cells::{Cell, DEPARTURES, FIGURES, Family, PAPER_MEMORY_BYTES, Wanted, Work};
use measure::{Measurement, Method, analytics_seconds, identity, warm_seconds};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The arguments of `experiment paper`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    /// Where results.jsonl (a line for each measurement), report.md (all figures as tables) and for
    /// a while the stores are written; a run that was interrupted goes on there
    #[arg(long)]
    out: PathBuf,
    /// The paper's figures and tables; all if not given (3 to 12, table-2, table-3, table-4;
    /// `reads` is the bytes and system calls of a get, a table of the paper's drafts).
    /// `departures`, only if given: EvenDB beside the paper's own design (the store
    /// `evendb-paper`), and beside itself with each single departure undone
    #[arg(long, value_delimiter = ',')]
    figures: Vec<String>,
    /// The stores; all that were built in if not given. `evendb,evendb-half-memory` (with `--mixes
    /// P`) is EvenDB in turns with itself at half the memory budget: the report says where the half
    /// is faster, which must never happen
    #[arg(long, value_delimiter = ',')]
    stores: Vec<String>,
    /// The scale of memory and data; the paper has 16 GiB and up to 256 GiB: a number, or as 1/16
    #[arg(long, value_parser = parse_scale, default_value = "1/16")]
    scale: f64,
    /// Two sizes of data, few numbers of threads, short phases, one round, and a scale of 1/64
    #[arg(long)]
    quick: bool,
    /// Only these mixes
    #[arg(long, value_delimiter = ',')]
    mixes: Vec<Mix>,
    /// Scan after the phases that write: data that was just overwritten
    #[arg(long)]
    scans_last: bool,
    /// Only these distributions; distributions that no figure has by itself (zipf-composite-suffix,
    /// zipf-composite-contiguous) are measured if they are named
    #[arg(long, value_delimiter = ',')]
    distributions: Vec<DistributionKind>,
    /// Skew of the Zipf distributions, strictly between 0 and 1; figure 10 has skews of its own
    #[arg(long, default_value_t = THETA_DEFAULT, value_parser = parse_theta)]
    theta: f64,
    /// What an acknowledged put survives
    #[arg(long, value_enum, default_value_t)]
    durability: Durability,
    /// MiB of keys and values, instead of the paper's sizes
    #[arg(long, value_delimiter = ',')]
    sizes_mib: Vec<u64>,
    /// MiB of events to ingest, instead of the paper's sizes
    #[arg(long, value_delimiter = ',')]
    ingest_mib: Vec<u64>,
    /// Seconds of a phase [default: 20, of puts alone 60; quick: 1]. A quarter more is spent on
    /// warming
    #[arg(long)]
    seconds: Option<f64>,
    /// Seconds of a phase of puts alone [default: as --seconds, if that is given]
    #[arg(long)]
    put_seconds: Option<f64>,
    /// Leave the store open from the load to the last phase. Without this it is closed and opened
    /// anew after the load and before each phase of puts alone
    #[arg(long)]
    keep_open: bool,
    /// The order in which records are loaded
    #[arg(long, value_enum, default_value_t)]
    load_order: LoadOrder,
    /// The number of rounds; figures are their medians [default: 3, quick: 1]
    #[arg(long)]
    rounds: Option<usize>,
    /// Worker threads, where the figure does not say [the paper: 12]
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// Bytes of a value
    #[arg(long, default_value_t = 800)]
    value_bytes: usize,
    /// Minutes that loading or ingesting may take
    #[arg(long, default_value_t = 30.0)]
    load_minutes: f64,
    /// The seed of keys, values and operations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Set no limit on memory: stores are told of it all the same
    #[arg(long)]
    no_memory_limit: bool,
    /// Only list the cells, and what they will take
    #[arg(long)]
    list: bool,
    /// Only for the processes that this one starts: measure STORE:ROUND:FAMILY
    #[arg(long, hide = true)]
    child: Option<String>,
}

/// The least scale at which RocksDB with its default write buffers fits.
const QUICK_SCALE: f64 = 1.0 / 64.0;
/// For the estimate: bytes a second, and seconds for what surrounds a phase.
const LOAD_BYTES_PER_SECOND: f64 = 80e6;
const PHASE_OVERHEAD_SECONDS: f64 = 1.5;
/// For the estimate: the time of paying the debt of puts alone, divided by that of their phase.
const SETTLING_PART: f64 = 0.25;

pub(super) fn parse_scale(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let scale = match text.split_once('/') {
        None => number(text),
        Some((over, under)) => number(over).zip(number(under)).map(|(o, u)| o / u),
    };
    // Holds from 16 MiB of memory on.
    scale
        .filter(|scale| (1.0 / 1024.0..=64.0).contains(scale))
        .ok_or_else(|| "a scale is a number from 1/1024 to 64".to_owned())
}

impl Arguments {
    fn memory_bytes(&self) -> u64 {
        let scale = if self.quick { QUICK_SCALE } else { self.scale };
        (PAPER_MEMORY_BYTES as f64 * scale) as u64
    }

    fn lengths(&self) -> PhaseLengths {
        let given = self.seconds.or(self.quick.then_some(1.0));
        let lengths = given.map_or(PhaseLengths::FULL, PhaseLengths::all);
        PhaseLengths {
            put_seconds: self.put_seconds.unwrap_or(lengths.put_seconds),
            ..lengths
        }
    }

    fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 })
    }

    fn wanted(&self) -> Result<Wanted, Failure> {
        for figure in &self.figures {
            if !FIGURES.contains(&figure.as_str()) && figure != DEPARTURES {
                let known = FIGURES.join(", ");
                let message = format!("no figure `{figure}`; there are {known}, {DEPARTURES}");
                return Err(message.into());
            }
        }
        let figures = match self.figures.is_empty() {
            true => FIGURES.iter().map(|&figure| figure.to_owned()).collect(),
            false => self.figures.clone(),
        };
        let bytes = |mib: &Vec<u64>| mib.iter().map(|mib| mib << 20).collect();
        Ok(Wanted {
            figures,
            mixes: self.mixes.clone(),
            distributions: self.distributions.clone(),
            theta: self.theta,
            sizes: bytes(&self.sizes_mib),
            ingests: bytes(&self.ingest_mib),
            load_order: self.load_order,
            memory_bytes: self.memory_bytes(),
            threads: self.threads,
            quick: self.quick,
            scans_last: self.scans_last,
        })
    }

    fn method(&self, opener: &dyn Opener) -> Method {
        Method {
            settings: Settings {
                memory_bytes: opener.memory_within(self.memory_bytes()),
                durability: self.durability,
            },
            memory_bytes: self.memory_bytes(),
            value_bytes: self.value_bytes,
            seed: self.seed,
            lengths: self.lengths(),
            keep_open: self.keep_open,
            load_order: self.load_order,
            load_max: Duration::from_secs_f64(self.load_minutes * 60.0),
        }
    }

    /// The settings that must be equal for results to stand in one file.
    fn settings(&self) -> Value {
        json!({
            "scale": self.memory_bytes() as f64 / PAPER_MEMORY_BYTES as f64,
            "quick": self.quick,
            "memory_bytes": self.memory_bytes(),
            "threads": self.threads,
            "value_bytes": self.value_bytes,
            "seconds": self.lengths().seconds,
            "put_seconds": self.lengths().put_seconds,
            "keep_open": self.keep_open,
            "load_order": self.load_order.name(),
            "durability": self.durability.name(),
            "theta": self.theta,
            "seed": self.seed,
        })
    }

    /// Runs the evaluation. As a child process, runs a part of it.
    ///
    /// # Errors
    /// Bad arguments, another run in the directory, or that something could not be measured.
    pub fn run(&self, openers: &[Box<dyn Opener>]) -> Result<(), Failure> {
        let cells = self.wanted()?.cells();
        let mut families: Vec<(Family, Vec<Cell>)> = Vec::new();
        for cell in cells {
            match families.last_mut() {
                Some((family, own)) if *family == cell.family() => own.push(cell),
                _ => families.push((cell.family(), vec![cell])),
            }
        }
        match &self.child {
            Some(child) => self.measure(&families, openers, child),
            None => self.compare(&families, openers),
        }
    }

    fn measure(
        &self,
        families: &[(Family, Vec<Cell>)],
        openers: &[Box<dyn Opener>],
        child: &str,
    ) -> Result<(), Failure> {
        let parts: Vec<&str> = child.split(':').collect();
        let &[store, round, family] = &parts[..] else {
            return Err("a child is STORE:ROUND:FAMILY".into());
        };
        let (round, family): (usize, usize) = (round.parse()?, family.parse()?);
        let opener = openers.iter().find(|opener| opener.name() == store);
        let opener = &**opener.ok_or("no such store")?;
        let (family, cells) = families.get(family).ok_or("no such family")?;
        let directory = data_directory(&self.out);
        let measurement = Measurement {
            method: &self.method(opener),
            family: *family,
            cells: cells.clone(),
            opener,
            round,
            results: &ResultsFile::in_directory(&self.out),
            directory: &directory,
        };
        measurement.run()
    }

    fn compare(
        &self,
        families: &[(Family, Vec<Cell>)],
        openers: &[Box<dyn Opener>],
    ) -> Result<(), Failure> {
        let departures = self.wanted()?.has(&[DEPARTURES]);
        let stores = processes::chosen(&self.stores, openers, |opener| {
            let is_asked_for = departures && undone::words(opener.name()).is_some();
            !opener.only_if_named() || is_asked_for
        })?;
        let mut plan: Vec<PlannedStep> = Vec::new();
        for (number, (family, cells)) in families.iter().enumerate() {
            for round in 0..self.rounds() {
                for &store in &stores {
                    let own = cells.iter().filter(|cell| cell.concerns(store));
                    let own: Vec<Cell> = own.copied().collect();
                    // A step that would only load measures nothing that a figure asks for.
                    if own.iter().any(|cell| cell.experiment != "load") {
                        plan.push(PlannedStep {
                            number,
                            family: *family,
                            cells: own,
                            store: store.to_owned(),
                            round,
                        });
                    }
                }
            }
        }
        if self.list {
            return self.print_plan(&plan);
        }
        if plan.is_empty() && self.wanted()?.has(&["table-3"]) {
            // Nothing is measured for it.
            say!("{}", report::table_3(self.memory_bytes(), self.value_bytes))?;
            return Ok(());
        }
        let _owner = Owner::lock(&self.out)?;
        let results = ResultsFile::in_directory(&self.out);
        let runner = Runner {
            out: &self.out,
            results: &results,
            no_memory_limit: self.no_memory_limit,
        };
        let first = begun_with(&results, &self.settings())?;
        let measured = first.and_then(|mut first| Some(first.get_mut("limits")?.take()));
        let limits = match measured {
            None | Some(Value::Null) => self.calibrate(),
            Some(limits) => limits,
        };
        results.append(&json!({
            "kind": "run",
            "version": 1,
            "table_3": self.wanted()?.has(&["table-3"]),
            "started": machine::now(),
            "settings": self.settings(),
            "stores": stores,
            "memory_limit": runner.limit(self.memory_bytes()).map_or_else(|why| format!("none: {why}"), |limit| limit.kind().to_owned()),
            "machine": machine::machine(&self.out),
            "limits": limits,
        }))?;
        let steps: Vec<Step> = plan.iter().map(|step| self.process_of(step)).collect();
        let measured = runner.run(&steps, &|| Ok(()));
        // The report also says what could not be measured.
        let reported = report::write(&self.out);
        measured.and(reported)
    }

    /// What the machine can do, for the report. If that cannot be measured, null and a message.
    fn calibrate(&self) -> Value {
        tell!("what the machine can do, half a minute");
        let mut settings = calibrate::CalibrationSettings::new(self.out.clone());
        if self.quick {
            (settings.time, settings.file_bytes) = (Duration::from_millis(300), 256 << 20);
        }
        let never = AtomicBool::new(false);
        match calibrate::run(&settings, &never, &|_| ()) {
            Ok(calibration) => calibration.to_json(),
            Err(error) => {
                tell!("  not measured: {error}");
                Value::Null
            }
        }
    }

    /// The process that runs a step.
    fn process_of(&self, step: &PlannedStep) -> Step {
        let (store, round) = (&step.store, step.round);
        let cells = step.cells.iter();
        Step {
            what: step.family.to_string(),
            store: store.clone(),
            round,
            child: format!("{store}:{round}:{}", step.number),
            memory_bytes: self.memory_bytes(),
            seconds: self.seconds_of(step),
            cells: cells
                .map(|cell| identity("cell", cell, store, round))
                .collect(),
        }
    }

    /// The estimated seconds of a step, which the run corrects: the data is put once, and read once
    /// if any phase reads.
    fn seconds_of(&self, step: &PlannedStep) -> f64 {
        let passes = match step.cells.iter().any(|cell| cell.work.reads()) {
            true => 2.0,
            false => 1.0,
        };
        let phases = step.cells.iter().map(|cell| self.cell_seconds(cell));
        passes * step.family.data_bytes as f64 / LOAD_BYTES_PER_SECOND + phases.sum::<f64>()
    }

    /// The seconds of a cell, without putting and reading all data.
    fn cell_seconds(&self, cell: &Cell) -> f64 {
        let lengths = self.lengths();
        let phase = match cell.work {
            Work::Load(_) | Work::Ingest => 0.0,
            Work::Analytics => analytics_seconds(lengths),
            Work::Mix { mix, .. } => {
                let warming = warm_seconds(lengths, mix, self.memory_bytes(), cell.data_bytes);
                let settling = match mix {
                    Mix::P => SETTLING_PART * lengths.of(mix),
                    _ => 0.0,
                };
                warming + lengths.of(mix) + settling
            }
        };
        phase + PHASE_OVERHEAD_SECONDS
    }

    fn print_plan(&self, plan: &[PlannedStep]) -> Result<(), Failure> {
        for step in plan {
            let round = step.round + 1;
            say!("{}, {}, round {round}\n", step.family, step.store)?;
            for cell in &step.cells {
                say!("  {} {cell}\n", cell.experiment)?;
            }
        }
        let seconds: f64 = plan.iter().map(|step| self.seconds_of(step)).sum();
        let cells: usize = plan.iter().map(|step| step.cells.len()).sum();
        say!(
            "{} steps, {cells} phases, about {}\n",
            plan.len(),
            minutes(seconds)
        )?;
        Ok(())
    }
}

/// One process that will be started.
struct PlannedStep {
    /// The family's number, for the child.
    number: usize,
    family: Family,
    cells: Vec<Cell>,
    store: String,
    round: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::tests::parsed;

    fn arguments(given: &str) -> Arguments {
        let words = ["paper", "--out", "nowhere"]
            .into_iter()
            .chain(given.split_whitespace());
        parsed(words)
    }

    #[test]
    fn phases_last_as_long_as_was_asked() {
        for (given, seconds, put_seconds) in [
            ("", 20.0, 60.0),
            ("--quick", 1.0, 1.0),
            ("--seconds 25", 25.0, 25.0),
            ("--seconds 5 --put-seconds 30", 5.0, 30.0),
            ("--quick --put-seconds 2", 1.0, 2.0),
            ("--put-seconds 90", 20.0, 90.0),
        ] {
            let lengths = PhaseLengths {
                seconds,
                put_seconds,
            };
            assert_eq!(arguments(given).lengths(), lengths, "{given}");
        }
    }

    #[test]
    fn the_estimate_follows_the_lengths() {
        let seconds = |given: &str, work: Work| {
            let cell = Cell {
                experiment: "figure-6",
                work,
                data_bytes: 512 << 20,
                threads: 4,
                variant: None,
            };
            arguments(given).cell_seconds(&cell) - PHASE_OVERHEAD_SECONDS
        };
        let mix = |mix| Work::Mix {
            mix,
            distribution: DistributionKind::Uniform,
            theta: 0.5,
        };
        // Warming, the phase, settling.
        assert_eq!(seconds("", mix(Mix::P)), 15.0 + 60.0 + 15.0);
        assert_eq!(seconds("", mix(Mix::C)), 5.0 + 20.0);
        assert_eq!(seconds("--quick", mix(Mix::P)), 0.25 + 1.0 + 0.25);
        assert_eq!(seconds("--seconds 4", Work::Analytics), 12.0);
        assert_eq!(seconds("", Work::Load(LoadOrder::Key)), 0.0);
    }

    #[test]
    fn scales_are_numbers_and_fractions() {
        assert_eq!(parse_scale("1/16"), Ok(0.0625));
        assert_eq!(parse_scale("2"), Ok(2.0));
        for bad in ["", "1/0", "-1", "a/2", "1/100000", "nan", "1/2/3"] {
            assert!(parse_scale(bad).is_err(), "{bad}");
        }
    }
}
