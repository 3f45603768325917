//! The name of a keyspace, which a renaming changes while handles lend it.
//!
//! ```text
//! "a" -> "b" -> "next" -> ...        every name that it has had in this life, each once
//!         ^ current
//! ```
//! A name that was lent stays where it is as long as the keyspace's state: names are only added,
//! and the current one is an index among them. A keyspace that goes back and forth between two
//! names has two. A program that gives it ever new names keeps all of them, about 100 bytes each,
//! until the database is opened again.
//!
//! Thread safety: any thread reads; one at a time renames, which holds the catalog's mutex.

use crate::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;

/// See the module.
pub(crate) struct Names {
    first: Name,
    current: AtomicUsize,
}

struct Name {
    text: String,
    next: OnceLock<Box<Name>>,
}

impl Name {
    fn new(text: String) -> Name {
        let next = OnceLock::new();
        Name { text, next }
    }
}

impl Names {
    pub(crate) fn new(name: String) -> Names {
        Names {
            first: Name::new(name),
            current: AtomicUsize::new(0),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Name> {
        std::iter::successors(Some(&self.first), |name| {
            name.next.get().map(|next| &**next)
        })
    }

    /// The name that it has now.
    pub(crate) fn current(&self) -> &str {
        // Pairs with the Release of `rename`: the name of this index is there.
        let current = self.current.load(Ordering::Acquire);
        let name = self.all().nth(current).unwrap_or(&self.first);
        &name.text
    }

    /// Gives it another name. The caller holds the catalog's mutex.
    pub(crate) fn rename(&self, name: &str) {
        let known = self.all().position(|known| known.text == name);
        let at = known.unwrap_or_else(|| {
            let mut last = (0, &self.first);
            while let Some(next) = last.1.next.get() {
                last = (last.0 + 1, next);
            }
            // Nobody else adds a name, so the place is free.
            let _ = last.1.next.set(Box::new(Name::new(name.to_owned())));
            last.0 + 1
        });
        self.current.store(at, Ordering::Release);
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        // One after the other: a drop of a chain would take stack for each.
        let mut next = self.first.next.take();
        while let Some(mut name) = next {
            next = name.next.take();
        }
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn names_that_were_lent_stay_and_each_is_kept_once() {
        let names = Names::new("a".to_owned());
        let lent = names.current();
        for round in 0..3 {
            names.rename("b");
            assert_eq!((lent, names.current()), ("a", "b"), "{round}");
            names.rename("a");
            assert_eq!(names.current(), "a");
        }
        assert_eq!(names.all().count(), 2);
    }

    #[test]
    fn a_long_chain_is_dropped_without_deep_calls() {
        let names = Names::new("first".to_owned());
        let mut last = &names.first;
        for number in 0..200_000 {
            last = last
                .next
                .get_or_init(|| Box::new(Name::new(format!("{number}"))));
        }
        drop(names);
    }
}
