//! Pools, on threads that tests drive.

use super::*;
use crate::engine::staff::Body;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Wake;

#[derive(Default)]
struct Counted(AtomicU32);

impl PoolJob for Counted {
    fn run(&self) -> Option<Waker> {
        self.0.fetch_add(1, Ordering::Relaxed);
        None
    }

    fn refuse(&self) {}
}

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Counted {
    fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Otherwise the future of the first job would wait for ever.
#[test]
fn a_caller_that_gets_no_thread_does_the_jobs_that_relied_on_it() {
    let work = Work::default();
    work.allow(1, None, |_| Some(Body::Thread(Box::new(|| {}))));
    work.staff.refuses.store(true, Ordering::Relaxed);
    let (first, second) = (Arc::new(Counted::default()), Arc::new(Counted::default()));
    // It came while a thread was to be started.
    assert!(work.writer.push(first.clone()).is_some());
    let handed = work.hand_over(ThreadRole::Writer, second.clone());
    assert!(
        matches!(handed, Handed::NoThread),
        "the caller does its own"
    );
    assert_eq!(first.count(), 1);
    assert_eq!(second.count(), 0);
    assert!(!work.writer.is_busy());
}

/// A program that makes futures and drops them does not make the queue longer.
#[test]
fn jobs_that_are_taken_back_leave_no_room_behind() {
    let mut queue = Queue::default();
    let stays = queue.push(Arc::new(Counted::default()));
    for _ in 0..10_000 {
        let number = queue.push(Arc::new(Counted::default()));
        assert!(queue.remove(number).is_some());
        assert!(queue.remove(number).is_none(), "it is there once");
        assert!(queue.places() <= 4, "{} places", queue.places());
    }
    let last = queue.push(Arc::new(Counted::default()));
    assert_eq!(queue.len(), 2);
    assert!(queue.remove(stays).is_some());
    assert!(queue.take().is_some(), "the last one");
    assert!(queue.remove(last).is_none(), "it was taken");
    assert_eq!((queue.len(), queue.running), (0, 1));
}

/// While many jobs wait and a thread watches, futures are woken together; nothing is left over.
#[test]
fn futures_are_woken_together_while_many_jobs_wait() {
    let pool = Pool::new(4);
    let mut server = pool.serve();
    let woken = Arc::new(Counted::default());
    for _ in 0..200 {
        assert!(pool.push(Arc::new(Counted::default())).is_some());
    }
    let mut job = server.take(Duration::ZERO);
    assert!(pool.queue.lock().begin_wait(&pool.limits), "it watches");
    let mut seen = Vec::new();
    let mut answered = 0;
    while job.is_some() {
        answered += 1;
        job = server.done(Some(woken.clone().into()));
        seen.push(woken.count());
        if job.is_none() && answered < 200 {
            job = server.take(Duration::ZERO);
        }
    }
    assert_eq!((answered, woken.count()), (200, 200));
    assert!(seen[..31].iter().all(|&count| count == 0), "{seen:?}");
    assert_eq!(seen[31], 32, "together");
    // The last ones are woken one by one.
    assert_eq!(seen[199] - seen[198], 1);
    assert!(pool.queue.lock().end_wait(true).is_empty());
}

/// Nobody would wake them otherwise, if the next job hangs.
#[test]
fn without_a_watcher_every_future_is_woken_at_once() {
    let pool = Pool::new(4);
    let mut server = pool.serve();
    let woken = Arc::new(Counted::default());
    for _ in 0..200 {
        assert!(pool.push(Arc::new(Counted::default())).is_some());
    }
    for number in 1..=3 {
        assert!(server.take(Duration::ZERO).is_some());
        assert!(server.done(Some(woken.clone().into())).is_none());
        assert_eq!(woken.count(), number);
    }
    // The watcher goes: it takes what was left.
    assert!(pool.queue.lock().begin_wait(&pool.limits));
    assert!(server.take(Duration::ZERO).is_some());
    assert!(server.done(Some(woken.clone().into())).is_some());
    assert_eq!(woken.count(), 3);
    assert_eq!(pool.queue.lock().end_wait(true).len(), 1);
}

/// Fast jobs have few threads awake; where one hangs, the watcher takes over.
#[test]
fn while_jobs_are_fast_few_threads_are_woken() {
    let limits = Limits::with_processors(8, 1);
    let mut queue = Queue::default();
    let job = || Arc::new(Counted::default());
    let push = |queue: &mut Queue| {
        queue.push(job());
        queue.need(&limits)
    };
    queue.serving = 3;
    for _ in 0..2 {
        assert!(
            !queue.begin_wait(&limits),
            "nothing runs, so nobody watches"
        );
    }
    (0..100).for_each(|_| queue.pace.note(Duration::from_micros(3)));
    assert_eq!(push(&mut queue), Need::Wake, "nobody is awake");
    assert!(queue.end_wait(false).is_empty());
    assert!(queue.may_take(&limits) && queue.take().is_some());
    assert_eq!(push(&mut queue), Need::Wake, "nobody watches");
    assert!(queue.end_wait(false).is_empty());
    assert!(queue.take().is_some());
    assert!(!queue.may_take(&limits), "one processor has two fast jobs");
    assert!(queue.begin_wait(&limits), "the third thread watches");
    assert!((0..100).all(|_| push(&mut queue) == Need::Nobody));
    queue.running -= 1;
    assert_eq!(push(&mut queue), Need::Wake, "it has piled up");
    assert!(queue.end_wait(true).is_empty());
    // Nothing was taken for a while.
    queue.pace.is_slow();
    assert!(queue.may_take(&limits) && queue.take().is_some());
    assert_eq!(queue.need(&limits), Need::Call);
}
