//! The second engine's options. Its keyspaces have none.

use crate::options::{Factor, factor};
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

    same_setters!();
}

/// All factors.
pub static FACTORS: &[Factor<Settings>] = &[
    factor!(option.memory_budget:
        "64 KiB, the least" => (64 << 10), "1 MiB" => (1 << 20), "16 MiB" => (16 << 20)
    ),
    factor!(durability),
    factor!(create_if_missing),
    factor!(read_only),
    factor!(advanced.write_buffer_bytes: default, "4 KiB" => (4 << 10), "64 KiB" => (64 << 10)),
    factor!(advanced.table_bytes_max: default, "4 KiB" => (4 << 10), "100 KiB" => (100 << 10)),
    factor!(advanced.last_guard_bytes: default, "3 KiB" => (3 << 10), "200 KiB" => (200 << 10)),
    factor!(advanced.max_files_per_guard: "1" => (1), "2" => (2), "5" => (5)),
    factor!(advanced.level0_tables: default, "1, 2, 3" => (1, 2, 3), "8, 16, 24" => (8, 16, 24)),
    factor!(advanced.block_bytes: default, "64" => (64), "64 KiB" => (64 << 10)),
    factor!(advanced.compression: "none" => (Compression::None), "lz4" => (Compression::Lz4)),
    factor!(advanced.filter_bits_per_key: default, "0" => (0), "40" => (40)),
    factor!(advanced.parallel_seeks: "yes" => (true), "no" => (false)),
    factor!(advanced.compaction_by_seeks: "yes" => (true), "no" => (false)),
    factor!(advanced.compaction_threads: "1" => (1), "2" => (2), "5" => (5)),
    factor!(advanced.cache_bytes: default, "0" => (0), "1 MiB" => (1 << 20)),
    factor!(advanced.open_files_max: default, "1" => (1), "20" => (20)),
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
        let file = "flsm/src/ground/options.rs";
        let mut all = setters(file, "Options");
        all.extend(setters(file, "Advanced"));
        check(FACTORS, all, &LEFT_OUT);
    }

    #[test]
    fn every_pair_of_choices_is_in_the_array() {
        all_pairs_are_met(FACTORS);
    }
}
