//! The whole engine on one thread: put in all, the longest pause of a put, gets and scans from
//! munks, loading munks.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::time::Instant;

use evendb::bench_parts::load_munks;
use evendb::{Db, Options};

use super::memory::{get_round, scan_round};
use super::{PartRow, PartsError, PartsSettings, Reader, Target, median};
use crate::dataset::{Dataset, key_of};
use crate::process::ProcessUsage;
use crate::random::Random;

const VALUE_BYTES: usize = 800;

/// Measures the parts of this module that are wanted.
///
/// # Errors
/// The engine's own, and errors from reading files.
pub fn run(settings: &PartsSettings, report: &mut dyn FnMut(&PartRow)) -> Result<(), PartsError> {
    let puts = settings.wants(PUT_CPU) || settings.wants(PUT_PAUSE);
    let reads = settings.wants(GET) || settings.wants(SCAN);
    if !puts && !reads && !settings.wants(LOAD) {
        return Ok(());
    }
    let dataset = Dataset::of_size(settings.data_bytes, VALUE_BYTES, 1);
    let directory = settings.directory.join("engine");
    let options = || Options::new().memory_budget(settings.data_bytes * 3);
    let database = options().open(&directory)?;
    load(&database, &dataset)?;
    if reads {
        measure_reads(settings, &dataset, &database, report)?;
    }
    if puts {
        measure_puts(settings, &dataset, &database, report)?;
    }
    database.close()?;
    if settings.wants(LOAD) {
        measure_loads(
            settings,
            &directory,
            &options().advanced(|advanced| advanced.munks(false)),
            report,
        )?;
    }
    Ok(())
}

const PUT_CPU: &str = "put in all, 800 B, CPU of the process";
const PUT_PAUSE: &str = "longest pause of a put, 800 B";
const GET: &str = "get through the whole engine, 800 B";
const SCAN: &str = "scan of 1,000 through it, 800 B, touched";
const LOAD: &str = "chunk load, 800 B";

fn load(database: &Db, dataset: &Dataset) -> Result<(), PartsError> {
    let mut value = Vec::new();
    for record in 0..dataset.records {
        dataset.values.fill(record, 0, &mut value);
        database.put(key_of(record), &value)?;
    }
    Ok(database.settle_debt()?)
}

fn measure_reads(
    settings: &PartsSettings,
    dataset: &Dataset,
    database: &Db,
    report: &mut dyn FnMut(&PartRow),
) -> Result<(), PartsError> {
    let engine = Engine(database);
    // Munks load in the background after reads ask for them: read until gets come from RAM.
    for round in 0..20 {
        let before = database.stats().gets;
        get_round(settings, dataset, 1000 + round, &engine);
        let after = database.stats().gets;
        let ram = (after.munk + after.delta) - (before.munk + before.delta);
        if ram as f64 > 0.99 * settings.operations as f64 {
            break;
        }
    }
    let rounds = 0..settings.rounds;
    let gets = rounds
        .clone()
        .map(|round| get_round(settings, dataset, round, &engine));
    let gets = median(gets.collect());
    let scans = rounds.map(|round| scan_round(settings, dataset, round, &engine));
    let scans = median(scans.collect());
    let stats = database.stats();
    let share = stats.gets.munk as f64 / stats.gets.munk.max(1).max(total(&stats)) as f64;
    for (part, unit, figure) in [(GET, "ns", gets), (SCAN, "M/s", scans)] {
        report(&PartRow {
            part: part.to_owned(),
            unit,
            figure,
            beside: Vec::new(),
            target: Target::None,
        });
    }
    report(&PartRow {
        part: "  share of gets served by munks".to_owned(),
        unit: "%",
        figure: share * 100.0,
        beside: Vec::new(),
        target: Target::None,
    });
    Ok(())
}

fn total(stats: &evendb::Stats) -> u64 {
    let gets = &stats.gets;
    gets.munk + gets.delta + gets.row_cache + gets.log + gets.sstable + gets.absent
}

/// Uniform overwrites: every chunk is checkpointed and rebalanced in turn.
fn measure_puts(
    settings: &PartsSettings,
    dataset: &Dataset,
    database: &Db,
    report: &mut dyn FnMut(&PartRow),
) -> Result<(), PartsError> {
    let mut value = Vec::new();
    dataset.values.fill(0, 0, &mut value);
    let (mut running, mut settled) = (Vec::new(), Vec::new());
    let mut pauses: Vec<f64> = Vec::new();
    let mut longest = Vec::new();
    for round in 0..settings.rounds {
        let mut random = Random::new(4, round as u64);
        let before = ProcessUsage::now();
        pauses.clear();
        for _ in 0..settings.operations {
            let key = key_of(random.below(dataset.records));
            let started = Instant::now();
            database.put(key, &value)?;
            pauses.push(started.elapsed().as_secs_f64() * 1e3);
        }
        let after = ProcessUsage::now();
        database.settle_debt()?;
        let end = ProcessUsage::now();
        running.push(cpu_nanos(before, after, settings.operations));
        settled.push(cpu_nanos(before, end, settings.operations));
        longest.push(pauses.iter().copied().fold(0.0, f64::max));
    }
    pauses.sort_by(f64::total_cmp);
    let late = pauses[(pauses.len() * 9999 / 10_000).min(pauses.len() - 1)];
    let rows = [
        (PUT_CPU, "ns", median(running), Target::AtMost(2000.0)),
        (
            "  the same, debt settled and charged",
            "ns",
            median(settled),
            Target::None,
        ),
        (PUT_PAUSE, "ms", median(longest), Target::AtMost(5.0)),
        ("  99.99 % of puts within", "ms", late, Target::None),
        (
            "  longest that the engine made a put wait",
            "ms",
            database.stats().put_pause_nanos_max as f64 / 1e6,
            Target::None,
        ),
    ];
    for (part, unit, figure, target) in rows {
        report(&PartRow {
            part: part.to_owned(),
            unit,
            figure,
            beside: Vec::new(),
            target,
        });
    }
    Ok(())
}

fn cpu_nanos(before: Option<ProcessUsage>, after: Option<ProcessUsage>, count: u64) -> f64 {
    match (before, after) {
        (Some(before), Some(after)) => after.since(&before).cpu_seconds() * 1e9 / count as f64,
        _ => f64::NAN,
    }
}

/// Loads all munks of a database that was just opened, with an empty page cache. The yardstick
/// reads the same files from end to end.
fn measure_loads(
    settings: &PartsSettings,
    directory: &Path,
    options: &Options,
    report: &mut dyn FnMut(&PartRow),
) -> Result<(), PartsError> {
    let (mut loads, mut reads) = (Vec::new(), Vec::new());
    for _ in 0..settings.rounds {
        forget_files(directory)?;
        let database = options.clone().open(directory)?;
        let loaded = load_munks(&database)?;
        loads.push(loaded.table_bytes as f64 / loaded.elapsed.as_secs_f64() / 1e6);
        database.close()?;
        forget_files(directory)?;
        reads.push(read_files(directory)?);
    }
    report(&PartRow {
        part: LOAD.to_owned(),
        unit: "MB/s",
        figure: median(loads),
        beside: vec![("file".to_owned(), median(reads))],
        target: Target::ShareOf("file", 1.0),
    });
    Ok(())
}

/// Drops the directory's files from the page cache.
fn forget_files(directory: &Path) -> Result<(), PartsError> {
    for file in files(directory)? {
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}

/// Megabytes a second of reading the directory's files.
fn read_files(directory: &Path) -> Result<f64, PartsError> {
    let mut buffer = vec![0; 256 << 10];
    let (mut bytes, started) = (0, Instant::now());
    for mut file in files(directory)? {
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                count => bytes += count,
            }
        }
    }
    Ok(bytes as f64 / started.elapsed().as_secs_f64() / 1e6)
}

fn files(directory: &Path) -> Result<Vec<File>, PartsError> {
    let (mut found, mut folders) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                found.push(File::open(entry.path())?);
            }
        }
    }
    Ok(found)
}

struct Engine<'a>(&'a Db);

impl Reader for Engine<'_> {
    fn get(&self, key: &[u8], each: &mut dyn FnMut(&[u8])) -> bool {
        match self.0.get(key) {
            Ok(Some(value)) => {
                each(&value);
                true
            }
            _ => false,
        }
    }

    fn scan(&self, from: &[u8], limit: usize, each: &mut dyn FnMut(&[u8], &[u8])) -> usize {
        let mut cursor = self.0.cursor(from..);
        let mut lent = 0;
        while lent < limit {
            let Ok(Some((key, value))) = cursor.next() else {
                break;
            };
            each(key, value);
            lent += 1;
        }
        lent
    }
}
