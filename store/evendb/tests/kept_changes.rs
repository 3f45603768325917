//! Changes that are kept beyond the commit log: everything comes, over checkpoints, laps and lives;
//! the oldest go; damage and a full disk cost only kept changes.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which may end at the first surprise"
)]

mod common;

use common::{DIR, on_sim, scramble, tiny};
use evendb::vfs::{SimVfs, Vfs};
use evendb::{Changes, Db, Durability, ErrorKind, Options, inspect};
use std::path::Path;

type Writes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

const KEEP: u64 = 64 << 10;

fn keeping(options: Options, bytes: u64) -> Options {
    options.advanced(|advanced| advanced.keep_changes_bytes(bytes))
}

fn drain(feed: &mut Changes) -> evendb::Result<Vec<Writes>> {
    let of = |change: evendb::Change| {
        let writes = change.writes();
        let owned = writes.map(|write| (write.key.to_vec(), write.value.map(<[u8]>::to_vec)));
        owned.collect()
    };
    feed.map(|change| change.map(of)).collect()
}

fn write_some(db: &Db, seed: u64) -> Writes {
    let dice = scramble(seed);
    let len = match dice % 60 {
        0 => 9_000,
        1..6 => 900,
        _ => dice as usize % 70,
    };
    let value = format!("{seed}.{}", "v".repeat(len)).into_bytes();
    let key = |index: u64| format!("k{:02}", (dice / 3 + index) % 70).into_bytes();
    if dice.is_multiple_of(4) {
        db.delete(key(0)).unwrap();
        return vec![(key(0), None)];
    }
    let mut batch = db.batch();
    let mut writes = vec![(key(0), Some(value)), (key(1), None)];
    for (key, value) in &writes {
        match value {
            Some(value) => batch.put(db.default_keyspace(), key, value),
            None => batch.delete(db.default_keyspace(), key),
        };
    }
    batch.commit().unwrap();
    writes.sort();
    writes
}

/// Panics with the first difference, and no others.
fn assert_same(found: &[Writes], expected: &[Writes], what: &str) {
    let differ = found.iter().zip(expected).position(|(a, b)| a != b);
    assert!(
        differ.is_none() && found.len() == expected.len(),
        "{what}: {} of {}, and they differ from {differ:?} on",
        found.len(),
        expected.len()
    );
}

fn names(vfs: &SimVfs) -> Vec<String> {
    let names = vfs.list(Path::new(DIR)).unwrap();
    let names = names.into_iter().map(|name| name.into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("CHANGES-")).collect();
    names.sort();
    names
}

#[test]
fn everything_comes_over_laps_and_lives() {
    for (level, mapped) in [
        (Durability::Process, true),
        (Durability::Process, false),
        (Durability::Sync, false),
        (Durability::Sync, true),
    ] {
        let vfs = SimVfs::new(1);
        let open = || {
            let options = on_sim(&vfs, level, 0).advanced(|a| a.commit_log_mapped(mapped));
            keeping(options, 8 << 20).open(DIR).unwrap()
        };
        let mut db = open();
        let start = db.position().unwrap();
        let mut written = Vec::new();
        // More lives than the number of seeds that the manifest keeps.
        for life in 0..90_u64 {
            for number in 0..scramble(life) % 40 {
                written.push(write_some(&db, life * 100 + number));
            }
            if life % 11 == 3 {
                db.flush().unwrap();
            }
            if life % 15 == 7 {
                let mut feed = db.changes_since(&start).unwrap();
                assert_same(
                    &drain(&mut feed).unwrap(),
                    &written,
                    &format!("{level:?} life {life}"),
                );
            }
            match life % 3 {
                0 => drop(db),
                _ => db.close().unwrap(),
            }
            db = open();
        }
        let mut feed = db.changes_since(&start).unwrap();
        let drained = drain(&mut feed).unwrap();
        assert!(
            drained == written,
            "{level:?}: {} of {}",
            drained.len(),
            written.len()
        );
        let oldest = db.oldest_position().unwrap();
        assert!(drain(&mut db.changes_since(&oldest).unwrap()).unwrap() == written);
        // Also from a database that is open only for reading.
        db.close().unwrap();
        let reader = Options::new()
            .read_only(true)
            .vfs(std::sync::Arc::new(vfs.clone()));
        let reader = reader.open(DIR).unwrap();
        let mut feed = reader.changes_since(&start).unwrap();
        assert!(drain(&mut feed).unwrap() == written);
    }
}

#[test]
fn the_oldest_go_and_what_is_left_has_no_gap() {
    let vfs = SimVfs::new(1);
    let open = || {
        keeping(on_sim(&vfs, Durability::Process, 0), KEEP)
            .open(DIR)
            .unwrap()
    };
    let mut db = open();
    let start = db.position().unwrap();
    let mut written = Vec::new();
    for seed in 0..6_000 {
        written.push(write_some(&db, seed));
        // Often enough that some lives begin where the ring goes round.
        if seed % 20 == 0 {
            db.close().unwrap();
            db = open();
            let oldest = db.oldest_position().unwrap();
            let left = drain(&mut db.changes_since(&oldest).unwrap()).unwrap();
            assert!(written.ends_with(&left), "from the oldest position on");
        }
        let of = |name: &String| vfs.open(&Path::new(DIR).join(name), false).unwrap().len();
        if seed % 97 == 0 {
            let bytes: u64 = names(&vfs).iter().map(|name| of(name).unwrap()).sum();
            // At most one file and one checkpoint more.
            assert!(bytes <= 3 * KEEP, "{bytes} bytes");
        }
    }
    let error = db.changes_since(&start).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChangesGone, "{error}");
    let oldest = db.oldest_position().unwrap();
    let left = drain(&mut db.changes_since(&oldest).unwrap()).unwrap();
    assert!(written.ends_with(&left));
    let bytes: usize = left
        .iter()
        .flatten()
        .map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len))
        .sum();
    assert!(bytes as u64 > KEEP / 2, "only {bytes} bytes are kept");
    // The option is removed, and the files with it.
    db.close().unwrap();
    assert!(!names(&vfs).is_empty());
    let db = on_sim(&vfs, Durability::Process, 0).open(DIR).unwrap();
    assert!(names(&vfs).is_empty());
    drop(db);
}

#[test]
fn damage_is_told_and_keeps_nothing_from_opening() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        keeping(tiny(Durability::Process, 0), KEEP)
            .open(dir.path())
            .unwrap()
    };
    let db = open();
    let start = db.position().unwrap();
    let writes: Vec<Writes> = (0..1_200).map(|seed| write_some(&db, seed)).collect();
    let oldest = db.oldest_position().unwrap();
    let left = drain(&mut db.changes_since(&oldest).unwrap()).unwrap();
    assert!(writes.ends_with(&left));
    let mut files: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("CHANGES-")
        })
        .collect();
    files.sort();
    for file in &files {
        let mut bytes = std::fs::read(file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x40;
        std::fs::write(file, &bytes).unwrap();
    }
    let error = drain(&mut db.changes_since(&oldest).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains("CHANGES-"), "{error}");
    db.put("goes on", "1").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let report = inspect::verify(dir.path(), inspect::InspectOptions::default()).unwrap();
    assert!(report.is_sound(), "{report:?}");
    let kinds = report.findings.iter().map(|finding| finding.kind);
    assert!(
        kinds
            .clone()
            .any(|kind| kind == inspect::FindingKind::KeptChanges)
    );
    let db = open();
    let before = db.position().unwrap();
    db.put("after", "1").unwrap();
    assert_eq!(
        drain(&mut db.changes_since(&before).unwrap())
            .unwrap()
            .len(),
        1
    );
    for position in [start, oldest] {
        let found = db
            .changes_since(&position)
            .and_then(|mut feed| drain(&mut feed));
        let kind = found.unwrap_err().kind();
        assert!(
            [ErrorKind::ChangesGone, ErrorKind::Corruption].contains(&kind),
            "{kind:?}"
        );
    }
}

/// If there is no room, kept changes go, and writes continue.
#[test]
fn a_full_disk_costs_what_is_kept() {
    let vfs = SimVfs::new(1);
    let db = keeping(on_sim(&vfs, Durability::Process, 0), 4 << 20)
        .open(DIR)
        .unwrap();
    for seed in 0..300 {
        write_some(&db, seed);
    }
    let error = (0..100_000_u64).find_map(|seed| {
        vfs.set_capacity(vfs.used_bytes() + 16_384 - seed.min(16_000));
        db.put(format!("k{}", seed % 50), vec![7; 300]).err()
    });
    if let Some(error) = error {
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    }
    vfs.set_capacity(u64::MAX);
    db.put("room", "again").unwrap();
    db.flush().unwrap();
    let position = db.position().unwrap();
    db.put("more", "1").unwrap();
    assert_eq!(
        drain(&mut db.changes_since(&position).unwrap())
            .unwrap()
            .len(),
        1
    );
}

/// `dump` prints every kept change, and `verify` checks the content of each.
#[test]
fn kept_changes_are_printed_and_verified() {
    use evendb_storage::framed_log::{
        FRAME_HEADER_BYTES, FrameCodec, FramedLogWriter, survey_frames,
    };
    let vfs = SimVfs::new(1);
    let db = keeping(on_sim(&vfs, Durability::Process, 0), 1 << 20)
        .open(DIR)
        .unwrap();
    let mut writes = 0;
    for seed in 0..400 {
        writes += write_some(&db, seed).len();
    }
    db.delete_range("k1".."k2").unwrap();
    db.flush().unwrap();
    let oldest = db.oldest_position().unwrap();
    let changes = drain(&mut db.changes_since(&oldest).unwrap()).unwrap();
    db.close().unwrap();
    assert!(changes.len() == 401 && !names(&vfs).is_empty());
    let files = || inspect::InspectOptions::new().vfs(std::sync::Arc::new(vfs.clone()));
    let dump = || {
        let mut items = Vec::new();
        let what = inspect::Dump::KeptChanges;
        inspect::dump(DIR, &what, &Default::default(), files(), &mut |item| {
            items.push(item);
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        items
    };
    let items = dump();
    let count = |kind: &str| items.iter().filter(|item| item.kind == kind).count();
    let of_laps = |item: &&inspect::DumpItem| {
        item.kind == "kept-change" && item.fields.iter().any(|(name, _)| *name == "note")
    };
    assert_eq!(
        count("kept-change") - items.iter().filter(of_laps).count(),
        401
    );
    assert_eq!(count("operation"), writes + 1);
    assert_eq!(count("begin"), names(&vfs).len());
    assert_eq!(count("damage"), 0);
    let findings = || {
        let report = inspect::verify(DIR, files()).unwrap();
        let mut found = report.findings;
        found.retain(|finding| finding.kind == inspect::FindingKind::KeptChanges);
        found
    };
    assert!(findings().is_empty());
    // A change that verifies but is in the wrong place: the last frame of the first file once more
    // in its middle.
    let name = &names(&vfs)[0];
    let path = Path::new(DIR).join(name);
    let (file, id) = (vfs.open(&path, false).unwrap(), name[8..].parse().unwrap());
    let mut frames: Vec<Vec<u8>> = Vec::new();
    let codec = FrameCodec::of(None, &path, id);
    survey_frames(&*file, &codec, &mut |found| {
        if let evendb_storage::framed_log::Surveyed::Frame { payload, .. } = found {
            frames.push(payload.to_vec());
        }
    })
    .unwrap();
    let write = |frames: &[Vec<u8>]| {
        vfs.remove_file(&path);
        let mut log = FramedLogWriter::create(vfs.create(&path).unwrap(), id).unwrap();
        for frame in frames {
            log.append(frame).unwrap();
        }
        log.sync().unwrap();
    };
    let last = frames.last().unwrap().clone();
    frames.insert(2, last);
    write(&frames);
    let found = findings();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].what.contains("makes no sense"), "{found:?}");
    // A frame that is no change at all is named by both.
    frames[2] = vec![77; FRAME_HEADER_BYTES];
    write(&frames);
    assert_eq!(findings().len(), 1);
    assert_eq!(
        dump().iter().filter(|item| item.kind == "damage").count(),
        1
    );
}
