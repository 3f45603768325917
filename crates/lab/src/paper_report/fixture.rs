//! Made-up results for tests and for looking at a report: every figure of the paper, several stores
//! and sizes, rounds that differ, cells that were skipped and interrupted, missing figures, and names
//! that try to leave their place. The figures mean nothing.

use std::fmt;

use serde_json::{Map, Value, json};

use super::results::Results;

/// A name that is markup wherever it is not escaped.
pub const HOSTILE: &str = "<script>alert(\"x\")</script>|'&amp; https://example.org/a.js";

/// Why something was skipped; just as hostile.
pub const HOSTILE_REASON: &str = "<img src=x onerror=alert(1)> no <b>room</b> | left";

const STORES: [&str; 6] = [
    "rocksdb",
    "evendb",
    "fjall",
    "lmdb",
    "rocksdb-tuned",
    "pebblesdb",
];
const SIZES: [(&str, u64); 4] = [
    ("512MiB", 1 << 29),
    ("1GiB", 1 << 30),
    ("4GiB", 1 << 32),
    ("16GiB", 1 << 34),
];

/// A line of the results.
pub struct Line(Map<String, Value>);

/// A cell's line without a phase.
pub fn cell(experiment: &str, name: &str, store: &str, round: u64) -> Line {
    let line = json!({
        "kind": "cell", "experiment": experiment, "cell": name, "store": store, "round": round,
    });
    match line {
        Value::Object(line) => Line(line),
        _ => unreachable!("an object"),
    }
}

impl Line {
    /// The same with another member.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Line {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// The same with a phase.
    pub fn phase(self, phase: Value) -> Line {
        self.with("phase", phase)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Value::Object(self.0.clone()).fmt(f)
    }
}

/// A number that looks random and is always the same.
fn noise(parts: &[&str], round: u64) -> f64 {
    let text = parts.join("/");
    let seed = text.bytes().fold(round, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    crate::random::unit_from(crate::random::mix64(seed))
}

fn phase(store: &str, mix: &str, name: &str, data_bytes: u64, round: u64) -> Value {
    let scale = 1.0 / (1.0 + data_bytes as f64 / f64::from(1 << 30));
    let of_store = 0.4 + 1.4 * noise(&[store, mix], 0) + f64::from(u8::from(store == "evendb"));
    let rate = 8e5 * scale * of_store * (0.92 + 0.16 * noise(&[store, name], round));
    let slow = |factor: f64| (1e9 / rate * factor) as u64;
    let latency = || {
        json!({ "count": 1000, "mean": slow(2.0), "p50": slow(1.0), "p95": slow(5.0),
            "p99": slow(20.0), "p99.9": slow(90.0), "max": slow(9000.0) })
    };
    let mut latencies = Map::new();
    let kinds: &[&str] = match mix {
        "P" | "ingest" => &["put"],
        "C" => &["get"],
        "F" => &["get", "put", "read-modify-write"],
        mix if mix.starts_with('E') || mix == "scans" => &["put", "scan"],
        _ => &["get", "put"],
    };
    for kind in kinds {
        latencies.insert((*kind).to_owned(), latency());
    }
    let writes = kinds.contains(&"put");
    let amplification = if store == "evendb" {
        1.2
    } else {
        2.5 + 0.5 / scale.sqrt()
    };
    let course: Vec<Value> = (1..=60)
        .map(|second| {
            json!([
                f64::from(second),
                rate * (0.5 + noise(&[store, name], second as u64))
            ])
        })
        .collect();
    let shares = match store == "evendb" && kinds.contains(&"get") {
        true => json!({ "munk": 0.2 + 0.5 * scale, "delta": 0.1, "row_cache": 0.05 + 0.1 * scale,
            "log": 0.03, "sstable": 0.62 - 0.6 * scale }),
        false => json!({}),
    };
    json!({
        "phase": mix, "distribution": "", "store": store, "operations": (rate * 60.0) as u64,
        "seconds": 60.0, "settle_seconds": 3.5, "interrupted": false,
        "operations_per_second": rate, "longest_stall_seconds": 0.012, "latency_nanos": latencies,
        "write_amplification_process": writes.then_some(amplification),
        // LMDB's reads are of mapped files; its CPU time is left out to have a gap to show.
        "read_amplification": (store != "lmdb").then_some(1.7),
        "cpu_micros_per_operation": (store != "lmdb").then_some(2e6 / rate),
        "figures": (store == "evendb").then(|| json!({
            "gets.munk": 70_000, "get_nanos_total.munk": 84_000_000,
            "gets.sstable": 3_000, "get_nanos_total.sstable": 450_000_000,
            "gets.log": 2, "get_nanos_total.log": 900_000_000 })),
        "get_shares": shares, "ram_hit_rate": (store == "evendb").then_some(0.7),
        "process_settled": (store != "fjall").then(|| json!({
            "user_seconds": 80.0, "system_seconds": 20.0, "read_bytes": 3_000_000_000u64,
            "write_bytes": 9_000_000_000u64, "cancelled_write_bytes": 1_000_000u64,
            "resident_bytes_max": 900_000_000u64 })),
        "course_interval_seconds": 1.0, "course": course,
    })
}

fn space_course(store: &str, mix: &str, data_bytes: u64) -> Value {
    let bytes = |second: u64| data_bytes * second / 60 + (noise(&[store], second) * 4e8) as u64;
    let bytes: Vec<u64> = (0..=60).map(bytes).collect();
    match mix {
        "ingest" => json!({ "interval_seconds": 1, "bytes": bytes }),
        _ => Value::Null,
    }
}

struct Workload<'a> {
    experiment: &'a str,
    mix: &'a str,
    distribution: &'a str,
    theta: f64,
    threads: u64,
    variant: Option<&'a str>,
    size: (&'a str, u64),
}

fn add(lines: &mut Vec<String>, stores: &[&str], workload: &Workload<'_>) {
    let Workload {
        mix,
        distribution,
        size,
        ..
    } = workload;
    let mut name = format!("{mix}/{distribution}/{}", size.0);
    name += &workload
        .variant
        .map_or(String::new(), |variant| format!("/{variant}"));
    name += &format!("/{}/{}", workload.theta, workload.threads);
    for round in 0..2 {
        for store in stores {
            lines.push(
                cell(workload.experiment, &name, store, round)
                    .with("mix", *mix)
                    .with("distribution", *distribution)
                    .with("theta", workload.theta)
                    .with("threads", workload.threads)
                    .with("variant", workload.variant)
                    .with("data_bytes", size.1)
                    .with("ended", "2026-01-02T03:04:05Z")
                    .with(
                        "disk_bytes",
                        (size.1 as f64 * (1.0 + 0.4 * noise(&[store], 0))) as u64,
                    )
                    .with("space_course", space_course(store, mix, size.1))
                    .phase(phase(store, mix, &name, size.1, round))
                    .to_string(),
            );
        }
    }
}

fn run() -> String {
    let settings: Map<String, Value> = STORES
        .into_iter()
        .map(|store| {
            (
                store.to_owned(),
                format!("{store} with <defaults>, 512 MiB cache").into(),
            )
        })
        .collect();
    json!({
        "kind": "run", "version": 1, "started": "2026-01-02T03:04:05Z", "memory_limit": "cgroup v1",
        "settings": { "scale": 0.0625, "quick": true, "memory_bytes": 1u64 << 30, "threads": 4,
            "value_bytes": 800, "durability": "process", "seed": 1 },
        "machine": { "cpu": "A <CPU> & more", "cores": 2, "memory_bytes": 24u64 << 30,
            "kernel": "6.1", "filesystem": "ext4" },
        "limits": crate::calibrate::tests::calibration().to_json(),
        "stores": settings,
    })
    .to_string()
}

/// The whole file.
pub fn lines() -> Vec<String> {
    let mut lines = vec![run(), json!({ "kind": "weather" }).to_string()];
    let base = |experiment, mix, distribution, size| Workload {
        experiment,
        mix,
        distribution,
        theta: 0.99,
        threads: 4,
        variant: None,
        size,
    };
    for size in SIZES {
        for (mix, distribution) in [
            ("P", "zipf-composite"),
            ("P", "zipf-simple"),
            ("P", "uniform"),
            ("A", "zipf-composite"),
            ("A", "zipf-simple"),
            ("B", "zipf-composite"),
            ("C", "zipf-composite"),
            ("C", "zipf-simple"),
            ("D", "latest"),
            ("E10", "zipf-simple"),
            ("E100", "zipf-composite"),
            ("E1000", "zipf-composite"),
            ("F", "zipf-simple"),
        ] {
            add(
                &mut lines,
                &STORES,
                &base("figure-6", mix, distribution, size),
            );
        }
        add(
            &mut lines,
            &STORES,
            &base("figure-3", "ingest", "event-log", size),
        );
        add(
            &mut lines,
            &STORES,
            &base("figure-5", "scans", "event-log", size),
        );
    }
    add(
        &mut lines,
        &STORES,
        &base("load", "load", "key order", SIZES[2]),
    );
    let four = SIZES[2];
    for theta in [0.8, 0.9, 0.99] {
        for distribution in ["zipf-simple", "zipf-composite"] {
            let workload = base("figure-10", "A", distribution, four);
            add(&mut lines, &STORES, &Workload { theta, ..workload });
        }
    }
    for threads in [1, 2, 4, 8] {
        for mix in ["A", "C", "P"] {
            let workload = base("figure-11", mix, "zipf-simple", four);
            add(
                &mut lines,
                &STORES,
                &Workload {
                    threads,
                    ..workload
                },
            );
        }
    }
    for variant in [
        "log 128 KiB",
        "log 512 KiB",
        "log 2 MiB",
        "bloom 1",
        "bloom 4",
        "bloom 16",
    ] {
        let workload = base("figure-12", "A", "zipf-composite", four);
        add(
            &mut lines,
            &["evendb"],
            &Workload {
                variant: Some(variant),
                ..workload
            },
        );
    }
    odd(&mut lines);
    lines
}

/// What a run meets that does not go well.
fn odd(lines: &mut Vec<String>) {
    for store in ["evendb", HOSTILE] {
        let phase = json!({ "operations_per_second": 1234.5, "interrupted": false });
        lines.push(cell(HOSTILE, HOSTILE, store, 0).phase(phase).to_string());
    }
    // Interrupted, of mix F; skipped, without any store that measured it.
    let early = json!({ "operations_per_second": 987_654_321.0, "interrupted": true });
    lines.push(
        cell("figure-6", "B/zipf-simple/512MiB", "evendb", 0)
            .phase(early)
            .to_string(),
    );
    for store in ["redb", "surrealkv"] {
        let line = json!({ "kind": "skipped", "experiment": "figure-6", "store": store, "round": 0,
            "cell": "E1000/zipf-simple/16GiB", "why": HOSTILE_REASON });
        lines.push(line.to_string());
    }
    // Killed in the middle of a line.
    lines.push("{\"kind\":\"cell\",\"experi".to_owned());
}

/// The results that were read from it.
pub fn results() -> Results {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(super::RESULTS_FILE);
    std::fs::write(&path, lines().join("\n")).unwrap();
    Results::read(&path).unwrap()
}
