//! Bytes that were written, counted in two ways.
//!
//! **Of the process**: `write_bytes` of `/proc/self/io`. The kernel counts a page when the process
//! makes it dirty, and a block when the process hands it to the device.
//!
//! **Of the device**: the sectors of the block device below a directory (`stat` of its folder in
//! `/sys/dev/block`). These have also what the file system writes for the process: a sync of a file
//! that has grown makes it write its journal. They have what other processes write, too, so nothing
//! else should run.
//!
//! Where the kernel does not count, 0.

use std::path::Path;

/// Bytes written.
#[derive(Debug, Clone, Copy, Default)]
pub struct Written {
    /// By this process.
    pub process: u64,
    /// To the device.
    pub device: u64,
}

impl Written {
    /// The counts so far; the device is the one below this directory.
    pub fn so_far(dir: &Path) -> Written {
        let counts = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        let process = counts
            .lines()
            .find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok());
        Written {
            process: process.unwrap_or(0),
            device: sectors(dir).unwrap_or(0) * 512,
        }
    }
}

/// Sectors that were written to the device below a directory.
#[cfg(target_os = "linux")]
fn sectors(dir: &Path) -> Option<u64> {
    use std::os::linux::fs::MetadataExt;
    let device = std::fs::metadata(dir).ok()?.st_dev();
    // As the kernel puts the two numbers into one.
    let major = (device >> 32 & 0xffff_f000) | (device >> 8 & 0xfff);
    let minor = (device >> 12 & 0xffff_ff00) | (device & 0xff);
    let stat = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    stat.split_whitespace().nth(6)?.parse().ok()
}

#[cfg(not(target_os = "linux"))]
fn sectors(_: &Path) -> Option<u64> {
    None
}

impl std::ops::Sub for Written {
    type Output = Written;

    fn sub(self, before: Written) -> Written {
        Written {
            process: self.process.saturating_sub(before.process),
            device: self.device.saturating_sub(before.device),
        }
    }
}
