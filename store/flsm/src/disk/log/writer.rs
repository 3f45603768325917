//! [`LogWriter`]: the log of the current generation.
//!
//! Nothing is written behind a frame that failed, except after a failure for lack of room: then the
//! next frame overwrites the failed one. A log belongs to one thread at a time. Not here: who
//! writes when, what a failure means to the database.

use super::record::{GroupBody, Previous, encode_begin};
use crate::files::FileName;
use crate::types::FileNumber;
use evendb_storage::framed_log::FramedLogWriter;
use evendb_storage::vfs::{File, Vfs};
use evendb_storage::{Error, Result, Version};
use std::path::Path;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(crate) struct LogWriter {
    number: FileNumber,
    file: Arc<dyn File>,
    log: FramedLogWriter,
    /// The offset where its first frame ends.
    begun: u64,
    /// All frames below this offset are durable. If it is above `begun`, all older logs are
    /// durable, too.
    durable: u64,
    /// Older logs that may have frames that are not durable.
    older: Vec<(FileNumber, Arc<dyn File>)>,
}

impl LogWriter {
    /// Begins the log `number`, behind `previous` if there is one. The log and its name are durable
    /// then.
    pub(crate) fn begin(
        vfs: &dyn Vfs,
        dir: &Path,
        number: FileNumber,
        previous: Option<Previous>,
    ) -> Result<LogWriter> {
        let path = FileName::Log(number).path(dir);
        let created = vfs.create(&path);
        let file = created.map_err(|source| Error::io(&path, "create a log", source))?;
        let begun = begin_in(vfs, dir, &file, number, previous);
        if begun.is_err() {
            // The log is empty. If it stays, the next opening removes it.
            let _ = vfs.remove(&path);
        }
        let log = begun?;
        Ok(LogWriter {
            number,
            file,
            begun: log.end(),
            durable: log.end(),
            log,
            older: Vec::new(),
        })
    }

    /// Begins the log `number` behind this one, which then gets no more groups.
    pub(crate) fn begin_next(
        &self,
        vfs: &dyn Vfs,
        dir: &Path,
        number: FileNumber,
    ) -> Result<LogWriter> {
        let previous = Previous {
            number: self.number,
            end: self.end(),
            durable: self.durable,
        };
        let mut next = LogWriter::begin(vfs, dir, number, Some(previous))?;
        next.older = self.older.clone();
        if self.durable < self.end() {
            next.older.push((self.number, self.file.clone()));
        }
        Ok(next)
    }

    /// The number in its name.
    pub(crate) fn number(&self) -> FileNumber {
        self.number
    }

    /// The offset where the next frame goes.
    pub(crate) fn end(&self) -> u64 {
        self.log.end()
    }

    /// Whether no group was appended.
    pub(crate) fn is_unused(&self) -> bool {
        self.end() == self.begun
    }

    /// Writes a group by one system call. The group then survives the death of the process.
    pub(crate) fn append(&mut self, first: Version, group: &mut GroupBody) -> Result<()> {
        self.log.append(group.payload(first, self.durable))?;
        Ok(())
    }

    /// Makes all groups durable, also the groups of older logs. Returns the number of synced files.
    pub(crate) fn sync(&mut self) -> Result<u64> {
        let mut synced = 0;
        // Older logs come first: if this log says that it was synced, the same is true for the
        // older ones.
        for (_, file) in &self.older {
            let done = file.sync_data();
            done.map_err(|source| Error::io(file.path(), "sync a log", source))?;
            synced += 1;
        }
        self.older.clear();
        if self.durable < self.end() {
            self.log.sync()?;
            self.durable = self.end();
            synced += 1;
        }
        Ok(synced)
    }

    /// Forgets the logs below this number: their records are in tables and need no sync any more.
    pub(crate) fn forget_below(&mut self, number: FileNumber) {
        self.older.retain(|(older, _)| *older >= number);
    }
}

fn begin_in(
    vfs: &dyn Vfs,
    dir: &Path,
    file: &Arc<dyn File>,
    number: FileNumber,
    previous: Option<Previous>,
) -> Result<FramedLogWriter> {
    let mut log = FramedLogWriter::create(file.clone(), number.0)?;
    log.append(&encode_begin(previous))?;
    log.sync()?;
    let synced = vfs.sync_dir(dir);
    synced.map_err(|source| Error::io(dir, "sync the directory", source))?;
    Ok(log)
}
