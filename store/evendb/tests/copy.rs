//! `Db::copy_to(dir)`: copies made while writers continue, by links and without, on disks that
//! fail, fill up, or stop in the middle.

mod common;

use common::oracle::{Map, contents};
use common::skipped::skipped;
use common::workload::{self, Runner, steps};
use common::{DIR, LEVELS, count_from_env, has_chunks, on_sim, scramble, tiny};
use evendb::vfs::{CrashMode, Fault, FaultKind, FaultOn, SimEventKind, SimVfs};
use evendb::{Backups, Db, Durability, Error, ErrorKind};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const COPY: &str = "/elsewhere/copy";

type Contents = BTreeMap<String, Map>;

fn everything(db: &Db) -> evendb::Result<Contents> {
    db.keyspace_names()
        .into_iter()
        .map(|name| Ok((name.clone(), contents(db, &name)?)))
        .collect()
}

fn open(vfs: &SimVfs, dir: &str, read_only: bool) -> evendb::Result<Db> {
    on_sim(vfs, Durability::Process, 0)
        .read_only(read_only)
        .create_if_missing(false)
        .open(dir)
}

/// A database with tables, runs, and records that are in the commit log only.
fn filled(vfs: &SimVfs, level: Durability, seed: u64) -> Runner {
    workload::filled(vfs, level, seed, (120, 60))
}

fn table_names(vfs: &SimVfs, dir: &str) -> Vec<String> {
    let mut names = vfs.file_names(Path::new(dir));
    names.retain(|name| name.ends_with(".sst"));
    names
}

#[test]
fn a_copy_is_the_same_and_goes_its_own_way() {
    for level in LEVELS {
        for links in [true, false] {
            let vfs = SimVfs::new(1);
            vfs.allow_links(links);
            let runner = filled(&vfs, level, 5);
            let db = runner.db();
            let then = everything(db).expect("reads");
            let summary = db.copy_to(COPY).expect("copies");
            assert!(summary.runs_copied > 0 || !has_chunks(), "{summary:?}");
            assert!(summary.bytes_copied > 0, "{summary:?}");
            assert_eq!(summary.tables_linked > 0, links, "{summary:?}");
            assert_eq!(summary.tables_copied == 0, links, "{summary:?}");
            assert_eq!(summary.bytes_linked > 0, links);
            let files = vfs.file_names(Path::new(COPY));
            assert!(!files.contains(&"COMMIT-LOG".to_owned()), "{files:?}");
            assert!(!files.contains(&"UNFINISHED-COPY".to_owned()), "{files:?}");
            let tables = table_names(&vfs, COPY);
            assert_eq!(
                tables.len() as u64,
                summary.tables_linked + summary.tables_copied
            );

            // Several readers at once; meanwhile no process may write.
            let reader = open(&vfs, COPY, true).expect("opens for reading");
            let second = open(&vfs, COPY, true).expect("opens beside a reader");
            assert_eq!(everything(&reader).expect("reads"), then);
            assert_eq!(everything(&second).expect("reads"), then);
            let refused = open(&vfs, COPY, false).expect_err("readers are there");
            assert_eq!(refused.kind(), ErrorKind::Locked);
            drop((reader, second));

            let shared: Vec<(String, Vec<u8>)> = tables
                .into_iter()
                .map(|name| (name.clone(), vfs.read_file(&Path::new(COPY).join(&name))))
                .collect();
            let copy = on_sim(&vfs, level, 0).open(COPY).expect("opens");
            assert_eq!(everything(&copy).expect("reads"), then);
            // The source changes everything and drops its tables; the copy holds them.
            for number in 0..400 {
                db.put(format!("k{:03}", number % 70), vec![9; 60])
                    .expect("puts");
            }
            db.settle_debt().expect("settles");
            assert_eq!(everything(&copy).expect("reads"), then);
            for (name, bytes) in &shared {
                let now = vfs.read_file(&Path::new(COPY).join(name));
                assert!(now == *bytes, "{name} was written to");
            }
            // The copy changes, and the source stays the same.
            let source_now = everything(db).expect("reads");
            for number in 0..400 {
                copy.put(format!("k{:03}", number % 70), vec![4; 50])
                    .expect("puts");
            }
            copy.delete_prefix("k00").expect("deletes");
            copy.settle_debt().expect("settles");
            let copy_now = everything(&copy).expect("reads");
            assert_ne!(copy_now, source_now);
            assert_eq!(everything(db).expect("reads"), source_now);
            // After a power loss both hold what their levels promise; after closing, they hold
            // everything.
            copy.close().expect("closes");
            db.persist().expect("persists");
            let vfs = vfs.crash(CrashMode::PowerLossNothing);
            let copy = on_sim(&vfs, level, 0).open(COPY).expect("opens");
            assert_eq!(everything(&copy).expect("reads"), copy_now);
            let source = on_sim(&vfs, level, 0).open(DIR).expect("opens");
            assert_eq!(everything(&source).expect("reads"), source_now);
            // A copy of a copy; the first copy can go.
            copy.copy_to("/third").expect("copies");
            copy.close().expect("closes");
            for name in vfs.file_names(Path::new(COPY)) {
                vfs.remove_file(&Path::new(COPY).join(name));
            }
            let third = open(&vfs, "/third", false).expect("opens");
            assert_eq!(everything(&third).expect("reads"), copy_now);
        }
    }
}

#[test]
fn an_empty_database_has_a_copy_too() {
    let vfs = SimVfs::new(1);
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    let summary = db.copy_to(COPY).expect("copies");
    assert_eq!((summary.bytes_copied, summary.bytes_linked), (0, 0));
    let copy = open(&vfs, COPY, false).expect("opens");
    copy.put("a", "b").expect("puts");
    assert_eq!(db.get("a").expect("gets"), None);
}

#[test]
fn targets_that_are_refused() {
    let vfs = SimVfs::new(1);
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    db.put("a", "b").expect("puts");
    let kind = |dir: &str| db.copy_to(dir).err().map(|error| error.kind());
    assert_eq!(kind(DIR), Some(ErrorKind::AlreadyExists));
    db.copy_to(COPY).expect("copies");
    let before = vfs.file_names(Path::new(COPY));
    assert_eq!(kind(COPY), Some(ErrorKind::AlreadyExists));
    assert_eq!(vfs.file_names(Path::new(COPY)), before);
    let reader = open(&vfs, COPY, true).expect("opens");
    let refused = reader.copy_to("/other").expect_err("a reader");
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);

    let real = tempfile::tempdir().expect("a directory");
    let db = tiny(Durability::Process, 1)
        .open(real.path().join("db"))
        .expect("opens");
    let file = real.path().join("file");
    std::fs::write(&file, "mine").expect("writes");
    let error = db.copy_to(&file).expect_err("a file");
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error:?}");
    let foreign = real.path().join("foreign");
    std::fs::create_dir(&foreign).expect("creates");
    std::fs::write(foreign.join("x"), "mine").expect("writes");
    let error = db.copy_to(&foreign).expect_err("not empty");
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error:?}");
    assert!(error.to_string().contains("not empty"), "{error}");
    assert_eq!(std::fs::read(foreign.join("x")).expect("reads"), b"mine");
    std::fs::remove_file(foreign.join("x")).expect("removes");
    db.copy_to(&foreign).expect("an empty directory will do");
    db.close().expect("closes");
    let closed = tiny(Durability::Process, 1).open(&foreign).expect("opens");
    let other = closed.clone();
    closed.close().expect("closes");
    let error = other.copy_to(real.path().join("x")).expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::Closed);
}

/// The number of operations before and after a copy is made.
fn window(level: Durability, seed: u64, links: bool) -> (u64, u64) {
    let vfs = SimVfs::new(seed);
    vfs.allow_links(links);
    let runner = filled(&vfs, level, seed);
    let before = vfs.op_count();
    runner.db().copy_to(COPY).expect("copies");
    (before, vfs.op_count())
}

fn modes(number: u64) -> [CrashMode; 6] {
    [
        CrashMode::Process,
        CrashMode::PowerLossNothing,
        CrashMode::PowerLossAll,
        CrashMode::PowerLossRandom(number),
        CrashMode::PowerLossRandom(scramble(number)),
        CrashMode::PowerLossRandom(scramble(number + 1)),
    ]
}

/// The target is the whole copy, or nothing that opens.
fn check_target(vfs: &SimVfs, then: &Contents, place: &str) -> bool {
    for read_only in [true, false] {
        let machine = vfs.fork_state();
        machine.set_capacity(u64::MAX);
        match open(&machine, COPY, read_only) {
            Ok(copy) => assert!(
                everything(&copy).expect("reads") == *then,
                "{place}: a wrong database at the target"
            ),
            Err(error) => {
                let expected = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corruption);
                assert!(expected, "{place}: {error:?}");
                // It does not count as a place for a new database either, once any file of the copy
                // is there.
                let files = machine.file_names(Path::new(COPY));
                if files.iter().any(|name| name != "LOCK") {
                    let outcome = on_sim(&machine, Durability::Process, 0).open(COPY);
                    assert!(outcome.is_err(), "{place}: created over {files:?}");
                }
                return false;
            }
        }
    }
    true
}

#[test]
fn a_crash_at_every_step_of_a_copy() {
    let mut states = 0;
    let mut whole = 0;
    for (index, level) in LEVELS.into_iter().enumerate() {
        for links in [true, false] {
            let seed = 10 + index as u64;
            let (before, after) = window(level, seed, links);
            for at in before..=after {
                let vfs = SimVfs::new(seed);
                vfs.allow_links(links);
                let mut runner = filled(&vfs, level, seed);
                let then = everything(runner.db()).expect("reads");
                vfs.set_crash_at(at);
                let outcome = runner.db().copy_to(COPY);
                // If the call has succeeded, the copy is there, whatever follows.
                drop(vfs.crash(CrashMode::Process));
                runner.abandon();
                for mode in modes(at) {
                    let place = format!("{level:?} links {links} operation {at} {mode:?}");
                    let machine = vfs.crash(mode);
                    let complete = check_target(&machine, &then, &place);
                    assert!(complete || outcome.is_err(), "{place}: it had returned");
                    whole += u64::from(complete);
                    let mut next = Runner::resume(&machine, level, runner.oracle.clone());
                    let end = match mode {
                        CrashMode::Process => common::oracle::End::Process,
                        _ => common::oracle::End::Power,
                    };
                    next.recover(end)
                        .unwrap_or_else(|what| panic!("{place}: {what}"));
                    states += 1;
                }
            }
        }
    }
    assert!(whole > 0);
    println!("{states} states after crashes in a copy, {whole} of them with a whole copy");
}

fn expect_no_target(vfs: &SimVfs, place: &str) {
    let left = vfs.file_names(Path::new(COPY));
    assert!(left.is_empty(), "{place}: {left:?} is left at the target");
    let parent = Path::new("/elsewhere");
    assert!(
        vfs.file_names(parent).is_empty(),
        "{place}: an empty target"
    );
}

#[test]
fn failures_at_every_step_of_a_copy() {
    let mut failures = 0;
    for kind in [FaultKind::Eio, FaultKind::NoSpace, FaultKind::ShortWrite] {
        for links in [true, false] {
            for at in 0.. {
                let vfs = SimVfs::new(3);
                vfs.allow_links(links);
                let mut runner = filled(&vfs, Durability::Process, 3);
                let then = everything(runner.db()).expect("reads");
                let place = format!("{kind:?} links {links} operation {at}");
                vfs.inject(Fault {
                    at,
                    on: FaultOn::Change,
                    kind,
                    sticky: false,
                    path_contains: Some("/elsewhere".into()),
                });
                vfs.trace(true);
                let outcome = runner.db().copy_to(COPY);
                let touched = vfs.take_trace();
                vfs.clear_faults();
                match &outcome {
                    Err(error) => {
                        let expected = match kind {
                            FaultKind::NoSpace => ErrorKind::NoSpace,
                            _ => ErrorKind::Io,
                        };
                        // The outcome is unknown if the name's last sync fails.
                        let odd = error.kind() == ErrorKind::Io;
                        assert!(error.kind() == expected || odd, "{place}: {error:?}");
                        assert!(error.to_string().contains("/elsewhere"), "{place}: {error}");
                        expect_no_target(&vfs, &place);
                        failures += 1;
                    }
                    // A failed link is no error, and neither is a failed removal of the mark.
                    Ok(_) => assert!(check_target(&vfs, &then, &place)),
                }
                // The source never noticed.
                assert_eq!(everything(runner.db()).expect("reads"), then, "{place}");
                for step in steps(at, 10) {
                    runner.step(&step).expect("the source goes on");
                }
                runner.abandon();
                let seen = |kind| touched.iter().any(|event| event.kind == kind);
                if outcome.is_ok() && seen(SimEventKind::Rename) && at > 40 {
                    break;
                }
            }
        }
    }
    println!("{failures} failed copies");
}

#[test]
fn a_full_disk_at_every_size_of_a_copy() {
    for links in [true, false] {
        let (used, needed) = {
            let vfs = SimVfs::new(4);
            vfs.allow_links(links);
            let runner = filled(&vfs, Durability::Process, 4);
            // No room is left that the copy could give back to the disk while it runs.
            runner.db().settle_debt().expect("settles");
            let used = vfs.used_bytes();
            runner.db().copy_to(COPY).expect("copies");
            (used, vfs.used_bytes())
        };
        let grows = needed.saturating_sub(used);
        let mut refused = 0;
        for room in (0..grows + 8192).step_by(4096) {
            let vfs = SimVfs::new(4);
            vfs.allow_links(links);
            let mut runner = filled(&vfs, Durability::Process, 4);
            runner.db().settle_debt().expect("settles");
            let then = everything(runner.db()).expect("reads");
            // Based on the bytes that are there now: the bytes that background work has written
            // differ from one filling to the next.
            let capacity = vfs.used_bytes() + room;
            let place = format!("links {links}, room for {room} of {grows} bytes");
            vfs.set_capacity(capacity);
            match runner.db().copy_to(COPY) {
                Ok(_) => assert!(check_target(&vfs, &then, &place)),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NoSpace, "{place}: {error:?}");
                    expect_no_target(&vfs, &place);
                    refused += 1;
                }
            }
            assert_eq!(everything(runner.db()).expect("reads"), then, "{place}");
            vfs.set_capacity(u64::MAX);
            for step in steps(capacity, 20) {
                runner.step(&step).expect("the source goes on");
            }
            runner.abandon();
        }
        assert!(refused > 0);
        println!("links {links}: {refused} sizes too small");
    }
}

/// A value file is as long as the bytes written into it, even if values had taken room that could
/// not be written then.
#[test]
fn copies_and_backups_after_a_value_that_was_not_written() {
    for links in [true, false] {
        for kind in [FaultKind::NoSpace, FaultKind::ShortWrite] {
            for goes_on in [false, true] {
                let place = format!("links {links}, {kind:?}, goes on {goes_on}");
                let vfs = SimVfs::new(9);
                vfs.allow_links(links);
                let options = on_sim(&vfs, Durability::Process, 0)
                    .advanced(|advanced| advanced.values_apart_from(Some(100)));
                let db = options.open(DIR).expect("opens");
                db.put("a", [1; 300]).expect("puts");
                vfs.inject(Fault {
                    at: 0,
                    on: FaultOn::Change,
                    kind,
                    sticky: true,
                    path_contains: Some(".values".into()),
                });
                assert!(db.put("b", [2; 5000]).is_err(), "{place}");
                vfs.clear_faults();
                if goes_on {
                    db.put("c", [3; 300]).expect("puts");
                }
                let then = everything(&db).expect("reads");
                db.copy_to(COPY).expect("copies");
                assert!(check_target(&vfs, &then, &place));
                for _ in 0..2 {
                    db.backup("/backups").expect("backs up");
                }
                let backups = Backups::at("/backups").vfs(Arc::new(vfs.clone()));
                backups.restore(None, "/restored").expect("restores");
                let restored = open(&vfs, "/restored", false).expect("opens");
                assert_eq!(everything(&restored).expect("reads"), then, "{place}");
            }
        }
    }
}

/// The value of write `number`; its length differs from those of its neighbours.
fn value_of(number: u64) -> Vec<u8> {
    let mut value = format!("{number:08}").into_bytes();
    value.resize(8 + (number % 60) as usize, number as u8);
    value
}

const SLOTS: u64 = 150;

/// Every write is a batch: the next slot, and the counter in another keyspace.
fn write(db: &Db, writer: u64, stop: &AtomicBool, acknowledged: &AtomicU64) -> Result<(), Error> {
    let counters = db.keyspace("counters")?;
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let mut batch = db.batch();
        let key = format!("w{writer}/{:04}", number * 7 % SLOTS);
        batch.put(db.default_keyspace(), key, value_of(number));
        batch.put(&counters, format!("w{writer}"), value_of(number));
        if number % 13 == 0 {
            batch.durability(Durability::Process);
        }
        batch.commit()?;
        acknowledged.store(number + 1, Ordering::SeqCst);
    }
    Ok(())
}

/// The number of the writer's writes in the database; all are whole.
fn writes_in(db: &Db, writer: u64) -> u64 {
    let counters = db.keyspace("counters").expect("exists");
    let last = counters.get(format!("w{writer}")).expect("gets");
    let count = last.map_or(0, |value| {
        let text = String::from_utf8(value[..8].to_vec()).expect("digits");
        text.parse::<u64>().expect("a number") + 1
    });
    let mut slots = BTreeMap::new();
    for number in count.saturating_sub(SLOTS)..count {
        let key = format!("w{writer}/{:04}", number * 7 % SLOTS);
        slots.insert(key.into_bytes(), value_of(number));
    }
    let found: Map = db
        .prefix(format!("w{writer}/"))
        .map(|item| item.map(|(key, value)| (key.to_vec(), value.to_vec())))
        .collect::<Result<_, _>>()
        .expect("reads");
    assert!(found == slots, "writer {writer} is not at write {count}");
    count
}

fn copies_beside_writers(level: Durability, open: &dyn Fn(&Path) -> Db, dir: &Path) {
    const WRITERS: u64 = 3;
    let db = open(&dir.join("db"));
    let stop = AtomicBool::new(false);
    let acknowledged = [const { AtomicU64::new(0) }; WRITERS as usize];
    let rounds = count_from_env("EVENDB_COPIES", 12);
    let mut linked = 0;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (db, stop, acknowledged) = (&db, &stop, &acknowledged[writer as usize]);
            scope.spawn(move || write(db, writer, stop, acknowledged).expect("writes"));
        }
        let mut previous = [0; WRITERS as usize];
        for round in 0..rounds {
            let wanted = (round + 1) * 300;
            while acknowledged[0].load(Ordering::SeqCst) < wanted {
                std::thread::yield_now();
            }
            let before = [0, 1, 2].map(|writer: usize| acknowledged[writer].load(Ordering::SeqCst));
            let target = dir.join(format!("copy {round}"));
            let summary = db.copy_to(&target).expect("copies");
            linked += summary.tables_linked;
            let after = [0, 1, 2].map(|writer: usize| acknowledged[writer].load(Ordering::SeqCst));
            let copy = open(&target);
            for writer in 0..WRITERS as usize {
                let count = writes_in(&copy, writer as u64);
                assert!(count >= before[writer], "{level:?} round {round}: lost");
                assert!(count <= after[writer] + 1, "{level:?} round {round}: early");
                assert!(count >= previous[writer]);
                previous[writer] = count;
            }
            copy.put("only here", "x").expect("puts");
            copy.close().expect("closes");
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(linked > 0, "no table was ever linked");
    for writer in 0..WRITERS {
        let count = acknowledged[writer as usize].load(Ordering::SeqCst);
        assert_eq!(writes_in(&db, writer), count);
    }
    assert!(!db.contains_key("only here").expect("gets"));
    db.close().expect("closes");
    // The copies outlive the source.
    let last = open(&dir.join(format!("copy {}", rounds - 1)));
    assert!(last.contains_key("only here").expect("gets"));
}

#[test]
fn copies_beside_writers_of_simulated_files() {
    for level in LEVELS {
        let vfs = SimVfs::new(7);
        let open = |dir: &Path| on_sim(&vfs, level, 1).open(dir).expect("opens");
        copies_beside_writers(level, &open, Path::new("/"));
    }
}

#[test]
fn copies_beside_writers_of_real_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let open = |dir: &Path| tiny(Durability::Process, 1).open(dir).expect("opens");
    copies_beside_writers(Durability::Process, &open, dir.path());
}

/// A directory on another file system than this one, if one can be had.
fn elsewhere(than: &Path) -> Option<tempfile::TempDir> {
    use std::os::unix::fs::MetadataExt;
    let device = |dir: &Path| std::fs::metadata(dir).map(|meta| meta.dev()).ok();
    let own = format!("/run/user/{}", rustix::process::getuid().as_raw());
    let places = [
        "/dev/shm",
        &own,
        "/run",
        "/tmp",
        "/var/tmp",
        env!("CARGO_TARGET_TMPDIR"),
    ];
    let mut made = places
        .iter()
        .filter_map(|place| tempfile::tempdir_in(place).ok());
    made.find(|made| device(made.path()) != device(than))
}

/// Between two file systems no link is possible.
#[test]
fn a_copy_on_another_file_system() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(other) = elsewhere(dir.path()) else {
        let why = "there is one file system for the usual temporary directories";
        return skipped("a_copy_on_another_file_system", why);
    };
    let db = tiny(Durability::Process, 0)
        .open(dir.path())
        .expect("opens");
    // Not in order: records in order would be written once, to the container.
    for number in (0..2_000).map(|number| number * 7_919 % 2_000) {
        db.put(format!("{number:05}"), vec![1; 60]).expect("puts");
    }
    db.settle_debt().expect("settles");
    for number in 0..100 {
        db.put(format!("{number:05}"), vec![2; 60]).expect("puts");
    }
    let target = other.path().join("copy");
    let summary = db.copy_to(&target).expect("copies");
    assert!(summary.tables_copied > 0);
    assert_eq!(summary.tables_linked, 0);
    let then = everything(&db).expect("reads");
    db.close().expect("closes");
    drop(dir);
    let copy = tiny(Durability::Process, 0).open(target).expect("opens");
    assert_eq!(everything(&copy).expect("reads"), then);
}

/// A copy does not hold files that it no longer needs: files that the source drops meanwhile go
/// afterwards.
#[test]
fn a_copy_gives_the_source_its_space_back() {
    let vfs = SimVfs::new(9);
    let db = Arc::new(
        on_sim(&vfs, Durability::Process, 0)
            .open(DIR)
            .expect("opens"),
    );
    for number in (0..3_000).map(|number| number * 7_919 % 3_000) {
        db.put(format!("{number:05}"), vec![1; 60]).expect("puts");
    }
    db.settle_debt().expect("settles");
    db.copy_to(COPY).expect("copies");
    for name in vfs.file_names(Path::new(COPY)) {
        vfs.remove_file(&Path::new(COPY).join(name));
    }
    let before = table_names(&vfs, DIR);
    for round in 2..4 {
        for number in (0..3_000).map(|number| number * 7_919 % 3_000) {
            db.put(format!("{number:05}"), vec![round; 60])
                .expect("puts");
        }
        db.settle_debt().expect("settles");
    }
    let after = table_names(&vfs, DIR);
    let left = before.iter().filter(|name| after.contains(name)).count();
    assert!(
        left * 2 < before.len(),
        "{left} of {} are left",
        before.len()
    );
}
