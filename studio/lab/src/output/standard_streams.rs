#![expect(
    unsafe_code,
    reason = "a function that runs before the runtime, and a call of the C library in it"
)]
//! Standard output and standard input, which may be closed.
//!
//! Before `main`, Rust's runtime opens `/dev/null` in place of a descriptor from 0 to 2 that is
//! closed. Afterwards nobody can tell it from a `/dev/null` that was given on purpose, and what a
//! program prints is lost in silence. So a function that the system's loader calls before the
//! runtime notes which of the two are closed, and each use of a closed one is an error here.
//!
//! Not here: standard error. Where it is closed, nobody can be told.

use std::io::{self, StdinLock, StdoutLock, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether descriptors 0 and 1 were closed when the program began.
static CLOSED: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

#[used]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
#[cfg_attr(
    target_vendor = "apple",
    unsafe(link_section = "__DATA,__mod_init_func")
)]
static BEFORE_MAIN: extern "C" fn() = note_closed;

extern "C" fn note_closed() {
    for (descriptor, closed) in (0..).zip(&CLOSED) {
        // SAFETY: the call only asks for the flags of a descriptor, and may be made with any
        // number.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
        closed.store(flags == -1, Relaxed);
    }
}

fn open(descriptor: usize, name: &str) -> io::Result<()> {
    match CLOSED[descriptor].load(Relaxed) {
        true => Err(io::Error::other(format!("{name} is closed"))),
        false => Ok(()),
    }
}

/// Fails if standard output is closed.
///
/// # Errors
/// The error that each write to it would return.
pub fn check_output() -> io::Result<()> {
    open(1, "standard output")
}

/// Standard input.
///
/// # Errors
/// If it is closed.
pub fn input() -> io::Result<StdinLock<'static>> {
    open(0, "standard input")?;
    Ok(io::stdin().lock())
}

/// Standard output. If it is closed, each write fails.
#[must_use]
pub fn output() -> StandardOutput {
    StandardOutput(io::stdout().lock())
}

/// See [`output`].
#[derive(Debug)]
pub struct StandardOutput(StdoutLock<'static>);

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        check_output()?;
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
