//! The epochs in the manifest, and the commit log: which part of the log each epoch wrote, and
//! whether the machine has run since.

use super::edit::EpochRecord;
use super::state::ManifestState;
use crate::commit_log::{Lsn, Segment};
use evendb_storage::vfs::Vfs;

/// Whether the machine has run all the time since the last life began: then everything that
/// processes wrote since is there, synced or not.
pub(crate) fn same_boot(state: &ManifestState, vfs: &dyn Vfs) -> bool {
    let boot = state.epochs.back().and_then(|epoch| epoch.boot);
    boot.is_some() && boot == vfs.boot_id()
}

/// The parts of the commit log that are not empty. See [`lives`].
pub(crate) fn segments(state: &ManifestState) -> Vec<Segment> {
    let mut lives = lives(state);
    lives.retain(|life| life.closed_at.is_none_or(|closed| life.start < closed));
    lives
}

/// Each epoch ends where the first later epoch begins that found it shorter. A power loss can cut
/// the log below the end that an opening found before it, and the epoch after goes on there. An
/// epoch that begins above that cut is empty.
pub(crate) fn lives(state: &ManifestState) -> Vec<Segment> {
    let mut closed_at: Option<Lsn> = None;
    let mut lives: Vec<Segment> = Vec::with_capacity(state.epochs.len());
    for epoch in state.epochs.iter().rev() {
        lives.push(Segment {
            epoch: epoch.epoch,
            seed: epoch.seed,
            start: epoch.start,
            closed_at,
        });
        let closed = epoch.previous_closed_at;
        closed_at = Some(closed_at.map_or(closed, |later| later.min(closed)));
    }
    lives.reverse();
    lives
}

/// Like [`lives`], with the epoch that begins now.
pub(crate) fn with_next(mut lives: Vec<Segment>, next: &EpochRecord) -> Vec<Segment> {
    let closed = next.previous_closed_at;
    for life in &mut lives {
        life.closed_at = Some(life.closed_at.map_or(closed, |later| later.min(closed)));
    }
    lives.push(Segment {
        epoch: next.epoch,
        seed: next.seed,
        start: next.start,
        closed_at: None,
    });
    lives
}
