//! `evendb repair`: saves what can be read of a damaged database into a new one.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use evendb::Options;
use evendb::inspect::{
    self, Finding, InspectOptions, Loss, Progress, RepairOptions, RepairReport, Severity,
};
use evendb_lab::readable::counted;
use serde_json::{Value, json};

use crate::commands::import::progress_bar;
use crate::failure::{Failure, Success};
use crate::key_file::KeyFile;
use crate::open::{Purpose, refused};
use crate::output;

/// Save what can be read of a damaged database into a new one
///
/// No process may have the damaged one open for writing; it is not changed. Each stretch that could
/// not be read is told with the keys that it may have held, and whether older values of such keys
/// may have come to light. If the manifest is lost, tables do not say to which keyspace they
/// belong: each goes to a keyspace `recovered-ID` of its own, or all into one with --one-keyspace.
///
/// With --accept-log-loss no new database is made: a database that does not open because its commit
/// log is damaged goes on as of the moment before the damaged record was written, without what was
/// written after it. The damaged log is kept beside it. --into saves more: use it first.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb repair files.db --into saved.db
  evendb repair files.db --into saved.db --json > losses.jsonl
  evendb repair files.db --accept-log-loss

Exit codes: 0 everything that was found was saved, 5 something was lost, 1 failure")]
pub struct Arguments {
    /// The damaged database's directory
    db: PathBuf,
    #[command(flatten)]
    key_file: KeyFile,
    /// Where the new database goes: a directory that is empty or not there
    #[arg(
        long,
        value_name = "NEWDIR",
        required_unless_present = "accept_log_loss"
    )]
    into: Option<PathBuf>,
    /// Go on in place, without what was written after damage in the commit log
    #[arg(long, conflicts_with_all = ["into", "one_keyspace", "json"])]
    accept_log_loss: bool,
    /// The database had one keyspace: merge tables without a known keyspace into it
    #[arg(long)]
    one_keyspace: bool,
    /// Print one JSON object a line: the losses, then what was saved
    #[arg(long)]
    json: bool,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    match &arguments.into {
        Some(into) => save(arguments, into),
        None => accept_log_loss(arguments),
    }
}

/// Opens the database without the records after the damage.
fn accept_log_loss(arguments: &Arguments) -> Result<Success, Failure> {
    let options = Options::new()
        .create_if_missing(false)
        .accept_log_loss(true);
    let database = arguments.key_file.given_to(options);
    let database = database
        .open(&arguments.db)
        .map_err(|error| refused(&arguments.db, Purpose::Writing, &error))?;
    let records = database.stats().log_records_given_up;
    database.close()?;
    let mut target = output::out();
    if records == 0 {
        writeln!(target, "no record of the commit log was given up")?;
        return Ok(Success::Done);
    }
    writeln!(
        target,
        "{} of the commit log {} given up, the damaged one aside; the log as it was is kept as \
         COMMIT-LOG.damaged-N",
        counted(records, "record"),
        if records == 1 { "was" } else { "were" }
    )?;
    target.flush()?;
    Ok(Success::Corrupt)
}

/// Makes the new database, and tells what was lost and what was saved.
fn save(arguments: &Arguments, into: &Path) -> Result<Success, Failure> {
    let report = repaired(arguments, into)?;
    let mut target = output::out();
    tell_damage(&mut target, &report, arguments.json)?;
    match arguments.json {
        true => writeln!(target, "{}", report_json(&report))?,
        false => tell_saved(&mut target, &report)?,
    }
    target.flush()?;
    match report.is_complete() {
        true => Ok(Success::Done),
        false => Ok(Success::Corrupt),
    }
}

/// Makes the new database, with a bar of the progress.
fn repaired(arguments: &Arguments, into: &Path) -> Result<RepairReport, Failure> {
    let bar = progress_bar(Some(0));
    let mut tell = |progress: Progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    };
    let options = RepairOptions {
        one_keyspace: arguments.one_keyspace,
    };
    let inspect = InspectOptions::new().progress(&mut tell);
    let inspect = arguments.key_file.given_to_inspection(inspect);
    let report = inspect::repair(&arguments.db, into, options, inspect);
    bar.finish_and_clear();
    report.map_err(|error| refused(&arguments.db, Purpose::Reading, &error))
}

/// Tells the damage that lost nothing, and then each loss.
fn tell_damage(target: &mut impl Write, report: &RepairReport, as_json: bool) -> io::Result<()> {
    for finding in costless(report) {
        match as_json {
            true => writeln!(target, "{}", costless_json(finding))?,
            false => {
                let told = format!("{}: {}", finding.file, finding.what);
                writeln!(target, "{}", output::printable(&told))?;
            }
        }
    }
    for loss in &report.losses {
        match as_json {
            true => writeln!(target, "{}", loss_json(loss))?,
            false => writeln!(target, "{}", output::printable(&loss.to_string()))?,
        }
    }
    Ok(())
}

/// Tells people what was saved, and whether it is everything.
fn tell_saved(target: &mut impl Write, report: &RepairReport) -> io::Result<()> {
    for (name, records) in &report.keyspaces {
        writeln!(
            target,
            "keyspace `{}`: {} saved",
            output::escaped(name.as_bytes()),
            counted(*records, "record")
        )?;
    }
    if report.expired > 0 {
        let records = counted(report.expired, "expired record");
        writeln!(
            target,
            "and {records}: there with the time of expiry, and shown by no read"
        )?;
    }
    let summary = match (report.is_complete(), report.losses.is_empty()) {
        (true, true) => "everything was saved",
        (true, false) => {
            "everything that was found was saved; whether there was more cannot be told, see \
             above"
        }
        (false, _) => "not everything could be saved, see above",
    };
    writeln!(target, "{summary}")
}

/// Damage that loses nothing, so that no loss mentions it.
fn costless(report: &RepairReport) -> impl Iterator<Item = &Finding> {
    let is_loss = |finding: &Finding| {
        let mut losses = report.losses.iter();
        losses.any(|loss| loss.file == finding.file && loss.what.starts_with(&finding.what))
    };
    let damage = report.findings.iter();
    damage.filter(move |finding| finding.severity == Severity::Corruption && !is_loss(finding))
}

fn costless_json(finding: &Finding) -> Value {
    json!({ "kind": "finding", "file": finding.file, "what": finding.what })
}

fn report_json(report: &RepairReport) -> Value {
    let keyspaces: Vec<Value> = report
        .keyspaces
        .iter()
        .map(|(name, records)| json!({ "name": name, "records": records }))
        .collect();
    json!({
        "kind": "report", "complete": report.is_complete(), "losses": report.losses.len(),
        "keyspaces": keyspaces, "table_records": report.table_records,
        "log_operations": report.log_operations, "expired": report.expired,
    })
}

fn loss_json(loss: &Loss) -> Value {
    let chunks: Vec<Value> = loss.chunks.iter().map(output::chunk_json).collect();
    let key = |key: &Option<Vec<u8>>| key.as_deref().map(output::text_or_hex);
    json!({
        "kind": "loss",
        "certain": loss.certain,
        "file": loss.file,
        "offset": loss.place.as_ref().map(|place| place.start),
        "bytes": loss.place.as_ref().map(|place| place.end - place.start),
        "what": loss.what,
        "chunks": chunks,
        "keys_from": key(&loss.keys_from),
        "keys_to": key(&loss.keys_to),
        "records": loss.records,
        "older_may_show": loss.older_may_show,
    })
}
