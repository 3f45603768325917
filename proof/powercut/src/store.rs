//! [`Store`]: what the rig asks of an engine, and both engines behind it.
//!
//! Options are tiny, so that checkpoints, flushes, compactions, splits and full logs come all the time, and vary from opening to
//! opening. Errors are words: after a cut any may come, and before it each is a failure of the test.

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
    /// What a checkpoint or a call made durable.
    Relaxed,
    /// The same; without power loss more.
    Process,
    /// Every write that returned.
    Sync,
    /// A store that acknowledges without syncing: the level `process`, of which is claimed what `sync` promises. Must be
    /// found out.
    Lie,
}

impl Level {
    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Level::Relaxed => "relaxed",
            Level::Process => "process",
            Level::Sync => "sync",
            Level::Lie => "lie",
        }
    }

    /// What the engines are told.
    fn durability(self) -> Durability {
        match self {
            Level::Relaxed => Durability::Relaxed,
            Level::Process | Level::Lie => Durability::Process,
            Level::Sync => Durability::Sync,
        }
    }

    /// Whether every write that returned is to be there.
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
    /// What is written after a cut.
    After,
}

/// The names of keyspaces but for the first, which is the default one, in the order of [`Space`].
const NAMES: [&str; 3] = ["mirror", "bank", "after"];

/// A put into a keyspace.
pub type Put<'a> = (Space, &'a str, &'a [u8]);

/// A transfer between two accounts.
#[derive(Clone, Copy, Debug)]
pub struct Transfer<'a> {
    /// From whom.
    pub from: &'a str,
    /// To whom.
    pub to: &'a str,
    /// At most so much; never more than there is.
    pub amount: u64,
}

/// One moment of a database.
pub trait Look {
    /// All pairs whose key begins so, by a scan.
    fn pairs(&self, space: Space, prefix: &str) -> Result<Vec<Pair>>;
    /// One value.
    fn get(&self, space: Space, key: &str) -> Result<Option<Vec<u8>>>;
}

/// An open database. Threads share it.
pub trait Store: Sized + Sync {
    /// Whether it has transactions; else there are no accounts.
    const TRANSACTS: bool;

    /// Opens or creates one, with all keyspaces.
    fn open(dir: &Path, level: Level, draw: &mut Draw) -> Result<Self>;
    /// This moment.
    fn look(&self) -> Result<Box<dyn Look + '_>>;
    /// One put.
    fn put(&self, key: &str, value: &[u8]) -> Result<()>;
    /// One delete.
    fn delete(&self, key: &str) -> Result<()>;
    /// A batch, raised to the highest level or not.
    fn batch(&self, puts: &[Put<'_>], raised: bool) -> Result<()>;
    /// A transfer between accounts in one transaction with some puts; without transactions, the puts.
    fn transfer(&self, transfer: Transfer<'_>, puts: &[Put<'_>], raised: bool) -> Result<()>;
    /// Makes durable what returned.
    fn persist(&self) -> Result<()>;
    /// The same by a checkpoint or flush.
    fn flush(&self) -> Result<()>;
    /// The same, and all reorganisation that is owed.
    fn settle(&self) -> Result<()>;
    /// Makes a backup, and removes old ones; its number, where the engine has backups.
    fn backup(&self, dir: &Path) -> Result<Option<u64>>;
    /// Closes it.
    fn close(self) -> Result<()>;
    /// Compares every byte of a database that nobody has open with its checksums and its structure.
    fn verify(dir: &Path) -> Result<()>;
    /// Verifies all backups, and makes a database of the newest; its number. Nothing where there are none.
    fn restore(dir: &Path, into: &Path) -> Result<Option<u64>>;
}
