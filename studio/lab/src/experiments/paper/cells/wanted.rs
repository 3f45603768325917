//! [`Wanted`]: the cells of each figure that was asked for, in the order in which they are run.

use super::{Cell, DEPARTURES, Data, Family, Work};
use crate::distribution::DistributionKind;
use crate::mix::{LoadOrder, Mix};
use crate::opener::Variant;

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
