//! Files that chunks share: the commit log, the manifest, files of large values.

pub(crate) mod commit_log;
pub(crate) mod manifest;
pub(crate) mod tables;
pub(crate) mod value_files;
