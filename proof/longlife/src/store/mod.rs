//! [`Store`]: the calls of a life on an engine, and both engines behind it.
//!
//! Both engines have the same errors, which pass unchanged: a full disk must be distinguished from
//! anything else. Calls that only the first engine has ([`Store::RICH`]) are not made on the second
//! one.

/// The calls of [`Store`] that both engines have under the same names.
macro_rules! same_calls {
    ($engine:ident) => {
        fn sizes() -> Vec<usize> {
            options::sizes(FACTORS)
        }

        fn told(row: &Row) -> String {
            options::told(FACTORS, row)
        }

        fn record_bytes_max(&self) -> u64 {
            self.record_bytes_max
        }

        fn get(&self, space: Space, key: &[u8]) -> Answer<Option<Vec<u8>>> {
            self.space(space).get(key).map(bytes)
        }

        fn multi_get(&self, space: Space, keys: &[Vec<u8>]) -> Answer<Vec<Option<Vec<u8>>>> {
            let values = self.space(space).multi_get(keys)?;
            Ok(values.into_iter().map(bytes).collect())
        }

        fn scan(&self, space: Space, span: &Span) -> Answer<Vec<Pair>> {
            let items = self.space(space).range::<&[u8]>(span.bounds());
            pairs(items, span.backward)
        }

        fn snapshot(&self) -> Answer<Snapshot> {
            self.db.snapshot()
        }

        fn get_at(&self, at: &Snapshot, space: Space, key: &[u8]) -> Answer<Option<Vec<u8>>> {
            at.get(self.space(space), key).map(bytes)
        }

        fn scan_at(&self, at: &Snapshot, space: Space, span: &Span) -> Answer<Vec<Pair>> {
            let items = at.range::<&[u8]>(self.space(space), span.bounds());
            pairs(items, span.backward)
        }

        fn persist(&self) -> Answer<()> {
            self.db.persist()
        }

        fn flush(&self) -> Answer<()> {
            self.db.flush()
        }

        fn settle(&self) -> Answer<()> {
            self.db.settle_debt()
        }

        fn compact(&self) -> Answer<()> {
            self.db.compact().map(drop)
        }

        fn close(self) -> Answer<()> {
            self.db.close()
        }

        fn verify(dir: &Path) -> Answer<Vec<String>> {
            use $engine::inspect::{InspectOptions, verify};
            let report = verify(dir, InspectOptions::new())?;
            Ok(findings(report.is_sound(), &report.findings))
        }

        fn destroy(dir: &Path) -> Answer<()> {
            $engine::destroy(dir)
        }
    };
}

/// The setters that the settings of both engines have.
macro_rules! same_setters {
    () => {
        fn option(self, set: impl FnOnce(Options) -> Options) -> Settings {
            Settings {
                options: set(self.options),
                ..self
            }
        }

        fn durability(self, durability: Durability) -> Settings {
            Settings {
                durability,
                ..self.option(|options| options.durability(durability))
            }
        }

        fn advanced(self, set: impl FnOnce(Advanced) -> Advanced) -> Settings {
            self.option(|options| options.advanced(set))
        }
    };
}

mod even;
mod even_options;
mod fragmented;
mod fragmented_options;

pub use even::Even;
pub use fragmented::Fragmented;

use crate::covering::Row;
use crate::oracle::{Pair, Space, Write};
use crate::time::Clock;
use evendb::{Durability, Error, Merges};
use std::fmt::Debug;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// The answer of an engine.
pub type Answer<T> = Result<T, Error>;

/// The limits of a scan: from the first key on, up to the second one, if there is one.
#[derive(Clone, Debug)]
pub struct Span {
    /// The first key.
    pub low: Vec<u8>,
    /// The end, which is not in it.
    pub high: Option<Vec<u8>>,
    /// From the end.
    pub backward: bool,
}

impl Span {
    /// Everything.
    pub fn all(backward: bool) -> Span {
        Span {
            low: Vec::new(),
            high: None,
            backward,
        }
    }

    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        between(&self.low, self.high.as_deref())
    }
}

fn between<'a>(low: &'a [u8], high: Option<&'a [u8]>) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    let high = high.map_or(Bound::Unbounded, Bound::Excluded);
    (Bound::Included(low), high)
}

fn bytes<V: AsRef<[u8]>>(value: Option<V>) -> Option<Vec<u8>> {
    value.map(|value| value.as_ref().to_vec())
}

/// The pairs of an iterator, from its front or its back.
fn pairs<V: AsRef<[u8]>>(
    items: impl DoubleEndedIterator<Item = Answer<(V, V)>>,
    backward: bool,
) -> Answer<Vec<Pair>> {
    let pair = |item: Answer<(V, V)>| {
        item.map(|(key, value)| (key.as_ref().to_vec(), value.as_ref().to_vec()))
    };
    match backward {
        true => items.rev().map(pair).collect(),
        false => items.map(pair).collect(),
    }
}

/// The findings in a database that is not sound.
fn findings(is_sound: bool, all: &[impl Debug]) -> Vec<String> {
    match is_sound {
        true => Vec::new(),
        false => all.iter().map(|finding| format!("{finding:?}")).collect(),
    }
}

/// How a database is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// It need not be there.
    First,
    /// The database must be there.
    Again,
    /// The database must be there, and does not change.
    ReadOnly,
}

/// The facts of a row that an oracle needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Said {
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// The time to live of [`Space::Until`], in milliseconds.
    pub ttl: Option<u64>,
    /// The operator of a keyspace that is made.
    pub merges: Merges,
    /// Whether it is first opened only for reading.
    pub read_only: bool,
}

/// An open database. Threads share it.
pub trait Store: Sized + Sync {
    /// The name in tables.
    const NAME: &'static str;
    /// Whether it has transactions, merges, expiry, deletes of ranges, copies and backups.
    const RICH: bool;
    /// A moment.
    type Snapshot: Send;

    /// The number of choices of each factor of its options.
    fn sizes() -> Vec<usize>;
    /// A row in words.
    fn told(row: &Row) -> String;
    /// The facts of a row.
    fn said(row: &Row) -> Said;
    /// Kept databases of earlier formats: texts of their files, and their content.
    fn kept() -> Vec<crate::kept::Kept>;

    /// Opens a database with a row's options. All keyspaces are there then, or are made, with the
    /// row's options of keyspaces.
    fn open(dir: &Path, row: &Row, clock: &Arc<Clock>, how: How) -> Answer<Self>;
    /// Opens a database with the same options each time.
    fn open_standard(dir: &Path, clock: &Arc<Clock>) -> Answer<Self>;
    /// Drops a keyspace and makes it anew.
    fn remake(&mut self, space: Space, row: &Row) -> Answer<()>;
    /// The highest number of bytes of a key with its value.
    fn record_bytes_max(&self) -> u64;

    /// One write.
    fn write(&self, write: &Write) -> Answer<()>;
    /// Writes that take effect together.
    fn batch(&self, writes: &[Write], raised: bool) -> Answer<()>;
    /// Makes the writes in a transaction that gets keys first. Returns what it got.
    fn transact(&self, gets: &[(Space, Vec<u8>)], writes: &[Write])
    -> Answer<Vec<Option<Vec<u8>>>>;
    /// Moves `amount`, if it is there, from one number to another, both of 8 bytes and in the
    /// default keyspace.
    fn transfer(&self, from: &[u8], to: &[u8], amount: u64) -> Answer<()>;
    /// One value.
    fn get(&self, space: Space, key: &[u8]) -> Answer<Option<Vec<u8>>>;
    /// Several values of one moment.
    fn multi_get(&self, space: Space, keys: &[Vec<u8>]) -> Answer<Vec<Option<Vec<u8>>>>;
    /// Pairs, in the order of keys or in reverse.
    fn scan(&self, space: Space, span: &Span) -> Answer<Vec<Pair>>;
    /// This moment.
    fn snapshot(&self) -> Answer<Self::Snapshot>;
    /// One value at that moment.
    fn get_at(&self, at: &Self::Snapshot, space: Space, key: &[u8]) -> Answer<Option<Vec<u8>>>;
    /// Pairs at that moment.
    fn scan_at(&self, at: &Self::Snapshot, space: Space, span: &Span) -> Answer<Vec<Pair>>;

    /// Makes all writes that returned durable.
    fn persist(&self) -> Answer<()>;
    /// As `persist`, by a checkpoint or flush.
    fn flush(&self) -> Answer<()>;
    /// As `flush`, and does all reorganisation that is owed.
    fn settle(&self) -> Answer<()>;
    /// Rewrites all data.
    fn compact(&self) -> Answer<()>;
    /// The work of an idle database.
    fn idle(&self) -> Answer<()>;
    /// Copies it to a directory that is not there.
    fn copy_to(&self, dir: &Path) -> Answer<()>;
    /// Backs it up, and makes a database from the backup.
    fn back_up_and_restore(&self, backups: &Path, into: &Path) -> Answer<()>;
    /// Closes it.
    fn close(self) -> Answer<()>;
    /// Compares every byte of a database that nobody has open with its checksums and its structure.
    /// Returns the findings.
    fn verify(dir: &Path) -> Answer<Vec<String>>;
    /// Removes a database that nobody has open.
    fn destroy(dir: &Path) -> Answer<()>;
}
