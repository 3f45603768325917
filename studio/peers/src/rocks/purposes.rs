//! RocksDB opened for a purpose of the lab. Everything else is as without a purpose.
//!
//! * counters: its own merge operator `uint64add`. The call is `Merge`.
//! * sorted ingest: no setting. `SstFileWriter` writes files of [`FILE_BYTES`], then
//!   `IngestExternalFile` takes and moves all of them.
//! * values apart: blob files from the given size on, with garbage collection at its defaults, and
//!   no blob cache. The usual calls.
//! * expiry: `DBWithTTL`, and the option `ttl`, so that compactions look for files of that age. The
//!   call is `Put`.
//!
//! Files for an ingest are synced by their writer, and lie in a folder of the database until they
//! are moved. `DBWithTTL` has one time to live for the database, in whole seconds of the system's
//! clock, here rounded up. Expired records are dropped when a compaction comes, and visible until
//! then.

use std::fs;
use std::path::PathBuf;

use evendb_lab::opener::Purpose;
use evendb_lab::purposes::{CountingStore, ExpiringStore, IngestingStore, SortedRecords};
use evendb_lab::store::{StoreError, StoreResult};
use rocksdb::{DB, IngestExternalFileOptions, Options, SstFileWriter};

use super::{Opening, RocksStore};
use crate::failed;

/// Bytes of keys and values of an ingested file: RocksDB's default for a level's first files.
pub const FILE_BYTES: usize = 64 << 20;

impl RocksStore<DB> {
    /// Opens or makes a database for a purpose.
    ///
    /// # Errors
    /// RocksDB's own.
    pub fn open_for(opening: &Opening<'_>, purpose: Purpose) -> StoreResult<Self> {
        let mut options = Options::default();
        if purpose == Purpose::Counters {
            options = options
                .get_options_from_string("merge_operator=uint64add")
                .map_err(failed("open"))?;
        }
        opening.set(&mut options);
        if let Purpose::ValuesApart(from) = purpose {
            options.set_enable_blob_files(true);
            options.set_min_blob_size(from);
            options.set_enable_blob_gc(true);
        }
        let database = match purpose {
            Purpose::Expiry(lifetime) => {
                let seconds = lifetime.real().as_secs_f64().ceil().max(1.0);
                options.set_ttl(seconds as u64);
                let ttl = std::time::Duration::from_secs_f64(seconds);
                DB::open_with_ttl(&options, opening.path, ttl)
            }
            _ => DB::open(&options, opening.path),
        };
        let database = database.map_err(failed("open"))?;
        Ok(Self::new(database, opening, Some(purpose)))
    }

    /// Writes the records into files of [`FILE_BYTES`] each. The last one may be smaller.
    fn write_files(&self, records: &mut SortedRecords<'_>) -> StoreResult<Vec<PathBuf>> {
        let folder = self.path.join("ingest");
        fs::create_dir_all(&folder).map_err(failed("ingest"))?;
        let mut options = Options::default();
        let opening = Opening {
            path: &self.path,
            tuning: self.tuning,
            memory_bytes: self.memory_bytes,
            write_buffer_bytes: None,
            durability: self.durability,
        };
        opening.set(&mut options);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut files = Vec::new();
        let mut more = records(&mut key, &mut value);
        while more {
            let file = folder.join(format!("{:06}.sst", files.len()));
            let mut writer = SstFileWriter::create(&options);
            writer.open(&file).map_err(failed("ingest"))?;
            let mut bytes = 0;
            while more && bytes < FILE_BYTES {
                writer.put(&key, &value).map_err(failed("ingest"))?;
                bytes += key.len() + value.len();
                more = records(&mut key, &mut value);
            }
            writer.finish().map_err(failed("ingest"))?;
            files.push(file);
        }
        Ok(files)
    }
}

pub(super) fn counters(store: &RocksStore<DB>) -> Option<&dyn CountingStore> {
    (store.purpose == Some(Purpose::Counters)).then_some(store)
}

pub(super) fn sorted_ingest(store: &RocksStore<DB>) -> Option<&dyn IngestingStore> {
    (store.purpose == Some(Purpose::Ingest)).then_some(store)
}

pub(super) fn expiring(store: &RocksStore<DB>) -> Option<&dyn ExpiringStore> {
    matches!(store.purpose, Some(Purpose::Expiry(_))).then_some(store)
}

impl CountingStore for RocksStore<DB> {
    fn add(&self, key: &[u8], addend: u64) -> StoreResult<()> {
        self.database
            .merge_opt(key, addend.to_le_bytes(), &self.write)
            .map_err(failed("add"))
    }

    fn adds_by(&self) -> &'static str {
        "merge"
    }
}

impl IngestingStore for RocksStore<DB> {
    fn ingest(&self, records: &mut SortedRecords<'_>) -> StoreResult<()> {
        let files = self.write_files(records)?;
        if files.is_empty() {
            return Ok(());
        }
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        self.database
            .ingest_external_file_opts(&options, files)
            .map_err(failed("ingest"))
    }
}

impl ExpiringStore for RocksStore<DB> {
    fn put_expiring(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        self.database
            .put_opt(key, value, &self.write)
            .map_err(|error| StoreError::new("put", error))
    }

    fn hides_expired(&self) -> bool {
        false
    }
}
