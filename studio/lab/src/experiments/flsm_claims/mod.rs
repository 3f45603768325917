//! Experiment `flsm-claims`: the claims of the slides on PebblesDB's design, as commands, for every
//! store that is there.
//!
//! ```text
//!   claims (sizes and phases as data) x scale --> for each claim, round and store in turn:
//!        a process (measure, pairs) under a limit of memory, which appends each phase
//!        to DIR/results.jsonl
//!   after each step: DIR/report.md; again with the same DIR: what is finished is not run again
//! ```
//! Stores of a claim take turns within a round, all at one level of durability. The debt of a phase
//! is charged to its rate, so a store gains nothing by leaving work for later.
//!
//! Thread safety: one run at a time in a directory; a lock refuses others. Not here: adapters; the
//! slides' aged file system.

mod claims;
mod measure;
mod pairs;
mod report;
#[cfg(test)]
mod tests;

use super::paper::parse_scale;
use super::results_file::ResultsFile;
use super::steps::{Owner, Runner, Step, begun_with, data_directory, minutes};
use super::{Failure, machine, processes};
use crate::opener::{Durability, Opener, Settings, Variant};
use claims::{CLAIMS, Claim, Phase};
use measure::{Measurement, Method, identity};
use serde_json::{Value, json};
use std::path::PathBuf;

/// The stores that are measured if the user names none, and if they are there.
const STORES: [&str; 8] = [
    "evendb",
    "guards",
    "guards-1",
    "pebblesdb",
    "rocksdb",
    "rocksdb-tuned",
    "leveldb",
    "fjall",
];

/// The arguments of `experiment flsm-claims`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    /// Where results.jsonl (a line for each measurement), report.md and for a while the stores are
    /// written; a run that was interrupted goes on there
    #[arg(long)]
    out: PathBuf,
    /// The claims; all if not given (--list has them)
    #[arg(long, value_delimiter = ',')]
    claims: Vec<String>,
    /// The stores; if not given, the ones that are there of evendb, guards, guards-1 (one file per
    /// guard: a leveled tree), pebblesdb, rocksdb, rocksdb-tuned, leveldb and fjall
    #[arg(long, value_delimiter = ',')]
    stores: Vec<String>,
    /// The scale of pairs and memory; the slides' machine had 16 GiB: a number, or as 1/64
    #[arg(long, value_parser = parse_scale, default_value = "1/64")]
    scale: f64,
    /// The number of rounds; figures are their medians
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// The longest time of a phase, in seconds; phases that later phases build on end when they are
    /// done
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    /// The longest time of a phase that must finish, in minutes
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// What an acknowledged put survives
    #[arg(long, value_enum, default_value_t)]
    durability: Durability,
    /// The KiB of a write buffer, the same for all stores, instead of each store's own choice.
    /// Write amplification of a tree grows with the number of write buffers that the data is; the
    /// slides' 72 GB are 1,125 of RocksDB's default, and at a 64th that takes 1024 KiB
    #[arg(long)]
    write_buffer_kib: Option<u64>,
    /// The seed of keys, values and operations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Set no limit on memory: stores are told of it all the same
    #[arg(long)]
    no_memory_limit: bool,
    /// Only list the claims, and what they will take
    #[arg(long)]
    list: bool,
    /// Only for the processes that this one starts: measure STORE:ROUND:CLAIM
    #[arg(long, hide = true)]
    child: Option<String>,
}

/// For the estimate of a phase that must finish: operations a second, and bytes a second.
const OPERATIONS_PER_SECOND: f64 = 80e3;
const BYTES_PER_SECOND: f64 = 40e6;

impl Arguments {
    /// Runs the experiment. As a child process, runs a part of it.
    ///
    /// # Errors
    /// Bad arguments, another run in the directory, or that something could not be measured.
    pub fn run(&self, openers: &[Box<dyn Opener>]) -> Result<(), Failure> {
        match &self.child {
            Some(child) => self.measure(openers, child),
            None => self.compare(openers),
        }
    }

    fn claims(&self) -> Result<Vec<&'static Claim>, Failure> {
        let named = |name: &String| CLAIMS.iter().find(|claim| claim.name == name);
        if let Some(unknown) = self.claims.iter().find(|name| named(name).is_none()) {
            let known: Vec<_> = CLAIMS.iter().map(|claim| claim.name).collect();
            return Err(format!("no claim `{unknown}`; there are {}", known.join(", ")).into());
        }
        let is_wanted = |claim: &&Claim| {
            self.claims.is_empty() || self.claims.iter().any(|name| name == claim.name)
        };
        Ok(CLAIMS.iter().filter(is_wanted).collect())
    }

    /// The settings that must be equal for results to stand in one file.
    fn settings(&self) -> Value {
        json!({
            "scale": self.scale,
            "seconds": self.seconds,
            "durability": self.durability.name(),
            "seed": self.seed,
            "write_buffer_kib": self.write_buffer_kib,
        })
    }

    fn measure(&self, openers: &[Box<dyn Opener>], child: &str) -> Result<(), Failure> {
        let parts: Vec<&str> = child.split(':').collect();
        let &[store, round, claim] = &parts[..] else {
            return Err("a child is STORE:ROUND:CLAIM".into());
        };
        let opener = openers.iter().find(|opener| opener.name() == store);
        let opener = &**opener.ok_or("no such store")?;
        let claim = CLAIMS.iter().find(|one| one.name == claim);
        let claim = claim.ok_or("no such claim")?;
        let directory = data_directory(&self.out);
        let measurement = Measurement {
            method: &self.method(opener, claim),
            claim,
            opener,
            round: round.parse()?,
            results: &ResultsFile::in_directory(&self.out),
            directory: &directory,
        };
        measurement.run()
    }

    fn method(&self, opener: &dyn Opener, claim: &Claim) -> Method {
        Method {
            settings: Settings {
                memory_bytes: opener.memory_within(claim.memory_bytes(self.scale)),
                durability: self.durability,
            },
            variant: self
                .write_buffer_kib
                .map(|kib| Variant::WriteBufferBytes(kib << 10)),
            scale: self.scale,
            seed: self.seed,
            seconds: self.seconds,
            seconds_max: self.minutes * 60.0,
        }
    }

    fn compare(&self, openers: &[Box<dyn Opener>]) -> Result<(), Failure> {
        let claims = self.claims()?;
        let takes_part = |opener: &dyn Opener| STORES.contains(&opener.name());
        let stores = processes::chosen(&self.stores, openers, takes_part)?;
        let plan = self.plan(&claims, &stores);
        if self.list {
            return self.print(&claims, &plan);
        }
        let _owner = Owner::lock(&self.out)?;
        let results = ResultsFile::in_directory(&self.out);
        let runner = Runner {
            out: &self.out,
            results: &results,
            no_memory_limit: self.no_memory_limit,
        };
        begun_with(&results, &self.settings())?;
        let memory = claims.iter().map(|claim| claim.memory_bytes(self.scale));
        let limit = runner.limit(memory.max().unwrap_or_default());
        results.append(&json!({
            "kind": "run",
            "version": 1,
            "started": machine::now(),
            "settings": self.settings(),
            "stores": stores,
            "memory_limit": limit.map_or_else(|why| format!("none: {why}"), |limit| limit.kind().to_owned()),
            "machine": machine::machine(&self.out),
        }))?;
        let measured = runner.run(&plan, &|| report::write(&self.out));
        // The report also says what could not be measured.
        report::write(&self.out)?;
        say!("{}\n", report::path(&self.out).display())?;
        measured
    }

    fn plan(&self, claims: &[&Claim], stores: &[&str]) -> Vec<Step> {
        let mut plan = Vec::new();
        for claim in claims {
            for round in 0..self.rounds {
                for store in stores {
                    let cells = claim.phases.iter();
                    plan.push(Step {
                        what: claim.name.to_owned(),
                        store: (*store).to_owned(),
                        round,
                        child: format!("{store}:{round}:{}", claim.name),
                        memory_bytes: claim.memory_bytes(self.scale),
                        seconds: self.seconds_of(claim),
                        cells: cells
                            .map(|phase| identity(claim, phase, store, round))
                            .collect(),
                    });
                }
            }
        }
        plan
    }

    fn seconds_of(&self, claim: &Claim) -> f64 {
        let pairs = claim.pairs(self.scale);
        let phase = |phase: &Phase| {
            let operations = phase.work.operations(pairs) as f64;
            let by_bytes = operations * claim.value_bytes() as f64 / BYTES_PER_SECOND;
            let seconds = by_bytes.max(operations / OPERATIONS_PER_SECOND);
            match phase.work.must_finish() {
                true => seconds,
                false => seconds.min(self.seconds),
            }
        };
        claim.phases.iter().map(phase).sum()
    }

    fn print(&self, claims: &[&Claim], plan: &[Step]) -> Result<(), Failure> {
        for claim in claims {
            let pairs = crate::readable::grouped(claim.pairs(self.scale));
            let memory = crate::readable::bytes(claim.memory_bytes(self.scale));
            say!("{}: {pairs} pairs, {memory} of memory\n", claim.name)?;
            say!("  {}\n", claim.says)?;
            for phase in claim.phases {
                say!("  - {}\n", phase.name)?;
            }
        }
        let seconds: f64 = plan.iter().map(|step| step.seconds).sum();
        say!("{} steps, about {}\n", plan.len(), minutes(seconds))?;
        Ok(())
    }
}
