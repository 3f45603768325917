//! Other processes at a target before it is locked.

use super::*;
use evendb_storage::vfs::{LockHolder, SimVfs};
use std::ffi::OsString;

/// Files among which another process makes a database while this one waits for the lock.
#[derive(Debug)]
struct MadeMeanwhile(SimVfs);

impl Vfs for MadeMeanwhile {
    fn lock(&self, path: &Path, shared: bool) -> io::Result<Box<dyn LockGuard>> {
        self.0.write_file(&path.with_file_name(CURRENT), Vec::new());
        self.0.lock(path, shared)
    }
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>> {
        self.0.open(path, write)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.0.create_dir_all(dir)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.0.create(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.hard_link(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.remove_dir(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.0.list(dir)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.0.exists(path)
    }
    fn lock_holder(&self, path: &Path) -> LockHolder {
        self.0.lock_holder(path)
    }
}

/// A failed copy removes what it made, so it must not take the files of others for its own.
#[test]
fn a_target_in_which_a_database_was_made_meanwhile_is_refused() {
    let files = MadeMeanwhile(SimVfs::new(1));
    let dir = Path::new("/target");
    let made = Target::make(&files, dir).map(drop);
    assert_eq!(made.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert!(files.0.exists(&dir.join(CURRENT)).unwrap());
    assert!(!files.0.exists(&dir.join(UNFINISHED_COPY)).unwrap());
}
