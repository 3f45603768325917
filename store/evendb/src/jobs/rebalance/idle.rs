//! A database that gets no puts gives back what it keeps for puts to come.
//!
//! ```text
//!   puts              |||||||                                   |||
//!   nothing owed              ----- IDLE_AFTER ------
//!   idle                                             ==========     the next put ends it
//!   container's reserve  several steps                one step
//!   garbage           up to the space budget          a third of it, chunk by chunk
//! ```
//! The space budget leaves garbage on disk because rewriting it later costs less; in an idle
//! database it never gets cheaper. The cost of rewriting is bounded (flash wears, batteries run
//! down):
//! * A plan is made once in each idle time, so no chunk is rewritten twice. A chunk that has less
//!   garbage than the target allows is not in the plan ([`crate::picker::pick_idle`]).
//! * Every byte of rewriting has been earned by a byte that came to a log, or that a deletion hid.
//!   The account of earned bytes begins empty with each opening and holds at most the live bytes.
//!   Over time idle work adds at most one to the write amplification.
//! * One chunk at a time, at [`PACE_BYTES`] a second, and only while nothing is owed. A new put
//!   finds at most one chunk being rewritten, and that job rests and yields like all
//!   reorganisation.
//!
//! Nothing is done while the disk is full (garbage is rewritten then anyway), while a snapshot is
//! registered (the versions that it sees would have to be kept), or where the limits of logs are
//! fixed.
//!
//! Thread safety: the state's mutex is a leaf. Whether the database is idle is an atomic that any
//! thread may read; acting on it a moment too late does no harm.

use super::space::{self, expected_live_bytes};
use crate::chunk::{Chunk, View};
use crate::engine::JobContext;
use crate::engine::idle::{Idle, IdleState};
use crate::error::{ErrorKind, Result};
use crate::picker::{Shrinking, pick_idle};
use crate::rebalance::{guarded, jobs, munks, rewrite};
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The time without puts and without work owed after which a database counts as idle.
const IDLE_AFTER: Duration = Duration::from_secs(3);
/// An idle database comes down to this share of the garbage that the space budget allows.
const GARBAGE_PART: f64 = 1.0 / 3.0;
/// Bytes that are rewritten in a second.
const PACE_BYTES: u64 = 32 << 20;
/// Earns bytes to rewrite, in a database of `live_bytes`: for bytes that arrived in logs, and for
/// bytes that deletions hid.
pub(crate) fn earn_for_idle(
    context: &JobContext<'_>,
    arrived: u64,
    record_bytes: u64,
    live_bytes: u64,
) {
    let deletes = context.core.metrics.deletes.get();
    let mut state = context.idle.state.lock();
    let hidden = deletes.saturating_sub(state.deletes) * record_bytes;
    state.deletes = deletes;
    let earned = state.account_bytes.saturating_add(arrived + hidden);
    state.account_bytes = earned.min(live_bytes);
}

/// A look by upkeep: notices that the database has become idle, or is idle no more, and queues the
/// rewrite of the next chunk if it is time.
pub(crate) fn idle_round(context: &JobContext<'_>) {
    let &JobContext {
        core,
        disk,
        flow,
        work,
        idle,
        ..
    } = context;
    let owed = work.is_busy() || disk.full_disk.is_owed();
    {
        let mut state = idle.state.lock();
        if !idle.is_idle(&core.metrics) {
            let (writes, jobs) = (core.metrics.writes(), core.metrics.jobs_done());
            if owed || state.since.is_none() || (writes, jobs) != (state.writes, state.jobs) {
                (state.writes, state.jobs) = (writes, jobs);
                state.since = Some(Instant::now());
                state.plan = Vec::new();
                return;
            }
            if state
                .since
                .is_some_and(|since| since.elapsed() < IDLE_AFTER)
            {
                return;
            }
            // Room in the container is kept for deltas in memory: if they are many, a checkpoint
            // comes first. A checkpoint also comes first where ranges were deleted: only then can
            // the hidden records go.
            let ranges = core.metrics.range_deletes.get();
            let deleted = std::mem::replace(&mut state.ranges, ranges) < ranges;
            if (deleted || core.admission.delta_to_write() > space::room_step(context))
                && !flow.dirty.lock().is_empty()
            {
                drop(state);
                work.want_checkpoint();
                return;
            }
            begin_idle(idle, &mut state, writes);
        }
        if owed || state.next.is_some_and(|next| Instant::now() < next) {
            return;
        }
    }
    make_plan(context);
    // The looks that the plan has queued come first: they have the tokens of its chunks.
    if work.is_busy() {
        return;
    }
    if let Some(chunk) = next_idle_chunk(context) {
        work.push_shrink(&chunk);
    }
}

/// When a look will find more to do although nothing happens until then; `None` if it will not. The
/// end of the last snapshot stirs upkeep by itself.
pub(crate) fn idle_due(context: &JobContext<'_>) -> Option<Instant> {
    let &JobContext { core, idle, .. } = context;
    let state = idle.state.lock();
    if !idle.is_idle(&core.metrics) {
        let since = state.since.unwrap_or_else(Instant::now);
        return Some(since + IDLE_AFTER);
    }
    let blocked = core.clock.snapshot_count() > 0;
    let more = !state.planned || !state.plan.is_empty();
    (more && !blocked).then(|| state.next.unwrap_or_else(Instant::now))
}

/// Makes the database count as idle until more writes than `writes` have come.
fn begin_idle(idle: &Idle, state: &mut IdleState, writes: u64) {
    (state.planned, state.next) = (false, None);
    idle.at_writes.store(writes, Ordering::Relaxed);
}

/// Makes the plan of this idle time, unless it was made.
fn make_plan(context: &JobContext<'_>) {
    let &JobContext { core, idle, .. } = context;
    if core.clock.snapshot_count() > 0 || !idle.is_idle(&core.metrics) {
        return;
    }
    let account_bytes = {
        let mut state = idle.state.lock();
        if std::mem::replace(&mut state.planned, true) {
            return;
        }
        state.account_bytes
    };
    let plan = plan_shrinking(context, account_bytes);
    idle.state.lock().plan = plan;
}

/// Takes the next chunk of the plan, and pays for it from the account. Makes the plan first if
/// there is none.
fn next_idle_chunk(context: &JobContext<'_>) -> Option<Arc<Chunk>> {
    let &JobContext { core, idle, .. } = context;
    if core.clock.snapshot_count() > 0 || !idle.is_idle(&core.metrics) {
        return None;
    }
    make_plan(context);
    let mut state = idle.state.lock();
    loop {
        let (chunk, bytes) = state.plan.pop()?;
        if let Some(chunk) = chunk.upgrade() {
            state.account_bytes = state.account_bytes.saturating_sub(bytes);
            let pause = Duration::from_micros(bytes.saturating_mul(1_000_000) / PACE_BYTES);
            state.next = Some(Instant::now() + pause);
            return Some(chunk);
        }
    }
}

fn plan_shrinking(context: &JobContext<'_>, account_bytes: u64) -> Vec<(Weak<Chunk>, u64)> {
    let Some(amplification) = context.core.options.log_space_amplification() else {
        return Vec::new();
    };
    let chunks = context.catalog.chunks();
    // A look at a chunk with guards is lost if it comes while another one ends. While nothing is
    // put, no other look would apply its range deletions.
    let has_covers = |view: &View| view.funk.is_guarded() && view.covers.is_some();
    for (_, chunk) in &chunks {
        if has_covers(&chunk.view.load_full()) {
            context.work.push_maintenance(chunk);
        }
    }
    let looks = chunks.iter().map(|(_, chunk)| shrinking(context, chunk));
    let (figures, hidden): (Vec<Shrinking>, Vec<u64>) = looks.unzip();
    let garbage_share = (amplification - 1.0) * GARBAGE_PART;
    // What range deletions hide has earned its rewriting.
    let account_bytes = account_bytes.saturating_add(hidden.iter().sum());
    let picked = pick_idle(&figures, garbage_share, account_bytes);
    let named = |&at: &usize| (Arc::downgrade(&chunks[at].1), figures[at].live_bytes);
    picked.iter().rev().map(named).collect()
}

/// The bytes that a rewrite of the chunk would leave and remove; and the bytes that range deletions
/// hide among the removed ones.
fn shrinking(context: &JobContext<'_>, chunk: &Chunk) -> (Shrinking, u64) {
    let view = chunk.view.load_full();
    let stats = jobs::own_figures(context, chunk, &view);
    let (live_bytes, garbage_bytes) = if stats.is_guarded {
        // Other garbage of guards is bounded by the picker of their jobs.
        let bytes = guarded::bytes_to_sweep(context.core, chunk, &view);
        let hidden_bytes = stats.hidden_bytes.min(bytes);
        (bytes - hidden_bytes, hidden_bytes)
    } else {
        let live_bytes = expected_live_bytes(&stats);
        (live_bytes, stats.data_bytes.saturating_sub(live_bytes))
    };
    let garbage_bytes = match chunk.damaged.load(Ordering::Relaxed) {
        true => 0,
        false => garbage_bytes,
    };
    let shrinking = Shrinking {
        live_bytes,
        garbage_bytes,
    };
    (shrinking, stats.hidden_bytes)
}

/// Rewrites a chunk of the plan if the database is still idle, and returns whether it was
/// rewritten. On a full disk, or where another job has the chunk, the chunk stays as it is.
pub(crate) fn shrink(context: &JobContext<'_>, chunk: &Arc<Chunk>) -> Result<bool> {
    let &JobContext { core, idle, .. } = context;
    let keyspace = context.catalog.keyspace_of(chunk);
    let (Some(keyspace), Some(_token)) = (keyspace, chunk.try_token()) else {
        return Ok(false);
    };
    let damaged = chunk.damaged.load(Ordering::Relaxed);
    if !idle.is_idle(&core.metrics) || damaged || core.clock.snapshot_count() > 0 {
        return Ok(false);
    }
    if chunk.latch.lock().retired || shrinking(context, chunk).0.garbage_bytes == 0 {
        return Ok(false);
    }
    let view = chunk.view.load_full();
    if view.funk.is_guarded() {
        return guarded::sweep_hidden(context, &keyspace, chunk, &view);
    }
    munks::absorb(core, chunk);
    let new_chunks = rewrite::rewrite(context, &keyspace, std::slice::from_ref(chunk))?;
    jobs::finish_layout(context, &new_chunks)?;
    Ok(true)
}

/// Does at once and in this thread what an idle database does over time. Returns the number of
/// chunks rewritten.
pub(crate) fn shrink_all(context: &JobContext<'_>) -> Result<u64> {
    let &JobContext { core, idle, .. } = context;
    {
        let mut state = idle.state.lock();
        let writes = core.metrics.writes();
        begin_idle(idle, &mut state, writes);
    }
    let mut rewritten = 0;
    while let Some(chunk) = next_idle_chunk(context) {
        core.health.check_readable()?;
        match shrink(context, &chunk) {
            Err(error) if error.kind() == ErrorKind::KeyspaceDropped => {}
            done => rewritten += u64::from(done?),
        }
    }
    Ok(rewritten)
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::rebalance::space;
    use crate::worker;
    use crate::{Db, Options};
    use evendb_storage::vfs::SimVfs;

    const RECORDS: u32 = 4_000;

    fn put_some(db: &Db, every: usize, first: u32) {
        for number in (first..RECORDS).step_by(every) {
            db.put(format!("{number:05}"), [1; 100]).unwrap();
        }
    }

    /// Many chunks on disk, each with garbage within its budget, and nothing owed.
    fn with_garbage(vfs: &SimVfs) -> Db {
        let options = Options::new().vfs(Arc::new(vfs.clone())).workers(0);
        let options = options
            .memory_budget(1 << 20)
            .advanced(|advanced| advanced.chunk_bytes(16 << 10).munks(false));
        let db = options.open("/db").unwrap();
        put_some(&db, 1, 0);
        db.settle_debt().unwrap();
        put_some(&db, 5, 0);
        db.settle_debt().unwrap();
        db
    }

    fn idle_look(engine: &Engine) {
        idle_round(&engine.jobs());
    }

    /// Runs the look of upkeep, as if time had passed since its last one.
    fn later(engine: &Engine) {
        let past = Instant::now().checked_sub(2 * IDLE_AFTER);
        {
            let mut state = engine.idle.state.lock();
            if state.since.is_some() {
                state.since = past.or(state.since);
            }
            state.next = None;
        }
        idle_look(engine);
    }

    #[test]
    fn a_put_ends_it_and_what_is_left_of_the_plan_is_not_done() {
        let vfs = SimVfs::new(1);
        let db = with_garbage(&vfs);
        let engine = db.engine();
        let written = || engine.core.metrics.bytes_sstable.get();
        let before = written();
        idle_look(engine);
        assert!(
            !engine.idle.is_idle(&engine.core.metrics),
            "that was the first look"
        );
        later(engine);
        assert!(engine.idle.is_idle(&engine.core.metrics));
        let planned = engine.idle.state.lock().plan.len();
        assert!(planned > 3, "{planned}");
        worker::run_queued_jobs(engine);
        let once = written() - before;
        assert!((1..48 << 10).contains(&once), "{once}");
        // The next chunk is queued when a put comes.
        later(engine);
        db.put([0; 4], "new").unwrap();
        assert!(!engine.idle.is_idle(&engine.core.metrics));
        worker::run_queued_jobs(engine);
        later(engine);
        worker::run_queued_jobs(engine);
        assert_eq!(written() - before, once, "rewritten for a busy database");
        assert!(engine.idle.state.lock().plan.is_empty());
        // Since then nothing has been put.
        later(engine);
        assert!(engine.idle.is_idle(&engine.core.metrics));
        worker::run_queued_jobs(engine);
        assert!(written() - before > once);
    }

    #[test]
    fn a_chunk_is_rewritten_once_and_no_more_than_was_put() {
        let vfs = SimVfs::new(2);
        let db = with_garbage(&vfs);
        let engine = db.engine();
        let mut looks = 0;
        let before = engine.core.metrics.rebalances.get();
        idle_look(engine);
        loop {
            later(engine);
            let left = engine.idle.state.lock().plan.len();
            worker::run_queued_jobs(engine);
            looks += 1;
            if left == 0 {
                break;
            }
        }
        let rewritten = engine.core.metrics.rebalances.get() - before;
        assert!(looks > 3 && rewritten <= looks, "{rewritten} in {looks}");
        let written = engine.core.metrics.bytes_sstable.get();
        for _ in 0..10 {
            later(engine);
            worker::run_queued_jobs(engine);
        }
        assert_eq!(engine.core.metrics.bytes_sstable.get(), written);
        // A life without puts has earned nothing.
        put_some(&db, 5, 1);
        db.settle_debt().unwrap();
        db.close().unwrap();
        let options = Options::new().vfs(Arc::new(vfs.clone())).workers(0);
        let options = options
            .memory_budget(1 << 20)
            .advanced(|advanced| advanced.chunk_bytes(16 << 10).munks(false));
        let db = options.open("/db").unwrap();
        assert_eq!(db.idle_pass().unwrap(), 0);
        put_some(&db, 40, 2);
        let put = u64::from(RECORDS / 40) * 120;
        let written = db.stats().bytes_written.sstable;
        db.settle_debt().unwrap();
        let owed = db.stats().bytes_written.sstable - written;
        db.idle_pass().unwrap();
        let more = db.stats().bytes_written.sstable - written - owed;
        assert!(more <= 2 * put, "{more} for {put}");
    }

    #[test]
    fn snapshots_keep_it_from_rewriting_and_puts_have_their_room_again() {
        let vfs = SimVfs::new(3);
        let db = with_garbage(&vfs);
        let snapshot = db.snapshot().unwrap();
        assert_eq!(db.idle_pass().unwrap(), 0);
        drop(snapshot);
        assert!(db.idle_pass().unwrap() > 0);
        assert!(db.engine().idle.is_idle(&db.engine().core.metrics));
        let step = space::room_step(&db.engine().jobs());
        assert_eq!(space::room_kept(&db.engine().jobs()), (step / 2, step));
        db.put("again", "busy").unwrap();
        space::room_ahead(db.engine());
        assert_eq!(space::room_kept(&db.engine().jobs()), (2 * step, 3 * step));
        assert!(db.engine().disk.container.free_bytes() >= 2 * step);
    }
}
