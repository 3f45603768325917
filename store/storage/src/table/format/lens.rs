//! [`Lens`]: lengths. Each takes the number of bytes that the longest of them needs.
//!
//! Immutable, shared freely. No I/O here.

use std::ops::Range;

/// See the module.
#[derive(Debug)]
pub(crate) enum Lens {
    U8(Box<[u8]>),
    U16(Box<[u16]>),
    U32(Box<[u32]>),
    U64(Box<[u64]>),
}

/// The lengths in a narrower type, which can hold each of them.
fn narrowed<T>(lens: impl Iterator<Item = T>, count: usize) -> Box<[T]> {
    let mut all = Vec::with_capacity(count);
    all.extend(lens.take(count));
    all.into()
}

impl Lens {
    /// `count` lengths, each at most `longest`.
    pub(crate) fn new(lens: impl Iterator<Item = u64>, longest: u64, count: usize) -> Lens {
        match longest {
            0..=0xff => Lens::U8(narrowed(lens.map(|len| len as u8), count)),
            0x100..=0xffff => Lens::U16(narrowed(lens.map(|len| len as u16), count)),
            0x1_0000..=0xffff_ffff => Lens::U32(narrowed(lens.map(|len| len as u32), count)),
            _ => Lens::U64(narrowed(lens, count)),
        }
    }

    /// The length at index `at`. Panics if there is none.
    pub(crate) fn get(&self, at: usize) -> u64 {
        match self {
            Lens::U8(lens) => lens[at].into(),
            Lens::U16(lens) => lens[at].into(),
            Lens::U32(lens) => lens[at].into(),
            Lens::U64(lens) => lens[at],
        }
    }

    /// The sum of the lengths in `range`. Panics if there are fewer lengths.
    pub(crate) fn sum(&self, range: Range<usize>) -> u64 {
        match self {
            Lens::U8(lens) => lens[range].iter().copied().map(u64::from).sum(),
            Lens::U16(lens) => lens[range].iter().copied().map(u64::from).sum(),
            Lens::U32(lens) => lens[range].iter().copied().map(u64::from).sum(),
            Lens::U64(lens) => lens[range].iter().sum(),
        }
    }

    /// The bytes that all lengths take.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Lens::U8(lens) => size_of_val(&**lens),
            Lens::U16(lens) => size_of_val(&**lens),
            Lens::U32(lens) => size_of_val(&**lens),
            Lens::U64(lens) => size_of_val(&**lens),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_come_back_from_the_narrowest_form_that_holds_them() {
        for (longest, width) in [
            (0, 1),
            (0xff, 1),
            (0x100, 2),
            (0xffff, 2),
            (0x1_0000, 4),
            (0xffff_ffff, 4),
            (0x1_0000_0000, 8),
            (u64::MAX >> 8, 8),
        ] {
            let all = [3, longest, 0, 1, longest];
            let lens = Lens::new(all.into_iter(), longest.max(3), all.len());
            assert_eq!(lens.bytes(), all.len() * width, "{longest}");
            assert!((0..all.len()).all(|at| lens.get(at) == all[at]));
            assert_eq!(lens.sum(0..5), all.iter().sum::<u64>());
            assert_eq!((lens.sum(2..4), lens.sum(5..5)), (1, 0));
        }
        let none = Lens::new(std::iter::empty(), 0, 0);
        assert_eq!((none.bytes(), none.sum(0..0)), (0, 0));
    }
}
