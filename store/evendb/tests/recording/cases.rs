//! One case for each public call, and the calls that are in no trace.

use super::polled::at_once;
use super::{World, done};
use evendb::{CopyOptions, KeyspaceOptions};
use evendb_trace::Kind;
use std::ops::Range;
use std::time::{Duration, SystemTime};

pub type Case = (&'static str, Kind, fn(&World));

pub const AB: Range<&str> = "a".."c";

fn of_keyspaces() -> Vec<Case> {
    use Kind::*;
    vec![
        ("Keyspace::put", Put, |w| w.keyspace.put("a", "1").unwrap()),
        ("Keyspace::put_with_ttl", Put, |w| {
            w.keyspace
                .put_with_ttl("a", "1", Duration::from_secs(60))
                .unwrap();
        }),
        ("Keyspace::put_expiring_at", Put, |w| {
            w.keyspace
                .put_expiring_at("a", "1", SystemTime::UNIX_EPOCH)
                .unwrap();
        }),
        ("Keyspace::delete", Delete, |w| {
            w.keyspace.delete("a").unwrap()
        }),
        ("Keyspace::single_delete", SingleDelete, |w| {
            w.keyspace.single_delete("a").unwrap()
        }),
        ("Keyspace::merge", Merge, |w| {
            w.counters.merge("a", 1_u64.to_le_bytes()).unwrap()
        }),
        ("Keyspace::compare_and_swap", Commit, |w| {
            let swapped = w.keyspace.compare_and_swap("new", None, Some("1")).unwrap();
            swapped.unwrap();
        }),
        ("Keyspace::fetch_update", Commit, |w| {
            w.keyspace.fetch_update("a", |_| Some("2")).unwrap();
        }),
        ("Keyspace::get", Get, |w| done(w.keyspace.get("a").unwrap())),
        ("Keyspace::try_get", Get, |w| {
            done(w.keyspace.try_get("a").unwrap().unwrap())
        }),
        ("Keyspace::get_async", Get, |w| {
            done(at_once(w.keyspace.get_async("a")).unwrap())
        }),
        ("Keyspace::multi_get_async", MultiGet, |w| {
            done(at_once(w.keyspace.multi_get_async(&["a", "x"])).unwrap())
        }),
        ("Keyspace::range_async", Scan, |w| {
            done(at_once(w.keyspace.range_async(AB).next_chunk()).unwrap())
        }),
        ("Keyspace::contains_key", Contains, |w| {
            done(w.keyspace.contains_key("a").unwrap())
        }),
        ("Keyspace::multi_get", MultiGet, |w| {
            done(w.keyspace.multi_get(&["a", "x"]).unwrap())
        }),
        ("Keyspace::range", Scan, |w| done(w.keyspace.range(AB))),
        ("Keyspace::prefix", Scan, |w| done(w.keyspace.prefix("a"))),
        ("Keyspace::iter", Scan, |w| done(w.keyspace.iter())),
        ("Keyspace::keys", Scan, |w| done(w.keyspace.keys(AB))),
        ("Keyspace::cursor", Scan, |w| done(w.keyspace.cursor(AB))),
        ("Keyspace::delete_range", DeleteRange, |w| {
            w.keyspace.delete_range(AB).unwrap()
        }),
        ("Keyspace::delete_prefix", DeleteRange, |w| {
            w.keyspace.delete_prefix("a").unwrap()
        }),
        ("Keyspace::first", Scan, |w| {
            done(w.keyspace.first().unwrap())
        }),
        ("Keyspace::last", Scan, |w| done(w.keyspace.last().unwrap())),
        ("Keyspace::pop_first", Pop, |w| {
            done(w.keyspace.pop_first().unwrap())
        }),
        ("Keyspace::pop_last", Pop, |w| {
            done(w.keyspace.pop_last().unwrap())
        }),
        ("Keyspace::pop_first_range", Pop, |w| {
            done(w.keyspace.pop_first_range(AB).unwrap())
        }),
        ("Keyspace::pop_last_range", Pop, |w| {
            done(w.keyspace.pop_last_range(AB).unwrap())
        }),
        ("Keyspace::pop_first_prefix", Pop, |w| {
            done(w.keyspace.pop_first_prefix("a").unwrap())
        }),
        ("Keyspace::pop_last_prefix", Pop, |w| {
            done(w.keyspace.pop_last_prefix("a").unwrap())
        }),
        ("Keyspace::ingest", Ingest, |w| {
            done(w.keyspace.ingest([("m", "1")]).unwrap())
        }),
        ("Keyspace::begin_ingest", Other, |w| {
            done(w.keyspace.begin_ingest().unwrap())
        }),
        ("Ingest::put", Ingest, |w| {
            w.keyspace.begin_ingest().unwrap().put("m", "1").unwrap()
        }),
        ("Ingest::put_expiring_at", Ingest, |w| {
            let mut ingest = w.keyspace.begin_ingest().unwrap();
            ingest
                .put_expiring_at("m", "1", SystemTime::UNIX_EPOCH)
                .unwrap();
        }),
        ("Ingest::finish", Other, |w| {
            let mut ingest = w.keyspace.begin_ingest().unwrap();
            ingest.put("m", "1").unwrap();
            ingest.finish().unwrap();
        }),
        ("Keyspace::compact", Other, |w| {
            done(w.keyspace.compact().unwrap())
        }),
        ("Keyspace::compact_range", Other, |w| {
            done(w.keyspace.compact_range(AB).unwrap())
        }),
        ("Keyspace::compact_prefix", Other, |w| {
            done(w.keyspace.compact_prefix("a").unwrap())
        }),
        ("Keyspace::set_compaction_filter", Other, |w| {
            w.keyspace.set_compaction_filter(None).unwrap();
        }),
        ("Keyspace::set_options", Other, |w| {
            w.keyspace.set_options(&KeyspaceOptions::new()).unwrap();
        }),
        ("Keyspace::set_property", Other, |w| {
            w.keyspace.set_property("p", "1").unwrap()
        }),
        ("Keyspace::remove_property", Other, |w| {
            w.keyspace.remove_property("p").unwrap()
        }),
        ("Keyspace::approximate_len", Other, |w| {
            done(w.keyspace.approximate_len(AB).unwrap())
        }),
        ("Keyspace::approximate_len_of_prefix", Other, |w| {
            done(w.keyspace.approximate_len_of_prefix("a").unwrap())
        }),
        ("Keyspace::get_part", Get, |w| {
            done(w.keyspace.get_part("a", 0..1).unwrap())
        }),
        ("Keyspace::approximate_size", Other, |w| {
            done(w.keyspace.approximate_size(AB).unwrap())
        }),
        ("Keyspace::approximate_size_of_prefix", Other, |w| {
            w.keyspace.approximate_size_of_prefix("a").unwrap();
        }),
        ("Keyspace::export", Other, |w| {
            done(w.keyspace.export(w.path("e")).unwrap())
        }),
        ("Keyspace::import", Other, |w| {
            w.keyspace.export(w.path("e")).unwrap();
            w.db.keyspace("i").unwrap().import(w.path("e")).unwrap();
        }),
    ]
}

fn of_databases() -> Vec<Case> {
    use Kind::*;
    vec![
        ("Db::keyspace", Other, |w| {
            done(w.db.keyspace("new").unwrap())
        }),
        ("Db::keyspace_with", Other, |w| {
            done(w.db.keyspace_with("new", &KeyspaceOptions::new()).unwrap());
        }),
        ("Db::rename_keyspace", Other, |w| {
            w.db.rename_keyspace("k", "l").unwrap()
        }),
        ("Db::swap_keyspaces", Other, |w| {
            w.db.keyspace("l").unwrap();
            w.db.swap_keyspaces("k", "l").unwrap()
        }),
        ("Db::drop_keyspace", Other, |w| {
            w.db.drop_keyspace("k").unwrap()
        }),
        ("Db::put", Put, |w| w.db.put("a", "1").unwrap()),
        ("Db::get", Get, |w| done(w.db.get("a").unwrap())),
        ("Db::try_get", Get, |w| {
            done(w.db.try_get("a").unwrap().unwrap())
        }),
        ("Db::get_async", Get, |w| {
            done(at_once(w.db.get_async("a")).unwrap())
        }),
        ("Db::multi_get_async", MultiGet, |w| {
            done(at_once(w.db.multi_get_async(&["a", "x"])).unwrap())
        }),
        ("Db::range_async", Scan, |w| {
            done(at_once(w.db.range_async(AB).next_chunk()).unwrap())
        }),
        ("Db::persist_async", Other, |w| {
            at_once(w.db.persist_async()).unwrap()
        }),
        ("Db::merge", Merge, |w| {
            done(w.db.merge("a", "1").unwrap_err())
        }),
        ("Db::delete", Delete, |w| w.db.delete("a").unwrap()),
        ("Db::contains_key", Contains, |w| {
            done(w.db.contains_key("a").unwrap())
        }),
        ("Db::multi_get", MultiGet, |w| {
            done(w.db.multi_get(&["a", "x"]).unwrap())
        }),
        ("Db::multi_get_across", MultiGet, |w| {
            done(w.db.multi_get_across(&[(&w.keyspace, "a")]).unwrap());
        }),
        ("Db::range", Scan, |w| done(w.db.range(AB))),
        ("Db::prefix", Scan, |w| done(w.db.prefix("a"))),
        ("Db::iter", Scan, |w| done(w.db.iter())),
        ("Db::keys", Scan, |w| done(w.db.keys(AB))),
        ("Db::cursor", Scan, |w| done(w.db.cursor(AB))),
        ("Db::delete_range", DeleteRange, |w| {
            w.db.delete_range(AB).unwrap()
        }),
        ("Db::delete_prefix", DeleteRange, |w| {
            w.db.delete_prefix("a").unwrap()
        }),
        ("Db::first", Scan, |w| done(w.db.first().unwrap())),
        ("Db::last", Scan, |w| done(w.db.last().unwrap())),
        ("Db::pop_first", Pop, |w| done(w.db.pop_first().unwrap())),
        ("Db::pop_last", Pop, |w| done(w.db.pop_last().unwrap())),
        ("Db::ingest", Ingest, |w| {
            done(w.db.ingest([("m", "1")]).unwrap())
        }),
        ("Db::approximate_len", Other, |w| {
            done(w.db.approximate_len(AB).unwrap())
        }),
        ("Db::get_part", Get, |w| {
            done(w.db.get_part("a", 0..1).unwrap())
        }),
        ("Db::approximate_size", Other, |w| {
            done(w.db.approximate_size(AB).unwrap())
        }),
        ("Db::transaction", Abort, |w| {
            let transaction = w.db.transaction().unwrap();
            done(transaction.get(&w.keyspace, "a").unwrap());
        }),
        ("Db::transact", Commit, |w| {
            w.db.transact(|t| t.put(&w.keyspace, "a", "1")).unwrap();
        }),
        ("Db::compare_and_swap", Commit, |w| {
            w.db.compare_and_swap("new", None, Some("1"))
                .unwrap()
                .unwrap();
        }),
        ("Db::fetch_update", Commit, |w| {
            done(w.db.fetch_update("a", |_| Some("2")).unwrap())
        }),
        ("Db::snapshot", Other, |w| done(w.db.snapshot().unwrap())),
        ("Db::persist", Other, |w| w.db.persist().unwrap()),
        ("Db::flush", Other, |w| w.db.flush().unwrap()),
        ("Db::rotate_key", Other, |w| {
            done(w.db.rotate_key().unwrap_err())
        }),
        ("Db::settle_debt", Other, |w| w.db.settle_debt().unwrap()),
        ("Db::compact", Other, |w| done(w.db.compact().unwrap())),
        ("Db::close", Other, |w| w.db.clone().close().unwrap()),
        ("Db::backup", Other, |w| {
            done(w.db.backup(w.path("b")).unwrap())
        }),
        ("Db::copy_to", Other, |w| {
            done(w.db.copy_to(w.path("c")).unwrap())
        }),
        ("Db::backup_with", Other, |w| {
            let how = CopyOptions::new();
            done(w.db.backup_with(w.path("g"), &how).unwrap())
        }),
        ("Db::copy_to_with", Other, |w| {
            let how = CopyOptions::new();
            done(w.db.copy_to_with(w.path("f"), &how).unwrap())
        }),
        ("Db::position", Other, |w| done(w.db.position().unwrap())),
        ("Db::oldest_position", Other, |w| {
            done(w.db.oldest_position().unwrap())
        }),
        ("Db::changes_since", Other, |w| {
            let position = w.db.position().unwrap();
            done(w.db.changes_since(&position).unwrap());
        }),
    ]
}

fn of_snapshots_and_iterators() -> Vec<Case> {
    use Kind::*;
    vec![
        ("Snapshot::get", Get, |w| {
            done(w.db.snapshot().unwrap().get(&w.keyspace, "a").unwrap())
        }),
        ("Snapshot::try_get", Get, |w| {
            let snapshot = w.db.snapshot().unwrap();
            done(snapshot.try_get(&w.keyspace, "a").unwrap().unwrap())
        }),
        ("Snapshot::get_async", Get, |w| {
            let snapshot = w.db.snapshot().unwrap();
            done(at_once(snapshot.get_async(&w.keyspace, "a")).unwrap())
        }),
        ("Snapshot::multi_get_async", MultiGet, |w| {
            let snapshot = w.db.snapshot().unwrap();
            done(at_once(snapshot.multi_get_async(&w.keyspace, &["a"])).unwrap())
        }),
        ("Snapshot::range_async", Scan, |w| {
            let snapshot = w.db.snapshot().unwrap();
            done(at_once(snapshot.range_async(&w.keyspace, AB).next_chunk()).unwrap())
        }),
        ("Snapshot::get_part", Get, |w| {
            let snapshot = w.db.snapshot().unwrap();
            done(snapshot.get_part(&w.keyspace, "a", 0..1).unwrap())
        }),
        ("Snapshot::contains_key", Contains, |w| {
            w.db.snapshot()
                .unwrap()
                .contains_key(&w.keyspace, "a")
                .unwrap();
        }),
        ("Snapshot::multi_get", MultiGet, |w| {
            w.db.snapshot()
                .unwrap()
                .multi_get(&w.keyspace, &["a"])
                .unwrap();
        }),
        ("Snapshot::multi_get_across", MultiGet, |w| {
            w.db.snapshot()
                .unwrap()
                .multi_get_across(&[(&w.keyspace, "a")])
                .unwrap();
        }),
        ("Snapshot::range", Scan, |w| {
            done(w.db.snapshot().unwrap().range(&w.keyspace, AB))
        }),
        ("Snapshot::prefix", Scan, |w| {
            done(w.db.snapshot().unwrap().prefix(&w.keyspace, "a"))
        }),
        ("Snapshot::iter", Scan, |w| {
            done(w.db.snapshot().unwrap().iter(&w.keyspace))
        }),
        ("Snapshot::keys", Scan, |w| {
            done(w.db.snapshot().unwrap().keys(&w.keyspace, AB))
        }),
        ("Snapshot::cursor", Scan, |w| {
            done(w.db.snapshot().unwrap().cursor(&w.keyspace, AB))
        }),
        ("Snapshot::first", Scan, |w| {
            w.db.snapshot().unwrap().first(&w.keyspace).unwrap();
        }),
        ("Snapshot::last", Scan, |w| {
            w.db.snapshot().unwrap().last(&w.keyspace).unwrap();
        }),
        ("Cursor::next", Scan, |w| {
            done(w.db.cursor(AB).next().unwrap().is_some())
        }),
        ("Cursor::fill", Scan, |w| {
            done(w.db.cursor(AB).fill(&mut [0; 100], 9).unwrap())
        }),
        ("Cursor::next_back", Scan, |w| {
            done(w.db.cursor(AB).next_back().unwrap().is_some())
        }),
        ("Cursor::seek", Scan, |w| w.db.cursor(AB).seek("b")),
        ("Cursor::seek_back", Scan, |w| {
            w.db.cursor(AB).seek_back("b")
        }),
        ("Cursor::limit_hint", Scan, |w| {
            done(w.db.cursor(AB).limit_hint(1))
        }),
        ("Cursor::keys_only", Scan, |w| {
            done(w.db.cursor(AB).keys_only())
        }),
        ("KeyCursor::next", Scan, |w| {
            w.db.cursor(AB).keys_only().next().unwrap();
        }),
        ("KeyCursor::next_back", Scan, |w| {
            w.db.cursor(AB).keys_only().next_back().unwrap();
        }),
        ("KeyCursor::seek", Scan, |w| {
            w.db.cursor(AB).keys_only().seek("b")
        }),
        ("KeyCursor::seek_back", Scan, |w| {
            w.db.cursor(AB).keys_only().seek_back("b")
        }),
        ("KeyCursor::limit_hint", Scan, |w| {
            done(w.db.cursor(AB).keys_only().limit_hint(1))
        }),
        ("Iter::limit", Scan, |w| done(w.db.range(AB).limit(1))),
        ("Iter::seek", Scan, |w| w.db.range(AB).seek("b")),
        ("Iter::seek_back", Scan, |w| w.db.range(AB).seek_back("b")),
        ("Keys::limit", Scan, |w| done(w.db.keys(AB).limit(1))),
        ("Keys::seek", Scan, |w| w.db.keys(AB).seek("b")),
        ("Keys::seek_back", Scan, |w| w.db.keys(AB).seek_back("b")),
    ]
}

/// Runs calls of a transaction, and commits it.
pub fn committed(world: &World, run: impl FnOnce(&mut evendb::Transaction)) {
    let mut transaction = world.db.transaction().unwrap();
    run(&mut transaction);
    transaction.commit().unwrap();
}

fn batched(world: &World, run: impl FnOnce(&mut evendb::Batch)) {
    let mut batch = world.db.batch();
    run(&mut batch);
    batch.commit().unwrap();
}

fn of_batches_and_transactions() -> Vec<Case> {
    use Kind::*;
    const MINUTE: Duration = Duration::from_secs(60);
    const PAST: SystemTime = SystemTime::UNIX_EPOCH;
    vec![
        ("Batch::put", Put, |w| {
            batched(w, |b| done(b.put(&w.keyspace, "a", "1").len()))
        }),
        ("Batch::put_with_ttl", Put, |w| {
            batched(w, |b| {
                done(b.put_with_ttl(&w.keyspace, "a", "1", MINUTE).len())
            });
        }),
        ("Batch::put_expiring_at", Put, |w| {
            batched(w, |b| {
                done(b.put_expiring_at(&w.keyspace, "a", "1", PAST).len())
            });
        }),
        ("Batch::delete", Delete, |w| {
            batched(w, |b| done(b.delete(&w.keyspace, "a").len()))
        }),
        ("Batch::single_delete", SingleDelete, |w| {
            batched(w, |b| done(b.single_delete(&w.keyspace, "a").len()));
        }),
        ("Batch::merge", Merge, |w| {
            batched(w, |b| {
                done(b.merge(&w.counters, "a", 1_u64.to_le_bytes()).len())
            });
        }),
        ("Batch::delete_range", DeleteRange, |w| {
            batched(w, |b| done(b.delete_range(&w.keyspace, AB).len()));
        }),
        ("Batch::delete_prefix", DeleteRange, |w| {
            batched(w, |b| done(b.delete_prefix(&w.keyspace, "a").len()));
        }),
        ("Batch::commit", BatchCommit, |w| {
            batched(w, |b| done(b.put(&w.keyspace, "a", "1").len()))
        }),
        ("Batch::commit_async", BatchCommit, |w| {
            let mut batch = w.db.batch();
            batch.put(&w.keyspace, "a", "1");
            at_once(batch.commit_async()).unwrap();
        }),
        ("Transaction::commit_async", Commit, |w| {
            let mut transaction = w.db.transaction().unwrap();
            transaction.put(&w.keyspace, "a", "1").unwrap();
            at_once(transaction.commit_async()).unwrap();
        }),
        ("Transaction::get", Get, |w| {
            committed(w, |t| done(t.get(&w.keyspace, "a").unwrap()))
        }),
        ("Transaction::contains_key", Contains, |w| {
            committed(w, |t| done(t.contains_key(&w.keyspace, "a").unwrap()));
        }),
        ("Transaction::multi_get", MultiGet, |w| {
            committed(w, |t| done(t.multi_get(&w.keyspace, &["a"]).unwrap()));
        }),
        ("Transaction::get_for_update", GetForUpdate, |w| {
            committed(w, |t| done(t.get_for_update(&w.keyspace, "a").unwrap()));
        }),
        ("Transaction::range", Scan, |w| {
            committed(w, |t| done(t.range(&w.keyspace, AB).unwrap()))
        }),
        ("Transaction::prefix", Scan, |w| {
            committed(w, |t| done(t.prefix(&w.keyspace, "a").unwrap()));
        }),
        ("Transaction::iter", Scan, |w| {
            committed(w, |t| done(t.iter(&w.keyspace).unwrap()))
        }),
        ("Transaction::keys", Scan, |w| {
            committed(w, |t| done(t.keys(&w.keyspace, AB).unwrap()))
        }),
        ("Transaction::put", Put, |w| {
            committed(w, |t| t.put(&w.keyspace, "a", "1").unwrap())
        }),
        ("Transaction::merge", Merge, |w| {
            committed(w, |t| {
                t.merge(&w.counters, "a", 1_u64.to_le_bytes()).unwrap()
            });
        }),
        ("Transaction::put_with_ttl", Put, |w| {
            committed(w, |t| {
                t.put_with_ttl(&w.keyspace, "a", "1", MINUTE).unwrap()
            });
        }),
        ("Transaction::put_expiring_at", Put, |w| {
            committed(w, |t| {
                t.put_expiring_at(&w.keyspace, "a", "1", PAST).unwrap()
            });
        }),
        ("Transaction::single_delete", SingleDelete, |w| {
            committed(w, |t| t.single_delete(&w.keyspace, "a").unwrap());
        }),
        ("Transaction::delete", Delete, |w| {
            committed(w, |t| t.delete(&w.keyspace, "a").unwrap());
        }),
        ("Transaction::delete_range", DeleteRange, |w| {
            committed(w, |t| t.delete_range(&w.keyspace, AB).unwrap());
        }),
        ("Transaction::delete_prefix", DeleteRange, |w| {
            committed(w, |t| t.delete_prefix(&w.keyspace, "a").unwrap());
        }),
        ("Transaction::rollback_to", Other, |w| {
            committed(w, |t| {
                let savepoint = t.savepoint();
                t.put(&w.keyspace, "a", "1").unwrap();
                t.rollback_to(savepoint).unwrap();
            });
        }),
        ("Transaction::savepoint", Other, |w| {
            committed(w, |t| {
                t.put(&w.keyspace, "a", "1").unwrap();
                let _ = t.savepoint();
            });
        }),
        ("Transaction::commit", Commit, |w| {
            committed(w, |t| t.put(&w.keyspace, "a", "1").unwrap());
        }),
        ("Transaction::rollback", Abort, |w| {
            let mut transaction = w.db.transaction().unwrap();
            transaction.put(&w.keyspace, "a", "1").unwrap();
            transaction.rollback();
        }),
    ]
}

/// The calls that are in no trace, and the reasons.
pub const NOT_RECORDED: [(&str, &str); 14] = [
    ("Backups::", "calls on files of backups, without a database"),
    ("Change::", "looks at a change in memory"),
    (
        "Changes::",
        "reads the log, not keys; its beginning is recorded",
    ),
    ("CopyOptions::", "options in memory"),
    ("ExportWriter::", "writes files of no database"),
    ("Filled::", "looks at a buffer of the caller's"),
    ("Position::", "bytes in memory"),
    ("RangeChunks::", "the scan is recorded when it is dropped"),
    ("Trace::", "ends the trace"),
    ("TraceOptions::", "options in memory"),
    ("Write::", "looks at a change in memory"),
    ("Writes::", "looks at a change in memory"),
    ("Operands::", "looks at a change in memory"),
    ("Savepoint::", "a place in memory"),
];

pub const NOT_RECORDED_CALLS: [(&str, &str); 32] = [
    ("Batch::durability", "said before the commit"),
    ("Batch::len", "in memory"),
    ("Batch::is_empty", "in memory"),
    ("Batch::get", "looks at the batch alone"),
    ("Batch::iter", "looks at the batch alone"),
    ("Batch::counted_bytes", "in memory"),
    ("Batch::counted_bytes_max", "in memory"),
    ("Batch::clear", "in memory"),
    ("Db::open", "before there is a trace"),
    ("Db::default_keyspace", "in memory"),
    ("Db::keyspace_exists", "in memory"),
    ("Db::keyspace_names", "in memory"),
    ("Db::batch", "its commit is recorded"),
    ("Db::idle_pass", "for tests"),
    ("Db::stats", "figures"),
    ("Db::live_stats", "figures"),
    ("Db::get_latencies", "figures"),
    ("Db::publish_metrics", "figures"),
    ("Db::start_trace", "begins the trace"),
    ("Keyspace::name", "in memory"),
    ("Keyspace::id", "in memory"),
    ("Keyspace::options", "in memory"),
    ("Keyspace::property", "in memory"),
    ("Snapshot::position", "in memory"),
    ("Snapshot::expires", "the end of a value is no load"),
    ("Transaction::lock_timeout", "in memory"),
    ("Transaction::len", "in memory"),
    ("Transaction::is_empty", "in memory"),
    ("Transaction::durability", "said before the commit"),
    ("Keyspace::live_stats", "figures"),
    ("Options::open", "before there is a trace"),
    ("Keyspace::stats", "figures"),
];

pub fn all_cases() -> Vec<Case> {
    [
        of_keyspaces(),
        of_databases(),
        of_snapshots_and_iterators(),
        of_batches_and_transactions(),
    ]
    .concat()
}
