//! Keys of typed columns: tuples as bytes that sort like the tuples, by the crate `evendb-keys`.
//!
//! ```text
//!   with types      the columns alone: the bytes that programs in Rust make of the same columns
//!   without types   for each column one byte that tells its type, then the column
//! ```
//! Types sort in the order of their bytes below; numbers before texts. A tuple that another one
//! begins with is a prefix of its bytes in both forms, except a single column with types, which is
//! encoded alone.

use super::times;
use evendb::keys::{
    Column, ColumnType, DecodeError, KeyColumn, KeyEncoder, ReadColumn, Reader, decode_columns,
};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString, PyTuple};
use std::borrow::Cow;

const NONE: u8 = 0x02;
const BOOL: u8 = 0x04;
const BELOW_I64: u8 = 0x0e;
const I64: u8 = 0x10;
const ABOVE_I64: u8 = 0x12;
const FLOAT: u8 = 0x20;
const BYTES: u8 = 0x30;
const TEXT: u8 = 0x32;

fn encode_telling(key: &mut Vec<u8>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    if value.is_none() {
        key.push(NONE);
    } else if let Ok(switch) = value.cast::<PyBool>() {
        key.push(BOOL);
        switch.is_true().encode(key);
    } else if value.is_instance_of::<PyInt>() {
        encode_whole_number(key, value)?;
    } else if let Ok(number) = value.cast::<PyFloat>() {
        key.push(FLOAT);
        number.value().encode(key);
    } else if let Ok(text) = value.cast::<PyString>() {
        key.push(TEXT);
        text.to_str()?.encode(key);
    } else if let Ok(bytes) = value.cast::<PyBytes>() {
        key.push(BYTES);
        bytes.as_bytes().encode(key);
    } else {
        let kind = value.get_type().name()?;
        let message =
            format!("a column is None, a bool, an int, a float, a str or bytes, and not {kind}");
        return Err(PyTypeError::new_err(message));
    }
    Ok(())
}

fn encode_whole_number(key: &mut Vec<u8>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    if let Ok(number) = value.extract::<i64>() {
        key.push(I64);
        number.encode(key);
        return Ok(());
    }
    let number: i128 = value.extract().map_err(|_| {
        PyOverflowError::new_err("a whole number of a column has at most 128 bits with its sign")
    })?;
    key.push(if number < 0 { BELOW_I64 } else { ABOVE_I64 });
    number.encode(key);
    Ok(())
}

fn refused(error: &DecodeError) -> PyErr {
    PyValueError::new_err(format!("these bytes are no such key: {error}"))
}

fn decode_told<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyTuple>> {
    let mut reader = Reader::new(bytes);
    let mut columns: Vec<Bound<'py, PyAny>> = Vec::new();
    while reader.finish().is_err() {
        let [tag] = reader.array::<1>().map_err(|error| refused(&error))?;
        let column = match tag {
            NONE => py.None().into_bound(py),
            BOOL => told::<bool>(py, &mut reader)?,
            I64 => told::<i64>(py, &mut reader)?,
            BELOW_I64 | ABOVE_I64 => told::<i128>(py, &mut reader)?,
            FLOAT => told::<f64>(py, &mut reader)?,
            BYTES => PyBytes::new(py, &reader.text().map_err(|error| refused(&error))?).into_any(),
            TEXT => text_of(py, &reader.text().map_err(|error| refused(&error))?)?,
            _ => {
                let message = format!(
                    "these bytes are no key that `key` made without types (column {}): give the \
                     types",
                    columns.len()
                );
                return Err(PyValueError::new_err(message));
            }
        };
        columns.push(column);
    }
    PyTuple::new(py, columns)
}

fn told<'py, T>(py: Python<'py>, reader: &mut Reader<'_>) -> PyResult<Bound<'py, PyAny>>
where
    T: for<'k> ReadColumn<'k> + IntoPyObjectExt<'py>,
{
    let value = T::read(reader).map_err(|error| refused(&error))?;
    value.into_bound_py_any(py)
}

fn text_of<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|_| PyValueError::new_err("a text column is not UTF-8"))?;
    Ok(PyString::new(py, text).into_any())
}

fn types_of(types: &Bound<'_, PyAny>) -> PyResult<Vec<ColumnType>> {
    let parse = |name: PyResult<Bound<'_, PyAny>>| {
        let name: String = name?.extract()?;
        name.parse::<ColumnType>()
            .map_err(|error| PyValueError::new_err(error.to_string()))
    };
    types.try_iter()?.map(parse).collect()
}

/// A value as a column of a type.
fn column_of(kind: &ColumnType, value: &Bound<'_, PyAny>) -> PyResult<Column<'static>> {
    Ok(match kind {
        ColumnType::Text => Column::Text(Cow::Owned(value.extract::<String>()?.into_bytes())),
        ColumnType::Bytes => Column::Bytes(Cow::Owned(bytes_of(value)?)),
        ColumnType::Fixed(length) => {
            let bytes = bytes_of(value)?;
            if bytes.len() != *length {
                let message = format!("a column fixed:{length} has {length} bytes");
                return Err(PyValueError::new_err(message));
            }
            Column::Fixed(Cow::Owned(bytes))
        }
        ColumnType::U8 => Column::U8(value.extract()?),
        ColumnType::U16 => Column::U16(value.extract()?),
        ColumnType::U32 => Column::U32(value.extract()?),
        ColumnType::U64 => Column::U64(value.extract()?),
        ColumnType::U128 => Column::U128(value.extract()?),
        ColumnType::I8 => Column::I8(value.extract()?),
        ColumnType::I16 => Column::I16(value.extract()?),
        ColumnType::I32 => Column::I32(value.extract()?),
        ColumnType::I64 => Column::I64(value.extract()?),
        ColumnType::I128 => Column::I128(value.extract()?),
        ColumnType::F32 => {
            let (number, wide) = (value.extract::<f32>()?, value.extract::<f64>()?);
            if number.is_infinite() && wide.is_finite() {
                return Err(PyOverflowError::new_err("the float is too large for f32"));
            }
            Column::F32(number)
        }
        ColumnType::F64 => Column::F64(value.extract()?),
        ColumnType::Bool => Column::Bool(value.extract()?),
        ColumnType::Char => Column::Char(value.extract()?),
        ColumnType::Time => Column::Time(times::moment_of(value)?),
        ColumnType::Duration => Column::Duration(value.extract()?),
        ColumnType::Optional(_) if value.is_none() => Column::Optional(None),
        ColumnType::Optional(inner) => Column::Optional(Some(Box::new(column_of(inner, value)?))),
        ColumnType::Descending(inner) => Column::Descending(Box::new(column_of(inner, value)?)),
        _ => {
            return Err(PyValueError::new_err(format!(
                "the type {kind} is not known here"
            )));
        }
    })
}

fn bytes_of(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    Ok(crate::border::bytes::Input::of(value, "a column of bytes")?.into_vec())
}

fn value_of<'py>(py: Python<'py>, column: Column<'_>) -> PyResult<Bound<'py, PyAny>> {
    match column {
        Column::Text(bytes) => text_of(py, &bytes),
        Column::Bytes(bytes) | Column::Fixed(bytes) => Ok(PyBytes::new(py, &bytes).into_any()),
        Column::U8(value) => value.into_bound_py_any(py),
        Column::U16(value) => value.into_bound_py_any(py),
        Column::U32(value) => value.into_bound_py_any(py),
        Column::U64(value) => value.into_bound_py_any(py),
        Column::U128(value) => value.into_bound_py_any(py),
        Column::I8(value) => value.into_bound_py_any(py),
        Column::I16(value) => value.into_bound_py_any(py),
        Column::I32(value) => value.into_bound_py_any(py),
        Column::I64(value) => value.into_bound_py_any(py),
        Column::I128(value) => value.into_bound_py_any(py),
        Column::F32(value) => value.into_bound_py_any(py),
        Column::F64(value) => value.into_bound_py_any(py),
        Column::Bool(value) => value.into_bound_py_any(py),
        Column::Char(value) => value.into_bound_py_any(py),
        Column::Time(value) => times::datetime_of(py, value),
        Column::Duration(value) => value.into_bound_py_any(py),
        Column::Optional(None) => Ok(py.None().into_bound(py)),
        Column::Optional(Some(inner)) | Column::Descending(inner) => value_of(py, *inner),
        _ => Err(PyValueError::new_err("the column's type is not known here")),
    }
}

/// A tuple as a key: bytes that sort as tuples do. Without `types` each column says its own type,
/// and `unkey` needs none: None, bool, int (up to 128 bits), float, str and bytes, in this order.
/// With `types`, a sequence of names ("str", "bytes", "fixed:N", "u8" to "u128", "i8" to "i128",
/// "f32", "f64", "bool", "char", "time", "duration", "opt:TYPE", "desc:TYPE"), the bytes are those
/// that programs in other languages make of the same columns.
///
/// >>> evendb.key(("ann", 7)) < evendb.key(("ann", 10)) < evendb.key(("bob", 1))
/// True
/// >>> evendb.key(("ann", 7)).startswith(evendb.key(("ann",)))
/// True
/// >>> evendb.key(("app7", 7), types=("str", "u16"))
/// b'app7\x00\x01\x00\x07'
#[pyfunction]
#[pyo3(signature = (columns, *, types=None))]
pub(crate) fn key<'py>(
    py: Python<'py>,
    columns: &Bound<'py, PyAny>,
    types: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let Ok(columns) = columns.cast::<PyTuple>() else {
        return Err(PyTypeError::new_err("columns must be a tuple"));
    };
    let mut bytes = Vec::new();
    let Some(types) = types else {
        for column in columns {
            encode_telling(&mut bytes, &column)?;
        }
        return Ok(PyBytes::new(py, &bytes));
    };
    let types = types_of(types)?;
    if columns.len() > types.len() {
        return Err(PyValueError::new_err("there are more columns than types"));
    }
    let mut encoder = KeyEncoder::new(&mut bytes, types.len());
    for (kind, column) in types.iter().zip(columns) {
        encoder.push(&column_of(kind, &column)?);
    }
    Ok(PyBytes::new(py, &bytes))
}

/// The tuple of a key that `key` made; with `types` the tuple of a key of these types. ValueError
/// for other bytes.
///
/// >>> evendb.unkey(evendb.key(("ann", 1_700_000_000, None, b"\x00", 2.5, True)))
/// ('ann', 1700000000, None, b'\x00', 2.5, True)
#[pyfunction]
#[pyo3(signature = (key, *, types=None))]
pub(crate) fn unkey<'py>(
    py: Python<'py>,
    key: &Bound<'py, PyAny>,
    types: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let bytes = crate::border::bytes::Input::of(key, "key")?;
    let Some(types) = types else {
        return decode_told(py, &bytes);
    };
    let columns = decode_columns(&types_of(types)?, &bytes).map_err(|error| refused(&error))?;
    let values = columns.into_iter().map(|column| value_of(py, column));
    PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)
}
