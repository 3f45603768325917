//! Traces of what is called on a database.

use super::summary::Summary;
use crate::border::handle::free_slot;
use crate::border::{ErrorPlace, Failure, Place, Slot, Status, Text, call, call_take};
use crate::calls::database::DbHandle;
use evendb::{Trace, TraceOptions};

/// `evendb_trace`.
pub type TraceHandle = Slot<Trace>;

const VALUES: u32 = 1;
const VALUE_HASHES: u32 = 2;
const OF_ENCRYPTED: u32 = 4;

#[unsafe(no_mangle)]
extern "C" fn evendb_trace_start(
    db: Option<&DbHandle>,
    path: Text,
    one_key_in: u64,
    bytes_max: u64,
    flags: u32,
    trace: Place<'_, *mut TraceHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let trace = trace.cleared();
    call(db, error, |db| {
        trace.needed("trace")?;
        if flags & !(VALUES | VALUE_HASHES | OF_ENCRYPTED) != 0 {
            return Err(Failure::argument(format!(
                "there are no flags {flags} of a trace"
            )));
        }
        let mut options = TraceOptions::new(path.path("path")?)
            .values(flags & VALUES != 0)
            .value_hashes(flags & VALUE_HASHES != 0)
            .of_encrypted(flags & OF_ENCRYPTED != 0);
        if one_key_in != 0 {
            options = options.one_key_in(one_key_in);
        }
        if bytes_max != 0 {
            options = options.bytes_max(bytes_max);
        }
        trace.fill(Slot::give(db.start_trace(options)?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_trace_stop(
    trace: Option<&TraceHandle>,
    summary: Place<'_, *mut Slot<Summary>>,
    error: ErrorPlace<'_>,
) -> Status {
    let summary = summary.cleared();
    call_take(trace, error, |trace| {
        let done = trace.stop()?;
        summary.give(|| Summary::of_trace(&done));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_trace_free(trace: *mut TraceHandle) {
    free_slot(trace);
}
