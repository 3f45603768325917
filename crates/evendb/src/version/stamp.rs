//! Commit stamps: one word that shows all records of a batch at once.
//!
//! ```text
//! words    WORDS of them for the process, one per cache line: FREE, PENDING, COMMITTED
//! record   the number of a word, and beside the version a bit: pending          (record.rs)
//! ```
//!
//! A batch claims a word, links its records with the word's number and the bit, and commits: that one store
//! shows them all. Then it takes the bit out of each record and frees the word for the next batch. So a stamp
//! costs no memory, and nothing of it waits for a grace period.
//!
//! Why a reader is never misled by a word that the next batch has claimed. A reader that finds the bit in a
//! record asks [`is_pending`]. It reached the record through a link that was published after its batch had
//! claimed the word, so it reads that claim or something later. What it reads is
//!
//! * PENDING of the record's own batch: the record is not to be seen;
//! * COMMITTED or FREE: its own batch has committed, or a later one has; then its own had before;
//! * PENDING of a later batch. Its claim is a read-modify-write that acquired FREE of the batch before it, which
//!   was stored (Release) after the last record of that batch had lost its bit. So the reader, which acquires the
//!   claim, finds the bit gone when it **looks at the record once more**, as it does whenever it reads PENDING.
//!
//! Invariant: a word is freed only when no record has the bit and its number any more. A batch that unwinds
//! in between leaves its word as it is for ever, and its records with it.
//!
//! Thread safety: any number of batches and readers; readers never wait. A batch waits for a word while all
//! are claimed, before it announces its version and holding only what others that have a word do not wait
//! for: chunk latches of its own. Static, because records outlive databases.

use super::clock::{hint, pause};
use crate::sync::atomic::{AtomicU8, Ordering};
use crossbeam_utils::CachePadded;
use std::cell::Cell;

/// Batches that may be between claim and free at once, in the whole process; of one database at most 64 can
/// have announced a version.
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
const WORDS: usize = 120;
/// Few, so that words are used again in short schedules, too.
#[cfg(any(evendb_loom, evendb_shuttle))]
const WORDS: usize = 2;

const FREE: u8 = 0;
const PENDING: u8 = 1;
const COMMITTED: u8 = 2;

/// No word: the record came alone.
pub(crate) const NO_STAMP: u8 = 0;
/// In a number, beside that of a word: the fault that [`is_second_look_left_out`] speaks of.
const NO_SECOND_LOOK: u8 = 1 << 7;

type Words = [CachePadded<AtomicU8>; WORDS];

#[cfg(not(any(evendb_loom, evendb_shuttle)))]
static ALL: Words = [const { CachePadded::new(AtomicU8::new(FREE)) }; WORDS];
// One set for each execution of a model.
#[cfg(evendb_loom)]
loom::lazy_static! {
    static ref ALL: Words = std::array::from_fn(|_| CachePadded::new(AtomicU8::new(FREE)));
}
#[cfg(all(evendb_shuttle, not(evendb_loom)))]
shuttle::lazy_static! {
    static ref ALL: Words = std::array::from_fn(|_| CachePadded::new(AtomicU8::new(FREE)));
}

/// The word of a number, which is one more than its place.
#[inline]
fn word(number: u8) -> &'static AtomicU8 {
    &ALL[usize::from(number & !NO_SECOND_LOOK) - 1]
}

/// Whether the word of this number is claimed and not committed. If so, the caller looks again at the record
/// that names it: see the module.
pub(crate) fn is_pending(number: u8) -> bool {
    // Acquire: if it is committed, the links of all records of the batch are visible; if another batch has
    // claimed it, the records have lost their bit.
    word(number).load(Ordering::Acquire) == PENDING
}

/// Whether the records of this stamp are not looked at again: a fault that a model must notice.
#[inline]
pub(crate) fn is_second_look_left_out(number: u8) -> bool {
    cfg!(all(test, evendb_loom)) && number & NO_SECOND_LOOK != 0
}

/// A claimed word, pending until [`commit`](Self::commit). Dropping it frees the word, unless records still
/// refer to it.
#[derive(Debug)]
#[must_use = "dropping the stamp frees its word"]
pub(crate) struct BatchStamp {
    number: u8,
    /// Records that have the bit.
    records: Cell<u32>,
}

impl BatchStamp {
    /// Claims a word.
    pub(crate) fn claim() -> BatchStamp {
        let start = hint();
        let mut tries = 0;
        loop {
            for step in 0..WORDS {
                let number = ((start + step) % WORDS) as u8 + 1;
                // Looking first keeps a claimed word's line shared.
                if word(number).load(Ordering::Relaxed) != FREE {
                    continue;
                }
                // Acquire: after the batch before has taken its bits out. Release: passes that on to readers.
                let claimed = word(number).compare_exchange(
                    FREE,
                    PENDING,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                );
                if claimed.is_ok() {
                    return BatchStamp {
                        number,
                        records: Cell::new(0),
                    };
                }
            }
            pause(&mut tries);
        }
    }

    /// What a record of the batch has to name.
    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    /// A record got the bit.
    pub(crate) fn note_stamped(&self) {
        self.records.set(self.records.get() + 1);
    }

    /// A record lost it.
    pub(crate) fn note_released(&self) {
        self.records.set(self.records.get() - 1);
    }

    /// Shows the batch. All its records must be linked.
    pub(crate) fn commit(&self) {
        // Pairs with the Acquire of `is_pending`: a reader that sees one record sees the links of all.
        word(self.number).store(COMMITTED, Ordering::Release);
    }

    /// A stamp whose records are not looked at again.
    #[cfg(all(test, evendb_loom))]
    pub(crate) fn claim_without_second_look() -> BatchStamp {
        let mut stamp = BatchStamp::claim();
        stamp.number |= NO_SECOND_LOOK;
        stamp
    }
}

impl Drop for BatchStamp {
    fn drop(&mut self) {
        if self.records.get() == 0 {
            // Pairs with the Acquire of the next claim.
            word(self.number).store(FREE, Ordering::Release);
        }
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn words_are_claimed_once_and_used_again() {
        // Tests beside this one may have claimed some.
        let some: Vec<_> = (0..WORDS / 2).map(|_| BatchStamp::claim()).collect();
        let numbers: HashSet<u8> = some.iter().map(BatchStamp::number).collect();
        assert_eq!(numbers.len(), some.len());
        assert!(!numbers.contains(&NO_STAMP) && numbers.iter().all(|&number| is_pending(number)));
        some[0].commit();
        assert!(!is_pending(some[0].number()) && is_pending(some[1].number()));
        drop(some);
        for _ in 0..3 * WORDS {
            drop(BatchStamp::claim());
        }
    }

    #[test]
    fn a_word_to_which_a_record_refers_is_not_freed() {
        let stamp = BatchStamp::claim();
        let number = stamp.number();
        stamp.note_stamped();
        stamp.note_stamped();
        stamp.note_released();
        drop(stamp);
        assert!(is_pending(number));
        word(number).store(FREE, Ordering::Release);
    }
}
