//! Damage to every kind of file: bits flipped, files cut short, pages zeroed and swapped, files
//! missing, empty and foreign. Opening or reading gives a typed error or exactly the right answer;
//! never a panic, never a wrong value, never a scan with a gap.
//!
//! The right answer depends on the place of the damage. After a clean close everything must be
//! there. In a commit log that is still needed, damage with records behind it must be refused.
//! Damage to its last records looks like the place where a crash ended the log: the records that
//! are left must be a prefix of the writes that holds at least the writes of the last checkpoint. A
//! value extent that a record names must be whole. The last edits of a manifest after an unclean
//! end are such a tail too. `damage_trials.rs` counts how often each of these outcomes comes, and
//! allows no other.
//!
//! The engine may take some damage for an end; `verify` must not. Every planted damage is a finding
//! that names file and place, with one exception: bytes that mean nothing (free extents, padding,
//! passed laps of the ring: [`VerifyReport::live`] of the undamaged disk says which). For these
//! `verify` must say that all is sound, and all must be. One kind is left: damage that leaves no
//! trace of the log's last records looks as if they had never been written.
//!
//! `EVENDB_DAMAGE_STRIDE` sets the number of bytes between two flips (default 97).

mod common;

use common::damage::{
    Image, LEVEL, WITHOUT_MEANING, changed_bytes, files, image, path, places, verified,
};
use common::oracle::{End, Map, contents};
use common::{DIR, count_from_env, is_about_chunks, on_sim, scramble};
use evendb::inspect::{Finding, FindingKind, VerifyReport};
use evendb::vfs::SimVfs;
use evendb::{Db, Error, ErrorKind};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// The errors that damage may give.
fn is_typed(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Corruption | ErrorKind::Unsupported | ErrorKind::Io | ErrorKind::Latched
    )
}

fn check_error(error: &Error, what: &str) {
    assert!(is_typed(error), "{what}: {error:?}");
}

/// Tries every kind of read; returns whether any reported damage.
fn check_reads(db: &Db, expected: &BTreeMap<String, Map>, what: &str) -> bool {
    let mut told = false;
    for (name, map) in expected {
        let keyspace = match db.keyspace(name) {
            Ok(keyspace) => keyspace,
            Err(error) => {
                check_error(&error, what);
                told = true;
                continue;
            }
        };
        for number in 0..70 {
            let key = format!("k{number:03}").into_bytes();
            match keyspace.get(&key) {
                Ok(value) => {
                    let value = value.map(|value| value.to_vec());
                    assert!(
                        value.as_ref() == map.get(&key),
                        "{what}: a wrong value of k{number:03} in {name}"
                    );
                }
                Err(error) => {
                    check_error(&error, what);
                    told = true;
                }
            }
        }
        told |= check_scan(keyspace.iter(), map.iter(), &format!("{what}: {name}"));
        let backwards = format!("{what}: {name} backwards");
        told |= check_scan(keyspace.iter().rev(), map.iter().rev(), &backwards);
    }
    told
}

/// A scan gives the records in order up to its end or up to an error.
fn check_scan<'m>(
    actual: impl Iterator<Item = evendb::Result<(evendb::Value, evendb::Value)>>,
    mut expected: impl Iterator<Item = (&'m Vec<u8>, &'m Vec<u8>)>,
    what: &str,
) -> bool {
    for item in actual {
        match item {
            Ok((key, value)) => {
                let next = expected.next();
                assert!(
                    next.is_some_and(|(k, v)| **k == *key && **v == *value),
                    "{what}: a gap or a wrong record at {:?}",
                    String::from_utf8_lossy(&key)
                );
            }
            Err(error) => {
                check_error(&error, what);
                return true;
            }
        }
    }
    assert!(expected.next().is_none(), "{what}: the scan ended early");
    false
}

/// The expected content of the database, given where it was damaged.
fn expectation(db: &Db, image: &Image, what: &str) -> Option<BTreeMap<String, Map>> {
    let mut oracle = image.oracle.clone();
    if !image.closed {
        // Any error here was typed, or the reads below find it again.
        match oracle.check(db, End::Power) {
            Ok(length) => oracle.recovered(length, db, End::Process),
            Err(text) => {
                for name in oracle.names() {
                    match contents(db, &name) {
                        Ok(_) => {}
                        Err(error) => {
                            check_error(&error, what);
                            return None;
                        }
                    }
                }
                panic!("{what}: {text}");
            }
        }
    }
    let names = oracle.names();
    assert_eq!(db.keyspace_names(), names, "{what}");
    let maps = names.iter().map(|name| oracle.map(name));
    Some(names.iter().cloned().zip(maps).collect())
}

/// Opens a damaged disk, reads, writes, reorganises, and opens it again. Returns whether damage was
/// reported.
fn judge(machine: &SimVfs, image: &Image, what: &str) -> bool {
    let db = match on_sim(machine, LEVEL, 0).open(DIR) {
        Ok(db) => db,
        Err(error) => {
            check_error(&error, what);
            return true;
        }
    };
    let Some(mut expected) = expectation(&db, image, what) else {
        return true;
    };
    let mut told = check_reads(&db, &expected, what);
    match db.put("k999", "new") {
        Ok(()) => {
            let map = expected.get_mut("default").expect("it is always there");
            map.insert(b"k999".to_vec(), b"new".to_vec());
        }
        Err(error) => check_error(&error, what),
    }
    // Reorganising must not spread the damage, nor lose records that it cannot read.
    if let Err(error) = db.settle_debt() {
        check_error(&error, what);
        told = true;
    }
    told |= check_reads(&db, &expected, &format!("{what}, after settling"));
    if let Err(error) = db.close() {
        check_error(&error, what);
        told = true;
    }
    match on_sim(machine, LEVEL, 0).open(DIR) {
        Ok(db) => told | check_reads(&db, &expected, &format!("{what}, opened again")),
        Err(error) => {
            check_error(&error, what);
            true
        }
    }
}

/// The outcomes of the damages planted in one test.
#[derive(Default)]
struct Tally {
    found: AtomicU32,
    meaningless: AtomicU32,
    wiped_end: AtomicU32,
}

impl Tally {
    fn print(&self, what: &str) {
        println!(
            "{what}: verify found {}; {} in bytes that mean nothing; {} wiped the log's end out",
            self.found.load(Ordering::Relaxed),
            self.meaningless.load(Ordering::Relaxed),
            self.wiped_end.load(Ordering::Relaxed),
        );
    }
}

/// Damages one file, verifies and judges.
fn damage(
    image: &Image,
    tally: &Tally,
    name: &str,
    what: &str,
    change: impl FnOnce(&mut Vec<u8>),
) -> bool {
    let machine = image.disk.fork_state();
    let before = machine.read_file(&path(name));
    let mut bytes = before.clone();
    change(&mut bytes);
    if bytes == before {
        return false;
    }
    machine.write_file(&path(name), bytes.clone());
    let what = format!("{} {name} {what}", image.name);
    let harmless = judge_verify(&machine, image, tally, name, (&before, &bytes), &what);
    let told = judge(&machine, image, &what);
    if harmless {
        assert!(!told, "{what}: verify took it for harmless");
        let machine = image.disk.fork_state();
        machine.write_file(&path(name), bytes);
        let db = on_sim(&machine, LEVEL, 0).open(DIR).expect("opens");
        for name in image.oracle.names() {
            let held = contents(&db, &name).expect("reads");
            assert!(held == image.oracle.map(&name), "{what}: {name} differs");
        }
    }
    told
}

/// Whether verify says that the damage means nothing; panics if its report is wrong.
fn judge_verify(
    machine: &SimVfs,
    image: &Image,
    tally: &Tally,
    name: &str,
    (before, after): (&[u8], &[u8]),
    what: &str,
) -> bool {
    let report = verified(machine);
    let changed = changed_bytes(before, after);
    let meant: Vec<u64> = changed
        .iter()
        .copied()
        .filter(|at| image.sound.is_live(name, *at))
        .collect();
    let named = |finding: &&Finding| {
        let place = finding.offset.zip(finding.len);
        let here = |at: &u64| place.is_some_and(|(start, len)| (start..start + len).contains(at));
        // If a cut leaves a part of an edit that was not synced yet, that part ends at the cut.
        let end = place.map(|(start, len)| start + len);
        let is_cut = after.len() < before.len() && end == Some(after.len() as u64);
        finding.file == name && (is_cut || changed.iter().any(here))
    };
    if report.findings.iter().any(|finding| named(&finding)) {
        tally.found.fetch_add(1, Ordering::Relaxed);
        return false;
    }
    if meant.is_empty() {
        tally.meaningless.fetch_add(1, Ordering::Relaxed);
        assert!(report.is_sound(), "{what}: {:#?}", report.findings);
        return true;
    }
    assert!(
        name == "COMMIT-LOG" && !image.closed && wiped_end(image, &report, before, after),
        "{what}: verify missed it: {:#?}",
        report.findings
    );
    tally.wiped_end.fetch_add(1, Ordering::Relaxed);
    false
}

/// Whether the header of the first record that verify no longer found is overwritten, so that the
/// log ends at a valid end.
fn wiped_end(image: &Image, report: &VerifyReport, before: &[u8], after: &[u8]) -> bool {
    let sound = &image.sound;
    let kept = report.checked.commit_log_records;
    let end = report.live.get("COMMIT-LOG").and_then(|live| live.last());
    let all = &sound.live["COMMIT-LOG"];
    // They are in the order of the log, which may continue at the start of the file.
    let kept_ranges = end.map_or(Some(0), |end| {
        let last = all
            .iter()
            .position(|range| range.end >= end.end && range.start < end.end);
        last.map(|last| last + usize::from(all[last].end == end.end))
    });
    let lost = kept_ranges.and_then(|kept| all.get(kept));
    let Some(lost) = lost else { return false };
    let start = match end {
        Some(end) if end.end <= lost.start => end.end.next_multiple_of(8).max(lost.start),
        Some(end) if lost.start < end.start => lost.start,
        Some(end) => end.end.next_multiple_of(8),
        None => lost.start,
    } as usize;
    kept < sound.checked.commit_log_records && after[start..start + 40] != before[start..start + 40]
}

#[test]
fn the_images_hold_every_kind_of_file() {
    let _chunks = is_about_chunks();
    for closed in [true, false] {
        let image = image(closed);
        let names = files(&image);
        let has = |wanted: &str| names.iter().any(|name| name.contains(wanted));
        for wanted in ["CURRENT", "MANIFEST-", "COMMIT-LOG", "CHUNK-LOGS", ".sst"] {
            assert!(has(wanted), "{names:?}");
        }
        assert!(closed || has(".val"), "{names:?}");
        let machine = image.disk.fork_state();
        // A table that a view had when the process ended is still there, and no other orphan.
        let mut findings = image.sound.findings.iter();
        let orphan = |finding: &Finding| finding.kind == FindingKind::Orphan;
        assert!(findings.all(orphan), "{:#?}", image.sound.findings);
        assert!(!judge(&machine, &image, "undamaged"));
    }
}

#[test]
fn flipped_bits() {
    let stride = count_from_env("EVENDB_DAMAGE_STRIDE", 97) as usize;
    let tally = Tally::default();
    let mut flips = 0;
    let mut told = 0;
    for closed in [true, false] {
        let image = image(closed);
        for name in files(&image) {
            let bytes = image.disk.read_file(&path(&name));
            for at in places(&bytes, stride) {
                let bits: &[u64] = if stride == 1 {
                    &[0, 1, 2, 3, 4, 5, 6, 7]
                } else {
                    &[scramble(at as u64) % 8]
                };
                for bit in bits {
                    let what = format!("bit {bit} of byte {at} flipped");
                    let found = damage(&image, &tally, &name, &what, |bytes| bytes[at] ^= 1 << bit);
                    flips += 1;
                    told += u32::from(found);
                }
            }
        }
    }
    tally.print("flipped bits");
    println!("{flips} bits flipped, {told} of them told");
    assert!(told > flips / 4, "{told} of {flips} were noticed");
}

#[test]
fn truncations() {
    let tally = Tally::default();
    let mut cuts = 0;
    for closed in [true, false] {
        let image = image(closed);
        for name in files(&image) {
            let len = image.disk.read_file(&path(&name)).len();
            let step = (len / 40).max(1);
            let near_end = len.saturating_sub(9)..len;
            for at in (0..len).step_by(step).chain(0..len.min(33)).chain(near_end) {
                let what = format!("cut to {at} bytes");
                damage(&image, &tally, &name, &what, |bytes| bytes.truncate(at));
                cuts += 1;
            }
        }
    }
    tally.print("truncations");
    println!("{cuts} truncations");
}

#[test]
fn pages_zeroed_and_swapped() {
    let tally = Tally::default();
    let mut changes = 0;
    for closed in [true, false] {
        let image = image(closed);
        for name in files(&image) {
            let bytes = image.disk.read_file(&path(&name));
            let used = bytes.iter().rposition(|&byte| byte != 0).unwrap_or(0);
            for page_bytes in [512, 4096] {
                let pages = used / page_bytes + 1;
                let step = pages / 24 + 1;
                for page in (0..pages).step_by(step) {
                    let start = page * page_bytes;
                    let end = (start + page_bytes).min(bytes.len());
                    let what = format!("{page_bytes}-byte page {page} zeroed");
                    damage(&image, &tally, &name, &what, |bytes| {
                        bytes[start..end].fill(0)
                    });
                    let other = (page + 1) % pages * page_bytes;
                    if other + page_bytes <= bytes.len() && end - start == page_bytes {
                        let what = format!("{page_bytes}-byte page {page} swapped with the next");
                        damage(&image, &tally, &name, &what, |bytes| {
                            for index in 0..page_bytes {
                                bytes.swap(start + index, other + index);
                            }
                        });
                    }
                    changes += 2;
                }
            }
        }
    }
    tally.print("pages");
    println!("{changes} pages zeroed or swapped");
}

#[test]
fn missing_and_exchanged_files() {
    for closed in [true, false] {
        let image = image(closed);
        let mut names = files(&image);
        // An orphan is not needed by anything.
        let orphans = &image.sound.findings;
        names.retain(|name| orphans.iter().all(|orphan| orphan.file != *name));
        for name in &names {
            let machine = image.disk.fork_state();
            machine.remove_file(&path(name));
            let what = format!("{} {name} missing", image.name);
            let report = verified(&machine);
            let mut files = report.findings.iter().map(|finding| &finding.file);
            assert!(!report.is_sound(), "{what}: verify missed it");
            assert!(
                files.any(|file| file == name),
                "{what}: {:#?}",
                report.findings
            );
            let told = judge_missing(&machine, &image, name, &what);
            assert!(told, "{what}: nobody noticed");
        }
        let tables: Vec<_> = names.iter().filter(|name| name.ends_with(".sst")).collect();
        for pair in tables.windows(2) {
            let machine = image.disk.fork_state();
            let (a, b) = (path(pair[0]), path(pair[1]));
            let (first, second) = (machine.read_file(&a), machine.read_file(&b));
            machine.write_file(&a, second);
            machine.write_file(&b, first);
            let what = format!("{} {} and {} exchanged", image.name, pair[0], pair[1]);
            let report = verified(&machine);
            for name in pair {
                let mut findings = report.findings.iter();
                assert!(findings.any(|finding| finding.file == **name), "{what}");
            }
            assert!(judge(&machine, &image, &what), "{what}: nobody noticed");
        }
    }
}

#[test]
fn damage_to_what_holds_nothing() {
    for closed in [true, false] {
        let image = image(closed);
        for name in WITHOUT_MEANING {
            for change in ["missing", "empty", "another"] {
                let machine = image.disk.fork_state();
                match change {
                    "missing" => machine.remove_file(&path(name)),
                    "empty" => machine.write_file(&path(name), Vec::new()),
                    _ => machine.write_file(&path(name), vec![0xA5; 100_001]),
                }
                let what = format!("{} {name} {change}", image.name);
                let mut report = verified(&machine);
                report.findings.retain(|f| f.kind != FindingKind::Lock);
                let (found, sound) = (report.findings.len(), image.sound.findings.len());
                assert_eq!(found, sound, "{what}: {:#?}", report.findings);
                assert!(!judge(&machine, &image, &what), "{what}: it told");
            }
        }
    }
}

/// A missing `CURRENT` must not be taken for an empty directory.
fn judge_missing(machine: &SimVfs, image: &Image, name: &str, what: &str) -> bool {
    if name == "CURRENT" {
        let Err(error) = on_sim(machine, LEVEL, 0).open(DIR) else {
            panic!("{what}: a new database was made over the old one");
        };
        check_error(&error, what);
        return true;
    }
    judge(machine, image, what)
}

#[test]
fn foreign_files_are_left_alone() {
    let image = image(true);
    let foreign = [
        "README.txt",
        "a.sst",
        "MANIFEST-x",
        "0123456789abcdeg.val",
        "core",
    ];
    for name in foreign {
        image.disk.write_file(&path(name), b"not ours".to_vec());
    }
    assert!(!judge(&image.disk, &image, "with foreign files"));
    for name in foreign {
        assert_eq!(image.disk.read_file(&path(name)), b"not ours");
    }
}

#[test]
fn one_bad_table_leaves_the_other_chunks_alone() {
    let _chunks = is_about_chunks();
    let vfs = SimVfs::new(2);
    let db = on_sim(&vfs, LEVEL, 0).open(DIR).expect("opens");
    let key = |number: u32| format!("key{number:05}");
    let count = 3000;
    for number in 0..count {
        // Not in order, so that the tables are written by rebalances.
        let number = (number * 7919) % count;
        db.put(key(number), format!("value {number}"))
            .expect("puts");
    }
    db.settle_debt().expect("settles");
    let chunks = db.stats().chunks;
    db.close().expect("closes");
    assert!(chunks >= 16, "{chunks} chunks");
    let mut names = vfs.file_names(&PathBuf::from(DIR));
    names.retain(|name| name.ends_with(".sst"));
    let victim = path(&names[names.len() / 2]);
    let mut bytes = vfs.read_file(&victim);
    for byte in bytes.iter_mut().step_by(64) {
        *byte ^= 0x10;
    }
    vfs.write_file(&victim, bytes);
    let report = verified(&vfs);
    let mut corrupt = report.findings.iter();
    assert!(
        corrupt.any(|finding| finding.kind == FindingKind::Table && !finding.chunks.is_empty())
    );
    let victim_name = victim.file_name().and_then(|name| name.to_str());
    for finding in &report.findings {
        let names_it = Some(&*finding.file) == victim_name;
        assert!(names_it || finding.kind == FindingKind::Orphan, "{finding}");
    }
    let db = on_sim(&vfs, LEVEL, 0).open(DIR).expect("opens");
    let bad: Vec<u32> = (0..count)
        .filter(|&number| match db.get(key(number)) {
            Ok(value) => {
                let value = value.expect("it was put");
                assert_eq!(&*value, format!("value {number}").as_bytes());
                false
            }
            Err(error) => {
                assert!(is_typed(&error), "{error:?}");
                true
            }
        })
        .collect();
    assert!(
        !bad.is_empty() && bad.len() < count as usize / 8,
        "{} bad",
        bad.len()
    );
    let (first, last) = (bad[0], bad[bad.len() - 1]);
    // Around the damage everything is well; a scan across it stops with an error.
    assert_eq!(
        db.range(..key(first)).map_while(Result::ok).count() as u32,
        first
    );
    let after = db.range(key(last + 1)..).map_while(Result::ok).count() as u32;
    assert_eq!(after, count - last - 1);
    let mut scan = db.iter();
    let mut good = 0;
    let error = loop {
        match scan.next().expect("it does not end before the damage") {
            Ok(_) => good += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(good, first, "a gap, or an early end");
    assert!(is_typed(&error), "{error:?}");
    assert!(scan.next().is_none(), "an error is given once");
    // Writes continue everywhere, over the damaged keys too.
    for number in 0..count {
        db.put(key(number), "new").expect("puts");
    }
    let outcome = db.settle_debt();
    assert!(outcome.is_ok() || outcome.is_err_and(|error| is_typed(&error)));
    for number in 0..count {
        let value = db.get(key(number)).expect("the new value hides the damage");
        assert_eq!(value.as_deref(), Some(&b"new"[..]));
    }
}
