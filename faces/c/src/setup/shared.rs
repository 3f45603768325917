//! A budget that several databases share.

use crate::border::handle::{call_own, free};
use crate::border::{ErrorPlace, Place, Shared, Slot, Status, plain};
use crate::tools::summary::Summary;
use evendb::{SharedBudget, SharedOptions};

/// `evendb_shared`.
pub type SharedHandle = Shared<SharedBudget>;

#[unsafe(no_mangle)]
extern "C" fn evendb_shared_create(
    bytes: u64,
    databases: u64,
    threads: u64,
    open_files_max: u64,
    shared: Place<'_, *mut SharedHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let shared = shared.cleared();
    plain(error, || {
        shared.needed("shared")?;
        let mut options = SharedOptions::new(bytes);
        if databases != 0 {
            options = options.databases(databases);
        }
        if threads != 0 {
            options = options.threads(threads);
        }
        if open_files_max != 0 {
            options = options.open_files_max(open_files_max);
        }
        shared.fill(Shared::give(options.make()?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_shared_figures(
    shared: Option<&SharedHandle>,
    summary: Place<'_, *mut Slot<Summary>>,
    error: ErrorPlace<'_>,
) -> Status {
    let summary = summary.cleared();
    call_own(shared, error, |shared| {
        summary.needed("summary")?;
        summary.give(|| Summary::of_shared(&shared.stats()));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_shared_free(shared: *mut SharedHandle) {
    free(shared);
}
