//! The `evendb` command: import, read, write, inspect and benchmark an EvenDB database.
//!
//! This file only dispatches; each subcommand has a file in `commands`. Data goes to standard
//! output, everything else to standard error. It is a library for its program, `main.rs`, and for
//! the fuzzer, which reads input with it; not for applications.
//!
//! ```text
//!   commands   a file for each subcommand
//!   database   opening a database and its keyspace         input   files and streams as pairs
//!   typed      keys and values with types                  text    forms of text
//!   terminal   output, failures, interruptions
//! ```
//! Modules of a folder are named without it: `crate::output`.

mod commands;
mod database;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod input;
mod terminal;
mod text;
mod typed;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::Styles;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use evendb_lab::printed::{Printed, hidden_words, without_hidden};
use evendb_lab::standard_streams;

use database::{foreign, key_file, open, store};
use input::{input_stream, leveldb_files};
use terminal::{failure, interrupt, output};
use text::{csv, escapes, float_text, json_text, ldb_text, scan_output, time_text};
use typed::{key_types, keys, values};

use crate::commands::{
    advise, analyze, backup, backups, bench, calibrate, changes, compact, delete, dump, experiment,
    export, fork, get, import, ingest, keyspaces, merge, mixgraph, model, options, pop, profile,
    put, repair, replay, restore, rotate_key, scan, size as range_size, stats, trace, verify,
    verify_import,
};
use crate::failure::{Failure, Success};

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
  4    a key not found, or nothing to pop
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
    Options(options::Arguments),
    Changes(changes::Arguments),
    Stats(stats::Arguments),
    Compact(compact::Arguments),
    Verify(verify::Arguments),
    Dump(dump::Arguments),
    Repair(repair::Arguments),
    Backup(backup::Arguments),
    Backups(backups::Arguments),
    Restore(restore::Arguments),
    Fork(fork::Arguments),
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

/// Carries out the arguments of the process.
pub fn run() -> ExitCode {
    let hidden = hidden_words(std::env::args_os().skip(1));
    let mut command = Arguments::command();
    if !hidden.is_empty() {
        command = command.styles(Styles::plain());
    }
    if let Some(message) = missing_value(&command, std::env::args_os().skip(1)) {
        output::complain(&format!("evendb: {message}"));
        return Failure::Usage(message).exit_code();
    }
    let parsed = command.try_get_matches().and_then(|matches| {
        let arguments = Arguments::from_arg_matches(&matches)?;
        Ok((matches, arguments))
    });
    let (matches, arguments) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return refuse(&error, &hidden),
    };
    let repairs = matches!(arguments.command, Command::Repair(_));
    let outcome = foreign::refuse(&matches).and_then(|()| carry_out(arguments.command));
    let damaged = match &outcome {
        Ok(Success::Corrupt) => database_of(&matches),
        // In an import the input may be damaged, and the database may not even be there.
        Err(Failure::Corrupt(text)) => database_of(&matches).filter(|db| {
            let brings = ["import", "ingest", "verify-import"].map(Some);
            !brings.contains(&matches.subcommand_name()) || text.contains(&*db.to_string_lossy())
        }),
        _ => None,
    };
    let code = match outcome {
        Ok(success) => success.exit_code(),
        Err(failure) => {
            if let Some(message) = failure.message() {
                output::complain(&format!("evendb: {message}"));
            }
            failure.exit_code()
        }
    };
    if let Some(db) = damaged.filter(|_| !repairs) {
        let is_verify = matches.subcommand_name() == Some("verify");
        output::complain(&advice(db, is_verify));
    }
    code
}

/// Reports wrong arguments. Arguments with hidden characters appear with escapes, and then there
/// are no colours.
fn refuse(error: &clap::Error, hidden: &[String]) -> ExitCode {
    if let (false, Err(closed)) = (error.use_stderr(), standard_streams::check_output()) {
        let failure = Failure::from(closed);
        output::complain(&format!(
            "evendb: {}",
            failure.message().unwrap_or_default()
        ));
        return failure.exit_code();
    }
    if hidden.is_empty() {
        error.exit();
    }
    // Without styles this is the text as it is; the plain one lacks pieces of arguments.
    let text = without_hidden(error.render().ansi().to_string(), hidden);
    let _ = write!(Printed(io::stderr()), "{text}");
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
}

/// The message if another option of the subcommand is given as an option's value: its own value was
/// forgotten. Values may begin with a hyphen, so that clap takes it, and `delete --from --all`
/// would delete from the key `--all` on.
fn missing_value(
    command: &clap::Command,
    arguments: impl Iterator<Item = OsString>,
) -> Option<String> {
    let words: Vec<_> = arguments
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let mut command = command;
    for pair in words.windows(2) {
        if pair[0] == "--" {
            return None;
        }
        if let Some(inner) = command.find_subcommand(&pair[0]) {
            command = inner;
        }
        let named = |word: &str| {
            let name = word.strip_prefix("--")?;
            command
                .get_arguments()
                .find(|argument| argument.get_long() == Some(name))
        };
        let (Some(option), Some(_)) = (named(&pair[0]), named(&pair[1])) else {
            continue;
        };
        // Clap looks at the others itself.
        if option.is_allow_hyphen_values_set() {
            let [option, value] = [&pair[0], &pair[1]];
            return Some(format!(
                "a value is required for {option}; `{option}={value}` gives it the value {value}"
            ));
        }
    }
    None
}

/// The database of a subcommand.
fn database_of(matches: &ArgMatches) -> Option<&Path> {
    let (_, of_subcommand) = matches.subcommand()?;
    let db = of_subcommand.try_get_one::<PathBuf>("db").ok()?;
    db.map(PathBuf::as_path)
}

/// What to do about a damaged database.
fn advice(db: &Path, is_verified: bool) -> String {
    let place = db.display();
    let verify = format!("`evendb verify {place}` tells all that is damaged");
    let repair = format!("`evendb repair {place} --into NEWDIR` saves what can be read");
    match is_verified {
        true => repair,
        false => format!("{verify}; {repair}"),
    }
}

fn carry_out(command: Command) -> Result<Success, Failure> {
    match command {
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
        Command::Options(arguments) => options::run(&arguments),
        Command::Changes(arguments) => changes::run(&arguments),
        Command::Stats(arguments) => stats::run(&arguments),
        Command::Compact(arguments) => compact::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Dump(arguments) => dump::run(&arguments),
        Command::Repair(arguments) => repair::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Backups(arguments) => backups::run(&arguments),
        Command::Fork(arguments) => fork::run(&arguments),
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If the value of an option is forgotten, the next option is not its value: nothing may be
    /// deleted by that.
    #[test]
    fn an_option_is_not_taken_for_the_value_of_the_one_before() {
        let command = Arguments::command();
        let said = |line: &str| missing_value(&command, line.split(' ').map(OsString::from));
        for line in [
            "delete db --from --all",
            "scan db --prefix --count",
            "put db k v --keyspace --durability sync",
            "scan db --from --hex",
        ] {
            let message = said(line).unwrap_or_default();
            assert!(
                message.contains("a value is required for --"),
                "{line}: {message}"
            );
        }
        for line in [
            "delete db --from=--all",
            "delete db --from -9 --all",
            "scan db --count --prefix -k",
            "put db -- --keyspace --durability",
            "stats db --watch --count 1",
            "scan db --prefix --nothing-of-that-name",
        ] {
            assert_eq!(said(line), None, "{line}");
        }
    }

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    /// An argument of free text may begin with a hyphen: a key, a value, a bound, a name. Arguments
    /// that may not are listed here, with the reason.
    #[test]
    fn every_text_argument_may_begin_with_a_hyphen() {
        const OTHERS: [(&str, &str); 7] = [
            ("get.more", "options may follow the first key"),
            ("dump.sstable.file", "no table has such a name"),
            ("profile.", "loads and benchmarks by their names"),
            ("advise.", "stores and their settings by their names"),
            ("replay.", "stores and their settings by their names"),
            ("mixgraph.", "models and stores by their names"),
            ("experiment.", "experiments and stores by their names"),
        ];
        let mut found = Vec::new();
        let mut others = Vec::new();
        let mut left = vec![(String::new(), super::Arguments::command())];
        while let Some((path, command)) = left.pop() {
            for argument in command.get_arguments() {
                let place = format!("{path}{}", argument.get_id());
                let takes_text = argument.get_value_parser().type_id()
                    == clap::builder::ValueParser::string().type_id();
                if !takes_text || !argument.get_action().takes_values() {
                    continue;
                }
                match argument.is_allow_hyphen_values_set() {
                    true => found.push(place),
                    false => others.push(place),
                }
            }
            for inner in command.get_subcommands() {
                left.push((format!("{path}{}.", inner.get_name()), inner.clone()));
            }
        }
        others.retain(|place| !OTHERS.iter().any(|(other, _)| place.starts_with(other)));
        assert!(others.is_empty(), "{others:?}");
        for expected in [
            "get.key",
            "put.key",
            "put.value",
            "merge.operand",
            "delete.key",
            "scan.from",
            "scan.to",
            "scan.prefix",
            "size.from",
            "pop.prefix",
            "import.keyspace",
            "verify-import.check_prefix",
        ] {
            assert!(
                found.iter().any(|place| place == expected),
                "{expected} in {found:?}"
            );
        }
    }
}
