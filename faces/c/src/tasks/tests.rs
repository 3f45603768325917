//! The driver alone, over futures of the tests, in many orders of the threads' steps: the callback
//! comes exactly once, and no wake-up is lost, whatever happens at the same time.

use super::driver::{Callback, Driver};
use super::lock::Mutex;
use crate::border::{Failure, Status, status};
use crate::calls::reads::ValueHandle;
use shuttle::thread;
use std::ffi::c_void;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

/// Statuses that a callback was told.
type Told = Mutex<Vec<Status>>;

unsafe extern "C" fn note(
    context: *mut c_void,
    status: Status,
    value: *mut ValueHandle,
    failure: *mut Failure,
) {
    assert!(value.is_null());
    // SAFETY: the context is a list that its driver counts an owner of.
    let told = unsafe { Arc::from_raw(context.cast::<Told>()) };
    told.lock().push(status);
    if !failure.is_null() {
        // SAFETY: an error of a callback was made by `Box::into_raw`, and belongs to the callback.
        let failure = unsafe { Box::from_raw(failure) };
        assert_eq!(failure.status, status);
    }
}

/// A driver of a future. A second call of its callback would free the list once too often.
fn driven(
    told: &Arc<Told>,
    work: impl Future<Output = evendb::Result<()>> + Send + 'static,
) -> Arc<Driver> {
    let context = Arc::into_raw(told.clone()).cast_mut().cast();
    let work = Box::pin(async move { work.await.map(|()| None) });
    let callback = Callback {
        done: note,
        context,
    };
    Driver::new(work, callback)
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

    /// Wakes without a reason: the future is as pending as before.
    fn rattle(&self) {
        let waker = self.0.lock().1.clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Runs a scenario once: it has one thread.
fn once(body: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(body, 1);
}

/// Runs a scenario of several threads in many orders of their steps.
fn in_many_orders(body: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(body.clone(), 3000);
    shuttle::check_pct(body, 3000, 3);
}

#[test]
fn a_future_that_is_ready_is_told_in_the_call() {
    once(|| {
        let told = Arc::<Told>::default();
        driven(&told, async { Ok(()) }).start();
        assert_eq!(*told.lock(), [status::OK]);
    });
}

#[test]
fn a_future_that_wakes_itself_in_its_poll_is_polled_again() {
    once(|| {
        let told = Arc::<Told>::default();
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
    });
}

#[test]
fn a_poll_that_panics_is_told_once() {
    once(|| {
        let told = Arc::<Told>::default();
        driven(&told, async { panic!("planted") }).start();
        assert_eq!(*told.lock(), [status::PANIC]);
    });
}

#[test]
fn a_call_that_is_called_off_in_its_own_poll_is_told_once() {
    once(|| {
        let told = Arc::<Told>::default();
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
    });
}

#[test]
fn a_waker_that_is_dropped_ends_the_call() {
    once(|| {
        let told = Arc::<Told>::default();
        // It keeps no waker: nobody would ever wake it.
        driven(&told, poll_fn(|_| Poll::Pending)).start();
        assert_eq!(*told.lock(), [status::CANCELLED]);
    });
}

#[test]
fn wakes_and_a_call_off_at_once_tell_once() {
    static SEEN: [AtomicBool; 2] = [AtomicBool::new(false), AtomicBool::new(false)];
    in_many_orders(|| {
        let told = Arc::<Told>::default();
        let gate = Gate::default();
        let driver = driven(&told, gate.passed());
        let (opened, called_off) = (gate.clone(), driver.clone());
        let opener = thread::spawn(move || {
            opened.rattle();
            opened.open();
        });
        let canceller = thread::spawn(move || called_off.call_off());
        driver.start();
        opener.join().unwrap();
        canceller.join().unwrap();
        let told = told.lock();
        assert_eq!(told.len(), 1);
        assert!([status::OK, status::CANCELLED].contains(&told[0]));
        SEEN[usize::from(told[0] == status::OK)].store(true, Ordering::Relaxed);
    });
    // Both outcomes were among the orders.
    assert!(SEEN.iter().all(|seen| seen.load(Ordering::Relaxed)));
}

#[test]
fn a_wake_during_a_poll_is_never_lost() {
    in_many_orders(|| {
        let told = Arc::<Told>::default();
        let gate = Gate::default();
        let driver = driven(&told, gate.passed());
        let (opened, rattled) = (gate.clone(), gate.clone());
        let opener = thread::spawn(move || opened.open());
        let rattler = thread::spawn(move || rattled.rattle());
        driver.start();
        opener.join().unwrap();
        rattler.join().unwrap();
        assert_eq!(*told.lock(), [status::OK]);
    });
}
