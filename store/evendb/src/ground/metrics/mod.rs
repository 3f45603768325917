//! Counters of the engine's work, and the [`Stats`] that a user reads: [`table`] has a row for each
//! number.
//!
//! Counters on the read path are striped over cache lines, so that two threads do not write one
//! line; latencies are sampled, one operation in 64 per thread.

mod display;
mod figure;
pub(crate) mod pauses;
mod table;

pub use figure::{Figure, FigureKind, FigureUnit};
use table::Group;
pub(crate) use table::Metrics;
pub use table::{GetStats, MemoryStats, PauseStats, SpaceStats, Stats, WaitStats, WrittenStats};

use crossbeam_utils::CachePadded;
use pauses::Latencies;
use std::cell::Cell;
use std::time::Instant;
// Not atomics of the seam: counters order nothing, so they are no steps of a schedule.
#[cfg(not(evendb_shuttle))]
use crate::sync::atomic::{AtomicU64, Ordering};
#[cfg(evendb_shuttle)]
use std::sync::atomic::{AtomicU64, Ordering};

const STRIPES: usize = 8;

thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
    static TICK: Cell<u32> = const { Cell::new(0) };
}

static NEXT_STRIPE: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

fn stripe() -> usize {
    STRIPE.with(|stripe| {
        if stripe.get() == usize::MAX {
            // Relaxed: any distribution of threads over stripes is correct.
            stripe.set(NEXT_STRIPE.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % STRIPES);
        }
        stripe.get()
    })
}

/// A counter that many threads add to.
#[derive(Debug, Default)]
pub(crate) struct Counter(Box<[CachePadded<AtomicU64>; STRIPES]>);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        // Relaxed: counters order nothing.
        self.0[stripe()].fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0
            .iter()
            .map(|stripe| stripe.load(Ordering::Relaxed))
            .sum()
    }
}

/// Starts a clock for one operation in 64 of this thread.
#[inline]
pub(crate) fn sample() -> Option<Instant> {
    // A schedule must not depend on the number of operations before it.
    if cfg!(evendb_shuttle) {
        return None;
    }
    TICK.with(|tick| {
        let n = tick.get().wrapping_add(1);
        tick.set(n);
        n.is_multiple_of(64).then(Instant::now)
    })
}

/// Which component answered a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Component {
    Delta = 0,
    Munk = 1,
    RowCache = 2,
    Log = 3,
    Sstable = 4,
    Absent = 5,
}

impl Component {
    /// The components with their names in figures.
    const ALL: [(Component, &str); 6] = [
        (Component::Delta, "delta"),
        (Component::Munk, "munk"),
        (Component::RowCache, "row_cache"),
        (Component::Log, "log"),
        (Component::Sstable, "sstable"),
        (Component::Absent, "absent"),
    ];

    fn is_on_disk(self) -> bool {
        matches!(self, Component::Log | Component::Sstable)
    }
}

#[derive(Debug, Default)]
pub(crate) struct ComponentCounter {
    count: Counter,
    sampled: Counter,
    nanos: Counter,
    /// Latencies of the sampled gets, and of all searches of the disk.
    latencies: Latencies,
}

impl Metrics {
    #[inline]
    pub(crate) fn served(&self, component: Component, started: Option<Instant>) {
        let counter = &self.gets[component as usize];
        counter.count.add(1);
        if let Some(started) = started {
            let nanos = started.elapsed().as_nanos() as u64;
            counter.sampled.add(1);
            counter.nanos.add(nanos);
            self.pauses.get(nanos);
            // Components on disk note each of their searches.
            if !component.is_on_disk() {
                counter.latencies.record(nanos);
            }
        }
    }

    /// Notes a search of the disk that took this number of nanoseconds; this component had the
    /// answer.
    pub(crate) fn searched(&self, component: Component, nanos: u64) {
        if component.is_on_disk() {
            self.gets[component as usize].latencies.record(nanos);
        }
    }

    /// Latencies by component: upper ends of steps in nanoseconds, and the number of gets or
    /// searches in each.
    pub(crate) fn get_latencies(&self) -> Vec<(&'static str, Vec<(u64, u64)>)> {
        let of = |(component, name)| {
            let counter: &ComponentCounter = &self.gets[component as usize];
            (name, counter.latencies.counts())
        };
        Component::ALL.map(of).to_vec()
    }

    /// The number of operations so far.
    pub(crate) fn operations(&self) -> u64 {
        let gets: u64 = self.gets.iter().map(|counter| counter.count.get()).sum();
        gets + self.writes() + self.scanned_records.get()
    }

    /// The number of records put or deleted.
    pub(crate) fn writes(&self) -> u64 {
        self.puts.get() + self.deletes.get() + self.range_deletes.get()
    }

    /// A number that changes whenever reorganisation or a checkpoint has done something.
    pub(crate) fn jobs_done(&self) -> u64 {
        let jobs = [
            &self.rebalances,
            &self.splits,
            &self.absorbs,
            &self.log_merges,
            &self.checkpoints,
        ];
        jobs.iter().map(|jobs| jobs.get()).sum()
    }

    fn component(&self, component: Component) -> (u64, u64) {
        let counter = &self.gets[component as usize];
        let sampled = counter.sampled.get();
        (
            counter.count.get(),
            counter.nanos.get().checked_div(sampled).unwrap_or(0),
        )
    }

    /// Fills in the figures, with the waits of admission: room, pace, debt.
    pub(crate) fn fill(&self, stats: &mut Stats, admission: [WaitStats; 3]) {
        stats.read(self);
        let gets = &mut stats.gets;
        (gets.delta, gets.delta_nanos) = self.component(Component::Delta);
        (gets.munk, gets.munk_nanos) = self.component(Component::Munk);
        (gets.row_cache, gets.row_cache_nanos) = self.component(Component::RowCache);
        (gets.log, gets.log_nanos) = self.component(Component::Log);
        (gets.sstable, gets.sstable_nanos) = self.component(Component::Sstable);
        (gets.absent, gets.absent_nanos) = self.component(Component::Absent);
        stats.pauses = self.pauses.stats(admission);
        stats.put_pause_nanos_max = stats.pauses.put_nanos_max;
        stats.get_pause_nanos_max = stats.pauses.get_nanos_max;
    }
}
