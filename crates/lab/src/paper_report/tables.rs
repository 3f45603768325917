//! From cells to tables.

use super::document::{Entry, Table, Tone};
use super::quantity::{Percentile, Quantity, figure};
use super::results::{Cell, Results};
use super::series::{Named, component_nanos, components, named, share, size};
use super::stores;
use crate::dataset::Dataset;
use crate::distribution::{Distribution, DistributionKind};
use crate::report::duration;

/// What the first column says of a cell, and the settings below it that differ among `names`.
fn label(name: &Named, names: &[Named]) -> Entry {
    let differs = |part: fn(&Named) -> &Option<String>| {
        let said: Vec<&String> = names
            .iter()
            .filter_map(|name| part(name).as_ref())
            .collect();
        said.windows(2).any(|pair| pair[0] != pair[1])
    };
    let mut details: Vec<String> = name.data.iter().cloned().collect();
    if let Some(theta) = name.theta.as_ref().filter(|_| differs(|name| &name.theta)) {
        details.push(format!("theta {theta}"));
    }
    if let Some(threads) = name
        .threads
        .as_ref()
        .filter(|_| differs(|name| &name.threads))
    {
        details.push(format!("{threads} threads"));
    }
    details.extend(name.variant.clone());
    let entry = Entry::new(&name.workload);
    match details.is_empty() {
        true => entry,
        false => entry.with_detail(details.join(", ")),
    }
}

/// What a cell is called where it stands alone.
#[must_use]
pub fn full_label(cell: &Cell) -> Entry {
    let name = named(cell);
    let entry = label(&name, &[]);
    let mut details: Vec<String> = entry.detail.into_iter().collect();
    details.insert(0, cell.experiment.clone());
    if let Some(theta) = name.theta.filter(|_| cell.experiment == "figure-10") {
        details.push(format!("theta {theta}"));
    }
    let many = ["figure-11", "table-4"].contains(&cell.experiment.as_str());
    if let Some(threads) = name.threads.filter(|_| many) {
        details.push(format!("{threads} threads"));
    }
    Entry::new(name.workload).with_detail(details.join(", "))
}

/// The figure of a store, or the word for why there is none.
fn entry(cell: &Cell, store: &str, quantity: Quantity, results: &Results) -> Entry {
    if let Some(spread) = cell.spread(store, quantity) {
        let entry = Entry::new(quantity.show(spread.median));
        return match spread.range(quantity) {
            Some(range) => entry.with_detail(range),
            None => entry,
        };
    }
    let rounds = cell.stores.iter().find(|one| one.store == store);
    let finished = rounds.is_some_and(|one| one.finished().next().is_some());
    let interrupted = rounds.is_some_and(|one| !one.rounds.is_empty()) && !finished;
    let skipped = results.skipped.iter().any(|one| {
        one.experiment == cell.experiment && one.cell == cell.name && one.store == store
    });
    Entry::toned(
        match (interrupted, skipped && !finished) {
            (true, _) => "interrupted",
            (false, true) => "skipped",
            (false, false) => "-",
        },
        Tone::Faint,
    )
}

/// Rows of cells (and quantities, if several), a column for each store, and EvenDB's ratio to the
/// best peer.
#[must_use]
pub fn quantities(
    caption: &str,
    cells: &[&Cell],
    quantities: &[Quantity],
    results: &Results,
) -> Table {
    let stores = stores::of(cells.iter().copied());
    let names: Vec<Named> = cells.iter().map(|cell| named(cell)).collect();
    let compared = stores.len() > 1;
    let mut heading = vec!["workload".to_owned()];
    heading.extend(stores.iter().map(|store| (*store).to_owned()));
    if compared {
        heading.extend(["EvenDB / best peer".to_owned(), "best peer".to_owned()]);
    }
    let mut rows = Vec::new();
    for &quantity in quantities {
        for (cell, name) in cells.iter().zip(&names) {
            let mut first = label(name, &names);
            if quantities.len() > 1 {
                first.text = format!("{}: {}", first.text, quantity.name());
            }
            let best = cell.best(quantity, |_| true).map(|(store, _)| store);
            let mut row = vec![first];
            for store in &stores {
                let mut entry = entry(cell, store, quantity, results);
                if best == Some(store) && compared {
                    entry.tone = Tone::Best;
                }
                row.push(entry);
            }
            if compared {
                row.extend(ratio(cell, quantity));
            }
            rows.push(row);
        }
    }
    Table {
        caption: caption.to_owned(),
        heading,
        rows,
    }
}

/// EvenDB's ratio to the best peer, and that.
fn ratio(cell: &Cell, quantity: Quantity) -> [Entry; 2] {
    match cell.ratio_to_best_peer(quantity) {
        Some((ratio, peer)) => [
            ratio_entry(ratio, quantity),
            Entry::toned(peer, Tone::Words),
        ],
        None => [
            Entry::toned("-", Tone::Faint),
            Entry::toned("-", Tone::Faint),
        ],
    }
}

/// A ratio, green where EvenDB is the better one.
#[must_use]
pub fn ratio_entry(ratio: f64, quantity: Quantity) -> Entry {
    let good = match quantity.more_is_better() {
        true => ratio >= 1.0,
        false => ratio <= 1.0,
    };
    Entry::toned(
        format!("{}x", figure(ratio)),
        if good { Tone::Good } else { Tone::Bad },
    )
}

/// Every further figure of the cells, a row for each store; columns that have any.
#[must_use]
pub fn details(cells: &[&Cell], results: &Results) -> Table {
    let mut all = vec![
        Quantity::Throughput,
        Quantity::CpuMicros,
        Quantity::WriteAmplification,
        Quantity::ReadAmplification,
        Quantity::Space,
    ];
    for kind in ["get", "put", "scan", "read-modify-write"] {
        use Percentile::{Max, P50, P95, P99, P999};
        all.extend(
            [P50, P95, P99, P999, Max].map(|percentile| Quantity::Latency(kind, percentile)),
        );
    }
    all.extend([Quantity::Stall, Quantity::HitRate, Quantity::Resident]);
    let has = |quantity: &Quantity| {
        let mut pairs = cells
            .iter()
            .flat_map(|cell| cell.stores.iter().map(move |one| (cell, &one.store)));
        pairs.any(|(cell, store)| cell.spread(store, *quantity).is_some())
    };
    all.retain(has);
    let mut heading = vec!["workload".to_owned(), "store".to_owned()];
    heading.extend(all.iter().map(|quantity| quantity.name()));
    let names: Vec<Named> = cells.iter().map(|cell| named(cell)).collect();
    let mut rows = Vec::new();
    for (cell, name) in cells.iter().zip(&names) {
        for one in &cell.stores {
            let mut row = vec![label(name, &names), Entry::toned(&one.store, Tone::Words)];
            row.extend(all.iter().map(|&quantity| Entry {
                detail: None,
                ..entry(cell, &one.store, quantity, results)
            }));
            rows.push(row);
        }
    }
    Table {
        caption: "All figures of these cells: CPU time, amplification, latencies, memory"
            .to_owned(),
        heading,
        rows,
    }
}

/// The paper's table 2: what each store used.
#[must_use]
pub fn resources(cells: &[&Cell]) -> Table {
    let quantities = [
        Quantity::Seconds,
        Quantity::CpuSeconds,
        Quantity::ReadBytes,
        Quantity::WrittenBytes,
    ];
    let mut heading = vec!["store".to_owned()];
    heading.extend(quantities.iter().map(|quantity| quantity.name()));
    let mut rows = Vec::new();
    for cell in cells {
        let name = named(cell);
        for one in &cell.stores {
            let first = Entry::new(&one.store).with_detail(format!(
                "{} {}",
                name.workload,
                name.data.as_deref().unwrap_or_default()
            ));
            let figures = quantities.iter().map(|&quantity| {
                let best = cell.best(quantity, |_| true);
                match cell.spread(&one.store, quantity) {
                    Some(spread) => Entry::toned(
                        quantity.show(spread.median),
                        match best.is_some_and(|(store, _)| store == one.store) {
                            true => Tone::Best,
                            false => Tone::Plain,
                        },
                    ),
                    None => Entry::toned("-", Tone::Faint),
                }
            });
            rows.push(std::iter::once(first).chain(figures).collect());
        }
    }
    Table {
        caption: "Resources of the ingestion, debt included".to_owned(),
        heading,
        rows,
    }
}

/// Which component answered gets: rows of cells and stores.
#[must_use]
pub fn shares_table(cells: &[&Cell]) -> Table {
    let caption = "Shares of gets by the component that answered";
    by_component(caption, cells, share, |share| {
        format!("{:.1} %", share * 100.0)
    })
}

/// How long the gets took that a component answered: rows of cells and stores.
#[must_use]
pub fn component_latencies_table(cells: &[&Cell]) -> Table {
    let caption = "Mean latency of gets by the component that answered";
    by_component(caption, cells, component_nanos, duration)
}

/// A figure of each component that answers gets: rows of the cells and stores that have any.
fn by_component(
    caption: &str,
    cells: &[&Cell],
    figure: fn(&Cell, &str, &str) -> Option<f64>,
    show: fn(f64) -> String,
) -> Table {
    let components = components(cells);
    let names: Vec<Named> = cells.iter().map(|cell| named(cell)).collect();
    let mut heading = vec!["workload".to_owned(), "store".to_owned()];
    heading.extend(components.iter().map(|name| name.replace('_', " ")));
    let mut rows = Vec::new();
    for (cell, name) in cells.iter().zip(&names) {
        for one in &cell.stores {
            let figures: Vec<Option<f64>> = components
                .iter()
                .map(|name| figure(cell, &one.store, name))
                .collect();
            if figures.iter().any(Option::is_some) {
                let mut row = vec![label(name, &names), Entry::toned(&one.store, Tone::Words)];
                row.extend(figures.into_iter().map(|figure| match figure {
                    Some(figure) => Entry::new(show(figure)),
                    None => Entry::toned("-", Tone::Faint),
                }));
                rows.push(row);
            }
        }
    }
    Table {
        caption: caption.to_owned(),
        heading,
        rows,
    }
}

/// The paper's table 3 for its 64 GB, in per cent: distribution, theta, frequency of the top key.
const PAPER_SKEW: [(&str, [(u32, f64); 5]); 2] = [
    (
        "zipf-simple",
        [(99, 4.87), (95, 3.30), (90, 1.91), (85, 1.04), (80, 0.54)],
    ),
    (
        "zipf-composite",
        [
            (99, 0.013),
            (95, 0.012),
            (90, 0.010),
            (85, 0.009),
            (80, 0.008),
        ],
    ),
];

/// The frequency of the most popular key for the distributions and skews of these cells.
#[must_use]
pub fn skew(cells: &[&Cell], results: &Results) -> Table {
    let value_bytes = results
        .run
        .get("value_bytes")
        .and_then(serde_json::Value::as_u64);
    let value_bytes = usize::try_from(value_bytes.unwrap_or(800)).unwrap_or(800);
    let mut seen: Vec<(String, u64, u64)> = Vec::new();
    let mut rows = Vec::new();
    for cell in cells {
        let (Some(name), Some(theta), Some(bytes)) =
            (&cell.distribution, cell.theta, cell.data_bytes)
        else {
            continue;
        };
        let key = (name.clone(), (theta * 100.0).round() as u64, bytes);
        let Ok(kind) = name.parse::<DistributionKind>() else {
            continue;
        };
        if !(0.001..0.999).contains(&theta) || seen.contains(&key) || value_bytes == 0 {
            continue;
        }
        let records = Dataset::of_size(bytes, value_bytes, 1).records.max(1);
        let frequency = Distribution::new(kind, records, theta, 1).top_frequency() * 100.0;
        let paper = PAPER_SKEW.iter().find(|(other, _)| other == name);
        let paper = paper.and_then(|(_, all)| all.iter().find(|(t, _)| u64::from(*t) == key.1));
        rows.push(vec![
            Entry::new(format!("{name}, theta {theta:.2}")).with_detail(size(bytes)),
            Entry::new(format!("{} %", significant(frequency))),
            match paper {
                Some((_, percent)) => Entry::new(format!("{percent} %")),
                None => Entry::toned("-", Tone::Faint),
            },
        ]);
        seen.push(key);
    }
    Table {
        caption: "How often the most popular key occurs".to_owned(),
        heading: ["distribution", "here", "the paper, 64 GB"]
            .map(str::to_owned)
            .to_vec(),
        rows,
    }
}

fn significant(value: f64) -> String {
    match value {
        v if v >= 0.1 => format!("{v:.2}"),
        v => format!("{v:.4}"),
    }
}

/// The paper's table 4: the range of ratios to one store over the numbers of threads; to the best
/// peer, if that store was not measured. Returns who it is, too.
#[must_use]
pub fn versus(cells: &[&Cell], store: &'static str) -> (Table, &'static str) {
    let measured = |cell: &&Cell| cell.spread(store, Quantity::Throughput).is_some();
    let there = cells.iter().any(measured);
    let peer = if there { store } else { "the best peer" };
    let mut workloads: Vec<(String, Vec<f64>)> = Vec::new();
    for cell in cells {
        let name = named(cell);
        let best = match there {
            true => cell
                .spread(store, Quantity::Throughput)
                .map(|spread| spread.median),
            false => cell
                .best(Quantity::Throughput, stores::is_peer)
                .map(|(_, s)| s.median),
        };
        let own = cell.spread(stores::OWN, Quantity::Throughput);
        let (Some(own), Some(best)) = (own, best.filter(|best| *best > 0.0)) else {
            continue;
        };
        let ratio = own.median / best;
        let key = format!("{}, {}", name.workload, name.data.unwrap_or_default());
        match workloads.iter_mut().find(|(other, _)| *other == key) {
            Some((_, ratios)) => ratios.push(ratio),
            None => workloads.push((key, vec![ratio])),
        }
    }
    let rows = workloads.into_iter().map(|(workload, ratios)| {
        let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ratios.iter().copied().fold(0.0, f64::max);
        vec![
            Entry::new(workload),
            ratio_entry(low, Quantity::Throughput),
            ratio_entry(high, Quantity::Throughput),
            Entry::new(ratios.len().to_string()),
        ]
    });
    let table = Table {
        caption: format!("EvenDB's throughput by that of {peer}"),
        heading: ["workload", "lowest", "highest", "numbers of threads"]
            .map(str::to_owned)
            .to_vec(),
        rows: rows.collect(),
    };
    (table, peer)
}
