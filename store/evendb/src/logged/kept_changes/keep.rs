//! Keeps changes: a checkpoint appends them before its edit, and removes the oldest files.
//!
//! Steps: the ring's records are copied, from the end of the last file (or from the tail, if there
//! is a gap) up to the replay position; a large write's contents are copied in place of its
//! extent's name. Then the file is synced, the oldest files are removed while the other files have
//! enough bytes, and the directory is synced if the file is new.

use super::frame::{First, Frame, Summary};
use super::{KeptChanges, KeptFile};
use crate::commit_log::{CommitLog, Lsn, Passage, ReadBack, Segment};
use crate::payload::{self, WithValues};
use crate::value_extents;
use crate::value_files;
use evendb_storage::framed_log::FramedLogWriter;
use evendb_storage::vfs::File;
use evendb_storage::{Apart, Error, Result, Version};

/// A file gets no more records when it has one in `FILE_PART` of the kept bytes, and at least
/// [`FILE_BYTES_MIN`] bytes.
const FILE_PART: u64 = 8;
const FILE_BYTES_MIN: u64 = 16 << 10;

/// The state with which the only running checkpoint appends.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) next_id: u64,
    /// The last file, while it takes more records.
    pub(super) log: Option<FramedLogWriter>,
}

/// The ring as a source of changes: nothing above its tail is overwritten meanwhile.
pub(crate) struct RingToKeep<'a> {
    pub(crate) file: &'a dyn File,
    pub(crate) capacity: u64,
    pub(crate) log: &'a CommitLog,
    pub(crate) lives: &'a [Segment],
}

impl KeptChanges {
    /// Keeps the changes below `to`; the checkpoint's edit comes after it. If this fails, all kept
    /// changes are given up.
    pub(crate) fn keep(&self, source: &RingToKeep<'_>, to: Lsn) {
        if self.bytes_max > 0 && self.try_keep(source, to).is_err() {
            self.give_up();
        }
    }

    /// The number of bytes from which a file gets no more records.
    pub(super) fn file_bytes(&self) -> u64 {
        (self.bytes_max / FILE_PART).max(FILE_BYTES_MIN)
    }

    fn give_up(&self) {
        let mut writer = self.writer.lock();
        writer.log = None;
        let files = std::mem::take(&mut *self.files.lock());
        for file in files {
            self.remove(file.id);
        }
    }

    fn remove(&self, id: u64) {
        // A file that stays is still valid history, and the next opening finds it.
        let _ = self.vfs.remove(&self.path(id));
    }

    fn try_keep(&self, source: &RingToKeep<'_>, to: Lsn) -> Result<()> {
        let mut writer = self.writer.lock();
        let tail = source.log.tail();
        let last = self.files.lock().last().cloned();
        // The end lies above the tail if the edit of the checkpoint before could not be written.
        let last = last.filter(|last| last.holds.end >= tail);
        let mut at = last.as_ref().map_or(tail, |last| last.holds.end);
        if at >= to {
            return Ok(());
        }
        source.log.write_out_to(to)?;
        let mut file = match (&writer.log, last) {
            (Some(_), Some(last)) => last,
            (_, last) => self.begin_file(&mut writer, at, last)?,
        };
        let Some(log) = &mut writer.log else {
            return Ok(());
        };
        let mut reader = ReadBack::new();
        while at < to {
            let life = source
                .lives
                .iter()
                .find(|life| life.start <= at && life.closed_at.is_none_or(|closed| at < closed));
            let Some(life) = life else {
                return Err(unexpected(source, at));
            };
            let limit = life.closed_at.unwrap_or(to).min(to);
            let (ring, capacity) = (source.file, source.capacity);
            match reader.next(ring, capacity, Some(source.log), at, limit, life)? {
                Passage::Record(record) => {
                    let frame = self.frame_of(life, &record)?;
                    at = record.end;
                    file.holds.len = log.append(&frame.encode())?;
                    file.holds.take(&frame);
                }
                Passage::End => at = limit,
                Passage::Overwritten | Passage::Foreign => return Err(unexpected(source, at)),
            }
        }
        if let Some(life) = file.holds.lives.last().copied()
            && file.holds.end < to
        {
            // The rest of a lap is kept as a record without operations: the next record follows
            // it.
            let frame = Frame {
                epoch: life.epoch,
                tag: life.tag,
                lsn: file.holds.end,
                end: to,
                version: Version::ZERO,
                operations: Vec::new(),
            };
            file.holds.len = log.append(&frame.encode())?;
            file.holds.take(&frame);
        }
        log.sync()?;
        self.publish(&mut writer, file)
    }

    /// The frame of a record, with its contents.
    fn frame_of(&self, life: &Segment, record: &crate::commit_log::LogRecord<'_>) -> Result<Frame> {
        let operations = match payload::extent_of(record.payload) {
            None => record.payload.to_vec(),
            Some(name) => match value_extents::read(&*self.vfs, &self.dir, &name)? {
                Some(contents) => contents,
                None => {
                    let path = value_extents::file_path(&self.dir, name.id);
                    return Err(Error::corruption(
                        &path,
                        0,
                        "a value extent does not verify",
                    ));
                }
            },
        };
        // Values that lie apart are copied, too: their files may be removed before the kept
        // changes.
        let read = |place: &Apart| value_files::read(&*self.vfs, &self.dir, place);
        let operations = match payload::with_values(&operations, &read)? {
            WithValues::AsItIs => operations,
            WithValues::Read(operations) => operations,
            WithValues::Gone => {
                let place = value_files::file_path(&self.dir, 0);
                return Err(Error::corruption(
                    &place,
                    0,
                    "the file of a value is missing",
                ));
            }
        };
        Ok(Frame {
            epoch: life.epoch,
            tag: life.tag(),
            lsn: record.lsn,
            end: record.end,
            version: record.version,
            operations,
        })
    }

    fn begin_file(
        &self,
        writer: &mut Writer,
        first: Lsn,
        last: Option<KeptFile>,
    ) -> Result<KeptFile> {
        let id = writer.next_id;
        let path = self.path(id);
        let created = self.vfs.create(&path);
        let file = created.map_err(|error| Error::io(&path, "create kept changes", error))?;
        writer.next_id += 1;
        let mut log = FramedLogWriter::create(file, id)?;
        let (previous, held) = match last {
            Some(last) => (last.id, last.holds),
            None => (0, Summary::default()),
        };
        let begin = First {
            lsn: first,
            previous,
            held,
        };
        let mut holds = Summary::at(first);
        holds.len = log.append(&begin.encode())?;
        writer.log = Some(log);
        Ok(KeptFile { id, first, holds })
    }

    /// Shows readers the records that were appended and synced, and removes the oldest files.
    fn publish(&self, writer: &mut Writer, file: KeptFile) -> Result<()> {
        if file.holds.len >= self.file_bytes() {
            writer.log = None;
        }
        let mut gone = Vec::new();
        let mut files = self.files.lock();
        let is_new = files.last().is_none_or(|last| last.id != file.id);
        match files.last_mut() {
            Some(last) if !is_new => *last = file,
            _ => files.push(file),
        }
        let mut bytes: u64 = files.iter().map(|file| file.holds.len).sum();
        while let [oldest, _, ..] = &files[..]
            && bytes - oldest.holds.len >= self.bytes_max
        {
            bytes -= oldest.holds.len;
            gone.push(oldest.id);
            files.remove(0);
        }
        drop(files);
        gone.into_iter().for_each(|id| self.remove(id));
        if is_new {
            let synced = self.vfs.sync_dir(&self.dir);
            synced.map_err(|error| Error::io(&self.dir, "sync the directory", error))?;
        }
        Ok(())
    }
}

fn unexpected(source: &RingToKeep<'_>, at: Lsn) -> Error {
    let offset = at.0 % source.capacity.max(1);
    Error::corruption(
        source.file.path(),
        offset,
        "a record to be kept does not verify",
    )
}
