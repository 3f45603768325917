//! Benchmarks of the engine's parts, each figure beside its target, with LMDB and an ordered map in
//! memory for comparison.

use std::fs;
use std::process::ExitCode;

use evendb_lab::parts::{OrderedMap, command};
use evendb_peers::lmdb_parts::LmdbYardstick;

fn main() -> ExitCode {
    command::run(&mut |directory| {
        let path = directory.join("lmdb");
        fs::create_dir_all(&path)?;
        Ok(vec![
            Box::new(LmdbYardstick::open(&path)?),
            Box::new(OrderedMap::default()),
        ])
    })
}
