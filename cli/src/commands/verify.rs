//! `evendb verify`: checks every checksum and invariant on disk.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use evendb::EngineKind;
use evendb::inspect::{self, Finding, InspectOptions, Progress, Severity};
use evendb_flsm::inspect as flsm_inspect;
use evendb_lab::readable::{bytes, counted};
use serde_json::{Value, json};

use crate::commands::import::progress_bar;
use crate::engine::{engine_of, lacks};
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

/// The findings in a database of either engine, in the form for output.
struct Report {
    findings: Vec<Told>,
    bytes: u64,
    /// How much was checked.
    figures: Vec<(&'static str, u64)>,
}

/// A finding.
struct Told {
    severity: Severity,
    text: String,
    object: Value,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let bar = progress_bar(Some(0));
    let mut tell = |progress: Progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    };
    let begun = Instant::now();
    let report = match engine_of(&arguments.db) {
        EngineKind::EvenDb => evendb(arguments, &mut tell),
        EngineKind::Flsm => flsm(arguments, &mut tell),
    };
    bar.finish_and_clear();
    let report = report?;
    let corrupt = |told: &&Told| told.severity == Severity::Corruption;
    let corruptions = report.findings.iter().filter(corrupt).count();
    let warnings = report.findings.len() - corruptions;
    let is_sound = corruptions == 0;
    let mut target = output::out();
    for told in &report.findings {
        match arguments.json {
            true => writeln!(target, "{}", told.object)?,
            false => writeln!(target, "{}", output::printable(&told.text))?,
        }
    }
    if arguments.json {
        let bytes = ("bytes", report.bytes);
        let (first, others) = report.figures.split_at(1);
        let checked: serde_json::Map<_, _> = first
            .iter()
            .chain([&bytes])
            .chain(others)
            .map(|(name, number)| ((*name).to_owned(), Value::from(*number)))
            .collect();
        let line = json!({
            "kind": "report", "sound": is_sound, "corruptions": corruptions,
            "warnings": warnings, "checked": checked,
        });
        writeln!(target, "{line}")?;
    } else {
        let seconds = begun.elapsed().as_secs_f64();
        let list: Vec<String> = report
            .figures
            .iter()
            .map(|(name, number)| {
                let noun = name.replace('_', " ");
                counted(*number, noun.trim_end_matches('s'))
            })
            .collect();
        writeln!(target, "checked {}", list.join(", "))?;
        let rate = bytes((report.bytes as f64 / seconds.max(1e-9)) as u64);
        let read = bytes(report.bytes);
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

fn evendb(arguments: &Arguments, tell: &mut dyn FnMut(Progress)) -> Result<Report, Failure> {
    let options = InspectOptions::new().progress(tell);
    let options = arguments.key_file.given_to_inspection(options);
    let report = inspect::verify(&arguments.db, options);
    let report = report.map_err(|error| refused(&arguments.db, Purpose::Reading, &error))?;
    let told = |finding: &Finding| told(finding, "chunks", chunks(finding));
    let checked = &report.checked;
    Ok(Report {
        findings: report.findings.iter().map(told).collect(),
        bytes: checked.bytes,
        figures: vec![
            ("files", checked.files),
            ("edits", checked.edits),
            ("keyspaces", checked.keyspaces),
            ("chunks", checked.chunks),
            ("tables", checked.tables),
            ("blocks", checked.blocks),
            ("records", checked.records),
            ("commit_log_records", checked.commit_log_records),
            ("value_extents", checked.value_extents),
            ("values", checked.values),
        ],
    })
}

fn flsm(arguments: &Arguments, tell: &mut dyn FnMut(Progress)) -> Result<Report, Failure> {
    if arguments.key_file.key().is_some() {
        let what = "encryption (--key-file)";
        return Err(lacks(EngineKind::Flsm, &arguments.db, what));
    }
    let options = flsm_inspect::InspectOptions::new().progress(tell);
    let report = flsm_inspect::verify(&arguments.db, options);
    let report = report.map_err(|error| refused(&arguments.db, Purpose::Reading, &error))?;
    let told = |finding: &Finding| told(finding, "table", table(finding));
    let checked = &report.checked;
    Ok(Report {
        findings: report.findings.iter().map(told).collect(),
        bytes: checked.bytes,
        figures: vec![
            ("files", checked.files),
            ("edits", checked.edits),
            ("keyspaces", checked.keyspaces),
            ("guards", checked.guards),
            ("tables", checked.tables),
            ("blocks", checked.blocks),
            ("records", checked.records),
            ("logs", checked.logs),
            ("log_records", checked.log_records),
        ],
    })
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Corruption => "corruption",
        _ => "warning",
    }
}

/// A finding as an object, with what it affects under this name.
fn finding_json(finding: &Finding, name: &str, affected: Value) -> Value {
    json!({
        "kind": finding.kind.name(),
        "severity": severity(finding.severity),
        "file": finding.file,
        "offset": finding.offset,
        "bytes": finding.len,
        "what": finding.what,
        name: affected,
    })
}

fn told(finding: &Finding, name: &str, affected: Value) -> Told {
    Told {
        severity: finding.severity,
        text: finding.to_string(),
        object: finding_json(finding, name, affected),
    }
}

fn chunks(finding: &Finding) -> Value {
    finding.chunks.iter().map(output::chunk_json).collect()
}

fn table(finding: &Finding) -> Value {
    let table = finding.table.as_ref().map(|table| {
        json!({
            "keyspace": table.keyspace,
            "level": table.level,
            "min_key": output::text_or_hex(&table.min_key),
            "max_key": output::text_or_hex(&table.max_key),
        })
    });
    json!(table)
}
