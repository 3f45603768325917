//! `evendb export`: writes a keyspace to files that another database can ingest.

use std::path::PathBuf;

use evendb_lab::readable::{bytes, counted};

use crate::failure::{Failure, Success};
use crate::open::DatabaseArguments;
use crate::output;

/// Write a keyspace to files that `evendb ingest` reads into another database
///
/// The files are sorted tables with checksums. For text, use `evendb scan --output tsv`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb export files.db exported
  evendb ingest other.db exported --keyspace files")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    /// Where the files go: a directory that is empty or not there
    #[arg(value_name = "DIR")]
    into: PathBuf,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let store = arguments.database.open_for_reading()?;
    let done = store.keyspace.export(&arguments.into)?;
    output::complain(&format!(
        "exported {}, {} in {}",
        counted(done.records, "record"),
        bytes(done.table_bytes),
        counted(done.tables, "table")
    ));
    Ok(Success::Done)
}
