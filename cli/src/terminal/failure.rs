//! How a command ends, and the exit code that says so.

use std::error::Error;
use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use evendb::ErrorKind;
use evendb_lab::store::StoreError;

/// How far a command did its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Success {
    /// It did everything.
    Done,
    /// It did everything except the bad input lines.
    BadLines,
    /// It did what could be done, and more than a hundredth could not.
    LeftOut,
    /// It looked, and the key is not there.
    NotFound,
    /// It looked, and not everything there is whole.
    Corrupt,
}

impl Success {
    /// The process's exit code.
    pub fn exit_code(self) -> ExitCode {
        match self {
            Self::Done => ExitCode::SUCCESS,
            Self::BadLines | Self::LeftOut => ExitCode::from(3),
            Self::NotFound => ExitCode::from(4),
            Self::Corrupt => ExitCode::from(5),
        }
    }
}

/// Why a command did not do its work.
#[derive(Debug)]
pub enum Failure {
    /// Something failed; the text says what.
    Message(String),
    /// Bytes of the database do not verify, or are missing.
    Corrupt(String),
    /// Another process has the database open.
    Locked(String),
    /// The arguments make no sense together.
    Usage(String),
    /// The program that reads our output closed it, as `head` does.
    BrokenPipe,
    /// The user ended it; what was done has been reported.
    Interrupted,
}

impl Failure {
    /// A failure with a text about what was being done.
    pub fn new(doing: impl Display, error: impl Error + 'static) -> Self {
        Self::caused(format!("{doing}: {error}"), &error)
    }

    /// A failure with this text. This is the one place where an error of the store becomes an exit
    /// code. Its kind is looked for in the whole chain of causes, for the lab wraps errors of the
    /// store, and the error latch wraps the first one.
    pub fn caused(text: String, error: &(dyn Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            match error.downcast_ref().map(evendb::Error::kind) {
                Some(ErrorKind::Corruption) => return Self::Corrupt(text),
                Some(ErrorKind::InvalidArgument) => return Self::Usage(text),
                Some(ErrorKind::Locked) => return Self::Locked(text),
                _ => cause = error.source(),
            }
        }
        Self::Message(text)
    }

    /// The process's exit code.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Message(_) | Self::Locked(_) => ExitCode::FAILURE,
            Self::Corrupt(_) => Success::Corrupt.exit_code(),
            Self::Usage(_) => ExitCode::from(2),
            Self::BrokenPipe => ExitCode::SUCCESS,
            Self::Interrupted => ExitCode::from(130),
        }
    }

    /// What to tell the user.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Message(text) | Self::Corrupt(text) | Self::Locked(text) | Self::Usage(text) => {
                Some(text)
            }
            Self::BrokenPipe | Self::Interrupted => None,
        }
    }
}

impl From<evendb::Error> for Failure {
    fn from(error: evendb::Error) -> Self {
        Self::caused(error.to_string(), &error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::caused(error.to_string(), &error)
    }
}

/// An error of standard output. (An error of an input names its file, by [`Failure::new`].)
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::new("cannot write the output", error),
        }
    }
}
