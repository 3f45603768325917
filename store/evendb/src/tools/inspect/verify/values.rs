//! Values that lie apart, checked at the places that tables and the commit log name.
//!
//! A value that a table names must verify. If only the commit log names a value, the rules for the
//! end of the log decide whether a bad value is damage, as for a value extent that was not synced.
//!
//! Thread safety: belongs to one check.

use super::super::{Finding, FindingKind, Severity};
use super::Verifier;
use crate::commit_log::{Lsn, Proof};
use crate::op::OpKind;
use crate::payload::DecodedOp;
use crate::value_files;
use evendb_storage::Apart;
use evendb_storage::vfs::File;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A file, or the reason why it cannot be read.
type Opened = Result<Arc<dyn File>, String>;

/// The values that are named.
#[derive(Default)]
pub(super) struct NamedValues {
    /// By file and offset. The LSN is that of the first record in the log that names the value, and
    /// `None` if a table names it.
    places: BTreeMap<(u64, u64), (Apart, Option<Lsn>)>,
}

impl NamedValues {
    /// Adds a value that a table names (`lsn` is `None`), or the record of the log at `lsn`.
    pub(super) fn add(&mut self, place: Apart, lsn: Option<Lsn>) {
        let known = self.places.entry((place.file, place.offset));
        let known = known.or_insert((place, lsn));
        known.1 = known.1.and(lsn.map(|_| known.1.unwrap_or_default()));
    }

    /// The names of the values' files.
    pub(super) fn files(&self) -> BTreeSet<String> {
        let ids = self.places.keys().map(|(file, _)| *file);
        ids.map(value_files::file_name).collect()
    }
}

impl Verifier<'_, '_> {
    /// Notes the values that a replayed record names.
    pub(super) fn note_values(&mut self, lsn: Lsn, ops: &[DecodedOp<'_>]) {
        for op in ops {
            if let OpKind::One(kind) = op.kind
                && let Some(place) = Apart::of(kind, op.value)
            {
                self.values.add(place, Some(lsn));
            }
        }
    }

    /// Checks the values that only the commit log names. The whole log has been surveyed before.
    pub(super) fn log_values(&mut self, proof: &Proof) {
        self.look_at_values(&|lsn| {
            let lsn = lsn?;
            Some(match proof.is_damaged_extent(lsn, false) {
                true => (Severity::Corruption, "; opening refuses this"),
                false => (
                    Severity::Warning,
                    "; a power loss took what was not synced yet; opening takes its record for the log's end",
                ),
            })
        });
    }

    /// Checks the values that tables name.
    pub(super) fn table_values(&mut self) {
        self.look_at_values(&|lsn| match lsn {
            None => Some((Severity::Corruption, "")),
            Some(_) => None,
        });
    }

    /// Checks values. `severity_of` returns the severity of a value that does not verify, and
    /// `None` for a value to skip.
    fn look_at_values(
        &mut self,
        severity_of: &dyn Fn(Option<Lsn>) -> Option<(Severity, &'static str)>,
    ) {
        let values = std::mem::take(&mut self.values);
        let mut open: Option<(u64, Opened)> = None;
        for (place, lsn) in values.places.values() {
            let Some((severity, so)) = severity_of(*lsn) else {
                continue;
            };
            let path = value_files::file_path(&self.directory.dir, place.file);
            if open.as_ref().is_none_or(|(id, _)| *id != place.file) {
                let file = self.directory.vfs.open(&path, false);
                let missing = |error: std::io::Error| match error.kind() {
                    std::io::ErrorKind::NotFound => "the file of a value is missing".to_owned(),
                    _ => error.to_string(),
                };
                open = Some((place.file, file.map_err(missing)));
            }
            let wrong = match &open {
                Some((_, Err(what))) => Some((FindingKind::Missing, what.clone())),
                Some((_, Ok(file))) => value_files::read_value(&**file, &path, place)
                    .err()
                    .map(|error| (FindingKind::Value, error.to_string())),
                None => None,
            };
            let name = value_files::file_name(place.file);
            let range = place.offset..place.offset.saturating_add(place.len.into());
            match wrong {
                None => {
                    self.report.checked.values += 1;
                    self.live(&name, range);
                }
                Some((kind, what)) => {
                    let what = format!("{what}{so}");
                    self.find(Finding::new(severity, kind, &name, Some(range), what));
                }
            }
        }
        self.values = values;
    }
}
