//! What upkeep does for memory again and again: it keeps each use within its share, and makes the
//! rounds of the memory policy.
//!
//! ```text
//! tend_memory    slabs, ring     unused memory goes back to the system
//!                tables          closed above their share
//!                log searches    made smaller above their share
//! memory_round   every chunk     its counts are taken  --> the policy --> munks that only count go,
//!                                                                         spans go until there is
//!                                                                         room, rows move together
//! ```
//!
//! Thread safety: upkeep, or the put that does its work; one thread at a time. Not here: every
//! decision ([`crate::memory_policy`]).

use super::munks::evict_munk;
use super::spans::make_room;
use crate::catalog::Catalog;
use crate::chunk::{Chunk, View};
use crate::engine::{Engine, JobContext};
use crate::memory::slab;
use crate::rebalance::{jobs, rewrite};
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, reclaim};

/// Memory of a chunk in RAM, in percent of its keys and values.
const IMAGE_PERCENT: u64 = 108;
/// Chunks looked at under one pin.
const PINNED_CHUNKS: usize = 64;

/// Keeps open tables and log searches within their share, and gives back unused memory of slabs and
/// the ring.
pub(crate) fn tend_memory(engine: &Engine) {
    let Engine { core, memory, .. } = engine;
    core.admission.let_delta_peak_sink();
    tend_part(engine);
    // A model has no time.
    if !cfg!(evendb_shuttle)
        && let Some(ring) = &engine.log.commit_log
    {
        ring.give_memory_back(std::time::Instant::now());
    }
    slab::trim(memory.slack_left());
    let shares = memory.index_shares();
    engine.disk.tables.set_bytes_max(shares.tables_max);
    core.ledger().set_searches_short(shares.searches_excess > 0);
    if shares.searches_excess > 0 {
        shrink_searches(engine, shares.searches_excess);
    }
    let mergeable = engine.space.mergeable_bytes.load(Ordering::Relaxed);
    memory.slow_for_metadata(engine.space.chunks(), mergeable);
}

/// Tells a shared budget what the database has and could use, and follows its part.
fn tend_part(engine: &Engine) {
    let Engine { core, memory, .. } = engine;
    if memory.member().is_none() {
        return;
    }
    let data_bytes = engine.space.stats.lock().live_bytes;
    let Some(deltas_max) = memory.tell_shared(data_bytes, core.metrics.operations()) else {
        return;
    };
    core.admission.set_delta_limit(deltas_max);
    if !core.manual() && core.admission.half_full() {
        engine.work.want_checkpoint_for_room();
    }
}

/// Makes log searches smaller, first those that nobody has used since the last time.
fn shrink_searches(engine: &Engine, mut excess: u64) {
    for harder in [false, true] {
        for (_, chunk) in engine.catalog.chunks() {
            let funk = chunk.view.load_full().funk.clone();
            let saved = funk.shrink_search(&engine.core.search_settings, harder);
            excess = excess.saturating_sub(saved as u64);
            if excess == 0 {
                return;
            }
        }
    }
}

/// One round of the memory policy: takes the chunks' counters, lets the policy divide memory
/// between munks and rows, and evicts spans until the others fit.
pub(crate) fn memory_round(context: &JobContext<'_>) {
    let &JobContext {
        core, memory, work, ..
    } = context;
    if core.health.failure().is_some() || core.health.is_closed() {
        return;
    }
    let mut seen = memory.begin_round();
    each_chunk(context.catalog, &mut |chunk, view| {
        // The chunk was passed over if another job had it (a load, an eviction) when it was due.
        // The deltas left for its munk hold memory that puts wait for.
        if view.frozen.iter().any(|frozen| frozen.durable) {
            work.push_maintenance(chunk);
        }
        if seen.see(chunk, view, ram_bytes(chunk, view))
            && view.funk.restore_search(&core.search_settings)
        {
            seen.restored();
        }
    });
    for chunk in memory.note_seen(&mut seen) {
        if let Some(_token) = chunk.try_token()
            && !chunk.view.load_full().munk_holds_any()
        {
            evict_munk(core, &chunk);
        }
    }
    let room = memory.plan_round(&seen);
    make_room(context, room, None);
    memory.compact_rows();
}

/// About the bytes that the whole chunk takes in RAM.
fn ram_bytes(chunk: &Chunk, view: &View) -> u64 {
    match view.whole_munk() {
        Some(munk) => munk.bytes() as u64,
        // It never has a munk.
        None if view.funk.is_guarded() => 0,
        None if view.funk.base.is_empty() => rewrite::data_bytes(view),
        None => jobs::live_bytes(chunk, view) * IMAGE_PERCENT / 100,
    }
}

/// Calls `see` for every chunk with its view; one pin serves some of them at a time.
fn each_chunk(catalog: &Catalog, see: &mut dyn FnMut(&Arc<Chunk>, &View)) {
    for keyspace in catalog.keyspaces() {
        let index = keyspace.index.load_full();
        let mut chunks = index.iter();
        loop {
            let pin = reclaim::pin();
            let mut seen = 0;
            for (_, chunk) in chunks.by_ref().take(PINNED_CHUNKS) {
                see(chunk, chunk.view.load(&pin).get());
                seen += 1;
            }
            if seen == 0 {
                break;
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use crate::Db;
    use crate::memory::Use;
    use crate::options::Options;
    use crate::rebalance::space::space_round;
    use crate::sync::Arc;
    use evendb_storage::vfs::SimVfs;

    fn small(budget: u64) -> Db {
        let options = Options::new().vfs(Arc::new(SimVfs::new(1))).workers(0);
        options.memory_budget(budget).open("/db").unwrap()
    }

    fn key(number: u32, len: usize) -> Vec<u8> {
        let mut key = number.wrapping_mul(2_654_435_761).to_le_bytes().to_vec();
        key.resize(len, b'k');
        key
    }

    /// Once, puts were slow for ever if the keys of many chunks took a fifth of the memory: no job
    /// reduces those.
    #[test]
    fn puts_are_not_slowed_by_metadata_that_no_job_makes_less() {
        let db = small(4 << 20);
        let engine = db.engine();
        for number in 0..400 {
            db.put(key(number, 20_000), [1; 100]).unwrap();
        }
        db.settle_debt().unwrap();
        tend_memory(engine);
        let metadata = engine.core.ledger().bytes(Use::Metadata);
        let budget = engine.core.options.memory_budget;
        assert!(metadata > budget / 5 + budget / 8, "{metadata} bytes");
        // If there were runs to merge, puts would be slowed, until the next look finds none.
        engine
            .space
            .mergeable_bytes
            .store(1 << 20, Ordering::Relaxed);
        tend_memory(engine);
        assert!(engine.core.admission.metadata_nanos() > 0.0);
        space_round(&engine.jobs(), true);
        tend_memory(engine);
        assert_eq!(engine.core.admission.metadata_nanos(), 0.0);
        let before = engine.core.admission.pace.stats().count;
        for number in 0..100_u32 {
            db.put(number.to_le_bytes(), [2; 100]).unwrap();
        }
        assert_eq!(engine.core.admission.pace.stats().count, before);
    }
}
