//! Which versions of a key somebody may still read, so that a rewrite has to keep them.
//!
//! ```text
//!   readers             a snapshot at 22; published is 30; later readers are above
//!   versions of a key   31 put   24 delete   20 put   12 put
//!   seen by             later    30 on       22       nobody
//!                                            12 is hidden by 20: no reader is between the two
//! ```
//! Readers are the registered snapshots, and all later readers, which read at the published version
//! or above. So a published record hides an older record of its key if no snapshot lies between the
//! two. A tombstone that all readers see hides all older records. When no older record is left
//! below it, it is useless and can go.
//!
//! What a [`Horizon`] says must hold until the rewrite's result is shown. A snapshot registers at
//! the published version or above, or it registered before the horizon was made. A reader that is
//! not registered (a get) takes the view first and the version afterwards, so what its view lacks
//! was hidden by a record that it sees ([`crate::clock`]).

pub(crate) use evendb_base::horizon::Horizon;
use evendb_storage::{Kind, Version};

/// The versions of one key on their way through a rewrite, newest first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyVersions {
    /// The last record that was not hidden.
    newer: Option<Version>,
}

impl KeyVersions {
    /// Whether the rewrite keeps the next record of the key. `is_bottom`: no older record of the
    /// key is anywhere else.
    pub(crate) fn keeps(
        &mut self,
        version: Version,
        kind: Kind,
        is_bottom: bool,
        horizon: &Horizon,
    ) -> bool {
        if self
            .newer
            .is_some_and(|newer| horizon.may_drop(version, newer))
        {
            return false;
        }
        self.newer = Some(version);
        let is_spent = is_bottom && kind.is_tombstone() && horizon.below_all(version);
        !is_spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The version of the put that a reader at version `at` sees.
    fn seen(records: &[(u64, Kind)], at: u64) -> Option<u64> {
        let first = records.iter().find(|record| record.0 <= at)?;
        (first.1 == Kind::Put).then_some(first.0)
    }

    fn kept(records: &[(u64, Kind)], is_bottom: bool, horizon: &Horizon) -> Vec<(u64, Kind)> {
        let mut versions = KeyVersions::default();
        let keeps =
            |record: &&(u64, Kind)| versions.keeps(Version(record.0), record.1, is_bottom, horizon);
        records.iter().filter(keeps).copied().collect()
    }

    #[test]
    fn the_picture() {
        use Kind::{Delete, Put};
        let records = [(31, Put), (24, Delete), (20, Put), (12, Put)];
        let horizon = Horizon::new(Version(30), vec![Version(22)]);
        assert_eq!(kept(&records, true, &horizon), records[..3]);
        let horizon = Horizon::new(Version(31), vec![]);
        assert_eq!(kept(&records, true, &horizon), records[..1]);
        // A reader at 22 does not see the tombstone; later all readers do.
        let horizon = Horizon::new(Version(30), vec![]);
        assert_eq!(kept(&records, false, &horizon), records[..2]);
        assert_eq!(kept(&records, true, &horizon), records[..1]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        /// Every reader sees the same as before, over older records elsewhere too, and every kept
        /// record is needed.
        #[test]
        fn no_reader_sees_a_difference(
            records in prop::collection::btree_map(1u64..30, prop::bool::ANY, 0..12),
            older in prop::bool::ANY,
            published in 0u64..32,
            snapshots in prop::collection::vec(0u64..32, 0..4),
        ) {
            let kind = |put| if put { Kind::Put } else { Kind::Delete };
            let records: Vec<(u64, Kind)> =
                records.into_iter().rev().map(|(version, put)| (version, kind(put))).collect();
            let snapshots: Vec<u64> = snapshots.into_iter().filter(|&at| at <= published).collect();
            let versions = snapshots.iter().map(|&at| Version(at)).collect();
            let horizon = Horizon::new(Version(published), versions);
            let kept = kept(&records, !older, &horizon);
            let below = [(0, Kind::Put)];
            let with_older = |records: &[(u64, Kind)]| match older {
                true => [records, &below[..]].concat(),
                false => records.to_vec(),
            };
            let readers: Vec<u64> = snapshots.iter().copied().chain(published..33).collect();
            let (before, after) = (with_older(&records), with_older(&kept));
            for &reader in &readers {
                prop_assert_eq!(seen(&before, reader), seen(&after, reader), "reader at {}", reader);
            }
            // Puts that nobody sees are gone.
            for record in kept.iter().filter(|record| record.1 == Kind::Put) {
                prop_assert!(readers.iter().any(|&at| seen(&after, at) == Some(record.0)));
            }
        }
    }
}
