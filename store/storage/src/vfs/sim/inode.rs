//! The contents of one simulated file: what a reader sees and what would survive a power failure,
//! kept apart per sector.
//!
//! ```text
//! slots[i]:  visible page ----+        one 4 KiB page = 8 sectors of 512 bytes
//!            durable page ----+-- the same Arc while nothing is pending
//!            older page           for pending sectors written more than once: an earlier version,
//!                                 which write-back may have caught instead of the last
//!            bit sets             pending: a sync would make it durable
//!                                 failed:  a sync failed on it; no later one will try again
//!                                 older:   the older page holds something for the sector
//! ```
//!
//! Invariants: visible and durable differ only in pending or failed sectors and, after the file
//! was shortened without a sync, from byte `cut` on. Bytes past `visible_len` are zero in visible
//! pages, bytes past `durable_len` in durable ones. A slot beyond the end of `slots` is a hole.
//! `listed` names every page with a pending or failed sector, so a sync costs what was written.
//!
//! Cloning shares all pages; a page is copied when it is written next.

use std::sync::Arc;

use super::rng::Rng;

pub(super) const SECTOR_BYTES: usize = 512;
pub(super) const PAGE_BYTES: usize = 4096;
const SECTORS_PER_PAGE: usize = PAGE_BYTES / SECTOR_BYTES;

type Page = [u8; PAGE_BYTES];

#[derive(Debug, Clone, Default)]
struct Slot {
    visible: Option<Arc<Page>>,
    durable: Option<Arc<Page>>,
    older: Option<Arc<Page>>,
    pending_bits: u8,
    failed_bits: u8,
    older_bits: u8,
    allocated: bool,
    /// `allocated` at the time of the last sync.
    durably_allocated: bool,
    listed: bool,
}

/// What a power failure does to pending changes.
#[derive(Debug)]
pub(super) enum PowerLoss<'a> {
    Nothing,
    All,
    Random(&'a mut Rng),
}

#[derive(Debug, Clone, Default)]
pub(super) struct Inode {
    slots: Vec<Slot>,
    listed: Vec<usize>,
    pub(super) visible_len: u64,
    durable_len: u64,
    /// Shortest length since the last sync, if the file was shortened.
    cut: Option<u64>,
    allocation_pending: bool,
    pub(super) allocated_pages: u64,
    /// The number of visible names that lead here. Its pages count as used only if there is a name.
    pub(super) links: usize,
}

fn page_of(offset: u64) -> usize {
    (offset / PAGE_BYTES as u64) as usize
}

fn pages_up_to(len: u64) -> usize {
    len.div_ceil(PAGE_BYTES as u64) as usize
}

/// Splits `[offset, offset + len)` into (page, first byte in the page, end in the page).
fn page_ranges(offset: u64, len: u64) -> impl Iterator<Item = (usize, usize, usize)> {
    let end = offset + len;
    let mut position = offset;
    std::iter::from_fn(move || {
        if position >= end {
            return None;
        }
        let from = (position % PAGE_BYTES as u64) as usize;
        let to = PAGE_BYTES.min(from + (end - position) as usize);
        let page = page_of(position);
        position += (to - from) as u64;
        Some((page, from, to))
    })
}

/// The bits of the sectors that `[from, to)` of a page touches.
fn sector_bits(from: usize, to: usize) -> u8 {
    let first = from / SECTOR_BYTES;
    let end = to.div_ceil(SECTOR_BYTES);
    (((1u16 << end) - 1) & !((1u16 << first) - 1)) as u8
}

fn sector_range(sector: usize) -> std::ops::Range<usize> {
    sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES
}

/// A length that may have been written while the file was growing to `to`.
fn length_caught(from: u64, to: u64, rng: &mut Rng) -> u64 {
    if to <= from || rng.below(4) != 0 {
        return to;
    }
    let between = from + rng.below(to - from + 1);
    (between - between % SECTOR_BYTES as u64).max(from)
}

fn page_mut(page: &mut Option<Arc<Page>>) -> &mut Page {
    Arc::make_mut(page.get_or_insert_with(|| Arc::new([0; PAGE_BYTES])))
}

fn zero_from(page: &mut Option<Arc<Page>>, from: usize) {
    if from == 0 {
        *page = None;
    } else if page.is_some() {
        page_mut(page)[from..].fill(0);
    }
}

fn copy_sector(target: &mut Option<Arc<Page>>, source: &Option<Arc<Page>>, sector: usize) {
    let range = sector_range(sector);
    match source {
        Some(source) => page_mut(target)[range.clone()].copy_from_slice(&source[range]),
        None if target.is_some() => page_mut(target)[range].fill(0),
        None => {}
    }
}

impl Slot {
    /// Marks sectors as about to change. If a sector was pending already, the version that is being
    /// replaced is kept half of the time.
    fn touch(&mut self, bits: u8, rng: &mut Rng) {
        let again = self.pending_bits & bits;
        for sector in 0..SECTORS_PER_PAGE {
            let bit = 1 << sector;
            if again & bit != 0 && rng.coin() {
                copy_sector(&mut self.older, &self.visible, sector);
                self.older_bits |= bit;
            }
        }
        self.pending_bits |= bits;
        self.failed_bits &= !bits;
    }

    /// Makes the pending sectors durable.
    fn sync(&mut self) {
        if self.failed_bits == 0 {
            self.durable = self.visible.clone();
        } else {
            for sector in 0..SECTORS_PER_PAGE {
                if self.pending_bits & (1 << sector) != 0 {
                    copy_sector(&mut self.durable, &self.visible, sector);
                }
            }
        }
        self.pending_bits = 0;
        self.forget_older();
    }

    fn forget_older(&mut self) {
        self.older = None;
        self.older_bits = 0;
    }

    /// Decides separately for each unsynced sector; `favour` in 256 keep the last version.
    fn resolve_random(&mut self, favour: u64, rng: &mut Rng) {
        let unsynced = self.pending_bits | self.failed_bits;
        for sector in 0..SECTORS_PER_PAGE {
            let bit = 1 << sector;
            if unsynced & bit == 0 {
                continue;
            }
            if rng.below(256) < favour {
                copy_sector(&mut self.durable, &self.visible, sector);
            } else if self.older_bits & bit != 0 && rng.coin() {
                copy_sector(&mut self.durable, &self.older, sector);
            }
        }
    }

    /// Makes the durable bytes the visible ones.
    fn show_durable(&mut self) {
        self.visible = self.durable.clone();
        self.pending_bits = 0;
        self.failed_bits = 0;
        self.listed = false;
        self.forget_older();
    }
}

impl Inode {
    /// Copies bytes to `buf` and returns how many there are before the end.
    pub(super) fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let len = self
            .visible_len
            .saturating_sub(offset)
            .min(buf.len() as u64);
        let mut done = 0;
        for (page, from, to) in page_ranges(offset, len) {
            let target = &mut buf[done..done + to - from];
            match self.slots.get(page).and_then(|slot| slot.visible.as_ref()) {
                Some(source) => target.copy_from_slice(&source[from..to]),
                None => target.fill(0),
            }
            done += to - from;
        }
        done
    }

    /// Writes into the visible pages, and takes at most `pages_free` new pages. Returns the number
    /// of bytes written, which is less than all if there is no more room.
    pub(super) fn write(
        &mut self,
        data: &[u8],
        offset: u64,
        pages_free: u64,
        rng: &mut Rng,
    ) -> usize {
        let pages_max = self.allocated_pages.saturating_add(pages_free);
        let mut done = 0;
        for (page, from, to) in page_ranges(offset, data.len() as u64) {
            if !self.allocate(page, pages_max) {
                break;
            }
            self.change(page, from, to, rng, |bytes| {
                bytes.copy_from_slice(&data[done..done + to - from]);
            });
            done += to - from;
        }
        if done > 0 {
            self.visible_len = self.visible_len.max(offset + done as u64);
        }
        done
    }

    fn change(
        &mut self,
        page: usize,
        from: usize,
        to: usize,
        rng: &mut Rng,
        edit: impl FnOnce(&mut [u8]),
    ) {
        let slot = &mut self.slots[page];
        slot.touch(sector_bits(from, to), rng);
        edit(&mut page_mut(&mut slot.visible)[from..to]);
        if !slot.listed {
            slot.listed = true;
            self.listed.push(page);
        }
    }

    /// Gives the page a block, unless the file has `pages_max` already.
    fn allocate(&mut self, page: usize, pages_max: u64) -> bool {
        if self.slots.len() <= page {
            if self.allocated_pages >= pages_max {
                return false;
            }
            self.slots.resize_with(page + 1, Slot::default);
        }
        if self.slots[page].allocated {
            return true;
        }
        if self.allocated_pages >= pages_max {
            return false;
        }
        self.slots[page].allocated = true;
        self.allocated_pages += 1;
        self.allocation_pending = true;
        true
    }

    fn release(&mut self, page: usize) {
        if self.slots[page].allocated {
            self.slots[page].allocated = false;
            self.allocated_pages -= 1;
            self.allocation_pending = true;
        }
    }

    /// Reserves all pages of the range or none. Returns whether there was room.
    pub(super) fn preallocate(&mut self, offset: u64, len: u64, pages_free: u64) -> bool {
        let missing = page_ranges(offset, len)
            .filter(|(page, ..)| !self.slots.get(*page).is_some_and(|slot| slot.allocated))
            .count();
        if missing as u64 > pages_free {
            return false;
        }
        for (page, ..) in page_ranges(offset, len) {
            self.allocate(page, u64::MAX);
        }
        self.visible_len = self.visible_len.max(offset + len);
        true
    }

    /// Whether every page of the range has its block.
    pub(super) fn has_blocks(&self, offset: u64, len: u64) -> bool {
        page_ranges(offset, len)
            .all(|(page, ..)| self.slots.get(page).is_some_and(|slot| slot.allocated))
    }

    /// Zeros the range as pending writes, and gives whole pages back.
    pub(super) fn punch_hole(&mut self, offset: u64, len: u64, rng: &mut Rng) {
        let end = offset.saturating_add(len).min(self.visible_len);
        for (page, from, to) in page_ranges(offset, end.saturating_sub(offset)) {
            if page >= self.slots.len() {
                break;
            }
            if self.slots[page].visible.is_some() {
                self.change(page, from, to, rng, |bytes| bytes.fill(0));
            }
            let reaches_end = (page * PAGE_BYTES + to) as u64 == self.visible_len;
            if from == 0 && (to == PAGE_BYTES || reaches_end) {
                self.slots[page].visible = None;
                self.release(page);
            }
        }
    }

    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.visible_len {
            self.cut = Some(self.cut.map_or(len, |cut| cut.min(len)));
            let within = (len % PAGE_BYTES as u64) as usize;
            for page in page_of(len)..self.slots.len() {
                let from = if page == page_of(len) { within } else { 0 };
                let slot = &mut self.slots[page];
                zero_from(&mut slot.visible, from);
                // The bytes go with the length: a crash keeps or loses both together.
                let whole_sectors = sector_bits(from.next_multiple_of(SECTOR_BYTES), PAGE_BYTES);
                slot.pending_bits &= !whole_sectors;
                slot.failed_bits &= !whole_sectors;
                slot.older_bits &= !whole_sectors;
                zero_from(&mut slot.older, from);
                if from == 0 {
                    self.release(page);
                }
            }
        }
        self.visible_len = len;
    }

    /// Makes contents, length and allocation durable, except sectors that failed before.
    pub(super) fn sync(&mut self) {
        self.apply_cut();
        let slots = &mut self.slots;
        self.listed.retain(|&page| {
            let slot = &mut slots[page];
            slot.sync();
            slot.listed = slot.failed_bits != 0;
            slot.listed
        });
        if self.allocation_pending {
            for slot in slots {
                slot.durably_allocated = slot.allocated;
            }
            self.allocation_pending = false;
        }
        self.durable_len = self.visible_len;
    }

    /// Does a failed sync: the pending sectors count as clean although they are not durable.
    pub(super) fn fail_sync(&mut self) {
        for &page in &self.listed {
            let slot = &mut self.slots[page];
            slot.failed_bits |= slot.pending_bits;
            slot.pending_bits = 0;
        }
    }

    /// Shortens the durable contents in the same way as the visible ones.
    fn apply_cut(&mut self) {
        let Some(cut) = self.cut.take() else { return };
        let within = (cut % PAGE_BYTES as u64) as usize;
        for page in page_of(cut)..self.slots.len() {
            let from = if page == page_of(cut) { within } else { 0 };
            zero_from(&mut self.slots[page].durable, from);
        }
        self.durable_len = self.durable_len.min(cut);
    }

    fn is_all_durable(&self) -> bool {
        self.listed.is_empty()
            && self.cut.is_none()
            && !self.allocation_pending
            && self.visible_len == self.durable_len
    }

    /// What a power failure leaves: visible and durable are the same afterwards.
    pub(super) fn lose_power(this: &mut Arc<Inode>, loss: &mut PowerLoss<'_>) {
        if this.is_all_durable() {
            return;
        }
        let inode = Arc::make_mut(this);
        let keep_len = match loss {
            PowerLoss::Nothing => false,
            PowerLoss::All => true,
            PowerLoss::Random(rng) => rng.coin(),
        };
        if keep_len {
            let shortened = inode.cut.is_some();
            inode.apply_cut();
            let grown_from = std::mem::replace(&mut inode.durable_len, inode.visible_len);
            if let PowerLoss::Random(rng) = loss
                && !shortened
            {
                inode.durable_len = length_caught(grown_from, inode.visible_len, rng);
            }
        }
        // If the shortening is lost, the bytes are lost, too, that were written later over the
        // cut-off part: they went to blocks that the file never got.
        let lost_from = inode.cut.take().unwrap_or(u64::MAX);
        match loss {
            PowerLoss::Nothing => {}
            PowerLoss::All => {
                for index in 0..inode.listed.len() {
                    inode.slots[inode.listed[index]].sync();
                }
            }
            PowerLoss::Random(rng) => inode.resolve_random(lost_from, rng),
        }
        inode.show_durable(keep_len);
    }

    fn resolve_random(&mut self, lost_from: u64, rng: &mut Rng) {
        // A bias for each file: it reaches "nearly all" and "nearly nothing" as often as "half".
        let favour = [32, 128, 224][rng.below(3) as usize];
        for &page in &self.listed {
            let start = (page * PAGE_BYTES) as u64;
            let slot = &mut self.slots[page];
            if lost_from < start + PAGE_BYTES as u64 {
                let from = lost_from.saturating_sub(start) as usize;
                let bits = sector_bits(from, PAGE_BYTES);
                slot.pending_bits &= !bits;
                slot.failed_bits &= !bits;
            }
            slot.resolve_random(favour, rng);
        }
    }

    fn show_durable(&mut self, keep_allocation: bool) {
        for page in std::mem::take(&mut self.listed) {
            self.slots[page].show_durable();
        }
        self.slots.truncate(pages_up_to(self.durable_len));
        let within = (self.durable_len % PAGE_BYTES as u64) as usize;
        if within != 0
            && let Some(slot) = self.slots.get_mut(page_of(self.durable_len))
        {
            zero_from(&mut slot.durable, within);
        }
        self.allocated_pages = 0;
        for slot in &mut self.slots {
            let reserved = if keep_allocation {
                slot.allocated
            } else {
                slot.durably_allocated
            };
            slot.visible = slot.durable.clone();
            slot.allocated = reserved || slot.durable.is_some();
            slot.durably_allocated = slot.allocated;
            self.allocated_pages += u64::from(slot.allocated);
        }
        self.allocation_pending = false;
        self.visible_len = self.durable_len;
    }
}
