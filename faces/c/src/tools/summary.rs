//! Summaries: what a long call did, as figures by name. So a later version has more figures without
//! another interface.

use crate::border::handle::{call_own_mut, free_slot};
use crate::border::{ErrorPlace, Failure, Place, Slot, Status, Text};
use evendb::{
    BackupInfo, BackupSummary, CompactionSummary, CopySummary, ExportSummary, ForkSummary,
    IngestSummary, SharedStats, TraceSummary,
};
use std::ffi::{CStr, c_char};
use std::time::Duration;

/// `evendb_summary`.
pub struct Summary(Vec<(&'static CStr, u64)>);

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Summary {
    pub(crate) fn of_compaction(done: &CompactionSummary) -> Summary {
        Summary(vec![
            (c"chunks", done.chunks),
            (c"rewritten", done.rewritten),
            (c"bytes_before", done.bytes_before),
            (c"bytes_after", done.bytes_after),
            (c"elapsed_millis", millis(done.elapsed)),
        ])
    }

    pub(super) fn of_ingest(done: &IngestSummary) -> Summary {
        Summary(vec![
            (c"records", done.records),
            (c"data_bytes", done.data_bytes),
            (c"tables", done.tables),
            (c"table_bytes", done.table_bytes),
            (c"tables_overlapping", done.tables_overlapping),
        ])
    }

    pub(super) fn of_export(done: &ExportSummary) -> Summary {
        Summary(vec![
            (c"records", done.records),
            (c"data_bytes", done.data_bytes),
            (c"tables", done.tables),
            (c"table_bytes", done.table_bytes),
        ])
    }

    pub(super) fn of_copy(done: &CopySummary) -> Summary {
        Summary(vec![
            (c"tables_linked", done.tables_linked),
            (c"bytes_linked", done.bytes_linked),
            (c"tables_copied", done.tables_copied),
            (c"runs_copied", done.runs_copied),
            (c"bytes_copied", done.bytes_copied),
            (c"bytes_verified", done.bytes_verified),
            (c"elapsed_millis", millis(done.elapsed)),
        ])
    }

    pub(super) fn of_fork(done: &ForkSummary) -> Summary {
        Summary(vec![
            (c"files_linked", done.files_linked),
            (c"bytes_linked", done.bytes_linked),
            (c"tables_copied", done.tables_copied),
            (c"bytes_copied", done.bytes_copied),
            (c"elapsed_millis", millis(done.elapsed)),
        ])
    }

    pub(crate) fn of_shared(now: &SharedStats) -> Summary {
        Summary(vec![
            (c"budget", now.budget),
            (c"databases", now.databases),
            (c"parts", now.parts),
            (c"held", now.held),
            (c"open_files", now.open_files),
            (c"threads", now.threads),
        ])
    }

    pub(super) fn of_backup(done: &BackupSummary) -> Summary {
        Summary(vec![
            (c"number", done.number),
            (c"bytes", done.bytes),
            (c"bytes_shared", done.bytes_shared),
            (c"bytes_verified", done.bytes_verified),
            (c"elapsed_millis", millis(done.elapsed)),
        ])
    }

    pub(super) fn of_listed(backup: &BackupInfo) -> Summary {
        Summary(vec![
            (c"number", backup.number),
            (c"unix_seconds", backup.seconds),
            (c"files", backup.files),
            (c"bytes", backup.bytes),
            (c"bytes_shared", backup.bytes_shared),
            (c"verified", u64::from(backup.verified)),
            (c"damaged", u64::from(backup.damage.is_some())),
        ])
    }

    pub(super) fn of_trace(done: &TraceSummary) -> Summary {
        Summary(vec![
            (c"recorded", done.recorded),
            (c"dropped_full", done.dropped_full),
            (c"dropped_behind", done.dropped_behind),
            (c"file_bytes", done.file_bytes),
            (c"elapsed_millis", millis(done.duration)),
        ])
    }

    fn get(&self, name: &str) -> Option<u64> {
        let is_it = |(known, _): &&(&CStr, u64)| known.to_bytes() == name.as_bytes();
        self.0.iter().find(is_it).map(|(_, value)| *value)
    }

    fn names(&self) -> String {
        let names = self.0.iter().map(|(name, _)| name.to_string_lossy());
        names.collect::<Vec<_>>().join(", ")
    }
}

#[unsafe(no_mangle)]
extern "C" fn evendb_summary_get(
    summary: Option<&Slot<Summary>>,
    name: Text,
    value: Place<'_, u64>,
    error: ErrorPlace<'_>,
) -> Status {
    let value = value.cleared();
    call_own_mut(summary, error, |summary| {
        value.needed("value")?;
        let name = name.str("name")?;
        let known = summary.get(name).ok_or_else(|| {
            let names = summary.names();
            Failure::argument(format!(
                "this summary has no figure {name:?}; it has {names}"
            ))
        })?;
        value.fill(known);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_summary_at(
    summary: Option<&Slot<Summary>>,
    index: usize,
    name: Place<'_, *const c_char>,
    value: Place<'_, u64>,
    error: ErrorPlace<'_>,
) -> Status {
    let (name, value) = (name.cleared(), value.cleared());
    call_own_mut(summary, error, |summary| {
        if let Some((its_name, its_value)) = summary.0.get(index) {
            name.fill(its_name.as_ptr());
            value.fill(*its_value);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_summary_free(summary: *mut Slot<Summary>) {
    free_slot(summary);
}
