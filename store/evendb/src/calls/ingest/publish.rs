//! The moment at which ingested tables are shown.
//!
//! Order of steps; each needs the one before it (docs/concurrency.md, ingest):
//! 1. The tables are synced; now their names are synced.
//! 2. A checkpoint, so that the one of step 5 has little to do.
//! 3. The tokens of all chunks that the tables overlap: no job changes the chunks. The checkpoint
//!    mutex.
//! 4. The chunks are held: puts to them wait from here on.
//! 5. A checkpoint, number n. All records that were ever put to the held chunks are in their tables
//!    and of checkpoint n or an older one, and replay of the commit log begins behind them: no such
//!    record can come to lie above the ingested ones, neither in memory nor after a crash.
//! 6. The new chunks ([`layout`](super::layout)); one edit of the manifest for them, synced. From
//!    here on the ingest is durable and nothing can fail. In the manifest the tables have the last
//!    version of checkpoint n, which is newer than all records and range deletions of their chunks,
//!    and older than all later ones.
//! 7. The ingest is announced, as a put is: snapshots from here on wait for it. The version that it
//!    gets is the version of the tables in this life. The new root is published by one store.
//!    Withdrawn.
//! 8. The old chunks are retired, and puts that waited for them go on, at a greater version.
//!
//! Step 6 prepares everything that needs no version, before step 7: an announced operation waits
//! for nothing, and others wait for it.
//!
//! A failure before the edit of step 6 was written leaves everything as it was. Any failure except
//! a full disk latches.
//!
//! Thread safety: any number of ingests, beside everything else. Tokens are taken in the order of
//! keys, and held while waiting for the checkpoint mutex, never the other way round.

use super::layout::{NewChunk, chunks_of};
use crate::catalog::KeyspaceState;
use crate::checkpoint;
use crate::chunk::covers::Covers;
use crate::chunk::row_tag::RowTag;
use crate::chunk::{ChargedDelta, Chunk, KeyRange, Token, View};
use crate::engine::Engine;
use crate::engine::core::Core;
use crate::engine::flow::Flow;
use crate::error::{Error, Result};
use crate::full_disk::Need;
use crate::funk::{Funk, Search};
use crate::manifest::ChunkId;
use crate::manifest::edit::{Change, ChunkRecord, Part};
use crate::munk::Munk;
use crate::plant::planted;
use crate::rebalance::{jobs, layout, munks};
use crate::sync::Arc;
use crate::tables::TableHandle;
use crate::version::clock::{checkpoint_of, last_version_of};
use evendb_storage::codec::successor;
use evendb_storage::table::TableMeta;
use evendb_storage::{TableId, Version};
use std::collections::BTreeSet;
use std::time::Duration;

/// Shows the tables (ascending, disjoint, synced, named by nothing). Returns how many of them
/// overlap older data.
pub(super) fn publish(
    engine: &Engine,
    keyspace: &Arc<KeyspaceState>,
    parts: &[Part],
) -> Result<u64> {
    let Engine { core, disk, .. } = engine;
    core.health.check_writable()?;
    // Step 1. A failed sync latches: it is unknown which names are on the disk.
    let synced = disk.vfs.sync_dir(&disk.dir).map_err(|source| {
        evendb_storage::Error::io(&disk.dir, "sync the directory", source).into()
    });
    synced.map_err(|error| core.health.latch(error))?;
    // Step 2.
    checkpoint::checkpoint(engine)?;
    loop {
        // Step 3.
        let chunks = overlapped(keyspace, parts);
        let Some(_tokens) = take_tokens(core, &engine.flow, keyspace, &chunks)? else {
            continue;
        };
        let _no_other_checkpoint = engine.flow.checkpoint_mutex.lock();
        // No thread drops the keyspace, or closes the database, while the mutex is held.
        check_writable(core, keyspace)?;
        return publish_alone(engine, keyspace, &chunks, parts);
    }
}

fn check_writable(core: &Core, keyspace: &KeyspaceState) -> Result<()> {
    core.health.check_writable()?;
    match keyspace.is_dropped() {
        true => Err(keyspace.dropped_error()),
        false => Ok(()),
    }
}

/// The chunks with keys between the limits of some table, ascending.
fn overlapped(keyspace: &KeyspaceState, parts: &[Part]) -> Vec<Arc<Chunk>> {
    let index = keyspace.index.load_full();
    let mut chunks: Vec<Arc<Chunk>> = Vec::new();
    for part in parts {
        let behind = successor(&part.meta.max_key);
        for chunk in index.overlapping(&part.meta.min_key, Some(&behind)) {
            if chunks.last().is_none_or(|last| !Arc::ptr_eq(last, chunk)) {
                chunks.push(chunk.clone());
            }
        }
    }
    chunks
}

/// The tokens of all chunks. `None` if one of the chunks has been replaced meanwhile. Jobs that
/// have a token end by themselves: they wait for no token, and for no checkpoint that this thread
/// would hold up.
fn take_tokens<'c>(
    core: &Core,
    flow: &Flow,
    keyspace: &KeyspaceState,
    chunks: &'c [Arc<Chunk>],
) -> Result<Option<Vec<Token<'c>>>> {
    let mut tokens = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        loop {
            check_writable(core, keyspace)?;
            if let Some(token) = chunk.try_token() {
                tokens.push(token);
                break;
            }
            if chunk.latch.lock().retired {
                return Ok(None);
            }
            let mut wait = flow.run_mutex.lock();
            // Nothing signals that a token was given back.
            flow.run_cleared
                .wait_for(&mut wait, Duration::from_millis(2));
        }
    }
    let is_retired = |chunk: &Arc<Chunk>| chunk.latch.lock().retired;
    Ok((!chunks.iter().any(is_retired)).then_some(tokens))
}

/// Puts to these chunks wait as long as this lives, or until the chunks are retired.
struct Held<'a> {
    flow: &'a Flow,
    chunks: &'a [Arc<Chunk>],
}

impl<'a> Held<'a> {
    fn new(flow: &'a Flow, chunks: &'a [Arc<Chunk>]) -> Held<'a> {
        // A put that has the latch now links its records before it releases it: step 5 has them.
        for chunk in chunks {
            chunk.latch.lock().held = true;
        }
        Held { flow, chunks }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for chunk in self.chunks {
            chunk.latch.lock().held = false;
        }
        self.flow.clear_run();
    }
}

/// A future chunk, without its version.
struct Prepared {
    id: ChunkId,
    range: KeyRange,
    funk: Funk,
    search: Option<Arc<Search>>,
    covers: Option<Arc<Covers>>,
    munk: Option<Arc<Munk>>,
}

impl Prepared {
    fn tables(&self) -> impl Iterator<Item = &Arc<TableHandle>> {
        self.funk.tables()
    }

    fn into_chunk(
        self,
        core: &Core,
        keyspace: &KeyspaceState,
        version: Version,
        row_tag: RowTag,
    ) -> Arc<Chunk> {
        // Counted anew: the ingested tables are shown at a version now.
        let mut funk = self.funk.counted();
        if let Some(search) = self.search {
            funk.search.set(search);
            funk.search_shared = true;
        }
        let view = View {
            active: ChargedDelta::new(checkpoint_of(version), &core.admission),
            frozen: Vec::new(),
            munk: self.munk,
            funk: Arc::new(funk),
            covers: self.covers,
            row_tag,
        };
        let (id, range, ledger) = (self.id, self.range, core.ledger());
        let chunk = Chunk::new(id, keyspace.id, range, view, version, ledger);
        chunk.latch.lock().held = true;
        Arc::new(chunk)
    }
}

/// Steps 4 to 8. The caller has the tokens of all chunks, and the checkpoint mutex.
fn publish_alone(
    engine: &Engine,
    keyspace: &Arc<KeyspaceState>,
    chunks: &[Arc<Chunk>],
    parts: &[Part],
) -> Result<u64> {
    let Engine {
        core, disk, flow, ..
    } = engine;
    let held = Held::new(flow, chunks);
    checkpoint::checkpoint_locked(engine)?;
    let number = *flow.completed.lock();
    let last_of_checkpoint = match planted!(core.options, IngestNamedWithoutVersion) {
        true => Version::ZERO,
        false => last_version_of(number),
    };
    let parts = named_version(parts, last_of_checkpoint);
    let plan = prepare(engine, chunks, &parts);
    let changes = changes_of(keyspace, chunks, &plan);
    let early = planted!(core.options, IngestShownEarly);
    if !early {
        write_edit(engine, &plan, &changes)?;
    }
    let Plan {
        groups,
        ingested,
        overlapping,
    } = plan;
    let dropped = chunks.iter().flat_map(|chunk| {
        let view = chunk.view.load_full();
        view.funk.tables().cloned().collect::<Vec<_>>()
    });
    let dropped: Vec<Arc<TableHandle>> = dropped.collect();
    let new = announce_and_show(core, keyspace, groups, &ingested);
    // Step 8. Later puts to the new chunks are newer, and not of the same version.
    core.clock.advance();
    for chunk in chunks {
        chunk.latch.lock().retired = true;
    }
    drop(Held { flow, chunks: &new });
    drop(held);
    if early {
        let bytes = disk.manifest().flush(changes);
        bytes.map_err(|error| core.health.latch(error.into()))?;
    }
    disk.tables.registry().release(dropped);
    // It may flush other edits. The ingest is done; an error has latched the database.
    drop(jobs::finish_layout(&engine.jobs(), &new));
    engine.work.stir();
    Ok(overlapping)
}

/// The edit of step 6. A full disk or a lack of descriptors leaves everything as it was.
fn write_edit(engine: &Engine, plan: &Plan, changes: &[Change]) -> Result<()> {
    let Engine { core, disk, .. } = engine;
    let flush = || Ok(disk.manifest().flush(changes.to_vec())?);
    let flushed = disk.full_disk.with(Need::Jobs, flush);
    let bytes = flushed.map_err(|error: Error| {
        if !error.kind().is_for_want() {
            return core.health.latch(error);
        }
        // The edit was not written: the new chunks' names of the tables do not count.
        disk.tables.registry().release(plan.tables());
        error
    })?;
    core.metrics.bytes_manifest.add(bytes);
    Ok(())
}

/// Step 7. Returns the new chunks, which are still held.
fn announce_and_show(
    core: &Core,
    keyspace: &KeyspaceState,
    groups: Vec<Group>,
    ingested: &[Arc<TableHandle>],
) -> Vec<Arc<Chunk>> {
    let row_tag = core.row_tags.fresh();
    let announcement = core.clock.announce();
    let version = announcement.version();
    let of_rows = match planted!(core.options, IngestWithoutVersion) {
        true => Version::ZERO,
        false => version,
    };
    for table in ingested {
        table.show_at(of_rows);
    }
    show(core, keyspace, groups, version, row_tag)
    // The announcement is withdrawn: waiting snapshots see all records.
}

/// The tables as the manifest names them.
fn named_version(parts: &[Part], version: Version) -> Vec<Part> {
    let named = |part: &Part| Part {
        meta: Arc::new(TableMeta {
            max_version: version,
            ..(*part.meta).clone()
        }),
        ..part.clone()
    };
    parts.iter().map(named).collect()
}

/// Neighbouring chunks, and the chunks that replace them.
struct Group {
    old: Vec<Arc<Chunk>>,
    new: Vec<Prepared>,
}

struct Plan {
    groups: Vec<Group>,
    ingested: Vec<Arc<TableHandle>>,
    overlapping: u64,
}

impl Plan {
    /// Each table once for each new chunk that names it.
    fn tables(&self) -> Vec<Arc<TableHandle>> {
        let new = self.groups.iter().flat_map(|group| &group.new);
        new.flat_map(|new| new.tables()).cloned().collect()
    }
}

/// Step 6, except the edit: nothing of it is visible.
fn prepare(engine: &Engine, chunks: &[Arc<Chunk>], parts: &[Part]) -> Plan {
    let Engine { core, disk, .. } = engine;
    let mut groups: Vec<Group> = Vec::new();
    let mut overlapping: BTreeSet<TableId> = BTreeSet::new();
    let mut first = 0;
    for chunk in chunks {
        // The munk absorbs durable deltas, so that no delta is left.
        munks::absorb(core, chunk);
        let view = chunk.view.load_full();
        assert!(
            view.active.is_empty() && view.frozen.iter().all(|frozen| frozen.durable),
            "a checkpoint takes all of a chunk that is held"
        );
        first += parts[first..].partition_point(|part| *part.meta.max_key < *chunk.range.low);
        let own = parts[first..].iter();
        let own = own.take_while(|part| chunk.range.overlaps(&part.meta));
        let own: Vec<&Part> = own.collect();
        let bytes_max = core.options.chunk_bytes_max();
        let mut note = |part: &Part| {
            overlapping.insert(part.table);
        };
        let new = chunks_of(&chunk.range, &view.funk, &own, bytes_max, &mut note);
        let meeting = match planted!(core.options, IngestKeepsImages) {
            true => &[],
            false => &own[..],
        };
        let munk = munk_beside(&view, meeting);
        let new = new
            .into_iter()
            .map(|new| prepared(engine, &view, new, munk.as_ref()));
        let adjoins = |group: &Group| {
            let last = group.old.last();
            last.is_some_and(|last| last.range.high.as_ref() == Some(&chunk.range.low))
        };
        match groups.last_mut().filter(|group| adjoins(group)) {
            Some(group) => {
                group.old.push(chunk.clone());
                group.new.extend(new);
            }
            None => groups.push(Group {
                old: vec![chunk.clone()],
                new: new.collect(),
            }),
        }
    }
    let handle = |part: &Part| disk.tables.find(part.table).expect("a new chunk names it");
    Plan {
        groups,
        ingested: parts.iter().map(handle).collect(),
        overlapping: overlapping.len() as u64,
    }
}

/// The munk without the spans that have keys of the tables. `None` if no span would be left, or if
/// a delta is left that the remaining spans need, and that would hide ingested records.
fn munk_beside(view: &View, tables: &[&Part]) -> Option<Munk> {
    let munk = view.munk.as_ref().filter(|_| view.frozen.is_empty())?;
    let meets = |span: usize| {
        let (low, high) = munk.limits(span);
        let behind = tables.partition_point(|part| *part.meta.max_key < *low);
        let next = tables.get(behind);
        next.is_some_and(|part| high.is_none_or(|high| *part.meta.min_key < *high))
    };
    Some(munk.without(meets)).filter(Munk::holds_any)
}

fn prepared(engine: &Engine, view: &View, new: NewChunk, munk: Option<&Munk>) -> Prepared {
    let Engine { core, disk, .. } = engine;
    let NewChunk {
        range,
        parts,
        run_end,
        same_log,
    } = new;
    let guards = view.funk.tree.as_ref().map(|tree| tree.guard_set());
    let acquire = |part: &Part| disk.tables.acquire(part);
    let funk = Funk::of_parts(&parts, guards.as_ref(), run_end, &acquire);
    let funk = funk.expect("ingested tables contradict nothing");
    let covers = view.covers.as_ref();
    let covers = covers.and_then(|covers| covers.clip(&range, core.ledger()));
    let munk = munk.map(|munk| layout::part_of_munk(munk.clone(), &range));
    Prepared {
        id: ChunkId(disk.new_id()),
        search: view
            .funk
            .search
            .get()
            .filter(|_| same_log && !funk.runs.is_empty()),
        funk,
        covers: covers.map(Arc::new),
        munk: munk.filter(Munk::holds_any).map(Arc::new),
        range,
    }
}

/// The edit: all old chunks go, all new ones come.
fn changes_of(keyspace: &KeyspaceState, chunks: &[Arc<Chunk>], plan: &Plan) -> Vec<Change> {
    let removed = chunks
        .iter()
        .map(|chunk| Change::RemoveChunk { id: chunk.id });
    let mut changes: Vec<Change> = removed.collect();
    for new in plan.groups.iter().flat_map(|group| &group.new) {
        let covers = new.covers.as_ref();
        changes.push(Change::SetChunk(ChunkRecord {
            id: new.id,
            keyspace: keyspace.id,
            low: new.range.low.to_vec(),
            parts: new.funk.parts(),
            covers: covers.map_or(Vec::new(), |covers| covers.durable_records(&new.range)),
            guards: new.funk.guard_set(),
        }));
    }
    changes
}

/// Publishes the root with the new chunks: the moment at which gets see the ingested records.
fn show(
    core: &Core,
    keyspace: &KeyspaceState,
    groups: Vec<Group>,
    version: Version,
    row_tag: RowTag,
) -> Vec<Arc<Chunk>> {
    let mut replaced = Vec::with_capacity(groups.len());
    for group in groups {
        let Group { old, new } = group;
        let new = new.into_iter();
        let new = new.map(|new| new.into_chunk(core, keyspace, version, row_tag));
        let new: Vec<Arc<Chunk>> = new.collect();
        for chunk in &old {
            layout::inherit(chunk, &new);
        }
        replaced.push((old, new));
    }
    layout::publish_groups(keyspace, &replaced);
    replaced.into_iter().flat_map(|(_, new)| new).collect()
}
