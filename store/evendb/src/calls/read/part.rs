//! A part of a value.
//!
//! A value in a table, in memory or among operands is found as a whole, and cut. A value that lies
//! apart has one checksum for all of it: it is read and verified as a whole, piece by piece, and
//! only the part takes memory. Thread safety: any thread. Not here: the pieces
//! ([`crate::value_files`]).

use super::get::get_stored;
use super::large_values;
use crate::catalog::KeyspaceState;
use crate::engine::Engine;
use crate::error::Result;
use crate::expiry::ReadPoint;
use crate::value::Value;
use crate::value_files::cut;
use std::ops::Range;

/// The bytes of the value of `key`, as a reader sees it, that lie in `part`.
pub(crate) fn get_part_at(
    engine: &Engine,
    keyspace: &KeyspaceState,
    key: &[u8],
    point: ReadPoint<'_>,
    part: &Range<u64>,
) -> Result<Option<Value>> {
    let core = &engine.core;
    let mut is_cut = false;
    let ask = || get_stored(engine, keyspace, key, point);
    let found = large_values::in_place_by(core, ask, |place| {
        let bytes = core.value_files.read_part(place, part)?;
        is_cut = bytes.is_some();
        Ok(bytes)
    })?;
    Ok(found.map(|value| match is_cut {
        true => value,
        false => {
            let within = cut(part, value.len() as u64);
            value.part(within)
        }
    }))
}
