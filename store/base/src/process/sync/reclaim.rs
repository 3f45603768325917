#![expect(unsafe_code, reason = "counted references out of a pinned pointer")]
//! Reclaims memory when no reader holds a pin that may see it, and has the one cell through which
//! readers enter the store's structures.
//!
//! [`ArcCell`] holds an `Arc<T>` that is replaced, never edited. A reader pins and loads a plain
//! reference (wait-free: one atomic load). A reader that needs the value for longer than its pin
//! takes a counted reference ([`ArcCell::load_full`]). Replacing hands the old `Arc` to a graveyard
//! once no pin can see it. A worker empties the graveyard ([`collect`]), so no reader ever runs a
//! large destructor.
//!
//! Invariant: the cell owns one strong count of its current value; a replaced value keeps that
//! count until every pin of the moment of replacement is gone.

use super::Arc;
use super::atomic::AtomicPtr;
use crate::sync::atomic::Ordering;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

#[cfg(not(any(evendb_loom, evendb_shuttle)))]
pub use crossbeam_epoch::{Guard, pin};

#[cfg(all(evendb_shuttle, not(evendb_loom)))]
pub use super::model_reclaim::{Guard, collect, pin};

/// In a loom model nothing is reclaimed: models are about order, not about memory.
#[cfg(evendb_loom)]
pub struct Guard;

#[cfg(evendb_loom)]
pub fn pin() -> Guard {
    Guard
}

pub(super) type Grave = Arc<dyn Send + Sync>;

#[cfg(not(any(evendb_loom, evendb_shuttle)))]
static GRAVEYARD: crossbeam_queue::SegQueue<Grave> = crossbeam_queue::SegQueue::new();

/// In a loom model there is nothing to drop.
#[cfg(evendb_loom)]
pub fn collect() {}

/// Drops all objects that no pin can see any more. One turn destroys a bounded number of objects,
/// and the object for which puts wait may be behind a hundred thousand others. Workers call it
/// between jobs, and so does close.
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
pub fn collect() {
    // A flush moves this thread's bag to the global queue, advances the era of pins if it can, and
    // destroys some of the objects that are two eras old, the oldest first. So when this mark is
    // destroyed, everything that was retired before it is destroyed.
    let mark = std::sync::Arc::new(());
    let own = mark.clone();
    // SAFETY: giving a counted reference back is safe on any thread, at any time.
    unsafe { pin().defer_unchecked(move || drop(own)) };
    let mut in_vain = 0;
    for _ in 0..TURNS_MAX {
        let before = destroyed();
        pin().flush();
        in_vain = if destroyed() == before {
            in_vain + 1
        } else {
            0
        };
        if in_vain == TURNS_IN_VAIN || std::sync::Arc::strong_count(&mark) == 1 {
            break;
        }
        // The thread that holds the pin may be waiting for this processor.
        if in_vain > 0 {
            std::thread::yield_now();
        }
    }
    while let Some(grave) = GRAVEYARD.pop() {
        drop(grave);
    }
}

/// After this many turns that destroyed none of our objects, the rest is pinned. Three turns are
/// enough to make an object old, but more are needed here: each thread that has ended left a bag in
/// the queue, usually an empty one, and a turn takes eight bags.
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
const TURNS_IN_VAIN: u32 = 64;
/// Enough for two million objects. A limit is needed because other threads may retire objects as
/// fast as this one destroys them.
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
const TURNS_MAX: u32 = 4096;

#[cfg(not(any(evendb_loom, evendb_shuttle)))]
std::thread_local! {
    /// The number of retired objects that this thread has destroyed.
    static DESTROYED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(not(any(evendb_loom, evendb_shuttle)))]
fn destroyed() -> u64 {
    DESTROYED.with(std::cell::Cell::get)
}

/// Called by a thread that destroys an object. A thread that is ending counts no more.
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
fn note_destroyed() {
    let _ = DESTROYED.try_with(|destroyed| destroyed.set(destroyed.get() + 1));
}

/// Runs `destroy` after every pin of this moment is gone, on any thread. Only for short work, such
/// as one `free`; anything larger goes into the graveyard as an `Arc`.
///
/// # Safety
/// The values that `destroy` owns must be safe to destroy on any thread, at any later time.
#[cfg(not(evendb_loom))]
pub unsafe fn defer<F: FnOnce()>(guard: &Guard, destroy: F) {
    #[cfg(not(evendb_shuttle))]
    // SAFETY: the caller's promise.
    unsafe {
        guard.defer_unchecked(move || {
            note_destroyed();
            destroy();
        })
    }
    #[cfg(evendb_shuttle)]
    // SAFETY: the caller's promise.
    unsafe {
        super::model_reclaim::defer(guard, destroy)
    }
}

/// In a loom model deferred destruction never comes.
///
/// # Safety
/// None needed; the signature is the one of the other builds.
#[cfg(evendb_loom)]
pub unsafe fn defer<F: FnOnce()>(_guard: &Guard, destroy: F) {
    std::mem::forget(destroy);
}

/// Keeps `value` until every pin of this moment is gone; a worker drops it.
pub fn retire(guard: &Guard, value: Grave) {
    #[cfg(not(any(evendb_loom, evendb_shuttle)))]
    guard.defer(move || {
        note_destroyed();
        GRAVEYARD.push(value);
    });
    #[cfg(all(evendb_shuttle, not(evendb_loom)))]
    // SAFETY: the value is Send + Sync and 'static; burying it is safe on any thread.
    unsafe {
        super::model_reclaim::defer(guard, move || super::model_reclaim::bury(value));
    }
    #[cfg(evendb_loom)]
    {
        let _ = guard;
        std::mem::forget(value);
    }
}

/// An `Arc` that is replaced atomically and read under a pin.
pub struct ArcCell<T: Send + Sync + 'static> {
    /// From `Arc::into_raw`; the cell owns one strong count.
    pointer: AtomicPtr<T>,
}

impl<T: Send + Sync + 'static> ArcCell<T> {
    /// A cell with a first value.
    pub fn new(value: Arc<T>) -> Self {
        ArcCell {
            pointer: AtomicPtr::new(Arc::into_raw(value).cast_mut()),
        }
    }

    /// The current value, as long as the pin lasts.
    #[inline]
    pub fn load<'g>(&'g self, _guard: &'g Guard) -> Pinned<'g, T> {
        // Pairs with the Release of `replace`: the value's contents are visible.
        Pinned {
            pointer: self.pointer.load(Ordering::Acquire),
            pin: PhantomData,
        }
    }

    /// A counted reference to the current value, which outlives the pin.
    pub fn load_arc(&self, guard: &Guard) -> Arc<T> {
        self.load(guard).counted()
    }

    /// As [`load_arc`](Self::load_arc), with a pin of its own.
    pub fn load_full(&self) -> Arc<T> {
        self.load_arc(&pin())
    }

    /// Whether `value` is the current one.
    pub fn is(&self, value: &T) -> bool {
        std::ptr::eq(self.pointer.load(Ordering::Acquire), value)
    }

    /// Replaces the value. Callers serialize replacements (latch or root mutex).
    pub fn replace(&self, value: Arc<T>) {
        let guard = pin();
        let old = self
            .pointer
            .swap(Arc::into_raw(value).cast_mut(), Ordering::AcqRel);
        // SAFETY: the cell's count of the old value passes to this Arc.
        retire(&guard, unsafe { Arc::from_raw(old) });
        // Flushed out of this thread's own bag: this thread may not come by again for long (a put
        // that waits for room, an idle thread), and files wait for the values in it.
        #[cfg(not(any(evendb_loom, evendb_shuttle)))]
        guard.flush();
    }
}

/// The value that a cell held when it was loaded. Only [`ArcCell::load`] makes one, so it is always
/// the inside of a live `Arc`.
pub struct Pinned<'g, T> {
    /// The pointer from `Arc::into_raw`. A reference in its place could not become an `Arc`,
    /// because a reference may not free its value.
    pointer: *const T,
    pin: PhantomData<&'g T>,
}

impl<T> Clone for Pinned<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Pinned<'_, T> {}

impl<'g, T> Pinned<'g, T> {
    /// The value, as long as the pin lasts.
    #[inline]
    pub fn get(self) -> &'g T {
        // SAFETY: the pointer came from `Arc::into_raw`; its count is released only after every
        // pin that could have loaded it is gone, and such a pin lives as long as `'g`.
        unsafe { &*self.pointer }
    }

    /// A counted reference, which outlives the pin.
    pub fn counted(self) -> Arc<T> {
        // SAFETY: the pointer came from `Arc::into_raw` by way of a cell. While its pin lasts the
        // count cannot reach zero, so it may be raised. The original count stays with the cell.
        let owned = ManuallyDrop::new(unsafe { Arc::from_raw(self.pointer) });
        Arc::clone(&owned)
    }
}

impl<T> std::ops::Deref for Pinned<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.get()
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

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
    use crate::sync::thread;

    /// Reports its drop, and then turns its number into garbage.
    struct Tracked {
        number: AtomicU64,
        alive: Arc<AtomicUsize>,
    }

    impl Tracked {
        fn new(number: u64, alive: &Arc<AtomicUsize>) -> Arc<Tracked> {
            alive.fetch_add(1, Ordering::SeqCst);
            Arc::new(Tracked {
                number: AtomicU64::new(number),
                alive: alive.clone(),
            })
        }

        fn number(&self) -> u64 {
            self.number.load(Ordering::Relaxed)
        }
    }

    impl Drop for Tracked {
        fn drop(&mut self) {
            self.number.store(u64::MAX, Ordering::Relaxed);
            self.alive.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Collects on this and other threads often enough for the era to advance several times.
    fn collect_much() {
        for _ in 0..50 {
            thread::spawn(collect).join().unwrap();
            collect();
        }
    }

    fn collect_until(done: impl Fn() -> bool) {
        while !done() {
            collect();
            thread::yield_now();
        }
    }

    #[test]
    fn a_replaced_value_stays_for_the_pins_of_that_moment_and_goes_after_them() {
        let alive = Arc::new(AtomicUsize::new(0));
        let cell = ArcCell::new(Tracked::new(1, &alive));
        let guard = pin();
        let first = cell.load(&guard);
        assert!(cell.is(first.get()));
        cell.replace(Tracked::new(2, &alive));
        assert!(!cell.is(first.get()));
        assert_eq!(cell.load(&guard).number(), 2);
        collect_much();
        assert_eq!((first.number(), alive.load(Ordering::SeqCst)), (1, 2));
        drop(guard);
        collect_until(|| alive.load(Ordering::SeqCst) == 1);
        drop(cell);
        assert_eq!(alive.load(Ordering::SeqCst), 0, "the cell's own count");
    }

    #[test]
    fn a_counted_reference_outlives_pin_and_cell() {
        let alive = Arc::new(AtomicUsize::new(0));
        let cell = ArcCell::new(Tracked::new(1, &alive));
        let first = cell.load_full();
        cell.replace(Tracked::new(2, &alive));
        let second = cell.load_arc(&pin());
        drop(cell);
        collect_until(|| Arc::strong_count(&first) == 1);
        assert_eq!((first.number(), second.number()), (1, 2));
        assert_eq!(Arc::strong_count(&second), 1);
        drop((first, second));
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn deferred_work_runs_once_and_not_before_the_pin_ends() {
        let runs = Arc::new(AtomicUsize::new(0));
        let guard = pin();
        let counter = runs.clone();
        // SAFETY: an Arc of an atomic may be used and dropped on any thread.
        unsafe {
            defer(&pin(), move || {
                counter.fetch_add(1, Ordering::SeqCst);
            });
        }
        collect_much();
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        drop(guard);
        collect_until(|| runs.load(Ordering::SeqCst) > 0);
        collect_much();
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert_eq!(Arc::strong_count(&runs), 1);
    }

    /// When one call destroyed at most about 1,500 objects, this took 260 calls. In a database's
    /// upkeep 50 ms lie between two calls.
    #[test]
    fn a_long_queue_is_collected_in_few_calls() {
        const THINGS: usize = if cfg!(miri) { 1000 } else { 400_000 };
        let left = Arc::new(AtomicUsize::new(THINGS));
        let pinned = pin();
        thread::scope(|scope| {
            let left = &left;
            scope.spawn(move || {
                let guard = pin();
                for _ in 0..THINGS {
                    let left = left.clone();
                    // SAFETY: an Arc of an atomic may be used and dropped on any thread.
                    unsafe {
                        defer(&guard, move || {
                            left.fetch_sub(1, Ordering::SeqCst);
                        });
                    }
                }
            });
        });
        drop(pinned);
        // Some calls destroy nothing while threads of other tests are pinned.
        let mut calls = 0;
        while left.load(Ordering::SeqCst) > 0 {
            collect();
            calls += 1;
            thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(calls < 100, "{calls} calls");
    }

    #[test]
    fn readers_never_see_a_dropped_value_nor_an_older_one_again() {
        const VALUES: u64 = if cfg!(miri) { 50 } else { 20_000 };
        let alive = Arc::new(AtomicUsize::new(0));
        let cell = Arc::new(ArcCell::new(Tracked::new(0, &alive)));
        let stop = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = (0..3)
            .map(|reader| {
                let (cell, stop) = (cell.clone(), stop.clone());
                thread::spawn(move || {
                    let mut last = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let guard = pin();
                        let value = cell.load(&guard);
                        let counted = (reader == 0).then(|| cell.load_arc(&guard));
                        thread::yield_now();
                        assert!((last..=VALUES).contains(&value.number()));
                        last = value.number();
                        drop(guard);
                        if let Some(counted) = counted {
                            assert!((last..=VALUES).contains(&counted.number()));
                            last = counted.number();
                        }
                    }
                })
            })
            .collect();
        for number in 1..=VALUES {
            cell.replace(Tracked::new(number, &alive));
            if number % 64 == 0 {
                collect();
            }
        }
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
        collect_until(|| alive.load(Ordering::SeqCst) == 1);
    }
}
