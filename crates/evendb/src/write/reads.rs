//! What a transaction has read, and whether that is still so when it writes.
//!
//! ```text
//!      since                          now, all latches held
//!        |  ...puts of others...        |
//!   read x, read [a, b)           is a record of x, or of [a, b), newer than `since`?
//! ```
//! The writer holds the latches of the chunks that it read beside those of the chunks that it writes, until its own
//! records are linked. Nobody else writes to these chunks meanwhile. So of two transactions that each write what the
//! other one read, the second one to latch finds the records of the first.
//!
//! Where a newer record lies. A record newer than `since` belongs to the checkpoint of `since` or to a later one. Its
//! delta leaves the chunk only when the checkpoint after that is complete. While the clock is still in the checkpoint of
//! `since`, all such records are therefore in deltas, unless they were ingested ([`crate::ingest`]), and no table is read
//! under a latch. Else the answer may be [`Found::Unknown`]: the caller then moves `since` forward and compares what it read, holding no latch.
//!
//! Most chunks answer without a look at deltas: [`ChunkWriter::changed_at`] is the version of their newest record.
//!
//! Thread safety: plain data; the caller holds the latches. Not here: what is to be done about a change.

use crate::catalog::KeyspaceState;
use crate::chunk::covers::Covers;
use crate::chunk::emptied::{Emptied, Since};
use crate::chunk::index::Index;
use crate::chunk::{Chunk, ChunkWriter, View};
use crate::delta::Delta;
use crate::engine::core::Core;
use crate::plant::planted;
use crate::sync::Arc;
use crate::sync::reclaim::{self, Guard};
use crate::version::clock::checkpoint_of;
use evendb_storage::codec::successor;
use evendb_storage::key_hash::RamHash;
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
    /// Nothing was found there but what the write deletes.
    pub(crate) empties: bool,
}

/// Reads of one moment.
#[derive(Clone, Copy)]
pub(crate) struct Reads<'a> {
    pub(crate) all: &'a [Read],
    /// The version at which they were made, and by what time.
    pub(crate) since: Version,
    pub(crate) time: Time,
}

/// What became of something that was read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Found {
    /// Nothing newer is there.
    Same,
    /// What is newer would not have to be in RAM any more.
    Unknown,
    /// A newer record is there.
    Changed,
}

impl ReadSpan {
    /// The least key of it.
    pub(crate) fn low(&self) -> &[u8] {
        match self {
            ReadSpan::Key(key) => key,
            ReadSpan::Range(low, _) => low,
        }
    }

    /// The chunks that have keys of it, in order.
    pub(crate) fn chunks<'i>(
        &'i self,
        index: &'i Index<Chunk>,
    ) -> impl Iterator<Item = &'i Arc<Chunk>> {
        let high = match self {
            // No chunk begins below it but its own and those before.
            ReadSpan::Key(key) => Some(&**key),
            ReadSpan::Range(_, high) => high.as_deref(),
        };
        index.overlapping(self.low(), high)
    }

    /// From `low` to `last`, and that, too.
    pub(crate) fn through(low: &[u8], last: &[u8]) -> ReadSpan {
        ReadSpan::Range(low.into(), Some(successor(last).into_boxed_slice()))
    }

    /// Where it ends, exclusive; `None` if it does not.
    fn high(&self) -> Option<Cow<'_, [u8]>> {
        match self {
            ReadSpan::Key(key) => Some(Cow::Owned(successor(key))),
            ReadSpan::Range(_, high) => high.as_deref().map(Cow::Borrowed),
        }
    }

    /// Notes that nothing lives of it in a chunk whose latch the caller holds, from `since` on.
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

    /// Whether some of it may lie at `key` or above.
    fn reaches(&self, key: &[u8]) -> bool {
        match self {
            ReadSpan::Key(own) => *key <= **own,
            ReadSpan::Range(_, high) => high.as_ref().is_none_or(|high| *key < **high),
        }
    }

    /// Whether the delta has a record of it that is newer than `since`. The caller holds the chunk's latch, so none is
    /// pending. `counts` says which keys of the delta are the chunk's.
    fn is_changed_in(
        &self,
        delta: &Delta,
        counts: &dyn Fn(&[u8]) -> bool,
        (since, emptied): (Version, Option<(&Emptied, Since)>),
        guard: &Guard,
    ) -> bool {
        if delta.is_empty() || delta.checkpoint() < checkpoint_of(since) {
            return false;
        }
        match self {
            ReadSpan::Key(key) => {
                let newest = delta.get(key, RamHash::of(key), Version::MAX, guard);
                newest.is_some_and(|record| record.version() > since) && counts(key)
            }
            ReadSpan::Range(low, _) => {
                let mut cursor = delta.cursor(guard);
                cursor.seek(low);
                while cursor.valid() && self.reaches(cursor.key()) {
                    // Nothing lived there at the moment, nor does now, whatever was deleted again.
                    let end = emptied.and_then(|(of, reader)| of.end_from(cursor.key(), reader));
                    match end {
                        Some(Some(behind)) => {
                            cursor.seek(behind);
                            continue;
                        }
                        Some(None) => return false,
                        None => {}
                    }
                    let newest = cursor.versions().next();
                    if newest.is_some_and(|record| record.version() > since) && counts(cursor.key())
                    {
                        return true;
                    }
                    cursor.next();
                }
                false
            }
        }
    }

    /// Whether a range deletion newer than `since` has some of it. It is in the view as long as the reader's moment is
    /// registered, whatever becomes durable: one may go only where all readers are behind it.
    fn is_deleted_in(&self, covers: &Covers, since: Version) -> bool {
        match self {
            ReadSpan::Key(key) => covers.is_newer(key, since),
            // An iterator that gave nothing has read nothing, which no range deletion meets.
            ReadSpan::Range(low, Some(high)) if high <= low => false,
            ReadSpan::Range(low, high) => covers.is_any_newer(low, high.as_deref(), since),
        }
    }

    /// What became of it in a chunk whose latch the caller holds, since it was read at a version, by a time.
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
        // Read before the view: what leaves a view does so under the latch, and after the clock has moved.
        let now = checkpoint_of(core.clock.now());
        let pin = reclaim::pin();
        let view = chunk.view.load(&pin);
        let View {
            active,
            frozen,
            covers,
            funk,
            ..
        } = view.get();
        let reader = Since {
            version: since,
            time,
        };
        let since_emptied = (since, Some((&writer.emptied, reader)));
        let changed = self.is_changed_in(active, &|_| true, since_emptied, &pin)
            || covers.as_ref().is_some_and(|covers| {
                self.is_deleted_in(covers, since) && !planted!(core.options, RangesNotCompared)
            })
            || frozen.iter().any(|frozen| {
                let limits = frozen.limits.as_ref();
                let counts = |key: &[u8]| limits.is_none_or(|limits| limits.contains(key));
                self.is_changed_in(&frozen.delta, &counts, since_emptied, &pin)
            });
        // What was ingested is in tables at once.
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

    /// Whether the read reaches behind `chunk`.
    pub(crate) fn goes_on_behind(&self, chunk: &Chunk) -> bool {
        let high = chunk.range.high.as_ref();
        high.is_some_and(|high| self.span.reaches(high))
    }

    /// What became of it, by a look at one chunk after the other, each at its own moment. That says what was so at any
    /// moment before: what is written later is newer than that.
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
    /// What became of all of it, chunk by chunk, each at its own moment.
    pub(crate) fn look_unlatched(&self, core: &Core) -> Found {
        let since = (self.since, self.time);
        let looks = self.all.iter().map(|read| read.look(since, core));
        looks.max().unwrap_or(Found::Same)
    }
}
