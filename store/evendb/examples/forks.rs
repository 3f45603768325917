//! Times forks of a database of some GiB (docs/forks.md).
//!
//! ```console
//! $ cargo run --release -p evendb --example forks -- 4 /mnt/disk
//! ```
//! The first argument is the size in GiB (default 1), the second one the directory in which the
//! databases lie (default: the directory for temporary files). Printed are the files of the
//! database, and for each fork its time and what it linked and copied: after a checkpoint, with
//! deltas in RAM, and of a fork.

#![expect(clippy::unwrap_used, reason = "an example that measures")]

use evendb::{Db, Durability, ForkSummary, Layout, Options};
use std::path::Path;
use std::time::Instant;

const VALUE_BYTES: usize = 1000;

fn open(dir: &Path, layout: Layout) -> Db {
    let options = Options::new()
        .layout(layout)
        .memory_budget(256 << 20)
        .durability(Durability::Process);
    options.open(dir).unwrap()
}

/// A value that does not compress.
fn value(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut value = Vec::with_capacity(VALUE_BYTES);
    while value.len() < VALUE_BYTES {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        value.extend_from_slice(&state.to_le_bytes());
    }
    value
}

/// Puts `count` records in no order.
fn fill(db: &Db, count: u64, first: u64) {
    for number in first..first + count {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        db.put(key.to_le_bytes(), value(number)).unwrap();
    }
}

fn show(what: &str, told: ForkSummary) {
    println!(
        "{what}: {:.1} ms; {} files of {:.2} GiB linked, {:.2} MiB copied",
        told.elapsed.as_secs_f64() * 1e3,
        told.files_linked,
        told.bytes_linked as f64 / (1_u64 << 30) as f64,
        told.bytes_copied as f64 / (1 << 20) as f64,
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let gib: f64 = arguments.next().map_or(1.0, |size| size.parse().unwrap());
    let place = match arguments.next() {
        Some(place) => tempfile::tempdir_in(place),
        None => tempfile::tempdir(),
    };
    let place = place.unwrap();
    let count = (gib * (1_u64 << 30) as f64) as u64 / VALUE_BYTES as u64;
    for layout in [Layout::Chunks, Layout::Guards] {
        let dir = place.path().join(format!("{layout:?}"));
        let started = Instant::now();
        let db = open(&dir, layout);
        fill(&db, count, 0);
        db.flush().unwrap();
        let names: Vec<String> = std::fs::read_dir(&dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let bytes = |name: &String| std::fs::metadata(dir.join(name)).map_or(0, |meta| meta.len());
        let logs = names.iter().filter(|name| name.starts_with("CHUNK-LOGS"));
        println!(
            "{layout:?}: filled in {:.0} s; {} files, {:.2} GiB of them logs",
            started.elapsed().as_secs_f64(),
            names.len(),
            logs.map(bytes).sum::<u64>() as f64 / (1_u64 << 30) as f64,
        );
        for round in 0..5 {
            let target = place.path().join(format!("{layout:?} {round}"));
            db.flush().unwrap();
            show("after a checkpoint", db.fork(&target).unwrap());
            fill(&db, 2_000, count + round * 2_000);
        }
        let target = place.path().join(format!("{layout:?} with deltas"));
        show("with 2 MB of deltas", db.fork(&target).unwrap());
        let fork = open(&target, layout);
        let again = place.path().join(format!("{layout:?} of a fork"));
        show("of a fork", fork.fork(&again).unwrap());
        fork.close().unwrap();
        db.close().unwrap();
    }
}
