//! [`Draw`]: numbers that follow from a seed (splitmix64), so that a campaign's choices repeat.
//!
//! Not for secrets. One owner.

/// A source of numbers.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// True one time in `of`.
    pub fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    /// One of `choices`, which must not be empty.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}
