//! The key with which a scan of one record begins is looked up like the key of a get.
//!
//! ```text
//!   one record from k on   deltas have k                                   nothing is read
//!                          the log's index names run 2:
//!                            base   run 1  [run 2]  run 3                  one block is read
//!                          it names none:
//!                            [base]  run 1   run 2   run 3                 one block, if the
//!                                                                          base has k
//!   k is not there, or deleted: all tables are sought, as for any scan
//! ```
//! No key lies before the one that a scan begins with. So if that key is there, its record is all
//! that a scan of one record gives, and one table is read in place of all tables of the chunk.
//!
//! If the key is not there, the block of the base was waited for alone, before the blocks of the
//! runs. So the funk is asked only if the majority of such scans in the keyspace found their key
//! lately, and if the log's index is in RAM.
//!
//! It does not ask as a get does (`View::search_ram`): the refill has gathered the deltas already,
//! and the munk has not the key's span.
//!
//! Thread safety: works on a counted view; takes no pin. Not here: all other scans
//! ([`crate::read::sources`]).

use crate::catalog::KeyspaceState;
use crate::chunk::View;
use crate::engine::core::Core;
use crate::error::Result;
use crate::expiry::ReadTime;
use crate::read::buffer::Buffer;
use crate::read::sources::{FillSpan, Filled, GatheredDeltas};
use crate::read::tables::{Direction, TableHit};
use crate::visibility::live;
use evendb_storage::Kind;
use evendb_storage::key_hash::RamHash;
use evendb_storage::table::Found;

/// A scan that begins with a key, and wants one record.
pub(crate) struct FirstKey<'a> {
    key: &'a [u8],
    keyspace: &'a KeyspaceState,
    view: &'a View,
    span: &'a FillSpan<'a>,
}

impl<'a> FirstKey<'a> {
    /// For a scan that has given nothing yet and begins at `span` in `view`; `None` if the span has
    /// no key to begin with, or if more than one record is wanted.
    pub(crate) fn of(
        keyspace: &'a KeyspaceState,
        view: &'a View,
        span: &'a FillSpan<'a>,
    ) -> Option<FirstKey<'a>> {
        let only = span.records_max == 1 && span.direction == Direction::Forward;
        // With range deletions, each record has to be looked at.
        let key = span
            .from
            .filter(|key| only && view.covers.is_none() && span.wants(key))?;
        Some(FirstKey {
            key,
            keyspace,
            view,
            span,
        })
    }

    /// Fills with the key's record, if it is there and if that spares reads.
    pub(crate) fn fill(
        &self,
        core: &Core,
        buffer: &mut Buffer,
        gathered: &GatheredDeltas,
    ) -> Result<Option<Filled>> {
        let time = ReadTime::At(self.span.time);
        if let Some(record) = gathered.first_if(self.key) {
            let shown = live(record, time).filter(|record| record.kind() != Kind::Merge);
            return Ok(shown.map(|record| {
                buffer.push_record(record);
                self.filled()
            }));
        }
        let funk = &self.view.funk;
        if !self.leaves_tables_out() || !funk.search.is_set() || !self.keyspace.finds_first_keys() {
            return Ok(None);
        }
        let (hash, settings) = (RamHash::of(self.key), &core.search_settings);
        let found = funk.get(self.key, hash, self.span.at, settings, None)?;
        let shown = found.and_then(|(_, found)| live(found, time));
        let Some(found) = shown.filter(|found| found.kind != Kind::Merge) else {
            return Ok(None);
        };
        self.keyspace.note_first_key(true);
        buffer.push_block(self.key, &of_found(found));
        buffer.seal();
        Ok(Some(self.filled()))
    }

    /// Notes whether the key is there, after a fill from all tables.
    pub(crate) fn note(&self, buffer: &Buffer) {
        if self.leaves_tables_out() {
            let found = buffer.first_key() == Some(self.key);
            self.keyspace.note_first_key(found);
        }
    }

    /// Whether tables can be left unread if the key is there.
    fn leaves_tables_out(&self) -> bool {
        !self.view.funk.runs.is_empty()
    }

    fn filled(&self) -> Filled {
        Filled::UpTo(self.key.to_vec())
    }
}

fn of_found(found: Found) -> TableHit {
    TableHit {
        version: found.version,
        kind: found.kind,
        block: found.block,
        value: found.value,
    }
}
