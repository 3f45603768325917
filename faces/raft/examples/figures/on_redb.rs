//! redb: the log commits each append durably; the state commits without durability. A commit that
//! is not durable costs as much as one that is, except the sync, so a log does not put first and
//! sync later.

use super::baseline::{Record, Store};
use redb::{Database, Durability, ReadableDatabase, TableDefinition};
use std::io;
use std::path::Path;
use std::sync::Arc;

const RECORDS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("records");

pub struct Redb(Database);

fn failed(error: impl Into<redb::Error>) -> io::Error {
    io::Error::other(error.into())
}

impl Redb {
    /// Makes a database in this directory.
    pub fn open(dir: &Path) -> io::Result<Arc<Redb>> {
        std::fs::create_dir_all(dir)?;
        let db = Redb(Database::create(dir.join("records.redb")).map_err(failed)?);
        db.put(&[], true)?;
        Ok(Arc::new(db))
    }

    fn write(
        &self,
        durability: Durability,
        change: impl FnOnce(
            &mut redb::Table<'_, &'static [u8], &'static [u8]>,
        ) -> Result<(), redb::StorageError>,
    ) -> io::Result<()> {
        let mut write = self.0.begin_write().map_err(failed)?;
        write.set_durability(durability).map_err(failed)?;
        change(&mut write.open_table(RECORDS).map_err(failed)?).map_err(failed)?;
        write.commit().map_err(failed)
    }
}

impl Store for Redb {
    const SYNCS_APART: bool = false;

    fn put(&self, records: &[Record], is_durable: bool) -> io::Result<()> {
        let durability = match is_durable {
            true => Durability::Immediate,
            false => Durability::None,
        };
        self.write(durability, |table| {
            for (key, value) in records {
                table.insert(&key[..], &value[..])?;
            }
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.put(&[], true)
    }

    fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let read = self.0.begin_read().map_err(failed)?;
        let table = read.open_table(RECORDS).map_err(failed)?;
        let value = table.get(key).map_err(failed)?;
        Ok(value.map(|value| value.value().to_vec()))
    }

    fn range(&self, from: &[u8], until: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let read = self.0.begin_read().map_err(failed)?;
        let table = read.open_table(RECORDS).map_err(failed)?;
        let mut found = Vec::new();
        for record in table.range(from..until).map_err(failed)? {
            found.push(record.map_err(failed)?.1.value().to_vec());
        }
        Ok(found)
    }

    fn delete(&self, from: &[u8], until: &[u8]) -> io::Result<()> {
        self.write(Durability::Immediate, |table| {
            table.retain_in(from..until, |_, _| false)
        })
    }

    fn settle(&self) -> io::Result<()> {
        self.sync()
    }
}
