#![expect(unsafe_code, reason = "an order is one allocation of run-time size")]
//! The slots of a page in order of their keys, with the keys' heads beside them.
//!
//! ```text
//! | n u16, length of prefix u16 | n words u32 | prefix |
//! word: 25 bits of the key's head, 7 bits of the slot's number
//! ```
//! A search in it reads a few cache lines, and reads a record only where heads are equal. Without
//! the heads each step of a search reads a record, somewhere in memory.
//!
//! Invariants: it never changes. All n keys begin with the prefix, which is cut off at
//! [`prefix_max`] bytes. Thread safety: immutable; freed a grace period after it was replaced.

use super::page::SLOTS_MAX;
use crate::key_heads::{Head, common_prefix, count_before};
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// The most bytes of the prefix that are kept. The first page of a delta keeps few: there are many
/// such pages, and a search in them is short even without heads.
const fn prefix_max(slots: usize) -> usize {
    if slots <= 8 { 16 } else { 48 }
}

/// The number of words of an order.
fn words(slots: usize, prefix: usize) -> usize {
    1 + slots + prefix.div_ceil(size_of::<u32>())
}

/// Bits of a word that hold the slot's number.
const SLOT_BITS: u32 = (SLOTS_MAX - 1) as u32;

/// A slot's number, and the head of its key. Only the head is compared.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Word(u32);

impl Word {
    fn slot(self) -> u8 {
        (self.0 & SLOT_BITS) as u8
    }

    fn head(self) -> u32 {
        self.0 & !SLOT_BITS
    }
}

impl Head for Word {
    fn of(bytes: &[u8]) -> Word {
        Word(u32::of(bytes) & !SLOT_BITS)
    }
}

impl PartialEq for Word {
    fn eq(&self, other: &Word) -> bool {
        self.head() == other.head()
    }
}

impl Eq for Word {}

impl PartialOrd for Word {
    fn partial_cmp(&self, other: &Word) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Word {
    fn cmp(&self, other: &Word) -> Ordering {
        self.head().cmp(&other.head())
    }
}

/// The most bytes of an order of a page with this number of slots.
pub(super) fn bytes_max(slots: usize) -> usize {
    words(slots, prefix_max(slots)) * size_of::<u32>()
}

/// An order that stays for `'g`.
#[derive(Clone, Copy)]
pub(super) struct Order<'g> {
    words: NonNull<u32>,
    lifetime: PhantomData<&'g u32>,
}

impl<'g> Order<'g> {
    /// The order behind a pointer; none for null.
    ///
    /// # Safety
    /// It came from [`Order::create`], and is not freed during `'g`.
    #[inline]
    pub(super) unsafe fn at(order: *mut u32) -> Option<Order<'g>> {
        Some(Order {
            words: NonNull::new(order)?,
            lifetime: PhantomData,
        })
    }

    /// Makes an order of slots that are sorted by their keys. The caller frees it by
    /// [`Order::free`].
    pub(super) fn create<'k>(slots: &[u8], key_of: impl Fn(u8) -> &'k [u8]) -> *mut u32 {
        let (Some(&first), Some(&last)) = (slots.first(), slots.last()) else {
            return ptr::null_mut();
        };
        debug_assert!(slots.len() <= SLOTS_MAX);
        let first = key_of(first);
        let prefix = common_prefix(first, key_of(last)).min(prefix_max(slots.len()));
        let mut order = Vec::with_capacity(words(slots.len(), prefix));
        order.push(slots.len() as u32 | (prefix as u32) << 16);
        let word = |&slot: &u8| Word::of(&key_of(slot)[prefix..]).0 | u32::from(slot);
        order.extend(slots.iter().map(word));
        let mut bytes = first[..prefix].iter().copied();
        while let Some(byte) = bytes.next() {
            let mut next = || bytes.next().unwrap_or(0);
            // Stored in the same byte order on any machine.
            order.push(u32::from_le_bytes([byte, next(), next(), next()]).to_le());
        }
        debug_assert_eq!(order.len(), words(slots.len(), prefix));
        Box::into_raw(order.into_boxed_slice()).cast::<u32>()
    }

    /// Frees an order; null is no order.
    ///
    /// # Safety
    /// It came from [`Order::create`], nobody can reach it, and it is freed once.
    pub(super) unsafe fn free(order: *mut u32) {
        // SAFETY: the caller ensures it.
        let Some(known) = (unsafe { Order::at(order) }) else {
            return;
        };
        let len = words(known.len(), known.prefix().len());
        // SAFETY: the boxed slice that `create` made has this length.
        unsafe { drop(Box::from_raw(ptr::slice_from_raw_parts_mut(order, len))) }
    }

    pub(super) fn as_ptr(self) -> *mut u32 {
        self.words.as_ptr()
    }

    fn first(self) -> u32 {
        // SAFETY: an order has at least one word, and stays for 'g.
        unsafe { self.words.read() }
    }

    #[inline]
    pub(super) fn len(self) -> usize {
        (self.first() & 0xffff) as usize
    }

    #[inline]
    fn words(self) -> &'g [Word] {
        // SAFETY: the words follow the first one; see `create`. A `Word` is laid out as a `u32`.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().add(1).cast(), self.len()) }
    }

    /// The slot numbers.
    #[inline]
    pub(super) fn slots(self) -> impl Iterator<Item = u8> + use<'g> {
        self.words().iter().map(|word| word.slot())
    }

    #[inline]
    fn prefix(self) -> &'g [u8] {
        let len = (self.first() >> 16) as usize;
        // SAFETY: the prefix follows the words; see `create`. Bytes have no alignment.
        unsafe {
            let bytes = self.words.as_ptr().add(1 + self.len()).cast::<u8>();
            std::slice::from_raw_parts(bytes, len)
        }
    }

    /// The number of its keys below `key`.
    #[inline]
    pub(super) fn count_below<'k>(self, key: &[u8], key_of: impl Fn(u8) -> &'k [u8]) -> usize {
        let words = self.words();
        count_before(self.prefix(), words, key, |at| {
            key_of(words[at].slot()) < key
        })
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn an_order_counts_as_its_keys_do() {
        let (lens, counts): (&[usize], &[usize]) = match cfg!(miri) {
            true => (&[0, 13, 49], &[1, 3, 8]),
            false => (
                &[0, 1, 11, 12, 13, 47, 48, 49],
                &[1, 2, 3, 8, 100, SLOTS_MAX],
            ),
        };
        for &shared in lens {
            for &count in counts {
                let key = |number: usize| {
                    let mut key = vec![b'p'; shared];
                    key.extend_from_slice(format!("{number:05}").as_bytes());
                    key
                };
                // Slot numbers run backwards, so that they do not equal the places by accident.
                let keys: Vec<Vec<u8>> = (0..count).map(|at| key(7 * (count - at))).collect();
                let slots: Vec<u8> = (0..count as u8).rev().collect();
                let of = |slot: u8| &keys[usize::from(slot)][..];
                let made = Order::create(&slots, of);
                // SAFETY: just made, and freed below.
                let order = unsafe { Order::at(made) }.expect("some slots");
                assert_eq!(order.slots().collect::<Vec<_>>(), slots);
                assert!(words(order.len(), order.prefix().len()) * 4 <= bytes_max(count));
                for number in (0..8 * count).step_by(if cfg!(miri) { 3 } else { 1 }) {
                    for key in [key(number), key(number)[..shared].to_vec(), vec![b'q']] {
                        let below = slots.iter().filter(|&&slot| *of(slot) < *key).count();
                        assert_eq!(
                            order.count_below(&key, of),
                            below,
                            "{shared} {count} {key:?}"
                        );
                    }
                }
                // SAFETY: nobody has it any more.
                unsafe { Order::free(made) };
            }
        }
    }
}
