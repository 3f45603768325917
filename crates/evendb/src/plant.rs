//! Faults that the shuttle scenarios must notice, one at a time. Nothing of this exists outside of
//! tests: there [`planted!`] is `false`.

/// One deliberate fault; numbers as in docs/concurrency.md.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Plant {
    #[default]
    Nothing,
    /// P4: a put of a newer checkpoint goes into the old delta.
    NoFreeze,
    /// P5: a batch's stamp is committed before its records are linked.
    EarlyStamp,
    /// P6: a batch's latches are given back before its stamp is committed.
    EarlyUnlatch,
    /// P7: a row is inserted without asking whether it is still the newest.
    NoRowCheck,
    /// P8: the check before a row's insertion looks at the chunk that was read.
    RowCheckOfOldChunk,
    /// P10: a run is written without its tombstones.
    NoTombstonesInRuns,
    /// P13: the commit log's tail moves before the manifest edit.
    EarlyTail,
    /// P14: a checkpoint leaves the rows of chunks with a munk alone.
    NoRowsWithMunk,
    /// P62: of several deltas of one checkpoint the oldest is the last to change a cached row.
    OlderRowStays,
    /// P15: layouts change while a run is under way.
    LayoutUnderRun,
    /// P16: deltas that become durable while a munk loads are not kept for it.
    NotKeptForLoad,
    /// P17: the commit log is synced without the value extents that its records name.
    NoExtentsSynced,
    /// P18: a rewrite leaves records out of the tables it writes.
    RewriteLosesRecord,
    /// P19: a checkpoint leaves records out of the run it writes, a merge of runs out of the one it writes.
    RunLosesRecord,
    /// P20: a checkpoint ends where every chunk that it found queued has been replaced.
    GoneIsTheEnd,
    /// P21: snapshots are registered while it is decided which of them may still read a dropped keyspace.
    EndsBesideSnapshots,
    /// P23: the deltas that are kept for a munk leave with some of its spans.
    DeltasLeaveWithSpans,
    /// P22: runs join a base without a look at what the log has.
    JoinsOverLog,
    /// P24: a transaction looks whether its reads have changed before it has the latches.
    ReadsNotLatched,
    /// P25: a transaction looks at deltas alone, although some may have left since it read.
    LooksAtDeltasAlone,
    /// P26: a range deletion has the version of records that were put before it.
    RangeSharesVersion,
    /// P27: cached rows stay within reach of a range deletion.
    RowTagKept,
    /// P33: reads of operands ask durable deltas although the funk has their records.
    DurableOperandsTwice,
    /// P34: a merge's operand takes the place of one of the same version.
    OperandReplaces,
    /// P35: operands that a read gathers are merged newest first.
    OperandsSwapped,
    /// P36: an absorb folds operands that a snapshot needs apart.
    FoldsUnderSnapshots,
    /// P28: the upper parts of a chunk that is split are without its range deletions.
    SplitLosesCovers,
    /// P29: tables are ingested without being synced.
    IngestNotSynced,
    /// P30: what is ingested is shown before the edit of the manifest is durable.
    IngestShownEarly,
    /// P31: what is ingested counts as older than everything.
    IngestWithoutVersion,
    /// P32: the list of a backup is not synced.
    BackupNotSynced,
    /// P37: a write to a dropped keyspace queues its chunks before it is refused.
    QueuesDropped,
    /// P41: the time by which records expire goes back with the clock.
    TimeGoesBack,
    /// P42: a single delete has the version of what was put before or after it.
    SingleSharesVersion,
    /// P44: a single delete is written as it was called, whatever operator its keyspace has got since.
    SingleAsCalled,
    /// P45: what is put to chunks that a layout change made may have the version of what it froze.
    LayoutSharesVersion,
    /// P46: a checkpoint is completed before the values are synced that its runs name.
    ValuesNotSynced,
    /// P47: a value file is removed although tables name it.
    ValueFileNotNeeded,
    /// P48: replay takes records without a look at the values that they name.
    ValuesNotLookedAt,
    /// P49: of the values that a rewrite moves all records come to name the first one.
    MovesLoseNewest,
    /// P53: values that a rewrite moves are not synced before the edit that names their new places.
    MovesNotSynced,
    /// P54: overwritten values are not looked for before a log is long.
    OverwrittenNotLooked,
    /// P51: a checkpoint writes the runs of an encrypted database as plain tables.
    RunLeftPlain,
    /// P56: a put leaves a range emptied in which it puts.
    EmptiedStays,
    /// P61: the parts of a batch are recorded without their group.
    PartsWithoutGroup,
    /// P88: an ingest leaves the images of a munk that have keys of its tables.
    IngestKeepsImages,
    /// P89: the manifest names what is ingested without its version.
    IngestNamedWithoutVersion,
    /// P90: a backup shares a table that has the same name and length, whatever is in it.
    BackupSharesByName,
    /// P91: a feed's look ahead takes what it looks at.
    LookTakes,
    /// P92: a write does not note its checkpoint at the files of its values.
    RecordsNotNoted,
    /// P93: a checkpoint judges what has expired without regard to snapshots.
    ExpiryWithoutSnapshots,
    /// P94: a transaction does not look whether what it read lies in a range that was deleted.
    RangesNotCompared,
    /// P95: a merge of runs takes them for all that there is of its keys.
    RunsMergedAsBottom,
    /// P98: a part of a chunk that is split keeps the durable deltas of it, although it has none of its spans.
    PartsKeepDeltas,
    /// P99: a flush does not enter the gate.
    FlushesOutside,
    /// P100: a compaction of a range does not enter the gate.
    CompactsOutside,
    /// P101: keyspaces are made and dropped outside of the gate.
    KeyspacesOutside,
    /// P43: a rewrite makes tables as the database's options say, whatever the keyspace's own do.
    KeyspaceOptionsForgotten,
}

/// Whether the engine has a fault planted.
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
