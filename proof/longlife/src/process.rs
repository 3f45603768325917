//! What this process takes: memory, threads, descriptors, processor time; and what a directory
//! takes.
//!
//! Linux only: all of it is read from `/proc`.

#![expect(unsafe_code, reason = "the allocator is asked to give memory back")]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What the process takes at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Bytes of resident memory without those of files, after the allocator gave back what it
    /// could.
    pub resident: u64,
    /// Bytes that the program asked the allocator for and has not given back. None if the allocator
    /// does not say.
    pub allocated: u64,
    /// Threads.
    pub threads: u64,
    /// Open descriptors.
    pub descriptors: u64,
}

/// What a directory takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Disk {
    /// Files.
    pub files: u64,
    /// Bytes of their blocks, except those of the manifest and of the ballast.
    pub bytes: u64,
    /// Bytes of the manifest's blocks: it grows with each opening until it is written anew.
    pub manifest: u64,
    /// Bytes of the ballast's blocks: it grows in steps with the most data that there have been,
    /// which depends on how far compactions lag.
    pub ballast: u64,
}

/// The files of a directory at a moment: length, blocks, time of the last change.
pub type Listing = BTreeMap<PathBuf, (u64, u64, i64, i64)>;

fn entries(path: &str) -> io::Result<u64> {
    Ok(fs::read_dir(path)?.count() as u64)
}

#[cfg(target_env = "gnu")]
fn trim() {
    unsafe extern "C" {
        /// Declared in malloc.h of the GNU C library.
        safe fn malloc_trim(pad: usize) -> std::ffi::c_int;
    }
    malloc_trim(0);
}

/// Other allocators are left alone.
#[cfg(not(target_env = "gnu"))]
fn trim() {}

#[cfg(target_env = "gnu")]
fn allocated() -> u64 {
    /// What the GNU C library tells of all its arenas, in the order of malloc.h.
    #[repr(C)]
    struct Info {
        others: [usize; 4],
        /// Bytes in pieces that are mapped, each by itself.
        mapped: usize,
        more: [usize; 2],
        /// Bytes of the arenas that are in use.
        used: usize,
        rest: [usize; 2],
    }
    unsafe extern "C" {
        /// Declared in malloc.h of the GNU C library.
        safe fn mallinfo2() -> Info;
    }
    let info = mallinfo2();
    (info.mapped + info.used) as u64
}

#[cfg(not(target_env = "gnu"))]
fn allocated() -> u64 {
    0
}

/// What the process takes now.
///
/// # Errors
/// Without `/proc`.
pub fn usage() -> io::Result<Usage> {
    trim();
    let statm = fs::read_to_string("/proc/self/statm")?;
    // All resident pages, and those of files: pages of the program itself come in while more of it
    // has run.
    let mut fields = statm.split(' ').skip(1);
    let mut next = || fields.next().and_then(|pages| pages.parse::<u64>().ok());
    let pages = next().zip(next()).ok_or(io::ErrorKind::InvalidData)?;
    let pages = pages.0.saturating_sub(pages.1);
    Ok(Usage {
        resident: pages * rustix::param::page_size() as u64,
        allocated: allocated(),
        threads: entries("/proc/self/task")?,
        // The directory itself is open while it is read.
        descriptors: entries("/proc/self/fd")? - 1,
    })
}

/// The targets of the open descriptors.
///
/// # Errors
/// Without `/proc`.
pub fn open_paths() -> io::Result<Vec<String>> {
    let links = fs::read_dir("/proc/self/fd")?.filter_map(|entry| {
        let to = fs::read_link(entry.ok()?.path()).ok()?;
        Some(to.to_string_lossy().into_owned())
    });
    Ok(links.collect())
}

/// Processor time of all threads that ever ran, in milliseconds.
///
/// # Errors
/// Without `/proc`.
pub fn processor_millis() -> io::Result<u64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // After the name, which may hold anything: the state is the first field, times in user and
    // kernel mode are the 12th and 13th.
    let rest = stat.rsplit_once(')').map(|(_, rest)| rest);
    let mut fields = rest.ok_or(io::ErrorKind::InvalidData)?.split_whitespace();
    let mut next = |skip| fields.nth(skip).and_then(|ticks| ticks.parse::<u64>().ok());
    let (user, kernel) = (next(11), next(0));
    let ticks = user.zip(kernel).ok_or(io::ErrorKind::InvalidData)?;
    Ok((ticks.0 + ticks.1) * 1000 / rustix::param::clock_ticks_per_second())
}

/// Bytes that the process passed to the system by calls that write.
///
/// # Errors
/// Without `/proc`.
pub fn written_bytes() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/io")?;
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|number| number.parse().ok())
        .ok_or(io::ErrorKind::InvalidData.into())
}

/// The files of a directory.
///
/// # Errors
/// Of the system. A file that is removed meanwhile is passed over.
pub fn listing(dir: &Path) -> io::Result<Listing> {
    let mut found = Listing::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() => found.extend(listing(&path)?),
            Ok(meta) => {
                let state = (meta.len(), meta.blocks(), meta.mtime(), meta.mtime_nsec());
                found.insert(path, state);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// What a directory takes.
///
/// # Errors
/// Of the system.
pub fn disk(dir: &Path) -> io::Result<Disk> {
    let found = listing(dir)?;
    let mut disk = Disk {
        files: found.len() as u64,
        ..Disk::default()
    };
    for (path, (_, blocks, ..)) in &found {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let sum = match &*name {
            "BALLAST" => &mut disk.ballast,
            name if name.starts_with("MANIFEST-") => &mut disk.manifest,
            _ => &mut disk.bytes,
        };
        *sum += blocks * 512;
    }
    Ok(disk)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than other tests of this process open and close meanwhile.
    #[test]
    fn what_is_taken_is_seen() {
        let before = usage().expect("there is /proc");
        let open = || fs::File::open("/proc/self/stat").expect("opens");
        let files: Vec<fs::File> = (0..100).map(|_| open()).collect();
        let block = vec![1u8; 64 << 20];
        let with = usage().expect("there is /proc");
        assert!(with.descriptors > before.descriptors + 50);
        assert!(
            with.resident > before.resident + (32 << 20),
            "{before:?} {with:?}"
        );
        let more = with.allocated.saturating_sub(before.allocated);
        assert!(
            more > (60 << 20) || cfg!(not(target_env = "gnu")),
            "{before:?} {with:?}"
        );
        drop((files, block));
    }

    #[test]
    fn a_directory_takes_what_its_files_do() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("inner")).expect("creates");
        fs::write(dir.path().join("inner/a"), vec![1; 10_000]).expect("writes");
        fs::write(dir.path().join("b"), "").expect("writes");
        fs::write(dir.path().join("MANIFEST-1"), vec![1; 70_000]).expect("writes");
        fs::write(dir.path().join("BALLAST"), vec![1; 90_000]).expect("writes");
        let found = disk(dir.path()).expect("reads");
        assert_eq!(found.files, 4);
        assert!((10_000..70_000).contains(&found.bytes), "{found:?}");
        assert!(
            found.manifest >= 70_000 && found.ballast >= 90_000,
            "{found:?}"
        );
        assert!(processor_millis().is_ok() && written_bytes().is_ok());
    }
}
