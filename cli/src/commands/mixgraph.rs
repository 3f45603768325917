//! `evendb mixgraph`: a load by its model. The experiment of that name in the lab measures it; the
//! command of studio/peers has it for other stores.

use evendb_lab::experiments::{Experiment, mixgraph};

use super::experiment;
use crate::failure::{Failure, Success};

/// Benchmark by a model of a load: a preset, or a file that is edited by hand
///
/// Presets: zippydb, zippydb-kinds, udb, udb-assoc, up2x; `--print-model` prints the file of one,
/// to begin with. Kinds, keys, sizes and lengths follow the model, each drawn by itself, and every
/// answer is checked. If the model has several keyspaces, as udb has, an operation's keyspace is
/// drawn first. docs/models.md explains the file of a model.
///
/// Each allocation has a fresh store of its own: all pairs are put at random, the store is warmed
/// by a quarter of the operations, and measured.
#[derive(clap::Args)]
#[command(
    args_override_self = true,
    after_help = "Examples:
  evendb mixgraph zippydb --quick
  evendb mixgraph zippydb --scale 0.1 --allocation prefix-dist,all-random
  evendb mixgraph up2x --print-model > mine.toml
  evendb mixgraph mine.toml --pace model --faster 10 --seconds 60 --json result.json"
)]
pub struct Arguments {
    #[command(flatten)]
    inner: mixgraph::MixgraphArguments,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    experiment::carry_out(&Experiment::Mixgraph(arguments.inner.clone()))
}
