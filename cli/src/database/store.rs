//! The database that a command has open, of either engine, and the keyspace of the command.
//!
//! [`Store`] has what both engines can do, so a command that needs no more is written once. For
//! what only the first engine can do, a command asks [`evendb::Keyspace`] itself; `open.rs` gives
//! it one, or the reason why not.

use std::ops::{Bound, Deref};
use std::time::{Duration, SystemTime};

use evendb::{EngineKind, Error, ErrorKind, RangeSize};

/// A range of keys; an inverted one is empty.
pub type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// An open database, and one of its keyspaces.
pub enum Store {
    EvenDb {
        db: evendb::Db,
        keyspace: evendb::Keyspace,
    },
    Flsm {
        db: evendb_flsm::Db,
        keyspace: evendb_flsm::Keyspace,
    },
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

fn no_expiry() -> Error {
    let message = "the engine flsm has no values that expire";
    Error::new(ErrorKind::Unsupported, message)
}

/// A call that has the same name in both engines, on the database or the keyspace of a store.
macro_rules! on_either {
    ($store:ident, $part:ident => $call:expr) => {
        match $store {
            Store::EvenDb { $part, .. } => $call,
            Store::Flsm { $part, .. } => $call,
        }
    };
}

impl Store {
    /// The database, with its default keyspace.
    pub fn of_evendb(db: evendb::Db) -> Store {
        let keyspace = db.default_keyspace().clone();
        Store::EvenDb { db, keyspace }
    }

    /// A database of the second engine, with its default keyspace.
    pub fn of_flsm(db: evendb_flsm::Db) -> Store {
        let keyspace = db.default_keyspace().clone();
        Store::Flsm { db, keyspace }
    }

    pub fn engine(&self) -> EngineKind {
        match self {
            Store::EvenDb { .. } => EngineKind::EvenDb,
            Store::Flsm { .. } => EngineKind::Flsm,
        }
    }

    /// The keyspace's name.
    pub fn keyspace_name(&self) -> &str {
        on_either!(self, keyspace => keyspace.name())
    }

    /// Names of all keyspaces.
    pub fn keyspace_names(&self) -> Vec<String> {
        on_either!(self, db => db.keyspace_names())
    }

    /// Whether there is a keyspace of this name.
    pub fn keyspace_exists(&self, name: &str) -> bool {
        on_either!(self, db => db.keyspace_exists(name))
    }

    /// The same database with another keyspace, which is made if it is not there.
    pub fn at_keyspace(&self, name: &str) -> evendb::Result<Store> {
        Ok(match self {
            Store::EvenDb { db, .. } => Store::EvenDb {
                keyspace: db.keyspace(name)?,
                db: db.clone(),
            },
            Store::Flsm { db, .. } => Store::Flsm {
                keyspace: db.keyspace(name)?,
                db: db.clone(),
            },
        })
    }

    pub fn get(&self, key: &[u8]) -> evendb::Result<Option<Value>> {
        Ok(match self {
            Store::EvenDb { keyspace, .. } => keyspace.get(key)?.map(Value::EvenDb),
            Store::Flsm { keyspace, .. } => keyspace.get(key)?.map(Value::Flsm),
        })
    }

    pub fn put(&self, key: &[u8], value: &[u8], expiry: Expiry) -> evendb::Result<()> {
        match self {
            Store::EvenDb { keyspace, .. } => match expiry {
                Expiry::Keyspaces => keyspace.put(key, value),
                Expiry::After(ttl) => keyspace.put_with_ttl(key, value, ttl),
                Expiry::At(at) => keyspace.put_expiring_at(key, value, at),
            },
            Store::Flsm { keyspace, .. } => match expiry {
                Expiry::Keyspaces => keyspace.put(key, value),
                Expiry::After(_) | Expiry::At(_) => Err(no_expiry()),
            },
        }
    }

    pub fn delete(&self, key: &[u8]) -> evendb::Result<()> {
        on_either!(self, keyspace => keyspace.delete(key))
    }

    /// Records of a range, at most `limit` of them. Without their values if nobody uses them.
    pub fn cursor(&self, range: Range, limit: Option<u64>, keys_only: bool) -> Cursor {
        match self {
            Store::EvenDb { keyspace, .. } => {
                let mut cursor = keyspace.cursor(range);
                if let Some(limit) = limit {
                    cursor = cursor.limit_hint(limit);
                }
                match keys_only {
                    true => Cursor::EvenDbKeys(cursor.keys_only()),
                    false => Cursor::EvenDb(cursor),
                }
            }
            Store::Flsm { keyspace, .. } => {
                let cursor = keyspace.cursor(range);
                match keys_only {
                    true => Cursor::FlsmKeys(cursor.keys_only()),
                    false => Cursor::Flsm(cursor),
                }
            }
        }
    }

    /// All records.
    pub fn all(&self) -> Cursor {
        self.cursor((Bound::Unbounded, Bound::Unbounded), None, false)
    }

    /// About how much a range holds.
    pub fn approximate_size(&self, range: Range) -> evendb::Result<RangeSize> {
        on_either!(self, keyspace => keyspace.approximate_size(range))
    }

    /// A property of the keyspace. The second engine keeps none.
    pub fn property(&self, name: &str) -> evendb::Result<Option<Vec<u8>>> {
        match self {
            Store::EvenDb { keyspace, .. } => keyspace.property(name),
            Store::Flsm { .. } => Ok(None),
        }
    }

    /// Drops the keyspace with all that it has.
    pub fn drop_keyspace(&self, name: &str) -> evendb::Result<()> {
        on_either!(self, db => db.drop_keyspace(name))
    }

    /// Whether the keyspace has no records.
    pub fn is_empty(&self) -> evendb::Result<bool> {
        let all = (Bound::Unbounded, Bound::Unbounded);
        Ok(self.cursor(all, Some(1), true).next()?.is_none())
    }

    /// A new, empty batch for the keyspace.
    pub fn batch(&self) -> Batch<'_> {
        match self {
            Store::EvenDb { db, keyspace } => Batch::EvenDb(Box::new(db.batch()), keyspace),
            Store::Flsm { db, keyspace } => Batch::Flsm(db.batch(), keyspace),
        }
    }

    /// Makes everything that was written durable.
    pub fn persist(&self) -> evendb::Result<()> {
        on_either!(self, db => db.persist())
    }

    /// Closes the database.
    pub fn close(self) -> evendb::Result<()> {
        on_either!(self, db => db.close())
    }
}

/// A value that was read.
pub enum Value {
    EvenDb(evendb::Value),
    Flsm(evendb_flsm::Value),
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Value::EvenDb(value) => value,
            Value::Flsm(value) => value,
        }
    }
}

/// A key, and its value if somebody uses it.
pub type Record<'a> = (&'a [u8], Option<&'a [u8]>);

/// Goes over records from either end.
pub enum Cursor {
    EvenDb(evendb::Cursor),
    EvenDbKeys(evendb::KeyCursor),
    Flsm(evendb_flsm::Cursor),
    FlsmKeys(evendb_flsm::KeyCursor),
}

impl Cursor {
    pub fn next(&mut self) -> evendb::Result<Option<Record<'_>>> {
        Ok(match self {
            Cursor::EvenDb(cursor) => cursor.next()?.map(whole),
            Cursor::EvenDbKeys(cursor) => cursor.next()?.map(key_alone),
            Cursor::Flsm(cursor) => cursor.next()?.map(whole),
            Cursor::FlsmKeys(cursor) => cursor.next()?.map(key_alone),
        })
    }

    pub fn next_back(&mut self) -> evendb::Result<Option<Record<'_>>> {
        Ok(match self {
            Cursor::EvenDb(cursor) => cursor.next_back()?.map(whole),
            Cursor::EvenDbKeys(cursor) => cursor.next_back()?.map(key_alone),
            Cursor::Flsm(cursor) => cursor.next_back()?.map(whole),
            Cursor::FlsmKeys(cursor) => cursor.next_back()?.map(key_alone),
        })
    }
}

fn whole<'a>((key, value): (&'a [u8], &'a [u8])) -> Record<'a> {
    (key, Some(value))
}

fn key_alone(key: &[u8]) -> Record<'_> {
    (key, None)
}

/// Puts that happen together.
pub enum Batch<'k> {
    EvenDb(Box<evendb::Batch>, &'k evendb::Keyspace),
    Flsm(evendb_flsm::Batch, &'k evendb_flsm::Keyspace),
}

impl Batch<'_> {
    /// Asks for no more than the database's level, and for less if possible: a checkpoint makes the
    /// batch durable.
    pub fn relaxed(&mut self) {
        match self {
            Batch::EvenDb(batch, _) => {
                batch.durability(evendb::Durability::Relaxed);
            }
            // Its level is the lowest one.
            Batch::Flsm(..) => {}
        }
    }

    pub fn put(&mut self, key: &[u8], value: &[u8], expiry: Expiry) -> evendb::Result<()> {
        match self {
            Batch::EvenDb(batch, keyspace) => {
                match expiry {
                    Expiry::Keyspaces => batch.put(keyspace, key, value),
                    Expiry::After(ttl) => batch.put_with_ttl(keyspace, key, value, ttl),
                    Expiry::At(at) => batch.put_expiring_at(keyspace, key, value, at),
                };
                Ok(())
            }
            Batch::Flsm(batch, keyspace) => match expiry {
                Expiry::Keyspaces => {
                    batch.put(keyspace, key, value);
                    Ok(())
                }
                Expiry::After(_) | Expiry::At(_) => Err(no_expiry()),
            },
        }
    }

    pub fn commit(self) -> evendb::Result<()> {
        match self {
            Batch::EvenDb(batch, _) => batch.commit(),
            Batch::Flsm(batch, _) => batch.commit(),
        }
    }
}
