//! `evendb model`: a model of the load that an analysis found. `evendb_model::from_analysis` makes
//! it.

use std::io::Write;
use std::path::{Path, PathBuf};

use evendb_lab::whole_file;
use evendb_model::from_analysis::{self, Known, MadeWorkload};
use evendb_report::Document;

use crate::failure::{Failure, Success};
use crate::output;

/// Make a model of an analyzed load, which `evendb mixgraph` carries out on any store
///
/// Prints a file in TOML that can be edited by hand (docs/models.md). The comments at its head say
/// which fit was chosen for each part, with the errors of all that were tried, and what was left
/// out. What the analysis does not know is also said on standard error. If the trace has several
/// keyspaces, the model has a table for each, or is of the one that --keyspace names.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb analyze app.trace
  evendb model app.trace.analysis/analysis.json > app.toml
  evendb model app.trace.analysis --keyspace users > users.toml
  evendb mixgraph app.toml")]
pub struct Arguments {
    /// The analysis: analysis.json of the folder that `evendb analyze` made, or the folder
    analysis: PathBuf,
    /// The one keyspace to model; by default all keyspaces of the trace
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

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let document = analysis(&arguments.analysis)?;
    let path = file_of(&arguments.analysis);
    let wrong = |why: String| Failure::Message(format!("{}: {why}", path.display()));
    let known = Known {
        keyspace: arguments.keyspace.clone(),
        pairs: arguments.pairs,
        name: arguments.name.clone(),
        scan_length: arguments.scan_length,
    };
    let made = from_analysis::make_workload(&document, &known)
        .map_err(|error| wrong(error.to_string()))?;
    let text = made.to_toml().map_err(|error| wrong(error.to_string()))?;
    tell_unknown(&made);
    output::out().write_all(text.as_bytes())?;
    Ok(Success::Done)
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
