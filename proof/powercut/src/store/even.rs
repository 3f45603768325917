//! The first engine: with value extents, values apart, transactions and backups.

use super::{Level, Look, NAMES, Pair, Put, Space, Store, Transfer, said};
use crate::Result;
use crate::draw::Draw;
use evendb::{Backups, Compression, Durability, Error, ErrorKind, LogSearch, Options};
use std::path::Path;

/// The number of backups that stay.
const KEEP: usize = 3;

opened!(evendb: Even);

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

impl Store for Even {
    const TRANSACTS: bool = true;

    same_calls!(evendb);

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

    fn backup(&self, dir: &Path) -> Result<Option<u64>> {
        let made = self.db.backup(dir).map_err(said)?;
        Backups::at(dir).prune(KEEP).map_err(said)?;
        Ok(Some(made.number))
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
