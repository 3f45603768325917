//! L9: room is never exceeded and no wake-up is lost.

use super::*;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, Mutex, thread};

/// Whether loom finds a thread that sleeps for ever.
fn deadlocks(model: impl Fn() + Sync + Send + 'static) -> bool {
    let run = std::panic::AssertUnwindSafe(|| check(model));
    let Err(panic) = std::panic::catch_unwind(run) else {
        return false;
    };
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or_default();
    assert!(message.contains("deadlock"), "{message}");
    true
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    check_within(3, model);
}

fn check_within(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// `threads` requests that exclude each other; each thread releases its own request.
fn take_turns(plant: AdmissionPlant, threads: usize) {
    let admission = Arc::new(Admission {
        plant,
        ..Admission::new(0, 8)
    });
    let inside = Arc::new(AtomicU64::new(0));
    let turn = |admission: &Admission, inside: &AtomicU64| {
        admission.reserve(0, 9, &|| ()).unwrap();
        assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "too many");
        inside.fetch_sub(1, Ordering::Relaxed);
        admission.release_delta(9);
    };
    let others: Vec<_> = (1..threads)
        .map(|_| {
            let (admission, inside) = (Arc::clone(&admission), Arc::clone(&inside));
            thread::spawn(move || turn(&admission, &inside))
        })
        .collect();
    turn(&admission, &inside);
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(admission.delta_used(), 0);
}

#[test]
fn loom_l9_two_take_turns() {
    check(|| take_turns(AdmissionPlant::Nothing, 2));
}

#[test]
fn loom_l9_three_take_turns() {
    check(|| take_turns(AdmissionPlant::Nothing, 3));
}

#[test]
fn loom_l9_a_lost_wake_up_is_caught() {
    assert!(deadlocks(|| take_turns(
        AdmissionPlant::LookBeforeRelease,
        2
    )));
}

#[test]
fn loom_l9_ring_bytes_taken_for_a_moment_wake_the_first_in_the_queue() {
    check(|| {
        // Usable: 56 bytes of the ring, and 8 of delta memory. A lone request takes 9 of these 8:
        // no other request fits, not even in twice the limit.
        let admission = Arc::new(Admission::new(64, 8));
        admission.reserve(0, 9, &|| ()).unwrap();
        let both = {
            let admission = Arc::clone(&admission);
            // Takes the ring, finds no delta memory, and returns the ring.
            thread::spawn(move || admission.reserve(56, 9, &|| ()))
        };
        let ring = {
            let admission = Arc::clone(&admission);
            thread::spawn(move || {
                admission.reserve(56, 0, &|| ()).unwrap();
                admission.ring_tail_moved(56);
            })
        };
        admission.release_delta(9);
        assert!(both.join().unwrap().is_ok());
        admission.return_unused(56, 9);
        ring.join().unwrap();
        assert_eq!((admission.ring_used(), admission.delta_used()), (0, 0));
    });
}

/// One request is let in alone and stays; another one has the limit beside it.
fn beside_one_that_is_alone(plant: AdmissionPlant) {
    let admission = Arc::new(Admission {
        plant,
        ..Admission::new(0, 8)
    });
    admission.reserve(0, 1, &|| ()).unwrap();
    let small = {
        let admission = Arc::clone(&admission);
        thread::spawn(move || admission.reserve(0, 7, &|| ()))
    };
    admission.reserve(0, 17, &|| ()).unwrap();
    assert_eq!(small.join().unwrap(), Ok(()));
    assert_eq!(admission.delta_used(), 25);
}

#[test]
fn loom_l9_others_go_on_beside_one_that_is_alone() {
    check(|| beside_one_that_is_alone(AdmissionPlant::Nothing));
}

#[test]
fn loom_l9_others_that_are_not_woken_beside_it_are_caught() {
    assert!(deadlocks(|| beside_one_that_is_alone(
        AdmissionPlant::AloneInSilence
    )));
}

/// What comes back while another one takes: no more is taken than the limit and what is alone.
#[test]
fn loom_l9_room_beside_one_that_is_alone_is_never_exceeded() {
    check(|| {
        let admission = Arc::new(Admission::new(0, 8));
        admission.reserve(0, 17, &|| ()).unwrap();
        let small = {
            let admission = Arc::clone(&admission);
            thread::spawn(move || admission.reserve(0, 8, &|| ()).unwrap())
        };
        admission.release_delta(10);
        small.join().unwrap();
        // Seven bytes are left of the one that is alone, and eight beside it.
        assert_eq!(admission.delta_used(), 15);
        assert!(!admission.try_take(0, 1, || ()));
        admission.release_delta(15);
        assert!(admission.try_take(0, 8, || ()) && !admission.try_take(0, 1, || ()));
    });
}

#[test]
fn loom_l9_cancel_wakes_all() {
    check(|| {
        let admission = Arc::new(Admission::new(0, 8));
        admission.reserve(0, 9, &|| ()).unwrap();
        let waiter = {
            let admission = Arc::clone(&admission);
            thread::spawn(move || admission.reserve(0, 9, &|| ()))
        };
        admission.cancel();
        assert_eq!(waiter.join().unwrap(), Err(Refused::Cancelled));
    });
}

/// Two requests wait for room that does not come, or comes just now; the thread that is asked for
/// relief finds the disk full, and dismisses all waiters.
fn dismissed(plant: AdmissionPlant, room_comes: bool) {
    let admission = Arc::new(Admission {
        plant,
        ..Admission::new(0, 8)
    });
    admission.reserve(0, 9, &|| ()).unwrap();
    let turn = |admission: &Admission| match admission.reserve(0, 9, &|| admission.dismiss()) {
        Ok(()) => admission.release_delta(9),
        Err(refused) => assert_eq!(refused, Refused::Dismissed),
    };
    let others = [(); 2].map(|()| {
        let admission = Arc::clone(&admission);
        thread::spawn(move || turn(&admission))
    });
    if room_comes {
        admission.release_delta(9);
    }
    for other in others {
        other.join().unwrap();
    }
    // A later request finds the queue in order.
    if room_comes {
        assert_eq!(admission.delta_used(), 0);
        admission.reserve(0, 9, &|| ()).unwrap();
    }
    assert_eq!(admission.delta_used(), 9);
}

#[test]
fn loom_l9_who_is_dismissed_does_not_wait() {
    check(|| dismissed(AdmissionPlant::Nothing, false));
}

#[test]
fn loom_l9_dismissing_and_room_that_comes() {
    check_within(2, || dismissed(AdmissionPlant::Nothing, true));
}

#[test]
fn loom_l9_dismissing_in_silence_is_caught() {
    assert!(deadlocks(|| dismissed(
        AdmissionPlant::DismissInSilence,
        false
    )));
}

/// Another thread runs the checkpoint, and finds the disk full at any moment after it was asked.
#[test]
fn loom_l9_a_dismissal_by_another_thread_is_not_missed() {
    check(|| {
        let admission = Arc::new(Admission::new(0, 8));
        admission.reserve(0, 9, &|| ()).unwrap();
        let asked = Arc::new((Mutex::new(false), Condvar::new()));
        let waiter = {
            let (admission, asked) = (Arc::clone(&admission), Arc::clone(&asked));
            thread::spawn(move || {
                admission.reserve(0, 9, &|| {
                    *asked.0.lock() = true;
                    asked.1.notify_one();
                })
            })
        };
        let mut wanted = asked.0.lock();
        while !*wanted {
            asked.1.wait(&mut wanted);
        }
        drop(wanted);
        admission.dismiss();
        assert_eq!(waiter.join().unwrap(), Err(Refused::Dismissed));
    });
}
