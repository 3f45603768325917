//! `evendb stats --watch`: rates of a database that another process has open, line by line.
//!
//! Lines are appended, not redrawn, so that they can be kept and piped; the heading comes again
//! every 20 lines. Each line covers the time from one writing of the figures to another, by the
//! clock of the process that has the database open (the owner). While the database is idle its
//! owner writes no figures, and a line covers the interval. The owner is not disturbed: only a file
//! is read.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use evendb::{FigureKind, LiveStats, Stats};
use serde_json::{Map, Value, json};

use super::stats::{is_dead, read_live, stale};
use crate::failure::{Failure, Success};
use crate::interrupt::Interrupt;
use crate::output;

/// The number of lines after which the heading comes again.
const HEADING_LINES: u64 = 20;
/// How often to look whether the owner has written again, and whether the user wants to stop.
const STEP: Duration = Duration::from_millis(20);

/// Prints rates until the user, the number of lines or the end of the database stops it.
pub(super) fn run(
    dir: &Path,
    seconds: f64,
    count: Option<u64>,
    json: bool,
) -> Result<Success, Failure> {
    let interrupt = Interrupt::install()?;
    let interval = Duration::from_secs_f64(seconds);
    let mut last = read_live(dir)?;
    let mut failure_told = false;
    let mut lines = 0;
    let mut target = output::out();
    while count.is_none_or(|count| lines < count) {
        let now = match next(dir, &last, interval, &interrupt)? {
            Next::Figures(now) => now,
            Next::Closed => {
                output::complain("the database was closed");
                break;
            }
            Next::Interrupted => return Err(Failure::Interrupted),
        };
        if reopened(&last, &now) {
            let process = now.process_id();
            output::complain(&format!("opened again, by process {process}"));
            last = now;
            continue;
        }
        if let Some(failure) = now.failure()
            && !std::mem::replace(&mut failure_told, true)
        {
            output::complain(&format!("it takes no more writes: {failure}"));
        }
        let between = Between { last, now };
        if json {
            writeln!(target, "{}", between.json())?;
        } else {
            if lines % HEADING_LINES == 0 {
                writeln!(target, "{}", heading())?;
            }
            writeln!(target, "{}", between.line())?;
        }
        target.flush()?;
        lines += 1;
        last = between.now;
    }
    Ok(Success::Done)
}

/// Whether the database was closed and opened again meanwhile. The uptime of an idle owner is
/// computed from the age of its file, so a change of the system's clock may move it a little.
fn reopened(last: &LiveStats, now: &LiveStats) -> bool {
    now.process_id() != last.process_id()
        || now.sequence() < last.sequence()
        || now.uptime() + Duration::from_secs(1) < last.uptime()
}

enum Next {
    Figures(LiveStats),
    Closed,
    Interrupted,
}

/// Waits for the interval to pass, and for figures newer than the last.
fn next(
    dir: &Path,
    last: &LiveStats,
    interval: Duration,
    interrupt: &Interrupt,
) -> Result<Next, Failure> {
    let until = Instant::now() + interval;
    let mut late_told = false;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        std::thread::sleep(left.min(STEP).max(Duration::from_millis(1)));
        if interrupt.raised() {
            return Ok(Next::Interrupted);
        }
        if Instant::now() < until {
            continue;
        }
        let read = LiveStats::read(dir);
        let read = read.map_err(|error| Failure::new(dir.display(), error))?;
        match read {
            None => return Ok(Next::Closed),
            Some(now) if now.sequence() != last.sequence() => return Ok(Next::Figures(now)),
            Some(now) if now.process_id() != last.process_id() => return Ok(Next::Figures(now)),
            Some(now) if is_dead(&now) => return Err(Failure::Message(stale(&now))),
            Some(now) if now.is_idle() => return Ok(Next::Figures(now)),
            Some(now) if now.is_stale() && !std::mem::replace(&mut late_told, true) => {
                output::complain(&stale(&now));
            }
            Some(_) => {}
        }
    }
}

/// Two looks at one owner.
struct Between {
    last: LiveStats,
    now: LiveStats,
}

/// Title, width and value of each column.
type WatchColumn = (&'static str, usize, fn(&Between) -> String);

const COLUMNS: &[WatchColumn] = &[
    ("time", 8, |b| clock(b.now.uptime())),
    ("puts/s", 7, |b| short(b.rate("puts"))),
    ("dels/s", 7, |b| short(b.rate("deletes"))),
    ("scans/s", 7, |b| short(b.rate("scans"))),
    ("gets/s", 7, |b| short(b.sum_rate("gets."))),
    ("delta", 6, |b| short(b.rate("gets.delta"))),
    ("munk", 6, |b| short(b.rate("gets.munk"))),
    ("rows", 6, |b| short(b.rate("gets.row_cache"))),
    ("log", 6, |b| short(b.rate("gets.log"))),
    ("table", 6, |b| short(b.rate("gets.sstable"))),
    ("none", 6, |b| short(b.rate("gets.absent"))),
    ("user", 7, |b| mib(b.rate("written.user"))),
    ("disk", 7, |b| mib(b.disk_rate())),
    ("times", 5, |b| amplification(b)),
    ("RAM MiB", 11, |b| {
        let budget = b.value("memory.budget") / f64::from(1 << 20);
        format!("{:.0}/{budget:.0}", b.memory_used() / f64::from(1 << 20))
    }),
    ("munks", 6, |b| mib(b.value("memory.munks"))),
    ("deltas", 6, |b| mib(b.value("memory.deltas"))),
    ("rows", 6, |b| mib(b.value("memory.row_cache"))),
    ("index", 6, |b| {
        mib(b.value("memory.log_indexes") + b.value("memory.block_indexes"))
    }),
    ("owed", 6, |b| mib(b.value("debt_bytes"))),
    ("chunks", 7, |b| short(b.value("chunks"))),
    ("munks", 6, |b| short(b.value("munks"))),
    ("pause ms", 10, |b| {
        let ms = |name| {
            let nanos = b.now.get(name)?;
            Some(format!("{:.1}", nanos as f64 / 1e6))
        };
        let pauses = ["put_pause_nanos_max", "get_pause_nanos_max"].map(ms);
        pauses.into_iter().flatten().collect::<Vec<_>>().join("/")
    }),
];

fn heading() -> String {
    row(COLUMNS
        .iter()
        .map(|(title, width, _)| (*width, (*title).to_owned())))
}

fn row(cells: impl Iterator<Item = (usize, String)>) -> String {
    let cells: Vec<String> = cells
        .map(|(width, cell)| format!("{cell:>width$}"))
        .collect();
    cells.join(" ")
}

impl Between {
    fn seconds(&self) -> f64 {
        let time = self.now.uptime().saturating_sub(self.last.uptime());
        time.as_secs_f64().max(1e-9)
    }

    fn value(&self, name: &str) -> f64 {
        self.now.get(name).unwrap_or(0) as f64
    }

    /// The growth of a counter in a second.
    fn rate(&self, name: &str) -> f64 {
        let of = |live: &LiveStats| live.get(name).unwrap_or(0);
        of(&self.now).saturating_sub(of(&self.last)) as f64 / self.seconds()
    }

    fn sum_rate(&self, prefix: &str) -> f64 {
        let names = self.now.figures().map(|(name, _)| name);
        names
            .filter(|name| name.starts_with(prefix))
            .map(|name| self.rate(name))
            .sum()
    }

    /// Bytes a second that certainly reach the disk: all except the commit log.
    fn disk_rate(&self) -> f64 {
        self.sum_rate("written.") - self.rate("written.user") - self.rate("written.commit_log")
    }

    fn memory_used(&self) -> f64 {
        let uses = self.now.figures();
        uses.filter(|(name, _)| name.starts_with("memory.") && *name != "memory.budget")
            .map(|(_, value)| value as f64)
            .sum()
    }

    fn line(&self) -> String {
        row(COLUMNS.iter().map(|(_, width, cell)| (*width, cell(self))))
    }

    fn json(&self) -> Value {
        let counters: Map<String, Value> = Stats::default()
            .figures()
            .iter()
            .filter(|figure| figure.kind == FigureKind::Counter)
            .map(|figure| (figure.name.to_owned(), self.rate(figure.name).into()))
            .collect();
        let figures: Map<String, Value> = self
            .now
            .figures()
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        json!({
            "process_id": self.now.process_id(),
            "uptime_seconds": self.now.uptime().as_secs_f64(),
            "seconds": self.seconds(),
            "failure": self.now.failure(),
            "per_second": counters,
            "figures": figures,
        })
    }
}

/// Bytes written to disk for each byte that users put.
fn amplification(between: &Between) -> String {
    let user = between.rate("written.user");
    if user < 1.0 {
        return "-".to_owned();
    }
    format!("{:.2}", between.disk_rate() / user)
}

fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}", seconds % 60)
}

/// A number in usually at most five characters.
fn short(number: f64) -> String {
    let scaled = |number: f64, unit: &str| match number {
        number if number < 9.95 => format!("{number:.1}{unit}"),
        number => format!("{number:.0}{unit}"),
    };
    match number {
        number if number < 9_999.5 => format!("{number:.0}"),
        number if number < 999_500.0 => scaled(number / 1e3, "k"),
        number if number < 999_500_000.0 => scaled(number / 1e6, "M"),
        number => scaled(number / 1e9, "G"),
    }
}

fn mib(bytes: f64) -> String {
    let mib = bytes / f64::from(1 << 20);
    if mib < 99.95 {
        return format!("{mib:.1}");
    }
    format!("{mib:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_short() {
        let shown = [0.0, 12.4, 9_999.0, 12_345.0, 1.26e6, 45.6e6, 2.5e9].map(short);
        assert_eq!(shown, ["0", "12", "9999", "12k", "1.3M", "46M", "2.5G"]);
        assert_eq!(mib(1_572_864.0), "1.5");
        assert_eq!(clock(Duration::from_secs(3_725)), "01:02:05");
    }
}
