//! The first engine's options: those of the database, advanced ones, and those of a keyspace.

use crate::options::Factor;
use evendb::{
    Advanced, Compression, Departure, Durability, KeyspaceOptions, LogSearch, Merges, Options,
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
    Factor {
        name: "memory_budget",
        choices: &[
            ("1 MiB, the least", |s| {
                s.option(|o| o.memory_budget(1 << 20))
            }),
            ("3 MiB", |s| s.option(|o| o.memory_budget(3 << 20))),
            ("16 MiB", |s| s.option(|o| o.memory_budget(16 << 20))),
        ],
    },
    Factor {
        name: "durability",
        choices: &[
            ("relaxed", |s| s.durability(Durability::Relaxed)),
            ("process", |s| s.durability(Durability::Process)),
            ("sync", |s| s.durability(Durability::Sync)),
        ],
    },
    Factor {
        name: "create_if_missing",
        choices: &[
            ("yes", |s| s.option(|o| o.create_if_missing(true))),
            ("no", |s| s.option(|o| o.create_if_missing(false))),
        ],
    },
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
    Factor {
        name: "accept_log_loss",
        choices: &[
            ("no", |s| s.option(|o| o.accept_log_loss(false))),
            ("yes", |s| s.option(|o| o.accept_log_loss(true))),
        ],
    },
    Factor {
        name: "compression",
        choices: &[
            ("none", |s| s.option(|o| o.compression(Compression::None))),
            ("lz4", |s| s.option(|o| o.compression(Compression::Lz4))),
            #[cfg(feature = "zstd")]
            ("zstd", |s| {
                s.option(|o| o.compression(Compression::Zstd { level: 1 }))
            }),
        ],
    },
    Factor {
        name: "space_amplification",
        choices: &[
            ("default", |s| s),
            ("1.05", |s| s.option(|o| o.space_amplification(1.05))),
            ("4", |s| s.option(|o| o.space_amplification(4.0))),
        ],
    },
    Factor {
        name: "workers",
        choices: &[
            ("0", |s| s.option(|o| o.workers(0))),
            ("1", |s| s.option(|o| o.workers(1))),
            ("3", |s| s.option(|o| o.workers(3))),
        ],
    },
    Factor {
        name: "stats_interval",
        choices: &[
            ("default", |s| s),
            ("never", |s| s.option(|o| o.stats_interval(Duration::ZERO))),
            ("1 ms", |s| {
                s.option(|o| o.stats_interval(Duration::from_millis(1)))
            }),
        ],
    },
    Factor {
        name: "chunk_bytes",
        choices: &[
            ("default", |s| s),
            ("2 KiB", |s| s.advanced(|a| a.chunk_bytes(2 << 10))),
            ("24 KiB", |s| s.advanced(|a| a.chunk_bytes(24 << 10))),
        ],
    },
    Factor {
        name: "filter_bits_per_key",
        choices: &[
            ("default", |s| s),
            ("10", |s| s.advanced(|a| a.filter_bits_per_key(10))),
            ("64", |s| s.advanced(|a| a.filter_bits_per_key(64))),
        ],
    },
    Factor {
        name: "log_search",
        choices: &[
            ("default", |s| s),
            ("index", |s| s.advanced(|a| a.log_search(LogSearch::Index))),
            ("bloom 1", |s| {
                s.advanced(|a| a.log_search(LogSearch::Bloom { split_factor: 1 }))
            }),
            ("bloom 16", |s| {
                s.advanced(|a| a.log_search(LogSearch::bloom()))
            }),
        ],
    },
    Factor {
        name: "log_bytes_limits",
        choices: &[
            ("default", |s| s),
            ("4 KiB, 16 KiB", |s| {
                s.advanced(|a| a.log_bytes_limits(4 << 10, 16 << 10))
            }),
            ("1 MiB, 256 B", |s| {
                s.advanced(|a| a.log_bytes_limits(1 << 20, 256))
            }),
        ],
    },
    Factor {
        name: "munks",
        choices: &[
            ("yes", |s| s.advanced(|a| a.munks(true))),
            ("no", |s| s.advanced(|a| a.munks(false))),
        ],
    },
    Factor {
        name: "warm_reopening",
        choices: &[
            ("yes", |s| s.advanced(|a| a.warm_reopening(true))),
            ("no", |s| s.advanced(|a| a.warm_reopening(false))),
        ],
    },
    Factor {
        name: "row_cache",
        choices: &[
            ("yes", |s| s.advanced(|a| a.row_cache(true))),
            ("no", |s| s.advanced(|a| a.row_cache(false))),
        ],
    },
    Factor {
        name: "row_cache_share",
        choices: &[
            ("default", |s| s),
            ("0", |s| s.advanced(|a| a.row_cache_share(Some(0.0)))),
            ("1", |s| s.advanced(|a| a.row_cache_share(Some(1.0)))),
        ],
    },
    Factor {
        name: "block_bytes",
        choices: &[
            ("default", |s| s),
            ("64", |s| s.advanced(|a| a.block_bytes(64))),
            ("1 MiB", |s| s.advanced(|a| a.block_bytes(1 << 20))),
        ],
    },
    Factor {
        name: "commit_log_bytes",
        choices: &[
            ("default", |s| s),
            ("64 KiB", |s| s.advanced(|a| a.commit_log_bytes(64 << 10))),
            ("2 MiB", |s| s.advanced(|a| a.commit_log_bytes(2 << 20))),
        ],
    },
    Factor {
        name: "commit_log_mapped",
        choices: &[
            ("default", |s| s),
            ("yes", |s| s.advanced(|a| a.commit_log_mapped(true))),
            ("no", |s| s.advanced(|a| a.commit_log_mapped(false))),
        ],
    },
    Factor {
        name: "open_files_max",
        choices: &[
            ("default", |s| s),
            ("1", |s| s.advanced(|a| a.open_files_max(1))),
            ("20", |s| s.advanced(|a| a.open_files_max(20))),
        ],
    },
    Factor {
        name: "keep_changes_bytes",
        choices: &[
            ("0", |s| s),
            ("64 KiB", |s| s.advanced(|a| a.keep_changes_bytes(64 << 10))),
            ("2 MiB", |s| s.advanced(|a| a.keep_changes_bytes(2 << 20))),
        ],
    },
    Factor {
        name: "values_apart_from",
        choices: &[
            ("default", |s| s),
            ("1", |s| s.advanced(|a| a.values_apart_from(Some(1)))),
            ("600", |s| s.advanced(|a| a.values_apart_from(Some(600)))),
            ("20000", |s| {
                s.advanced(|a| a.values_apart_from(Some(20_000)))
            }),
        ],
    },
    Factor {
        name: "value_file_bytes",
        choices: &[
            ("default", |s| s),
            ("4 KiB", |s| s.advanced(|a| a.value_file_bytes(4 << 10))),
            ("300 KiB", |s| s.advanced(|a| a.value_file_bytes(300 << 10))),
        ],
    },
    Factor {
        name: "value_file_live_percent",
        choices: &[
            ("default", |s| s),
            ("0", |s| s.advanced(|a| a.value_file_live_percent(0))),
            ("90", |s| s.advanced(|a| a.value_file_live_percent(90))),
        ],
    },
    Factor {
        name: "keyspace.compression",
        choices: &[
            ("default", |s| s),
            ("none", |s| s.keyspace(|k| k.compression(Compression::None))),
            ("lz4", |s| s.keyspace(|k| k.compression(Compression::Lz4))),
            #[cfg(feature = "zstd")]
            ("zstd", |s| {
                s.keyspace(|k| k.compression(Compression::Zstd { level: 3 }))
            }),
        ],
    },
    Factor {
        name: "keyspace.filter_bits_per_key",
        choices: &[
            ("default", |s| s),
            ("0", |s| s.keyspace(|k| k.filter_bits_per_key(0))),
            ("12", |s| s.keyspace(|k| k.filter_bits_per_key(12))),
        ],
    },
    Factor {
        name: "keyspace.block_bytes",
        choices: &[
            ("default", |s| s),
            ("128", |s| s.keyspace(|k| k.block_bytes(128))),
            ("32 KiB", |s| s.keyspace(|k| k.block_bytes(32 << 10))),
        ],
    },
    Factor {
        name: "keyspace.row_cache",
        choices: &[
            ("default", |s| s),
            ("yes", |s| s.keyspace(|k| k.row_cache(true))),
            ("no", |s| s.keyspace(|k| k.row_cache(false))),
        ],
    },
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
    Factor {
        name: "keyspace.values_apart_from",
        choices: &[
            ("default", |s| s),
            ("40", |s| s.keyspace(|k| k.values_apart_from(40))),
            ("never", |s| s.keyspace(|k| k.values_apart_from(u32::MAX))),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::{all_pairs_are_met, check, setters};

    /// Options that are no choice of an opening, with the reason.
    const LEFT_OUT: [(&str, &str); 6] = [
        ("error_if_exists", "it refuses every opening but the first"),
        (
            "wait_for_lock",
            "no other process opens the database of a life",
        ),
        ("vfs", "the files are the system's here"),
        ("advanced", "it sets the others"),
        ("wall_clock", "every opening has the life's clock"),
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
