//! Retired objects are dropped by one call, whatever threads have left in front of them. This test
//! is alone in its process, because other tests pin.

use evendb_base::sync::reclaim::{collect, pin, retire};
use std::sync::Arc;
use std::thread;

/// Each thread that ends leaves a bag, and the bags pile up while somebody pins. They once stood in
/// the way: a closed database kept its files open until another database of the process collected.
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
