//! Checkpoints and jobs of a keyspace in any order, on tables that are lists of records in RAM, and
//! what a reader finds in the chains meanwhile.
//!
//! Trees, guards, plans, and what may be dropped are the real ones. There are no snapshots: of each
//! key the newest record stays, or none.

use super::older::Older;
use super::sweep::Sweep;
use super::*;
use crate::guards::picker::{Limits, pick};
use crate::guards::tree::bare::BareTables;
use crate::guards::tree::choose::{Chooser, GuardRule};
use crate::guards::tree::looks::Level0;
use crate::manifest::edit::Place;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

/// A record by its key: its version, and the length of its value. A delete has none.
type Records = BTreeMap<Vec<u8>, (u64, Option<usize>)>;

const LAST_GUARD_BYTES: u64 = 40;
/// Bytes of a job that one look pays for: large, so that few seeks pay for a job.
const LOOK_BYTES: u64 = 100;
/// The records of a new table.
const TABLE_RECORDS: usize = 5;

struct Keyspace {
    limits: Limits,
    rule: GuardRule,
    tree: Tree,
    /// Newest first.
    level0: Vec<Arc<TableHandle>>,
    records: HashMap<TableId, Records>,
    /// All keys that were ever written, with the newest records.
    written: Records,
    delta: Records,
    version: u64,
    /// Tables that no job can read. Jobs find out when they begin.
    bad: HashSet<TableId>,
    /// The job that runs, with its new tables.
    running: Option<(Plan, Vec<Arc<TableHandle>>)>,
    tables: BareTables,
    last_id: u64,
}

impl Keyspace {
    fn new(max_files_per_guard: usize) -> Keyspace {
        Keyspace {
            limits: Limits {
                // Small, so that several levels are in use.
                run_bytes: 10,
                level0_runs: 2,
                max_files_per_guard,
                look_bytes: LOOK_BYTES,
            },
            rule: GuardRule::new(LAST_GUARD_BYTES, 1),
            tree: Tree::default(),
            level0: Vec::new(),
            records: HashMap::new(),
            written: Records::new(),
            delta: Records::new(),
            version: 0,
            bad: HashSet::new(),
            running: None,
            tables: BareTables::new(),
            last_id: 0,
        }
    }

    fn write(&mut self, key: &[u8], value: Option<usize>) {
        self.version += 1;
        self.delta.insert(key.to_vec(), (self.version, value));
        self.written.insert(key.to_vec(), (self.version, value));
    }

    fn table(&mut self, place: Place, records: Records) -> Arc<TableHandle> {
        self.last_id += 1;
        let lens = records
            .iter()
            .map(|(key, (_, value))| key.len() + value.unwrap_or(0));
        let data_bytes = lens.sum::<usize>() as u64;
        let deletes = records
            .values()
            .filter(|(_, value)| value.is_none())
            .count();
        let meta = TableMeta {
            len: data_bytes + 1,
            data_bytes,
            entries: records.len() as u64,
            deletes: deletes as u64,
            min_key: records.keys().next().expect("a record").clone(),
            max_key: records.keys().next_back().expect("a record").clone(),
            ..TableMeta::default()
        };
        self.records.insert(TableId(self.last_id), records);
        self.tables.table(self.last_id, place, meta)
    }

    /// Tables of `records`, which end at cuts and when they are full.
    fn pieces(&mut self, records: Records, cuts: &[Arc<[u8]>]) -> Vec<Arc<TableHandle>> {
        let all: Vec<_> = records.into_iter().collect();
        let guard_of = |key: &[u8]| cuts.partition_point(|cut| **cut <= *key);
        let guards = all.chunk_by(|a, b| guard_of(&a.0) == guard_of(&b.0));
        let pieces = guards.flat_map(|guard| guard.chunks(TABLE_RECORDS));
        pieces
            .map(|piece| self.table(Place::File, piece.iter().cloned().collect()))
            .collect()
    }

    fn checkpoint(&mut self) {
        let records = std::mem::take(&mut self.delta);
        if records.is_empty() {
            return;
        }
        let mut chooser = Chooser::new(&self.tree, &self.rule);
        for (key, (_, value)) in &records {
            chooser.look_at(key, &vec![0; value.unwrap_or(0)]);
        }
        let guards = chooser.finish();
        let run = self.table(Place::Extent { offset: 0 }, records);
        self.level0.insert(0, run);
        let edit = TreeEdit {
            guards,
            ..TreeEdit::default()
        };
        self.tree.apply(&edit).expect("an edit that fits");
    }

    /// Begins the next job, if none runs. Its result is made at once, and shown when it ends.
    fn begin(&mut self) -> bool {
        let next = || pick(&shape(&self.tree, &self.level0), &self.limits);
        let job = if self.running.is_none() { next() } else { None };
        job.is_some_and(|job| {
            self.begin_job(job);
            true
        })
    }

    fn begin_job(&mut self, job: Job) {
        let plan = Plan::of(&self.tree, &self.level0, job, &self.limits);
        assert!(plan.tables().next().is_some(), "{job:?}");
        let mut read = plan.runs.iter().flatten();
        if let Some(bad) = read.find(|own| self.bad.contains(&own.id())) {
            assert!(!bad.is_damaged(), "{job:?} reads what could not be read");
            bad.table.note_damage();
            return;
        }
        let mut merged = Records::new();
        for own in plan.runs.iter().flatten() {
            for (key, record) in &self.records[&own.id()] {
                let newest = merged.entry(key.clone()).or_insert(*record);
                assert!(newest.0 >= record.0, "runs stand newest first");
            }
        }
        let older = Older::than(&self.tree, &plan);
        merged.retain(|key, (_, value)| value.is_some() || older.meets(key, key));
        let cuts = plan.cuts(&self.tree);
        let new = self.pieces(merged, &cuts);
        self.running = Some((plan, new));
    }

    /// Shows the result of the job that runs.
    fn end(&mut self) {
        let Some((plan, new)) = self.running.take() else {
            return;
        };
        let edit = plan.edit(&self.tree, new);
        self.tree.apply(&edit).expect("an edit that fits");
        if plan.from == Level(0) {
            let own: HashSet<TableId> = plan.tables().map(Fragment::id).collect();
            self.level0.retain(|run| !own.contains(&run.part.table));
        }
        for own in plan.runs.iter().flatten() {
            self.records.remove(&own.id());
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Put(at, len) => self.write(&key(at), Some(len.into())),
            Step::Delete(at) => self.write(&key(at), None),
            Step::Checkpoint => self.checkpoint(),
            Step::Begin => drop(self.begin()),
            Step::End => {
                self.end();
                self.check();
            }
            Step::Seek(at, weight) => drop(self.note_seek(&key(at), weight.into())),
            Step::Sweep(low, len) => {
                sweep(self, key(low), Some(key(low + len + 1)));
                self.check();
            }
            Step::Damage(at) => self.damage(at.into()),
        }
    }

    fn settle(&mut self) {
        self.end();
        for jobs in 0.. {
            if !self.begin() {
                break;
            }
            self.end();
            assert!(jobs < 10_000, "it never settles");
        }
    }

    /// One of the tables cannot be read any more. Readers have its records all the same, so that
    /// the order of what they find can be told.
    fn damage(&mut self, at: usize) {
        let below = self.tree.fragments().map(|(_, own)| own.id());
        let all = self.level0.iter().map(|run| run.part.table).chain(below);
        let all: Vec<TableId> = all.collect();
        if let Some(&id) = all.get(at % all.len().max(1)) {
            self.bad.insert(id);
        }
    }

    fn note_seek(&self, key: &[u8], weight: u64) -> bool {
        let level0 = Level0 {
            runs: self.level0.len(),
            bytes: self.level0.iter().map(|run| run.part_len()).sum(),
        };
        self.tree.note_seek(Some(key), weight, level0, LOOK_BYTES)
    }

    /// The first record that a reader finds.
    fn get(&self, key: &[u8]) -> Option<usize> {
        if let Some((_, value)) = self.delta.get(key) {
            return *value;
        }
        let chains = self.tree.chains().iter().flat_map(|chain| chain.iter());
        let tables = self.level0.iter().chain(chains);
        let mut found = tables.filter_map(|table| self.records[&table.part.table].get(key));
        found.next().and_then(|(_, value)| *value)
    }

    fn check(&self) {
        for (key, (_, value)) in &self.written {
            assert_eq!(self.get(key), *value, "{key:?}");
        }
    }

    fn bytes(&self) -> u64 {
        let level0 = self.level0.iter().map(|run| run.part_len());
        let below = self.tree.fragments().map(|(_, own)| own.meta().len);
        level0.chain(below).sum()
    }

    fn runs_max(&self) -> usize {
        let guards = Tree::guarded_levels().flat_map(|level| self.tree.guards(level).all());
        guards
            .map(|guard| guard.free_runs().count())
            .max()
            .unwrap_or(0)
    }

    fn levels_in_use(&self) -> usize {
        let mut levels: Vec<Level> = self.tree.fragments().map(|(level, _)| level).collect();
        levels.dedup();
        levels.len() + usize::from(!self.level0.is_empty())
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8),
    Delete(u8),
    Checkpoint,
    Begin,
    End,
    Seek(u8, u8),
    Sweep(u8, u8),
    Damage(u8),
}

fn steps(damages: u32) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        40 => (0u8..40, 0u8..30).prop_map(|(key, len)| Step::Put(key, len)),
        16 => (0u8..40).prop_map(Step::Delete),
        10 => Just(Step::Checkpoint),
        12 => Just(Step::Begin),
        10 => Just(Step::End),
        10 => (0u8..40, 1u8..9).prop_map(|(key, weight)| Step::Seek(key, weight)),
        1 => (0u8..40, 0u8..40).prop_map(|(low, len)| Step::Sweep(low, len)),
        damages => (0u8..40).prop_map(Step::Damage),
    ];
    prop::collection::vec(step, 1..400)
}

fn key(number: u8) -> Vec<u8> {
    match number {
        0 => Vec::new(),
        _ => format!("{number:02}").into_bytes(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    /// Checkpoints beside jobs in any order, and guards that are chosen meanwhile.
    #[test]
    fn every_reader_finds_what_was_written(runs in 1usize..5, steps in steps(0)) {
        let mut keyspace = Keyspace::new(runs);
        steps.iter().for_each(|step| keyspace.step(step));
        keyspace.checkpoint();
        keyspace.settle();
        prop_assert!(keyspace.runs_max() <= runs);
        keyspace.check();
        sweep(&mut keyspace, Vec::new(), None);
        keyspace.check();
        // All is in one run of each guard of the last level, without deletes.
        prop_assert!(keyspace.runs_max() <= 1 && keyspace.levels_in_use() <= 1);
        let kept: usize = keyspace.records.values().map(Records::len).sum();
        let live = keyspace.written.values().filter(|(_, value)| value.is_some());
        prop_assert_eq!(kept, live.count());
    }

    /// Tables that cannot be read, anywhere: no job tries one twice, level 0 goes down, guards have
    /// no more runs that can be merged than without damage, and the newest record is found first.
    #[test]
    fn jobs_go_on_around_damage(runs in 1usize..5, steps in steps(2)) {
        let mut keyspace = Keyspace::new(runs);
        steps.iter().for_each(|step| keyspace.step(step));
        keyspace.checkpoint();
        keyspace.settle();
        prop_assert!(keyspace.runs_max() <= runs);
        prop_assert!(keyspace.level0.len() < keyspace.limits.level0_runs);
        keyspace.check();
        // The second sweep knows all tables that cannot be read. What lies below one of them is
        // free when a guard is cut between the two, which that sweep does; the third merges it.
        (0..3).for_each(|_| sweep(&mut keyspace, Vec::new(), None));
        prop_assert!(keyspace.level0.is_empty() && keyspace.runs_max() <= 1);
        keyspace.check();
    }
}

fn sweep(keyspace: &mut Keyspace, low: Vec<u8>, high: Option<Vec<u8>>) {
    keyspace.end();
    let mut sweep = Sweep::new(low, high);
    while let Some(job) = sweep.next(&keyspace.tree, &keyspace.level0) {
        keyspace.begin_job(job);
        keyspace.end();
    }
}

/// Puts enough data for several levels, and checks that the test above has them, too.
#[test]
fn levels_come_into_use_from_below_and_guards_have_few_runs() {
    for runs in 1..5 {
        let mut keyspace = Keyspace::new(runs);
        let mut used = Vec::new();
        for round in 0..60u32 {
            for number in 0..12 {
                let number = (round * 12 + number).wrapping_mul(0x9e37_79b1);
                keyspace.write(format!("{number:08x}").as_bytes(), Some(5));
            }
            keyspace.checkpoint();
            keyspace.settle();
            assert!(keyspace.runs_max() <= runs);
            used.push(keyspace.levels_in_use());
        }
        assert_eq!(used[0], 1);
        assert!(used.iter().max() >= Some(&3), "{runs} runs: {used:?}");
        assert!(keyspace.tree.guards(Level(6)).all().len() > 50);
        keyspace.check();
    }
}

/// Deletes are much smaller than what they hide.
#[test]
fn what_is_deleted_goes_though_little_is_written() {
    for runs in 1..5 {
        let mut keyspace = Keyspace::new(runs);
        let key = |number: u32| format!("{:08x}", number.wrapping_mul(0x9e37_79b1));
        let all = 200;
        for number in 0..all {
            keyspace.write(key(number).as_bytes(), Some(500));
            if number % 20 == 19 {
                keyspace.checkpoint();
                keyspace.settle();
            }
        }
        let before = keyspace.bytes();
        for number in (0..all).rev() {
            keyspace.write(key(number).as_bytes(), None);
            if number % 20 == 0 {
                keyspace.checkpoint();
                keyspace.settle();
            }
        }
        let after = keyspace.bytes();
        assert!(after < before / 3, "{runs} runs: {after} of {before}");
        keyspace.check();
    }
}

/// Seeks until they have nothing left to spare: all records are in one run of each guard of the
/// last level.
#[test]
fn what_is_sought_again_and_again_becomes_one_run() {
    for runs in 1..5 {
        let mut keyspace = Keyspace::new(runs);
        for number in 0..600u32 {
            let number = number.wrapping_mul(0x9e37_79b1);
            keyspace.write(format!("{number:08x}").as_bytes(), Some(5));
            if number % 12 == 0 {
                keyspace.checkpoint();
                keyspace.settle();
            }
        }
        keyspace.checkpoint();
        keyspace.settle();
        let mut became_due = 0;
        for round in 0..100_000u32 {
            let key = format!("{:08x}", round.wrapping_mul(0x9e37_79b1));
            if keyspace.note_seek(key.as_bytes(), 8) {
                became_due += 1;
                assert!(keyspace.begin(), "what is told to be due is found");
                keyspace.settle();
            }
        }
        assert!(became_due > 0);
        assert_eq!((keyspace.runs_max(), keyspace.levels_in_use()), (1, 1));
        keyspace.check();
    }
}
