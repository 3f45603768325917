//! Mending: an image without the records that range deletions hide, so that it can stay when the
//! range deletions leave.
//!
//! For the image this is an absorb of a tombstone for each hidden key. Every reader reads at the
//! tombstones' versions or above, so no tombstone stays, and no record that is older.
//!
//! Thread safety: as the image.

use super::{Image, MunkInput};
use crate::folding::Folding;
use crate::version::horizon::Horizon;
use evendb_storage::{EntryRef, Kind, Version};

/// An image without hidden records.
pub(crate) enum Mended {
    /// No record is hidden.
    Same,
    Without(Image),
    /// A key has a hidden record below a visible one. No tombstone can come between them, so the
    /// image has to go.
    Mixed,
}

impl Image {
    /// The image without the records whose version is smaller than `hidden_below` gives for their
    /// key (zero: none is hidden). Every reader of `horizon` reads at or above these versions.
    /// `folding` knows all range deletions in the manifest, because newer ones may lie between
    /// operands of keys of the same pages.
    pub(crate) fn mended(
        &self,
        hidden_below: &mut dyn FnMut(&[u8]) -> Version,
        horizon: &Horizon,
        folding: Folding<'_>,
    ) -> Mended {
        let mut hidden: Vec<EntryRef<'_>> = Vec::new();
        let mut entries = self.entries_from(None);
        let (mut key, mut below, mut newest_is_hidden) = (None, Version::ZERO, false);
        while let Some(entry) = entries.entry() {
            if key != Some(entry.key) {
                (key, below) = (Some(entry.key), hidden_below(entry.key));
                debug_assert!(horizon.below_all(below), "a reader sees what is hidden");
                newest_is_hidden = entry.version < below;
                hidden.extend(newest_is_hidden.then_some(EntryRef {
                    key: entry.key,
                    version: below,
                    kind: Kind::Delete,
                    value: &[],
                }));
            } else if entry.version < below && !newest_is_hidden {
                return Mended::Mixed;
            }
            entries.advance();
        }
        match hidden.is_empty() {
            true => Mended::Same,
            false => {
                let mut tombstones = Tombstones(&hidden);
                let image = self.absorb(&mut tombstones, horizon, true, folding);
                Mended::Without(image)
            }
        }
    }
}

struct Tombstones<'t>(&'t [EntryRef<'t>]);

impl MunkInput for Tombstones<'_> {
    fn current(&self) -> Option<EntryRef<'_>> {
        self.0.first().copied()
    }

    fn advance(&mut self) {
        self.0 = self.0.get(1..).unwrap_or_default();
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;
