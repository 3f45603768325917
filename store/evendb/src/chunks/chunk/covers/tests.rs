//! Range deletions against the plainest definition: a list of them, in their order.

use super::*;
use proptest::prelude::*;

fn range(low: u8, high: u8) -> KeyRange {
    KeyRange {
        low: if low == 0 {
            Box::default()
        } else {
            Box::new([low])
        },
        high: (high < KEYS).then(|| Box::from([high])),
    }
}

/// Keys are one byte below this.
const KEYS: u8 = 24;

/// A range deletion: limits and version.
#[derive(Clone, Copy, Debug)]
struct Deleted {
    low: u8,
    high: Option<u8>,
    version: u64,
}

impl Deleted {
    fn has(&self, key: u8) -> bool {
        self.low <= key && self.high.is_none_or(|high| key < high)
    }
}

fn any_deletions() -> impl Strategy<Value = Vec<Deleted>> {
    let one = (0..KEYS, prop::option::of(1..=KEYS), 0u64..3);
    let all = prop::collection::vec(one, 1..12);
    all.prop_map(|all| {
        let mut version = 1 << 24;
        let deleted = all.into_iter().map(|(low, high, more)| {
            // From time to time one belongs to the next checkpoint.
            version += if more == 2 { 1 << 24 } else { more };
            let high = high.filter(|high| *high > low);
            Deleted { low, high, version }
        });
        deleted.collect()
    })
}

fn horizon(floor: u64, snapshots: &[u64]) -> Horizon {
    Horizon {
        floor: Version(floor),
        snapshots: snapshots.iter().map(|&at| Version(at)).collect(),
        ..Horizon::default()
    }
}

fn record_of(deleted: &Deleted) -> RecordRef {
    let high = deleted.high.map(|high| [high]);
    let mut record = range_record(&[deleted.low], high.as_ref().map(|high| &high[..]));
    record.set_version(Version(deleted.version));
    record
}

/// All range deletions in a chunk whose readers are at these versions or at the newest.
fn covers_of(deletions: &[Deleted], chunk: &KeyRange, readers: &[u64]) -> Option<Covers> {
    let mut covers: Option<Covers> = None;
    for deleted in deletions {
        let high = deleted.high.map_or(KEYS, |high| high);
        let overlaps = chunk.high.as_ref().is_none_or(|end| deleted.low < end[0])
            && chunk.low.first().is_none_or(|low| high > *low);
        if overlaps {
            let seen: Vec<u64> = readers
                .iter()
                .copied()
                .filter(|&at| at <= deleted.version)
                .collect();
            let horizon = horizon(deleted.version, &seen);
            let record = record_of(deleted);
            covers = Some(Covers::with(
                covers.as_ref(),
                chunk,
                &record,
                &horizon,
                Ledger::SHARED,
            ));
        }
    }
    covers
}

fn newest(deletions: &[Deleted], key: u8, at: u64) -> Version {
    let seen = deletions
        .iter()
        .filter(|deleted| deleted.has(key) && deleted.version <= at);
    Version(seen.map(|deleted| deleted.version).max().unwrap_or(0))
}

fn seen(covers: Option<&Covers>, key: u8, at: u64) -> Version {
    let record = covers.and_then(|covers| covers.newest_seen(&[key], Version(at)));
    record.map_or(Version::ZERO, Record::version)
}

proptest! {
    /// Whatever is pruned, each reader sees the right newest range deletion of each key. The same
    /// holds for parts of the chunk, for parts that are joined, and for the list that is read back
    /// from the manifest.
    #[test]
    fn readers_see_what_was_deleted(
        deletions in any_deletions(),
        readers in prop::collection::btree_set(0usize..12, 0..3),
        cut in 1..KEYS - 1,
        durable in 0u64..14,
    ) {
        let readers: Vec<u64> = readers.iter().filter_map(|&at| Some(deletions.get(at)?.version)).collect();
        let last = deletions.last().expect("one at least").version;
        let all = range(0, KEYS);
        let covers = covers_of(&deletions, &all, &readers);
        let ats: Vec<u64> = readers.iter().copied().chain([last, u64::MAX]).collect();
        let check = |covers: Option<&Covers>, low: u8, high: u8, what: &str| {
            for key in low..high {
                for &at in &ats {
                    let expected = newest(&deletions, key, at);
                    assert_eq!(seen(covers, key, at), expected, "{what}, key {key} at {at}: {covers:?}");
                }
            }
        };
        check(covers.as_ref(), 0, KEYS, "all");
        let covers = covers.expect("one at least");
        let horizon = horizon(last, &readers);
        let durable = covers.durable_from(durable, &horizon, Ledger::SHARED);
        check(Some(&durable), 0, KEYS, "durable");
        let (lower, upper) = (range(0, cut), range(cut, KEYS));
        let parts = [&lower, &upper].map(|part| durable.clip(part, Ledger::SHARED).map(Arc::new));
        check(parts[0].as_deref(), 0, cut, "lower part");
        check(parts[1].as_deref(), cut, KEYS, "upper part");
        let joined = [(&*lower.low, parts[0].as_ref()), (&*upper.low, parts[1].as_ref())];
        check(Covers::joined(&joined, Ledger::SHARED).as_ref(), 0, KEYS, "joined");
        // Part by part, as write and manifest have them.
        for (part, low, high) in [(&lower, 0, cut), (&upper, cut, KEYS)] {
            let own = covers_of(&deletions, part, &readers);
            check(own.as_ref(), low, high, "a part alone");
            let records = own.map_or(Vec::new(), |own| own.records(part, 0, last >> 24));
            let again = Covers::from_records(&records, part, last >> 24, Ledger::SHARED);
            for key in low..high {
                prop_assert_eq!(seen(again.as_ref(), key, u64::MAX), newest(&deletions, key, u64::MAX));
            }
        }
    }

    #[test]
    fn what_is_spent_leaves_where_it_may(deletions in any_deletions(), limit in 0usize..12, from in 0..KEYS) {
        let limit = deletions.get(limit).map_or(0, |deleted| deleted.version);
        let covers = covers_of(&deletions, &range(0, KEYS), &[]).expect("one at least");
        let goes = |stretch: &Stretch<'_>| stretch.low >= &[from][..];
        let left = covers.without(Version(limit), &goes, Ledger::SHARED);
        for key in 0..KEYS {
            let all = newest(&deletions, key, u64::MAX);
            let inside = covers.stretch(&[key]).low >= &[from][..];
            let expected = if inside && all.0 <= limit { Version::ZERO } else { all };
            prop_assert_eq!(seen(left.as_ref(), key, u64::MAX), expected, "key {} {:?}", key, left);
        }
    }
}

#[test]
fn what_the_manifest_has_does_not_leave_for_one_that_it_does_not_have() {
    let all = range(0, KEYS);
    let deleted = |version| Deleted {
        low: 3,
        high: Some(9),
        version,
    };
    let (old, new) = (1 << 24, 2 << 24);
    let one = covers_of(&[deleted(old)], &all, &[]).expect("one");
    let durable = one.durable_from(1, &horizon(old, &[]), Ledger::SHARED);
    let both = Covers::with(
        Some(&durable),
        &all,
        &record_of(&deleted(new)),
        &horizon(new, &[]),
        Ledger::SHARED,
    );
    assert_eq!(both.durable_records(&all).len(), 1);
    assert_eq!(both.undurable_checkpoints(), [2]);
    let later = both.durable_from(2, &horizon(new, &[]), Ledger::SHARED);
    let records = later.durable_records(&all);
    assert_eq!(
        records
            .iter()
            .map(|record| record.version.0)
            .collect::<Vec<_>>(),
        [new]
    );
    assert_eq!(
        (later.oldest(), later.newest()),
        (Version(new), Version(new))
    );
}

#[test]
fn one_over_many_makes_them_one() {
    let all = range(0, KEYS);
    let many: Vec<Deleted> = (0..10)
        .map(|at| Deleted {
            low: 2 * at,
            high: Some(2 * at + 1),
            version: (1 << 24) + u64::from(at),
        })
        .chain([Deleted {
            low: 0,
            high: None,
            version: (1 << 24) + 20,
        }])
        .collect();
    assert_eq!(covers_of(&many[..10], &all, &[]).expect("ten").count(), 10);
    assert_eq!(covers_of(&many, &all, &[]).expect("one").count(), 1);
}

/// Keys of two letters, so that heads are the same and shared beginnings are long.
fn any_key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(b'a'..=b'b', 0..12)
}

proptest! {
    /// Keys that an outline leaves out have no range deletion, and only keys with heads of borders
    /// are left undecided.
    #[test]
    fn an_outline_leaves_out_what_no_range_deletion_has(
        limits in prop::collection::btree_set(any_key(), 1..40),
        prefix in prop::collection::vec(any::<u8>(), 0..3),
        probes in prop::collection::vec(any_key(), 0..60),
    ) {
        let long = |key: &Vec<u8>| [&prefix[..], key].concat();
        let limits: Vec<Vec<u8>> = limits.iter().map(long).collect();
        let deletions: Vec<_> = limits.chunks(2).map(|pair| (&pair[0], pair.get(1))).collect();
        let mut covers: Option<Covers> = None;
        let all = range(0, KEYS);
        for (number, (low, high)) in deletions.iter().enumerate() {
            let mut record = range_record(low, high.map(|high| &high[..]));
            record.set_version(Version((1 << 24) + number as u64));
            let horizon = horizon(u64::MAX >> 1, &[]);
            covers = Some(Covers::with(covers.as_ref(), &all, &record, &horizon, Ledger::SHARED));
        }
        let outline = Outline::of(&covers.expect("one at least").pieces);
        let mut sorted: Vec<_> = probes.iter().map(long).collect();
        sorted.sort();
        for pair in sorted.windows(2) {
            let (low, high) = (&pair[0], &pair[1]);
            if outline.leaves_out_between(low, high) {
                let overlaps = |own: &(&Vec<u8>, Option<&Vec<u8>>)| own.0 < high && own.1.is_none_or(|end| end > low);
                prop_assert!(low == high || !deletions.iter().any(overlaps), "{:?} to {:?}", low, high);
            }
        }
        for key in probes.iter().map(long).chain(limits.iter().cloned()) {
            let mut own = deletions.iter().filter(|(low, high)| **low <= key && high.is_none_or(|high| key < *high));
            let has_one = own.next().is_some();
            let shared = outline.shared.len();
            let is_alike = |limit: &Vec<u8>| {
                let heads = [limit.get(shared..).unwrap_or_default(), key.get(shared..).unwrap_or_default()];
                heads.map(|head| crate::chunk::index::head(head) >> 1).windows(2).all(|pair| pair[0] == pair[1])
            };
            match outline.leaves_out(&key) {
                true => prop_assert!(!has_one, "{:?} is deleted", key),
                false => prop_assert!(has_one || limits.iter().any(is_alike), "{:?} is not deleted", key),
            }
        }
    }
}

#[test]
fn an_outline_is_made_by_the_look_that_is_due() {
    let all = range(0, KEYS);
    let many: Vec<Deleted> = (0..10)
        .map(|at| Deleted {
            low: 2 * at,
            high: Some(2 * at + 1),
            version: 1 << 24,
        })
        .collect();
    let covers = covers_of(&many, &all, &[]).expect("ten");
    let mut looks = 0;
    while !covers.leaves_out(&[1, 5]) {
        looks += 1;
        assert!(looks < 10, "no outline");
    }
    assert_eq!(looks, covers.pieces.len() / LOOKS_PER_OUTLINE + 1);
    assert!(!covers.leaves_out(&[2]) && !covers.leaves_out(&[4, 5]) && covers.leaves_out(&[200]));
}
