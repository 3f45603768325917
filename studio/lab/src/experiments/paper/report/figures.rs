//! The paper's figures and tables, in its order, from all cells that there are.
//!
//! Each figure takes the cells of one experiment; `cells` says which figures share the cells of
//! another. Experiments that no figure knows come last, a section each, so that every cell is
//! shown.

use serde_json::Value;

use super::quantity::Quantity;
use super::run_results::{CellResults, RunResults};
use super::tables::{self, SpaceOf};
use crate::experiments::markdown::{Page, Table};

/// The cells of an experiment that a figure shows.
#[derive(Clone, Copy, Debug)]
enum Part {
    All,
    /// The cells with the largest data.
    Largest,
    /// The cells of a mix.
    Mix(&'static str),
}

/// A table of a figure.
#[derive(Clone, Copy, Debug)]
enum Shown {
    /// Under a caption, the stores side by side.
    Compared(&'static str, &'static [Quantity]),
    /// The throughput over time of the cells with the largest data.
    ThroughputCourses,
    /// The disk's blocks over time of the cells with the largest data.
    SpaceCourses(SpaceOf),
    ComponentShares,
    ComponentLatencies,
    ComponentTails,
    Skew,
}

struct PaperFigure {
    title: &'static str,
    /// What it shows, and what the paper found.
    words: &'static str,
    experiment: &'static str,
    part: Part,
    shows: &'static [Shown],
}

const RATES: Shown = Shown::Compared(
    "Throughput in thousands of operations a second (kop/s), debt charged; where there was any, without \
     it too",
    &[Quantity::RateWithDebt, Quantity::RateWithoutDebt],
);
const WRITTEN: Shown = Shown::Compared(
    "Bytes written by bytes handed in, debt included",
    &[Quantity::WriteAmplification],
);
const WRITE_CALLS: Shown = Shown::Compared(
    "Write system calls for a put, debt included; writes of a mapped log are no calls",
    &[Quantity::WriteCalls],
);
const SPACE: Shown = Shown::Compared("Bytes on the disk by bytes of data", &[Quantity::Space]);

const FIGURES: [PaperFigure; 15] = [
    PaperFigure {
        title: "Figure 3: ingestion",
        words: "Only puts, of events in the order of time. The paper: 256 GB in 1.1 hours, RocksDB \
                in 4.85 (4.4 times as long), with an even rate where RocksDB stalls, and a write \
                amplification that does not grow with the data.",
        experiment: "figure-3",
        part: Part::All,
        shows: &[RATES, Shown::ThroughputCourses, WRITTEN],
    },
    PaperFigure {
        title: "Table 2: resources of ingestion",
        words: "What the ingestion of the most data used, until nothing was owed any more. The \
                paper, 256 GB, EvenDB and RocksDB: 1.1 and 4.85 hours; 14.6 and 10.4 hours of CPU; \
                47.6 and 2053.5 GB read; 645.2 and 2660.4 GB written.",
        experiment: "figure-3",
        part: Part::Largest,
        shows: &[Shown::Compared(
            "Resources of the ingestion, debt included",
            &[
                Quantity::Seconds,
                Quantity::CpuSeconds,
                Quantity::ReadBytes,
                Quantity::WrittenBytes,
            ],
        )],
    },
    PaperFigure {
        title: "Figure 4: space",
        words: "The blocks of all files, after each ingestion and in its course; 1 is no waste. The \
                paper: logs grow linearly with the data, and both stores end 15 to 17 % above it.",
        experiment: "figure-3",
        part: Part::All,
        shows: &[
            SPACE,
            Shown::SpaceCourses(SpaceOf::AllFiles),
            Shown::SpaceCourses(SpaceOf::Logs),
        ],
    },
    PaperFigure {
        title: "Figure 5: analytics on the event log",
        words: "95 % scans of the last minute of one application and 5 % puts, straight after an \
                ingestion whose debt was not paid; the debt of both is charged here. The paper: done 20 to 30 % sooner than by RocksDB, which is slow for 10 \
                to 35 minutes first and then up to 23 % faster.",
        experiment: "figure-5",
        part: Part::All,
        shows: &[RATES, Shown::ThroughputCourses],
    },
    PaperFigure {
        title: "Figure 6: throughput of the mixes",
        words: "Each mix and distribution by the size of the data. What the paper says beside the \
                ratios in the table: faster than RocksDB in all of E with zipf-composite, up to 3.2 \
                times; nearly half as fast in A and F with zipf-simple and much data.",
        experiment: "figure-6",
        part: Part::All,
        shows: &[RATES],
    },
    PaperFigure {
        title: "Figure 7: write amplification of puts",
        words: "Bytes sent to storage for each byte put, with what is owed after the run paid and \
                charged. The paper, 64 GB, EvenDB and RocksDB: 1.3 and 3.1 zipf-composite, 1.1 and \
                7.6 uniform.",
        experiment: "figure-6",
        part: Part::Mix("P"),
        shows: &[WRITTEN, WRITE_CALLS],
    },
    PaperFigure {
        title: "Figure 8: tail latency",
        words: "The time within which 95 (the paper's), 99 and 99.9 of 100 gets and puts of mix A \
                were done. The paper: both faster than RocksDB's with zipf-composite; with \
                zipf-simple puts alike, and gets slower once the data are large.",
        experiment: "figure-6",
        part: Part::Mix("A"),
        shows: &[Shown::Compared(
            "Latencies of mix A",
            &[
                Quantity::Latency("get", "p95"),
                Quantity::Latency("put", "p95"),
                Quantity::Latency("get", "p99"),
                Quantity::Latency("put", "p99"),
                Quantity::Latency("get", "p99.9"),
                Quantity::Latency("put", "p99.9"),
            ],
        )],
    },
    PaperFigure {
        title: "Figure 9: what answers the gets",
        words: "Which part of EvenDB answered the gets of mix A. Munk, delta and row cache are \
                memory; log and SSTable may be reads from the disk; absent keys were in none. Of gets from memory one in \
                64 is timed, of the others each one's search of the disk. The \
                paper, 64 GB: 3.3 % from logs in 2.6 ms each (zipf-composite), 4 % in 4.2 ms \
                (zipf-simple); 4.5 and 32.8 % from the row cache.",
        experiment: "figure-6",
        part: Part::Mix("A"),
        shows: &[
            Shown::ComponentShares,
            Shown::ComponentLatencies,
            Shown::ComponentTails,
        ],
    },
    PaperFigure {
        title: "Reads: bytes and system calls of a get",
        words: "What one get of mix C fetches from the disk by what it hands back, and how many read calls it makes; reads \
                of mapped files are no calls. A draft of the paper, 64 GB, zipf-composite, EvenDB and RocksDB: 1.07 \
                and 0.95 times the bytes, 0.41 and 4.37 calls; 4 GB: 0 and 0.05, 0 and 3.84.",
        experiment: "figure-6",
        part: Part::Mix("C"),
        shows: &[Shown::Compared(
            "Bytes fetched from the disk by bytes handed back, and read calls for a get",
            &[Quantity::FetchedByReturned, Quantity::ReadCalls],
        )],
    },
    PaperFigure {
        title: "Figure 10: skew",
        words: "Throughput by the skew theta of the Zipf distribution: the larger, the fewer keys \
                take the operations. The paper: less skew is slower in both stores, for gets of \
                EvenDB more than for RocksDB's.",
        experiment: "figure-10",
        part: Part::All,
        shows: &[RATES],
    },
    PaperFigure {
        title: "Table 3: frequency of the top key",
        words: "How often the most popular key occurs, by the formulas of the distributions. The paper's row for \
                zipf-composite does not follow from its text: 2^14 first parts leave 4,883 keys to each.",
        experiment: "table-3",
        part: Part::All,
        shows: &[Shown::Skew],
    },
    PaperFigure {
        title: "Table 4: beside PebblesDB",
        words: "Throughput beside PebblesDB's by the number of threads. The paper, by PebblesDB: P \
                0.9 to 2.8 times, A 0.9 to 1.6, B and C 1.4 to 2.3, D 1 to 2, E 1 to 3.4, F 0.8 to \
                1.2, more with more threads.",
        experiment: "table-4",
        part: Part::All,
        shows: &[RATES],
    },
    PaperFigure {
        title: "Figure 11: threads",
        words: "Throughput by the number of worker threads. More threads than the machine has cores \
                cannot go faster unless they wait for the disk. The paper: 12 threads do 7.7 times \
                as many gets (C) as one.",
        experiment: "figure-11",
        part: Part::All,
        shows: &[RATES],
    },
    PaperFigure {
        title: "Figure 12: sensitivity to settings",
        words: "EvenDB with other settings than its defaults: how large a chunk's log may grow, and \
                into how many parts its Bloom filter is split, where of a part that may have the key one block of each run is read, or (as \
                in the paper) all of it up to the key. The paper: logs of 128 KB are three \
                times slower in A than the default 2 MB; 512 KB suit E100 best, by up to 20 %; 16 \
                parts are best.",
        experiment: "figure-12",
        part: Part::All,
        shows: &[RATES],
    },
    PaperFigure {
        title: "Load: putting the data in",
        words: "How fast the data of the other figures were put in, in the order of their keys. The \
                paper does not show this.",
        experiment: "load",
        part: Part::All,
        shows: &[RATES],
    },
];

/// Writes the sections in order.
pub fn add(page: &mut Page, results: &RunResults) {
    let of = |experiment: &str| -> Vec<&CellResults> {
        let cells = results.cells.iter();
        cells.filter(|cell| cell.experiment == experiment).collect()
    };
    let mut told: Vec<&str> = Vec::new();
    for figure in &FIGURES {
        let all = of(figure.experiment);
        let cells = part(&all, figure.part);
        let shown = figure
            .shows
            .iter()
            .map(|shown| table(*shown, &cells, results));
        let tables: Vec<Table> = shown.filter(|table| !table.rows.is_empty()).collect();
        if tables.is_empty() {
            continue;
        }
        page.heading(2, figure.title);
        page.paragraph(figure.words);
        for table in &tables {
            page.table(table);
        }
        if !told.contains(&figure.experiment) && !all.is_empty() {
            page.table(&tables::machine_use(&all));
            page.table(&tables::details(&all));
            told.push(figure.experiment);
        }
    }
    for cell in &results.cells {
        let name = cell.experiment.as_str();
        if !told.contains(&name) {
            told.push(name);
            page.heading(2, &format!("{name}: not in the paper"));
            page.table(&table(RATES, &of(name), results));
            page.table(&tables::machine_use(&of(name)));
            page.table(&tables::details(&of(name)));
        }
    }
}

fn part<'a>(cells: &[&'a CellResults], part: Part) -> Vec<&'a CellResults> {
    let most = cells.iter().map(|cell| cell.data_bytes).max();
    let wanted = |cell: &&&CellResults| match part {
        Part::All => true,
        Part::Largest => Some(cell.data_bytes) == most,
        Part::Mix(mix) => cell.mix == mix,
    };
    cells.iter().filter(wanted).copied().collect()
}

fn table(shown: Shown, cells: &[&CellResults], results: &RunResults) -> Table {
    let largest = || part(cells, Part::Largest);
    match shown {
        Shown::Compared(..) if cells.is_empty() => Table::default(),
        Shown::Compared(caption, quantities) => tables::compared(caption, cells, quantities),
        Shown::ThroughputCourses => tables::throughput_courses(&largest()),
        Shown::SpaceCourses(of) => tables::space_courses(&largest(), of),
        Shown::ComponentShares => tables::component_shares(cells),
        Shown::ComponentLatencies => tables::component_latencies(cells),
        Shown::ComponentTails => tables::component_tails(cells),
        Shown::Skew => skew(results),
    }
}

/// Table 3, if it was asked for: for the paper's largest data, and for the same data at the run's
/// scale.
fn skew(results: &RunResults) -> Table {
    if results.run.get("table_3").and_then(Value::as_bool) != Some(true) {
        return Table::default();
    }
    let value_bytes = results.run.get("value_bytes").and_then(Value::as_u64);
    let value_bytes = value_bytes.and_then(|bytes| usize::try_from(bytes).ok());
    tables::skew(4 * results.memory_bytes(), value_bytes.unwrap_or(800))
}
