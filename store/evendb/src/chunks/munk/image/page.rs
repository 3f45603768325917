//! A page of an image: sorted records with hash tags, immutable, one allocation.
//!
//! ```text
//!   0  records u32 | tombstones u31, others u1 | bytes of keys and values u48 | ledger u16
//!  16  groups of eight records: 8 tags of 1 byte | 8 positions of W bytes
//!      records: flags u8 | key length u16 | version u64, unless zero | key | value
//! ```
//!
//! `others`: some record lists operands. W is 2, 4 or 8, the least width that holds the page's
//! length; a record ends where the next begins. Positions lie beside their tags so that a matching
//! tag costs no further cache miss before the record itself. Only the newest version of a key
//! stores the key; older ones follow with [`OLDER`] set and an empty key. Integers are
//! little-endian; the bytes never leave RAM.
//!
//! A page is charged to its ledger from its creation until the last reference to it is gone, which
//! may be a user's.

#![expect(
    unsafe_code,
    reason = "one allocation, from a slab: gets and scans measured 15-30 % faster than behind two"
)]

use crate::expiry::ReadTime;
use crate::memory::fetch::fetch_ahead;
use crate::memory::{Ledger, Use, slab};
use evendb_storage::key_hash::RamHash;
use evendb_storage::{Kind, Time, Version};
// Not an atomic of the seam: a page is no part of a model, and its count works like that of an
// `Arc`.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{
    fmt,
    ops::{Deref, Range},
    ptr::{self, NonNull},
};

const HEADER_BYTES: usize = 16;
/// A bit beside the number of tombstones: some records are neither puts nor tombstones.
const OTHERS: u32 = 1 << 31;
/// The offset in the header at which the ledger's number stands.
const LEDGER_AT: usize = 14;
/// Bytes of the count in front of the page's bytes, padded.
const COUNT_BYTES: usize = 16;

/// Flag: the record is a put.
pub(super) const PUT: u8 = 1;
/// Flag: a version follows the key's length; without it the version is zero.
pub(super) const VERSIONED: u8 = 2;
/// Flag: an older version of the previous record's key.
pub(super) const OLDER: u8 = 4;
/// The kind lies above the flags, unless it is a put.
const KIND_SHIFT: u32 = 4;

/// The flags for a record's kind.
#[inline]
pub(super) fn flags_of(kind: Kind) -> u8 {
    match kind {
        Kind::Put => PUT,
        other => (other as u8) << KIND_SHIFT,
    }
}

/// The kind in a record's flags.
#[inline]
pub(super) fn kind_of(flags: u8) -> Kind {
    match flags & PUT != 0 {
        true => Kind::Put,
        // A byte that is no kind was never written.
        false => Kind::from_byte(flags >> KIND_SHIFT).unwrap_or(Kind::Delete),
    }
}

/// The part of a key's hash that pages keep.
#[inline]
pub(super) fn tag_of(hash: RamHash) -> u8 {
    (hash.bits() >> 56) as u8
}

/// See the module.
#[repr(transparent)]
pub(crate) struct Page([u8]);

/// The places of a record's parts within the page.
pub(super) struct RecordLayout {
    pub(super) version: Version,
    pub(super) kind: Kind,
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
}

/// A key and the value that a reader sees, by their places within the page. A search for the
/// following key begins at record `next`.
pub(crate) struct SeenRecord {
    pub(crate) kind: Kind,
    pub(crate) key: Range<usize>,
    pub(crate) value: Range<usize>,
    pub(crate) next: usize,
}

/// The counts in a page's header.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) entries: usize,
    pub(super) deletes: usize,
    /// Some records are neither puts nor tombstones.
    pub(super) others: bool,
    pub(super) data_bytes: usize,
    pub(super) memory_bytes: usize,
}

#[inline]
fn load<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("N bytes")
}

/// Bytes of a position in a page of `page_len` bytes.
#[inline]
fn position_width(page_len: usize) -> usize {
    if page_len <= usize::from(u16::MAX) {
        2
    } else if page_len <= u32::MAX as usize {
        4
    } else {
        8
    }
}

#[inline]
fn load_position(bytes: &[u8], at: usize, width: usize) -> usize {
    match width {
        2 => usize::from(u16::from_le_bytes(load(bytes, at))),
        4 => u32::from_le_bytes(load(bytes, at)) as usize,
        _ => u64::from_le_bytes(load(bytes, at)) as usize,
    }
}

/// The high bit of each byte of `word` that is zero, exactly (no false hits above a true one).
#[inline]
fn zero_bytes(word: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    !(((word & LOW) + LOW) | word | LOW)
}

/// The records of a page that is to be built, encoded, and what the header says of them. Record `i`
/// goes from `starts[i]` up to the next start; `bytes` begin at the first start.
pub(super) struct PageRecords<'a> {
    pub(super) tags: &'a [u8],
    pub(super) starts: &'a [usize],
    pub(super) bytes: &'a [u8],
    /// The number of tombstones.
    pub(super) deletes: usize,
    /// Some records list operands.
    pub(super) others: bool,
    /// Bytes of keys and values.
    pub(super) data_bytes: usize,
}

impl Page {
    /// A page of encoded records, charged to `ledger`. The page's front is gathered in `scratch`,
    /// which is reused from page to page.
    pub(super) fn build(
        records: &PageRecords<'_>,
        ledger: Ledger,
        scratch: &mut Vec<u8>,
    ) -> PageArc {
        let PageRecords {
            tags,
            starts,
            bytes,
            deletes,
            others,
            data_bytes,
        } = *records;
        let base = starts.first().copied().unwrap_or(0);
        let (width, front) = Page::front_bytes(tags.len(), bytes.len());
        scratch.clear();
        scratch.reserve(front);
        scratch.extend_from_slice(&count_u32(tags.len()).to_le_bytes());
        let others = if others { OTHERS } else { 0 };
        scratch.extend_from_slice(&(count_u32(deletes) | others).to_le_bytes());
        scratch.extend_from_slice(&(data_bytes as u64).to_le_bytes()[..6]);
        scratch.extend_from_slice(&ledger.number().to_le_bytes());
        for (tags, starts) in tags.chunks(8).zip(starts.chunks(8)) {
            let group_end = scratch.len() + 8 + 8 * width;
            scratch.extend_from_slice(tags);
            scratch.resize(group_end - 8 * width, 0);
            for &start in starts {
                let position = ((front + start - base) as u64).to_le_bytes();
                scratch.extend_from_slice(&position[..width]);
            }
            scratch.resize(group_end, 0);
        }
        PageArc::of_parts([scratch, bytes], ledger)
    }

    /// The width of a position, and the length of the part before the records.
    fn front_bytes(count: usize, record_bytes: usize) -> (usize, usize) {
        let front = |width: usize| HEADER_BYTES + count.div_ceil(8) * (8 + 8 * width);
        let fits = |&width: &usize| position_width(front(width) + record_bytes) <= width;
        let width = [2, 4].into_iter().find(fits).unwrap_or(8);
        // A page whose length just fits with narrow positions must not read as one with narrower
        // positions.
        debug_assert_eq!(position_width(front(width) + record_bytes), width);
        (width, front(width))
    }

    /// Length of the page that [`Page::build`] makes of `count` records of `record_bytes` bytes.
    pub(super) fn length(count: usize, record_bytes: usize) -> usize {
        Page::front_bytes(count, record_bytes).1 + record_bytes
    }

    /// The page's bytes; positions of keys and values refer to them.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        slab::size_of_object(COUNT_BYTES + self.0.len())
    }

    /// The ledger to which it is charged.
    pub(super) fn ledger(&self) -> Ledger {
        Ledger::of_number(u16::from_le_bytes(load(&self.0, LEDGER_AT)))
    }

    pub(super) fn totals(&self) -> Totals {
        Totals {
            entries: self.count(),
            deletes: (u32::from_le_bytes(load(&self.0, 4)) & !OTHERS) as usize,
            others: u32::from_le_bytes(load(&self.0, 4)) & OTHERS != 0,
            data_bytes: (u64::from_le_bytes(load(&self.0, 8)) & 0xffff_ffff_ffff) as usize,
            memory_bytes: self.memory_bytes(),
        }
    }

    /// The number of records.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        u32::from_le_bytes(load(&self.0, 0)) as usize
    }

    #[inline]
    pub(super) fn tag(&self, index: usize) -> u8 {
        let width = position_width(self.0.len());
        self.0[HEADER_BYTES + index / 8 * (8 + 8 * width) + index % 8]
    }

    /// The begin of record `index`.
    #[inline]
    pub(super) fn start(&self, index: usize) -> usize {
        let width = position_width(self.0.len());
        let group = HEADER_BYTES + index / 8 * (8 + 8 * width);
        load_position(&self.0, group + 8 + index % 8 * width, width)
    }

    /// The end of record `index`.
    #[inline]
    pub(super) fn end(&self, index: usize) -> usize {
        if index + 1 < self.count() {
            self.start(index + 1)
        } else {
            self.0.len()
        }
    }

    #[inline]
    pub(super) fn flags(&self, index: usize) -> u8 {
        self.0[self.start(index)]
    }

    /// Whether record `index` exists and is an older version of the key before it.
    #[inline]
    pub(super) fn is_older(&self, index: usize) -> bool {
        index < self.count() && self.flags(index) & OLDER != 0
    }

    #[inline]
    pub(super) fn record(&self, index: usize) -> RecordLayout {
        self.record_within(self.start(index), self.end(index))
    }

    #[inline]
    pub(super) fn record_within(&self, start: usize, end: usize) -> RecordLayout {
        let flags = self.0[start];
        let (key, version) = self.key_at(start);
        RecordLayout {
            version,
            kind: kind_of(flags),
            value: key.end..end,
            key,
        }
    }

    /// Key and version of the record that begins at `start`.
    #[inline]
    fn key_at(&self, start: usize) -> (Range<usize>, Version) {
        let key_len = usize::from(u16::from_le_bytes(load(&self.0, start + 1)));
        if self.0[start] & VERSIONED != 0 {
            let version = u64::from_le_bytes(load(&self.0, start + 3));
            (start + 11..start + 11 + key_len, Version(version))
        } else {
            (start + 3..start + 3 + key_len, Version::ZERO)
        }
    }

    /// The key of record `index`; empty for an older version.
    #[inline]
    pub(super) fn key(&self, index: usize) -> &[u8] {
        &self.0[self.key_at(self.start(index)).0]
    }

    /// The newest record of `key`.
    #[inline]
    pub(super) fn find(&self, key: &[u8], tag: u8) -> Option<usize> {
        let bytes = &self.0;
        let count = self.count();
        let width = position_width(bytes.len());
        let pattern = u64::from(tag) * 0x0101_0101_0101_0101;
        let mut group = HEADER_BYTES;
        for first in (0..count).step_by(8) {
            let mut hits = zero_bytes(u64::from_le_bytes(load(bytes, group)) ^ pattern);
            while hits != 0 {
                let slot = hits.trailing_zeros() as usize / 8;
                hits &= hits - 1;
                // The last group is padded with zeros, which may look like tags.
                if first + slot >= count {
                    break;
                }
                let start = load_position(bytes, group + 8 + slot * width, width);
                if bytes[start] & OLDER == 0 && bytes[self.key_at(start).0] == *key {
                    return Some(first + slot);
                }
            }
            group += 8 + 8 * width;
        }
        None
    }

    /// The newest record with a version `<= at` of the key whose newest record is `head`.
    #[inline]
    pub(super) fn newest_at(&self, head: usize, at: Version) -> Option<RecordLayout> {
        let mut index = head;
        loop {
            let record = self.record(index);
            if record.version.is_seen_at(at) {
                return Some(record);
            }
            index += 1;
            if !self.is_older(index) {
                return None;
            }
        }
    }

    /// The first key, from record `from` on, with a value that a reader at `at` with the time
    /// `time` sees. Records of the previous key may come first.
    #[inline]
    pub(crate) fn next_seen(&self, from: usize, at: Version, time: Time) -> Option<SeenRecord> {
        let count = self.count();
        let mut head = from;
        while head < count {
            let start = self.start(head);
            // Records of the previous key, whose newest one lies before `from`.
            if self.0[start] & OLDER != 0 {
                head += 1;
                continue;
            }
            let newest = self.record_within(start, self.end(head));
            let key = newest.key.clone();
            let seen = match newest.version.is_seen_at(at) {
                true => Some(newest),
                false if self.is_older(head + 1) => self.newest_at(head + 1, at),
                false => None,
            };
            head += 1;
            let Some(seen) = seen else { continue };
            let is_live = match seen.kind {
                Kind::Put | Kind::PutApart => true,
                Kind::PutUntil | Kind::PutUntilApart => self.is_live(&seen, time),
                Kind::Delete | Kind::SingleDelete | Kind::Merge => false,
            };
            if is_live {
                return Some(SeenRecord {
                    kind: seen.kind,
                    key,
                    value: seen.value.start + seen.kind.prefix_bytes()..seen.value.end,
                    next: head,
                });
            }
        }
        None
    }

    /// Whether a put that expires still has a value at this time.
    #[cold]
    fn is_live(&self, record: &RecordLayout, time: Time) -> bool {
        let expires = record.kind.expires(&self.0[record.value.clone()]);
        expires.is_some_and(|expires| !ReadTime::At(time).is_past(expires))
    }

    /// Fetches up to `bytes_max` bytes of record `index` ahead, if the record exists. Reads the
    /// page's front.
    #[inline]
    pub(crate) fn fetch_record(&self, index: usize, bytes_max: usize) {
        if index < self.count() {
            let start = self.start(index);
            let end = self.end(index).min(start + bytes_max);
            fetch_ahead(self.0[start..end].as_ptr(), end - start);
        }
    }

    /// The key whose newest record is `head`.
    #[inline]
    pub(crate) fn key_of_head(&self, head: usize) -> &[u8] {
        self.key(head)
    }

    /// The last key.
    #[inline]
    pub(crate) fn last_key(&self) -> &[u8] {
        self.key(self.head(self.count() - 1))
    }

    /// The newest record of the key of record `index`.
    #[inline]
    pub(super) fn head(&self, mut index: usize) -> usize {
        while self.flags(index) & OLDER != 0 {
            index -= 1;
        }
        index
    }

    /// The first record after the records of the key of record `index`.
    #[inline]
    pub(super) fn after(&self, mut index: usize) -> usize {
        index += 1;
        while self.is_older(index) {
            index += 1;
        }
        index
    }

    /// The newest record of the first key `>= key`; the count of records if there is none.
    pub(crate) fn lower_bound(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let head = self.head(low + (high - low) / 2);
            if self.key(head) < key {
                low = self.after(head);
            } else {
                high = head;
            }
        }
        low
    }
}

fn count_u32(count: usize) -> u32 {
    u32::try_from(count).expect("records of a page are counted in 32 bits")
}

/// A counted reference to a page: like an `Arc`, but in a slab.
pub(crate) struct PageArc {
    /// The count; the page lies [`COUNT_BYTES`] behind it.
    count: NonNull<AtomicUsize>,
    page_len: usize,
}

// SAFETY: the count is atomic, the page immutable, and slabs take memory back on any thread.
unsafe impl Send for PageArc {}
// SAFETY: as for Send.
unsafe impl Sync for PageArc {}

impl PageArc {
    /// A page of these bytes: its front, followed by its records.
    fn of_parts([front, records]: [&[u8]; 2], ledger: Ledger) -> PageArc {
        let page_len = front.len() + records.len();
        let count = slab::allocate(COUNT_BYTES + page_len).cast::<AtomicUsize>();
        // SAFETY: the allocation is aligned to 16 and holds the count, followed by both parts.
        unsafe {
            count.write(AtomicUsize::new(1));
            let to = count.as_ptr().cast::<u8>().add(COUNT_BYTES);
            ptr::copy_nonoverlapping(front.as_ptr(), to, front.len());
            ptr::copy_nonoverlapping(records.as_ptr(), to.add(front.len()), records.len());
        }
        let page = PageArc { count, page_len };
        ledger.add(Use::Munks, page.memory_bytes());
        page
    }

    #[inline]
    fn count(&self) -> &AtomicUsize {
        // SAFETY: this reference is counted, which keeps the allocation alive.
        unsafe { self.count.as_ref() }
    }

    /// Fetches the count and the page's front ahead.
    #[inline]
    pub(crate) fn fetch_front(&self) {
        // The count lies in front of the page, in the page's first cache line or in the line
        // before.
        fetch_ahead(self.bytes().as_ptr(), HEADER_BYTES);
    }

    /// Whether both are the same page.
    pub(crate) fn ptr_eq(a: &PageArc, b: &PageArc) -> bool {
        a.count == b.count
    }
}

impl Deref for PageArc {
    type Target = Page;
    #[inline]
    fn deref(&self) -> &Page {
        // SAFETY: `of_parts` wrote `page_len` bytes there, and this reference's count keeps them.
        // `Page` is a transparent wrapper of `[u8]`: same layout, alignment, metadata and validity.
        unsafe {
            let bytes = self.count.as_ptr().cast::<u8>().add(COUNT_BYTES);
            &*(ptr::slice_from_raw_parts(bytes, self.page_len) as *const Page)
        }
    }
}

impl Clone for PageArc {
    #[inline]
    fn clone(&self) -> PageArc {
        // Relaxed, as in `Arc`: a new reference comes from an existing one.
        let before = self.count().fetch_add(1, Ordering::Relaxed);
        assert!(before < usize::MAX / 2, "too many references to one page");
        PageArc { ..*self }
    }
}

impl Drop for PageArc {
    #[inline]
    fn drop(&mut self) {
        // Release: reads by this holder come before the free. The thread that frees loads with
        // Acquire below, as for a record.
        if self.count().fetch_sub(1, Ordering::Release) == 1 {
            self.count().load(Ordering::Acquire);
            self.free();
        }
    }
}

impl PageArc {
    #[cold]
    fn free(&mut self) {
        self.ledger().subtract(Use::Munks, self.memory_bytes());
        // SAFETY: the last count is gone, and the length is the one that `of_parts` allocated.
        unsafe { slab::free(self.count.cast(), COUNT_BYTES + self.page_len) };
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page")
            .field("records", &self.count())
            .field("bytes", &self.0.len())
            .finish()
    }
}
