//! The operating system's files: positioned reads and writes, `fallocate`, `fdatasync`, `flock`
//! and shared mappings.
//!
//! Nothing is buffered or remembered here. Every error is the system's own, so its
//! [`io::ErrorKind`] (`StorageFull`, `QuotaExceeded`, `NotFound`, ...) reaches the caller. A call
//! interrupted by a signal is repeated; a short read or write is continued.
//!
//! A symbolic link is not followed when a name is opened. So no name in a directory of a database
//! leads out of it. Anything but a regular file is refused before somebody waits for it (opening a
//! pipe waits for its other end). Only regular files are made here, so only they are removed,
//! renamed, linked, or replaced. The directory itself may be reached by a link. A file with another
//! name elsewhere cannot be distinguished from a file that a backup shares.
//!
//! Not done here: a retry after a failed sync (its effects are unknown).

mod file;
mod mapping;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::lock;
use super::regular::{A_LINK, NOT_REGULAR, open_directory, open_regular, refused, signed_by};
use super::{BootId, File, LockGuard, LockHolder, Vfs};
pub(super) use file::OsFile;

/// Files of the operating system.
#[derive(Debug, Clone, Default)]
pub struct OsVfs;

impl Vfs for OsVfs {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        // The name of a new directory must be durable before its contents are promised. So each
        // parent that got a name is synced here, and callers need not know which parents were
        // missing.
        let mut parents_to_sync = Vec::new();
        let mut missing = dir;
        while !missing.try_exists()? {
            let Some(parent) = missing.parent() else {
                break;
            };
            parents_to_sync.push(parent);
            missing = parent;
        }
        fs::create_dir_all(dir)?;
        for parent in parents_to_sync {
            self.sync_dir(parent)?;
        }
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        Ok(OsFile::shared(file, path))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>> {
        let file = open_regular(fs::OpenOptions::new().read(true).write(write), path)?;
        Ok(OsFile::shared(file, path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check_regular(from)?;
        match self.check_regular(to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => fs::rename(from, to),
        }
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check_regular(from)?;
        fs::hard_link(from, to)
    }

    fn hard_link_regular(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check_regular(path)?;
        fs::remove_file(path)
    }

    fn check_regular(&self, path: &Path) -> io::Result<()> {
        let kind = fs::symlink_metadata(path)?.file_type();
        match (kind.is_file(), kind.is_symlink()) {
            (true, _) => Ok(()),
            (false, true) => Err(refused(A_LINK)),
            (false, false) => Err(refused(NOT_REGULAR)),
        }
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        match open_directory(dir)?.sync_all() {
            // File systems that cannot sync a directory return this error. Their names are as
            // durable as they can be.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            result => result,
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(dir)?
            .map(|entry| Ok(entry?.file_name()))
            .collect()
    }

    fn list_irregular(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        let mut irregular = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            // On nearly all file systems the directory itself tells the kind.
            match entry.file_type() {
                Ok(kind) if kind.is_file() => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                kind => {
                    kind?;
                    irregular.push(entry.file_name());
                }
            }
        }
        Ok(irregular)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let mut resolved = PathBuf::new();
        for component in std::path::absolute(path)?.components() {
            if component == Component::ParentDir {
                resolved.pop();
                continue;
            }
            resolved.push(component);
            // A name that does not exist, or may not be looked at, leads nowhere else.
            if let Ok(real) = resolved.canonicalize() {
                resolved = real;
            }
        }
        Ok(resolved)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn lock(&self, path: &Path, shared: bool) -> io::Result<Box<dyn LockGuard>> {
        lock::lock(path, shared)
    }

    fn allocated_bytes(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.blocks() * 512)
    }

    fn open_files_max(&self) -> Option<u64> {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        limit.current
    }

    fn boot_id(&self) -> Option<BootId> {
        #[cfg(target_os = "linux")]
        return parse_boot_id(&fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?);
        #[cfg(not(target_os = "linux"))]
        None
    }

    fn lock_holder(&self, path: &Path) -> LockHolder {
        let Ok(file) = lock::open_lock_file(path, true) else {
            return LockHolder::default();
        };
        // Readers do not sign: the file then has the number of a dead writer.
        if file.try_lock_shared().is_ok() {
            return LockHolder {
                shared: true,
                ..LockHolder::default()
            };
        }
        let process = signed_by(&file).ok().flatten();
        let seen = |process: u32| {
            let id = i32::try_from(process)
                .ok()
                .and_then(rustix::process::Pid::from_raw);
            // EPERM: the process exists, and belongs to another user.
            id.is_some_and(|id| rustix::process::test_kill_process(id) != Err(Errno::SRCH))
        };
        LockHolder {
            shared: false,
            process,
            process_seen: process.is_some_and(seen),
        }
    }
}

/// The kernel's text: 32 hexadecimal digits with hyphens between.
#[cfg(any(target_os = "linux", test))]
pub(super) fn parse_boot_id(text: &str) -> Option<BootId> {
    let digits: Vec<u8> = text
        .trim()
        .bytes()
        .filter(|&byte| byte != b'-')
        .map(|byte| (byte as char).to_digit(16).map(|digit| digit as u8))
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
        .collect();
    (digits.len() == 32).then(|| bytes.try_into().ok())?
}
