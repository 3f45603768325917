//! What is left of a run, and the report about it as JSON.

use evendb_lab::dataset::Dataset;
use evendb_lab::log_replay::ReplayedLog;
use evendb_lab::phase_result::PhaseResult;
use evendb_lab::store::StoreResult;
use serde_json::{Value, json};

use super::limits::{lengths, limit};
use super::{Arguments, transactions};

/// What is left of a run whose store is closed.
pub(super) struct Done {
    pub(super) closed: StoreResult<()>,
    pub(super) dataset: Dataset,
    pub(super) results: Vec<PhaseResult>,
    pub(super) replayed: Option<ReplayedLog>,
    pub(super) refused: Vec<Value>,
}

impl Done {
    pub(super) fn report(&self, arguments: &Arguments, memory_bytes: u64) -> Value {
        let replayed = self.replayed.as_ref();
        let mut report = settings_and_phases(
            arguments,
            memory_bytes,
            &self.dataset,
            &self.results,
            replayed,
        );
        report["transactions"] = transactions::refused(self.refused.clone()).into();
        report
    }
}

fn settings_and_phases(
    arguments: &Arguments,
    memory_bytes: u64,
    dataset: &Dataset,
    results: &[PhaseResult],
    replayed: Option<&ReplayedLog>,
) -> Value {
    let dataset = Some(dataset).filter(|_| !arguments.log.given());
    let lengths = lengths(arguments);
    let by_time = limit(arguments, lengths.seconds).duration.is_some();
    json!({
        "settings": {
            "version": env!("CARGO_PKG_VERSION"),
            "layout": arguments.layout.layout.unwrap_or_default().to_string(),
            "records": dataset.map(|dataset| dataset.records),
            "value_bytes": arguments.value_bytes,
            "compressible": arguments.compressible,
            "compression": arguments.compression.to_string(),
            "values_apart_from": arguments.values_apart_from,
            "data_bytes": dataset.map(Dataset::data_bytes),
            "memory_bytes": memory_bytes,
            "space_amplification": arguments.space_amplification,
            "threads": arguments.threads,
            "operations": arguments.ops,
            "seconds": by_time.then_some(lengths.seconds),
            "put_seconds": by_time.then_some(lengths.put_seconds),
            "keep_open": arguments.keep_open,
            "load_order": arguments.load_order.name(),
            "intended_operations_per_second": arguments.rate,
            "theta": arguments.theta,
            "durability": format!("{:?}", arguments.durability).to_lowercase(),
            "seed": arguments.seed,
            "log": arguments.log.settings(replayed),
        },
        "phases": results.iter().map(PhaseResult::to_json).collect::<Vec<_>>(),
    })
}
