//! The records that range deletions hide from reads (`chunk/covers/mod.rs`), and the sources that
//! need not be read because of them.
//!
//! ```text
//!   range deletion     |---------- 9 ----------|             a scan at 12
//!   deltas               10        11                  12    read everywhere
//!   munk, tables        4 5 6 3 2 1 7 3 2 4 5 6      8   9   not read where all are below 9
//! ```
//! The deciding record is hidden if a range deletion that the reader sees has the key and a greater
//! version. A scan that begins within a range deletion reads, up to its end, only the sources that
//! may have something newer: [`beneath`]. A scan that comes to a range deletion reads on, because
//! range deletions are usually short; after a number of hidden records it begins again within the
//! range deletion.
//!
//! Thread safety: under the caller's pin, or on a counted view. Not here: how a chunk gets its
//! range deletions.

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;

use crate::chunk::View;
use crate::chunk::covers::{Covers, Stretch};
use crate::read::tables::Direction;
use evendb_storage::Version;

/// The number of hidden records in a row that are read one by one.
const HIDDEN_IN_A_ROW_MAX: u32 = 24;

/// The part below the deltas that a refill reads if it begins within a range deletion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Below {
    /// Nothing: all records there are older than the range deletion.
    Nothing,
    /// Tables that may have records of this version or newer ones.
    TablesFrom(Version),
}

/// The part to read below the deltas, and its end; `end` is `None` at the chunk's limit.
#[derive(Clone, Copy)]
pub(super) struct Beneath<'v> {
    pub(super) below: Below,
    pub(super) end: Option<&'v [u8]>,
}

/// The part below the deltas that a refill at `from` reads. `None` means everything, as if there
/// were no range deletion. `in_ram` says that the munk has these keys.
pub(super) fn beneath<'v>(
    view: &'v View,
    direction: Direction,
    from: Option<&[u8]>,
    at: Version,
    in_ram: bool,
) -> Option<Beneath<'v>> {
    let covers = view.covers.as_ref()?;
    if in_ram && view.munk_is_mended() {
        return None;
    }
    let mut stretch = match direction {
        Direction::Forward if covers.leaves_out(from.unwrap_or_default()) => return None,
        Direction::Forward => covers.stretch(from.unwrap_or_default()),
        Direction::Backward => covers.stretch_below(from)?,
    };
    let mut below = below(view, &stretch, at, in_ram)?;
    let mut end = end_of(&stretch, direction);
    // Joins the following stretches in which nothing is read, either.
    while below == Below::Nothing
        && let Some(next) = behind(covers, &stretch, direction)
        && next.hidden_below(at) > view.funk.max_version
    {
        end = end_of(&next, direction);
        stretch = next;
        below = Below::Nothing;
    }
    Some(Beneath { below, end })
}

fn end_of<'v>(stretch: &Stretch<'v>, direction: Direction) -> Option<&'v [u8]> {
    match direction {
        Direction::Forward => stretch.high,
        Direction::Backward => Some(stretch.low).filter(|low| !low.is_empty()),
    }
}

fn behind<'v>(
    covers: &'v Covers,
    stretch: &Stretch<'v>,
    direction: Direction,
) -> Option<Stretch<'v>> {
    match direction {
        Direction::Forward => covers.stretch_behind(stretch),
        Direction::Backward if stretch.low.is_empty() => None,
        Direction::Backward => covers.stretch_below(Some(stretch.low)),
    }
}

fn below(view: &View, stretch: &Stretch<'_>, at: Version, in_ram: bool) -> Option<Below> {
    let hidden_below = stretch.hidden_below(at);
    if hidden_below == Version::ZERO {
        return None;
    }
    let tables = || view.funk.tables().map(|table| &table.part.meta);
    let is_newer_there = tables()
        .any(|meta| meta.max_version >= hidden_below && meta.overlaps(stretch.low, stretch.high));
    if !is_newer_there {
        return Some(Below::Nothing);
    }
    let spares = !in_ram && tables().any(|meta| meta.max_version < hidden_below);
    spares.then_some(Below::TablesFrom(hidden_below))
}

/// The treatment of a deciding record by a fill.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Shown,
    Hidden,
    /// Hidden, like many records before it: the fill should begin again behind it, because what
    /// follows need not be read.
    Long,
}

/// Looks at the deciding record of `key`, which has this version.
#[inline]
pub(super) fn look_at(shade: &mut Option<Shade<'_>>, key: &[u8], version: Version) -> Look {
    match shade {
        None => Look::Shown,
        Some(shade) => shade.look(key, version),
    }
}

/// The keys that range deletions hide from a fill that goes through the keys in order.
pub(crate) struct Shade<'v> {
    view: &'v View,
    covers: &'v Covers,
    at: Version,
    in_ram: bool,
    /// The stretch that has the current key.
    stretch: Stretch<'v>,
    hidden_below: Version,
    /// Hidden records since the last one that was shown.
    in_a_row: u32,
}

impl<'v> Shade<'v> {
    /// `None` where range deletions hide nothing.
    #[inline]
    pub(super) fn new(view: &'v View, at: Version, in_ram: bool) -> Option<Shade<'v>> {
        let covers = view.covers.as_deref()?;
        if in_ram && view.munk_is_mended() {
            return None;
        }
        let stretch = covers.first_stretch();
        Some(Shade {
            hidden_below: stretch.hidden_below(at),
            view,
            covers,
            at,
            in_ram,
            stretch,
            in_a_row: 0,
        })
    }

    #[inline]
    fn is_in_stretch(&self, key: &[u8]) -> bool {
        *key >= *self.stretch.low && self.stretch.high.is_none_or(|high| *key < *high)
    }

    /// Moves to the stretch of `key`.
    #[inline]
    fn go_to(&mut self, key: &[u8]) {
        if !self.is_in_stretch(key) {
            self.leave_for(key);
        }
    }

    /// Moves to another stretch; for a forward scan it is usually the next one.
    fn leave_for(&mut self, key: &[u8]) {
        let is_behind = self.stretch.high.is_some_and(|high| *key >= *high);
        let next = self.covers.stretch_behind(&self.stretch);
        let next = next.filter(|next| is_behind && next.high.is_none_or(|high| *key < *high));
        self.stretch = next.unwrap_or_else(|| self.covers.stretch(key));
        self.hidden_below = self.stretch.hidden_below(self.at);
    }

    #[inline]
    fn look(&mut self, key: &[u8], version: Version) -> Look {
        if version <= self.covers.newest() {
            self.go_to(key);
            if version < self.hidden_below {
                return self.look_on();
            }
        }
        self.in_a_row = 0;
        Look::Shown
    }

    /// Counts a hidden record, and says whether to go on.
    fn look_on(&mut self) -> Look {
        self.in_a_row += 1;
        if self.in_a_row < HIDDEN_IN_A_ROW_MAX {
            return Look::Hidden;
        }
        self.in_a_row = 0;
        match below(self.view, &self.stretch, self.at, self.in_ram) {
            Some(_) => Look::Long,
            None => Look::Hidden,
        }
    }

    /// Whether no record from `key` to below `end` is hidden.
    #[inline]
    pub(super) fn leaves_alone(&mut self, key: &[u8], end: &[u8]) -> bool {
        if !self.is_in_stretch(key) && self.covers.leaves_out_between(key, end) {
            return true;
        }
        self.go_to(key);
        let is_within = self.stretch.high.is_none_or(|high| *end <= *high);
        is_within && self.hidden_below == Version::ZERO
    }
}
