//! Experiment `ingest`: sorted records that come all at once, beside puts of the same records one
//! by one, and beside what the disk can do.
//!
//! ```text
//!   disk:    a file of that number of bytes, in pieces of 1 MiB, then fdatasync    | removed
//!   ingest:  an empty store takes all records at once | debt paid, synced | counted | removed
//!   puts:    an empty store takes them one by one     | debt paid, synced | counted | removed
//! ```
//! One thread hands the records out, in ascending order, in both ways. Afterwards all records are
//! read: a missing or changed record ends the experiment. Puts end after a time (`--seconds`) at
//! the latest, and then only the records that were put count.
//!
//! * **MB/s**: millions of bytes of keys and values divided by the time until all is on the disk:
//!   the call, paying the debt, and `fsync` of all files;
//! * **until the return**: divided by the time of the call, or by the time until the last put
//!   returned;
//! * **written**: bytes that the process sent to storage (`/proc/self/io`, less what was
//!   cancelled), divided by bytes of keys and values;
//! * **disk MB/s**: the rate of the disk's file, measured before in the same process;
//! * **of the disk**: MB/s divided by that;
//! * **/ best peer**: MB/s divided by that of the best store that is not EvenDB.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use serde_json::{Value, json};

use super::table::TextTable;
use super::{
    Common, Failure, Measure, Measured, Turn, beside_best_peer, median_of_cell, stores_of,
};
use crate::dataset::{Dataset, key_of, record_of};
use crate::driver::{self, Limit, NoProgress, Phase, Worker};
use crate::mix::{LoadWorker, Population};
use crate::opener::{Durability, Opener, Purpose, Settings};
use crate::process::ProcessUsage;
use crate::purposes::given;
use crate::random::Random;
use crate::store::Store;
use crate::value::Thoroughness;

/// The arguments of `experiment ingest`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// MiB of keys and values
    #[arg(long, default_value_t = 4096)]
    size_mib: u64,
    /// Bytes of a value
    #[arg(long, default_value_t = 800, value_parser = clap::value_parser!(u32).range(16..))]
    value_bytes: u32,
    /// MiB of memory for everything, the page cache included; the limit itself is set from outside
    #[arg(long, default_value_t = 1024)]
    memory_mib: u64,
    /// MiB of the file that measures the disk [default: as --mib]
    #[arg(long)]
    disk_mib: Option<u64>,
    /// The longest time of puts one by one in seconds, without their debt [default: 60, quick: 2]
    #[arg(long)]
    seconds: Option<f64>,
}

const WAYS: [&str; 2] = ["ingest", "puts"];
/// Bytes of a piece of the disk's file.
const PIECE_BYTES: usize = 1 << 20;
/// The figure that compares stores.
const RATE: &str = "mb_per_second";

/// Bytes a second of a file that is written from its beginning to its end, with a last `fdatasync`.
fn sequential_write_rate(directory: &Path, bytes: u64) -> io::Result<f64> {
    let path = directory.join("sequential-write");
    // The noise is longer than a piece, so that neighbours differ.
    let mut noise = vec![0; 2 * PIECE_BYTES];
    Random::new(0x5EED, bytes).fill(&mut noise);
    let mut file = File::create(&path)?;
    let started = Instant::now();
    let pieces = bytes.div_ceil(PIECE_BYTES as u64).max(1);
    for piece in 0..pieces {
        let from = (piece as usize * 4093) % PIECE_BYTES;
        file.write_all(&noise[from..from + PIECE_BYTES])?;
    }
    file.sync_data()?;
    let seconds = started.elapsed().as_secs_f64();
    fs::remove_file(&path)?;
    Ok((pieces * PIECE_BYTES as u64) as f64 / seconds)
}

/// Waits until all files below a directory are on the disk. A file that is removed meanwhile need
/// not be.
fn sync_files(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let synced = match entry.file_type()?.is_dir() {
            true => sync_files(&entry.path()),
            false => File::open(entry.path()).and_then(|file| file.sync_all()),
        };
        match synced {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}

/// Reads everything: the first `records` records must be there, and no other.
fn check_all(store: &dyn Store, dataset: &Dataset, records: u64) -> Result<(), Failure> {
    let (mut next, mut wrong) = (0, None);
    store.scan(&key_of(0), usize::MAX, &mut |key, value| {
        if record_of(key) != Some(next) {
            wrong = Some(format!("record {next} is missing"));
        } else if let Err(fault) = dataset.values.check(next, value, Thoroughness::Spots) {
            wrong = Some(format!("record {next}: {fault}"));
        }
        next += 1;
        wrong.is_none()
    })?;
    match wrong {
        Some(wrong) => Err(wrong.into()),
        None if next != records => Err(format!("{next} of {records} records are there").into()),
        None => Ok(()),
    }
}

impl Arguments {
    fn seconds(&self) -> f64 {
        let default = if self.common.quick { 2.0 } else { 60.0 };
        self.seconds.unwrap_or(default)
    }

    fn dataset(&self) -> Dataset {
        let mib = match self.common.quick {
            true => self.size_mib.min(32),
            false => self.size_mib,
        };
        Dataset::of_size(mib << 20, self.value_bytes as usize, self.common.seed)
    }

    fn disk_bytes(&self) -> u64 {
        let of_data = self.dataset().data_bytes();
        self.disk_mib.map_or(of_data, |mib| mib << 20)
    }

    /// Hands all records to an empty store. Returns how many it took.
    fn hand_over(&self, store: &dyn Store, dataset: &Dataset, way: &str) -> Result<u64, Failure> {
        if way == "ingest" {
            let mut next = 0;
            given(store, store.sorted_ingest(), "ingest")?.ingest(&mut |key, value| {
                if next == dataset.records {
                    return false;
                }
                key.clear();
                key.extend_from_slice(&key_of(next));
                dataset.values.fill(next, 0, value);
                next += 1;
                true
            })?;
            return Ok(next);
        }
        let population = Arc::new(Population::new(0));
        let worker = |_| -> Box<dyn Worker> {
            Box::new(LoadWorker::new(dataset.clone(), Arc::clone(&population)))
        };
        let phase = Phase {
            limit: Limit::seconds(self.seconds()),
            ..Phase::new("puts", 1)
        };
        let never = AtomicBool::new(false);
        let done = driver::run(store, &phase, &never, &NoProgress, &worker)?;
        Ok(done.operations)
    }

    /// Measures one way, with an empty store in `directory`.
    fn way(&self, store: &dyn Store, directory: &Path, way: &str) -> Result<Value, Failure> {
        let dataset = self.dataset();
        let before = ProcessUsage::now();
        let started = Instant::now();
        let records = self.hand_over(store, &dataset, way)?;
        let returned = started.elapsed().as_secs_f64();
        store.settle_debt()?;
        let settled = started.elapsed().as_secs_f64();
        sync_files(directory)?;
        let seconds = started.elapsed().as_secs_f64();
        let used = before.and_then(|before| Some(ProcessUsage::now()?.since(&before)));
        check_all(store, &dataset, records)?;
        let bytes = (records * dataset.record_bytes()) as f64;
        Ok(json!({
            "way": way,
            "records": records,
            "data_bytes": bytes,
            "seconds_until_return": returned,
            "settle_seconds": settled - returned,
            "sync_seconds": seconds - settled,
            RATE: bytes / seconds / 1e6,
            "mb_per_second_until_return": bytes / returned / 1e6,
            "records_per_second": records as f64 / seconds,
            "written_bytes": used.map(|used| used.stored_bytes()),
            "write_amplification_process": used.map(|used| used.stored_bytes() as f64 / bytes),
            "cpu_micros_per_record": used.map(|used| used.cpu_seconds() * 1e6 / records as f64),
        }))
    }
}

impl Measure for Arguments {
    fn common(&self) -> &Common {
        &self.common
    }

    fn takes_part(&self, opener: &dyn Opener) -> bool {
        opener.serves(Purpose::Ingest) && !opener.only_if_named()
    }

    fn settings(&self) -> Value {
        json!({
            "data_bytes": self.dataset().data_bytes(),
            "value_bytes": self.value_bytes,
            "memory_bytes": self.memory_mib << 20,
            "disk_bytes": self.disk_bytes(),
            "seconds": self.seconds(),
            "durability_of_puts": Durability::Process.name(),
            "seed": self.common.seed,
        })
    }

    fn measure(&self, turn: Turn<'_>) -> Result<Value, Failure> {
        let settings = Settings {
            memory_bytes: turn.opener.memory_within(self.memory_mib << 20),
            durability: Durability::Process,
        };
        let disk = sequential_write_rate(turn.directory, self.disk_bytes())?;
        let (mut ways, mut name) = (Vec::new(), String::new());
        for way in WAYS {
            let purpose = Some(Purpose::Ingest);
            let mut figures = turn.in_fresh_store_for(purpose, &settings, |store, directory| {
                name = store.name();
                self.way(store, directory, way)
            })?;
            figures["share_of_disk"] = figures[RATE].as_f64().map(|rate| rate * 1e6 / disk).into();
            ways.push(figures);
        }
        Ok(json!({ "store": name, "disk_mb_per_second": disk / 1e6, "ways": ways }))
    }

    fn report(&self, results: &[Measured]) -> String {
        let mut table = TextTable::new([
            "store",
            "way",
            "MB/s",
            "until the return",
            "krecord/s",
            "written",
            "disk MB/s",
            "of the disk",
            "CPU us",
            "/ best peer",
        ]);
        let stores = stores_of(results);
        for way in WAYS {
            let is_way = |figures: &Value| figures["way"] == way;
            let figure = |store: &str, name: &str| {
                median_of_cell(results, Some(store), "ways", is_way, name)
            };
            for store in &stores {
                let of = |name: &str| figure(store, name);
                let own = results.iter().filter(|one| one.store == *store);
                let disks = own.filter_map(|one| one.figures["disk_mb_per_second"].as_f64());
                table.row([
                    (*store).to_owned(),
                    way.to_owned(),
                    format!("{:.1}", of(RATE)),
                    format!("{:.1}", of("mb_per_second_until_return")),
                    format!("{:.1}", of("records_per_second") / 1e3),
                    format!("{:.3}", of("write_amplification_process")),
                    format!("{:.1}", super::table::median(disks.collect())),
                    format!("{:.2}", of("share_of_disk")),
                    format!("{:.2}", of("cpu_micros_per_record")),
                    beside_best_peer(&stores, store, |store| figure(store, RATE)),
                ]);
            }
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
        let all = ["ingest", "--size-mib=1", "--memory-mib=80"];
        parsed(all.iter().chain(more))
    }

    #[test]
    fn evendb_is_measured_in_both_ways() {
        let arguments = tiny(&[]);
        let directory = tempfile::tempdir().unwrap();
        let measured = measured(&arguments, &EvenDbOpener, directory.path());
        let figures = &measured.figures;
        let ways = figures["ways"].as_array().unwrap();
        let records = arguments.dataset().records;
        for (way, name) in ways.iter().zip(WAYS) {
            assert_eq!(
                (&way["way"], &way["records"]),
                (&json!(name), &json!(records))
            );
        }
        let left = fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(left, 0, "the disk's file and the stores are gone");
        let report = arguments.report(&[measured]);
        assert_eq!(report.lines().count(), 3);
        assert!(!report.contains("NaN"), "{report}");
    }

    #[test]
    fn puts_end_after_their_time_and_count_as_far_as_they_came() {
        let arguments = Arguments {
            size_mib: 64,
            ..tiny(&["--seconds=0.01"])
        };
        let directory = tempfile::tempdir().unwrap();
        let store = MemoryStore::new();
        let figures = arguments.way(&store, directory.path(), "puts").unwrap();
        assert_eq!(figures["records"], json!(store.len()));
        assert!((store.len() as u64) < arguments.dataset().records);
    }

    #[test]
    fn a_store_that_loses_a_record_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let ingest = |store: &dyn Store| tiny(&[]).way(store, directory.path(), "ingest");
        ingest(&MemoryStore::new()).unwrap();
        let wrong = MemoryStore::with_fault(Fault::LoseIngested);
        let error = ingest(&wrong).unwrap_err().to_string();
        assert_eq!(error, "record 99 is missing");
        let unable = crate::stores::put_only::PutOnlyStore(|| Ok(()));
        let error = ingest(&unable).unwrap_err().to_string();
        assert!(error.contains("put only has none"), "{error}");
    }
}
