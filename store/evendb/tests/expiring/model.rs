//! A map whose values expire and are merged into.

use std::collections::BTreeMap;

/// The value put to a key and its expiry, and the operands appended since by merges, which do not
/// expire.
#[derive(Clone, Default)]
pub struct Entry {
    put: Option<(Vec<u8>, Option<u64>)>,
    merged: Option<Vec<u8>>,
}

impl Entry {
    pub fn put(value: Vec<u8>, expires: Option<u64>) -> Entry {
        Entry {
            put: Some((value, expires)),
            merged: None,
        }
    }

    pub fn at(&self, time: u64) -> Option<Vec<u8>> {
        let is_live =
            |(_, expires): &&(Vec<u8>, Option<u64>)| expires.is_none_or(|expires| time < expires);
        let put = self
            .put
            .as_ref()
            .filter(is_live)
            .map(|(value, _)| &value[..]);
        let merged = self.merged.as_deref();
        let is_there = put.is_some() || merged.is_some();
        is_there.then(|| [put.unwrap_or_default(), merged.unwrap_or_default()].concat())
    }
}

/// A model: the puts and merges, by key.
#[derive(Clone, Default)]
pub struct Model(pub BTreeMap<Vec<u8>, Entry>);

impl Model {
    pub fn live(&self, time: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
        let each = self.0.iter();
        each.filter_map(|(key, entry)| Some((key.clone(), entry.at(time)?)))
            .collect()
    }

    pub fn merge(&mut self, key: Vec<u8>, operand: &[u8]) {
        let entry = self.0.entry(key).or_default();
        entry
            .merged
            .get_or_insert_default()
            .extend_from_slice(operand);
    }
}
