//! The plan of a refill: its chunk, which layers it reads there below the deltas, and where it
//! ends.
//!
//! ```text
//!   keys of a chunk   |  span in RAM  |   absent   | in RAM, deleted |
//!   below the deltas  |  munk         |   funk     | nothing         |   a refill ends at each border
//! ```
//! Deltas are read everywhere, munk and funk never both: this is the order of layers of
//! `chunk/view.rs`, for stretches of keys in place of one key.
//!
//! Thread safety: a view does not change. Not here: the fills (`mod.rs`).

use crate::chunk::index::Index;
use crate::chunk::{Chunk, View};
use crate::munk::Munk;
use crate::read::scan::range_deletions::{self, Below};
use crate::read::tables::Direction;
use crate::sync::Arc;
use evendb_storage::Version;

/// The chunk in which a refill from `position` begins.
pub(crate) fn chunk_at<'i>(
    index: &'i Index<Chunk>,
    direction: Direction,
    position: Option<&[u8]>,
) -> Option<&'i Arc<Chunk>> {
    match (direction, position) {
        (Direction::Forward, key) => Some(index.find(key.unwrap_or_default())),
        (Direction::Backward, None) => Some(index.last()),
        (Direction::Backward, Some(key)) => index.find_below(key),
    }
}

/// The key where a refill from `chunk` has to stop, and whether nothing wanted lies beyond the
/// chunk.
pub(crate) fn chunk_limit(
    chunk: &Chunk,
    direction: Direction,
    low: &[u8],
    high: Option<&[u8]>,
) -> (Option<Vec<u8>>, bool) {
    let range = &chunk.range;
    match direction {
        Direction::Forward => match (high, range.high.as_deref()) {
            (Some(high), Some(limit)) if limit < high => (Some(limit.to_vec()), false),
            (None, Some(limit)) => (Some(limit.to_vec()), false),
            (high, _) => (high.map(<[u8]>::to_vec), true),
        },
        Direction::Backward if *range.low > *low => (Some(range.low.to_vec()), false),
        Direction::Backward => (Some(low.to_vec()), true),
    }
}

/// The source that a refill reads below the deltas.
#[derive(Clone, Copy)]
pub(crate) enum Source<'v> {
    /// Range deletions hide everything there.
    Nothing,
    /// The munk, which has these keys.
    Munk(&'v Munk),
    /// All tables of the funk.
    Funk,
    /// The tables of the funk that may have records of this version or newer ones: range deletions
    /// hide the others.
    TablesFrom(Version),
}

impl Source<'_> {
    /// Whether a refill from it reads nothing from the disk.
    pub(super) fn is_in_ram(self) -> bool {
        matches!(self, Source::Nothing | Source::Munk(_))
    }

    /// Whether a refill of this view reads files.
    pub(super) fn reads(self, view: &View) -> bool {
        !self.is_in_ram() && !view.funk.has_no_tables()
    }

    /// The version below which range deletions hide the records of tables.
    pub(super) fn least_in_tables(self) -> Version {
        match self {
            Source::TablesFrom(least) => least,
            Source::Nothing | Source::Munk(_) | Source::Funk => Version::ZERO,
        }
    }
}

/// What a refill reads below the deltas, and its end.
pub(crate) struct RefillPlan<'v> {
    pub(crate) source: Source<'v>,
    pub(crate) to: Option<Vec<u8>>,
    /// No wanted record lies behind `to`.
    pub(crate) last: bool,
}

/// Plans a refill at `from`, which may go as far as `to`: it ends where it would have to read
/// another source.
pub(crate) fn plan_refill<'v>(
    view: &'v View,
    direction: Direction,
    from: Option<&[u8]>,
    at: Version,
    (mut to, mut last): (Option<Vec<u8>>, bool),
) -> RefillPlan<'v> {
    // The keys from here on that the munk has or lacks together.
    let segment = view.munk.as_deref().map(|munk| match direction {
        Direction::Forward => munk.segment_from(from),
        Direction::Backward => munk.segment_below(from),
    });
    let is_present = segment.is_some_and(|segment| segment.present);
    let munk = view.munk.as_deref().filter(|_| is_present);
    let beneath = range_deletions::beneath(view, direction, from, at, munk.is_some());
    let ends = [
        segment.and_then(|segment| match direction {
            Direction::Forward => segment.high,
            Direction::Backward => segment.low,
        }),
        beneath.and_then(|beneath| beneath.end),
    ];
    for end in ends.into_iter().flatten() {
        if narrows(direction, end, to.as_deref()) {
            (to, last) = (Some(end.to_vec()), false);
        }
    }
    let source = match (beneath.map(|beneath| beneath.below), munk) {
        (Some(Below::Nothing), _) => Source::Nothing,
        (_, Some(munk)) => Source::Munk(munk),
        (Some(Below::TablesFrom(least)), None) => Source::TablesFrom(least),
        (None, None) => Source::Funk,
    };
    RefillPlan { source, to, last }
}

/// Whether a refill that has to stop at `limit` stops before `to`.
fn narrows(direction: Direction, limit: &[u8], to: Option<&[u8]>) -> bool {
    match direction {
        Direction::Forward => to.is_none_or(|to| *limit < *to),
        Direction::Backward => to.is_none_or(|to| *limit > *to),
    }
}
