//! Databases for the tests of feeds, of watches, and of readers beside a writer: the log goes round
//! again and again, and files and extents are replaced often.

#![allow(dead_code, reason = "every test binary uses its own part")]

use super::{keys, layout};
use evendb::vfs::SimVfs;
use evendb::{Durability, Layout, Options};
use std::sync::Arc;

pub const LAYOUTS: [Layout; 2] = [Layout::Chunks, Layout::Guards];
/// The levels with a commit log.
pub const WITH_LOG: [Durability; 2] = [Durability::Process, Durability::Sync];

pub fn small(layout: Layout, level: Durability, workers: usize) -> Options {
    let options = layout::tiny_guards(Options::new().layout(layout))
        .memory_budget(1 << 20)
        .durability(level)
        .workers(workers);
    options.advanced(|advanced| {
        let advanced = advanced.commit_log_bytes(64 << 10).chunk_bytes(2048);
        match keys() {
            Some(keys) => advanced.encryption(keys),
            None => advanced,
        }
    })
}

/// Without threads, on simulated files.
pub fn on_sim(vfs: &SimVfs, layout: Layout, level: Durability) -> Options {
    small(layout, level, 0).vfs(Arc::new(vfs.clone()))
}
