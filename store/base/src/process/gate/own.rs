//! The state of one thread: which stripe it counts on, and the gates that it is inside of.

use super::{Gate, STRIPES};
use std::cell::{Cell, RefCell};
// The standard library's atomics, which models do not replace: any distribution of threads over
// stripes is right.
use std::sync::atomic::{AtomicUsize, Ordering};

static NEXT: AtomicUsize = AtomicUsize::new(0);

std::thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
    /// The gates that the thread is inside, each as often as the thread has entered. They are
    /// only compared.
    static INSIDE: RefCell<Vec<*const Gate>> = const { RefCell::new(Vec::new()) };
}

#[inline]
pub(super) fn stripe() -> usize {
    let known = STRIPE.with(Cell::get);
    match known {
        usize::MAX => new_stripe(),
        _ => known,
    }
}

#[cold]
fn new_stripe() -> usize {
    let stripe = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
    STRIPE.with(|own| own.set(stripe));
    stripe
}

// A thread that is being torn down may still call. It is then not known to be inside. That
// matters only to code of the application that this call runs.

#[inline]
pub(super) fn push(gate: *const Gate) {
    let _ = INSIDE.try_with(|inside| inside.borrow_mut().push(gate));
}

#[inline]
pub(super) fn pop(gate: *const Gate) {
    let _ = INSIDE.try_with(|inside| {
        let mut inside = inside.borrow_mut();
        if let Some(at) = inside.iter().rposition(|own| std::ptr::eq(*own, gate)) {
            inside.remove(at);
        }
    });
}

pub(super) fn has(gate: *const Gate) -> bool {
    let has = |inside: &RefCell<Vec<*const Gate>>| {
        inside.borrow().iter().any(|own| std::ptr::eq(*own, gate))
    };
    INSIDE.try_with(has).unwrap_or(false)
}
