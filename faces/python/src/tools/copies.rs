//! Backups, forks and copies of an open database; checks of a closed one.

use crate::border::error::OrRaise;
use crate::border::held::detach;
use crate::border::options::key_ring;
use crate::calls::database::Database;
use evendb::inspect::{InspectOptions, Severity};
use evendb::{Backups, ForkOptions};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::path::PathBuf;

#[pymethods]
impl Database {
    /// Makes a backup in the directory `path`, beside writers. Backups of one database in one
    /// directory share the files that they have in common. `evendb.restore` brings one back.
    fn backup<'py>(&self, py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyDict>> {
        let inside = self.opening.enter(py)?;
        let done = detach(py, || inside.db().backup(&path)).or_raise(py)?;
        let figures = PyDict::new(py);
        figures.set_item("number", done.number)?;
        figures.set_item("bytes", done.bytes)?;
        figures.set_item("bytes_shared", done.bytes_shared)?;
        figures.set_item("seconds", done.elapsed.as_secs_f64())?;
        Ok(figures)
    }

    /// Makes a fork in the new directory `path`: a database of its own that shares its files with
    /// this one, at once, whatever the size. `CannotLink` on another file system, unless
    /// `copy_if_needed`.
    #[pyo3(signature = (path, *, copy_if_needed=false))]
    fn fork<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        copy_if_needed: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let inside = self.opening.enter(py)?;
        let options = ForkOptions::new().copy_if_needed(copy_if_needed);
        let fork = || inside.db().fork_with(&path, &options);
        let done = detach(py, fork).or_raise(py)?;
        let figures = PyDict::new(py);
        figures.set_item("files_linked", done.files_linked)?;
        figures.set_item("bytes_linked", done.bytes_linked)?;
        figures.set_item("bytes_copied", done.bytes_copied)?;
        figures.set_item("seconds", done.elapsed.as_secs_f64())?;
        Ok(figures)
    }

    /// Makes a copy in the new directory `path`, beside writers, and verifies it.
    fn copy_to<'py>(&self, py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyDict>> {
        let inside = self.opening.enter(py)?;
        let done = detach(py, || inside.db().copy_to(&path)).or_raise(py)?;
        let figures = PyDict::new(py);
        figures.set_item("bytes_linked", done.bytes_linked)?;
        figures.set_item("bytes_copied", done.bytes_copied)?;
        Ok(figures)
    }
}

/// Brings a backup in `backups` back into the new directory `path`: the newest, or the one of that
/// `number`. Returns its number.
#[pyfunction]
#[pyo3(signature = (backups, path, *, number=None))]
pub(crate) fn restore(
    py: Python<'_>,
    backups: PathBuf,
    path: PathBuf,
    number: Option<u64>,
) -> PyResult<u64> {
    detach(py, || Backups::at(&backups).restore(number, &path)).or_raise(py)
}

/// The backups in a directory, the oldest first.
#[pyfunction]
pub(crate) fn backups(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyList>> {
    let all = PyList::empty(py);
    for info in detach(py, || Backups::at(&path).list()).or_raise(py)? {
        let about = PyDict::new(py);
        about.set_item("number", info.number)?;
        about.set_item("time", info.seconds)?;
        about.set_item("files", info.files)?;
        about.set_item("bytes", info.bytes)?;
        about.set_item("bytes_shared", info.bytes_shared)?;
        all.append(about)?;
    }
    Ok(all)
}

/// Checks every checksum and invariant of the closed database in `path`. It writes nothing.
/// Returns "sound", the "findings" as texts, and the counts of what was "checked". An encrypted one
/// needs its `encryption_key`.
///
/// >>> evendb.open(path).close()
/// >>> evendb.verify(path)["sound"]
/// True
#[pyfunction]
#[pyo3(signature = (path, *, encryption_key=None))]
pub(crate) fn verify<'py>(
    py: Python<'py>,
    path: PathBuf,
    encryption_key: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let keys = key_ring(encryption_key)?;
    let check = || {
        let options = match keys {
            Some(keys) => InspectOptions::new().encryption(keys),
            None => InspectOptions::new(),
        };
        evendb::inspect::verify(&path, options)
    };
    let report = detach(py, check).or_raise(py)?;
    let checked = PyDict::new(py);
    checked.set_item("files", report.checked.files)?;
    checked.set_item("bytes", report.checked.bytes)?;
    checked.set_item("keyspaces", report.checked.keyspaces)?;
    checked.set_item("tables", report.checked.tables)?;
    checked.set_item("records", report.checked.records)?;
    let findings = PyList::empty(py);
    for finding in &report.findings {
        let severity = match finding.severity {
            Severity::Corruption => "corruption",
            _ => "warning",
        };
        findings.append(format!("{severity}: {finding}"))?;
    }
    let answer = PyDict::new(py);
    answer.set_item("sound", report.is_sound())?;
    answer.set_item("findings", findings)?;
    answer.set_item("checked", checked)?;
    Ok(answer)
}
