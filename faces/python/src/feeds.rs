//! Changes: every write in its order, for all keyspaces or for a range of one.
//!
//! Waiting is done in short rounds, between which signals are looked at, so that a Ctrl-C ends a
//! wait without an end; a close ends it at once. Thread safety: several threads may use one feed,
//! and each change goes to one of them.

use crate::border::bytes::Input;
use crate::border::error::{Failure, OrRaise};
use crate::border::held::Held;
use crate::border::held::detach;
use crate::border::slot::Slot;
use crate::border::span::Span;
use crate::calls::database::Database;
use crate::calls::keyspace::Keyspace;
use crate::calls::records::not_pickled;
use crate::calls::writes::ttl_of;
use crate::opening::Opening;
use evendb::Position;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::ops::Bound as Limit;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The longest wait between two looks for signals.
const ROUND: Duration = Duration::from_millis(50);

/// A feed of changes: an iterator that waits for the next one. With a `timeout` (seconds) it ends
/// when nothing came for so long, and goes on when it is asked again; 0 gives what is there.
///
/// >>> feed = db.changes(timeout=0)
/// >>> db[b"k"] = b"v"
/// >>> for change in feed:
/// ...     for write in change:
/// ...         print(write.kind, write.key, write.value)
/// put b'k' b'v'
#[pyclass(frozen, weakref, module = "evendb", name = "Changes")]
pub(crate) struct Changes {
    pub(crate) slot: Arc<Slot<Held<evendb::Changes>>>,
    timeout: Option<Duration>,
}

/// All writes of one put, delete, batch or transaction. Iterating gives its writes; `position` is
/// the place behind it, to be stored and given to `changes(since=...)`.
#[pyclass(frozen, module = "evendb", name = "Change", get_all)]
pub(crate) struct Change {
    position: Py<PyBytes>,
    durability: String,
    writes: Py<PyTuple>,
}

/// One write of a change. `kind` is "put", "delete", "merge" or "delete_range"; a put has a `value`
/// and `expires` (seconds since 1970, or None), a merge `operands`, and a range deletion goes from
/// `key` to below `stop` (None: to the end).
#[pyclass(frozen, module = "evendb", name = "Write", get_all)]
pub(crate) struct Write {
    kind: &'static str,
    keyspace: String,
    keyspace_id: u32,
    key: Py<PyBytes>,
    value: Option<Py<PyBytes>>,
    operands: Option<Vec<Py<PyBytes>>>,
    stop: Option<Py<PyBytes>>,
    expires: Option<f64>,
}

#[pymethods]
impl Write {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let key = self.key.bind(py).repr()?;
        Ok(format!(
            "<evendb.Write {} {key} in {:?}>",
            self.kind, self.keyspace
        ))
    }
}

fn write_of(py: Python<'_>, write: &evendb::Write<'_>) -> Write {
    let bytes = |bytes: &[u8]| PyBytes::new(py, bytes).unbind();
    let operands = write.operands.map(|each| each.iter().map(bytes).collect());
    let kind = match (&write.value, &operands, &write.deleted_to) {
        (Some(_), _, _) => "put",
        (_, Some(_), _) => "merge",
        (_, _, Some(_)) => "delete_range",
        _ => "delete",
    };
    let expires = write
        .expires
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    Write {
        kind,
        keyspace: write.keyspace.to_owned(),
        keyspace_id: write.keyspace_id,
        key: bytes(write.key),
        value: write.value.map(bytes),
        operands,
        stop: match write.deleted_to {
            Some(Limit::Excluded(stop) | Limit::Included(stop)) => Some(bytes(stop)),
            _ => None,
        },
        expires: expires.map(|at| at.as_secs_f64()),
    }
}

/// A change as an object of Python.
pub(crate) fn change_of(py: Python<'_>, change: &evendb::Change) -> PyResult<Change> {
    let writes = change
        .writes()
        .map(|write| Bound::new(py, write_of(py, &write)));
    let writes = writes.collect::<PyResult<Vec<_>>>()?;
    Ok(Change {
        position: PyBytes::new(py, &change.position().to_bytes()).unbind(),
        durability: change.durability().to_string(),
        writes: PyTuple::new(py, writes)?.unbind(),
    })
}

#[pymethods]
impl Change {
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.writes.bind(py).as_any().call_method0("__iter__")
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.writes.bind(py).len()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<evendb.Change of {} writes>", self.writes.bind(py).len())
    }
}

impl Changes {
    pub(crate) fn new(
        opening: &Arc<Opening>,
        changes: evendb::Changes,
        timeout: Option<Duration>,
    ) -> Changes {
        Changes {
            slot: Slot::new(
                opening,
                Held::new(changes),
                (Failure::UsedUp, "the feed has ended"),
            ),
            timeout,
        }
    }

    fn wait(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Option<Change>> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            py.check_signals()?;
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let round = left.map_or(ROUND, |left| left.min(ROUND));
            let came = self
                .slot
                .at_length(py, |changes| changes.next_timeout(round))?;
            if let Some(change) = came.or_raise(py)? {
                return change_of(py, &change).map(Some);
            }
            if left.is_some_and(|left| left <= round) {
                return Ok(None);
            }
        }
    }
}

#[pymethods]
impl Changes {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Change>> {
        self.wait(py, self.timeout)
    }

    /// The next change; None if none comes within `timeout` seconds. Without a timeout it waits.
    #[pyo3(signature = (timeout=None))]
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Change>> {
        self.wait(py, ttl_of(timeout)?)
    }

    /// The position behind the last change that was given or passed over.
    #[getter]
    fn position<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let position = self.slot.at_length(py, |changes| changes.position())?;
        Ok(PyBytes::new(py, &position.to_bytes()))
    }

    /// The bytes of the log that lie before the feed: how far it is behind.
    #[getter]
    fn lag(&self, py: Python<'_>) -> PyResult<u64> {
        self.slot.at_length(py, |changes| changes.lag())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("a feed"))
    }
}

fn position_of(py: Python<'_>, since: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Position>> {
    let since = Input::of_optional(since, "since")?;
    since
        .map(|since| Position::from_bytes(&since).or_raise(py))
        .transpose()
}

#[pymethods]
impl Keyspace {
    /// A feed of the writes to this keyspace, or to the keys with a prefix or within bounds, from
    /// now on or since a position. See `Changes`.
    #[pyo3(signature = (prefix=None, *, start=None, stop=None, since=None, timeout=None))]
    fn watch(
        &self,
        py: Python<'_>,
        prefix: Option<&Bound<'_, PyAny>>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        since: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<Changes> {
        let here = self.place.enter(py)?;
        let (span, timeout) = (Span::of(prefix, start, stop)?, ttl_of(timeout)?);
        let since = position_of(py, since)?;
        let keyspace: &evendb::Keyspace = &here;
        let begin = || {
            let watch = keyspace.watch::<&[u8]>(span.bounds())?;
            match &since {
                Some(since) => watch.since(since),
                None => Ok(watch),
            }
        };
        let changes = detach(py, begin).or_raise(py)?;
        Ok(Changes::new(self.opening(), changes, timeout))
    }

    /// The writes to this keyspace: `watch`, by the name that a database has for all of its own.
    #[pyo3(signature = (since=None, prefix=None, *, timeout=None))]
    fn changes(
        &self,
        py: Python<'_>,
        since: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<Changes> {
        self.watch(py, prefix, None, None, since, timeout)
    }
}

#[pymethods]
impl Database {
    /// A feed of the writes to all keyspaces, from now on or since a position; with a `prefix` of
    /// those to the default keyspace. See `Changes`.
    #[pyo3(signature = (since=None, prefix=None, *, timeout=None))]
    fn changes(
        slf: &Bound<'_, Self>,
        since: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<Changes> {
        let py = slf.py();
        if prefix.is_some_and(|prefix| !prefix.is_none()) {
            let keyspace = slf.as_super().get();
            return keyspace.watch(py, prefix, None, None, since, timeout);
        }
        let opening = &slf.get().opening;
        let inside = opening.enter(py)?;
        let (since, timeout) = (position_of(py, since)?, ttl_of(timeout)?);
        let begin = || {
            let db = inside.db();
            match &since {
                Some(since) => db.changes_since(since),
                None => db.changes_since(&db.position()?),
            }
        };
        let changes = detach(py, begin).or_raise(py)?;
        Ok(Changes::new(opening, changes, timeout))
    }

    /// The oldest position that `changes` still takes.
    fn oldest_position<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let inside = self.opening.enter(py)?;
        let oldest = detach(py, || inside.db().oldest_position()).or_raise(py)?;
        Ok(PyBytes::new(py, &oldest.to_bytes()))
    }
}
