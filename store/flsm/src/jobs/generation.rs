//! The current generation: how its log becomes durable, how it ends, and how a call waits for its
//! flush. Not here: how it gets records (`write`), and how a flush makes tables (`worker`).

use crate::engine::Engine;
use crate::engine::work::Generation;
use crate::engine::write_path::Writer;
use crate::error::{Error, Result};
use crate::log::writer::LogWriter;
use crate::plant::planted;
use crate::types::FileNumber;
use evendb_base::ballast::Need;
use evendb_base::sync::atomic::Ordering::Relaxed;

/// After the return everything that was written before is in tables. The caller has entered the
/// gate.
pub(crate) fn flush_all(engine: &Engine) -> Result<()> {
    let newest = {
        let mut writer = engine.writes.writer.lock();
        end(engine, &mut writer)?
    };
    wait_for(engine, newest)
}

/// Ends the current generation. Returns the number of the newest generation that waits then.
pub(crate) fn end(engine: &Engine, writer: &mut Writer) -> Result<Option<FileNumber>> {
    engine.health.check_latched()?;
    writer.rotate(engine)?;
    Ok(engine.work.newest_waiting())
}

/// Waits until all generations up to this one are flushed.
pub(crate) fn wait_for(engine: &Engine, newest: Option<FileNumber>) -> Result<()> {
    match newest {
        Some(number) => engine.work.wait_for_flush(&engine.health, number),
        None => Ok(()),
    }
}

impl Writer {
    /// Makes the log's contents durable.
    pub(crate) fn sync(&mut self, engine: &Engine) -> Result<()> {
        if planted!(engine.options, SyncLeftOut) {
            return Ok(());
        }
        let Some(log) = &mut self.log else {
            return Ok(());
        };
        log.forget_below(match planted!(engine.options, OlderLogsNotSynced) {
            true => FileNumber(u64::MAX),
            false => engine.work.logs_needed(),
        });
        let synced = log.sync().map_err(|error| {
            let error = Error::from(error);
            engine.latch(&error);
            error
        })?;
        engine.figures.syncs.fetch_add(synced, Relaxed);
        Ok(())
    }

    /// Begins another generation, unless this one is empty. Its memory tables then wait to be
    /// flushed.
    pub(crate) fn rotate(&mut self, engine: &Engine) -> Result<()> {
        let is_unused = self.log.as_ref().is_none_or(LogWriter::is_unused);
        if self.memories.is_empty() && is_unused {
            return Ok(());
        }
        let number = engine.making.numbers.take();
        let vfs = &*engine.options.vfs;
        let next = match &self.log {
            Some(log) => {
                // The old log's records are flushed then, which gives room back.
                let begin = || log.begin_next(vfs, &engine.dir, number);
                let next = engine.full_disk.with(Need::Jobs, begin);
                Some(next.map_err(|error| engine.failed(error))?)
            }
            None => None,
        };
        let log = std::mem::replace(&mut self.log, next);
        let memories = std::mem::take(&mut self.memories);
        let waiting = log.as_ref().map_or(self.bytes, LogWriter::end);
        engine.full_disk.note_waiting(waiting);
        engine.work.push(Generation {
            number: self.generation,
            memories: memories.into_values().collect(),
            last_version: self.last,
            logs: log.iter().map(LogWriter::number).collect(),
            next: number,
        });
        self.generation = number;
        self.bytes = 0;
        Ok(())
    }
}
