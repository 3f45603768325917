//! Reads the tables of a chunk block by block, merges them, and reports the losses in damaged
//! parts.

use super::find::Found;
use super::{Loss, Operations, Repairer, Stored, chunk_name, tables};
use crate::chunk::KeyRange;
use crate::chunk::covers::Covers;
use crate::manifest::edit::{ChunkRecord, Part, Place, Role};
use crate::memory::Ledger;
use crate::sync::Arc;
use crate::version::clock::CHECKPOINT_MAX;
use evendb_storage::table::{self, TableDamage, TableFacts, TableVisitor};
use evendb_storage::vfs::File;
use evendb_storage::{EntryRef, Kind, TableId, Version};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::{Bound, ControlFlow};

/// The winners of a key range so far: version, table, and contents.
pub(super) type Winners = BTreeMap<Vec<u8>, (Version, TableId, Saved)>;

/// The saved contents of a key.
#[derive(Clone, Default)]
pub(super) struct Saved {
    /// A put or a delete was seen; the version in [`Winners`] is the winner's.
    seen: bool,
    /// `None` for a delete.
    value: Option<Stored>,
    /// Merge records by version: operands in the form of such a record. Only operands above the
    /// winner's version count.
    operands: BTreeMap<Version, Vec<u8>>,
    /// Operands of the log.
    later: Vec<u8>,
}

impl Saved {
    /// The value, and the operands over it in the form of a merge record.
    pub(super) fn put_over(self, version: Version) -> (Option<Stored>, Vec<u8>) {
        let behind = |(own, list): (Version, Vec<u8>)| (own > version).then_some(list);
        let mut operands: Vec<u8> = self
            .operands
            .into_iter()
            .filter_map(behind)
            .flatten()
            .collect();
        operands.extend(self.later);
        (self.value, operands)
    }
}

/// The effect of the log on a key.
#[derive(Clone, Default)]
pub(super) struct Operated {
    /// The value that was put, or a delete; `None` if there were only merges.
    pub(super) written: Option<Option<Stored>>,
    /// The operands after that, in the form of a merge record.
    pub(super) operands: Vec<u8>,
}

impl Operated {
    pub(super) fn bytes(&self) -> u64 {
        let value = self.written.iter().flatten();
        let value = value.map(|stored| stored.value.len()).sum::<usize>();
        (value + self.operands.len()) as u64
    }
}

impl Repairer<'_, '_> {
    /// The winners of a chunk's tables.
    pub(super) fn chunk(&mut self, chunk: &ChunkRecord, high: Option<&[u8]>) -> Winners {
        let mut parts: Vec<&Part> = chunk.parts.iter().collect();
        parts.sort_by_key(|part| part.role.order());
        let mut winners = Winners::new();
        for (index, part) in parts.iter().enumerate() {
            self.part(chunk, high, part, &parts[..index], &mut winners);
        }
        winners
    }

    fn part(
        &mut self,
        chunk: &ChunkRecord,
        high: Option<&[u8]>,
        part: &Part,
        older: &[&Part],
        winners: &mut Winners,
    ) {
        let mut look = Salvage {
            low: &chunk.low,
            high,
            table: part.table,
            expected: Some(part),
            version: None,
            refused: false,
            by_version: true,
            winners,
            damages: Vec::new(),
        };
        let PartFile { file, name, start } = self.place_of(part);
        let read = match &file {
            Ok(file) => {
                let done = table::examine(&**file, start, part.meta.len, part.table, &mut look);
                done.records
            }
            Err(what) => {
                look.damages.push(whole(part, what));
                0
            }
        };
        if look.refused {
            let what = "verifies but is not the table that the manifest names; not used";
            look.damages.push(whole(part, what));
        }
        let damages = look.damages;
        self.report.table_records += read;
        self.advance(part.meta.len);
        let mut lost = Some(part.meta.entries.saturating_sub(read));
        for damage in damages.into_iter().filter(|damage| damage.loses_records) {
            let from = damage
                .keys_from
                .unwrap_or_else(|| part.meta.min_key.clone());
            let to = damage.keys_to.unwrap_or_else(|| part.meta.max_key.clone());
            let shows = |other: &&Part| other.role != Role::Base || part.role != Role::Base;
            let overlaps = |other: &&Part| other.meta.min_key <= to && from <= other.meta.max_key;
            let at = |relative: u64| start.saturating_add(relative);
            let place = Some(at(damage.place.start)..at(damage.place.end));
            let what = format!(
                "{} of table {:#x}: {}",
                damage.part, part.table.0, damage.what
            );
            let mut loss = Loss::new(&name, place, what);
            loss.older_may_show = damage.continues;
            loss.older_may_show |= older.iter().any(|other| shows(other) && overlaps(other));
            loss.chunks = vec![chunk_name(&self.loaded.state, chunk)];
            (loss.keys_from, loss.keys_to) = (Some(from), Some(to));
            // Only a table's sum of lost records is known: its first loss carries it.
            loss.records = lost.take();
            self.report.losses.push(loss);
        }
    }

    /// Where the part's bytes are. If files were exchanged or renamed, the footer says where the
    /// table is.
    fn place_of(&self, part: &Part) -> PartFile {
        let name = tables::file_name(part);
        if let Some(found) = self.misplaced.get(&part.table)
            && part.place == Place::File
            && found.name != name
            && let Ok(elsewhere) = self
                .directory
                .vfs
                .open(&self.directory.dir.join(&found.name), false)
        {
            return PartFile {
                file: Ok(elsewhere),
                name: found.name.clone(),
                start: found.offset,
            };
        }
        PartFile {
            file: tables::open(self.directory, &self.containers, part),
            name,
            start: tables::start(part),
        }
    }

    pub(super) fn merge_unplaced(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        winners: &mut Winners,
    ) {
        for found in self.unplaced.clone() {
            if found.overlaps(low, high) {
                self.found(&found, low, high, true, winners);
            }
        }
    }

    pub(super) fn found(
        &mut self,
        found: &Found,
        low: &[u8],
        high: Option<&[u8]>,
        by_version: bool,
        winners: &mut Winners,
    ) {
        let Ok(file) = self
            .directory
            .vfs
            .open(&self.directory.dir.join(&found.name), false)
        else {
            return;
        };
        let mut look = Salvage {
            low,
            high,
            table: found.id,
            expected: None,
            version: None,
            refused: false,
            by_version,
            winners,
            damages: Vec::new(),
        };
        let done = table::examine(&*file, found.offset, found.len, found.id, &mut look);
        let damages = look.damages;
        self.report.table_records += done.records;
        for damage in damages.into_iter().filter(|damage| damage.loses_records) {
            let place = found.offset + damage.place.start..found.offset + damage.place.end;
            let what = format!(
                "{} of table {:#x}: {}",
                damage.part, found.id.0, damage.what
            );
            let mut loss = Loss::new(&found.name, Some(place), what);
            (loss.keys_from, loss.keys_to) = (damage.keys_from, damage.keys_to);
            self.report.losses.push(loss);
        }
    }
}

/// The file that has a part, its name, and where the part begins in it.
struct PartFile {
    /// The reason why it cannot be opened.
    file: std::result::Result<Arc<dyn File>, String>,
    name: String,
    start: u64,
}

/// Damage to a whole table.
fn whole(part: &Part, what: impl Into<String>) -> TableDamage {
    TableDamage {
        part: table::TablePart::Whole,
        place: 0..part.meta.len,
        what: what.into(),
        keys_from: Some(part.meta.min_key.clone()),
        keys_to: Some(part.meta.max_key.clone()),
        loses_records: true,
        continues: false,
    }
}

/// Drops the values and operands that range deletions hide.
pub(super) fn hide(winners: &mut Winners, chunk: &ChunkRecord) {
    let range = KeyRange {
        low: chunk.low.clone().into(),
        high: None,
    };
    let all = Covers::from_records(&chunk.covers, &range, CHECKPOINT_MAX, Ledger::SHARED);
    if let Some(all) = all {
        for (key, (version, _, saved)) in winners.iter_mut() {
            if all.is_newer(key, *version) {
                saved.value = None;
            }
            saved.operands.retain(|own, _| !all.is_newer(key, *own));
        }
    }
}

/// Applies the log's operations on a key range over the winners of the tables.
pub(super) fn overlay(
    winners: &mut Winners,
    operations: &Operations,
    low: &[u8],
    high: Option<&[u8]>,
) {
    winners.retain(|key, _| !operations.deleted.contains(key));
    let ones = &operations.ones;
    let from = ones.range::<[u8], _>((Bound::Included(low), Bound::Unbounded));
    let within = from.take_while(|(key, _)| high.is_none_or(|high| key.as_slice() < high));
    for (key, operated) in within {
        let (version, _, saved) = winners
            .entry(key.clone())
            .or_insert_with(|| (Version::ZERO, TableId(u64::MAX), Saved::default()));
        if let Some(value) = &operated.written {
            *version = Version::MAX;
            saved.value.clone_from(value);
        }
        saved.later.clone_from(&operated.operands);
    }
}

/// Adds a table's records to the winners.
struct Salvage<'s> {
    low: &'s [u8],
    high: Option<&'s [u8]>,
    table: TableId,
    expected: Option<&'s Part>,
    /// The version of every record, if the table was ingested.
    version: Option<Version>,
    refused: bool,
    /// If true, the greater version wins, and with equal versions the later table. If false, the
    /// later table also wins over or with version zero, which stands for an unknown version; tables
    /// then come in the order of their ids.
    by_version: bool,
    winners: &'s mut Winners,
    damages: Vec<TableDamage>,
}

impl TableVisitor for Salvage<'_> {
    fn facts(&mut self, facts: &TableFacts) {
        if let (Some(expected), Some(meta)) = (self.expected, &facts.meta) {
            self.refused = !expected.is_of(meta);
            self.version = expected.version_of_rows(meta);
        }
    }

    fn entry(&mut self, _ordinal: usize, entry: EntryRef<'_>) -> ControlFlow<()> {
        if self.refused {
            return ControlFlow::Break(());
        }
        if entry.key < self.low {
            return ControlFlow::Continue(());
        }
        if self.high.is_some_and(|high| entry.key >= high) {
            // Damage further on is reported for the chunks that it affects.
            return ControlFlow::Continue(());
        }
        let place = self.winners.entry(entry.key.to_vec());
        if entry.kind == Kind::Merge {
            let new = || (Version::ZERO, self.table, Saved::default());
            let (_, _, saved) = place.or_insert_with(new);
            saved.operands.insert(entry.version, entry.value.to_vec());
            return ControlFlow::Continue(());
        }
        let value = || Stored::of(entry.kind, entry.value);
        let own = self.version.unwrap_or(entry.version);
        match place {
            Entry::Vacant(place) => {
                let saved = Saved {
                    seen: true,
                    value: value(),
                    ..Saved::default()
                };
                place.insert((own, self.table, saved));
            }
            Entry::Occupied(mut place) => {
                let (version, table, saved) = place.get_mut();
                let unknown = !self.by_version
                    && *table != self.table
                    && (*version == Version::ZERO || own == Version::ZERO);
                let newer = own > *version || (own == *version && *table != self.table);
                if newer || unknown || !saved.seen {
                    (*version, *table) = (own, self.table);
                    (saved.seen, saved.value) = (true, value());
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn damage(&mut self, damage: TableDamage) {
        self.damages.push(damage);
    }
}
