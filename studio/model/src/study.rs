//! The figures that the FAST'20 study prints of the loads behind the presets, beside the figures of
//! an analysis.
//!
//! A preset is a model of a load whose trace was never published, so deviations have two sources:
//! the model has exactly what the study's own model has, and the load is scaled. Each value says
//! which source it is, if that is known.
//!
//! Invariant: nothing of the analysis is changed; [`put_beside`] only adds to
//! [`Figure::beside`](evendb_report::Figure::beside).

use evendb_report::{Beside, Document};
use serde_json::Value;

/// A value that the study prints: the figure to which it belongs, and how the analysis says the
/// same.
struct Known {
    figure: &'static str,
    what: &'static str,
    study: &'static str,
    here: Here,
    why: &'static str,
}

/// How a value is found in a figure.
enum Here {
    /// A cell of the row of this kind, or of the first row if there are no kinds: as a number, or
    /// as a share in percent.
    Number(&'static str, &'static str),
    Share(&'static str, &'static str),
    /// One less the share: for `once`, the share of keys that were named more often.
    Rest(&'static str, &'static str),
    /// In a cumulative figure: the share of a kind up to this size (in the columns of size and
    /// share).
    UpTo(&'static str, f64, &'static str, &'static str),
    /// The same share, above the size.
    Above(&'static str, f64, &'static str, &'static str),
    /// The sizes of a kind in the figure: the first and the last.
    Extent(&'static str, &'static str),
}

const NO_DELETES: &str = "the study's model leaves deletes out";
const ALL_KINDS_ALIKE: &str = "the study's model has the same hot pairs for all kinds";
const DECAYS_TOO_SLOWLY: &str = "a power function falls more slowly than what the study counted";
const SEARCHED: &str = "the preset's parameters are ours, searched such that draws come to this";
const OURS: &str = "the study does not print this load's parameters: they are ours";

/// The study's values for the load of a preset.
fn known(preset: &str) -> &'static [Known] {
    match preset {
        "zippydb" | "zippydb-kinds" => ZIPPYDB,
        "udb-assoc" => UDB_ASSOC,
        "up2x" => UP2X,
        _ => &[],
    }
}

/// Why a value differs. The preset by kinds has what the study's model lacks.
fn reason(preset: &str, why: &'static str) -> &'static str {
    match (preset, why) {
        ("zippydb-kinds", NO_DELETES) => "",
        ("zippydb-kinds", ALL_KINDS_ALIKE) => SEARCHED,
        _ => why,
    }
}

/// Makes the tables below shorter.
const fn of(
    figure: &'static str,
    what: &'static str,
    study: &'static str,
    here: Here,
    why: &'static str,
) -> Known {
    Known {
        figure,
        what,
        study,
        here,
        why,
    }
}

const ZIPPYDB: &[Known] = &[
    of(
        "composition",
        "share of gets",
        "78 %",
        Here::Share("get", "share"),
        NO_DELETES,
    ),
    of(
        "composition",
        "share of puts",
        "13 %",
        Here::Share("put", "share"),
        NO_DELETES,
    ),
    of(
        "composition",
        "share of deletes",
        "6 %",
        Here::Share("delete", "share"),
        NO_DELETES,
    ),
    of(
        "composition",
        "share of scans",
        "3 %",
        Here::Share("scan", "share"),
        "",
    ),
    of(
        "accesses-per-key",
        "gets of a key that is got, on average",
        "15.2",
        Here::Number("get", "mean"),
        "",
    ),
    of(
        "accesses-per-key",
        "puts of a key that is put, on average",
        "1.7",
        Here::Number("put", "mean"),
        ALL_KINDS_ALIKE,
    ),
    of(
        "accesses-per-key",
        "scans from a key where scans begin, on average",
        "10.9",
        Here::Number("scan", "mean"),
        ALL_KINDS_ALIKE,
    ),
    of(
        "accesses-per-key",
        "keys that are got once",
        "about 80 %",
        Here::Share("get", "once"),
        DECAYS_TOO_SLOWLY,
    ),
    of(
        "accesses-per-key",
        "keys that are got at least 100 times",
        "about 1 %",
        Here::Share("get", "at_least_100"),
        DECAYS_TOO_SLOWLY,
    ),
    of(
        "accesses-per-key",
        "gets that go to keys with more than 100",
        "about 50 %",
        Here::Share("get", "accesses_of_those_above_100"),
        DECAYS_TOO_SLOWLY,
    ),
    of(
        "accesses-per-key",
        "keys that are put once",
        "about 73 %",
        Here::Share("put", "once"),
        ALL_KINDS_ALIKE,
    ),
    of(
        "key-sizes",
        "sizes of keys",
        "48 to 53, and 90 to 91",
        Here::Extent("get", "bytes"),
        "the study's benchmark has 48",
    ),
    of(
        "value-sizes",
        "values up to 34 bytes",
        "above 90 %",
        Here::UpTo("put", 34.0, "bytes", "operations_up_to"),
        "the Pareto parameters that the study prints say so",
    ),
    of(
        "value-sizes",
        "values above 400 bytes",
        "1 %",
        Here::Above("put", 400.0, "bytes", "operations_up_to"),
        "the Pareto parameters that the study prints say so",
    ),
];

const UDB_ASSOC: &[Known] = &[
    of(
        "composition",
        "share of gets",
        "80.6 %",
        Here::Share("get", "share"),
        "",
    ),
    of(
        "composition",
        "share of puts",
        "15.9 %",
        Here::Share("put", "share"),
        "",
    ),
    of(
        "composition",
        "share of scans",
        "3.5 %",
        Here::Share("scan", "share"),
        "",
    ),
    of(
        "accesses-per-key",
        "keys that are got at least twice",
        "above 70 %",
        Here::Rest("get", "once"),
        OURS,
    ),
    of(
        "accesses-per-key",
        "keys that are put once",
        "above 75 %",
        Here::Share("put", "once"),
        OURS,
    ),
    of(
        "accesses-per-key",
        "keys that are put 10 times or more",
        "below 2 %",
        Here::Share("put", "at_least_10"),
        OURS,
    ),
    of(
        "accesses-per-key",
        "keys where several scans begin",
        "below 1 %",
        Here::Rest("scan", "once"),
        OURS,
    ),
    of(
        "stored-keys",
        "keys of the store that are accessed, in 24 hours",
        "below 3 %",
        Here::Share("", "share"),
        OURS,
    ),
    of(
        "scan-lengths",
        "scans of one record",
        "above 60 %",
        Here::UpTo("", 1.0, "records", "scans_up_to"),
        OURS,
    ),
    of(
        "scan-lengths",
        "scans of more than 100",
        "about 20 %",
        Here::Above("", 100.0, "records", "scans_up_to"),
        OURS,
    ),
    of(
        "key-sizes",
        "keys of 28 bytes",
        "90 %",
        Here::UpTo("get", 28.0, "bytes", "operations_up_to"),
        "",
    ),
    of(
        "sizes",
        "size of a value that is put, on average",
        "about 50",
        Here::Number("put/value", "mean"),
        OURS,
    ),
];

const UP2X: &[Known] = &[
    of(
        "composition",
        "share of merges",
        "92.53 %",
        Here::Share("merge", "share"),
        "",
    ),
    of(
        "composition",
        "share of gets",
        "7.46 %",
        Here::Share("get", "share"),
        "",
    ),
    of(
        "accesses-per-key",
        "keys that are got at least 10 times",
        "about 50 %",
        Here::Share("get", "at_least_10"),
        OURS,
    ),
    of(
        "accesses-per-key",
        "keys that are merged at least 10 times",
        "about 25 %",
        Here::Share("merge", "at_least_10"),
        OURS,
    ),
    of(
        "accesses-per-key",
        "keys that are merged at least 100 times",
        "about 4 %",
        Here::Share("merge", "at_least_100"),
        OURS,
    ),
    of(
        "accesses-per-key",
        "keys that are got at least 100 times",
        "below 1 %",
        Here::Share("get", "at_least_100"),
        OURS,
    ),
    of(
        "key-sizes",
        "merges whose key has up to 9 bytes",
        "6 %",
        Here::UpTo("merge", 9.0, "bytes", "operations_up_to"),
        "",
    ),
    of(
        "key-sizes",
        "gets whose key has up to 9 bytes",
        "all",
        Here::UpTo("get", 9.0, "bytes", "operations_up_to"),
        "keys belong to pairs, in the model, and not to kinds",
    ),
];

/// The presets behind which the study has values: all but `udb`, whose six keyspaces it prints one
/// by one and in bars without numbers; `udb-assoc` is one of them.
pub fn presets() -> impl Iterator<Item = &'static str> {
    crate::presets::names().filter(|name| !known(name).is_empty())
}

/// Puts the study's values of this preset beside the figures. Nothing happens for other loads.
pub fn put_beside(document: &mut Document, preset: &str) {
    for known in known(preset) {
        let Some(here) = here(document, known) else {
            continue;
        };
        let figure = document
            .figures
            .iter_mut()
            .find(|figure| figure.id == known.figure);
        if let Some(figure) = figure {
            figure.beside.push(Beside {
                what: known.what.to_owned(),
                study: known.study.to_owned(),
                here,
                why: reason(preset, known.why).to_owned(),
            });
        }
    }
}

/// The analysis's value. None if it does not have the figure.
fn here(document: &Document, known: &Known) -> Option<String> {
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let cell = |kind: &str, column: &str| {
        let rows = rows(document, known.figure, kind)?;
        let at = document.figure(known.figure)?.column(column)?;
        rows.first().map_or(Some(0.0), |row| row[at].as_f64())
    };
    Some(match known.here {
        Here::Number(kind, column) => format!("{:.1}", cell(kind, column)?),
        Here::Share(kind, column) => percent(cell(kind, column)?),
        Here::Rest(kind, column) => percent(1.0 - cell(kind, column)?),
        Here::UpTo(kind, size, sizes, shares) => {
            percent(up_to(document, known.figure, kind, size, sizes, shares)?)
        }
        Here::Above(kind, size, sizes, shares) => {
            percent(1.0 - up_to(document, known.figure, kind, size, sizes, shares)?)
        }
        Here::Extent(kind, column) => {
            let at = document.figure(known.figure)?.column(column)?;
            let rows = rows(document, known.figure, kind)?;
            match (rows.first()?[at].as_u64()?, rows.last()?[at].as_u64()?) {
                (least, most) if least == most => least.to_string(),
                (least, most) => format!("{least} to {most}"),
            }
        }
    })
}

/// The rows of a kind, or of a kind and what is measured of it (`put/value`). All rows if there is
/// no kind.
fn rows<'a>(document: &'a Document, figure: &str, kind: &str) -> Option<Vec<&'a Vec<Value>>> {
    let figure = document.figure(figure)?;
    let (kind, what) = kind
        .split_once('/')
        .map_or((kind, None), |(kind, what)| (kind, Some(what)));
    let (kinds, whats) = (figure.column("kind"), figure.column("what"));
    let is = |row: &&Vec<Value>, at: Option<usize>, text: &str| {
        at.is_none_or(|at| row[at].as_str() == Some(text))
    };
    let rows = figure
        .rows
        .iter()
        .filter(|row| kind.is_empty() || is(row, kinds, kind));
    Some(
        rows.filter(|row| what.is_none_or(|what| is(row, whats, what)))
            .collect(),
    )
}

/// The share up to a size, of a cumulative figure.
fn up_to(
    document: &Document,
    figure: &str,
    kind: &str,
    size: f64,
    sizes: &str,
    shares: &str,
) -> Option<f64> {
    let rows = rows(document, figure, kind)?;
    let figure = document.figure(figure)?;
    let (size_at, share_at) = (figure.column(sizes)?, figure.column(shares)?);
    let last = rows
        .iter()
        .take_while(|row| row[size_at].as_f64().is_some_and(|at| at <= size))
        .last();
    last.map_or(Some(0.0), |row| row[share_at].as_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use evendb_report::{Figure, Unit};
    use serde_json::json;

    fn figure(id: &str, columns: &[&str], rows: Vec<Vec<Value>>) -> Figure {
        let columns: Vec<_> = columns.iter().map(|name| (*name, Unit::Number)).collect();
        Figure {
            rows,
            ..Figure::new(id, "", "", "", &columns)
        }
    }

    #[test]
    fn the_studys_values_stand_beside_ours() {
        let mut document = Document::new("up2x");
        document.figures = vec![
            figure(
                "composition",
                &["keyspace", "kind", "share"],
                vec![
                    vec![json!("default"), json!("merge"), json!(0.925)],
                    vec![json!("default"), json!("get"), json!(0.075)],
                ],
            ),
            figure(
                "key-sizes",
                &["keyspace", "kind", "bytes", "operations_up_to"],
                vec![
                    vec![json!("default"), json!("get"), json!(9), json!(0.5)],
                    vec![json!("default"), json!("merge"), json!(8), json!(0.01)],
                    vec![json!("default"), json!("merge"), json!(9), json!(0.06)],
                    vec![json!("default"), json!("merge"), json!(17), json!(1.0)],
                ],
            ),
        ];
        put_beside(&mut document, "up2x");
        let found: Vec<_> = document
            .figures
            .iter()
            .flat_map(|figure| &figure.beside)
            .collect();
        let here: Vec<_> = found
            .iter()
            .map(|beside| (beside.study.as_str(), beside.here.as_str()))
            .collect();
        assert_eq!(
            here,
            [
                ("92.53 %", "92.50 %"),
                ("7.46 %", "7.50 %"),
                ("6 %", "6.00 %"),
                ("all", "50.00 %")
            ]
        );
        let before = document.clone();
        put_beside(&mut document, "somebody's own");
        assert_eq!(document, before);
    }

    #[test]
    fn each_value_names_a_figure_and_a_column_that_the_analysis_has() {
        let figures = [
            "composition",
            "accesses-per-key",
            "key-sizes",
            "value-sizes",
            "scan-lengths",
            "sizes",
            "stored-keys",
        ];
        // Its six keyspaces have no values here: they are in its file.
        let without = crate::presets::names().filter(|name| known(name).is_empty());
        assert_eq!(without.collect::<Vec<_>>(), ["udb"]);
        for preset in presets() {
            // Only the model that the study prints is known to lack something.
            let mut why = known(preset).iter().map(|known| reason(preset, known.why));
            let lacks = [NO_DELETES, ALL_KINDS_ALIKE];
            assert_eq!(why.any(|why| lacks.contains(&why)), preset == "zippydb");
            assert!(
                known(preset)
                    .iter()
                    .all(|known| figures.contains(&known.figure))
            );
        }
    }
}
