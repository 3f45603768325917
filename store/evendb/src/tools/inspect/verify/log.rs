//! `verify`: the commit log, the value extents that its records name, and the changes that are kept
//! beyond it.
//!
//! A record that does not verify is damage only if something proves that the log went on behind it.
//! Thread safety: none, one thread verifies. Not here: where valid records end
//! ([`commit_log::survey`]), and values in value files (`values`).

use super::super::load::{Loaded, read_extent};
use super::super::{Finding, FindingKind, Severity};
use super::Verifier;
use crate::commit_log::{self, LogRecord, Lsn, Proof, Surveyed};
use crate::error::Result;
use crate::files::COMMIT_LOG;
use crate::kept_changes::{self, KeptItem};
use crate::manifest::epochs::segments;
use crate::payload::{self, Decoded, DecodedOp, ExtentName};
use crate::sync::Arc;
use crate::value_extents::{self, Unlike};
use crate::version::clock::checkpoint_of;
use evendb_storage::Error as StorageError;
use evendb_storage::framed_log::{find_frame, read_frames};
use evendb_storage::vfs::File;
use std::ops::Range;

impl Verifier<'_, '_> {
    pub(super) fn commit_log(&mut self, loaded: &Loaded) -> Result<()> {
        let capacity = self.state.ring_bytes;
        if capacity == 0 {
            return Ok(());
        }
        let path = self.directory.dir.join(COMMIT_LOG);
        let file: Arc<dyn File> = match self.directory.vfs.open(&path, false) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let what = "the commit log is missing";
                self.find(Finding::corruption(
                    FindingKind::Missing,
                    COMMIT_LOG,
                    None,
                    what,
                ));
                return Ok(());
            }
            Err(error) => return Err(StorageError::io(&path, "open the commit log", error).into()),
        };
        self.report.checked.files += 1;
        let len = file
            .len()
            .map_err(StorageError::at(&path, "look at the commit log"))?;
        if len != capacity {
            let what = format!("{len} bytes instead of {capacity}");
            let place = Some(len.min(capacity)..capacity);
            self.find(Finding::corruption(
                FindingKind::Length,
                COMMIT_LOG,
                place,
                what,
            ));
            if len < capacity {
                return Ok(());
            }
        }
        let lives = segments(self.state);
        let how = loaded.survey(self.directory, &lives);
        // Whether a hole is damage is known only at the end of the survey.
        let mut ends = Vec::new();
        let outcome = commit_log::survey(&*file, &how, &mut |found| {
            match found {
                Surveyed::Hole { .. } | Surveyed::End { .. } => ends.push(LogEnd::new(found)),
                Surveyed::Record { record, .. } => self.log_record(&record),
                Surveyed::Filler { lsn, .. } => {
                    self.live(COMMIT_LOG, self.log_place(lsn, Lsn(lsn.0 + 40)));
                }
            }
            Ok(())
        });
        match outcome {
            Ok(proof) => {
                self.bad_extents(&proof);
                for end in ends.into_iter().flatten() {
                    self.log_end(&end, proof.is_damage(end.lsn, end.sealed));
                }
            }
            Err(error) => {
                self.bad_extents(&Proof::default());
                let kind = FindingKind::CommitLogHole;
                let what = error.to_string();
                self.find(Finding::corruption(kind, COMMIT_LOG, None, what));
            }
        }
        self.advance(capacity);
        Ok(())
    }

    /// The place of a stretch of the log in its file.
    fn log_place(&self, lsn: Lsn, end: Lsn) -> Range<u64> {
        let start = lsn.0 % self.state.ring_bytes.max(1);
        start..start.saturating_add(end.0.saturating_sub(lsn.0))
    }

    fn log_record(&mut self, record: &LogRecord<'_>) {
        self.report.checked.commit_log_records += 1;
        // The checksum does not cover the padding.
        let covered = Lsn(record.lsn.0 + 40 + record.payload.len() as u64);
        self.live(COMMIT_LOG, self.log_place(record.lsn, covered));
        for what in self.wrong_in_record(record) {
            let kind = FindingKind::CommitLogRecord;
            let place = Some(self.log_place(record.lsn, record.end));
            let what = format!("{what} (LSN {})", record.lsn.0);
            self.find(Finding::corruption(kind, COMMIT_LOG, place, what));
        }
    }

    /// Reports bytes of the log that do not verify. `damage`: they verified once.
    fn log_end(&mut self, end: &LogEnd, damage: bool) {
        let (from, to) = (end.lsn.0, end.end.0);
        let (kind, what) = match (end.followed, damage) {
            (true, true) => (
                FindingKind::CommitLogHole,
                format!(
                    "LSN {from} to {to} do not verify, with the log going on behind: damage; opening \
                     refuses this, repair saves what is before and behind"
                ),
            ),
            (true, false) => (
                FindingKind::CommitLogHole,
                format!(
                    "LSN {from} to {to} do not verify, with the log going on behind: a power loss took \
                     bytes that were not synced yet; opening takes this for the log's end"
                ),
            ),
            (false, true) => (
                FindingKind::CommitLogEnd,
                format!(
                    "the last record, at LSN {from}, does not verify though it was complete: damage; \
                     opening refuses this"
                ),
            ),
            (false, false) => (
                FindingKind::CommitLogEnd,
                format!(
                    "the record at LSN {from} does not verify and none follows: the end of a log that \
                     a crash cut in the middle of a write, or damage to its last record"
                ),
            ),
        };
        let severity = match damage {
            true => Severity::Corruption,
            false => Severity::Warning,
        };
        let place = Some(self.log_place(end.lsn, end.end));
        self.find(Finding::new(severity, kind, COMMIT_LOG, place, what));
    }

    /// The contradictions in a record that verifies.
    fn wrong_in_record(&mut self, record: &LogRecord<'_>) -> Vec<String> {
        let mut wrong = Vec::new();
        if record.tail > self.state.replay_from {
            wrong.push(format!(
                "the log was recycled up to LSN {}, further than the manifest knows: an edit is \
                 lost",
                record.tail.0
            ));
        }
        match payload::decode(record.payload) {
            None => wrong.push("the record makes no sense".to_owned()),
            Some(Decoded::Inline(ops)) => {
                if checkpoint_of(record.version) > self.state.completed {
                    self.note_values(record.lsn, &ops);
                }
                wrong.extend(self.log_operations(&ops));
            }
            Some(Decoded::Extent(name)) => {
                self.extents_named.insert(name.id);
                self.value_extent(record.lsn, &name);
            }
        }
        wrong
    }

    fn log_operations(&self, ops: &[DecodedOp<'_>]) -> Option<String> {
        let unknown = |op: &&DecodedOp<'_>| op.keyspace.0 >= self.state.next_keyspace;
        let op = ops.iter().find(unknown)?;
        Some(format!("keyspace {} was never created", op.keyspace.0))
    }

    fn value_extent(&mut self, lsn: Lsn, extent: &ExtentName) {
        let name = value_extents::file_name(extent.id);
        let bad = |kind, what: &str, is_synced| BadExtent {
            lsn,
            extent: ExtentName {
                is_synced,
                ..*extent
            },
            kind,
            what: what.to_owned(),
        };
        let is_synced = extent.is_synced;
        let found = if !self.directory.has(&name) {
            let what = "the value extent is missing";
            Some(bad(FindingKind::Missing, what, is_synced))
        } else {
            match read_extent(self.directory, extent) {
                // The file exists, and its contents are unknown.
                Err(what) => Some(bad(FindingKind::ValueExtent, &what, true)),
                Ok(Err(Unlike::Length(len))) => {
                    let what = format!("{len} bytes instead of {}", extent.len);
                    Some(bad(FindingKind::Length, &what, is_synced))
                }
                Ok(Err(Unlike::Checksum)) => {
                    let what = "its checksum is another than its record says";
                    Some(bad(FindingKind::ValueExtent, what, is_synced))
                }
                Ok(Ok(bytes)) => {
                    self.report.checked.files += 1;
                    self.report.checked.value_extents += 1;
                    self.live(&name, 0..extent.len);
                    let secrets = self.directory.vfs.secrets();
                    let opened = value_extents::opened(secrets, extent.id, bytes);
                    let ops = opened.as_deref().and_then(payload::decode_ops);
                    self.note_values(lsn, ops.as_deref().unwrap_or_default());
                    let what = match &ops {
                        None => Some("its contents make no sense".to_owned()),
                        Some(ops) => self.log_operations(ops),
                    };
                    // A power loss cannot give senseless contents a valid checksum.
                    what.map(|what| bad(FindingKind::ValueExtent, &what, true))
                }
            }
        };
        self.bad_extents.extend(found);
    }

    /// Reports the bad value extents. Whether they are damage is known only after the survey of the
    /// whole log.
    fn bad_extents(&mut self, proof: &Proof) {
        self.log_values(proof);
        for bad in std::mem::take(&mut self.bad_extents) {
            let damage = proof.is_damaged_extent(bad.lsn, bad.extent.is_synced);
            let (severity, so) = match damage {
                true => (Severity::Corruption, "opening refuses this"),
                false => (
                    Severity::Warning,
                    "a power loss took what was not synced yet; opening takes its record for the log's end",
                ),
            };
            let what = format!(
                "{}; named by the commit log at LSN {}: {so}",
                bad.what, bad.lsn.0
            );
            let name = value_extents::file_name(bad.extent.id);
            self.find(Finding::new(
                severity,
                bad.kind,
                &name,
                Some(0..bad.extent.len),
                what,
            ));
        }
    }

    /// Checks a file of kept changes. Damage in it costs consumers, not the database.
    pub(super) fn kept_changes(&mut self, name: &str, id: u64) {
        let path = self.directory.dir.join(name);
        let opened = self.directory.vfs.open(&path, false);
        // The position up to which changes were found, and the offset of the first impossible
        // change.
        let (mut reached, mut senseless) = (None, None);
        let looked = match opened {
            Ok(file) => read_frames(&*file, id, 0, &mut |offset, payload| {
                let next = follow_kept(reached, payload);
                if next.is_none() && senseless.is_none() {
                    senseless = Some(offset);
                }
                reached = next.or(reached);
                Ok(())
            })
            .and_then(|end| find_frame(&*file, id, end)),
            Err(error) => Err(StorageError::io(&path, "open kept changes", error)),
        };
        let what = match looked {
            Ok(None) => match senseless {
                None => return,
                Some(offset) => format!("the change at {offset} makes no sense"),
            },
            Ok(Some(next)) => {
                format!("a change does not verify, though the one at {next} behind it does")
            }
            Err(error) => error.to_string(),
        };
        let what = format!("{what}; consumers of changes are told that they are gone");
        self.find(Finding::warning(FindingKind::KeptChanges, name, None, what));
    }
}

/// The position that a file of kept changes has reached after this frame; `None` if the frame
/// cannot follow changes that reached `reached`.
fn follow_kept(reached: Option<Lsn>, payload: &[u8]) -> Option<Lsn> {
    match (kept_changes::item_of(payload)?, reached) {
        (KeptItem::First(lsn, _), None) => Some(lsn),
        (KeptItem::Record(frame), Some(reached)) => {
            let of_nothing = frame.operations.is_empty();
            let is_sound = of_nothing || payload::decode_ops(&frame.operations).is_some();
            (is_sound && reached <= frame.lsn && frame.lsn <= frame.end).then_some(frame.end)
        }
        _ => None,
    }
}

/// A value extent with a fault. If `is_synced` is set in its name, a power loss cannot be the
/// cause.
pub(super) struct BadExtent {
    /// The record that names it.
    lsn: Lsn,
    extent: ExtentName,
    kind: FindingKind,
    what: String,
}

/// The place where the log's records end, or are interrupted.
struct LogEnd {
    lsn: Lsn,
    end: Lsn,
    sealed: bool,
    followed: bool,
}

impl LogEnd {
    /// `None` if no bytes there look like a record.
    fn new(found: Surveyed<'_>) -> Option<LogEnd> {
        let (lsn, end, sealed, followed) = match found {
            Surveyed::Hole { lsn, end, sealed } => (lsn, end, sealed, true),
            Surveyed::End { lsn, torn, sealed } => (lsn, torn?, sealed, false),
            Surveyed::Record { .. } | Surveyed::Filler { .. } => return None,
        };
        Some(LogEnd {
            lsn,
            end,
            sealed,
            followed,
        })
    }
}
