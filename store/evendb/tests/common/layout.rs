//! The layout of the databases that tests make, by one parameter for all test binaries.
//!
//! `EVENDB_LAYOUT` is `chunks` (the default) or `guards`: every database that is made with
//! [`options`] has this layout, in its default keyspace and in each keyspace that is made without a
//! layout of its own. A test about what only chunks have says so by [`is_about_chunks`].
//!
//! Thread safety: the variable is read at each call. That a test is about chunks is noted for its
//! thread alone, so the options that it gives to other threads are made before. Not here: a
//! database with keyspaces of both layouts (`tests/two_layouts.rs`).

#![allow(dead_code, reason = "every test binary uses its own part")]

use evendb::{KeyspaceOptions, Layout, Options};
use std::cell::Cell;

thread_local! {
    static ABOUT_CHUNKS: Cell<u32> = const { Cell::new(0) };
}

/// As long as this is there, the thread's tests have chunks whatever the variable says.
#[must_use = "it holds until it is dropped"]
pub struct AboutChunks(());

impl Drop for AboutChunks {
    fn drop(&mut self) {
        ABOUT_CHUNKS.with(|count| count.set(count.get() - 1));
    }
}

/// Said at the beginning of a test that is about chunks alone: about their number, splits, munks,
/// spans, files. `let _chunks = is_about_chunks();`
pub fn is_about_chunks() -> AboutChunks {
    ABOUT_CHUNKS.with(|count| count.set(count.get() + 1));
    AboutChunks(())
}

/// The layout of the databases of this test.
pub fn layout() -> Layout {
    let given = std::env::var("EVENDB_LAYOUT");
    let chosen = match given.as_deref() {
        Err(std::env::VarError::NotPresent) | Ok("chunks") => Layout::Chunks,
        Ok("guards") => Layout::Guards,
        Ok(other) => panic!("EVENDB_LAYOUT is chunks or guards, and not {other:?}"),
        Err(error) => panic!("EVENDB_LAYOUT is chunks or guards: {error}"),
    };
    match ABOUT_CHUNKS.with(Cell::get) {
        0 => chosen,
        _ => Layout::Chunks,
    }
}

/// Whether the databases of this test have chunks, which figures of chunks presuppose.
pub fn has_chunks() -> bool {
    layout() == Layout::Chunks
}

/// The options with which tests begin.
pub fn options() -> Options {
    Options::new().layout(layout())
}

/// The options that are recorded for a keyspace that is made with these, which choose no layout.
pub fn recorded(options: KeyspaceOptions) -> KeyspaceOptions {
    match layout() {
        Layout::Guards => options.layout(Layout::Guards),
        _ => options,
    }
}

/// Guards so small that a few hundred records have several levels of them. They do not matter to
/// chunks.
pub fn tiny_guards(options: Options) -> Options {
    guards(options, 2, (2, 6))
}

/// Guards as small, with this number of runs in each, and these in level 0.
pub fn guards(options: Options, runs: usize, level0: (usize, usize)) -> Options {
    options.advanced(|advanced| {
        advanced.guards(|guards| {
            guards
                .last_guard_bytes(2 << 10)
                .table_bytes_max(4 << 10)
                .max_files_per_guard(runs)
                .level0_runs(level0.0, level0.1)
        })
    })
}
