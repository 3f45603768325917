//! `evendb options`: the options that have a name and a text, from the library's own tables.

use std::io::Write;

use evendb::{KeyspaceOptions, OptionInfo, Options};
use serde_json::json;

use crate::failure::{Failure, Success};
use crate::output;

/// List the options of a database, or of a keyspace, that can be set by name and text
///
/// A line has the option's name, its default, what its text is, the texts that it takes, and what
/// it is for. Commands that open a database take options of the database by --set NAME=TEXT.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb options
  evendb options memory_budget
  evendb stats files.db --set memory_budget=64MiB")]
pub struct Arguments {
    /// Only options whose names have this in them
    #[arg(value_name = "NAME", allow_hyphen_values = true)]
    name: Option<String>,
    /// The options of a keyspace
    #[arg(long)]
    of_keyspaces: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let table = match arguments.of_keyspaces {
        true => KeyspaceOptions::table(),
        false => Options::table(),
    };
    let part = arguments.name.as_deref().unwrap_or_default();
    let asked: Vec<&OptionInfo> = table
        .iter()
        .filter(|row| row.name().contains(part))
        .collect();
    if asked.is_empty() {
        return Ok(Success::NotFound);
    }
    let mut target = output::out();
    for row in asked {
        let [name, default, takes] = [row.name(), row.default_text(), row.takes()];
        let (texts, about) = (row.limits(), row.about());
        match arguments.json {
            true => writeln!(
                target,
                "{}",
                json!({
                    "name": name, "group": row.group(), "default": default, "takes": takes,
                    "texts": texts, "about": about,
                })
            )?,
            false => writeln!(target, "{name}\t{default}\t{takes}\t{texts}\t{about}")?,
        }
    }
    target.flush()?;
    Ok(Success::Done)
}
