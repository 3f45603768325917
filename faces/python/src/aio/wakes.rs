//! Wake-ups on their way from the engine's threads to event loops.
//!
//! ```text
//!   a thread of the engine --wake--> a list --> the thread "evendb-wakes" --> callback()
//!   (takes no interpreter)                      (takes the interpreter once
//!                                                for all that came meanwhile)
//! ```
//! The callback is a loop's `call_soon_threadsafe`. So no thread of the engine ever waits for the
//! interpreter, however busy Python is. There is one thread for wake-ups in the process; the first
//! wait starts it. It remembers no loop: what to call comes
//! with each wait. A forked child has no such thread and makes its own, if it may open a database
//! at all: the old one is known by its process, and forgotten.
//!
//! No wake-up is lost: a wait leaves its callback and looks whether it was woken meanwhile, both
//! under one lock. No lock is held while Python is called.

use crate::border::call;
use crate::border::held::attached;
use parking_lot::{Condvar, Mutex};
use pyo3::prelude::*;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::task::Wake;

/// One future's way to be woken.
#[derive(Default)]
pub(super) struct Waking {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    woken: bool,
    callback: Option<Py<PyAny>>,
}

impl Waking {
    /// Before a poll: what woke it earlier is done with. `false` if another task waits for it.
    pub(super) fn begin(&self) -> bool {
        let mut state = self.state.lock();
        state.woken = false;
        state.callback.is_none()
    }

    /// Takes the callback back.
    pub(super) fn forget(&self) -> Option<Py<PyAny>> {
        self.state.lock().callback.take()
    }

    /// Leaves a callback; returns it if the future was woken meanwhile.
    pub(super) fn wait(&self, callback: Py<PyAny>) -> Option<Py<PyAny>> {
        let mut state = self.state.lock();
        if state.woken {
            return Some(callback);
        }
        state.callback = Some(callback);
        None
    }
}

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.woken = true;
        let callback = state.callback.take();
        drop(state);
        if let (Some(callback), Some(courier)) = (callback, courier()) {
            courier.list.lock().push(callback);
            courier.more.notify_one();
        }
    }
}

struct Courier {
    process: u32,
    list: Mutex<Vec<Py<PyAny>>>,
    more: Condvar,
}

/// The courier of this process; never freed.
static COURIER: AtomicPtr<Courier> = AtomicPtr::new(ptr::null_mut());

fn courier() -> Option<&'static Courier> {
    // SAFETY: NULL, or a courier that is never freed, published with Release.
    unsafe { COURIER.load(Ordering::Acquire).as_ref() }
}

/// Makes sure that the thread runs. Called with the interpreter, before a callback is left.
pub(super) fn start() -> std::io::Result<()> {
    let known = COURIER.load(Ordering::Acquire);
    if courier().is_some_and(|courier| courier.process == std::process::id()) {
        return Ok(());
    }
    let made: &'static Courier = Box::leak(Box::new(Courier {
        process: std::process::id(),
        list: Mutex::default(),
        more: Condvar::new(),
    }));
    let place = ptr::from_ref(made).cast_mut();
    if COURIER
        .compare_exchange(known, place, Ordering::AcqRel, Ordering::Acquire)
        .is_err()
    {
        // Another thread was faster; this one's courier is lost, a few words once.
        return Ok(());
    }
    let thread = std::thread::Builder::new().name("evendb-wakes".to_owned());
    thread.spawn(move || carry(made)).map(drop)
}

fn carry(courier: &'static Courier) {
    loop {
        let mut list = courier.list.lock();
        while list.is_empty() {
            courier.more.wait(&mut list);
        }
        let mut came = Some(std::mem::take(&mut *list));
        drop(list);
        let attached = (!call::is_ending()).then(|| {
            attached(|py| {
                for callback in came.take().into_iter().flatten() {
                    // A loop that was closed meanwhile has nobody who waits.
                    drop(call::call(callback.bind(py), ()));
                }
            })
        });
        if attached.flatten().is_none() {
            // The interpreter has ended. Its objects cannot be let go any more.
            std::mem::forget(came);
            return;
        }
    }
}
