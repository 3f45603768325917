use super::*;
use crate::sync::atomic::Ordering;

#[test]
fn both_sides_are_taken_or_none() {
    let admission = Admission::new(800, 100);
    admission.reserve(100, 90, &|| ()).unwrap();
    assert!(!admission.try_take(100, 20, || admission.ring.give_back(100)));
    admission.return_unused(0, 30);
    assert_eq!((admission.ring_used(), admission.delta_used()), (100, 60));
    assert!(admission.half_full());
    admission.carry(40);
    assert_eq!(
        admission.delta_to_write(),
        20,
        "what is durable needs no room on the disk"
    );
    assert!(
        !admission.half_full(),
        "a checkpoint would not free what is durable already"
    );
    admission.carry_no_more(10);
    assert!(admission.half_full(), "30 of 100 are new");
    admission.adopt(0, 30);
    admission.carry(50);
    assert_eq!(admission.delta_used(), 90);
    assert!(!admission.half_full(), "10 of 20 that others left are new");
    admission.adopt(0, 1);
    assert!(admission.half_full(), "more than half of what others left");
    admission.carry_no_more(80);
    admission.return_unused(50, 51);
    assert!(!admission.half_full());
    admission.ring_tail_moved(50);
    admission.release_delta(40);
    assert_eq!((admission.ring_used(), admission.delta_used()), (0, 0));
    admission.adopt(790, 0);
    assert!(admission.half_full());
}

#[test]
fn without_a_ring_its_bytes_do_not_count() {
    let admission = Admission::new(0, 100);
    admission.reserve(1 << 40, 10, &|| ()).unwrap();
    assert_eq!(admission.ring_used(), 0);
    admission.return_unused(1 << 40, 10);
    assert!(!admission.half_full());
}

#[test]
fn more_than_the_limit_is_admitted_alone() {
    let admission = Admission::new(0, 100);
    admission.reserve(0, 1000, &|| ()).unwrap();
    let asked = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (asked, admission) = (&asked, &admission);
        let relief = move || {
            asked.fetch_add(1, Ordering::AcqRel);
        };
        // More than there is beside it.
        let waiter = scope.spawn(move || admission.reserve(0, 101, &relief));
        while asked.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(admission.delta_used(), 1000);
        admission.release_delta(1000);
        waiter.join().unwrap().unwrap();
    });
    assert_eq!(admission.delta_used(), 101);
}

/// Without threads nobody makes room later, and nobody reports room: memory that a checkpoint
/// released comes back at the next look after another writer has dropped its pin. Once, all writers
/// of a database waited for ever.
#[test]
fn without_threads_the_one_that_waits_makes_room_until_there_is_some() {
    let admission = Admission::new(0, 100).alone(true);
    admission.reserve(0, 100, &|| ()).unwrap();
    let asked = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (asked, admission) = (&asked, &admission);
        // Nobody reports this room: it is there when the relief is asked for the third time.
        let relief = move || {
            if asked.fetch_add(1, Ordering::AcqRel) == 2 {
                admission.delta.give_back(50);
            }
        };
        let waiters = [(); 2].map(|()| scope.spawn(move || admission.reserve(0, 25, &relief)));
        let far = std::time::Instant::now() + Duration::from_secs(60);
        while waiters.iter().any(|waiter| !waiter.is_finished()) {
            if std::time::Instant::now() > far {
                admission.cancel();
            }
            std::thread::yield_now();
        }
        for waiter in waiters {
            waiter.join().unwrap().unwrap();
        }
    });
    assert!(asked.load(Ordering::Acquire) >= 3);
}

#[test]
fn large_requests_go_to_twice_the_limit_and_small_ones_to_the_limit() {
    let admission = Admission::new(0, 100);
    let take = |bytes| admission.try_take(0, bytes, || ());
    assert!(take(60) && take(60) && take(80));
    assert!(!take(26), "no more than twice the limit");
    assert!(!take(1) && !take(25), "nor small ones above it");
    admission.release_delta(140);
    assert!(!take(141) && take(140));
    admission.release_delta(200);
    assert!(take(25) && take(25) && take(25) && take(25) && !take(25));
    assert_eq!(admission.delta_used(), 100);
}

/// It need not wait until nothing is reserved: records that are durable may stay for long.
#[test]
fn more_than_twice_the_limit_is_let_in_alone_over_what_is_within_the_limit() {
    let admission = Admission::new(0, 100);
    let take = |bytes| admission.try_take(0, bytes, || ());
    assert!(take(60) && take(41));
    assert!(
        !take(201) && !take(10_000),
        "more than the limit is reserved"
    );
    admission.release_delta(1);
    assert!(take(201));
    assert!(!take(1) && !take(201), "alone");
    admission.release_delta(201);
    assert!(take(10_000) && !take(1) && !take(10_000));
    // The peak says how much puts need, and this was no usual need.
    admission.let_delta_peak_sink();
    admission.release_delta(10_100);
    assert_eq!(admission.delta_peak(), 200, "twice the limit at most");
}

/// A put need not wait until a large commit has been written.
#[test]
fn beside_one_that_is_alone_others_have_the_limit() {
    let admission = Admission::new(0, 100);
    let take = |bytes| admission.try_take(0, bytes, || ());
    assert!(take(60) && take(1000));
    assert!(!admission.is_behind(), "by what is reserved of the limit");
    assert!(take(30) && take(10) && !take(1), "the limit, and no more");
    assert!(!take(201), "a second one waits");
    assert!(admission.is_behind());
    // What comes back counts as that of the large one first.
    admission.release_delta(700);
    assert!(!take(1));
    admission.release_delta(320);
    assert!(take(20) && !take(1));
    assert_eq!(admission.delta_used(), 100);
    admission.release_delta(100);
    assert!(take(100) && !take(1), "nothing is left over");
    assert_eq!(admission.try_reserve(0, 201), Ok(true), "the next one");
    assert!(!take(1));
}

#[test]
fn after_cancel_every_request_fails() {
    let admission = Admission::new(0, 100);
    admission.cancel();
    assert_eq!(admission.reserve(0, 1, &|| ()), Err(Refused::Cancelled));
    assert_eq!(admission.delta_used(), 0);
}

/// Four threads make small and oversized requests; a fifth returns their room, like the checkpoint.
#[test]
fn nobody_starves() {
    let admission = Admission::new(8 << 10, 1000);
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let admission = &admission;
        for thread in 0..4u64 {
            let sender = sender.clone();
            scope.spawn(move || {
                for turn in 0..300 {
                    let delta = if turn % 50 == thread {
                        1500
                    } else {
                        1 + turn % 300
                    };
                    admission.reserve(100 + turn, delta, &|| ()).unwrap();
                    sender.send((100 + turn, delta)).unwrap();
                }
            });
        }
        drop(sender);
        for (ring, delta) in receiver {
            admission.ring_tail_moved(ring);
            admission.release_delta(delta);
        }
    });
    assert_eq!((admission.ring_used(), admission.delta_used()), (0, 0));
}

#[test]
fn debt_slows_but_never_stops() {
    let admission = Admission::new(0, 1 << 20);
    admission.set_debt(0, 100);
    assert_eq!(admission.debt_share(), 0.0);
    admission.set_debt(50, 100);
    assert_eq!(admission.debt_share(), 0.5);
    admission.set_debt(u64::MAX, 1);
    assert_eq!(admission.debt_share(), 1.0);
    for _ in 0..100 {
        admission
            .reserve(0, 100, &|| panic!("there is room"))
            .unwrap();
        admission.release_delta(100);
    }
    assert!(admission.debt.stats().count <= 100);
    assert_eq!(admission.pace.stats().count, 0);
    assert_eq!(admission.room.stats().count, 0);
}

/// A large room shall last for seconds. A small room cannot, and puts must not crawl for it.
#[test]
fn the_pace_is_that_of_the_room() {
    let millis_to_fill = |limit: u64| {
        let admission = Admission::new(0, limit);
        let record = limit / 512;
        let mut nanos = 0.0;
        for _ in 0..500 {
            admission.adopt(0, record);
            nanos += admission.nanos_per_byte().unwrap_or(0.0) * record as f64;
        }
        nanos / 1e6
    };
    let large = millis_to_fill(4 << 20);
    assert!(large > 700.0, "{large}");
    assert!((millis_to_fill(64 << 20) - large).abs() < 1.0);
    let smaller = millis_to_fill(2 << 20);
    assert!((100.0..large / 2.0).contains(&smaller), "{smaller}");
    assert_eq!(millis_to_fill(1 << 20), 0.0);
}

#[test]
fn the_peak_of_deltas_sinks_to_what_is_reserved() {
    let admission = Admission::new(0, 1000);
    assert_eq!(admission.delta_peak(), 0);
    let reserve = |bytes| admission.reserve(0, bytes, &|| ()).unwrap();
    reserve(800);
    assert_eq!(admission.delta_peak(), 800);
    admission.let_delta_peak_sink();
    admission.release_delta(700);
    assert_eq!(admission.delta_peak(), 800, "noted");
    (0..89).for_each(|_| admission.let_delta_peak_sink());
    assert!(
        (300..500).contains(&admission.delta_peak()),
        "{}",
        admission.delta_peak()
    );
    (0..2000).for_each(|_| admission.let_delta_peak_sink());
    assert_eq!(admission.delta_peak(), 100);
    reserve(500);
    assert_eq!(admission.delta_peak(), 600, "at once");
}
