//! Ranges as chunks of records, one wake-up for many records.
//!
//! ```text
//!   Here: the cursor --poll: what memory has, up to a chunk--> ready
//!     ^        '--memory has nothing of what comes next--> Away: a reader has the cursor
//!     '------------------- the chunk, and the cursor back ------'
//! ```
//! A chunk is bounded by records and bytes, and no further one is gathered before it is asked for:
//! so the memory of a range does not depend on its length.
//!
//! Invariants: the cursor is here, or away with a job, or gone after the end or an error. A job
//! that is under way stays with the range when the future of one chunk is dropped: the next future
//! goes on with it, and no record is lost.

use super::task::Job;
use crate::api::db::Db;
use crate::api::keyspace::Keyspace;
use crate::api::snapshot::Snapshot;
use crate::engine::handle::Handle;
use crate::engine::staff::ThreadRole;
use crate::error::Result;
use crate::fork;
use crate::read::cursor::Cursor;
use crate::read::tables::Direction;
use crate::sync::Arc;
use crate::value::Value;
use std::future::Future;
use std::ops::RangeBounds;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Keys and values of neighbouring records, in the order of the range.
type Chunk = Vec<(Value, Value)>;

/// The most records of a chunk, if the program does not say, and about the most bytes.
const RECORDS_MAX: usize = 256;
const BYTES_MAX: usize = 256 << 10;

/// The records of a range at one moment, in chunks: [`Keyspace::range_async`] makes it.
///
/// `Send` and `'static`; one task at a time uses it. It holds one chunk at most, whatever the
/// length of the range. What memory has is ready at the first poll; otherwise a thread of the
/// database gathers the next chunk. An error ends it: after that there are no more chunks.
///
/// ```
/// # use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
/// # fn block_on<T>(future: impl Future<Output = T>) -> T {
/// #     let mut future = pin!(future);
/// #     loop {
/// #         if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
/// #             return done;
/// #         }
/// #     }
/// # }
/// # fn main() -> evendb::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = evendb::Db::open(dir.path())?;
/// for number in 0..1000u32 {
///     db.put(number.to_be_bytes(), "")?;
/// }
/// let count = async {
///     let mut chunks = db.range_async::<&[u8]>(..);
///     let mut count = 0;
///     while let Some(chunk) = chunks.next_chunk().await? {
///         count += chunk.len();
///     }
///     Ok::<_, evendb::Error>(count)
/// };
/// assert_eq!(block_on(count)?, 1000);
/// # Ok(())
/// # }
/// ```
#[must_use = "a range reads nothing until a chunk is asked for"]
pub struct RangeChunks {
    handle: Arc<Handle>,
    direction: Direction,
    records_max: usize,
    place: Place,
}

/// The place of the cursor.
enum Place {
    Here(Box<Cursor>),
    Away(Job<(Box<Cursor>, Chunk)>),
    Over,
}

/// The next chunk of a range, when it is there, or `None` behind the last one:
/// [`RangeChunks::next_chunk`] makes it. Dropping it loses no record.
#[must_use = "a future does nothing until it is polled"]
pub struct NextChunk<'a>(&'a mut RangeChunks);

/// A chunk as far as it was gathered.
struct Gathering<'a> {
    chunk: Chunk,
    bytes: usize,
    records_max: usize,
    cursor: &'a mut Cursor,
    direction: Direction,
}

impl<'a> Gathering<'a> {
    fn new(cursor: &'a mut Cursor, direction: Direction, records_max: usize) -> Gathering<'a> {
        Gathering {
            chunk: Vec::new(),
            bytes: 0,
            records_max,
            cursor,
            direction,
        }
    }

    /// Adds the record that the cursor has come to. Returns whether more belong into the chunk.
    fn add(&mut self) -> bool {
        let (key, value) = self.cursor.current_values(self.direction);
        self.bytes += key.len() + value.len();
        self.chunk.push((key, value));
        self.chunk.len() < self.records_max && self.bytes < BYTES_MAX
    }

    /// The result where a step has failed: records that came before it are given first, and the
    /// cursor repeats its error.
    fn unless_failed(self, failed: Result<()>) -> Result<Chunk> {
        match failed {
            Err(error) if self.chunk.is_empty() => Err(error),
            _ => Ok(self.chunk),
        }
    }

    /// Gathers what memory has. `None` if the first record has to be read.
    fn in_ram(mut self) -> Result<Option<Chunk>> {
        loop {
            match self.cursor.advance_in_ram(self.direction) {
                Ok(Some(true)) => {
                    if !self.add() {
                        return Ok(Some(self.chunk));
                    }
                }
                Ok(None) if self.chunk.is_empty() => return Ok(None),
                Ok(Some(false) | None) => return Ok(Some(self.chunk)),
                Err(error) => return self.unless_failed(Err(error)).map(Some),
            }
        }
    }

    /// Gathers what the next refill of the cursor brings.
    fn by_reading(mut self) -> Result<Chunk> {
        loop {
            match self.cursor.advance(self.direction) {
                Ok(true) => {
                    if !self.add() || !self.cursor.has_gathered(self.direction) {
                        return Ok(self.chunk);
                    }
                }
                Ok(false) => return Ok(self.chunk),
                Err(error) => return self.unless_failed(Err(error)),
            }
        }
    }
}

impl RangeChunks {
    fn new(handle: Arc<Handle>, cursor: Cursor) -> RangeChunks {
        RangeChunks {
            handle,
            direction: Direction::Forward,
            records_max: RECORDS_MAX,
            place: Place::Here(Box::new(cursor)),
        }
    }

    /// The same range from its end, in reverse order of keys. Said before the first chunk.
    #[must_use = "the range in reverse is returned"]
    pub fn rev(mut self) -> RangeChunks {
        self.direction = Direction::Backward;
        self
    }

    /// Sets the most records of a chunk; at least 1. Default: 256. A chunk also ends when its keys
    /// and values have 256 KiB, and where what follows has to be read.
    #[must_use = "the range with the setting is returned"]
    pub fn chunk_records(mut self, records: usize) -> RangeChunks {
        self.records_max = records.max(1);
        self
    }

    /// The next chunk, which has at least one record; `None` behind the last one.
    ///
    /// # Errors
    /// The future gives the errors of [`Cursor::next`], once; after that there are no more chunks.
    pub fn next_chunk(&mut self) -> NextChunk<'_> {
        NextChunk(self)
    }

    /// The poll of [`next_chunk`](Self::next_chunk), for a task that has no place for its future.
    ///
    /// # Errors
    /// The same errors.
    pub fn poll_next_chunk(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Chunk>>> {
        if let Err(error) = fork::check() {
            return Poll::Ready(Err(error));
        }
        let polled = self.step(context.waker());
        match &polled {
            Poll::Ready(Ok(Some(_))) | Poll::Pending => {}
            Poll::Ready(Ok(None) | Err(_)) => self.place = Place::Over,
        }
        polled
    }

    fn step(&mut self, waker: &Waker) -> Poll<Result<Option<Chunk>>> {
        if let Place::Here(cursor) = &mut self.place {
            let gathering = Gathering::new(cursor, self.direction, self.records_max);
            if let Some(gathered) = gathering.in_ram().transpose() {
                return Poll::Ready(gathered.map(given));
            }
            self.send_away();
        }
        let Place::Away(job) = &mut self.place else {
            return Poll::Ready(Ok(None));
        };
        let Poll::Ready(back) = job.poll(waker) else {
            return Poll::Pending;
        };
        Poll::Ready(back.map(|(cursor, chunk)| {
            self.place = Place::Here(cursor);
            given(chunk)
        }))
    }

    /// Has a reader gather the next chunk.
    fn send_away(&mut self) {
        let Place::Here(mut cursor) = std::mem::replace(&mut self.place, Place::Over) else {
            return;
        };
        let (direction, records_max) = (self.direction, self.records_max);
        let read = move || {
            let gathering = Gathering::new(&mut cursor, direction, records_max);
            let chunk = gathering.by_reading()?;
            Ok((cursor, chunk))
        };
        let job = Job::new(self.handle.clone(), ThreadRole::Reader, read);
        self.place = Place::Away(job);
    }
}

/// A chunk as it is given: one without records is the end.
fn given(chunk: Chunk) -> Option<Chunk> {
    (!chunk.is_empty()).then_some(chunk)
}

impl Future for NextChunk<'_> {
    type Output = Result<Option<Chunk>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_next_chunk(context)
    }
}

impl Keyspace {
    /// The records of a key range at the time of this call, in chunks that are futures: see
    /// [`RangeChunks`]. An inverted range is empty.
    pub fn range_async<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> RangeChunks {
        RangeChunks::new(self.handle.clone(), self.cursor(range))
    }
}

impl Db {
    /// See [`Keyspace::range_async`].
    pub fn range_async<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> RangeChunks {
        self.default_keyspace().range_async(range)
    }
}

impl Snapshot {
    /// The records of a key range at this moment, in chunks that are futures: see
    /// [`Keyspace::range_async`].
    pub fn range_async<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> RangeChunks {
        RangeChunks::new(self.moment.handle.clone(), self.cursor(keyspace, range))
    }
}

impl std::fmt::Debug for RangeChunks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RangeChunks")
    }
}

impl std::fmt::Debug for NextChunk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NextChunk")
    }
}
