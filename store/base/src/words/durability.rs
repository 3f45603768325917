//! [`Durability`]: what an acknowledged write survives.

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
