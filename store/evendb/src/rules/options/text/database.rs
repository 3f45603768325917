//! The rows of the options of a database.

use super::access::{
    Access, Choice, FRACTION, NUMBER, NUMBERS, Quantity, SIZE, SIZES, SWITCH, TIME, Words,
};
use super::{Of, OptionInfo};
use crate::options::advanced::{
    CHUNK_BYTES_LIMITS, COMMIT_LOG_LIMITS, KEEP_CHANGES_LIMITS, LIVE_PERCENT_LIMITS,
    LOG_BYTES_LIMITS, VALUE_FILE_LIMITS,
};
use crate::options::keyspace::{APART_LIMITS, BLOCK_BYTES_LIMITS, FILTER_BITS_LIMITS};
use crate::options::layout::{FILES_LIMITS, RUNS_LIMITS, TABLE_BYTES_LIMITS};
use crate::options::{
    AMPLIFICATION_LIMITS, MEMORY_BUDGET_LIMITS, Options, STATS_INTERVAL_LIMITS, default_budget,
    workers_default,
};
use evendb_base::limits::THREADS_MAX;
use std::time::Duration;

const AUTO: Words<u64> = &[("auto", None)];
const NONE: Words<u64> = &[("none", None)];
const NONE_IS_0: Words<u64> = &[("none", Some(0))];

/// A row.
const fn row(
    name: &'static str,
    group: &'static str,
    default: &'static str,
    access: &'static dyn Access<Options>,
    about: &'static str,
) -> OptionInfo {
    OptionInfo {
        name,
        group,
        default,
        about,
        of: Of::Database(access),
    }
}

/// A switch at this place in the options.
macro_rules! switch {
    ($($place:ident).+) => {
        &Quantity {
            kind: SWITCH,
            limits: (false, true),
            words: &[],
            set: |options: &mut Options, yes| {
                if let Some(yes) = yes {
                    options.$($place).+ = yes;
                }
            },
            get: |options| Some(options.$($place).+),
        }
    };
}

/// A size or a number at this place, which is an `Option`; `auto` is `None`.
macro_rules! chosen {
    ($kind:expr, $limits:expr, $words:expr, $Type:ty, $($place:ident).+) => {
        &Quantity {
            kind: $kind,
            limits: $limits,
            words: $words,
            // The limits are those of the type, or smaller.
            set: |options: &mut Options, value| {
                options.$($place).+ = value.map(|value| value as $Type);
            },
            get: |options| options.$($place).+.map(|value| value as u64),
        }
    };
}

/// A size or a number at this place.
macro_rules! fixed {
    ($kind:expr, $limits:expr, $words:expr, $Type:ty, $($place:ident).+) => {
        &Quantity {
            kind: $kind,
            limits: $limits,
            words: $words,
            // The limits are those of the type, or smaller.
            set: |options: &mut Options, value| {
                if let Some(value) = value {
                    options.$($place).+ = value as $Type;
                }
            },
            get: |options| Some(options.$($place).+ as u64),
        }
    };
}

/// A choice whose type reads and writes texts.
macro_rules! choice {
    ($texts:expr, $place:ident) => {
        &Choice {
            texts: $texts,
            set: |options: &mut Options, text| {
                options.$place = text.parse()?;
                Ok(true)
            },
            get: |options| options.$place.to_string(),
        }
    };
}

const BUDGET: Quantity<Options, u64> = Quantity {
    kind: SIZE,
    limits: MEMORY_BUDGET_LIMITS,
    words: AUTO,
    set: |options, bytes| options.memory_budget = bytes.unwrap_or_else(default_budget),
    get: |options| Some(options.memory_budget),
};

const WORKERS: Quantity<Options, u64> = Quantity {
    kind: NUMBER,
    limits: (0, THREADS_MAX),
    words: AUTO,
    set: |options, workers| {
        options.workers = workers.map_or_else(workers_default, |workers| workers as usize);
    },
    get: |options| Some(options.workers as u64),
};

const AMPLIFICATION: Quantity<Options, f64> = Quantity {
    kind: FRACTION,
    limits: AMPLIFICATION_LIMITS,
    words: &[],
    set: |options, amplification| {
        if let Some(amplification) = amplification {
            options.space_amplification = amplification;
        }
    },
    get: |options| Some(options.space_amplification),
};

const ROW_SHARE: Quantity<Options, f64> = Quantity {
    kind: FRACTION,
    limits: (0.0, 1.0),
    words: &[("auto", None)],
    set: |options, share| options.advanced.row_cache_share = share,
    get: |options| options.advanced.row_cache_share,
};

const STATS_INTERVAL: Quantity<Options, Duration> = Quantity {
    kind: TIME,
    limits: STATS_INTERVAL_LIMITS,
    words: &[("none", Some(Duration::ZERO))],
    set: |options, interval| {
        if let Some(interval) = interval {
            options.stats_interval = interval;
        }
    },
    get: |options| Some(options.stats_interval),
};

const PATIENCE: Quantity<Options, Duration> = Quantity {
    kind: TIME,
    limits: (Duration::ZERO, Duration::MAX),
    words: &[],
    set: |options, patience| {
        if let Some(patience) = patience {
            options.advanced.wait_for_lock = patience;
        }
    },
    get: |options| Some(options.advanced.wait_for_lock),
};

const LOG_LIMITS: Quantity<Options, (u64, u64)> = Quantity {
    kind: SIZES,
    limits: (
        (LOG_BYTES_LIMITS.0, LOG_BYTES_LIMITS.0),
        (LOG_BYTES_LIMITS.1, LOG_BYTES_LIMITS.1),
    ),
    words: &[("none", None)],
    set: |options, limits| options.advanced.log_bytes_limits = limits,
    get: |options| options.advanced.log_bytes_limits,
};

const LEVEL0_RUNS: Quantity<Options, (u64, u64)> = Quantity {
    kind: NUMBERS,
    limits: (
        (RUNS_LIMITS.0, RUNS_LIMITS.0),
        (RUNS_LIMITS.1, RUNS_LIMITS.1),
    ),
    words: &[],
    set: |options, runs| {
        if let Some((compact, stop)) = runs {
            options.advanced.guards.level0_runs = (compact as usize, stop as usize);
        }
    },
    get: |options| {
        let (compact, stop) = options.advanced.guards.level0_runs;
        Some((compact as u64, stop as u64))
    },
};

const LOG_MAPPED: Quantity<Options, bool> = Quantity {
    kind: SWITCH,
    limits: (false, true),
    words: &[("auto", None)],
    set: |options, yes| options.advanced.commit_log_mapped = yes,
    get: |options| options.advanced.commit_log_mapped,
};

const LOG_SEARCH: Choice<Options> = Choice {
    texts: "index, bloom, bloom:1 to bloom:1024",
    set: |options, text| {
        options.advanced.log_search = text.parse()?;
        Ok(true)
    },
    get: |options| options.advanced.log_search.to_string(),
};

/// All options of a database that have a text.
pub(super) static TABLE: [OptionInfo; 34] = [
    row(
        "memory_budget",
        "database",
        "auto",
        &BUDGET,
        "Memory for everything the database keeps, from which all sizes follow; auto is 512MiB, or less in a small container",
    ),
    row(
        "durability",
        "database",
        "process",
        choice!("relaxed, process, sync", durability),
        "What an acknowledged write survives: nothing until a checkpoint, the end of the process, power loss",
    ),
    row(
        "create_if_missing",
        "database",
        "on",
        switch!(create_if_missing),
        "Whether a missing database is created",
    ),
    row(
        "error_if_exists",
        "database",
        "off",
        switch!(error_if_exists),
        "Whether an existing database is refused",
    ),
    row(
        "read_only",
        "database",
        "off",
        switch!(read_only),
        "Whether it is opened for reading only",
    ),
    row(
        "accept_log_loss",
        "database",
        "off",
        switch!(accept_log_loss),
        "Whether to go on without the records behind damage in the commit log",
    ),
    row(
        "compression",
        "database",
        "none",
        choice!("none, lz4, zstd, zstd:1 to zstd:22", compression),
        "Compression of tables and logs",
    ),
    row(
        "layout",
        "database",
        "chunks",
        choice!("chunks, guards", layout),
        "The layout of keyspaces that are made without one of their own",
    ),
    row(
        "space_amplification",
        "database",
        "1.25",
        &AMPLIFICATION,
        "How much larger than its live data the database may be on average, without the commit log",
    ),
    row(
        "workers",
        "database",
        "auto",
        &WORKERS,
        "Threads for reorganisation; 0: it is done inside the calls; auto: three for two cores, at most 8",
    ),
    row(
        "stats_interval",
        "database",
        "1s",
        &STATS_INTERVAL,
        "How often the figures for other processes are written",
    ),
    row(
        "wait_for_lock",
        "advanced",
        "100ms",
        &PATIENCE,
        "How long an opening waits for another process that has the database open",
    ),
    row(
        "chunk_bytes",
        "advanced",
        "auto",
        chosen!(SIZE, CHUNK_BYTES_LIMITS, AUTO, u64, advanced.chunk_bytes),
        "The largest size of a chunk's live data; auto: a 64th of the memory budget, or more if that is small",
    ),
    row(
        "filter_bits_per_key",
        "advanced",
        "auto",
        chosen!(
            NUMBER,
            FILTER_BITS_LIMITS,
            AUTO,
            u32,
            advanced.filter_bits_per_key
        ),
        "Bits per key of tables' filters for absent keys; auto: 0 for chunks, 10 for guards",
    ),
    row(
        "log_search",
        "advanced",
        "index",
        &LOG_SEARCH,
        "How records are found in logs of chunks that are not in RAM; the filter may have a number of sections",
    ),
    row(
        "log_bytes_limits",
        "advanced",
        "none",
        &LOG_LIMITS,
        "Fixed limits of a chunk's log: of one that is not wholly in RAM, and of one that is",
    ),
    row(
        "munks",
        "advanced",
        "on",
        switch!(advanced.munks),
        "Whether hot spans of chunks are kept in RAM",
    ),
    row(
        "warm_reopening",
        "advanced",
        "on",
        switch!(advanced.warm_reopening),
        "Whether the spans that were in RAM at the end of the last life are loaded again",
    ),
    row(
        "row_cache",
        "advanced",
        "on",
        switch!(advanced.row_cache),
        "Whether hot rows of spans that are not in RAM are kept in RAM",
    ),
    row(
        "row_cache_share",
        "advanced",
        "auto",
        &ROW_SHARE,
        "The rows' share of the memory for munks and rows; auto: it follows the workload",
    ),
    row(
        "block_bytes",
        "advanced",
        "auto",
        chosen!(SIZE, BLOCK_BYTES_LIMITS, AUTO, usize, advanced.block_bytes),
        "Target size of a table's block before compression; auto: 4KiB, and 8KiB in compressed tables",
    ),
    row(
        "commit_log_bytes",
        "advanced",
        "auto",
        chosen!(
            SIZE,
            COMMIT_LOG_LIMITS,
            AUTO,
            u64,
            advanced.commit_log_bytes
        ),
        "The largest size of the commit log, fixed when it is made; auto: an eighth of the memory budget",
    ),
    row(
        "commit_log_mapped",
        "advanced",
        "auto",
        &LOG_MAPPED,
        "Whether the commit log is written through a mapping; auto: unless durability is sync",
    ),
    row(
        "open_files_max",
        "advanced",
        "auto",
        chosen!(NUMBER, (1, u64::MAX), AUTO, u64, advanced.open_files_max),
        "Tables that are kept open; auto: half of the files that the process may have open, at most 8192",
    ),
    row(
        "keep_changes_bytes",
        "advanced",
        "none",
        fixed!(
            SIZE,
            KEEP_CHANGES_LIMITS,
            NONE_IS_0,
            u64,
            advanced.keep_changes_bytes
        ),
        "Bytes of changes that are kept for feeds beyond those that the commit log still has",
    ),
    row(
        "values_apart_from",
        "advanced",
        "none",
        chosen!(SIZE, APART_LIMITS, NONE, u32, advanced.values_apart_from),
        "Values of at least this number of bytes are written into files of their own",
    ),
    row(
        "value_file_bytes",
        "advanced",
        "64MiB",
        fixed!(SIZE, VALUE_FILE_LIMITS, &[], u64, advanced.value_file_bytes),
        "The length at which a file of values is closed",
    ),
    row(
        "value_file_live_percent",
        "advanced",
        "50",
        fixed!(
            NUMBER,
            LIVE_PERCENT_LIMITS,
            &[],
            u32,
            advanced.value_file_live_percent
        ),
        "The share of live data in all files of values that is kept up, in percent",
    ),
    row(
        "guards.max_files_per_guard",
        "guards",
        "2",
        fixed!(
            NUMBER,
            FILES_LIMITS,
            &[],
            usize,
            advanced.guards.max_files_per_guard
        ),
        "Sorted runs that a guard may have before they are merged or go down",
    ),
    row(
        "guards.level0_runs",
        "guards",
        "4,12",
        &LEVEL0_RUNS,
        "Runs in level 0 at which they are compacted, and at which puts wait",
    ),
    row(
        "guards.last_guard_bytes",
        "guards",
        "auto",
        chosen!(
            SIZE,
            TABLE_BYTES_LIMITS,
            AUTO,
            u64,
            advanced.guards.last_guard_bytes
        ),
        "Average bytes between two guards of the last level; auto: an eighth of the memory budget, 64KiB to 64MiB",
    ),
    row(
        "guards.table_bytes_max",
        "guards",
        "32MiB",
        fixed!(
            SIZE,
            TABLE_BYTES_LIMITS,
            &[],
            u64,
            advanced.guards.table_bytes_max
        ),
        "Bytes at which a table of a guard ends",
    ),
    row(
        "guards.compaction_by_seeks",
        "guards",
        "on",
        switch!(advanced.guards.compaction_by_seeks),
        "Whether scans can pay for a compaction",
    ),
    row(
        "guards.parallel_seeks",
        "guards",
        "on",
        switch!(advanced.guards.parallel_seeks),
        "Whether a scan tells the system which blocks it will read before it reads the first one",
    ),
];
