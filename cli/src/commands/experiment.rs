//! `evendb experiment`: one question about the store, answered by measuring.

use evendb_lab::experiments::Experiment;
use evendb_lab::opener::Opener;
use evendb_lab::recorder::RunError;
use evendb_lab::stores::evendb::{
    EvenDbOpener, GuardsOpener, HalfMemoryOpener, LockingOpener, ValuesApartOpener,
};
use evendb_lab::stores::simulated_blocks::SimulatedBlocksOpener;
use evendb_lab::stores::undone;

use crate::failure::{Failure, Success};

/// Answer one question about the store by measuring
///
/// Each experiment runs in processes of its own, in a directory that it removes, and prints a
/// table; `paper`, `flsm-claims` and `report` write files, into the directory that they are given.
/// The command of studio/peers asks other stores the same question in one run.
#[derive(clap::Args)]
#[command(args_override_self = true)]
pub struct Arguments {
    #[command(subcommand)]
    experiment: Experiment,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    carry_out(&arguments.experiment)
}

/// Carries an experiment out on the stores that this command knows.
pub fn carry_out(experiment: &Experiment) -> Result<Success, Failure> {
    let mut openers: Vec<Box<dyn Opener>> = vec![
        Box::new(EvenDbOpener),
        Box::new(HalfMemoryOpener),
        Box::new(LockingOpener),
        Box::new(ValuesApartOpener),
        Box::new(SimulatedBlocksOpener),
    ];
    openers.extend(GuardsOpener::all());
    openers.extend(undone::openers());
    experiment.run(&openers).map_err(|error| {
        let error: &(dyn std::error::Error + 'static) = &*error;
        match error.downcast_ref() {
            Some(RunError::Damaged(message)) => Failure::Corrupt(message.clone()),
            Some(RunError::Input(message)) => Failure::Message(message.clone()),
            _ if evendb_lab::is_broken_pipe(error) => Failure::BrokenPipe,
            _ => Failure::caused(error.to_string(), error),
        }
    })?;
    Ok(Success::Done)
}
