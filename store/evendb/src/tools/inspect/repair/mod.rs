//! `repair`: writes all that can be read of a damaged database into a new one; the old database
//! stays as it is.
//!
//! 1. It reads the commit log, also behind its holes. The log's operations are newer than any
//!    table, and count in their order.
//! 2. Chunk by chunk, in key order, it reads the chunk's tables block by block and merges them: the
//!    greatest version of a key wins, and with equal versions the newer table. Deletes hide older
//!    records, and so do the range deletions in the manifest.
//! 3. If edits of the manifest are lost, it looks in all files for tables that no edit names. A
//!    table does not say which keyspace it belongs to: each goes to a keyspace of its own, or all
//!    go into the only keyspace, if the caller states that there was only one.
//! 4. It puts the winners into the new database, and closes it.
//!
//! A record with an expiry time keeps that time, even if the time has passed: the clock of the
//! machine that repairs may be wrong. No read shows an expired record, and no older record takes
//! its place. The report counts expired records apart.
//!
//! Every stretch that could not be read is a [`Loss`] with the keys that it may have held; the loss
//! also says whether older values of these keys may show now. Memory: the operations of the commit
//! log, and one chunk.

use super::load::{self, Loaded, LockedDirectory, manifests};
use super::{
    ChunkName, Finding, FindingKind, InspectOptions, Progress, Severity, chunk_name, tables,
};
use crate::api::db::Db;
use crate::api::keyspace::Keyspace;
use crate::catalog::DEFAULT_KEYSPACE;
use crate::commit_log::Lsn;
use crate::error::{Error, ErrorKind, Result};
use crate::expiry::StoppedClock;
use crate::files::COMMIT_LOG;
use crate::manifest::KeyspaceId;
use crate::manifest::edit::ChunkRecord;
use crate::manifest::state::ManifestState;
use crate::options::{Advanced, Durability, KeyspaceOptions, Layout, Options};
use crate::range_set::RangeSet;
use crate::sync::Arc;
use crate::value_files;
use evendb_base::placement;
use evendb_storage::{Apart, Error as StorageError, Kind, TableId, Time};
use find::Found;
use salvage::{Operated, Winners, hide, overlay};
use std::collections::BTreeMap;
use std::path::Path;

mod find;
mod log;
mod report;
mod salvage;

pub use report::{Loss, RepairReport};

/// Options of a repair.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepairOptions {
    /// The database had one keyspace: tables that nothing names are merged into it.
    pub one_keyspace: bool,
}

/// Writes what can be read of the closed database in `path` into a new database in `into`.
///
/// # Errors
/// `NotFound` if there is no database, `Locked` if it is open for writing, `AlreadyExists` if
/// `into` exists and is not an empty directory, `InvalidArgument` if `into` lies inside the
/// directory of a database or of backups, `Unsupported` if tables need a feature that this build
/// lacks, and the errors of writing to the new database.
pub fn repair(
    path: impl AsRef<Path>,
    into: impl AsRef<Path>,
    options: RepairOptions,
    mut inspect: InspectOptions<'_>,
) -> Result<RepairReport> {
    let directory = load::lock(&inspect, path.as_ref())?;
    let into = into.as_ref();
    refuse_used(&directory, into)?;
    let loaded = Loaded::read(&directory);
    let mut report = RepairReport::default();
    report.findings.clone_from(&loaded.findings);
    structure_losses(&directory, &loaded, &mut report);
    let containers = tables::containers(&directory)?;
    let mut repairer = Repairer {
        directory: &directory,
        loaded: &loaded,
        options,
        containers,
        report,
        stale: loaded.edits_lost,
        log: BTreeMap::new(),
        lost_extents: Vec::new(),
        unplaced: Vec::new(),
        misplaced: BTreeMap::new(),
        progress: Progress::default(),
        time: inspect.time(),
        inspect: &mut inspect,
    };
    repairer.read_commit_log()?;
    repairer.find_tables()?;
    repairer.refuse_lacking()?;
    let database = repairer.create(into)?;
    repairer.keyspaces(&database)?;
    repairer.rest_of_log(&database)?;
    repairer.unnamed_tables(&database)?;
    database.close()?;
    Ok(repairer.report)
}

fn refuse_used(directory: &LockedDirectory, into: &Path) -> Result<()> {
    let vfs = &directory.vfs;
    let used = vfs.exists(into).and_then(|there| match there {
        true => vfs.list(into).map(|names| !names.is_empty()),
        false => Ok(false),
    });
    match used.map_err(StorageError::at(into, "look at the new directory"))? {
        true => {
            let message = format!("{} is not empty", into.display());
            Err(Error::new(ErrorKind::AlreadyExists, message))
        }
        false => {
            let what = "a repaired database";
            placement::refuse_inside(&**vfs, into, what)?;
            // The damage may be in the file by which `refuse_inside` recognizes a database.
            placement::refuse_at(&**vfs, into, &directory.dir, what)
        }
    }
}

/// Reports damage to the structure as losses, where it may cost data.
fn structure_losses(directory: &LockedDirectory, loaded: &Loaded, report: &mut RepairReport) {
    let one_manifest = manifests(directory).len() == 1;
    for (finding, told) in loaded.findings.iter().zip(&mut report.findings) {
        let offset = finding.offset;
        let place = offset
            .zip(finding.len)
            .map(|(start, len)| start..start + len);
        let mut loss = Loss::new(&finding.file, place, &*finding.what);
        match finding.kind {
            FindingKind::Lock => continue,
            FindingKind::Current | FindingKind::Missing
                if loaded.manifest.is_some() && !loaded.edits_lost =>
            {
                // The manifest that stands in may be the one in force, or one before or after
                // it. A
                // single manifest is known to be the one in force.
                if one_manifest {
                    told.what += "; nothing is lost by that: the only manifest stands in";
                    continue;
                }
                loss.certain = false;
                loss.what += "; the newest of several manifests stands in, and an older one may have \
                              been in force";
            }
            _ => loss.certain = finding.severity == Severity::Corruption,
        }
        report.losses.push(loss);
    }
}

/// A put in its stored form.
#[derive(Clone)]
struct Stored {
    kind: Kind,
    value: Vec<u8>,
}

impl Stored {
    /// `None` for a delete.
    fn of(kind: Kind, value: &[u8]) -> Option<Stored> {
        let value = value.to_vec();
        (!kind.is_tombstone()).then_some(Stored { kind, value })
    }
}

/// Operations of the commit log on one keyspace, in their order.
#[derive(Default)]
struct Operations {
    /// By key. They came after the range deletions in `deleted`.
    ones: BTreeMap<Vec<u8>, Operated>,
    deleted: RangeSet,
}

struct Repairer<'r, 'o> {
    directory: &'r LockedDirectory,
    loaded: &'r Loaded,
    options: RepairOptions,
    containers: tables::Containers,
    report: RepairReport,
    /// Edits of the manifest are lost: there may be tables that it should name and does not name.
    stale: bool,
    log: BTreeMap<KeyspaceId, Operations>,
    /// Value extents that do not verify: the record that names the extent, and whether the extent
    /// was synced before that record.
    lost_extents: Vec<(Lsn, bool, Loss)>,
    /// Tables that nothing names, by id.
    unplaced: Vec<Found>,
    /// Tables found in files of other names.
    misplaced: BTreeMap<TableId, Found>,
    progress: Progress,
    /// A record whose time is at or before this time has expired.
    time: Time,
    inspect: &'r mut InspectOptions<'o>,
}

/// The layout of a keyspace, as its chunks tell.
fn layout_of(state: &ManifestState, keyspace: KeyspaceId) -> Layout {
    let mut chunks = state.chunks.values();
    match chunks.any(|chunk| chunk.keyspace == keyspace && chunk.guards.is_some()) {
        true => Layout::Guards,
        false => Layout::Chunks,
    }
}

/// The layout of the default keyspace.
fn default_layout(state: &ManifestState) -> Layout {
    let mut all = state.keyspaces.iter();
    let default = all.find(|(_, name)| *name == DEFAULT_KEYSPACE);
    default.map_or(Layout::Chunks, |(id, _)| layout_of(state, *id))
}

impl Repairer<'_, '_> {
    fn advance(&mut self, bytes: u64) {
        self.progress.done = self.progress.done.saturating_add(bytes);
        self.progress.total = self.progress.total.max(self.progress.done);
        self.inspect.tell(self.progress);
    }

    fn create(&mut self, into: &Path) -> Result<Db> {
        let state = &self.loaded.state;
        let parts = state.chunks.values().flat_map(|chunk| &chunk.parts);
        let greatest = parts.map(|part| part.meta.data_bytes).max().unwrap_or(0);
        let unplaced = self.unplaced.iter().map(|found| found.len).max();
        let logged = self.log.values().flat_map(|operations| &operations.ones);
        let logged = logged.map(|(key, operated)| key.len() as u64 + operated.bytes());
        let greatest = greatest
            .max(unplaced.unwrap_or(0))
            .max(logged.max().unwrap_or(0));
        let keys = self.inspect.encryption.clone();
        Options::new()
            .vfs(self.inspect.files())
            .create_if_missing(true)
            .error_if_exists(true)
            .layout(default_layout(state))
            .durability(Durability::Relaxed)
            // A value may take a quarter of the budget.
            .memory_budget((256 << 20).max(greatest.saturating_mul(5)))
            .advanced(|advanced| {
                // Expired records are saved, too.
                let stopped = Arc::new(StoppedClock);
                let advanced = advanced.munks(false).row_cache(false).wall_clock(stopped);
                Advanced {
                    encryption: keys,
                    ..advanced
                }
            })
            .open(into)
    }

    fn keyspaces(&mut self, database: &Db) -> Result<()> {
        let loaded = self.loaded;
        for (id, name) in &loaded.state.keyspaces {
            let made = KeyspaceOptions::new().layout(layout_of(&loaded.state, *id));
            let keyspace = match database.keyspace_with(name, &made) {
                Ok(keyspace) => keyspace,
                Err(error) if error.kind() == ErrorKind::InvalidArgument => continue,
                Err(error) => return Err(error),
            };
            let properties = loaded.state.properties.get(id);
            let options = properties.map(KeyspaceOptions::of_properties);
            if let Some(Ok(options)) = options
                && let Err(error) = keyspace.set_options(&options)
                && error.kind() != ErrorKind::InvalidArgument
            {
                return Err(error);
            }
            for (name, value) in properties.into_iter().flatten() {
                match keyspace.set_property(name, value) {
                    Err(error) if error.kind() != ErrorKind::InvalidArgument => return Err(error),
                    _ => {}
                }
            }
            let mut chunks: Vec<&ChunkRecord> = loaded.state.chunks.values().collect();
            chunks.retain(|chunk| chunk.keyspace == *id);
            chunks.sort_by(|a, b| a.low.cmp(&b.low));
            let operations = self.log.remove(id).unwrap_or_default();
            let merge_unplaced = self.options.one_keyspace && loaded.state.keyspaces.len() == 1;
            let mut records = 0;
            for (index, chunk) in chunks.iter().enumerate() {
                let high = chunks.get(index + 1).map(|next| next.low.as_slice());
                let mut winners = self.chunk(chunk, high);
                if merge_unplaced {
                    self.merge_unplaced(&chunk.low, high, &mut winners);
                }
                hide(&mut winners, chunk);
                overlay(&mut winners, &operations, &chunk.low, high);
                records += self.put(&keyspace, winners)?;
            }
            if merge_unplaced {
                self.tell_unplaced(name);
                self.unplaced.clear();
            }
            self.report.keyspaces.push((name.clone(), records));
        }
        Ok(())
    }

    /// The put with its value, which may have been apart; `None` if the value is lost.
    fn in_place(&mut self, key: &[u8], stored: Stored) -> Option<Stored> {
        let Some(place) = Apart::of(stored.kind, &stored.value) else {
            return Some(stored);
        };
        let path = value_files::file_path(&self.directory.dir, place.file);
        let file = self.directory.vfs.open(&path, false);
        let read = file.map_err(|error| error.to_string()).and_then(|file| {
            let read = value_files::read_value(&*file, &path, &place);
            read.map_err(|error| error.to_string())
        });
        match read {
            Ok(value) => {
                let prefix = &stored.value[..stored.kind.prefix_bytes()];
                Some(Stored {
                    kind: stored.kind.in_place(),
                    value: [prefix, &value].concat(),
                })
            }
            Err(what) => {
                let name = value_files::file_name(place.file);
                let bytes = place.offset..place.offset.saturating_add(place.len.into());
                let what = format!("the value of key \"{}\": {what}", key.escape_ascii());
                let mut loss = Loss::new(&name, Some(bytes), what);
                loss.keys_from = Some(key.to_vec());
                loss.keys_to = Some(key.to_vec());
                self.report.losses.push(loss);
                None
            }
        }
    }

    fn put(&mut self, keyspace: &Keyspace, winners: Winners) -> Result<u64> {
        let mut records = 0;
        for (key, (version, _, saved)) in winners {
            let (stored, operands) = saved.put_over(version);
            let mut has_expired = false;
            let stored = match stored {
                Some(stored) => self.in_place(&key, stored),
                None => None,
            };
            if let Some(Stored { kind, value }) = &stored {
                let expires = kind.expires(value);
                has_expired = expires.is_some_and(|expires| expires <= self.time);
                keyspace.put_until(&key, &value[kind.prefix_bytes()..], expires)?;
            }
            // This works without the merge operator.
            if !operands.is_empty() {
                keyspace.merge_listed(&key, &operands)?;
            }
            // Operands over an expired value apply to no value.
            let is_hidden = has_expired && operands.is_empty();
            self.report.expired += u64::from(is_hidden);
            let is_there = stored.is_some() || !operands.is_empty();
            records += u64::from(is_there && !is_hidden);
        }
        Ok(records)
    }

    /// Saves the operations on keyspaces whose creation is lost.
    fn rest_of_log(&mut self, database: &Db) -> Result<()> {
        for (id, operations) in std::mem::take(&mut self.log) {
            let name = format!("recovered-{}", id.0);
            let mut winners = Winners::new();
            overlay(&mut winners, &operations, &[], None);
            let records = self.put(&database.keyspace(&name)?, winners)?;
            let what = format!(
                "keyspace {} was created by a lost edit: what the log has of it is in `{name}`",
                id.0
            );
            self.report.losses.push(Loss::new(COMMIT_LOG, None, what));
            self.report.keyspaces.push((name, records));
        }
        Ok(())
    }
}
