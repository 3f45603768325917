//! Errors in LevelDB's form: a text that begins with one of four words. Bindings distinguish errors
//! by these words:
//! * `Corruption: ` - bytes on disk do not verify.
//! * `Not implemented: ` - this library does not do it, or does not read the format.
//! * `Invalid argument: ` - the caller can change it: options, and keys and batches over the
//!   limits.
//! * `IO error: ` - everything else.
//!
//! LevelDB's fifth prefix, `NotFound: `, is for a missing key: the C interface returns NULL
//! instead.

use crate::memory;
use std::ffi::c_char;
use std::fmt;

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// The place for a function's error: see [the crate](crate).
pub(crate) type ErrorPlace<'a> = Option<&'a mut *mut c_char>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Code {
    Corruption,
    NotSupported,
    InvalidArgument,
    Io,
}

#[derive(Clone, Debug)]
pub(crate) struct Error {
    pub(crate) code: Code,
    message: String,
}

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Error {
        Error {
            code,
            message: message.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.code {
            Code::Corruption => "Corruption",
            Code::NotSupported => "Not implemented",
            Code::InvalidArgument => "Invalid argument",
            Code::Io => "IO error",
        };
        write!(f, "{prefix}: {}", self.message)
    }
}

impl From<evendb::Error> for Error {
    fn from(error: evendb::Error) -> Error {
        use evendb::ErrorKind as Kind;
        let code = match error.kind() {
            Kind::Corruption => Code::Corruption,
            Kind::Unsupported | Kind::NeedsKey | Kind::MergeFailed => Code::NotSupported,
            Kind::KeyTooLarge
            | Kind::ValueTooLarge
            | Kind::BatchTooLarge
            | Kind::InvalidArgument
            | Kind::NotFound
            | Kind::AlreadyExists => Code::InvalidArgument,
            _ => Code::Io,
        };
        Error::new(code, error.to_string())
    }
}

/// The result of a call. After an error it is `None`, and the error is in `place`.
pub(crate) fn tell<T>(place: ErrorPlace<'_>, outcome: Result<T>) -> Option<T> {
    match outcome {
        Ok(value) => Some(value),
        Err(error) => {
            if let Some(place) = place {
                let before = std::mem::replace(place, memory::text(&error.to_string()));
                // SAFETY: the caller promises that this is NULL or made by `malloc`, and `place` no
                // longer has it.
                unsafe { memory::leveldb_free(before.cast()) };
            }
            None
        }
    }
}
