//! What a report holds, before it is HTML or Markdown: sections of paragraphs, tables and plots.
//!
//! All text here is plain; each renderer escapes it. Nothing here knows results or stores' meaning.

use super::stores::Looks;

/// A whole report.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// The heading.
    pub title: String,
    /// Under it: when, what scale, what machine, in short.
    pub subtitle: String,
    /// The sections, the first of which is the summary.
    pub sections: Vec<Section>,
    /// The looks of the stores.
    pub looks: Looks,
}

/// A part with a heading.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// A few words for the table of contents.
    pub short: String,
    /// What it holds.
    pub blocks: Vec<Block>,
}

/// A piece of a section.
#[derive(Clone, Debug)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// Points, one a line.
    List(Vec<String>),
    /// Plots that share a legend; HTML only.
    Panels(Vec<Panel>),
    /// A table.
    Table(Table),
    /// A table that HTML folds away behind its caption.
    Folded(Table),
}

/// A table; the first column names the rows.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// The columns.
    pub heading: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<Entry>>,
}

/// One entry of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// What it says.
    pub text: String,
    /// Smaller, beside or below it.
    pub detail: Option<String>,
    /// How it stands out.
    pub tone: Tone,
}

/// How an entry stands out; never the only thing that says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// It does not.
    #[default]
    Plain,
    /// The best of its row.
    Best,
    /// As wanted.
    Good,
    /// Not as wanted.
    Bad,
    /// Nothing to see.
    Faint,
    /// Words, not a figure: set to the left.
    Words,
}

impl Entry {
    /// A plain entry.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Entry {
        Entry {
            text: text.into(),
            ..Entry::default()
        }
    }

    /// An entry with a tone.
    #[must_use]
    pub fn toned(text: impl Into<String>, tone: Tone) -> Entry {
        Entry {
            tone,
            ..Entry::new(text)
        }
    }

    /// The same with a detail.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Entry {
        Entry {
            detail: Some(detail.into()),
            ..self
        }
    }
}

/// One plot.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// Above it.
    pub title: String,
    /// What the vertical axis counts.
    pub vertical: String,
    /// What the horizontal axis counts.
    pub horizontal: String,
    /// Lines, bars or stacks.
    pub shape: Shape,
    /// The horizontal axis's places.
    pub places: Places,
    /// Whether the vertical axis is logarithmic; bars never are.
    pub logarithmic: bool,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// How series are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Points joined by lines.
    #[default]
    Lines,
    /// A line without points: a course over time.
    Course,
    /// A group of bars at each place.
    Bars,
    /// One bar at each place, its parts from series to series.
    Stacks,
}

/// The horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Places {
    /// Named places at equal distances: sizes that double are a logarithmic axis.
    Named(Vec<String>),
    /// Numbers from zero to this.
    Upto(f64),
}

impl Default for Places {
    fn default() -> Places {
        Places::Named(Vec::new())
    }
}

/// One line, or one colour of bars.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Whose it is, for the legend.
    pub name: String,
    /// Its points.
    pub points: Vec<Point>,
}

/// One figure in a plot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The index of the named place, or the number.
    pub place: f64,
    /// The figure.
    pub value: f64,
    /// The least of several rounds.
    pub low: f64,
    /// The largest of several rounds.
    pub high: f64,
}
