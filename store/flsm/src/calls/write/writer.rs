//! What the leader of a group does with log, memory tables and versions, in the order of the
//! functions.

use crate::engine::Engine;
use crate::engine::write_path::Writer;
use crate::error::{Error, ErrorKind, Result};
use crate::keyspace::KeyspaceState;
use crate::log::record::{GroupBody, Refused};
use crate::log::writer::LogWriter;
use crate::memory::MemoryTable;
use crate::plant::planted;
use crate::types::KeyspaceId;
use evendb_base::ballast::Need;
use evendb_base::sync::Arc;
use evendb_base::sync::atomic::Ordering::Relaxed;
use evendb_base::sync::thread;
use evendb_storage::Version;
use std::time::{Duration, Instant};

/// The wait of a group that is slowed down.
const SLOWED: Duration = Duration::from_millis(1);

impl Writer {
    /// Begins another generation if this one is full. Slows down or waits if flushes or compactions
    /// are behind.
    pub(crate) fn make_room(&mut self, engine: &Engine) -> Result<()> {
        let options = &engine.options;
        let level0 = options.advanced.level0;
        let log_end = self.log.as_ref().map_or(0, LogWriter::end);
        if self.bytes >= options.write_buffer_bytes() || log_end >= options.log_bytes_max() {
            if !engine.work.has_room(level0.stop) {
                let began = Instant::now();
                let waited = engine.work.wait_for_room(&engine.health, level0.stop);
                engine.figures.stopped.add(began.elapsed());
                waited?;
            }
            return self.rotate(engine);
        }
        if engine.work.level0() >= level0.slow {
            let began = Instant::now();
            thread::sleep(SLOWED);
            engine.figures.slowed.add(began.elapsed());
        }
        Ok(())
    }

    /// Makes the ballast large enough for the tables and logs that the group leads to.
    pub(crate) fn cover(&self, engine: &Engine, group: &GroupBody) -> Result<()> {
        let log_end = self.log.as_ref().map_or(0, LogWriter::end);
        let bytes = log_end.max(self.bytes) + group.len() as u64;
        let covered = engine.full_disk.cover(bytes);
        covered.map_err(|error| engine.failed(error))
    }

    /// Writes a group to the log, if there is one. On a full disk a group without puts may use the
    /// room that is kept back for deletes.
    pub(crate) fn append(
        &mut self,
        engine: &Engine,
        group: &mut GroupBody,
        has_puts: bool,
    ) -> Result<()> {
        let Some(log) = &mut self.log else {
            return Ok(());
        };
        let (before, first) = (log.end(), Version(self.last.0 + 1));
        let mut append = || log.append(first, group);
        let appended = match has_puts {
            true => append(),
            false => engine.full_disk.with(Need::Deletes, append),
        };
        appended.map_err(|error| engine.failed(error))?;
        let written = log.end() - before;
        engine.figures.log_bytes.fetch_add(written, Relaxed);
        Ok(())
    }

    /// Puts the records of a group into memory tables, and shows them.
    pub(crate) fn apply(
        &mut self,
        engine: &Engine,
        group: &GroupBody,
        keyspaces: &[Arc<KeyspaceState>],
    ) -> Result<()> {
        let mut table: Option<(KeyspaceId, Option<Arc<MemoryTable>>)> = None;
        for record in group.encoded() {
            let record = record.map_err(|refused| misencoded(engine, refused))?;
            self.last = Version(self.last.0 + 1);
            if table.as_ref().is_none_or(|(id, _)| *id != record.keyspace) {
                table = Some((record.keyspace, self.memory_of(record.keyspace, keyspaces)));
            }
            if let Some((_, Some(table))) = &table {
                self.bytes += table.insert(record.entry(self.last)) as u64;
            }
            if planted!(engine.options, ShownEarly) {
                engine.clock.publish(self.last);
            }
        }
        engine.clock.publish(self.last);
        Ok(())
    }

    /// The memory table of a keyspace. It is in the keyspace's view. `None` if the keyspace was
    /// dropped.
    fn memory_of(
        &mut self,
        id: KeyspaceId,
        keyspaces: &[Arc<KeyspaceState>],
    ) -> Option<Arc<MemoryTable>> {
        if let Some((_, table)) = self.memories.get(&id) {
            return Some(table.clone());
        }
        let keyspace = keyspaces.iter().find(|keyspace| keyspace.id == id)?;
        if keyspace.is_dropped() {
            return None;
        }
        let table = Arc::new(MemoryTable::new());
        let generation = self.generation;
        keyspace.change(|view| view.memories.insert(0, (generation, table.clone())));
        self.bytes += table.allocated_bytes() as u64;
        let both = (keyspace.clone(), table.clone());
        self.memories.insert(id, both);
        Some(table)
    }

    /// Drops a keyspace at a version that no record has: readers at that version or above find it
    /// gone. The drop is noted before the version is shown, so that no reader at that version finds
    /// the keyspace.
    pub(crate) fn mark_dropped(&mut self, engine: &Engine, keyspace: &KeyspaceState) {
        self.last = Version(self.last.0 + 1);
        if planted!(engine.options, DropNotedLate) {
            engine.clock.publish(self.last);
        }
        keyspace.drop_at(self.last);
        engine.clock.publish(self.last);
    }
}

#[cold]
fn misencoded(engine: &Engine, refused: Refused) -> Error {
    let message = format!("a group that was just encoded cannot be decoded: {refused:?}");
    let error = Error::new(ErrorKind::Corruption, message);
    engine.latch(&error);
    error
}
