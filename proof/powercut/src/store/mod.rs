//! [`Store`]: the calls that the rig makes, and both engines behind it.
//!
//! Options are tiny, so that checkpoints, flushes, compactions, splits and full logs come all the
//! time, and vary from opening to opening. Errors are texts: after a cut any may come, and before
//! it each is a failure of the test.

/// An open database of an engine, and a moment of it.
macro_rules! opened {
    ($engine:ident: $Store:ident) => {
        /// See the module.
        pub struct $Store {
            db: $engine::Db,
            spaces: [$engine::Keyspace; 4],
        }

        impl $Store {
            fn space(&self, space: Space) -> &$engine::Keyspace {
                &self.spaces[space as usize]
            }
        }

        struct Moment<'a> {
            store: &'a $Store,
            snapshot: $engine::Snapshot,
        }

        impl Look for Moment<'_> {
            fn pairs(&self, space: Space, prefix: &str) -> Result<Vec<Pair>> {
                let pairs = self.snapshot.prefix(self.store.space(space), prefix);
                let pair = |item: $engine::Result<($engine::Value, $engine::Value)>| {
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
    };
}

/// The calls of [`Store`] that have the same names in both engines, for a type of [`opened!`]. Its
/// file has a function `options`.
macro_rules! same_calls {
    ($engine:ident) => {
        fn open(dir: &Path, level: Level, draw: &mut Draw) -> Result<Self> {
            let db = options(level, draw).open(dir).map_err(said)?;
            let [mirror, bank, after] = NAMES.map(|name| db.keyspace(name).map_err(said));
            let spaces = [db.default_keyspace().clone(), mirror?, bank?, after?];
            Ok(Self { db, spaces })
        }

        fn look(&self) -> Result<Box<dyn Look + '_>> {
            Ok(Box::new(Moment {
                store: self,
                snapshot: self.db.snapshot().map_err(said)?,
            }))
        }

        fn put(&self, key: &str, value: &[u8]) -> Result<()> {
            self.db.put(key, value).map_err(said)
        }

        fn delete(&self, key: &str) -> Result<()> {
            self.db.delete(key).map_err(said)
        }

        fn batch(&self, puts: &[Put<'_>], raised: bool) -> Result<()> {
            let mut batch = self.db.batch();
            for (space, key, value) in puts {
                batch.put(self.space(*space), key, value);
            }
            if raised {
                batch.durability($engine::Durability::Sync);
            }
            batch.commit().map_err(said)
        }

        fn persist(&self) -> Result<()> {
            self.db.persist().map_err(said)
        }

        fn flush(&self) -> Result<()> {
            self.db.flush().map_err(said)
        }

        fn settle(&self) -> Result<()> {
            self.db.settle_debt().map_err(said)
        }

        fn close(self) -> Result<()> {
            self.db.close().map_err(said)
        }

        fn verify(dir: &Path) -> Result<()> {
            use $engine::inspect::{InspectOptions, verify};
            let report = verify(dir, InspectOptions::new()).map_err(said)?;
            match report.is_sound() {
                true => Ok(()),
                false => Err(format!("verify: {:?}", report.findings)),
            }
        }
    };
}

mod even;
mod fragmented;

pub use even::Even;
pub use fragmented::Fragmented;

use crate::Result;
use crate::draw::Draw;
use clap::ValueEnum;
use evendb::{Durability, Error};
use std::path::Path;

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// What survives, in the engines' words, and one lie.
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

    /// The durability in the engines' options.
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

/// An engine's error in words; both have the same errors.
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
pub trait Store: Sized + Sync {
    /// Whether it has transactions. Without them there are no accounts.
    const TRANSACTS: bool;

    /// Opens or creates a database, with all keyspaces.
    fn open(dir: &Path, level: Level, draw: &mut Draw) -> Result<Self>;
    /// The present moment.
    fn look(&self) -> Result<Box<dyn Look + '_>>;
    /// One put.
    fn put(&self, key: &str, value: &[u8]) -> Result<()>;
    /// One delete.
    fn delete(&self, key: &str) -> Result<()>;
    /// A batch, raised to the highest level or not.
    fn batch(&self, puts: &[Put<'_>], raised: bool) -> Result<()>;
    /// A transfer between accounts in one transaction with some puts; without transactions, the
    /// puts.
    fn transfer(&self, transfer: Transfer<'_>, puts: &[Put<'_>], raised: bool) -> Result<()>;
    /// Makes all writes that returned durable.
    fn persist(&self) -> Result<()>;
    /// As `persist`, by a checkpoint or flush.
    fn flush(&self) -> Result<()>;
    /// As `flush`, and does all reorganisation that is owed.
    fn settle(&self) -> Result<()>;
    /// Makes a backup, and removes old ones. Returns its number, if the engine has backups.
    fn backup(&self, dir: &Path) -> Result<Option<u64>>;
    /// Closes it.
    fn close(self) -> Result<()>;
    /// Compares every byte of a database that nobody has open with its checksums and its structure.
    fn verify(dir: &Path) -> Result<()>;
    /// Verifies all backups, and makes a database from the newest. Returns its number, or none if
    /// there are no backups.
    fn restore(dir: &Path, into: &Path) -> Result<Option<u64>>;
}
