//! Looking inside a running database from outside of it.
//!
//! * [`figures`]: the statistics as named numbers, the one list of names that all of the following,
//!   reports and `evendb stats` share.
//! * [`live`]: the file `STATS`, which the owner of a database keeps up to date and any process may
//!   read while the database is open.
//! * [`export`] (feature `metrics`): the same numbers through the `metrics` facade.
//!
//! All of it is done by a thread of its own, `evendb-stats`, every [`Options::stats_interval`]: a
//! checkpoint or a sync must not hold the figures up just when they are of interest. It reads
//! counters and views, waits for no job, and takes at most a part in [`PART_OF_TIME`] of one core.
//! Nothing that fails or panics here fails the database: then there are no figures.
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
    /// The file's next sequence number.
    sequence: Mutex<u64>,
}

impl Default for Observer {
    fn default() -> Observer {
        Observer {
            opened: Instant::now(),
            #[cfg(feature = "metrics")]
            published: Mutex::default(),
            sequence: Mutex::new(0),
        }
    }
}

/// The body of the thread `evendb-stats`, until the work is stopped.
pub(crate) fn run(engine: &Engine) {
    // A recorder is the application's code and may panic; the database goes on without figures.
    drop(catch_unwind(AssertUnwindSafe(|| {
        let mut file = StatsFile::create(&*engine.vfs, &engine.dir);
        let mut rest = engine.options.stats_interval;
        loop {
            let started = Instant::now();
            engine.observe(file.as_mut(), rest);
            // Somebody else may own the directory by now.
            if disowned(engine) {
                return;
            }
            rest = engine
                .options
                .stats_interval
                .max(started.elapsed() * PART_OF_TIME);
            if engine.work.wait_for_stop(rest) {
                break;
            }
        }
    })));
    if !disowned(engine) {
        live::remove(&*engine.vfs, &engine.dir);
    }
}

fn disowned(engine: &Engine) -> bool {
    engine
        .failure()
        .is_some_and(|cause| cause.kind() == ErrorKind::Locked)
}

impl Engine {
    /// One look: into the file, and to the recorder of metrics.
    fn observe(&self, file: Option<&mut StatsFile>, interval: Duration) {
        let figures = self.stats().figures();
        if let Some(file) = file {
            let mut sequence = self.observer.sequence.lock();
            *sequence += 1;
            file.write(&Record {
                sequence: *sequence,
                interval,
                uptime: self.observer.opened.elapsed(),
                failure: self.failure().map(ToString::to_string),
                figures: &figures,
            });
        }
        #[cfg(feature = "metrics")]
        self.publish(&figures);
    }

    /// Gives the figures to the recorder of metrics that this process or thread has.
    #[cfg(feature = "metrics")]
    pub(crate) fn publish_metrics(&self) {
        self.publish(&self.stats().figures());
    }

    #[cfg(feature = "metrics")]
    fn publish(&self, figures: &[figures::Figure]) {
        let label = self.dir.display().to_string();
        let mut published = self.observer.published.lock();
        export::publish(figures, &label, &mut published);
    }
}
