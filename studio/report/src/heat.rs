//! Heat maps: a coloured cell for each pair of two values.
//!
//! Numbers lie along axes; names lie side by side in their order. If there are more cells than a
//! screen has room for, they are added up (if their unit is no count, the mean is taken).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::axis::{Axis, Ends};
use crate::plot::{Dimension, Notes, Series, Source, columns, letters};
use crate::svg::{Anchor, LETTER, Pen, Svg};
use crate::{Unit, words};

const COLUMNS_MAX: usize = 160;
const ROWS_MAX: usize = 100;
const NAMES_MAX: usize = 24;
/// The number of colours from the least to the largest value.
const SHADES: usize = 9;
/// The number of colours from below zero to above it.
const SIDES: usize = 7;
const TOP: f64 = 24.0;

/// One side of the map.
enum Side {
    Names(Vec<String>),
    Numbers { low: f64, high: f64, bins: usize },
}

impl Side {
    fn new(rows: &[&[Value]], of: Dimension<'_>, bins_max: usize) -> Option<Side> {
        let mut values: Vec<f64> = rows
            .iter()
            .filter_map(|row| words::number(&row[of.at]))
            .collect();
        if of.unit == Unit::Text || values.is_empty() {
            let mut names = Vec::new();
            for name in rows.iter().map(|row| words::name(&row[of.at])) {
                if !names.contains(&name) && names.len() < NAMES_MAX {
                    names.push(name);
                }
            }
            return (!names.is_empty()).then_some(Side::Names(names));
        }
        values.sort_by(f64::total_cmp);
        values.dedup();
        let (low, high) = (values[0], values[values.len() - 1]);
        let gap = values
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .fold(f64::INFINITY, f64::min);
        let gap = if gap.is_finite() { gap } else { 1.0 };
        let bins = ((high - low) / gap).round() + 1.0;
        let bins = if bins <= bins_max as f64 {
            bins as usize
        } else {
            bins_max
        };
        // The last value is the beginning of a bin, which is as wide as the others.
        let high = high + gap.max((high - low) / bins as f64 * 0.001);
        Some(Side::Numbers {
            low,
            high,
            bins: bins.max(1),
        })
    }

    fn count(&self) -> usize {
        match self {
            Side::Names(names) => names.len(),
            Side::Numbers { bins, .. } => *bins,
        }
    }

    fn at(&self, value: &Value) -> Option<usize> {
        match self {
            Side::Names(names) => {
                let name = words::name(value);
                names.iter().position(|known| *known == name)
            }
            Side::Numbers { low, high, bins } => {
                let part = (words::number(value)? - low) / (high - low) * *bins as f64;
                Some(((part + 1e-6).max(0.0) as usize).min(bins - 1))
            }
        }
    }

    fn letters(&self) -> f64 {
        match self {
            Side::Names(names) => {
                let longest = names.iter().map(|name| letters(&label(name))).max();
                longest.unwrap_or(1) as f64 * LETTER
            }
            Side::Numbers { .. } => 0.0,
        }
    }
}

fn label(name: &str) -> String {
    words::shown(&name.replace('_', " "), 18)
}

/// A drawing of one panel, with the meaning of its colours.
pub(crate) fn draw(
    source: &Source<'_>,
    series: &[Series<'_>],
    name: &str,
    notes: &mut Notes,
) -> Result<String, String> {
    let heat = source
        .heat
        .ok_or("It does not say what colours stand for.")?;
    let rows: Vec<&[Value]> = series
        .iter()
        .flat_map(|part| part.rows.iter().copied())
        .collect();
    let sides = (
        Side::new(&rows, source.x, COLUMNS_MAX),
        Side::new(&rows, source.y, ROWS_MAX),
    );
    let (Some(across), Some(up)) = sides else {
        return Err("No row has both coordinates.".into());
    };
    let mut cells: BTreeMap<(usize, usize), (f64, usize)> = BTreeMap::new();
    for row in &rows {
        let place = (up.at(&row[source.y.at]), across.at(&row[source.x.at]));
        let ((Some(y), Some(x)), Some(value)) = (place, words::number(&row[heat.at])) else {
            continue;
        };
        let cell = cells.entry((y, x)).or_default();
        *cell = ((cell.0 + value).clamp(-1e300, 1e300), cell.1 + 1);
    }
    if cells.is_empty() {
        return Err("No row has a number for a colour.".into());
    }
    if cells.len() < rows.len() && cells.values().any(|cell| cell.1 > 1) {
        notes.add("Neighbours are taken together where there are more cells than fit.".into());
    }
    let value = |(sum, count): (f64, usize)| match heat.unit {
        Unit::Count | Unit::Bytes => sum,
        _ => sum / count as f64,
    };
    let cells: BTreeMap<(usize, usize), f64> = cells
        .into_iter()
        .map(|(at, cell)| (at, value(cell)))
        .collect();
    let colours = Colours::of(cells.values().copied(), heat.unit);
    let map = Map {
        source,
        across: &across,
        up: &up,
        cells: &cells,
        colours: &colours,
    };
    Ok(map.draw(name) + &colours.key(heat))
}

/// A panel: its cells, and what its sides and colours stand for.
struct Map<'a> {
    source: &'a Source<'a>,
    across: &'a Side,
    up: &'a Side,
    cells: &'a BTreeMap<(usize, usize), f64>,
    colours: &'a Colours,
}

/// Where the cells of a panel lie in its drawing.
struct Field {
    left: f64,
    right: f64,
    ground: f64,
    /// The size of a cell.
    width: f64,
    height: f64,
}

impl Map<'_> {
    fn draw(&self, name: &str) -> String {
        let field = self.field();
        let Field {
            left,
            right,
            ground,
            ..
        } = field;
        let mut svg = Svg::new(self.source.width);
        svg.path("hb", &format!("M{left} {TOP}H{right}V{ground}H{left}z"));
        self.draw_cells(&mut svg, &field);
        let title = words::shown(&words::label(self.source.y.name), 44);
        svg.text(0.0, 12.0, Anchor::Start, &title);
        side_labels(&mut svg, self.up, self.source.y.unit, (left, ground));
        let below = self.labels_below(&mut svg, &field);
        svg.finish(ground + below, name)
    }

    fn field(&self) -> Field {
        let left = match self.up {
            Side::Names(_) => self.up.letters() + 10.0,
            Side::Numbers { .. } => 58.0,
        };
        let right = self.source.width - 16.0;
        let tall = match self.up {
            Side::Names(names) => names.len() as f64 * 30.0,
            Side::Numbers { .. } => 190.0,
        };
        Field {
            left,
            right,
            ground: TOP + tall,
            width: (right - left) / self.across.count() as f64,
            height: tall / self.up.count() as f64,
        }
    }

    /// Draws the cells by colour, and then the numbers in them.
    fn draw_cells(&self, svg: &mut Svg, field: &Field) {
        let (width, height) = (field.width, field.height);
        let mut pens: BTreeMap<String, Pen> = BTreeMap::new();
        let mut texts: Vec<(f64, f64, String)> = Vec::new();
        let written = self.cells.len() <= 100 && width >= 34.0 && height >= 16.0;
        let mut cells = self.cells.iter().peekable();
        while let Some((&(y, x), &value)) = cells.next() {
            let class = self.colours.class(value);
            // Cells of one colour side by side are one rectangle.
            let mut last = x;
            while !written
                && let Some(&(&(_, next), _)) = cells.peek().filter(|((row, next), value)| {
                    *row == y && *next == last + 1 && self.colours.class(**value) == class
                })
            {
                last = next;
                cells.next();
            }
            let at = (
                field.left + x as f64 * width,
                field.ground - (y + 1) as f64 * height,
            );
            let long = (last - x + 1) as f64 * width;
            pens.entry(class)
                .or_insert_with(Pen::new)
                .cell(at, long, height);
            if written {
                texts.push((
                    at.0 + width / 2.0,
                    at.1 + height / 2.0 + 4.0,
                    words::written(value, self.colours.unit, 2),
                ));
            }
        }
        for (class, pen) in pens {
            svg.path(&class, &pen.data());
        }
        for (x, y, text) in texts {
            svg.halo(x, y, &text);
        }
    }

    /// Draws what stands below the cells. Returns its height.
    fn labels_below(&self, svg: &mut Svg, field: &Field) -> f64 {
        let Field {
            left,
            right,
            ground,
            width,
            ..
        } = *field;
        let x = &self.source.x;
        match self.across {
            Side::Names(names) => {
                for (at, name) in names.iter().enumerate() {
                    let middle = left + (at as f64 + 0.5) * width;
                    svg.rising_text(middle + 4.0, ground + 14.0, &label(name));
                }
                self.across.letters() * 0.6 + 18.0
            }
            Side::Numbers { low, high, .. } => {
                let below = 42.0;
                let axis = Axis::new([*low, *high].into_iter(), x.unit, false, Ends::Exact);
                if let Some(axis) = axis.map(|axis| axis.between(left, right)) {
                    columns(svg, &axis, ground, (left, right));
                    for (at, name) in self.source.borders(&axis) {
                        svg.border((at, TOP), ground, &name);
                    }
                }
                let title = words::shown(&words::label(x.name), 44);
                svg.text(right, ground + below - 4.0, Anchor::End, &title);
                below
            }
        }
    }
}

fn side_labels(svg: &mut Svg, up: &Side, unit: Unit, (left, ground): (f64, f64)) {
    let ticks = match up {
        Side::Names(names) => {
            let height = (ground - TOP) / names.len() as f64;
            let place = |at: usize| ground - (at as f64 + 0.5) * height;
            let ticks = names.iter().enumerate();
            ticks.map(|(at, name)| (place(at), label(name))).collect()
        }
        Side::Numbers { low, high, .. } => {
            let axis = Axis::new([*low, *high].into_iter(), unit, false, Ends::Exact);
            axis.map(|axis| axis.between(ground, TOP).ticks(5))
                .unwrap_or_default()
        }
    };
    for (at, label) in ticks {
        svg.text(left - 6.0, at + 4.0, Anchor::End, &label);
    }
}

/// The values that colours stand for.
struct Colours {
    low: f64,
    high: f64,
    log: bool,
    unit: Unit,
}

impl Colours {
    fn of(values: impl Iterator<Item = f64> + Clone, unit: Unit) -> Colours {
        let high = values.clone().fold(f64::NEG_INFINITY, f64::max);
        let low = values.clone().fold(f64::INFINITY, f64::min);
        if low < 0.0 {
            let high = high.abs().max(low.abs());
            return Colours {
                low: -high,
                high,
                log: false,
                unit,
            };
        }
        let least = values
            .filter(|&value| value > 0.0)
            .fold(f64::INFINITY, f64::min);
        let log = least.is_finite() && high > least * 30.0;
        let low = if log { least } else { 0.0 };
        Colours {
            low,
            high,
            log,
            unit,
        }
    }

    fn class(&self, value: f64) -> String {
        if self.low < 0.0 {
            let part = (value / self.high + 1.0) / 2.0 * SIDES as f64;
            return format!("v{}", (part as usize).min(SIDES - 1));
        }
        if value <= 0.0 {
            return "h0".into();
        }
        let part = match self.log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => value / self.high,
        };
        // The first colour stands for nothing.
        format!("h{}", 1 + ((part * (MORE as f64)) as usize).min(MORE - 1))
    }

    /// The colours with the values at both ends.
    fn key(&self, heat: Dimension<'_>) -> String {
        let (prefix, count) = if self.low < 0.0 {
            ('v', SIDES)
        } else {
            ('h', SHADES)
        };
        let boxes: String = (0..count)
            .map(|shade| {
                format!(
                    "<path class={prefix}{shade} d=\"M{} 0h14v10h-14z\"/>",
                    shade * 14
                )
            })
            .collect();
        let ends = [self.low, self.high].map(|value| words::written(value, self.unit, 3));
        let scale = if self.log { " (logarithmic)" } else { "" };
        format!(
            "<p class=key>{}: {} <svg width={} height=10 aria-hidden=true>{boxes}</svg> {}{scale}</p>",
            words::shown(&words::label(heat.name), 44),
            ends[0],
            count * 14,
            ends[1]
        )
    }
}

/// The number of colours for values above nothing.
const MORE: usize = SHADES - 1;
