//! The key with which a scan of one record begins, asked for as a get asks for it.
//!
//! ```text
//!   one record from k on     deltas have k:                  nothing is read
//!                            the log's index names run 2     base   run 1  [run 2]  run 3     one block is read
//!                            it names none                  [base]  run 1   run 2   run 3     one block, if the base has k
//!   k is not there, or deleted: all tables are sought, as for any scan
//! ```
//! No key lies before the one that a scan begins with. So where that key is there, its record is all that a scan of one record
//! gives, and one table is read instead of all of the chunk's.
//!
//! Where the key is not there, the block of the base was waited for alone, before those of the runs. So the funk is asked only
//! if most such scans of the keyspace found their key lately, and if the log's index is in RAM.
//!
//! Thread safety: of a counted view; takes no pin. Not here: all other scans ([`super::fill`]).

use super::buffer::Buffer;
use super::fill::{FillSpan, Filled, GatheredDeltas};
use super::tables::{Direction, TableHit};
use crate::catalog::KeyspaceState;
use crate::chunk::View;
use crate::engine::caches::Caches;
use crate::error::Result;
use crate::expiry::ReadTime;
use crate::funk::Funk;
use crate::visibility::live;
use evendb_storage::Kind;
use evendb_storage::codec::hash_key;
use evendb_storage::table::Found;

/// Fills with the record of the key that the span begins with, if that is all that is wanted, and if it is there.
pub(super) fn fill(
    caches: &Caches,
    keyspace: &KeyspaceState,
    buffer: &mut Buffer,
    view: &View,
    gathered: &GatheredDeltas,
    span: &FillSpan<'_>,
) -> Result<Option<Filled>> {
    let Some(key) = only_key(view, span) else {
        return Ok(None);
    };
    let time = ReadTime::At(span.time);
    if let Some(record) = gathered.first_if(key) {
        let shown = live(record, time).filter(|record| record.kind() != Kind::Merge);
        return Ok(shown.map(|record| {
            buffer.push_record(record);
            Filled::UpTo(key.to_vec())
        }));
    }
    if !keyspace.finds_first_keys() || !is_spared(&view.funk) {
        return Ok(None);
    }
    let found = view
        .funk
        .get(key, hash_key(key), span.at, &caches.search_settings, None)?;
    let shown = found.and_then(|(_, found)| live(found, time));
    let Some(found) = shown.filter(|found| found.kind != Kind::Merge) else {
        return Ok(None);
    };
    keyspace.note_first_key(true);
    buffer.push_block(key, &of_found(found));
    buffer.seal();
    Ok(Some(Filled::UpTo(key.to_vec())))
}

/// Notes whether a span that was filled from all tables began with the first key that is there.
pub(super) fn note(keyspace: &KeyspaceState, buffer: &Buffer, view: &View, span: &FillSpan<'_>) {
    if let Some(key) = only_key(view, span)
        && !view.funk.runs.is_empty()
    {
        keyspace.note_first_key(buffer.first_key() == Some(key));
    }
}

/// The key that a span begins with, if its record may be all that is wanted.
fn only_key<'s>(view: &View, span: &FillSpan<'s>) -> Option<&'s [u8]> {
    let only = span.records_max == 1 && span.direction == Direction::Forward;
    // What range deletions hide is looked at record by record.
    span.from
        .filter(|key| only && view.covers.is_none() && span.wants(key))
}

/// Whether tables are left out if one has the key, and nothing must be loaded to know which one.
fn is_spared(funk: &Funk) -> bool {
    !funk.runs.is_empty() && funk.search.is_set()
}

fn of_found(found: Found) -> TableHit {
    TableHit {
        version: found.version,
        kind: found.kind,
        block: found.block,
        value: found.value,
    }
}
