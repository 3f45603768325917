//! Integers, varints, hashes and checksums: the one home of their bytes.

/// 64-bit hash of a key: one per operation, shared by tags, log index, filters and row cache.
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
