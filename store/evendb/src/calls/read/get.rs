//! Gets: the newest record of one key, or the newest at a snapshot's version.
//!
//! A get reads one root and one view (I1). It takes no lock that can wait: deltas and munk are
//! searched under a pin, the row cache by a try-lock. Before the first read that may enter the
//! kernel it takes a counted reference to the view and unpins (I17). There is one exception: a
//! value that lies apart is found under the mutex of [`crate::value_files`], under which a put may
//! create a file.

use super::{counting, large_values, merges};
use crate::catalog::KeyspaceState;
pub(crate) use crate::chunk::Lookup;
use crate::chunk::{Chunk, Heat, InRam, View};
use crate::engine::Engine;
use crate::error::Result;
use crate::expiry::{ReadPoint, ReadTime};
use crate::funk::value_of;
use crate::memory_policy::MemoryPolicy;
use crate::memory_policy::row::RowValue;
use crate::metrics::{Component, sample};
use crate::plant::planted;
use crate::record::RecordRef;
use crate::sync::Arc;
use crate::sync::reclaim::{self, Guard};
use crate::value::{Owner, Value};
use crate::visibility::{Candidate, live};
use evendb_storage::table::Found;
use evendb_storage::{Kind, Time, Version};
use std::time::Instant;

/// The answer of the layers in RAM to a get.
pub(crate) enum Answer {
    /// The value, or its absence, and the component that knows it.
    Value(Component, Option<Value>),
    /// The newest record lists operands of a merge: [`super::merges`] has the value.
    Operands,
    /// The funk decides. Its records with a smaller version than this are deleted.
    Unknown(Version),
}

/// Asks the layers of a view that are in RAM for the value of a key.
#[inline]
pub(crate) fn value_in_ram(view: &View, lookup: &Lookup<'_>, guard: &Guard) -> Answer {
    match view.search_ram(lookup, guard) {
        InRam::Delta(record) => match live(record, lookup.time()) {
            Some(record) if record.kind() == Kind::Merge => Answer::Operands,
            record => {
                let value = record.map(|record| Value::of_record(record.to_ref()));
                Answer::Value(Component::Delta, value)
            }
        },
        InRam::Munk(hit) => match live(hit, lookup.time()) {
            Some(hit) if hit.kind == Kind::Merge => Answer::Operands,
            hit => {
                let value = hit.map(|hit| {
                    Value::new(Owner::Page(hit.page.clone()), hit.shown()).of_kind(hit.kind)
                });
                Answer::Value(Component::Munk, value)
            }
        },
        InRam::Nothing(component) => Answer::Value(component, None),
        InRam::Unknown(hidden_below) => Answer::Unknown(hidden_below),
    }
}

/// Searches a view's funk, which may read from the disk. The caller has no pin.
fn search_funk(
    engine: &Engine,
    chunk: &Arc<Chunk>,
    view: &View,
    lookup: &Lookup<'_>,
) -> Result<Option<(Component, Found)>> {
    let core = &engine.core;
    let _inside = core.health.enter()?;
    let (key, hash, at) = (lookup.key, lookup.hash, lookup.at());
    let settings = &core.search_settings;
    let found = view.funk.get(key, hash, at, settings, Some(&core.metrics));
    found.inspect_err(|error| chunk.note_damage(error))
}

/// The newest value of `key`.
pub(crate) fn get(engine: &Engine, keyspace: &KeyspaceState, key: &[u8]) -> Result<Option<Value>> {
    let newest = ReadPoint::newest(&engine.core.clock.expiry);
    get_at(engine, keyspace, key, newest)
}

/// The value of `key` that a reader sees.
pub(crate) fn get_at(
    engine: &Engine,
    keyspace: &KeyspaceState,
    key: &[u8],
    point: ReadPoint<'_>,
) -> Result<Option<Value>> {
    large_values::in_place(&engine.core, || get_stored(engine, keyspace, key, point))
}

/// Whether `key` has a value that a reader sees. A value that lies apart is not read.
pub(crate) fn contains(
    engine: &Engine,
    keyspace: &KeyspaceState,
    key: &[u8],
    point: ReadPoint<'_>,
) -> Result<bool> {
    match get_stored(engine, keyspace, key, point)? {
        // Operands lie over the value apart, and they may make anything of it.
        Some(value) if value.is_apart() && value.place_apart().is_none() => {
            Ok(get_at(engine, keyspace, key, point)?.is_some())
        }
        found => Ok(found.is_some()),
    }
}

/// The value that a reader of `key` sees, or its place if it lies apart.
pub(crate) fn get_stored(
    engine: &Engine,
    keyspace: &KeyspaceState,
    key: &[u8],
    point: ReadPoint<'_>,
) -> Result<Option<Value>> {
    Get::begin(engine, keyspace, key, point)?.stored()
}

/// The value of `key` that a reader sees, if memory alone knows it: reads no file and waits for
/// nothing. `Err` if it would have to.
pub(crate) fn try_get_at(
    engine: &Engine,
    keyspace: &KeyspaceState,
    key: &[u8],
    point: ReadPoint<'_>,
) -> Result<std::result::Result<Option<Value>, WouldRead>> {
    Get::begin(engine, keyspace, key, point)?.in_ram()
}

/// The answer of [`Keyspace::try_get`](crate::Keyspace::try_get) where memory does not have the
/// value, nor knows that there is none: the call would have to read a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WouldRead;

impl std::fmt::Display for WouldRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("memory does not know the value, and the call would have to read a file")
    }
}

impl std::error::Error for WouldRead {}

/// A get on its way through the components of its chunk.
struct Get<'a> {
    engine: &'a Engine,
    keyspace: &'a KeyspaceState,
    lookup: Lookup<'a>,
    /// The time at which it began, if this get is timed.
    started: Option<Instant>,
}

impl<'a> Get<'a> {
    #[inline]
    fn begin(
        engine: &'a Engine,
        keyspace: &'a KeyspaceState,
        key: &'a [u8],
        point: ReadPoint<'a>,
    ) -> Result<Get<'a>> {
        engine.core.health.check_readable()?;
        keyspace.check_readable_at(point.at)?;
        engine.work.stir_gently();
        Ok(Get {
            engine,
            keyspace,
            started: sample(),
            lookup: Lookup::new(key, point),
        })
    }

    /// Asks the components in RAM under a pin. If they do not know, it leaves the pin and asks the
    /// components on disk.
    #[inline]
    fn stored(&self) -> Result<Option<Value>> {
        let key = self.lookup.key;
        let guard = reclaim::pin();
        let chunk = self.keyspace.index.load(&guard).get().find(key);
        debug_assert!(chunk.range.contains(key), "the index leads elsewhere");
        let view = chunk.view.load(&guard);
        let hidden_below = match value_in_ram(view.get(), &self.lookup, &guard) {
            Answer::Value(component, value) => {
                return Ok(self.answered(chunk, view.get(), component, value));
            }
            Answer::Operands => {
                let (chunk, view) = (chunk.clone(), view.counted());
                drop(guard);
                return self.folded(&chunk, &view);
            }
            Answer::Unknown(hidden_below) => hidden_below,
        };
        // Gets that deltas answer are not counted: a munk would save them nothing.
        Heat::count(&chunk.heat.gets);
        if let Some(answer) = self.search_rows(chunk, view.get()) {
            return Ok(answer);
        }
        let (chunk, view) = (chunk.clone(), view.counted());
        drop(guard);
        self.of_funk(&chunk, &view, hidden_below)
    }

    /// Asks the components in RAM alone. What it counts, a get that follows would not count.
    #[inline]
    fn in_ram(&self) -> Result<std::result::Result<Option<Value>, WouldRead>> {
        let key = self.lookup.key;
        let guard = reclaim::pin();
        let chunk = self.keyspace.index.load(&guard).get().find(key);
        let view = chunk.view.load(&guard);
        match value_in_ram(view.get(), &self.lookup, &guard) {
            Answer::Value(_, Some(value)) if value.is_apart() => return Ok(Err(WouldRead)),
            Answer::Value(component, value) => {
                return Ok(Ok(self.answered(chunk, view.get(), component, value)));
            }
            Answer::Operands => {
                let (chunk, view) = (chunk.clone(), view.counted());
                drop(guard);
                return self.folded_in_ram(&chunk, &view);
            }
            Answer::Unknown(_) => {}
        }
        if let Some(answer) = self.search_rows(chunk, view.get()) {
            Heat::count(&chunk.heat.gets);
            let is_apart = answer.as_ref().is_some_and(Value::is_apart);
            return Ok(if is_apart { Err(WouldRead) } else { Ok(answer) });
        }
        if view.get().funk.has_no_tables() {
            self.engine
                .core
                .metrics
                .served(Component::Absent, self.started);
            return Ok(Ok(None));
        }
        Ok(Err(WouldRead))
    }

    /// The value of a key whose newest record lists operands, if memory has all of them.
    #[cold]
    fn folded_in_ram(
        &self,
        chunk: &Arc<Chunk>,
        view: &Arc<View>,
    ) -> Result<std::result::Result<Option<Value>, WouldRead>> {
        let folded = merges::get_in_ram(self.engine, self.keyspace, view, &self.lookup)?;
        Ok(match folded {
            Some(folded) => Ok(self.note_folded(chunk, view, folded)),
            None => Err(WouldRead),
        })
    }

    /// The value that deltas or munk have answered, on its way to the caller.
    #[inline]
    fn answered(
        &self,
        chunk: &Chunk,
        view: &View,
        component: Component,
        value: Option<Value>,
    ) -> Option<Value> {
        let Engine { core, memory, .. } = self.engine;
        if component == Component::Munk {
            memory.note_hit(chunk, view, self.lookup.key, self.lookup.hash);
        }
        let value = value.map(|value| handed_out(memory, value));
        core.metrics
            .served(served_by(component, &value), self.started);
        value
    }

    /// The row cache's answer, if it has a row of the key. It is asked only for newest values,
    /// because it holds no others.
    #[inline]
    fn search_rows(&self, chunk: &Chunk, view: &View) -> Option<Option<Value>> {
        if !self.lookup.is_of_newest() {
            return None;
        }
        let Engine { core, memory, .. } = self.engine;
        let row = memory.find_row(chunk, view, self.lookup.key, self.lookup.hash)?;
        core.metrics.served(Component::RowCache, self.started);
        Some(value_of_row(row, self.lookup.time()))
    }

    /// The funk's answer; its records with a smaller version than `hidden_below` are deleted. A
    /// newest value becomes a row.
    fn of_funk(
        &self,
        chunk: &Arc<Chunk>,
        view: &Arc<View>,
        hidden_below: Version,
    ) -> Result<Option<Value>> {
        let Engine { core, memory, .. } = self.engine;
        counting::miss(self.engine, chunk, view, &self.lookup);
        let search = || search_funk(self.engine, chunk, view, &self.lookup);
        let (found, searched) = core.metrics.pauses.read.timed(search);
        let found = found?.filter(|(_, found)| found.version >= hidden_below);
        if let Some((_, found)) = &found
            && found.kind == Kind::Merge
        {
            return self.folded(chunk, view);
        }
        let (version, expires) = found.as_ref().map_or((Version::ZERO, None), |found| {
            (found.version(), found.expires())
        });
        let time = self.lookup.time();
        let found = found.and_then(|(component, found)| Some((component, value_of(found, time)?)));
        let Some((component, value)) = found else {
            core.metrics.served(Component::Absent, self.started);
            return Ok(None);
        };
        core.metrics.served(component, self.started);
        core.metrics.searched(component, searched);
        if self.lookup.is_of_newest() {
            let Lookup { key, hash, .. } = self.lookup;
            memory.note_no_row(chunk, hash);
            if !is_deleted_soon(view, key, version) {
                self.fill_row(chunk, view, &value, expires);
            }
        }
        Ok(Some(value))
    }

    /// The value of a key whose newest record lists operands.
    #[cold]
    fn folded(&self, chunk: &Arc<Chunk>, view: &Arc<View>) -> Result<Option<Value>> {
        let (engine, lookup) = (self.engine, &self.lookup);
        let apart = merges::WhatIsApart::IsRead;
        let folded = merges::get(engine, self.keyspace, view, lookup, apart);
        let folded = folded.inspect_err(|error| chunk.note_damage(error))?;
        Ok(self.note_folded(chunk, view, folded))
    }

    /// Counts a folded value, and keeps it where that spares the next get the folding.
    fn note_folded(
        &self,
        chunk: &Arc<Chunk>,
        view: &Arc<View>,
        folded: merges::Folded,
    ) -> Option<Value> {
        let (engine, lookup) = (self.engine, &self.lookup);
        match folded.component {
            Component::Munk => engine.memory.note_hit(chunk, view, lookup.key, lookup.hash),
            Component::Delta => {}
            _ => counting::miss(engine, chunk, view, lookup),
        }
        // Where deltas have operands, the funk's value is not the newest. A value that changes when
        // its base expires must not become a row.
        if let Some(value) = &folded.value
            && !value.is_apart()
            && lookup.is_of_newest()
            && folded.of_funk_alone
            && !folded.changes_with_time
            && view.covers.is_none()
        {
            self.fill_row(chunk, view, value, None);
        }
        if let (Some(newest), Some(value)) = (&folded.long, &folded.value)
            && !value.is_apart()
        {
            merges::fold_back(&engine.core, chunk, lookup.key, newest, value);
        }
        let component = served_by(folded.component, &folded.value);
        engine.core.metrics.served(component, self.started);
        folded.value
    }

    /// Puts a value from the funk into the row cache, if it is still the newest. It is if a fresh
    /// lookup from the root gives the same view, and no delta of it has the key by now. A check of
    /// the chunk that was looked up would not do: after a split its last view stays for ever.
    fn fill_row(&self, chunk: &Chunk, view: &Arc<View>, value: &Value, expires: Option<Time>) {
        let Engine { core, memory, .. } = self.engine;
        let Lookup { key, hash, .. } = self.lookup;
        if !memory.may_fill_row(value.stored().len()) {
            return;
        }
        if core.choices.of(self.keyspace.id).row_cache == Some(false) {
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
        memory.fill_row(tag, key, hash, row, || {
            let guard = reclaim::pin();
            let now = self.keyspace.index.load(&guard).get().find(key);
            let now = now.view.load(&guard);
            if planted!(core.options, RowCheckOfOldChunk) {
                return chunk.view.is(view) && !view.active.contains(key, hash, &guard);
            }
            planted!(core.options, NoRowCheck)
                || (std::ptr::eq(now.get(), &**view) && !now.active.contains(key, hash, &guard))
        });
    }
}

/// A value in RAM as the caller gets it.
#[inline]
fn handed_out(memory: &MemoryPolicy, value: Value) -> Value {
    match memory.copies_values() {
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

/// The component that counts as having served a get.
#[inline]
fn served_by(component: Component, value: &Option<Value>) -> Component {
    match value {
        Some(_) => component,
        None => Component::Absent,
    }
}

/// The expiry of the value of `key` that a reader at `point` has just got. `None` for a value of
/// operands, which changes when the record below them expires.
pub(crate) fn expiry_of(
    engine: &Engine,
    keyspace: &KeyspaceState,
    key: &[u8],
    point: ReadPoint<'_>,
) -> Result<Option<Time>> {
    let lookup = Lookup::new(key, point);
    let guard = reclaim::pin();
    let chunk = keyspace.index.load(&guard).get().find(key);
    let view = chunk.view.load(&guard);
    match view.get().search_ram(&lookup, &guard) {
        InRam::Delta(record) => return Ok(record.expires()),
        InRam::Munk(hit) => return Ok(hit.expires()),
        InRam::Nothing(_) => return Ok(None),
        // No range deletion hides the record, because the reader has got the value.
        InRam::Unknown(_) => {}
    }
    let (chunk, view) = (chunk.clone(), view.counted());
    drop(guard);
    let found = search_funk(engine, &chunk, &view, &lookup)?;
    Ok(found.and_then(|found| found.expires()))
}
