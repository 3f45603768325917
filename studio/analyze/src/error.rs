//! What can go wrong with an analysis.

use evendb_trace::packed;
use std::error::Error as _;
use std::fmt;
use std::path::Path;

/// Why there is no analysis. Each error says in words what is wrong, and names the file if there is
/// one.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The source is no trace, or is of a version that is not known.
    Source(String),
    /// The source is damaged, and nothing can be read from it: at its beginning, or because it does
    /// not unpack.
    Damaged(String),
    /// The operating system refused.
    Io(String),
    /// The engine for tables refused a query, or ran out of memory or space.
    Query(String),
    /// The arguments ask for something that cannot be done.
    Argument(String),
}

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn io(what: impl fmt::Display, error: impl fmt::Display) -> Error {
        Error::Io(format!("{what}: {error}"))
    }

    /// An error of the trace at this path.
    pub(crate) fn of_trace(path: &Path, error: &evendb_trace::Error) -> Error {
        let message = format!("{}: {error}", path.display());
        let system = error.source().and_then(|source| source.downcast_ref());
        match error.kind() {
            evendb_trace::ErrorKind::Damaged => Error::Damaged(message),
            _ if system.is_some_and(packed::is_damage) => Error::Damaged(message),
            _ => Error::Source(message),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Source(message)
            | Error::Damaged(message)
            | Error::Io(message)
            | Error::Query(message)
            | Error::Argument(message) => to.write_str(message),
        }
    }
}

impl std::error::Error for Error {}

impl From<datafusion::error::DataFusionError> for Error {
    fn from(error: datafusion::error::DataFusionError) -> Error {
        let message = error.strip_backtrace();
        match error.find_root() {
            datafusion::error::DataFusionError::ResourcesExhausted(_) => Error::Query(format!(
                "the memory that the analysis may use (--memory-mib) is too little: {message}"
            )),
            _ => Error::Query(message),
        }
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Error {
        Error::Query(error.to_string())
    }
}

impl From<parquet::errors::ParquetError> for Error {
    fn from(error: parquet::errors::ParquetError) -> Error {
        Error::Query(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::Error;
    use datafusion::error::DataFusionError;

    #[test]
    fn too_little_memory_names_the_option_that_there_is() {
        let error = Error::from(DataFusionError::ResourcesExhausted("rows".to_owned()));
        let text = error.to_string();
        assert!(text.contains("(--memory-mib) is too little"), "{text}");
        assert!(include_str!("main.rs").contains("memory_mib: u64"));
    }
}
