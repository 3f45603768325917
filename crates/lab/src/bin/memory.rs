//! How far the resident memory of a process goes above the database's budget.
#![expect(unsafe_code, reason = "asks the allocator")]
use evendb::{Db, Options};
use evendb_lab::dataset::Dataset;
use evendb_lab::distribution::{Distribution, DistributionKind, THETA_DEFAULT};
use evendb_lab::driver::{self, Limit, NoProgress, Phase, Worker};
use evendb_lab::mix::{LoadWorker, Mix, MixWorker, Population};
use evendb_lab::stores::evendb::EvenDbStore;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn status() -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    text.lines()
        .filter_map(|l| {
            let (name, rest) = l.split_once(':')?;
            let kib: u64 = rest.split_whitespace().next()?.parse().ok()?;
            Some((name.to_owned(), kib * 1024))
        })
        .collect()
}

#[repr(C)]
#[derive(Default, Debug, Clone, Copy)]
struct Mallinfo2 { arena: usize, ordblks: usize, smblks: usize, hblks: usize, hblkhd: usize, usmblks: usize, fsmblks: usize, uordblks: usize, fordblks: usize, keepcost: usize }
unsafe extern "C" { fn mallinfo2() -> Mallinfo2; fn malloc_trim(pad: usize) -> i32; }
fn heap() -> String {
    let i = unsafe { mallinfo2() };
    format!("heap {:.1} used {:.1} free {:.1} mmapped {:.1} top {:.1}", mib(i.arena as u64), mib(i.uordblks as u64), mib(i.fordblks as u64), mib(i.hblkhd as u64), mib(i.keepcost as u64))
}
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Watches the process while `work` runs.
fn watched<T>(name: &str, budget: u64, db: &Db, work: impl FnOnce() -> (T, String)) -> T {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let stop = AtomicBool::new(false);
    let (out, text, peak, at_peak, slack) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let (mut peak, mut at_peak, mut slack) = (0, String::new(), i64::MIN);
            let mut n = 0u64;
            while !stop.load(Ordering::Relaxed) {
                let now = status();
                let rss = now["VmRSS"];
                n += 1;
                if rss > peak + (1 << 18) || n % 50 == 0 {
                    let m = db.stats().memory;
                    slack = slack.max(rss as i64 - m.used() as i64);
                    if rss > peak {
                        at_peak = format!(
                            "{} | anon {:.1} file {:.1} shmem {:.1} | used {:.1}: {}",
                            heap(), mib(now["RssAnon"]), mib(now["RssFile"]), mib(now["RssShmem"]),
                            mib(m.used()),
                            format!("{m:?}").replace("MemoryStats", ""),
                        );
                    }
                }
                peak = peak.max(rss);
                std::thread::sleep(Duration::from_millis(10));
            }
            (peak, at_peak, slack)
        });
        let (out, text) = work();
        stop.store(true, Ordering::Relaxed);
        let (peak, at_peak, slack) = watcher.join().unwrap();
        (out, text, peak, at_peak, slack)
    });
    let peak = peak.max(status()["VmHWM"]);
    println!("           {}; rss {:.1}", heap(), mib(status()["VmRSS"]));
    if std::env::var("TRIM").is_ok() { let t = Instant::now(); unsafe { malloc_trim(0) }; println!("           trimmed in {:.1} ms to {:.1}", t.elapsed().as_secs_f64()*1e3, mib(status()["VmRSS"])); }
    println!(
        "{name:<10} peak {:8.1} MiB  minus budget {:7.1}  RSS-charged max {:6.1}  {text}\n           {at_peak}",
        mib(peak), mib(peak) - mib(budget), slack as f64 / f64::from(1 << 20),
    );
    out
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let arg = |name: &str, default: &str| -> String {
        args.iter()
            .position(|a| a == name)
            .map_or(default.to_owned(), |at| args[at + 1].clone())
    };
    let dir = PathBuf::from(arg("--dir", "/work/tmp-memory/db"));
    let budget: u64 = arg("--budget", "64").parse::<u64>().unwrap() << 20;
    let size: u64 = arg("--size", "4096").parse::<u64>().unwrap() << 20;
    let value: usize = arg("--value", "800").parse().unwrap();
    let seconds: u64 = arg("--seconds", "15").parse().unwrap();
    let threads: usize = arg("--threads", "4").parse().unwrap();
    let dist = match arg("--dist", "composite").as_str() {
        "simple" => DistributionKind::ZipfSimple,
        "uniform" => DistributionKind::Uniform,
        _ => DistributionKind::ZipfComposite,
    };
    let phases = arg("--phases", "load,P,A,C,E1000,snapshots,scan");
    std::fs::create_dir_all(&dir).unwrap();
    let dataset = Dataset::of_size(size, value, 1);
    let before = status();
    println!(
        "budget {} MiB, data {} MiB, {} records; process before opening: {:.1} MiB",
        budget >> 20, size >> 20, dataset.records, mib(before["VmRSS"])
    );
    let opened = Instant::now();
    let store = EvenDbStore::open(&dir, Options::new().memory_budget(budget), "").unwrap();
    println!("opened in {:.1} ms", opened.elapsed().as_secs_f64() * 1e3);
    let db = store.database();
    let interrupted = AtomicBool::new(false);
    let run = |name: &str, limit: Limit, threads: usize, of: &dyn Fn(usize) -> Box<dyn Worker>| {
        let phase = Phase {
            name: name.into(),
            distribution: String::new(),
            threads,
            limit,
            expected_operations: None,
            settle: false,
            course_interval: Duration::from_secs(1),
        };
        let cpu = evendb_lab::process::ProcessUsage::now().unwrap();
        let r = driver::run(&store, &phase, &interrupted, &NoProgress, of).unwrap();
        let used = evendb_lab::process::ProcessUsage::now().unwrap().since(&cpu);
        let s = db.stats();
        format!(
            "{:.1} kops, stall {:.0} ms, cpu user {:.1} sys {:.1}, chunks {} munks {} hit {:.3} loads {} evictions {}",
            r.operations as f64 / r.seconds / 1e3, r.longest_stall_seconds * 1e3, used.user_seconds, used.system_seconds,
            s.chunks, s.munks, s.ram_hit_rate(), s.munk_loads, s.munk_evictions
        )
    };
    let timed = Limit { operations: None, duration: Some(Duration::from_secs(seconds)) };
    let population = Arc::new(Population::new(dataset.records));
    for (number, name) in phases.split(',').enumerate() {
        match name {
            "load" => watched(name, budget, db, || {
                let population = Arc::new(Population::new(0));
                let text = run(name, Limit::default(), 1, &|_| {
                    Box::new(LoadWorker::new(dataset.clone(), population.clone()))
                });
                ((), text)
            }),
            "idle" => watched(name, budget, db, || {
                std::thread::sleep(Duration::from_secs(seconds));
                ((), String::new())
            }),
            "settle" => watched(name, budget, db, || {
                db.settle_debt().unwrap();
                ((), String::new())
            }),
            "scan" => watched(name, budget, db, || {
                let start = Instant::now();
                let mut cursor = db.cursor::<&[u8]>(..);
                let (mut n, mut bytes) = (0u64, 0u64);
                while let Some((k, v)) = cursor.next().unwrap() {
                    n += 1;
                    bytes += (k.len() + v.len()) as u64;
                }
                assert_eq!(n, dataset.records);
                ((), format!("{:.0} MB/s", bytes as f64 / 1e6 / start.elapsed().as_secs_f64()))
            }),
            "touch" => watched(name, budget, db, || {
                let start = Instant::now();
                let step = arg("--step", "40").parse::<u64>().unwrap();
                let mut n = 0;
                for record in (0..dataset.records).step_by(step as usize) {
                    assert!(db.get(evendb_lab::dataset::key_of(record)).unwrap().is_some());
                    n += 1;
                }
                ((), format!("{:.1} kops", n as f64 / 1e3 / start.elapsed().as_secs_f64()))
            }),
            "snapshots" => watched(name, budget, db, || {
                let distribution = Distribution::new(dist, dataset.records, THETA_DEFAULT, 1);
                let done = AtomicBool::new(false);
                let text = std::thread::scope(|scope| {
                    let holder = scope.spawn(|| {
                        let mut snapshots = Vec::new();
                        while !done.load(Ordering::Relaxed) {
                            if snapshots.len() < 100 {
                                snapshots.push(db.snapshot().unwrap());
                            }
                            std::thread::sleep(Duration::from_millis(seconds * 8));
                        }
                        let key = evendb_lab::dataset::key_of(dataset.records / 2);
                        for s in &snapshots {
                            assert!(s.get(db.default_keyspace(), key).unwrap().is_some());
                        }
                        snapshots.len()
                    });
                    let text = run(name, timed, threads, &|thread| {
                        Box::new(MixWorker::new(Mix::P, &distribution, &dataset, &population, 100 + number as u64, thread))
                    });
                    done.store(true, Ordering::Relaxed);
                    format!("{text}, {} snapshots", holder.join().unwrap())
                });
                ((), text)
            }),
            name => {
                let mix: Mix = name.parse().unwrap();
                let distribution = Distribution::new(dist, dataset.records, THETA_DEFAULT, 1);
                watched(name, budget, db, || {
                    let text = run(name, timed, threads, &|thread| {
                        Box::new(MixWorker::new(mix, &distribution, &dataset, &population, 10 + number as u64, thread))
                    });
                    ((), text)
                });
            }
        }
    }
    let closing = Instant::now();
    store.database().clone().close().unwrap();
    println!("closed in {:.1} s; open files {}", closing.elapsed().as_secs_f64(), std::fs::read_dir("/proc/self/fd").unwrap().count());
}
