//! Commit stamps: one word that shows all records of a batch at once.
//!
//! ```text
//! words    WORDS of them for the process, one per cache line: FREE, PENDING, COMMITTED
//! record   the number of a word, and beside the version a bit: pending          (record.rs)
//! ```
//!
//! A batch claims a word, links its records with the word's number and the bit, and commits: that
//! one store shows all records. Then it clears the bit in each record, and frees the word for the
//! next batch. So a stamp costs no memory, and no part of it waits for a grace period.
//!
//! Why a word that the next batch has claimed never misleads a reader: a reader that finds the bit
//! in a record asks [`is_pending`]. It reached the record through a link that was published after
//! the record's batch had claimed the word, so it reads the word of that claim or a later state. It
//! reads one of
//!
//! * PENDING of the record's own batch: the record is not visible;
//! * COMMITTED or FREE: the record's own batch has committed, or a later batch has, and then the
//!   own batch committed before;
//! * PENDING of a later batch. That claim is a read-modify-write that acquired the FREE of the
//!   batch before, and FREE was stored (Release) after the last record of that batch had lost its
//!   bit. So the reader, which acquires the claim, finds the bit gone when it **reads the record
//!   once more**, as it does whenever it reads PENDING.
//!
//! Invariant: a word is freed only when no record has the bit and its number any more. A batch that
//! unwinds in between leaves its word claimed for ever, and its records with it.
//!
//! Thread safety: any number of batches and readers; readers never wait. A batch waits for a word
//! while all words are claimed. It does so before it announces its version, and holds only its
//! chunk latches then: a batch that has a word does not wait for these. The words are static,
//! because records outlive databases.

use super::clock::{hint, pause};
use crate::sync::atomic::{AtomicU8, Ordering};
use crossbeam_utils::CachePadded;
use std::cell::Cell;

/// The largest number of batches between claim and free in the whole process; in one database at
/// most 64 batches can have announced a version.
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
const WORDS: usize = 120;
/// A small number, so that short schedules use words again, too.
#[cfg(any(evendb_loom, evendb_shuttle))]
const WORDS: usize = 2;

const FREE: u8 = 0;
const PENDING: u8 = 1;
const COMMITTED: u8 = 2;

/// No word: the record was written alone.
pub(crate) const NO_STAMP: u8 = 0;
/// A bit beside the number of a word: the fault for [`is_second_look_left_out`].
const NO_SECOND_LOOK: u8 = 1 << 7;

type Words = [CachePadded<AtomicU8>; WORDS];

#[cfg(not(any(evendb_loom, evendb_shuttle)))]
static ALL: Words = [const { CachePadded::new(AtomicU8::new(FREE)) }; WORDS];
// One set of words for each execution of a model.
#[cfg(evendb_loom)]
loom::lazy_static! {
    static ref ALL: Words = std::array::from_fn(|_| CachePadded::new(AtomicU8::new(FREE)));
}
#[cfg(all(evendb_shuttle, not(evendb_loom)))]
shuttle::lazy_static! {
    static ref ALL: Words = std::array::from_fn(|_| CachePadded::new(AtomicU8::new(FREE)));
}

/// The word of a number, which is one more than the word's index.
#[inline]
fn word(number: u8) -> &'static AtomicU8 {
    &ALL[usize::from(number & !NO_SECOND_LOOK) - 1]
}

/// Whether the word of this number is claimed and not committed. If so, the caller reads the record
/// that names it once more: see the module.
pub(crate) fn is_pending(number: u8) -> bool {
    // Acquire: if it is committed, the links of all records of the batch are visible; if another
    // batch has claimed it, the records have lost their bit.
    word(number).load(Ordering::Acquire) == PENDING
}

/// Whether readers leave out the second look at records of this stamp: a fault that a model must
/// notice.
#[inline]
pub(crate) fn is_second_look_left_out(number: u8) -> bool {
    cfg!(all(test, evendb_loom)) && number & NO_SECOND_LOOK != 0
}

/// A claimed word, pending until [`commit`](Self::commit). Its drop frees the word, unless records
/// still refer to it.
#[derive(Debug)]
#[must_use = "dropping the stamp frees its word"]
pub(crate) struct BatchStamp {
    number: u8,
    /// The number of records that have the bit.
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
                // A load first keeps the line of a claimed word shared.
                if word(number).load(Ordering::Relaxed) != FREE {
                    continue;
                }
                // Acquire: the batch before has cleared its bits. Release: this passes it on to
                // readers.
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

    /// The number that a record of the batch names.
    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    /// Notes that a record got the bit.
    pub(crate) fn note_stamped(&self) {
        self.records.set(self.records.get() + 1);
    }

    /// Notes that a record lost the bit.
    pub(crate) fn note_released(&self) {
        self.records.set(self.records.get() - 1);
    }

    /// Shows the batch. All its records must be linked.
    pub(crate) fn commit(&self) {
        // Pairs with the Acquire of `is_pending`: a reader that sees one record sees the links of
        // all.
        word(self.number).store(COMMITTED, Ordering::Release);
    }

    /// A stamp whose records get no second look.
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
        // Tests beside this one may have claimed some words.
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
