//! `--trace` and `--only-trace` of `mixgraph`: the operations that a store was asked, or would be
//! asked, as a trace.

use evendb::placement;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use evendb_model::Workload;
use evendb_model::model::Rate;
use evendb_trace::{Recorder, RecorderHandle, RecorderOptions};

use super::super::{Failure, at};
use crate::mixgraph::Load;
use crate::mixgraph::drawn_trace::{self, Timetable};
use crate::opener::{Opener, Purpose, Settings};
use crate::readable::grouped;
use crate::recorder::RunError;
use crate::store::{Store, StoreResult};
use crate::traced::{self, TracedStore};

/// The traces that are asked for.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Tracing {
    /// Record the measured operations of the first round in this file; threads wait where they are
    /// faster than it is written
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,
    /// Write the keys of all pairs to this file, in hexadecimal digits, a line each, with the
    /// keyspace and a tab before if there are several: --replay-keys and `evendb analyze --keys`
    /// take it
    #[arg(long, value_name = "FILE", requires = "trace")]
    trace_keys: Option<PathBuf>,
    /// Record one key in this number of keys, with all of its operations
    #[arg(
        long,
        value_name = "KEYS",
        default_value_t = 1,
        requires = "trace",
        conflicts_with = "only_trace"
    )]
    trace_one_key_in: u64,
    /// Ask no store: only write the trace that one thread would make. Its operations take the time
    /// of the whole model, at its rate, even if they are few
    #[arg(long, requires = "trace", conflicts_with_all = super::MEASURING)]
    pub(super) only_trace: bool,
    /// Operations a second of --only-trace, instead of the model's rate
    #[arg(long, value_name = "OPERATIONS", requires = "only_trace", conflicts_with = "faster", value_parser = super::parse_rate)]
    per_second: Option<f64>,
}

/// The second file in the text of an error.
const KEYS: &str = "a list of keys";

impl Tracing {
    /// Makes the file of the trace. Fails if that or the list of keys cannot be made.
    fn create(&self) -> Result<Option<File>, Failure> {
        if let Some(path) = &self.trace_keys {
            placement::refuse_output(path, KEYS)?;
        }
        let make = |path: &Path| placement::new_output(path, "a trace");
        Ok(self.trace.as_deref().map(make).transpose()?)
    }

    /// Writes the keys of all pairs, if that is wanted.
    fn write_keys(&self, load: &Load) -> Result<(), Failure> {
        let Some(path) = &self.trace_keys else {
            return Ok(());
        };
        let mut to = BufWriter::with_capacity(1 << 20, placement::new_output(path, KEYS)?);
        let mut write = || {
            let mut key = Vec::new();
            for family in &load.families {
                for pair in 0..family.model.pairs {
                    if load.is_of_several() {
                        write!(to, "{}\t", family.name)?;
                    }
                    family.records.write_key_in_keyspace(pair, &mut key);
                    for byte in &key {
                        write!(to, "{byte:02x}")?;
                    }
                    writeln!(to)?;
                }
            }
            to.flush()
        };
        write().map_err(at(path))
    }

    /// Begins to record the operations of `slot`.
    pub(super) fn begin(
        &self,
        slot: &Arc<RecorderHandle>,
        load: &Load,
    ) -> Result<Option<Recorder>, Failure> {
        let Some(file) = self.create()? else {
            return Ok(None);
        };
        self.write_keys(load)?;
        #[expect(
            clippy::disallowed_methods,
            reason = "when a trace was made is for people"
        )]
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let options = RecorderOptions {
            one_in: self.trace_one_key_in,
            bytes_max: u64::MAX,
            waits: true,
            source: drawn_trace::source(load),
            wall_clock_millis: now.map_or(0, |now| now.as_millis() as u64),
            keyspaces: load.keyspaces(),
            ..RecorderOptions::default()
        };
        let recorder = Recorder::start(slot, file, options);
        Ok(Some(recorder.map_err(|error| self.failed(error))?))
    }

    /// Draws a trace. `whole` is the number of operations of the full model.
    pub(super) fn draw(&self, load: &Arc<Load>, whole: u64) -> Result<(), Failure> {
        let timetable = self.timetable(&load.workload, whole)?;
        let Some(file) = self.create()? else {
            return Ok(());
        };
        self.write_keys(load)?;
        let to = BufWriter::with_capacity(1 << 20, file);
        let written = drawn_trace::write(load, load.workload.operations, timetable, to);
        let note = written.map_err(|error| self.failed(error))?;
        let (operations, seconds) = (grouped(note.recorded), note.duration_nanos as f64 / 1e9);
        tell!("trace: {operations} operations of {seconds:.0} seconds, 0 left out");
        Ok(())
    }

    /// Ends a trace, and prints the outcome.
    pub(super) fn end(&self, recorder: Option<Recorder>) -> Result<(), Failure> {
        let Some(recorder) = recorder else {
            return Ok(());
        };
        let ended = recorder.stop().map_err(|error| self.failed(error))?;
        tell!("{}", traced::told(&ended));
        Ok(())
    }

    /// Why the trace could not be written.
    fn failed(&self, error: evendb_trace::Error) -> RunError {
        let path = self.trace.as_deref().unwrap_or_else(|| Path::new(""));
        RunError::from(error).of_file(path)
    }

    fn timetable(&self, model: &Workload, whole: u64) -> Result<Timetable, Failure> {
        if let Some(per_second) = self.per_second {
            return Ok(Timetable::Even(per_second));
        }
        let Rate { a, b, c, d } = model
            .rate
            .ok_or("the model has no rate: --per-second is needed")?;
        let part = model.operations as f64 / whole as f64;
        let (a, d) = (a * part, d * part);
        Ok(Timetable::Swing(Rate { a, b, c, d }))
    }
}

/// Opens what another opener opens, and records its operations.
pub(super) struct TracedOpener<'o> {
    pub(super) inner: &'o dyn Opener,
    pub(super) slot: Arc<RecorderHandle>,
    /// Several keyspaces lie in the store.
    pub(super) has_keyspaces: bool,
}

impl TracedOpener<'_> {
    fn traced(&self, store: Box<dyn Store>) -> Box<dyn Store> {
        let slot = Arc::clone(&self.slot);
        Box::new(match self.has_keyspaces {
            true => TracedStore::of_keyspaces(store, slot),
            false => TracedStore::new(store, slot),
        })
    }
}

impl Opener for TracedOpener<'_> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn open(
        &self,
        directory: &std::path::Path,
        settings: &Settings,
    ) -> StoreResult<Box<dyn Store>> {
        Ok(self.traced(self.inner.open(directory, settings)?))
    }

    fn open_for(
        &self,
        directory: &std::path::Path,
        settings: &Settings,
        purpose: Purpose,
    ) -> StoreResult<Box<dyn Store>> {
        let store = self.inner.open_for(directory, settings, purpose)?;
        Ok(self.traced(store))
    }
}
