use super::*;
use crate::table::walk::Walk;
use proptest::prelude::*;

/// A block of sorted `(key, version, value)` rows.
fn build(rows: &[(Vec<u8>, u64, Vec<u8>)], restart_interval: usize) -> Vec<u8> {
    let mut builder = BlockBuilder::new(restart_interval);
    // Blocks begin anywhere in a buffer.
    let mut buffer = b"what was there before".to_vec();
    let mut last: &[u8] = b"";
    for (key, version, value) in rows {
        let entry = EntryRef {
            key,
            version: Version(*version),
            kind: Kind::Put,
            value,
        };
        let shared = common_prefix(last, key);
        let expected = builder.len_with(entry, shared);
        builder.add(&mut buffer, entry, shared);
        last = key;
        assert_eq!(builder.len(), expected);
    }
    let start = builder.finish(&mut buffer);
    assert!(builder.is_empty());
    buffer.split_off(start)
}

fn parse(bytes: &[u8]) -> Decoded<Block> {
    Block::parse(Arc::from(bytes), 0..bytes.len())
}

fn sample() -> Vec<u8> {
    let rows: Vec<_> = (0..40u64)
        .map(|n| {
            (
                format!("key{:03}", n / 2).into_bytes(),
                300 - n,
                vec![n as u8; (n % 5) as usize],
            )
        })
        .collect();
    build(&rows, 4)
}

/// Exercises all decoding of a block. Only panics and endless loops are failures here: if a block's
/// checksum is forged, its answers are whatever the forger wants.
fn use_all(bytes: &[u8]) {
    let Ok(block) = parse(bytes) else { return };
    for key in [&b""[..], b"key", b"key007", b"key019", b"key0190", b"zzz"] {
        for at in [0, 290, u64::MAX] {
            if let Ok(Search::Found(row)) = block.search(key, Version(at)) {
                let _ = &block.bytes()[row.value];
            }
        }
        let mut walk = Walk::default();
        let _ = walk.seek(&block, key);
        for _ in 0..5 {
            let _ = walk.retreat(&block);
            let _ = walk.entry(&block);
        }
    }
    let mut walk = Walk::default();
    if walk.first(&block).is_ok() {
        while let Ok(true) = walk.advance(&block) {
            assert!(walk.undo.len() <= bytes.len() && walk.key.len() <= KEY_BYTES_MAX);
            let _ = walk.entry(&block);
        }
    }
    if walk.last(&block).is_ok() {
        while let Ok(true) = walk.retreat(&block) {
            let _ = walk.entry(&block);
        }
    }
}

#[test]
fn forged_bits_never_panic() {
    let good = sample();
    assert!(parse(&good).is_ok());
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        use_all(&bad);
    }
    for len in 0..good.len() {
        use_all(&good[..len]);
        use_all(&good[good.len() - len..]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn forged_bytes_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        noise in prop::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..80),
    ) {
        let mut bad = sample();
        for (place, byte) in edits {
            let len = bad.len();
            bad[place.index(len)] = byte;
        }
        use_all(&bad);
        let mut with_one_restart = noise;
        with_one_restart.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
        use_all(&with_one_restart);
    }
}

#[test]
fn a_step_back_costs_no_decoding_of_the_interval() {
    // One interval with long keys that share nothing: the pushed bytes stay within the block's
    // size.
    let rows: Vec<_> = (0..50u8).map(|n| (vec![n; 1000], 0, vec![])).collect();
    let bytes = build(&rows, usize::MAX);
    let block = parse(&bytes).unwrap();
    let mut walk = Walk::default();
    walk.last(&block).unwrap();
    assert!(walk.undo.len() < bytes.len());
    for n in (0..50u8).rev() {
        assert_eq!(walk.key(), &vec![n; 1000][..]);
        let steps = walk.steps.len();
        assert_eq!(walk.retreat(&block).unwrap(), n > 0);
        assert_eq!(walk.steps.len(), steps - usize::from(n > 0));
    }
}

#[test]
fn search_tells_beyond_from_ended() {
    let rows = [
        (b"b".to_vec(), 9, vec![]),
        (b"b".to_vec(), 4, vec![]),
        (b"d".to_vec(), 1, vec![]),
    ];
    let block = parse(&build(&rows, 2)).unwrap();
    let search = |key: &[u8], at| block.search(key, Version(at)).unwrap();
    assert!(matches!(search(b"b", 20), Search::Found(row) if row.version == Version(9)));
    assert!(matches!(search(b"b", 8), Search::Found(row) if row.version == Version(4)));
    assert!(matches!(search(b"b", 3), Search::Beyond));
    assert!(matches!(search(b"a", 3), Search::Beyond));
    assert!(matches!(search(b"d", 0), Search::Ended));
    assert!(matches!(search(b"da", 9), Search::Ended));
}

/// One row of each kind, byte for byte, as docs/format.md defines the kinds.
#[test]
fn a_row_of_each_kind() {
    let until = [&1_700_000_000_000u64.to_le_bytes()[..], b"v"].concat();
    let cases: [(Kind, &[u8], &[u8]); 4] = [
        (Kind::Put, b"v", &[0, 1, 3, 9, b'a', b'v']),
        (Kind::Delete, b"", &[0, 1, 0, 9, b'a']),
        (
            Kind::Merge,
            &[2, b'+', b'1', 0],
            &[0, 1, 10, 9, b'a', 3, 2, b'+', b'1', 0],
        ),
        (
            Kind::PutUntil,
            &until,
            &[
                0, 1, 20, 9, b'a', 4, 0, 0x68, 0xe5, 0xcf, 0x8b, 1, 0, 0, b'v',
            ],
        ),
    ];
    for (kind, value, expected) in cases {
        let entry = EntryRef {
            key: b"a",
            version: Version(9),
            kind,
            value,
        };
        let mut builder = BlockBuilder::new(4);
        let mut buffer = Vec::new();
        let len = builder.len_with(entry, 0);
        builder.add(&mut buffer, entry, 0);
        assert_eq!(buffer, expected, "{kind:?}");
        assert_eq!(builder.len(), len, "{kind:?}");
        builder.finish(&mut buffer);
        let block = parse(&buffer).unwrap();
        let mut walk = Walk::default();
        walk.first(&block).unwrap();
        assert_eq!(walk.entry(&block), Some(entry));
        let Search::Found(row) = block.search(b"a", Version::MAX).unwrap() else {
            panic!("{kind:?} is not found");
        };
        assert_eq!((row.kind, &block.bytes()[row.value]), (kind, value));
    }
}

#[test]
fn a_row_of_a_later_kind_is_told_from_nonsense() {
    let one_restart = [0u8, 0, 0, 0, 1, 0, 0, 0];
    let first = |row: &[u8]| {
        let block = parse(&[row, &one_restart].concat()).unwrap();
        Walk::default().first(&block)
    };
    for kind in [2, 8, 0xff] {
        assert_eq!(first(&[0, 1, 4, 9, b'a', kind, 0]), Err(UNKNOWN_KIND));
    }
    // A put in the form of other kinds, operands that are cut short, a time and places of values
    // that are cut short.
    for bytes in [[1, 0], [3, 2], [4, 0], [5, 1], [6, 0]] {
        let found = first(&[&[0, 1, 4, 9, b'a'], &bytes[..]].concat());
        assert!(found.is_err() && found != Err(UNKNOWN_KIND), "{bytes:?}");
    }
}

#[test]
fn nonsense_rows_are_malformed() {
    let one_restart = [0u8, 0, 0, 0, 1, 0, 0, 0];
    let cases: [(&[u8], &str); 6] = [
        (&[1, 1, 1, 0, b'a'], "shares bytes of no key"),
        (&[0, 9, 1, 0, b'a'], "key longer than the block"),
        (&[0, 1, 9, 0, b'a'], "value longer than the block"),
        (&[0, 1, 2, 0, b'a', 0], "delete with a value"),
        (&[0, 1, 0x80, 0x80], "varint cut short"),
        (
            &[
                0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1, 0,
            ],
            "huge length",
        ),
    ];
    for (row, what) in cases {
        let block = parse(&[row, &one_restart].concat()).unwrap();
        assert!(Walk::default().first(&block).is_err(), "{what}");
        assert!(block.search(b"a", Version::MAX).is_err(), "{what}");
    }
    for bytes in [
        &[][..],
        &[0; 3],
        &[0; 4],
        &[0, 0, 0, 0, 1, 0, 0, 0],
        &[0xff; 8],
    ] {
        assert!(parse(bytes).is_err(), "{bytes:?}");
    }
}

#[test]
fn common_prefix_counts_bytes() {
    for len in 0..40 {
        for diff in 0..=len {
            let a = vec![7u8; len];
            let mut b = a.clone();
            if diff < len {
                b[diff] = 8;
            }
            assert_eq!(common_prefix(&a, &b), diff);
            assert_eq!(common_prefix(&a[..diff], &b), diff);
        }
    }
}
