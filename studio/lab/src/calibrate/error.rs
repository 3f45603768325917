//! [`CalibrateError`]: why there are no figures.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::readable::bytes;

/// Why there are no figures.
#[derive(Debug)]
#[non_exhaustive]
pub enum CalibrateError {
    /// The disk is too full for a file that would tell anything.
    NoSpace {
        /// The directory.
        directory: PathBuf,
        /// Bytes that are free for this user.
        free_bytes: u64,
        /// Bytes that must be free.
        needed_bytes: u64,
    },
    /// A call to the system failed.
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file or directory of the call.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The user ended it.
    Interrupted,
    /// A measuring thread panicked.
    Panicked,
}

impl CalibrateError {
    pub(super) fn io<'a>(
        doing: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self::Io {
            doing,
            path: path.to_owned(),
            source,
        }
    }
}

impl fmt::Display for CalibrateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSpace {
                directory,
                free_bytes,
                needed_bytes,
            } => write!(
                f,
                "{} has {} free; calibrating needs at least {}",
                directory.display(),
                bytes(*free_bytes),
                bytes(*needed_bytes)
            ),
            Self::Io {
                doing,
                path,
                source,
            } => write!(f, "cannot {doing} {}: {source}", path.display()),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Panicked => f.write_str("a measuring thread panicked"),
        }
    }
}

impl std::error::Error for CalibrateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
