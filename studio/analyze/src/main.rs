//! `evendb-analyze`: a trace as a page of figures, as JSON and as tables.

#[cfg(feature = "distributed")]
mod roles;

use clap::builder::Styles;
use clap::{CommandFactory, FromArgMatches, Parser};
use evendb_analyze::{Budget, Cut, Error, LOST, Options, Step, Stored, analyze};
use evendb_model::study;
use evendb_report::Document;
use evendb_report::printed::{Printed, hidden_words, printable, without_hidden};
use evendb_trace::formats::Format;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Analyze a trace: how often keys are accessed, which are hot, when, and how large everything is
///
/// Makes a folder with `page.html`, which a browser shows, and `analysis.json` with the same
/// figures. If the trace is not whole, both are about the rest of it, and the exit code is 5; it is
/// the same if the trace is damaged and nothing can be read from it. The trace may be packed by
/// gzip or Zstandard.
#[derive(Parser)]
#[command(
    name = "evendb-analyze",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
struct Arguments {
    #[cfg(feature = "distributed")]
    #[command(subcommand)]
    role: Option<roles::Role>,
    /// The trace
    #[arg(required = true)]
    trace: Option<PathBuf>,
    /// The folder to make; by default the trace's name with `.analysis`
    #[arg(long)]
    out: Option<PathBuf>,
    /// The format of the trace: evendb, rocksdb (0.1 or 0.2), rocksdb-text, twitter, meta
    /// (CacheLib's kvcache) or ycsb; by default the one that the file begins with
    #[arg(long)]
    from_format: Option<Format>,
    /// All keys of the store, in hexadecimal digits, one a line: the output of `evendb scan DB
    /// --keys-only --output hex`. A line may have the keyspace and a tab before the key. May be
    /// given several times. Then the key space is that of the store, and not only the keys that
    /// the trace names
    #[arg(long, value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// The keyspace whose keys --keys lists, one for each list; needed if the trace has several,
    /// and lines do not name them
    #[arg(long, value_name = "KEYSPACE", requires = "keys")]
    keys_of: Vec<String>,
    /// Put values beside the figures that the study of RocksDB's loads prints for the load behind
    /// this preset (zippydb, zippydb-kinds, udb-assoc, up2x)
    #[arg(long, value_name = "PRESET", value_parser = preset)]
    study: Option<String>,
    /// Memory that the analysis may use, in MiB; rows that do not fit are on disk meanwhile
    #[arg(long, default_value_t = 2048)]
    memory_mib: u64,
    /// Threads; by default one for each core
    #[arg(long)]
    threads: Option<usize>,
    /// The number of ranges into which the key space is cut; by default the number of sorted files
    /// of 64 MiB that it would fill, from 30 to 4096
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    ranges: Option<u64>,
    /// The length of the prefix that groups keys, in bytes; by default the length that gives 64
    /// different ones
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    prefix_bytes: Option<u64>,
    /// Keep the tables of operations and of keys in the folder, as Parquet files
    #[arg(long)]
    keep_tables: bool,
    /// Have the queries run by the executors of this scheduler; the number of parts is that of
    /// threads
    ///
    /// The folder that is made must lie on a file system that the executors see at the same path.
    /// The memory is theirs: `--memory-mib` of each executor.
    #[cfg(feature = "distributed")]
    #[arg(long, value_name = "HOST:PORT")]
    scheduler: Option<String>,
}

/// The name of a preset behind which the study has values.
fn preset(name: &str) -> Result<String, String> {
    match study::presets().any(|known| known == name) {
        true => Ok(name.to_owned()),
        false => {
            let known: Vec<_> = study::presets().collect();
            Err(format!("there are {}", known.join(", ")))
        }
    }
}

/// Makes the allocator give memory back to the system as soon as a mebibyte of it is free. By
/// itself it keeps more when the freed blocks are larger. The engine's blocks are large and of many
/// sizes, so that the process would hold more than twice what it uses.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the allocator is told by a function of C alone")]
fn return_freed_memory() {
    const KEPT_BYTES: libc::c_int = 1 << 20;
    // SAFETY: `mallopt` may be called at any time, takes two numbers and keeps no reference; if it
    // does not know a number, it says so and does nothing.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn return_freed_memory() {}

fn main() -> ExitCode {
    return_freed_memory();
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    match begin(arguments) {
        Ok(code) => code,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::from(match error {
                Error::Argument(_) => 2,
                Error::Damaged(_) => DAMAGED,
                _ => 1,
            })
        }
    }
}

/// The arguments. Errors in them are printed with escapes where they could control a terminal, and
/// then without colours.
fn arguments() -> Result<Arguments, ExitCode> {
    let hidden = hidden_words(std::env::args_os().skip(1));
    if hidden.is_empty() {
        return Ok(Arguments::parse());
    }
    let command = Arguments::command().styles(Styles::plain());
    let parsed = command.try_get_matches();
    let parsed = parsed.and_then(|matches| Arguments::from_arg_matches(&matches));
    parsed.map_err(|error| {
        // Without styles this is the text as it is; the plain one lacks pieces of arguments.
        let text = without_hidden(error.render().ansi().to_string(), &hidden);
        let _ = write!(Printed(std::io::stderr()), "{text}");
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
    })
}

/// Writes to standard error, if that is there.
fn complain(message: &str) {
    let _ = writeln!(std::io::stderr(), "evendb-analyze: {}", printable(message));
}

/// The exit code of a damaged trace, whether nothing or only a part of it can be read. All commands
/// that found damage have it.
const DAMAGED: u8 = 5;

fn begin(arguments: Arguments) -> Result<ExitCode, Error> {
    #[cfg(feature = "distributed")]
    if let Some(role) = arguments.role {
        return roles::run(role).map(|()| ExitCode::SUCCESS);
    }
    match &arguments.trace {
        Some(trace) => run(trace, &arguments),
        None => Err(Error::Argument("there is no trace".to_owned())),
    }
}

/// Analyzes a trace, and writes what was found into a new folder.
fn run(trace: &Path, arguments: &Arguments) -> Result<ExitCode, Error> {
    arguments.check()?;
    let length = fs::metadata(trace)
        .map_err(|error| io(trace, "cannot read", &error))?
        .len();
    let folder = made_folder(trace, arguments)?;
    let tables = tempfile::Builder::new()
        .prefix("tables-")
        .tempdir_in(&folder)
        .map_err(|error| io(&folder, "cannot make a folder in", &error))?;
    let options = arguments.options(trace, tables.path());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.budget.threads)
        .enable_all()
        .build()
        .map_err(|error| Error::Io(error.to_string()))?;
    let bar = Bar::new(length);
    let found = runtime.block_on(find(&options, arguments, &mut |step| bar.show(step)));
    bar.bar.finish_and_clear();
    let mut document = match found {
        Ok(document) => document,
        Err(error) => {
            drop(tables);
            // The folder is empty: it is removed.
            let _ = fs::remove_dir(&folder);
            return Err(error);
        }
    };
    if let Some(preset) = &arguments.study {
        study::put_beside(&mut document, preset);
    }
    let page = folder.join("page.html");
    write(&page, &evendb_report::page(&document))?;
    write(&folder.join("analysis.json"), &document.to_json())?;
    if arguments.keep_tables {
        let kept = folder.join("tables");
        fs::rename(tables.keep(), &kept).map_err(|error| io(&kept, "cannot make", &error))?;
    }
    // If nobody reads the page's name, the page is there all the same.
    let _ = writeln!(
        std::io::stdout(),
        "{}",
        printable(&page.display().to_string())
    );
    Ok(ending(&document))
}

/// Makes the folder for the result.
fn made_folder(trace: &Path, arguments: &Arguments) -> Result<PathBuf, Error> {
    let folder = match &arguments.out {
        Some(folder) => folder.clone(),
        None => {
            let mut name = trace.as_os_str().to_owned();
            name.push(".analysis");
            PathBuf::from(name)
        }
    };
    fs::create_dir(&folder).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Error::Io(format!(
            "{} is there already, perhaps as the result of an analysis before: remove it, or name another folder by --out",
            folder.display()
        )),
        _ => io(&folder, "cannot make", &error),
    })?;
    Ok(folder)
}

impl Arguments {
    /// Refuses lists if only some of them have a keyspace.
    fn check(&self) -> Result<(), Error> {
        let (lists, of) = (self.keys.len(), self.keys_of.len());
        match of == 0 || of == lists {
            true => Ok(()),
            false => Err(Error::Argument(format!(
                "there are {lists} lists of keys and {of} names of keyspaces: either each list has one, or no list"
            ))),
        }
    }

    /// The lists of keys. Each has the name of its keyspace, or none has.
    fn lists(&self) -> Vec<Stored> {
        let lists = self.keys.iter().enumerate();
        lists
            .map(|(number, file)| Stored {
                file: file.clone(),
                keyspace: self.keys_of.get(number).cloned(),
            })
            .collect()
    }

    /// What is analyzed, with tables in `folder` meanwhile.
    fn options(&self, trace: &Path, folder: &Path) -> Options {
        Options {
            trace: trace.to_path_buf(),
            format: self.from_format,
            stored: self.lists(),
            folder: folder.to_path_buf(),
            budget: Budget {
                memory_bytes: self.memory_mib << 20,
                threads: self.threads.unwrap_or_else(cores).max(1),
            },
            cut: Cut {
                ranges: self.ranges,
                prefix_bytes: self.prefix_bytes,
                ..Cut::default()
            },
        }
    }
}

/// Says what was lost of the trace, if anything was.
fn ending(document: &Document) -> ExitCode {
    let lost = document.facts.iter().filter(|(name, _)| name == LOST);
    let lost: Vec<_> = lost.map(|(_, what)| what.as_str()).collect();
    if lost.is_empty() {
        return ExitCode::SUCCESS;
    }
    complain(&format!(
        "the trace is not whole, and the figures are of what is left: {}",
        lost.join("; ")
    ));
    ExitCode::from(DAMAGED)
}

/// Analyzes the trace here, or by a scheduler.
async fn find(
    options: &Options,
    #[cfg_attr(
        not(feature = "distributed"),
        expect(unused, reason = "it has a scheduler")
    )]
    arguments: &Arguments,
    progress: &mut (dyn FnMut(Step<'_>) + Send),
) -> Result<Document, Error> {
    #[cfg(feature = "distributed")]
    if let Some(scheduler) = &arguments.scheduler {
        let threads = options.budget.threads;
        let session = evendb_analyze::distributed::session(scheduler, threads, &options.folder);
        let session = session.await?;
        return evendb_analyze::analyze_by(&session, options, progress).await;
    }
    analyze(options, progress).await
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

fn io(path: &Path, what: &str, error: &std::io::Error) -> Error {
    Error::Io(format!("{what} {}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|error| io(path, "cannot write", &error))
}

/// The progress, on a terminal.
struct Bar {
    bar: ProgressBar,
    trace_bytes: u64,
}

impl Bar {
    /// The reading counts as a third of all, the counting of keys as a sixth, and the figures as
    /// the other half.
    const WHOLE: u64 = 1000;

    fn new(trace_bytes: u64) -> Bar {
        let bar = ProgressBar::new(Bar::WHOLE);
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Bar { bar, trace_bytes }
    }

    fn show(&self, step: Step<'_>) {
        let half = Bar::WHOLE / 2;
        match step {
            Step::Reading(bytes) => {
                self.bar
                    .set_position(half * 2 / 3 * bytes / self.trace_bytes.max(1));
                self.bar.set_message("reading the trace");
            }
            Step::Keys => {
                self.bar.set_position(half * 2 / 3);
                self.bar.set_message("counting accesses of keys");
            }
            Step::Figures(name, number, of) => {
                self.bar
                    .set_position(half + half * number as u64 / of.max(1) as u64);
                self.bar.set_message(name.to_owned());
            }
        }
    }
}
