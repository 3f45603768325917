//! What must be remembered between two looks at the figures.
//!
//! Thread safety: any; the mutexes are leaves, held over a look.

#[cfg(feature = "metrics")]
use super::export;
use super::live::StatsFile;
use crate::sync::Mutex;
use std::time::Instant;

/// What of the looking must be remembered.
pub(crate) struct Observer {
    pub(crate) opened: Instant,
    /// Counters as they were last given to the `metrics` facade.
    #[cfg(feature = "metrics")]
    pub(crate) published: Mutex<export::Published>,
    /// Of who looks.
    pub(crate) state: Mutex<ObserverState>,
}

#[derive(Default)]
pub(crate) struct ObserverState {
    pub(crate) target: Target,
    /// Of the last writing.
    pub(crate) sequence: u64,
    /// It said that no next one was due.
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

/// The file, as far as it is there.
#[derive(Default)]
pub(crate) enum Target {
    /// Nobody has looked yet.
    #[default]
    Untried,
    File(StatsFile),
    /// It could not be created: figures go to the recorder of metrics only.
    None,
    /// There are no figures any more.
    Ended,
}
