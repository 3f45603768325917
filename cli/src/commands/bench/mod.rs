//! `evendb bench`: the paper's mixes on a fresh store, every read checked.
//!
//! The phases share one store. It is loaded in key order. Then, for each distribution and each mix,
//! there is a warm-up (`Mix::warmed_by`) of a quarter of the phase, and the measured phase. After a
//! phase that writes, the store's debt is settled and charged to it. A phase of puts alone begins
//! on a freshly opened store. D always runs with the `latest` distribution, and once. Instead of
//! load and mixes, an event log can be made or replayed from a file (`event_log.rs`). Instead of
//! the mixes, transactions can be run (`transactions.rs`).
//!
//! With a rate the measured phases are open loops; load and warm-up stay closed ones.

mod arguments;
mod event_log;
pub mod limits;
mod phases;
mod progress;
mod report;
mod text;
mod transactions;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evendb_lab::ideal_cache::DiskReads;
use evendb_lab::traced;
use evendb_trace::{Recorder, RecorderHandle};

pub use arguments::Arguments;
use phases::Bench;

use crate::failure::{Failure, Success};
use crate::interrupt::Interrupt;
use crate::output;

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    arguments.refuse()?;
    let place = StoreDirectory::new(arguments.dir.as_deref())?;
    let interrupt = Interrupt::install()?;
    let slot = Arc::new(RecorderHandle::default());
    let recorder = arguments.begin_trace(&slot)?;
    let open = arguments.opener(place.path(), slot);
    let mut bench = Bench {
        arguments,
        store: open()?,
        open: Box::new(open),
        dataset: arguments.dataset(),
        interrupt: &interrupt,
        disk: DiskReads::new(
            place.path(),
            usize::from(arguments.threads),
            interrupt.flag(),
        ),
        results: Vec::new(),
        planned: 0,
        replayed: None,
        refused: Vec::new(),
    };
    let memory_bytes = bench.memory_bytes();
    let outcome = match (arguments.log.given(), arguments.transactions.given()) {
        (true, _) => arguments.log.run(&mut bench),
        (false, true) => arguments.transactions.run(&mut bench),
        (false, false) => bench.all_phases(),
    };
    let done = bench.close();
    end_trace(recorder)?;
    if let Some(path) = &arguments.json {
        let text = format!("{:#}\n", done.report(arguments, memory_bytes));
        evendb::placement::write_output(path, "a report", &text)?;
    }
    outcome?;
    done.closed?;
    if let Some(sentence) = text::shown(&done.results).filter(|_| !interrupt.raised()) {
        writeln!(output::out(), "{sentence}")?;
    }
    if interrupt.raised() {
        output::complain(&format!(
            "interrupted; {} reported",
            match done.results.len() {
                1 => "1 phase was".to_owned(),
                phases => format!("{phases} phases were"),
            }
        ));
        return Err(Failure::Interrupted);
    }
    if done.replayed.is_some_and(|log| log.bad.count > 0) {
        return Ok(Success::BadLines);
    }
    Ok(Success::Done)
}

/// Ends a trace, and says how it ended.
fn end_trace(recorder: Option<Recorder>) -> Result<(), Failure> {
    let Some(recorder) = recorder else {
        return Ok(());
    };
    let stopped = recorder.stop();
    let summary = stopped.map_err(|error| Failure::new("the trace is not whole", error))?;
    output::complain(&traced::told(&summary));
    Ok(())
}

/// The store's directory; a temporary one is removed when this is dropped.
enum StoreDirectory {
    Given(PathBuf),
    Temporary(tempfile::TempDir),
}

impl StoreDirectory {
    fn new(given: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = given else {
            return tempfile::Builder::new()
                .prefix("evendb-bench-")
                .tempdir()
                .map(Self::Temporary)
                .map_err(|error| Failure::new("cannot make a temporary directory", error));
        };
        if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
            let place = path.display();
            return Err(Failure::Message(format!(
                "{place} is not empty; bench needs a fresh store"
            )));
        }
        Ok(Self::Given(path.to_owned()))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Temporary(directory) => directory.path(),
        }
    }
}
