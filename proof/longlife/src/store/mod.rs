//! [`Store`]: the calls of a life on the engine.
//!
//! The engine's errors pass unchanged: a full disk must be distinguished from anything else.

mod settings;

use crate::covering::Row;
use crate::kept::{self, Kept};
use crate::options;
use crate::oracle::{Lasting, Pair, SPACES, Space, Write};
use crate::time::{Clock, at};
use evendb::{
    Backups, Batch, Db, Durability, Error, ErrorKind, Keyspace, KeyspaceOptions, Layout, Merges,
    Snapshot, Transaction, Value,
};
use settings::{FACTORS, Settings};
use std::fmt::Debug;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The answer of the engine.
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

/// Bytes that a record counts in addition to key and value.
const COUNTED_BYTES: u64 = 64;

/// An open database. Threads share it.
pub struct Store {
    db: Db,
    spaces: [Keyspace; SPACES.len()],
    record_bytes_max: u64,
}

fn settings(row: &Row) -> Settings {
    options::apply(FACTORS, row, Settings::new())
}

/// The options of a keyspace. Its layout, and the operator of [`Space::Counts`], stay those of the
/// row with which it was made.
fn of_keyspace(space: Space, settings: &Settings, is_new: bool) -> KeyspaceOptions {
    let own = settings.keyspace.clone();
    let own = match settings.layout.filter(|_| is_new) {
        Some(layout) => own.layout(layout),
        None => own,
    };
    match (space, settings.ttl) {
        (Space::Until, Some(ttl)) => own.ttl(ttl),
        (Space::Counts | Space::Fresh, _) if is_new => own.merge_operator(settings.merges),
        _ => own,
    }
}

/// All keyspaces, with the options of a row.
fn keyspaces(db: &Db, settings: Option<&Settings>) -> Answer<[Keyspace; SPACES.len()]> {
    let open = |space: Space| {
        let is_new = !db.keyspace_exists(space.name());
        let Some(settings) = settings else {
            return db.keyspace(space.name());
        };
        let own = of_keyspace(space, settings, is_new);
        if is_new {
            return db.keyspace_with(space.name(), &own);
        }
        let keyspace = db.keyspace(space.name())?;
        keyspace.set_options(&own)?;
        Ok(keyspace)
    };
    let [a, b, c, d, e] = SPACES.map(open);
    Ok([a?, b?, c?, d?, e?])
}

/// The most bytes of a record: a quarter of the budget. A batch may have 64 budgets.
fn budget_part(db: &Db) -> u64 {
    db.batch().counted_bytes_max() / (64 * 4) - COUNTED_BYTES
}

impl Store {
    fn space(&self, space: Space) -> &Keyspace {
        &self.spaces[space as usize]
    }

    fn add(&self, batch: &mut Batch, write: &Write) {
        match write {
            Write::Put(space, key, content, lasting) => {
                let (space, value) = (self.space(*space), content.bytes());
                match lasting {
                    Lasting::Plain => batch.put(space, key, value),
                    Lasting::For(millis) => {
                        batch.put_with_ttl(space, key, value, Duration::from_millis(*millis))
                    }
                    Lasting::Until(millis) => batch.put_expiring_at(space, key, value, at(*millis)),
                }
            }
            Write::Delete(space, key) => batch.delete(self.space(*space), key),
            Write::SingleDelete(space, key) => batch.single_delete(self.space(*space), key),
            Write::DeleteRange(space, low, high) => {
                batch.delete_range::<&[u8]>(self.space(*space), between(low, Some(high)))
            }
            Write::Merge(space, key, operand) => batch.merge(self.space(*space), key, operand),
        };
    }

    fn add_to(&self, transaction: &mut Transaction, write: &Write) -> Answer<()> {
        match write {
            Write::Put(space, key, content, lasting) => {
                let (space, value) = (self.space(*space), content.bytes());
                match lasting {
                    Lasting::Plain => transaction.put(space, key, value),
                    Lasting::For(millis) => {
                        let ttl = Duration::from_millis(*millis);
                        transaction.put_with_ttl(space, key, value, ttl)
                    }
                    Lasting::Until(millis) => {
                        transaction.put_expiring_at(space, key, value, at(*millis))
                    }
                }
            }
            Write::Delete(space, key) => transaction.delete(self.space(*space), key),
            Write::SingleDelete(space, key) => transaction.single_delete(self.space(*space), key),
            Write::DeleteRange(space, low, high) => {
                transaction.delete_range::<&[u8]>(self.space(*space), between(low, Some(high)))
            }
            Write::Merge(space, key, operand) => {
                transaction.merge(self.space(*space), key, operand)
            }
        }
    }
}

fn number(value: Option<Value>) -> Answer<u64> {
    let number = value.and_then(|value| Some(u64::from_le_bytes((*value).try_into().ok()?)));
    number.ok_or_else(|| Error::new(ErrorKind::Corruption, "an account without a balance"))
}

impl Store {
    /// The facts of a row.
    pub fn said(row: &Row) -> Said {
        let settings = settings(row);
        Said {
            durability: settings.durability,
            ttl: settings.ttl.map(|ttl| ttl.as_millis() as u64),
            merges: settings.merges,
            read_only: settings.read_only,
        }
    }

    /// Kept databases of earlier formats: texts of their files, and their content.
    pub fn kept() -> Vec<Kept> {
        kept::all()
    }

    /// Opens a database with a row's options. All keyspaces are there then, or are made, with the
    /// row's options of keyspaces.
    ///
    /// # Errors
    /// The engine's.
    pub fn open(dir: &Path, row: &Row, clock: &Arc<Clock>, how: How) -> Answer<Store> {
        let settings = settings(row);
        let options = settings.options.clone();
        let options = options.advanced(|advanced| advanced.wall_clock(clock.clone()));
        let options = match how {
            How::First => options.create_if_missing(true),
            How::Again => options,
            How::ReadOnly => options.read_only(true),
        };
        let db = options.open(dir)?;
        let settings = (how != How::ReadOnly).then_some(&settings);
        Ok(Store {
            spaces: keyspaces(&db, settings)?,
            record_bytes_max: budget_part(&db),
            db,
        })
    }

    /// Opens a database with the same options each time. The default keyspace has chunks, and all
    /// others have guards.
    ///
    /// # Errors
    /// The engine's.
    pub fn open_standard(dir: &Path, clock: &Arc<Clock>) -> Answer<Store> {
        let settings = Settings {
            layout: Some(Layout::Guards),
            ..Settings::new()
        };
        let options = settings.options.clone().workers(2);
        let options = options.advanced(|advanced| advanced.wall_clock(clock.clone()));
        let db = options.open(dir)?;
        Ok(Store {
            spaces: keyspaces(&db, Some(&settings))?,
            record_bytes_max: budget_part(&db),
            db,
        })
    }

    /// Drops a keyspace and makes it anew.
    ///
    /// # Errors
    /// The engine's.
    pub fn remake(&mut self, space: Space, row: &Row) -> Answer<()> {
        self.db.drop_keyspace(space.name())?;
        let own = of_keyspace(space, &settings(row), true);
        self.spaces[space as usize] = self.db.keyspace_with(space.name(), &own)?;
        Ok(())
    }

    /// One write.
    ///
    /// # Errors
    /// The engine's.
    pub fn write(&self, write: &Write) -> Answer<()> {
        match write {
            Write::Put(space, key, content, lasting) => {
                let (space, value) = (self.space(*space), content.bytes());
                match lasting {
                    Lasting::Plain => space.put(key, value),
                    Lasting::For(millis) => {
                        space.put_with_ttl(key, value, Duration::from_millis(*millis))
                    }
                    Lasting::Until(millis) => space.put_expiring_at(key, value, at(*millis)),
                }
            }
            Write::Delete(space, key) => self.space(*space).delete(key),
            Write::SingleDelete(space, key) => self.space(*space).single_delete(key),
            Write::DeleteRange(space, low, high) => self
                .space(*space)
                .delete_range::<&[u8]>(between(low, Some(high))),
            Write::Merge(space, key, operand) => self.space(*space).merge(key, operand),
        }
    }

    /// Writes that take effect together.
    ///
    /// # Errors
    /// The engine's.
    pub fn batch(&self, writes: &[Write], raised: bool) -> Answer<()> {
        let mut batch = self.db.batch();
        for write in writes {
            self.add(&mut batch, write);
        }
        if raised {
            batch.durability(Durability::Sync);
        }
        batch.commit()
    }

    /// Makes the writes in a transaction that gets keys first. Returns what it got.
    ///
    /// # Errors
    /// The engine's.
    pub fn transact(
        &self,
        gets: &[(Space, Vec<u8>)],
        writes: &[Write],
    ) -> Answer<Vec<Option<Vec<u8>>>> {
        self.db.transact(|transaction| {
            let got = gets.iter().map(|(space, key)| {
                let value = transaction.get(self.space(*space), key);
                value.map(bytes)
            });
            let got: Answer<Vec<_>> = got.collect();
            for write in writes {
                self.add_to(transaction, write)?;
            }
            got
        })
    }

    /// Moves `amount`, if it is there, from one number to another, both of 8 bytes and in the
    /// default keyspace.
    ///
    /// # Errors
    /// The engine's.
    pub fn transfer(&self, from: &[u8], to: &[u8], amount: u64) -> Answer<()> {
        let space = self.space(Space::Default);
        self.db.transact(|transaction| {
            let there = number(transaction.get(space, from)?)?;
            let other = number(transaction.get(space, to)?)?;
            let amount = amount.min(there);
            transaction.put(space, from, (there - amount).to_le_bytes())?;
            transaction.put(space, to, (other + amount).to_le_bytes())
        })
    }

    /// The number of choices of each factor of its options.
    pub fn sizes() -> Vec<usize> {
        options::sizes(FACTORS)
    }

    /// A row in words.
    pub fn told(row: &Row) -> String {
        options::told(FACTORS, row)
    }

    /// The highest number of bytes of a key with its value.
    pub fn record_bytes_max(&self) -> u64 {
        self.record_bytes_max
    }

    /// One value.
    ///
    /// # Errors
    /// The engine's.
    pub fn get(&self, space: Space, key: &[u8]) -> Answer<Option<Vec<u8>>> {
        self.space(space).get(key).map(bytes)
    }

    /// Several values of one moment.
    ///
    /// # Errors
    /// The engine's.
    pub fn multi_get(&self, space: Space, keys: &[Vec<u8>]) -> Answer<Vec<Option<Vec<u8>>>> {
        let values = self.space(space).multi_get(keys)?;
        Ok(values.into_iter().map(bytes).collect())
    }

    /// Pairs, in the order of keys or in reverse.
    ///
    /// # Errors
    /// The engine's.
    pub fn scan(&self, space: Space, span: &Span) -> Answer<Vec<Pair>> {
        let items = self.space(space).range::<&[u8]>(span.bounds());
        pairs(items, span.backward)
    }

    /// This moment.
    ///
    /// # Errors
    /// The engine's.
    pub fn snapshot(&self) -> Answer<Snapshot> {
        self.db.snapshot()
    }

    /// One value at that moment.
    ///
    /// # Errors
    /// The engine's.
    pub fn get_at(&self, at: &Snapshot, space: Space, key: &[u8]) -> Answer<Option<Vec<u8>>> {
        at.get(self.space(space), key).map(bytes)
    }

    /// Pairs at that moment.
    ///
    /// # Errors
    /// The engine's.
    pub fn scan_at(&self, at: &Snapshot, space: Space, span: &Span) -> Answer<Vec<Pair>> {
        let items = at.range::<&[u8]>(self.space(space), span.bounds());
        pairs(items, span.backward)
    }

    /// Makes all writes that returned durable.
    ///
    /// # Errors
    /// The engine's.
    pub fn persist(&self) -> Answer<()> {
        self.db.persist()
    }

    /// As `persist`, by a checkpoint or flush.
    ///
    /// # Errors
    /// The engine's.
    pub fn flush(&self) -> Answer<()> {
        self.db.flush()
    }

    /// As `flush`, and does all reorganisation that is owed.
    ///
    /// # Errors
    /// The engine's.
    pub fn settle(&self) -> Answer<()> {
        self.db.settle_debt()
    }

    /// Rewrites all data.
    ///
    /// # Errors
    /// The engine's.
    pub fn compact(&self) -> Answer<()> {
        self.db.compact().map(drop)
    }

    /// Closes it.
    ///
    /// # Errors
    /// The engine's.
    pub fn close(self) -> Answer<()> {
        self.db.close()
    }

    /// Compares every byte of a database that nobody has open with its checksums and its structure.
    /// Returns the findings.
    ///
    /// # Errors
    /// The engine's.
    pub fn verify(dir: &Path) -> Answer<Vec<String>> {
        use evendb::inspect::{InspectOptions, verify};
        let report = verify(dir, InspectOptions::new())?;
        Ok(findings(report.is_sound(), &report.findings))
    }

    /// Removes a database that nobody has open.
    ///
    /// # Errors
    /// The engine's.
    pub fn destroy(dir: &Path) -> Answer<()> {
        evendb::destroy(dir)
    }

    /// The work of an idle database.
    ///
    /// # Errors
    /// The engine's.
    pub fn idle(&self) -> Answer<()> {
        self.db.idle_pass().map(drop)
    }

    /// Copies it to a directory that is not there.
    ///
    /// # Errors
    /// The engine's.
    pub fn copy_to(&self, dir: &Path) -> Answer<()> {
        self.db.copy_to(dir).map(drop)
    }

    /// Backs it up, and makes a database from the backup.
    ///
    /// # Errors
    /// The engine's.
    pub fn back_up_and_restore(&self, backups: &Path, into: &Path) -> Answer<()> {
        let made = self.db.backup(backups)?;
        let backups = Backups::at(backups);
        backups.verify(Some(made.number))?;
        backups.restore(Some(made.number), into).map(drop)
    }
}
