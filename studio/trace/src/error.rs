//! What can go wrong with a trace, and where in it.

use std::fmt;
use std::io;

/// The kind of a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused.
    Io,
    /// The file is not a trace of the format that was expected.
    NotATrace,
    /// It is a trace of a version that this code does not know.
    UnsupportedVersion,
    /// The bytes are not what was written.
    Damaged,
    /// An operation is larger than the format allows.
    TooLarge,
    /// A line of a list of keys has no key.
    NotAKey,
    /// A store records one trace at a time.
    AlreadyRecording,
}

/// A failure, with the offset in the file (or the line of a text) if there is one.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<io::Error>,
}

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error {
            kind,
            message: message.into(),
            source: None,
        }
    }

    pub(crate) fn damaged(offset: u64, what: &str) -> Error {
        Error::new(ErrorKind::Damaged, format!("{what} at offset {offset}"))
    }

    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl From<io::Error> for Error {
    fn from(source: io::Error) -> Error {
        Error {
            kind: ErrorKind::Io,
            message: "a trace could not be read or written".to_owned(),
            source: Some(source),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            None => f.write_str(&self.message),
            Some(source) => write!(f, "{}: {source}", self.message),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.source.as_ref()?;
        Some(source)
    }
}
