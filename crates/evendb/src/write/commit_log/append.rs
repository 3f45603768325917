//! Appending, syncing, waiting.

use super::record::{ALIGN, HEADER_BYTES, Header, HeaderKind, payload_checksum, record_bytes};
use super::{CAPACITY_MIN, CAPACITY_UNIT, Lsn, record_bytes_max};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Condvar, Mutex};
use crossbeam_utils::CachePadded;
use evendb_storage::vfs::{File, Mapping, Vfs};
use evendb_storage::{Error, ErrorKind, Version};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Bytes ahead of the head that [`CommitLog::prefault_ahead`] touches.
const PREFAULT_BYTES: u64 = 1 << 20;

/// The commit log, open for appending.
pub(crate) struct CommitLog {
    file: Arc<dyn File>,
    /// `None`: records are written with `write_at`.
    mapping: Option<Box<dyn Mapping>>,
    capacity: u64,
    epoch: u64,
    seed: u64,
    /// End of the last complete record. Written Release under the ring latch, read Acquire.
    head: CachePadded<AtomicU64>,
    /// Start of what recovery needs. Written Release by the checkpoint, read Acquire.
    tail: CachePadded<AtomicU64>,
    /// Everything below survives power loss, here or in a checkpoint. Raised AcqRel under the sync
    /// mutex, read Acquire.
    durable: CachePadded<AtomicU64>,
    /// The ring latch.
    ring: CachePadded<Mutex<Ring>>,
    /// Held over a sync: of two syncs at once, only one would hear of a failure.
    flushing: Mutex<()>,
    sync: Mutex<SyncState>,
    /// Waiters for `durable` or an error.
    synced: Condvar,
    /// The flusher, waiting for work.
    requested: Condvar,
    /// LSN up to which pages were touched; only the thread that prefaults uses it.
    prefaulted: AtomicU64,
    #[cfg(test)]
    plant: super::Plant,
}

/// What the ring latch guards, besides moving the head.
#[derive(Default)]
struct Ring {
    /// End and length of each filler in the live part: nobody reserved these bytes.
    fillers: VecDeque<(u64, u64)>,
    /// One record on its way to `write_at`.
    scratch: Vec<u8>,
}

#[derive(Default)]
struct SyncState {
    requested: bool,
    /// The first failure; set once.
    error: Option<Arc<Error>>,
}

/// A failure that many hear of.
#[derive(Debug)]
struct Shared(Arc<Error>);

impl std::fmt::Display for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Shared {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

/// Creates the file of a ring: every block is written once, so that a sync later changes no block
/// map. The caller syncs the directory.
pub(crate) fn create_file(
    vfs: &dyn Vfs,
    path: &Path,
    capacity: u64,
) -> Result<Arc<dyn File>, Error> {
    check_capacity(capacity);
    let failed = |error| Error::io(path, "create the commit log", error);
    let file = vfs.create(path).map_err(failed)?;
    let zeros = vec![0; capacity.min(1 << 20) as usize];
    let mut at = 0;
    while at < capacity {
        let len = (capacity - at).min(zeros.len() as u64);
        file.write_at(&zeros[..len as usize], at).map_err(failed)?;
        at += len;
    }
    file.sync_data().map_err(failed)?;
    Ok(file)
}

fn check_capacity(capacity: u64) {
    assert!(
        capacity >= CAPACITY_MIN && capacity.is_multiple_of(CAPACITY_UNIT),
        "commit log of {capacity} bytes"
    );
}

impl CommitLog {
    /// Starts appending at `start` in a new epoch. `tail..start` is what recovery found and no
    /// checkpoint holds yet; it counts as durable only after the next flush, because what survived
    /// the death of a process need not have reached the disk.
    pub(crate) fn start(
        file: Arc<dyn File>,
        capacity: u64,
        mapped: bool,
        epoch: u64,
        seed: u64,
        start: Lsn,
        tail: Lsn,
    ) -> Result<CommitLog, Error> {
        check_capacity(capacity);
        assert!(start.0.is_multiple_of(ALIGN), "records are aligned");
        assert!(tail <= start && start.0 - tail.0 <= capacity, "live part");
        let mapping = if mapped {
            let map = file.map(capacity as usize);
            Some(map.map_err(|error| Error::io(file.path(), "map the commit log", error))?)
        } else {
            None
        };
        Ok(CommitLog {
            file,
            mapping,
            capacity,
            epoch,
            seed,
            head: CachePadded::new(AtomicU64::new(start.0)),
            tail: CachePadded::new(AtomicU64::new(tail.0)),
            durable: CachePadded::new(AtomicU64::new(tail.0)),
            ring: CachePadded::new(Mutex::new(Ring::default())),
            flushing: Mutex::new(()),
            sync: Mutex::new(SyncState::default()),
            synced: Condvar::new(),
            requested: Condvar::new(),
            prefaulted: AtomicU64::new(start.0),
            #[cfg(test)]
            plant: super::Plant::Nothing,
        })
    }

    /// Bytes that a record with a payload of this length takes in the ring.
    pub(crate) fn record_bytes(payload_len: usize) -> u64 {
        record_bytes(payload_len)
    }

    /// Appends one record whose payload is `parts`, concatenated, and returns its end. The caller
    /// has reserved its bytes. Never fails on a mapped ring; without a mapping a failed write
    /// latches the log, and this and every later append returns the failure.
    pub(crate) fn append(&self, version: Version, parts: &[&[u8]]) -> Result<Lsn, Error> {
        let payload_len: usize = parts.iter().map(|part| part.len()).sum();
        let total = record_bytes(payload_len);
        assert!(
            total <= record_bytes_max(self.capacity),
            "a record this long goes to a value extent"
        );
        // Outside of the latch: the longer part of the checksum.
        let checksum = payload_checksum(self.seed, parts);
        let mut ring = self.ring.lock();
        if self.mapping.is_none() {
            self.check_error()?;
        }
        let head = self.head.load(Ordering::Relaxed);
        let tail = self.tail.load(Ordering::Acquire);
        let rest = self.capacity - head % self.capacity;
        let start = if rest < total { head + rest } else { head };
        let end = start + total;
        assert!(
            end - tail <= self.capacity,
            "admission keeps the head within the ring"
        );
        self.publish_early(end);
        if start != head {
            self.fill(head, rest, tail)
                .map_err(|error| self.write_failed(error))?;
        }
        let header = Header {
            kind: HeaderKind::Record,
            payload_len: payload_len as u32,
            lsn: Lsn(start),
            epoch: self.epoch,
            version,
            tail: Lsn(tail),
        }
        .encode(checksum);
        self.copy(&mut ring.scratch, start, &header, parts)
            .map_err(|error| self.write_failed(error))?;
        if start != head {
            ring.fillers.push_back((start, rest));
        }
        self.head.store(end, Ordering::Release);
        Ok(Lsn(end))
    }

    /// Covers the rest of the lap.
    fn fill(&self, head: u64, rest: u64, tail: u64) -> io::Result<()> {
        let Some(payload_len) = rest.checked_sub(HEADER_BYTES as u64) else {
            return Ok(());
        };
        let header = Header {
            kind: HeaderKind::Filler,
            payload_len: payload_len as u32,
            lsn: Lsn(head),
            epoch: self.epoch,
            version: Version::ZERO,
            tail: Lsn(tail),
        }
        .encode(payload_checksum(self.seed, &[]));
        self.copy(&mut Vec::new(), head, &header, &[])
    }

    /// Copies a record to its place, the header last: until it is there, nothing verifies.
    fn copy(
        &self,
        scratch: &mut Vec<u8>,
        lsn: u64,
        header: &[u8; HEADER_BYTES],
        parts: &[&[u8]],
    ) -> io::Result<()> {
        let offset = lsn % self.capacity;
        if let Some(mapping) = &self.mapping {
            let mut at = offset as usize + HEADER_BYTES;
            for part in parts {
                mapping.write(at, part);
                at += part.len();
            }
            mapping.write(offset as usize, header);
            return Ok(());
        }
        scratch.clear();
        scratch.extend_from_slice(header);
        for part in parts {
            scratch.extend_from_slice(part);
        }
        self.file.write_at(scratch, offset)
    }

    fn write_failed(&self, error: io::Error) -> Error {
        let error = Error::io(self.file.path(), "write the commit log", error);
        self.latch(error)
    }

    /// End of the last complete record.
    pub(crate) fn head(&self) -> Lsn {
        Lsn(self.head.load(Ordering::Acquire))
    }

    /// Start of the live part.
    pub(crate) fn tail(&self) -> Lsn {
        Lsn(self.tail.load(Ordering::Acquire))
    }

    /// Everything below survives power loss.
    pub(crate) fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// Moves the tail after the manifest edit that records `l0` is durable. Returns how many
    /// reserved bytes came free: fillers, which nobody reserved, do not count.
    #[must_use = "admission takes these bytes back"]
    pub(crate) fn set_tail(&self, l0: Lsn) -> u64 {
        let freed = {
            let mut ring = self.ring.lock();
            let tail = self.tail.load(Ordering::Relaxed);
            assert!(
                tail <= l0.0 && l0.0 <= self.head.load(Ordering::Relaxed),
                "the tail moves within the live part"
            );
            let mut freed = l0.0 - tail;
            while let Some(&(end, len)) = ring.fillers.front() {
                if end > l0.0 {
                    break;
                }
                freed -= len;
                ring.fillers.pop_front();
            }
            self.tail.store(l0.0, Ordering::Release);
            freed
        };
        // A checkpoint holds what lies below. It finished before any error, or there is none.
        let _state = self.sync.lock();
        self.durable.fetch_max(l0.0, Ordering::AcqRel);
        self.synced.notify_all();
        freed
    }

    /// Makes durable what was appended before the call. A failure latches the log.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        let _one_at_a_time = self.flushing.lock();
        self.check_error()?;
        // Acquire: the copies of all records below the target are done.
        let target = self.head.load(Ordering::Acquire);
        let result = self.file.sync_data();
        let result = self.plant_ack(result);
        if let Err(error) = result {
            let error = Error::io(self.file.path(), "sync the commit log", error);
            return Err(self.latch(error));
        }
        let state = self.sync.lock();
        if let Some(error) = &state.error {
            // Something else failed during the sync: nothing becomes durable any more.
            return Err(self.repeat(error));
        }
        self.durable.fetch_max(target, Ordering::AcqRel);
        self.synced.notify_all();
        Ok(())
    }

    /// Waits until everything below `lsn` is durable, and has the flusher see to it. What is
    /// durable is so whatever failed since; else the failure is returned.
    pub(crate) fn wait_durable(&self, lsn: Lsn) -> Result<(), Error> {
        if self.durable() >= lsn {
            return Ok(());
        }
        let mut state = self.sync.lock();
        loop {
            // Under the mutex, under which it is raised: no wake-up is lost.
            if self.durable() >= lsn {
                return Ok(());
            }
            if let Some(error) = &state.error {
                return Err(self.repeat(error));
            }
            if !state.requested {
                state.requested = true;
                self.requested.notify_one();
            }
            self.synced.wait(&mut state);
        }
    }

    /// For the flusher: waits until a flush is wanted, or for `timeout`; whether one is.
    pub(crate) fn wait_for_flush_request(&self, timeout: Duration) -> bool {
        let mut state = self.sync.lock();
        if !state.requested {
            self.requested.wait_for(&mut state, timeout);
        }
        std::mem::take(&mut state.requested)
    }

    /// Wakes the flusher out of [`CommitLog::wait_for_flush_request`], to flush or to end.
    pub(crate) fn request_flush(&self) {
        self.sync.lock().requested = true;
        self.requested.notify_all();
    }

    /// The database failed: all waiters return `cause` unless what they wait for is durable
    /// already, and nothing becomes durable any more. The first cause stays.
    pub(crate) fn fail(&self, cause: impl Into<Arc<Error>>) {
        let mut state = self.sync.lock();
        if state.error.is_none() {
            state.error = Some(cause.into());
        }
        self.synced.notify_all();
        self.requested.notify_all();
    }

    /// Touches the pages ahead of the head, so that no appender takes a page fault while it holds
    /// the latch. For one background thread; changes no byte.
    pub(crate) fn prefault_ahead(&self) {
        let Some(mapping) = &self.mapping else {
            return;
        };
        let head = self.head.load(Ordering::Relaxed);
        let end = head + PREFAULT_BYTES.min(self.capacity);
        let mut at = self.prefaulted.load(Ordering::Relaxed).max(head);
        while at < end {
            let offset = at % self.capacity;
            let len = (end - at).min(self.capacity - offset);
            mapping.prefault(offset as usize, len as usize);
            at += len;
        }
        self.prefaulted.store(at, Ordering::Relaxed);
    }

    /// Latches `error` unless an earlier one is there; returns what is latched.
    fn latch(&self, error: Error) -> Error {
        self.fail(error);
        self.check_error()
            .expect_err("an error was latched just now")
    }

    fn check_error(&self) -> Result<(), Error> {
        match &self.sync.lock().error {
            Some(error) => Err(self.repeat(error)),
            None => Ok(()),
        }
    }

    /// The latched failure for one more caller, with the original as its source.
    fn repeat(&self, error: &Arc<Error>) -> Error {
        let kind = match error.kind() {
            ErrorKind::NoSpace => io::ErrorKind::StorageFull,
            ErrorKind::Unsupported => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::Other,
        };
        let source = io::Error::new(kind, Shared(Arc::clone(error)));
        Error::io(self.file.path(), "use the commit log", source)
    }

    #[inline]
    fn publish_early(&self, _end: u64) {
        #[cfg(test)]
        if self.plant == super::Plant::EarlyHead {
            self.head.store(_end, Ordering::Release);
        }
    }

    #[inline]
    fn plant_ack(&self, result: io::Result<()>) -> io::Result<()> {
        #[cfg(test)]
        if self.plant == super::Plant::AckAfterFailedSync {
            return Ok(());
        }
        result
    }

    #[cfg(all(test, evendb_loom))]
    pub(super) fn planted(mut self, plant: super::Plant) -> CommitLog {
        self.plant = plant;
        self
    }
}

impl std::fmt::Debug for CommitLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommitLog")
            .field("tail", &self.tail())
            .field("durable", &self.durable())
            .field("head", &self.head())
            .finish_non_exhaustive()
    }
}
