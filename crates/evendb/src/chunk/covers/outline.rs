//! Which keys of a chunk have no range deletion for certain: a look at a few cache lines.
//!
//! ```text
//!   pieces     |  none   |  5  |  8 5  | none         | 3 |  none      every piece with its list
//!   outline    0         1             0              1   0            one border where it begins or ends that there is any
//!              heads: eight bytes of each border behind what all borders share, the lowest bit for what comes behind it
//! ```
//! Nearly every get asks for a key that has no range deletion. The index of pieces answers that by two searches and three
//! pointers. Here it is one search without branches over heads that lie side by side, and while it is under way
//! the processor goes on with the search of the munk, because the answer is nearly always the same.
//!
//! A key whose head is that of a border is not decided here: the index is asked. So is one that has a range deletion,
//! which the reader may not see.
//!
//! Thread safety: immutable. Not here: when it is made ([`super::Covers`]).

use super::Piece;
use crate::chunk::index::{Index, head};
use std::cmp::Ordering;

/// The lowest bit of a border's head: whether keys behind it have a range deletion.
const ANY: u64 = 1;

/// See the module.
pub(super) struct Outline {
    /// What all borders begin with.
    pub(super) shared: Box<[u8]>,
    /// Ascending but for the lowest bit.
    borders: Box<[u64]>,
    /// Whether keys before the first border have any.
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

    /// How many borders are below `key` or at it; `None` if its head is that of a border.
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

    /// Whether keys behind so many borders have none, up to the next one.
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

    /// Whether it is certain that no key from `key` to below `end` has one.
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
