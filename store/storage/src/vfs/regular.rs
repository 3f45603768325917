//! Which names of the operating system are opened and made: only regular files that lie there
//! themselves. Thread safety: any.

use super::OsVfs;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

impl OsVfs {
    /// Opens the regular file at `path` itself for reading. For callers that need more than a
    /// [`File`](super::File) offers.
    pub fn regular_file(path: &Path) -> io::Result<fs::File> {
        open_regular(fs::OpenOptions::new().read(true), path)
    }

    /// Makes a file that the user has named, for writing. An existing file is never overwritten or
    /// written through. A character device (`/dev/null`, a terminal) holds nothing that could be
    /// lost, and is written to. So is a descriptor that the process already has open
    /// (`/dev/stdout`).
    pub fn new_file(path: &Path) -> io::Result<fs::File> {
        let mut options = fs::OpenOptions::new();
        options.write(true);
        if is_open_already(path) {
            return options.open(path);
        }
        match is_character_device(path)? {
            true => options.custom_flags(OFlags::NOFOLLOW.bits() as i32),
            false => options.create_new(true),
        };
        options.open(path)
    }

    /// Fails if [`new_file`](OsVfs::new_file) would refuse `path`. For callers that make the file
    /// only after a lot of work.
    pub fn refuse_present(path: &Path) -> io::Result<()> {
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(_) if is_open_already(path) || is_character_device(path)? => Ok(()),
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    /// Opens a file of ours that is continued, or makes it: a regular file at `path` itself, for
    /// reading and appending. Its contents stay.
    pub fn own_file(path: &Path) -> io::Result<fs::File> {
        let mut options = fs::OpenOptions::new();
        open_regular(options.read(true).append(true).create(true), path)
    }
}

pub(super) const A_LINK: &str = "a symbolic link, which is not followed";
pub(super) const NOT_REGULAR: &str = "not a regular file";

pub(super) fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Whether the name is one by which the system names a descriptor of this process.
fn is_open_already(path: &Path) -> bool {
    ["/dev/stdout", "/dev/stderr", "/dev/fd"]
        .iter()
        .any(|name| path.starts_with(name))
}

/// Whether a character device lies at `path` itself.
fn is_character_device(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        found => Ok(found?.file_type().is_char_device()),
    }
}

/// Opens a regular file that lies at `path` itself.
pub(super) fn open_regular(options: &mut fs::OpenOptions, path: &Path) -> io::Result<fs::File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    match options.custom_flags(flags.bits() as i32).open(path) {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        Ok(_) => Err(refused(NOT_REGULAR)),
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            Err(refused(A_LINK))
        }
        Err(error) => Err(error),
    }
}

/// Opens a directory, to which a link may lead. Anything else is refused before anybody waits for
/// it, as for a pipe.
pub(super) fn open_directory(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    let flags = OFlags::DIRECTORY.bits() as i32;
    options.read(true).custom_flags(flags).open(path)
}

/// The process that signed a lock file, if one did. `InvalidData`: no lock's owner wrote
/// these contents, and the file is somebody else's.
pub(super) fn signed_by(file: &fs::File) -> io::Result<Option<u32>> {
    let mut bytes = [0; 16];
    let len = file.read_at(&mut bytes, 0)?;
    let text = std::str::from_utf8(&bytes[..len]).unwrap_or("-");
    let process = text.trim().parse().ok().filter(|&process| process > 0);
    match (process, text.is_empty()) {
        (None, false) => Err(io::ErrorKind::InvalidData.into()),
        (process, _) => Ok(process),
    }
}

/// Whether the name leads to this file.
pub(super) fn leads_to(path: &Path, file: &fs::File) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::metadata(path) {
        Ok(named) => Ok(named.dev() == ours.dev() && named.ino() == ours.ino()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
