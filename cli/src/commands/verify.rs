//! `evendb verify`: checks every checksum and invariant on disk.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use evendb::inspect::{self, Checked, Finding, InspectOptions, Progress, Severity};
use evendb_lab::readable::{bytes, counted};
use serde_json::{Value, json};

use crate::commands::import::progress_bar;
use crate::failure::{Failure, Success};
use crate::key_file::KeyFile;
use crate::open::{Purpose, refused};
use crate::output;

/// Check every checksum and invariant on disk
///
/// No process may have the database open for writing; nothing is written. Each finding names the
/// file, the byte and, if known, the chunk. Warnings are leftovers, and ends of logs that a crash
/// leaves in this state.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb verify files.db
  evendb verify files.db --json

Exit codes: 0 sound (there may be warnings), 5 corruption found, 1 failure (no database, open
elsewhere, unreadable directory)")]
pub struct Arguments {
    /// The database's directory
    db: PathBuf,
    #[command(flatten)]
    key_file: KeyFile,
    /// Print one JSON object a line: the findings, then what was checked
    #[arg(long)]
    json: bool,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let bar = progress_bar(Some(0));
    let mut tell = |progress: Progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    };
    let begun = Instant::now();
    let options = InspectOptions::new().progress(&mut tell);
    let options = arguments.key_file.given_to_inspection(options);
    let report = inspect::verify(&arguments.db, options);
    bar.finish_and_clear();
    let report = report.map_err(|error| refused(&arguments.db, Purpose::Reading, &error))?;
    let figures = figures(&report.checked);
    let corrupt = |finding: &&Finding| finding.severity == Severity::Corruption;
    let corruptions = report.findings.iter().filter(corrupt).count();
    let warnings = report.findings.len() - corruptions;
    let is_sound = corruptions == 0;
    let mut target = output::out();
    for finding in &report.findings {
        match arguments.json {
            true => writeln!(target, "{}", finding_json(finding))?,
            false => writeln!(target, "{}", output::printable(&finding.to_string()))?,
        }
    }
    if arguments.json {
        let checked: serde_json::Map<_, _> = figures
            .iter()
            .map(|(name, number)| ((*name).to_owned(), Value::from(*number)))
            .collect();
        let line = json!({
            "kind": "report", "sound": is_sound, "corruptions": corruptions,
            "warnings": warnings, "checked": checked,
        });
        writeln!(target, "{line}")?;
    } else {
        let seconds = begun.elapsed().as_secs_f64();
        let list: Vec<String> = figures
            .iter()
            .filter(|(name, _)| *name != "bytes")
            .map(|(name, number)| {
                let noun = name.replace('_', " ");
                counted(*number, noun.trim_end_matches('s'))
            })
            .collect();
        writeln!(target, "checked {}", list.join(", "))?;
        let rate = bytes((report.checked.bytes as f64 / seconds.max(1e-9)) as u64);
        let read = bytes(report.checked.bytes);
        writeln!(target, "read {read} in {seconds:.1} s ({rate}/s)")?;
        let warnings = counted(warnings as u64, "warning");
        match is_sound {
            true => writeln!(target, "sound; {warnings}")?,
            false => writeln!(
                target,
                "{}, {warnings}",
                counted(corruptions as u64, "corruption")
            )?,
        }
    }
    target.flush()?;
    match is_sound {
        true => Ok(Success::Done),
        false => Ok(Success::Corrupt),
    }
}

/// How much was checked.
fn figures(checked: &Checked) -> [(&'static str, u64); 11] {
    [
        ("files", checked.files),
        ("bytes", checked.bytes),
        ("edits", checked.edits),
        ("keyspaces", checked.keyspaces),
        ("chunks", checked.chunks),
        ("tables", checked.tables),
        ("blocks", checked.blocks),
        ("records", checked.records),
        ("commit_log_records", checked.commit_log_records),
        ("value_extents", checked.value_extents),
        ("values", checked.values),
    ]
}

fn finding_json(finding: &Finding) -> Value {
    let severity = match finding.severity {
        Severity::Corruption => "corruption",
        _ => "warning",
    };
    let chunks: Vec<Value> = finding.chunks.iter().map(output::chunk_json).collect();
    json!({
        "kind": finding.kind.name(),
        "severity": severity,
        "file": finding.file,
        "offset": finding.offset,
        "bytes": finding.len,
        "what": finding.what,
        "chunks": chunks,
    })
}
