//! The report of a repair: what was saved, and what was lost.

use super::{ChunkName, Finding};
use std::ops::Range;

/// Data that was not saved, or perhaps not saved.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Loss {
    /// The name of the file.
    pub file: String,
    /// The bytes that could not be used.
    pub place: Option<Range<u64>>,
    /// What is wrong with them, and the consequence.
    pub what: String,
    /// The affected chunks, where they are known.
    pub chunks: Vec<ChunkName>,
    /// The lowest key that may be affected; `None`: every key up to `keys_to`.
    pub keys_from: Option<Vec<u8>>,
    /// The greatest key that may be affected; `None`: every key from `keys_from`.
    pub keys_to: Option<Vec<u8>>,
    /// The number of lost records, where it is known.
    pub records: Option<u64>,
    /// Affected keys may have an older value now, or a value although they were deleted.
    pub older_may_show: bool,
    /// False if perhaps nothing is lost: the last write before a crash looks the same if it was cut
    /// short.
    pub certain: bool,
}

impl Loss {
    pub(super) fn new(file: &str, place: Option<Range<u64>>, what: impl Into<String>) -> Loss {
        Loss {
            file: file.to_owned(),
            place,
            what: what.into(),
            chunks: Vec::new(),
            keys_from: None,
            keys_to: None,
            records: None,
            older_may_show: true,
            certain: true,
        }
    }

    /// Whether the loss may affect a key of a keyspace.
    pub fn concerns(&self, keyspace: &str, key: &[u8]) -> bool {
        let of_chunk = |chunk: &ChunkName| {
            chunk.keyspace == keyspace
                && *chunk.low <= *key
                && chunk.high.as_ref().is_none_or(|high| *key < **high)
        };
        (self.chunks.is_empty() || self.chunks.iter().any(of_chunk))
            && self.keys_from.as_ref().is_none_or(|from| **from <= *key)
            && self.keys_to.as_ref().is_none_or(|to| *key <= **to)
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let certain = if self.certain { "lost" } else { "perhaps lost" };
        write!(f, "{certain}: {}", self.file)?;
        if let Some(place) = &self.place {
            let bytes = place.end - place.start;
            let ending = if bytes == 1 { "" } else { "s" };
            write!(f, " at {}, {bytes} byte{ending}", place.start)?;
        }
        write!(f, ": {}", self.what)?;
        match self.records {
            Some(1) => f.write_str("; 1 record")?,
            Some(records) => write!(f, "; {records} records")?,
            None => {}
        }
        let key = |key: &[u8]| format!("`{}`", key.escape_ascii());
        for chunk in &self.chunks {
            write!(f, "; chunk {} of keyspace `{}`", chunk.id, chunk.keyspace)?;
        }
        if self.keys_from.is_some() || self.keys_to.is_some() {
            let from = self.keys_from.as_deref().map_or("the least".into(), key);
            let to = self.keys_to.as_deref().map_or("the greatest".into(), key);
            write!(f, "; keys {from} to {to}")?;
        }
        let names_keys =
            !self.chunks.is_empty() || self.keys_from.is_some() || self.keys_to.is_some();
        f.write_str(match (names_keys, self.older_may_show) {
            (true, true) => "; older values of such keys may have come to light",
            (false, true) => {
                "; which keys is not known, and older values of some may have come to light"
            }
            (_, false) => "",
        })
    }
}

/// The result of [`repair`](super::repair).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// The damage to the structure. Damage that cost nothing is listed here alone; other damage is
    /// a loss as well.
    pub findings: Vec<Finding>,
    /// The data that could not be saved.
    pub losses: Vec<Loss>,
    /// The keyspaces of the new database, each with the number of records put into it that have not
    /// expired.
    pub keyspaces: Vec<(String, u64)>,
    /// Expired records, by
    /// [`InspectOptions::wall_clock`](super::super::InspectOptions::wall_clock). They are in the
    /// new database with their times, and no read shows them.
    pub expired: u64,
    /// Records read from tables, all versions.
    pub table_records: u64,
    /// Operations read from the commit log.
    pub log_operations: u64,
}

impl RepairReport {
    /// Whether everything was saved, as far as a repair can know.
    pub fn is_complete(&self) -> bool {
        !self.losses.iter().any(|loss| loss.certain)
    }

    /// Records in the new database that a read shows.
    pub fn records(&self) -> u64 {
        self.keyspaces.iter().map(|(_, records)| records).sum()
    }
}
