//! [`PauseReport`]: what the experiment found, as JSON and as text.

use std::fmt;

use serde_json::{Value, json};

use crate::phase_result::figures_json;
use crate::store::Figure;

/// The pauses of one kind of operation.
#[derive(Clone, Debug)]
pub struct Pauses {
    /// The kind of operation.
    pub kind: &'static str,
    /// The number of operations.
    pub count: u64,
    /// Median, p99, p99.9, p99.99 and the longest, in nanoseconds.
    pub percentiles: [u64; 5],
    /// The longest pause, less the time in which the thread was ready and waited for a processor.
    pub longest_own_nanos: u64,
    /// The longest pause, less the time in which the machine stood still, if that was watched.
    pub longest_rest_nanos: Option<u64>,
    /// The number of pauses above 5 and 20 ms, for any reason.
    pub above: [u64; 2],
    /// The number of pauses above 5 and 20 ms, less the time in which the thread was ready and
    /// waited for a processor.
    pub above_own: [u64; 2],
}

/// What the experiment found.
#[derive(Clone, Debug)]
pub struct PauseReport {
    /// The store's name.
    pub store: String,
    /// Pauses by kind.
    pub pauses: Vec<Pauses>,
    /// Bytes of keys and values overwritten.
    pub bytes_overwritten: u64,
    /// Seconds of loading and of overwriting.
    pub seconds: [f64; 2],
    /// Longest gap of a spinning thread before the run, and the ticker's p99.9 and longest delay in
    /// the run, in nanoseconds.
    pub noise: [u64; 3],
    /// How often a processor stood still in the run, and the longest time in nanoseconds. `None` if
    /// the system does not let us watch.
    pub stops: Option<(usize, u64)>,
    /// The store's own figures over loading and overwriting.
    pub figures: Vec<Figure>,
}

impl PauseReport {
    /// All figures as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let pauses: Vec<Value> = self
            .pauses
            .iter()
            .map(|pauses| {
                json!({
                    "kind": pauses.kind,
                    "count": pauses.count,
                    "p50_nanos": pauses.percentiles[0],
                    "p99_nanos": pauses.percentiles[1],
                    "p99.9_nanos": pauses.percentiles[2],
                    "p99.99_nanos": pauses.percentiles[3],
                    "longest_nanos": pauses.percentiles[4],
                    "longest_own_nanos": pauses.longest_own_nanos,
                    "longest_rest_nanos": pauses.longest_rest_nanos,
                    "above_5_ms": pauses.above[0],
                    "above_20_ms": pauses.above[1],
                    "above_5_ms_own": pauses.above_own[0],
                    "above_20_ms_own": pauses.above_own[1],
                })
            })
            .collect();
        json!({
            "store": self.store,
            "pauses": pauses,
            "bytes_overwritten": self.bytes_overwritten,
            "load_seconds": self.seconds[0],
            "ingest_seconds": self.seconds[1],
            "spinner_longest_nanos": self.noise[0],
            "ticker_p99.9_nanos": self.noise[1],
            "ticker_longest_nanos": self.noise[2],
            "stops": self.stops.map(|stops| stops.0),
            "stop_longest_nanos": self.stops.map(|stops| stops.1),
            "figures": figures_json(&self.figures),
        })
    }
}

impl fmt::Display for PauseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = (self.bytes_overwritten >> 20) as f64;
        writeln!(
            f,
            "{}: {mib} MiB overwritten in {:.1} s ({:.0} MiB/s), loaded in {:.1} s",
            self.store,
            self.seconds[1],
            mib / self.seconds[1],
            self.seconds[0]
        )?;
        let ms = |nanos: u64| nanos as f64 / 1e6;
        writeln!(
            f,
            "machine: spinner's longest gap before {:.2} ms; ticker late by p99.9 {:.2}, at most {:.2} ms",
            ms(self.noise[0]),
            ms(self.noise[1]),
            ms(self.noise[2])
        )?;
        match self.stops {
            Some((count, longest)) => writeln!(
                f,
                "processors stood still {count} times, at most {:.2} ms",
                ms(longest)
            )?,
            None => writeln!(
                f,
                "stops of processors: not watched, for want of the right to"
            )?,
        }
        writeln!(
            f,
            "  {:<6} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>12} {:>12}   (ms)",
            "kind",
            "count",
            "p50",
            "p99",
            "p99.9",
            "p99.99",
            "longest",
            "rest",
            "own",
            ">5 (own)",
            ">20 (own)"
        )?;
        for pauses in &self.pauses {
            let [p50, p99, p999, p9999, max] = pauses.percentiles.map(ms);
            let above = |at: usize| format!("{} ({})", pauses.above[at], pauses.above_own[at]);
            writeln!(
                f,
                "  {:<6} {:>10} {p50:>9.4} {p99:>9.3} {p999:>9.3} {p9999:>9.2} {max:>9.2} {:>9} {:>9.2} {:>12} {:>12}",
                pauses.kind,
                pauses.count,
                pauses
                    .longest_rest_nanos
                    .map_or("-".to_owned(), |nanos| format!("{:.2}", ms(nanos))),
                ms(pauses.longest_own_nanos),
                above(0),
                above(1)
            )?;
        }
        for figure in &self.figures {
            if figure.name.starts_with("pause.") && figure.value > 0 {
                write!(f, "  {} {}", figure.name, figure.value)?;
            }
        }
        writeln!(f)
    }
}
