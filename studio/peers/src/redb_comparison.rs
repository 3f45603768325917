//! EvenDB as redb's own program of comparisons asks for a store: what stands behind our columns of
//! the table in `docs/peers.md`.
//!
//! That program, in redb's repository, has a family of traits for stores. The traits are redb's and
//! are not here. Each type below has the methods of one of them, under the same names, so an
//! implementation of the traits is one line for each method. The types need nothing but EvenDB, so
//! a build beside the program can take this file alone.
//!
//! | here | for the program | is |
//! |---|---|---|
//! | [`Database`] | the database | an open database, its default keyspace |
//! | [`Connection`] | the connection | a reference, and whether commits sync |
//! | [`WriteTransaction`] | the write transaction | a [`Transaction`] or an [`Ingest`] |
//! | [`ReadTransaction`] | the read transaction | a [`Snapshot`] |
//! | [`Inserter`], [`Reader`] | a transaction's table | a reference to that |
//!
//! | asked | call |
//! |---|---|
//! | a commit that syncs | [`Durability::Sync`] for that transaction |
//! | a commit that does not | [`Durability::Process`], the default |
//! | the number of records | all keys are counted: no such number is kept |
//! | sorted pairs above all others | an ingest, shown by the commit |
//! | a pop | the first or last item of [`Transaction::range`], and a delete |
//! | `retain`, `extract_if` | a scan of the transaction, then a delete for each record |
//! | compaction | [`Db::compact`] |
//!
//! A scan of a transaction passes over the records that it has deleted. A pop does not look at what
//! earlier pops of its transaction have taken: it begins where they ended.
//!
//! Thread safety: as the types of EvenDB; a connection may go to another thread. Not here: the
//! loads, their sizes, and the traits.

use std::ops::Bound;
use std::path::Path;
use std::vec::IntoIter;

use evendb::{
    Cursor, Db, Durability, Error, Ingest, Keyspace, Layout, Options, Snapshot, Transaction, Value,
};

/// Why a call was refused.
#[derive(Debug)]
pub enum Refusal {
    /// EvenDB's own error.
    Store(Error),
    /// The transaction has taken sorted pairs, so it is an ingest, which does nothing else.
    IsIngest,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Store(error)
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Store(error) => error.fmt(f),
            Refusal::IsIngest => f.write_str("a transaction of sorted pairs takes no other write"),
        }
    }
}

impl std::error::Error for Refusal {}

/// The outcome of a call.
pub type Result<T> = std::result::Result<T, Refusal>;

/// An open database.
pub struct Database {
    db: Db,
}

impl Database {
    /// Opens or makes a database in this directory. Everything but the layout and the memory
    /// budget, in bytes, is as it comes.
    ///
    /// # Errors
    /// Those of [`Options::open`].
    pub fn open(path: &Path, layout: Layout, memory_budget: u64) -> Result<Database> {
        let options = Options::new().layout(layout).memory_budget(memory_budget);
        let db = options.open(path)?;
        Ok(Database { db })
    }

    /// A connection, whose commits sync.
    #[must_use]
    pub fn connect(&self) -> Connection<'_> {
        Connection {
            db: &self.db,
            sync: true,
        }
    }

    /// Makes the files as small as they can be.
    ///
    /// # Errors
    /// Those of [`Db::compact`].
    pub fn compact(&mut self) -> Result<()> {
        self.db.compact()?;
        Ok(())
    }

    /// Closes the database, so that an error of the last checkpoint is told.
    ///
    /// # Errors
    /// Those of [`Db::close`].
    pub fn close(self) -> Result<()> {
        Ok(self.db.close()?)
    }
}

/// A place from which transactions begin.
#[derive(Clone, Copy)]
pub struct Connection<'db> {
    db: &'db Db,
    sync: bool,
}

impl<'db> Connection<'db> {
    /// Whether later commits sync.
    pub fn set_sync(&mut self, sync: bool) {
        self.sync = sync;
    }

    /// Begins a transaction that writes.
    ///
    /// # Errors
    /// Those of [`Db::transaction`].
    pub fn write_transaction(&self) -> Result<WriteTransaction<'db>> {
        let mut transaction = self.db.transaction()?;
        if self.sync {
            transaction.durability(Durability::Sync);
        }
        Ok(WriteTransaction {
            records: self.db.default_keyspace(),
            transaction,
            ingest: None,
            popped: Popped::default(),
        })
    }

    /// Begins a transaction that reads.
    ///
    /// # Errors
    /// Those of [`Db::snapshot`].
    pub fn read_transaction(&self) -> Result<ReadTransaction<'db>> {
        Ok(ReadTransaction {
            records: self.db.default_keyspace(),
            snapshot: self.db.snapshot()?,
        })
    }
}

/// How far pops have come: the transaction sees no record up to `through`, and none from `from` on.
#[derive(Default)]
struct Popped {
    through: Option<Box<[u8]>>,
    from: Option<Box<[u8]>>,
}

impl Popped {
    /// The keys among which the next pop looks.
    fn rest(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        fn excluded(key: Option<&[u8]>) -> Bound<&[u8]> {
            key.map_or(Bound::Unbounded, Bound::Excluded)
        }
        (
            excluded(self.through.as_deref()),
            excluded(self.from.as_deref()),
        )
    }

    /// A put of this key makes the claim of that end untrue.
    fn put(&mut self, key: &[u8]) {
        if self
            .through
            .as_deref()
            .is_some_and(|through| key <= through)
        {
            self.through = None;
        }
        if self.from.as_deref().is_some_and(|from| key >= from) {
            self.from = None;
        }
    }
}

/// Writes that take effect together. Dropped without a commit, it has written nothing.
pub struct WriteTransaction<'db> {
    records: &'db Keyspace,
    transaction: Transaction,
    /// Sorted pairs that the commit shows. While it is there, nothing else is written.
    ingest: Option<Ingest>,
    popped: Popped,
}

impl<'db> WriteTransaction<'db> {
    /// The table that the transaction changes.
    pub fn get_inserter(&mut self) -> Inserter<'_, 'db> {
        Inserter(self)
    }

    /// Makes all writes visible, durably if the connection syncs.
    ///
    /// # Errors
    /// Those of [`Transaction::commit`] and of [`Ingest::finish`].
    pub fn commit(self) -> Result<()> {
        match self.ingest {
            // Durable on return at each level.
            Some(ingest) => drop(ingest.finish()?),
            None => self.transaction.commit()?,
        }
        Ok(())
    }

    /// The transaction, unless it is an ingest.
    fn usual(&mut self) -> Result<&mut Transaction> {
        match self.ingest {
            Some(_) => Err(Refusal::IsIngest),
            None => Ok(&mut self.transaction),
        }
    }
}

/// Which end of the records.
#[derive(Clone, Copy)]
enum End {
    First,
    Last,
}

/// The table of a write transaction. It reads what the transaction has written.
pub struct Inserter<'txn, 'db>(&'txn mut WriteTransaction<'db>);

impl Inserter<'_, '_> {
    /// Puts a pair.
    ///
    /// # Errors
    /// Those of [`Transaction::put`], and [`Refusal::IsIngest`], as all others here.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let records = self.0.records;
        self.0.usual()?.put(records, key, value)?;
        self.0.popped.put(key);
        Ok(())
    }

    /// Puts pairs whose keys ascend and are above all others. If the transaction has written
    /// nothing before, it is an ingest from now on: the pairs go into sorted tables, and neither
    /// the commit log nor memory holds them.
    ///
    /// # Errors
    /// Those of [`Keyspace::begin_ingest`], [`Ingest::put`] and [`Transaction::put`].
    pub fn insert_sorted<'i>(
        &mut self,
        pairs: impl Iterator<Item = (&'i [u8], &'i [u8])>,
    ) -> Result<()> {
        if !self.0.transaction.is_empty() {
            for (key, value) in pairs {
                self.insert(key, value)?;
            }
            return Ok(());
        }
        let mut ingest = match self.0.ingest.take() {
            Some(ingest) => ingest,
            None => self.0.records.begin_ingest()?,
        };
        for (key, value) in pairs {
            ingest.put(key, value)?;
        }
        self.0.ingest = Some(ingest);
        Ok(())
    }

    /// Removes the record of a key, if there is one.
    ///
    /// # Errors
    /// Those of [`Transaction::delete`].
    pub fn remove(&mut self, key: &[u8]) -> Result<()> {
        let records = self.0.records;
        Ok(self.0.usual()?.delete(records, key)?)
    }

    /// Removes the record with the least key, and returns it.
    ///
    /// # Errors
    /// Those of [`Transaction::range`] and [`Transaction::delete`].
    pub fn pop_first(&mut self) -> Result<Option<(Value, Value)>> {
        self.pop(End::First)
    }

    /// Removes the record with the greatest key, and returns it.
    ///
    /// # Errors
    /// As [`pop_first`](Self::pop_first).
    pub fn pop_last(&mut self) -> Result<Option<(Value, Value)>> {
        self.pop(End::Last)
    }

    fn pop(&mut self, end: End) -> Result<Option<(Value, Value)>> {
        self.0.usual()?;
        let WriteTransaction {
            records,
            transaction,
            popped,
            ..
        } = &mut *self.0;
        let found = {
            let rest = transaction.range::<&[u8]>(records, popped.rest())?;
            let mut rest = rest.limit(1);
            match end {
                End::First => rest.next(),
                End::Last => rest.next_back(),
            }
        };
        let Some((key, value)) = found.transpose()? else {
            return Ok(None);
        };
        transaction.delete(records, &*key)?;
        match end {
            End::First => popped.through = Some(Box::from(&*key)),
            End::Last => popped.from = Some(Box::from(&*key)),
        }
        Ok(Some((key, value)))
    }

    /// Asks `keep` about each record in the order of keys, removes those that it does not keep, and
    /// returns their number.
    ///
    /// # Errors
    /// As [`pop_first`](Self::pop_first).
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8], &[u8]) -> bool) -> Result<u64> {
        let records = self.0.records;
        let transaction = self.0.usual()?;
        let mut gone: Vec<Box<[u8]>> = Vec::new();
        for record in transaction.iter(records)? {
            let (key, value) = record?;
            if !keep(&key, &value) {
                gone.push(Box::from(&*key));
            }
        }
        for key in &gone {
            transaction.delete(records, key)?;
        }
        Ok(gone.len() as u64)
    }

    /// Asks `takes` about each record of a range in the order of keys, removes those that it takes,
    /// and returns them.
    ///
    /// # Errors
    /// As [`pop_first`](Self::pop_first).
    pub fn extract_if(
        &mut self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        mut takes: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<IntoIter<(Value, Value)>> {
        let records = self.0.records;
        let transaction = self.0.usual()?;
        let mut taken = Vec::new();
        for record in transaction.range::<&[u8]>(records, range)? {
            let (key, value) = record?;
            if takes(&key, &value) {
                taken.push((key, value));
            }
        }
        for (key, _) in &taken {
            transaction.delete(records, &**key)?;
        }
        Ok(taken.into_iter())
    }
}

/// Reads of one moment.
pub struct ReadTransaction<'db> {
    records: &'db Keyspace,
    snapshot: Snapshot,
}

impl<'db> ReadTransaction<'db> {
    /// The table that the transaction reads.
    #[must_use]
    pub fn get_reader(&self) -> Reader<'_, 'db> {
        Reader(self)
    }
}

/// The table of a read transaction.
pub struct Reader<'txn, 'db>(&'txn ReadTransaction<'db>);

impl Reader<'_, '_> {
    /// The value of a key.
    ///
    /// # Errors
    /// Those of [`Snapshot::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        Ok(self.0.snapshot.get(self.0.records, key)?)
    }

    /// The records from a key on. The cursor lends each until the next, and has its own errors.
    #[must_use]
    pub fn range_from(&self, start: &[u8]) -> Cursor {
        self.0.snapshot.cursor(self.0.records, start..)
    }

    /// The number of records, which are counted.
    ///
    /// # Errors
    /// Those of [`Cursor::next`].
    #[expect(
        clippy::len_without_is_empty,
        reason = "the program asks for nothing else"
    )]
    pub fn len(&self) -> Result<u64> {
        let all = self.0.snapshot.cursor::<&[u8]>(self.0.records, ..);
        let mut keys = all.keys_only();
        let mut count = 0;
        while keys.next()?.is_some() {
            count += 1;
        }
        Ok(count)
    }
}
