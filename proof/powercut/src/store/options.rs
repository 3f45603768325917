//! The options of an opening. All limits are tiny: guards have a few kilobytes. Some openings have
//! values apart, and some have no munks. Plain functions. Not here: the layouts of keyspaces.

use super::Level;
use crate::draw::Draw;
use evendb::{Compression, LogSearch, Options};

/// Options of an opening.
pub(super) fn options(level: Level, draw: &mut Draw) -> Options {
    let mapped = !draw.one_in(3);
    let (bytes, runs) = (500 + draw.below(3000), 1 + draw.below(4) as usize);
    let compact = 1 + draw.below(4) as usize;
    let by_seeks = draw.one_in(2);
    let options = Options::new()
        .memory_budget(1 << 20)
        .durability(level.durability())
        .workers(1)
        .advanced(|advanced| {
            advanced
                .commit_log_bytes(64 << 10)
                .chunk_bytes(2048)
                .block_bytes(256)
                .commit_log_mapped(mapped)
                .guards(|guards| {
                    guards
                        .last_guard_bytes(bytes)
                        .table_bytes_max(4 << 10)
                        .max_files_per_guard(runs)
                        .level0_runs(compact, compact + 4)
                        .compaction_by_seeks(by_seeks)
                })
        });
    // In three of four openings, values of at least some length lie apart.
    let apart = draw.of(&[None, Some(20), Some(60), Some(600)]);
    let options = match apart {
        None => options,
        apart => options.advanced(|advanced| {
            advanced
                .values_apart_from(apart)
                .value_file_bytes(4096)
                .value_file_live_percent(60)
        }),
    };
    match draw.below(5) {
        0 => options.advanced(|advanced| advanced.munks(false)),
        1 => options.compression(Compression::Lz4),
        2 => options.advanced(|advanced| advanced.log_search(LogSearch::Bloom { split_factor: 4 })),
        _ => options,
    }
}
