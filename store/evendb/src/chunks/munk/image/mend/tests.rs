//! Mending where keys have operands: every reader sees the same as before, after the leaving range
//! deletions are gone.

use super::*;
use crate::folding::OwnedRecord;
use crate::folding::tests::{Append, read};
use crate::merge_operator::Operator;
use crate::munk::image::tests::{Model, build, random_records};
use evendb_storage::push_operand;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::cmp::Reverse;
use std::sync::Arc;

/// Range deletions: their versions, and the keys from the first to below the second.
type Deletions = Vec<(Version, [Vec<u8>; 2])>;

/// Records of a model; some of them list operands. Values are short: the operator appends.
fn with_operands(random: &mut StdRng, mut model: Model) -> Model {
    for (number, (version, record)) in model.values_mut().flatten().enumerate() {
        let own = format!("{number}.{} ", version.0).into_bytes();
        *record = match random.random_range(0..4) {
            0 => (Kind::Put, own),
            1 if random.random() => (Kind::Delete, Vec::new()),
            _ => {
                let mut list = Vec::new();
                push_operand(&mut list, &own);
                (Kind::Merge, list)
            }
        };
    }
    model
}

fn owned(model: &Model, key: &[u8]) -> Vec<OwnedRecord> {
    let versions = model.get(key).into_iter().flatten();
    let record = |(version, (kind, value)): (&Reverse<u64>, &(Kind, Vec<u8>))| OwnedRecord {
        version: Version(version.0),
        kind: *kind,
        value: value.clone(),
    };
    versions.map(record).collect()
}

fn all_of(image: &Image) -> Model {
    let mut model = Model::new();
    let mut entries = image.entries_from(None);
    while let Some(entry) = entries.entry() {
        let versions = model.entry(entry.key.to_vec()).or_default();
        let record = (entry.kind, entry.value.to_vec());
        versions.insert(Reverse(entry.version.0), record);
        entries.advance();
    }
    model
}

fn random_deletions(random: &mut StdRng, model: &Model) -> Deletions {
    let keys: Vec<&Vec<u8>> = model.keys().collect();
    let count = random.random_range(1..6);
    let one = |random: &mut StdRng| {
        let mut ends = [(); 2].map(|()| keys[random.random_range(0..keys.len())].clone());
        ends.sort();
        (Version(random.random_range(1..35)), ends)
    };
    (0..count).map(|_| one(random)).collect()
}

fn versions_of(deletions: &Deletions, key: &[u8]) -> Vec<Version> {
    let has = deletions
        .iter()
        .filter(|(_, [low, high])| *key >= **low && *key < **high);
    has.map(|(version, _)| *version).collect()
}

/// Mends an image up to `limit` under range deletions, compares what readers see, and returns
/// whether the image changed.
fn mend_and_compare(
    model: &Model,
    deletions: &Deletions,
    (limit, horizon): (Version, &Horizon),
    operator: Option<&Operator>,
    page_bytes: usize,
) -> bool {
    let mut hidden_below = |key: &[u8]| {
        let own = versions_of(deletions, key).into_iter();
        let own = own.filter(|version| *version <= limit).max();
        own.unwrap_or(Version::ZERO)
    };
    let cover_above = |key: &[u8], version: Version| {
        let own = versions_of(deletions, key).into_iter();
        own.filter(|own| *own > version).min()
    };
    let folding = Folding {
        operator,
        cover_above: &cover_above,
    };
    let image = build(model, page_bytes);
    let Mended::Without(mended) = image.mended(&mut hidden_below, horizon, folding) else {
        return false;
    };
    let mended = all_of(&mended);
    let readers = horizon.snapshots.iter().copied().chain([horizon.floor]);
    for at in readers {
        for key in model.keys() {
            let before = versions_of(deletions, key);
            let mut after = before.clone();
            after.retain(|version| *version > limit);
            let (had, has) = (owned(model, key), owned(&mended, key));
            assert_eq!(
                read(&has, &after, None, at),
                read(&had, &before, None, at),
                "at {at:?}: {had:?} became {has:?} under {before:?}; {after:?} of these stay"
            );
        }
    }
    true
}

#[test]
fn readers_see_the_same_operands_when_range_deletions_leave() {
    let mut mended = 0;
    for seed in 0..600 {
        let random = &mut StdRng::seed_from_u64(seed);
        let model = random_records(random, [3, 20, 60][seed as usize % 3], 0);
        let model = with_operands(random, model);
        let deletions = random_deletions(random, &model);
        let limit = Version(random.random_range(1..35));
        let mut snapshots: Vec<Version> = (0..random.random_range(0..3))
            .map(|_| Version(random.random_range(limit.0..60)))
            .collect();
        snapshots.sort();
        snapshots.dedup();
        let horizon = Horizon {
            floor: Version(60),
            snapshots,
            ..Horizon::default()
        };
        let operator = |fails| -> Operator {
            let partial = seed % 2 == 0;
            Arc::new(Append { partial, fails })
        };
        let operators = [None, Some(operator(false)), Some(operator(true))];
        for operator in operators {
            let (operator, readers) = (operator.as_ref(), (limit, &horizon));
            let page_bytes = [1, 100, 400][random.random_range(0..3)];
            let did = mend_and_compare(&model, &deletions, readers, operator, page_bytes);
            mended += usize::from(did);
        }
    }
    assert!(mended > 100, "{mended} images were mended");
}
