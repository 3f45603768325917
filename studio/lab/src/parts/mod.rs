//! Benchmarks of the engine's parts, each beside its target and beside yardsticks.
//!
//! ```text
//!   run(PartsSettings, yardsticks) -> [PartRow]
//!              one row: figure | target | met or missed | yardsticks
//!     memory   index, delta, munk: the parts alone, through the engine's index
//!     engine   put in all, pauses of puts, gets and scans through the whole, loading munks
//! ```
//!
//! A yardstick is another ordered map that holds the same records: [`OrderedMap`] here, LMDB from
//! the crate of peers, which passes its own in. Every part is measured in rounds; within a round
//! engine and yardsticks take turns at the same operations, and a figure is the median of the
//! rounds. One thread. Reads copy values out (get) or touch them (scan), alike for all.
//!
//! Time is the thread's CPU time ([`CpuClock`]), so that other processes on the machine do not
//! count; these parts never wait. If waiting itself is measured (pauses, loads) it is wall time.
//! Put in all is the CPU time of the whole process.
//!
//! The only check of an answer is that the key is found (the driver checks values). A target
//! relative to LMDB is judged only if LMDB is among the yardsticks.

pub mod command;
pub mod engine;
pub mod memory;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use parking_lot::RwLock;

/// What is measured, and on how much data.
#[derive(Clone, Debug)]
pub struct PartsSettings {
    /// Bytes of keys and values of the data set of every part.
    pub data_bytes: u64,
    /// The number of rounds; figures are their medians.
    pub rounds: usize,
    /// Gets and puts of a round; scans are fewer in proportion to their length.
    pub operations: u64,
    /// Where databases are made; removed by the caller.
    pub directory: PathBuf,
    /// Only parts whose names contain this text; all parts if empty.
    pub only: String,
}

impl PartsSettings {
    /// Whether a part is wanted.
    #[must_use]
    pub fn wants(&self, part: &str) -> bool {
        part.contains(&self.only)
    }
}

/// The target of a part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// At most this figure, in the row's unit.
    AtMost(f64),
    /// At most this multiple of LMDB's figure.
    TimesLmdb(f64),
    /// At least this share of the named yardstick's rate; the unit is one of rate.
    ShareOf(&'static str, f64),
    /// No target; shown for comparison.
    None,
}

/// One figure beside its target.
#[derive(Clone, Debug)]
pub struct PartRow {
    /// What was measured.
    pub part: String,
    /// The unit of all figures of the row.
    pub unit: &'static str,
    /// The engine's figure.
    pub figure: f64,
    /// The yardsticks' figures, by name.
    pub beside: Vec<(String, f64)>,
    /// The target of the figure.
    pub target: Target,
}

impl PartRow {
    fn beside(&self, name: &str) -> Option<f64> {
        let found = self.beside.iter().find(|(other, _)| other == name);
        found.map(|(_, figure)| *figure)
    }

    /// Whether the target is met; `None` without a target or without the figure to compare with.
    #[must_use]
    pub fn met(&self) -> Option<bool> {
        match self.target {
            Target::AtMost(most) => Some(self.figure <= most),
            Target::TimesLmdb(times) => Some(self.figure <= times * self.beside("LMDB")?),
            Target::ShareOf(name, share) => Some(self.figure >= share * self.beside(name)?),
            Target::None => None,
        }
    }
}

impl fmt::Display for PartRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = match self.target {
            Target::AtMost(most) => format!("<= {most} {}", self.unit),
            Target::TimesLmdb(times) => format!("<= {times} x LMDB"),
            Target::ShareOf(name, share) => format!(">= {share} x {name}"),
            Target::None => String::new(),
        };
        let verdict = match (self.met(), self.target) {
            (Some(true), _) => "met",
            (Some(false), _) => "MISSED",
            (None, Target::None) => "",
            (None, _) => "not judged",
        };
        write!(
            f,
            "{:<44} {:>9.1} {:<5} {target:<20} {verdict:<10}",
            self.part, self.figure, self.unit
        )?;
        for (name, figure) in &self.beside {
            let ratio = self.figure / figure;
            write!(f, "  {name} {figure:.1} ({ratio:.2}x)")?;
        }
        Ok(())
    }
}

/// Why a measurement of parts ended.
pub type PartsError = Box<dyn Error + Send + Sync>;

/// Takes the key and the value of a record.
pub type Take<'a> = &'a mut dyn FnMut(&[u8], &[u8]);

/// The yardsticks of a run, in the order of the columns.
pub type Yardsticks = Vec<Box<dyn Yardstick>>;

/// Another ordered map that holds the same records.
pub trait Yardstick {
    /// The name in rows.
    fn name(&self) -> &'static str;

    /// Puts `count` records. `record` makes each of them, and passes key and value to the function
    /// that it gets. The caller must keep the cost of that small.
    ///
    /// # Errors
    /// The errors of the map.
    fn put_all(
        &mut self,
        count: u64,
        record: &mut dyn FnMut(u64, Take<'_>),
    ) -> Result<(), PartsError>;

    /// Lends a reader while `body` runs.
    ///
    /// # Errors
    /// The errors of the map.
    fn read(&self, body: &mut dyn FnMut(&dyn Reader)) -> Result<(), PartsError>;

    /// Empties the map.
    ///
    /// # Errors
    /// The errors of the map.
    fn clear(&mut self) -> Result<(), PartsError>;
}

/// Reads an ordered map.
pub trait Reader {
    /// Lends the value of a key.
    fn get(&self, key: &[u8], each: &mut dyn FnMut(&[u8])) -> bool;

    /// Lends up to `limit` records from `from` on. Returns their number.
    fn scan(&self, from: &[u8], limit: usize, each: &mut dyn FnMut(&[u8], &[u8])) -> usize;
}

type Bytes = Box<[u8]>;

/// The standard library's map behind a lock.
#[derive(Default)]
pub struct OrderedMap(RwLock<BTreeMap<Bytes, Bytes>>);

impl Yardstick for OrderedMap {
    fn name(&self) -> &'static str {
        "BTreeMap"
    }

    fn put_all(
        &mut self,
        count: u64,
        record: &mut dyn FnMut(u64, Take<'_>),
    ) -> Result<(), PartsError> {
        for number in 0..count {
            record(number, &mut |key, value| {
                self.0.write().insert(key.into(), value.into());
            });
        }
        Ok(())
    }

    fn read(&self, body: &mut dyn FnMut(&dyn Reader)) -> Result<(), PartsError> {
        body(self);
        Ok(())
    }

    fn clear(&mut self) -> Result<(), PartsError> {
        self.0.write().clear();
        Ok(())
    }
}

impl Reader for OrderedMap {
    fn get(&self, key: &[u8], each: &mut dyn FnMut(&[u8])) -> bool {
        let map = self.0.read();
        map.get(key).is_some_and(|value| {
            each(value);
            true
        })
    }

    fn scan(&self, from: &[u8], limit: usize, each: &mut dyn FnMut(&[u8], &[u8])) -> usize {
        let map = self.0.read();
        let range =
            map.range::<[u8], _>((std::ops::Bound::Included(from), std::ops::Bound::Unbounded));
        range
            .take(limit)
            .map(|(key, value)| each(key, value))
            .count()
    }
}

/// Measures all parts that are wanted. Each row goes to `report` when it is known.
///
/// # Errors
/// The errors of the engine and of the yardsticks.
pub fn run(
    settings: &PartsSettings,
    yardsticks: &mut [Box<dyn Yardstick>],
    report: &mut dyn FnMut(&PartRow),
) -> Result<(), PartsError> {
    memory::index(settings, report);
    for value_bytes in [100, 800] {
        memory::puts(settings, value_bytes, yardsticks, report)?;
        memory::reads(settings, value_bytes, yardsticks, report)?;
    }
    engine::run(settings, report)
}

/// Measures the CPU time of the calling thread.
pub struct CpuClock(Duration);

impl CpuClock {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Self(thread_cpu())
    }

    /// CPU time of this thread since then. It must be the thread that started the clock.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        thread_cpu().saturating_sub(self.0)
    }
}

fn thread_cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// The median. For an even number of figures, the mean of the two in the middle.
#[must_use]
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    match (figures.len(), figures.len() / 2) {
        (0, _) => f64::NAN,
        (length, half) if length % 2 == 1 => figures[half],
        (_, half) => f64::midpoint(figures[half - 1], figures[half]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(figure: f64, target: Target, lmdb: Option<f64>) -> PartRow {
        PartRow {
            part: "p".to_owned(),
            unit: "ns",
            figure,
            beside: lmdb
                .map(|figure| ("LMDB".to_owned(), figure))
                .into_iter()
                .collect(),
            target,
        }
    }

    #[test]
    fn targets_are_judged() {
        assert_eq!(row(5.0, Target::AtMost(5.0), None).met(), Some(true));
        assert_eq!(row(5.1, Target::AtMost(5.0), None).met(), Some(false));
        let relative = Target::TimesLmdb(0.5);
        assert_eq!(row(5.0, relative, Some(10.0)).met(), Some(true));
        assert_eq!(row(5.0, relative, Some(9.0)).met(), Some(false));
        assert_eq!(row(5.0, relative, None).met(), None);
        let rate = Target::ShareOf("LMDB", 2.0);
        assert_eq!(row(20.0, rate, Some(10.0)).met(), Some(true));
        assert_eq!(row(19.0, rate, Some(10.0)).met(), Some(false));
    }

    #[test]
    fn the_median_is_the_middle() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }

    #[test]
    fn all_parts_run_on_a_little_data() {
        let directory = tempfile::tempdir().unwrap();
        let settings = PartsSettings {
            data_bytes: 1 << 20,
            rounds: 1,
            operations: 500,
            directory: directory.path().to_owned(),
            only: String::new(),
        };
        let mut yardsticks: Yardsticks = vec![Box::new(OrderedMap::default())];
        let mut rows = Vec::new();
        run(&settings, &mut yardsticks, &mut |row| {
            rows.push(row.clone())
        })
        .unwrap();
        assert!(rows.len() > 10);
        assert!(rows.iter().all(|row| row.figure.is_finite()), "{rows:?}");
    }
}
