//! Merge operators: those that come with the library, by name, and functions of Python.
//!
//! A function is called by the thread that reads, or by a thread of the engine, which waits for the
//! interpreter then. An exception is the error of that read alone (`MergeFailed` with its text);
//! the operands stay. Where the interpreter has ended, the operator fails in the same way, and the
//! operands stay, too.
//!
//! The engine holds the function until the database is closed. A function that refers to its own
//! database keeps it open, therefore, until it is closed by hand.

use crate::border::call;
use crate::border::error::OrRaise;
use crate::border::held::attached;
use crate::opening::Opening;
use evendb::{KeyspaceOptions, MergeError, MergeOperator};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

struct Function {
    name: String,
    full: Py<PyAny>,
}

impl MergeOperator for Function {
    fn name(&self) -> &str {
        &self.name
    }

    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Option<Vec<u8>>, MergeError> {
        let called = attached(|py| {
            let merge = || {
                let key = PyBytes::new(py, key);
                let existing = existing.map(|value| PyBytes::new(py, value));
                let operands = operands.iter().map(|operand| PyBytes::new(py, operand));
                let operands = PyList::new(py, operands)?;
                let answer = call::call(self.full.bind(py), (key, existing, operands))?;
                if answer.is_none() {
                    return Ok(None);
                }
                let value =
                    crate::border::bytes::Input::of(&answer, "the merge function's result")?;
                Ok(Some(value.into_vec()))
            };
            merge().map_err(|error: PyErr| {
                call::keep_interrupt(py, &error);
                text_of(py, &error)
            })
        });
        match called {
            Some(Ok(value)) => Ok(value),
            Some(Err(text)) => Err(text.into()),
            None => Err("the interpreter has ended".into()),
        }
    }
}

/// An exception's type and text.
pub(crate) fn text_of(py: Python<'_>, error: &PyErr) -> String {
    let kind = error.get_type(py).name();
    let kind = kind.map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
    match error.value(py).str() {
        Ok(text) => format!("{kind}: {text}"),
        Err(_) => format!("{kind}, whose text cannot be made"),
    }
}

/// With the operator that a call was given.
pub(crate) fn chosen(
    opening: &Opening,
    options: KeyspaceOptions,
    merge: Option<&Bound<'_, PyAny>>,
) -> PyResult<KeyspaceOptions> {
    let Some(merge) = merge.filter(|merge| !merge.is_none()) else {
        return Ok(options);
    };
    let py = merge.py();
    if let Ok(name) = merge.cast::<PyString>() {
        return options
            .set("merge_operator", &name.to_string())
            .or_raise(py);
    }
    let pair: Result<(String, Bound<'_, PyAny>), _> = merge.extract();
    let (name, full) = match pair {
        Ok(pair) => pair,
        Err(_) => {
            let name = merge
                .getattr("__qualname__")
                .and_then(|name| name.extract::<String>());
            let Ok(name) = name else {
                let message = "merge is an operator's name, a function, or a pair of a name and a \
                               function";
                return Err(PyTypeError::new_err(message));
            };
            (format!("python.{name}"), merge.clone())
        }
    };
    if !full.is_callable() {
        return Err(PyTypeError::new_err(
            "the second of merge=(name, function) must be callable",
        ));
    }
    if name.is_empty() || name.len() > 255 || name.starts_with("evendb.") {
        let message = "the name of a merge function has 1 to 255 bytes, and does not begin with \
                       `evendb.`";
        return Err(PyValueError::new_err(message));
    }
    opening.may_call_python();
    Ok(options.merge_operator(Function {
        name,
        full: full.unbind(),
    }))
}
