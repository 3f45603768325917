use super::flush::flush;
use super::job;
use super::picker::{Job, Limits, pick};
use super::plan::{Plan, shape};
use super::rewrite::{Making, Rewritten, Stopped};
use super::visibility::Horizon;
use crate::cursor::level::{level_cursor, table_cursor};
use crate::cursor::{EntryCursor, MergeCursor};
use crate::files::FileNumbers;
use crate::tables::TableFile;
use crate::tables::tests::{FORM, Record, sim_dir, table_of};
use crate::tree::tests::guard;
use crate::tree::{Tree, TreeEdit, verify};
use crate::types::{FileNumber, LEVELS, Level};
use evendb_storage::table::ReadAhead;
use evendb_storage::vfs::{Fault, FaultKind, FaultOn, SimVfs};
use evendb_storage::{EntryRef, ErrorKind, Kind, Result, TableId, Version};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;

const LAST_GUARD_BYTES: u64 = 40;
const READAHEAD: ReadAhead = ReadAhead {
    seek: 1,
    next: 1,
    max: 1,
};

/// Key and version (descending) to value; none for a delete.
type Records = BTreeMap<(Vec<u8>, Reverse<u64>), Option<Vec<u8>>>;

/// A memory table.
struct Memory {
    records: Vec<(Vec<u8>, u64, Option<Vec<u8>>)>,
    at: usize,
}

impl Memory {
    fn new(records: &Records) -> Memory {
        Memory {
            records: records
                .iter()
                .map(|((key, version), value)| (key.clone(), version.0, value.clone()))
                .collect(),
            at: usize::MAX,
        }
    }
}

impl EntryCursor for Memory {
    fn valid(&self) -> bool {
        self.at < self.records.len()
    }
    fn seek(&mut self, _key: &[u8]) -> Result<()> {
        unreachable!("a flush goes from the first record on")
    }
    fn seek_before(&mut self, _key: &[u8]) -> Result<()> {
        unreachable!("a flush goes from the first record on")
    }
    fn seek_first(&mut self) -> Result<()> {
        self.at = 0;
        Ok(())
    }
    fn seek_last(&mut self) -> Result<()> {
        unreachable!("a flush goes from the first record on")
    }
    fn next(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        unreachable!("a flush goes forward")
    }
    fn entry(&self) -> EntryRef<'_> {
        let (key, version, value) = &self.records[self.at];
        EntryRef {
            key,
            version: Version(*version),
            kind: if value.is_some() {
                Kind::Put
            } else {
                Kind::Delete
            },
            value: value.as_deref().unwrap_or_default(),
        }
    }
}

fn making(vfs: &SimVfs) -> Making {
    Making {
        place: sim_dir(vfs),
        numbers: Arc::new(FileNumbers::new(FileNumber(1))),
        form: FORM,
        table_bytes_max: 300,
    }
}

fn never() -> bool {
    false
}

/// A keyspace whose jobs take a while: planned and done now, shown later.
struct Database {
    vfs: SimVfs,
    making: Making,
    limits: Limits,
    tree: Tree,
    /// All that was ever written.
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
                // So few that several levels are in use.
                write_buffer_bytes: 10,
                level0_tables: 2,
                max_files_per_guard,
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
            LAST_GUARD_BYTES,
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
        let plan = Plan::of(&self.tree, picked);
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
        // Newest first: the first that is seen counts.
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

    /// Every reader finds what was written, by gets and by scans in both directions.
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

    /// What is on the disk is what the trees have.
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
        5 => any::<u8>().prop_map(Step::End),
        1 => Just(Step::Snapshot),
        1 => any::<u8>().prop_map(Step::Release),
    ];
    prop::collection::vec(step, 1..400)
}

/// Each walk is long, so there are not many, unless more are asked for.
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
    /// Flushes and jobs in any order, jobs that are under way while others end, guards that are chosen meanwhile.
    #[test]
    fn every_reader_finds_what_was_written(runs in 1usize..5, steps in steps()) {
        let mut database = Database::new(runs);
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Put(at, len) => database.write(&key(at), Some(vec![number as u8; len.into()])),
                Step::Delete(at) => database.write(&key(at), None),
                Step::Flush => database.flush(),
                Step::Begin => { database.begin(); }
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

/// Enough data for several levels, and that the test above has them.
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

/// What a job made of these runs, newest first, in level 5, over a table of level 6 that has `"m"`.
fn done(runs: &[&[Record<'_>]], within: Option<usize>, snapshots: &[u64]) -> Vec<(Vec<u8>, u64)> {
    let vfs = SimVfs::new(1);
    let making = making(&vfs);
    let mut edit = TreeEdit::default();
    for (records, age) in runs.iter().zip((10..20).rev()) {
        edit.added
            .push((Level(5), table_of(&making.place, age, age, records)));
        making.numbers.skip(FileNumber(20));
    }
    let below = table_of(&making.place, 1, 1, &[(b"m", 1, Kind::Put, b"below")]);
    edit.added.push((Level(6), below));
    let mut tree = Tree::default();
    tree.apply(&edit).unwrap();
    let (level, guard) = (Level(5), 0);
    let planned = match within {
        Some(runs) => Job::Within { level, guard, runs },
        None => Job::Down { level, guard },
    };
    let plan = Plan::of(&tree, planned);
    let horizon = Horizon::new(
        Version(99),
        snapshots.iter().map(|&at| Version(at)).collect(),
    );
    let ran = job::run(&making, &tree, &plan, &horizon, &never);
    let edit = ran.unwrap().edit(&making.numbers);
    let mut records = Vec::new();
    for (_, table) in &edit.added {
        let mut cursor = table_cursor(table.clone(), READAHEAD);
        cursor.seek_first().unwrap();
        while cursor.valid() {
            let entry = cursor.entry();
            records.push((entry.key.to_vec(), entry.version.0));
            cursor.next().unwrap();
        }
    }
    records
}

#[test]
fn tombstones_go_where_nothing_older_is_left() {
    use Kind::{Delete, Put};
    let a = |version| (b"a".to_vec(), version);
    let m = |version| (b"m".to_vec(), version);
    let newest: &[Record<'_>] = &[(b"a", 9, Delete, b""), (b"m", 8, Delete, b"")];
    let middle: &[Record<'_>] = &[(b"a", 7, Put, b"v"), (b"z", 6, Put, b"v")];
    let oldest: &[Record<'_>] = &[(b"a", 5, Put, b"v")];
    let z = (b"z".to_vec(), 6);
    // Below lies an older "m", and no older "a".
    assert_eq!(
        done(&[newest, middle, oldest], None, &[]),
        [m(8), z.clone()]
    );
    assert_eq!(
        done(&[newest, middle, oldest], Some(3), &[]),
        [m(8), z.clone()]
    );
    // An older "a" lies in the run that is not merged.
    assert_eq!(
        done(&[newest, middle, oldest], Some(2), &[]),
        [a(9), m(8), z.clone()]
    );
    assert_eq!(done(&[newest, oldest], Some(2), &[6]), [a(9), a(5), m(8)]);
    assert_eq!(
        done(&[newest, middle, oldest], None, &[6]),
        [a(9), a(5), m(8), z]
    );
    assert_eq!(done(&[&[(b"a", 9, Delete, b"")]], None, &[]), []);
}

#[test]
fn versions_of_a_key_stay_in_one_table_and_others_are_cut() {
    let vfs = SimVfs::new(1);
    let making = making(&vfs);
    let versions = 200;
    let value = [7; 20];
    let many: Vec<_> = (0..versions)
        .map(|at| (&b"k"[..], 1000 - at, Kind::Put, &value[..]))
        .collect();
    let around: Vec<Vec<u8>> = (0..100)
        .map(|at| format!("l{at:02}").into_bytes())
        .collect();
    let mut records = vec![(&b""[..], 1, Kind::Put, &value[..])];
    records.extend(&many);
    records.extend(
        around
            .iter()
            .map(|key| (&key[..], 1, Kind::Put, &value[..])),
    );
    let table = table_of(&making.place, 1, 1, &records);
    making.numbers.skip(FileNumber(1));
    let mut tree = Tree::default();
    tree.apply(&TreeEdit {
        added: vec![(Level(0), table)],
        guards: vec![guard("k", 6), guard("l50", 6), guard("l500", 6)],
        ..TreeEdit::default()
    })
    .unwrap();
    let plan = Plan::of(&tree, Job::FromLevel0 { to: Level(6) });
    // Somebody reads each of them.
    let snapshots = (800..1001).map(Version).collect();
    let horizon = Horizon::new(Version(1000), snapshots);
    let ran = job::run(&making, &tree, &plan, &horizon, &never);
    let edit = ran.unwrap().edit(&making.numbers);
    tree.apply(&edit).unwrap();
    let tables: Vec<&Arc<TableFile>> = edit.added.iter().map(|(_, table)| table).collect();
    assert!(tables.is_sorted_by(|a, b| a.meta.max_key < b.meta.min_key && a.age == b.age));
    assert_eq!(
        tables.iter().map(|table| table.meta.entries).sum::<u64>(),
        301
    );
    let with_k = tables.iter().find(|table| table.covers(b"k")).unwrap();
    assert_eq!(*with_k.meta.min_key, *b"k");
    assert!(with_k.meta.entries >= versions && with_k.meta.len > 10 * making.table_bytes_max);
    assert!(
        tables
            .iter()
            .filter(|table| table.meta.len < 2 * making.table_bytes_max)
            .count()
            > 5
    );
    assert_eq!(tree.guards(Level(6)).all().len(), 4);
    assert!(tree.guards(Level(6)).chosen().is_empty());
    for at in [801, 900, 1000] {
        let mut found = tree.tables_for(b"k").filter_map(|table| {
            let found = table.open().unwrap().get(b"k", Version(at)).unwrap();
            found.map(|found| found.version)
        });
        assert_eq!(found.next(), Some(Version(at)));
    }
}

/// Two jobs go down to one wide guard, and end in the other order than they began; between them what the first brought is
/// merged with a table that has older records of the other's keys.
#[test]
fn what_comes_last_to_a_guard_is_the_newest_there() {
    let vfs = SimVfs::new(1);
    let making = making(&vfs);
    let of = |number: u64, keys: &[&'static str]| {
        let records: Vec<Record<'_>> = keys
            .iter()
            .map(|key| (key.as_bytes(), number, Kind::Put, &b""[..]))
            .collect();
        making.numbers.skip(FileNumber(number));
        table_of(&making.place, number, number, &records)
    };
    let mut tree = Tree::default();
    tree.apply(&TreeEdit {
        guards: vec![guard("m", 5)],
        added: vec![
            (Level(6), of(1, &["a", "z"])),
            (Level(5), of(2, &["a"])),
            (Level(5), of(3, &["z"])),
        ],
        ..TreeEdit::default()
    })
    .unwrap();
    let horizon = Horizon::new(Version(9), vec![]);
    let begin = |tree: &Tree, job: Job| {
        let ran = job::run(&making, tree, &Plan::of(tree, job), &horizon, &never);
        ran.unwrap()
    };
    let down = |guard| Job::Down {
        level: Level(5),
        guard,
    };
    let (left, right) = (begin(&tree, down(0)), begin(&tree, down(1)));
    tree.apply(&right.edit(&making.numbers)).unwrap();
    assert_eq!(tree.guards(Level(6)).all().len(), 1);
    let within = Job::Within {
        level: Level(6),
        guard: 0,
        runs: 2,
    };
    let merged = begin(&tree, within);
    tree.apply(&merged.edit(&making.numbers)).unwrap();
    tree.apply(&left.edit(&making.numbers)).unwrap();
    let first = tree.tables_for(b"a").next().unwrap();
    assert_eq!(first.meta.max_version, Version(2));
    verify::verify(&tree, &mut |_, table, verified| {
        assert!(verified.is_ok(), "{table:?}: {verified:?}");
    });
}

/// Two runs of level 0 and where they would go.
fn two_runs(vfs: &SimVfs) -> (Making, Tree, Plan) {
    let making = making(vfs);
    let keys: Vec<Vec<u8>> = (0..60).map(|at| format!("{at:03}").into_bytes()).collect();
    let mut edit = TreeEdit::default();
    for age in 1..3 {
        let records: Vec<_> = keys
            .iter()
            .map(|key| (&key[..], age, Kind::Put, &[9; 20][..]))
            .collect();
        edit.added
            .push((Level(0), table_of(&making.place, age, age, &records)));
    }
    making.numbers.skip(FileNumber(2));
    let mut tree = Tree::default();
    tree.apply(&edit).unwrap();
    let plan = Plan::of(&tree, Job::FromLevel0 { to: Level(6) });
    (making, tree, plan)
}

#[test]
fn a_job_that_fails_anywhere_leaves_no_files() {
    let (mut failures, mut done) = (0, false);
    for (on, kind) in [
        (FaultOn::Change, FaultKind::Eio),
        (FaultOn::Change, FaultKind::NoSpace),
        (FaultOn::Sync, FaultKind::SyncFailsThenClean),
        (FaultOn::Read, FaultKind::Eio),
        (FaultOn::Lookup, FaultKind::Eio),
    ] {
        for at in 0..200 {
            let vfs = SimVfs::new(1);
            let (making, tree, plan) = two_runs(&vfs);
            vfs.inject(Fault {
                at,
                on,
                kind,
                sticky: false,
                path_contains: None,
            });
            let horizon = Horizon::new(Version(9), vec![]);
            let ran = job::run(&making, &tree, &plan, &horizon, &never);
            vfs.clear_faults();
            match ran {
                Ok(rewritten) => {
                    assert!(rewritten.finished.len() > 3);
                    done = true;
                    break;
                }
                Err(stopped) => {
                    assert!(matches!(stopped, Stopped::Failed(_)));
                    failures += 1;
                    let names = vfs.file_names(Path::new("/db"));
                    assert_eq!(names, ["TABLE-000001", "TABLE-000002"], "{on:?} {at}");
                }
            }
        }
    }
    assert!(done && failures > 30, "{failures} failures");
}

#[test]
fn a_job_that_is_cancelled_anywhere_leaves_no_files() {
    let mut cancelled = 0;
    for after in 0.. {
        let vfs = SimVfs::new(1);
        let (making, tree, plan) = two_runs(&vfs);
        let left = std::cell::Cell::<u32>::new(after);
        let is_cancelled = || left.replace(left.get().saturating_sub(1)) == 0;
        let horizon = Horizon::new(Version(9), vec![]);
        match job::run(&making, &tree, &plan, &horizon, &is_cancelled) {
            Ok(_) => break,
            Err(stopped) => assert!(matches!(stopped, Stopped::Cancelled)),
        }
        cancelled += 1;
        assert_eq!(
            vfs.file_names(Path::new("/db")),
            ["TABLE-000001", "TABLE-000002"]
        );
    }
    // Asked at each sixteenth of the 120 records.
    assert_eq!(cancelled, 8);
}

fn refusal(records: &[&[Record<'_>]]) -> ErrorKind {
    let vfs = SimVfs::new(1);
    let making = making(&vfs);
    let mut tree = Tree::default();
    for (records, age) in records.iter().zip(1..) {
        let table = table_of(&making.place, age, age, records);
        let added = vec![(Level(0), table)];
        tree.apply(&TreeEdit {
            added,
            ..TreeEdit::default()
        })
        .unwrap();
        making.numbers.skip(FileNumber(age));
    }
    let plan = Plan::of(&tree, Job::FromLevel0 { to: Level(6) });
    let horizon = Horizon::new(Version(9), vec![]);
    match job::run(&making, &tree, &plan, &horizon, &never) {
        Err(Stopped::Failed(error)) => error.kind(),
        Err(Stopped::Cancelled) => panic!("nobody cancels it"),
        Ok(_) => panic!("it was rewritten"),
    }
}

#[test]
fn what_cannot_be_rewritten_is_refused() {
    let merge = refusal(&[&[(b"a", 1, Kind::Merge, &[0])]]);
    assert_eq!(merge, ErrorKind::Unsupported);
    let twice: &[Record<'_>] = &[(b"a", 1, Kind::Put, b"")];
    assert_eq!(refusal(&[twice, twice]), ErrorKind::Corruption);
}

#[test]
fn a_flush_keeps_deletes_and_leaves_out_what_nobody_reads() {
    let vfs = SimVfs::new(1);
    let making = making(&vfs);
    let mut records = Records::new();
    for (key, version, value) in [
        ("a", 9, None),
        ("a", 8, Some(b"v".to_vec())),
        ("b", 7, Some(b"v".to_vec())),
        ("b", 6, Some(b"v".to_vec())),
        ("b", 5, Some(b"v".to_vec())),
    ] {
        records.insert((key.into(), Reverse(version)), value);
    }
    let tree = Tree::default();
    let horizon = Horizon::new(Version(9), vec![Version(6)]);
    let flushed = |records: &Records| {
        let mut memory = Memory::new(records);
        flush(&making, &tree, 2, &mut memory, &horizon, &never).unwrap()
    };
    let edit = flushed(&records).edit(&making.numbers);
    let [(level, table)] = &edit.added[..] else {
        panic!("{edit:?}");
    };
    assert_eq!(*level, Level(0));
    assert_eq!((table.meta.entries, table.meta.deletes), (3, 1));
    // A record of 2 bytes is a guard where guards are 2 bytes apart; a delete of 1 byte is one by chance.
    assert!(edit.guards.iter().any(|guard| *guard.key == *b"b"));
    assert!(flushed(&Records::new()).is_empty());
    assert_eq!(vfs.file_names(Path::new("/db")).len(), 1);
}
