//! The live figures of an open database; with the features `metrics` and `tracing`, also what
//! recorders and subscribers get. `cargo test -p evendb --features metrics,tracing --test observe`
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

use evendb::vfs::{SimVfs, Vfs};
use evendb::{Db, LiveStats, Options};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn often() -> Options {
    Options::new()
        .memory_budget(4 << 20)
        .stats_interval(Duration::from_millis(1))
}

/// Reads until the figures are as wanted.
#[track_caller]
fn wait_for(dir: &Path, wanted: impl Fn(&LiveStats) -> bool) -> LiveStats {
    for _ in 0..10_000 {
        if let Some(live) = LiveStats::read(dir).unwrap()
            && wanted(&live)
        {
            return live;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("never: {:?}", LiveStats::read(dir));
}

#[test]
fn figures_follow_the_database_until_it_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    assert!(LiveStats::read(dir.path()).unwrap().is_none());
    let db = often().open(dir.path()).unwrap();
    db.put("a", "1").unwrap();
    let first = wait_for(dir.path(), |live| live.get("puts") == Some(1));
    assert_eq!(first.process_id(), std::process::id());
    assert_ne!(first.process_is_alive(), Some(false));
    assert_eq!(first.get("memory.budget"), Some(4 << 20));
    assert!(first.failure().is_none());
    let names: Vec<&str> = first.figures().map(|(name, _)| name).collect();
    let own = db.stats().figures();
    assert_eq!(names, own.iter().map(|f| f.name).collect::<Vec<_>>());
    db.put("b", "2").unwrap();
    let second = wait_for(dir.path(), |live| live.get("puts") == Some(2));
    assert!(second.sequence() > first.sequence());
    assert!(second.uptime() > first.uptime());
    db.close().unwrap();
    assert!(LiveStats::read(dir.path()).unwrap().is_none());
}

/// The figures' file of a database that is at work. A database that is left alone would write once
/// more and then stop, however late this thread looks. So each look comes after a put, and the
/// bytes that were read are checked, not the bytes that may be there later.
fn bytes_at_work(db: &Db, file: &Path) -> Vec<u8> {
    let copy = tempfile::tempdir().unwrap();
    for _ in 0..10_000 {
        db.put("a", "1").unwrap();
        std::thread::sleep(Duration::from_millis(1));
        let Ok(bytes) = std::fs::read(file) else {
            continue;
        };
        std::fs::write(copy.path().join("STATS"), &bytes).unwrap();
        // A file that was being written meanwhile does not verify.
        let read = LiveStats::read(copy.path());
        if read.is_ok_and(|live| live.is_some_and(|live| live.sequence() > 2 && !live.is_idle())) {
            return bytes;
        }
    }
    panic!("never at work: {:?}", LiveStats::read(copy.path()));
}

/// The file that a killed owner leaves differs from the figures of a live owner, and goes with the
/// next one.
#[test]
fn what_is_left_of_a_dead_owner() {
    let dir = tempfile::tempdir().unwrap();
    let db = often().open(dir.path()).unwrap();
    let file = dir.path().join("STATS");
    let bytes = bytes_at_work(&db, &file);
    db.close().unwrap();
    std::fs::write(&file, &bytes).unwrap();
    // It is not the database's: a reader ignores it, and leaves it.
    let reader = Options::new().read_only(true).open(dir.path()).unwrap();
    drop(reader);
    let left = LiveStats::read(dir.path()).unwrap().unwrap();
    assert!(!left.is_stale());
    let writable = std::fs::File::options().write(true).open(&file).unwrap();
    let earlier = writable.metadata().unwrap().modified().unwrap() - Duration::from_secs(60);
    writable.set_modified(earlier).unwrap();
    let left = LiveStats::read(dir.path()).unwrap().unwrap();
    assert!(left.is_stale() && left.age() > Duration::from_secs(59));
    let silent = often().stats_interval(Duration::ZERO);
    let db = silent.open(dir.path()).unwrap();
    assert!(LiveStats::read(dir.path()).unwrap().is_none());
    db.close().unwrap();
    std::fs::write(&file, &bytes[..100]).unwrap();
    let error = LiveStats::read(dir.path()).unwrap_err();
    assert_eq!(error.kind(), evendb::ErrorKind::Corruption);
}

/// Figures that cannot be written are no failure.
#[test]
fn an_obstacle_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    Db::open(dir.path()).unwrap().close().unwrap();
    std::fs::create_dir(dir.path().join("STATS")).unwrap();
    let db = often().open(dir.path()).unwrap();
    db.put("a", "1").unwrap();
    db.close().unwrap();
    let error = LiveStats::read(dir.path()).unwrap_err();
    assert_eq!(error.kind(), evendb::ErrorKind::Io);
}

#[test]
fn simulated_files_and_engines_without_threads_have_none() {
    let vfs = SimVfs::new(1);
    let db = Options::new()
        .vfs(Arc::new(vfs.clone()))
        .open("/db")
        .unwrap();
    assert!(!vfs.exists(Path::new("/db/STATS")).unwrap());
    db.close().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let db = often().workers(0).open(dir.path()).unwrap();
    assert!(!dir.path().join("STATS").exists());
    db.close().unwrap();
}

#[test]
fn without_gets_there_is_no_hit_rate_and_without_waits_no_list_of_them() {
    let mut stats = evendb::Stats::default();
    assert_eq!(stats.ram_hit_rate(), None);
    let text = stats.to_string();
    assert!(text.starts_with("gets 0\n"), "{text}");
    assert!(!text.contains('%') && !text.contains(" waits "), "{text}");
    (stats.gets.munk, stats.gets.absent) = (3, 1);
    stats.pauses.pace.count = 2;
    assert_eq!(stats.ram_hit_rate(), Some(0.75));
    let text = stats.to_string();
    assert!(text.contains("RAM hit rate 75.00%\n"), "{text}");
    let waits: Vec<&str> = text
        .lines()
        .filter(|line| line.contains(" waits "))
        .collect();
    assert!(
        waits.len() == 1 && waits[0].starts_with("  pace "),
        "{text}"
    );
}

#[cfg(feature = "metrics")]
#[expect(
    clippy::disallowed_types,
    reason = "what a test keeps is no step of a schedule"
)]
mod metrics_facade {
    use super::*;
    use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata};
    use metrics::{Recorder, SharedString, Unit};
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    type Values = Arc<Mutex<BTreeMap<String, f64>>>;

    #[derive(Default)]
    struct Kept {
        values: Values,
        /// Type, unit and text of each name.
        described: Mutex<BTreeMap<String, (&'static str, Unit, String)>>,
    }

    struct Slot(Values, String);

    impl CounterFn for Slot {
        fn increment(&self, value: u64) {
            *self.0.lock().unwrap().entry(self.1.clone()).or_default() += value as f64;
        }
        fn absolute(&self, _: u64) {
            panic!("only increments survive a reopening");
        }
    }

    impl GaugeFn for Slot {
        fn increment(&self, _: f64) {}
        fn decrement(&self, _: f64) {}
        fn set(&self, value: f64) {
            self.0.lock().unwrap().insert(self.1.clone(), value);
        }
    }

    impl Kept {
        fn slot(&self, key: &Key) -> Arc<Slot> {
            let mut labels = key.labels();
            let label = labels.next().unwrap();
            assert_eq!(label.key(), "db");
            let part = labels.next().map_or_else(String::new, |label| {
                assert_eq!(label.key(), "part");
                format!("/{}", label.value())
            });
            let name = format!("{}{part} {}", key.name(), label.value());
            Arc::new(Slot(self.values.clone(), name))
        }

        fn describe(
            &self,
            kind: &'static str,
            key: KeyName,
            unit: Option<Unit>,
            text: SharedString,
        ) {
            assert!(!text.is_empty());
            let name = key.as_str().to_owned();
            let said = (kind, unit.unwrap(), text.to_string());
            let before = self.described.lock().unwrap().insert(name, said.clone());
            assert!(before.is_none_or(|before| before == said), "two texts");
        }

        fn value(&self, name: &str, dir: &str) -> Option<f64> {
            let values = self.values.lock().unwrap();
            values.get(&format!("{name} {dir}")).copied()
        }
    }

    impl Recorder for Kept {
        fn describe_counter(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
            self.describe("counter", key, unit, text);
        }
        fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
            self.describe("gauge", key, unit, text);
        }
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            assert_eq!(self.described.lock().unwrap()[key.name()].0, "counter");
            Counter::from_arc(self.slot(key))
        }
        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            assert_eq!(self.described.lock().unwrap()[key.name()].0, "gauge");
            Gauge::from_arc(self.slot(key))
        }
        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn all_figures_are_published() {
        let vfs = SimVfs::new(1);
        let open = |name: &str| {
            let options = Options::new().vfs(Arc::new(vfs.clone())).workers(0);
            options.open(name).unwrap()
        };
        let kept = Kept::default();
        metrics::with_local_recorder(&kept, || {
            let (a, b) = (open("/a"), open("/b"));
            a.put("k", "v").unwrap();
            a.publish_metrics();
            b.publish_metrics();
            assert_eq!(kept.value("evendb_puts_total", "/a"), Some(1.0));
            assert_eq!(kept.value("evendb_puts_total", "/b"), Some(0.0));
            // All figures except those that others include: mean times of gets, and the longest
            // pauses.
            let figures = a.stats().figures();
            assert_eq!(
                kept.values.lock().unwrap().len(),
                2 * (figures.len() - 6 - 2)
            );
            a.put("k", "w").unwrap();
            a.publish_metrics();
            a.publish_metrics();
            assert_eq!(kept.value("evendb_puts_total", "/a"), Some(2.0));
            let budget = a.stats().memory.budget as f64;
            assert_eq!(kept.value("evendb_memory_budget_bytes", "/a"), Some(budget));
            // The counters of the next life begin at zero, the recorder's continue.
            a.close().unwrap();
            let a = open("/a");
            a.put("k", "x").unwrap();
            a.publish_metrics();
            assert_eq!(kept.value("evendb_puts_total", "/a"), Some(3.0));
        });
        let described = kept.described.lock().unwrap();
        assert_eq!(described["evendb_memory_bytes"].1, Unit::Bytes);
        assert_eq!(described["evendb_get_seconds_sum"].1, Unit::Seconds);
    }

    /// docs/metrics.md has a line for each metric: name, type, unit, values of the label `part`,
    /// and meaning. The page has exactly the metrics of the source. Counters end with `_total` and
    /// no other metric does, times are in seconds, and no two have the same meaning.
    #[test]
    fn the_page_lists_all_metrics_and_no_others() {
        let vfs = SimVfs::new(1);
        let db = Options::new().vfs(Arc::new(vfs)).workers(0);
        let db = db.open("/a").unwrap();
        let kept = Kept::default();
        metrics::with_local_recorder(&kept, || db.publish_metrics());
        let mut parts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for slot in kept.values.lock().unwrap().keys() {
            let name = slot.strip_suffix(" /a").unwrap();
            let (name, part) = name.split_once('/').unwrap_or((name, ""));
            let own = parts.entry(name.to_owned()).or_default();
            own.extend((!part.is_empty()).then(|| part.to_owned()));
        }
        let mut texts = BTreeMap::new();
        let expected: Vec<String> = parts
            .iter()
            .map(|(name, parts)| {
                let (kind, unit, text) = kept.described.lock().unwrap()[name].clone();
                assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
                let unit = unit.as_str();
                assert_eq!(unit == "seconds", name.contains("_seconds"), "{name}");
                assert!(!name.contains("nanos") && !name.contains('.'), "{name}");
                let other = texts.insert(text.clone(), name);
                assert!(other.is_none(), "{name} and {other:?}: {text}");
                format!(
                    "| {name} | {kind} | {unit} | {} | {text} |",
                    parts.join(", ")
                )
            })
            .collect();
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        let page = std::fs::read_to_string(page).unwrap();
        let listed: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("| evendb_"))
            .collect();
        assert_eq!(
            listed,
            expected,
            "docs/metrics.md should have:\n{}",
            expected.join("\n")
        );
    }

    /// A recorder of the application that panics stops the figures, not the database.
    #[test]
    fn a_recorder_that_panics() {
        struct Panics;
        impl Recorder for Panics {
            fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
            fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
            fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
            fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
                let here = key.labels().any(|label| label.value().contains("panics"));
                assert!(!here, "on purpose");
                Counter::noop()
            }
            fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
                Gauge::noop()
            }
            fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
                Histogram::noop()
            }
        }
        metrics::set_global_recorder(Panics).ok().unwrap();
        let dir = tempfile::Builder::new().prefix("panics").tempdir().unwrap();
        let db = often().open(dir.path()).unwrap();
        // The file is created first and goes with the thread.
        for _ in 0..10_000 {
            if LiveStats::read(dir.path()).unwrap().is_none() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        db.put("a", "1").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
    }
}

#[cfg(feature = "tracing")]
#[expect(
    clippy::disallowed_types,
    reason = "what a test keeps is no step of a schedule"
)]
mod tracing_events {
    use super::*;
    use evendb::vfs::{File, LockGuard, LockHolder, Mapping};
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::ffi::OsString;
    use std::fmt::Debug;
    use std::io;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    type Fields = BTreeMap<&'static str, String>;

    /// The events of one test.
    #[derive(Clone, Default)]
    struct Told {
        events: Arc<Mutex<Vec<(String, Fields)>>>,
        spans: Arc<Mutex<Vec<&'static str>>>,
        entered: Arc<Mutex<Vec<u64>>>,
    }

    thread_local! {
        static TOLD: RefCell<Option<Told>> = const { RefCell::new(None) };
    }

    /// The process's only subscriber, for threads that listen. Subscribers of single threads would
    /// not work: events that a thread without one meets first are switched off for all.
    struct Router(AtomicU64);

    fn listening(told: &Told, body: impl FnOnce()) {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| {
            tracing::subscriber::set_global_default(Router(AtomicU64::new(1))).unwrap();
        });
        TOLD.set(Some(told.clone()));
        body();
        TOLD.set(None);
    }

    fn tell(with: impl FnOnce(&Told)) {
        TOLD.with_borrow(|told| told.as_ref().map(with));
    }

    #[derive(Default)]
    struct Visitor(Fields);

    impl Visit for Visitor {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            self.0.insert(field.name(), format!("{value:?}"));
        }
    }

    impl Subscriber for Router {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "evendb"
        }
        fn new_span(&self, span: &Attributes<'_>) -> Id {
            tell(|told| told.spans.lock().unwrap().push(span.metadata().name()));
            Id::from_u64(self.0.fetch_add(1, Ordering::Relaxed))
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            let mut visitor = Visitor::default();
            event.record(&mut visitor);
            let message = visitor.0.remove("message").unwrap();
            tell(|told| told.events.lock().unwrap().push((message, visitor.0)));
        }
        fn enter(&self, id: &Id) {
            tell(|told| told.entered.lock().unwrap().push(id.into_u64()));
        }
        fn exit(&self, id: &Id) {
            tell(|told| {
                assert_eq!(told.entered.lock().unwrap().pop(), Some(id.into_u64()));
            });
        }
    }

    impl Told {
        #[track_caller]
        fn last(&self, message: &str) -> Fields {
            let events = self.events.lock().unwrap();
            let found = events.iter().rev().find(|(known, _)| known == message);
            found
                .unwrap_or_else(|| panic!("{message} in {events:?}"))
                .1
                .clone()
        }

        fn number(&self, message: &str, field: &str) -> u64 {
            self.last(message)[field].parse().unwrap()
        }
    }

    #[test]
    fn what_happens_is_told() {
        let told = Told::default();
        let vfs = SimVfs::new(1);
        let options = || {
            Options::new()
                .vfs(Arc::new(vfs.clone()))
                .memory_budget(1 << 20)
                .advanced(|advanced| advanced.chunk_bytes(1024))
                .workers(0)
        };
        listening(&told, || {
            let db = options().open("/db").unwrap();
            assert_eq!(told.last("opened")["directory"], "\"/db\"");
            for round in 0..4_u8 {
                for number in 0..200_u32 {
                    let key = number.wrapping_mul(37) % 200;
                    db.put(format!("{key:03}"), [round; 40]).unwrap();
                }
                db.flush().unwrap();
            }
            assert!(told.number("checkpoint", "bytes") >= 200 * 43);
            assert!(told.number("checkpoint", "chunks") >= 1);
            db.settle_debt().unwrap();
            assert!(told.number("split", "chunks_after") > 1);
            db.put("000", "again").unwrap();
            let done = db.compact().unwrap();
            assert!(told.number("rebalanced", "bytes") > 0);
            assert_eq!(told.number("compacted", "bytes_after"), done.bytes_after);
            db.delete_prefix("").unwrap();
            db.compact().unwrap();
            assert_eq!(told.number("merged", "chunks_after"), 1);
            db.put("left", "for the next").unwrap();
            std::mem::forget(db);
        });
        let vfs = vfs.crash(evendb::vfs::CrashMode::Process);
        listening(&told, || {
            let db = options().vfs(Arc::new(vfs)).open("/db").unwrap();
            assert!(told.number("recovered", "replayed_bytes") > 0);
            assert_eq!(told.number("recovered", "dirty_chunks"), 1);
            db.close().unwrap();
        });
        assert_eq!(told.last("closed")["clean"], "true");
        let spans = told.spans.lock().unwrap();
        for name in ["open", "checkpoint", "rewrite", "split", "compact", "close"] {
            assert!(spans.contains(&name), "{name}");
        }
        assert!(told.entered.lock().unwrap().is_empty());
    }

    /// Longer than the time from which on a wait is reported.
    const LONG: Duration = Duration::from_millis(15);

    /// Files that are slow to reserve room.
    #[derive(Debug)]
    struct Slow {
        inner: SimVfs,
        laid_down: Arc<AtomicU64>,
    }

    #[derive(Debug)]
    struct SlowFile {
        inner: Arc<dyn File>,
        laid_down: Arc<AtomicU64>,
    }

    impl Slow {
        fn file(&self, inner: io::Result<Arc<dyn File>>) -> io::Result<Arc<dyn File>> {
            let laid_down = self.laid_down.clone();
            inner.map(|inner| Arc::new(SlowFile { inner, laid_down }) as Arc<dyn File>)
        }
    }

    impl Vfs for Slow {
        fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>> {
            self.file(self.inner.open(path, write))
        }
        fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
            self.file(self.inner.create(path))
        }
        fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
            self.inner.create_dir_all(dir)
        }
        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.inner.rename(from, to)
        }
        fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.inner.hard_link(from, to)
        }
        fn remove(&self, path: &Path) -> io::Result<()> {
            self.inner.remove(path)
        }
        fn remove_dir(&self, dir: &Path) -> io::Result<()> {
            self.inner.remove_dir(dir)
        }
        fn sync_dir(&self, dir: &Path) -> io::Result<()> {
            self.inner.sync_dir(dir)
        }
        fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
            self.inner.list(dir)
        }
        fn exists(&self, path: &Path) -> io::Result<bool> {
            self.inner.exists(path)
        }
        fn lock(&self, path: &Path, shared: bool) -> io::Result<Box<dyn LockGuard>> {
            self.inner.lock(path, shared)
        }
        fn lock_holder(&self, path: &Path) -> LockHolder {
            self.inner.lock_holder(path)
        }
    }

    impl File for SlowFile {
        fn preallocate(&self, offset: u64, len: u64) -> io::Result<()> {
            std::thread::sleep(LONG);
            self.laid_down.fetch_add(1, Ordering::Relaxed);
            self.inner.preallocate(offset, len)
        }
        fn path(&self) -> &Path {
            self.inner.path()
        }
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            self.inner.read_at(buf, offset)
        }
        fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
            self.inner.write_at(data, offset)
        }
        fn sync_data(&self) -> io::Result<()> {
            self.inner.sync_data()
        }
        fn len(&self) -> io::Result<u64> {
            self.inner.len()
        }
        fn set_len(&self, len: u64) -> io::Result<()> {
            self.inner.set_len(len)
        }
        fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
            self.inner.punch_hole(offset, len)
        }
        fn map(&self, len: usize) -> io::Result<Box<dyn Mapping>> {
            self.inner.map(len)
        }
    }

    /// However long that takes: the first puts of an empty database reserve room for later ones,
    /// and do not wait for another thread.
    #[test]
    fn a_put_that_lays_down_room_for_puts_to_come_is_no_stall() {
        let told = Told::default();
        let laid_down = Arc::new(AtomicU64::new(0));
        let vfs = Slow {
            inner: SimVfs::new(1),
            laid_down: laid_down.clone(),
        };
        listening(&told, || {
            let db = Options::new().vfs(Arc::new(vfs)).workers(0).open("/db");
            let (db, before) = (db.unwrap(), laid_down.load(Ordering::Relaxed));
            for number in 0..30_u32 {
                db.put(format!("{number:08}"), [1; 50_000]).unwrap();
            }
            assert!(
                laid_down.load(Ordering::Relaxed) > before,
                "none was laid down"
            );
        });
        let events = told.events.lock().unwrap();
        let stalls: Vec<_> = events
            .iter()
            .filter(|(name, _)| name == "stalled")
            .collect();
        assert!(stalls.is_empty(), "{stalls:?}");
    }

    #[test]
    fn the_first_failure_is_told_once() {
        use evendb::vfs::{Fault, FaultKind, FaultOn};
        let told = Told::default();
        let vfs = SimVfs::new(1);
        listening(&told, || {
            let options = Options::new().vfs(Arc::new(vfs.clone())).workers(0);
            let db = options.open("/db").unwrap();
            db.put("a", "1").unwrap();
            vfs.inject(Fault {
                at: 0,
                on: FaultOn::Sync,
                kind: FaultKind::Eio,
                sticky: true,
                path_contains: Some("MANIFEST".into()),
            });
            assert!(db.flush().is_err());
            assert!(db.put("a", "2").is_err());
            assert!(db.close().is_err());
        });
        assert!(told.last("latched")["cause"].contains("MANIFEST"));
        assert_eq!(told.last("closed")["clean"], "false");
        let events = told.events.lock().unwrap();
        assert_eq!(events.iter().filter(|(m, _)| m == "latched").count(), 1);
    }
}
