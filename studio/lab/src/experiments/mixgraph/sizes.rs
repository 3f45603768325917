//! The sizes of values and the lengths of scans that a run drew, beside those that its model asks
//! for.
//!
//! A run has no time to count them. Its operations follow from its seed, so those of the first
//! thread are drawn again after it, and counted; nobody is asked.

use std::sync::Arc;

use evendb_model::sizes::Sizes;
use serde_json::{Value, json};

use super::super::table::TextTable;
use crate::mixgraph::{Kind, Load, ModelWorker};

/// At most this number of operations is drawn again.
const DRAWN_MAX: u64 = 100_000;

/// What was drawn of one keyspace.
#[derive(Clone, Default)]
struct Drawn {
    values: Vec<u64>,
    lengths: Vec<u64>,
}

/// For each keyspace that has puts or scans: what its model asks for, and what the first thread of
/// a phase draws in this number of operations.
pub(super) fn of(load: &Arc<Load>, phase: u64, operations: u64) -> Value {
    let mut worker = ModelWorker::new(load, phase, 0);
    let mut all = vec![Drawn::default(); load.families.len()];
    for _ in 0..operations.min(DRAWN_MAX) {
        let drawn = &mut all[worker.next_keyspace()];
        let kind = worker.next_kind();
        let pair = worker.next_pair(kind);
        match kind {
            Kind::Put => drawn.values.push(worker.next_value(pair).0),
            Kind::Scan => drawn.lengths.push(worker.next_length()),
            Kind::Get | Kind::Delete | Kind::Merge => {}
        }
    }
    let rows = load.families.iter().zip(all).flat_map(|(family, drawn)| {
        let model = &family.model;
        let values = row(
            &family.name,
            "value bytes",
            &model.values.sizes,
            drawn.values,
        );
        let scans = model.scans.as_ref();
        let lengths =
            scans.and_then(|asked| row(&family.name, "scan records", asked, drawn.lengths));
        [values, lengths]
    });
    rows.flatten().collect()
}

/// A row, if anything was drawn.
fn row(keyspace: &str, what: &str, asked: &Sizes, mut drawn: Vec<u64>) -> Option<Value> {
    drawn.sort_unstable();
    let most = *drawn.last()?;
    Some(json!({
        "keyspace": keyspace,
        "what": what,
        "asked_mean": asked.mean(),
        "drawn": drawn.len(),
        "mean": drawn.iter().sum::<u64>() as f64 / drawn.len() as f64,
        "median": drawn[drawn.len() / 2],
        "max": most,
    }))
}

/// The rows as a table, or nothing if there are none.
pub(super) fn table(rows: &Value) -> String {
    if rows.as_array().is_none_or(Vec::is_empty) {
        return String::new();
    }
    let mut table = TextTable::new(["keyspace", "drawn", "asked mean", "mean", "median", "max"]);
    let rows = rows.as_array().into_iter().flatten();
    for row in rows {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| format!("{:.1}", row[name].as_f64().unwrap_or(f64::NAN));
        table.row([
            text("keyspace"),
            text("what"),
            number("asked_mean"),
            number("mean"),
            row["median"].to_string(),
            row["max"].to_string(),
        ]);
    }
    format!("{table}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mixgraph::allocation::Allocation;
    use evendb_model::presets;

    #[test]
    fn sizes_that_are_drawn_stand_beside_those_that_are_asked_for() {
        let workload = presets::workload("udb").unwrap().scaled(0.0002);
        let load = Arc::new(Load::new(&workload, Allocation::PrefixDist, 3));
        let rows = of(&load, 0, u64::MAX);
        // Five of the six have scans, all have puts.
        let rows = rows.as_array().unwrap();
        assert_eq!(rows.len(), 11);
        for row in rows {
            let number = |name: &str| row[name].as_f64().unwrap();
            let mut families = load.families.iter();
            let family = families.find(|family| row["keyspace"] == family.name);
            let model = &family.unwrap().model;
            let asked = match row["what"] == "value bytes" {
                true => &model.values.sizes,
                false => model.scans.as_ref().unwrap(),
            };
            let square = |size| asked.share(size) * (size as f64 - asked.mean()).powi(2);
            let variance: f64 = (asked.least..=asked.most).map(square).sum();
            // Five standard errors of the mean.
            let most = 5.0 * (variance / number("drawn")).sqrt() + 1e-9;
            let off = number("mean") - number("asked_mean");
            assert!(off.abs() <= most, "{row} {most}");
            assert!(number("median") <= number("max"), "{row}");
        }
        let row = |keyspace: &str, what: &str| {
            let found = rows
                .iter()
                .find(|row| row["keyspace"] == keyspace && row["what"] == what);
            found.unwrap().clone()
        };
        let count = row("Assoc_count", "value bytes");
        let right = json!([20.0, 20.0, 20, 20]);
        let own = ["asked_mean", "mean", "median", "max"].map(|name| count[name].clone());
        assert_eq!(json!(own), right);
        // The printed shares: the median of a scan is one pair, the longest of Assoc has 200.
        let scans = row("Assoc", "scan records");
        assert_eq!((&scans["median"], &scans["max"]), (&json!(1), &json!(200)));
        let text = table(&json!(rows));
        assert_eq!(table(&json!([])), "");
        assert!(
            text.contains("Object_2ry") && text.contains("asked mean"),
            "{text}"
        );
    }
}
