//! Files that carry a database's secret to all code that reads and writes them.

use super::{BootId, File, LockGuard, LockHolder, Mapping, Vfs};
use crate::error::Error;
use crate::sealing::Secrets;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory tree whose files have a secret ([`File::secrets`]). In everything else it is
/// `inner`.
#[derive(Debug)]
pub struct SealedVfs {
    inner: Arc<dyn Vfs>,
    secrets: Secrets,
}

impl SealedVfs {
    /// `inner`, with the secret of the database that lies in it.
    pub fn new(inner: Arc<dyn Vfs>, secrets: Secrets) -> SealedVfs {
        SealedVfs { inner, secrets }
    }

    fn with_secret(&self, inner: Arc<dyn File>) -> Arc<dyn File> {
        let secrets = self.secrets.clone();
        Arc::new(SealedFile { inner, secrets })
    }
}

impl Vfs for SealedVfs {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir_all(dir)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.with_secret(self.inner.create(path)?))
    }
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>> {
        Ok(self.with_secret(self.inner.open(path, write)?))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.hard_link(from, to)
    }
    fn hard_link_regular(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.hard_link_regular(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }
    fn check_regular(&self, path: &Path) -> io::Result<()> {
        self.inner.check_regular(path)
    }
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.remove_dir(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.inner.list(dir)
    }
    fn list_irregular(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.inner.list_irregular(dir)
    }
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.resolve(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }
    fn lock(&self, path: &Path, shared: bool) -> io::Result<Box<dyn LockGuard>> {
        self.inner.lock(path, shared)
    }
    fn allocated_bytes(&self, path: &Path) -> io::Result<u64> {
        self.inner.allocated_bytes(path)
    }
    fn open_files_max(&self) -> Option<u64> {
        self.inner.open_files_max()
    }
    fn boot_id(&self) -> Option<BootId> {
        self.inner.boot_id()
    }
    fn lock_holder(&self, path: &Path) -> LockHolder {
        self.inner.lock_holder(path)
    }
    fn secrets(&self) -> Option<&Secrets> {
        Some(&self.secrets)
    }
}

#[derive(Debug)]
struct SealedFile {
    inner: Arc<dyn File>,
    secrets: Secrets,
}

impl File for SealedFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn secrets(&self) -> Option<&Secrets> {
        Some(&self.secrets)
    }
    fn unverified(&self, offset: u64, detail: &str) -> Error {
        self.inner.unverified(offset, detail)
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buf, offset)
    }
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_at(data, offset)
    }
    fn write_at_durable(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_at_durable(data, offset)
    }
    fn past_cache(&self) -> Option<Arc<dyn File>> {
        self.inner.past_cache()
    }
    fn expect_random_reads(&self) {
        self.inner.expect_random_reads();
    }
    fn will_need(&self, offset: u64, len: u64) {
        self.inner.will_need(offset, len);
    }
    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }
    fn start_writing(&self, offset: u64, len: u64) {
        self.inner.start_writing(offset, len);
    }
    fn wait_for_writing(&self, offset: u64, len: u64) {
        self.inner.wait_for_writing(offset, len);
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn allocated_bytes(&self) -> io::Result<u64> {
        self.inner.allocated_bytes()
    }
    fn next_data(&self, offset: u64) -> io::Result<u64> {
        self.inner.next_data(offset)
    }
    fn is_empty(&self) -> io::Result<bool> {
        self.inner.is_empty()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }
    fn preallocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.inner.preallocate(offset, len)
    }
    fn ask_for_place(&self) {
        self.inner.ask_for_place();
    }
    fn keeps_its_place(&self) -> bool {
        self.inner.keeps_its_place()
    }
    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.inner.punch_hole(offset, len)
    }
    fn map(&self, len: usize) -> io::Result<Box<dyn Mapping>> {
        self.inner.map(len)
    }
}
