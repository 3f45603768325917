//! `evendb keyspaces`: lists the keyspaces of a database, or makes one with options of its own.

use std::io::Write;

use evendb::KeyspaceOptions;
use serde_json::json;

use crate::commands::size;
use crate::failure::{Failure, Success};
use crate::key_types;
use crate::open::{Access, DatabaseArguments, DurabilityArgument};
use crate::output;
use crate::store::Store;

/// List the keyspaces, or make one with options of its own
///
/// Prints each keyspace with the approximate size of its content, the remembered types of its keys,
/// and its own options. With --keyspace and an option: makes that keyspace, which remembers the
/// options. An existing one must have been made with the same options, unless --change is given.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb keyspaces files.db
  evendb keyspaces files.db --keyspace texts --compression lz4 --block-bytes 16KiB
  evendb keyspaces events.db --keyspace log --ttl 1h --layout guards
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

/// Options of a keyspace, as texts of the table of options.
#[derive(clap::Args)]
struct OptionArguments {
    /// How its records lie on disk: chunks (of neighbouring keys) or guards (a fragmented merge
    /// tree). An existing keyspace keeps its layout
    #[arg(long, value_name = "LAYOUT", value_parser = taken_by("layout"), requires = "keyspace")]
    layout: Option<Taken>,
    /// Compression of its tables: none, lz4, or zstd, also with a level as zstd:9
    #[arg(long, value_name = "COMPRESSION", value_parser = taken_by("compression"),
        requires = "keyspace")]
    compression: Option<Taken>,
    /// Bits per key of its tables' filters for absent keys; 0 for none
    #[arg(long, value_name = "BITS", value_parser = taken_by("filter_bits_per_key"),
        requires = "keyspace")]
    filter_bits: Option<Taken>,
    /// Target size of its tables' blocks, as 16KiB
    #[arg(long, value_name = "SIZE", value_parser = taken_by("block_bytes"), requires = "keyspace")]
    block_bytes: Option<Taken>,
    /// Whether its rows may take room in the row cache
    #[arg(long, value_name = "YES", value_parser = taken_by("row_cache"), requires = "keyspace")]
    row_cache: Option<Taken>,
    /// The operator of `evendb merge`: add-u64 and add-i64 add numbers, max and min keep the
    /// greatest or the least value, append appends, union unites sets of texts
    #[arg(long, value_name = "OPERATOR", value_parser = taken_by("merge_operator"),
        requires = "keyspace")]
    merge: Option<Taken>,
    /// How long a value that is put without an expiry of its own stays, as 30m, 2d, or a number of
    /// seconds
    #[arg(long, value_name = "TIME", value_parser = taken_by("ttl"), requires = "keyspace")]
    ttl: Option<Taken>,
    /// Values of at least this number of bytes are written into files of their own, as 4KiB
    #[arg(long, value_name = "SIZE", value_parser = taken_by("values_apart_from"),
        requires = "keyspace")]
    values_apart_from: Option<Taken>,
}

/// A text that the option takes.
#[derive(Clone, Debug)]
struct Taken {
    option: &'static str,
    text: String,
}

impl Taken {
    fn given_to(&self, options: KeyspaceOptions) -> evendb::Result<KeyspaceOptions> {
        options.set(self.option, &self.text)
    }
}

/// Reads a text of this option.
fn taken_by(option: &'static str) -> impl Fn(&str) -> Result<Taken, String> + Clone {
    move |text| {
        let taken = Taken {
            option,
            text: text.to_owned(),
        };
        let set = taken.given_to(KeyspaceOptions::new());
        set.map(|_| taken).map_err(|error| error.to_string())
    }
}

impl OptionArguments {
    fn chosen(&self) -> evendb::Result<KeyspaceOptions> {
        let all = [
            &self.layout,
            &self.compression,
            &self.filter_bits,
            &self.block_bytes,
            &self.row_cache,
            &self.merge,
            &self.ttl,
            &self.values_apart_from,
        ];
        let mut given = all.into_iter().flatten();
        given.try_fold(KeyspaceOptions::new(), |options, taken| {
            taken.given_to(options)
        })
    }
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let options = arguments.options.chosen()?;
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
