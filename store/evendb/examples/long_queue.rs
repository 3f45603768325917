//! How long it takes to empty a queue of 40,000 jobs by pops, with and without a put before each
//! pop (decision 0069).
//!
//! `cargo run --release -p evendb --example long_queue`

use evendb::{Db, Result};
use std::time::Instant;

const JOBS: u32 = 40_000;

fn job(number: u32) -> String {
    format!("job {number:06}")
}

fn main() -> Result<()> {
    let place = std::env::temp_dir().join(format!("evendb-long-queue-{}", std::process::id()));
    for putting in [false, true] {
        let db = Db::open(&place)?;
        let queue = db.keyspace("queue")?;
        for number in 0..JOBS {
            queue.put(job(number), "do it")?;
        }
        let started = Instant::now();
        for number in 0..JOBS {
            if putting {
                queue.put(job(number + JOBS), "do it")?;
            }
            let popped = queue.pop_first()?;
            assert!(popped.is_some_and(|(key, _)| *key == *job(number).as_bytes()));
        }
        let more = if putting { ", a put before each" } else { "" };
        println!("{JOBS} pops{more}: {:?}", started.elapsed());
        db.close()?;
        // A directory that is left behind does no harm.
        let _ = std::fs::remove_dir_all(&place);
    }
    Ok(())
}
