//! Integers, varints, hashes and checksums: the one home of their bytes. Also the key after another
//! key.

/// The least key above `key`.
#[inline]
#[must_use]
pub fn successor(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

/// 64-bit hash of bytes, the same for ever and for every process. Tables in RAM use
/// [`crate::key_hash`] instead.
#[inline]
pub fn hash_key(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

/// Checksum of `parts` in order, seeded so that bytes valid elsewhere do not verify here.
pub fn checksum(seed: u64, parts: &[&[u8]]) -> u32 {
    let mut crc = (seed as u32) ^ ((seed >> 32) as u32).rotate_left(13);
    for part in parts {
        crc = crc32c::crc32c_append(crc, part);
    }
    crc
}

/// Continues a checksum: the result is the [`checksum`] of the earlier parts followed by `part`.
pub fn checksum_on(sum: u32, part: &[u8]) -> u32 {
    crc32c::crc32c_append(sum, part)
}

/// Appends `value` as a little-endian base-128 varint (1 to 10 bytes).
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads what [`put_varint`] wrote and advances `input`; `None` if cut short or too long.
pub fn get_varint(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    let mut shift = 0u32;
    loop {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            return None;
        }
        value |= part << shift;
        if byte < 0x80 {
            return Some(value);
        }
        shift += 7;
        if shift > 63 {
            return None;
        }
    }
}

/// Appends `bytes` behind their length as a varint.
pub fn put_slice(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads what [`put_slice`] wrote and advances `input`.
pub fn get_slice<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(get_varint(input)?).ok()?;
    let (bytes, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(bytes)
}

/// Reads a little-endian `u32` and advances `input`.
pub fn get_u32(input: &mut &[u8]) -> Option<u32> {
    let (bytes, rest) = input.split_first_chunk::<4>()?;
    *input = rest;
    Some(u32::from_le_bytes(*bytes))
}

/// Reads a little-endian `u64` and advances `input`.
pub fn get_u64(input: &mut &[u8]) -> Option<u64> {
    let (bytes, rest) = input.split_first_chunk::<8>()?;
    *input = rest;
    Some(u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn varints_at_their_edges() {
        for shift in 0..64 {
            for value in [
                1u64 << shift,
                (1 << shift) - 1,
                (1 << shift) | 1,
                u64::MAX >> shift,
            ] {
                let mut bytes = Vec::new();
                put_varint(&mut bytes, value);
                assert_eq!(
                    bytes.len(),
                    (64 - (value | 1).leading_zeros()).div_ceil(7) as usize
                );
                assert_eq!(get_varint(&mut &bytes[..]), Some(value));
                for len in 0..bytes.len() {
                    assert_eq!(get_varint(&mut &bytes[..len]), None);
                }
            }
        }
    }

    #[test]
    fn varints_that_are_too_long_are_refused() {
        assert_eq!(get_varint(&mut &[0x80; 20][..]), None);
        let mut eleven = [0x80; 11];
        eleven[10] = 0;
        assert_eq!(get_varint(&mut &eleven[..]), None);
        let mut too_much = [0xff; 10];
        too_much[9] = 2;
        assert_eq!(get_varint(&mut &too_much[..]), None);
    }

    #[test]
    fn hostile_slices_are_refused() {
        for len in [4, 1 << 32, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, len);
            bytes.extend_from_slice(b"abc");
            assert_eq!(get_slice(&mut &bytes[..]), None);
        }
    }

    /// Check values of CRC-32C and XXH3: what is on disk must not change with a dependency.
    #[test]
    fn checksum_and_hash_are_the_published_ones() {
        assert_eq!(checksum(0, &[b"123456789"]), 0xe306_9283);
        assert_eq!(checksum(0, &[b"1234", b"", b"56789"]), 0xe306_9283);
        assert_ne!(checksum(1, &[b"123456789"]), 0xe306_9283);
        assert_ne!(
            checksum(1 << 32, &[b"123456789"]),
            checksum(1, &[b"123456789"])
        );
        assert_eq!(hash_key(b""), 0x2d06_8005_38d3_94c2);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn round_trips(number in any::<u64>(), slice in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            put_slice(&mut bytes, &slice);
            bytes.extend_from_slice(&(number as u32).to_le_bytes());
            bytes.extend_from_slice(&number.to_le_bytes());
            let mut input = &bytes[..];
            prop_assert_eq!(get_varint(&mut input), Some(number));
            prop_assert_eq!(get_slice(&mut input), Some(&slice[..]));
            prop_assert_eq!(get_u32(&mut input), Some(number as u32));
            prop_assert_eq!(get_u64(&mut input), Some(number));
            prop_assert!(input.is_empty() && get_u32(&mut input).is_none());
        }

        #[test]
        fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..24)) {
            let _ = (get_varint(&mut &noise[..]), get_slice(&mut &noise[..]));
            let _ = (get_u32(&mut &noise[..]), get_u64(&mut &noise[..]));
        }
    }
}
