//! Numeric options outside of their limits are refused in the same words.

use crate::error::{Error, ErrorKind, Result};
use std::fmt::Debug;

/// The largest memory budget in bytes. A larger number is no size of a machine's memory, but a
/// mistake.
pub const MEMORY_BUDGET_MAX: u64 = 16 << 40;

/// The number of threads of one kind that one database may have. Each takes address space and
/// mappings. A process has about ten thousand mappings, and when they run out the process is
/// aborted without an error.
pub const THREADS_MAX: u64 = 256;

/// Refuses a number outside its limits. The limits themselves are allowed.
///
/// # Errors
/// `InvalidArgument`, which names the option, its limits and the number.
pub fn within(name: &str, given: u64, (min, max): (u64, u64)) -> Result<()> {
    match (min..=max).contains(&given) {
        true => Ok(()),
        false => refuse(name, &given, &min, &max),
    }
}

/// The error of an option that is not between its limits.
///
/// # Errors
/// `InvalidArgument`, always.
pub fn refuse(name: &str, given: &dyn Debug, min: &dyn Debug, max: &dyn Debug) -> Result<()> {
    let message = format!("{name} must be between {min:?} and {max:?}, and {given:?} was given");
    Err(Error::new(ErrorKind::InvalidArgument, message))
}
