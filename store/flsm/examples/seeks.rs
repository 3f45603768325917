//! Costs and gains of parallel seeks: scans of a database that nothing changes, with the option on
//! and off in turns.
//!
//! ```text
//! cargo run --release -p evendb-flsm --example seeks -- make DIR MIB settled|owing
//! cargo run --release -p evendb-flsm --example seeks -- measure DIR RECORDS [SECONDS [ROUNDS
//!     [MEMORY_MIB]]]
//! ```
//! `make` puts MIB MiB of pairs of 16 + 1,024 bytes in no order. Then it either pays all debt of
//! compaction or closes at once. `measure` scans RECORDS pairs from a random key, with one thread.
//! A round is a turn of SECONDS seconds with the option on and one with it off. Each turn opens the
//! database for reading only, so that nothing is compacted meanwhile, and first warms its cache up
//! for half of that time. It prints each turn and the medians: scans a second, and for each scan
//! the processor's time, system calls that read, and KiB that came from the disk (as /proc says for
//! the process, so only on Linux).
//!
//! Run it by scripts/with-memory-limit to have less memory than data. To have all data in the
//! system's cache, run it without a limit, after one pass over the files.

use evendb_flsm::{Db, Durability, Options, Result};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const VALUE_BYTES: usize = 1024;
const PAIR_BYTES: u64 = 16 + VALUE_BYTES as u64;
/// Determines the order of the pairs: a prime that is greater than their number.
const STEP: u64 = 2_654_435_761;
/// The kernel's unit of processor time, in the figures that processes can read.
const TICKS_A_SECOND: f64 = 100.0;

fn key(pair: u64) -> [u8; 16] {
    let mut key = *b"0000000000000000";
    let mut rest = pair;
    for digit in key.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// A small generator (xorshift).
struct Random(u64);

impl Random {
    /// Different numbers each time: a turn that scans the places of an earlier turn would find them
    /// in the system's cache.
    fn new() -> Random {
        Random(RandomState::new().hash_one(0) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn options(memory_mib: u64) -> Options {
    Options::new()
        .memory_budget(memory_mib << 20)
        .durability(Durability::Process)
}

fn make(dir: &str, mib: u64, is_settled: bool) -> Result<()> {
    let db = options(192).open(dir)?;
    let pairs = (mib << 20) / PAIR_BYTES;
    let mut random = Random::new();
    let mut value = [0; VALUE_BYTES];
    for number in 0..pairs {
        for eight in value.chunks_exact_mut(8) {
            eight.copy_from_slice(&random.next().to_le_bytes());
        }
        db.put(key(number * STEP % pairs), value)?;
    }
    if is_settled {
        db.settle_debt()?;
    }
    db.close()
}

/// The kernel's figures of the process.
#[derive(Clone, Copy, Default)]
struct Usage {
    processor: f64,
    reads: f64,
    disk_bytes: f64,
}

impl Usage {
    fn now() -> Usage {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // Behind the name, which may contain blanks: the state, then 10 other fields.
        let times = stat.rsplit(')').next().unwrap_or_default();
        let times = times.split_whitespace().skip(11).take(2);
        let ticks: f64 = times.filter_map(|time| time.parse::<f64>().ok()).sum();
        let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        let count = |name: &str| {
            let mut lines = io.lines();
            let count = lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
            count.unwrap_or_default()
        };
        Usage {
            processor: ticks / TICKS_A_SECOND,
            reads: count("syscr:"),
            disk_bytes: count("read_bytes:"),
        }
    }
}

/// Scans a second; for each scan microseconds of the processor, reads, KiB from the disk.
type Figures = [f64; 4];

/// The data and the duration of a turn.
struct Turn<'a> {
    dir: &'a str,
    records: usize,
    length: Duration,
    memory_mib: u64,
}

impl Turn<'_> {
    fn run(&self, parallel: bool) -> Result<Figures> {
        let options = options(self.memory_mib).read_only(true);
        let db = options
            .advanced(|advanced| advanced.parallel_seeks(parallel))
            .open(self.dir)?;
        let pairs = count_of(&db)?;
        let mut random = Random::new();
        self.scan(&db, pairs, &mut random, self.length / 2)?;
        let (started, before) = (Instant::now(), Usage::now());
        let scans = self.scan(&db, pairs, &mut random, self.length)? as f64;
        let (seconds, after) = (started.elapsed().as_secs_f64(), Usage::now());
        Ok([
            scans / seconds,
            (after.processor - before.processor) * 1e6 / scans,
            (after.reads - before.reads) / scans,
            (after.disk_bytes - before.disk_bytes) / 1024.0 / scans,
        ])
    }

    fn scan(&self, db: &Db, pairs: u64, random: &mut Random, length: Duration) -> Result<u64> {
        let until = Instant::now() + length;
        let mut scans = 0;
        while Instant::now() < until {
            let mut cursor = db.cursor(key(random.next() % pairs)..);
            for _ in 0..self.records {
                let Some(pair) = cursor.next()? else { break };
                black_box(pair);
            }
            scans += 1;
        }
        Ok(scans)
    }
}

/// The number of pairs: their keys are numbers without gaps.
fn count_of(db: &Db) -> Result<u64> {
    let last = db.iter().next_back().transpose()?;
    let last = last.and_then(|(key, _)| std::str::from_utf8(&key).ok()?.parse::<u64>().ok());
    Ok(last.map_or(1, |last| last + 1))
}

fn show(name: &str, [rate, processor, reads, disk_kib]: Figures) {
    println!(
        "{name:>4} {rate:>9.0} scans/s {processor:>8.1} us {reads:>6.2} reads {disk_kib:>7.1} KiB"
    );
}

fn median(turns: &[Figures], which: usize) -> f64 {
    let mut values: Vec<f64> = turns.iter().map(|figures| figures[which]).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn measure(turn: &Turn<'_>, rounds: u64) -> Result<()> {
    let mut turns = [Vec::new(), Vec::new()];
    let names = ["off", "on"];
    for round in 0..rounds {
        // The second turn finds the system's cache as the first one left it, so the two take turns
        // in being first.
        for at in [round % 2, (round + 1) % 2] {
            let figures = turn.run(at == 1)?;
            let at = at as usize;
            show(names[at], figures);
            turns[at].push(figures);
        }
    }
    println!("medians");
    for (name, turns) in names.iter().zip(&turns) {
        show(name, [0, 1, 2, 3].map(|which| median(turns, which)));
    }
    Ok(())
}

fn run(arguments: &[&str]) -> Option<Result<()>> {
    let number = |at: usize, default: u64| match arguments.get(at) {
        Some(text) => text.parse::<u64>().ok().filter(|&number| number > 0),
        None => Some(default),
    };
    Some(match *arguments {
        ["make", dir, mib, state @ ("settled" | "owing")] => {
            make(dir, mib.parse().ok()?, state == "settled")
        }
        ["measure", dir, records, ..] => {
            let turn = Turn {
                dir,
                records: records.parse().ok()?,
                length: Duration::from_secs(number(3, 4)?),
                memory_mib: number(5, 192)?,
            };
            measure(&turn, number(4, 4)?)
        }
        _ => return None,
    })
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        None => {
            eprintln!(
                "make DIR MIB settled|owing, or measure DIR RECORDS [SECONDS [ROUNDS [MEMORY_MIB]]]"
            );
            ExitCode::from(2)
        }
    }
}
