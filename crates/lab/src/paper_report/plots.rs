//! Plots as inline SVG: text in, text out, no scripts.
//!
//! ```text
//!   unit (log)
//!   100 |     o---o          marks: one colour and shape for each store, everywhere the same
//!    10 |  o--+    \         |: the range of rounds
//!     1 |__________ o__
//!        512 MiB  4 GiB      places at equal distances, or numbers from zero
//! ```
//! Colours are classes (`s0`, `s1`, ... for stores, `p0`, ... for the parts of stacks), so that the
//! page's style sheet can differ between light and dark. Each plot carries its figures as a text
//! alternative, each mark its own as a tooltip.

use std::fmt::Write as _;

use super::document::{Panel, Places, Point, Series, Shape};
use super::html::escape;
use super::quantity::figure;
use super::stores::Looks;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 412.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 214.0;

/// About as wide as a character of an axis label.
const CHARACTER_WIDTH: f64 = 6.4;

/// Parts of stacks that have a colour of their own.
pub const PARTS: usize = 7;

/// Draws a plot; empty if it has nothing to show.
#[must_use]
pub fn svg(panel: &Panel, looks: &Looks) -> String {
    let Some(axis) = Vertical::of(panel) else {
        return String::new();
    };
    let mut drawing = Drawing {
        text: String::new(),
        panel,
        looks,
        axis,
    };
    drawing.add(format_args!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escape(&alternative(panel))
    ));
    drawing.vertical_axis();
    drawing.horizontal_axis();
    match panel.shape {
        Shape::Lines | Shape::Course => drawing.lines(),
        Shape::Bars => drawing.bars(),
        Shape::Stacks => drawing.stacks(),
    }
    drawing.text.push_str("</svg>\n");
    drawing.text
}

/// The class of a series: by its name, or by its position in stacks.
#[must_use]
pub fn class(panel: &Panel, series: &Series, index: usize, looks: &Looks) -> String {
    match panel.shape {
        Shape::Stacks => format!("p{}", index % PARTS),
        _ => format!("s{}", looks.of(&series.name)),
    }
}

/// A store's mark as a small picture of its own, for legends.
#[must_use]
pub fn swatch(class: &str, look: Option<usize>) -> String {
    let mark = match look {
        Some(look) => mark(look, 7.0, 7.0, ""),
        None => "<rect x=\"1\" y=\"1\" width=\"12\" height=\"12\" class=\"fill\"/>".to_owned(),
    };
    format!("<svg class=\"swatch {class}\" viewBox=\"0 0 14 14\" aria-hidden=\"true\">{mark}</svg>")
}

/// The figures in words.
fn alternative(panel: &Panel) -> String {
    let mut words = format!("{}: {}", panel.title, panel.vertical);
    if !panel.horizontal.is_empty() {
        let _ = write!(words, " by {}", panel.horizontal);
    }
    for series in &panel.series {
        let said: Vec<String> = match panel.shape {
            // Hundreds of steps tell nobody anything.
            Shape::Course => {
                let values = || series.points.iter().map(|point| point.value);
                let low = values().fold(f64::INFINITY, f64::min);
                let high = values().fold(0.0, f64::max);
                vec![format!("from {} to {}", figure(low), figure(high))]
            }
            _ => (series.points.iter())
                .map(|point| format!("{} at {}", figure(point.value), place(panel, point)))
                .collect(),
        };
        let _ = write!(words, ". {}: {}", series.name, said.join(", "));
    }
    words
}

fn place(panel: &Panel, point: &Point) -> String {
    match &panel.places {
        Places::Named(names) => names.get(point.place as usize).cloned().unwrap_or_default(),
        Places::Upto(_) => figure(point.place),
    }
}

/// The vertical axis: from figures to positions.
struct Vertical {
    low: f64,
    high: f64,
    logarithmic: bool,
    ticks: Vec<f64>,
}

impl Vertical {
    fn of(panel: &Panel) -> Option<Vertical> {
        let points = || panel.series.iter().flat_map(|series| &series.points);
        let most = points().map(|point| point.high).fold(0.0, f64::max);
        let least = points().map(|point| point.low).filter(|low| *low > 0.0);
        let least = least.fold(f64::INFINITY, f64::min);
        points().next()?;
        if panel.shape == Shape::Stacks {
            return Some(Vertical::linear(100.0));
        }
        if panel.logarithmic && least.is_finite() {
            return Some(Vertical::logarithmic(least, most));
        }
        // Bars carry their figures above them.
        let room = if panel.shape == Shape::Bars {
            1.08
        } else {
            1.0
        };
        Some(Vertical::linear(most * room))
    }

    fn linear(most: f64) -> Vertical {
        let ticks = ticks(most);
        let high = ticks.last().copied().unwrap_or(1.0);
        Vertical {
            low: 0.0,
            high,
            logarithmic: false,
            ticks,
        }
    }

    fn logarithmic(least: f64, most: f64) -> Vertical {
        let (first, last) = (least.log10().floor() as i32, most.log10().ceil() as i32);
        let all: Vec<f64> = (first..=last)
            .flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(decade)))
            .collect();
        let low = all.iter().copied().rfind(|tick| *tick <= least * 1.0001);
        let high = all.iter().copied().find(|tick| *tick >= most * 0.9999);
        let (low, high) = (low.unwrap_or(least), high.unwrap_or(most));
        let many = (high / low).log10() > 2.0;
        let is_decade = |tick: &f64| (tick.log10() - tick.log10().round()).abs() < 1e-9;
        let ticks = all
            .into_iter()
            .filter(|tick| (low..=high).contains(tick) && (!many || is_decade(tick)))
            .collect();
        Vertical {
            low,
            high,
            logarithmic: true,
            ticks,
        }
    }

    fn y(&self, value: f64) -> f64 {
        let part = if self.logarithmic {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        BOTTOM - part.clamp(0.0, 1.0) * (BOTTOM - TOP)
    }
}

/// Round numbers from zero to at least `most`, four to eight of them.
fn ticks(most: f64) -> Vec<f64> {
    if !most.is_finite() || most <= 0.0 {
        return vec![0.0, 1.0];
    }
    let rough = most / 4.0;
    let decade = 10f64.powf(rough.log10().floor());
    let digits = [1.0, 2.0, 2.5, 5.0, 10.0];
    let wide = digits
        .iter()
        .map(|digit| digit * decade)
        .find(|step| *step >= rough * 0.75);
    let step = wide.unwrap_or(rough);
    let count = (most / step - 1e-9).ceil() as usize;
    (0..=count.max(1))
        .map(|index| index as f64 * step)
        .collect()
}

/// A tick's label: no more digits than it needs.
fn tick_label(value: f64) -> String {
    if value >= 1000.0 {
        return figure(value);
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

struct Drawing<'a> {
    text: String,
    panel: &'a Panel,
    looks: &'a Looks,
    axis: Vertical,
}

impl Drawing<'_> {
    fn add(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(arguments);
    }

    fn vertical_axis(&mut self) {
        let logarithmic = if self.axis.logarithmic { " (log)" } else { "" };
        self.add(format_args!(
            "<text x=\"4\" y=\"12\" class=\"axis\">{}{logarithmic}</text>",
            escape(&self.panel.vertical)
        ));
        for tick in self.axis.ticks.clone() {
            let y = self.axis.y(tick);
            self.add(format_args!(
                "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\" class=\"grid\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" class=\"end\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                tick_label(tick)
            ));
        }
    }

    fn horizontal_axis(&mut self) {
        self.add(format_args!(
            "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{BOTTOM}\" y2=\"{BOTTOM}\" class=\"base\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" class=\"middle axis\">{}</text>",
            (LEFT + RIGHT) / 2.0,
            BOTTOM + 38.0,
            escape(&self.panel.horizontal)
        ));
        let labels: Vec<(f64, String)> = match &self.panel.places {
            Places::Named(names) => {
                let room = ((RIGHT - LEFT) / names.len().max(1) as f64 / CHARACTER_WIDTH) as usize;
                let named = names.iter().enumerate();
                named
                    .map(|(index, name)| (index as f64, shortened(name, room)))
                    .collect()
            }
            Places::Upto(most) => {
                let inside = ticks(*most).into_iter().filter(|tick| tick <= most);
                inside.map(|tick| (tick, tick_label(tick))).collect()
            }
        };
        for (place, label) in labels {
            let x = self.x(place);
            self.add(format_args!(
                "<text x=\"{x:.1}\" y=\"{:.1}\" class=\"middle\">{}</text>",
                BOTTOM + 18.0,
                escape(&label)
            ));
        }
    }

    /// Named places have the middle of equal parts; numbers begin at the axis.
    fn x(&self, place: f64) -> f64 {
        let part = match &self.panel.places {
            Places::Named(names) => (place + 0.5) / names.len().max(1) as f64,
            Places::Upto(most) if *most > 0.0 => place / most,
            Places::Upto(_) => 0.0,
        };
        LEFT + part * (RIGHT - LEFT)
    }

    fn tooltip(&self, series: &Series, point: &Point) -> String {
        let range = match point.high > point.low {
            true => format!(" ({} to {})", figure(point.low), figure(point.high)),
            false => String::new(),
        };
        escape(&format!(
            "{}, {}: {}{range} {}",
            series.name,
            place(self.panel, point),
            figure(point.value),
            self.panel.vertical
        ))
    }

    fn whisker(&mut self, x: f64, point: &Point) {
        if point.high > point.low {
            let (low, high) = (self.axis.y(point.low), self.axis.y(point.high));
            let (left, right) = (x - 3.0, x + 3.0);
            self.add(format_args!(
                "<path d=\"M{x:.1} {low:.1}V{high:.1}M{left:.1} {high:.1}H{right:.1}\
                 M{left:.1} {low:.1}H{right:.1}\" class=\"whisker\"/>"
            ));
        }
    }

    fn lines(&mut self) {
        let panel = self.panel;
        // EvenDB comes first everywhere, and is drawn last, over the others.
        for series in panel.series.iter().rev() {
            let look = self.looks.of(&series.name);
            let path: Vec<String> = (series.points.iter())
                .map(|point| format!("{:.1},{:.1}", self.x(point.place), self.axis.y(point.value)))
                .collect();
            self.add(format_args!(
                "<g class=\"s{look}\"><polyline points=\"{}\"/>",
                path.join(" ")
            ));
            if panel.shape == Shape::Lines {
                for point in &series.points {
                    let x = self.x(point.place);
                    self.whisker(x, point);
                    let tooltip = self.tooltip(series, point);
                    let mark = mark(look, x, self.axis.y(point.value), &tooltip);
                    self.text.push_str(&mark);
                }
            }
            self.text.push_str("</g>");
        }
    }

    fn bars(&mut self) {
        let panel = self.panel;
        let Places::Named(names) = &panel.places else {
            return;
        };
        let group = (RIGHT - LEFT) / names.len().max(1) as f64;
        let width = (group * 0.84 / panel.series.len().max(1) as f64).min(64.0);
        let whole = width * panel.series.len() as f64;
        for (index, series) in panel.series.iter().enumerate() {
            let class = class(panel, series, index, self.looks);
            self.add(format_args!("<g class=\"{class}\">"));
            for point in &series.points {
                let x = self.x(point.place) - whole / 2.0 + width * index as f64;
                let y = self.axis.y(point.value);
                let tooltip = self.tooltip(series, point);
                self.add(format_args!(
                    "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" class=\"fill\">\
                     <title>{tooltip}</title></rect>",
                    x + width * 0.06,
                    width * 0.88,
                    (BOTTOM - y).max(0.5)
                ));
                self.whisker(x + width / 2.0, point);
                if width >= 30.0 {
                    let top = self.axis.y(point.high);
                    self.add(format_args!(
                        "<text x=\"{:.1}\" y=\"{:.1}\" class=\"middle\">{}</text>",
                        x + width / 2.0,
                        top - 5.0,
                        figure(point.value)
                    ));
                }
            }
            self.text.push_str("</g>");
        }
    }

    fn stacks(&mut self) {
        let panel = self.panel;
        let Places::Named(names) = &panel.places else {
            return;
        };
        let width = ((RIGHT - LEFT) / names.len().max(1) as f64 * 0.6).min(90.0);
        let mut below = vec![0.0; names.len()];
        for (index, series) in panel.series.iter().enumerate() {
            let class = class(panel, series, index, self.looks);
            self.add(format_args!("<g class=\"{class}\">"));
            for point in &series.points {
                let Some(base) = below.get_mut(point.place as usize) else {
                    continue;
                };
                let (low, high) = (*base, *base + point.value);
                *base = high;
                let (bottom, top) = (self.axis.y(low), self.axis.y(high));
                let tooltip = self.tooltip(series, point);
                self.add(format_args!(
                    "<rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\" \
                     class=\"fill\"><title>{tooltip}</title></rect>",
                    self.x(point.place) - width / 2.0,
                    bottom - top
                ));
                if bottom - top >= 16.0 {
                    self.add(format_args!(
                        "<text x=\"{:.1}\" y=\"{:.1}\" class=\"middle inside\">{:.0} %</text>",
                        self.x(point.place),
                        (bottom + top) / 2.0 + 4.0,
                        point.value
                    ));
                }
            }
            self.text.push_str("</g>");
        }
    }
}

/// A label that has room for so many characters.
fn shortened(label: &str, room: usize) -> String {
    if label.chars().count() <= room {
        return label.to_owned();
    }
    let kept: String = label.chars().take(room.saturating_sub(2)).collect();
    format!("{kept}..")
}

/// A store's mark: shapes differ too, for those who see no colours.
fn mark(look: usize, x: f64, y: f64, tooltip: &str) -> String {
    let title = match tooltip.is_empty() {
        true => String::new(),
        false => format!("<title>{tooltip}</title>"),
    };
    let path = |d: String| format!("<path d=\"{d}\" class=\"fill\">{title}</path>");
    match look % 6 {
        0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" class=\"fill\">{title}</circle>"),
        1 => path(format!("M{:.1} {:.1}h8v8h-8z", x - 4.0, y - 4.0)),
        2 => path(format!(
            "M{x:.1} {:.1}l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
            y - 5.5
        )),
        3 => path(format!("M{x:.1} {:.1}l5.5 9.5h-11z", y - 6.0)),
        4 => path(format!("M{x:.1} {:.1}l5.5 -9.5h-11z", y + 6.0)),
        _ => path(format!(
            "M{:.1} {:.1}h3v-3h4v3h3v4h-3v3h-4v-3h-3z",
            x - 5.0,
            y - 2.0
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(shape: Shape, values: &[f64]) -> Panel {
        let points = values.iter().enumerate().map(|(index, &value)| Point {
            place: index as f64,
            value,
            low: value * 0.9,
            high: value * 1.1,
        });
        Panel {
            title: "a <b>".to_owned(),
            vertical: "kop/s".to_owned(),
            places: Places::Named(values.iter().map(|v| format!("{v} MiB")).collect()),
            shape,
            series: vec![Series {
                name: "\"x\"&".to_owned(),
                points: points.collect(),
            }],
            ..Panel::default()
        }
    }

    #[test]
    fn axes_hold_what_is_drawn() {
        for most in [1e-3, 0.7, 1.0, 9.99, 1_897.0, 3e9] {
            let ticks = ticks(most);
            assert!(ticks[ticks.len() - 1] >= most * 0.999, "{most}: {ticks:?}");
            assert!((3..=8).contains(&ticks.len()), "{most}: {ticks:?}");
        }
        let axis = Vertical::logarithmic(3.0, 1_900.0);
        assert_eq!((axis.low, axis.high), (2.0, 2_000.0));
        assert_eq!(axis.y(2.0), BOTTOM);
        assert!((axis.y(2_000.0) - TOP).abs() < 1e-9);
        assert_eq!(axis.ticks, [10.0, 100.0, 1_000.0]);
    }

    #[test]
    fn every_shape_draws_and_escapes() {
        for shape in [Shape::Lines, Shape::Course, Shape::Bars, Shape::Stacks] {
            let text = svg(&panel(shape, &[1.0, 50.0]), &Looks::default());
            assert!(text.contains("&quot;x&quot;&amp;") && text.contains("a &lt;b&gt;"));
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
            assert!(
                !text.contains("<b>") && !text.contains("\"x\"&\""),
                "{text}"
            );
        }
    }

    #[test]
    fn nothing_and_zero_are_no_trouble() {
        assert_eq!(svg(&Panel::default(), &Looks::default()), "");
        for logarithmic in [false, true] {
            let zero = Panel {
                logarithmic,
                ..panel(Shape::Lines, &[0.0, 0.0])
            };
            let text = svg(&zero, &Looks::default());
            assert!(!text.contains("NaN") && text.contains("<polyline"));
            let equal = Panel {
                logarithmic,
                ..panel(Shape::Lines, &[5.0, 5.0])
            };
            assert!(!svg(&equal, &Looks::default()).contains("NaN"));
        }
    }

    #[test]
    fn ranges_are_drawn() {
        let text = svg(&panel(Shape::Lines, &[1.0, 2.0]), &Looks::default());
        assert_eq!(text.matches("whisker").count(), 2);
    }
}
