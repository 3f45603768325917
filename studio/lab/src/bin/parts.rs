//! Benchmarks of the engine's parts, each figure beside its target; no other store than an
//! ordered map in memory. The crate of peers has the same command with LMDB beside.

use std::process::ExitCode;

use evendb_lab::parts::{OrderedMap, command};

fn main() -> ExitCode {
    command::run(&mut |_| Ok(vec![Box::new(OrderedMap::default())]))
}
