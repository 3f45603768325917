//! The checker against written histories: each kind of fault is found and called by its name, and
//! right histories pass.

use super::checker::{History, Key, Tx, check};

/// A transaction with its begin, its end, its reads and its appends.
type Row<'a> = (u32, u32, &'a [(Key, &'a [u32])], &'a [(Key, u32)]);

fn history(rows: &[Row<'_>], last: &[(Key, &[u32])], aborted: &[u32]) -> History {
    let list = |&(key, list): &(Key, &[u32])| (key, list.to_vec());
    let transactions = rows.iter().map(|&(begin, end, reads, appends)| Tx {
        begin,
        end,
        reads: reads.iter().map(list).collect(),
        appends: appends.to_vec(),
    });
    History {
        transactions: transactions.collect(),
        aborted: aborted.iter().copied().collect(),
        last: last.iter().map(list).collect(),
    }
}

/// Checks that the history is refused, and that the reason has each of `words`.
fn refused(history: &History, words: &[&str]) {
    let what = check(history).expect_err("a fault was planted");
    for word in words {
        assert!(what.contains(word), "{word:?} is missing in: {what}");
    }
}

#[test]
fn what_is_right_passes() {
    // Two transactions that append one after the other, a reader beside both that sees only the
    // first, and an aborted one.
    let rows: [Row<'_>; 4] = [
        (0, 2, &[(1, &[]), (2, &[])], &[(1, 10), (2, 11)]),
        (1, 5, &[(1, &[10]), (2, &[11]), (3, &[])], &[]),
        (3, 4, &[(1, &[10])], &[(1, 12)]),
        (6, 7, &[(1, &[10, 12]), (2, &[11])], &[]),
    ];
    let last: [(Key, &[u32]); 2] = [(1, &[10, 12]), (2, &[11])];
    assert_eq!(check(&history(&rows, &last, &[13])), Ok(()));
}

#[test]
fn a_key_may_be_written_twice_by_one_and_read_before() {
    let rows: [Row<'_>; 2] = [
        (0, 1, &[(1, &[])], &[(1, 10), (1, 11)]),
        (2, 3, &[(1, &[10, 11])], &[(1, 12)]),
    ];
    assert_eq!(check(&history(&rows, &[(1, &[10, 11, 12])], &[])), Ok(()));
}

#[test]
fn a_lost_update_is_found() {
    // Both read the empty list. The number that the first appended is gone.
    let rows: [Row<'_>; 2] = [
        (0, 2, &[(1, &[])], &[(1, 10)]),
        (1, 3, &[(1, &[])], &[(1, 11)]),
    ];
    refused(&history(&rows, &[(1, &[11])], &[]), &["10 is lost"]);
    // The number is still there, but the second one had not seen it.
    let both = history(&rows, &[(1, &[10, 11])], &[]);
    refused(&both, &["not serializable", "ww of key 1", "rw of key 1"]);
}

#[test]
fn a_write_skew_is_found() {
    let rows: [Row<'_>; 2] = [
        (0, 2, &[(1, &[]), (2, &[])], &[(1, 10)]),
        (1, 3, &[(1, &[]), (2, &[])], &[(2, 11)]),
    ];
    let skew = history(&rows, &[(1, &[10]), (2, &[11])], &[]);
    refused(&skew, &["not serializable", "rw of key 1", "rw of key 2"]);
}

#[test]
fn a_phantom_is_found() {
    // Each transaction scans keys 1 to 4, finds none, and inserts one.
    let nothing: [(Key, &[u32]); 4] = [(1, &[]), (2, &[]), (3, &[]), (4, &[])];
    let rows: [Row<'_>; 2] = [(0, 2, &nothing, &[(3, 10)]), (1, 3, &nothing, &[(4, 11)])];
    let phantom = history(&rows, &[(3, &[10]), (4, &[11])], &[]);
    refused(
        &phantom,
        &["not serializable", "rw of key 3", "rw of key 4"],
    );
}

#[test]
fn a_dirty_read_is_found() {
    let rows: [Row<'_>; 1] = [(0, 1, &[(1, &[10])], &[])];
    refused(&history(&rows, &[], &[10]), &["10 of an aborted"]);
    // The same if it stays at the end.
    refused(&history(&[], &[(1, &[10])], &[10]), &["10 of an aborted"]);
    refused(&history(&rows, &[], &[]), &["which nobody appended"]);
}

#[test]
fn a_read_that_changes_is_found() {
    // One key twice, or two keys that are written together.
    let twice: [Row<'_>; 2] = [
        (0, 3, &[(1, &[]), (1, &[10])], &[]),
        (1, 2, &[], &[(1, 10), (2, 11)]),
    ];
    let skew: [Row<'_>; 2] = [(0, 3, &[(1, &[]), (2, &[11])], &[]), twice[1]];
    let last: [(Key, &[u32]); 2] = [(1, &[10]), (2, &[11])];
    refused(
        &history(&twice, &last, &[]),
        &["wr of key 1", "rw of key 1"],
    );
    refused(&history(&skew, &last, &[]), &["wr of key 2", "rw of key 1"]);
}

#[test]
fn a_stale_read_is_found_in_real_time_alone() {
    let rows: [Row<'_>; 2] = [(0, 1, &[], &[(1, 10)]), (2, 3, &[(1, &[])], &[])];
    let stale = history(&rows, &[(1, &[10])], &[]);
    refused(&stale, &["but not in real time", "rt", "rw of key 1"]);
}

#[test]
fn two_orders_of_two_writes_are_found() {
    let rows: [Row<'_>; 4] = [
        (0, 6, &[], &[(1, 10)]),
        (1, 7, &[], &[(2, 11)]),
        (2, 3, &[(1, &[10]), (2, &[])], &[]),
        (4, 5, &[(1, &[]), (2, &[11])], &[]),
    ];
    let fork = history(&rows, &[(1, &[10]), (2, &[11])], &[]);
    refused(&fork, &["not serializable", "wr of key", "rw of key"]);
}

#[test]
fn numbers_that_move_are_found() {
    let rows: [Row<'_>; 2] = [(0, 1, &[], &[(1, 10)]), (2, 3, &[], &[(1, 11)])];
    refused(&history(&rows, &[(2, &[10])], &[]), &["for key 1"]);
    let doubled = history(&rows, &[(1, &[10, 11, 10])], &[]);
    refused(&doubled, &["10 is there twice"]);
    let reordered: [Row<'_>; 3] = [rows[0], rows[1], (4, 5, &[(1, &[11, 10])], &[])];
    let reordered = history(&reordered, &[(1, &[10, 11])], &[]);
    refused(&reordered, &["was read as [11, 10]"]);
}
