//! `evendb bench`: the paper's mixes on a fresh store, every read checked.
//!
//! The phases share one store. It is loaded in key order. Then, for each distribution and each mix,
//! there is a warm-up (`Mix::warmed_by`) of a quarter of the phase, and the measured phase. After a
//! phase that writes, the store's debt is settled and charged to it. A phase of puts alone begins
//! on a freshly opened store. D always runs with the `latest` distribution, and once. Instead of
//! load and mixes, an event log can be made or replayed from a file (`bench_event_log.rs`). Instead
//! of the mixes, transactions can be run (`bench_transactions.rs`).
//!
//! With a rate the measured phases are open loops; load and warm-up stay closed ones.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use evendb::{Compression, EngineKind, Options};
use evendb_lab::arrivals::{Arrivals, RATE_MAX, Spacing};
use evendb_lab::dataset::Dataset;
use evendb_lab::distribution::{Distribution, DistributionKind, THETA_DEFAULT, parse_theta};
use evendb_lab::driver::{self, Limit, Phase, Progress};
use evendb_lab::ideal_cache::{DiskReads, IdealCache};
use evendb_lab::log_replay::ReplayedLog;
use evendb_lab::mix::{LoadOrder, LoadWorker, Mix, MixWorker, Population};
use evendb_lab::phase_length::{PhaseLengths, WARMING_PART};
use evendb_lab::phase_result::PhaseResult;
use evendb_lab::readable::{bytes, counted, grouped};
use evendb_lab::store::{Store, StoreResult};
use evendb_lab::stores::evendb::EvenDbStore;
use evendb_lab::stores::flsm::FlsmStore;
use evendb_lab::stores::memory::MemoryStore;
use evendb_lab::traced::{self, TracedStore};
use evendb_lab::value::VALUE_BYTES_MIN;
use evendb_trace::{Recorder, RecorderHandle, RecorderOptions};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use super::bench_event_log::LogArguments;
use super::bench_text;
use super::bench_transactions::{self, TransactionArguments};
use crate::engine::EngineArgument;
use crate::failure::{Failure, Success};
use crate::interrupt::Interrupt;
use crate::key_file::KeyFile;
use crate::open::DurabilityArgument;
use crate::output;
use crate::size::parse_size;

/// Seconds of a phase with --quick: ten phases, their warm-ups and the load stay within two
/// minutes.
const SECONDS_QUICK: f64 = 6.0;

/// Benchmark on a fresh store, with every read checked
///
/// Mixes: P 100 % put; A 50 % put, 50 % get; B 5 % put, 95 % get; C 100 % get; D 5 % insertion, 95
/// % get of recent records; E10, E100, E1000 5 % put, 95 % scan of up to 10, 100, 1000 records; F
/// read-modify-write. Distributions: zipf-simple, zipf-composite, zipf-composite-contiguous,
/// zipf-composite-suffix, latest, uniform. A wrong answer ends the run with exit code 1.
///
/// The first rate of a phase includes the time of paying its debt. A phase is warmed for a quarter
/// of its time before, reads by reads, puts alone by puts; puts alone begin on a freshly opened
/// store.
///
/// Without --rate, a thread starts its next operation when the last one is done (closed loop). With
/// it, operations are due at that rate whatever the store does, and their latency counts from when
/// they were due (open loop).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb bench --quick
  evendb bench
  evendb bench --dir /mnt/ssd/bench --size 4GiB --memory 1GiB --seconds 30 --json result.json
  evendb bench --mixes P --distributions uniform,zipf-simple --durability sync --threads 4
  evendb bench --mixes A --rate 20000 --arrivals poisson
  evendb bench --engine flsm --mixes P,A,C --load-order random
  evendb bench --event-log --size 2GiB
  evendb bench --transactions low,high --threads 16 --size 1GiB
  evendb bench --replay events.txt --threads 4")]
pub struct Arguments {
    /// Where to make the store; must be missing or empty, and is kept. Without it, a temporary
    /// directory that is removed at the end
    #[arg(long, value_name = "DIRECTORY")]
    dir: Option<PathBuf>,
    /// Bytes of keys and values to load
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256MiB")]
    pub size: u64,
    /// Bytes of a value
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "800")]
    pub value_bytes: u64,
    /// The percentage of a value that compresses to next to nothing
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    compressible: u8,
    /// Compression of the store's tables: none, lz4, or zstd, also with a level as zstd:9
    #[arg(long, value_name = "COMPRESSION", default_value = "none")]
    compression: Compression,
    #[command(flatten)]
    engine: EngineArgument,
    #[command(flatten)]
    key_file: KeyFile,
    /// Values of at least this number of bytes are written into files of their own, as 4KiB; never
    /// if not given
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    values_apart_from: Option<u64>,
    /// The store's memory budget; its default if not given
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// How much larger than its live data the store may be on disk, 1.01 to 10; its default if not
    /// given. More space, fewer bytes written
    #[arg(long, value_name = "FACTOR")]
    space_amplification: Option<f64>,
    /// Worker threads
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Operations of a phase
    #[arg(long)]
    pub ops: Option<u64>,
    /// Seconds of a phase [default without --ops: 20, of puts alone 60; quick: 6]
    #[arg(long, value_parser = parse_seconds)]
    pub seconds: Option<f64>,
    /// Short phases: the whole run takes two minutes, and some six without this
    #[arg(long)]
    quick: bool,
    /// Leave the store open from the load to the last phase
    #[arg(long)]
    keep_open: bool,
    /// The order in which records are loaded
    #[arg(long, value_enum, default_value_t)]
    load_order: LoadOrder,
    /// Operations a second over all threads: an open loop
    #[arg(long, value_name = "OPS", value_parser = parse_rate)]
    rate: Option<f64>,
    /// How the operations of an open loop are spread
    #[arg(long, value_enum, default_value = "even", requires = "rate")]
    arrivals: ArrivalsArgument,
    /// The mixes
    #[arg(long, value_delimiter = ',', default_value = "P,A,B,C,E100")]
    mixes: Vec<Mix>,
    /// The access distributions
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "zipf-simple,zipf-composite"
    )]
    distributions: Vec<DistributionKind>,
    /// The skew of the Zipf distributions, above 0 and below 1
    #[arg(long, default_value_t = THETA_DEFAULT, value_parser = parse_theta)]
    theta: f64,
    /// What a put survives when it returns
    #[arg(long, value_enum, default_value = "process")]
    durability: DurabilityArgument,
    /// Write settings and results to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Record the store's operations in this file, load included; costs some throughput. See evendb
    /// trace and replay
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Record one key in this number of keys
    #[arg(long, value_name = "KEYS", default_value_t = 1, requires = "trace")]
    trace_one_key_in: u64,
    /// The seed of keys, values and operations
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    #[command(flatten, next_help_heading = "Event logs")]
    log: LogArguments,
    #[command(flatten, next_help_heading = "Transactions")]
    transactions: TransactionArguments,
}

/// How operations are spread in time.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ArrivalsArgument {
    /// One every 1 / rate seconds
    Even,
    /// At random, as many independent clients do
    Poisson,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    arguments.refuse()?;
    let place = StoreDirectory::new(arguments.dir.as_deref())?;
    let interrupt = Interrupt::install()?;
    let slot = Arc::new(RecorderHandle::default());
    let recorder = arguments.begin_trace(&slot)?;
    let open = arguments.opener(place.path(), slot);
    let mut bench = Bench {
        arguments,
        store: open()?,
        open: Box::new(open),
        dataset: arguments.dataset(),
        interrupt: &interrupt,
        disk: DiskReads::new(
            place.path(),
            usize::from(arguments.threads),
            interrupt.flag(),
        ),
        results: Vec::new(),
        planned: 0,
        replayed: None,
        refused: Vec::new(),
    };
    let memory_bytes = bench.memory_bytes();
    let outcome = match (arguments.log.given(), arguments.transactions.given()) {
        (true, _) => arguments.log.run(&mut bench),
        (false, true) => arguments.transactions.run(&mut bench),
        (false, false) => bench.all_phases(),
    };
    let done = bench.close();
    end_trace(recorder)?;
    if let Some(path) = &arguments.json {
        let text = format!("{:#}\n", done.report(arguments, memory_bytes));
        evendb::placement::write_output(path, "a report", &text)?;
    }
    outcome?;
    done.closed?;
    if let Some(sentence) = bench_text::shown(&done.results).filter(|_| !interrupt.raised()) {
        writeln!(output::out(), "{sentence}")?;
    }
    if interrupt.raised() {
        output::complain(&format!(
            "interrupted; {} reported",
            match done.results.len() {
                1 => "1 phase was".to_owned(),
                phases => format!("{phases} phases were"),
            }
        ));
        return Err(Failure::Interrupted);
    }
    if done.replayed.is_some_and(|log| log.bad.count > 0) {
        return Ok(Success::BadLines);
    }
    Ok(Success::Done)
}

impl Arguments {
    /// Refuses what cannot be done, before anything is made.
    fn refuse(&self) -> Result<(), Failure> {
        if self.value_bytes < VALUE_BYTES_MIN as u64 || self.value_bytes > 1 << 30 {
            return Err(Failure::Usage(format!(
                "--value-bytes must be at least {VALUE_BYTES_MIN} and at most 1GiB"
            )));
        }
        if self.engine.of_a_new_one() == EngineKind::Flsm {
            self.refuse_for_flsm()?;
        }
        if let Some(path) = &self.json {
            output::refuse_output(path, "a report")?;
        }
        Ok(())
    }

    fn dataset(&self) -> Dataset {
        let mut dataset = Dataset::of_size(self.size, self.value_bytes as usize, self.seed);
        dataset.values = dataset.values.compressible(self.compressible);
        dataset
    }

    /// What opens the store in `directory`. If a trace is made, the store records to `slot`.
    fn opener(
        &self,
        directory: &Path,
        slot: Arc<RecorderHandle>,
    ) -> impl Fn() -> StoreResult<Box<dyn Store>> + use<'_> {
        let directory = directory.to_owned();
        move || {
            let store: Box<dyn Store> = match self.engine.of_a_new_one() {
                EngineKind::EvenDb => {
                    let options = self.evendb_options();
                    Box::new(EvenDbStore::open(&directory, options, &description(self))?)
                }
                EngineKind::Flsm => {
                    Box::new(FlsmStore::open(&directory, self.flsm_options(), "flsm")?)
                }
            };
            Ok(match self.trace {
                None => store,
                Some(_) => Box::new(TracedStore::new(store, slot.clone())),
            })
        }
    }

    fn evendb_options(&self) -> Options {
        let mut options = Options::new()
            .durability(self.durability.into())
            .compression(self.compression);
        options = self.key_file.given_to(options);
        if let Some(budget) = self.memory {
            options = options.memory_budget(budget);
        }
        if let Some(factor) = self.space_amplification {
            options = options.space_amplification(factor);
        }
        if let Some(bytes) = self.values_apart_from {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            options = options.advanced(|advanced| advanced.values_apart_from(Some(bytes)));
        }
        options
    }

    /// Refuses what the engine flsm does not have.
    fn refuse_for_flsm(&self) -> Result<(), Failure> {
        let lacking = [
            (self.key_file.key().is_some(), "encryption (--key-file)"),
            (
                self.values_apart_from.is_some(),
                "values apart (--values-apart-from)",
            ),
            (
                self.space_amplification.is_some(),
                "limit of its size (--space-amplification)",
            ),
            (
                !matches!(self.compression, Compression::None | Compression::Lz4),
                "compression but none and lz4",
            ),
            (self.transactions.given(), "transactions (--transactions)"),
        ];
        match lacking.iter().find(|(is_asked, _)| *is_asked) {
            Some((_, what)) => Err(Failure::Message(format!("the engine flsm has no {what}"))),
            None => Ok(()),
        }
    }

    fn flsm_options(&self) -> evendb_flsm::Options {
        let compression = match self.compression {
            Compression::None => evendb_flsm::Compression::None,
            _ => evendb_flsm::Compression::Lz4,
        };
        let options = evendb_flsm::Options::new()
            .durability(self.durability.into())
            .advanced(|advanced| advanced.compression(compression));
        match self.memory {
            Some(bytes) => options.memory_budget(bytes),
            None => options,
        }
    }

    /// Begins to record, if that was asked for.
    fn begin_trace(&self, slot: &Arc<RecorderHandle>) -> Result<Option<Recorder>, Failure> {
        let Some(path) = &self.trace else {
            return Ok(None);
        };
        output::refuse_inside_database(path, "a trace")?;
        let cannot = || format!("cannot make {}", path.display());
        let file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path);
        let file = file.map_err(|error| Failure::new(cannot(), error))?;
        let options = RecorderOptions {
            one_in: self.trace_one_key_in,
            source: "evendb bench".to_owned(),
            keyspaces: [(0, "default".to_owned())].into(),
            ..RecorderOptions::default()
        };
        let recorder = Recorder::start(slot, file, options);
        Ok(Some(
            recorder.map_err(|error| Failure::new(cannot(), error))?,
        ))
    }
}

/// Ends a trace, and says how it ended.
fn end_trace(recorder: Option<Recorder>) -> Result<(), Failure> {
    let Some(recorder) = recorder else {
        return Ok(());
    };
    let stopped = recorder.stop();
    let summary = stopped.map_err(|error| Failure::new("the trace is not whole", error))?;
    output::complain(&traced::told(&summary));
    Ok(())
}

/// A run: its arguments, its store, and the measurements up to now.
pub struct Bench<'a> {
    pub arguments: &'a Arguments,
    pub store: Box<dyn Store>,
    /// Opens the store.
    open: Box<dyn Fn() -> StoreResult<Box<dyn Store>> + 'a>,
    pub dataset: Dataset,
    pub interrupt: &'a Interrupt,
    disk: DiskReads<'a>,
    results: Vec<PhaseResult>,
    /// The number of phases, for the display of progress only.
    pub planned: usize,
    /// What a replay found in its file.
    pub replayed: Option<ReplayedLog>,
    /// For each phase of transactions, the number of attempts that were refused.
    pub refused: Vec<Value>,
}

/// What is left of a run whose store is closed.
struct Done {
    closed: StoreResult<()>,
    dataset: Dataset,
    results: Vec<PhaseResult>,
    replayed: Option<ReplayedLog>,
    refused: Vec<Value>,
}

impl Done {
    fn report(&self, arguments: &Arguments, memory_bytes: u64) -> Value {
        let replayed = self.replayed.as_ref();
        let mut report = report(
            arguments,
            memory_bytes,
            &self.dataset,
            &self.results,
            replayed,
        );
        report["transactions"] = bench_transactions::refused(self.refused.clone()).into();
        report
    }
}

impl Bench<'_> {
    fn close(self) -> Done {
        Done {
            closed: self.store.close(),
            dataset: self.dataset,
            results: self.results,
            replayed: self.replayed,
            refused: self.refused,
        }
    }

    fn all_phases(&mut self) -> Result<(), Failure> {
        let phases = self.mixes();
        self.planned = 1 + phases.len();
        let text = format!(
            "{}, {} of {}, {} in all, {}",
            self.store.name(),
            counted(self.dataset.records, "record"),
            bytes(self.dataset.record_bytes()),
            bytes(self.dataset.data_bytes()),
            counted(self.arguments.threads.into(), "thread")
        );
        self.begin(&text, Some(self.dataset.data_bytes()))?;
        self.load()?;
        let population = Arc::new(Population::new(self.dataset.records));
        for (mix, kind) in phases {
            if self.interrupt.raised() {
                break;
            }
            self.mix(mix, kind, &population)?;
        }
        Ok(())
    }

    /// Every mix with every distribution; D, which always uses `latest`, once.
    fn mixes(&self) -> Vec<(Mix, DistributionKind)> {
        let mut phases = Vec::new();
        for &wanted in &self.arguments.distributions {
            for &mix in &self.arguments.mixes {
                if mix != Mix::D || phases.iter().all(|(done, _)| *done != Mix::D) {
                    phases.push((mix, mix.distribution(wanted)));
                }
            }
        }
        phases
    }

    /// Says what will be measured, and what the figures mean.
    pub fn begin(&self, what: &str, data_bytes: Option<u64>) -> Result<(), Failure> {
        let given = self.arguments.memory.is_some();
        let memory = bench_text::memory(self.memory_bytes(), given, data_bytes);
        self.print(&format!("{what}\n{memory}\n\n{}", bench_text::LEGEND))
    }

    /// The budget that the store has.
    fn memory_bytes(&self) -> u64 {
        let figures = self.store.stats();
        let budget = figures.iter().find(|figure| figure.name == "memory.budget");
        budget.map_or(0, |figure| figure.value)
    }

    pub fn load(&mut self) -> Result<(), Failure> {
        let (order, seed) = (self.arguments.load_order, self.arguments.seed);
        let mut phase = self.phase("load", order.name(), Limit::default(), true);
        phase.expected_operations = Some(self.dataset.records);
        let population = Arc::new(Population::new(0));
        let result = self.run(&phase, &|_| {
            let (set, all) = (self.dataset.clone(), Arc::clone(&population));
            Box::new(LoadWorker::in_order(set, all, order, seed))
        })?;
        self.report(result)
    }

    fn mix(
        &mut self,
        mix: Mix,
        kind: DistributionKind,
        population: &Arc<Population>,
    ) -> Result<(), Failure> {
        let arguments = self.arguments;
        let distribution =
            Distribution::new(kind, self.dataset.records, arguments.theta, arguments.seed);
        let limit = limit(arguments, lengths(arguments).of(mix));
        let number = self.results.len() as u64;
        if mix == Mix::P && !arguments.keep_open {
            self.open_anew()?;
        }
        let worker_of = |mix: Mix, stream: u64, thread: usize| -> Box<dyn driver::Worker> {
            let (set, all) = (&self.dataset, population);
            Box::new(MixWorker::new(mix, &distribution, set, all, stream, thread))
        };
        let name = format!("warm-up for {mix}");
        let warm = self.phase(&name, kind.name(), warm_limit(limit), false);
        self.run(&warm, &|thread| {
            worker_of(mix.warmed_by(), number | 1 << 32, thread)
        })?;
        if self.interrupt.raised() {
            return Ok(());
        }
        let phase = self.phase(&mix.to_string(), kind.name(), limit, mix.writes());
        let mut result = self.run_measured(&phase, &|thread| worker_of(mix, number, thread))?;
        let ideal = IdealCache::of(mix, &distribution, &self.dataset, self.memory_bytes());
        result.ideal = ideal.map(|ideal| ideal.with_disk(&mut self.disk));
        self.report(result)
    }

    /// Closes the store and opens it again. Meanwhile, and if that fails, an empty one stands in
    /// its place.
    fn open_anew(&mut self) -> Result<(), Failure> {
        std::mem::replace(&mut self.store, Box::new(MemoryStore::new())).close()?;
        self.store = (self.open)()?;
        Ok(())
    }

    pub fn phase(&self, name: &str, distribution: &str, limit: Limit, settle: bool) -> Phase {
        Phase {
            distribution: distribution.to_owned(),
            limit,
            settle,
            course_interval: Duration::from_millis(500),
            ..Phase::new(name, usize::from(self.arguments.threads))
        }
    }

    /// Runs a phase as an open loop if there is a rate.
    pub fn run_measured(
        &self,
        phase: &Phase,
        worker_of: &dyn Fn(usize) -> Box<dyn driver::Worker>,
    ) -> Result<PhaseResult, Failure> {
        let arguments = self.arguments;
        let spacing = match arguments.arrivals {
            ArrivalsArgument::Even => Spacing::Even,
            ArrivalsArgument::Poisson => Spacing::Poisson,
        };
        let arrivals = arguments.rate.map(|per_second| Arrivals {
            per_second,
            swing: None,
            spacing,
            seed: arguments.seed,
        });
        self.run_paced(phase, arrivals, worker_of)
    }

    pub fn run(
        &self,
        phase: &Phase,
        worker_of: &dyn Fn(usize) -> Box<dyn driver::Worker>,
    ) -> Result<PhaseResult, Failure> {
        self.run_paced(phase, None, worker_of)
    }

    fn run_paced(
        &self,
        phase: &Phase,
        arrivals: Option<Arrivals>,
        worker_of: &dyn Fn(usize) -> Box<dyn driver::Worker>,
    ) -> Result<PhaseResult, Failure> {
        let bar = Bar::new(&self.title(phase));
        let (store, flag) = (&*self.store, self.interrupt.flag());
        let result = match arrivals {
            None => driver::run(store, phase, flag, &bar, worker_of),
            Some(arrivals) => driver::run_open(store, phase, arrivals, flag, &bar, worker_of),
        };
        bar.0.finish_and_clear();
        result
            .map_err(|error| Failure::new(format!("{} {}", phase.name, phase.distribution), error))
    }

    /// The phase's name and number. A warm-up belongs to the phase after it.
    fn title(&self, phase: &Phase) -> String {
        let (number, planned) = (self.results.len() + 1, self.planned);
        let name = format!("{} {}", phase.name, phase.distribution);
        format!("[{number}/{planned}] {}", name.trim_end())
    }

    pub fn report(&mut self, result: PhaseResult) -> Result<(), Failure> {
        self.print(&result.to_table())?;
        self.results.push(result);
        Ok(())
    }

    pub fn print(&self, text: &str) -> Result<(), Failure> {
        let mut target = output::out();
        writeln!(target, "{text}")?;
        Ok(target.flush()?)
    }
}

/// Progress: a bar on a terminal, elsewhere a line that says what begins.
struct Bar(ProgressBar);

impl Bar {
    fn new(title: &str) -> Self {
        if !io::stderr().is_terminal() {
            output::complain(title);
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(1000);
        bar.set_draw_target(ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{prefix:<32} {wide_bar} {msg} {elapsed}");
        bar.set_style(style.expect("the template is a constant"));
        bar.set_prefix(title.to_owned());
        // Settling and the creation of distributions do not show their progress.
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }
}

impl Progress for Bar {
    fn update(&self, finished: u64, fraction: Option<f64>) {
        self.0
            .set_position((fraction.unwrap_or(0.0) * 1000.0) as u64);
        let settling = if fraction == Some(1.0) {
            ", settling"
        } else {
            ""
        };
        self.0
            .set_message(format!("{} operations{settling}", grouped(finished)));
    }
}

/// The store's directory; a temporary one is removed when this is dropped.
enum StoreDirectory {
    Given(PathBuf),
    Temporary(tempfile::TempDir),
}

impl StoreDirectory {
    fn new(given: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = given else {
            return tempfile::Builder::new()
                .prefix("evendb-bench-")
                .tempdir()
                .map(Self::Temporary)
                .map_err(|error| Failure::new("cannot make a temporary directory", error));
        };
        if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
            let place = path.display();
            return Err(Failure::Message(format!(
                "{place} is not empty; bench needs a fresh store"
            )));
        }
        Ok(Self::Given(path.to_owned()))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Temporary(directory) => directory.path(),
        }
    }
}

/// The seconds of phases that end by time.
pub fn lengths(arguments: &Arguments) -> PhaseLengths {
    let given = arguments.seconds;
    let given = given.or(arguments.quick.then_some(SECONDS_QUICK));
    given.map_or(PhaseLengths::FULL, PhaseLengths::all)
}

/// The end of a measured phase. If it ends by time, it lasts `seconds`.
pub fn limit(arguments: &Arguments, seconds: f64) -> Limit {
    let by_time = arguments.seconds.is_some() || arguments.ops.is_none();
    let seconds = by_time.then_some(seconds);
    Limit {
        operations: arguments.ops,
        duration: seconds.map(Duration::from_secs_f64),
    }
}

/// How long a phase with this limit is warmed.
pub fn warm_limit(limit: Limit) -> Limit {
    let part = |operations: u64| (operations as f64 / WARMING_PART).ceil() as u64;
    Limit {
        operations: limit.operations.map(part),
        duration: limit.duration.map(|all| all.div_f64(WARMING_PART)),
    }
}

fn description(arguments: &Arguments) -> String {
    let durability = format!("{:?}", arguments.durability).to_lowercase();
    let mut description = format!("durability {durability}");
    if let Some(budget) = arguments.memory {
        description += &format!(", memory {}", bytes(budget));
    }
    if let Some(factor) = arguments.space_amplification {
        description += &format!(", space amplification {factor}");
    }
    if arguments.compression != Compression::None {
        description += &format!(", compression {}", arguments.compression);
    }
    if let Some(from) = arguments.values_apart_from {
        description += &format!(", values apart from {}", bytes(from));
    }
    description
}

fn report(
    arguments: &Arguments,
    memory_bytes: u64,
    dataset: &Dataset,
    results: &[PhaseResult],
    replayed: Option<&ReplayedLog>,
) -> Value {
    let dataset = Some(dataset).filter(|_| !arguments.log.given());
    let lengths = lengths(arguments);
    let by_time = limit(arguments, lengths.seconds).duration.is_some();
    json!({
        "settings": {
            "version": env!("CARGO_PKG_VERSION"),
            "engine": arguments.engine.of_a_new_one().name(),
            "records": dataset.map(|dataset| dataset.records),
            "value_bytes": arguments.value_bytes,
            "compressible": arguments.compressible,
            "compression": arguments.compression.to_string(),
            "values_apart_from": arguments.values_apart_from,
            "data_bytes": dataset.map(Dataset::data_bytes),
            "memory_bytes": memory_bytes,
            "space_amplification": arguments.space_amplification,
            "threads": arguments.threads,
            "operations": arguments.ops,
            "seconds": by_time.then_some(lengths.seconds),
            "put_seconds": by_time.then_some(lengths.put_seconds),
            "keep_open": arguments.keep_open,
            "load_order": arguments.load_order.name(),
            "intended_operations_per_second": arguments.rate,
            "theta": arguments.theta,
            "durability": format!("{:?}", arguments.durability).to_lowercase(),
            "seed": arguments.seed,
            "log": arguments.log.settings(replayed),
        },
        "phases": results.iter().map(PhaseResult::to_json).collect::<Vec<_>>(),
    })
}

fn parse_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= RATE_MAX => Ok(rate),
        _ => Err(format!(
            "`{text}` is no rate above 0 and at most {RATE_MAX}"
        )),
    }
}

pub fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e6 => Ok(seconds),
        _ => Err(format!("`{text}` is no number of seconds above 0")),
    }
}
