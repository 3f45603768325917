//! One call under way: a future, and the callback that is told its outcome.
//!
//! ```text
//!             turn           pending, nobody woke it or called it off
//!   Waits ------------> Turns ------------------------------> Waits
//!     |                   |  woken meanwhile: another poll
//!     | call_off          |  called off meanwhile, or ready
//!     v                   v
//!    Over <---------------'      who makes it Over calls the callback
//! ```
//! **Exactly once.** The stage is behind a mutex, and becomes `Over` once. Who brings that about
//! drops the future, and then calls the callback, which it takes out of its place. A driver whose
//! last owner goes while the stage is not `Over` calls it too: then a waker was dropped, and nobody
//! would come any more. A forked child calls nothing: the call belongs to its parent.
//!
//! **No lost wake-up.** A poll runs with the future out of the mutex, so that a wake-up during the
//! poll, also by the poll itself, waits for nothing: it finds `Turns` and sets `again`. The poller
//! sees that when it puts the future back, under the same mutex, and polls once more. A wake-up
//! after that finds `Waits` and polls by itself. So there is no moment at which a wake-up is
//! dropped, and never two polls at once.
//!
//! **No lock** is held while a future is polled or dropped, or while the callback runs. So the
//! callback may use its own task, and calls of the store.
//!
//! Thread safety: any threads. Steps of the mutex alone decide; there are no atomics.

use super::lock::Mutex;
use crate::border::error::caught;
use crate::border::{Failure, Status, status};
use crate::calls::reads::{ValueHandle, give};
use evendb::Value;
use evendb_base::fork;
use std::ffi::c_void;
use std::future::Future;
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// `evendb_done`.
pub(super) type Done = unsafe extern "C" fn(*mut c_void, Status, *mut ValueHandle, *mut Failure);

/// The caller's callback and its context.
pub(super) struct Callback {
    pub(super) done: Done,
    pub(super) context: *mut c_void,
}

// SAFETY: the header says that any thread may call the function with the context.
unsafe impl Send for Callback {}

/// What a call ends with: its value, if it has one.
pub(super) type Outcome = Result<Option<Value>, Box<Failure>>;

type Work = Pin<Box<dyn Future<Output = evendb::Result<Option<Value>>> + Send>>;

impl Callback {
    /// The one call of it. Value and error belong to the callback then.
    pub(super) fn tell(self, outcome: Outcome) {
        let (status, value, failure) = match outcome {
            Ok(value) => (status::OK, give(value), ptr::null_mut()),
            Err(failure) => (failure.status, ptr::null_mut(), Box::into_raw(failure)),
        };
        // SAFETY: the caller's function with its context; `self` is consumed, so it is called once.
        unsafe { (self.done)(self.context, status, value, failure) }
    }
}

enum Stage {
    Waits(Work),
    Turns { again: bool, called_off: bool },
    Over,
}

impl Stage {
    /// A poll that nobody has disturbed yet.
    const TURNS: Stage = Stage::Turns {
        again: false,
        called_off: false,
    };
}

/// See the module.
pub(super) struct Driver {
    stage: Mutex<Stage>,
    callback: Mutex<Option<Callback>>,
}

#[cold]
fn cancelled() -> Box<Failure> {
    let message = "the call was called off: its task was freed, or the database let go of it";
    Failure::new(status::CANCELLED, message)
}

impl Driver {
    pub(super) fn new(work: Work, callback: Callback) -> Arc<Driver> {
        Arc::new(Driver {
            stage: Mutex::new(Stage::Waits(work)),
            callback: Mutex::new(Some(callback)),
        })
    }

    /// A call whose callback was called: its task stands for nothing.
    pub(super) fn over() -> Arc<Driver> {
        Arc::new(Driver {
            stage: Mutex::new(Stage::Over),
            callback: Mutex::new(None),
        })
    }

    /// The first poll, in the caller's thread, and each one after a wake-up, in the waker's.
    pub(super) fn start(self: Arc<Driver>) {
        if let Some(outcome) = self.turn() {
            self.tell(outcome);
        }
    }

    /// Calls the call off, if it is not over.
    pub(super) fn call_off(&self) {
        let work = {
            let mut stage = self.stage.lock();
            match std::mem::replace(&mut *stage, Stage::Over) {
                Stage::Waits(work) => work,
                Stage::Turns { again, .. } => {
                    let called_off = true;
                    *stage = Stage::Turns { again, called_off };
                    return;
                }
                Stage::Over => return,
            }
        };
        forget(work);
        self.tell(Err(cancelled()));
    }

    /// Polls until the future is pending and nobody has woken it meanwhile. Returns what the call
    /// ends with, if it is over now.
    fn turn(self: &Arc<Driver>) -> Option<Outcome> {
        let mut work = {
            let mut stage = self.stage.lock();
            match std::mem::replace(&mut *stage, Stage::TURNS) {
                Stage::Waits(work) => work,
                Stage::Turns { called_off, .. } => {
                    let again = true;
                    *stage = Stage::Turns { again, called_off };
                    return None;
                }
                Stage::Over => {
                    *stage = Stage::Over;
                    return None;
                }
            }
        };
        let waker = Waker::from(self.clone());
        loop {
            let polled = caught(|| Ok(work.as_mut().poll(&mut Context::from_waker(&waker))));
            let outcome = match polled {
                Ok(Poll::Pending) => match self.put_back(work) {
                    Ok(()) => return None,
                    Err((left, false)) => {
                        work = left;
                        continue;
                    }
                    Err((left, true)) => {
                        forget(left);
                        return Some(Err(cancelled()));
                    }
                },
                Ok(Poll::Ready(answer)) => answer.map_err(Into::into),
                Err(failure) => Err(failure),
            };
            *self.stage.lock() = Stage::Over;
            forget(work);
            return Some(outcome);
        }
    }

    /// Lets the future wait. It comes back if it was woken during its poll, with `false`, or if it
    /// was called off, with `true`: the call is then over.
    fn put_back(&self, work: Work) -> Result<(), (Work, bool)> {
        let mut stage = self.stage.lock();
        let (next, called_off) = match &*stage {
            Stage::Turns { called_off, .. } if *called_off => (Stage::Over, true),
            Stage::Turns { again, .. } if *again => (Stage::TURNS, false),
            _ => {
                *stage = Stage::Waits(work);
                return Ok(());
            }
        };
        *stage = next;
        Err((work, called_off))
    }

    /// Calls the callback. The caller has made the stage `Over`.
    fn tell(&self, outcome: Outcome) {
        let callback = self.callback.lock().take();
        if let Some(callback) = callback {
            callback.tell(outcome);
        }
    }
}

/// Drops a future; a panic of its destructor is caught, so that the callback is called all the
/// same.
fn forget(work: Work) {
    let _ = caught(|| {
        drop(work);
        Ok(())
    });
}

impl Wake for Driver {
    fn wake(self: Arc<Driver>) {
        self.start();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(callback) = self.callback.get_mut().take()
            && !fork::is_child()
        {
            callback.tell(Err(cancelled()));
        }
    }
}
