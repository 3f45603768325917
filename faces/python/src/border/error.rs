//! The exceptions, and how the engine's errors become exceptions.
//!
//! The classes are made once, when the module is imported, because some of them have two bases:
//! `Full` is also an `OSError`, so that code for any store's full disk catches it.

use evendb::ErrorKind;
use pyo3::exceptions::{
    PyException, PyFileExistsError, PyFileNotFoundError, PyOSError, PyTimeoutError, PyValueError,
};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use std::error::Error as _;

/// One class of exceptions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    Error,
    Io,
    Full,
    TooManyFiles,
    Corruption,
    Unsupported,
    LimitExceeded,
    Locked,
    ReadOnly,
    NotFound,
    AlreadyExists,
    Closed,
    UsedUp,
    Latched,
    KeyspaceDropped,
    MergeFailed,
    FilterFailed,
    Conflict,
    LockTimeout,
    Deadlock,
    ChangesGone,
    ChangesLost,
    Unsorted,
    CannotLink,
    InvalidArgument,
    WrongKey,
    Stale,
    Fork,
}

/// A class: its name, its bases, and its text for people.
struct Class {
    failure: Failure,
    name: &'static str,
    base: Option<Failure>,
    also: Option<fn(Python<'_>) -> Bound<'_, PyType>>,
    doc: &'static str,
}

const fn class(
    failure: Failure,
    name: &'static str,
    base: Option<Failure>,
    also: Option<fn(Python<'_>) -> Bound<'_, PyType>>,
    doc: &'static str,
) -> Class {
    Class {
        failure,
        name,
        base,
        also,
        doc,
    }
}

fn os_error(py: Python<'_>) -> Bound<'_, PyType> {
    py.get_type::<PyOSError>()
}
fn not_found(py: Python<'_>) -> Bound<'_, PyType> {
    py.get_type::<PyFileNotFoundError>()
}
fn exists(py: Python<'_>) -> Bound<'_, PyType> {
    py.get_type::<PyFileExistsError>()
}
fn value_error(py: Python<'_>) -> Bound<'_, PyType> {
    py.get_type::<PyValueError>()
}
fn timeout(py: Python<'_>) -> Bound<'_, PyType> {
    py.get_type::<PyTimeoutError>()
}

const BASE: Option<Failure> = Some(Failure::Error);

/// All classes, in the order of [`Failure`]; a base comes before what is derived from it.
const CLASSES: &[Class] = &[
    class(
        Failure::Error,
        "Error",
        None,
        None,
        "Base of all exceptions of EvenDB.",
    ),
    class(
        Failure::Io,
        "IoError",
        BASE,
        Some(os_error),
        "The operating system refused or failed an operation.",
    ),
    class(
        Failure::Full,
        "Full",
        BASE,
        Some(os_error),
        "The disk is full. Nothing of the operation took effect; reads go on.",
    ),
    class(
        Failure::TooManyFiles,
        "TooManyFiles",
        BASE,
        Some(os_error),
        "The process has no descriptor left. Nothing of the operation took effect.",
    ),
    class(
        Failure::Corruption,
        "Corruption",
        BASE,
        None,
        "Bytes on disk do not verify. `file` and `offset` say where, or are None.",
    ),
    class(
        Failure::Unsupported,
        "Unsupported",
        BASE,
        None,
        "A foreign or newer format, or a feature that this database does not have.",
    ),
    class(
        Failure::LimitExceeded,
        "LimitExceeded",
        BASE,
        Some(value_error),
        "A key, a value or a batch is too large; the message has the numbers.",
    ),
    class(
        Failure::Locked,
        "Locked",
        BASE,
        None,
        "Another process or handle has the database open. The message says who.",
    ),
    class(
        Failure::ReadOnly,
        "ReadOnly",
        BASE,
        None,
        "The database was opened for reading only.",
    ),
    class(
        Failure::NotFound,
        "NotFound",
        BASE,
        Some(not_found),
        "There is no database at the path, or no keyspace of the name.",
    ),
    class(
        Failure::AlreadyExists,
        "AlreadyExists",
        BASE,
        Some(exists),
        "There is something at the path already, or a keyspace of the name.",
    ),
    class(
        Failure::Closed,
        "Closed",
        BASE,
        None,
        "The database, or the snapshot, has been closed.",
    ),
    class(
        Failure::UsedUp,
        "UsedUp",
        BASE,
        None,
        "A batch that was committed, or a transaction that has ended, was used again.",
    ),
    class(
        Failure::Latched,
        "Latched",
        BASE,
        None,
        "An earlier write or sync failed; there are no more writes. Reads go on. `__cause__` is \
         that failure.",
    ),
    class(
        Failure::KeyspaceDropped,
        "KeyspaceDropped",
        BASE,
        None,
        "The keyspace has been dropped.",
    ),
    class(
        Failure::MergeFailed,
        "MergeFailed",
        BASE,
        None,
        "A merge function failed or was not given. Nothing is lost: the operands stay.",
    ),
    class(
        Failure::FilterFailed,
        "FilterFailed",
        BASE,
        None,
        "A compaction filter raised; records that it did not decide about stay.",
    ),
    class(
        Failure::Conflict,
        "Conflict",
        BASE,
        None,
        "Another write has changed what a transaction read. Nothing was written; try again.",
    ),
    class(
        Failure::LockTimeout,
        "LockTimeout",
        Some(Failure::Conflict),
        Some(timeout),
        "Another transaction kept a key locked. Nothing was written; try again.",
    ),
    class(
        Failure::Deadlock,
        "Deadlock",
        Some(Failure::Conflict),
        None,
        "Two transactions waited for each other. Nothing was written; try again.",
    ),
    class(
        Failure::ChangesGone,
        "ChangesGone",
        BASE,
        None,
        "Changes at the position are not kept any more.",
    ),
    class(
        Failure::ChangesLost,
        "ChangesLost",
        BASE,
        None,
        "The position is of another database, or of what a crash took back.",
    ),
    class(
        Failure::Unsorted,
        "Unsorted",
        BASE,
        Some(value_error),
        "Keys for ingestion do not ascend.",
    ),
    class(
        Failure::CannotLink,
        "CannotLink",
        BASE,
        Some(os_error),
        "The file system makes no link for a fork.",
    ),
    class(
        Failure::InvalidArgument,
        "InvalidArgument",
        BASE,
        Some(value_error),
        "An argument makes no sense; the message says which.",
    ),
    class(
        Failure::WrongKey,
        "WrongKey",
        BASE,
        None,
        "The database is encrypted and no key, or another key, was given; or it is not.",
    ),
    class(
        Failure::Stale,
        "Stale",
        BASE,
        None,
        "A reader beside a writer sees a moment that is gone: refresh().",
    ),
    class(
        Failure::Fork,
        "ForkError",
        BASE,
        None,
        "This process was forked while the database was open: open it after the fork.",
    ),
];

static MADE: PyOnceLock<Vec<Py<PyType>>> = PyOnceLock::new();

fn made(py: Python<'_>) -> PyResult<&Vec<Py<PyType>>> {
    MADE.get_or_try_init(py, || {
        let make = py.get_type::<PyType>();
        let mut all: Vec<Py<PyType>> = Vec::with_capacity(CLASSES.len());
        for class in CLASSES {
            let first = match class.base {
                Some(base) => all[base as usize].bind(py).clone(),
                None => py.get_type::<PyException>(),
            };
            let also = class.also.map(|also| also(py));
            let bases = PyTuple::new(
                py,
                [Some(first), also]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>(),
            )?;
            let body = PyDict::new(py);
            body.set_item("__module__", "evendb")?;
            body.set_item("__doc__", class.doc)?;
            if class.failure == Failure::Corruption {
                body.set_item("offset", py.None())?;
            }
            if class.failure == Failure::Corruption || class.failure.is_of_the_system() {
                body.set_item("file", py.None())?;
            }
            all.push(
                make.call1((class.name, bases, body))?
                    .cast_into::<PyType>()?
                    .unbind(),
            );
        }
        Ok(all)
    })
}

/// Adds the classes to the module.
pub(crate) fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let made = made(module.py())?;
    for (class, made) in CLASSES.iter().zip(made) {
        module.add(class.name, made)?;
    }
    Ok(())
}

impl Failure {
    fn of_kind(kind: ErrorKind) -> Failure {
        match kind {
            ErrorKind::Io => Failure::Io,
            ErrorKind::NoSpace => Failure::Full,
            ErrorKind::TooManyFiles => Failure::TooManyFiles,
            ErrorKind::Corruption => Failure::Corruption,
            ErrorKind::Unsupported => Failure::Unsupported,
            ErrorKind::KeyTooLarge | ErrorKind::ValueTooLarge | ErrorKind::BatchTooLarge => {
                Failure::LimitExceeded
            }
            ErrorKind::Locked => Failure::Locked,
            ErrorKind::ReadOnly => Failure::ReadOnly,
            ErrorKind::NotFound => Failure::NotFound,
            ErrorKind::AlreadyExists => Failure::AlreadyExists,
            ErrorKind::Closed => Failure::Closed,
            ErrorKind::Latched => Failure::Latched,
            ErrorKind::KeyspaceDropped => Failure::KeyspaceDropped,
            ErrorKind::MergeFailed => Failure::MergeFailed,
            ErrorKind::Conflict => Failure::Conflict,
            ErrorKind::LockTimeout => Failure::LockTimeout,
            ErrorKind::Deadlock => Failure::Deadlock,
            ErrorKind::ChangesGone => Failure::ChangesGone,
            ErrorKind::ChangesLost => Failure::ChangesLost,
            ErrorKind::Unsorted => Failure::Unsorted,
            ErrorKind::CannotLink => Failure::CannotLink,
            ErrorKind::InvalidArgument => Failure::InvalidArgument,
            ErrorKind::NeedsKey | ErrorKind::WrongKey | ErrorKind::NotEncrypted => {
                Failure::WrongKey
            }
            ErrorKind::Stale => Failure::Stale,
            ErrorKind::Forked => Failure::Fork,
            _ => Failure::Error,
        }
    }

    fn is_of_the_system(self) -> bool {
        CLASSES[self as usize].also.is_some_and(|also| {
            let os: [fn(Python<'_>) -> Bound<'_, PyType>; 3] = [os_error, not_found, exists];
            os.iter().any(|known| std::ptr::fn_addr_eq(*known, also))
        })
    }

    /// The exception of this class with a message.
    #[cold]
    pub(crate) fn raised(self, py: Python<'_>, message: impl Into<String>) -> PyErr {
        match made(py) {
            Ok(made) => PyErr::from_type(made[self as usize].bind(py).clone(), message.into()),
            Err(error) => error,
        }
    }

    /// Whether an exception is of this class.
    pub(crate) fn is_class_of(self, py: Python<'_>, error: &PyErr) -> bool {
        made(py).is_ok_and(|made| error.is_instance(py, made[self as usize].bind(py)))
    }
}

/// The exception for an error of the engine.
#[cold]
pub(crate) fn raised(py: Python<'_>, error: evendb::Error) -> PyErr {
    let failure = Failure::of_kind(error.kind());
    match failure {
        Failure::Closed => super::call::stop_if_left_over(py),
        Failure::MergeFailed => {
            if let Some(exception) = super::call::interrupted() {
                return exception;
            }
        }
        _ => {}
    }
    let (mut file, mut offset, mut number) = (None, None, None);
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(cause) = cause.downcast_ref::<evendb_storage::Error>() {
            file.get_or_insert_with(|| cause.path().display().to_string());
            offset = offset.or(cause.offset());
        }
        if let Some(cause) = cause.downcast_ref::<std::io::Error>() {
            number = number.or(cause.raw_os_error());
        }
        source = cause.source();
    }
    let exception = failure.raised(py, error.to_string());
    // What came first: of `Latched`, the failure that stopped all writes.
    if let Some(first) = error.source().and_then(|source| source.downcast_ref()) {
        let first: &evendb::Error = first;
        exception.set_cause(py, Some(raised(py, first.clone())));
    }
    let value = exception.value(py);
    let told = match failure {
        Failure::Corruption => value
            .setattr(intern!(py, "file"), file)
            .and_then(|()| value.setattr(intern!(py, "offset"), offset)),
        // With `filename` or `strerror`, OSError would make a text of its own of them.
        _ if failure.is_of_the_system() => match number {
            Some(number) => value.setattr(intern!(py, "errno"), number),
            None => Ok(()),
        }
        .and_then(|()| value.setattr(intern!(py, "file"), file)),
        _ => Ok(()),
    };
    // The message has it all; the attributes are a convenience.
    drop(told);
    exception
}

/// The outcome of a call of the engine, for Python.
pub(crate) trait OrRaise<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for evendb::Result<T> {
    #[inline]
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raised(py, error))
    }
}
