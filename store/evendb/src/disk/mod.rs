//! Files that chunks share: the commit log, the manifest, tables, files of large values; and which
//! tables a keyspace with guards has.

pub(crate) mod commit_log;
pub(crate) mod guards;
pub(crate) mod manifest;
pub(crate) mod tables;
pub(crate) mod value_files;
