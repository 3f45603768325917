//! The picker's rules on a tree whose tables are lists of keys in RAM. It measures how many bytes
//! are written for a byte put, and how many runs a read finds.
//!
//! Trees, guards, the choice of guards and the picker are the real ones; only the bytes are
//! missing. All records have one size, and a buffer, which becomes a run of level 0, holds few
//! records: the ratios are what matters.

use super::{Plan, shape};
use crate::guards::picker::{LAST, Limits, pick};
use crate::guards::plan::runs_of_log;
use crate::guards::tree::bare::BareTables;
use crate::guards::tree::choose::{Chooser, GuardRule};
use crate::guards::tree::looks::Level0;
use crate::guards::tree::{Tree, TreeEdit};
use crate::manifest::Level;
use crate::sync::Arc;
use crate::tables::TableHandle;
use evendb_storage::TableId;
use evendb_storage::table::TableMeta;
use std::collections::{BTreeSet, HashMap, HashSet};

const RECORD_BYTES: u64 = 1000;
const KEY_BYTES: usize = 8;

/// Which keys are put.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// New keys, in random order.
    Insert,
    /// Uniformly over this many keys, which are all there after the first round.
    Overwrite(u32),
    /// Over this many keys too, but four fifths of the puts go to a fifth of the keys.
    Skewed(u32),
    /// New keys, ascending.
    Sequential,
}

/// A small generator of random numbers (splitmix64), so that runs repeat.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u32) -> u32 {
        (self.next() % u64::from(end)) as u32
    }
}

impl Load {
    /// The key of put number `at`.
    fn key(self, at: u32, rng: &mut Rng) -> u32 {
        // A bijection, so that keys with near numbers are far apart.
        let spread = |number: u32| number.wrapping_mul(0x9e37_79b1);
        match self {
            Load::Insert => spread(at),
            Load::Overwrite(keys) if at < keys => spread(at),
            Load::Overwrite(keys) => spread(rng.below(keys)),
            Load::Skewed(keys) if at < keys => spread(at),
            Load::Skewed(keys) => match rng.below(5) {
                0 => spread(rng.below(keys)),
                _ => spread(rng.below(keys / 5)),
            },
            Load::Sequential => at,
        }
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("{number:08x}").into_bytes()
}

#[derive(Clone, Copy, Debug, Default)]
struct Written {
    user: u64,
    first: u64,
    moved: u64,
    merged: u64,
    jobs: u64,
    merged_last: u64,
}

/// Which of the existing keys seeks look for.
#[derive(Clone, Copy, Debug)]
enum Seeks {
    /// Anywhere.
    Uniform,
    /// Nine tenths of them go to one contiguous tenth of the key space.
    Skewed,
}

impl Seeks {
    fn key(self, rng: &mut Rng) -> u32 {
        let whole = rng.next() as u32;
        match self {
            Seeks::Skewed if rng.below(10) > 0 => whole / 10,
            _ => whole,
        }
    }
}

struct Model {
    limits: Limits,
    guards: Arc<GuardRule>,
    tree: Tree,
    /// Newest first.
    level0: Vec<Arc<TableHandle>>,
    keys: HashMap<TableId, Vec<u32>>,
    tables: BareTables,
    last_id: u64,
    checkpoint: u64,
    written: Written,
    /// All keys that were ever put.
    put: HashSet<u32>,
}

impl Model {
    fn new(limits: Limits, guards: GuardRule) -> Model {
        Model {
            limits,
            guards: Arc::new(guards),
            tree: Tree::default(),
            level0: Vec::new(),
            keys: HashMap::new(),
            tables: BareTables::new(),
            last_id: 0,
            checkpoint: 0,
            written: Written::default(),
            put: HashSet::new(),
        }
    }

    fn table(&mut self, keys: Vec<u32>, checkpoint: u64) -> Arc<TableHandle> {
        self.last_id += 1;
        let meta = TableMeta {
            len: keys.len() as u64 * RECORD_BYTES,
            entries: keys.len() as u64,
            min_key: key(keys[0]),
            max_key: key(keys[keys.len() - 1]),
            ..TableMeta::default()
        };
        self.keys.insert(TableId(self.last_id), keys);
        self.tables.of_checkpoint(self.last_id, checkpoint, meta)
    }

    fn put(&mut self, puts: &[u32]) {
        self.put.extend(puts);
        let keys: BTreeSet<u32> = puts.iter().copied().collect();
        let keys: Vec<u32> = keys.into_iter().collect();
        let tree = self.tree.clone();
        let rule = self.guards.clone();
        let mut chooser = Chooser::new(&tree, &rule);
        let value = [0; RECORD_BYTES as usize - KEY_BYTES];
        // A table of the run ends where a guard begins.
        let mut tables: Vec<Vec<u32>> = vec![Vec::new()];
        for &number in &keys {
            let last = tables.last_mut().expect("there is one");
            match !last.is_empty() && chooser.parts(&key(number), &value) {
                true => tables.push(vec![number]),
                false => last.push(number),
            }
            chooser.look_at(&key(number), &value);
        }
        let guards = chooser.finish();
        self.written.user += puts.len() as u64 * RECORD_BYTES;
        self.written.first += keys.len() as u64 * RECORD_BYTES;
        self.checkpoint += 1;
        for keys in tables {
            let table = self.table(keys, self.checkpoint);
            self.level0.insert(0, table);
        }
        let edit = TreeEdit {
            guards,
            ..TreeEdit::default()
        };
        self.tree.apply(&edit).expect("an edit that fits");
    }

    /// Does a job, and says whether there was one.
    fn work(&mut self) -> bool {
        let Some(job) = pick(&shape(&self.tree, &self.level0), &self.limits) else {
            return false;
        };
        let plan = Plan::of(&self.tree, &self.level0, job, &self.limits);
        let own = plan.runs.iter().flatten();
        let keys = own.flat_map(|own| self.keys.remove(&own.id()).expect("its keys"));
        let keys: BTreeSet<u32> = keys.collect();
        let bytes = keys.len() as u64 * RECORD_BYTES;
        self.written.jobs += 1;
        match plan.from == plan.to {
            true if usize::from(plan.to.0) == LAST => self.written.merged_last += bytes,
            true => self.written.merged += bytes,
            false => self.written.moved += bytes,
        }
        let cuts = plan.cuts(&self.tree);
        let keys: Vec<u32> = keys.into_iter().collect();
        let new = self.pieces(&keys, &cuts);
        if plan.from == Level(0) {
            self.level0.clear();
        }
        let edit = plan.edit(&self.tree, new);
        self.tree.apply(&edit).expect("an edit that fits");
        true
    }

    /// Tables of the keys `keys`, cut at `cuts`.
    fn pieces(&mut self, keys: &[u32], cuts: &[Arc<[u8]>]) -> Vec<Arc<TableHandle>> {
        let guard_of = |number: &u32| cuts.partition_point(|cut| **cut <= *key(*number));
        keys.chunk_by(|a, b| guard_of(a) == guard_of(b))
            .map(|piece| self.table(piece.to_vec(), 0))
            .collect()
    }

    /// Seeks, and does the jobs that this makes due. Returns how many tables the seek looked into.
    fn seek(&mut self, number: u32) -> u64 {
        let key = key(number);
        let levels = Tree::guarded_levels();
        let runs = levels.map(|level| self.tree.guards(level).of(&key).runs().count());
        let level0_runs = runs_of_log(&self.level0).count();
        let looks = (level0_runs + runs.sum::<usize>()) as u64;
        let level0 = Level0 {
            runs: level0_runs,
            bytes: self.level0.iter().map(|run| run.part_len()).sum(),
        };
        let look_bytes = self.limits.look_bytes;
        if self.tree.note_seek(Some(&key), 1, level0, look_bytes) {
            self.settle();
        }
        looks
    }

    fn settle(&mut self) {
        let mut jobs = 0;
        while self.work() {
            jobs += 1;
            assert!(jobs < 100_000, "it never settles");
        }
    }

    fn runs_max(&self) -> usize {
        let guards = Tree::guarded_levels().flat_map(|level| self.tree.guards(level).all());
        guards.map(|guard| guard.runs().count()).max().unwrap_or(0)
    }

    /// The average number of runs that a seek finds in a guard of the last level, without level 0.
    fn runs_of_a_seek(&self) -> f64 {
        let last = self.tree.guards(Level(LAST as u8)).all();
        let runs = |key: &[u8]| -> usize {
            Tree::guarded_levels()
                .map(|level| self.tree.guards(level).of(key).runs().count())
                .sum()
        };
        last.iter().map(|guard| runs(&guard.low)).sum::<usize>() as f64 / last.len() as f64
    }

    fn bytes(&self) -> u64 {
        let lens = self.tree.fragments().map(|(_, own)| own.meta().len);
        lens.chain(self.level0.iter().map(|run| run.part_len()))
            .sum()
    }

    fn live_bytes(&self) -> u64 {
        self.put.len() as u64 * RECORD_BYTES
    }
}

struct Figures {
    amplification: f64,
    written: Written,
    seek: f64,
    seek_max: f64,
    space_max: f64,
    runs_max: usize,
    model: Model,
}

/// Puts `buffers` buffers, and settles after each.
fn run(limits: Limits, last_guard_bytes: u64, load: Load, buffers: u32, seed: u64) -> Figures {
    let mut model = Model::new(limits, GuardRule::new(last_guard_bytes, 1));
    let mut rng = Rng(seed);
    let records = (limits.run_bytes / RECORD_BYTES) as u32;
    let (mut seek, mut seek_max, mut space_max, mut runs_max) = (0.0, 0f64, 0f64, 0);
    for buffer in 0..buffers {
        let numbers = buffer * records..(buffer + 1) * records;
        let puts: Vec<u32> = numbers.map(|at| load.key(at, &mut rng)).collect();
        model.put(&puts);
        model.settle();
        runs_max = runs_max.max(model.runs_max());
        let now = model.runs_of_a_seek();
        seek += now / f64::from(buffers);
        seek_max = seek_max.max(now);
        if buffer > buffers / 2 && buffer % 8 == 0 {
            space_max = space_max.max(model.bytes() as f64 / model.live_bytes() as f64);
        }
    }
    let written = model.written;
    let all = written.first + written.moved + written.merged + written.merged_last;
    Figures {
        amplification: all as f64 / written.user as f64,
        written,
        seek,
        seek_max,
        space_max,
        runs_max,
        model,
    }
}

#[test]
fn guards_keep_few_runs_and_less_is_written_where_they_may_have_more() {
    let records = 100;
    for load in [
        Load::Insert,
        Load::Overwrite(30 * records),
        Load::Sequential,
    ] {
        let figures = [1, 2, 4].map(|runs| {
            let limits = Limits {
                run_bytes: u64::from(records) * RECORD_BYTES,
                level0_runs: 4,
                max_files_per_guard: runs,
                look_bytes: 0,
            };
            let figures = run(limits, limits.run_bytes, load, 100, 1);
            assert_eq!(figures.runs_max, runs.min(figures.runs_max), "{load:?}");
            let kept: HashSet<u32> = figures.model.keys.values().flatten().copied().collect();
            assert_eq!(kept, figures.model.put, "{load:?}");
            figures
        });
        let [one, two, four] = figures.map(|figures| figures.amplification);
        match load {
            Load::Sequential => {
                assert!(one.max(two).max(four) < 1.2, "{load:?}: {one} {two} {four}");
            }
            _ => assert!(
                four < two && two < one && four < 4.5,
                "{load:?}: {one} {two} {four}"
            ),
        }
    }
}

/// Prints figures for the design.
#[test]
#[ignore = "prints figures; run with --ignored --nocapture"]
fn figures() {
    let buffer = 250;
    println!(
        "runs load buffers: write amplification (first moved merged last), runs of a seek mean max, space"
    );
    for runs in [1usize, 2, 3, 4, 6] {
        for (load, buffers) in [
            (Load::Insert, 80),
            (Load::Insert, 320),
            (Load::Insert, 1280),
            (Load::Overwrite(80 * buffer), 640),
            (Load::Overwrite(320 * buffer), 1280),
            (Load::Skewed(320 * buffer), 1280),
            (Load::Sequential, 320),
        ] {
            let limits = Limits {
                run_bytes: u64::from(buffer) * RECORD_BYTES,
                level0_runs: 4,
                max_files_per_guard: runs,
                look_bytes: 0,
            };
            let figures = run(limits, limits.run_bytes, load, buffers, 1);
            let part = |bytes: u64| bytes as f64 / figures.written.user as f64;
            println!(
                "{runs} {load:?} {buffers}: {:.1} ({:.1} {:.1} {:.1} {:.1}), {:.1} {:.1}, {:.2}; {} tables of {} KB, {} jobs, {} runs",
                figures.amplification,
                part(figures.written.first),
                part(figures.written.moved),
                part(figures.written.merged),
                part(figures.written.merged_last),
                figures.seek,
                figures.seek_max,
                figures.space_max,
                figures.model.keys.len(),
                figures.model.bytes() / 1000 / figures.model.keys.len() as u64,
                figures.written.jobs,
                figures.runs_max,
            );
        }
    }
}

/// Bytes that a look reads.
const BLOCK_BYTES: u64 = 4096;

/// What a load costs that has seeks.
struct Cost {
    /// Bytes of tables written after the first load, divided by the bytes put after it. If nothing
    /// was put, divided by the bytes of all data.
    amplification: f64,
    /// Average number of tables that a seek looked into: over all rounds, and in the last round.
    looks: f64,
    looks_last: f64,
    /// Bytes that looks read, plus bytes that jobs read and write.
    bytes: f64,
}

/// Loads `buffers` buffers. Then it runs `rounds` rounds, each with one buffer of puts if `puts`
/// says so, and with `per_round` seeks.
fn run_with_seeks(
    look_bytes: u64,
    (load, buffers): (Load, u32),
    (rounds, puts): (u32, bool),
    (seeks, per_round): (Seeks, u32),
    secret: u64,
) -> Cost {
    let records = 250;
    let limits = Limits {
        run_bytes: u64::from(records) * RECORD_BYTES,
        level0_runs: 4,
        max_files_per_guard: 4,
        look_bytes,
    };
    let mut model = Model::new(limits, GuardRule::new(limits.run_bytes, secret));
    let mut rng = Rng(1);
    let put_buffer = |model: &mut Model, rng: &mut Rng, buffer: u32| {
        let numbers = buffer * records..(buffer + 1) * records;
        let puts: Vec<u32> = numbers.map(|at| load.key(at, rng)).collect();
        model.put(&puts);
        model.settle();
    };
    (0..buffers).for_each(|buffer| put_buffer(&mut model, &mut rng, buffer));
    let jobs_bytes = |written: &Written| written.moved + written.merged + written.merged_last;
    let before = model.written;
    let (mut looks, mut looks_last) = (0, 0);
    for round in 0..rounds {
        if puts {
            put_buffer(&mut model, &mut rng, buffers + round);
        }
        looks_last = 0;
        for _ in 0..per_round {
            looks_last += model.seek(seeks.key(&mut rng));
        }
        looks += looks_last;
    }
    let jobs = jobs_bytes(&model.written) - jobs_bytes(&before);
    let put = match puts {
        true => model.written.user - before.user,
        false => model.bytes(),
    };
    let all = f64::from(rounds * per_round);
    Cost {
        amplification: jobs as f64 / put as f64,
        looks: looks as f64 / all,
        looks_last: looks_last as f64 / f64::from(per_round),
        bytes: (2 * jobs + looks * BLOCK_BYTES) as f64,
    }
}

/// A load that was written and is then only read pays for one merge of everything, and looks into
/// one table from then on. What seeks pay for never costs much more than the looks would cost
/// without it.
#[test]
fn seeks_pay_for_jobs_that_spare_them_more() {
    let loaded = (Load::Insert, 60);
    let look = BLOCK_BYTES / 16;
    for seeks in [Seeks::Uniform, Seeks::Skewed] {
        let only = |look_bytes, rounds| {
            run_with_seeks(look_bytes, loaded, (rounds, false), (seeks, 250), 1)
        };
        let (without, with) = (only(0, 400), only(look, 400));
        assert!(without.looks > 3.0, "{}", without.looks);
        assert!(with.looks_last < 1.6, "{seeks:?}: {}", with.looks_last);
        assert!(
            with.bytes < without.bytes * 0.6,
            "{seeks:?}: {} {}",
            with.bytes,
            without.bytes
        );
        // Loads that end soon, and loads with puts between the seeks.
        for (rounds, puts, per_round) in [(5, false, 250), (60, true, 250), (60, true, 25)] {
            let bytes = |look_bytes| -> f64 {
                let (load, seeks) = ((rounds, puts), (seeks, per_round));
                // Which keys are guards moves the figures of one short load by a tenth.
                let costs = (1..=8).map(|s| run_with_seeks(look_bytes, loaded, load, seeks, s));
                costs.map(|cost| cost.bytes).sum()
            };
            let ratio = bytes(look) / bytes(0);
            assert!(
                ratio < if puts { 1.01 } else { 1.12 },
                "{seeks:?} {rounds} {puts} {per_round}: {ratio}"
            );
        }
    }
}

/// Prints figures of loads with seeks, for different values of `look_bytes`.
#[test]
#[ignore = "prints figures; run with --ignored --nocapture"]
fn figures_of_seeks() {
    println!(
        "load, seeks a put: bytes of a look: looks mean last, jobs' amplification, all bytes by those without"
    );
    let loaded = (Load::Insert, 320);
    let overwritten = (Load::Overwrite(320 * 250), 320);
    for (name, load, rounds, puts, per_round) in [
        ("insert 20 : 1", loaded, 40, true, 5000),
        ("insert 1 : 1", loaded, 320, true, 250),
        ("insert 1 : 10", loaded, 320, true, 25),
        ("read only, short", loaded, 40, false, 250),
        ("read only, long", loaded, 1000, false, 250),
        ("overwrite 20 : 1", overwritten, 40, true, 5000),
        ("overwrite 1 : 1", overwritten, 320, true, 250),
    ] {
        for seeks in [Seeks::Uniform, Seeks::Skewed] {
            let mut without = 0.0;
            for look_bytes in [0, 128, 256, 512, 1024, 2048] {
                let cost = run_with_seeks(look_bytes, load, (rounds, puts), (seeks, per_round), 1);
                if look_bytes == 0 {
                    without = cost.bytes;
                }
                println!(
                    "{name} {seeks:?} {look_bytes}: {:.1} {:.1}, {:.1}, {:.2}",
                    cost.looks,
                    cost.looks_last,
                    cost.amplification,
                    cost.bytes / without
                );
            }
        }
    }
}
