//! [`RecorderHandle`]: what a store asks at each call, and what a thread keeps of a recorder.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{BUFFER_BYTES, Message, Shared, ThreadBuffer};
use crate::operation::Call;
use crate::sampler::is_up_to;
use parking_lot::Mutex;

/// Where a store keeps its recorder. Off until [`Recorder::start`](super::Recorder::start); one
/// trace at a time.
#[derive(Default)]
pub struct RecorderHandle {
    /// Number of the recorder, which no other of the process has; 0: off. Relaxed: a thread that
    /// sees it asks `shared`, or has done so before.
    pub(super) active: AtomicU64,
    /// The highest hash of a key that the recorder takes. So a key that is left out costs no look
    /// at the thread's data. Relaxed, and not together with `active`: an operation sees the hash of
    /// another recorder only if it begins while this one is started or ended. Such an operation may
    /// be left out, or is asked about again.
    pub(super) highest: AtomicU64,
    pub(super) shared: Mutex<Option<Arc<Shared>>>,
}

/// An operation that has begun, and will be recorded.
#[derive(Clone, Copy, Debug)]
#[must_use = "it is recorded by `end`"]
pub struct Began {
    pub(super) recorder: u64,
    pub(super) start_nanos: u64,
    pub(super) wants_hash: bool,
    pub(super) wants_value: bool,
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

/// A thread's data of a recorder that it has used.
struct Local {
    shared: Arc<Shared>,
    buffer: Arc<ThreadBuffer>,
}

thread_local! {
    static LOCALS: RefCell<Vec<Local>> = const { RefCell::new(Vec::new()) };
}

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
