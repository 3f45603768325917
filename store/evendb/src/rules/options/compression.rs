//! How tables are compressed: the choice, its text, and what it means for tables.
//!
//! ```text
//! none | lz4 | zstd | zstd:level        level 1 to 22; zstd alone is level 3
//! ```
//! The manifest keeps the text with the level. A build without the feature `zstd` knows that
//! choice, and refuses it by name. Plain data. Not here: how blocks are compressed (`packing` of
//! the storage crate).

use super::within;
use crate::error::{Error, ErrorKind, Result};
use evendb_storage::table::{Codec, HAS_ZSTD};
use std::fmt;
use std::str::FromStr;

/// Compression of data on disk, block by block. A block that does not get smaller by an eighth is
/// stored as it is.
///
/// As text it is `none`, `lz4`, `zstd` or `zstd:level`:
/// ```
/// use evendb::Compression;
/// let chosen: Compression = "zstd:9".parse()?;
/// assert_eq!(chosen, Compression::Zstd { level: 9 });
/// assert_eq!(Compression::Lz4.to_string(), "lz4");
/// # Ok::<(), evendb::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// LZ4: fast to make and to read.
    Lz4,
    /// Zstandard: smaller than LZ4, and slower. An SSTable above a certain size has a dictionary,
    /// made of its first records. Only in builds with the feature `zstd`; others refuse it, and
    /// tables that have it, as [`Unsupported`](crate::ErrorKind::Unsupported).
    Zstd {
        /// The effort of compression, 1 to 22. Reading costs the same at each level.
        level: u8,
    },
}

/// The level of the text `zstd` without a level; it is the library's default.
const LEVEL: u8 = 3;

const LEVEL_LIMITS: (u64, u64) = (1, 22);

impl Compression {
    pub(super) fn check_level(self) -> Result<()> {
        match self {
            Compression::Zstd { level } => within("level of zstd", u64::from(level), LEVEL_LIMITS),
            Compression::None | Compression::Lz4 => Ok(()),
        }
    }

    /// Refuses a level that does not exist, and a compression that this build cannot make or read.
    pub(crate) fn check(self) -> Result<()> {
        self.check_level()?;
        if matches!(self, Compression::Zstd { .. }) && !HAS_ZSTD {
            let message = format!(
                "compression {self} needs the feature `zstd`, which this build of EvenDB lacks"
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(())
    }

    pub(super) fn codec(self) -> Codec {
        match self {
            Compression::None => Codec::None,
            Compression::Lz4 => Codec::Lz4,
            Compression::Zstd { .. } => Codec::ZstdDictionary,
        }
    }

    pub(super) fn zstd_level(self) -> i32 {
        match self {
            Compression::Zstd { level } => i32::from(level),
            Compression::None | Compression::Lz4 => i32::from(LEVEL),
        }
    }

    /// The default size of blocks: without compression the system's page, with compression a size
    /// that becomes about one page.
    pub(super) fn block_bytes(self) -> usize {
        match self {
            Compression::None => 4 << 10,
            Compression::Lz4 | Compression::Zstd { .. } => 8 << 10,
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compression::None => f.write_str("none"),
            Compression::Lz4 => f.write_str("lz4"),
            Compression::Zstd { level } => write!(f, "zstd:{level}"),
        }
    }
}

impl FromStr for Compression {
    type Err = Error;

    fn from_str(text: &str) -> Result<Compression> {
        let level = |text: &str| match text.strip_prefix("zstd") {
            Some("") => Some(LEVEL),
            Some(rest) => rest.strip_prefix(':')?.parse().ok(),
            None => None,
        };
        let found = match text {
            "none" => Some(Compression::None),
            "lz4" => Some(Compression::Lz4),
            text => level(text).map(|level| Compression::Zstd { level }),
        };
        let message = || format!("{text:?} is no compression: none, lz4, zstd or zstd:level is");
        let found = found.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, message()))?;
        found.check_level().map(|()| found)
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_compression_is_what_its_text_says() {
        let zstd = |level| Compression::Zstd { level };
        for chosen in [Compression::None, Compression::Lz4, zstd(1), zstd(22)] {
            assert_eq!(chosen.to_string().parse::<Compression>().unwrap(), chosen);
        }
        assert_eq!("zstd".parse::<Compression>().unwrap(), zstd(3));
        for nonsense in [
            "", "LZ4", "zstd3", "zstd:-1", "zstd:256", "zstd:23", "zstd:0",
        ] {
            let refused = nonsense.parse::<Compression>().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{nonsense}");
        }
    }

    #[test]
    fn what_this_build_lacks_is_refused_by_name() {
        let checked = Compression::Zstd { level: 3 }.check();
        match HAS_ZSTD {
            true => assert!(checked.is_ok()),
            false => {
                let refused = checked.unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::Unsupported);
                assert!(refused.to_string().contains("feature `zstd`"), "{refused}");
            }
        }
        assert!(Compression::Zstd { level: 0 }.check().is_err());
        assert!(Compression::Lz4.check().is_ok());
    }
}
