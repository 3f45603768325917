//! Munks: absorbing deltas, and evicting a whole munk.
//!
//! * Absorb (the paper's munk rebalance): the durable deltas are merged into copied pages; one new
//!   view has the new munk and no longer these deltas. Puts and gets continue meanwhile.
//! * Evict: the munk and the deltas kept for it leave; both are in the funk, so no I/O is needed.
//!   Where puts are about to wait, a munk that is hardly read is evicted instead of absorbing
//!   (decision 0033).
//!
//! Thread safety: any thread that holds the chunk's token. Not here: which munk goes
//! ([`crate::memory_policy`]); spans ([`crate::rebalance::spans`]).

use crate::checkpoint::delta_sources;
use crate::chunk::covers::Covers;
use crate::chunk::{Chunk, Frozen, View};
use crate::engine::core::Core;
use crate::folding::Folding;
use crate::memory_policy::MemoryPolicy;
use crate::merge::{Merge, RamMerge};
use crate::pace;
use crate::plant::planted;
use crate::sync::{Arc, reclaim};
use crate::trace;
use crate::visibility::Dropping;
use evendb_storage::Version;

/// Merges the durable deltas into the munk, and returns whether there were any. The caller holds
/// the token.
pub(crate) fn absorb(core: &Core, chunk: &Arc<Chunk>) -> bool {
    let view = chunk.view.load_full();
    chunk.assert_view(&view, "to be absorbed");
    let Some(munk) = &view.munk else { return false };
    let deltas: Vec<Frozen> = view
        .frozen
        .iter()
        .filter(|frozen| frozen.durable)
        .cloned()
        .collect();
    if deltas.is_empty() {
        return false;
    }
    let job = trace::job!("absorb", chunk = chunk.id.0);
    let mut horizon = core.clock.horizon();
    if planted!(core.options, FoldsUnderSnapshots) {
        horizon.snapshots.clear();
    }
    let absorbed = {
        let mut yielder = pace::yielder(&core.admission);
        let pin = reclaim::pin();
        let sources = delta_sources(&deltas, None, &pin, &mut yielder);
        let dropping = Dropping {
            horizon: &horizon,
            bottom: false,
            zero_below: Version::ZERO,
        };
        // Range deletions are needed only if operands may lie on records that these hide.
        let named = core.choices.merge_operator(chunk.keyspace);
        let covers = view.covers.as_ref().filter(|_| named.is_some());
        let operator = named.and_then(|named| named.operator);
        let merge = Merge::into_munk(
            sources,
            dropping,
            Covers::covering_now(covers),
            operator.clone(),
        );
        let merge = merge
            .expect("sources in RAM do not fail")
            .yielding_by(yielder);
        let covering = Covers::covering_now(covers);
        let folding = Folding {
            operator: operator.as_ref(),
            cover_above: &|key, version| covering.as_ref()?(key, version),
        };
        Arc::new(munk.absorb(&mut RamMerge(merge), &horizon, true, folding))
    };
    let writer = chunk.latch.lock();
    let mut new_view: View = (*chunk.view.load_full()).clone();
    new_view.munk = Some(absorbed);
    new_view.frozen.retain(|frozen| {
        !deltas
            .iter()
            .any(|delta| Arc::ptr_eq(&delta.delta, &frozen.delta))
    });
    chunk.publish(new_view);
    drop(writer);
    core.metrics.absorbs.add(1);
    trace::event!(
        DEBUG,
        "munk absorbed",
        chunk = chunk.id.0,
        deltas = deltas.len(),
        duration_micros = job.micros()
    );
    true
}

/// Removes from the munk the records that range deletions up to version `limit` hide, so that its
/// spans stay when these deletions leave ([`crate::rebalance::layout::leave_covers`]). The
/// deletions are in the manifest, and every reader reads at `limit` or above. The caller holds the
/// token.
///
/// No range deletion of such a version comes later: everything in the manifest belongs to a
/// complete checkpoint. No later durable delta has records that these deletions hide either: the
/// records of later checkpoints are newer.
pub(crate) fn mend(core: &Core, chunk: &Arc<Chunk>, limit: Version) {
    let has_any = |covers: &Arc<Covers>| covers.oldest() <= limit;
    let view = chunk.view.load_full();
    if !view.munk_holds_any() || !view.covers.as_ref().is_some_and(has_any) {
        return;
    }
    absorb(core, chunk);
    let view = chunk.view.load_full();
    let (Some(munk), Some(covers)) = (&view.munk, &view.covers) else {
        return;
    };
    let horizon = core.clock.horizon();
    let mut yielder = pace::yielder(&core.admission);
    let since = munk.mended_to();
    let is_touched = |span: usize| {
        yielder.yield_if_due();
        let (low, high) = munk.limits(span);
        covers.has_any_between(since, limit, low, high)
    };
    let mut hidden_below = |key: &[u8]| {
        let own = covers.stretch(key).newest_up_to(limit);
        own.unwrap_or(Version::ZERO)
    };
    let operator = core.choices.operator(chunk.keyspace);
    let covering = Covers::covering_now(Some(covers));
    let folding = Folding {
        operator: operator.as_ref(),
        cover_above: &|key, version| covering.as_ref()?(key, version),
    };
    let mended = munk.mended(limit, is_touched, &mut hidden_below, &horizon, folding);
    let writer = chunk.latch.lock();
    let mut new_view: View = (*chunk.view.load_full()).clone();
    new_view.munk = Some(Arc::new(mended));
    // All its spans may be gone, and a delta may have become durable since the absorb.
    new_view.keep_deltas_for_spans_alone();
    chunk.publish(new_view);
    drop(writer);
}

/// Mends the munk if there are range deletions that every reader sees, and returns whether there
/// was anything to do. From then on reads of the munk need not ask these deletions
/// ([`View::munk_is_mended`]), however long they stay for the tables. The caller holds the token.
pub(crate) fn mend_spent(core: &Core, chunk: &Arc<Chunk>) -> bool {
    let view = chunk.view.load_full();
    let (Some(munk), Some(covers)) = (&view.munk, &view.covers) else {
        return false;
    };
    if view.munk_is_mended() || !munk.holds_any() {
        return false;
    }
    let limit = covers.spent_limit(&core.clock.horizon());
    let next = covers.oldest_above(munk.mended_to());
    let is_due = next.is_some_and(|next| next <= limit);
    if is_due {
        mend(core, chunk, limit);
    }
    is_due
}

/// Takes the durable deltas into the munk, or drops the munk if the memory policy says so; returns
/// whether there was anything to do. The caller holds the token.
pub(crate) fn absorb_or_evict(core: &Core, memory: &MemoryPolicy, chunk: &Arc<Chunk>) -> bool {
    if !memory.should_go(chunk) {
        return absorb(core, chunk);
    }
    let view = chunk.view.load_full();
    let waits = view.munk.is_some() && view.frozen.iter().any(|frozen| frozen.durable);
    if waits {
        evict_munk(core, chunk);
    }
    waits
}

/// Drops the chunk's munk. The caller holds the token.
pub(crate) fn evict_munk(core: &Core, chunk: &Chunk) {
    let writer = chunk.latch.lock();
    let mut view: View = (*chunk.view.load_full()).clone();
    let Some(munk) = view.munk.take().filter(|_| !writer.retired) else {
        return;
    };
    view.keep_deltas_for_spans_alone();
    chunk.publish(view);
    drop(writer);
    core.metrics.munk_evictions.add(1);
    trace::event!(
        DEBUG,
        "munk evicted",
        chunk = chunk.id.0,
        bytes = munk.bytes()
    );
}
