//! How a command ends, and the exit code that says so.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// A command that did what it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Success {
    /// Everything.
    Done,
    /// All but the input lines that were bad.
    BadLines,
    /// It looked, and the key is not there.
    NotFound,
    /// It looked, and not all that is there is whole.
    Corrupt,
}

impl Success {
    /// The process's exit code.
    pub fn exit_code(self) -> ExitCode {
        match self {
            Self::Done => ExitCode::SUCCESS,
            Self::BadLines => ExitCode::from(3),
            Self::NotFound => ExitCode::from(4),
            Self::Corrupt => ExitCode::from(5),
        }
    }
}

/// A command that did not.
#[derive(Debug)]
pub enum Failure {
    /// Something failed; the text says what.
    Message(String),
    /// The arguments make no sense together.
    Usage(String),
    /// The reader of our output went away, which is its right.
    BrokenPipe,
    /// The user ended it; what was done has been reported.
    Interrupted,
}

impl Failure {
    /// A failure with a text about what was being done.
    pub fn new(doing: impl Display, error: impl Display) -> Self {
        Self::Message(format!("{doing}: {error}"))
    }

    /// The process's exit code.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Message(_) => ExitCode::FAILURE,
            Self::Usage(_) => ExitCode::from(2),
            Self::BrokenPipe => ExitCode::SUCCESS,
            Self::Interrupted => ExitCode::from(130),
        }
    }

    /// What to tell the user.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Message(text) | Self::Usage(text) => Some(text),
            Self::BrokenPipe | Self::Interrupted => None,
        }
    }
}

impl From<evendb::Error> for Failure {
    fn from(error: evendb::Error) -> Self {
        Self::Message(error.to_string())
    }
}

/// Only for writing to standard output; reading reports its file with [`Failure::new`].
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::new("cannot write the output", error),
        }
    }
}
