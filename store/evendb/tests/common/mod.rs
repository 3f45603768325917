//! The common parts of the tests of crashes, faults and damage: tiny options with the layout that
//! `EVENDB_LAYOUT` names (`layout.rs`), the oracle and the workload.

#![allow(dead_code, reason = "every test binary uses its own part")]

pub mod alone;
pub mod blast;
pub mod clients;
pub mod damage;
pub mod dumped;
pub mod emptied;
pub mod following;
pub mod history_file;
pub mod killing;
#[path = "../../../storage/tests/knobs/mod.rs"]
pub mod knobs;
pub mod layout;
pub mod linearizable;
pub mod mounts;
pub mod oracle;
pub mod order;
pub mod polled;
pub mod privileges;
pub mod public;
pub mod sharing;
pub mod skipped;
pub mod workload;

#[allow(unused_imports, reason = "every test binary uses its own part")]
pub use knobs::{choice_from_env, count_from_env, flag_from_env, number_from_env};
#[allow(unused_imports, reason = "every test binary uses its own part")]
pub use layout::{has_chunks, is_about_chunks, options};

use evendb::inspect::InspectOptions;
use evendb::vfs::SimVfs;
use evendb::{Compression, Departure, Durability, Key, KeyRing, LogSearch, Options};
use std::sync::Arc;

/// Where the simulated database lives.
pub const DIR: &str = "/db";

pub const LEVELS: [Durability; 3] = [Durability::Relaxed, Durability::Process, Durability::Sync];

/// Limits so small that every kind of job runs within a few hundred steps.
pub fn tiny(level: Durability, workers: usize) -> Options {
    layout::tiny_guards(options())
        .memory_budget(1 << 20)
        .advanced(|advanced| {
            advanced
                .commit_log_bytes(64 << 10)
                .chunk_bytes(2048)
                .block_bytes(256)
        })
        .advanced(|advanced| match keys() {
            Some(keys) => advanced.encryption(keys),
            None => advanced,
        })
        .durability(level)
        .workers(workers)
}

/// With `EVENDB_ENCRYPTED=1`, in a build with the feature `encryption`, every database of a test
/// that has these options is encrypted.
pub fn keys() -> Option<Arc<KeyRing>> {
    let encrypted = cfg!(feature = "encryption") && flag_from_env("EVENDB_ENCRYPTED");
    encrypted.then(|| Arc::new(KeyRing::new(Key::new([7; 32]))))
}

/// The options to inspect a closed database that was opened with such options.
pub fn inspecting(vfs: &SimVfs) -> InspectOptions<'static> {
    let options = InspectOptions::new().vfs(Arc::new(vfs.clone()));
    match keys() {
        Some(keys) => options.encryption(keys),
        None => options,
    }
}

/// Each compression that this build has, except none.
pub fn compressions() -> &'static [Compression] {
    match cfg!(feature = "zstd") {
        true => &[Compression::Lz4, Compression::Zstd { level: 1 }],
        false => &[Compression::Lz4],
    }
}

pub fn on_sim(vfs: &SimVfs, level: Durability, workers: usize) -> Options {
    tiny(level, workers).vfs(Arc::new(vfs.clone()))
}

/// For three of four numbers, values from some length on are stored separately, in files that go
/// again soon.
pub fn perhaps_apart(options: Options, number: u64) -> Options {
    match scramble(number ^ 0x5a5a) % 4 {
        0 => options,
        other => options.advanced(|advanced| {
            advanced
                .values_apart_from(Some([20, 60, 600][other as usize - 1]))
                .value_file_bytes(4096)
                .value_file_live_percent(60)
        }),
    }
}

/// For four of ten numbers the engine is as in the paper, in all respects or in some. Limits of
/// logs usually follow the scale of these tests, so that logs are rewritten all the same.
fn perhaps_as_the_paper(options: Options, number: u64) -> Options {
    let drawn = scramble(number ^ 0x3c3c);
    let chosen: Vec<Departure> = match drawn % 10 {
        0 => Departure::ALL.to_vec(),
        1 | 2 => vec![Departure::ALL[(drawn >> 8) as usize % Departure::ALL.len()]],
        3 => {
            let is_chosen = |bit: &usize| drawn >> (16 + bit) & 1 == 1;
            let bits = (0..Departure::ALL.len()).filter(is_chosen);
            bits.map(|bit| Departure::ALL[bit]).collect()
        }
        _ => return options,
    };
    let options = chosen.iter().fold(options, |options, &departure| {
        options.advanced(|advanced| advanced.undo(departure))
    });
    let scaled = chosen.contains(&Departure::LogShares) && !(drawn >> 32).is_multiple_of(4);
    options.advanced(|advanced| match scaled {
        true => advanced.log_bytes_limits(410, 4096),
        false => advanced,
    })
}

/// Options for a database at `vfs` that may differ from one life of the database to the next.
pub fn varied(vfs: &SimVfs, level: Durability, variant: u64) -> Options {
    let options = on_sim(vfs, level, 0)
        .advanced(|advanced| advanced.commit_log_mapped(!variant.is_multiple_of(3)));
    let options = perhaps_as_the_paper(perhaps_apart(options, variant), variant);
    let drawn = scramble(variant ^ 0xa5a5) as usize;
    let (runs, compact) = (1 + drawn % 4, 1 + (drawn >> 8) % 4);
    let options = layout::guards(options, runs, (compact, compact + 4));
    match scramble(variant) % 6 {
        0 => options.advanced(|advanced| advanced.munks(false)),
        1 => options
            .advanced(|advanced| advanced.row_cache(false))
            .compression(compressions()[variant as usize % compressions().len()]),
        2 => options.advanced(|advanced| advanced.log_search(LogSearch::Bloom { split_factor: 4 })),
        3 => options.advanced(|advanced| advanced.chunk_bytes(1024).filter_bits_per_key(10)),
        4 => options.advanced(|advanced| advanced.chunk_bytes(4096)),
        _ => options,
    }
}

/// Numbers that are good enough for placing crashes. They are not the workload's numbers, so that
/// neither follows the other.
pub fn scramble(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
