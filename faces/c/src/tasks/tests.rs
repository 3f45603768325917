//! The driver alone, over futures of the tests: the callback comes exactly once, whatever happens
//! at the same time.

use super::driver::{Callback, Driver};
use crate::border::{Failure, Status, status};
use crate::calls::reads::ValueHandle;
use parking_lot::Mutex;
use std::ffi::c_void;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::thread;

/// Statuses that a callback was told.
type Told = Mutex<Vec<Status>>;

unsafe extern "C" fn note(
    context: *mut c_void,
    status: Status,
    value: *mut ValueHandle,
    failure: *mut Failure,
) {
    assert!(value.is_null());
    // SAFETY: the context is the list of the test, which outlives its drivers.
    let told = unsafe { &*context.cast::<Told>() };
    told.lock().push(status);
    if !failure.is_null() {
        // SAFETY: an error of a callback was made by `Box::into_raw`, and belongs to the callback.
        let failure = unsafe { Box::from_raw(failure) };
        assert_eq!(failure.status, status);
    }
}

fn driven(
    told: &Told,
    work: impl Future<Output = evendb::Result<()>> + Send + 'static,
) -> Arc<Driver> {
    let context = (&raw const *told).cast_mut().cast();
    let work = Box::pin(async move { work.await.map(|()| None) });
    Driver::new(
        work,
        Callback {
            done: note,
            context,
        },
    )
}

/// A future that is ready once the gate is open, and leaves its waker there.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<(bool, Option<Waker>)>>);

impl Gate {
    fn passed(&self) -> impl Future<Output = evendb::Result<()>> + Send + 'static {
        let gate = self.0.clone();
        poll_fn(move |context| {
            let mut gate = gate.lock();
            gate.1 = Some(context.waker().clone());
            match gate.0 {
                true => Poll::Ready(Ok(())),
                false => Poll::Pending,
            }
        })
    }

    fn open(&self) {
        let waker = {
            let mut gate = self.0.lock();
            gate.0 = true;
            gate.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[test]
fn a_future_that_is_ready_is_told_in_the_call() {
    let told = Told::default();
    driven(&told, async { Ok(()) }).start();
    assert_eq!(*told.lock(), [status::OK]);
}

#[test]
fn a_future_that_wakes_itself_in_its_poll_is_polled_again() {
    let told = Told::default();
    let mut polls = 0;
    let work = poll_fn(move |context| {
        polls += 1;
        context.waker().wake_by_ref();
        match polls {
            5 => Poll::Ready(Ok(())),
            _ => Poll::Pending,
        }
    });
    driven(&told, work).start();
    assert_eq!(*told.lock(), [status::OK]);
}

#[test]
fn a_poll_that_panics_is_told_once() {
    let told = Told::default();
    driven(&told, async { panic!("planted") }).start();
    assert_eq!(*told.lock(), [status::PANIC]);
}

#[test]
fn a_call_that_is_called_off_in_its_own_poll_is_told_once() {
    let told = Told::default();
    let own: Arc<Mutex<Option<Arc<Driver>>>> = Arc::default();
    let there = own.clone();
    let work = poll_fn(move |_| {
        let driver = there.lock().take();
        driver.unwrap().call_off();
        Poll::Pending
    });
    let driver = driven(&told, work);
    *own.lock() = Some(driver.clone());
    driver.clone().start();
    assert_eq!(*told.lock(), [status::CANCELLED]);
    driver.call_off();
    assert_eq!(told.lock().len(), 1);
}

#[test]
fn a_waker_that_is_dropped_ends_the_call() {
    let told = Told::default();
    // It keeps no waker: nobody would ever wake it.
    driven(&told, poll_fn(|_| Poll::Pending)).start();
    assert_eq!(*told.lock(), [status::CANCELLED]);
}

#[test]
fn wakes_and_a_call_off_at_once_tell_once() {
    let outcomes = [AtomicUsize::new(0), AtomicUsize::new(0)];
    for _ in 0..2000 {
        let told = Told::default();
        let gate = Gate::default();
        let driver = driven(&told, gate.passed());
        thread::scope(|scope| {
            scope.spawn(|| gate.open());
            scope.spawn(|| driver.call_off());
            driver.clone().start();
        });
        let told = told.lock();
        assert_eq!(told.len(), 1);
        assert!([status::OK, status::CANCELLED].contains(&told[0]));
        outcomes[usize::from(told[0] == status::OK)].fetch_add(1, Ordering::Relaxed);
    }
    let sum: usize = outcomes
        .iter()
        .map(|some| some.load(Ordering::Relaxed))
        .sum();
    assert_eq!(sum, 2000);
}

#[test]
fn a_wake_during_a_poll_is_never_lost() {
    for _ in 0..2000 {
        let told = Told::default();
        let gate = Gate::default();
        let driver = driven(&told, gate.passed());
        thread::scope(|scope| {
            scope.spawn(|| gate.open());
            driver.clone().start();
        });
        assert_eq!(*told.lock(), [status::OK]);
    }
}
