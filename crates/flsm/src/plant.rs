//! Faults that named tests must notice, one at a time. Nothing of this exists outside of tests: there [`planted!`] is `false`.

/// One deliberate fault; numbers as in docs/concurrency.md.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Plant {
    #[default]
    Nothing,
    /// P63: of the guards that a flush chooses one is left out of its edit.
    GuardNotLogged,
    /// P64: of the tables that a job makes one is left out of its edit.
    FragmentLost,
    /// P65: the tables that a job replaces are removed before its edit is durable.
    InputsRemovedEarly,
    /// P66: a get asks the filter of another table.
    OtherFilter,
    /// P67: what comes to a level counts as older than what is there.
    CountsAsOlder,
    /// P68: a tombstone goes although deeper levels have its key.
    TombstoneEarly,
    /// P69: a group is shown when its first record is in.
    ShownEarly,
    /// P70: a sync of the log leaves out the logs of older generations.
    OlderLogsNotSynced,
    /// P71: a generation's log is removed before the edit that names its tables is durable.
    LogRemovedEarly,
    /// P72: a reader looks for the version of which it reads before it has the lock that horizons are read under.
    RegistersLate,
    /// P73: a memory table leaves the view before its table of level 0 comes.
    MemoryLeavesFirst,
    /// P74: tables are removed as soon as no edit names them, though somebody reads them.
    RemovedUnderReaders,
    /// P75: whoever waits for a group waits where the members of the next one do.
    WaitsForNextGroup,
    /// P76: how many tables level 0 has is told when others may have changed it meanwhile.
    LevelToldLate,
    /// P77: a snapshot may be made between the moment at which a keyspace is dropped and the note of it.
    DropNotedLate,
    /// P78: jobs ask for the horizon without the snapshots.
    SnapshotsForgotten,
    /// P79: what is flushed goes to the last level although tables meet it.
    FlushedBelow,
    /// P80: a write that is to be synced is acknowledged without the sync.
    SyncLeftOut,
    /// P81: replay leaves out what was written to the last keyspace.
    KeyspaceNotReplayed,
    /// P82: a compaction that finds damage latches the database.
    DamageLatches,
    /// P83: a flush to level 0 leaves out deletes.
    DeletesNotFlushed,
    /// P84: the edit of a flush says that the log is not needed either that is being written.
    LogNumberTooHigh,
    /// P85: the edit of a flush does not say which version it goes up to.
    LastVersionNotSaid,
    /// P86: a get goes on to older tables where it has found a record.
    GoesOnToOlder,
    /// P87: scans leave out level 0.
    ScansWithoutLevel0,
    /// P99: a flush does not enter the gate.
    FlushesOutside,
    /// P100: a compaction of a range does not enter the gate.
    CompactsOutside,
    /// P101: keyspaces are made and dropped outside of the gate.
    KeyspacesOutside,
    /// P96: the end of a job gives all tables of its tree free, those included that were set aside.
    SetAsideGivenFree,
}

/// Whether a fault is planted in what has these options.
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

/// A database with so small tables and guards that few records have all kinds of jobs done, and with a fault.
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
