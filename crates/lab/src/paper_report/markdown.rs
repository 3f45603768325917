//! A document as Markdown for `docs/benchmarks.md`: the same words and tables, without plots.
//!
//! ASCII only, as the documents are: other characters become references. Names cannot leave their
//! place in a table or become markup.

use std::fmt::Write as _;

use super::document::{Block, Document, Entry, Table, Tone};

/// The whole text.
#[must_use]
pub fn text(document: &Document) -> String {
    let mut text = format!(
        "# {}\n\n{}\n",
        escape(&document.title),
        escape(&document.subtitle)
    );
    for section in &document.sections {
        let _ = write!(text, "\n## {}\n", escape(&section.title));
        for block in &section.blocks {
            match block {
                Block::Text(words) => {
                    let _ = write!(text, "\n{}\n", escape(words));
                }
                Block::List(points) => {
                    text.push('\n');
                    for point in points {
                        let _ = writeln!(text, "* {}", escape(point));
                    }
                }
                Block::Panels(_) => {}
                Block::Table(table) | Block::Folded(table) => add_table(&mut text, table),
            }
        }
    }
    text
}

fn add_table(text: &mut String, table: &Table) {
    let _ = write!(text, "\n{}:\n\n", escape(&table.caption));
    let mut line = |cells: Vec<String>| {
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    };
    line(table.heading.iter().map(|name| escape(name)).collect());
    let rule = (0..table.heading.len()).map(|column| {
        let words = |row: &Vec<Entry>| row.get(column).is_some_and(|e| e.tone == Tone::Words);
        let left = column == 0 || table.rows.iter().any(words);
        if left {
            "---".to_owned()
        } else {
            "---:".to_owned()
        }
    });
    line(rule.collect());
    for row in &table.rows {
        let shown = row
            .iter()
            .enumerate()
            .map(|(column, entry)| shown(column, entry));
        line(shown.collect());
    }
}

fn shown(column: usize, entry: &Entry) -> String {
    let words = match entry.tone {
        Tone::Best => format!("**{}**", escape(&entry.text)),
        _ => escape(&entry.text),
    };
    match entry.detail.as_deref().map(escape) {
        Some(detail) if column == 0 => format!("{words}, {detail}"),
        Some(detail) => format!("{words} ({detail})"),
        None => words,
    }
}

/// Text that is only text, on one line.
#[must_use]
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
        let table = Table {
            caption: "t".to_owned(),
            heading: vec!["a".to_owned(), "b".to_owned()],
            rows: vec![vec![
                Entry::new("x|y").with_detail("1 GiB"),
                Entry::toned("5", Tone::Best).with_detail("4 to 6"),
            ]],
        };
        let mut text = String::new();
        add_table(&mut text, &table);
        assert_eq!(
            text,
            "\nt:\n\n| a | b |\n| --- | ---: |\n| x\\|y, 1 GiB | **5** (4 to 6) |\n"
        );
    }
}
