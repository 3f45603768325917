#![expect(unsafe_code, reason = "an allocator")]
//! Slabs: memory for what a database holds most of, records of deltas and pages of munks.
//!
//! ```text
//! region, 4 MiB     | headers, 64 KiB | slab 1, 64 KiB | slab 2 | ... | slab 63 |
//! slab              | object | object | object, free | ... | never used ...  |   all of one class
//! free object       | next | discarded |
//! ```
//!
//! Why not the general allocator: objects of a thousand sizes, made by one thread and freed by
//! another, leave holes that it neither fills nor returns. Measured with glibc, 1 GiB of budget: 300
//! to 500 MiB of holes. Here an object goes into a hole of its class before anything new is touched,
//! a slab without objects is given back, and [`trim`] gives back the pages inside of holes. So what is
//! resident is known exactly: [`resident_bytes`].
//!
//! Classes: multiples of 16 up to 128 bytes, then eight to a doubling, up to 32 KiB; a larger object
//! goes to the general allocator, which maps it alone, or nearly so. Memory that was never used is not
//! resident.
//!
//! Thread safety: a lock per class, held for the change of a few words, and one for empty slabs; the
//! former may be held when the latter is taken. Leaves: nothing else is locked under them. One pool for
//! the process: objects outlive databases. In models, under Miri, and with the feature
//! `general-allocator`, which is for other sanitizers, the general allocator serves all.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

const ALIGN: usize = 16;
/// Largest object of a slab.
const OBJECT_BYTES_MAX: usize = 32 << 10;

/// Bytes that an object of `bytes` takes.
pub(crate) fn size_of_object(bytes: usize) -> usize {
    match class_of(bytes) {
        Some(class) => class_bytes(class),
        None => super::allocated_bytes(bytes),
    }
}

/// The class of objects of `bytes`; `None` for those too large for slabs.
#[inline]
fn class_of(bytes: usize) -> Option<usize> {
    if bytes <= 128 {
        return Some(bytes.saturating_sub(1) / 16);
    }
    if bytes > OBJECT_BYTES_MAX {
        return None;
    }
    // Between two powers of two: eight steps.
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
        #[cfg(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle, miri))))]
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
        #[cfg(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle, miri))))]
        // SAFETY: passed on to the caller.
        Some(class) => unsafe { slabs::free(object, class) },
        // SAFETY: as above; `allocate` used the same layout.
        _ => unsafe { dealloc(object.as_ptr(), layout(bytes)) },
    }
}

/// Bytes of slabs that are resident without being an object: holes, and slabs kept for the next.
pub(crate) fn slack_bytes() -> u64 {
    #[cfg(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle, miri))))]
    return slabs::slack_bytes();
    #[cfg(not(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle, miri)))))]
    0
}

/// Gives back empty slabs, and pages inside of holes, until at most `slack_max` bytes are resident
/// without an object, or there is nothing more to give.
pub(crate) fn trim(slack_max: u64) {
    #[cfg(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle, miri))))]
    slabs::trim(slack_max);
    #[cfg(not(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle, miri)))))]
    let _ = slack_max;
}

/// Bytes of holes too small to have a page of their own, which [`trim`] cannot give back: they come back only with the whole
/// slab.
pub(crate) fn small_holes_bytes() -> u64 {
    #[cfg(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle, miri))))]
    return slabs::small_holes_bytes();
    #[cfg(not(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle, miri)))))]
    0
}

/// Whether the slab of an object of `bytes` bytes has holes for a quarter of its objects or more. Where many slabs are so,
/// objects that are copied into new ones fill the holes of few slabs and leave others empty.
///
/// # Safety
/// `object` came from [`allocate`] with the same number of bytes, and was not freed.
pub(crate) unsafe fn is_sparse(object: NonNull<u8>, bytes: usize) -> bool {
    match slab_class(bytes) {
        #[cfg(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle, miri))))]
        // SAFETY: passed on to the caller.
        Some(class) => unsafe { slabs::is_sparse(object, class) },
        _ => {
            let _ = object;
            false
        }
    }
}

/// While it lives, empty slabs of so many bytes more stay resident for the next objects: memory that is freed
/// and taken again many times a second costs a page fault every 4 KiB. [`trim`] gives them back all the same, also for
/// another database of the process.
pub(crate) struct KeepWarm(usize);

impl KeepWarm {
    pub(crate) fn new(bytes: u64) -> KeepWarm {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX / 4);
        #[cfg(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle, miri))))]
        slabs::keep_warm(bytes as isize);
        KeepWarm(bytes)
    }
}

impl Drop for KeepWarm {
    fn drop(&mut self) {
        #[cfg(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle, miri))))]
        slabs::keep_warm(-(self.0 as isize));
    }
}

#[cfg(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle, miri))))]
mod slabs {
    use super::{CLASSES, class_bytes};
    use crate::fork;
    use crate::sync::Mutex;
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    use std::ptr::{self, NonNull};
    use std::sync::atomic::{AtomicI64, AtomicIsize, Ordering};

    const SLAB_BYTES: usize = 64 << 10;
    const REGION_BYTES: usize = 4 << 20;
    const SLABS: usize = REGION_BYTES / SLAB_BYTES;
    const PAGE_BYTES: usize = 4096;
    /// Slabs that are trimmed while the lock of their class is held.
    const TRIMMED_AT_ONCE: usize = 4;
    /// Bytes of empty slabs that are kept as they are, at least.
    const WARM_BYTES_MIN: isize = 4 << 20;

    /// Header of a slab, in the first slab of its region.
    #[repr(C, align(64))]
    struct Slab {
        /// Objects that were freed.
        free: *mut Hole,
        /// Neighbours among the class's slabs that have room.
        previous: *mut Slab,
        next: *mut Slab,
        class: u32,
        used: u32,
        /// Objects below this have been used; behind them nothing is resident.
        touched: u32,
        listed: bool,
        /// Whether the whole pages of every hole have been given back.
        trimmed: bool,
        /// Bytes that are resident although no object has touched them since the slab was empty.
        warm_bytes: u32,
    }

    /// The first bytes of a free object.
    #[repr(C)]
    struct Hole {
        next: *mut Hole,
        /// Bytes inside of it that were given back.
        discarded: usize,
    }

    /// The slabs of one class that have room; how many slabs there are, and objects in them.
    struct Class {
        first: *mut Slab,
        slabs: usize,
        objects: usize,
    }
    // SAFETY: the pointers lead to headers, which live for ever and are changed only under the lock
    // of their class.
    unsafe impl Send for Class {}

    struct Empty {
        /// Resident ones; taken first.
        warm: Vec<*mut Slab>,
        cold: Vec<*mut Slab>,
    }
    // SAFETY: an empty slab belongs to the thread that has this lock.
    unsafe impl Send for Empty {}

    #[expect(clippy::declare_interior_mutable_const, reason = "to fill an array")]
    const NEW: Mutex<Class> = Mutex::new(Class {
        first: ptr::null_mut(),
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

    /// Bytes of empty slabs that are kept as they are.
    static WARM_BYTES_MAX: AtomicIsize = AtomicIsize::new(WARM_BYTES_MIN);

    /// Changes how much is kept. What is too much now is given back at once.
    pub(super) fn keep_warm(more: isize) {
        // Relaxed: a slab kept too long does no harm.
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

    /// Bytes of the class's slabs that no object has.
    pub(super) fn holes_of(class: usize) -> usize {
        let list = BY_CLASS[class].lock();
        let room = list.slabs * (SLAB_BYTES / class_bytes(class));
        (room - list.objects) * class_bytes(class)
    }

    /// # Safety
    /// As [`super::is_sparse`].
    pub(super) unsafe fn is_sparse(object: NonNull<u8>, class: usize) -> bool {
        let objects_max = SLAB_BYTES / class_bytes(class);
        let _list = BY_CLASS[class].lock();
        // SAFETY: the object is in a live slab of this class, whose header the lock guards.
        let used = unsafe { (*slab_of(object)).used } as usize;
        used < objects_max / 4 * 3
    }

    /// The header of the slab that holds `object`.
    fn slab_of(object: NonNull<u8>) -> *mut Slab {
        let offset = object.as_ptr() as usize % REGION_BYTES;
        let region = object.as_ptr().wrapping_sub(offset);
        region.cast::<Slab>().wrapping_add(offset / SLAB_BYTES)
    }

    /// The first byte of a slab.
    fn start_of(slab: *mut Slab) -> *mut u8 {
        let offset = slab as usize % REGION_BYTES;
        let region = slab.cast::<u8>().wrapping_sub(offset);
        region.wrapping_add(offset / size_of::<Slab>() * SLAB_BYTES)
    }

    pub(super) fn allocate(class: usize) -> Option<NonNull<u8>> {
        let bytes = class_bytes(class);
        let mut list = BY_CLASS[class].lock();
        if list.first.is_null() {
            let slab = take_empty(class)?;
            list.push(slab);
            list.slabs += 1;
        }
        list.objects += 1;
        // SAFETY: listed slabs have live headers, are of this class and have room, all guarded by
        // the lock; an object lies within its slab, and a hole was written by `free`.
        unsafe {
            let slab = &mut *list.first;
            let object = if slab.free.is_null() {
                let object = start_of(slab).wrapping_add(slab.touched as usize * bytes);
                slab.touched += 1;
                // What the slab's last life left resident is counted already.
                let known = (slab.warm_bytes as usize).min(bytes);
                slab.warm_bytes -= known as u32;
                count(&RESIDENT, (bytes - known) as i64);
                object
            } else {
                let hole = slab.free;
                slab.free = (*hole).next;
                if (*hole).discarded > 0 {
                    count(&RESIDENT, (*hole).discarded as i64);
                }
                hole.cast()
            };
            slab.used += 1;
            if slab.free.is_null() && slab.touched as usize == SLAB_BYTES / bytes {
                list.remove(slab);
            }
            count(&USED, bytes as i64);
            NonNull::new(object)
        }
    }

    /// # Safety
    /// As [`super::free`].
    pub(super) unsafe fn free(object: NonNull<u8>, class: usize) {
        if fork::is_child() {
            // In a forked child the value is the parent's, and a thread that exists only there may hold
            // the lock.
            return;
        }
        let slab = slab_of(object);
        let mut list = BY_CLASS[class].lock();
        count(&USED, -(class_bytes(class) as i64));
        list.objects -= 1;
        // SAFETY: the object is in a live slab of this class, whose header the lock guards, and its
        // bytes are nobody's any more.
        let empty = unsafe {
            let slab = &mut *slab;
            debug_assert_eq!(slab.class as usize, class, "freed with its size");
            let hole = object.as_ptr().cast::<Hole>();
            hole.write(Hole {
                next: slab.free,
                discarded: 0,
            });
            slab.free = hole;
            slab.trimmed = false;
            slab.used -= 1;
            if !slab.listed {
                list.push(slab);
            }
            if slab.used == 0 {
                list.remove(slab);
                list.slabs -= 1;
            }
            slab.used == 0
        };
        drop(list);
        if empty {
            give_back(slab);
        }
    }

    impl Class {
        fn push(&mut self, slab: *mut Slab) {
            // SAFETY: header of a slab of this class, guarded by the caller's lock.
            unsafe {
                (*slab).previous = ptr::null_mut();
                (*slab).next = self.first;
                (*slab).listed = true;
                if !self.first.is_null() {
                    (*self.first).previous = slab;
                }
            }
            self.first = slab;
        }

        fn remove(&mut self, slab: *mut Slab) {
            // SAFETY: as in `push`, and its neighbours are listed too.
            unsafe {
                let (previous, next) = ((*slab).previous, (*slab).next);
                match previous.is_null() {
                    true => self.first = next,
                    false => (*previous).next = next,
                }
                if !next.is_null() {
                    (*next).previous = previous;
                }
                (*slab).listed = false;
            }
        }
    }

    /// An empty slab for this class; `None` if the system gives no memory.
    fn take_empty(class: usize) -> Option<*mut Slab> {
        let mut empty = EMPTY.lock();
        let slab = match empty.warm.pop().or_else(|| empty.cold.pop()) {
            Some(slab) => slab,
            None => {
                empty.add_region()?;
                empty.cold.pop()?
            }
        };
        drop(empty);
        // SAFETY: out of the list it is this thread's alone; its header was written by `add_region`.
        unsafe {
            (*slab).class = class as u32;
            (*slab).used = 0;
            (*slab).touched = 0;
            (*slab).free = ptr::null_mut();
        }
        Some(slab)
    }

    impl Empty {
        fn add_region(&mut self) -> Option<()> {
            // Mapping twice the bytes makes sure of an aligned region inside. Only what is used becomes
            // resident; the address space is not given back.
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new mapping, nobody else's.
            let mapped =
                unsafe { mmap_anonymous(ptr::null_mut(), 2 * REGION_BYTES, access, flags) }.ok()?;
            let mapped = mapped.cast::<u8>();
            let region = mapped.wrapping_add(mapped.align_offset(REGION_BYTES));
            for number in (1..SLABS).rev() {
                let slab = region.cast::<Slab>().wrapping_add(number);
                // SAFETY: within the region's first slab, which holds the headers.
                unsafe {
                    slab.write(Slab {
                        free: ptr::null_mut(),
                        previous: ptr::null_mut(),
                        next: ptr::null_mut(),
                        class: 0,
                        used: 0,
                        touched: 0,
                        listed: false,
                        trimmed: false,
                        warm_bytes: 0,
                    });
                }
                self.cold.push(slab);
            }
            Some(())
        }
    }

    /// A slab that lost its last object.
    fn give_back(slab: *mut Slab) {
        // SAFETY: it is in no list, so it is this thread's alone; its holes are its own.
        let touched = unsafe {
            let mut discarded = 0;
            let mut hole = (*slab).free;
            while !hole.is_null() {
                discarded += (*hole).discarded;
                hole = (*hole).next;
            }
            let touched = (*slab).touched as usize * class_bytes((*slab).class as usize);
            // Discarded bytes inside count as resident from here on: they will be, if it is used.
            count(&RESIDENT, discarded as i64);
            touched + (*slab).warm_bytes as usize
        };
        // SAFETY: as above.
        unsafe { (*slab).warm_bytes = touched as u32 };
        let mut empty = EMPTY.lock();
        if empty.warm.len() < slabs_of(WARM_BYTES_MAX.load(Ordering::Relaxed)) {
            empty.warm.push(slab);
            return;
        }
        drop(empty);
        discard_slab(slab);
        EMPTY.lock().cold.push(slab);
    }

    /// Gives the memory of an empty slab, which is this thread's alone, to the system.
    fn discard_slab(slab: *mut Slab) {
        // SAFETY: the slab's bytes are nobody's.
        unsafe {
            let _ = madvise(start_of(slab).cast(), SLAB_BYTES, Advice::LinuxDontNeed);
            count(&RESIDENT, -i64::from((*slab).warm_bytes));
            (*slab).warm_bytes = 0;
        }
    }

    pub(super) fn trim(slack_max: u64) {
        while slack_bytes() > slack_max {
            let Some(slab) = EMPTY.lock().warm.pop() else {
                break;
            };
            discard_slab(slab);
            EMPTY.lock().cold.push(slab);
        }
        // The largest first: the fewest calls.
        for class in (0..CLASSES).rev() {
            if slack_bytes() <= slack_max || class_bytes(class) <= PAGE_BYTES {
                break;
            }
            while slack_bytes() > slack_max && trim_class(class) {}
        }
    }

    /// Gives back the whole pages inside of the holes of some of a class's slabs; whether there was a
    /// slab to look at. Only of some, because puts and reads may wait for the lock meanwhile.
    fn trim_class(class: usize) -> bool {
        let bytes = class_bytes(class);
        let list = BY_CLASS[class].lock();
        let mut slab = list.first;
        let mut looked_at = 0;
        while !slab.is_null() && looked_at < TRIMMED_AT_ONCE {
            // SAFETY: listed slabs are guarded by the lock.
            unsafe {
                if std::mem::replace(&mut (*slab).trimmed, true) {
                    slab = (*slab).next;
                    continue;
                }
            }
            looked_at += 1;
            // SAFETY: listed slabs and their holes are guarded by the lock; the pages lie behind the
            // hole's own words and within the object, which is nobody's.
            unsafe {
                let mut hole = (*slab).free;
                while !hole.is_null() {
                    let start = hole.cast::<u8>();
                    let words = start as usize + size_of::<Hole>();
                    let from = words.next_multiple_of(PAGE_BYTES);
                    let to = (start as usize + bytes) / PAGE_BYTES * PAGE_BYTES;
                    if (*hole).discarded == 0 && to > from {
                        let pages = start.wrapping_add(from - start as usize);
                        let _ = madvise(pages.cast(), to - from, Advice::LinuxDontNeed);
                        (*hole).discarded = to - from;
                        count(&RESIDENT, -((to - from) as i64));
                    }
                    hole = (*hole).next;
                }
                slab = (*slab).next;
            }
        }
        looked_at > 0
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn classes_cover_all_sizes_without_much_waste() {
        for bytes in 1..=OBJECT_BYTES_MAX {
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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 64 }))]
        #[test]
        fn objects_keep_their_bytes(
            steps in prop::collection::vec((any::<bool>(), 1usize..40_000, any::<u8>()), 1..400),
            trim_every in 1usize..40,
        ) {
            let mut live: Vec<(NonNull<u8>, usize, u8)> = Vec::new();
            let check = |&(object, bytes, fill): &(NonNull<u8>, usize, u8)| {
                // SAFETY: live, and written when it was made.
                let all = unsafe { std::slice::from_raw_parts(object.as_ptr(), bytes) };
                assert!(all.iter().all(|&byte| byte == fill));
                // SAFETY: it leaves the list of live ones.
                unsafe { free(object, bytes) };
            };
            for (step, &(make, bytes, fill)) in steps.iter().enumerate() {
                if make || live.is_empty() {
                    let object = allocate(bytes);
                    prop_assert!((object.as_ptr() as usize).is_multiple_of(ALIGN));
                    // SAFETY: as many bytes as were asked for.
                    unsafe { object.as_ptr().write_bytes(fill, bytes) };
                    live.push((object, bytes, fill));
                } else {
                    let gone = live.swap_remove(bytes % live.len());
                    check(&gone);
                }
                if step % trim_every == 0 {
                    trim(0);
                }
            }
            live.iter().for_each(check);
        }
    }

    /// No other test makes objects of this class.
    #[test]
    #[cfg_attr(
        any(miri, feature = "general-allocator"),
        ignore = "the general allocator has no slabs"
    )]
    fn copies_of_sparse_objects_leave_slabs_empty() {
        const BYTES: usize = 3500;
        let holes = || {
            #[cfg(not(miri))]
            return slabs::holes_of(class_of(BYTES).expect("small"));
            #[cfg(miri)]
            0
        };
        let mut live: Vec<NonNull<u8>> = (0..1800).map(|_| allocate(BYTES)).collect();
        // SAFETY: each is live.
        let sparse = |&object: &NonNull<u8>| unsafe { is_sparse(object, BYTES) };
        assert!(live.iter().filter(|object| sparse(object)).count() < 18);
        // A quarter stays, spread over all slabs.
        let mut number = 0;
        live.retain(|&object| {
            number += 1;
            // SAFETY: live, and gone from the list.
            number % 4 == 0
                || unsafe {
                    free(object, BYTES);
                    false
                }
        });
        let before = holes();
        assert!(before > 1300 * BYTES);
        let moved = live.iter_mut().filter(|object| sparse(object));
        let moved = moved.map(|object| {
            // The copy first: a hole that the object left would be filled by it.
            let old = std::mem::replace(object, allocate(BYTES));
            // SAFETY: it is nowhere else.
            unsafe { free(old, BYTES) };
        });
        assert!(moved.count() > 300);
        assert!(holes() < before / 4, "{} of {before}", holes());
        assert!(live.iter().filter(|object| sparse(object)).count() < 36);
        // SAFETY: each is live, and freed once.
        live.iter()
            .for_each(|&object| unsafe { free(object, BYTES) });
        assert!(holes() <= 64 << 10);
    }

    #[test]
    fn threads_free_what_others_made() {
        let (send, receive) = std::sync::mpsc::channel::<(usize, usize)>();
        let freeing = std::thread::spawn(move || {
            for (object, bytes) in receive {
                let object = NonNull::new(std::ptr::with_exposed_provenance_mut(object));
                // SAFETY: sent once by the thread that made it.
                unsafe { free(object.expect("not null"), bytes) };
            }
        });
        let makers: Vec<_> = (0..3)
            .map(|maker| {
                let send = send.clone();
                std::thread::spawn(move || {
                    for n in 0..3000 {
                        let bytes = 100 + (n * 37 + maker * 11) % 9000;
                        let object = allocate(bytes);
                        // SAFETY: as many bytes as were asked for.
                        unsafe { object.as_ptr().write_bytes(7, bytes) };
                        let _ = send.send((object.as_ptr().expose_provenance(), bytes));
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
