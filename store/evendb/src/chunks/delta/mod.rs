#![expect(
    unsafe_code,
    reason = "lock-free reading of linked records, measured against locks"
)]
//! The delta: the newest records of a chunk, in RAM only. All puts go here.
//!
//! ```text
//! Delta -> page                          while there is one
//!       -> directory -> page, page, ...  from the first split on
//! page: hash tags, heads -> Record -> older Record -> ...     (page.rs, directory.rs)
//! ```
//!
//! A page fills in order of arrival, doubles up to 128 slots, then splits in half. If the new key
//! is above all keys of a full page, a new page begins behind it: keys that arrive in order leave
//! full pages and are never moved again.
//!
//! Invariants
//! * One writer at a time (the chunk's latch). Records of a key are linked with versions that do
//!   not fall. Below the newest record versions fall strictly, with one exception: a pending record
//!   (only the newest can be pending) may have a record of its own version under it.
//! * Readers start at `single` or `directory` and reach every linked record of their key.
//! * Whatever is unlinked (a record, a page, a directory, an order) is released a grace period
//!   later. The delta owns one count of each linked record and releases it when the delta is
//!   dropped.
//!
//! Why readers need no retry. The writer replaces a page (grown, split) as follows: it copies the
//! heads, publishes the copy, and never writes the old page again. A reader that found the old page
//! reads it as it was when it was replaced, which is a moment after the reader began: its answer is
//! the answer of this moment. Memory: an object that a reader can reach was either current when the
//! reader pinned, or linked later. So it was unlinked after the pin began, and it stays for the
//! pin. A link out of an unlinked record or page may lead to further unlinked ones; by the same
//! argument these were unlinked after the pin began too.
//!
//! Dropping: a delta leaves as part of a retired view, a grace period after the view was
//! unpublished. So nobody holds a reference from [`Delta::get`] when it is dropped; counted
//! references live on.
//!
//! Not here: accounting of memory that waits for its grace period; deciding when to freeze.

mod cursor;
mod directory;
#[cfg(all(test, evendb_loom))]
mod loom_tests;
mod order;
mod page;
mod sorted;
#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
pub(crate) use cursor::STEPS;
pub(crate) use cursor::{DeltaCursor, DeltaShare};

use crate::record::{Record, RecordRef, allocated_bytes, hash_of};
use crate::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::sync::reclaim::{self, Guard};
use directory::Directory;
use evendb_storage::Version;
use evendb_storage::key_hash::RamHash;
use page::{Page, PageRef, SLOTS_MAX, SLOTS_MIN};
use std::ptr;

/// Slots of a page that begins behind a full one: more keys will probably arrive in order.
const SLOTS_BEHIND: usize = if cfg!(evendb_loom) { SLOTS_MIN } else { 32 };

/// See the head of this module.
pub(crate) struct Delta {
    checkpoint: u64,
    /// The only page; null before the first record and from the first split on.
    single: AtomicPtr<Page>,
    /// Published before `single` becomes null.
    directory: AtomicPtr<Directory>,
    // Written by the one writer (a load and a store), read by any thread.
    bytes: AtomicUsize,
    data_bytes: AtomicUsize,
    keys: AtomicUsize,
}

/// The place that points to a key's page.
#[derive(Clone, Copy)]
enum PagePlace<'g> {
    Single,
    In(&'g Directory, usize),
}

impl Delta {
    /// An empty delta for records of one checkpoint number.
    pub(crate) fn new(checkpoint: u64) -> Delta {
        Delta {
            checkpoint,
            single: AtomicPtr::new(ptr::null_mut()),
            directory: AtomicPtr::new(ptr::null_mut()),
            bytes: AtomicUsize::new(allocated_bytes(size_of::<Delta>())),
            data_bytes: AtomicUsize::new(0),
            keys: AtomicUsize::new(0),
        }
    }

    pub(crate) fn checkpoint(&self) -> u64 {
        self.checkpoint
    }

    /// Memory held, structure included; without memory that waits for its grace period.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Key and value bytes of the linked records.
    pub(crate) fn data_bytes(&self) -> usize {
        self.data_bytes.load(Ordering::Relaxed)
    }

    /// Number of distinct keys.
    pub(crate) fn len(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The newest committed record of a key with a version up to `at`.
    ///
    /// The delta must have been found under this pin (in a view), or must not be dropped during the
    /// pin.
    #[inline]
    pub(crate) fn get<'g>(
        &self,
        key: &[u8],
        hash: RamHash,
        at: Version,
        guard: &'g Guard,
    ) -> Option<&'g Record> {
        let (page, _) = self.locate(key, guard)?;
        let slot = page.find(key, hash_of(hash))?;
        chain(page.head(slot)).find(|record| record.is_seen_at(at))
    }

    /// Whether there is any record of the key, pending ones included.
    pub(crate) fn contains(&self, key: &[u8], hash: RamHash, guard: &Guard) -> bool {
        self.locate(key, guard)
            .is_some_and(|(page, _)| page.find(key, hash_of(hash)).is_some())
    }

    /// A cursor over the keys that are here now; it may or may not see later ones.
    pub(crate) fn cursor<'g>(&'g self, guard: &'g Guard) -> DeltaCursor<'g> {
        DeltaCursor::new(self, guard)
    }

    /// The page for a key and where it hangs; none while the delta is empty.
    #[inline]
    fn locate<'g>(&self, key: &[u8], guard: &'g Guard) -> Option<(PageRef<'g>, PagePlace<'g>)> {
        if let Some(page) = self.single(guard) {
            return Some((page, PagePlace::Single));
        }
        // `single` is null for one of two reasons. After the first split, the Acquire of `single`
        // shows the directory. In an empty delta, any answer that the directory gives is a later
        // one.
        let directory = self.directory(guard)?;
        let at = directory.locate(key);
        Some((directory.page(at), PagePlace::In(directory, at)))
    }

    /// The only page, if there is exactly one.
    #[inline]
    fn single<'g>(&self, _guard: &'g Guard) -> Option<PageRef<'g>> {
        // SAFETY: loaded under the pin; a page is freed a grace period after it left.
        unsafe { PageRef::at(self.single.load(Ordering::Acquire)) }
    }

    /// The directory, if there is one.
    #[inline]
    fn directory<'g>(&self, _guard: &'g Guard) -> Option<&'g Directory> {
        // SAFETY: loaded under the pin; the writer frees a directory a grace period after replacing
        // it.
        unsafe { self.directory.load(Ordering::Acquire).as_ref() }
    }

    /// Links a record: readers see it from the Release store on. Only the holder of the chunk's
    /// latch calls.
    ///
    /// Versions of a key must not fall. A committed record replaces the committed ones of its own
    /// version. A pending record leaves the record below it, for readers that must not see the
    /// batch.
    pub(crate) fn insert(&self, record: RecordRef) {
        let guard = &reclaim::pin();
        debug_assert!(
            record.older.load(Ordering::Relaxed).is_null(),
            "a record is linked once"
        );
        self.add(&self.bytes, record.memory_bytes());
        self.add(&self.data_bytes, record.data_bytes());
        let Some((page, place)) = self.locate(record.key(), guard) else {
            let page = PageRef::create(SLOTS_MIN, &[], std::iter::once(record.into_raw()));
            self.add(&self.bytes, page.memory_bytes());
            self.add(&self.keys, 1);
            self.single.store(page.as_ptr(), Ordering::Release);
            return;
        };
        match page.find(record.key(), record.hash()) {
            Some(slot) => self.link(&page.heads()[slot], record, guard),
            None => {
                self.add(&self.keys, 1);
                self.insert_new(page, place, record, guard);
            }
        }
    }

    /// Adds a record of a key that the delta does not have.
    fn insert_new(
        &self,
        page: PageRef<'_>,
        place: PagePlace<'_>,
        record: RecordRef,
        guard: &Guard,
    ) {
        if page.len() < page.capacity() {
            page.append(record.into_raw());
        } else if page.capacity() < SLOTS_MAX {
            self.grow(page, place, record.into_raw(), guard);
        } else {
            self.split(page, place, record, guard);
        }
    }

    /// Replaces a full page by one of twice the size, with one more record.
    fn grow(&self, page: PageRef<'_>, place: PagePlace<'_>, record: *mut Record, guard: &Guard) {
        let heads = page.heads().iter().map(|head| head.load(Ordering::Relaxed));
        let heads = heads.chain(std::iter::once(record));
        let larger = PageRef::create(page.capacity() * 2, page.low(), heads);
        self.add(&self.bytes, larger.memory_bytes());
        match place {
            PagePlace::Single => self.single.store(larger.as_ptr(), Ordering::Release),
            PagePlace::In(directory, at) => directory.replace_page(at, larger),
        }
        self.subtract(&self.bytes, page.memory_bytes());
        // SAFETY: unreachable from the delta since the store.
        unsafe { page.free_later(guard) };
    }

    /// Splits a full page in two, with one more record.
    fn split(&self, page: PageRef<'_>, place: PagePlace<'_>, record: RecordRef, guard: &Guard) {
        let sorted = page.sorted_once();
        let (slots, len) = (sorted.slots(), sorted.slots().len());
        let last = page.head(usize::from(slots[len - 1])).key();
        let heads = |slots: &[u8]| -> Vec<*mut Record> {
            let heads = slots.iter().map(|&slot| &page.heads()[usize::from(slot)]);
            heads.map(|head| head.load(Ordering::Relaxed)).collect()
        };
        if record.key() > last {
            // The new page takes all keys above the last one, whatever their order of arrival, so
            // the full page stays as it is.
            let low = [last, &[0]].concat();
            let record = std::iter::once(record.into_raw());
            let behind = PageRef::create(SLOTS_BEHIND, &low, record);
            self.add(&self.bytes, behind.memory_bytes());
            self.publish_split(place, page, behind, guard);
            return;
        }
        let (lower, upper) = slots.split_at(len / 2);
        let low = page.head(usize::from(upper[0])).key();
        let left = PageRef::create(SLOTS_MAX, page.low(), heads(lower).into_iter());
        let right = PageRef::create(SLOTS_MAX, low, heads(upper).into_iter());
        let target = if record.key() < low { left } else { right };
        target.append(record.into_raw());
        self.add(&self.bytes, left.memory_bytes() + right.memory_bytes());
        self.subtract(&self.bytes, page.memory_bytes());
        self.publish_split(place, left, right, guard);
        // SAFETY: unreachable from the delta since the new directory is published.
        unsafe { page.free_later(guard) };
    }

    fn publish_split(
        &self,
        place: PagePlace<'_>,
        left: PageRef<'_>,
        right: PageRef<'_>,
        guard: &Guard,
    ) {
        let new = match place {
            PagePlace::Single => Directory::of_two(left, right),
            PagePlace::In(directory, at) => directory.with_split(at, left, right),
        };
        self.publish(new, guard);
    }

    /// Publishes a directory, which takes the place of the one before, or of the only page.
    fn publish(&self, new: Directory, guard: &Guard) {
        self.add(&self.bytes, new.memory_bytes());
        let new = Box::into_raw(Box::new(new));
        let old = self.directory.load(Ordering::Relaxed);
        self.directory.store(new, Ordering::Release);
        if old.is_null() {
            // Stored after the directory: a reader that sees null here sees the directory.
            self.single.store(ptr::null_mut(), Ordering::Release);
            return;
        }
        // SAFETY: it was current until the store; unreachable for later readers, and freed once.
        unsafe {
            self.subtract(&self.bytes, (*old).memory_bytes());
            reclaim::defer(guard, move || drop(Box::from_raw(old)));
        }
    }

    /// Puts a record on top of its key's chain and unlinks the records that nobody can read any
    /// more.
    fn link(&self, head: &AtomicPtr<Record>, record: RecordRef, guard: &Guard) {
        let version = record.version();
        let pending = !record.is_committed();
        let top = head.load(Ordering::Relaxed);
        let mut below = top;
        let record = record.into_raw();
        let linked = |record: *mut Record| {
            // SAFETY: records of the chain are live until they are released below, and only this
            // thread, the writer, changes links.
            unsafe { &*record }
        };
        debug_assert!(linked(top).version() <= version, "versions of a key fall");
        debug_assert!(linked(top).is_committed(), "a put above a pending batch");
        if !pending {
            while !below.is_null()
                && linked(below).version() == version
                && linked(below).is_committed()
            {
                below = linked(below).older.load(Ordering::Relaxed);
            }
        }
        linked(record).older.store(below, Ordering::Relaxed);
        // Publishes the record: pairs with the Acquire of `PageRef::head`.
        head.store(record, Ordering::Release);
        self.release(top, below, guard);
        // Batches leave a record of their own version below. It goes now, when the batch's record
        // is no longer the newest; otherwise batches on a hot key would fill the memory.
        if !below.is_null() && linked(below).is_of_batch() && linked(below).is_committed() {
            let shadowed = linked(below).older.load(Ordering::Relaxed);
            let mut rest = shadowed;
            while !rest.is_null() && linked(rest).version() == linked(below).version() {
                rest = linked(rest).older.load(Ordering::Relaxed);
            }
            if !ptr::eq(rest, shadowed) {
                linked(below).older.store(rest, Ordering::Release);
                self.release(shadowed, rest, guard);
            }
        }
    }

    /// Releases the delta's counts of the unlinked records from `first` down to before `end`.
    fn release(&self, first: *mut Record, end: *mut Record, guard: &Guard) {
        let mut next = first;
        while !ptr::eq(next, end) {
            // SAFETY: unlinked by the caller, live until its count is released a line below.
            unsafe {
                let record = next;
                next = (*record).older.load(Ordering::Relaxed);
                self.subtract(&self.bytes, (*record).memory_bytes());
                self.subtract(&self.data_bytes, (*record).data_bytes());
                RecordRef::release_later(record, guard);
            }
        }
    }

    fn add(&self, counter: &AtomicUsize, amount: usize) {
        counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
    }

    fn subtract(&self, counter: &AtomicUsize, amount: usize) {
        counter.store(counter.load(Ordering::Relaxed) - amount, Ordering::Relaxed);
    }
}

/// A record and the older ones below it.
fn chain(newest: &Record) -> impl Iterator<Item = &Record> {
    std::iter::successors(Some(newest), |record| {
        let older = record.older.load(Ordering::Acquire);
        // SAFETY: reached under the pin of `newest` through links, see the module.
        unsafe { older.as_ref() }
    })
}

impl Drop for Delta {
    fn drop(&mut self) {
        // SAFETY: the delta was unpublished a grace period ago (see the head of this module), so
        // nobody reads it; pages and directory are the current ones, and each is freed once.
        unsafe {
            if let Some(page) = PageRef::at(self.single.load(Ordering::Acquire)) {
                free_with_records(page);
            }
            let directory = self.directory.load(Ordering::Acquire);
            if !directory.is_null() {
                let directory = Box::from_raw(directory);
                for at in 0..directory.len() {
                    free_with_records(directory.page(at));
                }
            }
        }
    }
}

/// Releases the delta's counts of a page's records, and frees the page.
///
/// # Safety
/// Nobody can reach the page any more, and this is called once for it.
unsafe fn free_with_records(page: PageRef<'_>) {
    for head in &page.heads()[..page.len()] {
        let mut next = head.load(Ordering::Acquire);
        while !next.is_null() {
            // SAFETY: the delta owns one count of each linked record.
            let record = unsafe { RecordRef::from_raw(next) };
            next = record.older.load(Ordering::Acquire);
        }
    }
    // SAFETY: the caller ensures it.
    unsafe { page.free() };
}

impl std::fmt::Debug for Delta {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delta")
            .field("checkpoint", &self.checkpoint)
            .field("keys", &self.len())
            .finish_non_exhaustive()
    }
}
