//! `verify`: every checksum and every invariant of the bytes on disk.
//!
//! The order of reading: structure, container by offset, SSTables, commit log, value extents,
//! names. Each finding names the damaged unit: a frame, a block, a record, a file.
//!
//! Thread safety: none, one thread verifies a closed database. Not here: the commit log and what it
//! names (`log`), and values in value files (`values`).

mod log;
mod values;

use super::load::{self, Loaded, LockedDirectory};
use super::tables::{self, NamedTable};
use super::{
    Checked, ChunkName, Finding, FindingKind, InspectOptions, Progress, VerifyReport, chunk_name,
};
use crate::error::Result;
use crate::files::{
    COMMIT_LOG, CONTAINER, CURRENT, DAMAGED_LOG, KEYS, LOCK, container_name, in_container,
    is_own_name,
};
use crate::kept_changes;
use crate::manifest::current::CURRENT_LEN;
use crate::manifest::edit::{ChunkRecord, Part, Place, Role};
use crate::manifest::state::ManifestState;
use crate::manifest::writer;
use crate::manifest::{Age, KeyspaceId, LEVELS, Level};
use crate::value_extents;
use crate::version::clock::checkpoint_of;
use evendb_base::inspect::{TableLook, list, lost_keys, unnamed_file, wrong_length};
use evendb_storage::Error as StorageError;
use evendb_storage::vfs::File;
use log::BadExtent;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use values::NamedValues;

/// Checks every checksum and invariant on disk of the closed database in `path`. It writes nothing;
/// damage is in the report.
///
/// # Errors
/// `NotFound` if there is no database, `Locked` if it is open for writing, `Io`.
pub fn verify(path: impl AsRef<Path>, mut options: InspectOptions<'_>) -> Result<VerifyReport> {
    let directory = load::lock(&options, path.as_ref())?;
    let loaded = Loaded::read(&directory);
    let mut verifier = Verifier {
        directory: &directory,
        state: &loaded.state,
        options: &mut options,
        report: VerifyReport::default(),
        progress: Progress::default(),
        extents_named: BTreeSet::new(),
        bad_extents: Vec::new(),
        values: NamedValues::default(),
    };
    verifier.report.findings.clone_from(&loaded.findings);
    verifier.count_structure(&loaded);
    let (named, contradictions) = tables::named(&loaded.state);
    verifier.progress.total = named
        .iter()
        .map(|named| named.part.meta.len)
        .fold(loaded.state.ring_bytes, u64::saturating_add);
    for (chunk, table) in contradictions {
        let what = format!("chunk {} knows table {:#x} differently", chunk.0, table.0);
        verifier.structure(&loaded, what, &[]);
    }
    verifier.chunks(&loaded);
    verifier.container_places(&named)?;
    verifier.tables(&named)?;
    verifier.commit_log(&loaded)?;
    verifier.table_values();
    verifier.names(&loaded, &named);
    Ok(verifier.report)
}

struct Verifier<'v, 'o> {
    directory: &'v LockedDirectory,
    state: &'v ManifestState,
    options: &'v mut InspectOptions<'o>,
    report: VerifyReport,
    progress: Progress,
    /// Value extents that records of the log name.
    extents_named: BTreeSet<u64>,
    bad_extents: Vec<BadExtent>,
    values: NamedValues,
}

impl Verifier<'_, '_> {
    fn find(&mut self, finding: Finding) -> &mut Finding {
        list(&mut self.report.findings, finding)
    }

    fn structure(&mut self, loaded: &Loaded, what: impl Into<String>, chunks: &[&ChunkRecord]) {
        let name = loaded.manifest.map(writer::manifest_name);
        let name = name.unwrap_or_else(|| CURRENT.to_owned());
        let chunks = self.chunk_names(chunks);
        let kind = FindingKind::Structure;
        self.find(Finding::corruption(kind, &name, None, what))
            .chunks = chunks;
    }

    fn chunk_names(&self, chunks: &[&ChunkRecord]) -> Vec<ChunkName> {
        let name = |chunk: &&ChunkRecord| chunk_name(self.state, chunk);
        chunks.iter().map(name).collect()
    }

    fn live(&mut self, file: &str, range: Range<u64>) {
        let ranges = self.report.live.entry(file.to_owned()).or_default();
        match ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => ranges.push(range),
        }
    }

    fn advance(&mut self, bytes: u64) {
        self.report.checked.bytes = self.report.checked.bytes.saturating_add(bytes);
        self.progress.done = self.progress.done.saturating_add(bytes);
        self.options.tell(self.progress);
    }

    fn count_structure(&mut self, loaded: &Loaded) {
        let live = loaded.live.iter().map(|range| range.end - range.start);
        self.report.checked = Checked {
            files: 1 + u64::from(loaded.manifest.is_some()),
            bytes: live.sum::<u64>() + CURRENT_LEN as u64,
            edits: loaded.edits,
            keyspaces: loaded.state.keyspaces.len() as u64,
            chunks: loaded.state.chunks.len() as u64,
            ..Checked::default()
        };
        self.live(CURRENT, 0..CURRENT_LEN as u64);
        if let Some(id) = loaded.manifest {
            for range in &loaded.live {
                self.live(&writer::manifest_name(id), range.clone());
            }
        }
    }

    /// Checks the invariants between the parts of each chunk.
    fn chunks(&mut self, loaded: &Loaded) {
        let state = self.state;
        let mut highs: BTreeMap<(KeyspaceId, &[u8]), &ChunkRecord> = BTreeMap::new();
        for chunk in state.chunks.values() {
            highs.insert((chunk.keyspace, &chunk.low), chunk);
        }
        let in_order: Vec<_> = highs.into_values().collect();
        for (index, chunk) in in_order.iter().enumerate() {
            let next = in_order
                .get(index + 1)
                .filter(|next| next.keyspace == chunk.keyspace);
            let high = next.map(|next| next.low.as_slice());
            // Each contradiction is passed on at once: a report lists only a part of them.
            wrong_in_chunk(state, chunk, high, &mut |what| {
                self.structure(loaded, what, &[chunk]);
            });
        }
        if let Some(epoch) = state.epochs.back()
            && epoch.completed_before > state.completed
        {
            let what = "an epoch began after a checkpoint that was never completed";
            self.structure(loaded, what, &[]);
        }
    }

    /// Checks that extents lie in their containers, in whole sectors, and do not overlap.
    fn container_places(&mut self, named: &[NamedTable<'_>]) -> Result<()> {
        let containers = tables::containers(self.directory)?;
        let mut lens = BTreeMap::new();
        for (&number, file) in &containers {
            let len = file.len();
            let len = len.map_err(StorageError::at(file.path(), "look at the chunks' logs"))?;
            lens.insert(number, len);
        }
        let in_extents = named.iter().filter_map(|named| match named.part.place {
            Place::Extent { offset } => Some((named, in_container(offset))),
            Place::File => None,
        });
        let needed: BTreeSet<u64> = in_extents.clone().map(|(_, (number, _))| number).collect();
        for number in needed.union(&[self.state.container].into()) {
            let what = "the chunks' logs are missing";
            let name = container_name(*number);
            if !lens.contains_key(number) {
                let kind = FindingKind::Missing;
                self.find(Finding::corruption(kind, &name, None, what));
            }
        }
        self.report.checked.files += lens.len() as u64;
        let mut free_from = (0, 0);
        for (named, (number, offset)) in in_extents {
            let Some(&len) = lens.get(&number) else {
                continue;
            };
            let end = offset.saturating_add(named.part.meta.len);
            let wrong = if number > self.state.container {
                Some((
                    FindingKind::Structure,
                    "a run in logs that were never begun",
                ))
            } else if !offset.is_multiple_of(512) {
                Some((FindingKind::Structure, "a run does not begin at a sector"))
            } else if end > len {
                Some((FindingKind::Length, "a run lies beyond the file's end"))
            } else if (number, offset) < free_from {
                Some((FindingKind::Structure, "two runs overlap"))
            } else {
                None
            };
            free_from = free_from.max((number, end.saturating_add(511) / 512 * 512));
            if let Some((kind, what)) = wrong {
                let chunks = self.chunk_names(&named.chunks);
                let what = format!("{what}: {:#x}", named.part.table.0);
                let (name, range) = (container_name(number), Some(offset..end));
                self.find(Finding::corruption(kind, &name, range, what))
                    .chunks = chunks;
            }
        }
        Ok(())
    }

    fn tables(&mut self, named: &[NamedTable<'_>]) -> Result<()> {
        let containers = tables::containers(self.directory)?;
        for named in named {
            let name = tables::file_name(named.part);
            let file = match tables::open(self.directory, &containers, named.part) {
                Ok(file) => {
                    let (part, start) = (named.part, tables::start(named.part));
                    tables::refuse_lacking(&*file, start, part.meta.len, part.table)?;
                    file
                }
                Err(what) => {
                    let chunks = self.chunk_names(&named.chunks);
                    self.find(Finding::corruption(FindingKind::Missing, &name, None, what))
                        .chunks = chunks;
                    continue;
                }
            };
            if named.part.place == Place::File {
                self.report.checked.files += 1;
                self.check_length(&*file, &name, named);
            }
            self.table(&*file, &name, named);
        }
        Ok(())
    }

    fn check_length(&mut self, file: &dyn File, name: &str, named: &NamedTable<'_>) {
        if let Some((place, what)) = wrong_length(file, named.part.meta.len) {
            let chunks = self.chunk_names(&named.chunks);
            self.find(Finding::corruption(FindingKind::Length, name, place, what))
                .chunks = chunks;
        }
    }

    fn table(&mut self, file: &dyn File, name: &str, named: &NamedTable<'_>) {
        let (part, whole) = (named.part, tables::place(named.part));
        let look = TableLook::new(file, whole.clone(), part.table);
        let checked = &mut self.report.checked;
        checked.tables += 1;
        checked.blocks += look.examined.blocks;
        checked.records += look.examined.records;
        self.live(name, whole.clone());
        self.advance(part.meta.len);
        for place in look.places {
            self.values.add(place, None);
        }
        let chunks = self.chunk_names(&named.chunks);
        for damage in look.damages {
            let at = |relative: u64| whole.start.saturating_add(relative);
            let place = at(damage.place.start)..at(damage.place.end);
            let (id, lost) = (part.table.0, lost_keys(&damage));
            let what = format!("{} of table {id:#x}: {}{lost}", damage.part, damage.what);
            let kind = FindingKind::Table;
            self.find(Finding::corruption(kind, name, Some(place), what))
                .chunks
                .clone_from(&chunks);
        }
        if let Some(meta) = look.facts.meta
            && !part.is_of(&meta)
        {
            let what = format!(
                "table {:#x} verifies but is not the one that the manifest names",
                part.table.0
            );
            let kind = FindingKind::WrongTable;
            self.find(Finding::corruption(kind, name, Some(whole), what))
                .chunks = chunks;
        }
    }

    /// Reports files that nothing names.
    fn names(&mut self, loaded: &Loaded, named: &[NamedTable<'_>]) {
        let mut known: BTreeSet<String> = named
            .iter()
            .map(|named| tables::file_name(named.part))
            .collect();
        known.extend(
            self.extents_named
                .iter()
                .map(|&id| value_extents::file_name(id)),
        );
        known.extend(self.values.files());
        known.extend(loaded.manifest.map(writer::manifest_name));
        known.insert(container_name(loaded.state.container));
        for name in &self.directory.names {
            if name.starts_with(DAMAGED_LOG) {
                let what = "a commit log that was found damaged, as it was when somebody gave up what \
                            was behind the damage; nothing reads it, delete it when nobody needs it";
                self.find(Finding::warning(
                    FindingKind::CommitLogHole,
                    name,
                    None,
                    what,
                ));
            }
            if let Some(id) = kept_changes::file_id(name) {
                self.kept_changes(name, id);
            }
            let other = [LOCK, CURRENT, COMMIT_LOG, CONTAINER, KEYS].contains(&name.as_str());
            if !other && is_own_name(name) && !known.contains(name) {
                let what = unnamed_file(loaded.whole);
                self.find(Finding::warning(FindingKind::Orphan, name, None, what));
            }
        }
    }
}

/// Gives `tell` the contradictions among the guards of one chunk and their tables.
fn wrong_in_guards(chunk: &ChunkRecord, tell: &mut dyn FnMut(String)) {
    let is_level = |level: Level| (1..LEVELS).contains(&usize::from(level.0));
    for guard in chunk.guards.iter().flat_map(|guards| &guards.keys) {
        if guard.key.is_empty() || !is_level(guard.level) {
            tell("a guard that no tree has".to_owned());
        }
    }
    let mut runs: BTreeMap<(Level, Age), Vec<&Part>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for part in &chunk.parts {
        if !seen.insert(part.table) && chunk.guards.is_some() {
            tell(format!("table {:#x}: at two places", part.table.0));
        }
        if let Role::Fragment { level, age } = part.role {
            if !is_level(level) {
                tell(format!(
                    "table {:#x}: in a level that there is not",
                    part.table.0
                ));
            }
            runs.entry((level, age)).or_default().push(part);
        }
    }
    for run in runs.values_mut() {
        run.sort_by(|a, b| a.meta.min_key.cmp(&b.meta.min_key));
        for pair in run.windows(2) {
            if pair[0].meta.max_key >= pair[1].meta.min_key {
                let (a, b) = (pair[0].table.0, pair[1].table.0);
                tell(format!("tables {a:#x} and {b:#x} of one run overlap"));
            }
        }
    }
}

/// Gives `tell` the contradictions among the parts of one chunk.
fn wrong_in_chunk(
    state: &ManifestState,
    chunk: &ChunkRecord,
    high: Option<&[u8]>,
    tell: &mut dyn FnMut(String),
) {
    let last_epoch = state.epochs.back().map_or(0, |epoch| epoch.epoch);
    let mut base: Vec<&Part> = Vec::new();
    let mut ordinals = BTreeSet::new();
    let guarded = chunk.guards.is_some();
    for part in &chunk.parts {
        let id = part.table.0;
        let mut say = |what: &str| tell(format!("table {id:#x}: {what}"));
        match part.role {
            Role::Base if guarded => say("a table of a base in a chunk with guards"),
            Role::Base => base.push(part),
            Role::Fragment { .. } if guarded => {}
            Role::Fragment { .. } => say("a table of a guard in a chunk without guards"),
            Role::Run { ordinal } => {
                if !ordinals.insert(ordinal) {
                    say("two runs at one place of the log");
                }
            }
        }
        if part.checkpoint > state.completed {
            say("of a checkpoint that was never completed");
        }
        // A rewrite of an ingested table may have a version of the checkpoint under way.
        if checkpoint_of(part.meta.max_version) > state.completed + 1 {
            say("holds a version of a checkpoint that was never completed");
        }
        if part.epoch > last_epoch || id >> 32 > last_epoch {
            say("of an epoch that never was");
        }
        let meta = &part.meta;
        if meta.entries == 0 || meta.deletes > meta.entries || meta.min_key > meta.max_key {
            say("its numbers make no sense");
        }
        if meta.max_key < chunk.low || high.is_some_and(|high| meta.min_key.as_slice() >= high) {
            say("its keys lie outside of the chunk");
        }
    }
    for cover in &chunk.covers {
        let mut say = |what: &str| tell(format!("a range deletion: {what}"));
        if checkpoint_of(cover.version) > state.completed {
            say("of a checkpoint that was never completed");
        }
        let is_empty = cover.high.as_ref().is_some_and(|high| *high <= cover.low);
        if is_empty || high.is_some_and(|high| cover.low.as_slice() >= high) {
            say("it has no key of the chunk");
        }
    }
    wrong_in_guards(chunk, tell);
    base.sort_by(|a, b| a.meta.min_key.cmp(&b.meta.min_key));
    for pair in base.windows(2) {
        if pair[0].meta.max_key >= pair[1].meta.min_key {
            let (a, b) = (pair[0].table.0, pair[1].table.0);
            tell(format!("base tables {a:#x} and {b:#x} overlap"));
        }
    }
}
