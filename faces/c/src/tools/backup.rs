//! Copies, forks and backups: made, listed, verified, restored, removed.

use super::summary::Summary;
use crate::border::bytes::terminated;
use crate::border::handle::{call_own, free};
use crate::border::{ErrorPlace, Failure, Place, Result, Shared, Slot, Status, Text, call, plain};
use crate::calls::database::DbHandle;
use evendb::{BackupInfo, Backups, CopyCheck, CopyOptions, ForkOptions};
use std::ffi::{CString, c_char};

/// How a copy is verified, from its number.
fn verifying(check: i32, bytes_per_second: u64) -> Result<CopyOptions> {
    let check = match check {
        0 => CopyCheck::New,
        1 => CopyCheck::Nothing,
        2 => CopyCheck::All,
        _ => {
            return Err(Failure::argument(format!(
                "there is no check {check} of a copy"
            )));
        }
    };
    let options = CopyOptions::new().verify(check);
    Ok(match bytes_per_second {
        0 => options,
        u64::MAX => options.verify_rate(0),
        rate => options.verify_rate(rate),
    })
}

/// 0 stands for the newest backup.
fn chosen(number: u64) -> Option<u64> {
    (number != 0).then_some(number)
}

#[unsafe(no_mangle)]
extern "C" fn evendb_copy_to(
    db: Option<&DbHandle>,
    directory: Text,
    check: i32,
    verify_rate: u64,
    summary: Place<'_, *mut Slot<Summary>>,
    error: ErrorPlace<'_>,
) -> Status {
    let summary = summary.cleared();
    call(db, error, |db| {
        let directory = directory.path("directory")?;
        let how = verifying(check, verify_rate)?;
        let done = db.copy_to_with(directory, &how)?;
        summary.give(|| Summary::of_copy(&done));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_fork(
    db: Option<&DbHandle>,
    directory: Text,
    copy_if_needed: i32,
    summary: Place<'_, *mut Slot<Summary>>,
    error: ErrorPlace<'_>,
) -> Status {
    let summary = summary.cleared();
    call(db, error, |db| {
        let directory = directory.path("directory")?;
        let how = ForkOptions::new().copy_if_needed(copy_if_needed != 0);
        let done = db.fork_with(directory, &how)?;
        summary.give(|| Summary::of_fork(&done));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_backup(
    db: Option<&DbHandle>,
    directory: Text,
    check: i32,
    verify_rate: u64,
    summary: Place<'_, *mut Slot<Summary>>,
    error: ErrorPlace<'_>,
) -> Status {
    let summary = summary.cleared();
    call(db, error, |db| {
        let directory = directory.path("directory")?;
        let how = verifying(check, verify_rate)?;
        let done = db.backup_with(directory, &how)?;
        summary.give(|| Summary::of_backup(&done));
        Ok(())
    })
}

/// A backup of a list: its figures, and its damage if it has any.
struct Listed {
    backup: BackupInfo,
    damage: Option<CString>,
}

/// `evendb_backup_list`.
pub struct List(Vec<Listed>);

#[unsafe(no_mangle)]
extern "C" fn evendb_backup_list_read(
    directory: Text,
    list: Place<'_, *mut Shared<List>>,
    error: ErrorPlace<'_>,
) -> Status {
    let list = list.cleared();
    plain(error, || {
        list.needed("list")?;
        let backups = Backups::at(directory.path("directory")?).list()?;
        let listed = backups.into_iter().map(|backup| {
            let damage = backup.damage.clone();
            let damage = damage.map(|text| terminated(text.into_bytes()));
            Listed { backup, damage }
        });
        list.fill(Shared::give(List(listed.collect())));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_backup_list_count(list: Option<&Shared<List>>) -> usize {
    list.map_or(0, |list| list.inner().0.len())
}

#[unsafe(no_mangle)]
extern "C" fn evendb_backup_list_at(
    list: Option<&Shared<List>>,
    index: usize,
    summary: Place<'_, *mut Slot<Summary>>,
    damage: Place<'_, *const c_char>,
    error: ErrorPlace<'_>,
) -> Status {
    let (summary, damage) = (summary.cleared(), damage.cleared());
    call_own(list, error, |list| {
        let listed = list.0.get(index).ok_or_else(|| {
            let count = list.0.len();
            Failure::argument(format!(
                "the list has {count} backups, and {index} was asked for"
            ))
        })?;
        summary.give(|| Summary::of_listed(&listed.backup));
        if let Some(text) = &listed.damage {
            damage.fill(text.as_ptr());
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_backup_list_free(list: *mut Shared<List>) {
    free(list);
}

#[unsafe(no_mangle)]
extern "C" fn evendb_backup_verify(
    directory: Text,
    number: u64,
    verified: Place<'_, u64>,
    error: ErrorPlace<'_>,
) -> Status {
    let verified = verified.cleared();
    plain(error, || {
        let backups = Backups::at(directory.path("directory")?);
        verified.fill(backups.verify(chosen(number))?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_backup_restore(
    directory: Text,
    number: u64,
    into: Text,
    restored: Place<'_, u64>,
    error: ErrorPlace<'_>,
) -> Status {
    let restored = restored.cleared();
    plain(error, || {
        let backups = Backups::at(directory.path("directory")?);
        restored.fill(backups.restore(chosen(number), into.path("into")?)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_backup_prune(
    directory: Text,
    keep: usize,
    removed: Place<'_, u64>,
    error: ErrorPlace<'_>,
) -> Status {
    let removed = removed.cleared();
    plain(error, || {
        let backups = Backups::at(directory.path("directory")?);
        removed.fill(backups.prune(keep)?);
        Ok(())
    })
}
