//! A model of the load that an analysis describes.
//!
//! ```text
//!   figures of the analysis                           the model's part
//!   composition ---------------------------------->   mix, operations
//!   stored-keys, unique-keys --------------------->   pairs, if nobody gives their number
//!   key-sizes, value-sizes, scan-lengths --fits--->   keys, values, scans   (parts.rs)
//!   ranges ------------------------------- fits -->   ranges                (hot.rs; own.rs for
//!   access-ranks, beside the ranges ------ fits -->   accesses               kinds that differ)
//!   hottest-keys -------------------------------->    whether kinds share their hot keys (own.rs)
//!   rates ----------------------- periods, fits -->   rate                  (rate.rs)
//!   pearson -------------------------------------->   a warning, if parts depend on each other
//! ```
//! Each choice is told in a note, with the error of the chosen candidate and of the others.
//! [`make`] makes a model of one keyspace: the busiest, or the one that is named. [`make_workload`]
//! makes one of each keyspace of the trace (`workload.rs`).
//!
//! An analysis leaves out figures about what a load does not have. So every figure may be missing
//! except the composition. [`Made::unknown`] says what is assumed for what cannot be known.

mod course;
mod hot;
mod own;
mod parts;
pub(crate) mod rate;
mod space;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod workload;

use crate::file::ModelError;
use crate::model::{Kind, Mix, Model, PAIRS_MAX};
use evendb_report::Document;
use std::fmt;
use table::Table;
pub use workload::{MadeWorkload, make_workload};

/// What is known in addition to the analysis.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The keyspace to model; the busiest, if it is not given.
    pub keyspace: Option<String>,
    /// Pairs of the store. If not given, the number of its keys by the analysis, or, if that does
    /// not know them, the number of keys that the trace names.
    pub pairs: Option<u64>,
    /// A short name for the model.
    pub name: Option<String>,
    /// Records of a scan, if the analysis does not know any length.
    pub scan_length: Option<u64>,
}

/// A model, and how it was made.
#[derive(Clone, Debug)]
pub struct Made {
    /// The model.
    pub model: Model,
    /// What was chosen and how well it fits; what was left out.
    pub notes: Vec<String>,
    /// Among the notes, what the analysis does not know and what was assumed for it.
    pub unknown: Vec<String>,
}

/// The notes while a model is made.
#[derive(Default)]
struct Notes {
    all: Vec<String>,
    unknown: Vec<String>,
}

impl Notes {
    fn push(&mut self, note: String) {
        self.all.push(note);
    }

    /// A note about what the analysis does not know.
    fn unknown(&mut self, note: &str) {
        self.all.push(note.to_owned());
        self.unknown.push(note.to_owned());
    }
}

/// Why no model could be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MakeError {
    /// The analysis lacks a figure or a column that is needed.
    Missing(String),
    /// The load has nothing that a model could say.
    Nothing(String),
    /// The result is no model: a defect of the analysis or of this code.
    NoModel(String),
}

impl fmt::Display for MakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(what) => write!(f, "the analysis has no {what}"),
            Self::Nothing(why) => f.write_str(why),
            Self::NoModel(why) => write!(f, "what the figures say is no model: {why}"),
        }
    }
}

impl std::error::Error for MakeError {}

impl Made {
    /// The model's file, with the notes as comments above it.
    ///
    /// # Errors
    /// `NoModel` if the text would not be read back.
    pub fn to_toml(&self) -> Result<String, MakeError> {
        with_notes(self.model.to_toml(), &self.notes)
    }
}

/// The text of a file below notes.
fn with_notes(text: Result<String, ModelError>, notes: &[String]) -> Result<String, MakeError> {
    let text = text.map_err(|error| MakeError::NoModel(error.to_string()))?;
    let comments = notes.iter().map(|note| format!("# {}\n", on_a_line(note)));
    Ok(comments.collect::<String>() + &text)
}

/// A note without ends of lines and other characters that a comment cannot have. A name of a trace
/// may have them.
fn on_a_line(note: &str) -> String {
    note.replace(char::is_control, "?")
}

/// The kinds of operation of a trace that a model has.
const KINDS: [(&str, Kind); 10] = [
    ("get", Kind::Get),
    ("contains", Kind::Get),
    ("get_for_update", Kind::Get),
    ("multi_get", Kind::Get),
    ("put", Kind::Put),
    ("ingest", Kind::Put),
    ("delete", Kind::Delete),
    ("single_delete", Kind::Delete),
    ("merge", Kind::Merge),
    ("scan", Kind::Scan),
];

/// The kind of a model for a kind of a trace, if a model has such a kind.
fn kind_of(kind: &str) -> Option<Kind> {
    let found = KINDS.iter().find(|(name, _)| *name == kind);
    found.map(|(_, of)| *of)
}

/// Makes a model.
///
/// # Errors
/// See [`MakeError`].
pub fn make(document: &Document, known: &Known) -> Result<Made, MakeError> {
    let mut notes = Notes::default();
    let composition = composition(document, known, &mut notes)?;
    let (mix, keyspace) = (composition.mix, &composition.keyspace[..]);
    let source = Source {
        document,
        keyspace,
        mix,
    };
    let model = Model {
        name: known.name.clone().unwrap_or_else(|| "made".to_owned()),
        about: format!("Made of \"{}\"", document.title),
        operations: composition.operations as u64,
        ..load(source, known, &mut notes)?
    };
    let rate = rate::rate(&[source], &mut notes)?;
    let model = Model { rate, ..model };
    parts::warn_of_correlations(&source, &mut notes)?;
    let text = model
        .to_toml()
        .map_err(|error| MakeError::NoModel(error.to_string()))?;
    Model::from_toml(&text).map_err(|error| MakeError::NoModel(error.to_string()))?;
    Ok(Made {
        model,
        notes: notes.all,
        unknown: notes.unknown,
    })
}

/// What is asked of one keyspace. What a model says of the whole is empty.
fn load(source: Source<'_>, known: &Known, notes: &mut Notes) -> Result<Model, MakeError> {
    let (named, pairs) = pairs(&source, known, notes)?;
    let keys = parts::keys(&source, notes)?;
    let values = parts::values(&source, notes)?;
    let scans = parts::scans(&source, known.scan_length, notes)?;
    let spots = hot::spots(&source, pairs, named, notes)?;
    Ok(Model {
        name: String::new(),
        about: String::new(),
        pairs,
        operations: 1,
        memory_bytes: None,
        mix: source.mix,
        keys,
        values,
        scans,
        ranges: spots.ranges,
        accesses: spots.accesses,
        own: spots.own,
        rate: None,
    })
}

/// The operations of the keyspace that is modelled.
struct Composition {
    keyspace: String,
    mix: Mix,
    /// The number of operations of kinds that a model has.
    operations: f64,
}

fn composition(
    document: &Document,
    known: &Known,
    notes: &mut Notes,
) -> Result<Composition, MakeError> {
    if document.figure("composition").is_none() {
        return Err(MakeError::Missing("figure \"composition\"".to_owned()));
    }
    let table = Table::of(document, "composition");
    let (kinds, operations) = (table.texts("kind")?, table.numbers("operations")?);
    let keyspaces = table.texts("keyspace")?;
    let keyspace = match &known.keyspace {
        Some(name) => name.clone(),
        None => busiest(&keyspaces, &operations)?,
    };
    notes.push(format!(
        "Made of the analysis \"{}\", keyspace \"{keyspace}\".",
        document.title
    ));
    let (mut mix, mut modelled) = (Mix::default(), 0.0);
    for ((kind, operations), of) in kinds.iter().zip(&operations).zip(&keyspaces) {
        if *of != keyspace {
            continue;
        }
        let Some(of) = kind_of(kind) else {
            notes.push(format!("Left out, because a model has no such kind: {operations} operations of kind {kind}."));
            continue;
        };
        *mix.share_mut(of) += operations;
        modelled += operations;
    }
    if modelled == 0.0 {
        let why = format!("keyspace \"{keyspace}\" has no operations that a model can have");
        return Err(MakeError::Nothing(why));
    }
    for kind in Kind::ALL {
        *mix.share_mut(kind) /= modelled;
    }
    Ok(Composition {
        keyspace,
        mix,
        operations: modelled,
    })
}

/// The number of keys that are named, and the number of pairs of the model.
fn pairs(source: &Source<'_>, known: &Known, notes: &mut Notes) -> Result<(u64, u64), MakeError> {
    let named = source.keys_named()?;
    let stored = match known.pairs {
        Some(pairs) => Some(pairs),
        None => source.keys_stored()?,
    };
    let pairs = stored.unwrap_or(named).max(named).clamp(1, PAIRS_MAX);
    let of = match stored {
        Some(_) => format!(" of {pairs} that the store has"),
        None => ", and no others are in the model".to_owned(),
    };
    notes.push(format!("Pairs: {named} different keys are named{of}."));
    Ok((named, pairs))
}

/// The keyspace with the highest number of operations.
fn busiest(keyspaces: &[String], operations: &[f64]) -> Result<String, MakeError> {
    let mut sums: Vec<(&String, f64)> = Vec::new();
    for (keyspace, operations) in keyspaces.iter().zip(operations) {
        match sums.iter_mut().find(|(name, _)| *name == keyspace) {
            Some((_, sum)) => *sum += operations,
            None => sums.push((keyspace, *operations)),
        }
    }
    let busiest = sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    busiest
        .map(|(name, _)| name.clone())
        .ok_or_else(|| MakeError::Nothing("the trace has no operations".to_owned()))
}

/// The source of all parts.
#[derive(Clone, Copy)]
struct Source<'a> {
    document: &'a Document,
    keyspace: &'a str,
    mix: Mix,
}

impl<'a> Source<'a> {
    /// The rows of a figure for the keyspace.
    fn table(&self, id: &str) -> Result<Table<'a>, MakeError> {
        Table::of(self.document, id).only("keyspace", self.keyspace)
    }

    /// The number of operations of each kind in the keyspace.
    fn totals(&self) -> Result<Vec<(String, f64)>, MakeError> {
        let table = self.table("composition")?;
        let kinds = table.texts("kind")?.into_iter();
        Ok(kinds.zip(table.numbers("operations")?).collect())
    }

    /// The number of keys of the store, if the analysis was given them.
    fn keys_stored(&self) -> Result<Option<u64>, MakeError> {
        let stored = self.table("stored-keys")?.numbers("stored")?;
        Ok(stored.first().map(|stored| *stored as u64))
    }

    /// The number of different keys that the trace names. If it has no times, and so no periods,
    /// the highest number of a single kind.
    fn keys_named(&self) -> Result<u64, MakeError> {
        let table = self.table("unique-keys")?;
        if table.is_empty() {
            let ranks = self.table("access-ranks")?.numbers("rank")?;
            return Ok(ranks.into_iter().fold(0.0, f64::max) as u64);
        }
        let (periods, keys) = (table.numbers("period_seconds")?, table.numbers("new_keys")?);
        let first = periods.first().copied();
        let of_one_period = periods
            .iter()
            .zip(&keys)
            .filter(|(period, _)| Some(**period) == first);
        Ok(of_one_period.map(|(_, keys)| *keys).sum::<f64>() as u64)
    }
}
