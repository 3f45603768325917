//! [`Arguments`]: what the command is told, what it refuses, and the store and the trace that
//! follow from it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use evendb::{Compression, Options};
use evendb_lab::dataset::Dataset;
use evendb_lab::distribution::{DistributionKind, THETA_DEFAULT, parse_theta};
use evendb_lab::mix::{LoadOrder, Mix};
use evendb_lab::readable::bytes;
use evendb_lab::store::{Store, StoreResult};
use evendb_lab::stores::evendb::EvenDbStore;
use evendb_lab::traced::TracedStore;
use evendb_lab::value::VALUE_BYTES_MIN;
use evendb_trace::{Recorder, RecorderHandle, RecorderOptions};

use super::event_log::LogArguments;
use super::limits::{parse_rate, parse_seconds};
use super::transactions::TransactionArguments;
use crate::failure::Failure;
use crate::key_file::KeyFile;
use crate::open::{DurabilityArgument, LayoutArgument};
use crate::output;
use evendb::forms::parse_size;

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
  evendb bench --layout guards --mixes P,A,C --load-order random
  evendb bench --event-log --size 2GiB
  evendb bench --transactions low,high --threads 16 --size 1GiB
  evendb bench --replay events.txt --threads 4")]
pub struct Arguments {
    /// Where to make the store; must be missing or empty, and is kept. Without it, a temporary
    /// directory that is removed at the end
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) dir: Option<PathBuf>,
    /// Bytes of keys and values to load
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256MiB")]
    pub(super) size: u64,
    /// Bytes of a value
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "800")]
    pub(super) value_bytes: u64,
    /// The percentage of a value that compresses to next to nothing
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(super) compressible: u8,
    /// Compression of the store's tables: none, lz4, or zstd, also with a level as zstd:9
    #[arg(long, value_name = "COMPRESSION", default_value = "none")]
    pub(super) compression: Compression,
    #[command(flatten)]
    pub(super) layout: LayoutArgument,
    #[command(flatten)]
    pub(super) key_file: KeyFile,
    /// Values of at least this number of bytes are written into files of their own, as 4KiB; never
    /// if not given
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(super) values_apart_from: Option<u64>,
    /// The store's memory budget; its default if not given
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(super) memory: Option<u64>,
    /// How much larger than its live data the store may be on disk, 1.01 to 10; its default if not
    /// given. More space, fewer bytes written
    #[arg(long, value_name = "FACTOR")]
    pub(super) space_amplification: Option<f64>,
    /// Worker threads
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) threads: u16,
    /// Operations of a phase
    #[arg(long)]
    pub(super) ops: Option<u64>,
    /// Seconds of a phase [default without --ops: 20, of puts alone 60; quick: 6]
    #[arg(long, value_parser = parse_seconds)]
    pub(super) seconds: Option<f64>,
    /// Short phases: the whole run takes two minutes, and some six without this
    #[arg(long)]
    pub(super) quick: bool,
    /// Leave the store open from the load to the last phase
    #[arg(long)]
    pub(super) keep_open: bool,
    /// The order in which records are loaded
    #[arg(long, value_enum, default_value_t)]
    pub(super) load_order: LoadOrder,
    /// Operations a second over all threads: an open loop
    #[arg(long, value_name = "OPS", value_parser = parse_rate)]
    pub(super) rate: Option<f64>,
    /// How the operations of an open loop are spread
    #[arg(long, value_enum, default_value = "even", requires = "rate")]
    pub(super) arrivals: ArrivalsArgument,
    /// The mixes
    #[arg(long, value_delimiter = ',', default_value = "P,A,B,C,E100")]
    pub(super) mixes: Vec<Mix>,
    /// The access distributions
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "zipf-simple,zipf-composite"
    )]
    pub(super) distributions: Vec<DistributionKind>,
    /// The skew of the Zipf distributions, above 0 and below 1
    #[arg(long, default_value_t = THETA_DEFAULT, value_parser = parse_theta)]
    pub(super) theta: f64,
    /// What a put survives when it returns
    #[arg(long, value_enum, default_value = "process")]
    pub(super) durability: DurabilityArgument,
    /// Write settings and results to this file
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Record the store's operations in this file, load included; costs some throughput. See evendb
    /// trace and replay
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,
    /// Record one key in this number of keys
    #[arg(long, value_name = "KEYS", default_value_t = 1, requires = "trace")]
    pub(super) trace_one_key_in: u64,
    /// The seed of keys, values and operations
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    #[command(flatten, next_help_heading = "Event logs")]
    pub(super) log: LogArguments,
    #[command(flatten, next_help_heading = "Transactions")]
    pub(super) transactions: TransactionArguments,
}

/// How operations are spread in time.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum ArrivalsArgument {
    /// One every 1 / rate seconds
    Even,
    /// At random, as many independent clients do
    Poisson,
}

impl Arguments {
    /// Refuses what cannot be done, before anything is made.
    pub(super) fn refuse(&self) -> Result<(), Failure> {
        if self.value_bytes < VALUE_BYTES_MIN as u64 || self.value_bytes > 1 << 30 {
            return Err(Failure::Usage(format!(
                "--value-bytes must be at least {VALUE_BYTES_MIN} and at most 1GiB"
            )));
        }
        if let Some(path) = &self.json {
            output::refuse_output(path, "a report")?;
        }
        Ok(())
    }

    pub(super) fn dataset(&self) -> Dataset {
        let mut dataset = Dataset::of_size(self.size, self.value_bytes as usize, self.seed);
        dataset.values = dataset.values.compressible(self.compressible);
        dataset
    }

    /// What opens the store in `directory`. If a trace is made, the store records to `slot`.
    pub(super) fn opener(
        &self,
        directory: &Path,
        slot: Arc<RecorderHandle>,
    ) -> impl Fn() -> StoreResult<Box<dyn Store>> + use<'_> {
        let directory = directory.to_owned();
        move || {
            let store = EvenDbStore::open(&directory, self.options(), &description(self))?;
            let store = Box::new(store);
            Ok(match self.trace {
                None => store,
                Some(_) => Box::new(TracedStore::new(store, slot.clone())),
            })
        }
    }

    fn options(&self) -> Options {
        let mut options = Options::new()
            .durability(self.durability.into())
            .compression(self.compression);
        options = self.key_file.given_to(options);
        if let Some(layout) = self.layout.layout {
            options = options.layout(layout);
        }
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

    /// Begins to record, if that was asked for.
    pub(super) fn begin_trace(
        &self,
        slot: &Arc<RecorderHandle>,
    ) -> Result<Option<Recorder>, Failure> {
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

fn description(arguments: &Arguments) -> String {
    let durability = format!("{:?}", arguments.durability).to_lowercase();
    let mut description = format!("durability {durability}");
    if let Some(budget) = arguments.memory {
        description += &format!(", memory {}", bytes(budget));
    }
    if let Some(layout) = arguments.layout.layout {
        description += &format!(", layout {layout}");
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
