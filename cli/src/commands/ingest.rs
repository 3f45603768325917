//! `evendb ingest`: sorted records, written once and visible at one moment.

use std::path::PathBuf;
use std::time::Instant;

use evendb::{IngestSummary, Keyspace};
use evendb_lab::readable::{bytes, counted, grouped};

use crate::commands::import::progress_bar;
use crate::failure::{Failure, Success};
use crate::foreign;
use crate::input::{InputArguments, Records, Step};
use crate::interrupt::Interrupt;
use crate::key_types;
use crate::leveldb_files::is_leveldb;
use crate::open::{Access, DatabaseArguments, DurabilityArgument, LayoutArgument};
use crate::output;
use crate::values::Values;

/// Ingest sorted records, all at once; creates the database if there is none
///
/// Reads what `evendb import` reads, and must find the keys in ascending order, each once, as they
/// are in a LevelDB database; or a directory that `evendb export` wrote. The records are written
/// once, as tables, and are visible and durable all together at the end. A bad line, a key out of
/// order or an interruption ends the ingest, and no record of it is visible. An export has the key
/// types of its keyspace: a keyspace without keys remembers them, and one whose keys have other
/// types is refused.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  LC_ALL=C sort paths.tsv | evendb ingest files.db -
  evendb scan events.db --output tsv | evendb ingest copy.db - --format scan-tsv --key-types str,u64
  evendb export files.db exported && evendb ingest other.db exported")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    #[command(flatten)]
    layout: LayoutArgument,
    /// The file, a directory of exported files, or that of a LevelDB database; `-` is standard
    /// input
    file: PathBuf,
    #[command(flatten)]
    input: InputArguments,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    arguments.database.undoing(|| ingest(arguments))
}

fn ingest(arguments: &Arguments) -> Result<Success, Failure> {
    let interrupt = Interrupt::install()?;
    let start = Instant::now();
    let open = || {
        let access = Access::Create(arguments.layout.layout);
        arguments.database.open(access, DurabilityArgument::Process)
    };
    let (store, done) = match arguments.file.is_dir() && !is_leveldb(&arguments.file) {
        true => {
            if let Some(foreign) = foreign::of(&arguments.file) {
                return Err(Failure::Message(foreign::named(&arguments.file, foreign)));
            }
            arguments.input.check_exported()?;
            let types = key_types::of_export(&arguments.file)?;
            let store = open()?;
            key_types::remember_exported(&store, types, arguments.input.key_types.as_ref())?;
            let done = store.keyspace.import(&arguments.file)?;
            (store, done)
        }
        false => {
            let (mut reader, size) = Records::open(
                &arguments.file,
                &arguments.input.within(arguments.database.memory),
                &interrupt,
            )?;
            let store = open()?;
            let types = key_types::of_import(&store, reader.wanted())?;
            reader.set_types(types);
            reader.set_values(Values::of(&store)?);
            let done = read_all(&mut reader, &store.keyspace, &interrupt, size)?;
            (store, done)
        }
    };
    store.db.close()?;
    let seconds = start.elapsed().as_secs_f64();
    output::complain(&format!(
        "ingested {}, {} in {}, in {seconds:.2} s; {} of them among older data",
        counted(done.records, "record"),
        bytes(done.table_bytes),
        counted(done.tables, "table"),
        grouped(done.tables_overlapping)
    ));
    Ok(Success::Done)
}

fn read_all(
    reader: &mut Records,
    keyspace: &Keyspace,
    interrupt: &Interrupt,
    size: Option<u64>,
) -> Result<IngestSummary, Failure> {
    let bar = progress_bar(size);
    let mut ingest = keyspace.begin_ingest()?;
    let mut steps = 0u64;
    loop {
        if interrupt.raised() {
            bar.finish_and_clear();
            output::complain("interrupted: nothing was ingested");
            return Err(Failure::Interrupted);
        }
        let next = reader.step();
        let place = |reader: &Records| format!("{} {}", reader.unit(), reader.number());
        match next? {
            Step::Pair => {
                let (key, value) = (reader.key(), reader.value());
                let put = match reader.expires() {
                    Some(at) => ingest.put_expiring_at(key, value, at),
                    None => ingest.put(key, value),
                };
                put.map_err(|error| Failure::new(place(reader), error))?;
            }
            Step::Bad(why) => {
                let message = format!("{}: {why}; nothing was ingested", place(reader));
                return Err(Failure::Message(message));
            }
            Step::End => break,
        }
        steps += 1;
        if steps.is_multiple_of(1024) {
            bar.set_position(reader.bytes());
        }
    }
    bar.finish_and_clear();
    Ok(ingest.finish()?)
}
