//! The files of all containers that have runs, by number; and the gate between those who write runs
//! and the one who seals the container.
//!
//! ```text
//! number   0          1          2
//!          sealed     sealed     written to
//!          | run |x|  | run |    | run | hole |
//!            '- read only; shared with forks -'     removed when its last run has gone
//! ```
//! A sealed container is **thin** if less than half of it is live: its holes are not used again, so
//! jobs write its last runs anew, into the container that is written to, and it goes. So sealed
//! containers take at most twice the bytes of their runs, and each byte that is written for this
//! has freed one.
//!
//! Invariants: a file of a sealed container is never written to, and keeps its length. Only a file
//! whose last run has gone, by an edit that is durable and out of every view (I13), is given to the
//! reaper. Numbers only grow.
//!
//! Thread safety: any thread. The map is a leaf, held for memory only, because gets that open a
//! table look into it. The gate's mutex is held through the sealing, with its I/O. Not here: which
//! extents of the container that is written to are free ([`super::container`]).

use crate::files::in_container;
use crate::manifest::edit::Place;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard};
use evendb_storage::vfs::File;
use std::collections::BTreeMap;

/// One container.
struct Segment {
    file: Arc<dyn File>,
    /// Of a sealed one: the bytes of its runs.
    sealed: Option<u64>,
    /// Less than half of a sealed one is live. It stays so.
    thin: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Segments {
    known: Mutex<BTreeMap<u64, Segment>>,
    /// Numbers of sealed containers without runs.
    unneeded: Mutex<Vec<u64>>,
    /// Whether any container is thin, as the last look found it.
    any_thin: AtomicBool,
}

impl Segments {
    /// One container, which is written to.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn new(number: u64, file: Arc<dyn File>) -> Segments {
        let segments = Segments::default();
        segments.add(number, file);
        segments
    }

    /// Adds the container that is written to.
    pub(crate) fn add(&self, number: u64, file: Arc<dyn File>) {
        let own = Segment {
            file,
            sealed: None,
            thin: false,
        };
        self.known.lock().insert(number, own);
    }

    /// Adds a sealed container, with the bytes of its runs.
    pub(crate) fn add_sealed(&self, number: u64, file: Arc<dyn File>, bytes: u64) {
        let own = Segment {
            file,
            sealed: Some(bytes),
            thin: false,
        };
        self.known.lock().insert(number, own);
    }

    /// Nothing is written to the container any more, which has runs of this number of bytes.
    pub(super) fn seal(&self, number: u64, bytes: u64) {
        let mut known = self.known.lock();
        if let Some(segment) = known.get_mut(&number) {
            segment.sealed = Some(bytes);
        }
        self.drop_if_empty(&mut known, number);
    }

    /// A run of a sealed container has gone.
    pub(super) fn free(&self, number: u64, bytes: u64) {
        let mut known = self.known.lock();
        let sealed = known.get_mut(&number).and_then(|own| own.sealed.as_mut());
        debug_assert!(
            sealed.is_some(),
            "freed in container {number}, which is not"
        );
        if let Some(left) = sealed {
            debug_assert!(*left >= bytes, "freed more than there is");
            *left = left.saturating_sub(bytes);
        }
        self.drop_if_empty(&mut known, number);
    }

    fn drop_if_empty(&self, known: &mut BTreeMap<u64, Segment>, number: u64) {
        if known.get(&number).is_some_and(|own| own.sealed == Some(0)) {
            known.remove(&number);
            self.unneeded.lock().push(number);
        }
    }

    /// Looks which containers are thin; returns whether any is.
    pub(crate) fn look_for_thin(&self) -> bool {
        let known = self.known.lock();
        let sealed = known.iter().filter(|(_, own)| !own.thin);
        let sealed = sealed.filter_map(|(&number, own)| Some((number, own.sealed?, &own.file)));
        let looked: Vec<_> = sealed
            .map(|(at, live, file)| (at, live, file.clone()))
            .collect();
        drop(known);
        let is_thin = |(number, live, file): (u64, u64, Arc<dyn File>)| {
            let bytes = file.allocated_bytes().or_else(|_| file.len()).unwrap_or(0);
            (live.saturating_mul(2) < bytes).then_some(number)
        };
        let thin: Vec<u64> = looked.into_iter().filter_map(is_thin).collect();
        let mut known = self.known.lock();
        for number in thin {
            if let Some(own) = known.get_mut(&number) {
                own.thin = true;
            }
        }
        let any_thin = known.values().any(|own| own.thin);
        drop(known);
        self.any_thin.store(any_thin, Ordering::Relaxed);
        any_thin
    }

    /// Whether any container is thin, as the last look found it.
    pub(crate) fn has_thin(&self) -> bool {
        self.any_thin.load(Ordering::Relaxed)
    }

    /// Whether a table lies in a thin container.
    pub(crate) fn is_in_thin(&self, place: Place) -> bool {
        if !self.has_thin() {
            return false;
        }
        let Place::Extent { offset } = place else {
            return false;
        };
        let known = self.known.lock();
        known
            .get(&in_container(offset).0)
            .is_some_and(|own| own.thin)
    }

    /// The file of a container that has runs.
    pub(crate) fn file(&self, number: u64) -> Option<Arc<dyn File>> {
        let known = self.known.lock();
        known.get(&number).map(|own| own.file.clone())
    }

    /// The numbers of all containers.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.known.lock().keys().copied().collect()
    }

    /// The number of a container whose file nobody needs, once for each.
    pub(super) fn take_unneeded(&self) -> Option<u64> {
        self.unneeded.lock().pop()
    }

    /// Whether there is a file to remove.
    pub(super) fn has_unneeded(&self) -> bool {
        !self.unneeded.lock().is_empty()
    }
}

/// Keeps the container from being sealed while runs are written. Who writes may come in while
/// another one is inside, and also while one waits to seal: so nobody waits for oneself. Who is
/// going to write for long lets the one who waits to seal go first.
#[derive(Default)]
pub(super) struct Gate {
    inside: Mutex<Inside>,
    left: Condvar,
}

#[derive(Default)]
struct Inside {
    /// How often runs may be written now.
    writers: usize,
    /// Threads that seal, or wait to.
    sealers: usize,
}

impl Gate {
    /// Waits while the container is being sealed.
    pub(super) fn enter(&self) -> Writing<'_> {
        self.inside.lock().writers += 1;
        Writing(self)
    }

    /// As [`enter`](Self::enter), and lets threads go first that wait to seal. Not for a thread
    /// that is inside already: they wait for it.
    pub(super) fn enter_behind(&self) -> Writing<'_> {
        let mut inside = self.inside.lock();
        while inside.sealers > 0 {
            self.left.wait(&mut inside);
        }
        inside.writers += 1;
        Writing(self)
    }

    /// Whether a thread waits to seal: one that writes for long leaves soon.
    pub(super) fn is_awaited(&self) -> bool {
        self.inside.lock().sealers > 0
    }

    /// Waits until nobody is inside, and keeps others out.
    pub(super) fn close(&self) -> Sealing<'_> {
        let mut inside = self.inside.lock();
        inside.sealers += 1;
        while inside.writers > 0 {
            self.left.wait(&mut inside);
        }
        Sealing { gate: self, inside }
    }
}

/// Nobody writes runs; see [`Gate`].
pub(super) struct Sealing<'g> {
    gate: &'g Gate,
    inside: MutexGuard<'g, Inside>,
}

impl Drop for Sealing<'_> {
    fn drop(&mut self) {
        self.inside.sealers -= 1;
        self.gate.left.notify_all();
    }
}

/// Runs may be written; see [`Gate`].
pub(crate) struct Writing<'g>(&'g Gate);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.inside.lock().writers -= 1;
        self.0.left.notify_all();
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use crate::sync::thread;

    fn wait_until(done: impl Fn() -> bool) {
        while !done() {
            thread::yield_now();
        }
    }

    /// Merges that follow each other would keep a fork waiting for as long as there are any.
    #[test]
    fn who_seals_goes_before_those_who_write_for_long() {
        let gate = Arc::new(Gate::default());
        let sealed = Arc::new(AtomicBool::new(false));
        let first = gate.enter_behind();
        assert!(!gate.is_awaited());
        let sealer = {
            let (gate, sealed) = (gate.clone(), sealed.clone());
            thread::spawn(move || {
                let closed = gate.close();
                sealed.store(true, Ordering::SeqCst);
                drop(closed);
            })
        };
        wait_until(|| gate.is_awaited());
        let second = {
            let (gate, sealed) = (gate.clone(), sealed.clone());
            thread::spawn(move || {
                let _writing = gate.enter_behind();
                assert!(sealed.load(Ordering::SeqCst), "it came behind");
            })
        };
        // A thread that is inside may come in again, so that it does not wait for itself.
        drop(gate.enter());
        assert!(!sealed.load(Ordering::SeqCst), "somebody is inside");
        drop(first);
        sealer.join().expect("ends");
        second.join().expect("ends");
        assert!(!gate.is_awaited());
    }
}
