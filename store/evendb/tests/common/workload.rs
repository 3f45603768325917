//! A workload of few steps that reaches every protocol, and the runner that runs it beside the
//! oracle.

use super::oracle::{Change, End, Map, Oracle, contents};
use super::{DIR, on_sim, perhaps_apart, varied};
use evendb::vfs::SimVfs;
use evendb::{Db, Durability, Error, KeyspaceOptions, Merges, Options, Snapshot};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A time about a hundred years from now.
fn far() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(5_000_000_000)
}

pub const NAMES: [&str; 3] = ["default", "other", "third"];

/// An operation on a key.
#[derive(Clone, Debug)]
pub enum What {
    Put(Vec<u8>),
    Delete,
    /// Appended to the value, by the merge operator of all keyspaces except the default one.
    Merge(Vec<u8>),
    /// Deletes all keys from this one to below the given one, by one record.
    DeleteTo(Vec<u8>),
}

/// The name of a keyspace, a key, and the operation on it.
pub type Write = (&'static str, Vec<u8>, What);

#[derive(Clone, Debug)]
pub enum Step {
    Write(Vec<Write>, Option<Durability>),
    Flush,
    Persist,
    SettleDebt,
    Idle,
    Snapshot,
    ForgetSnapshot,
    Look,
    /// A copy in another directory, compared and removed.
    Copy,
    /// Sorted records into a keyspace, all at once.
    Ingest(&'static str, Vec<(Vec<u8>, Vec<u8>)>),
    Reopen,
    Create(&'static str),
    Drop(&'static str),
}

struct Maker {
    random: StdRng,
    stamp: u32,
    keys: u32,
    /// One value of this number goes through a value extent.
    large_of: u32,
}

impl Maker {
    fn write(&mut self, large_allowed: bool) -> Write {
        let name = NAMES[[0, 0, 0, 1, 1, 2][self.random.random_range(0..6)]];
        let number: u32 = self.random.random_range(0..self.keys);
        let key = match self.random.random_range(0..12) {
            0 => format!("k{number:03}/long/{}", "x".repeat(60)),
            _ => format!("k{number:03}"),
        };
        match self.random.random_range(0..50) {
            0 => {
                let high = format!("k{:03}", number + self.random.random_range(1..20));
                return (name, key.into_bytes(), What::DeleteTo(high.into_bytes()));
            }
            1..11 => return (name, key.into_bytes(), What::Delete),
            _ => {}
        }
        let len = match self.random.random_range(0..self.large_of) {
            // Above an eighth of the commit log, so it goes through a value extent.
            0 if large_allowed => self.random.random_range(8_200..12_000),
            1..4 => self.random.random_range(500..2_000),
            _ => self.random.random_range(0..120),
        };
        self.stamp += 1;
        let mut value = format!("{:06x}.", self.stamp).into_bytes();
        if name != "default" && self.random.random_bool(0.4) {
            value.resize(value.len() + len.min(50), b'+');
            return (name, key.into_bytes(), What::Merge(value));
        }
        value.resize(value.len() + len, (self.stamp % 251) as u8);
        (name, key.into_bytes(), What::Put(value))
    }

    /// Records among the others, or behind them; of one table or of several.
    fn ingest(&mut self) -> Step {
        let name = NAMES[[0, 0, 1, 2][self.random.random_range(0..4)]];
        let first = self.random.random_range(0..self.keys + 20);
        let step = self.random.random_range(1..4);
        let count = self.random.random_range(1..60);
        let len = self.random.random_range(0..150);
        self.stamp += 1;
        let value = |number: u32| {
            let mut value = format!("{:06x}.{number}.", self.stamp).into_bytes();
            value.resize(value.len() + len, (self.stamp % 251) as u8);
            value
        };
        let numbers = (first..).step_by(step).take(count);
        let records = numbers.map(|number| (format!("k{number:03}").into_bytes(), value(number)));
        Step::Ingest(name, records.collect())
    }

    fn step(&mut self) -> Step {
        match self.random.random_range(0..1000) {
            0..700 => Step::Write(vec![self.write(true)], None),
            700..840 => {
                let count = self.random.random_range(2..9);
                let writes = (0..count).map(|index| self.write(index == 0)).collect();
                let level = match self.random.random_range(0..8) {
                    0 => Some(Durability::Sync),
                    1 => Some(Durability::Process),
                    _ => None,
                };
                Step::Write(writes, level)
            }
            840..870 => Step::Flush,
            870..885 => Step::Persist,
            885..899 => Step::SettleDebt,
            899..905 => Step::Idle,
            905..920 => Step::Snapshot,
            920..930 => Step::ForgetSnapshot,
            930..942 => Step::Look,
            942..946 => Step::Copy,
            946..950 => self.ingest(),
            950..970 => Step::Reopen,
            970..988 => Step::Create("third"),
            _ => Step::Drop("third"),
        }
    }
}

/// The steps of a seed; the same ones, however many of them are run.
pub fn steps(seed: u64, count: usize) -> Vec<Step> {
    make(seed, count, 60)
}

/// Steps with many value extents.
pub fn extent_steps(seed: u64, count: usize) -> Vec<Step> {
    make(seed, count, 7)
}

fn make(seed: u64, count: usize, large_of: u32) -> Vec<Step> {
    let mut maker = Maker {
        random: StdRng::seed_from_u64(seed),
        stamp: 0,
        keys: 70,
        large_of,
    };
    let mut steps = vec![Step::Create("other")];
    steps.extend((1..count).map(|_| maker.step()));
    steps
}

/// A database, its expected content, and the machine that it runs on.
pub struct Runner {
    pub vfs: SimVfs,
    pub options: Options,
    pub level: Durability,
    pub db: Option<Db>,
    pub oracle: Oracle,
    snapshot: Option<(Snapshot, Vec<(String, Map)>)>,
    copies: u32,
}

impl Runner {
    pub fn new(vfs: &SimVfs, level: Durability) -> Runner {
        Runner::resume(vfs, level, Oracle::new(level))
    }

    /// Continues with the oracle's knowledge of the machine's disk; nothing is opened yet.
    pub fn resume(vfs: &SimVfs, level: Durability, oracle: Oracle) -> Runner {
        Runner {
            vfs: vfs.clone(),
            options: on_sim(vfs, level, 0),
            level,
            db: None,
            oracle,
            snapshot: None,
            copies: 0,
        }
    }

    /// The runner with options that vary with `variant`.
    pub fn vary(mut self, variant: u64) -> Runner {
        self.options = varied(&self.vfs, self.level, variant);
        self
    }

    pub fn tune(mut self, tune: impl FnOnce(Options) -> Options) -> Runner {
        self.options = tune(self.options);
        self
    }

    pub fn open(&mut self) -> Result<(), Error> {
        self.db = Some(self.options.clone().open(DIR)?);
        Ok(())
    }

    pub fn db(&self) -> &Db {
        self.db.as_ref().expect("it is open")
    }

    /// Drops all handles, as the end of the process does.
    pub fn abandon(&mut self) {
        self.snapshot = None;
        self.db = None;
    }

    /// Runs one step. An error leaves the begun step pending in the oracle. If the machine stopped
    /// meanwhile, nothing is acknowledged: a copy into a mapping cannot notice that it failed.
    pub fn step(&mut self, step: &Step) -> Result<(), Error> {
        match step {
            Step::Write(writes, level) => return self.write(writes, *level),
            Step::Flush => self.db().flush()?,
            Step::Persist => self.db().persist()?,
            Step::SettleDebt => self.db().settle_debt()?,
            Step::Idle => drop(self.db().idle_pass()?),
            Step::Snapshot => {
                let names = self.oracle.names();
                let maps = names.iter().map(|name| self.oracle.map(name));
                let then = names.iter().cloned().zip(maps).collect();
                self.snapshot = Some((self.db().snapshot()?, then));
                return Ok(());
            }
            Step::ForgetSnapshot => {
                self.snapshot = None;
                return Ok(());
            }
            Step::Look => return self.look(),
            Step::Copy => self.copy()?,
            Step::Ingest(name, records) => {
                let Some(generation) = self.oracle.generation(name) else {
                    return Ok(());
                };
                let change = |(key, value): &(Vec<u8>, Vec<u8>)| Change {
                    generation,
                    key: key.clone(),
                    value: Some(value.clone()),
                };
                self.oracle.begin(records.iter().map(change).collect());
                let all = records.iter().map(|(key, value)| (key, value));
                self.db().keyspace(name)?.ingest(all)?;
                if !self.vfs.crashed() {
                    self.oracle.acknowledge(None);
                }
            }
            Step::Reopen => {
                self.snapshot = None;
                self.db.take().expect("it is open").close()?;
                if !self.vfs.crashed() {
                    self.oracle.everything_is_durable();
                }
                return self.open();
            }
            Step::Create(name) => {
                if self.oracle.generation(name).is_none() {
                    self.oracle.begin_create(name);
                    let merging = KeyspaceOptions::new().merge_operator(Merges::Append);
                    self.db().keyspace_with(name, &merging)?;
                    if !self.vfs.crashed() {
                        self.oracle.names_done();
                    }
                }
                return Ok(());
            }
            Step::Drop(name) => {
                if self.oracle.generation(name).is_some() {
                    self.oracle.begin_drop(name);
                    self.db().drop_keyspace(name)?;
                    if !self.vfs.crashed() {
                        self.oracle.names_done();
                    }
                }
                return Ok(());
            }
        }
        if !self.vfs.crashed() {
            self.oracle.everything_is_durable();
        }
        Ok(())
    }

    fn write(&mut self, writes: &[Write], level: Option<Durability>) -> Result<(), Error> {
        let mut batch = self.db().batch();
        let mut changes: Vec<Change> = Vec::new();
        for (name, key, what) in writes {
            let Some(generation) = self.oracle.generation(name) else {
                continue;
            };
            let keyspace = self.db().keyspace(name)?;
            let change = |key: &[u8], value: Option<&Vec<u8>>| Change {
                generation,
                key: key.to_vec(),
                value: value.cloned(),
            };
            match what {
                What::Put(value) => {
                    match value.len() % 4 {
                        // This record outlives the test.
                        0 => batch.put_expiring_at(&keyspace, key, value, far()),
                        _ => batch.put(&keyspace, key, value),
                    };
                    changes.push(change(key, Some(value)));
                }
                What::Merge(operand) => {
                    let own = changes.iter().rev();
                    let mut own = own.filter(|own| own.generation == generation && own.key == *key);
                    let before = match own.next() {
                        Some(own) => own.value.clone(),
                        None => self.oracle.map(name).remove(key),
                    };
                    let value = [before.unwrap_or_default(), operand.clone()].concat();
                    batch.merge(&keyspace, key, operand);
                    changes.push(change(key, Some(&value)));
                }
                What::Delete => {
                    match (changes.len() + self.oracle.writes()) % 4 {
                        // An expired record equals a deleted one, unless it is merged into in the
                        // same batch.
                        0 if writes.len() == 1 || *name == "default" => {
                            batch.put_expiring_at(&keyspace, key, "gone", SystemTime::UNIX_EPOCH)
                        }
                        _ => batch.delete(&keyspace, key),
                    };
                    changes.push(change(key, None));
                }
                What::DeleteTo(high) => {
                    batch.delete_range(&keyspace, &key[..]..&high[..]);
                    // Each key that exists, or that this batch has put.
                    let map = self.oracle.map(name);
                    let own = changes.iter().filter(|own| own.generation == generation);
                    let own = own.map(|own| own.key.clone());
                    let mut keys: Vec<Vec<u8>> = map.into_keys().chain(own).collect();
                    keys.retain(|own| key <= own && own < high);
                    changes.extend(keys.iter().map(|key| change(key, None)));
                }
            }
        }
        if let Some(level) = level {
            batch.durability(level);
        }
        if batch.is_empty() {
            return Ok(());
        }
        self.oracle.begin(changes);
        batch.commit()?;
        if !self.vfs.crashed() {
            self.oracle.acknowledge(level);
        }
        Ok(())
    }

    /// A copy holds the acknowledged writes, and opens for reading and for writing.
    fn copy(&mut self) -> Result<(), Error> {
        // A crash of an earlier life may have left a copy, and operations are counted anew after
        // it.
        let dir = loop {
            self.copies += 1;
            let dir = format!("/copies/{}-{}", self.vfs.op_count(), self.copies);
            if self.vfs.file_names(Path::new(&dir)).is_empty() {
                break dir;
            }
        };
        self.db().copy_to(&dir)?;
        if self.vfs.crashed() {
            return Ok(());
        }
        let compared = self.compare_copy(&dir);
        for name in self.vfs.file_names(Path::new(&dir)) {
            self.vfs.remove_file(&Path::new(&dir).join(name));
        }
        compared
    }

    fn compare_copy(&self, dir: &str) -> Result<(), Error> {
        for read_only in [true, false] {
            let vfs = match read_only {
                true => self.vfs.clone(),
                // The effects of opening for writing must not reach this machine.
                false => self.vfs.fork_state(),
            };
            if !read_only {
                vfs.set_capacity(u64::MAX);
            }
            let copy = on_sim(&vfs, self.level, 0).read_only(read_only).open(dir)?;
            assert_eq!(
                copy.keyspace_names(),
                self.oracle.names(),
                "names in a copy"
            );
            for name in self.oracle.names() {
                assert!(
                    contents(&copy, &name)? == self.oracle.map(&name),
                    "the copy's {name} holds something else"
                );
            }
        }
        Ok(())
    }

    /// Reads everything, now and as the snapshot saw it.
    fn look(&self) -> Result<(), Error> {
        for name in self.oracle.names() {
            assert!(
                contents(self.db(), &name)? == self.oracle.map(&name),
                "{name} holds something else"
            );
        }
        let Some((snapshot, then)) = &self.snapshot else {
            return Ok(());
        };
        for (name, map) in then {
            let still_there = self.oracle.generation(name).is_some();
            if !still_there || name == "third" {
                continue;
            }
            let keyspace = self.db().keyspace(name)?;
            let mut seen = Map::new();
            for item in snapshot.iter(&keyspace) {
                let (key, value) = item?;
                seen.insert(key.to_vec(), value.to_vec());
            }
            assert!(seen == *map, "the snapshot of {name} changed");
        }
        Ok(())
    }

    /// Opens after the end of a life and compares. Returns what is wrong.
    pub fn recover(&mut self, end: End) -> Result<(), String> {
        self.open().map_err(|error| format!("opening: {error}"))?;
        let length = self.oracle.check(self.db(), end)?;
        let db = self.db.as_ref().expect("just opened");
        self.oracle.recovered(length, db, end);
        Ok(())
    }
}

/// What a workload of this seed and number of steps leaves open: tables, runs, and records that are
/// in the commit log only. The debt is settled after `settled_after` steps; no step opens, copies
/// or holds a moment.
pub fn filled(
    vfs: &SimVfs,
    level: Durability,
    seed: u64,
    (count, settled_after): (usize, usize),
) -> Runner {
    let mut runner = Runner::new(vfs, level).tune(|options| perhaps_apart(options, seed));
    runner.open().expect("opens");
    let mut all = steps(seed, count);
    all.retain(|step| !matches!(step, Step::Snapshot | Step::Reopen | Step::Copy));
    all.insert(settled_after, Step::SettleDebt);
    for step in &all {
        runner.step(step).expect("nothing fails");
    }
    runner
}
