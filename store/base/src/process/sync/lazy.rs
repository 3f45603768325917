#![expect(unsafe_code, reason = "counted references out of an atomic pointer")]
//! [`LazyArc`]: a cell for a value that can be loaded again. No thread waits for another.
//!
//! Empty at first. A thread that has loaded a value offers it. The first one wins by
//! compare-and-swap; the others take the winner's value and drop their own (protocols: "nobody
//! waits for another's I/O"). The cell may be cleared at any time, to save memory; a reader that
//! has taken a reference keeps its value.
//!
//! Invariant: the cell owns one strong count of its value. A cleared or replaced value keeps that
//! count until every pin of that moment is gone. So a reader may load the pointer and then raise
//! the count, under a pin of its own.

use super::atomic::AtomicPtr;
use super::{Arc, reclaim};
use crate::sync::atomic::Ordering;
use reclaim::Guard;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr;

/// Empty, or one `Arc<T>`; see the head of this file.
pub struct LazyArc<T: Send + Sync + 'static> {
    pointer: AtomicPtr<T>,
    /// Lets the cell be sent and shared where an `Arc<T>` may be.
    owns: PhantomData<Arc<T>>,
}

impl<T: Send + Sync + 'static> fmt::Debug for LazyArc<T> {
    /// Shows whether there is a value. The value itself may be anything, and may go meanwhile.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_set() { "set" } else { "empty" };
        f.debug_tuple("LazyArc").field(&state).finish()
    }
}

impl<T: Send + Sync + 'static> Default for LazyArc<T> {
    fn default() -> Self {
        LazyArc::new()
    }
}

impl<T: Send + Sync + 'static> LazyArc<T> {
    pub fn new() -> Self {
        LazyArc {
            pointer: AtomicPtr::new(ptr::null_mut()),
            owns: PhantomData,
        }
    }

    /// The value, if there is one now. Pins for a moment.
    pub fn get(&self) -> Option<Arc<T>> {
        let _guard = reclaim::pin();
        // Pairs with the Release of `set` and `replace`.
        let pointer = self.pointer.load(Ordering::Acquire);
        if pointer.is_null() {
            return None;
        }
        // SAFETY: a non-null pointer came from `Arc::into_raw`. Its count is given back only after
        // every pin that could have loaded it is gone, and `_guard` is such a pin. The count stays
        // with the cell.
        let owned = ManuallyDrop::new(unsafe { Arc::from_raw(pointer) });
        Some(Arc::clone(&owned))
    }

    /// The value, if there is one now, as long as the pin lasts. It writes to no memory that other
    /// threads read.
    pub fn peek<'g>(&'g self, _guard: &'g Guard) -> Option<&'g T> {
        // Pairs with the Release of `set` and `replace`.
        let pointer = self.pointer.load(Ordering::Acquire);
        // SAFETY: a non-null pointer came from `Arc::into_raw`. Its count is given back only after
        // every pin that could have loaded it is gone, and `_guard` is such a pin. The cell itself,
        // whose drop gives the count back at once, outlives the reference.
        unsafe { pointer.as_ref() }
    }

    /// Whether there is a value now.
    pub fn is_set(&self) -> bool {
        !self.pointer.load(Ordering::Relaxed).is_null()
    }

    /// Puts `value` into the cell if it is empty. Returns whether it was.
    pub fn offer(&self, value: &Arc<T>) -> bool {
        let offered = Arc::into_raw(value.clone()).cast_mut();
        let result = self.pointer.compare_exchange(
            ptr::null_mut(),
            offered,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if result.is_err() {
            // SAFETY: the offered count was not taken by the cell.
            drop(unsafe { Arc::from_raw(offered) });
        }
        result.is_ok()
    }

    /// Offers `value`. Returns the value that everybody should use: the one in the cell, or `value`
    /// itself if the cell was cleared meanwhile. So a caller that gets its own value back does not
    /// know whether the cell has it: [`offer`](Self::offer) tells.
    pub fn set(&self, value: Arc<T>) -> Arc<T> {
        match self.offer(&value) {
            true => value,
            false => self.get().unwrap_or(value),
        }
    }

    /// Empties the cell. Returns its value.
    pub fn clear(&self) -> Option<Arc<T>> {
        let guard = reclaim::pin();
        let old = self.pointer.swap(ptr::null_mut(), Ordering::AcqRel);
        if old.is_null() {
            return None;
        }
        // SAFETY: the swap took the cell's count out of the cell.
        let old = unsafe { Arc::from_raw(old) };
        // The cell's count stays until every pin of this moment is gone. The caller gets another
        // count.
        reclaim::retire(&guard, old.clone());
        // Flushed out of this thread's own bag, as in `ArcCell::replace`.
        #[cfg(not(any(evendb_loom, evendb_shuttle)))]
        guard.flush();
        Some(old)
    }

    /// Empties the cell for its only owner: no other thread can be reading, so the value is not
    /// kept for any reader.
    pub fn take(&mut self) -> Option<Arc<T>> {
        let old = self.pointer.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: the swap took the cell's count out of the cell, and `&mut self` excludes readers.
        (!old.is_null()).then(|| unsafe { Arc::from_raw(old) })
    }

    /// Replaces `old` by `new`, if the cell holds `old`. Returns whether it did.
    pub fn replace(&self, old: &Arc<T>, new: Arc<T>) -> bool {
        let guard = reclaim::pin();
        let offered = Arc::into_raw(new).cast_mut();
        let expected = Arc::as_ptr(old).cast_mut();
        // `old` is counted, so no other value can have its address.
        let result =
            self.pointer
                .compare_exchange(expected, offered, Ordering::AcqRel, Ordering::Relaxed);
        match result {
            // SAFETY: the exchange took the cell's count of the old value out of the cell.
            Ok(old) => reclaim::retire(&guard, unsafe { Arc::from_raw(old) }),
            // SAFETY: the offered count was not taken by the cell.
            Err(_) => drop(unsafe { Arc::from_raw(offered) }),
        }
        result.is_ok()
    }
}

impl<T: Send + Sync + 'static> Drop for LazyArc<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(all(test, evendb_loom))]
mod loom_tests {
    use super::*;
    use loom::thread;

    /// The second half of L8: two threads load the same thing, a third one looks.
    #[test]
    fn loom_concurrent_loads_agree() {
        loom::model(|| {
            let cell = Arc::new(LazyArc::new());
            let offer = |value: u32| {
                let cell = cell.clone();
                thread::spawn(move || *cell.set(Arc::new(value)))
            };
            let (a, b) = (offer(1), offer(2));
            let seen = cell.get().map(|value| *value);
            let (a, b) = (a.join().expect("no panic"), b.join().expect("no panic"));
            assert_eq!(a, b, "both have the winner's");
            assert!(seen.is_none_or(|seen| seen == a), "nobody saw the loser's");
            assert_eq!(cell.get().map(|value| *value), Some(a));
        });
    }

    /// A value is loaded, looked at, replaced and cleared at the same time. A thread that offers
    /// gets a value, and a thread that looks sees a whole value or none.
    #[test]
    fn loom_a_cleared_cell_fails_nobody() {
        loom::model(|| {
            let cell = Arc::new(LazyArc::new());
            let first = cell.set(Arc::new([1, 1]));
            let evictor = {
                let cell = cell.clone();
                thread::spawn(move || cell.clear().is_some())
            };
            let downgrader = {
                let cell = cell.clone();
                thread::spawn(move || cell.replace(&first, Arc::new([2, 2])))
            };
            let used = match cell.get() {
                Some(value) => value,
                None => cell.set(Arc::new([3, 3])),
            };
            assert_eq!(used[0], used[1]);
            let (cleared, replaced) = (evictor.join(), downgrader.join());
            assert!(cleared.expect("no panic") || !replaced.expect("no panic"));
            if let Some(left) = cell.get() {
                assert_eq!(left[0], left[1]);
                assert_ne!(left[0], 1, "the first was replaced or cleared");
            }
        });
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use crate::sync::thread;
    use std::sync::atomic::AtomicBool;

    fn collect_until(done: impl Fn() -> bool) {
        while !done() {
            reclaim::collect();
            thread::yield_now();
        }
    }

    #[test]
    fn the_first_offer_stays_and_counts_balance() {
        let cell = LazyArc::new();
        assert!(cell.get().is_none());
        let first = Arc::new(1);
        let second = Arc::new(2);
        assert_eq!(*cell.set(first.clone()), 1);
        assert_eq!(*cell.set(second.clone()), 1);
        assert_eq!(Arc::strong_count(&second), 1, "the loser's count came back");
        assert_eq!(Arc::strong_count(&first), 2);
        drop(cell);
        assert_eq!(Arc::strong_count(&first), 1);
    }

    #[test]
    fn what_is_peeked_at_stays_while_the_pin_lasts() {
        let cell = LazyArc::new();
        let pin = reclaim::pin();
        assert!(cell.peek(&pin).is_none());
        let value = Arc::new(vec![7; 100]);
        cell.set(value.clone());
        let seen = cell.peek(&pin).expect("it was set");
        cell.clear();
        for _ in 0..100 {
            reclaim::collect();
        }
        assert_eq!(Arc::strong_count(&value), 2, "the cell's count stays");
        assert!(seen.iter().all(|&byte| byte == 7) && cell.peek(&pin).is_none());
        drop(pin);
        collect_until(|| Arc::strong_count(&value) == 1);
    }

    #[test]
    fn what_is_cleared_or_replaced_is_given_back_after_its_readers() {
        let cell = LazyArc::new();
        let (first, second) = (Arc::new(1), Arc::new(2));
        cell.set(first.clone());
        assert!(!cell.replace(&second, Arc::new(3)), "not what is there");
        assert!(cell.replace(&first, second.clone()));
        assert_eq!(cell.get().as_deref(), Some(&2));
        assert_eq!(cell.clear().as_deref(), Some(&2));
        assert!(cell.clear().is_none() && !cell.is_set() && cell.get().is_none());
        collect_until(|| Arc::strong_count(&first) == 1 && Arc::strong_count(&second) == 1);
        assert_eq!(*cell.set(Arc::new(4)), 4, "it can be loaded again");
    }

    #[test]
    fn readers_and_evictors_do_not_disturb_each_other() {
        const ROUNDS: u32 = if cfg!(miri) { 10 } else { 20_000 };
        let cell = Arc::new(LazyArc::new());
        let stop = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = (0..2)
            .map(|reader| {
                let (cell, stop) = (cell.clone(), stop.clone());
                thread::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let value: Arc<Vec<u64>> = match cell.get() {
                            Some(value) => value,
                            None => cell.set(Arc::new(vec![reader; 100])),
                        };
                        assert!(value.iter().all(|&item| item == value[0]));
                        let pin = reclaim::pin();
                        if let Some(seen) = cell.peek(&pin) {
                            assert!(seen.iter().all(|&item| item == seen[0]));
                        }
                    }
                })
            })
            .collect();
        for _ in 0..ROUNDS {
            cell.clear();
            reclaim::collect();
        }
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().expect("no panic");
        }
    }
}
