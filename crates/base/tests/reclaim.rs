//! What was retired goes by one call, whatever threads have left in front of it. Alone in its process: other tests pin.

use evendb_base::sync::reclaim::{collect, pin, retire};
use std::sync::Arc;
use std::thread;

/// Each thread that ends leaves a bag, and they pile up while somebody pins. They stood in the way: a database that was closed kept
/// its files open until another one of the process collected.
#[test]
fn what_is_behind_the_bags_of_many_ended_threads_is_collected_at_once() {
    let held = pin();
    for _ in 0..200 {
        thread::spawn(|| drop(pin())).join().expect("it pins");
    }
    let retired = Arc::new("retired");
    retire(&held, retired.clone());
    drop(held);
    assert_eq!(Arc::strong_count(&retired), 2);
    collect();
    assert_eq!(Arc::strong_count(&retired), 1);
}
