//! The operating system's files.
/// Files of the operating system.
#[derive(Debug, Clone, Default)]
pub struct OsVfs;
