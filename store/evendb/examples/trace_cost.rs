//! What a trace costs: gets of records in RAM, without a trace, with a sample of one key in a
//! hundred, and with all keys; in turns.
//!
//! `cargo run --release -p evendb --example trace_cost -- [seconds of a turn] [turns] [threads]
//! [what: none, sample, all]`. The default is 11 turns of a second by two threads, of all three. It
//! prints two medians: gets in a second, and the processor time of the process for a get (the
//! thread that writes the trace included). It also prints what the trace costs of each.

use evendb::{Db, Options, TraceOptions};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const RECORDS: u64 = 200_000;

fn key(record: u64) -> [u8; 14] {
    let mut key = *b"user0000000000";
    let mut rest = record;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// The processor time that the process has taken.
fn processor_nanos() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// Gets in a second, and nanoseconds of the processor for each.
fn turn(db: &Db, length: Duration, threads: u64) -> evendb::Result<(f64, f64)> {
    let (stop, total) = (AtomicBool::new(false), AtomicU64::new(0));
    let (started, processor) = (Instant::now(), processor_nanos());
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
                        // The lower of two draws: some keys are hotter than others.
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
        let readers: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(reader(thread)))
            .collect();
        thread::sleep(length);
        stop.store(true, Ordering::Relaxed);
        readers
            .into_iter()
            .try_for_each(|reader| reader.join().unwrap_or(Ok(())))
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let gets = total.load(Ordering::Relaxed) as f64;
    Ok((gets / seconds, (processor_nanos() - processor) / gets))
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// The names of the cases; the number is n if one key in n is recorded.
const WHAT: [(&str, Option<u64>); 3] = [("none", None), ("sample", Some(100)), ("all", Some(1))];

/// The results of the turns of one case.
#[derive(Default)]
struct Turns {
    rates: Vec<f64>,
    nanos: Vec<f64>,
    recorded: u64,
    dropped: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: &str| arguments.next().unwrap_or(default.to_owned());
    let length = Duration::from_secs_f64(argument("1").parse()?);
    let (count, threads): (usize, u64) = (argument("11").parse()?, argument("2").parse()?);
    let only = argument("");
    let dir = tempfile::tempdir()?;
    let db = Options::new()
        .memory_budget(1 << 30)
        .open(dir.path().join("db"))?;
    for record in 0..RECORDS {
        db.put(key(record), [record as u8; 800])?;
    }
    db.settle_debt()?;
    for _ in 0..3 {
        turn(&db, length, threads)?;
    }
    let asked = |what: &&(&str, Option<u64>)| only.is_empty() || what.0 == only;
    let samples: Vec<_> = WHAT.iter().filter(asked).collect();
    let mut turns: Vec<Turns> = samples.iter().map(|_| Turns::default()).collect();
    for number in 0..count {
        for at in 0..samples.len() {
            // Another case is first each time.
            let at = (at + number) % samples.len();
            let path = dir.path().join("trace");
            let options = |keys| TraceOptions::new(&path).one_key_in(keys);
            let trace = samples[at].1.map(|keys| db.start_trace(options(keys)));
            let trace = trace.transpose()?;
            let (rate, nanos) = turn(&db, length, threads)?;
            turns[at].rates.push(rate);
            turns[at].nanos.push(nanos);
            if let Some(trace) = trace {
                let summary = trace.stop()?;
                turns[at].recorded += summary.recorded;
                turns[at].dropped += summary.dropped_behind + summary.dropped_full;
                std::fs::remove_file(&path)?;
            }
        }
    }
    let mut first = None;
    for ((name, _), of) in samples.into_iter().zip(turns) {
        let (rate, nanos) = (median(of.rates), median(of.nanos));
        let (rate_before, nanos_before) = *first.get_or_insert((rate, nanos));
        println!(
            "{name:<8}{rate:>12.0} gets/s{:>7.1} %{nanos:>9.0} ns/get{:>+7.0} ns{:>14} recorded{:>12} dropped",
            100.0 * (1.0 - rate / rate_before),
            nanos - nanos_before,
            of.recorded,
            of.dropped
        );
    }
    Ok(())
}
