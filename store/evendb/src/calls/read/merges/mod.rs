//! Reads of keys whose newest record lists operands of a merge: the records of all sources, folded.
//!
//! ```text
//! active delta     40 merge +3                      each source is asked for its newest record
//! frozen deltas    31 merge +2   20 put 30          at the reader's version, then for older ones,
//!                                                   until one says what lies beneath
//! munk, or funk    not asked                        30, +2, +3: 35
//! ```
//! Durable deltas count only over the munk: the funk has their records, too, perhaps folded by now.
//! So each operand is met once. A value that has expired by the reader's time is no value: operands
//! over it count from nothing. If a range deletion that the reader sees lies between records, it
//! ends the search.
//!
//! Thread safety: any thread; no pin is held across I/O. Not here: reads of other keys
//! ([`super::get`], [`super::sources`]), which come here when they have met an operand.

use crate::catalog::KeyspaceState;
use crate::chunk::{Chunk, DeltaLayer, Lookup, View};
use crate::engine::Engine;
use crate::engine::core::Core;
use crate::error::{Error, ErrorKind, Result};
use crate::expiry::ReadTime;
use crate::folding::{self, operands_of};
use crate::merge_operator::{self, Given, MergeOperator, Operator};
use crate::metrics::Component;
use crate::munk::Sought;
use crate::options::{KeyspaceOptions, NamedOperator};
use crate::plant::planted;
use crate::record::{Record, RecordRef};
use crate::sync::reclaim;
use crate::value::Value;
use crate::visibility::{Candidate, live};
use evendb_storage::key_hash::RamHash;
use evendb_storage::{Apart, Kind, Version};
use std::sync::Arc;

/// The value of a key with operands.
pub(crate) struct Folded {
    pub(crate) value: Option<Value>,
    /// The oldest source that was asked.
    pub(crate) component: Component,
    /// The value below the operands expires, or has expired: readers at different times get
    /// different values from the same records.
    pub(crate) changes_with_time: bool,
    /// Only the funk had records of the key.
    pub(crate) of_funk_alone: bool,
    /// The newest record, if the active delta has it and many operands were merged: the folded
    /// value may replace it.
    pub(crate) long: Option<RecordRef>,
}

/// The treatment of operands on a value apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhatIsApart {
    /// It is read. The caller has no pin.
    IsRead,
    /// The value of the key is [to be asked for](Value::to_be_asked), by a caller without a pin.
    IsAskedFor,
}

/// The number of operands from which it pays to replace them by their value.
const MANY_OPERANDS: usize = 16;
/// The largest value in bytes that is copied for that.
const FOLDED_BACK_BYTES_MAX: usize = 4096;

/// A copy of a record that was found.
struct Seen {
    version: Version,
    kind: Kind,
    value: Vec<u8>,
}

impl Seen {
    fn of(record: impl Candidate) -> Seen {
        Seen {
            version: record.version(),
            kind: record.kind(),
            value: record.stored_value().to_vec(),
        }
    }
}

impl Candidate for Seen {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn version(&self) -> Version {
        self.version
    }

    fn stored_value(&self) -> &[u8] {
        &self.value
    }
}

/// The records of a key that were found, newest first.
struct Search<'c> {
    time: ReadTime<'c>,
    /// Records of smaller versions are deleted.
    hidden_below: Version,
    /// The record of the active delta.
    newest: Option<RecordRef>,
    /// Values of records that list operands.
    lists: Vec<Vec<u8>>,
    /// The value below the operands, once it is known.
    beneath: Option<Option<Vec<u8>>>,
    /// The record below the operands, if its value lies apart.
    apart: Option<Seen>,
    /// The record below the operands expires, or has expired.
    changes_with_time: bool,
    /// The oldest source that was asked.
    component: Component,
    /// Only the funk had records of the key.
    of_funk_alone: bool,
    /// The view has range deletions.
    has_covers: bool,
}

impl<'c> Search<'c> {
    /// A search that has asked nothing yet.
    fn new(time: ReadTime<'c>, hidden_below: Version) -> Search<'c> {
        Search {
            time,
            hidden_below,
            newest: None,
            lists: Vec::new(),
            beneath: None,
            apart: None,
            changes_with_time: false,
            component: Component::Delta,
            of_funk_alone: false,
            has_covers: false,
        }
    }

    /// Asks the deltas, then the munk, or the funk if the munk has not the key's span. Returns
    /// false if the funk has to be asked, and must not be.
    fn ask_all(
        &mut self,
        engine: &Engine,
        view: &View,
        lookup: &Lookup<'_>,
        funk_too: bool,
    ) -> Result<bool> {
        let core = &engine.core;
        let munk_has_span = !matches!(view.newest_in_munk(lookup), Sought::Absent);
        // The funk has the records of durable deltas, too, but the munk has not.
        let durable_count = munk_has_span || planted!(core.options, DurableOperandsTwice);
        if self.ask_deltas(view, lookup, durable_count)?
            || view.funk.max_version < self.hidden_below
        {
            return Ok(true);
        }
        if munk_has_span {
            self.component = Component::Munk;
            self.ask(lookup, |lookup| match view.newest_in_munk(lookup) {
                Sought::Found(hit) => Ok(Some(Seen::of(hit))),
                Sought::Nothing | Sought::Absent => Ok(None),
            })?;
            return Ok(true);
        }
        if !funk_too && !view.funk.has_no_tables() {
            return Ok(false);
        }
        self.component = Component::Sstable;
        self.of_funk_alone = self.lists.is_empty();
        let (settings, metrics) = (&core.search_settings, &core.metrics);
        self.ask(lookup, |&Lookup { key, hash, point }| {
            let found = view
                .funk
                .get(key, hash, point.at, settings, Some(metrics))?;
            Ok(found.map(Seen::of))
        })?;
        Ok(true)
    }

    /// Asks the deltas; `durable_count` says whether durable ones are among them. Returns whether
    /// it is known what lies beneath the operands.
    fn ask_deltas(
        &mut self,
        view: &View,
        lookup: &Lookup<'_>,
        durable_count: bool,
    ) -> Result<bool> {
        let pin = reclaim::pin();
        let newest = view.active.get(lookup.key, lookup.hash, lookup.at(), &pin);
        self.newest = newest.map(Record::to_ref);
        let counts = |delta: &DeltaLayer<'_>| durable_count || !delta.durable;
        for delta in view.deltas().filter(counts) {
            let newest = |lookup: &Lookup<'_>| Ok(delta.newest(lookup, &pin).map(Seen::of));
            if self.ask(lookup, newest)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The result of the search. `may_go_back` says that the value may replace the newest record.
    fn folded(self, value: Option<Value>, may_go_back: bool) -> Folded {
        Folded {
            value,
            component: self.component,
            changes_with_time: self.changes_with_time,
            of_funk_alone: self.of_funk_alone,
            long: self.newest.filter(|_| may_go_back),
        }
    }

    /// Asks a layer for its newest record up to the reader's version, then for older ones, until it
    /// has no more or it is known what lies beneath the operands. Returns whether that is known.
    fn ask(
        &mut self,
        lookup: &Lookup<'_>,
        newest: impl Fn(&Lookup<'_>) -> Result<Option<Seen>>,
    ) -> Result<bool> {
        let mut lookup = *lookup;
        while let Some(seen) = newest(&lookup)? {
            let version = seen.version;
            if version < self.hidden_below {
                self.beneath = Some(None);
            } else if seen.kind == Kind::Merge {
                self.lists.push(seen.value);
            } else {
                self.note_beneath(seen);
            }
            if self.beneath.is_some() || version == Version::ZERO {
                break;
            }
            lookup = lookup.up_to(Version(version.0 - 1));
        }
        Ok(self.beneath.is_some())
    }

    /// Notes the record that lies beneath the operands.
    fn note_beneath(&mut self, seen: Seen) {
        self.changes_with_time = seen.expires().is_some();
        let mut base = live(seen, self.time);
        self.apart = base.take_if(|base| base.kind.is_apart());
        self.beneath = Some(base.map(|mut base| {
            base.value.drain(..base.kind.prefix_bytes());
            base.value
        }));
    }
}

/// The value that a reader sees in `view`. The caller has no pin, unless the view has a munk with
/// the key's span, or range deletions hide everything below the deltas.
#[cold]
pub(crate) fn get(
    engine: &Engine,
    keyspace: &KeyspaceState,
    view: &View,
    lookup: &Lookup<'_>,
    apart: WhatIsApart,
) -> Result<Folded> {
    let _inside = engine.core.health.enter()?;
    let search = gather(engine, view, lookup, true)?;
    let search = search.expect("every layer was asked");
    fold(engine, keyspace, lookup, search, apart)
}

/// Like [`get`], if memory alone knows the value, and nothing of it lies apart.
#[cold]
pub(crate) fn get_in_ram(
    engine: &Engine,
    keyspace: &KeyspaceState,
    view: &View,
    lookup: &Lookup<'_>,
) -> Result<Option<Folded>> {
    let _inside = engine.core.health.enter()?;
    let search = gather(engine, view, lookup, false)?;
    let Some(search) = search.filter(|search| search.apart.is_none()) else {
        return Ok(None);
    };
    fold(engine, keyspace, lookup, search, WhatIsApart::IsAskedFor).map(Some)
}

/// Makes the value of the records that were found.
fn fold(
    engine: &Engine,
    keyspace: &KeyspaceState,
    lookup: &Lookup<'_>,
    mut search: Search<'_>,
    apart: WhatIsApart,
) -> Result<Folded> {
    let core = &engine.core;
    if let Some(seen) = &search.apart
        && let Some(place) = Apart::of(seen.kind, &seen.value)
    {
        let read = match apart {
            WhatIsApart::IsRead => core.value_files.read(&place)?,
            WhatIsApart::IsAskedFor => None,
        };
        let Some(read) = read else {
            return Ok(search.folded(Some(Value::to_be_asked()), false));
        };
        search.beneath = Some(Some(read.to_vec()));
    }
    let existing = search.beneath.take().flatten();
    let lists = search.lists.iter().rev();
    let mut operands: Vec<&[u8]> = lists.flat_map(|list| operands_of(list)).collect();
    if planted!(core.options, OperandsSwapped) {
        operands.reverse();
    }
    let value = match search.lists.is_empty() {
        true => existing,
        false => merged(keyspace, lookup.key, existing.as_deref(), &operands)?,
    };
    let may_go_back = operands.len() >= MANY_OPERANDS
        && lookup.at() == Version::MAX
        && !search.has_covers
        && !search.changes_with_time;
    let value = value.map(|value| Value::of_bytes(Arc::from(value)));
    Ok(search.folded(value, may_go_back))
}

/// Gathers the records of a key, as they are at one moment. `None` if the funk has some, and is
/// not asked.
fn gather<'c>(
    engine: &Engine,
    view: &View,
    lookup: &Lookup<'c>,
    funk_too: bool,
) -> Result<Option<Search<'c>>> {
    let hidden_below = || {
        let covers = view.covers.as_ref();
        let newest = covers.and_then(|covers| covers.newest_seen(lookup.key, lookup.at()));
        newest.map_or(Version::ZERO, Record::version)
    };
    loop {
        let mut search = Search::new(lookup.time(), hidden_below());
        search.has_covers = view.covers.is_some();
        if !search.ask_all(engine, view, lookup, funk_too)? {
            return Ok(None);
        }
        // A range deletion may have become visible meanwhile, with the records that its batch has
        // put.
        if hidden_below() == search.hidden_below {
            return Ok(Some(search));
        }
    }
}

/// Replaces the newest of many operands by the value that they make, so that the next read is
/// short. The value says the same to every reader that sees that operand, so nothing is logged and
/// no writer is waited for.
pub(crate) fn fold_back(core: &Core, chunk: &Chunk, key: &[u8], newest: &RecordRef, value: &[u8]) {
    if value.len() > FOLDED_BACK_BYTES_MAX || core.options.read_only {
        return;
    }
    let Some(writer) = chunk.latch.try_lock() else {
        return;
    };
    if writer.retired || chunk.view.load_full().covers.is_some() {
        return;
    }
    let hash = newest.kept_hash();
    let delta = &writer.active;
    {
        let pin = reclaim::pin();
        let now = delta.get(key, hash, Version::MAX, &pin);
        // The caller keeps `newest` alive, so no other record can have its address.
        if !now.is_some_and(|now| std::ptr::eq(now, &**newest)) {
            return;
        }
    }
    let mut record = RecordRef::new(key, value, Kind::Put, hash);
    record.set_version(newest.version());
    delta.adopt(record);
}

/// The value that the operands of `lists` make of `existing`. The lists come oldest first, each as
/// a record has it.
pub(crate) fn over(
    keyspace: &KeyspaceState,
    key: &[u8],
    existing: Option<&[u8]>,
    lists: &[&[u8]],
) -> Result<Option<Value>> {
    let operands: Vec<&[u8]> = lists.iter().flat_map(|list| operands_of(list)).collect();
    let value = merged(keyspace, key, existing, &operands)?;
    Ok(value.map(|value| Value::of_bytes(Arc::from(value))))
}

fn merged(
    keyspace: &KeyspaceState,
    key: &[u8],
    existing: Option<&[u8]>,
    operands: &[&[u8]],
) -> Result<Option<Vec<u8>>> {
    let operator = operator_of(keyspace)?;
    let merged = merge_operator::full(&*operator, key, existing, operands);
    merged.map_err(|error| in_keyspace(keyspace, &error))
}

/// An operator's error, with the name of the keyspace.
fn in_keyspace(keyspace: &KeyspaceState, error: &Error) -> Error {
    let message = format!("in the keyspace {:?} {error}", keyspace.name());
    Error::new(error.kind(), message)
}

/// Refuses a value that the keyspace's operator could not merge into.
pub(crate) fn check_value(keyspace: &KeyspaceState, key: &[u8], value: &[u8]) -> Result<()> {
    match keyspace.merge_operator.get() {
        Some(operator) => check(keyspace, &**operator, key, Given::Value(value)),
        None => Ok(()),
    }
}

/// Refuses an operand that the keyspace's operator could not merge, and every operand where there
/// is no operator.
pub(crate) fn check_operand(keyspace: &KeyspaceState, key: &[u8], operand: &[u8]) -> Result<()> {
    match keyspace.merge_operator.get() {
        Some(operator) => check(keyspace, &**operator, key, Given::Operand(operand)),
        None => operator_of(keyspace).map(|_| ()),
    }
}

fn check(
    keyspace: &KeyspaceState,
    operator: &dyn MergeOperator,
    key: &[u8],
    given: Given<'_>,
) -> Result<()> {
    let checked = merge_operator::check(operator, key, given);
    checked.map_err(|error| in_keyspace(keyspace, &error))
}

/// The operator of a keyspace; an error if it has none, or if only its name is known.
pub(crate) fn operator_of(keyspace: &KeyspaceState) -> Result<Operator> {
    if let Some(operator) = keyspace.merge_operator.get() {
        return Ok(operator.clone());
    }
    let name = keyspace.name();
    let options = KeyspaceOptions::of_properties(&keyspace.properties.lock());
    let named = options.ok().and_then(|options| options.merge_operator);
    Err(match named {
        Some(NamedOperator { name: operator, .. }) => {
            let message = format!(
                "the keyspace {name:?} has the merge operator {operator:?}, and none was given since the database was \
                 opened: a program gives it (keyspace_with); the command `evendb` has its own operators alone"
            );
            Error::new(ErrorKind::MergeFailed, message)
        }
        None => {
            let message = format!(
                "the keyspace {name:?} has no merge operator: give it one (Keyspace::set_options with \
                 KeyspaceOptions::merge_operator, `evendb keyspaces DB --keyspace NAME --merge OPERATOR --change`)"
            );
            Error::new(ErrorKind::InvalidArgument, message)
        }
    })
}

/// The folded form of the last of `records`, if it is a merge. `records` are of one key and one
/// write, oldest first. All merges up to the last are folded with the record that they lie on.
pub(crate) fn last_of(
    keyspace: &KeyspaceState,
    records: &[&RecordRef],
) -> Result<Option<RecordRef>> {
    let base = records
        .iter()
        .rposition(|record| record.kind() != Kind::Merge);
    let merges = &records[base.map_or(0, |base| base + 1)..];
    let Some(last) = merges.last() else {
        return Ok(None);
    };
    let key = last.key();
    let lists: Vec<&[u8]> = merges.iter().map(|merge| merge.value()).collect();
    let Some(base) = base.map(|base| records[base]) else {
        let value = folding::joined(keyspace.merge_operator.get(), key, &lists);
        return Ok(Some(RecordRef::new(
            key,
            &value,
            Kind::Merge,
            RamHash::of(key),
        )));
    };
    // The value expires as the put says, whatever was merged into it.
    let expires = base.kind().expires(base.value());
    let existing = match base.kind() {
        kind @ (Kind::Put | Kind::PutUntil) => Some(&base.value()[kind.prefix_bytes()..]),
        Kind::Delete | Kind::SingleDelete => None,
        Kind::PutApart | Kind::PutUntilApart | Kind::Merge => {
            unreachable!("values go apart after the records of a write are made")
        }
    };
    Ok(Some(match over(keyspace, key, existing, &lists)? {
        Some(value) => RecordRef::put(key, &value, expires, RamHash::of(key)),
        None => RecordRef::new(key, &[], Kind::Delete, RamHash::of(key)),
    }))
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;
