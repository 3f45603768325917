//! A load on one or several keyspaces, which RocksDB calls column families: a [`Model`] for each,
//! and what is said of the whole.
//!
//! ```text
//!   Workload: operations, rate, memory
//!      +-- Keyspace: name, share of the operations
//!      |      +-- Model: pairs, mix, sizes, scans, ranges, accesses of this keyspace
//!      +-- Keyspace ...
//! ```
//! An operation is drawn in two steps: its keyspace by the shares, then all else by the model of
//! that keyspace. The shares do not change over time, so all keyspaces have the swings of the one
//! rate.
//!
//! Invariants of a workload that was read or made: there is a keyspace; names differ; shares add
//! up to 1. In a model within a workload only what describes its keyspace counts: the name, the
//! operations, the rate and the memory are those of the workload. Plain data; threads may share it.

use crate::file::read::refused_name;
use crate::model::{Model, Rate};

/// A workload has at most this number of keyspaces.
pub const KEYSPACES_MAX: usize = 1024;
/// No name of a keyspace has more bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// The name of the only keyspace of a file without tables of keyspaces.
pub const DEFAULT_KEYSPACE: &str = "default";

/// The load on one keyspace, as a part of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Keyspace {
    /// The name, of 1 to [`NAME_BYTES_MAX`] bytes without control characters.
    pub name: String,
    /// The share of the workload's operations, from 0 to 1. With 0 the keyspace is loaded, and
    /// nothing is asked of it.
    pub share: f64,
    /// What is loaded and asked.
    pub load: Model,
}

/// A load on one or several keyspaces.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// A short name.
    pub name: String,
    /// Its origin, and what was measured.
    pub about: String,
    /// Operations of the whole load.
    pub operations: u64,
    /// Memory of the store on which the load was seen, in bytes, if known.
    pub memory_bytes: Option<u64>,
    /// Operations a second, of all keyspaces together. Without it, as fast as possible.
    pub rate: Option<Rate>,
    /// The keyspaces, at least one. A keyspace's place is its number.
    pub keyspaces: Vec<Keyspace>,
}

impl From<Model> for Workload {
    fn from(load: Model) -> Self {
        Self {
            name: load.name.clone(),
            about: load.about.clone(),
            operations: load.operations,
            memory_bytes: load.memory_bytes,
            rate: load.rate,
            keyspaces: vec![Keyspace {
                name: DEFAULT_KEYSPACE.to_owned(),
                share: 1.0,
                load,
            }],
        }
    }
}

impl From<&Model> for Workload {
    fn from(load: &Model) -> Self {
        load.clone().into()
    }
}

impl From<&Workload> for Workload {
    fn from(workload: &Workload) -> Self {
        workload.clone()
    }
}

impl Workload {
    /// The model of the whole, if there is one keyspace alone, with the name that a file without
    /// tables of keyspaces stands for.
    #[must_use]
    pub fn only(&self) -> Option<Model> {
        match &self.keyspaces[..] {
            [one] if one.name == DEFAULT_KEYSPACE => Some(Model {
                name: self.name.clone(),
                about: self.about.clone(),
                operations: self.operations,
                memory_bytes: self.memory_bytes,
                rate: self.rate,
                ..one.load.clone()
            }),
            _ => None,
        }
    }

    /// The model of one keyspace alone, which has its share of the operations and of the rate.
    #[must_use]
    pub fn of_keyspace(&self, name: &str) -> Option<Model> {
        let one = self.keyspaces.iter().find(|one| one.name == name)?;
        Some(Model {
            name: self.name.clone(),
            about: self.about.clone(),
            operations: ((self.operations as f64 * one.share).round() as u64).max(1),
            memory_bytes: self.memory_bytes,
            rate: self.rate.map(|rate| Rate {
                a: rate.a * one.share,
                d: rate.d * one.share,
                ..rate
            }),
            ..one.load.clone()
        })
    }

    /// Pairs of all keyspaces.
    #[must_use]
    pub fn pairs(&self) -> u64 {
        self.loads().map(|load| load.pairs).sum()
    }

    /// Bytes of all keys and values that are loaded; an estimate.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.loads().map(Model::data_bytes).sum()
    }

    /// Whether the values of any keyspace are counters for merges.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.loads().any(Model::counts)
    }

    /// The same load with this share of the pairs, operations and memory.
    #[must_use]
    pub fn scaled(&self, share: f64) -> Self {
        let scale = |number: u64| ((number as f64 * share).round() as u64).max(1);
        let scaled = |keyspace: &Keyspace| Keyspace {
            load: keyspace.load.scaled(share),
            ..keyspace.clone()
        };
        Self {
            operations: scale(self.operations),
            memory_bytes: self.memory_bytes.map(scale),
            keyspaces: self.keyspaces.iter().map(scaled).collect(),
            ..self.clone()
        }
    }

    fn loads(&self) -> impl Iterator<Item = &Model> {
        self.keyspaces.iter().map(|keyspace| &keyspace.load)
    }
}

/// Why a keyspace of a model cannot have this name. `None` if it can.
#[must_use]
pub fn why_refused(name: &str) -> Option<String> {
    refused_name(name)
}
