//! The steps of a checkpoint on a bench, and what is left of one that found no room.

use super::*;
use crate::rebalance::bench::Bench;
use evendb_storage::vfs::read_exact_at;

/// Steps 2 to 4 up to where runs are written.
fn written(bench: &Bench) -> (u64, Vec<PendingRun>) {
    let next = checkpoint_of(bench.core.clock.advance_checkpoint());
    let number = next - 1;
    let horizon = bench.core.clock.horizon();
    let mut runs = Vec::new();
    let Bench {
        core, disk, flow, ..
    } = bench;
    write_runs(core, disk, flow, number, next, &horizon, &mut runs).unwrap();
    (number, runs)
}

impl Bench {
    /// All steps, without a commit log.
    pub(crate) fn checkpoint(&self) {
        let (number, runs) = written(self);
        complete(&self.core, &self.disk, number, Lsn(0), &runs).unwrap();
        for run in runs {
            publish_run(&self.context(), &self.caches, run);
        }
    }
}

fn named_tables(bench: &Bench) -> usize {
    bench.disk.manifest().with_state(|state| {
        let chunks = state.chunks.values();
        chunks.map(|chunk| chunk.parts.len()).sum()
    })
}

/// Tables that go to scattered places are all written, and what was written does not gather in RAM.
#[test]
fn scattered_tables_are_written_and_leave_the_buffer() {
    const TABLE_BYTES: usize = 100_000;
    let bench = Bench::new();
    let container = &bench.disk.container;
    let mut writer = Gatherer::new(container, bench.core.ledger());
    let (mut tables, mut kept) = (Vec::new(), Vec::new());
    for number in 0..100_u8 {
        let from = writer.begin().unwrap();
        writer.buffer.resize(from + TABLE_BYTES, number);
        let offset = container.allocate(TABLE_BYTES as u64).unwrap();
        // Every third one has the next one for its neighbour.
        if number % 3 > 0 {
            kept.push(container.allocate(512).unwrap());
        }
        writer.place(from, offset).unwrap();
        assert!(writer.buffer.len() <= WRITE_BYTES + 2 * TABLE_BYTES);
        assert!(writer.charge.bytes() >= writer.buffer.len());
        tables.push((offset, number));
    }
    writer.flush().unwrap();
    let path = bench.disk.dir.join(CONTAINER);
    let file = bench.disk.vfs.open(&path, false).unwrap();
    for (offset, number) in tables {
        let mut bytes = vec![!number; TABLE_BYTES];
        read_exact_at(&*file, &mut bytes, offset).unwrap();
        assert!(bytes.iter().all(|&byte| byte == number), "table {number}");
    }
    for offset in kept {
        let mut bytes = [1; 512];
        read_exact_at(&*file, &mut bytes, offset).unwrap();
        assert_eq!(bytes, [0; 512], "an extent of another run");
    }
}

#[test]
fn runs_are_written_then_named_then_seen() {
    let mut bench = Bench::new();
    bench.put(0..100, 1);
    bench.delete(0..10);
    let chunk = bench.chunk();
    let (number, runs) = written(&bench);
    assert_eq!(runs.len(), 1);
    let records: u64 = runs[0]
        .tables
        .iter()
        .map(|table| table.part.meta.entries)
        .sum();
    assert_eq!(records, 100, "tombstones too: older runs may lie below");
    // A put that comes now is of the next one, and of no run.
    bench.put(50..60, 2);
    assert!(chunk.latch.lock().run_pending);
    assert_eq!(
        chunk.view.load_full().frozen.len(),
        1,
        "still read from RAM"
    );
    assert_eq!(named_tables(&bench), 0);

    complete(&bench.core, &bench.disk, number, Lsn(0), &runs).unwrap();
    assert_eq!(named_tables(&bench), 1);
    let completed = bench.disk.manifest().with_state(|state| state.completed);
    assert_eq!(completed, number);

    for run in runs {
        publish_run(&bench.context(), &bench.caches, run);
    }
    let view = chunk.view.load_full();
    assert!(!chunk.latch.lock().run_pending);
    assert!(view.frozen.is_empty() && !view.active.is_empty());
    assert_eq!(view.funk.tables().count(), 1);
    bench.check();
    bench.checkpoint();
    assert!(chunk.view.load_full().active.is_empty());
    bench.check();
}

#[test]
fn neighbours_in_the_key_space_join_the_base_or_the_log() {
    let mut bench = Bench::new();
    bench.put(0..50, 1);
    bench.checkpoint();
    bench.put(50..90, 1);
    bench.checkpoint();
    let funk = bench.chunk().view.load_full().funk.clone();
    assert_eq!((funk.base.len(), funk.runs.len()), (2, 0), "in key order");
    // Some below the greatest key and some above it.
    bench.put(80..100, 2);
    bench.checkpoint();
    let funk = bench.chunk().view.load_full().funk.clone();
    assert_eq!((funk.base.len(), funk.runs.len()), (3, 1));
    bench.check();
}

#[test]
fn a_checkpoint_without_room_leaves_all_for_the_next() {
    let mut bench = Bench::new();
    bench.put(0..100, 1);
    let chunk = bench.chunk();
    let (_, runs) = written(&bench);
    let free = bench.disk.container.free_bytes();
    let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
    let full = evendb_storage::Error::io(&bench.disk.dir, "append to the manifest", full);
    let error = give_up(&bench.context(), full.into(), runs);
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(bench.core.health.failure().is_none(), "no failure");
    assert!(
        bench.disk.container.free_bytes() > free,
        "its room is free again"
    );
    assert_eq!(chunk.view.load_full().frozen.len(), 1);
    assert_eq!(bench.flow.dirty.lock().len(), 1);
    assert!(!chunk.latch.lock().run_pending);
    bench.check();
    bench.checkpoint();
    assert_eq!(named_tables(&bench), 1);
    assert!(chunk.view.load_full().frozen.is_empty());
    bench.check();
}
