//! The command `advise`: its arguments, the files that it writes, and what it says on the terminal.

use evendb::placement;
use evendb::vfs::OsVfs;
use evendb_report::Document;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::page::{self, FACT_OPERATIONS};
use super::runs::Ground;
use super::source::{self, Drawn, Source};
use super::words::{each_left_out, of_load, warnings};
use super::{AdviseError, Clock, Question, advise, beside, exhaustive, load};
use crate::opener::Durability;
use crate::own_output;
use crate::readable::bytes;
use crate::replay::command::{Ending, LeftOut, reader_of};
use crate::replay::{Merges, Part, ReplaySettings};
use crate::stores::evendb::tuning::Tuning;

/// What the command is told.
#[derive(clap::Args, Clone, Debug)]
pub struct AdviseArguments {
    /// A trace; or a model, and the trace is drawn from it: the name of a preset (zippydb,
    /// zippydb-kinds, udb, udb-assoc, up2x) or a file of a model
    source: String,
    /// MiB of memory that the store may plan with
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(2..=16 << 20))]
    memory_mib: u64,
    /// Directory for advice.json and page.html; made if it is missing
    #[arg(long, value_name = "DIRECTORY")]
    out: PathBuf,
    /// Seconds that all of it may take, about
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(2..=86_400))]
    seconds: u32,
    /// What a put survives when it returns
    #[arg(long, value_enum, default_value = "process")]
    durability: Durability,
    /// Threads that ask
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// What merges of a trace do; without it they are left out
    #[arg(long, value_enum)]
    merges: Option<Merges>,
    /// Bytes of a value whose length the trace does not tell [default: 100; with --merges counters
    /// 8]
    #[arg(long)]
    value_bytes: Option<u32>,
    /// Operations at the beginning of the trace that fill the store, and are no part of the load
    #[arg(long, value_name = "OPERATIONS")]
    load: Option<u64>,
    /// Use at most this number of operations of the load [default: 20,000 for each second]
    #[arg(long, value_name = "OPERATIONS", value_parser = clap::value_parser!(u64).range(1..))]
    operations: Option<u64>,
    /// A setting of EvenDB that is fixed, NAME=VALUE; may be given several times. docs/advice.md
    /// has the names
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// For a model: the share of its pairs and operations that is drawn [default: 0.02]
    #[arg(long, value_parser = parse_scale)]
    scale: Option<f64>,
    /// For a model: the seed of the drawing [default: 1]
    #[arg(long)]
    seed: Option<u64>,
    /// The analysis.json of the trace, for what it says of misses
    #[arg(long, value_name = "FILE")]
    analysis: Option<PathBuf>,
    /// The command `experiments` of studio/peers: the load is replayed on other stores too
    #[arg(long, value_name = "PROGRAM")]
    peers: Option<PathBuf>,
    /// The other stores, by name
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "rocksdb,lmdb,fjall,redb",
        requires = "peers"
    )]
    peer_stores: Vec<String>,
    /// Where stores are made, and removed at the end [default: the directory of --out]
    #[arg(long, value_name = "DIRECTORY")]
    dir: Option<PathBuf>,
    /// Measure all settings at full length, and say how far the settings in advice.json are from
    /// the best. Goes on where it ended
    #[arg(long)]
    exhaustive: bool,
    /// Rounds of --exhaustive
    #[arg(long, default_value_t = 3, requires = "exhaustive", value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
}

/// For a model: the share of it that is drawn, and the seed.
const SCALE: f64 = 0.02;
const SEED: u64 = 1;

/// Operations that are used for each second of the whole.
const OPERATIONS_A_SECOND: u64 = 20_000;

/// Advice that was given.
#[derive(Debug)]
pub struct Given {
    /// The text for a terminal.
    pub text: String,
    /// Whether the advice covers all that the trace asks.
    pub ending: Ending,
}

fn parse_scale(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| *number > 0.0 && *number <= 1.0);
    number.ok_or_else(|| "a number above 0 and at most 1 is needed".to_owned())
}

impl AdviseArguments {
    /// Carries the command out. `program` is this one, which has the command `replay`.
    ///
    /// # Errors
    /// What was given is wrong, a replay of the defaults failed, or `stop` was raised.
    pub fn run(&self, program: PathBuf, stop: &AtomicBool) -> Result<Given, AdviseError> {
        let clock = Clock::new(f64::from(self.seconds), stop);
        let fixed = self.fixed()?;
        let misses = match &self.analysis {
            Some(path) => beside::misses(path)?,
            None => Vec::new(),
        };
        if let Some(peers) = self.peers.as_ref().filter(|path| !path.is_file()) {
            let what = "there is no such program";
            return Err(AdviseError::Input(format!("{}: {what}", peers.display())));
        }
        self.make_out()?;
        let place = Place::new(self.dir.as_deref().unwrap_or(&self.out))?;
        let earlier = match self.exhaustive {
            true => Some(exhaustive::Advised::load(&self.out)?),
            false => None,
        };
        let operations_max = match &earlier {
            // The advice that it is compared with used this number, for whatever time it had.
            Some(earlier) => self.operations.map_or_else(|| earlier.operations(), Ok)?,
            None => self.operations_max(),
        };
        let source = self.source(&place.0, operations_max)?;
        clock.tell("the load is looked at");
        let load = self.observed(&source, operations_max)?;
        self.refuse_idle(&source, &load)?;
        let said_first = warnings(&load);
        let ending = Ending::new(load.losses.is_nothing(), load.left_out.is_much());
        for sentence in &said_first {
            clock.tell(sentence);
        }
        let peers = self.peers.clone();
        let question = Question {
            ground: self.ground(program, &source, &load)?,
            place: place.0.clone(),
            memory_bytes: load.budget_within(self.memory_mib << 20),
            allowed_bytes: self.memory_mib << 20,
            fixed,
            peers: peers.map(|peers| (peers, self.peer_stores.clone())),
            misses,
        };
        let asked = self.asked(&question, (&load, source.is_drawn));
        let text = match &earlier {
            Some(earlier) => {
                let what = (self.out.as_path(), self.rounds.into());
                earlier.check(&question, asked, what, &clock)?
            }
            None => self.give(question, load, asked, &clock)?,
        };
        let text = first(&said_first) + &text;
        Ok(Given { text, ending })
    }

    /// Makes the directory for the results, and refuses one that has other files of these names.
    fn make_out(&self) -> Result<(), AdviseError> {
        let input = |error: &dyn Display| AdviseError::Input(error.to_string());
        placement::refuse_inside(&OsVfs, &self.out, "advice").map_err(|error| input(&error))?;
        fs::create_dir_all(&self.out).map_err(AdviseError::io(&self.out))?;
        let is_ours = |text: &str| Document::from_json(text).is_ok();
        let others = ["page.html", exhaustive::FILE];
        own_output::refuse_foreign(&self.out, "advice.json", &is_ours, &others)
            .map_err(|error| input(&error))
    }

    /// What all replays have in common.
    fn ground(
        &self,
        program: PathBuf,
        source: &Source,
        load: &load::Load,
    ) -> Result<Ground, AdviseError> {
        Ok(Ground {
            program,
            trace: fs::canonicalize(&source.trace).map_err(AdviseError::io(&source.trace))?,
            loading: source.loading,
            operations: load.read,
            durability: self.durability,
            threads: self.threads,
            merges: self.merges.or(source.merges),
            value_bytes: self.value_bytes_of(source),
            // Advice finds out how much ageing it has time for. The check has the time.
            age_bytes: if self.exhaustive { load.age_bytes() } else { 0 },
            repeats: load.repeats(),
        })
    }

    /// Finds advice, and writes it. Returns the text for a terminal.
    fn give(
        &self,
        question: Question,
        load: load::Load,
        asked: Vec<(String, String)>,
        clock: &Clock<'_>,
    ) -> Result<String, AdviseError> {
        for sentence in of_load(&load, question.memory_bytes) {
            clock.tell(&sentence);
        }
        let mut facts = asked;
        facts.push(("seconds given".to_owned(), self.seconds.to_string()));
        let advice = advise(question, load, clock)?;
        let document = page::document(&advice, facts);
        let json = self.out.join("advice.json");
        own_output::replace(&json, &document.to_json()).map_err(AdviseError::io(&json))?;
        let page = self.out.join("page.html");
        own_output::replace(&page, &evendb_report::page(&document))
            .map_err(AdviseError::io(&page))?;
        let mut text = of_load(&advice.load, advice.memory_bytes).join(" ");
        text += "\n\n";
        for sentence in page::sentences(&advice) {
            text += &format!("{sentence}\n");
        }
        text += &format!("\n  {}\n\n", advice.tuning().code(advice.memory_bytes));
        text += &format!("{} has all of it.\n", page.display());
        Ok(text)
    }

    fn fixed(&self) -> Result<Tuning, AdviseError> {
        let mut fixed = Tuning::new();
        for text in &self.set {
            let chosen = fixed.choose(text);
            chosen.map_err(|error| AdviseError::Input(error.to_string()))?;
        }
        match fixed.contradiction() {
            Some(what) => Err(AdviseError::Input(what)),
            None => Ok(fixed),
        }
    }

    fn operations_max(&self) -> u64 {
        let by_time = u64::from(self.seconds) * OPERATIONS_A_SECOND;
        self.operations.unwrap_or(by_time)
    }

    fn source(&self, place: &Path, operations_max: u64) -> Result<Source, AdviseError> {
        let drawn = Drawn {
            scale: self.scale.unwrap_or(SCALE),
            operations_max,
            seed: self.seed.unwrap_or(SEED),
        };
        let mut source = source::source(&self.source, drawn, place)?;
        source.loading = self.load.unwrap_or(source.loading);
        Ok(source)
    }

    fn observed(&self, source: &Source, operations_max: u64) -> Result<load::Load, AdviseError> {
        let reader = reader_of(&source.trace)?;
        let value_bytes = self.value_bytes_of(source);
        let load = load::observe(reader, (source.loading, operations_max), value_bytes);
        let mut load = load.map_err(AdviseError::of_trace(&source.trace))?;
        load.end_is_asked = self.operations.is_some();
        if load.read <= source.loading || load.operations == 0 {
            let what = match source.loading {
                0 => "the trace has no operations".to_owned(),
                loading => format!(
                    "the trace has {} operations, and {loading} of them are said to fill the store: no load is left",
                    load.read
                ),
            };
            return Err(AdviseError::Input(format!("{}: {what}", self.source)));
        }
        load.left_out = self.left_out(source, load.read)?;
        if load.left_out.total() >= load.left_out.operations {
            let each = each_left_out(&load.left_out);
            let what = format!("all operations of the load are left out: {each}");
            return Err(AdviseError::Input(format!("{}: {what}", self.source)));
        }
        Ok(load)
    }

    /// What the replays leave out of the load. `read` operations of the load were read.
    fn left_out(&self, source: &Source, read: u64) -> Result<LeftOut, AdviseError> {
        let settings = ReplaySettings {
            compare: false,
            merges: self.merges.or(source.merges),
            value_bytes: self.value_bytes_of(source) as usize,
            part: Part {
                load: source.loading,
                until: read,
                ..Part::default()
            },
            ..ReplaySettings::default()
        };
        Ok(LeftOut::of(&source.trace, &settings)?)
    }

    /// The bytes of a value whose length the trace does not tell.
    fn value_bytes_of(&self, source: &Source) -> u32 {
        let of_merges = Merges::value_bytes(self.merges.or(source.merges));
        self.value_bytes.unwrap_or(of_merges)
    }

    /// Refuses an option that changes nothing for this load: the user expects that it changes
    /// something.
    fn refuse_idle(&self, source: &Source, load: &load::Load) -> Result<(), AdviseError> {
        let options = [
            (
                "--merges",
                self.merges.is_some() && !load.has_merges,
                "the load has no merges",
            ),
            (
                "--value-bytes",
                self.value_bytes.is_some() && !load.makes_up_values,
                "the load has the length of each value",
            ),
            (
                "--scale",
                self.scale.is_some() && !source.is_drawn,
                "it is for a model, and a trace is used as it is",
            ),
            (
                "--seed",
                self.seed.is_some() && !source.is_drawn,
                "it is for a model, and of a trace nothing is drawn",
            ),
        ];
        match options.iter().find(|(_, is_idle, _)| *is_idle) {
            Some((name, _, why)) => Err(AdviseError::Input(format!(
                "{name} has no effect here: {why}"
            ))),
            None => Ok(()),
        }
    }

    /// The question as facts. Advice and its exhaustive check fit together if all these facts are
    /// equal.
    fn asked(
        &self,
        question: &Question,
        (load, is_drawn): (&load::Load, bool),
    ) -> Vec<(String, String)> {
        let ground = &question.ground;
        let merges = match ground.merges {
            Some(Merges::Counters) => "counters",
            Some(Merges::Appends) => "appends",
            None => "left out",
        };
        let facts = [
            ("source", self.source.clone()),
            ("scale of a model", self.scale.unwrap_or(SCALE).to_string()),
            ("seed of a model", self.seed.unwrap_or(SEED).to_string()),
            ("memory", bytes(question.allowed_bytes)),
            (FACT_OPERATIONS, (load.read - ground.loading).to_string()),
            ("operations that fill the store", ground.loading.to_string()),
            ("merges", merges.to_owned()),
            ("threads", self.threads.to_string()),
            ("durability", self.durability.name().to_owned()),
            ("fixed settings", question.fixed.to_string()),
        ];
        let of_model = |name: &str| name.ends_with("of a model");
        let some = facts.into_iter().filter(|(name, value)| {
            let is_idle = value.is_empty() || (!is_drawn && of_model(name));
            !is_idle
        });
        some.map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// The warnings that come first, as one paragraph.
fn first(said: &[String]) -> String {
    let lines = said.iter().map(|sentence| format!("{sentence}\n"));
    let text: String = lines.collect();
    match said {
        [] => text,
        _ => text + "\n",
    }
}

/// A directory for stores. It is removed when this is dropped.
struct Place(PathBuf);

impl Place {
    fn new(parent: &Path) -> Result<Place, AdviseError> {
        fs::create_dir_all(parent).map_err(AdviseError::io(parent))?;
        let parent = fs::canonicalize(parent).map_err(AdviseError::io(parent))?;
        let path = parent.join(format!("advise-{}", std::process::id()));
        fs::create_dir(&path).map_err(AdviseError::io(&path))?;
        Ok(Place(path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tell!("{} could not be removed: {error}", self.0.display());
        }
    }
}
