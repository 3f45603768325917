//! Databases: opened, closed, made durable, made small.

use crate::border::handle::free;
use crate::border::{ErrorPlace, Place, Shared, Slot, Status, Text, call, plain};
use crate::setup::options::{OptionsHandle, of_database};
use crate::tools::summary::Summary;
use evendb::{Db, Keyspace};

/// `evendb_db`.
pub type DbHandle = Shared<Db>;

#[unsafe(no_mangle)]
extern "C" fn evendb_open(
    path: Text,
    options: Option<&OptionsHandle>,
    db: Place<'_, *mut DbHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let db = db.cleared();
    plain(error, || {
        db.needed("db")?;
        let path = path.path("path")?;
        let options = of_database(options)?;
        let opened = options.open(path)?;
        db.fill(Shared::give(opened));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_open_beside_writer(
    path: Text,
    options: Option<&OptionsHandle>,
    db: Place<'_, *mut DbHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let db = db.cleared();
    plain(error, || {
        db.needed("db")?;
        let path = path.path("path")?;
        let options = of_database(options)?;
        let opened = options.open_beside_writer(path)?;
        db.fill(Shared::give(opened));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_refresh(
    db: Option<&DbHandle>,
    newer: Place<'_, *mut DbHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let newer = newer.cleared();
    call(db, error, |db| {
        newer.needed("newer")?;
        newer.fill(Shared::give(db.refresh()?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_close(db: Option<&DbHandle>, error: ErrorPlace<'_>) -> Status {
    call(db, error, |db| Ok(db.clone().close()?))
}

#[unsafe(no_mangle)]
extern "C" fn evendb_free(db: *mut DbHandle) {
    free(db);
}

#[unsafe(no_mangle)]
extern "C" fn evendb_destroy(path: Text, error: ErrorPlace<'_>) -> Status {
    plain(error, || Ok(evendb::destroy(path.path("path")?)?))
}

#[unsafe(no_mangle)]
extern "C" fn evendb_persist(db: Option<&DbHandle>, error: ErrorPlace<'_>) -> Status {
    call(db, error, |db| Ok(db.persist()?))
}

#[unsafe(no_mangle)]
extern "C" fn evendb_flush(db: Option<&DbHandle>, error: ErrorPlace<'_>) -> Status {
    call(db, error, |db| Ok(db.flush()?))
}

#[unsafe(no_mangle)]
extern "C" fn evendb_settle_debt(db: Option<&DbHandle>, error: ErrorPlace<'_>) -> Status {
    call(db, error, |db| Ok(db.settle_debt()?))
}

#[unsafe(no_mangle)]
extern "C" fn evendb_compact(
    db: Option<&DbHandle>,
    summary: Place<'_, *mut Slot<Summary>>,
    error: ErrorPlace<'_>,
) -> Status {
    let summary = summary.cleared();
    call(db, error, |db| {
        let done = db.compact()?;
        summary.give(|| Summary::of_compaction(&done));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_default_keyspace(
    db: Option<&DbHandle>,
    keyspace: Place<'_, *mut Shared<Keyspace>>,
    error: ErrorPlace<'_>,
) -> Status {
    let keyspace = keyspace.cleared();
    call(db, error, |db| {
        keyspace.needed("keyspace")?;
        keyspace.fill(Shared::give(db.default_keyspace().clone()));
        Ok(())
    })
}
