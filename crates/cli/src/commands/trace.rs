//! `evendb trace`: what is in a trace, and traces of other formats as EvenDB's.
//!
//! Nothing here holds more than one operation at a time.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use evendb_lab::readable::{bytes, grouped};
use evendb_trace::formats::{self, Detected, Format, Imported};
use evendb_trace::{Header, Kind, Operation, Outcome, Reader, Writer};
use serde_json::json;

use crate::failure::{Failure, Success};
use crate::output;

/// Show a trace, or make one of another format
///
/// A trace is recorded by an application (Db::start_trace), or by `evendb bench --trace`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// What a trace has: operations by kind and keyspace, time, what is missing
    Info {
        /// The trace
        file: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// The operations of a trace as text, a line each
    Print {
        /// The trace
        file: PathBuf,
        /// So many operations at most
        #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
        limit: u64,
    },
    /// Reads one format and writes another
    Convert {
        /// The trace to read
        from: PathBuf,
        /// The file to write, which must not exist
        to: PathBuf,
        /// The format to read; by default what the file begins with
        #[arg(long, value_enum)]
        from_format: Option<FromFormat>,
        /// The format to write
        #[arg(long, value_enum, default_value = "evendb")]
        to_format: ToFormat,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum FromFormat {
    /// EvenDB's own
    Evendb,
    /// RocksDB's query trace, 0.1 or 0.2
    Rocksdb,
    /// RocksDB's human-readable form
    RocksdbText,
    /// Twitter's cache trace, CSV
    Twitter,
    /// What YCSB's basic binding prints
    Ycsb,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum ToFormat {
    /// EvenDB's own
    Evendb,
    /// RocksDB's human-readable form
    RocksdbText,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    match &arguments.command {
        Command::Info { file, json } => info(file, *json),
        Command::Print { file, limit } => print(file, *limit),
        Command::Convert {
            from,
            to,
            from_format,
            to_format,
        } => convert(from, to, *from_format, *to_format),
    }
}

fn open(path: &Path) -> Result<BufReader<File>, Failure> {
    let file = File::open(path);
    let file =
        file.map_err(|error| Failure::new(format!("cannot open {}", path.display()), error))?;
    Ok(BufReader::with_capacity(256 << 10, file))
}

fn reader(path: &Path) -> Result<Reader<BufReader<File>>, Failure> {
    Reader::new(open(path)?).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &evendb_trace::Error) -> Failure {
    let message = format!("{}: {error}", path.display());
    match error.kind() {
        evendb_trace::ErrorKind::Damaged => Failure::Corrupt(message),
        _ => Failure::Message(message),
    }
}

/// What a trace has of a kind in a keyspace.
#[derive(Default)]
struct Counts {
    operations: u64,
    found: u64,
    absent: u64,
    failed: u64,
    key_bytes: u64,
    value_bytes: u64,
    records: u64,
}

impl Counts {
    fn add(&mut self, operation: &Operation) {
        self.operations += 1;
        match operation.outcome {
            Outcome::Present { len, .. } => {
                self.found += 1;
                self.value_bytes += len.unwrap_or_default();
            }
            Outcome::Absent => self.absent += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Unknown | Outcome::Done => {}
        }
        self.key_bytes += operation.key.len() as u64;
        self.value_bytes += operation.value_len.unwrap_or_default();
        self.records += operation.count.unwrap_or_default();
    }
}

fn info(path: &Path, as_json: bool) -> Result<Success, Failure> {
    let mut reader = reader(path)?;
    let mut counts: BTreeMap<(u32, Kind), Counts> = BTreeMap::new();
    let (mut operations, mut last_nanos) = (0_u64, 0);
    while let Some(operation) = reader.next().map_err(|error| failed(path, &error))? {
        operations += 1;
        last_nanos = last_nanos.max(operation.start_nanos);
        let key = (operation.keyspace, operation.kind);
        counts.entry(key).or_default().add(operation);
    }
    let (losses, end) = (reader.losses(), reader.end());
    let name = |number: u32| {
        let known = reader.keyspaces().get(&number).cloned();
        known.unwrap_or_else(|| format!("#{number}"))
    };
    let duration = end.map_or(last_nanos, |end| end.duration_nanos);
    let mut out = BufWriter::new(io::stdout());
    if as_json {
        let rows = counts.iter().map(|((keyspace, kind), of)| {
            json!({
                "keyspace": name(*keyspace), "kind": kind.name(), "operations": of.operations, "found": of.found,
                "absent": of.absent, "failed": of.failed, "key_bytes": of.key_bytes, "value_bytes": of.value_bytes,
                "records": of.records,
            })
        });
        let value = json!({
            "source": reader.header().source, "one_key_in": reader.header().one_in, "operations": operations,
            "seconds": duration as f64 / 1e9, "file_bytes": reader.bytes_read(), "is_whole": losses.is_nothing(),
            "dropped_full": end.map(|end| end.dropped_full), "dropped_behind": end.map(|end| end.dropped_behind),
            "skipped_bytes": losses.skipped_bytes, "missing_frames": losses.missing_frames, "is_torn": losses.is_torn,
            "missing_operations": losses.missing_operations, "counts": rows.collect::<Vec<_>>(),
        });
        writeln!(out, "{value:#}")?;
    } else {
        let header = reader.header();
        writeln!(out, "source      {}", header.source)?;
        writeln!(out, "sample      one key in {}", grouped(header.one_in))?;
        writeln!(out, "operations  {}", grouped(operations))?;
        writeln!(out, "duration    {:.3} s", duration as f64 / 1e9)?;
        writeln!(out, "bytes       {}", bytes(reader.bytes_read()))?;
        if let Some(end) = end.filter(|end| end.dropped_full + end.dropped_behind > 0) {
            writeln!(
                out,
                "left out    {} when the file was full, {} that came too fast",
                grouped(end.dropped_full),
                grouped(end.dropped_behind)
            )?;
        }
        writeln!(
            out,
            "\n{:<20}{:<16}{:>14}{:>14}{:>12}{:>10}{:>14}",
            "keyspace", "kind", "operations", "found", "absent", "failed", "records"
        )?;
        for ((keyspace, kind), of) in &counts {
            writeln!(
                out,
                "{:<20}{:<16}{:>14}{:>14}{:>12}{:>10}{:>14}",
                name(*keyspace),
                kind.name(),
                grouped(of.operations),
                grouped(of.found),
                grouped(of.absent),
                grouped(of.failed),
                grouped(of.records)
            )?;
        }
    }
    out.flush()?;
    match losses.is_nothing() {
        true => Ok(Success::Done),
        false => {
            output::complain(&format!("evendb: the trace is not whole: {losses:?}"));
            Ok(Success::Corrupt)
        }
    }
}

fn print(path: &Path, limit: u64) -> Result<Success, Failure> {
    let mut reader = reader(path)?;
    let mut out = BufWriter::new(io::stdout());
    let mut left = limit;
    while left > 0 {
        let Some(operation) = reader.next().map_err(|error| failed(path, &error))? else {
            break;
        };
        left -= 1;
        print_one(&mut out, operation)?;
    }
    out.flush()?;
    Ok(Success::Done)
}

fn print_one(out: &mut impl Write, operation: &Operation) -> io::Result<()> {
    let start = Duration::from_nanos(operation.start_nanos);
    write!(
        out,
        "{:.9} t{} k{} {} \"{}\"",
        start.as_secs_f64(),
        operation.thread,
        operation.keyspace,
        operation.kind.name(),
        operation.key.escape_ascii()
    )?;
    if let Some(end) = &operation.end_key {
        write!(out, "..\"{}\"", end.escape_ascii())?;
    }
    let numbers = [
        ("group", Some(operation.group).filter(|group| *group != 0)),
        ("value_bytes", operation.value_len),
        ("ttl_ms", operation.ttl_millis),
        ("limit", operation.limit),
        ("count", operation.count),
        ("took_ns", operation.latency_nanos),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            write!(out, " {name}={number}")?;
        }
    }
    let flags = [
        ("reverse", operation.reverse),
        ("keys_only", operation.keys_only),
        ("older_moment", operation.older_moment),
    ];
    for (name, _) in flags.iter().filter(|(_, is_set)| *is_set) {
        write!(out, " {name}")?;
    }
    match operation.outcome {
        Outcome::Unknown => writeln!(out),
        Outcome::Done => writeln!(out, " done"),
        Outcome::Absent => writeln!(out, " absent"),
        Outcome::Present { len: Some(len), .. } => writeln!(out, " found={len}"),
        Outcome::Present { .. } => writeln!(out, " found"),
        Outcome::Failed(failure) => writeln!(out, " failed={failure:?}"),
    }
}

/// Where operations go.
enum Target {
    Own(Box<Writer<BufWriter<File>>>),
    Text {
        to: BufWriter<File>,
        begin_micros: u64,
        left_out: u64,
    },
}

impl Target {
    fn add(&mut self, operation: &Operation) -> evendb_trace::Result<()> {
        match self {
            Target::Own(writer) => writer.add(operation),
            Target::Text {
                to,
                begin_micros,
                left_out,
            } => {
                let written = formats::write_rocksdb_text(to, operation, *begin_micros)?;
                *left_out += u64::from(!written);
                Ok(())
            }
        }
    }
}

fn convert(
    from: &Path,
    to: &Path,
    from_format: Option<FromFormat>,
    to_format: ToFormat,
) -> Result<Success, Failure> {
    let mut source = open(from)?;
    let format = match from_format {
        Some(format) => format,
        None => guess(&mut source)?,
    };
    let own = match format {
        FromFormat::Evendb => Some(reader(from)?),
        _ => None,
    };
    let file = OpenOptions::new().write(true).create_new(true).open(to);
    let file =
        file.map_err(|error| Failure::new(format!("cannot make {}", to.display()), error))?;
    let mut header = own
        .as_ref()
        .map_or_else(Header::default, |own| own.header().clone());
    header.one_in = header.one_in.max(1);
    header.has_values |= format == FromFormat::Rocksdb;
    if own.is_none() {
        header.source = format!("{format:?}");
    }
    let file = BufWriter::with_capacity(256 << 10, file);
    let mut target = match to_format {
        ToFormat::Evendb => {
            let writer = Writer::new(file, &header).map_err(|error| failed(to, &error))?;
            Target::Own(Box::new(writer))
        }
        ToFormat::RocksdbText => Target::Text {
            to: file,
            begin_micros: header.wall_clock_millis * 1000,
            left_out: 0,
        },
    };
    let imported = match own {
        Some(own) => copy(own, &mut target),
        None => {
            let format = foreign(format);
            formats::read(format, &mut source, &mut |operation| target.add(operation))
        }
    };
    let imported = imported.map_err(|error| failed(from, &error))?;
    finish(target, to)?;
    tell(&imported)
}

/// Copies a trace of the same format, with the names that come later.
fn copy(mut own: Reader<BufReader<File>>, target: &mut Target) -> evendb_trace::Result<Imported> {
    let mut imported = Imported::default();
    let mut named = own.keyspaces().clone();
    while let Some(operation) = own.next()? {
        target.add(operation)?;
        imported.operations += 1;
        if own.keyspaces().len() > named.len() {
            for (number, name) in own.keyspaces() {
                if let (None, Target::Own(writer)) = (named.get(number), &mut *target) {
                    writer.name_keyspace(*number, name)?;
                }
            }
            named = own.keyspaces().clone();
        }
    }
    if let (Some(end), Target::Own(writer)) = (own.end(), target) {
        writer.note_dropped(end.dropped_full, end.dropped_behind);
    }
    if !own.losses().is_nothing() {
        imported.bad = own.losses().damaged_places.max(1);
        imported.first_bad = Some(format!("{:?}", own.losses()));
    }
    Ok(imported)
}

fn finish(target: Target, path: &Path) -> Result<(), Failure> {
    match target {
        Target::Own(writer) => {
            writer.finish().map_err(|error| failed(path, &error))?;
        }
        Target::Text {
            mut to, left_out, ..
        } => {
            to.flush()?;
            if left_out > 0 {
                output::complain(&format!(
                    "evendb: {} operations are none of RocksDB's form, and were left out",
                    grouped(left_out)
                ));
            }
        }
    }
    Ok(())
}

fn tell(imported: &Imported) -> Result<Success, Failure> {
    writeln!(io::stdout(), "{} operations", grouped(imported.operations))?;
    if imported.is_torn {
        output::complain("evendb: the source ends in the middle of a record");
    }
    match &imported.first_bad {
        None => Ok(Success::Done),
        Some(first) => {
            output::complain(&format!(
                "evendb: {} lines or records are bad; the first: {first}",
                grouped(imported.bad)
            ));
            Ok(Success::BadLines)
        }
    }
}

fn foreign(format: FromFormat) -> Format {
    match format {
        FromFormat::Evendb | FromFormat::Rocksdb => Format::RocksDb,
        FromFormat::RocksdbText => Format::RocksDbText,
        FromFormat::Twitter => Format::TwitterCsv,
        FromFormat::Ycsb => Format::YcsbText,
    }
}

/// The format by the first bytes.
fn guess(source: &mut impl BufRead) -> Result<FromFormat, Failure> {
    let known = match formats::detect(source.fill_buf()?) {
        Some(Detected::EvenDb) => Some(FromFormat::Evendb),
        Some(Detected::Other(Format::RocksDb)) => Some(FromFormat::Rocksdb),
        Some(Detected::Other(Format::RocksDbText)) => Some(FromFormat::RocksdbText),
        _ => None,
    };
    let message = "the format cannot be told by the first bytes: name it by --from-format";
    known.ok_or_else(|| Failure::Usage(message.to_owned()))
}
