//! The jobs, one at a time on a bench: the effect of each on a chunk, and that all records are
//! there after it.

use super::bench::Bench;
use super::{idle, jobs, layout, log_merge, munks, rewrite, space, spans, tending};
use crate::Db;
use crate::chunk::{Chunk, Heat, View};
use crate::engine::work::Job;
use crate::memory::{Charge, Use};
use crate::munk::Munk;
use crate::options::{Compression, KeyspaceOptions, Options};
use crate::plant::Plant;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, reclaim};
use crate::tables::TableHandle;
use evendb_storage::vfs::SimVfs;

fn view(chunk: &Chunk) -> Arc<View> {
    chunk.view.load_full()
}

fn base(view: &View) -> &TableHandle {
    assert_eq!((view.funk.base.len(), view.funk.runs.len()), (1, 0));
    &view.funk.base[0]
}

/// Rewrites one chunk, and returns the chunks in its place: new ones, or itself.
fn rewrite_one(bench: &Bench, chunk: &Arc<Chunk>) -> Vec<Arc<Chunk>> {
    let _token = chunk.try_token().unwrap();
    let one = std::slice::from_ref(chunk);
    rewrite::rewrite(&bench.context(), &bench.keyspace, one).unwrap()
}

/// A chunk with 100 records in its base, and two runs over it that replace some and delete others.
fn base_and_runs() -> Bench {
    let mut bench = Bench::new();
    bench.put(0..100, 1);
    bench.checkpoint();
    bench.put((0..100).step_by(3), 2);
    bench.checkpoint();
    bench.delete((0..100).step_by(5));
    bench.checkpoint();
    let view = view(&bench.chunk());
    assert_eq!((view.funk.base.len(), view.funk.runs.len()), (1, 2));
    bench.check();
    bench
}

/// Four times the bytes that one chunk may hold, in the chunks that a split makes of them.
fn several_chunks() -> Bench {
    let mut bench = Bench::new();
    bench.put(0..600, 1);
    bench.checkpoint();
    let chunk = bench.chunk();
    rewrite_one(&bench, &chunk);
    bench
}

/// The number of records of a base that is eight tenths of a chunk.
const RECORDS: u32 = 2_000;

/// A chunk whose base is so large that base and log together are too large for a chunk. It is
/// larger than the bytes that opening a table reads.
fn nearly_full() -> Bench {
    let mut bench = Bench::with_chunks_of(u64::from(RECORDS) * 125);
    bench.put((0..RECORDS).map(|number| number * 2), 1);
    bench.checkpoint();
    rewrite_one(&bench, &bench.chunk());
    bench
}

/// Overwrites half of the records and rewrites the chunk; returns how many times that read from a
/// file.
fn overwrite(bench: &mut Bench, value: u8) -> u64 {
    bench.put((0..RECORDS).map(|number| number / 2 * 4), value);
    bench.checkpoint();
    let chunk = bench.chunk();
    assert!(rewrite::data_bytes(&view(&chunk)) > bench.core.options.chunk_bytes_max());
    let before = bench.sim.read_count();
    rewrite_one(bench, &chunk);
    bench.sim.read_count() - before
}

#[test]
fn what_is_known_to_overwrite_is_read_once() {
    let mut bench = nearly_full();
    let (first, second) = (overwrite(&mut bench, 2), overwrite(&mut bench, 3));
    assert!(second * 3 <= first * 2, "{first} and then {second} reads");
    assert_eq!(bench.chunk().new_share.get(), Some(0.0));
    assert_eq!(bench.keyspace.new_share.get(), Some(0.875 * 0.875));
    assert_eq!(
        base(&view(&bench.chunk())).part.meta.entries,
        u64::from(RECORDS)
    );
    bench.check();
}

/// The expected share of overwrites comes from other chunks, or from earlier. If it is wrong the
/// chunk is cut all the same.
#[test]
fn a_chunk_that_was_taken_to_be_overwritten_is_cut() {
    let mut bench = nearly_full();
    bench.chunk().new_share.set(0.0);
    // New keys between those of the base.
    bench.put((0..RECORDS).map(|number| number * 2 + 1), 2);
    bench.checkpoint();
    let replaced = rewrite_one(&bench, &bench.chunk());
    assert!(replaced.len() > 1, "{} chunks", replaced.len());
    for chunk in &replaced {
        let (bytes, _) = rewrite::sources::base_and_log_bytes(&view(chunk));
        assert!(bytes <= bench.core.options.chunk_bytes_max(), "{bytes}");
        assert!(chunk.new_share.get().unwrap() > 0.9);
    }
    bench.check();
}

#[test]
fn tables_that_are_read_stay_in_the_cache() {
    let bench = base_and_runs();
    let chunk = bench.chunk();
    let past_cache = || {
        let chunks = std::slice::from_ref(&chunk);
        rewrite::goes_past_cache(chunks, &[view(&chunk)])
    };
    assert!(!past_cache(), "nothing is known of it");
    chunk.heat.puts.store(100, Ordering::Relaxed);
    assert!(past_cache(), "it is written");
    chunk.heat.gets.store(50, Ordering::Relaxed);
    assert!(!past_cache(), "and read");
    spans::load_munk(&bench.core, &chunk).unwrap();
    assert!(past_cache(), "in its munk");
}

#[test]
fn a_munk_is_loaded_from_base_and_runs() {
    let bench = base_and_runs();
    let chunk = bench.chunk();
    let before = view(&chunk);
    spans::load_munk(&bench.core, &chunk).unwrap();
    let loaded = view(&chunk);
    assert!(Arc::ptr_eq(&before.funk, &loaded.funk));
    let munk = loaded.munk.as_ref().unwrap();
    assert_eq!(
        (munk.entries(), munk.deletes()),
        (bench.model().len(), 0),
        "the newest of each key, and no tombstones"
    );
    assert_eq!(bench.core.metrics.munk_loads.get(), 1);
    bench.check();
    munks::evict_munk(&bench.core, &chunk);
    assert!(view(&chunk).munk.is_none());
    bench.check();
}

#[test]
fn durable_deltas_are_absorbed_and_others_stay() {
    let mut bench = base_and_runs();
    let chunk = bench.chunk();
    spans::load_munk(&bench.core, &chunk).unwrap();
    assert!(!munks::absorb(&bench.core, &chunk), "nothing to absorb");
    bench.put(50..150, 3);
    bench.delete(0..10);
    let undurable = view(&chunk);
    assert!(!munks::absorb(&bench.core, &chunk), "nothing is durable");
    bench.checkpoint();
    bench.put(140..160, 4);
    let durable = view(&chunk);
    assert!(durable.frozen.iter().all(|frozen| frozen.durable));
    assert_eq!(durable.frozen.len(), 1, "kept for the munk");
    assert!(munks::absorb(&bench.core, &chunk));
    let absorbed = view(&chunk);
    assert!(absorbed.frozen.is_empty());
    assert!(Arc::ptr_eq(&absorbed.active, &durable.active));
    let (old, new) = (undurable.munk.as_ref(), absorbed.munk.as_ref());
    assert!(new.unwrap().entries() > old.unwrap().entries());
    bench.check();
    // The chunk's runs have the same records.
    munks::evict_munk(&bench.core, &chunk);
    bench.check();
}

#[test]
fn a_munk_that_is_hardly_read_goes_where_puts_are_about_to_wait() {
    let mut bench = base_and_runs();
    let chunk = bench.chunk();
    spans::load_munk(&bench.core, &chunk).unwrap();
    let put = |bench: &mut Bench, value| {
        bench.put(50..150, value);
        bench.checkpoint();
        // Puts on the bench are not counted, so they are set here.
        chunk.heat.puts.store(100, Ordering::Relaxed);
        assert!(view(&chunk).frozen.iter().any(|frozen| frozen.durable));
    };
    put(&mut bench, 3);
    assert!(munks::absorb_or_evict(&bench.core, &bench.memory, &chunk));
    assert!(view(&chunk).munk.is_some(), "puts have room");
    let room = bench.core.options.delta_bytes_max() * 8 / 10;
    bench.core.admission.adopt(0, room);
    put(&mut bench, 4);
    assert!(munks::absorb_or_evict(&bench.core, &bench.memory, &chunk));
    assert!(view(&chunk).munk.is_some(), "there is memory for most");
    (0..100).for_each(|_| bench.memory.note_pressure());
    put(&mut bench, 4);
    chunk.heat.gets.store(50, Ordering::Relaxed);
    assert!(munks::absorb_or_evict(&bench.core, &bench.memory, &chunk));
    assert!(view(&chunk).munk.is_some(), "it is read");
    chunk.heat.gets.store(0, Ordering::Relaxed);
    assert!(
        !munks::absorb_or_evict(&bench.core, &bench.memory, &chunk),
        "nothing waits for it"
    );
    assert!(view(&chunk).munk.is_some());
    put(&mut bench, 5);
    assert!(munks::absorb_or_evict(&bench.core, &bench.memory, &chunk));
    let after = view(&chunk);
    assert!(after.munk.is_none() && after.frozen.is_empty());
    bench.core.admission.release_delta(room);
    bench.check();
}

#[test]
fn a_rewrite_leaves_one_table_of_the_newest_records() {
    let bench = base_and_runs();
    let chunk = bench.chunk();
    let old: Vec<_> = view(&chunk)
        .funk
        .tables()
        .map(|table| table.part.table)
        .collect();
    let after = rewrite_one(&bench, &chunk);
    assert!(Arc::ptr_eq(&after[0], &chunk) && after.len() == 1);
    let rewritten = view(&chunk);
    let meta = &base(&rewritten).part.meta;
    assert_eq!(
        (meta.entries, meta.deletes),
        (bench.model().len() as u64, 0),
        "what was replaced and deleted is gone, with its tombstones"
    );
    assert_eq!(bench.core.metrics.rebalances.get(), 1);
    bench.check();
    // Once the edit is durable and no view names them, the old tables go.
    let is_known = |id: &_| bench.disk.tables.find(*id).is_some();
    crate::sync::reclaim::collect();
    bench.disk.collect(&bench.core.health);
    assert!(!old.iter().any(is_known));
    assert!(is_known(&base(&rewritten).part.table));
}

#[test]
fn a_rewrite_keeps_what_is_put_meanwhile() {
    let mut bench = base_and_runs();
    bench.put(20..120, 5);
    let chunk = bench.chunk();
    rewrite_one(&bench, &chunk);
    assert!(!view(&chunk).active.is_empty(), "not durable yet");
    bench.check();
    bench.checkpoint();
    assert_eq!(view(&chunk).funk.runs.len(), 1, "it has keys of the base");
    bench.check();
}

#[test]
fn a_large_chunk_is_split() {
    let bench = several_chunks();
    let chunks = bench.chunks();
    assert!(chunks.len() >= 4, "{} chunks", chunks.len());
    assert!(chunks.iter().all(|chunk| base(&view(chunk)).part_len() > 0));
    assert_eq!(bench.core.metrics.splits.get(), 1);
    bench.check();
}

#[test]
fn two_small_neighbours_are_merged() {
    let mut bench = several_chunks();
    let chunks = bench.chunks();
    let (first, second) = (chunks[0].clone(), chunks[1].clone());
    bench.delete((0..600).filter(|number| number % 8 > 0));
    bench.checkpoint();
    let pair = [first, second];
    let tokens: Vec<_> = pair.iter().map(|chunk| chunk.try_token()).collect();
    assert!(tokens.iter().all(Option::is_some));
    let merged = rewrite::rewrite(&bench.context(), &bench.keyspace, &pair).unwrap();
    let [merged] = &merged[..] else {
        panic!("{} chunks of two", merged.len())
    };
    assert_eq!(merged.range.low, pair[0].range.low);
    assert_eq!(merged.range.high, pair[1].range.high);
    assert!(pair.iter().all(|chunk| chunk.latch.lock().retired));
    assert_eq!(bench.chunks().len(), chunks.len() - 1);
    let in_range = |key: &&Vec<u8>| merged.range.contains(key);
    let left = bench.model().keys().filter(in_range).count();
    assert_eq!(base(&view(merged)).part.meta.entries, left as u64);
    assert_eq!(bench.core.metrics.merges.get(), 1);
    bench.check();
}

/// A split carries a put to both halves, and each half flushes it.
#[test]
fn a_split_carries_deltas_that_are_not_durable() {
    let mut bench = Bench::new();
    bench.put(0..600, 1);
    bench.checkpoint();
    bench.put((0..600).step_by(7), 2);
    bench.delete((3..600).step_by(7));
    let chunk = bench.chunk();
    rewrite_one(&bench, &chunk);
    bench.check();
    bench.checkpoint();
    for chunk in bench.chunks() {
        assert!(view(&chunk).frozen.is_empty(), "all of them are durable");
    }
    bench.check();
}

#[test]
fn many_runs_become_one() {
    let mut bench = Bench::new();
    bench.put(0..100, 1);
    bench.checkpoint();
    for round in 0..16 {
        bench.put([round, round + 20, round + 40], 2);
        bench.delete([99 - round]);
        bench.checkpoint();
    }
    let chunk = bench.chunk();
    // A chunk whose log is scanned should have few runs.
    Heat::count(&chunk.heat.scans);
    let before = view(&chunk);
    let one = std::slice::from_ref(&chunk);
    log_merge::merge_logs(&bench.context(), one).unwrap();
    let after = view(&chunk);
    let (runs, old) = (&after.funk.runs, &before.funk.runs);
    assert!(runs.len() < old.len() / 2, "{} runs", runs.len());
    let last = |runs: &[crate::funk::Run]| runs.last().unwrap().ordinal;
    assert_eq!(last(runs), last(old), "in the place of the newest");
    assert!(runs.is_sorted_by_key(|run| run.ordinal));
    let newest = &runs.last().unwrap().table.part.meta;
    assert!(newest.deletes > 0, "tombstones hide what the base has");
    assert_eq!(after.funk.base.len(), 1);
    assert_eq!(bench.core.metrics.log_merges.get(), 1);
    bench.check();
}

/// After a phase of puts, minutes of reorganisation may be owed to space. A merge that spares scans
/// one read for each run does not wait for it.
#[test]
fn runs_that_scans_want_merged_go_before_what_is_owed_to_space() {
    let mut bench = Bench::new();
    bench.put(0..10, 1);
    bench.checkpoint();
    let (chunk, work) = (bench.chunk(), crate::engine::work::Work::default());
    work.push_maintenance(&chunk);
    work.push_merge(&chunk, true);
    work.push_merge(&chunk, false);
    work.push_absorb(&chunk);
    let taken: Vec<Job> = {
        let mut queue = work.queue.lock();
        assert_eq!(queue.len(), 3);
        std::iter::from_fn(|| work.take(&mut queue)).collect()
    };
    assert!(matches!(
        taken[..],
        [Job::Absorb(_), Job::Merge(_), Job::Maintain(_)]
    ));
    // Where no scan waits, a few merges wait for other ones to share a sync with.
    work.push_merge(&chunk, false);
    work.push_maintenance(&chunk);
    let mut queue = work.queue.lock();
    assert!(matches!(work.take(&mut queue), Some(Job::Maintain(_))));
    assert!(matches!(work.take(&mut queue), Some(Job::Merge(_))));
}

#[test]
fn a_look_at_a_chunk_that_is_too_large_splits_it() {
    let mut bench = Bench::new();
    bench.put(0..600, 1);
    bench.checkpoint();
    let chunk = bench.chunk();
    let look = |chunk| jobs::maintain(&bench.context(), chunk).unwrap();
    assert!(look(&chunk));
    let new = bench.chunks();
    assert!(new.len() > 1);
    let jobs = &bench.work.queue.lock().jobs;
    assert!(!jobs.is_empty(), "the new chunks are looked at too");
    assert!(!look(&chunk), "others are in its place");
    // Another job has this chunk.
    let _token = new[0].try_token().unwrap();
    assert!(!look(&new[0]));
    bench.check();
}

#[test]
fn an_idle_database_rewrites_a_chunk_that_has_garbage() {
    let bench = base_and_runs();
    let shrink = |chunk| idle::shrink(&bench.context(), chunk).unwrap();
    let chunk = bench.chunk();
    assert!(!shrink(&chunk), "not idle");
    let writes = bench.core.metrics.writes();
    bench.idle.at_writes.store(writes, Ordering::Relaxed);
    let snapshot = bench.core.clock.register();
    assert!(!shrink(&chunk), "a snapshot would keep what it sees");
    bench.core.clock.unregister(snapshot);
    assert!(shrink(&chunk));
    let small = bench.chunk();
    assert_eq!(base(&view(&small)).part.meta.deletes, 0);
    assert!(!shrink(&small), "there is no garbage left");
    bench.check();
}

#[test]
fn a_space_round_finds_the_garbage_of_the_logs() {
    let bench = base_and_runs();
    let space = &bench.space;
    let round = |now| space::space_round(&bench.context(), now);
    round(true);
    let stats = *space.stats.lock();
    assert!(
        stats.live_bytes > 0 && stats.garbage_log_bytes > 0,
        "{stats:?}"
    );
    assert_eq!(stats.tombstones, 20);
    assert_eq!(space.chunks(), 1);
    assert!(space.log_budget().is_some());
    // The next round looks again only when it is time.
    rewrite_one(&bench, &bench.chunk());
    round(false);
    assert_eq!(space.stats.lock().tombstones, 20);
    round(true);
    let stats = *space.stats.lock();
    assert_eq!((stats.tombstones, stats.garbage_log_bytes), (0, 0));
}

/// A chunk of many spans with a log; no span is resident.
fn many_spans() -> (Bench, Arc<Chunk>) {
    let mut bench = nearly_full();
    bench.put((0..RECORDS).step_by(3), 2);
    bench.checkpoint();
    let chunk = bench.chunk();
    spans::load_spans(&bench.core, &chunk, &|_| Vec::new()).unwrap();
    (bench, chunk)
}

fn munk(chunk: &Chunk) -> Arc<Munk> {
    view(chunk).munk.clone().expect("a munk")
}

/// The chunk's resident spans.
fn there(chunk: &Chunk) -> Vec<usize> {
    let munk = munk(chunk);
    let spans = 0..munk.span_count();
    spans.filter(|&span| munk.has_span(span)).collect()
}

#[test]
fn spans_are_loaded_absorbed_and_evicted_each_by_itself() {
    let (mut bench, chunk) = many_spans();
    let count = munk(&chunk).span_count();
    assert!(count > 10, "{count} spans");
    assert!(!munk(&chunk).holds_any());
    bench.check();
    // The indexes move where an image is so large that it becomes two spans.
    for chosen in [vec![3], vec![0, 6, 7, 8], vec![count - 1]] {
        let absent = |munk: &Munk| {
            let chosen = chosen.iter().copied();
            chosen.filter(|&span| !munk.has_span(span)).collect()
        };
        spans::load_spans(&bench.core, &chunk, &absent).unwrap();
        bench.check();
    }
    let first = there(&chunk);
    assert!(first.len() >= 5 && first.len() < munk(&chunk).span_count());
    // All over the chunk: the log has the records of absent spans.
    bench.put((0..RECORDS).step_by(7), 3);
    bench.delete((0..RECORDS).step_by(11));
    bench.checkpoint();
    assert!(view(&chunk).frozen.iter().all(|frozen| frozen.durable));
    assert!(munks::absorb(&bench.core, &chunk));
    assert!(view(&chunk).frozen.is_empty());
    assert!(there(&chunk).len() >= first.len());
    bench.check();
    spans::evict_spans(&bench.core, &chunk, |span| span > 4);
    assert!(!there(&chunk).is_empty() && there(&chunk).iter().all(|&span| span <= 4));
    bench.check();
    // A rewrite reads the funk, and leaves the resident spans.
    let new = rewrite_one(&bench, &chunk);
    bench.check();
    assert!(new.iter().any(|chunk| view(chunk).munk_holds_any()));
    for chunk in &new {
        spans::load_munk(&bench.core, chunk).unwrap();
        assert!(view(chunk).whole_munk().is_some());
    }
    bench.check();
    for chunk in &new {
        spans::evict_spans(&bench.core, chunk, |_| true);
    }
    bench.check();
}

/// A durable record may be in a munk twice: a loaded span has it from a run, and the delta is still
/// to be absorbed. A single delete that is absorbed with its put also hides the loaded put.
#[test]
fn a_put_that_was_loaded_goes_with_the_single_delete_that_is_absorbed_with_it() {
    let (mut bench, chunk) = many_spans();
    spans::load_spans(&bench.core, &chunk, &|_| vec![0]).unwrap();
    let once = || RECORDS..RECORDS + 50;
    bench.put(once(), 5);
    bench.checkpoint();
    assert_eq!(view(&chunk).frozen.len(), 1, "kept for the first span");
    spans::load_munk(&bench.core, &chunk).unwrap();
    assert!(view(&chunk).whole_munk().is_some());
    assert_eq!(view(&chunk).frozen.len(), 1, "still to be absorbed");
    bench.check();
    bench.single_delete(once());
    bench.check();
    bench.checkpoint();
    assert_eq!(view(&chunk).frozen.len(), 2);
    assert!(munks::absorb(&bench.core, &chunk));
    // Everything is in the munk now, and is read there.
    bench.check();
    spans::evict_spans(&bench.core, &chunk, |_| true);
    bench.check();
}

/// A delta that becomes durable while only absent spans are loaded does not stay.
#[test]
fn a_munk_without_spans_keeps_no_deltas() {
    let (mut bench, chunk) = many_spans();
    bench.put(0..100, 3);
    bench.checkpoint();
    assert!(view(&chunk).frozen.is_empty());
    spans::load_spans(&bench.core, &chunk, &|_| vec![1]).unwrap();
    bench.put(0..RECORDS, 4);
    bench.checkpoint();
    assert_eq!(view(&chunk).frozen.len(), 1);
    spans::evict_spans(&bench.core, &chunk, |_| true);
    assert!(view(&chunk).frozen.is_empty());
    bench.check();
}

/// As the spans of the last life are loaded: by heat, and some twice.
#[test]
fn spans_are_chosen_in_any_order() {
    let (bench, chunk) = many_spans();
    spans::load_spans(&bench.core, &chunk, &|_| vec![2]).unwrap();
    let keys = |index: usize| munk(&chunk).limits(index).0.to_vec();
    let wanted = [7, 1, 3, 1, 2, 5, 4].map(keys);
    let choose = |munk: &Munk| wanted.iter().map(|key| munk.span_from(Some(key))).collect();
    spans::load_spans(&bench.core, &chunk, &choose).unwrap();
    let munk = munk(&chunk);
    for key in &wanted {
        assert!(munk.has_span(munk.span_from(Some(key))));
    }
    assert!(munk.absent_segments().len() >= 2);
    bench.check();
    rewrite_one(&bench, &chunk);
    bench.check();
}

#[test]
fn the_policy_loads_what_is_missed_and_evicts_what_is_not_used() {
    let (bench, chunk) = many_spans();
    let (context, memory) = (bench.context(), &bench.memory);
    let round = || tending::memory_round(&context);
    let load = || spans::load_wanted(&context, &chunk).unwrap();
    let touch = |span: usize, reads: f32| {
        let munk = munk(&chunk);
        let low = munk.limits(span).0.to_vec();
        for turn in 0..8u64 {
            let heat = munk.heat_of(&low);
            heat.touch(reads / 8.0, Some(turn as u8), memory.tick());
        }
    };
    // Evicted spans count until they are reclaimed, which readers in other threads of this process
    // may delay.
    let until_there_is_room = || {
        let mut rounds = 0;
        while !memory.has_room() {
            assert!(rounds < 10_000, "memory that is given up comes back");
            rounds += 1;
            std::thread::sleep(std::time::Duration::from_millis(1));
            reclaim::collect();
            round();
        }
    };
    round();
    until_there_is_room();
    assert!(!memory.note_fit(u64::MAX, 0), "not all fits");
    load();
    assert_eq!(there(&chunk), [0usize; 0], "nothing was missed");
    touch(2, 8.0);
    touch(7, 8.0);
    load();
    // An image may be so large that it becomes two spans.
    let loaded = there(&chunk);
    assert!((2..=4).contains(&loaded.len()), "{loaded:?}");
    assert!(loaded.contains(&2) && loaded[0] == 2 && loaded[loaded.len() - 1] >= 7);
    bench.check();
    // Memory that munks have given up but that stays taken: the next rounds have to make room
    // little by little.
    chunk.heat.gets.store(10_000, Ordering::Relaxed);
    let most = 3 * memory.cache_bytes() as usize;
    let charge = Charge::new(bench.core.ledger(), Use::Munks, most);
    touch(7, 100.0);
    (0..1000).for_each(|_| round());
    assert_eq!(
        chunk.heat.gets.load(Ordering::Relaxed),
        0,
        "they are counted"
    );
    assert!(!memory.has_room());
    assert!(there(&chunk).len() < loaded.len());
    bench.check();
    drop(charge);
    until_there_is_room();
}

fn opened(memory_budget: u64, plant: Plant) -> Db {
    let mut options = Options::new()
        .memory_budget(memory_budget)
        .vfs(Arc::new(SimVfs::new(1)))
        .workers(0);
    options.plant = plant;
    options.open("/db").unwrap()
}

/// Bytes of tables for each byte of records: before the keyspace's compression is chosen, after
/// that, and after it is given up.
fn shares_of_compression(plant: Plant) -> [f64; 3] {
    let db = opened(1 << 20, plant);
    let none = KeyspaceOptions::new();
    let lz4 = KeyspaceOptions::new().compression(Compression::Lz4);
    [&none, &lz4, &none].map(|chosen| {
        db.default_keyspace().set_options(chosen).unwrap();
        for number in 0..300 {
            let value = format!("{number} is a number; ").repeat(20);
            db.put(format!("key{number:04}"), value).unwrap();
        }
        db.compact().unwrap();
        db.stats().table_bytes_per_data_byte()
    })
}

#[test]
fn p43_options_of_a_keyspace_that_a_rewrite_forgets_are_noticed() {
    let is_right = |[before, with, after]: [f64; 3]| before > 0.9 && with < 0.5 && after > 0.9;
    let shares = shares_of_compression(Plant::Nothing);
    assert!(is_right(shares), "{shares:?}");
    let shares = shares_of_compression(Plant::KeyspaceOptionsForgotten);
    assert!(!is_right(shares), "{shares:?}");
}

/// Whether the newest put is read, in a chunk that is one part of a split chunk, when another part
/// was in RAM.
fn reads_the_newest_of_a_part(plant: Plant) -> bool {
    let db = opened(16 << 20, plant);
    let key = |number: u32| format!("key{number:04}");
    let put = |numbers: std::ops::Range<u32>, value: u8| {
        for number in numbers {
            db.put(key(number), [value; 600]).unwrap();
        }
        db.flush().unwrap();
    };
    put(0..1000, 1);
    db.compact().unwrap();
    let (engine, state) = (db.engine(), &db.default_keyspace().state);
    let chunk_of = |number| state.index.load_full().find(key(number).as_bytes()).clone();
    let whole = chunk_of(0);
    spans::load_spans(&engine.core, &whole, &|_| Vec::new()).unwrap();
    assert!(munk(&whole).span_count() > 2);
    spans::load_spans(&engine.core, &whole, &|_| vec![0]).unwrap();
    put(900..910, 2);
    assert_eq!(view(&whole).frozen.len(), 1, "kept for the first span");
    // As when a checkpoint ends while a split is writing.
    let lows = [Vec::new(), key(800).into_bytes()];
    let part = |low| layout::NewChunk {
        low,
        base: Vec::new(),
    };
    let (old, parts) = (std::slice::from_ref(&whole), lows.map(part).into());
    let context = engine.jobs();
    layout::replace_chunks(&context, state, old, parts, None, layout::Munks::Keep).unwrap();
    assert!(view(&chunk_of(0)).munk_holds_any());
    assert!(!view(&chunk_of(900)).munk_holds_any());
    put(900..910, 3);
    let is_newest = |number| {
        db.get(key(number))
            .unwrap()
            .is_some_and(|value| *value == [3; 600])
    };
    let scanned = db.range(key(900)..key(910)).map(|item| item.unwrap().1);
    (900..910).all(is_newest) && scanned.filter(|value| **value == [3; 600]).count() == 10
}

#[test]
fn what_is_put_to_a_part_that_left_ram_is_read() {
    assert!(reads_the_newest_of_a_part(Plant::Nothing));
}

/// Debug builds panic at the first write.
#[test]
fn p98_deltas_kept_for_spans_of_another_part_are_noticed() {
    let read = || reads_the_newest_of_a_part(Plant::PartsKeepDeltas);
    let read = std::panic::catch_unwind(read);
    assert!(!read.unwrap_or(false));
}
