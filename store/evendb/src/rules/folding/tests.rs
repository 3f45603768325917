use super::*;
use crate::merge_operator::{MergeError, MergeOperator};
use crate::version::horizon::Horizon;
use crate::visibility::Fate;
use proptest::prelude::*;
use std::sync::Arc;

/// Appends, and can be told to fail or to merge nothing partially. An empty result means no value.
pub(crate) struct Append {
    pub(crate) partial: bool,
    pub(crate) fails: bool,
}

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }
    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Option<Vec<u8>>, MergeError> {
        if self.fails {
            return Err("on purpose".into());
        }
        let all = [existing.unwrap_or_default(), &operands.concat()].concat();
        Ok(Some(all).filter(|all| !all.is_empty()))
    }
    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.partial.then(|| operands.concat())
    }
}

/// The records of one key at the versions 1, 2, ...
#[derive(Clone, Debug)]
enum Says {
    Put,
    Delete,
    Merge,
    /// An operand that adds nothing: over no value there is no value.
    MergeNothing,
    /// No record of this version.
    None,
}

fn says() -> impl Strategy<Value = Says> {
    prop_oneof![
        1 => Just(Says::Put),
        1 => Just(Says::Delete),
        4 => Just(Says::Merge),
        1 => Just(Says::MergeNothing),
        1 => Just(Says::None),
    ]
}

/// Newest first.
fn records(history: &[Says]) -> Vec<OwnedRecord> {
    let of = |(index, says): (usize, &Says)| {
        let own = [b'a' + index as u8];
        let mut list = Vec::new();
        let (kind, value) = match says {
            Says::None => return None,
            Says::Put => (Kind::Put, own.to_vec()),
            Says::Delete => (Kind::Delete, Vec::new()),
            Says::Merge => {
                push_operand(&mut list, &own);
                (Kind::Merge, list)
            }
            Says::MergeNothing => {
                push_operand(&mut list, b"");
                (Kind::Merge, list)
            }
        };
        let version = Version(10 * (index as u64 + 1));
        Some(OwnedRecord {
            version,
            kind,
            value,
        })
    };
    history.iter().enumerate().rev().filter_map(of).collect()
}

/// The value that a reader at `at` sees in records, newest first, under range deletions; `below` is
/// the value below them.
pub(crate) fn read(
    records: &[OwnedRecord],
    covers: &[Version],
    below: Option<&[u8]>,
    at: Version,
) -> Option<Vec<u8>> {
    let hidden_below = covers.iter().filter(|cover| **cover <= at).max();
    let mut lists: Vec<&[u8]> = Vec::new();
    // It is older than every range deletion.
    let below = below.filter(|_| hidden_below.is_none());
    let mut beneath = below.map(<[u8]>::to_vec);
    for record in records.iter().filter(|record| record.version <= at) {
        if hidden_below.is_some_and(|cover| record.version < *cover) {
            beneath = None;
            break;
        }
        match record.kind {
            Kind::Merge => {
                lists.push(&record.value);
                continue;
            }
            Kind::Put => beneath = Some(record.value.clone()),
            _ => beneath = None,
        }
        break;
    }
    if lists.is_empty() {
        return beneath;
    }
    let operands: Vec<&[u8]> = lists
        .iter()
        .rev()
        .flat_map(|list| operands_of(list))
        .collect();
    let operator = Append {
        partial: false,
        fails: false,
    };
    operator
        .full_merge(b"k", beneath.as_deref(), &operands)
        .expect("merges")
}

/// The result of a rewrite, as `merge.rs` does it.
fn rewrite(
    all: &[OwnedRecord],
    dropping: Dropping<'_>,
    covers: &[Version],
    operator: &Operator,
) -> Vec<OwnedRecord> {
    let cover_above = |version| {
        covers
            .iter()
            .filter(|cover| **cover > version)
            .min()
            .copied()
    };
    let mut versions = KeyVersions::default();
    let mut out = Vec::new();
    for (index, record) in all.iter().enumerate() {
        let before = versions;
        let mut fate = versions.fate(record.version, record.kind, dropping);
        let cover = cover_above(record.version);
        if fate == Fate::Kept
            && cover.is_some_and(|cover| dropping.horizon.may_drop(record.version, cover))
        {
            fate = Fate::Covered;
        }
        if fate == Fate::Kept && record.kind == Kind::Merge {
            let rest = all[index..].to_vec();
            let taken = rest.len();
            let kept = rewritten(b"k", rest, before, dropping, &cover_above, Some(operator));
            assert!(kept.len() <= taken, "more came out than went in");
            out.extend(kept);
            break;
        }
        if fate == Fate::Kept {
            out.push(record.clone());
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    /// Whatever is folded, every reader sees the same as before, with and without records in other
    /// sources.
    #[test]
    fn readers_see_the_same_before_and_after(
        history in prop::collection::vec(says(), 1..9),
        snapshots in prop::collection::btree_set(0u64..100, 0..4),
        covers in prop::collection::btree_set(0u64..100, 0..3),
        floor in 60u64..120,
        bottom: bool,
        partial: bool,
        fails: bool,
    ) {
        let all = records(&history);
        let horizon = Horizon {
            floor: Version(floor),
            snapshots: snapshots.iter().map(|&at| Version(at)).collect(),
            ..Horizon::default()
        };
        let covers: Vec<Version> = covers.into_iter().map(Version).collect();
        let dropping = Dropping { horizon: &horizon, bottom, zero_below: Version::ZERO };
        let operator: Operator = Arc::new(Append { partial, fails });
        let kept = rewrite(&all, dropping, &covers, &operator);
        prop_assert!(kept.is_sorted_by(|a, b| a.version > b.version), "{kept:?}");
        let below = (!bottom).then_some(&b"z"[..]);
        // Range deletions that every reader sees are dropped in a rewrite of everything.
        let mut left = covers.clone();
        left.retain(|cover| !(bottom && horizon.below_all(*cover)));
        let readers = horizon.snapshots.iter().copied().chain((floor..130).map(Version));
        for at in readers {
            prop_assert_eq!(
                read(&kept, &left, below, at), read(&all, &covers, below, at),
                "at {:?}: {:?} became {:?}", at, all, kept
            );
        }
        if snapshots.is_empty() && covers.is_empty() && !fails && floor >= 100 {
            prop_assert!(kept.len() <= 1, "{kept:?}");
        }
    }
}
