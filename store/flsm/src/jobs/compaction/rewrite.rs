//! Writes the records of a cursor that somebody may still read into new tables.
//!
//! ```text
//!   records    a3 a1 | c5 | f2 f1 | k9 ...        cut before guard keys, and after long tables,
//!   tables     [ a3     c5 ]  [ f2 f1     k9 ]    but never between versions of a key
//! ```
//! **All versions of a key are in one table of a run.** A get looks into one table of each run. The
//! tables' limits tell which one, and a run's tables do not overlap. A key with very many versions
//! that snapshots hold makes a long table.
//!
//! **Ages.** A table that comes to a level gets its age when it is shown, not when it is written
//! ([`Rewritten::edit`]). Two jobs that go down from different guards may end in one guard of the
//! next level, in any order. A merge there may join what the first job brought with older tables.
//! So the tables that come last must count as the newest, whenever their job began. This is
//! correct: no newer records of their keys can have come before them, because the guard that they
//! come from was busy.
//!
//! A rewrite that is dropped before it is shown leaves no files.

use crate::cursor::EntryCursor;
use crate::files::FileNumbers;
use crate::full_disk::MayBeFull;
use crate::tables::{FinishedTable, Making, TableFile, TableOutput};
use crate::tree::{GuardChange, Moved, TreeEdit};
use crate::types::{Age, Level};
use crate::visibility::{Horizon, KeyVersions};
use evendb_storage::{EntryRef, Error, Kind, Result, TableId};
use std::path::Path;
use std::sync::Arc;

/// Why a rewrite ended before its end.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// Somebody told it to stop.
    Cancelled,
    /// It cannot go on.
    Failed(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped::Failed(error)
    }
}

impl MayBeFull for Stopped {
    fn is_full(&self) -> bool {
        matches!(self, Stopped::Failed(error) if error.is_full())
    }
}

/// The rewrite asks once in this many records whether it should stop.
const RECORDS_AT_ONCE: usize = 16;

/// What a rewrite replaces, and the tables it replaces it by: an edit without its age. The contents
/// of the new files are synced, and their names are not.
#[derive(Default)]
pub(crate) struct Rewritten {
    pub(super) removed: Vec<(Level, Arc<TableFile>)>,
    pub(super) moved: Vec<(Level, Arc<TableFile>)>,
    pub(super) finished: Vec<FinishedTable>,
    pub(super) to: Level,
    /// The age of the result, if it stays in its place in the order.
    pub(super) age: Option<Age>,
    pub(super) guards: Vec<GuardChange>,
}

impl Rewritten {
    /// Whether it changes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        let tables = self.removed.len() + self.moved.len() + self.finished.len();
        tables == 0 && self.guards.is_empty()
    }

    /// Makes the edit. Call it when the edit is committed, under the lock that orders edits. From
    /// then on the manifest decides about the new files.
    pub(crate) fn edit(self, numbers: &FileNumbers) -> TreeEdit {
        let age = self.age.unwrap_or_else(|| Age(numbers.take().0));
        let added = self.finished.into_iter();
        TreeEdit {
            removed: self.removed,
            added: added.map(|table| (self.to, table.keep(age))).collect(),
            moved: self
                .moved
                .into_iter()
                .map(|(from, old)| Moved {
                    from,
                    to: self.to,
                    new: old.with_age(age),
                    old,
                })
                .collect(),
            guards: self.guards,
        }
    }
}

/// What is to be rewritten, and how.
pub(super) struct Rewrite<'r> {
    pub(super) making: &'r Making,
    /// Guard keys, ascending.
    pub(super) cuts: Vec<Arc<[u8]>>,
    pub(super) horizon: &'r Horizon,
    /// Asked now and then; `true` stops the rewrite.
    pub(super) is_cancelled: &'r dyn Fn() -> bool,
}

impl Rewrite<'_> {
    /// Writes the records of `cursor` from its first one on. For each key, ascending, `is_bottom`
    /// tells whether no older record of the key is anywhere else.
    pub(super) fn run(
        self,
        cursor: &mut dyn EntryCursor,
        mut is_bottom: impl FnMut(&[u8]) -> bool,
    ) -> std::result::Result<Vec<FinishedTable>, Stopped> {
        let mut outputs = Outputs::new(self.making, self.cuts);
        let mut last: Option<LastRecord> = None;
        cursor.seek_first()?;
        for record in 0usize.. {
            if !cursor.valid() {
                break;
            }
            if record.is_multiple_of(RECORDS_AT_ONCE) && (self.is_cancelled)() {
                return Err(Stopped::Cancelled);
            }
            let entry = cursor.entry();
            check_kind(entry.kind)?;
            let last = match &mut last {
                Some(last) if *last.key == *entry.key => {
                    last.check_version(entry)?;
                    last
                }
                other => LastRecord::replace(other, entry, is_bottom(entry.key))?,
            };
            last.version = entry.version.0;
            let (version, kind) = (entry.version, entry.kind);
            if last
                .versions
                .keeps(version, kind, last.is_bottom, self.horizon)
            {
                outputs.add(entry)?;
            }
            cursor.next()?;
        }
        Ok(outputs.finish()?)
    }
}

/// Only these kinds of records have a meaning in this engine.
fn check_kind(kind: Kind) -> Result<()> {
    match kind {
        Kind::Put | Kind::Delete => Ok(()),
        _ => {
            let detail = format!("a record of kind {kind:?}, which this version does not know");
            Err(Error::unsupported(Path::new(""), detail))
        }
    }
}

/// The previous record, and what is known about its key.
struct LastRecord {
    key: Vec<u8>,
    version: u64,
    is_bottom: bool,
    versions: KeyVersions,
}

impl LastRecord {
    /// Begins with the first record of another key.
    fn replace<'l>(
        last: &'l mut Option<LastRecord>,
        entry: EntryRef<'_>,
        is_bottom: bool,
    ) -> Result<&'l mut LastRecord> {
        let mut key = match last.take() {
            Some(last) if *last.key > *entry.key => return Err(out_of_order()),
            Some(last) => last.key,
            None => Vec::new(),
        };
        key.clear();
        key.extend_from_slice(entry.key);
        Ok(last.insert(LastRecord {
            key,
            version: entry.version.0,
            is_bottom,
            versions: KeyVersions::default(),
        }))
    }

    /// Checks the order of the next record of the same key.
    fn check_version(&self, entry: EntryRef<'_>) -> Result<()> {
        match entry.version.0 < self.version {
            true => Ok(()),
            false => Err(out_of_order()),
        }
    }
}

/// The blocks verified, so the program that wrote them was wrong.
fn out_of_order() -> Error {
    let detail = "tables of a job have records out of order, or one record twice";
    Error::corruption(Path::new(""), 0, detail)
}

/// New tables of one run.
struct Outputs<'m> {
    making: &'m Making,
    cuts: Vec<Arc<[u8]>>,
    /// How many of the cuts are at or below the last key.
    passed: usize,
    table: Option<TableOutput>,
    last_key: Vec<u8>,
    finished: Vec<FinishedTable>,
}

impl<'m> Outputs<'m> {
    fn new(making: &'m Making, cuts: Vec<Arc<[u8]>>) -> Outputs<'m> {
        Outputs {
            making,
            cuts,
            passed: 0,
            table: None,
            last_key: Vec::new(),
            finished: Vec::new(),
        }
    }

    fn add(&mut self, entry: EntryRef<'_>) -> Result<()> {
        let passed = self.passed;
        while let Some(cut) = self.cuts.get(self.passed)
            && **cut <= *entry.key
        {
            self.passed += 1;
        }
        let is_full = self.table.as_ref().is_some_and(|table| {
            table.bytes_estimate() >= self.making.table_bytes_max && self.last_key != entry.key
        });
        if self.passed > passed || is_full {
            self.end_table()?;
        }
        let table = match &mut self.table {
            Some(table) => table,
            none => {
                let number = TableId(self.making.numbers.take().0);
                let place = &self.making.place;
                none.insert(TableOutput::create(place, number, self.making.form)?)
            }
        };
        table.add(entry)?;
        self.last_key.clear();
        self.last_key.extend_from_slice(entry.key);
        Ok(())
    }

    fn end_table(&mut self) -> Result<()> {
        if let Some(table) = self.table.take() {
            self.finished.push(table.finish()?);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<FinishedTable>> {
        self.end_table()?;
        Ok(self.finished)
    }
}
