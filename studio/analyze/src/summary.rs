//! What a reader of the page should know first: one sentence, five figures, and what stands out.
//! All of it comes from the figures.

use evendb_report::{Document, Figure, Summary, Unit, number_shown};
use serde_json::Value;

/// The least shares that stand out.
const ONCE_MIN: f64 = 0.3;
const HOTTEST_MIN: f64 = 0.3;
const ABSENT_MIN: f64 = 0.1;
const FAILED_MIN: f64 = 0.001;
/// A part of the time stands out if its rate is at least this many times that of the whole.
const PEAK_TIMES: f64 = 5.0;
/// Kinds that a cache serves.
const LOOKUPS: [&str; 4] = ["get", "contains", "get_for_update", "multi_get"];
/// Kinds in the first sentence.
const KINDS_MAX: usize = 4;
/// Facts above the figures of the page about what the figures lack.
const LACKS: [&str; 5] = ["sample", "left out", "lost", "not read", "late"];

/// The summary of the figures and facts of a document.
#[must_use]
pub fn of(document: &Document) -> Summary {
    let kinds = kinds(document);
    let operations: f64 = kinds.iter().map(|(_, operations)| operations).sum();
    let fact = |name: &str| document.facts.iter().find(|(known, _)| known == name);
    let seconds = fact("seconds").and_then(|(_, text)| text.parse::<f64>().ok());
    let seconds = seconds.filter(|seconds| *seconds > 0.0);
    let mut summary = Summary {
        verdict: verdict(&kinds, operations, seconds),
        ..Summary::default()
    };
    let mut figure = |name: &str, value: Option<f64>, unit: Unit| {
        let shown = value.map_or_else(|| "not known".to_owned(), |value| number_shown(value, unit));
        summary.figures.push((name.to_owned(), shown));
    };
    let per_key = Table::of(document, "accesses-per-key");
    let busiest = per_key.busiest("keys", "mean");
    figure("operations", Some(operations), Unit::Count);
    let rate = seconds.map(|seconds| operations / seconds);
    figure("operations a second", rate, Unit::PerSecond);
    let keys = busiest.map(|row| per_key.number(row, "keys"));
    figure("different keys of the busiest kind", keys, Unit::Count);
    let once = busiest.map(|row| per_key.number(row, "once"));
    figure("of these named once", once, Unit::Share);
    figure("mean bytes of a value", value_bytes(document), Unit::Bytes);
    summary.stands_out = stands_out(document, rate);
    summary
}

/// The kinds of operation and the number of each, in all keyspaces, the most frequent first.
fn kinds(document: &Document) -> Vec<(String, f64)> {
    let table = Table::of(document, "composition");
    let mut kinds: Vec<(String, f64)> = Vec::new();
    for row in table.rows {
        let (kind, count) = (table.text(row, "kind"), table.number(row, "operations"));
        match kinds.iter_mut().find(|(known, _)| known == kind) {
            Some((_, sum)) => *sum += count,
            None => kinds.push((kind.to_owned(), count)),
        }
    }
    kinds.sort_by(|one, other| other.1.total_cmp(&one.1));
    kinds
}

fn verdict(kinds: &[(String, f64)], operations: f64, seconds: Option<f64>) -> String {
    if operations == 0.0 {
        return "The trace has no operations.".to_owned();
    }
    let share = |count: f64| number_shown(count / operations, Unit::Share);
    let parts = kinds.iter().take(KINDS_MAX);
    let mut parts: Vec<String> = parts
        .map(|(kind, count)| format!("{} {kind}", share(*count)))
        .collect();
    let others: f64 = kinds.iter().skip(KINDS_MAX).map(|(_, count)| count).sum();
    if others > 0.0 {
        parts.push(format!("{} of other kinds", share(others)));
    }
    let within = match seconds {
        Some(seconds) => format!(" within {}", number_shown(seconds, Unit::Seconds)),
        None => ", all at one moment or without times".to_owned(),
    };
    let count = number_shown(operations, Unit::Count);
    let noun = if operations == 1.0 {
        "operation"
    } else {
        "operations"
    };
    format!("{count} {noun}{within}: {}.", parts.join(", "))
}

/// The mean of the values that were written or found, over all kinds, each weighed by its
/// operations.
fn value_bytes(document: &Document) -> Option<f64> {
    let table = Table::of(document, "sizes");
    let kinds = kinds(document);
    let (mut bytes, mut operations) = (0.0, 0.0);
    for row in table.rows {
        if table.text(row, "what") != "value" {
            continue;
        }
        let of = kinds
            .iter()
            .find(|(kind, _)| kind == table.text(row, "kind"));
        let count = of.map_or(0.0, |(_, count)| *count);
        bytes += table.number(row, "mean") * count;
        operations += count;
    }
    (operations > 0.0).then(|| bytes / operations)
}

fn stands_out(document: &Document, rate: Option<f64>) -> Vec<String> {
    let mut said = Vec::new();
    for (name, what) in &document.facts {
        if LACKS.contains(&name.as_str()) {
            said.push(format!(
                "Not all of the trace is in the figures ({name}): {what}."
            ));
        }
    }
    let share = |share: f64| number_shown(share, Unit::Share);
    let table = Table::of(document, "composition");
    let (mut keyspaces, mut failed, mut all) = (Vec::new(), 0.0, 0.0);
    let (mut absent, mut answered) = (0.0, 0.0);
    for row in table.rows {
        keyspaces.push(table.text(row, "keyspace"));
        failed += table.number(row, "failed");
        all += table.number(row, "operations");
        absent += table.number(row, "absent");
        answered += table.number(row, "absent") + table.number(row, "found");
    }
    keyspaces.dedup();
    if failed > all * FAILED_MIN {
        said.push(format!("{} of the operations failed.", share(failed / all)));
    }
    if absent > answered * ABSENT_MIN {
        let share = share(absent / answered);
        said.push(format!(
            "{share} of the reads whose outcome is known found nothing."
        ));
    }
    let per_key = Table::of(document, "accesses-per-key");
    for row in per_key.rows {
        let once = per_key.number(row, "once");
        let looks_up = LOOKUPS.contains(&per_key.text(row, "kind"));
        if looks_up && once >= ONCE_MIN && per_key.number(row, "keys") > 1.0 {
            said.push(format!(
                "{} of the keys that {} names in {} are named once: no cache has them when they are asked for.",
                share(once),
                per_key.text(row, "kind"),
                keyspace(per_key.text(row, "keyspace")),
            ));
        }
    }
    said.extend(hottest(document));
    said.extend(period(document));
    if let Some(peak) = rate.and_then(|rate| peak(document, rate)) {
        said.push(peak);
    }
    if keyspaces.len() > 1 {
        said.push(format!(
            "The trace has {} keyspaces: {}.",
            keyspaces.len(),
            keyspaces
                .iter()
                .take(8)
                .copied()
                .collect::<Vec<_>>()
                .join(", ")
        ));
    }
    said
}

fn keyspace(name: &str) -> String {
    format!("keyspace \"{name}\"")
}

/// Keyspaces and kinds in which a hundredth of the keys has a large share of the accesses.
fn hottest(document: &Document) -> Vec<String> {
    let table = Table::of(document, "access-ranks");
    let name = |row: &[Value]| {
        [
            table.text(row, "keyspace").to_owned(),
            table.text(row, "kind").to_owned(),
        ]
    };
    let same = |a: &Vec<Value>, b: &Vec<Value>| name(a) == name(b);
    let groups = table.rows.chunk_by(same);
    let found = groups.filter_map(|rows| {
        let keys = table.number(rows.last()?, "rank");
        let row = rows
            .iter()
            .find(|row| table.number(row, "rank") >= keys / 100.0)?;
        let up_to = table.number(row, "accesses_up_to");
        (keys >= 100.0 && up_to >= HOTTEST_MIN).then(|| {
            let [of, kind] = name(row);
            format!(
                "The hottest hundredth of the keys has {} of the accesses by {kind} in {}.",
                number_shown(up_to, Unit::Share),
                keyspace(&of)
            )
        })
    });
    found.collect()
}

/// The strongest period of all.
fn period(document: &Document) -> Option<String> {
    let table = Table::of(document, "periods");
    let strength = |row: &[Value]| table.number(row, "strength");
    let rows = table.rows.iter().map(Vec::as_slice);
    let strongest = rows.max_by(|one, other| strength(one).total_cmp(&strength(other)));
    let row = strongest.filter(|row| strength(row) > 0.0)?;
    Some(format!(
        "The load comes again every {}: most clearly the operations by {} in {}, with a strength of {:.2}.",
        number_shown(table.number(row, "period_seconds"), Unit::Seconds),
        table.text(row, "kind"),
        keyspace(table.text(row, "keyspace")),
        strength(row)
    ))
}

/// A part of the time with far more operations a second than the whole.
fn peak(document: &Document, rate: f64) -> Option<String> {
    let table = Table::of(document, "rates");
    let mut times: Vec<(f64, f64)> = Vec::new();
    for row in table.rows {
        let (time, here) = (table.number(row, "time"), table.number(row, "per_second"));
        match times.iter_mut().find(|(known, _)| *known == time) {
            Some((_, sum)) => *sum += here,
            None => times.push((time, here)),
        }
    }
    let (time, most) = times
        .into_iter()
        .max_by(|one, other| one.1.total_cmp(&other.1))?;
    (most >= PEAK_TIMES * rate).then(|| {
        format!(
            "Operations come in bursts: {} at {} of the trace, and {} on average.",
            number_shown(most, Unit::PerSecond),
            number_shown(time, Unit::Seconds),
            number_shown(rate, Unit::PerSecond)
        )
    })
}

/// A figure. Empty if the document lacks it.
struct Table<'a> {
    figure: Option<&'a Figure>,
    rows: &'a [Vec<Value>],
}

impl<'a> Table<'a> {
    fn of(document: &'a Document, id: &str) -> Table<'a> {
        let figure = document.figure(id);
        Table {
            figure,
            rows: figure.map_or(&[], |figure| &figure.rows),
        }
    }

    fn cell<'r>(&self, row: &'r [Value], column: &str) -> Option<&'r Value> {
        row.get(self.figure?.column(column)?)
    }

    fn number(&self, row: &[Value], column: &str) -> f64 {
        self.cell(row, column)
            .and_then(Value::as_f64)
            .unwrap_or(0.0)
    }

    fn text<'r>(&self, row: &'r [Value], column: &str) -> &'r str {
        self.cell(row, column).and_then(Value::as_str).unwrap_or("")
    }

    /// The row with the largest product of two columns.
    fn busiest(&self, one: &str, other: &str) -> Option<&'a [Value]> {
        let product = |row: &[Value]| self.number(row, one) * self.number(row, other);
        let rows = self.rows.iter().map(Vec::as_slice);
        rows.max_by(|a, b| product(a).total_cmp(&product(b)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use serde_json::json;

    fn figure(id: &str, columns: &[&str], rows: Vec<Vec<Value>>) -> Figure {
        let columns: Vec<_> = columns.iter().map(|name| (*name, Unit::Number)).collect();
        Figure {
            rows,
            ..Figure::new(id, "", "", "", &columns)
        }
    }

    fn periods() -> Figure {
        figure(
            "periods",
            &["keyspace", "kind", "period_seconds", "strength"],
            vec![
                vec![json!("app"), json!("put"), json!(3600), json!(0.4)],
                vec![json!("app"), json!("get"), json!(21_600), json!(0.75)],
                vec![json!("log"), json!("put"), Value::Null, Value::Null],
            ],
        )
    }

    fn load() -> Document {
        let mut document = Document::new("a load");
        document.facts = vec![
            ("seconds".to_owned(), "100.000".to_owned()),
            ("lost".to_owned(), "the trace was not ended".to_owned()),
        ];
        let row = |keyspace: &str, kind: &str, count: u64, absent: u64| {
            vec![
                json!(keyspace),
                json!(kind),
                json!(count),
                json!(100),
                json!(absent),
                json!(0),
            ]
        };
        let columns = [
            "keyspace",
            "kind",
            "operations",
            "found",
            "absent",
            "failed",
        ];
        let rank =
            |rank: u64, up_to: f64| vec![json!("app"), json!("get"), json!(rank), json!(up_to)];
        document.figures = vec![
            figure(
                "composition",
                &columns,
                vec![
                    row("app", "get", 700, 600),
                    row("app", "put", 200, 0),
                    row("log", "put", 100, 0),
                ],
            ),
            figure(
                "accesses-per-key",
                &["keyspace", "kind", "keys", "mean", "once"],
                vec![
                    vec![
                        json!("app"),
                        json!("get"),
                        json!(300),
                        json!(2.33),
                        json!(0.6),
                    ],
                    vec![json!("app"), json!("put"), json!(100), json!(2), json!(0.9)],
                ],
            ),
            figure(
                "sizes",
                &["kind", "what", "mean"],
                vec![
                    vec![json!("get"), json!("key"), json!(9)],
                    vec![json!("get"), json!("value"), json!(100)],
                    vec![json!("put"), json!("value"), json!(200)],
                ],
            ),
            figure(
                "access-ranks",
                &["keyspace", "kind", "rank", "accesses_up_to"],
                vec![rank(1, 0.2), rank(3, 0.5), rank(300, 1.0)],
            ),
            figure(
                "rates",
                &["kind", "time", "per_second"],
                vec![
                    vec![json!("get"), json!(0), json!(60)],
                    vec![json!("put"), json!(0), json!(5)],
                ],
            ),
            periods(),
        ];
        document
    }

    #[test]
    fn the_summary_says_what_the_figures_say() {
        let summary = of(&load());
        assert_eq!(
            summary.verdict,
            "1 k operations within 100 s: 70 % get, 30 % put."
        );
        let figures: Vec<&str> = summary
            .figures
            .iter()
            .map(|(_, value)| value.as_str())
            .collect();
        assert_eq!(figures, ["1 k", "10/s", "300", "60 %", "130 B"]);
        let said = summary.stands_out.join("\n");
        for part in [
            "(lost): the trace was not ended",
            "66.7 % of the reads whose outcome is known found nothing",
            "60 % of the keys that get names in keyspace \"app\" are named once",
            "The hottest hundredth of the keys has 50 % of the accesses by get",
            "comes again every 6 h: most clearly the operations by get in keyspace \"app\", with a strength of 0.75",
            "bursts: 65/s at 0 of the trace, and 10/s on average",
            "has 2 keyspaces: app, log",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert_eq!(summary.stands_out.len(), 7, "{said}");
    }

    #[test]
    fn a_load_of_which_little_is_known_has_a_summary_that_says_so() {
        let summary = of(&Document::new("nothing"));
        assert_eq!(summary.verdict, "The trace has no operations.");
        assert_eq!(summary.figures[4].1, "not known");
        let mut one = load();
        one.figures.truncate(1);
        one.facts.clear();
        one.figures[0].rows.truncate(1);
        one.figures[0].rows[0][2] = json!(1);
        one.figures[0].rows[0][3] = json!(1);
        one.figures[0].rows[0][4] = json!(0);
        let summary = of(&one);
        assert!(
            summary
                .verdict
                .starts_with("1 operation, all at one moment"),
            "{}",
            summary.verdict
        );
        assert!(summary.stands_out.is_empty(), "{:?}", summary.stands_out);
    }
}
