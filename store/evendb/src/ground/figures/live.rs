//! `STATS`: the figures of an open database, for other processes.
//!
//! A database has one owner, so no other process can open it to ask. Its owner keeps this file up
//! to date instead, written in place: no name changes and nothing is synced, so it costs one
//! `pwrite` into the page cache and waits for no disk.
//!
//! ```text
//! evendb live figures 1 <checksum, 8 hex digits> <length of what follows, 8 digits>\n
//! process_id <n>\n
//! sequence <n>\n              rises by one with each writing
//! interval_nanos <n>\n        when the next writing is due; 0: with the next call
//! uptime_nanos <n>\n
//! failure <text>\n            only once the database has latched
//! <name of a figure> <n>\n    ...
//! ```
//! After that come line feeds up to a multiple of 4096 bytes, so that the file never becomes
//! shorter.
//!
//! The file system knows how old it is: nothing in the store asks for the wall clock. So the age
//! shows that an owner is late. An owner that rests is never late: `/proc` tells whether it lives,
//! and if it is not visible there (in another container), the lock that it holds tells.
//!
//! A reader that meets a writer sees a wrong checksum, and reads again. The file is no part of the
//! database's format. It is removed when the database is closed, and when a database is opened that
//! was not closed. Everything else ignores it, so names and lines may change at any time.
//!
//! Thread safety: one writer. Nothing here fails the database; if writing fails, the figures stay
//! as they were.

use crate::error::Result;
use crate::files::{LOCK, STATS};
use crate::metrics::Figure;
use evendb_storage::Error as StorageError;
use evendb_storage::codec::checksum;
use evendb_storage::vfs::{File, OsVfs, Vfs};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MAGIC: &str = "evendb live figures 1 ";
const HEADER_BYTES: usize = MAGIC.len() + 8 + 1 + 8 + 1;
/// No owner writes a longer file; a longer file is not ours.
const FILE_BYTES_MAX: u64 = 1 << 20;
const ATTEMPTS: u32 = 50;
/// The number of writings that may be missed before the figures count as stale.
const MISSED_MAX: u32 = 3;

/// The data of one writing.
pub(crate) struct StatsRecord<'a> {
    pub(crate) sequence: u64,
    pub(crate) interval: Duration,
    pub(crate) uptime: Duration,
    pub(crate) failure: Option<String>,
    pub(crate) figures: &'a [Figure],
}

/// The owner's side.
pub(crate) struct StatsFile {
    file: Arc<dyn File>,
    text: String,
    len: usize,
}

impl StatsFile {
    pub(crate) fn create(vfs: &dyn Vfs, dir: &Path) -> Option<StatsFile> {
        remove(vfs, dir);
        let file = vfs.create(&dir.join(STATS)).ok()?;
        Some(StatsFile {
            file,
            text: String::new(),
            len: 0,
        })
    }

    /// Errors such as a full disk only mean that the figures stay as they were.
    pub(crate) fn write(&mut self, record: &StatsRecord<'_>) {
        self.len = encode(record, &mut self.text, self.len);
        let _ = self.file.write_at(self.text.as_bytes(), 0);
    }
}

pub(crate) fn remove(vfs: &dyn Vfs, dir: &Path) {
    let _ = vfs.remove(&dir.join(STATS));
}

fn encode(record: &StatsRecord<'_>, text: &mut String, len_min: usize) -> usize {
    let mut body = String::with_capacity(4096);
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        writeln!(body, "{name} {value}").expect("writing to a string cannot fail");
    };
    line("process_id", &std::process::id());
    line("sequence", &record.sequence);
    line("interval_nanos", &record.interval.as_nanos());
    line("uptime_nanos", &record.uptime.as_nanos());
    if let Some(failure) = &record.failure {
        line("failure", &failure.replace(['\n', '\r'], " "));
    }
    for figure in record.figures {
        line(figure.name, &figure.value);
    }
    let crc = checksum(0, &[body.as_bytes()]);
    text.clear();
    writeln!(text, "{MAGIC}{crc:08x} {:08}", body.len()).expect("writing to a string cannot fail");
    text.push_str(&body);
    let len = text.len().next_multiple_of(4096).max(len_min);
    text.extend(std::iter::repeat_n('\n', len - text.len()));
    len
}

/// The figures of a database that is open in some process, as that process wrote them last.
///
/// ```no_run
/// # fn main() -> evendb::Result<()> {
/// if let Some(live) = evendb::LiveStats::read("messages.db")? {
///     println!("{} puts by process {}", live.get("puts").unwrap_or(0), live.process_id());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LiveStats {
    process_id: u32,
    sequence: u64,
    /// The time at which the file was read, and its age then.
    read: (Instant, Duration),
    interval: Duration,
    uptime: Duration,
    failure: Option<String>,
    figures: Vec<(String, u64)>,
    /// The owner rests, is not visible, and does not hold the lock.
    owner_gone: bool,
}

impl LiveStats {
    /// Reads the figures of the database in `dir`. `None` if there are none: then no process has it
    /// open, or its [`Options::stats_interval`](crate::Options::stats_interval) is zero. It takes
    /// no lock, so the owner does not notice.
    ///
    /// # Errors
    /// `Io`; `Corruption` if the file does not verify, however often it is read.
    pub fn read(dir: impl AsRef<Path>) -> Result<Option<LiveStats>> {
        let path = dir.as_ref().join(STATS);
        let mut is_empty = false;
        for attempt in 0..ATTEMPTS {
            let (bytes, age) = match read_file(&path) {
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(error) => {
                    return Err(StorageError::io(&path, "read the live figures", error).into());
                }
            };
            if let Some(mut live) = decode(&bytes, age) {
                live.owner_gone = live.is_idle()
                    && live.process_is_alive() != Some(true)
                    && !is_locked(dir.as_ref());
                return Ok(Some(live));
            }
            is_empty = bytes.is_empty();
            // The reader met the writer; it is done in microseconds, unless it was preempted.
            std::thread::sleep(Duration::from_millis(u64::from(attempt.min(10))));
        }
        if is_empty {
            // Its owner could create the file, but not write it: a full disk.
            return Ok(None);
        }
        let detail = "the live figures do not verify";
        Err(StorageError::corruption(&path, 0, detail).into())
    }

    /// The process that wrote them.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.process_id
    }

    /// Rises by one with each writing.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The time since they were written.
    #[must_use]
    pub fn age(&self) -> Duration {
        let (read, age) = self.read;
        age + read.elapsed()
    }

    /// Time from one writing to the next; zero if the database is idle.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Whether the database is idle: no calls come and no work is owed. Then the figures are
    /// current, however old they are, and the next ones are written after the next call.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path()).unwrap();
    /// while !evendb::LiveStats::read(dir.path()).unwrap().is_some_and(|live| live.is_idle()) {
    ///     std::thread::sleep(std::time::Duration::from_millis(10));
    /// }
    /// # db.close().unwrap();
    /// ```
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.interval.is_zero()
    }

    /// The time for which the database had been open when the figures were written; for an idle
    /// database, when they were read.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        match self.is_idle() {
            true => self.uptime + self.read.1,
            false => self.uptime,
        }
    }

    /// The failure after which the database takes no more writes, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Whether the process that wrote them still runs; `None` if that cannot be told (it is read
    /// from `/proc`, which not every system has, and which shows only one's own container).
    #[must_use]
    pub fn process_is_alive(&self) -> Option<bool> {
        let own = std::process::id();
        if !Path::new("/proc").join(own.to_string()).exists() {
            return None;
        }
        Some(
            Path::new("/proc")
                .join(self.process_id.to_string())
                .exists(),
        )
    }

    /// Whether more than a few writings are overdue, or an idle owner is gone: the owner was
    /// killed, or stands still. If an idle owner is not visible, reading tries the database's lock
    /// for a moment to find out whether it lives.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        if self.is_idle() {
            return self.owner_gone;
        }
        self.age() > self.interval * MISSED_MAX + Duration::from_secs(1)
    }

    /// A figure by its name in [`Stats::figures`](crate::Stats::figures).
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        let found = self.figures.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| *value)
    }

    /// All figures, in their order.
    pub fn figures(&self) -> impl Iterator<Item = (&str, u64)> {
        self.figures
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
    }
}

/// Whether a process has the database open; if that cannot be found out, true.
fn is_locked(dir: &Path) -> bool {
    let lock = dir.join(LOCK);
    match OsVfs::regular_file(&lock) {
        Ok(file) => file.try_lock_shared().is_err(),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

/// The file's bytes, and their age.
fn read_file(path: &Path) -> std::io::Result<(Vec<u8>, Duration)> {
    use std::io::Read;
    let file = OsVfs::regular_file(path)?;
    // A time in the future, as after the clock was set back, counts as no age.
    let age = file.metadata()?.modified()?.elapsed().unwrap_or_default();
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok((bytes, age))
}

/// The content of the bytes, if they verify.
fn decode(bytes: &[u8], age: Duration) -> Option<LiveStats> {
    let header = std::str::from_utf8(bytes.get(..HEADER_BYTES)?).ok()?;
    let rest = header.strip_prefix(MAGIC)?.strip_suffix('\n')?;
    let (crc, len) = rest.split_once(' ')?;
    let crc = u32::from_str_radix(crc, 16).ok()?;
    let len: usize = len.parse().ok()?;
    let body = bytes.get(HEADER_BYTES..HEADER_BYTES.checked_add(len)?)?;
    if checksum(0, &[body]) != crc {
        return None;
    }
    let mut live = LiveStats {
        process_id: 0,
        sequence: 0,
        read: (Instant::now(), age),
        interval: Duration::ZERO,
        uptime: Duration::ZERO,
        failure: None,
        figures: Vec::new(),
        owner_gone: false,
    };
    for line in std::str::from_utf8(body).ok()?.lines() {
        let (name, value) = line.split_once(' ')?;
        if name == "failure" {
            live.failure = Some(value.to_owned());
            continue;
        }
        let value: u64 = value.parse().ok()?;
        match name {
            "process_id" => live.process_id = u32::try_from(value).ok()?,
            "sequence" => live.sequence = value,
            "interval_nanos" => live.interval = Duration::from_nanos(value),
            "uptime_nanos" => live.uptime = Duration::from_nanos(value),
            _ => live.figures.push((name.to_owned(), value)),
        }
    }
    Some(live)
}

#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod tests {
    use super::*;
    use crate::Stats;

    fn written(failure: Option<&str>) -> Vec<u8> {
        let stats = Stats {
            puts: 7,
            ..Stats::default()
        };
        let mut text = String::new();
        let record = StatsRecord {
            sequence: 3,
            interval: Duration::from_secs(1),
            uptime: Duration::from_secs(9),
            failure: failure.map(str::to_owned),
            figures: &stats.figures(),
        };
        let len = encode(&record, &mut text, 8192);
        assert_eq!((text.len(), len % 4096), (len, 0));
        assert!(len >= 8192, "never shorter than before");
        text.into_bytes()
    }

    #[test]
    fn what_is_written_is_read() {
        let live = decode(&written(Some("no\nroom")), Duration::ZERO).unwrap();
        assert_eq!(live.process_id(), std::process::id());
        assert_eq!((live.sequence(), live.get("puts")), (3, Some(7)));
        assert_eq!(live.uptime(), Duration::from_secs(9));
        assert_eq!(live.failure(), Some("no room"));
        assert_eq!(live.figures().count(), Stats::default().figures().len());
        assert!(!live.is_stale());
        assert!(
            decode(&written(None), Duration::ZERO)
                .unwrap()
                .failure()
                .is_none()
        );
    }

    #[test]
    fn no_bytes_panic_and_no_changed_ones_verify() {
        let bytes = written(None);
        for end in 0..HEADER_BYTES + 200 {
            assert!(
                decode(&bytes[..end], Duration::ZERO).is_none(),
                "cut at {end}"
            );
        }
        for at in 0..HEADER_BYTES + 200 {
            for flip in [1, 0x20, 0x80] {
                let mut bytes = bytes.clone();
                bytes[at] ^= flip;
                // The case of the checksum's digits does not matter.
                let upper =
                    decode(&bytes, Duration::ZERO).is_some() && bytes[at].is_ascii_hexdigit();
                assert!(
                    decode(&bytes, Duration::ZERO).is_none() || upper,
                    "byte {at} ^ {flip}"
                );
            }
        }
    }
}
