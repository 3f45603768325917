//! What is shown: a document of figures, in the form of its JSON.
//!
//! Invariant: each row of a figure has one cell for each of its columns. [`Document::from_json`]
//! refuses others.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What was found, and its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Version of this form: 1.
    pub format: u32,
    /// The head of the page.
    pub title: String,
    /// The part that is read first.
    #[serde(default, skip_serializing_if = "Summary::is_empty")]
    pub summary: Summary,
    /// Facts of the source and of the run, in order: names and texts.
    pub facts: Vec<(String, String)>,
    /// What was found.
    pub figures: Vec<Figure>,
}

/// For a reader who reads nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// What was found, in one sentence.
    pub verdict: String,
    /// The code that follows from it. Empty if no code does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// A few important figures: names and texts.
    #[serde(default)]
    pub figures: Vec<(String, String)>,
    /// What stands out, in a sentence each.
    #[serde(default)]
    pub stands_out: Vec<String>,
}

impl Summary {
    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Summary::default()
    }
}

/// One table, and how it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// A short name for programs, like `access-counts`.
    pub id: String,
    /// Its subject, in a few words.
    pub title: String,
    /// What it says and how it is read, in plain sentences.
    pub about: String,
    /// The part of the study that it reproduces, like `4.2, figures 3 and 5`. Empty if none.
    pub section: String,
    /// How exact it is.
    pub exactness: Exactness,
    /// The meaning of the cells.
    pub columns: Vec<Column>,
    /// The cells: text, whole numbers, other numbers, or null.
    pub rows: Vec<Vec<Value>>,
    /// The number of rows before the table was thinned, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_before: Option<u64>,
    /// The plots that show it.
    #[serde(default)]
    pub charts: Vec<Chart>,
    /// Values of the study, beside the values found here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Beside>,
}

/// How exact a figure is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exactness {
    /// Every operation of the trace is counted.
    Exact,
    /// From a sample or a sketch: how, and with which error.
    Sketched(String),
    /// From runs of a program, which differ from one to the next: how many, and by how much.
    Measured(String),
}

/// A column of a figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name, in words with underscores.
    pub name: String,
    /// The unit of its numbers.
    pub unit: Unit,
}

/// The kind of a number, which decides how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Not a number.
    Text,
    /// A count.
    Count,
    /// Part of a whole, from 0 to 1.
    Share,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Nanoseconds.
    Nanoseconds,
    /// A number a second.
    PerSecond,
    /// A number without a unit.
    Number,
}

/// A plot of a figure. Columns are named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// A few words above it; empty if the figure's title says enough.
    #[serde(default)]
    pub title: String,
    /// How values are drawn.
    pub mark: Mark,
    /// The column from left to right.
    pub x: String,
    /// The column from below to above. For [`Mark::Heat`], the second coordinate.
    pub y: String,
    /// One colour for each value of this column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// One plot for each value of this column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub panel: Option<String>,
    /// For [`Mark::Heat`], the column that the colours stand for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heat: Option<String>,
    /// Whether the horizontal axis is logarithmic.
    #[serde(default)]
    pub x_log: bool,
    /// Whether the vertical axis is logarithmic.
    #[serde(default)]
    pub y_log: bool,
    /// Lines from below to above that part the values from left to right, which are numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub borders: Vec<Border>,
}

/// A line across a plot, where something begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Border {
    /// The value of the column of panels in whose plot it is; in all, if there is no such column.
    pub panel: String,
    /// Its place among the values from left to right.
    pub at: f64,
    /// What begins there.
    pub name: String,
}

/// How values are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// Values joined by lines.
    Line,
    /// A value stays until the next one, as in a cumulative distribution.
    Step,
    /// A bar for each value; `x` is text or a number that names a bin.
    Bar,
    /// A point for each value.
    Point,
    /// A coloured cell for each pair of `x` and `y`.
    Heat,
}

/// A value of the study and the one found here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// What is compared.
    pub what: String,
    /// What the study prints.
    pub study: String,
    /// What was found here.
    pub here: String,
    /// Why they differ, if they do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl Document {
    /// A document without figures.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Document {
        Document {
            format: 1,
            title: title.into(),
            summary: Summary::default(),
            facts: Vec::new(),
            figures: Vec::new(),
        }
    }

    /// The figure of this name.
    #[must_use]
    pub fn figure(&self, id: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.id == id)
    }

    /// The document as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("all of it has a form in JSON")
    }

    /// Reads what [`to_json`](Document::to_json) wrote.
    ///
    /// # Errors
    /// The fault, in words: it is no JSON, has another form, or a row has more or fewer cells than
    /// there are columns.
    pub fn from_json(text: &str) -> Result<Document, String> {
        let document: Document = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if document.format != 1 {
            return Err(format!(
                "it is of version {}, and this program reads version 1",
                document.format
            ));
        }
        for figure in &document.figures {
            let wrong = figure
                .rows
                .iter()
                .position(|row| row.len() != figure.columns.len());
            if let Some(row) = wrong {
                return Err(format!(
                    "row {row} of figure {} has {} cells, for {} columns",
                    figure.id,
                    figure.rows[row].len(),
                    figure.columns.len()
                ));
            }
        }
        Ok(document)
    }
}

impl Figure {
    /// An exact figure with these words and columns, without rows and charts.
    #[must_use]
    pub fn new(
        id: &str,
        title: &str,
        about: &str,
        section: &str,
        columns: &[(&str, Unit)],
    ) -> Figure {
        let column = |&(name, unit): &(&str, Unit)| Column {
            name: name.to_owned(),
            unit,
        };
        Figure {
            id: id.to_owned(),
            title: title.to_owned(),
            about: about.to_owned(),
            section: section.to_owned(),
            exactness: Exactness::Exact,
            columns: columns.iter().map(column).collect(),
            rows: Vec::new(),
            rows_before: None,
            charts: Vec::new(),
            beside: Vec::new(),
        }
    }

    /// The place of the column with this name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

impl Chart {
    /// A plot of `y` over `x` without words above it, with linear axes, one series and one panel.
    #[must_use]
    pub fn new(mark: Mark, x: &str, y: &str) -> Chart {
        Chart {
            title: String::new(),
            mark,
            x: x.to_owned(),
            y: y.to_owned(),
            series: None,
            panel: None,
            heat: None,
            x_log: false,
            y_log: false,
            borders: Vec::new(),
        }
    }

    /// With one colour for each value of this column.
    #[must_use]
    pub fn with_series(mut self, column: &str) -> Chart {
        self.series = Some(column.to_owned());
        self
    }

    /// With one plot for each value of this column.
    #[must_use]
    pub fn with_panel(mut self, column: &str) -> Chart {
        self.panel = Some(column.to_owned());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_another_length_is_refused() {
        let mut document = Document::new("a load");
        let kind = [("kind", Unit::Text)];
        let mut figure = Figure::new("composition", "Operations by kind", "", "4.1", &kind);
        figure.rows.push(vec!["get".into()]);
        document.figures.push(figure);
        let text = document.to_json();
        assert_eq!(Document::from_json(&text).unwrap(), document);
        document.figures[0].rows.push(Vec::new());
        let refused = Document::from_json(&document.to_json()).unwrap_err();
        assert!(refused.contains("row 1 of figure composition"), "{refused}");
        document.format = 2;
        assert!(
            Document::from_json(&document.to_json())
                .unwrap_err()
                .contains("version 2")
        );
    }
}
