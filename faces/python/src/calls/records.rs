//! `keys()`, `values()`, `items()`: views that can be iterated again and again, and iterators.
//!
//! ```text
//!   view --iter--> iterator: a source at one moment, in a slot | a chunk: bytes, place, count
//!   next:  the chunk has a record -> give it
//!          else: let the interpreter go, take the source, fill a chunk
//! ```
//! Invariants: a record is taken from the chunk by one thread, under a lock that is held for a few
//! instructions; an object of Python is made of it afterwards. After a close, the next call raises
//! `Closed`, whatever the chunk still has; `StopIteration` means the end of the data and nothing
//! else.

use super::source::{Kind, Place, Refused, Source};
use crate::border::bytes::Input;
use crate::border::error::{Failure, raised};
use crate::border::held::detach;
use crate::border::slot::Slot;
use crate::border::span::Span;
use crate::opening::Opening;
use parking_lot::Mutex;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySet, PyTuple};
use std::sync::Arc;

/// Records and bytes of a first chunk; each chunk is twice as large as the one before.
const FIRST: (usize, usize) = (16, 4 << 10);
const LARGEST: (usize, usize) = (2048, 256 << 10);
/// The number of records that are counted between two looks for signals.
const COUNTED: usize = 100_000;

/// The records of a keyspace, or of a part of it, as `keys()`, `values()` and `items()` give them.
///
/// Each iteration is of the moment at which it began. `len` counts; `in` is one look-up for keys
/// and items.
#[pyclass(frozen, module = "evendb", name = "Records")]
pub(crate) struct Records {
    place: Arc<Place>,
    span: Span,
    kind: Kind,
}

impl Records {
    pub(crate) fn new(place: &Arc<Place>, span: Span, kind: Kind) -> Records {
        Records {
            place: place.clone(),
            span,
            kind,
        }
    }

    fn iterator(&self, py: Python<'_>, turned: bool) -> PyResult<RecordIterator> {
        let mut span = self.span.clone();
        if turned && span.limit.is_some() {
            let message = "a view with a limit cannot be reversed: ask for reverse=True";
            return Err(PyTypeError::new_err(message));
        }
        span.reverse ^= turned;
        iterator_over(py, &self.place, &span, self.kind)
    }

    fn has_key(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = Input::of(key, "key")?;
        Ok(self.span.contains(&key) && self.place.has(py, &key)?)
    }

    /// Whether iterating is the only way to find out.
    fn has_by_iterating(slf: &Bound<'_, Self>, wanted: &Bound<'_, PyAny>) -> PyResult<bool> {
        for each in slf.as_any().try_iter()? {
            if each?.eq(wanted)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn as_set<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PySet>> {
        let set = PySet::empty(slf.py())?;
        for each in slf.as_any().try_iter()? {
            set.add(each?)?;
        }
        Ok(set)
    }
}

/// An iterator over a span, from this moment on.
pub(crate) fn iterator_over(
    py: Python<'_>,
    place: &Arc<Place>,
    span: &Span,
    kind: Kind,
) -> PyResult<RecordIterator> {
    let source = match span.limit {
        Some(0) => {
            place.opening.check(py)?;
            Source::Nothing
        }
        _ => place.records(py, span, kind)?,
    };
    Ok(RecordIterator {
        opening: place.opening.clone(),
        kind,
        chunk: Mutex::new(Chunk {
            bytes: Arc::new(Vec::new()),
            at: 0,
            left: 0,
            end: End::More,
        }),
        fetch: Slot::new(
            &place.opening,
            Fetch {
                source,
                next: FIRST,
                limit: span.limit.unwrap_or(u64::MAX),
            },
            (Failure::UsedUp, "the iterator has ended"),
        ),
    })
}

/// The number of records of a span at this moment.
pub(crate) fn count(py: Python<'_>, place: &Arc<Place>, span: &Span) -> PyResult<u64> {
    let limit = span.limit.unwrap_or(u64::MAX);
    let mut source = crate::border::held::Held::new(place.records(py, span, Kind::Keys)?);
    let mut counted = 0_u64;
    while counted < limit {
        py.check_signals()?;
        place.opening.check(py)?;
        let most = usize::try_from(limit - counted).map_or(COUNTED, |left| left.min(COUNTED));
        let got = detach(py, || source.count(most));
        let got = got.map_err(|refused| refusal(py, refused))?;
        counted += got.records as u64;
        if got.is_last {
            break;
        }
    }
    Ok(counted)
}

#[cold]
pub(crate) fn refusal(py: Python<'_>, refused: Refused) -> PyErr {
    match refused {
        Refused::Error(error) => raised(py, error),
        Refused::TransactionEnded => {
            Failure::UsedUp.raised(py, "the transaction of this iterator has ended")
        }
    }
}

#[pymethods]
impl Records {
    fn __iter__(&self, py: Python<'_>) -> PyResult<RecordIterator> {
        self.iterator(py, false)
    }

    fn __reversed__(&self, py: Python<'_>) -> PyResult<RecordIterator> {
        self.iterator(py, true)
    }

    /// Counts the records: it reads all keys of the span.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        count(py, &self.place, &self.span).map(|count| count as usize)
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        let mut span = self.span.clone();
        span.limit = Some(span.limit.unwrap_or(1).min(1));
        count(py, &self.place, &span).map(|count| count > 0)
    }

    fn __contains__(slf: &Bound<'_, Self>, wanted: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (view, py) = (slf.get(), slf.py());
        match view.kind {
            Kind::Values => Records::has_by_iterating(slf, wanted),
            _ if view.span.limit.is_some() => Records::has_by_iterating(slf, wanted),
            Kind::Keys => view.has_key(py, wanted),
            Kind::Items => {
                let Ok(pair) = wanted.cast::<PyTuple>() else {
                    return Ok(false);
                };
                if pair.len() != 2 {
                    return Ok(false);
                }
                let key = pair.get_item(0)?;
                let key = Input::of(&key, "key")?;
                if !view.span.contains(&key) {
                    return Ok(false);
                }
                match view.place.look_up(py, &key)? {
                    Some(value) => PyBytes::new(py, &value).as_any().eq(pair.get_item(1)?),
                    None => Ok(false),
                }
            }
        }
    }

    fn __and__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Records::as_set(slf)?.call_method1("intersection", (other,))
    }

    fn __or__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Records::as_set(slf)?.call_method1("union", (other,))
    }

    fn __sub__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Records::as_set(slf)?.call_method1("difference", (other,))
    }

    fn __xor__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Records::as_set(slf)?.call_method1("symmetric_difference", (other,))
    }

    fn __rand__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Records::__and__(slf, other)
    }

    fn __ror__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Records::__or__(slf, other)
    }

    fn __rxor__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Records::__xor__(slf, other)
    }

    fn __rsub__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let theirs = PySet::empty(slf.py())?;
        for each in other.try_iter()? {
            theirs.add(each?)?;
        }
        theirs.call_method1("difference", (Records::as_set(slf)?,))
    }

    fn __eq__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        if slf.is(other) {
            return true
                .into_pyobject(py)
                .map(|yes| yes.to_owned().into_any().unbind())
                .map_err(Into::into);
        }
        let sets = py.import("collections.abc")?.getattr("Set")?;
        if slf.get().kind == Kind::Values || !other.is_instance(&sets)? {
            return Ok(py.NotImplemented());
        }
        let theirs = PySet::empty(py)?;
        for each in other.try_iter()? {
            theirs.add(each?)?;
        }
        let same = Records::as_set(slf)?.eq(theirs)?;
        Ok(same.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    /// Whether no element is in both.
    fn isdisjoint<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Records::as_set(slf)?.call_method1("isdisjoint", (other,))
    }

    fn __repr__(&self) -> String {
        let kind = match self.kind {
            Kind::Keys => "keys",
            Kind::Values => "values",
            Kind::Items => "items",
        };
        format!("<evendb {kind} of {:?}>", self.place.name())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("a view"))
    }
}

/// The refusal of `pickle` and `copy`.
#[cold]
pub(crate) fn not_pickled(what: &str) -> PyErr {
    let message = format!(
        "{what} of a database is not pickled: pass the path, and open the database there (one \
         process at a time writes)"
    );
    PyTypeError::new_err(message)
}

enum End {
    More,
    Over,
    Failed(evendb::Error),
    TransactionEnded,
}

struct Chunk {
    bytes: Arc<Vec<u8>>,
    at: usize,
    left: usize,
    end: End,
}

struct Fetch {
    source: Source,
    next: (usize, usize),
    limit: u64,
}

/// An iterator over records; see the module.
#[pyclass(frozen, module = "evendb", name = "RecordIterator", weakref)]
pub(crate) struct RecordIterator {
    opening: Arc<Opening>,
    kind: Kind,
    chunk: Mutex<Chunk>,
    fetch: Arc<Slot<Fetch>>,
}

/// A record within a chunk.
struct Record {
    bytes: Arc<Vec<u8>>,
    key: usize,
    value: usize,
    end: usize,
}

impl Chunk {
    fn take(&mut self) -> Option<Record> {
        self.left = self.left.checked_sub(1)?;
        let key_len = self.length_at(self.at)?;
        let value_len = self.length_at(self.at + 4)?;
        let key = self.at + 8;
        let value = key + key_len;
        let end = value + value_len;
        self.at = end;
        Some(Record {
            bytes: self.bytes.clone(),
            key,
            value,
            end,
        })
    }

    fn length_at(&self, at: usize) -> Option<usize> {
        let four = self.bytes.get(at..at + 4)?;
        let four: [u8; 4] = four.try_into().ok()?;
        Some(u32::from_le_bytes(four) as usize)
    }
}

impl RecordIterator {
    /// Fills the chunk, unless another thread has done that meanwhile.
    fn fill(&self, fetch: &mut Fetch) {
        let mut chunk = self.chunk.lock();
        if chunk.left > 0 || !matches!(chunk.end, End::More) {
            return;
        }
        let mut bytes = std::mem::take(&mut chunk.bytes);
        drop(chunk);
        let mut fresh = Vec::new();
        let room = Arc::get_mut(&mut bytes).unwrap_or(&mut fresh);
        let most = usize::try_from(fetch.limit).map_or(fetch.next.0, |left| left.min(fetch.next.0));
        let got = fetch.source.next_chunk(room, (most, fetch.next.1));
        fetch.next = (
            (fetch.next.0 * 2).min(LARGEST.0),
            (fetch.next.1 * 2).min(LARGEST.1),
        );
        let fresh = if fresh.is_empty() {
            bytes
        } else {
            Arc::new(fresh)
        };
        let mut chunk = self.chunk.lock();
        match got {
            Ok(got) => {
                fetch.limit -= got.records as u64;
                (chunk.bytes, chunk.at, chunk.left) = (fresh, 0, got.records);
                if got.is_last || fetch.limit == 0 {
                    chunk.end = End::Over;
                }
            }
            Err(Refused::Error(error)) => chunk.end = End::Failed(error),
            Err(Refused::TransactionEnded) => chunk.end = End::TransactionEnded,
        }
        let over = !matches!(chunk.end, End::More);
        drop(chunk);
        if over {
            // What it held of the database is let go at once.
            fetch.source = Source::Nothing;
        }
    }

    /// The next record.
    fn advance(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        loop {
            self.opening.check(py)?;
            {
                let mut chunk = self.chunk.lock();
                if let Some(record) = chunk.take() {
                    return Ok(Some(record));
                }
                match &chunk.end {
                    End::More => {}
                    End::Over => return Ok(None),
                    End::Failed(error) => {
                        let error = error.clone();
                        drop(chunk);
                        return Err(raised(py, error));
                    }
                    End::TransactionEnded => {
                        drop(chunk);
                        return Err(refusal(py, Refused::TransactionEnded));
                    }
                }
            }
            py.check_signals()?;
            self.fetch.at_length(py, |fetch| self.fill(fetch))?;
        }
    }
}

#[pymethods]
impl RecordIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(record) = self.advance(py)? else {
            return Ok(None);
        };
        let bytes = &record.bytes;
        let key = || PyBytes::new(py, &bytes[record.key..record.value]);
        let value = || PyBytes::new(py, &bytes[record.value..record.end]);
        Ok(Some(match self.kind {
            Kind::Keys => key().into_any(),
            Kind::Values => value().into_any(),
            Kind::Items => PyTuple::new(py, [key(), value()])?.into_any(),
        }))
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("an iterator"))
    }
}
