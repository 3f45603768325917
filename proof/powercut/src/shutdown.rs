//! [`shut_down`]: tells a mounted file system to stop where it is, as a power cut would stop it.

#![expect(
    unsafe_code,
    reason = "no safe wrapper of this request exists; one call, below"
)]

use crate::Result;
use rustix::ioctl::{Setter, ioctl};
use std::fs::File;
use std::path::Path;

/// `_IOR('X', 125, u32)`: of XFS, ext4 and others.
const GOING_DOWN: rustix::ioctl::Opcode = 0x8004_587d;
/// Do not write out the journal that is still in memory.
const NO_LOG_FLUSH: u32 = 2;

/// From now on only writes that are already on their way reach the device. Data that is in memory
/// alone is lost with the unmounting. The cut takes a while: writes that are acknowledged after
/// this was called may or may not survive.
///
/// # Errors
/// Of the system: the file system does not know the request, or this user may not make it.
pub fn shut_down(mountpoint: &Path) -> Result<()> {
    let failed = |error: std::io::Error| format!("shutting down {mountpoint:?}: {error}");
    let root = File::open(mountpoint).map_err(failed)?;
    // SAFETY: the request reads one `u32` through the pointer that it is given, and `Setter` of a
    // `u32` passes such a pointer.
    let done = unsafe { ioctl(&root, Setter::<GOING_DOWN, u32>::new(NO_LOG_FLUSH)) };
    done.map_err(|error| failed(error.into()))
}
