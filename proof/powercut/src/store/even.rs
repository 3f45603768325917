//! The first engine: with value extents, values apart, transactions and backups.

use super::{Level, Look, NAMES, Pair, Put, Space, Store, Transfer, said};
use crate::Result;
use crate::draw::Draw;
use evendb::inspect::InspectOptions;
use evendb::{
    Backups, Compression, Db, Durability, Error, ErrorKind, Keyspace, LogSearch, Options, Snapshot,
};
use std::path::Path;

/// The number of backups that stay.
const KEEP: usize = 3;

/// See the module.
pub struct Even {
    db: Db,
    spaces: [Keyspace; 4],
}

struct Moment<'a> {
    store: &'a Even,
    snapshot: Snapshot,
}

fn options(level: Level, draw: &mut Draw) -> Options {
    let mapped = !draw.one_in(3);
    let options = Options::new()
        .memory_budget(1 << 20)
        .durability(level.durability())
        .workers(1)
        .advanced(|advanced| {
            advanced
                .commit_log_bytes(64 << 10)
                .chunk_bytes(2048)
                .block_bytes(256)
                .commit_log_mapped(mapped)
        });
    // In three of four openings, values of at least some length lie apart.
    let apart = draw.of(&[None, Some(20), Some(60), Some(600)]);
    let options = match apart {
        None => options,
        apart => options.advanced(|advanced| {
            advanced
                .values_apart_from(apart)
                .value_file_bytes(4096)
                .value_file_live_percent(60)
        }),
    };
    match draw.below(5) {
        0 => options.advanced(|advanced| advanced.munks(false)),
        1 => options.compression(Compression::Lz4),
        2 => options.advanced(|advanced| advanced.log_search(LogSearch::Bloom { split_factor: 4 })),
        _ => options,
    }
}

fn balance(value: Option<evendb::Value>) -> evendb::Result<u64> {
    let number = value.and_then(|value| Some(u64::from_le_bytes((*value).try_into().ok()?)));
    number.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "an account without a balance"))
}

impl Even {
    fn space(&self, space: Space) -> &Keyspace {
        &self.spaces[space as usize]
    }
}

impl Look for Moment<'_> {
    fn pairs(&self, space: Space, prefix: &str) -> Result<Vec<Pair>> {
        let pairs = self.snapshot.prefix(self.store.space(space), prefix);
        let pair = |item: evendb::Result<(evendb::Value, evendb::Value)>| {
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

impl Store for Even {
    const TRANSACTS: bool = true;

    fn open(dir: &Path, level: Level, draw: &mut Draw) -> Result<Even> {
        let db = options(level, draw).open(dir).map_err(said)?;
        let [mirror, bank, after] = NAMES.map(|name| db.keyspace(name).map_err(said));
        let spaces = [db.default_keyspace().clone(), mirror?, bank?, after?];
        Ok(Even { db, spaces })
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
            batch.durability(Durability::Sync);
        }
        batch.commit().map_err(said)
    }

    fn transfer(&self, transfer: Transfer<'_>, puts: &[Put<'_>], raised: bool) -> Result<()> {
        let bank = self.space(Space::Bank);
        let done = self.db.transact(|transaction| {
            if raised {
                transaction.durability(Durability::Sync);
            }
            let from = balance(transaction.get(bank, transfer.from)?)?;
            let to = balance(transaction.get(bank, transfer.to)?)?;
            let amount = transfer.amount.min(from);
            transaction.put(bank, transfer.from, (from - amount).to_le_bytes())?;
            transaction.put(bank, transfer.to, (to + amount).to_le_bytes())?;
            for (space, key, value) in puts {
                transaction.put(self.space(*space), key, value)?;
            }
            Ok::<_, Error>(())
        });
        done.map_err(said)
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

    fn backup(&self, dir: &Path) -> Result<Option<u64>> {
        let made = self.db.backup(dir).map_err(said)?;
        Backups::at(dir).prune(KEEP).map_err(said)?;
        Ok(Some(made.number))
    }

    fn close(self) -> Result<()> {
        self.db.close().map_err(said)
    }

    fn verify(dir: &Path) -> Result<()> {
        let report = evendb::inspect::verify(dir, InspectOptions::new()).map_err(said)?;
        match report.is_sound() {
            true => Ok(()),
            false => Err(format!("verify: {:?}", report.findings)),
        }
    }

    fn restore(dir: &Path, into: &Path) -> Result<Option<u64>> {
        if !dir.exists() {
            return Ok(None);
        }
        let backups = Backups::at(dir);
        let listed = backups.list().map_err(said)?;
        for info in &listed {
            if let Some(damage) = &info.damage {
                return Err(format!("backup {}: {damage}", info.number));
            }
            backups.verify(Some(info.number)).map_err(said)?;
        }
        match listed.last() {
            None => Ok(None),
            Some(last) => {
                let number = backups.restore(Some(last.number), into);
                number.map(Some).map_err(said)
            }
        }
    }
}
