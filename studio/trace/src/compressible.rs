//! [`Compressible`]: how far the values of a load compress, measured as a store would see it.
//!
//! ```text
//!   values in their order:  | v1 | v2 | v3 ...      gathered until a block is full
//!                           [ block of 16 KiB ] --> LZ4 --> stored / raw
//! ```
//! A store compresses blocks of several values, so equal parts of neighbouring values count too.
//! Keys are not in the blocks. Only the first [`BYTES_MAX`](Compressible::BYTES_MAX) bytes of
//! values are looked at, which bounds the cost.

/// The bytes of a block, as in stores.
const BLOCK_BYTES: usize = 16 << 10;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Compressible {
    block: Vec<u8>,
    raw: u64,
    stored: u64,
}

impl Compressible {
    /// Values beyond this number of bytes are not looked at.
    pub const BYTES_MAX: u64 = 64 << 20;

    /// Looks at a value.
    pub fn add(&mut self, value: &[u8]) {
        let mut rest = value;
        while !rest.is_empty() && self.raw + (self.block.len() as u64) < Self::BYTES_MAX {
            let (part, after) = rest.split_at(rest.len().min(BLOCK_BYTES - self.block.len()));
            self.block.extend_from_slice(part);
            rest = after;
            if self.block.len() == BLOCK_BYTES {
                self.end_block();
            }
        }
    }

    fn end_block(&mut self) {
        let packed = lz4_flex::block::compress(&self.block).len();
        self.raw += self.block.len() as u64;
        // A block that does not compress is stored as it is.
        self.stored += packed.min(self.block.len()) as u64;
        self.block.clear();
    }

    /// The bytes that were looked at.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.raw + self.block.len() as u64
    }

    /// Compressed bytes divided by bytes: 1 for values that do not compress. `None` if there was no
    /// value.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let mut whole = self.clone();
        if !whole.block.is_empty() {
            whole.end_block();
        }
        (whole.raw > 0).then(|| whole.stored as f64 / whole.raw as f64)
    }

    /// The percentage of a value that compresses to next to nothing, as models have it: 0 to 100.
    #[must_use]
    pub fn percentage(&self) -> Option<u8> {
        let ratio = self.ratio()?;
        Some((100.0 * (1.0 - ratio)).round().clamp(0.0, 100.0) as u8)
    }
}
