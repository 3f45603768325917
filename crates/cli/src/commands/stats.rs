//! `evendb stats`: what the database says about itself.

use std::io::{self, Write};

use evendb_lab::stores::evendb::figures;
use serde_json::{Map, Value};

use crate::failure::{Failure, Success};
use crate::open::{Access, DatabaseArguments, DurabilityArgument};

/// Print the database's figures
///
/// Counters count from the moment this command opened the database; sizes are those of the whole.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb stats files.db
  evendb stats files.db --json")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let (database, keyspace) = arguments
        .database
        .open(Access::Existing, DurabilityArgument::Process)?;
    let stats = database.stats();
    let mut target = io::stdout().lock();
    if arguments.json {
        let mut object: Map<String, Value> = figures(&stats)
            .iter()
            .map(|f| (f.name.to_owned(), f.value.into()))
            .collect();
        object.insert("keyspaces".to_owned(), database.keyspace_names().into());
        writeln!(target, "{}", Value::Object(object))?;
    } else {
        let text = stats.to_string();
        writeln!(target, "{}", text.trim_end())?;
        writeln!(
            target,
            "keyspaces: {}",
            database.keyspace_names().join(", ")
        )?;
    }
    target.flush()?;
    drop(keyspace);
    database.close()?;
    Ok(Success::Done)
}
