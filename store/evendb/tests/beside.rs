//! Reading beside the process that writes: one moment, refreshed; what is replaced is told and
//! never misread; nothing is changed and no lock is touched; and a second process does all this,
//! and follows the changes, while the writer is killed. `beside_feed.rs` has the feed alone.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which may end at the first surprise"
)]
#![expect(clippy::disallowed_types, reason = "no model runs this")]

mod common;

use common::following::{LAYOUTS, on_sim, small};
use common::killing::{DIR_VARIABLE, say};
use common::{DIR, scramble};
use evendb::vfs::{BootId, File, LockGuard, LockHolder, OsVfs, SimVfs, Vfs};
use evendb::{Changes, Db, Durability, ErrorKind, Layout, Options, Position};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn contents(db: &Db) -> evendb::Result<Map> {
    let owned = |item: evendb::Result<(evendb::Value, evendb::Value)>| {
        item.map(|(key, value)| (key.to_vec(), value.to_vec()))
    };
    db.iter().map(owned).collect()
}

/// Overwrites many keys, and pays all debt: extents and files are replaced.
fn rewrite(db: &Db, round: u64) {
    for number in 0..200_u64 {
        let value = format!("{round}:{}", "v".repeat(scramble(number) as usize % 90));
        db.put(format!("k{:03}", number % 120), value).unwrap();
    }
    db.flush().unwrap();
    db.compact().unwrap();
}

/// D14: before a refresh everything is of the old moment, after it everything is of the new one;
/// cached rows and blocks are no exception.
#[test]
fn a_reader_sees_one_moment_and_refreshes() {
    for layout in LAYOUTS {
        for level in [Durability::Relaxed, Durability::Process, Durability::Sync] {
            let vfs = SimVfs::new(1);
            let options = || on_sim(&vfs, layout, level);
            let db = options().open(DIR).unwrap();
            db.put("a", "1").unwrap();
            db.put("b", "1").unwrap();
            db.close().unwrap();
            // On a closed database; then a writer starts.
            let reader = options().open_beside_writer(DIR).unwrap();
            let db = options().open(DIR).unwrap();
            let mut readers = vec![reader];
            for round in 1..6_u32 {
                let reader = readers.last().unwrap();
                let value = round.to_string();
                for _ in 0..3 {
                    assert_eq!(reader.get("a").unwrap().unwrap(), value.as_str());
                }
                assert_eq!(contents(reader).unwrap().len(), 1 + round as usize);
                let next = (round + 1).to_string();
                db.put("a", &next).unwrap();
                db.put(format!("c{round}"), &next).unwrap();
                // Not checkpointed: not seen, and a refresh changes nothing.
                let same = reader.refresh().unwrap();
                assert_eq!(same.get("a").unwrap().unwrap(), value.as_str());
                db.flush().unwrap();
                assert_eq!(reader.get("a").unwrap().unwrap(), value.as_str());
                assert!(reader.get(format!("c{round}")).unwrap().is_none());
                let newer = reader.refresh().unwrap();
                assert_eq!(newer.get("a").unwrap().unwrap(), next.as_str());
                assert_eq!(newer.get("b").unwrap().unwrap(), "1");
                readers.push(newer);
            }
            let error = readers[0].put("a", "x").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ReadOnly);
            assert_eq!(db.refresh().unwrap_err().kind(), ErrorKind::InvalidArgument);
            // A keyspace that was made, one that was dropped.
            db.keyspace("later").unwrap().put("k", "v").unwrap();
            db.flush().unwrap();
            let reader = readers[0].refresh().unwrap();
            let later = reader.keyspace("later").unwrap();
            assert_eq!(later.get("k").unwrap().unwrap(), "v");
            db.drop_keyspace("later").unwrap();
            assert!(!reader.refresh().unwrap().keyspace_exists("later"));
        }
    }
}

/// D1, D11: a reader asks the machine for no change, whatever it does and however it ends.
#[test]
fn a_reader_changes_nothing() {
    for layout in LAYOUTS {
        let vfs = SimVfs::new(1);
        let options = || on_sim(&vfs, layout, Durability::Process);
        let db = options().open(DIR).unwrap();
        rewrite(&db, 1);
        let position = db.position().unwrap();
        db.put("tail", "in the log").unwrap();
        let before = vfs.op_count();
        let files = vfs.file_names(Path::new(DIR));
        for end in 0..3 {
            let reader = options().workers(2).open_beside_writer(DIR).unwrap();
            assert_eq!(contents(&reader).unwrap().len(), 120);
            let mut feed = reader.changes_since(&position).unwrap();
            assert_eq!(feed.next().unwrap().unwrap().len(), 1);
            let newer = reader.refresh().unwrap();
            assert!(newer.snapshot().unwrap().position().is_ok());
            assert_eq!(reader.flush().unwrap_err().kind(), ErrorKind::ReadOnly);
            match end {
                0 => newer.close().unwrap(),
                1 => drop((reader, newer)),
                _ => {
                    let ended = std::thread::spawn(move || {
                        let _held = (reader, newer, feed);
                        std::panic::panic_any("a reader that panics");
                    });
                    ended.join().unwrap_err();
                }
            }
        }
        assert_eq!(vfs.op_count(), before);
        assert_eq!(vfs.file_names(Path::new(DIR)), files);
        rewrite(&db, 2);
        db.close().unwrap();
        assert!(options().open(DIR).is_ok());
    }
}

/// D5: while the writer replaces everything, a read gives what its moment had, or `Stale`.
#[test]
fn a_read_is_right_or_stale() {
    let (mut right, mut stale) = (0, 0);
    for layout in LAYOUTS {
        for seed in 0..6_u64 {
            let vfs = SimVfs::new(seed);
            let options = || {
                let options = on_sim(&vfs, layout, Durability::Process);
                options.advanced(|advanced| match seed % 2 {
                    0 => advanced.open_files_max(1),
                    _ => advanced.values_apart_from(Some(40)).value_file_bytes(4096),
                })
            };
            let db = options().open(DIR).unwrap();
            rewrite(&db, 0);
            let mut reader = options().open_beside_writer(DIR).unwrap();
            let mut moment = contents(&db).unwrap();
            for round in 1..12 {
                let mut scan = reader.iter();
                match scan.next().unwrap() {
                    Ok((key, value)) => assert_eq!(moment[&key.to_vec()], value.to_vec()),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Stale, "{error}"),
                }
                rewrite(&db, round);
                let mut is_stale = false;
                for number in 0..120 {
                    let key = format!("k{:03}", scramble(round ^ number) % 120);
                    match reader.get(&key) {
                        Ok(value) => {
                            let expected = moment.get(key.as_bytes());
                            assert_eq!(value.as_deref(), expected.map(|value| &value[..]));
                            right += 1;
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Stale, "{error}");
                            is_stale = true;
                            stale += 1;
                        }
                    }
                }
                for item in scan {
                    match item {
                        Ok((key, value)) => assert_eq!(moment[&key.to_vec()], value.to_vec()),
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Stale, "{error}");
                            is_stale = true;
                        }
                    }
                }
                if is_stale || round % 3 == 0 {
                    reader = reader.refresh().unwrap();
                    moment = contents(&db).unwrap();
                    assert_eq!(contents(&reader).unwrap(), moment);
                }
            }
        }
    }
    assert!(right > 500 && stale > 20, "{right} {stale}");
}

/// Bytes that the writer still names, and that do not verify, are damage, beside a writer too.
#[test]
fn damage_is_damage() {
    for layout in LAYOUTS {
        let vfs = SimVfs::new(1);
        let options = || on_sim(&vfs, layout, Durability::Process);
        let db = options().open(DIR).unwrap();
        rewrite(&db, 1);
        let reader = options().open_beside_writer(DIR).unwrap();
        for name in vfs.file_names(Path::new(DIR)) {
            if name.ends_with(".sst") || name == "CHUNK-LOGS" {
                let path = Path::new(DIR).join(&name);
                let damaged: Vec<u8> = vfs
                    .read_file(&path)
                    .iter()
                    .map(|byte| byte ^ 0x55)
                    .collect();
                let file = vfs.open(&path, true).unwrap();
                file.write_at(&damaged, 0).unwrap();
            }
        }
        // The writer goes on, with what does not touch these tables.
        db.keyspace("other").unwrap().put("k", "v").unwrap();
        let error = contents(&reader).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        // So is a manifest that stays as it is.
        let path = Path::new(DIR).join("CURRENT");
        vfs.write_file(&path, vec![7; 32]);
        let error = options().open_beside_writer(DIR).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        vfs.remove_file(&path);
        let error = options().open_beside_writer(DIR).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        // There is nothing left for it to close.
        std::mem::forget(db);
    }
    let empty = tempfile::tempdir().unwrap();
    let error = Options::new().open_beside_writer(empty.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0);
}

/// Files for a reader that stands still before it opens certain ones.
struct Pausing {
    inner: SimVfs,
    before: Box<dyn Fn(&Path) + Send + Sync>,
    /// It finds no container.
    hides: bool,
}

impl std::fmt::Debug for Pausing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pausing")
    }
}

impl Pausing {
    fn hidden(&self, path: &Path) -> bool {
        self.hides && path.ends_with("CHUNK-LOGS")
    }
}

impl Vfs for Pausing {
    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        panic!("a reader changes nothing")
    }
    fn create(&self, _: &Path) -> io::Result<Arc<dyn File>> {
        panic!("a reader changes nothing")
    }
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>> {
        assert!(!write && !path.ends_with("LOCK"), "{}", path.display());
        (self.before)(path);
        match self.hidden(path) {
            true => Err(io::ErrorKind::NotFound.into()),
            false => self.inner.open(path, write),
        }
    }
    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        panic!("a reader changes nothing")
    }
    fn hard_link(&self, _: &Path, _: &Path) -> io::Result<()> {
        panic!("a reader changes nothing")
    }
    fn remove(&self, _: &Path) -> io::Result<()> {
        panic!("a reader changes nothing")
    }
    fn remove_dir(&self, _: &Path) -> io::Result<()> {
        panic!("a reader changes nothing")
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        panic!("a reader changes nothing")
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.inner.list(dir)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }
    fn lock(&self, _: &Path, _: bool) -> io::Result<Box<dyn LockGuard>> {
        panic!("a reader takes no lock")
    }
    fn boot_id(&self) -> Option<BootId> {
        self.inner.boot_id()
    }
    fn lock_holder(&self, path: &Path) -> LockHolder {
        self.inner.lock_holder(path)
    }
}

/// D4: the writer rewrites everything, and goes on to other manifests, between two steps of a
/// reader's opening: the opening begins again, and gives up after a number of times.
#[test]
fn an_opening_that_is_overtaken_begins_again() {
    for layout in LAYOUTS {
        for times in [1_u32, 2, 100] {
            let vfs = SimVfs::new(1);
            let db = on_sim(&vfs, layout, Durability::Process).open(DIR).unwrap();
            rewrite(&db, 1);
            let (writer, left) = (db.clone(), Mutex::new(times));
            let before = move |path: &Path| {
                let mut left = left.lock().unwrap();
                if path.ends_with("CHUNK-LOGS") && *left > 0 {
                    *left -= 1;
                    rewrite(&writer, u64::from(*left));
                }
            };
            let pausing = Pausing {
                inner: vfs.clone(),
                before: Box::new(before),
                hides: false,
            };
            let options = small(layout, Durability::Process, 0).vfs(Arc::new(pausing));
            let reader = options.open_beside_writer(DIR).unwrap();
            match contents(&reader) {
                Ok(found) => assert!(found.len() >= 120),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Stale, "{error}");
                    let found = contents(&reader.refresh().unwrap());
                    assert!(found.is_ok_and(|found| found.len() >= 120) || times == 100);
                }
            }
        }
    }
    // A reader that finds the manifest gone on each time, and never all of a moment.
    let vfs = SimVfs::new(1);
    let db = on_sim(&vfs, Layout::Chunks, Durability::Process)
        .open(DIR)
        .unwrap();
    rewrite(&db, 1);
    let looks = Arc::new(AtomicU32::new(0));
    let (counted, writer) = (looks.clone(), db.clone());
    let before = move |path: &Path| {
        if path.ends_with("CHUNK-LOGS") {
            counted.fetch_add(1, Ordering::Relaxed);
            writer.put("moving", "on").unwrap();
            writer.flush().unwrap();
        }
    };
    let pausing = Pausing {
        inner: vfs.clone(),
        before: Box::new(before),
        hides: true,
    };
    // With no container to be found it never succeeds; a missing file of an unchanged manifest
    // would be damage.
    let options = small(Layout::Chunks, Durability::Process, 0).vfs(Arc::new(pausing));
    let error = options.open_beside_writer(DIR).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stale, "{error}");
    assert_eq!(looks.load(Ordering::Relaxed), 100);
}

/// Four races in a row, in which the manifest is gone before it is read, are no damage: each of
/// them was another manifest. Damage is one that is found again and again.
#[test]
fn a_manifest_that_is_always_gone_is_no_damage() {
    for layout in LAYOUTS {
        let vfs = SimVfs::new(1);
        let db = on_sim(&vfs, layout, Durability::Process).open(DIR).unwrap();
        rewrite(&db, 1);
        let (writer, left, files) = (db.clone(), AtomicU32::new(6), vfs.clone());
        let before = move |path: &Path| {
            let name = path.file_name().unwrap().to_string_lossy();
            if name.starts_with("MANIFEST-") && left.load(Ordering::Relaxed) > 0 {
                left.fetch_sub(1, Ordering::Relaxed);
                let mut number = 0;
                while files.exists(path).unwrap() {
                    number += 1;
                    assert!(number < 1_000, "the writer goes on to another manifest");
                    let keyspace = writer.default_keyspace();
                    keyspace
                        .set_property("long", [number as u8; 16_000])
                        .unwrap();
                }
            }
        };
        let pausing = Pausing {
            inner: vfs.clone(),
            before: Box::new(before),
            hides: false,
        };
        let options = small(layout, Durability::Process, 0).vfs(Arc::new(pausing));
        let reader = options.open_beside_writer(DIR).unwrap();
        assert_eq!(contents(&reader).unwrap().len(), 120);
    }
    // The manifest is missing, and `CURRENT` names it.
    let vfs = SimVfs::new(1);
    let db = on_sim(&vfs, Layout::Chunks, Durability::Process)
        .open(DIR)
        .unwrap();
    db.close().unwrap();
    let names = vfs.file_names(Path::new(DIR));
    let manifest = names.iter().find(|name| name.starts_with("MANIFEST-"));
    vfs.remove(&Path::new(DIR).join(manifest.unwrap())).unwrap();
    let error = on_sim(&vfs, Layout::Chunks, Durability::Process)
        .open_beside_writer(DIR)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
}

/// Openings and reads beside a writer that never rests, on real files, are right or `Stale`.
#[test]
fn many_openings_beside_a_busy_writer() {
    for layout in LAYOUTS {
        let dir = tempfile::tempdir().unwrap();
        let options = |workers| small(layout, Durability::Process, workers);
        let db = options(2).open(dir.path()).unwrap();
        rewrite(&db, 1);
        let stop = std::sync::atomic::AtomicBool::new(false);
        let (mut right, mut stale) = (0, 0);
        std::thread::scope(|scope| {
            for writer in 0..2_u64 {
                let (db, stop) = (&db, &stop);
                scope.spawn(move || {
                    for round in 2_u64.. {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        match writer {
                            0 => rewrite(db, round),
                            _ => {
                                let name = format!("made{}", round % 3);
                                db.keyspace(&name).unwrap().put("k", "v").unwrap();
                                db.drop_keyspace(&name).unwrap();
                            }
                        }
                    }
                });
            }
            for _ in 0..40 {
                let opened = options(0).open_beside_writer(dir.path());
                let read = opened.and_then(|reader| {
                    let position = reader.position()?;
                    let found = contents(&reader)?;
                    reader.changes_since(&position)?.count();
                    Ok(found.len())
                });
                match read {
                    Ok(found) => {
                        assert_eq!(found, 120);
                        right += 1;
                    }
                    Err(error) if error.kind() == ErrorKind::ChangesGone => right += 1,
                    Err(error) => {
                        let is_stale = error.kind() == ErrorKind::Stale;
                        // A panic here would leave the writers running.
                        if !is_stale {
                            stop.store(true, Ordering::Relaxed);
                        }
                        assert!(is_stale, "{error}");
                        stale += 1;
                    }
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        println!("{right} right, {stale} stale");
        assert!(right > 0);
    }
}

/// D13: permission to read is enough, in each state of the database; `LOCK` is not looked at.
#[cfg(target_os = "linux")]
#[test]
fn permission_to_read_is_enough() {
    use std::os::unix::fs::PermissionsExt;
    common::privileges::without_privileges(|| {
        for layout in LAYOUTS {
            for state in ["clean", "crashed", "live", "starts later"] {
                let parent = tempfile::tempdir().unwrap();
                let dir = parent.path().join("db");
                let options = || small(layout, Durability::Process, 0);
                let mut writer = Some(options().open(&dir).unwrap());
                writer.as_ref().unwrap().put("k", "v").unwrap();
                writer.as_ref().unwrap().flush().unwrap();
                match state {
                    "clean" => writer.take().unwrap().close().unwrap(),
                    "crashed" => {
                        // As a crash leaves it: a copy of the files, without the last steps.
                        let copy = parent.path().join("copy");
                        std::fs::create_dir(&copy).unwrap();
                        for file in std::fs::read_dir(&dir).unwrap() {
                            let file = file.unwrap();
                            std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
                        }
                        writer.take().unwrap().close().unwrap();
                        std::fs::remove_dir_all(&dir).unwrap();
                        std::fs::rename(&copy, &dir).unwrap();
                    }
                    _ => {}
                }
                let lock = dir.join("LOCK");
                if state != "starts later" {
                    std::fs::set_permissions(&lock, PermissionsExt::from_mode(0o000)).unwrap();
                    std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o555)).unwrap();
                } else {
                    writer.take().unwrap().close().unwrap();
                }
                let reader = options().open_beside_writer(&dir).unwrap();
                assert_eq!(reader.get("k").unwrap().unwrap(), "v", "{state}");
                if state == "starts later" {
                    let db = options().open(&dir).unwrap();
                    db.put("k", "w").unwrap();
                    db.flush().unwrap();
                    let reader = reader.refresh().unwrap();
                    assert_eq!(reader.get("k").unwrap().unwrap(), "w");
                }
                std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o755)).unwrap();
                std::fs::set_permissions(&lock, PermissionsExt::from_mode(0o644)).unwrap();
                drop(writer);
            }
        }
    });
}

/// D2: openings beside the writer, in its own process, leave its lock alone.
#[test]
fn the_writers_lock_stays() {
    let dir = tempfile::tempdir().unwrap();
    let options = || small(Layout::Chunks, Durability::Process, 0).vfs(Arc::new(OsVfs));
    let db = options().open(dir.path()).unwrap();
    for _ in 0..3 {
        let reader = options().open_beside_writer(dir.path()).unwrap();
        reader.refresh().unwrap().close().unwrap();
        let error = options().open(dir.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
    }
    db.close().unwrap();
    assert!(options().open(dir.path()).is_ok());
}

/// The writer of the next test, in a process of its own, which that test starts.
#[test]
fn child_process() {
    let Some(dir) = std::env::var_os(DIR_VARIABLE) else {
        return;
    };
    let db = small(Layout::Chunks, Durability::Process, 0)
        .open(&dir)
        .unwrap();
    say("open");
    for number in 1_u64.. {
        db.put("n", format!("{number}:{}", "v".repeat(200)))
            .unwrap();
        db.put(format!("k{:03}", number % 150), number.to_string())
            .unwrap();
        if number % 40 == 0 {
            db.flush().unwrap();
        }
        if number % 500 == 0 {
            db.compact().unwrap();
        }
        if number % 100 == 0 {
            say(&format!("wrote {number}"));
        }
        // The reader is to keep up.
        std::thread::sleep(Duration::from_micros(300));
    }
}

fn start_writer(dir: &Path) -> (Child, impl Iterator<Item = String>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child_process", "--exact", "--nocapture"])
        .env(DIR_VARIABLE, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let lines = output.lines().map_while(Result::ok);
    (child, lines)
}

/// A reader, and a feed from `since` on, or from the reader's moment on if there is none or it is
/// gone. While the writer overtakes it, it begins again.
fn follow(dir: &Path, mut since: Option<Position>, gone: &mut u32) -> (Db, Changes) {
    for _ in 0..1_000 {
        let opened = small(Layout::Chunks, Durability::Process, 0).open_beside_writer(dir);
        let begun = opened.and_then(|reader| {
            let position = since.map_or_else(|| reader.position(), Ok)?;
            let feed = reader.changes_since(&position)?;
            Ok((reader, feed))
        });
        match begun {
            Ok(both) => return both,
            Err(error) if error.kind() == ErrorKind::Stale => {}
            Err(error) if error.kind() == ErrorKind::ChangesGone => {
                *gone += 1;
                since = None;
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the writer is always faster");
}

/// The number in a value of the writer, which is whole.
fn number_in(value: &[u8]) -> u64 {
    let text = std::str::from_utf8(value).unwrap();
    let (number, rest) = text.split_once(':').unwrap();
    assert_eq!(rest, "v".repeat(200));
    number.parse().unwrap()
}

/// D1, D2, D4, D7 with two processes: one writes and is killed, this one reads, refreshes and
/// follows. What it saw is never taken back, never mixed, and the database is whole afterwards.
#[test]
fn a_second_process_reads_and_follows() {
    let options = || small(Layout::Chunks, Durability::Process, 0);
    for _ in 0..2 {
        let dir = tempfile::tempdir().unwrap();
        let (mut child, mut lines) = start_writer(dir.path());
        assert!(lines.any(|line| line == "open"), "the writer opens");
        let error = options().open(dir.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
        assert!(lines.any(|line| line.starts_with("wrote")), "it writes");
        let (mut shown, mut stale, mut gone) = (0_u64, 0, 0);
        let (mut followed, mut newest) = (0_u64, 0_u64);
        let (mut reader, mut feed) = follow(dir.path(), None, &mut gone);
        for _ in 0..150 {
            match reader.get("n") {
                Ok(value) => {
                    let number = number_in(&value.expect("it was written"));
                    assert!(number >= shown, "{number} after {shown}");
                    shown = number;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Stale, "{error}");
                    stale += 1;
                }
            }
            let mut last = None;
            let told = loop {
                match feed.next() {
                    None => break Ok(()),
                    Some(Err(error)) => break Err(error),
                    Some(Ok(change)) => {
                        for write in change.writes().filter(|write| write.key == b"n") {
                            let number = number_in(write.value.unwrap());
                            assert!(
                                last.is_none_or(|last| number == last + 1),
                                "{last:?} {number}"
                            );
                            last = Some(number);
                            newest = newest.max(number);
                            followed += 1;
                        }
                    }
                }
            };
            match told {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Stale => {
                    stale += 1;
                    (reader, feed) = follow(dir.path(), Some(feed.position()), &mut gone);
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::ChangesGone, "{error}");
                    gone += 1;
                    (reader, feed) = follow(dir.path(), None, &mut gone);
                }
            }
            match reader.refresh() {
                Ok(newer) => reader = newer,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Stale, "{error}"),
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        println!("shown {shown}, followed {followed}, stale {stale}, gone {gone}");
        assert!(shown > 0 && followed > 0);
        // The killed writer's lock is free, and its database whole; the reader is still there.
        let db = options().open(dir.path()).unwrap();
        let value = db.get("n").unwrap().unwrap();
        let last = number_in(&value);
        assert!(last >= shown && last >= newest, "{last} {shown} {newest}");
        db.close().unwrap();
        let reader = reader.refresh().unwrap();
        assert_eq!(reader.get("n").unwrap().unwrap().to_vec(), value.to_vec());
    }
}
