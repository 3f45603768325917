#![expect(
    unsafe_code,
    reason = "one allocation per record, counted, with a thin pointer"
)]
//! The record: one write of one key, in one allocation, shared by counting.
//!
//! ```text
//! | count | value_len | key_len | kind, stamp | hash | version, pending | older | key | value |
//!     4       4           2         1     1       4      8                  8
//! ```
//!
//! 32 bytes in front of key and value; the sum is rounded up to a class of slabs
//! (`memory/slab.rs`): 48 bytes for a key of 8 bytes and a value of up to 8. In addition a record
//! takes a slot, a tag and a pointer in a page of the delta: 11 bytes if the page is full, 21 after
//! a split has halved it (`delta/page.rs`).
//!
//! Invariants
//! * Key, value, kind and hash never change; version and stamp are set while one reference exists.
//! * `older` belongs to the one delta that links the record: it is followed only through that delta
//!   and under a pin, and a record holds no count of it. A record is linked once.
//! * A record of a batch has the number of the batch's stamp (`version/stamp.rs`), and a bit beside
//!   its version, [`PENDING`]: with it, readers ask the stamp. After the commit the bit is cleared,
//!   once, and then another batch may use the stamp. So no part of a batch waits for a grace
//!   period.
//!
//! Thread safety: any thread may read; the counts are atomic. A thread that unlinks a record
//! releases its count a grace period later ([`RecordRef::release_later`]), so a plain reference
//! found under a pin stays valid for that pin.

use crate::memory::fetch::fetch_ahead;
use crate::memory::slab;
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::sync::reclaim::{self, Guard};
use crate::version::stamp::{self, BatchStamp, NO_STAMP};
use crate::visibility::Candidate;
use evendb_storage::key_hash::RamHash;
use evendb_storage::{EntryRef, Kind, Time, Version};
use std::ops::{Deref, Range};
use std::ptr::{self, NonNull};

/// A bit beside a version: readers ask the record's stamp. No version is so great that it uses this
/// bit, see [`CHECKPOINT_MAX`](crate::version::clock::CHECKPOINT_MAX).
const PENDING: u64 = 1 << 63;

/// The bytes of a record that are fetched ahead: its header and the first bytes of its key.
const FETCHED_BYTES: usize = size_of::<Record>() + 32;

/// The header of a record; key and value follow it in memory. Only used by reference.
#[repr(C)]
pub(crate) struct Record {
    count: AtomicU32,
    value_len: u32,
    key_len: u16,
    kind: Kind,
    /// The number of the stamp that the record had first; it stays when another batch has the
    /// stamp.
    stamp: u8,
    hash: u32,
    /// The version, and [`PENDING`] while the stamp decides.
    state: AtomicU64,
    /// The next older record of the key in the same delta; see the module's invariants.
    pub(super) older: AtomicPtr<Record>,
}

#[cfg(not(any(evendb_loom, evendb_shuttle)))]
const _: () = assert!(size_of::<Record>() == 32 || cfg!(not(target_pointer_width = "64")));

impl Record {
    /// The allocation's pointer, valid for all of its bytes. A reference covers the header only;
    /// the provenance of the whole allocation was exposed when the record was made.
    fn base(&self) -> NonNull<Record> {
        NonNull::with_exposed_provenance(NonNull::from(self).addr())
    }

    fn bytes(&self, start: usize, len: usize) -> &[u8] {
        // SAFETY: `RecordRef::new` wrote `key_len + value_len` bytes behind the header, nothing
        // writes them again, and `self` keeps the allocation.
        unsafe {
            let first = self.base().cast::<u8>().add(size_of::<Record>());
            std::slice::from_raw_parts(first.add(start).as_ptr(), len)
        }
    }

    pub(crate) fn key(&self) -> &[u8] {
        self.bytes(0, self.key_len as usize)
    }

    /// Has the processor fetch the begin of the record: its fields, and most keys.
    #[inline]
    pub(crate) fn fetch_key(&self) {
        fetch_ahead(ptr::from_ref(self).cast(), FETCHED_BYTES);
    }

    pub(crate) fn value(&self) -> &[u8] {
        self.bytes(self.key_len as usize, self.value_len as usize)
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The place of the value that was put, in the bytes of key and value.
    #[inline]
    pub(crate) fn shown(&self) -> Range<usize> {
        let key = self.key_len as usize;
        key + self.kind.prefix_bytes()..key + self.value_len as usize
    }

    #[inline]
    pub(crate) fn version(&self) -> Version {
        // Relaxed: the version came with the link, and only the bit beside it changes.
        Version(self.state.load(Ordering::Relaxed) & !PENDING)
    }

    /// The result of [`hash_of`] for the hash that [`RecordRef::new`] got.
    pub(crate) fn hash(&self) -> u32 {
        self.hash
    }

    /// The part of the key's hash that a record keeps: for another record of the key, and for
    /// deltas.
    pub(crate) fn kept_hash(&self) -> RamHash {
        RamHash::of_bits(u64::from(self.hash) << 32)
    }

    pub(crate) fn entry(&self) -> EntryRef<'_> {
        EntryRef {
            key: self.key(),
            version: self.version(),
            kind: self.kind,
            value: self.value(),
        }
    }

    /// The number of bytes of key and value.
    pub(crate) fn data_bytes(&self) -> usize {
        self.key_len as usize + self.value_len as usize
    }

    /// The bytes that the allocator holds for this record.
    pub(crate) fn memory_bytes(&self) -> usize {
        RecordRef::memory_bytes_of(self.data_bytes())
    }

    /// Whether readers may see the record.
    #[inline]
    pub(crate) fn is_committed(&self) -> bool {
        // Without the bit: pairs with the Release of `leave_stamp`, which comes after the commit.
        self.state.load(Ordering::Acquire) & PENDING == 0 || self.is_stamp_committed()
    }

    /// Whether a reader at version `at` may see the record: it is committed, and not newer.
    #[inline]
    pub(crate) fn is_seen_at(&self, at: Version) -> bool {
        let state = self.state.load(Ordering::Acquire);
        Version(state & !PENDING).is_seen_at(at)
            && (state & PENDING == 0 || self.is_stamp_committed())
    }

    /// Asks the stamp, after the bit was set a moment ago.
    #[cold]
    fn is_stamp_committed(&self) -> bool {
        // The second look tells whether the stamp still belongs to this record; see
        // `version/stamp.rs`.
        !stamp::is_pending(self.stamp)
            || (!stamp::is_second_look_left_out(self.stamp)
                && self.state.load(Ordering::Acquire) & PENDING == 0)
    }

    /// Whether the record was written by a batch (committed or not).
    pub(crate) fn is_of_batch(&self) -> bool {
        self.stamp != NO_STAMP
    }

    /// After the commit: readers need not ask the stamp any more. Only the writer calls it.
    pub(crate) fn leave_stamp(&self, stamp: &BatchStamp) {
        let state = self.state.load(Ordering::Relaxed);
        assert!(
            state & PENDING != 0 && self.stamp == stamp.number(),
            "a record leaves its own stamp, once"
        );
        debug_assert!(self.is_committed(), "a pending record keeps its stamp");
        self.state.store(state & !PENDING, Ordering::Release);
        stamp.note_released();
    }

    /// A counted reference. Legal while the record is borrowed from one, or found under a pin.
    pub(crate) fn to_ref(&self) -> RecordRef {
        // The count cannot be zero: a thread that unlinks the record releases its count only after
        // this pin. Relaxed, as in `Arc`: a new reference comes from an existing one.
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        assert!(count < u32::MAX / 2, "too many references to one record");
        RecordRef(self.base())
    }

    fn bytes_of(data_bytes: usize) -> usize {
        const { assert!(align_of::<Record>() <= 16, "slabs align to 16") };
        size_of::<Record>() + data_bytes
    }
}

impl Candidate for &Record {
    #[inline]
    fn kind(&self) -> Kind {
        self.kind
    }

    #[inline]
    fn version(&self) -> Version {
        Record::version(self)
    }

    #[inline]
    fn stored_value(&self) -> &[u8] {
        self.value()
    }
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.entry().fmt(f)
    }
}

/// The part of a key's hash that a record keeps: the upper half.
#[inline]
pub(crate) fn hash_of(hash: RamHash) -> u32 {
    (hash.bits() >> 32) as u32
}

pub(super) use crate::memory::allocated_bytes;

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
    /// If the key exceeds `u16::MAX` bytes, or the value `u32::MAX`; callers check the limits
    /// before.
    pub(crate) fn new(key: &[u8], value: &[u8], kind: Kind, hash: RamHash) -> RecordRef {
        RecordRef::of_parts(key, &[], value, kind, hash)
    }

    /// A put, with an expiry if there is one; otherwise like [`RecordRef::new`].
    pub(crate) fn put(key: &[u8], value: &[u8], expires: Option<Time>, hash: RamHash) -> RecordRef {
        RecordRef::put_stored(key, value, expires, false, hash)
    }

    /// Like [`put`](Self::put); with `is_apart`, `value` is the place of a value that lies apart.
    pub(crate) fn put_stored(
        key: &[u8],
        value: &[u8],
        expires: Option<Time>,
        is_apart: bool,
        hash: RamHash,
    ) -> RecordRef {
        let kind = match expires {
            Some(_) => Kind::PutUntil,
            None => Kind::Put,
        };
        let kind = if is_apart { kind.apart() } else { kind };
        match expires {
            Some(time) => RecordRef::of_parts(key, &time.0.to_le_bytes(), value, kind, hash),
            None => RecordRef::new(key, value, kind, hash),
        }
    }

    #[inline]
    fn of_parts(key: &[u8], prefix: &[u8], value: &[u8], kind: Kind, hash: RamHash) -> RecordRef {
        let key_len = u16::try_from(key.len()).expect("keys are limited before they get here");
        let value_len = u32::try_from(prefix.len() + value.len())
            .expect("values are limited before they get here");
        let data_bytes = key.len() + value_len as usize;
        let record = slab::allocate(Record::bytes_of(data_bytes)).cast::<Record>();
        let memory = record.as_ptr().cast::<u8>();
        // For `Record::base`.
        let _ = memory.expose_provenance();
        // SAFETY: the memory is ours, aligned for the header and large enough for all parts.
        unsafe {
            record.write(Record {
                count: AtomicU32::new(1),
                value_len,
                key_len,
                kind,
                stamp: NO_STAMP,
                hash: hash_of(hash),
                state: AtomicU64::new(Version::ZERO.0),
                older: AtomicPtr::new(ptr::null_mut()),
            });
            let bytes = memory.add(size_of::<Record>());
            ptr::copy_nonoverlapping(key.as_ptr(), bytes, key.len());
            let bytes = bytes.add(key.len());
            ptr::copy_nonoverlapping(prefix.as_ptr(), bytes, prefix.len());
            ptr::copy_nonoverlapping(value.as_ptr(), bytes.add(prefix.len()), value.len());
        }
        RecordRef(record)
    }

    /// The bytes that the allocator holds for a record with this number of bytes of key and value.
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
        assert!(version.0 < PENDING, "opening checks where versions begin");
        assert!(
            self.stamp == NO_STAMP,
            "a record of a batch has its version"
        );
        self.state.store(version.0, Ordering::Relaxed);
    }

    /// Sets the version and makes the record part of a batch, before publication.
    ///
    /// # Panics
    /// If another reference exists, or the record has a stamp.
    pub(crate) fn set_stamp(&mut self, stamp: &BatchStamp, version: Version) {
        self.set_version(version);
        // SAFETY: this is the only reference, held mutably, so nobody reads the field.
        unsafe { (&raw mut (*self.0.as_ptr()).stamp).write(stamp.number()) };
        self.state.store(version.0 | PENDING, Ordering::Relaxed);
        stamp.note_stamped();
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
        RecordRef(NonNull::new(record).expect("pointers from `into_raw` are not null"))
    }

    /// Releases the count of an unlinked record once every pin of this moment is gone.
    ///
    /// # Safety
    /// As for [`RecordRef::from_raw`]; and no reader that pins from now on can reach the record.
    pub(super) unsafe fn release_later(record: *mut Record, guard: &Guard) {
        // SAFETY: the count is given back once, and records may be freed on any thread.
        unsafe { reclaim::defer(guard, move || drop(RecordRef::from_raw(record))) };
    }

    /// Whether a copy would lie closer to other records ([`slab::is_sparse`]).
    pub(crate) fn lies_alone(&self) -> bool {
        let bytes = Record::bytes_of(self.data_bytes());
        // SAFETY: this reference's count keeps the record; the size is the one given in `new`.
        unsafe { slab::is_sparse(self.0.cast(), bytes) }
    }

    /// The number of references.
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
        // Release: this holder's accesses come before the free. Acquire below: the free comes after
        // the accesses of all holders. A load, because ThreadSanitizer does not model fences.
        if self.count.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        self.count.load(Ordering::Acquire);
        let bytes = Record::bytes_of(self.data_bytes());
        // SAFETY: the last count is gone, so no reference is left; the size is the one given in
        // `new`.
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
            let mut record = RecordRef::new(key, value, Kind::Put, RamHash::of_bits(7 << 32));
            record.set_version(Version(9));
            assert_eq!(record.key(), key);
            assert_eq!(record.value(), value);
            assert_eq!((record.hash(), record.version()), (7, Version(9)));
            assert_eq!(record.entry().kind, Kind::Put);
            assert!(record.is_committed());
            assert!(record.memory_bytes() >= size_of::<Record>() + key.len() + value.len());
        }
        let large = vec![7; 65_535];
        assert_eq!(
            RecordRef::new(&large, &large, Kind::Put, RamHash::of_bits(0)).value(),
            large
        );
    }

    #[test]
    fn references_are_counted_and_outlive_the_first() {
        let first = RecordRef::new(b"k", b"v", Kind::Delete, RamHash::of_bits(1));
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
        let mut record = RecordRef::new(b"k", b"v", Kind::Put, RamHash::of_bits(1));
        let _other = record.clone();
        record.set_version(Version(1));
    }

    #[test]
    fn a_record_of_a_batch_is_seen_from_the_commit_on_whatever_batch_has_the_stamp_next() {
        let batch = BatchStamp::claim();
        let mut record = RecordRef::new(b"k", b"v", Kind::Put, RamHash::of_bits(1));
        record.set_stamp(&batch, Version(3));
        assert_eq!(record.version(), Version(3));
        assert!(!record.is_committed() && !record.is_seen_at(Version(3)));
        batch.commit();
        assert!(record.is_committed() && record.is_seen_at(Version(3)));
        assert!(!record.is_seen_at(Version(2)));
        record.leave_stamp(&batch);
        drop(batch);
        // The same word, if no other test has claimed it.
        let next = BatchStamp::claim();
        assert!(record.is_committed() && record.is_of_batch());
        assert!(record.is_seen_at(Version(3)) && !record.is_seen_at(Version(2)));
        assert_eq!(record.version(), Version(3));
        drop(next);
    }
}
