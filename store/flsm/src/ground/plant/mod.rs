//! Faults that named tests must notice, one at a time. They exist only in tests: elsewhere
//! [`planted!`] is `false`.

/// One deliberate fault. The numbers are from docs/concurrency.md.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Plant {
    #[default]
    Nothing,
    /// P63: the edit of a flush leaves out one of the guards that the flush chose.
    GuardNotLogged,
    /// P64: the edit of a job leaves out one of the tables that the job made.
    FragmentLost,
    /// P65: the tables that a job replaces are removed before its edit is durable.
    InputsRemovedEarly,
    /// P66: a get asks the filter of another table.
    OtherFilter,
    /// P67: tables that come to a level count as older than the tables there.
    CountsAsOlder,
    /// P68: a tombstone is dropped although deeper levels have its key.
    TombstoneEarly,
    /// P69: a group is shown when its first record is in memory.
    ShownEarly,
    /// P70: a sync of the log leaves out the logs of older generations.
    OlderLogsNotSynced,
    /// P71: a generation's log is removed before the edit that names its tables is durable.
    LogRemovedEarly,
    /// P72: a reader takes its version before it has the lock under which horizons are read.
    RegistersLate,
    /// P73: a memory table leaves the view before its table of level 0 comes.
    MemoryLeavesFirst,
    /// P74: tables are removed as soon as no edit names them, though a reader still reads them.
    RemovedUnderReaders,
    /// P75: a call that waits for a group waits where the calls of the next group wait.
    WaitsForNextGroup,
    /// P76: the number of tables in level 0 is noted when other threads may have changed it
    /// meanwhile.
    LevelToldLate,
    /// P77: a snapshot may be made between the moment at which a keyspace is dropped and the note
    /// of it.
    DropNotedLate,
    /// P78: jobs get a horizon without the snapshots.
    SnapshotsForgotten,
    /// P79: a flush goes to the last level although other tables overlap it.
    FlushedBelow,
    /// P80: a write that asks for a sync is acknowledged without the sync.
    SyncLeftOut,
    /// P81: replay leaves out the records of the last keyspace.
    KeyspaceNotReplayed,
    /// P82: a compaction that finds damage latches the database.
    DamageLatches,
    /// P83: a flush to level 0 leaves out deletes.
    DeletesNotFlushed,
    /// P84: the edit of a flush says that the current log is not needed either.
    LogNumberTooHigh,
    /// P85: the edit of a flush does not say up to which version it goes.
    LastVersionNotSaid,
    /// P86: a get goes on to older tables after it has found a record.
    GoesOnToOlder,
    /// P87: scans leave out level 0.
    ScansWithoutLevel0,
    /// P99: a flush does not enter the gate.
    FlushesOutside,
    /// P100: a compaction of a range does not enter the gate.
    CompactsOutside,
    /// P101: keyspaces are made and dropped outside of the gate.
    KeyspacesOutside,
    /// P96: the end of a job frees all tables of its tree, also the tables that were set aside.
    SetAsideGivenFree,
}

/// Whether a fault is planted in the object that has these options.
macro_rules! planted {
    ($options:expr, $plant:ident) => {{
        #[cfg(test)]
        let planted = $options.plant == crate::plant::Plant::$plant;
        #[cfg(not(test))]
        let planted = false;
        planted
    }};
}
pub(crate) use planted;

#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod gate;
#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod histories;
#[cfg(test)]
mod tests;

/// A database with a fault. Its tables and guards are so small that few records cause all kinds of
/// jobs.
#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
fn tiny(vfs: &evendb_storage::vfs::SimVfs, plant: Plant) -> crate::options::Options {
    let mut options = crate::options::Options::new()
        .vfs(std::sync::Arc::new(vfs.clone()))
        .memory_budget(1 << 20)
        .advanced(|advanced| {
            advanced
                .write_buffer_bytes(8192)
                .last_guard_bytes(900)
                .table_bytes_max(4096)
                .level0_tables(2, 4, 6)
        });
    options.plant = plant;
    options
}
