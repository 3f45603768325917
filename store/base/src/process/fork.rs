#![expect(
    unsafe_code,
    reason = "a page of its own, which the kernel wipes in a forked child"
)]
//! Whether this process is a forked child of the one that opened a database.
//!
//! A child has a copy of the parent's memory and none of its threads. A lock that another thread
//! held at that moment is never given back, checkpoints never come, and the mapping of the commit
//! log is missing. If the child wrote to the shared files, it would damage the parent's database.
//! So every public call asks [`check`] before it takes a lock or allocates from a slab, and a child
//! leaks what it drops: it waits for nothing, touches no file, and the parent's lock of the
//! directory stays.
//!
//! ```text
//! word   OWNER  the process that opened
//!        CHILD  zero: what the kernel makes of the page in a child (MADV_WIPEONFORK)
//!        ASK    the kernel cannot do that: compare process ids, a system call
//! ```
//!
//! So the question costs two loads, and no way to fork is overlooked, not even `clone` without the
//! C library. A child may open databases of its own if its parent had none open when it forked:
//! then no thread that the child lacks can have been inside the store ([`enter`] counts).
//!
//! Thread safety: atomics that change only when a process opens its first database, and by a fork.
//! No lock is taken here. Not in the models, in which nobody forks.

use crate::error::{Error, Result};
// The standard library's atomics, which models do not replace: these order nothing, so they are no
// steps of a schedule.
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

const CHILD: u32 = 0;
const OWNER: u32 = 1;
const ASK: u32 = 2;

/// The word while no database has been opened.
static BEFORE: AtomicU32 = AtomicU32::new(OWNER);
/// The word; never freed. Published with Release.
static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const BEFORE).cast_mut());
/// The process that opened a database, for systems on which ids are compared.
static OWNER_PROCESS: AtomicU32 = AtomicU32::new(0);
/// The number of open databases in this process. In a child: the number that its parent had open
/// when it forked.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// Whether this process was forked from one that had a database open.
#[inline]
pub fn is_child() -> bool {
    let word = word().load(Ordering::Relaxed);
    word != OWNER && !cfg!(any(evendb_loom, evendb_shuttle)) && is_child_by(word)
}

/// Refuses a child's call to its parent's database.
#[inline]
pub fn check() -> Result<()> {
    match is_child() {
        true => Err(Error::forked()),
        false => Ok(()),
    }
}

#[inline]
fn word() -> &'static AtomicU32 {
    // SAFETY: points to a static, or to a word that `make_word` made and nobody frees. The word was
    // written before it was published.
    unsafe { &*WORD.load(Ordering::Acquire) }
}

#[cold]
fn is_child_by(word: u32) -> bool {
    word == CHILD || OWNER_PROCESS.load(Ordering::Relaxed) != std::process::id()
}

/// Counts a database as open until it is dropped.
#[derive(Debug)]
pub struct Resident(());

/// Called before a database is opened.
///
/// # Errors
/// `Forked` in a child whose parent had a database open.
pub fn enter() -> Result<Resident> {
    publish_word();
    if is_child() {
        if OPEN.load(Ordering::Relaxed) != 0 {
            return Err(Error::forked_opening());
        }
        // The child begins a life of its own.
        OWNER_PROCESS.store(std::process::id(), Ordering::Relaxed);
        let _ = word().compare_exchange(CHILD, OWNER, Ordering::Relaxed, Ordering::Relaxed);
    }
    OPEN.fetch_add(1, Ordering::Relaxed);
    Ok(Resident(()))
}

impl Drop for Resident {
    fn drop(&mut self) {
        if !is_child() {
            OPEN.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn publish_word() {
    let before = (&raw const BEFORE).cast_mut();
    if WORD.load(Ordering::Acquire) != before {
        return;
    }
    OWNER_PROCESS.store(std::process::id(), Ordering::Relaxed);
    let made = wiped_word().unwrap_or_else(|| Box::leak(Box::new(AtomicU32::new(ASK))));
    let made = std::ptr::from_ref(made).cast_mut();
    // If two threads come at once, one of them publishes its word. The other's word is lost, a page
    // at most.
    let _ = WORD.compare_exchange(before, made, Ordering::AcqRel, Ordering::Acquire);
}

/// A word in a page that the kernel wipes in a child.
#[cfg(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle, miri))))]
fn wiped_word() -> Option<&'static AtomicU32> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    let bytes = rustix::param::page_size();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at no address in particular.
    let page = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) };
    let page = page.ok()?;
    // SAFETY: this is the whole mapping that was just made, which no other thread knows.
    unsafe {
        if madvise(page, bytes, Advice::LinuxWipeOnFork).is_err() {
            let _ = munmap(page, bytes);
            return None;
        }
    }
    // SAFETY: the page is aligned, zero (a valid value), and never unmapped from here on.
    let word = unsafe { &*page.cast::<AtomicU32>() };
    word.store(OWNER, Ordering::Relaxed);
    Some(word)
}

#[cfg(not(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle, miri)))))]
fn wiped_word() -> Option<&'static AtomicU32> {
    None
}
