//! Lists of wakers and promises, on one thread.

use super::{Promise, Ticket, Wakers, wake};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Count {
    fn new() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (count.clone(), Waker::from(count))
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn those_are_taken_whose_number_is_reached() {
    let (count, waker) = Count::new();
    let mut list = Wakers::default();
    let mut tickets: Vec<Ticket> = (0..10).map(|_| Ticket::default()).collect();
    for (until, ticket) in tickets.iter_mut().enumerate() {
        assert!(list.register(ticket, until as u64, waker.clone()).is_none());
    }
    assert_eq!(list.len(), 10);
    wake(list.take_up_to(3));
    assert_eq!((count.get(), list.len()), (4, 6));
    assert!(!list.has(&tickets[3], &waker) && list.has(&tickets[4], &waker));
    // One that was woken is registered anew, at a place that another one had.
    assert!(list.register(&mut tickets[0], 20, waker.clone()).is_none());
    assert!(list.remove(&mut tickets[1]).is_none(), "it was woken");
    assert!(list.remove(&mut tickets[4]).is_some());
    assert!(list.remove(&mut tickets[4]).is_none());
    wake(list.take_all());
    assert_eq!((count.get(), list.is_empty()), (4 + 6, true));
    // A ticket of before leads nowhere, though its place was given again.
    assert!(list.register(&mut Ticket::default(), 1, waker).is_none());
    assert!(tickets.iter_mut().all(|old| list.remove(old).is_none()));
    assert_eq!(list.len(), 1);
}

#[test]
fn a_future_that_changes_its_task_is_woken_there() {
    let ((old, first), (new, second)) = (Count::new(), Count::new());
    let mut list = Wakers::default();
    let mut ticket = Ticket::default();
    assert!(list.register(&mut ticket, 1, first).is_none());
    assert!(!list.has(&ticket, &second));
    assert!(list.register(&mut ticket, 1, second).is_some());
    wake(list.take_up_to(1));
    assert_eq!((old.get(), new.get()), (0, 1));
}

#[test]
fn a_waker_that_panics_leaves_the_others_awake() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("planted");
        }
    }
    let (count, waker) = Count::new();
    wake([waker.clone(), Waker::from(Arc::new(Panics)), waker]);
    assert_eq!(count.get(), 2);
}

#[test]
fn a_promise_gives_its_result_once() {
    let (count, waker) = Count::new();
    let promise = Promise::default();
    assert_eq!(promise.poll(&waker), None);
    assert_eq!(promise.poll(&waker), None);
    assert_eq!(promise.keep(7), None);
    assert_eq!(count.get(), 1);
    assert_eq!(promise.poll(&waker), Some(7));
    assert_eq!(promise.poll(&waker), None);
    assert_eq!(promise.keep(8), Some(8), "nobody waits");
}

#[test]
fn a_result_that_nobody_wants_comes_back() {
    let (count, waker) = Count::new();
    let promise = Promise::default();
    assert_eq!(promise.poll(&waker), None);
    promise.give_up();
    assert!(promise.is_over());
    assert_eq!(promise.keep("late"), Some("late"));
    assert_eq!(count.get(), 0);
}
