//! `Db::fork(path)` where something breaks: machines that stop at each operation, failures at each
//! operation, links that fail, full disks, jobs of the parent between the steps of a fork, and
//! writers beside it. What a fork is: `forks.rs`.

mod common;

use common::oracle::{End, Map, contents};
use common::workload::{self, Runner, steps};
use common::{DIR, LEVELS, inspecting, on_sim, scramble};
use evendb::inspect::verify;
use evendb::vfs::{CrashMode, Fault, FaultKind, FaultOn, File, LockGuard, LockHolder, SimVfs, Vfs};
use evendb::{Db, Durability, ErrorKind, ForkOptions, ForkSummary};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const FORK: &str = "/elsewhere/fork";

type Contents = BTreeMap<String, Map>;

fn everything(db: &Db) -> Contents {
    let names = db.keyspace_names().into_iter();
    let each = names.map(|name| (name.clone(), contents(db, &name).expect("reads")));
    each.collect()
}

/// Shares containers however few runs they have, so that the parent's is sealed.
fn sharing() -> ForkOptions {
    ForkOptions::new().copied_log_bytes(0)
}

fn open(vfs: &SimVfs, dir: &str, read_only: bool) -> evendb::Result<Db> {
    on_sim(vfs, Durability::Process, 0)
        .read_only(read_only)
        .create_if_missing(false)
        .open(dir)
}

fn filled(vfs: &SimVfs, level: Durability, seed: u64) -> Runner {
    workload::filled(vfs, level, seed, (60, 40))
}

fn assert_sound(vfs: &SimVfs, dir: &str, place: &str) {
    let report = verify(dir, inspecting(vfs)).expect("verifies");
    assert!(report.is_sound(), "{place}: {dir}: {report:?}");
}

/// The target is the whole fork, or nothing that opens.
fn check_target(vfs: &SimVfs, then: &Contents, place: &str) -> bool {
    for read_only in [true, false] {
        let machine = vfs.fork_state();
        machine.set_capacity(u64::MAX);
        match open(&machine, FORK, read_only) {
            Ok(fork) => {
                assert!(everything(&fork) == *then, "{place}: a wrong fork");
                if !read_only {
                    fork.put("goes on", "x").expect("puts");
                    fork.settle_debt().expect("settles");
                }
            }
            Err(error) => {
                let expected = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corruption);
                assert!(expected, "{place}: {error:?}");
                let files = machine.file_names(Path::new(FORK));
                if files.iter().any(|name| name != "LOCK") {
                    let outcome = on_sim(&machine, Durability::Process, 0).open(FORK);
                    assert!(outcome.is_err(), "{place}: created over {files:?}");
                }
                return false;
            }
        }
    }
    true
}

fn expect_no_target(vfs: &SimVfs, place: &str) {
    let left = vfs.file_names(Path::new(FORK));
    assert!(left.is_empty(), "{place}: {left:?} is left at the target");
    let parent = vfs.file_names(Path::new("/elsewhere"));
    assert!(parent.is_empty(), "{place}: an empty target");
}

fn modes(number: u64) -> [CrashMode; 5] {
    [
        CrashMode::Process,
        CrashMode::PowerLossNothing,
        CrashMode::PowerLossAll,
        CrashMode::PowerLossRandom(number),
        CrashMode::PowerLossRandom(scramble(number)),
    ]
}

/// The fork is absent or whole, and the parent recovers and goes on, at whatever operation of the
/// fork the machine stops, and whatever of what was not synced is lost.
#[test]
fn a_crash_at_every_step_of_a_fork() {
    let (mut states, mut whole) = (0, 0);
    for (seed, level) in (20..).zip(LEVELS) {
        let ways = match level {
            Durability::Process => vec![sharing(), ForkOptions::new()],
            _ => vec![sharing()],
        };
        for how in ways {
            let (before, after) = {
                let vfs = SimVfs::new(seed);
                let runner = filled(&vfs, level, seed);
                let before = vfs.op_count();
                runner.db().fork_with(FORK, &how).expect("forks");
                (before, vfs.op_count())
            };
            for at in before..=after {
                let vfs = SimVfs::new(seed);
                let mut runner = filled(&vfs, level, seed);
                let then = everything(runner.db());
                vfs.set_crash_at(at);
                let outcome = runner.db().fork_with(FORK, &how);
                // If the call has succeeded, the fork is there, whatever follows.
                drop(vfs.crash(CrashMode::Process));
                runner.abandon();
                for mode in modes(at) {
                    let place = format!("{level:?} {how:?} operation {at} {mode:?}");
                    let machine = vfs.crash(mode);
                    let complete = check_target(&machine, &then, &place);
                    assert!(complete || outcome.is_err(), "{place}: it had returned");
                    whole += u64::from(complete);
                    let mut next = Runner::resume(&machine, level, runner.oracle.clone());
                    let end = match mode {
                        CrashMode::Process => End::Process,
                        _ => End::Power,
                    };
                    next.recover(end)
                        .unwrap_or_else(|what| panic!("{place}: {what}"));
                    next.db().put("goes on", "x").expect("puts");
                    next.abandon();
                    assert_sound(&machine, DIR, &place);
                    states += 1;
                }
            }
        }
    }
    assert!(whole > 0);
    println!("{states} states after crashes in a fork, {whole} of them with a whole fork");
}

/// A failed operation on the target's files leaves nothing there, and the parent never notices.
#[test]
fn failures_at_every_step_in_the_target() {
    let mut failures = 0;
    for kind in [FaultKind::Eio, FaultKind::NoSpace] {
        for at in 0.. {
            let vfs = SimVfs::new(3);
            let mut runner = filled(&vfs, Durability::Process, 3);
            let then = everything(runner.db());
            let place = format!("{kind:?} operation {at}");
            vfs.inject(Fault {
                at,
                on: FaultOn::Change,
                kind,
                sticky: false,
                path_contains: Some("/elsewhere".into()),
            });
            vfs.trace(true);
            let outcome = runner.db().fork_with(FORK, &sharing());
            let touched = vfs.take_trace();
            vfs.clear_faults();
            match &outcome {
                Err(error) => {
                    let expected = match kind {
                        FaultKind::NoSpace => ErrorKind::NoSpace,
                        _ => ErrorKind::Io,
                    };
                    let odd = error.kind() == ErrorKind::Io;
                    assert!(error.kind() == expected || odd, "{place}: {error:?}");
                    expect_no_target(&vfs, &place);
                    failures += 1;
                }
                // A failed removal of the mark is no error.
                Ok(_) => assert!(check_target(&vfs, &then, &place)),
            }
            assert_eq!(everything(runner.db()), then, "{place}");
            for step in steps(at, 10) {
                runner.step(&step).expect("the parent goes on");
            }
            runner.db().fork_with("/again", &sharing()).expect("forks");
            runner.abandon();
            assert_sound(&vfs, DIR, &place);
            let changes = touched.iter().filter(|event| {
                let path = event.to.as_ref().unwrap_or(&event.path);
                path.starts_with("/elsewhere")
            });
            if outcome.is_ok() && changes.count() as u64 <= at {
                break;
            }
        }
    }
    assert!(failures > 8, "{failures}");
}

/// A failed operation on the parent's own files fails the fork and leaves nothing at the target.
/// The parent goes on, or has stopped writing and loses nothing.
#[test]
fn failures_at_every_step_in_the_parent() {
    let (mut failures, mut latched) = (0, 0);
    for kind in [FaultKind::Eio, FaultKind::NoSpace] {
        let mut quiet = 0;
        for at in 0.. {
            let vfs = SimVfs::new(4);
            let mut runner = filled(&vfs, Durability::Process, 4);
            runner.db().flush().expect("a checkpoint");
            let then = everything(runner.db());
            let place = format!("{kind:?} operation {at}");
            vfs.inject(Fault {
                at,
                on: FaultOn::Change,
                kind,
                sticky: false,
                path_contains: Some("/db".into()),
            });
            let outcome = runner.db().fork_with(FORK, &sharing());
            vfs.clear_faults();
            match &outcome {
                Err(_) => {
                    expect_no_target(&vfs, &place);
                    failures += 1;
                    quiet = 0;
                }
                Ok(_) => {
                    assert!(check_target(&vfs, &then, &place));
                    quiet += 1;
                }
            }
            assert_eq!(everything(runner.db()), then, "{place}");
            let put = runner.db().put("after", "x");
            latched += u64::from(put.is_err());
            let expected = match put {
                Ok(()) => everything(runner.db()),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Latched, "{place}");
                    then
                }
            };
            runner.abandon();
            let db = open(&vfs, DIR, false).expect("opens");
            assert_eq!(everything(&db), expected, "{place}");
            db.fork_with("/again", &sharing()).expect("forks");
            db.close().expect("closes");
            assert_sound(&vfs, DIR, &place);
            if quiet > 12 {
                break;
            }
        }
    }
    assert!(failures > 4, "{failures}");
    println!("{failures} failed forks, after {latched} of them the parent wrote nothing more");
}

/// At each size of the disk the fork is whole or refused, and the parent goes on.
#[test]
fn a_full_disk_at_every_size_of_a_fork() {
    let (used, needed) = {
        let vfs = SimVfs::new(5);
        let runner = filled(&vfs, Durability::Process, 5);
        runner.db().settle_debt().expect("settles");
        let used = vfs.used_bytes();
        runner.db().fork_with(FORK, &sharing()).expect("forks");
        (used, vfs.used_bytes())
    };
    let grows = needed.saturating_sub(used);
    let mut refused = 0;
    for room in (0..grows + 8192).step_by(4096) {
        let vfs = SimVfs::new(5);
        let mut runner = filled(&vfs, Durability::Process, 5);
        runner.db().settle_debt().expect("settles");
        let then = everything(runner.db());
        let capacity = vfs.used_bytes() + room;
        let place = format!("room for {room} of {grows} bytes");
        vfs.set_capacity(capacity);
        match runner.db().fork_with(FORK, &sharing()) {
            Ok(_) => assert!(check_target(&vfs, &then, &place)),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NoSpace, "{place}: {error:?}");
                expect_no_target(&vfs, &place);
                refused += 1;
            }
        }
        assert_eq!(everything(runner.db()), then, "{place}");
        vfs.set_capacity(u64::MAX);
        for step in steps(capacity, 20) {
            runner.step(&step).expect("the parent goes on");
        }
        runner.abandon();
        assert_sound(&vfs, DIR, &place);
    }
    assert!(refused > 0);
}

type Hook = dyn Fn(u64) -> io::Result<()> + Send + Sync;

/// Files whose links ask first: with the number of the link.
struct AskedLinks {
    files: SimVfs,
    links: AtomicU64,
    ask: Mutex<Option<Arc<Hook>>>,
}

impl std::fmt::Debug for AskedLinks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AskedLinks")
    }
}

impl AskedLinks {
    fn new(files: &SimVfs) -> Arc<AskedLinks> {
        Arc::new(AskedLinks {
            files: files.clone(),
            links: AtomicU64::new(0),
            ask: Mutex::new(None),
        })
    }

    fn ask(&self, hook: impl Fn(u64) -> io::Result<()> + Send + Sync + 'static) {
        self.links.store(0, Ordering::SeqCst);
        *self.ask.lock() = Some(Arc::new(hook));
    }
}

impl Vfs for AskedLinks {
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let number = self.links.fetch_add(1, Ordering::SeqCst);
        let hook = self.ask.lock().clone();
        hook.map_or(Ok(()), |hook| hook(number))?;
        self.files.hard_link(from, to)
    }
    fn lock(&self, path: &Path, shared: bool) -> io::Result<Box<dyn LockGuard>> {
        self.files.lock(path, shared)
    }
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>> {
        self.files.open(path, write)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.files.create_dir_all(dir)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.files.create(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.files.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.remove(path)
    }
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.files.remove_dir(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.files.sync_dir(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.files.list(dir)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.files.exists(path)
    }
    fn lock_holder(&self, path: &Path) -> LockHolder {
        self.files.lock_holder(path)
    }
}

/// Records in no order with large values, in tables, value files and runs.
fn fill(db: &Db, seed: u8) {
    for number in (0..500_u32).map(|number| number * 7 % 500) {
        let len = if number % 10 == 0 { 700 } else { 60 };
        db.put(format!("k{number:04}"), vec![seed; len])
            .expect("puts");
    }
    db.settle_debt().expect("settles");
    for number in 0..40 {
        db.put(format!("k{number:04}"), vec![seed + 1; 50])
            .expect("puts");
    }
}

fn asked(vfs: &SimVfs) -> (Arc<AskedLinks>, Db) {
    let files = AskedLinks::new(vfs);
    let options = on_sim(vfs, Durability::Process, 0).vfs(files.clone());
    let options = options.advanced(|advanced| advanced.values_apart_from(Some(500)));
    let db = options.open(DIR).expect("opens");
    fill(&db, 1);
    (files, db)
}

/// C16: a link that fails, at whichever file and for whatever reason, is the error that says so,
/// and leaves nothing; with copies it is no error.
#[test]
fn links_that_fail_at_the_nth_file() {
    let reasons = [
        io::ErrorKind::CrossesDevices,
        io::ErrorKind::PermissionDenied,
        io::ErrorKind::Unsupported,
        io::ErrorKind::TooManyLinks,
    ];
    let vfs = SimVfs::new(6);
    let (files, db) = asked(&vfs);
    let then = everything(&db);
    let all = db
        .fork_with("/first", &sharing())
        .expect("forks")
        .files_linked;
    assert!(all > 3, "{all} files");
    for reason in reasons {
        for failing in 0..all {
            let place = format!("{reason:?} at {failing}");
            files.ask(move |number| match number == failing {
                true => Err(reason.into()),
                false => Ok(()),
            });
            let error = db.fork_with(FORK, &sharing()).expect_err("no link");
            assert_eq!(error.kind(), ErrorKind::CannotLink, "{place}: {error}");
            let text = error.to_string();
            assert!(
                text.contains(FORK) && text.contains("copy_if_needed"),
                "{text}"
            );
            expect_no_target(&vfs, &place);
            files.ask(move |number| match number == failing {
                true => Err(reason.into()),
                false => Ok(()),
            });
            let copying = sharing().copy_if_needed(true);
            let summary = db.fork_with(FORK, &copying).expect("copies");
            assert!(summary.bytes_copied > 0, "{place}: {summary:?}");
            assert!(check_target(&vfs, &then, &place), "{place}");
            assert_sound(&vfs, FORK, &place);
            for name in vfs.file_names(Path::new(FORK)) {
                vfs.remove_file(&Path::new(FORK).join(name));
            }
            vfs.remove_dir(Path::new(FORK)).expect("removes");
            vfs.remove_dir(Path::new("/elsewhere")).expect("removes");
        }
    }
    // Any other failure is what it is.
    files.ask(|_| Err(io::Error::other("planted")));
    let error = db.fork_with(FORK, &sharing()).expect_err("a failure");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    expect_no_target(&vfs, "another failure");
    assert_eq!(everything(&db), then);
}

/// C8: the parent rewrites and drops everything between the steps of a fork; what the fork named is
/// still there, and goes afterwards.
#[test]
fn the_parent_drops_everything_between_two_links() {
    for at in [0, 1, 3, 1_000] {
        let vfs = SimVfs::new(7);
        let (files, db) = asked(&vfs);
        let other = db.clone();
        let then = everything(&db);
        let done = Arc::new(AtomicU64::new(0));
        let count = done.clone();
        files.ask(move |number| {
            if number == at || at == 1_000 && number < 6 {
                fill(&other, 10 + number as u8 * 2);
                other.delete_range("k0100".."k0400").expect("deletes");
                other.compact().expect("compacts");
                other.flush().expect("a checkpoint");
                count.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        });
        let place = format!("work at link {at}");
        db.fork_with(FORK, &sharing()).expect("forks");
        assert!(done.load(Ordering::SeqCst) > 0);
        assert!(check_target(&vfs, &then, &place));
        assert_sound(&vfs, FORK, &place);
        files.ask(|_| Ok(()));
        db.flush().expect("a checkpoint");
        db.settle_debt().expect("settles");
        let names = |dir: &str| vfs.file_names(Path::new(dir));
        let of_fork = names(FORK);
        let left = names(DIR);
        let kept = left
            .iter()
            .filter(|name| name.ends_with(".sst") && of_fork.contains(name));
        assert_eq!(kept.count(), 0, "{place}: tables that the fork held");
        db.close().expect("closes");
        assert_sound(&vfs, DIR, &place);
    }
}

/// A machine that stops while parent and fork are both open and written to.
#[test]
fn both_recover_from_a_crash_after_the_fork() {
    for (round, how) in [sharing(), ForkOptions::new()].into_iter().enumerate() {
        let count = {
            let vfs = SimVfs::new(8);
            going_apart(&vfs, &how);
            vfs.op_count()
        };
        for at in (0..count).rev().step_by(13).take(24) {
            let vfs = SimVfs::new(8);
            vfs.set_crash_at(at);
            let told = going_apart(&vfs, &how);
            for mode in modes(at + round as u64) {
                let machine = vfs.crash(mode);
                let place = format!("{how:?} operation {at} {mode:?}");
                for (dir, told) in [(DIR, &told[0]), (FORK, &told[1])] {
                    let Some(told) = told else {
                        continue;
                    };
                    let db = open(&machine, dir, false).expect("opens");
                    // Acknowledged at the level of this test, the first of them durable.
                    let found = db.get("step").expect("gets").expect("is there");
                    let found: u64 = String::from_utf8_lossy(&found).parse().expect("a number");
                    assert!(found >= *told, "{place}: {dir}: {found} of {told}");
                    assert_eq!(db.get("both").expect("gets").expect("is there"), b"x");
                    db.close().expect("closes");
                    assert_sound(&machine, dir, &place);
                }
            }
        }
    }
}

/// Fills a database, forks it, and writes to both in turn, all of it synced, until the machine
/// stops. Returns the last acknowledged step of each.
fn going_apart(vfs: &SimVfs, how: &ForkOptions) -> [Option<u64>; 2] {
    let mut told = [None, None];
    let options = || on_sim(vfs, Durability::Sync, 0);
    let mut run = || -> evendb::Result<()> {
        let db = options().open(DIR)?;
        for number in (0..200_u32).map(|number| number * 7 % 200) {
            db.put(format!("k{number:04}"), [1; 60])?;
        }
        db.settle_debt()?;
        db.put("both", "x")?;
        db.put("step", "0")?;
        told[0] = Some(0);
        db.fork_with(FORK, how)?;
        let fork = options().open(FORK)?;
        told[1] = Some(0);
        for step in 1..12_u64 {
            for (side, told) in [&db, &fork].into_iter().zip(&mut told) {
                for number in 0..30_u64 {
                    let key = format!("k{:04}", (number * 7 + step * 31) % 200);
                    side.put(key, vec![step as u8; 50])?;
                }
                side.put("step", step.to_string())?;
                *told = Some(step);
                if step % 4 == 0 {
                    side.settle_debt()?;
                }
            }
        }
        Ok(())
    };
    let ended = run();
    assert!(ended.is_ok() || vfs.crashed(), "{ended:?}");
    told
}

/// The value of write `number`; its length differs from those of its neighbours.
fn value_of(number: u64) -> Vec<u8> {
    let mut value = format!("{number:08}").into_bytes();
    value.resize(8 + (number % 60) as usize, number as u8);
    value
}

const SLOTS: u64 = 100;
const WRITERS: usize = 8;

/// Every write is a batch: the next slot, and the counter in another keyspace.
fn write(db: &Db, writer: usize, stop: &AtomicBool, acknowledged: &AtomicU64) {
    let counters = db.keyspace("counters").expect("makes");
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let mut batch = db.batch();
        let key = format!("w{writer}/{:04}", number * 7 % SLOTS);
        batch.put(db.default_keyspace(), key, value_of(number));
        batch.put(&counters, format!("w{writer}"), value_of(number));
        batch.commit().expect("commits");
        acknowledged.store(number + 1, Ordering::SeqCst);
    }
}

/// The number of the writer's writes in the database; all are whole.
fn writes_in(db: &Db, writer: usize) -> u64 {
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
    let found = db.prefix(format!("w{writer}/"));
    let found = found.map(|item| item.map(|(key, value)| (key.to_vec(), value.to_vec())));
    let found: Map = found.collect::<Result<_, _>>().expect("reads");
    assert!(found == slots, "writer {writer} is not at write {count}");
    count
}

fn fork_beside(db: &Db, target: &str, round: u64) -> ForkSummary {
    let how = [sharing(), ForkOptions::new()][round as usize % 2];
    db.fork_with(target, &how).expect("forks")
}

/// C6, C7, C10: each fork is one moment, batches over keyspaces whole; a power cut right after the
/// call loses nothing of it; the parent recovers, too.
#[test]
fn forks_beside_writers_are_one_moment_and_durable() {
    for level in LEVELS {
        let vfs = SimVfs::new(9);
        let at = |vfs: &SimVfs, dir: &str, workers| {
            on_sim(vfs, level, workers)
                .advanced(|advanced| advanced.values_apart_from(Some(50)))
                .open(dir)
                .expect("opens")
        };
        let db = at(&vfs, DIR, 2);
        let stop = AtomicBool::new(false);
        let acknowledged = [const { AtomicU64::new(0) }; WRITERS];
        let now = || {
            let each = acknowledged.iter();
            each.map(|count| count.load(Ordering::SeqCst))
                .collect::<Vec<_>>()
        };
        let rounds = common::count_from_env("EVENDB_COPIES", 12);
        std::thread::scope(|scope| {
            for (writer, acknowledged) in acknowledged.iter().enumerate() {
                let (db, stop) = (&db, &stop);
                scope.spawn(move || write(db, writer, stop, acknowledged));
            }
            for round in 0..rounds {
                while now()[0] < (round + 1) * 30 {
                    std::thread::yield_now();
                }
                let before = now();
                let target = format!("/forks/{round}");
                let summary = fork_beside(&db, &target, round);
                assert!(summary.tables_copied == 0);
                let after = now();
                let machine = vfs.fork_state().crash(CrashMode::PowerLossNothing);
                for vfs in [&machine, &vfs]
                    .into_iter()
                    .take(1 + usize::from(round % 4 == 0))
                {
                    let fork = at(vfs, &target, 0);
                    for writer in 0..WRITERS {
                        let count = writes_in(&fork, writer);
                        assert!(count >= before[writer], "{level:?} {round}: lost");
                        assert!(count <= after[writer] + 1, "{level:?} {round}: early");
                    }
                    fork.put("only here", "x").expect("puts");
                    fork.close().expect("closes");
                }
                let parent = at(&machine, DIR, 0);
                for (writer, before) in before.iter().enumerate() {
                    let count = writes_in(&parent, writer);
                    assert!(count >= *before, "{level:?} {round}: lost of parent");
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        for (writer, count) in now().into_iter().enumerate() {
            assert_eq!(writes_in(&db, writer), count);
        }
        assert!(!db.contains_key("only here").expect("gets"));
        db.close().expect("closes");
        assert_sound(&vfs, DIR, "the end");
        assert_sound(&vfs, &format!("/forks/{}", rounds - 1), "the end");
    }
}
