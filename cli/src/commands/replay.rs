//! `evendb replay`: asks EvenDB the operations of a trace. The work is done in
//! `evendb_lab::replay`.

use std::io::Write;

use evendb_lab::opener::Opener;
use evendb_lab::recorder::RunError;
use evendb_lab::replay::command::{Ending, ReplayArguments};
use evendb_lab::stores::evendb::{EvenDbOpener, GuardsOpener, ValuesApartOpener};

use crate::failure::{Failure, Success};
use crate::interrupt::Interrupt;
use crate::output;

/// Ask a store the operations that a trace recorded at another one
///
/// Keys are asked for in the order of the trace, with any number of threads; scans and lookups of
/// several keys may see writes of other threads sooner or later. Values are those of the trace if
/// it has them, else bytes of the same length that do not compress. Operations that this store
/// cannot be asked are counted by reason and left out: merges without --merges, pops and reverse
/// scans on stores that lack them. If that is more than a hundredth of the trace, the first line
/// says so, and the exit code is 3. For a trace that is not whole it is 5.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb replay app.trace --prepare
  evendb replay app.trace --speed 1 --threads 8 --dir /mnt/ssd/replay
  evendb replay app.trace --speed 10 --json result.json
  evendb replay app.trace --prepare --store guards")]
pub struct Arguments {
    #[command(flatten)]
    replay: ReplayArguments,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let interrupt = Interrupt::install()?;
    let openers: [Box<dyn Opener>; 3] = [
        Box::new(EvenDbOpener),
        Box::new(ValuesApartOpener),
        Box::new(GuardsOpener::DEFAULT),
    ];
    let replayed =
        arguments
            .replay
            .run(&openers, interrupt.flag())
            .map_err(|error| match error {
                RunError::Input(message) => Failure::Message(message),
                RunError::Damaged(message) => Failure::Corrupt(message),
                error => Failure::caused(error.to_string(), &error),
            })?;
    write!(output::out(), "{}", replayed.text)?;
    match (interrupt.raised(), replayed.ending) {
        (true, _) => Err(Failure::Interrupted),
        (false, Ending::Whole) => Ok(Success::Done),
        (false, Ending::LeftOut) => Ok(Success::LeftOut),
        (false, Ending::Damaged) => Ok(Success::Corrupt),
    }
}
