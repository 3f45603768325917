//! The results of single jobs, and what they leave when they fail.

use super::*;
use crate::compaction::flush::flush;
use crate::compaction::job;
use crate::compaction::picker::{Job, Limits};
use crate::compaction::plan::Plan;
use crate::compaction::rewrite::Stopped;
use crate::cursor::level::table_cursor;
use crate::tables::TableFile;
use crate::tables::tests::{Record, table_of};
use crate::tree::choose::GuardRule;
use crate::tree::tests::guard;
use crate::tree::{Tree, TreeEdit, verify};
use crate::types::Level;
use crate::visibility::Horizon;
use evendb_storage::ErrorKind;
use evendb_storage::vfs::{Fault, FaultKind, FaultOn};
use std::collections::BTreeSet;
use std::path::Path;

/// Tables of a thousand bytes are no crumbs.
const LIMITS: Limits = Limits {
    write_buffer_bytes: 8000,
    level0_tables: 4,
    max_files_per_guard: 4,
    look_bytes: 0,
};

/// The records that a job makes from these runs of level 5, newest first. A table of level 6 has
/// `"m"`.
fn done(runs: &[&[Record<'_>]], within: Option<usize>, snapshots: &[u64]) -> Vec<(Vec<u8>, u64)> {
    let vfs = SimVfs::new(1);
    let making = making(&vfs);
    let mut edit = TreeEdit::default();
    for (records, age) in runs.iter().zip((10..20).rev()) {
        edit.added
            .push((Level(5), table_of(&making.place, age, age, records)));
        making.numbers.skip(FileNumber(20));
    }
    let below = table_of(&making.place, 1, 1, &[(b"m", 1, Kind::Put, b"below")]);
    edit.added.push((Level(6), below));
    let mut tree = Tree::default();
    tree.apply(&edit).unwrap();
    let (level, guard) = (Level(5), 0);
    let planned = match within {
        Some(runs) => Job::Within { level, guard, runs },
        None => Job::Down { level, guard },
    };
    let plan = Plan::of(&tree, planned, &LIMITS);
    let horizon = Horizon::new(
        Version(99),
        snapshots.iter().map(|&at| Version(at)).collect(),
    );
    let ran = job::run(&making, &tree, &plan, &horizon, &never);
    let edit = ran.unwrap().edit(&making.numbers);
    let mut records = Vec::new();
    for (_, table) in &edit.added {
        let mut cursor = table_cursor(table.clone(), READAHEAD);
        cursor.seek_first().unwrap();
        while cursor.valid() {
            let entry = cursor.entry();
            records.push((entry.key.to_vec(), entry.version.0));
            cursor.next().unwrap();
        }
    }
    records
}

#[test]
fn tombstones_go_where_nothing_older_is_left() {
    use Kind::{Delete, Put};
    let a = |version| (b"a".to_vec(), version);
    let m = |version| (b"m".to_vec(), version);
    let newest: &[Record<'_>] = &[(b"a", 9, Delete, b""), (b"m", 8, Delete, b"")];
    let middle: &[Record<'_>] = &[(b"a", 7, Put, b"v"), (b"z", 6, Put, b"v")];
    let oldest: &[Record<'_>] = &[(b"a", 5, Put, b"v")];
    let z = (b"z".to_vec(), 6);
    // Below lies an older "m", and no older "a".
    assert_eq!(
        done(&[newest, middle, oldest], None, &[]),
        [m(8), z.clone()]
    );
    assert_eq!(
        done(&[newest, middle, oldest], Some(3), &[]),
        [m(8), z.clone()]
    );
    // An older "a" lies in the run that is not merged.
    assert_eq!(
        done(&[newest, middle, oldest], Some(2), &[]),
        [a(9), m(8), z.clone()]
    );
    assert_eq!(done(&[newest, oldest], Some(2), &[6]), [a(9), a(5), m(8)]);
    assert_eq!(
        done(&[newest, middle, oldest], None, &[6]),
        [a(9), a(5), m(8), z]
    );
    assert_eq!(done(&[&[(b"a", 9, Delete, b"")]], None, &[]), []);
}

#[test]
fn versions_of_a_key_stay_in_one_table_and_others_are_cut() {
    let vfs = SimVfs::new(1);
    let making = making(&vfs);
    let versions = 200;
    let value = [7; 20];
    let many: Vec<_> = (0..versions)
        .map(|at| (&b"k"[..], 1000 - at, Kind::Put, &value[..]))
        .collect();
    let around: Vec<Vec<u8>> = (0..100)
        .map(|at| format!("l{at:02}").into_bytes())
        .collect();
    let mut records = vec![(&b""[..], 1, Kind::Put, &value[..])];
    records.extend(&many);
    records.extend(
        around
            .iter()
            .map(|key| (&key[..], 1, Kind::Put, &value[..])),
    );
    let table = table_of(&making.place, 1, 1, &records);
    making.numbers.skip(FileNumber(1));
    let mut tree = Tree::default();
    tree.apply(&TreeEdit {
        added: vec![(Level(0), table)],
        guards: vec![guard("k", 6), guard("l50", 6), guard("l500", 6)],
        ..TreeEdit::default()
    })
    .unwrap();
    let plan = Plan::of(&tree, Job::FromLevel0 { to: Level(6) }, &LIMITS);
    // Each version has a reader.
    let snapshots = (800..1001).map(Version).collect();
    let horizon = Horizon::new(Version(1000), snapshots);
    let ran = job::run(&making, &tree, &plan, &horizon, &never);
    let edit = ran.unwrap().edit(&making.numbers);
    tree.apply(&edit).unwrap();
    let tables: Vec<&Arc<TableFile>> = edit.added.iter().map(|(_, table)| table).collect();
    assert!(tables.is_sorted_by(|a, b| a.meta.max_key < b.meta.min_key && a.age == b.age));
    assert_eq!(
        tables.iter().map(|table| table.meta.entries).sum::<u64>(),
        301
    );
    let with_k = tables.iter().find(|table| table.covers(b"k")).unwrap();
    assert_eq!(*with_k.meta.min_key, *b"k");
    assert!(with_k.meta.entries >= versions && with_k.meta.len > 10 * making.table_bytes_max);
    assert!(
        tables
            .iter()
            .filter(|table| table.meta.len < 2 * making.table_bytes_max)
            .count()
            > 5
    );
    assert_eq!(tree.guards(Level(6)).all().len(), 4);
    assert!(tree.guards(Level(6)).chosen().is_empty());
    for at in [801, 900, 1000] {
        let mut found = tree.tables_for(b"k").filter_map(|table| {
            let found = table.open().unwrap().get(b"k", Version(at)).unwrap();
            found.map(|found| found.version)
        });
        assert_eq!(found.next(), Some(Version(at)));
    }
}

/// Two jobs go down to one wide guard, and end in another order than they began. Between the two
/// ends, the first result is merged with a table that has older records of the other job's keys.
#[test]
fn what_comes_last_to_a_guard_is_the_newest_there() {
    let vfs = SimVfs::new(1);
    let making = making(&vfs);
    let of = |number: u64, keys: &[&'static str]| {
        let records: Vec<Record<'_>> = keys
            .iter()
            .map(|key| (key.as_bytes(), number, Kind::Put, &b""[..]))
            .collect();
        making.numbers.skip(FileNumber(number));
        table_of(&making.place, number, number, &records)
    };
    let mut tree = Tree::default();
    tree.apply(&TreeEdit {
        guards: vec![guard("m", 5)],
        added: vec![
            (Level(6), of(1, &["a", "z"])),
            (Level(5), of(2, &["a"])),
            (Level(5), of(3, &["z"])),
        ],
        ..TreeEdit::default()
    })
    .unwrap();
    let horizon = Horizon::new(Version(9), vec![]);
    let begin = |tree: &Tree, job: Job| {
        let ran = job::run(
            &making,
            tree,
            &Plan::of(tree, job, &LIMITS),
            &horizon,
            &never,
        );
        ran.unwrap()
    };
    let down = |guard| Job::Down {
        level: Level(5),
        guard,
    };
    let (left, right) = (begin(&tree, down(0)), begin(&tree, down(1)));
    tree.apply(&right.edit(&making.numbers)).unwrap();
    assert_eq!(tree.guards(Level(6)).all().len(), 1);
    let within = Job::Within {
        level: Level(6),
        guard: 0,
        runs: 2,
    };
    let merged = begin(&tree, within);
    tree.apply(&merged.edit(&making.numbers)).unwrap();
    tree.apply(&left.edit(&making.numbers)).unwrap();
    let first = tree.tables_for(b"a").next().unwrap();
    assert_eq!(first.meta.max_version, Version(2));
    verify::verify(&tree, &mut |_, table, verified| {
        assert!(verified.is_ok(), "{table:?}: {verified:?}");
    });
}

/// The second table overlaps the first one. The third lies between these two and the fourth, which
/// has a delete. The fifth straddles a guard. The sixth lies behind all of them.
#[test]
fn what_overlaps_nothing_goes_down_as_it_is() {
    let vfs = SimVfs::new(1);
    let making = making(&vfs);
    let of = |number: u64, records: &[(&str, Kind)]| {
        let records: Vec<Record<'_>> = records
            .iter()
            .map(|(key, kind)| (key.as_bytes(), number, *kind, &b""[..]))
            .collect();
        making.numbers.skip(FileNumber(number));
        (Level(0), table_of(&making.place, number, number, &records))
    };
    let put = |key| (key, Kind::Put);
    let mut tree = Tree::default();
    tree.apply(&TreeEdit {
        guards: vec![guard("d", 6), guard("t", 6)],
        added: vec![
            of(1, &[put("a"), put("c")]),
            of(2, &[put("b")]),
            of(3, &[put("d"), put("e")]),
            of(4, &[put("f"), ("g", Kind::Delete), put("h")]),
            of(5, &[put("s"), put("t")]),
            of(6, &[put("u"), put("v")]),
        ],
        ..TreeEdit::default()
    })
    .unwrap();
    let plan = Plan::of(&tree, Job::FromLevel0 { to: Level(6) }, &LIMITS);
    let moved = plan.moved.iter().map(|table| table.number.0);
    assert_eq!(moved.collect::<Vec<_>>(), [3, 6]);
    assert_eq!(plan.tables().count(), 6);
    let horizon = Horizon::new(Version(9), vec![]);
    let ran = job::run(&making, &tree, &plan, &horizon, &never);
    tree.apply(&ran.unwrap().edit(&making.numbers)).unwrap();
    assert!(tree.level0().is_empty());
    let last = tree.guards(Level(6)).all().iter();
    let tables = last.flat_map(|guard| &guard.tables);
    let limits = tables.map(|table| [&table.meta.min_key[..], &table.meta.max_key].concat());
    let expected = [b"ac", b"de", b"fs", b"tt", b"uv"].map(|limits| limits.to_vec());
    assert_eq!(limits.collect::<Vec<_>>(), expected);
    assert!(
        tree.guards(Level(6))
            .all()
            .iter()
            .all(|guard| guard.runs().count() <= 1)
    );
    verify::verify(&tree, &mut |_, table, verified| {
        assert!(verified.is_ok(), "{table:?}: {verified:?}");
    });
}

/// Four runs of a guard: the second overlaps the first. The third is alone, and so is the fourth, a
/// crumb.
#[test]
fn a_merge_within_a_guard_leaves_what_is_in_nobodys_way_unless_it_is_a_crumb() {
    let vfs = SimVfs::new(1);
    let making = making(&vfs);
    let table = |number: u64, keys: [&str; 2], value: &[u8]| {
        let records = keys.map(|key| (key.as_bytes(), number, Kind::Put, value));
        making.numbers.skip(FileNumber(number));
        (Level(6), table_of(&making.place, number, number, &records))
    };
    let large = [7; 1000];
    let mut tree = Tree::default();
    tree.apply(&TreeEdit {
        added: vec![
            table(1, ["a", "c"], &large),
            table(2, ["b", "d"], &large),
            table(3, ["k", "m"], &large),
            table(4, ["x", "z"], b"small"),
        ],
        ..TreeEdit::default()
    })
    .unwrap();
    let within = Job::Within {
        level: Level(6),
        guard: 0,
        runs: 4,
    };
    let plan = Plan::of(&tree, within, &LIMITS);
    let moved = plan.moved.iter().map(|table| table.number.0);
    assert_eq!(moved.collect::<Vec<_>>(), [3]);
    let horizon = Horizon::new(Version(9), vec![]);
    let ran = job::run(&making, &tree, &plan, &horizon, &never);
    tree.apply(&ran.unwrap().edit(&making.numbers)).unwrap();
    let guard = &tree.guards(Level(6)).all()[0];
    assert_eq!(guard.runs().count(), 1);
    assert!(guard.tables.iter().any(|table| table.number.0 == 3));
    assert!(guard.tables.iter().all(|table| table.age.0 == 4));
    verify::verify(&tree, &mut |_, table, verified| {
        assert!(verified.is_ok(), "{table:?}: {verified:?}");
    });
}

/// Two runs of level 0 and the plan that moves them.
fn two_runs(vfs: &SimVfs) -> (Making, Tree, Plan) {
    let making = making(vfs);
    let keys: Vec<Vec<u8>> = (0..60).map(|at| format!("{at:03}").into_bytes()).collect();
    let mut edit = TreeEdit::default();
    for age in 1..3 {
        let records: Vec<_> = keys
            .iter()
            .map(|key| (&key[..], age, Kind::Put, &[9; 20][..]))
            .collect();
        edit.added
            .push((Level(0), table_of(&making.place, age, age, &records)));
    }
    making.numbers.skip(FileNumber(2));
    let mut tree = Tree::default();
    tree.apply(&edit).unwrap();
    let plan = Plan::of(&tree, Job::FromLevel0 { to: Level(6) }, &LIMITS);
    (making, tree, plan)
}

#[test]
fn a_job_that_fails_anywhere_leaves_no_files() {
    let (mut failures, mut done) = (0, false);
    for (on, kind) in [
        (FaultOn::Change, FaultKind::Eio),
        (FaultOn::Change, FaultKind::NoSpace),
        (FaultOn::Sync, FaultKind::SyncFailsThenClean),
        (FaultOn::Read, FaultKind::Eio),
        (FaultOn::Lookup, FaultKind::Eio),
    ] {
        for at in 0..200 {
            let vfs = SimVfs::new(1);
            let (making, tree, plan) = two_runs(&vfs);
            vfs.inject(Fault {
                at,
                on,
                kind,
                sticky: false,
                path_contains: None,
            });
            let horizon = Horizon::new(Version(9), vec![]);
            let ran = job::run(&making, &tree, &plan, &horizon, &never);
            vfs.clear_faults();
            match ran {
                Ok(rewritten) => {
                    assert!(rewritten.finished.len() > 3);
                    done = true;
                    break;
                }
                Err(stopped) => {
                    assert!(matches!(stopped, Stopped::Failed(_)));
                    failures += 1;
                    let names = vfs.file_names(Path::new("/db"));
                    assert_eq!(names, ["TABLE-000001", "TABLE-000002"], "{on:?} {at}");
                }
            }
        }
    }
    assert!(done && failures > 30, "{failures} failures");
}

#[test]
fn a_job_that_is_cancelled_anywhere_leaves_no_files() {
    let mut cancelled = 0;
    for after in 0.. {
        let vfs = SimVfs::new(1);
        let (making, tree, plan) = two_runs(&vfs);
        let left = std::cell::Cell::<u32>::new(after);
        let is_cancelled = || left.replace(left.get().saturating_sub(1)) == 0;
        let horizon = Horizon::new(Version(9), vec![]);
        match job::run(&making, &tree, &plan, &horizon, &is_cancelled) {
            Ok(_) => break,
            Err(stopped) => assert!(matches!(stopped, Stopped::Cancelled)),
        }
        cancelled += 1;
        assert_eq!(
            vfs.file_names(Path::new("/db")),
            ["TABLE-000001", "TABLE-000002"]
        );
    }
    // The question is asked at every sixteenth of the 120 records.
    assert_eq!(cancelled, 8);
}

fn refusal(records: &[&[Record<'_>]]) -> ErrorKind {
    let vfs = SimVfs::new(1);
    let making = making(&vfs);
    let mut tree = Tree::default();
    for (records, age) in records.iter().zip(1..) {
        let table = table_of(&making.place, age, age, records);
        let added = vec![(Level(0), table)];
        tree.apply(&TreeEdit {
            added,
            ..TreeEdit::default()
        })
        .unwrap();
        making.numbers.skip(FileNumber(age));
    }
    let plan = Plan::of(&tree, Job::FromLevel0 { to: Level(6) }, &LIMITS);
    let horizon = Horizon::new(Version(9), vec![]);
    match job::run(&making, &tree, &plan, &horizon, &never) {
        Err(Stopped::Failed(error)) => error.kind(),
        Err(Stopped::Cancelled) => panic!("nobody cancels it"),
        Ok(_) => panic!("it was rewritten"),
    }
}

#[test]
fn what_cannot_be_rewritten_is_refused() {
    let merge = refusal(&[
        &[(b"a", 1, Kind::Merge, &[0])],
        &[(b"a", 2, Kind::Put, &[])],
    ]);
    assert_eq!(merge, ErrorKind::Unsupported);
    let twice: &[Record<'_>] = &[(b"a", 1, Kind::Put, b"")];
    assert_eq!(refusal(&[twice, twice]), ErrorKind::Corruption);
}

#[test]
fn a_flush_keeps_deletes_and_leaves_out_what_nobody_reads() {
    let vfs = SimVfs::new(1);
    let making = making(&vfs);
    let mut records = Records::new();
    for (key, version, value) in [
        ("a", 9, None),
        ("a", 8, Some(b"v".to_vec())),
        ("b", 7, Some(b"v".to_vec())),
        ("b", 6, Some(b"v".to_vec())),
        ("b", 5, Some(b"v".to_vec())),
    ] {
        records.insert((key.into(), Reverse(version)), value);
    }
    let mut tree = Tree::default();
    let horizon = Horizon::new(Version(9), vec![Version(6)]);
    let guards = GuardRule::new(2, 1);
    let flushed = |tree: &Tree, records: &Records| {
        let mut memory = Memory::new(records);
        flush(&making, tree, &guards, &mut memory, &horizon, &never).unwrap()
    };
    let told = |edit: &TreeEdit| {
        let added = edit.added.iter();
        let table = |(level, table): &(Level, Arc<TableFile>)| {
            (level.0, table.meta.entries, table.meta.deletes)
        };
        added.map(table).collect::<Vec<_>>()
    };
    // The tree is empty, so nothing lies below what the delete hides; but a snapshot does not see
    // the delete yet. "b" is a guard, before which a table ends.
    let edit = flushed(&tree, &records).edit(&making.numbers);
    assert_eq!(told(&edit), [(6, 1, 1), (6, 2, 0)]);
    // A record of 2 bytes is a guard if guards are 2 bytes apart. The delete of 1 byte is a guard
    // by chance.
    assert!(edit.guards.iter().any(|guard| *guard.key == *b"b"));
    tree.apply(&edit).unwrap();
    // Now the tree has the guard "b".
    let edit = flushed(&tree, &records).edit(&making.numbers);
    assert_eq!(told(&edit), [(0, 3, 1)]);
    assert!(flushed(&tree, &Records::new()).is_empty());
    assert_eq!(vfs.file_names(Path::new("/db")).len(), 3);
}

/// First ascending keys, then keys between them.
#[test]
fn a_flush_goes_to_the_last_level_where_nothing_is_and_is_cut_at_its_guards() {
    let vfs = SimVfs::new(1);
    let making = making(&vfs);
    let mut tree = Tree::default();
    let horizon = Horizon::new(Version(99), Vec::new());
    let (mut levels, guards) = (Vec::new(), GuardRule::new(66, 1));
    for (first, last) in [
        (10, 19),
        (20, 29),
        (40, 49),
        (30, 39),
        (25, 42),
        (9, 9),
        (24, 24),
    ] {
        let records = (first..=last).map(|key| {
            let place = (format!("{key}").into_bytes(), Reverse(1));
            (place, Some(vec![0; 20]))
        });
        let mut memory = Memory::new(&records.collect());
        let flushed = flush(&making, &tree, &guards, &mut memory, &horizon, &never).unwrap();
        let edit = flushed.edit(&making.numbers);
        let to: BTreeSet<u8> = edit.added.iter().map(|(level, _)| level.0).collect();
        levels.push(to.into_iter().collect::<Vec<_>>());
        tree.apply(&edit).unwrap();
        assert_eq!(verify::check(&tree), Ok(()));
    }
    // "9" is above all others.
    let (last, first) = (vec![6], vec![0]);
    assert_eq!(
        levels,
        [&last, &last, &last, &last, &first, &last, &first].map(Clone::clone)
    );
    let guards = tree.guards(Level(6));
    assert!(guards.all().len() > 5, "{guards:?}");
    assert!(guards.chosen().is_empty(), "{guards:?}");
}
