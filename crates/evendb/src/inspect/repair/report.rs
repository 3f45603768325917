//! What a repair did: what was saved, and what was lost.

use super::{ChunkName, Finding};
use std::ops::Range;

/// Something that could not be saved, or not for sure.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Loss {
    /// Name of the file.
    pub file: String,
    /// The bytes that could not be used.
    pub place: Option<Range<u64>>,
    /// What is wrong with them, and what follows.
    pub what: String,
    /// The chunks concerned, where it is known.
    pub chunks: Vec<ChunkName>,
    /// Keys at or above this may be concerned; `None`: from the least.
    pub keys_from: Option<Vec<u8>>,
    /// Keys up to and with this may be concerned; `None`: up to the greatest.
    pub keys_to: Option<Vec<u8>>,
    /// How many records are lost, where it is known.
    pub records: Option<u64>,
    /// Keys concerned may have an older value now, or one although they were deleted.
    pub older_may_show: bool,
    /// False where nothing may be lost at all: a last write that a crash cut short looks the same.
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

    /// Whether the loss may concern a key of a keyspace.
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

/// What [`repair`](super::repair) did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// What was wrong with the structure, also what costs nothing: then no loss tells of it.
    pub findings: Vec<Finding>,
    /// What could not be saved.
    pub losses: Vec<Loss>,
    /// The keyspaces of the new database and the records put into each that have not expired.
    pub keyspaces: Vec<(String, u64)>,
    /// Records that have expired, by [`InspectOptions::wall_clock`](super::super::InspectOptions::wall_clock). They are in the
    /// new database with their times, and no read shows them.
    pub expired: u64,
    /// Records read from tables, all versions.
    pub table_records: u64,
    /// Operations read from the commit log.
    pub log_operations: u64,
}

impl RepairReport {
    /// Whether everything was saved, as far as can be known.
    pub fn is_complete(&self) -> bool {
        !self.losses.iter().any(|loss| loss.certain)
    }

    /// Records in the new database that a read shows.
    pub fn records(&self) -> u64 {
        self.keyspaces.iter().map(|(_, records)| records).sum()
    }
}
