//! Loom models of the crew's hand-overs.
//! `RUSTFLAGS="--cfg evendb_loom" cargo test --lib loom_l17 --release`

use super::crew::{Crew, Next};
use crate::sync::{Arc, Condvar, Mutex, thread};

/// What a task sees, and what it has seen.
#[derive(Default)]
struct World {
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

/// A task of owner 1 that sleeps until something is left for it.
fn add_sleeper(crew: &Arc<Crew>, world: &Arc<World>) {
    let world = world.clone();
    let turn = move || {
        let mut state = world.state.lock();
        if !state.0 {
            return Next::Asleep;
        }
        state.1 = true;
        world.changed.notify_all();
        Next::Ended
    };
    crew.add((1, 0), false, Box::new(turn))
        .expect("a thread starts");
}

fn is_seen(crew: Crew) {
    let (crew, world) = (Arc::new(crew), Arc::new(World::default()));
    add_sleeper(&crew, &world);
    world.state.lock().0 = true;
    crew.hasten(1, None);
    let mut state = world.state.lock();
    while !state.1 {
        world.changed.wait(&mut state);
    }
}

/// What is left for a task before it is hastened is seen by a turn of it. If it were not, the task
/// would sleep for ever, which loom reports as a deadlock.
#[test]
fn loom_l17_what_is_left_before_a_hastening_is_seen() {
    loom::model(|| is_seen(Crew::new(1)));
}

/// The model notices a crew that forgets tasks that are hastened in the midst of a turn.
#[test]
fn loom_l17_notices_a_forgotten_hastening() {
    let model = || loom::model(|| is_seen(Crew::new(1).forgetting()));
    let panic = std::panic::catch_unwind(model).expect_err("a deadlock");
    let message = panic.downcast_ref::<String>().map_or("", String::as_str);
    assert!(message.contains("deadlock"), "{message}");
}

/// An end returns when no turn runs and none comes, whichever thread runs the turns.
#[test]
fn loom_l17_an_end_waits_for_every_turn() {
    loom::model(|| {
        let (crew, world) = (Arc::new(Crew::new(1)), Arc::new(World::default()));
        add_sleeper(&crew, &world);
        let other = {
            let (crew, world) = (crew.clone(), world.clone());
            thread::spawn(move || {
                world.state.lock().0 = true;
                crew.hasten(1, None);
                crew.end(1);
                assert!(world.state.lock().1, "its last turn has been");
            })
        };
        other.join().expect("ends");
    });
}
