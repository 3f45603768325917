//! [`Campaign`]: lives in order in this process, with a look at the standard
//! database between any two.
//!
//! Life `n` of a seed does not depend on earlier lives, so a fault is replayed by the seed and the
//! number of its life.

use crate::covering::{Row, rows};
use crate::judge::{judge, table};
use crate::life::{Life, OPENINGS, Site, Size, clear};
use crate::process::{open_paths, processor_millis};
use crate::standard::{Rest, Sample, look};
use crate::store::Store;
use crate::tally::Tally;
use crate::time::Clock;
use crate::watchdog::Watchdog;
use clap::ValueEnum;
use evendb_powercut::draw::Draw;
use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A campaign ends after this number of faults.
const FAULTS_MAX: usize = 5;
/// The number of lives between two times at which an idle database is watched for some seconds.
const WATCH_EVERY: u64 = 10;
/// How often the table is printed.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// Bytes that are leaked for each life, if that is planted.
const LEAK_BYTES: usize = 3 << 20;

/// When a campaign ends.
#[derive(Clone, Copy, Debug)]
pub enum Budget {
    /// After this number of lives.
    Lives(u64),
    /// After this time.
    Time(Duration),
    /// When the process has taken this many further milliseconds of processor time.
    Processor(u64),
}

/// A fault that must be found: tests plant it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Plant {
    /// Memory, with each life.
    Memory,
    /// A descriptor, with each life.
    Descriptor,
    /// A thread, with each life.
    Thread,
    /// A file in the directory of the standard database, with each life.
    Disk,
    /// Writes that are acknowledged, and not made.
    Write,
    /// A life that does not end.
    Hang,
}

/// What a campaign does.
pub struct Campaign {
    /// The place.
    pub site: Site,
    /// The seed of all choices.
    pub seed: u64,
    /// The first life.
    pub first: u64,
    /// When it ends.
    pub budget: Budget,
    /// How much work a life does.
    pub size: Size,
    /// The longest time of a life, and of a look between two of them.
    pub patience: Duration,
    /// The planted fault.
    pub plant: Option<Plant>,
    /// The directory for a copy of each database that showed a fault.
    pub keep: Option<PathBuf>,
    /// Set when it must end.
    pub interrupted: Arc<AtomicBool>,
}

/// Rows of options: covering arrays in order, each differs from the one before.
struct Rows {
    sizes: Vec<usize>,
    seed: u64,
    arrays: u64,
    rows: VecDeque<Row>,
    /// The life to which the first rows belong.
    life: u64,
}

impl Rows {
    fn new(sizes: Vec<usize>, seed: u64) -> Rows {
        Rows {
            sizes,
            seed,
            arrays: 0,
            rows: VecDeque::new(),
            life: 0,
        }
    }

    /// The rows of a life. Lives must be asked for in order.
    fn of_life(&mut self, life: u64) -> Vec<Row> {
        loop {
            while (self.rows.len() as u64) < OPENINGS {
                let array = rows(&self.sizes, self.seed ^ (self.arrays << 32));
                self.rows.extend(array);
                self.arrays += 1;
            }
            let own = self.rows.drain(..OPENINGS as usize).collect();
            self.life += 1;
            if self.life > life {
                return own;
            }
        }
    }
}

fn seed_of(seed: u64, life: u64) -> u64 {
    Draw::new(Draw::new(seed).number() ^ life).number()
}

/// When a campaign began.
struct Began {
    at: Instant,
    /// The processor time of the process, in milliseconds.
    processor: u64,
}

impl Began {
    fn now() -> Result<Began, String> {
        Ok(Began {
            at: Instant::now(),
            processor: processor_millis().map_err(|error| error.to_string())?,
        })
    }

    /// Milliseconds of processor time since then.
    fn spent(&self) -> u64 {
        processor_millis().map_or(0, |now| now - self.processor)
    }
}

impl Campaign {
    fn is_over(&self, lives: u64, began: &Began) -> bool {
        let spent = || {
            processor_millis()
                .unwrap_or(u64::MAX)
                .saturating_sub(began.processor)
        };
        self.interrupted.load(Ordering::Relaxed)
            || match self.budget {
                Budget::Lives(number) => lives >= number,
                Budget::Time(time) => began.at.elapsed() >= time,
                Budget::Processor(millis) => spent() >= millis,
            }
    }

    /// Runs it, and prints the outcome. Returns whether nothing went wrong.
    ///
    /// # Errors
    /// If the rig itself fails.
    pub fn run(&self) -> Result<bool, String> {
        let mut rows = Rows::new(Store::sizes(), self.seed);
        let mut tally = Tally::new(&rows.sizes);
        let mut seen = Seen::default();
        let clock = Arc::new(Clock::default());
        let watchdog = Watchdog::new(self.patience);
        let began = Began::now()?;
        let mut told = began.at;
        let mut lives = 0;
        while !self.is_over(lives, &began) && seen.faults.len() < FAULTS_MAX {
            let life = self.first + lives;
            let place = format!("--seed {} --first-life {life} --lives 1", self.seed);
            watchdog.begin(format!("{place}: the look before it"));
            seen.look(self, &clock, life, lives % WATCH_EVERY == 0)?;
            watchdog.begin(place.clone());
            match self.live(life, &rows.of_life(life), &mut tally) {
                Ok(()) => tally.lives += 1,
                Err(what) => {
                    let what = format!("{place}: {what}");
                    println!("FAULT {what}");
                    seen.faults.push(what);
                    self.clear(life)?;
                }
            }
            self.plant(&mut seen)?;
            lives += 1;
            if told.elapsed() >= TELL_EVERY {
                told = Instant::now();
                println!("{}", tally.row(began.spent(), seen.faults.len()));
            }
        }
        watchdog.begin("the last look".to_owned());
        seen.look(self, &clock, self.first + lives, true)?;
        drop(watchdog);
        let is_flat = self.tell_outcome(&seen, &tally, &began);
        Store::destroy(&self.standard()).map_err(|error| error.to_string())?;
        Ok(seen.faults.is_empty() && is_flat)
    }

    /// Lives one life. The error is what was wrong in it.
    fn live(&self, life: u64, rows: &[Row], tally: &mut Tally) -> Result<(), String> {
        let (seed, loses) = (seed_of(self.seed, life), self.plant == Some(Plant::Write));
        while self.plant == Some(Plant::Hang) {
            std::thread::park();
        }
        Life::new(&self.site, self.size, seed, loses).live(life, rows, tally)
    }

    /// Prints what came out, and judges the samples. Returns whether nothing has grown.
    fn tell_outcome(&self, seen: &Seen, tally: &Tally, began: &Began) -> bool {
        let findings = judge(&seen.samples, &seen.rests);
        println!("\n{}", Tally::HEADS);
        println!("{}\n", tally.row(began.spent(), seen.faults.len()));
        println!("calls: {}\n", tally.calls_in_words());
        println!("{}", table(&seen.samples));
        println!("rests: {:?}", seen.rests);
        for finding in &findings {
            println!("NOT FLAT: {finding}");
        }
        println!(
            "seed {} from life {}: {:.0} s, {} faults, {} findings of growth",
            self.seed,
            self.first,
            began.at.elapsed().as_secs_f64(),
            seen.faults.len(),
            findings.len()
        );
        findings.is_empty()
    }

    fn standard(&self) -> PathBuf {
        self.site.dir.join("standard")
    }

    /// Makes room for the next life after a fault.
    fn clear(&self, life: u64) -> Result<(), String> {
        if let Some(room) = &self.site.room {
            room.give_back()?;
        }
        for name in ["life", "next", "backups"] {
            let dir = self.site.dir.join(name);
            if let Some(keep) = self.keep.as_ref().filter(|_| dir.exists()) {
                let to = keep.join(format!("{life}-{name}"));
                crate::ends::copy_all(&dir, &to).map_err(|error| error.to_string())?;
            }
            clear(&dir).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Leaks, if that is planted.
    fn plant(&self, seen: &mut Seen) -> Result<(), String> {
        match self.plant {
            None | Some(Plant::Write | Plant::Hang) => {}
            Some(Plant::Memory) => seen.leaked.push(vec![1; LEAK_BYTES]),
            Some(Plant::Descriptor) => {
                let file = File::open("/proc/self/stat");
                seen.open.push(file.map_err(|error| error.to_string())?);
            }
            Some(Plant::Thread) => {
                std::thread::spawn(|| {
                    loop {
                        std::thread::park();
                    }
                });
            }
            Some(Plant::Disk) => {
                let path = self
                    .standard()
                    .join(format!(".planted-{}", seen.samples.len()));
                let written = std::fs::write(path, vec![1; LEAK_BYTES]);
                written.map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }
}

/// What was seen between lives.
#[derive(Default)]
struct Seen {
    samples: Vec<Sample>,
    rests: Vec<Rest>,
    faults: Vec<String>,
    leaked: Vec<Vec<u8>>,
    open: Vec<File>,
    /// The descriptors that were open before the first life.
    at_first: Option<Vec<String>>,
    has_told: bool,
}

impl Seen {
    /// No descriptor may be open when no database is. Prints the first ones that stay.
    fn tell_open(&mut self) {
        let now = open_paths().unwrap_or_default();
        match &self.at_first {
            None => self.at_first = Some(now),
            Some(first) if !self.has_told && now.len() > first.len() => {
                self.has_told = true;
                let new: Vec<&String> = now.iter().filter(|path| !first.contains(path)).collect();
                println!("{} descriptors stay, with nothing open: {new:?}", new.len());
            }
            Some(_) => {}
        }
    }

    fn look(
        &mut self,
        campaign: &Campaign,
        clock: &Arc<Clock>,
        round: u64,
        watch: bool,
    ) -> Result<(), String> {
        self.tell_open();
        let (sample, rest) = look(&campaign.standard(), clock, round, watch)?;
        self.samples.push(sample);
        self.rests.extend(rest);
        Ok(())
    }
}
