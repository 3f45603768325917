#![cfg_attr(
    target_arch = "x86_64",
    expect(
        unsafe_code,
        reason = "the processor's counter: the system's clock waits for all loads in flight, which costs a get more than all else of its recording"
    )
)]
//! [`Clock`]: nanoseconds since a moment, for callers that ask twice in each operation.
//!
//! The system's monotonic clock reads the processor's counter with a fence in front. The fence
//! waits for reads of memory that would otherwise go on together with those of the next operation.
//! Here the counter is read without a fence. So a time may be off by what the processor does out of
//! order, some tens of nanoseconds.
//!
//! ```text
//! nanoseconds = (counter - counter at the start) * scale / 2^32
//! scale: measured once in a process, against the monotonic clock
//! ```
//! The counter is used where Linux uses it for its own clock, so that it is the same on all
//! processors and never stops. Elsewhere, and in Miri, the monotonic clock is used. The scale is
//! measured over ten milliseconds, to a few parts in a million: the times of a trace may drift by
//! this against the wall clock.
//!
//! Thread safety: any. Times of one thread never go back.

use std::time::Instant;

/// See the module.
pub(crate) struct Clock {
    started: Instant,
    /// If the counter is used: its value at the start, and its scale.
    counter: Option<(u64, u64)>,
}

impl Clock {
    /// Begins now. The first one of a process takes some milliseconds.
    pub(crate) fn start() -> Clock {
        let scale = counter::scale();
        Clock {
            started: Instant::now(),
            counter: scale.map(|scale| (counter::read(), scale)),
        }
    }

    /// Since it began.
    #[inline]
    pub(crate) fn nanos(&self) -> u64 {
        match self.counter {
            Some((start, scale)) => {
                // Another processor's counter may be a little behind.
                let ticks = counter::read().saturating_sub(start);
                ((u128::from(ticks) * u128::from(scale)) >> 32) as u64
            }
            None => self.started.elapsed().as_nanos() as u64,
        }
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
mod counter {
    use std::sync::OnceLock;
    use std::thread;
    use std::time::{Duration, Instant};

    /// The time over which the scale is measured.
    const MEASURED: Duration = Duration::from_millis(10);
    /// The kernel's name of its clock.
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: every processor of this architecture has the instruction, and Linux lets programs
        // use it if it is its own clock; nothing else calls this.
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    /// Nanoseconds of a tick, times 2^32.
    pub(super) fn scale() -> Option<u64> {
        static SCALE: OnceLock<Option<u64>> = OnceLock::new();
        *SCALE.get_or_init(|| {
            let source = std::fs::read_to_string(SOURCE).ok()?;
            if source.trim() != "tsc" {
                return None;
            }
            let (first, begin) = pair();
            thread::sleep(MEASURED);
            let (last, end) = pair();
            let nanos = end.duration_since(begin).as_nanos() << 32;
            let scale = nanos.checked_div(u128::from(last.checked_sub(first)?))?;
            // Counters run at 100 MHz to 10 GHz.
            let sane = (1 << 32) / 10..=10 << 32;
            sane.contains(&scale).then_some(scale as u64)
        })
    }

    /// Both clocks at one moment: of several tries, the shortest.
    fn pair() -> (u64, Instant) {
        let try_once = || {
            let before = read();
            let instant = Instant::now();
            let took = read().wrapping_sub(before);
            (took, before.wrapping_add(took / 2), instant)
        };
        let mut best = try_once();
        for _ in 0..30 {
            let next = try_once();
            if next.0 < best.0 {
                best = next;
            }
        }
        (best.1, best.2)
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", not(miri))))]
mod counter {
    pub(super) fn read() -> u64 {
        0
    }

    pub(super) fn scale() -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;
    use std::time::Instant;

    /// Within a hundredth of the system's clock, even if this thread had to wait in between.
    #[test]
    fn it_goes_as_the_systems_clock_does_and_never_back() {
        let before = Instant::now();
        let clock = Clock::start();
        let begun = Instant::now();
        let mut last = 0;
        for _ in 0..200_000 {
            let now = clock.nanos();
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
        let least = begun.elapsed().as_nanos() as u64;
        let now = clock.nanos();
        let most = before.elapsed().as_nanos() as u64;
        assert!(now + now / 100 + 10_000 > least, "{now} of {least}");
        assert!(now < most + most / 100 + 10_000, "{now} of {most}");
    }
}
