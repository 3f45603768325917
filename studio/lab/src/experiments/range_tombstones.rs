//! Experiment `range-tombstones`: what many live range deletions cost reads of the records that
//! they left, and how soon a deleted prefix is gone.
//!
//! ```text
//!   two stores, the same data      without | with
//!   with: range deletions, evenly spread, one call each      time of each call
//!   turns: gets without, gets with, scans without, scans with, gets without, ...
//!   without: one range deletion of the first nine tenths
//!            time of the call; idle, until the space is back
//! ```
//! Both stores are open in one process and read in turns, so that other work of the machine meets
//! both. Gets and scans read the same records in both. They are drawn evenly from the records that
//! no range deletion covers; a scan passes over the deleted records between them. Figures are
//! medians over the turns, and a ratio is the median of the ratios of neighbouring turns. Before
//! the turns every deleted record is asked for. The experiment ends if one is still there, or if a
//! record is missing that should be there.
//!
//! * **live**: range deletions that the store still has to look at after the last turn, if it tells
//!   that;
//! * **delete us**: the call that deletes a range;
//! * **prefix ms**: the call that deletes nine tenths of the data;
//! * **back s**: from its return until nine tenths of the deleted bytes are given back to the file
//!   system, without a call. NaN: not within the time for that.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::disk_space::disk_bytes;
use super::table::{TextTable, median};
use super::{Common, Failure, Measure, Measured, Turn, put_all, stores_of};
use crate::dataset::{Dataset, key_of, record_of};
use crate::opener::{Durability, Opener, Settings};
use crate::random::Random;
use crate::store::Store;
use crate::value::Thoroughness;

/// The arguments of `experiment range-tombstones`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// MiB of keys and values of each of the two stores
    #[arg(long, default_value_t = 1024)]
    size_mib: u64,
    /// Bytes of a value
    #[arg(long, default_value_t = 800, value_parser = clap::value_parser!(u16).range(16..))]
    value_bytes: u16,
    /// MiB of memory each of the two may plan with
    #[arg(long, default_value_t = 2048)]
    memory_mib: u64,
    /// Range deletions
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    tombstones: u64,
    /// Records that each of them has
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    width: u64,
    /// Records of a scan
    #[arg(long, default_value_t = 100)]
    scanned: usize,
    /// Turns of each kind
    #[arg(long, default_value_t = 11)]
    turns: usize,
    /// Seconds of a turn [default: 1, quick: 0.02]
    #[arg(long)]
    seconds: Option<f64>,
    /// Seconds within which the space of the deleted prefix should be back
    #[arg(long, default_value_t = 60.0)]
    wait: f64,
}

/// The deletion of the prefix keeps every tenth record, and more.
const TENTHS_DELETED: u64 = 9;
/// This share of the deleted bytes counts as given back.
const BACK: f64 = 0.9;
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// The figure by which a store tells how many range deletions it still has to look at.
const LIVE: &str = "space.range_tombstones";

/// Range deletions that are evenly spread over the records.
#[derive(Clone, Copy)]
struct Spread {
    stride: u64,
    count: u64,
    width: u64,
}

impl Spread {
    /// The first record of a range deletion, and the record after it.
    fn limits(self, number: u64) -> (u64, u64) {
        let first = number * self.stride + self.stride / 2;
        (first, first + self.width)
    }

    fn has(self, record: u64) -> bool {
        let within = (record % self.stride).wrapping_sub(self.stride / 2);
        within < self.width && record / self.stride < self.count
    }

    /// The first record from here on that is not deleted.
    fn left_from(self, record: u64) -> u64 {
        (record..)
            .find(|&record| !self.has(record))
            .unwrap_or(record)
    }
}

/// One kind of turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    Get,
    Scan,
}

/// The stores of a round.
struct Pair<'s> {
    without: &'s dyn Store,
    with: &'s dyn Store,
    dataset: Dataset,
    spread: Spread,
}

impl Arguments {
    fn seconds(&self) -> f64 {
        let default = if self.common.quick { 0.02 } else { 1.0 };
        self.seconds.unwrap_or(default)
    }

    fn dataset(&self) -> Dataset {
        let mib = match self.common.quick {
            true => self.size_mib.min(16),
            false => self.size_mib,
        };
        Dataset::of_size(mib << 20, usize::from(self.value_bytes), self.common.seed)
    }

    fn spread(&self, dataset: &Dataset) -> Result<Spread, Failure> {
        let stride = dataset.records / self.tombstones;
        if stride <= 2 * self.width {
            return Err(
                format!("{} range deletions leave too few records", self.tombstones).into(),
            );
        }
        Ok(Spread {
            stride,
            count: self.tombstones,
            width: self.width,
        })
    }

    fn store_settings(&self) -> Settings {
        Settings {
            memory_bytes: self.memory_mib << 20,
            durability: Durability::Process,
        }
    }

    /// A round over two open stores. `directory` is that of the store without range deletions.
    fn round(&self, pair: &Pair<'_>, directory: &Path, round: usize) -> Result<Value, Failure> {
        for store in [pair.without, pair.with] {
            put_all(store, &pair.dataset)?;
            store.settle_debt()?;
        }
        let mut random = Random::new(self.common.seed, round as u64);
        let deletes = pair.delete_ranges()?;
        pair.check_deleted()?;
        for store in [pair.without, pair.with] {
            for read in [Read::Get, Read::Scan] {
                self.turn(pair, store, read, &mut random.clone())?;
            }
        }
        let mut nanos: [Vec<[f64; 2]>; 2] = Default::default();
        for _ in 0..self.turns {
            for (read, nanos) in [Read::Get, Read::Scan].into_iter().zip(&mut nanos) {
                // Both stores get the same records.
                let own = random.clone();
                let without = self.turn(pair, pair.without, read, &mut own.clone())?;
                let with = self.turn(pair, pair.with, read, &mut own.clone())?;
                nanos.push([without, with]);
                random.next_u64();
            }
        }
        let live = pair
            .with
            .stats()
            .iter()
            .find(|figure| figure.name == LIVE)
            .map(|figure| figure.value);
        let (prefix, back) = self.delete_prefix(pair, directory)?;
        let [gets, scans] = nanos;
        Ok(json!({
            "store": pair.with.name(),
            "records": pair.dataset.records,
            "live": live,
            "delete_micros_p50": percentile(&deletes, 0.5),
            "delete_micros_p99": percentile(&deletes, 0.99),
            "get": of_turns(&gets),
            "scan": of_turns(&scans),
            "prefix_millis": prefix * 1e3,
            "back_seconds": back,
        }))
    }

    /// Reads for some time. Returns nanoseconds a read.
    fn turn(
        &self,
        pair: &Pair<'_>,
        store: &dyn Store,
        read: Read,
        random: &mut Random,
    ) -> Result<f64, Failure> {
        let started = Instant::now();
        let mut reads = 0;
        loop {
            for _ in 0..16 {
                let record = pair
                    .spread
                    .left_from(random.below(pair.dataset.records - 1));
                match read {
                    Read::Get => pair.get(store, record)?,
                    Read::Scan => pair.scan(store, record, self.scanned)?,
                }
                reads += 1;
            }
            let elapsed = started.elapsed().as_secs_f64();
            if elapsed >= self.seconds() {
                return Ok(elapsed * 1e9 / f64::from(reads));
            }
        }
    }

    /// Deletes nine tenths of the records by one call. Returns its seconds, and the seconds until
    /// the space is back.
    fn delete_prefix(
        &self,
        pair: &Pair<'_>,
        directory: &Path,
    ) -> Result<(f64, Option<f64>), Failure> {
        let before = disk_bytes(directory);
        let data_bytes = pair.dataset.data_bytes().min(before) as f64;
        let deleted = data_bytes * TENTHS_DELETED as f64 / 10.0;
        let first_kept = pair.dataset.records / 10 * TENTHS_DELETED;
        let started = Instant::now();
        pair.without.delete_range(&key_of(0), &key_of(first_kept))?;
        let took = started.elapsed().as_secs_f64();
        let returned = Instant::now();
        while returned.elapsed().as_secs_f64() < self.wait {
            let given_back = before as f64 - disk_bytes(directory) as f64;
            if given_back >= BACK * deleted {
                return Ok((took, Some(returned.elapsed().as_secs_f64())));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        Ok((took, None))
    }
}

impl Pair<'_> {
    /// Microseconds of each call, ascending.
    fn delete_ranges(&self) -> Result<Vec<f64>, Failure> {
        let mut micros = Vec::new();
        for number in 0..self.spread.count {
            let (first, behind) = self.spread.limits(number);
            let started = Instant::now();
            self.with.delete_range(&key_of(first), &key_of(behind))?;
            micros.push(started.elapsed().as_secs_f64() * 1e6);
        }
        micros.sort_by(f64::total_cmp);
        Ok(micros)
    }

    fn check_deleted(&self) -> Result<(), Failure> {
        for record in (0..self.spread.count).flat_map(|number| {
            let (first, behind) = self.spread.limits(number);
            first..behind
        }) {
            if self.with.get(&key_of(record), &mut |_| {})? {
                return Err(format!("record {record} is there after its deletion").into());
            }
        }
        Ok(())
    }

    fn get(&self, store: &dyn Store, record: u64) -> Result<(), Failure> {
        let mut fault = None;
        let values = &self.dataset.values;
        let mut check =
            |value: &[u8]| fault = values.check(record, value, Thoroughness::Spots).err();
        match store.get(&key_of(record), &mut check)? {
            false => Err(format!("record {record} is missing").into()),
            true => fault.map_or(Ok(()), |fault| {
                Err(format!("record {record}: {fault}").into())
            }),
        }
    }

    /// Each key must be the next one of the records that may be there.
    fn scan(&self, store: &dyn Store, record: u64, limit: usize) -> Result<(), Failure> {
        let (mut next, mut wrong) = (record, None);
        let deleted_are_gone = std::ptr::addr_eq(store, self.with);
        let lent = store.scan(&key_of(record), limit, &mut |key, _| {
            if deleted_are_gone {
                next = self.spread.left_from(next);
            }
            if record_of(key) != Some(next) {
                wrong = Some(next);
            }
            next += 1;
            wrong.is_none()
        })?;
        match wrong {
            Some(expected) => Err(format!("a scan from {record} passes over {expected}").into()),
            None if lent < limit && self.spread.left_from(next) < self.dataset.records => {
                Err(format!("a scan from {record} ends before {next}").into())
            }
            None => Ok(()),
        }
    }
}

fn percentile(ascending: &[f64], part: f64) -> f64 {
    let at = (ascending.len() as f64 * part) as usize;
    ascending[at.min(ascending.len() - 1)]
}

/// Medians of a kind of turn, without and with, and of their ratios.
fn of_turns(nanos: &[[f64; 2]]) -> Value {
    let of = |figure: &dyn Fn(&[f64; 2]) -> f64| median(nanos.iter().map(figure).collect());
    json!({
        "nanos_without": of(&|turn| turn[0]),
        "nanos_with": of(&|turn| turn[1]),
        "ratio": of(&|turn| turn[1] / turn[0]),
    })
}

impl Measure for Arguments {
    fn common(&self) -> &Common {
        &self.common
    }

    fn takes_part(&self, opener: &dyn Opener) -> bool {
        opener.has_range_deletions() && !opener.only_if_named()
    }

    fn settings(&self) -> Value {
        let dataset = self.dataset();
        json!({
            "data_bytes": dataset.data_bytes(),
            "value_bytes": self.value_bytes,
            "memory_bytes": self.memory_mib << 20,
            "tombstones": self.tombstones,
            "width": self.width,
            "scanned": self.scanned,
            "turns": self.turns,
            "seconds": self.seconds(),
            "durability": Durability::Process.name(),
            "seed": self.common.seed,
        })
    }

    fn measure(&self, turn: Turn<'_>) -> Result<Value, Failure> {
        let own = turn.directory.join(turn.round.to_string());
        let directories = [own.join("without"), own.join("with")];
        let mut stores = Vec::new();
        for directory in &directories {
            std::fs::create_dir_all(directory)?;
            stores.push(turn.opener.open(directory, &self.store_settings())?);
        }
        let dataset = self.dataset();
        let pair = Pair {
            without: &*stores[0],
            with: &*stores[1],
            spread: self.spread(&dataset)?,
            dataset,
        };
        let figures = self.round(&pair, &directories[0], turn.round)?;
        for store in stores {
            store.close()?;
        }
        std::fs::remove_dir_all(&own)?;
        Ok(figures)
    }

    fn report(&self, results: &[Measured]) -> String {
        let mut table = TextTable::new([
            "store",
            "live",
            "delete us",
            "p99 us",
            "get ns",
            "with",
            "ratio",
            "scan us",
            "with",
            "ratio",
            "prefix ms",
            "back s",
        ]);
        let stores = stores_of(results);
        for store in stores {
            let of = |pointer: &str| {
                let own = results.iter().filter(|one| one.store == store);
                let figures = own.filter_map(|one| one.figures.pointer(pointer)?.as_f64());
                median(figures.collect())
            };
            table.row([
                store.to_owned(),
                format!("{:.0}", of("/live")),
                format!("{:.1}", of("/delete_micros_p50")),
                format!("{:.1}", of("/delete_micros_p99")),
                format!("{:.0}", of("/get/nanos_without")),
                format!("{:.0}", of("/get/nanos_with")),
                format!("{:.3}", of("/get/ratio")),
                format!("{:.2}", of("/scan/nanos_without") / 1e3),
                format!("{:.2}", of("/scan/nanos_with") / 1e3),
                format!("{:.3}", of("/scan/ratio")),
                format!("{:.3}", of("/prefix_millis")),
                format!("{:.1}", of("/back_seconds")),
            ]);
        }
        table.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::tests::{measured, parsed};
    use crate::stores::evendb::EvenDbOpener;
    use crate::stores::memory::{Fault, MemoryStore};

    fn tiny(more: &[&str]) -> Arguments {
        let all = [
            "x",
            "--size-mib=1",
            "--tombstones=40",
            "--turns=2",
            "--seconds=0.01",
        ];
        parsed(all.iter().chain(more))
    }

    fn round(arguments: &Arguments, with: &dyn Store) -> Result<Value, Failure> {
        let dataset = arguments.dataset();
        let pair = Pair {
            without: &MemoryStore::new(),
            with,
            spread: arguments.spread(&dataset)?,
            dataset,
        };
        arguments.round(&pair, Path::new("/nowhere"), 0)
    }

    #[test]
    fn evendb_is_measured() {
        let arguments = tiny(&["--memory-mib=64", "--wait=0"]);
        let directory = tempfile::tempdir().unwrap();
        let measured = measured(&arguments, &EvenDbOpener, directory.path());
        let figures = &measured.figures;
        assert!(figures["live"].as_u64().is_some(), "{figures}");
        assert!(figures["get"]["ratio"].as_f64() > Some(0.0), "{figures}");
        let report = arguments.report(&[measured]);
        assert!(
            report
                .lines()
                .nth(1)
                .is_some_and(|row| row.starts_with("evendb")),
            "{report}"
        );
    }

    #[test]
    fn a_store_that_deletes_too_little_or_too_much_is_refused() {
        let arguments = tiny(&["--wait=0"]);
        round(&arguments, &MemoryStore::new()).unwrap();
        for (fault, expected) in [
            (Fault::ShortRange, "is there after its deletion"),
            (Fault::LongRange, "is missing"),
            (Fault::ScanGap, "passes over"),
        ] {
            let error = round(&arguments, &MemoryStore::with_fault(fault)).unwrap_err();
            // Chance decides which read sees the fault first.
            let (error, other) = (error.to_string(), "passes over");
            assert!(
                error.contains(expected) || error.contains(other),
                "{fault:?}: {error}"
            );
        }
    }

    #[test]
    fn range_deletions_are_spread_and_leave_most() {
        let spread = Spread {
            stride: 10,
            count: 3,
            width: 2,
        };
        let deleted: Vec<u64> = (0..60).filter(|&record| spread.has(record)).collect();
        assert_eq!(deleted, [5, 6, 15, 16, 25, 26]);
        let limits: Vec<u64> = (0..3)
            .flat_map(|number| spread.limits(number).0..spread.limits(number).1)
            .collect();
        assert_eq!(deleted, limits);
        assert_eq!(
            [4, 5, 6, 35].map(|record| spread.left_from(record)),
            [4, 7, 7, 35]
        );
        assert!(
            Arguments {
                tombstones: 1_000_000,
                ..tiny(&[])
            }
            .spread(&tiny(&[]).dataset())
            .is_err()
        );
    }
}
