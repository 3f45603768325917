//! Overwritten and deleted records give their space back, and no reader misses a record that it
//! still needs.

use evendb::vfs::{CrashMode, SimVfs};
use evendb::{Db, Options};
use std::sync::Arc;

fn options(vfs: &SimVfs) -> Options {
    Options::new()
        .vfs(Arc::new(vfs.clone()))
        .workers(0)
        .memory_budget(1 << 20)
        .advanced(|advanced| advanced.chunk_bytes(16 << 10).munks(false))
}

fn key(prefix: u8, number: u32) -> [u8; 5] {
    let [a, b, c, d] = number.to_le_bytes();
    [prefix, d, c, b, a]
}

const RECORDS: u32 = 4_000;

/// Two prefixes, each of many chunks, all on disk.
fn loaded(vfs: &SimVfs) -> Db {
    let db = options(vfs).open("/db").expect("opens");
    for prefix in [b'a', b'b'] {
        for number in 0..RECORDS {
            db.put(key(prefix, number), [prefix; 100])
                .expect("there is room");
        }
    }
    db.settle_debt().expect("nothing fails");
    db
}

fn count(db: &Db, prefix: u8) -> usize {
    let mut count = 0;
    for record in db.prefix([prefix]) {
        record.expect("it can be read");
        count += 1;
    }
    count
}

#[test]
fn a_deleted_prefix_returns_its_tables_without_reading_them() {
    let vfs = SimVfs::new(1);
    let db = loaded(&vfs);
    let before = db.stats();
    assert!(before.chunks > 50, "{}", before.chunks);
    let read = before.bytes_read;
    let logged = before.bytes_written.commit_log;
    db.delete_prefix("a").unwrap();
    let deleted = db.stats();
    assert_eq!(deleted.bytes_read, read);
    assert!(deleted.bytes_written.commit_log - logged < 100);
    let written = deleted.bytes_written.sstable;
    db.settle_debt().unwrap();
    let after = db.stats();
    assert_eq!(after.bytes_read, read);
    assert_eq!((after.range_deletes, after.space.range_tombstones), (1, 0));
    assert!(after.tables_dropped_unread > before.chunks / 3);
    // Neighbours that became small are merged; nothing else is written.
    let rewritten = after.bytes_written.sstable - written;
    assert!(rewritten < before.sstable_bytes / 4, "{rewritten}");
    assert!(after.sstable_bytes < before.sstable_bytes * 6 / 10);
    assert!(
        after.log_bytes < before.sstable_bytes / 10,
        "{}",
        after.log_bytes
    );
    assert!(after.chunks < before.chunks * 6 / 10, "{}", after.chunks);
    let space = after.space;
    assert!(
        space.live_bytes < before.space.live_bytes * 6 / 10,
        "{space:?}"
    );
    assert_eq!((count(&db, b'a'), count(&db, b'b')), (0, RECORDS as usize));
    db.close().unwrap();
    let db = options(&vfs).open("/db").unwrap();
    assert_eq!((count(&db, b'a'), count(&db, b'b')), (0, RECORDS as usize));
}

#[test]
fn a_snapshot_keeps_what_was_deleted_and_then_gives_it_back() {
    let vfs = SimVfs::new(2);
    let db = loaded(&vfs);
    let before = db.stats();
    let snapshot = db.snapshot().unwrap();
    db.put(key(b'a', 7), "new").unwrap();
    db.delete_prefix("a").unwrap();
    db.put(key(b'a', 9), "newer").unwrap();
    db.settle_debt().unwrap();
    let keyspace = db.default_keyspace();
    let old = snapshot.get(keyspace, key(b'a', 7)).unwrap();
    assert_eq!(old.as_deref(), Some(&[b'a'; 100][..]));
    assert_eq!(count(&db, b'a'), 1);
    assert!(db.stats().sstable_bytes >= before.sstable_bytes);
    drop(snapshot);
    db.settle_debt().unwrap();
    assert_eq!(count(&db, b'a'), 1);
    assert_eq!(
        db.get(key(b'a', 9)).unwrap().as_deref(),
        Some(&b"newer"[..])
    );
    let after = db.stats();
    assert!(
        after.sstable_bytes < before.sstable_bytes * 6 / 10,
        "{after}"
    );
}

#[test]
fn a_crash_between_the_deletion_and_the_edit_that_drops_tables_loses_nothing() {
    let vfs = SimVfs::new(3);
    let db = loaded(&vfs);
    db.delete_prefix("a").unwrap();
    db.flush().unwrap();
    let vfs = vfs.crash(CrashMode::PowerLossNothing);
    drop(db);
    let db = options(&vfs).open("/db").unwrap();
    assert_eq!((count(&db, b'a'), count(&db, b'b')), (0, RECORDS as usize));
    let before = db.stats().sstable_bytes;
    db.settle_debt().unwrap();
    assert!(db.stats().sstable_bytes < before * 6 / 10);
    assert_eq!((count(&db, b'a'), count(&db, b'b')), (0, RECORDS as usize));
}

/// The work of an idle database, started by a tick instead of the time: garbage within the space
/// budget goes, down to a third of the budget, once.
#[test]
fn an_idle_database_pays_garbage_below_its_budget() {
    let vfs = SimVfs::new(5);
    let db = options(&vfs).open("/db").unwrap();
    for round in 0..12 {
        for number in 0..RECORDS {
            let number = (number * 2_477 + round) % RECORDS;
            db.put(key(b'a', number), [round as u8; 100]).unwrap();
        }
    }
    let garbage = |stats: &evendb::Stats| {
        let space = stats.space;
        space.garbage_log_bytes + space.garbage_sstable_bytes
    };
    // The garbage left below the budget depends on the time at which chunks were rewritten: puts
    // continue until there is some to remove.
    let mut rounds = 0;
    let (busy, target) = loop {
        db.settle_debt().unwrap();
        let busy = db.stats();
        let target = busy.space.live_bytes / 12;
        rounds += 1;
        if garbage(&busy) > target || rounds == 40 {
            break (busy, target);
        }
        for number in 0..RECORDS / 16 {
            let number = (number * 16 + rounds) % RECORDS;
            db.put(key(b'a', number), [11; 100]).unwrap();
        }
    };
    assert!(garbage(&busy) > target, "nothing to do: {:?}", busy.space);
    assert!(db.idle_pass().unwrap() > 0);
    let idle = db.stats();
    assert!(garbage(&idle) <= target + target / 8, "{:?}", idle.space);
    let disk_bytes = |stats: &evendb::Stats| {
        let space = stats.space;
        space.disk_bytes - space.deletion_pending_bytes
    };
    assert!(disk_bytes(&idle) < disk_bytes(&busy));
    // Only about the live bytes are written.
    let written = idle.bytes_written.sstable - busy.bytes_written.sstable;
    assert!(written <= busy.space.live_bytes * 11 / 10, "{written}");
    // The work is done, and stays done.
    assert_eq!(db.idle_pass().unwrap(), 0);
    assert_eq!(db.stats().bytes_written.sstable, idle.bytes_written.sstable);
    assert_eq!(count(&db, b'a'), RECORDS as usize);
    db.close().unwrap();
    let db = options(&vfs).open("/db").unwrap();
    for number in 0..RECORDS {
        let value = db.get(key(b'a', number)).unwrap();
        assert_eq!(value.as_deref(), Some(&[11; 100][..]));
    }
}

/// A database with the paper's log limits keeps them, idle or not.
#[test]
fn fixed_limits_stay_when_idle() {
    let vfs = SimVfs::new(6);
    let options = options(&vfs).advanced(|advanced| advanced.log_bytes_limits(8 << 10, 8 << 10));
    let db = options.open("/db").unwrap();
    for number in 0..3 * RECORDS {
        let number = number * 2_477 % RECORDS;
        db.put(key(b'a', number), [1; 100]).unwrap();
    }
    assert_eq!(db.idle_pass().unwrap(), 0);
    assert_eq!(count(&db, b'a'), RECORDS as usize);
}

#[test]
fn the_log_container_shrinks() {
    let vfs = SimVfs::new(4);
    // One chunk with a log of many times its data.
    let options = options(&vfs).memory_budget(16 << 20).advanced(|advanced| {
        advanced
            .chunk_bytes(64 << 20)
            .log_bytes_limits(64 << 20, 64 << 20)
    });
    let db = options.open("/db").unwrap();
    // Other keys each time, out of order: overwritten ones would go when runs are merged.
    for round in 0..20 {
        for number in 0..RECORDS {
            let number = (number * 20 + round) * 7_919 % (RECORDS * 20);
            db.put(key(b'a', number), [1; 100]).unwrap();
        }
        db.flush().unwrap();
    }
    let grown = db.stats();
    db.delete_prefix("").unwrap();
    db.settle_debt().unwrap();
    // Pins of other tests' threads may keep dropped objects for a while.
    while db.stats().space.deletion_pending_bytes > 0 {
        std::thread::yield_now();
        db.settle_debt().unwrap();
    }
    let emptied = db.stats().space;
    let logs = grown.log_bytes;
    assert!(logs > 8 << 20, "{logs}");
    let disk = emptied.disk_bytes - emptied.commit_log_bytes - emptied.ballast_bytes;
    assert!(disk < logs / 2, "{disk} of {logs}: {emptied:?}");
    // The room that was given back is taken again.
    for number in 0..RECORDS {
        db.put(key(b'a', number), [1; 100]).unwrap();
    }
    db.settle_debt().unwrap();
    assert_eq!(count(&db, b'a'), RECORDS as usize);
}
