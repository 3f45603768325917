//! No key and nonce encrypts two bodies. Every pair is collected that the lives of one database and
//! of its copies use to encrypt, in this process and in forked children
//! (`evendb_storage::sealing::watch`), and no pair comes twice. The children are equal in all that
//! the program knows: their memory, the files that they open and their calls. So random values that
//! the system did not give at that moment are the same in both.

#![cfg(feature = "encryption")]
#![expect(
    clippy::unwrap_used,
    reason = "tests, which fail where something is not as they expect"
)]

#[path = "common/forking.rs"]
#[allow(dead_code, reason = "every test binary uses its own part")]
mod forking;

use evendb::inspect::{InspectOptions, RepairOptions, repair};
use evendb::vfs::{CrashMode, OsVfs, SimVfs, Vfs};
use evendb::{Backups, Db, Durability, ForkOptions, Key, KeyRing, KeyspaceOptions, Options};
use evendb_storage::sealing::watch::{self, Sealed};
use evendb_storage::sealing::{Nonce, Secrets, Use};
use forking::{Who, files, fork, leave};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::fs;
use std::hash::RandomState;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// One test at a time: a child may open databases if its parent had none open.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock()
}

fn plain(vfs: Arc<dyn Vfs>) -> Options {
    Options::new()
        .memory_budget(1 << 20)
        .advanced(|advanced| {
            let small = advanced.chunk_bytes(2048).block_bytes(256);
            let logs = small
                .commit_log_bytes(64 << 10)
                .keep_changes_bytes(64 << 10);
            logs.value_file_bytes(4096).value_file_live_percent(60)
        })
        .durability(Durability::Process)
        .stats_interval(Duration::ZERO)
        .workers(0)
        .vfs(vfs)
}

fn keys(byte: u8) -> Arc<KeyRing> {
    let old = Key::new([1; 32]);
    Arc::new(KeyRing::new(Key::new([byte; 32])).with_former(old))
}

fn on(vfs: Arc<dyn Vfs>) -> Options {
    plain(vfs).advanced(|advanced| advanced.encryption(keys(1)))
}

fn on_disk() -> Options {
    on(Arc::new(OsVfs))
}

/// Writes everything that is encrypted: several laps of the commit log and several value files. Two
/// writers differ in their values, and never in the lengths.
fn write(db: &Db, who: u8) {
    let apart = KeyspaceOptions::new().values_apart_from(200);
    let apart = db.keyspace_with("apart", &apart).unwrap();
    apart.set_property("who", [who]).unwrap();
    for round in 0..4 {
        for number in 0..60 {
            let key = format!("key{number:03}");
            let letter = who.wrapping_mul(31).wrapping_add(number);
            apart.put(&key, vec![letter; 300]).unwrap();
            db.put(&key, vec![letter; 200]).unwrap();
        }
        if round == 1 {
            db.put("long", vec![who; 100_000]).unwrap();
        }
        db.flush().unwrap();
    }
    db.settle_debt().unwrap();
    db.put("long too", vec![who; 20_000]).unwrap();
    apart.put("last", vec![who; 300]).unwrap();
}

/// Like a process that is killed: without closing.
fn write_and_die(options: Options, dir: &Path, who: u8) {
    let db = options.open(dir).unwrap();
    write(&db, who);
    std::mem::forget(db);
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

/// Runs two children at once, each with `work` in its own directory; returns what they reported.
fn two_children(dir: &Path, work: &dyn Fn(&Path, u8)) -> String {
    // The random keys that a fork would copy exist already.
    let _ = RandomState::new();
    let children: Vec<_> = [1, 2]
        .map(|who| match fork() {
            Who::Parent(child) => child,
            Who::Child(sink) => {
                work(&dir.join(format!("child{who}")), who);
                let told: String = watch::seen().iter().map(|one| format!("{one}\n")).collect();
                let wrote = fs::write(dir.join(format!("told{who}")), told);
                leave(
                    sink,
                    &wrote.err().map_or(vec![], |error| vec![error.to_string()]),
                )
            }
        })
        .into();
    children
        .into_iter()
        .for_each(forking::Child::expect_content);
    [1, 2]
        .map(|who| fs::read_to_string(dir.join(format!("told{who}"))).unwrap())
        .concat()
}

/// In `dir`: forks, a killed database that opens again, copies, backups, a repair, another key.
fn lives_on_disk(dir: &Path) -> BTreeSet<Sealed> {
    let template = dir.join("template");
    let db = on_disk().open(&template).unwrap();
    write(&db, 0);
    db.close().unwrap();
    for who in 1..=2 {
        copy_dir(&template, &dir.join(format!("child{who}")));
    }
    let told = two_children(dir, &|dir, who| write_and_die(on_disk(), dir, who));
    let mut writer = 100;
    for who in 1..=2 {
        let child = dir.join(format!("child{who}"));
        let into = |name: &str| dir.join(format!("{name}{who}"));
        copy_dir(&child, &into("killed"));
        let db = on_disk().open(&child).unwrap();
        assert_eq!(
            db.get("long too").unwrap().unwrap().to_vec(),
            vec![who; 20_000]
        );
        write(&db, 10 + who);
        db.copy_to(into("copy")).unwrap();
        db.fork(into("fork")).unwrap();
        db.fork_with(into("shared"), &ForkOptions::new().copied_log_bytes(0))
            .unwrap();
        db.backup(into("backups")).unwrap();
        write(&db, 20 + who);
        db.backup(into("backups")).unwrap();
        db.close().unwrap();
        let backups = Backups::at(into("backups"));
        for number in 1..=2 {
            backups
                .restore(Some(number), into(&format!("restored{number}-")))
                .unwrap();
        }
        let inspected = InspectOptions::new().encryption(keys(1));
        let how = RepairOptions::default();
        repair(into("killed"), into("repaired"), how, inspected).unwrap();
        // Closed, and opened again: everything of one child, and the killed database of the other.
        let lives = [
            "killed",
            "killed",
            "copy",
            "fork",
            "shared",
            "restored1-",
            "restored2-",
            "repaired",
        ];
        for name in &lives[..if who == 1 { lives.len() } else { 2 }] {
            writer += 1;
            let db = on_disk().open(into(name)).unwrap();
            write(&db, writer);
            db.close().unwrap();
        }
        let rotating = plain(Arc::new(OsVfs)).advanced(|advanced| advanced.encryption(keys(2)));
        let db = rotating.open(&child).unwrap();
        db.rotate_key().unwrap();
        write(&db, 40 + who);
        db.close().unwrap();
    }
    told.lines().map(|line| line.parse().unwrap()).collect()
}

/// The files after a power loss, opened on two machines that each lose power again.
fn lives_after_power_losses() {
    let mut machines = vec![SimVfs::new(1)];
    let modes = [
        CrashMode::PowerLossNothing,
        CrashMode::Process,
        CrashMode::PowerLossRandom(7),
    ];
    for mode in modes {
        let mut crashed = Vec::new();
        for (number, vfs) in (50..).zip(&machines) {
            let db = on(Arc::new(vfs.clone())).open("/db").unwrap();
            write(&db, number);
            let machine = vfs.crash(mode);
            crashed.extend([machine.fork_state(), machine]);
        }
        machines = crashed;
    }
}

/// Several forks of one moment, and forks of forks. All write other values of the same lengths at
/// the same places, as their parent does.
fn lives_of_forks(dir: &Path) {
    let parent = on_disk().open(dir.join("parent")).unwrap();
    write(&parent, 1);
    let ways = [ForkOptions::new(), ForkOptions::new().copied_log_bytes(0)];
    for number in 0..6_u8 {
        let how = &ways[usize::from(number) % 2];
        let path = dir.join(format!("fork{number}"));
        parent.fork_with(&path, how).unwrap();
        let fork = on_disk().open(&path).unwrap();
        if number < 2 {
            let deeper = dir.join(format!("deeper{number}"));
            fork.fork_with(&deeper, how).unwrap();
            let deeper = on_disk().open(&deeper).unwrap();
            write(&deeper, 40 + number);
            deeper.close().unwrap();
        }
        write(&fork, 10 + number);
        fork.close().unwrap();
    }
    write(&parent, 30);
    parent.close().unwrap();
    let parent = on_disk().open(dir.join("parent")).unwrap();
    write(&parent, 31);
    parent.close().unwrap();
}

/// Bytes at one place of the logs of two lives, which began with the same writes, are not a sum of
/// two plaintexts: a key stream that came twice would cancel out.
#[test]
fn logs_of_forks_of_one_moment_have_no_key_stream_in_common() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let parent = on_disk().open(dir.path().join("parent")).unwrap();
    parent.put("k", "v").unwrap();
    let logs: Vec<Vec<u8>> = (1..=3_u8)
        .map(|who| {
            let path = dir.path().join(format!("fork{who}"));
            parent.fork(&path).unwrap();
            let fork = on_disk().open(&path).unwrap();
            fork.put("key", vec![who; 4000]).unwrap();
            drop(fork);
            fs::read(path.join("COMMIT-LOG")).unwrap()
        })
        .collect();
    let ends = logs
        .iter()
        .map(|log| log.iter().rposition(|byte| *byte != 0));
    assert!(ends.flatten().all(|end| end > 4000), "no record");
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        let sums = logs[a].iter().zip(&logs[b]).map(|(a, b)| a ^ b);
        let sums: Vec<u8> = sums.collect();
        // The plaintexts differ by one sum in each of 4000 bytes.
        let sum = (a as u8 + 1) ^ (b as u8 + 1);
        let longest = sums.split(|byte| *byte != sum).map(<[u8]>::len).max();
        assert!(longest < Some(16), "{longest:?} bytes in a row");
    }
}

#[test]
fn no_key_and_nonce_encrypts_two_bodies_in_any_life_or_copy() {
    let _alone = alone();
    watch::begin();
    let dir = tempfile::tempdir().unwrap();
    let of_children = lives_on_disk(dir.path());
    lives_after_power_losses();
    lives_of_forks(&dir.path().join("forks"));
    let mut all = watch::seen();
    assert!(
        of_children.len() > 1000 && all.len() > 20_000,
        "{}",
        all.len()
    );
    all.extend(of_children);
    let repeated = watch::repeated(&all);
    assert!(
        repeated.is_empty(),
        "{} of {}: {:?}",
        repeated.len(),
        all.len(),
        repeated.first()
    );
    let keys: BTreeSet<_> = all.iter().map(|one| one.key).collect();
    assert!(keys.len() > 200, "{} keys", keys.len());
    // A pair that comes twice is found.
    let cipher = Secrets::new(Key::new([1; 32]))
        .unwrap()
        .cipher(Use::Table, 1, &[]);
    for body in [b"one body", b"another1"] {
        cipher.seal(Nonce::at(7), &[], &mut body.to_vec(), 0);
    }
    assert_eq!(watch::repeated(&watch::seen()).len(), 1);
}

/// Only the system's random values distinguish forked children of a process, without encryption
/// too: the seeds of their lives, which keep records of other lives from being read, and the
/// numbers of value files, by which backups share them.
#[test]
fn each_opening_asks_the_system_for_its_seed_and_its_numbers() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let template = dir.path().join("template");
    let options = || plain(Arc::new(OsVfs));
    options().open(&template).unwrap().close().unwrap();
    for who in 1..=2 {
        copy_dir(&template, &dir.path().join(format!("child{who}")));
    }
    two_children(dir.path(), &|dir, _| write_and_die(options(), dir, 1));
    let [one, other] = [1, 2].map(|who| files(&dir.path().join(format!("child{who}"))));
    // The writes are the same: only the seed makes the logs differ.
    assert!(one["COMMIT-LOG"] != other["COMMIT-LOG"], "the same seed");
    let values = |name: &&String| name.ends_with(".values");
    let one: Vec<_> = one.keys().filter(values).collect();
    let other: Vec<_> = other.keys().filter(values).collect();
    assert!(one.len() > 1 && other.len() > 1);
    assert!(
        one.iter().all(|name| !other.contains(name)),
        "{one:?} {other:?}"
    );
}
