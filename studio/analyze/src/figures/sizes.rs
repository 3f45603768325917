//! How large keys and values are, and how many records scans give.
//!
//! All of it is in the table `sizes`, which is read twice: for facts about whole distributions,
//! then for their sizes in rising order. Neither needs the distribution in memory.

use super::Context;
use super::cells::{Row, Thin, Words, cells, number};
use crate::error::Result;
use crate::tables;
use evendb_report::{Chart, Figure, Mark, Unit};
use futures::StreamExt;
use serde_json::Value;

pub(super) async fn find(context: &Context<'_>) -> Result<Vec<Figure>> {
    tables::make_sizes(context.session).await?;
    let wholes = "
        SELECT keyspace, kind, what, sum(operations) AS operations,
               sum(CAST(size AS DOUBLE) * operations) / sum(operations) AS mean, min(size) AS least, max(size) AS most
        FROM sizes GROUP BY keyspace, kind, what ORDER BY keyspace, kind, what";
    let mut wholes = cells(&context.session.rows(wholes).await?)?.into_iter();
    let rows = "SELECT keyspace, kind, what, size, operations FROM sizes ORDER BY keyspace, kind, what, size";
    let mut rows = context.session.stream(rows).await?;
    let mut found = Found::new();
    let mut run: Option<Run> = None;
    while let Some(batch) = rows.next().await {
        for row in cells(&[batch?])? {
            if run.as_ref().is_none_or(|run| run.whole[..3] != row[..3]) {
                found.moments.extend(run.take().map(Run::moments));
                // Both queries give the distributions in the same order.
                run = wholes.next().map(Run::new);
            }
            if let Some(run) = &mut run {
                let up_to = run.add(&row[3], &row[4]);
                found.add(row, up_to);
            }
        }
    }
    found.moments.extend(run.map(Run::moments));
    Ok(found.figures())
}

/// One distribution. Its sizes up to some size have come.
struct Run {
    /// Its keyspace, kind and matter, operations, mean, least and largest size.
    whole: Row,
    operations: u64,
    squares: f64,
    median: Value,
    p99: Value,
}

impl Run {
    fn new(whole: Row) -> Run {
        Run {
            whole,
            operations: 0,
            squares: 0.0,
            median: Value::Null,
            p99: Value::Null,
        }
    }

    /// Takes the next size. Returns the share of the operations that had it or a smaller one.
    fn add(&mut self, size: &Value, operations: &Value) -> f64 {
        let count = operations.as_u64().unwrap_or_default();
        self.operations += count;
        self.squares += (number(size) - number(&self.whole[4])).powi(2) * count as f64;
        let up_to = self.operations as f64 / number(&self.whole[3]);
        for (percentile, share) in [(&mut self.median, 0.5), (&mut self.p99, 0.99)] {
            if percentile.is_null() && up_to >= share {
                *percentile = size.clone();
            }
        }
        up_to
    }

    /// The row of the figure `sizes`.
    fn moments(self) -> Row {
        let sd = (self.squares / self.operations as f64).sqrt();
        let mut row = self.whole[..3].to_vec();
        row.extend([self.whole[4].clone(), sd.into(), self.whole[5].clone()]);
        row.extend([self.median, self.p99, self.whole[6].clone()]);
        row
    }
}

/// Rows of the figures.
struct Found {
    moments: Vec<Row>,
    keys: Thin,
    values: Thin,
    scans: Thin,
    scans_reverse: Thin,
}

impl Found {
    fn new() -> Found {
        Found {
            moments: Vec::new(),
            keys: Thin::new(2, 2, 1.01),
            values: Thin::new(2, 2, 1.02),
            scans: Thin::new(1, 1, 1.02),
            scans_reverse: Thin::new(1, 1, 1.02),
        }
    }

    /// Takes a row of the table.
    fn add(&mut self, mut row: Row, up_to: f64) {
        row.push(up_to.into());
        let what = row.remove(2);
        let (thin, kind) = match what.as_str() {
            Some("key") => (&mut self.keys, true),
            Some("value") => (&mut self.values, true),
            Some("records") => (&mut self.scans, false),
            _ => (&mut self.scans_reverse, false),
        };
        if !kind {
            row.remove(1);
        }
        thin.add(row);
    }

    fn figures(self) -> Vec<Figure> {
        let moments = moments(self.moments);
        let keys = distribution(&KEY_SIZES, self.keys, false);
        let values = distribution(&VALUE_SIZES, self.values, true);
        let scans = distribution(&SCAN_LENGTHS, self.scans, true);
        let reverse = distribution(&SCAN_LENGTHS_REVERSE, self.scans_reverse, true);
        let figures = [moments, keys, values, scans, reverse].into_iter();
        figures.filter(|figure| !figure.rows.is_empty()).collect()
    }
}

fn moments(rows: Vec<Row>) -> Figure {
    let words = Words {
        id: "sizes",
        title: "Sizes of keys and values, lengths of scans",
        about: "Mean, standard deviation, middle and ends of the bytes of keys, of the bytes of values that were written or found, and of the records \
                that scans gave (backward scans apart), over the operations of a kind: a key that is named twice counts twice.",
        section: "5, table 2",
        columns: &[
            ("keyspace", Unit::Text),
            ("kind", Unit::Text),
            ("what", Unit::Text),
            ("mean", Unit::Number),
            ("sd", Unit::Number),
            ("least", Unit::Number),
            ("median", Unit::Number),
            ("p99", Unit::Number),
            ("most", Unit::Number),
        ],
    };
    words.figure(rows)
}

const SIZE_COLUMNS: &[(&str, Unit)] = &[
    ("keyspace", Unit::Text),
    ("kind", Unit::Text),
    ("bytes", Unit::Bytes),
    ("operations", Unit::Count),
    ("operations_up_to", Unit::Share),
];

const KEY_SIZES: Words<'_> = Words {
    id: "key-sizes",
    title: "Sizes of keys",
    about: "The share of operations whose key has at most this number of bytes. Keys that an application composes of few parts give a line of a few steps.",
    section: "5, figures 8(a), 8(c) and 8(e)",
    columns: SIZE_COLUMNS,
};

const VALUE_SIZES: Words<'_> = Words {
    id: "value-sizes",
    title: "Sizes of values",
    about: "The share of operations whose value has at most this number of bytes: of kinds that write, the value written; of those that read, the value found. \
            Operations without a size in the trace are left out.",
    section: "5, figures 8(b) and 8(d)",
    columns: SIZE_COLUMNS,
};

const SCAN_COLUMNS: &[(&str, Unit)] = &[
    ("keyspace", Unit::Text),
    ("records", Unit::Count),
    ("scans", Unit::Count),
    ("scans_up_to", Unit::Share),
];

const SCAN_LENGTHS: Words<'_> = Words {
    id: "scan-lengths",
    title: "Lengths of scans",
    about: "The share of forward scans that gave at most this number of records. A jump at one length is often a limit that the application sets.",
    section: "4.2, figure 4(b)",
    columns: SCAN_COLUMNS,
};

const SCAN_LENGTHS_REVERSE: Words<'_> = Words {
    id: "scan-lengths-reverse",
    title: "Lengths of backward scans",
    about: "The share of backward scans that gave at most this number of records.",
    section: "4.2, figure 4(b)",
    columns: SCAN_COLUMNS,
};

/// A figure of shares up to a size, which is in the last column but two.
fn distribution(words: &Words<'_>, thin: Thin, x_log: bool) -> Figure {
    let (rows, rows_before) = thin.finish();
    let mut figure = words.figure(rows);
    figure.rows_before = rows_before;
    let [.., (x, _), _, (y, _)] = words.columns else {
        return figure;
    };
    let mut steps = Chart::new(Mark::Step, x, y).with_series("keyspace");
    steps.x_log = x_log;
    if words.columns.iter().any(|(name, _)| *name == "kind") {
        steps.series = Some("kind".to_owned());
        steps.panel = Some("keyspace".to_owned());
    }
    figure.charts.push(steps);
    figure
}
