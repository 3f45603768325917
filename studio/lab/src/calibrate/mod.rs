//! What this machine's memory and disk can do at best, as a measure for other figures.
//!
//! ```text
//!   memory   latency: dependent random reads over 256 MiB        copy: 64 MiB to 64 MiB
//!   disk     one file of 1 GiB (or what fits), 1 MiB pieces:
//!            write, fdatasync of every sixteenth part -> read in order -> read 4 KiB at random
//!            small files written before, 4 KiB over and over: fdatasync after each
//! ```
//! Every measurement has a few slices of time; it states their median and both ends. Reads bypass
//! the page cache (`O_DIRECT`). If the file system cannot do that, the cache is dropped before and
//! the result says so. Data does not compress. Caches below the kernel (the disk's own, a
//! hypervisor's) are not bypassed: a store would use them as well.
//!
//! Everything on the disk is in a directory of its own, which is removed at the end, also after an
//! error or an interruption. Nothing else may run meanwhile: this is not checked, but the spread
//! shows it.
//!
//! [`limits`] turns the figures into bounds on what a store can reach.

mod disk;
mod error;
mod figures;
mod limits;
mod memory;
#[cfg(test)]
pub(crate) mod tests;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use disk::{SyncSettings, random_reads_per_second, sync_rate};
pub use error::CalibrateError;
pub use figures::{Calibration, Rate, Sliced};
pub use limits::{MachineLimit, Unit, limits};

/// Threads of the second measurement of random reads: enough to keep a solid-state disk busy.
pub const RANDOM_READ_THREADS: usize = 16;

/// Bytes of one random read and of one synced write.
pub const BLOCK_BYTES: usize = 4096;

/// How to measure.
#[derive(Clone, Debug)]
pub struct CalibrationSettings {
    /// A directory on the disk in question.
    pub directory: PathBuf,
    /// The time of one measurement. There are eight, and the time to make the file comes on top.
    pub time: Duration,
    /// The time is divided into this number of slices, and the median over them is taken.
    pub slices: usize,
    /// The file's size, if there is space for it.
    pub file_bytes: u64,
    /// Memory over which latency is measured; half of it is copied.
    pub memory_bytes: usize,
}

impl CalibrationSettings {
    /// A run of less than a minute, with one second for each measurement.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            time: Duration::from_secs(1),
            slices: 5,
            file_bytes: 1 << 30,
            memory_bytes: 256 << 20,
        }
    }

    fn slice(&self) -> Duration {
        self.time / self.slices.max(1) as u32
    }
}

/// Measures. `interrupted` ends it early when it becomes true; `step` is told what comes next.
///
/// # Errors
/// No space, no permission, another error of the system, or the interruption. Files are removed
/// in every case.
pub fn run(
    settings: &CalibrationSettings,
    interrupted: &AtomicBool,
    step: &dyn Fn(&str),
) -> Result<Calibration, CalibrateError> {
    // The disk comes first: errors of the directory are told at once.
    let disk = disk::run(settings, interrupted, step)?;
    step("memory latency");
    let memory_latency_nanos = memory::latency(settings, interrupted)?;
    step("memory copy");
    let memory_copy_bytes_per_second = memory::copy(settings, interrupted)?;
    Ok(Calibration {
        memory_latency_nanos,
        memory_copy_bytes_per_second,
        ..disk
    })
}

fn check(interrupted: &AtomicBool) -> Result<(), CalibrateError> {
    if interrupted.load(Ordering::Relaxed) {
        return Err(CalibrateError::Interrupted);
    }
    Ok(())
}
