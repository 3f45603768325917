//! `verify`: every checksum and every invariant of the bytes on disk.
//!
//! It checks in the order of reading: structure, tables, order of records over all tables of a
//! keyspace, logs, names. Each finding names the damaged unit: a frame, a block, a file.

use super::load::{Directory, Loaded};
use super::{
    Checked, Finding, FindingKind, InspectOptions, Progress, TablePlace, VerifyReport, order,
};
use crate::error::Result;
use crate::files::FileName;
use crate::log::record::{Group, Refused};
use crate::log::replay::{Replayed, replay};
use crate::manifest::state::{Keyspace, State};
use crate::tables::TableFile;
use crate::tree::Tree;
use crate::tree::verify::check;
use crate::types::{FileNumber, Level};
use evendb_base::inspect::{TableLook, list, lost_keys, unnamed_file, wrong_length};
use evendb_storage::Error as StorageError;
use evendb_storage::framed_log::{FrameCodec, Surveyed, survey_frames};
use std::ops::Range;
use std::path::Path;

/// Checks every checksum and invariant on disk of the closed database in `path`. Nothing is
/// written. Damage is in the report.
///
/// # Errors
/// `NotFound` if there is no database, `Locked` if it is open, `Unsupported` for a database of
/// another engine or format, `Io`.
pub fn verify(path: impl AsRef<Path>, mut options: InspectOptions<'_>) -> Result<VerifyReport> {
    let directory = Directory::open(&options, path.as_ref())?;
    let loaded = Loaded::read(&directory)?;
    let mut verifier = Verifier {
        directory: &directory,
        loaded: &loaded,
        state: &loaded.state,
        options: &mut options,
        report: VerifyReport::default(),
        progress: Progress::default(),
    };
    verifier.report.findings.clone_from(&loaded.findings);
    verifier.count_structure();
    for keyspace in loaded.state.keyspaces().values() {
        verifier.structure(keyspace);
        let whole = verifier.tables(keyspace);
        if whole {
            verifier.order(keyspace);
        }
    }
    verifier.logs();
    verifier.names();
    Ok(verifier.report)
}

struct Verifier<'v, 'o> {
    directory: &'v Directory,
    loaded: &'v Loaded,
    state: &'v State,
    options: &'v mut InspectOptions<'o>,
    report: VerifyReport,
    progress: Progress,
}

impl Verifier<'_, '_> {
    fn find(&mut self, finding: Finding) -> &mut Finding {
        list(&mut self.report.findings, finding)
    }

    fn find_in_table(
        &mut self,
        kind: FindingKind,
        (keyspace, level, table): (&Keyspace, Level, &TableFile),
        place: Option<Range<u64>>,
        what: impl Into<String>,
    ) {
        let file = FileName::Table(table.number).name();
        let finding = self.find(Finding::corruption(kind, &file, place, what));
        finding.table = Some(TablePlace::new(&keyspace.name, level.0, &table.meta));
    }

    fn advance(&mut self, bytes: u64) {
        self.progress.done = self.progress.done.saturating_add(bytes);
        self.options.tell(self.progress);
    }

    fn count_structure(&mut self) {
        let keyspaces = self.state.keyspaces().values();
        let guards = |tree: &Tree| {
            Tree::guarded_levels()
                .map(|level| tree.guards(level).all().len() as u64)
                .sum::<u64>()
        };
        let bytes = |tree: &Tree| {
            let lens = tree.tables().map(|(_, table)| table.meta.len);
            lens.fold(0, u64::saturating_add)
        };
        // Each table is read twice: alone, and together with the other tables.
        self.progress.total = keyspaces
            .clone()
            .map(|keyspace| bytes(&keyspace.tree).saturating_mul(2))
            .fold(0, u64::saturating_add);
        self.report.checked = Checked {
            files: 1 + u64::from(self.loaded.manifest.is_some()),
            bytes: self.loaded.bytes,
            edits: self.loaded.edits,
            keyspaces: keyspaces.len() as u64,
            guards: keyspaces.map(|keyspace| guards(&keyspace.tree)).sum(),
            ..Checked::default()
        };
    }

    /// Checks the manifest for contradictions.
    fn structure(&mut self, keyspace: &Keyspace) {
        let mut wrong: Vec<String> = Vec::new();
        wrong.extend(check(&keyspace.tree).err().map(str::to_owned));
        for (_, table) in keyspace.tree.tables() {
            if table.meta.max_version > self.state.last_version {
                let name = FileName::Table(table.number).name();
                wrong.push(format!("{name} has a version above the last one"));
            }
        }
        let names = self.state.keyspaces().values();
        if names.filter(|other| other.name == keyspace.name).count() > 1 {
            wrong.push("two keyspaces of one name".to_owned());
        }
        let manifest = self.loaded.manifest.map(FileName::Manifest);
        let file = manifest.unwrap_or(FileName::Current).name();
        for what in wrong {
            let what = format!("keyspace `{}`: {what}", keyspace.name);
            let kind = FindingKind::Structure;
            self.find(Finding::corruption(kind, &file, None, what));
        }
    }

    /// Checks each table alone. Returns whether all are whole.
    fn tables(&mut self, keyspace: &Keyspace) -> bool {
        let before = self.report.findings.len();
        for (level, table) in keyspace.tree.tables() {
            self.table((keyspace, level, table));
            self.advance(table.meta.len);
        }
        self.report.findings.len() == before
    }

    fn table(&mut self, at: (&Keyspace, Level, &TableFile)) {
        let table = at.2;
        let (path, want) = (table.path(), table.meta.len);
        let file = match self.directory.vfs().open(&path, false) {
            Ok(file) => file,
            Err(error) => {
                let what = match error.kind() {
                    std::io::ErrorKind::NotFound => "the table is missing".to_owned(),
                    _ => format!("cannot be opened: {error}"),
                };
                return self.find_in_table(FindingKind::Missing, at, None, what);
            }
        };
        self.report.checked.files += 1;
        if let Some((place, what)) = wrong_length(&*file, want) {
            self.find_in_table(FindingKind::Length, at, place, what);
        }
        let look = TableLook::new(&*file, 0..want, table.number);
        let checked = &mut self.report.checked;
        checked.tables += 1;
        checked.blocks += look.examined.blocks;
        checked.records += look.examined.records;
        checked.bytes = checked.bytes.saturating_add(want);
        for damage in look.damages {
            let what = format!("{}: {}{}", damage.part, damage.what, lost_keys(&damage));
            self.find_in_table(FindingKind::Table, at, Some(damage.place), what);
        }
        if look.facts.meta.is_some_and(|meta| meta != *table.meta) {
            let what = "it verifies, and is not the table that the manifest names";
            self.find_in_table(FindingKind::WrongTable, at, Some(0..want), what);
        }
    }

    /// Checks the order of the records of all tables.
    fn order(&mut self, keyspace: &Keyspace) {
        let tree = &keyspace.tree;
        let sum = |all: u64, one| all.saturating_add(one);
        let bytes = tree.tables().map(|(_, table)| table.meta.len).fold(0, sum);
        let records = tree.tables().map(|(_, table)| table.meta.entries);
        let of_record = bytes / records.fold(0, sum).max(1);
        let mut found = Vec::new();
        let looked = {
            let mut go_on = |records: u64| self.advance(records.saturating_mul(of_record));
            order::check(tree, &mut |hidden| found.push(hidden), &mut go_on)
        };
        for hidden in found {
            let levels = tree.tables();
            let mut levels = levels.filter(|(_, table)| table.number == hidden.table.number);
            let level = levels.next().map_or(Level(0), |(level, _)| level);
            let what = format!(
                "the record of key `{}` and version {} is found by no reader: one that is not newer \
                 is asked for first",
                hidden.key.escape_ascii(),
                hidden.version.0
            );
            let at = (keyspace, level, &*hidden.table);
            self.find_in_table(FindingKind::Order, at, None, what);
        }
        if let Err(error) = looked {
            self.find_error(FindingKind::Table, &error);
        }
    }

    /// An error as a finding of the file that it names.
    fn find_error(&mut self, kind: FindingKind, error: &StorageError) {
        let name = error.path().file_name().unwrap_or_default();
        let file = name.to_string_lossy().into_owned();
        let finding = self.find(Finding::corruption(kind, &file, None, error.to_string()));
        finding.offset = error.offset();
    }

    /// Reads the logs as an opening does.
    fn logs(&mut self) {
        let numbers: Vec<FileNumber> = self
            .directory
            .files
            .iter()
            .filter_map(|file| match file {
                FileName::Log(number) if *number >= self.state.log_number => Some(*number),
                _ => None,
            })
            .collect();
        let mut records = 0;
        let next_keyspace = self.state.next_keyspace;
        let has_state = self.loaded.manifest.is_some();
        let mut each = |group: Group<'_>| {
            for record in group.records {
                let is_known = record?.keyspace < next_keyspace;
                if has_state && !is_known {
                    return Err(Refused::Malformed);
                }
                records += 1;
            }
            Ok(())
        };
        let (vfs, dir) = (self.directory.vfs(), self.directory.path());
        let (needed, last) = (self.state.log_number, self.state.last_version);
        let replayed = replay(vfs, dir, &numbers, needed, last, &mut each);
        self.report.checked.log_records = records;
        match &replayed {
            Ok(replayed) => self.log_ends(replayed),
            Err(error) => self.find_error(FindingKind::Log, error),
        }
        for number in numbers {
            self.log(number, replayed.is_err());
        }
    }

    /// Reports the bytes and logs that an opening gives up.
    fn log_ends(&mut self, replayed: &Replayed) {
        for log in &replayed.read {
            let next = replayed.read.iter().find(|next| next.number > log.number);
            // Behind the end that the next log names, an earlier life of the database may have left
            // frames that were never acknowledged.
            if next.is_some() {
                continue;
            }
            let len = log.file.len().unwrap_or(log.end);
            if len > log.end {
                let what = "the last frames do not verify: opening takes this for the end that a crash in the midst of a write \
                            leaves; after a clean close it is damage";
                let file = FileName::Log(log.number).name();
                let (kind, place) = (FindingKind::LogEnd, Some(log.end..len));
                self.find(Finding::warning(kind, &file, place, what));
            }
        }
        for number in &replayed.given_up {
            let file = FileName::Log(*number).name();
            let what = "a log that was not begun, or behind one that a crash tore: the next opening removes it; after a clean close \
                        it is damage";
            self.find(Finding::warning(FindingKind::LogEnd, &file, None, what));
        }
    }

    /// Looks through a log, and reports all damage in it. An opening ends at the first damage.
    fn log(&mut self, number: FileNumber, is_refused: bool) {
        let file = FileName::Log(number);
        let (opened, len) = match self.directory.open_file(file) {
            Ok(opened) => opened,
            Err(what) => {
                let kind = FindingKind::Log;
                self.find(Finding::corruption(kind, &file.name(), None, what));
                return;
            }
        };
        let checked = &mut self.report.checked;
        checked.files += 1;
        checked.logs += 1;
        checked.bytes = checked.bytes.saturating_add(len);
        let mut holes = Vec::new();
        let codec = FrameCodec::new(&*opened, number.0);
        let survey = survey_frames(&*opened, &codec, &mut |found| match found {
            Surveyed::Hole {
                offset, len: hole, ..
            } if offset + hole < len => holes.push(offset..offset + hole),
            _ => {}
        });
        if let Err(error) = survey {
            self.find_error(FindingKind::Log, &error);
        }
        if !is_refused {
            return;
        }
        for hole in holes {
            let name = file.name();
            let told = self.report.findings.iter();
            let mut told = told.filter(|finding| finding.kind == FindingKind::Log);
            if !told.any(|found| found.file == name && found.offset == Some(hole.start)) {
                let what = "frames that do not verify, with valid ones behind them";
                let kind = FindingKind::Log;
                self.find(Finding::corruption(kind, &name, Some(hole), what));
            }
        }
    }

    /// Reports files that nothing names.
    fn names(&mut self) {
        let (state, in_force) = (self.state, self.loaded.manifest);
        // Without a readable manifest it is not known which files are needed.
        let is_needed = |file: FileName| match in_force {
            Some(manifest) => state.needs(file, manifest),
            None => {
                matches!(file, FileName::Current | FileName::Lock | FileName::Ballast)
            }
        };
        for file in &self.directory.files {
            if is_needed(*file) {
                continue;
            }
            let what = unnamed_file(self.loaded.whole);
            self.find(Finding::warning(
                FindingKind::Orphan,
                &file.name(),
                None,
                what,
            ));
        }
    }
}
