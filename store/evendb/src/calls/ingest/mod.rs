//! Sorted records that are written once, as tables, and shown at one moment: the work of
//! [`crate::Keyspace::ingest`].
//!
//! ```text
//! records, ascending --> table --> file, past the page cache, synced      writers and readers go
//!                                                                         on, and see no record
//!                        table --> file                    (a helper writes one, the next is made)
//!                        ...
//! publish: names synced; checkpoint; chunks held; checkpoint;
//!          one edit of the manifest, synced; one root
//! ```
//! Invariants: no chunk and no edit names a table before all are synced. An ingest that fails, or
//! is dropped, leaves no file. An ingest that is killed, or open when its database is closed,
//! leaves files that nothing names, which the next opening removes. Rows have no version
//! (`Version::ZERO`): the version is known when they are shown, and is in the manifest
//! ([`publish`]).
//!
//! Thread safety: one thread has an [`IngestWriter`]; its helper has only a file and a buffer. Not
//! here: the new chunks ([`layout`]), and the order of the steps that show the records
//! ([`publish`]).

mod layout;
pub(crate) mod publish;
#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
pub(crate) mod tests;

use crate::catalog::KeyspaceState;
use crate::engine::Engine;
use crate::engine::handle::Handle;
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::edit::{Part, Place, Role};
use crate::memory::{Charge, Use};
use crate::op::check_limits;
use crate::plant::planted;
use crate::read::merges;
use crate::sync::{Arc, reclaim, start_thread, thread};
use crate::tables::table_path;
use crate::write;
use evendb_base::gate::Held;
use evendb_storage::table::{TableMeta, TableWriter};
use evendb_storage::vfs::{Appender, BLOCK_BYTES, Vfs};
use evendb_storage::{EntryRef, Kind, TableId, Time, Version};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The largest number of bytes that are gathered for one write to a table's file: see
/// `rebalance/rewriting/rewrite.rs`.
const WRITE_BYTES_MAX: u64 = 640 << 10;
const WRITE_BYTES_MIN: u64 = 128 << 10;
/// A key in a message is cut after this number of bytes.
const SHOWN_KEY_BYTES: usize = 64;

/// The result of an ingest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IngestSummary {
    /// Records that were ingested.
    pub records: u64,
    /// Bytes of their keys and values.
    pub data_bytes: u64,
    /// Tables that were written.
    pub tables: u64,
    /// Bytes of these tables.
    pub table_bytes: u64,
    /// Tables that lie among older data, and will be written again when their chunks are rewritten.
    pub tables_overlapping: u64,
}

/// A table that is being made, in RAM.
struct OpenTable {
    id: TableId,
    writer: TableWriter<Vec<u8>>,
    data_bytes: u64,
    /// The end of its first key's chunk: a table that is large enough does not reach beyond it.
    border: Option<Box<[u8]>>,
}

/// A finished table, and its file.
struct Finished {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    bytes: Vec<u8>,
    piece_bytes: usize,
    is_synced: bool,
    /// Closing waits until the table is written.
    _held: Held,
}

/// Which step of writing a file failed.
enum Failed {
    Write(evendb_storage::Error),
    Sync(evendb_storage::Error),
}

impl Finished {
    /// Writes and syncs the file; returns the buffer, emptied. The name is synced together with all
    /// others ([`publish`]).
    fn write(mut self) -> std::result::Result<Vec<u8>, Failed> {
        let failed = |what: &'static str| {
            let path = self.path.clone();
            move |source| evendb_storage::Error::io(&path, what, source)
        };
        let file = self.vfs.create(&self.path);
        let file = file.map_err(failed("create an SSTable"));
        let file = file.map_err(Failed::Write)?;
        let mut out = Appender::new(file.clone(), self.piece_bytes, true);
        let mut rest = &self.bytes[..];
        while !rest.is_empty() {
            let (next, left) = rest.split_at(rest.len().min(self.piece_bytes));
            out.buffer().extend_from_slice(next);
            rest = left;
            let written = match rest.is_empty() {
                true => out.finish(),
                false => out.pass_on(),
            };
            let written = written.map_err(failed("write an SSTable"));
            written.map_err(Failed::Write)?;
        }
        if self.is_synced {
            let synced = file.sync_data().map_err(failed("sync an SSTable"));
            synced.map_err(Failed::Sync)?;
        }
        self.bytes.clear();
        Ok(self.bytes)
    }
}

/// The thread that writes one table while the next is made.
struct Helper {
    jobs: Option<SyncSender<Finished>>,
    done: Receiver<std::result::Result<Vec<u8>, Failed>>,
    thread: Option<thread::JoinHandle<()>>,
    is_busy: bool,
}

impl Helper {
    /// `None` if the system has no thread.
    fn start() -> Option<Helper> {
        let (jobs, queue) = sync_channel::<Finished>(1);
        let (back, done) = sync_channel(1);
        let body = move || {
            for job in queue {
                if back.send(job.write()).is_err() {
                    break;
                }
            }
        };
        Some(Helper {
            jobs: Some(jobs),
            done,
            thread: Some(start_thread("evendb-ingest", body).ok()?),
            is_busy: false,
        })
    }

    /// Waits for the table that is being written, if there is one; returns an empty buffer.
    fn wait(&mut self) -> std::result::Result<Vec<u8>, Failed> {
        if !std::mem::take(&mut self.is_busy) {
            return Ok(Vec::new());
        }
        match self.done.recv() {
            Ok(written) => written,
            // The helper panicked.
            Err(_) => {
                let source = std::io::Error::other("the thread that writes tables has ended");
                let what = "write an SSTable";
                let error = evendb_storage::Error::io(std::path::Path::new(""), what, source);
                Err(Failed::Write(error))
            }
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A failure has been reported already, or nobody asks any more.
            let _ = thread.join();
        }
    }
}

/// See the module.
pub(crate) struct IngestWriter {
    handle: Arc<Handle>,
    keyspace: Arc<KeyspaceState>,
    open: Option<OpenTable>,
    /// An empty buffer for the next table.
    spare: Vec<u8>,
    last_key: Option<Vec<u8>>,
    /// The value of the current record, with the time at which it expires in front.
    timed: Vec<u8>,
    /// Some record expires.
    expires: bool,
    /// All finished tables; the last one may still be being written.
    parts: Vec<Part>,
    helper: Option<Helper>,
    summary: IngestSummary,
    /// The ingest failed, and its files are gone.
    is_over: bool,
    /// The charge for the buffers.
    charge: Charge,
}

fn shown(key: &[u8]) -> String {
    let more = if key.len() > SHOWN_KEY_BYTES {
        "..."
    } else {
        ""
    };
    let cut = &key[..key.len().min(SHOWN_KEY_BYTES)];
    format!("\"{}\"{more}", cut.escape_ascii())
}

impl IngestWriter {
    pub(crate) fn new(handle: &Arc<Handle>, keyspace: &Arc<KeyspaceState>) -> Result<IngestWriter> {
        let core = &handle.engine.core;
        core.health.check_writable()?;
        keyspace.check_readable_at(Version::MAX)?;
        Ok(IngestWriter {
            charge: Charge::new(core.ledger(), Use::Buffers, 0),
            handle: handle.clone(),
            keyspace: keyspace.clone(),
            open: None,
            spare: Vec::new(),
            last_key: None,
            timed: Vec::new(),
            expires: false,
            parts: Vec::new(),
            helper: None,
            summary: IngestSummary::default(),
            is_over: false,
        })
    }

    /// Takes the next record, and the time at which it expires, if it does. After an error nothing
    /// is left, and no more records are taken.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8], expires: Option<Time>) -> Result<()> {
        self.handle.engine.core.health.check_readable()?;
        self.check_begun()?;
        let Some(time) = expires else {
            let put = self.try_put(key, (Kind::Put, value));
            return put.inspect_err(|_| self.give_up());
        };
        self.expires = true;
        let mut timed = std::mem::take(&mut self.timed);
        timed.clear();
        timed.extend_from_slice(&time.0.to_le_bytes());
        timed.extend_from_slice(value);
        let put = self.try_put(key, (Kind::PutUntil, &timed));
        self.timed = timed;
        put.inspect_err(|_| self.give_up())
    }

    fn check_begun(&self) -> Result<()> {
        if !self.is_over {
            return Ok(());
        }
        let message = "this ingest has failed, and its files are removed; begin another one";
        Err(Error::new(ErrorKind::InvalidArgument, message))
    }

    fn try_put(&mut self, key: &[u8], (kind, value): (Kind, &[u8])) -> Result<()> {
        let handle = self.handle.clone();
        let engine = &*handle.engine;
        let user_value = &value[kind.prefix_bytes()..];
        check_limits(key, user_value)?;
        write::check_value_size(&engine.core, key.len(), value.len())?;
        merges::check_value(&self.keyspace, key, user_value)?;
        if let Some(last) = self.last_key.as_deref().filter(|last| key <= *last) {
            return Err(unsorted(last, key));
        }
        let size = (key.len() + value.len()) as u64;
        // As large as tables of checkpoints: a chunk with one such table has room to grow.
        let bytes_max = engine.core.options.chunk_bytes_max() * 7 / 10;
        let ends = |open: &OpenTable| {
            let is_full = open.data_bytes + size > bytes_max;
            let crosses = || open.border.as_deref().is_some_and(|border| key >= border);
            is_full || (2 * open.data_bytes >= bytes_max && crosses())
        };
        if self.open.as_ref().is_some_and(ends) {
            self.finish_table()?;
        }
        if self.open.is_none() {
            self.open = Some(self.begin_table(engine, key)?);
        }
        let open = self.open.as_mut().expect("just made");
        open.writer.add(EntryRef {
            key,
            version: Version::ZERO,
            kind,
            value,
        })?;
        open.data_bytes += size;
        self.summary.records += 1;
        self.summary.data_bytes += size;
        let last = self.last_key.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        Ok(())
    }

    fn begin_table(&mut self, engine: &Engine, first: &[u8]) -> Result<OpenTable> {
        engine.core.health.check_writable()?;
        self.keyspace.check_readable_at(Version::MAX)?;
        // While the reserve for deletes is owed, an ingest must not take the room, like a put.
        engine.disk.full_disk.check(&engine.catalog)?;
        let border = {
            let pin = reclaim::pin();
            let index = self.keyspace.index.load(&pin);
            index.get().find(first).range.high.clone()
        };
        let id = engine.disk.new_table_id();
        let options = engine.core.table_options(self.keyspace.id);
        let buffer = std::mem::take(&mut self.spare);
        Ok(OpenTable {
            id,
            writer: TableWriter::new(buffer, id, options).sealed(engine.disk.vfs.secrets()),
            data_bytes: 0,
            border,
        })
    }

    /// Completes the table that is being made, and writes it, or lets the helper write it.
    fn finish_table(&mut self) -> Result<()> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let handle = self.handle.clone();
        let engine = &*handle.engine;
        let _inside = engine.core.health.enter()?;
        let (bytes, meta) = open.writer.finish()?;
        self.summary.tables += 1;
        self.summary.table_bytes += meta.len;
        let piece = engine.core.options.chunk_bytes_max() / 16;
        let piece = piece.clamp(WRITE_BYTES_MIN, WRITE_BYTES_MAX) as usize;
        let piece_bytes = piece.next_multiple_of(BLOCK_BYTES);
        let finished = Finished {
            vfs: engine.disk.vfs.clone(),
            path: table_path(&engine.disk.dir, open.id),
            piece_bytes,
            is_synced: !planted!(engine.core.options, IngestNotSynced),
            bytes,
            _held: engine.core.health.hold()?,
        };
        let buffers = 1 + usize::from(self.helper.is_some());
        let capacity = finished.bytes.capacity().max(self.spare.capacity());
        self.charge.set(buffers * capacity + piece_bytes);
        // Listed from here on, so that it is removed if it cannot be written.
        self.parts.push(part_of(engine, open.id, meta));
        let alone = engine.core.manual() || cfg!(any(evendb_loom, evendb_shuttle));
        if self.helper.is_none() && !alone && self.parts.len() > 1 {
            self.helper = Helper::start();
        }
        let written = match &mut self.helper {
            None => finished.write(),
            Some(helper) => helper.wait().inspect(|_| {
                let jobs = helper.jobs.as_ref();
                helper.is_busy = jobs.is_some_and(|jobs| jobs.send(finished).is_ok());
            }),
        };
        self.spare = self.taken(written)?;
        Ok(())
    }

    /// Handles the result of writing a table. After a failed sync it is unknown what is on the
    /// disk, so writing stops for good.
    fn taken(&self, written: std::result::Result<Vec<u8>, Failed>) -> Result<Vec<u8>> {
        written.map_err(|failed| match failed {
            Failed::Write(error) => error.into(),
            Failed::Sync(error) => self.handle.engine.core.health.latch(error.into()),
        })
    }

    /// Shows all records at once, durably.
    pub(crate) fn finish(mut self) -> Result<IngestSummary> {
        let handle = self.handle.clone();
        let _inside = handle.engine.core.health.enter()?;
        self.check_begun()?;
        let result = self.finish_files();
        if let Err(error) = result {
            self.give_up();
            return Err(error);
        }
        let mut summary = self.summary;
        let engine = &self.handle.engine;
        if self.expires {
            engine.core.clock.expiry.note_use();
        }
        if !self.parts.is_empty() {
            summary.tables_overlapping = publish::publish(engine, &self.keyspace, &self.parts)
                .inspect_err(|_| remove(engine, &self.parts))?;
            let metrics = &engine.core.metrics;
            metrics.puts.add(summary.records);
            metrics.bytes_user.add(summary.data_bytes);
        }
        self.parts.clear();
        Ok(summary)
    }

    /// After this all files are synced.
    fn finish_files(&mut self) -> Result<()> {
        self.finish_table()?;
        if let Some(mut helper) = self.helper.take() {
            let written = helper.wait();
            self.taken(written)?;
        }
        let bytes = self.summary.table_bytes;
        self.handle.engine.core.metrics.bytes_sstable.add(bytes);
        Ok(())
    }

    /// Removes all files. It waits for the file that is being written.
    fn give_up(&mut self) {
        self.is_over = true;
        self.open = None;
        self.helper = None;
        remove(&self.handle.engine, &self.parts);
        self.parts.clear();
    }
}

impl Drop for IngestWriter {
    fn drop(&mut self) {
        self.give_up();
    }
}

fn unsorted(last: &[u8], key: &[u8]) -> Error {
    let (last, key, what) = match last == key {
        true => (shown(last), shown(key), "twice"),
        false => (shown(last), shown(key), "which is greater"),
    };
    let message = match what {
        "twice" => format!("the key {key} comes twice"),
        _ => format!("the key {key} comes after {last}, {what}"),
    };
    let message = format!(
        "{message}: what is ingested must be in ascending order, each key once; nothing was ingested"
    );
    Error::new(ErrorKind::Unsorted, message)
}

fn part_of(engine: &Engine, id: TableId, meta: TableMeta) -> Part {
    Part {
        table: id,
        place: Place::File,
        role: Role::Base,
        epoch: engine.disk.epoch,
        checkpoint: 0,
        meta: Arc::new(meta),
    }
}

/// Removes files that nothing names. After a failure it is unknown which files the manifest names,
/// so they stay. After closing, the directory may belong to another opening, which has removed
/// them.
fn remove(engine: &Engine, parts: &[Part]) {
    let Ok(_inside) = engine.core.health.enter() else {
        return;
    };
    if engine.core.health.may_remove() {
        for part in parts {
            let _ = engine
                .disk
                .vfs
                .remove(&table_path(&engine.disk.dir, part.table));
        }
    }
}
