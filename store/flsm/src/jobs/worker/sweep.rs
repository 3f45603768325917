//! Compacts a whole range, in the thread of the call that asks for it, beside the compactors.

use super::compact::{Ended, Job, limits};
use super::run_here;
use crate::compaction::plan::Plan;
use crate::compaction::sweep::{Step, Sweep};
use crate::engine::Engine;
use crate::error::Result;
use crate::generation::flush_all;
use crate::keyspace::KeyspaceState;
use evendb_base::sync::Arc;
use evendb_base::sync::reclaim;

/// Flushes, and brings the keys from `low` to below `high` to the last level, with one run in each
/// guard. Returns the number of jobs.
pub(crate) fn sweep(
    engine: &Engine,
    keyspace: &Arc<KeyspaceState>,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
) -> Result<u64> {
    let _hurry = engine.work.hurry();
    flush_all(engine)?;
    let mut sweep = Sweep::new(low, high, engine.making.numbers.next());
    let limits = limits(engine);
    let mut jobs = 0;
    // How often there was no job to wait for.
    let mut in_vain = 0;
    loop {
        engine.health.check_writable()?;
        keyspace.check_there()?;
        let mut waits = false;
        let taken = engine.work.take_job(|busy| {
            // The tree is looked at while `busy` is held, as compactors do.
            let tree = keyspace.view.load_full().tree.clone();
            match sweep.next(&tree, busy) {
                Step::Job(job) => {
                    let plan = Plan::of(&tree, job, &limits);
                    let job = Job::new(keyspace.clone(), tree, plan);
                    let tables = job.tables();
                    Some((job, tables))
                }
                Step::Wait => {
                    waits = true;
                    None
                }
                Step::Over => None,
            }
        });
        match taken {
            Some(job) => {
                if let Ended::SetAside(error) = run_here(engine, &job)? {
                    return Err(error);
                }
                (jobs, in_vain) = (jobs + 1, 0);
            }
            None if waits => match engine.work.wait_for_jobs(&engine.health)? {
                true => in_vain = 0,
                // The job that was in the way may just have ended. If there was no such job, tables
                // that were set aside are in the way.
                false if in_vain == 0 => in_vain = 1,
                false => engine.work.check_damage()?,
            },
            None => {
                // When workers have to end, they get no job, and this call gets none either.
                engine.health.check_readable()?;
                reclaim::collect();
                return Ok(jobs);
            }
        }
    }
}
