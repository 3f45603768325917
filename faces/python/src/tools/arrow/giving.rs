//! Records as a stream of Arrow's C interface, for data frames of any maker.
//!
//! ```text
//!   ArrowArrayStream --get_next--> a struct of two columns: key, value (large binary)
//! ```
//! A capsule is one moment of the keyspace. A batch has at most 65,536 records and about 64 MiB;
//! offsets have 64 bits, so no number of bytes overflows them, and a value of more than that is a
//! batch of its own.
//!
//! The consumer calls `get_next` with or without the interpreter's lock, in any thread, one at a
//! time. It touches no object of Python.

use super::{ArrowArray, ArrowArrayStream, ArrowSchema, CAPSULE};
use crate::border::error::Failure;
use crate::border::held::{attached, away, detach};
use crate::border::slot::Slot;
use crate::border::span::Span;
use crate::calls::reader::Reader;
use crate::calls::records::{not_pickled, refusal};
use crate::calls::source::{self as records, At, Kind, Place, Refused};
use evendb_base::fork;
use pyo3::ffi;
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Records and bytes of a batch.
const BATCH: (usize, usize) = (65_536, 64 << 20);
const EIO: c_int = 5;

/// What a stream still has to give.
struct Stream {
    place: Arc<Place>,
    source: Source,
    chunk: Vec<u8>,
    left: u64,
    failed: Option<String>,
    /// The text of the last error.
    error: Option<CString>,
}

/// Where batches come from: a cursor, which a close lets go; or chunks that are there already.
struct Source {
    slot: Option<Arc<Slot<records::Source>>>,
    ready: VecDeque<(Vec<u8>, usize)>,
}

impl Source {
    /// The records of a transaction are gathered at once: a batch that is asked for later could
    /// wait for a thread that uses the transaction and wants the interpreter.
    fn of_transaction(mut source: records::Source, limit: u64) -> Result<Source, Refused> {
        let (mut ready, mut left) = (VecDeque::new(), limit);
        while left > 0 {
            let mut chunk = Vec::new();
            let got = source.next_chunk(&mut chunk, limits_of(left, 1 << 20))?;
            left -= got.records as u64;
            if got.records > 0 {
                ready.push_back((chunk, got.records));
            }
            if got.is_last {
                break;
            }
        }
        Ok(Source { slot: None, ready })
    }
}

/// One column of a batch.
struct Column {
    offsets: Vec<i64>,
    bytes: Vec<u8>,
    buffers: [*const c_void; 3],
}

/// What owns the children of a structure.
struct Children<T, const BUFFERS: usize> {
    pointers: [*mut T; 2],
    buffers: [*const c_void; BUFFERS],
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: the specification gives a structure that is not released yet; its parts are those
    // that `schema_of` made.
    unsafe {
        let schema = &mut *schema;
        if !schema.private_data.is_null() {
            let children = schema.private_data.cast::<Children<ArrowSchema, 0>>();
            for child in Box::from_raw(children).pointers {
                let mut child = Box::from_raw(child);
                if let Some(release) = child.release {
                    release(&raw mut *child);
                }
            }
        }
        schema.release = None;
    }
}

fn schema(format: &'static CStr, name: &'static CStr) -> ArrowSchema {
    ArrowSchema {
        format: format.as_ptr(),
        name: name.as_ptr(),
        metadata: ptr::null(),
        flags: 0,
        n_children: 0,
        children: ptr::null_mut(),
        dictionary: ptr::null_mut(),
        release: Some(release_schema),
        private_data: ptr::null_mut(),
    }
}

/// The schema of every batch.
fn schema_of_records() -> ArrowSchema {
    let child = |name| Box::into_raw(Box::new(schema(c"Z", name)));
    let children = Box::new(Children {
        pointers: [child(c"key"), child(c"value")],
        buffers: [],
    });
    let children = Box::into_raw(children);
    let mut all = schema(c"+s", c"");
    all.n_children = 2;
    // SAFETY: the box was just made, and lives until the schema is released.
    all.children = unsafe { (&raw mut (*children).pointers).cast() };
    all.private_data = children.cast();
    all
}

unsafe extern "C" fn release_column(array: *mut ArrowArray) {
    // SAFETY: the specification gives a structure that is not released yet; `column` made it.
    unsafe {
        drop(Box::from_raw((*array).private_data.cast::<Column>()));
        (*array).release = None;
    }
}

unsafe extern "C" fn release_batch(array: *mut ArrowArray) {
    // SAFETY: the specification gives a structure that is not released yet; `batch` made it. A
    // child that the consumer moved away has no `release` any more.
    unsafe {
        let children = (*array).private_data.cast::<Children<ArrowArray, 1>>();
        for child in Box::from_raw(children).pointers {
            let mut child = Box::from_raw(child);
            if let Some(release) = child.release {
                release(&raw mut *child);
            }
        }
        (*array).release = None;
    }
}

fn column(offsets: Vec<i64>, bytes: Vec<u8>) -> *mut ArrowArray {
    let length = offsets.len() as i64 - 1;
    let mut column = Box::new(Column {
        buffers: [ptr::null(), offsets.as_ptr().cast(), bytes.as_ptr().cast()],
        offsets,
        bytes,
    });
    let buffers = column.buffers.as_mut_ptr();
    debug_assert_eq!(column.offsets.last(), Some(&(column.bytes.len() as i64)));
    Box::into_raw(Box::new(ArrowArray {
        length,
        null_count: 0,
        offset: 0,
        n_buffers: 3,
        n_children: 0,
        buffers,
        children: ptr::null_mut(),
        dictionary: ptr::null_mut(),
        release: Some(release_column),
        private_data: Box::into_raw(column).cast(),
    }))
}

/// A batch of the records in a chunk.
fn batch(chunk: &[u8], records: usize) -> ArrowArray {
    let room = chunk.len();
    let (mut keys, mut values) = (Vec::new(), Vec::with_capacity(room));
    let mut key_offsets = Vec::with_capacity(records + 1);
    let mut value_offsets = Vec::with_capacity(records + 1);
    key_offsets.push(0);
    value_offsets.push(0);
    let mut left = chunk;
    for _ in 0..records {
        let Some((key, value, rest)) = first_record(left) else {
            break;
        };
        keys.extend_from_slice(key);
        values.extend_from_slice(value);
        key_offsets.push(keys.len() as i64);
        value_offsets.push(values.len() as i64);
        left = rest;
    }
    let length = key_offsets.len() as i64 - 1;
    let children = Box::into_raw(Box::new(Children {
        pointers: [column(key_offsets, keys), column(value_offsets, values)],
        buffers: [ptr::null()],
    }));
    ArrowArray {
        length,
        null_count: 0,
        offset: 0,
        n_buffers: 1,
        n_children: 2,
        // SAFETY: the box was just made, and lives until the batch is released.
        buffers: unsafe { (&raw mut (*children).buffers).cast() },
        // SAFETY: as above.
        children: unsafe { (&raw mut (*children).pointers).cast() },
        dictionary: ptr::null_mut(),
        release: Some(release_batch),
        private_data: children.cast(),
    }
}

fn first_record(chunk: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (lengths, rest) = chunk.split_first_chunk::<8>()?;
    let (key, value) = lengths.split_first_chunk::<4>()?;
    let key = u32::from_le_bytes(*key) as usize;
    let value = u32::from_le_bytes(value.try_into().ok()?) as usize;
    let (key, rest) = rest.split_at_checked(key)?;
    let (value, rest) = rest.split_at_checked(value)?;
    Some((key, value, rest))
}

unsafe extern "C" fn get_schema(_: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: the specification gives a place for a schema.
    unsafe { out.write(schema_of_records()) };
    0
}

impl Stream {
    /// The next batch, or `None` behind the last one. An error comes again.
    fn next(&mut self) -> Result<Option<ArrowArray>, String> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        self.gathered()
            .inspect_err(|text| self.failed = Some(text.clone()))
    }

    fn gathered(&mut self) -> Result<Option<ArrowArray>, String> {
        let Source { slot, ready } = &mut self.source;
        fork::check().map_err(|error| error.to_string())?;
        let closed = || "the database is closed; open it again".to_owned();
        let _inside = self.place.opening.enter_detached().ok_or_else(closed)?;
        let Some(slot) = slot else {
            let next = ready.pop_front();
            return Ok(next.map(|(chunk, records)| batch(&chunk, records)));
        };
        if self.left == 0 {
            return Ok(None);
        }
        let limits = limits_of(self.left, self.chunk.len());
        let chunk = &mut self.chunk;
        let got = away(|| slot.detached(|source| source.next_chunk(chunk, limits)));
        let got = got
            .ok_or_else(closed)?
            .map_err(|refused| text_of(&refused))?;
        self.left -= got.records as u64;
        match got.records {
            0 => Ok(None),
            records => Ok(Some(batch(&self.chunk, records))),
        }
    }
}

/// Records and bytes of the next batch. The first one is small; they grow with what there is.
fn limits_of(left: u64, bytes: usize) -> (usize, usize) {
    let most = usize::try_from(left).map_or(BATCH.0, |left| left.min(BATCH.0));
    (most, (bytes * 4).clamp(1 << 20, BATCH.1))
}

fn text_of(refused: &Refused) -> String {
    match refused {
        Refused::Error(error) => error.to_string(),
        Refused::TransactionEnded => "the transaction has ended".to_owned(),
    }
}

unsafe extern "C" fn get_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: the specification gives a stream that is not released, which one thread uses, and a
    // place for a batch.
    let stream = unsafe { &mut *(*stream).private_data.cast::<Stream>() };
    let next = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stream.next()));
    let array = match next.unwrap_or_else(|_| Err("a defect of EvenDB: a panic".to_owned())) {
        Ok(Some(array)) => array,
        // An array that is released already is the end of the stream.
        Ok(None) => ArrowArray {
            length: 0,
            null_count: 0,
            offset: 0,
            n_buffers: 0,
            n_children: 0,
            buffers: ptr::null_mut(),
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private_data: ptr::null_mut(),
        },
        Err(text) => {
            stream.error = CString::new(text.replace('\0', " ")).ok();
            return EIO;
        }
    };
    // SAFETY: as above.
    unsafe { out.write(array) };
    0
}

unsafe extern "C" fn get_last_error(stream: *mut ArrowArrayStream) -> *const c_char {
    // SAFETY: as for `get_next`; the text lives until the next call.
    let stream = unsafe { &*(*stream).private_data.cast::<Stream>() };
    stream
        .error
        .as_ref()
        .map_or(ptr::null(), |text| text.as_ptr())
}

unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: the specification gives a stream that is not released yet; `__arrow_c_stream__` made
    // it. The thread is the consumer's, and may not take the interpreter: who has it may wait.
    unsafe {
        let inner = Box::from_raw((*stream).private_data.cast::<Stream>());
        away(|| drop(inner));
        (*stream).release = None;
    }
}

unsafe extern "C" fn destroy_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule of this name, which `__arrow_c_stream__` made; the consumer may have moved
    // the stream away, which then has no `release` any more.
    unsafe {
        let stream = ffi::PyCapsule_GetPointer(capsule, CAPSULE.as_ptr());
        if stream.is_null() {
            ffi::PyErr_Clear();
            return;
        }
        let mut stream = Box::from_raw(stream.cast::<ArrowArrayStream>());
        let Some(release) = stream.release else {
            return;
        };
        // This is called with the interpreter, which nobody needs for what the stream lets go.
        let place = AtomicPtr::new(&raw mut *stream);
        if attached(|py| detach(py, || release(place.load(Ordering::Relaxed)))).is_none() {
            release(&raw mut *stream);
        }
    }
}

/// The records of a keyspace, a snapshot or a transaction, for data frames: an object with
/// `__arrow_c_stream__`, which polars, pandas, pyarrow, DuckDB and others read. The columns are
/// `key` and `value`, of large binary. Each stream is of the moment at which it begins.
#[pyclass(frozen, module = "evendb", name = "ArrowRecords")]
pub(crate) struct ArrowRecords {
    place: Arc<Place>,
    span: Span,
}

#[pymethods]
impl ArrowRecords {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // The protocol lets a producer give its own schema, whatever was asked for.
        let _ = requested_schema;
        let left = self.span.limit.unwrap_or(u64::MAX);
        let source = self.place.records(py, &self.span, Kind::Items)?;
        let source = match &self.place.at {
            At::Transaction(_) => detach(py, || Source::of_transaction(source, left))
                .map_err(|refused| refusal(py, refused))?,
            _ => {
                let used_up = (Failure::Closed, "the stream has ended");
                let slot = Slot::new(&self.place.opening, source, used_up);
                let ready = VecDeque::new();
                Source {
                    slot: Some(slot),
                    ready,
                }
            }
        };
        let stream = Box::into_raw(Box::new(Stream {
            place: self.place.clone(),
            source,
            chunk: Vec::new(),
            left,
            failed: None,
            error: None,
        }));
        let stream = Box::into_raw(Box::new(ArrowArrayStream {
            get_schema: Some(get_schema),
            get_next: Some(get_next),
            get_last_error: Some(get_last_error),
            release: Some(release_stream),
            private_data: stream.cast(),
        }));
        // SAFETY: a pointer that lives until the capsule's destructor, and a name that lives for
        // ever. If there is no capsule, the stream is released here.
        unsafe {
            let made = ffi::PyCapsule_New(stream.cast(), CAPSULE.as_ptr(), Some(destroy_capsule));
            if made.is_null() {
                let mut stream = Box::from_raw(stream);
                release_stream(&raw mut *stream);
            }
            Bound::from_owned_ptr_or_err(py, made)
        }
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("a stream"))
    }
}

#[pymethods]
impl Reader {
    /// The records, in all or with a prefix or within bounds, for data frames: an object with
    /// `__arrow_c_stream__`. `polars.DataFrame(db.arrow())`, `pyarrow.table(db.arrow())` and
    /// DuckDB's `from` read it; the columns are `key` and `value`.
    #[pyo3(signature = (*, prefix=None, start=None, stop=None, reverse=false, limit=None))]
    fn arrow(
        &self,
        prefix: Option<&Bound<'_, PyAny>>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        reverse: bool,
        limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<ArrowRecords> {
        let span = Span::of(prefix, start, stop)?.ordered(reverse, limit)?;
        Ok(ArrowRecords {
            place: self.place.clone(),
            span,
        })
    }
}
