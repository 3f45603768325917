//! bf-tree: a B tree in Rust whose cached pages may be parts of pages.
//!
//! Settings: a file of leaf pages of 8 KiB, its buffer the largest power of two within three
//! quarters of the memory, keys of up to 64 bytes, records of up to 3,800. It has no empty values,
//! so each value is stored after one byte. There is no batch: the writes are made one by one. It
//! cannot be told to pay a debt: pages stay in the buffer until it needs room.
//!
//! | level | setting |
//! |---|---|
//! | sync | refused |
//! | process | refused: it can write a log, but cannot read it back into a tree |
//! | relaxed | no log: a put is in a file after a clean end, by a snapshot, and not before |
//!
//! The snapshot of one run is the data file of the next, so each has a number. Errors of the disk
//! are panics of the library.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use bf_tree::{BfTree, Config, LeafInsertResult, LeafReadResult, ScanReturnField, StorageBackend};
use evendb_lab::opener::Durability;
use evendb_lab::store::{BatchWrite, Figure, Store, StoreError, StoreResult};

use crate::failed;

const LEAF_PAGE_BYTES: usize = 8 << 10;
const KEY_BYTES_MAX: usize = 64;
const RECORD_BYTES_MAX: usize = 3800;
const BUFFER_BYTES_MIN: u64 = 1 << 20;

/// The byte before each value.
const MARK: u8 = 0;

thread_local! {
    /// The buffer for gets and scans of this thread.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; 2 * LEAF_PAGE_BYTES]);
}

/// A bf-tree and the place where it is saved.
pub struct BfTreeStore {
    tree: BfTree,
    directory: PathBuf,
    /// The number of the snapshot that closing makes.
    number: u64,
}

fn snapshot(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("snapshot-{number}"))
}

/// The newest snapshot's number.
fn newest(directory: &Path) -> std::io::Result<Option<u64>> {
    let mut newest = None;
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix("snapshot-"));
        newest = newest.max(number.and_then(|number| number.parse().ok()));
    }
    Ok(newest)
}

impl BfTreeStore {
    /// Opens or makes a tree in this directory, for `memory_bytes` bytes of memory in all.
    ///
    /// # Errors
    /// A level that it does not offer, or its own.
    pub fn open(path: &Path, memory_bytes: u64, durability: Durability) -> StoreResult<Self> {
        if durability != Durability::Relaxed {
            let why = format!(
                "bf-tree has no level `{}`, only `relaxed`",
                durability.name()
            );
            return Err(StoreError::new("open", why));
        }
        let buffer_bytes = 1 << (memory_bytes / 4 * 3).max(BUFFER_BYTES_MIN).ilog2();
        let saved = newest(path).map_err(failed("open"))?;
        let opened = match saved {
            Some(number) => {
                let file = snapshot(path, number);
                BfTree::new_from_cpr_snapshot(file, true, None, Some(buffer_bytes), None)
            }
            None => {
                let mut config = Config::default();
                config
                    .storage_backend(StorageBackend::Std)
                    .file_path(path.join("data"))
                    .use_snapshot(true)
                    .leaf_page_size(LEAF_PAGE_BYTES)
                    .cb_size_byte(buffer_bytes)
                    .cb_min_record_size(2)
                    .cb_max_record_size(RECORD_BYTES_MAX)
                    .cb_max_key_len(KEY_BYTES_MAX);
                BfTree::with_config(config, None)
            }
        };
        Ok(Self {
            tree: opened.map_err(|error| StoreError::new("open", format!("{error:?}")))?,
            directory: path.to_owned(),
            number: saved.map_or(0, |number| number + 1),
        })
    }
}

/// A value in the buffer, without the mark.
fn unmarked(bytes: &[u8]) -> StoreResult<&[u8]> {
    match bytes.split_first() {
        Some((&MARK, value)) => Ok(value),
        _ => Err(StoreError::new("read", "a value without its mark")),
    }
}

impl Store for BfTreeStore {
    fn name(&self) -> String {
        "bf-tree (relaxed)".to_owned()
    }

    fn get(&self, key: &[u8], check: &mut dyn FnMut(&[u8])) -> StoreResult<bool> {
        BUFFER.with_borrow_mut(|buffer| match self.tree.read(key, buffer) {
            LeafReadResult::Found(length) => {
                check(unmarked(&buffer[..length as usize])?);
                Ok(true)
            }
            LeafReadResult::Deleted | LeafReadResult::NotFound => Ok(false),
            LeafReadResult::InvalidKey => Err(StoreError::new("get", "a key it refuses")),
        })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        BUFFER.with_borrow_mut(|buffer| {
            let marked = buffer
                .get_mut(..=value.len())
                .ok_or_else(|| StoreError::new("put", "the value is too large"))?;
            marked[0] = MARK;
            marked[1..].copy_from_slice(value);
            match self.tree.insert(key, marked) {
                LeafInsertResult::Success => Ok(()),
                LeafInsertResult::InvalidKV(why) => Err(StoreError::new("put", why)),
            }
        })
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        self.tree.delete(key);
        Ok(())
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        if limit == 0 {
            return Ok(0);
        }
        // It has no empty key, and no key before this one.
        let from = if from.is_empty() { &[0] } else { from };
        BUFFER.with_borrow_mut(|buffer| {
            let mut records = self
                .tree
                .scan_with_count(from, limit, ScanReturnField::KeyAndValue)
                .map_err(|error| StoreError::new("scan", format!("{error:?}")))?;
            let mut lent = 0;
            while let Some((key_bytes, value_bytes)) = records.next(buffer) {
                let (key, value) = buffer[..key_bytes + value_bytes].split_at(key_bytes);
                lent += 1;
                if !each(key, unmarked(value)?) {
                    break;
                }
            }
            Ok(lent)
        })
    }

    fn batch(&self, writes: &[BatchWrite<'_>]) -> StoreResult<()> {
        writes.iter().try_for_each(|write| match write {
            BatchWrite::Put(key, value) => self.put(key, value),
            BatchWrite::Delete(key) => self.delete(key),
        })
    }

    fn stats(&self) -> Vec<Figure> {
        Vec::new()
    }

    fn settle_debt(&self) -> StoreResult<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> StoreResult<()> {
        let Self {
            tree,
            directory,
            number,
        } = *self;
        tree.cpr_snapshot(snapshot(&directory, number));
        drop(tree);
        // The snapshot before, which this one replaces.
        let before = match number.checked_sub(1) {
            None => directory.join("data"),
            Some(before) => snapshot(&directory, before),
        };
        fs::remove_file(before).map_err(failed("close"))
    }
}
