//! Mending: an image without what range deletions hide, so that it can stay when they leave.
//!
//! To the image it is an absorb of a tombstone for each key that is hidden. Every reader reads at the tombstones' versions
//! or above, so none of them stays, and nothing that is older.
//!
//! Thread safety: as the image.

use super::{Image, MunkInput};
use crate::folding::Folding;
use crate::version::horizon::Horizon;
use evendb_storage::{EntryRef, Kind, Version};

/// An image without what is hidden.
pub(crate) enum Mended {
    /// Nothing of it is.
    Same,
    Without(Image),
    /// A key has something hidden below a record that is not. No tombstone comes between them, so the image has to go.
    Mixed,
}

impl Image {
    /// Without the records that have a smaller version than `hidden_below` says of their keys (zero: none is hidden), at or
    /// above which every reader of `horizon` reads. `folding` knows all range deletions that are in the manifest: newer ones than
    /// these may lie between operands of keys of the same pages.
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
