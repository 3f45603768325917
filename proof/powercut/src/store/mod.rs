//! [`Store`]: the calls that the rig makes, and both engines behind it.
//!
//! Options are tiny, so that checkpoints, flushes, compactions, splits and full logs come all the
//! time, and vary from opening to opening. Errors are texts: after a cut any may come, and before
//! it each is a failure of the test.

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
