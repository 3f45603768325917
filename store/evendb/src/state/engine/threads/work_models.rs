//! Loom models of upkeep's rest.
//! `RUSTFLAGS="--cfg evendb_loom" cargo test --lib loom_l11 --release`

use crate::engine::work::Work;
use crate::sync::{Arc, Mutex, thread};

/// Does what upkeep does between two rounds, where `left` is all the work that is ever left for it:
/// it rests until it has seen that, or is told to stop.
fn rests_until_seen(work: &Work, left: &Mutex<bool>) {
    loop {
        if *left.lock() {
            return;
        }
        work.begin_rest();
        if *left.lock() {
            work.stir();
        }
        work.rest(None);
        if work.queue.lock().stop {
            return;
        }
    }
}

/// A thread that leaves work under a lock of its own and then stirs is seen. If it were not, upkeep
/// would rest for ever, which loom reports as a deadlock.
#[test]
fn loom_l11_what_is_left_is_seen() {
    loom::model(|| {
        let work = Arc::new(Work::default());
        let left = Arc::new(Mutex::new(false));
        let other = {
            let (work, left) = (work.clone(), left.clone());
            thread::spawn(move || {
                *left.lock() = true;
                work.stir();
            })
        };
        rests_until_seen(&work, &left);
        assert!(*left.lock());
        other.join().expect("ends");
    });
}

/// A gentle stir wakes upkeep only if it rests, and never hides a stir that must be seen.
#[test]
fn loom_l11_gentle_stirs_beside() {
    loom::model(|| {
        let work = Arc::new(Work::default());
        let left = Arc::new(Mutex::new(false));
        let other = {
            let (work, left) = (work.clone(), left.clone());
            thread::spawn(move || {
                work.stir_gently();
                *left.lock() = true;
                work.stir();
            })
        };
        rests_until_seen(&work, &left);
        other.join().expect("ends");
    });
}

/// A stop is seen, too.
#[test]
fn loom_l11_rest_beside_stop() {
    loom::model(|| {
        let work = Arc::new(Work::default());
        let left = Arc::new(Mutex::new(false));
        let other = {
            let work = work.clone();
            thread::spawn(move || {
                work.queue.lock().stop = true;
                work.wake_all();
            })
        };
        rests_until_seen(&work, &left);
        other.join().expect("ends");
    });
}
