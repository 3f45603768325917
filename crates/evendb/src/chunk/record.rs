#![expect(
    unsafe_code,
    reason = "one allocation per record, counted, with a thin pointer"
)]
//! The record: one write of one key, in one allocation, shared by counting.
//!
//! ```text
//! RecordRef -> | count | key_len | value_len | kind, batch | version | hash | older | stamp | key | value |
//! ```
//!
//! Invariants
//! * Key, value, kind and hash never change; the version is set while one reference exists.
//! * `older` belongs to the one delta that links the record: it is followed only through that
//!   delta and under a pin, and a record holds no count of it. A record is linked once.
//! * `stamp` owns one count of the batch's [`Stamp`]. It goes from a stamp to null once, after the
//!   commit; the stamp itself is dropped a grace period later.
//!
//! Thread safety: any thread may read; the counts are atomic. Who unlinks a record gives its count
//! back a grace period later ([`RecordRef::release_later`]), so a plain reference found under a
//! pin stays valid for that pin.

use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering, fence};
use crate::sync::epoch::{self, Guard};
use evendb_storage::{EntryRef, Kind, Version};
use std::ops::Deref;
use std::ptr::{self, NonNull};

/// Commit stamp of a batch: pending until committed. Readers pass over a record while its stamp
/// is pending, so one store shows all records of the batch.
#[derive(Debug)]
pub(crate) struct Stamp(AtomicBool);

impl Stamp {
    /// A pending stamp.
    pub(crate) fn new() -> Arc<Stamp> {
        Arc::new(Stamp(AtomicBool::new(false)))
    }

    /// Shows the batch. All its records must be linked.
    pub(crate) fn commit(&self) {
        // Pairs with the Acquire of `is_committed`: who sees one record sees the links of all.
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_committed(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Header of a record, the bytes of key and value behind it. Only used by reference.
#[repr(C)]
pub(crate) struct Record {
    count: AtomicU32,
    key_len: u32,
    value_len: u32,
    kind: Kind,
    /// Whether the record came with a stamp; kept after the stamp is gone.
    batch: bool,
    version: Version,
    hash: u64,
    /// The next older record of the key in the same delta; see the module's invariants.
    pub(super) older: AtomicPtr<Record>,
    stamp: AtomicPtr<Stamp>,
}

impl Record {
    /// The allocation's pointer, valid for all of its bytes. A reference covers the header only;
    /// the provenance of the whole was exposed when the record was made.
    fn base(&self) -> *mut Record {
        ptr::with_exposed_provenance_mut(ptr::from_ref(self).addr())
    }

    fn bytes(&self, start: usize, len: usize) -> &[u8] {
        // SAFETY: `RecordRef::new` wrote `key_len + value_len` bytes behind the header, nothing
        // writes them again, and `self` keeps the allocation.
        unsafe {
            let first = self.base().cast::<u8>().add(size_of::<Record>());
            std::slice::from_raw_parts(first.add(start), len)
        }
    }

    pub(crate) fn key(&self) -> &[u8] {
        self.bytes(0, self.key_len as usize)
    }

    pub(crate) fn value(&self) -> &[u8] {
        self.bytes(self.key_len as usize, self.value_len as usize)
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Hash of the key, as given to [`RecordRef::new`].
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn entry(&self) -> EntryRef<'_> {
        EntryRef {
            key: self.key(),
            version: self.version,
            kind: self.kind,
            value: self.value(),
        }
    }

    /// Key and value bytes.
    pub(crate) fn data_bytes(&self) -> usize {
        self.key_len as usize + self.value_len as usize
    }

    /// What the allocator holds for this record.
    pub(crate) fn memory_bytes(&self) -> usize {
        RecordRef::memory_bytes_of(self.data_bytes())
    }

    /// Whether readers may see the record. Needs no pin.
    #[inline]
    pub(crate) fn is_committed(&self) -> bool {
        // Null pairs with the Release of `clear_stamp`, which comes after the commit.
        self.stamp.load(Ordering::Acquire).is_null() || self.stamp_is_committed()
    }

    #[cold]
    fn stamp_is_committed(&self) -> bool {
        // A cleared stamp is dropped a grace period later; the pin makes this read safe for
        // holders of a counted reference, who may not be pinned.
        let _guard = epoch::pin();
        let stamp = self.stamp.load(Ordering::Acquire);
        // SAFETY: not null, so its count was not given back before the pin began.
        stamp.is_null() || unsafe { (*stamp).is_committed() }
    }

    /// Whether the record was written by a batch (committed or not).
    pub(super) fn is_of_batch(&self) -> bool {
        self.batch
    }

    /// After the commit: forgets the stamp, so that readers save a load. Only the writer calls.
    pub(crate) fn clear_stamp(&self, guard: &Guard) {
        let stamp = self.stamp.load(Ordering::Relaxed);
        if stamp.is_null() {
            return;
        }
        debug_assert!(self.is_committed(), "a pending stamp must stay");
        let stamp = self.stamp.swap(ptr::null_mut(), Ordering::AcqRel);
        if !stamp.is_null() {
            // SAFETY: the swap took the record's count of the stamp out of the record.
            epoch::retire(guard, unsafe { Arc::from_raw(stamp.cast_const()) });
        }
    }

    /// A counted reference. Legal while the record is borrowed from one, or found under a pin.
    pub(crate) fn to_ref(&self) -> RecordRef {
        // The count cannot be zero: whoever unlinks the record gives its count back only after
        // this pin. Relaxed, as in `Arc`: a new reference comes from an existing one.
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        assert!(count < u32::MAX / 2, "too many references to one record");
        // SAFETY: `base` is not null.
        RecordRef(unsafe { NonNull::new_unchecked(self.base()) })
    }

    fn bytes_of(data_bytes: usize) -> usize {
        const { assert!(align_of::<Record>() <= 16, "slabs align to 16") };
        size_of::<Record>() + data_bytes
    }
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.entry().fmt(f)
    }
}

pub(super) use crate::memory::allocated_bytes;
use crate::memory::slab;

/// Owns one count of a record.
pub(crate) struct RecordRef(NonNull<Record>);

// SAFETY: the count and the links are atomic, everything else is immutable while shared (the
// setters need the only reference), and a record may be freed on any thread.
unsafe impl Send for RecordRef {}
// SAFETY: as for Send.
unsafe impl Sync for RecordRef {}

impl RecordRef {
    /// A record of version zero without a stamp, not linked anywhere.
    ///
    /// # Panics
    /// If key or value exceed `u32::MAX` bytes; callers check the limits before.
    pub(crate) fn new(key: &[u8], value: &[u8], kind: Kind, hash: u64) -> RecordRef {
        let key_len = u32::try_from(key.len()).expect("keys are limited before they get here");
        let value_len =
            u32::try_from(value.len()).expect("values are limited before they get here");
        let record = slab::allocate(Record::bytes_of(key.len() + value.len())).cast::<Record>();
        let memory = record.as_ptr().cast::<u8>();
        // For `Record::base`.
        let _ = memory.expose_provenance();
        // SAFETY: the memory is ours, aligned for the header and large enough for both parts.
        unsafe {
            record.write(Record {
                count: AtomicU32::new(1),
                key_len,
                value_len,
                kind,
                batch: false,
                version: Version::ZERO,
                hash,
                older: AtomicPtr::new(ptr::null_mut()),
                stamp: AtomicPtr::new(ptr::null_mut()),
            });
            let bytes = memory.add(size_of::<Record>());
            ptr::copy_nonoverlapping(key.as_ptr(), bytes, key.len());
            ptr::copy_nonoverlapping(value.as_ptr(), bytes.add(key.len()), value.len());
        }
        RecordRef(record)
    }

    /// What the allocator holds for a record of so many bytes of key and value.
    pub(crate) fn memory_bytes_of(data_bytes: usize) -> usize {
        slab::size_of_object(Record::bytes_of(data_bytes))
    }

    fn assert_unique(&self) {
        assert!(
            self.count.load(Ordering::Acquire) == 1,
            "a record is changed only while one reference to it exists"
        );
    }

    /// Sets the version, before publication.
    ///
    /// # Panics
    /// If another reference exists.
    pub(crate) fn set_version(&mut self, version: Version) {
        self.assert_unique();
        // SAFETY: this is the only reference, held mutably, so nobody reads the field.
        unsafe { (&raw mut (*self.0.as_ptr()).version).write(version) };
    }

    /// Makes the record part of a batch, before publication.
    ///
    /// # Panics
    /// If another reference exists, or the record has a stamp.
    pub(crate) fn set_stamp(&mut self, stamp: Arc<Stamp>) {
        self.assert_unique();
        assert!(!self.batch, "a record belongs to one batch");
        // SAFETY: as in `set_version`.
        unsafe { (&raw mut (*self.0.as_ptr()).batch).write(true) };
        self.stamp
            .store(Arc::into_raw(stamp).cast_mut(), Ordering::Relaxed);
    }

    /// Gives the count to a raw pointer.
    pub(super) fn into_raw(self) -> *mut Record {
        std::mem::ManuallyDrop::new(self).0.as_ptr()
    }

    /// Takes the count back from a raw pointer.
    ///
    /// # Safety
    /// `record` came from [`RecordRef::into_raw`], and its count is taken back once.
    pub(super) unsafe fn from_raw(record: *mut Record) -> RecordRef {
        // SAFETY: pointers from `into_raw` are not null.
        RecordRef(unsafe { NonNull::new_unchecked(record) })
    }

    /// Gives the count of an unlinked record back once no pin of this moment is left.
    ///
    /// # Safety
    /// As [`RecordRef::from_raw`]; and no reader that pins from now on can reach the record.
    pub(super) unsafe fn release_later(record: *mut Record, guard: &Guard) {
        // SAFETY: the count is given back once, and records may be freed on any thread.
        unsafe { epoch::defer(guard, move || drop(RecordRef::from_raw(record))) };
    }

    /// How many references there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }
}

impl Deref for RecordRef {
    type Target = Record;
    #[inline]
    fn deref(&self) -> &Record {
        // SAFETY: the count keeps the record.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for RecordRef {
    fn clone(&self) -> RecordRef {
        self.to_ref()
    }
}

impl Drop for RecordRef {
    fn drop(&mut self) {
        // Release: what this holder did comes before the free. Acquire below: the free comes after
        // what all holders did.
        if self.count.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        fence(Ordering::Acquire);
        let stamp = self.stamp.load(Ordering::Relaxed);
        if !stamp.is_null() {
            // SAFETY: the record owns this count, and nobody else has the record.
            drop(unsafe { Arc::from_raw(stamp.cast_const()) });
        }
        let bytes = Record::bytes_of(self.data_bytes());
        // SAFETY: the last count is gone, so no reference is left; as many bytes as in `new`.
        unsafe {
            self.0.drop_in_place();
            slab::free(self.0.cast(), bytes);
        }
    }
}

impl std::fmt::Debug for RecordRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_record_gives_back_what_it_was_made_of() {
        for (key, value) in [
            (&b""[..], &b""[..]),
            (b"k", b""),
            (b"", b"v"),
            (b"key", b"value"),
        ] {
            let mut record = RecordRef::new(key, value, Kind::Put, 7);
            record.set_version(Version(9));
            assert_eq!(record.key(), key);
            assert_eq!(record.value(), value);
            assert_eq!((record.hash(), record.version()), (7, Version(9)));
            assert_eq!(record.entry().kind, Kind::Put);
            assert!(record.is_committed());
            assert!(record.memory_bytes() >= size_of::<Record>() + key.len() + value.len());
        }
        let large = vec![7; 65_535];
        assert_eq!(RecordRef::new(&large, &large, Kind::Put, 0).value(), large);
    }

    #[test]
    fn references_are_counted_and_outlive_the_first() {
        let first = RecordRef::new(b"k", b"v", Kind::Delete, 1);
        let second = first.to_ref();
        let third = second.clone();
        assert_eq!(first.count(), 3);
        drop(first);
        drop(third);
        assert_eq!(second.count(), 1);
        assert_eq!((second.key(), second.kind()), (&b"k"[..], Kind::Delete));
    }

    #[test]
    #[should_panic(expected = "only while one reference")]
    fn a_shared_record_cannot_be_changed() {
        let mut record = RecordRef::new(b"k", b"v", Kind::Put, 1);
        let _other = record.clone();
        record.set_version(Version(1));
    }

    #[test]
    fn a_stamp_is_released_with_its_record_or_a_grace_period_after_it_was_cleared() {
        let stamp = Stamp::new();
        let weak = Arc::downgrade(&stamp);
        let mut record = RecordRef::new(b"k", b"v", Kind::Put, 1);
        record.set_stamp(stamp.clone());
        assert!(!record.is_committed());
        drop(record);
        assert_eq!(Arc::strong_count(&stamp), 1, "dropped with the record");

        let mut record = RecordRef::new(b"k", b"v", Kind::Put, 1);
        record.set_stamp(stamp.clone());
        stamp.commit();
        assert!(record.is_committed());
        drop(stamp);
        let pinned = epoch::pin();
        record.clear_stamp(&epoch::pin());
        assert!(record.is_committed() && record.is_of_batch());
        for _ in 0..100 {
            crate::sync::thread::spawn(epoch::collect).join().unwrap();
        }
        assert!(weak.upgrade().is_some(), "a pin of that moment is left");
        drop(pinned);
        while weak.upgrade().is_some() {
            epoch::collect();
        }
    }
}
