//! [`MendedTimes`]: the times of a trace without the jumps of a clock.
//!
//! ```text
//!   source   1.0  1.1  1.2 | 3600.0  3600.1 | 1.3  1.4       a clock set forward, then back
//!   mended   1.0  1.1  1.2 |   11.2    11.3 | 11.3 11.4      with a gap of at most 10 s
//! ```
//! A time that is more than the given gap after the latest one is brought to that gap after it. A
//! time that is more than the gap before the latest one goes on at the latest one: the source began
//! anew there, as files do that were joined. Everything behind a jump moves with it. Smaller steps
//! back stay as they are, because operations of several threads interleave.

/// See the module.
#[derive(Clone, Debug)]
pub struct MendedTimes {
    gap_nanos: u64,
    /// What is added to the times of the source now.
    shift: i128,
    latest: Option<u64>,
    forward: u64,
    back: u64,
}

impl MendedTimes {
    /// With gaps of at most this length.
    #[must_use]
    pub fn new(gap_nanos: u64) -> MendedTimes {
        MendedTimes {
            gap_nanos,
            shift: 0,
            latest: None,
            forward: 0,
            back: 0,
        }
    }

    /// The mended time of the next operation.
    pub fn of(&mut self, start_nanos: u64) -> u64 {
        let gap = i128::from(self.gap_nanos);
        let mut mended = i128::from(start_nanos) + self.shift;
        if let Some(latest) = self.latest.map(i128::from) {
            let target = match mended - latest {
                step if step > gap => {
                    self.forward += 1;
                    latest + gap
                }
                step if step < -gap => {
                    self.back += 1;
                    latest
                }
                _ => mended,
            };
            self.shift += target - mended;
            mended = target;
        }
        let mended = u64::try_from(mended.max(0)).unwrap_or(u64::MAX);
        self.latest = Some(self.latest.unwrap_or(0).max(mended));
        mended
    }

    /// The number of jumps forward and back that were cut.
    #[must_use]
    pub fn jumps(&self) -> (u64, u64) {
        (self.forward, self.back)
    }
}

#[cfg(test)]
mod tests {
    use super::MendedTimes;

    #[test]
    fn jumps_are_cut_and_small_steps_stay() {
        let mut mended = MendedTimes::new(10);
        let times = [100, 101, 99, 3600, 3601, 102, 103, 113, 124];
        let out = times.map(|time| mended.of(time));
        assert_eq!(out, [100, 101, 99, 111, 112, 112, 113, 123, 133]);
        assert_eq!(mended.jumps(), (2, 1));
    }

    #[test]
    fn times_at_the_ends_of_their_range_do_not_overflow() {
        let mut mended = MendedTimes::new(u64::MAX);
        assert_eq!(
            [u64::MAX, 0, u64::MAX].map(|time| mended.of(time)),
            [u64::MAX, 0, u64::MAX]
        );
        let mut mended = MendedTimes::new(0);
        assert_eq!(
            [u64::MAX, 0, u64::MAX].map(|time| mended.of(time)),
            [u64::MAX; 3]
        );
    }
}
