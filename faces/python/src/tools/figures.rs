//! Statistics, sizes, and when a value expires.

use crate::border::bytes::Input;
use crate::border::error::OrRaise;
use crate::border::held::detach;
use crate::border::span::Span;
use crate::calls::database::Database;
use crate::calls::keyspace::Keyspace;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::time::{SystemTime, UNIX_EPOCH};

#[pymethods]
impl Database {
    /// All figures by name: counters since the opening, and gauges; in units, bytes and
    /// nanoseconds. `print(db.stats_text())` shows them for people.
    ///
    /// >>> db[b"k"] = b"v"
    /// >>> db.stats()["puts"] > 0
    /// True
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let inside = self.opening.enter(py)?;
        let stats = detach(py, || inside.db().stats());
        let all = PyDict::new(py);
        for figure in stats.figures() {
            all.set_item(figure.name, figure.value)?;
        }
        Ok(all)
    }

    /// The figures as text for people.
    fn stats_text(&self, py: Python<'_>) -> PyResult<String> {
        let inside = self.opening.enter(py)?;
        Ok(detach(py, || inside.db().stats().to_string()))
    }
}

#[pymethods]
impl Keyspace {
    /// About how many records there are, in all or with a prefix or within bounds. It reads next to
    /// nothing.
    #[pyo3(signature = (*, prefix=None, start=None, stop=None))]
    fn approximate_len(
        &self,
        py: Python<'_>,
        prefix: Option<&Bound<'_, PyAny>>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let here = self.place.enter(py)?;
        let span = Span::of(prefix, start, stop)?;
        detach(py, || here.approximate_len::<&[u8]>(span.bounds())).or_raise(py)
    }

    /// About how many bytes the keys and values have, in all or with a prefix or within bounds.
    #[pyo3(signature = (*, prefix=None, start=None, stop=None))]
    fn approximate_size(
        &self,
        py: Python<'_>,
        prefix: Option<&Bound<'_, PyAny>>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let here = self.place.enter(py)?;
        let span = Span::of(prefix, start, stop)?;
        let size = detach(py, || here.approximate_size::<&[u8]>(span.bounds()));
        size.or_raise(py).map(|size| size.bytes)
    }

    /// The seconds for which the value of `key` stays, by milliseconds rounded up; None if it stays
    /// for good or is not there.
    ///
    /// >>> db.put(b"session", b"ada", ttl=1800)
    /// >>> 1790 < db.ttl(b"session") < 1801
    /// True
    fn ttl(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
        let here = self.place.enter(py)?;
        let key = Input::of(key, "key")?;
        let expires = detach(py, || {
            let snapshot = here.db().snapshot()?;
            snapshot.expires(&here, &*key)
        });
        let since = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = UNIX_EPOCH.elapsed().unwrap_or_default();
        let left = |at| since(at).saturating_sub(now);
        Ok(expires.or_raise(py)?.map(|at| left(at).as_secs_f64()))
    }
}
