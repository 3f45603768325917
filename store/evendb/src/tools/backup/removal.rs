//! Which files in a directory of backups are removed: only files that one of our marks names, by
//! names that we write, in a directory that is no link.
//!
//! ```text
//! begun       UNFINISHED-COPY, ...          until the list is there
//! counts      BACKUP-LIST, ...
//! goes        BACKUP-LIST.tmp, ...          the list, renamed: it counts no more, and is the mark
//! ```
//! Each mark is durable before the state that it stands for, and is removed, durably, after it. A
//! directory without one of these marks that has other files belongs to somebody else, whatever its
//! name is: it is left alone, and reported.

use super::{Backups, Generation, LIST, LIST_UNFINISHED};
use crate::copy::failed;
use crate::error::{Error, ErrorKind, Result};
use crate::files::{CONTAINER, CURRENT, KEYS, LOCK, UNFINISHED_COPY, is_own_name};
use evendb_base::placement;
use std::ffi::OsString;
use std::io;
use std::path::Path;

/// The marks of unfinished directories.
const MARKS: [&str; 2] = [UNFINISHED_COPY, LIST_UNFINISHED];
/// The largest number of files that the refusal names.
const NAMED_MAX: usize = 3;

/// Whether a backup's database has files with this name.
pub(super) fn is_database_name(name: &str) -> bool {
    is_own_name(name) || [CURRENT, CONTAINER, KEYS].contains(&name)
}

fn is_backup_name(name: &OsString) -> bool {
    name.to_str().is_some_and(|name| {
        is_database_name(name) || [LOCK, LIST].contains(&name) || MARKS.contains(&name)
    })
}

impl Backups {
    /// Removes the remains of backups and prunings that were killed.
    pub(super) fn remove_unfinished(&self, found: &[Generation]) -> Result<()> {
        for generation in found.iter().filter(|found| !found.has_list) {
            self.remove(generation.number)?;
        }
        Ok(())
    }

    /// The names in the directory of a generation, if it is one of ours, whole or not.
    fn names_to_remove(&self, dir: &Path) -> Result<Vec<OsString>> {
        let own = dir.file_name().unwrap_or_default();
        if placement::is_link(&*self.vfs, &self.dir, own)? {
            return Err(refusal(dir, "it is a symbolic link"));
        }
        let names = match self.vfs.list(dir) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotADirectory | io::ErrorKind::NotFound
                ) =>
            {
                return Err(refusal(dir, "it is no directory"));
            }
            names => names.map_err(failed(dir, "list a backup"))?,
        };
        let foreign = names.iter().filter(|name| !is_backup_name(name));
        let foreign = foreign.take(NAMED_MAX).map(|name| format!("{name:?}"));
        let foreign: Vec<String> = foreign.collect();
        let is_marked = names
            .iter()
            .any(|name| name == LIST || MARKS.iter().any(|mark| name == *mark));
        // The process ended before there was a mark.
        let is_empty = names.iter().all(|name| name == LOCK);
        match (foreign.is_empty(), is_marked || is_empty) {
            (true, true) => {
                placement::refuse_foreign(&*self.vfs, dir, &|_| true)?;
                Ok(names)
            }
            (true, false) => Err(refusal(dir, "it has files, and no mark of a backup")),
            (false, _) => {
                let what = format!("it has other files ({})", foreign.join(", "));
                Err(refusal(dir, &what))
            }
        }
    }

    /// Removes a generation. The file that makes it count goes first, durably, and becomes the mark
    /// of the rest.
    pub(super) fn remove(&self, number: u64) -> Result<()> {
        let dir = self.path_of(number);
        let names = self.names_to_remove(&dir)?;
        let has = |wanted: &str| names.iter().any(|name| name == wanted);
        let sync = || {
            let synced = self.vfs.sync_dir(&dir);
            synced.map_err(failed(&dir, "sync the directory of a backup"))
        };
        let remove = |name: &Path| {
            let path = dir.join(name);
            let removed = self.vfs.remove(&path);
            removed.map_err(failed(&path, "remove a file of a backup"))
        };
        if has(LIST) {
            let (from, to) = (dir.join(LIST), dir.join(LIST_UNFINISHED));
            let renamed = self.vfs.rename(&from, &to);
            renamed.map_err(failed(&from, "rename the list of a backup"))?;
            sync()?;
        }
        let is_mark = |name: &&OsString| MARKS.iter().any(|mark| *name == mark);
        let others = names.iter().filter(|name| !is_mark(name) && **name != LIST);
        for name in others {
            remove(Path::new(name))?;
        }
        sync()?;
        for mark in MARKS {
            if has(mark) || (mark == LIST_UNFINISHED && has(LIST)) {
                remove(Path::new(mark))?;
            }
        }
        let removed = self.vfs.remove_dir(&dir);
        removed.map_err(failed(&dir, "remove the directory of a backup"))
    }

    /// Like [`remove`](Self::remove), after a failure: files that cannot be removed now are removed
    /// by the next backup.
    pub(super) fn discard(&self, number: u64) {
        let _ = self.remove(number);
    }
}

fn refusal(dir: &Path, what: &str) -> Error {
    let message = format!(
        "{} has the name of a backup, and {what}: it is left as it is; move it out of the directory of backups",
        dir.display()
    );
    Error::new(ErrorKind::AlreadyExists, message)
}
