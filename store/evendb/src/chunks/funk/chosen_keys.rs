//! Keys that somebody chose for a hash that everybody can compute share places in RAM no more often
//! than others do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::funk::log_index::{Candidates, LogIndex, Position};
use crate::memory::Ledger;
use crate::memory_policy::row::RowCache;
use crate::options::RowPolicy;
use crate::record::RecordRef;
use evendb_storage::Kind;
use evendb_storage::codec::hash_key;
use evendb_storage::key_hash::RamHash;
use std::collections::HashSet;

const KEYS: u64 = 100_000;

/// The first word of the constant that xxh3 adds to keys of this length. Where a key has this word,
/// a factor is zero, and the other factor may be anything.
const ZERO: [u8; 8] = [0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe];

fn key(number: u64) -> Vec<u8> {
    let of_one_hash = [&ZERO, &number.to_le_bytes()[..], &[0; 16]].concat();
    assert_eq!(of_one_hash.len(), 32);
    of_one_hash
}

#[test]
fn keys_of_one_hash_without_a_secret_have_others_in_ram() {
    let found: HashSet<u64> = (0..KEYS).map(|number| hash_key(&key(number))).collect();
    assert_eq!(found.len(), 1, "these keys are not chosen well");
    let hashes: HashSet<u64> = (0..KEYS)
        .map(|number| RamHash::of(&key(number)).bits())
        .collect();
    assert_eq!(hashes.len() as u64, KEYS);
}

/// Pages of munks and of deltas compare the keys whose tags are equal. A hundred keys have 4,950
/// pairs, and one pair in 256 has equal tags.
#[test]
fn keys_of_one_hash_share_tags_of_pages_by_chance_alone() {
    let mut equal = [0u64; 2];
    for page in 0..500 {
        let records: Vec<RecordRef> = (page * 100..page * 100 + 100)
            .map(|number| {
                let key = key(number);
                RecordRef::new(&key, b"", Kind::Put, RamHash::of(&key))
            })
            .collect();
        for (at, one) in records.iter().enumerate() {
            for other in &records[..at] {
                equal[0] += u64::from(one.hash() == other.hash());
                equal[1] += u64::from(one.hash() >> 24 == other.hash() >> 24);
            }
        }
    }
    // 2,475,000 pairs: chance gives none with equal 32 bits, and 9,668 with equal 8 bits.
    assert!(equal[0] <= 3, "{equal:?}");
    assert!((8_700..10_700).contains(&equal[1]), "{equal:?}");
}

#[test]
fn keys_of_one_hash_are_found_in_a_log_without_reading_others() {
    let index = LogIndex::with_capacity(KEYS as usize, Ledger::SHARED);
    for number in 0..KEYS {
        let position = Position {
            run: (number >> 8) as u32,
            block: number as u16 & 255,
        };
        assert!(index.insert(RamHash::of(&key(number)), position));
    }
    let (mut candidates, mut looked_at) = (Candidates::new(), 0);
    for number in (0..KEYS).step_by(100) {
        index.candidates(RamHash::of(&key(number)), u32::MAX, &mut candidates);
        looked_at += candidates.iter().count();
    }
    // Each key finds one, and one in 2^24 of all others.
    assert!((1_000..1_060).contains(&looked_at), "{looked_at}");
}

#[test]
fn keys_of_one_hash_are_all_rows_of_the_cache() {
    let rows = RowCache::with_policy(256 << 20, RowPolicy::S3Fifo);
    let kept = (0..KEYS / 10).filter(|&number| {
        let key = key(number);
        rows.insert_if(0, &key, RamHash::of(&key), b"value", || true)
    });
    assert_eq!(kept.count() as u64, KEYS / 10);
}
