//! A full disk: calls report it, nothing is lost, nothing latches, and everything goes on when
//! there is room again.

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

mod common;

use common::{DIR, LEVELS, count_from_env, emptied, tiny_on};
use evendb_flsm::vfs::{CrashMode, SimVfs, Vfs};
use evendb_flsm::{Compression, Db, Durability, Error, ErrorKind, Keyspace, Options};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PAGE: u64 = 4096;

fn key(number: u32) -> [u8; 4] {
    number.wrapping_mul(0x9e37_79b1).to_le_bytes()
}

fn put(keyspace: &Keyspace, number: u32) -> Result<(), Error> {
    keyspace.put(key(number), vec![number as u8; 60])
}

/// Puts when there is room now, or soon. A call that waits for a job that failed before gets its
/// error. A dropped keyspace's files are removed with the last reader of anything in this process,
/// and other tests read, too.
fn put_at_last(keyspace: &Keyspace, number: u32) {
    let mut refused = None;
    for _ in 0..5000 {
        match put(keyspace, number) {
            Ok(()) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::NoSpace, "{error:?}"),
        }
        refused = put(keyspace, number).err();
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("no room comes back: {refused:?}");
}

/// Checks that the first `count` keys exist, and at most one other key, whose write was refused.
fn check(keyspace: &Keyspace, count: u32, is_refused_there: bool) {
    for number in 0..count {
        let found = keyspace.get(key(number)).unwrap();
        assert_eq!(found.unwrap(), vec![number as u8; 60], "{number}");
    }
    let items: Result<Vec<_>, Error> = keyspace.iter().collect();
    let found = items.unwrap().len() as u32;
    let most = count + u32::from(is_refused_there);
    assert!((count..=most).contains(&found), "{found} of {count}");
}

/// Puts until the disk is full. Returns the number of keys then.
fn fill(keyspace: &Keyspace, mut number: u32) -> u32 {
    loop {
        match put(keyspace, number) {
            Ok(()) => number += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NoSpace, "{error:?}");
                return number;
            }
        }
        assert!(number < 50_000, "it is never full");
    }
}

/// The test does not care which write finds no room first.
#[test]
fn writes_are_refused_while_the_disk_is_full_and_go_on_behind() {
    for level in LEVELS {
        for pages in (0..24).step_by(count_from_env("EVENDB_FLSM_FULL_DISK_STRIDE", 4) as usize) {
            let vfs = SimVfs::new(pages);
            let db = tiny_on(&vfs, level, pages).open(DIR).unwrap();
            let keyspace = db.default_keyspace();
            (0..100).for_each(|number| put(keyspace, number).unwrap());
            vfs.set_capacity(vfs.used_bytes() + pages * PAGE);
            let mut count = fill(keyspace, 100);
            // It stays full, and reports that again and again.
            for _ in 0..3 {
                count = fill(keyspace, count);
                check(keyspace, count, false);
            }
            let settled = db.settle_debt();
            assert!(settled.is_done_or_full(), "{pages}");
            vfs.set_capacity(u64::MAX);
            (count..count + 300).for_each(|number| put_at_last(keyspace, number));
            count += 300;
            settle(&db);
            check(keyspace, count, false);
            db.close().unwrap();
            let machine = vfs.crash(CrashMode::PowerLossAll);
            let db = tiny_on(&machine, level, pages).open(DIR).unwrap();
            check(db.default_keyspace(), count, false);
        }
    }
}

trait OrNoSpace {
    fn is_done_or_full(&self) -> bool;
}

impl OrNoSpace for Result<(), Error> {
    fn is_done_or_full(&self) -> bool {
        let kind = self.as_ref().err().map(Error::kind);
        kind.is_none_or(|kind| kind == ErrorKind::NoSpace)
    }
}

/// Settles. A call may get an earlier failure.
fn settle(db: &Db) {
    for _ in 0..10 {
        match db.settle_debt() {
            Ok(()) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::NoSpace, "{error:?}"),
        }
    }
    panic!("it never settles");
}

/// A life that ends on a full disk loses no acknowledged write.
#[test]
fn a_crash_on_a_full_disk_loses_nothing() {
    for (level, mode) in [
        (Durability::Process, CrashMode::Process),
        (Durability::Sync, CrashMode::PowerLossAll),
    ] {
        for pages in 0..12 {
            let vfs = SimVfs::new(pages);
            let db = tiny_on(&vfs, level, pages).open(DIR).unwrap();
            let keyspace = db.default_keyspace();
            (0..100).for_each(|number| put(keyspace, number).unwrap());
            vfs.set_capacity(vfs.used_bytes() + pages * PAGE);
            let count = fill(keyspace, 100);
            let machine = vfs.crash(mode);
            drop(db);
            machine.set_capacity(u64::MAX);
            let db = tiny_on(&machine, level, pages).open(DIR).unwrap();
            check(db.default_keyspace(), count, true);
        }
    }
}

/// Giving room back needs an edit of the manifest, for which room is kept.
#[test]
fn a_keyspace_is_dropped_on_a_full_disk_and_makes_room() {
    for level in [Durability::Process, Durability::Sync] {
        let vfs = SimVfs::new(1);
        let db = tiny_on(&vfs, level, 1).open(DIR).unwrap();
        let large = db.keyspace("large").unwrap();
        (0..2000).for_each(|number| put(&large, number).unwrap());
        settle(&db);
        vfs.set_capacity(vfs.used_bytes());
        let keyspace = db.default_keyspace();
        let count = fill(keyspace, 0);
        let error = db.keyspace("another").map(|keyspace| keyspace.id());
        assert!(error.is_ok(), "there is room for an edit: {error:?}");
        drop(large);
        db.drop_keyspace("large").unwrap();
        (count..count + 500).for_each(|number| put_at_last(keyspace, number));
        settle(&db);
        check(keyspace, count + 500, false);
    }
}

/// Makes edits until the reserved room is used up. The next one is refused and leaves nothing.
#[test]
fn an_edit_without_room_is_refused_and_made_later() {
    let vfs = SimVfs::new(1);
    let db = tiny_on(&vfs, Durability::Process, 1).open(DIR).unwrap();
    vfs.set_capacity(vfs.used_bytes());
    let name = |number: usize| format!("{number:0>200}");
    let mut made = 0;
    let error = loop {
        match db.keyspace(&name(made)) {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
        assert!(made < 10_000, "it is never full");
    };
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(made > 50, "{made} keyspaces");
    assert!(!db.keyspace_exists(&name(made)));
    vfs.set_capacity(u64::MAX);
    db.keyspace(&name(made)).unwrap();
    db.put("k", "v").unwrap();
    let machine = vfs.crash(CrashMode::PowerLossAll);
    let db = tiny_on(&machine, Durability::Process, 1).open(DIR).unwrap();
    assert_eq!(db.keyspace_names().len(), made + 2);
}

/// Tables of several pages: smaller tables give nothing back.
fn large_tables_on(vfs: &SimVfs, level: Durability, seed: u64) -> Options {
    tiny_on(vfs, level, seed).advanced(|advanced| {
        let advanced = advanced.write_buffer_bytes(32 << 10);
        let advanced = advanced.compression(Compression::None);
        advanced
            .last_guard_bytes(32 << 10)
            .table_bytes_max(64 << 10)
    })
}

/// The length of a whole ballast for such tables.
const BALLAST_BYTES: u64 = 512 << 10;

fn ballast() -> PathBuf {
    Path::new(DIR).join("BALLAST")
}

/// The bytes of it that no job had at that moment.
fn ballast_bytes(vfs: &SimVfs) -> u64 {
    let file = vfs.open(&ballast(), false);
    file.map_or(0, |file| file.len().unwrap())
}

/// Deletes nine of ten keys, and compacts where a delete is refused.
fn empty(db: &Db, count: u32, place: &str) {
    for number in (0..count).filter(|number| number % 10 > 0) {
        let is_deleted = |_: &u32| match db.delete(key(number)) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NoSpace, "{place}: {error:?}");
                let compacted = db.compact();
                compacted.unwrap_or_else(|error| panic!("{place} {number}: {error:?}"));
                false
            }
        };
        assert!((0..5).any(|time| is_deleted(&time)), "{place} {number}");
    }
    db.compact().unwrap();
}

/// Somebody else took all of the room that was kept back, while a job had it. Then an opening may
/// be refused, and reading goes on. With that room it opens, and with more room all goes on.
#[test]
fn a_database_whose_room_was_taken_is_read_and_opens_when_the_room_is_back() {
    let mut refused = 0;
    for seed in 0..6 {
        let vfs = SimVfs::new(seed);
        let options = |vfs: &SimVfs| large_tables_on(vfs, Durability::Process, seed);
        let db = options(&vfs).open(DIR).unwrap();
        vfs.set_capacity(2 << 20);
        let count = fill(db.default_keyspace(), 0);
        let machine = vfs.crash(CrashMode::Process);
        drop(db);
        if ballast_bytes(&machine) > 0 {
            machine.remove_file(&ballast());
        }
        machine.set_capacity(machine.used_bytes());
        let only_read = options(&machine).read_only(true).open(DIR).unwrap();
        check(only_read.default_keyspace(), count, true);
        drop(only_read);
        if let Err(error) = options(&machine).open(DIR) {
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{seed}: {error:?}");
            refused += 1;
        }
        machine.set_capacity(machine.used_bytes() + BALLAST_BYTES);
        let db = options(&machine).open(DIR).unwrap();
        check(db.default_keyspace(), count, true);
        machine.set_capacity(4 << 20);
        empty(&db, count, &format!("{seed}"));
        put_at_last(db.default_keyspace(), count);
    }
    assert!(refused > 0, "no opening needed the room");
}

/// Opened again and again on a disk without a free byte, by the room that is kept back. Deletes and
/// compactions go on there, and make room.
#[test]
fn a_database_opens_on_a_full_disk_and_is_emptied_there() {
    for level in [Durability::Process, Durability::Sync] {
        for seed in 0..3 {
            let place = format!("{level:?} {seed}");
            let vfs = SimVfs::new(seed);
            let open = |vfs: &SimVfs| large_tables_on(vfs, level, seed).open(DIR);
            let db = open(&vfs).unwrap();
            vfs.set_capacity(2 << 20);
            let count = fill(db.default_keyspace(), 0);
            assert!(count > 2_000, "{place}: {count}");
            let machine = vfs.crash(CrashMode::Process);
            drop(db);
            // A job may have been at work in the room that is kept back. Nobody else takes that
            // room.
            let taken = BALLAST_BYTES - ballast_bytes(&machine);
            machine.set_capacity(machine.used_bytes() + taken);
            for opening in 0..3 {
                let db = open(&machine);
                let db = db.unwrap_or_else(|error| panic!("{place} {opening}: {error:?}"));
                check(db.default_keyspace(), count, true);
            }
            let db = open(&machine).unwrap();
            empty(&db, count, &place);
            (count..count + 500).for_each(|number| put_at_last(db.default_keyspace(), number));
            for number in 0..count + 500 {
                let there = db.contains_key(key(number)).unwrap();
                assert_eq!(
                    there,
                    number % 10 == 0 || number >= count,
                    "{place} {number}"
                );
            }
        }
    }
}

/// Puts get nothing of the room that is kept back for deletes.
#[test]
fn deletes_go_on_where_puts_are_refused() {
    let vfs = SimVfs::new(1);
    let options = || tiny_on(&vfs, Durability::Process, 1).memory_budget(64 << 20);
    let options = || options().advanced(|advanced| advanced.write_buffer_bytes(1 << 20));
    let db = options().open(DIR).unwrap();
    vfs.set_capacity(vfs.used_bytes() + (1 << 20));
    let count = fill(db.default_keyspace(), 0);
    for number in 0..count.min(3_000) {
        assert!(put(db.default_keyspace(), count).is_err());
        db.delete(key(number)).unwrap();
    }
}

emptied::store!(Db, Error, ErrorKind::NoSpace);

#[test]
fn deletes_and_compactions_empty_full_file_systems_of_all_kinds() {
    let open = |dir: &Path| or_no_room(Options::new().memory_budget(64 << 20).open(dir));
    let test = "deletes_and_compactions_empty_full_file_systems_of_all_kinds, flsm";
    emptied::on_all_file_systems(test, &open);
}
