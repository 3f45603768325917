//! Figures over the keyspaces of a trace, which RocksDB calls column families: what each has of the
//! whole, and the sums of all.
//!
//! ```text
//!   composition, unique-keys, stored-keys --> keyspaces       operations, keys, share of stored
//!   rates, a line for each kind           --> keyspace-rates  a line for each keyspace, and all
//! ```
//! They are made from figures that an analysis has by keyspace, without its tables. A trace of one
//! keyspace gets none: they would say nothing new. In both the row [`ALL`] is the sum.

use crate::from_analysis::MakeError;
use crate::from_analysis::table::Table;
use evendb_report::{Chart, Document, Figure, Mark, Unit};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The name of sums over all keyspaces. No name of a store has it by custom.
pub const ALL: &str = "(all)";
/// A plot has the lines of this number of keyspaces, the ones with the most operations.
const LINES_MAX: usize = 24;

/// What is known of one keyspace, or of all.
#[derive(Clone, Copy, Default)]
struct Family {
    operations: f64,
    named: Option<f64>,
    stored: Option<f64>,
    accessed: Option<f64>,
}

impl Family {
    fn add(&mut self, other: &Family) {
        let sum = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a + b),
            (one, other) => one.or(other),
        };
        self.operations += other.operations;
        self.named = sum(self.named, other.named);
        self.stored = sum(self.stored, other.stored);
        self.accessed = sum(self.accessed, other.accessed);
    }

    fn row(&self, name: &str, all: f64) -> Vec<Value> {
        let count = |number: Option<f64>| json!(number.map(|number| number as u64));
        let share = self.accessed.zip(self.stored);
        vec![
            json!(name),
            json!(self.operations as u64),
            json!(self.operations / all),
            count(self.named),
            count(self.stored),
            count(self.accessed),
            json!(share.map(|(accessed, stored)| accessed / stored)),
        ]
    }
}

/// Puts the figures over keyspaces after those from which they are made, if there are several
/// keyspaces.
///
/// # Errors
/// `Missing` if a figure lacks a column.
pub fn add_to(document: &mut Document) -> Result<(), MakeError> {
    let families = families(document)?;
    if families.len() < 2 {
        return Ok(());
    }
    let rates = rates(document, &families)?;
    let keyspaces = keyspaces(&families);
    for (after, figure) in [("composition", keyspaces), ("rates", rates)] {
        let at = document.figures.iter().position(|one| one.id == after);
        if let Some(at) = at.filter(|_| !figure.rows.is_empty()) {
            document.figures.insert(at + 1, figure);
        }
    }
    Ok(())
}

/// All keyspaces, those with more operations first.
fn families(document: &Document) -> Result<Vec<(String, Family)>, MakeError> {
    let mut by_name: BTreeMap<String, Family> = BTreeMap::new();
    let table = Table::of(document, "composition");
    let operations = table.numbers("operations")?;
    for (name, operations) in table.texts("keyspace")?.into_iter().zip(operations) {
        by_name.entry(name).or_default().operations += operations;
    }
    let table = Table::of(document, "unique-keys");
    let periods = table.numbers("period_seconds")?;
    let rows = table.texts("keyspace")?.into_iter().zip(&periods);
    for ((name, period), keys) in rows.zip(table.numbers("new_keys")?) {
        // A key is new in one period of each length.
        if Some(period) == periods.first()
            && let Some(family) = by_name.get_mut(&name)
        {
            *family.named.get_or_insert(0.0) += keys;
        }
    }
    let table = Table::of(document, "stored-keys");
    let rows = table.texts("keyspace")?.into_iter();
    let rows = rows.zip(table.numbers("stored")?);
    for ((name, stored), accessed) in rows.zip(table.numbers("accessed")?) {
        // The store may have a keyspace that the trace does not name.
        let family = by_name.entry(name).or_default();
        (family.stored, family.accessed) = (Some(stored), Some(accessed));
    }
    let mut families: Vec<_> = by_name.into_iter().collect();
    families.sort_by(|a, b| b.1.operations.total_cmp(&a.1.operations));
    Ok(families)
}

fn keyspaces(families: &[(String, Family)]) -> Figure {
    let about = "How many operations each keyspace had and which share of all that is; how many different keys of it the trace names; and, where the keys of the \
                 store were listed, how many it has and how many of these were accessed. The last row is the sum; keys of keyspaces without a list are not in it.";
    let columns = [
        ("keyspace", Unit::Text),
        ("operations", Unit::Count),
        ("operations_share", Unit::Share),
        ("keys", Unit::Count),
        ("stored", Unit::Count),
        ("accessed", Unit::Count),
        ("accessed_share", Unit::Share),
    ];
    let mut figure = Figure::new(
        "keyspaces",
        "Keyspaces",
        about,
        "4.1, figure 2; 4.2, table 1",
        &columns,
    );
    let mut all = Family::default();
    families.iter().for_each(|(_, family)| all.add(family));
    let rows = families.iter();
    figure.rows = rows
        .map(|(name, family)| family.row(name, all.operations))
        .collect();
    figure.rows.push(all.row(ALL, all.operations));
    figure
}

fn rates(document: &Document, families: &[(String, Family)]) -> Result<Figure, MakeError> {
    let about = "How many operations of all kinds came per second, in stretches of equal length, for each of the busiest keyspaces and for all together. \
                 Keyspaces that swing alike serve the same users; one that has peaks alone serves a job.";
    let columns = [
        ("keyspace", Unit::Text),
        ("time", Unit::Seconds),
        ("per_second", Unit::PerSecond),
    ];
    let mut figure = Figure::new(
        "keyspace-rates",
        "Operations per second by keyspace",
        about,
        "4.3, figure 7b",
        &columns,
    );
    let table = Table::of(document, "rates");
    let shown = families.iter().take(LINES_MAX);
    let names: Vec<&str> = shown.map(|(name, _)| &**name).chain([ALL]).collect();
    // Times are not negative, so their bits are in their order.
    let mut sums: BTreeMap<(usize, u64), f64> = BTreeMap::new();
    let (times, rates) = (table.numbers("time")?, table.numbers("per_second")?);
    let rows = table.texts("keyspace")?.into_iter().zip(times).zip(rates);
    for ((name, time), rate) in rows {
        let own = names[..names.len() - 1]
            .iter()
            .position(|known| *known == name);
        for number in own.into_iter().chain([names.len() - 1]) {
            *sums.entry((number, time.to_bits())).or_default() += rate;
        }
    }
    let row = |((number, time), rate): ((usize, u64), f64)| {
        vec![
            json!(names[number]),
            json!(f64::from_bits(time)),
            json!(rate),
        ]
    };
    figure.rows = sums.into_iter().map(row).collect();
    let lines = Chart::new(Mark::Line, "time", "per_second").with_series("keyspace");
    figure.charts.push(lines);
    Ok(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(id: &str, columns: &[&str], rows: &[Value]) -> Figure {
        let columns: Vec<_> = columns.iter().map(|name| (*name, Unit::Number)).collect();
        let rows = rows.iter().map(|row| row.as_array().unwrap().clone());
        Figure {
            rows: rows.collect(),
            ..Figure::new(id, "", "", "", &columns)
        }
    }

    fn document() -> Document {
        let mut document = Document::new("load");
        document.figures = vec![
            figure(
                "composition",
                &["keyspace", "kind", "operations"],
                &[
                    json!(["a", "get", 10]),
                    json!(["a", "put", 20]),
                    json!(["b", "get", 50]),
                ],
            ),
            figure(
                "stored-keys",
                &["keyspace", "stored", "accessed"],
                &[
                    json!(["a", 100, 5]),
                    json!(["b", 300, 30]),
                    json!(["c", 40, 0]),
                ],
            ),
            figure(
                "rates",
                &["keyspace", "kind", "time", "per_second"],
                &[
                    json!(["a", "get", 0.0, 1.0]),
                    json!(["a", "get", 2.5, 2.0]),
                    json!(["a", "put", 0.0, 4.0]),
                    json!(["a", "put", 2.5, 8.0]),
                    json!(["b", "get", 0.0, 16.0]),
                    json!(["b", "get", 2.5, 32.0]),
                ],
            ),
            figure(
                "unique-keys",
                &["keyspace", "period_seconds", "new_keys"],
                &[
                    json!(["a", 2.5, 4]),
                    json!(["a", 2.5, 2]),
                    json!(["b", 2.5, 31]),
                    json!(["a", 60.0, 6]),
                ],
            ),
        ];
        document
    }

    #[test]
    fn each_keyspace_has_its_sums_and_all_together_have_theirs() {
        let mut document = document();
        add_to(&mut document).unwrap();
        let ids: Vec<&str> = document.figures.iter().map(|one| &*one.id).collect();
        let right = [
            "composition",
            "keyspaces",
            "stored-keys",
            "rates",
            "keyspace-rates",
            "unique-keys",
        ];
        assert_eq!(ids, right);
        let right = [
            json!(["b", 50, 0.625, 31, 300, 30, 0.1]),
            json!(["a", 30, 0.375, 6, 100, 5, 0.05]),
            json!(["c", 0, 0.0, null, 40, 0, 0.0]),
            json!([ALL, 80, 1.0, 37, 440, 35, 35.0 / 440.0]),
        ];
        assert_eq!(json!(document.figures[1].rows), json!(right));
        let right = [
            json!(["b", 0.0, 16.0]),
            json!(["b", 2.5, 32.0]),
            json!(["a", 0.0, 5.0]),
            json!(["a", 2.5, 10.0]),
            json!([ALL, 0.0, 21.0]),
            json!([ALL, 2.5, 42.0]),
        ];
        assert_eq!(json!(document.figures[4].rows), json!(right));
        // The sums are those of the rows, to the last operation.
        let sum = |rows: &[Vec<Value>], at: usize| -> f64 {
            rows.iter().map(|row| row[at].as_f64().unwrap()).sum()
        };
        let rows = &document.figures[1].rows;
        assert_eq!(sum(&rows[..3], 1), rows[3][1].as_f64().unwrap());
        assert_eq!(sum(&rows[..3], 2), 1.0);
    }

    #[test]
    fn one_keyspace_needs_no_sums_and_what_is_not_known_is_left_out() {
        let mut one = document();
        for figure in &mut one.figures {
            figure.rows.retain(|row| row[0] == "a");
        }
        let before = one.figures.len();
        add_to(&mut one).unwrap();
        assert_eq!(one.figures.len(), before);
        let mut bare = document();
        bare.figures.retain(|figure| figure.id == "composition");
        add_to(&mut bare).unwrap();
        assert_eq!(bare.figures.len(), 2);
        let right = json!([ALL, 80, 1.0, null, null, null, null]);
        assert_eq!(json!(bare.figures[1].rows[2]), right);
        // Of many keyspaces the busiest have lines, and all count in the sum.
        let mut many = document();
        for number in 0..100 {
            let name = format!("k{number}");
            many.figures[0]
                .rows
                .push(vec![json!(name), json!("get"), json!(100)]);
            let row = vec![json!(name), json!("get"), json!(0.0), json!(1.0)];
            many.figures[2].rows.push(row);
        }
        add_to(&mut many).unwrap();
        let rates = many.figure("keyspace-rates").unwrap();
        assert_eq!(rates.rows.len(), LINES_MAX + 2);
        let last = &rates.rows[LINES_MAX];
        assert_eq!(json!(last), json!([ALL, 0.0, 121.0]));
    }
}
