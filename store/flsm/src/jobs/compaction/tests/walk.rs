//! Flushes and jobs of a keyspace in any order, and the records that readers find meanwhile.

use super::*;
use crate::compaction::flush::flush;
use crate::compaction::job;
use crate::compaction::picker::{Limits, pick};
use crate::compaction::plan::{Plan, shape};
use crate::compaction::rewrite::Rewritten;
use crate::cursor::MergeCursor;
use crate::cursor::level::{level_cursor, table_cursor};
use crate::tree::choose::GuardRule;
use crate::tree::{Tree, verify};
use crate::types::{LEVELS, Level};
use crate::visibility::Horizon;
use evendb_storage::TableId;
use proptest::prelude::*;
use std::collections::{BTreeSet, HashSet};
use std::path::Path;

const LAST_GUARD_BYTES: u64 = 40;
/// Bytes of a job that one look pays for: large, so that few seeks pay for a job.
const LOOK_BYTES: u64 = 100;

/// A keyspace whose jobs take a while: they are planned and done at once, and shown later.
struct Database {
    vfs: SimVfs,
    making: Making,
    limits: Limits,
    tree: Tree,
    /// All records that were ever written.
    written: Records,
    memory: Records,
    version: u64,
    snapshots: Vec<u64>,
    pending: Vec<(Plan, Rewritten)>,
}

impl Database {
    fn new(max_files_per_guard: usize) -> Database {
        let vfs = SimVfs::new(1);
        Database {
            making: making(&vfs),
            vfs,
            limits: Limits {
                // Small, so that several levels are in use.
                write_buffer_bytes: 10,
                level0_tables: 2,
                max_files_per_guard,
                look_bytes: LOOK_BYTES,
            },
            tree: Tree::default(),
            written: Records::new(),
            memory: Records::new(),
            version: 0,
            snapshots: Vec::new(),
            pending: Vec::new(),
        }
    }

    fn write(&mut self, key: &[u8], value: Option<Vec<u8>>) {
        self.version += 1;
        let place = (key.to_vec(), Reverse(self.version));
        self.memory.insert(place.clone(), value.clone());
        self.written.insert(place, value);
    }

    fn horizon(&self) -> Horizon {
        let snapshots = self.snapshots.iter().map(|&at| Version(at)).collect();
        Horizon::new(Version(self.version), snapshots)
    }

    fn flush(&mut self) {
        let mut cursor = Memory::new(&std::mem::take(&mut self.memory));
        let horizon = self.horizon();
        let flushed = flush(
            &self.making,
            &self.tree,
            &GuardRule::new(LAST_GUARD_BYTES, 1),
            &mut cursor,
            &horizon,
            &never,
        );
        self.show(flushed.unwrap());
    }

    fn show(&mut self, rewritten: Rewritten) {
        let edit = rewritten.edit(&self.making.numbers);
        self.tree.apply(&edit).unwrap();
        edit.removed.iter().for_each(|(_, table)| table.retire());
    }

    /// Begins the next job, if there is one.
    fn begin(&mut self) -> bool {
        let busy: HashSet<TableId> = self
            .pending
            .iter()
            .flat_map(|(plan, _)| plan.tables().map(|table| table.number))
            .collect();
        let Some(picked) = pick(&shape(&self.tree, &busy), &self.limits) else {
            return false;
        };
        let plan = Plan::of(&self.tree, picked, &self.limits);
        assert!(plan.tables().all(|table| !busy.contains(&table.number)));
        let ran = job::run(&self.making, &self.tree, &plan, &self.horizon(), &never);
        self.pending.push((plan, ran.unwrap()));
        true
    }

    /// Shows the result of one of the jobs that have begun.
    fn end(&mut self, which: usize) {
        if !self.pending.is_empty() {
            let (_, rewritten) = self.pending.swap_remove(which % self.pending.len());
            self.show(rewritten);
        }
    }

    fn settle(&mut self) {
        let mut jobs = 0;
        while !self.pending.is_empty() || self.begin() {
            self.end(0);
            jobs += 1;
            assert!(jobs < 10_000, "it never settles");
        }
    }

    fn get(&self, key: &[u8], at: u64) -> Option<Vec<u8>> {
        let found = self
            .tree
            .tables_for(key)
            .find_map(|table| table.open().unwrap().get(key, Version(at)).unwrap())?;
        let value = found.block.bytes()[found.value].to_vec();
        (found.kind == Kind::Put).then_some(value)
    }

    fn expected(&self, at: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut seen = BTreeMap::new();
        // Newest first: the first version that the reader sees counts.
        for ((key, version), value) in &self.written {
            if version.0 <= at && !self.memory.contains_key(&(key.clone(), *version)) {
                seen.entry(key.clone()).or_insert(value.clone());
            }
        }
        let live = seen.into_iter();
        live.filter_map(|(key, value)| Some((key, value?)))
            .collect()
    }

    fn cursor(&self) -> MergeCursor {
        let level0 = self.tree.level0().iter();
        let level0 = level0.map(|table| table_cursor(table.clone(), READAHEAD));
        let tree = Arc::new(self.tree.clone());
        let levels =
            Tree::guarded_levels().map(|level| level_cursor(tree.clone(), level, READAHEAD));
        MergeCursor::new(level0.chain(levels).collect())
    }

    /// Checks that every reader finds what was written, by gets and by scans in both directions.
    fn check(&self) {
        let published = self.version;
        for at in self.snapshots.iter().copied().chain([published]) {
            let expected = self.expected(at);
            let keys: BTreeSet<&Vec<u8>> = self.written.keys().map(|place| &place.0).collect();
            for key in keys {
                assert_eq!(
                    self.get(key, at),
                    expected.get(key).cloned(),
                    "{key:?} at {at}"
                );
            }
        }
        let expected: Vec<_> = self.expected(published).into_iter().collect();
        let mut found: BTreeMap<Vec<u8>, (u64, Option<Vec<u8>>)> = BTreeMap::new();
        let mut cursor = self.cursor();
        cursor.seek_first().unwrap();
        while cursor.valid() {
            let entry = cursor.entry();
            let value = (entry.kind == Kind::Put).then(|| entry.value.to_vec());
            found
                .entry(entry.key.to_vec())
                .or_insert((entry.version.0, value));
            cursor.next().unwrap();
        }
        let live = found.into_iter();
        let live: Vec<_> = live
            .filter_map(|(key, (_, value))| Some((key, value?)))
            .collect();
        assert_eq!(live, expected);
        let (mut back, mut cursor) = (0, self.cursor());
        cursor.seek_last().unwrap();
        while cursor.valid() {
            back += 1;
            cursor.prev().unwrap();
        }
        let entries = self.tree.tables().map(|(_, table)| table.meta.entries);
        assert_eq!(back, entries.sum::<u64>());
    }

    /// Checks that the disk has exactly the tables of the trees.
    fn check_files(&self) {
        let named: BTreeSet<String> = self
            .tree
            .tables()
            .map(|(_, table)| {
                table
                    .path()
                    .file_name()
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        let there: BTreeSet<String> = self.vfs.file_names(Path::new("/db")).into_iter().collect();
        assert_eq!(there, named);
    }

    fn verify(&self) {
        verify::verify(&self.tree, &mut |level, table, verified| {
            assert!(verified.is_ok(), "{level:?} {table:?}: {verified:?}");
        });
    }

    fn runs_max(&self) -> usize {
        let guards = Tree::guarded_levels().flat_map(|level| self.tree.guards(level).all());
        guards.map(|guard| guard.runs().count()).max().unwrap_or(0)
    }

    fn levels_in_use(&self) -> usize {
        let levels: BTreeSet<Level> = self.tree.tables().map(|(level, _)| level).collect();
        levels.len()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8),
    Delete(u8),
    Flush,
    Begin,
    Seek(u8, u8),
    End(u8),
    Snapshot,
    Release(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => (0u8..40, 0u8..30).prop_map(|(key, len)| Step::Put(key, len)),
        8 => (0u8..40).prop_map(Step::Delete),
        5 => Just(Step::Flush),
        6 => Just(Step::Begin),
        5 => (0u8..40, 1u8..9).prop_map(|(key, weight)| Step::Seek(key, weight)),
        5 => any::<u8>().prop_map(Step::End),
        1 => Just(Step::Snapshot),
        1 => any::<u8>().prop_map(Step::Release),
    ];
    prop::collection::vec(step, 1..400)
}

/// The number of walks. Each walk is long, so there are few, unless the variable asks for more.
fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|asked| asked.parse().ok()).unwrap_or(48)
}

fn key(number: u8) -> Vec<u8> {
    match number {
        0 => Vec::new(),
        _ => format!("{number:02}").into_bytes(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: cases(), ..ProptestConfig::default() })]
    /// Flushes and jobs in any order, jobs that run while others end, guards that are chosen
    /// meanwhile.
    #[test]
    fn every_reader_finds_what_was_written(runs in 1usize..5, steps in steps()) {
        let mut database = Database::new(runs);
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Put(at, len) => database.write(&key(at), Some(vec![number as u8; len.into()])),
                Step::Delete(at) => database.write(&key(at), None),
                Step::Flush => database.flush(),
                Step::Begin => { database.begin(); }
                Step::Seek(at, weight) => {
                    database.tree.note_seek(Some(&key(at)), weight.into(), LOOK_BYTES);
                }
                Step::End(which) => {
                    database.end(which.into());
                    database.check();
                }
                Step::Snapshot => database.snapshots.push(database.version),
                Step::Release(which) => {
                    if !database.snapshots.is_empty() {
                        let which = usize::from(which) % database.snapshots.len();
                        database.snapshots.remove(which);
                    }
                }
            }
        }
        database.flush();
        database.settle();
        prop_assert!(database.runs_max() <= runs);
        database.check();
        database.check_files();
        database.verify();
    }
}

/// Puts enough data for several levels, and checks that the test above has them, too.
#[test]
fn levels_come_into_use_from_below_and_guards_have_few_runs() {
    for runs in 1..5 {
        let mut database = Database::new(runs);
        let mut used = Vec::new();
        for round in 0..60u32 {
            for number in 0..12 {
                let number = (round * 12 + number).wrapping_mul(0x9e37_79b1);
                database.write(format!("{number:08x}").as_bytes(), Some(b"value".to_vec()));
            }
            database.flush();
            database.settle();
            assert!(database.runs_max() <= runs);
            used.push(database.levels_in_use());
        }
        assert_eq!(used[0], 1);
        assert!(used.iter().max() >= Some(&3), "{runs} runs: {used:?}");
        let last = Level(LEVELS as u8 - 1);
        assert!(database.tree.guards(last).all().len() > 50);
        database.check();
        database.check_files();
    }
}

/// Deletes are much smaller than what they hide.
#[test]
fn what_is_deleted_goes_though_little_is_written() {
    for runs in 1..5 {
        let mut database = Database::new(runs);
        let key = |number: u32| format!("{:08x}", number.wrapping_mul(0x9e37_79b1));
        let all = 200;
        for number in 0..all {
            database.write(key(number).as_bytes(), Some(vec![7; 500]));
            if number % 20 == 19 {
                database.flush();
                database.settle();
            }
        }
        let bytes = |database: &Database| {
            let tables = database.tree.tables();
            tables.map(|(_, table)| table.meta.len).sum::<u64>()
        };
        let before = bytes(&database);
        for number in (0..all).rev() {
            database.write(key(number).as_bytes(), None);
            if number % 20 == 0 {
                database.flush();
                database.settle();
            }
        }
        assert!(
            bytes(&database) < before / 3,
            "{runs} runs: {} of {before}",
            bytes(&database)
        );
        assert!(database.expected(database.version).is_empty());
        database.check();
    }
}

/// Seeks until they have nothing left to spare: all records are in one run of each guard of the
/// last level.
#[test]
fn what_is_sought_again_and_again_becomes_one_run() {
    for runs in 1..5 {
        let mut database = Database::new(runs);
        for number in 0..600u32 {
            let number = number.wrapping_mul(0x9e37_79b1);
            database.write(format!("{number:08x}").as_bytes(), Some(b"value".to_vec()));
            if number % 12 == 0 {
                database.flush();
                database.settle();
            }
        }
        database.flush();
        database.settle();
        let mut became_due = 0;
        for round in 0..100_000u32 {
            let key = format!("{:08x}", round.wrapping_mul(0x9e37_79b1));
            if database.tree.note_seek(Some(key.as_bytes()), 8, LOOK_BYTES) {
                became_due += 1;
                assert!(database.begin(), "what is told to be due is found");
                database.settle();
            }
        }
        assert!(became_due > 0);
        assert_eq!((database.runs_max(), database.levels_in_use()), (1, 1));
        database.check();
        database.check_files();
    }
}
