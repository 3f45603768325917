//! The figures of one row of the tables: what a phase measured, under the names that tables take.
//!
//! What a row asked of storage is counted by the store itself if it has a block cache that counts
//! (`BLOCKS_READ` and the others), and else by the system, for the whole process:
//!
//! | figure | a store that counts blocks | other stores |
//! |---|---|---|
//! | `read_calls` | blocks that gets and scans read | read calls of the process |
//! | `read_call_bytes` | their bytes | the bytes of these calls |
//! | `cache_hits` | blocks that were in the cache | gets that RAM answered |
//! | `written_bytes` | all that the store says it wrote | what the process sent to storage |

use serde_json::Value;

use crate::phase_result::PhaseResult;
use crate::recorder::OperationKind;
use crate::store::{BLOCKS_HIT, BLOCKS_READ, BLOCKS_READ_BYTES};

/// The result of a phase, with what the tables need at its top.
pub(super) fn figures(result: &PhaseResult, name: &str, absent: u64) -> Value {
    let mut figures = result.to_json();
    figures["allocation"] = name.into();
    figures["text"] = result.to_table().into();
    figures["gets_of_deleted_pairs"] = absent.into();
    figures["fetched_bytes"] = result.usage.map(|usage| usage.read_bytes).into();
    let counted = counted_by_store(result).unwrap_or_else(|| counted_by_system(result));
    figures["counted_by"] = counted.by.into();
    figures["read_calls"] = counted.reads.into();
    figures["read_call_bytes"] = counted.read_bytes.into();
    figures["written_bytes"] = counted.written_bytes.into();
    figures["read_hit_rate_of_gets"] = counted.hit_rate.into();
    figures["cache_hits"] = counted.hits.into();
    for latency in &result.latencies {
        let name = latency.kind.name();
        figures[format!("{name}_p50_nanos")] = latency.p50.into();
        figures[format!("{name}_p99_nanos")] = latency.p99.into();
    }
    figures
}

/// What was asked of storage.
struct Counted {
    by: &'static str,
    reads: Option<u64>,
    read_bytes: Option<u64>,
    written_bytes: Option<u64>,
    hit_rate: Option<f64>,
    hits: Option<f64>,
}

fn counted_by_store(result: &PhaseResult) -> Option<Counted> {
    let figures = &result.figures;
    let of = |name| Some(figures.iter().find(|figure| figure.name == name)?.value);
    let (read, hit) = (of(BLOCKS_READ)?, of(BLOCKS_HIT)?);
    let written = figures
        .iter()
        .filter(|figure| figure.name.starts_with("written.") && figure.name != "written.user");
    let written: Vec<u64> = written.map(|figure| figure.value).collect();
    Some(Counted {
        by: "store",
        reads: Some(read),
        read_bytes: of(BLOCKS_READ_BYTES),
        written_bytes: (!written.is_empty()).then(|| written.iter().sum()),
        hit_rate: (read + hit > 0).then(|| hit as f64 / (read + hit) as f64),
        hits: Some(hit as f64),
    })
}

fn counted_by_system(result: &PhaseResult) -> Counted {
    let gets = result
        .latencies
        .iter()
        .find(|one| one.kind == OperationKind::Get);
    let hit_rate = result.ram_hit_rate();
    Counted {
        by: "system",
        reads: result.usage.map(|usage| usage.read_calls),
        read_bytes: result.usage.map(|usage| usage.read_call_bytes),
        written_bytes: result.usage_settled.map(|usage| usage.stored_bytes()),
        hit_rate,
        hits: hit_rate
            .zip(gets)
            .map(|(rate, gets)| rate * gets.count as f64),
    }
}
