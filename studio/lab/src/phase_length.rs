//! How long the phases of a benchmark last, and how long each is warmed before.
//!
//! What reorganisation costs shows late: a store that takes puts into memory, or leaves its levels
//! unsorted, is fast for the first seconds whatever it owes. So phases last 20 seconds, and those of
//! puts alone 60. Before each, a quarter of its time is spent on warming with the same kind of work
//! ([`Mix::warmed_by`]): 15 seconds for puts, after which memory for new records is as full as it stays.
//!
//! What the warming of puts leaves owed is not paid before the phase, since that would empty the memory
//! again. It is charged to the phase with the rest: about a fifth of what is charged at most comes from there,
//! since a fifth of the time does. The lines of results say what the warming did.

use crate::mix::Mix;

/// A phase is warmed for its time by this.
pub const WARMING_PART: f64 = 4.0;

/// The seconds of phases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhaseLengths {
    /// Of a phase.
    pub seconds: f64,
    /// Of a phase of puts alone.
    pub put_seconds: f64,
}

impl PhaseLengths {
    /// What a figure that is shown to others needs.
    pub const FULL: PhaseLengths = PhaseLengths {
        seconds: 20.0,
        put_seconds: 60.0,
    };

    /// The same for all phases.
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
