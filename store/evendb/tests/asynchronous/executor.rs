//! A small executor: it polls a future when it was woken, and only then, and counts the polls.

pub use crate::common::polled::{at_once, poll_once};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// The numbers of the futures that were woken, in order; a number is there once.
#[derive(Default)]
struct Woken {
    queue: Mutex<VecDeque<usize>>,
    came: Condvar,
}

struct One {
    number: usize,
    woken: Arc<Woken>,
}

impl Wake for One {
    fn wake(self: Arc<Self>) {
        let mut queue = self.woken.queue.lock().unwrap();
        if !queue.contains(&self.number) {
            queue.push_back(self.number);
        }
        drop(queue);
        self.woken.came.notify_one();
    }
}

/// Far longer than anything takes: a test that waits so long has found a future that is not woken.
const PATIENCE: Duration = Duration::from_secs(120);

/// Drives futures on this thread until all are done. Returns their outputs, and all polls.
pub fn drive<F: Future>(futures: Vec<F>) -> (Vec<F::Output>, usize) {
    let mut futures: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let woken = Arc::new(Woken::default());
    let wakers: Vec<Waker> = (0..futures.len())
        .map(|number| {
            let woken = woken.clone();
            Waker::from(Arc::new(One { number, woken }))
        })
        .collect();
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    woken.queue.lock().unwrap().extend(0..futures.len());
    let (mut left, mut polls) = (futures.len(), 0);
    while left > 0 {
        let number = next(&woken, left);
        if outputs[number].is_some() {
            continue;
        }
        polls += 1;
        let mut context = Context::from_waker(&wakers[number]);
        if let Poll::Ready(output) = futures[number].as_mut().poll(&mut context) {
            outputs[number] = Some(output);
            left -= 1;
        }
    }
    (outputs.into_iter().map(Option::unwrap).collect(), polls)
}

fn next(woken: &Woken, left: usize) -> usize {
    let queue = woken.queue.lock().unwrap();
    let is_empty = |queue: &mut VecDeque<usize>| queue.is_empty();
    let (mut queue, waited) = woken
        .came
        .wait_timeout_while(queue, PATIENCE, is_empty)
        .unwrap();
    assert!(!waited.timed_out(), "{left} futures are never woken");
    queue.pop_front().unwrap()
}

/// Drives one future.
pub fn block_on<F: Future>(future: F) -> F::Output {
    drive(vec![future]).0.pop().unwrap()
}

/// Counts how often it is woken.
#[derive(Default)]
pub struct Counter(pub AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Waits until something is so that other threads are about to do.
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::yield_now();
    }
}
