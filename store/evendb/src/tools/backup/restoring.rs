//! What a generation is worth: verifying it, and making a database of it.
//!
//! Every byte is checked against the list. A restored database is in an empty directory, and gets
//! `CURRENT` last. Thread safety: any thread; other processes may verify and restore meanwhile, but
//! not prune. Not here: making and pruning generations.

use super::list::{BackupList, FileSum, ListedFile};
use super::{Backups, LIST, removal};
use crate::copy::{Target, failed};
use crate::error::Result;
use crate::files::{CURRENT, CURRENT_UNFINISHED};
use crate::inspect::{self, Finding, InspectOptions, Severity};
use evendb_base::placement;
use evendb_storage::Error as StorageError;
use std::path::Path;

impl Backups {
    /// Verifies the database in `dir`.
    fn look_inside(&self, dir: &Path) -> Result<()> {
        let options = InspectOptions::new().vfs(self.vfs.clone());
        let options = match &self.keys {
            Some(keys) => options.encryption(keys.clone()),
            None => options,
        };
        let report = inspect::verify(dir, options)?;
        let is_damage = |finding: &&Finding| finding.severity == Severity::Corruption;
        match report.findings.iter().find(is_damage) {
            None => Ok(()),
            Some(found) => {
                let (path, offset) = (dir.join(&found.file), found.offset.unwrap_or(0));
                Err(StorageError::corruption(&path, offset, &*found.what).into())
            }
        }
    }

    /// Reads all of backup `number`, or of the newest one, compares it with its list, and verifies
    /// it against the checksums of the database in it. Returns its number. For a backup of an
    /// encrypted database without a key, the comparison has to be enough. That is as good if all of
    /// it was verified when it was made ([`BackupInfo::verified`](super::BackupInfo::verified)).
    ///
    /// # Errors
    /// `Corruption` with the file that is missing or differs, `NotFound`, `Io`, `Locked` while a
    /// backup is made; `NeedsKey` if only a key could tell.
    pub fn verify(&self, number: Option<u64>) -> Result<u64> {
        let _lock = self.lock(true)?;
        let number = self.number(number)?;
        let dir = self.path_of(number);
        let list = self.read_list(number)?;
        for file in list.files() {
            let path = dir.join(&file.name);
            let (len, sum) = self.sum_of(&path, &mut |_| {})?;
            check(&path, &file, len, sum)?;
        }
        if self.keys.is_some() || !list.is_encrypted() || !list.is_verified() {
            self.look_inside(&dir)?;
        }
        Ok(number)
    }

    /// Makes a database of backup `number`, or of the newest one, in directory `into`, which is
    /// empty or does not exist. Each byte is compared with the list of the backup. A backup that
    /// was not verified when it was made is verified first, as [`verify`](Self::verify) does,
    /// unless it is encrypted and there is no key. Returns its number. On return the database
    /// survives power loss.
    ///
    /// # Errors
    /// `AlreadyExists` if `into` is not empty; `InvalidArgument` if it lies inside a database's
    /// directory or a directory with backups; `Corruption` if the backup is damaged
    /// ([`inspect::repair`] saves its whole parts); `NotFound`, `NoSpace`, `Io`. `into` is then as
    /// it was.
    pub fn restore(&self, number: Option<u64>, into: impl AsRef<Path>) -> Result<u64> {
        let into = into.as_ref();
        let into = std::path::absolute(into).map_err(failed(into, "resolve the path"))?;
        let _lock = self.lock(true)?;
        let number = self.number(number)?;
        let list = self.read_list(number)?;
        placement::refuse_inside(&*self.vfs, &into, "a restored database")?;
        if !list.is_verified() && (self.keys.is_some() || !list.is_encrypted()) {
            self.look_inside(&self.path_of(number))?;
        }
        let target = Target::make(&*self.vfs, &into)?;
        match self.fill(&target, &self.path_of(number), &list) {
            Ok(()) => Ok(number),
            Err(error) => {
                target.discard();
                Err(error)
            }
        }
    }

    /// Everything except `CURRENT` is copied and synced, with its names, before `CURRENT` appears.
    fn fill(&self, target: &Target<'_>, from: &Path, list: &BackupList) -> Result<()> {
        let is_foreign = |file: &ListedFile| !removal::is_database_name(&file.name);
        if let Some(file) = list.files().find(is_foreign) {
            let what = format!(
                "the list names {:?}, a file that no database has",
                file.name
            );
            return Err(StorageError::corruption(&from.join(LIST), 0, what).into());
        }
        let is_current = |file: &ListedFile| file.name == CURRENT;
        let mut currents = list.files().filter(is_current);
        let (Some(current), None) = (currents.next(), currents.next()) else {
            let what = "the backup has no CURRENT, or several";
            return Err(StorageError::corruption(&from.join(LIST), 0, what).into());
        };
        for file in list.files().filter(|file| !is_current(file)) {
            self.restore_file(target, from, &file, &file.name)?;
        }
        target.sync_names()?;
        self.restore_file(target, from, &current, CURRENT_UNFINISHED)?;
        let (temporary, path) = (
            target.dir.join(CURRENT_UNFINISHED),
            target.dir.join(CURRENT),
        );
        let renamed = self.vfs.rename(&temporary, &path);
        renamed.map_err(failed(&path, "rename CURRENT"))?;
        target.sync_names()?;
        target.finish()
    }

    fn restore_file(
        &self,
        target: &Target<'_>,
        from: &Path,
        file: &ListedFile,
        name: &str,
    ) -> Result<()> {
        let path = from.join(&file.name);
        let opened = self.vfs.open(&path, false);
        let opened = opened.map_err(|source| StorageError::open(&path, "open a backup", source))?;
        let len = opened
            .len()
            .map_err(failed(&path, "ask for the length of"))?;
        if len != file.len {
            return check(&path, file, len, file.checksum);
        }
        let mut sum = FileSum::default();
        let to = target.dir.join(name);
        target.copy_file(&path, &to, len, &mut |piece| sum.add(piece))?;
        check(&path, file, len, sum.0)
    }
}

/// Compares a file with its entry in the list.
fn check(path: &Path, file: &ListedFile, len: u64, sum: u32) -> Result<()> {
    if len == file.len && sum == file.checksum {
        return Ok(());
    }
    let what = match len == file.len {
        false => format!(
            "the backup has {} bytes of it, and the file {len}",
            file.len
        ),
        true => "its bytes are not those that were backed up".to_owned(),
    };
    Err(StorageError::corruption(path, 0, what).into())
}
