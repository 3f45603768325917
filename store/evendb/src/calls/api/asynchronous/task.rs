//! A job that a future hands to a pool, and its result on the way back.
//!
//! ```text
//!   Job, the future's half ---Arc---> Task: the work, taken once; the promise of its result
//!     poll: hands the task over, asks for the result            |
//!     drop: takes it back if no thread has begun it             a thread of the pool runs it
//! ```
//! The work owns what it uses. When the future is gone, work that has begun goes on to its end, and
//! its result is dropped by the thread that did it.
//!
//! A panic in the work is an error for its future alone.
//!
//! Thread safety: a task is shared by its future and a thread. Not here: the queue
//! ([`crate::engine::pool`]).

use crate::engine::handle::Handle;
use crate::engine::pool::{Handed, PoolJob};
use crate::engine::staff::ThreadRole;
use crate::error::{Error, ErrorKind, Result};
use crate::fork;
use crate::sync::{Arc, Mutex};
use evendb_base::wakers::Promise;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Poll, Waker};

/// See the module. One allocation holds all of it.
struct Task<T, W> {
    work: Mutex<Option<W>>,
    promise: Promise<Result<T>>,
}

/// A task whose work is not named.
trait Promised<T>: PoolJob {
    fn promise(&self) -> &Promise<Result<T>>;
}

impl<T: Send, W: FnOnce() -> Result<T> + Send> PoolJob for Task<T, W> {
    fn run(&self) -> Option<Waker> {
        let work = self.work.lock().take();
        let work = work.filter(|_| !self.promise.is_over())?;
        let result = catch_unwind(AssertUnwindSafe(work));
        let result = result.unwrap_or_else(|_| Err(panicked()));
        // What nobody wants any more is dropped here.
        self.promise.put(result).ok().flatten()
    }

    fn refuse(&self) {
        let work = self.work.lock().take();
        drop(self.promise.keep(Err(Error::closed())));
        drop(work);
    }
}

impl<T: Send, W: FnOnce() -> Result<T> + Send> Promised<T> for Task<T, W> {
    fn promise(&self) -> &Promise<Result<T>> {
        &self.promise
    }
}

fn panicked() -> Error {
    let message = "a call panicked in a thread of the database that served its future; the message is \
                   on standard error";
    Error::new(ErrorKind::Io, message)
}

/// The error of a poll after the last one.
pub(super) fn polled_again() -> Error {
    let message = "a future was polled again after it had given its result";
    Error::new(ErrorKind::InvalidArgument, message)
}

/// The future's half of a job.
pub(super) struct Job<T: Send + 'static> {
    handle: Arc<Handle>,
    /// The threads that do it.
    role: ThreadRole,
    task: Arc<dyn Promised<T>>,
    handed: bool,
    /// Its number in the queue.
    number: Option<u64>,
}

impl<T: Send + 'static> Job<T> {
    pub(super) fn new(
        handle: Arc<Handle>,
        role: ThreadRole,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Job<T> {
        let task = Task {
            work: Mutex::new(Some(work)),
            promise: Promise::default(),
        };
        Job {
            handle,
            role,
            task: Arc::new(task),
            handed: false,
            number: None,
        }
    }

    /// Hands it over, the first time, and asks for the result.
    pub(super) fn poll(&mut self, waker: &Waker) -> Poll<Result<T>> {
        if let Err(error) = fork::check() {
            return Poll::Ready(Err(error));
        }
        if !self.handed {
            self.handed = true;
            match self
                .handle
                .engine
                .work
                .hand_over(self.role, self.task.clone())
            {
                Handed::Queued(number) => self.number = Some(number),
                // This future has not left its waker yet, so nobody has to be woken.
                Handed::NoThread => drop(self.task.run()),
                Handed::Closed => self.task.refuse(),
            }
        }
        match self.task.promise().poll(waker) {
            Some(result) => {
                self.number = None;
                Poll::Ready(result)
            }
            None => Poll::Pending,
        }
    }
}

impl<T: Send + 'static> Drop for Job<T> {
    fn drop(&mut self) {
        if fork::is_child() {
            // Its lock may be held by a thread that does not exist here.
            std::mem::forget(self.task.clone());
            return;
        }
        if let Some(number) = self.number {
            self.task.promise().give_up();
            drop(self.handle.engine.work.pool(self.role).remove(number));
        }
    }
}

/// A result that is there, or a job that will have it.
pub(super) enum Answer<T: Send + 'static> {
    Ready(Result<T>),
    Asked(Job<T>),
    Given,
}

impl<T: Send + 'static> Answer<T> {
    #[inline]
    pub(super) fn poll(&mut self, waker: &Waker) -> Poll<Result<T>> {
        let result = match self {
            Answer::Asked(job) => match job.poll(waker) {
                Poll::Ready(result) => result,
                Poll::Pending => return Poll::Pending,
            },
            Answer::Ready(_) => match std::mem::replace(self, Answer::Given) {
                Answer::Ready(result) => return Poll::Ready(result),
                Answer::Asked(_) | Answer::Given => Err(polled_again()),
            },
            Answer::Given => return Poll::Ready(Err(polled_again())),
        };
        *self = Answer::Given;
        Poll::Ready(result)
    }
}
