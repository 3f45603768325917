//! One database with a keyspace of chunks and one of guards. Batches and transactions write to
//! both, and whatever happens, both have a write or neither has it: over crashes at every operation
//! of the disk, reopenings, snapshots, copies, backups and the change feed. The seed says which of
//! the two is the default keyspace.
//!
//! Everything replays from the seed in the message. `EVENDB_CRASH_STATES` is eight times the number
//! of states that are looked at here (default 40,000), and `EVENDB_CRASH_SEED` is the first seed.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which may end at the first surprise"
)]

mod common;

use common::oracle::{Change, End, Map, Oracle, contents};
use common::{DIR, LEVELS, count_from_env, inspecting, number_from_env, scramble, varied};
use evendb::inspect::{RepairOptions, repair, verify};
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{
    Backups, Db, Durability, Error, ErrorKind, Keyspace, KeyspaceOptions, Layout, Options, Snapshot,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

/// The keyspaces: the second one has the layout that the first one does not have.
const NAMES: [&str; 2] = ["default", "other"];
const STEPS: u64 = 160;
const KEYS: u64 = 90;

/// The layouts of the keyspaces, in the order of [`NAMES`].
fn layouts(seed: u64) -> [Layout; 2] {
    match seed % 2 {
        0 => [Layout::Chunks, Layout::Guards],
        _ => [Layout::Guards, Layout::Chunks],
    }
}

fn of_layout(layout: Layout) -> KeyspaceOptions {
    KeyspaceOptions::new().layout(layout)
}

/// The layout that is recorded for a keyspace; chunks where nothing is recorded.
fn layout_of(keyspace: &Keyspace) -> Layout {
    let options = keyspace.options().unwrap();
    let mut chosen = options.chosen();
    let recorded = chosen.find(|(name, _)| *name == "layout");
    recorded.map_or(Layout::Chunks, |(_, text)| text.parse().unwrap())
}

fn key(number: u64) -> Vec<u8> {
    format!("k{:03}", number % KEYS).into_bytes()
}

/// Different for each number, and of different lengths.
fn value(number: u64) -> Vec<u8> {
    let len = [10, 40, 120, 700][(scramble(number) % 4) as usize];
    format!("{number:08}.{}", "v".repeat(len)).into_bytes()
}

/// A running database beside its oracle.
struct World {
    seed: u64,
    vfs: SimVfs,
    options: Options,
    db: Option<Db>,
    oracle: Oracle,
    snapshot: Option<(Snapshot, Vec<(Keyspace, Map)>)>,
}

impl World {
    fn new(seed: u64, vfs: &SimVfs, oracle: Oracle, level: Durability) -> World {
        let options = varied(vfs, level, scramble(seed)).layout(layouts(seed)[0]);
        World {
            seed,
            vfs: vfs.clone(),
            options,
            db: None,
            oracle,
            snapshot: None,
        }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn open(&mut self) -> Result<(), Error> {
        self.db = Some(self.options.clone().open(DIR)?);
        Ok(())
    }

    /// Drops all handles, as the end of the process does.
    fn abandon(&mut self) {
        self.snapshot = None;
        self.db = None;
    }

    /// The second keyspace is made, if it is not there.
    fn make(&mut self) -> Result<(), Error> {
        if self.oracle.generation(NAMES[1]).is_some() {
            return Ok(());
        }
        self.oracle.begin_create(NAMES[1]);
        let options = of_layout(layouts(self.seed)[1]);
        self.db().keyspace_with(NAMES[1], &options)?;
        if !self.vfs.crashed() {
            self.oracle.names_done();
        }
        Ok(())
    }

    /// The second keyspace is dropped.
    fn drop_other(&mut self) -> Result<(), Error> {
        self.oracle.begin_drop(NAMES[1]);
        self.db().drop_keyspace(NAMES[1])?;
        if !self.vfs.crashed() {
            self.oracle.names_done();
        }
        Ok(())
    }

    fn both(&self) -> Result<[Keyspace; 2], Error> {
        let [first, second] = NAMES.map(|name| self.db().keyspace(name));
        Ok([first?, second?])
    }

    fn change(&self, at: usize, key: &[u8], value: Option<&[u8]>) -> Change {
        Change {
            generation: self.oracle.generation(NAMES[at]).unwrap(),
            key: key.to_vec(),
            value: value.map(<[u8]>::to_vec),
        }
    }

    /// The existing keys of a keyspace within limits.
    fn between(&self, at: usize, low: &[u8], high: &[u8]) -> Vec<Vec<u8>> {
        let map = self.oracle.map(NAMES[at]).into_keys();
        map.filter(|key| **key >= *low && **key < *high).collect()
    }

    /// A write that is one for both keyspaces; `act` makes it.
    fn write(
        &mut self,
        changes: Vec<Change>,
        level: Option<Durability>,
        act: impl FnOnce(&Db) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.oracle.begin(changes);
        act(self.db.as_ref().unwrap())?;
        if !self.vfs.crashed() {
            self.oracle.acknowledge(level);
        }
        Ok(())
    }

    /// The same pair in both, a key of its own in each, and now and then a deletion of a range.
    fn batch(&mut self, number: u64) -> Result<(), Error> {
        let dice = scramble(number);
        let [first, second] = self.both()?;
        let (pair, same) = ([b"pair/", &key(dice)[..]].concat(), value(number));
        let (one, two) = (key(dice >> 8), key(dice >> 16));
        let mut batch = self.db().batch();
        batch.put(&first, &pair, &same).put(&second, &pair, &same);
        batch.put(&first, &one, &same).delete(&second, &two);
        let mut changes = vec![
            self.change(0, &pair, Some(&same)),
            self.change(1, &pair, Some(&same)),
            self.change(0, &one, Some(&same)),
            self.change(1, &two, None),
        ];
        if dice.is_multiple_of(9) {
            let (low, high) = (key(dice >> 24), key((dice >> 24) + 5));
            for (at, keyspace) in [&first, &second].into_iter().enumerate() {
                batch.delete_range(keyspace, &low[..]..&high[..]);
                let own = (at == 0).then(|| one.clone());
                let own = own.filter(|own| *own >= low && *own < high);
                let gone = self.between(at, &low, &high).into_iter().chain(own);
                changes.extend(
                    gone.map(|key| self.change(at, &key, None))
                        .collect::<Vec<_>>(),
                );
            }
        }
        let level = match dice >> 32 & 15 {
            0 => Some(Durability::Sync),
            1 => Some(Durability::Process),
            _ => None,
        };
        if let Some(level) = level {
            batch.durability(level);
        }
        self.write(changes, level, |_| batch.commit())
    }

    /// A transaction reads from one keyspace and writes what it has read to the other one.
    fn transact(&mut self, number: u64) -> Result<(), Error> {
        let [first, second] = self.both()?;
        let (from, pair) = (key(number), [b"pair/", &key(number)[..]].concat());
        let expected = self.oracle.map(NAMES[0]).remove(&from);
        let new = [&value(number)[..], expected.as_deref().unwrap_or_default()].concat();
        let new = new[..new.len().min(400)].to_vec();
        let changes = vec![
            self.change(0, &from, None),
            self.change(0, &pair, Some(&new)),
            self.change(1, &pair, Some(&new)),
            self.change(1, &from, Some(&new)),
        ];
        self.write(changes, None, |db| {
            db.transact(|transaction| {
                let read = transaction.get(&first, &from)?;
                assert_eq!(read.as_deref(), expected.as_deref(), "a transaction's get");
                transaction.delete(&first, &from)?;
                transaction.put(&first, &pair, &new)?;
                transaction.put(&second, &pair, &new)?;
                transaction.put(&second, &from, &new)
            })
        })
    }

    fn one(&mut self, number: u64) -> Result<(), Error> {
        let at = (scramble(number) % 2) as usize;
        let (key, value) = (key(number), value(number));
        let keyspace = self.db().keyspace(NAMES[at])?;
        let changes = vec![self.change(at, &key, Some(&value))];
        self.write(changes, None, |_| keyspace.put(&key, &value))
    }

    /// Reads everything, now and at the moment of the snapshot.
    fn look(&self) -> Result<(), Error> {
        for name in self.oracle.names() {
            assert!(
                contents(self.db(), &name)? == self.oracle.map(&name),
                "{name} now"
            );
        }
        if let Some((snapshot, then)) = &self.snapshot {
            for (keyspace, map) in then {
                let mut seen = Map::new();
                for item in snapshot.iter(keyspace) {
                    let (key, value) = item?;
                    seen.insert(key.to_vec(), value.to_vec());
                }
                assert!(seen == *map, "{} then", keyspace.name());
            }
        }
        Ok(())
    }

    fn take_snapshot(&mut self) -> Result<(), Error> {
        let snapshot = self.db().snapshot()?;
        let maps = NAMES.map(|name| self.oracle.map(name));
        let then = self.both()?.into_iter().zip(maps).collect();
        self.snapshot = Some((snapshot, then));
        Ok(())
    }

    fn reopen(&mut self) -> Result<(), Error> {
        self.snapshot = None;
        self.db.take().unwrap().close()?;
        if !self.vfs.crashed() {
            self.oracle.everything_is_durable();
        }
        self.open()
    }

    /// The step of this number. An error leaves the write that began pending in the oracle.
    fn step(&mut self, number: u64) -> Result<(), Error> {
        self.make()?;
        match scramble(number ^ 0x1a1a) % 100 {
            0..45 => return self.batch(number),
            45..65 => return self.transact(number),
            65..75 => return self.one(number),
            75..79 => return self.take_snapshot(),
            79..83 => return self.look(),
            83 => {
                self.snapshot = None;
                return self.drop_other();
            }
            84..86 => return self.reopen(),
            86..92 => self.db().flush()?,
            92..94 => self.db().persist()?,
            94..97 => self.db().settle_debt()?,
            97 => drop(self.db().compact()?),
            _ => drop(self.db().idle_pass()?),
        }
        if !self.vfs.crashed() {
            self.oracle.everything_is_durable();
        }
        Ok(())
    }

    fn run(&mut self, first: u64, count: u64) -> Result<(), (u64, Error)> {
        self.open().map_err(|error| (first, error))?;
        for number in first..first + count {
            self.step(number).map_err(|error| (number, error))?;
            if self.vfs.crashed() {
                break;
            }
        }
        Ok(())
    }

    /// After a crash: the database opens, equals a prefix of the writes that has all promised ones,
    /// and pairs are in both keyspaces or in neither.
    fn recover(&mut self, end: End) -> Result<(), String> {
        self.open().map_err(|error| format!("opens: {error}"))?;
        let db = self.db.as_ref().unwrap();
        let length = self.oracle.check(db, end)?;
        self.oracle.recovered(length, db, end);
        let names = db.keyspace_names();
        let mut maps = Vec::new();
        for (name, layout) in NAMES.into_iter().zip(layouts(self.seed)) {
            if names.iter().any(|own| own == name) {
                let found = layout_of(&db.keyspace(name).map_err(|error| error.to_string())?);
                if found != layout {
                    return Err(format!("{name} has {found}, and had {layout}"));
                }
                let mut map = contents(db, name).map_err(|error| error.to_string())?;
                map.retain(|key, _| key.starts_with(b"pair/"));
                maps.push(map);
            }
        }
        // A keyspace that was dropped takes its half of the pairs with it.
        let whole = self.oracle.generation(NAMES[1]) == Some(1);
        match maps.as_slice() {
            [first, second] if whole && first != second => Err("half of a pair".to_owned()),
            _ => Ok(()),
        }
    }
}

fn modes(number: u64) -> [(CrashMode, End); 4] {
    [
        (CrashMode::Process, End::Process),
        (CrashMode::PowerLossNothing, End::Power),
        (CrashMode::PowerLossAll, End::Power),
        (CrashMode::PowerLossRandom(number), End::Power),
    ]
}

/// Runs the seed's steps up to operation `at`, and looks at every way to crash there.
fn crash_at(seed: u64, level: Durability, at: u64) -> u64 {
    let vfs = SimVfs::new(seed);
    vfs.set_crash_at(at);
    let mut world = World::new(seed, &vfs, Oracle::new(level), level);
    let place = format!("seed {seed} {level:?} operation {at}");
    if let Err((step, error)) = world.run(seed << 32, STEPS) {
        assert!(vfs.crashed(), "{place}, step {step}: {error}");
    }
    world.abandon();
    let all = modes(scramble(seed ^ at));
    for (mode, end) in all {
        let place = format!("{place} {mode:?}");
        let machine = vfs.crash(mode);
        let mut next = World::new(seed, &machine, world.oracle.clone(), level);
        next.recover(end)
            .unwrap_or_else(|what| panic!("{place}: {what}"));
        // It goes on, and crashes once more.
        next.abandon();
        let further = (seed << 32) + STEPS + at;
        if let Err((step, error)) = next.run(further, 12) {
            panic!("{place}, going on, step {step}: {error}");
        }
        next.look()
            .unwrap_or_else(|error| panic!("{place}: {error}"));
        let last = machine.crash(CrashMode::PowerLossRandom(further));
        next.abandon();
        let mut last = World::new(seed, &last, next.oracle.clone(), level);
        let recovered = last.recover(End::Power);
        recovered.unwrap_or_else(|what| panic!("{place}, going on, crashed: {what}"));
        last.db.take().unwrap().close().unwrap();
        let report = verify(DIR, inspecting(&last.vfs)).unwrap();
        assert!(report.is_sound(), "{place}: {:#?}", report.findings);
    }
    2 * all.len() as u64
}

/// The number of operations of a seed's steps that nothing stops.
fn operations_of(seed: u64, level: Durability) -> u64 {
    let vfs = SimVfs::new(seed);
    let mut world = World::new(seed, &vfs, Oracle::new(level), level);
    let done = world.run(seed << 32, STEPS);
    done.unwrap_or_else(|(step, error)| panic!("seed {seed} {level:?} step {step}: {error}"));
    world.look().unwrap();
    vfs.op_count()
}

fn campaign(level: Durability) {
    let share = 8 * LEVELS.len() as u64;
    let wanted = count_from_env("EVENDB_CRASH_STATES", 40_000).div_ceil(share);
    let (mut states, mut seed) = (0, number_from_env("EVENDB_CRASH_SEED", 1));
    let mut layouts_seen = [false; 2];
    // One seed of each order of layouts at least.
    while states < wanted || layouts_seen != [true; 2] {
        let operations = operations_of(seed, level);
        let half = states + wanted.div_ceil(2);
        // A prime step, which begins elsewhere with each seed.
        for at in (seed % 31..operations).step_by(31) {
            if states >= half {
                break;
            }
            states += crash_at(seed, level, at);
        }
        layouts_seen[(seed % 2) as usize] = true;
        seed += 1;
    }
    println!("{level:?}: {states} states, seeds up to {seed}");
}

#[test]
fn a_crash_leaves_both_or_neither_relaxed() {
    campaign(Durability::Relaxed);
}

#[test]
fn a_crash_leaves_both_or_neither_process() {
    campaign(Durability::Process);
}

#[test]
fn a_crash_leaves_both_or_neither_sync() {
    campaign(Durability::Sync);
}

/// A database that has done some work, with its second keyspace.
fn worked(seed: u64, tune: impl FnOnce(Options) -> Options) -> World {
    let vfs = SimVfs::new(seed);
    let level = Durability::Process;
    let mut world = World::new(seed, &vfs, Oracle::new(level), level);
    world.options = tune(world.options);
    let done = world.run(seed << 32, 400);
    done.unwrap_or_else(|(step, error)| panic!("seed {seed} step {step}: {error}"));
    // The second keyspace may have been dropped just now.
    world.make().unwrap();
    for number in (seed << 32) + 1_000..(seed << 32) + 1_080 {
        world.batch(number).unwrap();
    }
    world.db().settle_debt().unwrap();
    world.oracle.everything_is_durable();
    let chunks = world.db().stats().chunks;
    // One of them has the guards.
    assert!(
        chunks > 2,
        "seed {seed}: {chunks} chunks, so nothing was split"
    );
    world
}

fn everything(db: &Db) -> BTreeMap<String, Map> {
    let names = db.keyspace_names().into_iter();
    names
        .map(|name| (name.clone(), contents(db, &name).unwrap()))
        .collect()
}

#[test]
fn a_snapshot_sees_one_moment_of_both() {
    for seed in 0..8 {
        let mut world = worked(seed, |options| options);
        world.take_snapshot().unwrap();
        let next = (seed << 32) + 10_000;
        for number in next..next + 150 {
            world.batch(number).unwrap();
            world.transact(number).unwrap();
            match number % 40 {
                0 => world.db().flush().unwrap(),
                20 => world.db().settle_debt().unwrap(),
                30 => drop(world.db().compact().unwrap()),
                _ => {}
            }
        }
        world.look().unwrap();
        let (_, then) = world.snapshot.as_ref().unwrap();
        for (keyspace, map) in then {
            let now = world.oracle.map(keyspace.name());
            assert!(now != *map, "seed {seed}: nothing has changed since");
        }
    }
}

/// Copies and restored backups have both keyspaces, with their layouts and contents; a second
/// backup adds to the first, and both can be restored.
#[test]
fn copies_and_backups_hold_both_with_their_layouts() {
    for seed in 0..6 {
        let mut world = worked(seed, |options| options);
        let db = world.db().clone();
        let first = everything(&db);
        let backed_up = [db.backup("/backups").unwrap().number];
        let next = (seed << 32) + 20_000;
        for number in next..next + 60 {
            world.batch(number).unwrap();
        }
        db.flush().unwrap();
        let second = everything(&db);
        assert!(first != second);
        let backed_up = [backed_up[0], db.backup("/backups").unwrap().number];
        db.copy_to("/copy").unwrap();
        let backups = Backups::at("/backups").vfs(std::sync::Arc::new(world.vfs.clone()));
        for (number, into) in backed_up.into_iter().zip(["/restored/1", "/restored/2"]) {
            backups.verify(Some(number)).unwrap();
            backups.restore(Some(number), into).unwrap();
        }
        for (dir, expected) in [
            ("/restored/1", &first),
            ("/restored/2", &second),
            ("/copy", &second),
        ] {
            let place = format!("seed {seed} {dir}");
            let copy = world.options.clone().open(dir).unwrap();
            assert!(everything(&copy) == *expected, "{place}: the contents");
            for (name, layout) in NAMES.into_iter().zip(layouts(seed)) {
                let keyspace = copy.keyspace(name).unwrap();
                assert_eq!(layout_of(&keyspace), layout, "{place}: {name}");
                keyspace.put("new", "here").unwrap();
            }
            copy.settle_debt().unwrap();
            copy.close().unwrap();
            let report = verify(dir, inspecting(&world.vfs)).unwrap();
            assert!(report.is_sound(), "{place}: {:#?}", report.findings);
        }
    }
}

/// A repair saves both, each with its layout and its options.
#[test]
fn a_repair_saves_both_with_their_layouts_and_options() {
    for seed in 0..6 {
        let mut world = worked(seed, |options| options);
        let options = [1_000, 2_000].map(|bytes| KeyspaceOptions::new().block_bytes(bytes));
        for (keyspace, own) in world.both().unwrap().iter().zip(&options) {
            keyspace.set_options(own).unwrap();
        }
        let there = world
            .both()
            .unwrap()
            .map(|keyspace| keyspace.options().unwrap());
        let expected = everything(world.db());
        world.abandon();
        let report = repair(
            DIR,
            "/saved",
            RepairOptions::default(),
            inspecting(&world.vfs),
        );
        assert!(report.unwrap().is_complete(), "seed {seed}");
        let saved = world.options.clone().open("/saved").unwrap();
        assert!(everything(&saved) == expected, "seed {seed}: the contents");
        for (at, there) in there.into_iter().enumerate() {
            let keyspace = saved.keyspace(NAMES[at]).unwrap();
            assert_eq!(
                keyspace.options().unwrap(),
                there,
                "seed {seed}: {}",
                NAMES[at]
            );
            assert_eq!(layout_of(&keyspace), layouts(seed)[at]);
        }
    }
}

/// Takes the changes since a position into maps.
fn follow(db: &Db, from: &evendb::Position, maps: &mut BTreeMap<String, Map>) -> u64 {
    let mut of_both = 0;
    for change in db.changes_since(from).unwrap() {
        let change = change.unwrap();
        let mut names = Vec::new();
        for write in &change {
            names.push(write.keyspace.to_owned());
            let map = maps.entry(write.keyspace.to_owned()).or_default();
            match (write.value, write.deleted_to) {
                (Some(value), _) => drop(map.insert(write.key.to_vec(), value.to_vec())),
                (None, None) => drop(map.remove(write.key)),
                (None, Some(Bound::Excluded(to))) => {
                    map.retain(|key, _| **key < *write.key || **key >= *to);
                }
                (None, Some(to)) => panic!("a range up to {to:?}"),
            }
        }
        names.sort();
        names.dedup();
        of_both += u64::from(names.len() == 2);
    }
    of_both
}

#[test]
fn the_feed_tells_changes_of_both_in_one_order() {
    for seed in 0..6 {
        let keep =
            |options: Options| options.advanced(|advanced| advanced.keep_changes_bytes(4 << 20));
        let mut world = worked(seed, keep);
        let (position, mut maps) = (world.db().position().unwrap(), everything(world.db()));
        let next = (seed << 32) + 30_000;
        for number in next..next + 90 {
            world.batch(number).unwrap();
            world.one(number).unwrap();
            world.transact(number).unwrap();
            match number % 30 {
                0 => world.db().flush().unwrap(),
                10 => world.db().settle_debt().unwrap(),
                20 => world.reopen().unwrap(),
                _ => {}
            }
        }
        let of_both = follow(world.db(), &position, &mut maps);
        assert_eq!(
            of_both, 180,
            "seed {seed}: batches and transactions that went to both"
        );
        assert!(maps == everything(world.db()), "seed {seed}");
        world.look().unwrap();
    }
}

#[test]
fn what_is_dropped_takes_nothing_of_the_other_with_it() {
    for seed in 0..6 {
        let mut world = worked(seed, |options| options);
        let db = world.db().clone();
        let dropped = db.keyspace(NAMES[1]).unwrap();
        let kept = world.oracle.map(NAMES[0]);
        assert!(kept.len() > 20 && contents(&db, NAMES[1]).unwrap().len() > 20);
        world.snapshot = None;
        world.drop_other().unwrap();
        let refused = dropped.put("key", "value").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::KeyspaceDropped);
        // A batch that names it makes nothing, in the other keyspace neither.
        let mut batch = db.batch();
        batch.put(db.default_keyspace(), "half", "a batch");
        batch.put(&dropped, "half", "a batch");
        assert_eq!(
            batch.commit().unwrap_err().kind(),
            ErrorKind::KeyspaceDropped
        );
        assert!(contents(&db, NAMES[0]).unwrap() == kept, "seed {seed}");
        // The name is free, also for the layout that it did not have.
        let [first, second] = layouts(seed);
        let again = db.keyspace_with(NAMES[1], &of_layout(first)).unwrap();
        assert_eq!(again.iter().count(), 0);
        again.put("key", "value").unwrap();
        let refused = db.keyspace_with(NAMES[1], &of_layout(second)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        let refused = again.set_options(&of_layout(second)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        drop((again, dropped, db));
        world.db.take().unwrap().close().unwrap();
        world.open().unwrap();
        assert!(
            contents(world.db(), NAMES[0]).unwrap() == kept,
            "seed {seed}"
        );
        assert_eq!(layout_of(&world.db().keyspace(NAMES[1]).unwrap()), first);
        assert_eq!(contents(world.db(), NAMES[1]).unwrap().len(), 1);
        world.db.take().unwrap().close().unwrap();
        let report = verify(DIR, inspecting(&world.vfs)).unwrap();
        assert!(report.is_sound(), "seed {seed}: {:#?}", report.findings);
    }
}

const ACCOUNTS: u64 = 20;
const BALANCE: u64 = 1_000;

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

/// The sum of the accounts of both keyspaces at one moment.
fn sum(snapshot: &Snapshot, spaces: &[Keyspace; 2]) -> u64 {
    let of_one = |keyspace| {
        let items = snapshot.prefix(keyspace, "account/");
        items.map(|item| number(&item.unwrap().1)).sum::<u64>()
    };
    spaces.iter().map(of_one).sum()
}

fn account(number: u64) -> String {
    format!("account/{:02}", number % ACCOUNTS)
}

/// Threads move money from accounts in one keyspace to accounts in the other one, while jobs run:
/// every snapshot sees the same sum.
#[test]
fn transactions_of_threads_move_money_between_the_layouts() {
    for seed in 0..2 {
        let vfs = SimVfs::new(seed);
        let options = varied(&vfs, Durability::Process, seed).layout(layouts(seed)[0]);
        let db = options.clone().workers(1).open(DIR).unwrap();
        let other = db.keyspace_with(NAMES[1], &of_layout(layouts(seed)[1]));
        let spaces = [db.default_keyspace().clone(), other.unwrap()];
        let mut batch = db.batch();
        for number in 0..ACCOUNTS {
            for keyspace in &spaces {
                batch.put(keyspace, account(number), BALANCE.to_le_bytes());
            }
        }
        batch.commit().unwrap();
        let all = 2 * ACCOUNTS * BALANCE;
        let is_over = AtomicBool::new(false);
        let transfer = |step: u64| {
            let dice = scramble(step);
            let (from, to) = (account(dice), account(dice >> 16));
            let (giver, taker) = match dice >> 32 & 1 {
                0 => (&spaces[0], &spaces[1]),
                _ => (&spaces[1], &spaces[0]),
            };
            db.transact(|transaction| {
                let there = number(&transaction.get(giver, &from)?.unwrap());
                let other = number(&transaction.get(taker, &to)?.unwrap());
                let amount = there.min(dice >> 40 & 63);
                transaction.put(giver, &from, (there - amount).to_le_bytes())?;
                transaction.put(taker, &to, (other + amount).to_le_bytes())?;
                // Other records, so that there is work for jobs.
                transaction.put(giver, format!("filler/{step:06}"), value(step))
            })
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3_u64)
                .map(|thread| {
                    let transfer = &transfer;
                    scope.spawn(move || {
                        for step in 0..400 {
                            match transfer(seed << 40 | thread << 20 | step) {
                                Ok(()) => {}
                                // Others came between, again and again.
                                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict),
                            }
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    assert_eq!(sum(&db.snapshot().unwrap(), &spaces), all, "seed {seed}");
                    db.settle_debt().unwrap();
                }
            });
            let joined: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            is_over.store(true, Ordering::SeqCst);
            joined.into_iter().for_each(|thread| thread.unwrap());
        });
        assert_eq!(sum(&db.snapshot().unwrap(), &spaces), all);
        assert!(db.stats().transactions > 0);
        db.close().unwrap();
        let db = options.open(DIR).unwrap();
        let spaces = NAMES.map(|name| db.keyspace(name).unwrap());
        assert_eq!(
            sum(&db.snapshot().unwrap(), &spaces),
            all,
            "after reopening"
        );
    }
}
