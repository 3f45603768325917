#![expect(
    unsafe_code,
    reason = "a skip list whose nodes lie in an arena, read while it grows"
)]
//! The skip list of [`MemoryTable`]. The head of `memory` has its picture and invariants.
//!
//! ```text
//!   node   | version 8 | backward link 8 | value length 4 | key length 2 | kind | height |
//!          | links of level 0, 1, ... | key | value |
//! ```
//! The head is a node of the greatest height with an empty key. It is no record.
//!
//! Why it is sound: nodes lie in the arena, never move, and live as long as the list. All fields
//! except links are written before the node is linked, and never again. A pointer to a node comes
//! from a link, loaded with Acquire. This pairs with the Release store of the thread that linked
//! the node. So a thread that has the pointer may read the fields. Links are atomics.

use super::arena::{ALIGNMENT, Arena};
use crate::cursor::EntryCursor;
use evendb_base::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use evendb_base::sync::{Arc, Mutex};
use evendb_storage::{EntryRef, Kind, Result, Version};
use std::cmp;
use std::ptr::{self, NonNull};
use std::slice;

/// Levels of the list. The greatest level has one node for 4^11 records.
const HEIGHT_MAX: usize = 12;

type Link = AtomicPtr<Node>;

#[repr(C)]
struct Node {
    version: Version,
    back: Link,
    value_len: u32,
    key_len: u16,
    kind: Kind,
    height: u8,
}

const _: () = assert!(align_of::<Node>() <= ALIGNMENT && align_of::<Link>() <= ALIGNMENT);

/// A node of a list. The user of the pointer keeps the list alive.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NodePtr(NonNull<Node>);

impl NodePtr {
    /// Allocates and fills a node that is not linked yet. Its links are null.
    fn create(arena: &mut Arena, entry: EntryRef<'_>, height: usize) -> NodePtr {
        let key_len = u16::try_from(entry.key.len()).expect("checked by the write path");
        let value_len = u32::try_from(entry.value.len()).expect("checked by the write path");
        let links_bytes = height * size_of::<Link>();
        let piece =
            arena.allocate(size_of::<Node>() + links_bytes + entry.key.len() + entry.value.len());
        let node = NodePtr(piece.cast());
        let header = Node {
            version: entry.version,
            back: Link::new(ptr::null_mut()),
            value_len,
            key_len,
            kind: entry.kind,
            height: height as u8,
        };
        // SAFETY: the piece is aligned for a node and has room for the header, `height` links, the
        // key and the value. They are written one behind the other. No other thread knows the
        // piece.
        unsafe {
            node.0.write(header);
            for level in 0..height {
                node.links().add(level).write(Link::new(ptr::null_mut()));
            }
            let key = node.links().add(height).cast::<u8>();
            key.copy_from_nonoverlapping(NonNull::from(entry.key).cast(), entry.key.len());
            let value = key.add(entry.key.len());
            value.copy_from_nonoverlapping(NonNull::from(entry.value).cast(), entry.value.len());
        }
        node
    }

    /// The header. Its lifetime is that of the list, which the callers have.
    fn header<'a>(self) -> &'a Node {
        // SAFETY: see the head of this file.
        unsafe { self.0.as_ref() }
    }

    fn links(self) -> NonNull<Link> {
        // SAFETY: the links lie behind the header, in the same piece.
        unsafe { self.0.add(1).cast() }
    }

    /// The link of `level`, which the node must have.
    fn link<'a>(self, level: usize) -> &'a Link {
        debug_assert!(level < usize::from(self.header().height));
        // SAFETY: the node has that many links.
        unsafe { self.links().add(level).as_ref() }
    }

    fn entry<'a>(self) -> EntryRef<'a> {
        let header = self.header();
        // SAFETY: the key lies behind the links, and the value behind the key. All of them were
        // written before the node was linked, and are never changed.
        let (key, value) = unsafe {
            let key = self.links().add(usize::from(header.height)).cast::<u8>();
            let key = slice::from_raw_parts(key.as_ptr(), usize::from(header.key_len));
            let value = key.as_ptr().add(key.len());
            (key, slice::from_raw_parts(value, header.value_len as usize))
        };
        EntryRef {
            key,
            version: header.version,
            kind: header.kind,
            value,
        }
    }

    /// Whether it comes before a record of this key and version.
    fn is_before(self, key: &[u8], version: Version) -> bool {
        let entry = self.entry();
        match entry.key.cmp(key) {
            cmp::Ordering::Less => true,
            cmp::Ordering::Equal => entry.version > version,
            cmp::Ordering::Greater => false,
        }
    }

    fn next(self, level: usize) -> Option<NodePtr> {
        // Pairs with the Release of `insert`.
        NonNull::new(self.link(level).load(Ordering::Acquire)).map(NodePtr)
    }
}

/// State that only an insertion needs.
struct Writer {
    arena: Arena,
    /// State of a generator of random numbers, never 0.
    random: u64,
}

impl Writer {
    /// One node in four has a height above 1, one in sixteen above 2.
    fn random_height(&mut self) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let quarters = (self.random >> 32).trailing_zeros() as usize / 2;
        1 + quarters.min(HEIGHT_MAX - 1)
    }
}

/// See the head of `memory`.
pub(crate) struct MemoryTable {
    head: NodePtr,
    writer: Mutex<Writer>,
    /// Written under the lock. It orders nothing else; it is a figure.
    allocated_bytes: AtomicUsize,
    /// The same.
    entries: AtomicUsize,
}

// SAFETY: nodes are reached and read as the head of this file says, from any thread. The arena is
// behind the lock.
unsafe impl Send for MemoryTable {}
// SAFETY: as above.
unsafe impl Sync for MemoryTable {}

impl MemoryTable {
    pub(crate) fn new() -> MemoryTable {
        let mut arena = Arena::new();
        let head = EntryRef {
            key: &[],
            version: Version::MAX,
            kind: Kind::Delete,
            value: &[],
        };
        MemoryTable {
            head: NodePtr::create(&mut arena, head, HEIGHT_MAX),
            allocated_bytes: AtomicUsize::new(arena.allocated_bytes()),
            entries: AtomicUsize::new(0),
            writer: Mutex::new(Writer {
                arena,
                random: 0x9e37_79b9_7f4a_7c15,
            }),
        }
    }

    /// Bytes of memory that it takes: the bytes that the allocator was asked for.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.allocated_bytes.load(Ordering::Relaxed)
    }

    /// The number of records.
    pub(crate) fn entries(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// Adds a record. The table has no other record of its key and version. The key is not longer
    /// than [`KEY_BYTES_MAX`](evendb_storage::table::KEY_BYTES_MAX), and the value is below 4 GiB.
    /// Returns by how many bytes the table has grown.
    pub(crate) fn insert(&self, entry: EntryRef<'_>) -> usize {
        let mut writer = self.writer.lock();
        let allocated_before = writer.arena.allocated_bytes();
        let mut before = [self.head; HEIGHT_MAX];
        let (_, next) = self.find(entry.key, entry.version, &mut |level, node| {
            before[level] = node;
        });
        let height = writer.random_height();
        let node = NodePtr::create(&mut writer.arena, entry, height);
        // No other thread knows the node yet. The stores below, which link it, publish this one
        // too.
        node.header()
            .back
            .store(before[0].0.as_ptr(), Ordering::Relaxed);
        for (level, before) in before[..height].iter().enumerate() {
            let behind = before.link(level).load(Ordering::Relaxed);
            node.link(level).store(behind, Ordering::Relaxed);
        }
        for (level, before) in before[..height].iter().enumerate() {
            // Pairs with the Acquire of `NodePtr::next`.
            before.link(level).store(node.0.as_ptr(), Ordering::Release);
        }
        if let Some(next) = next {
            // Pairs with the Acquire of `previous`.
            next.header().back.store(node.0.as_ptr(), Ordering::Release);
        }
        let allocated = writer.arena.allocated_bytes();
        self.allocated_bytes.store(allocated, Ordering::Relaxed);
        self.entries.fetch_add(1, Ordering::Relaxed);
        allocated - allocated_before
    }

    /// The place of a record of this key and version: the last node before it, which may be the
    /// head, and the first node that is not before it. For every level it calls `each` with the
    /// node before the place.
    ///
    /// Other nodes may come between the two meanwhile. So the second node must not be found as the
    /// next node of the first one.
    #[inline]
    fn find(
        &self,
        key: &[u8],
        version: Version,
        each: &mut impl FnMut(usize, NodePtr),
    ) -> (NodePtr, Option<NodePtr>) {
        let mut node = self.head;
        // The node that was found not to be before the record on the level above.
        let mut bound = None;
        for level in (0..HEIGHT_MAX).rev() {
            loop {
                let next = node.next(level);
                match next {
                    Some(next) if Some(next) != bound && next.is_before(key, version) => {
                        node = next;
                    }
                    _ => {
                        bound = next;
                        break;
                    }
                }
            }
            each(level, node);
        }
        (node, bound)
    }

    /// The newest record of `key` with a version of at most `at`.
    pub(crate) fn get(&self, key: &[u8], at: Version) -> Option<EntryRef<'_>> {
        let (_, found) = self.find(key, at, &mut |_, _| {});
        let found = found?.entry();
        (found.key == key).then_some(found)
    }

    /// The previous node, if it is a record.
    fn previous(&self, node: NodePtr) -> Option<NodePtr> {
        // Pairs with the Release of `insert`.
        let back = node.header().back.load(Ordering::Acquire);
        self.record(NonNull::new(back).map(NodePtr)?)
    }

    fn record(&self, node: NodePtr) -> Option<NodePtr> {
        (node != self.head).then_some(node)
    }

    fn last(&self) -> Option<NodePtr> {
        let mut node = self.head;
        for level in (0..HEIGHT_MAX).rev() {
            while let Some(next) = node.next(level) {
                node = next;
            }
        }
        self.record(node)
    }

    /// A cursor on no record. It may or may not see records that are inserted while it is in use.
    pub(crate) fn cursor(self: &Arc<Self>) -> MemoryCursor {
        MemoryCursor {
            table: self.clone(),
            node: None,
        }
    }
}

impl std::fmt::Debug for MemoryTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryTable")
            .field("entries", &self.entries())
            .field("allocated_bytes", &self.allocated_bytes())
            .finish_non_exhaustive()
    }
}

/// A cursor over a memory table. It keeps the table.
pub(crate) struct MemoryCursor {
    table: Arc<MemoryTable>,
    node: Option<NodePtr>,
}

// SAFETY: the node is one of the table, which may be read from any thread.
unsafe impl Send for MemoryCursor {}

impl EntryCursor for MemoryCursor {
    fn valid(&self) -> bool {
        self.node.is_some()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let (_, found) = self.table.find(key, Version::MAX, &mut |_, _| {});
        self.node = found;
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let (before, _) = self.table.find(key, Version::MAX, &mut |_, _| {});
        self.node = self.table.record(before);
        Ok(())
    }

    fn seek_first(&mut self) -> Result<()> {
        self.node = self.table.head.next(0);
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.node = self.table.last();
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.node = self.node.and_then(|node| node.next(0));
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.node = self.node.and_then(|node| self.table.previous(node));
        Ok(())
    }

    fn entry(&self) -> EntryRef<'_> {
        let node = self.node.expect("entry of a cursor that is on no record");
        node.entry()
    }
}
