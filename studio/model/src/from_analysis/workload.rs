//! A workload of the keyspaces of a trace: a model of each, and the rate of all together.
//!
//! The notes of a keyspace begin with its name. What no model can have is left out and noted: a
//! keyspace without operations of a model's kinds; and, if there are more keyspaces than a workload
//! can have, the least busy ones.

use super::table::Table;
use super::{Composition, Known, Made, MakeError, Notes, Source, composition, load, make};
use super::{parts, rate, with_notes};
use crate::model::Model;
use crate::workload::{KEYSPACES_MAX, Keyspace, Workload, why_refused};
use evendb_report::Document;

/// A workload, and how it was made.
#[derive(Clone, Debug)]
pub struct MadeWorkload {
    /// The workload.
    pub workload: Workload,
    /// What was chosen and how well it fits; what was left out.
    pub notes: Vec<String>,
    /// Among the notes, what the analysis does not know and what was assumed for it.
    pub unknown: Vec<String>,
}

impl From<Made> for MadeWorkload {
    fn from(made: Made) -> Self {
        Self {
            workload: made.model.into(),
            notes: made.notes,
            unknown: made.unknown,
        }
    }
}

impl MadeWorkload {
    /// The file of the workload, with the notes as comments above it.
    ///
    /// # Errors
    /// `NoModel` if the text would not be read back.
    pub fn to_toml(&self) -> Result<String, MakeError> {
        with_notes(self.workload.to_toml(), &self.notes)
    }
}

/// Makes a workload with each keyspace of the trace, or of the one that is named.
///
/// # Errors
/// See [`MakeError`]. `Nothing` also if a number of pairs is given, and several keyspaces could
/// have it.
pub fn make_workload(document: &Document, known: &Known) -> Result<MadeWorkload, MakeError> {
    let keyspaces = busiest_first(document)?;
    if known.keyspace.is_some() || keyspaces.len() <= 1 {
        return make(document, known).map(MadeWorkload::from);
    }
    if known.pairs.is_some() {
        let why = "the trace has several keyspaces: a number of pairs is for one that is named";
        return Err(MakeError::Nothing(why.to_owned()));
    }
    let mut notes = Notes::default();
    notes.push(format!("Made of the analysis \"{}\".", document.title));
    let mut parts = Vec::new();
    for name in &keyspaces {
        if parts.len() == KEYSPACES_MAX {
            notes.push(format!(
                "Left out, because a model has {KEYSPACES_MAX} keyspaces at most: the others, which are less busy."
            ));
            break;
        }
        parts.extend(part(document, (known, name), &mut notes)?);
    }
    let all: f64 = parts.iter().map(|part| part.operations).sum();
    if parts.is_empty() {
        let why = "no keyspace has operations that a model can have";
        return Err(MakeError::Nothing(why.to_owned()));
    }
    if known.scan_length.is_some() && parts.iter().all(|part| part.knows_scans) {
        let why = "the trace says how long scans are: no length can be given beside";
        return Err(MakeError::Nothing(why.to_owned()));
    }
    let sources: Vec<_> = parts.iter().map(|part| part.source).collect();
    let rate = rate::rate(&sources, &mut notes)?;
    let keyspaces = parts
        .into_iter()
        .enumerate()
        .map(|(number, part)| Keyspace {
            name: named(part.source.keyspace, number, &mut notes),
            share: part.operations / all,
            load: part.model,
        });
    let mut workload = Workload {
        name: known.name.clone().unwrap_or_else(|| "made".to_owned()),
        about: format!("Made of \"{}\"", document.title),
        operations: all as u64,
        memory_bytes: None,
        rate,
        keyspaces: keyspaces.collect(),
    };
    for keyspace in &mut workload.keyspaces {
        keyspace.load.name = keyspace.name.clone();
        let operations = workload.operations as f64 * keyspace.share;
        keyspace.load.operations = (operations.round() as u64).max(1);
    }
    workload
        .to_toml()
        .map_err(|error| MakeError::NoModel(error.to_string()))?;
    Ok(MadeWorkload {
        workload,
        notes: notes.all,
        unknown: notes.unknown,
    })
}

/// The model of one keyspace, and its operations.
struct Part<'a> {
    source: Source<'a>,
    model: Model,
    operations: f64,
    /// Whether the trace has scans of this keyspace alone whose length it tells, or none.
    knows_scans: bool,
}

/// The part of this keyspace. `None` if a model can have none of its operations.
fn part<'a>(
    document: &'a Document,
    (known, name): (&Known, &'a str),
    notes: &mut Notes,
) -> Result<Option<Part<'a>>, MakeError> {
    let mut own = Notes::default();
    let mut known = Known {
        keyspace: Some(name.to_owned()),
        ..known.clone()
    };
    let Composition {
        mix, operations, ..
    } = match composition(document, &known, &mut own) {
        Err(MakeError::Nothing(why)) => {
            notes.push(format!("Left out: {why}."));
            return Ok(None);
        }
        found => found?,
    };
    // It names the analysis, which is told once for all keyspaces.
    own.all.remove(0);
    let source = Source {
        document,
        keyspace: name,
        mix,
    };
    let mut knows_scans = mix.scan == 0.0;
    for id in ["scan-lengths", "scan-lengths-reverse"] {
        knows_scans |= !source.table(id)?.is_empty();
    }
    if knows_scans {
        known.scan_length = None;
    }
    let model = load(source, &known, &mut own)?;
    parts::warn_of_correlations(&source, &mut own)?;
    let of = |note: &String| format!("{name}, {note}");
    notes.all.extend(own.all.iter().map(of));
    notes.unknown.extend(own.unknown.iter().map(of));
    Ok(Some(Part {
        source,
        model,
        operations,
        knows_scans,
    }))
}

/// The names of all keyspaces, those with more operations first.
fn busiest_first(document: &Document) -> Result<Vec<&str>, MakeError> {
    let table = Table::of(document, "composition");
    let rows = table.texts_lent("keyspace")?;
    let operations = table.numbers("operations")?;
    let mut sums: Vec<(&str, f64)> = Vec::new();
    for (name, operations) in rows.into_iter().zip(operations) {
        match sums.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += operations,
            None => sums.push((name, operations)),
        }
    }
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    Ok(sums.into_iter().map(|(name, _)| name).collect())
}

/// The name of a keyspace in the model. A trace may have names that a model cannot have.
fn named(name: &str, number: usize, notes: &mut Notes) -> String {
    let Some(why) = why_refused(name) else {
        return name.to_owned();
    };
    let other = format!("keyspace {}", number + 1);
    notes.push(format!(
        "Name: \"{}\" is \"{other}\" here: a name {why}.",
        name.escape_debug()
    ));
    other
}
