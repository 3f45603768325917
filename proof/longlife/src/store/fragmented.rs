//! The second engine. Calls that it lacks are refused here, and never made ([`Store::RICH`]).

use super::fragmented_options::{FACTORS, Settings};
use super::{Answer, How, Pair, Said, Span, Store, bytes, findings, pairs};
use crate::covering::Row;
use crate::kept::{self, Kept};
use crate::options;
use crate::oracle::{Lasting, SPACES, Space, Write};
use crate::time::Clock;
use evendb::{Durability, Error, ErrorKind, Merges};
use evendb_flsm::{Db, Keyspace, Snapshot};
use std::path::Path;
use std::sync::Arc;

/// See the module.
pub struct Fragmented {
    db: Db,
    spaces: [Keyspace; SPACES.len()],
    record_bytes_max: u64,
}

fn settings(row: &Row) -> Settings {
    options::apply(FACTORS, row, Settings::new())
}

fn keyspaces(db: &Db) -> Answer<[Keyspace; SPACES.len()]> {
    let [a, b, c, d, e] = SPACES.map(|space| db.keyspace(space.name()));
    Ok([a?, b?, c?, d?, e?])
}

fn lacks(what: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("the second engine has no {what}"),
    )
}

impl Fragmented {
    fn space(&self, space: Space) -> &Keyspace {
        &self.spaces[space as usize]
    }
}

impl Store for Fragmented {
    const NAME: &'static str = "flsm";
    const RICH: bool = false;
    type Snapshot = Snapshot;

    fn said(row: &Row) -> Said {
        let settings = settings(row);
        Said {
            durability: settings.durability,
            ttl: None,
            merges: Merges::AddU64,
            read_only: settings.read_only,
        }
    }

    fn kept() -> Vec<Kept> {
        kept::of_fragmented()
    }

    fn open(dir: &Path, row: &Row, _: &Arc<Clock>, how: How) -> Answer<Fragmented> {
        let options = settings(row).options;
        let options = match how {
            How::First => options.create_if_missing(true),
            How::Again => options,
            How::ReadOnly => options.read_only(true),
        };
        let db = options.open(dir)?;
        // A quarter of the budget.
        let record_bytes_max = db.stats().memory_budget / 4 - 64;
        Ok(Fragmented {
            spaces: keyspaces(&db)?,
            record_bytes_max,
            db,
        })
    }

    fn open_standard(dir: &Path, _: &Arc<Clock>) -> Answer<Fragmented> {
        let db = Settings::new().options.open(dir)?;
        Ok(Fragmented {
            spaces: keyspaces(&db)?,
            record_bytes_max: 1 << 20,
            db,
        })
    }

    fn remake(&mut self, space: Space, _: &Row) -> Answer<()> {
        self.db.drop_keyspace(space.name())?;
        self.spaces[space as usize] = self.db.keyspace(space.name())?;
        Ok(())
    }

    fn write(&self, write: &Write) -> Answer<()> {
        match write {
            Write::Put(space, key, content, Lasting::Plain) => {
                self.space(*space).put(key, content.bytes())
            }
            Write::Delete(space, key) => self.space(*space).delete(key),
            _ => Err(lacks("such write")),
        }
    }

    fn batch(&self, writes: &[Write], raised: bool) -> Answer<()> {
        let mut batch = self.db.batch();
        for write in writes {
            match write {
                Write::Put(space, key, content, Lasting::Plain) => {
                    batch.put(self.space(*space), key, content.bytes())
                }
                Write::Delete(space, key) => batch.delete(self.space(*space), key),
                _ => return Err(lacks("such write")),
            };
        }
        if raised {
            batch.durability(Durability::Sync);
        }
        batch.commit()
    }

    fn transact(&self, _: &[(Space, Vec<u8>)], _: &[Write]) -> Answer<Vec<Option<Vec<u8>>>> {
        Err(lacks("transactions"))
    }

    fn transfer(&self, _: &[u8], _: &[u8], _: u64) -> Answer<()> {
        Err(lacks("transactions"))
    }

    same_calls!(evendb_flsm);

    fn idle(&self) -> Answer<()> {
        self.db.settle_debt()
    }

    fn copy_to(&self, _: &Path) -> Answer<()> {
        Err(lacks("copies"))
    }

    fn back_up_and_restore(&self, _: &Path, _: &Path) -> Answer<()> {
        Err(lacks("backups"))
    }
}
