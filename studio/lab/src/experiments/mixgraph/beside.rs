//! A trace beside what is drawn, as the study's figure 15 has a real load beside a generated one:
//! the densities and the rate of the trace's analysis as a series of their own.
//!
//! An analysis leaves out rows that a plot does not need ([`THINNED`]). So a density far out is
//! that of a few numbers together.

use std::path::Path;

use evendb_report::{Document, Figure};
use serde_json::Value;

use super::super::{Failure, at};
use super::densities::{TIMES_MAX, bins, row};
use crate::mixgraph::{Family, Kind, Load};
use crate::whole_file;

/// The name of the series.
const TRACE: &str = "trace";
/// The file of an analysis in its folder.
const FILE: &str = "analysis.json";
/// Rows of an analysis that were left out have less than this multiple of the number before.
const THINNED: f64 = 1.03;

/// The analysis of a trace.
pub(super) struct Beside(Document);

/// Columns of a figure that counts by a number: the number, its count, and the share up to it.
type Columns = [&'static str; 3];

impl Beside {
    /// Reads it from its file, or from the folder that `evendb analyze` made.
    ///
    /// # Errors
    /// It is not there, or is no analysis.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let path = match path.is_dir() {
            true => path.join(FILE),
            false => path.to_owned(),
        };
        let text = whole_file::read_text(&path).map_err(at(&path))?;
        let document = Document::from_json(&text);
        Ok(Self(
            document.map_err(|error| format!("{}: {error}", path.display()))?,
        ))
    }

    /// Puts the series of the trace into the figures of densities.
    pub(super) fn add_to(&self, document: &mut Document, load: &Load) {
        for (number, family) in load.families.iter().enumerate() {
            let prefix = match load.is_of_several() {
                true => format!("keyspace-{number}-"),
                false => String::new(),
            };
            for figure in &mut document.figures {
                if let Some(of) = figure.id.strip_prefix(&prefix).map(str::to_owned) {
                    self.add(figure, &of, family);
                }
            }
        }
    }

    /// Puts the series into a figure of this keyspace.
    fn add(&self, figure: &mut Figure, of: &str, family: &Family) {
        const SIZES: Columns = ["bytes", "operations", "operations_up_to"];
        const LENGTHS: Columns = ["records", "scans", "scans_up_to"];
        const TIMES: Columns = ["accesses", "keys", "keys_up_to"];
        let model = &family.model;
        let sizes = match of {
            "values" => Some((&model.values.sizes, ("value-sizes", Some("put")), SIZES)),
            "scans" => (model.scans.as_ref()).map(|scans| (scans, ("scan-lengths", None), LENGTHS)),
            _ => None,
        };
        if let Some((sizes, what, columns)) = sizes {
            let masses = self.masses(what, &family.name, columns);
            for (first, last) in bins(sizes.least, sizes.most) {
                let within = masses.iter().filter(|(x, _)| (first..=last).contains(x));
                let share: f64 = within.map(|(_, mass)| mass).sum();
                let middle = (first + last) as f64 / 2.0;
                row(figure, (middle, share / (last - first + 1) as f64), TRACE);
            }
        }
        let mut kinds = Kind::ALL.into_iter();
        if let Some(kind) = kinds.find(|kind| of == format!("accesses-{}", kind.name())) {
            let what = ("access-counts", Some(kind.name()));
            let masses = self.masses(what, &family.name, TIMES);
            for times in 1..=u64::from(TIMES_MAX) {
                let share = masses.iter().filter(|(x, _)| *x == times);
                let share = share.map(|(_, mass)| mass).sum();
                row(figure, (times as f64, share), TRACE);
            }
        }
    }

    /// The shares of all numbers in a figure: of its rows, and between two rows that of the rows
    /// that were left out there.
    fn masses(
        &self,
        (id, kind): (&str, Option<&str>),
        keyspace: &str,
        columns: Columns,
    ) -> Vec<(u64, f64)> {
        let mut masses = Vec::new();
        let Some(figure) = self.0.figure(id) else {
            return masses;
        };
        let [Some(x), Some(count), Some(up_to)] = columns.map(|name| figure.column(name)) else {
            return masses;
        };
        let rows = of_keyspace(figure, keyspace, kind);
        let number = |row: &[Value], cell: usize| row[cell].as_f64().unwrap_or_default();
        let Some(first) = rows.first() else {
            return masses;
        };
        // The first row has all up to it.
        let all = number(first, count) / number(first, up_to);
        let (mut before, mut shared) = (0, 0.0);
        for row in rows {
            let (at, own) = (number(row, x) as u64, number(row, count) / all);
            let left_out = number(row, up_to) - shared - own;
            if left_out > 1e-12 && before + 1 < at {
                let last = ((before as f64 * THINNED) as u64 + 1).min(at - 1);
                masses.push(((before + 1).midpoint(last.max(before + 1)), left_out));
            }
            masses.push((at, own));
            (before, shared) = (at, number(row, up_to));
        }
        masses
    }

    /// The operations a second of all kinds and keyspaces, by time.
    pub(super) fn rates(&self) -> Vec<(f64, f64)> {
        let Some(figure) = self.0.figure("rates") else {
            return Vec::new();
        };
        let columns = ["time", "per_second"].map(|name| figure.column(name));
        let [Some(time), Some(rate)] = columns else {
            return Vec::new();
        };
        let cell = |row: &[Value], cell: usize| row[cell].as_f64().unwrap_or_default();
        let mut points: Vec<(f64, f64)> = Vec::new();
        let mut rows: Vec<_> = figure.rows.iter().collect();
        rows.sort_by(|a, b| cell(a, time).total_cmp(&cell(b, time)));
        for row in rows {
            match points.last_mut() {
                Some((at, sum)) if *at == cell(row, time) => *sum += cell(row, rate),
                _ => points.push((cell(row, time), cell(row, rate))),
            }
        }
        points
    }
}

/// The rows of a keyspace and of a kind. An analysis of one keyspace has that for any name.
fn of_keyspace<'f>(figure: &'f Figure, name: &str, kind: Option<&str>) -> Vec<&'f [Value]> {
    let text = |row: &'f Vec<Value>, column: &str| -> &'f str {
        let cell = figure.column(column).map(|at| &row[at]);
        cell.and_then(Value::as_str).unwrap_or_default()
    };
    let mut names: Vec<&str> = figure
        .rows
        .iter()
        .map(|row| text(row, "keyspace"))
        .collect();
    names.sort_unstable();
    names.dedup();
    let name = match names[..] {
        [only] => only,
        _ => name,
    };
    let rows = figure
        .rows
        .iter()
        .filter(|row| text(row, "keyspace") == name);
    let rows = rows.filter(|row| kind.is_none_or(|kind| text(row, "kind") == kind));
    rows.map(Vec::as_slice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::mixgraph::StatisticsArguments;
    use crate::experiments::mixgraph::densities::document;
    use crate::experiments::mixgraph::statistics::Drawn;
    use crate::experiments::tests::parsed;
    use evendb_report::Unit;
    use serde_json::json;
    use std::collections::BTreeMap;

    /// A figure of an analysis that counts these numbers. Every row that is near the one before is
    /// left out.
    fn counted(id: &str, kind: Option<&str>, columns: Columns, numbers: &[u64]) -> Figure {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for number in numbers {
            *counts.entry(*number).or_default() += 1;
        }
        let names = ["keyspace", "kind"]
            .into_iter()
            .take(1 + usize::from(kind.is_some()));
        let columns: Vec<_> = names
            .chain(columns)
            .map(|name| (name, Unit::Number))
            .collect();
        let mut figure = Figure::new(id, "", "", "", &columns);
        let (mut up_to, mut kept) = (0, 0);
        for (number, count) in &counts {
            up_to += count;
            if kept > 0 && (*number as f64) < kept as f64 * THINNED {
                continue;
            }
            kept = *number;
            let mut row = vec![json!("app")];
            row.extend(kind.map(|kind| json!(kind)));
            let share = up_to as f64 / numbers.len() as f64;
            row.extend([json!(number), json!(count), json!(share)]);
            figure.rows.push(row);
        }
        figure
    }

    /// The analysis of a trace with what was drawn.
    fn analysis(drawn: &Drawn) -> Document {
        let mut document = Document::new("a trace");
        let times = |kind: Kind| -> Vec<u64> {
            let named = drawn.accesses[kind as usize]
                .iter()
                .filter(|times| **times > 0);
            named.map(|times| u64::from(*times)).collect()
        };
        let mut accesses = counted(
            "access-counts",
            Some("get"),
            ["accesses", "keys", "keys_up_to"],
            &times(Kind::Get),
        );
        let puts = counted(
            "",
            Some("put"),
            ["accesses", "keys", "keys_up_to"],
            &times(Kind::Put),
        );
        accesses.rows.extend(puts.rows);
        document.figures = vec![
            accesses,
            counted(
                "value-sizes",
                Some("put"),
                ["bytes", "operations", "operations_up_to"],
                &drawn.values,
            ),
            counted(
                "scan-lengths",
                None,
                ["records", "scans", "scans_up_to"],
                &drawn.lengths,
            ),
        ];
        document
    }

    #[test]
    fn a_trace_of_what_was_drawn_lies_on_it() {
        let arguments = ["statistics", "--scale=0.02", "--operations=200000"];
        let arguments: StatisticsArguments = parsed(arguments);
        let (load, drawn) = arguments.drawn().unwrap();
        let mut document = document(&load, &drawn);
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(FILE), analysis(&drawn[0]).to_json()).unwrap();
        let beside = Beside::read(directory.path()).unwrap();
        beside.add_to(&mut document, &load);
        for figure in &document.figures {
            let of = |name: &str| -> BTreeMap<u64, f64> {
                let rows = figure.rows.iter().filter(|row| row[2] == name);
                let number = |cell: &Value| cell.as_f64().unwrap();
                rows.map(|row| ((number(&row[0]) * 2.0) as u64, number(&row[1])))
                    .collect()
            };
            let (drawn, trace) = (of("drawn"), of(TRACE));
            if figure.id == "accesses-scan" {
                assert!(trace.is_empty(), "the analysis has none");
                continue;
            }
            // Up to where rows are left out, each density is the same.
            let near = drawn.iter().filter(|(x, _)| **x <= 60);
            let mut compared = 0;
            for (x, density) in near {
                let trace = trace.get(x).copied().unwrap_or_default();
                assert!(
                    (trace - density).abs() < 1e-9,
                    "{} {x} {density} {trace}",
                    figure.id
                );
                compared += 1;
            }
            assert!(compared >= 3, "{}", figure.id);
            let is_long = !figure.id.starts_with("accesses");
            assert!(!is_long || trace.keys().any(|x| *x > 60), "{}", figure.id);
        }
        assert!(evendb_report::page(&document).contains("<bdi>trace</bdi>"));
    }

    #[test]
    fn what_is_no_analysis_is_refused_and_rates_are_sums_of_kinds() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Beside::read(directory.path()).is_err());
        let path = directory.path().join("other.json");
        std::fs::write(&path, "{}").unwrap();
        let error = Beside::read(&path).err().unwrap().to_string();
        assert!(error.contains("other.json"), "{error}");
        let columns = ["keyspace", "kind", "time", "per_second"].map(|name| (name, Unit::Number));
        let mut rates = Figure::new("rates", "", "", "", &columns);
        for (kind, time, rate) in [("get", 0, 5), ("get", 10, 7), ("put", 0, 1), ("put", 10, 2)] {
            rates
                .rows
                .push(vec![json!("app"), json!(kind), json!(time), json!(rate)]);
        }
        let mut document = Document::new("a trace");
        assert!(Beside(document.clone()).rates().is_empty());
        document.figures.push(rates);
        assert_eq!(Beside(document).rates(), [(0.0, 6.0), (10.0, 9.0)]);
    }
}
