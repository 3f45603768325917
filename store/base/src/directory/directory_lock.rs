//! The lock of a database's directory: one writer, or readers.
//!
//! It is a system lock on a file in the directory, and ends with its owner. A killed process keeps
//! its locks until the system has taken it down, some milliseconds later. So an opening waits for
//! another process, as long as its caller says. It does not wait for a handle of its own process:
//! there the caller needs the error instead.
//! Thread safety: the system's.

use crate::error::{Error, ErrorKind, Result};
use crate::sync::thread;
use evendb_storage::Error as StorageError;
use evendb_storage::vfs::{LockGuard, LockHolder, Vfs};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long an opening waits for another process by default.
pub const LOCK_PATIENCE: Duration = Duration::from_millis(100);
/// The longest wait that a caller can ask for, 68 years: a clock cannot represent the end of every
/// duration.
const LOCK_PATIENCE_MAX: Duration = Duration::from_secs(1 << 31);
/// The shortest and the longest pause between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// Locks the directory by its file `name`, as [`lock`] does. While another process has the lock, it
/// tries again, as long as `patience` says.
pub fn lock_within(
    vfs: &dyn Vfs,
    dir: &Path,
    name: &str,
    (shared, patience): (bool, Duration),
) -> Result<Option<Box<dyn LockGuard>>> {
    let is_own = || vfs.lock_holder(&dir.join(name)).process == Some(std::process::id());
    try_within(patience, &mut || {
        let locked = lock(vfs, dir, name, shared);
        let is_taken = matches!(&locked, Err(error) if error.kind() == ErrorKind::Locked);
        (locked, is_taken && !is_own())
    })
}

/// Repeats `attempt` as long as `patience` says. Its second result tells whether the outcome may
/// change soon.
fn try_within<T>(patience: Duration, attempt: &mut dyn FnMut() -> (T, bool)) -> T {
    let until = Instant::now() + patience.min(LOCK_PATIENCE_MAX);
    let mut pause = PAUSES.0;
    loop {
        let (outcome, may_change) = attempt();
        let left = until.saturating_duration_since(Instant::now());
        if !may_change || left.is_zero() {
            return outcome;
        }
        thread::sleep(pause.min(left));
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Locks the directory by its file `name`, or says at once who has it. A reader needs no lock in a
/// directory without a lock file in which none can be made (a read-only medium): nobody can write
/// there.
pub fn lock(
    vfs: &dyn Vfs,
    dir: &Path,
    name: &str,
    shared: bool,
) -> Result<Option<Box<dyn LockGuard>>> {
    use std::io::ErrorKind as Io;
    let path = dir.join(name);
    let mut locked = vfs.lock(&path, shared);
    if shared
        && locked
            .as_ref()
            .is_err_and(|error| error.kind() == Io::NotFound)
    {
        locked = match vfs.lock(&path, false) {
            Ok(made) => {
                drop(made);
                vfs.lock(&path, true)
            }
            Err(error) if matches!(error.kind(), Io::ReadOnlyFilesystem | Io::PermissionDenied) => {
                return Ok(None);
            }
            Err(error) => Err(error),
        };
    }
    match locked {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if error.kind() == Io::WouldBlock => Err(open_elsewhere(
            dir,
            vfs.lock_holder(&path),
            std::process::id(),
        )),
        Err(error) => Err(StorageError::io(&path, "lock the database", error).into()),
    }
}

/// The error for a second opener: it says who the first one is, as far as known, and what to do.
pub fn open_elsewhere(dir: &Path, holder: LockHolder, own: u32) -> Error {
    let who = match holder.process {
        _ if holder.shared => {
            "for reading elsewhere (readers leave no name); close them before writing".to_owned()
        }
        Some(id) if id == own => {
            format!("in this process ({id}) already; share that handle, or close it first")
        }
        Some(id) if holder.process_seen => {
            format!("in process {id}; end that process, or have it close the database")
        }
        Some(id) => format!(
            "elsewhere: its LOCK file names process {id}, which cannot be seen from here (another \
             container or machine?)"
        ),
        None => "elsewhere, by a process that its LOCK file does not name".to_owned(),
    };
    let message = format!("the database in {} is open {who}", dir.display());
    Error::new(ErrorKind::Locked, message)
}

#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod tests {
    use super::*;
    use evendb_storage::vfs::SimVfs;

    const LONG: Duration = Duration::from_secs(u64::MAX);

    #[test]
    fn a_lock_that_comes_free_while_there_is_patience_is_taken() {
        for frees_after in [0, 1, 5] {
            let mut attempts = 0;
            let locked = try_within(LONG, &mut || {
                attempts += 1;
                (attempts > frees_after, attempts <= frees_after)
            });
            assert!(locked);
            assert_eq!(attempts, frees_after + 1);
        }
    }

    #[test]
    fn without_patience_or_hope_there_is_one_attempt() {
        for (patience, may_change) in [(Duration::ZERO, true), (LONG, false)] {
            let mut attempts = 0;
            try_within(patience, &mut || {
                attempts += 1;
                ((), may_change)
            });
            assert_eq!(attempts, 1);
        }
        // It ends in any case.
        try_within(Duration::from_millis(2), &mut || ((), true));
    }

    #[test]
    fn another_handle_of_the_process_is_not_waited_for() {
        let vfs = SimVfs::new(1);
        let dir = Path::new("/db");
        vfs.create_dir_all(dir).expect("makes it");
        let first = lock_within(&vfs, dir, "LOCK", (false, LONG)).expect("locks");
        let error = lock_within(&vfs, dir, "LOCK", (false, LONG)).expect_err("is locked");
        assert_eq!(error.kind(), ErrorKind::Locked);
        drop(first);
        lock_within(&vfs, dir, "LOCK", (false, LONG)).expect("locks");
    }
}
