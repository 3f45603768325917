//! The steps of a checkpoint on a bench, and the state after a checkpoint that found no room.

use super::gather::WRITE_BYTES;
use super::*;
use crate::error::ErrorKind;
use crate::files::CONTAINER;
use crate::memory_policy::row::RowValue;
use crate::plant::Plant;
use crate::rebalance::bench::Bench;
use evendb_storage::key_hash::RamHash;
use evendb_storage::vfs::read_exact_at;

/// What the runs of checkpoint `number` share.
fn of(bench: &Bench, number: u64) -> Runs<'_> {
    Runs {
        core: &bench.core,
        disk: &bench.disk,
        memory: &bench.memory,
        number,
        next: number + 1,
        horizon: bench.core.clock.horizon(),
    }
}

/// Steps 2 to 4 up to where runs are written.
fn written(bench: &Bench) -> (u64, Vec<PendingRun>) {
    let number = checkpoint_of(bench.core.clock.advance_checkpoint()) - 1;
    let mut runs = Vec::new();
    write_runs(&of(bench, number), &bench.flow, &mut runs).unwrap();
    (number, runs)
}

impl Bench {
    /// All steps, without a commit log.
    pub(crate) fn checkpoint(&self) {
        let (number, runs) = written(self);
        complete(&of(self, number), Lsn(0), &runs).unwrap();
        for run in runs {
            publish_run(&self.context(), run);
        }
    }
}

fn named_tables(bench: &Bench) -> usize {
    bench.disk.manifest().with_state(|state| {
        let chunks = state.chunks.values();
        chunks.map(|chunk| chunk.parts.len()).sum()
    })
}

/// Tables that go to scattered places are all written, and written bytes do not gather in RAM.
#[test]
fn scattered_tables_are_written_and_leave_the_buffer() {
    const TABLE_BYTES: usize = 100_000;
    let bench = Bench::new();
    let container = &bench.disk.container;
    let mut writer = Gatherer::new(&bench.core, container);
    let (mut tables, mut kept) = (Vec::new(), Vec::new());
    for number in 0..100_u8 {
        let from = writer.begin().unwrap();
        writer.buffer().resize(from + TABLE_BYTES, number);
        let offset = container.allocate(TABLE_BYTES as u64).unwrap();
        // Every third table has the next one for its neighbour.
        if number % 3 > 0 {
            kept.push(container.allocate(512).unwrap());
        }
        writer.place(from, offset);
        assert!(writer.buffer().len() <= WRITE_BYTES + 2 * TABLE_BYTES);
        assert!(writer.charged_bytes() >= writer.buffer().len());
        tables.push((offset, number));
    }
    writer.finish().unwrap();
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
    // A put that comes now belongs to the next checkpoint, and to no run of this one.
    bench.put(50..60, 2);
    assert_eq!(chunk.latch.lock().run, RunStage::ForBase);
    assert_eq!(
        chunk.view.load_full().frozen.len(),
        1,
        "still read from RAM"
    );
    assert_eq!(named_tables(&bench), 0);

    complete(&of(&bench, number), Lsn(0), &runs).unwrap();
    assert_eq!(named_tables(&bench), 1);
    let completed = bench.disk.manifest().with_state(|state| state.completed);
    assert_eq!(completed, number);

    for run in runs {
        publish_run(&bench.context(), run);
    }
    let view = chunk.view.load_full();
    assert_eq!(chunk.latch.lock().run, RunStage::None);
    assert!(view.frozen.is_empty() && !view.active.is_empty());
    assert_eq!(view.funk.tables().count(), 1);
    bench.check();
    bench.checkpoint();
    assert!(chunk.view.load_full().active.is_empty());
    bench.check();
}

/// The manifest names the same tables for the chunk as its view.
fn named_is_seen(bench: &Bench, chunk: &Chunk) {
    let view = chunk.view.load_full();
    let mut seen: Vec<_> = view.funk.tables().map(|table| table.part.table).collect();
    let mut named: Vec<_> = bench.disk.manifest().with_state(|state| {
        let parts = &state.chunks[&chunk.id].parts;
        parts.iter().map(|part| part.table).collect()
    });
    seen.sort();
    named.sort();
    assert_eq!(named, seen);
}

#[test]
fn a_chunk_is_rewritten_while_its_run_is_written() {
    let mut bench = Bench::new();
    bench.put(0..100, 1);
    bench.checkpoint();
    bench.put(20..60, 2);
    bench.checkpoint();
    bench.put(40..80, 3);
    bench.delete(0..10);
    let chunk = bench.chunk();
    let (number, runs) = written(&bench);
    assert_eq!(chunk.latch.lock().run, RunStage::ForLog, "nothing above");
    {
        let _token = chunk.try_token().unwrap();
        let one = std::slice::from_ref(&chunk);
        crate::rebalance::rewrite::rewrite(&bench.context(), &bench.keyspace, one).unwrap();
    }
    let funk = chunk.view.load_full().funk.clone();
    assert_eq!((funk.base.len(), funk.runs.len()), (1, 0));
    bench.check();
    complete(&of(&bench, number), Lsn(0), &runs).unwrap();
    assert_eq!(chunk.latch.lock().run, RunStage::Named);
    for run in runs {
        publish_run(&bench.context(), run);
    }
    let funk = chunk.view.load_full().funk.clone();
    assert_eq!((funk.base.len(), funk.runs.len()), (1, 1), "it came later");
    bench.check();
    named_is_seen(&bench, &chunk);
}

#[test]
fn only_keys_above_all_others_may_join_the_base() {
    let mut bench = Bench::new();
    bench.put(0..50, 1);
    bench.checkpoint();
    for (keys, stage) in [
        (0..50, RunStage::ForLog),
        (49..50, RunStage::ForLog),
        (0..51, RunStage::ForBase),
        (60..61, RunStage::ForBase),
    ] {
        bench.put(keys.clone(), 2);
        let (number, runs) = written(&bench);
        assert_eq!(bench.chunk().latch.lock().run, stage, "{keys:?}");
        complete(&of(&bench, number), Lsn(0), &runs).unwrap();
        for run in runs {
            publish_run(&bench.context(), run);
        }
        named_is_seen(&bench, &bench.chunk());
    }
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
    // Some keys are below the greatest key, and some above it.
    bench.put(80..100, 2);
    bench.checkpoint();
    let funk = bench.chunk().view.load_full().funk.clone();
    assert_eq!((funk.base.len(), funk.runs.len()), (3, 1));
    bench.check();
}

/// Tables of the base, runs of the log.
fn tables(bench: &Bench) -> (usize, usize) {
    let funk = bench.chunk().view.load_full().funk.clone();
    (funk.base.len(), funk.runs.len())
}

/// The first byte of the value that a get finds on disk.
fn newest_on_disk(bench: &Bench, number: u32) -> u8 {
    let key = format!("{number:08}").into_bytes();
    let funk = bench.chunk().view.load_full().funk.clone();
    let (hash, newest) = (RamHash::of(&key), bench.core.clock.now());
    let settings = &bench.core.search_settings;
    let found = funk.get(&key, hash, newest, settings, None);
    let (_, found) = found.unwrap().expect("it was put");
    crate::funk::value_of(found, crate::expiry::ReadTime::At(evendb_storage::Time(0)))
        .expect("no tombstone")[0]
}

#[test]
fn what_lies_above_a_stream_is_kept_out_of_its_table() {
    let mut bench = Bench::with_chunks_of(512 << 10);
    bench.put(100..140, 1);
    bench.checkpoint();
    // All these keys begin with 000001; then comes a single record of another stream.
    bench.put(140..180, 1);
    bench.put(500..501, 1);
    bench.checkpoint();
    assert_eq!(tables(&bench), (2, 1));
    bench.put(180..200, 1);
    bench.checkpoint();
    assert_eq!(tables(&bench), (3, 1), "the stream goes on below it");
    bench.put(501..560, 1);
    bench.checkpoint();
    assert_eq!(tables(&bench), (4, 1), "another stream follows");
    bench.check();
}

#[test]
fn a_run_joins_below_what_the_log_has_but_never_over_it() {
    let mut bench = Bench::with_chunks_of(512 << 10);
    bench.put(100..140, 1);
    bench.checkpoint();
    bench.put(140..180, 1);
    bench.put([500], 1);
    bench.checkpoint();
    assert_eq!(tables(&bench), (2, 1));
    // The log has a record of the run, as its index shows.
    bench.put(490..510, 2);
    bench.checkpoint();
    assert_eq!(tables(&bench), (2, 2));
    assert_eq!(newest_on_disk(&bench, 500), 2);
    bench.check();
    // The new table spans the log's runs, and has none of their records.
    bench.put([480, 600], 3);
    bench.put(485..489, 3);
    bench.checkpoint();
    assert_eq!(tables(&bench), (3, 2));
    bench.check();
    bench.delete([500, 600]);
    bench.checkpoint();
    bench.check();
}

#[test]
fn p22_a_run_that_joins_over_the_log_is_caught() {
    let mut bench = Bench::with_chunks_of(512 << 10);
    bench.core.options.plant = crate::plant::Plant::JoinsOverLog;
    bench.put(100..140, 1);
    bench.checkpoint();
    bench.put(140..180, 1);
    bench.put([500], 1);
    bench.checkpoint();
    bench.put(490..510, 2);
    bench.checkpoint();
    assert_eq!(tables(&bench), (3, 1));
    assert_eq!(newest_on_disk(&bench, 500), 1, "an old record");
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
    assert_eq!(chunk.latch.lock().run, RunStage::None);
    bench.check();
    bench.checkpoint();
    assert_eq!(named_tables(&bench), 1);
    assert!(chunk.view.load_full().frozen.is_empty());
    bench.check();
}

/// The row of key 1 after a checkpoint of two deltas: the older delta has value 2, the newer one
/// value 3.
fn row_after_two_deltas(plant: Plant) -> Option<u8> {
    let mut bench = Bench::new();
    bench.core.options.plant = plant;
    bench.put(0..10, 1);
    bench.checkpoint();
    let chunk = bench.chunk();
    let (key, hash) = (b"00000001", RamHash::of(b"00000001"));
    let tag = chunk.view.load_full().row_tag.number().expect("a number");
    let row = RowValue {
        value: &[1; 92],
        expires: None,
        is_apart: false,
    };
    bench.memory.fill_row(tag, key, hash, row, || true);
    let row = |bench: &Bench| {
        bench
            .memory
            .find_row(&chunk, &chunk.view.load_full(), key, hash)
    };
    assert!(row(&bench).is_some());
    bench.put(0..10, 2);
    {
        let mut writer = chunk.latch.lock();
        let number = writer.active.checkpoint();
        chunk.freeze(&mut writer, number, &bench.core.admission);
    }
    bench.put(0..10, 3);
    bench.checkpoint();
    row(&bench).map(|row| row.value()[0])
}

#[test]
fn a_row_has_what_the_newest_delta_of_a_checkpoint_put() {
    assert_eq!(row_after_two_deltas(Plant::Nothing), Some(3));
}

#[test]
fn p62_a_row_of_an_older_delta_is_caught() {
    assert_eq!(row_after_two_deltas(Plant::OlderRowStays), Some(2));
}
