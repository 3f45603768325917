//! The results of all rounds, as medians side by side, with EvenDB's ratio to the best peer.

use std::fmt;

use evendb_lab::parts::median;
use serde_json::{Map, Value, json};

/// The store that the others are peers of.
const OURS: &str = "evendb";

/// A figure of a phase: how it is called and where it is found.
struct Column {
    title: &'static str,
    scale: f64,
    path: &'static [&'static str],
    more_is_better: bool,
}

const COLUMNS: [Column; 5] = [
    Column {
        title: "kop/s",
        scale: 1e-3,
        path: &["operations_per_second"],
        more_is_better: true,
    },
    Column {
        title: "CPU us/op",
        scale: 1.0,
        path: &["cpu_micros_per_operation"],
        more_is_better: false,
    },
    Column {
        title: "write amplification, debt included",
        scale: 1.0,
        path: &["write_amplification_process"],
        more_is_better: false,
    },
    Column {
        title: "put p99.9 us",
        scale: 1e-3,
        path: &["latency_nanos", "put", "p99.9"],
        more_is_better: false,
    },
    Column {
        title: "get p99.9 us",
        scale: 1e-3,
        path: &["latency_nanos", "get", "p99.9"],
        more_is_better: false,
    },
];

/// All results so far.
pub struct Table {
    stores: Vec<String>,
    /// Store and one phase's result, in order of arrival.
    results: Vec<(String, Value)>,
}

impl Table {
    /// An empty table for these stores.
    #[must_use]
    pub fn new(stores: &[String]) -> Self {
        Self {
            stores: stores.to_vec(),
            results: Vec::new(),
        }
    }

    /// Adds the phases of one round of a store.
    pub fn add(&mut self, store: &str, phases: Vec<Value>) {
        let phases = phases.into_iter().map(|phase| (store.to_owned(), phase));
        self.results.extend(phases);
    }

    /// All results by store.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let stores = self.stores.iter().map(|store| {
            let own = self.results.iter().filter(|(name, _)| name == store);
            let phases: Vec<_> = own.map(|(_, phase)| phase.clone()).collect();
            (store.clone(), Value::from(phases))
        });
        json!(stores.collect::<Map<_, _>>())
    }

    /// The phases that occur, in order.
    fn phases(&self) -> Vec<(&str, &str)> {
        let mut phases = Vec::new();
        for (_, result) in &self.results {
            let phase = phase_of(result);
            if !phases.contains(&phase) {
                phases.push(phase);
            }
        }
        phases
    }

    /// The median of a figure over the rounds; `None` where the phase has no such figure.
    fn figure(&self, store: &str, phase: (&str, &str), column: &Column) -> Option<f64> {
        let rounds = self.results.iter().filter(|(name, _)| name == store);
        let figures = rounds
            .filter(|(_, result)| phase_of(result) == phase)
            .filter_map(|(_, result)| {
                let found = column
                    .path
                    .iter()
                    .try_fold(result, |value, key| value.get(key));
                Some(found?.as_f64()? * column.scale)
            });
        let figures: Vec<f64> = figures.collect();
        (!figures.is_empty()).then(|| median(figures))
    }
}

fn phase_of(result: &Value) -> (&str, &str) {
    let text = |name: &str| result.get(name).and_then(Value::as_str).unwrap_or("");
    (text("phase"), text("distribution"))
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for column in &COLUMNS {
            write!(f, "\n{:<28}", column.title)?;
            for store in &self.stores {
                write!(f, " {store:>14}")?;
            }
            writeln!(f, "   {OURS} / best peer")?;
            for phase in self.phases() {
                let figure = |store: &String| self.figure(store, phase, column);
                let figures: Vec<_> = self.stores.iter().map(figure).collect();
                if figures.iter().all(Option::is_none) {
                    continue;
                }
                write!(f, "{:<28}", format!("{} {}", phase.0, phase.1))?;
                for figure in &figures {
                    match figure {
                        Some(figure) => write!(f, " {figure:>14.2}")?,
                        None => write!(f, " {:>14}", "-")?,
                    }
                }
                writeln!(
                    f,
                    "   {}",
                    ratio(&self.stores, &figures, column.more_is_better)
                )?;
            }
        }
        Ok(())
    }
}

/// Our figure by the best peer's.
fn ratio(stores: &[String], figures: &[Option<f64>], more_is_better: bool) -> String {
    let named = || stores.iter().zip(figures);
    let ours = named().find(|(store, _)| *store == OURS);
    let peers = named().filter(|(store, _)| *store != OURS);
    let peers = peers.filter_map(|(_, figure)| *figure);
    let best = peers.reduce(if more_is_better { f64::max } else { f64::min });
    match (ours.and_then(|(_, figure)| *figure), best) {
        (Some(ours), Some(best)) if best > 0.0 => format!("{:.2}x", ours / best),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(speed: f64) -> Value {
        json!({ "phase": "C", "distribution": "uniform", "operations_per_second": speed })
    }

    #[test]
    fn medians_and_the_ratio_to_the_best_peer() {
        let stores = ["evendb", "slow", "fast"].map(str::to_owned);
        let mut table = Table::new(&stores);
        for round in [4000.0, 6000.0, 90_000.0] {
            table.add("evendb", vec![phase(round)]);
            table.add("slow", vec![phase(1000.0)]);
            table.add("fast", vec![phase(3000.0)]);
        }
        let text = table.to_string();
        let line = text.lines().find(|line| line.starts_with("C uniform"));
        let words: Vec<_> = line.unwrap_or("").split_whitespace().collect();
        assert_eq!(words, ["C", "uniform", "6.00", "1.00", "3.00", "2.00x"]);
        assert_eq!(table.to_json()["fast"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn less_is_better_where_it_is() {
        let stores = ["evendb", "a", "b"].map(str::to_owned);
        let figures = [Some(2.0), Some(4.0), None];
        assert_eq!(ratio(&stores, &figures, false), "0.50x");
        assert_eq!(ratio(&stores, &[None, Some(1.0), None], true), "-");
    }
}
