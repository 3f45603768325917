//! Zstandard, by the library of that name. This is the one place that calls it, with the feature
//! `zstd`. Without the feature, the types of `zstd_absent` replace it.
//!
//! A frame has no checksum, because the stored block has one. It has the id of its dictionary:
//! unpacking with another dictionary fails. A [`Compressor`] belongs to one thread; a
//! [`Dictionary`] is shared freely. Unpacking keeps about 160 KiB for each thread that unpacked. No
//! allocation depends on what a frame says.

use crate::table::Codec;
use std::cell::Cell;
use std::fmt;
use zstd::zstd_safe::{self, CCtx, CDict, DCtx, DDict};

/// Whether this build has Zstandard.
pub(crate) const IS_THERE: bool = true;

thread_local! {
    /// The state of unpacking, kept for the next block.
    static UNPACKING: Cell<Option<DCtx<'static>>> = const { Cell::new(None) };
}

/// Packs block after block.
pub(crate) struct Compressor {
    context: CCtx<'static>,
    level: i32,
    dictionary: Option<CDict<'static>>,
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_dictionary = self.dictionary.is_some();
        write!(f, "Compressor(level {}, {has_dictionary})", self.level)
    }
}

impl Compressor {
    pub(crate) fn new(level: i32) -> Compressor {
        Compressor {
            context: CCtx::create(),
            level,
            dictionary: None,
        }
    }

    /// Makes a dictionary of at most `len` bytes, and packs with it from now on.
    pub(crate) fn train(&mut self, samples: &[u8], lens: &[usize], len: usize) -> Option<Vec<u8>> {
        let dictionary = zstd::dict::from_continuous(samples, lens, len).ok()?;
        // A dictionary without an id could not be distinguished from another one.
        zstd_safe::get_dict_id_from_dict(&dictionary)?;
        self.dictionary = Some(CDict::try_create(&dictionary, self.level)?);
        Some(dictionary)
    }

    /// Appends the frame of `block`.
    pub(crate) fn append(&mut self, block: &[u8], packed: &mut Vec<u8>) -> Option<Codec> {
        let start = packed.len();
        packed.resize(start + zstd_safe::compress_bound(block.len()), 0);
        let target = &mut packed[start..];
        let (len, used) = match &self.dictionary {
            Some(dictionary) => (
                self.context.compress_using_cdict(target, block, dictionary),
                Codec::ZstdDictionary,
            ),
            None => (
                self.context.compress(target, block, self.level),
                Codec::Zstd,
            ),
        };
        packed.truncate(start + len.ok()?);
        Some(used)
    }
}

/// The dictionary with which a table's blocks were packed, ready for unpacking.
pub(crate) struct Dictionary(DDict<'static>);

impl Dictionary {
    /// `None` if the bytes are no dictionary with an id.
    pub(crate) fn new(bytes: &[u8]) -> Option<Dictionary> {
        zstd_safe::get_dict_id_from_dict(bytes)?;
        DDict::try_create(bytes).map(Dictionary)
    }

    /// Bytes of memory it takes.
    pub(crate) fn resident_bytes(&self) -> usize {
        self.0.sizeof()
    }
}

/// Fills `target` with the bytes that a frame stands for. Returns their number; `None` if it is no
/// frame or the bytes do not fit.
pub(crate) fn decompress(
    frame: &[u8],
    target: &mut [u8],
    dictionary: Option<&Dictionary>,
) -> Option<usize> {
    let mut context = UNPACKING.take().or_else(DCtx::try_create)?;
    let filled = match dictionary {
        Some(dictionary) => context.decompress_using_ddict(target, frame, &dictionary.0),
        None => context.decompress(target, frame),
    };
    UNPACKING.set(Some(context));
    filled.ok()
}
