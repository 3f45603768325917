//! Failures, and how a call ends: with a status, and with an `evendb_error` if the caller gave a
//! place for one.

use super::status::{self, Status};
use super::{Place, bytes};
use std::any::Any;
use std::error::Error as _;
use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) type Result<T> = std::result::Result<T, Box<Failure>>;

/// The place for a function's error.
pub(crate) type ErrorPlace<'e> = Place<'e, *mut Failure>;

/// `evendb_error`.
#[derive(Debug)]
pub struct Failure {
    pub(crate) status: Status,
    message: CString,
    file: Option<CString>,
    offset: Option<u64>,
    errno: i32,
}

/// The offset of an error that names none.
const NO_OFFSET: u64 = u64::MAX;

impl Failure {
    pub(crate) fn new(status: Status, message: impl Into<Vec<u8>>) -> Box<Failure> {
        Box::new(Failure {
            status,
            message: bytes::terminated(message.into()),
            file: None,
            offset: None,
            errno: 0,
        })
    }

    pub(crate) fn argument(message: impl Into<Vec<u8>>) -> Box<Failure> {
        Failure::new(status::INVALID_ARGUMENT, message)
    }

    /// A panic that was caught at the border.
    pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Box<Failure> {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("without a message");
        let message = format!(
            "a defect of EvenDB: a panic ({text}); the handle can only be freed from now on"
        );
        Failure::new(status::PANIC, message)
    }
}

impl From<evendb::Error> for Box<Failure> {
    fn from(error: evendb::Error) -> Box<Failure> {
        let mut failure = Failure::new(status::of_kind(error.kind()), error.to_string());
        let mut source = error.source();
        while let Some(cause) = source {
            if let Some(cause) = cause.downcast_ref::<evendb_storage::Error>() {
                let path = cause.path().as_os_str().as_bytes().to_vec();
                failure.file.get_or_insert(bytes::terminated(path));
                failure.offset = failure.offset.or(cause.offset());
            }
            if let Some(cause) = cause.downcast_ref::<std::io::Error>()
                && failure.errno == 0
            {
                failure.errno = cause.raw_os_error().unwrap_or(0);
            }
            source = cause.source();
        }
        failure
    }
}

/// Ends a call.
#[inline]
pub(crate) fn finish(error: ErrorPlace<'_>, outcome: Result<()>) -> Status {
    match outcome {
        Ok(()) => {
            error.clear();
            status::OK
        }
        Err(failure) => failed(error, failure),
    }
}

#[cold]
fn failed(error: ErrorPlace<'_>, failure: Box<Failure>) -> Status {
    let status = failure.status;
    if error.is_wanted() {
        error.fill(Box::into_raw(failure));
    }
    status
}

/// Runs what belongs to no handle; a panic becomes a failure.
pub(crate) fn caught<R>(body: impl FnOnce() -> Result<R>) -> Result<R> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(outcome) => outcome,
        Err(panic) => Err(Failure::panicked(&*panic)),
    }
}

#[unsafe(no_mangle)]
extern "C" fn evendb_error_code(error: Option<&Failure>) -> Status {
    error.map_or(status::OK, |error| error.status)
}

#[unsafe(no_mangle)]
extern "C" fn evendb_error_message(error: Option<&Failure>) -> *const c_char {
    error.map_or(c"", |error| &error.message).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn evendb_error_file(error: Option<&Failure>) -> *const c_char {
    let file = error.and_then(|error| error.file.as_deref());
    file.map_or(std::ptr::null(), CStr::as_ptr)
}

#[unsafe(no_mangle)]
extern "C" fn evendb_error_offset(error: Option<&Failure>) -> u64 {
    error.and_then(|error| error.offset).unwrap_or(NO_OFFSET)
}

#[unsafe(no_mangle)]
extern "C" fn evendb_error_errno(error: Option<&Failure>) -> i32 {
    error.map_or(0, |error| error.errno)
}

#[unsafe(no_mangle)]
extern "C" fn evendb_error_free(_error: Option<Box<Failure>>) {}

#[unsafe(no_mangle)]
extern "C" fn evendb_status_name(number: Status) -> *const c_char {
    let known = status::ALL.iter().find(|(known, _)| *known == number);
    known.map_or(c"EVENDB_UNKNOWN", |(_, name)| *name).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn evendb_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// `EVENDB_ABI_VERSION` of the header.
const ABI_VERSION: u32 = 1;

#[unsafe(no_mangle)]
extern "C" fn evendb_abi_version() -> u32 {
    ABI_VERSION
}
