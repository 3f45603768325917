//! What a conversion says: what it found, and what it read as something else or made up.

use std::collections::BTreeMap;
use std::io::Write;

use evendb_lab::readable::grouped;
use evendb_trace::Cut;
use evendb_trace::formats::Imported;

use crate::failure::{Failure, Success};
use crate::output;

/// What a conversion found.
#[derive(Default)]
pub(super) struct Found {
    /// Of the sources in other formats.
    pub(super) imported: Imported,
    /// What is damaged or missing in traces of EvenDB, in words.
    pub(super) losses: Option<String>,
    /// The result has no end, because a source has none.
    pub(super) is_torn: bool,
    /// Operations that could not be put in the order of time.
    pub(super) late: u64,
}

/// Adds what was read of one source to what was read of the others.
pub(super) fn add_up(all: &mut Imported, one: Imported) {
    all.operations += one.operations;
    all.bad += one.bad;
    all.first_bad = all.first_bad.take().or(one.first_bad);
    all.is_torn |= one.is_torn;
    all.times_back += one.times_back;
    all.spread |= one.spread;
    all.counted += one.counted;
    all.mixed += one.mixed;
    for (name, count) in one.as_merges {
        *all.as_merges.entry(name).or_default() += count;
    }
    for (name, count) in one.as_puts {
        *all.as_puts.entry(name).or_default() += count;
    }
}

/// Says what was found. Returns how far the conversion did its work.
pub(super) fn tell(found: &Found, cut: &Cut) -> Result<Success, Failure> {
    let (seen, given) = cut.counts();
    match cut.is_all() {
        true => writeln!(output::out(), "{} operations", grouped(given))?,
        false => writeln!(
            output::out(),
            "{} of {} operations",
            grouped(given),
            grouped(seen)
        )?,
    }
    tell_made_up(&found.imported);
    let earlier = found.imported.times_back + found.late;
    if earlier > 0 {
        output::complain(&format!(
            "evendb: {} operations are earlier than one in front of them",
            grouped(earlier)
        ));
    }
    if let Some(losses) = &found.losses {
        output::complain(&format!("evendb: the trace is not whole: {losses}"));
    }
    let imported = &found.imported;
    if imported.is_torn {
        let message = "evendb: the source ends in the middle of a record, or has no end";
        output::complain(message);
    }
    if let Some(first) = &imported.first_bad {
        output::complain(&format!(
            "evendb: {} lines or records are bad; the first: {first}",
            grouped(imported.bad)
        ));
    }
    Ok(match imported.first_bad.is_some() {
        _ if found.losses.is_some() => Success::Corrupt,
        true => Success::BadLines,
        false if imported.is_torn => Success::Corrupt,
        false => Success::Done,
    })
}

/// Says what of a source in another format is read as something else, or is made up.
fn tell_made_up(imported: &Imported) {
    if imported.spread {
        output::complain(
            "evendb: times are of whole seconds: the operations of each second were spread evenly over it",
        );
    }
    if imported.counted > 0 {
        output::complain(&format!(
            "evendb: {} operations are of lines that stand for several: their order within a line is made up; of {} of them some found something and some did not, and those that did come first",
            grouped(imported.counted),
            grouped(imported.mixed)
        ));
    }
    let listed = |counts: &BTreeMap<&'static str, u64>| {
        let each = counts
            .iter()
            .map(|(name, count)| format!("{name} {}", grouped(*count)));
        each.collect::<Vec<_>>().join(", ")
    };
    if !imported.as_merges.is_empty() {
        output::complain(&format!(
            "evendb: read as merges: {}; a replay leaves them out unless --merges says what they do",
            listed(&imported.as_merges)
        ));
    }
    if !imported.as_puts.is_empty() {
        output::complain(&format!(
            "evendb: read as puts, without their condition: {}",
            listed(&imported.as_puts)
        ));
    }
}
