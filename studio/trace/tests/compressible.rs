//! How far values compress, for values whose compressibility is known.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use evendb_trace::{Compressible, value_hash};

/// Bytes that do not compress.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let words = (0_u64..).map(|word| value_hash(&(seed << 32 | word).to_le_bytes()));
    words.flat_map(u64::to_le_bytes).take(len).collect()
}

fn measured(values: impl Iterator<Item = Vec<u8>>) -> Compressible {
    let mut compressible = Compressible::default();
    values.for_each(|value| compressible.add(&value));
    compressible
}

#[test]
fn half_of_a_value_compresses_to_next_to_nothing() {
    for (part, expected) in [(0, 0), (250, 25), (500, 50), (900, 90), (1000, 100)] {
        let value = |seed| [noise(seed, 1000 - part), vec![0; part]].concat();
        let measured = measured((0..500).map(value));
        assert_eq!(measured.bytes(), 500_000);
        let percentage = measured.percentage().unwrap();
        assert!(percentage.abs_diff(expected) <= 2, "{part}: {percentage}");
    }
}

/// A store sees many small values at once: what repeats between them counts.
#[test]
fn equal_values_compress_although_each_alone_does_not() {
    let value = noise(1, 200);
    assert_eq!(
        measured(std::iter::once(value.clone())).percentage(),
        Some(0)
    );
    assert!(
        measured((0..200).map(|_| value.clone()))
            .percentage()
            .unwrap()
            > 95
    );
}

#[test]
fn no_value_has_no_ratio_and_the_cost_is_bounded() {
    assert_eq!(Compressible::default().ratio(), None);
    let megabyte = vec![7; 1 << 20];
    let measured = measured((0..70).map(|_| megabyte.clone()));
    assert_eq!(measured.bytes(), Compressible::BYTES_MAX);
}
