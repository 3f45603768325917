//! Looking inside a running database from outside of it.
//!
//! * [`figures`]: the statistics as named numbers, the one list of names that all of the following,
//!   reports and `evendb stats` share.
//! * [`live`]: the file `STATS`, which the owner of a database keeps up to date and any process may
//!   read while the database is open.
//! * [`export`] (feature `metrics`): the same numbers through the `metrics` facade.
//!
//! All of it is done by a thread of its own, `evendb-stats`, every [`Options::stats_interval`] while
//! calls come: a checkpoint or a sync must not hold the figures up just when they are of interest. It
//! reads counters and views, waits for no job, and takes at most a part in [`PART_OF_TIME`] of one core.
//! A while after upkeep has begun to rest it writes them once more, with a mark that no next writing is
//! due, and ends: nothing changes, and nothing is written, until the next call. Nothing that fails or
//! panics here fails the database: then there are no figures.
//!
//! Not here: what is counted ([`crate::metrics`]), and events as they happen ([`crate::trace`]).
//!
//! [`Options::stats_interval`]: crate::Options::stats_interval

#[cfg(feature = "metrics")]
mod export;
pub(crate) mod figures;
pub(crate) mod live;

use crate::engine::Engine;
use crate::error::ErrorKind;
use crate::sync::Mutex;
use live::{Record, StatsFile};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// The thread rests this many times as long as it worked, however short the interval: a database of
/// many thousand chunks takes milliseconds to look at.
const PART_OF_TIME: u32 = 200;

/// What of the looking must be remembered.
pub(crate) struct Observer {
    opened: Instant,
    /// Counters as they were last given to the `metrics` facade.
    #[cfg(feature = "metrics")]
    published: Mutex<export::Published>,
    /// Of who looks.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    target: Target,
    /// Of the last writing.
    sequence: u64,
    /// It said that no next one was due.
    was_last: bool,
}

impl Default for Observer {
    fn default() -> Observer {
        Observer {
            opened: Instant::now(),
            #[cfg(feature = "metrics")]
            published: Mutex::default(),
            state: Mutex::default(),
        }
    }
}

/// The file, as far as it is there.
#[derive(Default)]
enum Target {
    /// Nobody has looked yet.
    #[default]
    Untried,
    File(StatsFile),
    /// It could not be created: figures go to the recorder of metrics only.
    None,
    /// There are no figures any more.
    Ended,
}

/// One look by the thread `evendb-stats`; after what time the next one is due. None if there are to be
/// none any more.
pub(crate) fn look(engine: &Engine) -> Option<Duration> {
    let started = Instant::now();
    let interval = engine.options.stats_interval;
    let mut state = engine.observer.state.lock();
    // Upkeep has written all there is to say, or is about to.
    if !engine.work.is_resting() && !state.look(engine, interval) {
        return None;
    }
    Some(interval.max(started.elapsed() * PART_OF_TIME))
}

/// The last look for now: upkeep rests, and nothing changes until the next call.
pub(crate) fn last_look(engine: &Engine) {
    engine.observer.state.lock().look(engine, Duration::ZERO);
}

/// Whether the last look that there was has been the last for now.
pub(crate) fn has_looked_last(engine: &Engine) -> bool {
    engine.observer.state.lock().was_last
}

/// The database closes, and no thread looks any more.
pub(crate) fn end(engine: &Engine) {
    engine.observer.state.lock().end(engine);
}

impl State {
    /// Whether there are figures still.
    fn look(&mut self, engine: &Engine, interval: Duration) -> bool {
        if engine.options.stats_interval.is_zero() || matches!(self.target, Target::Ended) {
            return false;
        }
        // A recorder is the application's code and may panic; the database goes on without figures.
        let looked = catch_unwind(AssertUnwindSafe(|| {
            if matches!(self.target, Target::Untried) {
                let file = StatsFile::create(&*engine.vfs, &engine.dir);
                self.target = file.map_or(Target::None, Target::File);
            }
            self.observe(engine, interval);
        }));
        self.was_last = interval.is_zero();
        // Somebody else may own the directory by now.
        if looked.is_err() || disowned(engine) {
            self.end(engine);
            return false;
        }
        true
    }

    fn end(&mut self, engine: &Engine) {
        let target = std::mem::replace(&mut self.target, Target::Ended);
        if matches!(target, Target::File(_) | Target::None) && !disowned(engine) {
            live::remove(&*engine.vfs, &engine.dir);
        }
    }

    /// Into the file, and to the recorder of metrics.
    fn observe(&mut self, engine: &Engine, interval: Duration) {
        let figures = engine.stats().figures();
        if let Target::File(file) = &mut self.target {
            self.sequence += 1;
            file.write(&Record {
                sequence: self.sequence,
                interval,
                uptime: engine.observer.opened.elapsed(),
                failure: engine.failure().map(ToString::to_string),
                figures: &figures,
            });
        }
        #[cfg(feature = "metrics")]
        engine.publish(&figures);
    }
}

fn disowned(engine: &Engine) -> bool {
    engine
        .failure()
        .is_some_and(|cause| cause.kind() == ErrorKind::Locked)
}

#[cfg(feature = "metrics")]
impl Engine {
    /// Gives the figures to the recorder of metrics that this process or thread has.
    pub(crate) fn publish_metrics(&self) {
        self.publish(&self.stats().figures());
    }

    fn publish(&self, figures: &[figures::Figure]) {
        let label = self.dir.display().to_string();
        let mut published = self.observer.published.lock();
        export::publish(figures, &label, &mut published);
    }
}
