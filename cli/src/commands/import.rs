//! `evendb import`: reads lines, makes pairs, writes them in batches.
//!
//! Each batch is written at the relaxed level. The database is
//! made durable before the command says how many records it imported. After an interruption the
//! current batch is still written. If a batch is refused because one of its records is too large,
//! its records are written one by one, so that only the bad ones are reported.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use evendb::{Error, ErrorKind};
use evendb_lab::readable::{bytes, counted, grouped};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::{Failure, Success};
use crate::input::{Duplicates, InputArguments, Records, Replaced, Step};
use crate::interrupt::Interrupt;
use crate::key_types;
use crate::open::{Access, DatabaseArguments, DurabilityArgument, LayoutArgument};
use crate::output;
use crate::store::{Expiry, Store};
use crate::time_text::parse_time;
use crate::values::Values;
use evendb::forms::parse_duration;
use evendb::forms::parse_size;

/// The number of bad lines that are told one by one.
const BAD_LINES_SHOWN: u64 = 10;

/// Records between two looks at the progress bar.
const PROGRESS_RECORDS: u64 = 1024;

/// Import records from TSV, CSV, JSON Lines or a LevelDB database; creates the database if there is
/// none
///
/// The input is a file of text, packed by gzip or Zstandard or not, or the directory of a LevelDB
/// database that no process has open. Without --format the text's format is guessed by the name and
/// the first lines, and told; what looks wrong is refused. From a LevelDB database, which is not
/// changed, all records are imported.
///
/// One key column makes the key as it is. Several make a composite key that sorts by its columns;
/// numbers sort as numbers if they are typed (`time:u64`, `delta:i64`, `weight:f64`). The keyspace
/// remembers the types, and the other commands use them. A later line with the same key replaces
/// the earlier one, and such lines are counted (about, beyond four million records). Bad lines are
/// counted and told (the first 10) with their numbers, empty lines are skipped and counted. A
/// byte-order mark and carriage returns at line ends are left out.
///
/// A number fits its type or makes a bad line: it is never another number. In JSON a number without
/// a type is its digits as they are written; null, booleans, arrays and objects are no keys, and a
/// member that is there twice is none either.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb import files.db paths.tsv
  evendb import events.db events.csv --key-columns app,time:u64 --value-column payload
  evendb import events.db log.jsonl.gz --key-columns app,time:i64
  evendb import people.db people.csv --delimiter ';' --key-columns id --json-values
  evendb import copy.db leveldb-directory
  ldb --db=rocksdb-directory dump --hex | evendb import copy.db - --format ldb-hex
  evendb import sessions.db sessions.csv --key-columns user --expires-column until
  evendb import sessions.db sessions.tsv --ttl 86400
  evendb scan events.db --output tsv | evendb import copy.db - --format scan-tsv --key-types str,u64

Exit codes: 0 all lines imported, 3 some lines were bad, 5 the database is damaged, 130 interrupted,
1 failure")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    #[command(flatten)]
    layout: LayoutArgument,
    /// The file, or the directory of a LevelDB database; `-` is standard input
    file: PathBuf,
    #[command(flatten)]
    input: InputArguments,
    /// Keep each record for this time after it is written, as 30m, 2d, or a number of seconds
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with_all = ["until", "expires_column"])]
    ttl: Option<Duration>,
    /// Keep each record until a time, in seconds since 1970 or as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "SECONDS", value_parser = parse_time, conflicts_with = "expires_column", allow_hyphen_values = true)]
    until: Option<SystemTime>,
    /// Keys and values in one batch
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1MiB")]
    batch_bytes: u64,
    /// Write all bad lines to this file, as they were
    #[arg(long, value_name = "FILE")]
    bad_lines: Option<PathBuf>,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    arguments.database.undoing(|| import(arguments))
}

fn import(arguments: &Arguments) -> Result<Success, Failure> {
    let interrupt = Interrupt::install()?;
    let (mut reader, size) = Records::open(
        &arguments.file,
        &arguments.input.within(arguments.database.memory),
        &interrupt,
    )?;
    let mut import = Import::new(arguments, reader.unit())?;
    let place = &arguments.database;
    let access = Access::Create(arguments.layout.layout);
    let store = place.open(access, DurabilityArgument::Process)?;
    let types = key_types::of_import(&store, reader.wanted())?;
    reader.set_types(types);
    reader.set_values(Values::of(&store)?);
    let bar = progress_bar(size);
    let start = Instant::now();
    let outcome = import.read_all(&mut reader, &store, &interrupt, &bar);
    // Also after a failure: records that were written before it are made durable and told, if
    // possible.
    let closed = store.db.persist().and_then(|()| store.db.close());
    bar.finish_and_clear();
    let mut bad = import.tell(&reader, start.elapsed().as_secs_f64(), closed.is_ok());
    let outcome = outcome.and(closed.map_err(Failure::from));
    outcome.and(bad.finish())?;
    if interrupt.raised() {
        output::complain(&format!(
            "interrupted after {} {}",
            reader.unit(),
            reader.number()
        ));
        return Err(Failure::Interrupted);
    }
    Ok(if bad.count > 0 {
        Success::BadLines
    } else {
        Success::Done
    })
}

/// What an import has read and not written yet, and what became of the rest.
struct Import {
    /// A batch with this many bytes of keys and values is written.
    batch_bytes: u64,
    pending: Pending,
    bad: BadLines,
    /// The number of written records.
    written: u64,
}

impl Import {
    fn new(arguments: &Arguments, unit: &'static str) -> Result<Import, Failure> {
        Ok(Import {
            batch_bytes: arguments.batch_bytes,
            bad: BadLines::new(arguments, unit)?,
            pending: Pending {
                keep_raw: arguments.bad_lines.is_some(),
                expiry: Expiry::of(arguments.ttl, arguments.until),
                ..Pending::new()
            },
            written: 0,
        })
    }

    /// Reads to the end of the input, and writes each full batch. After an interruption or an error
    /// of the input, it writes the unfinished batch too.
    fn read_all(
        &mut self,
        reader: &mut Records,
        store: &Store,
        interrupt: &Interrupt,
        bar: &ProgressBar,
    ) -> Result<(), Failure> {
        let mut steps = 0u64;
        while !interrupt.raised() {
            let told = match reader.step() {
                Ok(Step::Pair) => {
                    self.pending.push(reader);
                    Ok(())
                }
                Ok(Step::Bad(why)) => {
                    bar.suspend(|| self.bad.tell(reader.number(), &why, &reader.raw()))
                }
                Ok(Step::End) => break,
                Err(failure) => return self.commit(store, bar).and(Err(failure)),
            };
            let is_full = self.pending.user_bytes >= self.batch_bytes;
            let flushed = if is_full {
                self.commit(store, bar)
            } else {
                Ok(())
            };
            told.and(flushed)?;
            steps += 1;
            if steps.is_multiple_of(PROGRESS_RECORDS) {
                bar.set_position(reader.bytes());
            }
        }
        self.commit(store, bar)
    }

    fn commit(&mut self, store: &Store, bar: &ProgressBar) -> Result<(), Failure> {
        self.written += bar.suspend(|| self.pending.commit(store, &mut self.bad))?;
        Ok(())
    }

    /// Tells what was done, and gives the bad lines back. `is_durable` says whether nothing of it
    /// can be lost again.
    fn tell(self, reader: &Records, seconds: f64, is_durable: bool) -> BadLines {
        let replaced = self.pending.duplicates.replaced();
        let records = replaced.records;
        output::complain(&format!(
            "{} {}, {} of input, in {seconds:.2} s ({} records/s); {}{}{}",
            if is_durable {
                "imported"
            } else {
                "wrote, but may lose again,"
            },
            counted(self.written, "record"),
            bytes(reader.bytes()),
            grouped((self.written as f64 / seconds.max(1e-9)) as u64),
            counted(self.bad.count, &format!("bad {}", reader.unit())),
            told_of(replaced),
            reader.left_out()
        ));
        if records > self.written / 2 {
            output::complain(
                "most records had the key of another one, which they replaced: are there more columns of the key? \
                 --key-columns names them",
            );
        }
        self.bad
    }
}

/// A bar over the input's bytes, or a counter if their number is not known. Hidden unless standard
/// error is a terminal.
pub fn progress_bar(size: Option<u64>) -> ProgressBar {
    let (bar, template) = match size {
        Some(size) => (
            ProgressBar::new(size),
            "{wide_bar} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left",
        ),
        None => (
            ProgressBar::no_length(),
            "{spinner} {bytes}  {bytes_per_sec}  {elapsed}",
        ),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template(template).expect("the template is a constant"));
    bar
}

/// The text about records that replaced an earlier one of the same input.
fn told_of(replaced: Replaced) -> String {
    let about = if replaced.is_exact { "" } else { "about " };
    match replaced.records {
        0 => String::new(),
        count => format!(
            ", {about}{} replaced an earlier one of the same key",
            counted(count, "record")
        ),
    }
}

/// Counts, shows and keeps bad lines.
struct BadLines {
    count: u64,
    /// What the numbers count: lines, or records.
    unit: &'static str,
    file: Option<BufWriter<File>>,
}

impl BadLines {
    fn new(arguments: &Arguments, unit: &'static str) -> Result<Self, Failure> {
        let path = arguments.bad_lines.as_ref();
        let real = |path: &PathBuf| path.canonicalize().ok();
        if path
            .and_then(real)
            .is_some_and(|path| Some(path) == real(&arguments.file))
        {
            return Err(Failure::Usage(
                "--bad-lines names the input, which it would overwrite".to_owned(),
            ));
        }
        let create = |path: &PathBuf| evendb::placement::new_output(path, "a file of bad lines");
        Ok(Self {
            count: 0,
            unit,
            file: path.map(create).transpose()?.map(BufWriter::new),
        })
    }

    fn tell(&mut self, number: u64, why: &str, raw: &[u8]) -> Result<(), Failure> {
        self.count += 1;
        if self.count <= BAD_LINES_SHOWN {
            output::complain(&format!("{} {number}: {why}", self.unit));
        } else if self.count == BAD_LINES_SHOWN + 1 {
            output::complain(&format!("more bad {}s are only counted", self.unit));
        }
        if let Some(file) = &mut self.file {
            file.write_all(raw)
                .and_then(|()| file.write_all(b"\n"))
                .map_err(cannot_keep)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.file
            .as_mut()
            .map_or(Ok(()), BufWriter::flush)
            .map_err(cannot_keep)
    }
}

fn cannot_keep(error: std::io::Error) -> Failure {
    Failure::new("cannot write the bad lines", error)
}

/// The records of the current batch, with their bytes in one piece.
struct Pending {
    arena: Vec<u8>,
    records: Vec<PendingRecord>,
    user_bytes: u64,
    keep_raw: bool,
    duplicates: Duplicates,
    /// How long a record stays if it does not say so itself.
    expiry: Expiry,
}

struct PendingRecord {
    number: u64,
    key: Range<usize>,
    value: Range<usize>,
    expiry: Expiry,
    /// Empty unless bad lines are kept.
    raw: Range<usize>,
}

impl Pending {
    fn new() -> Pending {
        Pending {
            arena: Vec::new(),
            records: Vec::new(),
            user_bytes: 0,
            keep_raw: false,
            duplicates: Duplicates::new(),
            expiry: Expiry::Keyspaces,
        }
    }

    fn push(&mut self, reader: &Records) {
        self.duplicates.push(reader.key());
        let raw = if self.keep_raw {
            reader.raw()
        } else {
            Cow::Borrowed(&b""[..])
        };
        let mut append = |bytes: &[u8]| {
            let start = self.arena.len();
            self.arena.extend_from_slice(bytes);
            start..self.arena.len()
        };
        let record = PendingRecord {
            number: reader.number(),
            key: append(reader.key()),
            value: append(reader.value()),
            expiry: reader.expires().map_or(self.expiry, Expiry::At),
            raw: append(&raw),
        };
        self.records.push(record);
        self.user_bytes += (reader.key().len() + reader.value().len()) as u64;
    }

    /// Writes the records and empties the batch. Returns the number of written records.
    fn commit(&mut self, store: &Store, bad: &mut BadLines) -> Result<u64, Failure> {
        if self.records.is_empty() {
            return Ok(0);
        }
        let written = match store.put_all(self.records()) {
            Ok(()) => self.records.len() as u64,
            Err(error) if is_about_a_record(&error) => self.commit_singly(store, bad)?,
            Err(error) => return Err(error.into()),
        };
        self.arena.clear();
        self.records.clear();
        self.user_bytes = 0;
        Ok(written)
    }

    fn records(&self) -> impl Iterator<Item = (&[u8], &[u8], Expiry)> {
        let bytes = |place: &Range<usize>| &self.arena[place.clone()];
        let records = self.records.iter();
        records.map(move |of| (bytes(&of.key), bytes(&of.value), of.expiry))
    }

    fn commit_singly(&self, store: &Store, bad: &mut BadLines) -> Result<u64, Failure> {
        let mut written = 0;
        for (record, (key, value, expiry)) in self.records.iter().zip(self.records()) {
            match store.put(key, value, expiry) {
                Ok(()) => written += 1,
                Err(error) if is_about_a_record(&error) => {
                    bad.tell(
                        record.number,
                        &error.to_string(),
                        &self.arena[record.raw.clone()],
                    )?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(written)
    }
}

fn is_about_a_record(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::KeyTooLarge
            | ErrorKind::ValueTooLarge
            | ErrorKind::BatchTooLarge
            | ErrorKind::InvalidArgument
    )
}
