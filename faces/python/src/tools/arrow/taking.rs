//! Records out of a stream of Arrow's C interface: the columns of a data frame of any maker.
//!
//! ```text
//!   capsule --moved--> Incoming --next--> Batch: key and value --record(row)--> two slices
//! ```
//! The two columns are those with the names `key` and `value`, or the only two. Their types are
//! binary, or text in UTF-8: with offsets of 32 or 64 bits, as views (which polars gives), or of a
//! fixed size. A null is refused, because a record of bytes has none.
//!
//! Invariants: a stream and each of its batches are released once, here; nothing of a batch is read
//! after that. What a view says of its place is checked. The interface does not tell how long the
//! other buffers are, so that a producer with wrong offsets cannot be found out, here as elsewhere.
//!
//! Thread safety: one thread at a time, any, without the interpreter: a producer that is made of
//! objects of Python takes it by itself.

use super::{ArrowArray, ArrowArrayStream, ArrowSchema, CAPSULE};
use crate::border::held::detach;
use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;

/// The length up to which a view has its bytes within itself.
const INLINE: usize = 12;

/// Why no records come.
pub(crate) enum Refusal {
    /// The frame is of another form.
    Form(String),
    /// The producer failed, with a number of the system and a text.
    Producer(c_int, String),
}

impl From<Refusal> for PyErr {
    fn from(refusal: Refusal) -> PyErr {
        match refusal {
            Refusal::Form(text) => PyValueError::new_err(text),
            Refusal::Producer(number, text) => PyOSError::new_err((number, text)),
        }
    }
}

/// How a column lays out its bytes.
#[derive(Clone, Copy)]
enum Form {
    Offsets32,
    Offsets64,
    Views,
    Fixed(usize),
}

/// A column: its place among the children, its name, and its form.
struct Place {
    at: usize,
    name: &'static str,
    form: Form,
}

/// A stream, and what it says of its columns.
pub(crate) struct Incoming {
    stream: ArrowArrayStream,
    /// The key and the value, once the schema was asked for.
    places: Option<[Place; 2]>,
}

// SAFETY: the specification allows any thread to use and to release a stream, one at a time.
unsafe impl Send for Incoming {}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some(release) = self.stream.release {
            // SAFETY: a stream that was not released, which nobody else has.
            unsafe { release(&raw mut self.stream) }
        }
    }
}

/// A structure of the schema, released when it is dropped.
struct Schema(ArrowSchema);

impl Drop for Schema {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: as for the stream.
            unsafe { release(&raw mut self.0) }
        }
    }
}

impl Incoming {
    /// The stream of an object that has `__arrow_c_stream__`; `None` if it has none.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Incoming>> {
        let py = object.py();
        if !object.hasattr("__arrow_c_stream__")? {
            return Ok(None);
        }
        let capsule = object.call_method0("__arrow_c_stream__")?;
        // SAFETY: an object, and a name that lives for ever.
        let place = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), CAPSULE.as_ptr()) };
        if place.is_null() {
            let refused = PyErr::fetch(py);
            let told = PyTypeError::new_err("__arrow_c_stream__ did not return a stream");
            told.set_cause(py, Some(refused));
            return Err(told);
        }
        let place = place.cast::<ArrowArrayStream>();
        // SAFETY: the capsule is of a stream, which is moved out of it: what stays there counts as
        // released.
        let stream = unsafe {
            let stream = ptr::read(place);
            (*place).release = None;
            stream
        };
        if stream.release.is_none() {
            return Err(PyValueError::new_err("the stream has been read already"));
        }
        let mut incoming = Incoming {
            stream,
            places: None,
        };
        match detach(py, || incoming.read_schema()) {
            Ok(()) => Ok(Some(incoming)),
            Err(refusal) => {
                detach(py, || drop(incoming));
                Err(refusal.into())
            }
        }
    }

    /// What the producer says of its last failure.
    fn failure(&mut self, number: c_int) -> Refusal {
        let text = self.stream.get_last_error.and_then(|last| {
            // SAFETY: a stream that is not released; the text lives until the next call.
            let text = unsafe { last(&raw mut self.stream) };
            // SAFETY: as above.
            (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy())
        });
        let text = text.map_or_else(|| "the stream failed".to_owned(), |text| text.into_owned());
        Refusal::Producer(number, text)
    }

    fn read_schema(&mut self) -> Result<(), Refusal> {
        let get = self.stream.get_schema.ok_or_else(malformed)?;
        let mut schema = MaybeUninit::<ArrowSchema>::zeroed();
        // SAFETY: a stream that is not released, and a place for a schema.
        let schema = unsafe {
            match get(&raw mut self.stream, schema.as_mut_ptr()) {
                0 => Schema(schema.assume_init()),
                number => return Err(self.failure(number)),
            }
        };
        self.places = Some(places_of(&schema.0)?);
        Ok(())
    }

    /// The next batch, or `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Batch>, Refusal> {
        let get = self.stream.get_next.ok_or_else(malformed)?;
        let mut array = MaybeUninit::<ArrowArray>::zeroed();
        // SAFETY: a stream that is not released, and a place for a batch.
        let array = unsafe {
            match get(&raw mut self.stream, array.as_mut_ptr()) {
                0 => array.assume_init(),
                number => return Err(self.failure(number)),
            }
        };
        let places = self.places.as_ref().ok_or_else(malformed)?;
        match array.release {
            Some(_) => Batch::of(array, places).map(Some),
            None => Ok(None),
        }
    }
}

fn malformed() -> Refusal {
    Refusal::Form("the stream breaks Arrow's specification".to_owned())
}

/// Where key and value are.
fn places_of(schema: &ArrowSchema) -> Result<[Place; 2], Refusal> {
    let text_of = |text: *const std::ffi::c_char| match text.is_null() {
        true => String::new(),
        // SAFETY: a text of a schema that is not released.
        false => unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned(),
    };
    if text_of(schema.format) != "+s" {
        let message = "a table of two columns is wanted, and not one column";
        return Err(Refusal::Form(message.to_owned()));
    }
    let count = usize::try_from(schema.n_children).map_err(|_| malformed())?;
    let mut columns = Vec::with_capacity(count);
    for at in 0..count {
        // SAFETY: the specification gives an array of that length.
        let child = unsafe { (*schema.children.add(at)).as_ref() }.ok_or_else(malformed)?;
        let is_plain = child.dictionary.is_null();
        columns.push((text_of(child.name), text_of(child.format), is_plain));
    }
    let named = |name| columns.iter().position(|(given, _, _)| given == name);
    let (key, value) = match (named("key"), named("value"), count) {
        (Some(key), Some(value), _) => (key, value),
        (_, _, 2) => (0, 1),
        _ => {
            let names: Vec<_> = columns.iter().map(|(name, _, _)| &name[..]).collect();
            let message = format!(
                "columns \"key\" and \"value\" are wanted, or two columns; there are {names:?}"
            );
            return Err(Refusal::Form(message));
        }
    };
    let place =
        |at: usize, name| {
            let (given, format, is_plain) = &columns[at];
            let form = form_of(format).filter(|_| *is_plain);
            let form = form.ok_or_else(|| {
            let kind = if *is_plain { "type" } else { "dictionary of the type" };
            Refusal::Form(format!(
                "the {name}s (column {given:?}) must be binary or text, and not of Arrow's {kind} \
                 {format:?}: cast them"
            ))
        })?;
            Ok(Place { at, name, form })
        };
    Ok([place(key, "key")?, place(value, "value")?])
}

fn form_of(format: &str) -> Option<Form> {
    match format {
        "z" | "u" => Some(Form::Offsets32),
        "Z" | "U" => Some(Form::Offsets64),
        "vz" | "vu" => Some(Form::Views),
        _ => format.strip_prefix("w:")?.parse().ok().map(Form::Fixed),
    }
}

/// A batch of records, released when it is dropped.
pub(crate) struct Batch {
    array: ArrowArray,
    columns: [Column; 2],
    rows: usize,
}

// SAFETY: as for the stream.
unsafe impl Send for Batch {}
// SAFETY: a batch is only read.
unsafe impl Sync for Batch {}

impl Drop for Batch {
    fn drop(&mut self) {
        if let Some(release) = self.array.release {
            // SAFETY: as for the stream.
            unsafe { release(&raw mut self.array) }
        }
    }
}

/// A column of a batch. The pointers live as long as the batch.
#[derive(Clone, Copy)]
struct Column {
    name: &'static str,
    form: Form,
    /// The bits of the rows that are not null; NULL if no row is.
    valid: *const u8,
    /// Offsets, views, or the bytes themselves.
    first: *const u8,
    /// The bytes of offsets.
    bytes: *const u8,
    /// The buffers of views, and their lengths.
    buffers: (*const *const c_void, *const i64, usize),
    /// The row of the batch's first row.
    offset: usize,
}

impl Batch {
    fn of(array: ArrowArray, places: &[Place; 2]) -> Result<Batch, Refusal> {
        let empty = |place: &Place| Column {
            name: place.name,
            form: place.form,
            valid: ptr::null(),
            first: ptr::null(),
            bytes: ptr::null(),
            buffers: (ptr::null(), ptr::null(), 0),
            offset: 0,
        };
        let mut batch = Batch {
            array,
            columns: [empty(&places[0]), empty(&places[1])],
            rows: 0,
        };
        // From here on a refusal releases the batch.
        let (whole, size) = (&batch.array, |number| {
            usize::try_from(number).map_err(|_| malformed())
        });
        let (rows, offset) = (size(whole.length)?, size(whole.offset)?);
        let end = rows.checked_add(offset).ok_or_else(malformed)?;
        let (children, buffers) = (size(whole.n_children)?, size(whole.n_buffers)?);
        let valid = match buffers {
            0 => ptr::null(),
            // SAFETY: the specification gives an array of that length.
            _ => unsafe { (*whole.buffers).cast::<u8>() },
        };
        if (0..rows).any(|row| is_null(valid, offset + row)) {
            let message = "a row of the table is null as a whole".to_owned();
            return Err(Refusal::Form(message));
        }
        let mut columns = batch.columns;
        for (column, place) in columns.iter_mut().zip(places) {
            if place.at >= children {
                return Err(malformed());
            }
            // SAFETY: the specification gives an array of that length.
            let child = unsafe { (*whole.children.add(place.at)).as_ref() };
            let child = child.ok_or_else(malformed)?;
            if size(child.length)? < end {
                return Err(malformed());
            }
            column.fill(child, size(child.offset)? + offset)?;
        }
        batch.columns = columns;
        batch.rows = rows;
        Ok(batch)
    }

    /// How many records there are.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// A record's key and value. `row` is below [`rows`](Self::rows).
    pub(crate) fn record(&self, row: usize) -> Result<(&[u8], &[u8]), Refusal> {
        assert!(row < self.rows, "a row that the batch does not have");
        let [key, value] = &self.columns;
        // SAFETY: the batch has the row, and lives as long as what is returned.
        unsafe { Ok((key.bytes_of(row)?, value.bytes_of(row)?)) }
    }
}

/// Whether a bitmap, which is NULL if there are no nulls, has a 0 for the row.
fn is_null(valid: *const u8, row: usize) -> bool {
    // SAFETY: the specification gives a bit for each row.
    !valid.is_null() && unsafe { *valid.add(row / 8) } >> (row % 8) & 1 == 0
}

impl Column {
    fn fill(&mut self, child: &ArrowArray, offset: usize) -> Result<(), Refusal> {
        let count = usize::try_from(child.n_buffers).map_err(|_| malformed())?;
        let least = match self.form {
            Form::Offsets32 | Form::Offsets64 | Form::Views => 3,
            Form::Fixed(_) => 2,
        };
        if count < least || child.buffers.is_null() {
            return Err(malformed());
        }
        // SAFETY: the specification gives an array of that length.
        let buffer = |at: usize| unsafe { *child.buffers.add(at) }.cast::<u8>();
        self.offset = offset;
        self.valid = buffer(0);
        self.first = buffer(1);
        match self.form {
            Form::Offsets32 | Form::Offsets64 => self.bytes = buffer(2),
            Form::Views => {
                // SAFETY: as above; the lengths come last.
                let data = unsafe { child.buffers.add(2) };
                self.buffers = (data.cast_const(), buffer(count - 1).cast(), count - 3);
            }
            Form::Fixed(_) => {}
        }
        Ok(())
    }

    /// # Safety
    /// The batch has the row, and lives as long as what is returned.
    unsafe fn bytes_of<'b>(&self, row: usize) -> Result<&'b [u8], Refusal> {
        let at = self.offset + row;
        if is_null(self.valid, at) {
            let message = format!("a {} is null (row {row} of its batch)", self.name);
            return Err(Refusal::Form(message));
        }
        // SAFETY: the specification gives offsets, views or bytes for the row.
        let (from, length) = unsafe {
            match self.form {
                Form::Fixed(size) => (self.first.add(at * size), size),
                Form::Offsets32 => {
                    let offsets = self.first.cast::<i32>();
                    let (start, end) = (
                        offsets.add(at).read_unaligned(),
                        offsets.add(at + 1).read_unaligned(),
                    );
                    self.span(i64::from(start), i64::from(end))?
                }
                Form::Offsets64 => {
                    let offsets = self.first.cast::<i64>();
                    let (start, end) = (
                        offsets.add(at).read_unaligned(),
                        offsets.add(at + 1).read_unaligned(),
                    );
                    self.span(start, end)?
                }
                Form::Views => self.view(self.first.add(at * 16))?,
            }
        };
        match length {
            0 => Ok(&[]),
            // SAFETY: as above, and no bytes are NULL.
            _ if !from.is_null() => Ok(unsafe { std::slice::from_raw_parts(from, length) }),
            _ => Err(malformed()),
        }
    }

    fn span(&self, start: i64, end: i64) -> Result<(*const u8, usize), Refusal> {
        let start = usize::try_from(start).map_err(|_| malformed())?;
        let end = usize::try_from(end).map_err(|_| malformed())?;
        let length = end.checked_sub(start).ok_or_else(malformed)?;
        Ok((self.bytes.wrapping_add(start), length))
    }

    /// A view: its length, then either the bytes, or their first four, their buffer and the offset.
    ///
    /// # Safety
    /// `view` is one of the batch's views.
    unsafe fn view(&self, view: *const u8) -> Result<(*const u8, usize), Refusal> {
        // SAFETY: a view has 16 bytes.
        let number = |at: usize| unsafe { view.add(at).cast::<i32>().read_unaligned() };
        let size = |number: i32| usize::try_from(number).map_err(|_| malformed());
        let length = size(number(0))?;
        if length <= INLINE {
            return Ok((view.wrapping_add(4), length));
        }
        let (buffer, offset) = (size(number(8))?, size(number(12))?);
        let (buffers, lengths, count) = self.buffers;
        if buffer >= count || lengths.is_null() {
            return Err(malformed());
        }
        // SAFETY: there are `count` buffers and lengths.
        let (from, room) = unsafe {
            let from = (*buffers.add(buffer)).cast::<u8>();
            (from, lengths.add(buffer).read_unaligned())
        };
        let room = usize::try_from(room).map_err(|_| malformed())?;
        if offset.checked_add(length).is_none_or(|end| end > room) {
            return Err(malformed());
        }
        Ok((from.wrapping_add(offset), length))
    }
}
