//! Compression of data blocks: the bytes that replace a block's bytes if `stored` says so.
//!
//! ```text
//! payload = | length of the block v | LZ4 block, or Zstandard frame |
//! ```
//!
//! Only a block that gets smaller by an eighth is packed, and no block above [`RAW_BYTES_MAX`]. So
//! a reader refuses a greater length before it allocates, whatever the bytes are. Each table has
//! one [`Packer`]. The dictionary is the table's own: [`Packer::train`] makes it from the table's
//! first blocks, and it lies behind the data blocks.
//!
//! Zstandard exists only with the feature `zstd`. Without it, tables that need it are refused by
//! [`NEEDS_ZSTD`].
//!
//! A packer belongs to one thread; any thread may unpack. No I/O and no checksums here: a payload
//! was verified before it comes here.

#[cfg_attr(not(feature = "zstd"), path = "zstd_absent.rs")]
pub(crate) mod zstd;

use crate::codec;
use crate::table::stored::{Decoded, Malformed, zeroed};
use crate::table::{Codec, TableOptions};
use std::sync::Arc;
use zstd::{Compressor, Dictionary};

/// Longer blocks are stored as they are, and a payload that promises more is refused.
pub(crate) const RAW_BYTES_MAX: usize = 16 << 20;

/// A dictionary is made from this many bytes of blocks, and from at least the second number. If
/// there are fewer, there is no dictionary.
pub(crate) const SAMPLE_BYTES: usize = 512 << 10;
pub(crate) const SAMPLE_BYTES_MIN: usize = 64 << 10;

/// A dictionary has at most one part in this many of the blocks that it is made from.
const DICTIONARY_SHARE: usize = 32;

/// A dictionary is never longer than this.
pub(crate) const DICTIONARY_BYTES_MAX: usize = 1 << 20;

/// After this many blocks in a row that did not get smaller, only one block in this many is tried,
/// until one gets smaller. Trials of random values took a seventh of the processor's time when such
/// records were loaded.
const IN_VAIN_MAX: u32 = 8;

/// LZ4 cannot make more than this many bytes from one byte. A greater promise is a lie.
const LZ4_RATIO_MAX: usize = 255;

/// A table or block that this build cannot read. It is no damage.
pub(crate) const NEEDS_ZSTD: Malformed =
    Malformed("compressed by Zstandard, for which this build lacks the feature `zstd`");

/// Data that needs a missing dictionary.
pub(crate) const NO_DICTIONARY: Malformed =
    Malformed("block packed with a dictionary, which is missing or does not verify");

/// Packs the blocks of one table.
#[derive(Debug)]
pub(crate) struct Packer {
    wanted: Codec,
    packed: Vec<u8>,
    /// For Zstandard.
    compressor: Option<Box<Compressor>>,
    /// The number of blocks in a row before the next one that were stored as they are.
    in_vain: u32,
}

impl Packer {
    pub(crate) fn new(options: &TableOptions) -> Packer {
        let is_zstd = options.codec.is_zstd();
        Packer {
            wanted: options.codec,
            packed: Vec::new(),
            compressor: is_zstd.then(|| Box::new(Compressor::new(options.zstd_level))),
            in_vain: 0,
        }
    }

    /// Whether packing the next block is worth a trial. The blocks before it decide.
    fn is_tried(&self) -> bool {
        self.in_vain < IN_VAIN_MAX || self.in_vain.is_multiple_of(IN_VAIN_MAX)
    }

    /// Makes a dictionary from blocks that lie one after the other and have these lengths. From now
    /// on it packs with the dictionary. `None` if the blocks are too few or have too little in
    /// common.
    pub(crate) fn train(&mut self, blocks: &[u8], lens: &[usize]) -> Option<Vec<u8>> {
        let compressor = self.compressor.as_mut()?;
        if blocks.len() < SAMPLE_BYTES_MIN {
            return None;
        }
        let len = (blocks.len() / DICTIONARY_SHARE).min(SAMPLE_BYTES / DICTIONARY_SHARE);
        compressor.train(blocks, lens, len)
    }

    /// Packs the block in `buffer` from `start` to the end, in its place, if that makes it smaller
    /// by an eighth.
    pub(crate) fn pack(&mut self, buffer: &mut Vec<u8>, start: usize) -> Codec {
        let used = match self.is_tried() {
            true => self.try_to_pack(buffer, start),
            false => Codec::None,
        };
        self.in_vain = match used {
            Codec::None => self.in_vain.saturating_add(1),
            _ => 0,
        };
        used
    }

    fn try_to_pack(&mut self, buffer: &mut Vec<u8>, start: usize) -> Codec {
        let block = &buffer[start..];
        if self.wanted == Codec::None || block.len() > RAW_BYTES_MAX {
            return Codec::None;
        }
        self.packed.clear();
        codec::put_varint(&mut self.packed, block.len() as u64);
        let used = match &mut self.compressor {
            Some(compressor) => compressor.append(block, &mut self.packed),
            None => append_lz4(block, &mut self.packed),
        };
        match used {
            Some(used) if self.packed.len() <= block.len() - block.len() / 8 => {
                buffer.truncate(start);
                buffer.extend_from_slice(&self.packed);
                used
            }
            _ => Codec::None,
        }
    }
}

/// Appends the LZ4 block of `block`.
fn append_lz4(block: &[u8], packed: &mut Vec<u8>) -> Option<Codec> {
    let start = packed.len();
    let len_max = lz4_flex::block::get_maximum_output_size(block.len());
    packed.resize(start + len_max, 0);
    let len = lz4_flex::block::compress_into(block, &mut packed[start..]).ok()?;
    packed.truncate(start + len);
    Some(Codec::Lz4)
}

/// The block that a payload stands for, in an allocation of its own, which is as large as the
/// block.
pub(crate) fn unpack(
    mut payload: &[u8],
    used: Codec,
    dictionary: Option<&Dictionary>,
) -> Decoded<Arc<[u8]>> {
    if used == Codec::None {
        return Ok(Arc::from(payload));
    }
    if used.is_zstd() && !zstd::IS_THERE {
        return Err(NEEDS_ZSTD);
    }
    let dictionary = match (used, dictionary) {
        (Codec::ZstdDictionary, None) => return Err(NO_DICTIONARY),
        (Codec::ZstdDictionary, dictionary) => dictionary,
        _ => None,
    };
    let len = codec::get_varint(&mut payload)
        .and_then(|len| usize::try_from(len).ok())
        .ok_or(Malformed("packed block without a length"))?;
    let too_long = used == Codec::Lz4 && len > payload.len().saturating_mul(LZ4_RATIO_MAX);
    if too_long || len > RAW_BYTES_MAX {
        return Err(Malformed("packed block promises more than it can hold"));
    }
    let mut bytes = zeroed(len);
    let target = Arc::get_mut(&mut bytes).ok_or(Malformed("block shared while being filled"))?;
    let filled = match used {
        Codec::Lz4 => lz4_flex::block::decompress_into(payload, target).ok(),
        _ => zstd::decompress(payload, target, dictionary),
    };
    match filled == Some(len) {
        true => Ok(bytes),
        false => Err(Malformed("packed block does not unpack to its length")),
    }
}

/// The dictionary of a table.
pub(crate) fn dictionary(stored: &[u8]) -> Decoded<Dictionary> {
    if !zstd::IS_THERE {
        return Err(NEEDS_ZSTD);
    }
    let fits = stored.len() <= DICTIONARY_BYTES_MAX;
    let dictionary = fits.then(|| Dictionary::new(stored)).flatten();
    dictionary.ok_or(Malformed("dictionary that makes no sense"))
}

#[cfg(test)]
mod tests;
