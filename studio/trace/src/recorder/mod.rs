//! [`Recorder`]: a trace that many threads write while they work.
//!
//! ```text
//!   caller: Slot::begin --> store's work --> Slot::end --> buffer of the thread
//!           one load                         its own lock     |
//!           if it is off                                      | full --> queue --> writer's thread
//!                                                             |  never waits           |    |
//!           ten times a second, and at the end: collects <----+------------------------+    |
//!           once a second: the file has what was collected                       file <-----+
//! ```
//! * **Off costs one relaxed load**, at each call ([`RecorderHandle`] is what a store keeps).
//! * **No lock is shared by two callers.** Each thread has a buffer of its own under a lock of its
//!   own. Otherwise only the writer's thread takes that lock, for the time of a swap. The list of
//!   buffers is locked once in the life of a thread.
//! * **A caller never waits for the file.** If the queue is full, the buffer's operations are
//!   dropped and counted. A benchmark may ask for the contrary ([`RecorderOptions::waits`]). Then a
//!   caller waits while the queue is half full. It waits before it takes its lock, since the
//!   writer's thread needs the lock to empty the queue.
//! * **The last buffer of a thread** stays in the list when the thread ends, so that the writer
//!   collects it ten times a second and at the end. Operations of one thread have their order in
//!   the file too: buffers are always queued under the thread's lock.
//! * **The end**: the slot is off first; then each buffer is closed under its lock and collected.
//!   An operation that ends after that is not in the trace; one that ended before
//!   [`Recorder::stop`] was called is. The note at the end has the counts.
//! * **A process that dies** loses about the last second of its recording: the header is in the
//!   file when the recorder is there, and collected operations are handed to the system once a
//!   second. There is no sync: a crash of the machine may lose more.
//! * **Nothing is woken if nothing is recorded.** When a collection finds nothing, the writer's
//!   thread hands the file over and sleeps without an end. It says so before it looks into the
//!   buffers a last time, each under its lock. A thread that records the first operation of a
//!   buffer after that, under the same lock, sees it and wakes the writer's thread.
//! * **At its size** the file takes no more operations; they are counted. The end still fits.
//!
//! `handle` has what a caller does, `collector` the writer's thread, and this file what they share.
//! Time: nanoseconds since the recorder was made, by [`Clock`]. Not here: the choice of what is
//! recorded, which is up to stores; forked children, which must not call this.

mod collector;
mod handle;
#[cfg(test)]
mod tests;

use crate::clock::Clock;
use crate::encode::Encoder;
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{Header, Times};
use crate::sampler::Sampler;
use crate::writer::FrameWriter;
use collector::Collector;
use crossbeam_queue::ArrayQueue;
pub use handle::{Began, RecorderHandle};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

/// A thread's buffer is queued at this number of bytes.
const BUFFER_BYTES: usize = 64 << 10;
/// At most this number of buffers waits for the writer: 8 MiB.
const QUEUE: usize = 128;
/// What is recorded, and how much.
#[derive(Clone, Debug)]
pub struct RecorderOptions {
    /// One key in this number; 0 and 1: all. See [`Sampler`].
    pub one_in: u64,
    /// The file takes at most this number of bytes.
    pub bytes_max: u64,
    /// Results of reads get the hash of the value.
    pub has_hashes: bool,
    /// Writes get their values.
    pub has_values: bool,
    /// Callers wait if operations come faster than they are written, so that no operation is left
    /// out for that reason (with up to 64 threads).
    pub waits: bool,
    /// The origin of the trace, for people.
    pub source: String,
    /// The wall clock, in milliseconds since 1970, if it is known.
    pub wall_clock_millis: u64,
    /// Names of keyspaces.
    pub keyspaces: BTreeMap<u32, String>,
    #[cfg(test)]
    pub(crate) plant: Plant,
}

/// Deliberate faults that the tests must notice; numbers as in docs/concurrency.md.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Plant {
    #[default]
    Nothing,
    /// P59: buffers that are not full are lost at the end.
    LastBuffersLost,
    /// P60: one operation in this number is taken, and not the operations of one key in this
    /// number.
    SamplesOperations,
}

impl Default for RecorderOptions {
    fn default() -> Self {
        RecorderOptions {
            one_in: 1,
            bytes_max: 4 << 30,
            has_hashes: false,
            has_values: false,
            waits: false,
            source: String::new(),
            wall_clock_millis: 0,
            keyspaces: BTreeMap::new(),
            #[cfg(test)]
            plant: Plant::Nothing,
        }
    }
}

/// The outcome of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// Operations in the file.
    pub recorded: u64,
    /// Operations that were left out because the file had reached its size.
    pub dropped_full: u64,
    /// Operations that were left out because they came faster than they could be written.
    pub dropped_behind: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// How long it was recorded.
    pub duration: Duration,
}

/// A trace that is being recorded. Dropping it ends the trace, without telling the outcome.
pub struct Recorder {
    slot: Arc<RecorderHandle>,
    shared: Arc<Shared>,
    writer: Option<JoinHandle<Result<Summary>>>,
}

struct Shared {
    id: u64,
    clock: Clock,
    options: RecorderOptions,
    sampler: Sampler,
    buffers: Mutex<Vec<Arc<ThreadBuffer>>>,
    queue: ArrayQueue<Message>,
    writer: OnceLock<Thread>,
    stopping: AtomicBool,
    /// The writer's thread sleeps until it is woken. Relaxed: the locks of buffers order it (see
    /// the module).
    asleep: AtomicBool,
    /// The file takes no more.
    is_full: AtomicBool,
    dropped_behind: AtomicU64,
    dropped_full: AtomicU64,
    next_group: AtomicU64,
    next_thread: AtomicU64,
    #[cfg(test)]
    begun: AtomicU64,
}

enum Message {
    Frame(Vec<u8>, u32),
    Name(u32, String),
}

struct ThreadBuffer {
    thread: u32,
    state: Mutex<BufferState>,
}

#[derive(Default)]
struct BufferState {
    encoder: Encoder,
    dropped_full: u64,
    closed: bool,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Shared {
    fn new(options: RecorderOptions) -> Shared {
        Shared {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            clock: Clock::start(),
            sampler: Sampler::new(options.one_in),
            options,
            buffers: Mutex::default(),
            queue: ArrayQueue::new(QUEUE),
            writer: OnceLock::new(),
            stopping: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            dropped_behind: AtomicU64::new(0),
            dropped_full: AtomicU64::new(0),
            next_group: AtomicU64::new(1),
            next_thread: AtomicU64::new(0),
            #[cfg(test)]
            begun: AtomicU64::new(0),
        }
    }

    #[inline]
    fn nanos(&self) -> u64 {
        self.clock.nanos()
    }

    #[inline]
    fn began(&self) -> Began {
        Began {
            recorder: self.id,
            start_nanos: self.nanos(),
            wants_hash: self.options.has_hashes,
            wants_value: self.options.has_values,
        }
    }

    fn highest(&self) -> u64 {
        #[cfg(test)]
        if self.options.plant == Plant::SamplesOperations {
            return u64::MAX;
        }
        self.sampler.highest()
    }

    #[inline]
    fn takes(&self, key: &[u8]) -> bool {
        #[cfg(test)]
        if self.options.plant == Plant::SamplesOperations {
            let begun = self.begun.fetch_add(1, Ordering::Relaxed);
            return begun.is_multiple_of(self.sampler.one_in());
        }
        self.sampler.takes(key)
    }

    /// Waits until a buffer can be queued. The rest of the queue is for other threads that come at
    /// the same time.
    fn wait_for_room(&self) {
        while self.queue.len() >= QUEUE / 2 && !self.stopping.load(Ordering::Acquire) {
            self.wake();
            thread::sleep(Duration::from_micros(100));
        }
    }

    fn send(&self, message: Message) -> std::result::Result<(), Message> {
        self.queue.push(message)?;
        self.wake();
        Ok(())
    }

    fn wake(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }
}

impl Recorder {
    /// Begins a trace of the operations of `slot`, written to `to`.
    ///
    /// # Errors
    /// `AlreadyRecording` if the slot has a trace; `Io`: the header could not be written, or a
    /// thread could not be started.
    pub fn start(
        slot: &Arc<RecorderHandle>,
        to: impl Write + Send + 'static,
        options: RecorderOptions,
    ) -> Result<Recorder> {
        let header = Header {
            one_in: options.one_in.max(1),
            wall_clock_millis: options.wall_clock_millis,
            has_hashes: options.has_hashes,
            has_values: options.has_values,
            without_ends: false,
            times: Times::Exact,
            source: options.source.clone(),
            keyspaces: options.keyspaces.clone(),
        };
        let mut active = slot.shared.lock();
        if active.is_some() {
            let message = "a trace is being recorded already";
            return Err(Error::new(ErrorKind::AlreadyRecording, message));
        }
        let to: Box<dyn Write + Send> = Box::new(to);
        let mut frames = FrameWriter::new(BufWriter::with_capacity(256 << 10, to), &header)?;
        frames.to.flush()?;
        let shared = Arc::new(Shared::new(options));
        let for_writer = shared.clone();
        let writer = thread::Builder::new()
            .name("evendb-trace".to_owned())
            .spawn(move || Collector::new(for_writer, frames).run())?;
        let _ = shared.writer.set(writer.thread().clone());
        *active = Some(shared.clone());
        slot.highest.store(shared.highest(), Ordering::Relaxed);
        slot.active.store(shared.id, Ordering::Relaxed);
        drop(active);
        Ok(Recorder {
            slot: slot.clone(),
            shared,
            writer: Some(writer),
        })
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// The first failure of a write. What was written before it is a trace without an end.
    pub fn stop(mut self) -> Result<Summary> {
        self.end()
    }

    /// Leaves everything as it is: for a forked child, which does not have the writer's thread.
    pub fn forget(mut self) {
        std::mem::forget(self.writer.take());
        std::mem::forget(self);
    }

    fn end(&mut self) -> Result<Summary> {
        let Some(writer) = self.writer.take() else {
            return Ok(Summary::default());
        };
        self.slot.active.store(0, Ordering::Relaxed);
        *self.slot.shared.lock() = None;
        self.shared.stopping.store(true, Ordering::Release);
        writer.thread().unpark();
        let failed = || Error::new(ErrorKind::Io, "the thread that writes a trace panicked");
        writer.join().unwrap_or_else(|_| Err(failed()))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
