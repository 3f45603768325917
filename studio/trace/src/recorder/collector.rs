//! [`Collector`]: the thread that writes a trace. It empties the queue, collects what threads have
//! gathered, and ends the file.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

#[cfg(test)]
use super::Plant;
use super::{BUFFER_BYTES, Message, Shared, Summary};
use crate::error::{Error, Result};
use crate::frame::EndNote;
use crate::writer::FrameWriter;

const COLLECT_EVERY: Duration = Duration::from_millis(100);
/// Written bytes are handed to the system after this time.
const HAND_OVER_EVERY: Duration = Duration::from_secs(1);
/// Bytes of the file that are kept for the end, and for names of new keyspaces.
const RESERVE_BYTES: u64 = 16 << 10;

/// The writer's thread.
pub(super) struct Collector<W: Write> {
    shared: Arc<Shared>,
    frames: FrameWriter<W>,
    /// The number of bytes of the file that were handed to the system, and when.
    handed_over: (u64, Instant),
    /// The first failure of the file.
    failure: Option<Error>,
}

impl<W: Write> Collector<W> {
    pub(super) fn new(shared: Arc<Shared>, frames: FrameWriter<W>) -> Self {
        Collector {
            shared,
            handed_over: (frames.bytes, Instant::now()),
            frames,
            failure: None,
        }
    }

    pub(super) fn run(mut self) -> Result<Summary> {
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
