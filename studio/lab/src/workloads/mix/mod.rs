//! The operation mixes of the paper and of YCSB, and the workers that load a data set, carry out a
//! mix, and read everything.
//!
//! | mix | operations |
//! |---|---|
//! | P | 100 % put |
//! | A | 50 % put, 50 % get |
//! | B | 5 % put, 95 % get |
//! | C | 100 % get |
//! | D | 5 % insertion of new records, 95 % get of recent ones (always `latest`) |
//! | E10, E100, E1000 (any number) | 5 % put, 95 % scan of 1 to that many records, uniformly |
//! | F | 100 % get, then put of the same key |
//!
//! Puts overwrite records of the data set (the paper's put-only test too); only D grows it. Every
//! get must find its record and every scan must yield exactly the consecutive records. A get whose
//! value is older than one that the same thread put lately is an error too (`OwnPuts`).

mod load;
mod own_puts;
mod population;
mod sweep;
#[cfg(test)]
mod tests;
mod worker;

use std::fmt;
use std::str::FromStr;

use crate::dataset::key_of;
use crate::distribution::DistributionKind;
use crate::recorder::RunError;
use crate::value::Thoroughness;

pub use load::{LoadOrder, LoadWorker};
pub(crate) use own_puts::OwnPuts;
pub use population::Population;
pub use sweep::SweepWorker;
pub use worker::MixWorker;

/// One in this many values is compared whole, the others at some spots.
const WHOLE_CHECK_EVERY: u64 = 64;

/// A mix of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Puts only.
    P,
    /// Half puts, half gets.
    A,
    /// Mostly gets.
    B,
    /// Gets only.
    C,
    /// Gets of records that were inserted lately, and insertions.
    D,
    /// Scans of up to this number of records, and a few puts.
    E(u32),
    /// Read, modify, write.
    F,
}

impl Mix {
    /// Percent of put, insertion, scan and read-modify-write; the rest are gets.
    fn percents(self) -> [u64; 4] {
        match self {
            Self::P => [100, 0, 0, 0],
            Self::A => [50, 0, 0, 0],
            Self::B => [5, 0, 0, 0],
            Self::C => [0, 0, 0, 0],
            Self::D => [0, 5, 0, 0],
            Self::E(_) => [5, 0, 95, 0],
            Self::F => [0, 0, 0, 100],
        }
    }

    /// Whether the mix writes, so that it may leave a debt behind.
    #[must_use]
    pub fn writes(self) -> bool {
        self != Self::C
    }

    /// The mix that warms a store for this one. It has reads of the same kind, since a store may
    /// keep other things for gets than for scans. It has no writes, except the few of E: they would
    /// leave a debt that is not the phase's. Puts alone are warmed by puts, so that memory for new
    /// records is as full as it stays.
    #[must_use]
    pub fn warmed_by(self) -> Self {
        match self {
            Self::P | Self::E(_) => self,
            _ => Self::C,
        }
    }

    /// The distribution this mix runs with when `wanted` is asked for: D always has its own.
    #[must_use]
    pub fn distribution(self, wanted: DistributionKind) -> DistributionKind {
        if self == Self::D {
            DistributionKind::Latest
        } else {
            wanted
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::E(longest) => f.pad(&format!("E{longest}")),
            other => f.pad(&format!("{other:?}")),
        }
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_uppercase().as_str() {
            "P" => Ok(Self::P),
            "A" => Ok(Self::A),
            "B" => Ok(Self::B),
            "C" => Ok(Self::C),
            "D" => Ok(Self::D),
            "F" => Ok(Self::F),
            other => match other.strip_prefix('E').map(str::parse) {
                Some(Ok(longest)) if longest > 0 => Ok(Self::E(longest)),
                _ => Err(format!(
                    "unknown mix `{text}`; known are P, A, B, C, D, F and E with the longest \
                     scan, as in E100"
                )),
            },
        }
    }
}

pub(crate) fn thoroughness(read: u64) -> Thoroughness {
    if read.is_multiple_of(WHOLE_CHECK_EVERY) {
        Thoroughness::Whole
    } else {
        Thoroughness::Spots
    }
}

fn wrong(record: u64, operation: &str, what: impl fmt::Display) -> RunError {
    let key = key_of(record);
    RunError::Wrong(format!(
        "{operation} of key `{}`: {what}",
        String::from_utf8_lossy(&key)
    ))
}
