//! Hostile surroundings and odd arguments: second openers, read-only opens, limits, strange paths,
//! foreign files, newer formats. Each ends in a typed error or works.

mod common;

use common::{DIR, on_sim, tiny};
use evendb::vfs::{Fault, FaultKind, FaultOn, SimVfs};
use evendb::{Db, Durability, ErrorKind, LogSearch, Options};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const ROLE_VARIABLE: &str = "EVENDB_HOSTILE_ROLE";
const DIR_VARIABLE: &str = "EVENDB_HOSTILE_DIR";

fn small() -> Options {
    tiny(Durability::Process, 1)
}

fn kind_of<T>(result: evendb::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

/// Runs this binary again in a role; what it says must be what is expected.
fn in_another_process(role: &str, dir: &Path) {
    let status = Command::new(std::env::current_exe().expect("the test binary"))
        .args(["other_process", "--exact", "--nocapture"])
        .env(ROLE_VARIABLE, role)
        .env(DIR_VARIABLE, dir)
        .env("RUST_MIN_STACK", STACK_BYTES.to_string())
        .status()
        .expect("runs");
    assert!(status.success(), "{role}");
}

/// Not a test of its own: what [`in_another_process`] runs.
#[test]
fn other_process() {
    let Some(dir) = std::env::var_os(DIR_VARIABLE) else {
        return;
    };
    match std::env::var(ROLE_VARIABLE).expect("a role").as_str() {
        "refused" => assert_eq!(kind_of(small().open(dir)), Some(ErrorKind::Locked)),
        "reader refused" => {
            assert_eq!(
                kind_of(small().read_only(true).open(dir)),
                Some(ErrorKind::Locked)
            );
        }
        "admitted" => {
            let db = small().open(dir).expect("opens");
            assert_eq!(db.get("key").expect("gets").as_deref(), Some(&b"value"[..]));
        }
        "relative" => {
            std::env::set_current_dir(&dir).expect("changes the directory");
            let db = small().open("relative/db").expect("opens");
            db.put("key", "value").expect("puts");
            std::env::set_current_dir("/").expect("changes the directory");
            for number in 0..2000 {
                db.put(format!("{number}"), vec![7; 100]).expect("puts");
            }
            db.settle_debt().expect("settles");
            db.close().expect("closes");
            assert!(!Path::new("/relative").exists());
        }
        "threads that cannot be started" => threads_that_cannot_be_started(Path::new(&dir)),
        role => panic!("no such role: {role}"),
    }
}

#[test]
fn one_opener_at_a_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = small().open(dir.path()).expect("opens");
    db.put("key", "value").expect("puts");
    assert_eq!(kind_of(small().open(dir.path())), Some(ErrorKind::Locked));
    in_another_process("refused", dir.path());
    in_another_process("reader refused", dir.path());
    db.close().expect("closes");
    in_another_process("admitted", dir.path());
    // Dropping the last handle releases it too, however it is reached.
    let db = small().open(dir.path()).expect("opens");
    let keyspace = db.default_keyspace().clone();
    drop(db);
    assert_eq!(kind_of(small().open(dir.path())), Some(ErrorKind::Locked));
    drop(keyspace);
    in_another_process("admitted", dir.path());
}

#[test]
fn a_closed_database_is_free_while_handles_live() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = small().open(dir.path()).expect("opens");
    let (other, keyspace) = (db.clone(), db.default_keyspace().clone());
    db.close().expect("closes");
    let again = small().open(dir.path()).expect("opens again");
    assert_eq!(kind_of(other.put("a", "b")), Some(ErrorKind::Closed));
    assert_eq!(kind_of(keyspace.get("a")), Some(ErrorKind::Closed));
    assert_eq!(kind_of(other.snapshot()), Some(ErrorKind::Closed));
    assert_eq!(kind_of(other.flush()), Some(ErrorKind::Closed));
    assert!(other.close().is_ok(), "closing twice is no error");
    drop(keyspace);
    again.put("a", "b").expect("the second life goes on");
}

fn file_contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(dir).expect("lists");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .map(|path| (path.clone(), std::fs::read(path).expect("reads")))
        .collect()
}

#[test]
fn readers_write_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let missing = dir.path().join("missing");
    assert_eq!(
        kind_of(small().read_only(true).open(&missing)),
        Some(ErrorKind::NotFound)
    );
    assert!(!missing.exists());
    let db = small().open(dir.path()).expect("opens");
    for number in 0..1000 {
        db.put(format!("{number:04}"), vec![1; 50]).expect("puts");
    }
    db.settle_debt().expect("settles");
    // These are only in the commit log when the directory is copied.
    for number in 1000..1100 {
        db.put(format!("{number:04}"), vec![2; 50]).expect("puts");
    }
    let copy = tempfile::tempdir().expect("a directory");
    for (path, bytes) in file_contents(dir.path()) {
        let name = path.file_name().expect("a file");
        std::fs::write(copy.path().join(name), bytes).expect("copies");
    }
    db.close().expect("closes");
    for dir in [dir.path(), copy.path()] {
        let before = file_contents(dir);
        let reader = small().read_only(true).open(dir).expect("opens");
        let second = small().read_only(true).open(dir).expect("beside a reader");
        assert_eq!(second.iter().filter_map(Result::ok).count(), 1100);
        assert_eq!(kind_of(small().open(dir)), Some(ErrorKind::Locked));
        assert_eq!(kind_of(reader.put("a", "b")), Some(ErrorKind::ReadOnly));
        assert_eq!(kind_of(reader.flush()), Some(ErrorKind::ReadOnly));
        assert_eq!(kind_of(reader.keyspace("new")), Some(ErrorKind::ReadOnly));
        assert_eq!(
            kind_of(reader.drop_keyspace("new")),
            Some(ErrorKind::ReadOnly)
        );
        assert_eq!(reader.iter().rev().filter_map(Result::ok).count(), 1100);
        reader.close().expect("closes");
        drop(second);
        assert!(before == file_contents(dir), "a reader changed a file");
        assert_eq!(small().open(dir).expect("opens").iter().count(), 1100);
    }
}

/// Stacks for which the address space, made small, has room for one or for none.
const STACK_BYTES: u64 = 256 << 20;

fn threads_that_cannot_be_started(dir: &Path) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let threads = || std::fs::read_dir("/proc/self/task").expect("lists").count();
    let (limit, before) = (getrlimit(Resource::As), threads());
    let sizes = std::fs::read_to_string("/proc/self/statm").expect("reads");
    let pages = sizes.split(' ').next().expect("a size").parse::<u64>();
    let used = pages.expect("a number") * rustix::param::page_size() as u64;
    let limited = |stacks: f64| {
        let little = rustix::process::Rlimit {
            current: Some(used + (stacks * STACK_BYTES as f64) as u64),
            maximum: limit.maximum,
        };
        setrlimit(Resource::As, little).expect("sets the limit");
    };
    limited(0.8);
    let error = small()
        .workers(12)
        .open(dir)
        .expect_err("no room for a stack");
    setrlimit(Resource::As, limit).expect("takes the limit back");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    let message = error.to_string();
    assert!(message.contains("evendb-"), "{message}");
    assert!(message.contains("raise that limit"), "{message}");
    // Nothing runs on, and nothing is held.
    assert_eq!(threads(), before);
    // The one thread that a database needs does the others' work.
    limited(1.8);
    let db = small().workers(12).open(dir).expect("opens");
    for number in 0..20_000 {
        db.put(format!("{:05}", number % 2_000), [1; 100])
            .expect("puts");
    }
    db.settle_debt().expect("settles");
    assert!(db.stats().checkpoints > 1);
    assert!(threads() <= before + 1, "no room for more");
    db.close().expect("closes");
    setrlimit(Resource::As, limit).expect("takes the limit back");
    let db = small().workers(2).open(dir).expect("opens now");
    assert_eq!(db.get("key").expect("gets").as_deref(), Some(&b"value"[..]));
    db.close().expect("closes");
}

#[test]
fn threads_that_cannot_be_started_are_an_error_of_opening() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = small().open(dir.path()).expect("opens");
    db.put("key", "value").expect("puts");
    db.close().expect("closes");
    in_another_process("threads that cannot be started", dir.path());
}

#[test]
fn absurd_options_are_refused_by_name_and_limit() {
    let day = Duration::from_secs(86_400);
    let bloom = |split_factor| small().log_search(LogSearch::Bloom { split_factor });
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let files = files.current.expect("a limit of open files");
    let many = usize::MAX;
    let refused = [
        ("memory_budget", "1048576", small().memory_budget(0)),
        (
            "memory_budget",
            "1048576",
            small().memory_budget((1 << 20) - 1),
        ),
        (
            "memory_budget",
            "17592186044416",
            small().memory_budget((16 << 40) + 1),
        ),
        (
            "memory_budget",
            "17592186044416",
            small().memory_budget(1 << 60),
        ),
        (
            "memory_budget",
            "17592186044416",
            small().memory_budget(u64::MAX),
        ),
        ("workers", "256", small().workers(257)),
        ("workers", "256", small().workers(100_000)),
        ("workers", "256", small().workers(many)),
        ("chunk_bytes", "256", small().chunk_bytes(0)),
        ("chunk_bytes", "256", small().chunk_bytes(255)),
        (
            "chunk_bytes",
            "1073741824",
            small().chunk_bytes((1 << 30) + 1),
        ),
        ("chunk_bytes", "1073741824", small().chunk_bytes(u64::MAX)),
        ("block_bytes", "64", small().block_bytes(0)),
        ("block_bytes", "1048576", small().block_bytes((1 << 20) + 1)),
        ("block_bytes", "1048576", small().block_bytes(many)),
        ("filter_bits_per_key", "64", small().filter_bits_per_key(65)),
        (
            "filter_bits_per_key",
            "64",
            small().filter_bits_per_key(u32::MAX),
        ),
        ("split_factor", "1024", bloom(0)),
        ("split_factor", "1024", bloom(1025)),
        ("split_factor", "1024", bloom(many)),
        (
            "log_bytes_limits",
            "256",
            small().log_bytes_limits(0, 1 << 20),
        ),
        (
            "log_bytes_limits",
            "256",
            small().log_bytes_limits(1 << 20, 0),
        ),
        (
            "log_bytes_limits",
            "1099511627776",
            small().log_bytes_limits(1 << 20, 1 << 60),
        ),
        (
            "log_bytes_limits",
            "1099511627776",
            small().log_bytes_limits(u64::MAX, 1 << 20),
        ),
        (
            "space_amplification",
            "1.01",
            small().space_amplification(f64::NAN),
        ),
        (
            "space_amplification",
            "1.01",
            small().space_amplification(1.0),
        ),
        (
            "space_amplification",
            "10",
            small().space_amplification(f64::INFINITY),
        ),
        (
            "space_amplification",
            "10",
            small().space_amplification(-2.0),
        ),
        (
            "row_cache_share",
            "1",
            small().row_cache_share(Some(f64::NAN)),
        ),
        ("row_cache_share", "1", small().row_cache_share(Some(1.5))),
        ("row_cache_share", "0", small().row_cache_share(Some(-0.1))),
        ("commit_log_bytes", "65536", small().commit_log_bytes(0)),
        (
            "commit_log_bytes",
            "1099511627776",
            small().commit_log_bytes(1 << 60),
        ),
        (
            "commit_log_bytes",
            "1099511627776",
            small().commit_log_bytes(u64::MAX),
        ),
        ("open_files_max", "1", small().open_files_max(0)),
        (
            "open_files_max",
            &files.to_string(),
            small().open_files_max(files + 1),
        ),
        (
            "open_files_max",
            &files.to_string(),
            small().open_files_max(u64::MAX),
        ),
        (
            "stats_interval",
            "1ms",
            small().stats_interval(Duration::from_nanos(1)),
        ),
        (
            "stats_interval",
            "86400s",
            small().stats_interval(day + Duration::from_nanos(1)),
        ),
        (
            "stats_interval",
            "86400s",
            small().stats_interval(Duration::MAX),
        ),
    ];
    let dir = tempfile::tempdir().expect("a directory");
    let mut wrong = Vec::new();
    for (name, limit, options) in refused {
        let absurd = dir.path().join("none");
        match options.create_if_missing(false).open(absurd) {
            Err(error) if error.kind() == ErrorKind::InvalidArgument => {
                let message = error.to_string();
                if !message.starts_with(name) || !message.contains(limit) {
                    wrong.push(message);
                }
            }
            outcome => wrong.push(format!("{name}, limit {limit}: {:?}", kind_of(outcome))),
        }
    }
    assert!(wrong.is_empty(), "not refused, or not well: {wrong:#?}");
    // A disk for it is not at hand, but it is no error of the argument.
    let greatest = small().memory_budget(16 << 40).create_if_missing(false);
    let error = greatest
        .open(dir.path().join("none"))
        .expect_err("is not there");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let accepted = [
        ("memory_budget", small().memory_budget(1 << 20)),
        ("memory_budget", small().memory_budget(64 << 20)),
        ("workers", small().workers(256)),
        ("chunk_bytes", small().chunk_bytes(256)),
        ("chunk_bytes", small().chunk_bytes(1 << 30)),
        ("block_bytes", small().block_bytes(64)),
        ("block_bytes", small().block_bytes(1 << 20)),
        ("filter_bits_per_key", small().filter_bits_per_key(64)),
        ("split_factor", bloom(1)),
        ("split_factor", bloom(1024)),
        ("log_bytes_limits", small().log_bytes_limits(256, 256)),
        (
            "log_bytes_limits",
            small().log_bytes_limits(1 << 40, 1 << 40),
        ),
        ("space_amplification", small().space_amplification(1.01)),
        ("space_amplification", small().space_amplification(10.0)),
        ("row_cache_share", small().row_cache_share(Some(0.0))),
        ("row_cache_share", small().row_cache_share(Some(1.0))),
        ("open_files_max", small().open_files_max(1)),
        ("open_files_max", small().open_files_max(files)),
        (
            "stats_interval",
            small().stats_interval(Duration::from_millis(1)),
        ),
        ("stats_interval", small().stats_interval(day)),
    ];
    for (name, options) in accepted {
        // Values at the limits work: records in tables and in memory, read from both.
        let dir = tempfile::tempdir().expect("a directory");
        let db = options.open(dir.path()).expect(name);
        for number in 0..300 {
            db.put(format!("{number:03}"), [7; 100]).expect(name);
        }
        db.compact().expect(name);
        db.put("new", "value").expect(name);
        assert_eq!(db.get("123").expect(name).as_deref(), Some(&[7; 100][..]));
        assert_eq!(db.iter().flatten().count(), 301, "{name}");
        db.close().expect(name);
    }
}

#[test]
fn opening_modes() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a/b/c");
    assert_eq!(
        kind_of(small().create_if_missing(false).open(&path)),
        Some(ErrorKind::NotFound)
    );
    small().open(&path).expect("creates parents too");
    assert_eq!(
        kind_of(small().error_if_exists(true).open(&path)),
        Some(ErrorKind::AlreadyExists)
    );
    let file = dir.path().join("file");
    std::fs::write(&file, "not a directory").expect("writes");
    assert_eq!(kind_of(small().open(&file)), Some(ErrorKind::Io));
    let db = small().open(&path).expect("opens");
    assert_eq!(kind_of(db.keyspace("")), Some(ErrorKind::InvalidArgument));
    assert_eq!(
        kind_of(db.keyspace(&"k".repeat(256))),
        Some(ErrorKind::InvalidArgument)
    );
    assert_eq!(
        kind_of(db.drop_keyspace("default")),
        Some(ErrorKind::InvalidArgument)
    );
    assert_eq!(
        kind_of(db.drop_keyspace("none")),
        Some(ErrorKind::InvalidArgument)
    );
}

#[test]
fn keys_at_the_limits() {
    for level in common::LEVELS {
        let vfs = SimVfs::new(1);
        let mut db = on_sim(&vfs, level, 0).open(DIR).expect("opens");
        let longest = vec![b'x'; 65_535];
        let too_long = vec![b'x'; 65_536];
        for round in 0..2 {
            db.put("", format!("empty {round}")).expect("puts");
            db.put(&longest, format!("longest {round}")).expect("puts");
            assert_eq!(kind_of(db.put(&too_long, "")), Some(ErrorKind::KeyTooLarge));
            assert_eq!(kind_of(db.delete(&too_long)), Some(ErrorKind::KeyTooLarge));
            let mut batch = db.batch();
            batch.put(db.default_keyspace(), "half", "a batch");
            batch.put(db.default_keyspace(), &too_long, "");
            assert_eq!(kind_of(batch.commit()), Some(ErrorKind::KeyTooLarge));
            assert_eq!(db.get(&too_long).expect("is only not there"), None);
            db.settle_debt().expect("settles");
            db.close().expect("closes");
            db = on_sim(&vfs, level, 0).open(DIR).expect("opens");
            let keys: Vec<_> = db
                .iter()
                .map(|item| item.expect("reads").0.to_vec())
                .collect();
            assert_eq!(keys, [vec![], longest.clone()]);
            let value = db.get(&longest).expect("gets").expect("is there");
            assert_eq!(&*value, format!("longest {round}").as_bytes());
        }
    }
}

#[test]
fn values_at_the_limits() {
    let vfs = SimVfs::new(1);
    let huge = vec![b'h'; 5 << 20];
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    db.put("none", "").expect("puts");
    assert_eq!(
        kind_of(db.put("huge", &huge)),
        Some(ErrorKind::ValueTooLarge)
    );
    let mut batch = db.batch();
    for number in 0..30 {
        batch.put(
            db.default_keyspace(),
            format!("part {number}"),
            vec![0; 10_000],
        );
    }
    assert_eq!(kind_of(batch.commit()), Some(ErrorKind::BatchTooLarge));
    assert_eq!(db.iter().count(), 1, "nothing of what was refused");
    db.close().expect("closes");
    // With more memory it fits, though not into the commit log.
    let large = || on_sim(&vfs, Durability::Process, 0).memory_budget(64 << 20);
    let db = large().open(DIR).expect("opens");
    db.put("huge", &huge).expect("puts");
    let names = vfs.file_names(Path::new(DIR));
    assert!(names.iter().any(|name| name.ends_with(".val")), "{names:?}");
    let machine = vfs.crash(evendb::vfs::CrashMode::Process);
    drop(db);
    for _ in 0..2 {
        let vfs = machine.clone();
        let options = on_sim(&vfs, Durability::Process, 0).memory_budget(64 << 20);
        let db = options.open(DIR).expect("opens");
        assert_eq!(db.get("huge").expect("gets").as_deref(), Some(&huge[..]));
        assert_eq!(db.get("none").expect("gets").as_deref(), Some(&b""[..]));
        db.settle_debt().expect("settles");
        assert_eq!(db.get("huge").expect("gets").as_deref(), Some(&huge[..]));
        db.close().expect("closes");
    }
    let names = machine.file_names(Path::new(DIR));
    assert!(
        !names.iter().any(|name| name.ends_with(".val")),
        "{names:?}"
    );
}

/// What each record counts beside its key and value.
const COUNTED: usize = 64;

/// The writes that are refused, and those that are the largest: as keys with lengths of values.
type Writes = Vec<(String, usize)>;

fn commit(db: &Db, writes: &Writes, byte: u8) -> evendb::Result<()> {
    let mut batch = db.batch();
    for (key, len) in writes {
        batch.put(db.default_keyspace(), key, vec![byte; *len]);
    }
    batch.commit()
}

/// Batches that count exactly `counted`: of many equal records and a last one that fills them up, of two,
/// and of tiny ones and one large.
fn batches_of(counted: usize) -> [Writes; 3] {
    let many = |number: usize, len: usize| {
        let key = |at: usize| format!("many{at:06}");
        let mut writes: Writes = (1..number).map(|at| (key(at), len)).collect();
        let used = (number - 1) * (key(0).len() + len + COUNTED);
        writes.push((key(0), counted - used - key(0).len() - COUNTED));
        writes
    };
    [
        many(100, counted / 100 - 200),
        many(2, counted / 2),
        many(counted / 200, 1),
    ]
}

#[test]
fn the_largest_writes_are_accepted_and_one_byte_more_is_refused() {
    let longest_key = "k".repeat(65_535);
    for budget in [1 << 20, (1 << 20) + 12_345, 8 << 20, 24 << 20] {
        for (level, workers) in [
            (Durability::Relaxed, 0),
            (Durability::Process, 1),
            (Durability::Sync, 0),
        ] {
            let vfs = SimVfs::new(1);
            let open = || {
                let options = on_sim(&vfs, level, workers);
                options.memory_budget(budget).open(DIR).expect("opens")
            };
            let db = open();
            let counted = budget as usize / 4;
            let largest = counted - COUNTED;
            let mut expected: BTreeMap<String, (u8, usize)> = BTreeMap::new();
            for (number, key) in ["", "key", &longest_key].into_iter().enumerate() {
                let (value, byte) = (largest - key.len(), number as u8);
                let too_large = vec![0; value + 1];
                let mut batch = db.batch();
                batch.put(db.default_keyspace(), key, &too_large);
                for refused in [db.put(key, &too_large), batch.commit()] {
                    let error = refused.expect_err("one byte too many");
                    assert_eq!(error.kind(), ErrorKind::ValueTooLarge, "{error}");
                    let text = error.to_string();
                    assert!(text.contains(&format!(" {largest},")), "{text}");
                    assert!(text.contains(&format!(" {} bytes", value + 1)), "{text}");
                }
                db.put(key, vec![9; value]).expect("the largest value");
                let alone = vec![(key.to_owned(), value)];
                commit(&db, &alone, byte).expect("the largest alone in a batch");
                expected.insert(key.to_owned(), (byte, value));
            }
            for (number, mut writes) in batches_of(counted).into_iter().enumerate() {
                let byte = 10 + number as u8;
                // A longer value of a key that is written again does not count.
                writes.insert(0, (writes[0].0.clone(), largest / 2));
                writes.last_mut().expect("one").1 += 1;
                let error = commit(&db, &writes, 0).expect_err("one byte too many");
                assert_eq!(error.kind(), ErrorKind::BatchTooLarge, "{error}");
                let text = error.to_string();
                assert!(text.contains(&format!("; {counted}, a quarter")), "{text}");
                assert!(text.contains(&format!(" {} bytes", counted + 1)), "{text}");
                writes.last_mut().expect("one").1 -= 1;
                commit(&db, &writes, byte).expect("the largest batch");
                expected.extend(writes.into_iter().map(|(key, len)| (key, (byte, len))));
            }
            db.close().expect("closes");
            let db = open();
            let held: BTreeMap<_, _> = db
                .iter()
                .map(|item| {
                    let (key, value) = item.expect("reads");
                    let byte = value.first().copied().unwrap_or(0);
                    assert!(value.iter().all(|&other| other == byte));
                    let key = String::from_utf8(key.to_vec()).expect("text");
                    (key, (byte, value.len()))
                })
                .collect();
            assert!(
                held == expected,
                "budget {budget}, {level:?}: other records than put"
            );
            db.close().expect("closes");
        }
    }
}

#[test]
fn odd_ranges() {
    let vfs = SimVfs::new(1);
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    for number in 0..300 {
        db.put(format!("{number:03}"), vec![1; 40]).expect("puts");
    }
    db.settle_debt().expect("settles");
    assert!(db.stats().chunks > 2);
    assert_eq!(db.range("200".."100").count(), 0);
    assert_eq!(db.range("200".."100").rev().count(), 0);
    assert_eq!(db.range("100".."100").count(), 0);
    assert_eq!(db.range("100"..="100").count(), 1);
    assert_eq!(db.range("".."").count(), 0);
    assert_eq!(db.range("zzz"..).count(), 0);
    assert_eq!(db.range::<&str>(..).count(), 300);
    assert_eq!(db.prefix("").count(), 300);
    assert_eq!(db.prefix([0xff, 0xff]).count(), 0);
    assert_eq!(db.delete_range("200".."100").expect("deletes nothing"), 0);
    assert_eq!(db.multi_get::<&str>(&[]).expect("gets nothing").len(), 0);
    let empty = db.batch();
    empty.commit().expect("an empty batch is no error");
}

#[test]
fn an_iterator_across_splits_and_close() {
    let vfs = SimVfs::new(1);
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    for number in 0..400 {
        db.put(format!("{number:03}"), "old").expect("puts");
    }
    let mut iter = db.iter();
    let mut seen = vec![iter.next().expect("more").expect("reads").0.to_vec()];
    let chunks = db.stats().chunks;
    for number in 0..400 {
        db.put(format!("{number:03}"), vec![b'n'; 60])
            .expect("puts");
        db.put(format!("{number:03}x"), vec![b'n'; 60])
            .expect("puts");
    }
    db.settle_debt().expect("settles");
    assert!(db.stats().chunks > chunks + 2, "it was split");
    for item in iter.by_ref() {
        let (key, value) = item.expect("reads");
        assert_eq!(&*value, b"old");
        seen.push(key.to_vec());
    }
    let expected: Vec<_> = (0..400)
        .map(|number| format!("{number:03}").into_bytes())
        .collect();
    assert_eq!(seen, expected);
    let mut iter = db.iter();
    iter.next().expect("more").expect("reads");
    db.close().expect("closes");
    let error = iter.find(|item| item.is_err()).expect("an error");
    assert_eq!(kind_of(error), Some(ErrorKind::Closed));
    assert!(iter.next().is_none() && iter.next_back().is_none());
}

#[test]
fn an_iterator_after_an_error() {
    let vfs = SimVfs::new(1);
    let options = || {
        on_sim(&vfs, Durability::Process, 0)
            .munks(false)
            .row_cache(false)
    };
    let db = options().open(DIR).expect("opens");
    for number in 0..2000 {
        db.put(format!("{number:04}"), vec![1; 40]).expect("puts");
    }
    db.settle_debt().expect("settles");
    db.close().expect("closes");
    let db = options().open(DIR).expect("opens");
    vfs.inject(Fault {
        at: 3,
        on: FaultOn::Read,
        kind: FaultKind::Eio,
        sticky: false,
        path_contains: None,
    });
    let mut iter = db.iter();
    let mut next = 0;
    let error = loop {
        match iter.next().expect("it ends with an error") {
            Ok((key, _)) => assert_eq!(&*key, format!("{next:04}").as_bytes()),
            Err(error) => break error,
        }
        next += 1;
    };
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(iter.next().is_none() && iter.next_back().is_none());
    assert_eq!(
        db.iter().filter_map(Result::ok).count(),
        2000,
        "a new one reads on"
    );
    db.put("new", "value").expect("a read error does not latch");
}

#[test]
fn strange_paths() {
    let dir = tempfile::tempdir().expect("a directory");
    in_another_process("relative", dir.path());
    let db = small().open(dir.path().join("relative/db")).expect("opens");
    assert_eq!(db.iter().count(), 2001);
    drop(db);
    let real = dir.path().join("real");
    std::fs::create_dir(&real).expect("creates");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&real, &link).expect("links");
    let db = small().open(&link).expect("opens");
    db.put("key", "value").expect("puts");
    assert_eq!(kind_of(small().open(&real)), Some(ErrorKind::Locked));
    db.close().expect("closes");
    // Moved while it was closed.
    let moved = dir.path().join("moved");
    std::fs::rename(&real, &moved).expect("moves");
    let db = small().open(&moved).expect("opens");
    assert_eq!(db.get("key").expect("gets").as_deref(), Some(&b"value"[..]));
    drop(db);
    let strange = dir
        .path()
        .join(OsString::from_vec(vec![b'x', 0xff, 0xfe, b' ', b'\n']));
    let db = small().open(&strange).expect("opens");
    db.put("key", "value").expect("puts");
    db.settle_debt().expect("settles");
    db.close().expect("closes");
    let db = small().open(&strange).expect("opens");
    assert_eq!(db.get("key").expect("gets").as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_read_only_directory() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("db");
    small()
        .open(&path)
        .expect("opens")
        .put("key", "value")
        .expect("puts");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o555)).expect("changes");
    if std::fs::write(path.join("probe"), "").is_ok() {
        println!("skipped: this user may write into read-only directories");
        return;
    }
    let reader = small().read_only(true).open(&path).expect("opens");
    assert_eq!(
        reader.get("key").expect("gets").as_deref(),
        Some(&b"value"[..])
    );
    drop(reader);
    let error = small().open(&path).err().or_else(|| {
        let db = small().open(&path).expect("opened before");
        db.close().err()
    });
    assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Io));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("changes");
}

/// A database on a simulated disk, closed.
fn closed_database() -> SimVfs {
    let vfs = SimVfs::new(1);
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    for number in 0..200 {
        db.put(format!("{number:03}"), vec![1; 40]).expect("puts");
    }
    db.settle_debt().expect("settles");
    db.close().expect("closes");
    vfs
}

fn open_kind(vfs: &SimVfs) -> Option<ErrorKind> {
    kind_of(on_sim(vfs, Durability::Process, 0).open(DIR))
}

#[test]
fn without_current() {
    let vfs = closed_database();
    let current = Path::new(DIR).join("CURRENT");
    vfs.remove_file(&current);
    let before = vfs.file_names(Path::new(DIR));
    assert_eq!(open_kind(&vfs), Some(ErrorKind::Corruption));
    assert_eq!(
        vfs.file_names(Path::new(DIR)),
        before,
        "nothing was removed"
    );
    vfs.write_file(&current, Vec::new());
    assert_eq!(open_kind(&vfs), Some(ErrorKind::Corruption));
}

#[test]
fn a_newer_format() {
    let vfs = closed_database();
    for (name, at, version) in [("CURRENT", 7, b'2'), ("MANIFEST-000001", 8, 1)] {
        let vfs = vfs.fork_state();
        let path = Path::new(DIR).join(name);
        let mut bytes = vfs.read_file(&path);
        assert_eq!(bytes[at], version);
        bytes[at] += 1;
        // The layout may be another one as well.
        bytes.push(0);
        vfs.write_file(&path, bytes);
        assert_eq!(open_kind(&vfs), Some(ErrorKind::Unsupported), "{name}");
    }
}

#[test]
fn files_of_other_programs() {
    let vfs = SimVfs::new(1);
    let dir = Path::new(DIR);
    on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens")
        .close()
        .expect("closes");
    let names = [
        "notes.txt",
        "b.sst",
        "MANIFEST",
        "CURRENT.bak",
        "0000000000000001.txt",
    ];
    for name in names {
        vfs.write_file(&dir.join(name), b"foreign".to_vec());
    }
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    for number in 0..500 {
        db.put(format!("{number:03}"), vec![1; 40]).expect("puts");
    }
    db.settle_debt().expect("settles");
    db.close().expect("closes");
    assert_eq!(open_kind(&vfs), None);
    for name in names {
        assert_eq!(vfs.read_file(&dir.join(name)), b"foreign");
    }
}

/// Handles go to other threads and outlive their origin.
#[test]
fn handles_are_send_and_sync() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Db>();
    check::<evendb::Keyspace>();
    check::<evendb::Snapshot>();
    check::<evendb::Value>();
}

/// Deleting the lock's file lets a second opener in; the first must notice and stop writing.
#[test]
fn a_deleted_lock_file_stops_the_writer() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = evendb::Options::new()
        .workers(0)
        .open(dir.path())
        .expect("opens");
    db.put("a", "1").expect("puts");
    db.flush().expect("a checkpoint");
    std::fs::remove_file(dir.path().join("LOCK")).expect("removes the lock file");
    let error = db.flush().expect_err("the lock is gone");
    assert_eq!(error.kind(), evendb::ErrorKind::Locked);
    let error = db.put("b", "2").expect_err("latched");
    assert_eq!(error.kind(), evendb::ErrorKind::Latched);
    assert_eq!(db.get("a").expect("reads go on").expect("is there"), "1");
}
