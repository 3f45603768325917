//! From cells to the series of plots: what belongs in one plot, along which axis.

use super::arrangement::shape_for;
use super::document::{Panel, Places, Point, Series, Shape};
use super::quantity::{Quantity, Spread, number};
use super::results::{Cell, parse_bytes};
use super::stores;

/// What a plot's horizontal axis runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// The size of the data.
    Data,
    /// The skew.
    Theta,
    /// Worker threads.
    Threads,
    /// Settings.
    Variant,
    /// Cells, by their names.
    Cell,
}

/// Cells in one plot of [`Axis::Cell`].
const CELLS_IN_A_PLOT: usize = 4;

/// A line's range beyond which its axis is logarithmic: below, the smallest can still be read.
const LINEAR_RANGE_MAX: f64 = 20.0;

/// Points of a course; more are averaged, as nobody sees them.
const COURSE_POINTS_MAX: usize = 240;

/// What identifies a cell to a reader.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// Mix and distribution, or the cell's own name.
    pub workload: String,
    /// The size of the data.
    pub data: Option<String>,
    /// The skew.
    pub theta: Option<String>,
    /// Worker threads.
    pub threads: Option<String>,
    /// The setting.
    pub variant: Option<String>,
    mix: (usize, usize),
    numbers: (u64, u64, u64, u64),
}

/// The order of the paper's figures; what is not in it comes after.
const DISTRIBUTIONS: [&str; 4] = ["zipf-composite", "zipf-simple", "latest", "uniform"];
const MIXES: [&str; 12] = [
    "P", "A", "B", "C", "D", "E10", "E100", "E1000", "F", "ingest", "scans", "load",
];

/// The names of a cell.
#[must_use]
pub fn named(cell: &Cell) -> Named {
    let workload = match (cell.mix.as_deref(), cell.distribution.as_deref()) {
        (Some(mix), Some("event-log")) => format!("event log: {mix}"),
        (Some(mix), Some("key order")) => format!("{mix} in key order"),
        (Some(mix), Some(distribution)) if !distribution.is_empty() => {
            format!("{mix} {distribution}")
        }
        (Some(mix), _) => mix.to_owned(),
        (None, _) => cell.name.clone(),
    };
    let place = |names: &[&str], name: &Option<String>| {
        let known = names.iter().position(|one| name.as_deref() == Some(*one));
        known.unwrap_or(names.len())
    };
    let variant = cell.variant.as_deref().map_or(0, variant_number);
    Named {
        workload,
        data: cell.data_bytes.map(size),
        theta: cell.theta.map(|theta| format!("{theta:.2}")),
        threads: cell.threads.map(|threads| threads.to_string()),
        variant: cell.variant.clone(),
        mix: (
            place(&MIXES, &cell.mix),
            place(&DISTRIBUTIONS, &cell.distribution),
        ),
        numbers: (
            cell.data_bytes.unwrap_or(0),
            (cell.theta.unwrap_or(0.0) * 1e4) as u64,
            cell.threads.unwrap_or(0),
            variant,
        ),
    }
}

impl Named {
    /// Sorts as the paper's figures do: by mix, distribution, size.
    #[must_use]
    pub fn order(&self) -> impl Ord + use<> {
        (self.mix, self.workload.clone(), self.numbers)
    }

    fn along(&self, axis: Axis) -> (Option<&String>, u64) {
        match axis {
            Axis::Data => (self.data.as_ref(), self.numbers.0),
            Axis::Theta => (self.theta.as_ref(), self.numbers.1),
            Axis::Threads => (self.threads.as_ref(), self.numbers.2),
            Axis::Variant => (self.variant.as_ref(), self.numbers.3),
            Axis::Cell => (Some(&self.workload), 0),
        }
    }

    /// All but what the axis runs over, which has to be the same within a plot.
    fn beside(&self, axis: Axis) -> [Option<String>; 5] {
        let unless = |other: Axis, name: &Option<String>| {
            if axis == other { None } else { name.clone() }
        };
        [
            Some(self.workload.clone()),
            unless(Axis::Data, &self.data),
            unless(Axis::Theta, &self.theta),
            unless(Axis::Threads, &self.threads),
            // Settings of different kinds are different plots: `log`, `bloom`.
            match axis {
                Axis::Variant => self.variant.as_deref().map(variant_kind),
                _ => self.variant.clone(),
            },
        ]
    }
}

/// The number in `log 4 MiB`, `bloom 16`.
fn variant_number(variant: &str) -> u64 {
    let digits = variant.find(|c: char| c.is_ascii_digit());
    let tail = digits.map_or("", |at| &variant[at..]);
    let plain = || tail.split_whitespace().next()?.parse().ok();
    parse_bytes(tail).or_else(plain).unwrap_or(0)
}

fn variant_kind(variant: &str) -> String {
    let words = variant.split(|c: char| c.is_ascii_digit()).next();
    words.unwrap_or(variant).trim().to_owned()
}

/// A size as short as it can be said: `512 MiB`, `1.5 GiB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    let long = crate::report::bytes(bytes);
    match long.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            let number = number.trim_end_matches('0').trim_end_matches('.');
            format!("{number} {unit}")
        }
        _ => long,
    }
}

/// One plot for each set of cells that differ along the axis only.
#[must_use]
pub fn panels(cells: &[&Cell], quantity: Quantity, axis: Axis) -> Vec<Panel> {
    if axis == Axis::Cell {
        let plots = cells.chunks(CELLS_IN_A_PLOT);
        return plots
            .map(|cells| panel(cells, quantity, axis, String::new()))
            .collect();
    }
    let names: Vec<Named> = cells.iter().map(|cell| named(cell)).collect();
    let mut groups: Vec<([Option<String>; 5], Vec<&Cell>)> = Vec::new();
    for (cell, name) in cells.iter().zip(&names) {
        let key = name.beside(axis);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, members)) => members.push(cell),
            None => groups.push((key, vec![cell])),
        }
    }
    let differs = |index: usize| {
        let said: Vec<&String> = (groups.iter())
            .filter_map(|(key, _)| key[index].as_ref())
            .collect();
        index == 0 || said.windows(2).any(|pair| pair[0] != pair[1])
    };
    let differing: Vec<usize> = (0..5).filter(|&index| differs(index)).collect();
    let plots = groups.iter().map(|(key, members)| {
        let said = differing.iter().filter_map(|&index| {
            let word = key[index].clone()?;
            Some(match index {
                2 => format!("theta {word}"),
                3 => format!("{word} threads"),
                _ => word,
            })
        });
        let title = said.collect::<Vec<_>>().join(", ");
        let title = match quantity {
            Quantity::Throughput => title,
            other => format!("{title}: {}", other.name()),
        };
        panel(members, quantity, axis, title)
    });
    plots.filter(|plot| !plot.series.is_empty()).collect()
}

fn panel(cells: &[&Cell], quantity: Quantity, axis: Axis, title: String) -> Panel {
    let names: Vec<Named> = cells.iter().map(|cell| named(cell)).collect();
    let mut places: Vec<(u64, String)> = Vec::new();
    for (name, cell) in names.iter().zip(cells) {
        let (word, number) = name.along(axis);
        let word = match axis {
            Axis::Cell => cell.name.clone(),
            _ => word.cloned().unwrap_or_default(),
        };
        if !places.iter().any(|(_, other)| *other == word) {
            places.push((number, word));
        }
    }
    places.sort_by_key(|(number, _)| *number);
    let place_of = |name: &Named, cell: &Cell| {
        let word = match axis {
            Axis::Cell => cell.name.as_str(),
            _ => name.along(axis).0.map_or("", String::as_str),
        };
        places
            .iter()
            .position(|(_, other)| other == word)
            .unwrap_or(0)
    };
    let series = stores::of(cells.iter().copied()).into_iter().map(|store| {
        let mut points: Vec<Point> = (cells.iter().zip(&names))
            .filter_map(|(cell, name)| {
                let spread = cell.spread(store, quantity)?;
                Some(point(place_of(name, cell), spread, quantity.axis_scale()))
            })
            .collect();
        points.sort_by(|a, b| a.place.total_cmp(&b.place));
        Series {
            name: store.to_owned(),
            points,
        }
    });
    let series: Vec<Series> = series.filter(|one| !one.points.is_empty()).collect();
    let places = Places::Named(places.into_iter().map(|(_, word)| word).collect());
    let shape = match axis {
        Axis::Cell => Shape::Bars,
        _ => shape_for(&places),
    };
    Panel {
        title,
        vertical: quantity.axis(),
        horizontal: match axis {
            Axis::Data => "size of the data",
            Axis::Theta => "skew theta",
            Axis::Threads => "threads",
            Axis::Variant => "setting",
            Axis::Cell => "",
        }
        .to_owned(),
        logarithmic: shape == Shape::Lines && is_wide(&series),
        shape,
        places,
        series,
    }
}

fn point(place: usize, spread: Spread, scale: f64) -> Point {
    Point {
        place: place as f64,
        value: spread.median / scale,
        low: spread.low / scale,
        high: spread.high / scale,
    }
}

fn is_wide(series: &[Series]) -> bool {
    let values = || {
        series
            .iter()
            .flat_map(|one| one.points.iter().map(|p| p.value))
    };
    let least = values().fold(f64::INFINITY, f64::min);
    let most = values().fold(0.0, f64::max);
    least > 0.0 && most / least > LINEAR_RANGE_MAX
}

/// The courses over time of the first finished round, a plot for each cell.
#[must_use]
pub fn courses(cells: &[&Cell]) -> Vec<Panel> {
    let plots = cells.iter().map(|cell| {
        over_time(cell, " over time", Quantity::Throughput.axis(), |phase| {
            course(&phase["course"])
        })
    });
    plots.filter(|plot| !plot.series.is_empty()).collect()
}

/// A plot of something over time: what its first finished round noted of each store.
fn over_time(
    cell: &Cell,
    what: &str,
    vertical: String,
    points_of: impl Fn(&serde_json::Value) -> Option<Vec<Point>>,
) -> Panel {
    let series = cell.stores.iter().filter_map(|one| {
        let points = points_of(&one.finished().next()?.phase)?;
        Some(Series {
            name: one.store.clone(),
            points,
        })
    });
    let series: Vec<Series> = series.collect();
    let ends = series
        .iter()
        .filter_map(|one| one.points.last())
        .map(|p| p.place);
    let name = named(cell);
    Panel {
        title: format!("{}{what}, {}", name.workload, name.data.unwrap_or_default()),
        vertical,
        horizontal: "seconds".to_owned(),
        shape: Shape::Course,
        places: Places::Upto(ends.fold(0.0, f64::max)),
        logarithmic: false,
        series,
    }
}

/// The bytes on the disk over time, a plot for each cell whose run noted them.
#[must_use]
pub fn space_courses(cells: &[&Cell]) -> Vec<Panel> {
    let plots = cells.iter().map(|cell| {
        over_time(cell, "", "GiB on the disk".to_owned(), |phase| {
            space_course(&phase["space_course"])
        })
    });
    plots.filter(|plot| !plot.series.is_empty()).collect()
}

fn space_course(course: &serde_json::Value) -> Option<Vec<Point>> {
    let interval = number(&course["interval_seconds"]).filter(|step| *step > 0.0)?;
    let bytes: Vec<f64> = course["bytes"]
        .as_array()?
        .iter()
        .filter_map(number)
        .collect();
    let width = bytes.len().div_ceil(COURSE_POINTS_MAX).max(1);
    // Of steps that are drawn as one the largest counts: what is shown is what a disk has to have.
    let points = bytes.chunks(width).enumerate().map(|(index, group)| {
        let most = group.iter().copied().fold(0.0, f64::max) / f64::from(1 << 30);
        Point {
            place: (index * width) as f64 * interval,
            value: most,
            low: most,
            high: most,
        }
    });
    let points: Vec<Point> = points.collect();
    (points.len() > 1).then_some(points)
}

/// Operations finished in each step, as rates; none if there are not two steps.
fn course(course: &serde_json::Value) -> Option<Vec<Point>> {
    let steps: Vec<(f64, f64)> = course
        .as_array()?
        .iter()
        .filter_map(|step| Some((number(&step[0])?, number(&step[1])?)))
        .filter(|(end, count)| end.is_finite() && count.is_finite())
        .collect();
    let width = steps.len().div_ceil(COURSE_POINTS_MAX).max(1);
    let mut before = 0.0;
    let mut points = Vec::new();
    for group in steps.chunks(width) {
        let end = group[group.len() - 1].0;
        let done: f64 = group.iter().map(|(_, count)| count).sum();
        if end > before {
            let rate = done / (end - before) / Quantity::Throughput.axis_scale();
            points.push(Point {
                place: end,
                value: rate,
                low: rate,
                high: rate,
            });
            before = end;
        }
    }
    (points.len() > 1).then_some(points)
}

const COMPONENTS: [&str; 6] = ["munk", "delta", "row_cache", "log", "sstable", "absent"];

/// The components that answered gets, in the order from memory to disk.
#[must_use]
pub fn components(cells: &[&Cell]) -> Vec<String> {
    let mut names: Vec<String> = COMPONENTS.map(str::to_owned).to_vec();
    let rounds = cells
        .iter()
        .flat_map(|cell| &cell.stores)
        .flat_map(|one| one.finished());
    let mut seen = Vec::new();
    for round in rounds {
        for name in round.phase["get_shares"]
            .as_object()
            .into_iter()
            .flat_map(|all| all.keys())
        {
            if !names.contains(name) {
                names.push(name.clone());
            }
            seen.push(name);
        }
    }
    names.retain(|name| seen.contains(&name));
    names
}

/// The median share of a component in a store's gets.
#[must_use]
pub fn share(cell: &Cell, store: &str, component: &str) -> Option<f64> {
    let rounds = cell
        .stores
        .iter()
        .find(|one| one.store == store)?
        .finished();
    let shares = rounds.filter_map(|round| {
        let all = round.phase["get_shares"].as_object()?;
        match all.is_empty() {
            true => None,
            false => Some(all.get(component).and_then(number).unwrap_or(0.0)),
        }
    });
    Spread::of(shares).map(|spread| spread.median)
}

/// The median of a store's rounds of the mean nanoseconds of the gets that a component answered.
#[must_use]
pub fn component_nanos(cell: &Cell, store: &str, component: &str) -> Option<f64> {
    let rounds = cell.stores.iter().find(|one| one.store == store)?;
    let means = rounds.finished().filter_map(|round| {
        let figures = &round.phase["figures"];
        let gets = number(&figures[format!("gets.{component}")])?;
        let nanos = number(&figures[format!("get_nanos_total.{component}")])?;
        // Of a few gets a sample tells nothing.
        (gets >= COMPONENT_GETS_MIN && nanos > 0.0).then(|| nanos / gets)
    });
    Spread::of(means).map(|spread| spread.median)
}

/// Fewer gets than this say nothing of a component's latency: one in 64 is timed.
const COMPONENT_GETS_MIN: f64 = 640.0;

/// Who answered the gets: a plot of stacked bars for each workload and store that tells.
#[must_use]
pub fn shares(cells: &[&Cell]) -> Vec<Panel> {
    let mut workloads: Vec<(String, &str)> = Vec::new();
    for cell in cells {
        for one in &cell.stores {
            let key = (named(cell).workload, one.store.as_str());
            if !workloads.contains(&key) {
                workloads.push(key);
            }
        }
    }
    let components = components(cells);
    let plots = workloads.iter().map(|(workload, store)| {
        let mut members: Vec<(u64, &Cell)> = cells
            .iter()
            .filter(|cell| named(cell).workload == *workload)
            .filter(|cell| {
                components
                    .iter()
                    .any(|one| share(cell, store, one).is_some())
            })
            .map(|cell| (cell.data_bytes.unwrap_or(0), *cell))
            .collect();
        members.sort_by_key(|(bytes, _)| *bytes);
        let series = components.iter().map(|component| {
            let points = members.iter().enumerate().map(|(place, (_, cell))| {
                let value = share(cell, store, component).unwrap_or(0.0) * 100.0;
                Point {
                    place: place as f64,
                    value,
                    low: value,
                    high: value,
                }
            });
            Series {
                name: component.replace('_', " "),
                points: points.collect(),
            }
        });
        let names = members.iter().map(|(bytes, _)| size(*bytes)).collect();
        Panel {
            title: format!("{workload}: gets of {store}"),
            vertical: "% of gets".to_owned(),
            horizontal: "size of the data".to_owned(),
            shape: Shape::Stacks,
            places: Places::Named(names),
            logarithmic: false,
            series: if members.is_empty() {
                Vec::new()
            } else {
                series.collect()
            },
        }
    });
    plots.filter(|plot| !plot.series.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn courses_are_rates_of_their_steps() {
        let points = course(&json!([[1.0, 1000], [1.5, 1000], [1.5, 3], [2.5, 500]])).unwrap();
        let rates: Vec<f64> = points.iter().map(|point| point.value).collect();
        assert_eq!(rates, [1.0, 2.0, 0.5]);
        let long: Vec<_> = (1..=1000).map(|i| json!([i, 1000])).collect();
        let points = course(&json!(long)).unwrap();
        assert!(points.len() <= COURSE_POINTS_MAX);
        assert!(points.iter().all(|point| point.value == 1.0));
        for none in [
            json!(null),
            json!([]),
            json!([[1, 2]]),
            json!([["x"]]),
            json!("x"),
        ] {
            assert_eq!(course(&none), None);
        }
    }

    #[test]
    fn variants_are_ordered_by_their_numbers() {
        assert!(variant_number("log 128 KiB") < variant_number("log 4 MiB"));
        assert!(variant_number("bloom 2") < variant_number("bloom 16"));
        assert_eq!(variant_number("none"), 0);
        assert_eq!(variant_kind("log 4 MiB"), "log");
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(size(512 << 20), "512 MiB");
        assert_eq!(size(3 << 29), "1.5 GiB");
        assert_eq!(size(100), "100 B");
        assert_eq!(size(10 << 30), "10 GiB");
    }
}
