//! The files that a new backup shares with the one before it.

use super::list::{BackupList, ListedFile};
use super::{Backups, is_value_file, removal};
use crate::copy::check::{CopyCheck, ReadPace};
use crate::copy::{Sharing, Wanted};
use crate::sync::Mutex;
use crate::tables::table_path;
use crate::value_files;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The tables and value files of the previous generation that may be shared.
pub(super) struct Shared {
    dir: PathBuf,
    list: BackupList,
    /// Their places in the list, in the order of their names.
    places: Vec<u32>,
    /// The names of the files that were requested and given.
    given: Mutex<BTreeSet<String>>,
    /// Set if each file is to be compared with the list first.
    compares: Option<(Backups, Mutex<ReadPace>)>,
}

impl Shared {
    /// No file is shared.
    pub(super) fn none() -> Shared {
        Shared {
            dir: PathBuf::new(),
            list: BackupList::new(0, &[]),
            places: Vec::new(),
            given: Mutex::default(),
            compares: None,
        }
    }

    /// If files are to be verified, only files are shared that were verified when they were first
    /// copied.
    pub(super) fn with(dir: PathBuf, list: BackupList, check: CopyCheck) -> Shared {
        let places = list.places(|file| {
            let is_shareable = file.table.is_some() || is_value_file(&file.name);
            is_shareable
                && removal::is_database_name(&file.name)
                && (file.verified || check == CopyCheck::Nothing)
        });
        Shared {
            dir,
            list,
            places,
            given: Mutex::default(),
            compares: None,
        }
    }

    /// Each file is compared with the list of its backup before it is shared.
    pub(super) fn compared(mut self, backups: &Backups, pace: ReadPace) -> Shared {
        self.compares = Some((backups.clone(), Mutex::new(pace)));
        self
    }

    /// The shared file for a wanted one. A table must have the same id, length and checksum. A
    /// value file must have the same number (half of its bits are random) and the same length,
    /// because values are only appended. (`by_name` is a planted fault.)
    pub(super) fn find(&self, wanted: Wanted<'_>, by_name: bool) -> Option<Sharing> {
        let path = match wanted {
            Wanted::Table(part) => table_path(&self.dir, part.table),
            Wanted::Values { id, .. } => value_files::file_path(&self.dir, id),
        };
        let own = self.named(path.file_name()?.to_str()?)?;
        let is_same = match wanted {
            Wanted::Table(part) => {
                own.len == part.meta.len && (own.table == Some(part.meta.checksum) || by_name)
            }
            Wanted::Values { len, .. } => own.len == len,
        };
        let sharing = Sharing {
            path,
            is_verified: own.verified,
        };
        let is_given = is_same && self.is_as_listed(&sharing.path, &own);
        if is_given {
            self.given.lock().insert(own.name);
        }
        is_given.then_some(sharing)
    }

    /// The list's entry of a file that the new backup got from here.
    pub(super) fn given(&self, name: &str) -> Option<ListedFile> {
        match self.given.lock().contains(name) {
            true => self.named(name),
            false => None,
        }
    }

    fn named(&self, name: &str) -> Option<ListedFile> {
        self.list.named(name, &self.places)
    }

    fn is_as_listed(&self, path: &Path, listed: &ListedFile) -> bool {
        let Some((backups, pace)) = &self.compares else {
            return true;
        };
        let note = &mut |bytes| pace.lock().note(bytes);
        // A file that cannot be read is taken from the database.
        let sum = backups.sum_of(path, note);
        sum.is_ok_and(|found| found == (listed.len, listed.checksum))
    }
}
