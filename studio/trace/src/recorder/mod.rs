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
//! Time: nanoseconds since the recorder was made, by [`Clock`]. Not here: the choice of what is
//! recorded, which is up to stores; forked children, which must not call this.

use crate::clock::Clock;
use crate::encode::Encoder;
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{EndNote, Header};
use crate::operation::Call;
use crate::sampler::{Sampler, is_up_to};
use crate::writer::FrameWriter;
use crossbeam_queue::ArrayQueue;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

/// A thread's buffer is queued at this number of bytes.
const BUFFER_BYTES: usize = 64 << 10;
/// At most this number of buffers waits for the writer: 8 MiB.
const QUEUE: usize = 128;
const COLLECT_EVERY: Duration = Duration::from_millis(100);
/// Written bytes are handed to the system after this time.
const HAND_OVER_EVERY: Duration = Duration::from_secs(1);
/// Bytes of the file that are kept for the end, and for names of new keyspaces.
const RESERVE_BYTES: u64 = 16 << 10;

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

/// Where a store keeps its recorder. Off until [`Recorder::start`]; one trace at a time.
#[derive(Default)]
pub struct RecorderHandle {
    /// Number of the recorder, which no other of the process has; 0: off. Relaxed: a thread that
    /// sees it asks `shared`, or has done so before.
    active: AtomicU64,
    /// The highest hash of a key that the recorder takes. So a key that is left out costs no look
    /// at the thread's data. Relaxed, and not together with `active`: an operation sees the hash of
    /// another recorder only if it begins while this one is started or ended. Such an operation may
    /// be left out, or is asked about again.
    highest: AtomicU64,
    shared: Mutex<Option<Arc<Shared>>>,
}

/// An operation that has begun, and will be recorded.
#[derive(Clone, Copy, Debug)]
#[must_use = "it is recorded by `end`"]
pub struct Began {
    recorder: u64,
    start_nanos: u64,
    wants_hash: bool,
    wants_value: bool,
}

impl Began {
    /// Whether both are recorded in the same trace.
    #[must_use]
    pub fn is_of_trace_of(&self, other: &Began) -> bool {
        self.recorder == other.recorder
    }

    /// Whether the recorder wants the hash of a value that is read.
    #[must_use]
    pub fn wants_hash(&self) -> bool {
        self.wants_hash
    }

    /// Whether the recorder wants the value that is written.
    #[must_use]
    pub fn wants_value(&self) -> bool {
        self.wants_value
    }
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

/// A thread's data of a recorder that it has used.
struct Local {
    shared: Arc<Shared>,
    buffer: Arc<ThreadBuffer>,
}

thread_local! {
    static LOCALS: RefCell<Vec<Local>> = const { RefCell::new(Vec::new()) };
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl RecorderHandle {
    /// Whether anything is recorded.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.active.load(Ordering::Relaxed) != 0
    }

    /// Begins an operation on `key`. `None` if nothing is recorded, or this key is not.
    #[inline]
    pub fn begin(&self, key: &[u8]) -> Option<Began> {
        match self.active.load(Ordering::Relaxed) {
            0 => None,
            id => self.begin_sampled(id, key),
        }
    }

    /// Begins an operation without a key. It is always recorded.
    #[inline]
    pub fn begin_always(&self) -> Option<Began> {
        match self.active.load(Ordering::Relaxed) {
            0 => None,
            id => self.with_local(id, |local| local.shared.began()),
        }
    }

    #[inline(never)]
    fn begin_sampled(&self, id: u64, key: &[u8]) -> Option<Began> {
        if !is_up_to(self.highest.load(Ordering::Relaxed), key) {
            return None;
        }
        let begin = |local: &Local| local.shared.takes(key).then(|| local.shared.began());
        self.with_local(id, begin).flatten()
    }

    /// Whether operations of this key are recorded now. An operation that has
    /// [begun](Self::begin_always) may ask this for its parts.
    #[must_use]
    pub fn takes(&self, key: &[u8]) -> bool {
        let id = self.active.load(Ordering::Relaxed);
        let takes = |local: &Local| local.shared.takes(key);
        id != 0 && self.with_local(id, takes).unwrap_or_default()
    }

    /// A number for operations that belong together.
    #[must_use]
    pub fn new_group(&self) -> u64 {
        let id = self.active.load(Ordering::Relaxed);
        let next = |local: &Local| local.shared.next_group.fetch_add(1, Ordering::Relaxed);
        self.with_local(id, next).unwrap_or_default()
    }

    /// Nanoseconds since an operation began; `None` if its trace has ended.
    #[must_use]
    pub fn nanos_since(&self, began: Began) -> Option<u64> {
        self.with_local(began.recorder, |local| local.nanos_since(began))
    }

    /// Records an operation, which ends now.
    pub fn end(&self, began: Began, call: &Call<'_>) {
        self.end_after(began, None, call);
    }

    /// Records an operation that took `latency_nanos`.
    pub fn end_after(&self, began: Began, latency_nanos: Option<u64>, call: &Call<'_>) {
        self.with_local(began.recorder, |local| {
            let latency = latency_nanos.unwrap_or_else(|| local.nanos_since(began));
            local.record(call, began.start_nanos, Some(latency));
        });
    }

    /// Records a part of an operation, with its beginning and no latency of its own.
    pub fn part(&self, began: Began, call: &Call<'_>) {
        self.with_local(began.recorder, |local| {
            local.record(call, began.start_nanos, None);
        });
    }

    /// Names a keyspace that was made while the trace is recorded.
    pub fn name_keyspace(&self, number: u32, name: &str) {
        let shared = self.shared.lock().clone();
        if let Some(shared) = shared {
            // If the queue is full the keyspace has only a number.
            let _ = shared.send(Message::Name(number, name.to_owned()));
        }
    }

    /// Runs `with` on this thread's data of the recorder, unless that has ended meanwhile.
    #[inline]
    fn with_local<T>(&self, id: u64, with: impl FnOnce(&Local) -> T) -> Option<T> {
        // A thread that is being ended has no locals any more.
        let result = LOCALS.try_with(|locals| {
            if let Ok(locals) = locals.try_borrow()
                && let Some(local) = locals.iter().find(|local| local.shared.id == id)
            {
                return Some(with(local));
            }
            self.register(id, locals)?;
            let locals = locals.try_borrow().ok()?;
            locals.last().map(with)
        });
        result.ok().flatten()
    }

    /// Gives this thread a buffer, if the recorder is still there.
    #[cold]
    fn register(&self, id: u64, locals: &RefCell<Vec<Local>>) -> Option<()> {
        let shared = self.shared.lock().clone().filter(|it| it.id == id)?;
        let number = shared.next_thread.fetch_add(1, Ordering::Relaxed);
        let buffer = Arc::new(ThreadBuffer {
            thread: number as u32,
            state: Mutex::default(),
        });
        // Under the lock: the end closes the buffers in the list, and later buffers are not taken.
        let mut buffers = shared.buffers.lock();
        if shared.stopping.load(Ordering::Acquire) {
            return None;
        }
        buffers.push(buffer.clone());
        drop(buffers);
        let mut locals = locals.try_borrow_mut().ok()?;
        locals.retain(|local| !local.shared.stopping.load(Ordering::Acquire));
        locals.push(Local { shared, buffer });
        Some(())
    }
}

impl Shared {
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

impl Local {
    fn nanos_since(&self, began: Began) -> u64 {
        self.shared.nanos().saturating_sub(began.start_nanos)
    }

    fn record(&self, call: &Call<'_>, start_nanos: u64, latency_nanos: Option<u64>) {
        let shared = &*self.shared;
        if shared.options.waits {
            shared.wait_for_room();
        }
        let mut state = self.buffer.state.lock();
        if state.closed {
            return;
        }
        if shared.is_full.load(Ordering::Relaxed) {
            state.dropped_full += 1;
            return;
        }
        let mut call = *call;
        if !shared.options.has_values {
            call.value = None;
        }
        let thread = self.buffer.thread;
        if state.encoder.operations == 0 && shared.asleep.load(Ordering::Relaxed) {
            shared.wake();
        }
        // A key above the limits of a trace: no store has one.
        let added = state.encoder.add(&call, thread, start_nanos, latency_nanos);
        if added.is_err() {
            shared.dropped_behind.fetch_add(1, Ordering::Relaxed);
        }
        if state.encoder.raw.len() >= BUFFER_BYTES {
            let (raw, operations) = state.encoder.take(Vec::with_capacity(BUFFER_BYTES + 4096));
            if shared.send(Message::Frame(raw, operations)).is_err() {
                let lost = u64::from(operations);
                shared.dropped_behind.fetch_add(lost, Ordering::Relaxed);
            }
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
}

/// The writer's thread.
struct Collector<W: Write> {
    shared: Arc<Shared>,
    frames: FrameWriter<W>,
    /// The number of bytes of the file that were handed to the system, and when.
    handed_over: (u64, Instant),
    /// The first failure of the file.
    failure: Option<Error>,
}

impl<W: Write> Collector<W> {
    fn new(shared: Arc<Shared>, frames: FrameWriter<W>) -> Self {
        Collector {
            shared,
            handed_over: (frames.bytes, Instant::now()),
            frames,
            failure: None,
        }
    }

    fn run(mut self) -> Result<Summary> {
        let mut collected = Instant::now();
        while !self.shared.stopping.load(Ordering::Acquire) {
            self.write_queued();
            if collected.elapsed() >= COLLECT_EVERY {
                if !self.collect() {
                    self.rest();
                }
                self.hand_over(HAND_OVER_EVERY);
                collected = Instant::now();
                continue;
            }
            thread::park_timeout(COLLECT_EVERY.saturating_sub(collected.elapsed()));
        }
        self.finish()
    }

    /// Sleeps until something is recorded, named or ended.
    fn rest(&mut self) {
        self.hand_over(Duration::ZERO);
        self.shared.asleep.store(true, Ordering::Relaxed);
        // This look finds everything that was recorded in between. Later operations wake this
        // thread.
        let is_idle = !self.collect() && self.shared.queue.is_empty();
        if is_idle && !self.shared.stopping.load(Ordering::Acquire) {
            thread::park();
        }
        self.shared.asleep.store(false, Ordering::Relaxed);
    }

    /// Hands written bytes to the system, if the last time was at least `after` ago.
    fn hand_over(&mut self, after: Duration) {
        let (bytes, when) = self.handed_over;
        if self.frames.bytes == bytes || when.elapsed() < after || self.failure.is_some() {
            return;
        }
        self.handed_over = (self.frames.bytes, Instant::now());
        if let Err(error) = self.frames.to.flush() {
            self.fail(error.into());
        }
    }

    fn write_queued(&mut self) {
        while let Some(message) = self.shared.queue.pop() {
            match message {
                Message::Frame(raw, operations) => self.write(&raw, operations),
                Message::Name(number, name) => {
                    let names = [(number, name)].into();
                    let room = self.frames.bytes + 4096 < self.shared.options.bytes_max;
                    if room && let Err(error) = self.frames.names(&names) {
                        self.fail(error);
                    }
                }
            }
        }
    }

    /// Queues what threads have gathered, so that it is soon in the file. Returns whether there was
    /// anything.
    fn collect(&mut self) -> bool {
        let shared = self.shared.clone();
        #[cfg(test)]
        if shared.options.plant == Plant::LastBuffersLost {
            // Operations that the fault loses at the end must still be there, even if this thread
            // comes late.
            return false;
        }
        let mut has_collected = false;
        shared.buffers.lock().retain(|buffer| {
            let mut state = buffer.state.lock();
            has_collected |= state.encoder.operations > 0;
            if state.encoder.operations > 0 && !shared.queue.is_full() {
                // Under the thread's lock, as in the thread itself, so that its buffers stay in
                // order.
                let (raw, operations) = state.encoder.take(Vec::with_capacity(BUFFER_BYTES));
                if shared.queue.push(Message::Frame(raw, operations)).is_err() {
                    let lost = u64::from(operations);
                    shared.dropped_behind.fetch_add(lost, Ordering::Relaxed);
                }
            }
            let is_ended = Arc::strong_count(buffer) == 1;
            if is_ended && state.encoder.operations == 0 {
                let dropped = state.dropped_full;
                shared.dropped_full.fetch_add(dropped, Ordering::Relaxed);
                return false;
            }
            true
        });
        has_collected
    }

    fn finish(mut self) -> Result<Summary> {
        let shared = self.shared.clone();
        let buffers = std::mem::take(&mut *shared.buffers.lock());
        let mut last = Vec::new();
        for buffer in &buffers {
            let mut state = buffer.state.lock();
            state.closed = true;
            shared
                .dropped_full
                .fetch_add(state.dropped_full, Ordering::Relaxed);
            last.push(state.encoder.take(Vec::new()));
        }
        // Buffers that were queued are older than the rest, and nothing is queued any more.
        self.write_queued();
        #[cfg(test)]
        if shared.options.plant == Plant::LastBuffersLost {
            last.clear();
        }
        for (raw, operations) in last.iter().filter(|(_, operations)| *operations > 0) {
            self.write(raw, *operations);
        }
        let duration = Duration::from_nanos(shared.nanos());
        let note = EndNote {
            recorded: self.frames.recorded,
            dropped_full: shared.dropped_full.load(Ordering::Relaxed),
            dropped_behind: shared.dropped_behind.load(Ordering::Relaxed),
            duration_nanos: duration.as_nanos() as u64,
        };
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.frames.end(&note)?;
        Ok(Summary {
            recorded: note.recorded,
            dropped_full: note.dropped_full,
            dropped_behind: note.dropped_behind,
            file_bytes: self.frames.bytes,
            duration,
        })
    }

    /// Writes a frame, unless the file has reached its size or has failed.
    fn write(&mut self, raw: &[u8], operations: u32) {
        let shared = self.shared.clone();
        let limit = shared.options.bytes_max.saturating_sub(RESERVE_BYTES);
        let wrote = match self.failure.is_none() && !shared.is_full.load(Ordering::Relaxed) {
            true => self.frames.operations_within(raw, operations, limit),
            false => Ok(false),
        };
        match wrote {
            Ok(true) => {}
            Ok(false) => {
                shared.is_full.store(true, Ordering::Relaxed);
                let lost = u64::from(operations);
                shared.dropped_full.fetch_add(lost, Ordering::Relaxed);
            }
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: Error) {
        self.shared.is_full.store(true, Ordering::Relaxed);
        self.failure.get_or_insert(error);
    }
}

#[cfg(test)]
mod tests;
