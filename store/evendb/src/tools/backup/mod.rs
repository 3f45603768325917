//! Backups: a directory of generations, each a whole database without a commit log, made while
//! writers go on.
//!
//! ```text
//! backups/
//!   LOCK                  one backup or pruning at a time; restoring and verifying share it
//!   000001/               a generation: what Db::copy_to makes
//!     a.sst b.sst CHUNK-LOGS MANIFEST-000001 CURRENT
//!     BACKUP-LIST         names, lengths, checksums; written last: with it the generation counts
//!   000002/
//!     a.sst               a hard link to 000001/a.sst: a table that both need is there once
//!     c.sst ...
//! ```
//! A generation shares tables with the one before it, never with the source: if a file of the
//! source is damaged or written to, the backup does not change. If the file system has no links,
//! each generation is a copy of its own. The container's runs are copied each time.
//!
//! The new files of a generation are verified against the database's own checksums while it is made
//! ([`crate::copy`]), and its list says so. Later generations share only verified files. So no
//! damaged database is backed up as if it were sound.
//!
//! Durability, each step needing the one before. The generation is a database, durably
//! ([`crate::copy`]). Its files are read back for their checksums. The list is written, synced and
//! renamed, and the names are synced: the names in the generation, and the name of its directory.
//! Only then does the call return. A backup that is killed leaves a directory without a list, and
//! with a mark. It counts for nothing, and the next backup or pruning removes it ([`removal`]);
//! earlier generations are not touched. Pruning renames the list first, durably, and then removes
//! the rest, so the remains of a pruning that is killed do not count, either.
//!
//! Restoring checks every byte against the list, and verifies files that were not verified when
//! they were copied. It makes a database in an empty directory, with `CURRENT` last.
//!
//! Thread safety: any thread; the lock keeps processes apart. Not here: a schedule, and other
//! machines.

#![expect(
    clippy::disallowed_methods,
    reason = "a list says when its backup was begun; nothing depends on it"
)]

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod damage_tests;
pub(crate) mod export;
pub(crate) mod list;
#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod place_tests;
mod removal;
mod restoring;
mod sharing;
#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;

use crate::api::db::Db;
use crate::copy::check::{CopyCheck, CopyOptions};
use crate::copy::{self, Mark, PIECE_BYTES, Sources, Wanted, failed};
use crate::encryption::KeyProvider;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::files::{LOCK, UNFINISHED_COPY};
use crate::plant::planted;
use crate::sync::Arc;
use evendb_base::made_dirs::MadeDirs;
use evendb_base::placement;
use evendb_storage::Error as StorageError;
use evendb_storage::vfs::{LockGuard, OsVfs, Vfs, read_exact_at};
use list::{BackupList, FileSum, ListedFile};
use sharing::Shared;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The name of a generation's list, and of one that is not finished.
const LIST: &str = placement::BACKUP_LIST;
const LIST_UNFINISHED: &str = "BACKUP-LIST.tmp";

/// The result of [`Db::backup`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupSummary {
    /// The number of the backup.
    pub number: u64,
    /// Bytes of all its files.
    pub bytes: u64,
    /// Bytes of the files that the backup before also has.
    pub bytes_shared: u64,
    /// Bytes of keys and values that were read to be verified.
    pub bytes_verified: u64,
    /// The time from the call to the end.
    pub elapsed: Duration,
}

/// A backup, as [`Backups::list`] describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupInfo {
    /// Its number: a later one is greater.
    pub number: u64,
    /// The time of its begin, in seconds since 1970 by the clock of that machine.
    pub seconds: u64,
    /// Files that belong to it.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Bytes of the files that the backup before also had.
    pub bytes_shared: u64,
    /// Whether all of it was verified against the checksums of the database when it was made.
    pub verified: bool,
    /// The reason, if its list cannot be read. The figures are 0 then.
    pub damage: Option<String>,
}

impl Db {
    /// Makes a backup in directory `dir`, beside earlier ones. It holds everything that was
    /// acknowledged before the call. Writers go on. Tables that the backup before has are shared
    /// with it by hard links, so only new files are copied. On return the backup survives power
    /// loss.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let (path, backups, restored) = (dir.path().join("db"), dir.path().join("backups"), dir.path().join("new"));
    /// let db = evendb::Db::open(path)?;
    /// db.put("key", "value")?;
    /// db.backup(&backups)?;
    /// db.delete("key")?;
    ///
    /// let backups = evendb::Backups::at(backups);
    /// backups.verify(None)?;
    /// backups.restore(None, &restored)?;
    /// let restored = evendb::Db::open(restored)?;
    /// assert_eq!(restored.get("key")?.unwrap(), "value");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if `dir` is the directory of a database, lies inside of one or of one with
    /// backups, or has this database in it. `Corruption` with the file and the offset if the
    /// database is damaged. `Locked` if another backup or pruning is under way there. `NoSpace` and
    /// `Io` for failures of either disk. Earlier backups stay as they were, and a directory that
    /// the call made is removed. Otherwise the errors of [`flush`](Self::flush).
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<BackupSummary> {
        self.backup_with(dir, &CopyOptions::new())
    }

    /// Like [`backup`](Self::backup), with options.
    ///
    /// # Errors
    /// The errors of [`backup`](Self::backup).
    pub fn backup_with(&self, dir: impl AsRef<Path>, how: &CopyOptions) -> Result<BackupSummary> {
        let recording = &self.engine().core.recording;
        recording.other("backup", || backup(self.engine(), dir.as_ref(), how))
    }
}

fn backup(engine: &Engine, dir: &Path, how: &CopyOptions) -> Result<BackupSummary> {
    let _inside = engine.core.health.enter_writable()?;
    let started = Instant::now();
    let seconds = seconds_now();
    let backups = Backups {
        vfs: engine.disk.vfs.clone(),
        dir: std::path::absolute(dir).map_err(failed(dir, "resolve the path"))?,
        keys: None,
    };
    let vfs = &backups.vfs;
    placement::refuse_backups(&**vfs, dir, &engine.disk.dir)?;
    let had_lock = vfs.exists(&backups.dir.join(LOCK)).unwrap_or(true);
    let made = MadeDirs::make(&**vfs, &backups.dir);
    let made = made.map_err(failed(&backups.dir, "create a directory of backups"))?;
    let lock = backups.lock(false).inspect_err(|_| made.undo(&**vfs))?;
    let taken = take(engine, &backups, how, seconds);
    let has_none = || backups.find().is_ok_and(|found| found.is_empty());
    if taken.is_err() && !had_lock && has_none() {
        // Under the lock: a waiting process looks whether the lock still has its name.
        let _ = vfs.remove(&backups.dir.join(LOCK));
        made.undo(&**vfs);
    }
    drop(lock);
    Ok(BackupSummary {
        elapsed: started.elapsed(),
        ..taken?
    })
}

/// Makes a backup, begun at `seconds`. The caller has locked the directory.
fn take(
    engine: &Engine,
    backups: &Backups,
    how: &CopyOptions,
    seconds: u64,
) -> Result<BackupSummary> {
    let vfs = &backups.vfs;
    let found = backups.find()?;
    backups.remove_unfinished(&found)?;
    let before = found.iter().rev().find_map(|found| {
        let list = backups.read_list(found.number).ok()?;
        Some((found.number, list))
    });
    let last = found.last().map_or(0, |last| last.number);
    let number = last.checked_add(1).ok_or_else(|| {
        let message = format!(
            "there is no number above that of {}: move it out of the directory of backups",
            backups.path_of(last).display()
        );
        Error::new(ErrorKind::InvalidArgument, message)
    })?;
    let shared = match before {
        Some((number, list)) => Shared::with(backups.path_of(number), list, how.check),
        None => Shared::none(),
    };
    let shared = match how.check {
        CopyCheck::All => shared.compared(backups, how.pace()),
        CopyCheck::New | CopyCheck::Nothing => shared,
    };
    let target = backups.path_of(number);
    let by_name = planted!(engine.core.options, BackupSharesByName);
    let shares_with = |_: &Engine, wanted: Wanted<'_>| shared.find(wanted, by_name);
    let copied = copy::copy_to(
        engine,
        &target,
        how,
        &Sources::of(&shares_with),
        Mark::Stays,
    )?;
    let shared = match copied.bytes_linked {
        // The file system has no links.
        0 => Shared::none(),
        _ => shared,
    };
    let syncs = !planted!(engine.core.options, BackupNotSynced);
    let is_verified = how.check != CopyCheck::Nothing;
    let listed = backups
        .files_of(&target, &shared, is_verified)
        .and_then(|files| {
            let list = BackupList::new(seconds, &files);
            backups.write_list(number, &list, syncs).map(|()| list)
        });
    let list = listed.inspect_err(|_| backups.discard(number))?;
    // If it stays, it means nothing beside a list.
    let _ = vfs.remove(&target.join(UNFINISHED_COPY));
    Ok(BackupSummary {
        number,
        bytes: sum(list.files().map(|file| file.len)),
        bytes_shared: bytes_shared(&list),
        bytes_verified: copied.bytes_verified,
        elapsed: Duration::ZERO,
    })
}

/// Seconds since 1970 by the system's clock.
fn seconds_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn bytes_shared(list: &BackupList) -> u64 {
    let shared = list.files().filter(|file| file.shared);
    sum(shared.map(|file| file.len))
}

/// The sum of lengths from a list, which can be any numbers.
fn sum(lens: impl Iterator<Item = u64>) -> u64 {
    lens.fold(0, u64::saturating_add)
}

fn is_value_file(name: &str) -> bool {
    name.ends_with(".values")
}

/// A generation's directory.
struct Generation {
    number: u64,
    has_list: bool,
}

/// The backups in a directory, which [`Db::backup`] made. No database has to be open.
#[derive(Clone)]
pub struct Backups {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    keys: Option<Arc<dyn KeyProvider>>,
}

impl std::fmt::Debug for Backups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Backups({})", self.dir.display())
    }
}

impl Backups {
    /// The backups in directory `dir`.
    pub fn at(dir: impl AsRef<Path>) -> Backups {
        Backups {
            vfs: Arc::new(OsVfs),
            dir: dir.as_ref().to_owned(),
            keys: None,
        }
    }

    /// Sets the provider of the key for backups of an encrypted database
    /// ([`Advanced::encryption`](crate::Advanced::encryption)). A key is needed only to verify
    /// files later that were not verified when they were copied.
    #[must_use]
    pub fn encryption(self, keys: Arc<dyn KeyProvider>) -> Backups {
        let keys = Some(keys);
        Backups { keys, ..self }
    }

    /// The backups in another file system, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn vfs(self, vfs: Arc<dyn Vfs>) -> Backups {
        Backups { vfs, ..self }
    }

    /// All backups, the oldest first. Remains of a backup that was killed are not among them.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    pub fn list(&self) -> Result<Vec<BackupInfo>> {
        let found = self.find()?.into_iter().filter(|found| found.has_list);
        let info = |found: Generation| {
            let number = found.number;
            match self.read_list(number) {
                Ok(list) => BackupInfo {
                    number,
                    seconds: list.seconds,
                    files: list.count,
                    bytes: sum(list.files().map(|file| file.len)),
                    bytes_shared: bytes_shared(&list),
                    verified: list.is_verified(),
                    damage: None,
                },
                Err(error) => BackupInfo {
                    number,
                    seconds: 0,
                    files: 0,
                    bytes: 0,
                    bytes_shared: 0,
                    verified: false,
                    damage: Some(error.to_string()),
                },
            }
        };
        Ok(found.map(info).collect())
    }

    /// Removes all backups except the `keep` newest whose lists can be read. Returns the number of
    /// removed backups. Files that other backups share with them stay, and newer backups whose
    /// lists are damaged stay, too.
    ///
    /// # Errors
    /// `InvalidArgument` if `keep` is 0, `NotFound`, `Io`, `Locked`.
    pub fn prune(&self, keep: usize) -> Result<u64> {
        if keep == 0 {
            let message = "pruning keeps one backup at least; to remove all, remove the directory";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        if self.find()?.is_empty() {
            // A directory of another owner is not even locked, which would make a file there.
            return Ok(0);
        }
        let _lock = self.lock(false)?;
        let found = self.find()?;
        self.remove_unfinished(&found)?;
        let whole = found.iter().filter(|found| found.has_list);
        let whole: Vec<u64> = whole.map(|found| found.number).collect();
        // A backup from which nothing can be restored does not count in place of a good one.
        let is_readable = |number: &&u64| self.read_list(**number).is_ok();
        let oldest_kept = whole.iter().rev().filter(is_readable).nth(keep - 1);
        let is_old = |number: &&u64| oldest_kept.is_some_and(|kept| *number < kept);
        let old = whole.iter().filter(is_old);
        let mut removed = 0;
        for number in old {
            self.remove(*number)?;
            removed += 1;
        }
        Ok(removed)
    }

    fn path_of(&self, number: u64) -> PathBuf {
        self.dir.join(placement::backup_name(number))
    }

    fn lock(&self, shared: bool) -> Result<Option<Box<dyn LockGuard>>> {
        let path = self.dir.join(LOCK);
        match self.vfs.lock(&path, shared) {
            Ok(lock) => Ok(Some(lock)),
            // A process that only reads needs no permission to write, and no lock file.
            Err(error)
                if shared
                    && matches!(
                        error.kind(),
                        io::ErrorKind::NotFound
                            | io::ErrorKind::PermissionDenied
                            | io::ErrorKind::ReadOnlyFilesystem
                    ) =>
            {
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let message = format!(
                    "another backup, pruning or restoring is under way in {}",
                    self.dir.display()
                );
                Err(Error::new(ErrorKind::Locked, message))
            }
            Err(error) => Err(failed(&path, "lock the backups")(error)),
        }
    }

    /// All directories of generations, ascending.
    fn find(&self) -> Result<Vec<Generation>> {
        let names = self.vfs.list(&self.dir).map_err(|source| {
            let message = format!("there is no directory {}", self.dir.display());
            match source.kind() {
                io::ErrorKind::NotFound => Error::new(ErrorKind::NotFound, message),
                _ => failed(&self.dir, "list the backups")(source),
            }
        })?;
        let mut found = Vec::new();
        for name in names.iter().filter_map(|name| name.to_str()) {
            let Some(number) = placement::backup_number(name) else {
                continue;
            };
            let list = self.path_of(number).join(LIST);
            let has_list = match self.vfs.exists(&list) {
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => false,
                asked => asked.map_err(failed(&list, "look for the list of a backup"))?,
            };
            found.push(Generation { number, has_list });
        }
        found.sort_by_key(|found| found.number);
        Ok(found)
    }

    /// The requested number, or the number of the newest backup.
    fn number(&self, asked: Option<u64>) -> Result<u64> {
        let found = self.find()?;
        let mut whole = found.iter().filter(|found| found.has_list);
        let found = match asked {
            Some(number) => whole.find(|found| found.number == number),
            None => whole.next_back(),
        };
        found.map(|found| found.number).ok_or_else(|| {
            let which = asked.map_or("no backup".to_owned(), |own| format!("no backup {own}"));
            let message = format!("there is {which} in {}", self.dir.display());
            Error::new(ErrorKind::NotFound, message)
        })
    }

    fn read_list(&self, number: u64) -> Result<BackupList> {
        let path = self.path_of(number).join(LIST);
        let file = self.vfs.open(&path, false);
        let file = file.map_err(failed(&path, "open the list of a backup"))?;
        BackupList::read(&*file, &path)
    }

    /// The files of a generation are durable; from here on the generation counts, durably.
    fn write_list(&self, number: u64, list: &BackupList, syncs: bool) -> Result<()> {
        let dir = self.path_of(number);
        let (temporary, path) = (dir.join(LIST_UNFINISHED), dir.join(LIST));
        let file = self.vfs.create(&temporary);
        let file = file.map_err(failed(&temporary, "create the list of a backup"))?;
        let written = file.write_at(&list.encode(), 0);
        written.map_err(failed(&temporary, "write the list of a backup"))?;
        // Synced before the rename: a list with that name is whole.
        if syncs {
            let synced = file.sync_data();
            synced.map_err(failed(&temporary, "sync the list of a backup"))?;
        }
        let renamed = self.vfs.rename(&temporary, &path);
        renamed.map_err(failed(&path, "rename the list of a backup"))?;
        for dir in [&dir, &self.dir].into_iter().filter(|_| syncs) {
            let synced = self.vfs.sync_dir(dir);
            synced.map_err(failed(dir, "sync the directory of a backup"))?;
        }
        Ok(())
    }

    /// Length and checksum of a file.
    fn sum_of(&self, path: &Path, note: &mut dyn FnMut(u64)) -> Result<(u64, u32)> {
        let file = self.vfs.open(path, false);
        let file = file.map_err(|source| StorageError::open(path, "open a backup", source))?;
        let len = file.len().map_err(failed(path, "ask for the length of"))?;
        let mut buffer = vec![0; PIECE_BYTES.min(len) as usize];
        let mut sum = FileSum::default();
        let mut at = 0;
        while at < len {
            let piece = &mut buffer[..PIECE_BYTES.min(len - at) as usize];
            read_exact_at(&*file, piece, at).map_err(failed(path, "read a backup"))?;
            sum.add(piece);
            note(piece.len() as u64);
            at += piece.len() as u64;
        }
        Ok((len, sum.0))
    }

    /// The files that were copied to `dir`: the checksums of shared tables are known, all other
    /// files are read back. `is_verified` says that new files were verified.
    fn files_of(&self, dir: &Path, shared: &Shared, is_verified: bool) -> Result<Vec<ListedFile>> {
        let names = self.vfs.list(dir).map_err(failed(dir, "list a backup"))?;
        let mut files = Vec::new();
        for name in names.iter().filter_map(|name| name.to_str()) {
            if [LOCK, UNFINISHED_COPY, LIST, LIST_UNFINISHED].contains(&name) {
                continue;
            }
            let path = dir.join(name);
            let table = match name.ends_with(".sst") {
                true => Some(self.table_checksum(&path)?),
                false => None,
            };
            let mut known = shared.given(name).filter(|own| own.table == table);
            if is_value_file(name) && known.is_some() {
                let file = self.vfs.open(&path, false);
                let len = file.and_then(|file| file.len());
                let len = len.map_err(failed(&path, "look at a value file"))?;
                known = known.filter(|own| own.len == len);
            }
            files.push(match known {
                Some(known) => ListedFile {
                    shared: true,
                    verified: known.verified || is_verified,
                    ..known
                },
                None => {
                    let (len, checksum) = self.sum_of(&path, &mut |_| {})?;
                    ListedFile {
                        name: name.to_owned(),
                        len,
                        checksum,
                        table,
                        shared: false,
                        verified: is_verified,
                    }
                }
            });
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    /// The checksum that identifies an SSTable, from its end, which is verified.
    fn table_checksum(&self, path: &Path) -> Result<u32> {
        let file = self.vfs.open(path, false);
        let file = file.map_err(failed(path, "open a backup"))?;
        let len = file.len().map_err(failed(path, "ask for the length of"))?;
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let id = stem.and_then(|stem| u64::from_str_radix(stem, 16).ok());
        let id = evendb_storage::TableId(id.unwrap_or(0));
        let table = evendb_storage::table::Table::open(file, 0, len, id)?;
        Ok(table.meta().checksum)
    }
}
