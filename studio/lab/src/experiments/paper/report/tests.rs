//! The report as a whole: its content, and that no name leaves its place.

use serde_json::{Value, json};

use super::document;
use super::run_results::RunResults;
use crate::experiments::markdown::escape;

/// A name that is markup if it is not escaped.
const HOSTILE: &str = "<script>alert(\"x\")</script>|'&amp; https://example.org/a.js";
const STORES: [&str; 4] = ["rocksdb", "evendb", "fjall", "pebblesdb"];

/// A cell's line, described by its name: `mix/distribution/size`, and any further parts.
pub fn line(experiment: &str, name: &str, store: &str, round: u64, phase: Value) -> Value {
    let mut parts = name.split('/');
    let mut part = || parts.next().unwrap_or_default();
    let (mix, distribution) = (part(), part());
    let gib: Option<u64> = part().strip_suffix("GiB").and_then(|n| n.parse().ok());
    json!({
        "kind": "cell", "experiment": experiment, "cell": name, "store": store, "round": round,
        "mix": mix, "distribution": distribution, "theta": 0.99, "threads": 4,
        "data_bytes": gib.map(|gib| gib << 30), "phase": phase,
    })
}

/// Round figures, larger for EvenDB. Figures that only EvenDB tells are missing for others.
fn phase(store: &str, round: u64) -> Value {
    let own = store == "evendb";
    let latency =
        json!({ "p50": 300, "p95": 1000, "p99": 9000, "p99.9": 90_000, "max": 7_000_000 });
    let mut puts = latency.clone();
    puts["count"] = 1000.into();
    json!({
        "seconds": 60.0, "settle_seconds": 3.5, "longest_stall_seconds": 0.012,
        "operations_per_second": if own { 200e3 } else { 100e3 + round as f64 },
        "latency_nanos": { "get": latency, "put": puts },
        "write_amplification_process": if own { 1.2 } else { 3.0 },
        "user_bytes_read": 6e9, "user_bytes_written": 6e9,
        "cpu_share_of_cores": if own { 0.875 } else { 0.5 },
        "process": { "read_bytes": 6e8, "write_bytes": 7.2e9, "cancelled_write_bytes": 1.2e9 },
        "figures": own.then(|| json!({
            "pause.pace_nanos_total": 12_500_000_000u64, "pause.room_nanos_total": 0,
            "gets.munk": 70_000, "get_nanos_total.munk": 84_000_000,
            "gets.sstable": 3_000, "get_nanos_total.sstable": 450_000_000,
            "gets.log": 2, "get_nanos_total.log": 900_000_000 })),
        "component_latency_nanos": own.then(|| json!({
            "munk": { "count": 1100, "p50": 900, "p95": 2000, "p99": 5000, "p99.9": 60_000 },
            "log": { "count": 40, "p50": 90_000, "p95": 400_000, "p99": null, "p99.9": null } })),
        "get_shares": if own { json!({ "munk": 0.75, "sstable": 0.25 }) } else { json!({}) },
        "process_settled": { "user_seconds": 80.0, "system_seconds": 20.0, "read_bytes": 3u64 << 30,
            "write_bytes": 9u64 << 30, "write_calls": if own { 500 } else { 2000 }, "resident_bytes_max": 1 << 29 },
        "course": (1..=60).map(|second| json!([second, 100_000])).collect::<Vec<_>>(),
        "cache": {
            "read_hit_rate": own.then_some(0.75), "misses_by_ideal": own.then_some(1.25),
            "ideal": { "cache_bytes": if own { 3u64 << 29 } else { 2 << 30 }, "hit_rate": 0.8 } },
    })
}

/// A whole file of made-up results: every figure of the paper, two rounds, something skipped, names
/// that try to leave their place, and a line that was broken off. The figures mean nothing.
fn made_up() -> Vec<String> {
    let limits = crate::calibrate::tests::calibration().to_json();
    let mut lines = vec![
        json!({
            "kind": "run", "version": 1, "started": "2026-01-02T03:04:05Z", "memory_limit": "cgroup v1", "table_3": true,
            "settings": { "quick": true, "memory_bytes": 2u64 << 30, "value_bytes": 800 },
            "machine": { "cpu": "A <CPU> & more", "memory_bytes": 24u64 << 30, "commit": "0123abcd" },
            "stores": STORES, "limits": limits,
        })
        .to_string(),
        json!({ "kind": "weather" }).to_string(),
    ];
    for (experiment, name) in [
        ("figure-6", "P/zipf-composite/1GiB"),
        ("figure-6", "A/zipf-simple/1GiB"),
        ("figure-6", "C/zipf-simple/1GiB"),
        ("figure-6", "C/zipf-simple/4GiB"),
        ("figure-3", "ingest/event-log/8GiB"),
        ("figure-5", "scans/event-log/8GiB"),
        ("figure-10", "A/zipf-simple/4GiB"),
        ("figure-11", "A/zipf-simple/4GiB"),
        ("table-4", "A/zipf-simple/4GiB"),
        ("figure-12", "A/zipf-composite/4GiB"),
        ("load", "load/key order/4GiB"),
        (HOSTILE, HOSTILE),
    ] {
        for round in 0..2 {
            for store in STORES {
                let mut line = line(experiment, name, store, round, phase(store, round));
                line["disk_bytes"] = json!(5u64 << 30);
                if experiment == "figure-3" {
                    line["space_course"] = json!({ "interval_seconds": 1, "bytes": [0, 1u64 << 30, 2u64 << 30], "log_bytes": [0, 0, 1u64 << 29] });
                }
                lines.push(line.to_string());
            }
        }
    }
    let mut skipped = line(
        "figure-6",
        "E1000/zipf-simple/4GiB",
        HOSTILE,
        0,
        Value::Null,
    );
    skipped["kind"] = "skipped".into();
    skipped["why"] = HOSTILE.into();
    lines.push(skipped.to_string());
    lines.push("{\"kind\":\"cell\",\"experi".to_owned());
    lines
}

fn report(lines: &[String]) -> String {
    document::text(&RunResults::parse(lines.join("\n").as_bytes()).unwrap())
}

#[test]
fn sections_are_in_the_papers_order_and_hold_every_cell() {
    let text = report(&made_up());
    let headings = text.lines().filter_map(|line| line.strip_prefix("## "));
    let short: Vec<&str> = headings
        .map(|line| line.split(':').next().unwrap())
        .collect();
    let expected = [
        "Summary",
        "Figure 3",
        "Table 2",
        "Figure 4",
        "Figure 5",
        "Figure 6",
        "Figure 7",
        "Figure 8",
        "Figure 9",
        "Reads",
        "Figure 10",
        "Table 3",
        "Table 4",
        "Figure 11",
        "Figure 12",
        "Load",
    ];
    assert_eq!(short[..expected.len()], expected);
    assert!(
        short[expected.len()].starts_with("&lt;script"),
        "what no figure knows"
    );
    let results = RunResults::parse(made_up().join("\n").as_bytes()).unwrap();
    for cell in &results.cells {
        let row = format!("\n| {} | ", escape(&cell.label()));
        assert!(text.contains(&row), "{}: {}", cell.experiment, cell.name);
    }
    for words in ["0123abcd", "Line 100 ", "quick run", "cgroup v1"] {
        assert!(text.contains(words), "{words}");
    }
}

#[test]
fn figures_stand_beside_those_of_peers_and_of_the_paper() {
    let text = report(&made_up());
    for row in [
        // Throughput: stores, ratio to the best peer, ratio to RocksDB, the paper's.
        "| C zipf-simple, 4 GiB | kop/s | **189** | 94.5 | 94.5 | 94.5 | - | 2.00x | rocksdb | 2.00x | up to 1.9x |",
        "| C zipf-simple, 4 GiB | kop/s without debt | **200** | 100 | 100 | 100 | - | 2.00x | rocksdb | 2.00x | up to 1.9x |",
        // Rates, waits for pace and room, CPU, MB/s read and written. Figures that a peer does not
        // tell are missing. After the rates: reads from RAM, the ideal cache's memory and reads,
        // misses divided by the ideal's.
        "| P zipf-composite, 1 GiB | evendb | 189 | 200 | 75.0 % | 1.50 GiB | 80.0 % | 1.25 | 12.5 | 0.00 | 88 % | 10.0 | 100 |",
        "| P zipf-composite, 1 GiB | rocksdb | 94.5 | 100 | - | 2.00 GiB | 80.0 % | - | - | - | 50 % | 10.0 | 100 |",
        "| event log: ingest, 8 GiB | written | **9.00 GiB** | 9.00 GiB |",
        // Write system calls for a put.
        "| P zipf-composite, 1 GiB | **0.50** | 2.00 | 2.00 | 2.00 |",
        "| A zipf-simple, 1 GiB | get p99.9 | **90.0 us** | 90.0 us |",
        "| A zipf-simple, 1 GiB | evendb | 75.0 % | 0.0 % | 0.0 % | 0.0 % | 25.0 % | 0.0 % |",
        // Two gets of the log are too few for a sample.
        "| A zipf-simple, 1 GiB | evendb | 1.2 us | - | - | - | 150.0 us | - |",
        "| event log: ingest, 8 GiB | rocksdb | 60.0 | 100 | 100 | 100 |",
        "| event log: ingest, 8 GiB | evendb | 3.00 | 0.00 | 0.00 | 0.00 | 1.00 |",
        // Half a GiB of logs at the end.
        "| 0.00 | 0.00 | 0.50 |",
        // Table 3, for the paper's 64 GB and four times two GiB of memory.
        "| zipf-simple, theta 0.99 | 4.87 % | ",
        "| zipf-composite, theta 0.99 | 0.0019 % | ",
        // 100,000 random reads a second in the made-up calibration.
        "| cold gets, all threads | reads of 4 KiB by 16 threads | 100,000/s |",
    ] {
        assert!(text.contains(row), "{row} in\n{text}");
    }
    assert!(
        text.contains("fastest store in 7 of 7 workloads and sizes"),
        "{text}"
    );
}

#[test]
fn names_are_text_everywhere() {
    let text = report(&made_up());
    assert!(text.contains(&escape(HOSTILE)));
    for markup in ["<script", "<CPU>", HOSTILE] {
        assert!(!text.contains(markup), "{markup}");
    }
}

#[test]
fn medians_and_ranges_are_in_the_tables() {
    let line = |store: &str, round: u64, rate: f64| {
        let phase = json!({ "operations_per_second": rate });
        line("figure-6", "C/uniform/1GiB", store, round, phase).to_string()
    };
    let lines = [
        line("evendb", 0, 111e3),
        line("evendb", 1, 333e3),
        line("evendb", 2, 222e3),
        line("lmdb", 0, 444e3),
    ];
    let text = report(&lines);
    let row = "| C uniform, 1 GiB | kop/s | 222 (111 to 333) | **444** | 0.50x | lmdb |";
    assert!(text.contains(row), "{text}");
    assert!(text.contains("furthest behind in: C uniform, 1 GiB, 0.50 times lmdb."));
}

#[test]
fn a_rate_that_still_falls_at_the_end_is_marked() {
    let line = |store: &str, round: u64, falling: u64| {
        let course = (1..=40).map(|i| json!([i as f64 / 2.0, 1000 - falling * i]));
        let phase = json!({ "operations_per_second": 1e5, "course": course.collect::<Vec<_>>() });
        line("figure-6", "P/uniform/1GiB", store, round, phase).to_string()
    };
    let text = report(&[
        line("evendb", 0, 10),
        line("evendb", 1, 0),
        line("evendb", 2, 15),
        line("lmdb", 0, 10),
        line("fjall", 0, 0),
    ]);
    let row = "| P uniform, 1 GiB | kop/s | **100, falls in 2 of 3** | 100 | 100, falls | 1.00x | fjall |";
    assert!(text.contains(row), "{text}");
    let ratio = "| P uniform | 1.00x fjall, falls in 2 of 3 |";
    assert!(text.contains(ratio), "{text}");
    let sentence = "In 3 of 5 measurements the rate still fell at the end";
    assert!(text.contains(sentence), "{text}");
}

#[test]
fn results_with_hardly_anything_become_a_report() {
    let every = [
        "figure-3",
        "figure-5",
        "figure-6",
        "figure-10",
        "table-4",
        "load",
        "x",
    ];
    let mut bare = every
        .map(|name| line(name, "c", "evendb", 0, json!({})).to_string())
        .to_vec();
    bare.push(
        "{\"kind\":\"skipped\",\"experiment\":\"figure-11\",\"cell\":\"A\",\"store\":\"z\"}".into(),
    );
    for lines in bare
        .iter()
        .map(|line| vec![line.clone()])
        .chain([bare.clone()])
    {
        let text = report(&lines);
        assert!(text.contains("nothing can be compared yet"), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}
