//! The slabs: which slab an object comes from, holes in slabs, slabs without objects, and what is
//! given back to the system.
//!
//! Thread safety: as [`super`] says. Not here: classes ([`super`]), and the system's memory
//! (`system`).

use super::system::{self, PAGE_BYTES, REGION_BYTES};
use super::{CLASSES, class_bytes};
use crate::fork;
use crate::sync::Mutex;
use std::cell::Cell;
use std::iter;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI64, AtomicIsize, Ordering};

/// Whether slabs serve objects, and not the general allocator.
pub(super) const ARE_THERE: bool = !cfg!(feature = "general-allocator");

const SLAB_BYTES: usize = 64 << 10;
const SLABS: usize = REGION_BYTES / SLAB_BYTES;
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

/// Bytes of slabs that are resident but not used by an object: holes, and slabs kept for the next
/// objects.
pub(crate) fn slack_bytes() -> u64 {
    let slack = RESIDENT.load(Ordering::Relaxed) - USED.load(Ordering::Relaxed);
    slack.max(0) as u64
}

/// Bytes without an object that stay resident because databases want them for their next objects.
pub(crate) fn kept_warm_bytes() -> u64 {
    let warm = WARM_BYTES_MAX.load(Ordering::Relaxed) - WARM_BYTES_MIN;
    slack_bytes().min(warm.max(0) as u64)
}

/// Bytes of holes too small to have a page of their own. [`trim`] cannot give them back: they come
/// back only with the whole slab.
pub(crate) fn small_holes_bytes() -> u64 {
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

/// Gives back empty slabs, and pages inside of holes, until at most `slack_max` bytes are resident
/// without an object, or there is nothing more to give.
pub(crate) fn trim(slack_max: u64) {
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
