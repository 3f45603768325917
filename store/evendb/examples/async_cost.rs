//! What the calls that return futures cost beside the blocking ones.
//!
//! ```text
//! cargo run --release -p evendb --example async_cost -- DIRECTORY
//! cargo run --release -p evendb --example async_cost -- DIRECTORY 1024        fills 1 GiB
//! scripts/with-memory-limit 256M target/release/examples/async_cost DIRECTORY 1024      reads it
//! ```
//! Three rows: gets from RAM, by `get` and by `get_async`; commits of one record at level sync, by
//! 64 blocked threads and by 1,000 tasks on two threads; gets of records that have to be read, by 16
//! blocked threads and by 10,000 futures on one thread. Medians of rounds that take turns, so that
//! other load falls on both.
//!
//! The third row reads from the page cache, so it shows what a hand-over to the readers costs. With a
//! number of MiB the first run fills that many, and each later run prints the third row alone: it
//! takes the files out of the page cache first (Linux), and within a limit of memory those gets read
//! from the disk.
#![expect(
    clippy::unwrap_used,
    reason = "an example may end at the first surprise"
)]
#![expect(clippy::disallowed_types, reason = "no model runs this")]
#![expect(clippy::big_endian_bytes, reason = "numbers are keys here")]

use evendb::{Db, Durability, Options};
use std::collections::VecDeque;
use std::future::Future;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

const ROUNDS: usize = 9;
const RECORDS: u32 = 50_000;
const GETS: u32 = 200_000;
const COMMITS_EACH: usize = 8;

/// Numbers as keys of a database with this number of records, scattered over all of them.
fn scattered(records: u32) -> impl Fn(u32) -> [u8; 8] + Copy + Send {
    move |number| u64::from(number.wrapping_mul(2_654_435_761) % records).to_be_bytes()
}

fn key(number: u32) -> [u8; 8] {
    scattered(RECORDS)(number)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Alternates two ways of doing the same; returns the median time of each.
fn beside(mut one: impl FnMut(), mut other: impl FnMut()) -> (Duration, Duration) {
    let timed = |run: &mut dyn FnMut()| {
        let begun = Instant::now();
        run();
        begun.elapsed()
    };
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ones.push(timed(&mut one));
        others.push(timed(&mut other));
    }
    (median(ones), median(others))
}

/// A queue of tasks that were woken, for the threads of one executor. As in executors that programs
/// use, a task that is woken wakes a thread only if one sleeps and none is on its way.
#[derive(Default)]
struct Executor {
    woken: Mutex<Woken>,
    came: Condvar,
}

#[derive(Default)]
struct Woken {
    tasks: VecDeque<Arc<Task>>,
    /// Tasks that are not done.
    left: usize,
    /// Threads that sleep; of them, those that were notified.
    sleeping: usize,
    notified: usize,
}

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Task {
    future: Mutex<Option<Boxed>>,
    executor: Arc<Executor>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let executor = self.executor.clone();
        let mut woken = executor.woken.lock().unwrap();
        woken.tasks.push_back(self);
        let notifies = woken.sleeping > 0 && woken.notified == 0;
        woken.notified += usize::from(notifies);
        drop(woken);
        if notifies {
            executor.came.notify_one();
        }
    }
}

impl Executor {
    /// Waits for a task to poll; `None` when all are done.
    fn next(&self) -> Option<Arc<Task>> {
        let mut woken = self.woken.lock().unwrap();
        while woken.left > 0 {
            if let Some(task) = woken.tasks.pop_front() {
                // One thread wakes the next, while there is more to do.
                let notifies = woken.sleeping > 0 && woken.notified == 0 && !woken.tasks.is_empty();
                woken.notified += usize::from(notifies);
                drop(woken);
                if notifies {
                    self.came.notify_one();
                }
                return Some(task);
            }
            woken.sleeping += 1;
            woken = self.came.wait(woken).unwrap();
            woken.sleeping -= 1;
            woken.notified = woken.notified.saturating_sub(1);
        }
        None
    }

    fn run(&self) {
        while let Some(task) = self.next() {
            let waker = Waker::from(task.clone());
            let mut future = task.future.lock().unwrap();
            let Some(own) = &mut *future else { continue };
            let polled = own.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_ready() {
                *future = None;
                let mut woken = self.woken.lock().unwrap();
                woken.left -= 1;
                if woken.left == 0 {
                    self.came.notify_all();
                }
            }
        }
    }
}

/// Runs tasks on a number of threads, until all are done.
fn run_tasks(threads: usize, futures: Vec<Boxed>) {
    let executor = Arc::new(Executor::default());
    executor.woken.lock().unwrap().left = futures.len();
    for future in futures {
        let task = Arc::new(Task {
            future: Mutex::new(Some(future)),
            executor: executor.clone(),
        });
        task.wake();
    }
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| executor.run());
        }
    });
}

fn gets_from_ram(db: &Db) {
    let blocking = || {
        for number in 0..GETS {
            assert!(db.get(key(number)).unwrap().is_some());
        }
    };
    let futures = || {
        let mut context = Context::from_waker(Waker::noop());
        for number in 0..GETS {
            let get = pin!(db.get_async(key(number)));
            let Poll::Ready(found) = get.poll(&mut context) else {
                panic!("it is in RAM");
            };
            assert!(found.unwrap().is_some());
        }
    };
    let (get, get_async) = beside(blocking, futures);
    let nanos = |time: Duration| time.as_nanos() as f64 / f64::from(GETS);
    println!(
        "get from RAM: get {:.0} ns, get_async {:.0} ns, {:+.1} %",
        nanos(get),
        nanos(get_async),
        (nanos(get_async) / nanos(get) - 1.0) * 100.0
    );
}

fn commits(db: &Db) {
    let commit = |db: &Db, number: usize| {
        let mut batch = db.batch();
        batch.put(db.default_keyspace(), format!("c{number}"), [1; 100]);
        batch.durability(Durability::Sync);
        batch
    };
    let all = 1000 * COMMITS_EACH;
    let blocking = || {
        thread::scope(|scope| {
            for thread in 0..64 {
                scope.spawn(move || {
                    for number in 0..all / 64 {
                        commit(db, thread * all + number).commit().unwrap();
                    }
                });
            }
        });
    };
    let tasks = || {
        let task = |task: usize| -> Boxed {
            let db = db.clone();
            Box::pin(async move {
                for number in 0..COMMITS_EACH {
                    let batch = commit(&db, task * all + number);
                    batch.commit_async().await.unwrap();
                }
            })
        };
        run_tasks(2, (0..1000).map(task).collect());
    };
    let (blocked, tasks) = beside(blocking, tasks);
    let rate = |time: Duration| all as f64 / time.as_secs_f64();
    println!(
        "commits at level sync: 64 threads {:.0}/s, 1,000 tasks on 2 threads {:.0}/s, {:.2} times",
        rate(blocked),
        rate(tasks),
        rate(tasks) / rate(blocked)
    );
}

/// Gets of 10,000 keys; each round asks for others.
fn reads(db: &Db, key: impl Fn(u32) -> [u8; 8] + Copy + Send) {
    let count = 10_000u32;
    let round = AtomicU32::new(0);
    let begin = || round.fetch_add(count, Ordering::Relaxed);
    let blocking = || {
        let first = begin();
        thread::scope(|scope| {
            for thread in 0..16u32 {
                scope.spawn(move || {
                    for number in 0..count / 16 {
                        let found = db.get(key(first + thread * (count / 16) + number));
                        assert!(found.unwrap().is_some());
                    }
                });
            }
        });
    };
    let futures = || {
        let first = begin();
        let get = |number| -> Boxed {
            let (db, key) = (db.clone(), key(first + number));
            Box::pin(async move {
                let found = db.get_async(key).await;
                assert!(found.unwrap().is_some());
            })
        };
        run_tasks(1, (0..count).map(get).collect());
    };
    let (blocked, futures) = beside(blocking, futures);
    let rate = |time: Duration| f64::from(count) / time.as_secs_f64();
    println!(
        "gets that read: 16 threads {:.0}/s, 10,000 tasks on 1 thread {:.0}/s, {:.2} times",
        rate(blocked),
        rate(futures),
        rate(futures) / rate(blocked)
    );
}

/// Options at level process.
fn options() -> Options {
    Options::new().durability(Durability::Process)
}

/// Puts this number of records with values of `bytes` bytes.
fn fill(db: &Db, records: u32, bytes: usize) {
    for number in 0..records {
        db.put(u64::from(number).to_be_bytes(), vec![7; bytes])
            .unwrap();
    }
}

/// Takes the files out of the page cache. What another process has read or written there counts
/// for no limit of this one, and would be found without the disk.
#[cfg(target_os = "linux")]
fn forget_pages(directory: &Path) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let file = std::fs::File::open(entry.unwrap().path()).unwrap();
        file.sync_data().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
}

#[cfg(not(target_os = "linux"))]
fn forget_pages(_: &Path) {}

/// The third row with more data than memory, if the database is there; otherwise it is filled.
fn beyond_memory(directory: &Path, mib: u32) {
    let records = mib << 10;
    let is_there = directory.exists();
    if is_there {
        forget_pages(directory);
    }
    let db = options().memory_budget(64 << 20).open(directory).unwrap();
    if is_there {
        reads(&db, scattered(records));
    } else {
        fill(&db, records, 1000);
        println!("filled {mib} MiB: run again, within a limit of memory");
    }
    db.close().unwrap();
}

fn main() {
    let directory = std::env::args().nth(1).expect("a directory");
    let directory = Path::new(&directory);
    if let Some(mib) = std::env::args().nth(2) {
        let mib = mib.parse().expect("a number of MiB");
        return beyond_memory(&directory.join(format!("async_cost-{mib}")), mib);
    }
    let directory = directory.join("async_cost");
    if !directory.exists() {
        let db = options().open(&directory).unwrap();
        fill(&db, RECORDS, 200);
        db.close().unwrap();
    }
    let db = options().open(&directory).unwrap();
    for record in db.iter() {
        // So that records come into RAM.
        record.unwrap();
    }
    fill(&db, RECORDS, 200);
    gets_from_ram(&db);
    commits(&db);
    db.close().unwrap();
    let nothing_in_ram = options().advanced(|advanced| {
        let advanced = advanced.munks(false).row_cache(false);
        advanced.warm_reopening(false)
    });
    let db = nothing_in_ram.open(&directory).unwrap();
    reads(&db, key);
    db.close().unwrap();
}
