//! The whole analysis: the tables, the figures, and the facts about the source.

use crate::error::{Error, Result};
use crate::figures::{self, Context};
use crate::operations::{self, Summary};
use crate::places::Cut;
use crate::session::{Budget, Session};
use crate::stored::{self, STORED, Stored};
use crate::summary;
use crate::tables;
use evendb_model::from_analysis::MakeError;
use evendb_model::{families, over_time};
use evendb_report::Document;
use evendb_trace::formats::{Format, Imported};
use std::path::{Path, PathBuf};

/// What is analyzed, and with which means.
pub struct Options {
    /// The trace.
    pub trace: PathBuf,
    /// Its format; found by its first bytes, if it is not given.
    pub format: Option<Format>,
    /// Lists of all keys of the store; empty if they are not known.
    pub stored: Vec<Stored>,
    /// An empty folder for the tables, and for rows that do not fit in memory.
    pub folder: PathBuf,
    /// The memory and the threads that may be used.
    pub budget: Budget,
    /// How the key space is cut.
    pub cut: Cut,
}

/// What the analysis does now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step<'a> {
    /// It reads the trace, and has read this number of bytes.
    Reading(u64),
    /// It counts the accesses of each key.
    Keys,
    /// It finds the figures of a matter: its name, its number, and the number of matters.
    Figures(&'a str, usize, usize),
}

/// Analyzes a trace.
///
/// # Errors
/// See [`Error`](crate::Error).
pub async fn analyze(
    options: &Options,
    progress: &mut (dyn FnMut(Step<'_>) + Send),
) -> Result<Document> {
    let session = Session::new(&options.folder, &options.budget)?;
    analyze_by(&session, options, progress).await
}

/// Analyzes a trace by the queries of `session`. There are no tables in its folder yet. The budget
/// is the session's own.
///
/// # Errors
/// See [`Error`](crate::Error).
pub async fn analyze_by(
    session: &Session,
    options: &Options,
    progress: &mut (dyn FnMut(Step<'_>) + Send),
) -> Result<Document> {
    let lists = options.stored.iter();
    let lists: Result<Vec<_>> = lists.map(|stored| Ok((stored, stored.open()?))).collect();
    let lists = lists?;
    let table = session.table_file("operations");
    let summary = operations::write(&options.trace, options.format, &table, &mut |bytes| {
        progress(Step::Reading(bytes));
    })?;
    session.fit_keys(summary.key_bytes / summary.operations.max(1));
    session.open_table("operations").await?;
    progress(Step::Keys);
    let has_stored = !lists.is_empty();
    if has_stored {
        stored::write(lists, &summary, &session.table_file(STORED))?;
        session.open_table(STORED).await?;
    }
    session
        .persist(async || tables::make_keys(session, has_stored, &options.cut).await)
        .await?;
    if has_stored {
        session.drop_table(STORED)?;
    }
    let mut document = Document::new(title(&options.trace));
    document.facts = facts(&summary);
    let context = Context {
        session,
        summary: &summary,
        has_stored,
    };
    for (number, (name, find)) in figures::ALL.iter().enumerate() {
        progress(Step::Figures(name, number, figures::ALL.len()));
        let found = session.persist(async || find(&context).await).await?;
        document.figures.extend(found);
    }
    let failed = |error: MakeError| Error::Source(error.to_string());
    families::add_to(&mut document).map_err(failed)?;
    let began = summary.wall_clock_millis as f64 / 1000.0;
    let began = Some(began).filter(|began| *began > 0.0);
    over_time::add_to(&mut document, began).map_err(failed)?;
    document.summary = summary::of(&document);
    Ok(document)
}

fn title(trace: &Path) -> String {
    let name = trace.file_name().unwrap_or(trace.as_os_str());
    format!("The load in {}", name.to_string_lossy())
}

/// The name of the fact that the trace is not whole.
pub const LOST: &str = "lost";

/// The facts above the figures of the page.
fn facts(summary: &Summary) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut fact = |name: &str, what: String| facts.push((name.to_owned(), what));
    if !summary.source.is_empty() {
        fact("source", summary.source.clone());
    }
    fact("operations", summary.operations.to_string());
    fact(
        "seconds",
        format!("{:.3}", summary.duration_nanos as f64 / 1e9),
    );
    if summary.wall_clock_millis > 0 {
        let (seconds, millis) = (
            summary.wall_clock_millis / 1000,
            summary.wall_clock_millis % 1000,
        );
        fact(
            "began",
            format!("{seconds}.{millis:03} seconds after 1970-01-01T00:00:00Z"),
        );
    }
    if summary.one_key_in > 1 {
        let sample = format!(
            "one key in {}: every count is of these keys alone",
            summary.one_key_in
        );
        fact("sample", sample);
    }
    if let Some(end) = summary
        .end
        .filter(|end| end.dropped_full + end.dropped_behind > 0)
    {
        let dropped = format!(
            "{} when the file was full, {} that came faster than they could be written",
            end.dropped_full, end.dropped_behind
        );
        fact("left out", dropped);
    }
    if let Some(lost) = summary
        .losses
        .map(|losses| losses.to_string())
        .filter(|lost| !lost.is_empty())
    {
        fact(LOST, lost);
    }
    for (name, what) in summary.imported.iter().flat_map(imported_facts) {
        fact(name, what);
    }
    if summary.late > 0 {
        fact(
            "late",
            format!(
                "{} operations stand behind one that began later",
                summary.late
            ),
        );
    }
    facts
}

/// What is to be known of a trace of another format.
fn imported_facts(imported: &Imported) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if imported.bad > 0 {
        let first = imported.first_bad.as_deref().unwrap_or_default();
        facts.push((
            "not read",
            format!("{} lines or records; the first: {first}", imported.bad),
        ));
    }
    if imported.is_torn {
        let torn = "the source ends in the middle of a record, or has no end";
        facts.push((LOST, torn.to_owned()));
    }
    if imported.spread {
        let spread = "times are of whole seconds: the operations of each second were spread evenly over it, so nothing is known of what is shorter";
        facts.push(("times", spread.to_owned()));
    }
    if !imported.as_merges.is_empty() {
        let each = imported.as_merges.iter();
        let each: Vec<_> = each
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        facts.push(("read as merges", each.join(", ")));
    }
    facts
}
