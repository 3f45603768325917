//! A consumer of changes over crashes: what it has seen before a crash and what it gets after it
//! are what the database has; or it gets an error that says that this cannot be, and fills itself
//! anew.
//!
//! Everything replays from the seed in the message. `EVENDB_CHANGES_CRASHES` sets the number of
//! crashes at each level (default 600).

#![expect(
    clippy::unwrap_used,
    reason = "a test, which may end at the first surprise"
)]

mod common;

use common::{DIR, count_from_env, scramble, varied};
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{Db, Durability, ErrorKind, Position};
use std::collections::BTreeMap;
use std::ops::Bound;

type Map = BTreeMap<(String, Vec<u8>), Vec<u8>>;

fn contents(db: &Db) -> evendb::Result<Map> {
    let mut map = Map::new();
    let snapshot = db.snapshot()?;
    for name in db.keyspace_names() {
        for item in snapshot.iter(&db.keyspace(&name)?) {
            let (key, value) = item?;
            map.insert((name.clone(), key.to_vec()), value.to_vec());
        }
    }
    Ok(map)
}

/// A cache of the whole database.
#[derive(Clone, Default)]
struct Consumer {
    map: Map,
    position: Option<Position>,
    given: u64,
    refilled: [u64; 2],
}

impl Consumer {
    /// Takes in the available changes; fills itself from a snapshot if that is necessary.
    fn catch_up(&mut self, db: &Db) -> evendb::Result<Option<ErrorKind>> {
        match self.follow(db) {
            Err(error) if error.kind() == ErrorKind::ChangesGone => {
                self.refilled[0] += 1;
                self.refill(db)?;
                Ok(Some(ErrorKind::ChangesGone))
            }
            Err(error) if error.kind() == ErrorKind::ChangesLost => {
                self.refilled[1] += 1;
                self.refill(db)?;
                Ok(Some(ErrorKind::ChangesLost))
            }
            followed => followed.map(|()| None),
        }
    }

    fn refill(&mut self, db: &Db) -> evendb::Result<()> {
        self.map = contents(db)?;
        self.position = Some(db.position()?);
        Ok(())
    }

    fn follow(&mut self, db: &Db) -> evendb::Result<()> {
        let Some(position) = &self.position else {
            return self.refill(db);
        };
        for change in db.changes_since(position)? {
            let change = change?;
            for write in &change {
                let key = (write.keyspace.to_owned(), write.key.to_vec());
                match (write.value, write.deleted_to) {
                    (Some(value), _) => drop(self.map.insert(key, value.to_vec())),
                    (None, None) => drop(self.map.remove(&key)),
                    (None, Some(to)) => {
                        let is_behind = |other: &[u8]| match to {
                            Bound::Excluded(to) => other >= to,
                            _ => false,
                        };
                        self.map.retain(|other, _| {
                            other.0 != key.0 || other.1 < key.1 || is_behind(&other.1)
                        });
                    }
                }
            }
            self.given += 1;
            // As bytes, like a consumer that stores them.
            self.position = Some(Position::from_bytes(&change.position().to_bytes())?);
        }
        Ok(())
    }
}

/// One step of the workload; an error says that the machine has stopped.
fn step(db: &Db, number: u64) -> evendb::Result<()> {
    let dice = scramble(number);
    let value = |index: u64| {
        let len = match dice / 7 % 50 {
            0 => 9_000,
            1..5 => 900,
            _ => dice as usize / 11 % 80,
        };
        format!("{number}.{index}.{}", "v".repeat(len)).into_bytes()
    };
    match dice % 100 {
        0..3 => db.flush(),
        3 => db.persist(),
        4 => db.settle_debt(),
        5..60 => db.put(format!("k{}", dice / 3 % 50), value(0)),
        60..66 => db.delete(format!("k{}", dice / 3 % 50)),
        66..70 => {
            let (low, high) = (dice / 3 % 50, dice / 150 % 50);
            db.delete_range(format!("k{low}")..format!("k{high}"))
        }
        _ => {
            let mut batch = db.batch();
            let other = db.keyspace("other")?;
            for index in 0..dice / 5 % 5 {
                let key = format!("b{}", scramble(dice + index) % 30);
                match index {
                    0 => batch.put(&other, &key, value(index)),
                    2 if dice.is_multiple_of(5) => batch.delete_prefix(&other, "b1"),
                    3 => batch.delete(db.default_keyspace(), &key),
                    _ => batch.put(db.default_keyspace(), &key, value(index)),
                };
            }
            if dice.is_multiple_of(13) {
                batch.durability(Durability::Sync);
            }
            batch.commit()
        }
    }
}

/// A life: some steps, with the consumer now and then; returns the consumer as it was while the
/// machine still ran.
fn live(vfs: &SimVfs, db: &Db, seed: u64, consumer: &mut Consumer) {
    for number in 0..scramble(seed) % 120 {
        if step(db, seed.wrapping_mul(1_000).wrapping_add(number)).is_err() || vfs.crashed() {
            return;
        }
        if scramble(seed + number).is_multiple_of(7) {
            let mut next = consumer.clone();
            let caught = next.catch_up(db);
            if vfs.crashed() {
                return;
            }
            let refilled = caught.unwrap();
            assert!(
                refilled != Some(ErrorKind::ChangesLost),
                "lost without a crash"
            );
            *consumer = next;
        }
    }
}

fn mode(number: u64) -> CrashMode {
    match number % 5 {
        0 => CrashMode::Process,
        1 => CrashMode::PowerLossNothing,
        2 => CrashMode::PowerLossAll,
        _ => CrashMode::PowerLossRandom(number),
    }
}

/// One machine over several crashes.
fn crashes(seed: u64, level: Durability, keep: bool, totals: &mut Consumer) -> u64 {
    let mut vfs = SimVfs::new(seed);
    let mut consumer = Consumer::default();
    let mut count = 0;
    let open = |vfs: &SimVfs, number: u64| {
        // Some lives are without the option.
        let bytes = if keep && !number.is_multiple_of(9) {
            64 << 10
        } else {
            0
        };
        let options = varied(vfs, level, number);
        let options = options.advanced(|advanced| advanced.keep_changes_bytes(bytes));
        options.open(DIR)
    };
    for round in 0..6 {
        let number = scramble(seed * 10 + round);
        // The crash comes after one to many operations from here, so that openings are hit as well.
        vfs.set_crash_at(vfs.op_count() + number % (1 << (2 + number / 8 % 9)));
        if let Ok(db) = open(&vfs, number)
            && !vfs.crashed()
        {
            live(&vfs, &db, number, &mut consumer);
            if number.is_multiple_of(4) {
                let _ = db.close();
            }
        }
        let mode = mode(number);
        vfs = vfs.crash(mode);
        count += 1;
        let what = format!("seed {seed} round {round} {level:?} {mode:?}");
        let db = open(&vfs, number / 3).unwrap();
        let had_position = consumer.position.is_some();
        let refilled = consumer.catch_up(&db).unwrap();
        assert!(
            consumer.map == contents(&db).unwrap(),
            "{what}: another database"
        );
        if level == Durability::Sync || mode == CrashMode::Process {
            assert!(refilled != Some(ErrorKind::ChangesLost), "{what}");
        }
        assert!(had_position || refilled.is_none());
    }
    totals.given += consumer.given;
    for kind in 0..2 {
        totals.refilled[kind] += consumer.refilled[kind];
    }
    count
}

#[test]
fn what_was_seen_and_what_comes_is_what_there_is() {
    for (level, keep) in [
        (Durability::Process, false),
        (Durability::Process, true),
        (Durability::Sync, false),
        (Durability::Sync, true),
    ] {
        let mut totals = Consumer::default();
        let (mut seed, mut count) = (1, 0);
        let wanted = count_from_env("EVENDB_CHANGES_CRASHES", 600);
        // If changes are kept, they are seldom gone: some more crashes until that has happened too.
        while count < wanted || (totals.refilled[0] == 0 && count < 10 * wanted) {
            count += crashes(seed, level, keep, &mut totals);
            seed += 1;
        }
        let [gone, lost] = totals.refilled;
        println!(
            "{level:?} {keep}: {count} crashes, {} changes given, {gone} gone, {lost} lost",
            totals.given
        );
        assert!(totals.given > count && gone > 0);
        assert!((lost > 0) == (level == Durability::Process), "{lost} lost");
        assert!(gone + lost < count / 2, "hardly anything was gone on with");
    }
}
