//! [`Store`]: the calls that the rig makes, and the engine behind them.
//!
//! Options are tiny, so that checkpoints, flushes, compactions, splits and full logs come all the
//! time, and vary from opening to opening. Each keyspace has a layout of its own, which is drawn
//! when the keyspace is made and stays; so most batches and transactions go across layouts. Errors
//! are texts: after a cut any may come, and before it each is a failure of the test.

use crate::Result;
use crate::draw::Draw;
use clap::ValueEnum;
use evendb::{
    Backups, Db, Durability, Error, ErrorKind, Keyspace, KeyspaceOptions, Layout, Snapshot, Value,
};
use std::path::Path;

mod options;

use options::options;

/// The number of backups that stay.
const KEEP: usize = 3;

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// What survives, in the engine's words, and one lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Level {
    /// Writes that a checkpoint or a call made durable.
    Relaxed,
    /// The same; more survives if no power is lost.
    Process,
    /// Every write that returned.
    Sync,
    /// A store that acknowledges without syncing: it has the level `process`, but claims the
    /// promise of `sync`. Must be found out.
    Lie,
}

impl Level {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Level::Relaxed => "relaxed",
            Level::Process => "process",
            Level::Sync => "sync",
            Level::Lie => "lie",
        }
    }

    /// The durability in the engine's options.
    fn durability(self) -> Durability {
        match self {
            Level::Relaxed => Durability::Relaxed,
            Level::Process | Level::Lie => Durability::Process,
            Level::Sync => Durability::Sync,
        }
    }

    /// Whether every write that returned must be there.
    pub fn promises_all(self) -> bool {
        matches!(self, Level::Sync | Level::Lie)
    }
}

/// An error of the engine in words.
fn said(error: Error) -> String {
    format!("{:?}: {error}", error.kind())
}

/// The keyspaces of the load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// Slots of threads.
    Slots,
    /// The last batch of each thread.
    Mirror,
    /// Accounts, and the last transfer of each thread.
    Bank,
    /// Writes after a cut.
    After,
}

/// The names of the keyspaces in the order of [`Space`], except the first, which is the default
/// one.
const NAMES: [&str; 3] = ["mirror", "bank", "after"];

/// A put into a keyspace.
pub type Put<'a> = (Space, &'a str, &'a [u8]);

/// A transfer between two accounts.
#[derive(Clone, Copy, Debug)]
pub struct Transfer<'a> {
    /// The account that pays.
    pub from: &'a str,
    /// The account that is paid.
    pub to: &'a str,
    /// The highest amount; never more than there is.
    pub amount: u64,
}

/// One moment of a database.
pub trait Look {
    /// All pairs whose key begins with `prefix`, by a scan.
    fn pairs(&self, space: Space, prefix: &str) -> Result<Vec<Pair>>;
    /// One value.
    fn get(&self, space: Space, key: &str) -> Result<Option<Vec<u8>>>;
}

/// An open database. Threads share it.
pub struct Store {
    db: Db,
    spaces: [Keyspace; 4],
}

struct Moment<'a> {
    store: &'a Store,
    snapshot: Snapshot,
}

impl Look for Moment<'_> {
    fn pairs(&self, space: Space, prefix: &str) -> Result<Vec<Pair>> {
        let pairs = self.snapshot.prefix(self.store.space(space), prefix);
        let pair = |item: evendb::Result<(Value, Value)>| {
            item.map(|(key, value)| (key.to_vec(), value.to_vec()))
                .map_err(said)
        };
        pairs.map(pair).collect()
    }

    fn get(&self, space: Space, key: &str) -> Result<Option<Vec<u8>>> {
        let value = self.snapshot.get(self.store.space(space), key);
        Ok(value.map_err(said)?.map(|value| value.to_vec()))
    }
}

fn balance(value: Option<Value>) -> evendb::Result<u64> {
    let number = value.and_then(|value| Some(u64::from_le_bytes((*value).try_into().ok()?)));
    number.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "an account without a balance"))
}

/// A layout for something that is made.
fn layout(draw: &mut Draw) -> Layout {
    draw.of(&[Layout::Chunks, Layout::Guards])
}

impl Store {
    fn space(&self, space: Space) -> &Keyspace {
        &self.spaces[space as usize]
    }

    /// Opens or creates a database, with all keyspaces.
    ///
    /// # Errors
    /// The engine's, as for all calls here.
    pub fn open(dir: &Path, level: Level, draw: &mut Draw) -> Result<Store> {
        let options = options(level, draw).layout(layout(draw));
        let db = options.open(dir).map_err(said)?;
        let mut open = |name: &str| {
            let new = KeyspaceOptions::new().layout(layout(draw));
            match db.keyspace_exists(name) {
                true => db.keyspace(name).map_err(said),
                false => db.keyspace_with(name, &new).map_err(said),
            }
        };
        let [mirror, bank, after] = NAMES.map(&mut open);
        let spaces = [db.default_keyspace().clone(), mirror?, bank?, after?];
        Ok(Store { db, spaces })
    }

    /// The present moment.
    ///
    /// # Errors
    /// The engine's.
    pub fn look(&self) -> Result<Box<dyn Look + '_>> {
        Ok(Box::new(Moment {
            store: self,
            snapshot: self.db.snapshot().map_err(said)?,
        }))
    }

    /// One put.
    ///
    /// # Errors
    /// The engine's.
    pub fn put(&self, key: &str, value: &[u8]) -> Result<()> {
        self.db.put(key, value).map_err(said)
    }

    /// One delete.
    ///
    /// # Errors
    /// The engine's.
    pub fn delete(&self, key: &str) -> Result<()> {
        self.db.delete(key).map_err(said)
    }

    /// A batch, raised to the highest level or not.
    ///
    /// # Errors
    /// The engine's.
    pub fn batch(&self, puts: &[Put<'_>], raised: bool) -> Result<()> {
        let mut batch = self.db.batch();
        for (space, key, value) in puts {
            batch.put(self.space(*space), key, value);
        }
        if raised {
            batch.durability(Durability::Sync);
        }
        batch.commit().map_err(said)
    }

    /// A transfer between accounts in one transaction with some puts.
    ///
    /// # Errors
    /// The engine's.
    pub fn transfer(&self, transfer: Transfer<'_>, puts: &[Put<'_>], raised: bool) -> Result<()> {
        let bank = self.space(Space::Bank);
        let done = self.db.transact(|transaction| {
            if raised {
                transaction.durability(Durability::Sync);
            }
            let from = balance(transaction.get(bank, transfer.from)?)?;
            let to = balance(transaction.get(bank, transfer.to)?)?;
            let amount = transfer.amount.min(from);
            transaction.put(bank, transfer.from, (from - amount).to_le_bytes())?;
            transaction.put(bank, transfer.to, (to + amount).to_le_bytes())?;
            for (space, key, value) in puts {
                transaction.put(self.space(*space), key, value)?;
            }
            Ok::<_, Error>(())
        });
        done.map_err(said)
    }

    /// Makes all writes that returned durable.
    ///
    /// # Errors
    /// The engine's.
    pub fn persist(&self) -> Result<()> {
        self.db.persist().map_err(said)
    }

    /// As `persist`, by a checkpoint.
    ///
    /// # Errors
    /// The engine's.
    pub fn flush(&self) -> Result<()> {
        self.db.flush().map_err(said)
    }

    /// As `flush`, and does all reorganisation that is owed.
    ///
    /// # Errors
    /// The engine's.
    pub fn settle(&self) -> Result<()> {
        self.db.settle_debt().map_err(said)
    }

    /// Makes a backup, and removes old ones. Returns its number.
    ///
    /// # Errors
    /// The engine's.
    pub fn backup(&self, dir: &Path) -> Result<u64> {
        let made = self.db.backup(dir).map_err(said)?;
        Backups::at(dir).prune(KEEP).map_err(said)?;
        Ok(made.number)
    }

    /// Closes it.
    ///
    /// # Errors
    /// The engine's.
    pub fn close(self) -> Result<()> {
        self.db.close().map_err(said)
    }

    /// Compares every byte of a database that nobody has open with its checksums and its structure.
    ///
    /// # Errors
    /// The engine's, and what was found.
    pub fn verify(dir: &Path) -> Result<()> {
        use evendb::inspect::{InspectOptions, verify};
        let report = verify(dir, InspectOptions::new()).map_err(said)?;
        match report.is_sound() {
            true => Ok(()),
            false => Err(format!("verify: {:?}", report.findings)),
        }
    }

    /// Verifies all backups, and makes a database from the newest. Returns its number, or none if
    /// there are no backups.
    ///
    /// # Errors
    /// The engine's, and damage to a backup.
    pub fn restore(dir: &Path, into: &Path) -> Result<Option<u64>> {
        if !dir.exists() {
            return Ok(None);
        }
        let backups = Backups::at(dir);
        let listed = backups.list().map_err(said)?;
        for info in &listed {
            if let Some(damage) = &info.damage {
                return Err(format!("backup {}: {damage}", info.number));
            }
            backups.verify(Some(info.number)).map_err(said)?;
        }
        match listed.last() {
            None => Ok(None),
            Some(last) => {
                let number = backups.restore(Some(last.number), into);
                number.map(Some).map_err(said)
            }
        }
    }
}
