//! `Reader`: the reading half of every mapping, of a keyspace, a snapshot or a transaction.

use super::records::{Records, count, iterator_over, not_pickled};
use super::source::{Kind, Place};
use super::value::view_of;
use crate::border::bytes::Input;
use crate::border::error::OrRaise;
use crate::border::span::Span;
use evendb::{KeyspaceOptions, Value};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMemoryView};
use std::sync::Arc;

/// A mapping of bytes to bytes that is read: what keyspaces, snapshots and transactions have in
/// common. It is made by them.
#[pyclass(frozen, subclass, mapping, weakref, module = "evendb", name = "Reader")]
pub(crate) struct Reader {
    pub(crate) place: Arc<Place>,
}

/// The outcome of a look-up.
pub(crate) fn given<'py>(
    py: Python<'py>,
    found: Option<Value>,
    default: Option<Bound<'py, PyAny>>,
) -> Bound<'py, PyAny> {
    match found {
        Some(value) => PyBytes::new(py, &value).into_any(),
        None => default.unwrap_or_else(|| py.None().into_bound(py)),
    }
}

#[cold]
pub(crate) fn missing(key: &Bound<'_, PyAny>) -> PyErr {
    PyKeyError::new_err(key.clone().unbind())
}

/// A default that may be missing, unlike `None`.
pub(crate) struct Default<'py>(pub(crate) Option<Bound<'py, PyAny>>);

impl<'py> FromPyObject<'_, 'py> for Default<'py> {
    type Error = std::convert::Infallible;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> Result<Self, Self::Error> {
        Ok(Default(Some(given.to_owned())))
    }
}

/// Keys of a call, and the objects that hold them.
pub(crate) fn keys_of<'py>(keys: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    keys.try_iter()?.collect()
}

/// Bytes that a call of the engine takes.
pub(crate) struct Key<'a>(pub(crate) Input<'a>);

impl AsRef<[u8]> for Key<'_> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Reader {
    fn records(
        &self,
        kind: Kind,
        span: PyResult<Span>,
        reverse: bool,
        limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Records> {
        Ok(Records::new(
            &self.place,
            span?.ordered(reverse, limit)?,
            kind,
        ))
    }
}

#[pymethods]
impl Reader {
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = Input::of(key, "key")?;
        match self.place.look_up(py, &bytes)? {
            Some(value) => Ok(PyBytes::new(py, &value)),
            None => Err(missing(key)),
        }
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.place.has(py, &Input::of(key, "key")?)
    }

    /// The number of records. It counts them, by reading all keys.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        count(py, &self.place, &Span::default()).map(|count| count as usize)
    }

    /// Whether there is a record: one look, whatever the number.
    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        let span = Span {
            limit: Some(1),
            ..Span::default()
        };
        count(py, &self.place, &span).map(|count| count > 0)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<super::records::RecordIterator> {
        iterator_over(py, &self.place, &Span::default(), Kind::Keys)
    }

    fn __reversed__(&self, py: Python<'_>) -> PyResult<super::records::RecordIterator> {
        let span = Span {
            reverse: true,
            ..Span::default()
        };
        iterator_over(py, &self.place, &span, Kind::Keys)
    }

    /// Whether another mapping has the same keys and values: reads all records.
    fn __eq__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let answer = |same: bool| -> PyResult<Py<PyAny>> {
            Ok(same.into_pyobject(py)?.to_owned().into_any().unbind())
        };
        if slf.is(other) {
            return answer(true);
        }
        let mapping = py.import("collections.abc")?.getattr("Mapping")?;
        if !other.is_instance(&mapping)? {
            return Ok(py.NotImplemented());
        }
        let items = slf
            .get()
            .records(Kind::Items, Ok(Span::default()), false, None)?;
        let mut records = 0_usize;
        for pair in Bound::new(py, items)?.as_any().try_iter()? {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
            let theirs = match other.get_item(&key) {
                Ok(theirs) => theirs,
                Err(error) if error.is_instance_of::<PyKeyError>(py) => return answer(false),
                Err(error) => return Err(error),
            };
            if !theirs.eq(value)? {
                return answer(false);
            }
            records += 1;
        }
        answer(other.len()? == records)
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("a handle"))
    }

    /// The value of `key`, or `default`.
    ///
    /// >>> db[b"k"] = b"v"
    /// >>> db.get(b"k"), db.get(b"other"), db.get(b"other", b"-")
    /// (b'v', None, b'-')
    #[pyo3(signature = (key, /, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = self.place.look_up(py, &Input::of(key, "key")?)?;
        Ok(given(py, found, default))
    }

    /// The values of many keys, in their order, all of one moment; None for a missing one.
    ///
    /// >>> db.update({b"a": b"1", b"c": b"3"})
    /// >>> db.multi_get([b"a", b"b", b"c"])
    /// [b'1', None, b'3']
    fn multi_get<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let held = keys_of(keys)?;
        let keys = held.iter().map(|key| Input::of(key, "keys").map(Key));
        let keys = keys.collect::<PyResult<Vec<_>>>()?;
        let found = self.place.look_up_all(py, &keys)?;
        PyList::new(py, found.into_iter().map(|value| given(py, value, None)))
    }

    /// The value of `key` as a read-only memoryview, which copies nothing if the value is in
    /// memory. It stays right as long as it lives: after an overwrite, a close and the end of the
    /// handle. KeyError if there is none.
    ///
    /// >>> db[b"k"] = b"value"
    /// >>> bytes(db.view(b"k")[1:3])
    /// b'al'
    fn view<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyMemoryView>> {
        match self.place.look_up(py, &Input::of(key, "key")?)? {
            Some(value) => view_of(py, value),
            None => Err(missing(key)),
        }
    }

    /// The bytes `start` to below `stop` of the value of `key`; of a large value only these take
    /// memory. Both ends are cut to the value's length. KeyError if there is no value.
    ///
    /// >>> db[b"k"] = b"value"
    /// >>> db.part(b"k", 1, 3)
    /// b'al'
    #[pyo3(signature = (key, start, stop))]
    fn part<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        start: u64,
        stop: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = Input::of(key, "key")?;
        let found = self.place.part(py, &bytes, start..stop.max(start))?;
        found
            .map(|(value, part)| PyBytes::new(py, &value[part]))
            .ok_or_else(|| missing(key))
    }

    /// The keys, in order: of all records, or of those with a prefix or within bounds.
    ///
    /// >>> db.update({b"a/1": b"", b"a/2": b"", b"b/1": b""})
    /// >>> list(db.keys(prefix=b"a/")), list(db.keys(start=b"a/2", reverse=True, limit=1))
    /// ([b'a/1', b'a/2'], [b'b/1'])
    #[pyo3(signature = (*, prefix=None, start=None, stop=None, reverse=false, limit=None))]
    fn keys(
        &self,
        prefix: Option<&Bound<'_, PyAny>>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        reverse: bool,
        limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Records> {
        self.records(Kind::Keys, Span::of(prefix, start, stop), reverse, limit)
    }

    /// The values, in the order of their keys: see `keys`.
    #[pyo3(signature = (*, prefix=None, start=None, stop=None, reverse=false, limit=None))]
    fn values(
        &self,
        prefix: Option<&Bound<'_, PyAny>>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        reverse: bool,
        limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Records> {
        self.records(Kind::Values, Span::of(prefix, start, stop), reverse, limit)
    }

    /// Pairs of key and value, in the order of the keys: see `keys`. An iteration is of the moment
    /// at which it began; writes go on meanwhile and are not seen by it.
    ///
    /// >>> db.update({b"a": b"1", b"b": b"2"})
    /// >>> for key, value in db.items(start=b"b"):
    /// ...     db[key + b"!"] = value
    /// >>> dict(db)
    /// {b'a': b'1', b'b': b'2', b'b!': b'2'}
    #[pyo3(signature = (*, prefix=None, start=None, stop=None, reverse=false, limit=None))]
    fn items(
        &self,
        prefix: Option<&Bound<'_, PyAny>>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        reverse: bool,
        limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Records> {
        self.records(Kind::Items, Span::of(prefix, start, stop), reverse, limit)
    }

    /// The name of the keyspace.
    #[getter]
    fn name(&self) -> String {
        self.place.name()
    }

    /// Whether the database was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.place.opening.is_closed()
    }

    /// The keyspace's own options, as texts by name.
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let chosen = self.place.enter(py)?.options().or_raise(py)?;
        let (all, none) = (PyDict::new(py), KeyspaceOptions::new());
        for row in KeyspaceOptions::table() {
            let text = chosen.text_of(row.name());
            if text != none.text_of(row.name()) {
                all.set_item(row.name(), text)?;
            }
        }
        Ok(all)
    }
}

/// The pairs that an `update` is given: of a mapping, or of an iterable of pairs.
pub(crate) fn pairs_of<'py>(
    given: Option<&Bound<'py, PyAny>>,
    mut each: impl FnMut(Bound<'py, PyAny>, Bound<'py, PyAny>) -> PyResult<()>,
) -> PyResult<()> {
    let Some(given) = given else { return Ok(()) };
    if let Ok(dict) = given.cast::<PyDict>() {
        // A copy of the pairs, made at once: other threads may change the dictionary.
        let pairs = dict.items();
        return pairs.iter().try_for_each(|pair| {
            let (key, value) = pair.extract()?;
            each(key, value)
        });
    }
    if given.hasattr("keys")? {
        if given.hasattr("items")? {
            for pair in given.call_method0("items")?.try_iter()? {
                let (key, value) = pair?.extract()?;
                each(key, value)?;
            }
            return Ok(());
        }
        for key in given.call_method0("keys")?.try_iter()? {
            let key = key?;
            let value = given.get_item(&key)?;
            each(key, value)?;
        }
        return Ok(());
    }
    for pair in given.try_iter()? {
        let pair = pair?;
        let two: Vec<Bound<'py, PyAny>> = pair.try_iter()?.collect::<PyResult<_>>()?;
        let [key, value] = <[_; 2]>::try_from(two)
            .map_err(|_| PyValueError::new_err("pairs must have two elements"))?;
        each(key, value)?;
    }
    Ok(())
}
