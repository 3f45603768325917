//! A Bloom filter over key hashes, for absent keys of a table and for sections of a chunk's log.
//!
//! ```text
//! stored = | probes u8 | line 64 bytes | line | ... |     bit b of a line: byte b / 8, bit b % 8
//! ```
//!
//! Cache-line blocked: the high half of a hash picks one 64-byte line, and its low half picks
//! `probes` bits in that line. So a question costs one cache miss. The price is some accuracy:
//! about 1 % false positives at 10 bits a key, while an unblocked filter has 0.8 %.
//!
//! Immutable, shared freely, no I/O. The hashes on disk are [`crate::key_hash::FilterHash`].

const LINE_BYTES: usize = 64;
const LINE_BITS_LOG2: u32 = 9;

/// More probes gain nothing within one line.
const PROBES_MAX: u8 = 12;

/// 512 bits that share a cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; 8]);

/// An immutable Bloom filter.
#[derive(Clone)]
pub struct BloomFilter {
    lines: Box<[Line]>,
    probes: u8,
}

impl std::fmt::Debug for BloomFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "BloomFilter({} lines, {} probes)",
            self.lines.len(),
            self.probes
        )
    }
}

/// Bits of a hash within its line: word and mask, `probes` times.
fn bits(hash: u64, probes: u8) -> impl Iterator<Item = (usize, u64)> {
    // Each step's top bits are as good as new after a multiplication by 2^64 / golden ratio.
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = u64::from(hash as u32).wrapping_mul(GOLDEN);
    (0..probes).map(move |_| {
        let bit = state >> (64 - LINE_BITS_LOG2);
        state = state.wrapping_mul(GOLDEN);
        ((bit / 64) as usize, 1 << (bit % 64))
    })
}

/// The line of a hash among `lines` lines, without a division.
fn line_of(hash: u64, lines: usize) -> usize {
    (((hash >> 32) * lines as u64) >> 32) as usize
}

impl BloomFilter {
    /// A filter with the hashes `hashes` and about `bits_per_key` bits (at least 1) for each. The
    /// keys should be distinct, or the filter is larger than it needs to be. Without hashes it
    /// contains nothing.
    pub fn build(hashes: &[u64], bits_per_key: u32) -> BloomFilter {
        let bits_per_key = bits_per_key.max(1) as usize;
        let count = (hashes.len().saturating_mul(bits_per_key)).div_ceil(LINE_BYTES * 8);
        // `line_of` needs the number in 32 bits: 256 GiB.
        let count = count.min(u32::MAX as usize);
        let mut lines = vec![Line([0; 8]); count].into_boxed_slice();
        // The optimum is bits * ln 2; a line's uneven load makes it a little less.
        let probes = (bits_per_key.min(64) * 64 / 100).clamp(1, PROBES_MAX as usize) as u8;
        for &hash in hashes {
            let line = &mut lines[line_of(hash, count)];
            for (word, mask) in bits(hash, probes) {
                line.0[word] |= mask;
            }
        }
        BloomFilter { lines, probes }
    }

    /// `false` means that the filter was not built with `hash`.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        match self.lines.get(line_of(hash, self.lines.len())) {
            Some(line) => bits(hash, self.probes).all(|(word, mask)| line.0[word] & mask != 0),
            None => false,
        }
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.lines.len() * LINE_BYTES
    }

    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.probes);
        for word in self.lines.iter().flat_map(|line| line.0) {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Decodes the output of [`BloomFilter::encode`]; `None` if `stored` cannot be one. The caller
    /// verifies checksums.
    pub fn decode(stored: &[u8]) -> Option<BloomFilter> {
        let (&probes, bytes) = stored.split_first()?;
        let (chunks, rest) = bytes.as_chunks::<LINE_BYTES>();
        let whole = rest.is_empty() && u32::try_from(chunks.len()).is_ok();
        if !whole || !(1..=PROBES_MAX).contains(&probes) {
            return None;
        }
        let line = |chunk: &[u8; LINE_BYTES]| {
            let mut line = Line([0; 8]);
            for (word, bytes) in line.0.iter_mut().zip(chunk.as_chunks::<8>().0) {
                *word = u64::from_le_bytes(*bytes);
            }
            line
        };
        Some(BloomFilter {
            lines: chunks.iter().map(line).collect(),
            probes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::hash_key;

    fn hashes(range: std::ops::Range<u32>) -> Vec<u64> {
        range.map(|n| hash_key(&n.to_le_bytes())).collect()
    }

    #[test]
    fn no_false_negatives_and_few_false_positives() {
        // Upper bounds a third above what a blocked filter of this shape is expected to give.
        for (bits_per_key, bound) in [(4, 0.20), (8, 0.035), (10, 0.0135), (16, 0.002)] {
            let members = hashes(0..50_000);
            let filter = BloomFilter::build(&members, bits_per_key);
            assert!(members.iter().all(|&hash| filter.may_contain(hash)));
            let others = hashes(1_000_000..1_200_000);
            let wrong = others
                .iter()
                .filter(|&&hash| filter.may_contain(hash))
                .count();
            let rate = wrong as f64 / others.len() as f64;
            println!("{bits_per_key} bits a key: {rate:.5} false positives");
            assert!(rate < bound, "{bits_per_key} bits a key: rate {rate}");
            assert!(rate > 0.0, "a filter that never errs is not being asked");
        }
    }

    #[test]
    fn size_is_what_was_asked_for() {
        let filter = BloomFilter::build(&hashes(0..10_000), 10);
        assert!(filter.bytes() <= 10_000 * 10 / 8 + 2 * LINE_BYTES);
    }

    #[test]
    fn an_empty_filter_contains_nothing() {
        let filter = BloomFilter::build(&[], 10);
        assert!(
            !hashes(0..100)
                .into_iter()
                .any(|hash| filter.may_contain(hash))
        );
    }

    #[test]
    fn round_trip() {
        for count in [0, 1, 7, 1000] {
            let filter = BloomFilter::build(&hashes(0..count), 10);
            let mut bytes = Vec::new();
            filter.encode(&mut bytes);
            let back = BloomFilter::decode(&bytes).unwrap();
            let mut again = Vec::new();
            back.encode(&mut again);
            assert_eq!(bytes, again);
            for hash in hashes(0..3000) {
                assert_eq!(filter.may_contain(hash), back.may_contain(hash));
            }
        }
    }

    #[test]
    fn impossible_bytes_are_refused() {
        let mut bytes = Vec::new();
        BloomFilter::build(&hashes(0..100), 10).encode(&mut bytes);
        for len in (0..bytes.len()).filter(|len| *len == 0 || (len - 1) % LINE_BYTES != 0) {
            assert!(BloomFilter::decode(&bytes[..len]).is_none(), "length {len}");
        }
        for probes in [0, PROBES_MAX + 1, 255] {
            bytes[0] = probes;
            assert!(BloomFilter::decode(&bytes).is_none(), "{probes} probes");
        }
    }
}
