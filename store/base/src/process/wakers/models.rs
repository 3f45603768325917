//! L16: register, then look again.
//! `RUSTFLAGS="--cfg evendb_loom" cargo test -p evendb-base --lib loom_l16 --release`

use super::{Promise, Ticket, Wakers, wake};
use crate::sync::{Arc, Condvar, Mutex, thread};
use std::task::{Wake, Waker};

/// Parks its thread until it is woken.
#[derive(Default)]
struct Parked {
    woken: Mutex<bool>,
    wakes: Condvar,
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        *self.woken.lock() = true;
        self.wakes.notify_one();
    }
}

/// Polls until there is an answer, and parks in between: a lost wake-up is a deadlock, which loom
/// reports.
fn block_on<T>(mut poll: impl FnMut(&Waker) -> Option<T>) -> T {
    let parked = Arc::new(Parked::default());
    let waker = Waker::from(parked.clone());
    loop {
        if let Some(answer) = poll(&waker) {
            return answer;
        }
        let mut woken = parked.woken.lock();
        while !*woken {
            parked.wakes.wait(&mut woken);
        }
        *woken = false;
    }
}

#[test]
fn loom_l16_a_promise_that_is_kept_meanwhile_is_seen() {
    loom::model(|| {
        let promise = Arc::new(Promise::default());
        let finisher = {
            let promise = promise.clone();
            thread::spawn(move || assert!(promise.keep(5).is_none()))
        };
        assert_eq!(block_on(|waker| promise.poll(waker)), 5);
        finisher.join().expect("ends");
    });
}

#[test]
fn loom_l16_a_result_comes_to_the_future_or_back() {
    loom::model(|| {
        let promise = Arc::new(Promise::default());
        let finisher = {
            let promise = promise.clone();
            thread::spawn(move || promise.keep(Arc::new(5)))
        };
        let polled = promise.poll(Waker::noop());
        promise.give_up();
        let back = finisher.join().expect("ends");
        assert!(polled.is_none() || back.is_none());
        assert!(promise.is_over());
    });
}

/// A number that threads wait for, as the durable end of the log is.
#[derive(Default)]
struct Reached {
    number: u64,
    wakers: Wakers,
}

/// The list under its owner's lock: the thread that raises the number takes the wakers under the
/// lock under which a future has looked and registered.
#[test]
fn loom_l16_a_number_that_is_reached_meanwhile_is_seen() {
    loom::model(|| {
        let reached = Arc::new(Mutex::new(Reached::default()));
        let raiser = {
            let reached = reached.clone();
            thread::spawn(move || {
                for number in 1..=2 {
                    let mut state = reached.lock();
                    state.number = number;
                    let woken = state.wakers.take_up_to(number);
                    drop(state);
                    wake(woken);
                }
            })
        };
        let mut ticket = Ticket::default();
        block_on(|waker| {
            let own = waker.clone();
            let mut state = reached.lock();
            if state.number >= 2 {
                return Some(());
            }
            let before = state.wakers.register(&mut ticket, 2, own);
            drop(state);
            drop(before);
            None
        });
        raiser.join().expect("ends");
        assert!(reached.lock().wakers.is_empty());
    });
}
