//! `evendb keyspaces`: lists the keyspaces of a database, or makes one with options of its own.

use std::io::Write;
use std::time::Duration;

use clap::ValueEnum;
use evendb::{Compression, KeyspaceOptions, Layout, Merges};
use serde_json::json;

use crate::commands::size;
use crate::failure::{Failure, Success};
use crate::key_types;
use crate::open::{Access, DatabaseArguments, DurabilityArgument};
use crate::output;
use crate::size::parse_size;
use crate::store::Store;
use crate::time_text::parse_duration;

/// List the keyspaces, or make one with options of its own
///
/// Prints each keyspace with the approximate size of its content, the remembered types of its keys,
/// and its own options. With --keyspace and an option: makes that keyspace, which remembers the
/// options. An existing one must have been made with the same options, unless --change is given.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb keyspaces files.db
  evendb keyspaces files.db --keyspace texts --compression lz4 --block-bytes 16KiB
  evendb keyspaces events.db --keyspace log --ttl 3600 --layout guards
  evendb keyspaces files.db --keyspace texts --compression none --change
  evendb keyspaces files.db --keyspace hits --merge add-u64
  evendb keyspaces files.db --keyspace pictures --values-apart-from 4KiB")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    #[command(flatten)]
    options: OptionArguments,
    /// Give an existing keyspace these options instead of its own
    #[arg(long, requires = "keyspace")]
    change: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Options of a keyspace.
#[derive(clap::Args)]
struct OptionArguments {
    /// How its records lie on disk: chunks (of neighbouring keys) or guards (a fragmented merge
    /// tree). An existing keyspace keeps its layout
    #[arg(long, value_name = "LAYOUT", requires = "keyspace")]
    layout: Option<Layout>,
    /// Compression of its tables: none, lz4, or zstd, also with a level as zstd:9
    #[arg(long, value_name = "COMPRESSION", requires = "keyspace")]
    compression: Option<Compression>,
    /// Bits per key of its tables' filters for absent keys; 0 for none
    #[arg(long, value_name = "BITS", requires = "keyspace")]
    filter_bits: Option<u32>,
    /// Target size of its tables' blocks, as 16KiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "keyspace")]
    block_bytes: Option<u64>,
    /// Whether its rows may take room in the row cache
    #[arg(long, value_name = "YES", requires = "keyspace")]
    row_cache: Option<bool>,
    /// The operator of `evendb merge`
    #[arg(long, value_enum, value_name = "OPERATOR", requires = "keyspace")]
    merge: Option<OperatorArgument>,
    /// How long a value that is put without an expiry of its own stays, in seconds, as 86400 or 0.5
    #[arg(long, value_name = "SECONDS", value_parser = parse_duration, requires = "keyspace")]
    ttl: Option<Duration>,
    /// Values of at least this number of bytes are written into files of their own, as 4KiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "keyspace")]
    values_apart_from: Option<u64>,
}

/// A merge operator, as it is written on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OperatorArgument {
    /// Adds unsigned numbers
    AddU64,
    /// Adds signed numbers
    AddI64,
    /// Keeps the greatest value
    Max,
    /// Keeps the least value
    Min,
    /// Appends
    Append,
    /// Unites sets of texts
    Union,
}

impl From<OperatorArgument> for Merges {
    fn from(operator: OperatorArgument) -> Merges {
        match operator {
            OperatorArgument::AddU64 => Merges::AddU64,
            OperatorArgument::AddI64 => Merges::AddI64,
            OperatorArgument::Max => Merges::Max,
            OperatorArgument::Min => Merges::Min,
            OperatorArgument::Append => Merges::Append,
            OperatorArgument::Union => Merges::Union,
        }
    }
}

impl OptionArguments {
    fn chosen(&self) -> KeyspaceOptions {
        let mut options = KeyspaceOptions::new();
        if let Some(layout) = self.layout {
            options = options.layout(layout);
        }
        if let Some(compression) = self.compression {
            options = options.compression(compression);
        }
        if let Some(bits) = self.filter_bits {
            options = options.filter_bits_per_key(bits);
        }
        if let Some(bytes) = self.block_bytes {
            options = options.block_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        if let Some(yes) = self.row_cache {
            options = options.row_cache(yes);
        }
        if let Some(operator) = self.merge {
            options = options.merge_operator(Merges::from(operator));
        }
        if let Some(ttl) = self.ttl {
            options = options.ttl(ttl);
        }
        if let Some(bytes) = self.values_apart_from {
            options = options.values_apart_from(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
        options
    }
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let options = arguments.options.chosen();
    match &arguments.database.keyspace {
        Some(name) if arguments.change || options != KeyspaceOptions::new() => {
            make(arguments, name, &options)?;
        }
        _ => list(arguments)?,
    }
    Ok(Success::Done)
}

fn make(arguments: &Arguments, name: &str, options: &KeyspaceOptions) -> Result<(), Failure> {
    let (access, durability) = (Access::Existing, DurabilityArgument::Process);
    let database = arguments.database.open_database(access, durability)?;
    let keyspace = match arguments.change {
        true => arguments.database.existing_keyspace(&database)?,
        false => database.keyspace_with(name, options)?,
    };
    if arguments.change {
        keyspace.set_options(options)?;
    }
    drop(keyspace);
    database.close()?;
    Ok(())
}

fn list(arguments: &Arguments) -> Result<(), Failure> {
    let store = arguments.database.open_for_reading()?;
    let mut target = output::out();
    for name in store.db.keyspace_names() {
        let asked = arguments.database.keyspace.as_ref();
        if asked.is_none_or(|asked| *asked == name) {
            writeln!(target, "{}", line(&store, &name, arguments.json)?)?;
        }
    }
    target.flush()?;
    store.db.close()?;
    Ok(())
}

fn line(store: &Store, name: &str, as_json: bool) -> Result<String, Failure> {
    let store = store.at_keyspace(name)?;
    let held = store.keyspace.approximate_size::<&[u8]>(..)?;
    let options = store.keyspace.options()?;
    let own = options.chosen();
    let types = key_types::remembered_text(&store)?;
    Ok(match as_json {
        true => {
            let own: serde_json::Map<_, _> = own
                .map(|(option, value)| (option.to_owned(), json!(value)))
                .collect();
            let layout = store.layout()?;
            let mut object =
                json!({ "keyspace": name, "layout": layout, "key_types": types, "options": own });
            if let (Some(object), serde_json::Value::Object(figures)) =
                (object.as_object_mut(), size::as_json(&held))
            {
                object.extend(figures);
            }
            object.to_string()
        }
        false => {
            let own = own.map(|(option, value)| format!("\t{option}={value}"));
            let own: String = own.collect();
            let types = types.map(|types| format!("\tkey_types={}", output::printable(&types)));
            let types = types.unwrap_or_default();
            let held = size::as_text(&held);
            format!("{}\t{held}{types}{own}", output::escaped(name.as_bytes()))
        }
    })
}
