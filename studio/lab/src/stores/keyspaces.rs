//! Several keyspaces in a store of the lab, which has one: each key has its keyspace's number
//! before it, as four bytes that sort.
//!
//! ```text
//!   key in the store: [ number of the keyspace: 4 bytes, the highest first ][ key in the keyspace ]
//! ```
//! So the keys of a keyspace are side by side, in their order, and no scan of one keyspace that is
//! ended where the number changes sees another one. A load of one keyspace has its keys unchanged.

/// Bytes of a keyspace's number in front of a key.
pub const KEYSPACE_BYTES: usize = 4;

/// What the keys of this keyspace have before them.
#[must_use]
pub fn prefix(number: u32) -> [u8; KEYSPACE_BYTES] {
    [24, 16, 8, 0].map(|shift| (number >> shift) as u8)
}

/// The number of the keyspace, and the key in it, of a key of the store. A key without a number is
/// of keyspace 0.
#[must_use]
pub fn split(key: &[u8]) -> (u32, &[u8]) {
    match key.split_first_chunk::<KEYSPACE_BYTES>() {
        Some((number, key)) => {
            let digits = number.iter();
            let number = digits.fold(0, |number, digit| number << 8 | u32::from(*digit));
            (number, key)
        }
        None => (0, key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_keyspaces_sort_and_come_back() {
        let key = |number: u32, key: &[u8]| [&prefix(number)[..], key].concat();
        let keys = [
            key(0, b""),
            key(0, &[255; 9]),
            key(1, b"a"),
            key(256, b""),
            key(u32::MAX, b"z"),
        ];
        assert!(keys.is_sorted());
        assert_eq!(split(&keys[1]), (0, &[255; 9][..]));
        assert_eq!(split(&keys[3]), (256, &b""[..]));
        assert_eq!(split(&keys[4]), (u32::MAX, &b"z"[..]));
        assert_eq!(split(b"abc"), (0, &b"abc"[..]));
    }
}
