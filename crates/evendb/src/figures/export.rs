//! The figures through the `metrics` facade: whatever recorder the application has installed gets
//! gauges and counters `evendb.<name of the figure>`, labelled `db` with the database's directory.
//!
//! Counters are given as increments: recorders take the greatest of absolute values, and a database
//! that is closed and opened again in one process begins at zero.

use super::names::{Figure, FigureKind, FigureUnit};
use metrics::{Key, KeyName, Label, Level, Metadata, Recorder, SharedString, Unit};
use std::collections::HashMap;

/// What has been given to the recorder so far.
#[derive(Default)]
pub(crate) struct Published {
    counters: HashMap<&'static str, u64>,
}

pub(crate) fn publish(figures: &[Figure], database: &str, published: &mut Published) {
    metrics::with_recorder(|recorder| {
        if published.counters.is_empty() {
            describe(figures, recorder);
        }
        let label = Label::new("db", database.to_owned());
        let metadata = Metadata::new("evendb", Level::INFO, Some(module_path!()));
        for figure in figures {
            let key = Key::from_parts(name_of(figure), vec![label.clone()]);
            match figure.kind {
                FigureKind::Gauge => recorder
                    .register_gauge(&key, &metadata)
                    .set(figure.value as f64),
                FigureKind::Counter => {
                    let last = published.counters.entry(figure.name).or_default();
                    // Striped counters are no snapshot: a sum may be a little behind the last one.
                    let more = figure.value.saturating_sub(*last);
                    recorder.register_counter(&key, &metadata).increment(more);
                    *last += more;
                }
            }
        }
    });
}

fn name_of(figure: &Figure) -> String {
    format!("evendb.{}", figure.name)
}

fn describe(figures: &[Figure], recorder: &dyn Recorder) {
    for figure in figures {
        let name = KeyName::from(name_of(figure));
        let unit = match figure.unit {
            FigureUnit::Count => Unit::Count,
            FigureUnit::Bytes => Unit::Bytes,
            FigureUnit::Nanoseconds => Unit::Nanoseconds,
        };
        let description = SharedString::const_str(figure.description);
        match figure.kind {
            FigureKind::Counter => recorder.describe_counter(name, Some(unit), description),
            FigureKind::Gauge => recorder.describe_gauge(name, Some(unit), description),
        }
    }
}
