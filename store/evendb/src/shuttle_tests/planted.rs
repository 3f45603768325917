//! A scenario notices each planted fault.

use super::transactions;
use super::{batches, finds, freeze, guards, layouts, lifecycle, munks, notices, ranges};
use crate::Durability;
use crate::plant::Plant;
use shuttle::scheduler::PctScheduler;

/// Part of the error of a manifest that refused an edit, and of the next write to it; either thread
/// may report first. Nothing else fails there on this disk.
const REFUSED: &str = "append to the manifest";

#[test]
fn shuttle_p4_no_freeze() {
    assert!(notices(20_000, None, || freeze::recovery_to_a_checkpoint(
        Plant::NoFreeze
    )));
}

#[test]
fn shuttle_p5_stamp_before_the_last_link() {
    assert!(notices(20_000, None, || batches::whole_batches(
        Plant::EarlyStamp
    )));
}

#[test]
fn shuttle_p6_early_unlatch() {
    assert!(notices(20_000, Some("a put above a pending batch"), || {
        batches::put_upon_a_batch(Plant::EarlyUnlatch)
    }));
}

#[test]
fn shuttle_p7_no_row_check() {
    assert!(notices(20_000, None, || munks::rows(Plant::NoRowCheck)));
}

/// About one in 80 schedules shows the fault. Each of these seeds must show it, so the test does
/// not depend on luck.
#[test]
fn shuttle_p8_row_check_of_the_old_chunk() {
    for seed in 0..20 {
        let scheduler = PctScheduler::new_from_seed(seed, 3, 5000);
        let found = finds(Box::new(scheduler), None, || {
            munks::row_across_a_split(Plant::RowCheckOfOldChunk)
        });
        assert!(found, "seed {seed}");
    }
}

#[test]
fn shuttle_p10_tombstone_dropped_in_a_run() {
    assert!(notices(100, None, || munks::deleted(
        Plant::NoTombstonesInRuns
    )));
}

/// About one in 2,700 schedules shows the fault.
#[test]
fn shuttle_p13_tail_before_the_manifest_edit() {
    assert!(notices(100_000, None, || freeze::killed_at_any_time(
        Plant::EarlyTail,
        Durability::Process,
        8
    )));
}

#[test]
fn shuttle_p14_rows_not_updated_with_a_munk() {
    assert!(notices(20_000, None, || munks::rows_beside_a_munk(
        Plant::NoRowsWithMunk
    )));
}

#[test]
fn shuttle_p15_layout_change_under_a_run() {
    assert!(notices(20_000, Some(REFUSED), || {
        layouts::rebalance_and_checkpoint(Plant::LayoutUnderRun)
    }));
}

#[test]
fn shuttle_p16_deltas_not_kept_for_a_load() {
    assert!(notices(20_000, None, || munks::munks_and_checkpoints(
        Plant::NotKeptForLoad
    )));
}

#[test]
fn shuttle_p23_deltas_leave_with_spans() {
    assert!(notices(20_000, None, || munks::spans_and_checkpoints(
        Plant::DeltasLeaveWithSpans
    )));
}

#[test]
fn shuttle_p98_parts_keep_deltas() {
    assert!(notices(20_000, None, || munks::parts_and_checkpoints(
        Plant::PartsKeepDeltas
    )));
}

#[test]
fn shuttle_p24_reads_not_latched() {
    assert!(notices(20_000, None, || transactions::write_skew(
        Plant::ReadsNotLatched
    )));
}

#[test]
fn shuttle_p25_a_look_at_deltas_alone() {
    assert!(notices(20_000, None, || transactions::counter(
        Plant::LooksAtDeltasAlone
    )));
}

#[test]
fn shuttle_p56_a_put_into_what_is_emptied_is_not_told() {
    assert!(notices(20_000, None, || transactions::pops(
        Plant::EmptiedStays
    )));
}

/// Schedules with few preemptions show the fault, as they did at first; random schedules hardly
/// ever do.
#[test]
fn shuttle_p20_replaced_chunks_end_a_checkpoint() {
    for seed in 0..20 {
        let scheduler = PctScheduler::new_from_seed(seed, 3, 5000);
        let found = finds(Box::new(scheduler), None, || {
            layouts::replaced_under_a_checkpoint(Plant::GoneIsTheEnd)
        });
        assert!(found, "seed {seed}");
    }
}

/// Schedules with few preemptions show the fault, like P20.
#[test]
fn shuttle_p21_snapshots_beside_the_end_of_a_keyspace() {
    let scheduler = PctScheduler::new_from_seed(1, 3, 20_000);
    assert!(finds(Box::new(scheduler), None, || {
        lifecycle::snapshot_beside_a_drop(Plant::EndsBesideSnapshots)
    }));
}

#[test]
fn shuttle_p26_a_range_deletion_shares_its_version() {
    assert!(notices(1_000, None, || ranges::deleted_at_once(
        Plant::RangeSharesVersion
    )));
}

#[test]
fn shuttle_p27_rows_stay_within_reach_of_a_range_deletion() {
    assert!(notices(5_000, None, || ranges::rows_beside_a_deletion(
        Plant::RowTagKept
    )));
}

#[test]
fn shuttle_p28_a_split_loses_range_deletions() {
    assert!(notices(5_000, None, || ranges::deleted_at_once(
        Plant::SplitLosesCovers
    )));
}

#[test]
fn shuttle_p37_a_write_to_a_dropped_keyspace_is_queued() {
    assert!(notices(1_000, Some(REFUSED), || {
        lifecycle::writes_beside_a_drop(Plant::QueuesDropped)
    }));
}

/// Nearly every schedule with few preemptions shows the fault: the flush yields at the place where
/// it should have entered.
#[test]
fn shuttle_p99_a_flush_outside_of_the_gate() {
    let scheduler = PctScheduler::new_from_seed(0, 3, 200);
    assert!(finds(Box::new(scheduler), None, || {
        lifecycle::opened_again_beside_calls(Plant::FlushesOutside)
    }));
}

#[test]
fn shuttle_guards_p107_runs_leave_with_others() {
    assert!(notices(20_000, None, || {
        guards::checkpoints_beside_compactions(Plant::RunsLeaveWithOthers)
    }));
}
