//! The random choices of a step: keys, values, ranges.

use super::model::Bounds;
use crate::common::scramble;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::ops::Bound;

const KEYS: u64 = 110;

pub struct Dice {
    random: StdRng,
    step: u64,
    values: u32,
}

impl Dice {
    pub fn of_step(seed: u64, step: u64) -> Dice {
        let seed = scramble(scramble(seed).wrapping_add(step));
        Dice {
            random: StdRng::seed_from_u64(seed),
            step,
            values: 0,
        }
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.random.random_range(0..end)
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }

    /// The number of a key: half of the draws are from a few keys, so that calls meet.
    fn number(&mut self) -> u64 {
        let of = *self.pick(&[12, KEYS]);
        self.below(of)
    }

    pub fn key(&mut self) -> Vec<u8> {
        let number = self.number();
        match self.below(40) {
            0 => Vec::new(),
            1 => vec![0xff, 0xff],
            2..5 => format!("k{number:03}/{}", "x".repeat(40)).into_bytes(),
            _ => format!("k{number:03}").into_bytes(),
        }
    }

    pub fn prefix(&mut self) -> Vec<u8> {
        match self.below(8) {
            0 => Vec::new(),
            1 => b"k".to_vec(),
            2 => vec![0xff],
            3 => b"none".to_vec(),
            4..7 => format!("k0{}", self.below(10)).into_bytes(),
            _ => format!("k{:03}", self.number()).into_bytes(),
        }
    }

    /// A value that no other write of the program has, except empty values.
    pub fn value(&mut self) -> Vec<u8> {
        self.values += 1;
        let len = match self.below(70) {
            0 => return Vec::new(),
            // Above an eighth of the commit log, so it goes through a value extent.
            1 => 8_200 + self.below(3_000),
            2..6 => 500 + self.below(1_500),
            _ => self.below(100),
        };
        let mut value = format!("{}.{}.", self.step, self.values).into_bytes();
        value.resize(value.len() + len as usize, self.step as u8);
        value
    }

    /// An operand that no other merge of the program has.
    pub fn operand(&mut self) -> Vec<u8> {
        self.values += 1;
        let len = self.below(40) as usize;
        let mut operand = format!("+{}.{}.", self.step, self.values).into_bytes();
        operand.resize(operand.len() + len, self.step as u8);
        operand
    }

    /// Usually a short range, now and then everything, or nothing.
    pub fn bounds(&mut self) -> Bounds {
        let a = self.key();
        let b = match self.below(3) {
            0 => self.key(),
            _ => {
                let from = self.number();
                let to = from + self.below(12);
                return self.between(
                    format!("k{from:03}").into_bytes(),
                    format!("k{to:03}").into_bytes(),
                );
            }
        };
        match self.one_in(12) {
            // Possibly inverted: an empty range.
            true => self.between(a, b),
            false => self.between(a.clone().min(b.clone()), a.max(b)),
        }
    }

    fn between(&mut self, low: Vec<u8>, high: Vec<u8>) -> Bounds {
        let low = match self.below(8) {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(low),
            _ => Bound::Included(low),
        };
        let high = match self.below(8) {
            0 => Bound::Unbounded,
            1..3 => Bound::Included(high),
            _ => Bound::Excluded(high),
        };
        (low, high)
    }
}
