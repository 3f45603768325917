//! Replay: asks a store the operations that a trace recorded at another one.
//!
//! ```text
//!   trace --> in order of time --> plan: what it is for this store --> lane by hash of the key
//!                                  (plan)                                    |
//!       store <-- worker <-- one queue per worker (lanes.rs) <---------------+
//!                   |
//!                   +--> latencies, differences (report.rs)
//! ```
//! **Order.** All operations of a key are in one lane, in the order in which they began. An
//! operation that writes several keys (a batch, a committed transaction) is done when every lane of
//! its keys has come to it, and these lanes go on when it is done. The deletion of a range takes
//! all lanes, and so does a pop. So each key sees its writes in their order with any number of
//! threads. A scan is in the lane of its first key, and may see writes of other lanes sooner or
//! later than in the trace; its count is compared only with a single thread. A lookup of several
//! keys becomes that number of lookups.
//!
//! **Time.** With a speed an operation is due at its time in the trace, divided by the speed,
//! whether or not the store keeps up: an open loop, whose latencies count from when an operation
//! was due. A trace without times is refused then; with times of whole seconds, the operations of a
//! second come evenly spread over it. At most speed each worker begins the next operation when the
//! last one is done, and latencies are the store's.
//!
//! **Keyspaces.** A store of the lab has one. If the trace names one, keys are unchanged. If it
//! names several, each key has its keyspace's number before it, as four bytes that sort. Names that
//! come within the trace count too, if the caller has looked for them before
//! ([`ReplaySettings::several_keyspaces`]).
//!
//! **Merges** are asked if the caller says what they do ([`Merges`]): a trace has the operands, and
//! not the operator. A batch or transaction with merges or deletions of ranges is done in parts, in
//! their order.
//!
//! **Savepoints.** What a transaction took back is not done: the trace has the savepoints by
//! number.
//!
//! **A part of a trace** ([`Part`]) is replayed on a store that has done the operations before it.
//! Operations are first passed over, then done and not counted, then counted. A transaction that
//! began among the operations that are passed over, and ends after them, is done whole.
//!
//! **Times to live** end by the time of the trace: a value is deleted when the trace comes to the
//! moment at which it expired.
//!
//! **Scans of unknown length**, as in traces of RocksDB, ask for the number of records in the
//! settings ([`ReplaySettings::scan_length`]).
//!
//! **What cannot be asked** of the store is counted by kind and left out: scans in reverse and pops
//! on a store without [`both ends`](crate::store::Store::both_ends), pops of a sample, merges if
//! the caller does not say what they do, calls without a key, values above 64 MiB, keyspaces
//! without a name. If that is more than a hundredth of the trace, the report says so first. Writes
//! of aborted and refused transactions, and writes that failed in the trace, are not done.

mod age;
pub mod command;
mod expiry;
mod keys;
mod lanes;
mod plan;
mod prepare;
mod report;
mod table;
mod values;
mod work;
mod worker;

#[cfg(test)]
mod tests;

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evendb_trace::{InOrder, Operation, Reader, Times};

use crate::opener::Purpose;
use crate::purposes::COUNTER_BYTES;
use crate::recorder::RunError;
use crate::store::Store;

pub use age::age;
pub(crate) use keys::list_in;
pub use keys::{paired, put_key_files, put_keys};
use lanes::{Lanes, to_lanes};
use plan::Planner;
pub(crate) use plan::key_in_store;
pub use prepare::{Prepared, prepare};
pub use report::{Differences, ReplayReport};
use worker::Worker;
pub(crate) use worker::make_value;

/// The bytes of a value whose length the trace does not tell, by default.
const VALUE_BYTES: u32 = 100;

/// The highest number of bytes for operations that wait to be put in order.
const ORDER_BYTES_MAX: usize = 64 << 20;

/// The speed of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// The recorded speed multiplied by this.
    Times(f64),
    /// As fast as the store takes it.
    Max,
}

/// What merges do: the purpose for which the store was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Merges {
    /// They add to numbers of 8 bytes
    Counters,
    /// They append to values
    Appends,
}

impl Merges {
    /// The purpose for which a store must be opened.
    #[must_use]
    pub fn purpose(self) -> Purpose {
        match self {
            Merges::Counters => Purpose::Counters,
            Merges::Appends => Purpose::Appends,
        }
    }

    /// The default for the bytes of a value whose length the trace does not tell. If merges add to
    /// counters, the bytes of a counter.
    #[must_use]
    pub fn value_bytes(merges: Option<Merges>) -> u32 {
        match merges {
            Some(Merges::Counters) => COUNTER_BYTES as u32,
            Some(Merges::Appends) | None => VALUE_BYTES,
        }
    }
}

/// How a trace is replayed.
#[derive(Clone, Copy, Debug)]
pub struct ReplaySettings {
    /// The speed.
    pub speed: Speed,
    /// Threads that ask.
    pub threads: usize,
    /// Whether results are compared with the results in the trace.
    pub compare: bool,
    /// The length of values whose length the trace does not tell.
    pub value_bytes: usize,
    /// The percentage of a value that is made up which compresses to next to nothing.
    pub compressible: u8,
    /// Records that a scan asks for if the trace does not tell its length.
    pub scan_length: u64,
    /// The trace has several keyspaces, also if its header names fewer
    /// ([`evendb_trace::keyspaces_of`]).
    pub several_keyspaces: bool,
    /// What merges do; without it they are left out.
    pub merges: Option<Merges>,
    /// The part of the trace.
    pub part: Part,
    /// The highest number of bytes for operations that wait to be put in order.
    pub order_bytes: usize,
}

/// A part of a trace, by numbers of operations in the order of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// This number of operations at the beginning fills the store: [`prepare`] does what they
    /// write, and a replay passes over them.
    pub load: u64,
    /// This number of operations is passed over first.
    pub skip: u64,
    /// This number of operations is done next, and not counted.
    pub warm: u64,
    /// The trace ends after this number of all its operations.
    pub until: u64,
}

impl Default for Part {
    fn default() -> Self {
        Self {
            load: 0,
            skip: 0,
            warm: 0,
            until: u64::MAX,
        }
    }
}

impl Default for ReplaySettings {
    fn default() -> Self {
        Self {
            speed: Speed::Max,
            threads: 1,
            compare: true,
            value_bytes: VALUE_BYTES as usize,
            compressible: 0,
            scan_length: 1,
            several_keyspaces: false,
            merges: None,
            part: Part::default(),
            order_bytes: ORDER_BYTES_MAX,
        }
    }
}

/// Whether keys have their keyspace's number before them in the store.
fn has_several_keyspaces<R: Read>(reader: &Reader<R>, settings: &ReplaySettings) -> bool {
    settings.several_keyspaces || reader.keyspaces().len() > 1
}

/// Replays what `reader` gives on `store`, until the end or until `stop` is raised.
///
/// # Errors
/// The store's first error; `Input` if the trace cannot be read any more, or ends among the
/// operations that are passed over.
pub fn replay<R: Read>(
    reader: Reader<R>,
    store: &dyn Store,
    settings: &ReplaySettings,
    stop: &AtomicBool,
) -> Result<ReplayReport, RunError> {
    let times = reader.header().times;
    if times == Times::Order && matches!(settings.speed, Speed::Times(_)) {
        let why = "the trace has no times, so it has no speed: its operations are only in their order (--speed max asks them so)";
        return Err(RunError::Input(why.to_owned()));
    }
    let mut planner = Planner::new(&reader, settings, store);
    let mut source = Source {
        ordered: InOrder::new(reader, settings.order_bytes),
        left: settings.part.until,
    };
    let Part {
        load, skip, warm, ..
    } = settings.part;
    let skip = skip.max(load);
    for number in 0..skip {
        let Some(passed) = source.next(u64::MAX) else {
            return Err(RunError::Input(format!(
                "the trace ends after {number} operations, and {skip} are to be passed over (--load, --skip)"
            )));
        };
        // A transaction that ends after them is done whole, and values that they put for a time
        // must still expire.
        planner.take(passed?, &mut |_| {});
    }
    let run = Run {
        store,
        settings,
        stop,
    };
    if skip > 0 {
        planner.begin_anew();
    }
    if warm > 0 {
        run.pass(&mut source, &mut planner, warm)?;
        planner.begin_anew();
    }
    let mut report = run.pass(&mut source, &mut planner, u64::MAX)?;
    report.times = times;
    report.late_in_trace = source.ordered.late();
    report.losses = source.ordered.reader().losses();
    if let Speed::Times(speed) = settings.speed {
        let nanos = planner.last_nanos() as f64 / speed;
        report.intended = Some(Duration::from_nanos(nanos as u64));
    }
    planner.finish(&mut report);
    Ok(report)
}

/// The operations of the part that is replayed.
struct Source<R> {
    ordered: InOrder<R>,
    /// The number of operations that are left.
    left: u64,
}

impl<R: Read> Source<R> {
    /// The next one, if `at_most` is not 0.
    fn next(&mut self, at_most: u64) -> Option<Result<Operation, RunError>> {
        if self.left.min(at_most) == 0 {
            return None;
        }
        self.left -= 1;
        let operation = self.ordered.next()?;
        Some(operation.map_err(RunError::from))
    }
}

struct Run<'a> {
    store: &'a dyn Store,
    settings: &'a ReplaySettings,
    stop: &'a AtomicBool,
}

impl Run<'_> {
    /// Has this number of operations done, by threads that begin and end with them.
    fn pass<R: Read>(
        &self,
        source: &mut Source<R>,
        planner: &mut Planner,
        operations: u64,
    ) -> Result<ReplayReport, RunError> {
        let (lanes, queues) = Lanes::new(self.settings.threads.max(1));
        let failed = AtomicBool::new(false);
        let started = Instant::now();
        let mut report = thread::scope(|scope| {
            let workers: Vec<_> = queues
                .into_iter()
                .map(|queue| {
                    let flags = (&failed, self.stop);
                    let worker = Worker::new(self.store, self.settings, started, flags);
                    scope.spawn(move || worker.run(queue))
                })
                .collect();
            let read = feed((source, operations), planner, lanes, &[self.stop, &failed]);
            let mut report = ReplayReport::default();
            let mut first_error = read.err();
            for worker in workers {
                match worker.join() {
                    Ok(Ok(part)) => report.add(part),
                    Ok(Err(error)) => first_error = Some(first_error.unwrap_or(error.into())),
                    Err(_) => first_error = Some(RunError::Panicked),
                }
            }
            first_error.map_or(Ok(report), Err)
        })?;
        report.duration = started.elapsed();
        report.threads = self.settings.threads.max(1);
        Ok(report)
    }
}

/// Gives this number of operations to the lanes.
fn feed<R: Read>(
    (source, operations): (&mut Source<R>, u64),
    planner: &mut Planner,
    mut lanes: Lanes,
    stops: &[&AtomicBool; 2],
) -> Result<(), RunError> {
    let mut left = operations;
    while let Some(operation) = source.next(left) {
        left -= 1;
        planner.take(operation?, &mut |work| to_lanes(work, &mut lanes));
        let is_stopped = || stops.iter().any(|stop| stop.load(Ordering::Relaxed));
        if is_stopped() || !lanes.pass_on(&is_stopped) {
            break;
        }
    }
    lanes.finish();
    Ok(())
}
