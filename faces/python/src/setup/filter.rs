//! Compaction filters that are functions of Python.
//!
//! Threads of the engine call them, so they wait for the interpreter, which nobody keeps while it
//! waits for them. An exception keeps the record; its text is kept for the next `compact`.

use super::merge::text_of;
use crate::border::bytes::Input;
use crate::border::call;
use crate::border::held::attached;
use crate::opening::Opening;
use evendb::{CompactionFilter, FilterDecision};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// Whether this thread runs a filter now.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether a filter calls.
pub(crate) fn is_inside() -> bool {
    INSIDE.get()
}

struct Function {
    function: Py<PyAny>,
    failed: Arc<Mutex<Option<String>>>,
}

impl CompactionFilter for Function {
    fn filter(&self, key: &[u8], value: &[u8]) -> FilterDecision {
        let decided = attached(|py| {
            let decide = || {
                let arguments = (PyBytes::new(py, key), PyBytes::new(py, value));
                let answer = call::call(self.function.bind(py), arguments)?;
                if answer.is_none() {
                    return Ok(FilterDecision::Keep);
                }
                if answer.extract::<bool>().is_ok_and(|keep| !keep) {
                    return Ok(FilterDecision::Drop);
                }
                let value = Input::of(&answer, "the filter's result (None, False or bytes)")?;
                Ok(FilterDecision::Replace(value.into_vec()))
            };
            let outer = INSIDE.replace(true);
            let decided = decide();
            INSIDE.set(outer);
            decided.map_err(|error: PyErr| text_of(py, &error))
        });
        match decided {
            Some(Ok(decision)) => decision,
            Some(Err(text)) => {
                self.failed.lock().get_or_insert(text);
                FilterDecision::Keep
            }
            None => FilterDecision::Keep,
        }
    }
}

/// A filter for a keyspace.
pub(crate) fn made(
    opening: &Opening,
    keyspace: u32,
    function: Py<PyAny>,
) -> Arc<dyn CompactionFilter> {
    let failed = Arc::new(Mutex::new(None));
    opening.filters.lock().insert(keyspace, failed.clone());
    Arc::new(Function { function, failed })
}

/// The text of the first exception since the last look.
pub(crate) fn failure_of(opening: &Opening, keyspace: u32) -> Option<String> {
    let filters = opening.filters.lock();
    filters
        .get(&keyspace)
        .and_then(|failed| failed.lock().take())
}
