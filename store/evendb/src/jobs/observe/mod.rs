//! Statistics of a running database for observers outside of it.
//!
//! * `Stats::figures`: the statistics as named numbers; all of the following, reports and `evendb
//!   stats` share this one list of names.
//! * [`crate::figures::live`]: the file `STATS`, which the owner of a database keeps up to date and
//!   any process may read while the database is open.
//! * [`crate::figures::export`] (feature `metrics`): the same numbers through the `metrics` facade.
//!
//! A thread of its own, `evendb-stats`, does all of it every [`Options::stats_interval`] while
//! calls come: a checkpoint or a sync must not delay the figures just when they are of interest.
//! The thread reads counters and views, waits for no job, and takes at most one part in
//! [`PART_OF_TIME`] of one core's time. A while after upkeep has begun to rest, the figures are
//! written once more, with a mark that no next writing is due, and the thread ends: nothing
//! changes, and nothing is written, until the next call. A failure or a panic here does not fail
//! the database: then there are no figures.
//!
//! Not here: what is counted ([`crate::metrics`]), and events as they happen ([`crate::trace`]).
//!
//! [`Options::stats_interval`]: crate::Options::stats_interval

pub(crate) mod audit;
pub(crate) mod gather;

use crate::engine::Engine;
use crate::error::ErrorKind;
#[cfg(feature = "metrics")]
use crate::figures::export;
use crate::figures::live::{self, StatsFile, StatsRecord};
use crate::figures::observer::{ObserverState, Target};
#[cfg(feature = "metrics")]
use crate::metrics::Figure;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// The thread rests this number of times as long as it worked, however short the interval: the
/// figures of a database with many thousand chunks take milliseconds.
const PART_OF_TIME: u32 = 200;

/// One look by the thread `evendb-stats`. Returns the time until the next look; `None` if no more
/// looks are due.
pub(crate) fn look(engine: &Engine) -> Option<Duration> {
    let started = Instant::now();
    let interval = engine.core.options.stats_interval;
    let mut state = engine.observer.state.lock();
    // If upkeep rests, it has written the last figures, or is about to.
    if !engine.work.is_resting() && !state.look(engine, interval) {
        return None;
    }
    Some(interval.max(started.elapsed() * PART_OF_TIME))
}

/// The last look for now: upkeep rests, and nothing changes until the next call.
pub(crate) fn last_look(engine: &Engine) {
    engine.observer.state.lock().look(engine, Duration::ZERO);
}

/// Whether the most recent look was the last for now.
pub(crate) fn has_looked_last(engine: &Engine) -> bool {
    engine.observer.state.lock().was_last
}

/// Ends the figures: the database closes, and no thread looks any more.
pub(crate) fn end(engine: &Engine) {
    engine.observer.state.lock().end(engine);
}

impl ObserverState {
    /// Whether there will be more figures.
    fn look(&mut self, engine: &Engine, interval: Duration) -> bool {
        if engine.core.options.stats_interval.is_zero() || matches!(self.target, Target::Ended) {
            return false;
        }
        // A recorder is the application's code and may panic; the database goes on without figures.
        let looked = catch_unwind(AssertUnwindSafe(|| {
            if matches!(self.target, Target::Untried) {
                let file = StatsFile::create(&*engine.disk.vfs, &engine.disk.dir);
                self.target = file.map_or(Target::None, Target::File);
            }
            self.observe(engine, interval);
        }));
        self.was_last = interval.is_zero();
        // Another process may own the directory by now.
        if looked.is_err() || disowned(engine) {
            self.end(engine);
            return false;
        }
        true
    }

    fn end(&mut self, engine: &Engine) {
        let target = std::mem::replace(&mut self.target, Target::Ended);
        if matches!(target, Target::File(_) | Target::None) && !disowned(engine) {
            live::remove(&*engine.disk.vfs, &engine.disk.dir);
        }
    }

    /// Writes the figures into the file, and gives them to the recorder of metrics.
    fn observe(&mut self, engine: &Engine, interval: Duration) {
        let figures = gather::stats(engine).figures();
        if let Target::File(file) = &mut self.target {
            self.sequence += 1;
            file.write(&StatsRecord {
                sequence: self.sequence,
                interval,
                uptime: engine.observer.opened.elapsed(),
                failure: engine.core.health.failure().map(ToString::to_string),
                figures: &figures,
            });
        }
        #[cfg(feature = "metrics")]
        publish(engine, &figures);
    }
}

fn disowned(engine: &Engine) -> bool {
    engine
        .core
        .health
        .failure()
        .is_some_and(|cause| cause.kind() == ErrorKind::Locked)
}

/// Gives the figures to the recorder of metrics of this process or thread.
#[cfg(feature = "metrics")]
pub(crate) fn publish_metrics(engine: &Engine) {
    publish(engine, &gather::stats(engine).figures());
}

#[cfg(feature = "metrics")]
fn publish(engine: &Engine, figures: &[Figure]) {
    let label = engine.disk.dir.display().to_string();
    let mut published = engine.observer.published.lock();
    export::publish(figures, &label, &mut published);
}
