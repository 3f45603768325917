//! The reads of a transaction, and the check that they are unchanged when it writes.
//!
//! ```text
//!      since                          now, all latches held
//!        |  ...puts of other writers...   |
//!   read x, read [a, b)           is a record of x, or of [a, b), newer than `since`?
//! ```
//! Until its own records are linked, the writer holds the latches of the chunks that it read,
//! beside the latches of the chunks that it writes. Meanwhile no other thread writes to these
//! chunks. So if two transactions each write what the other one read, the second one to latch finds
//! the records of the first.
//!
//! The place of a newer record: a record newer than `since` belongs to the checkpoint of `since` or
//! to a later one. Its delta leaves the chunk only when the checkpoint after that is complete.
//! While the clock is still in the checkpoint of `since`, all such records are therefore in deltas,
//! unless they were ingested ([`crate::ingest`]), and no table is read under a latch. Otherwise the
//! answer may be [`Found::Unknown`]: the caller then moves `since` forward and compares what it
//! read, holding no latch.
//!
//! For most chunks no delta is searched: [`ChunkWriter::changed_at`] is the version of their newest
//! record.
//!
//! Thread safety: plain data; the caller holds the latches. Not here: what is to be done about a
//! change.

use crate::catalog::KeyspaceState;
use crate::chunk::covers::Covers;
use crate::chunk::emptied::{Emptied, Since};
use crate::chunk::index::Index;
use crate::chunk::{Chunk, ChunkWriter, DeltaLayer, Lookup, View};
use crate::engine::core::Core;
use crate::expiry::{ReadPoint, ReadTime};
use crate::plant::planted;
use crate::sync::Arc;
use crate::sync::reclaim::{self, Guard};
use crate::version::clock::checkpoint_of;
use evendb_storage::codec::successor;
use evendb_storage::{Time, Version};
use std::borrow::Cow;

/// Keys of one keyspace that were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadSpan {
    /// One key.
    Key(Box<[u8]>),
    /// All keys from the first to below the second, or to the end.
    Range(Box<[u8]>, Option<Box<[u8]>>),
}

/// A read of a transaction.
#[derive(Clone)]
pub(crate) struct Read {
    pub(crate) keyspace: Arc<KeyspaceState>,
    pub(crate) span: ReadSpan,
    /// Only what the write deletes was found there.
    pub(crate) empties: bool,
}

/// Reads made at one moment.
#[derive(Clone, Copy)]
pub(crate) struct Reads<'a> {
    pub(crate) all: &'a [Read],
    /// The version at which they were made, and the time.
    pub(crate) since: Version,
    pub(crate) time: Time,
}

/// Whether what was read has changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Found {
    /// Nothing newer is there.
    Same,
    /// A newer record might have left RAM already.
    Unknown,
    /// A newer record is there.
    Changed,
}

impl ReadSpan {
    /// The least key of the span.
    pub(crate) fn low(&self) -> &[u8] {
        match self {
            ReadSpan::Key(key) => key,
            ReadSpan::Range(low, _) => low,
        }
    }

    /// The chunks that have keys of the span, in order.
    pub(crate) fn chunks<'i>(
        &'i self,
        index: &'i Index<Chunk>,
    ) -> impl Iterator<Item = &'i Arc<Chunk>> {
        let high = match self {
            // Only the key's own chunk and the chunks before it begin at or below the key.
            ReadSpan::Key(key) => Some(&**key),
            ReadSpan::Range(_, high) => high.as_deref(),
        };
        index.overlapping(self.low(), high)
    }

    /// The range from `low` to `last`, with `last` included.
    pub(crate) fn through(low: &[u8], last: &[u8]) -> ReadSpan {
        ReadSpan::Range(low.into(), Some(successor(last).into_boxed_slice()))
    }

    /// The exclusive end of the span; `None` if it has no end.
    fn high(&self) -> Option<Cow<'_, [u8]>> {
        match self {
            ReadSpan::Key(key) => Some(Cow::Owned(successor(key))),
            ReadSpan::Range(_, high) => high.as_deref().map(Cow::Borrowed),
        }
    }

    /// Notes for the part of the span in this chunk that no live key is there from `since` on. The
    /// caller holds the chunk's latch.
    pub(super) fn note_emptied(&self, chunk: &Chunk, writer: &mut ChunkWriter, since: Since) {
        let range = &chunk.range;
        let low = self.low().max(&range.low);
        let own = self.high();
        let high = match (own.as_deref(), range.high.as_deref()) {
            (Some(own), Some(limit)) => Some(own.min(limit)),
            (own, limit) => own.or(limit),
        };
        if high.is_none_or(|high| low < high) {
            writer.emptied.note(low, high, since);
        }
    }

    /// Whether a part of the span may lie at `key` or above.
    fn reaches(&self, key: &[u8]) -> bool {
        match self {
            ReadSpan::Key(own) => *key <= **own,
            ReadSpan::Range(_, high) => high.as_ref().is_none_or(|high| *key < **high),
        }
    }

    /// Whether the delta has a record of the span that is newer than `since`. The caller holds the
    /// chunk's latch, so no record is pending.
    fn is_changed_in(
        &self,
        layer: &DeltaLayer<'_>,
        since: Since,
        emptied: &Emptied,
        guard: &Guard,
    ) -> bool {
        if layer.delta.is_empty() || layer.delta.checkpoint() < checkpoint_of(since.version) {
            return false;
        }
        match self {
            ReadSpan::Key(key) => {
                let point = ReadPoint {
                    at: Version::MAX,
                    time: ReadTime::At(since.time),
                };
                let newest = layer.newest(&Lookup::new(key, point), guard);
                newest.is_some_and(|record| record.version() > since.version)
            }
            ReadSpan::Range(low, _) => {
                let mut keys = layer.keys(guard);
                keys.seek(Some(low));
                while let Some(key) = keys.key().filter(|key| self.reaches(key)) {
                    // No key lived there at the moment of the read, and none does now, whatever was
                    // deleted again.
                    match emptied.end_from(key, since) {
                        Some(Some(behind)) => {
                            keys.seek(Some(behind));
                            continue;
                        }
                        Some(None) => return false,
                        None => {}
                    }
                    let newest = keys.cursor.versions().next();
                    if newest.is_some_and(|record| record.version() > since.version) {
                        return true;
                    }
                    keys.cursor.next();
                }
                false
            }
        }
    }

    /// Whether a range deletion newer than `since` overlaps the span. Such a range deletion stays
    /// in the view as long as the reader's moment is registered, even once it is durable: it may go
    /// only when all readers are behind it.
    fn is_deleted_in(&self, covers: &Covers, since: Version) -> bool {
        match self {
            ReadSpan::Key(key) => covers.is_newer(key, since),
            // An iterator that gave no record has read nothing, and no range deletion meets that.
            ReadSpan::Range(low, Some(high)) if high <= low => false,
            ReadSpan::Range(low, high) => covers.is_any_newer(low, high.as_deref(), since),
        }
    }

    /// Whether the part of the span in this chunk has changed since it was read at a version and a
    /// time. The caller holds the chunk's latch.
    pub(crate) fn look(
        &self,
        chunk: &Chunk,
        writer: &ChunkWriter,
        (since, time): (Version, Time),
        core: &Core,
    ) -> Found {
        if writer.changed_at <= since {
            return Found::Same;
        }
        // Read before the view: a delta leaves a view under the latch, and only after the clock has
        // moved.
        let now = checkpoint_of(core.clock.now());
        let pin = reclaim::pin();
        let view = chunk.view.load(&pin);
        let View { covers, funk, .. } = view.get();
        let reader = Since {
            version: since,
            time,
        };
        let mut deltas = view.deltas();
        let changed = deltas.any(|layer| self.is_changed_in(&layer, reader, &writer.emptied, &pin))
            || covers.as_ref().is_some_and(|covers| {
                self.is_deleted_in(covers, since) && !planted!(core.options, RangesNotCompared)
            });
        // Ingested records are in tables at once.
        let all_in_deltas = now == checkpoint_of(since) && funk.max_version <= since;
        match changed {
            true => Found::Changed,
            false if all_in_deltas || planted!(core.options, LooksAtDeltasAlone) => Found::Same,
            false => Found::Unknown,
        }
    }
}

impl Read {
    pub(crate) fn of_key(keyspace: &Arc<KeyspaceState>, key: &[u8]) -> Read {
        Read {
            keyspace: keyspace.clone(),
            span: ReadSpan::Key(key.into()),
            empties: false,
        }
    }

    /// Whether the read reaches beyond `chunk`.
    pub(crate) fn goes_on_behind(&self, chunk: &Chunk) -> bool {
        let high = chunk.range.high.as_ref();
        high.is_some_and(|high| self.span.reaches(high))
    }

    /// Whether what was read has changed, by a look at one chunk after the other, each at its own
    /// moment. The answer holds for every moment before the call: whatever is written later is
    /// newer.
    pub(crate) fn look(&self, since: (Version, Time), core: &Core) -> Found {
        let mut found = Found::Same;
        let mut from: Box<[u8]> = Box::from(self.span.low());
        loop {
            let chunk = {
                let pin = reclaim::pin();
                let index = self.keyspace.index.load(&pin);
                index.get().find(&from).clone()
            };
            let writer = chunk.latch.lock();
            if writer.retired {
                continue;
            }
            found = found.max(self.span.look(&chunk, &writer, since, core));
            drop(writer);
            match &chunk.range.high {
                Some(high) if self.span.reaches(high) => from = high.clone(),
                _ => return found,
            }
        }
    }
}

impl Reads<'_> {
    /// Whether any read has changed, chunk by chunk, each at its own moment.
    pub(crate) fn look_unlatched(&self, core: &Core) -> Found {
        let since = (self.since, self.time);
        let looks = self.all.iter().map(|read| read.look(since, core));
        looks.max().unwrap_or(Found::Same)
    }
}
