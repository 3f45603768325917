//! When the commit log's ring grows ([`super::commit_log`] says how).
//!
//! ```text
//!   reserved of what is usable:   more than 1/2   upkeep grows it, to three times what is reserved
//!                                 more than 6/8   the put that finds it so does it itself
//!   a record longer than 1/8 of it: the put grows it, or writes a value extent
//!   whole, or not to be grown:    as ever: checkpoints at 1/2, puts wait at the limit
//! ```
//! So a ring is as large as what it has to hold between two checkpoints, and whole where puts are many.
//! Nothing rests on its growing: a disk that has no room for it leaves a small ring, in which puts and
//! deletes go on with more checkpoints. Nor does it take room while the ballast is owed.
//!
//! Thread safety: any; the caller holds nothing, for this waits for the disk.

use super::commit_log::CommitLog;
use crate::ballast::Need;
use crate::engine::Engine;
use crate::error::{ErrorKind, Result};
use crate::sync::atomic::Ordering;

/// Eighths of what is usable that are reserved: from where upkeep grows the ring and puts do, and up to
/// where.
const EIGHTHS_UPKEEP: u64 = 4;
const EIGHTHS_PUTS: u64 = 6;
const EIGHTHS_ENOUGH: u64 = 3;

impl Engine {
    /// Grows the ring by a step, if it can be: whether it did. A failure of the device has latched.
    fn grow_commit_log(&self, log: &CommitLog) -> bool {
        // Room that came free belongs to what is kept back, and a disk is not asked again at once.
        if self.ballast.is_owed() || self.log_is_stuck.load(Ordering::Relaxed) {
            return false;
        }
        match log.grow() {
            Ok(grown) => {
                if grown {
                    self.admission.ring_has_grown(log.usable());
                }
                grown
            }
            Err(error) => {
                let error = crate::error::Error::from(error);
                if error.kind() == ErrorKind::NoSpace {
                    self.log_is_stuck.store(true, Ordering::Relaxed);
                } else {
                    self.latch_error(error);
                }
                false
            }
        }
    }

    /// Upkeep's part, before it looks whether a checkpoint is due.
    pub(crate) fn grow_log_ahead(&self) {
        let Some(log) = self.commit_log.as_ref().filter(|log| log.is_growing()) else {
            return;
        };
        if !self.admission.ring_fuller_than(EIGHTHS_UPKEEP, 0) {
            return;
        }
        while self.admission.ring_fuller_than(EIGHTHS_ENOUGH, 0) && self.grow_commit_log(log) {}
    }

    /// A put's part: for a record of so many bytes in the ring, which fits it as it is.
    pub(crate) fn grow_log_for(&self, ring_bytes: u64, deletes: bool) -> Result<()> {
        let Some(log) = &self.commit_log else {
            return Ok(());
        };
        if !log.is_backed() {
            // The disk was full when it was opened.
            let back = || Ok(log.back()?);
            match deletes {
                true => self.with_ballast(Need::Deletes, back)?,
                false => back()?,
            }
        }
        while log.is_growing()
            && self.admission.ring_fuller_than(EIGHTHS_PUTS, ring_bytes)
            && self.grow_commit_log(log)
        {}
        Ok(())
    }

    /// Whether the ring takes a payload of so many bytes, now that it has grown for it if it can.
    pub(crate) fn log_takes(&self, payload_bytes: u64) -> bool {
        let Some(log) = &self.commit_log else {
            return true;
        };
        let total = CommitLog::record_bytes(payload_bytes as usize);
        if payload_bytes > self.ring_record_bytes_max() {
            return false;
        }
        while total > log.record_max() {
            if !self.grow_commit_log(log) {
                return false;
            }
        }
        true
    }

    /// The longest payload that goes into the ring as it is.
    pub(crate) fn log_payload_max(&self) -> u64 {
        match &self.commit_log {
            Some(log) => log.record_max() - CommitLog::record_bytes(0) - 8,
            None => u64::MAX,
        }
    }

    /// The last checkpoint of a database that is to be as small as it can be: it leaves the ring empty at
    /// the start of a lap. All writes have ended.
    pub(crate) fn checkpoint_at_lap(&self) -> Result<()> {
        let begins = |engine: &Engine| engine.commit_log.as_ref().is_none_or(CommitLog::begin_lap);
        if !begins(self) {
            // The live part goes from one lap to the next: not after this.
            self.checkpoint()?;
            begins(self);
        }
        self.checkpoint()
    }

    /// At the end: what was kept ahead for puts, and what more is kept back than the data asks for. The
    /// log has ended.
    pub(crate) fn give_all_back(&self) {
        if let Some(log) = &self.commit_log {
            log.give_back();
        }
        self.ballast.shrink_to(self.table_bytes());
        while self.container.give_excess_back(0, usize::MAX, &|_| true) > 0 {}
    }

    /// Room may have come back.
    pub(crate) fn unstick_log(&self) {
        self.log_is_stuck.store(false, Ordering::Relaxed);
    }
}
