//! What caches of rows, blocks, chunks or prefixes would keep of the load.

use super::super::Context;
use super::super::cells::{Words, quoted};
use crate::error::{Error, Result};
use crate::functions::GRAINS;
use crate::places::Place;
use crate::reuse::stack::{Stack, ends};
use crate::reuse::units::{self, Grain, Reads};
use crate::tables;
use arrow::array::cast::AsArray;
use arrow::array::{Array, RecordBatch};
use arrow::datatypes::UInt32Type;
use evendb_report::{Chart, Exactness, Figure, Mark, Unit};
use futures::StreamExt;
use serde_json::Value;

/// What is counted, and in which unit. The first figure tells it.
const READ: &str = "Reads are counted: lookups, pops, and of a scan the key where it begins. Writes are not: most stores write past what they read from. \
                    A row is a pair of key and value; a block is 4 KiB and a chunk 10 MiB of pairs that are neighbours in key order; a prefix \
                    is all keys that begin alike (see the hottest prefixes). Sizes are the mean of the keyspace's keys and known values.";

const MISSES: &str = "Which share of reads would miss a cache that keeps the units used last, by how many units it holds and how much memory these take. \
                    At the same memory, the lower line is the better grain: rows, if hot keys lie scattered; blocks, chunks or prefixes, if they lie \
                    together. Where a line ends, everything read fits, and what misses is read for the first time.";

pub(in super::super) async fn find(context: &Context<'_>) -> Result<Vec<Figure>> {
    let session = context.session;
    let places = Place::all(
        &session
            .rows("SELECT * FROM places ORDER BY keyspace")
            .await?,
    )?;
    let reads = units::find(session, &places).await?;
    if reads.is_empty() {
        return Ok(Vec::new());
    }
    let duration = context.summary.duration_nanos.saturating_add(1);
    let mut stacks = Stacks::new(&reads, duration);
    let file = session.table_file("units");
    let file = quoted(&file.to_string_lossy());
    let sql = format!(
        "SELECT number, start_nanos, sampled_units(keyspace, key, {file}) AS units
         FROM operations WHERE kind IN {} AND {} ORDER BY number",
        tables::reads(),
        tables::DONE
    );
    let mut rows = session.stream(&sql).await?;
    while let Some(batch) = rows.next().await {
        stacks.add(&batch?)?;
    }
    let of = Found {
        reads: &reads,
        stacks: &stacks,
        has_stored: context.has_stored,
    };
    Ok(vec![
        of.miss_ratios(),
        of.reuse_distances(),
        of.working_sets(duration),
        of.locality(),
    ])
}

/// A stack for each keyspace and grain.
struct Stacks(Vec<[Stack; GRAINS.len()]>);

/// Lengths of periods for a trace of this number of nanoseconds: the usual ones that it has several
/// of, and its whole length.
fn periods(duration: u64) -> Vec<u64> {
    let seconds = [
        0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 21_600.0, 86_400.0, 604_800.0,
    ];
    let nanos = seconds.map(|seconds| (seconds * 1e9) as u64);
    let fit = |nanos: &u64| *nanos <= duration / 2 && duration / nanos < 20_000;
    let mut periods: Vec<u64> = nanos.into_iter().filter(fit).collect();
    periods.push(duration);
    periods
}

impl Stacks {
    fn new(reads: &[Reads], duration: u64) -> Stacks {
        let periods = periods(duration);
        let stack = |of: &Grain| Stack::new(&of.sample, &periods);
        let stacks = reads.iter().map(|of| of.grains.each_ref().map(stack));
        Stacks(stacks.collect())
    }

    /// Rows of `number`, `start_nanos` and `units`.
    fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        let nanos = crate::functions::numbers(rows, "start_nanos")?;
        let units = rows.column_by_name("units");
        let units = units.and_then(|units| units.as_fixed_size_list_opt());
        let strange = || Error::Query("the sampled units are not lists of numbers".into());
        let units = units.ok_or_else(strange)?;
        let numbers = units.values().as_primitive_opt::<UInt32Type>();
        let numbers = numbers.ok_or_else(strange)?;
        for (row, &nanos) in nanos.iter().enumerate() {
            if units.is_null(row) {
                continue;
            }
            let first = units.value_offset(row) as usize;
            let keyspace = numbers.value(first) as usize;
            let stacks = self.0.get_mut(keyspace).ok_or_else(strange)?;
            for (grain, stack) in stacks.iter_mut().enumerate() {
                let at = first + 1 + grain;
                if numbers.is_valid(at) {
                    stack.access(numbers.value(at), nanos);
                }
            }
        }
        Ok(())
    }
}

/// The reads and how they were found.
struct Found<'a> {
    reads: &'a [Reads],
    stacks: &'a Stacks,
    has_stored: bool,
}

impl Found<'_> {
    /// All keyspaces and grains: their names, reads, units, and stack.
    fn all(&self) -> impl Iterator<Item = ([Value; 2], &Reads, &Grain, &Stack)> {
        self.reads
            .iter()
            .zip(&self.stacks.0)
            .flat_map(|(reads, stacks)| {
                let grains = GRAINS.iter().zip(reads.grains.iter().zip(stacks));
                grains.map(move |(name, (grain, stack))| {
                    let names = [Value::from(reads.keyspace.as_str()), Value::from(*name)];
                    (names, reads, grain, stack)
                })
            })
    }

    /// The exactness of the figures that use the sample.
    fn exactness(&self) -> Exactness {
        let sizes = self
            .all()
            .map(|(_, _, grain, _)| (grain.sample.len() as u64, grain.units));
        let least = sizes
            .filter(|(sampled, units)| sampled < units)
            .min_by(|(a, of_a), (b, of_b)| (a * of_b).cmp(&(b * of_a)));
        match least {
            None => Exactness::Exact,
            Some((sampled, units)) => Exactness::Sketched(format!(
                "by a weighted sample of units, where there are more than fit; the least part is {sampled} of {units} units. \
                 On loads by Zipf, miss ratios are within 0.01 on average with 1000 units in the sample"
            )),
        }
    }

    fn figure(&self, words: &Words<'_>, rows: Vec<Vec<Value>>, of: Chart) -> Figure {
        let mut figure = words.figure(rows);
        figure.exactness = self.exactness();
        figure
            .charts
            .push(of.with_series("grain").with_panel("keyspace"));
        figure
    }

    fn miss_ratios(&self) -> Figure {
        let mut rows = Vec::new();
        for (names, reads, grain, stack) in self.all() {
            let bins = stack.distances(reads.accesses - grain.units);
            let mut bins = bins.iter().peekable();
            let mut hits = 0.0;
            let sizes = ends().take_while(|&end| end < grain.units);
            for size in sizes.chain([grain.units]) {
                while let Some(bin) = bins.next_if(|bin| bin.distance <= size) {
                    hits += bin.accesses;
                }
                if size == grain.units {
                    hits += bins.by_ref().map(|bin| bin.accesses).sum::<f64>();
                }
                let ratio = (1.0 - hits / reads.accesses as f64).clamp(0.0, 1.0);
                let bytes = (size as f64 * grain.unit_bytes).round() as u64;
                let [keyspace, name] = names.clone();
                rows.push(vec![
                    keyspace,
                    name,
                    size.into(),
                    bytes.into(),
                    ratio.into(),
                ]);
            }
        }
        let mut about = format!("{MISSES} {READ}");
        if !self.has_stored {
            about += " Keys that the trace does not name take no room.";
        }
        let words = Words {
            id: "miss-ratios",
            title: "Misses of a cache by its size",
            about: &about,
            section: "6, caches; 7.1, block cache",
            columns: &[
                ("keyspace", Unit::Text),
                ("grain", Unit::Text),
                ("units", Unit::Count),
                ("bytes", Unit::Bytes),
                ("miss_ratio", Unit::Share),
            ],
        };
        let mut line = Chart::new(Mark::Line, "bytes", "miss_ratio");
        line.x_log = true;
        self.figure(&words, rows, line)
    }

    fn reuse_distances(&self) -> Figure {
        let mut rows = Vec::new();
        for (names, reads, grain, stack) in self.all() {
            let mut so_far = 0.0;
            for bin in stack.distances(reads.accesses - grain.units) {
                so_far += bin.accesses;
                let share = (so_far / reads.accesses as f64).clamp(0.0, 1.0);
                let [keyspace, name] = names.clone();
                let accesses = bin.accesses.round().max(0.0) as u64;
                if accesses > 0 {
                    rows.push(vec![
                        keyspace,
                        name,
                        bin.distance.into(),
                        accesses.into(),
                        share.into(),
                    ]);
                }
            }
        }
        let words = Words {
            id: "reuse-distances",
            title: "How much is read between two reads of the same",
            about: "The distance of a read is how many different units were read since its unit was read last, itself counted: 1 is the same unit again at once. \
                    A row has the reads up to its distance and above the row before; the share is that of all reads up to there. What a line lacks to 1 \
                    at its end are first reads. Reads and grains are those of the misses of a cache.",
            section: "6, temporal locality",
            columns: &[
                ("keyspace", Unit::Text),
                ("grain", Unit::Text),
                ("distance", Unit::Count),
                ("accesses", Unit::Count),
                ("accesses_up_to", Unit::Share),
            ],
        };
        let mut steps = Chart::new(Mark::Step, "distance", "accesses_up_to");
        steps.x_log = true;
        self.figure(&words, rows, steps)
    }

    fn working_sets(&self, duration: u64) -> Figure {
        let mut rows = Vec::new();
        for (names, _, grain, stack) in self.all() {
            for (nanos, units) in stack.working_sets(duration, grain.units) {
                let Some(units) = units else { continue };
                let [keyspace, name] = names.clone();
                let bytes = (units * grain.unit_bytes).round() as u64;
                rows.push(vec![
                    keyspace,
                    name,
                    (nanos as f64 / 1e9).into(),
                    units.into(),
                    bytes.into(),
                ]);
            }
        }
        let words = Words {
            id: "working-set",
            title: "What is read in a period",
            about: "How many different units are read in a period on average, by its length, and what memory they take. The longest period is the whole trace; \
                    of the others, whole ones are counted. A line that flattens says that the same is read again and again. Reads and grains are those of the \
                    misses of a cache.",
            section: "4.2, unique keys; 6, temporal locality",
            columns: &[
                ("keyspace", Unit::Text),
                ("grain", Unit::Text),
                ("period_seconds", Unit::Seconds),
                ("units", Unit::Number),
                ("bytes", Unit::Bytes),
            ],
        };
        let mut line = Chart::new(Mark::Line, "period_seconds", "bytes");
        (line.x_log, line.y_log) = (true, true);
        self.figure(&words, rows, line)
    }

    fn locality(&self) -> Figure {
        let mut rows = Vec::new();
        for ([keyspace, name], reads, grain, _) in self.all() {
            let most = |share: f64| grain.share_of_hottest(share, reads.accesses);
            rows.push(vec![
                keyspace,
                name,
                grain.units.into(),
                (reads.accesses as f64 / grain.units as f64).into(),
                most(0.01).into(),
                most(0.1).into(),
                (grain.unit_bytes.round() as u64).into(),
            ]);
        }
        let words = Words {
            id: "locality",
            title: "How unevenly units are read",
            about: "How many units of each grain are read, how often on average, and which share of reads the hottest hundredth and the hottest tenth of them have \
                    (rounded up to whole units). Shares that fall from rows to blocks and chunks say that hot keys lie scattered among cold ones. Reads and grains are those of the misses \
                    of a cache.",
            section: "6, key-space locality",
            columns: &[
                ("keyspace", Unit::Text),
                ("grain", Unit::Text),
                ("units", Unit::Count),
                ("accesses_per_unit", Unit::Number),
                ("share_of_top_1_percent", Unit::Share),
                ("share_of_top_10_percent", Unit::Share),
                ("unit_bytes", Unit::Bytes),
            ],
        };
        let bars = Chart::new(Mark::Bar, "grain", "share_of_top_1_percent").with_series("keyspace");
        let mut figure = words.figure(rows);
        figure.charts.push(bars);
        figure
    }
}
