//! The tables of a model file in the form of the file, before anything is checked.
//!
//! Sizes, ranges and accesses are flat tables with a name and the fields that it needs, so that an
//! error of a field can name the field. With alternatives, it could name only the table. For the
//! same reason a kind's own table of ranges or accesses, which stands within the common one, has
//! the same type.
//!
//! A file of one keyspace is a [`File`]; one of several is a [`SeveralFile`]. [`LoadTables`] are
//! the tables that both have for a keyspace.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// Whether a file has tables of keyspaces.
#[derive(Deserialize)]
pub(super) struct Form {
    pub keyspace: Option<IgnoredAny>,
}

/// A file of several keyspaces.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SeveralFile {
    pub format: u32,
    pub name: String,
    #[serde(default)]
    pub about: String,
    pub operations: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateTable>,
    pub keyspace: Vec<KeyspaceTable>,
}

/// One keyspace of several.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyspaceTable {
    pub name: String,
    pub share: f64,
    pub pairs: u64,
    pub mix: MixTable,
    pub keys: SizesTable,
    pub values: ValuesTable,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scans: Option<SizesTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranges: Option<RangesTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accesses: Option<AccessesTable>,
}

/// What a file says of one keyspace.
#[derive(Clone, Copy)]
pub(super) struct LoadTables<'a> {
    pub pairs: u64,
    pub mix: &'a MixTable,
    pub keys: &'a SizesTable,
    pub values: &'a ValuesTable,
    pub scans: Option<&'a SizesTable>,
    pub ranges: Option<&'a RangesTable>,
    pub accesses: Option<&'a AccessesTable>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub format: u32,
    pub name: String,
    #[serde(default)]
    pub about: String,
    pub pairs: u64,
    pub operations: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    pub mix: MixTable,
    pub keys: SizesTable,
    pub values: ValuesTable,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scans: Option<SizesTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranges: Option<RangesTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accesses: Option<AccessesTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateTable>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MixTable {
    #[serde(default)]
    pub get: f64,
    #[serde(default)]
    pub put: f64,
    #[serde(default)]
    pub delete: f64,
    #[serde(default)]
    pub merge: f64,
    #[serde(default)]
    pub scan: f64,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct SizesTable {
    pub spread: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub k: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sigma: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theta: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bars: Option<Vec<Bar>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bar {
    pub size: u64,
    pub share: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ValuesTable {
    #[serde(default)]
    pub compressible: u8,
    pub put: SizesTable,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loaded: Option<SizesTable>,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RangesTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs_per_table: Option<f64>,
    pub curve: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub c: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub e: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub get: Option<Box<RangesTable>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub put: Option<Box<RangesTable>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete: Option<Box<RangesTable>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merge: Option<Box<RangesTable>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan: Option<Box<RangesTable>>,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct AccessesTable {
    pub by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<f64>,
    pub b: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub get: Option<Box<AccessesTable>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub put: Option<Box<AccessesTable>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete: Option<Box<AccessesTable>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merge: Option<Box<AccessesTable>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan: Option<Box<AccessesTable>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RateTable {
    pub a: f64,
    pub b: f64,
    pub c: f64,
    pub d: f64,
}

impl File {
    pub(super) fn load(&self) -> LoadTables<'_> {
        LoadTables {
            pairs: self.pairs,
            mix: &self.mix,
            keys: &self.keys,
            values: &self.values,
            scans: self.scans.as_ref(),
            ranges: self.ranges.as_ref(),
            accesses: self.accesses.as_ref(),
        }
    }
}

impl KeyspaceTable {
    pub(super) fn load(&self) -> LoadTables<'_> {
        LoadTables {
            pairs: self.pairs,
            mix: &self.mix,
            keys: &self.keys,
            values: &self.values,
            scans: self.scans.as_ref(),
            ranges: self.ranges.as_ref(),
            accesses: self.accesses.as_ref(),
        }
    }
}

impl RangesTable {
    /// The tables that kinds have of their own, in the order of
    /// [`Kind::ALL`](crate::model::Kind::ALL).
    pub(super) fn own(&self) -> [Option<&Self>; 5] {
        let all = [&self.get, &self.put, &self.delete, &self.merge, &self.scan];
        all.map(Option::as_deref)
    }
}

impl AccessesTable {
    /// The tables that kinds have of their own, in the order of
    /// [`Kind::ALL`](crate::model::Kind::ALL).
    pub(super) fn own(&self) -> [Option<&Self>; 5] {
        let all = [&self.get, &self.put, &self.delete, &self.merge, &self.scan];
        all.map(Option::as_deref)
    }
}
