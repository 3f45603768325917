//! Places of the caller into which an answer goes.

use super::error::{Failure, Result};
use super::handle::Slot;
use std::mem::MaybeUninit;

/// NULL, or memory for a `T` that can be written and need not be initialised.
#[repr(transparent)]
pub struct Place<'p, T>(Option<&'p mut MaybeUninit<T>>);

/// What a place holds when there is no answer.
pub trait Nothing {
    const NOTHING: Self;
}

impl<T> Nothing for *mut T {
    const NOTHING: *mut T = std::ptr::null_mut();
}

impl<T> Nothing for *const T {
    const NOTHING: *const T = std::ptr::null();
}

macro_rules! zero_is_nothing {
    ($($number:ty),*) => {
        $(impl Nothing for $number {
            const NOTHING: $number = 0;
        })*
    };
}

zero_is_nothing!(i32, u32, u64, usize);

#[cfg(test)]
impl<'p, T> Place<'p, T> {
    /// A place of a test.
    pub(crate) fn over(place: &'p mut MaybeUninit<T>) -> Place<'p, T> {
        Place(Some(place))
    }
}

impl<'p, T: Nothing> Place<'p, T> {
    /// The place, which holds nothing from now on.
    #[inline]
    pub(crate) fn cleared(mut self) -> Place<'p, T> {
        if let Some(place) = &mut self.0 {
            place.write(T::NOTHING);
        }
        self
    }

    #[inline]
    pub(crate) fn clear(self) {
        self.cleared();
    }

    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Refuses NULL, for an answer without which the call makes no sense.
    #[inline]
    pub(crate) fn needed(&self, name: &str) -> Result<()> {
        match self.0 {
            Some(_) => Ok(()),
            None => Err(Failure::argument(format!(
                "`{name}` is NULL, and the answer goes there"
            ))),
        }
    }

    /// Gives the answer, if it is wanted.
    #[inline]
    pub(crate) fn fill(self, answer: T) {
        if let Some(place) = self.0 {
            place.write(answer);
        }
    }
}

impl<T: Send> Place<'_, *mut Slot<T>> {
    /// Gives a handle of what `make` makes, if it is wanted.
    pub(crate) fn give(self, make: impl FnOnce() -> T) {
        if self.is_wanted() {
            self.fill(Slot::give(make()));
        }
    }
}
