//! Where records are read: the database now, a snapshot, or a transaction; and chunks of them.
//!
//! A chunk is bytes in the form of `Cursor::fill`: the lengths of key and value as 4 bytes each,
//! then both. It is made without the interpreter's lock, and taken apart with it.

use crate::border::error::OrRaise;
use crate::border::held::Held;
use crate::border::held::detach;
use crate::border::slot::Slot;
use crate::border::span::Span;
use crate::opening::{Gated, Inside, Opening, Release};
use evendb::{Cursor, Filled, KeyCursor, Keyspace, Rest, Snapshot, Transaction, Value};
use pyo3::prelude::*;
use std::ops::Deref;
use std::sync::Arc;

/// A snapshot until it is closed.
pub(crate) type Moment = Slot<Held<Snapshot>>;

/// A transaction until it has ended.
pub(crate) struct Running {
    pub(crate) slot: Arc<Slot<Held<Transaction>>>,
    /// Keys are locked when they are got.
    pub(crate) locks: bool,
}

/// The moment of reads.
#[derive(Clone)]
pub(crate) enum At {
    Now,
    Moment(Arc<Moment>),
    Transaction(Arc<Running>),
}

/// What reads need: a keyspace of an opening, and the moment.
pub(crate) struct Place {
    keyspace: Gated<Keyspace>,
    name: String,
    pub(crate) at: At,
    pub(crate) opening: Arc<Opening>,
}

/// A call of a place: it stands for the keyspace.
pub(crate) struct Here<'p> {
    inside: Inside<'p>,
    place: &'p Place,
}

impl Here<'_> {
    pub(crate) fn db(&self) -> &evendb::Db {
        self.inside.db()
    }
}

impl Deref for Here<'_> {
    type Target = Keyspace;
    #[inline]
    fn deref(&self) -> &Keyspace {
        self.place.keyspace.get(&self.inside)
    }
}

impl Release for Place {
    fn release(&self) {
        // SAFETY: as `Release` says.
        unsafe { self.keyspace.let_go() };
    }
}

/// What an iterator gives of each record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Keys,
    Values,
    Items,
}

impl Place {
    pub(crate) fn new(opening: &Arc<Opening>, keyspace: Keyspace, at: At) -> Arc<Place> {
        let place = Arc::new(Place {
            name: keyspace.name().to_owned(),
            keyspace: Gated::new(keyspace),
            at,
            opening: opening.clone(),
        });
        opening.adopt(&place);
        place
    }

    /// Begins a call.
    #[inline]
    pub(crate) fn enter(&self, py: Python<'_>) -> PyResult<Here<'_>> {
        let inside = self.opening.enter(py)?;
        Ok(Here {
            inside,
            place: self,
        })
    }

    /// [`enter`](Self::enter) without Python. `None` after a close.
    fn enter_detached(&self) -> Option<Here<'_>> {
        let inside = self.opening.enter_detached()?;
        Some(Here {
            inside,
            place: self,
        })
    }

    /// The keyspace's name: the one that it had when this was made, if the database is closed.
    pub(crate) fn name(&self) -> String {
        let now = self.enter_detached().map(|here| here.name().to_owned());
        now.unwrap_or_else(|| self.name.clone())
    }

    fn snapshot(moment: &Moment, py: Python<'_>) -> PyResult<Held<Snapshot>> {
        moment.brief(py, |snapshot| Held::new((**snapshot).clone()))
    }

    /// The value of a key.
    #[inline]
    pub(crate) fn look_up(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<Value>> {
        let here = self.enter(py)?;
        let keyspace: &Keyspace = &here;
        match &self.at {
            At::Now => {
                if !self.opening.calls_python()
                    && let Ok(found) = keyspace.try_get(key).or_raise(py)?
                {
                    return Ok(found);
                }
                detach(py, || keyspace.get(key)).or_raise(py)
            }
            At::Moment(moment) => {
                if !self.opening.calls_python() {
                    // What memory knows is neither worth a count of the snapshot nor letting the
                    // interpreter go.
                    let found = moment.brief(py, |snapshot| snapshot.try_get(keyspace, key))?;
                    if let Ok(found) = found.or_raise(py)? {
                        return Ok(found);
                    }
                }
                let snapshot = Place::snapshot(moment, py)?;
                detach(py, || snapshot.get(keyspace, key)).or_raise(py)
            }
            At::Transaction(running) => {
                let look_up = |transaction: &mut Held<Transaction>| match running.locks {
                    true => transaction.get_for_update(keyspace, key),
                    false => transaction.get(keyspace, key),
                };
                running.slot.at_length(py, look_up)?.or_raise(py)
            }
        }
    }

    /// Whether a key has a value.
    pub(crate) fn has(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        match &self.at {
            At::Now if !self.opening.calls_python() => {
                let here = self.enter(py)?;
                if let Ok(found) = here.try_get(key).or_raise(py)? {
                    return Ok(found.is_some());
                }
                detach(py, || here.contains_key(key)).or_raise(py)
            }
            _ => self.look_up(py, key).map(|found| found.is_some()),
        }
    }

    /// The values of keys, of one moment.
    pub(crate) fn look_up_all(
        &self,
        py: Python<'_>,
        keys: &[impl AsRef<[u8]> + Sync],
    ) -> PyResult<Vec<Option<Value>>> {
        let here = self.enter(py)?;
        let keyspace: &Keyspace = &here;
        match &self.at {
            At::Now => detach(py, || keyspace.multi_get(keys)).or_raise(py),
            At::Moment(moment) => {
                let snapshot = Place::snapshot(moment, py)?;
                detach(py, || snapshot.multi_get(keyspace, keys)).or_raise(py)
            }
            At::Transaction(running) => {
                let look_up =
                    |transaction: &mut Held<Transaction>| transaction.multi_get(keyspace, keys);
                running.slot.at_length(py, look_up)?.or_raise(py)
            }
        }
    }

    /// The records of a span, at the moment of this call.
    pub(crate) fn records(
        self: &Arc<Self>,
        py: Python<'_>,
        span: &Span,
        kind: Kind,
    ) -> PyResult<Source> {
        let here = self.enter(py)?;
        let keyspace: &Keyspace = &here;
        let cursor = match &self.at {
            At::Now => detach(py, || keyspace.cursor::<&[u8]>(span.bounds())),
            At::Moment(moment) => {
                let snapshot = Place::snapshot(moment, py)?;
                detach(py, || snapshot.cursor::<&[u8]>(keyspace, span.bounds()))
            }
            At::Transaction(_) => {
                let place = self.clone();
                let span = span.clone();
                return Ok(Source::Transaction { place, span, kind });
            }
        };
        let cursor = match span.limit {
            Some(limit) => cursor.limit_hint(limit),
            None => cursor,
        };
        Ok(match kind {
            Kind::Keys => Source::Keys(Box::new(Held::new(cursor.keys_only())), span.reverse),
            _ => Source::Pairs(Box::new(Held::new(cursor)), span.reverse),
        })
    }
}

/// Records that are still to come.
pub(crate) enum Source {
    Pairs(Box<Held<Cursor>>, bool),
    Keys(Box<Held<KeyCursor>>, bool),
    /// A transaction's records are looked up anew for each chunk, from the last key on: it may
    /// have written meanwhile.
    Transaction {
        place: Arc<Place>,
        span: Span,
        kind: Kind,
    },
    Nothing,
}

/// What a chunk got.
pub(crate) struct Got {
    pub(crate) records: usize,
    pub(crate) is_last: bool,
}

/// Why there is no chunk.
pub(crate) enum Refused {
    Error(evendb::Error),
    TransactionEnded,
}

impl From<evendb::Error> for Refused {
    fn from(error: evendb::Error) -> Refused {
        Refused::Error(error)
    }
}

fn put(chunk: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    // The engine's limits are below 4 GiB.
    chunk.extend_from_slice(&(key.len() as u32).to_le_bytes());
    chunk.extend_from_slice(&(value.len() as u32).to_le_bytes());
    chunk.extend_from_slice(key);
    chunk.extend_from_slice(value);
}

/// Makes a chunk of what `next` gives.
fn gather(
    chunk: &mut Vec<u8>,
    (most, bytes): (usize, usize),
    mut next: impl FnMut(&mut Vec<u8>) -> evendb::Result<bool>,
) -> Result<Got, Refused> {
    chunk.clear();
    let mut records = 0;
    while records < most && chunk.len() < bytes {
        if !next(chunk)? {
            return Ok(Got {
                records,
                is_last: true,
            });
        }
        records += 1;
    }
    Ok(Got {
        records,
        is_last: false,
    })
}

/// [`Cursor::fill`], with a larger buffer if a record needs that.
fn fill(
    cursor: &mut Cursor,
    chunk: &mut Vec<u8>,
    (most, bytes): (usize, usize),
) -> Result<Got, Refused> {
    if chunk.len() < bytes {
        chunk.resize(bytes, 0);
    }
    loop {
        let filled: Filled = cursor.fill(chunk, most)?;
        match filled.rest {
            Rest::Needs(bytes) => chunk.resize(bytes, 0),
            rest => {
                return Ok(Got {
                    records: filled.records,
                    is_last: rest == Rest::Nothing,
                });
            }
        }
    }
}

impl Source {
    /// The next records, at most `most` and about `bytes`. At the end, and after an error, there is
    /// nothing more.
    pub(crate) fn next_chunk(
        &mut self,
        chunk: &mut Vec<u8>,
        (most, bytes): (usize, usize),
    ) -> Result<Got, Refused> {
        let got = match self {
            Source::Pairs(cursor, false) => fill(cursor, chunk, (most, bytes)),
            Source::Pairs(cursor, true) => gather(chunk, (most, bytes), |chunk| {
                let found = cursor.next_back()?;
                Ok(found.map(|(key, value)| put(chunk, key, value)).is_some())
            }),
            Source::Keys(cursor, reverse) => gather(chunk, (most, bytes), |chunk| {
                let found = match reverse {
                    true => cursor.next_back()?,
                    false => cursor.next()?,
                };
                Ok(found.map(|key| put(chunk, key, &[])).is_some())
            }),
            Source::Transaction { place, span, kind } => {
                let place = place.clone();
                transaction_chunk(&place, span, *kind, chunk, (most, bytes))
            }
            Source::Nothing => Ok(Got {
                records: 0,
                is_last: true,
            }),
        };
        if got.as_ref().map_or(true, |got| got.is_last) {
            *self = Source::Nothing;
        }
        got
    }

    /// Counts what is left, without copying it.
    pub(crate) fn count(&mut self, most: usize) -> Result<Got, Refused> {
        let mut records = 0;
        if let Source::Keys(cursor, _) = self {
            while records < most {
                if cursor.next()?.is_none() {
                    return Ok(Got {
                        records,
                        is_last: true,
                    });
                }
                records += 1;
            }
            return Ok(Got {
                records,
                is_last: false,
            });
        }
        self.next_chunk(&mut Vec::new(), (most, 1 << 20))
    }
}

/// A chunk of what a transaction sees; the span is cut to what comes after it.
fn transaction_chunk(
    place: &Place,
    span: &mut Span,
    kind: Kind,
    chunk: &mut Vec<u8>,
    limits: (usize, usize),
) -> Result<Got, Refused> {
    let (At::Transaction(running), Some(here)) = (&place.at, place.enter_detached()) else {
        return Ok(Got {
            records: 0,
            is_last: true,
        });
    };
    let mut last: Option<Vec<u8>> = None;
    let got = running.slot.detached(|transaction| {
        let keyspace: &Keyspace = &here;
        let limits = (limits.0.min(256), limits.1);
        if kind == Kind::Keys {
            let mut keys = transaction.keys::<&[u8]>(keyspace, span.bounds())?;
            return gather(chunk, limits, |chunk| {
                let next = if span.reverse {
                    keys.next_back()
                } else {
                    keys.next()
                };
                let Some(key) = next.transpose()? else {
                    return Ok(false);
                };
                put(chunk, &key, &[]);
                last = Some(key.to_vec());
                Ok(true)
            });
        }
        let mut records = transaction.range::<&[u8]>(keyspace, span.bounds())?;
        gather(chunk, limits, |chunk| {
            let next = if span.reverse {
                records.next_back()
            } else {
                records.next()
            };
            let Some((key, value)) = next.transpose()? else {
                return Ok(false);
            };
            put(chunk, &key, &value);
            last = Some(key.to_vec());
            Ok(true)
        })
    });
    if let Some(mut last) = last {
        match span.reverse {
            true => span.high = Some(last),
            false => {
                last.push(0);
                span.low = last;
            }
        }
    }
    got.unwrap_or(Err(Refused::TransactionEnded))
}

impl Place {
    /// A part of the value of a key: a value, and the part within it.
    pub(crate) fn part(
        &self,
        py: Python<'_>,
        key: &[u8],
        part: std::ops::Range<u64>,
    ) -> PyResult<Option<(Value, std::ops::Range<usize>)>> {
        let here = self.enter(py)?;
        let keyspace: &Keyspace = &here;
        let found = match &self.at {
            At::Now => detach(py, || keyspace.get_part(key, part)).or_raise(py)?,
            At::Moment(moment) => {
                let snapshot = Place::snapshot(moment, py)?;
                detach(py, || snapshot.get_part(keyspace, key, part)).or_raise(py)?
            }
            At::Transaction(_) => {
                let found = self.look_up(py, key)?;
                return Ok(found.map(|value| {
                    let end = value.len() as u64;
                    let part = part.start.min(end) as usize..part.end.min(end) as usize;
                    (value, part)
                }));
            }
        };
        Ok(found.map(|value| {
            let whole = 0..value.len();
            (value, whole)
        }))
    }
}
