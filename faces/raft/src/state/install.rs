//! Replaces the state by a snapshot, in keyspaces of the next generation (see [`super`]).
//!
//! ```text
//! ingest each keyspace --> one batch: generation, applied, membership, start of changes
//!                      --> checkpoint --> drop the keyspaces of the old generation
//! ```
//! An error before the batch leaves the state as it was; so does a crash before the checkpoint. A
//! crash later leaves the new state. Memory: the file's frame that is read, and one ingest.

use super::{
    APPLIED, Applied, CHANGES_FROM, Declared, GENERATION, Generation, MEMBERSHIP, NO_CHANGES,
    State, damaged, place, stored_name,
};
use crate::snapshot::{Piece, Reader};
use evendb::{Db, Ingest, Keyspace, KeyspaceOptions, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Drops the keyspaces of all other generations.
pub(super) fn drop_others(db: &Db, generation: u64) -> Result<()> {
    for name in db.keyspace_names() {
        let number = name
            .split_once('/')
            .and_then(|(number, _)| number.parse::<u64>().ok());
        if number.is_some_and(|number| number != generation) {
            db.drop_keyspace(&name)?;
        }
    }
    Ok(())
}

/// Opens the keyspaces of a generation: those that are there, and those that are declared.
pub(super) fn open_generation(db: &Db, number: u64, declared: &[Declared]) -> Result<Generation> {
    let mut keyspaces = BTreeMap::new();
    for one in declared {
        let keyspace = db.keyspace_with(&stored_name(number, &one.name), &one.options)?;
        keyspaces.insert(one.name.clone(), keyspace);
    }
    for stored in db.keyspace_names() {
        let Some((prefix, name)) = stored.split_once('/') else {
            continue;
        };
        if prefix.parse() == Ok(number) && !keyspaces.contains_key(name) {
            keyspaces.insert(name.to_owned(), db.keyspace(&stored)?);
        }
    }
    Ok(Generation { number, keyspaces })
}

impl State {
    /// Replaces everything by what the snapshot has, durably on return. Reads go on. Blocks.
    ///
    /// # Errors
    /// `Corruption` if the file does not verify; then, as after any error of an ingest, the state
    /// is as it was. An error of the checkpoint at the end leaves the new state, not durable yet.
    pub fn install(&self, reader: &mut Reader, applied: Applied) -> Result<()> {
        let old = self.generation();
        let number = old
            .number
            .checked_add(1)
            .ok_or_else(|| damaged("a generation"))?;
        drop_others(&self.db, old.number)?;
        if let Err(error) = self.ingest(reader, number) {
            // What stays is dropped by the next install or opening.
            let _ = drop_others(&self.db, old.number);
            return Err(error);
        }
        let new = Arc::new(open_generation(&self.db, number, &self.declared)?);
        self.replace(new, applied)?;
        self.db.persist()?;
        drop_others(&self.db, number)
    }

    fn replace(&self, new: Arc<Generation>, applied: Applied) -> Result<()> {
        let mut batch = self.db.batch();
        batch.put(&self.meta, GENERATION, new.number.to_le_bytes());
        let index = applied.last.as_ref().map_or(0, |(index, _)| *index);
        match &applied.last {
            Some((index, id)) => batch.put(&self.meta, APPLIED, place(*index, id)),
            None => batch.delete(&self.meta, APPLIED),
        };
        batch.put(&self.meta, MEMBERSHIP, &applied.membership);
        let from = if self.changes_kept == 0 {
            NO_CHANGES
        } else {
            index
        };
        batch.put(&self.meta, CHANGES_FROM, from.to_le_bytes());
        batch.delete_range::<[u8; 8]>(&self.changes, ..);
        // A moment is taken before both or after both.
        let mut current = self.current.write();
        batch.commit()?;
        *current = new;
        drop(current);
        self.advance(|progress| {
            progress.applied = applied;
            progress.changes_from = from;
        });
        Ok(())
    }

    fn ingest(&self, reader: &mut Reader, number: u64) -> Result<()> {
        let mut ingest: Option<Ingest> = None;
        while let Some(piece) = reader.next_piece()? {
            match piece {
                Piece::Keyspace(name) => {
                    finish(ingest.take())?;
                    let keyspace = self.keyspace_of(number, &name)?;
                    ingest = Some(keyspace.begin_ingest()?);
                }
                Piece::Record(key, value) => {
                    let ingest = ingest.as_mut().ok_or_else(|| damaged("a snapshot"))?;
                    ingest.put(key, value)?;
                }
            }
        }
        finish(ingest)
    }

    fn keyspace_of(&self, number: u64, name: &str) -> Result<Keyspace> {
        let declared = self.declared.iter().find(|declared| declared.name == *name);
        let options = declared.map_or_else(KeyspaceOptions::new, |one| one.options.clone());
        self.db.keyspace_with(&stored_name(number, name), &options)
    }
}

fn finish(ingest: Option<Ingest>) -> Result<()> {
    match ingest {
        Some(ingest) => ingest.finish().map(|_| ()),
        None => Ok(()),
    }
}
