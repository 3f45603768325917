//! Options that make no sense, and modes of opening.

use crate::{kind_of, small};
use evendb::{Advanced, ErrorKind, LogSearch, Options};
use std::time::Duration;

fn with(set: impl FnOnce(Advanced) -> Advanced) -> Options {
    small().advanced(set)
}

#[test]
fn absurd_options_are_refused_by_name_and_limit() {
    let day = Duration::from_secs(86_400);
    let bloom = |split_factor| with(|given| given.log_search(LogSearch::Bloom { split_factor }));
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
        ("chunk_bytes", "256", with(|given| given.chunk_bytes(0))),
        ("chunk_bytes", "256", with(|given| given.chunk_bytes(255))),
        // A second call continues from the first.
        (
            "chunk_bytes",
            "256",
            with(|given| given.chunk_bytes(0)).advanced(|given| given.munks(false)),
        ),
        (
            "chunk_bytes",
            "1073741824",
            with(|given| given.chunk_bytes((1 << 30) + 1)),
        ),
        (
            "chunk_bytes",
            "1073741824",
            with(|given| given.chunk_bytes(u64::MAX)),
        ),
        ("block_bytes", "64", with(|given| given.block_bytes(0))),
        (
            "block_bytes",
            "1048576",
            with(|given| given.block_bytes((1 << 20) + 1)),
        ),
        (
            "block_bytes",
            "1048576",
            with(|given| given.block_bytes(many)),
        ),
        (
            "filter_bits_per_key",
            "64",
            with(|given| given.filter_bits_per_key(65)),
        ),
        (
            "filter_bits_per_key",
            "64",
            with(|given| given.filter_bits_per_key(u32::MAX)),
        ),
        ("split_factor", "1024", bloom(0)),
        ("split_factor", "1024", bloom(1025)),
        ("split_factor", "1024", bloom(many)),
        (
            "log_bytes_limits",
            "256",
            with(|given| given.log_bytes_limits(0, 1 << 20)),
        ),
        (
            "log_bytes_limits",
            "256",
            with(|given| given.log_bytes_limits(1 << 20, 0)),
        ),
        (
            "log_bytes_limits",
            "1099511627776",
            with(|given| given.log_bytes_limits(1 << 20, 1 << 60)),
        ),
        (
            "log_bytes_limits",
            "1099511627776",
            with(|given| given.log_bytes_limits(u64::MAX, 1 << 20)),
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
            with(|given| given.row_cache_share(Some(f64::NAN))),
        ),
        (
            "row_cache_share",
            "1",
            with(|given| given.row_cache_share(Some(1.5))),
        ),
        (
            "row_cache_share",
            "0",
            with(|given| given.row_cache_share(Some(-0.1))),
        ),
        (
            "commit_log_bytes",
            "65536",
            with(|given| given.commit_log_bytes(0)),
        ),
        (
            "commit_log_bytes",
            "1099511627776",
            with(|given| given.commit_log_bytes(1 << 60)),
        ),
        (
            "commit_log_bytes",
            "1099511627776",
            with(|given| given.commit_log_bytes(u64::MAX)),
        ),
        ("open_files_max", "1", with(|given| given.open_files_max(0))),
        (
            "open_files_max",
            &files.to_string(),
            with(|given| given.open_files_max(files + 1)),
        ),
        (
            "open_files_max",
            &files.to_string(),
            with(|given| given.open_files_max(u64::MAX)),
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
    // No disk here is large enough for it, but that is no error of the argument.
    let greatest = small().memory_budget(16 << 40).create_if_missing(false);
    let error = greatest
        .open(dir.path().join("none"))
        .expect_err("is not there");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let accepted = [
        ("memory_budget", small().memory_budget(1 << 20)),
        ("memory_budget", small().memory_budget(64 << 20)),
        ("workers", small().workers(256)),
        ("chunk_bytes", with(|given| given.chunk_bytes(256))),
        ("chunk_bytes", with(|given| given.chunk_bytes(1 << 30))),
        ("block_bytes", with(|given| given.block_bytes(64))),
        ("block_bytes", with(|given| given.block_bytes(1 << 20))),
        (
            "filter_bits_per_key",
            with(|given| given.filter_bits_per_key(64)),
        ),
        ("split_factor", bloom(1)),
        ("split_factor", bloom(1024)),
        (
            "log_bytes_limits",
            with(|given| given.log_bytes_limits(256, 256)),
        ),
        (
            "log_bytes_limits",
            with(|given| given.log_bytes_limits(1 << 40, 1 << 40)),
        ),
        ("space_amplification", small().space_amplification(1.01)),
        ("space_amplification", small().space_amplification(10.0)),
        (
            "row_cache_share",
            with(|given| given.row_cache_share(Some(0.0))),
        ),
        (
            "row_cache_share",
            with(|given| given.row_cache_share(Some(1.0))),
        ),
        ("open_files_max", with(|given| given.open_files_max(1))),
        ("open_files_max", with(|given| given.open_files_max(files))),
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
