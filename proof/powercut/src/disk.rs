//! [`Disk`]: a block device in memory that knows what would survive a power cut.
//!
//! ```text
//!   write  -> current [....####..##....]   what reads see
//!          -> unflushed: the write itself, in order
//!   flush  -> durable [....####........]   takes all unflushed writes
//!   cut    -> a random subset of the unflushed writes is kept, some torn between sectors of
//!             512 bytes; later writes reach nothing
//!   restart-> durable takes what was kept, and current is durable again
//! ```
//! Between cut and restart the device goes on as if nothing had happened, so that a file system on
//! it can be unmounted without errors. Nothing of that is there after the restart.
//!
//! Invariants: outside of the unflushed writes and of writes after the cut, `current` and `durable`
//! are equal. A flush makes everything durable that was written before it, as that of a disk does.
//! No I/O, no threads: its owner locks it.

use crate::draw::Draw;

/// The bytes that a disk writes as a whole or not at all.
pub const SECTOR: usize = 512;

struct Write {
    offset: usize,
    data: Vec<u8>,
}

/// What a cut did with the unflushed writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CutCounts {
    /// Writes that no flush had covered.
    pub unflushed: usize,
    /// Unflushed writes that were kept whole.
    pub kept: usize,
    /// Unflushed writes that were kept in some sectors, and not in others.
    pub torn: usize,
}

/// How a cut chooses among the unflushed writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// None.
    Nothing,
    /// All.
    Everything,
    /// The first ones. The next one may be torn.
    First,
    /// Each write by a toss of its own.
    Writes,
    /// Each sector of each write by a toss of its own.
    Sectors,
}

impl Keep {
    /// All of them.
    pub const ALL: [Keep; 5] = [
        Keep::Nothing,
        Keep::Everything,
        Keep::First,
        Keep::Writes,
        Keep::Sectors,
    ];
}

/// See the module.
pub struct Disk {
    durable: Vec<u8>,
    current: Vec<u8>,
    unflushed: Vec<Write>,
    /// After a cut: the writes that restart will find, in the order of writing.
    kept: Option<(CutCounts, Vec<Write>)>,
    /// The cut that comes with a later write.
    armed: Option<Armed>,
}

/// A cut that will come.
struct Armed {
    writes: u64,
    keep: Keep,
    draw: Draw,
}

impl Disk {
    /// A disk with these bytes, all durable.
    pub fn new(bytes: Vec<u8>) -> Disk {
        Disk {
            current: bytes.clone(),
            durable: bytes,
            unflushed: Vec::new(),
            kept: None,
            armed: None,
        }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.current.len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.current.is_empty()
    }

    /// The bytes at a place, fewer at the end of the disk.
    pub fn read(&self, offset: usize, len: usize) -> &[u8] {
        let begin = offset.min(self.current.len());
        let end = offset.saturating_add(len).min(self.current.len());
        &self.current[begin..end]
    }

    /// Writes into the disk's cache. Returns whether it fits.
    pub fn write(&mut self, offset: usize, data: &[u8]) -> bool {
        let Some(target) = offset
            .checked_add(data.len())
            .and_then(|end| self.current.get_mut(offset..end))
        else {
            return false;
        };
        target.copy_from_slice(data);
        self.unflushed.push(Write {
            offset,
            data: data.to_vec(),
        });
        let due = self.armed.take_if(|armed| {
            armed.writes = armed.writes.saturating_sub(1);
            armed.writes == 0
        });
        if let Some(mut armed) = due {
            self.cut(armed.keep, &mut armed.draw);
        }
        true
    }

    /// Cuts the power right after this number of further writes, so in the middle of writes that
    /// belong together.
    pub fn cut_after(&mut self, writes: u64, keep: Keep, draw: Draw) {
        self.armed = Some(Armed { writes, keep, draw });
    }

    /// What the cut did, once it has come.
    pub fn was_cut(&self) -> Option<CutCounts> {
        self.kept.as_ref().map(|(counts, _)| *counts)
    }

    /// Makes everything durable that was written before. After a cut it does nothing.
    pub fn flush(&mut self) {
        if self.kept.is_some() {
            return;
        }
        for write in self.unflushed.drain(..) {
            put(&mut self.durable, &write);
        }
    }

    /// Cuts the power. Only the first call since the last restart does; a later call returns what
    /// that one did.
    pub fn cut(&mut self, keep: Keep, draw: &mut Draw) -> CutCounts {
        if let Some((counts, _)) = self.kept {
            return counts;
        }
        self.armed = None;
        let mut counts = CutCounts {
            unflushed: self.unflushed.len(),
            ..CutCounts::default()
        };
        let first = draw.below(self.unflushed.len() as u64 + 1) as usize;
        let mut kept = Vec::new();
        for (at, write) in self.unflushed.iter().enumerate() {
            let sectors = write.data.chunks(SECTOR).len();
            let mut toss = || draw.one_in(2);
            let chosen: Vec<bool> = match keep {
                Keep::Nothing => vec![false; sectors],
                Keep::Everything => vec![true; sectors],
                Keep::Writes => vec![toss(); sectors],
                Keep::First if at != first => vec![at < first; sectors],
                Keep::First | Keep::Sectors => (0..sectors).map(|_| toss()).collect(),
            };
            match chosen.iter().filter(|chosen| **chosen).count() {
                0 => {}
                all if all == sectors => counts.kept += 1,
                _ => counts.torn += 1,
            }
            for (number, piece) in write.data.chunks(SECTOR).enumerate() {
                if chosen[number] {
                    kept.push(Write {
                        offset: write.offset + number * SECTOR,
                        data: piece.to_vec(),
                    });
                }
            }
        }
        self.kept = Some((counts, kept));
        counts
    }

    /// Power is back after a cut: the disk has the bytes that the cut left. Without a cut, nothing
    /// happens.
    pub fn restart(&mut self) {
        let Some((_, kept)) = self.kept.take() else {
            return;
        };
        for write in &kept {
            put(&mut self.durable, write);
        }
        for write in self.unflushed.drain(..) {
            let place = write.offset..write.offset + write.data.len();
            self.current[place.clone()].copy_from_slice(&self.durable[place]);
        }
    }
}

fn put(bytes: &mut [u8], write: &Write) {
    bytes[write.offset..write.offset + write.data.len()].copy_from_slice(&write.data);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn byte(disk: &Disk, sector: usize) -> u8 {
        let bytes = disk.read(sector * SECTOR, SECTOR);
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "half a sector");
        bytes[0]
    }

    fn written() -> Disk {
        let mut disk = Disk::new(vec![0; 16 * SECTOR]);
        assert!(disk.write(0, &[1; 4 * SECTOR]));
        disk.flush();
        assert!(disk.write(2 * SECTOR, &[2; 4 * SECTOR]));
        assert!(disk.write(8 * SECTOR, &[3; SECTOR]));
        disk
    }

    #[test]
    fn flushed_bytes_stay_and_others_go() {
        let mut disk = written();
        assert_eq!(byte(&disk, 2), 2);
        let counts = disk.cut(Keep::Nothing, &mut Draw::new(1));
        assert_eq!((counts.unflushed, counts.kept, counts.torn), (2, 0, 0));
        // Writes after the cut are visible until the restart, and reach nothing, flushed or not.
        assert!(disk.write(12 * SECTOR, &[4; SECTOR]));
        disk.flush();
        assert_eq!((byte(&disk, 12), byte(&disk, 8)), (4, 3));
        disk.restart();
        let found: Vec<u8> = (0..16).map(|sector| byte(&disk, sector)).collect();
        assert_eq!(found, [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        // It goes on as any disk.
        assert!(disk.write(0, &[5; SECTOR]));
        disk.flush();
        disk.cut(Keep::Nothing, &mut Draw::new(1));
        disk.restart();
        assert_eq!(byte(&disk, 0), 5);
    }

    #[test]
    fn every_subset_of_sectors_may_be_what_is_kept() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..2_000 {
            let mut disk = written();
            let counts = disk.cut(Keep::Sectors, &mut Draw::new(seed));
            disk.restart();
            let kept = |sector: usize, value| byte(&disk, sector) == value;
            let first: Vec<bool> = (2..6).map(|sector| kept(sector, 2)).collect();
            let whole = first.iter().all(|kept| *kept);
            let torn = !whole && first.contains(&true);
            assert_eq!(counts.torn, usize::from(torn));
            assert_eq!(counts.kept, usize::from(whole) + usize::from(kept(8, 3)));
            seen.insert((first, kept(8, 3)));
        }
        assert_eq!(seen.len(), 32);
    }

    #[test]
    fn whole_writes_and_first_writes_are_kept_as_their_names_say() {
        for (keep, states) in [(Keep::Writes, 4), (Keep::Everything, 1)] {
            let mut seen = std::collections::BTreeSet::new();
            for seed in 0..200 {
                let mut disk = written();
                assert_eq!(disk.cut(keep, &mut Draw::new(seed)).torn, 0);
                disk.restart();
                seen.insert((byte(&disk, 5), byte(&disk, 8)));
            }
            assert_eq!(seen.len(), states, "{keep:?}");
        }
        for seed in 0..200 {
            let mut disk = written();
            disk.cut(Keep::First, &mut Draw::new(seed));
            disk.restart();
            // The second write is there only if the first one is there, whole.
            let second = byte(&disk, 8) == 3;
            assert!(!second || (2..6).all(|sector| byte(&disk, sector) == 2));
        }
    }

    #[test]
    fn an_armed_cut_comes_with_its_write() {
        let mut disk = written();
        disk.cut_after(2, Keep::Everything, Draw::new(1));
        assert!(disk.write(9 * SECTOR, &[4; SECTOR]));
        assert_eq!(disk.was_cut(), None);
        assert!(disk.write(10 * SECTOR, &[5; SECTOR]));
        let counts = disk.was_cut();
        assert_eq!(counts.map(|counts| counts.kept), Some(4));
        assert!(disk.write(11 * SECTOR, &[6; SECTOR]));
        // It has come; another one changes nothing.
        assert_eq!(Some(disk.cut(Keep::Nothing, &mut Draw::new(1))), counts);
        disk.restart();
        let found: Vec<u8> = (8..12).map(|sector| byte(&disk, sector)).collect();
        assert_eq!(found, [3, 4, 5, 0]);
        assert_eq!(disk.was_cut(), None);
    }

    #[test]
    fn what_lies_beyond_the_end_is_refused() {
        let mut disk = Disk::new(vec![0; SECTOR]);
        assert!(!disk.write(SECTOR - 1, &[1, 1]));
        assert!(!disk.write(usize::MAX, &[1]));
        assert_eq!(disk.read(SECTOR + 1, 5), b"");
        assert_eq!(byte(&disk, 0), 0);
    }
}
