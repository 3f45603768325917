//! [`Gate`]: every call that touches files is inside it. Closing shuts it, and waits until no call
//! is inside.
//!
//! ```text
//!   a call    enter --- Closed, if the gate is shut ---> works ---> leaves
//!   closing   shuts the gate; wakes calls that only wait; waits until all have left;
//!             does the last things, alone
//! ```
//! After closing another opening owns the directory, perhaps at once. A call that still wrote would
//! damage that opening's files. So only calls that have entered may write to the directory; the
//! threads of a database are joined.
//!
//! **Cost.** A call adds one to a counter of its thread's stripe and takes it back: two atomic
//! operations on a cache line that other threads rarely write to. With the note of the thread this
//! takes five nanoseconds. The counter's highest bit says that the gate is shut. So entering and
//! shutting change the same word, and one of the two is first: no fence is needed, and none is
//! missing. Calls that RAM alone can answer do not enter: they ask [`Gate::is_shut`], one load of a
//! line that nobody writes to before closing.
//!
//! **A thread that is inside cannot close.** It would wait for itself. Code of the application runs
//! inside calls (merge operators, compaction filters, key providers) and in the database's own
//! threads ([`Gate::mark`]), and may have a handle. [`Gate::close`] refuses there;
//! [`Gate::is_inside`] tells.
//!
//! Invariants: [`Gate::enter`] never waits. One thread closes; other threads that close wait for
//! it, and get its result, whatever happens to it.
//!
//! Thread safety: any. A leaf for calls that enter. A thread that closes holds no lock. Not here:
//! what closing does.

#[cfg_attr(any(evendb_loom, evendb_shuttle), path = "own_in_models.rs")]
mod own;

use crate::error::{Error, ErrorKind, Result};
use crate::fork;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Arc, Condvar, Mutex};
use std::marker::PhantomData;

const SHUT: usize = 1 << (usize::BITS - 1);
/// The number of counters. A model has one, because it explores each of them.
const STRIPES: usize = if cfg!(any(evendb_loom, evendb_shuttle)) {
    1
} else {
    16
};

/// The number of calls inside, in a cache line of its own, and [`SHUT`].
#[derive(Debug)]
#[repr(align(128))]
struct Stripe(AtomicUsize);

/// See the module.
#[derive(Debug)]
pub struct Gate {
    stripes: [Stripe; STRIPES],
    /// Whether all stripes are shut. It lies apart from them, because many calls read it and none
    /// writes it.
    is_shut: AtomicBool,
    stage: Mutex<Stage>,
    /// Signals that the last call of a stripe has left a shut gate, or that closing has ended.
    moved: Condvar,
}

#[derive(Debug)]
enum Stage {
    Open,
    Closing,
    Closed(Result<()>),
}

/// A running call of this thread.
#[derive(Debug)]
#[must_use = "the call has left when this is dropped"]
pub struct Inside<'g> {
    gate: &'g Gate,
    stripe: usize,
    _mark: Mark,
}

/// Work that no single thread does, such as a file that a helper writes.
#[derive(Debug)]
#[must_use = "it has left when this is dropped"]
pub struct Held {
    gate: Arc<Gate>,
    stripe: usize,
}

/// Notes that closing waits for this thread.
#[derive(Debug)]
#[must_use = "the mark is gone when this is dropped"]
pub struct Mark {
    gate: *const Gate,
    /// A mark belongs to one thread.
    _thread: PhantomData<*const ()>,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate {
            stripes: std::array::from_fn(|_| Stripe(AtomicUsize::new(0))),
            is_shut: AtomicBool::new(false),
            stage: Mutex::new(Stage::Open),
            moved: Condvar::new(),
        }
    }
}

impl Gate {
    /// Begins a call.
    ///
    /// # Errors
    /// `Closed` once the gate is shut.
    #[inline]
    pub fn enter(&self) -> Result<Inside<'_>> {
        let stripe = self.count()?;
        let _mark = self.mark();
        Ok(Inside {
            gate: self,
            stripe,
            _mark,
        })
    }

    /// As [`Gate::enter`], for work that another thread ends.
    ///
    /// # Errors
    /// `Closed` once the gate is shut.
    pub fn hold(self: &Arc<Gate>) -> Result<Held> {
        let stripe = self.count()?;
        let gate = self.clone();
        Ok(Held { gate, stripe })
    }

    #[inline]
    fn count(&self) -> Result<usize> {
        let stripe = own::stripe();
        // Acquire: keeps the call's work behind this. It pairs with nothing that a call needs.
        let before = self.stripes[stripe].0.fetch_add(1, Ordering::Acquire);
        match before & SHUT {
            0 => Ok(stripe),
            _ => Err(self.turned_away(stripe)),
        }
    }

    #[cold]
    fn turned_away(&self, stripe: usize) -> Error {
        self.leave(stripe);
        Error::closed()
    }

    #[inline]
    fn leave(&self, stripe: usize) {
        // Release: the call's work comes before the work of closing, once closing has seen the
        // count.
        let before = self.stripes[stripe].0.fetch_sub(1, Ordering::Release);
        if before & SHUT != 0 {
            self.tell();
        }
    }

    #[cold]
    fn tell(&self) {
        // In a forked child another thread may have held the lock, and nobody waits.
        if !fork::is_child() {
            drop(self.stage.lock());
            self.moved.notify_all();
        }
    }

    /// Whether closing has begun: then no call enters any more.
    #[inline]
    pub fn is_shut(&self) -> bool {
        // Pairs with the Release of `close`.
        self.is_shut.load(Ordering::Acquire)
    }

    /// Notes that closing waits for this thread, which is one of the database's own.
    pub fn mark(&self) -> Mark {
        own::push(self);
        Mark {
            gate: self,
            _thread: PhantomData,
        }
    }

    /// Whether this thread is in a call, or closing waits for it.
    pub fn is_inside(&self) -> bool {
        own::has(self)
    }

    /// Whether no call is inside, of any thread. The answer may be outdated when it arrives.
    pub fn is_empty(&self) -> bool {
        let inside = |stripe: &Stripe| stripe.0.load(Ordering::Acquire) & !SHUT;
        self.stripes.iter().all(|stripe| inside(stripe) == 0)
    }

    /// Closes: shuts the gate, calls `wake` so that calls inside that only wait give up, waits
    /// until no call is inside, and runs `last`. If several threads close, one of them does all
    /// this, and the others wait for it. All of them get its result.
    ///
    /// # Errors
    /// The error of `last`. `InvalidArgument` if this thread is inside: nothing has happened then.
    pub fn close(&self, wake: impl FnOnce(), last: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.is_inside() {
            let message = "close was called within a call of the same database, or in a thread of it (by a merge \
                           operator, a compaction filter, a key provider), and would wait for itself: the database \
                           is open; close it after that call, or in another thread";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let mut stage = self.stage.lock();
        loop {
            match &*stage {
                Stage::Open => break,
                Stage::Closing => self.moved.wait(&mut stage),
                Stage::Closed(outcome) => return outcome.clone(),
            }
        }
        *stage = Stage::Closing;
        drop(stage);
        let panicked = Error::new(
            ErrorKind::Io,
            "the thread that closed the database panicked",
        );
        let mut closing = Closing {
            gate: self,
            outcome: Err(panicked),
        };
        // Closing wakes code of the application (wakers), which might close: it would wait for
        // this thread.
        let _own = self.mark();
        for stripe in &self.stripes {
            stripe.0.fetch_or(SHUT, Ordering::Relaxed);
        }
        self.is_shut.store(true, Ordering::Release);
        wake();
        self.wait_until_left();
        closing.outcome = last();
        closing.outcome.clone()
    }

    fn wait_until_left(&self) {
        let mut stage = self.stage.lock();
        // Acquire pairs with the Release of the calls that leave.
        let is_left = |stripe: &Stripe| stripe.0.load(Ordering::Acquire) == SHUT;
        while !self.stripes.iter().all(is_left) {
            self.moved.wait(&mut stage);
        }
    }
}

/// Wakes the other threads that close, whatever happened.
struct Closing<'g> {
    gate: &'g Gate,
    outcome: Result<()>,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        *self.gate.stage.lock() = Stage::Closed(self.outcome.clone());
        self.gate.moved.notify_all();
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.gate.leave(self.stripe);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.gate.leave(self.stripe);
    }
}

impl Drop for Mark {
    #[inline]
    fn drop(&mut self) {
        own::pop(self.gate);
    }
}

#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod tests;
