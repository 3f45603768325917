//! Random numbers, which the operating system gives each time that they are needed.
//!
//! Two lives of a database can be alike in everything else: two forked children, or two machines
//! that were started from one image, have the same memory, the same files and perhaps the same
//! time. The standard library's `RandomState` is memory, so a fork copies it. Numbers that must
//! differ between such lives are taken here. Thread safety: any. Not here: hashes that need no
//! secret.

use std::io;

/// Fills `bytes`. Fails if the system gives no random numbers.
pub fn fill(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(io::Error::other)
}

/// A random number.
pub fn number() -> io::Result<u64> {
    let mut bytes = [0; 8];
    fill(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
