//! One opening of a database, which all handles of it share; and how it is closed.
//!
//! ```text
//!   a call:  inside += 1 -> closed? -> use the engine's handles -> inside -= 1
//!   close:   the engine closes -> closed = true -> wait for inside == 0 -> let all handles go
//! ```
//! A closed database holds nothing, whatever objects of Python are still there: its memory, its
//! mapping and its files go when it is closed, not when the last name of it goes. So each object
//! keeps the engine's handles in a [`Gated`] or in a slot, and the opening knows all of them,
//! weakly.
//!
//! Why no call uses a handle that was let go: a call counts itself as inside before it looks
//! whether the database is closed, and `close` marks it as closed before it looks whether anybody
//! is inside (both SeqCst): one of them sees the other. A call that is inside is never waited for
//! with the interpreter's lock. If it stays inside for seconds (a merge function of Python that
//! closes its own database), the handles are not let go here but with their objects.
//!
//! When the interpreter ends, all that is open is closed first, as long as functions of Python can
//! be called: a thread of the engine that waited for the interpreter then would wait for ever.
//!
//! Closed is looked at before a record of a chunk is given: a closed database never looks like the
//! end of the data. Thread safety: any.

use crate::border::call;
use crate::border::error::{Failure, OrRaise};
use crate::border::held::Held;
use crate::border::held::detach;
use evendb::{Db, ErrorKind};
use evendb_base::fork;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The longest wait of a close for calls that are inside.
const PATIENCE: Duration = Duration::from_secs(3);

/// What holds handles of the engine, and lets them go when the database is closed.
pub(crate) trait Release: Send + Sync {
    /// Called once the database is closed and nobody is inside, by one thread.
    fn release(&self);
}

/// See the module.
pub(crate) struct Opening {
    db: Gated<Db>,
    closed: AtomicBool,
    inside: AtomicUsize,
    /// Whether the handles were let go.
    closing: Mutex<bool>,
    children: Mutex<Children>,
    /// Whether a function of Python may be called by a read or a write. Such calls are made
    /// without the interpreter's lock, whatever they cost: the engine may hold a lock of its own.
    calls_python: AtomicBool,
    pub(crate) path: PathBuf,
    pub(crate) mode: String,
    /// The first exception of each keyspace's compaction filter.
    pub(crate) filters: Mutex<HashMap<u32, FirstFailure>>,
}

/// The text of an exception, if there was one.
pub(crate) type FirstFailure = Arc<Mutex<Option<String>>>;

#[derive(Default)]
struct Children {
    all: Vec<Weak<dyn Release>>,
    /// The number at which those that are gone are taken out.
    full: usize,
}

/// A handle of the engine that is there for calls that are inside.
pub(crate) struct Gated<T: Send>(UnsafeCell<Option<Held<T>>>);

// SAFETY: the cell is read by calls that are inside, and written once, when nobody is (see the
// module); what is in it may be used by several threads.
unsafe impl<T: Send + Sync> Sync for Gated<T> {}

impl<T: Send> Gated<T> {
    pub(crate) fn new(handle: T) -> Gated<T> {
        Gated(UnsafeCell::new(Some(Held::new(handle))))
    }

    /// The handle, for a call that is inside.
    #[inline]
    pub(crate) fn get<'i>(&'i self, _inside: &'i Inside<'_>) -> &'i T {
        // SAFETY: nobody writes while a call is inside.
        match unsafe { &*self.0.get() } {
            Some(handle) => handle,
            None => unreachable!("a call that is inside came before the end"),
        }
    }

    /// Lets the handle go.
    ///
    /// # Safety
    /// Called by `Release::release` alone: the database is closed, and nobody is inside.
    pub(crate) unsafe fn let_go(&self) {
        // SAFETY: as promised.
        drop(unsafe { (*self.0.get()).take() });
    }
}

/// A call that is inside.
pub(crate) struct Inside<'o>(&'o Opening);

impl<'o> Inside<'o> {
    #[inline]
    fn begin(opening: &'o Opening) -> Inside<'o> {
        opening.inside.fetch_add(1, Ordering::SeqCst);
        Inside(opening)
    }
    #[inline]
    pub(crate) fn db(&self) -> &Db {
        self.0.db.get(self)
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Opening {
    pub(crate) fn new(db: Db, path: PathBuf, mode: String) -> Arc<Opening> {
        let opening = Arc::new(Opening {
            db: Gated::new(db),
            closed: AtomicBool::new(false),
            inside: AtomicUsize::new(0),
            closing: Mutex::new(false),
            children: Mutex::default(),
            calls_python: AtomicBool::new(false),
            path,
            mode,
            filters: Mutex::new(HashMap::new()),
        });
        let mut all = ALL.lock();
        all.retain(|opening| opening.strong_count() > 0);
        all.push(Arc::downgrade(&opening));
        opening
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Begins a call: refused after `close`, and in a forked child.
    #[inline]
    pub(crate) fn enter(&self, py: Python<'_>) -> PyResult<Inside<'_>> {
        fork::check().or_raise(py)?;
        self.enter_detached().ok_or_else(|| closed(py))
    }

    /// [`enter`](Self::enter) without Python. `None` after `close`.
    #[inline]
    pub(crate) fn enter_detached(&self) -> Option<Inside<'_>> {
        let inside = Inside::begin(self);
        (!self.is_closed()).then_some(inside)
    }

    /// Refuses a call after `close`, and any call in a forked child.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        fork::check().or_raise(py)?;
        match self.is_closed() {
            false => Ok(()),
            true => Err(closed(py)),
        }
    }

    /// Makes a holder of handles known to the next close. The caller is inside.
    pub(crate) fn adopt<C: Release + 'static>(&self, child: &Arc<C>) {
        let child = Arc::downgrade(child);
        let mut children = self.children.lock();
        if children.all.len() >= children.full {
            children.all.retain(|child| child.strong_count() > 0);
            children.full = (children.all.len() * 2).max(64);
        }
        children.all.push(child);
    }

    /// Closes the database for all its handles; again, it does nothing. A second thread waits for
    /// the first.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        if fork::is_child() {
            // A child only forgets; this is no error, so that `with` can be left.
            return Ok(());
        }
        detach(py, || {
            let mut released = self.closing.lock();
            if std::mem::replace(&mut *released, true) {
                return Ok(());
            }
            let inside = Inside::begin(self);
            let done = inside.db().clone().close();
            drop(inside);
            if done
                .as_ref()
                .is_err_and(|error| error.kind() == ErrorKind::InvalidArgument)
            {
                // Refused: within a function that the engine calls. It goes on.
                *released = false;
                return done;
            }
            self.closed.store(true, Ordering::SeqCst);
            self.release_all();
            done
        })
        .or_raise(py)
    }

    fn release_all(&self) {
        if call::is_ending() {
            // Threads that were left over may be inside for ever.
            return;
        }
        let until = Instant::now() + PATIENCE;
        while self.inside.load(Ordering::SeqCst) > 0 {
            if Instant::now() > until {
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        let children = std::mem::take(&mut self.children.lock().all);
        for child in children.iter().filter_map(Weak::upgrade) {
            child.release();
        }
        // SAFETY: closed, and nobody is inside; `closing` keeps others out.
        unsafe { self.db.let_go() };
    }

    pub(crate) fn calls_python(&self) -> bool {
        self.calls_python.load(Ordering::Relaxed)
    }

    pub(crate) fn may_call_python(&self) {
        self.calls_python.store(true, Ordering::Relaxed);
    }
}

/// All openings of the process, to be closed when the interpreter ends.
static ALL: Mutex<Vec<Weak<Opening>>> = Mutex::new(Vec::new());

/// Closes what is open, while functions of Python can still be called; `atexit` calls it. Daemon
/// threads that use a database after that are stopped.
#[pyfunction]
pub(crate) fn close_all_at_exit(py: Python<'_>) {
    if fork::is_child() {
        return;
    }
    call::set_ending();
    let all = std::mem::take(&mut *ALL.lock());
    for opening in all.iter().filter_map(Weak::upgrade) {
        // Nobody is there to be told.
        drop(opening.close(py));
    }
}

/// What a call after a close is told.
#[cold]
pub(crate) fn closed(py: Python<'_>) -> PyErr {
    call::stop_if_left_over(py);
    Failure::Closed.raised(py, "the database is closed; open it again")
}
