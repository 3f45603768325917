//! The buffer of a cursor's end: records gathered ahead, with what keeps their bytes alive.
//!
//! ```text
//!   slots   [record][record][run: records h.. of a page][record] ...   in the order of giving out
//!   owners  [record][page][block] ...                                  each counted once
//!   taken: the current record      looked ahead: the one after it, if it was asked for
//! ```
//! A **run** is the rest of a page that nothing overlays. Its records are looked at when they are
//! taken, so a scan that ends before them pays nothing for them: each costs a cache miss or two.
//!
//! Invariants: owners are only added until the buffer is cleared. A run is read at the version with
//! which it was pushed, and its page never changes.
//!
//! Thread safety: belongs to one cursor. Not here: what is gathered ([`crate::read::sources`]).

use crate::munk::{MunkCursor, PageArc};
use crate::read::tables::{Direction, TableHit};
use crate::record::Record;
use crate::value::{Owner, Value};
use evendb_storage::{Apart, Kind, Time, Version};
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

/// One record of a buffer: where its key and value are.
#[derive(Clone, Default)]
struct RecordSlot {
    key_owner: u32,
    value_owner: u32,
    key: Range<usize>,
    value: Range<usize>,
    /// The bytes of the value are its place in a value file.
    is_apart: bool,
}

/// The rest of a page, from the key whose newest record is `head`, as seen at a version and a time.
#[derive(Clone, Copy)]
struct PageRun {
    owner: u32,
    head: usize,
    at: Version,
    time: Time,
}

enum Slot {
    Record(RecordSlot),
    Run(PageRun),
}

/// See the module.
#[derive(Default)]
pub(crate) struct Buffer {
    owners: Vec<Owner>,
    slots: Vec<Slot>,
    /// Keys that lie nowhere in one piece (prefix-compressed blocks); becomes an owner.
    arena: Vec<u8>,
    /// Records of the slots; in runs, older versions and tombstones are counted, too.
    gathered: usize,
    /// The index of the first slot that was not looked at.
    next: usize,
    /// The rest of the run before `next`.
    run: Option<PageRun>,
    ahead: Option<RecordSlot>,
    current: RecordSlot,
    /// The number of records taken.
    taken: usize,
    /// Bytes of the blocks among the owners.
    block_bytes: usize,
    /// The number of bytes of a run's record that are fetched ahead.
    fetched: Fetched,
}

/// Bytes of the next record that are fetched while the current one is looked at.
#[derive(Clone, Copy)]
struct Fetched(usize);

/// Enough for key and value, unless the value is long.
const FETCHED: Fetched = Fetched(1024);
/// Used where keys alone are asked for: the bytes before a key, and the larger part of the key.
const FETCHED_KEYS: Fetched = Fetched(64);

impl Default for Fetched {
    fn default() -> Fetched {
        FETCHED
    }
}

/// Stands for the arena until it has its owner.
const ARENA: u32 = u32::MAX;

/// Below this number of bytes a buffer is small: it is not counted, and kept for the thread's next
/// scan.
pub(crate) const SMALL_BYTES: usize = 16 << 10;

std::thread_local! {
    /// An empty buffer that keeps its memory. The allocator's locks took a tenth of the time of
    /// short scans.
    static SPARE: Cell<Buffer> = Cell::default();
}

impl Buffer {
    /// An empty buffer, with the memory of one that this thread no longer uses.
    pub(crate) fn spare() -> Buffer {
        SPARE.try_with(Cell::take).unwrap_or_default()
    }

    /// Keeps the buffer's memory for the thread's next scan.
    pub(crate) fn done(mut self) {
        self.clear();
        self.fetched = FETCHED;
        if self.bytes() < SMALL_BYTES {
            // Fails only in a thread that ends, which needs no spare buffer.
            let _ = SPARE.try_with(|spare| spare.set(self));
        }
    }

    pub(crate) fn clear(&mut self) {
        self.owners.clear();
        self.slots.clear();
        self.arena.clear();
        (self.gathered, self.next, self.taken) = (0, 0, 0);
        (self.run, self.ahead) = (None, None);
        self.block_bytes = 0;
    }

    /// From now on values are not asked for.
    pub(crate) fn fetch_keys_only(&mut self) {
        self.fetched = FETCHED_KEYS;
    }

    /// Whether the buffer has never held a record.
    pub(crate) fn is_new(&self) -> bool {
        self.slots.capacity() == 0
    }

    /// Records gathered; in pages that nothing overlays, older versions and tombstones are counted,
    /// too.
    pub(crate) fn gathered(&self) -> usize {
        self.gathered
    }

    /// Bytes of the blocks that the buffer keeps.
    pub(crate) fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Memory of the buffer and its blocks, without records and pages, which are counted where they
    /// are.
    pub(crate) fn bytes(&self) -> usize {
        self.block_bytes
            + 2 * self.arena.capacity()
            + self.slots.capacity() * size_of::<Slot>()
            + self.owners.capacity() * size_of::<Owner>()
    }

    /// The key that [`take`](Self::take) would move to.
    #[inline]
    pub(crate) fn look_ahead(&mut self) -> Option<&[u8]> {
        if self.ahead.is_none() {
            self.ahead = self.find_next();
        }
        let slot = self.ahead.as_ref()?;
        Some(self.owners[slot.key_owner as usize].slice(&slot.key))
    }

    /// Moves on; returns whether there was a record.
    #[inline]
    pub(crate) fn take(&mut self) -> bool {
        let next = self.ahead.take().or_else(|| self.find_next());
        let Some(next) = next else {
            return false;
        };
        self.current = next;
        self.taken += 1;
        true
    }

    /// The record that [`take`](Self::take) would move to, once [`look_ahead`](Self::look_ahead)
    /// has found it.
    #[inline]
    pub(crate) fn ahead(&self) -> Option<(&[u8], &[u8])> {
        let slot = self.ahead.as_ref()?;
        Some((
            self.owners[slot.key_owner as usize].slice(&slot.key),
            self.owners[slot.value_owner as usize].slice(&slot.value),
        ))
    }

    /// Whether the value of that record lies apart.
    #[inline]
    pub(crate) fn ahead_is_apart(&self) -> bool {
        self.ahead.as_ref().is_some_and(|slot| slot.is_apart)
    }

    /// The place of that value, if it is known.
    pub(crate) fn place_ahead(&self) -> Option<Apart> {
        let (_, value) = self.ahead()?;
        Apart::decode(value)
    }

    /// The next record that was not looked at. In a run, the record after it is fetched meanwhile.
    fn find_next(&mut self) -> Option<RecordSlot> {
        loop {
            if let Some(run) = &mut self.run {
                let owner = run.owner;
                let page = page_of(&self.owners, owner);
                if let Some(seen) = page.next_seen(run.head, run.at, run.time) {
                    run.head = seen.next;
                    match (run.head < page.count(), self.slots.get(self.next)) {
                        (true, _) => page.fetch_record(run.head, self.fetched.0),
                        (false, Some(Slot::Run(next))) => {
                            let page = page_of(&self.owners, next.owner);
                            page.fetch_record(next.head, self.fetched.0);
                        }
                        (false, _) => {}
                    }
                    return Some(RecordSlot {
                        key_owner: owner,
                        value_owner: owner,
                        key: seen.key,
                        value: seen.value,
                        is_apart: seen.kind.is_apart(),
                    });
                }
                self.run = None;
            }
            let slot = self.slots.get(self.next)?;
            self.next += 1;
            match slot {
                Slot::Record(slot) => return Some(slot.clone()),
                Slot::Run(run) => self.run = Some(*run),
            }
        }
    }

    /// Moves, back or on, to the first record at `to` or above; in backward order, to the first
    /// record below `to`. Then no record counts as taken.
    pub(crate) fn seek(&mut self, direction: Direction, to: &[u8]) {
        let comes_before = |slot: &Slot| {
            let last = self.last_key_of(slot);
            match direction {
                Direction::Forward => last < to,
                Direction::Backward => last >= to,
            }
        };
        self.next = self.slots.partition_point(comes_before);
        (self.run, self.ahead, self.taken) = (None, None, 0);
        // Runs are gathered forward only.
        if let Some(Slot::Run(run)) = self.slots.get(self.next) {
            let head = page_of(&self.owners, run.owner).lower_bound(to);
            self.run = Some(PageRun {
                head: head.max(run.head),
                ..*run
            });
            self.next += 1;
        }
    }

    /// The number of records taken since the buffer was cleared or sought.
    pub(crate) fn taken_count(&self) -> usize {
        self.taken
    }

    /// The key last taken, if one has been.
    pub(crate) fn taken_key(&self) -> Option<&[u8]> {
        (self.taken > 0).then(|| self.current_key())
    }

    /// The key of the record last taken.
    #[inline]
    pub(crate) fn current_key(&self) -> &[u8] {
        let slot = &self.current;
        self.owners[slot.key_owner as usize].slice(&slot.key)
    }

    /// The record last taken.
    #[inline]
    pub(crate) fn current(&self) -> (&[u8], &[u8]) {
        let slot = &self.current;
        (
            self.owners[slot.key_owner as usize].slice(&slot.key),
            self.owners[slot.value_owner as usize].slice(&slot.value),
        )
    }

    /// The place of the value of the record last taken, if it lies apart; `Some(None)` if the key
    /// has to be asked for again.
    #[inline]
    pub(crate) fn current_apart(&self) -> Option<Option<Apart>> {
        let slot = &self.current;
        slot.is_apart.then(|| {
            let value = &self.owners[slot.value_owner as usize];
            // Keys-only scans do not keep blocks, and they do not ask for places.
            Apart::decode(value.slice(&slot.value))
        })
    }

    /// Whether the key of the record last taken has to be asked for again.
    #[inline]
    pub(crate) fn current_is_asked(&self) -> bool {
        self.current.is_apart && self.current.value.is_empty()
    }

    /// The record last taken, as handles.
    pub(crate) fn current_values(&self) -> (Value, Value) {
        let slot = &self.current;
        (
            self.value(slot.key_owner, &slot.key),
            self.value(slot.value_owner, &slot.value),
        )
    }

    /// The key of the record last taken, as a handle.
    pub(crate) fn current_key_value(&self) -> Value {
        self.value(self.current.key_owner, &self.current.key)
    }

    fn value(&self, owner: u32, range: &Range<usize>) -> Value {
        match &self.owners[owner as usize] {
            // Buffers of many records hold the blocks of a scan: a kept value would keep a whole
            // buffer alive.
            block @ (Owner::Block(_) | Owner::Bytes(_)) => {
                Value::of_bytes(Arc::from(block.slice(range)))
            }
            owner => Value::new(owner.clone(), range.clone()),
        }
    }

    /// The first and the last key gathered.
    pub(crate) fn ends(&self) -> Option<(&[u8], &[u8])> {
        Some((self.first_key()?, self.last_key()?))
    }

    /// The first key gathered.
    pub(crate) fn first_key(&self) -> Option<&[u8]> {
        Some(match self.slots.first()? {
            Slot::Record(slot) => self.key(slot),
            Slot::Run(run) => page_of(&self.owners, run.owner).key_of_head(run.head),
        })
    }

    /// The last key gathered.
    pub(crate) fn last_key(&self) -> Option<&[u8]> {
        Some(self.last_key_of(self.slots.last()?))
    }

    fn last_key_of(&self, slot: &Slot) -> &[u8] {
        match slot {
            Slot::Record(slot) => self.key(slot),
            Slot::Run(run) => page_of(&self.owners, run.owner).last_key(),
        }
    }

    /// A record's key, which has its owner by now.
    fn key(&self, slot: &RecordSlot) -> &[u8] {
        self.owners[slot.key_owner as usize].slice(&slot.key)
    }

    fn push(&mut self, slot: RecordSlot) {
        self.gathered += 1;
        self.slots.push(Slot::Record(slot));
    }

    pub(crate) fn push_record(&mut self, record: &Record) {
        let owner = self.owners.len() as u32;
        let key = record.key().len();
        self.owners.push(Owner::Record(record.to_ref()));
        self.push(RecordSlot {
            key_owner: owner,
            value_owner: owner,
            key: 0..key,
            value: record.shown(),
            is_apart: record.kind().is_apart(),
        });
    }

    /// Gathers a record whose bytes lie nowhere else.
    pub(crate) fn push_bytes(&mut self, key: &[u8], value: &Value) {
        let owner = self.owners.len() as u32;
        let bytes = [key, value.stored()].concat();
        self.push(RecordSlot {
            key_owner: owner,
            value_owner: owner,
            key: 0..key.len(),
            value: key.len()..bytes.len(),
            is_apart: value.is_apart(),
        });
        self.owners.push(Owner::Bytes(Arc::from(bytes)));
    }

    fn own_page(&mut self, page: &PageArc) -> u32 {
        let same =
            matches!(self.owners.last(), Some(Owner::Page(last)) if PageArc::ptr_eq(last, page));
        if !same {
            self.owners.push(Owner::Page(page.clone()));
        }
        self.owners.len() as u32 - 1
    }

    /// Gathers the record that the cursor is on, whose value lies in its page.
    pub(crate) fn push_page(&mut self, cursor: &MunkCursor<'_>, value: Range<usize>, kind: Kind) {
        let owner = self.own_page(cursor.page());
        self.push(RecordSlot {
            key_owner: owner,
            value_owner: owner,
            key: cursor.key_range(),
            value,
            is_apart: kind.is_apart(),
        });
    }

    /// Gathers the rest of the cursor's page, as seen at a version and a time.
    pub(crate) fn push_run(&mut self, cursor: &MunkCursor<'_>, at: Version, time: Time) {
        let owner = self.own_page(cursor.page());
        let (head, count) = cursor.rest_of_page();
        self.gathered += count;
        self.slots.push(Slot::Run(PageRun {
            owner,
            head,
            at,
            time,
        }));
    }

    pub(crate) fn push_block(&mut self, key: &[u8], hit: &TableHit) {
        let same = matches!(self.owners.last(), Some(Owner::Block(last))
            if std::ptr::eq(last.bytes(), hit.block.bytes()));
        if !same {
            self.block_bytes += hit.block.bytes().len();
            self.owners.push(Owner::Block(hit.block.clone()));
        }
        let start = self.arena.len();
        self.arena.extend_from_slice(key);
        self.push(RecordSlot {
            key_owner: ARENA,
            value_owner: self.owners.len() as u32 - 1,
            key: start..self.arena.len(),
            value: hit.shown(),
            is_apart: hit.kind.is_apart(),
        });
    }

    /// Gives the arena its owner.
    pub(crate) fn seal(&mut self) {
        let owner = self.owners.len() as u32;
        let mut any = false;
        for slot in &mut self.slots {
            if let Slot::Record(slot) = slot
                && slot.key_owner == ARENA
            {
                slot.key_owner = owner;
                any = true;
            }
        }
        if any {
            self.owners.push(Owner::Bytes(Arc::from(&self.arena[..])));
        }
    }

    /// Drops the blocks that hold the values of the gathered records; these values must not be
    /// asked for any more. Keys out of blocks are copies, and stay.
    pub(crate) fn forget_blocks(&mut self) {
        if self.block_bytes == 0 {
            return;
        }
        let nothing = Owner::Bytes(Arc::from(&[][..]));
        for owner in &mut self.owners {
            if matches!(owner, Owner::Block(_)) {
                *owner = nothing.clone();
            }
        }
        self.block_bytes = 0;
    }
}

/// The page of a run.
#[inline]
fn page_of(owners: &[Owner], owner: u32) -> &PageArc {
    match &owners[owner as usize] {
        Owner::Page(page) => page,
        Owner::Record(_) | Owner::Block(_) | Owner::Bytes(_) => unreachable!("a run is of a page"),
    }
}
