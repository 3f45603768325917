//! Ranges and prefixes deleted as one record: what is hidden, from which readers, what that costs,
//! and how it survives in a batch, a transaction, a crash, a copy and a repair.

mod common;

use common::{DIR, is_about_chunks, on_sim};
use evendb::inspect::{
    Dump, DumpItem, DumpOptions, DumpValue, InspectOptions, RepairOptions, dump, repair, verify,
};
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{Db, Durability, ErrorKind, Keyspace};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// The longest time that the database's own jobs may take.
const PATIENCE: Duration = Duration::from_secs(120);

fn key(number: u32) -> Vec<u8> {
    format!("k{number:05}").into_bytes()
}

/// Many chunks, on disk.
fn loaded(vfs: &SimVfs, records: u32) -> Db {
    let db = on_sim(vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    for number in 0..records {
        db.put(key(number), [b'v'; 40]).expect("puts");
    }
    db.settle_debt().expect("settles");
    db
}

fn numbers(keyspace: &Keyspace) -> Vec<u32> {
    let number = |item: evendb::Result<(evendb::Value, evendb::Value)>| {
        let (key, _) = item.expect("scans");
        let digits = std::str::from_utf8(&key[1..]).expect("digits");
        digits.parse().expect("a number")
    };
    let forward: Vec<u32> = keyspace.iter().map(number).collect();
    let mut backward: Vec<u32> = keyspace.iter().rev().map(number).collect();
    backward.reverse();
    assert_eq!(forward, backward);
    forward
}

#[test]
fn of_a_batch_the_order_of_calls_decides() {
    let vfs = SimVfs::new(1);
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    let (a, b) = (
        db.default_keyspace().clone(),
        db.keyspace("other").expect("creates"),
    );
    for keyspace in [&a, &b] {
        for number in 0..10 {
            keyspace.put(key(number), "old").expect("puts");
        }
    }
    let mut batch = db.batch();
    batch.put(&a, key(3), "before").put(&b, key(3), "stays");
    batch.delete_range(&a, key(2)..key(6));
    batch.put(&a, key(4), "after").put(&a, key(12), "before");
    batch.delete_prefix(&a, "k00012").delete(&a, key(0));
    batch.put(&a, key(12), "after");
    assert_eq!((batch.len(), batch.is_empty()), (8, false));
    batch.commit().expect("commits");
    let expected = vec![1, 4, 6, 7, 8, 9, 12];
    let check = |db: &Db| {
        let (a, b) = (db.default_keyspace(), db.keyspace("other").expect("there"));
        assert_eq!(numbers(a), expected);
        assert_eq!(a.get(key(4)).expect("gets").as_deref(), Some(&b"after"[..]));
        assert_eq!(
            a.get(key(12)).expect("gets").as_deref(),
            Some(&b"after"[..])
        );
        assert_eq!(numbers(&b), (0..10).collect::<Vec<_>>());
        assert_eq!(b.get(key(3)).expect("gets").as_deref(), Some(&b"stays"[..]));
    };
    check(&db);
    // A batch of nothing but range deletions.
    let mut batch = db.batch();
    batch
        .delete_range(&a, key(20)..key(30))
        .delete_range(&a, key(25)..);
    batch.commit().expect("commits");
    check(&db);
    let machine = vfs.crash(CrashMode::Process);
    drop((a, b, db));
    let db = on_sim(&machine, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    check(&db);
    db.settle_debt().expect("settles");
    check(&db);
}

#[test]
fn limits_longer_than_any_key_are_limits_all_the_same() {
    let vfs = SimVfs::new(1);
    let db = on_sim(&vfs, Durability::Process, 0)
        .memory_budget(8 << 20)
        .open(DIR)
        .expect("opens");
    let longest = |last: u8| [&vec![b'x'; 65_534][..], &[last]].concat();
    let put = || {
        for last in [0, 1, 0xff] {
            db.put(longest(last), "v").expect("puts");
        }
        db.put("y", "v").expect("puts");
    };
    let left = || db.iter().count();
    put();
    // An excluded low limit and an included high one are a byte longer than the key.
    let (low, high) = (longest(0), longest(1));
    db.delete_range::<Vec<u8>>((Bound::Excluded(low), Bound::Included(high)))
        .expect("deletes");
    assert_eq!(left(), 3);
    assert!(!db.contains_key(longest(1)).expect("gets"));
    let endless = vec![0xff; 70_000];
    db.delete_range(&endless[..]..).expect("deletes nothing");
    assert_eq!(left(), 3);
    db.delete_range(..&endless[..]).expect("deletes all");
    assert_eq!(left(), 0);
    put();
    db.delete_range([&longest(0)[..], b"more"].concat()..)
        .expect("deletes");
    assert_eq!(left(), 1);
    db.delete_prefix("").expect("deletes all");
    assert_eq!(left(), 0);
    db.close().expect("closes");
}

#[test]
fn a_scan_over_what_is_covered_reads_nothing_of_it() {
    let vfs = SimVfs::new(1);
    let options = || {
        on_sim(&vfs, Durability::Process, 0)
            .advanced(|advanced| advanced.munks(false).row_cache(false))
    };
    let db = options().open(DIR).expect("opens");
    for number in 0..4_000 {
        db.put(key(number), [b'v'; 40]).expect("puts");
    }
    db.settle_debt().expect("settles");
    let snapshot = db.snapshot().expect("a snapshot");
    db.delete_range(key(100)..key(3_900)).expect("deletes");
    db.put(key(2_000), "new").expect("puts");
    db.flush().expect("a checkpoint");
    let expected: Vec<u32> = (0..100).chain([2_000]).chain(3_900..4_000).collect();
    let before = db.stats();
    assert_eq!(numbers(db.default_keyspace()), expected);
    assert_eq!(db.get(key(700)).expect("gets"), None);
    let after = db.stats();
    let all = after.sstable_bytes + after.log_bytes;
    let read = vfs_bytes(&before, &after);
    assert!(read < all / 4, "{read} of {all}");
    assert_eq!(snapshot.iter(db.default_keyspace()).count(), 4_000);
    db.settle_debt().expect("settles");
    assert!(db.stats().space.range_tombstones > 0);
    drop(snapshot);
    db.settle_debt().expect("settles");
    assert_eq!(numbers(db.default_keyspace()), expected);
    db.idle_pass().expect("idles");
    db.compact().expect("compacts");
    assert_eq!(numbers(db.default_keyspace()), expected);
    db.settle_debt().expect("settles");
    let stats = db.stats();
    assert!(stats.data_bytes < 300 * 60, "{stats}");
    db.close().expect("closes");
}

fn vfs_bytes(before: &evendb::Stats, after: &evendb::Stats) -> u64 {
    after.bytes_read - before.bytes_read
}

#[test]
fn many_alive_at_once_hide_what_they_should() {
    let vfs = SimVfs::new(1);
    let db = loaded(&vfs, 3_000);
    let snapshot = db.snapshot().expect("a snapshot");
    for start in (0..3_000).step_by(5) {
        db.delete_range(key(start)..key(start + 2))
            .expect("deletes");
        if start % 50 == 0 {
            db.put(key(start + 1), "again").expect("puts");
        }
    }
    let expected: Vec<u32> = (0..3_000)
        .filter(|number| number % 5 >= 2 || number % 50 == 1)
        .collect();
    for round in 0..3 {
        assert_eq!(numbers(db.default_keyspace()), expected, "round {round}");
        for number in (0..3_000).step_by(7) {
            let there = db.contains_key(key(number)).expect("gets");
            assert_eq!(there, expected.binary_search(&number).is_ok(), "{number}");
        }
        assert_eq!(snapshot.iter(db.default_keyspace()).count(), 3_000);
        db.settle_debt().expect("settles");
    }
    drop(snapshot);
    let machine = vfs.crash(CrashMode::PowerLossNothing);
    drop(db);
    let db = on_sim(&machine, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    assert_eq!(numbers(db.default_keyspace()), expected);
    db.compact().expect("compacts");
    assert_eq!(numbers(db.default_keyspace()), expected);
    assert!(db.stats().data_bytes > 0);
}

#[test]
fn a_transaction_sees_its_own_and_meets_others() {
    let vfs = SimVfs::new(1);
    let db = loaded(&vfs, 20);
    let keyspace = db.default_keyspace().clone();
    let mut transaction = db.transaction().expect("begins");
    transaction.put(&keyspace, key(5), "mine").expect("puts");
    transaction
        .delete_range(&keyspace, key(4)..key(12))
        .expect("deletes");
    transaction.put(&keyspace, key(6), "after").expect("puts");
    let savepoint = transaction.savepoint();
    transaction
        .delete_prefix(&keyspace, "k0001")
        .expect("deletes");
    transaction.put(&keyspace, key(15), "later").expect("puts");
    assert_eq!(transaction.get(&keyspace, key(5)).expect("gets"), None);
    assert!(transaction.contains_key(&keyspace, key(6)).expect("gets"));
    assert_eq!(transaction.iter(&keyspace).expect("scans").count(), 6);
    transaction.rollback_to(savepoint).expect("rolls back");
    assert_eq!(transaction.get(&keyspace, key(10)).expect("gets"), None);
    assert!(transaction.contains_key(&keyspace, key(13)).expect("gets"));
    let seen: Vec<_> = transaction.iter(&keyspace).expect("scans").rev().collect();
    assert_eq!(seen.len(), 4 + 1 + 8);
    drop(seen);
    transaction.commit().expect("nothing came between");
    let expected: Vec<u32> = (0..4).chain([6]).chain(12..20).collect();
    assert_eq!(numbers(&keyspace), expected);

    // A range deletion hits spans that were read before: keys that existed, and ranges.
    type Read = fn(&evendb::Transaction, &Keyspace);
    let reads: [Read; 3] = [
        |transaction, keyspace| drop(transaction.get(keyspace, key(2)).expect("gets")),
        |transaction, keyspace| {
            let range = transaction.range(keyspace, key(0)..key(4));
            assert_eq!(range.expect("scans").count(), 4);
        },
        |transaction, keyspace| drop(transaction.get(keyspace, key(17)).expect("gets")),
    ];
    for (index, read) in reads.iter().enumerate() {
        for checkpoint in [false, true] {
            let mut transaction = db.transaction().expect("begins");
            read(&transaction, &keyspace);
            db.put(key(2), "there again").expect("puts");
            let mut transaction_again = db.transaction().expect("begins");
            read(&transaction_again, &keyspace);
            drop(transaction);
            db.delete_range(key(2)..key(3)).expect("deletes");
            if checkpoint {
                db.flush().expect("a checkpoint");
            }
            transaction_again.put(&keyspace, "z", "z").expect("puts");
            let outcome = transaction_again.commit();
            match index {
                2 => outcome.expect("nothing that it read has changed"),
                _ => assert_eq!(outcome.expect_err("refused").kind(), ErrorKind::Conflict),
            }
            transaction = db.transaction().expect("begins");
            transaction.put(&keyspace, key(2), "back").expect("puts");
            transaction.delete_range(&keyspace, "z"..).expect("deletes");
            transaction.commit().expect("it read nothing");
        }
    }
    assert!(!db.contains_key("z").expect("gets"));
}

/// The manifest has a range deletion, and so has the commit log.
fn with_both(vfs: &SimVfs) -> (Db, Vec<u32>) {
    let db = loaded(vfs, 600);
    let snapshot = db.snapshot().expect("a snapshot");
    db.delete_range(key(100)..key(350)).expect("deletes");
    db.put(key(200), "after").expect("puts");
    db.settle_debt().expect("settles");
    db.delete_range(key(400)..key(450)).expect("deletes");
    db.put(key(401), "after").expect("puts");
    drop(snapshot);
    let kept = (0..100)
        .chain([200])
        .chain(350..400)
        .chain([401])
        .chain(450..600);
    (db, kept.collect())
}

fn inspect(vfs: &SimVfs) -> InspectOptions<'static> {
    InspectOptions::new().vfs(Arc::new(vfs.clone()))
}

#[test]
fn they_are_seen_by_inspection_and_kept_by_copy_and_repair() {
    let vfs = SimVfs::new(1);
    let (db, expected) = with_both(&vfs);
    let machine = vfs.fork_state().crash(CrashMode::Process);
    db.copy_to("/copy").expect("copies");
    drop(db);
    let report = verify(DIR, inspect(&machine)).expect("looks");
    assert!(report.is_sound(), "{:#?}", report.findings);
    let count = |what: Dump, wanted: &dyn Fn(&DumpItem) -> bool| {
        let mut found = 0;
        dump(
            DIR,
            &what,
            &DumpOptions::default(),
            inspect(&machine),
            &mut |item| {
                found += u32::from(wanted(&item));
                ControlFlow::Continue(())
            },
        )
        .expect("dumps");
        found
    };
    assert!(count(Dump::Manifest, &|item| item.kind == "range-deletion") > 0);
    let deletes = |item: &DumpItem| {
        let is_it = |value: &DumpValue| *value == DumpValue::Text("delete-range".to_owned());
        item.fields.iter().any(|(_, value)| is_it(value))
    };
    assert_eq!(count(Dump::CommitLog, &deletes), 1);
    repair(
        DIR,
        "/repaired",
        RepairOptions::default(),
        inspect(&machine),
    )
    .expect("repairs");
    let open = |vfs: &SimVfs, dir: &str, read_only: bool| {
        let options = on_sim(vfs, Durability::Process, 0).read_only(read_only);
        options.open(dir).expect("opens")
    };
    for read_only in [true, false] {
        for (vfs, dir) in [(&machine, DIR), (&machine, "/repaired"), (&vfs, "/copy")] {
            let db = open(vfs, dir, read_only);
            assert_eq!(numbers(db.default_keyspace()), expected, "{dir}");
            let old = db.get(key(200)).expect("gets");
            assert_eq!(old.as_deref(), Some(&b"after"[..]), "{dir}");
        }
    }
}

/// With threads the room comes back by itself.
#[test]
fn a_deleted_prefix_gives_its_room_back_while_nothing_is_put() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = common::options()
        .memory_budget(8 << 20)
        .advanced(|advanced| advanced.chunk_bytes(64 << 10));
    let db = options.open(dir.path()).expect("opens");
    for prefix in ["a", "b"] {
        for number in 0..20_000 {
            db.put(format!("{prefix}/{number:06}"), [7; 100])
                .expect("puts");
        }
    }
    db.flush().expect("a checkpoint");
    db.settle_debt().expect("settles");
    let before = db.stats().data_bytes;
    let started = Instant::now();
    db.delete_prefix("a/").expect("deletes");
    db.delete_range("b/000100".."b/000200").expect("deletes");
    while db.stats().data_bytes > before * 6 / 10 {
        assert!(started.elapsed() < PATIENCE, "{}", db.stats());
        thread::sleep(Duration::from_millis(100));
    }
    // Guards may have brought both prefixes into one table, which is written again then.
    assert!(db.stats().tables_dropped_unread > 0 || !common::has_chunks());
    assert_eq!(db.iter().count(), 19_900);
    db.close().expect("closes");
}

/// Images in RAM stay when a range deletion has been applied, without the records that it hides.
#[test]
fn what_is_in_ram_stays_there_when_a_range_deletion_leaves() {
    // Munks are of chunks alone.
    let _chunks = is_about_chunks();
    const RECORDS: u32 = 4_000;
    let vfs = SimVfs::new(1);
    let db = on_sim(&vfs, Durability::Process, 0)
        .memory_budget(16 << 20)
        .advanced(|advanced| advanced.chunk_bytes(64 << 10).row_cache(false))
        .open(DIR)
        .expect("opens");
    for number in 0..RECORDS {
        db.put(key(number), [b'v'; 40]).expect("puts");
    }
    db.settle_debt().expect("settles");
    let read_by_gets = || {
        let before = db.stats();
        let found = (0..RECORDS).filter(|&number| db.contains_key(key(number)).expect("gets"));
        (found.count(), vfs_bytes(&before, &db.stats()))
    };
    let mut rounds = 0;
    while read_by_gets().1 > 0 {
        rounds += 1;
        assert!(rounds < 30, "not all of it comes into RAM");
        // Without threads this call loads the spans that gets have asked for.
        db.settle_debt().expect("settles");
    }
    db.put(key(700), "new").expect("puts");
    for start in (0..RECORDS).step_by(400) {
        db.delete_range(key(start)..key(start + 20))
            .expect("deletes");
    }
    db.put(key(810), "again").expect("puts");
    db.compact().expect("rewrites all chunks");
    assert_eq!(
        db.stats().space.range_tombstones,
        0,
        "they have been applied"
    );
    let left = (RECORDS - 10 * 20 + 1) as usize;
    assert_eq!(read_by_gets(), (left, 0));
    assert_eq!(db.iter().count(), left);
    db.close().expect("closes");
}

/// Hundreds of thousands of range deletions, more than the memory budget could hold: they are made
/// durable, and applied, as they come. Threads that get little processor time may be behind for a
/// while, and then the range deletions that they have not applied become fewer by themselves.
#[test]
fn range_deletions_without_end_take_a_part_of_the_memory() {
    const DELETIONS: u32 = 120_000;
    const BUDGET: u64 = 8 << 20;
    for workers in [0, 2] {
        let vfs = SimVfs::new(1);
        let db = on_sim(&vfs, Durability::Process, workers)
            .memory_budget(BUDGET)
            .advanced(|advanced| advanced.chunk_bytes(64 << 10).commit_log_bytes(64 << 20))
            // Guards of some size: each of thousands of tiny ones would be written again for
            // each few hundred range deletions.
            .advanced(|advanced| {
                let large = 64 << 10;
                advanced.guards(|guards| guards.last_guard_bytes(large).table_bytes_max(large))
            })
            .open(DIR)
            .expect("opens");
        let mut model = std::collections::BTreeSet::new();
        let put = |number: u32| db.put(key(number), [b'v'; 40]).expect("puts");
        for number in (0..99_990).step_by(5) {
            put(number);
            model.insert(number);
        }
        let is_much = || {
            let metadata = db.stats().memory.metadata;
            assert!(
                workers > 0 || metadata < BUDGET * 5 / 8,
                "{metadata} bytes of metadata"
            );
            metadata >= BUDGET * 5 / 8
        };
        for number in 0..DELETIONS {
            let place = number.wrapping_mul(2_654_435_761) % 99_990;
            db.delete_range(key(place)..key(place + 3))
                .expect("deletes");
            let gone: Vec<u32> = model.range(place..place + 3).copied().collect();
            for number in gone {
                model.remove(&number);
            }
            if number % 4 == 0 {
                put(place + 1);
                model.insert(place + 1);
            }
            let looked = Instant::now();
            while number % 512 == 0 && is_much() {
                assert!(looked.elapsed() < PATIENCE, "{}", db.stats());
                thread::sleep(Duration::from_millis(10));
            }
        }
        let seen = numbers(db.default_keyspace());
        assert!(seen.iter().eq(&model), "{workers} workers: other records");
        db.close().expect("closes");
    }
}

#[test]
fn what_is_refused_changes_nothing() {
    let vfs = SimVfs::new(1);
    let db = loaded(&vfs, 10);
    let other = {
        let vfs = SimVfs::new(2);
        loaded(&vfs, 1)
    };
    let mut batch = db.batch();
    batch.delete_prefix(other.default_keyspace(), "k");
    assert_eq!(
        batch.commit().expect_err("refused").kind(),
        ErrorKind::InvalidArgument
    );
    let gone = db.keyspace("gone").expect("creates");
    db.drop_keyspace("gone").expect("drops");
    for refused in [gone.delete_range("a".."z"), gone.delete_range("z".."a")] {
        assert_eq!(
            refused.expect_err("refused").kind(),
            ErrorKind::KeyspaceDropped
        );
    }
    drop(gone);
    assert_eq!(numbers(db.default_keyspace()).len(), 10);
    db.close().expect("closes");
    let db = on_sim(&vfs, Durability::Process, 0)
        .read_only(true)
        .open(DIR)
        .expect("opens");
    assert_eq!(
        db.delete_prefix("k").expect_err("refused").kind(),
        ErrorKind::ReadOnly
    );
}

/// Found by `programs`: a batch that deleted ranges of two keyspaces filed the rows of both under
/// one tag, so that a get of one was answered from a row of the other.
#[test]
fn rows_of_two_keyspaces_stay_apart_after_one_batch_deletes_ranges_of_both() {
    let vfs = SimVfs::new(1);
    let options = on_sim(&vfs, Durability::Process, 0);
    let options = options.advanced(|advanced| advanced.munks(false));
    let db = options.open(DIR).expect("opens");
    let other = db.keyspace("other").expect("a keyspace");
    db.put("k", "of the default keyspace").expect("puts");
    other.put("l", "").expect("puts");
    db.settle_debt().expect("settles");
    let mut batch = db.batch();
    batch.delete_range(db.default_keyspace(), "x".."y");
    batch.delete_range(&other, "x".."y");
    batch.commit().expect("commits");
    db.settle_debt().expect("settles");
    for _ in 0..2 {
        assert!(db.get("k").expect("gets").is_some());
    }
    assert!(db.stats().gets.row_cache > 0, "no row was made");
    assert!(other.get("k").expect("gets").is_none());
    let mut transaction = db.transaction().expect("begins");
    for keyspace in [db.default_keyspace(), &other] {
        let deleted = transaction.delete_prefix(keyspace, "x");
        deleted.expect("deletes");
    }
    transaction.commit().expect("commits");
    db.settle_debt().expect("settles");
    for _ in 0..2 {
        assert!(db.get("k").expect("gets").is_some());
    }
    assert!(other.get("k").expect("gets").is_none());
}

/// Found by `programs`: a write to a dropped keyspace was refused only after it had queued the
/// chunk, and the next checkpoint named range deletions of a chunk that the manifest did not have
/// any more.
#[test]
fn a_write_to_a_dropped_keyspace_leaves_nothing_for_a_checkpoint() {
    let vfs = SimVfs::new(1);
    let open = || on_sim(&vfs, Durability::Process, 0).open(DIR);
    let db = open().expect("opens");
    let gone = db.keyspace("gone").expect("creates");
    gone.put("k", "v").expect("puts");
    db.flush().expect("flushes");
    gone.delete_prefix("k").expect("deletes");
    db.drop_keyspace("gone").expect("drops");
    db.flush().expect("flushes");
    let refused = gone.put("k", "v").expect_err("refused");
    assert_eq!(refused.kind(), ErrorKind::KeyspaceDropped);
    db.put("other", "v").expect("puts");
    db.flush().expect("flushes");
    drop(gone);
    db.close().expect("closes");
    let db = open().expect("opens");
    assert!(db.get("other").expect("gets").is_some());
}
