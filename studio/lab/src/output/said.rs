//! Output to standard output and standard error, without the panic of the standard macros when the
//! reader has gone away.
//!
//! [`say!`] gives the error back, so that a measurement ends and removes what it made. [`tell!`] is
//! for progress and warnings, and goes on.

use std::error::Error;
use std::fmt::Arguments;
use std::io::{self, Write};

use crate::printed::Printed;
use crate::standard_streams;

/// Writes to standard output.
pub(crate) fn say(text: Arguments<'_>) -> io::Result<()> {
    let mut out = Printed(standard_streams::output());
    out.write_fmt(text)?;
    out.flush()
}

/// Writes a line to standard error, if that is there.
pub(crate) fn tell(text: Arguments<'_>) {
    let _ = writeln!(Printed(io::stderr()), "{text}");
}

/// Writes to standard output, as `print!` does. Gives back why it could not.
macro_rules! say {
    ($($text:tt)*) => { $crate::said::say(format_args!($($text)*)) };
}

/// Writes a line to standard error, as `eprintln!` does, if that is there.
macro_rules! tell {
    ($($text:tt)*) => { $crate::said::tell(format_args!($($text)*)) };
}

/// Whether it failed because the reader of its output has gone away. That is no failure of the
/// writer.
#[must_use]
pub fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return error.kind() == io::ErrorKind::BrokenPipe;
        }
        cause = error.source();
    }
    false
}
