//! Tables of cells.

use serde_json::Value;

use super::quantity::{CAUSES, PERCENTILES, Quantity, figure};
use super::run_results::{CellResults, StoreRounds, size, stores_of};
use super::stores;
use crate::dataset::Dataset;
use crate::distribution::{Distribution, DistributionKind};
use crate::experiments::markdown::{Entry, Table, or_dash, words};
use crate::readable::duration;

/// The figure of a store, or the word for why there is none.
fn entry(cell: &CellResults, store: &str, quantity: Quantity) -> Entry {
    let rounds = cell.stores.iter().find(|one| one.store == store);
    match cell.spread(store, quantity) {
        Some(spread) if quantity == Quantity::RateWithDebt => {
            marked(rounds, spread.show(quantity)).into()
        }
        Some(spread) => spread.show(quantity).into(),
        None if rounds.is_some_and(|one| one.measured().next().is_none()) => "skipped".into(),
        None => "-".into(),
    }
}

/// A rate, or a ratio of it, with a mark where the rate still fell at the end of these rounds.
pub fn marked(rounds: Option<&StoreRounds>, shown: String) -> String {
    let falling = rounds.map_or(0, StoreRounds::falling);
    match rounds.map_or(0, |one| one.measured().count()) {
        _ if falling == 0 => shown,
        1 => format!("{shown}, falls"),
        all => format!("{shown}, falls in {falling} of {all}"),
    }
}

/// A ratio as it is shown.
pub fn times(ratio: f64) -> String {
    format!("{}x", figure(ratio))
}

/// EvenDB's throughput divided by RocksDB's in the paper, over its sizes of data.
const PAPER_RATIOS: [(&str, &str, &str); 7] = [
    ("ingest", "event-log", "up to 4.4x"),
    ("scans", "event-log", "1.2x to 1.3x"),
    ("P", "zipf-composite", "1.3x to 2.3x"),
    ("P", "zipf-simple", "0.9x to 1.6x"),
    ("P", "uniform", "1.8x to 6.4x"),
    ("C", "zipf-composite", "1.1x to 2x"),
    ("C", "zipf-simple", "up to 1.9x"),
];

/// A row for each cell (and quantity, if there are several), a column for each store, and EvenDB's
/// ratio to the best peer. For throughput, also the ratio to RocksDB, here and in the paper. Rates
/// without debt have a row if there was a debt.
pub fn compared(caption: &str, cells: &[&CellResults], quantities: &[Quantity]) -> Table {
    let stores = stores_of(cells);
    let several = quantities.len() > 1;
    let with_peers = stores.iter().any(|store| stores::is_peer(store));
    let mut heading = words(["workload"]);
    heading.extend(several.then(|| "quantity".to_owned()));
    heading.extend(stores.iter().map(|store| (*store).to_owned()));
    if with_peers {
        heading.extend(words(["EvenDB / best peer", "best peer"]));
    }
    let with_paper = stores.contains(&"rocksdb") && quantities.contains(&Quantity::RateWithDebt);
    if with_paper {
        heading.extend(words(["EvenDB / rocksdb", "in the paper"]));
    }
    let mut rows = Vec::new();
    for cell in cells {
        for &quantity in quantities {
            if quantity == Quantity::RateWithoutDebt && !cell.had_debt() {
                continue;
            }
            let mut row: Vec<Entry> = vec![cell.label().into()];
            row.extend(several.then(|| quantity.name().into()));
            let best = cell
                .best(quantity, |_| stores.len() > 1)
                .map(|(store, _)| store);
            row.extend(stores.iter().map(|store| Entry {
                best: best == Some(store),
                ..entry(cell, store, quantity)
            }));
            if with_peers {
                let ratio = cell.ratio_to_best(quantity, stores::is_peer);
                row.push(or_dash(ratio.map(|(ratio, _)| times(ratio))));
                row.push(or_dash(ratio.map(|(_, peer)| peer.to_owned())));
            }
            if with_paper {
                let ratio = cell.ratio_to_best(quantity, |store| store == "rocksdb");
                row.push(or_dash(ratio.map(|(ratio, _)| times(ratio))));
                let said = PAPER_RATIOS
                    .iter()
                    .find(|(mix, distribution, _)| (*mix, *distribution) == cell.does());
                row.push(or_dash(said.map(|(.., ratio)| (*ratio).to_owned())));
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

/// A row for each cell and store that has any of `figures`, with a column for each figure.
fn by_store(
    caption: &str,
    cells: &[&CellResults],
    columns: Vec<String>,
    figures: impl Fn(&CellResults, &StoreRounds) -> Option<Vec<Entry>>,
) -> Table {
    let mut heading = words(["workload", "store"]);
    heading.extend(columns);
    let mut rows = Vec::new();
    for cell in cells {
        for one in &cell.stores {
            if let Some(figures) = figures(cell, one) {
                let mut row: Vec<Entry> = vec![cell.label().into(), one.store.as_str().into()];
                row.extend(figures);
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

/// What operations waited for, and how much of the machine was in use.
pub fn machine_use(cells: &[&CellResults]) -> Table {
    use Quantity::WriteRate;
    use Quantity::{CpuShare, DiskLimit, FetchedPerRead, IdealBytes, IdealHitRate};
    use Quantity::{MissesByIdeal, RateWithDebt, RateWithoutDebt, ReadHitRate, ReadRate};
    let mut all = vec![RateWithDebt, RateWithoutDebt, DiskLimit];
    all.extend([ReadHitRate, IdealBytes, IdealHitRate, MissesByIdeal]);
    all.extend(CAUSES.map(Quantity::Waited));
    all.extend([CpuShare, ReadRate, WriteRate, FetchedPerRead]);
    let caption = "What these operations waited for, and what of the machine was in use";
    medians(caption, cells, all)
}

/// Every further figure of the cells.
pub fn details(cells: &[&CellResults]) -> Table {
    use Quantity::{CpuMicros, HitRate, Latency, ReadAmplification, Resident};
    use Quantity::{RateWithDebt, Space, Stall, WriteAmplification};
    let mut all = vec![
        RateWithDebt,
        CpuMicros,
        WriteAmplification,
        ReadAmplification,
        Space,
    ];
    for kind in ["get", "put", "scan", "read-modify-write"] {
        all.extend(PERCENTILES.map(|percentile| Latency(kind, percentile)));
    }
    all.extend([Stall, HitRate, Resident]);
    let caption = "All figures of these cells: CPU time, amplification, latencies, memory";
    medians(caption, cells, all)
}

/// The medians of these quantities, with a row for each cell and store that was measured. Columns
/// without any figure are left out.
fn medians(caption: &str, cells: &[&CellResults], mut quantities: Vec<Quantity>) -> Table {
    let lines = || {
        let stores = cells.iter().flat_map(|cell| &cell.stores);
        stores.flat_map(StoreRounds::measured)
    };
    quantities.retain(|quantity| lines().any(|line| quantity.of(line).is_some()));
    let columns = quantities.iter().map(|quantity| quantity.name()).collect();
    by_store(caption, cells, columns, |cell, one| {
        one.measured().next()?;
        let median = |quantity: &Quantity| {
            let shown = quantity.show(cell.spread(&one.store, *quantity)?.median);
            Some(match quantity {
                Quantity::RateWithDebt => marked(Some(one), shown),
                _ => shown,
            })
        };
        let medians = quantities.iter().map(|quantity| or_dash(median(quantity)));
        Some(medians.collect())
    })
}

/// A course over the time of the first round of each store, as figures of each tenth of it.
/// `tenths` reads the seconds and the ten figures from the round's line.
fn courses(
    caption: &str,
    cells: &[&CellResults],
    tenths: impl Fn(&Value) -> Option<(f64, [f64; 10])>,
) -> Table {
    let mut columns = words(["seconds"]);
    columns.extend((1..=10).map(|tenth| tenth.to_string()));
    by_store(caption, cells, columns, |_, one| {
        let (seconds, tenths) = tenths(one.measured().next()?)?;
        let figures = std::iter::once(seconds).chain(tenths);
        Some(figures.map(|value| figure(value).into()).collect())
    })
}

/// How even the throughput was.
pub fn throughput_courses(cells: &[&CellResults]) -> Table {
    let caption = "Throughput in kop/s over the time of the first round, tenth by tenth";
    courses(caption, cells, |line| {
        throughput_tenths(&line["phase"]["course"])
    })
}

/// For a course of (end of the step in seconds, operations in it): the last end, and the mean rate
/// in each tenth in thousands a second. None if there are fewer than two steps.
fn throughput_tenths(course: &Value) -> Option<(f64, [f64; 10])> {
    let steps = course.as_array()?.iter();
    let steps: Vec<(f64, f64)> = steps
        .filter_map(|step| Some((step[0].as_f64()?, step[1].as_f64()?)))
        .collect();
    let end = steps
        .last()
        .filter(|last| steps.len() > 1 && last.0 > 0.0)?
        .0;
    // Operations until a moment. Operations within a step count as evenly spread.
    let until = |moment: f64| {
        let (mut done, mut start) = (0.0, 0.0);
        for &(end, count) in &steps {
            let share = (moment - start) / (end - start).max(f64::MIN_POSITIVE);
            done += count * share.clamp(0.0, 1.0);
            start = end;
        }
        done
    };
    let tenth = end / 10.0;
    let rate = |i: usize| until((i + 1) as f64 * tenth) - until(i as f64 * tenth);
    Some((end, std::array::from_fn(|i| rate(i) / tenth / 1e3)))
}

/// How the disk filled: all files, and the files that the store says are its logs.
pub fn space_courses(cells: &[&CellResults], of: SpaceOf) -> Table {
    let (caption, member) = match of {
        SpaceOf::AllFiles => (
            "GiB on the disk over the time of the first round, the most in each tenth",
            "bytes",
        ),
        SpaceOf::Logs => (
            "GiB of these in chunks' logs, of the stores that tell",
            "log_bytes",
        ),
    };
    courses(caption, cells, |line| {
        let course = &line["space_course"];
        let bytes = course[member].as_array()?.iter();
        let bytes: Vec<f64> = bytes.filter_map(Value::as_f64).collect();
        let most = |i: usize| {
            let to = ((i + 1) * bytes.len()).div_ceil(10);
            let tenth = &bytes[i * bytes.len() / 10..to];
            tenth.iter().copied().fold(0.0, f64::max) / f64::from(1 << 30)
        };
        let seconds = course["interval_seconds"].as_f64()? * bytes.len() as f64;
        (bytes.len() > 1).then(|| (seconds, std::array::from_fn(most)))
    })
}

/// What a course of space counts.
#[derive(Clone, Copy, Debug)]
pub enum SpaceOf {
    AllFiles,
    Logs,
}

/// The components that answer gets, in the order from memory to disk.
const COMPONENTS: [&str; 6] = ["munk", "delta", "row_cache", "log", "sstable", "absent"];

/// With fewer gets than this, a component's latency is not shown: one get in 64 is timed.
const COMPONENT_GETS_MIN: f64 = 640.0;

/// The component that answered gets, for stores that tell it.
pub fn component_shares(cells: &[&CellResults]) -> Table {
    let caption = "Shares of gets by the component that answered";
    by_component(caption, cells, percent, |line, component| {
        let shares = line["phase"]["get_shares"].as_object()?;
        let share = shares.get(component).and_then(Value::as_f64);
        (!shares.is_empty()).then(|| share.unwrap_or(0.0))
    })
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// The time of the gets that a component answered, for stores that tell it.
pub fn component_latencies(cells: &[&CellResults]) -> Table {
    let caption = "Mean latency of gets by the component that answered";
    by_component(caption, cells, duration, |line, component| {
        let figures = &line["phase"]["figures"];
        let gets = figures[format!("gets.{component}")].as_f64()?;
        let nanos = figures[format!("get_nanos_total.{component}")].as_f64()?;
        (gets >= COMPONENT_GETS_MIN && nanos > 0.0).then(|| nanos / gets)
    })
}

/// The percentiles of figure 9b.
const TAILS: [&str; 4] = ["p50", "p95", "p99", "p99.9"];

/// The tails of these latencies: medians of the rounds, each with its percentiles.
pub fn component_tails(cells: &[&CellResults]) -> Table {
    let caption = "Latency of gets by the component that answered: p50; p95; p99; p99.9";
    let columns = COMPONENTS.map(|name| name.replace('_', " ")).to_vec();
    by_store(caption, cells, columns, |cell, one| {
        let of = |component: &str| {
            let tails = TAILS.map(|percentile| {
                let spread = cell.spread_by(&one.store, |line| {
                    let latencies = &line["phase"]["component_latency_nanos"];
                    latencies[component][percentile].as_f64()
                });
                spread.map(|spread| duration(spread.median))
            });
            tails[0].as_ref()?;
            Some(
                tails
                    .map(|tail| tail.unwrap_or_else(|| "-".to_owned()))
                    .join("; "),
            )
        };
        let tails = COMPONENTS.map(of);
        (tails.iter().any(Option::is_some)).then(|| tails.map(or_dash).to_vec())
    })
}

/// The median of a figure of each component.
fn by_component(
    caption: &str,
    cells: &[&CellResults],
    show: fn(f64) -> String,
    figure: impl Fn(&Value, &str) -> Option<f64>,
) -> Table {
    let columns = COMPONENTS.map(|name| name.replace('_', " ")).to_vec();
    by_store(caption, cells, columns, |cell, one| {
        let median = |component| {
            let spread = cell.spread_by(&one.store, |line| figure(line, component))?;
            Some(show(spread.median))
        };
        let figures = COMPONENTS.map(median);
        (figures.iter().any(Option::is_some)).then(|| figures.map(or_dash).to_vec())
    })
}

/// The paper's table 3 for its 64 GB, simple and composite: hundredths of theta, and the frequency
/// of the top key in percent.
const PAPER_SKEW: [[(u64, f64); 5]; 2] = [
    [(99, 4.87), (95, 3.30), (90, 1.91), (85, 1.04), (80, 0.54)],
    [
        (99, 0.013),
        (95, 0.012),
        (90, 0.010),
        (85, 0.009),
        (80, 0.008),
    ],
];

/// The paper's largest data set.
const PAPER_BYTES: u64 = 64_000_000_000;

/// The frequency of the hottest key for the paper's distributions and skews, with the paper's data
/// and with data of `data_bytes`.
pub fn skew(data_bytes: u64, value_bytes: usize) -> Table {
    let sizes = [PAPER_BYTES, data_bytes.max(1)];
    let forms = [
        (DistributionKind::ZipfSimple, 0),
        (DistributionKind::ZipfComposite, 1),
        (DistributionKind::ZipfCompositeScaled, 1),
    ];
    let mut rows = Vec::new();
    for (kind, paper) in forms {
        for (hundredths, percent) in PAPER_SKEW[paper] {
            let theta = hundredths as f64 / 100.0;
            let mut row: Vec<Entry> = vec![format!("{kind}, theta {theta:.2}").into()];
            row.extend(sizes.map(|bytes| {
                // The paper counts values alone: 80 million of 800 bytes.
                let records = match bytes == PAPER_BYTES {
                    true => bytes / value_bytes.max(1) as u64,
                    false => Dataset::of_size(bytes, value_bytes.max(1), 1).records,
                };
                match Distribution::new(kind, records.max(1), theta, 1).top_frequency() * 100.0 {
                    here if here >= 0.1 => format!("{here:.2} %").into(),
                    here => format!("{here:.4} %").into(),
                }
            }));
            row.push(format!("{percent} %").into());
            rows.push(row);
        }
    }
    let mut heading = words(["distribution"]);
    heading.push("computed, 64 GB".to_owned());
    heading.push(format!("computed, {}", size(data_bytes)));
    heading.push("the paper, 64 GB".to_owned());
    Table {
        caption: "How often the most popular key occurs".to_owned(),
        heading,
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn courses_are_rates_of_their_tenths() {
        let even: Vec<_> = (1..=7).map(|i| json!([i, 2000])).collect();
        let (seconds, tenths) = throughput_tenths(&json!(even)).unwrap();
        assert_eq!(seconds, 7.0);
        let exact = tenths.iter().all(|rate| (rate - 2.0).abs() < 1e-9);
        assert!(exact, "{tenths:?}");
        // All operations are in the first half of two seconds; a step without a length takes no
        // time.
        let halves = json!([[1.0, 5000], [1.0, 0], [2.0, 0]]);
        let (_, tenths) = throughput_tenths(&halves).unwrap();
        let rounded: Vec<u64> = tenths.iter().map(|rate| rate.round() as u64).collect();
        assert_eq!(rounded, [5, 5, 5, 5, 5, 0, 0, 0, 0, 0]);
        for none in [
            json!(null),
            json!([]),
            json!([[1, 2]]),
            json!([["x"]]),
            json!([[0, 1], [0, 1]]),
        ] {
            assert_eq!(throughput_tenths(&none), None, "{none}");
        }
    }
}
