//! What a moment has comes once, in whatever order writers came to the log.
//!
//! A writer that announced itself before a moment may append behind one that came after it. The
//! tests append such records to the log themselves: as copies of an operand that was written
//! before, at a version of their own.

mod planted;

use super::position::Position;
use crate::commit_log::{Lsn, Passage, ReadBack};
use crate::{Changes, Db, Durability, KeyspaceOptions, Merges, Options};
use evendb_storage::Version;
use evendb_storage::vfs::SimVfs;
use std::sync::Arc;

fn options(vfs: &SimVfs, level: Durability) -> Options {
    let options = Options::new().memory_budget(1 << 20).durability(level);
    options.workers(0).vfs(Arc::new(vfs.clone()))
}

fn open(vfs: &SimVfs, level: Durability) -> Db {
    let db = options(vfs, level).open("/db").expect("opens");
    let adding = KeyspaceOptions::new().merge_operator(Merges::AddU64);
    db.keyspace_with("sums", &adding).expect("a keyspace");
    db
}

fn merge(db: &Db, operand: u64) {
    let sums = db.keyspace("sums").expect("it is there");
    sums.merge("k", operand.to_le_bytes()).expect("merges");
}

fn head(db: &Db) -> Lsn {
    db.engine().log.end().expect("a log")
}

/// Appends a copy of the record at `at`, as a writer that announced itself at `version`.
fn append_late(db: &Db, at: Lsn, version: Version) -> Lsn {
    let log = &db.engine().log;
    let ring = log.commit_log.as_deref().expect("a log");
    ring.write_out_to(head(db)).expect("writes");
    let (history, mut reader) = (&log.history, ReadBack::new());
    let life = history.lives.last().expect("this life");
    let file = history.file.as_deref().expect("a file");
    let found = reader.next(file, history.capacity, Some(ring), at, head(db), life);
    let Ok(Passage::Record(record)) = found else {
        panic!("there is a record");
    };
    let payload = record.payload.to_vec();
    let bytes = record.end.0 - record.lsn.0;
    let admission = &db.engine().core.admission;
    admission.reserve(bytes, 0, &|| ()).expect("there is room");
    ring.append(version, &[&payload]).expect("appends")
}

fn operands(feed: Changes) -> Vec<u64> {
    let mut operands = Vec::new();
    for change in feed {
        for write in change.expect("reads").writes() {
            let all = write.operands.expect("a merge");
            operands.extend(all.iter().map(|one| {
                let bytes = one.try_into().expect("eight bytes");
                u64::from_le_bytes(bytes)
            }));
        }
    }
    operands
}

#[test]
fn what_a_snapshot_has_comes_once_among_later_changes() {
    for level in [Durability::Process, Durability::Sync] {
        let db = open(&SimVfs::new(1), level);
        let clock = &db.engine().core.clock;
        let (from, version) = (head(&db), clock.now());
        merge(&db, 1);
        clock.advance();
        merge(&db, 10);
        append_late(&db, from, version);
        merge(&db, 100);
        let until = append_late(&db, from, version);
        db.persist().expect("persists");
        merge(&db, 1000);
        let life = *db.engine().log.history.lives.last().expect("this life");
        let position = Position::new(&life, version, (from, until));
        let feed = |position: &Position| db.changes_since(position).expect("it is kept");
        assert_eq!(operands(feed(&position)), [10, 100, 1000], "{level:?}");
        // Behind each change, too, from its bytes.
        let mut given = feed(&position);
        for left in [&[100, 1000][..], &[1000], &[]] {
            let change = given.next().expect("one more").expect("reads");
            let stored = Position::from_bytes(&change.position().to_bytes()).expect("a position");
            assert_eq!(operands(feed(&stored)), left);
            assert_eq!(operands(feed(&given.position())), left);
        }
    }
}

/// At sync level a record that a checkpoint took may come to the file later than the reader.
#[test]
fn what_a_checkpoint_has_comes_once_beside_its_writer() {
    for level in [Durability::Process, Durability::Sync] {
        let vfs = SimVfs::new(1);
        let db = open(&vfs, level);
        db.position().expect("readers of changes are to come");
        let (from, version) = (head(&db), db.engine().core.clock.now());
        merge(&db, 1);
        db.flush().expect("a checkpoint");
        let beside = options(&vfs, level).open_beside_writer("/db");
        let reader = beside.expect("opens");
        let position = reader.position().expect("a position");
        append_late(&db, from, version);
        merge(&db, 10);
        append_late(&db, from, version);
        merge(&db, 100);
        db.persist().expect("persists");
        let feed = reader.changes_since(&position).expect("it is kept");
        assert_eq!(operands(feed), [10, 100], "{level:?}");
        // In the writer's process, too, and in its next life.
        let own = |db: &Db| operands(db.changes_since(&position).expect("it is kept"));
        assert_eq!(own(&db), [10, 100], "{level:?}");
    }
}
