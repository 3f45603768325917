//! A database, its expected contents, and random steps that change both: the workload of crashes,
//! faults and full disks.

use super::oracle::{Change, End, Oracle};
use super::{DIR, LEVELS, Random, scramble, tiny_on};
use evendb_flsm::vfs::{CrashMode, SimVfs};
use evendb_flsm::{Db, Durability, Error, ErrorKind, Snapshot};

const NAMES: [&str; 2] = ["other", "third"];

pub fn end_of(mode: CrashMode) -> End {
    match mode {
        CrashMode::Process => End::Process,
        _ => End::Power,
    }
}

/// The kinds of crash to look at.
pub fn modes(number: u64) -> [CrashMode; 5] {
    [
        CrashMode::Process,
        CrashMode::PowerLossNothing,
        CrashMode::PowerLossAll,
        CrashMode::PowerLossRandom(number),
        CrashMode::PowerLossRandom(scramble(number)),
    ]
}

/// A database and its expected contents.
pub struct Life {
    pub vfs: SimVfs,
    pub oracle: Oracle,
    pub random: Random,
    pub db: Option<Db>,
    snapshots: Vec<Snapshot>,
    stamp: u32,
}

impl Life {
    pub fn new(vfs: &SimVfs, level: Durability, seed: u64) -> Life {
        Life {
            vfs: vfs.clone(),
            oracle: Oracle::new(level),
            random: Random(seed),
            db: None,
            snapshots: Vec::new(),
            stamp: 0,
        }
    }

    pub fn open(&mut self) -> Result<(), Error> {
        let seed = self.random.next();
        self.db = Some(tiny_on(&self.vfs, self.oracle.level, seed).open(DIR)?);
        Ok(())
    }

    pub fn db(&self) -> &Db {
        self.db.as_ref().expect("open")
    }

    pub fn abandon(&mut self) {
        self.snapshots.clear();
        self.db = None;
    }

    fn change(&mut self) -> (String, Change) {
        let names = self.oracle.names();
        let at = self.random.below(names.len() as u64) as usize;
        let (name, id) = names.iter().nth(at).expect("below");
        let (name, id) = (name.clone(), *id);
        let key = format!("k{:02}", self.random.below(60)).into_bytes();
        self.stamp += 1;
        let value = (!self.random.one_in(5)).then(|| {
            let mut value = self.stamp.to_le_bytes().to_vec();
            let len = match self.random.below(12) {
                0 => 600 + self.random.below(1500),
                _ => self.random.below(120),
            };
            value.resize(4 + len as usize, self.stamp as u8);
            value
        });
        (name, (id, key, value))
    }

    fn write(&mut self, count: u64) -> Result<(), Error> {
        let changes: Vec<(String, Change)> = (0..count).map(|_| self.change()).collect();
        let entry = changes.iter().map(|(_, change)| change.clone()).collect();
        let level = match self.random.below(12) {
            0 => LEVELS[self.random.below(3) as usize],
            _ => self.oracle.level,
        };
        let mut batch = self.db().batch();
        batch.durability(level);
        for (name, (_, key, value)) in &changes {
            let keyspace = self.db().keyspace(name)?;
            match value {
                Some(value) => batch.put(&keyspace, key, value),
                None => batch.delete(&keyspace, key),
            };
        }
        self.oracle.begin(entry);
        batch.commit()?;
        self.oracle.acknowledge(level);
        Ok(())
    }

    fn change_name(&mut self) -> Result<(), Error> {
        let name = NAMES[self.random.below(2) as usize];
        if self.oracle.names().contains_key(name) {
            self.oracle.begin_name(name, false);
            self.db().drop_keyspace(name)?;
            self.oracle.dropped(name);
        } else {
            self.oracle.begin_name(name, true);
            let id = self.db().keyspace(name)?.id();
            self.oracle.made(name, id);
        }
        Ok(())
    }

    pub fn step(&mut self) -> Result<(), Error> {
        match self.random.below(100) {
            0..68 => self.write(1),
            68..80 => {
                let count = 2 + self.random.below(6);
                self.write(count)
            }
            80..84 => {
                self.db().flush()?;
                self.oracle.persisted();
                Ok(())
            }
            84..87 => {
                self.db().persist()?;
                self.oracle.persisted();
                Ok(())
            }
            87..89 => {
                self.db().settle_debt()?;
                self.oracle.persisted();
                Ok(())
            }
            89..91 => {
                self.snapshots.push(self.db().snapshot()?);
                Ok(())
            }
            91..93 => {
                self.snapshots.pop();
                Ok(())
            }
            93..97 => self.change_name(),
            _ => {
                self.snapshots.clear();
                let db = self.db.take().expect("open");
                db.close()?;
                self.oracle.persisted();
                self.open()
            }
        }
    }

    /// Opens the files that a crash left, compares, and goes on from there.
    pub fn recover(&mut self, end: End) -> Result<(), String> {
        self.open().map_err(|error| format!("opening: {error:?}"))?;
        let db = self.db.clone().expect("open");
        self.oracle.recover(&db, end)
    }

    /// Another life, on the files that a crash of this one left.
    pub fn next(&self, machine: &SimVfs, number: u64) -> Life {
        Life {
            vfs: machine.clone(),
            oracle: self.oracle.clone(),
            random: Random(number),
            db: None,
            snapshots: Vec::new(),
            stamp: self.stamp + 1_000_000,
        }
    }

    /// Called after a failed step: decides how the step's write counts. Returns whether this life
    /// can go on.
    pub fn goes_on_after(&mut self, error: &Error) -> bool {
        let kinds = [ErrorKind::Io, ErrorKind::NoSpace, ErrorKind::Latched];
        assert!(kinds.contains(&error.kind()), "{error:?}");
        let Some(db) = &self.db else { return false };
        self.oracle.fail();
        // A write that was raised above the relaxed level may be done and not durable.
        let may_show = self.oracle.level == Durability::Relaxed;
        let is_latched = |error: Error| error.kind() == ErrorKind::Latched;
        let latched = db.persist().is_err_and(is_latched) || db.persist().is_err_and(is_latched);
        // Reads go on in either case, and see exactly the acknowledged writes.
        self.oracle.check_live(db, may_show).unwrap();
        !latched
    }
}
