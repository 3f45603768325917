//! A scenario notices each planted fault of a step between threads. The other faults are in
//! `plant/tests.rs`.

use super::{finds, groups, hand_over, lifecycle, notices};
use crate::plant::Plant;
use shuttle::scheduler::PctScheduler;

/// Shuttle's word for a schedule in which no thread can go on.
const DEADLOCK: &str = "deadlock";

#[test]
fn shuttle_p69_shown_before_all_records_are_in() {
    assert!(notices(20_000, None, || groups::whole_batches(
        Plant::ShownEarly
    )));
}

#[test]
fn shuttle_p72_a_reader_registers_late() {
    assert!(notices(50_000, None, || hand_over::snapshots(
        Plant::RegistersLate
    )));
}

#[test]
fn shuttle_p73_a_memory_table_leaves_first() {
    assert!(notices(20_000, None, || hand_over::flushes(
        Plant::MemoryLeavesFirst
    )));
}

/// A fault that really happened: the last writers of all hung.
#[test]
fn shuttle_p75_a_wake_up_of_the_next_group_is_taken() {
    assert!(notices(50_000, Some(DEADLOCK), || {
        groups::writers_that_end(Plant::WaitsForNextGroup)
    }));
}

/// A fault that really happened: writers waited for a compaction that was over.
#[test]
fn shuttle_p76_the_length_of_level_0_is_told_late() {
    assert!(notices(50_000, Some(DEADLOCK), || hand_over::stops(
        2,
        Plant::LevelToldLate
    )));
}

/// A fault that really happened.
#[test]
fn shuttle_p77_a_drop_is_noted_late() {
    assert!(notices(20_000, None, || {
        lifecycle::snapshot_beside_a_drop(Plant::DropNotedLate)
    }));
}

/// Nearly every schedule with few preemptions shows it: the flush yields where it should have
/// entered.
#[test]
fn shuttle_p99_a_flush_outside_of_the_gate() {
    let scheduler = PctScheduler::new_from_seed(0, 3, 200);
    assert!(finds(Box::new(scheduler), Some(DEADLOCK), || {
        lifecycle::opened_again_beside_flushes(Plant::FlushesOutside)
    }));
}
