//! [`Durability`]: what an acknowledged write survives.

use crate::error::{Error, ErrorKind};
use std::fmt;
use std::str::FromStr;

/// What an acknowledged write survives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Durability {
    /// Nothing until the next checkpoint; after any crash the database is at its last checkpoint.
    /// No log is written, no system call is made per put.
    Relaxed,
    /// The death of the process (`kill -9`, a container restart). After a power loss the database
    /// is a consistent prefix: if a put is there, so is every put that had returned before it
    /// began.
    #[default]
    Process,
    /// Power loss.
    Sync,
}

/// As text it is `relaxed`, `process` or `sync`.
impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Durability::Relaxed => "relaxed",
            Durability::Process => "process",
            Durability::Sync => "sync",
        })
    }
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Durability, Error> {
        match text {
            "relaxed" => Ok(Durability::Relaxed),
            "process" => Ok(Durability::Process),
            "sync" => Ok(Durability::Sync),
            _ => {
                let message = format!("no durability {text:?}: it is relaxed, process or sync");
                Err(Error::new(ErrorKind::InvalidArgument, message))
            }
        }
    }
}
