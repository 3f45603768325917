//! Many databases of one process under one budget: creates, fills and reads them, and prints what
//! the process takes.
//!
//! `cargo run --release -p evendb --example shared_budget -- DIRECTORY [DATABASES] [MIB] [RECORDS]`
//!
//! By default 1,000 databases share 256 MiB, and each gets 2,000 records of 400 bytes.

use evendb::{Db, SharedBudget, SharedOptions};
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

const VALUE_BYTES: usize = 400;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let place = arguments.next().ok_or("which directory?")?;
    let mut number = |default: u64| match arguments.next() {
        Some(given) => given.parse(),
        None => Ok(default),
    };
    let (databases, mib, records) = (number(1_000)?, number(256)?, number(2_000)?);
    let shared = SharedOptions::new(mib << 20)
        .databases(databases.min(64))
        .make()?;
    tell("before", &shared);

    let started = Instant::now();
    let open = |number| open(&shared, Path::new(&place), number);
    let all: Vec<Db> = (0..databases).map(open).collect::<Result<_, _>>()?;
    println!("opened {databases} databases in {:?}", started.elapsed());
    tell("opened", &shared);

    let started = Instant::now();
    for round in 0..4 {
        for db in &all {
            for record in (round..records).step_by(4) {
                db.put(key(record), [record as u8; VALUE_BYTES])?;
            }
        }
        tell("filling", &shared);
    }
    println!(
        "put {} records in {:?}",
        databases * records,
        started.elapsed()
    );

    let started = Instant::now();
    let mut most = 0;
    for round in 0..8 {
        for db in &all {
            for record in (round..records).step_by(8) {
                let value = db.get(key(record))?.ok_or("a record is lost")?;
                if value[..] != [record as u8; VALUE_BYTES] {
                    return Err("a value is wrong".into());
                }
            }
        }
        most = most.max(tell("reading", &shared));
    }
    println!(
        "got {} records in {:?}",
        databases * records,
        started.elapsed()
    );
    println!("resident at most {most} MiB while reading, of a budget of {mib} MiB");
    std::thread::sleep(Duration::from_secs(8));
    tell("left alone", &shared);

    let started = Instant::now();
    for db in all {
        db.close()?;
    }
    println!("closed in {:?}", started.elapsed());
    tell("closed", &shared);
    Ok(())
}

fn open(shared: &SharedBudget, place: &Path, number: u64) -> evendb::Result<Db> {
    shared.options().open(place.join(number.to_string()))
}

fn key(record: u64) -> [u8; 8] {
    record.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

/// Prints what the process takes, and returns its resident size in MiB.
fn tell(when: &str, shared: &SharedBudget) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let figure = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        let word = line.and_then(|line| line.split_whitespace().nth(1));
        word.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0)
    };
    let files = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let (resident, threads) = (figure("VmRSS:") >> 10, figure("Threads:"));
    let stats = shared.stats();
    println!(
        "{when:>12}: resident {resident} MiB (anonymous {}, of files {}), parts {} MiB, held {} MiB, \
         {threads} threads, {files} files, {} tables open",
        figure("RssAnon:") >> 10,
        figure("RssFile:") >> 10,
        stats.parts >> 20,
        stats.held >> 20,
        stats.open_files
    );
    resident
}
