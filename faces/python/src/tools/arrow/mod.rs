//! Arrow's C interface: records out of a keyspace as a stream of columns, and into one.
//!
//! ```text
//!   a keyspace --giving--> ArrowArrayStream --> polars, pandas, pyarrow, DuckDB
//!   a data frame --> ArrowArrayStream --taking--> Keyspace.ingest
//! ```
//! The structures and their rules are those of Arrow's specification of its C data and stream
//! interfaces; nothing of Arrow's code is needed. Each structure is released once, by its owner,
//! through its own `release`, which is `None` from then on.

pub(crate) mod giving;
pub(crate) mod taking;

use std::ffi::{CStr, c_char, c_int, c_void};

/// The name of a capsule that holds a stream.
const CAPSULE: &CStr = c"arrow_array_stream";

#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArrayStream {
    get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}
