//! The order of records over the tables of a tree, on trees that no job makes.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, which fail where they fail"
)]

use super::order::check;
use crate::tables::TableFile;
use crate::tables::tests::{sim_dir, table_of};
use crate::tree::{Tree, TreeEdit};
use crate::types::Level;
use evendb_base::sync::Arc;
use evendb_storage::Kind;
use evendb_storage::vfs::SimVfs;

/// Level, number, age; keys with versions.
type TableOf<'t> = (u8, u64, u64, &'t [(&'t str, u64)]);

/// Makes a tree with these tables. Returns the tables that have a record that no reader finds, each
/// with the version of that record.
fn hidden(tables: &[TableOf<'_>]) -> Vec<(u64, u64)> {
    let vfs = SimVfs::new(1);
    let place = sim_dir(&vfs);
    let table = |number, age, records: &[(&str, u64)]| -> Arc<TableFile> {
        let records: Vec<_> = records
            .iter()
            .map(|(key, version)| (key.as_bytes(), *version, Kind::Put, &b"v"[..]))
            .collect();
        table_of(&place, number, age, &records)
    };
    let added = tables
        .iter()
        .map(|&(level, number, age, records)| (Level(level), table(number, age, records)));
    let mut tree = Tree::default();
    tree.apply(&TreeEdit {
        added: added.collect(),
        ..TreeEdit::default()
    })
    .unwrap();
    let (mut found, mut records) = (Vec::new(), 0);
    check(
        &Arc::new(tree),
        &mut |hidden| found.push((hidden.table.number.0, hidden.version.0)),
        &mut |count| records += count,
    )
    .unwrap();
    let all: usize = tables.iter().map(|table| table.3.len()).sum();
    assert_eq!(records as usize, all);
    found
}

#[test]
fn records_become_older_in_the_order_in_which_tables_are_asked() {
    let sound: &[TableOf<'_>] = &[
        (0, 9, 9, &[("a", 30), ("k", 31)]),
        (0, 8, 8, &[("k", 25), ("k", 20)]),
        (4, 7, 7, &[("k", 15)]),
        (4, 6, 5, &[("c", 12), ("k", 12)]),
        (4, 5, 5, &[("m", 10), ("z", 11)]),
        (6, 2, 2, &[("a", 3), ("k", 5), ("z", 1)]),
    ];
    assert_eq!(hidden(sound), []);
}

#[test]
fn a_newer_record_in_a_table_that_is_asked_later_is_told() {
    assert_eq!(
        hidden(&[(5, 1, 1, &[("k", 1)]), (6, 2, 2, &[("k", 2)])]),
        [(2, 2)]
    );
    // The age is greater than it should be.
    assert_eq!(
        hidden(&[(6, 1, 1, &[("k", 2)]), (6, 2, 2, &[("k", 1)])]),
        [(1, 2)]
    );
    assert_eq!(
        hidden(&[(0, 2, 2, &[("k", 1)]), (1, 1, 1, &[("k", 2)])]),
        [(1, 2)]
    );
    // A table between two tables that are in order.
    let between: &[TableOf<'_>] = &[
        (0, 3, 3, &[("j", 1), ("k", 9), ("k", 2)]),
        (5, 2, 2, &[("k", 7)]),
        (6, 1, 1, &[("k", 1)]),
    ];
    assert_eq!(hidden(between), [(2, 7)]);
}

#[test]
fn a_record_that_is_there_twice_is_told() {
    assert_eq!(
        hidden(&[(5, 1, 1, &[("k", 1)]), (6, 2, 2, &[("k", 1)])]),
        [(2, 1)]
    );
}

/// A table is reported once, however many such records it has.
#[test]
fn a_table_is_told_once() {
    assert_eq!(
        hidden(&[
            (5, 1, 1, &[("k", 1), ("l", 1)]),
            (6, 2, 2, &[("k", 2), ("l", 2)])
        ]),
        [(2, 2)]
    );
}
