//! The `evendb` command: import, read, write, inspect and benchmark an EvenDB database.
//!
//! This file only dispatches; each subcommand has a file in `commands`. Data goes to standard
//! output, everything else to standard error. A library for the sake of its program, `main.rs`, and of
//! the fuzzer, which reads input by it; not for applications.

mod commands;
mod csv;
mod engine;
mod escapes;
mod failure;
mod float_text;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod input;
mod interrupt;
mod json_text;
mod key_file;
mod key_types;
mod keys;
mod open;
mod output;
mod scan_output;
mod size;
mod store;
mod time_text;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::{
    advise, analyze, backup, backups, bench, calibrate, changes, compact, delete, dump, experiment,
    export, get, import, ingest, keyspaces, merge, mixgraph, model, pop, profile, put, repair,
    replay, restore, rotate_key, scan, size as range_size, stats, trace, verify, verify_import,
};

/// EvenDB: an embedded ordered key-value store for keys with spatial locality.
#[derive(Parser)]
#[command(version, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    success (also when the reader of a pipe went away)
  1    failure
  2    wrong usage
  3    some input lines were bad (the good ones were imported); of replay: more than a hundredth of the trace was left out
  4    key not found, or nothing to pop
  5    corruption found, by whichever subcommand; of repair: not everything could be saved
  130  interrupted: import, ingest, scan, changes, verify-import, stats --watch, bench, replay and calibrate say what was done
       and close the database; advise removes its stores; the others end at once, and the next opening finds what they wrote";

#[derive(Subcommand)]
enum Command {
    Import(import::Arguments),
    Ingest(ingest::Arguments),
    Export(export::Arguments),
    Get(get::Arguments),
    Put(put::Arguments),
    Merge(merge::Arguments),
    Delete(delete::Arguments),
    Pop(pop::Arguments),
    Scan(scan::Arguments),
    Size(range_size::Arguments),
    Keyspaces(keyspaces::Arguments),
    Changes(changes::Arguments),
    Stats(stats::Arguments),
    Compact(compact::Arguments),
    Verify(verify::Arguments),
    Dump(dump::Arguments),
    Repair(repair::Arguments),
    Backup(backup::Arguments),
    Backups(backups::Arguments),
    Restore(restore::Arguments),
    RotateKey(rotate_key::Arguments),
    Bench(bench::Arguments),
    Mixgraph(mixgraph::Arguments),
    Trace(trace::Arguments),
    Analyze(analyze::Arguments),
    Model(model::Arguments),
    Profile(profile::Arguments),
    Replay(replay::Arguments),
    Advise(advise::Arguments),
    Calibrate(calibrate::Arguments),
    Experiment(experiment::Arguments),
    VerifyImport(verify_import::Arguments),
}

/// Does what the process's arguments say.
pub fn run() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Import(arguments) => import::run(&arguments),
        Command::Ingest(arguments) => ingest::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Get(arguments) => get::run(&arguments),
        Command::Put(arguments) => put::run(&arguments),
        Command::Merge(arguments) => merge::run(&arguments),
        Command::Delete(arguments) => delete::run(&arguments),
        Command::Pop(arguments) => pop::run(&arguments),
        Command::Scan(arguments) => scan::run(&arguments),
        Command::Size(arguments) => range_size::run(&arguments),
        Command::Keyspaces(arguments) => keyspaces::run(&arguments),
        Command::Changes(arguments) => changes::run(&arguments),
        Command::Stats(arguments) => stats::run(&arguments),
        Command::Compact(arguments) => compact::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Dump(arguments) => dump::run(&arguments),
        Command::Repair(arguments) => repair::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Backups(arguments) => backups::run(&arguments),
        Command::Restore(arguments) => restore::run(&arguments),
        Command::RotateKey(arguments) => rotate_key::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Mixgraph(arguments) => mixgraph::run(&arguments),
        Command::Trace(arguments) => trace::run(&arguments),
        Command::Analyze(arguments) => analyze::run(&arguments),
        Command::Model(arguments) => model::run(&arguments),
        Command::Profile(arguments) => profile::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Advise(arguments) => advise::run(&arguments),
        Command::Calibrate(arguments) => calibrate::run(&arguments),
        Command::Experiment(arguments) => experiment::run(&arguments),
        Command::VerifyImport(arguments) => verify_import::run(&arguments),
    };
    match outcome {
        Ok(success) => success.exit_code(),
        Err(failure) => {
            if let Some(message) = failure.message() {
                output::complain(&format!("evendb: {message}"));
            }
            failure.exit_code()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        super::Arguments::command().debug_assert();
    }
}
