//! `evendb trace convert`: a trace of one format as a trace of another, with its keys hidden or
//! not.
//!
//! Operations pass one at a time. Keys that are hidden in order need two passes and all keys in
//! memory: see `evendb_trace::hidden`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use evendb_lab::readable::grouped;
use evendb_trace::formats::{self, DETECT_BYTES, Format, Imported};
use evendb_trace::hidden::{HashedKeys, KeyGatherer, OrderedKeys, hidden_name, hide_names};
use evendb_trace::packed::{peek, unpacked};
use evendb_trace::{Header, Operation, Reader, Writer};

use super::{failed, open};
use crate::failure::{Failure, Success};
use crate::key_file::read_secret;
use crate::output;

/// Keys that are hidden in order may take this number of bytes, and with their replacements twice
/// that.
const KEYS_BYTES_MAX: usize = 2 << 30;

#[derive(clap::Args)]
pub(super) struct ConvertArguments {
    /// The trace to read
    from: PathBuf,
    /// The file to write, which must not exist
    to: PathBuf,
    /// The format to read: evendb, rocksdb (0.1 or 0.2), rocksdb-text, twitter, meta (CacheLib's
    /// kvcache) or ycsb; by default the one that the file begins with
    #[arg(long)]
    from_format: Option<Format>,
    /// The format to write
    #[arg(long, value_enum, default_value = "evendb")]
    to_format: ToFormat,
    /// Replace each key by another one, and leave values and names out
    #[arg(long, value_enum)]
    hide_keys: Option<HiddenForm>,
    /// For hashed keys: a file of 16 bytes or 32 hexadecimal digits, so that several traces have
    /// the same hidden keys; by default random, and forgotten
    #[arg(long, value_name = "PATH", requires = "hide_keys")]
    secret_file: Option<PathBuf>,
    /// Names of keyspaces by their numbers in the source, as 0=default,1=users. RocksDB's traces
    /// have numbers alone, and a column family without a name here is called cf- and its number
    #[arg(long, value_name = "NUMBER=NAME,...", value_delimiter = ',', value_parser = keyspace_name)]
    keyspace_names: Vec<(u32, String)>,
}

fn keyspace_name(text: &str) -> Result<(u32, String), String> {
    let named = text.split_once('=').and_then(|(number, name)| {
        let number = number.trim().parse().ok()?;
        (!name.is_empty()).then(|| (number, name.to_owned()))
    });
    named.ok_or_else(|| "a number, =, and a name".to_owned())
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum ToFormat {
    /// EvenDB's own
    Evendb,
    /// RocksDB's human-readable form
    RocksdbText,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum HiddenForm {
    /// Keyed hashes: equal keys stay equal; order and ends of ranges are lost
    Hashed,
    /// Order, common prefixes and lengths stay; the bytes are lost. Keys without gaps can be
    /// guessed
    Ordered,
}

/// How keys are hidden, if they are.
enum Hiding {
    No,
    Hashed(HashedKeys),
    Ordered(OrderedKeys),
}

impl Hiding {
    fn of(arguments: &ConvertArguments, format: Format) -> Result<Hiding, Failure> {
        match (arguments.hide_keys, &arguments.secret_file) {
            (None, _) => Ok(Hiding::No),
            (Some(HiddenForm::Ordered), Some(_)) => Err(Failure::Usage(
                "keys that are hidden in order have no secret".to_owned(),
            )),
            (Some(HiddenForm::Hashed), path) => {
                let secret = path.as_deref().map(secret_in).transpose()?;
                let secret = secret.map_or_else(random_secret, Ok)?;
                Ok(Hiding::Hashed(HashedKeys::new(secret)))
            }
            (Some(HiddenForm::Ordered), None) => {
                let mut gatherer = KeyGatherer::new(KEYS_BYTES_MAX);
                let from = &arguments.from;
                let (mut source, _) = source(from)?;
                let read = formats::read(format, &mut *source, &mut |one| gatherer.add(one));
                read.map_err(|error| failed(from, &error))?;
                Ok(Hiding::Ordered(gatherer.finish()))
            }
        }
    }

    fn hide(&self, operation: &mut Operation) -> evendb_trace::Result<()> {
        match self {
            Hiding::No => Ok(()),
            Hiding::Hashed(keys) => {
                keys.hide(operation);
                Ok(())
            }
            Hiding::Ordered(keys) => keys.hide(operation),
        }
    }

    fn is_on(&self) -> bool {
        !matches!(self, Hiding::No)
    }
}

/// The secret key in a file. The text of an error shows nothing of the file.
fn secret_in(path: &Path) -> Result<[u64; 2], Failure> {
    let bytes = read_secret(path);
    let bytes =
        bytes.map_err(|error| Failure::new(format!("cannot read {}", path.display()), error))?;
    let digits = || {
        let digits = std::str::from_utf8(bytes.trim_ascii()).ok()?;
        let is_hex = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| u128::from_str_radix(digits, 16).ok())?
    };
    let raw = <[u8; 16]>::try_from(&bytes[..]).map(u128::from_le_bytes);
    let number = raw.ok().or_else(digits).ok_or_else(|| {
        let path = path.display();
        Failure::Message(format!(
            "{path}: a secret is 16 bytes, or 32 hexadecimal digits"
        ))
    })?;
    Ok([(number >> 64) as u64, number as u64])
}

/// From the randomness of the operating system.
fn random_secret() -> Result<[u64; 2], Failure> {
    let number =
        || getrandom::u64().map_err(|error| Failure::new("cannot get random numbers", error));
    Ok([number()?, number()?])
}

/// Where operations go.
struct Target {
    form: Form,
    /// Writing has failed.
    has_failed: bool,
}

enum Form {
    Own(Box<Writer<BufWriter<File>>>),
    Text {
        to: BufWriter<File>,
        begin_micros: u64,
        left_out: u64,
    },
}

impl Target {
    /// Names a keyspace, if the form has names.
    fn name_keyspace(&mut self, number: u32, name: &str) -> evendb_trace::Result<()> {
        let named = match &mut self.form {
            Form::Own(writer) => writer.name_keyspace(number, name),
            Form::Text { .. } => Ok(()),
        };
        self.noted(named)
    }

    fn add(&mut self, operation: &Operation) -> evendb_trace::Result<()> {
        let added = match &mut self.form {
            Form::Own(writer) => writer.add(operation),
            Form::Text {
                to,
                begin_micros,
                left_out,
            } => {
                let written = formats::write_rocksdb_text(to, operation, *begin_micros);
                written.map(|written| *left_out += u64::from(!written))
            }
        };
        self.noted(added)
    }

    fn noted(&mut self, done: evendb_trace::Result<()>) -> evendb_trace::Result<()> {
        let kind = done.as_ref().err().map(evendb_trace::Error::kind);
        self.has_failed |= kind == Some(evendb_trace::ErrorKind::Io);
        done
    }
}

/// A trace, unpacked if it is packed; and its beginning.
fn source(path: &Path) -> Result<(Box<dyn BufRead>, Vec<u8>), Failure> {
    let failed = |error: io::Error| Failure::new(format!("cannot read {}", path.display()), error);
    let (source, _) = unpacked(Box::new(open(path)?)).map_err(failed)?;
    // A packed file that does not unpack at all is damaged. It is not of an unknown format.
    peek(source, DETECT_BYTES).map_err(|error| super::failed(path, &error.into()))
}

/// A trace to convert.
enum Input {
    Own(Box<Reader<Box<dyn BufRead>>>),
    Foreign(Format, Box<dyn BufRead>),
}

impl Input {
    /// Opens the trace, in the format that was named, or in the one that it begins with.
    fn open(arguments: &ConvertArguments) -> Result<Input, Failure> {
        let from = &arguments.from;
        let (source, begin) = source(from)?;
        let Some(format) = arguments.from_format.or(formats::detect(&begin)) else {
            let message = format!(
                "{}: the format cannot be told by the first bytes: name it by --from-format",
                from.display()
            );
            return Err(Failure::Usage(message));
        };
        if format != Format::EvenDb {
            return Ok(Input::Foreign(format, source));
        }
        let own = formats::open_own(self::source(from)?.0);
        let own = own.map_err(|error| failed(from, &error))?;
        Ok(Input::Own(Box::new(own)))
    }

    fn format(&self) -> Format {
        match self {
            Input::Own(_) => Format::EvenDb,
            Input::Foreign(format, _) => *format,
        }
    }

    /// The header of the result, before names are given and hidden.
    fn header(&self) -> Header {
        match self {
            Input::Own(own) => own.header().clone(),
            Input::Foreign(format, _) => Header {
                one_in: 1,
                has_values: *format == Format::RocksDb,
                without_ends: *format == Format::RocksDbText,
                source: source_of(*format),
                ..Header::default()
            },
        }
    }
}

/// What becomes of keys and of the names of keyspaces.
struct Change {
    hiding: Hiding,
    /// Names that the command line gives.
    given: BTreeMap<u32, String>,
}

impl Change {
    fn of(arguments: &ConvertArguments, format: Format) -> Result<Change, Failure> {
        Ok(Change {
            hiding: Hiding::of(arguments, format)?,
            given: arguments.keyspace_names.iter().cloned().collect(),
        })
    }

    fn header(&self, mut header: Header) -> Header {
        header.keyspaces.extend(self.given.clone());
        if self.hiding.is_on() {
            header = hide_names(&header);
            header.without_ends |= matches!(self.hiding, Hiding::Hashed(_));
        }
        header
    }
}

/// Carries the command out.
pub(super) fn run(arguments: &ConvertArguments) -> Result<Success, Failure> {
    let (from, to) = (&arguments.from, &arguments.to);
    let input = Input::open(arguments)?;
    let format = input.format();
    let is_own = format == Format::EvenDb;
    let change = Change::of(arguments, format)?;
    let header = change.header(input.header());
    let file = made(to)?;
    let written = target(to, file, arguments.to_format, &header)
        .and_then(|target| convert(input, &change, &header, target, (from, to)));
    // The file is no trace yet, and would be in the way of the next try.
    let is_trace = written
        .as_ref()
        .is_ok_and(|imported| is_own || !is_unreadable(imported));
    if !is_trace {
        let _ = std::fs::remove_file(to);
    }
    let imported = written?;
    if !is_trace {
        output::complain(&format!(
            "evendb: nothing of {} can be read as the format {}, so {} was not written",
            from.display(),
            format.name(),
            to.display()
        ));
    }
    tell(&imported, is_own)
}

/// Passes all operations to the target, and ends it.
fn convert(
    input: Input,
    change: &Change,
    header: &Header,
    mut target: Target,
    (from, to): (&Path, &Path),
) -> Result<Imported, Failure> {
    let is_own = matches!(input, Input::Own(_));
    let imported = match input {
        Input::Own(own) => copy(*own, change, &mut target),
        Input::Foreign(format, mut source) => {
            import((format, &mut *source), &change.hiding, header, &mut target)
        }
    };
    let at = if target.has_failed { to } else { from };
    let imported = imported.map_err(|error| failed(at, &error))?;
    if let (false, Form::Own(writer)) = (is_own, &mut target.form) {
        // Bad lines of the source count as lost operations: the result is not whole either.
        writer.note_lost(imported.bad);
    }
    finish(target, to, imported.is_torn)?;
    Ok(imported)
}

/// Whether only bad lines or records came from a source: it does not have that format.
fn is_unreadable(imported: &Imported) -> bool {
    imported.operations == 0 && imported.bad > 0
}

/// Reads a trace of another format, and names each keyspace at its first operation.
fn import(
    (format, source): (Format, &mut dyn BufRead),
    hiding: &Hiding,
    header: &Header,
    target: &mut Target,
) -> evendb_trace::Result<Imported> {
    let mut named: BTreeSet<_> = header.keyspaces.keys().copied().collect();
    formats::read(format, source, &mut |operation| {
        let number = operation.keyspace;
        if has_keyspace(operation) && named.insert(number) {
            let name = match hiding.is_on() {
                true => hidden_name(number),
                false => format.keyspace_name(number),
            };
            target.name_keyspace(number, &name)?;
        }
        add(operation, hiding, target)
    })
}

/// The origin of a trace in its header.
fn source_of(format: Format) -> String {
    match format {
        Format::TwitterCsv | Format::MetaCsv => {
            format!("{} (times to the second)", format.name())
        }
        _ => format.name().to_owned(),
    }
}

/// Whether its keyspace has a meaning.
fn has_keyspace(operation: &Operation) -> bool {
    use evendb_trace::Kind::{Abort, BatchCommit, Begin, Commit, Other};
    !matches!(operation.kind, BatchCommit | Begin | Commit | Abort | Other)
}

/// Makes the file to write.
fn made(to: &Path) -> Result<File, Failure> {
    output::refuse_inside_database(to, "a trace")?;
    let file = OpenOptions::new().write(true).create_new(true).open(to);
    file.map_err(|error| Failure::new(format!("cannot make {}", to.display()), error))
}

fn target(to: &Path, file: File, format: ToFormat, header: &Header) -> Result<Target, Failure> {
    let file = BufWriter::with_capacity(256 << 10, file);
    let form = match format {
        ToFormat::Evendb => {
            let writer = Writer::new(file, header).map_err(|error| failed(to, &error))?;
            Form::Own(Box::new(writer))
        }
        ToFormat::RocksdbText => Form::Text {
            to: file,
            begin_micros: header.wall_clock_millis.saturating_mul(1000),
            left_out: 0,
        },
    };
    Ok(Target {
        form,
        has_failed: false,
    })
}

fn add(operation: &Operation, hiding: &Hiding, target: &mut Target) -> evendb_trace::Result<()> {
    if !hiding.is_on() {
        return target.add(operation);
    }
    let mut operation = operation.clone();
    hiding.hide(&mut operation)?;
    target.add(&operation)
}

/// Copies a trace of the same format, with names that come later.
fn copy(
    mut own: Reader<Box<dyn BufRead>>,
    Change { hiding, given }: &Change,
    target: &mut Target,
) -> evendb_trace::Result<Imported> {
    let mut imported = Imported::default();
    let mut named = own.keyspaces().clone();
    named.extend(given.clone());
    let mut known = own.keyspaces().len();
    while let Some(operation) = own.next()? {
        add(operation, hiding, target)?;
        imported.operations += 1;
        if own.keyspaces().len() != known {
            known = own.keyspaces().len();
            for (number, name) in own.keyspaces() {
                if named.contains_key(number) {
                    continue;
                }
                match hiding.is_on() {
                    true => target.name_keyspace(*number, &hidden_name(*number))?,
                    false => target.name_keyspace(*number, name)?,
                }
                named.insert(*number, name.clone());
            }
        }
    }
    let losses = own.losses();
    if let (Some(end), Form::Own(writer)) = (own.end(), &mut target.form) {
        writer.note_dropped(end.dropped_full, end.dropped_behind);
        // If the trace is not whole, its copy is not either.
        writer.note_lost(losses.missing_operations);
    }
    imported.is_torn = losses.has_no_end;
    if !losses.is_nothing() {
        imported.bad = losses.damaged_places.max(1);
        imported.first_bad = Some(losses.to_string());
    }
    Ok(imported)
}

/// Ends the written trace, if its source has an end.
fn finish(target: Target, path: &Path, is_torn: bool) -> Result<(), Failure> {
    match target.form {
        Form::Own(writer) if is_torn => {
            let written = writer.finish_without_end();
            written.map_err(|error| failed(path, &error))?;
        }
        Form::Own(writer) => {
            writer.finish().map_err(|error| failed(path, &error))?;
        }
        Form::Text {
            mut to, left_out, ..
        } => {
            let written = to.flush();
            written
                .map_err(|error| Failure::new(format!("cannot write {}", path.display()), error))?;
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

fn tell(imported: &Imported, is_own: bool) -> Result<Success, Failure> {
    writeln!(output::out(), "{} operations", grouped(imported.operations))?;
    if imported.is_torn && !is_own {
        let message = "evendb: the source ends in the middle of a record, or has no end";
        output::complain(message);
    }
    if imported.spread {
        output::complain(
            "evendb: times are of whole seconds: the operations of each second were spread evenly over it",
        );
    }
    if imported.counted > 0 {
        output::complain(&format!(
            "evendb: {} operations are of lines that stand for several: their order within a line is made up; of {} of them some found something and some did not, and those that did come first",
            grouped(imported.counted),
            grouped(imported.mixed)
        ));
    }
    if !imported.as_merges.is_empty() {
        let each = imported.as_merges.iter();
        let each: Vec<_> = each
            .map(|(name, count)| format!("{name} {}", grouped(*count)))
            .collect();
        output::complain(&format!(
            "evendb: read as merges: {}; a replay leaves them out unless --merges says what they do",
            each.join(", ")
        ));
    }
    if imported.times_back > 0 {
        output::complain(&format!(
            "evendb: {} operations are earlier than one in front of them",
            grouped(imported.times_back)
        ));
    }
    match &imported.first_bad {
        None if imported.is_torn => Ok(Success::Corrupt),
        None => Ok(Success::Done),
        Some(losses) if is_own => {
            output::complain(&format!("evendb: the trace is not whole: {losses}"));
            Ok(Success::Corrupt)
        }
        Some(first) => {
            output::complain(&format!(
                "evendb: {} lines or records are bad; the first: {first}",
                grouped(imported.bad)
            ));
            Ok(Success::BadLines)
        }
    }
}
