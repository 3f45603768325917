//! The second engine's options. Its keyspaces have none.

use crate::options::Factor;
use evendb_flsm::{Advanced, Compression, Durability, Options};

/// The choices of a row.
pub struct Settings {
    /// Options of the database.
    pub options: Options,
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
}

/// All factors.
pub static FACTORS: &[Factor<Settings>] = &[
    Factor {
        name: "memory_budget",
        choices: &[
            ("64 KiB, the least", |s| {
                s.option(|o| o.memory_budget(64 << 10))
            }),
            ("1 MiB", |s| s.option(|o| o.memory_budget(1 << 20))),
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
        name: "write_buffer_bytes",
        choices: &[
            ("default", |s| s),
            ("4 KiB", |s| s.advanced(|a| a.write_buffer_bytes(4 << 10))),
            ("64 KiB", |s| s.advanced(|a| a.write_buffer_bytes(64 << 10))),
        ],
    },
    Factor {
        name: "table_bytes_max",
        choices: &[
            ("default", |s| s),
            ("4 KiB", |s| s.advanced(|a| a.table_bytes_max(4 << 10))),
            ("100 KiB", |s| s.advanced(|a| a.table_bytes_max(100 << 10))),
        ],
    },
    Factor {
        name: "last_guard_bytes",
        choices: &[
            ("default", |s| s),
            ("3 KiB", |s| s.advanced(|a| a.last_guard_bytes(3 << 10))),
            ("200 KiB", |s| s.advanced(|a| a.last_guard_bytes(200 << 10))),
        ],
    },
    Factor {
        name: "max_files_per_guard",
        choices: &[
            ("1", |s| s.advanced(|a| a.max_files_per_guard(1))),
            ("2", |s| s.advanced(|a| a.max_files_per_guard(2))),
            ("5", |s| s.advanced(|a| a.max_files_per_guard(5))),
        ],
    },
    Factor {
        name: "level0_tables",
        choices: &[
            ("default", |s| s),
            ("1, 2, 3", |s| s.advanced(|a| a.level0_tables(1, 2, 3))),
            ("8, 16, 24", |s| s.advanced(|a| a.level0_tables(8, 16, 24))),
        ],
    },
    Factor {
        name: "block_bytes",
        choices: &[
            ("default", |s| s),
            ("64", |s| s.advanced(|a| a.block_bytes(64))),
            ("64 KiB", |s| s.advanced(|a| a.block_bytes(64 << 10))),
        ],
    },
    Factor {
        name: "compression",
        choices: &[
            ("none", |s| s.advanced(|a| a.compression(Compression::None))),
            ("lz4", |s| s.advanced(|a| a.compression(Compression::Lz4))),
        ],
    },
    Factor {
        name: "filter_bits_per_key",
        choices: &[
            ("default", |s| s),
            ("0", |s| s.advanced(|a| a.filter_bits_per_key(0))),
            ("40", |s| s.advanced(|a| a.filter_bits_per_key(40))),
        ],
    },
    Factor {
        name: "parallel_seeks",
        choices: &[
            ("yes", |s| s.advanced(|a| a.parallel_seeks(true))),
            ("no", |s| s.advanced(|a| a.parallel_seeks(false))),
        ],
    },
    Factor {
        name: "compaction_by_seeks",
        choices: &[
            ("yes", |s| s.advanced(|a| a.compaction_by_seeks(true))),
            ("no", |s| s.advanced(|a| a.compaction_by_seeks(false))),
        ],
    },
    Factor {
        name: "compaction_threads",
        choices: &[
            ("1", |s| s.advanced(|a| a.compaction_threads(1))),
            ("2", |s| s.advanced(|a| a.compaction_threads(2))),
            ("5", |s| s.advanced(|a| a.compaction_threads(5))),
        ],
    },
    Factor {
        name: "cache_bytes",
        choices: &[
            ("default", |s| s),
            ("0", |s| s.advanced(|a| a.cache_bytes(0))),
            ("1 MiB", |s| s.advanced(|a| a.cache_bytes(1 << 20))),
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
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::{all_pairs_are_met, check, setters};

    /// Options that are no choice of an opening, with the reason.
    const LEFT_OUT: [(&str, &str); 4] = [
        ("error_if_exists", "it refuses every opening but the first"),
        (
            "wait_for_lock",
            "no other process opens the database of a life",
        ),
        ("vfs", "the files are the system's here"),
        ("advanced", "it sets the others"),
    ];

    #[test]
    fn every_option_is_chosen_or_left_out_for_a_reason() {
        let file = "flsm/src/options.rs";
        let mut all = setters(file, "Options");
        all.extend(setters(file, "Advanced"));
        check(FACTORS, all, &LEFT_OUT);
    }

    #[test]
    fn every_pair_of_choices_is_in_the_array() {
        all_pairs_are_met(FACTORS);
    }
}
