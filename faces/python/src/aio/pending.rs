//! `Pending`: a call that is not done yet, or a stream that has no next item yet.
//!
//! ```text
//!   poll: the engine's future is polled, without the interpreter -> what it gave is kept
//!   take: what it gave, as an object of Python, or its error
//! ```
//! The coroutine polls, in the thread of its loop; nobody else does. A stream is polled again after
//! each item, by one task at a time. Thread safety: any.

use super::wakes::{self, Waking};
use crate::border::bytes::Input;
use crate::border::error::{Failure, OrRaise, raised};
use crate::border::held::Held;
use crate::border::held::detach;
use crate::border::slot::Slot;
use crate::border::span::Span;
use crate::calls::batch::Batch;
use crate::calls::database::Database;
use crate::calls::keyspace::Keyspace;
use crate::calls::reader::{Key, Reader, given, keys_of};
use crate::calls::records::not_pickled;
use crate::calls::source::At;
use crate::calls::writes::{durability_of, ttl_of};
use crate::feeds::{Changes, change_of};
use crate::opening::Opening;
use evendb::{CommitFuture, GetFuture, MultiGetFuture, PersistFuture, RangeChunks, Value};
use parking_lot::Mutex;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// What is polled.
enum Work {
    Get(GetFuture),
    Many(MultiGetFuture),
    Commit(Box<CommitFuture>),
    Persist(PersistFuture),
    Range(RangeChunks),
    Changes(Arc<Slot<Held<evendb::Changes>>>),
}

/// What a poll gave.
enum Outcome {
    Value(Option<Value>),
    Values(Vec<Option<Value>>),
    Nothing,
    Records(Option<Vec<(Value, Value)>>),
    Change(Option<evendb::Change>),
}

impl Work {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<evendb::Result<Outcome>> {
        match self {
            Work::Get(future) => Pin::new(future).poll(context).map_ok(Outcome::Value),
            Work::Many(future) => Pin::new(future).poll(context).map_ok(Outcome::Values),
            Work::Commit(future) => Pin::new(&mut **future)
                .poll(context)
                .map_ok(|()| Outcome::Nothing),
            Work::Persist(future) => Pin::new(future).poll(context).map_ok(|()| Outcome::Nothing),
            Work::Range(range) => range.poll_next_chunk(context).map_ok(Outcome::Records),
            Work::Changes(slot) => {
                let polled = slot.detached(|changes| changes.poll_next(context));
                match polled {
                    Some(polled) => polled.map(|next| next.transpose().map(Outcome::Change)),
                    None => Poll::Ready(Ok(Outcome::Change(None))),
                }
            }
        }
    }
}

/// A call or a stream of `evendb.aio` that is under way.
#[pyclass(frozen, module = "evendb", name = "Pending")]
pub(crate) struct Pending {
    slot: Arc<Slot<Held<Work>>>,
    outcome: Mutex<Option<evendb::Result<Outcome>>>,
    /// The error of a stream, which every further poll gives again.
    failed: Mutex<Option<evendb::Error>>,
    waking: Arc<Waking>,
}

impl Pending {
    fn new(opening: &Arc<Opening>, work: Work) -> Pending {
        Pending {
            slot: Slot::new(
                opening,
                Held::new(work),
                (Failure::UsedUp, "the call is over"),
            ),
            outcome: Mutex::new(None),
            failed: Mutex::new(None),
            waking: Arc::default(),
        }
    }

    /// The outcome of a call at once, or the call.
    fn begun<'py>(
        py: Python<'py>,
        opening: &Arc<Opening>,
        work: Work,
    ) -> PyResult<Bound<'py, PyAny>> {
        let pending = Pending::new(opening, work);
        match pending.poll(py)? {
            true => pending.take(py),
            false => pending.into_bound_py_any(py),
        }
    }
}

fn object_of<'py>(py: Python<'py>, outcome: Outcome) -> PyResult<Bound<'py, PyAny>> {
    Ok(match outcome {
        Outcome::Nothing => py.None().into_bound(py),
        Outcome::Value(value) => given(py, value, None),
        Outcome::Values(values) => {
            let values = values.into_iter().map(|value| given(py, value, None));
            PyList::new(py, values)?.into_any()
        }
        Outcome::Records(None) | Outcome::Change(None) => py.None().into_bound(py),
        Outcome::Records(Some(records)) => {
            let pairs = records.iter().map(|(key, value)| {
                PyTuple::new(py, [PyBytes::new(py, key), PyBytes::new(py, value)])
            });
            PyList::new(py, pairs.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        Outcome::Change(Some(change)) => Bound::new(py, change_of(py, &change)?)?.into_any(),
    })
}

#[pymethods]
impl Pending {
    /// Goes on with the call; returns whether it has an outcome.
    fn poll(&self, py: Python<'_>) -> PyResult<bool> {
        if self.outcome.lock().is_some() {
            return Ok(true);
        }
        if !self.waking.begin() {
            let message = "another task waits for the next item of this stream already";
            return Err(PyRuntimeError::new_err(message));
        }
        if let Some(failure) = &*self.failed.lock() {
            *self.outcome.lock() = Some(Err(failure.clone()));
            return Ok(true);
        }
        let waker = Waker::from(self.waking.clone());
        let polled = self
            .slot
            .at_length(py, |work| work.poll(&mut Context::from_waker(&waker)))?;
        match polled {
            Poll::Ready(outcome) => {
                if let Err(failure) = &outcome {
                    *self.failed.lock() = Some(failure.clone());
                }
                *self.outcome.lock() = Some(outcome);
                Ok(true)
            }
            Poll::Pending => Ok(false),
        }
    }

    /// The outcome, once; an error is raised. Of a stream the next item, None at its end.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let outcome = self.outcome.lock().take();
        match outcome {
            Some(outcome) => object_of(py, outcome.or_raise(py)?),
            None => Err(PyRuntimeError::new_err("the call has no outcome yet")),
        }
    }

    /// Has `callback` called, by another thread, when the call can go on. Returns False if it can
    /// already: then it is not called.
    fn wake_by(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<bool> {
        let started = wakes::start();
        started.map_err(|error| {
            let message = format!("cannot start the thread for wake-ups: {error}");
            raised(py, evendb::Error::new(evendb::ErrorKind::Io, message))
        })?;
        Ok(self.waking.wait(callback).is_none())
    }

    /// Takes the callback back: nobody waits any more.
    fn forget(&self) {
        drop(self.waking.forget());
    }

    /// Calls the call off. A commit that has begun goes on.
    fn cancel(&self, py: Python<'_>) {
        self.forget();
        if !self.slot.is_used() {
            drop(self.slot.take(py));
        }
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("a call"))
    }
}

/// The value of a key, or None; or a `Pending` that will have it.
#[pyfunction]
pub(crate) fn begin_get<'py>(
    reader: &Bound<'py, Reader>,
    key: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, place) = (reader.py(), &reader.get().place);
    let key = Input::of(key, "key")?;
    let here = place.enter(py)?;
    let calls_python = place.opening.calls_python();
    match &place.at {
        At::Now => {
            if !calls_python && let Ok(found) = here.try_get(&*key).or_raise(py)? {
                return Ok(given(py, found, None));
            }
            let future = detach(py, || here.get_async(&*key));
            Pending::begun(py, &place.opening, Work::Get(future))
        }
        At::Moment(moment) => {
            let future = moment.at_length(py, |moment| moment.get_async(&here, &*key))?;
            Pending::begun(py, &place.opening, Work::Get(future))
        }
        At::Transaction(_) => Err(no_transaction()),
    }
}

/// The values of keys, as a list; or a `Pending` that will have it.
#[pyfunction]
pub(crate) fn begin_multi_get<'py>(
    reader: &Bound<'py, Reader>,
    keys: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, place) = (reader.py(), &reader.get().place);
    let held = keys_of(keys)?;
    let keys = held.iter().map(|key| Input::of(key, "keys").map(Key));
    let keys = keys.collect::<PyResult<Vec<_>>>()?;
    let here = place.enter(py)?;
    let future = match &place.at {
        At::Now => detach(py, || here.multi_get_async(&keys)),
        At::Moment(moment) => {
            moment.at_length(py, |moment| moment.multi_get_async(&here, &keys))?
        }
        At::Transaction(_) => return Err(no_transaction()),
    };
    Pending::begun(py, &place.opening, Work::Many(future))
}

#[cold]
fn no_transaction() -> PyErr {
    PyTypeError::new_err("a transaction's reads block: use transact")
}

/// The records of a span, as a stream of lists.
#[pyfunction]
#[pyo3(signature = (reader, prefix, start, stop, reverse, limit))]
pub(crate) fn begin_range<'py>(
    reader: &Bound<'py, Reader>,
    prefix: Option<&Bound<'py, PyAny>>,
    start: Option<&Bound<'py, PyAny>>,
    stop: Option<&Bound<'py, PyAny>>,
    reverse: bool,
    limit: Option<&Bound<'py, PyAny>>,
) -> PyResult<Pending> {
    let (py, place) = (reader.py(), &reader.get().place);
    let span = Span::of(prefix, start, stop)?.ordered(reverse, limit)?;
    let here = place.enter(py)?;
    let range = match &place.at {
        At::Now => detach(py, || here.range_async::<&[u8]>(span.bounds())),
        At::Moment(moment) => moment.at_length(py, |moment| {
            moment.range_async::<&[u8]>(&here, span.bounds())
        })?,
        At::Transaction(_) => return Err(no_transaction()),
    };
    let range = if span.reverse { range.rev() } else { range };
    let range = match span.limit {
        Some(limit @ 1..256) => range.chunk_records(limit as usize),
        _ => range,
    };
    Ok(Pending::new(&place.opening, Work::Range(range)))
}

/// A put, done when this returns None; or a `Pending`. Without a value it is a delete.
#[pyfunction]
#[pyo3(signature = (keyspace, key, value, ttl, durability))]
pub(crate) fn begin_write<'py>(
    keyspace: &Bound<'py, Keyspace>,
    key: &Bound<'py, PyAny>,
    value: Option<&Bound<'py, PyAny>>,
    ttl: Option<f64>,
    durability: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, place) = (keyspace.py(), &keyspace.get().place);
    let key = Input::of(key, "key")?;
    let value = value.map(|value| Input::of(value, "value")).transpose()?;
    let (ttl, durability) = (ttl_of(ttl)?, durability_of(py, durability)?);
    let here = place.enter(py)?;
    let mut batch = here.db().batch();
    match (value, ttl) {
        (None, _) => batch.delete(&here, &*key),
        (Some(value), None) => batch.put(&here, &*key, &*value),
        (Some(value), Some(ttl)) => batch.put_with_ttl(&here, &*key, &*value, ttl),
    };
    if let Some(durability) = durability {
        batch.durability(durability);
    }
    Pending::begun(
        py,
        &place.opening,
        Work::Commit(Box::new(batch.commit_async())),
    )
}

/// The commit of a batch, done when this returns None; or a `Pending`.
#[pyfunction]
pub(crate) fn begin_commit<'py>(batch: &Bound<'py, Batch>) -> PyResult<Bound<'py, PyAny>> {
    let (py, batch) = (batch.py(), batch.get());
    let _inside = batch.opening().enter(py)?;
    let work = Work::Commit(Box::new(batch.taken(py)?.into_inner().commit_async()));
    Pending::begun(py, batch.opening(), work)
}

/// `persist`, done when this returns None; or a `Pending`.
#[pyfunction]
pub(crate) fn begin_persist<'py>(database: &Bound<'py, Database>) -> PyResult<Bound<'py, PyAny>> {
    let (py, opening) = (database.py(), &database.get().opening);
    let inside = opening.enter(py)?;
    Pending::begun(py, opening, Work::Persist(inside.db().persist_async()))
}

/// The changes of a feed, as a stream.
#[pyfunction]
pub(crate) fn begin_changes(changes: &Bound<'_, Changes>) -> PyResult<Pending> {
    let changes = changes.get();
    let work = Work::Changes(changes.slot.clone());
    Ok(Pending::new(changes.slot.opening(), work))
}
