//! [`Piece`]: the range deletions that neighbouring keys have in common.

use crate::memory::{Charge, Ledger, Use};
use crate::record::{Record, RecordRef};
use crate::version::clock::{checkpoint_of, last_version_of};
use crate::version::horizon::Horizon;
use evendb_storage::Version;
use smallvec::SmallVec;

/// Approximate bytes of a piece with range deletions: two entries of the index, a record, borders
/// of the outline, and its place in the manifest's state.
pub(crate) const PIECE_BYTES: usize = 400;

/// The range deletions of a piece, newest first. Lists share pieces, so each is charged by itself.
#[derive(Clone, Default)]
pub(crate) struct Piece(
    pub(super) SmallVec<[RecordRef; 1]>,
    pub(super) Option<Charge>,
);

impl Piece {
    pub(super) fn of(all: SmallVec<[RecordRef; 1]>, ledger: Ledger) -> Piece {
        let charge = (!all.is_empty()).then(|| Charge::new(ledger, Use::Metadata, PIECE_BYTES));
        Piece(all, charge)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn is_same(&self, other: &Piece) -> bool {
        let same = |(a, b): (&RecordRef, &RecordRef)| std::ptr::eq::<Record>(&**a, &**b);
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(same)
    }

    /// The newest range deletion that a reader at `at` sees.
    #[inline]
    pub(super) fn newest_seen(&self, at: Version) -> Option<&Record> {
        let mut all = self.0.iter().map(|record| &**record);
        all.find(|record| record.is_seen_at(at))
    }

    /// The oldest range deletion that hides `version`, if its checkpoint is `durable_to` or older,
    /// so that it is in the manifest.
    pub(super) fn oldest_above(&self, version: Version, durable_to: u64) -> Option<Version> {
        let durable = last_version_of(durable_to);
        let versions = self.0.iter().rev().map(|record| record.version());
        let above = versions.skip_while(|&own| own <= version);
        above.take(1).find(|&own| own <= durable)
    }

    /// This piece with one more range deletion, which is newer. An older one is dropped if it is of
    /// the same checkpoint and no reader can tell it from the newer one.
    pub(super) fn with_newest(
        &self,
        record: &RecordRef,
        horizon: &Horizon,
        durable_to: u64,
        ledger: Ledger,
    ) -> Piece {
        let mut all: SmallVec<[RecordRef; 1]> = SmallVec::new();
        all.push(record.clone());
        for older in &self.0 {
            let newer = &all[all.len() - 1];
            let (v, w) = (older.version(), newer.version());
            let goes = newer.is_committed()
                && checkpoint_of(v) == checkpoint_of(w)
                && checkpoint_of(v) > durable_to
                && horizon.may_drop(v, w);
            if !goes {
                all.push(older.clone());
            }
        }
        Piece::of(all, ledger)
    }

    /// The range deletions that are still needed once the manifest has the range deletions of
    /// checkpoint `durable_to` and of older checkpoints.
    pub(super) fn pruned(&self, horizon: &Horizon, durable_to: u64, ledger: Ledger) -> Piece {
        let mut all: SmallVec<[RecordRef; 1]> = SmallVec::new();
        let durable = |version| checkpoint_of(version) <= durable_to;
        for older in &self.0 {
            let goes = all.last().is_some_and(|newer| {
                let (v, w) = (older.version(), newer.version());
                durable(w) && horizon.may_drop(v, w)
            });
            if !goes {
                all.push(older.clone());
            }
        }
        Piece::of(all, ledger)
    }
}
