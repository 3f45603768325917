//! Watches of key ranges: what they give beside a filter of the full feed; threads and tasks that
//! wait; what wakes them and what they then find; dropped futures; positions over reopenings and
//! crashes; and how far a consumer is behind.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which may end at the first surprise"
)]
#![expect(clippy::disallowed_types, reason = "no model runs this")]

mod common;

use common::following::{LAYOUTS, WITH_LOG, on_sim, small};
use common::{DIR, scramble};
use evendb::vfs::{CrashMode, Fault, FaultKind, FaultOn, SimVfs};
use evendb::{
    Change, Changes, Db, Durability, Error, ErrorKind, Keyspace, KeyspaceOptions, Layout, Merges,
    Options, Position,
};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

/// Counts how often it was woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Count {
    fn woken(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future in this thread; returns its result, and how often it was polled.
fn block_on<T>(future: impl Future<Output = T>) -> (T, u32) {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = std::pin::pin!(future);
    let mut polls = 0;
    loop {
        polls += 1;
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return (done, polls);
        }
        thread::park();
    }
}

/// Polls once.
fn poll(feed: &mut Changes, waker: &Waker) -> Poll<Option<Result<Change, Error>>> {
    feed.poll_next(&mut Context::from_waker(waker))
}

/// The keys of a change.
fn keys_of(change: &Change) -> Vec<Vec<u8>> {
    change.writes().map(|write| write.key.to_vec()).collect()
}

/// A write, with everything that a consumer sees of it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Seen {
    keyspace: u32,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    operands: Vec<Vec<u8>>,
    expires: bool,
    deleted_to: Option<Bound<Vec<u8>>>,
}

fn seen(change: &Change) -> Vec<Seen> {
    let owned = |write: evendb::Write<'_>| Seen {
        keyspace: write.keyspace_id,
        key: write.key.to_vec(),
        value: write.value.map(<[u8]>::to_vec),
        operands: write
            .operands
            .map(|operands| operands.iter().map(<[u8]>::to_vec).collect())
            .unwrap_or_default(),
        expires: write.expires.is_some(),
        deleted_to: write.deleted_to.map(|bound| bound.map(<[u8]>::to_vec)),
    };
    change.writes().map(owned).collect()
}

/// What a watch of a range has to give of a write, by a rule of its own: key by key for what
/// touches, limit by limit for a range deletion.
fn expected_of(write: &Seen, keyspace: u32, low: &[u8], high: Option<&[u8]>) -> Option<Seen> {
    if write.keyspace != keyspace {
        return None;
    }
    let mut given = write.clone();
    match &write.deleted_to {
        None => {
            let inside = write.key[..] >= *low && high.is_none_or(|high| write.key[..] < *high);
            inside.then_some(given)
        }
        Some(to) => {
            if given.key[..] < *low {
                given.key = low.to_vec();
            }
            let to = match to {
                Bound::Excluded(to) => Some(to.clone()),
                _ => None,
            };
            let to = match (to, high) {
                (Some(to), Some(high)) => Some(to.min(high.to_vec())),
                (Some(to), None) => Some(to),
                (None, high) => high.map(<[u8]>::to_vec),
            };
            if to.as_ref().is_some_and(|to| *to <= given.key) {
                return None;
            }
            given.deleted_to = Some(to.map_or(Bound::Unbounded, Bound::Excluded));
            Some(given)
        }
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("k{:02}", number % 40).into_bytes()
}

/// One put, delete, merge, range deletion or batch in one of three keyspaces.
fn write_some(db: &Db, spaces: &[Keyspace; 3], seed: u64) {
    let dice = scramble(seed);
    let keyspace = &spaces[(dice % 3) as usize];
    let len = match dice / 3 % 50 {
        0 => 20_000,
        1..5 => 700,
        _ => dice as usize / 7 % 60,
    };
    let value = format!("{seed}:{}", "v".repeat(len)).into_bytes();
    let at = key(dice / 11);
    match dice / 13 % 9 {
        0 => keyspace.delete(at).unwrap(),
        1 => {
            let to = key(dice / 17);
            keyspace.delete_range(at..to).unwrap();
        }
        2 => keyspace.delete_range(at..).unwrap(),
        3 => keyspace
            .put_with_ttl(at, value, Duration::from_secs(3600))
            .unwrap(),
        4 => spaces[2].merge(at, value).unwrap(),
        5 | 6 => {
            let mut batch = db.batch();
            for step in 0..1 + dice / 19 % 6 {
                let keyspace = &spaces[(scramble(dice + step) % 3) as usize];
                batch.put(keyspace, key(scramble(dice ^ step)), &value);
            }
            batch.commit().unwrap();
        }
        _ => keyspace.put(at, value).unwrap(),
    }
}

#[test]
fn a_watch_gives_what_a_filter_of_the_full_feed_gives() {
    let mut watched = 0;
    for case in 0..16_u64 {
        let (layout, level) = (LAYOUTS[case as usize % 2], WITH_LOG[case as usize / 2 % 2]);
        let vfs = SimVfs::new(case);
        let options = on_sim(&vfs, layout, level).advanced(|advanced| {
            let advanced = advanced.keep_changes_bytes(32 << 20);
            match case / 4 % 2 {
                0 => advanced,
                _ => advanced.values_apart_from(Some(600)).value_file_bytes(4096),
            }
        });
        let db = options.open(DIR).unwrap();
        let merging = KeyspaceOptions::new().merge_operator(Merges::Append);
        let spaces = [
            db.default_keyspace().clone(),
            db.keyspace("other").unwrap(),
            db.keyspace_with("merged", &merging).unwrap(),
        ];
        let start = db.position().unwrap();
        let mut position = start;
        for step in 0..150 {
            if step == 60 {
                position = db.position().unwrap();
            }
            write_some(&db, &spaces, case << 32 | step);
        }
        for from in [start, position] {
            let all: Vec<_> = db
                .changes_since(&from)
                .unwrap()
                .map(Result::unwrap)
                .collect();
            assert!(all.len() > 60, "{}", all.len());
            let end = all.last().unwrap().position();
            for range in 0..6_u64 {
                let dice = scramble(case ^ range << 8);
                let keyspace = &spaces[(dice % 3) as usize];
                let (low, high) = match range {
                    0 => (Vec::new(), None),
                    1 => (b"k1".to_vec(), Some(b"k2".to_vec())),
                    2 => (key(dice / 3), None),
                    3 => (key(dice / 3), Some(key(dice / 5))),
                    4 => (vec![b'x'; 70_000], None),
                    _ => (key(dice / 3), Some(vec![b'k'; 70_000])),
                };
                let mut watch = match (range, &high) {
                    (1, _) => keyspace.watch_prefix("k1").unwrap(),
                    (_, Some(high)) => keyspace.watch(&low[..]..&high[..]).unwrap(),
                    (_, None) => keyspace.watch(&low[..]..).unwrap(),
                };
                assert!(watch.next().is_none(), "from now on there is nothing");
                watch = watch.since(&from).unwrap();
                // A limit that no key has stands for the first key behind it.
                let fit = |key: &[u8]| match key {
                    [front @ .., last] if key.len() > 65_535 => {
                        [&front[..65_534], &[last + 1]].concat()
                    }
                    key => key.to_vec(),
                };
                let (low, high) = (fit(&low), high.as_deref().map(fit));
                for change in &all {
                    let part =
                        |write: &Seen| expected_of(write, keyspace.id(), &low, high.as_deref());
                    let expected: Vec<_> = seen(change).iter().filter_map(part).collect();
                    if expected.is_empty() {
                        continue;
                    }
                    let given = watch.next().expect("it gives the change").unwrap();
                    assert!(seen(&given) == expected, "case {case}, range {range}");
                    assert_eq!(given.position(), change.position());
                    assert_eq!(given.durability(), change.durability());
                    watched += 1;
                }
                assert!(watch.next().is_none());
                assert_eq!(watch.position(), end, "what was passed over counts as seen");
            }
        }
    }
    assert!(watched > 1_000, "{watched}");
}

/// Writers of four prefixes, watched by threads and by tasks: each watcher sees its writer's puts,
/// in order and without a gap, and nothing else.
#[test]
fn many_watchers_and_many_writers() {
    const WRITERS: u32 = 4;
    const PUTS: u32 = 150;
    for (layout, level) in LAYOUTS.into_iter().zip(WITH_LOG) {
        let dir = tempfile::tempdir().unwrap();
        // The log is long enough for all of it: no watcher falls behind too far.
        let options = small(layout, level, 2)
            .memory_budget(16 << 20)
            .advanced(|advanced| advanced.commit_log_bytes(1 << 20));
        let db = options.open(dir.path()).unwrap();
        thread::scope(|scope| {
            for watcher in 0..3 * WRITERS {
                let prefix = format!("w{}/", watcher % WRITERS);
                let mut watch = db.default_keyspace().watch_prefix(&prefix).unwrap();
                scope.spawn(move || {
                    for number in 0..PUTS {
                        let change = match watcher % 3 {
                            0 => watch.next_blocking().unwrap(),
                            1 => block_on(watch.next_async()).0.unwrap(),
                            _ => loop {
                                let wait = Duration::from_secs(1);
                                if let Some(change) = watch.next_timeout(wait).unwrap() {
                                    break change;
                                }
                            },
                        };
                        let expected = format!("{prefix}{number:05}").into_bytes();
                        assert_eq!(keys_of(&change), [expected]);
                    }
                    assert!(watch.next().is_none());
                });
            }
            for writer in 0..WRITERS {
                let db = &db;
                scope.spawn(move || {
                    for number in 0..PUTS {
                        db.put(format!("w{writer}/{number:05}"), "v").unwrap();
                        db.put(format!("unwatched/{writer}"), "v").unwrap();
                    }
                });
            }
        });
    }
}

/// A consumer that stores its position goes on where it was: over closing, over a handle that is
/// dropped, over a process that dies, and over a power cut. What it had not seen comes, once.
#[test]
fn a_watch_goes_on_after_reopening() {
    for layout in LAYOUTS {
        for level in WITH_LOG {
            let mut vfs = SimVfs::new(7);
            // Otherwise a power cut takes changes from the log that a checkpoint has.
            let open = |vfs: &SimVfs| {
                let options = on_sim(vfs, layout, level);
                let keeping = options.advanced(|advanced| advanced.keep_changes_bytes(8 << 20));
                keeping.open(DIR).unwrap()
            };
            let mut db = open(&vfs);
            let mut stored = db.position().unwrap().to_string();
            let mut unseen = Vec::new();
            for life in 0..8_u32 {
                for number in 0..20_u32 {
                    let name = format!("{life}/{number}");
                    db.put(format!("a/{name}"), "v").unwrap();
                    db.put(format!("b/{name}"), "v").unwrap();
                    unseen.push(format!("a/{name}").into_bytes());
                }
                match life % 4 {
                    0 => db.close().unwrap(),
                    1 => drop(db),
                    2 => {
                        vfs = vfs.crash(CrashMode::Process);
                        drop(db);
                    }
                    _ => {
                        db.persist().unwrap();
                        vfs = vfs.crash(CrashMode::PowerLossNothing);
                        drop(db);
                    }
                }
                db = open(&vfs);
                let position: Position = stored.parse().unwrap();
                let watch = db.default_keyspace().watch_prefix("a/").unwrap();
                let mut watch = watch.since(&position).unwrap();
                for key in std::mem::take(&mut unseen) {
                    assert_eq!(keys_of(&watch.next().unwrap().unwrap()), [key]);
                }
                assert!(watch.next().is_none());
                stored = watch.position().to_string();
                // From here on too.
                db.put("a/last", "v").unwrap();
                assert_eq!(keys_of(&watch.next_blocking().unwrap()), [b"a/last"]);
                stored = match life % 2 {
                    0 => watch.position().to_string(),
                    _ => {
                        unseen.push(b"a/last".to_vec());
                        stored
                    }
                };
            }
        }
    }
}

/// Each way of waiting, until `end` ends it; the kinds of the errors.
fn ended_by(db: &Db, end: impl FnOnce()) -> Vec<ErrorKind> {
    let keyspace = db.keyspace("watched").unwrap();
    let (tell, told) = mpsc::channel();
    let mut waiters = Vec::new();
    for number in 0..16 {
        let mut watch = keyspace.watch_prefix("k").unwrap();
        let tell = tell.clone();
        waiters.push(thread::spawn(move || {
            // Nothing is there, so it waits in what follows.
            assert!(watch.next().is_none());
            tell.send(()).unwrap();
            let error = match number % 3 {
                0 => watch.next_blocking().unwrap_err(),
                1 => block_on(watch.next_async()).0.unwrap_err(),
                _ => loop {
                    match watch.wait(Duration::from_secs(3600)) {
                        Ok(_) => assert!(watch.next().is_none()),
                        Err(error) => break error,
                    }
                },
            };
            // The same reason again, and nothing more.
            let again = block_on(watch.next_async()).0.unwrap_err();
            assert_eq!(again.kind(), error.kind());
            assert_eq!(watch.next_blocking().unwrap_err().kind(), error.kind());
            error.kind()
        }));
    }
    for _ in 0..16 {
        told.recv().unwrap();
    }
    end();
    waiters
        .into_iter()
        .map(|waiter| waiter.join().unwrap())
        .collect()
}

#[test]
fn closing_failing_and_dropping_the_keyspace_wake_everything_that_waits() {
    for (layout, level) in LAYOUTS.into_iter().zip(WITH_LOG) {
        let open = |vfs: &SimVfs| on_sim(vfs, layout, level).open(DIR).unwrap();
        let vfs = SimVfs::new(1);
        let db = open(&vfs);
        let closer = db.clone();
        let kinds = ended_by(&db, || closer.close().unwrap());
        assert_eq!(kinds, [ErrorKind::Closed; 16]);

        let vfs = SimVfs::new(2);
        let db = open(&vfs);
        let kinds = ended_by(&db, || db.drop_keyspace("watched").unwrap());
        assert_eq!(kinds, [ErrorKind::KeyspaceDropped; 16]);
        let kinds = ended_by(&db, || {
            vfs.inject(Fault {
                at: 0,
                on: FaultOn::Sync,
                kind: FaultKind::Eio,
                sticky: true,
                path_contains: None,
            });
            db.put("elsewhere", "v")
                .and_then(|()| db.persist())
                .unwrap_err();
        });
        assert_eq!(kinds, [ErrorKind::Latched; 16]);
    }
}

#[test]
fn a_dropped_keyspace_ends_its_watch_and_its_successor_has_its_own() {
    for layout in LAYOUTS {
        let db = on_sim(&SimVfs::new(1), layout, Durability::Process)
            .open(DIR)
            .unwrap();
        let (jobs, other) = (db.keyspace("jobs").unwrap(), db.keyspace("other").unwrap());
        let position = db.position().unwrap();
        let (mut watch, mut beside) = (
            jobs.watch::<&[u8]>(..).unwrap(),
            other.watch::<&[u8]>(..).unwrap(),
        );
        jobs.put("a", "1").unwrap();
        other.put("a", "1").unwrap();
        db.drop_keyspace("jobs").unwrap();
        let error = watch.next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::KeyspaceDropped);
        assert!(watch.next().is_none());
        let error = jobs.watch::<&[u8]>(..).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::KeyspaceDropped);
        assert_eq!(keys_of(&beside.next().unwrap().unwrap()), [b"a"]);
        // A keyspace of the same name is another one.
        let again = db.keyspace("jobs").unwrap();
        assert_ne!(again.id(), jobs.id());
        again.put("b", "2").unwrap();
        let mut watch = again.watch::<&[u8]>(..).unwrap().since(&position).unwrap();
        assert_eq!(keys_of(&watch.next().unwrap().unwrap()), [b"b"]);
        assert!(watch.next().is_none());
    }
}

/// A future that is dropped while it waits has taken no change and leaves no waker behind; neither
/// does a feed.
#[test]
fn futures_and_feeds_that_are_dropped_leave_nothing_behind() {
    for (layout, level) in LAYOUTS.into_iter().zip(WITH_LOG) {
        let db = on_sim(&SimVfs::new(1), layout, level).open(DIR).unwrap();
        let mut watch = db.default_keyspace().watch_prefix("k").unwrap();
        let mut all = db.changes_since(&db.position().unwrap()).unwrap();
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let idle = Arc::strong_count(&count);
        for round in 0..20_usize {
            {
                let mut next = std::pin::pin!(watch.next_async());
                for _ in 0..3 {
                    let mut context = Context::from_waker(&waker);
                    assert!(next.as_mut().poll(&mut context).is_pending());
                }
                assert_eq!(Arc::strong_count(&count), idle + 1, "one waker is kept");
            }
            assert_eq!(Arc::strong_count(&count), idle, "the future took it back");
            let number = format!("k{round}");
            db.put(&number, "v").unwrap();
            assert_eq!(count.woken(), round);
            // What came while no future was there comes now.
            let (change, polls) = block_on(watch.next_async());
            assert_eq!((keys_of(&change.unwrap()), polls), (vec![number.into()], 1));
            // A feed as a stream: its waker stays until it is woken.
            assert!(matches!(poll(&mut all, &waker), Poll::Ready(Some(Ok(_)))));
            assert!(poll(&mut all, &waker).is_pending());
            assert_eq!(Arc::strong_count(&count), idle + 1);
            db.put("other", "v").unwrap();
            assert_eq!(count.woken(), round + 1);
            assert_eq!(Arc::strong_count(&count), idle);
            assert!(matches!(poll(&mut all, &waker), Poll::Ready(Some(Ok(_)))));
        }
        assert!(poll(&mut all, &waker).is_pending());
        drop(all);
        assert_eq!(Arc::strong_count(&count), idle, "the feed took it back");
        // A future that is forgotten keeps nothing from others.
        let mut forgotten = Box::pin(watch.next_async());
        assert!(
            forgotten
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        std::mem::forget(forgotten);
        let mut other = db.default_keyspace().watch_prefix("k").unwrap();
        db.put("k", "v").unwrap();
        assert_eq!(keys_of(&other.next_blocking().unwrap()), [b"k"]);
    }
}

/// Waiting costs a poll to begin, one for each write, and none in between.
#[test]
fn a_waiting_task_is_polled_when_there_is_something() {
    for (layout, level) in LAYOUTS.into_iter().zip(WITH_LOG) {
        let dir = tempfile::tempdir().unwrap();
        let db = small(layout, level, 1).open(dir.path()).unwrap();
        let mut watch = db.default_keyspace().watch_prefix("k").unwrap();
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let mut next = std::pin::pin!(watch.next_async());
                let told_once = std::future::poll_fn(|context| {
                    let polled = next.as_mut().poll(context);
                    tell.send(()).unwrap();
                    polled
                });
                block_on(told_once)
            });
            for number in 0..10 {
                // It has been polled, and is waiting or about to.
                told.recv().unwrap();
                db.put(format!("unwatched/{number}"), "v").unwrap();
            }
            told.recv().unwrap();
            db.put("k", "v").unwrap();
            let (change, polls) = waiting.join().unwrap();
            assert_eq!(keys_of(&change.unwrap()), [b"k"]);
            // A wake-up for each of 11 writes; one that comes during a poll may make one more.
            assert!((12..=24).contains(&polls), "{polls}");
        });
    }
}

/// A poll that passes over much lets other tasks run, and says so by waking its own.
#[test]
fn a_poll_passes_over_a_part_and_wakes_itself() {
    let options = Options::new()
        .memory_budget(64 << 20)
        .workers(0)
        .vfs(Arc::new(SimVfs::new(1)))
        .advanced(|advanced| advanced.commit_log_bytes(32 << 20));
    let db = options.open(DIR).unwrap();
    let mut watch = db.default_keyspace().watch_prefix("k").unwrap();
    for number in 0..50 {
        db.put(format!("unwatched/{number}"), vec![7; 100_000])
            .unwrap();
    }
    db.put("k", "v").unwrap();
    let behind = watch.lag();
    assert!(behind > 5_000_000, "{behind}");
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let mut lags = vec![behind];
    let change = loop {
        let before = count.woken();
        match poll(&mut watch, &waker) {
            Poll::Ready(change) => break change.unwrap().unwrap(),
            Poll::Pending => assert_eq!(count.woken(), before + 1),
        }
        lags.push(watch.lag());
    };
    assert_eq!(keys_of(&change), [b"k"]);
    assert!((4..=6).contains(&count.woken()), "{lags:?}");
    assert!(lags.is_sorted_by(|a, b| a > b), "{lags:?}");
}

/// The log is not held for a consumer that sleeps; its lag says how far behind it is; and a
/// position that is lost is an error, never a gap.
#[test]
fn a_sleeping_consumer_is_told_what_it_lost() {
    for layout in LAYOUTS {
        for level in WITH_LOG {
            let vfs = SimVfs::new(1);
            let db = on_sim(&vfs, layout, level).open(DIR).unwrap();
            let mut sleeper = db.default_keyspace().watch_prefix("k").unwrap();
            let mut idle = db.default_keyspace().watch_prefix("other").unwrap();
            let begin = sleeper.position();
            assert_eq!(sleeper.lag(), 0);
            let mut behind = 0;
            for number in 0..1_000 {
                db.put(format!("k{number}"), [7; 200]).unwrap();
                let lag = sleeper.lag();
                assert!(lag >= behind + 200, "{lag} {behind}");
                behind = lag;
                assert!(idle.next().is_none());
                assert_eq!(idle.lag(), 0);
            }
            assert!(
                behind > 3 * (64 << 10),
                "the log went round thrice: {behind}"
            );
            let error = sleeper.next().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ChangesGone, "{error}");
            assert!(sleeper.next().is_none());
            assert_eq!(
                sleeper.position(),
                begin,
                "a failed feed stays where it was"
            );
            assert_eq!(
                block_on(sleeper.next_async()).0.unwrap_err().kind(),
                ErrorKind::ChangesGone
            );
            // Who passed over all of it has a position that is still there, after a restart too.
            let kept = idle.position();
            drop((sleeper, idle));
            db.close().unwrap();
            let db = on_sim(&vfs, layout, level).open(DIR).unwrap();
            let watch = || db.default_keyspace().watch_prefix("other").unwrap();
            assert!(watch().since(&kept).unwrap().next().is_none());
            assert_eq!(
                watch().since(&begin).unwrap_err().kind(),
                ErrorKind::ChangesGone
            );
        }
    }
}

/// A waker is code of the application: one that panics harms neither the write nor other tasks, and
/// one that owns the last handles closes the database.
#[test]
fn wakers_may_panic_and_may_own_the_database() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            std::panic::panic_any("a waker that panics");
        }
    }
    struct Owns(Mutex<Option<(Changes, Db)>>);
    impl Wake for Owns {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
        }
    }
    for (layout, level) in LAYOUTS.into_iter().zip(WITH_LOG) {
        let dir = tempfile::tempdir().unwrap();
        let open = || small(layout, level, 1).open(dir.path()).unwrap();
        let db = open();
        let whole = || db.default_keyspace().watch::<&[u8]>(..).unwrap();
        let (mut first, mut second, mut third) = (whole(), whole(), whole());
        let count = Arc::new(Count::default());
        assert!(poll(&mut first, &Waker::from(Arc::new(Panics))).is_pending());
        assert!(poll(&mut second, &Waker::from(count.clone())).is_pending());
        // The task, its feed and a handle are one thing, and the wake-up ends it.
        let owns = Arc::new(Owns(Mutex::new(None)));
        assert!(poll(&mut third, &Waker::from(owns.clone())).is_pending());
        *owns.0.lock().unwrap() = Some((third, db.clone()));
        db.put("k", "v").unwrap();
        assert_eq!(count.woken(), 1);
        assert_eq!(db.get("k").unwrap().unwrap(), "v");
        assert!(owns.0.lock().unwrap().is_none(), "it was woken");
        assert_eq!(Arc::strong_count(&owns), 1);
        assert_eq!(keys_of(&second.next_blocking().unwrap()), [b"k"]);
        drop((first, second, db));
        assert_eq!(open().get("k").unwrap().unwrap(), "v");
    }
}

#[test]
fn without_more_to_come_a_watch_says_why() {
    for layout in LAYOUTS {
        let vfs = SimVfs::new(1);
        let db = on_sim(&vfs, layout, Durability::Process).open(DIR).unwrap();
        let position = db.position().unwrap();
        db.put("k", "v").unwrap();
        db.close().unwrap();
        let options = || on_sim(&vfs, layout, Durability::Process);
        let db = options().read_only(true).open(DIR).unwrap();
        let watch = db.default_keyspace().watch_prefix("k").unwrap();
        let mut watch = watch.since(&position).unwrap();
        assert_eq!(keys_of(&block_on(watch.next_async()).0.unwrap()), [b"k"]);
        let waker = Waker::noop();
        let Poll::Ready(Some(Err(error))) = poll(&mut watch, waker) else {
            panic!("no change will come");
        };
        assert_eq!(error.kind(), ErrorKind::ReadOnly);
        assert!(matches!(poll(&mut watch, waker), Poll::Ready(None)));
        drop((watch, db));
        let db = options().durability(Durability::Relaxed).open(DIR).unwrap();
        let error = db.default_keyspace().watch_prefix("k").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}

/// Futures and feeds can be moved to other threads: this compiles.
#[test]
fn feeds_and_their_futures_are_send() {
    fn is_send<T: Send>(_: &T) {}
    fn is_static<T: Send + 'static>(_: &T) {}
    let db = on_sim(&SimVfs::new(1), Layout::Chunks, Durability::Process)
        .open(DIR)
        .unwrap();
    let mut watch = db.default_keyspace().watch_prefix("k").unwrap();
    is_static(&watch);
    is_send(&watch.next_async());
    is_static(&async move { watch.next_async().await });
}
