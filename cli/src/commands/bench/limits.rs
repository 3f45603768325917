//! How long phases are, and their rate.

use std::time::Duration;

use evendb_lab::arrivals::RATE_MAX;
use evendb_lab::driver::Limit;
use evendb_lab::phase_length::{PhaseLengths, WARMING_PART};

use super::Arguments;

/// Seconds of a phase with --quick: ten phases, their warm-ups and the load stay within two
/// minutes.
const SECONDS_QUICK: f64 = 6.0;

/// The seconds of phases that end by time.
pub fn lengths(arguments: &Arguments) -> PhaseLengths {
    let given = arguments.seconds;
    let given = given.or(arguments.quick.then_some(SECONDS_QUICK));
    given.map_or(PhaseLengths::FULL, PhaseLengths::all)
}

/// The end of a measured phase. If it ends by time, it lasts `seconds`.
pub fn limit(arguments: &Arguments, seconds: f64) -> Limit {
    let by_time = arguments.seconds.is_some() || arguments.ops.is_none();
    let seconds = by_time.then_some(seconds);
    Limit {
        operations: arguments.ops,
        duration: seconds.map(Duration::from_secs_f64),
    }
}

/// How long a phase with this limit is warmed.
pub fn warm_limit(limit: Limit) -> Limit {
    let part = |operations: u64| (operations as f64 / WARMING_PART).ceil() as u64;
    Limit {
        operations: limit.operations.map(part),
        duration: limit.duration.map(|all| all.div_f64(WARMING_PART)),
    }
}

pub(super) fn parse_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= RATE_MAX => Ok(rate),
        _ => Err(format!(
            "`{text}` is no rate above 0 and at most {RATE_MAX}"
        )),
    }
}

pub fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e6 => Ok(seconds),
        _ => Err(format!("`{text}` is no number of seconds above 0")),
    }
}
