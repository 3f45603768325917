//! What shuttle tests share: running a scenario under many schedules, and whether one of them
//! fails.
//!
//! A scenario is a whole engine on simulated files and a few threads. It reports a wrong result by
//! [`oracle`]. Another kind of failure does not count as noticing a planted fault, unless the test
//! names its sign. `EVENDB_SCHEDULES` sets the number of schedules, in percent of the usual number.

#[path = "../knobs/mod.rs"]
mod knobs;

use evendb_base::sync::model_reclaim;
use evendb_storage::vfs::SimVfs;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};
use std::cell::RefCell;
use std::path::Path;

/// The beginning of every message of an oracle.
pub(super) const ORACLE: &str = "oracle: ";

/// Fails as an oracle does.
macro_rules! oracle {
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            panic!("{}{}", $crate::shuttle_tests::schedules::ORACLE, format_args!($($message)*));
        }
    };
}
pub(super) use oracle;

/// All files of a directory, with their contents.
pub(super) fn files(vfs: &SimVfs, dir: &str) -> Vec<(String, Vec<u8>)> {
    let dir = Path::new(dir);
    let names = vfs.file_names(dir).into_iter();
    names
        .map(|name| (name.clone(), vfs.read_file(&dir.join(name))))
        .collect()
}

/// The number of schedules to run instead of `usual`.
fn schedules(usual: usize) -> usize {
    let percent = knobs::count_from_env("EVENDB_SCHEDULES", 100) as usize;
    (usual * percent / 100).max(1)
}

/// Makes shuttle set its hook for panics, once and before any other hook is set. If two threads
/// each set one at the same time, one hook would be lost.
fn set_shuttles_hook() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        Runner::new(RandomScheduler::new(1), Config::new()).run(|| {});
    });
}

fn run(
    scheduler: impl Scheduler + 'static,
    quiet: bool,
    scenario: impl Fn() + Send + Sync + 'static,
) {
    set_shuttles_hook();
    let mut config = Config::new();
    config.stack_size = 512 << 10;
    config.silence_warnings = true;
    // The panicking task's stack is unwound later, when nothing is scheduled any more.
    config
        .ungraceful_shutdown_config
        .immediately_return_on_panic = true;
    if quiet {
        config.failure_persistence = shuttle::FailurePersistence::None;
    }
    model_reclaim::reset();
    Runner::new(scheduler, config).run(move || {
        model_reclaim::reset();
        scenario();
        model_reclaim::collect();
    });
    model_reclaim::reset();
}

/// Runs `scenario` under `usual` random schedules, and under the same number with few preemptions:
/// each kind finds faults that the other one hardly ever finds.
pub(super) fn explore(usual: usize, scenario: impl Fn() + Clone + Send + Sync + 'static) {
    run(
        RandomScheduler::new(schedules(usual)),
        false,
        scenario.clone(),
    );
    run(PctScheduler::new(3, schedules(usual)), false, scenario);
}

std::thread_local! {
    /// The message of this thread's first panic since it was emptied.
    static FIRST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps messages of panics: a runner does not always resume with the first one's message.
fn keep_messages() {
    set_shuttles_hook();
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let first = FIRST_PANIC.with_borrow_mut(|first| {
                let empty = first.is_empty();
                if empty {
                    *first = info.to_string();
                }
                empty
            });
            if first {
                previous(info);
            }
        }));
    });
}

/// Whether one of up to `most` schedules makes the scenario fail, in the sense of [`finds`].
pub(super) fn notices(
    most: usize,
    sign: Option<&str>,
    scenario: impl Fn() + Clone + Send + Sync + 'static,
) -> bool {
    // The two kinds take turns in growing rounds: if one of them soon finds a fault, the other need
    // not run all of its schedules first.
    let mut round = most.min(500);
    let mut left = most;
    while left > 0 {
        if finds(
            Box::new(RandomScheduler::new(round)),
            sign,
            scenario.clone(),
        ) || finds(
            Box::new(PctScheduler::new(3, round)),
            sign,
            scenario.clone(),
        ) {
            return true;
        }
        left -= round;
        round = (2 * round).min(left);
    }
    false
}

/// Whether one of the scheduler's schedules makes the scenario fail: in its own checks, or in one
/// of the engine's assertions whose message contains `sign`.
pub(super) fn finds(
    scheduler: Box<dyn Scheduler + Send>,
    sign: Option<&str>,
    scenario: impl Fn() + Send + Sync + 'static,
) -> bool {
    keep_messages();
    FIRST_PANIC.take();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        run(scheduler, true, scenario);
    }));
    model_reclaim::reset();
    if outcome.is_ok() {
        return false;
    }
    let message = FIRST_PANIC.take();
    let known = message.contains(ORACLE) || sign.is_some_and(|sign| message.contains(sign));
    assert!(known, "another failure: {message}");
    true
}
