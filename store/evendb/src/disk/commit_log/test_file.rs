//! A file in memory that keeps visible and synced bytes apart, and fails when told to. Its lock is
//! no part of any model: it is not held over a step that a model schedules.

use evendb_storage::sealing::Secrets;
use evendb_storage::vfs::{BLOCK_BYTES, File, Mapping};
use parking_lot::Mutex;
use std::io;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct FileState {
    pub(super) bytes: Vec<u8>,
    /// Contents at the last sync that succeeded.
    pub(super) synced: Vec<u8>,
    pub(super) fail_sync: bool,
    pub(super) fail_write: bool,
    /// There is no way past the cache; or there is one, which refuses.
    pub(super) cache_only: bool,
    pub(super) refuse_blocks: bool,
    /// Panics in the write that comes after this many.
    pub(super) panic_after: Option<usize>,
    /// Panics in the next sync.
    pub(super) panic_in_sync: bool,
    pub(super) syncs: usize,
    /// The number of bytes that were read.
    pub(super) read_bytes: usize,
    /// The number of pieces that were copied into the mapping.
    pub(super) copies: usize,
    /// The number of touched pages.
    pub(super) touched: usize,
    /// The ranges of the mapping's memory that were given back, unless the system keeps it.
    pub(super) given_back: Vec<std::ops::Range<usize>>,
    pub(super) keeps_pages: bool,
    /// The ranges that were asked to be read.
    pub(super) asked: Vec<std::ops::Range<u64>>,
}

#[derive(Clone, Debug)]
pub(super) struct TestFile(
    pub(super) Arc<Mutex<FileState>>,
    Steps,
    WholeBlocks,
    Option<Secrets>,
);

/// Whether anything but whole blocks is a mistake.
type WholeBlocks = bool;

/// Counts copies and syncs, so that a model can run other threads before and between them.
#[derive(Clone, Debug, Default)]
struct Steps(Arc<crate::sync::atomic::AtomicUsize>);

impl Steps {
    fn take(&self) {
        // Relaxed: it must order nothing that the log does not order itself.
        self.0.fetch_add(1, crate::sync::atomic::Ordering::Relaxed);
    }
}

impl TestFile {
    pub(super) fn new(capacity: u64) -> TestFile {
        TestFile::of(vec![0; capacity as usize])
    }

    pub(super) fn of(bytes: Vec<u8>) -> TestFile {
        let state = FileState {
            bytes,
            ..FileState::default()
        };
        TestFile(Arc::new(Mutex::new(state)), Steps::default(), false, None)
    }

    /// The file of an encrypted database.
    #[cfg(feature = "encryption")]
    pub(super) fn with_secrets(mut self, secrets: Secrets) -> TestFile {
        self.3 = Some(secrets);
        self
    }
}

impl File for TestFile {
    fn path(&self) -> &Path {
        Path::new("/test/ring")
    }

    fn secrets(&self) -> Option<&Secrets> {
        self.3.as_ref()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.0.lock();
        state.read_bytes += buf.len();
        let rest = state.bytes.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn past_cache(&self) -> Option<Arc<dyn File>> {
        let there = !self.0.lock().cache_only;
        let behind = || TestFile(self.0.clone(), self.1.clone(), true, self.3.clone());
        there.then(|| Arc::new(behind()) as Arc<dyn File>)
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.0.lock().asked.push(offset..offset + len);
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.1.take();
        let mut state = self.0.lock();
        if self.2 {
            let aligned = [offset as usize, data.len(), data.as_ptr().addr()];
            assert!(aligned.iter().all(|at| at.is_multiple_of(BLOCK_BYTES)));
            if state.refuse_blocks {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
        if state.fail_write {
            return Err(io::Error::other("planned failure of a write"));
        }
        let end = offset as usize + data.len();
        if state.bytes.len() < end {
            state.bytes.resize(end, 0);
        }
        state.bytes[offset as usize..end].copy_from_slice(data);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.1.take();
        let mut state = self.0.lock();
        if std::mem::take(&mut state.panic_in_sync) {
            drop(state);
            panic!("planned panic of a sync");
        }
        state.syncs += 1;
        if state.fail_sync {
            return Err(io::Error::other("planned failure of a sync"));
        }
        state.synced = state.bytes.clone();
        drop(state);
        self.1.take();
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().bytes.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().bytes.resize(len as usize, 0);
        Ok(())
    }

    fn preallocate(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn punch_hole(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn map(&self, _len: usize) -> io::Result<Box<dyn Mapping>> {
        Ok(Box::new(self.clone()))
    }
}

impl Mapping for TestFile {
    fn write(&self, offset: usize, data: &[u8]) {
        self.1.take();
        let mut state = self.0.lock();
        if let Some(left) = &mut state.panic_after {
            if *left == 0 {
                state.panic_after = None;
                drop(state);
                panic!("planned panic of a copy");
            }
            *left -= 1;
        }
        state.copies += 1;
        state.bytes[offset..offset + data.len()].copy_from_slice(data);
    }

    fn prefault(&self, offset: usize, len: usize) {
        let mut state = self.0.lock();
        assert!(offset + len <= state.bytes.len());
        state.touched += 1;
    }

    fn give_back(&self, offset: usize, len: usize) -> bool {
        let mut state = self.0.lock();
        assert!(offset + len <= state.bytes.len());
        if !state.keeps_pages {
            state.given_back.push(offset..offset + len);
        }
        !state.keeps_pages
    }
}
