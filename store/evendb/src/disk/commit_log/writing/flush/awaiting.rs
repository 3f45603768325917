//! Futures that wait for a sync hold no thread: each leaves its waker in a list, and one thread of
//! the database, the **syncer**, leads for all of them while no blocked thread does.
//!
//! ```text
//!   future   looks, registers, looks again    all under the sync mutex: no wake-up is lost
//!      '--> nobody attends: the caller calls the syncer     (poll_durable: Unattended)
//!   syncer   wakes what is durable or failed --> some wait, nobody leads: leads
//!      ^          |--> somebody leads: waits for the end of that        |
//!      '----------'--> none waits: waits a while, and goes  <-----------'
//! ```
//! Only the syncer wakes futures, and the thread that closes the log, when the syncer is gone:
//! wakers are code of the application, and a thread that syncs for others, or that moves the tail,
//! may hold locks. So whatever raises `durable` or fails the log signals the syncer.
//!
//! A future counts as a writer of the group that is formed next, as a blocked thread does; the
//! syncer does not count itself.
//!
//! Thread safety: see the module above. Not here: which thread is the syncer, and when it goes.

use super::{CommitLog, Error, Lsn, SyncState};
use crate::sync::MutexGuard;
use evendb_base::wakers::{Ticket, wake};
use std::task::Waker;
use std::time::Duration;

/// The answer to a future that asks whether its record is durable.
pub(crate) enum Awaited {
    Ready(Result<(), Error>),
    /// It is registered, and the syncer knows.
    Attended,
    /// It is registered, and the caller must call the syncer.
    Unattended,
}

/// The syncer's presence; ends when dropped. One that unwinds wakes all futures: the log has
/// failed, which each of them will see.
struct Attending<'l> {
    log: &'l CommitLog,
    unwinding: bool,
}

impl Drop for Attending<'_> {
    fn drop(&mut self) {
        if self.unwinding {
            self.log.syncing.state.lock().attended = false;
            self.log.wake_futures();
        }
    }
}

impl CommitLog {
    /// Whether everything below `lsn`, which has been appended, is durable. If not, the future of
    /// `ticket` is woken when it is, or when the log has failed. Waits for nothing.
    pub(crate) fn poll_durable(&self, lsn: Lsn, ticket: &mut Ticket, waker: &Waker) -> Awaited {
        if self.durable() >= lsn {
            return Awaited::Ready(Ok(()));
        }
        let mut state = self.syncing.state.lock();
        if let Some(answer) = self.answer(&state, lsn) {
            return Awaited::Ready(answer);
        }
        if state.futures.has(ticket, waker) {
            return Awaited::Attended;
        }
        drop(state);
        let own = waker.clone();
        let mut state = self.syncing.state.lock();
        if let Some(answer) = self.answer(&state, lsn) {
            drop(state);
            return Awaited::Ready(answer);
        }
        let before = state.futures.register(ticket, lsn.0, own);
        let attended = state.attended;
        // While a thread leads, its end is the signal.
        match state.leading {
            true => drop(state),
            false => self.signal_syncer(state),
        }
        drop(before);
        match attended {
            true => Awaited::Attended,
            false => Awaited::Unattended,
        }
    }

    /// The future of `ticket` waits no longer.
    pub(crate) fn forget(&self, ticket: &mut Ticket) {
        let mut state = self.syncing.state.lock();
        let waker = state.futures.remove(ticket);
        drop(state);
        drop(waker);
    }

    /// Signals the syncer if futures wait and it waits for a signal.
    pub(super) fn signal_syncer(&self, state: MutexGuard<'_, SyncState>) {
        let signals = state.syncer_waits && !state.futures.is_empty();
        drop(state);
        if signals {
            self.syncing.syncer.notify_one();
        }
    }

    /// The syncer's work: syncs for futures and wakes them. Returns when none has waited for this
    /// time, or when the log is about to end; at once if another thread does this work.
    pub(crate) fn attend(&self, patience: Duration) {
        let mut state = self.syncing.state.lock();
        // Another one that attends leaves only when no future waits, under this lock.
        if std::mem::replace(&mut state.attended, true) {
            return;
        }
        // The guard below takes the lock.
        drop(state);
        let mut attending = Attending {
            log: self,
            unwinding: true,
        };
        let mut state = self.syncing.state.lock();
        loop {
            let woken = match state.error {
                None => {
                    let durable = self.durable().0;
                    state.futures.take_up_to(durable)
                }
                Some(_) => state.futures.take_all(),
            };
            if !woken.is_empty() {
                drop(state);
                wake(woken);
                state = self.syncing.state.lock();
                continue;
            }
            if state.ended {
                break;
            }
            if state.futures.is_empty() || state.leading {
                if self.rest(&mut state, patience) {
                    break;
                }
                continue;
            }
            state.leading = true;
            state.leader_attends = true;
            drop(state);
            self.lead();
            self.due().wake();
            state = self.syncing.state.lock();
        }
        // Under the lock under which it found that none waits: a future that comes now calls.
        state.attended = false;
        attending.unwinding = false;
    }

    /// The syncer waits for a signal. Returns true if none came, and it has nothing to do.
    fn rest(&self, state: &mut MutexGuard<'_, SyncState>, patience: Duration) -> bool {
        let is_idle = state.futures.is_empty();
        state.syncer_waits = true;
        let timed_out = match is_idle {
            true => self.syncing.syncer.wait_for(state, patience).timed_out(),
            false => {
                self.syncing.syncer.wait(state);
                false
            }
        };
        state.syncer_waits = false;
        timed_out && state.futures.is_empty()
    }

    /// The syncer is to go: the log is about to end, which then wakes the futures that are left.
    pub(crate) fn end_attending(&self) {
        let mut state = self.syncing.state.lock();
        state.ended = true;
        drop(state);
        self.syncing.syncer.notify_one();
    }

    /// Wakes all futures that wait: the log has ended.
    pub(super) fn wake_futures(&self) {
        let woken = self.syncing.state.lock().futures.take_all();
        wake(woken);
    }
}
