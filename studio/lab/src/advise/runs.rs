//! One measurement: a replay in a process of its own, within a limit of memory where one can be
//! set.
//!
//! ```text
//!   prepare:  replay TRACE --prepare --age-bytes A --load L --skip N --until N
//!             fills a directory, as the settings say; no limit
//!   run:      replay TRACE --skip S --warm W --until E
//!             files dropped from the cache before; limited
//! ```
//! A store is aged when it is filled: the records that the load writes over are put again,
//! unchanged, so that settings are measured in the state in which they will be used. Otherwise the
//! effects of garbage would begin only after the end of a short run.
//!
//! Every run is a process that begins cold. Operations that are not counted warm it up. EvenDB is
//! run by this program itself, a peer by the command `experiments` of studio/peers, which has the
//! same subcommand. A process that takes too long is ended, and so is the process of an interrupted
//! command.
//!
//! The limit holds for process and page cache together ([`limit_of`]). Without it the system's
//! cache would serve a store that is told to use little memory, and every budget would look alike.

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::AdviseError;
use crate::experiments::processes::forget_files;
use crate::memory_limit::{self, MemoryLimit};
use crate::opener::Durability;
use crate::replay::Merges;
use crate::replay::command::Ending;
use crate::stores::evendb::tuning::Tuning;
use crate::whole_file;

/// Bytes for the program that replays: some 16 MiB of its own (operations in order, histograms),
/// what the kernel keeps for it, and peaks. With half of it the kernel ended runs now and then.
const PROGRAM_BYTES: u64 = 32 << 20;
/// Memory in which a run puts operations in order.
const ORDER_MIB: u64 = 4;

/// The limit on the memory of a run whose store plans with `memory_bytes`.
#[must_use]
pub fn limit_of(memory_bytes: u64) -> u64 {
    memory_bytes / 4 * 5 + PROGRAM_BYTES
}

/// The store that is asked.
#[derive(Clone, Debug)]
pub enum Who {
    /// EvenDB with these settings.
    EvenDb(Tuning),
    /// Another store, by its name in the command of studio/peers.
    Peer {
        /// That command.
        program: PathBuf,
        /// The name.
        name: String,
    },
}

/// The stretch of a trace that a run replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Operations before the stretch.
    pub skip: u64,
    /// Operations that warm it up.
    pub warm: u64,
    /// The operation at which it ends.
    pub until: u64,
}

/// What all runs have in common.
#[derive(Clone, Debug)]
pub struct Ground {
    /// This program.
    pub program: PathBuf,
    /// The trace.
    pub trace: PathBuf,
    /// Its operations with which the store is filled.
    pub loading: u64,
    /// Operations of the trace that are used, with the filling.
    pub operations: u64,
    /// What a put survives.
    pub durability: Durability,
    /// Threads that ask.
    pub threads: u16,
    /// What merges do.
    pub merges: Option<Merges>,
    /// Bytes of a value whose length the trace does not tell.
    pub value_bytes: u32,
    /// Bytes that are written over in a store before it is measured.
    pub age_bytes: u64,
    /// Whether a store that has done all of the load can do it again.
    pub repeats: bool,
}

/// The figures of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Operations that were counted.
    pub operations: u64,
    /// The seconds that they took.
    pub seconds: f64,
    /// The 99th percentile of the latencies of the most frequent kind, in nanoseconds.
    pub p99_nanos: u64,
    /// Bytes that the process sent to storage.
    pub bytes_written: Option<u64>,
    /// Bytes that the process fetched from storage.
    pub bytes_fetched: Option<u64>,
    /// Bytes of the store's directory afterwards.
    pub disk_bytes: u64,
    /// Results that differ from the trace.
    pub differences: u64,
    /// Operations that the store could not be asked.
    pub left_out: u64,
    /// The seconds that all of it took: dropping files from the cache, and the process with its
    /// beginning, warming and end.
    pub process_seconds: f64,
    /// Why there was no limit on memory, if there was none.
    pub unlimited: Option<String>,
}

impl Measured {
    /// Operations a second; 0 if none was done.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.operations as f64 / self.seconds.max(1e-9)
    }
}

/// When a run is ended: by time, and by an interrupt.
#[derive(Clone, Copy)]
pub struct Hold<'a> {
    /// How long it may take.
    pub at_most: Duration,
    /// Raised when the command is interrupted.
    pub stop: &'a AtomicBool,
}

impl Ground {
    /// Makes the store in `directory` anew, with the records that the trace finds, and ages it.
    /// Returns the seconds that this took.
    ///
    /// # Errors
    /// The process failed, took too long, or the command was interrupted.
    pub fn prepare(
        &self,
        who: &Who,
        memory_bytes: u64,
        directory: &Path,
        hold: Hold<'_>,
    ) -> Result<f64, AdviseError> {
        if directory.exists() {
            fs::remove_dir_all(directory).map_err(AdviseError::io(directory))?;
        }
        fs::create_dir_all(directory).map_err(AdviseError::io(directory))?;
        let mut command = Command::new(self.program_of(who));
        self.arguments(&mut command, who, (memory_bytes, directory));
        command.arg("--prepare");
        self.write_only(&mut command);
        let began = Instant::now();
        finished(command, who, hold)?;
        Ok(began.elapsed().as_secs_f64())
    }

    /// Ages the store in `directory`, which was filled. Returns how many bytes were written over,
    /// and the seconds that this took.
    ///
    /// # Errors
    /// The process failed, took too long, or the command was interrupted.
    pub fn age(
        &self,
        who: &Who,
        memory_bytes: u64,
        directory: &Path,
        hold: Hold<'_>,
    ) -> Result<(u64, f64), AdviseError> {
        let json = directory.with_extension("json");
        let mut command = Command::new(self.program_of(who));
        self.arguments(&mut command, who, (memory_bytes, directory));
        self.write_only(&mut command);
        command.arg("--json").arg(&json);
        let began = Instant::now();
        finished(command, who, hold)?;
        let text = whole_file::read(&json).map_err(AdviseError::io(&json))?;
        let report: Value =
            serde_json::from_slice(&text).map_err(|error| AdviseError::Run(error.to_string()))?;
        fs::remove_file(&json).map_err(AdviseError::io(&json))?;
        let aged = report["aged_bytes"].as_u64().unwrap_or(0);
        Ok((aged, began.elapsed().as_secs_f64()))
    }

    fn program_of<'a>(&'a self, who: &'a Who) -> &'a Path {
        match who {
            Who::EvenDb(_) => &self.program,
            Who::Peer { program, .. } => program,
        }
    }

    /// Tells the command to replay nothing of the trace.
    fn write_only(&self, command: &mut Command) {
        if self.age_bytes > 0 {
            let bytes = self.age_bytes.to_string();
            command.args(["--age-bytes", &bytes]);
        }
        let end = self.operations.to_string();
        command.args(["--skip", &end, "--until", &end]);
    }

    /// Replays a stretch on the store in `directory`.
    ///
    /// # Errors
    /// The process failed, took too long, or the command was interrupted.
    pub fn run(
        &self,
        who: &Who,
        memory_bytes: u64,
        directory: &Path,
        (stretch, hold): (Stretch, Hold<'_>),
    ) -> Result<Measured, AdviseError> {
        let began = Instant::now();
        let failed = |error: crate::experiments::Failure| AdviseError::Run(error.to_string());
        forget_files(directory).map_err(failed)?;
        let json = directory.with_extension("json");
        let limit = memory_limit::limit(limit_of(memory_bytes));
        let mut command = limited(&limit, self.program_of(who).as_os_str());
        self.arguments(&mut command, who, (memory_bytes, directory));
        let Stretch { skip, warm, until } = stretch;
        for (name, number) in [("--skip", skip), ("--warm", warm), ("--until", until)] {
            command.args([name, &number.to_string()]);
        }
        command.arg("--json").arg(&json);
        finished(command, who, hold)?;
        let text = whole_file::read(&json).map_err(AdviseError::io(&json))?;
        let mut measured = parsed(&text).map_err(AdviseError::Run)?;
        measured.process_seconds = began.elapsed().as_secs_f64();
        measured.disk_bytes = bytes_below(directory).map_err(AdviseError::io(directory))?;
        measured.unlimited = limit.err();
        fs::remove_file(&json).map_err(AdviseError::io(&json))?;
        Ok(measured)
    }

    fn arguments(&self, command: &mut Command, who: &Who, (memory_bytes, directory): (u64, &Path)) {
        command.arg("replay").arg(&self.trace);
        command.arg("--dir").arg(directory);
        match who {
            Who::EvenDb(tuning) => {
                command.args(["--store", "evendb"]);
                for (name, value, _) in tuning.each() {
                    command.arg("--set").arg(format!("{name}={value}"));
                }
            }
            Who::Peer { name, .. } => {
                command.args(["--store", name]);
            }
        }
        let numbers = [
            ("--memory-bytes", memory_bytes),
            ("--threads", u64::from(self.threads)),
            ("--value-bytes", u64::from(self.value_bytes)),
            ("--load", self.loading),
            ("--order-mib", ORDER_MIB),
        ];
        for (name, number) in numbers {
            command.args([name, &number.to_string()]);
        }
        command.args(["--durability", self.durability.name()]);
        match self.merges {
            Some(Merges::Counters) => command.args(["--merges", "counters"]),
            Some(Merges::Appends) => command.args(["--merges", "appends"]),
            None => command,
        };
    }
}

fn limited(limit: &Result<MemoryLimit, String>, program: &OsStr) -> Command {
    match limit {
        Ok(limit) => limit.command(program),
        Err(_) => Command::new(program),
    }
}

/// Runs a command to its end.
fn finished(mut command: Command, who: &Who, hold: Hold<'_>) -> Result<(), AdviseError> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(AdviseError::io(command.get_program().as_ref()))?;
    let errors = child.stderr.take();
    let errors = thread::spawn(move || {
        let mut text = String::new();
        let _ = errors.map(|mut errors| errors.read_to_string(&mut text));
        text
    });
    let status = waited(&mut child, hold)?;
    let text = errors.join().unwrap_or_default();
    match status {
        // After a failure the program says why. What it found out about the trace is in its report.
        Some(status) if is_done(status.code(), &text) => Ok(()),
        Some(status) => {
            let text = text.trim().replace('\n', "; ");
            Err(AdviseError::Run(format!(
                "{}: {status}: {text}",
                who.name()
            )))
        }
        None => {
            let seconds = hold.at_most.as_secs();
            let text = format!("{}: not done after {seconds} s", who.name());
            Err(AdviseError::TooLong(text))
        }
    }
}

/// Whether a replay came to its end. A trace that is not whole and a damaged store have one exit
/// code; a damaged store is a failure, and the text says so.
fn is_done(code: Option<i32>, errors: &str) -> bool {
    let is_failure = errors.lines().any(|line| line.starts_with("evendb: "));
    code.is_some_and(Ending::is_one) && (code == Some(0) || !is_failure)
}

/// Waits for a process; ends it when its time is over. An interrupt is an error.
fn waited(
    child: &mut Child,
    hold: Hold<'_>,
) -> Result<Option<std::process::ExitStatus>, AdviseError> {
    let began = Instant::now();
    let failed = |error: std::io::Error| AdviseError::Run(error.to_string());
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(Some(status));
        }
        let is_stopped = hold.stop.load(Ordering::Relaxed);
        if is_stopped || began.elapsed() > hold.at_most {
            let _ = child.kill();
            child.wait().map_err(failed)?;
            return match is_stopped {
                true => Err(AdviseError::Interrupted),
                false => Ok(None),
            };
        }
        thread::sleep(Duration::from_millis(10));
    }
}

impl Who {
    /// The name in messages and tables.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Who::EvenDb(tuning) if tuning.is_empty() => "evendb".to_owned(),
            Who::EvenDb(tuning) => format!("evendb ({tuning})"),
            Who::Peer { name, .. } => name.clone(),
        }
    }
}

/// What a replay's JSON says.
fn parsed(text: &[u8]) -> Result<Measured, String> {
    let json: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let number = |name: &str| json[name].as_u64();
    let sum = |name: &str| -> u64 {
        let each = json[name].as_object().into_iter().flatten();
        each.filter_map(|(_, count)| count.as_u64()).sum()
    };
    let kinds = json["kinds"].as_object().into_iter().flatten();
    let most = kinds.max_by_key(|(_, kind)| kind["operations"].as_u64());
    let p99 = most.and_then(|(_, kind)| kind["latency_nanos"]["p99"].as_u64());
    Ok(Measured {
        operations: number("replayed").ok_or("the report has no number of operations")?,
        seconds: json["seconds"].as_f64().ok_or("the report has no time")?,
        p99_nanos: p99.unwrap_or(0),
        bytes_written: number("bytes_written"),
        bytes_fetched: number("bytes_fetched"),
        differences: sum("differences"),
        left_out: sum("left_out"),
        ..Measured::default()
    })
}

fn bytes_below(directory: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += match metadata.is_dir() {
            true => bytes_below(&entry.path())?,
            // The allocated bytes: files may have holes.
            false => std::os::unix::fs::MetadataExt::blocks(&metadata) * 512,
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(stop: &AtomicBool, millis: u64) -> Hold<'_> {
        Hold {
            at_most: Duration::from_millis(millis),
            stop,
        }
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_process_that_fails_or_takes_too_long_is_an_error_that_says_so() {
        let who = Who::EvenDb(Tuning::new());
        let stop = AtomicBool::new(false);
        finished(shell("exit 0"), &who, held(&stop, 60_000)).unwrap();
        let error = finished(shell("echo no disk >&2; exit 1"), &who, held(&stop, 60_000));
        let text = error.unwrap_err().to_string();
        assert!(
            text.contains("no disk") && text.contains("evendb"),
            "{text}"
        );
        let error = finished(shell("exec sleep 600"), &who, held(&stop, 1)).unwrap_err();
        assert!(matches!(error, AdviseError::TooLong(_)), "{error}");
        stop.store(true, Ordering::Relaxed);
        let error = finished(shell("exec sleep 600"), &who, held(&stop, 60_000)).unwrap_err();
        assert!(matches!(error, AdviseError::Interrupted), "{error}");
    }

    #[test]
    fn a_report_is_read() {
        let text =
            br#"{"seconds": 2.0, "replayed": 100, "bytes_written": 7, "left_out": {"pops": 3},
            "differences": {"a": 1, "b": 2}, "kinds": {
            "get": {"operations": 90, "latency_nanos": {"p99": 5}},
            "put": {"operations": 10, "latency_nanos": {"p99": 9}}}}"#;
        let measured = parsed(text).unwrap();
        assert_eq!(measured.per_second(), 50.0);
        assert_eq!((measured.p99_nanos, measured.differences), (5, 3));
        assert_eq!(
            (measured.bytes_written, measured.bytes_fetched),
            (Some(7), None)
        );
        assert_eq!(measured.left_out, 3);
        assert!(parsed(b"{}").unwrap_err().contains("number of operations"));
        assert!(parsed(b"[").is_err());
    }
}
