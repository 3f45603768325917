//! The cells of the paper's evaluation, each one measured phase, and how they share data.
//!
//! A cell belongs to one experiment, named after the paper's figure that asks for it. Figures that
//! show the same phases in another way are made from the same cells: figure 7 (write amplification)
//! from P's in figure 6, figures 8 and 9 (latencies and what serves gets) from A's in figure 6,
//! figure 4 (space) and table 2 (resources) from figure 3's. The drafts' table of reads is made
//! from C's. Table 3 is about the distributions alone: it has no cells.
//!
//! All sizes are multiples of the memory, which was 16 GiB in the paper: everything scales
//! together.

use crate::distribution::DistributionKind;
use crate::mix::{LoadOrder, Mix};
use crate::opener::Variant;
use crate::stores::undone;
use std::fmt;

/// The paper's memory.
pub const PAPER_MEMORY_BYTES: u64 = 16 << 30;
/// The paper's data sets of records, 4 to 64 GB, divided by its memory.
const SIZES: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];
const SIZES_QUICK: [f64; 2] = [0.5, 4.0];
/// The paper's event logs, 64 to 256 GB, divided by its memory.
const INGESTS: [f64; 3] = [4.0, 8.0, 16.0];
const INGESTS_QUICK: [f64; 1] = [4.0];
/// Figures 10 to 12: 64 GB. Table 4: 32 GB.
const LARGE: f64 = 4.0;
const TABLE_4_SIZE: f64 = 2.0;
/// Figure 10's skews.
const THETAS: [f64; 5] = [0.99, 0.95, 0.90, 0.85, 0.80];
const THREADS: [usize; 5] = [1, 2, 4, 8, 12];
const THREADS_QUICK: [usize; 3] = [1, 2, 4];
/// Log limits of a chunk that is not in RAM; the paper's default is 2 MiB.
const LOG_BYTES: [u64; 6] = [128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];
const SPLIT_FACTORS: [usize; 6] = [1, 2, 4, 8, 16, 32];
const COMPOSITE_AND_SIMPLE: [DistributionKind; 2] = [
    DistributionKind::ZipfComposite,
    DistributionKind::ZipfSimple,
];

/// The composite distribution with ranges of the paper's size. It is measured beside the other one
/// wherever data is scaled down.
const SCALED: DistributionKind = DistributionKind::ZipfCompositeScaled;

/// Composite forms that belong to a figure only if they are named.
const FURTHER_COMPOSITES: [DistributionKind; 3] = [
    SCALED,
    DistributionKind::ZipfCompositeSuffix,
    DistributionKind::ZipfCompositeContiguous,
];

/// What a user can ask for by `--figures`. `reads` is the drafts' table of bytes and system calls
/// for a get.
pub const FIGURES: [&str; 14] = [
    "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "table-2", "table-3", "table-4", "reads",
];

/// The further figure that a user may ask for, and must name: what each departure from the paper's
/// design brings.
pub const DEPARTURES: &str = "departures";

/// What one phase does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// Puts all records.
    Load(LoadOrder),
    /// A mix over what was loaded.
    Mix {
        mix: Mix,
        distribution: DistributionKind,
        theta: f64,
    },
    /// Puts an event log in the order of time.
    Ingest,
    /// Queries the last minute of apps and puts on.
    Analytics,
}

impl Work {
    /// Whether the phase needs data that was read before.
    pub fn reads(self) -> bool {
        matches!(self, Work::Mix { mix, .. } if mix != Mix::P)
    }

    /// The name in results, and the order in which it goes through the records.
    pub fn names(self) -> (String, &'static str) {
        match self {
            Work::Load(order) => ("load".to_owned(), order.name()),
            Work::Mix {
                mix, distribution, ..
            } => (mix.to_string(), distribution.name()),
            Work::Ingest => ("ingest".to_owned(), "event-log"),
            Work::Analytics => ("scans".to_owned(), "event-log"),
        }
    }
}

/// One phase of one experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The experiment's name in results and reports.
    pub experiment: &'static str,
    pub work: Work,
    /// Bytes of keys and values that were loaded before, or are ingested.
    pub data_bytes: u64,
    pub threads: usize,
    /// EvenDB with one option changed.
    pub variant: Option<Variant>,
}

impl Cell {
    /// Whether only some stores are asked.
    pub fn concerns(&self, store: &str) -> bool {
        match self.experiment {
            // EvenDB's scaling and its options.
            "figure-12" => store == "evendb",
            DEPARTURES => store == "evendb" || undone::words(store).is_some(),
            "table-4" => matches!(store, "evendb" | "pebblesdb" | "rocksdb"),
            _ => true,
        }
    }

    /// The cells that share one loaded store with it: the cells of the same data.
    pub fn family(&self) -> Family {
        let data = match self.work {
            Work::Ingest => Data::Events,
            Work::Analytics => Data::EventsUnpaid,
            Work::Load(_) | Work::Mix { .. } => Data::Records,
        };
        Family {
            data,
            data_bytes: self.data_bytes,
            variant: self.variant,
        }
    }

    /// The place among the phases of a family: a phase that changes the data more comes later.
    fn order(&self) -> usize {
        let Work::Mix {
            mix, distribution, ..
        } = self.work
        else {
            return 0;
        };
        match mix {
            Mix::C => 2,
            Mix::E(_) => 3,
            Mix::B => 4,
            Mix::F => 5,
            Mix::A => 6,
            Mix::P if distribution != DistributionKind::Uniform => 7,
            Mix::P => 8,
            // Makes the data set larger.
            Mix::D => 9,
        }
    }

    /// The cell's name, unique within its experiment.
    pub fn name(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = crate::readable::bytes(self.data_bytes);
        match self.work {
            Work::Load(_) => write!(f, "load/{size}")?,
            Work::Ingest => write!(f, "ingest/{size}")?,
            Work::Analytics => write!(f, "scans/{size}")?,
            Work::Mix {
                mix,
                distribution,
                theta,
            } => {
                write!(f, "{mix}/{distribution}/{size}")?;
                if self.experiment == "figure-10" {
                    write!(f, "/theta {theta:.2}")?;
                }
            }
        }
        if matches!(self.experiment, "figure-11" | "table-4") {
            write!(f, "/{} threads", self.threads)?;
        }
        match self.variant {
            Some(variant) => write!(f, "/{variant}"),
            None => Ok(()),
        }
    }
}

/// The data that a store is loaded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Records, in one order or another.
    Records,
    /// An event log. The debt of its ingestion is paid and charged to it.
    Events,
    /// An event log. The debt of its ingestion is unpaid when the next phase begins, and charged to
    /// that phase.
    EventsUnpaid,
}

/// What the cells of one loaded store have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Family {
    pub data: Data,
    pub data_bytes: u64,
    pub variant: Option<Variant>,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.data {
            Data::Records => "records",
            Data::Events => "events",
            Data::EventsUnpaid => "events, debt unpaid",
        };
        write!(f, "{} of {what}", crate::readable::bytes(self.data_bytes))?;
        match self.variant {
            Some(variant) => write!(f, ", {variant}"),
            None => Ok(()),
        }
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub figures: Vec<String>,
    /// The mixes; all of the paper's if empty.
    pub mixes: Vec<Mix>,
    /// The distributions; if empty, the ones of each figure.
    pub distributions: Vec<DistributionKind>,
    /// The skew, unless a figure varies it.
    pub theta: f64,
    /// The sizes of the data in bytes; the paper's if empty.
    pub sizes: Vec<u64>,
    pub ingests: Vec<u64>,
    pub load_order: LoadOrder,
    pub memory_bytes: u64,
    pub threads: usize,
    pub quick: bool,
    /// Scans after the phases that write, instead of before them.
    pub scans_last: bool,
}

impl Wanted {
    pub fn has(&self, figures: &[&str]) -> bool {
        figures
            .iter()
            .any(|figure| self.figures.iter().any(|wanted| wanted == figure))
    }

    fn bytes(&self, share: f64) -> u64 {
        (self.memory_bytes as f64 * share) as u64
    }

    fn sizes(&self) -> Vec<u64> {
        let shares: &[f64] = if self.quick { &SIZES_QUICK } else { &SIZES };
        match self.sizes.is_empty() {
            true => shares.iter().map(|&share| self.bytes(share)).collect(),
            false => self.sizes.clone(),
        }
    }

    fn ingests(&self) -> Vec<u64> {
        let shares: &[f64] = if self.quick { &INGESTS_QUICK } else { &INGESTS };
        match self.ingests.is_empty() {
            true => shares.iter().map(|&share| self.bytes(share)).collect(),
            false => self.ingests.clone(),
        }
    }

    fn takes(&self, mix: Mix, distribution: DistributionKind) -> bool {
        (self.mixes.is_empty() || self.mixes.contains(&mix))
            && (self.distributions.is_empty() || self.distributions.contains(&distribution))
    }

    /// The cells, in the order in which they are run: family by family.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        self.figure_6(&mut cells);
        self.figure_10(&mut cells);
        self.figure_11(&mut cells);
        self.table_4(&mut cells);
        self.figure_12(&mut cells);
        self.departures(&mut cells);
        self.events(&mut cells);
        let mut families: Vec<Family> = Vec::new();
        for cell in &cells {
            if !families.contains(&cell.family()) {
                families.push(cell.family());
            }
        }
        let mut ordered: Vec<Cell> = Vec::new();
        for family in families {
            if family.data == Data::Records {
                ordered.push(Cell {
                    experiment: "load",
                    work: Work::Load(self.load_order),
                    data_bytes: family.data_bytes,
                    threads: self.threads,
                    variant: family.variant,
                });
            }
            let mut own: Vec<Cell> = cells
                .iter()
                .filter(|cell| cell.family() == family)
                .copied()
                .collect();
            own.sort_by_key(|cell| {
                let scans = matches!(cell.work, Work::Mix { mix: Mix::E(_), .. });
                (scans && self.scans_last, cell.order())
            });
            ordered.extend(own);
        }
        ordered
    }

    /// The distributions of a figure: its own, and the further composite forms that were asked for
    /// by name. `takes` then keeps the ones that were asked for.
    fn shapes(&self, own: &[DistributionKind]) -> Vec<DistributionKind> {
        let asked = self.distributions.iter();
        let asked = asked.filter(|kind| FURTHER_COMPOSITES.contains(kind) && !own.contains(kind));
        own.iter().chain(asked).copied().collect()
    }

    fn mix(&self, experiment: &'static str, mix: Mix, wanted: DistributionKind) -> Cell {
        Cell {
            experiment,
            work: Work::Mix {
                mix,
                distribution: mix.distribution(wanted),
                theta: self.theta,
            },
            data_bytes: self.bytes(LARGE),
            threads: self.threads,
            variant: None,
        }
    }

    fn figure_6(&self, cells: &mut Vec<Cell>) {
        use Mix::{A, B, C, D, E, F, P};
        for data_bytes in self.sizes() {
            for mix in [P, A, B, C, D, E(10), E(100), E(1000), F] {
                let shown = self.has(&["6"])
                    || (mix == P && self.has(&["7"]))
                    || (mix == A && self.has(&["8", "9"]))
                    || (mix == C && self.has(&["reads"]));
                let [composite, simple] = COMPOSITE_AND_SIMPLE;
                let own: &[DistributionKind] = match mix {
                    P => &[composite, SCALED, simple, DistributionKind::Uniform],
                    D => &[DistributionKind::Latest],
                    _ => &[composite, SCALED, simple],
                };
                let shapes = match mix {
                    D => own.to_vec(),
                    _ => self.shapes(own),
                };
                for distribution in shapes {
                    if shown && self.takes(mix, distribution) {
                        let cell = self.mix("figure-6", mix, distribution);
                        cells.push(Cell { data_bytes, ..cell });
                    }
                }
            }
        }
    }

    fn figure_10(&self, cells: &mut Vec<Cell>) {
        if !self.has(&["10"]) {
            return;
        }
        for wanted_theta in THETAS {
            for mix in [Mix::P, Mix::A, Mix::C, Mix::E(100)] {
                for kind in self.shapes(&COMPOSITE_AND_SIMPLE) {
                    let mut cell = self.mix("figure-10", mix, kind);
                    if let Work::Mix { theta, .. } = &mut cell.work {
                        *theta = wanted_theta;
                    }
                    if self.takes(mix, kind) {
                        cells.push(cell);
                    }
                }
            }
        }
    }

    fn thread_counts(&self) -> &'static [usize] {
        if self.quick { &THREADS_QUICK } else { &THREADS }
    }

    fn figure_11(&self, cells: &mut Vec<Cell>) {
        if !self.has(&["11"]) {
            return;
        }
        for &threads in self.thread_counts() {
            for mix in [Mix::A, Mix::C, Mix::P] {
                for kind in self.shapes(&COMPOSITE_AND_SIMPLE) {
                    let cell = self.mix("figure-11", mix, kind);
                    if self.takes(mix, kind) {
                        cells.push(Cell { threads, ..cell });
                    }
                }
            }
        }
    }

    fn table_4(&self, cells: &mut Vec<Cell>) {
        use Mix::{A, B, C, D, E, F, P};
        if !self.has(&["table-4"]) {
            return;
        }
        for &threads in self.thread_counts() {
            for mix in [P, A, B, C, D, E(10), E(100), E(1000), F] {
                let cell = self.mix("table-4", mix, DistributionKind::ZipfSimple);
                let data_bytes = self.bytes(TABLE_4_SIZE);
                if self.takes(mix, mix.distribution(DistributionKind::ZipfSimple)) {
                    cells.push(Cell {
                        threads,
                        data_bytes,
                        ..cell
                    });
                }
            }
        }
    }

    fn figure_12(&self, cells: &mut Vec<Cell>) {
        if !self.has(&["12"]) {
            return;
        }
        let mut push = |mix, kind, variant| {
            let variant = Some(variant);
            if self.takes(mix, kind) {
                cells.push(Cell {
                    variant,
                    ..self.mix("figure-12", mix, kind)
                });
            }
        };
        for bytes in LOG_BYTES {
            for mix in [Mix::A, Mix::E(100)] {
                push(
                    mix,
                    DistributionKind::ZipfComposite,
                    Variant::LogBytes(bytes),
                );
            }
        }
        for factor in SPLIT_FACTORS {
            for kind in COMPOSITE_AND_SIMPLE {
                push(Mix::A, kind, Variant::BloomSplit(factor));
                push(Mix::A, kind, Variant::BloomLinear(factor));
            }
        }
    }

    fn departures(&self, cells: &mut Vec<Cell>) {
        if !self.has(&[DEPARTURES]) {
            return;
        }
        let sizes = match self.sizes.is_empty() {
            true => vec![self.bytes(LARGE)],
            false => self.sizes.clone(),
        };
        for data_bytes in sizes {
            for mix in [Mix::A, Mix::C, Mix::E(100), Mix::P] {
                for kind in self.shapes(&COMPOSITE_AND_SIMPLE) {
                    let cell = self.mix(DEPARTURES, mix, kind);
                    if self.takes(mix, kind) {
                        cells.push(Cell { data_bytes, ..cell });
                    }
                }
            }
        }
    }

    fn events(&self, cells: &mut Vec<Cell>) {
        let ingest = self.has(&["3", "4", "table-2"]);
        let scans = self.has(&["5"]);
        for data_bytes in self.ingests() {
            for (wanted, experiment, work) in [
                (ingest, "figure-3", Work::Ingest),
                (scans, "figure-5", Work::Analytics),
            ] {
                if wanted {
                    cells.push(Cell {
                        experiment,
                        work,
                        data_bytes,
                        threads: self.threads,
                        variant: None,
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::THETA_DEFAULT;
    use std::collections::HashSet;

    fn wanted(figures: &[&str]) -> Wanted {
        Wanted {
            figures: figures.iter().map(|&figure| figure.to_owned()).collect(),
            mixes: vec![],
            distributions: vec![],
            theta: THETA_DEFAULT,
            sizes: vec![],
            ingests: vec![],
            load_order: LoadOrder::Key,
            memory_bytes: 1 << 30,
            threads: 4,
            quick: false,
            scans_last: false,
        }
    }

    #[test]
    fn scans_come_before_puts_or_after_them() {
        let mut wanted = wanted(&["6"]);
        wanted.mixes = vec![Mix::P, Mix::C, Mix::E(100)];
        wanted.distributions = vec![DistributionKind::ZipfSimple];
        wanted.sizes = vec![1 << 30];
        let names = |wanted: &Wanted| -> Vec<_> {
            let cells = wanted.cells().into_iter();
            cells.map(|cell| cell.work.names().0).collect()
        };
        assert_eq!(names(&wanted), ["load", "C", "E100", "P"]);
        wanted.scans_last = true;
        assert_eq!(names(&wanted), ["load", "C", "P", "E100"]);
    }

    #[test]
    fn names_are_unique_and_families_stand_together() {
        let cells = wanted(&FIGURES).cells();
        let names: HashSet<_> = cells
            .iter()
            .map(|cell| (cell.experiment, cell.name()))
            .collect();
        assert_eq!(names.len(), cells.len());
        let mut families: Vec<Family> = cells.iter().map(Cell::family).collect();
        families.dedup();
        for (index, family) in families.iter().enumerate() {
            assert!(!families[..index].contains(family), "{family} comes twice");
        }
        // 5 sizes x (3 x 8 + uniform P + D).
        let figure_6 = cells.iter().filter(|cell| cell.experiment == "figure-6");
        assert_eq!(figure_6.count(), 5 * 26);
        // Figure 5 begins with a debt of its own; figure 3 pays it.
        let of_events = |data| families.iter().filter(|family| family.data == data).count();
        assert_eq!(
            (of_events(Data::Events), of_events(Data::EventsUnpaid)),
            (3, 3)
        );
    }

    #[test]
    fn a_named_distribution_and_skew_are_taken() {
        let mut wanted = wanted(&["6", "11"]);
        wanted.distributions = vec![
            DistributionKind::ZipfCompositeSuffix,
            DistributionKind::ZipfCompositeContiguous,
        ];
        wanted.theta = 0.8;
        let cells = wanted.cells();
        let mixes: Vec<_> = cells
            .iter()
            .filter(|cell| cell.experiment != "load")
            .collect();
        // 5 sizes x 8 mixes x 2, and 5 numbers of threads x 3 mixes x 2.
        assert_eq!(mixes.len(), 5 * 8 * 2 + 5 * 3 * 2);
        let skewed = |cell: &&&Cell| matches!(cell.work, Work::Mix { theta: 0.8, .. });
        assert_eq!(mixes.iter().filter(skewed).count(), mixes.len());
    }

    #[test]
    fn departures_are_measured_where_they_are_asked_for() {
        let cells = wanted(&[DEPARTURES]).cells();
        let mixes = cells.iter().filter(|cell| cell.experiment == DEPARTURES);
        assert_eq!(mixes.clone().count(), 4 * 2);
        for cell in mixes {
            assert!(cell.concerns("evendb") && cell.concerns("evendb-paper"));
            assert!(!cell.concerns("rocksdb") && !cell.concerns("evendb-half-memory"));
        }
        assert!(
            wanted(&FIGURES)
                .cells()
                .iter()
                .all(|cell| cell.experiment != DEPARTURES)
        );
    }

    #[test]
    fn figures_of_the_same_phases_share_them() {
        let of = |figures: &[&str]| -> Vec<String> {
            let cells = wanted(figures).cells();
            cells.iter().map(Cell::name).collect()
        };
        let all = of(&["6"]);
        for part in ["7", "8", "9", "reads"] {
            let part = of(&[part]);
            assert!(!part.is_empty() && part.iter().all(|name| all.contains(name)));
        }
        assert_eq!(of(&["4"]), of(&["3"]));
        assert!(of(&[]).is_empty());
    }

    #[test]
    fn phases_that_change_the_data_come_after_those_that_read() {
        for (before, after) in [("C/", "A/"), ("E100/", "P/"), ("P/", "D/"), ("load", "C/")] {
            let cells = wanted(&["6"]).cells();
            let family = cells[0].family();
            let own: Vec<String> = cells
                .iter()
                .filter(|cell| cell.family() == family)
                .map(Cell::name)
                .collect();
            let last = own.iter().rposition(|name| name.starts_with(before));
            let first = own.iter().position(|name| name.starts_with(after));
            assert!(last.unwrap() < first.unwrap(), "{before} {after}: {own:?}");
        }
    }
}
