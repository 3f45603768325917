//! Room on the disk: which part of the ring has its blocks.
//!
//! ```text
//!  0            usable  room                                capacity     (places in the file)
//!  |  records, round and round |   no blocks, never touched     |
//!  [rec][rec][filler ..........................................]
//!              `- a header of 40 bytes, which stands for the rest of the lap
//! ```
//! The file is as long as the capacity from the beginning, but has blocks only up to `room`, a
//! multiple of [`CAPACITY_UNIT`]. The place of a record stays LSN mod capacity: a record that would
//! reach beyond the **usable** part goes to the start of the next lap, and the filler that covers
//! the rest of its own lap is only longer than otherwise. In a ring that is not whole, the last
//! bytes of the room are kept for that filler's header.
//!
//! Invariants:
//! * A byte is copied, touched or written only below `room`. The blocks of the room were reserved,
//!   written once with zeros and synced before ([`CommitLog::grow`]): on a full disk, touching a
//!   mapped page without a block would end the process by a signal.
//! * `room` moves under the ring latch, upwards, and only while tail and head are in one lap. So
//!   the rules for the capacity hold for the usable bytes: admission lets in at most 7/8 of them,
//!   no record is longer than 1/8, and when the head starts a lap again it stays below the tail.
//!   Proof: a record of `n` bytes does not fit behind the live part of `l` bytes that ends at place
//!   `p`; so `p + n > usable`, while `l + n <= 7/8 usable`; the tail's place
//!   `p - l > usable - n - l` leaves room for `n`. From then on the filler's place bounds the live
//!   part, and it is above 7/8.
//! * Growing syncs by a file handle of its own. The system reports a failure of the device once to
//!   each handle, and the handle that syncs records must get the failures of records.
//!
//! Thread safety: any thread; one thread grows at a time. On a full disk a put that needs room
//! waits for a checkpoint, as in a ring that cannot grow. Not here: when to grow (`log_room.rs`).

use crate::commit_log::append::{CommitLog, HUGE_PAGE_BYTES};
use crate::commit_log::record::HEADER_BYTES;
use crate::commit_log::{CAPACITY_UNIT, Lsn};
use crate::sync::atomic::Ordering;
use evendb_storage::vfs::{File, Vfs};
use evendb_storage::{Error, ErrorKind};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The room of a new ring in bytes: `FIRST_PART` is the divisor of the capacity, the others are the
/// limits.
const FIRST_BYTES_MIN: u64 = 16 << 10;
const FIRST_BYTES_MAX: u64 = 256 << 10;
const FIRST_PART: u64 = 256;
/// A filler cannot cover more bytes than this, so a larger ring is whole from the beginning.
const GROWING_CAPACITY_MAX: u64 = 256 << 20;

/// The room that a new ring of this capacity has.
pub(crate) fn first_room(capacity: u64) -> u64 {
    if capacity > GROWING_CAPACITY_MAX {
        return capacity;
    }
    (capacity / FIRST_PART)
        .clamp(FIRST_BYTES_MIN, FIRST_BYTES_MAX)
        .next_multiple_of(CAPACITY_UNIT)
        .min(capacity)
}

/// The bytes of `room` that records may take.
pub(crate) fn usable(room: u64, capacity: u64) -> u64 {
    match room < capacity {
        true => room - HEADER_BYTES as u64,
        false => capacity,
    }
}

/// The longest record, header included, for this number of usable bytes.
pub(crate) fn record_bytes_max_of(usable: u64) -> u64 {
    (usable / 8).min(crate::commit_log::record::PAYLOAD_BYTES_MAX)
}

/// The next size above `room`: twice the size, and from a huge page on one huge page more, because
/// the system may keep the bytes of one write call in one page.
fn next_room(room: u64, capacity: u64) -> u64 {
    let next = match room < HUGE_PAGE_BYTES {
        true => (2 * room).min(HUGE_PAGE_BYTES),
        false => (room + 1).next_multiple_of(HUGE_PAGE_BYTES),
    };
    next.min(capacity)
}

/// The place of the live part, as an opening finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LivePart {
    pub(crate) tail: Lsn,
    pub(crate) end: Lsn,
    /// The begin of the filler that ends the tail's lap, if the live part goes on in the next lap.
    pub(crate) filler: Option<Lsn>,
}

/// The room of a ring that an earlier life wrote; `allocated` bytes of its file have blocks.
pub(crate) fn room_found(live: LivePart, allocated: u64, capacity: u64) -> u64 {
    let whole = |place: u64| {
        (place + HEADER_BYTES as u64)
            .next_multiple_of(CAPACITY_UNIT)
            .min(capacity)
    };
    if capacity > GROWING_CAPACITY_MAX {
        return capacity;
    }
    if live.tail.0 / capacity != live.end.0 / capacity {
        // With more room the head could pass the tail, even if there are blocks. The next
        // checkpoint ends this state.
        return match live.filler {
            Some(filler) if filler.0 / capacity == live.tail.0 / capacity => {
                whole(filler.0 % capacity)
            }
            _ => capacity,
        };
    }
    let blocks = (allocated - allocated % CAPACITY_UNIT).min(capacity);
    blocks
        .max(whole(live.end.0 % capacity))
        .max(first_room(capacity))
}

/// Creates the file of a ring, with blocks for [`first_room`]. The caller syncs the directory.
pub(crate) fn create_file(
    vfs: &dyn Vfs,
    path: &Path,
    capacity: u64,
) -> Result<Arc<dyn File>, Error> {
    crate::commit_log::append::check_capacity(capacity);
    let failed = |error| Error::io(path, "create the commit log", error);
    let file = vfs.create(path).map_err(failed)?;
    file.ask_for_place();
    file.set_len(capacity).map_err(failed)?;
    add_blocks(&*file, 0, first_room(capacity), &|bytes, at| {
        file.write_at(bytes, at)
    })
    .map_err(failed)?;
    file.sync_data().map_err(failed)?;
    Ok(file)
}

/// Reserves the blocks of `[from, to)`, and writes each once, so that a later sync changes no block
/// map.
fn add_blocks(
    file: &dyn File,
    from: u64,
    to: u64,
    write: &dyn Fn(&[u8], u64) -> io::Result<()>,
) -> io::Result<()> {
    file.preallocate(from, to - from)?;
    let zeros = vec![0; (to - from).min(HUGE_PAGE_BYTES) as usize];
    let mut at = from;
    while at < to {
        // In pieces that end where huge pages do.
        let end = (at + 1).next_multiple_of(HUGE_PAGE_BYTES).min(to);
        write(&zeros[..(end - at) as usize], at)?;
        at = end;
    }
    Ok(())
}

impl CommitLog {
    /// Makes the ring begin with this room, and grow by `grower`, another handle of its file.
    /// Before the ring appends, the caller lets [`back`](Self::back) reserve the blocks.
    pub(crate) fn with_room(self, room: u64, grower: Arc<dyn File>) -> CommitLog {
        assert!(
            room.is_multiple_of(CAPACITY_UNIT) && room <= self.capacity,
            "room of {room} bytes"
        );
        // No other thread has the log yet.
        self.room.store(room, Ordering::Relaxed);
        self.backed.store(false, Ordering::Relaxed);
        *self.grower.lock() = Some(grower);
        self
    }

    /// Notes that recovery found a filler there in the live part; no put has reserved its bytes.
    pub(crate) fn with_filler(self, filler: Option<(Lsn, Lsn)>) -> CommitLog {
        if let Some((start, end)) = filler {
            let mut ring = self.ring.lock();
            ring.fillers.push_back((end.0, end.0 - start.0));
        }
        self
    }

    /// Bytes of the ring that have blocks.
    pub(crate) fn room(&self) -> u64 {
        // Relaxed: an appender reads it under the ring latch; others take it as a hint.
        self.room.load(Ordering::Relaxed)
    }

    /// Bytes of the ring that records may take now.
    pub(crate) fn usable(&self) -> u64 {
        usable(self.room(), self.capacity)
    }

    /// The longest record that it takes now, header included.
    pub(crate) fn record_max(&self) -> u64 {
        record_bytes_max_of(self.usable())
    }

    /// Whether the ring may grow further.
    pub(crate) fn is_growing(&self) -> bool {
        self.room() < self.capacity
    }

    /// Whether the blocks of its room are known to be there.
    pub(crate) fn is_backed(&self) -> bool {
        // Acquire: an appender finds the blocks that were reserved before.
        self.backed.load(Ordering::Acquire)
    }

    /// Makes sure that its room has blocks: a power loss may have taken blocks of an earlier life,
    /// or a copy may have left out zeros. The error is a full disk, or a failure of the device.
    pub(crate) fn back(&self) -> Result<(), Error> {
        let grower = self.grower.lock();
        if let Some(file) = &*grower
            && !self.is_backed()
        {
            file.preallocate(0, self.room())
                .map_err(|error| Error::io(file.path(), "reserve the commit log's room", error))?;
            self.backed.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Grows the ring by a step, if it may grow at this moment. Returns whether it grew. If the
    /// disk has no room, the error is of that kind, and nothing has changed; any other failure
    /// latches the log.
    pub(crate) fn grow(&self) -> Result<bool, Error> {
        let grower = self.grower.lock();
        let Some(file) = &*grower else {
            return Ok(false);
        };
        let room = self.room();
        // Nothing is written after an error, or after the end, when the file belongs to its next
        // owner.
        if !self.is_growing() || !self.is_backed() || self.check_error().is_err() {
            return Ok(false);
        }
        if !self.is_in_one_lap() {
            return Ok(false);
        }
        let next = next_room(room, self.capacity);
        let write = |bytes: &[u8], at| file.write_at_durable(bytes, at);
        if let Err(error) = add_blocks(&**file, room, next, &write) {
            let error = Error::io(file.path(), "make the commit log larger", error);
            if error.kind() == ErrorKind::NoSpace {
                // Some of the blocks may have been reserved.
                let _ = file.punch_hole(room, next - room);
                return Err(error);
            }
            return Err(self.latch(error));
        }
        let _ring = self.ring.lock();
        let may_grow = self.is_in_one_lap();
        if may_grow {
            self.room.store(next, Ordering::Relaxed);
        }
        Ok(may_grow)
    }

    /// Makes the next record begin a new lap, so that a checkpoint leaves the ring empty at its
    /// start. Only the caller still appends. Returns whether there was room for the filler.
    pub(crate) fn begin_lap(&self) -> bool {
        if self.capacity > GROWING_CAPACITY_MAX || self.check_error().is_err() {
            return false;
        }
        let mut ring = self.ring.lock();
        let head = self.head().0;
        let rest = self.capacity - head % self.capacity;
        if rest == self.capacity {
            return true;
        }
        // The rule for an append that goes there: it must stay below the tail.
        if !self.is_in_one_lap() || !self.is_backed() {
            return false;
        }
        let tail = self.tail().0;
        let filled = self.fill(&mut ring, self.mapping_at(head), head, rest, tail);
        if filled.map_err(|error| self.write_failed(error)).is_err() {
            return false;
        }
        ring.fillers.push_back((head + rest, rest));
        self.head.store(head + rest, Ordering::Release);
        true
    }

    /// Gives back all blocks except the room of a new ring, if the ring has ended and is empty at
    /// the start of a lap. Blocks that the file system does not take back serve the next life.
    pub(crate) fn give_back(&self) {
        let grower = self.grower.lock();
        let (head, first) = (self.head().0, first_room(self.capacity));
        let is_empty = head == self.tail().0 && head.is_multiple_of(self.capacity);
        if let Some(file) = &*grower
            && is_empty
            && self.room() > first
        {
            let _ = file.punch_hole(first, self.capacity - first);
        }
    }

    /// Whether head and tail are in one lap: then there is no filler between them, and the live
    /// part ends below the room.
    fn is_in_one_lap(&self) -> bool {
        self.head().0 / self.capacity == self.tail().0 / self.capacity
    }

    /// Returns when no thread is growing the file. The log has ended, so no thread begins to.
    pub(crate) fn wait_for_growth(&self) {
        drop(self.grower.lock());
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use crate::commit_log::{Segment, recover};
    use crate::options::Writing;
    use evendb_storage::Version;
    use evendb_storage::vfs::SimVfs;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    use std::collections::VecDeque;

    const CAPACITY: u64 = 256 << 10;
    const PATH: &str = "/ring";

    fn segment() -> Segment {
        Segment {
            epoch: 1,
            seed: 2,
            start: Lsn(0),
            closed_at: None,
        }
    }

    /// The result of recovery: its end, the filler, and the records' ends.
    fn found(vfs: &SimVfs, tail: Lsn) -> (LivePart, Option<(Lsn, Lsn)>, Vec<u64>) {
        let file = vfs.open(Path::new(PATH), false).unwrap();
        let (mut last, mut filler, mut ends) = (tail, None, Vec::new());
        let end = recover(&*file, CAPACITY, tail, &[segment()], &mut |record| {
            if record.lsn > last {
                filler = Some((last, record.lsn));
            }
            last = record.end;
            ends.push(record.end.0);
            Ok(())
        })
        .unwrap();
        if end > last {
            filler = Some((last, end));
        }
        let live = LivePart {
            tail,
            end,
            filler: filler.map(|(start, _)| start),
        };
        (live, filler, ends)
    }

    fn open(vfs: &SimVfs, writing: Writing, tail: Lsn) -> (CommitLog, Vec<u64>) {
        let (live, filler, ends) = found(vfs, tail);
        let file = vfs.open(Path::new(PATH), true).unwrap();
        let grower = vfs.open(Path::new(PATH), true).unwrap();
        let room = room_found(live, file.allocated_bytes().unwrap(), CAPACITY);
        let log = CommitLog::start(file, CAPACITY, writing, 1, 2, tail..live.end).unwrap();
        let log = log.with_room(room, grower).with_filler(filler);
        log.back().unwrap();
        (log, ends)
    }

    /// As long as appends stay within admission's limit, every record of the live part is found,
    /// however the ring grows in between and in whichever way it is opened again. The simulated
    /// file fails the test if a byte without a block is mapped and written.
    #[test]
    fn a_ring_that_grows_keeps_what_is_live() {
        let mut sizes = std::collections::BTreeSet::new();
        for seed in 0..60 {
            let writing = [Writing::Mapped, Writing::Written, Writing::Gathered][seed as usize % 3];
            let mut random = StdRng::seed_from_u64(seed);
            let vfs = SimVfs::new(seed);
            create_file(&vfs, Path::new(PATH), CAPACITY).unwrap();
            assert_eq!(vfs.used_bytes(), first_room(CAPACITY));
            let (mut log, _) = open(&vfs, writing, Lsn(0));
            // End and length of each record, and the reserved part of the length.
            let mut live: VecDeque<(u64, u64)> = VecDeque::new();
            let mut used = 0;
            for step in 0..1_500 {
                match random.random_range(0..200) {
                    0 if log.grow().unwrap() => drop(sizes.insert(log.room())),
                    0..3 => {
                        log.flush().unwrap();
                        let tail = log.tail();
                        drop(log);
                        let ends;
                        (log, ends) = open(&vfs, writing, tail);
                        let expected: Vec<u64> = live.iter().map(|record| record.0).collect();
                        assert_eq!(ends, expected, "seed {seed} step {step}");
                    }
                    3..20 if !live.is_empty() => {
                        // A checkpoint: some of the oldest go.
                        let gone = random.random_range(1..=live.len());
                        let bytes: u64 = live.iter().take(gone).map(|record| record.1).sum();
                        let tail = live[gone - 1].0;
                        live.drain(..gone);
                        assert_eq!(log.set_tail(Lsn(tail)), bytes);
                        used -= bytes;
                    }
                    _ => {
                        let total = log.record_max().min(random.random_range(48..6_000)) & !7;
                        if used + total > log.usable() - log.usable() / 8 {
                            continue;
                        }
                        let payload = vec![step as u8; total as usize - HEADER_BYTES];
                        let end = log.append(Version(1), &[&payload]).unwrap();
                        live.push_back((end.0, total));
                        used += total;
                        assert!(end.0 - log.tail().0 <= CAPACITY);
                        assert!(end.0 % CAPACITY <= log.usable());
                    }
                }
            }
            assert!(vfs.used_bytes() <= CAPACITY);
        }
        assert!(sizes.contains(&CAPACITY) && sizes.len() > 3, "{sizes:?}");
    }

    #[test]
    fn a_full_disk_leaves_the_ring_as_it_is() {
        let vfs = SimVfs::new(1);
        create_file(&vfs, Path::new(PATH), CAPACITY).unwrap();
        let (log, _) = open(&vfs, Writing::Mapped, Lsn(0));
        let room = log.room();
        vfs.set_capacity(room + 4096);
        let error = log.grow().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        assert_eq!((log.room(), vfs.used_bytes()), (room, room));
        // The ring goes round in its present room, and is not latched.
        for number in 0..1_000 {
            let end = log.append(Version(number), &[&[7; 1_000]]).unwrap();
            let _ = log.set_tail(end);
        }
        assert_eq!(vfs.used_bytes(), room);
        vfs.set_capacity(u64::MAX);
        while !log.grow().unwrap() {
            let end = log.append(Version(1), &[b"to the next lap"]).unwrap();
            let _ = log.set_tail(end);
        }
        assert_eq!(log.room(), 2 * room);
        // After the end nothing is written.
        log.close();
        assert!(!log.grow().unwrap());
    }

    #[test]
    fn an_empty_ring_is_small_and_a_huge_one_whole() {
        for (capacity, room) in [
            (64 << 10, 16 << 10),
            (8 << 20, 32 << 10),
            (64 << 20, 256 << 10),
            (256 << 20, 256 << 10),
            ((256 << 20) + 4096, (256 << 20) + 4096),
        ] {
            assert_eq!(first_room(capacity), room);
        }
    }

    /// An opening may find too few or too many blocks; the live part decides.
    #[test]
    fn the_room_found_holds_the_live_part() {
        let live = |tail, end, filler: Option<u64>| LivePart {
            tail: Lsn(tail),
            end: Lsn(end),
            filler: filler.map(Lsn),
        };
        let lap = 5 * CAPACITY;
        let found = |live, allocated| room_found(live, allocated, CAPACITY);
        assert_eq!(found(live(lap, lap, None), 0), 16 << 10);
        assert_eq!(found(live(lap, lap + 100, None), 64 << 10), 64 << 10);
        assert_eq!(found(live(lap, lap + 100, None), u64::MAX), CAPACITY);
        assert_eq!(found(live(lap + 8, lap + 100_000, None), 0), 102_400);
        // From one lap to the next: no more room than up to the filler, whatever has blocks.
        let (tail, filler) = (lap + 20_000, lap + 30_000);
        let end = lap + CAPACITY + 5_000;
        assert_eq!(found(live(tail, end, Some(filler)), u64::MAX), 32 << 10);
        assert_eq!(found(live(tail, end, None), 0), CAPACITY);
    }
}
