//! A small batch does not ask the allocator for more than the puts that it is made of: its
//! temporary data lies on the stack, and its stamp is one that exists already.
//!
//! This is a binary of its own, because it counts the requests to the allocator. Without workers
//! everything happens inside the calls. Records and pages of deltas are in slabs, so they are not
//! allocated one by one; single puts allocate only for pages that grow.
#![expect(unsafe_code, reason = "an allocator that counts")]

use evendb::{Db, Options};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ASKED.try_with(|asked| asked.set(asked.get() + 1));
        // SAFETY: the caller ensures it.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller ensures it.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let _ = ASKED.try_with(|asked| asked.set(asked.get() + 1));
        // SAFETY: the caller ensures it.
        unsafe { System.realloc(memory, layout, bytes) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn asked(run: impl FnOnce()) -> u64 {
    let before = ASKED.get();
    run();
    ASKED.get() - before
}

const RECORDS: u64 = 6000;

/// A different key for each number, in random order.
fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()
}

/// The allocator's calls for `RECORDS` new records in `keyspaces` keyspaces, in batches of `batch`
/// records; 0 stands for single puts.
fn calls_of(batch: u64, keyspaces: u64) -> u64 {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options::new().memory_budget(64 << 20).workers(0);
    let db: Db = options.open(dir.path()).expect("opens");
    let named = |n: u64| match n {
        0 => db.default_keyspace().clone(),
        n => db.keyspace(&format!("keyspace {n}")).expect("a keyspace"),
    };
    let handles: Vec<_> = (0..keyspaces).map(named).collect();
    let handle = |number: u64| &handles[(number % keyspaces) as usize];
    let fill = |first: u64, records: u64| {
        for start in (first..first + records).step_by(batch.max(1) as usize) {
            if batch == 0 {
                handle(start).put(key(start), b"1").expect("puts");
                continue;
            }
            let mut writes = db.batch();
            for number in start..(start + batch).min(first + records) {
                writes.put(handle(number), key(number), b"1");
            }
            writes.commit().expect("commits");
        }
    };
    // The first puts allocate what a database allocates once.
    fill(RECORDS, 200);
    let calls = asked(|| fill(0, RECORDS));
    db.close().expect("closes");
    calls
}

/// Before stamps were claimed words, and temporary data was on the stack, a batch of 2 in one chunk
/// made two requests more than two puts.
#[test]
fn a_small_batch_asks_the_allocator_no_more_than_single_puts() {
    let single = calls_of(0, 1);
    for batch in [1, 2, 3, 5, 8] {
        let calls = calls_of(batch, 1);
        // Objects that wait for their grace period are handed over in bags of 64, at moments that
        // differ.
        assert!(
            calls <= single + single / 20 + 20,
            "{calls} calls in batches of {batch}, {single} by single puts"
        );
    }
    // Two lists grow: the writes, and their operations.
    let calls = calls_of(16, 1);
    assert!(
        calls <= single + single / 20 + 20 + 2 * RECORDS.div_ceil(16),
        "{calls} calls in batches of 16, {single} by single puts"
    );
}

/// Two chunks: earlier, a batch of 2 made six requests more than two puts.
#[test]
fn a_small_batch_over_two_keyspaces_asks_the_allocator_no_more_than_single_puts() {
    let single = calls_of(0, 2);
    for batch in [2, 4, 8] {
        let calls = calls_of(batch, 2);
        assert!(
            calls <= single + single / 20 + 20,
            "{calls} calls in batches of {batch}, {single} by single puts"
        );
    }
}

/// The allocator's calls of a watch that passes over this number of records.
fn calls_of_passing_over(records: u64) -> u64 {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options::new().memory_budget(64 << 20).workers(0);
    let db: Db = options.open(dir.path()).expect("opens");
    let mut watch = db
        .default_keyspace()
        .watch_prefix("watched")
        .expect("a log");
    for number in 0..records {
        db.put(key(number), [7; 100]).expect("puts");
    }
    asked(|| assert!(watch.next().is_none()))
}

#[test]
fn what_a_watch_passes_over_is_not_copied() {
    let (few, many) = (calls_of_passing_over(100), calls_of_passing_over(RECORDS));
    // The reader's buffer, which grows to its full size.
    assert!(many <= few + 4, "{many} after {few}");
}
