//! Appending. [`crate::commit_log::flush`] makes appended records durable.

use crate::commit_log::flush::{SyncedFirst, Syncing};
use crate::commit_log::follow::Followers;
use crate::commit_log::idle_pages::IdlePages;
use crate::commit_log::mapped_pages::Tending;
use crate::commit_log::record::{
    ALIGN, HEADER_BYTES, Header, HeaderKind, payload_checksum, record_bytes,
};
use crate::commit_log::room::record_bytes_max_of;
use crate::commit_log::{LogPlant, Lsn, sealed};
use crate::options::Writing;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex};
use crossbeam_utils::CachePadded;
use evendb_storage::sealing::{Cipher, TAG_BYTES};
use evendb_storage::vfs::{File, Mapping};
use evendb_storage::{Error, Version};
use std::collections::VecDeque;
use std::io::{self, ErrorKind as Io};
use std::ops::Range;

/// The largest page in bytes by which a file may be mapped: at worst, one byte written through the
/// mapping makes the next sync write a whole page.
pub(crate) const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// The buffer for one record keeps at most this number of bytes after a longer record.
const SCRATCH_BYTES_MAX: usize = 64 << 10;

/// The commit log, open for appending.
pub(crate) struct CommitLog {
    pub(crate) file: Arc<dyn File>,
    pub(crate) writing: Writing,
    /// The mapping, if records are copied into one.
    pub(crate) mapping: Option<Box<dyn Mapping>>,
    pub(crate) capacity: u64,
    epoch: u64,
    pub(crate) seed: u64,
    /// End of the last complete record. Written Release under the ring latch, read Acquire.
    pub(crate) head: CachePadded<AtomicU64>,
    /// Start of the part that recovery needs. Written Release by the checkpoint, read Acquire.
    tail: CachePadded<AtomicU64>,
    /// Everything below survives power loss, here or in a checkpoint. Raised AcqRel under the sync
    /// mutex, read Acquire.
    pub(crate) durable: CachePadded<AtomicU64>,
    /// The ring latch.
    pub(crate) ring: CachePadded<Mutex<Ring>>,
    /// Which thread syncs, and which ones wait for it.
    pub(crate) syncing: Syncing,
    /// Other files that have to be on the disk before anything here is durable.
    pub(crate) synced_first: Option<Arc<dyn SyncedFirst>>,
    /// Records that begin below it are not copied into the mapping, but written
    /// ([`Self::write_from`]). A hint, Relaxed: both ways are right.
    pub(crate) written_below: AtomicU64,
    /// Bytes of the file that have blocks ([`crate::commit_log::room`]). Moves under the ring
    /// latch.
    pub(crate) room: AtomicU64,
    /// Whether the blocks of the room are known to exist.
    pub(crate) backed: AtomicBool,
    /// The handle by which the file grows, if it may; locked while it grows.
    pub(crate) grower: Mutex<Option<Arc<dyn File>>>,
    /// Which threads wait for more to read.
    pub(crate) followers: Followers,
    /// The state of the mapped pages while no thread looks after them.
    pub(crate) tended: Mutex<Option<Tending>>,
    /// Which memory of the mapped pages was given back.
    pub(crate) idle_pages: IdlePages,
    #[cfg(test)]
    pub(crate) plant: LogPlant,
    /// The cipher of payloads, in an encrypted database.
    cipher: Option<Cipher>,
}

/// The data under the ring latch, besides the move of the head.
#[derive(Default)]
pub(crate) struct Ring {
    /// End and length of each filler in the live part: no put has reserved these bytes.
    pub(crate) fillers: VecDeque<(u64, u64)>,
    /// One record on its way to `write_at`.
    scratch: Vec<u8>,
    /// One payload, encrypted.
    sealed: Vec<u8>,
    /// No LSN from here on has been the nonce of a payload.
    nonces_from: u64,
    /// Records that no sync has taken yet, if records are gathered.
    pub(crate) gathered: Gathered,
}

/// Bytes for the file, in the order of their LSNs.
#[derive(Default)]
pub(crate) struct Gathered {
    pub(crate) bytes: Vec<u8>,
    /// LSN and index in `bytes` of each piece that begins a lap, or comes first.
    pub(crate) pieces: Vec<(u64, usize)>,
}

impl Gathered {
    /// Writes the position that is durable now into every header, which is possible because the
    /// headers are not in the file yet. So the first records of each group prove that the group
    /// before it was synced.
    pub(crate) fn tell_durable(&mut self, seed: u64, durable: Lsn) {
        let starts = self.pieces.iter().map(|piece| piece.1);
        let ends = starts.clone().skip(1).chain([self.bytes.len()]);
        for (start, end) in starts.zip(ends) {
            let mut at = start;
            // A filler's payload is not in `bytes`: the filler ends its piece.
            while let Some(bytes) = self.bytes[..end].get_mut(at..)
                && let Some(bytes) = bytes.first_chunk_mut::<HEADER_BYTES>()
                && let Some(mut header) = Header::decode(bytes)
            {
                header.durable = header.durable.max(durable.min(header.lsn));
                *bytes = header.encode(seed);
                at += header.total_bytes() as usize;
            }
        }
    }

    /// Adds a record at `lsn`, which must not lie below an earlier one.
    fn push(&mut self, lsn: u64, header: &[u8; HEADER_BYTES], parts: &[&[u8]], capacity: u64) {
        let expected = self
            .pieces
            .last()
            .map(|(start, at)| start + (self.bytes.len() - at) as u64);
        if expected != Some(lsn) || lsn.is_multiple_of(capacity) {
            self.pieces.push((lsn, self.bytes.len()));
        }
        self.bytes.extend_from_slice(header);
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        // Padded up to the next record's place, so that the next record continues this piece.
        let padded = self.bytes.len().next_multiple_of(ALIGN as usize);
        self.bytes.resize(padded, 0);
    }

    /// Forgets the bytes below `lsn`: a checkpoint holds them, and recovery begins at `lsn`.
    fn forget_below(&mut self, lsn: u64) {
        let passed = self.pieces.partition_point(|&(start, _)| start < lsn);
        let Some(&(start, at)) = passed.checked_sub(1).and_then(|last| self.pieces.get(last))
        else {
            return;
        };
        let next = self
            .pieces
            .get(passed)
            .map_or(self.bytes.len(), |piece| piece.1);
        let cut = next.min(at + (lsn - start) as usize);
        self.pieces.drain(..passed);
        for piece in &mut self.pieces {
            piece.1 -= cut;
        }
        if cut < next {
            self.pieces.insert(0, (lsn, 0));
        }
        self.bytes.drain(..cut);
    }
}

pub(crate) fn check_capacity(capacity: u64) {
    assert!(
        crate::commit_log::is_capacity(capacity),
        "commit log of {capacity} bytes"
    );
}

/// The mapping of a ring; `None` if the file system or a filter of system calls allows none.
fn map(file: &dyn File, capacity: u64) -> Result<Option<Box<dyn Mapping>>, Error> {
    match file.map(capacity as usize) {
        Ok(mapping) => Ok(Some(mapping)),
        Err(error) if matches!(error.kind(), Io::Unsupported | Io::PermissionDenied) => Ok(None),
        Err(error) => Err(Error::io(file.path(), "map the commit log", error)),
    }
}

impl CommitLog {
    /// Starts appending at the end of `live` in a new epoch. The records in `live` were found by
    /// recovery, and no checkpoint holds them yet. They count as durable only after the next flush,
    /// because bytes that survived the death of a process need not have reached the disk. All of
    /// the ring has its blocks, unless [`with_room`](Self::with_room) says otherwise.
    pub(crate) fn start(
        file: Arc<dyn File>,
        capacity: u64,
        writing: Writing,
        epoch: u64,
        seed: u64,
        live: Range<Lsn>,
    ) -> Result<CommitLog, Error> {
        let (tail, start) = (live.start, live.end);
        check_capacity(capacity);
        assert!(start.0.is_multiple_of(ALIGN), "records are aligned");
        assert!(tail <= start && start.0 - tail.0 <= capacity, "live part");
        let mapping = match writing {
            Writing::Mapped if file.keeps_its_place() => map(&*file, capacity)?,
            _ => None,
        };
        let writing = match writing {
            Writing::Mapped if mapping.is_none() => Writing::Written,
            chosen => chosen,
        };
        let cipher = file.secrets();
        let cipher = cipher.map(|secrets| sealed::cipher(secrets, epoch, seed));
        Ok(CommitLog {
            cipher,
            file,
            writing,
            mapping,
            capacity,
            epoch,
            seed,
            head: CachePadded::new(AtomicU64::new(start.0)),
            tail: CachePadded::new(AtomicU64::new(tail.0)),
            durable: CachePadded::new(AtomicU64::new(tail.0)),
            ring: CachePadded::new(Mutex::new(Ring::default())),
            syncing: Syncing::default(),
            synced_first: None,
            written_below: AtomicU64::new(0),
            room: AtomicU64::new(capacity),
            backed: AtomicBool::new(true),
            grower: Mutex::new(None),
            followers: Followers::new(start),
            tended: Mutex::new(None),
            idle_pages: IdlePages::new(start.0),
            #[cfg(test)]
            plant: LogPlant::Nothing,
        })
    }

    /// From now on each sync of the log is preceded by a sync of the other files that its records
    /// name.
    pub(crate) fn with_synced_first(mut self, files: Arc<dyn SyncedFirst>) -> CommitLog {
        self.synced_first = Some(files);
        self
    }

    /// Whether records are copied into a mapping.
    pub(crate) fn is_mapped(&self) -> bool {
        self.writing == Writing::Mapped
    }

    /// Bytes that a record with a payload of this length takes in the ring. An encrypted record is
    /// longer by [`seal_bytes`](Self::seal_bytes).
    pub(crate) fn record_bytes(payload_len: usize) -> u64 {
        record_bytes(payload_len)
    }

    /// Bytes that encryption adds to each payload.
    pub(crate) fn seal_bytes(&self) -> usize {
        self.cipher.as_ref().map_or(0, |_| TAG_BYTES)
    }

    /// Appends one record whose payload is `parts`, concatenated, and returns its end. The caller
    /// has reserved its bytes. It fails only where each append writes: a failed write latches the
    /// log, and this and every later append returns the failure.
    pub(crate) fn append(&self, version: Version, parts: &[&[u8]]) -> Result<Lsn, Error> {
        let plain_len: usize = parts.iter().map(|part| part.len()).sum();
        let payload_len = plain_len + self.seal_bytes();
        let total = record_bytes(payload_len);
        // Outside of the latch: the longer part of the checksum. The checksum of encrypted bytes is
        // computed under it, because they depend on the place.
        let checksum = match self.cipher {
            None => payload_checksum(self.seed, parts),
            Some(_) => 0,
        };
        let mut ring = self.ring.lock();
        let head = self.head.load(Ordering::Relaxed);
        let mapping = self.mapping_at(head);
        if mapping.is_none() && self.writing != Writing::Gathered {
            self.check_error()?;
        }
        let tail = self.tail.load(Ordering::Acquire);
        let (start, end) = self.place_of(head, tail, total);
        let rest = start - head;
        if self.is_planted(LogPlant::EarlyHead) {
            self.head.store(end, Ordering::Release);
        }
        if rest > 0 {
            self.fill(&mut ring, mapping, head, rest, tail)
                .map_err(|error| self.write_failed(error))?;
        }
        let mut sealed = self.encrypted(&mut ring, (start, end), version, parts)?;
        let encrypted = [&sealed[..]];
        let (parts, checksum) = match self.cipher {
            None => (parts, checksum),
            Some(_) => (&encrypted[..], payload_checksum(self.seed, &encrypted)),
        };
        let header = Header {
            // In a mapping the header is written last.
            kind: match mapping {
                Some(_) => HeaderKind::Sealed,
                None => HeaderKind::Record,
            },
            payload_len: payload_len as u32,
            lsn: Lsn(start),
            epoch: self.epoch,
            version,
            tail: Lsn(tail),
            durable: self.durable_hint(),
            payload_checksum: checksum,
        }
        .encode(self.seed);
        self.copy(&mut ring, mapping, start, &header, parts)
            .map_err(|error| self.write_failed(error))?;
        sealed.shrink_to(SCRATCH_BYTES_MAX);
        ring.sealed = sealed;
        if rest > 0 {
            ring.fillers.push_back((start, rest));
        }
        self.head.store(end, Ordering::Release);
        Ok(Lsn(end))
    }

    /// Begin and end of the next record, which has `total` bytes. It begins at the head, or on the
    /// ring's next lap if the rest of this lap is too short.
    fn place_of(&self, head: u64, tail: u64, total: u64) -> (u64, u64) {
        let usable = self.usable();
        assert!(
            total <= record_bytes_max_of(usable),
            "a record this long goes to a value extent"
        );
        let place = head % self.capacity;
        let start = match place + total > usable {
            true => head + (self.capacity - place),
            false => head,
        };
        let end = start + total;
        assert!(
            end - tail <= self.capacity,
            "admission keeps the head within the ring"
        );
        (start, end)
    }

    /// The stored form of the payload of the record from `start` to `end`; empty if the database is
    /// not encrypted.
    fn encrypted(
        &self,
        ring: &mut Ring,
        (start, end): (u64, u64),
        version: Version,
        parts: &[&[u8]],
    ) -> Result<Vec<u8>, Error> {
        let mut sealed = std::mem::take(&mut ring.sealed);
        let Some(cipher) = &self.cipher else {
            return Ok(sealed);
        };
        // An append that failed or panicked after this point has left the head below.
        if start < ring.nonces_from {
            let error = io::Error::other("an append that did not end has used its place");
            return Err(self.write_failed(error));
        }
        ring.nonces_from = end;
        let nonce = match self.is_planted(LogPlant::PlaceAsNonce) {
            false => start,
            true => start % self.capacity,
        };
        sealed::seal(cipher, Lsn(nonce), version, parts, &mut sealed);
        Ok(sealed)
    }

    /// A position that is durable, for a header. Relaxed: an older position is durable as well.
    pub(crate) fn durable_hint(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Relaxed))
    }

    /// The mapping, if a record that begins at `lsn` is copied into it.
    pub(crate) fn mapping_at(&self, lsn: u64) -> Option<&dyn Mapping> {
        let mapping = self.mapping.as_deref()?;
        (lsn >= self.written_below.load(Ordering::Relaxed)).then_some(mapping)
    }

    /// Covers the rest of the lap by a filler.
    pub(crate) fn fill(
        &self,
        ring: &mut Ring,
        mapping: Option<&dyn Mapping>,
        head: u64,
        rest: u64,
        tail: u64,
    ) -> io::Result<()> {
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
            durable: self.durable_hint(),
            payload_checksum: payload_checksum(self.seed, &[]),
        }
        .encode(self.seed);
        self.copy(ring, mapping, head, &header, &[])
    }

    /// Puts a record at its place, under the ring latch. In a mapping the header comes last: until
    /// it is there, the record does not verify. Without a mapping this is a system call that writes
    /// the file, unless records are gathered.
    fn copy(
        &self,
        ring: &mut Ring,
        mapping: Option<&dyn Mapping>,
        lsn: u64,
        header: &[u8; HEADER_BYTES],
        parts: &[&[u8]],
    ) -> io::Result<()> {
        let offset = lsn % self.capacity;
        if let Some(mapping) = mapping {
            let mut at = offset as usize + HEADER_BYTES;
            for part in parts {
                mapping.write(at, part);
                at += part.len();
            }
            mapping.write(offset as usize, header);
            return Ok(());
        }
        if self.writing == Writing::Gathered {
            ring.gathered.push(lsn, header, parts, self.capacity);
            return Ok(());
        }
        let scratch = &mut ring.scratch;
        scratch.clear();
        scratch.extend_from_slice(header);
        for part in parts {
            scratch.extend_from_slice(part);
        }
        let written = self.file.write_at(scratch, offset);
        scratch.shrink_to(SCRATCH_BYTES_MAX);
        written
    }

    pub(crate) fn write_failed(&self, error: io::Error) -> Error {
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
    /// reserved bytes came free: fillers, which no put has reserved, do not count.
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
            if !self.keeps_for_readers() {
                ring.gathered.forget_below(l0.0);
            }
            self.tail.store(l0.0, Ordering::Release);
            freed
        };
        // A checkpoint holds the records below. They are durable whether or not the log has failed.
        self.raise_durable(l0);
        freed
    }

    /// From now on records are written instead of copied, for the length of a huge page from `head`
    /// on. A copied record makes the running sync, the next one, or the kernel write whole pages.
    /// Called before a sync of the records below `head`, and for a log that is slow.
    pub(crate) fn write_from(&self, head: u64) {
        if self.mapping.is_some() {
            let end = head + HUGE_PAGE_BYTES.min(self.capacity / 8);
            self.written_below.store(end, Ordering::Relaxed);
        }
    }

    /// Whether a fault is switched on: never outside of tests.
    #[inline]
    pub(crate) fn is_planted(&self, plant: LogPlant) -> bool {
        #[cfg(test)]
        return self.plant == plant;
        #[cfg(not(test))]
        {
            let _ = plant;
            false
        }
    }

    #[cfg(test)]
    #[allow(dead_code, reason = "not every build of the tests plants a fault here")]
    pub(crate) fn planted(mut self, plant: LogPlant) -> CommitLog {
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
