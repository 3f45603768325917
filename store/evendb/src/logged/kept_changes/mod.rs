//! Changes that are kept longer than the commit log keeps them, in files of their own: each
//! checkpoint appends the records below its replay position. Only with
//! [`Advanced::keep_changes_bytes`](crate::Advanced::keep_changes_bytes).
//!
//! ```text
//!  CHANGES-000004      CHANGES-000005      CHANGES-000006        COMMIT-LOG
//!  |first .... end|    |first .... end|    |first .... end|      tail ..... head       (LSNs)
//!  ^- removed when the rest is enough      ^- a checkpoint appends the ring's records
//!                                             in [end, replay position)
//! ```
//! Each file is a framed log whose id is its number. Its first frame says where it begins, and what
//! the file before it holds; each other frame is one record, with a large write's contents included
//! (`frame.rs`).
//!
//! Invariants:
//! * A checkpoint appends and syncs before it writes its edit. So when the tail passes a record,
//!   the record is in a file, or no file holds anything: no crash leaves a hole in the middle.
//! * Records at or above the manifest's replay position are wiped at opening, durably, before a
//!   checkpoint can complete: a crash may have undone their operations. Records below it are in a
//!   completed checkpoint.
//! * A failure costs the kept changes, and never a checkpoint: the files are given up, and keeping
//!   starts again. A full disk has the same effect. A life without the option removes the files.
//! * A file grows behind `len` only; a reader reads below `len`.
//!
//! Thread safety: any thread. `files` is a leaf lock, held over memory only. The only running
//! checkpoint holds the writer's lock over I/O. Not here: reading on from these files into the ring
//! ([`crate::changes`]).

mod frame;
mod keep;

pub(crate) use frame::Frame;
pub(crate) use keep::RingToKeep;

use crate::commit_log::Lsn;
use crate::sync::{Arc, Mutex};
use evendb_storage::framed_log::{
    FrameCodec, FramedLogWriter, HEADER_BYTES, read_frame, read_frames,
};
use evendb_storage::vfs::{File, Vfs};
use evendb_storage::{Error, ErrorKind, NUMBER_MAX, Result};
use frame::{First, Summary};
use keep::Writer;
use std::path::{Path, PathBuf};

/// The prefix of each file's name.
const PREFIX: &str = "CHANGES-";

/// The name of file `id`.
pub(crate) fn file_name(id: u64) -> String {
    format!("{PREFIX}{id:06}")
}

/// The number in a file's name.
pub(crate) fn file_id(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    let id = digits.parse().ok();
    id.filter(|id| *id <= NUMBER_MAX && digits == format!("{id:06}"))
}

/// A frame of a file, as it is examined outside of a database.
pub(crate) enum KeptItem {
    /// The first frame: where the file begins, and the number of the file before (0: none).
    First(Lsn, u64),
    Record(Frame),
}

/// The contents of a frame; `None` if it makes no sense.
pub(crate) fn item_of(payload: &[u8]) -> Option<KeptItem> {
    let first = First::decode(payload).map(|first| KeptItem::First(first.lsn, first.previous));
    first.or_else(|| Frame::decode(payload).map(KeptItem::Record))
}

/// A file and its readable part.
#[derive(Clone, Debug)]
struct KeptFile {
    id: u64,
    first: Lsn,
    /// The contents of the readable part.
    holds: Summary,
}

/// The kept changes of an open database.
pub(crate) struct KeptChanges {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    /// The least number of bytes to keep; 0: nothing is kept.
    bytes_max: u64,
    /// In ascending order.
    files: Mutex<Vec<KeptFile>>,
    writer: Mutex<Writer>,
}

impl KeptChanges {
    /// Finds the kept changes below `replay_from`; with `writes`, everything else is removed.
    pub(crate) fn open(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        bytes_max: u64,
        replay_from: Lsn,
        writes: bool,
    ) -> Result<KeptChanges> {
        let kept = KeptChanges {
            vfs,
            dir: dir.to_owned(),
            bytes_max,
            files: Mutex::new(Vec::new()),
            writer: Mutex::new(Writer::default()),
        };
        kept.find_files(replay_from, writes)?;
        Ok(kept)
    }

    fn path(&self, id: u64) -> PathBuf {
        self.dir.join(file_name(id))
    }

    fn open_file(&self, id: u64, writes: bool) -> Result<Arc<dyn File>> {
        let path = self.path(id);
        let opened = self.vfs.open(&path, writes);
        opened.map_err(|error| Error::io(&path, "open kept changes", error))
    }

    fn find_files(&self, replay_from: Lsn, writes: bool) -> Result<()> {
        let failed = |error| Error::io(&self.dir, "list the directory", error);
        let names = self.vfs.list(&self.dir).map_err(failed)?;
        let names = names.iter().filter_map(|name| name.to_str());
        let mut ids: Vec<u64> = names.filter_map(file_id).collect();
        ids.sort_unstable();
        let mut writer = self.writer.lock();
        writer.next_id = ids.last().map_or(1, |last| last + 1);
        if ids.is_empty() {
            return Ok(());
        }
        let mut gone = Vec::new();
        let mut files: Vec<KeptFile> = Vec::new();
        if self.bytes_max == 0 && writes {
            gone = ids;
        } else {
            for id in ids {
                match self.first_of(id)? {
                    Some(first) if first.lsn < replay_from => {
                        if let Some(last) =
                            files.last_mut().filter(|last| last.id == first.previous)
                        {
                            last.holds = first.held.clone();
                        }
                        files.push(KeptFile {
                            id,
                            first: first.lsn,
                            holds: Summary::default(),
                        });
                    }
                    _ => gone.push(id),
                }
            }
        }
        let last = files.len().saturating_sub(1);
        for (index, file) in files.iter_mut().enumerate() {
            match self.measure(file, replay_from, writes) {
                Ok(log) => {
                    let takes_more = file.holds.len < self.file_bytes();
                    writer.log = log.filter(|_| index == last && takes_more);
                }
                // Damaged files are not kept on; they do not stop an opening.
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    file.holds = Summary::at(file.first);
                    gone.push(file.id);
                }
                Err(error) => return Err(error),
            }
        }
        files.retain(|file| !gone.contains(&file.id));
        let is_removing = writes && !gone.is_empty();
        if is_removing {
            gone.iter()
                .for_each(|id| drop(self.vfs.remove(&self.path(*id))));
            // Removed files must not come back behind the changes that are kept from now on.
            let synced = self.vfs.sync_dir(&self.dir);
            synced.map_err(|error| Error::io(&self.dir, "sync the directory", error))?;
        }
        *self.files.lock() = files;
        Ok(())
    }

    /// The contents of a file's first frame, if it is whole.
    fn first_of(&self, id: u64) -> Result<Option<First>> {
        let file = self.open_file(id, false)?;
        let len = len_of(&*file)?;
        let codec = FrameCodec::new(&*file, id);
        let frame = read_frame(&*file, &codec, HEADER_BYTES, len)?;
        Ok(frame.as_deref().and_then(First::decode))
    }

    /// Finds the readable part of a file: all of it, if the next file says what it holds, and
    /// otherwise the records below `replay_from`. With `writes`, it wipes the rest, and returns a
    /// writer behind the readable part.
    fn measure(
        &self,
        file: &mut KeptFile,
        replay_from: Lsn,
        writes: bool,
    ) -> Result<Option<FramedLogWriter>> {
        if file.holds.len > 0 && file.holds.end <= replay_from {
            return Ok(None);
        }
        let handle = self.open_file(file.id, writes)?;
        let (mut behind, mut holds) = (None, Summary::at(file.first));
        let stopped = read_frames(&*handle, file.id, 0, &mut |offset, payload| {
            if offset > HEADER_BYTES
                && behind.is_none()
                && let Some(frame) = Frame::decode(payload)
            {
                match frame.end <= replay_from {
                    true => holds.take(&frame),
                    false => behind = Some(offset),
                }
            }
            Ok(())
        })?;
        holds.len = behind.unwrap_or(stopped);
        let len = holds.len;
        file.holds = holds;
        // This comes before a checkpoint can move the replay position over the wiped records.
        match writes {
            true => FramedLogWriter::resume(handle, file.id, len).map(Some),
            false => Ok(None),
        }
    }

    /// The position up to which a life's changes are kept.
    pub(crate) fn reached(&self, epoch: u64, tag: u32) -> Option<Lsn> {
        let files = self.files.lock();
        let lives = files.iter().flat_map(|file| &file.holds.lives);
        let own = lives.filter(|life| (life.epoch, life.tag) == (epoch, tag));
        own.map(|life| life.end).max()
    }

    /// Whether there is a file.
    pub(crate) fn keeps(&self) -> bool {
        !self.files.lock().is_empty()
    }

    /// The first position of the kept changes that continue without a gap to `tail`.
    pub(crate) fn begins_before(&self, tail: Lsn) -> Option<Lsn> {
        let files = self.files.lock();
        let (mut begin, mut needed) = (None, tail);
        for file in files.iter().rev() {
            if file.holds.end < needed || file.first >= needed {
                break;
            }
            begin = Some(file.first);
            needed = file.first;
        }
        begin
    }

    /// A reader of the file that holds the change at `at`.
    pub(crate) fn find(&self, at: Lsn) -> Result<Option<KeptReader>> {
        let found = {
            let files = self.files.lock();
            let mut has = files.iter().rev();
            has.find(|file| file.first <= at && at < file.holds.end)
                .cloned()
        };
        let Some(KeptFile { id, holds, .. }) = found else {
            return Ok(None);
        };
        let file = match self.vfs.open(&self.path(id), false) {
            Ok(file) => file,
            // It was removed meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(&self.path(id), "open kept changes", error)),
        };
        Ok(Some(KeptReader {
            codec: FrameCodec::new(&*file, id),
            file,
            len: holds.len,
            end: holds.end,
            offset: HEADER_BYTES,
            is_first: true,
        }))
    }
}

/// Reads one file in order.
pub(crate) struct KeptReader {
    file: Arc<dyn File>,
    codec: FrameCodec,
    len: u64,
    end: Lsn,
    offset: u64,
    is_first: bool,
}

impl KeptReader {
    /// The position up to which the file holds everything.
    pub(crate) fn end(&self) -> Lsn {
        self.end
    }

    /// The first record that ends behind `at`; `None` at the end of the readable part.
    pub(crate) fn next(&mut self, at: Lsn) -> Result<Option<Frame>> {
        while self.offset < self.len {
            let corrupt = |offset| {
                Error::corruption(self.file.path(), offset, "a kept change does not verify")
            };
            let Some(payload) = read_frame(&*self.file, &self.codec, self.offset, self.len)? else {
                return Err(corrupt(self.offset));
            };
            let offset = self.offset;
            self.offset += self.codec.frame_bytes(payload.len());
            if std::mem::take(&mut self.is_first) {
                continue;
            }
            match Frame::decode(&payload) {
                Some(frame) if frame.end <= at => {}
                Some(frame) => return Ok(Some(frame)),
                None => return Err(corrupt(offset)),
            }
        }
        Ok(None)
    }
}

fn len_of(file: &dyn File) -> Result<u64> {
    file.len()
        .map_err(|error| Error::io(file.path(), "look at kept changes", error))
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;
