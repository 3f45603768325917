//! Columns of times: a `SystemTime`, and a `Duration`.
//!
//! ```text
//!   SystemTime   i64 whole seconds since 1970-01-01 UTC, rounded down; u32 nanoseconds after them
//!   Duration     u64 whole seconds; u32 nanoseconds
//! ```
//! Both are 12 bytes. Nanoseconds are below 1,000,000,000, and others are refused when read. Half a
//! second before 1970 is second -1 and 500,000,000 ns, so that earlier times sort before later
//! ones.
//!
//! Every `Duration` can be written. So can every `SystemTime` on the platforms that count its
//! seconds in 64 bits or fewer, which all common platforms do. A time beyond 64 bits would be
//! written as the first or the last possible time. Reading refuses a time that the platform cannot
//! represent. A platform with coarser steps than nanoseconds, such as Windows, rounds a time that
//! it reads to its own steps.

use std::time::{Duration, SystemTime};

use crate::column::{KeyColumn, ReadColumn, by_reference};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::reader::Reader;

const NANOS_A_SECOND: u32 = 1_000_000_000;

/// Whole seconds since 1970, rounded down, and the nanoseconds after them.
fn seconds_of(time: &SystemTime) -> (i64, u32) {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => match i64::try_from(since.as_secs()) {
            Ok(seconds) => (seconds, since.subsec_nanos()),
            Err(_) => (i64::MAX, NANOS_A_SECOND - 1),
        },
        Err(error) => {
            let before = error.duration();
            let (borrowed, nanos) = match before.subsec_nanos() {
                0 => (0, 0),
                nanos => (1, NANOS_A_SECOND - nanos),
            };
            let seconds = 0i64
                .checked_sub_unsigned(before.as_secs())
                .and_then(|seconds| seconds.checked_sub(borrowed));
            seconds.map_or((i64::MIN, 0), |seconds| (seconds, nanos))
        }
    }
}

/// The time of a number of seconds and nanoseconds, if the platform can represent it.
fn time_of(seconds: i64, nanos: u32) -> Option<SystemTime> {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = match seconds < 0 {
        true => SystemTime::UNIX_EPOCH.checked_sub(whole),
        false => SystemTime::UNIX_EPOCH.checked_add(whole),
    };
    second?.checked_add(Duration::new(0, nanos))
}

fn read_nanos(reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
    let nanos = u32::read(reader)?;
    match nanos < NANOS_A_SECOND {
        true => Ok(nanos),
        false => Err(reader.refuse(4, DecodeErrorKind::NoValue)),
    }
}

impl KeyColumn for SystemTime {
    fn encode(&self, key: &mut Vec<u8>) {
        let (seconds, nanos) = seconds_of(self);
        seconds.encode(key);
        nanos.encode(key);
    }
}

impl<'k> ReadColumn<'k> for SystemTime {
    fn read(reader: &mut Reader<'k>) -> Result<Self, DecodeError> {
        let seconds = i64::read(reader)?;
        let nanos = read_nanos(reader)?;
        time_of(seconds, nanos).ok_or_else(|| reader.refuse(12, DecodeErrorKind::TimeOutOfRange))
    }
}

impl KeyColumn for Duration {
    fn encode(&self, key: &mut Vec<u8>) {
        self.as_secs().encode(key);
        self.subsec_nanos().encode(key);
    }
}

impl<'k> ReadColumn<'k> for Duration {
    fn read(reader: &mut Reader<'k>) -> Result<Self, DecodeError> {
        let seconds = u64::read(reader)?;
        let nanos = read_nanos(reader)?;
        Ok(Duration::new(seconds, nanos))
    }
}

by_reference!(SystemTime, Duration);
