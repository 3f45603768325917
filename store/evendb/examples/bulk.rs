//! Ingests sorted records into a new database, and prints what was written and how fast.
//!
//! `cargo run --release -p evendb --example bulk -- DIR MIB`: directory of the database, MiB of
//! keys and values.

use evendb::Options;
use std::time::Instant;

const VALUE_BYTES: usize = 800;

fn main() -> evendb::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().unwrap_or_else(|| "bulk.db".to_owned());
    let mib = arguments.next().and_then(|text| text.parse().ok());
    let bytes: u64 = mib.unwrap_or(256) << 20;
    let records = bytes / (16 + VALUE_BYTES as u64);

    let db = Options::new().memory_budget(256 << 20).open(dir)?;
    let mut value = vec![0; VALUE_BYTES];
    let mut state = 1u64;
    let mut ingest = db.default_keyspace().begin_ingest()?;
    let start = Instant::now();
    for number in 0..records {
        // Bytes that do not compress, and are cheap to make.
        for piece in value.chunks_exact_mut(8) {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            piece.copy_from_slice(&state.to_le_bytes());
        }
        ingest.put(format!("{number:016}"), &value)?;
    }
    let made = start.elapsed();
    let summary = ingest.finish()?;
    let elapsed = start.elapsed();

    let written = db.stats().bytes_written;
    let all = written.commit_log + written.log + written.sstable + written.manifest;
    println!(
        "{} records, {} MiB: {:.0} MiB/s, {:.3} bytes written a byte; {} tables, shown in {:.0} ms",
        summary.records,
        summary.data_bytes >> 20,
        summary.data_bytes as f64 / f64::from(1 << 20) / elapsed.as_secs_f64(),
        all as f64 / summary.data_bytes as f64,
        summary.tables,
        (elapsed - made).as_secs_f64() * 1000.0
    );
    db.close()
}
