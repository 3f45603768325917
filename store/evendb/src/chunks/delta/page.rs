#![expect(unsafe_code, reason = "a page is one allocation of run-time size")]
//! A page of a delta: up to 128 distinct keys in order of arrival, found by hash tags.
//!
//! ```text
//! | length | capacity | low_len | order | tags: 8 bits each | heads: a pointer each | low key |
//!                                 |
//!                                 +-> slot numbers in order of their keys (order.rs)
//! ```
//!
//! A slot's head points to the newest record of its key; older ones hang on `Record::older`. A new
//! key fills the slot at `length` and is published by the Release store of the length; a newer
//! record of a key replaces the head. `order` is a cache that cursors fill, so that puts never
//! sort: the sorted permutation of the first n slots, replaced once when enough slots have come.
//!
//! Invariants
//! * Slots below `length` never move and never become empty. `low` and `capacity` never change.
//! * The page owns neither its records (the delta does) nor its neighbours; it owns its `order`.
//! * The page that replaces this one takes over all heads; from then on nobody writes this one,
//!   except cursors its `order`. It is freed a grace period later.
//!
//! Thread safety: one writer; readers under a pin.

use super::order::{self, Order};
use crate::record::{Record, allocated_bytes};
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::sync::reclaim::{self, Guard};
use smallvec::SmallVec;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// The most keys of a page. A model has few, because otherwise no schedule gets as far as a split.
pub(super) const SLOTS_MAX: usize = if cfg!(evendb_loom) { 16 } else { 128 };
/// Slots of a delta's first page.
pub(super) const SLOTS_MIN: usize = 8;
/// The most slots that a cursor inserts into the page's order; with more new slots it sorts all.
const INSERTED_MAX: usize = 16;
/// The most slots that a cursor inserts for itself alone; with more it renews the order for all.
const UNSORTED_MAX: usize = 2;

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Header of a page.
#[repr(C)]
pub(super) struct Page {
    length: AtomicU32,
    capacity: u32,
    low_len: u32,
    /// Null, or an [`Order`].
    order: AtomicPtr<u32>,
}

/// Where the parts of a page lie.
struct Shape {
    layout: Layout,
    tags: usize,
    heads: usize,
    low: usize,
}

impl Shape {
    #[inline]
    fn of(capacity: usize, low_len: usize) -> Shape {
        let tags = size_of::<Page>().next_multiple_of(align_of::<AtomicU64>());
        let heads = (tags + capacity / 8 * size_of::<AtomicU64>())
            .next_multiple_of(align_of::<AtomicPtr<Record>>());
        let low = heads + capacity * size_of::<AtomicPtr<Record>>();
        let align = align_of::<Page>()
            .max(align_of::<AtomicU64>())
            .max(align_of::<AtomicPtr<Record>>());
        let layout = Layout::from_size_align(low + low_len, align)
            .expect("a page and a key are far below the address space's half");
        Shape {
            layout,
            tags,
            heads,
            low,
        }
    }
}

/// The tag of a hash: its top byte, never zero (an empty slot's).
fn tag(hash: u32) -> u8 {
    ((hash >> 24) as u8).max(1)
}

/// A page that stays for `'g`.
#[derive(Clone, Copy)]
pub(super) struct PageRef<'g> {
    page: NonNull<Page>,
    lifetime: PhantomData<&'g Page>,
}

impl<'g> PageRef<'g> {
    /// The page behind a pointer that a delta published, or none for null.
    ///
    /// # Safety
    /// The page is not freed during `'g`, for one of three reasons: it was loaded under a pin that
    /// lasts for `'g`, or by the delta's one writer, which retires it after `'g`, or its delta is
    /// being dropped.
    #[inline]
    pub(super) unsafe fn at(page: *mut Page) -> Option<PageRef<'g>> {
        Some(PageRef {
            page: NonNull::new(page)?,
            lifetime: PhantomData,
        })
    }

    /// A page of `capacity` slots (a multiple of 8) holding `heads`, not yet published.
    pub(super) fn create(
        capacity: usize,
        low: &[u8],
        heads: impl Iterator<Item = *mut Record>,
    ) -> PageRef<'g> {
        debug_assert!(capacity.is_multiple_of(8) && capacity <= SLOTS_MAX);
        let shape = Shape::of(capacity, low.len());
        // SAFETY: the size is not zero.
        let memory = unsafe { alloc(shape.layout) };
        let Some(page) = NonNull::new(memory.cast::<Page>()) else {
            handle_alloc_error(shape.layout)
        };
        // SAFETY: every write lies within the allocation as `shape` lays it out.
        unsafe {
            page.write(Page {
                length: AtomicU32::new(0),
                capacity: capacity as u32,
                low_len: low.len() as u32,
                order: AtomicPtr::new(ptr::null_mut()),
            });
            let tags = memory.add(shape.tags).cast::<AtomicU64>();
            for word in 0..capacity / 8 {
                tags.add(word).write(AtomicU64::new(0));
            }
            let slots = memory.add(shape.heads).cast::<AtomicPtr<Record>>();
            for slot in 0..capacity {
                slots.add(slot).write(AtomicPtr::new(ptr::null_mut()));
            }
            ptr::copy_nonoverlapping(low.as_ptr(), memory.add(shape.low), low.len());
        }
        let page = PageRef {
            page,
            lifetime: PhantomData,
        };
        for head in heads {
            page.append(head);
        }
        page
    }

    fn header(self) -> &'g Page {
        // SAFETY: the page stays for 'g.
        unsafe { self.page.as_ref() }
    }

    pub(super) fn as_ptr(self) -> *mut Page {
        self.page.as_ptr()
    }

    fn part<T>(self, offset: usize, len: usize) -> &'g [T] {
        // SAFETY: `offset` and `len` come from the page's shape; all parts were written by
        // `create` and are atomics, or bytes that never change.
        unsafe {
            let first = self.page.as_ptr().cast::<u8>().add(offset).cast::<T>();
            std::slice::from_raw_parts(first, len)
        }
    }

    pub(super) fn capacity(self) -> usize {
        self.header().capacity as usize
    }

    /// Number of published slots.
    #[inline]
    pub(super) fn len(self) -> usize {
        // Pairs with the Release of `append`: tags and heads below it are visible.
        self.header().length.load(Ordering::Acquire) as usize
    }

    /// The lowest key that belongs here; empty for the first page.
    pub(super) fn low(self) -> &'g [u8] {
        let len = self.header().low_len as usize;
        self.part(Shape::of(self.capacity(), len).low, len)
    }

    fn tags(self) -> &'g [AtomicU64] {
        let capacity = self.capacity();
        self.part(Shape::of(capacity, 0).tags, capacity / 8)
    }

    pub(super) fn heads(self) -> &'g [AtomicPtr<Record>] {
        let capacity = self.capacity();
        self.part(Shape::of(capacity, 0).heads, capacity)
    }

    /// The newest record of a published slot.
    #[inline]
    pub(super) fn head(self, slot: usize) -> &'g Record {
        // Pairs with the Release of the writer's stores: the record's contents are visible.
        let record = self.heads()[slot].load(Ordering::Acquire);
        // SAFETY: a published slot is never empty; its record is released a grace period after it
        // was unlinked, and it was unlinked after this page was found under a pin.
        unsafe { &*record }
    }

    /// The slot of a key. `hash` is the hash as records keep it.
    #[inline]
    pub(super) fn find(self, key: &[u8], hash: u32) -> Option<usize> {
        let len = self.len();
        let pattern = LOW_BITS.wrapping_mul(u64::from(tag(hash)));
        for (word, tags) in self.tags()[..len.div_ceil(8)].iter().enumerate() {
            // Relaxed: tags of slots below the length came with it.
            let differences = tags.load(Ordering::Relaxed) ^ pattern;
            // The high bit of each byte that is zero. Above the lowest such byte there may be false
            // hits, which the comparison of keys sorts out.
            let mut matches = differences.wrapping_sub(LOW_BITS) & !differences & HIGH_BITS;
            while matches != 0 {
                let slot = word * 8 + matches.trailing_zeros() as usize / 8;
                if slot >= len {
                    break;
                }
                let record = self.head(slot);
                if record.hash() == hash && record.key() == key {
                    return Some(slot);
                }
                matches &= matches - 1;
            }
        }
        None
    }

    /// Publishes a record of a new key in the next slot. Writer only; the page is not full.
    pub(super) fn append(self, record: *mut Record) {
        let slot = self.header().length.load(Ordering::Relaxed) as usize;
        self.heads()[slot].store(record, Ordering::Release);
        // SAFETY: the caller passes a live record.
        let tag = u64::from(tag(unsafe { (*record).hash() }));
        let word = &self.tags()[slot / 8];
        let tags = word.load(Ordering::Relaxed) | tag << (slot % 8 * 8);
        word.store(tags, Ordering::Relaxed);
        // Pairs with the Acquire of `len`.
        self.header()
            .length
            .store(slot as u32 + 1, Ordering::Release);
    }

    /// The published slots in order of their keys.
    pub(super) fn sorted(self, guard: &Guard) -> Sorted<'g> {
        let sorted = self.sorted_beside(self.order());
        if sorted.inserted.len() <= UNSORTED_MAX && sorted.is_whole {
            return sorted;
        }
        self.publish_order(sorted.slots(), guard);
        // Our order, or one that another cursor has offered: with its heads the search is short.
        self.sorted_beside(self.order())
    }

    /// The published slots in order, without renewing the page's order: for a caller that reads
    /// them once, and then retires the page.
    pub(super) fn sorted_once(self) -> Sorted<'g> {
        self.sorted_beside(self.order())
    }

    /// The published slots in order of their keys; `known` has the order of a part of them.
    fn sorted_beside(self, known: Option<Order<'g>>) -> Sorted<'g> {
        let known_len = known.map_or(0, Order::len);
        // The order may be newer than our length: it then has slots that `len` does not count but
        // that are published.
        let len = self.len().max(known_len);
        let mut sorted = Sorted {
            slots: [0; SLOTS_MAX],
            len,
            known,
            inserted: SmallVec::new(),
            is_whole: true,
        };
        if len - known_len > INSERTED_MAX || (known_len == 0 && len > 1) {
            sorted.known = None;
            sorted.is_whole = false;
            self.sort_all(&mut sorted.slots[..len]);
            return sorted;
        }
        if let Some(known) = known {
            let slots = sorted.slots.iter_mut().zip(known.slots());
            slots.for_each(|(slot, known)| *slot = known);
        }
        for slot in known_len..len {
            let key = self.head(slot).key();
            let at = sorted.count_below(self, key);
            sorted.slots.copy_within(at..slot, at + 1);
            sorted.slots[at] = slot as u8;
            sorted.inserted.push(key);
        }
        sorted
    }

    /// Sorts all slots below `slots.len()`.
    fn sort_all(self, slots: &mut [u8]) {
        // Keys side by side: one cache miss for each record, not one for each comparison.
        let mut keys: [(&[u8], u8); SLOTS_MAX] = [(&[], 0); SLOTS_MAX];
        let keys = &mut keys[..slots.len()];
        for (slot, key) in keys.iter_mut().enumerate() {
            *key = (self.head(slot).key(), slot as u8);
        }
        keys.sort_unstable();
        for (slot, key) in slots.iter_mut().zip(keys) {
            *slot = key.1;
        }
    }

    fn order(self) -> Option<Order<'g>> {
        let order = self.header().order.load(Ordering::Acquire);
        // SAFETY: it is freed a grace period after it was replaced, or with the page.
        unsafe { Order::at(order) }
    }

    /// Offers an order to the page. Cursors race here; one wins, nobody waits.
    fn publish_order(self, slots: &[u8], guard: &Guard) {
        let old = self.order();
        if old.is_some_and(|old| old.len() >= slots.len()) {
            return;
        }
        let old = old.map_or(ptr::null_mut(), Order::as_ptr);
        let new = Order::create(slots, |slot| self.head(slot.into()).key());
        // Release: the words are visible to a thread that loads the pointer. A grown page starts
        // with no order instead of inheriting this one: a late cursor may still replace it here.
        let exchanged =
            self.header()
                .order
                .compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed);
        match exchanged {
            // SAFETY: the exchange unlinked it, and it is freed once.
            Ok(old) => unsafe { reclaim::defer(guard, move || Order::free(old)) },
            // SAFETY: never published.
            Err(_) => unsafe { Order::free(new) },
        }
    }

    /// The bytes that the allocator holds for the page, an order of full length included.
    pub(super) fn memory_bytes(self) -> usize {
        let shape = Shape::of(self.capacity(), self.header().low_len as usize);
        allocated_bytes(shape.layout.size()) + allocated_bytes(order::bytes_max(self.capacity()))
    }

    /// Frees the page, not its records.
    ///
    /// # Safety
    /// Nobody can reach the page any more, and it is freed once.
    pub(super) unsafe fn free(self) {
        let shape = Shape::of(self.capacity(), self.header().low_len as usize);
        let order = self.header().order.load(Ordering::Acquire);
        // SAFETY: the caller ensures it; the layout is that of `create`, and atomics need no drop.
        unsafe {
            Order::free(order);
            dealloc(self.page.as_ptr().cast(), shape.layout);
        }
    }

    /// Frees the page once all pins of this moment are gone.
    ///
    /// # Safety
    /// No reader that pins from now on can reach the page, and it is freed once.
    pub(super) unsafe fn free_later(self, guard: &Guard) {
        let page = PageRef {
            page: self.page,
            lifetime: PhantomData,
        };
        // SAFETY: the caller ensures it; a page may be freed on any thread.
        unsafe { reclaim::defer(guard, move || page.free()) };
    }
}

/// The slots of a page as a cursor found them.
pub(super) struct Sorted<'g> {
    slots: [u8; SLOTS_MAX],
    len: usize,
    /// The part that the page's order has, and the keys of the other slots.
    known: Option<Order<'g>>,
    inserted: SmallVec<[&'g [u8]; UNSORTED_MAX]>,
    /// Whether `known` and `inserted` are all slots.
    is_whole: bool,
}

impl<'g> Sorted<'g> {
    /// The slots of no page.
    pub(super) fn empty() -> Sorted<'g> {
        Sorted {
            slots: [0; SLOTS_MAX],
            len: 0,
            known: None,
            inserted: SmallVec::new(),
            is_whole: true,
        }
    }

    /// Slot numbers in order of their keys.
    #[inline]
    pub(super) fn slots(&self) -> &[u8] {
        &self.slots[..self.len]
    }

    /// The number of keys below `key`. `page` is the page that the slots were found in.
    #[inline]
    pub(super) fn count_below(&self, page: PageRef<'g>, key: &[u8]) -> usize {
        let key_of = |slot: u8| page.head(slot.into()).key();
        if !self.is_whole {
            return self.slots().partition_point(|&slot| key_of(slot) < key);
        }
        let known = self.known.map_or(0, |known| known.count_below(key, key_of));
        known + self.inserted.iter().filter(|own| **own < key).count()
    }
}
