use super::*;
use std::thread;

fn failed() -> Error {
    Error::new(ErrorKind::Io, "the last thing failed")
}

fn last_thing(closed: &AtomicUsize) -> Result<()> {
    closed.store(1, Ordering::Relaxed);
    Ok(())
}

/// Gives the closing thread every chance to run its last step although a call is inside. A thread
/// that does not wait needs no help to do that.
fn check_that_it_waits(gate: &Gate, closed: &AtomicUsize) {
    while !gate.is_shut() {
        thread::yield_now();
    }
    for _ in 0..10_000 {
        let closed = closed.load(Ordering::Relaxed);
        assert_eq!(closed, 0, "closed although somebody was inside");
        assert!(!gate.is_empty(), "nobody counts as inside");
        thread::yield_now();
    }
}

#[test]
fn closing_waits_for_who_is_inside_and_turns_others_away() {
    let gate = Gate::default();
    let closed = AtomicUsize::new(0);
    thread::scope(|scope| {
        let inside = gate.enter().unwrap();
        let closes = scope.spawn(|| gate.close(|| (), || last_thing(&closed)));
        check_that_it_waits(&gate, &closed);
        let refused = thread::scope(|scope| scope.spawn(|| gate.enter().err()).join().unwrap());
        assert_eq!(refused.unwrap().kind(), ErrorKind::Closed);
        // A call within a running call is refused, too, and does not wait.
        assert_eq!(gate.enter().unwrap_err().kind(), ErrorKind::Closed);
        drop(inside);
        closes.join().unwrap().unwrap();
    });
    assert!(gate.is_empty() && closed.into_inner() == 1);
}

#[test]
fn closing_waits_for_what_a_helper_holds() {
    let gate = Arc::new(Gate::default());
    let held = gate.hold().unwrap();
    assert!(!gate.is_inside(), "no thread is inside");
    let closed = AtomicUsize::new(0);
    thread::scope(|scope| {
        let closes = scope.spawn(|| gate.close(|| (), || last_thing(&closed)));
        check_that_it_waits(&gate, &closed);
        assert_eq!(gate.hold().unwrap_err().kind(), ErrorKind::Closed);
        // A helper ends in a thread of its own.
        scope.spawn(|| drop(held));
        closes.join().unwrap().unwrap();
    });
    assert!(gate.is_empty() && closed.into_inner() == 1);
}

#[test]
fn of_several_that_close_one_does_and_all_have_its_result() {
    let gate = Gate::default();
    let times = AtomicUsize::new(0);
    let ended = AtomicUsize::new(0);
    let close = || {
        let outcome = gate.close(
            || (),
            || {
                times.fetch_add(1, Ordering::Relaxed);
                thread::yield_now();
                ended.store(1, Ordering::Relaxed);
                Err(failed())
            },
        );
        assert_eq!(ended.load(Ordering::Relaxed), 1, "told before it was done");
        outcome.unwrap_err().to_string()
    };
    thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(close)).collect();
        for one in all {
            assert_eq!(one.join().unwrap(), failed().to_string());
        }
    });
    assert_eq!(close(), failed().to_string(), "a later one, too");
    assert_eq!(times.load(Ordering::Relaxed), 1);
}

#[test]
fn a_thread_that_is_inside_cannot_close_and_another_gate_is_not_concerned() {
    let (gate, other) = (Gate::default(), Gate::default());
    let close = |gate: &Gate| gate.close(|| (), || Ok(()));
    let outer = gate.enter().unwrap();
    let inner = other.enter().unwrap();
    let again = gate.enter().unwrap();
    assert_eq!(close(&gate).unwrap_err().kind(), ErrorKind::InvalidArgument);
    drop(outer);
    assert!(gate.is_inside() && other.is_inside());
    drop(again);
    assert!(!gate.is_inside());
    drop(inner);
    let mark = other.mark();
    assert_eq!(
        close(&other).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    close(&gate).unwrap();
    drop(mark);
    close(&other).unwrap();
}

#[test]
fn others_that_close_are_told_when_the_one_that_does_it_panics() {
    let gate = Gate::default();
    let panics = thread::scope(|scope| {
        scope
            .spawn(|| gate.close(|| (), || panic!("planned")))
            .join()
    });
    assert!(panics.is_err());
    let error = gate.close(|| (), || Ok(())).unwrap_err();
    assert!(error.to_string().contains("panicked"), "{error}");
}

/// Threads come and go while the gate is shut: none is inside after closing.
#[test]
fn nobody_is_inside_after_closing() {
    for _ in 0..200 {
        let gate = Gate::default();
        let (inside, closed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while let Ok(_inside) = gate.enter() {
                        inside.fetch_add(1, Ordering::Relaxed);
                        assert_eq!(closed.load(Ordering::Relaxed), 0, "inside after closing");
                        inside.fetch_sub(1, Ordering::Relaxed);
                    }
                });
            }
            let last = || {
                closed.store(1, Ordering::Relaxed);
                assert_eq!(inside.load(Ordering::Relaxed), 0, "closed beside a call");
                Ok(())
            };
            gate.close(|| (), last).unwrap();
        });
    }
}
