//! Compaction on demand: a range of chunks made as small as it can be.
//!
//! The picker leaves garbage up to its limits, because rewriting sooner costs more than it gains.
//! Here somebody says that it is worth it now. All debt is paid first, so that what is rewritten is
//! not rewritten again; then each chunk of the range, under its token, is rewritten if that makes it
//! smaller; then what has become owed is paid (chunks that shrank are merged), and value files that are not nearly full of live values are emptied.
//!
//! Puts, checkpoints and other jobs go on. A chunk is looked at once: what is put meanwhile is for
//! the next time, so this ends whatever others do. A chunk that another job holds is waited for.
//!
//! What snapshots still see stays (I14, I15): with snapshots open, a chunk is rewritten only for what
//! they do not see.

use crate::catalog::KeyspaceState;
use crate::chunk::covers::Covers;
use crate::chunk::{Chunk, View};
use crate::engine::Engine;
use crate::engine::core::Core;
use crate::error::{Error, ErrorKind, Result};
use crate::funk::tables::TableHandle;
use crate::merge::Merge;
use crate::rebalance::munks;
use crate::rebalance::rewrite::sources_of;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, thread};
use crate::visibility::Dropping;
use crate::{checkpoint, making_room, trace, worker};
use evendb_storage::{TableId, Version};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long to rest before asking again for a token that a job holds.
const TOKEN_REST: Duration = Duration::from_millis(2);

/// How often is gone over all chunks, as long as the disk has too little room for some and others give some back.
const PASSES_MAX: usize = 8;

/// A value file of which no more than this is live is emptied.
const VALUES_LIVE_PERCENT: u64 = 90;

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionSummary {
    /// Chunks looked at.
    pub chunks: u64,
    /// Chunks rewritten on top of the reorganisation that was owed anyway.
    pub rewritten: u64,
    /// Bytes in SSTables and logs of the range before, after a checkpoint.
    pub bytes_before: u64,
    /// Bytes in SSTables and logs of the range afterwards.
    pub bytes_after: u64,
    /// From the call to the end.
    pub elapsed: Duration,
}

/// Keys of a keyspace from `low` to below `high`.
pub(crate) struct KeySpan {
    pub(crate) keyspace: Arc<KeyspaceState>,
    pub(crate) low: Vec<u8>,
    pub(crate) high: Option<Vec<u8>>,
}

impl KeySpan {
    fn is_empty(&self) -> bool {
        self.high.as_ref().is_some_and(|high| *high <= self.low)
    }

    /// Whether keys at and above `low` are still of it.
    fn reaches(&self, low: &[u8]) -> bool {
        self.high.as_ref().is_none_or(|high| low < &high[..])
    }
}

/// Compacts every keyspace.
pub(crate) fn compact_all(engine: &Engine) -> Result<CompactionSummary> {
    let whole = |keyspace| KeySpan {
        keyspace,
        low: Vec::new(),
        high: None,
    };
    let spans: Vec<KeySpan> = engine.catalog.keyspaces().into_iter().map(whole).collect();
    let done = compact(engine, &spans)?;
    engine.disk.shrinks_at_end.store(true, Ordering::Relaxed);
    Ok(done)
}

/// Compacts the chunks of the spans. A chunk that cannot be read does not keep the others from
/// it; the first such error is returned in the end. The caller has entered.
pub(crate) fn compact(engine: &Engine, spans: &[KeySpan]) -> Result<CompactionSummary> {
    let job = trace::job!("compact");
    let started = Instant::now();
    // What was put counts as it lies on disk. On a full one there may be room for that only once some was made.
    checkpoint::checkpoint(engine)
        .or_else(|error| going_on_if_full(error, &|| making_room::make_room(engine, &|| Ok(()))))?;
    let mut done = CompactionSummary {
        bytes_before: bytes_of(spans),
        ..CompactionSummary::default()
    };
    worker::settle_debt(engine).or_else(|error| going_on_if_full(error, &|| Ok(())))?;
    let mut damage = None;
    // Each pass gives room back, by which the next one may do what this one had no room for.
    let mut out_of_room = None;
    for _ in 0..PASSES_MAX {
        let before = done.rewritten;
        out_of_room = compact_chunks(engine, spans, &mut done, &mut damage)?;
        if out_of_room.is_none() || done.rewritten == before {
            break;
        }
    }
    if let Some(error) = out_of_room {
        return Err(error);
    }
    worker::settle_debt(engine)?;
    if empty_value_files(engine, spans) {
        worker::settle_debt(engine)?;
    }
    making_room::collect_for_room(&engine.core, &engine.disk);
    done.bytes_after = bytes_of(spans);
    done.elapsed = started.elapsed();
    trace::event!(
        DEBUG,
        "compacted",
        chunks = done.chunks,
        rewritten = done.rewritten,
        bytes_before = done.bytes_before,
        bytes_after = done.bytes_after,
        duration_micros = job.micros()
    );
    match damage {
        Some(error) => Err(error),
        None => Ok(done),
    }
}

/// Has something else done where the disk is full; another error stays.
fn going_on_if_full(error: Error, otherwise: &dyn Fn() -> Result<()>) -> Result<()> {
    match error.kind() {
        ErrorKind::NoSpace => otherwise(),
        _ => Err(error),
    }
}

/// Compacts each chunk of the spans once. The last error of those for which there was no room.
fn compact_chunks(
    engine: &Engine,
    spans: &[KeySpan],
    done: &mut CompactionSummary,
    damage: &mut Option<Error>,
) -> Result<Option<Error>> {
    let mut out_of_room = None;
    for span in spans.iter().filter(|span| !span.is_empty()) {
        let mut low = span.low.clone();
        while span.reaches(&low) {
            let (rewritten, next) = match compact_chunk_at(engine, &span.keyspace, &low) {
                // A dropped keyspace has nothing to compact.
                Err(error) if error.kind() == ErrorKind::KeyspaceDropped => break,
                outcome => outcome?,
            };
            done.chunks += 1;
            match rewritten {
                Ok(rewritten) => done.rewritten += u64::from(rewritten),
                Err(error) if error.kind() == ErrorKind::NoSpace => out_of_room = Some(error),
                Err(error) => drop(damage.get_or_insert(error)),
            }
            match next {
                Some(next) => low = next.into(),
                None => break,
            }
        }
    }
    Ok(out_of_room)
}

/// Chooses the value files of which a part is dead, and all that is live belongs to the spans: paying the debt then moves that. Whether
/// there is any. Now that the chunks are rewritten, what is dead is known.
fn empty_value_files(engine: &Engine, spans: &[KeySpan]) -> bool {
    let mut named: HashMap<u64, u64> = HashMap::new();
    for table in tables_of(spans).values() {
        for &(file, bytes) in &table.part.meta.value_files {
            *named.entry(file).or_default() += bytes;
        }
    }
    if named.is_empty() {
        return false;
    }
    engine.core.value_files.seal();
    engine.core.value_files.empty_too(|file| {
        let is_of_spans = named.get(&file.id).is_some_and(|own| *own >= file.live);
        is_of_spans && file.live <= file.bytes / 100 * VALUES_LIVE_PERCENT
    })
}

/// Rewrites the chunk that holds `low`, if that makes it smaller. Whether it did, or why its
/// tables could not be read, or that there was no room; and where the next chunk begins.
#[expect(
    clippy::type_complexity,
    reason = "an error of this chunk, which does not keep others from it, within one of all"
)]
fn compact_chunk_at(
    engine: &Engine,
    keyspace: &KeyspaceState,
    low: &[u8],
) -> Result<(Result<bool>, Option<Box<[u8]>>)> {
    loop {
        engine.core.health.check_writable()?;
        if keyspace.is_dropped() {
            return Err(keyspace.dropped_error());
        }
        let chunk = keyspace.index.load_full().find(low).clone();
        let Some(token) = chunk.try_token() else {
            match engine.core.manual() {
                // The job is another caller's.
                true => thread::yield_now(),
                false => thread::sleep(TOKEN_REST),
            }
            continue;
        };
        if chunk.latch.lock().retired {
            continue;
        }
        let next = chunk.range.high.clone();
        let compacted = compact_chunk(engine, keyspace, &chunk);
        drop(token);
        // What a rewrite has replaced goes only now.
        drop(chunk);
        if engine.disk.full_disk.is_owed() {
            making_room::take_room_back(engine)?;
        }
        return match compacted {
            Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NoSpace) => {
                Ok((Err(error), next))
            }
            Err(error) => Err(error),
            Ok(rewritten) => Ok((Ok(rewritten), next)),
        };
    }
}

/// The caller holds the token.
fn compact_chunk(engine: &Engine, keyspace: &KeyspaceState, chunk: &Arc<Chunk>) -> Result<bool> {
    if chunk.damaged.load(Ordering::Relaxed) {
        let message = "a chunk is left as it is: its tables could not be read before";
        return Err(Error::new(ErrorKind::Corruption, message));
    }
    munks::absorb(&engine.core, chunk);
    let is_filtered = keyspace.filter.lock().is_some();
    if !is_filtered && !can_shrink(&engine.core, chunk, &chunk.view.load_full())? {
        return Ok(false);
    }
    making_room::rewrite_with_kept(engine, keyspace, chunk)?;
    Ok(true)
}

/// Whether rewriting the chunk would leave less. Its figures tell, but for old versions that a
/// snapshot kept: for those the table is read.
fn can_shrink(core: &Core, chunk: &Chunk, view: &View) -> Result<bool> {
    let funk = &view.funk;
    let [table] = &funk.base[..] else {
        return Ok(!funk.runs.is_empty() || funk.base.len() > 1);
    };
    let meta = &table.part.meta;
    let whole = chunk.range.contains(&meta.min_key) && chunk.range.contains(&meta.max_key);
    if !funk.runs.is_empty() || !whole {
        return Ok(true);
    }
    let horizon = core.clock.horizon();
    if let Some(covers) = &view.covers
        && covers.oldest() <= covers.spent_limit(&horizon)
    {
        return Ok(true);
    }
    let dropping = Dropping {
        horizon: &horizon,
        bottom: true,
        zero_below: Version::ZERO,
    };
    let covering = || Covers::covering_now(view.covers.as_ref());
    let operator = || core.choices.operator(chunk.keyspace);
    let counted = sources_of(chunk, view).and_then(|sources| {
        let mut merge = Merge::folding(sources, dropping, covering(), operator())?;
        let mut records = 0;
        while merge.current().is_some() {
            records += 1;
            merge.advance()?;
        }
        Ok(records)
    });
    let records: u64 = counted.inspect_err(|error| {
        if error.kind() == ErrorKind::Corruption {
            chunk.note_damage(error);
        }
    })?;
    Ok(records < meta.entries)
}

/// Bytes in tables of the spans' chunks, each once however many chunks share it.
fn bytes_of(spans: &[KeySpan]) -> u64 {
    let tables = tables_of(spans);
    tables.values().map(|table| table.part.meta.len).sum()
}

/// The tables of the spans' chunks.
fn tables_of(spans: &[KeySpan]) -> HashMap<TableId, Arc<TableHandle>> {
    let mut tables = HashMap::new();
    for span in spans.iter().filter(|span| !span.is_empty()) {
        let index = span.keyspace.index.load_full();
        for (_, chunk) in index.iter() {
            let high = chunk.range.high.as_deref();
            if high.is_some_and(|high| *high <= *span.low) || !span.reaches(&chunk.range.low) {
                continue;
            }
            let view = chunk.view.load_full();
            let each = view.funk.tables();
            tables.extend(each.map(|table| (table.part.table, table.clone())));
        }
    }
    tables
}
