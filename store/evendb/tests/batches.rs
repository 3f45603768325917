//! Batches cost no more than the puts that they are made of: in memory, in waits, in checkpoints.
//! No clock is used; without workers everything happens inside the calls, at the same moments in
//! every run.

#[path = "common/layout.rs"]
mod layout;

use evendb::{Db, Stats};

fn open(dir: &tempfile::TempDir, memory_bytes: u64) -> Db {
    let options = layout::options().memory_budget(memory_bytes).workers(0);
    options.open(dir.path()).expect("opens")
}

/// One after the other: any thread of the process reclaims what other databases of the process
/// retire, so side by side they would see each other's memory.
#[test]
fn batches_cost_no_more_than_single_puts() {
    a_tiny_record_takes_at_most_72_bytes_alone_or_in_a_batch();
    batches_wait_no_more_than_single_puts_and_need_no_more_checkpoints();
    every_checkpoint_comes_when_half_of_the_room_is_used();
    the_memory_of_a_large_batch_comes_back_with_its_checkpoint();
}

/// A different key for each number, in random order.
fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()
}

/// Writes these records, as single puts if `batch` is 0; shows the database after every write.
fn fill(db: &Db, records: u64, value: &[u8], batch: u64, see: &mut dyn FnMut(&Db)) {
    if batch == 0 {
        for number in 0..records {
            db.put(key(number), value).expect("put");
            see(db);
        }
        return;
    }
    for first in (0..records).step_by(batch as usize) {
        let mut writes = db.batch();
        for number in first..(first + batch).min(records) {
            writes.put(db.default_keyspace(), key(number), value);
        }
        writes.commit().expect("commits");
        see(db);
    }
}

fn stats_after(records: u64, value: &[u8], batch: u64, memory_bytes: u64) -> Stats {
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir, memory_bytes);
    fill(&db, records, value, batch, &mut |_| ());
    let stats = db.stats();
    db.close().expect("closes");
    stats
}

/// The number of puts that waited because of room or debt.
fn waits(stats: &Stats) -> u64 {
    stats.pauses.room.count + stats.pauses.pace.count + stats.pauses.debt.count
}

/// 32 bytes of header and 9 of data, rounded up to 48; and at most 21 for the page's slot.
fn a_tiny_record_takes_at_most_72_bytes_alone_or_in_a_batch() {
    const RECORDS: u64 = 20_000;
    for batch in [0, 2, 5, 100, RECORDS] {
        let bytes = stats_after(RECORDS, b"1", batch, 64 << 20).memory.deltas;
        assert!(
            bytes <= 72 * RECORDS,
            "batches of {batch}: {} bytes a record",
            bytes as f64 / RECORDS as f64
        );
    }
}

fn batches_wait_no_more_than_single_puts_and_need_no_more_checkpoints() {
    for value in [&b""[..], b"1", &[7; 100], &[7; 1000]] {
        let records = (6 << 20) / (72 + value.len() as u64);
        let single = stats_after(records, value, 0, 8 << 20);
        assert_eq!(waits(&single), 0, "single puts, values of {}", value.len());
        assert!(single.checkpoints > 3);
        for batch in [2, 5, 10, 100] {
            let stats = stats_after(records, value, batch, 8 << 20);
            let what = format!("batches of {batch}, values of {} bytes", value.len());
            assert_eq!(waits(&stats), 0, "{what}");
            // A batch reaches half of the room, 512 KiB, one batch earlier.
            let batch_bytes = batch * (72 + value.len() as u64);
            let allowed = single.checkpoints + single.checkpoints * batch_bytes / (512 << 10);
            assert!(
                stats.checkpoints <= allowed,
                "{what}: {} checkpoints, {} with single puts",
                stats.checkpoints,
                single.checkpoints
            );
        }
    }
}

/// A checkpoint is due when records that it would free use half of the room. Deltas that only wait
/// for their grace period when it ends do not delay the next one.
fn every_checkpoint_comes_when_half_of_the_room_is_used() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir, 8 << 20);
    let mut most = 0;
    fill(&db, 60_000, b"1", 10, &mut |db| {
        most = most.max(db.stats().memory.deltas)
    });
    assert!(db.stats().checkpoints > 4);
    assert!(most < (1 << 20) * 6 / 10, "{most} bytes of deltas of 1 MiB");
}

/// However many records a batch has, it leaves one object to be reclaimed later, so that the memory
/// of deltas does not wait behind a hundred thousand others.
fn the_memory_of_a_large_batch_comes_back_with_its_checkpoint() {
    const RECORDS: u64 = 100_000;
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir, 512 << 20);
    fill(&db, RECORDS, b"1", RECORDS, &mut |_| ());
    assert!(db.stats().memory.deltas > 48 * RECORDS);
    db.settle_debt().expect("settles");
    assert_eq!(db.stats().memory.deltas, 0);
}
