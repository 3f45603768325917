//! Files that all keyspaces share: the log of each generation, and the manifest.

pub(crate) mod log;
pub(crate) mod manifest;
