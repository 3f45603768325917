//! Random numbers, and damage to any bytes.

/// SplitMix64: small, and the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }

    /// A number below `end`; 0 if that is 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % (end as u64).max(1)) as usize
    }

    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// A number that a length field should not have.
    pub(crate) fn absurd(&mut self) -> u64 {
        let near = [
            0,
            1,
            127,
            128,
            1 << 16,
            1 << 17,
            1 << 20,
            1 << 28,
            1 << 31,
            1 << 32,
            1 << 62,
            1 << 63,
            u64::MAX,
        ];
        let number = near[self.below(near.len())];
        match self.below(4) {
            0 => number.wrapping_sub(1),
            1 => number.wrapping_add(1),
            2 => self.next(),
            _ => number,
        }
    }

    fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        let start = self.below(len + 1);
        let most = (len - start).min(if self.one_in(2) { 8 } else { len });
        start..start + self.below(most + 1)
    }

    /// Damages bytes once, somewhere. Returns where the first difference may be.
    pub(crate) fn damage(&mut self, bytes: &mut Vec<u8>) -> usize {
        let range = self.range(bytes.len());
        let at = range.start;
        match self.below(9) {
            0 => bytes.truncate(at),
            1 | 2 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            3 => {
                bytes.drain(range);
            }
            4 => {
                let len = self.below(40);
                let more = self.bytes(len);
                bytes.splice(at..at, more);
            }
            5 => {
                let part = bytes[range].to_vec();
                let to = self.below(bytes.len() + 1);
                bytes.splice(to..to, part);
                return to;
            }
            6 => {
                let with = [0, 0xff, b'\n', b','][self.below(4)];
                bytes[range].fill(with);
            }
            7 => {
                let absurd = self.absurd().to_le_bytes();
                let width = [1, 4, 8][self.below(3)].min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&absurd[..width]);
            }
            _ => {
                let len = range.len();
                let random = self.bytes(len);
                bytes[range].copy_from_slice(&random);
            }
        }
        at
    }
}
