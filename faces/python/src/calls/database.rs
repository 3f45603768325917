//! `open`, and `Database`: an open database, which is its default keyspace too.

use super::keyspace::Keyspace;
use super::records::not_pickled;
use crate::border::error::{Failure, OrRaise};
use crate::border::held::detach;
use crate::border::options as texts;
use crate::opening::Opening;
use crate::setup::merge;
use evendb::{ErrorKind, KeyspaceOptions, Options};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
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
        path: PathBuf,
        mode: String,
    ) -> PyResult<Bound<'_, Database>> {
        let keyspace = db.default_keyspace().clone();
        let opening = Opening::new(db, path, mode);
        let made = Keyspace::parts(&opening, keyspace);
        Bound::new(py, made.add_subclass(Database { opening }))
    }
}

/// A path, as `os` takes it: text, bytes, or an object that stands for one.
pub(crate) fn path_of(path: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let decode = path.py().import("os")?.getattr("fsdecode")?;
    Ok(PathBuf::from(decode.call1((path,))?.extract::<OsString>()?))
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
/// `memory_budget` bounds what the database takes: bytes, or text as "1GiB". `encryption_key` is 32
/// random bytes that are kept elsewhere: a new database is encrypted by them, and an encrypted one
/// opens with them alone (`WrongKey`). A list has former keys after the one that is to encrypt: see
/// `Database.rotate_key`. Further options by name: see `evendb.options()`.
///
/// >>> import evendb
/// >>> with evendb.open(path, memory_budget="64MiB") as db:
/// ...     db[b"k"] = b"v"
/// ...     len(db)
/// 1
#[pyfunction]
#[pyo3(signature = (
    path, mode="c", *, durability=None, memory_budget=None, encryption_key=None, **options
))]
pub(crate) fn open<'py>(
    path: &Bound<'py, PyAny>,
    mode: &str,
    durability: Option<&Bound<'py, PyAny>>,
    memory_budget: Option<&Bound<'py, PyAny>>,
    encryption_key: Option<&Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, Database>> {
    let py = path.py();
    let path = path_of(path)?;
    let keys = texts::key_ring(encryption_key)?;
    let named = PyDict::new(py);
    for (name, value) in [("durability", durability), ("memory_budget", memory_budget)] {
        if let Some(value) = value {
            named.set_item(name, value)?;
        }
    }
    let chosen = texts::of_database(py, Options::new(), Some(&named))?;
    let mut chosen = texts::of_database(py, chosen, options)?;
    if let Some(keys) = keys {
        chosen = chosen.advanced(|advanced| advanced.encryption(keys));
    }
    let open = || match mode {
        "r" => chosen.read_only(true).open(&path),
        "w" => chosen.create_if_missing(false).open(&path),
        "n" => open_empty(&path, chosen),
        "beside" => chosen.open_beside_writer(&path),
        _ => chosen.open(&path),
    };
    if !["c", "r", "w", "n", "beside"].contains(&mode) {
        let message = format!("mode is \"r\", \"w\", \"c\", \"n\" or \"beside\", and not {mode:?}");
        return Err(PyValueError::new_err(message));
    }
    let db = detach(py, open).or_raise(py)?;
    Database::of(py, db, path, mode.to_owned())
}

/// Whether a file of this name in a database's directory is the database's own.
fn is_own(name: &str) -> bool {
    const NAMES: [&str; 12] = [
        "CURRENT",
        "KEYS",
        "STATS",
        "HEAT",
        "LOCK",
        "COMMIT-LOG",
        "BALLAST",
        "MANIFEST",
        "CHUNK-LOGS",
        "VALUE",
        "CHANGES",
        "EXTENT",
    ];
    let (stem, kind) = name.split_once('.').unwrap_or((name, ""));
    let is_numbered = !stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_hexdigit());
    NAMES.iter().any(|own| stem.starts_with(own)) || (is_numbered && !kind.is_empty())
}

/// A new and empty database. One that lies beside foreign files is emptied in its place: none
/// would be created among them, so it must not be removed first.
fn open_empty(path: &Path, options: Options) -> evendb::Result<evendb::Db> {
    let names = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut names = names.map(|entry| entry.file_name());
    let is_alone = names.all(|name| name.to_str().is_some_and(is_own));
    if !is_alone {
        match options.clone().create_if_missing(false).open(path) {
            Ok(db) => {
                let others = db.keyspace_names();
                for name in others
                    .iter()
                    .filter(|name| *name != db.default_keyspace().name())
                {
                    db.drop_keyspace(name)?;
                }
                db.delete_range::<&[u8]>(..)?;
                return Ok(db);
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Err(_) => {}
        }
    }
    match evendb::destroy(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => options.open(path),
    }
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
    #[pyo3(signature = (name, *, create=true, ttl=None, merge=None, **options))]
    fn keyspace<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        create: bool,
        ttl: Option<f64>,
        merge: Option<&Bound<'py, PyAny>>,
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
        chosen = texts::of_keyspace(py, chosen, options)?;
        chosen = merge::chosen(&self.opening, chosen, merge)?;
        let keyspace = detach(py, || db.keyspace_with(name, &chosen)).or_raise(py)?;
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
        detach(py, || inside.db().drop_keyspace(name)).or_raise(py)
    }

    /// Gives a keyspace another name.
    #[pyo3(signature = (name, to))]
    fn rename_keyspace(&self, py: Python<'_>, name: &str, to: &str) -> PyResult<()> {
        let inside = self.opening.enter(py)?;
        detach(py, || inside.db().rename_keyspace(name, to)).or_raise(py)
    }

    /// Exchanges the names of two keyspaces, as one step.
    fn swap_keyspaces(&self, py: Python<'_>, one: &str, other: &str) -> PyResult<()> {
        let inside = self.opening.enter(py)?;
        detach(py, || inside.db().swap_keyspaces(one, other)).or_raise(py)
    }

    /// Everything acknowledged so far survives power loss when this returns.
    fn persist(&self, py: Python<'_>) -> PyResult<()> {
        let inside = self.opening.enter(py)?;
        detach(py, || inside.db().persist()).or_raise(py)
    }

    /// Encrypts an encrypted database's own key by the first of the keys that `open` was given,
    /// durably: from then on the former key does not open it. Data is not written again; earlier
    /// backups keep the key that they have.
    ///
    /// >>> import os
    /// >>> old, new = os.urandom(32), os.urandom(32)
    /// >>> evendb.open(path, encryption_key=old).close()
    /// >>> with evendb.open(path, encryption_key=[new, old]) as secret:
    /// ...     secret.rotate_key()
    /// >>> evendb.open(path, encryption_key=new).close()
    fn rotate_key(&self, py: Python<'_>) -> PyResult<()> {
        let inside = self.opening.enter(py)?;
        detach(py, || inside.db().rotate_key()).or_raise(py)
    }

    /// Writes everything that lies only in memory and in the log into tables.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let inside = self.opening.enter(py)?;
        detach(py, || inside.db().flush()).or_raise(py)
    }

    /// The position after all changes so far: see `changes`.
    fn position<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let inside = self.opening.enter(py)?;
        let position = detach(py, || inside.db().position()).or_raise(py)?;
        Ok(PyBytes::new(py, &position.to_bytes()))
    }

    /// Of a database that was opened "beside" a writer: an opening of the newest moment. This one
    /// stays at its own moment.
    fn refresh<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Database>> {
        let inside = self.opening.enter(py)?;
        let newer = detach(py, || inside.db().refresh()).or_raise(py)?;
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
    fn path(&self) -> &OsStr {
        self.opening.path.as_os_str()
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
pub(crate) fn destroy(py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<()> {
    let path = path_of(path)?;
    detach(py, || evendb::destroy(&path)).or_raise(py)
}
