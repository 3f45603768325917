//! `evendb dump`: the content of a database's files.

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Subcommand;
use evendb::inspect::{self, Dump, DumpItem, DumpOptions, DumpValue, InspectOptions};
use serde_json::{Map, Value};

use crate::failure::{Failure, Success};
use crate::key_file::KeyFile;
use crate::open::{Purpose, refused};
use crate::output;

/// Print a part of the database in readable form
///
/// No process may have the database open for writing; nothing is written. Bytes that do not verify
/// appear as `damage` where they lie, and what can be found after them is printed all the same.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb dump files.db manifest
  evendb dump files.db chunk 4294967298
  evendb dump files.db sstable 0000000100000007.sst --keys-only --limit 100
  evendb dump files.db log 4294967298
  evendb dump files.db commit-log --json
  evendb dump files.db kept-changes --keys-only

A table in the chunks' logs is given by its id, in hexadecimal digits, as `chunk` and `manifest`
print it.

Exit codes: 0 all of it, 5 some of it does not verify, 1 failure")]
pub struct Arguments {
    /// The database's directory
    db: PathBuf,
    #[command(flatten)]
    key_file: KeyFile,
    #[command(subcommand)]
    what: What,
    /// Stop after this number of records (of the manifest: changes)
    #[arg(long, value_name = "RECORDS", global = true)]
    limit: Option<u64>,
    /// Print no values
    #[arg(long, global = true)]
    keys_only: bool,
    /// Print one JSON object a line
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// The file that names the manifest
    Current,
    /// What exists: every edit
    Manifest,
    /// A chunk and its tables
    Chunk {
        /// The chunk's id
        id: u64,
    },
    /// A table: an SSTable's file, or the id of any table
    Sstable {
        /// Name of the file in the directory, or the table's id in hexadecimal
        file: String,
    },
    /// The runs of a chunk's log
    Log {
        /// The chunk's id
        chunk: u64,
    },
    /// The commit log from the replay position on
    CommitLog,
    /// The changes that are kept beyond the commit log (`keep_changes_bytes`)
    KeptChanges,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let mut target = BufWriter::with_capacity(1 << 16, output::out());
    let mut damaged = false;
    let mut outcome = Ok(());
    let mut each = |item: DumpItem| {
        damaged |= item.kind == "damage";
        outcome = match arguments.json {
            true => writeln!(target, "{}", json(&item)),
            false => write_text(&mut target, &item),
        };
        match outcome {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    };
    let inspect = arguments
        .key_file
        .given_to_inspection(InspectOptions::new());
    let told = inspect::dump(
        &arguments.db,
        &arguments.what(),
        &arguments.options(),
        inspect,
        &mut each,
    );
    told.map_err(|error| refused(&arguments.db, Purpose::Reading, &error))?;
    outcome?;
    target.flush()?;
    match damaged {
        false => Ok(Success::Done),
        true => Ok(Success::Corrupt),
    }
}

impl Arguments {
    fn what(&self) -> Dump {
        match &self.what {
            What::Current => Dump::Current,
            What::Manifest => Dump::Manifest,
            What::Chunk { id } => Dump::Chunk(*id),
            What::Sstable { file } => Dump::Table(file.clone()),
            What::Log { chunk } => Dump::Log(*chunk),
            What::CommitLog => Dump::CommitLog,
            What::KeptChanges => Dump::KeptChanges,
        }
    }

    fn options(&self) -> DumpOptions {
        DumpOptions {
            limit: self.limit,
            keys_only: self.keys_only,
        }
    }
}

fn write_text(target: &mut impl Write, item: &DumpItem) -> io::Result<()> {
    write!(
        target,
        "{:indent$}{}",
        "",
        item.kind,
        indent = item.depth * 2
    )?;
    if let (Some(offset), Some(len)) = (item.offset, item.len) {
        write!(target, " @{offset}+{len}")?;
    }
    for (name, value) in &item.fields {
        match value {
            DumpValue::Number(number) => write!(target, " {name}={number}")?,
            DumpValue::Text(text) => {
                let mark = if text.contains(' ') { ": " } else { "=" };
                write!(target, " {name}{mark}{}", output::printable(text))?;
            }
            DumpValue::Bytes(bytes) => write!(target, " {name}=`{}`", output::escaped(bytes))?,
            _ => {}
        }
    }
    writeln!(target)
}

fn json(item: &DumpItem) -> Value {
    let mut object = Map::new();
    object.insert("item".to_owned(), item.kind.into());
    object.insert("depth".to_owned(), item.depth.into());
    if let (Some(offset), Some(len)) = (item.offset, item.len) {
        object.insert("offset".to_owned(), offset.into());
        object.insert("length".to_owned(), len.into());
    }
    for (name, value) in &item.fields {
        let value = match value {
            DumpValue::Number(number) => Value::from(*number),
            DumpValue::Text(text) => Value::from(text.as_str()),
            DumpValue::Bytes(bytes) => output::text_or_hex(bytes),
            _ => Value::Null,
        };
        object.insert((*name).to_owned(), value);
    }
    Value::Object(object)
}
