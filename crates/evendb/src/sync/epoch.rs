#![expect(unsafe_code, reason = "counted references out of a pinned pointer")]
//! Epoch-based reclamation and the one cell through which readers enter the store's structures.
//!
//! [`ArcCell`] holds an `Arc<T>` that is replaced, never edited. A reader pins and loads a plain
//! reference (wait-free: one atomic load); one that must outlive its pin takes a counted reference
//! ([`ArcCell::load_full`]). Replacing hands the old `Arc` to a graveyard once no pin can see it;
//! a worker empties the graveyard ([`collect`]), so no reader ever runs a large destructor.
//!
//! Invariant: the cell owns one strong count of its current value; a replaced value keeps that
//! count until every pin of the moment of replacement is gone.

use super::Arc;
use super::atomic::{AtomicPtr, Ordering};

#[cfg(not(evendb_loom))]
pub(crate) use crossbeam_epoch::{Guard, pin};

/// In a loom model nothing is reclaimed: models are about order, not about memory.
#[cfg(evendb_loom)]
pub(crate) struct Guard;

#[cfg(evendb_loom)]
pub(crate) fn pin() -> Guard {
    Guard
}

type Grave = Arc<dyn Send + Sync>;

#[cfg(not(evendb_loom))]
static GRAVEYARD: crossbeam_queue::SegQueue<Grave> = crossbeam_queue::SegQueue::new();

/// Drops what no pin can see any more. Called by workers between jobs, and by close.
#[cfg(not(evendb_loom))]
pub(crate) fn collect() {
    // Flushing moves this thread's bag to the global queue and advances the epoch if it can.
    pin().flush();
    while let Some(grave) = GRAVEYARD.pop() {
        drop(grave);
    }
}

/// Runs `destroy` after every pin of this moment is gone, on any thread. Only for work that is
/// short, such as one `free`; anything larger goes into the graveyard as an `Arc`.
///
/// # Safety
/// What `destroy` owns must be safe to destroy on any thread, at any later time.
#[cfg(not(evendb_loom))]
pub(crate) unsafe fn defer<F: FnOnce()>(guard: &Guard, destroy: F) {
    // SAFETY: passed on to the caller.
    unsafe { guard.defer_unchecked(destroy) }
}

/// In a loom model deferred destruction never comes.
///
/// # Safety
/// None needed; the signature is that of the real one.
#[cfg(evendb_loom)]
pub(crate) unsafe fn defer<F: FnOnce()>(_guard: &Guard, destroy: F) {
    std::mem::forget(destroy);
}

/// Keeps `value` until every pin of this moment is gone; a worker drops it.
pub(crate) fn retire(guard: &Guard, value: Grave) {
    #[cfg(not(evendb_loom))]
    // SAFETY: the value is Send + Sync and 'static; pushing it to a queue is safe on any thread.
    unsafe {
        guard.defer_unchecked(move || GRAVEYARD.push(value));
    }
    #[cfg(evendb_loom)]
    {
        let _ = guard;
        std::mem::forget(value);
    }
}

/// An `Arc` that is replaced atomically and read under a pin.
pub(crate) struct ArcCell<T: Send + Sync + 'static> {
    /// From `Arc::into_raw`; the cell owns one strong count.
    pointer: AtomicPtr<T>,
}

impl<T: Send + Sync + 'static> ArcCell<T> {
    /// A cell with a first value.
    pub(crate) fn new(value: Arc<T>) -> Self {
        ArcCell {
            pointer: AtomicPtr::new(Arc::into_raw(value).cast_mut()),
        }
    }

    /// The current value, for as long as the pin lasts.
    #[inline]
    pub(crate) fn load<'g>(&'g self, _guard: &'g Guard) -> Pinned<'g, T> {
        // Pairs with the Release of `replace`: the value's contents are visible.
        let pointer = self.pointer.load(Ordering::Acquire);
        // SAFETY: the pointer came from `Arc::into_raw`; its count is released only after every
        // pin that could have loaded it is gone, and `_guard` is such a pin.
        Pinned(unsafe { &*pointer })
    }

    /// A counted reference to the current value, which outlives the pin.
    pub(crate) fn load_arc(&self, guard: &Guard) -> Arc<T> {
        self.load(guard).counted()
    }

    /// The same, pinning for itself.
    pub(crate) fn load_full(&self) -> Arc<T> {
        self.load_arc(&pin())
    }

    /// Whether `value` is the current one.
    pub(crate) fn is(&self, value: &T) -> bool {
        std::ptr::eq(self.pointer.load(Ordering::Acquire), value)
    }

    /// Replaces the value. Callers serialize replacements (latch or root mutex).
    pub(crate) fn replace(&self, value: Arc<T>) {
        let guard = pin();
        let old = self
            .pointer
            .swap(Arc::into_raw(value).cast_mut(), Ordering::AcqRel);
        // SAFETY: the cell's count of the old value passes to this Arc.
        retire(&guard, unsafe { Arc::from_raw(old) });
    }
}

/// What a cell held when it was loaded. Only [`ArcCell::load`] makes one, so that it is always
/// the inside of a live `Arc`.
pub(crate) struct Pinned<'g, T>(&'g T);

impl<T> Clone for Pinned<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Pinned<'_, T> {}

impl<'g, T> Pinned<'g, T> {
    /// The value, for as long as the pin lasts.
    #[inline]
    pub(crate) fn get(self) -> &'g T {
        self.0
    }

    /// A counted reference, which outlives the pin.
    pub(crate) fn counted(self) -> Arc<T> {
        let pointer = std::ptr::from_ref(self.0);
        // SAFETY: the reference came from `Arc::into_raw` by way of a cell, and while its pin
        // lasts the count cannot reach zero, so it may be raised.
        unsafe { Arc::increment_strong_count(pointer) };
        // SAFETY: the count just added is the one this Arc owns.
        unsafe { Arc::from_raw(pointer) }
    }
}

impl<T> std::ops::Deref for Pinned<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.0
    }
}

impl<T: Send + Sync + 'static> Drop for ArcCell<T> {
    fn drop(&mut self) {
        let pointer = self.pointer.load(Ordering::Acquire);
        // SAFETY: the cell owns this count, and with `&mut self` nobody is loading.
        drop(unsafe { Arc::from_raw(pointer) });
    }
}

impl<T: Send + Sync + 'static> std::fmt::Debug for ArcCell<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ArcCell")
    }
}
