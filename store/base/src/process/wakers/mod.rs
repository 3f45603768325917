//! Wakers of futures: a list of those that wait for a number to be reached ([`Wakers`]), and the
//! place at which one future waits for one result ([`Promise`]).
//!
//! ```text
//!   a future    looks --nothing yet--> registers its waker, and looks again, under one lock
//!   a finisher  puts the result down and takes the wakers, under the same lock
//!               wakes them when it has let the lock go
//! ```
//! So a result that comes between the look and the registration is seen by the second look, and
//! one that comes later finds the waker. A waker is code of the application: cloning, waking and
//! dropping it may do anything. So none of this is done under a lock, and a panic in it stays with
//! the waker ([`wake`]).
//!
//! A finisher that cannot let go of its locks, because a caller of it holds more, leaves the wakers
//! with those that are [`Due`]. A thread that holds none wakes them soon:
//!
//! ```text
//!   holds locks --add--> Due --wake--> a call that ends, or a thread of the database between two
//!                                      pieces of work
//! ```
//!
//! A future that was dropped takes its waker out, so a list is never longer than the futures that
//! live. One that was forgotten, or is not polled again, holds nobody up: its entry goes when its
//! number is reached, and the result waits at its place.
//!
//! Thread safety: a list is plain data, under the lock of its owner; a promise is shared by one
//! future and one finisher, and has a lock of its own, a leaf. Not here: which thread wakes.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Wakes each of them. A panic of one is its own affair: the others are woken all the same.
pub fn wake(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        // Its message is on standard error by then.
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}

/// Wakers that are due, left by threads that hold locks. Each is woken by the next call of
/// [`wake`](Self::wake), of any thread; a thread that adds some sees to it that one follows.
#[derive(Debug, Default)]
pub struct Due {
    /// Whether there are any. Written under the lock.
    is_any: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Due {
    /// Leaves wakers; none of them is run here.
    pub fn add(&self, wakers: Vec<Waker>) {
        if !wakers.is_empty() {
            let mut due = self.wakers.lock();
            due.extend(wakers);
            self.is_any.store(true, Ordering::Relaxed);
        }
    }

    /// Whether there are any. A thread that has added some, or was told of it by one that has,
    /// does not miss them.
    #[inline]
    pub fn is_any(&self) -> bool {
        // Relaxed: a thread sees its own stores, and what was told to it came by a lock.
        self.is_any.load(Ordering::Relaxed)
    }

    /// Wakes them, and those that they leave. The caller holds no lock.
    pub fn wake(&self) {
        while self.is_any() {
            let mut due = self.wakers.lock();
            let taken = std::mem::take(&mut *due);
            self.is_any.store(false, Ordering::Relaxed);
            drop(due);
            wake(taken);
        }
    }
}

/// A future's place in a list of [`Wakers`].
#[derive(Debug, Default)]
pub struct Ticket(Option<Place>);

/// An index, and the number of the registration that it belongs to.
#[derive(Clone, Copy, Debug)]
struct Place {
    index: usize,
    number: u64,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    /// It is woken when this is reached.
    until: u64,
    waker: Waker,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Wakers {
    entries: Vec<Option<Entry>>,
    vacant: Vec<usize>,
    registered: u64,
}

impl Wakers {
    /// The number of futures that wait.
    pub fn len(&self) -> usize {
        self.entries.len() - self.vacant.len()
    }

    /// Whether no future waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn entry_of(&mut self, ticket: &Ticket) -> Option<&mut Entry> {
        let place = ticket.0?;
        let entry = self.entries.get_mut(place.index)?.as_mut();
        entry.filter(|entry| entry.number == place.number)
    }

    /// Whether the ticket's future is on the list with a waker that does the same.
    pub fn has(&mut self, ticket: &Ticket, waker: &Waker) -> bool {
        let entry = self.entry_of(ticket);
        entry.is_some_and(|entry| entry.waker.will_wake(waker))
    }

    /// Puts a future on the list, until `until` is reached; or changes its waker, and returns the
    /// one that it had. The caller drops that one without the lock.
    pub fn register(&mut self, ticket: &mut Ticket, until: u64, waker: Waker) -> Option<Waker> {
        if let Some(entry) = self.entry_of(ticket) {
            return Some(std::mem::replace(&mut entry.waker, waker));
        }
        self.registered += 1;
        let number = self.registered;
        let entry = Some(Entry {
            number,
            until,
            waker,
        });
        let index = match self.vacant.pop() {
            Some(index) => {
                self.entries[index] = entry;
                index
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        };
        ticket.0 = Some(Place { index, number });
        None
    }

    /// Takes a future off the list. The caller drops the waker without the lock.
    pub fn remove(&mut self, ticket: &mut Ticket) -> Option<Waker> {
        self.entry_of(ticket)?;
        let place = ticket.0.take()?;
        let entry = self.entries[place.index].take();
        self.vacant.push(place.index);
        self.forget_if_empty();
        entry.map(|entry| entry.waker)
    }

    /// Takes off the list all that wait for `reached` or less.
    pub fn take_up_to(&mut self, reached: u64) -> Vec<Waker> {
        let mut taken = Vec::new();
        for (index, entry) in self.entries.iter_mut().enumerate() {
            if let Some(entry) = entry.take_if(|entry| entry.until <= reached) {
                taken.push(entry.waker);
                self.vacant.push(index);
            }
        }
        self.forget_if_empty();
        taken
    }

    /// Takes all off the list.
    pub fn take_all(&mut self) -> Vec<Waker> {
        self.take_up_to(u64::MAX)
    }

    /// Numbers are never given twice, so a ticket of before leads nowhere.
    fn forget_if_empty(&mut self) {
        if self.is_empty() {
            self.entries.clear();
            self.vacant.clear();
        }
    }
}

/// The place at which one future waits for one result.
#[derive(Debug)]
pub struct Promise<T>(Mutex<Stage<T>>);

#[derive(Debug)]
enum Stage<T> {
    Open(Option<Waker>),
    Kept(T),
    /// The result was taken, or nobody wants it.
    Over,
}

impl<T> Default for Promise<T> {
    fn default() -> Promise<T> {
        Promise(Mutex::new(Stage::Open(None)))
    }
}

impl<T> Promise<T> {
    /// Puts the result down and wakes the future. If nobody wants it, it comes back.
    pub fn keep(&self, result: T) -> Option<T> {
        match self.put(result) {
            Ok(waker) => {
                wake(waker);
                None
            }
            Err(result) => Some(result),
        }
    }

    /// Puts the result down, and returns the waker of the future that waits for it, if one does:
    /// the caller wakes it soon. A future that comes from now on finds the result.
    ///
    /// # Errors
    /// Nobody wants the result, and it comes back.
    pub fn put(&self, result: T) -> Result<Option<Waker>, T> {
        let mut stage = self.0.lock();
        match &mut *stage {
            Stage::Open(waker) => {
                let waker = waker.take();
                *stage = Stage::Kept(result);
                Ok(waker)
            }
            Stage::Kept(_) | Stage::Over => Err(result),
        }
    }

    /// The result, if it is there; if not, the future is woken when it is. Once it was taken, or
    /// given up, there is none.
    pub fn poll(&self, waker: &Waker) -> Option<T> {
        if let Some(answer) = self.look(|kept| kept.will_wake(waker)) {
            return answer;
        }
        let own = waker.clone();
        let mut stage = self.0.lock();
        match &mut *stage {
            Stage::Open(kept) => {
                let before = kept.replace(own);
                drop(stage);
                drop(before);
                None
            }
            // It came meanwhile.
            Stage::Kept(_) | Stage::Over => {
                drop(stage);
                self.look(|_| true).flatten()
            }
        }
    }

    /// The result if it is there. `None` if the future has to register its waker.
    fn look(&self, is_registered: impl Fn(&Waker) -> bool) -> Option<Option<T>> {
        let mut stage = self.0.lock();
        match &*stage {
            Stage::Open(Some(kept)) if is_registered(kept) => Some(None),
            Stage::Open(_) => None,
            Stage::Kept(_) | Stage::Over => match std::mem::replace(&mut *stage, Stage::Over) {
                Stage::Kept(result) => Some(Some(result)),
                Stage::Open(_) | Stage::Over => Some(None),
            },
        }
    }

    /// Notes that nobody wants the result any more.
    pub fn give_up(&self) {
        // What it had is dropped without the lock.
        let before = std::mem::replace(&mut *self.0.lock(), Stage::Over);
        drop(before);
    }

    /// Whether nobody wants the result.
    pub fn is_over(&self) -> bool {
        matches!(*self.0.lock(), Stage::Over)
    }
}

#[cfg(all(test, evendb_loom))]
mod models;
#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod tests;
