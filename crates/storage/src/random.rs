//! Chance, which is asked of the operating system each time that it is needed.
//!
//! Two lives of a database can be alike in all else: two forked children, or two machines that were
//! started from one image, have the same memory, the same files and perhaps the same time. The
//! standard library's `RandomState` is memory, so a fork copies it. What separates such lives is
//! taken here. Thread safety: any. Not here: hashes that need no secret.

use std::io;

/// Fills `bytes`. Fails where the system gives no random numbers.
pub fn fill(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(io::Error::other)
}

/// A number.
pub fn number() -> io::Result<u64> {
    let mut bytes = [0; 8];
    fill(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
