//! Tables of `mixgraph`: the costs of each allocation, compared with the study's figures.

use evendb_model::{Model, Workload};
use serde_json::Value;

use super::super::table::TextTable;
use super::super::{Measured, median_of_cell, stores_of};
use super::{YcsbSizes, replayed};
use crate::mixgraph::allocation::Allocation;
use crate::readable::{bytes, grouped};

/// The study's figures of storage that it prints, divided by those of the replayed trace: block
/// reads, bytes read, bytes written, cache hits. For other benchmarks it has bars without numbers.
const STUDY: [(Allocation, [Option<f64>; 4]); 2] = [
    // Section 7.1; YCSB's default is zipfian.
    (
        Allocation::Zipfian,
        [Some(7.7), Some(6.2), Some(0.74), Some(0.17)],
    ),
    // Section 7.2.
    (
        Allocation::PrefixDist,
        [None, Some(1.43), Some(0.60), Some(0.77)],
    ),
];

/// Our figures in the order of [`STUDY`], and their headings.
const COMPARED: [(&str, &str); 4] = [
    ("read_calls", "reads"),
    ("read_call_bytes", "bytes read"),
    ("written_bytes", "bytes written"),
    ("cache_hits", "cache hits"),
];

const WHAT_FIGURES_MEAN: &str = "\
of a store that counts the blocks of its cache: reads: blocks that gets and scans read from storage; from RAM: blocks that
they found in the cache; written: all that the store says it wrote, with the debt that was left.
of other stores: reads: read calls of the process while the operations ran (a store that maps its files asks for none);
written: what the process sent to storage, with the debt that was left; from RAM: gets that the store answered itself,
where it tells that.
fetched, of all: what storage was read for by the process, since the system's cache had it not.
";

/// What is measured: a line for the whole, and one for each keyspace if there are several.
pub(super) fn head(workload: &Workload, memory_bytes: u64, results: &[Measured]) -> String {
    // A trace that is replayed may have fewer operations than the model.
    let cell = results.first().map(|one| &one.figures["cells"][0]);
    let replayed = cell.filter(|cell| cell["allocation"] == replayed::NAME);
    let operations = replayed.and_then(|cell| cell["operations"].as_u64());
    let several = workload.keyspaces.len() > 1;
    let kinds = match (several, workload.keyspaces.first()) {
        (false, Some(only)) => kinds(&only.load),
        _ => format!("{} keyspaces", workload.keyspaces.len()),
    };
    let mut text = format!(
        "{}: {} operations ({kinds}) on {} pairs, {} of data, {} of memory\n",
        workload.name,
        grouped(operations.unwrap_or(workload.operations)),
        grouped(workload.pairs()),
        bytes(workload.data_bytes()),
        bytes(memory_bytes)
    );
    for keyspace in workload.keyspaces.iter().filter(|_| several) {
        text += &format!(
            "  {}: {:.2} % of the operations ({}) on {} pairs\n",
            keyspace.name,
            keyspace.share * 100.0,
            self::kinds(&keyspace.load),
            grouped(keyspace.load.pairs)
        );
    }
    text
}

fn kinds(model: &Model) -> String {
    let shares = model.mix.shares().into_iter();
    let kinds = shares.filter(|(_, share)| *share > 0.0);
    let kinds: Vec<_> = kinds
        .map(|(name, share)| format!("{:.2} % {name}", share * 100.0))
        .collect();
    kinds.join(", ")
}

/// The blocks of all phases of a store's round.
pub(super) fn blocks(one: &Measured) -> String {
    let mut text = format!("\n{}, round {}\n", one.store, one.round + 1);
    for cell in one.figures["cells"].as_array().into_iter().flatten() {
        text += cell["text"].as_str().unwrap_or_default();
    }
    text
}

fn figure_of(results: &[Measured], store: &str, row: &str, name: &str) -> f64 {
    let is_cell = |cell: &Value| cell["allocation"].as_str() == Some(row);
    median_of_cell(results, Some(store), "cells", is_cell, name)
}

/// A number with these decimals, or a dash if there is no number.
fn shown(value: f64, decimals: usize) -> String {
    match value.is_finite() {
        true => format!("{value:.decimals$}"),
        false => "-".to_owned(),
    }
}

/// Rates, latencies and storage of each allocation on each store, medians of the rounds.
pub(super) fn storage(rows: &[&str], results: &[Measured]) -> String {
    let mut table = TextTable::new([
        "store",
        "allocation",
        "kop/s",
        "get p50 us",
        "p99 us",
        "put p99 us",
        "scan p99 us",
        "reads/op",
        "B read/op",
        "B fetched/op",
        "B written/op",
        "from RAM %",
    ]);
    for store in stores_of(results) {
        for &row in rows {
            let of = |name: &str| figure_of(results, store, row, name);
            let micros = |name: &str| shown(of(name) / 1e3, 1);
            let each = |name: &str| of(name) / of("operations");
            table.row([
                store.to_owned(),
                row.to_owned(),
                shown(of("operations_per_second_with_debt") / 1e3, 1),
                micros("get_p50_nanos"),
                micros("get_p99_nanos"),
                micros("put_p99_nanos"),
                micros("scan_p99_nanos"),
                shown(each("read_calls"), 3),
                shown(each("read_call_bytes"), 0),
                shown(each("fetched_bytes"), 0),
                shown(each("written_bytes"), 1),
                shown(of("read_hit_rate_of_gets") * 100.0, 1),
            ]);
        }
    }
    format!("\n{table}\n{WHAT_FIGURES_MEAN}")
}

/// Each figure divided by that of one allocation. The study's figure stands beside it, if it prints
/// one: divided by that of the replayed trace, and, if it prints the chosen one's, by that.
pub(super) fn beside_the_study(
    rows: &[&str],
    (by, ycsb_sizes): (&str, YcsbSizes),
    results: &[Measured],
) -> String {
    let mut heads = vec!["store".to_owned(), "allocation".to_owned()];
    for (_, head) in COMPARED {
        heads.extend([
            head.to_owned(),
            "study".to_owned(),
            "(by replay)".to_owned(),
        ]);
    }
    let mut table = TextTable::new(heads);
    let study = |row: &str, place: usize| {
        if row == replayed::NAME {
            return 1.0;
        }
        let known = STUDY.iter().find(|(known, _)| known.name() == row);
        known
            .and_then(|(_, figures)| figures[place])
            .unwrap_or(f64::NAN)
    };
    for store in stores_of(results) {
        for &name_of_row in rows {
            let mut row = vec![store.to_owned(), name_of_row.to_owned()];
            for (place, (name, _)) in COMPARED.into_iter().enumerate() {
                // The figure of a single operation: a run that ended by time may have had fewer
                // operations.
                let each = |row: &str| {
                    let of = |name: &str| figure_of(results, store, row, name);
                    of(name) / of("operations")
                };
                let (own, theirs) = (each(name_of_row) / each(by), study(name_of_row, place));
                row.extend([
                    shown(own, 2),
                    shown(theirs / study(by, place), 2),
                    shown(theirs, 2),
                ]);
            }
            table.row(row);
        }
    }
    let sizes = match ycsb_sizes {
        YcsbSizes::Model => {
            "Here all benchmarks have the model's sizes and lengths, also YCSB's, which in the study had values of one size:\n\
             so what differs here is where hot pairs lie, and nothing else."
        }
        YcsbSizes::Mean => {
            "Here YCSB's have values of one size, the model's average, and scans by Zipf's law, as the study set them."
        }
    };
    format!(
        "\nBy {by}, for each operation; \"study\": what it prints, by its {by}; \"(by replay)\": by its replayed trace. It\n\
         prints numbers of two of the eight benchmarks (at least 7.7 and 6.2 times, of YCSB), on RocksDB with direct I/O and\n\
         a cache of 256 MiB for 50 million pairs. {sizes}\n\n{table}"
    )
}
