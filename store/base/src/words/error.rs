//! The error of the public face: one opaque type with a kind, cheap to clone so that iterators
//! and the error latch can repeat it.

use std::fmt;
use std::sync::Arc;

/// Result of every operation of the store. With a second parameter it is the standard library's
/// `Result`. So a program that imports everything can still write
/// `Result<(), Box<dyn std::error::Error>>`.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure an [`Error`] is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused or failed an operation.
    Io,
    /// The disk is full. Nothing of the operation took effect; reads go on.
    NoSpace,
    /// The process, or the system, has no descriptor left for one more file. Nothing of the
    /// operation took effect; it may be tried again. Raise the limit (`ulimit -n`), or keep fewer
    /// tables open.
    TooManyFiles,
    /// Bytes on disk do not verify, or a file is missing. The message names file and offset.
    Corruption,
    /// The database has a newer or foreign format. Or it has no commit log, from which changes are
    /// read.
    Unsupported,
    /// A key is longer than 65,535 bytes.
    KeyTooLarge,
    /// A value is longer than 4 GiB - 9 bytes; or it and its key are longer than a quarter of the
    /// memory budget less 64 bytes. The message has the number.
    ValueTooLarge,
    /// A batch or transaction counts more than 64 times the memory budget. Each record counts its
    /// key, its value and 64 bytes. The message has the numbers.
    BatchTooLarge,
    /// Another process or handle has the database open.
    Locked,
    /// The database was opened read-only.
    ReadOnly,
    /// There is no database at the path.
    NotFound,
    /// There is already a database at the path, or a directory with other files; or a keyspace with
    /// the name.
    AlreadyExists,
    /// The database has been closed.
    Closed,
    /// An earlier write or sync failed; the database takes no more writes. Reads go on. The source
    /// is the failure that caused it.
    Latched,
    /// The keyspace has been dropped.
    KeyspaceDropped,
    /// The merge operator of a keyspace failed for a key, panicked, or was not given. Nothing is
    /// lost: the operands stay.
    MergeFailed,
    /// Another write has changed something that a transaction read. The transaction has written
    /// nothing; tried again, it may succeed.
    Conflict,
    /// Another transaction kept a key locked for longer than this one waits. This one has written
    /// nothing.
    LockTimeout,
    /// Two transactions would wait for each other's keys for ever; this one has written nothing.
    Deadlock,
    /// Changes at the position are not kept any more. The message has the oldest position that is
    /// kept.
    ChangesGone,
    /// The position lies behind changes that this database does not have: a crash took them back,
    /// or the position is of another database.
    ChangesLost,
    /// Keys for ingestion do not ascend. The message names the key and the one before it.
    Unsorted,
    /// The file system makes no hard link for a fork, which shares its files with its parent: the
    /// fork would lie on another file system, or on one without links, or a file has as many links
    /// as it can have. Nothing was made.
    CannotLink,
    /// An argument makes no sense; the message says which.
    InvalidArgument,
    /// The database is encrypted, and no key was given, or its provider failed. Nothing was
    /// touched.
    NeedsKey,
    /// The key that was given is not the one by which the database is encrypted. Nothing was
    /// touched.
    WrongKey,
    /// A key was given for a database that is not encrypted. Nothing was touched.
    NotEncrypted,
    /// This opening reads beside a process that writes, which has replaced what this one sees. Go
    /// on from a newer moment (`Db::refresh`).
    Stale,
    /// This process was forked from one that had a database open. Its copies of handles cannot be
    /// used; nothing was read or written, and the parent goes on.
    Forked,
}

impl ErrorKind {
    /// Whether the operation failed for lack of room or of a descriptor; then none of it was done.
    #[doc(hidden)]
    pub fn is_for_want(self) -> bool {
        matches!(self, ErrorKind::NoSpace | ErrorKind::TooManyFiles)
    }
}

/// A failure of the store.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    #[doc(hidden)]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Arc::new(Inner {
            kind,
            message: message.into(),
            source: None,
        }))
    }

    #[doc(hidden)]
    pub fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Error {
        Error(Arc::new(Inner {
            kind,
            message: format!("{}: {source}", message.into()),
            source: Some(Box::new(source)),
        }))
    }

    #[doc(hidden)]
    pub fn latched(cause: &Error) -> Error {
        Error(Arc::new(Inner {
            kind: ErrorKind::Latched,
            message: format!(
                "an earlier failure stopped all writes: {cause}; reads go on; reopen the database \
                 after fixing the cause: what was acknowledged as durable is there then"
            ),
            source: Some(Box::new(cause.clone())),
        }))
    }

    /// The error of a write that took effect: the checkpoint for which it waited found no room on
    /// the disk. Other errors are not changed.
    #[doc(hidden)]
    pub fn not_durable_yet(self) -> Error {
        if self.kind() != ErrorKind::NoSpace {
            return self;
        }
        let source = self.0.source.as_ref();
        let why = source.map_or_else(|| self.to_string(), ToString::to_string);
        Error(Arc::new(Inner {
            kind: ErrorKind::NoSpace,
            message: format!(
                "the write took effect and can be read, but is not durable yet: {why}; free space on \
                 the disk, or delete keys, then persist"
            ),
            source: Some(Box::new(self)),
        }))
    }

    #[doc(hidden)]
    pub fn closed() -> Error {
        Error::new(ErrorKind::Closed, "the database is closed; open it again")
    }

    /// The error that a forked child gets from its copies of the parent's handles.
    #[doc(hidden)]
    #[cold]
    pub fn forked() -> Error {
        let message = "this process was forked while the database was open: handles work in the \
                       process that opened it only, and nothing was read or written here; use the \
                       database there, or fork before opening it";
        Error::new(ErrorKind::Forked, message)
    }

    /// The error that a forked child gets when it opens a database.
    #[doc(hidden)]
    #[cold]
    pub fn forked_opening() -> Error {
        let message = "this process was forked while its parent had a database open, and threads that \
                       are not here may have held locks then: no database can be opened; fork before \
                       the first is opened, or start a program anew (exec)";
        Error::new(ErrorKind::Forked, message)
    }

    /// The error for a put of a key that the same write removes earlier by a single delete.
    #[doc(hidden)]
    #[cold]
    pub fn put_after_single_delete(key: &[u8]) -> Error {
        let message = format!(
            "the key b\"{}\" is put after a single delete of it in one write: only the put would be left, and the \
             next single delete would go with that alone; write them one after the other, or use delete for this key",
            key.escape_ascii()
        );
        Error::new(ErrorKind::InvalidArgument, message)
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
}

impl From<evendb_storage::Error> for Error {
    fn from(error: evendb_storage::Error) -> Error {
        let kind = match error.kind() {
            evendb_storage::ErrorKind::NoSpace => ErrorKind::NoSpace,
            evendb_storage::ErrorKind::TooManyFiles => ErrorKind::TooManyFiles,
            evendb_storage::ErrorKind::Corruption => ErrorKind::Corruption,
            evendb_storage::ErrorKind::Unsupported => ErrorKind::Unsupported,
            evendb_storage::ErrorKind::Stale => ErrorKind::Stale,
            _ => ErrorKind::Io,
        };
        // Advice, for errors that have any.
        let advice = match kind {
            ErrorKind::NoSpace => {
                "; nothing of the operation took effect and reads go on: free space on the disk, or \
                 delete keys, for which some room is kept back, and compact"
            }
            ErrorKind::TooManyFiles => {
                "; nothing of the operation took effect, and it may be tried again: raise the process's limit of open files \
                 (`ulimit -n`)"
            }
            ErrorKind::Corruption => {
                "; these bytes are damaged, other data can be read: restore from a copy, or salvage \
                 what can be read"
            }
            ErrorKind::Unsupported => {
                "; open it with the version of EvenDB that wrote it, or a newer one"
            }
            ErrorKind::Stale => "; nothing is damaged: go on from a newer moment (Db::refresh)",
            _ => "",
        };
        Error(Arc::new(Inner {
            kind,
            message: format!("{error}{advice}"),
            source: Some(Box::new(error)),
        }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
