//! Helpers of the tests. The tests are in `walk` (a keyspace with running jobs) and `jobs` (single
//! jobs).

mod jobs;
mod walk;

use crate::cursor::EntryCursor;
use crate::files::FileNumbers;
use crate::tables::Making;
use crate::tables::tests::{FORM, sim_dir};
use crate::types::FileNumber;
use evendb_storage::table::ReadAhead;
use evendb_storage::vfs::SimVfs;
use evendb_storage::{EntryRef, Kind, Result, Version};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

const READAHEAD: ReadAhead = ReadAhead {
    seek: 1,
    next: 1,
    max: 1,
};

/// Key and version (descending) to value; a delete has none.
type Records = BTreeMap<(Vec<u8>, Reverse<u64>), Option<Vec<u8>>>;

/// A memory table.
struct Memory {
    records: Vec<(Vec<u8>, u64, Option<Vec<u8>>)>,
    at: usize,
}

impl Memory {
    fn new(records: &Records) -> Memory {
        Memory {
            records: records
                .iter()
                .map(|((key, version), value)| (key.clone(), version.0, value.clone()))
                .collect(),
            at: usize::MAX,
        }
    }
}

impl EntryCursor for Memory {
    fn valid(&self) -> bool {
        self.at < self.records.len()
    }
    fn seek(&mut self, _key: &[u8]) -> Result<()> {
        unreachable!("a flush goes from the first record on")
    }
    fn seek_before(&mut self, _key: &[u8]) -> Result<()> {
        unreachable!("a flush goes from the first record on")
    }
    fn seek_first(&mut self) -> Result<()> {
        self.at = 0;
        Ok(())
    }
    fn seek_last(&mut self) -> Result<()> {
        self.at = self.records.len().wrapping_sub(1);
        Ok(())
    }
    fn next(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        unreachable!("a flush goes forward")
    }
    fn entry(&self) -> EntryRef<'_> {
        let (key, version, value) = &self.records[self.at];
        EntryRef {
            key,
            version: Version(*version),
            kind: if value.is_some() {
                Kind::Put
            } else {
                Kind::Delete
            },
            value: value.as_deref().unwrap_or_default(),
        }
    }
}

fn making(vfs: &SimVfs) -> Making {
    Making {
        place: sim_dir(vfs),
        numbers: Arc::new(FileNumbers::new(FileNumber(1))),
        form: FORM,
        table_bytes_max: 300,
        plant: crate::plant::Plant::Nothing,
    }
}

fn never() -> bool {
    false
}
