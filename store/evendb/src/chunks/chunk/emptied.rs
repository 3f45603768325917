//! Key ranges of a chunk that pops have left empty: the next pop begins its search behind them.
//!
//! ```text
//!   keys      a   b   c   d   e   f   g       x popped: a tombstone over its put,
//!             x   x   x   x   v   v   v         until a rewrite drops both
//!             [-- emptied ---)                pop_first looks from e on;
//!                                             a put of b leaves [a, b) and (b, e)
//! ```
//! **What it says.** Each range has a version v and a time t. A reader at v or later that judges by
//! t or later finds no live record with a key of the range, among all records linked so far. It may
//! say less than is true, and forget at any time: the reader then looks at the records.
//!
//! **Why that holds.** The write of a pop notes the range. The pop found nothing in it, at a moment
//! s, except the record that it deletes, and saw under this latch that nothing newer than s is
//! there. From the version of the write on, the range has no live record. Later only a record that
//! is no tombstone can change that. Each such record is linked under the latch by `write::link`,
//! which tells the chunk ([`Emptied::touch`]). Expiry, range deletions, rewrites, loads and
//! evictions bring no record to life. Splits, merges and ingests make new chunks, which begin with
//! no emptied range; so does an opening.
//!
//! **Why a reader may rely on it.** A pop takes its moment first, and then asks, under the latch.
//! Registration has waited for all puts that the moment sees, so their records were told before the
//! pop asks. It does not see records that were linked since then. A retired chunk is not asked: no
//! write tells it any more.
//!
//! Thread safety: the chunk's latch guards it. Memory: a few short keys for a chunk from which
//! something was popped.

use evendb_storage::codec::successor;
use evendb_storage::{Time, Version};

/// The largest number of ranges that a chunk keeps: one for each queue.
const RANGES_MAX: usize = 8;
/// A range is not kept if both its keys together have more bytes than this.
const KEY_BYTES_MAX: usize = 1 << 10;

/// The moment since which a range has no live record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Since {
    pub(crate) version: Version,
    pub(crate) time: Time,
}

impl Since {
    fn counts_for(self, reader: Since) -> bool {
        self.version <= reader.version && self.time <= reader.time
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Range {
    low: Box<[u8]>,
    /// The exclusive end; `None` for the end of all keys.
    high: Option<Box<[u8]>>,
    since: Since,
}

impl Range {
    fn contains(&self, key: &[u8]) -> bool {
        *self.low <= *key && self.ends_behind(key)
    }

    fn ends_behind(&self, key: &[u8]) -> bool {
        self.high.as_deref().is_none_or(|high| key < high)
    }
}

/// See the module.
#[derive(Default, Debug)]
pub(crate) struct Emptied {
    /// The ranges in ascending order; no two of them touch.
    ranges: Vec<Range>,
}

impl Emptied {
    /// If `key` is in a range that counts for this reader, the end of the range; `Some(None)` if it
    /// goes on to the end of all keys.
    pub(crate) fn end_from(&self, key: &[u8], reader: Since) -> Option<Option<&[u8]>> {
        let mut ranges = self.ranges.iter();
        let range = ranges.find(|range| range.contains(key))?;
        range
            .since
            .counts_for(reader)
            .then_some(range.high.as_deref())
    }

    /// If the keys just below `high`, or the last keys, are in a range that counts for this reader,
    /// the begin of the range.
    pub(crate) fn begin_below(&self, high: Option<&[u8]>, reader: Since) -> Option<&[u8]> {
        let is_below = |range: &&Range| match high {
            None => range.high.is_none(),
            Some(high) => *range.low < *high && range.high.as_deref().is_none_or(|own| high <= own),
        };
        let range = self.ranges.iter().find(is_below)?;
        range.since.counts_for(reader).then_some(&*range.low)
    }

    /// Notes that from `since` on no live record lies from `low` to below `high`.
    pub(crate) fn note(&mut self, low: &[u8], high: Option<&[u8]>, since: Since) {
        if low.len() + high.map_or(0, <[u8]>::len) > KEY_BYTES_MAX {
            return;
        }
        let mut new = Range {
            low: low.into(),
            high: high.map(Box::from),
            since,
        };
        // Ranges that it overlaps or touches become a part of it.
        self.ranges.retain(|old| {
            let begins_before = new.high.as_ref().is_none_or(|high| old.low <= *high);
            let ends_behind = old.high.as_ref().is_none_or(|high| *high >= new.low);
            if !begins_before || !ends_behind {
                return true;
            }
            if old.low < new.low {
                new.low.clone_from(&old.low);
            }
            if new.high.is_some()
                && old
                    .high
                    .as_ref()
                    .is_none_or(|old| Some(old) > new.high.as_ref())
            {
                new.high.clone_from(&old.high);
            }
            new.since.version = new.since.version.max(old.since.version);
            new.since.time = new.since.time.max(old.since.time);
            false
        });
        self.insert(new);
    }

    /// Notes that a record that is no tombstone is linked under this key.
    #[inline]
    pub(crate) fn touch(&mut self, key: &[u8]) {
        if !self.ranges.is_empty() {
            self.cut_out(key);
        }
    }

    #[cold]
    fn cut_out(&mut self, key: &[u8]) {
        let Some(at) = self.ranges.iter().position(|range| range.contains(key)) else {
            return;
        };
        let mut below = self.ranges.remove(at);
        let behind = Range {
            low: successor(key).into(),
            high: below.high.take(),
            since: below.since,
        };
        below.high = Some(key.into());
        let parts = [below, behind];
        let is_any = |range: &Range| range.ends_behind(&range.low);
        parts
            .into_iter()
            .filter(is_any)
            .for_each(|part| self.insert(part));
    }

    fn insert(&mut self, range: Range) {
        let at = self.ranges.partition_point(|before| before.low < range.low);
        self.ranges.insert(at, range);
        if self.ranges.len() > RANGES_MAX {
            let ages = self.ranges.iter().enumerate();
            let oldest = ages.min_by_key(|(_, range)| range.since.version);
            if let Some((oldest, _)) = oldest {
                self.ranges.remove(oldest);
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    fn since(version: u64) -> Since {
        Since {
            version: Version(version),
            time: Time(version),
        }
    }

    fn found(emptied: &Emptied) -> Vec<(&str, &str, u64)> {
        let ranges = emptied.ranges.iter();
        ranges
            .map(|range| {
                let low = std::str::from_utf8(&range.low).unwrap();
                let high = range.high.as_deref().unwrap_or(b"end");
                let high = std::str::from_utf8(high).unwrap();
                (low, high, range.since.version.0)
            })
            .collect()
    }

    #[test]
    fn ranges_that_meet_become_one_and_puts_cut_them() {
        let mut emptied = Emptied::default();
        emptied.touch(b"a");
        emptied.note(b"a", Some(b"b\0"), since(5));
        emptied.note(b"q", None, since(6));
        emptied.note(b"b\0", Some(b"c\0"), since(7));
        assert_eq!(found(&emptied), [("a", "c\0", 7), ("q", "end", 6)]);
        let end = |key: &[u8], at| emptied.end_from(key, since(at));
        assert_eq!(end(b"a", 7), Some(Some(&b"c\0"[..])));
        assert_eq!(end(b"c", 9), Some(Some(&b"c\0"[..])));
        assert_eq!(
            (end(b"a", 6), end(b"c\0", 9), end(b"A", 9)),
            (None, None, None)
        );
        assert_eq!(end(b"z", 6), Some(None));
        let begin = |high: Option<&[u8]>| emptied.begin_below(high, since(9));
        assert_eq!(begin(None), Some(&b"q"[..]));
        assert_eq!(begin(Some(b"q")), None);
        assert_eq!(begin(Some(b"z")), Some(&b"q"[..]));
        assert_eq!(begin(Some(b"c\0")), Some(&b"a"[..]));
        assert_eq!(begin(Some(b"c\0\0")), None);
        assert_eq!(begin(Some(b"a")), None);
        let early = Since {
            time: Time(6),
            ..since(9)
        };
        assert_eq!(emptied.end_from(b"a", early), None, "its time is before");
        emptied.touch(b"b");
        assert_eq!(
            found(&emptied),
            [("a", "b", 7), ("b\0", "c\0", 7), ("q", "end", 6)]
        );
        emptied.touch(b"a");
        assert_eq!(
            found(&emptied),
            [("a\0", "b", 7), ("b\0", "c\0", 7), ("q", "end", 6)]
        );
        emptied.touch(b"c");
        emptied.touch(b"b\0");
        emptied.note(b"a", None, since(8));
        assert_eq!(found(&emptied), [("a", "end", 8)]);
    }

    #[test]
    fn no_more_than_some_ranges_of_short_keys_are_kept() {
        let mut emptied = Emptied::default();
        for queue in b'a'..=b'z' {
            emptied.note(&[queue], Some(&[queue, 1]), since(u64::from(queue)));
        }
        assert_eq!(emptied.ranges.len(), RANGES_MAX);
        assert!(emptied.end_from(b"z", since(200)).is_some());
        assert!(emptied.end_from(b"a", since(200)).is_none());
        let mut emptied = Emptied::default();
        emptied.note(&[1; KEY_BYTES_MAX], Some(&[2]), since(1));
        assert!(emptied.ranges.is_empty());
    }
}
