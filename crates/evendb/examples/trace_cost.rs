//! What a trace costs: gets of records in RAM, by two threads, without a trace, with a sample of one key in a hundred, and with all; in turns.
//!
//! `cargo run --release -p evendb --example trace_cost -- [seconds of a turn] [turns]`. Prints the median of each, and what it costs against none.

use evendb::{Db, Options, TraceOptions};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const RECORDS: u64 = 200_000;
const THREADS: u64 = 2;

fn key(record: u64) -> [u8; 14] {
    let mut key = *b"user0000000000";
    let mut rest = record;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Gets a second.
fn turn(db: &Db, length: Duration) -> evendb::Result<f64> {
    let (stop, total) = (AtomicBool::new(false), AtomicU64::new(0));
    let started = Instant::now();
    thread::scope(|scope| -> evendb::Result<()> {
        let reader = |thread: u64| {
            let (stop, total) = (&stop, &total);
            move || -> evendb::Result<()> {
                let mut state = thread * 0x9e37_79b9 + 1;
                let mut done = 0;
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..256 {
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        // Of two draws the lower one: some keys are hotter than others.
                        let (one, other) = (state >> 33, state >> 13 & 0x7fff_ffff);
                        let record = one.min(other) % RECORDS;
                        black_box(db.get(key(record))?);
                    }
                    done += 256;
                }
                total.fetch_add(done, Ordering::Relaxed);
                Ok(())
            }
        };
        let readers: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(reader(thread)))
            .collect();
        thread::sleep(length);
        stop.store(true, Ordering::Relaxed);
        readers
            .into_iter()
            .try_for_each(|reader| reader.join().unwrap_or(Ok(())))
    })?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(total.load(Ordering::Relaxed) as f64 / seconds)
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: &str| arguments.next().unwrap_or(default.to_owned());
    let length = Duration::from_secs_f64(argument("1").parse()?);
    let turns: usize = argument("11").parse()?;
    let dir = tempfile::tempdir()?;
    let db = Options::new()
        .memory_budget(1 << 30)
        .open(dir.path().join("db"))?;
    for record in 0..RECORDS {
        db.put(key(record), [record as u8; 800])?;
    }
    db.settle_debt()?;
    for _ in 0..3 {
        turn(&db, length)?;
    }
    let samples = [None, Some(100), Some(1)];
    let mut rates = [Vec::new(), Vec::new(), Vec::new()];
    let (mut recorded, mut dropped) = ([0; 3], [0; 3]);
    for number in 0..turns {
        for at in 0..samples.len() {
            // Another one is first each time.
            let at = (at + number) % samples.len();
            let path = dir.path().join("trace");
            let options = |keys| TraceOptions::new(&path).one_key_in(keys);
            let trace = samples[at].map(|keys| db.start_trace(options(keys)));
            let trace = trace.transpose()?;
            rates[at].push(turn(&db, length)?);
            if let Some(trace) = trace {
                let summary = trace.stop()?;
                recorded[at] += summary.recorded;
                dropped[at] += summary.dropped_behind + summary.dropped_full;
                std::fs::remove_file(&path)?;
            }
        }
    }
    let medians = rates.map(median);
    for (at, name) in ["no trace", "one key in 100", "all"].iter().enumerate() {
        let cost = 100.0 * (1.0 - medians[at] / medians[0]);
        println!(
            "{name:<16}{:>12.0} gets/s{cost:>8.1} %{:>14} recorded{:>12} dropped",
            medians[at], recorded[at], dropped[at]
        );
    }
    Ok(())
}
