//! The first engine.

use super::even_options::{FACTORS, Settings};
use super::{Answer, How, Pair, Said, Span, Store, between, bytes, findings, pairs};
use crate::covering::Row;
use crate::kept::{self, Kept};
use crate::options;
use crate::oracle::{Lasting, SPACES, Space, Write};
use crate::time::{Clock, at};
use evendb::{
    Backups, Batch, Db, Durability, Error, ErrorKind, Keyspace, KeyspaceOptions, Snapshot,
    Transaction, Value,
};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Bytes that a record counts in addition to key and value.
const COUNTED_BYTES: u64 = 64;

/// See the module.
pub struct Even {
    db: Db,
    spaces: [Keyspace; SPACES.len()],
    record_bytes_max: u64,
}

fn settings(row: &Row) -> Settings {
    options::apply(FACTORS, row, Settings::new())
}

/// The options of a keyspace. The operator of [`Space::Counts`] stays that of the row with which it
/// was made.
fn of_keyspace(space: Space, settings: &Settings, is_new: bool) -> KeyspaceOptions {
    let own = settings.keyspace.clone();
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

fn budget_part(db: &Db) -> u64 {
    db.batch().counted_bytes_max() - COUNTED_BYTES
}

impl Even {
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

impl Store for Even {
    const NAME: &'static str = "evendb";
    const RICH: bool = true;
    type Snapshot = Snapshot;

    fn said(row: &Row) -> Said {
        let settings = settings(row);
        Said {
            durability: settings.durability,
            ttl: settings.ttl.map(|ttl| ttl.as_millis() as u64),
            merges: settings.merges,
            read_only: settings.read_only,
        }
    }

    fn kept() -> Vec<Kept> {
        kept::of_even()
    }

    fn open(dir: &Path, row: &Row, clock: &Arc<Clock>, how: How) -> Answer<Even> {
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
        Ok(Even {
            spaces: keyspaces(&db, settings)?,
            record_bytes_max: budget_part(&db),
            db,
        })
    }

    fn open_standard(dir: &Path, clock: &Arc<Clock>) -> Answer<Even> {
        let settings = Settings::new();
        let options = settings.options.clone().workers(2);
        let options = options.advanced(|advanced| advanced.wall_clock(clock.clone()));
        let db = options.open(dir)?;
        Ok(Even {
            spaces: keyspaces(&db, Some(&settings))?,
            record_bytes_max: budget_part(&db),
            db,
        })
    }

    fn remake(&mut self, space: Space, row: &Row) -> Answer<()> {
        self.db.drop_keyspace(space.name())?;
        let own = of_keyspace(space, &settings(row), true);
        self.spaces[space as usize] = self.db.keyspace_with(space.name(), &own)?;
        Ok(())
    }

    fn write(&self, write: &Write) -> Answer<()> {
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

    fn batch(&self, writes: &[Write], raised: bool) -> Answer<()> {
        let mut batch = self.db.batch();
        for write in writes {
            self.add(&mut batch, write);
        }
        if raised {
            batch.durability(Durability::Sync);
        }
        batch.commit()
    }

    fn transact(
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

    fn transfer(&self, from: &[u8], to: &[u8], amount: u64) -> Answer<()> {
        let space = self.space(Space::Default);
        self.db.transact(|transaction| {
            let there = number(transaction.get(space, from)?)?;
            let other = number(transaction.get(space, to)?)?;
            let amount = amount.min(there);
            transaction.put(space, from, (there - amount).to_le_bytes())?;
            transaction.put(space, to, (other + amount).to_le_bytes())
        })
    }

    same_calls!(evendb);

    fn idle(&self) -> Answer<()> {
        self.db.idle_pass().map(drop)
    }

    fn copy_to(&self, dir: &Path) -> Answer<()> {
        self.db.copy_to(dir).map(drop)
    }

    fn back_up_and_restore(&self, backups: &Path, into: &Path) -> Answer<()> {
        let made = self.db.backup(backups)?;
        let backups = Backups::at(backups);
        backups.verify(Some(made.number))?;
        backups.restore(Some(made.number), into).map(drop)
    }
}
