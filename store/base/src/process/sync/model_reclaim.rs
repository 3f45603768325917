#![expect(
    unsafe_code,
    reason = "deferred work outlives the borrow checker's view"
)]
//! Reclamation under shuttle: as eager as is sound, and the same in every run of a schedule.
//!
//! All tasks of a shuttle execution share one thread, so `crossbeam-epoch` would count their pins
//! together and free almost nothing. Here every pin has a number, and deferred work carries the
//! number of the next pin. It runs at the moment at which the last older pin goes. So a reader that
//! holds a pointer without a pin meets freed memory as soon as a schedule allows.
//!
//! There is one state per thread, and so per execution: tests on other threads do not mix with it.

use super::reclaim::Grave;
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

#[derive(Default)]
struct State {
    /// Number of the next pin.
    next: u64,
    /// Numbers of the pins in force.
    pins: BTreeSet<u64>,
    /// Work that waits for all pins below its number.
    deferred: VecDeque<(u64, Box<dyn FnOnce()>)>,
    graves: Vec<Grave>,
}

std::thread_local! {
    /// Never dropped: outside of an execution shuttle's objects must not be touched.
    static STATE: ManuallyDrop<RefCell<State>> = ManuallyDrop::default();
}

fn with_state<R>(work: impl FnOnce(&mut State) -> R) -> R {
    STATE.with(|state| work(&mut state.borrow_mut()))
}

/// A pin. While it lasts, work that was deferred after it was taken does not run.
pub struct Guard {
    number: u64,
    not_send: PhantomData<*const ()>,
}

pub fn pin() -> Guard {
    with_state(|state| {
        let number = state.next;
        state.next += 1;
        state.pins.insert(number);
        Guard {
            number,
            not_send: PhantomData,
        }
    })
}

impl Drop for Guard {
    fn drop(&mut self) {
        with_state(|state| state.pins.remove(&self.number));
        // After a failed check nothing more is freed: the execution has ended.
        while !std::thread::panicking()
            && let Some(work) = ready()
        {
            work();
        }
    }
}

/// The next piece of work that no pin holds back.
fn ready() -> Option<Box<dyn FnOnce()>> {
    with_state(|state| {
        let oldest = state.pins.first().copied().unwrap_or(u64::MAX);
        let &(number, _) = state.deferred.front()?;
        if number > oldest {
            return None;
        }
        Some(state.deferred.pop_front()?.1)
    })
}

/// # Safety
/// As for [`super::reclaim::defer`].
pub(super) unsafe fn defer<F: FnOnce()>(_guard: &Guard, destroy: F) {
    let boxed: Box<dyn FnOnce() + '_> = Box::new(destroy);
    // SAFETY: the caller promises that the closure's values may be destroyed at any later time.
    let boxed: Box<dyn FnOnce()> = unsafe { std::mem::transmute(boxed) };
    with_state(|state| {
        let number = state.next;
        state.deferred.push_back((number, boxed));
    });
}

/// Keeps a value for [`collect`].
pub(super) fn bury(grave: Grave) {
    with_state(|state| state.graves.push(grave));
}

/// Drops what no pin can see any more.
pub fn collect() {
    while let Some(grave) = with_state(|state| state.graves.pop()) {
        drop(grave);
    }
}

/// Forgets the state of a failed execution: its tasks are gone, and their pins are not.
pub fn reset() {
    with_state(|state| std::mem::forget(std::mem::take(state)));
}
