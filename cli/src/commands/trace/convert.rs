//! `evendb trace convert`: a trace of one format as a trace of another; a part of it; several as
//! one; with its keys hidden or not.
//!
//! ```text
//!   one source -------------------------------> mend times -> cut -> hide -> target
//!   several --> each as EvenDB's --> merged ---^
//!               (a temporary file, if foreign)
//! ```
//! Operations pass one at a time. Keys that are hidden in order need two passes and all keys in
//! memory: see `evendb_trace::hidden`. Traces that are merged, or written in RocksDB's form, are
//! put in the order of time, in bounded memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use evendb_lab::readable::grouped;
use evendb_trace::formats::{self, DETECT_BYTES, Format, Imported, ReadSizes};
use evendb_trace::hidden::{KeyGatherer, hidden_name, hide_names};
use evendb_trace::packed::{peek, unpacked};
use evendb_trace::{Cut, Header, InOrder, Losses, MendedTimes, Merged, Operation, Reader, Times};
use tempfile::TempPath;

use super::hiding::{HiddenForm, Hiding};
use super::part::PartArguments;
use super::target::{Target, ToFormat, made};
use super::told::{Found, add_up, tell};
use super::{failed, open};
use crate::failure::{Failure, Success};
use crate::output;

/// Operations that wait to be put in the order of time may take this number of bytes.
const ORDER_BYTES_MAX: usize = 256 << 20;

#[derive(clap::Args)]
pub(super) struct ConvertArguments {
    /// The trace to read. Several become one, in the order of time: by their wall clocks if all
    /// know it, else as if all began at once
    #[arg(value_name = "FROM", required = true)]
    sources: Vec<PathBuf>,
    /// The file to write, which must not exist
    #[arg(value_name = "TO")]
    to: PathBuf,
    /// The format to read: evendb, rocksdb (0.1 or 0.2), rocksdb-text, twitter, meta (CacheLib's
    /// kvcache) or ycsb; by default the one that the file begins with
    #[arg(long)]
    from_format: Option<Format>,
    /// The format to write
    #[arg(long, value_enum, default_value = "evendb")]
    to_format: ToFormat,
    #[command(flatten)]
    part: PartArguments,
    /// For twitter and meta: what the size of a read says, if the trace does not count hits
    #[arg(long, value_enum)]
    read_sizes: Option<Sizes>,
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

/// What the size of a read says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Sizes {
    /// The size of the value that it found, and 0 that it found nothing: the convention of the
    /// keepers of these traces, and the default
    Found,
    /// Nothing: what reads found is not known
    Ignored,
}

fn keyspace_name(text: &str) -> Result<(u32, String), String> {
    let named = text.split_once('=').and_then(|(number, name)| {
        let number = number.trim().parse().ok()?;
        (!name.is_empty()).then(|| (number, name.to_owned()))
    });
    named.ok_or_else(|| "a number, =, and a name".to_owned())
}

/// A trace, unpacked if it is packed; and its beginning.
fn source(path: &Path) -> Result<(Box<dyn BufRead>, Vec<u8>), Failure> {
    let failed = |error: io::Error| Failure::new(format!("cannot read {}", path.display()), error);
    let (source, _) = unpacked(Box::new(open(path)?)).map_err(failed)?;
    // A packed file that does not unpack at all is damaged. It is not of an unknown format.
    peek(source, DETECT_BYTES).map_err(|error| super::failed(path, &error.into()))
}

/// The reader of a trace of EvenDB.
type Own = Reader<Box<dyn BufRead>>;

/// A trace to convert.
enum Input {
    Own(Box<Own>),
    Foreign(Box<Foreign>),
}

struct Foreign {
    format: Format,
    sizes: ReadSizes,
    source: Box<dyn BufRead>,
    header: Header,
}

impl Input {
    /// Opens a trace, in the format that was named, or in the one that it begins with.
    fn open(from: &Path, arguments: &ConvertArguments) -> Result<Input, Failure> {
        let (source, begin) = source(from)?;
        let Some(format) = arguments.from_format.or(formats::detect(&begin)) else {
            let message = format!(
                "{}: the format cannot be told by the first bytes: name it by --from-format",
                from.display()
            );
            return Err(Failure::Usage(message));
        };
        if format == Format::EvenDb {
            return Ok(Input::Own(Box::new(own(from)?)));
        }
        let header = Header {
            one_in: 1,
            wall_clock_millis: format.wall_clock_millis(&begin),
            has_values: format == Format::RocksDb,
            without_ends: format == Format::RocksDbText,
            times: format.times(&begin),
            source: source_of(format),
            ..Header::default()
        };
        let sizes = match arguments.read_sizes {
            Some(Sizes::Ignored) => ReadSizes::Ignored,
            Some(Sizes::Found) | None => ReadSizes::Found,
        };
        Ok(Input::Foreign(Box::new(Foreign {
            format,
            sizes,
            source,
            header,
        })))
    }

    fn format(&self) -> Format {
        match self {
            Input::Own(_) => Format::EvenDb,
            Input::Foreign(foreign) => foreign.format,
        }
    }
}

/// Opens a trace of EvenDB.
fn own(path: &Path) -> Result<Own, Failure> {
    let own = formats::open_own(self::source(path)?.0);
    own.map_err(|error| failed(path, &error))
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

/// What becomes of each operation.
struct Chain {
    mended: Option<MendedTimes>,
    cut: Cut,
    /// Names that the command line gives.
    given: BTreeMap<u32, String>,
    sink: Sink,
    /// Keyspaces whose names are written.
    named: BTreeSet<u32>,
}

/// Where operations go at the end.
enum Sink {
    /// To the result, with keys hidden or not.
    Target(Hiding, Target),
    /// Their keys are gathered, to be hidden in order by a second pass.
    Gather(KeyGatherer),
}

impl Chain {
    fn add(&mut self, operation: &Operation, keyspace: &str) -> evendb_trace::Result<()> {
        let mut changed;
        let mut operation = operation;
        if let Some(mended) = &mut self.mended {
            changed = operation.clone();
            changed.start_nanos = mended.of(operation.start_nanos);
            operation = &changed;
        }
        let sink = &mut self.sink;
        self.cut.take(operation, keyspace, &mut |one| match sink {
            Sink::Gather(gatherer) => gatherer.add(one),
            Sink::Target(hiding, target) if hiding.is_on() => {
                let mut hidden = one.clone();
                hiding.hide(&mut hidden)?;
                target.add(&hidden)
            }
            Sink::Target(_, target) => target.add(one),
        })
    }

    /// Names a keyspace in the result, once.
    fn name(&mut self, number: u32, name: &str) -> evendb_trace::Result<()> {
        match &mut self.sink {
            Sink::Target(hiding, target) if self.named.insert(number) => match hiding.is_on() {
                true => target.name_keyspace(number, &hidden_name(number)),
                false => target.name_keyspace(number, name),
            },
            _ => Ok(()),
        }
    }

    /// Notes for the end of the result: see [`Target::note`].
    fn note(&mut self, dropped: (u64, u64), lost: u64) {
        if let Sink::Target(_, target) = &mut self.sink {
            target.note(dropped, lost);
        }
    }

    /// A failure of reading these sources, or of writing the result.
    fn failed(&self, sources: &[PathBuf], to: &Path, error: &evendb_trace::Error) -> Failure {
        match &self.sink {
            Sink::Target(_, target) if target.has_failed => failed(to, error),
            _ => failed(Path::new(&names_of(sources)), error),
        }
    }
}

fn names_of(sources: &[PathBuf]) -> String {
    let names = sources.iter().map(|from| from.display().to_string());
    names.collect::<Vec<_>>().join(", ")
}

/// Carries the command out.
pub(super) fn run(arguments: &ConvertArguments) -> Result<Success, Failure> {
    let [from] = &arguments.sources[..] else {
        return merge(arguments);
    };
    let input = Input::open(from, arguments)?;
    let format = input.format();
    refuse_idle(arguments, &[format])?;
    let header = match &input {
        Input::Own(own) => own.header().clone(),
        Input::Foreign(foreign) => foreign.header.clone(),
    };
    let times = header.times;
    // A source that is a pipe can be read once.
    let mut first = Some(input);
    let converted = write(arguments, header, |chain| {
        let input = first
            .take()
            .map_or_else(|| Input::open(from, arguments), Ok)?;
        let passed = one(input, arguments.to_format, chain);
        passed.map_err(|error| chain.failed(&arguments.sources, &arguments.to, &error))
    });
    let (found, cut) = converted?;
    if is_unreadable(&found.imported) {
        output::complain(&format!(
            "evendb: nothing of {} can be read as the format {}, so {} was not written",
            from.display(),
            format.name(),
            arguments.to.display()
        ));
    }
    if times == Times::Order && format != Format::EvenDb {
        output::complain(
            "evendb: the source has no times: operations lie one behind the other in their order, and rates of this trace mean nothing",
        );
    }
    if arguments.read_sizes.is_none() && format.has_read_sizes() {
        output::complain(
            "evendb: the size of a read is taken for that of the value that it found, and 0 for a miss (--read-sizes)",
        );
    }
    tell(&found, &cut)
}

/// Passes the operations of one source on.
fn one(input: Input, to: ToFormat, chain: &mut Chain) -> evendb_trace::Result<Found> {
    let mut found = Found::default();
    match input {
        Input::Own(own) => {
            let mut own = match to {
                // A replay of RocksDB asks in the order of the file.
                ToFormat::Rocksdb => {
                    OwnSource::Ordered(Box::new(InOrder::new(*own, ORDER_BYTES_MAX)))
                }
                _ => OwnSource::File(own),
            };
            own.copy(chain, &mut found)?;
        }
        Input::Foreign(foreign) => {
            found.imported = import(*foreign, chain)?;
            // Bad lines of the source count as lost operations: the result is not whole either.
            chain.note((0, 0), found.imported.bad);
            found.is_torn = found.imported.is_torn;
        }
    }
    Ok(found)
}

/// Refuses options without an effect, by name.
fn refuse_idle(arguments: &ConvertArguments, formats: &[Format]) -> Result<(), Failure> {
    let has_sizes = formats.iter().any(|format| format.has_read_sizes());
    match arguments.read_sizes.is_some() && !has_sizes {
        true => Err(Failure::Usage(
            "--read-sizes has no effect: it is for the formats twitter and meta".to_owned(),
        )),
        false => Ok(()),
    }
}

/// Whether only bad lines or records came from a source: it does not have that format.
fn is_unreadable(imported: &Imported) -> bool {
    imported.operations == 0 && imported.bad > 0
}

/// Makes the file, has it filled, and ends it. A file that is no trace is removed: it would be in
/// the way of the next try. `fill` passes all operations on, and is called twice if keys are
/// gathered first.
fn write(
    arguments: &ConvertArguments,
    header: Header,
    mut fill: impl FnMut(&mut Chain) -> Result<Found, Failure>,
) -> Result<(Found, Cut), Failure> {
    let to = &arguments.to;
    let cut = arguments.part.cut(&header)?;
    let chain = |named, sink| Chain {
        mended: arguments.part.mended(),
        cut: cut.clone(),
        given: arguments.keyspace_names.iter().cloned().collect(),
        sink,
        named,
    };
    let secret = arguments.secret_file.as_deref();
    let hiding = Hiding::of((arguments.hide_keys, secret), |gatherer| {
        let mut gathering = chain(BTreeSet::new(), Sink::Gather(gatherer));
        fill(&mut gathering)?;
        match gathering.sink {
            Sink::Gather(gatherer) => Ok(gatherer),
            Sink::Target(..) => Err(Failure::Message("keys were not gathered".to_owned())),
        }
    })?;
    let mut header = PartArguments::header(&cut, header);
    header
        .keyspaces
        .extend(arguments.keyspace_names.iter().cloned());
    let named = header.keyspaces.keys().copied().collect();
    if hiding.is_on() {
        header = hide_names(&header);
        header.without_ends |= matches!(hiding, Hiding::Hashed(_));
    }
    let file = made(to)?;
    let filled = Target::new((to, file), arguments.to_format, &header).and_then(|target| {
        let mut chain = chain(named, Sink::Target(hiding, target));
        let found = fill(&mut chain)?;
        if let Some(mended) = &chain.mended {
            let (forward, back) = mended.jumps();
            output::complain(&format!(
                "evendb: jumps of the clock that were cut: {} forward, {} back",
                grouped(forward),
                grouped(back)
            ));
        }
        if let Sink::Target(_, target) = chain.sink {
            target.finish(to, found.is_torn)?;
        }
        Ok((found, chain.cut))
    });
    let is_trace = filled
        .as_ref()
        .is_ok_and(|(found, _)| !is_unreadable(&found.imported));
    if !is_trace {
        let _ = std::fs::remove_file(to);
    }
    filled
}

/// Reads a trace of another format, and names each keyspace at its first operation.
fn import(mut foreign: Foreign, chain: &mut Chain) -> evendb_trace::Result<Imported> {
    let Foreign { format, sizes, .. } = foreign;
    let mut names: BTreeMap<u32, String> = chain.given.clone();
    formats::read_with(format, sizes, &mut *foreign.source, &mut |operation| {
        let number = operation.keyspace;
        let name = names
            .entry(number)
            .or_insert_with(|| format.keyspace_name(number));
        if has_keyspace(operation) {
            chain.name(number, name)?;
        }
        chain.add(operation, name)
    })
}

/// Whether its keyspace has a meaning.
fn has_keyspace(operation: &Operation) -> bool {
    use evendb_trace::Kind::{Abort, BatchCommit, Begin, Commit, Other};
    !matches!(operation.kind, BatchCommit | Begin | Commit | Abort | Other)
}

/// Traces of EvenDB's format.
enum OwnSource {
    /// In the order of the file.
    File(Box<Own>),
    /// In the order of time.
    Ordered(Box<InOrder<Box<dyn BufRead>>>),
    /// Several, in the order of time; and the names in the header of their result.
    Merged(Box<Merged<Box<dyn BufRead>>>, BTreeMap<u32, String>),
}

impl OwnSource {
    /// Passes all operations on, with names that come later.
    fn copy(&mut self, chain: &mut Chain, found: &mut Found) -> evendb_trace::Result<()> {
        let mut names = match self {
            OwnSource::File(own) => own.header().keyspaces.clone(),
            OwnSource::Ordered(ordered) => ordered.reader().header().keyspaces.clone(),
            OwnSource::Merged(_, names) => names.clone(),
        };
        names.extend(chain.given.clone());
        loop {
            let next = match self {
                OwnSource::File(own) => own.next()?.cloned(),
                OwnSource::Ordered(ordered) => ordered.next().transpose()?,
                OwnSource::Merged(merged, _) => merged.next().transpose()?,
            };
            let Some(operation) = next else { break };
            for (number, name) in self.new_names(names.len()) {
                chain.name(number, &name)?;
                names.entry(number).or_insert(name);
            }
            let number = operation.keyspace;
            match names.get(&number) {
                Some(name) => chain.add(&operation, name)?,
                None => chain.add(&operation, &format!("#{number}"))?,
            }
        }
        for (losses, dropped) in self.losses() {
            // If a trace is not whole, its copy is not either.
            chain.note(dropped, losses.missing_operations);
            found.is_torn |= losses.has_no_end;
            if !losses.is_nothing() {
                let more = losses.to_string();
                let before = found.losses.take().map(|before| format!("{before}; "));
                found.losses = Some(before.unwrap_or_default() + &more);
            }
        }
        found.late = match self {
            OwnSource::File(_) => 0,
            OwnSource::Ordered(ordered) => ordered.late(),
            OwnSource::Merged(merged, _) => merged.late(),
        };
        Ok(())
    }

    /// Names that may be new, if more than this number are known now.
    fn new_names(&mut self, known: usize) -> BTreeMap<u32, String> {
        let all = match self {
            OwnSource::Merged(merged, _) => return merged.new_names(),
            OwnSource::File(own) => own.keyspaces(),
            OwnSource::Ordered(ordered) => ordered.reader().keyspaces(),
        };
        match all.len() > known {
            true => all.clone(),
            false => BTreeMap::new(),
        }
    }

    fn losses(&self) -> Vec<(Losses, (u64, u64))> {
        let of = |own: &Own| {
            let dropped = own.end().map(|end| (end.dropped_full, end.dropped_behind));
            vec![(own.losses(), dropped.unwrap_or_default())]
        };
        match self {
            OwnSource::File(own) => of(own),
            OwnSource::Ordered(ordered) => of(ordered.reader()),
            OwnSource::Merged(merged, _) => merged.losses().collect(),
        }
    }
}

/// Several traces as one.
fn merge(arguments: &ConvertArguments) -> Result<Success, Failure> {
    let mut inputs = Vec::new();
    for from in &arguments.sources {
        inputs.push(Input::open(from, arguments)?);
    }
    let kinds: Vec<_> = inputs.iter().map(Input::format).collect();
    refuse_idle(arguments, &kinds)?;
    let (mut imported, mut files) = (
        Imported::default(),
        Vec::<(PathBuf, Option<TempPath>)>::new(),
    );
    for (input, from) in inputs.into_iter().zip(&arguments.sources) {
        let Input::Foreign(foreign) = input else {
            files.push((from.clone(), None));
            continue;
        };
        let (read, path) = as_own(*foreign, from, arguments)?;
        add_up(&mut imported, read);
        files.push((path.to_path_buf(), Some(path)));
    }
    let merged = || {
        let readers: Result<Vec<_>, _> = files.iter().map(|(path, _)| own(path)).collect();
        let merged = Merged::new(readers?, ORDER_BYTES_MAX);
        merged.map_err(|error| failed(Path::new(&names_of(&arguments.sources)), &error))
    };
    let mut first = merged()?;
    if !first.is_aligned() {
        output::complain(
            "evendb: not all of these traces say when they began: they are merged as if all began at once",
        );
    }
    let header = first.header();
    let mut first = Some(first);
    let (mut found, cut) = write(arguments, header.clone(), |chain| {
        let merged = match first.take() {
            Some(merged) => merged,
            None => {
                let mut again = merged()?;
                // The names that the header has.
                let _ = again.header();
                again
            }
        };
        let mut found = Found::default();
        let passed =
            OwnSource::Merged(Box::new(merged), header.keyspaces.clone()).copy(chain, &mut found);
        let failed = |error| chain.failed(&arguments.sources, &arguments.to, &error);
        passed.map_err(failed)?;
        Ok(found)
    })?;
    // Losses of the temporary files are those of their sources, which are told as such.
    if files.iter().all(|(_, temporary)| temporary.is_some()) {
        found.losses = None;
    }
    found.imported = imported;
    tell(&found, &cut)
}

/// A trace of another format as a temporary file of EvenDB's, beside the result.
fn as_own(
    foreign: Foreign,
    from: &Path,
    arguments: &ConvertArguments,
) -> Result<(Imported, TempPath), Failure> {
    let folder = arguments
        .to
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let cannot = |error| Failure::new(format!("cannot make a file in {}", folder.display()), error);
    let (file, path) = tempfile::NamedTempFile::new_in(folder)
        .map_err(cannot)?
        .into_parts();
    let (format, header) = (foreign.format, foreign.header.clone());
    let target = Target::new((&path, file), ToFormat::Evendb, &header)?;
    let mut chain = Chain {
        mended: None,
        cut: Cut::default(),
        given: arguments.keyspace_names.iter().cloned().collect(),
        sink: Sink::Target(Hiding::No, target),
        named: BTreeSet::new(),
    };
    let imported = import(foreign, &mut chain);
    let from_one = [from.to_path_buf()];
    let imported = imported.map_err(|error| chain.failed(&from_one, &path, &error))?;
    if is_unreadable(&imported) {
        return Err(Failure::Message(format!(
            "nothing of {} can be read as the format {}",
            from.display(),
            format.name()
        )));
    }
    chain.note((0, 0), imported.bad);
    if let Sink::Target(_, target) = chain.sink {
        target.finish(&path, imported.is_torn)?;
    }
    Ok((imported, path))
}
