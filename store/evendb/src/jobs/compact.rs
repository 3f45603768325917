//! Compaction on demand: makes a range of chunks as small as possible.
//!
//! The picker leaves garbage up to its limits, because earlier rewriting costs more than it gains.
//! Here the caller says that it is worth it now. First all debt is paid, so that nothing is
//! rewritten twice. Then each chunk of the range is rewritten under its token, if that makes it
//! smaller. Then new debt is paid (chunks that shrank are merged), and value files that are not
//! nearly full of live values are emptied.
//!
//! Puts, checkpoints and other jobs go on. Each chunk is examined once: records put meanwhile are
//! left for the next call, so this ends whatever others do. If another job holds a chunk, this
//! waits for it.
//!
//! Versions that snapshots still see stay (I14, I15): with open snapshots, a chunk is rewritten
//! only for versions that they do not see.

use crate::catalog::KeyspaceState;
use crate::chunk::covers::Covers;
use crate::chunk::{Chunk, View};
use crate::engine::Engine;
use crate::engine::core::Core;
use crate::error::{Error, ErrorKind, Result};
use crate::merge::Merge;
use crate::rebalance::rewrite::sources_of;
use crate::rebalance::{guarded, munks};
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, thread};
use crate::tables::TableHandle;
use crate::visibility::Dropping;
use crate::{checkpoint, making_room, trace, worker};
use evendb_storage::{TableId, Version};
use std::cell::Cell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The rest before it asks again for a token that a job holds.
const TOKEN_REST: Duration = Duration::from_millis(2);

/// The largest number of passes over all chunks: another pass follows while the disk has too little
/// room for some chunks, and others give room back.
const PASSES_MAX: usize = 8;

/// The live percentage up to which a value file is emptied.
const VALUES_LIVE_PERCENT: u64 = 90;

/// The result of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionSummary {
    /// Chunks examined.
    pub chunks: u64,
    /// Chunks rewritten in addition to the reorganisation that was owed anyway.
    pub rewritten: u64,
    /// Bytes in SSTables and logs of the range at the begin, after a checkpoint.
    pub bytes_before: u64,
    /// Bytes in SSTables and logs of the range at the end.
    pub bytes_after: u64,
    /// The time from the call to the end.
    pub elapsed: Duration,
}

/// The keys of a keyspace from `low` to below `high`.
pub(crate) struct KeySpan {
    pub(crate) keyspace: Arc<KeyspaceState>,
    pub(crate) low: Vec<u8>,
    pub(crate) high: Option<Vec<u8>>,
}

impl KeySpan {
    fn is_empty(&self) -> bool {
        self.high.as_ref().is_some_and(|high| *high <= self.low)
    }

    /// Whether the span has keys at or above `low`.
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

/// Compacts the chunks of the spans. A chunk that cannot be read does not stop the others; the
/// first such error is returned at the end. The caller has entered.
pub(crate) fn compact(engine: &Engine, spans: &[KeySpan]) -> Result<CompactionSummary> {
    let job = trace::job!("compact");
    let started = Instant::now();
    // Puts count in their form on disk. A full disk may have room for the checkpoint only after
    // some room was made.
    checkpoint::checkpoint(engine)
        .or_else(|error| going_on_if_full(error, &|| making_room::make_room(engine, &|| Ok(()))))?;
    let mut done = CompactionSummary {
        bytes_before: bytes_of(spans),
        ..CompactionSummary::default()
    };
    worker::settle_debt(engine).or_else(|error| going_on_if_full(error, &|| Ok(())))?;
    let mut damage = None;
    // Each pass gives room back; the next pass may then do what this one had no room for.
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
    making_room::collect_for_room(engine);
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

/// Calls `otherwise` if the disk is full; returns any other error.
fn going_on_if_full(error: Error, otherwise: &dyn Fn() -> Result<()>) -> Result<()> {
    match error.kind() {
        ErrorKind::NoSpace => otherwise(),
        _ => Err(error),
    }
}

/// Compacts each chunk of the spans once. Returns the last error of a chunk for which there was no
/// room.
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
            let (rewritten, next) = match compact_chunk_at(engine, span, &low) {
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

/// Chooses value files to empty: part of the file is dead, and all its live values belong to the
/// spans. Paying the debt then moves these values. Returns whether there are such files. The dead
/// values are known now that the chunks are rewritten.
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

/// Rewrites the chunk that holds `low`, if that makes it smaller. Returns whether it did, or the
/// error (its tables cannot be read, or there is no room), and the low key of the next chunk.
#[expect(
    clippy::type_complexity,
    reason = "an error of this chunk, which does not keep others from it, within one of all"
)]
fn compact_chunk_at(
    engine: &Engine,
    span: &KeySpan,
    low: &[u8],
) -> Result<(Result<bool>, Option<Box<[u8]>>)> {
    let keyspace = &span.keyspace;
    loop {
        engine.core.health.check_writable()?;
        if keyspace.is_dropped() {
            return Err(keyspace.dropped_error());
        }
        let chunk = keyspace.index.load_full().find(low).clone();
        let Some(token) = chunk.try_token() else {
            match engine.core.manual() {
                // The job belongs to another caller.
                true => thread::yield_now(),
                false => thread::sleep(TOKEN_REST),
            }
            continue;
        };
        if chunk.latch.lock().retired {
            continue;
        }
        let next = chunk.range.high.clone();
        let compacted = compact_chunk(engine, span, &chunk);
        drop(token);
        // The parts that a rewrite has replaced are freed only now.
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

/// Compacts one chunk; the caller holds its token.
fn compact_chunk(engine: &Engine, span: &KeySpan, chunk: &Arc<Chunk>) -> Result<bool> {
    let keyspace = &span.keyspace;
    if chunk.damaged.load(Ordering::Relaxed) {
        let message = "a chunk is left as it is: its tables could not be read before";
        return Err(Error::new(ErrorKind::Corruption, message));
    }
    if chunk.view.load_full().funk.is_guarded() {
        let range = (&*span.low, span.high.as_deref());
        let worked = Cell::new(false);
        let compact = || {
            worked.set(guarded::compact(&engine.jobs(), keyspace, chunk, range)? || worked.get());
            Ok(())
        };
        making_room::with_kept(engine, &compact)?;
        return guarded::check_none_left_out(chunk, range).map(|()| worked.get());
    }
    munks::absorb(&engine.core, chunk);
    let is_filtered = keyspace.filter.lock().is_some();
    if !is_filtered && !can_shrink(&engine.core, chunk, &chunk.view.load_full())? {
        return Ok(false);
    }
    making_room::rewrite_with_kept(engine, keyspace, chunk)?;
    Ok(true)
}

/// Whether a rewrite would make the chunk smaller. Its figures tell, except for old versions that a
/// snapshot kept: these are counted by reading the table.
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

/// The bytes in tables of the spans' chunks; a shared table counts once.
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
