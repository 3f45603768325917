//! What is known of the values that a replay has written: whether a read must find the bytes that
//! it found in the trace.
//!
//! A value whose length alone is in the trace is made up, and so are the values that
//! [`prepare`](super::prepare) puts: a read of it has the right length and other bytes. Whether a
//! value is made up follows from the writes since the beginning of the trace.
//!
//! Memory: 16 bytes for each key that is written, and only for traces that have values and the
//! hashes of what was found.

use std::collections::HashMap;

use evendb_trace::{Header, value_hash};

use super::work::{Ask, Bytes, Part};

/// The origin of a key's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// The value of the trace.
    Trace,
    /// Perhaps made up: the trace has not written it.
    MadeUp,
    /// Operands of the trace over a value that was made up.
    Mixed,
}

/// See the module.
pub(super) struct Values {
    /// `None`: nothing is followed, because the trace has no values (all are made up), or no hashes
    /// to compare.
    written: Option<HashMap<u64, bool>>,
}

impl Values {
    pub(super) fn new(header: &Header, compare: bool) -> Values {
        let is_followed = compare && header.has_values && header.has_hashes;
        Values {
            written: is_followed.then(HashMap::new),
        }
    }

    /// The origin of this key's value now.
    pub(super) fn source(&self, key: &[u8]) -> Source {
        let written = self.written.as_ref();
        match written.and_then(|written| written.get(&value_hash(key))) {
            None => Source::MadeUp,
            Some(true) => Source::Trace,
            Some(false) => Source::Mixed,
        }
    }

    /// Follows the work that the store is asked.
    pub(super) fn ask(&mut self, ask: &Ask) {
        let Some(written) = &mut self.written else {
            return;
        };
        match ask {
            Ask::Put(key, value, _) => put(written, key, value),
            Ask::Merge(key, operand) => merge(written, key, operand),
            Ask::Delete(key) | Ask::Expire(key) => gone(written, key),
            Ask::Parts(parts) => {
                for part in parts {
                    match part {
                        Part::Put(key, value, _) => put(written, key, value),
                        Part::Merge(key, operand) => merge(written, key, operand),
                        Part::Delete(key) => gone(written, key),
                        Part::DeleteRange(..) => {}
                    }
                }
            }
            Ask::Get(_) | Ask::DeleteRange(..) | Ask::Pop(..) | Ask::Scan { .. } => {}
        }
    }
}

fn put(written: &mut HashMap<u64, bool>, key: &[u8], value: &Bytes) {
    match value {
        Bytes::Known(_) => drop(written.insert(value_hash(key), true)),
        Bytes::Len(_) => drop(written.remove(&value_hash(key))),
    }
}

/// Notes that the key has no value: a merge over it then gives the trace's bytes.
fn gone(written: &mut HashMap<u64, bool>, key: &[u8]) {
    written.insert(value_hash(key), true);
}

fn merge(written: &mut HashMap<u64, bool>, key: &[u8], operand: &Bytes) {
    let value = written.entry(value_hash(key)).or_default();
    *value &= matches!(operand, Bytes::Known(_));
}
