//! Bars: horizontal ones for names, vertical ones for numbers.

use crate::axis::{Axis, Ends};
use crate::plot::{Frame, Notes, Series, Source, columns, letters, point};
use crate::svg::{self, Anchor, LETTER, Svg};
use crate::words;

/// The highest number of names in one drawing.
const NAMES_MAX: usize = 20;
/// The letters of a name beside its bars take at most this share of the width.
const NAMES_SHARE: f64 = 0.38;
/// The highest number of vertical bars, of all series.
const BARS_MAX: usize = 1500;
const NO_PLACE: &str = "Values of zero or below have no place on a logarithmic axis.";

/// Horizontal bars, below one another, by name. Each shows its value and its series.
pub(crate) fn lying(
    source: &Source<'_>,
    series: &[Series<'_>],
    name: &str,
    notes: &mut Notes,
) -> Result<String, String> {
    let mut groups = groups(source, series);
    let what = words::shown(&words::label(source.x.name), 44);
    notes.left_out(NAMES_MAX, groups.len(), &format!("values of {what}"));
    groups.truncate(NAMES_MAX);
    let mut drawing = Lying::around(source, &groups, series.len() > 1, notes)?;
    for (name, bars) in &groups {
        drawing.name(name, bars.len());
        for (part, value) in bars {
            if !drawing.bar(name, part, *value) {
                notes.add(NO_PLACE.into());
            }
        }
        drawing.y += drawing.gap;
    }
    Ok(drawing.finish(name))
}

/// A drawing of horizontal bars, which grows downwards.
struct Lying<'a> {
    source: &'a Source<'a>,
    svg: Svg,
    axis: Axis,
    /// The ends of the axis.
    ends: (f64, f64),
    /// Bars are cut here.
    most: f64,
    /// A name has several bars, so each bar tells its series.
    several: bool,
    /// The height of a bar.
    thick: f64,
    /// The space between two names.
    gap: f64,
    /// The highest number of letters of a name.
    name_letters: usize,
    /// Where the next bar begins.
    y: f64,
}

impl<'a> Lying<'a> {
    fn around(
        source: &'a Source<'a>,
        groups: &[Group<'_, '_>],
        several: bool,
        notes: &mut Notes,
    ) -> Result<Self, String> {
        let values = groups
            .iter()
            .flat_map(|(_, bars)| bars.iter().map(|bar| bar.1));
        let values: Vec<f64> = values.collect();
        let most = cut(&values, source.chart.y_log, notes);
        let shown = values.iter().map(|value| value.min(most));
        let axis = Axis::new(shown, source.y.unit, source.chart.y_log, Ends::Round);
        let axis = axis.ok_or("No row has a number to draw.")?;
        let (thick, gap) = if several { (15.0, 9.0) } else { (17.0, 6.0) };
        let name_letters = (source.width * NAMES_SHARE / LETTER) as usize;
        let longest = groups
            .iter()
            .map(|(name, _)| letters(&words::shown(name, name_letters)))
            .max();
        let left = longest.unwrap_or(1) as f64 * LETTER + 12.0;
        let beside: f64 = if several { 150.0 } else { 80.0 };
        let right = source.width - beside.min(source.width - left - 120.0);
        Ok(Lying {
            source,
            svg: Svg::new(source.width),
            axis: axis.between(left, right),
            ends: (left, right),
            most,
            several,
            thick,
            gap,
            name_letters,
            y: 4.0,
        })
    }

    /// Writes a name beside the middle of its bars, which are drawn next.
    fn name(&mut self, name: &str, bars: usize) {
        let middle = self.y + self.thick * bars as f64 / 2.0 + 4.0;
        let name = words::shown(name, self.name_letters);
        self.svg.text(self.ends.0 - 6.0, middle, Anchor::End, &name);
    }

    /// Draws the next bar. Returns whether its value has a place on the axis.
    fn bar(&mut self, name: &str, part: &Series<'_>, value: f64) -> bool {
        let (y, thick) = (self.y, self.thick);
        self.y += thick;
        let Some(end) = self.axis.at(value) else {
            return false;
        };
        let written = words::written(value, self.source.y.unit, 3);
        let label = match self.several {
            true => format!("{written} {}", words::shown(&part.name, 12)),
            false => written,
        };
        let ground = self.axis.ground();
        self.svg.bar(
            (ground, y + 1.0),
            (end, y + thick - 1.0),
            &svg::classes(part.look),
            &format!("{}: {label}", words::shown(name, 200)),
        );
        let mut beside = end.max(ground) + 5.0;
        if value > self.most {
            self.svg
                .cut((end, y + thick / 2.0), (1.0, 0.0), thick / 2.0);
            beside += 8.0;
        }
        self.svg
            .text(beside, y + thick / 2.0 + 4.0, Anchor::Start, &label);
        true
    }

    /// The drawing, with its axis below.
    fn finish(self, name: &str) -> String {
        let (mut svg, axis, y, (left, right)) = (self.svg, self.axis, self.y, self.ends);
        svg.line((axis.ground(), 0.0), (axis.ground(), y), "a");
        svg.line((left, y), (right, y), "a");
        columns(&mut svg, &axis, y, (left, right));
        let y_label = words::label(self.source.y.name);
        svg.text(right, y + 34.0, Anchor::End, &words::shown(&y_label, 44));
        svg.finish(y + 40.0, name)
    }
}

/// A name and its bars, each with its series.
type Group<'s, 'r> = (String, Vec<(&'s Series<'r>, f64)>);

/// The bars of each name, in the order of the names.
fn groups<'s, 'r>(source: &Source<'_>, series: &'s [Series<'r>]) -> Vec<Group<'s, 'r>> {
    let mut groups: Vec<Group<'s, 'r>> = Vec::new();
    for part in series {
        for row in &part.rows {
            let Some(value) = words::number(&row[source.y.at]) else {
                continue;
            };
            let name = words::name(&row[source.x.at]);
            match groups.iter_mut().find(|(known, _)| *known == name) {
                Some((_, bars)) => bars.push((part, value)),
                None => groups.push((name, vec![(part, value)])),
            }
        }
    }
    groups
}

/// Vertical bars at the places of their numbers.
pub(crate) fn standing(
    source: &Source<'_>,
    series: &[Series<'_>],
    name: &str,
    notes: &mut Notes,
) -> Result<String, String> {
    let mut bars: Vec<(usize, f64, f64)> = Vec::new();
    for (at, part) in series.iter().enumerate() {
        let points = part.rows.iter().filter_map(|row| point(source, row));
        bars.extend(points.filter_map(|(x, y)| Some((at, x, y?))));
    }
    notes.left_out(BARS_MAX, bars.len(), "bars");
    bars.truncate(BARS_MAX);
    let chart = source.chart;
    let mut bins: Vec<f64> = bars
        .iter()
        .map(|bar| bar.1)
        .filter(|&x| !chart.x_log || x > 0.0)
        .collect();
    bins.sort_by(f64::total_cmp);
    bins.dedup();
    let xs = widened(&bins, chart.x_log).into_iter();
    let most = cut(
        &bars.iter().map(|bar| bar.2).collect::<Vec<_>>(),
        chart.y_log,
        notes,
    );
    let mut frame = Frame::around(source, xs, bars.iter().map(|bar| bar.2.min(most)))?;
    let places: Vec<f64> = bins.iter().filter_map(|&bin| frame.x.at(bin)).collect();
    let near = places
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .fold(60.0, f64::min);
    let width = (near * 0.86 / series.len().max(1) as f64).max(0.6);
    let mut lost = false;
    for (at, x, y) in bars {
        let (Some(middle), Some(top)) = (frame.x.at(x), frame.y.at(y)) else {
            lost = true;
            continue;
        };
        let left = middle + (at as f64 - series.len() as f64 / 2.0) * width;
        let part = &series[at];
        let value = y;
        let [x, y] = [(x, source.x.unit), (y, source.y.unit)]
            .map(|(value, unit)| words::written(value, unit, 4));
        let title = format!("{} {}: {y}", words::shown(&part.name, 40), x);
        let ground = frame.y.ground();
        frame.svg.bar(
            (left, ground),
            (left + width, top),
            &svg::classes(part.look),
            title.trim_start(),
        );
        if value > most {
            let middle = (left + width / 2.0, top);
            frame.svg.cut(middle, (0.0, -1.0), (width / 2.0).max(3.0));
        }
    }
    if lost {
        notes.add(NO_PLACE.into());
    }
    Ok(frame.finish(name))
}

/// A bar is cut if it is more than this many times as long as the longest of the others. Only a few
/// of several bars may be cut.
const CUT_TIMES: f64 = 8.0;
const CUT_PART: usize = 10;
const CUT_OF: usize = 4;

/// The end of bars that would make all others too short to be seen. Infinite if there are none, or
/// the axis is logarithmic.
fn cut(values: &[f64], log: bool, notes: &mut Notes) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    if log || sorted.len() < CUT_OF || sorted.iter().any(|value| *value < 0.0) {
        return f64::INFINITY;
    }
    let few = sorted.len().div_ceil(CUT_PART);
    let is_cut = |pair: &&[f64]| pair[1] > 0.0 && pair[0] > CUT_TIMES * pair[1];
    let found = sorted.windows(2).take(few).rfind(is_cut);
    let Some(pair) = found else {
        return f64::INFINITY;
    };
    notes.add(
        "Bars with a tip at their end are cut, because they are many times as long as all others."
            .into(),
    );
    pair[1] * 1.5
}

/// The bins with half a bin at both ends, so that the outer bars are in the drawing.
fn widened(bins: &[f64], log: bool) -> Vec<f64> {
    let (Some(&first), Some(&last)) = (bins.first(), bins.last()) else {
        return Vec::new();
    };
    let gaps = bins.windows(2);
    if log {
        let least = gaps
            .map(|pair| pair[1] / pair[0])
            .fold(4.0, f64::min)
            .sqrt();
        return vec![first / least, last * least];
    }
    let least = gaps.map(|pair| pair[1] - pair[0]).reduce(f64::min);
    let half = least.map_or(first.abs().max(1.0) / 2.0, |gap| gap / 2.0);
    vec![first - half, last + half]
}
