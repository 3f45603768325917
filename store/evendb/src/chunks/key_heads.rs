//! The first bytes of keys as integers, side by side: a search in them touches a few cache lines,
//! and not every key that it compares.
//!
//! ```text
//! keys    app7/00012, app7/00080, app7/00081   in order
//! prefix  app7/000                             shared by all keys
//! heads   "12", "80", "81"                     the next bytes of each key, as integers that
//!                                              compare like the bytes
//! ```
//! Heads decide while they differ; where they are equal, the caller compares whole keys.
//!
//! Thread safety: nothing here is shared. Not here: the owners of prefix and heads.

/// An integer that compares like the first bytes of a key.
pub(crate) trait Head: Copy + Ord {
    /// The integer of the first bytes; zeros stand for missing bytes.
    fn of(bytes: &[u8]) -> Self;
}

impl Head for u64 {
    #[inline]
    fn of(bytes: &[u8]) -> u64 {
        if let Some(first) = bytes.first_chunk::<8>() {
            return u64::from_le_bytes(*first).swap_bytes();
        }
        let mut first = [0; 8];
        first[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(first).swap_bytes()
    }
}

impl Head for u32 {
    #[inline]
    fn of(bytes: &[u8]) -> u32 {
        if let Some(first) = bytes.first_chunk::<4>() {
            return u32::from_le_bytes(*first).swap_bytes();
        }
        let mut first = [0; 4];
        first[..bytes.len()].copy_from_slice(bytes);
        u32::from_le_bytes(first).swap_bytes()
    }
}

/// The number of bytes with which both begin.
pub(crate) fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    let pairs = left.iter().zip(right);
    pairs.take_while(|(left, right)| left == right).count()
}

/// The number of keys with these heads that come before `key`; all of them begin with `prefix`.
/// `is_before` is asked only about keys with the head of `key`; it also decides whether an equal
/// key counts.
#[inline]
pub(crate) fn count_before<H: Head>(
    prefix: &[u8],
    heads: &[H],
    key: &[u8],
    is_before: impl Fn(usize) -> bool,
) -> usize {
    if !key.starts_with(prefix) {
        return if key < prefix { 0 } else { heads.len() };
    }
    let head = H::of(&key[prefix.len()..]);
    let mut low = heads.partition_point(|&other| other < head);
    if heads.get(low) == Some(&head) {
        let mut high = low + heads[low..].partition_point(|&other| other == head);
        while low < high {
            let middle = low.midpoint(high);
            if is_before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
    }
    low
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    fn counts<H: Head>(keys: &[&[u8]], key: &[u8]) {
        let shared = match keys {
            [] => 0,
            [first, .., last] => common_prefix(first, last),
            [only] => only.len(),
        };
        // A shorter prefix is valid, too.
        for len in 0..=shared {
            let prefix = &keys.first().map_or(&[][..], |first| *first)[..len];
            let heads: Vec<H> = keys.iter().map(|key| H::of(&key[len..])).collect();
            let below = count_before(prefix, &heads, key, |at| keys[at] < key);
            assert_eq!(
                below,
                keys.partition_point(|other| *other < key),
                "{keys:?} {key:?}"
            );
            let up_to = count_before(prefix, &heads, key, |at| keys[at] <= key);
            assert_eq!(
                up_to,
                keys.partition_point(|other| *other <= key),
                "{keys:?} {key:?}"
            );
        }
    }

    /// Sets of three of these keys, searched for each of the keys: prefixes of each other, zeros
    /// where a shorter key has no bytes, and equal heads of different keys.
    #[test]
    fn heads_count_as_whole_keys_do() {
        let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
        for front in [&b""[..], b"p", b"prefix/"] {
            for back in [
                &b"\0"[..],
                b"\0\0",
                b"a",
                b"a\0",
                b"aaaa",
                b"aaaab",
                b"aaaaaaaa",
                b"aaaaaaaab",
                b"b",
                b"\xff",
            ] {
                keys.push([front, back].concat());
            }
        }
        keys.sort();
        keys.dedup();
        for first in 0..keys.len() {
            for second in first + 1..keys.len() {
                let third = (second + 3).min(keys.len() - 1);
                let some = [&keys[first][..], &keys[second], &keys[third]];
                let some = if third > second {
                    &some[..]
                } else {
                    &some[..2]
                };
                for key in &keys {
                    counts::<u32>(some, key);
                    counts::<u64>(some, key);
                    counts::<u32>(&some[..1], key);
                    counts::<u64>(&[], key);
                }
            }
        }
    }
}
