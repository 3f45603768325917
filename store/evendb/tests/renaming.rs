//! Keyspaces that get other names, alone or in exchange: at one moment, whatever happens beside it
//! and wherever it crashes; handles, snapshots, transactions and feeds go on. Each test has a
//! keyspace of chunks and one of guards.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which may end at the first surprise"
)]

mod common;

use common::{DIR, LEVELS, inspecting, on_sim};
use evendb::inspect::verify;
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{
    Backups, Db, Durability, ErrorKind, Keyspace, KeyspaceOptions, Layout, Merges, Options,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The two keyspaces before a renaming, each with its name as the value of a record.
const NAMES: [&str; 2] = ["old", "new"];

fn of_layout(layout: Layout) -> KeyspaceOptions {
    KeyspaceOptions::new().layout(layout)
}

/// A database with the two keyspaces.
fn filled(options: Options) -> (Db, [Keyspace; 2]) {
    let db = options.open(DIR).unwrap();
    let layouts = [Layout::Chunks, Layout::Guards];
    let made = [0, 1].map(|at| {
        let made = db.keyspace_with(NAMES[at], &of_layout(layouts[at]));
        let made = made.unwrap();
        for number in 0..40 {
            made.put(format!("k{number:02}"), format!("{} {number}", NAMES[at]))
                .unwrap();
        }
        made.put("name", NAMES[at]).unwrap();
        made
    });
    (db, made)
}

/// The text that the keyspace of this name has under `name`; `None` if there is no such keyspace.
fn content(db: &Db, name: &str) -> Option<String> {
    let is_there = db.keyspace_exists(name);
    is_there.then(|| {
        let keyspace = db.keyspace(name).unwrap();
        assert_eq!(keyspace.name(), name);
        assert_eq!(keyspace.iter().count(), 41, "{name}");
        let text = keyspace.get("name").unwrap().unwrap();
        String::from_utf8(text.to_vec()).unwrap()
    })
}

fn contents(db: &Db, names: [&str; 2]) -> [Option<String>; 2] {
    names.map(|name| content(db, name))
}

fn both(one: &str, other: &str) -> [Option<String>; 2] {
    [one, other].map(|text| Some(text.to_owned()))
}

#[test]
fn handles_name_the_same_records_and_tell_the_new_name() {
    for workers in [0, 2] {
        let vfs = SimVfs::new(1);
        let (db, [old, new]) = filled(on_sim(&vfs, Durability::Process, workers));
        let lent = old.name();
        let (ids, snapshot) = ([old.id(), new.id()], db.snapshot().unwrap());
        let mut iter = old.iter();
        iter.next().unwrap().unwrap();
        db.swap_keyspaces("old", "new").unwrap();
        assert_eq!((lent, old.name(), new.name()), ("old", "new", "old"));
        assert_eq!([old.id(), new.id()], ids);
        assert_eq!(old.get("name").unwrap().unwrap(), "old");
        assert_eq!(snapshot.get(&old, "name").unwrap().unwrap(), "old");
        assert_eq!(iter.count(), 40);
        old.put("name", "still old").unwrap();
        assert_eq!(
            db.keyspace("new").unwrap().get("name").unwrap().unwrap(),
            "still old"
        );
        old.put("name", "old").unwrap();
        assert_eq!(contents(&db, NAMES), both("new", "old"));
        assert_eq!(db.keyspace("new").unwrap().id(), ids[0]);

        db.rename_keyspace("old", "third").unwrap();
        assert_eq!((old.name(), new.name()), ("new", "third"));
        assert_eq!(db.keyspace_names(), ["default", "new", "third"]);
        // The free name is for another keyspace.
        let another = db.keyspace("old").unwrap();
        assert!(!ids.contains(&another.id()) && another.iter().next().is_none());
        db.drop_keyspace("old").unwrap();
        // An error tells the name that holds now.
        db.drop_keyspace("third").unwrap();
        let refused = new.get("name").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::KeyspaceDropped);
        assert!(refused.to_string().contains("third"), "{refused}");
    }
}

#[test]
fn options_properties_and_layouts_go_with_the_records() {
    let vfs = SimVfs::new(2);
    let (db, [old, new]) = filled(on_sim(&vfs, Durability::Process, 0));
    old.set_property("schema", "one").unwrap();
    let operator = KeyspaceOptions::new().merge_operator(Merges::AddU64);
    let hits = db.keyspace_with("hits", &operator).unwrap();
    hits.merge("a", 1u64.to_le_bytes()).unwrap();
    db.swap_keyspaces("old", "new").unwrap();
    db.rename_keyspace("hits", "counters").unwrap();
    drop((old, new, hits));
    db.close().unwrap();
    let db = on_sim(&vfs, Durability::Process, 0).open(DIR).unwrap();
    let [old, new] = NAMES.map(|name| db.keyspace(name).unwrap());
    assert_eq!(
        new.property("schema").unwrap().as_deref(),
        Some(&b"one"[..])
    );
    assert_eq!(old.property("schema").unwrap(), None);
    let layout = |keyspace: &Keyspace| keyspace.options().unwrap().text_of("layout");
    assert_eq!(layout(&old).as_deref(), Some("guards"));
    assert_ne!(layout(&new).as_deref(), Some("guards"));
    let counters = db.keyspace("counters").unwrap();
    counters.merge("a", 1u64.to_le_bytes()).unwrap();
    assert_eq!(counters.get("a").unwrap().unwrap(), 2u64.to_le_bytes());
}

#[test]
fn what_cannot_be_renamed_is_told_and_stays() {
    let vfs = SimVfs::new(3);
    let (db, _handles) = filled(on_sim(&vfs, Durability::Process, 0));
    let long = "x".repeat(256);
    let invalid = ErrorKind::InvalidArgument;
    for (from, to, kind) in [
        ("default", "x", invalid),
        ("old", "default", invalid),
        ("gone", "x", invalid),
        ("old", "", invalid),
        ("old", &long, invalid),
        ("old", "new", ErrorKind::AlreadyExists),
    ] {
        let refused = db.rename_keyspace(from, to).unwrap_err();
        assert_eq!(refused.kind(), kind, "{from} {to}: {refused}");
    }
    for (one, other) in [
        ("old", "default"),
        ("default", "old"),
        ("old", "gone"),
        ("gone", "old"),
    ] {
        let refused = db.swap_keyspaces(one, other).unwrap_err();
        assert_eq!(refused.kind(), invalid, "{one} {other}: {refused}");
    }
    // Its own name is no other keyspace's.
    db.rename_keyspace("old", "old").unwrap();
    db.swap_keyspaces("old", "old").unwrap();
    assert_eq!(contents(&db, NAMES), both("old", "new"));
    db.clone().close().unwrap();
    let refused = db.swap_keyspaces("old", "new").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
    let options = on_sim(&vfs, Durability::Process, 0);
    let db = options.read_only(true).open(DIR).unwrap();
    let refused = db.swap_keyspaces("old", "new").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    assert_eq!(contents(&db, NAMES), both("old", "new"));
}

/// The names after a crash: both changed or none, and changed if the call had returned.
#[test]
fn a_crash_at_every_operation_leaves_both_names_or_neither() {
    let mut states = 0;
    for (seed, level) in LEVELS.into_iter().enumerate() {
        for exchange in [false, true] {
            let mut at = 0;
            loop {
                let vfs = SimVfs::new(seed as u64);
                let (db, handles) = filled(on_sim(&vfs, level, 0));
                vfs.set_crash_at(vfs.op_count() + at);
                let renamed = match exchange {
                    true => db.swap_keyspaces("old", "new"),
                    false => db.rename_keyspace("old", "third"),
                };
                let returned = !vfs.crashed();
                assert!(renamed.is_ok() || !returned, "{renamed:?}");
                drop((handles, db));
                for mode in modes(at) {
                    states += 1;
                    look_at(&vfs.crash(mode), (level, exchange), returned, at);
                }
                if returned {
                    break;
                }
                at += 1;
            }
            // The edit is written and synced, at least.
            assert!(at >= 2, "{level:?}: {at} operations");
        }
    }
    assert!(states > 100, "{states}");
}

fn modes(number: u64) -> [CrashMode; 5] {
    [
        CrashMode::Process,
        CrashMode::PowerLossNothing,
        CrashMode::PowerLossAll,
        CrashMode::PowerLossRandom(number),
        CrashMode::PowerLossRandom(common::scramble(number)),
    ]
}

fn look_at(vfs: &SimVfs, (level, exchange): (Durability, bool), returned: bool, at: u64) {
    let db = on_sim(vfs, level, 0).open(DIR).unwrap();
    let names: BTreeSet<String> = db.keyspace_names().into_iter().collect();
    let place = format!("{level:?}, exchange {exchange}, operation {at}: {names:?}");
    let is_new = match exchange {
        true => {
            assert!(names.contains("old") && names.contains("new"), "{place}");
            // Ids stay: the second keyspace has the greater one.
            let [old, new] = NAMES.map(|name| db.keyspace(name).unwrap().id());
            old > new
        }
        false => {
            assert_ne!(names.contains("old"), names.contains("third"), "{place}");
            names.contains("third")
        }
    };
    assert!(is_new || !returned, "{place}");
    if is_new {
        // What was put earlier is durable before the new names are.
        let found = match exchange {
            true => (contents(&db, NAMES), both("new", "old")),
            false => (contents(&db, ["third", "new"]), both("old", "new")),
        };
        assert_eq!(found.0, found.1, "{place}");
    }
    db.close().unwrap();
    let report = verify(DIR, inspecting(vfs)).unwrap();
    assert!(report.is_sound(), "{place}: {:#?}", report.findings);
}

/// On a full disk the manifest takes some more edits, and then no further one.
#[test]
fn a_failed_edit_changes_no_name() {
    let vfs = SimVfs::new(5);
    let (db, [old, new]) = filled(on_sim(&vfs, Durability::Process, 0));
    db.flush().unwrap();
    vfs.set_capacity(vfs.used_bytes());
    let mut swaps = 0;
    let refused = loop {
        match db.swap_keyspaces("old", "new") {
            Ok(()) => swaps += 1,
            Err(error) => break error,
        }
        assert!(swaps < 200_000, "the disk is never full");
    };
    assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
    let order = |[one, other]: [&'static str; 2]| match swaps % 2 {
        0 => [one, other],
        _ => [other, one],
    };
    assert_eq!([old.name(), new.name()], order(NAMES));
    assert_eq!(
        contents(&db, NAMES),
        order(NAMES).map(|name| Some(name.to_owned()))
    );
    vfs.set_capacity(u64::MAX);
    drop((old, new));
    db.close().unwrap();
    let db = on_sim(&vfs, Durability::Process, 0).open(DIR).unwrap();
    assert_eq!(
        contents(&db, NAMES),
        order(NAMES).map(|name| Some(name.to_owned()))
    );
    db.swap_keyspaces("old", "new").unwrap();
}

/// Threads put, read, look names up and commit transactions while the names change places. Each
/// handle sees its own records alone, and each look at both names sees one of the two orders.
#[test]
fn names_change_beside_writes_reads_and_transactions() {
    const ROUNDS: usize = 60;
    let vfs = SimVfs::new(6);
    let (db, handles) = filled(on_sim(&vfs, Durability::Process, 2));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for (at, handle) in handles.iter().enumerate() {
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                let mut number = 0;
                while !done.load(Ordering::Relaxed) {
                    number += 1;
                    handle
                        .put(format!("k{:02}", number % 40), NAMES[at])
                        .unwrap();
                    assert_eq!(handle.get("name").unwrap().unwrap(), NAMES[at]);
                    db.transact(|transaction| {
                        let name = transaction.get(handle, "name")?.unwrap();
                        assert_eq!(name, NAMES[at]);
                        transaction.put(handle, "k00", name)
                    })
                    .unwrap();
                    assert!(NAMES.contains(&handle.name()));
                }
            });
        }
        let (db, done) = (&db, &done);
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                assert_eq!(db.keyspace_names(), ["default", "new", "old"]);
                for name in NAMES {
                    // An opened name is one of the two, and never a new, empty keyspace.
                    assert!(db.keyspace(name).unwrap().get("name").unwrap().is_some());
                }
            }
        });
        for _ in 0..ROUNDS {
            db.swap_keyspaces("old", "new").unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(contents(&db, NAMES), both("old", "new"));
    drop(handles);
    db.close().unwrap();
    let db = on_sim(&vfs, Durability::Process, 2).open(DIR).unwrap();
    assert_eq!(contents(&db, NAMES), both("old", "new"));
}

#[test]
fn a_transaction_under_way_commits_into_the_records_that_it_read() {
    let vfs = SimVfs::new(7);
    let (db, [old, new]) = filled(on_sim(&vfs, Durability::Process, 0));
    let mut transaction = db.transaction().unwrap();
    let mut batch = db.batch();
    assert_eq!(transaction.get(&old, "name").unwrap().unwrap(), "old");
    transaction.put(&old, "k00", "committed").unwrap();
    batch.put(&new, "k01", "in a batch");
    db.swap_keyspaces("old", "new").unwrap();
    // The name is nothing that a transaction reads, so there is no conflict.
    transaction.commit().unwrap();
    batch.commit().unwrap();
    let [old, new] = NAMES.map(|name| db.keyspace(name).unwrap());
    assert_eq!(new.get("k00").unwrap().unwrap(), "committed");
    assert_eq!(old.get("k01").unwrap().unwrap(), "in a batch");
}

#[test]
fn a_backup_and_a_copy_have_the_names_of_their_moment() {
    let vfs = SimVfs::new(8);
    let options = || on_sim(&vfs, Durability::Process, 0);
    let (db, handles) = filled(options());
    db.backup("/backups").unwrap();
    db.swap_keyspaces("old", "new").unwrap();
    db.backup("/backups").unwrap();
    db.copy_to("/copy").unwrap();
    drop(handles);
    db.close().unwrap();
    let copy = options().open("/copy").unwrap();
    assert_eq!(contents(&copy, NAMES), both("new", "old"));
    let backups = Backups::at("/backups").vfs(Arc::new(vfs.clone()));
    let kept = backups.list().unwrap();
    for (info, names) in kept.iter().zip([both("old", "new"), both("new", "old")]) {
        let to = format!("/restored {}", info.number);
        backups.restore(Some(info.number), &to).unwrap();
        let restored = options().open(&to).unwrap();
        assert_eq!(contents(&restored, NAMES), names, "{}", info.number);
    }
    assert_eq!(kept.len(), 2);
}

/// A feed goes on without a gap, and tells the names of now; ids stay.
#[test]
fn a_feed_goes_on_and_tells_the_names_of_now() {
    let vfs = SimVfs::new(9);
    let (db, [old, new]) = filled(on_sim(&vfs, Durability::Process, 0));
    let position = db.position().unwrap();
    let mut feed = db.changes_since(&position).unwrap();
    old.put("a", "1").unwrap();
    let told = |feed: &mut evendb::Changes| {
        let change = feed.next().unwrap().unwrap();
        let writes = change.writes();
        let told: Vec<(String, u32, Vec<u8>)> = writes
            .map(|write| {
                (
                    write.keyspace.to_owned(),
                    write.keyspace_id,
                    write.key.to_vec(),
                )
            })
            .collect();
        told
    };
    assert_eq!(
        told(&mut feed),
        [("old".to_owned(), old.id(), b"a".to_vec())]
    );
    old.put("b", "2").unwrap();
    db.swap_keyspaces("old", "new").unwrap();
    let mut batch = db.batch();
    batch.put(&old, "c", "3").put(&new, "c", "3");
    batch.commit().unwrap();
    assert_eq!(
        told(&mut feed),
        [("new".to_owned(), old.id(), b"b".to_vec())]
    );
    let of_batch = [("new", old.id()), ("old", new.id())];
    let expected = of_batch.map(|(name, id)| (name.to_owned(), id, b"c".to_vec()));
    assert_eq!(told(&mut feed), expected);
    // From the beginning again: earlier changes have the names of now, too.
    let mut again = db.changes_since(&position).unwrap();
    assert_eq!(
        told(&mut again),
        [("new".to_owned(), old.id(), b"a".to_vec())]
    );
}
