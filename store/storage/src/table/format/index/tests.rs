use super::*;
use crate::plant::{self, Plant};
use crate::table::{Codec, Table, TableOptions, TableWriter};
use crate::vfs::{SimVfs, Vfs};
use crate::{EntryRef, Kind, TableId, Version};
use proptest::prelude::*;
use std::path::Path;

/// The separator, and whether the block goes on.
type Row<'a> = (&'a [u8], bool);

fn build(separators: &[Row<'_>]) -> (Vec<u8>, u64) {
    let mut builder = IndexBuilder::default();
    for (ordinal, (separator, continues)) in separators.iter().enumerate() {
        builder.add(100 + ordinal as u64, separator, *continues);
    }
    assert_eq!(builder.blocks(), separators.len() as u64);
    let data = (0..separators.len() as u64)
        .map(|ordinal| 100 + ordinal)
        .sum();
    (builder.finish(), data)
}

fn separator_of(last: &[u8], next: &[u8]) -> Vec<u8> {
    let mut out = b"left over".to_vec();
    separator(last, next, &mut out);
    out
}

#[test]
fn separators_are_short() {
    let cases: [(&[u8], &[u8], &[u8]); 8] = [
        (b"abcdef", b"abzzz", b"abz"),
        (b"abcdef", b"abd", b"abce"),
        (b"abcdef", b"abe", b"abd"),
        (b"abc\xff\xffx", b"abd", b"abc\xff\xffy"),
        (b"abc\xff\xff", b"abd", b"abc\xff\xff"),
        (b"ab", b"abc", b"ab"),
        (b"", b"\0", b""),
        (b"user00000017", b"user00000018", b"user00000017"),
    ];
    for (last, next, expected) in cases {
        assert_eq!(separator_of(last, next), expected, "{last:?} {next:?}");
    }
}

fn short_key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(97), Just(98), Just(254), Just(255)];
    prop::collection::vec(byte, 0..12)
}

/// Nearly all bytes are zero, so that many keys agree in their heads and some end within them.
fn zeros() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![9 => Just(0u8), 1 => Just(1)];
    prop::collection::vec(byte, 0..20)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_separator_separates(a in short_key(), b in short_key()) {
        if a != b {
            let (last, next) = (a.clone().min(b.clone()), a.max(b));
            let found = separator_of(&last, &next);
            prop_assert!(last <= found && found < next);
            prop_assert!(found.len() <= last.len());
        }
    }

    #[test]
    fn find_is_a_partition_point(
        prefix in short_key(),
        keys in prop_oneof![
            prop::collection::btree_set(short_key(), 0..60),
            prop::collection::btree_set(zeros(), 0..60),
        ],
        probes in prop::collection::vec(prop_oneof![short_key(), zeros()], 0..40),
    ) {
        let keys: Vec<Vec<u8>> = keys.into_iter().map(|key| [&prefix[..], &key].concat()).collect();
        let rows: Vec<_> = keys.iter().map(|key| (key.as_slice(), false)).collect();
        let (stored, data) = build(&rows);
        let index = BlockIndex::decode(&stored, data).unwrap();
        prop_assert_eq!(index.len(), keys.len());
        let behind = probes.iter().map(|probe| [&prefix[..], probe].concat());
        for probe in behind.chain(probes.clone()).chain(keys.clone()) {
            let expected = keys.partition_point(|key| *key < probe);
            prop_assert_eq!(index.find(&probe), expected, "{:?}", probe);
        }
        let mut offset = 0;
        for (ordinal, key) in keys.iter().enumerate() {
            prop_assert_eq!(index.block(ordinal), offset..offset + 100 + ordinal as u64);
            prop_assert_eq!(&index.separator(ordinal), key);
            offset += 100 + ordinal as u64;
        }
    }

    #[test]
    fn noise_never_panics(noise in prop::collection::vec(prop_oneof![0u8..9, any::<u8>()], 0..60), data in 0u64..400) {
        if let Ok(index) = BlockIndex::decode(&noise, data) {
            let _ = index.find(b"a");
        }
    }
}

#[test]
fn versions_that_span_blocks() {
    let (stored, data) = build(&[
        (b"a", false),
        (b"k", true),
        (b"k", true),
        (b"k", false),
        (b"z", false),
    ]);
    let index = BlockIndex::decode(&stored, data).unwrap();
    assert_eq!(index.find(b"k"), 1);
    assert!(index.continues(1, b"k") && index.continues(2, b"k"));
    assert!(!index.continues(3, b"k") && !index.continues(1, b"j") && !index.continues(0, b"a"));
    assert!(index.ends_with(b"z") && !index.ends_with(b"k"));
}

#[test]
fn an_index_takes_a_dozen_bytes_for_a_block() {
    let keys: Vec<[u8; 8]> = (0..4096u64)
        .map(|at| (at << 40).swap_bytes().to_le_bytes())
        .collect();
    let rows: Vec<_> = keys.iter().map(|key| (&key[..], false)).collect();
    let (stored, data) = build(&rows);
    let index = BlockIndex::decode(&stored, data).unwrap();
    let a_block = index.resident_bytes() as f64 / 4096.0;
    assert!((11.0..12.5).contains(&a_block), "{a_block}");
}

/// Keys of decimal digits, as users often have them, differ in the last few bytes.
#[test]
fn keys_that_differ_in_five_bytes_take_nine_bytes_for_a_block() {
    let keys: Vec<String> = (0..4096).map(|at| format!("user{:010}", at * 3)).collect();
    let rows: Vec<_> = keys.iter().map(|key| (key.as_bytes(), false)).collect();
    let (stored, data) = build(&rows);
    let index = BlockIndex::decode(&stored, data).unwrap();
    let a_block = index.resident_bytes() as f64 / 4096.0;
    assert!((8.0..9.5).contains(&a_block), "{a_block}");
    for (at, key) in keys.iter().enumerate() {
        assert_eq!(index.find(key.as_bytes()), at);
        assert_eq!(index.separator(at), key.as_bytes());
    }
}

/// One separator, which is all prefix, has a head of no bytes.
#[test]
fn a_table_of_one_block_has_an_index() {
    for key in [&b""[..], b"k"] {
        let (stored, data) = build(&[(key, false)]);
        let index = BlockIndex::decode(&stored, data).unwrap();
        assert_eq!((index.find(key), index.find(b"z")), (0, 1));
        assert_eq!(index.separator(0), key);
        assert!(index.ends_with(key));
    }
}

#[test]
fn every_broken_bit_is_refused_or_still_an_index() {
    let (stored, data) = build(&[
        (b"abc", false),
        (b"abd", true),
        (b"abd", false),
        (b"b", false),
    ]);
    for bit in 0..stored.len() * 8 {
        let mut bad = stored.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        if let Ok(index) = BlockIndex::decode(&bad, data) {
            let _ = (index.find(b"abd"), index.find(b""), index.find(b"zz"));
        }
    }
    for len in 0..stored.len() {
        assert!(BlockIndex::decode(&stored[..len], data).is_err());
    }
    assert!(BlockIndex::decode(&stored, data + 1).is_err());
    assert!(BlockIndex::decode(&stored, data - 1).is_err());
}

#[test]
fn nonsense_is_refused() {
    let cases: [(&[Row<'_>], &str); 4] = [
        (&[(b"b", false), (b"a", false)], "out of order"),
        (
            &[(b"b", false), (b"b", false)],
            "equal though not continued",
        ),
        (&[(b"b", true)], "the last block continues"),
        (&[(b"b", false), (b"", false)], "empty behind another"),
    ];
    for (rows, what) in cases {
        let (stored, data) = build(rows);
        assert!(BlockIndex::decode(&stored, data).is_err(), "{what}");
    }
    let mut many = Vec::new();
    codec::put_varint(&mut many, u64::MAX);
    assert!(BlockIndex::decode(&many, 0).is_err());
}

/// Whether each record of a table of many small blocks is found by its key.
fn each_key_is_found(plant: Plant) -> bool {
    let id = TableId(7);
    let options = TableOptions {
        block_bytes: 64,
        restart_interval: 4,
        codec: Codec::None,
        zstd_level: 3,
        filter_bits_per_key: 0,
    };
    let keys: Vec<String> = (0..500)
        .map(|number| format!("{number:04}/{}", number * 7 % 10))
        .collect();
    let (bytes, meta) = plant::with(plant, || {
        let mut writer = TableWriter::new(Vec::new(), id, options);
        for key in &keys {
            let entry = EntryRef {
                key: key.as_bytes(),
                version: Version(1),
                kind: Kind::Put,
                value: b"value",
            };
            writer.add(entry).unwrap();
        }
        writer.finish().unwrap()
    });
    let (vfs, path) = (SimVfs::new(1), Path::new("/table"));
    vfs.write_file(path, bytes);
    let opened = Table::open(vfs.open(path, false).unwrap(), 0, meta.len, id);
    opened.is_ok_and(|table| {
        let found = |key: &String| table.get(key.as_bytes(), Version(1));
        keys.iter().all(|key| matches!(found(key), Ok(Some(_))))
    })
}

#[test]
fn p97_a_separator_that_is_too_short_is_noticed() {
    assert!(each_key_is_found(Plant::Nothing));
    assert!(!each_key_is_found(Plant::SeparatorTooShort));
}
