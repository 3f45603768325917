//! Folding: the fate of a key's operands when its records are rewritten.
//!
//! ```text
//! versions of a key, newest first     snapshot at 15        no snapshot       no snapshot,
//!                                                                             all older is here
//!   30 merge +3                       30 merge +2 +3        30 put 43         30 put 5
//!   20 merge +2
//!   10 put 38 (right: none)           10 put 38             (one record)      (one record)
//! ```
//! Records without a reader between them are one **group**: the newest of them, its head, and the
//! records that may be dropped beneath it. In a group, operands meet the record that they lie on: a
//! put or delete of the group. They lie on nothing if a range deletion lies between, or if nothing
//! older is left. Operands with a known base become a value with the head's version. Operands alone
//! become one record that lists them; it is shorter if the operator can make one of them. Groups
//! stay apart, for their readers. A value that expires stays apart, too: operands over it do not
//! expire, and count from nothing once it has expired. When it has expired for all readers, it is a
//! delete.
//!
//! Invariants
//! * A reader sees the same before and after, whatever the operator does. If it fails or panics,
//!   operands stay operands, and the record below them stays.
//! * Never more records come out than went in.
//!
//! Thread safety: pure functions. Not here: gathering the records ([`crate::merge`],
//! `munk/image/absorb.rs`), and reads (`read/merges/mod.rs`).

use crate::merge_operator::{self, Operator};
use crate::visibility::{Dropping, KeyVersions};
use evendb_storage::{EntryRef, Kind, Version, operands, push_operand};

/// A record of a key that the caller knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OwnedRecord {
    pub(crate) version: Version,
    pub(crate) kind: Kind,
    pub(crate) value: Vec<u8>,
}

impl OwnedRecord {
    pub(crate) fn of(entry: &EntryRef<'_>) -> OwnedRecord {
        OwnedRecord {
            version: entry.version,
            kind: entry.kind,
            value: entry.value.to_vec(),
        }
    }

    /// The record as all readers that see it read it.
    fn read_by_all(self, dropping: Dropping<'_>) -> OwnedRecord {
        let entry = EntryRef {
            key: &[],
            version: self.version,
            kind: self.kind,
            value: &self.value,
        };
        match dropping.as_all_read(entry) {
            read if read.kind == self.kind => self,
            read => OwnedRecord::of(&read),
        }
    }
}

/// The operands in the value of a record, oldest first. An operand that makes no sense ends them;
/// decoding has refused such records.
pub(crate) fn operands_of(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    operands(value).map_while(|operand| operand)
}

/// The way in which a munk folds the operands that it absorbs.
#[derive(Clone, Copy)]
pub(crate) struct Folding<'f> {
    pub(crate) operator: Option<&'f Operator>,
    /// The least version, above that of a key's record, of a range deletion in the manifest.
    pub(crate) cover_above: &'f dyn Fn(&[u8], Version) -> Option<Version>,
}

impl Folding<'_> {
    /// Operands stay operands, and there are no range deletions.
    #[cfg(test)]
    pub(crate) const NONE: Folding<'static> = Folding {
        operator: None,
        cover_above: &|_, _| None,
    };
}

/// The least version, above that of a record, of a range deletion of its key in the manifest.
pub(crate) type CoverAbove<'c> = &'c dyn Fn(Version) -> Option<Version>;

/// The value of one record that lists the operands of `lists`, oldest first. If the operator can,
/// it makes one operand of all.
pub(crate) fn joined(operator: Option<&Operator>, key: &[u8], lists: &[&[u8]]) -> Vec<u8> {
    let all: Vec<&[u8]> = lists.iter().flat_map(|list| operands_of(list)).collect();
    let one = operator
        .filter(|_| all.len() > 1)
        .and_then(|operator| merge_operator::partial(&**operator, key, &all));
    match one {
        Some(one) => {
            let mut value = Vec::with_capacity(one.len() + 2);
            push_operand(&mut value, &one);
            value
        }
        None => lists.concat(),
    }
}

/// The record below the operands.
enum Beneath {
    /// A put or delete of the same group.
    Record(OwnedRecord),
    /// Nothing: a range deletion hides older records. The version is the one of a hidden record of
    /// the group.
    Deleted(Version),
    /// Nothing, and the group has no such record.
    Nothing,
    /// Records of other sources, or records that readers of another group see.
    Unknown,
}

/// The result of rewriting `records`, newest first; the first one is kept and lists operands.
/// `versions` is what the rewrite has seen of the key before.
pub(crate) fn rewritten(
    key: &[u8],
    records: Vec<OwnedRecord>,
    versions: KeyVersions,
    dropping: Dropping<'_>,
    cover_above: CoverAbove<'_>,
    operator: Option<&Operator>,
) -> Vec<OwnedRecord> {
    let mut out: Vec<OwnedRecord> = Vec::new();
    let mut rest = records
        .into_iter()
        .map(|record| record.read_by_all(dropping))
        .peekable();
    let mut is_first = versions.is_first();
    while let Some(head) = rest.next() {
        let version = head.version;
        // The whole group is dropped if no reader falls between it and a range deletion, because
        // the range deletion may be dropped, too.
        let is_covered =
            cover_above(version).is_some_and(|cover| dropping.horizon.may_drop(version, cover));
        // The rest of the head's group, up to the record that the operands lie on.
        let mut lists = vec![head];
        let mut beneath = None;
        while let Some(next) = rest.next_if(|next| dropping.horizon.may_drop(next.version, version))
        {
            let newer = lists.last().expect("the head is there");
            let is_known = newer.kind != Kind::Merge || beneath.is_some();
            if is_known || next.version == newer.version {
                continue;
            }
            let is_hidden = cover_above(next.version).is_some_and(|cover| cover <= newer.version);
            match next.kind {
                _ if is_hidden => beneath = Some(Beneath::Deleted(next.version)),
                Kind::Merge => lists.push(next),
                _ => beneath = Some(Beneath::Record(next)),
            }
        }
        if is_covered {
            is_first = false;
            continue;
        }
        if lists[0].kind != Kind::Merge {
            out.push(lists.swap_remove(0));
            is_first = false;
            continue;
        }
        let beneath = beneath.unwrap_or_else(|| {
            let last = lists.last().expect("the head is there").version;
            let is_hidden =
                |next: &OwnedRecord| cover_above(next.version).is_some_and(|cover| cover <= last);
            match rest.peek().map_or(dropping.bottom, is_hidden) {
                true => Beneath::Nothing,
                false => Beneath::Unknown,
            }
        });
        let group = fold_group(key, version, &lists, beneath, operator);
        for record in group {
            // Like any tombstone that hides nothing.
            let spent = record.kind.is_tombstone()
                && is_first
                && dropping.bottom
                && dropping.horizon.below_all(record.version);
            is_first = false;
            if !spent {
                out.push(record);
            }
        }
    }
    out
}

/// One group: the records of `lists` list operands, newest first.
fn fold_group(
    key: &[u8],
    version: Version,
    lists: &[OwnedRecord],
    beneath: Beneath,
    operator: Option<&Operator>,
) -> Vec<OwnedRecord> {
    let oldest_first: Vec<&[u8]> = lists.iter().rev().map(|record| &record.value[..]).collect();
    let merged = |kind, value| OwnedRecord {
        version,
        kind,
        value,
    };
    let folded = operator.and_then(|operator| {
        let existing = match &beneath {
            Beneath::Record(record) if record.kind == Kind::Put => Some(&record.value[..]),
            Beneath::Record(record) if record.kind.is_tombstone() => None,
            Beneath::Deleted(_) | Beneath::Nothing => None,
            // A value that expires before the operands do stays apart.
            Beneath::Record(_) | Beneath::Unknown => return None,
        };
        let all: Vec<&[u8]> = oldest_first
            .iter()
            .flat_map(|list| operands_of(list))
            .collect();
        merge_operator::full(&**operator, key, existing, &all).ok()
    });
    match folded {
        Some(Some(value)) => vec![merged(Kind::Put, value)],
        Some(None) => vec![merged(Kind::Delete, Vec::new())],
        None => {
            let mut kept = vec![merged(Kind::Merge, joined(operator, key, &oldest_first))];
            match beneath {
                Beneath::Record(record) => kept.push(record),
                // It replaces the hidden record, because the range deletion itself may go.
                Beneath::Deleted(version) => kept.push(OwnedRecord {
                    version,
                    kind: Kind::Delete,
                    value: Vec::new(),
                }),
                Beneath::Nothing | Beneath::Unknown => {}
            }
            kept
        }
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
pub(crate) mod tests;
