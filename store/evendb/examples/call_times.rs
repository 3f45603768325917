//! How long each kind of call takes its thread: for programs that must know which calls may block.
//!
//! It loads records of 800 bytes into a new database, about four times the memory budget, makes
//! each kind of call many times, one thread after the other, and prints for each kind the median,
//! the 99th percentile and the longest time. Run it with `cargo run --release -p evendb --example
//! call_times -- [DIRECTORY] [MEMORY IN MIB]`. Without a directory it makes one in the system's
//! directory for temporary files, which may be in memory: name one on the disk that you want to
//! measure.

use evendb::{Db, Durability, Options, keys};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Bytes of a value.
const VALUE: usize = 800;
/// The number of calls of each kind that a service makes all the time.
const CALLS: u64 = 20_000;
/// The number of calls of each kind that waits for the disk.
const SYNCS: u64 = 500;
/// The number of calls of each kind that a service makes now and then.
const RARE: u64 = 20;

/// Times of one kind of call.
struct Times {
    name: &'static str,
    each: Vec<Duration>,
}

impl Times {
    fn of(
        name: &'static str,
        calls: u64,
        mut call: impl FnMut(u64) -> evendb::Result<()>,
    ) -> evendb::Result<Times> {
        let mut each = Vec::new();
        for number in 0..calls {
            let began = Instant::now();
            call(number)?;
            each.push(began.elapsed());
        }
        each.sort();
        Ok(Times { name, each })
    }

    fn print(&self) {
        let at = |part: f64| self.each[((self.each.len() - 1) as f64 * part) as usize];
        let [median, most, longest] = [0.5, 0.99, 1.0].map(|part| micros(at(part)));
        println!(
            "{:<44} {median:>10} {most:>10} {longest:>10} {:>8}",
            self.name,
            self.each.len()
        );
    }
}

fn micros(time: Duration) -> String {
    format!("{:.1}", time.as_nanos() as f64 / 1000.0)
}

fn key(number: u64) -> Vec<u8> {
    keys::key(&(number,))
}

/// The key of a different record for each number, in no order.
fn scattered(number: u64, records: u64) -> Vec<u8> {
    key(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % records)
}

fn load(db: &Db, records: u64) -> evendb::Result<()> {
    let value = [7; VALUE];
    for first in (0..records).step_by(1_000) {
        let mut batch = db.batch();
        for record in first..records.min(first + 1_000) {
            batch.put(db.default_keyspace(), key(record), value);
        }
        batch.commit()?;
    }
    db.settle_debt()
}

/// Calls that a service makes all the time.
fn all_the_time(db: &Db, records: u64) -> evendb::Result<Vec<Times>> {
    let value = [8; VALUE];
    let scan = |from: Vec<u8>| {
        db.range(from..)
            .take(100)
            .try_for_each(|item| item.map(drop))
    };
    let sync = |number| {
        let mut batch = db.batch();
        batch.put(db.default_keyspace(), scattered(number, records), value);
        batch.durability(Durability::Sync);
        batch.commit()
    };
    let transact = |number| {
        db.transact(|transaction| {
            let key = scattered(number, records);
            transaction.get(db.default_keyspace(), &key)?;
            transaction.put(db.default_keyspace(), key, value)
        })
    };
    Ok(vec![
        Times::of("get of a record in memory", CALLS, |number| {
            db.get(key(number % 100)).map(drop)
        })?,
        Times::of("get of any record", CALLS, |number| {
            db.get(scattered(number, records)).map(drop)
        })?,
        Times::of("scan of 100 records, anywhere", CALLS / 10, |number| {
            scan(scattered(number, records))
        })?,
        Times::of("put", CALLS, |number| {
            db.put(scattered(number, records), value)
        })?,
        Times::of("put at level sync", SYNCS, sync)?,
        Times::of("transact: a get and a put", CALLS / 10, transact)?,
        Times::of("snapshot", CALLS, |_| db.snapshot().map(drop))?,
        Times::of("delete_range of 100 records", SYNCS, |number| {
            let first = number * 100;
            db.delete_range(key(first)..key(first + 100))
        })?,
    ])
}

/// Calls that work on files until they return.
fn now_and_then(db: &Db, records: u64, backups: &Path) -> evendb::Result<Vec<Times>> {
    let names: Vec<String> = (0..RARE).map(|number| format!("k{number}")).collect();
    let dirty = |number: u64| {
        (0..1_000).try_for_each(|record| db.put(scattered(number * 1_000 + record, records), "x"))
    };
    Ok(vec![
        Times::of("keyspace, made", RARE, |number| {
            db.keyspace(&names[number as usize]).map(drop)
        })?,
        Times::of("drop_keyspace", RARE, |number| {
            db.drop_keyspace(&names[number as usize])
        })?,
        Times::of("1,000 puts, and persist", RARE, |number| {
            dirty(number)?;
            db.persist()
        })?,
        Times::of("1,000 puts, and flush", RARE, |number| {
            dirty(number)?;
            db.flush()
        })?,
        Times::of("settle_debt", 1, |_| db.settle_debt())?,
        Times::of("compact", 1, |_| db.compact().map(drop))?,
        Times::of("backup, the first", 1, |_| db.backup(backups).map(drop))?,
        Times::of("backup, the next", 3, |_| db.backup(backups).map(drop))?,
    ])
}

fn main() -> Result<(), Failure> {
    let named = std::env::args_os().nth(1).map(PathBuf::from);
    let memory: u64 = std::env::args()
        .nth(2)
        .map_or(Ok(64), |text| text.parse())?;
    let parent = named.unwrap_or_else(std::env::temp_dir);
    let directory = parent.join(format!("call-times-{}", std::process::id()));
    let backups = directory.with_extension("backups");
    let budget = memory << 20;
    let records = 4 * budget / VALUE as u64;
    let options = Options::new().memory_budget(budget);
    let db = options.clone().open(&directory)?;
    load(&db, records)?;
    println!(
        "{records} records of {VALUE} bytes, a memory budget of {memory} MiB, level process; microseconds\n{:<44} {:>10} {:>10} {:>10} {:>8}",
        "call", "median", "99 %", "longest", "calls"
    );
    for times in all_the_time(&db, records)? {
        times.print();
    }
    for times in now_and_then(&db, records, &backups)? {
        times.print();
    }
    let mut open = Some(db);
    let (mut closes, mut opens) = (Vec::new(), Vec::new());
    for number in 0..RARE {
        if let Some(db) = open.take() {
            db.put(scattered(number, records), "x")?;
            let began = Instant::now();
            db.close()?;
            closes.push(began.elapsed());
        }
        let began = Instant::now();
        open = Some(options.clone().open(&directory)?);
        opens.push(began.elapsed());
    }
    for (name, mut each) in [("close", closes), ("open", opens)] {
        each.sort();
        Times { name, each }.print();
    }
    drop(open);
    std::fs::remove_dir_all(&directory)?;
    std::fs::remove_dir_all(&backups)?;
    Ok(())
}
