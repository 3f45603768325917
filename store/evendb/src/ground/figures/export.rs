//! The figures through the `metrics` facade: the recorder that the application has installed gets
//! gauges and counters `evendb_*`, labelled `db` with the database's directory. docs/metrics.md
//! lists them.
//!
//! ```text
//!   gets.munk            evendb_gets_total{part="munk"}    names differ in a part: one metric
//!   pause.room_count     evendb_waits_total{part="room"}
//!   get_nanos.munk       -                                 nothing has two names
//! ```
//! Times are seconds. A counter of the facade is a whole number, so a sum of seconds is a gauge:
//! its name ends with `_seconds_sum`.
//!
//! Counters are given as increments: recorders take the greatest of absolute values, and a database
//! that is closed and opened again in one process begins at zero.

use crate::metrics::{Figure, FigureKind, FigureUnit};
use metrics::{Key, KeyName, Label, Level, Metadata, Recorder, SharedString, Unit};
use std::collections::HashMap;

/// The values that the recorder has got so far.
#[derive(Default)]
pub(crate) struct Published {
    counters: HashMap<&'static str, u64>,
}

/// The form in which a figure leaves the process.
struct Metric<'f> {
    name: String,
    /// Which of several figures of one metric it is.
    part: Option<&'static str>,
    help: &'f str,
}

/// Figures that other figures also say: these are not exported.
const SAID_TWICE: [&str; 3] = ["get_nanos", "put_pause_nanos_max", "get_pause_nanos_max"];

/// Figures that differ in a part: the begin of their names, the end, the metric, and its
/// description.
const FAMILIES: [(&str, &str, &str, &str); 12] = [
    (
        "gets.",
        "",
        "gets_total",
        "Gets, by the component that answered",
    ),
    (
        "get_nanos_total.",
        "",
        "get_seconds_sum",
        "Time of all gets, from a sample, by the component that answered",
    ),
    (
        "written.",
        "",
        "written_bytes_total",
        "Bytes written, by where they went",
    ),
    (
        "memory.budget",
        "",
        "memory_budget_bytes",
        "Bytes of memory that it may use",
    ),
    (
        "memory.",
        "",
        "memory_bytes",
        "Bytes of memory, by what has them",
    ),
    (
        "pause.",
        "_count",
        "waits_total",
        "Waits of calls, by what they waited for",
    ),
    (
        "pause.",
        "_nanos_total",
        "wait_seconds_sum",
        "Time of all waits of calls, by what they waited for",
    ),
    (
        "pause.put_nanos_",
        "",
        "put_pause_seconds",
        "The longest pause of a put (max), and what of a thousand or ten thousand sampled ones all but one stay below",
    ),
    (
        "pause.get_nanos_",
        "",
        "get_pause_seconds",
        "The longest pause of a get (max), and what of a thousand or ten thousand sampled ones all but one stay below",
    ),
    (
        "pause.",
        "_nanos_max",
        "wait_seconds_max",
        "The longest wait of a call, by what it waited for",
    ),
    (
        "pause.",
        "_above_5_ms",
        "waits_above_5_ms_total",
        "Waits of calls that took more than 5 milliseconds, by what they waited for",
    ),
    (
        "space.",
        "_bytes",
        "space_bytes",
        "Bytes on the disk, by what they are; some are parts of others",
    ),
];

impl Metric<'_> {
    /// `None` if another figure says the same.
    fn of(figure: &Figure) -> Option<Metric<'_>> {
        let (begin, _) = figure.name.split_once('.').unwrap_or((figure.name, ""));
        if SAID_TWICE.contains(&begin) {
            return None;
        }
        let of_family = FAMILIES.iter().find_map(|&(before, behind, name, help)| {
            let part = figure.name.strip_prefix(before)?.strip_suffix(behind)?;
            let name = format!("evendb_{name}");
            let part = Some(part).filter(|part| !part.is_empty());
            Some(Metric { name, part, help })
        });
        Some(of_family.unwrap_or_else(|| {
            let plain = figure.name.replace('.', "_");
            let name = match (figure.kind, figure.unit) {
                (_, FigureUnit::Nanoseconds) => plain.replace("_nanos_total", "_seconds_sum"),
                (FigureKind::Counter, _) => format!("{plain}_total"),
                (FigureKind::Gauge, _) => plain,
            };
            Metric {
                name: format!("evendb_{name}"),
                part: None,
                help: figure.description,
            }
        }))
    }
}

pub(crate) fn publish(figures: &[Figure], database: &str, published: &mut Published) {
    metrics::with_recorder(|recorder| {
        if published.counters.is_empty() {
            describe(figures, recorder);
        }
        let metadata = Metadata::new("evendb", Level::INFO, Some(module_path!()));
        for figure in figures {
            let Some(metric) = Metric::of(figure) else {
                continue;
            };
            let mut labels = vec![Label::new("db", database.to_owned())];
            labels.extend(metric.part.map(|part| Label::new("part", part)));
            let key = Key::from_parts(metric.name, labels);
            if figure.unit == FigureUnit::Nanoseconds {
                let seconds = figure.value as f64 / 1e9;
                recorder.register_gauge(&key, &metadata).set(seconds);
                continue;
            }
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

fn describe(figures: &[Figure], recorder: &dyn Recorder) {
    for figure in figures {
        let Some(metric) = Metric::of(figure) else {
            continue;
        };
        let name = KeyName::from(metric.name);
        let unit = match figure.unit {
            FigureUnit::Count => Unit::Count,
            FigureUnit::Bytes => Unit::Bytes,
            FigureUnit::Nanoseconds => Unit::Seconds,
        };
        let help = SharedString::from(metric.help.to_owned());
        match (figure.kind, figure.unit) {
            (FigureKind::Gauge, _) | (_, FigureUnit::Nanoseconds) => {
                recorder.describe_gauge(name, Some(unit), help);
            }
            (FigureKind::Counter, _) => recorder.describe_counter(name, Some(unit), help),
        }
    }
}
