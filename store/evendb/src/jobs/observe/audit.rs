//! Compares the parts of the state that must agree with each other.
//!
//! ```text
//! manifest's state     =  chunks and tables that the views name
//! counts of the tables =  chunks that name each
//! gauges of memory     >= what the views hold; equal when nothing waits to be reclaimed
//! index                 covers every key once;  views hold their invariants
//! ```
//!
//! [`assert_agree`] runs in debug builds when a database closes, so every test that closes a
//! database is a test of it. No job runs any more then; gets and scans may run. [`assert_charged`]
//! runs at the end of an opening.
//!
//! Not here: whether the records are right.

use crate::catalog::KeyspaceState;
use crate::chunk::check::assert_covers;
use crate::chunk::covers::Covers;
use crate::chunk::{Chunk, KeyRange, View};
use crate::engine::Engine;
use crate::funk::Search;
use crate::manifest::edit::ChunkRecord;
use crate::memory::Use;
use crate::rebalance::layout::chunk_record;
use crate::sync::Arc;
use crate::tables::TableHandle;
use crate::version::clock::CHECKPOINT_MAX;
use evendb_storage::TableId;
use std::collections::{BTreeMap, HashSet};

/// Memory that the views of all chunks hold, by use.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Parts {
    pub(crate) munks: u64,
    pub(crate) searches: u64,
    pub(crate) metadata: u64,
    pub(crate) deltas: u64,
}

/// Panics in debug builds if the parts of the state disagree. All jobs have ended, and the
/// manifest's queue is empty. It does nothing in a thread that already panics: a second panic would
/// end the process.
pub(crate) fn assert_agree(engine: &Engine) {
    if !cfg!(debug_assertions) || std::thread::panicking() {
        return;
    }
    for keyspace in engine.catalog.keyspaces() {
        assert_covers(&keyspace.index.load_full(), "at the close");
    }
    let chunks = views(engine);
    for (_, chunk, view) in &chunks {
        chunk.assert_view(view, "at the close");
    }
    let manifest = engine.disk.manifest();
    // If an edit found no room, it stays queued, and the manifest's state is older.
    if manifest.queued() == 0 {
        assert_named(engine, &chunks);
    }
    let held = parts(&chunks);
    let charged = charged(engine);
    assert!(
        charged.munks >= held.munks
            && charged.searches >= held.searches
            && charged.metadata >= held.metadata
            && charged.deltas >= held.deltas,
        "less memory is charged than held: {charged:?} for {held:?}"
    );
}

/// Panics in debug builds if the charge for deltas differs from their bytes. Nothing runs yet.
pub(crate) fn assert_charged(engine: &Engine) {
    if cfg!(debug_assertions) {
        let (charged, held) = (charged(engine).deltas, parts(&views(engine)).deltas);
        assert_eq!(
            charged, held,
            "what was replayed is charged as something else"
        );
    }
}

type Views = Vec<(Arc<KeyspaceState>, Arc<Chunk>, Arc<View>)>;

fn views(engine: &Engine) -> Views {
    let chunks = engine.catalog.chunks().into_iter();
    let with_view = chunks.map(|(keyspace, chunk)| {
        let view = chunk.view.load_full();
        (keyspace, chunk, view)
    });
    with_view.collect()
}

/// Asserts that the manifest names exactly the existing chunks and tables, and that the tables'
/// counts are right.
fn assert_named(engine: &Engine, chunks: &Views) {
    let mut there: BTreeMap<u64, ChunkRecord> = BTreeMap::new();
    let mut named: BTreeMap<TableId, usize> = BTreeMap::new();
    for (keyspace, chunk, view) in chunks {
        let record = chunk_record(chunk.id, keyspace, &chunk.range, view);
        for part in &record.parts {
            *named.entry(part.table).or_default() += 1;
        }
        there.insert(chunk.id.0, sorted(record));
    }
    engine.disk.manifest().with_state(|state| {
        assert_eq!(state.chunks.len(), there.len(), "chunks in the manifest");
        for record in state.chunks.values() {
            let found = there.get(&record.id.0);
            let same = found.is_some_and(|found| is_same(engine, found, record));
            assert!(same, "the manifest says {record:?}, the view {found:?}");
        }
    });
    for (table, chunks) in named {
        let counted = engine.disk.tables.chunks_naming(table);
        assert_eq!(counted, chunks, "chunks that name {table:?}");
    }
}

/// Range deletions may be listed in different pieces: only the keys that they hide count.
fn is_same(engine: &Engine, a: &ChunkRecord, b: &ChunkRecord) -> bool {
    let range = KeyRange {
        low: a.low.clone().into(),
        high: None,
    };
    let ledger = engine.core.ledger();
    let covers =
        |record: &ChunkRecord| Covers::from_records(&record.covers, &range, CHECKPOINT_MAX, ledger);
    let same_covers = match (covers(a), covers(b)) {
        (Some(a), Some(b)) => a.hides_as(&b),
        (None, None) => true,
        _ => false,
    };
    let rest = |record: &ChunkRecord| ChunkRecord {
        covers: Vec::new(),
        ..sorted(record.clone())
    };
    same_covers && rest(a) == rest(b)
}

fn sorted(mut record: ChunkRecord) -> ChunkRecord {
    record.parts.sort_by_key(|part| part.table);
    record
}

/// The bytes that the views hold. Shared parts count once.
fn parts(chunks: &Views) -> Parts {
    let mut parts = Parts::default();
    let (mut tables, mut searches, mut deltas) = (HashSet::new(), HashSet::new(), HashSet::new());
    for (_, chunk, view) in chunks {
        parts.metadata += chunk.charged_bytes() as u64;
        let covers = view.covers.as_ref();
        parts.metadata += covers.map_or(0, |covers| covers.charged_bytes() as u64);
        let unseen = |table: &&Arc<TableHandle>| tables.insert(table.part.table);
        let own = view.funk.tables().filter(unseen);
        parts.metadata += own.map(|table| table.charged_bytes() as u64).sum::<u64>();
        parts.munks += view.munk.as_ref().map_or(0, |munk| munk.bytes() as u64);
        // Filters are left out: several searches may share parts of a filter.
        if let Some(search) = view.funk.search.get()
            && let Search::Index(index) = &*search
            && searches.insert(Arc::as_ptr(index))
        {
            parts.searches += index.bytes() as u64;
        }
        for layer in view.deltas() {
            if deltas.insert(Arc::as_ptr(layer.delta)) {
                parts.deltas += layer.delta.charged();
            }
        }
    }
    parts
}

/// The bytes that are charged for these parts.
fn charged(engine: &Engine) -> Parts {
    let ledger = engine.core.ledger();
    Parts {
        munks: ledger.bytes(Use::Munks),
        searches: ledger.bytes(Use::Searches),
        metadata: ledger.bytes(Use::Metadata),
        deltas: engine.core.admission.delta_used(),
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use crate::Db;
    use crate::options::Options;
    use evendb_storage::vfs::SimVfs;

    /// Compares until nothing waits to be reclaimed; other tests in the process may hold pins for a
    /// while.
    fn assert_equal_at_rest(db: &Db) {
        let engine = db.engine();
        // Tables are removed with the edit that drops them.
        engine.disk.manifest().flush(Vec::new()).unwrap();
        let mut found = None;
        for _ in 0..100_000 {
            engine.disk.collect(&engine.core.health);
            let both = (parts(&views(engine)), charged(engine));
            if both.0 == both.1 {
                return;
            }
            found = Some(both);
            std::thread::yield_now();
        }
        panic!("held and charged: {found:?}");
    }

    #[test]
    fn what_is_charged_is_what_the_views_hold() {
        let options = Options::new()
            .vfs(Arc::new(SimVfs::new(1)))
            .workers(0)
            .memory_budget(4 << 20)
            .advanced(|advanced| advanced.chunk_bytes(64 << 10));
        let db = options.open("/audit").unwrap();
        for round in 0..6u32 {
            for number in 0..2_000u32 {
                let key = format!("{:06}", number * 7919 % 4_000);
                match number % (5 + round) {
                    0 => db.delete(&key).unwrap(),
                    _ => db.put(&key, [round as u8; 150]).unwrap(),
                }
            }
            assert_equal_at_rest(&db);
            db.flush().unwrap();
            for number in 0..4_000u32 {
                db.get(format!("{number:06}")).unwrap();
            }
            assert_eq!(db.iter().filter(Result::is_err).count(), 0);
            assert_equal_at_rest(&db);
            db.settle_debt().unwrap();
            assert_equal_at_rest(&db);
        }
        let held = parts(&views(db.engine()));
        assert!(held.munks > 0 && held.metadata > 0, "{held:?}");
        db.close().unwrap();
    }
}
