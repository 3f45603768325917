//! How long the phases of a benchmark last, and how long each is warmed before.
//!
//! The costs of reorganisation show late: a store that takes puts into memory, or leaves its levels
//! unsorted, is fast for the first seconds, however much it owes. So phases last 20 seconds, and
//! phases of puts alone 60. Before each, a quarter of its time is spent on warming with the same
//! kind of work ([`Mix::warmed_by`]): 15 seconds for puts, after which memory for new records is as
//! full as it stays.
//!
//! The debt of the warming of puts is not paid before the phase, since that would empty the memory
//! again. It is charged to the phase with the rest: at most about a fifth of the charged debt comes
//! from there, since a fifth of the time does. The lines of results say what the warming did.

use crate::mix::Mix;

/// A phase is warmed for its time divided by this.
pub const WARMING_PART: f64 = 4.0;

/// The seconds of phases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhaseLengths {
    /// Seconds of a phase.
    pub seconds: f64,
    /// Seconds of a phase of puts alone.
    pub put_seconds: f64,
}

impl PhaseLengths {
    /// The lengths that figures for publication need.
    pub const FULL: PhaseLengths = PhaseLengths {
        seconds: 20.0,
        put_seconds: 60.0,
    };

    /// The same length for all phases.
    #[must_use]
    pub fn all(seconds: f64) -> PhaseLengths {
        PhaseLengths {
            seconds,
            put_seconds: seconds,
        }
    }

    /// Seconds of a phase of this mix.
    #[must_use]
    pub fn of(&self, mix: Mix) -> f64 {
        match mix {
            Mix::P => self.put_seconds,
            _ => self.seconds,
        }
    }

    /// Seconds of warming before it.
    #[must_use]
    pub fn warming(&self, mix: Mix) -> f64 {
        self.of(mix) / WARMING_PART
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts_alone_last_a_minute_after_a_quarter_of_one() {
        let full = PhaseLengths::FULL;
        assert_eq!((full.of(Mix::P), full.warming(Mix::P)), (60.0, 15.0));
        assert_eq!((full.of(Mix::A), full.warming(Mix::E(10))), (20.0, 5.0));
        assert_eq!(PhaseLengths::all(1.0).of(Mix::P), 1.0);
    }
}
