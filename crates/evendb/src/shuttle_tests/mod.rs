//! Scenarios S1 to S10 under shuttle: the whole engine on a simulated file system, a few threads,
//! thousands of schedules each. `RUSTFLAGS="--cfg evendb_shuttle" cargo test --lib shuttle_`
//!
//! No worker threads: every switch-over (checkpoint, load, absorb, evict, rebalance, split, merge)
//! is called by a thread of the scenario, so that schedules stay short. What the database returns
//! is judged by [`world::World`]. `EVENDB_SCHEDULES` multiplies the number of schedules, in percent.
//! Each planted fault of [`crate::plant`] must be caught by a named test ([`planted`]).

mod batches;
mod freeze;
mod layouts;
mod lifecycle;
mod munks;
mod planted;
mod world;

use crate::sync::model_epoch;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};

/// Schedules to run where `usual` are run as a rule.
fn schedules(usual: usize) -> usize {
    let percent = std::env::var("EVENDB_SCHEDULES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(100);
    (usual * percent / 100).max(1)
}

fn run(scheduler: impl Scheduler + 'static, quiet: bool, scenario: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = 512 << 10;
    config.silence_warnings = true;
    // The panicking task's stack is unwound later, when nothing is scheduled any more.
    config.ungraceful_shutdown_config.immediately_return_on_panic = true;
    if quiet {
        config.failure_persistence = shuttle::FailurePersistence::None;
    }
    model_epoch::reset();
    Runner::new(scheduler, config).run(move || {
        model_epoch::reset();
        scenario();
        model_epoch::collect();
    });
    model_epoch::reset();
}

/// Runs `scenario` under `usual` random schedules, and a quarter as many with few preemptions.
fn explore(usual: usize, scenario: impl Fn() + Clone + Send + Sync + 'static) {
    run(RandomScheduler::new(schedules(usual)), false, scenario.clone());
    run(PctScheduler::new(3, schedules(usual / 4)), false, scenario);
}

/// Whether one of up to `most` schedules makes the scenario fail in one of its own checks.
fn notices(most: usize, scenario: impl Fn() + Clone + Send + Sync + 'static) -> bool {
    let found = |scheduler: Box<dyn Scheduler + Send>| {
        let scenario = scenario.clone();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run(scheduler, true, scenario);
        }));
        model_epoch::reset();
        let Err(panic) = outcome else { return false };
        let message = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or_default();
        assert!(message.contains(world::ORACLE), "not the oracle: {message}");
        true
    };
    found(Box::new(RandomScheduler::new(most))) || found(Box::new(PctScheduler::new(3, most)))
}
