//! Faults that the shuttle scenarios must notice, one at a time. None of this exists outside of
//! tests: there [`planted!`] is `false`.

/// One deliberate fault; numbers as in docs/concurrency.md.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Plant {
    #[default]
    Nothing,
    /// P4: a put of a newer checkpoint enters the old delta.
    NoFreeze,
    /// P5: a batch's stamp is committed before its records are linked.
    EarlyStamp,
    /// P6: a batch's latches are released before its stamp is committed.
    EarlyUnlatch,
    /// P7: a row is inserted without a check that it is still the newest.
    NoRowCheck,
    /// P8: the check before a row's insertion uses the chunk that was read.
    RowCheckOfOldChunk,
    /// P10: a run is written without its tombstones.
    NoTombstonesInRuns,
    /// P13: the commit log's tail moves before the manifest edit.
    EarlyTail,
    /// P14: a checkpoint does not change the rows of chunks with a munk.
    NoRowsWithMunk,
    /// P62: among several deltas of one checkpoint, the oldest is the last to change a cached row.
    OlderRowStays,
    /// P15: layouts change while a run is under way.
    LayoutUnderRun,
    /// P16: deltas that become durable while a munk loads are not kept for it.
    NotKeptForLoad,
    /// P17: the commit log is synced without the value extents that its records name.
    NoExtentsSynced,
    /// P18: a rewrite leaves a record out of the tables that it writes.
    RewriteLosesRecord,
    /// P19: a checkpoint, or a merge of runs, leaves a record out of the run that it writes.
    RunLosesRecord,
    /// P20: a checkpoint ends when every chunk that it found queued has been replaced.
    GoneIsTheEnd,
    /// P21: snapshots are registered during the decision which of them may still read a dropped
    /// keyspace.
    EndsBesideSnapshots,
    /// P23: the deltas that are kept for a munk are dropped together with some of its spans.
    DeltasLeaveWithSpans,
    /// P22: runs join a base without a check of the log's keys.
    JoinsOverLog,
    /// P24: a transaction checks its reads for changes before it has the latches.
    ReadsNotLatched,
    /// P25: a transaction checks deltas alone, although some may have been dropped since it read.
    LooksAtDeltasAlone,
    /// P26: a range deletion has the version of records put before it.
    RangeSharesVersion,
    /// P27: cached rows stay within reach of a range deletion.
    RowTagKept,
    /// P33: reads of operands use durable deltas although the funk has their records.
    DurableOperandsTwice,
    /// P34: a merge's operand replaces an operand of the same version.
    OperandReplaces,
    /// P35: the operands that a read gathers are merged newest first.
    OperandsSwapped,
    /// P36: an absorb folds operands that a snapshot needs separately.
    FoldsUnderSnapshots,
    /// P28: the upper parts of a split chunk lack its range deletions.
    SplitLosesCovers,
    /// P29: tables are ingested without being synced.
    IngestNotSynced,
    /// P30: ingested records are shown before the edit of the manifest is durable.
    IngestShownEarly,
    /// P31: ingested records count as older than everything.
    IngestWithoutVersion,
    /// P32: the list of a backup is not synced.
    BackupNotSynced,
    /// P37: a write to a dropped keyspace queues its chunks before it is refused.
    QueuesDropped,
    /// P41: the time of expiry goes back with the clock.
    TimeGoesBack,
    /// P42: a single delete has the version of a put before or after it.
    SingleSharesVersion,
    /// P44: a single delete is written as called, although its keyspace has got a merge operator
    /// since.
    SingleAsCalled,
    /// P45: puts to chunks from a layout change may have the version of the delta that it froze.
    LayoutSharesVersion,
    /// P46: a checkpoint is completed before the values that its runs name are synced.
    ValuesNotSynced,
    /// P47: a value file is removed although tables name it.
    ValueFileNotNeeded,
    /// P48: replay takes records without a check of the values that they name.
    ValuesNotLookedAt,
    /// P49: after a rewrite that moves values, all records name the first value.
    MovesLoseNewest,
    /// P53: values that a rewrite moves are not synced before the edit that names their new places.
    MovesNotSynced,
    /// P54: overwritten values are searched for only when a log is long.
    OverwrittenNotLooked,
    /// P51: a checkpoint writes the runs of an encrypted database as plain tables.
    RunLeftPlain,
    /// P56: a put into an emptied range leaves the range marked as emptied.
    EmptiedStays,
    /// P61: the parts of a batch are recorded without their group.
    PartsWithoutGroup,
    /// P88: an ingest leaves a munk's images that have keys of its tables.
    IngestKeepsImages,
    /// P89: the manifest names ingested tables without their version.
    IngestNamedWithoutVersion,
    /// P90: a backup shares a table with the same name and length, whatever its contents.
    BackupSharesByName,
    /// P91: a feed's look ahead takes the change that it looks at.
    LookTakes,
    /// P92: a write does not note its checkpoint in the files of its values.
    RecordsNotNoted,
    /// P93: a checkpoint decides on expiry without regard to snapshots.
    ExpiryWithoutSnapshots,
    /// P94: a transaction does not check whether its reads lie in a range that was deleted.
    RangesNotCompared,
    /// P95: a merge of runs treats them as the only records of their keys.
    RunsMergedAsBottom,
    /// P98: a part of a split chunk keeps the chunk's durable deltas, although it has none of its
    /// spans.
    PartsKeepDeltas,
    /// P99: a flush does not enter the gate.
    FlushesOutside,
    /// P100: a compaction of a range does not enter the gate.
    CompactsOutside,
    /// P101: keyspaces are created and dropped outside of the gate.
    KeyspacesOutside,
    /// P102: a compaction of guards drops tombstones although older tables have their keys.
    BottomAssumed,
    /// P103: the chains of a tree of guards stand oldest first.
    ChainsOldestFirst,
    /// P104: a compaction of guards notes of its tables that no range deletion hides any of their
    /// records.
    ClearedAlways,
    /// P105: a compaction of guards writes records with version zero although range deletions stay.
    ZeroesUnderCovers,
    /// P106: the edit of a compaction of guards leaves out the tables that are moved.
    MovedForgotten,
    /// P107: runs that come during a compaction of guards leave with the runs that it takes.
    RunsLeaveWithOthers,
    /// P43: a rewrite makes tables by the database's options, without regard to the keyspace's own
    /// options.
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
