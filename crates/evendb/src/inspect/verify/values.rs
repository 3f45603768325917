//! Values that lie apart, looked at where tables and the commit log say that they lie.
//!
//! What a table names must verify. Of what only the commit log names, the rules for the end of the log tell whether it is
//! damage, as of a value extent that was not synced.
//!
//! Thread safety: belongs to one check.

use super::super::FindingKind;
use super::super::Severity;
use super::Verifier;
use crate::commit_log::{Lsn, Proof};
use crate::op::OpKind;
use crate::payload::DecodedOp;
use crate::value_files;
use evendb_storage::Apart;
use evendb_storage::vfs::File;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A file, or why there is none.
type Opened = Result<Arc<dyn File>, String>;

/// The values that are named.
#[derive(Default)]
pub(super) struct NamedValues {
    /// By file and offset; the first record of the log that names it, where no table does.
    places: BTreeMap<(u64, u64), (Apart, Option<Lsn>)>,
}

impl NamedValues {
    /// A table names the value, or the record of the log at this place.
    pub(super) fn add(&mut self, place: Apart, lsn: Option<Lsn>) {
        let known = self.places.entry((place.file, place.offset));
        let known = known.or_insert((place, lsn));
        known.1 = known.1.and(lsn.map(|_| known.1.unwrap_or_default()));
    }

    /// The names of their files.
    pub(super) fn files(&self) -> BTreeSet<String> {
        let ids = self.places.keys().map(|(file, _)| *file);
        ids.map(value_files::file_name).collect()
    }
}

impl Verifier<'_, '_> {
    /// Those of a record that is replayed.
    pub(super) fn note_values(&mut self, lsn: Lsn, ops: &[DecodedOp<'_>]) {
        for op in ops {
            if let OpKind::One(kind) = op.kind
                && let Some(place) = Apart::of(kind, op.value)
            {
                self.values.add(place, Some(lsn));
            }
        }
    }

    /// Reads the values that only the commit log names, of which all was seen.
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

    /// Reads the values that tables name.
    pub(super) fn table_values(&mut self) {
        self.look_at_values(&|lsn| match lsn {
            None => Some((Severity::Corruption, "")),
            Some(_) => None,
        });
    }

    /// Reads the values of which `severity_of` says how bad it is if they do not verify.
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
                    self.find(severity, kind, &name, Some(range), what);
                }
            }
        }
        self.values = values;
    }
}
