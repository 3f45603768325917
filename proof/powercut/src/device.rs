//! [`Device`]: a file system on a device whose power can be cut, in either [`Way`].
//!
//! ```text
//!   power_on -> mounted -> cut -> (the writers are ended) -> power_off -> power_on ...
//! ```
//! * [`Way::Shutdown`]: the file system is told to stop at once. Bytes that it had not sent to its
//!   device are lost.
//! * [`Way::Disk`]: the disk below it keeps a random subset of the unflushed writes, torn between
//!   sectors.
//!
//! One owner. Its mounts and processes are removed when it is dropped.

use crate::Result;
use crate::disk::{CutCounts, Keep};
use crate::draw::Draw;
use crate::filesystem::FileSystem;
use crate::server::{Flushes, Server};
use crate::shutdown::shut_down;
use crate::system::Mounted;
use clap::ValueEnum;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How the power is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Way {
    /// By the request that stops a file system.
    Shutdown,
    /// By a disk of ours that loses unflushed writes.
    Disk,
}

impl Way {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Way::Shutdown => "shutdown",
            Way::Disk => "disk",
        }
    }

    /// Whether the power of this file system can be cut in this way. A file system without a
    /// journal relies on writes that arrive in its own order, and a disk that drops any of them
    /// breaks that order; Btrfs has no such request.
    pub fn suits(self, file_system: FileSystem) -> bool {
        match self {
            Way::Shutdown => file_system != FileSystem::Btrfs,
            Way::Disk => file_system != FileSystem::Ext4NoJournal,
        }
    }
}

/// The outcome of a cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// The file system stopped.
    Shutdown,
    /// The disk kept these writes.
    Disk(Keep, CutCounts),
}

/// See the module.
pub struct Device {
    file_system: FileSystem,
    // Dropped in this order: the mount lies on the disk.
    mounted: Option<Mounted>,
    server: Option<Server>,
    image: PathBuf,
    point: PathBuf,
}

impl Device {
    /// A new, empty file system, not mounted. Its files lie in the directory `dir`. `program` is
    /// this crate's command.
    ///
    /// # Errors
    /// Of the system.
    pub fn create(file_system: FileSystem, way: Way, dir: &Path, program: &Path) -> Result<Device> {
        let (image, point, served) = (dir.join("image"), dir.join("mounted"), dir.join("served"));
        for dir in [&point, &served] {
            std::fs::create_dir_all(dir).map_err(|error| format!("making {dir:?}: {error}"))?;
        }
        file_system.make(&image)?;
        let server = match way {
            Way::Shutdown => None,
            Way::Disk => Some(Server::start(program, &image, &served)?),
        };
        Ok(Device {
            file_system,
            mounted: None,
            image: server.as_ref().map_or(image, |server| server.file.clone()),
            server,
            point,
        })
    }

    /// The place where it is mounted.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Its bytes, while it is not mounted.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// Mounts it.
    ///
    /// # Errors
    /// If the file system cannot be put right or mounted: it could not bear the cut.
    pub fn power_on(&mut self, draw: &mut Draw) -> Result<()> {
        self.file_system.put_right(&self.image)?;
        let (kind, options) = self.file_system.mounting(draw);
        self.mounted = Some(Mounted::mount(&self.image, &self.point, kind, options)?);
        Ok(())
    }

    /// Cuts the power. Everything that was acknowledged before this was called must survive.
    ///
    /// Half of the time the system has begun to write back what nobody has synced, so that the cut
    /// finds a part of it on its way.
    ///
    /// # Errors
    /// Of the system.
    pub fn cut(&mut self, draw: &mut Draw) -> Result<Cut> {
        let (keep, seed) = (draw.of(&Keep::ALL), draw.number());
        let most = draw.of(&[1, 4, 20]);
        let writes = draw.below(most);
        if draw.one_in(2) {
            return self.cut_keeping(keep, seed, writes);
        }
        let root = File::open(&self.point);
        let root = root.map_err(|error| format!("opening {:?}: {error}", self.point))?;
        let writes_back = std::thread::spawn(move || rustix::fs::syncfs(root));
        std::thread::sleep(Duration::from_micros(draw.below(4_000)));
        let cut = self.cut_keeping(keep, seed, writes);
        // It fails if the cut came in between, as it should.
        let _ = writes_back.join().map_err(|_| "writing back panicked")?;
        cut
    }

    /// Cuts the power. A disk first waits for this number of writes, and keeps the subset of
    /// unflushed writes that `keep` says.
    ///
    /// # Errors
    /// Of the system.
    pub fn cut_keeping(&mut self, keep: Keep, seed: u64, writes: u64) -> Result<Cut> {
        match &mut self.server {
            Some(server) => {
                let counts = server.cut(keep, seed, writes)?;
                Ok(Cut::Disk(keep, counts))
            }
            None => shut_down(&self.point).map(|()| Cut::Shutdown),
        }
    }

    /// From now on, its disk flushes so.
    ///
    /// # Errors
    /// If there is no disk of ours below ([`Way::Shutdown`]), or it has ended.
    pub fn set_flushes(&mut self, flushes: Flushes) -> Result<()> {
        let server = self.server.as_mut().ok_or("the disk is not ours")?;
        server.set_flushes(flushes)
    }

    /// Unmounts it. Nobody may have a file open there. Then the disk below has the bytes that the
    /// cut left.
    ///
    /// # Errors
    /// Of the system.
    pub fn power_off(&mut self) -> Result<()> {
        if let Some(mounted) = self.mounted.take() {
            mounted.unmount()?;
        }
        self.server.as_mut().map_or(Ok(()), Server::restart)
    }
}
