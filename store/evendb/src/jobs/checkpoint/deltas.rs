//! The records of deltas that no longer change, as sources of a merge.
//!
//! ```text
//! delta:   key  key  key  key  ...        a source stands on one key, and holds the records of
//!                    ^ newest, older      this key alone: a delta may be of any length
//! ```
//! A run of many tables makes its sources anew for each table, behind the last key that was
//! written. So a source costs a search, and then the records that are taken from it; only the
//! sources of the first table walk through whole deltas, once, to count them.
//!
//! Invariants: each committed record of the keys that count comes out once, keys ascending, the
//! newest record of a key first.
//!
//! Thread safety: one thread, under the pin of the cursors. Not here: the merge itself, and what
//! becomes of the records.

use crate::chunk::{DeltaKeys, Frozen};
use crate::error::Result;
use crate::merge::Source;
use crate::merge::count::Held;
use crate::record::Record;
use crate::sync::reclaim;
use crate::sync::yielding::Yielder;
use evendb_storage::EntryRef;
use smallvec::SmallVec;

/// The committed records of one delta within its limits.
struct DeltaSource<'g> {
    keys: DeltaKeys<'g>,
    /// The records of the current key, newest first; none at the end.
    versions: SmallVec<[&'g Record; 4]>,
    /// The current one.
    at: usize,
    held: Held,
}

impl<'g> DeltaSource<'g> {
    /// The records of greater keys than `after`, or all of them, which it then counts.
    fn new(
        frozen: &'g Frozen,
        after: Option<&[u8]>,
        pin: &'g reclaim::Guard,
        yielder: &mut Yielder,
    ) -> DeltaSource<'g> {
        let held = match after {
            None => count(frozen.layer().keys(pin), yielder),
            Some(_) => Held::UNKNOWN,
        };
        let mut keys = frozen.layer().keys(pin);
        keys.seek(after);
        if after.is_some() && keys.key() == after {
            keys.cursor.next();
        }
        let mut source = DeltaSource {
            keys,
            versions: SmallVec::new(),
            at: 0,
            held,
        };
        source.gather();
        source
    }

    /// Takes the records of the key that the cursor is on, or of the next key that has any.
    fn gather(&mut self) {
        self.at = 0;
        self.versions.clear();
        while self.versions.is_empty() && self.keys.key().is_some() {
            self.versions.extend(self.keys.cursor.versions());
            self.keys.cursor.next();
        }
    }
}

fn count(mut keys: DeltaKeys<'_>, yielder: &mut Yielder) -> Held {
    let mut records = 0;
    keys.seek(None);
    while keys.key().is_some() {
        records += keys.cursor.versions().count() as u64;
        yielder.yield_if_due();
        keys.cursor.next();
    }
    Held::exactly(records)
}

impl Source for DeltaSource<'_> {
    fn held(&self) -> Held {
        self.held
    }

    fn current(&self) -> Option<EntryRef<'_>> {
        self.versions.get(self.at).map(|record| record.entry())
    }

    fn advance(&mut self) -> Result<()> {
        self.at += 1;
        if self.at >= self.versions.len() {
            self.gather();
        }
        Ok(())
    }
}

/// The deltas' records as sources, newest delta first, within each delta's limits.
/// With `after`, only records of greater keys; only without it the sources know how many they hold.
pub(crate) fn delta_sources<'g>(
    deltas: &'g [Frozen],
    after: Option<&[u8]>,
    pin: &'g reclaim::Guard,
    yielder: &mut Yielder,
) -> Vec<Box<dyn Source + 'g>> {
    deltas
        .iter()
        .map(|frozen| {
            let source = DeltaSource::new(frozen, after, pin, yielder);
            Box::new(source) as Box<dyn Source + 'g>
        })
        .collect()
}
