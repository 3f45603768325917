//! The directory of snapshots: at most one whole file counts, the one of the highest index.
//!
//! ```text
//! new_part --> 3.part --write, sync--> keep --rename, sync of the directory-->
//! 00...42-8316.snapshot                                                        then older files
//! are removed
//! ```
//! A name has the index and the salt, so a snapshot has the same name on every node, and no other
//! one has it. Open handles of a removed file go on. Opening removes parts, and files that do not
//! begin as a snapshot.
//!
//! Thread safety: any thread.

use super::{Reader, failed};
use crate::state::Applied;
use evendb::Result;
use evendb::vfs::{File, Vfs};
use parking_lot::{Mutex, MutexGuard};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const WHOLE: &str = ".snapshot";
const PART: &str = ".part";
/// Bytes that a copy moves at once.
const COPY_BYTES: usize = 256 << 10;

/// A whole snapshot on the shelf.
#[derive(Debug, Clone)]
pub struct Kept {
    /// What it is about.
    pub about: Applied,
    /// Its name, without folder and ending: the identity of the snapshot.
    pub name: String,
    /// Its file.
    pub file: Arc<dyn File>,
}

/// A directory of snapshots.
pub struct Shelf {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    inner: Mutex<Inner>,
}

struct Inner {
    current: Option<Kept>,
    next: u64,
}

/// The name of what this reader reads.
fn name_of(reader: &Reader) -> String {
    let index = reader.about().last.as_ref().map_or(0, |(index, _)| *index);
    format!("{index:020}-{}", reader.salt())
}

impl Shelf {
    /// The shelf in this directory, which is made if it is missing. Blocks.
    ///
    /// # Errors
    /// `Io`.
    pub fn open(vfs: Arc<dyn Vfs>, dir: PathBuf) -> Result<Shelf> {
        let made = vfs.create_dir_all(&dir);
        made.map_err(|error| failed(&dir, "make the directory of snapshots", error))?;
        let shelf = Shelf {
            vfs,
            dir,
            inner: Mutex::new(Inner {
                current: None,
                next: 1,
            }),
        };
        let names = shelf.vfs.list(&shelf.dir);
        let names = names.map_err(|error| failed(&shelf.dir, "list snapshots", error))?;
        let mut whole = Vec::new();
        for name in names.iter().filter_map(|name| name.to_str()) {
            if name.ends_with(WHOLE) {
                whole.push(name.to_owned());
            } else if name.ends_with(PART) {
                shelf.remove(name)?;
            }
        }
        whole.sort();
        {
            let mut inner = shelf.lock();
            while let Some(name) = whole.pop() {
                match shelf.look(&name) {
                    Ok(kept) if inner.current.is_none() => inner.current = Some(kept),
                    _ => shelf.remove(&name)?,
                }
            }
        }
        Ok(shelf)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.dir.join(name);
        self.vfs
            .remove(&path)
            .map_err(|error| failed(&path, "remove a snapshot", error))
    }

    fn look(&self, name: &str) -> Result<Kept> {
        let path = self.dir.join(name);
        let opened = self.vfs.open(&path, false);
        let file = opened.map_err(|error| failed(&path, "open a snapshot", error))?;
        let reader = Reader::new(file.clone())?;
        let (about, name) = (reader.about().clone(), name_of(&reader));
        Ok(Kept { about, name, file })
    }

    /// The snapshot that counts.
    pub fn current(&self) -> Option<Kept> {
        self.lock().current.clone()
    }

    /// Removes a snapshot that ends below this index: no log entry follows it any more.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn forget_below(&self, index: Option<u64>) -> Result<()> {
        let mut inner = self.lock();
        let is_below = |kept: &Kept| kept.about.last.as_ref().map(|(at, _)| *at) < index;
        match inner.current.take_if(|kept| is_below(kept)) {
            Some(kept) => self.remove(&format!("{}{WHOLE}", kept.name)),
            None => Ok(()),
        }
    }

    /// A new empty file, which [`keep`](Self::keep) makes a snapshot. Blocks.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub fn new_part(&self) -> Result<Arc<dyn File>> {
        let number = {
            let mut inner = self.lock();
            let number = inner.next;
            inner.next += 1;
            number
        };
        let path = self.dir.join(format!("{number}{PART}"));
        self.vfs
            .create(&path)
            .map_err(|error| failed(&path, "create a snapshot", error))
    }

    /// Whether this file lies here.
    fn is_ours(&self, file: &dyn File) -> bool {
        file.path().parent() == Some(&self.dir) && self.vfs.exists(file.path()).unwrap_or(false)
    }

    /// Makes a written file the snapshot that counts, durably, and removes the one before. A file
    /// of elsewhere is copied. Blocks.
    ///
    /// # Errors
    /// `Corruption` if it does not begin as a snapshot, `Io`, `NoSpace`.
    pub fn keep(&self, file: Arc<dyn File>) -> Result<Kept> {
        let file = match self.is_ours(&*file) {
            true => file,
            false => self.copy(&*file)?,
        };
        let reader = Reader::new(file.clone())?;
        let (about, name) = (reader.about().clone(), name_of(&reader));
        let synced = file.sync_data();
        synced.map_err(|error| failed(file.path(), "sync a snapshot", error))?;
        let mut inner = self.lock();
        let stored = format!("{name}{WHOLE}");
        self.give_name(&file, &stored)?;
        let path = self.dir.join(&stored);
        let opened = self.vfs.open(&path, false);
        let file = opened.map_err(|error| failed(&path, "open a snapshot", error))?;
        let kept = Kept { about, name, file };
        let old = inner.current.replace(kept.clone());
        if let Some(old) = old.filter(|old| old.name != kept.name) {
            self.remove(&format!("{}{WHOLE}", old.name))?;
        }
        Ok(kept)
    }

    fn give_name(&self, file: &Arc<dyn File>, stored: &str) -> Result<()> {
        let path = self.dir.join(stored);
        let renamed = self.vfs.rename(file.path(), &path);
        let renamed = renamed.and_then(|()| self.vfs.sync_dir(&self.dir));
        renamed.map_err(|error| failed(&path, "name a snapshot", error))
    }

    /// Removes a file that was begun here and is not kept. Blocks.
    pub fn discard(&self, path: &Path) {
        if path.parent() == Some(&self.dir) {
            let _ = self.vfs.remove(path);
        }
    }

    fn copy(&self, from: &dyn File) -> Result<Arc<dyn File>> {
        let to = self.new_part()?;
        let mut buffer = vec![0; COPY_BYTES];
        let mut offset = 0;
        loop {
            let read = from.read_at(&mut buffer, offset);
            let read = read.map_err(|error| failed(from.path(), "read a snapshot", error))?;
            if read == 0 {
                return Ok(to);
            }
            let written = to.write_at(&buffer[..read], offset);
            written.map_err(|error| failed(to.path(), "write a snapshot", error))?;
            offset += read as u64;
        }
    }
}

impl std::fmt::Debug for Shelf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shelf")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}
