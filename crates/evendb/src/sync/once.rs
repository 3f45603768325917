#![expect(unsafe_code, reason = "counted references out of an atomic pointer")]
//! [`OnceArc`]: a cell that is set at most once, without anybody waiting for anybody.
//!
//! Unlike `OnceLock` no thread ever waits for another's initialization: whoever has computed a
//! value offers it, the first wins by compare-and-swap, the others take the winner's and drop
//! their own. Used where a get loads a block index or log index (protocols: "nobody waits for
//! another's I/O").

use super::Arc;
use super::atomic::{AtomicPtr, Ordering};
use std::marker::PhantomData;
use std::ptr;

/// Empty, then one `Arc<T>` for the rest of the cell's life.
pub(crate) struct OnceArc<T> {
    pointer: AtomicPtr<T>,
    owns: PhantomData<Arc<T>>,
}

impl<T> OnceArc<T> {
    pub(crate) fn new() -> Self {
        OnceArc {
            pointer: AtomicPtr::new(ptr::null_mut()),
            owns: PhantomData,
        }
    }

    /// The value, if it is set.
    pub(crate) fn get(&self) -> Option<Arc<T>> {
        // Pairs with the Release of `set`.
        let pointer = self.pointer.load(Ordering::Acquire);
        if pointer.is_null() {
            return None;
        }
        // SAFETY: a non-null pointer came from `Arc::into_raw` and stays owned by the cell until
        // it is dropped, which `&self` excludes; so the count may be raised.
        unsafe { Arc::increment_strong_count(pointer) };
        // SAFETY: the count just added belongs to this Arc.
        Some(unsafe { Arc::from_raw(pointer) })
    }

    /// A reference to the value, if it is set.
    pub(crate) fn peek(&self) -> Option<&T> {
        let pointer = self.pointer.load(Ordering::Acquire);
        // SAFETY: once set the pointer never changes while the cell lives.
        unsafe { pointer.as_ref() }
    }

    /// Offers `value`; returns the value that is in the cell afterwards.
    pub(crate) fn set(&self, value: Arc<T>) -> Arc<T> {
        let offered = Arc::into_raw(value.clone()).cast_mut();
        let result = self.pointer.compare_exchange(
            ptr::null_mut(),
            offered,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if result.is_ok() {
            return value;
        }
        // SAFETY: the offered count was not taken by the cell.
        drop(unsafe { Arc::from_raw(offered) });
        self.get()
            .expect("the cell is set once a compare-exchange with null has failed")
    }
}

impl<T> Drop for OnceArc<T> {
    fn drop(&mut self) {
        let pointer = self.pointer.load(Ordering::Acquire);
        if !pointer.is_null() {
            // SAFETY: the cell owns this count, and `&mut self` excludes readers.
            drop(unsafe { Arc::from_raw(pointer) });
        }
    }
}

// SAFETY: the cell hands out `Arc<T>` and `&T` and drops a T, like an `Arc<T>` itself.
unsafe impl<T: Send + Sync> Send for OnceArc<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for OnceArc<T> {}

#[cfg(all(test, evendb_loom))]
mod loom_tests {
    use super::*;
    use loom::thread;

    /// L8's second half: two threads load the same thing, a third looks.
    #[test]
    fn loom_concurrent_loads_agree() {
        loom::model(|| {
            let cell = Arc::new(OnceArc::new());
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
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_offer_stays_and_counts_balance() {
        let cell = OnceArc::new();
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
}
