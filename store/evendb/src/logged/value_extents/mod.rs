//! Value extents: each is a file for the body of one write that is too long for the commit log,
//! which then has a record with the file's name, length and checksum. Format in docs/format.md.
//!
//! ```text
//!                                 ,- a checkpoint's tail passes the record: drop_below --> removed
//!   write --> [synced] --> named: note
//!     |                           `- the log is synced: first sync, if nothing has synced it yet
//!     `-----> never named: discard --> removed
//! ```
//!
//! An extent is written before the record that names it is appended. When it is synced depends on
//! its write. If the write waits for the disk, the extent is synced before the record is appended,
//! and the record says so: every record that survives then finds it. Otherwise it is left unsynced,
//! as the log is: nearly all extents go by a checkpoint before the kernel writes them back. After a
//! power loss such an extent may be gone, and then its record ends the log, like one that does not
//! verify.
//!
//! Invariants: no part of the log becomes durable before its extents are durable. The thread that
//! syncs the log looks first how far it goes, and then has the unsynced extents synced. An extent
//! is in the list before its record is appended, so the list has all extents that the synced
//! records name (and maybe more). An extent leaves the list, and then its file goes, when no record
//! names it or a completed checkpoint holds it (I10): then there is nothing to sync. Extents of an
//! earlier life are not synced: nothing is called durable before a checkpoint has their records
//! (`checkpoint::take_inherited`).
//!
//! The next opening removes files that nothing names, so removing may fail.
//!
//! Thread safety: any thread; the list's lock is a leaf, with no I/O under it. One thread at a time
//! syncs for the log: its leader. Not here: which write needs an extent, and how much of a full
//! disk it may take ([`crate::write`]); the meaning of an extent that does not verify
//! (`opening/damage.rs`).

use crate::commit_log::{Lsn, SyncedFirst};
use crate::op::Op;
use crate::payload::{self, Encoded, ExtentName};
use crate::sync::{Arc, Mutex};
use evendb_storage::codec::{checksum, checksum_on};
use evendb_storage::sealing::{PieceSealer, Secrets, open_pieces};
use evendb_storage::vfs::{File, Vfs, WriteBehind, read_exact_at};
use evendb_storage::{Error, Result};
use std::path::{Path, PathBuf};

/// The largest number of extents that are left unsynced, with open files. Few writes are as long as
/// an eighth of the log; there are more only where a full disk keeps the log small.
const UNSYNCED_MAX: usize = 64;

/// An extent with more bytes than the first number is verified before memory is taken for it, in
/// pieces of the second number.
const UNVERIFIED_BYTES_MAX: u64 = 16 << 20;
const PIECE_BYTES: usize = 256 << 10;

/// The name of extents for the cipher, in an encrypted database.
const SEALED_KIND: &str = "value extent";

/// The name of an extent's file.
pub(crate) fn file_name(id: u64) -> String {
    format!("{id:016x}.val")
}

/// The path of an extent's file.
pub(crate) fn file_path(dir: &Path, id: u64) -> PathBuf {
    dir.join(file_name(id))
}

/// The contents of an extent; `None` if they do not match its record.
pub(crate) fn read(vfs: &dyn Vfs, dir: &Path, name: &ExtentName) -> Result<Option<Vec<u8>>> {
    let path = file_path(dir, name.id);
    let failed = |what| move |source| Error::io(&file_path(dir, name.id), what, source);
    let file = match vfs.open(&path, false) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("open a value extent")(error)),
    };
    let stored = stored(&*file, name).map_err(failed("read a value extent"))?;
    let Ok(bytes) = stored else {
        return Ok(None);
    };
    // The checksum is in the record that names the extent, and the record was opened: a crash
    // leaves no such bytes.
    let opened = opened(vfs.secrets(), name.id, bytes);
    let what = "a value extent that was not encrypted with this key";
    opened
        .map(Some)
        .ok_or_else(|| Error::corruption(&path, 0, what))
}

/// The difference between an extent's file and its record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unlike {
    /// The file has another length: this one.
    Length(u64),
    Checksum,
}

/// The bytes of the extent in `file`. A long extent is verified before memory is taken for it, and
/// a lack of memory is an error.
pub(crate) fn stored(
    file: &dyn File,
    name: &ExtentName,
) -> std::io::Result<std::result::Result<Vec<u8>, Unlike>> {
    let len = file.len()?;
    if len != name.len {
        return Ok(Err(Unlike::Length(len)));
    }
    if len > UNVERIFIED_BYTES_MAX {
        let mut piece = vec![0; PIECE_BYTES];
        let (mut at, mut sum) = (0, checksum(name.id, &[]));
        while at < len {
            let part = &mut piece[..(len - at).min(PIECE_BYTES as u64) as usize];
            read_exact_at(file, part, at)?;
            sum = checksum_on(sum, part);
            at += part.len() as u64;
        }
        if sum != name.checksum {
            return Ok(Err(Unlike::Checksum));
        }
    }
    let mut bytes = Vec::new();
    let reserved = bytes.try_reserve_exact(usize::try_from(len).unwrap_or(usize::MAX));
    reserved.map_err(|error| std::io::Error::new(std::io::ErrorKind::OutOfMemory, error))?;
    bytes.resize(len as usize, 0);
    read_exact_at(file, &mut bytes, 0)?;
    match checksum(name.id, &[&bytes]) == name.checksum {
        true => Ok(Ok(bytes)),
        false => Ok(Err(Unlike::Checksum)),
    }
}

/// The contents of the extent whose file has these bytes, which verify; `None` if they were not
/// encrypted as this extent.
pub(crate) fn opened(secrets: Option<&Secrets>, id: u64, bytes: Vec<u8>) -> Option<Vec<u8>> {
    match secrets {
        None => Some(bytes),
        Some(secrets) => open_pieces(secrets, SEALED_KIND, id, &bytes),
    }
}

/// The extents of an open database.
pub(crate) struct ValueExtents {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    listed: Mutex<Vec<Listed>>,
}

/// An extent that the log names, or that is not synced.
struct Listed {
    id: u64,
    /// The end of the record that names it, once there is one.
    end: Option<Lsn>,
    /// The handle by which it is to be synced, until it is.
    unsynced: Option<Arc<dyn File>>,
}

impl ValueExtents {
    /// `named`: the extents that recovery found in the log.
    pub(crate) fn new(vfs: Arc<dyn Vfs>, dir: &Path, named: &[(Lsn, u64)]) -> ValueExtents {
        let listed = named.iter().map(|&(end, id)| Listed {
            id,
            end: Some(end),
            unsynced: None,
        });
        ValueExtents {
            vfs,
            dir: dir.to_owned(),
            listed: Mutex::new(listed.collect()),
        }
    }

    /// Writes `ops` into a new extent; returns what the log has to say of it. With `sync_first` its
    /// contents are synced, and [`sync_names`](Self::sync_names) is due before anything names it. A
    /// failure leaves nothing behind and is the caller's alone.
    pub(crate) fn write(
        &self,
        id: u64,
        ops: &[Op<'_>],
        sync_first: bool,
    ) -> Result<Encoded<'static>> {
        let is_synced = sync_first || self.unsynced() >= UNSYNCED_MAX;
        let path = file_path(&self.dir, id);
        let failed = |source| Error::io(&path, "write a value extent", source);
        let file = self.vfs.create(&path).map_err(failed)?;
        let write = || {
            let (mut at, mut crc) = (0, checksum(id, &[]));
            let mut behind = WriteBehind::default();
            let mut write = |piece: &[u8]| -> std::io::Result<()> {
                match is_synced {
                    true => behind.write_at(&*file, piece, at)?,
                    false => file.write_at(piece, at)?,
                }
                at += piece.len() as u64;
                // Continues where the last piece ended.
                crc = checksum(u64::from(crc), &[piece]);
                Ok(())
            };
            match file.secrets() {
                None => payload::in_pieces(ops, &mut write)?,
                Some(secrets) => {
                    let (mut sealer, salt) = PieceSealer::new(secrets, SEALED_KIND, id);
                    write(&salt)?;
                    payload::in_pieces(ops, &mut |piece| sealer.push(piece, &mut write))?;
                    sealer.finish(&mut write)?;
                }
            }
            if is_synced {
                file.sync_data()?;
            }
            Ok((at, crc))
        };
        let (len, checksum) = write().map_err(|source| {
            self.remove(id);
            failed(source)
        })?;
        if !is_synced {
            self.listed.lock().push(Listed {
                id,
                end: None,
                unsynced: Some(file),
            });
        }
        Ok(Encoded::extent(ExtentName {
            id,
            len,
            checksum,
            is_synced,
        }))
    }

    /// Makes the names of all extents durable. After a failure it is unknown which names are
    /// durable: nothing may become durable any more.
    pub(crate) fn sync_names(&self) -> Result<()> {
        let synced = self.vfs.sync_dir(&self.dir);
        synced.map_err(|source| Error::io(&self.dir, "sync the directory", source))
    }

    fn unsynced(&self) -> usize {
        let listed = self.listed.lock();
        let unsynced = listed.iter().filter(|extent| extent.unsynced.is_some());
        unsynced.count()
    }

    /// Removes the extent, if `encoded` is one and no record names it.
    pub(crate) fn discard(&self, encoded: &Encoded<'_>) {
        if let Some(name) = encoded.extent_name() {
            self.listed.lock().retain(|extent| extent.id != name.id);
            self.remove(name.id);
        }
    }

    /// Notes that the commit-log record of `encoded` ends at `end`: if it names an extent, the
    /// extent goes when the tail passes.
    pub(crate) fn note(&self, encoded: &Encoded<'_>, end: Lsn) {
        let Some(name) = encoded.extent_name() else {
            return;
        };
        let mut listed = self.listed.lock();
        let end = Some(end);
        match listed.iter_mut().find(|extent| extent.id == name.id) {
            Some(extent) => extent.end = end,
            None => listed.push(Listed {
                id: name.id,
                end,
                unsynced: None,
            }),
        }
    }

    /// Removes the extents whose records lie below the tail.
    pub(crate) fn drop_below(&self, tail: Lsn) {
        let passed: Vec<Listed> = {
            let mut listed = self.listed.lock();
            let is_passed = |extent: &mut Listed| extent.end.is_some_and(|end| end <= tail);
            listed.extract_if(.., is_passed).collect()
        };
        for extent in passed {
            self.remove(extent.id);
        }
    }

    /// The bytes that the extents take on the disk; an extent that cannot be asked counts as zero.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        let ids: Vec<u64> = self.listed.lock().iter().map(|extent| extent.id).collect();
        let allocated = |id| self.vfs.allocated_bytes(&file_path(&self.dir, id));
        ids.into_iter().map(|id| allocated(id).unwrap_or(0)).sum()
    }

    fn remove(&self, id: u64) {
        // A leftover is removed by the next opening.
        let _ = self.vfs.remove(&file_path(&self.dir, id));
    }

    fn is_listed(&self, id: u64) -> bool {
        self.listed.lock().iter().any(|extent| extent.id == id)
    }
}

impl SyncedFirst for ValueExtents {
    fn sync(&self) -> Result<()> {
        let unsynced: Vec<(u64, Arc<dyn File>)> = {
            let listed = self.listed.lock();
            let unsynced = |extent: &Listed| Some((extent.id, extent.unsynced.clone()?));
            listed.iter().filter_map(unsynced).collect()
        };
        if unsynced.is_empty() {
            return Ok(());
        }
        for (id, file) in &unsynced {
            // A checkpoint holds it by now, or no record names it.
            if !self.is_listed(*id) {
                continue;
            }
            file.sync_data().map_err(|source| {
                Error::io(&file_path(&self.dir, *id), "sync a value extent", source)
            })?;
        }
        self.sync_names()?;
        for extent in self.listed.lock().iter_mut() {
            if unsynced.iter().any(|(id, _)| *id == extent.id) {
                extent.unsynced = None;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;
