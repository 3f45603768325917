//! Replay: asks of a store what a trace says was asked of another one.
//!
//! ```text
//!   trace --> in order of time --> plan: what it is for this store --> lane by hash of the key --> worker --> store
//!                                  (plan.rs)                          one queue per worker          |
//!                                                                     (lanes.rs)                    v
//!                                                                              latencies, differences (report.rs)
//! ```
//! **Order.** All operations of a key are in one lane, in the order in which they began. What writes several keys (a batch, a committed
//! transaction) is done when every lane of its keys has come to it, and these go on when it is done; the deletion of a range takes
//! all lanes, and so does a pop. So each key sees its writes in their order with any number of threads. A scan is in the lane of its first key, and may
//! see writes of other lanes sooner or later than in the trace; its count is compared with one thread alone. The lookup of several
//! keys is as many lookups.
//!
//! **Time.** With a speed an operation is due at its time in the trace, divided by the speed, whether or not the store
//! keeps up: an open loop, whose latencies count from when an operation was due. At most speed each worker begins the next
//! operation when the last one is done, and latencies are the store's.
//!
//! **Keyspaces.** A store of the lab has one. Where the trace names one, keys are as they are; where it names several,
//! each key has its keyspace's number before it, as four bytes that sort.
//!
//! **Merges** are asked where it is said what they do ([`Merges`]): a trace has the operands, and not the operator. A batch or transaction
//! with merges or deletions of ranges is done in parts, in their order.
//!
//! **Savepoints.** What a transaction took back is not done: the trace has the savepoints by number.
//!
//! **What cannot be asked** of the store is counted by kind and left out: scans in reverse and pops of one without
//! [`both ends`](crate::store::Store::both_ends), pops of a sample, merges of which nothing is said, calls without a key, values above
//! 64 MiB. Writes of aborted and refused transactions, and writes that failed in the trace, are not done.

pub mod command;
mod keys;
mod lanes;
mod plan;
mod prepare;
mod report;
mod worker;

#[cfg(test)]
mod tests;

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evendb_trace::{InOrder, Reader};

use crate::opener::Purpose;
use crate::recorder::RunError;
use crate::store::Store;

pub use keys::put_keys;
use lanes::Lanes;
use plan::Planner;
pub use prepare::prepare;
pub use report::{Differences, ReplayReport};
use worker::Worker;

/// The most memory that operations take while they are put in order.
const ORDER_BYTES_MAX: usize = 64 << 20;

/// How fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// So many times as fast as it was recorded.
    Times(f64),
    /// As fast as the store takes it.
    Max,
}

/// What merges do: which purpose the store was opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Merges {
    /// They add to numbers of 8 bytes
    Counters,
    /// They append to values
    Appends,
}

impl Merges {
    /// What a store is to be opened for.
    #[must_use]
    pub fn purpose(self) -> Purpose {
        match self {
            Merges::Counters => Purpose::Counters,
            Merges::Appends => Purpose::Appends,
        }
    }
}

/// How a trace is replayed.
#[derive(Clone, Copy, Debug)]
pub struct ReplaySettings {
    /// How fast.
    pub speed: Speed,
    /// Threads that ask.
    pub threads: usize,
    /// Whether results are compared with those in the trace.
    pub compare: bool,
    /// The length of values of which the trace says none.
    pub value_bytes: usize,
    /// What merges do; without it they are left out.
    pub merges: Option<Merges>,
}

impl Default for ReplaySettings {
    fn default() -> Self {
        Self {
            speed: Speed::Max,
            threads: 1,
            compare: true,
            value_bytes: 100,
            merges: None,
        }
    }
}

/// Replays what `reader` gives on `store`, until the end or until `stop` is raised.
///
/// # Errors
/// The store's first error; `Input` if the trace cannot be read any more.
pub fn replay<R: Read>(
    reader: Reader<R>,
    store: &dyn Store,
    settings: &ReplaySettings,
    stop: &AtomicBool,
) -> Result<ReplayReport, RunError> {
    let threads = settings.threads.max(1);
    let (lanes, queues) = Lanes::new(threads);
    let failed = AtomicBool::new(false);
    let mut planner = Planner::new(reader.keyspaces(), reader.header().one_in, settings, store);
    let mut ordered = InOrder::new(reader, ORDER_BYTES_MAX);
    let started = Instant::now();
    let mut report = thread::scope(|scope| {
        let workers: Vec<_> = queues
            .into_iter()
            .map(|queue| {
                let worker = Worker::new(store, settings, started, (&failed, stop));
                scope.spawn(move || worker.run(queue))
            })
            .collect();
        let read = feed(&mut ordered, &mut planner, lanes, &[stop, &failed]);
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
    report.late_in_trace = ordered.late();
    report.losses = ordered.reader().losses();
    if let Speed::Times(speed) = settings.speed {
        let nanos = planner.last_nanos() as f64 / speed;
        report.intended = Some(Duration::from_nanos(nanos as u64));
    }
    planner.finish(&mut report);
    Ok(report)
}

/// Gives all operations to the lanes.
fn feed<R: Read>(
    ordered: &mut InOrder<R>,
    planner: &mut Planner,
    mut lanes: Lanes,
    stops: &[&AtomicBool; 2],
) -> Result<(), RunError> {
    for operation in ordered.by_ref() {
        let operation = operation.map_err(|error| RunError::Input(error.to_string()))?;
        planner.take(operation, &mut lanes);
        let is_stopped = || stops.iter().any(|stop| stop.load(Ordering::Relaxed));
        if is_stopped() || !lanes.pass_on(&is_stopped) {
            break;
        }
    }
    lanes.finish();
    Ok(())
}
