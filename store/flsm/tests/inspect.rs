//! Looks inside closed databases: sound databases are found sound, and each flipped bit is reported
//! or does no harm.

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

mod common;

use common::{DIR, Map, tiny_on};
use evendb_flsm::inspect::{
    self, Dump, DumpItem, DumpOptions, DumpValue, FindingKind, InspectOptions, Severity,
    VerifyReport,
};
use evendb_flsm::vfs::{CrashMode, SimVfs};
use evendb_flsm::{Db, Durability, ErrorKind};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn look<'a>(vfs: &SimVfs) -> InspectOptions<'a> {
    InspectOptions::new().vfs(Arc::new(vfs.clone()))
}

fn verify(vfs: &SimVfs) -> VerifyReport {
    inspect::verify(DIR, look(vfs)).unwrap()
}

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

/// Two keyspaces, overwrites and deletes, tables in several levels, and logs with records.
fn fill(vfs: &SimVfs, seed: u64) -> Db {
    let db = tiny_on(vfs, Durability::Process, seed).open(DIR).unwrap();
    let other = db.keyspace("other").unwrap();
    for round in 0..3u32 {
        for number in 0..150u32 {
            let key = format!("{:04}", number * 7 % 150);
            match (round + number).is_multiple_of(11) {
                true => db.delete(key).unwrap(),
                false => db.put(&key, vec![round as u8; 60]).unwrap(),
            }
            if number % 5 == 0 {
                other.put(format!("{number:03}"), "other").unwrap();
            }
        }
        if round == 1 {
            db.settle_debt().unwrap();
        }
    }
    // Records of one group, which the newest log has.
    let mut batch = db.batch();
    for number in 0..5u32 {
        batch.put(&other, format!("{number:03}"), "last");
    }
    batch.commit().unwrap();
    db
}

/// Files whose last handles are dropped later than the database, because another test reads at that
/// moment.
fn orphans(report: &VerifyReport) -> Vec<String> {
    let found = report.findings.iter();
    let orphans = found.filter(|found| found.kind == FindingKind::Orphan);
    orphans.map(|found| found.file.clone()).collect()
}

fn contents(db: &Db) -> Vec<Map> {
    let names = db.keyspace_names();
    let keyspaces = names.iter().map(|name| db.keyspace(name).unwrap());
    keyspaces
        .map(|keyspace| {
            let records = keyspace.iter().map(|item| item.unwrap());
            records
                .map(|(key, value)| (key.to_vec(), value.to_vec()))
                .collect()
        })
        .collect()
}

#[test]
fn what_was_closed_or_killed_is_sound() {
    for seed in 0..8 {
        let vfs = SimVfs::new(seed);
        let db = fill(&vfs, seed);
        let killed = vfs.crash(CrashMode::Process);
        let report = verify(&killed);
        assert!(report.is_sound(), "{:?}", report.findings);
        assert!(report.checked.log_records > 0);
        let machine = {
            let again = tiny_on(&killed, Durability::Process, seed)
                .open(DIR)
                .unwrap();
            again.settle_debt().unwrap();
            again.close().unwrap();
            killed
        };
        drop(db);
        let report = verify(&machine);
        let orphans = orphans(&report).len();
        assert_eq!(report.findings.len(), orphans, "{:?}", report.findings);
        let checked = report.checked;
        assert_eq!(checked.keyspaces, 2);
        assert!(
            checked.tables > 2 && checked.records > 130 && checked.blocks >= checked.tables,
            "{checked:?}"
        );
        assert!(checked.edits >= 1 && checked.logs == 1 && checked.guards > 12);
        let names = machine.file_names(Path::new(DIR));
        let unread = ["LOCK", "BALLAST"];
        assert!(
            unread
                .iter()
                .all(|name| names.iter().any(|own| own == name))
        );
        let others = orphans + unread.len();
        assert_eq!(checked.files as usize, names.len() - others);
    }
}

#[test]
fn the_lock_is_respected_and_nothing_is_written() {
    let vfs = SimVfs::new(1);
    let error = inspect::verify(DIR, look(&vfs)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let db = fill(&vfs, 1);
    let error = inspect::verify(DIR, look(&vfs)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    db.close().unwrap();
    let before = vfs.op_count();
    let mut told = Vec::new();
    let mut tell = |progress: inspect::Progress| told.push((progress.done, progress.total));
    let options = look(&vfs).progress(&mut tell);
    assert!(inspect::verify(DIR, options).unwrap().is_sound());
    assert_eq!(vfs.op_count(), before);
    assert!(told.is_sorted() && told.last().is_some_and(|(done, total)| done <= total));
}

/// The number of bytes up to the last one that is not zero.
fn used(bytes: &[u8]) -> usize {
    let last = bytes.iter().rposition(|&byte| byte != 0);
    last.map_or(0, |last| last + 1)
}

/// Flips one bit in each of several bytes of each file in turn.
#[test]
fn a_flipped_bit_is_told_or_does_no_harm() {
    let vfs = SimVfs::new(2);
    let db = fill(&vfs, 2);
    db.close().unwrap();
    let expected = {
        let copy = vfs.fork_state();
        contents(&tiny_on(&copy, Durability::Process, 2).open(DIR).unwrap())
    };
    let (mut told, mut harmless) = (BTreeSet::new(), BTreeSet::new());
    for name in vfs.file_names(Path::new(DIR)) {
        let bytes = vfs.read_file(&path(&name));
        // Of the room behind the edits of a manifest only a part is tried.
        let used = used(&bytes).next_multiple_of(64).min(bytes.len());
        let stride = (used / 60).max(1);
        for at in (0..used).step_by(stride) {
            let copy = vfs.fork_state();
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            copy.write_file(&path(&name), damaged);
            let kind = name.split('-').next().unwrap().to_owned();
            let report = verify(&copy);
            if report.findings.is_empty() {
                let db = tiny_on(&copy, Durability::Process, 2).open(DIR).unwrap();
                assert_eq!(contents(&db), expected, "{name} at {at}");
                harmless.insert(kind);
                continue;
            }
            let named = report.findings.iter().any(|found| found.file == name);
            assert!(named, "{name} at {at}: {:?}", report.findings);
            told.insert(kind);
        }
    }
    let kinds = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(told, kinds(&["CURRENT", "LOG", "MANIFEST", "TABLE"]));
    assert!(harmless.is_subset(&kinds(&["LOCK"])), "{harmless:?}");
}

/// The findings after one change of a database's files.
#[track_caller]
fn told_after(change: impl FnOnce(&SimVfs)) -> Vec<(Severity, FindingKind, String)> {
    let vfs = SimVfs::new(3);
    fill(&vfs, 3).close().unwrap();
    change(&vfs);
    let found = verify(&vfs).findings.into_iter();
    found
        .map(|found| (found.severity, found.kind, found.file))
        .collect()
}

fn first_of(vfs: &SimVfs, kind: &str) -> String {
    let names = vfs.file_names(Path::new(DIR));
    let mut of_kind = names.into_iter().filter(|name| name.starts_with(kind));
    of_kind.next().unwrap()
}

#[test]
fn files_that_are_missing_are_named() {
    for (kind, expected) in [
        ("TABLE-", FindingKind::Missing),
        ("MANIFEST-", FindingKind::Missing),
        ("CURRENT", FindingKind::Missing),
    ] {
        let mut gone = String::new();
        let told = told_after(|vfs| {
            gone = first_of(vfs, kind);
            vfs.remove_file(&path(&gone));
        });
        let first = (Severity::Corruption, expected, gone);
        assert_eq!(told[0], first, "{told:?}");
    }
}

#[test]
fn what_is_cut_short_or_too_long_is_told() {
    for kind in ["TABLE-", "MANIFEST-", "CURRENT", "LOG-"] {
        for change in [-1i64, 1] {
            let mut name = String::new();
            let told = told_after(|vfs| {
                name = last_of(vfs, kind);
                let mut bytes = vfs.read_file(&path(&name));
                match change {
                    1 => bytes.push(1),
                    _ => bytes.truncate(used(&bytes) - 1),
                }
                vfs.write_file(&path(&name), bytes);
            });
            assert!(
                told.iter().any(|(_, _, file)| *file == name),
                "{name} {change}: {told:?}"
            );
        }
    }
}

#[test]
fn leftovers_are_warnings() {
    let told = told_after(|vfs| {
        for name in ["TABLE-999999", "CURRENT.tmp", "LOG-000001"] {
            vfs.write_file(&path(name), b"left".to_vec());
        }
        vfs.write_file(&path("notes.txt"), b"not of the database".to_vec());
    });
    for name in ["CURRENT.tmp", "LOG-000001", "TABLE-999999"] {
        let warning = (Severity::Warning, FindingKind::Orphan, name.to_owned());
        assert!(told.contains(&warning), "{told:?}");
    }
    let others = told
        .iter()
        .any(|(_, kind, file)| *kind != FindingKind::Orphan || file == "notes.txt");
    assert!(!others, "{told:?}");
}

#[test]
fn a_table_in_the_place_of_another_is_told() {
    let told = told_after(|vfs| {
        let names = vfs.file_names(Path::new(DIR));
        let tables: Vec<_> = names
            .iter()
            .filter(|name| name.starts_with("TABLE-"))
            .collect();
        let other = vfs.read_file(&path(tables[1]));
        vfs.write_file(&path(tables[0]), other);
    });
    assert!(told.iter().any(|(_, kind, _)| *kind == FindingKind::Table));
}

#[test]
fn the_other_engine_is_refused() {
    let vfs = SimVfs::new(1);
    let current = b"EVENCUR5 of the first engine".to_vec();
    let db = tiny_on(&vfs, Durability::Relaxed, 1).open(DIR).unwrap();
    db.close().unwrap();
    vfs.write_file(&path("CURRENT"), current);
    let error = inspect::verify(DIR, look(&vfs)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

/// The last file of a kind. For logs it must be the newest: an older log may have bytes behind its
/// end, which another life left.
fn last_of(vfs: &SimVfs, kind: &str) -> String {
    let names = vfs.file_names(Path::new(DIR));
    let of_kind = names.into_iter().filter(|name| name.starts_with(kind));
    of_kind.max().unwrap()
}

fn largest_of(vfs: &SimVfs, kind: &str) -> String {
    let names = vfs.file_names(Path::new(DIR));
    let of_kind = names.into_iter().filter(|name| name.starts_with(kind));
    of_kind
        .max_by_key(|name| vfs.read_file(&path(name)).len())
        .unwrap()
}

fn dump(vfs: &SimVfs, what: &Dump, options: &DumpOptions) -> Vec<DumpItem> {
    let mut items = Vec::new();
    let mut each = |item| {
        items.push(item);
        ControlFlow::Continue(())
    };
    inspect::dump(DIR, what, options, look(vfs), &mut each).unwrap();
    items
}

fn number(item: &DumpItem, name: &str) -> u64 {
    let found = item.fields.iter().find(|(own, _)| *own == name);
    match found {
        Some((_, DumpValue::Number(number))) => *number,
        _ => panic!("{item}: no {name}"),
    }
}

fn count(items: &[DumpItem], kind: &str) -> usize {
    items.iter().filter(|item| item.kind == kind).count()
}

#[test]
fn each_part_is_dumped_as_it_is() {
    let vfs = SimVfs::new(4);
    fill(&vfs, 4).close().unwrap();
    let all = DumpOptions::default();
    let report = verify(&vfs);
    let current = dump(&vfs, &Dump::Current, &all);
    assert!(current[0].to_string().contains("manifest=MANIFEST-"));

    let manifest = dump(&vfs, &Dump::Manifest, &all);
    assert_eq!(count(&manifest, "edit") as u64, report.checked.edits);
    let text: Vec<String> = manifest.iter().map(ToString::to_string).collect();
    let has = |what: &str| text.iter().any(|line| line.contains(what));
    assert!(has("what=format engine=flsm version=1") && has("what=create-keyspace"));
    assert!(has("what=add-table") && has("what=set-guard"));

    let trees = dump(&vfs, &Dump::Trees, &all);
    assert_eq!(count(&trees, "keyspace") as u64, report.checked.keyspaces);
    assert_eq!(count(&trees, "table") as u64, report.checked.tables);

    let logs = dump(&vfs, &Dump::Logs, &all);
    assert_eq!(count(&logs, "record") as u64, report.checked.log_records);
    assert_eq!(count(&logs, "begin") as u64, report.checked.logs);

    let mut records = 0;
    let orphans = orphans(&report);
    for name in vfs.file_names(Path::new(DIR)) {
        if orphans.contains(&name) {
            continue;
        }
        if let Some(digits) = name.strip_prefix("TABLE-") {
            let table = dump(&vfs, &Dump::Table(name.clone()), &all);
            let by_number = dump(&vfs, &Dump::Table(digits.to_owned()), &all);
            assert_eq!(table, by_number);
            let properties = table.iter().find(|item| item.kind == "properties").unwrap();
            assert_eq!(
                number(properties, "records"),
                count(&table, "record") as u64
            );
            records += count(&table, "record");
        }
    }
    assert_eq!(records as u64, report.checked.records);
    let items = [current, manifest, trees, logs].concat();
    assert_eq!(count(&items, "damage"), 0);
}

#[test]
fn a_dump_ends_where_it_should() {
    let vfs = SimVfs::new(4);
    fill(&vfs, 4).close().unwrap();
    let table = largest_of(&vfs, "TABLE-");
    let options = DumpOptions {
        limit: Some(3),
        keys_only: true,
    };
    for (what, kind) in [
        (Dump::Table(table.clone()), "record"),
        (Dump::Logs, "record"),
        (Dump::Manifest, "change"),
    ] {
        let items = dump(&vfs, &what, &options);
        assert_eq!(count(&items, kind), 3, "{what:?}");
        assert!(
            items
                .iter()
                .all(|item| item.fields.iter().all(|(name, _)| *name != "value"))
        );
    }
    let mut seen = 0;
    let mut each = |_| {
        seen += 1;
        ControlFlow::Break(())
    };
    let what = Dump::Table(table);
    inspect::dump(DIR, &what, &DumpOptions::default(), look(&vfs), &mut each).unwrap();
    assert_eq!(seen, 1);
    let missing = Dump::Table("TABLE-777777".to_owned());
    let error = inspect::dump(
        DIR,
        &missing,
        &DumpOptions::default(),
        look(&vfs),
        &mut |_| ControlFlow::Continue(()),
    );
    assert_eq!(error.unwrap_err().kind(), ErrorKind::NotFound);
}

/// Damage is an item at its place, and the bytes behind it are shown.
#[test]
fn damage_is_dumped_where_it_lies() {
    let vfs = SimVfs::new(4);
    fill(&vfs, 4).close().unwrap();
    let all = DumpOptions::default();
    for (kind, what, counted) in [
        ("TABLE-", None, "record"),
        ("LOG-", Some(Dump::Logs), "record"),
        ("MANIFEST-", Some(Dump::Manifest), "change"),
    ] {
        let name = first_of(&vfs, kind);
        let what = what.unwrap_or(Dump::Table(name.clone()));
        let whole = count(&dump(&vfs, &what, &all), counted);
        let copy = vfs.fork_state();
        let mut bytes = copy.read_file(&path(&name));
        let at = match kind {
            "TABLE-" => 1,
            // In the first frame, which is a log's begin.
            "LOG-" => 40,
            _ => used(&bytes) - 1,
        };
        bytes[at] ^= 1;
        copy.write_file(&path(&name), bytes);
        let items = dump(&copy, &what, &all);
        assert_eq!(count(&items, "damage"), 1, "{name}");
        let damage = items.iter().find(|item| item.kind == "damage").unwrap();
        let (offset, len) = (damage.offset.unwrap(), damage.len.unwrap());
        assert!((offset..offset + len).contains(&(at as u64)), "{damage}");
        let left = count(&items, counted);
        match kind {
            "LOG-" => assert_eq!(left, whole),
            _ => assert!(left < whole, "{name}"),
        }
    }
}
