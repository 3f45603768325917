//! Inspecting and saving: `verify` raises no false alarm after crashes; `dump` shows the content
//! and where it stops; `repair` of an undamaged database loses nothing, and of a damaged one no
//! more than it reports; no key ever gets a value that it never had.
//!
//! `corruption.rs` tests that verify finds every planted damage. `EVENDB_REPAIR_STRIDE` sets the
//! number of bytes between two flips (default 499).

mod common;

use common::damage::{
    Image, LEVEL, files, image, image_without_merges, inspect_options, open, path, places, verified,
};
use common::oracle::{Map, contents};
use common::workload::{Runner, steps};
use common::{DIR, count_from_env, on_sim, scramble};
use evendb::inspect::{
    Dump, DumpItem, DumpOptions, DumpValue, FindingKind, RepairOptions, RepairReport, Severity,
    dump, repair, verify,
};
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{Durability, ErrorKind};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

const SAVED: &str = "/saved";

type Contents = BTreeMap<String, Map>;

/// Repairs and reads the result.
fn saved(disk: &SimVfs, one_keyspace: bool) -> (RepairReport, Contents) {
    let options = RepairOptions { one_keyspace };
    let names = disk.file_names(&PathBuf::from(DIR));
    let before: Vec<_> = names
        .iter()
        .map(|name| disk.read_file(&path(name)))
        .collect();
    let report = repair(DIR, SAVED, options, inspect_options(disk)).expect("repairs");
    // The original is as it was.
    assert_eq!(disk.file_names(&PathBuf::from(DIR)), names);
    for (name, bytes) in names.iter().zip(before) {
        assert!(disk.read_file(&path(name)) == bytes, "{name} was changed");
    }
    let new = verify(SAVED, inspect_options(disk)).expect("looks");
    assert!(new.findings.is_empty(), "{:#?}", new.findings);
    let db = open(disk, SAVED).expect("opens");
    let names = db.keyspace_names().into_iter();
    let read = |name: String| (name.clone(), contents(&db, &name).expect("reads"));
    let contents: Contents = names.map(read).collect();
    let records: usize = contents.values().map(BTreeMap::len).sum();
    assert_eq!(report.records(), records as u64);
    (report, contents)
}

/// Each record of the new database must have been in the old one, and missing ones must be
/// reported. Returns the number of keys that differ.
fn judge(image: &Image, report: &RepairReport, saved: &Contents, what: &str) -> usize {
    let expected = image.expected();
    let nothing = Map::new();
    let mut differing = 0;
    for (name, map) in &expected {
        let got = saved.get(name).unwrap_or(&nothing);
        let keys = map
            .keys()
            .chain(got.keys().filter(|key| !map.contains_key(*key)));
        for key in keys {
            if map.get(key) == got.get(key) {
                continue;
            }
            differing += 1;
            let shown = key.escape_ascii();
            let told = report.losses.iter().any(|loss| loss.concerns(name, key));
            assert!(
                told,
                "{what}: {shown} of {name} differs, untold: {:#?}",
                report.losses
            );
            if let Some(value) = got.get(key) {
                let known = image
                    .history
                    .iter()
                    .any(|((of, k), values)| of == name && k == key && values.contains(value));
                assert!(known, "{what}: {shown} of {name} has a value it never had");
                let older = |loss: &&evendb::inspect::Loss| loss.older_may_show;
                let mut losses = report.losses.iter().filter(older);
                let told = losses.any(|loss| loss.concerns(name, key));
                assert!(told, "{what}: an older value of {shown} shows, untold");
            }
        }
    }
    for (name, map) in saved {
        if expected.contains_key(name) {
            continue;
        }
        assert!(
            name.starts_with("recovered-") || name == "third",
            "{what}: {name}"
        );
        for (key, value) in map {
            let mut history = image.history.iter();
            let known = history.any(|((_, k), values)| k == key && values.contains(value));
            assert!(known, "{what}: {name} has a value that no key had");
        }
    }
    differing
}

#[test]
fn repair_of_what_is_whole_is_the_same() {
    for closed in [true, false] {
        let image = image(closed);
        let (report, contents) = saved(&image.disk, false);
        assert!(report.losses.is_empty(), "{:#?}", report.losses);
        assert!(report.is_complete());
        assert_eq!(contents, image.expected());
    }
}

fn repair_damaged(
    image: &Image,
    name: &str,
    what: &str,
    change: impl FnOnce(&mut Vec<u8>),
) -> Option<(RepairReport, usize)> {
    let machine = image.disk.fork_state();
    let mut bytes = machine.read_file(&path(name));
    let before = bytes.clone();
    change(&mut bytes);
    if bytes == before {
        return None;
    }
    machine.write_file(&path(name), bytes);
    let what = format!("{} {name} {what}", image.name);
    let sound = verified(&machine).is_sound();
    let (report, contents) = saved(&machine, false);
    let differing = judge(image, &report, &contents, &what);
    if report.is_complete() && !report.losses.iter().any(|loss| !loss.certain) {
        let wiped = name == "COMMIT-LOG" || name.starts_with("MANIFEST");
        assert!(differing == 0 || (wiped && !image.closed), "{what}");
    }
    if sound && image.closed {
        assert_eq!(differing, 0, "{what}");
    }
    Some((report, differing))
}

#[test]
fn repair_loses_what_is_damaged_and_no_more() {
    let stride = count_from_env("EVENDB_REPAIR_STRIDE", 499) as usize;
    let (mut damages, mut incomplete, mut keys) = (0, 0, 0);
    for closed in [true, false] {
        let image = image_without_merges(closed);
        for name in files(&image) {
            let bytes = image.disk.read_file(&path(&name));
            for at in places(&bytes, stride) {
                if !image.sound.is_live(&name, at as u64) {
                    continue;
                }
                let what = format!("byte {at} flipped");
                let flip = |bytes: &mut Vec<u8>| bytes[at] ^= 1 << (scramble(at as u64) % 8);
                let (report, differing) =
                    repair_damaged(&image, &name, &what, flip).expect("it changes");
                damages += 1;
                incomplete += u32::from(!report.is_complete());
                keys += differing;
                // A block, a batch: a handful of records. An edit may name many.
                let bound = if name.starts_with("MANIFEST") {
                    200
                } else {
                    12
                };
                assert!(differing <= bound, "{what} of {name}: {differing} keys");
            }
            for part in 1..4 {
                let at = bytes.len() * part / 4;
                let what = format!("cut to {at} bytes");
                repair_damaged(&image, &name, &what, |bytes| bytes.truncate(at));
                let what = format!("zeros from {at}");
                let end = (at + 4096).min(bytes.len());
                repair_damaged(&image, &name, &what, |bytes| bytes[at..end].fill(0));
                damages += 2;
            }
            let machine = image.disk.fork_state();
            machine.remove_file(&path(&name));
            let (report, contents) = saved(&machine, false);
            let what = format!("{} {name} missing", image.name);
            let differing = judge(&image, &report, &contents, &what);
            // The only manifest replaces a missing `CURRENT`.
            let costs_nothing = name == "CURRENT";
            assert_eq!(report.losses.is_empty(), costs_nothing, "{what}");
            let is_told = !report.findings.is_empty();
            assert!(!costs_nothing || differing == 0 && is_told, "{what}");
            damages += 1;
        }
    }
    println!("{damages} damages, {incomplete} flips with losses, {keys} keys differ after flips");
    assert!(incomplete > 0);
}

#[test]
fn exchanged_tables_are_found_by_what_they_are() {
    let image = image(true);
    let mut tables = files(&image);
    tables.retain(|name| name.ends_with(".sst"));
    let machine = image.disk.fork_state();
    let (a, b) = (path(&tables[0]), path(&tables[1]));
    let (first, second) = (machine.read_file(&a), machine.read_file(&b));
    machine.write_file(&a, second);
    machine.write_file(&b, first);
    let (report, contents) = saved(&machine, false);
    assert!(report.losses.is_empty(), "{:#?}", report.losses);
    assert_eq!(contents, image.expected());
}

/// A database of one keyspace without a manifest: everything comes back if the caller confirms that
/// it had one keyspace.
#[test]
fn tables_without_a_manifest() {
    let vfs = SimVfs::new(3);
    let db = on_sim(&vfs, LEVEL, 0).open(DIR).expect("opens");
    let mut expected = Map::new();
    for number in 0..600u32 {
        let number = number * 7919 % 500;
        let (key, value) = (format!("key{number:05}"), format!("value {number}"));
        db.put(&key, &value).expect("puts");
        expected.insert(key.into_bytes(), value.into_bytes());
    }
    db.settle_debt().expect("settles");
    db.close().expect("closes");
    for name in vfs.file_names(&PathBuf::from(DIR)) {
        if name.starts_with("MANIFEST") {
            vfs.remove_file(&path(&name));
        }
    }
    let report = verified(&vfs);
    let mut missing = report.findings.iter();
    assert!(missing.any(|finding| finding.kind == FindingKind::Missing));
    let apart = vfs.fork_state();
    let (report, contents) = saved(&apart, false);
    assert!(!report.is_complete());
    let mut all = Map::new();
    for (name, map) in contents {
        assert!(
            name == "default" || name.starts_with("recovered-"),
            "{name}"
        );
        all.extend(map);
    }
    assert!(all == expected);
    let (report, contents) = saved(&vfs, true);
    assert!(!report.is_complete(), "it cannot be known to be all");
    assert!(contents["default"] == expected);
    assert_eq!(contents.len(), 1);
}

#[test]
fn a_hole_in_the_commit_log_is_no_end() {
    let image = image(false);
    let live = &image.sound.live["COMMIT-LOG"];
    let records = image.sound.checked.commit_log_records;
    assert!(records > 10);
    // In the middle of a stretch of many records.
    let longest = live
        .iter()
        .max_by_key(|range| range.end - range.start)
        .expect("some");
    let at = (longest.start + 20) as usize;
    let (report, differing) =
        repair_damaged(&image, "COMMIT-LOG", "hole", |bytes| bytes[at] ^= 4).expect("changes");
    assert!(!report.is_complete());
    assert!(differing <= 9, "one batch: {differing}");
    let machine = image.disk.fork_state();
    let mut bytes = machine.read_file(&path("COMMIT-LOG"));
    bytes[at] ^= 4;
    machine.write_file(&path("COMMIT-LOG"), bytes);
    let found = verified(&machine);
    assert_eq!(found.checked.commit_log_records, records - 1);
    let holes: Vec<_> = found
        .findings
        .iter()
        .filter(|finding| finding.kind == FindingKind::CommitLogHole)
        .collect();
    let [hole] = &holes[..] else {
        panic!("{:#?}", found.findings)
    };
    assert_eq!(hole.severity, Severity::Corruption);
    assert_eq!(hole.offset, Some(longest.start));
}

/// Whatever a crash leaves is sound, including a hole of pages that were never synced.
#[test]
fn no_false_alarm_after_a_crash() {
    let all = steps(31, 200);
    for level in [Durability::Relaxed, Durability::Process, Durability::Sync] {
        for number in 0..24u64 {
            let vfs = SimVfs::new(number);
            let mut runner = Runner::new(&vfs, level);
            runner.open().expect("opens");
            vfs.set_crash_at(vfs.op_count() + 20 + scramble(number) % 900);
            for step in &all {
                if runner.step(step).is_err() || vfs.crashed() {
                    break;
                }
            }
            let modes = [
                CrashMode::Process,
                CrashMode::PowerLossNothing,
                CrashMode::PowerLossAll,
                CrashMode::PowerLossRandom(number),
                CrashMode::PowerLossRandom(scramble(number)),
            ];
            for mode in modes {
                let disk = vfs.crash(mode);
                let report = verified(&disk);
                for finding in &report.findings {
                    let warning = finding.severity == Severity::Warning;
                    assert!(warning, "{level:?}, crash {number}, {mode:?}: {finding}");
                }
            }
            runner.abandon();
        }
    }
}

fn dumped(disk: &SimVfs, what: &Dump, options: &DumpOptions) -> evendb::Result<Vec<DumpItem>> {
    let mut items = Vec::new();
    dump(DIR, what, options, inspect_options(disk), &mut |item| {
        items.push(item);
        ControlFlow::Continue(())
    })?;
    Ok(items)
}

fn field<'i>(item: &'i DumpItem, wanted: &str) -> Option<&'i DumpValue> {
    let mut fields = item.fields.iter();
    fields
        .find(|(name, _)| *name == wanted)
        .map(|(_, value)| value)
}

fn number(item: &DumpItem, wanted: &str) -> u64 {
    match field(item, wanted) {
        Some(DumpValue::Number(number)) => *number,
        other => panic!("{wanted} is {other:?} in {item:?}"),
    }
}

#[test]
fn dumps_show_what_is_there() {
    let image = image(false);
    let all = DumpOptions::default();
    let current = dumped(&image.disk, &Dump::Current, &all).expect("dumps");
    assert_eq!(current.len(), 1);
    let manifest = dumped(&image.disk, &Dump::Manifest, &all).expect("dumps");
    let edits = manifest.iter().filter(|item| item.kind == "edit").count();
    assert_eq!(edits as u64, image.sound.checked.edits);
    let log = dumped(&image.disk, &Dump::CommitLog, &all).expect("dumps");
    let records = log.iter().filter(|item| item.kind == "log-record").count();
    assert_eq!(records as u64, image.sound.checked.commit_log_records);
    let mut tables = files(&image);
    let named = |name: &String| image.sound.live.contains_key(name);
    tables.retain(|name| name.ends_with(".sst") && named(name));
    for name in &tables {
        let what = Dump::Table(name.clone());
        let items = dumped(&image.disk, &what, &all).expect("dumps");
        let part = items
            .iter()
            .find(|item| item.kind == "part")
            .expect("a part");
        let records = items.iter().filter(|item| item.kind == "record");
        assert_eq!(records.count() as u64, number(part, "records"));
        let options = DumpOptions {
            limit: Some(1),
            keys_only: true,
        };
        let items = dumped(&image.disk, &what, &options).expect("dumps");
        let mut records = items.iter().filter(|item| item.kind == "record");
        assert!(
            records
                .next()
                .is_some_and(|item| field(item, "value").is_none())
        );
        assert!(records.next().is_none());
    }
    let sets = manifest
        .iter()
        .rev()
        .filter(|item| field(item, "what") == Some(&DumpValue::Text("set-chunk".into())));
    // The last chunk that still exists.
    let is_there = |id: &u64| dumped(&image.disk, &Dump::Chunk(*id), &all).is_ok();
    let chunk = sets.map(|item| number(item, "id")).find(is_there);
    let chunk = chunk.expect("chunks were set");
    for what in [Dump::Chunk(chunk), Dump::Log(chunk)] {
        let items = dumped(&image.disk, &what, &all).expect("dumps");
        assert_eq!(number(&items[0], "id"), chunk);
        assert!(items.iter().all(|item| item.kind != "damage"));
    }
    for what in [Dump::Chunk(7), Dump::Log(7), Dump::Table("7".into())] {
        let error = dumped(&image.disk, &what, &all).expect_err("there is none");
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}

/// Damaged files are dumped up to the damage and behind it.
#[test]
fn dumps_say_where_it_stops() {
    let image = image(false);
    let all = DumpOptions::default();
    let mut dumps = 0;
    for name in files(&image) {
        let bytes = image.disk.read_file(&path(&name));
        let what = match &*name {
            "CURRENT" => Dump::Current,
            "COMMIT-LOG" => Dump::CommitLog,
            name if name.starts_with("MANIFEST") => Dump::Manifest,
            name if name.ends_with(".sst") => Dump::Table(name.to_owned()),
            _ => continue,
        };
        let sound = dumped(&image.disk, &what, &all).expect("dumps");
        assert!(sound.iter().all(|item| item.kind != "damage"), "{name}");
        for at in places(&bytes, 301) {
            if !image.sound.is_live(&name, at as u64) {
                continue;
            }
            let machine = image.disk.fork_state();
            let mut bad = bytes.clone();
            bad[at] ^= 0x20;
            machine.write_file(&path(&name), bad);
            let items = dumped(&machine, &what, &all).expect("dumps");
            let covers = |item: &DumpItem| {
                let place = item.offset.zip(item.len);
                let at = at as u64;
                place.is_some_and(|(start, len)| (start..start + len).contains(&at))
            };
            let mut damages = items.iter().filter(|item| item.kind == "damage");
            let ends = items.iter().any(|item| item.kind == "end") && name == "COMMIT-LOG";
            assert!(damages.any(covers) || ends, "{name} at {at}: {items:#?}");
            assert!(
                items.len() * 2 > sound.len() || sound.len() < 40,
                "{name} at {at}"
            );
            dumps += 1;
        }
    }
    assert!(dumps > 100, "{dumps}");
}

#[test]
fn what_is_open_or_no_database_is_refused() {
    let vfs = SimVfs::new(4);
    let db = on_sim(&vfs, LEVEL, 0).open(DIR).expect("opens");
    let error = verify(DIR, inspect_options(&vfs)).expect_err("it is open");
    assert_eq!(error.kind(), ErrorKind::Locked);
    let options = RepairOptions::default();
    let error = repair(DIR, SAVED, options, inspect_options(&vfs)).expect_err("it is open");
    assert_eq!(error.kind(), ErrorKind::Locked);
    db.close().expect("closes");
    let error = verify("/nowhere", inspect_options(&vfs)).expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let error = repair(DIR, DIR, options, inspect_options(&vfs)).expect_err("in place");
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
}
