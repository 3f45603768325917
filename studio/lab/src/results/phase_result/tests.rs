//! Results whose figures are known, for the tests of all parts.

use serde_json::json;

use super::*;
use crate::arrivals::Spacing;

pub fn figure(name: &'static str, value: u64) -> Figure {
    Figure {
        name,
        value,
        kind: FigureKind::Counter,
    }
}

/// A short phase of half puts and half gets.
pub fn result() -> PhaseResult {
    PhaseResult {
        name: "A".to_owned(),
        distribution: "uniform".to_owned(),
        store: "memory".to_owned(),
        threads: 2,
        cores: Some(2),
        operations: 1000,
        seconds: 0.5,
        settle_seconds: 0.25,
        interrupted: false,
        open_loop: None,
        longest_stall_seconds: 0.0,
        course_interval_seconds: 1.0,
        course: vec![(0.5, 1000)],
        latencies: vec![Latency {
            kind: OperationKind::Get,
            count: 1000,
            mean: 1500.0,
            p50: 900,
            p95: 2000,
            p99: 3000,
            p999: 4_000_000,
            max: 5_000_000_000,
        }],
        components: vec![ComponentSteps {
            component: "munk",
            steps: vec![(1000, 60), (2000, 40)],
        }],
        user_bytes_written: 1000,
        user_bytes_read: 500,
        records_scanned: 0,
        usage: Some(ProcessUsage {
            user_seconds: 0.004,
            system_seconds: 0.001,
            read_bytes: 4000,
            write_bytes: 3_000_000,
            cancelled_write_bytes: 500_000,
            read_call_bytes: 2000,
            ..Default::default()
        }),
        usage_settled: Some(ProcessUsage {
            write_bytes: 3500,
            cancelled_write_bytes: 500,
            ..Default::default()
        }),
        ideal: None,
        figures: vec![
            figure("gets.munk", 60),
            figure("gets.row_cache", 15),
            figure("gets.sstable", 25),
            figure("gets.absent", 100),
            figure("written.user", 1000),
            figure("written.log", 1500),
            figure("written.sstable", 2000),
            figure("pause.pace_count", 7),
            figure("pause.pace_nanos_total", 250_000_000),
            figure("pause.debt_nanos_total", 0),
        ],
    }
}

/// The same phase in an open loop that did not keep its rate.
pub fn open() -> PhaseResult {
    PhaseResult {
        open_loop: Some(OpenLoop {
            intended_rate: 2500.0,
            spacing: Spacing::Poisson,
            not_started: 250,
            behind_seconds: 0.1,
            late_seconds_max: 0.3,
        }),
        ..result()
    }
}

#[test]
fn ratios_follow_their_definitions() {
    let result = result();
    assert_eq!(result.throughput(), 2000.0);
    assert_eq!(result.throughput_with_debt(), 1000.0 / 0.75);
    assert_eq!(result.waited_seconds(), [("pace", 0.25), ("debt", 0.0)]);
    assert_eq!(result.cpu_share(), Some(0.005));
    assert_eq!(result.disk_read_rate(), Some(8000.0));
    assert_eq!(result.disk_write_rate(), Some(5e6));
    assert_eq!(result.fetched_bytes_per_read(), Some(4.0));
    assert_eq!(result.write_amplification_process(), Some(3.0));
    assert_eq!(result.write_amplification_store(), Some(3.5));
    assert_eq!(result.read_amplification(), Some(4.0));
    assert_eq!(result.cpu_micros_per_operation(), Some(5.0));
    assert_eq!(result.ram_hit_rate(), Some(0.75));
    assert_eq!(result.get_shares()[0], ("absent", 0.5));
}

#[test]
fn latencies_of_components_are_those_of_the_phase() {
    let steps = |component, steps: &[(u64, u64)]| ComponentSteps {
        component,
        steps: steps.to_vec(),
    };
    let before = [steps("log", &[(1000, 5), (4000, 1)]), steps("munk", &[])];
    let after = [
        steps("log", &[(1000, 5), (2000, 2), (4000, 3)]),
        steps("munk", &[(9, 1)]),
    ];
    let came = [
        steps("log", &[(2000, 2), (4000, 2)]),
        steps("munk", &[(9, 1)]),
    ];
    assert_eq!(components_since(&before, &after), came);
    assert_eq!(came[0].quantile(0.5), Some(2000));
    // Four gets say nothing of one in a hundred.
    assert_eq!(came[0].quantile(0.99), None);
    assert_eq!(ComponentSteps::default().quantile(0.5), None);
}

#[test]
fn nothing_is_divided_by_zero() {
    let empty = PhaseResult {
        operations: 0,
        seconds: 0.0,
        settle_seconds: 0.0,
        user_bytes_written: 0,
        user_bytes_read: 0,
        figures: Vec::new(),
        usage: None,
        ..result()
    };
    assert_eq!((empty.throughput(), empty.fifths()), (0.0, None));
    assert_eq!((empty.cpu_share(), empty.disk_write_rate()), (None, None));
    assert!(empty.waited_seconds().is_empty());
    assert_eq!(empty.write_amplification_store(), None);
    assert!(empty.get_shares().is_empty() && empty.ram_hit_rate().is_none());
    assert!(empty.to_json()["cpu_micros_per_operation"].is_null());
    assert_eq!(empty.throughput_with_debt(), 0.0);
}

#[test]
fn the_json_names_the_figures_and_their_units() {
    let json = result().to_json();
    assert_eq!(json["latency_nanos"]["get"]["p99.9"], 4_000_000);
    let munk = json!({ "count": 100, "p50": 1000, "p95": 2000, "p99": 2000, "p99.9": null });
    assert_eq!(json["component_latency_nanos"], json!({ "munk": munk }));
    assert_eq!(json["figures"]["written.log"], 1500);
    assert_eq!(json["operations_per_second"], 2000.0);
    assert_eq!(json["operations_per_second_with_debt"], 1000.0 / 0.75);
    assert_eq!(json["waited_seconds"], json!({ "pace": 0.25, "debt": 0.0 }));
    assert_eq!(json["disk_written_mb_per_second"], 5.0);
    assert_eq!(json["course"][0][1], 1000);
    let unit = "seconds since the start; operations in the second that ended then";
    assert_eq!(json["course_unit"], unit);
    // Too short to say anything.
    assert!(json["rate_falls_at_end"].is_null());
    let long = PhaseResult {
        course_interval_seconds: 0.5,
        course: (1..=40)
            .map(|i| (f64::from(i) / 2.0, 1000 - 10 * i as u64))
            .collect(),
        ..result()
    };
    let json = long.to_json();
    assert_eq!(json["rate_falls_at_end"], true);
    assert_eq!(json["operations_per_second_by_fifths"][4], 1270.0);
    let unit = json["course_unit"].as_str().unwrap();
    assert!(unit.contains("operations in the half second"), "{unit}");
}

#[test]
fn an_open_loop_states_its_rate() {
    let closed = result().to_json();
    assert!(closed["intended_operations_per_second"].is_null());
    assert!(closed["behind_seconds"].is_null());
    let json = open().to_json();
    assert_eq!(json["intended_operations_per_second"], 2500.0);
    assert_eq!(json["arrivals"], "poisson");
    assert_eq!(json["not_started"], 250);
    assert_eq!(json["late_seconds_max"], 0.3);
}

#[test]
fn counters_are_differences_and_gauges_are_not() {
    let gauge = |value| Figure {
        name: "chunks",
        value,
        kind: FigureKind::Gauge,
    };
    let since = figures_since(
        &[figure("puts", 5), gauge(9)],
        &[figure("puts", 7), gauge(4)],
    );
    assert_eq!(since.iter().map(|f| f.value).collect::<Vec<_>>(), [2, 4]);
}
