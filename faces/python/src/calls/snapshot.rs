//! `Snapshot`: one moment of the whole database.

use super::reader::Reader;
use super::records::not_pickled;
use super::source::{At, Moment, Place};
use super::writes::keyspace_of;
use crate::border::error::{Failure, OrRaise};
use crate::border::held::Held;
use crate::border::slot::Slot;
use crate::opening::Opening;
use evendb_base::fork;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;

/// One moment of the whole database, as a mapping that is read. While it lives, what it sees is
/// kept: close it soon, or use `with`.
///
/// >>> db[b"k"] = b"old"
/// >>> with db.snapshot() as then:
/// ...     db[b"k"] = b"new"
/// ...     then[b"k"], db[b"k"]
/// (b'old', b'new')
#[pyclass(frozen, extends = Reader, mapping, module = "evendb", name = "Snapshot")]
pub(crate) struct Snapshot {
    moment: Arc<Moment>,
    opening: Arc<Opening>,
}

impl Snapshot {
    pub(crate) fn begin<'py>(
        py: Python<'py>,
        opening: &Arc<Opening>,
        keyspace: evendb::Keyspace,
    ) -> PyResult<Bound<'py, Snapshot>> {
        let inside = opening.enter(py)?;
        let snapshot = Held::new(inside.db().snapshot().or_raise(py)?);
        let moment = Slot::new(
            opening,
            snapshot,
            (Failure::Closed, "the snapshot is closed"),
        );
        Snapshot::of(py, opening, moment, keyspace)
    }

    fn of<'py>(
        py: Python<'py>,
        opening: &Arc<Opening>,
        moment: Arc<Moment>,
        keyspace: evendb::Keyspace,
    ) -> PyResult<Bound<'py, Snapshot>> {
        let place = Place::new(opening, keyspace, At::Moment(moment.clone()));
        let opening = opening.clone();
        let made = PyClassInitializer::from(Reader { place });
        Bound::new(py, made.add_subclass(Snapshot { moment, opening }))
    }
}

#[pymethods]
impl Snapshot {
    /// Another keyspace at the same moment, given by name or as a handle.
    fn keyspace<'py>(&self, which: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Snapshot>> {
        let py = which.py();
        if let Ok(name) = which.extract::<String>() {
            let inside = self.opening.enter(py)?;
            if !inside.db().keyspace_exists(&name) {
                let message = format!("there is no keyspace {name:?}");
                return Err(Failure::NotFound.raised(py, message));
            }
        }
        let keyspace = keyspace_of(&self.opening, which)?;
        Snapshot::of(py, &self.opening, self.moment.clone(), keyspace)
    }

    /// The position of this moment among the changes: see `Database.changes`.
    fn position<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let position = self.moment.at_length(py, |snapshot| snapshot.position())?;
        Ok(PyBytes::new(py, &position.or_raise(py)?.to_bytes()))
    }

    /// Lets the moment go; again, it does nothing.
    fn close(&self, py: Python<'_>) {
        if !fork::is_child() && !self.moment.is_used() {
            drop(self.moment.take(py));
        }
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.moment.is_used() || self.opening.is_closed()
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().moment.brief(slf.py(), |_| ())?;
        Ok(slf)
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyAny>) {
        self.close(py);
    }

    fn __repr__(slf: &Bound<'_, Self>) -> String {
        let name = slf.as_super().get().place.name();
        format!("<evendb.Snapshot of {name:?}>")
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("a snapshot"))
    }
}
