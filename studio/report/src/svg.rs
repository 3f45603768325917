//! The parts of a drawing: lines, marks and words as SVG, short enough that thousands fit a page.
//!
//! Colours, dashes and sizes of type are classes. The style sheet gives them a meaning for light
//! and dark.

use std::fmt::Write;

/// Width of a drawing beside others, in its own units, and of one that has the page for itself. It
/// is scaled to the available width.
pub(crate) const WIDTH: f64 = 440.0;
pub(crate) const WIDE: f64 = 960.0;
/// The highest width of a letter, in the larger type of narrow screens.
pub(crate) const LETTER: f64 = 8.2;
/// The number of distinguishable looks: eight colours with six dashes or markers each.
pub(crate) const LOOKS: usize = 48;

const COLOURS: usize = 8;
const DASHES: usize = 6;

/// The dash and marker of a look: no two looks below [`LOOKS`] share both colour and dash.
fn dash(look: usize) -> usize {
    (look % COLOURS + look / COLOURS) % DASHES
}

/// Classes that give a line, marker or bar a look.
pub(crate) fn classes(look: usize) -> String {
    format!("s{} d{}", look % COLOURS, dash(look))
}

/// A drawing that is being made.
pub(crate) struct Svg {
    width: f64,
    body: String,
}

/// The end of a text that is at its place.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    /// Its beginning.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

impl Svg {
    pub(crate) fn new(width: f64) -> Svg {
        Svg {
            width,
            body: String::new(),
        }
    }

    /// A text that is escaped already.
    pub(crate) fn text(&mut self, x: f64, y: f64, anchor: Anchor, text: &str) {
        let class = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " class=m",
            Anchor::End => " class=e",
        };
        let (x, y) = (short(x), short(y));
        self.add(format_args!(
            "<text x=\"{x}\" y=\"{y}\"{class}>{text}</text>"
        ));
    }

    /// A text that is read on any colour.
    pub(crate) fn halo(&mut self, x: f64, y: f64, text: &str) {
        let (x, y) = (short(x), short(y));
        self.add(format_args!(
            "<text x=\"{x}\" y=\"{y}\" class=\"m o\">{text}</text>"
        ));
    }

    /// A text that rises to its place from the lower left.
    pub(crate) fn rising_text(&mut self, x: f64, y: f64, text: &str) {
        let (x, y) = (short(x), short(y));
        self.add(format_args!(
            "<text class=e transform=\"translate({x} {y})rotate(-35)\">{text}</text>"
        ));
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let [x, y, right, down] = [from.0, from.1, to.0 - from.0, to.1 - from.1].map(short);
        self.add(format_args!(
            "<path class={class} d=\"M{x} {y}l{right} {down}\"/>"
        ));
    }

    /// A line from a place down to the ground, whose title shows when a pointer rests on it.
    pub(crate) fn border(&mut self, from: (f64, f64), ground: f64, title: &str) {
        let [x, y, down] = [from.0, from.1, ground - from.1].map(short);
        self.add(format_args!(
            "<path class=br d=\"M{x} {y}v{down}\"><title>{title}</title></path>"
        ));
    }

    /// A shape; `data` is what [`Pen`] drew.
    pub(crate) fn path(&mut self, class: &str, data: &str) {
        self.add(format_args!("<path class=\"{class}\" d=\"{data}\"/>"));
    }

    /// A rectangle whose title shows when a pointer rests on it.
    pub(crate) fn bar(&mut self, from: (f64, f64), to: (f64, f64), class: &str, title: &str) {
        let [x, y] = [from.0.min(to.0), from.1.min(to.1)].map(short);
        let [width, height] = [
            (from.0 - to.0).abs().max(0.5),
            (from.1 - to.1).abs().max(0.5),
        ]
        .map(short);
        self.add(format_args!(
            "<rect class=\"b {class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"><title>{title}</title></rect>"
        ));
    }

    /// The mark of a bar that goes on: a tip at its end, in the direction of the bar, and `wide` to
    /// either side.
    pub(crate) fn cut(&mut self, at: (f64, f64), along: (f64, f64), wide: f64) {
        let [x, y] = [at.0 + along.1 * wide, at.1 + along.0 * wide].map(short);
        let tip = [
            along.0 * 8.0 - along.1 * wide,
            along.1 * 8.0 - along.0 * wide,
        ]
        .map(short);
        let back = [
            -along.0 * 8.0 - along.1 * wide,
            -along.1 * 8.0 - along.0 * wide,
        ]
        .map(short);
        let ([tip_x, tip_y], [back_x, back_y]) = (tip, back);
        self.add(format_args!(
            "<path class=c d=\"M{x} {y}l{tip_x} {tip_y}l{back_x} {back_y}z\"/>"
        ));
    }

    fn add(&mut self, part: std::fmt::Arguments<'_>) {
        let _ = self.body.write_fmt(part);
    }

    /// The drawing, with a name for people who do not see it.
    pub(crate) fn finish(self, height: f64, name: &str) -> String {
        let height = short(height);
        format!(
            "<svg viewBox=\"0 0 {} {height}\" role=img aria-label=\"{name}\">{}</svg>",
            self.width, self.body
        )
    }
}

/// Draws a path with steps from point to point, in tenths.
pub(crate) struct Pen {
    data: String,
    at: (i64, i64),
}

impl Pen {
    pub(crate) fn new() -> Pen {
        Pen {
            data: String::new(),
            at: (0, 0),
        }
    }

    fn moved(&mut self, to: (f64, f64)) -> (i64, i64) {
        let to = ((to.0 * 10.0).round() as i64, (to.1 * 10.0).round() as i64);
        let by = (to.0 - self.at.0, to.1 - self.at.1);
        self.at = to;
        by
    }

    pub(crate) fn start(&mut self, to: (f64, f64)) {
        self.moved(to);
        let (x, y) = (tenths(self.at.0), tenths(self.at.1));
        let _ = write!(self.data, "M{x} {y}");
    }

    pub(crate) fn line_to(&mut self, to: (f64, f64)) {
        match self.moved(to) {
            (0, 0) => {}
            (x, 0) => self.data.extend(["h", &tenths(x)]),
            (0, y) => self.data.extend(["v", &tenths(y)]),
            (x, y) => {
                let y = tenths(y);
                let between = if y.starts_with('-') { "" } else { " " };
                self.data.extend(["l", &tenths(x), between, &y]);
            }
        }
    }

    /// The marker of a look, around a point.
    pub(crate) fn marker(&mut self, look: usize, around: (f64, f64)) {
        self.start(around);
        self.data.push_str(match dash(look) {
            0 => "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0",
            1 => "m-2.7-2.7h5.4v5.4h-5.4z",
            2 => "m0-3.4l3.4 6h-6.8z",
            3 => "m0-3.8l3.8 3.8l-3.8 3.8l-3.8-3.8z",
            4 => "m-1-3.4h2v2.4h2.4v2h-2.4v2.4h-2v-2.4h-2.4v-2h2.4z",
            _ => "m0 3.4l3.4-6h-6.8z",
        });
        self.at = (i64::MIN / 4, i64::MIN / 4);
    }

    /// A rectangle with its upper left corner there.
    pub(crate) fn cell(&mut self, at: (f64, f64), width: f64, height: f64) {
        self.start(at);
        let [width, height, back] = [width, height, -width].map(short);
        self.data
            .extend(["h", &width, "v", &height, "h", &back, "z"]);
    }

    pub(crate) fn data(self) -> String {
        self.data
    }
}

/// A length in tenths.
pub(crate) fn short(value: f64) -> String {
    tenths((value * 10.0).round() as i64)
}

fn tenths(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    match (value.abs() / 10, value.abs() % 10) {
        (0, 0) => "0".into(),
        (whole, 0) => format!("{sign}{whole}"),
        (0, part) => format!("{sign}.{part}"),
        (whole, part) => format!("{sign}{whole}.{part}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn looks_differ_in_colour_or_dash() {
        let looks: HashSet<String> = (0..LOOKS).map(classes).collect();
        assert_eq!(looks.len(), LOOKS);
    }

    #[test]
    fn a_path_is_short() {
        let mut pen = Pen::new();
        pen.start((10.0, 20.04));
        pen.line_to((10.5, 20.0));
        pen.line_to((10.51, 20.0));
        pen.line_to((10.0, 19.5));
        pen.line_to((12.0, 20.0));
        assert_eq!(pen.data(), "M10 20h.5l-.5-.5l2 .5");
    }
}
