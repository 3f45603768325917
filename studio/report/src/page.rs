//! The page that shows a document: one HTML file that needs nothing else, neither network nor
//! script.
//!
//! Drawings are made here, as SVG. The script of a few lines only lets a reader point at a series.
//! Everything that comes from the document goes through [`crate::words`], so a key or name of a
//! trace cannot become markup.

use std::collections::HashSet;

use serde_json::Value;

use crate::plot::{self, Looks};
use crate::{Beside, Document, Exactness, Figure, Summary, Unit, words};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// The highest number of cells in all tables of the page, which bounds its size. If there is no
/// room for all rows, tables share one highest number of rows: at least `TABLE_ROWS`, and at least
/// `GROUP_ROWS` of each group.
const CELLS: usize = 60_000;
const TABLE_ROWS: usize = 160;
const GROUP_ROWS: usize = 6;
/// A text with more characters has several lines in a table.
const WRAPPED: usize = 28;
/// A table with more rows is folded away.
const OPEN_ROWS: usize = 12;

/// The document as one HTML file.
#[must_use]
pub fn page(document: &Document) -> String {
    let ids = anchors(&document.figures);
    let title = words::shown(&document.title, 160);
    let mut out = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width,initial-scale=1\">\
         <meta name=color-scheme content=\"light dark\"><title>{title}</title><style>{STYLE}</style>\
         <header><h1>{title}</h1>"
    );
    out += &summary(&document.summary);
    out += &facts(&document.facts);
    out += &introduction(&document.figures);
    out += "</header>";
    out += &contents(&document.figures, &ids);
    out += "<main>";
    let mut looks = Looks::default();
    let rows_max = rows_max(&document.figures);
    for (figure, id) in document.figures.iter().zip(&ids) {
        out += &section(figure, id, (&mut looks, rows_max));
    }
    if document.figures.is_empty() {
        out += "<p>There are no figures in this document.</p>";
    }
    out + "</main><script>" + SCRIPT + "</script></html>\n"
}

/// A name for each figure as a target of links: its id if that is fit and not taken.
fn anchors(figures: &[Figure]) -> Vec<String> {
    let mut taken = HashSet::new();
    let anchor = |(at, figure): (usize, &Figure)| {
        let fit = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let id =
            Some(&figure.id).filter(|id| !id.is_empty() && id.len() <= 60 && id.chars().all(fit));
        let id = id.filter(|id| !taken.contains(*id)).cloned();
        let id = id.unwrap_or_else(|| format!("figure-{at}_"));
        taken.insert(id.clone());
        id
    };
    figures.iter().enumerate().map(anchor).collect()
}

/// The verdict, the code that follows from it, a few figures, and what stands out.
fn summary(summary: &Summary) -> String {
    if summary.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "<div class=summary><p class=verdict>{}</p>",
        words::shown(&summary.verdict, 1000)
    );
    if !summary.code.is_empty() {
        let code = words::escape(&summary.code);
        out += &format!("<pre><code>{code}</code></pre>");
    }
    if !summary.figures.is_empty() {
        out += "<dl class=tiles>";
        for (name, value) in &summary.figures {
            let (name, value) = (words::shown(name, 80), words::shown(value, 60));
            out += &format!("<div><dt>{name}</dt><dd><bdi>{value}</bdi></dd></div>");
        }
        out += "</dl>";
    }
    if !summary.stands_out.is_empty() {
        out += "<h2>What stands out</h2><ul>";
        for sentence in &summary.stands_out {
            out += &format!("<li>{}", words::shown(sentence, 1000));
        }
        out += "</ul>";
    }
    out + "</div>"
}

fn facts(facts: &[(String, String)]) -> String {
    let fact = |(name, value): &(String, String)| {
        format!(
            "<div><dt>{}</dt><dd><bdi>{}</bdi></dd></div>",
            words::shown(name, 80),
            words::fact(value, 300)
        )
    };
    match facts.is_empty() {
        true => String::new(),
        false => format!(
            "<dl class=facts>{}</dl>",
            facts.iter().map(fact).collect::<String>()
        ),
    }
}

/// How the page is read. Only parts that the page has are explained.
fn introduction(figures: &[Figure]) -> String {
    let any = |is: fn(&Exactness) -> bool| figures.iter().any(|figure| is(&figure.exactness));
    let mut out = String::from(
        "<p>Each figure says what it shows and how it is read. Below its plots lies the table that they are drawn of. ",
    );
    if any(|exactness| *exactness == Exactness::Exact) {
        out += "<span class=exact>exact</span> means that every operation is counted. ";
    }
    if any(|exactness| matches!(exactness, Exactness::Measured(_))) {
        out += "<span class=sketched>measured</span> means that runs were timed, which differ from one to the next; it says how. ";
    }
    if any(|exactness| matches!(exactness, Exactness::Sketched(_))) {
        out += "<span class=sketched>sketched</span> means that a figure comes from a sample or a summary; it says how. ";
    }
    if figures.iter().any(|figure| !figure.section.is_empty()) {
        out += "Sections, figures and tables with numbers are those of Facebook's study of RocksDB loads (Cao and others, FAST 2020), which these figures follow. ";
    }
    out + "</p>"
}

fn contents(figures: &[Figure], ids: &[String]) -> String {
    let mut out = String::from("<nav aria-label=Contents><h2>Contents</h2><ol>");
    for (figure, id) in figures.iter().zip(ids) {
        out += &format!(
            "<li><a href=\"#{id}\">{}</a>",
            words::shown(&figure.title, 80)
        );
    }
    out + "</ol></nav>"
}

fn section(figure: &Figure, id: &str, (looks, rows_max): (&mut Looks, usize)) -> String {
    let mut out = format!(
        "<section id=\"{id}\"><h2><a href=\"#{id}\">{}</a></h2><p class=about>",
        words::shown(&figure.title, 160)
    );
    let inexact = |what: &str, how: &str| {
        let how = words::shown(how, 400);
        format!("<span class=sketched>{what}</span> <span class=how>{how}</span>")
    };
    let badge = match &figure.exactness {
        Exactness::Exact => "<span class=exact>exact</span>".to_owned(),
        Exactness::Sketched(how) => inexact("sketched", how),
        Exactness::Measured(how) => inexact("measured", how),
    };
    if !figure.section.is_empty() {
        out += &format!(
            "<span class=study>study: {}</span> ",
            words::shown(&figure.section, 80)
        );
    }
    out += &format!("{badge}</p>");
    if !figure.about.is_empty() {
        out += &format!("<p>{}</p>", words::shown(&figure.about, 4000));
    }
    out += &beside(&figure.beside);
    for chart in &figure.charts {
        out += &plot::chart(figure, chart, looks);
    }
    out += &table(figure, rows_max);
    out + "</section>"
}

/// Values that the study prints, beside the values found here.
fn beside(values: &[Beside]) -> String {
    if values.is_empty() {
        return String::new();
    }
    let why = values.iter().any(|value| !value.why.is_empty());
    let mut out = String::from(
        "<div class=scroll><table class=beside><thead><tr><th>The study beside this trace<th>study<th>here",
    );
    if why {
        out += "<th>why they differ";
    }
    out += "</thead>";
    for value in values {
        let cells = [&value.what, &value.study, &value.here].map(|text| words::shown(text, 400));
        out += &format!("<tr><th>{}<td>{}<td>{}", cells[0], cells[1], cells[2]);
        if why {
            out += &format!("<td class=why>{}", words::shown(&value.why, 1000));
        }
    }
    out + "</table></div>"
}

fn table(figure: &Figure, rows_max: usize) -> String {
    if figure.rows.is_empty() {
        return "<p class=note>The table has no rows.</p>".into();
    }
    let rows = kept(figure, rows_max);
    let all = figure
        .rows_before
        .unwrap_or(figure.rows.len() as u64)
        .max(figure.rows.len() as u64);
    let count = |count: u64| words::cell(&Value::from(count), Unit::Count);
    let summary = match rows.len() as u64 {
        shown if shown < all => format!("Table: {} of {} rows", count(shown), count(all)),
        1 => "Table: 1 row".into(),
        shown => format!("Table: {} rows", count(shown)),
    };
    let open = if rows.len() <= OPEN_ROWS { " open" } else { "" };
    let mut out =
        format!("<details{open}><summary>{summary}</summary><div class=scroll><table><thead><tr>");
    for column in &figure.columns {
        let class = if column.unit == Unit::Text {
            ""
        } else {
            " class=n"
        };
        out += &format!(
            "<th{class}>{}",
            words::shown(&words::label(&column.name), 60)
        );
    }
    out += "</thead>";
    let shown = rows.len();
    for row in rows {
        out += "<tr>";
        for (value, column) in row.iter().zip(&figure.columns) {
            let text = words::cell(value, column.unit);
            out += &match column.unit {
                Unit::Text if text.len() > WRAPPED => format!("<td class=w><bdi>{text}</bdi>"),
                Unit::Text => format!("<td><bdi>{text}</bdi>"),
                _ => format!("<td class=n>{text}"),
            };
        }
    }
    out += "</table></div>";
    if shown < figure.rows.len() {
        out += "<p class=note>The JSON file beside this page has all of these rows.</p>";
    }
    out + "</details>"
}

/// The highest number of rows of each table: all of them together have no more cells than a page
/// may have.
fn rows_max(figures: &[Figure]) -> usize {
    let cells = |most: usize| -> usize {
        let of = |figure: &Figure| figure.rows.len().min(most) * figure.columns.len();
        figures.iter().map(of).sum()
    };
    let longest = figures.iter().map(|figure| figure.rows.len()).max();
    let mut most = longest.unwrap_or(0);
    while most > TABLE_ROWS && cells(most) > CELLS {
        most = (most * 7 / 8).max(TABLE_ROWS);
    }
    most
}

/// Rows for the page. The texts on the left name a group; from each group come some rows that lie
/// evenly apart, with the first and the last. For ranks, the first ones.
fn kept(figure: &Figure, rows_max: usize) -> Vec<&Vec<Value>> {
    if figure.rows.len() <= rows_max {
        return figure.rows.iter().collect();
    }
    let texts = figure
        .columns
        .iter()
        .take_while(|column| column.unit == Unit::Text)
        .count();
    let same = |a: &Vec<Value>, b: &Vec<Value>| a.iter().take(texts).eq(b.iter().take(texts));
    let groups: Vec<&[Vec<Value>]> = figure.rows.chunk_by(same).collect();
    let each = (rows_max / groups.len()).max(GROUP_ROWS);
    let ranked = figure.column("rank").is_some();
    let mut rows = Vec::new();
    for group in groups {
        let count = group.len().min(each);
        let place = |at: usize| match ranked || count < 2 {
            true => at,
            false => at * (group.len() - 1) / (count - 1),
        };
        rows.extend((0..count).map(|at| &group[place(at)]));
    }
    rows.truncate(rows_max * 2);
    rows
}
