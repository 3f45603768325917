//! Moments as Python's `datetime`, on both sides of 1970.

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// 1970 as a `datetime`.
fn epoch(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let module = py.import("datetime")?;
    let utc = module.getattr("timezone")?.getattr("utc")?;
    module
        .getattr("datetime")?
        .call1((1970, 1, 1, 0, 0, 0, 0, utc))
}

/// The moment of a `datetime` with a time zone.
pub(super) fn moment_of(value: &Bound<'_, PyAny>) -> PyResult<SystemTime> {
    let py = value.py();
    let kind = py.import("datetime")?.getattr("datetime")?;
    if !value.is_instance(&kind)? || value.getattr("tzinfo")?.is_none() {
        return Err(PyTypeError::new_err(
            "a time is a datetime with a time zone",
        ));
    }
    let since = value.sub(epoch(py)?)?;
    let days: i64 = since.getattr("days")?.extract()?;
    let seconds: i64 = since.getattr("seconds")?.extract()?;
    let micros: u32 = since.getattr("microseconds")?.extract()?;
    let whole = days * 86_400 + seconds;
    let part = Duration::from_micros(u64::from(micros));
    let moment = match u64::try_from(whole) {
        Ok(seconds) => UNIX_EPOCH.checked_add(Duration::from_secs(seconds)),
        Err(_) => UNIX_EPOCH.checked_sub(Duration::from_secs(whole.unsigned_abs())),
    };
    let moment = moment.and_then(|moment| moment.checked_add(part));
    moment.ok_or_else(|| PyOverflowError::new_err("the time is too far away"))
}

/// The `datetime` of a moment, in whole microseconds, in UTC. `OverflowError` outside of the years
/// 1 to 9999.
pub(super) fn datetime_of(py: Python<'_>, moment: SystemTime) -> PyResult<Bound<'_, PyAny>> {
    let micros = match moment.duration_since(UNIX_EPOCH) {
        Ok(after) => i128::try_from(after.as_micros()).unwrap_or(i128::MAX),
        Err(before) => {
            let before = before.duration().as_nanos().div_ceil(1_000);
            -i128::try_from(before).unwrap_or(i128::MAX)
        }
    };
    let delta = py.import("datetime")?.getattr("timedelta")?;
    epoch(py)?.add(delta.call1((0, 0, micros))?)
}
