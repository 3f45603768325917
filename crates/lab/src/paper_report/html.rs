//! A document as one HTML page that loads nothing: style and plots are in it, scripts there are none.
//!
//! Light and dark follow the reader's system. Tables wider than the screen scroll in themselves.
//! All text goes through [`escape`].

use std::fmt::Write as _;

use super::document::{Block, Document, Entry, Panel, Section, Shape, Table, Tone};
use super::plots;
use super::stores::Looks;

/// The page's style sheet.
const STYLE: &str = include_str!("style.css");

/// Text as it stands in an element or an attribute; control characters, which HTML has no place for,
/// become question marks.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(' '),
            character if character.is_control() => escaped.push('?'),
            character => escaped.push(character),
        }
    }
    escaped
}

/// The whole page.
#[must_use]
pub fn page(document: &Document) -> String {
    let mut page = Page {
        text: String::new(),
        looks: &document.looks,
    };
    let title = escape(&document.title);
    // The policy says to the browser what is true anyway: nothing is loaded.
    page.add(format_args!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n\
         <h1>{title}</h1>\n<p class=\"subtitle\">{}</p>\n",
        escape(&document.subtitle)
    ));
    page.add(format_args!("<nav aria-label=\"Contents\">"));
    for (index, section) in document.sections.iter().enumerate() {
        page.add(format_args!(
            "<a href=\"#section-{index}\">{}</a> ",
            escape(&section.short)
        ));
    }
    page.add(format_args!("</nav>\n</header>\n<main>\n"));
    for (index, section) in document.sections.iter().enumerate() {
        page.section(index, section);
    }
    page.add(format_args!("</main>\n</body>\n</html>\n"));
    page.text
}

struct Page<'a> {
    text: String,
    looks: &'a Looks,
}

impl Page<'_> {
    fn add(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(arguments);
    }

    fn section(&mut self, index: usize, section: &Section) {
        self.add(format_args!(
            "<section id=\"section-{index}\">\n<h2>{}</h2>\n",
            escape(&section.title)
        ));
        for block in &section.blocks {
            match block {
                Block::Text(text) => self.add(format_args!("<p>{}</p>\n", escape(text))),
                Block::List(points) => {
                    self.add(format_args!("<ul>\n"));
                    for point in points {
                        self.add(format_args!("<li>{}</li>\n", escape(point)));
                    }
                    self.add(format_args!("</ul>\n"));
                }
                Block::Panels(panels) => self.panels(panels),
                Block::Table(table) => {
                    self.add(format_args!("<h3>{}</h3>\n", escape(&table.caption)));
                    self.table(table);
                }
                Block::Folded(table) => {
                    self.add(format_args!(
                        "<details>\n<summary>{}</summary>\n",
                        escape(&table.caption)
                    ));
                    self.table(table);
                    self.add(format_args!("</details>\n"));
                }
            }
        }
        self.add(format_args!("</section>\n"));
    }

    fn panels(&mut self, panels: &[Panel]) {
        self.legend(panels);
        self.add(format_args!("<div class=\"panels\">\n"));
        for panel in panels {
            let plot = plots::svg(panel, self.looks);
            if !plot.is_empty() {
                self.add(format_args!(
                    "<figure><figcaption>{}</figcaption>\n{plot}</figure>\n",
                    escape(&panel.title)
                ));
            }
        }
        self.add(format_args!("</div>\n"));
    }

    fn legend(&mut self, panels: &[Panel]) {
        let mut seen: Vec<(String, String, bool)> = Vec::new();
        for panel in panels {
            for (index, series) in panel.series.iter().enumerate() {
                let class = plots::class(panel, series, index, self.looks);
                let is_part = panel.shape == Shape::Stacks;
                let entry = (series.name.clone(), class, is_part);
                if !seen.contains(&entry) {
                    seen.push(entry);
                }
            }
        }
        seen.sort_by_key(|(name, class, is_part)| match is_part {
            true => (0, class.clone()),
            false => super::stores::rank(name),
        });
        self.add(format_args!("<p class=\"legend\">"));
        for (name, class, is_part) in seen {
            let look = (!is_part).then(|| self.looks.of(&name));
            let swatch = plots::swatch(&class, look);
            self.add(format_args!("<span>{swatch}{}</span> ", escape(&name)));
        }
        self.add(format_args!("</p>\n"));
    }

    fn table(&mut self, table: &Table) {
        self.add(format_args!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n<table>\n",
            escape(&table.caption)
        ));
        if table.heading.iter().any(|name| !name.is_empty()) {
            self.add(format_args!("<thead><tr>"));
            for (column, name) in table.heading.iter().enumerate() {
                let words = table.rows.iter().any(|row| {
                    row.get(column)
                        .is_some_and(|entry| entry.tone == Tone::Words)
                });
                let class = if words { " class=\"words\"" } else { "" };
                let swatch = match self.looks.contains(name) {
                    true => {
                        let look = self.looks.of(name);
                        plots::swatch(&format!("s{look}"), Some(look))
                    }
                    false => String::new(),
                };
                self.add(format_args!(
                    "<th scope=\"col\"{class}>{swatch}{}</th>",
                    escape(name)
                ));
            }
            self.add(format_args!("</tr></thead>\n"));
        }
        self.add(format_args!("<tbody>\n"));
        for row in &table.rows {
            self.add(format_args!("<tr>"));
            for (column, entry) in row.iter().enumerate() {
                self.entry(column, entry);
            }
            self.add(format_args!("</tr>\n"));
        }
        self.add(format_args!("</tbody>\n</table>\n</div>\n"));
    }

    fn entry(&mut self, column: usize, entry: &Entry) {
        let class = match entry.tone {
            Tone::Plain => "",
            Tone::Best => " class=\"best\"",
            Tone::Good => " class=\"good\"",
            Tone::Bad => " class=\"bad\"",
            Tone::Faint => " class=\"faint\"",
            Tone::Words => " class=\"words\"",
        };
        let (open, close) = match column {
            0 => (format!("<th scope=\"row\"{class}>"), "</th>"),
            _ => (format!("<td{class}>"), "</td>"),
        };
        let detail = entry.detail.as_deref().map_or(String::new(), |detail| {
            format!("<small>{}</small>", escape(detail))
        });
        self.add(format_args!("{open}{}{detail}{close}", escape(&entry.text)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_its_element() {
        assert_eq!(
            escape("<a href='x' title=\"y\">&\n\u{0}"),
            "&lt;a href=&#39;x&#39; title=&quot;y&quot;&gt;&amp; ?"
        );
    }
}
