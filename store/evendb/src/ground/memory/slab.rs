#![expect(unsafe_code, reason = "an allocator")]
//! Slabs: memory for the most frequent objects of a database, records of deltas and pages of munks.
//!
//! ```text
//! region, 4 MiB     | headers, 64 KiB | slab 1, 64 KiB | slab 2 | ... | slab 63 |
//! slab              | object | object | object, free | ... | never used ...  |   all of one class
//! free object       | next | discarded |
//! ```
//!
//! Why not the general allocator: objects of a thousand sizes, made by one thread and freed by
//! another, leave holes that it neither fills nor returns. Measured with glibc, 1 GiB of budget:
//! 300 to 500 MiB of holes. Here an object goes into a hole of its class before new memory is
//! touched, a slab without objects is given back, and [`trim`] gives back the pages inside of
//! holes. So the resident bytes are known exactly: [`resident_bytes`].
//!
//! Classes: multiples of 16 up to 128 bytes, then eight for each doubling, up to 32 KiB; a larger
//! object goes to the general allocator, which maps it alone, or nearly so. Memory that was never
//! used is not resident.
//!
//! Thread safety: a lock for each class, held for the change of a few words, and one for empty
//! slabs; a lock of a class may be held when the lock for empty slabs is taken. Leaves: nothing
//! else is locked under them. One pool for the process: objects outlive databases. In models, and
//! with the feature `general-allocator`, which is for sanitizers and Miri, the general allocator
//! serves everything.

use evendb_storage::heap;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

const ALIGN: usize = 16;
/// Bytes of the largest object of a slab.
const OBJECT_BYTES_MAX: usize = 32 << 10;

/// Bytes that an object of `bytes` takes.
pub(crate) fn size_of_object(bytes: usize) -> usize {
    match class_of(bytes) {
        Some(class) => class_bytes(class),
        None => super::allocated_bytes(bytes),
    }
}

/// The class of objects of `bytes`; `None` if they are too large for slabs.
#[inline]
fn class_of(bytes: usize) -> Option<usize> {
    if bytes <= 128 {
        return Some(bytes.saturating_sub(1) / 16);
    }
    if bytes > OBJECT_BYTES_MAX {
        return None;
    }
    // Eight steps between two powers of two.
    let power = (bytes - 1).ilog2();
    let step = (bytes - 1) >> (power - 3) & 7;
    Some((power as usize - 6) * 8 + step)
}

#[inline]
fn class_bytes(class: usize) -> usize {
    if class < 8 {
        return (class + 1) * 16;
    }
    let power = class / 8 + 6;
    (8 + class % 8 + 1) << (power - 3)
}

const CLASSES: usize = 72;

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes.max(1), ALIGN).expect("below half of the address space")
}

fn general(bytes: usize) -> NonNull<u8> {
    heap::expect(bytes);
    let layout = layout(bytes);
    // SAFETY: the size is not zero.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

/// The class of an object's slab; `None` if the general allocator serves it.
#[inline]
fn slab_class(bytes: usize) -> Option<usize> {
    match cfg!(feature = "general-allocator") {
        true => None,
        false => class_of(bytes),
    }
}

/// Memory for `bytes` bytes, aligned to 16, uninitialized.
pub(crate) fn allocate(bytes: usize) -> NonNull<u8> {
    match slab_class(bytes) {
        #[cfg(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle))))]
        Some(class) => slabs::allocate(class).unwrap_or_else(|| handle_alloc_error(layout(bytes))),
        _ => general(bytes),
    }
}

/// Gives memory back.
///
/// # Safety
/// `object` came from [`allocate`] with the same number of bytes, and is no longer used.
pub(crate) unsafe fn free(object: NonNull<u8>, bytes: usize) {
    match slab_class(bytes) {
        #[cfg(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle))))]
        // SAFETY: the caller ensures it.
        Some(class) => unsafe { slabs::free(object, class) },
        // SAFETY: as above; `allocate` used the same layout.
        _ => unsafe { dealloc(object.as_ptr(), layout(bytes)) },
    }
}

/// Bytes of slabs that are resident but not used by an object: holes, and slabs kept for the next
/// objects.
pub(crate) fn slack_bytes() -> u64 {
    #[cfg(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle))))]
    return slabs::slack_bytes();
    #[cfg(not(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle)))))]
    0
}

/// Gives back empty slabs, and pages inside of holes, until at most `slack_max` bytes are resident
/// without an object, or there is nothing more to give.
pub(crate) fn trim(slack_max: u64) {
    #[cfg(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle))))]
    slabs::trim(slack_max);
    #[cfg(not(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle)))))]
    let _ = slack_max;
}

/// Bytes of holes too small to have a page of their own. [`trim`] cannot give them back: they come
/// back only with the whole slab.
pub(crate) fn small_holes_bytes() -> u64 {
    #[cfg(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle))))]
    return slabs::small_holes_bytes();
    #[cfg(not(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle)))))]
    0
}

/// Whether at least a quarter of the places in the slab of an object of `bytes` bytes are holes. If
/// many slabs are sparse, objects that are copied into new ones fill the holes of few slabs and
/// leave others empty.
///
/// # Safety
/// `object` came from [`allocate`] with the same number of bytes, and was not freed.
pub(crate) unsafe fn is_sparse(object: NonNull<u8>, bytes: usize) -> bool {
    match slab_class(bytes) {
        #[cfg(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle))))]
        // SAFETY: the caller ensures it.
        Some(class) => unsafe { slabs::is_sparse(object, class) },
        _ => {
            let _ = object;
            false
        }
    }
}

/// While it lives, this number of bytes more of empty slabs stays resident for the next objects:
/// memory that is freed and taken again many times a second costs a page fault every 4 KiB.
/// [`trim`] gives them back all the same, also for another database of the process.
pub(crate) struct KeepWarm(usize);

impl KeepWarm {
    pub(crate) fn new(bytes: u64) -> KeepWarm {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX / 4);
        #[cfg(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle))))]
        slabs::keep_warm(bytes as isize);
        KeepWarm(bytes)
    }
}

impl Drop for KeepWarm {
    fn drop(&mut self) {
        #[cfg(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle))))]
        slabs::keep_warm(-(self.0 as isize));
    }
}

#[cfg(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle))))]
mod slabs {
    use super::{CLASSES, class_bytes};
    use crate::fork;
    use crate::sync::Mutex;
    use std::cell::Cell;
    use std::iter;
    use std::ptr::{self, NonNull};
    use std::sync::atomic::{AtomicI64, AtomicIsize, Ordering};

    const SLAB_BYTES: usize = 64 << 10;
    /// Smaller under Miri, whose accesses get slower with the memory that a region has used.
    const REGION_BYTES: usize = if cfg!(miri) { 512 << 10 } else { 4 << 20 };
    const SLABS: usize = REGION_BYTES / SLAB_BYTES;
    const PAGE_BYTES: usize = 4096;
    /// The number of slabs that are trimmed while the lock of their class is held.
    const TRIMMED_AT_ONCE: usize = 4;
    /// The least bytes of empty slabs that stay resident.
    const WARM_BYTES_MIN: isize = 4 << 20;

    /// Header of a slab, in the first slab of its region. It lives for ever.
    #[derive(Default)]
    #[repr(C, align(64))]
    struct Slab {
        /// The list of freed objects.
        free: Cell<Option<NonNull<Hole>>>,
        /// Neighbours among the class's slabs that have room.
        previous: Cell<Option<&'static Slab>>,
        next: Cell<Option<&'static Slab>>,
        class: Cell<u32>,
        used: Cell<u32>,
        /// The number of objects that have been used; behind them nothing is resident.
        touched: Cell<u32>,
        listed: Cell<bool>,
        /// Whether the whole pages of every hole have been given back.
        trimmed: Cell<bool>,
        /// Bytes that are resident although no object has touched them since the slab was empty.
        warm_bytes: Cell<u32>,
    }

    // SAFETY: the cells of a slab with objects are read and written only under the lock of its
    // class. The cells of an empty slab belong to the thread that took it from a list under a lock,
    // until it is in a list again.
    unsafe impl Sync for Slab {}

    /// The first bytes of a free object.
    #[repr(C)]
    struct Hole {
        next: Option<NonNull<Hole>>,
        /// Bytes inside of the hole that were given back.
        discarded: Cell<usize>,
    }

    /// The slabs of one class that have room; the number of slabs, and of objects in them.
    struct Class {
        first: Option<&'static Slab>,
        slabs: usize,
        objects: usize,
    }

    struct Empty {
        /// Resident slabs; they are taken first.
        warm: Vec<&'static Slab>,
        cold: Vec<&'static Slab>,
    }

    #[expect(clippy::declare_interior_mutable_const, reason = "to fill an array")]
    const NEW: Mutex<Class> = Mutex::new(Class {
        first: None,
        slabs: 0,
        objects: 0,
    });
    static BY_CLASS: [Mutex<Class>; CLASSES] = [NEW; CLASSES];
    static EMPTY: Mutex<Empty> = Mutex::new(Empty {
        warm: Vec::new(),
        cold: Vec::new(),
    });
    /// Bytes of slabs that were touched and not given back, and bytes of objects.
    static RESIDENT: AtomicI64 = AtomicI64::new(0);
    static USED: AtomicI64 = AtomicI64::new(0);

    /// Bytes of empty slabs that stay resident.
    static WARM_BYTES_MAX: AtomicIsize = AtomicIsize::new(WARM_BYTES_MIN);

    /// Changes the number of bytes that stay resident. A surplus is given back at once.
    pub(super) fn keep_warm(more: isize) {
        // Relaxed: a slab that is kept too long does no harm.
        WARM_BYTES_MAX.fetch_add(more, Ordering::Relaxed);
        loop {
            let mut empty = EMPTY.lock();
            if empty.warm.len() <= slabs_of(WARM_BYTES_MAX.load(Ordering::Relaxed)) {
                return;
            }
            let slab = empty.warm.pop();
            drop(empty);
            if let Some(slab) = slab {
                discard_slab(slab);
                EMPTY.lock().cold.push(slab);
            }
        }
    }

    fn slabs_of(bytes: isize) -> usize {
        bytes.max(WARM_BYTES_MIN) as usize / SLAB_BYTES
    }

    fn count(gauge: &AtomicI64, bytes: i64) {
        gauge.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn slack_bytes() -> u64 {
        let slack = RESIDENT.load(Ordering::Relaxed) - USED.load(Ordering::Relaxed);
        slack.max(0) as u64
    }

    pub(super) fn small_holes_bytes() -> u64 {
        let small = (0..CLASSES).take_while(|&class| class_bytes(class) <= PAGE_BYTES);
        small.map(holes_of).sum::<usize>() as u64
    }

    /// Bytes of the class's slabs that no object uses.
    pub(super) fn holes_of(class: usize) -> usize {
        let list = BY_CLASS[class].lock();
        let room = list.slabs * (SLAB_BYTES / class_bytes(class));
        (room - list.objects) * class_bytes(class)
    }

    /// # Safety
    /// As [`super::is_sparse`].
    pub(super) unsafe fn is_sparse(object: NonNull<u8>, class: usize) -> bool {
        let objects_max = SLAB_BYTES / class_bytes(class);
        // SAFETY: the caller ensures it.
        let slab = unsafe { slab_of(object) };
        let _list = BY_CLASS[class].lock();
        (slab.used.get() as usize) < objects_max / 4 * 3
    }

    /// The header of the slab that holds `object`.
    ///
    /// # Safety
    /// The object was allocated here, and was not freed.
    #[inline]
    unsafe fn slab_of(object: NonNull<u8>) -> &'static Slab {
        let address = object.addr().get();
        let number = address % REGION_BYTES / SLAB_BYTES;
        let headers = address - address % REGION_BYTES;
        let slab = ptr::with_exposed_provenance::<Slab>(headers + number * size_of::<Slab>());
        // SAFETY: objects lie in regions, whose headers `add_region` wrote, and which are never
        // unmapped.
        unsafe { &*slab }
    }

    impl Slab {
        /// The address of the slab's first byte.
        #[inline]
        fn start(&self) -> usize {
            let address = ptr::from_ref(self).addr();
            let number = address % REGION_BYTES / size_of::<Slab>();
            address - address % REGION_BYTES + number * SLAB_BYTES
        }

        /// The slab's holes, while it is guarded like its cells.
        fn holes(&self) -> impl Iterator<Item = &Hole> {
            // SAFETY: holes were written by `free`, and belong to no thread until `allocate` takes
            // them from the list.
            let hole = |hole: NonNull<Hole>| unsafe { hole.as_ref() };
            iter::successors(self.free.get().map(hole), move |last| last.next.map(hole))
        }
    }

    pub(super) fn allocate(class: usize) -> Option<NonNull<u8>> {
        let bytes = class_bytes(class);
        let mut list = BY_CLASS[class].lock();
        let slab = match list.first {
            Some(slab) => slab,
            None => {
                let slab = take_empty(class)?;
                list.push(slab);
                list.slabs += 1;
                slab
            }
        };
        list.objects += 1;
        slab.used.set(slab.used.get() + 1);
        let object = match slab.free.get() {
            None => {
                let touched = slab.touched.get();
                slab.touched.set(touched + 1);
                // Memory that the slab's last life left resident is counted already.
                let known = (slab.warm_bytes.get() as usize).min(bytes);
                slab.warm_bytes.set(slab.warm_bytes.get() - known as u32);
                count(&RESIDENT, (bytes - known) as i64);
                let object = slab.start() + touched as usize * bytes;
                NonNull::new(ptr::with_exposed_provenance_mut(object))
            }
            Some(hole) => {
                // SAFETY: as in `holes`.
                let Hole { next, discarded } = unsafe { hole.read() };
                slab.free.set(next);
                if discarded.get() > 0 {
                    count(&RESIDENT, discarded.get() as i64);
                }
                Some(hole.cast())
            }
        };
        if slab.free.get().is_none() && slab.touched.get() as usize == SLAB_BYTES / bytes {
            list.remove(slab);
        }
        count(&USED, bytes as i64);
        object
    }

    /// # Safety
    /// As [`super::free`].
    pub(super) unsafe fn free(object: NonNull<u8>, class: usize) {
        if fork::is_child() {
            // In a forked child the value is the parent's, and a thread that exists only there may
            // hold the lock.
            return;
        }
        // SAFETY: the caller ensures it.
        let slab = unsafe { slab_of(object) };
        let mut list = BY_CLASS[class].lock();
        count(&USED, -(class_bytes(class) as i64));
        list.objects -= 1;
        debug_assert_eq!(slab.class.get() as usize, class, "freed with its size");
        let hole = object.cast::<Hole>();
        // SAFETY: nobody uses the object's bytes any more; no class is smaller, or aligned to less,
        // than a hole.
        unsafe {
            hole.write(Hole {
                next: slab.free.get(),
                discarded: Cell::new(0),
            });
        }
        slab.free.set(Some(hole));
        slab.trimmed.set(false);
        slab.used.set(slab.used.get() - 1);
        if !slab.listed.get() {
            list.push(slab);
        }
        let is_empty = slab.used.get() == 0;
        if is_empty {
            list.remove(slab);
            list.slabs -= 1;
        }
        drop(list);
        if is_empty {
            give_back(slab);
        }
    }

    impl Class {
        fn push(&mut self, slab: &'static Slab) {
            slab.previous.set(None);
            slab.next.set(self.first);
            slab.listed.set(true);
            if let Some(first) = self.first {
                first.previous.set(Some(slab));
            }
            self.first = Some(slab);
        }

        fn remove(&mut self, slab: &'static Slab) {
            let (previous, next) = (slab.previous.get(), slab.next.get());
            match previous {
                None => self.first = next,
                Some(previous) => previous.next.set(next),
            }
            if let Some(next) = next {
                next.previous.set(previous);
            }
            slab.listed.set(false);
        }
    }

    /// An empty slab for this class; `None` if the system gives no memory.
    fn take_empty(class: usize) -> Option<&'static Slab> {
        let mut empty = EMPTY.lock();
        let slab = match empty.warm.pop().or_else(|| empty.cold.pop()) {
            Some(slab) => slab,
            None => {
                empty.add_region()?;
                empty.cold.pop()?
            }
        };
        drop(empty);
        slab.class.set(class as u32);
        slab.used.set(0);
        slab.touched.set(0);
        slab.free.set(None);
        Some(slab)
    }

    impl Empty {
        fn add_region(&mut self) -> Option<()> {
            let region = system::map_region()?;
            // Exposed for `slab_of` and `Slab::start`.
            let _ = region.expose_provenance();
            for number in (1..SLABS).rev() {
                // SAFETY: within the region's first slab, which holds the headers, and which no
                // other thread has.
                let slab = unsafe {
                    let slab = region.cast::<Slab>().add(number);
                    slab.write(Slab::default());
                    slab.as_ref()
                };
                self.cold.push(slab);
            }
            Some(())
        }
    }

    /// Takes back a slab that lost its last object. It is in no list.
    fn give_back(slab: &'static Slab) {
        // Discarded bytes of its holes count as resident from here on: they will be resident when
        // the slab is used.
        let discarded: usize = slab.holes().map(|hole| hole.discarded.get()).sum();
        count(&RESIDENT, discarded as i64);
        let touched = slab.touched.get() * class_bytes(slab.class.get() as usize) as u32;
        slab.warm_bytes.set(slab.warm_bytes.get() + touched);
        let mut empty = EMPTY.lock();
        if empty.warm.len() < slabs_of(WARM_BYTES_MAX.load(Ordering::Relaxed)) {
            empty.warm.push(slab);
            return;
        }
        drop(empty);
        discard_slab(slab);
        EMPTY.lock().cold.push(slab);
    }

    /// Gives the memory of an empty slab, which only this thread has, to the system.
    fn discard_slab(slab: &'static Slab) {
        // SAFETY: nobody uses the slab's bytes.
        unsafe { system::discard(slab.start(), SLAB_BYTES) };
        count(&RESIDENT, -i64::from(slab.warm_bytes.replace(0)));
    }

    pub(super) fn trim(slack_max: u64) {
        while slack_bytes() > slack_max {
            let Some(slab) = EMPTY.lock().warm.pop() else {
                break;
            };
            discard_slab(slab);
            EMPTY.lock().cold.push(slab);
        }
        // The largest class first: this takes the fewest calls.
        for class in (0..CLASSES).rev() {
            if slack_bytes() <= slack_max || class_bytes(class) <= PAGE_BYTES {
                break;
            }
            while slack_bytes() > slack_max && trim_class(class) {}
        }
    }

    /// Gives back the whole pages inside of the holes of some of a class's slabs, and returns
    /// whether there was a slab to look at. It takes only some slabs, because puts and reads may
    /// wait for the lock meanwhile.
    fn trim_class(class: usize) -> bool {
        let list = BY_CLASS[class].lock();
        let slabs = iter::successors(list.first, |slab| slab.next.get());
        let untrimmed = slabs.filter(|slab| !slab.trimmed.replace(true));
        let mut has_looked = false;
        for slab in untrimmed.take(TRIMMED_AT_ONCE) {
            slab.holes().for_each(|hole| trim_hole(hole, class));
            has_looked = true;
        }
        has_looked
    }

    /// Gives back the whole pages inside of a hole that still has them.
    fn trim_hole(hole: &Hole, class: usize) {
        let start = ptr::from_ref(hole).addr();
        let from = (start + size_of::<Hole>()).next_multiple_of(PAGE_BYTES);
        let to = (start + class_bytes(class)) / PAGE_BYTES * PAGE_BYTES;
        if hole.discarded.get() == 0 && to > from {
            // SAFETY: the pages lie behind the hole's own words and within the object, which nobody
            // uses.
            unsafe { system::discard(from, to - from) };
            hole.discarded.set(to - from);
            count(&RESIDENT, -((to - from) as i64));
        }
    }

    /// Memory of the system.
    #[cfg(not(miri))]
    mod system {
        use super::REGION_BYTES;
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        use std::ptr::{self, NonNull};

        /// An aligned region, all zeros, with nothing resident. `None` if there is none.
        pub(super) fn map_region() -> Option<NonNull<u8>> {
            // Mapping twice the bytes ensures that there is an aligned region inside. Only used
            // memory becomes resident; the address space is not given back.
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new mapping, which nobody else has.
            let mapped =
                unsafe { mmap_anonymous(ptr::null_mut(), 2 * REGION_BYTES, access, flags) }.ok()?;
            let mapped = mapped.cast::<u8>();
            NonNull::new(mapped.wrapping_add(mapped.align_offset(REGION_BYTES)))
        }

        /// Gives whole pages back.
        ///
        /// # Safety
        /// They belong to a region, and their content is not needed any more.
        pub(super) unsafe fn discard(address: usize, bytes: usize) {
            let pages = ptr::with_exposed_provenance_mut(address);
            // SAFETY: the caller ensures it.
            let _ = unsafe { madvise(pages, bytes, Advice::LinuxDontNeed) };
        }
    }

    /// Miri, which does not know such calls, takes a region from the general allocator.
    #[cfg(miri)]
    mod system {
        use super::{PAGE_BYTES, REGION_BYTES};
        use std::alloc::{Layout, alloc};
        use std::mem::MaybeUninit;
        use std::ptr::{self, NonNull};

        pub(super) fn map_region() -> Option<NonNull<u8>> {
            let layout = Layout::from_size_align(REGION_BYTES, REGION_BYTES).ok()?;
            // SAFETY: the size is not zero.
            NonNull::new(unsafe { alloc(layout) })
        }

        /// A read of these pages before they are written again reads uninitialised memory.
        ///
        /// # Safety
        /// The same as for the other `discard`.
        pub(super) unsafe fn discard(address: usize, bytes: usize) {
            for page in (address..address + bytes).step_by(PAGE_BYTES) {
                let page = ptr::with_exposed_provenance_mut::<MaybeUninit<[u8; PAGE_BYTES]>>(page);
                // SAFETY: the caller ensures it.
                unsafe { page.write(MaybeUninit::uninit()) };
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn classes_cover_all_sizes_without_much_waste() {
        for bytes in (1..=OBJECT_BYTES_MAX).step_by(if cfg!(miri) { 37 } else { 1 }) {
            let class = class_of(bytes).expect("small enough");
            assert!(class < CLASSES);
            let size = class_bytes(class);
            assert!(size >= bytes && size.is_multiple_of(ALIGN));
            assert!(size <= bytes + (bytes / 8).max(15), "{bytes} in {size}");
            assert_eq!(class_of(size), Some(class));
        }
        assert_eq!(class_bytes(CLASSES - 1), OBJECT_BYTES_MAX);
        assert_eq!(class_of(OBJECT_BYTES_MAX + 1), None);
    }

    /// An object that is filled with one byte, which is checked when it is freed.
    struct Object {
        start: NonNull<u8>,
        bytes: usize,
        fill: u8,
    }

    // SAFETY: only this value has it, and any thread may free what another allocated.
    unsafe impl Send for Object {}

    impl Object {
        fn new(bytes: usize, fill: u8) -> Object {
            let start = allocate(bytes);
            assert!(start.addr().get().is_multiple_of(ALIGN));
            // SAFETY: the allocation has this number of bytes.
            unsafe { start.write_bytes(fill, bytes) };
            Object { start, bytes, fill }
        }

        fn is_sparse(&self) -> bool {
            // SAFETY: it lives.
            unsafe { is_sparse(self.start, self.bytes) }
        }
    }

    impl Drop for Object {
        fn drop(&mut self) {
            // SAFETY: written when it was made, and freed here alone.
            unsafe {
                let all = std::slice::from_raw_parts(self.start.as_ptr(), self.bytes);
                let is_whole = *all == *vec![self.fill; self.bytes];
                free(self.start, self.bytes);
                assert!(is_whole, "somebody else wrote to {} bytes", self.bytes);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 64 }))]
        #[test]
        fn objects_keep_their_bytes(
            steps in prop::collection::vec(
                (any::<bool>(), 1usize..40_000, any::<u8>()),
                1..if cfg!(miri) { 60 } else { 400 },
            ),
            trim_every in 1usize..40,
        ) {
            let mut live: Vec<Object> = Vec::new();
            for (step, &(make, bytes, fill)) in steps.iter().enumerate() {
                if make || live.is_empty() {
                    live.push(Object::new(bytes, fill));
                } else {
                    live.swap_remove(bytes % live.len());
                }
                if step % trim_every == 0 {
                    trim(0);
                }
            }
        }
    }

    /// No other test makes objects of this class.
    #[test]
    #[cfg_attr(
        feature = "general-allocator",
        ignore = "the general allocator has no slabs"
    )]
    fn copies_of_sparse_objects_leave_slabs_empty() {
        const BYTES: usize = 3500;
        const OBJECTS: usize = if cfg!(miri) { 360 } else { 1800 };
        let holes = || slabs::holes_of(class_of(BYTES).expect("small"));
        let mut live: Vec<Object> = (0..OBJECTS).map(|_| Object::new(BYTES, 5)).collect();
        assert!(live.iter().filter(|object| object.is_sparse()).count() < 18);
        // A quarter of the objects stays, spread over all slabs.
        let mut number = 0;
        live.retain(|_| {
            number += 1;
            number % 4 == 0
        });
        let before = holes();
        assert!(before > OBJECTS * 13 / 18 * BYTES);
        let moved = live.iter_mut().filter(|object| object.is_sparse());
        // The copy is made first: otherwise it would fill the hole that the object left.
        let moved = moved.map(|object| *object = Object::new(BYTES, 6));
        assert!(moved.count() > OBJECTS / 6);
        assert!(holes() < before / 4, "{} of {before}", holes());
        assert!(live.iter().filter(|object| object.is_sparse()).count() < 36);
        drop(live);
        assert!(holes() <= 64 << 10);
    }

    #[test]
    fn threads_free_what_others_made() {
        const OBJECTS: usize = if cfg!(miri) { 50 } else { 3000 };
        let (send, receive) = std::sync::mpsc::channel::<Object>();
        let freeing = std::thread::spawn(move || receive.into_iter().for_each(drop));
        let makers: Vec<_> = (0..3)
            .map(|maker| {
                let send = send.clone();
                std::thread::spawn(move || {
                    for n in 0..OBJECTS {
                        let object = Object::new(100 + (n * 37 + maker * 11) % 9000, 7);
                        let _ = send.send(object);
                    }
                })
            })
            .collect();
        drop(send);
        for maker in makers {
            maker.join().expect("no panic");
        }
        freeing.join().expect("no panic");
    }
}
