//! The error of the storage parts: what went wrong, in which file, at which offset.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Result of the storage parts.
pub type Result<T> = std::result::Result<T, Error>;

/// What kind of failure an [`Error`] is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused or failed an operation; the source tells which.
    Io,
    /// The device has no room left.
    NoSpace,
    /// The process, or the system, has no descriptor left for one more file.
    TooManyFiles,
    /// Bytes on disk do not verify, or a file is missing.
    Corruption,
    /// The bytes are of a newer or foreign format.
    Unsupported,
    /// Another process, which may write here, has replaced what this one saw.
    Stale,
}

impl ErrorKind {
    /// Whether the operation failed for lack of room or of a descriptor. Then none of it was done,
    /// and it may succeed later.
    pub fn is_for_want(self) -> bool {
        matches!(self, ErrorKind::NoSpace | ErrorKind::TooManyFiles)
    }
}

/// Whether a file could not be opened because the process (EMFILE) or the system (ENFILE) has too
/// many open files.
pub fn is_out_of_files(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(23 | 24))
}

/// The source of an [`io::Error`] that says that another process has replaced a file. An operation
/// that fails with it is [`ErrorKind::Stale`].
#[derive(Debug)]
pub struct Replaced;

impl fmt::Display for Replaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the process that writes to it has replaced it")
    }
}

impl std::error::Error for Replaced {}

/// A failure of a storage part, with the file and offset it concerns.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    path: PathBuf,
    offset: Option<u64>,
    detail: String,
    source: Option<io::Error>,
}

impl Error {
    /// An operating-system failure while doing `what` to `path`.
    pub fn io(path: &Path, what: &str, source: io::Error) -> Error {
        let kind = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
            _ if is_out_of_files(&source) => ErrorKind::TooManyFiles,
            _ if source.get_ref().is_some_and(|inner| inner.is::<Replaced>()) => ErrorKind::Stale,
            _ => ErrorKind::Io,
        };
        Error {
            kind,
            path: path.to_owned(),
            offset: None,
            detail: what.to_owned(),
            source: Some(source),
        }
    }

    /// [`Error::io`] for `map_err`.
    pub fn at<'p>(path: &'p Path, what: &'p str) -> impl FnOnce(io::Error) -> Error + 'p {
        move |source| Error::io(path, what, source)
    }

    /// A failed sync of a file or directory that is kept. It is never `NoSpace`: if room was
    /// lacking, it is a lasting failure, too. The system may have dropped the pages that it could
    /// not write and call them clean, so that the next sync succeeds and means nothing.
    pub fn sync(path: &Path, what: &str, source: io::Error) -> Error {
        Error {
            kind: ErrorKind::Io,
            ..Error::io(path, what, source)
        }
    }

    /// A file of the database that could not be opened. If it is missing, that is damage.
    pub fn open(path: &Path, what: &str, source: io::Error) -> Error {
        let missing = source.kind() == io::ErrorKind::NotFound;
        let error = Error::io(path, what, source);
        match missing {
            true => Error {
                kind: ErrorKind::Corruption,
                detail: "the file is missing".into(),
                ..error
            },
            false => error,
        }
    }

    /// Bytes at `offset` of `path` that do not verify.
    pub fn corruption(path: &Path, offset: u64, detail: impl Into<String>) -> Error {
        Error {
            kind: ErrorKind::Corruption,
            path: path.to_owned(),
            offset: Some(offset),
            detail: detail.into(),
            source: None,
        }
    }

    /// Bytes at `offset` of `path` that another process has replaced.
    pub fn stale(path: &Path, offset: u64, detail: impl Into<String>) -> Error {
        Error {
            kind: ErrorKind::Stale,
            ..Error::corruption(path, offset, detail)
        }
    }

    /// A format this build cannot read.
    pub fn unsupported(path: &Path, detail: impl Into<String>) -> Error {
        Error {
            kind: ErrorKind::Unsupported,
            path: path.to_owned(),
            offset: None,
            detail: detail.into(),
            source: None,
        }
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The file concerned.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The byte offset concerned, if there is one.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ErrorKind::Corruption => write!(f, "corruption: {}", self.detail)?,
            ErrorKind::Unsupported => write!(f, "unsupported format: {}", self.detail)?,
            ErrorKind::Stale => write!(f, "replaced meanwhile: {}", self.detail)?,
            ErrorKind::Io | ErrorKind::NoSpace | ErrorKind::TooManyFiles => {
                write!(f, "cannot {}", self.detail)?;
            }
        }
        write!(f, " ({}", self.path.display())?;
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        write!(f, ")")?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
