//! `open`, and `Database`: an open database, which is its default keyspace too.

use super::keyspace::Keyspace;
use super::records::not_pickled;
use crate::border::error::{Failure, OrRaise};
use crate::border::options as texts;
use crate::opening::Opening;
use crate::setup::merge;
use evendb::{ErrorKind, KeyspaceOptions, Options};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::path::PathBuf;
use std::sync::Arc;

/// An open database: a mapping of bytes to bytes (its default keyspace), further keyspaces, and
/// what concerns them all. `evendb.open` makes it. Use it as a context manager, or close it.
#[pyclass(frozen, extends = Keyspace, mapping, module = "evendb", name = "Database")]
pub(crate) struct Database {
    pub(crate) opening: Arc<Opening>,
}

impl Database {
    pub(crate) fn of(
        py: Python<'_>,
        db: evendb::Db,
        path: String,
        mode: String,
    ) -> PyResult<Bound<'_, Database>> {
        let keyspace = db.default_keyspace().clone();
        let opening = Opening::new(db, path, mode);
        let made = Keyspace::parts(&opening, keyspace);
        Bound::new(py, made.add_subclass(Database { opening }))
    }
}

/// Opens the database in the directory `path`.
///
/// `mode` is "c": made if it is missing; "w": it must exist; "n": new and empty, an old one is
/// removed; "r": for reading only; "beside": for reading beside a process that writes (see
/// `Database.refresh`). One process at a time writes: another opening of the same path fails with
/// `Locked`, which says who has it.
///
/// `durability` is what an acknowledged write survives: "process" (the default: the end of the
/// process, also by a kill), "sync" (power loss) or "relaxed" (nothing until a checkpoint).
/// `memory_budget` bounds what the database takes: bytes, or text as "1GiB". Further options by
/// name: see `evendb.options()`.
///
/// >>> import evendb
/// >>> with evendb.open(path, memory_budget="64MiB") as db:
/// ...     db[b"k"] = b"v"
/// ...     len(db)
/// 1
#[pyfunction]
#[pyo3(signature = (path, mode="c", *, durability=None, memory_budget=None, **options))]
pub(crate) fn open<'py>(
    py: Python<'py>,
    path: PathBuf,
    mode: &str,
    durability: Option<&Bound<'py, PyAny>>,
    memory_budget: Option<&Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, Database>> {
    let named = PyDict::new(py);
    for (name, value) in [("durability", durability), ("memory_budget", memory_budget)] {
        if let Some(value) = value {
            named.set_item(name, value)?;
        }
    }
    let chosen = texts::of_database(py, Options::new(), Some(&named))?;
    let chosen = texts::of_database(py, chosen, options)?;
    let open = || match mode {
        "r" => chosen.read_only(true).open(&path),
        "w" => chosen.create_if_missing(false).open(&path),
        "n" => match evendb::destroy(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => chosen.open(&path),
        },
        "beside" => chosen.open_beside_writer(&path),
        _ => chosen.open(&path),
    };
    if !["c", "r", "w", "n", "beside"].contains(&mode) {
        let message = format!("mode is \"r\", \"w\", \"c\", \"n\" or \"beside\", and not {mode:?}");
        return Err(PyValueError::new_err(message));
    }
    let db = py.detach(open).or_raise(py)?;
    Database::of(py, db, path.display().to_string(), mode.to_owned())
}

#[pymethods]
impl Database {
    /// The keyspace `name`, made if it is missing unless `create=False` (then NotFound). Options
    /// that are given must be those that an existing keyspace has: `ttl` (seconds for which values
    /// stay), `merge` (an operator's name, or a function), `compression`, `layout`, and further
    /// ones by name.
    ///
    /// A merge function gets the key, the value before (or None) and a list of operands, and
    /// returns the new value (or None for no value). It must be given whenever the keyspace is
    /// opened. Its name is remembered: `python.` and the function's own name, or the first of a
    /// pair `(name, function)`.
    ///
    /// >>> def longest(key, value, operands):
    /// ...     return max(operands + [value or b""], key=len)
    /// >>> words = db.keyspace("words", merge=longest)
    /// >>> words.merge(b"a", b"ant")
    /// >>> words.merge(b"a", b"albatross")
    /// >>> words[b"a"]
    /// b'albatross'
    #[pyo3(signature = (
        name, *, create=true, ttl=None, merge=None, compression=None, layout=None, **options
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords of a call of Python")]
    fn keyspace<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        create: bool,
        ttl: Option<f64>,
        merge: Option<&Bound<'py, PyAny>>,
        compression: Option<&Bound<'py, PyAny>>,
        layout: Option<&Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, Keyspace>> {
        let inside = self.opening.enter(py)?;
        let db = inside.db();
        if !create && !db.keyspace_exists(name) {
            let message = format!("there is no keyspace {name:?}");
            return Err(Failure::NotFound.raised(py, message));
        }
        let mut chosen = KeyspaceOptions::new();
        if let Some(ttl) = super::writes::ttl_of(ttl)? {
            chosen = chosen.ttl(ttl);
        }
        chosen = texts::one(py, chosen, "compression", compression)?;
        chosen = texts::one(py, chosen, "layout", layout)?;
        chosen = texts::of_keyspace(py, chosen, options)?;
        chosen = merge::chosen(&self.opening, chosen, merge)?;
        let keyspace = py.detach(|| db.keyspace_with(name, &chosen)).or_raise(py)?;
        Bound::new(py, Keyspace::parts(&self.opening, keyspace))
    }

    /// The names of all keyspaces, sorted.
    fn keyspaces(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let inside = self.opening.enter(py)?;
        Ok(inside.db().keyspace_names())
    }

    /// Removes a keyspace and all that it holds.
    fn drop_keyspace(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let inside = self.opening.enter(py)?;
        py.detach(|| inside.db().drop_keyspace(name)).or_raise(py)
    }

    /// Gives a keyspace another name.
    #[pyo3(signature = (name, to))]
    fn rename_keyspace(&self, py: Python<'_>, name: &str, to: &str) -> PyResult<()> {
        let inside = self.opening.enter(py)?;
        py.detach(|| inside.db().rename_keyspace(name, to))
            .or_raise(py)
    }

    /// Exchanges the names of two keyspaces, as one step.
    fn swap_keyspaces(&self, py: Python<'_>, one: &str, other: &str) -> PyResult<()> {
        let inside = self.opening.enter(py)?;
        py.detach(|| inside.db().swap_keyspaces(one, other))
            .or_raise(py)
    }

    /// Everything acknowledged so far survives power loss when this returns.
    fn persist(&self, py: Python<'_>) -> PyResult<()> {
        let inside = self.opening.enter(py)?;
        py.detach(|| inside.db().persist()).or_raise(py)
    }

    /// Writes everything that lies only in memory and in the log into tables.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let inside = self.opening.enter(py)?;
        py.detach(|| inside.db().flush()).or_raise(py)
    }

    /// The position after all changes so far: see `changes`.
    fn position<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let inside = self.opening.enter(py)?;
        let position = py.detach(|| inside.db().position()).or_raise(py)?;
        Ok(PyBytes::new(py, &position.to_bytes()))
    }

    /// Of a database that was opened "beside" a writer: an opening of the newest moment. This one
    /// stays at its own moment.
    fn refresh<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Database>> {
        let inside = self.opening.enter(py)?;
        let newer = py.detach(|| inside.db().refresh()).or_raise(py)?;
        let (path, mode) = (self.opening.path.clone(), self.opening.mode.clone());
        Database::of(py, newer, path, mode)
    }

    /// Closes the database for all its handles: keyspaces, iterators, snapshots and transactions
    /// raise `Closed` from then on. Everything acknowledged is kept. Again, it does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.opening.close(py)
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.opening.is_closed()
    }

    /// The directory, as it was given to `open`.
    #[getter]
    fn path(&self) -> &str {
        &self.opening.path
    }

    /// The mode, as it was given to `open`.
    #[getter]
    fn mode(&self) -> &str {
        &self.opening.mode
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().opening.check(slf.py())?;
        Ok(slf)
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        let state = if self.opening.is_closed() {
            " closed"
        } else {
            ""
        };
        format!("<evendb.Database {:?}{state}>", self.opening.path)
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("a handle"))
    }
}

/// The options of `open`: what each takes, its default and its limits, by name. With
/// `keyspace=True` those of `Database.keyspace`.
///
/// >>> evendb.options()["memory_budget"]["takes"]
/// 'size'
#[pyfunction]
#[pyo3(signature = (*, keyspace=false))]
pub(crate) fn options(py: Python<'_>, keyspace: bool) -> PyResult<Bound<'_, PyDict>> {
    match keyspace {
        false => texts::table_of(py, Options::table()),
        true => texts::table_of(py, KeyspaceOptions::table()),
    }
}

/// Removes the database in the directory `path`, which nobody may have open.
#[pyfunction]
pub(crate) fn destroy(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    py.detach(|| evendb::destroy(&path)).or_raise(py)
}
