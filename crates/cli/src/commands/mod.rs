//! The subcommands, one file each: its arguments (a clap struct whose first line is the help's) and
//! a `run` that carries them out.

pub mod bench;
mod bench_event_log;
mod bench_text;
pub mod calibrate;
pub mod changes;
pub mod compact;
pub mod delete;
pub mod dump;
pub mod experiment;
pub mod get;
pub mod import;
mod input_stream;
mod key_arguments;
mod key_range;
pub mod keyspaces;
pub mod pop;
pub mod put;
pub mod repair;
pub mod scan;
pub mod size;
pub mod stats;
mod stats_watch;
pub mod verify;
pub mod verify_import;
