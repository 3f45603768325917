//! `evendb trace`: shows what is in a trace, and converts traces between formats.
//!
//! The code here holds one operation at a time, except for keys that are hidden in order
//! ([`convert`]).

mod compare;
mod convert;
mod hiding;
mod part;
mod target;
mod told;

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;
use evendb_lab::readable::{bytes, grouped, rfc_3339};
use evendb_trace::{
    Compressible, Kind, Losses, Operation, Outcome, Reader, Times, formats, packed,
};
use serde_json::{Value, json};

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
        /// At most this number of operations
        #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
        limit: u64,
    },
    /// How one trace differs from another: kinds, keyspaces, rates, sizes, hot keys, misses
    ///
    /// Each part of the load has a distance from 0 (alike) to 1 (nothing in common); the first line
    /// names the parts that differ by 0.05 or more. Before and after a release, shard against
    /// shard. Two parts of one trace (convert --from, --until) show how large chance is.
    Compare {
        #[command(flatten)]
        compare: compare::CompareArguments,
    },
    /// Reads one format and writes another; takes a part; makes one trace of several; hides keys
    #[command(after_help = "Examples:
  evendb trace convert query.trace app.trace
  evendb trace convert app.trace noon.trace --from 2026-01-31T12:00:00Z --until 2026-01-31T13:00:00Z
  evendb trace convert app.trace users.trace --keyspace users --kind get,put --prefix user:
  evendb trace convert shard-1.trace shard-2.trace all.trace
  evendb trace convert app.trace query.trace --to-format rocksdb
  evendb trace convert joined.csv app.trace --gaps-max 60s")]
    Convert {
        #[command(flatten)]
        convert: convert::ConvertArguments,
    },
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    match &arguments.command {
        Command::Info { file, json } => info(file, *json),
        Command::Print { file, limit } => print(file, *limit),
        Command::Compare { compare } => compare::run(compare),
        Command::Convert { convert } => convert::run(convert),
    }
}

fn open(path: &Path) -> Result<BufReader<File>, Failure> {
    let file = File::open(path);
    let file =
        file.map_err(|error| Failure::new(format!("cannot open {}", path.display()), error))?;
    Ok(BufReader::with_capacity(256 << 10, file))
}

fn reader(path: &Path) -> Result<Reader<BufReader<File>>, Failure> {
    formats::open_own(open(path)?).map_err(|error| match failed(path, &error) {
        Failure::Message(message) => Failure::Message(with_names(&message, path)),
        other => other,
    })
}

/// A message about the command that converts a file, with the names of this file and of the result.
fn with_names(message: &str, path: &Path) -> String {
    let to = path.with_extension("trace");
    let to = if to == path {
        path.with_extension("evendb.trace")
    } else {
        to
    };
    let quoted = |path: &Path| {
        let text = path.display().to_string();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(&byte);
        match !text.is_empty() && text.bytes().all(is_plain) {
            true => text,
            false => format!("'{}'", text.replace('\'', "'\\''")),
        }
    };
    let command = format!("trace convert {} {}`", quoted(path), quoted(&to));
    message.replace("trace convert FROM TO`", &command)
}

/// How far the values of a trace compress.
pub(super) fn compressible(path: &Path) -> Result<Compressible, Failure> {
    let mut reader = reader(path)?;
    let mut compressible = Compressible::default();
    while let Some(operation) = reader.next().map_err(|error| failed(path, &error))? {
        if let Some(value) = &operation.value {
            compressible.add(value);
        }
        if compressible.bytes() >= Compressible::BYTES_MAX {
            break;
        }
    }
    Ok(compressible)
}

fn failed(path: &Path, error: &evendb_trace::Error) -> Failure {
    let message = format!("{}: {error}", path.display());
    // A packed file that does not unpack ends here.
    let system = error.source().and_then(|source| source.downcast_ref());
    let is_damaged = system.is_some_and(packed::is_damage);
    match error.kind() {
        evendb_trace::ErrorKind::Damaged => Failure::Corrupt(message),
        _ if is_damaged => Failure::Corrupt(message),
        _ => Failure::Message(message),
    }
}

/// The counts of a kind in a keyspace. A count that the trace tells for no operation is `None`.
#[derive(Default)]
struct Counts {
    operations: u64,
    found: Option<u64>,
    absent: Option<u64>,
    failed: Option<u64>,
    key_bytes: u64,
    value_bytes: Option<u64>,
    records: Option<u64>,
}

impl Counts {
    fn add(&mut self, operation: &Operation) {
        self.operations += 1;
        let looks = operation.kind.is_point_read() || operation.kind == Kind::Pop;
        let (mut found, mut absent, mut failed, mut len) = (0, 0, 0, operation.value_len);
        match operation.outcome {
            Outcome::Present { len: found_len, .. } => (found, len) = (1, found_len),
            Outcome::Absent => absent = 1,
            Outcome::Failed(_) => failed = 1,
            Outcome::Unknown | Outcome::Done => {}
        }
        let is_known = operation.outcome != Outcome::Unknown;
        add_to(&mut self.found, Some(found).filter(|_| looks && is_known));
        add_to(&mut self.absent, Some(absent).filter(|_| looks && is_known));
        add_to(&mut self.failed, Some(failed).filter(|_| is_known));
        self.key_bytes = self.key_bytes.saturating_add(operation.key.len() as u64);
        add_to(&mut self.value_bytes, len);
        add_to(&mut self.records, operation.count);
    }
}

/// A trace may claim any number: a sum of absurd ones is the highest possible one.
fn add_to(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or_default().saturating_add(more));
    }
}

/// A count for people: `unknown` if the trace does not tell it, and a dash if such a kind has
/// nothing to tell.
fn shown(count: Option<u64>, has_it: bool) -> String {
    match (count, has_it) {
        (Some(count), _) => grouped(count),
        (None, true) => "unknown".to_owned(),
        (None, false) => "-".to_owned(),
    }
}

/// Reads a whole trace, and tells what is in it.
fn info(path: &Path, as_json: bool) -> Result<Success, Failure> {
    let read = WholeTrace::read(path)?;
    let mut out = BufWriter::new(output::out());
    match as_json {
        true => writeln!(out, "{:#}", read.json())?,
        false => read.tell(&mut out)?,
    }
    out.flush()?;
    Ok(told(read.reader.losses()))
}

/// A trace that has been read to its end.
struct WholeTrace {
    reader: Reader<BufReader<File>>,
    operations: u64,
    counts: BTreeMap<(u32, Kind), Counts>,
    /// When the last operation began: the duration, if the trace has no end.
    last_nanos: u64,
    compressible: Compressible,
}

impl WholeTrace {
    fn read(path: &Path) -> Result<Self, Failure> {
        let mut read = WholeTrace {
            reader: reader(path)?,
            operations: 0,
            counts: BTreeMap::new(),
            last_nanos: 0,
            compressible: Compressible::default(),
        };
        let failed = |error: evendb_trace::Error| failed(path, &error);
        while let Some(operation) = read.reader.next().map_err(failed)? {
            read.operations += 1;
            read.last_nanos = read.last_nanos.max(operation.start_nanos);
            let key = (operation.keyspace, operation.kind);
            read.counts.entry(key).or_default().add(operation);
            if let Some(value) = &operation.value {
                read.compressible.add(value);
            }
        }
        Ok(read)
    }

    fn keyspace(&self, number: u32) -> String {
        let known = self.reader.keyspaces().get(&number).cloned();
        known.unwrap_or_else(|| format!("#{number}"))
    }

    fn seconds(&self) -> f64 {
        let end = self.reader.end();
        end.map_or(self.last_nanos, |end| end.duration_nanos) as f64 / 1e9
    }

    /// The word for how far times can be believed, and what it means.
    fn times(&self) -> (&'static str, &'static str) {
        match self.reader.header().times {
            Times::Seconds => (
                "seconds",
                "whole seconds; operations of each were spread evenly over it",
            ),
            Times::Order => ("order", "none; operations are in their order"),
            _ => ("exact", "as they were taken"),
        }
    }

    fn json(&self) -> Value {
        let rows = self.counts.iter().map(|((keyspace, kind), of)| {
            json!({
                "keyspace": self.keyspace(*keyspace), "kind": kind.name(),
                "operations": of.operations, "found": of.found, "absent": of.absent,
                "failed": of.failed, "key_bytes": of.key_bytes, "value_bytes": of.value_bytes,
                "records": of.records,
            })
        });
        let (header, losses, end) = (
            self.reader.header(),
            self.reader.losses(),
            self.reader.end(),
        );
        json!({
            "source": header.source, "one_key_in": header.one_in, "operations": self.operations,
            "seconds": self.seconds(), "file_bytes": self.reader.bytes_read(),
            "is_whole": losses.is_nothing(), "dropped_full": end.map(|end| end.dropped_full),
            "dropped_behind": end.map(|end| end.dropped_behind),
            "skipped_bytes": losses.skipped_bytes, "missing_frames": losses.missing_frames,
            "is_torn": losses.is_torn, "missing_operations": losses.missing_operations,
            "times": self.times().0,
            "wall_clock_millis": Some(header.wall_clock_millis).filter(|millis| *millis > 0),
            "compressed_ratio": self.compressible.ratio(),
            "repeated_frames": losses.repeated_frames, "lost": losses.to_string(),
            "counts": rows.collect::<Vec<_>>(),
        })
    }

    /// Tells people what is in the trace.
    fn tell(&self, out: &mut impl Write) -> io::Result<()> {
        let header = self.reader.header();
        let source = output::printable(&header.source);
        writeln!(out, "source      {source}")?;
        writeln!(out, "sample      one key in {}", grouped(header.one_in))?;
        writeln!(out, "operations  {}", grouped(self.operations))?;
        writeln!(out, "duration    {:.3} s", self.seconds())?;
        writeln!(out, "bytes       {}", bytes(self.reader.bytes_read()))?;
        if header.wall_clock_millis > 0 {
            writeln!(
                out,
                "began       {}",
                rfc_3339(header.wall_clock_millis / 1000)
            )?;
        }
        if header.times != Times::Exact {
            writeln!(out, "times       {}", self.times().1)?;
        }
        if let Some(ratio) = self.compressible.ratio() {
            let percent = 100.0 * ratio;
            writeln!(
                out,
                "values      compress to {percent:.0} % (LZ4, blocks of 16 KiB)"
            )?;
        }
        let end = self.reader.end();
        if let Some(end) = end.filter(|end| end.dropped_full > 0 || end.dropped_behind > 0) {
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
        for ((keyspace, kind), of) in &self.counts {
            let looks = kind.is_point_read() || *kind == Kind::Pop;
            writeln!(
                out,
                "{:<20}{:<16}{:>14}{:>14}{:>12}{:>10}{:>14}",
                output::printable(&self.keyspace(*keyspace)),
                kind.name(),
                grouped(of.operations),
                shown(of.found, looks),
                shown(of.absent, looks),
                shown(of.failed, true),
                shown(of.records, *kind == Kind::Scan)
            )?;
        }
        Ok(())
    }
}

/// Says whether everything that was recorded has been read.
fn told(losses: Losses) -> Success {
    match losses.is_nothing() {
        true => Success::Done,
        false => {
            output::complain(&format!("evendb: the trace is not whole: {losses}"));
            Success::Corrupt
        }
    }
}

fn print(path: &Path, limit: u64) -> Result<Success, Failure> {
    let mut reader = reader(path)?;
    let mut out = BufWriter::new(output::out());
    let mut left = limit;
    while left > 0 {
        let Some(operation) = reader.next().map_err(|error| failed(path, &error))? else {
            out.flush()?;
            return Ok(told(reader.losses()));
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
