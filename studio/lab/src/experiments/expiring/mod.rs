//! Experiment `expiring`: an event log that keeps its last hour: its space over time, and what the
//! expiry costs puts.
//!
//! ```text
//!   course:  an empty store, events at a rate, each with a time to live
//!              | life 1 | life 2 | life 3 |  all read          space watched:  0, 1, 1 life live
//!   turns:   two empty stores: puts that expire | puts that stay | puts that expire | ...
//!              debt paid in each
//! ```
//! Events come in the order of time, from several threads; their keys ascend with it (`Keys`). The
//! clock of the store runs faster than the real one, so that an hour's life takes a minute. A store
//! that has a clock of its own, of seconds, gets the real life instead.
//!
//! After the course all records are read (`check`): an event that has not expired must be there,
//! with its value. An event that has expired must not be there, if the store hides expired records.
//! In the turns life is shorter, so that events expire while the turns go on; a turn pays its debt
//! and has it charged.
//!
//! * **kevent/s**: events that were put in the course, which has a rate to keep;
//! * **live MiB**: keys and values that have not expired, at the end of the course;
//! * **x live**: allocated blocks of the store's files divided by the live bytes, at the end of
//!   each life. It should be flat from the second life on;
//! * **most**: the maximum of that at any time after the first life;
//! * **kput/s, stay**: puts that expire, and puts that do not, with debt, medians over the turns;
//! * **ratio**: the median of the ratios of neighbouring turns, with debt, and without.
//!
//! An acknowledged put survives the end of the process. The memory is for everything, page cache
//! included: the opener decides what part of it a store is told to plan with, and the limit is set
//! from outside (`scripts/with-memory-limit`). In the turns each of the two stores has half.

mod events;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::disk_space::disk_bytes;
use super::table::{TextTable, median};
use super::{Common, Failure, Measure, Measured, Turn, stores_of};
use crate::driver::{self, Limit, NoProgress, Phase, Worker};
use crate::opener::{Durability, Lifetime, Opener, Purpose, Settings};
use crate::phase_result::PhaseResult;
use crate::store::Store;
use events::{Events, Keys, Mark, check};

/// The arguments of `experiment expiring`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Bytes of a value
    #[arg(long, default_value_t = 800, value_parser = clap::value_parser!(u32).range(16..))]
    value_bytes: u32,
    /// MiB of memory for everything, the page cache included; the limit itself is set from outside
    #[arg(long, default_value_t = 1024)]
    memory_mib: u64,
    /// Threads
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// Seconds of an event's life by the store's clock
    #[arg(long, default_value_t = 3600)]
    ttl_seconds: u64,
    /// Seconds that such a life really takes, in the course [default: 60, quick: 1]
    #[arg(long)]
    life_seconds: Option<f64>,
    /// Lives of the course, at least two; none: no course
    #[arg(long, default_value_t = 3)]
    lives: u32,
    /// Events a second in the course
    #[arg(long, default_value_t = 20_000.0)]
    rate: f64,
    /// What keys begin with
    #[arg(long, value_enum, default_value_t = Keys::Time)]
    keys: Keys,
    /// Pairs of turns; none: no turns
    #[arg(long, default_value_t = 9)]
    turns: usize,
    /// Seconds of a turn, its debt not counted [default: 2, quick: 0.2]
    #[arg(long)]
    seconds: Option<f64>,
    /// Seconds that a life really takes, in the turns [default: 4 turns]
    #[arg(long)]
    turn_life_seconds: Option<f64>,
}

/// How often space is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

impl Arguments {
    fn life_seconds(&self) -> f64 {
        let default = if self.common.quick { 1.0 } else { 60.0 };
        self.life_seconds.unwrap_or(default)
    }

    fn seconds(&self) -> f64 {
        let default = if self.common.quick { 0.2 } else { 2.0 };
        self.seconds.unwrap_or(default)
    }

    fn turn_life_seconds(&self) -> f64 {
        self.turn_life_seconds.unwrap_or(4.0 * self.seconds())
    }

    /// A life that really takes `real_seconds`.
    fn lifetime(&self, real_seconds: f64) -> Lifetime {
        Lifetime {
            ttl: Duration::from_secs(self.ttl_seconds),
            speed: self.ttl_seconds as f64 / real_seconds,
        }
    }

    fn settings_of(&self, opener: &dyn Opener, stores: u64) -> Settings {
        Settings {
            memory_bytes: opener.memory_within(self.memory_mib << 20) / stores,
            durability: Durability::Process,
        }
    }

    fn events(&self) -> Events {
        Events::new(self.keys, self.value_bytes as usize, self.common.seed)
    }

    /// Puts events for some seconds, at a rate or as fast as possible.
    fn put(
        &self,
        store: &dyn Store,
        events: &Arc<Events>,
        seconds: f64,
        rate: Option<f64>,
    ) -> Result<PhaseResult, Failure> {
        let started = Instant::now();
        let worker = |_| -> Box<dyn Worker> { Box::new(events.worker(started, rate)) };
        let phase = Phase {
            limit: Limit::seconds(seconds),
            settle: rate.is_none(),
            course_interval: Duration::from_millis(500),
            ..Phase::new("expiring", self.threads)
        };
        let never = AtomicBool::new(false);
        Ok(driver::run(store, &phase, &never, &NoProgress, &worker)?)
    }

    /// Events for some lives, and the space they take meanwhile.
    fn course(
        &self,
        store: &dyn Store,
        directory: &Path,
        life: Duration,
    ) -> Result<Value, Failure> {
        let events = Arc::new(self.events().that_expire());
        let seconds = life.as_secs_f64() * f64::from(self.lives);
        let (started, done) = (Instant::now(), AtomicBool::new(false));
        let look = || {
            let at = started.elapsed();
            let (taken, present) = events.counts();
            Mark {
                at,
                counted: started.elapsed(),
                taken,
                present,
                disk: disk_bytes(directory),
            }
        };
        let (result, marks) = thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut marks = vec![look()];
                while !done.load(Ordering::Relaxed) {
                    thread::sleep(LOOK_INTERVAL);
                    marks.push(look());
                }
                marks
            });
            let result = self.put(store, &events, seconds, Some(self.rate));
            done.store(true, Ordering::Relaxed);
            (result, watcher.join())
        });
        let (result, marks) = (result?, marks.map_err(|_| "the watcher panicked")?);
        let read = check(store, &events, &marks, started, life)?;
        let live_bytes = |at: &Mark| {
            let before = marks.iter().rev().find(|mark| mark.at + life <= at.at);
            (at.present - before.map_or(0, |mark| mark.present)) * events.event_bytes()
        };
        let by_live = |mark: &Mark| mark.disk as f64 / live_bytes(mark).max(1) as f64;
        let ends = (1..=self.lives).filter_map(|number| {
            let mark = marks.iter().rfind(|mark| mark.at <= life * number)?;
            Some(by_live(mark))
        });
        let later = marks.iter().filter(|mark| mark.at > life);
        let course: Vec<_> = marks
            .iter()
            .map(|mark| json!([mark.at.as_secs_f64(), live_bytes(mark), mark.disk]))
            .collect();
        Ok(json!({
            "events_per_second": result.throughput(),
            "live_bytes": marks.last().map(live_bytes),
            "by_live": ends.collect::<Vec<_>>(),
            "by_live_max": later.map(by_live).fold(f64::NAN, f64::max),
            "write_amplification_process": result.write_amplification_process(),
            "cpu_micros_per_event": result.cpu_micros_per_operation(),
            "events_put": events.counts().1,
            "events_read": read,
            "course_unit": "seconds since the start; live bytes; bytes of files",
            "course": course,
        }))
    }

    /// Puts that expire and puts that stay, in turns, each kind into a store of its own.
    fn turns(&self, expire: &dyn Store, stay: &dyn Store) -> Result<Value, Failure> {
        let expiring = Arc::new(self.events().that_expire());
        let staying = Arc::new(self.events());
        let mut rates: Vec<[[f64; 2]; 2]> = Vec::new();
        // The first pair warms.
        for number in 0..=self.turns {
            let turn = |store: &dyn Store, events: &Arc<Events>| -> Result<[f64; 2], Failure> {
                let result = self.put(store, events, self.seconds(), None)?;
                Ok([result.throughput_with_debt(), result.throughput()])
            };
            // The kinds take turns in going first.
            let pair = match number % 2 {
                0 => [turn(expire, &expiring)?, turn(stay, &staying)?],
                _ => {
                    let staying = turn(stay, &staying)?;
                    [turn(expire, &expiring)?, staying]
                }
            };
            if number > 0 {
                rates.push(pair);
            }
        }
        let of =
            |figure: &dyn Fn(&[[f64; 2]; 2]) -> f64| median(rates.iter().map(figure).collect());
        Ok(json!({
            "expire_per_second_with_debt": of(&|[expire, _]| expire[0]),
            "stay_per_second_with_debt": of(&|[_, stay]| stay[0]),
            "ratio_with_debt": of(&|[expire, stay]| expire[0] / stay[0]),
            "expire_per_second": of(&|[expire, _]| expire[1]),
            "stay_per_second": of(&|[_, stay]| stay[1]),
            "ratio": of(&|[expire, stay]| expire[1] / stay[1]),
            "pairs": rates,
        }))
    }

    fn measure_turns(&self, turn: Turn<'_>) -> Result<Value, Failure> {
        let own = turn.directory.join(turn.round.to_string());
        let directories = [own.join("expire"), own.join("stay")];
        for directory in &directories {
            std::fs::create_dir_all(directory)?;
        }
        let settings = self.settings_of(turn.opener, 2);
        let purpose = Purpose::Expiry(self.lifetime(self.turn_life_seconds()));
        let [expire, stay] = &directories;
        let expire = turn.opener.open_for(expire, &settings, purpose)?;
        let stay = turn.opener.open(stay, &settings)?;
        let figures = self.turns(&*expire, &*stay)?;
        expire.close()?;
        stay.close()?;
        std::fs::remove_dir_all(&own)?;
        Ok(figures)
    }
}

impl Measure for Arguments {
    fn common(&self) -> &Common {
        &self.common
    }

    fn takes_part(&self, opener: &dyn Opener) -> bool {
        let purpose = Purpose::Expiry(self.lifetime(self.life_seconds()));
        opener.serves(purpose) && !opener.only_if_named()
    }

    fn settings(&self) -> Value {
        json!({
            "value_bytes": self.value_bytes,
            "memory_bytes": self.memory_mib << 20,
            "threads": self.threads,
            "ttl_seconds": self.ttl_seconds,
            "life_seconds": self.life_seconds(),
            "lives": self.lives,
            "rate": self.rate,
            "keys": self.keys.name(),
            "turns": self.turns,
            "seconds": self.seconds(),
            "turn_life_seconds": self.turn_life_seconds(),
            "durability": Durability::Process.name(),
            "seed": self.common.seed,
        })
    }

    fn measure(&self, turn: Turn<'_>) -> Result<Value, Failure> {
        let mut figures = json!({});
        if self.lives > 0 {
            let lifetime = self.lifetime(self.life_seconds());
            let settings = self.settings_of(turn.opener, 1);
            let purpose = Some(Purpose::Expiry(lifetime));
            figures["course"] =
                turn.in_fresh_store_for(purpose, &settings, |store, directory| {
                    self.course(store, directory, lifetime.real())
                })?;
        }
        if self.turns > 0 {
            figures["turns"] = self.measure_turns(turn)?;
        }
        Ok(figures)
    }

    fn report(&self, results: &[Measured]) -> String {
        let mut heading: Vec<String> = ["store", "kevent/s", "live MiB"].map(Into::into).into();
        heading.extend((1..=self.lives).map(|life| format!("x live {life}")));
        let of_turns = ["most", "kput/s", "stay", "ratio", "without debt"];
        heading.extend(of_turns.map(Into::into));
        let mut table = TextTable::new(heading);
        for store in stores_of(results) {
            let of = |pointer: &str| {
                let own = results.iter().filter(|one| one.store == store);
                let figures = own.filter_map(|one| one.figures.pointer(pointer)?.as_f64());
                median(figures.collect())
            };
            let mut row = vec![
                store.to_owned(),
                format!("{:.1}", of("/course/events_per_second") / 1e3),
                format!("{:.0}", of("/course/live_bytes") / f64::from(1 << 20)),
            ];
            let ends = (0..self.lives).map(|life| of(&format!("/course/by_live/{life}")));
            row.extend(ends.map(|by_live| format!("{by_live:.2}")));
            row.extend([
                format!("{:.2}", of("/course/by_live_max")),
                format!("{:.1}", of("/turns/expire_per_second_with_debt") / 1e3),
                format!("{:.1}", of("/turns/stay_per_second_with_debt") / 1e3),
                format!("{:.3}", of("/turns/ratio_with_debt")),
                format!("{:.3}", of("/turns/ratio")),
            ]);
            table.row(row);
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
        let all = [
            "expiring",
            "--memory-mib=80",
            "--life-seconds=0.5",
            "--rate=2000",
            "--seconds=0.05",
            "--turns=2",
        ];
        parsed(all.iter().chain(more))
    }

    #[test]
    fn evendb_is_measured_and_shows_what_is_alive() {
        for keys in ["--keys=time", "--keys=app"] {
            let arguments = tiny(&[keys]);
            let directory = tempfile::tempdir().unwrap();
            let measured = measured(&arguments, &EvenDbOpener, directory.path());
            let figures = &measured.figures;
            let [put, read] =
                ["events_put", "events_read"].map(|name| figures["course"][name].as_u64());
            assert!(read < put, "{read:?} of {put:?}");
            let report = arguments.report(&[measured]);
            // On a busy machine a turn may be over before its first put: no ratio.
            assert_eq!(report.lines().count(), 2, "{report}");
        }
    }

    #[test]
    fn a_store_that_keeps_too_much_or_too_little_is_refused() {
        let arguments = tiny(&[]);
        let course = |store: &dyn Store| {
            arguments.course(store, Path::new("/nowhere"), Duration::from_millis(500))
        };
        let admits = course(&MemoryStore::new()).unwrap();
        assert_eq!(admits["events_put"], admits["events_read"]);
        for (fault, expected) in [
            (Fault::NeverExpire, "has expired, and is there"),
            (Fault::ExpireEarly, "has not expired, and is missing"),
        ] {
            let error = course(&MemoryStore::with_fault(fault)).unwrap_err();
            assert!(error.to_string().contains(expected), "{fault:?}: {error}");
        }
    }

    #[test]
    fn an_hour_takes_as_long_as_it_is_told() {
        let lifetime = tiny(&[]).lifetime(0.5);
        assert_eq!(lifetime.ttl, Duration::from_secs(3600));
        assert_eq!(lifetime.real(), Duration::from_millis(500));
    }
}
