//! What each departure from the paper's design brings: EvenDB's throughput divided by that of the
//! store in which the departure is undone, round by round.
//!
//! A ratio is of two measurements of one round, which lie beside each other in time. The table
//! shows the median of the rounds and their range. A range that contains 1 says that the rounds do
//! not distinguish the two.

use super::quantity::{Quantity, Spread, figure};
use super::run_results::{CellResults, RunResults, stores_of};
use super::stores;
use crate::experiments::markdown::{Entry, Page, Table, or_dash, words};
use crate::stores::undone;

/// The ratios of the rounds that both stores have.
fn ratios(cell: &CellResults, store: &str, quantity: Quantity) -> Option<Spread> {
    let rounds = |name: &str| cell.stores.iter().find(|one| one.store == name);
    let (own, other) = (rounds(stores::OWN)?, rounds(store)?);
    let pairs = own.rounds.iter().filter_map(|(number, own)| {
        let (own, other) = (own.as_ref().ok()?, other.rounds.get(number)?.as_ref().ok()?);
        let (own, other) = (quantity.of(own)?, quantity.of(other)?);
        (other > 0.0).then_some(own / other)
    });
    Spread::of(pairs)
}

/// A row for each cell, a column for each store in which something is undone.
fn table(cells: &[&CellResults], others: &[&str], quantity: Quantity, caption: String) -> Table {
    let mut heading = words(["workload"]);
    heading.push(format!("evendb, {}", quantity.name()));
    heading.extend(others.iter().map(|store| format!("by {store}")));
    let rows = cells.iter().map(|cell| {
        let own = cell.spread(stores::OWN, quantity);
        let mut row: Vec<Entry> = vec![cell.label().into()];
        row.push(or_dash(own.map(|spread| spread.show(quantity))));
        row.extend(others.iter().map(|store| {
            let measured = ratios(cell, store, quantity);
            or_dash(measured.map(|spread| spread.show_by(figure)))
        }));
        row
    });
    Table {
        caption,
        heading,
        rows: rows.collect(),
    }
}

/// Adds a section, if anything was measured with a departure undone.
pub fn add(page: &mut Page, results: &RunResults) {
    let has_undone = |cell: &&CellResults| {
        let mut stores = cell.stores.iter();
        cell.experiment != "load" && stores.any(|one| undone::words(&one.store).is_some())
    };
    let cells: Vec<&CellResults> = results.cells.iter().filter(has_undone).collect();
    if cells.is_empty() {
        return;
    }
    let all = stores_of(&cells);
    let others: Vec<&str> = (all.into_iter())
        .filter(|store| undone::words(store).is_some())
        .collect();
    page.heading(2, "The paper's own design beside ours");
    page.paragraph(
        "EvenDB with departures from the paper's design undone, in turns with EvenDB as it is. Each ratio is of two \
         measurements of one round: the median, and the range over the rounds. Above 1, the departure is for the better; a \
         range with 1 in it does not tell.",
    );
    let told = others
        .iter()
        .filter_map(|store| Some(format!("{store}: {}.", undone::words(store)?)));
    page.list(&told.collect::<Vec<_>>());
    let caption = "EvenDB's throughput, debt charged, by that of the store in which this is undone";
    page.table(&table(
        &cells,
        &others,
        Quantity::RateWithDebt,
        caption.to_owned(),
    ));
    let caption =
        "Processor time for an operation likewise: below 1, the departure is for the better";
    page.table(&table(
        &cells,
        &others,
        Quantity::CpuMicros,
        caption.to_owned(),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::paper::report::tests as fixture;
    use serde_json::json;

    #[test]
    fn ratios_are_of_one_round_each() {
        let line = |store: &str, round: u64, rate: f64| {
            let phase = json!({ "operations_per_second": rate, "seconds": 10.0 });
            fixture::line("departures", "A/zipf-simple/1GiB", store, round, phase).to_string()
        };
        let lines = [
            line("evendb", 0, 100e3),
            line("evendb-paper", 0, 50e3),
            // Everything is slower in this round.
            line("evendb", 1, 40e3),
            line("evendb-paper", 1, 10e3),
            // A round that one of them lacks says nothing.
            line("evendb", 2, 500e3),
        ];
        let results = RunResults::parse(lines.join("\n").as_bytes()).unwrap();
        let mut page = Page::default();
        add(&mut page, &results);
        let text = page.into_text();
        assert!(text.contains("| 3.00 (2.00 to 4.00) |"), "{text}");
        assert!(text.contains("evendb-paper: all of these"), "{text}");
        let none = line("evendb", 0, 1.0);
        let results = RunResults::parse(none.as_bytes()).unwrap();
        let mut page = Page::default();
        add(&mut page, &results);
        assert!(page.into_text().is_empty());
    }
}
