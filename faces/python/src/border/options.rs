//! Options by name: values of Python as the texts that the engine takes (docs/options.md).

use super::bytes::Input;
use super::error::OrRaise;
use evendb::{Key, KeyRing, KeyspaceOptions, OptionInfo, Options};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::sync::Arc;

/// The text of one value.
fn text_of(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if value.is_none() {
        return Ok("none".to_owned());
    }
    if let Ok(switch) = value.cast::<PyBool>() {
        return Ok(if switch.is_true() { "on" } else { "off" }.to_owned());
    }
    if value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyFloat>()
    {
        return Ok(value.str()?.to_string());
    }
    if let Ok(pair) = value.cast::<PyTuple>() {
        let texts: PyResult<Vec<_>> = pair.iter().map(|each| text_of(name, &each)).collect();
        return Ok(texts?.join(","));
    }
    let kind = value.get_type().name()?;
    let message = format!("{name} must be a str, int, float, bool or None, not {kind}");
    Err(PyTypeError::new_err(message))
}

/// The engine's name of an option: `guards.` may be written `guards_`.
fn name_of(name: &str) -> String {
    match name.strip_prefix("guards_") {
        Some(rest) => format!("guards.{rest}"),
        None => name.to_owned(),
    }
}

fn known(table: &[OptionInfo], name: &str) -> bool {
    table.iter().any(|row| row.name() == name)
}

/// One key of 32 bytes.
fn key_of(given: &Bound<'_, PyAny>) -> PyResult<Key> {
    let bytes = Input::of(given, "encryption_key")?;
    let bytes: [u8; 32] = bytes[..].try_into().map_err(|_| {
        let message = format!("encryption_key must have 32 bytes, and not {}", bytes.len());
        PyValueError::new_err(message)
    })?;
    Ok(Key::new(bytes))
}

/// The keys of `encryption_key`: one, or a list whose first key encrypts. `None` for None.
pub(crate) fn key_ring(given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Arc<KeyRing>>> {
    let Some(given) = given.filter(|given| !given.is_none()) else {
        return Ok(None);
    };
    if !given.is_instance_of::<PyList>() && !given.is_instance_of::<PyTuple>() {
        return Ok(Some(Arc::new(KeyRing::new(key_of(given)?))));
    }
    let mut ring: Option<KeyRing> = None;
    for each in given.try_iter()? {
        let key = key_of(&each?)?;
        ring = Some(match ring {
            None => KeyRing::new(key),
            Some(ring) => ring.with_former(key),
        });
    }
    match ring {
        None => Err(PyValueError::new_err("encryption_key is an empty list")),
        ring => Ok(ring.map(Arc::new)),
    }
}

/// Sets what a call was given; an unknown name is a `TypeError`, as for any keyword.
pub(crate) fn of_database(
    py: Python<'_>,
    mut options: Options,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<Options> {
    for (name, value) in given.into_iter().flatten() {
        let name = name_of(&name.extract::<String>()?);
        let set = options.set(&name, &text_of(&name, &value)?);
        options = match known(Options::table(), &name) {
            true => set.or_raise(py)?,
            false => set.map_err(|error| PyTypeError::new_err(error.to_string()))?,
        };
    }
    Ok(options)
}

/// [`of_database`] for a keyspace. These two are not chosen by None, as they are in the stubs.
pub(crate) fn of_keyspace(
    py: Python<'_>,
    mut options: KeyspaceOptions,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<KeyspaceOptions> {
    for (name, value) in given.into_iter().flatten() {
        let name = name.extract::<String>()?;
        if value.is_none() && (name == "compression" || name == "layout") {
            continue;
        }
        let set = options.set(&name, &text_of(&name, &value)?);
        options = match known(KeyspaceOptions::table(), &name) {
            true => set.or_raise(py)?,
            false => set.map_err(|error| PyTypeError::new_err(error.to_string()))?,
        };
    }
    Ok(options)
}

/// The options of `table` as dictionaries, for `evendb.options()`.
pub(crate) fn table_of<'py>(py: Python<'py>, table: &[OptionInfo]) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for row in table {
        let about = PyDict::new(py);
        about.set_item("takes", row.takes())?;
        about.set_item("default", row.default_text())?;
        about.set_item("texts", row.limits())?;
        about.set_item("about", row.about())?;
        all.set_item(row.name(), about)?;
    }
    Ok(all)
}
