//! Benchmarks of the engine's parts, each figure beside its target. The only other store is an
//! ordered map in memory. The same command in studio/peers has LMDB as well.

use std::process::ExitCode;

use evendb_lab::parts::{OrderedMap, command};

fn main() -> ExitCode {
    command::run(&mut |_| Ok(vec![Box::new(OrderedMap::default())]))
}
