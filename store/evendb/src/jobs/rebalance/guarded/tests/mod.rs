//! Jobs of chunks with guards, on a simulated disk: the tree that they make, and what is dropped.

mod planted;

use super::{maintain, relieve_level0};
use crate::chunk::{Chunk, View};
use crate::engine::Engine;
use crate::options::{Layout, Options};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::{CompactionFilter, Db, FilterDecision, Keyspace, KeyspaceOptions, checkpoint};
use evendb_storage::table::TableMeta;
use evendb_storage::vfs::SimVfs;
use std::collections::BTreeSet;
use std::path::Path;

/// Tiny limits: a few thousand small records fill several levels.
fn options(vfs: &SimVfs) -> Options {
    Options::new()
        .vfs(Arc::new(vfs.clone()))
        .memory_budget(1 << 20)
        .workers(0)
        .layout(Layout::Guards)
        .advanced(|advanced| {
            advanced.guards(|guards| guards.last_guard_bytes(4 << 10).table_bytes_max(2 << 10))
        })
}

/// There is about one guard, and one table in it.
fn with_large_guards(vfs: &SimVfs) -> Options {
    let large =
        |guards: crate::GuardOptions| guards.last_guard_bytes(8 << 20).table_bytes_max(8 << 20);
    options(vfs).advanced(|advanced| advanced.guards(large))
}

fn key(number: u32) -> String {
    // Spread over the key space, and the same in each run.
    format!("{:08x}", number.wrapping_mul(0x9e37_79b1))
}

fn chunk(keyspace: &Keyspace) -> Arc<Chunk> {
    let index = keyspace.state.index.load_full();
    let mut chunks = index.iter().map(|(_, chunk)| chunk.clone());
    let only = chunks.next().expect("the first chunk");
    assert!(
        chunks.next().is_none(),
        "a chunk with guards is never split"
    );
    only
}

fn view(keyspace: &Keyspace) -> Arc<View> {
    chunk(keyspace).view.load_full()
}

fn put(keyspace: &Keyspace, numbers: impl Iterator<Item = u32>, value: &str) {
    for number in numbers {
        keyspace.put(key(number), value.repeat(20)).expect("puts");
    }
}

/// The levels that have tables.
fn levels(view: &View) -> BTreeSet<u8> {
    let tree = view.funk.tree.as_ref().expect("a tree");
    tree.fragments().map(|(level, _)| level.0).collect()
}

fn records(view: &View) -> (u64, u64) {
    let metas = || view.funk.tables().map(|table| &table.part.meta);
    let deletes = metas().map(|meta| meta.deletes).sum();
    (metas().map(|meta| meta.entries).sum(), deletes)
}

fn shown(keyspace: &Keyspace) -> usize {
    keyspace
        .iter()
        .inspect(|pair| assert!(pair.is_ok()))
        .count()
}

/// A filter, which is asked in the middle of a compaction, and then does something else. It is told
/// how often it was asked before.
struct Meanwhile {
    asked: AtomicU32,
    does: Box<dyn Fn(u32) + Send + Sync>,
}

impl CompactionFilter for Meanwhile {
    fn filter(&self, _: &[u8], _: &[u8]) -> FilterDecision {
        (self.does)(self.asked.fetch_add(1, Ordering::Relaxed));
        FilterDecision::Keep
    }
}

/// Compacts the database, and calls `does` meanwhile, for each record that a filter is asked about.
fn compact_beside(db: &Db, does: impl Fn(u32, &Keyspace, &Engine) + Send + Sync + 'static) {
    beside(db, does, &|| {
        db.compact().expect("compacts");
    });
}

/// Does the job `job`, and calls `does` meanwhile, for each record that a filter is asked about.
fn beside(db: &Db, does: impl Fn(u32, &Keyspace, &Engine) + Send + Sync + 'static, job: &dyn Fn()) {
    let other = db.clone();
    let filter = Arc::new(Meanwhile {
        asked: AtomicU32::new(0),
        does: Box::new(move |asked| {
            let keyspace = other.default_keyspace();
            does(asked, keyspace, &keyspace.handle.engine);
        }),
    });
    let keyspace = db.default_keyspace();
    let set = keyspace.set_compaction_filter(Some(filter.clone()));
    set.expect("sets it");
    job();
    // It holds the database.
    keyspace.set_compaction_filter(None).expect("sets it");
    assert!(filter.asked.load(Ordering::Relaxed) > 0);
    assert_eq!(db.stats().compaction_filter_panics, 0);
}

#[test]
fn tables_go_down_the_levels_and_lie_within_guards() {
    let vfs = SimVfs::new(1);
    let db = options(&vfs).open("/db").expect("opens");
    let keyspace = db.default_keyspace();
    let mut seen = BTreeSet::new();
    for round in 0..60 {
        put(
            keyspace,
            (0..200).map(|number| round * 200 + number),
            "a long value .",
        );
        db.flush().expect("flushes");
        let view = view(keyspace);
        assert!(view.munk.is_none() && view.funk.base.is_empty());
        seen.extend(levels(&view));
        let tree = view.funk.tree.as_ref().expect("a tree");
        for level in crate::guards::tree::Tree::guarded_levels() {
            let guards = tree.guards(level);
            if guards.chosen().is_empty() {
                for guard in guards.all() {
                    let own = guard.fragments.iter();
                    assert!(own.clone().all(|own| *own.meta().min_key >= *guard.low));
                }
            }
        }
    }
    db.settle_debt().expect("pays its debt");
    assert!(seen.contains(&5) && seen.contains(&6), "{seen:?}");
    let view = view(keyspace);
    let tree = view.funk.tree.as_ref().expect("a tree");
    assert!(tree.guard_keys().len() > 20, "{}", tree.guard_keys().len());
    assert_eq!(shown(keyspace), 12_000);
    let (compact, _) = options(&vfs).advanced.guards.level0_runs;
    assert!(view.funk.sorted_runs() < compact);
    db.close().expect("closes");
    let again = options(&vfs).open("/db").expect("opens");
    let reopened = chunk(again.default_keyspace()).view.load_full();
    let reopened = reopened.funk.tree.as_ref().expect("a tree");
    assert_eq!(reopened.guard_set(), tree.guard_set());
    assert_eq!(shown(again.default_keyspace()), 12_000);
}

#[test]
fn a_compaction_leaves_one_record_of_each_key_and_no_delete() {
    let vfs = SimVfs::new(1);
    let db = options(&vfs).open("/db").expect("opens");
    let keyspace = db.default_keyspace();
    for round in 0..8 {
        put(
            keyspace,
            0..2_000,
            "abcdefgh".get(round..=round).expect("a letter"),
        );
        db.flush().expect("flushes");
    }
    for number in (0..2_000).step_by(2) {
        keyspace.delete(key(number)).expect("deletes");
    }
    db.flush().expect("flushes");
    assert!(records(&view(keyspace)).0 > 2_500);
    let summary = db.compact().expect("compacts");
    assert!(summary.bytes_after < summary.bytes_before);
    assert_eq!(records(&view(keyspace)), (1_000, 0));
    assert_eq!(levels(&view(keyspace)), BTreeSet::from([6]));
    assert_eq!(shown(keyspace), 1_000);
    assert_eq!(
        db.compact().expect("compacts").rewritten,
        0,
        "nothing is left to do"
    );
}

#[test]
fn what_a_snapshot_sees_stays_and_goes_with_it() {
    let vfs = SimVfs::new(1);
    let db = options(&vfs).open("/db").expect("opens");
    let keyspace = db.default_keyspace();
    put(keyspace, 0..1_000, "old");
    let snapshot = db.snapshot().expect("a snapshot");
    put(keyspace, 0..1_000, "new");
    keyspace.delete_range::<&str>(..).expect("deletes");
    db.compact().expect("compacts");
    for number in 0..1_000 {
        let value = snapshot
            .get(keyspace, key(number))
            .expect("gets")
            .expect("it sees it");
        assert_eq!(value, "old".repeat(20).as_bytes());
    }
    assert_eq!(shown(keyspace), 0);
    drop(snapshot);
    db.compact().expect("compacts");
    assert_eq!(records(&view(keyspace)), (0, 0));
}

/// Range deletions leave once nothing is left that they could hide, and hide nothing that is put
/// after them.
#[test]
fn range_deletions_leave() {
    let vfs = SimVfs::new(1);
    let db = options(&vfs).open("/db").expect("opens");
    let keyspace = db.default_keyspace();
    for round in 0..4 {
        put(keyspace, 0..2_000, "v");
        db.flush().expect("flushes");
        db.settle_debt().expect("pays its debt");
        keyspace.delete_range("4".."c").expect("deletes");
        put(keyspace, (0..2_000).step_by(10), "w");
        db.flush().expect("flushes");
        db.compact().expect("compacts");
        db.settle_debt().expect("pays its debt");
        let view = view(keyspace);
        assert!(
            view.covers.is_none(),
            "round {round}: a range deletion stays"
        );
        let is_hidden = |number: u32| {
            let key = key(number);
            *"4" <= *key && *key < *"c" && !number.is_multiple_of(10)
        };
        let expected = (0..2_000).filter(|&number| !is_hidden(number)).count();
        assert_eq!(shown(keyspace), expected, "round {round}");
        assert_eq!(records(&view).0, expected as u64, "round {round}");
    }
    // Also where the tables were made in an earlier life.
    db.close().expect("closes");
    let db = options(&vfs).open("/db").expect("opens");
    let keyspace = db.default_keyspace();
    keyspace.delete_range("0".."z").expect("deletes");
    put(keyspace, 0..10, "x");
    db.flush().expect("flushes");
    db.compact().expect("compacts");
    assert!(view(keyspace).covers.is_none(), "a range deletion stays");
    assert_eq!((records(&view(keyspace)).0, shown(keyspace)), (10, 10));
}

/// What range deletions hide goes without a call, also in tables of an earlier life that nothing
/// else would write again. A range deletion may stay over what it hides of the tables at its ends.
#[test]
fn what_hides_much_is_swept_in_every_life() {
    let vfs = SimVfs::new(1);
    {
        let db = options(&vfs).open("/db").expect("opens");
        put(db.default_keyspace(), 0..4_000, "v");
        db.flush().expect("flushes");
        db.compact().expect("compacts");
        db.close().expect("closes");
    }
    for end in ["8", "c", "e"] {
        let db = options(&vfs).open("/db").expect("opens");
        let keyspace = db.default_keyspace();
        keyspace.delete_range("2"..end).expect("deletes");
        db.flush().expect("flushes");
        db.settle_debt().expect("pays its debt");
        let expected = (0..4_000)
            .filter(|&number| !("2"..end).contains(&&*key(number)))
            .count();
        assert_eq!(shown(keyspace), expected);
        let left = records(&view(keyspace)).0;
        assert!(
            left < expected as u64 * 5 / 4,
            "{left} records, {expected} are shown"
        );
        db.compact().expect("compacts");
        assert!(
            view(keyspace).covers.is_none(),
            "up to {end}: a range deletion stays"
        );
        assert_eq!(records(&view(keyspace)).0, expected as u64);
        db.close().expect("closes");
    }
}

/// What a deleted prefix hides of a table counts by the table's blocks, and not by the distance of
/// its first key to its last one: between `a/` and `b/` lie few keys of all that could lie there.
#[test]
fn a_deleted_prefix_of_half_a_table_is_swept() {
    let vfs = SimVfs::new(1);
    let db = with_large_guards(&vfs).open("/db").expect("opens");
    let keyspace = db.default_keyspace();
    for prefix in ["a", "b"] {
        for number in 0..100 {
            keyspace
                .put(format!("{prefix}/{number:06}"), "value".repeat(20))
                .expect("puts");
        }
    }
    db.flush().expect("flushes");
    db.compact().expect("compacts");
    let has_both = |meta: &TableMeta| *meta.min_key < b"b"[..] && *meta.max_key > b"b"[..];
    let tables = view(keyspace);
    let mut metas = tables.funk.tables().map(|table| &*table.part.meta);
    assert!(metas.any(has_both), "a table has keys of both");
    keyspace.delete_prefix("a/").expect("deletes");
    db.settle_debt().expect("pays its debt");
    assert_eq!(records(&view(keyspace)).0, 100);
    assert!(view(keyspace).covers.is_none());
}

/// What range deletions hide of a table goes in an idle database, also if it is little.
#[test]
fn what_hides_little_is_swept_when_idle() {
    let vfs = SimVfs::new(1);
    let db = with_large_guards(&vfs).open("/db").expect("opens");
    let keyspace = db.default_keyspace();
    put(keyspace, 0..4_000, "v");
    db.flush().expect("flushes");
    db.compact().expect("compacts");
    keyspace.delete_range("2".."5").expect("deletes");
    db.settle_debt().expect("pays its debt");
    assert!(view(keyspace).covers.is_some() && records(&view(keyspace)).0 > 3_250);
    assert!(db.idle_pass().expect("an idle time") > 0);
    assert!(view(keyspace).covers.is_none());
    assert_eq!(records(&view(keyspace)).0, 3_250);
    assert_eq!(db.idle_pass().expect("another"), 0, "nothing is left");
}

/// Many single range deletions do not pile up.
#[test]
fn many_range_deletions_are_swept() {
    let vfs = SimVfs::new(1);
    let db = options(&vfs).open("/db").expect("opens");
    let keyspace = db.default_keyspace();
    put(keyspace, 0..3_000, "v");
    db.flush().expect("flushes");
    for number in 0..600 {
        let low = key(number);
        keyspace
            .delete_range(low.clone()..format!("{low}!"))
            .expect("deletes");
        if number % 50 == 49 {
            db.flush().expect("flushes");
            db.settle_debt().expect("pays its debt");
        }
    }
    let view = view(keyspace);
    let left = view.covers.as_ref().map_or(0, |covers| covers.count());
    assert!(
        left <= crate::rebalance::covered_tables::PIECES_MAX,
        "{left} pieces"
    );
    assert_eq!(shown(keyspace), 2_400);
}

/// Scans that look into many runs make a compaction due.
#[test]
fn scans_pay_for_compactions() {
    let vfs = SimVfs::new(1);
    let db = options(&vfs).open("/db").expect("opens");
    let keyspace = db.default_keyspace();
    for round in 0..3 {
        put(keyspace, (0..300).map(|number| number * 7 + round), "v");
        db.flush().expect("flushes");
    }
    db.settle_debt().expect("pays its debt");
    assert_eq!(
        view(keyspace).funk.sorted_runs(),
        3,
        "fewer than make a job due"
    );
    for number in 0..20_000 {
        let mut scan = keyspace.range(key(number)..);
        assert!(scan.next().is_none_or(|pair| pair.is_ok()));
    }
    db.settle_debt().expect("pays its debt");
    assert_eq!(view(keyspace).funk.sorted_runs(), 0);
}

#[test]
fn the_layout_stays_and_is_refused_to_change() {
    let vfs = SimVfs::new(1);
    let options = || options(&vfs).layout(Layout::Chunks);
    let guards = KeyspaceOptions::new().layout(Layout::Guards);
    {
        let db = options().open("/db").expect("opens");
        let keyspace = db.keyspace_with("guards", &guards).expect("makes it");
        put(&keyspace, 0..100, "v");
        put(db.default_keyspace(), 0..100, "v");
        db.close().expect("closes");
    }
    let db = options().open("/db").expect("opens");
    let keyspace = db.keyspace_with("guards", &guards).expect("it has guards");
    assert!(view(&keyspace).funk.is_guarded());
    assert!(!view(db.default_keyspace()).funk.is_guarded());
    let chunks = KeyspaceOptions::new().layout(Layout::Chunks);
    for refused in [
        db.keyspace_with("guards", &chunks).map(drop),
        keyspace.set_options(&chunks),
        db.default_keyspace().set_options(&guards),
    ] {
        let error = refused.expect_err("it has another layout");
        assert_eq!(error.kind(), crate::ErrorKind::InvalidArgument, "{error}");
    }
    keyspace
        .set_options(&KeyspaceOptions::new().block_bytes(512))
        .expect("sets it");
    assert_eq!(
        keyspace.options().expect("reads").layout,
        Some(Layout::Guards)
    );
    db.keyspace_with("default", &chunks).expect("it has chunks");
}

/// Puts that are faster than the jobs wait for them, so level 0 has a limit.
#[test]
fn level_0_does_not_grow_without_limit() {
    let vfs = SimVfs::new(1);
    let small = |guards: crate::GuardOptions| guards.level0_runs(2, 3);
    let options = options(&vfs).advanced(|advanced| advanced.guards(small));
    let db: Db = options.open("/db").expect("opens");
    let keyspace = db.default_keyspace();
    for round in 0..20 {
        put(keyspace, (0..100).map(|number| number * 20 + round), "v");
        db.flush().expect("flushes");
        assert!(view(keyspace).funk.sorted_runs() <= 3);
    }
    assert_eq!(shown(keyspace), 2_000);
}

/// A snapshot lies between two range deletions of one checkpoint. Tables note whole checkpoints, so
/// the first range deletion stays as long as the second one. Nothing is written again and again
/// meanwhile.
#[test]
fn a_snapshot_between_range_deletions_of_one_checkpoint_makes_no_endless_work() {
    let vfs = SimVfs::new(1);
    let db = with_large_guards(&vfs).open("/db").expect("opens");
    let keyspace = db.default_keyspace();
    put(keyspace, 0..1_000, "v");
    db.compact().expect("compacts");
    // It hides more than a quarter of the table.
    keyspace.delete_range("4".."b").expect("deletes");
    let snapshot = db.snapshot().expect("a snapshot");
    keyspace.delete_range("x".."z").expect("deletes");
    db.flush().expect("flushes");
    let jobs = {
        let chunk = chunk(keyspace);
        let _token = chunk.try_token().expect("there are no threads");
        let context = keyspace.handle.engine.jobs();
        let mut jobs = 0;
        while jobs < 10 && maintain(&context, &keyspace.state, &chunk).expect("maintains") {
            jobs += 1;
        }
        jobs
    };
    assert!(jobs < 10, "the jobs do not end");
    let stays = |number: &u32| !("4".."b").contains(&&*key(*number));
    let expected = (0..1_000).filter(stays).count();
    assert_eq!(shown(keyspace), expected);
    drop(snapshot);
    db.settle_debt().expect("pays its debt");
    assert!(view(keyspace).covers.is_none(), "a range deletion stays");
    assert_eq!(records(&view(keyspace)).0, expected as u64);
}

/// A checkpoint has found a full level 0 in a chunk that an ingest replaces before the checkpoint
/// has its token.
#[test]
fn a_chunk_that_an_ingest_has_replaced_is_not_relieved() {
    let vfs = SimVfs::new(1);
    let small = |guards: crate::GuardOptions| guards.level0_runs(2, 2);
    let options = options(&vfs).advanced(|advanced| advanced.guards(small));
    let db = options.open("/db").expect("opens");
    let keyspace = db.default_keyspace();
    for _ in 0..2 {
        put(keyspace, 0..100, "v");
        db.flush().expect("flushes");
    }
    let old = chunk(keyspace);
    assert_eq!(old.view.load_full().funk.sorted_runs(), 2);
    db.ingest([("4", "w"), ("5", "w")]).expect("ingests");
    assert!(old.latch.lock().retired);
    let engine = &keyspace.handle.engine;
    engine.flow.dirty.lock().push((Arc::downgrade(&old), 0));
    relieve_level0(&engine.jobs()).expect("it leaves the chunk");
    drop(old);
    db.flush().expect("flushes");
    assert_eq!(shown(keyspace), 102);
}

/// Tables that cannot be read are marked, also if they are only looked at: all by one call, and the
/// next call tries none of them.
#[test]
fn a_damaged_table_that_a_compaction_looks_at_is_noted() {
    let vfs = SimVfs::new(1);
    let db = options(&vfs).open("/db").expect("opens");
    for value in ["v", "w"] {
        // What comes once is moved, and stays in the container.
        put(db.default_keyspace(), 0..500, value);
        db.flush().expect("flushes");
    }
    db.compact().expect("compacts");
    db.close().expect("closes");
    let dir = Path::new("/db");
    let names = vfs.file_names(dir).into_iter();
    for name in names.filter(|name| name.ends_with(".sst")) {
        let mut bytes = vfs.read_file(&dir.join(&name));
        bytes[100] ^= 1;
        vfs.write_file(&dir.join(name), bytes);
    }
    let db = options(&vfs).open("/db").expect("opens");
    let keyspace = db.default_keyspace();
    let error = db.compact().expect_err("it cannot read them");
    assert_eq!(error.kind(), crate::ErrorKind::Corruption, "{error}");
    let marked = || {
        let view = view(keyspace);
        let all = view.funk.tables();
        let damaged = all.filter(|table| table.is_damaged());
        damaged.count()
    };
    let in_files = vfs.file_names(dir).into_iter();
    let in_files = in_files.filter(|name| name.ends_with(".sst")).count();
    let noted = marked();
    assert!((1..=in_files).contains(&noted), "{noted} of {in_files}");
    assert!(!chunk(keyspace).damaged.load(Ordering::Relaxed));
    let tables = || {
        view(keyspace)
            .funk
            .tables()
            .map(|table| table.part.table)
            .collect::<Vec<_>>()
    };
    let before = tables();
    db.compact().expect_err("it tells what is left out");
    // Whatever it would look at was looked at by the first one.
    assert_eq!((marked(), tables()), (noted, before));
}

/// Values that are read no more lie in one file with values that stay. The records of the latter
/// are in guards that nothing else would write again.
#[test]
fn values_move_out_of_files_that_are_mostly_dead() {
    let vfs = SimVfs::new(1);
    let small = |guards: crate::GuardOptions| guards.last_guard_bytes(64);
    let options = options(&vfs).advanced(|advanced| {
        let apart = advanced.guards(small).values_apart_from(Some(100));
        apart.value_file_bytes(4096).value_file_live_percent(50)
    });
    let db = options.open("/db").expect("opens");
    for round in 0..40u8 {
        db.put(format!("a{round:02}"), [round; 400]).expect("puts");
        for number in 0..9 {
            db.put(format!("b{number}"), [round; 400]).expect("puts");
        }
        db.settle_debt().expect("pays its debt");
    }
    let (bytes, live, _) = db
        .default_keyspace()
        .handle
        .engine
        .core
        .value_files
        .totals();
    assert!(live >= 49 * 400, "{live}");
    assert!(bytes < 3 * live, "{bytes} bytes, {live} live");
    for round in 0..40u8 {
        let value = db.get(format!("a{round:02}")).expect("gets");
        assert_eq!(value.as_deref(), Some(&[round; 400][..]));
    }
}

/// A call that compacts everything has the token for long. Checkpoints that come meanwhile do not
/// wait for its end: between two of its jobs it takes level 0 down.
#[test]
fn level_0_goes_down_during_a_long_compaction() {
    let vfs = SimVfs::new(1);
    // A job has few records, whatever the secret that chooses guards.
    let small = |guards: crate::GuardOptions| guards.last_guard_bytes(512);
    let options = options(&vfs).advanced(|advanced| advanced.guards(small));
    let (_, stop) = options.advanced.guards.level0_runs;
    let db = options.open("/db").expect("opens");
    put(db.default_keyspace(), 0..2_000, "v");
    db.compact().expect("compacts");
    let most = Arc::new(AtomicU32::new(0));
    let seen = most.clone();
    compact_beside(&db, move |asked, keyspace, engine| {
        if asked % 50 == 0 && asked < 2_000 {
            put(keyspace, 2_000 + asked..2_020 + asked, "w");
            checkpoint::checkpoint(engine).expect("a checkpoint");
            let runs = view(keyspace).funk.sorted_runs() as u32;
            seen.fetch_max(runs, Ordering::Relaxed);
        }
    });
    let most = most.load(Ordering::Relaxed);
    assert!((2..stop as u32).contains(&most), "{most} runs");
    assert_eq!(shown(db.default_keyspace()), 2_800);
}

/// Range deletions leave after a sweep, although a checkpoint has brought a run meanwhile that has
/// keys on both sides of them.
#[test]
fn range_deletions_leave_beside_checkpoints() {
    let vfs = SimVfs::new(1);
    let db = with_large_guards(&vfs).open("/db").expect("opens");
    let keyspace = db.default_keyspace();
    put(keyspace, 0..4_000, "v");
    db.compact().expect("compacts");
    keyspace.delete_range("4".."b").expect("deletes");
    db.flush().expect("flushes");
    let checkpoint = |asked, keyspace: &Keyspace, engine: &Engine| {
        if asked == 0 {
            put(keyspace, 4_000..4_100, "w");
            checkpoint::checkpoint(engine).expect("a checkpoint");
        }
    };
    beside(&db, checkpoint, &|| {
        let chunk = chunk(keyspace);
        let _token = chunk.try_token().expect("there are no threads");
        let context = keyspace.handle.engine.jobs();
        let worked = maintain(&context, &keyspace.state, &chunk).expect("maintains");
        assert!(worked && view(keyspace).covers.is_none(), "it stays");
    });
    assert_eq!(view(keyspace).funk.sorted_runs(), 1);
    let stays = |number: &u32| *number >= 4_000 || !("4".."b").contains(&&*key(*number));
    assert_eq!(shown(keyspace), (0..4_100).filter(stays).count());
}
