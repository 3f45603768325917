//! Value extents: each a file for the body of one write that is too long for the commit log, which then
//! holds a record with the file's name, length and checksum. Format in docs/format.md.
//!
//! An extent is written and synced, its name too, before the record that names it is appended, so
//! whatever record survives finds it. It goes when a checkpoint holds what it holds: when the log's tail,
//! which only moves after the manifest's edit is durable, has passed that record (I10).
//!
//! ```text
//!   write --> appended: note(end of the record) --> drop_below(tail >= end): removed
//!     `-----> never appended: discard
//! ```
//!
//! A file that nothing names is removed by the next opening, so removing may fail.
//!
//! Thread safety: any; the list's lock is a leaf, with no I/O under it. Not here: which write needs an
//! extent, and what it may take of a full disk ([`crate::write`]).

use super::Op;
use super::commit_log::Lsn;
use super::payload::{self, Decoded, Encoded};
use crate::sync::{Arc, Mutex};
use evendb_storage::codec::checksum;
use evendb_storage::vfs::{Vfs, WriteBehind, read_exact_at};
use evendb_storage::{Error, Result};
use std::path::{Path, PathBuf};

/// The name of an extent's file.
pub(crate) fn file_name(id: u64) -> String {
    format!("{id:016x}.val")
}

/// Where an extent's file lies.
pub(crate) fn file_path(dir: &Path, id: u64) -> PathBuf {
    dir.join(file_name(id))
}

/// The contents of an extent; `None` if they are not what its record says.
pub(crate) fn read(
    vfs: &dyn Vfs,
    dir: &Path,
    id: u64,
    len: u64,
    crc: u32,
) -> Result<Option<Vec<u8>>> {
    let path = file_path(dir, id);
    let failed = |what| move |source| Error::io(&file_path(dir, id), what, source);
    let file = match vfs.open(&path, false) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("open a value extent")(error)),
    };
    if file.len().map_err(failed("look at a value extent"))? != len {
        return Ok(None);
    }
    let mut bytes = vec![0; len as usize];
    read_exact_at(&*file, &mut bytes, 0).map_err(failed("read a value extent"))?;
    Ok((checksum(id, &[&bytes]) == crc).then_some(bytes))
}

/// The extents of an open database.
pub(crate) struct ValueExtents {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    /// What the commit log names: the end of the record, and the extent's id.
    named: Mutex<Vec<(Lsn, u64)>>,
}

impl ValueExtents {
    /// `named`: what recovery found in the log.
    pub(crate) fn new(vfs: Arc<dyn Vfs>, dir: &Path, named: Vec<(Lsn, u64)>) -> ValueExtents {
        ValueExtents {
            vfs,
            dir: dir.to_owned(),
            named: Mutex::new(named),
        }
    }

    /// Writes `ops` into a new extent and syncs it; what the log is to say of it. A failure leaves
    /// nothing and is the caller's alone: nothing names the file yet.
    pub(crate) fn write(&self, id: u64, ops: &[Op<'_>]) -> Result<Encoded> {
        let path = file_path(&self.dir, id);
        let failed = |source| Error::io(&path, "write a value extent", source);
        let file = self.vfs.create(&path).map_err(failed)?;
        let write = || {
            let (mut at, mut crc) = (0, checksum(id, &[]));
            let mut behind = WriteBehind::default();
            payload::in_pieces(ops, &mut |piece| -> std::io::Result<()> {
                behind.write_at(&*file, piece, at)?;
                at += piece.len() as u64;
                // Continues where the last piece ended.
                crc = checksum(u64::from(crc), &[piece]);
                Ok(())
            })?;
            file.sync_data()?;
            self.vfs.sync_dir(&self.dir)?;
            Ok((at, crc))
        };
        match write() {
            Ok((len, crc)) => Ok(Encoded::extent(id, len, crc)),
            Err(source) => {
                self.remove(id);
                Err(failed(source))
            }
        }
    }

    /// Removes the extent, if `encoded` is one, that no record came to name.
    pub(crate) fn discard(&self, encoded: &Encoded) {
        if let Some(Decoded::Extent { id, .. }) = encoded.decoded() {
            self.remove(id);
        }
    }

    /// The commit-log record of `encoded` ends at `end`: if it names an extent, that goes when the tail
    /// passes.
    pub(crate) fn note(&self, encoded: &Encoded, end: Lsn) {
        if let Some(Decoded::Extent { id, .. }) = encoded.decoded() {
            self.named.lock().push((end, id));
        }
    }

    /// Removes the extents whose records lie below the tail.
    pub(crate) fn drop_below(&self, tail: Lsn) {
        let passed: Vec<_> = {
            let mut named = self.named.lock();
            named.extract_if(.., |(end, _)| *end <= tail).collect()
        };
        for (_, id) in passed {
            self.remove(id);
        }
    }

    /// What the extents take of the disk; of one that cannot be asked, nothing.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        let named = self.named.lock().clone();
        let allocated = |id| self.vfs.allocated_bytes(&file_path(&self.dir, id));
        named
            .iter()
            .map(|&(_, id)| allocated(id).unwrap_or(0))
            .sum()
    }

    fn remove(&self, id: u64) {
        // A leftover is removed by the next opening.
        let _ = self.vfs.remove(&file_path(&self.dir, id));
    }
}
