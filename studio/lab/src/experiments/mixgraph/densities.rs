//! The densities of the study's figure 15: of value sizes, of accesses of a pair, and of scan
//! lengths, each as the model has it and as it was drawn, in one plot, and the rate. If there are
//! several keyspaces, each has its plots. `beside.rs` adds those of a trace.
//!
//! Sizes are grouped in bins whose widths grow with the size, so that bins far out are not empty; a
//! density is the share of a bin, divided by its width. What chance makes of the model's accesses
//! is in [`evendb_model::counts`].

use evendb_model::model::Rate;
use evendb_model::sizes::Sizes;
use evendb_model::{Model, counts};
use evendb_report::{Chart, Document, Exactness, Figure, Mark, Unit};
use serde_json::Value;

use super::statistics::Drawn;
use crate::mixgraph::{Family, Kind, Load};
use crate::readable::grouped;

/// Accesses of a pair up to this number have a density.
pub(super) const TIMES_MAX: u32 = 100;
/// The width of a bin is this part of where it begins, and at least 1.
const WIDTH_PART: u64 = 12;
/// The names of the two series.
const SERIES: [&str; 2] = ["model", "drawn"];

/// The page of what was drawn of each keyspace.
pub(super) fn document(load: &Load, all: &[Drawn]) -> Document {
    let name = &load.workload.name;
    let mut document = Document::new(format!("Drawn from the model {name}"));
    for (number, (family, drawn)) in load.families.iter().zip(all).enumerate() {
        let mut figures = of_family(family, drawn);
        for figure in figures.iter_mut().filter(|_| load.is_of_several()) {
            figure.id = format!("keyspace-{number}-{}", figure.id);
            figure.title = format!("{}: {}", family.name, figure.title);
        }
        document.figures.append(&mut figures);
    }
    document
}

/// The figures of one keyspace.
fn of_family(family: &Family, drawn: &Drawn) -> Vec<Figure> {
    let (model, mut figures) = (&family.model, Vec::new());
    if !drawn.values.is_empty() {
        let what = ("values", "Sizes of values", "bytes", Unit::Bytes);
        figures.push(of_sizes(what, &model.values.sizes, &drawn.values));
    }
    for kind in Kind::ALL {
        figures.extend(of_accesses(model, kind, &drawn.accesses[kind as usize]));
    }
    if let (Some(lengths), false) = (&model.scans, drawn.lengths.is_empty()) {
        let what = ("scans", "Lengths of scans", "pairs", Unit::Count);
        figures.push(of_sizes(what, lengths, &drawn.lengths));
    }
    figures
}

fn with_chart(mut figure: Figure, x: &str, drawn: u64, what: &str) -> Figure {
    figure.exactness = Exactness::Measured(format!("{} {what} drawn", grouped(drawn)));
    figure.charts.push(Chart {
        x_log: true,
        y_log: true,
        ..Chart::new(Mark::Line, x, "density").with_series("of")
    });
    figure
}

fn of_sizes(
    (id, title, x, unit): (&str, &str, &str, Unit),
    sizes: &Sizes,
    drawn: &[u64],
) -> Figure {
    let about = "The density as the model has it and as it was drawn.";
    let columns = [(x, unit), ("density", Unit::Number), ("of", Unit::Text)];
    let mut figure = Figure::new(id, title, about, "7.2, figure 15", &columns);
    let bins = bins(sizes.least, sizes.most);
    let mut counts = vec![0u64; bins.len()];
    for size in drawn {
        let bin = bins.partition_point(|(_, last)| last < size);
        if let Some(count) = counts.get_mut(bin) {
            *count += 1;
        }
    }
    for (series, name) in SERIES.into_iter().enumerate() {
        for (&(first, last), count) in bins.iter().zip(&counts) {
            let share = match series {
                0 => (first..=last).map(|size| sizes.share(size)).sum(),
                _ => *count as f64 / drawn.len() as f64,
            };
            let middle = (first + last) as f64 / 2.0;
            row(
                &mut figure,
                (middle, share / (last - first + 1) as f64),
                name,
            );
        }
    }
    with_chart(figure, x, drawn.len() as u64, "values")
}

/// None if no pair was named by this kind.
fn of_accesses(model: &Model, kind: Kind, drawn: &[u32]) -> Option<Figure> {
    let operations: u64 = drawn.iter().map(|times| u64::from(*times)).sum();
    let expected = counts::times(model, kind, operations as f64, TIMES_MAX)?;
    let named = drawn.iter().filter(|times| **times > 0).count() as f64;
    let mut counted = vec![0u64; TIMES_MAX as usize];
    for times in drawn.iter().filter(|times| (1..=TIMES_MAX).contains(times)) {
        counted[*times as usize - 1] += 1;
    }
    let (id, title) = (
        format!("accesses-{}", kind.name()),
        format!("Accesses of a pair by {}", kind.name()),
    );
    let about = "Of the pairs that were accessed at all, the share with each number of accesses: \
                 as chance makes it of the model, and as it was drawn.";
    let columns = [
        ("accesses", Unit::Count),
        ("density", Unit::Number),
        ("of", Unit::Text),
    ];
    let mut figure = Figure::new(&id, &title, about, "7.2, figure 15", &columns);
    let drawn = counted.iter().map(|count| *count as f64 / named).collect();
    for (name, shares) in SERIES.into_iter().zip([expected, drawn]) {
        for (times, share) in (1..).zip(shares) {
            row(&mut figure, (f64::from(times), share), name);
        }
    }
    Some(with_chart(figure, "accesses", operations, "operations"))
}

/// The operations a second by time: of the model, as they were drawn, and of a trace, if there is
/// one.
pub(super) fn rates(rate: &Rate, drawn: &[(f64, f64)], trace: &[(f64, f64)]) -> Figure {
    let about = "Operations a second as the model has them and as they were drawn. A trace's begin \
                 with the trace, and not at the time of day at which the model's begin.";
    let columns = [
        ("time", Unit::Seconds),
        ("per_second", Unit::PerSecond),
        ("of", Unit::Text),
    ];
    let title = "Operations per second";
    let mut figure = Figure::new("rate", title, about, "7.2, figure 15", &columns);
    let model: Vec<_> = drawn
        .iter()
        .map(|(time, _)| (*time, rate.at(*time)))
        .collect();
    for (name, points) in [
        (SERIES[0], &model[..]),
        (SERIES[1], drawn),
        ("trace", trace),
    ] {
        let rows = points.iter();
        let rows = rows.map(|(time, rate)| vec![(*time).into(), (*rate).into(), name.into()]);
        figure.rows.extend(rows);
    }
    let lines = Chart::new(Mark::Line, "time", "per_second").with_series("of");
    figure.charts.push(lines);
    figure
}

/// A density of 0 has no place on a logarithmic axis.
pub(super) fn row(figure: &mut Figure, (x, density): (f64, f64), name: &str) {
    if density > 0.0 {
        (figure.rows).push(vec![
            Value::from(x),
            Value::from(density),
            Value::from(name),
        ]);
    }
}

/// First and last size of each bin.
pub(super) fn bins(least: u64, most: u64) -> Vec<(u64, u64)> {
    let mut bins = Vec::new();
    let mut first = least;
    while first <= most {
        let last = (first + (first / WIDTH_PART).max(1) - 1).min(most);
        bins.push((first, last));
        first = last + 1;
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::mixgraph::StatisticsArguments;
    use crate::experiments::tests::parsed;

    #[test]
    fn bins_have_each_size_once() {
        let bins = bins(1, 1000);
        assert_eq!((bins[0], bins[bins.len() - 1].1), ((1, 1), 1000));
        for pair in bins.windows(2) {
            assert_eq!(pair[0].1 + 1, pair[1].0);
        }
    }

    /// The share of the pairs of a figure of accesses that are named more often than its densities
    /// go. Other figures have densities for all that was drawn.
    fn named_more_often(id: &str, drawn: &Drawn) -> f64 {
        let kinds = Kind::ALL.into_iter();
        let mut kinds = kinds.filter(|kind| id == format!("accesses-{}", kind.name()));
        let Some(kind) = kinds.next() else { return 0.0 };
        let above = |times: u32| {
            let all = drawn.accesses[kind as usize].iter();
            all.filter(|named| **named > times).count() as f64
        };
        above(TIMES_MAX) / above(0)
    }

    #[test]
    fn the_two_series_lie_on_each_other() {
        let arguments = ["statistics", "--scale=0.02", "--operations=400000"];
        let arguments: StatisticsArguments = parsed(arguments);
        let (load, of_all) = arguments.drawn().unwrap();
        let document = document(&load, &of_all);
        let ids: Vec<_> = document.figures.iter().map(|one| &*one.id).collect();
        assert_eq!(
            ids,
            [
                "values",
                "accesses-get",
                "accesses-put",
                "accesses-scan",
                "scans"
            ]
        );
        for figure in &document.figures {
            let of = |name: &str| -> Vec<(f64, f64)> {
                let rows = figure.rows.iter().filter(|row| row[2] == name);
                rows.map(|row| (row[0].as_f64().unwrap(), row[1].as_f64().unwrap()))
                    .collect()
            };
            let (model, drawn) = (of("model"), of("drawn"));
            assert!(!model.is_empty() && !drawn.is_empty(), "{}", figure.id);
            // A bin has its density for each of its sizes; numbers of accesses have no bins.
            let own = &load.families[0].model;
            let bins = match &*figure.id {
                "values" => bins(own.values.sizes.least, own.values.sizes.most),
                "scans" => {
                    let scans = own.scans.as_ref().unwrap();
                    bins(scans.least, scans.most)
                }
                _ => (1..=100).map(|times| (times, times)).collect(),
            };
            let width_of = |x: f64| {
                let own = bins.iter().find(|(_, last)| x <= *last as f64);
                own.map_or(0.0, |(first, last)| (last - first + 1) as f64)
            };
            let up_to = |all: &[(f64, f64)], place: f64| -> f64 {
                let below = all.iter().filter(|(x, _)| *x <= place);
                below.map(|(x, density)| density * width_of(*x)).sum()
            };
            let off = |place: f64| (up_to(&model, place) - up_to(&drawn, place)).abs();
            let most = model.iter().map(|(place, _)| off(*place));
            let most = most.fold(0.0, f64::max);
            assert!(most < 0.02, "{}: {most}", figure.id);
            // Nothing is missing but what is named more often than there are densities.
            let whole = up_to(&drawn, f64::INFINITY);
            let right = 1.0 - named_more_often(&figure.id, &of_all[0]);
            assert!(
                (whole - right).abs() < 1e-9,
                "{}: {whole} {right}",
                figure.id
            );
        }
        assert!(evendb_report::page(&document).contains("Sizes of values"));
    }

    #[test]
    fn each_keyspace_has_figures_of_its_own() {
        let arguments = ["statistics", "udb", "--scale=0.0002", "--operations=20000"];
        let arguments: StatisticsArguments = parsed(arguments);
        let (load, drawn) = arguments.drawn().unwrap();
        let document = document(&load, &drawn);
        let mut ids: Vec<_> = document.figures.iter().map(|one| &*one.id).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "{ids:?}");
        for (number, family) in load.families.iter().enumerate() {
            let id = format!("keyspace-{number}-values");
            let figure = document.figures.iter().find(|one| one.id == id).unwrap();
            assert_eq!(figure.title, format!("{}: Sizes of values", family.name));
            // The bins are those of this keyspace's own sizes.
            let sizes = &family.model.values.sizes;
            for row in &figure.rows {
                let size = row[0].as_f64().unwrap();
                let own = sizes.least as f64..=sizes.most as f64;
                assert!(own.contains(&size), "{id}: {row:?}");
            }
        }
    }
}
