//! Experiment `mixgraph-statistics`: whether what is drawn follows the model, as the study's figure
//! 15 shows.
//!
//! No store takes part. Operations are drawn and counted. Sizes, lengths, accesses of pairs and of
//! ranges, and starts are compared with the model, and then fitted again with the fits for traces.
//! The study shows curves that lie on each other; here is the largest distance between them, and on
//! the page of `--page` the curves (`densities.rs`). Kinds that have hot keys of their own are
//! compared with their own curves. Of several keyspaces each has its table, after the shares of
//! all, and its curves.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use evendb::placement;
use evendb_model::correlation::pearson;
use evendb_model::counts;
use evendb_model::curve::Shape;
use evendb_model::model::Rate;
use evendb_model::size_fit::{Candidate, Known, counted};
use evendb_model::sizes::{Sizes, Spread};
use evendb_model::{Model, curve_fit, size_fit};
use evendb_report::Document;

use super::super::table::TextTable;
use super::super::{Failure, at};
use super::beside::Beside;
use super::{densities, model_named};
use crate::mixgraph::allocation::Allocation;
use crate::mixgraph::drawn_trace::{Starts, Timetable};
use crate::mixgraph::{Family, Kind, Load, ModelWorker};

/// The arguments of `mixgraph-statistics`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    /// The model: the name of a preset (zippydb, zippydb-kinds, udb, udb-assoc, up2x), or a file
    #[arg(default_value = "udb-assoc")]
    model: String,
    /// The share of the model's pairs
    #[arg(long, default_value_t = 0.1, value_parser = super::parse_share)]
    scale: f64,
    /// Operations that are drawn
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..))]
    operations: u64,
    /// The seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the densities of the model and of what was drawn to this file, as a page of plots
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Draw a trace beside both on the page: its analysis, the folder that `evendb analyze` made
    /// or its analysis.json. Counts of accesses are alike only if as many operations are drawn of
    /// as many pairs
    #[arg(long, value_name = "ANALYSIS", requires = "page")]
    beside: Option<PathBuf>,
}

/// What was drawn.
pub(super) struct Drawn {
    kinds: [u64; 5],
    pub(super) values: Vec<u64>,
    pub(super) lengths: Vec<u64>,
    /// How often each kind named each pair. Empty if the kind named no pair.
    pub(super) accesses: [Vec<u32>; 5],
    /// Kind, pair, value size and scan length of some operations.
    rows: Vec<[f64; 4]>,
}

/// Correlations are taken over this number of operations.
const ROWS_MAX: usize = 200_000;
/// Starts are counted in this number of stretches.
const RATE_STEPS: usize = 120;

impl Arguments {
    /// Draws, compares and prints.
    ///
    /// # Errors
    /// There is no such model. The page cannot be written.
    pub fn run(&self) -> Result<(), Failure> {
        say!("{}", self.report()?)?;
        Ok(())
    }

    pub(super) fn report(&self) -> Result<String, Failure> {
        let (load, all) = self.drawn()?;
        if let Some(path) = &self.page {
            let page = evendb_report::page(&self.document(&load, &all)?);
            let mut file = placement::new_output(path, "a page")?;
            file.write_all(page.as_bytes()).map_err(at(path))?;
        }
        let workload = &load.workload;
        let rate = match &workload.rate {
            Some(rate) => rate_row(rate, self.operations, self.seed)?,
            None => None,
        };
        let operations = crate::readable::grouped(self.operations);
        let mut text = format!("{operations} operations of {} drawn\n", workload.name);
        if !load.is_of_several() {
            let table = family(&load.families[0], &all[0], rate);
            return Ok(text + &table);
        }
        let mut table = TextTable::new(HEADS);
        for (keyspace, drawn) in workload.keyspaces.iter().zip(&all) {
            let own = drawn.operations() as f64 / self.operations as f64;
            share(&mut table, &keyspace.name, keyspace.share, own);
        }
        if let Some(rate) = rate {
            table.row(rate);
        }
        text += &format!("\n{table}\n");
        for (of, drawn) in load.families.iter().zip(&all) {
            text += &format!("\n{}\n{}", of.name, family(of, drawn, None));
        }
        Ok(text)
    }

    /// The page: densities and rate, and those of a trace beside them.
    fn document(&self, load: &Load, all: &[Drawn]) -> Result<Document, Failure> {
        let mut document = densities::document(load, all);
        let beside = self.beside.as_deref().map(Beside::read).transpose()?;
        if let Some(beside) = &beside {
            beside.add_to(&mut document, load);
        }
        let measured = beside.map(|beside| beside.rates()).unwrap_or_default();
        if let Some(rate) = &load.workload.rate {
            let seconds = match (measured.last(), rate.b > 0.0) {
                (Some((last, _)), _) if *last > 0.0 => *last,
                (_, true) => 2.0 * std::f64::consts::TAU / rate.b,
                (_, false) => self.operations as f64 / rate.d,
            };
            let drawn = drawn_course(rate, seconds, self.operations, self.seed);
            document
                .figures
                .push(densities::rates(rate, &drawn, &measured));
        }
        Ok(document)
    }

    /// The load, and what was drawn of each of its keyspaces.
    pub(super) fn drawn(&self) -> Result<(Arc<Load>, Vec<Drawn>), Failure> {
        let workload = model_named(&self.model)?.scaled(self.scale);
        let load = Arc::new(Load::new(&workload, Allocation::PrefixDist, self.seed));
        let drawn = self.draw(&load);
        Ok((load, drawn))
    }

    fn draw(&self, load: &Arc<Load>) -> Vec<Drawn> {
        let mut worker = ModelWorker::new(load, 0, 0);
        let mut all: Vec<_> = load.families.iter().map(Drawn::new).collect();
        for _ in 0..self.operations {
            let drawn = &mut all[worker.next_keyspace()];
            let kind = worker.next_kind();
            let pair = worker.next_pair(kind);
            let (value, length) = (worker.next_value(pair).0, worker.next_length());
            drawn.kinds[kind as usize] += 1;
            drawn.accesses[kind as usize][pair as usize] += 1;
            match kind {
                Kind::Put => drawn.values.push(value),
                Kind::Scan => drawn.lengths.push(length),
                _ => {}
            }
            if drawn.rows.len() < ROWS_MAX {
                let is_get = f64::from(u8::from(kind == Kind::Get));
                // Lengths have a heavy tail: a few operations would decide.
                drawn
                    .rows
                    .push([is_get, pair as f64, value as f64, (length as f64).ln()]);
            }
        }
        all
    }
}

const HEADS: [&str; 4] = ["what", "model", "drawn", "largest distance"];

impl Drawn {
    fn new(family: &Family) -> Self {
        Self {
            kinds: [0; 5],
            values: Vec::new(),
            lengths: Vec::new(),
            accesses: Kind::ALL.map(|kind| match family.model.mix.share(kind) {
                0.0 => Vec::new(),
                _ => vec![0; family.model.pairs as usize],
            }),
            rows: Vec::new(),
        }
    }

    fn operations(&self) -> u64 {
        self.kinds.iter().sum()
    }
}

fn share(table: &mut TextTable, name: &str, share: f64, own: f64) {
    table.row([
        name.to_owned(),
        format!("{share:.4}"),
        format!("{own:.4}"),
        format!("{:.4}", (own - share).abs()),
    ]);
}

/// The table of one keyspace, and the notes below it.
fn family(family: &Family, drawn: &Drawn, rate: Option<[String; 4]>) -> String {
    let mut table = TextTable::new(HEADS);
    let (model, all) = (&family.model, drawn.operations() as f64);
    for ((name, of), count) in model.mix.shares().into_iter().zip(drawn.kinds) {
        if of > 0.0 {
            share(&mut table, name, of, count as f64 / all);
        }
    }
    let mut notes = String::new();
    sizes(
        &mut table,
        &mut notes,
        "value size",
        &model.values.sizes,
        &drawn.values,
    );
    if let Some(lengths) = &model.scans {
        sizes(
            &mut table,
            &mut notes,
            "scan length",
            lengths,
            &drawn.lengths,
        );
    }
    for kinds in alike(family) {
        accesses(&mut table, family, &kinds, &drawn.accesses);
    }
    per_key(&mut table, model, &drawn.accesses);
    if let Some(rate) = rate {
        table.row(rate);
    }
    let has_own = alike(family).len() > 1;
    let correlation = largest_correlation(&drawn.rows, has_own);
    table.row([
        if has_own {
            "correlation, but for kind and key"
        } else {
            "correlation"
        },
        "0",
        &format!("{correlation:.4}"),
        &format!("{:.4}", correlation.abs()),
    ]);
    format!("\n{table}\n{notes}")
}

/// Compares drawn sizes with their spread, and fits them again if the spread can be fitted.
fn sizes(table: &mut TextTable, notes: &mut String, name: &str, of: &Sizes, drawn: &[u64]) {
    let pairs = counted(drawn);
    let all = drawn.len() as f64;
    if drawn.is_empty() {
        return;
    }
    let (mut own, mut expected, mut most, mut from) = (0.0, 0.0, 0.0f64, of.least);
    for &(size, count) in &pairs {
        own += count as f64 / all;
        expected += (from..=size).map(|size| of.share(size)).sum::<f64>();
        from = size + 1;
        most = most.max((own - expected).abs());
    }
    let mean = drawn.iter().sum::<u64>() as f64 / all;
    let means = [of.mean(), mean].map(|mean| format!("mean {mean:.1}"));
    table.row([name, &means[0], &means[1], &format!("{most:.4}")]);
    if let Spread::GeneralizedPareto { theta, .. } = of.spread {
        let (least, most) = (of.least, of.most);
        let found = size_fit::choose(&pairs, &Candidate::ALL, Known { theta, least, most });
        // Writing to a string cannot fail.
        let _ = match found {
            Ok(found) => writeln!(notes, "{name}, the model's: {:?}\n{found}", of.spread),
            Err(error) => writeln!(notes, "{name} cannot be fitted: {error}"),
        };
    }
}

/// The kinds of the mix, grouped by their hot keys.
fn alike(family: &Family) -> Vec<Vec<Kind>> {
    let mut groups: Vec<Vec<Kind>> = Vec::new();
    for kind in Kind::ALL {
        if family.model.mix.share(kind) == 0.0 {
            continue;
        }
        match groups
            .iter_mut()
            .find(|group| family.space.alike(group[0], kind))
        {
            Some(group) => group.push(kind),
            None => groups.push(vec![kind]),
        }
    }
    groups
}

/// Compares the accesses of ranges and of pairs by rank with the model's. `kinds` have the same hot
/// keys.
fn accesses(table: &mut TextTable, family: &Family, kinds: &[Kind], drawn: &[Vec<u32>; 5]) {
    let (model, space, first_kind) = (&family.model, &family.space, kinds[0]);
    let counts = |pair: u64| -> f64 {
        let counts = kinds
            .iter()
            .map(|kind| drawn[*kind as usize][pair as usize]);
        counts.map(f64::from).sum()
    };
    let all: f64 = (0..model.pairs).map(counts).sum();
    let names: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
    let names = names.join(", ");
    let shares = model
        .ranges_of(first_kind)
        .and_then(|ranges| ranges.shares());
    let shares = shares.unwrap_or_else(|| vec![1.0]);
    let (mut own, mut expected, mut most) = (0.0, 0.0, 0.0f64);
    for (heat, share) in shares.iter().enumerate() {
        let (first, among) = space.range_at(space.place_of(first_kind, heat as u64));
        own += (first..first + among).map(counts).sum::<f64>() / all;
        expected += share;
        most = most.max((own - expected).abs());
    }
    let ranges = format!("{} ranges: {names}", shares.len());
    table.row([&ranges, "as its curve", "", &format!("{most:.4}")]);
    let Some(accesses) = model.accesses_of(first_kind) else {
        return;
    };
    // The accesses within all ranges are alike, so the places of pairs may be added up over the
    // ranges.
    let touched = accesses.touched(model.pairs);
    let among = model.pairs / shares.len() as u64;
    let mut by_rank = vec![0.0; among as usize + 1];
    for place in 0..shares.len() as u64 {
        for rank in 0..space.range_at(place).1 {
            by_rank[rank as usize] += counts(space.pair_of(first_kind, place, rank)) / all;
        }
    }
    let (mut own, mut most) = (0.0, 0.0f64);
    for (rank, share) in by_rank.iter().enumerate() {
        own += share;
        let expected = accesses.share_below(rank as u64 + 1, among, touched);
        most = most.max((own - expected).abs());
    }
    table.row([
        &format!("accesses by rank: {names}"),
        "as its power",
        "",
        &format!("{most:.4}"),
    ]);
}

/// Compares the number of keys that each kind named, and the share of keys that were named once,
/// with what chance makes of the model.
fn per_key(table: &mut TextTable, model: &Model, drawn: &[Vec<u32>; 5]) {
    for kind in Kind::ALL {
        let named = || drawn[kind as usize].iter().filter(|count| **count > 0);
        let operations: f64 = named().map(|count| f64::from(*count)).sum();
        let Some(expected) = counts::expected(model, kind, operations) else {
            continue;
        };
        let keys = named().count() as f64;
        let (mean, once) = (
            operations / keys,
            named().filter(|count| **count == 1).count(),
        );
        let once = once as f64 / keys;
        table.row([
            &format!("{} of a key, mean", kind.name()),
            &format!("{:.2}", expected.mean),
            &format!("{mean:.2}"),
            &format!("{:.4}", (mean / expected.mean - 1.0).abs()),
        ]);
        table.row([
            &format!("{} of a key, once", kind.name()),
            &format!("{:.4}", expected.once),
            &format!("{once:.4}"),
            &format!("{:.4}", (once - expected.once).abs()),
        ]);
    }
}

/// Draws the starts of about `operations` operations over these seconds of a rate, as those of a
/// trace are drawn, and counts them in stretches: the middle of each, and its operations a second.
/// These are fewer than the rate asks for: so they are drawn with a part of it, and each stands for
/// the inverse of that part.
fn drawn_course(rate: &Rate, seconds: f64, operations: u64, seed: u64) -> Vec<(f64, f64)> {
    let part = operations as f64 / rate.due(seconds);
    let (a, d) = (rate.a * part, rate.d * part);
    let mut starts = Starts::new(Timetable::Swing(Rate { a, d, ..*rate }), seed);
    let width = seconds / RATE_STEPS as f64;
    let mut counts = [0u64; RATE_STEPS];
    while let Some(count) = counts.get_mut((starts.next_seconds() / width) as usize) {
        *count += 1;
    }
    let point = |(step, count): (usize, &u64)| {
        let middle = (step as f64 + 0.5) * width;
        (middle, *count as f64 / part / width)
    };
    counts.iter().enumerate().map(point).collect()
}

/// Fits a sine to what is drawn of two swings of the model's rate. There is no row for a rate that
/// does not swing.
fn rate_row(rate: &Rate, operations: u64, seed: u64) -> Result<Option<[String; 4]>, Failure> {
    if rate.b <= 0.0 || rate.a == 0.0 {
        return Ok(None);
    }
    let swings = 2.0 * std::f64::consts::TAU / rate.b;
    let points = drawn_course(rate, swings, operations, seed);
    let found = curve_fit::fit(&points, Shape::Sine)?.curve;
    let text = |p: &[f64]| format!("{:.0} sin({:.6} t) + {:.0}", p[0], p[1], p[3]);
    let off = points
        .iter()
        .map(|&(t, _)| (found.value(t) - rate.at(t)).abs());
    let off = off.fold(0.0, f64::max) / rate.d;
    let model = text(&[rate.a, rate.b, rate.c, rate.d]);
    Ok(Some([
        "rate".to_owned(),
        model,
        text(&found.parameters),
        format!("{off:.4}"),
    ]))
}

/// The correlation that is farthest from 0, over all pairs of columns. Columns that do not vary
/// have none. If kinds have hot keys of their own, kind and key depend on each other.
fn largest_correlation(rows: &[[f64; 4]], has_own: bool) -> f64 {
    let mut largest = 0.0f64;
    for first in 0..4 {
        for second in first + 1..4 {
            if has_own && (first, second) == (0, 1) {
                continue;
            }
            let column = |place: usize| rows.iter().map(|row| row[place]).collect::<Vec<_>>();
            if let Ok(r) = pearson(&column(first), &column(second))
                && r.abs() > largest.abs()
            {
                largest = r;
            }
        }
    }
    largest
}
