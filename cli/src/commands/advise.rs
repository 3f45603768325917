//! `evendb advise`: which settings suit a load, by measuring. The work is done in
//! `evendb_lab::advise`.

use std::io::Write;

use evendb_lab::advise::AdviseError;
use evendb_lab::advise::command::AdviseArguments;
use evendb_lab::replay::command::Ending;

use crate::failure::{Failure, Success};
use crate::interrupt::Interrupt;
use crate::output;

/// Advise on settings, memory and stores for a load, by replaying it
///
/// The load is a trace, or drawn from a model. Settings that may suit it are tried by short
/// replays, the better half by longer ones, until one is left. That one is then tried with more and
/// with less memory, and other stores are tried with the same memory. The result is a page. If more
/// than a hundredth of the load is left out, as merges are without --merges, the first sentence
/// says so, and the exit code is 3. For a trace that is not whole it is 5.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb advise app.trace --memory-mib 256 --out advice
  evendb advise udb-assoc --memory-mib 64 --seconds 120 --out advice
  evendb advise app.trace --memory-mib 256 --out advice --peers studio/peers/target/release/experiments
  evendb advise app.trace --memory-mib 256 --out advice --exhaustive --seconds 3600")]
pub struct Arguments {
    #[command(flatten)]
    inner: AdviseArguments,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let interrupt = Interrupt::install()?;
    let program = std::env::current_exe()?;
    match arguments.inner.run(program, interrupt.flag()) {
        Ok(given) => {
            write!(output::out(), "{}", given.text)?;
            Ok(match given.ending {
                Ending::Whole => Success::Done,
                Ending::LeftOut => Success::LeftOut,
                Ending::Damaged => Success::Corrupt,
            })
        }
        Err(AdviseError::Interrupted) => Err(Failure::Interrupted),
        Err(AdviseError::Damaged(message)) => Err(Failure::Corrupt(message)),
        Err(error) => Err(Failure::Message(error.to_string())),
    }
}
