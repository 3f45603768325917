//! How a rewrite is to cut a chunk: what is known of the chunk, or a look at all of its records.
//!
//! Thread safety: one job's own; the shares that are noted are atomic, and only guide. Not here:
//! the rules themselves, which are pure ([`crate::rebalance::growth`],
//! [`crate::rebalance::pieces`]).

use super::Old;
use super::sources::{base_and_log_bytes, data_bytes, sources_of};
use crate::checkpoint::joining::stretch_bytes_min;
use crate::chunk::covers::Covers;
use crate::chunk::{Chunk, View};
use crate::engine::core::Core;
use crate::error::Result;
use crate::manifest::edit::Part;
use crate::merge::Merge;
use crate::pace::{self, Rest};
use crate::rebalance::growth::{Growth, Stream};
use crate::rebalance::pieces::Pieces;
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::version::clock::checkpoint_of;
use crate::visibility::Dropping;
use evendb_storage::Version;
use evendb_storage::codec::hash_key;

/// A log that has half the bytes of its base is looked through for streams if its share of new
/// records is at least [`MOSTLY_NEW`], and if at least the share [`STREAMS_MIN`] of the keyspace's
/// looks find one. Of the chunks that have outgrown their limits, one in [`LOOKS_PART`] is looked
/// through in any case, so streams are found again.
const MOSTLY_NEW: f32 = 0.8;

const STREAMS_MIN: f32 = 0.1;

const LOOKS_PART: u64 = 8;

/// Where the chunk grows, and how much it holds. Reads everything, unless all of it is in RAM.
pub(crate) fn growth(core: &Core, chunk: &Chunk, view: &View) -> Result<Growth> {
    let horizon = core.clock.horizon();
    let dropping = Dropping {
        horizon: &horizon,
        // In a merge that includes the base, versions become zero.
        bottom: false,
        zero_below: Version::ZERO,
    };
    let covering = Covers::covering_now(view.covers.as_ref());
    let merge = Merge::under(sources_of(chunk, view)?, dropping, covering)?;
    let mut merge = merge.yielding_by(pace::yielder(&core.admission));
    let mut growth = Growth::since(chunk.based_at.load(Ordering::Relaxed));
    let mut last_key: Option<Vec<u8>> = None;
    let mut rest = Rest::of_reorganisation(core);
    while let Some(entry) = merge.current() {
        let bytes = (entry.key.len() + entry.value.len()) as u64;
        if last_key.as_deref() == Some(entry.key) {
            growth.add_older(bytes);
        } else {
            if !entry.kind.is_tombstone() {
                growth.add(entry.key, bytes, checkpoint_of(entry.version));
            }
            let last = last_key.get_or_insert_default();
            last.clear();
            last.extend_from_slice(entry.key);
        }
        merge.advance()?;
        rest.take_sometimes();
    }
    Ok(growth)
}

/// How the rewrite cuts its tables. If only a look at the whole log tells how much of it overwrites
/// the base, this takes that look, unless other rewrites have answered the question. The look also
/// finds the `streams`.
pub(super) fn pieces_for(core: &Core, old: Old<'_>, streams: &mut Vec<Stream>) -> Result<Pieces> {
    let Old {
        keyspace,
        chunks,
        views,
    } = old;
    let bytes_max = core.options.chunk_bytes_max();
    let total: u64 = views.iter().map(|view| data_bytes(view)).sum();
    let ([chunk], [view]) = (chunks, views) else {
        return Ok(match total <= bytes_max {
            true => Pieces::one(),
            false => Pieces::several(bytes_max),
        });
    };
    let known = chunk.new_share.get().or_else(|| keyspace.new_share.get());
    let (base, log) = base_and_log_bytes(view);
    let streams_are_rare = keyspace.stream_share.get().unwrap_or(1.0) < STREAMS_MIN;
    let is_mostly_new = known.is_some_and(|share| share >= MOSTLY_NEW);
    let may_grow = log * 2 > base && is_mostly_new && !streams_are_rare;
    if !may_grow {
        let new = (log as f64 * f64::from(known.unwrap_or(1.0))) as u64;
        if total <= bytes_max {
            return Ok(Pieces::one());
        }
        let is_looked = hash_key(&chunk.id.0.to_le_bytes()).is_multiple_of(LOOKS_PART);
        let is_skipped = streams_are_rare && !is_looked;
        if is_skipped || view.whole_munk().is_none() && base + new <= bytes_max {
            return Ok(Pieces::one_if_it_fits(bytes_max));
        }
    }
    let growth = growth(core, chunk, view)?;
    let fits = growth.live_bytes() <= bytes_max;
    if may_grow || !fits {
        *streams = growth.streams(stretch_bytes_min(bytes_max));
        let found = !streams.is_empty();
        keyspace
            .stream_share
            .move_towards(f32::from(u8::from(found)));
    }
    Ok(match fits && streams.is_empty() {
        true => Pieces::one(),
        false => Pieces::several(bytes_max),
    })
}

/// Notes for the next rewrites which share of the log of a chunk was new, now that all of it is in
/// `parts`. Two chunks have no such figure, nor has a chunk that shares tables with others.
pub(super) fn note_new_share(old: Old<'_>, parts: &[Part], new: &[Arc<Chunk>]) {
    let ([chunk], [view]) = (old.chunks, old.views) else {
        return;
    };
    let (base, log) = base_and_log_bytes(view);
    let written: u64 = parts.iter().map(|part| part.meta.data_bytes).sum();
    let mut tables = view.funk.tables();
    if log == 0 || tables.any(|table| !crate::rebalance::jobs::inside(chunk, table)) {
        return;
    }
    let share = (written.saturating_sub(base) as f64 / log as f64).min(1.0) as f32;
    for chunk in new {
        chunk.new_share.set(share);
    }
    old.keyspace.new_share.move_towards(share);
}
