//! `evendb export`: writes a keyspace to files that another database can ingest.

use std::path::{Path, PathBuf};

use evendb::{ExportSummary, ExportWriter};
use evendb_lab::readable::{bytes, counted};

use crate::failure::{Failure, Success};
use crate::open::DatabaseArguments;
use crate::output;
use crate::store::Store;

/// Write a keyspace to files that `evendb ingest` reads into another database
///
/// The files are sorted tables with checksums, the same from both engines; a database of the engine
/// evendb ingests them. For text, use `evendb scan --output tsv`.
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
    let done = match &store {
        Store::EvenDb { keyspace, .. } => keyspace.export(&arguments.into)?,
        Store::Flsm { .. } => write_records(&store, &arguments.into)?,
    };
    output::complain(&format!(
        "exported {}, {} in {}",
        counted(done.records, "record"),
        bytes(done.table_bytes),
        counted(done.tables, "table")
    ));
    Ok(Success::Done)
}

/// Exports one record after the other, as they are read.
fn write_records(store: &Store, into: &Path) -> Result<ExportSummary, Failure> {
    let mut writer = ExportWriter::create(into)?;
    let mut cursor = store.all();
    while let Some((key, value)) = cursor.next()? {
        writer.put(key, value.unwrap_or_default())?;
    }
    Ok(writer.finish()?)
}
