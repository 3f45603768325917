//! Power cuts of real file systems under a database with keyspaces of both layouts.
//!
//! ```text
//!   campaign (a mount namespace of its own)             writer (killed after the cut)
//!     board <------------------------------------------- acknowledgements
//!     cut   ---+                                          database
//!              |                                             |
//!              v                                             v
//!     shutdown request --------------------------> ext4, XFS, Btrfs, mounted from a loop device
//!                                                            |
//!     disk (a process): what is flushed, what is not <-------+   or a plain file in memory
//! ```
//! The simulated files of other tests (`evendb::vfs`) are a model of what a file system keeps; here
//! real file systems are used. After each cut the file system is mounted again. The database is
//! opened, compared with what had been acknowledged before the cut was called, verified, written to
//! and read.
//!
//! # Rooms
//! Each imports only those that stand after it, which the tests of `proof/house` check.
//! * `campaign` - cells, cuts, and their outcome. `probe` - whether the rig loses what it should
//!   lose.
//! * `writer` - the process that has the database open. `board` - what it tells. `workload` - what
//!   it writes, and what must be left.
//! * `store` - the database.
//! * `device` - a mounted file system whose power can be cut. `server`, `disk` - the block device
//!   that forgets. `shutdown` - the request.
//! * `filesystem`, `system`, `draw` - how file systems are made; commands and mounts; numbers.
//!
//! Needs root, loop devices, and for the disk FUSE ([`missing`] says what is not there). Linux
//! only.

pub mod board;
pub mod campaign;
pub mod device;
pub mod disk;
pub mod draw;
pub mod filesystem;
pub mod probe;
pub mod server;
pub mod shutdown;
pub mod store;
pub mod system;
pub mod workload;
pub mod writer;

pub use system::Result;

use device::Way;
use std::path::Path;

/// What this machine lacks for a way of cutting, if anything.
pub fn missing(way: Way) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("only root mounts".to_owned());
    }
    for (path, what) in [("/dev/loop-control", "loop devices"), ("/dev/fuse", "FUSE")] {
        let needed = way == Way::Disk || what != "FUSE";
        if needed && !Path::new(path).exists() {
            return Some(format!("there are no {what}: {path} is missing"));
        }
    }
    // In a container, root may not be allowed to do it.
    system::try_namespace().err()
}
