//! The lab's experiments, for EvenDB and every other store of this build in one run.

use std::process::ExitCode;

use clap::Parser;
use evendb_lab::experiments::Experiment;

/// Answer one question about EvenDB and its peers by measuring
#[derive(Parser)]
#[command(args_override_self = true)]
struct Arguments {
    #[command(subcommand)]
    experiment: Experiment,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.experiment.run(&evendb_peers::openers::all()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
