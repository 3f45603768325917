//! The command `replay`, for every program that knows stores: arguments, the store, and the report
//! as text.

use evendb::placement;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use evendb_trace::{InOrder, Reader, Times, formats, keyspaces_of};

use super::plan::{Planner, RIGHTLY};
use super::table::{cached, table};
use super::{
    Merges, Part, Prepared, ReplayReport, ReplaySettings, Source, Speed, age, paired, prepare,
    put_key_files, replay,
};
use crate::opener::{Durability, Opener, Settings};
use crate::process::ProcessUsage;
use crate::readable::{bytes, duration, grouped};
use crate::recorder::RunError;
use crate::store::Store;
use crate::stores::evendb::TunedOpener;
use crate::stores::evendb::tuning::{Tuning, TuningError};
use crate::stores::memory::MemoryStore;

/// In a shorter replay the time for its beginning counts too much to say what was its limit.
const LONG: Duration = Duration::from_millis(500);

/// The arguments of a replay.
#[derive(clap::Args, Clone, Debug)]
pub struct ReplayArguments {
    /// The trace
    trace: PathBuf,
    /// The store, by name
    #[arg(long, default_value = "evendb")]
    store: String,
    /// Where the store is, or is made; it is kept. Without it, the store is made in a new directory
    /// in the one for temporary files, and removed
    #[arg(long, value_name = "DIRECTORY")]
    dir: Option<PathBuf>,
    /// The speed as a multiple of the recorded one, which a trace without times does not have; or
    /// max: as fast as the store takes it
    #[arg(long, default_value = "max", value_parser = parse_speed)]
    speed: Speed,
    /// Threads that ask
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Put first what the trace finds before it puts it, and what it reads first without telling
    /// whether it was there; reads the trace twice, and keeps 16 bytes a key in memory
    #[arg(long)]
    prepare: bool,
    /// Put first all keys that this file lists, in hexadecimal digits, one a line: the output of
    /// `evendb scan DB --keys-only --output hex`. A line may have the keyspace and a tab before the
    /// key. May be given several times
    #[arg(long, value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// The keyspace whose keys --keys lists; one for each list
    #[arg(long, value_name = "KEYSPACE", requires = "keys")]
    keys_of: Vec<String>,
    /// Put the records that the trace writes over again, unchanged, until this number of bytes is
    /// put: the store is then as after long use. After --prepare, if that is given too
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 0,
        hide_default_value = true
    )]
    age_bytes: u64,
    /// Bytes of a value whose length the trace does not tell [default: 100; with --merges counters
    /// 8]
    #[arg(long)]
    value_bytes: Option<u32>,
    /// The percentage of a value that compresses to next to nothing, of values that the trace does
    /// not have
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    compressible: u8,
    /// Records of a scan whose length the trace does not tell, as in RocksDB's traces
    #[arg(long, value_name = "RECORDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    scan_length: u64,
    /// What merges do, and the store is opened for that; without it they are left out
    #[arg(long, value_enum)]
    merges: Option<Merges>,
    /// Bytes of memory that the store may plan with
    #[arg(long, default_value_t = 256 << 20)]
    memory_bytes: u64,
    /// What a put survives when it returns
    #[arg(long, value_enum, default_value = "process")]
    durability: Durability,
    /// A setting of EvenDB; may be given several times. docs/advice.md has the names
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Operations at the beginning of the trace that fill the store: --prepare does what they
    /// write, and the replay begins after them
    #[arg(long, value_name = "OPERATIONS", default_value_t = 0)]
    load: u64,
    /// Operations at the beginning of the trace that are passed over: the store has done them
    /// before
    #[arg(long, value_name = "OPERATIONS", default_value_t = 0)]
    skip: u64,
    /// Operations that are done next and not counted
    #[arg(long, value_name = "OPERATIONS", default_value_t = 0)]
    warm: u64,
    /// The trace ends after this number of its operations
    #[arg(long, value_name = "OPERATIONS", default_value_t = u64::MAX, hide_default_value = true)]
    until: u64,
    /// Memory in MiB for operations that wait to be put in the order of time
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    order_mib: u16,
    /// Write the result to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn parse_speed(text: &str) -> Result<Speed, String> {
    if text == "max" {
        return Ok(Speed::Max);
    }
    let speed = text.parse::<f64>().ok();
    let speed = speed.filter(|speed| *speed > 0.0 && speed.is_finite());
    let speed = speed.ok_or_else(|| "a number above 0, or max".to_owned())?;
    Ok(Speed::Times(speed))
}

/// A replay that has come to its end.
#[derive(Debug)]
pub struct Replayed {
    /// The text for a terminal.
    pub text: String,
    /// How it ended.
    pub ending: Ending,
}

/// How a replay ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// All operations of the trace were asked.
    Whole,
    /// More than a hundredth of the operations was left out.
    LeftOut,
    /// The trace is not whole. The operations that are there were asked.
    Damaged,
}

impl Ending {
    /// The exit code of the program.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Ending::Whole => 0,
            Ending::LeftOut => 3,
            Ending::Damaged => 5,
        }
    }

    /// Whether a process with this exit code has done its replay, and says in its report what it
    /// could not do.
    #[must_use]
    pub fn is_one(code: i32) -> bool {
        let all = [Ending::Whole, Ending::LeftOut, Ending::Damaged];
        all.iter()
            .any(|ending| i32::from(ending.exit_code()) == code)
    }

    fn of(report: &ReplayReport) -> Ending {
        Ending::new(report.losses.is_nothing(), report.is_of_another_load())
    }

    /// The ending of work on a trace: whether the trace is whole, and whether more than a hundredth
    /// of it was left out.
    #[must_use]
    pub fn new(is_whole: bool, is_of_another_load: bool) -> Ending {
        match (is_whole, is_of_another_load) {
            (false, _) => Ending::Damaged,
            (true, true) => Ending::LeftOut,
            (true, false) => Ending::Whole,
        }
    }
}

/// The operations that had an effect in the load, and that a replay of a part of a trace leaves
/// out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// All operations of the part.
    pub operations: u64,
    /// The operations that are left out, by reason.
    pub by_why: Vec<(&'static str, u64)>,
}

impl LeftOut {
    /// The reason why merges are left out if nobody says what they do.
    pub const MERGES: &str = "merges";

    /// What a replay with these settings leaves out on a store of EvenDB. No store is asked.
    ///
    /// # Errors
    /// `Input` if the trace cannot be read.
    pub fn of(trace: &Path, settings: &ReplaySettings) -> Result<LeftOut, RunError> {
        let reader = reader_of(trace)?;
        let settings = ReplaySettings {
            several_keyspaces: several_keyspaces_of(trace)?,
            ..*settings
        };
        // This store has the calls that EvenDB has.
        let mut planner = Planner::new(&reader, &settings, &MemoryStore::new());
        let mut source = Source {
            ordered: InOrder::new(reader, settings.order_bytes),
            left: settings.part.until,
        };
        let mut passed = 0;
        while let Some(operation) = source.next(u64::MAX) {
            if passed == settings.part.load {
                planner.begin_anew();
            }
            let operation = operation.map_err(|error| error.of_file(trace))?;
            planner.take(operation, &mut |_| {});
            passed += 1;
        }
        let mut report = ReplayReport::default();
        planner.finish(&mut report);
        let by_why = report.left_out.iter().map(|(why, count)| (*why, *count));
        Ok(LeftOut {
            operations: report.operations_in_trace,
            by_why: by_why.filter(|(why, _)| !RIGHTLY.contains(why)).collect(),
        })
    }

    /// All that is left out.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_why.iter().map(|(_, count)| count).sum()
    }

    /// Whether it is more than a hundredth.
    #[must_use]
    pub fn is_much(&self) -> bool {
        self.total() * 100 > self.operations
    }
}

fn input(path: &Path, error: &dyn std::fmt::Display) -> RunError {
    RunError::Input(format!("{}: {error}", path.display()))
}

/// Opens a trace. Errors do not name it.
fn opened(path: &Path) -> Result<Reader<BufReader<File>>, RunError> {
    let file = File::open(path).map_err(|error| RunError::Input(error.to_string()))?;
    Ok(formats::open_own(BufReader::with_capacity(
        256 << 10,
        file,
    ))?)
}

/// Opens a trace.
///
/// # Errors
/// `Input` if it cannot be read or is no trace; `Damaged`.
pub(crate) fn reader_of(path: &Path) -> Result<Reader<BufReader<File>>, RunError> {
    opened(path).map_err(|error| error.of_file(path))
}

/// Whether a trace has several keyspaces, with those that were made while it was recorded.
///
/// # Errors
/// `Input` if it cannot be read or is no trace; `Damaged`.
pub(crate) fn several_keyspaces_of(path: &Path) -> Result<bool, RunError> {
    Ok(keyspaces_in(path)?.len() > 1)
}

/// The keyspaces of a trace by their numbers, with those that were made while it was recorded.
///
/// # Errors
/// `Input` if it cannot be read or is no trace; `Damaged`.
pub(crate) fn keyspaces_in(path: &Path) -> Result<BTreeMap<u32, String>, RunError> {
    let file = File::open(path).map_err(|error| input(path, &error))?;
    keyspaces_of(file).map_err(|error| RunError::from(error).of_file(path))
}

/// How the store was made before a replay.
#[derive(Clone, Copy)]
struct Made {
    /// Keys that were put because they were listed.
    listed: u64,
    /// Records that were put.
    prepared: Prepared,
    /// Bytes that were put again.
    aged_bytes: u64,
    /// The directory had files before: their state is a part of all figures.
    is_kept: bool,
}

impl ReplayArguments {
    /// Carries the command out.
    ///
    /// # Errors
    /// The store's or the trace's, in words.
    pub fn run(
        &self,
        openers: &[Box<dyn Opener>],
        stop: &AtomicBool,
    ) -> Result<Replayed, RunError> {
        let tuned = self.tuned()?;
        let opener = openers.iter().find(|opener| opener.name() == self.store);
        let Some(opener) = opener else {
            let names: Vec<_> = openers.iter().map(|opener| opener.name()).collect();
            let message = format!("no store {:?}; there are {}", self.store, names.join(", "));
            return Err(RunError::Input(message));
        };
        let opener = tuned.as_ref().map_or(&**opener, |tuned| tuned as _);
        if let Some(why) = opener.unavailable() {
            return Err(RunError::Input(why));
        }
        if let Some(path) = &self.json {
            let allowed = placement::refuse_output(path, "a report");
            allowed.map_err(|error| RunError::Input(error.to_string()))?;
            // Said now, and not only when the work is done.
            let folder = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            if folder.is_some_and(|folder| !folder.is_dir()) {
                return Err(input(path, &"no file can be made there"));
            }
        }
        // The trace comes first: nothing is made for a trace that cannot be read.
        let reader = reader_of(&self.trace)?;
        let temporary = TemporaryDirectory::new(self.dir.is_none())?;
        let directory = self.dir.as_ref().or(temporary.0.as_ref());
        let directory = directory.ok_or(RunError::Panicked)?;
        fs::create_dir_all(directory).map_err(|error| input(directory, &error))?;
        let is_kept = fs::read_dir(directory).is_ok_and(|mut files| files.next().is_some());
        let settings = Settings {
            memory_bytes: self.memory_bytes,
            durability: self.durability,
        };
        let store = match self.merges {
            Some(merges) => opener.open_for(directory, &settings, merges.purpose())?,
            None => opener.open(directory, &settings)?,
        };
        let before = ProcessUsage::now();
        let outcome = self.replay(reader, &*store, stop);
        let name = store.name();
        store.close()?;
        let usage = before.and_then(|before| Some(ProcessUsage::now()?.since(&before)));
        let (mut made, report) = outcome?;
        made.is_kept = is_kept;
        self.write_json(&name, made, &report, usage.as_ref())?;
        let mut text = self.text(&name, made, &report);
        text.extend(usage.and_then(|usage| cached(&usage)));
        Ok(Replayed {
            text,
            ending: Ending::of(&report),
        })
    }

    /// Writes the result to the file of `--json`, if that is asked for.
    fn write_json(
        &self,
        store: &str,
        made: Made,
        report: &ReplayReport,
        usage: Option<&ProcessUsage>,
    ) -> Result<(), RunError> {
        let Some(path) = &self.json else {
            return Ok(());
        };
        let mut json = report.to_json();
        json["store"] = store.into();
        json["listed"] = made.listed.into();
        json["prepared"] = made.prepared.put.into();
        json["prepared_by_assumption"] = made.prepared.assumed.into();
        json["aged_bytes"] = made.aged_bytes.into();
        json["store_was_there"] = made.is_kept.into();
        if let Some(usage) = usage {
            json["bytes_written"] = usage.stored_bytes().into();
            json["bytes_fetched"] = usage.read_bytes.into();
            json["resident_bytes_max"] = usage.resident_bytes_max.into();
        }
        let written = placement::write_output(path, "a report", &format!("{json:#}\n"));
        written.map_err(|error| RunError::Input(error.to_string()))?;
        Ok(())
    }

    /// EvenDB with the settings that were chosen, if there are any.
    fn tuned(&self) -> Result<Option<TunedOpener>, RunError> {
        let wrong = |error: TuningError| RunError::Input(error.to_string());
        let mut tuning = Tuning::new();
        for text in &self.set {
            tuning.choose(text).map_err(wrong)?;
        }
        if tuning.is_empty() {
            return Ok(None);
        }
        if let Some(what) = tuning.contradiction() {
            return Err(RunError::Input(what));
        }
        if self.store != TunedOpener::NAME {
            let message = format!("{} takes no settings, only evendb does", self.store);
            return Err(RunError::Input(message));
        }
        Ok(Some(TunedOpener { tuning }))
    }

    fn replay(
        &self,
        reader: Reader<BufReader<File>>,
        store: &dyn Store,
        stop: &AtomicBool,
    ) -> Result<(Made, ReplayReport), RunError> {
        let settings = ReplaySettings {
            speed: self.speed,
            threads: usize::from(self.threads),
            compare: true,
            value_bytes: self.value_bytes.unwrap_or(Merges::value_bytes(self.merges)) as usize,
            compressible: self.compressible,
            scan_length: self.scan_length,
            several_keyspaces: several_keyspaces_of(&self.trace)?,
            merges: self.merges,
            part: Part {
                load: self.load,
                skip: self.skip,
                warm: self.warm,
                until: self.until,
            },
            order_bytes: usize::from(self.order_mib) << 20,
        };
        let of_trace = |error: RunError| error.of_file(&self.trace);
        let listed = paired(&self.keys, &self.keys_of)?;
        let sizes = (settings.value_bytes, settings.compressible);
        let listed = match listed.is_empty() {
            true => 0,
            false => put_key_files(&listed, &self.trace, store, &|_| sizes, stop)?,
        };
        let prepared = match self.prepare {
            true => {
                let reader = reader_of(&self.trace)?;
                prepare(reader, store, &settings, stop).map_err(of_trace)?
            }
            false => Prepared::default(),
        };
        let aged_bytes = match self.age_bytes {
            0 => 0,
            bytes => {
                let aged = age(&|| opened(&self.trace), store, (&settings, bytes), stop);
                aged.map_err(of_trace)?
            }
        };
        let made = Made {
            listed,
            prepared,
            aged_bytes,
            is_kept: false,
        };
        let report = replay(reader, store, &settings, stop).map_err(of_trace)?;
        Ok((made, report))
    }

    fn text(&self, store: &str, made: Made, report: &ReplayReport) -> String {
        let seconds = report.duration.as_secs_f64();
        let rate = report.replayed() as f64 / seconds.max(1e-9);
        let mut lines = report.warnings(self.remedy(report));
        lines.push(format!(
            "{store}: {} in {seconds:.2} s, {} a second, {} threads",
            grouped(report.replayed()),
            grouped(rate as u64),
            self.threads
        ));
        lines.extend(self.before_text(made));
        lines.extend(self.reader_text(report));
        if report.intended.is_some() && report.times == Times::Seconds {
            lines.push(
                "times of the trace are whole seconds: the operations of each were spread evenly over it, so nothing is known of bursts within a second".to_owned(),
            );
        }
        if let Some(intended) = report.intended {
            lines.push(format!(
                "due within {:.2} s; the latest operation began {} late; latencies count from when operations were due",
                intended.as_secs_f64(),
                duration(report.late_max.as_nanos() as f64)
            ));
        }
        lines.push(format!("\n{}", table(report)));
        lines.push(format!(
            "{} results compared, {} differ",
            grouped(report.compared),
            grouped(report.differences.total())
        ));
        let differences = report.differences.each();
        for (what, count) in differences.into_iter().filter(|(_, count)| *count > 0) {
            lines.push(format!("  {what}: {}", grouped(count)));
        }
        for (why, count) in &report.left_out {
            lines.push(format!("left out: {why}: {}", grouped(*count)));
        }
        lines.extend(self.done_otherwise(report));
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Whether the reader of the trace was the limit, and not the store.
    fn reader_text(&self, report: &ReplayReport) -> Option<String> {
        let share = report.waited_share();
        let is_limit = self.speed == Speed::Max && report.duration >= LONG && share > 0.5;
        is_limit.then(|| {
            format!(
                "the reader of the trace was the limit: threads waited for it {:.0} % of their time, and the store can do more",
                100.0 * share
            )
        })
    }

    /// What was put before the replay.
    fn before_text(&self, made: Made) -> Vec<String> {
        let mut lines = Vec::new();
        if made.is_kept {
            lines.push(
                "the directory had files before: what the store held, owed and cached is a part of these figures".to_owned(),
            );
        }
        if !self.keys.is_empty() {
            lines.push(format!(
                "{} listed keys were put before",
                grouped(made.listed)
            ));
        }
        if self.prepare {
            let Prepared { put, assumed } = made.prepared;
            let assumed = match assumed {
                0 => String::new(),
                assumed => format!(
                    "; of {} of them the trace does not tell whether their first read found them",
                    grouped(assumed)
                ),
            };
            lines.push(format!("{} records were put before{assumed}", grouped(put)));
        }
        if self.age_bytes > 0 {
            let aged = bytes(made.aged_bytes);
            lines.push(format!("{aged} were put again before"));
        }
        lines
    }

    /// What the store was asked in another way than the trace tells.
    fn done_otherwise(&self, report: &ReplayReport) -> Vec<String> {
        let counted = [
            (
                report.ranges_by_key,
                "deletions of ranges were done key by key: the store has none",
            ),
            (
                report.expired,
                "values were deleted when their time to live was over",
            ),
            (
                report.kept_for_ever,
                "values stay after their time to live: too many wait for their end at once",
            ),
        ];
        let counted = counted.into_iter().filter(|(count, _)| *count > 0);
        let mut lines: Vec<String> = counted
            .map(|(count, what)| format!("{} {what}", grouped(count)))
            .collect();
        if report.unknown_lengths > 0 {
            lines.push(format!(
                "{} scans have no length in the trace, and asked for {} records each (--scan-length)",
                grouped(report.unknown_lengths),
                grouped(self.scan_length)
            ));
        }
        lines
    }

    /// How reads and scans find something.
    fn remedy(&self, report: &ReplayReport) -> Option<&'static str> {
        match (self.prepare, report.misses > 0) {
            (false, true) => Some("--prepare puts before what the trace reads"),
            (true, true) => None,
            (_, false) => {
                Some("--dir names a store that has the records: --prepare puts nothing for scans")
            }
        }
    }
}

/// A directory that is removed when this is dropped; or none.
struct TemporaryDirectory(Option<PathBuf>);

impl TemporaryDirectory {
    fn new(wanted: bool) -> Result<Self, RunError> {
        if !wanted {
            return Ok(Self(None));
        }
        let path = std::env::temp_dir().join(format!("evendb-replay-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| input(&path, &error))?;
        Ok(Self(Some(path)))
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_dir_all(path);
        }
    }
}
