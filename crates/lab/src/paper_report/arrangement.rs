//! The paper's figures and tables, in its order, from whatever cells there are.
//!
//! Each figure takes the cells of its own experiment; one that has none takes those of another that
//! measured the same (write amplification of figure 7 from the P cells of figure 6, ...). What no
//! figure knows comes last, an experiment a section, so that every cell is shown.

use super::document::{Block, Places, Section, Shape};
use super::quantity::{Percentile, Quantity};
use super::results::{Cell, Results};
use super::series::{Axis, courses, named, panels, shares, space_courses};
use super::tables::{
    component_latencies_table, details, quantities, resources, shares_table, skew, versus,
};

const COMPARED: &str = "Tables: medians with the range of rounds below; the best store of a row is \
                        bold; the last columns divide EvenDB's figure by the best peer's.";

/// The sections in order.
#[must_use]
pub fn sections(results: &Results) -> Vec<Section> {
    let mut arranger = Arranger {
        results,
        shown: Vec::new(),
        sections: Vec::new(),
    };
    arranger.ingest();
    arranger.space();
    arranger.analytics();
    arranger.mixes();
    arranger.write_amplification();
    arranger.tails();
    arranger.breakdown();
    arranger.skew();
    arranger.pebbles();
    arranger.threads();
    arranger.parameters();
    arranger.load();
    arranger.others();
    arranger.sections
}

struct Arranger<'a> {
    results: &'a Results,
    shown: Vec<&'a Cell>,
    sections: Vec<Section>,
}

/// Whether an experiment is this one or a part of it: `figure-12` has `figure-12a`, not `figure-1`.
fn is_part(experiment: &str, name: &str) -> bool {
    let rest = experiment.strip_prefix(name);
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn text(words: &str) -> Block {
    Block::Text(words.to_owned())
}

impl<'a> Arranger<'a> {
    fn of(&self, names: &[&str]) -> Vec<&'a Cell> {
        let wanted = |cell: &&Cell| names.iter().any(|name| is_part(&cell.experiment, name));
        self.sorted(self.results.cells.iter().filter(wanted))
    }

    /// The cells of the default settings that do this mix, from the first experiment that has any.
    fn doing(&self, mix: &str) -> Vec<&'a Cell> {
        for experiment in ["figure-6", "figure-3"] {
            let mut cells = self.of(&[experiment]);
            cells.retain(|cell| cell.mix.as_deref() == Some(mix) && cell.variant.is_none());
            if !cells.is_empty() {
                return cells;
            }
        }
        Vec::new()
    }

    fn sorted(&self, cells: impl Iterator<Item = &'a Cell>) -> Vec<&'a Cell> {
        let mut cells: Vec<&Cell> = cells.collect();
        cells.sort_by_key(|cell| named(cell).order());
        cells
    }

    /// Adds a section, with the details of those of its cells that no section before had.
    fn section(&mut self, short: &str, title: &str, cells: &[&'a Cell], mut blocks: Vec<Block>) {
        let is_new = |cell: &&&Cell| !self.shown.iter().any(|seen| std::ptr::eq(*seen, **cell));
        let fresh: Vec<&Cell> = cells.iter().filter(is_new).copied().collect();
        if !fresh.is_empty() {
            blocks.push(Block::Folded(details(&fresh, self.results)));
            self.shown.extend(&fresh);
        }
        blocks.retain(|block| match block {
            Block::Panels(panels) => !panels.is_empty(),
            Block::Table(table) | Block::Folded(table) => !table.rows.is_empty(),
            Block::Text(_) | Block::List(_) => true,
        });
        self.sections.push(Section {
            title: format!("{short}: {title}"),
            short: short.to_owned(),
            blocks,
        });
    }

    fn rates(&self, cells: &[&'a Cell]) -> Block {
        let caption = "Throughput in thousands of operations a second (kop/s)";
        Block::Table(quantities(
            caption,
            cells,
            &[Quantity::Throughput],
            self.results,
        ))
    }

    fn ingest(&mut self) {
        let cells = self.of(&["figure-3", "event-log-ingest"]);
        if !cells.is_empty() {
            let mut plots = panels(&cells, Quantity::Throughput, Axis::Data);
            plots.extend(courses(&largest(&cells)));
            plots.extend(panels(&cells, Quantity::WriteAmplification, Axis::Data));
            let caption = "Bytes written by bytes handed in, debt included";
            let written = quantities(
                caption,
                &cells,
                &[Quantity::WriteAmplification],
                self.results,
            );
            let blocks = vec![
                text(
                    "Only puts. How fast each store takes the data (higher is better), how evenly \
                     it does so over the time of the run with the most data (a flat line is \
                     better), and how many bytes it writes for each byte it is given (lower is \
                     better).",
                ),
                text(COMPARED),
                Block::Panels(plots),
                self.rates(&cells),
                Block::Table(written),
            ];
            self.section("Figure 3", "ingestion", &cells, blocks);
        }
        let own = self.of(&["table-2"]);
        let cells = if own.is_empty() { largest(&cells) } else { own };
        if !cells.is_empty() {
            let blocks = vec![
                text(
                    "What the run with the most data used, until nothing was owed any more: time, \
                     CPU time of the whole process, bytes fetched from and sent to storage (lower \
                     is better).",
                ),
                Block::Table(resources(&cells)),
            ];
            self.section("Table 2", "resources of ingestion", &cells, blocks);
        }
    }

    fn space(&mut self) {
        let own = self.of(&["figure-4"]);
        let cells = if own.is_empty() {
            self.of(&["figure-3", "event-log-ingest"])
        } else {
            own
        };
        let table = quantities(
            "Bytes on the disk by bytes of data",
            &cells,
            &[Quantity::Space],
            self.results,
        );
        if cells.iter().any(|cell| has(cell, Quantity::Space)) {
            let mut plots = space_courses(&largest(&cells));
            plots.extend(panels(&cells, Quantity::Space, Axis::Data));
            let blocks = vec![
                text(
                    "The blocks of all files: over the time of the ingestion with the most data, and \
                     after each, divided by the size of the data (lower is better; 1 is no waste).",
                ),
                Block::Panels(plots),
                Block::Table(table),
            ];
            self.section("Figure 4", "space", &cells, blocks);
        }
    }

    fn analytics(&mut self) {
        let cells = self.of(&["figure-5", "event-log-scans"]);
        if cells.is_empty() {
            return;
        }
        let mut plots = courses(&cells);
        plots.extend(panels(&cells, Quantity::Throughput, Axis::Data));
        let blocks = vec![
            text(
                "95 % scans of the last minute of one application and 5 % puts, straight after the \
                 ingestion: operations a second over time (a store with compactions to catch up on \
                 starts low), and their mean (higher is better).",
            ),
            text(COMPARED),
            Block::Panels(plots),
            self.rates(&cells),
        ];
        self.section("Figure 5", "analytics on the event log", &cells, blocks);
    }

    fn mixes(&mut self) {
        let cells = self.of(&["figure-6"]);
        if cells.is_empty() {
            return;
        }
        let blocks = vec![
            text(
                "One plot for each mix and distribution: operations a second (higher is better) \
                 over the size of the data. To the right the data no longer fit in memory. The \
                 summary says what the names of workloads mean.",
            ),
            text(COMPARED),
            Block::Panels(panels(&cells, Quantity::Throughput, Axis::Data)),
            self.rates(&cells),
        ];
        self.section("Figure 6", "throughput of the mixes", &cells, blocks);
    }

    fn write_amplification(&mut self) {
        let own = self.of(&["figure-7"]);
        let cells = if own.is_empty() { self.doing("P") } else { own };
        if !cells
            .iter()
            .any(|cell| has(cell, Quantity::WriteAmplification))
            && cells.is_empty()
        {
            return;
        }
        let quantity = Quantity::WriteAmplification;
        let caption = "Bytes written by bytes handed in, debt included";
        let blocks = vec![
            text(
                "Bytes sent to storage for each byte put, with what is owed after the run paid and \
                 charged (lower is better; 1 is the least a store can write that keeps every put).",
            ),
            Block::Panels(panels(&cells, quantity, Axis::Data)),
            Block::Table(quantities(caption, &cells, &[quantity], self.results)),
        ];
        self.section("Figure 7", "write amplification of puts", &cells, blocks);
    }

    fn tails(&mut self) {
        let own = self.of(&["figure-8"]);
        let cells = if own.is_empty() { self.doing("A") } else { own };
        if cells.is_empty() {
            return;
        }
        let of = |percentile| ["get", "put"].map(|kind| Quantity::Latency(kind, percentile));
        let plots = of(Percentile::P95)
            .into_iter()
            .flat_map(|quantity| panels(&cells, quantity, Axis::Data));
        let rare: Vec<Quantity> = [Percentile::P99, Percentile::P999]
            .into_iter()
            .flat_map(of)
            .collect();
        let blocks = vec![
            text(
                "The time within which 95 of 100 gets, and 95 of 100 puts, of mix A were done \
                 (lower is better), over the size of the data; a ratio below 1 says that EvenDB is \
                 faster. The rarer, slower ones are in the table that is folded away.",
            ),
            Block::Panels(plots.collect()),
            Block::Table(quantities(
                "95 of 100 within",
                &cells,
                &of(Percentile::P95),
                self.results,
            )),
            Block::Folded(quantities(
                "99 and 99.9 of 100 within",
                &cells,
                &rare,
                self.results,
            )),
        ];
        self.section("Figure 8", "tail latency", &cells, blocks);
    }

    fn breakdown(&mut self) {
        let own = self.of(&["figure-9"]);
        let cells = if own.is_empty() { self.doing("A") } else { own };
        let plots = shares(&cells);
        if plots.is_empty() && self.of(&["figure-9"]).is_empty() {
            return;
        }
        let mut blocks = vec![
            text(
                "Which part of EvenDB answered the gets, as shares of all. Munk, delta and row cache \
                 are memory; log and SSTable may be reads from the disk; absent keys were in none. \
                 Stores that do not tell are missing.",
            ),
            Block::Panels(plots),
            Block::Table(shares_table(&cells)),
        ];
        let latencies = component_latencies_table(&cells);
        if !latencies.rows.is_empty() {
            blocks.push(Block::Table(latencies));
        }
        self.section("Figure 9", "who answers the gets", &cells, blocks);
    }

    fn skew(&mut self) {
        let cells = self.of(&["figure-10"]);
        if !cells.is_empty() {
            let blocks = vec![
                text(
                    "Operations a second (higher is better) over the skew theta of the Zipf \
                     distribution: to the right the operations fall on fewer keys.",
                ),
                text(COMPARED),
                Block::Panels(panels(&cells, Quantity::Throughput, Axis::Theta)),
                self.rates(&cells),
            ];
            self.section("Figure 10", "skew", &cells, blocks);
        }
        let measured = self.of(&["table-3"]);
        let blocks = vec![
            text(
                "How often the most popular key occurs, computed for the sizes of figure 10, beside \
                 the paper's own figures for 64 GB.",
            ),
            Block::Table(skew(&cells, self.results)),
        ];
        if !measured.is_empty()
            || matches!(&blocks[1], Block::Table(table) if !table.rows.is_empty())
        {
            self.section("Table 3", "frequency of the top key", &measured, blocks);
        }
    }

    fn pebbles(&mut self) {
        let own = self.of(&["table-4"]);
        let cells = if own.is_empty() {
            self.of(&["figure-11"])
        } else {
            own
        };
        let (table, peer) = versus(&cells, "pebblesdb");
        if cells.is_empty() {
            return;
        }
        let mut blocks = vec![text(&format!(
            "EvenDB's operations a second divided by those of {peer}, lowest to highest over the \
             numbers of threads (above 1 EvenDB is faster)."
        ))];
        if !self.of(&["table-4"]).is_empty() {
            blocks.push(Block::Panels(panels(
                &cells,
                Quantity::Throughput,
                Axis::Threads,
            )));
            blocks.push(self.rates(&cells));
        }
        blocks.insert(1, Block::Table(table));
        self.section("Table 4", &format!("beside {peer}"), &cells, blocks);
    }

    fn threads(&mut self) {
        let cells = self.of(&["figure-11"]);
        if cells.is_empty() {
            return;
        }
        let blocks = vec![
            text(
                "Operations a second (higher is better) over the number of worker threads. More \
                 threads than the machine has cores cannot go faster unless they wait for the disk.",
            ),
            text(COMPARED),
            Block::Panels(panels(&cells, Quantity::Throughput, Axis::Threads)),
            self.rates(&cells),
        ];
        self.section("Figure 11", "threads", &cells, blocks);
    }

    fn parameters(&mut self) {
        let cells = self.of(&["figure-12"]);
        if cells.is_empty() {
            return;
        }
        let blocks = vec![
            text(
                "EvenDB with other settings than its defaults: how large a chunk's log may grow, \
                 and into how many parts its Bloom filter is split (higher is better; a flat line \
                 says that the setting hardly matters).",
            ),
            Block::Panels(panels(&cells, Quantity::Throughput, Axis::Variant)),
            self.rates(&cells),
        ];
        self.section("Figure 12", "sensitivity to settings", &cells, blocks);
    }

    fn load(&mut self) {
        let cells = self.of(&["load"]);
        if cells.is_empty() {
            return;
        }
        let blocks = vec![
            text(
                "How fast the data of the other figures were put in, in the order of their keys \
                 (higher is better). The paper does not show this.",
            ),
            text(COMPARED),
            Block::Panels(panels(&cells, Quantity::Throughput, Axis::Data)),
            self.rates(&cells),
        ];
        self.section("Load", "putting the data in", &cells, blocks);
    }

    /// What no figure knew, an experiment a section.
    fn others(&mut self) {
        let is_shown =
            |cell: &Cell, shown: &[&Cell]| shown.iter().any(|seen| std::ptr::eq(*seen, cell));
        let mut names: Vec<&str> = Vec::new();
        for cell in &self.results.cells {
            if !is_shown(cell, &self.shown) && !names.contains(&cell.experiment.as_str()) {
                names.push(&cell.experiment);
            }
        }
        for name in names {
            let cells = self
                .results
                .cells
                .iter()
                .filter(|cell| cell.experiment == name);
            let cells: Vec<&Cell> = cells.filter(|cell| !is_shown(cell, &self.shown)).collect();
            let blocks = vec![
                text("Operations a second by cell (higher is better)."),
                text(COMPARED),
                Block::Panels(panels(&cells, Quantity::Throughput, Axis::Cell)),
                self.rates(&cells),
            ];
            self.section(name, "not in the paper", &cells, blocks);
        }
    }
}

fn has(cell: &Cell, quantity: Quantity) -> bool {
    (cell.stores.iter()).any(|one| cell.spread(&one.store, quantity).is_some())
}

/// Those with the most data.
fn largest<'a>(cells: &[&'a Cell]) -> Vec<&'a Cell> {
    let most = cells.iter().filter_map(|cell| cell.data_bytes).max();
    let wanted = |cell: &&&Cell| cell.data_bytes == most;
    cells.iter().filter(wanted).copied().collect()
}

/// Whether a panel of named places has something to join by lines.
#[must_use]
pub fn shape_for(places: &Places) -> Shape {
    match places {
        Places::Named(names) if names.len() < 2 => Shape::Bars,
        _ => Shape::Lines,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper_report::fixture;

    #[test]
    fn parts_of_an_experiment_are_not_its_tenfold() {
        assert!(is_part("figure-12a", "figure-12") && is_part("figure-3", "figure-3"));
        assert!(!is_part("figure-12", "figure-1") && !is_part("table-2", "figure-2"));
    }

    #[test]
    fn sections_are_in_the_papers_order() {
        let results = fixture::results();
        let names: Vec<String> = sections(&results)
            .into_iter()
            .map(|section| section.short)
            .collect();
        let expected = [
            "Figure 3",
            "Table 2",
            "Figure 4",
            "Figure 5",
            "Figure 6",
            "Figure 7",
            "Figure 8",
            "Figure 9",
            "Figure 10",
            "Table 3",
            "Table 4",
            "Figure 11",
            "Figure 12",
            "Load",
        ];
        assert_eq!(names[..expected.len()], expected);
        assert_eq!(names[expected.len()..], [fixture::HOSTILE]);
    }
}
