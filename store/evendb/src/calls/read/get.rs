//! Gets: the newest record of one key, or the newest at a snapshot's version.
//!
//! A get reads one root and one view (I1). It takes no lock that can wait: deltas and munk are
//! searched under a pin, the row cache by a try-lock. Before the first read that may enter the
//! kernel it takes a counted reference to the view and unpins (I17). There is one exception: a
//! value that lies apart is found under the mutex of [`crate::value_files`], under which a put may
//! create a file.

use super::{apart, counting, covered, folded};
use crate::cache::row::RowValue;
use crate::cache::sample::Served;
use crate::catalog::KeyspaceState;
use crate::chunk::{Chunk, Heat, View};
use crate::engine::Engine;
use crate::engine::caches::Caches;
use crate::engine::core::Core;
use crate::engine::work::Work;
use crate::error::Result;
use crate::expiry::{ReadPoint, ReadTime};
use crate::funk::value_of;
use crate::metrics::{Component, sample};
use crate::munk::{MunkHit, Sought};
use crate::plant::planted;
use crate::record::{Record, RecordRef};
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::sync::reclaim::{self, Guard};
use crate::value::{Owner, Value};
use crate::visibility::{Candidate, decide, live};
use evendb_storage::key_hash::RamHash;
use evendb_storage::table::Found;
use evendb_storage::{Kind, Time, Version};
use std::time::Instant;

/// The answer of the components in RAM about a key.
pub(crate) enum InRam {
    /// The newest record, or its absence.
    Answer(Component, Option<Value>),
    /// The newest record lists operands of a merge: [`super::folded`] has the value.
    Operands,
    /// The funk decides. Its records with a smaller version than this are deleted.
    Unknown(Version),
}

/// Searches a view's deltas, then its munk.
#[inline]
pub(crate) fn search_ram(
    view: &View,
    key: &[u8],
    hash: RamHash,
    point: ReadPoint<'_>,
    guard: &Guard,
) -> InRam {
    let ReadPoint { at, time } = point;
    let record = search_deltas(view, key, hash, at, guard);
    // In a mended munk, range deletions hide nothing.
    if record.is_none()
        && view.munk_is_mended()
        && let Some(answer) = search_munk(view, key, hash, point)
    {
        return answer;
    }
    if let Some(covers) = &view.covers
        && record.is_none_or(|record| record.version() <= covers.newest())
        && let Some(cover) = covers.newest_seen(key, at)
    {
        return covered::search(view, cover, record, key, hash, point, guard);
    }
    if let Some(record) = record {
        return of_delta(record, time);
    }
    search_munk(view, key, hash, point).unwrap_or(InRam::Unknown(Version::ZERO))
}

/// The munk's answer, if it has the key's span. It is the oldest source, so a key that it lacks
/// does not exist.
#[inline]
fn search_munk(view: &View, key: &[u8], hash: RamHash, point: ReadPoint<'_>) -> Option<InRam> {
    match view.munk.as_ref()?.get(key, hash, point.at) {
        Sought::Found(hit) => Some(of_munk(hit, point.time)),
        Sought::Nothing => Some(InRam::Answer(Component::Munk, None)),
        Sought::Absent => None,
    }
}

/// The answer of a delta's record that decides.
#[inline]
pub(super) fn of_delta(record: &Record, time: ReadTime<'_>) -> InRam {
    match live(record, time) {
        Some(record) if record.kind() == Kind::Merge => InRam::Operands,
        record => {
            let value = record.map(|record| Value::of_record(record.to_ref()));
            InRam::Answer(Component::Delta, value)
        }
    }
}

/// The answer of a munk's record that decides.
#[inline]
pub(super) fn of_munk(hit: MunkHit<'_>, time: ReadTime<'_>) -> InRam {
    match live(hit, time) {
        Some(hit) if hit.kind == Kind::Merge => InRam::Operands,
        hit => {
            let value = hit.map(|hit| {
                Value::new(Owner::Page(hit.page.clone()), hit.shown()).of_kind(hit.kind)
            });
            InRam::Answer(Component::Munk, value)
        }
    }
}

/// The record of a view's deltas that decides.
#[inline]
pub(super) fn search_deltas<'g>(
    view: &'g View,
    key: &[u8],
    hash: RamHash,
    at: Version,
    guard: &'g Guard,
) -> Option<&'g Record> {
    let frozen = view.frozen.iter().filter(|frozen| {
        frozen
            .limits
            .as_ref()
            .is_none_or(|limits| limits.contains(key))
    });
    let deltas = [&view.active]
        .into_iter()
        .chain(frozen.map(|frozen| &frozen.delta));
    decide(deltas.map(|delta| delta.get(key, hash, at, guard)))
}

/// The newest value of `key`.
pub(crate) fn get(
    core: &Core,
    caches: &Caches,
    work: &Work,
    keyspace: &KeyspaceState,
    key: &[u8],
) -> Result<Option<Value>> {
    let newest = ReadPoint::newest(&core.clock.expiry);
    get_at(core, caches, work, keyspace, key, newest)
}

/// The value of `key` that a reader sees.
pub(crate) fn get_at(
    core: &Core,
    caches: &Caches,
    work: &Work,
    keyspace: &KeyspaceState,
    key: &[u8],
    point: ReadPoint<'_>,
) -> Result<Option<Value>> {
    apart::in_place(core, || {
        get_stored(core, caches, work, keyspace, key, point)
    })
}

/// Whether `key` has a value that a reader sees. A value that lies apart is not read.
pub(crate) fn contains(
    engine: &Engine,
    keyspace: &KeyspaceState,
    key: &[u8],
    point: ReadPoint<'_>,
) -> Result<bool> {
    let (core, caches, work) = (&engine.core, &engine.caches, &engine.work);
    let found = get_stored(core, caches, work, keyspace, key, point)?;
    match found {
        // Operands lie over the value apart, and they may make anything of it.
        Some(value) if value.is_apart() && value.place_apart().is_none() => {
            Ok(get_at(core, caches, work, keyspace, key, point)?.is_some())
        }
        found => Ok(found.is_some()),
    }
}

/// The value that a reader of `key` sees, or its place if it lies apart. Rows hold only newest
/// values, so a snapshot, whose version is never the greatest, passes them over.
pub(crate) fn get_stored(
    core: &Core,
    caches: &Caches,
    work: &Work,
    keyspace: &KeyspaceState,
    key: &[u8],
    point: ReadPoint<'_>,
) -> Result<Option<Value>> {
    let ReadPoint { at, time } = point;
    core.health.check_readable()?;
    keyspace.check_readable_at(at)?;
    work.stir_gently();
    let started = sample();
    let hash = RamHash::of(key);
    let guard = reclaim::pin();
    let chunk = keyspace.index.load(&guard).get().find(key);
    debug_assert!(chunk.range.contains(key), "the index leads elsewhere");
    let view = chunk.view.load(&guard);
    let hidden_below = match search_ram(view.get(), key, hash, point, &guard) {
        InRam::Unknown(hidden_below) => hidden_below,
        InRam::Operands => {
            let (chunk, view) = (chunk.clone(), view.counted());
            drop(guard);
            let place = (keyspace, &chunk, &view);
            return get_folded(core, caches, work, place, (key, hash), point, started);
        }
        InRam::Answer(component, value) => {
            if component == Component::Munk {
                counting::hit(caches, chunk, view.get(), key, hash);
            }
            let value = value.map(|value| handed_out(caches, value));
            core.metrics.served(served_by(component, &value), started);
            return Ok(value);
        }
    };
    // Gets that deltas answer are not counted: a munk would save them nothing.
    Heat::count(&chunk.heat.gets);
    let newest = at == Version::MAX;
    if newest
        && let Some(rows) = &caches.row_cache
        && let Some(tag) = view.get().row_tag.number()
        && let Some(row) = rows.find(tag, key, hash)
    {
        Heat::count(&chunk.heat.gets_outside);
        caches.sampler.see(keyspace.id.0, hash, Served::Row);
        core.metrics.served(Component::RowCache, started);
        return Ok(value_of_row(row, time));
    }
    let view = view.counted();
    let chunk = chunk.clone();
    drop(guard);
    counting::miss(core, caches, work, &chunk, &view, key, hash);
    let search = || search_funk(core, caches, &chunk, &view, key, hash, at);
    let (found, searched) = core.metrics.pauses.read.timed(search);
    let found = found?.filter(|(_, found)| found.version >= hidden_below);
    if let Some((_, found)) = &found
        && found.kind == Kind::Merge
    {
        let place = (keyspace, &chunk, &view);
        return get_folded(core, caches, work, place, (key, hash), point, started);
    }
    let (version, expires) = found.as_ref().map_or((Version::ZERO, None), |(_, found)| {
        (found.version, found.kind.expires(found.stored_value()))
    });
    let found = found.and_then(|(component, found)| Some((component, value_of(found, time)?)));
    let Some((component, value)) = found else {
        core.metrics.served(Component::Absent, started);
        return Ok(None);
    };
    core.metrics.served(component, started);
    core.metrics.searched(component, searched);
    if newest {
        caches.sampler.see(keyspace.id.0, hash, Served::Table);
        if !is_deleted_soon(&view, key, version) {
            let row = (&value, expires);
            fill_row(core, caches, keyspace, key, hash, (&chunk, &view), row);
        }
    }
    Ok(Some(value))
}

/// A value in RAM as the caller gets it.
#[inline]
fn handed_out(caches: &Caches, value: Value) -> Value {
    // Relaxed: a hint.
    match caches.copies_values.load(Ordering::Relaxed) {
        true => value.detached(),
        false => value,
    }
}

/// The value of a cached row. The row is the newest record, so if it has expired, no older record
/// counts.
#[inline]
fn value_of_row(row: RecordRef, time: ReadTime<'_>) -> Option<Value> {
    let is_live = live(&*row, time).is_some();
    is_live.then(|| Value::of_record(row))
}

/// Whether a range deletion that may still be pending is newer than this version: it hides the
/// record from rows, too.
#[inline]
fn is_deleted_soon(view: &View, key: &[u8], version: Version) -> bool {
    let covers = view.covers.as_ref();
    covers.is_some_and(|covers| covers.is_newer(key, version))
}

/// The value of a key whose newest record lists operands.
#[cold]
fn get_folded(
    core: &Core,
    caches: &Caches,
    work: &Work,
    (keyspace, chunk, view): (&KeyspaceState, &Arc<Chunk>, &Arc<View>),
    (key, hash): (&[u8], RamHash),
    point: ReadPoint<'_>,
    started: Option<Instant>,
) -> Result<Option<Value>> {
    let apart = folded::WhatIsApart::IsRead;
    let folded = folded::get(core, caches, keyspace, view, (key, hash), point, apart);
    let folded = folded.inspect_err(|error| chunk.note_damage(error))?;
    match folded.component {
        Component::Munk => counting::hit(caches, chunk, view, key, hash),
        Component::Delta => {}
        _ => counting::miss(core, caches, work, chunk, view, key, hash),
    }
    // Where deltas have operands, the funk's value is not the newest. A value that changes when its
    // base expires must not become a row.
    if let Some(value) = &folded.value
        && !value.is_apart()
        && point.at == Version::MAX
        && folded.of_funk_alone
        && !folded.changes_with_time
        && view.covers.is_none()
    {
        fill_row(
            core,
            caches,
            keyspace,
            key,
            hash,
            (chunk, view),
            (value, None),
        );
    }
    if let (Some(newest), Some(value)) = (&folded.long, &folded.value)
        && !value.is_apart()
    {
        folded::fold_back(core, chunk, key, newest, value);
    }
    let component = served_by(folded.component, &folded.value);
    core.metrics.served(component, started);
    Ok(folded.value)
}

/// The component that counts as having served a get.
#[inline]
fn served_by(component: Component, value: &Option<Value>) -> Component {
    match value {
        Some(_) => component,
        None => Component::Absent,
    }
}

fn search_funk(
    core: &Core,
    caches: &Caches,
    chunk: &Arc<Chunk>,
    view: &View,
    key: &[u8],
    hash: RamHash,
    at: Version,
) -> Result<Option<(Component, Found)>> {
    let _inside = core.health.enter()?;
    let (settings, metrics) = (&caches.search_settings, Some(&core.metrics));
    let found = view.funk.get(key, hash, at, settings, metrics);
    found.inspect_err(|error| chunk.note_damage(error))
}

/// The expiry of the value of `key` that a reader at `at` has just got. `None` for a value of
/// operands, which changes when the record below them expires.
pub(crate) fn expiry_of(
    core: &Core,
    caches: &Caches,
    keyspace: &KeyspaceState,
    key: &[u8],
    at: Version,
) -> Result<Option<Time>> {
    let hash = RamHash::of(key);
    let guard = reclaim::pin();
    let chunk = keyspace.index.load(&guard).get().find(key);
    let view = chunk.view.load(&guard);
    // No range deletion hides the record, because the reader has got the value.
    if let Some(record) = search_deltas(view.get(), key, hash, at, &guard) {
        return Ok(record.kind().expires(record.value()));
    }
    if let Some(munk) = &view.get().munk {
        match munk.get(key, hash, at) {
            Sought::Found(hit) => return Ok(hit.kind.expires(hit.stored_value())),
            Sought::Nothing => return Ok(None),
            Sought::Absent => {}
        }
    }
    let (chunk, view) = (chunk.clone(), view.counted());
    drop(guard);
    let found = search_funk(core, caches, &chunk, &view, key, hash, at)?;
    Ok(found.and_then(|(_, found)| found.kind.expires(found.stored_value())))
}

/// Puts a value from the funk into the row cache, if it is still the newest. It is if a fresh
/// lookup from the root gives the same view, and no delta of it has the key by now. A check of the
/// chunk that was looked up would not do: after a split its last view stays for ever.
fn fill_row(
    core: &Core,
    caches: &Caches,
    keyspace: &KeyspaceState,
    key: &[u8],
    hash: RamHash,
    (chunk, view): (&Chunk, &Arc<View>),
    (value, expires): (&Value, Option<Time>),
) {
    let Some(rows) = &caches.row_cache else {
        return;
    };
    if value.stored().len() > core.options.row_bytes_max() {
        return;
    }
    if core.choices.of(keyspace.id).row_cache == Some(false) {
        return;
    }
    let Some(tag) = view.row_tag.number() else {
        return;
    };
    let row = RowValue {
        value: value.stored(),
        expires,
        is_apart: value.is_apart(),
    };
    rows.insert_until_if(tag, key, hash, row, || {
        let guard = reclaim::pin();
        let now = keyspace
            .index
            .load(&guard)
            .get()
            .find(key)
            .view
            .load(&guard);
        if planted!(core.options, RowCheckOfOldChunk) {
            return chunk.view.is(view) && !view.active.contains(key, hash, &guard);
        }
        planted!(core.options, NoRowCheck)
            || (std::ptr::eq(now.get(), &**view) && !now.active.contains(key, hash, &guard))
    });
}
