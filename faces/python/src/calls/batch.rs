//! `Batch`: writes that take effect together.

use super::records::not_pickled;
use super::source::{At, Here, Place};
use super::writes::{BATCH_USED, Range, Write, keyspace_of, ttl_of};
use crate::border::bytes::Input;
use crate::border::error::OrRaise;
use crate::border::held::Held;
use crate::border::held::detach;
use crate::border::slot::Slot;
use crate::opening::Opening;
use evendb::Durability;
use pyo3::prelude::*;
use std::sync::Arc;

/// Writes that take effect together, or not at all: when the `with` block ends, or by `commit`. An
/// exception within the block leaves the database as it was.
///
/// >>> with db.batch() as batch:
/// ...     batch[b"a"] = b"1"
/// ...     batch.keyspace("names")[b"a"] = b"Ada"
/// ...     del batch[b"old"]
/// >>> db[b"a"]
/// b'1'
#[pyclass(frozen, weakref, module = "evendb", name = "Batch")]
pub(crate) struct Batch {
    shared: Arc<Slot<Held<evendb::Batch>>>,
    place: Arc<Place>,
    durability: Option<Durability>,
}

impl Batch {
    pub(crate) fn new(
        here: &Here<'_>,
        place: &Arc<Place>,
        durability: Option<Durability>,
    ) -> Batch {
        let batch = Held::new(here.db().batch());
        Batch {
            shared: Slot::new(&place.opening, batch, BATCH_USED),
            place: place.clone(),
            durability,
        }
    }

    fn add(&self, py: Python<'_>, write: Write<'_>) -> PyResult<()> {
        let here = self.place.enter(py)?;
        self.shared
            .brief(py, |batch| write.into_batch(batch, &here))
    }

    pub(crate) fn opening(&self) -> &Arc<Opening> {
        &self.place.opening
    }

    /// The batch, for its commit.
    pub(crate) fn taken(&self, py: Python<'_>) -> PyResult<Held<evendb::Batch>> {
        let mut batch = self.shared.take(py)?;
        if let Some(durability) = self.durability {
            batch.durability(durability);
        }
        Ok(batch)
    }
}

#[pymethods]
impl Batch {
    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (key, value) = (Input::of(key, "key")?, Input::of(value, "value")?);
        self.add(py, Write::Put(key, value, None))
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.add(py, Write::Delete(Input::of(key, "key")?))
    }

    /// Sets the value of `key`, for `ttl` seconds if that is given.
    #[pyo3(signature = (key, value, *, ttl=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<f64>,
    ) -> PyResult<()> {
        let (key, value) = (Input::of(key, "key")?, Input::of(value, "value")?);
        self.add(py, Write::Put(key, value, ttl_of(ttl)?))
    }

    /// Removes `key`, if it is there.
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.add(py, Write::Delete(Input::of(key, "key")?))
    }

    /// Merges `operand` into the value of `key`, by the keyspace's merge operator.
    fn merge(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        operand: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (key, operand) = (Input::of(key, "key")?, Input::of(operand, "operand")?);
        self.add(py, Write::Merge(key, operand))
    }

    /// Removes the keys from `start` to below `stop`, as one write.
    #[pyo3(signature = (start=None, stop=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.add(py, Write::DeleteRange(Range::of(start, stop)?))
    }

    /// Removes the keys that begin with `prefix`, as one write.
    fn delete_prefix(&self, py: Python<'_>, prefix: &Bound<'_, PyAny>) -> PyResult<()> {
        self.add(py, Write::DeleteRange(Range::of_prefix(prefix)?))
    }

    /// The same batch, for writes into another keyspace, given by name or as a handle.
    fn keyspace(&self, which: &Bound<'_, PyAny>) -> PyResult<Batch> {
        let opening = &self.place.opening;
        Ok(Batch {
            shared: self.shared.clone(),
            place: Place::new(opening, keyspace_of(opening, which)?, At::Now),
            durability: self.durability,
        })
    }

    /// Writes everything as one. The batch is used up then.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let _inside = self.place.opening.enter(py)?;
        let batch = self.taken(py)?;
        detach(py, || batch.into_inner().commit()).or_raise(py)
    }

    /// Forgets the writes that were added so far.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.brief(py, |batch| batch.clear())
    }

    /// The number of writes that were added.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.shared.brief(py, |batch| batch.len())
    }

    fn __bool__(&self) -> bool {
        true
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let batch = slf.get();
        batch.shared.brief(slf.py(), |_| ())?;
        Ok(slf)
    }

    #[pyo3(signature = (kind, error, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _ = (error, traceback);
        match kind.is_none() {
            // It may have been committed by hand.
            true if self.shared.is_used() => Ok(()),
            true => self.commit(py),
            false => {
                drop(self.shared.take(py));
                Ok(())
            }
        }
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("a batch"))
    }
}
