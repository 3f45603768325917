//! The subcommands, one file each: its arguments (a clap struct, whose first line is that of the
//! help) and a `run` that carries them out.

pub mod advise;
pub mod analyze;
pub mod backup;
pub mod backups;
pub mod bench;
pub mod calibrate;
pub mod changes;
pub mod compact;
pub mod delete;
pub mod dump;
pub mod experiment;
pub mod export;
pub mod get;
pub mod import;
pub mod ingest;
mod key_arguments;
mod key_range;
pub mod keyspaces;
pub mod merge;
pub mod mixgraph;
pub mod model;
pub mod options;
pub mod pop;
pub mod profile;
pub mod put;
pub mod repair;
pub mod replay;
pub mod restore;
pub mod rotate_key;
pub mod scan;
pub mod size;
pub mod stats;
mod stats_watch;
pub mod trace;
pub mod verify;
pub mod verify_import;
