//! Values that are stored apart. Before anything is reserved or latched, they are written into the
//! active value file, and their records hold only the place ([`crate::value_files`]).
//!
//! If the write is refused afterwards, such a value is dead from the beginning and goes with its
//! file. A write keeps the files of its values ([`StoredApart`]) until it has noted which
//! checkpoint brings them into tables.
//!
//! A checkpoint is due when the new values fill a file, because an opening looks at all values that
//! no table names.
//!
//! Thread safety: any thread; nothing is held.

use crate::catalog::KeyspaceState;
use crate::engine::Engine;
use crate::error::Result;
use crate::op::{Op, OpKind};
use crate::record::RecordRef;
use crate::value_files::{Needed, Origin};
use crate::version::clock::checkpoint_of;
use crate::worker;
use evendb_storage::{Kind, Version};
use smallvec::SmallVec;

/// The largest number of files of values that wait for a checkpoint. Beyond that, writes wait, too.
const FILES_WAITING_MAX: u64 = 4;

/// The files that hold the values of one write.
#[derive(Default)]
pub(super) struct StoredApart {
    files: SmallVec<[Needed; 2]>,
}

impl StoredApart {
    pub(super) fn is_any(&self) -> bool {
        !self.files.is_empty()
    }

    /// Called when the write is announced: its records have this version.
    pub(super) fn note_written(&self, version: Version) {
        for file in &self.files {
            file.note_record(checkpoint_of(version));
        }
    }
}

/// Writes the long values of `ops` apart, and replaces their records by records that hold the
/// place.
pub(super) fn store(engine: &Engine, ops: &mut [Op<'_>]) -> Result<StoredApart> {
    let mut stored = StoredApart::default();
    for op in ops {
        if let Some(kind) = kind_if_long(engine, op) {
            store_one(engine, op, kind, &mut stored)?;
        }
    }
    Ok(stored)
}

/// Whether any value of `ops` would be written apart.
pub(super) fn are_any(engine: &Engine, ops: &[Op<'_>]) -> bool {
    ops.iter().any(|op| kind_if_long(engine, op).is_some())
}

/// The kind of a put whose value is to lie apart.
#[inline]
fn kind_if_long(engine: &Engine, op: &Op<'_>) -> Option<Kind> {
    let kind = match op.kind() {
        OpKind::One(kind @ (Kind::Put | Kind::PutUntil)) => kind,
        _ => return None,
    };
    let from = bytes_from(engine, op.keyspace);
    (op.record.value().len() - kind.prefix_bytes() >= from).then_some(kind)
}

/// The length in bytes from which on values of a keyspace are stored apart.
#[inline]
fn bytes_from(engine: &Engine, keyspace: &KeyspaceState) -> usize {
    let own = keyspace.values_apart_from();
    let default = engine.core.options.advanced.values_apart_from;
    match own.or(default) {
        None | Some(u32::MAX) => usize::MAX,
        Some(bytes) => bytes as usize,
    }
}

#[cold]
fn store_one(engine: &Engine, op: &mut Op<'_>, kind: Kind, stored: &mut StoredApart) -> Result<()> {
    if !stored.is_any() {
        engine.disk.full_disk.check(&engine.catalog)?;
        wait_for_checkpoint(engine)?;
    }
    let (prefix, value) = op.record.value().split_at(kind.prefix_bytes());
    let values = &engine.core.value_files;
    let (apart, file) = values.append(Origin::Put, value, || engine.disk.new_value_file_id())?;
    let place = [prefix, &apart.encode()].concat();
    let hash = op.record.kept_hash();
    let record = RecordRef::new(op.record.key(), &place, kind.apart(), hash);
    op.record = record;
    if !stored.files.iter().any(|own| own.id() == file.id()) {
        stored.files.push(file);
    }
    Ok(())
}

/// Asks for a checkpoint when the values since the last one fill a file, and waits for it when they
/// fill [`FILES_WAITING_MAX`] files.
fn wait_for_checkpoint(engine: &Engine) -> Result<()> {
    let core = &engine.core;
    let since = core.value_files.since_checkpoint();
    let due = core.options.advanced.value_file_bytes;
    if since < due {
        return Ok(());
    }
    if core.manual() {
        worker::relieve(engine);
    } else if since < FILES_WAITING_MAX.saturating_mul(due) {
        engine.work.want_checkpoint();
    } else {
        let now = checkpoint_of(core.clock.now());
        worker::wait_for_checkpoint(engine, now)?;
    }
    Ok(())
}
