//! Every public call that can touch files is refused after closing, and changes no file then.

use crate::common::polled::at_once;
use crate::common::public::{self, words};
use crate::common::tiny;
use evendb::{
    Changes, CopyOptions, Db, Durability, Error, ErrorKind, ForkOptions, KeyspaceOptions, Merges,
    Position, Result, TraceOptions,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

/// Types that have an open database, or work on files.
const HANDLES: [&str; 20] = [
    "Backups",
    "Batch",
    "Changes",
    "CommitFuture",
    "Cursor",
    "Db",
    "ExportWriter",
    "GetFuture",
    "Ingest",
    "Iter",
    "KeyCursor",
    "Keys",
    "Keyspace",
    "MultiGetFuture",
    "PersistFuture",
    "RangeChunks",
    "Snapshot",
    "Trace",
    "Transaction",
    "TransactionIter",
];
/// Types that the macro of `transaction/iter.rs` makes, with the same functions twice.
const MADE_BY_MACRO: [&str; 1] = ["TransactionIter"];

/// Types without an open database.
const PLAIN: &str = "ForkOptions ForkSummary SharedBudget SharedOptions SharedStats NextChunk WouldRead \
    Advanced BackupInfo BackupSummary BatchWrite Change CompactionFilter CompactionSummary \
    Compression CopyCheck CopyOptions CopySummary Departure Durability Error ErrorKind ExportSummary Figure FigureKind \
    FigureUnit Filled FilterDecision GetStats GuardOptions IngestSummary Key KeyError KeyProvider KeyRing KeyspaceOptions Layout LiveStats \
    LogSearch MemoryStats MergeError MergeOperator Merges Operands OptionInfo Options PauseStats Position RangeSize Rest Result \
    Savepoint SpaceStats Stats TraceOptions TraceSummary TransactionKeys Value WaitStats WallClock Write \
    Writes WrittenStats";

/// Functions that make or change an object in memory, or report about one.
const IN_MEMORY: &str = "Batch::clear Batch::counted_bytes Batch::counted_bytes_max Batch::delete Batch::delete_prefix \
    Batch::delete_range Batch::durability Batch::get Batch::is_empty Batch::iter Batch::len Batch::merge Batch::put \
    Batch::put_expiring_at Batch::put_with_ttl Batch::single_delete Changes::lag Changes::position Cursor::keys_only \
    Cursor::limit_hint Cursor::seek Cursor::seek_back Db::batch Db::default_keyspace Db::get_latencies \
    Db::keyspace_exists Db::keyspace_names Db::publish_metrics Db::stats Iter::limit Iter::seek Iter::seek_back \
    RangeChunks::chunk_records RangeChunks::rev KeyCursor::limit_hint KeyCursor::seek KeyCursor::seek_back Keys::limit Keys::seek Keys::seek_back Keyspace::id \
    Keyspace::name Snapshot::position Transaction::durability Transaction::is_empty Transaction::len \
    Transaction::lock_timeout Transaction::rollback Transaction::rollback_to Transaction::savepoint \
    TransactionIter::limit TransactionIter::seek TransactionIter::seek_back Transaction::put Transaction::put_with_ttl \
    Transaction::put_expiring_at Transaction::delete Transaction::single_delete Transaction::delete_range \
    Transaction::delete_prefix";

/// Functions that work on files that are not the database's, with or without an open one.
const ELSEWHERE: &str = "Backups::at Backups::encryption Backups::list Backups::prune Backups::restore Backups::verify Backups::vfs \
    ExportWriter::create ExportWriter::finish ExportWriter::put Trace::stop";

/// Functions that open or close it: other tests say what these do.
const LIFE: &str = "Db::open Db::close Db::refresh";

/// An operand of the merge operator that the keyspaces have.
const ONE: [u8; 8] = 1u64.to_le_bytes();

type Run = Box<dyn FnOnce() -> Result<()>>;

/// Calls by their names, each with handles that were made while the database was open.
struct Calls {
    db: Db,
    all: Vec<(&'static str, Run)>,
}

impl Calls {
    fn add<T>(&mut self, name: &'static str, run: impl FnOnce(&Db) -> Result<T> + 'static) {
        let db = self.db.clone();
        self.all.push((name, Box::new(move || run(&db).map(drop))));
    }

    /// A call that returns its error with the first item.
    fn lazy<T>(
        &mut self,
        name: &'static str,
        run: impl FnOnce(&Db) -> Option<Result<T>> + 'static,
    ) {
        self.add(name, move |db| match run(db) {
            Some(item) => item.map(drop),
            None => panic!("{name} ended without an error"),
        });
    }
}

fn of_db(calls: &mut Calls, elsewhere: &Path) {
    let to = |name: &str| elsewhere.join(name);
    calls.add("Db::put", |db| db.put("k", "v"));
    calls.add("Db::get", |db| db.get("k"));
    calls.add("Db::try_get", |db| db.try_get("k"));
    calls.add("Db::get_async", |db| at_once(db.get_async("k")));
    calls.add("Db::multi_get_async", |db| {
        at_once(db.multi_get_async(&["k", "l"]))
    });
    calls.add("Db::range_async", |db| {
        at_once(db.range_async("a"..).next_chunk())
    });
    calls.add("Db::persist_async", |db| at_once(db.persist_async()));
    calls.add("Db::merge", |db| db.merge("k", ONE));
    calls.add("Db::delete", |db| db.delete("k"));
    calls.add("Db::contains_key", |db| db.contains_key("k"));
    calls.add("Db::multi_get", |db| db.multi_get(&["k"]));
    calls.add("Db::multi_get_across", |db| {
        db.multi_get_across(&[(db.default_keyspace(), "k")])
    });
    calls.lazy("Db::range", |db| db.range("a"..).next());
    calls.lazy("Db::prefix", |db| db.prefix("k").next());
    calls.lazy("Db::iter", |db| db.iter().next());
    calls.lazy("Db::keys", |db| db.keys("a"..).next());
    calls.add("Db::cursor", |db| db.cursor("a"..).next().map(drop));
    calls.add("Db::delete_range", |db| db.delete_range("a".."b"));
    calls.add("Db::delete_prefix", |db| db.delete_prefix("a"));
    calls.add("Db::transaction", Db::transaction);
    calls.add("Db::transact", |db| {
        db.transact(|transaction| transaction.put(db.default_keyspace(), "k", "v"))
    });
    calls.add("Db::compare_and_swap", |db| {
        db.compare_and_swap("k", None, Some("v"))
    });
    calls.add("Db::fetch_update", |db| db.fetch_update("k", |_| Some("v")));
    calls.add("Db::snapshot", Db::snapshot);
    calls.add("Db::keyspace", |db| db.keyspace("new"));
    calls.add("Db::keyspace_with", |db| {
        db.keyspace_with("new", &KeyspaceOptions::new())
    });
    calls.add("Db::drop_keyspace", |db| db.drop_keyspace("other"));
    calls.add("Db::rename_keyspace", |db| db.rename_keyspace("other", "x"));
    calls.add("Db::swap_keyspaces", |db| {
        db.swap_keyspaces("other", "third")
    });
    calls.add("Db::persist", Db::persist);
    calls.add("Db::flush", Db::flush);
    calls.add("Db::rotate_key", Db::rotate_key);
    calls.add("Db::settle_debt", Db::settle_debt);
    calls.add("Db::idle_pass", Db::idle_pass);
    calls.add("Db::compact", Db::compact);
    let path = to("backups");
    calls.add("Db::backup", move |db| db.backup(path));
    let path = to("more backups");
    calls.add("Db::backup_with", move |db| {
        db.backup_with(path, &CopyOptions::new())
    });
    let path = to("copy");
    calls.add("Db::copy_to", move |db| db.copy_to(path));
    let path = to("another copy");
    calls.add("Db::copy_to_with", move |db| {
        db.copy_to_with(path, &CopyOptions::new())
    });
    let path = to("fork");
    calls.add("Db::fork", move |db| db.fork(path));
    let path = to("another fork");
    calls.add("Db::fork_with", move |db| {
        db.fork_with(path, &ForkOptions::new())
    });
    let path = to("trace");
    calls.add("Db::start_trace", move |db| {
        db.start_trace(TraceOptions::new(path))
    });
    let begin = calls.db.oldest_position().unwrap();
    calls.add("Db::changes_since", move |db| db.changes_since(&begin));
    calls.add("Db::position", Db::position);
    calls.add("Db::oldest_position", Db::oldest_position);
    calls.add("Db::approximate_size", |db| db.approximate_size("a"..));
    calls.add("Db::approximate_len", |db| db.approximate_len("a"..));
    calls.add("Db::get_part", |db| db.get_part("k", 0..1));
    calls.add("Db::ingest", |db| db.ingest([("x", "y")]));
    calls.add("Db::first", Db::first);
    calls.add("Db::last", Db::last);
    calls.add("Db::pop_first", Db::pop_first);
    calls.add("Db::pop_last", Db::pop_last);
}

fn of_keyspace(calls: &mut Calls, elsewhere: &Path) {
    let soon = || SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 33);
    let ttl = Duration::from_secs(1000);
    macro_rules! add {
        ($name:literal, $keyspace:ident => $call:expr) => {
            let $keyspace = calls.db.keyspace("other").unwrap();
            calls.add(concat!("Keyspace::", $name), move |_| $call);
        };
    }
    add!("put", of => of.put("k", "v"));
    add!("put_with_ttl", of => of.put_with_ttl("k", "v", ttl));
    add!("put_expiring_at", of => of.put_expiring_at("k", "v", soon()));
    add!("delete", of => of.delete("k"));
    add!("single_delete", of => of.single_delete("k"));
    add!("merge", of => of.merge("k", ONE));
    add!("compare_and_swap", of => of.compare_and_swap("k", None, Some("v")));
    add!("fetch_update", of => of.fetch_update("k", |_| Some("v")));
    add!("get", of => of.get("k"));
    add!("try_get", of => of.try_get("k"));
    add!("get_async", of => at_once(of.get_async("k")));
    add!("multi_get_async", of => at_once(of.multi_get_async(&["k", "l"])));
    add!("range_async", of => at_once(of.range_async("a"..).next_chunk()));
    add!("contains_key", of => of.contains_key("k"));
    add!("multi_get", of => of.multi_get(&["k"]));
    add!("range", of => of.range("a"..).next().unwrap());
    add!("prefix", of => of.prefix("k").next().unwrap());
    add!("iter", of => of.iter().next().unwrap());
    add!("keys", of => of.keys("a"..).next().unwrap());
    add!("cursor", of => of.cursor("a"..).next().map(drop));
    add!("delete_range", of => of.delete_range("a".."b"));
    add!("delete_prefix", of => of.delete_prefix("a"));
    add!("compact", of => of.compact());
    add!("compact_range", of => of.compact_range("a"..));
    add!("compact_prefix", of => of.compact_prefix("a"));
    add!("set_compaction_filter", of => of.set_compaction_filter(None));
    add!("options", of => of.options());
    add!("set_options", of => of.set_options(&KeyspaceOptions::new().block_bytes(8192)));
    add!("property", of => of.property("p"));
    add!("set_property", of => of.set_property("p", "v"));
    add!("remove_property", of => of.remove_property("p"));
    add!("approximate_size", of => of.approximate_size("a"..));
    add!("approximate_size_of_prefix", of => of.approximate_size_of_prefix("a"));
    add!("approximate_len", of => of.approximate_len("a"..));
    add!("approximate_len_of_prefix", of => of.approximate_len_of_prefix("a"));
    add!("get_part", of => of.get_part("k", 0..1));
    add!("first", of => of.first());
    add!("last", of => of.last());
    add!("pop_first", of => of.pop_first());
    add!("pop_last", of => of.pop_last());
    add!("pop_first_range", of => of.pop_first_range("a"..));
    add!("pop_last_range", of => of.pop_last_range("a"..));
    add!("pop_first_prefix", of => of.pop_first_prefix("k"));
    add!("pop_last_prefix", of => of.pop_last_prefix("k"));
    add!("ingest", of => of.ingest([("x", "y")]));
    add!("begin_ingest", of => of.begin_ingest());
    let path = elsewhere.join("export");
    add!("export", of => of.export(&path));
    let path = elsewhere.join("exported");
    calls.db.default_keyspace().export(&path).unwrap();
    add!("import", of => of.import(&path));
}

/// Handles that were made before, and are used afterwards.
fn of_other_handles(calls: &mut Calls) {
    let db = calls.db.clone();
    macro_rules! add {
        ($name:literal, $handle:ident = $made:expr => $call:expr) => {
            #[allow(unused_mut, reason = "some calls take a handle that changes")]
            let mut $handle = $made;
            calls.add($name, move |_| $call);
        };
    }
    let of = db.default_keyspace().clone();
    macro_rules! in_snapshot {
        ($name:literal, |$snapshot:ident, $of:ident| $call:expr) => {{
            let ($snapshot, $of) = (db.snapshot().unwrap(), of.clone());
            calls.add(concat!("Snapshot::", $name), move |_| $call);
        }};
    }
    in_snapshot!("get", |snapshot, of| snapshot.get(&of, "k"));
    in_snapshot!("try_get", |snapshot, of| snapshot.try_get(&of, "k"));
    in_snapshot!("get_async", |snapshot, of| at_once(
        snapshot.get_async(&of, "k")
    ));
    in_snapshot!("multi_get_async", |snapshot, of| at_once(
        snapshot.multi_get_async(&of, &["k"])
    ));
    in_snapshot!("range_async", |snapshot, of| at_once(
        snapshot.range_async(&of, "a"..).next_chunk()
    ));
    in_snapshot!("get_part", |snapshot, of| snapshot.get_part(&of, "k", 0..1));
    in_snapshot!("contains_key", |snapshot, of| snapshot
        .contains_key(&of, "k"));
    in_snapshot!("expires", |snapshot, of| snapshot.expires(&of, "k"));
    in_snapshot!("multi_get", |snapshot, of| snapshot.multi_get(&of, &["k"]));
    in_snapshot!("multi_get_across", |snapshot, of| snapshot
        .multi_get_across(&[(&of, "k")]));
    in_snapshot!("range", |snapshot, of| snapshot
        .range(&of, "a"..)
        .next()
        .unwrap());
    in_snapshot!("prefix", |snapshot, of| snapshot
        .prefix(&of, "k")
        .next()
        .unwrap());
    in_snapshot!("iter", |snapshot, of| snapshot.iter(&of).next().unwrap());
    in_snapshot!("keys", |snapshot, of| snapshot
        .keys(&of, "a"..)
        .next()
        .unwrap());
    in_snapshot!("cursor", |snapshot, of| snapshot
        .cursor(&of, "a"..)
        .next()
        .map(drop));
    in_snapshot!("first", |snapshot, of| snapshot.first(&of));
    in_snapshot!("last", |snapshot, of| snapshot.last(&of));

    macro_rules! in_transaction {
        ($name:literal, |$transaction:ident, $of:ident| $call:expr) => {{
            #[allow(unused_mut, reason = "some calls change it")]
            let (mut $transaction, $of) = (db.transaction().unwrap(), of.clone());
            calls.add(concat!("Transaction::", $name), move |_| $call);
        }};
    }
    in_transaction!("get", |transaction, of| transaction.get(&of, "k"));
    in_transaction!("get_for_update", |transaction, of| transaction
        .get_for_update(&of, "k"));
    in_transaction!("contains_key", |transaction, of| transaction
        .contains_key(&of, "k"));
    in_transaction!("multi_get", |transaction, of| transaction
        .multi_get(&of, &["k"]));
    in_transaction!("merge", |transaction, of| transaction.merge(&of, "k", ONE));
    in_transaction!("range", |transaction, of| transaction
        .range(&of, "a"..)?
        .next()
        .unwrap());
    in_transaction!("prefix", |transaction, of| transaction
        .prefix(&of, "k")?
        .next()
        .unwrap());
    in_transaction!("iter", |transaction, of| transaction
        .iter(&of)?
        .next()
        .unwrap());
    in_transaction!("keys", |transaction, of| transaction
        .keys(&of, "a"..)?
        .next()
        .unwrap());
    let mut transaction = db.transaction().unwrap();
    transaction.put(&of, "k", "v").unwrap();
    calls.add("Transaction::commit", move |_| transaction.commit());
    let mut transaction = db.transaction().unwrap();
    transaction.put(&of, "k", "v").unwrap();
    calls.add("Transaction::commit_async", move |_| {
        at_once(transaction.commit_async())
    });

    add!("Batch::commit", batch = db.batch() => {
        batch.put(&of, "k", "v").durability(Durability::Sync);
        batch.commit()
    });
    let other = db.default_keyspace().clone();
    add!("Batch::commit_async", batch = db.batch() => {
        batch.put(&other, "k", "v");
        at_once(batch.commit_async())
    });
    add!("RangeChunks::next_chunk", chunks = db.range_async("a"..) => at_once(chunks.next_chunk()));
    add!("RangeChunks::poll_next_chunk", chunks = db.range_async("a"..) => {
        at_once(std::future::poll_fn(move |context| chunks.poll_next_chunk(context)))
    });
    let of = db.default_keyspace();
    add!("Ingest::put", ingest = of.begin_ingest().unwrap() => ingest.put("x", "y"));
    add!("Ingest::put_expiring_at", ingest = of.begin_ingest().unwrap() => {
        ingest.put_expiring_at("x", "y", SystemTime::UNIX_EPOCH)
    });
    let mut ingest = of.begin_ingest().unwrap();
    ingest.put("x", "y").unwrap();
    calls.add("Ingest::finish", move |_| ingest.finish());
    add!("Cursor::next", cursor = db.cursor("a"..) => cursor.next().map(drop));
    add!("Cursor::fill", cursor = db.cursor("a"..) => cursor.fill(&mut [0; 100], 9));
    add!("Cursor::next_back", cursor = db.cursor("a"..) => cursor.next_back().map(drop));
    add!("KeyCursor::next", cursor = db.cursor("a"..).keys_only() => cursor.next().map(drop));
    add!("KeyCursor::next_back", cursor = db.cursor("a"..).keys_only() => cursor.next_back().map(drop));
    let feed = |position: &Position| -> Changes { db.changes_since(position).unwrap() };
    let begin = db.oldest_position().unwrap();
    add!("Changes::wait", changes = feed(&begin) => changes.wait(Duration::MAX));
    add!("Changes::next_blocking", changes = feed(&begin) => changes.next_blocking());
    add!("Changes::next_timeout", changes = feed(&begin) => changes.next_timeout(Duration::MAX));
    add!("Changes::next_async", changes = feed(&begin) => at_once(changes.next_async()));
    add!("Changes::poll_next", changes = feed(&begin) => {
        match changes.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(answer)) => answer,
            other => panic!("{other:?}"),
        }
    });
    let (changes, again) = (feed(&begin), begin);
    calls.add("Changes::since", move |_| changes.since(&again));
    let watched = of.clone();
    calls.add("Keyspace::watch", move |_| watched.watch("a"..));
    let watched = of.clone();
    calls.add("Keyspace::watch_prefix", move |_| watched.watch_prefix("a"));
}

/// The author of a new public function states here what it does, and so whether closing has to wait
/// for it.
#[test]
fn each_public_function_is_said_to_touch_files_or_not() {
    let mut types: BTreeSet<String> = HANDLES.iter().map(|&name| name.to_owned()).collect();
    types.extend(words(PLAIN));
    assert_eq!(public::types(), types, "types that the crate gives out");

    let dir = tempfile::tempdir().unwrap();
    let calls = all_calls(dir.path());
    let mut said: BTreeSet<String> = calls
        .all
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    assert_eq!(said.len(), calls.all.len(), "a call is there twice");
    for list in [IN_MEMORY, ELSEWHERE, LIFE] {
        for name in words(list) {
            assert!(said.insert(name.clone()), "{name} is said to be two things");
        }
    }
    let found = public::functions(&HANDLES, &MADE_BY_MACRO);
    let unsaid: Vec<_> = found.difference(&said).collect();
    assert!(
        unsaid.is_empty(),
        "it is not said of these public functions whether they touch files: {unsaid:?}"
    );
    let gone: Vec<_> = said.difference(&found).collect();
    assert!(gone.is_empty(), "there are no such functions: {gone:?}");
}

fn all_calls(dir: &Path) -> Calls {
    let db = tiny(Durability::Process, 2)
        .stats_interval(Duration::ZERO)
        .open(dir.join("db"))
        .unwrap();
    for number in 0..300 {
        db.put(format!("key{number}"), [7; 100]).unwrap();
    }
    let options = KeyspaceOptions::new().merge_operator(Merges::Append);
    db.default_keyspace().set_options(&options).unwrap();
    let other = db.keyspace_with("other", &options).unwrap();
    other.put("key", "value").unwrap();
    db.settle_debt().unwrap();
    db.put("k", "in memory").unwrap();
    other.put("k", "in memory").unwrap();
    let mut calls = Calls {
        db,
        all: Vec::new(),
    };
    let elsewhere = dir.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    of_db(&mut calls, &elsewhere);
    of_keyspace(&mut calls, &elsewhere);
    of_other_handles(&mut calls);
    calls
}

/// All files below a directory, with their contents.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(self::files(&path)),
            false => {
                files.insert(path.display().to_string(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

fn kind(result: Result<()>) -> Option<ErrorKind> {
    result.err().as_ref().map(Error::kind)
}

#[test]
fn after_closing_every_call_is_refused_and_changes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let Calls { db, all } = all_calls(dir.path());
    let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
    assert!(names.len() > 100, "{names:?}");
    // These handles, which are all open, do not keep it from closing.
    db.close().unwrap();
    let before = files(dir.path());
    let mut wrong = Vec::new();
    for (name, run) in all {
        let found = kind(run());
        if found != Some(ErrorKind::Closed) {
            wrong.push(format!("{name}: {found:?}"));
        }
        if files(dir.path()) != before {
            wrong.push(format!("{name} changed a file"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Another opening has the directory by then: handles of the first one do not affect it.
#[test]
fn what_is_left_of_a_closed_database_goes_without_touching_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let Calls { db, all } = all_calls(dir.path());
    db.close().unwrap();
    let again = Db::open(dir.path().join("db")).unwrap();
    again.put("k", "of the second life").unwrap();
    again.flush().unwrap();
    for (_, run) in all {
        drop(run);
    }
    assert_eq!(again.get("k").unwrap().unwrap(), "of the second life");
    again.close().unwrap();
    let third = Db::open(dir.path().join("db")).unwrap();
    assert_eq!(third.get("k").unwrap().unwrap(), "of the second life");
    assert_eq!(third.iter().count(), 301);
}
