//! The state that is kept between two looks at the figures.
//!
//! Thread safety: any thread; the mutexes are leaves, held during a look.

#[cfg(feature = "metrics")]
use super::export;
use super::live::StatsFile;
use crate::sync::Mutex;
use std::time::Instant;

/// The state of the looks.
pub(crate) struct Observer {
    pub(crate) opened: Instant,
    /// The values of counters that the `metrics` facade got last.
    #[cfg(feature = "metrics")]
    pub(crate) published: Mutex<export::Published>,
    /// The state of the observing thread.
    pub(crate) state: Mutex<ObserverState>,
}

#[derive(Default)]
pub(crate) struct ObserverState {
    pub(crate) target: Target,
    /// The number of the last writing.
    pub(crate) sequence: u64,
    /// The last writing said that no next one was due.
    pub(crate) was_last: bool,
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

/// The state of the file.
#[derive(Default)]
pub(crate) enum Target {
    /// No look has been made yet.
    #[default]
    Untried,
    File(StatsFile),
    /// It could not be created: figures go to the recorder of metrics only.
    None,
    /// There are no figures any more.
    Ended,
}
