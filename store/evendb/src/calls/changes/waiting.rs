//! How a feed waits for more: a thread that blocks, or a task that is woken.
//!
//! ```text
//!   poll    step -- a change ------------------------------------------------> Ready
//!            |  +-- passed over POLL_BYTES, more is there --- wake itself ---> Pending
//!            +-- the end: leave the waker, look again -- something new -> step
//!                                                     +- nothing ----------> Pending
//! ```
//! Invariants: a change is taken only by the poll that gives it, so a future that is dropped has
//! taken none. A feed that is dropped, and a future that is dropped, take their waker back. A poll
//! never waits for a change; it reads the log, in most cases from the page cache. A task that wakes
//! itself has made progress.
//!
//! Thread safety: a feed belongs to one thread at a time. Not here: where wakers are kept, and the
//! argument that no wake-up is lost (`commit_log/reading/follow.rs`).

use super::change::Change;
use super::feed::{Changes, Step, durable_only};
use crate::engine::log::Found;
use crate::error::Result;
use crate::fork;
use crate::sync::thread;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

/// The bytes of the log that one poll passes over before it lets other tasks of its thread run.
const POLL_BYTES: u64 = 1 << 20;
/// The longest pause between two looks for what another process writes.
const PAUSE_MAX: Duration = Duration::from_millis(50);

impl Changes {
    /// Waits for more changes: returns `true` once there is something to read, and `false` after
    /// `timeout`. (It may then be no change: a write to a dropped keyspace, or one that a watch
    /// passes over.) Returns at once if there is something already. A writer for which no reader
    /// waits pays nothing for this.
    ///
    /// # Errors
    /// `ReadOnly` in a database that is open for reading only, where no change will come; `Closed`;
    /// `Latched` if there is nothing and no write will come; `KeyspaceDropped` in a watch; and the
    /// feed's failure, again.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool> {
        self.wait_until(Instant::now().checked_add(timeout))
    }

    /// The next change; waits for it without a limit.
    ///
    /// # Errors
    /// Like [`wait`](Self::wait) and [`Db::changes_since`](crate::Db::changes_since).
    pub fn next_blocking(&mut self) -> Result<Change> {
        loop {
            self.check_failure()?;
            if let Some(change) = self.next() {
                return change;
            }
            self.wait_until(None)?;
        }
    }

    /// The next change; waits for it at most as long as `timeout`, and then returns `None`.
    ///
    /// # Errors
    /// The errors of [`next_blocking`](Self::next_blocking).
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<Change>> {
        let until = Instant::now().checked_add(timeout);
        loop {
            self.check_failure()?;
            if let Some(change) = self.next() {
                return change.map(Some);
            }
            if !self.wait_until(until)? {
                return Ok(None);
            }
        }
    }

    /// The next change, for a task that waits without a thread. It needs no particular runtime:
    /// the task's waker is woken by the thread whose write is to be read, or that closes the
    /// database. Dropping the future loses no change.
    ///
    /// A poll reads the log in the calling thread, in most cases from the page cache, and goes on
    /// to other tasks after a MiB that it passed over. As a `Stream` of the crate `futures` the
    /// feed is `stream::poll_fn(move |cx| changes.poll_next(cx))`.
    ///
    /// ```
    /// # use std::task::{Context, Poll, Waker};
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// let mut orders = db.default_keyspace().watch_prefix("order/")?;
    /// let mut next = std::pin::pin!(orders.next_async());
    /// # let mut cx = Context::from_waker(Waker::noop());
    /// assert!(next.as_mut().poll(&mut cx).is_pending());
    /// db.put("order/7", "two apples")?;
    /// assert!(next.as_mut().poll(&mut cx).is_ready());
    /// # Ok::<(), evendb::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`next_blocking`](Self::next_blocking).
    pub fn next_async(&mut self) -> impl Future<Output = Result<Change>> + Send + '_ {
        NextChange { changes: self }
    }

    /// The next change, or `Pending` after the task's waker was left where writers find it. After
    /// an error it gives `None`, as the iterator does.
    ///
    /// The waker runs at the end of the call that made the change, or in a thread of the database,
    /// while the database holds no lock: it may call the database, all but
    /// [`Db::close`](crate::Db::close).
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Change>>> {
        match self.failure {
            Some(_) => Poll::Ready(None),
            None => self.poll_change(cx.waker()).map(Some),
        }
    }

    fn poll_change(&mut self, waker: &Waker) -> Poll<Result<Change>> {
        let polled = self.poll_steps(waker);
        if let Poll::Ready(done) = &polled {
            self.forget_task();
            if let Err(error) = done {
                self.note_failure(error);
            }
        }
        polled
    }

    fn poll_steps(&mut self, waker: &Waker) -> Poll<Result<Change>> {
        let mut left = POLL_BYTES;
        loop {
            match self.step(&mut left)? {
                Step::Change(change) => return Poll::Ready(Ok(change)),
                Step::Paused => {
                    waker.wake_by_ref();
                    return Poll::Pending;
                }
                Step::End => ready!(self.poll_more(waker))?,
            }
        }
    }

    /// Ready once there is something to read.
    fn poll_more(&mut self, waker: &Waker) -> Poll<Result<()>> {
        let handle = self.handle.clone();
        let engine = &handle.engine;
        let Some(ring) = &engine.log.commit_log else {
            return Poll::Ready(self.check_more_comes());
        };
        let mut ticket = std::mem::take(&mut self.ticket);
        let ended = || self.check_more_comes().is_err();
        let polled = ring.poll_beyond(self.at, durable_only(engine), &ended, &mut ticket, waker);
        self.ticket = ticket;
        match polled {
            Poll::Ready(true) => Poll::Ready(Ok(())),
            Poll::Ready(false) => Poll::Ready(self.check_more_comes()),
            Poll::Pending => Poll::Pending,
        }
    }

    fn wait_until(&mut self, until: Option<Instant>) -> Result<bool> {
        self.check_failure()?;
        let engine = &self.handle.engine;
        engine.core.health.check_readable()?;
        let Some(ring) = &engine.log.commit_log else {
            return match &engine.log.history.found {
                _ if self.at < self.readable => Ok(true),
                Some(found) => self.wait_beside(found, until),
                None => self.check_more_comes().map(|()| false),
            };
        };
        let ended = || self.check_more_comes().is_err();
        if ring.wait_beyond(self.at, durable_only(engine), until, &ended) {
            return Ok(true);
        }
        self.check_more_comes().map(|()| false)
    }

    /// Waits for what another process writes, by looking now and then.
    fn wait_beside(&self, found: &Found, until: Option<Instant>) -> Result<bool> {
        let engine = &self.handle.engine;
        let mut pause = Duration::from_millis(1);
        loop {
            engine.core.health.check_readable()?;
            if engine.log.history.look_further(found, self.followed())? > self.at {
                return Ok(true);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
            thread::sleep(left.map_or(pause, |left| pause.min(left)));
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// An error says why nothing more will come.
    fn check_more_comes(&self) -> Result<()> {
        self.handle.engine.core.health.check_writable()?;
        self.filter.as_ref().map_or(Ok(()), |filter| filter.check())
    }

    fn check_failure(&self) -> Result<()> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    fn forget_task(&mut self) {
        if let Some(ring) = &self.handle.engine.log.commit_log {
            ring.forget_task(&mut self.ticket);
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        // In a forked child the lock may be held by a thread that does not exist there.
        if !fork::is_child() {
            self.forget_task();
        }
    }
}

/// The future of [`Changes::next_async`].
struct NextChange<'a> {
    changes: &'a mut Changes,
}

impl Future for NextChange<'_> {
    type Output = Result<Change>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Change>> {
        self.changes.check_failure()?;
        self.changes.poll_change(cx.waker())
    }
}

impl Drop for NextChange<'_> {
    fn drop(&mut self) {
        if !fork::is_child() {
            self.changes.forget_task();
        }
    }
}
