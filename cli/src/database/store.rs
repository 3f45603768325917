//! The database that a command has open, and the keyspace of the command.

use std::ops::Bound;
use std::time::{Duration, SystemTime};

use evendb::{Db, Durability, Keyspace, Layout};

/// A range of keys; an inverted one is empty.
pub type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// An open database, and one of its keyspaces.
pub struct Store {
    pub db: Db,
    pub keyspace: Keyspace,
}

/// How long a value stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// As the keyspace says. If it says nothing, for ever.
    Keyspaces,
    /// This time, from now on.
    After(Duration),
    At(SystemTime),
}

impl Expiry {
    /// From the arguments `--ttl` and `--until`.
    pub fn of(ttl: Option<Duration>, until: Option<SystemTime>) -> Expiry {
        match (ttl, until) {
            (Some(ttl), _) => Expiry::After(ttl),
            (None, Some(at)) => Expiry::At(at),
            (None, None) => Expiry::Keyspaces,
        }
    }
}

impl Store {
    /// The database, with its default keyspace.
    pub fn of(db: Db) -> Store {
        let keyspace = db.default_keyspace().clone();
        Store { db, keyspace }
    }

    /// The same database with another keyspace, which is made if it is not there.
    pub fn at_keyspace(&self, name: &str) -> evendb::Result<Store> {
        Ok(Store {
            keyspace: self.db.keyspace(name)?,
            db: self.db.clone(),
        })
    }

    /// How the keyspace's records lie on disk, as text.
    pub fn layout(&self) -> evendb::Result<String> {
        let layout = self.option("layout")?;
        Ok(layout.unwrap_or_else(|| Layout::default().to_string()))
    }

    /// An option of its own that the keyspace has, as text.
    pub fn option(&self, name: &str) -> evendb::Result<Option<String>> {
        let options = self.keyspace.options()?;
        let mut chosen = options.chosen();
        Ok(chosen.find_map(|(option, value)| (option == name).then_some(value)))
    }

    pub fn put(&self, key: &[u8], value: &[u8], expiry: Expiry) -> evendb::Result<()> {
        match expiry {
            Expiry::Keyspaces => self.keyspace.put(key, value),
            Expiry::After(ttl) => self.keyspace.put_with_ttl(key, value, ttl),
            Expiry::At(at) => self.keyspace.put_expiring_at(key, value, at),
        }
    }

    /// Puts all of `records` at once, at the relaxed level: a checkpoint makes them durable.
    pub fn put_all<'r>(
        &self,
        records: impl Iterator<Item = (&'r [u8], &'r [u8], Expiry)>,
    ) -> evendb::Result<()> {
        let mut batch = self.db.batch();
        batch.durability(Durability::Relaxed);
        let keyspace = &self.keyspace;
        for (key, value, expiry) in records {
            match expiry {
                Expiry::Keyspaces => batch.put(keyspace, key, value),
                Expiry::After(ttl) => batch.put_with_ttl(keyspace, key, value, ttl),
                Expiry::At(at) => batch.put_expiring_at(keyspace, key, value, at),
            };
        }
        batch.commit()
    }

    /// Records of a range, at most `limit` of them. Without their values if nobody uses them.
    pub fn cursor(&self, range: Range, limit: Option<u64>, keys_only: bool) -> Cursor {
        let mut cursor = self.keyspace.cursor(range);
        if let Some(limit) = limit {
            cursor = cursor.limit_hint(limit);
        }
        match keys_only {
            true => Cursor::Keys(cursor.keys_only()),
            false => Cursor::Whole(cursor),
        }
    }

    /// All records.
    pub fn all(&self) -> Cursor {
        self.cursor((Bound::Unbounded, Bound::Unbounded), None, false)
    }

    /// Whether the keyspace has no records.
    pub fn is_empty(&self) -> evendb::Result<bool> {
        let all = (Bound::Unbounded, Bound::Unbounded);
        Ok(self.cursor(all, Some(1), true).next()?.is_none())
    }
}

/// A key, and its value if somebody uses it.
pub type Record<'a> = (&'a [u8], Option<&'a [u8]>);

/// Goes over records from either end.
pub enum Cursor {
    Whole(evendb::Cursor),
    Keys(evendb::KeyCursor),
}

impl Cursor {
    pub fn next(&mut self) -> evendb::Result<Option<Record<'_>>> {
        Ok(match self {
            Cursor::Whole(cursor) => cursor.next()?.map(whole),
            Cursor::Keys(cursor) => cursor.next()?.map(key_alone),
        })
    }

    pub fn next_back(&mut self) -> evendb::Result<Option<Record<'_>>> {
        Ok(match self {
            Cursor::Whole(cursor) => cursor.next_back()?.map(whole),
            Cursor::Keys(cursor) => cursor.next_back()?.map(key_alone),
        })
    }
}

fn whole<'a>((key, value): (&'a [u8], &'a [u8])) -> Record<'a> {
    (key, Some(value))
}

fn key_alone(key: &[u8]) -> Record<'_> {
    (key, None)
}
