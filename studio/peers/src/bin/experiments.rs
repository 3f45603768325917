//! The lab's experiments, for EvenDB and every other store of this build in one run.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use clap::{Parser, Subcommand};
use evendb_lab::experiments::Experiment;
use evendb_lab::replay::command::ReplayArguments;
use evendb_peers::{conformance_command, openers};

/// Answer one question about EvenDB and its peers by measuring
#[derive(Parser)]
#[command(args_override_self = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Experiment(Box<Experiment>),
    /// Whether each store, through its adapter, answers as the lab's trait says
    Conformance(conformance_command::Arguments),
    /// Ask a store the operations that a trace recorded at another one
    Replay(ReplayArguments),
}

fn main() -> ExitCode {
    let openers = openers::all();
    let outcome = match Arguments::parse().command {
        Command::Experiment(experiment) => experiment.run(&openers),
        Command::Conformance(arguments) => arguments.run(&openers),
        Command::Replay(arguments) => match arguments.run(&openers, &AtomicBool::new(false)) {
            Ok(replayed) => {
                let _ = write!(io::stdout(), "{}", replayed.text);
                return ExitCode::from(replayed.ending.exit_code());
            }
            Err(error) => Err(error.into()),
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if evendb_lab::is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}
