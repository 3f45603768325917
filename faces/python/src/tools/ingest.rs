//! Loading sorted records at once, also out of data frames; compaction, with filters.

use crate::border::bytes::Input;
use crate::border::error::{Failure, OrRaise, raised};
use crate::border::held::Held;
use crate::border::held::detach;
use crate::calls::keyspace::Keyspace;
use crate::calls::reader::pairs_of;
use crate::calls::writes::Range;
use crate::setup::filter;
use crate::tools::arrow::taking::{Batch, Incoming};
use evendb::Ingest;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Records and bytes that are gathered before the interpreter is let go.
const GATHERED: (usize, usize) = (1024, 1 << 20);
/// Rows of a data frame that are put between two looks for signals.
const ROWS: usize = 16_384;

/// Records that are on their way into an ingest.
struct Gathering {
    ingest: Held<Ingest>,
    bytes: Vec<u8>,
    /// The end of the key and of the value of each record.
    ends: Vec<(usize, usize)>,
}

impl Gathering {
    fn add(&mut self, py: Python<'_>, key: &[u8], value: &[u8]) -> PyResult<()> {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
        match self.ends.len() >= GATHERED.0 || self.bytes.len() >= GATHERED.1 {
            true => self.put_all(py),
            false => Ok(()),
        }
    }

    fn put_all(&mut self, py: Python<'_>) -> PyResult<()> {
        py.check_signals()?;
        let (ingest, bytes, ends) = (&mut self.ingest, &self.bytes, &self.ends);
        detach(py, || {
            let mut start = 0;
            for &(key_end, end) in ends {
                ingest.put(&bytes[start..key_end], &bytes[key_end..end])?;
                start = end;
            }
            evendb::Result::Ok(())
        })
        .or_raise(py)?;
        self.bytes.clear();
        self.ends.clear();
        Ok(())
    }
}

/// Puts all batches of a data frame.
fn put_frame(py: Python<'_>, ingest: &mut Held<Ingest>, mut incoming: Incoming) -> PyResult<()> {
    let mut put_all = || -> PyResult<()> {
        while let Some(batch) = detach(py, || incoming.next())? {
            let mut starts = (0..batch.rows()).step_by(ROWS);
            let done = starts.try_for_each(|start| {
                py.check_signals()?;
                put_rows(py, ingest, &batch, start..batch.rows().min(start + ROWS))
            });
            detach(py, || drop(batch));
            done?;
        }
        Ok(())
    };
    let outcome = put_all();
    // A producer may wait for a thread that wants the interpreter.
    detach(py, || drop(incoming));
    outcome
}

fn put_rows(
    py: Python<'_>,
    ingest: &mut Held<Ingest>,
    batch: &Batch,
    rows: std::ops::Range<usize>,
) -> PyResult<()> {
    detach(py, || {
        for row in rows {
            match batch.record(row) {
                Ok((key, value)) => ingest.put(key, value).map_err(Ok)?,
                Err(refusal) => return Err(Err(refusal)),
            }
        }
        Ok(())
    })
    .map_err(|failed| match failed {
        Ok(error) => raised(py, error),
        Err(refusal) => refusal.into(),
    })
}

#[pymethods]
impl Keyspace {
    /// Loads records whose keys ascend into tables at once: much faster than puts, and shown as
    /// one. They come from a mapping, an iterable of pairs, or a data frame: an object with
    /// `__arrow_c_stream__` whose columns `key` and `value`, or whose only two columns, are binary
    /// or text, without nulls. An exception leaves nothing. Keys that do not ascend raise
    /// `Unsorted`. Returns figures.
    ///
    /// >>> db.ingest((b"%04d" % n, b"v") for n in range(1000))["records"]
    /// 1000
    fn ingest<'py>(
        &self,
        py: Python<'py>,
        sorted_pairs: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let here = self.place.enter(py)?;
        let incoming = Incoming::of(sorted_pairs)?;
        let ingest = detach(py, || here.begin_ingest()).or_raise(py)?;
        drop(here);
        let mut gathering = Gathering {
            ingest: Held::new(ingest),
            bytes: Vec::new(),
            ends: Vec::new(),
        };
        if let Some(incoming) = incoming {
            put_frame(py, &mut gathering.ingest, incoming)?;
        } else {
            pairs_of(Some(sorted_pairs), |key, value| {
                let (key, value) = (Input::of(&key, "key")?, Input::of(&value, "value")?);
                gathering.add(py, &key, &value)
            })?;
            gathering.put_all(py)?;
        }
        let ingest = gathering.ingest.into_inner();
        let done = detach(py, || ingest.finish()).or_raise(py)?;
        let figures = PyDict::new(py);
        figures.set_item("records", done.records)?;
        figures.set_item("data_bytes", done.data_bytes)?;
        figures.set_item("tables", done.tables)?;
        figures.set_item("table_bytes", done.table_bytes)?;
        Ok(figures)
    }

    /// From now on `function(key, value)` decides about each record that is rewritten: None keeps
    /// it, False removes it, bytes replace the value. It is not remembered: set it again after
    /// opening; None takes it back. Threads of the engine call it, in no order, and not promptly.
    /// If it raises, the record stays, and the next `compact` raises `FilterFailed` with the text.
    fn set_compaction_filter(&self, py: Python<'_>, function: Option<Py<PyAny>>) -> PyResult<()> {
        let here = self.place.enter(py)?;
        let id = here.id();
        let made = function.map(|function| filter::made(self.opening(), id, function));
        detach(py, || here.set_compaction_filter(made)).or_raise(py)
    }

    /// Rewrites the keyspace, or the keys from `start` to below `stop`, into the fewest bytes.
    /// Returns figures.
    #[pyo3(signature = (start=None, stop=None))]
    fn compact<'py>(
        &self,
        py: Python<'py>,
        start: Option<&Bound<'py, PyAny>>,
        stop: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        if filter::is_inside() {
            let message = "a compaction filter must not compact: it would wait for itself";
            return Err(Failure::InvalidArgument.raised(py, message));
        }
        let here = self.place.enter(py)?;
        let range = Range::of(start, stop)?;
        let done = detach(py, || here.compact_range::<&[u8]>(range.bounds()));
        let done = done.or_raise(py)?;
        if let Some(text) = filter::failure_of(self.opening(), here.id()) {
            let message = format!("the compaction filter raised; its records stay: {text}");
            return Err(Failure::FilterFailed.raised(py, message));
        }
        let figures = PyDict::new(py);
        figures.set_item("chunks", done.chunks)?;
        figures.set_item("rewritten", done.rewritten)?;
        figures.set_item("bytes_before", done.bytes_before)?;
        figures.set_item("bytes_after", done.bytes_after)?;
        Ok(figures)
    }
}
