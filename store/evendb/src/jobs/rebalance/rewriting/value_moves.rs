//! Moves of values: where a rewrite meets a value whose file is being emptied, it writes the value
//! into the active file of moved values, and a record with the new place; the version stays. When
//! no record names the old file any more, the file goes.
//!
//! ```text
//! space round: too much is dead --> the deadest files are chosen
//!     --> chunks whose tables name one are rewritten --> their values move
//! ```
//! A rewrite that has moved values discards the records of its chunk that are in RAM, as after a
//! filter that has changed something: those records have the old places. A reader that has an old
//! place, and finds no file there, asks again (`read/large_values.rs`).
//!
//! Durability: moved values are synced before the rewrite's layout change is queued; [`Moves`]
//! keeps the files until the handles of the new tables keep them.
//!
//! Thread safety: [`Moves`] is one rewrite's.

use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::error::Result;
use crate::plant::planted;
use crate::value_files::{Needed, Origin};
use evendb_storage::{Apart, EntryRef, ErrorKind as StorageErrorKind};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// A record's value: the place of a value, possibly after a time.
type Place = SmallVec<[u8; 32]>;

/// The values that one rewrite moves.
pub(crate) struct Moves<'a> {
    pub(crate) core: &'a Core,
    pub(crate) disk: &'a Disk,
    from: BTreeSet<u64>,
    /// The files that the values are moved to.
    to: Vec<Needed>,
    /// For a planted fault.
    first: Option<Apart>,
}

impl<'a> Moves<'a> {
    /// Moves values out of the files that are being emptied now.
    pub(crate) fn new(core: &'a Core, disk: &'a Disk) -> Moves<'a> {
        Moves {
            core,
            disk,
            from: core.value_files.to_empty(),
            to: Vec::new(),
            first: None,
        }
    }

    /// Moves the value of a record if its file is being emptied; returns the record's new value
    /// then.
    pub(crate) fn moved(&mut self, entry: &EntryRef<'_>) -> Result<Option<Place>> {
        let Some(place) = Apart::of(entry.kind, entry.value) else {
            return Ok(None);
        };
        if !self.from.contains(&place.file) {
            return Ok(None);
        }
        let values = &self.core.value_files;
        let value = match values.read(&place) {
            Ok(Some(value)) => value,
            // The record stays as it is: the value is damaged for its readers, and for no other
            // call.
            Ok(None) => {
                values.note_damaged(place.file);
                return Ok(None);
            }
            Err(error) if error.kind() == StorageErrorKind::Corruption => {
                values.note_damaged(place.file);
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let appended = values.append(Origin::Move, &value, || self.disk.new_value_file_id());
        let (mut apart, file) = match appended {
            // The rewrite may be the one that makes room: it continues, and moves nothing more.
            Err(error) if error.kind() == StorageErrorKind::NoSpace => {
                self.from.clear();
                values.note_no_room();
                return Ok(None);
            }
            appended => appended?,
        };
        values.moved.add(value.len() as u64);
        if planted!(self.core.options, MovesLoseNewest) {
            apart = *self.first.get_or_insert(apart);
        }
        if !self.to.iter().any(|own| own.id() == file.id()) {
            self.to.push(file);
        }
        let mut moved = Place::from_slice(&entry.value[..entry.kind.prefix_bytes()]);
        moved.extend_from_slice(&apart.encode());
        Ok(Some(moved))
    }

    /// Makes the moved values durable; returns the files, which must be kept until the new tables
    /// have handles.
    pub(crate) fn finish(self) -> Result<Vec<Needed>> {
        if !self.to.is_empty() && !planted!(self.core.options, MovesNotSynced) {
            let synced = self.core.value_files.sync();
            synced.map_err(|error| self.core.health.latch(error.into()))?;
        }
        Ok(self.to)
    }
}
