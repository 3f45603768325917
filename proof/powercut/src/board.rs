//! [`Board`]: what a writing process has acknowledged, in a file that survives it.
//!
//! The file lies on the machine's own file system, never on the one whose power is cut. The writer
//! notes each acknowledgement after it came; the campaign reads all of them just before it cuts. So
//! everything that it reads was acknowledged before the cut began.
//!
//! ```text
//!   cell of 16 bytes: number, little endian | its complement
//! ```
//! A number is read again until both halves agree, because a read beside a write may see half of
//! it. Each cell has one writer. A cell that is read later is at least as new as a cell that was
//! read before. There is no sync: the machine itself does not lose power.

use crate::Result;
use crate::workload::{Counts, THREADS};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How far the process has come.
const PHASE: u64 = 0;
const FOUND: u64 = 1;
const ACKNOWLEDGED: u64 = FOUND + THREADS as u64;
const PROMISED: u64 = ACKNOWLEDGED + THREADS as u64;
const RAISED: u64 = PROMISED + THREADS as u64;
const BACKUPS: u64 = RAISED + THREADS as u64;
const BACKUP: u64 = BACKUPS + 1;
/// The number of backups that are remembered, so that a reader finds the last one whole while the
/// next is noted.
const KEPT: u64 = 16;
const BACKUP_CELLS: u64 = 1 + THREADS as u64;
const CELLS: u64 = BACKUP + KEPT * BACKUP_CELLS;

/// How far a writing process has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// It has not opened the database yet.
    Started = 0,
    /// It has compared the content with what had been promised.
    Opened = 1,
    /// Its threads write.
    Writing = 2,
    /// It has done all its work.
    Done = 3,
}

/// A backup, and the writes that were acknowledged when it was begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MadeBackup {
    /// Its number.
    pub number: u64,
    /// The number of writes of each thread that it must have.
    pub counts: Counts,
}

/// The content of a board.
#[derive(Clone, Debug)]
pub struct Told {
    /// How far the process came.
    pub phase: Phase,
    /// The number of writes of each thread that it found. Valid from [`Phase::Opened`] on.
    pub found: Counts,
    /// The number of writes of each thread that returned.
    pub acknowledged: Counts,
    /// The number of writes of each thread that survive a power cut at any level: they came before
    /// a call that makes durable and returned, or up to the last one that was raised to the highest
    /// level.
    pub promised: Counts,
    /// The last backup that returned.
    pub backup: Option<MadeBackup>,
}

/// See the module.
pub struct Board(File);

impl Board {
    /// A new board, all zeros.
    ///
    /// # Errors
    /// Of the system.
    pub fn create(path: &Path) -> Result<Board> {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path);
        let board = Board(file.map_err(|error| format!("making the board: {error}"))?);
        for cell in 0..CELLS {
            board.set(cell, 0)?;
        }
        Ok(board)
    }

    /// An existing board.
    ///
    /// # Errors
    /// Of the system.
    pub fn open(path: &Path) -> Result<Board> {
        let file = File::options().read(true).write(true).open(path);
        file.map(Board)
            .map_err(|error| format!("opening the board: {error}"))
    }

    fn set(&self, cell: u64, number: u64) -> Result<()> {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..].copy_from_slice(&(!number).to_le_bytes());
        let written = self.0.write_all_at(&bytes, cell * 16);
        written.map_err(|error| format!("noting on the board: {error}"))
    }

    fn get(&self, cell: u64) -> Result<u64> {
        loop {
            let mut bytes = [0; 16];
            let read = self.0.read_exact_at(&mut bytes, cell * 16);
            read.map_err(|error| format!("reading the board: {error}"))?;
            let half = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes);
            if let (Ok(number), Ok(complement)) = (half(0), half(8))
                && number == !complement
            {
                return Ok(number);
            }
        }
    }

    fn set_all(&self, first: u64, counts: &Counts) -> Result<()> {
        let mut cells = (first..).zip(counts);
        cells.try_for_each(|(cell, count)| self.set(cell, *count))
    }

    fn get_all(&self, first: u64) -> Result<Counts> {
        let mut counts = [0; THREADS];
        for (cell, count) in (first..).zip(&mut counts) {
            *count = self.get(cell)?;
        }
        Ok(counts)
    }

    /// Notes that the process has come to this phase.
    ///
    /// # Errors
    /// Of the system, here and below.
    pub fn reach(&self, phase: Phase) -> Result<()> {
        self.set(PHASE, phase as u64)
    }

    /// Notes the number of writes that it found. Must come before [`Phase::Opened`].
    pub fn note_found(&self, found: &Counts) -> Result<()> {
        self.set_all(FOUND, found)?;
        self.set_all(ACKNOWLEDGED, found)
    }

    /// Notes that `count` writes of a thread returned. Called by that thread alone.
    pub fn note_acknowledged(&self, thread: usize, count: u64, raised: bool) -> Result<()> {
        self.set(ACKNOWLEDGED + thread as u64, count)?;
        match raised {
            true => self.set(RAISED + thread as u64, count),
            false => Ok(()),
        }
    }

    /// Notes that a call returned that makes these writes durable. Called by one thread alone.
    pub fn note_promised(&self, counts: &Counts) -> Result<()> {
        self.set_all(PROMISED, counts)
    }

    /// Notes that a backup returned. Called by one thread alone.
    pub fn note_backup(&self, made: &MadeBackup) -> Result<()> {
        let before = self.get(BACKUPS)?;
        let first = BACKUP + before % KEPT * BACKUP_CELLS;
        self.set(first, made.number)?;
        self.set_all(first + 1, &made.counts)?;
        self.set(BACKUPS, before + 1)
    }

    /// Everything that has been noted before.
    ///
    /// # Errors
    /// Of the system; an unknown phase.
    pub fn told(&self) -> Result<Told> {
        let phase = match self.get(PHASE)? {
            0 => Phase::Started,
            1 => Phase::Opened,
            2 => Phase::Writing,
            3 => Phase::Done,
            other => return Err(format!("the board says phase {other}")),
        };
        let (called, raised) = (self.get_all(PROMISED)?, self.get_all(RAISED)?);
        let backup = match self.get(BACKUPS)? {
            0 => None,
            made => {
                let first = BACKUP + (made - 1) % KEPT * BACKUP_CELLS;
                Some(MadeBackup {
                    number: self.get(first)?,
                    counts: self.get_all(first + 1)?,
                })
            }
        };
        Ok(Told {
            phase,
            found: self.get_all(FOUND)?,
            acknowledged: self.get_all(ACKNOWLEDGED)?,
            promised: std::array::from_fn(|thread| called[thread].max(raised[thread])),
            backup,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_told() -> Result<()> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let path = dir.path().join("board");
        let (parent, child) = (Board::create(&path)?, Board::open(&path)?);
        let told = parent.told()?;
        assert_eq!((told.phase, told.backup), (Phase::Started, None));
        child.note_found(&[1, 2, 3, 4])?;
        child.reach(Phase::Opened)?;
        child.note_acknowledged(1, 7, true)?;
        child.note_acknowledged(2, 9, false)?;
        child.note_promised(&[2, 2, 2, 2])?;
        for number in 0..40 {
            let counts = [number; THREADS];
            child.note_backup(&MadeBackup { number, counts })?;
        }
        let told = parent.told()?;
        assert_eq!(told.phase, Phase::Opened);
        assert_eq!(told.found, [1, 2, 3, 4]);
        assert_eq!(told.acknowledged, [1, 7, 9, 4]);
        assert_eq!(told.promised, [2, 7, 2, 2]);
        let backup = told.backup.map(|made| (made.number, made.counts));
        assert_eq!(backup, Some((39, [39; THREADS])));
        Ok(())
    }
}
