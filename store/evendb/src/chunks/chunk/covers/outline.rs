//! A quick way to find keys of a chunk that have no range deletion for certain: a look at a few
//! cache lines.
//!
//! ```text
//!   pieces     |  none   |  5  |  8 5  | none         | 3 |  none      every piece with its list
//!   outline    0         1             0              1   0           a border where keys with
//!                                                                     range deletions begin or end
//!   heads: eight bytes of each border after the prefix that all borders share; the lowest bit says
//!          whether keys behind the border have range deletions
//! ```
//! Nearly every get asks for a key that has no range deletion. The index of pieces answers that by
//! two searches and three pointers. Here it is one search without branches over heads that lie side
//! by side. While it is under way, the processor goes on with the search of the munk, because the
//! answer is nearly always the same.
//!
//! A key whose head equals that of a border is not decided here: the index is asked. The index is
//! also asked for a key with a range deletion, which the reader may not see.
//!
//! Thread safety: immutable. Not here: when it is made ([`super::Covers`]).

use super::Piece;
use crate::chunk::index::{Index, head};
use std::cmp::Ordering;

/// The lowest bit of a border's head: whether keys behind it have a range deletion.
const ANY: u64 = 1;

/// See the module.
pub(super) struct Outline {
    /// The prefix of all borders.
    pub(super) shared: Box<[u8]>,
    /// Ascending, except for the lowest bit.
    borders: Box<[u64]>,
    /// Whether keys before the first border have range deletions.
    first: bool,
}

impl Outline {
    pub(super) fn of(pieces: &Index<Piece>) -> Outline {
        let mut lows: Vec<(&[u8], bool)> = Vec::new();
        for (low, piece) in pieces.iter() {
            let any = !piece.is_empty();
            if lows.last().is_none_or(|(_, last)| *last != any) {
                lows.push((low, any));
            }
        }
        let first = lows[0].1;
        let lows = &lows[1..];
        let shared = match lows {
            [] => &[][..],
            [(only, _)] => &only[..only.len().saturating_sub(8)],
            [(first, _), .., (last, _)] => {
                let pairs = first.iter().zip(last.iter());
                &first[..pairs.take_while(|(a, b)| a == b).count()]
            }
        };
        let border =
            |(low, any): &(&[u8], bool)| head(&low[shared.len()..]) & !ANY | u64::from(*any);
        Outline {
            borders: lows.iter().map(border).collect(),
            shared: shared.into(),
            first,
        }
    }

    /// The number of borders at or below `key`; `None` if its head equals that of a border.
    #[inline]
    fn borders_below(&self, key: &[u8]) -> Option<usize> {
        let shared = &*self.shared;
        match key[..shared.len().min(key.len())].cmp(shared) {
            Ordering::Less => Some(0),
            Ordering::Greater => Some(self.borders.len()),
            Ordering::Equal => {
                let wanted = head(&key[shared.len()..]) & !ANY;
                let below = self.borders.partition_point(|&border| border < wanted);
                let next = self.borders.get(below);
                let is_border = next.is_some_and(|&border| border & !ANY == wanted);
                (!is_border).then_some(below)
            }
        }
    }

    /// Whether keys after the first `borders` borders, up to the next border, have no range
    /// deletion.
    #[inline]
    fn has_none_behind(&self, borders: usize) -> bool {
        match borders.checked_sub(1) {
            Some(last) => self.borders[last] & ANY == 0,
            None => !self.first,
        }
    }

    /// Whether it is certain that `key` has no range deletion.
    #[inline]
    pub(super) fn leaves_out(&self, key: &[u8]) -> bool {
        let below = self.borders_below(key);
        below.is_some_and(|below| self.has_none_behind(below))
    }

    /// Whether it is certain that no key from `key` to below `end` has a range deletion.
    #[inline]
    pub(super) fn leaves_out_between(&self, key: &[u8], end: &[u8]) -> bool {
        let Some(below) = self
            .borders_below(key)
            .filter(|&own| self.has_none_behind(own))
        else {
            return false;
        };
        let Some(next) = self.borders.get(below) else {
            return true;
        };
        let shared = &*self.shared;
        match end[..shared.len().min(end.len())].cmp(shared) {
            Ordering::Less => true,
            Ordering::Equal => head(&end[shared.len()..]) & !ANY < next & !ANY,
            Ordering::Greater => false,
        }
    }
}
