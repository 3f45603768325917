//! The options of an opening: those of the database, advanced ones, those of guards, and those of a
//! keyspace.

use crate::options::{Factor, factor};
use evendb::{
    Advanced, Compression, Departure, Durability, GuardOptions, KeyspaceOptions, Layout, LogSearch,
    Merges, Options,
};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// The choices of a row.
pub struct Settings {
    /// Options of the database.
    pub options: Options,
    /// Options of each keyspace.
    pub keyspace: KeyspaceOptions,
    /// The time to live of the keyspace whose values expire.
    pub ttl: Option<Duration>,
    /// The operator of a keyspace that is made.
    pub merges: Merges,
    /// The layout of a keyspace that is made; without it, that of the database's options.
    pub layout: Option<Layout>,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// Whether the database is first opened only for reading.
    pub read_only: bool,
}

impl Settings {
    /// The defaults.
    pub fn new() -> Settings {
        Settings {
            options: Options::new().memory_budget(8 << 20),
            keyspace: KeyspaceOptions::new(),
            ttl: None,
            merges: Merges::AddU64,
            layout: None,
            durability: Durability::Process,
            read_only: false,
        }
    }

    fn option(self, set: impl FnOnce(Options) -> Options) -> Settings {
        Settings {
            options: set(self.options),
            ..self
        }
    }

    fn durability(self, durability: Durability) -> Settings {
        Settings {
            durability,
            ..self.option(|options| options.durability(durability))
        }
    }

    fn advanced(self, set: impl FnOnce(Advanced) -> Advanced) -> Settings {
        self.option(|options| options.advanced(set))
    }

    fn guards(self, set: impl FnOnce(GuardOptions) -> GuardOptions) -> Settings {
        self.advanced(|advanced| advanced.guards(set))
    }

    fn keyspace(self, set: impl FnOnce(KeyspaceOptions) -> KeyspaceOptions) -> Settings {
        Settings {
            keyspace: set(self.keyspace),
            ..self
        }
    }

    fn ttl(self, hours: u32) -> Settings {
        let ttl = Some(HOUR * hours);
        Settings { ttl, ..self }
    }

    fn merges(self, merges: Merges) -> Settings {
        Settings { merges, ..self }
    }

    fn layout(self, layout: Layout) -> Settings {
        let layout = Some(layout);
        Settings { layout, ..self }
    }
}

/// All factors. What is undone comes first: later settings win.
pub static FACTORS: &[Factor<Settings>] = &[
    Factor {
        name: "undo",
        choices: &[
            ("nothing", |s| s),
            ("log index", |s| s.advanced(|a| a.undo(Departure::LogIndex))),
            ("row queue", |s| s.advanced(|a| a.undo(Departure::RowQueue))),
            ("span worth", |s| {
                s.advanced(|a| a.undo(Departure::SpanWorth))
            }),
            ("all", |s| {
                s.advanced(|a| Departure::ALL.into_iter().fold(a, Advanced::undo))
            }),
        ],
    },
    factor!(option.memory_budget:
        "1 MiB, the least" => (1 << 20), "3 MiB" => (3 << 20), "16 MiB" => (16 << 20)
    ),
    Factor {
        name: "durability",
        choices: &[
            ("relaxed", |s| s.durability(Durability::Relaxed)),
            ("process", |s| s.durability(Durability::Process)),
            ("sync", |s| s.durability(Durability::Sync)),
        ],
    },
    factor!(option.create_if_missing: "yes" => (true), "no" => (false)),
    Factor {
        name: "read_only",
        choices: &[
            ("no", |s| s),
            ("before", |s| Settings {
                read_only: true,
                ..s
            }),
        ],
    },
    factor!(option.layout: "chunks" => (Layout::Chunks), "guards" => (Layout::Guards)),
    factor!(option.accept_log_loss: "no" => (false), "yes" => (true)),
    factor!(option.compression:
        "none" => (Compression::None), "lz4" => (Compression::Lz4),
        #[cfg(feature = "zstd")] "zstd" => (Compression::Zstd { level: 1 })
    ),
    factor!(option.space_amplification: default, "1.05" => (1.05), "4" => (4.0)),
    factor!(option.workers: "0" => (0), "1" => (1), "3" => (3)),
    factor!(option.stats_interval:
        default, "never" => (Duration::ZERO), "1 ms" => (Duration::from_millis(1))
    ),
    factor!(advanced.chunk_bytes: default, "2 KiB" => (2 << 10), "24 KiB" => (24 << 10)),
    factor!(advanced.filter_bits_per_key: default, "10" => (10), "64" => (64)),
    factor!(advanced.log_search:
        default, "index" => (LogSearch::Index), "bloom 1" => (LogSearch::Bloom { split_factor: 1 }),
        "bloom 16" => (LogSearch::bloom())
    ),
    factor!(advanced.log_bytes_limits:
        default, "4 KiB, 16 KiB" => (4 << 10, 16 << 10), "1 MiB, 256 B" => (1 << 20, 256)
    ),
    factor!(advanced.munks: "yes" => (true), "no" => (false)),
    factor!(advanced.warm_reopening: "yes" => (true), "no" => (false)),
    factor!(advanced.row_cache: "yes" => (true), "no" => (false)),
    factor!(advanced.row_cache_share: default, "0" => (Some(0.0)), "1" => (Some(1.0))),
    factor!(advanced.block_bytes: default, "64" => (64), "1 MiB" => (1 << 20)),
    factor!(advanced.commit_log_bytes: default, "64 KiB" => (64 << 10), "2 MiB" => (2 << 20)),
    factor!(advanced.commit_log_mapped: default, "yes" => (true), "no" => (false)),
    factor!(advanced.open_files_max: default, "1" => (1), "20" => (20)),
    factor!(advanced.keep_changes_bytes: "0" => (0), "64 KiB" => (64 << 10), "2 MiB" => (2 << 20)),
    factor!(advanced.values_apart_from:
        default, "1" => (Some(1)), "600" => (Some(600)), "20000" => (Some(20_000))
    ),
    factor!(advanced.value_file_bytes: default, "4 KiB" => (4 << 10), "300 KiB" => (300 << 10)),
    factor!(advanced.value_file_live_percent: default, "0" => (0), "90" => (90)),
    factor!(guards.max_files_per_guard: "1" => (1), "2" => (2), "4" => (4)),
    factor!(guards.level0_runs: default, "1, 2" => (1, 2), "8, 24" => (8, 24)),
    factor!(guards.last_guard_bytes: default, "3 KiB" => (3 << 10), "200 KiB" => (200 << 10)),
    factor!(guards.table_bytes_max: default, "4 KiB" => (4 << 10), "100 KiB" => (100 << 10)),
    factor!(guards.compaction_by_seeks: "yes" => (true), "no" => (false)),
    factor!(guards.parallel_seeks: "yes" => (true), "no" => (false)),
    Factor {
        name: "keyspace.layout",
        choices: &[
            ("default", |s| s),
            ("chunks", |s| s.layout(Layout::Chunks)),
            ("guards", |s| s.layout(Layout::Guards)),
        ],
    },
    factor!(keyspace.compression:
        default, "none" => (Compression::None), "lz4" => (Compression::Lz4),
        #[cfg(feature = "zstd")] "zstd" => (Compression::Zstd { level: 3 })
    ),
    factor!(keyspace.filter_bits_per_key: default, "0" => (0), "12" => (12)),
    factor!(keyspace.block_bytes: default, "128" => (128), "32 KiB" => (32 << 10)),
    factor!(keyspace.row_cache: default, "yes" => (true), "no" => (false)),
    Factor {
        name: "keyspace.merge_operator",
        choices: &[
            ("add u64", |s| s.merges(Merges::AddU64)),
            ("add i64", |s| s.merges(Merges::AddI64)),
            ("max", |s| s.merges(Merges::Max)),
            ("min", |s| s.merges(Merges::Min)),
            ("append", |s| s.merges(Merges::Append)),
            ("union", |s| s.merges(Merges::Union)),
        ],
    },
    Factor {
        name: "keyspace.ttl",
        choices: &[
            ("default", |s| s),
            ("an hour", |s| s.ttl(1)),
            ("a year", |s| s.ttl(8766)),
        ],
    },
    factor!(keyspace.values_apart_from: default, "40" => (40), "never" => (u32::MAX)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::{all_pairs_are_met, check, setters};

    /// Options that are no choice of an opening, with the reason.
    const LEFT_OUT: [(&str, &str); 8] = [
        ("error_if_exists", "it refuses every opening but the first"),
        (
            "wait_for_lock",
            "no other process opens the database of a life",
        ),
        ("vfs", "the files are the system's here"),
        ("advanced", "it sets the others"),
        ("guards", "it sets those whose names begin with it"),
        ("wall_clock", "every opening has the life's clock"),
        ("shared", "a life is that of one database"),
        (
            "encryption",
            "a property of a database for ever, not of an opening; programs and crashes run with it",
        ),
    ];

    fn all_options() -> Vec<String> {
        let keyspace = setters("evendb/src/rules/options/keyspace.rs", "KeyspaceOptions");
        let mut all = setters("evendb/src/rules/options/mod.rs", "Options");
        all.extend(setters("evendb/src/rules/options/advanced.rs", "Advanced"));
        all.extend(setters("evendb/src/rules/options/departure.rs", "Advanced"));
        let guards = setters("evendb/src/rules/options/layout.rs", "GuardOptions");
        all.extend(guards.iter().map(|name| format!("guards.{name}")));
        all.extend(keyspace.iter().map(|name| format!("keyspace.{name}")));
        all
    }

    #[test]
    fn every_option_is_chosen_or_left_out_for_a_reason() {
        check(FACTORS, all_options(), &LEFT_OUT);
    }

    #[test]
    #[should_panic(expected = "options that no opening chooses")]
    fn an_option_that_is_added_later_is_missed() {
        let mut more = all_options();
        more.push("of_the_future".to_owned());
        check(FACTORS, more, &LEFT_OUT);
    }

    #[test]
    fn every_pair_of_choices_is_in_the_array() {
        all_pairs_are_met(FACTORS);
    }
}
