//! L14: a pool's queue, and a thread that wants to go.
//! `RUSTFLAGS="--cfg evendb_loom" cargo test -p evendb --lib loom_l14 --release`

use super::{Handed, PoolJob};
use crate::engine::staff::ThreadRole;
use crate::engine::work::Work;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, thread};
use std::task::Waker;
use std::time::Duration;

#[derive(Default)]
struct Counted {
    run: AtomicUsize,
    refused: AtomicUsize,
}

impl PoolJob for Counted {
    fn run(&self) -> Option<Waker> {
        self.run.fetch_add(1, Ordering::Relaxed);
        None
    }

    fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

impl Counted {
    fn counts(&self) -> (usize, usize) {
        let get = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        (get(&self.run), get(&self.refused))
    }
}

/// A job that comes while the queue ends is done or refused, once.
#[test]
fn loom_l14_a_job_beside_the_end_is_answered_once() {
    loom::model(|| {
        let work = Arc::new(Work::default());
        let job = Arc::new(Counted::default());
        let pusher = {
            let (work, job) = (work.clone(), job.clone());
            thread::spawn(move || work.readers.push(job).is_some())
        };
        let ender = {
            let work = work.clone();
            thread::spawn(move || work.end_pools())
        };
        let mut server = work.readers.serve();
        while let Some(job) = server.take(Duration::ZERO) {
            let woken = job.run();
            assert!(server.done(woken).is_none(), "there is one job");
        }
        let pushed = pusher.join().expect("ends");
        ender.join().expect("ends");
        let (run, refused) = job.counts();
        assert_eq!(run + refused, usize::from(pushed));
        assert!(!work.readers.is_busy());
    });
}

/// A job that is taken back is not done, and one that is done is not taken back.
#[test]
fn loom_l14_a_job_is_done_or_taken_back() {
    loom::model(|| {
        let work = Arc::new(Work::default());
        let job = Arc::new(Counted::default());
        let (number, _) = work.readers.push(job.clone()).expect("is open");
        let taker = {
            let work = work.clone();
            thread::spawn(move || work.readers.remove(number).is_some())
        };
        let job_taken = work.readers.queue.lock().take();
        if let Some(job) = job_taken {
            assert!(job.run().is_none());
        }
        let was_taken = taker.join().expect("ends");
        assert_eq!(job.counts(), (usize::from(!was_taken), 0));
    });
}

/// Without threads the caller does it.
#[test]
fn loom_l14_without_threads_nothing_is_queued() {
    loom::model(|| {
        let work = Work::default();
        let handed = work.hand_over(ThreadRole::Reader, Arc::new(Counted::default()));
        assert!(matches!(handed, Handed::NoThread));
        assert!(!work.readers.is_busy());
    });
}

/// A push that wakes nobody, because a thread serves: that thread looks again before it goes. And
/// what one thread leaves to be woken, another one wakes.
#[test]
fn loom_l14_a_push_beside_a_thread_that_goes_is_seen() {
    loom::model(|| {
        let work = Arc::new(Work::default());
        let job = Arc::new(Counted::default());
        let server = {
            let work = work.clone();
            thread::spawn(move || {
                let mut server = work.readers.serve();
                while let Some(mut job) = server.take(Duration::ZERO) {
                    loop {
                        let woken = job.run();
                        match server.done(woken) {
                            Some(next) => job = next,
                            None => break,
                        }
                    }
                }
            })
        };
        let mut calls = 0;
        for _ in 0..2 {
            let (_, is_short) = work.readers.push(job.clone()).expect("is open");
            calls += usize::from(is_short);
        }
        server.join().expect("ends");
        let left = work.readers.queue.lock().len();
        assert_eq!(job.counts().0 + left, 2);
        assert!(
            left == 0 || calls > 0,
            "a thread is called for what is left"
        );
    });
}
