//! A calibration in small, what it leaves behind, and what follows from its figures.

use std::path::Path;

use super::*;

fn settings(directory: &Path) -> CalibrationSettings {
    CalibrationSettings {
        directory: directory.to_owned(),
        time: Duration::from_millis(10),
        slices: 3,
        file_bytes: 1 << 20,
        memory_bytes: 1 << 16,
    }
}

/// Round figures.
pub(crate) fn calibration() -> Calibration {
    let same = |value: f64| Sliced {
        median: value,
        min: value / 2.0,
        max: value * 2.0,
    };
    let rate = |per_second, p50_nanos| Rate {
        per_second: same(per_second),
        p50_nanos: same(p50_nanos),
    };
    Calibration {
        directory: "/somewhere".to_owned(),
        file_bytes: 1 << 30,
        direct: true,
        in_memory: false,
        memory_latency_nanos: same(100.0),
        memory_copy_bytes_per_second: same(8e9),
        random_read: rate(10_000.0, 90_000.0),
        random_read_threads: rate(100_000.0, 150_000.0),
        sequential_read_bytes_per_second: same(2e9),
        sequential_write_bytes_per_second: same(1e9),
        sync: rate(5000.0, 200_000.0),
        sync_two_threads: rate(8000.0, 250_000.0),
    }
}

#[test]
fn everything_is_measured_and_nothing_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let mut steps = 0;
    let counted = std::cell::Cell::new(0);
    let step = |_: &str| counted.set(counted.get() + 1);
    let settings = settings(directory.path());
    let figures = run(&settings, &AtomicBool::new(false), &step).unwrap();
    steps += counted.get();
    assert_eq!((steps, figures.file_bytes), (8, 1 << 20));
    for sliced in [
        figures.memory_latency_nanos,
        figures.memory_copy_bytes_per_second,
        figures.random_read.per_second,
        figures.random_read_threads.p50_nanos,
        figures.sequential_read_bytes_per_second,
        figures.sequential_write_bytes_per_second,
        figures.sync.per_second,
        figures.sync_two_threads.p50_nanos,
    ] {
        assert!(sliced.min > 0.0 && sliced.max.is_finite(), "{figures:?}");
        assert!((sliced.min..=sliced.max).contains(&sliced.median));
    }
    assert!(is_empty(directory.path()));
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn an_interruption_leaves_no_files() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path());
    let raised = AtomicBool::new(false);
    // At the start, and in the middle of each step.
    for last in 1..=8 {
        raised.store(false, Ordering::Relaxed);
        let count = std::cell::Cell::new(0);
        let step = |_: &str| {
            count.set(count.get() + 1);
            raised.store(count.get() == last, Ordering::Relaxed);
        };
        let error = run(&settings, &raised, &step).unwrap_err();
        assert!(matches!(error, CalibrateError::Interrupted), "{error}");
        assert!(is_empty(directory.path()));
    }
}

#[test]
fn what_is_wrong_with_the_place_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let error = run(&settings(&missing), &AtomicBool::new(false), &|_| {}).unwrap_err();
    assert!(
        error.to_string().contains("missing: No such file"),
        "{error}"
    );
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = run(&settings(&file), &AtomicBool::new(false), &|_| {}).unwrap_err();
    assert!(matches!(error, CalibrateError::Io { .. }), "{error}");
    let error = CalibrateError::NoSpace {
        directory: file,
        free_bytes: 1 << 20,
        needed_bytes: 128 << 20,
    };
    let text = error.to_string();
    assert!(
        text.contains("1.00 MiB free") && text.contains("128.00 MiB"),
        "{text}"
    );
}

#[test]
fn json_holds_everything() {
    let figures = calibration();
    let json = figures.to_json();
    assert_eq!(json["sync"]["per_second"]["median"], 5000.0);
    assert_eq!(Calibration::from_json(&json), Some(figures));
    for name in json.as_object().unwrap().keys() {
        let mut less = json.clone();
        less.as_object_mut().unwrap().remove(name);
        assert_eq!(Calibration::from_json(&less), None, "{name}");
    }
}

#[test]
fn limits_follow_their_definitions() {
    let all = limits(&calibration());
    let of = |name: &str| *all.iter().find(|limit| limit.name == name).unwrap();
    assert_eq!(of("get_ram").value, 2.0 * 100.0 + 100.0);
    assert_eq!(of("get_cold").value, 90_000.0);
    assert_eq!(of("scan_cold").value, 2e9);
    assert_eq!(of("ingest").value, 1e9);
    assert_eq!(of("sync_puts").value, 5000.0);
    assert_eq!(of("get_ram").share(600.0), 0.5);
    assert_eq!(of("sync_puts").share(2500.0), 0.5);
    let table = calibration().to_table();
    for words in ["300 ns", "5,000/s", "953.67 MiB/s", "200.0 us", "passed by"] {
        assert!(table.contains(words), "{words} in\n{table}");
    }
}
