//! Runs on their way to the container: tables are built one after another in a buffer, and
//! neighbouring extents are written at once. Where puts wait, another thread writes one buffer
//! while the next is filled.
//!
//! ```text
//! buffer | tables of one place | tables of another place | the table being built |
//!        ^ written at once       ^ written at once
//! ```
//! Invariants: when [`Gatherer::finish`] has returned without an error, everything is written,
//! though not synced. After an error, or when the gatherer is dropped, no write is under way, so
//! extents may be freed. At most two buffers are in use.
//!
//! Thread safety: one thread has the gatherer; the gatherer's own thread has only the file and the
//! buffer that it writes. Not here: what a run holds, where it goes, and its sync.

use crate::engine::core::Core;
use crate::error::Result;
use crate::memory::{Charge, Use};
use crate::pace;
use crate::sync::{start_thread, thread};
use crate::tables::container::{Container, RunWriter};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};

/// Bytes from which on a buffer is written.
pub(super) const WRITE_BYTES: usize = 1 << 20;

/// Extents begin at a multiple of this number of bytes.
const SECTOR_BYTES: usize = 512;

/// Bytes, and the places that they go to.
#[derive(Default)]
struct Batch {
    buffer: Vec<u8>,
    /// For each place, in order: where it begins in the buffer, and its offset in the container.
    places: Vec<(usize, u64)>,
    /// The number of pieces that may be on their way at once.
    depth: usize,
}

impl Batch {
    fn write_by(&mut self, writer: &mut RunWriter) -> Result<()> {
        writer.set_depth(self.depth);
        let ends = self.places.iter().skip(1).map(|&(start, _)| start);
        let ends = ends.chain([self.buffer.len()]);
        for (&(start, offset), end) in self.places.iter().zip(ends) {
            writer.write(&self.buffer[start..end], offset)?;
        }
        self.buffer.clear();
        self.places.clear();
        Ok(())
    }
}

/// The thread that writes, with the channels to it and back.
struct Helper {
    /// `None` once there is nothing more to write.
    full: Option<SyncSender<Batch>>,
    empty: Receiver<Batch>,
    thread: Option<thread::JoinHandle<Result<()>>>,
}

impl Helper {
    /// `None` if the system has no thread.
    fn start(container: &Container) -> Option<Helper> {
        // The channel holds no batch: the helper has one buffer, and the gatherer the other.
        let (full, batches) = sync_channel::<Batch>(0);
        let (back, empty) = channel();
        let mut writer = container.run_writer();
        let body = move || {
            for mut batch in batches {
                batch.write_by(&mut writer)?;
                // The gatherer may be gone already.
                let _ = back.send(batch);
            }
            Ok(())
        };
        let thread = start_thread("evendb-runs", body).ok()?;
        Some(Helper {
            full: Some(full),
            empty,
            thread: Some(thread),
        })
    }

    /// Hands a batch over, and returns an empty one.
    fn pass_on(&mut self, batch: Batch) -> Result<Batch> {
        let sent = self.full.as_ref().map(|full| full.send(batch));
        match sent {
            Some(Ok(())) => Ok(self.empty.try_recv().unwrap_or_default()),
            // The thread ended, because of an error.
            _ => self.end().map(|()| Batch::default()),
        }
    }

    /// Waits until all is written.
    fn end(&mut self) -> Result<()> {
        self.full = None;
        let ended = self.thread.take().map(thread::JoinHandle::join);
        match ended {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.full = None;
        if let Some(thread) = self.thread.take() {
            // The caller's error came first.
            let _ = thread.join();
        }
    }
}

/// See the head of this module.
pub(super) struct Gatherer<'c> {
    core: &'c Core,
    container: &'c Container,
    batch: Batch,
    writer: RunWriter,
    helper: Option<Helper>,
    /// The memory charge of the buffers.
    charge: Charge,
}

impl<'c> Gatherer<'c> {
    pub(super) fn new(core: &'c Core, container: &'c Container) -> Gatherer<'c> {
        Gatherer {
            charge: Charge::new(core.ledger(), Use::Buffers, 0),
            core,
            container,
            batch: Batch::default(),
            writer: container.run_writer(),
            helper: None,
        }
    }

    /// Returns where the next table is built: the buffer's end. Extents are padded to sectors.
    pub(super) fn begin(&mut self) -> Result<usize> {
        if self.batch.buffer.len() > WRITE_BYTES {
            self.pass_on()?;
        }
        let padded = self.batch.buffer.len().next_multiple_of(SECTOR_BYTES);
        self.batch.buffer.resize(padded, 0);
        Ok(padded)
    }

    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.batch.buffer
    }

    #[cfg(test)]
    pub(super) fn charged_bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// The table that was built from `from` on lies at `offset`.
    pub(super) fn place(&mut self, from: usize, offset: u64) {
        let buffers = 1 + usize::from(self.helper.is_some());
        self.charge.set(buffers * self.batch.buffer.capacity());
        let last = self.batch.places.last();
        if last.is_none_or(|&(start, at)| at + (from - start) as u64 != offset) {
            self.batch.places.push((from, offset));
        }
    }

    /// Writes the gathered tables, or hands them to the thread.
    fn pass_on(&mut self) -> Result<()> {
        self.batch.depth = pace::writes_ahead(&self.core.admission);
        let alone = self.core.manual() || cfg!(any(evendb_loom, evendb_shuttle));
        if self.helper.is_none() && !alone && self.core.admission.is_behind() {
            self.helper = Helper::start(self.container);
        }
        match &mut self.helper {
            None => self.batch.write_by(&mut self.writer),
            Some(helper) => {
                let batch = std::mem::take(&mut self.batch);
                self.batch = helper.pass_on(batch)?;
                Ok(())
            }
        }
    }

    /// Writes everything that is left.
    pub(super) fn finish(mut self) -> Result<()> {
        self.pass_on()?;
        match &mut self.helper {
            None => Ok(()),
            Some(helper) => helper.end(),
        }
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use crate::files::CONTAINER;
    use crate::rebalance::bench::Bench;
    use evendb_storage::vfs::{Fault, FaultKind, FaultOn, read_exact_at};

    const TABLE_BYTES: usize = 300_000;

    /// A bench with threads, on which puts are about to wait.
    fn behind() -> Bench {
        let mut bench = Bench::new();
        bench.core.options.workers = 1;
        let room = bench.core.options.delta_bytes_max() * 8 / 10;
        bench.core.admission.adopt(0, room);
        bench
    }

    /// Places `count` tables, and gives every third one a neighbour; returns their offsets.
    fn place(gatherer: &mut Gatherer<'_>, count: u8) -> Result<Vec<u64>> {
        let mut offsets = Vec::new();
        for number in 0..count {
            let from = gatherer.begin()?;
            gatherer.buffer().resize(from + TABLE_BYTES, number);
            let offset = gatherer.container.allocate(TABLE_BYTES as u64)?;
            if number % 3 > 0 {
                gatherer.container.allocate(512)?;
            }
            gatherer.place(from, offset);
            offsets.push(offset);
        }
        Ok(offsets)
    }

    #[test]
    fn while_puts_wait_a_helper_writes_all() {
        let bench = behind();
        let mut gatherer = Gatherer::new(&bench.core, &bench.disk.container);
        let offsets = place(&mut gatherer, 40).unwrap();
        assert!(gatherer.helper.is_some());
        assert!(gatherer.charged_bytes() >= 2 * gatherer.buffer().len());
        gatherer.finish().unwrap();
        let path = bench.disk.dir.join(CONTAINER);
        let file = bench.disk.vfs.open(&path, false).unwrap();
        for (number, offset) in (0..).zip(offsets) {
            let mut bytes = vec![!number; TABLE_BYTES];
            read_exact_at(&*file, &mut bytes, offset).unwrap();
            assert!(bytes.iter().all(|&byte| byte == number), "table {number}");
        }
    }

    #[test]
    fn a_failure_of_the_helper_reaches_the_caller() {
        for at in (0..60).step_by(5) {
            let bench = behind();
            let mut gatherer = Gatherer::new(&bench.core, &bench.disk.container);
            bench.sim.inject(Fault {
                at,
                on: FaultOn::Change,
                kind: FaultKind::Eio,
                sticky: true,
                path_contains: Some(CONTAINER.to_owned()),
            });
            let placed = place(&mut gatherer, 40);
            let written = placed.and_then(|_| gatherer.finish());
            assert!(written.is_err(), "operation {at}");
        }
    }
}
