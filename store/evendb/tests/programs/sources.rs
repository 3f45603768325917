//! The public calls, as the sources have them.

use super::Counts;
use std::fs;
use std::path::Path;

const FILES: [&str; 27] = [
    "calls/api/asynchronous/chunks.rs",
    "calls/api/asynchronous/commits.rs",
    "calls/api/asynchronous/gets.rs",
    "calls/api/writes/batch/commit.rs",
    "calls/api/writes/batch/mod.rs",
    "calls/api/following/changes.rs",
    "calls/api/db.rs",
    "calls/api/keyspaces/ends.rs",
    "calls/api/writes/ingest.rs",
    "calls/api/keyspaces/keyspace.rs",
    "calls/api/keyspaces/keyspace_options.rs",
    "calls/api/keyspaces/property.rs",
    "calls/api/keyspaces/renaming.rs",
    "calls/api/parts.rs",
    "calls/api/traces.rs",
    "calls/api/keyspaces/size.rs",
    "calls/api/snapshot.rs",
    "calls/api/writes/transaction.rs",
    "tools/backup/export.rs",
    "tools/backup/mod.rs",
    "calls/changes/change.rs",
    "calls/changes/feed.rs",
    "calls/changes/position.rs",
    "tools/copy/mod.rs",
    "calls/read/scan/cursor/mod.rs",
    "calls/read/scan/cursor/iter.rs",
    "calls/read/scan/cursor/fill.rs",
];

const TRACES: &str = "a file outside of the simulated disk; tests/recording.rs";

const EXPORT: &str =
    "files outside of the simulated disk, of no database; src/tools/backup/tests.rs";

const FUTURES: &str =
    "programs have one thread, on which every future is ready; tests/asynchronous.rs";

const FEEDS: &str = "tests/watch.rs compares what is left with a model";
const PARTS: &str = "the keyspace's call does the same; tests/parts_and_fills.rs";
const RENAMED: &str = "the oracle knows keyspaces by their names; tests/renaming.rs";

/// The calls that programs leave out, and the reasons.
const LEFT_OUT: [(&str, &str); 42] = [
    ("Batch::commit_async", FUTURES),
    ("Db::get_async", FUTURES),
    ("Db::multi_get_async", FUTURES),
    ("Db::persist_async", FUTURES),
    ("Db::range_async", FUTURES),
    ("Db::try_get", FUTURES),
    ("Keyspace::get_async", FUTURES),
    ("Keyspace::multi_get_async", FUTURES),
    ("Keyspace::range_async", FUTURES),
    ("Keyspace::try_get", FUTURES),
    ("RangeChunks::chunk_records", FUTURES),
    ("RangeChunks::next_chunk", FUTURES),
    ("RangeChunks::poll_next_chunk", FUTURES),
    ("RangeChunks::rev", FUTURES),
    ("Snapshot::get_async", FUTURES),
    ("Snapshot::multi_get_async", FUTURES),
    ("Snapshot::range_async", FUTURES),
    ("Snapshot::try_get", FUTURES),
    ("Transaction::commit_async", FUTURES),
    ("Changes::lag", FEEDS),
    ("Changes::since", FEEDS),
    ("Snapshot::get_part", PARTS),
    (
        "Snapshot::expires",
        "ends are not in the oracle; tests/expiry.rs",
    ),
    (
        "Backups::encryption",
        "a key of the provider's, with a feature; src/tools/backup/damage_tests.rs",
    ),
    (
        "Db::get_latencies",
        "figures for the lab, which has a test of them",
    ),
    (
        "Db::open",
        "programs open by Options::open, on a simulated disk",
    ),
    (
        "Db::publish_metrics",
        "it only tells figures, with a feature",
    ),
    (
        "Transaction::lock_timeout",
        "set for every transaction that locks",
    ),
    ("Change::is_empty", "never true"),
    ("Db::rename_keyspace", RENAMED),
    ("Db::swap_keyspaces", RENAMED),
    ("Db::start_trace", TRACES),
    ("TraceOptions::new", TRACES),
    ("TraceOptions::one_key_in", TRACES),
    ("TraceOptions::bytes_max", TRACES),
    ("TraceOptions::value_hashes", TRACES),
    ("TraceOptions::values", TRACES),
    ("TraceOptions::of_encrypted", TRACES),
    ("Trace::stop", TRACES),
    ("ExportWriter::create", EXPORT),
    ("ExportWriter::put", EXPORT),
    ("ExportWriter::finish", EXPORT),
];

/// The public calls of a file: `Type::name`.
fn calls_of(source: &str) -> Vec<String> {
    let mut of = String::new();
    let mut calls = Vec::new();
    for line in source.lines() {
        if line.starts_with("mod tests {") {
            break;
        }
        if let Some(rest) = line.strip_prefix("impl") {
            let is_plain = !rest.contains(" for ");
            let rest = rest.trim_start_matches(|c| c != ' ').trim_start();
            let name = rest.split(|c: char| !c.is_alphanumeric()).next();
            of = name.filter(|_| is_plain).unwrap_or_default().to_owned();
        }
        let name = line.strip_prefix("    pub fn ");
        let name = name.and_then(|rest| rest.split(['(', '<']).next());
        if let Some(name) = name.filter(|_| !of.is_empty()) {
            calls.push(format!("{of}::{name}"));
        }
    }
    calls
}

/// All public calls of the sources.
pub fn all_calls() -> Vec<String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    for file in FILES {
        let source = fs::read_to_string(sources.join(file)).expect("a file of the sources");
        let calls = calls_of(&source);
        assert!(!calls.is_empty(), "no call in {file}");
        all.extend(calls);
    }
    all
}

/// Every public call of the sources was made, except those that are left out for a reason.
pub fn every_call_is_there(counts: &Counts) {
    let mut missing = all_calls();
    missing.retain(|call| {
        let is_left_out = LEFT_OUT.iter().any(|(name, _)| name == call);
        !is_left_out && !counts.contains_key(&**call)
    });
    assert!(
        missing.is_empty(),
        "no program makes these calls; add them to a table in tests/programs/calls: {missing:?}"
    );
}
