//! `Table::cuts` gives keys at which the table's data can be cut, and none behind them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod table_support;

use evendb_storage::table::Codec;
use table_support::{Record, build, open_within, options};

/// Records with two keys in each block, and then the last key, whose versions fill several blocks.
fn records(versions_of_last: u64) -> Vec<Record> {
    let keys =
        (0..40).map(|number: u32| Record::put(format!("a{number:03}").as_bytes(), 1, &[7; 200]));
    let last = (0..versions_of_last).rev();
    keys.chain(last.map(|version| Record::put(b"b", version, &[7; 600])))
        .collect()
}

/// The next table may begin with the key right behind this table's last one, and so may not be cut
/// there a second time: no cut lies behind the last key.
#[test]
fn cuts_are_ascending_and_not_behind_the_last_key() {
    for versions_of_last in [1, 2, 5] {
        let (bytes, meta) = build(&records(versions_of_last), options(512, Codec::None));
        let table = open_within(&bytes, 0).1.unwrap();
        for part_bytes in [1, 600, 1200, 3000] {
            let cuts = table.cuts(part_bytes);
            assert!(!cuts.is_empty());
            assert!(cuts.is_sorted_by(|a, b| a < b), "{cuts:?}");
            assert!(**cuts.first().unwrap() > *meta.min_key);
            assert!(**cuts.last().unwrap() <= *meta.max_key, "{cuts:?}");
        }
    }
    let (bytes, _) = build(&records(5)[40..], options(512, Codec::None));
    let only_one_key = open_within(&bytes, 0).1.unwrap();
    assert_eq!(only_one_key.cuts(1), Vec::<Vec<u8>>::new());
}
