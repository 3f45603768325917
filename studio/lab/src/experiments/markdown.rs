//! A page of Markdown: headings, paragraphs, lists and tables of plain text.
//!
//! ASCII only, as the documents are: other characters become references. Text cannot leave its
//! place in a table or become markup.

use std::fmt::Write as _;

/// A table; the first column names the rows.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// The columns.
    pub heading: Vec<String>,
    /// The rows, as long as the heading.
    pub rows: Vec<Vec<Entry>>,
}

/// One entry of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// What it says.
    pub text: String,
    /// Whether it is the best of its row.
    pub best: bool,
}

impl<T: Into<String>> From<T> for Entry {
    fn from(text: T) -> Entry {
        Entry {
            text: text.into(),
            best: false,
        }
    }
}

/// A figure, or the mark for none.
pub fn or_dash(figure: Option<String>) -> Entry {
    figure.map_or("-".into(), Entry::from)
}

/// Owned copies of some words.
pub fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// A page that is being written.
#[derive(Debug, Default)]
pub struct Page(String);

impl Page {
    /// The text.
    pub fn into_text(self) -> String {
        self.0
    }

    /// A heading of a level from 1.
    pub fn heading(&mut self, level: usize, text: &str) {
        let before = if self.0.is_empty() { "" } else { "\n" };
        let marks = "#".repeat(level);
        self.line(format_args!("{before}{marks} {}", escape(text)));
    }

    /// A paragraph.
    pub fn paragraph(&mut self, text: &str) {
        self.line(format_args!("\n{}", escape(text)));
    }

    /// Points, one a line.
    pub fn list(&mut self, points: &[String]) {
        for (index, point) in points.iter().enumerate() {
            let before = if index == 0 { "\n" } else { "" };
            self.line(format_args!("{before}* {}", escape(point)));
        }
    }

    /// A table with its caption; nothing if it has no rows.
    pub fn table(&mut self, table: &Table) {
        if table.rows.is_empty() {
            return;
        }
        self.line(format_args!("\n{}:\n", escape(&table.caption)));
        self.row(table.heading.iter().map(|name| escape(name)).collect());
        let rule = (0..table.heading.len()).map(|column| {
            let mut entries = table.rows.iter().filter_map(|row| row.get(column));
            let figures = column > 0 && entries.all(is_figure);
            if figures { "---:" } else { "---" }.to_owned()
        });
        self.row(rule.collect());
        for row in &table.rows {
            let shown = row.iter().map(|entry| match entry.best {
                true => format!("**{}**", escape(&entry.text)),
                false => escape(&entry.text),
            });
            self.row(shown.collect());
        }
    }

    fn row(&mut self, entries: Vec<String>) {
        self.line(format_args!("| {} |", entries.join(" | ")));
    }

    fn line(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{arguments}");
    }
}

fn is_figure(entry: &Entry) -> bool {
    let starts = entry.text.starts_with(|c: char| c.is_ascii_digit());
    starts || ["-", "skipped", "under 10 ms"].contains(&entry.text.as_str())
}

/// Text that is only text, on one line.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => {
                escaped.push('\\');
                escaped.push(character);
            }
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\n' | '\t' => escaped.push(' '),
            character if character.is_ascii_control() => escaped.push('?'),
            character if character.is_ascii() => escaped.push(character),
            character => {
                let _ = write!(escaped, "&#{};", u32::from(character));
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_cells() {
        assert_eq!(
            escape("a|b\n<c> [d](e) \u{e9}"),
            "a\\|b &lt;c&gt; \\[d\\](e) &#233;"
        );
        let best = Entry {
            best: true,
            ..Entry::from("5 (4 to 6)")
        };
        let table = Table {
            caption: "t".to_owned(),
            heading: words(["a", "b", "c"]),
            rows: vec![vec!["x|y".into(), best, "z".into()]],
        };
        let mut page = Page::default();
        page.heading(2, "h");
        page.list(&words(["p", "q"]));
        page.table(&table);
        page.table(&Table::default());
        assert_eq!(
            page.into_text(),
            "## h\n\n* p\n* q\n\nt:\n\n| a | b | c |\n| --- | ---: | --- |\n\
             | x\\|y | **5 (4 to 6)** | z |\n"
        );
    }
}
