//! The disk below a directory: sequential and random reads, sequential writes, `fdatasync`.
//!
//! The data file is written once, in order, and then only read. Its writes go through the page
//! cache, as a store's usually do, and count until `fdatasync` returned. Reads and small synced
//! writes use `O_DIRECT` and buffers aligned to 4 KiB, if the file system takes that.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::fs::{Advice, OFlags, fadvise, statfs, statvfs};

use super::{
    BLOCK_BYTES, CalibrateError, Calibration, CalibrationSettings, RANDOM_READ_THREADS, Rate,
    Sliced, check,
};
use crate::random::Random;

/// Bytes of one sequential read or write.
const PIECE_BYTES: usize = 1 << 20;
/// The file is written in this number of parts, each with its fdatasync.
const WRITE_PARTS: u64 = 16;
/// A smaller file says nothing about a disk.
const FILE_BYTES_MIN: u64 = 64 << 20;
/// Bytes of the free space that stay free.
const SPACE_LEFT: u64 = 64 << 20;
/// Bytes of the file that is synced.
const SYNC_FILE_BYTES: u64 = 4 << 20;

/// Measures all that concerns the disk; the figures of memory are left empty.
pub(super) fn run(
    settings: &CalibrationSettings,
    interrupted: &AtomicBool,
    step: &dyn Fn(&str),
) -> Result<Calibration, CalibrateError> {
    check(interrupted)?;
    let directory = Scratch::new(&settings.directory)?;
    let size = file_bytes(settings)?;
    let path = directory.0.join("data");
    step("sequential write");
    let (file_bytes, sequential_write) = write(&path, size, settings, interrupted)?;
    let file = DataFile::open(&path, file_bytes)?;
    step("sequential read");
    let sequential_read = file.read_in_order(settings, interrupted)?;
    step("random reads, 1 thread");
    let random_read = file.read_at_random(BLOCK_BYTES, 1, settings, interrupted)?;
    step("random reads, 16 threads");
    let random_read_threads =
        file.read_at_random(BLOCK_BYTES, RANDOM_READ_THREADS, settings, interrupted)?;
    let sync = |threads| {
        let settings = SyncSettings {
            record_bytes: BLOCK_BYTES,
            threads,
            direct: true,
            time: settings.time,
            slices: settings.slices,
        };
        sync_rate(&directory.0, &settings, interrupted)
    };
    step("fdatasync, 1 thread");
    let sync_one = sync(1)?;
    step("fdatasync, 2 threads");
    let sync_two_threads = sync(2)?;
    Ok(Calibration {
        directory: settings.directory.display().to_string(),
        file_bytes,
        direct: file.direct,
        in_memory: in_memory(&directory.0),
        memory_latency_nanos: Sliced::default(),
        memory_copy_bytes_per_second: Sliced::default(),
        random_read,
        random_read_threads,
        sequential_read_bytes_per_second: sequential_read,
        sequential_write_bytes_per_second: sequential_write,
        sync: sync_one,
        sync_two_threads,
    })
}

/// Random reads of `bytes` (whole blocks of 4 KiB) a second, by this number of threads, in a file
/// of 256 MiB. They bypass the page cache if the file system takes that. The measurement takes
/// about a second; the file is made in `directory` and removed.
///
/// # Errors
/// The system's, no room, or the interruption.
pub fn random_reads_per_second(
    directory: &Path,
    bytes: usize,
    threads: usize,
    interrupted: &AtomicBool,
) -> Result<f64, CalibrateError> {
    let settings = CalibrationSettings {
        time: Duration::from_millis(500),
        file_bytes: 256 << 20,
        ..CalibrationSettings::new(directory.to_owned())
    };
    let scratch = Scratch::new(directory)?;
    let path = scratch.0.join("data");
    let (file_bytes, _) = write(&path, file_bytes(&settings)?, &settings, interrupted)?;
    let file = DataFile::open(&path, file_bytes)?;
    let rate = file.read_at_random(bytes, threads, &settings, interrupted)?;
    Ok(rate.per_second.median)
}

/// A directory that is removed with its content.
struct Scratch(PathBuf);

impl Scratch {
    fn new(parent: &Path) -> Result<Self, CalibrateError> {
        // Two runs of one process, as in tests, are kept apart by the number.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("evendb-calibrate-{}-{number}", std::process::id()));
        fs::create_dir(&path).map_err(CalibrateError::io("create files in", parent))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The size of the file: as asked, or less if that does not fit.
fn file_bytes(settings: &CalibrationSettings) -> Result<u64, CalibrateError> {
    let directory = &settings.directory;
    let space = statvfs(directory)
        .map_err(|error| CalibrateError::io("look at", directory)(error.into()))?;
    let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
    let fits = free_bytes.saturating_sub(SPACE_LEFT);
    let needed = settings.file_bytes.min(FILE_BYTES_MIN);
    if fits < needed {
        return Err(CalibrateError::NoSpace {
            directory: directory.clone(),
            free_bytes,
            needed_bytes: needed + SPACE_LEFT,
        });
    }
    Ok(settings.file_bytes.min(fits).max(PIECE_BYTES as u64))
}

/// Whether this is a tmpfs or a ramfs, by their numbers in the kernel.
fn in_memory(path: &Path) -> bool {
    statfs(path).is_ok_and(|system| system.f_type == 0x0102_1994 || system.f_type == 0x8584_58F6)
}

/// Writes the file and returns how far it got (a slow disk gets three times the measurement's
/// time) and the speed of its parts.
fn write(
    path: &Path,
    size: u64,
    settings: &CalibrationSettings,
    interrupted: &AtomicBool,
) -> Result<(u64, Sliced), CalibrateError> {
    let failed = || CalibrateError::io("write", path);
    let pieces = size / PIECE_BYTES as u64;
    let per_part = pieces.div_ceil(WRITE_PARTS);
    let file = File::create(path).map_err(CalibrateError::io("create", path))?;
    let mut piece = noise();
    let (begun, mut written, mut parts) = (Instant::now(), 0, Vec::new());
    while written < pieces {
        let (start, before) = (Instant::now(), written);
        while written < pieces.min(before + per_part) {
            check(interrupted)?;
            // No two pieces are equal, for disks that look for equal data.
            piece[..8].copy_from_slice(&written.to_le_bytes());
            file.write_all_at(&piece, written * PIECE_BYTES as u64)
                .map_err(failed())?;
            written += 1;
        }
        file.sync_data().map_err(failed())?;
        let bytes = (written - before) * PIECE_BYTES as u64;
        parts.push(bytes as f64 / start.elapsed().as_secs_f64());
        let enough = written * PIECE_BYTES as u64 >= FILE_BYTES_MIN;
        if enough && begun.elapsed() > settings.time * 3 {
            break;
        }
    }
    file.sync_all().map_err(failed())?;
    Ok((written * PIECE_BYTES as u64, Sliced::of(parts)))
}

/// Bytes that do not compress.
fn noise() -> Vec<u8> {
    let mut bytes = vec![0; PIECE_BYTES];
    Random::new(2, 0).fill(&mut bytes);
    bytes
}

/// The file to read.
struct DataFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    direct: bool,
}

impl DataFile {
    fn open(path: &Path, bytes: u64) -> Result<Self, CalibrateError> {
        let flags = OFlags::DIRECT.bits() as i32;
        let direct = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path)
            .ok()
            // Some file systems take the flag and refuse the read.
            .filter(|file| {
                let mut buffer = Aligned::new(BLOCK_BYTES);
                file.read_exact_at(buffer.bytes(), 0).is_ok()
            });
        let (file, direct) = match direct {
            Some(file) => (file, true),
            None => {
                let file = File::open(path).map_err(CalibrateError::io("open", path))?;
                (file, false)
            }
        };
        Ok(Self {
            path: path.to_owned(),
            file,
            bytes,
            direct,
        })
    }

    fn failed<'a>(&'a self) -> impl FnOnce(io::Error) -> CalibrateError + use<'a> {
        CalibrateError::io("read", &self.path)
    }

    /// Drops the file from the page cache, unless reads bypass it.
    fn forget(&self) -> Result<(), CalibrateError> {
        if self.direct {
            return Ok(());
        }
        fadvise(&self.file, 0, None, Advice::DontNeed)
            .map_err(|error| self.failed()(io::Error::from(error)))
    }

    fn read_in_order(
        &self,
        settings: &CalibrationSettings,
        interrupted: &AtomicBool,
    ) -> Result<Sliced, CalibrateError> {
        let mut buffer = Aligned::new(PIECE_BYTES);
        let (mut place, mut slices) = (0, Vec::new());
        self.forget()?;
        for _ in 0..settings.slices.max(1) {
            let (start, mut read) = (Instant::now(), 0);
            while read == 0 || start.elapsed() < settings.slice() {
                check(interrupted)?;
                if place + PIECE_BYTES as u64 > self.bytes {
                    place = 0;
                    self.forget()?;
                }
                self.file
                    .read_exact_at(buffer.bytes(), place)
                    .map_err(self.failed())?;
                place += PIECE_BYTES as u64;
                read += PIECE_BYTES;
            }
            slices.push(read as f64 / start.elapsed().as_secs_f64());
        }
        Ok(Sliced::of(slices))
    }

    fn read_at_random(
        &self,
        bytes: usize,
        threads: usize,
        settings: &CalibrationSettings,
        interrupted: &AtomicBool,
    ) -> Result<Rate, CalibrateError> {
        let mut slices = Vec::new();
        for slice in 0..settings.slices.max(1) {
            self.forget()?;
            slices.push(rate_of(threads, settings.slice(), interrupted, |thread| {
                let mut random = Random::new(3, (slice * threads + thread) as u64);
                let mut buffer = Aligned::new(bytes);
                let last = self.bytes.saturating_sub(bytes as u64) / BLOCK_BYTES as u64;
                move || {
                    let block = random.below(last + 1);
                    self.file
                        .read_exact_at(buffer.bytes(), block * BLOCK_BYTES as u64)
                        .map_err(self.failed())
                }
            })?);
        }
        Ok(Rate::of(&slices))
    }
}

/// How to measure `fdatasync`.
#[derive(Clone, Debug)]
pub struct SyncSettings {
    /// Bytes that are written before each `fdatasync`.
    pub record_bytes: usize,
    /// Threads, each with a file of its own.
    pub threads: usize,
    /// Whether to bypass the page cache, which is faster if the file system takes it. Needs records
    /// of whole blocks of 4 KiB.
    pub direct: bool,
    /// The time of all slices together.
    pub time: Duration,
    /// The time is divided into this number of slices, and the median over them is taken.
    pub slices: usize,
}

/// How often a second the disk can write a few bytes and sync them, in files whose blocks were all
/// written before. The files are made in `directory` and removed.
///
/// # Errors
/// The system's, or the interruption.
pub fn sync_rate(
    directory: &Path,
    settings: &SyncSettings,
    interrupted: &AtomicBool,
) -> Result<Rate, CalibrateError> {
    let scratch = Scratch::new(directory)?;
    let mut files = Vec::new();
    for index in 0..settings.threads.max(1) {
        let path = scratch.0.join(index.to_string());
        let file = sync_file(&path, settings.direct)?;
        files.push((path, file));
    }
    let record = settings.record_bytes.clamp(1, SYNC_FILE_BYTES as usize);
    let records = SYNC_FILE_BYTES / record as u64;
    let time = settings.time / settings.slices.max(1) as u32;
    let mut slices = Vec::new();
    for slice in 0..settings.slices.max(1) {
        slices.push(rate_of(files.len(), time, interrupted, |thread| {
            let (path, file) = &files[thread];
            let (mut count, mut buffer) = (0u64, Aligned::new(record));
            // Every slice has other bytes, so that a write changes what is there.
            Random::new(4, slice as u64).fill(buffer.bytes());
            move || {
                let place = count % records * record as u64;
                count += 1;
                file.write_all_at(buffer.bytes(), place)
                    .and_then(|()| file.sync_data())
                    .map_err(CalibrateError::io("sync", path))
            }
        })?);
    }
    Ok(Rate::of(&slices))
}

/// A file that was written before, opened for writing past the page cache if possible and wanted.
fn sync_file(path: &Path, direct: bool) -> Result<File, CalibrateError> {
    let file = File::create(path).map_err(CalibrateError::io("create", path))?;
    let content = noise();
    for place in (0..SYNC_FILE_BYTES).step_by(PIECE_BYTES) {
        file.write_all_at(&content, place)
            .map_err(CalibrateError::io("write", path))?;
    }
    file.sync_all().map_err(CalibrateError::io("sync", path))?;
    let flags = OFlags::DIRECT.bits() as i32;
    let past_cache = OpenOptions::new()
        .write(true)
        .custom_flags(flags)
        .open(path);
    let past_cache = past_cache.ok().filter(|file| {
        let mut buffer = Aligned::new(BLOCK_BYTES);
        direct && file.write_all_at(buffer.bytes(), 0).is_ok()
    });
    Ok(past_cache.unwrap_or(file))
}

/// Repeats an operation on a number of threads for a time. Returns operations a second, and the
/// median nanoseconds of one.
fn rate_of<O>(
    threads: usize,
    time: Duration,
    interrupted: &AtomicBool,
    operation_of: impl Fn(usize) -> O,
) -> Result<(f64, f64), CalibrateError>
where
    O: FnMut() -> Result<(), CalibrateError> + Send,
{
    let operations: Vec<O> = (0..threads).map(operation_of).collect();
    let start = Instant::now();
    let outcomes: Vec<_> = thread::scope(|scope| {
        let repeat = |mut operation: O| {
            scope.spawn(move || {
                let mut latencies = histogram();
                while latencies.is_empty() || start.elapsed() < time {
                    check(interrupted)?;
                    let begun = Instant::now();
                    operation()?;
                    latencies.saturating_record(begun.elapsed().as_nanos() as u64);
                }
                Ok(latencies)
            })
        };
        let handles: Vec<_> = operations.into_iter().map(repeat).collect();
        handles
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let mut all = histogram();
    for outcome in outcomes {
        let latencies = outcome.map_err(|_| CalibrateError::Panicked)??;
        all.add(latencies)
            .expect("histograms of the same bounds can be added");
    }
    Ok((
        all.len() as f64 / seconds,
        all.value_at_quantile(0.5) as f64,
    ))
}

/// From a nanosecond to a minute.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are valid constants")
}

/// A buffer whose address is a multiple of 4 KiB, as `O_DIRECT` needs it.
struct Aligned {
    buffer: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    fn new(length: usize) -> Self {
        let buffer = vec![0; length + BLOCK_BYTES];
        let start = buffer.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
        Self {
            buffer,
            start,
            length,
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..self.start + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned() {
        for length in [1, BLOCK_BYTES, PIECE_BYTES] {
            let mut buffer = Aligned::new(length);
            assert_eq!(buffer.bytes().as_ptr() as usize % BLOCK_BYTES, 0);
            assert_eq!(buffer.bytes().len(), length);
        }
    }

    #[test]
    fn the_disk_answers_and_its_files_go() {
        let directory = tempfile::tempdir().unwrap();
        for (record_bytes, threads, direct) in [(1 << 10, 1, false), (BLOCK_BYTES, 2, true)] {
            let settings = SyncSettings {
                record_bytes,
                threads,
                direct,
                time: Duration::from_millis(5),
                slices: 1,
            };
            let rate = sync_rate(directory.path(), &settings, &AtomicBool::new(false)).unwrap();
            assert!(rate.per_second.median > 0.0 && rate.p50_nanos.median > 0.0);
            assert!(fs::read_dir(directory.path()).unwrap().next().is_none());
        }
    }

    #[test]
    fn an_operation_that_fails_ends_the_measurement() {
        let fails = |_| {
            || {
                Err(CalibrateError::io("read", Path::new("x"))(
                    io::Error::other("broken"),
                ))
            }
        };
        let outcome = rate_of(3, Duration::from_secs(60), &AtomicBool::new(false), fails);
        assert_eq!(outcome.unwrap_err().to_string(), "cannot read x: broken");
    }
}
