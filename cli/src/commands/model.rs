//! `evendb model`: a model of the load that an analysis found, and models in the words of other
//! benchmarks. `evendb_model::from_analysis` and `evendb_lab::interchange` do the work.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use evendb_lab::experiments::mixgraph::model_named;
use evendb_lab::interchange::{db_bench, ycsb};
use evendb_lab::whole_file;
use evendb_model::from_analysis::{self, Known, MadeWorkload};
use evendb_model::{Model, Workload};
use evendb_report::Document;
use evendb_trace::Compressible;

use super::trace;
use crate::failure::{Failure, Success};
use crate::output;

/// Make a model of an analyzed load, which `evendb mixgraph` carries out on any store
///
/// Prints a file in TOML that can be edited by hand (docs/models.md). The comments at its head say
/// which fit was chosen for each part, with the errors of all that were tried, and what was left
/// out. What the analysis does not know is also said on standard error. If the trace has several
/// keyspaces, the model has a table for each, or is of the one that --keyspace names.
///
/// With --to, the model is printed for another benchmark, and what that one cannot say stands in
/// comments. The source may be a model then: a preset, or its file.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb analyze app.trace
  evendb model app.trace.analysis/analysis.json > app.toml
  evendb model app.trace.analysis --keyspace users > users.toml
  evendb mixgraph app.toml

  evendb model app.trace.analysis --values-of app.trace > app.toml
  evendb model app.toml --to db-bench > load.sh && sh load.sh /tmp/rocksdb
  evendb model zippydb --to ycsb > workload
  evendb model load.sh --from db-bench > theirs.toml")]
pub struct Arguments {
    /// The analysis: analysis.json of the folder that `evendb analyze` made, or the folder; or a
    /// model, by the name of a preset or its file; with --from db-bench, a file of its command
    /// lines
    #[arg(value_name = "ANALYSIS")]
    source: PathBuf,
    /// The format to print
    #[arg(long, value_enum, default_value = "toml")]
    to: To,
    /// What the source is, if it is neither an analysis nor a model
    #[arg(long, value_enum)]
    from: Option<From>,
    /// The trace from which the analysis came, if it has values: how far they compress is measured,
    /// and the model's values compress as far
    #[arg(long, value_name = "TRACE")]
    values_of: Option<PathBuf>,
    /// The one keyspace to model; by default all keyspaces of the trace. Another benchmark has one,
    /// so a model of several needs it there
    #[arg(long, allow_hyphen_values = true)]
    keyspace: Option<String>,
    /// The number of pairs of the store; by default the number of keys that the analysis was given,
    /// or, if it was given none, that the trace names. Of a trace with several keyspaces --keyspace
    /// must say which has them
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pairs: Option<u64>,
    /// The name in the file
    #[arg(long, allow_hyphen_values = true)]
    name: Option<String>,
    /// Records that a scan gives, if the trace tells it for none; by default 1
    #[arg(long, value_name = "RECORDS", value_parser = clap::value_parser!(u64).range(1..))]
    scan_length: Option<u64>,
}

/// The format of a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum To {
    /// A model's file, for evendb mixgraph
    Toml,
    /// Command lines of RocksDB's db_bench: fill, then mixgraph
    DbBench,
    /// A parameter file of YCSB's core workload
    Ycsb,
}

/// Another source of a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum From {
    /// Command lines of RocksDB's db_bench, with --benchmarks=mixgraph
    DbBench,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let mut made = made(arguments)?;
    if let Some(trace) = &arguments.values_of {
        let (compressible, percentage) = compressible(trace)?;
        for keyspace in &mut made.workload.keyspaces {
            keyspace.load.values.compressible = percentage;
        }
        made.notes.push(format!(
            "values: {} bytes of the trace's values were compressed by LZ4 in blocks of 16 KiB, and {percentage} % of them went",
            compressible.bytes()
        ));
    }
    if let Some(name) = &arguments.name {
        made.workload.name.clone_from(name);
    }
    tell_unknown(&made);
    let path = &arguments.source;
    let text = match arguments.to {
        To::Toml => {
            let text = made.to_toml();
            text.map_err(|error| Failure::Message(format!("{}: {error}", path.display())))?
        }
        To::DbBench => db_bench::to_commands(&only(&made.workload)?),
        To::Ycsb => ycsb::to_parameters(&only(&made.workload)?),
    };
    output::out().write_all(text.as_bytes())?;
    Ok(Success::Done)
}

/// The only keyspace of a workload, for a benchmark that has no more.
fn only(workload: &Workload) -> Result<Model, Failure> {
    match &workload.keyspaces[..] {
        [one] => workload
            .of_keyspace(&one.name)
            .ok_or_else(|| choose(workload)),
        _ => Err(choose(workload)),
    }
}

fn choose(workload: &Workload) -> Failure {
    let names: Vec<&str> = workload.keyspaces.iter().map(|one| &*one.name).collect();
    Failure::Usage(format!(
        "the other benchmark has one keyspace: say with --keyspace which of these: {}",
        names.join(", ")
    ))
}

/// The model of the source.
fn made(arguments: &Arguments) -> Result<MadeWorkload, Failure> {
    let source = &arguments.source;
    let wrong = |path: &Path, why: String| Failure::Message(format!("{}: {why}", path.display()));
    let of = |workload: Workload, notes: Vec<String>| MadeWorkload {
        workload,
        unknown: notes.clone(),
        notes,
    };
    if arguments.from == Some(From::DbBench) {
        refuse_idle(arguments)?;
        refuse("--keyspace", arguments.keyspace.is_some())?;
        let text = whole_file::read_model(source)
            .map_err(|error| Failure::new(format!("cannot read {}", source.display()), error))?;
        let read = db_bench::from_commands(&text).map_err(|why| wrong(source, why))?;
        return Ok(of(read.model.into(), read.notes));
    }
    if !is_analysis(source) && arguments.to != To::Toml {
        refuse_idle(arguments)?;
        let workload = model_named(&source.to_string_lossy());
        let workload = workload.map_err(|error| Failure::Message(error.to_string()))?;
        let one = match &arguments.keyspace {
            None => workload,
            Some(name) => match workload.of_keyspace(name) {
                Some(model) => model.into(),
                None => return Err(choose(&workload)),
            },
        };
        return Ok(of(one, Vec::new()));
    }
    let document = analysis(source)?;
    let path = file_of(source);
    let known = Known {
        keyspace: arguments.keyspace.clone(),
        pairs: arguments.pairs,
        name: arguments.name.clone(),
        scan_length: arguments.scan_length,
    };
    from_analysis::make_workload(&document, &known).map_err(|error| wrong(&path, error.to_string()))
}

/// Refuses options that are for an analysis alone, by name.
fn refuse_idle(arguments: &Arguments) -> Result<(), Failure> {
    refuse("--pairs", arguments.pairs.is_some())?;
    refuse("--scan-length", arguments.scan_length.is_some())
}

fn refuse(name: &str, is_given: bool) -> Result<(), Failure> {
    match is_given {
        true => Err(Failure::Usage(format!(
            "{name} has no effect here: it is for an analysis"
        ))),
        false => Ok(()),
    }
}

/// Whether a path is that of an analysis: a folder, or a file that begins as its document does.
fn is_analysis(path: &Path) -> bool {
    let begins = |text: String| text.trim_start().starts_with('{');
    path.is_dir() || whole_file::read_text(path).is_ok_and(begins)
}

/// How far the values of a trace compress, and the percentage that goes.
fn compressible(path: &Path) -> Result<(Compressible, u8), Failure> {
    let measured = trace::compressible(path)?;
    let percentage = measured.percentage().ok_or_else(|| {
        let mut why = format!("{} has no values: ", path.display());
        let _ = write!(why, "a trace has them if it was recorded with them");
        Failure::Message(why)
    })?;
    Ok((measured, percentage))
}

/// Says on standard error what a model lacks because the analysis does not know it.
pub fn tell_unknown(made: &MadeWorkload) {
    for unknown in &made.unknown {
        // The model has it in its comments, too.
        output::complain(&format!("evendb: not known: {unknown}"));
    }
}

/// What an analysis found, from its file or its folder.
pub fn analysis(path: &Path) -> Result<Document, Failure> {
    let path = file_of(path);
    let text = whole_file::read_text(&path)
        .map_err(|error| Failure::new(format!("cannot read {}", path.display()), error))?;
    Document::from_json(&text).map_err(|why| Failure::Message(format!("{}: {why}", path.display())))
}

fn file_of(analysis: &Path) -> PathBuf {
    match analysis.is_dir() {
        true => analysis.join("analysis.json"),
        false => analysis.to_path_buf(),
    }
}
