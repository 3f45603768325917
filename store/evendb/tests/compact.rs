//! Compaction on demand: reads return the same as before, and the disk holds as little as possible.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

#[path = "common/layout.rs"]
mod layout;

use evendb::vfs::SimVfs;
use evendb::{Db, Keyspace, Options};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Chunks of a few records; no threads.
fn options() -> Options {
    layout::tiny_guards(layout::options())
        .vfs(Arc::new(SimVfs::new(7)))
        // Enough memory that metadata is a small part of it, also while another test's pins keep
        // freed objects: if metadata is a large part, chunks are rewritten for it before they are
        // compacted.
        .memory_budget(16 << 20)
        .advanced(|advanced| {
            advanced
                .commit_log_bytes(64 << 10)
                .chunk_bytes(1024)
                .block_bytes(128)
        })
        .workers(0)
}

fn key(number: u32) -> Vec<u8> {
    format!("{:02}/{:04}", number / 50, number).into_bytes()
}

/// Does `steps` random puts and deletes, with a checkpoint now and then.
fn work(db: &Db, keyspace: &Keyspace, model: &mut Model, random: &mut StdRng, steps: u32) {
    for step in 0..steps {
        let key = key(random.random_range(0..400));
        if random.random_bool(0.3) {
            keyspace.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let value = vec![step as u8; random.random_range(0..60)];
            keyspace.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        if step % 97 == 0 {
            db.flush().unwrap();
        }
    }
}

fn all(iter: evendb::Iter) -> Model {
    iter.map(|item| item.map(|(key, value)| (key.to_vec(), value.to_vec())))
        .collect::<Result<_, _>>()
        .unwrap()
}

fn user_bytes(model: &Model) -> u64 {
    let bytes = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.len() + value.len()) as u64;
    model.iter().map(bytes).sum()
}

#[test]
fn nothing_is_left_but_what_is_read() {
    for seed in 0..6 {
        let mut random = StdRng::seed_from_u64(seed);
        let db = options()
            .advanced(|advanced| advanced.munks(seed % 2 == 0))
            .open("/db")
            .unwrap();
        let other = db.keyspace("other").unwrap();
        let (mut model, mut other_model) = (Model::new(), Model::new());
        work(&db, db.default_keyspace(), &mut model, &mut random, 1500);
        work(&db, &other, &mut other_model, &mut random, 800);
        // So little that nothing would be rewritten for it alone.
        db.settle_debt().unwrap();
        work(&db, db.default_keyspace(), &mut model, &mut random, 30);
        let done = db.compact().unwrap();
        assert!(done.bytes_after <= done.bytes_before, "{done:?}");
        assert!(
            done.rewritten > 0 && (done.rewritten <= done.chunks || !layout::has_chunks()),
            "{done:?}"
        );
        assert_eq!(all(db.iter()), model);
        assert_eq!(all(other.iter()), other_model);
        let stats = db.stats();
        assert_eq!((stats.log_bytes, stats.debt_bytes), (0, 0));
        let live = user_bytes(&model) + user_bytes(&other_model);
        assert_eq!(stats.data_bytes, live, "no garbage");
        assert_eq!(stats.sstable_bytes, done.bytes_after);
        // Nothing is left to do, and nothing is done.
        let again = db.compact().unwrap();
        assert_eq!((again.rewritten, again.bytes_after), (0, done.bytes_after));
        db.close().unwrap();
    }
}

#[test]
fn what_a_snapshot_sees_stays_and_goes_with_it() {
    let mut random = StdRng::seed_from_u64(1);
    let db = options().open("/db").unwrap();
    let mut model = Model::new();
    work(&db, db.default_keyspace(), &mut model, &mut random, 600);
    let snapshot = db.snapshot().unwrap();
    let seen = model.clone();
    work(&db, db.default_keyspace(), &mut model, &mut random, 600);
    db.delete_prefix("01/").unwrap();
    model.retain(|key, _| !key.starts_with(b"01/"));
    db.compact().unwrap();
    assert_eq!(all(snapshot.iter(db.default_keyspace())), seen);
    assert_eq!(all(db.iter()), model);
    assert!(db.stats().data_bytes > user_bytes(&model));
    // One snapshot more does not make rewriting worth it again.
    assert_eq!(db.compact().unwrap().rewritten, 0);
    drop(snapshot);
    let done = db.compact().unwrap();
    assert!(done.rewritten > 0, "old versions are garbage: {done:?}");
    assert_eq!(db.stats().data_bytes, user_bytes(&model));
    assert_eq!(all(db.iter()), model);
}

#[test]
fn a_prefix_alone() {
    let _chunks = layout::is_about_chunks();
    let options = options().advanced(|advanced| advanced.munks(false).chunk_bytes(4096));
    let db = options.open("/db").unwrap();
    let mut model = Model::new();
    let mut random = StdRng::seed_from_u64(3);
    work(&db, db.default_keyspace(), &mut model, &mut random, 3000);
    db.settle_debt().unwrap();
    // A short log in every chunk, which no rule of reorganisation acts on.
    for number in (0..400).step_by(40) {
        db.put(key(number), "new").unwrap();
        model.insert(key(number), b"new".to_vec());
    }
    db.flush().unwrap();
    let keyspace = db.default_keyspace();
    let part = keyspace.compact_prefix("02/").unwrap();
    assert!(
        part.chunks > 0 && part.chunks < db.stats().chunks,
        "{part:?}"
    );
    assert!(part.bytes_after < db.stats().sstable_bytes);
    assert!(db.stats().log_bytes > 0, "the rest is as it was");
    assert_eq!(keyspace.compact_prefix("02/").unwrap().rewritten, 0);
    assert_eq!(keyspace.compact_range("5".."4").unwrap().chunks, 0);
    assert_eq!(all(db.iter()), model);
}

#[test]
fn an_emptied_database_is_empty() {
    let vfs = SimVfs::new(1);
    let db = options().vfs(Arc::new(vfs.clone())).open("/db").unwrap();
    for number in 0..400 {
        db.put(key(number), [7; 50]).unwrap();
    }
    db.settle_debt().unwrap();
    db.delete_prefix("").unwrap();
    let done = db.compact().unwrap();
    assert_eq!(done.bytes_after, 0, "{done:?}");
    let stats = db.stats();
    assert_eq!(stats.sstable_bytes, 0);
    assert!(stats.chunks == 1 || !layout::has_chunks());
    db.close().unwrap();
    use evendb::vfs::Vfs;
    let names = vfs.list(std::path::Path::new("/db")).unwrap();
    let tables = names
        .iter()
        .filter(|name| name.to_string_lossy().ends_with(".sst"));
    assert_eq!(tables.count(), 0);
    let db = options().vfs(Arc::new(vfs)).open("/db").unwrap();
    assert_eq!(db.iter().count(), 0);
}

#[test]
fn while_others_write() {
    let dir = tempfile::tempdir().unwrap();
    let db = layout::tiny_guards(layout::options())
        .memory_budget(4 << 20)
        .advanced(|advanced| advanced.chunk_bytes(4096))
        .workers(2)
        .open(dir.path())
        .unwrap();
    for number in 0..2000 {
        db.put(key(number), [1; 40]).unwrap();
    }
    let writers: Vec<_> = (0..2)
        .map(|own| {
            let db = db.clone();
            std::thread::spawn(move || {
                for round in 2..6_u8 {
                    for number in (own..2000).step_by(2) {
                        db.put(key(number), [round; 40]).unwrap();
                    }
                }
            })
        })
        .collect();
    for _ in 0..3 {
        db.compact().unwrap();
    }
    writers
        .into_iter()
        .for_each(|writer| writer.join().unwrap());
    db.compact().unwrap();
    assert_eq!(db.stats().log_bytes, 0);
    assert_eq!(db.iter().count(), 2000);
    for item in db.iter() {
        assert_eq!(*item.unwrap().1, [5; 40]);
    }
    db.close().unwrap();
}

#[test]
fn refused_where_nothing_may_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let made = layout::options().open(dir.path()).unwrap();
    made.close().unwrap();
    let db = layout::options().read_only(true).open(dir.path()).unwrap();
    let error = db.compact().unwrap_err();
    assert_eq!(error.kind(), evendb::ErrorKind::ReadOnly);
}

/// A keyspace that is dropped while all are compacted, settled, copied or backed up is not made
/// anew, and makes none of these calls fail.
#[test]
fn calls_that_go_over_all_keyspaces_pass_over_those_that_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let (path, backups) = (dir.path().join("db"), dir.path().join("backups"));
    let options = layout::tiny_guards(layout::options())
        .memory_budget(1 << 20)
        .workers(2);
    let options = options.advanced(|advanced| advanced.chunk_bytes(4 << 10));
    let db = options.open(path).unwrap();
    let over = AtomicBool::new(false);
    let again = |call: &dyn Fn(usize)| {
        let mut times = 0;
        while !over.load(Ordering::Relaxed) {
            call(times);
            times += 1;
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            again(&|_| {
                db.compact().unwrap();
            });
        });
        scope.spawn(|| {
            again(&|_| {
                db.settle_debt().unwrap();
                db.flush().unwrap();
                db.idle_pass().unwrap();
                db.stats();
            });
        });
        scope.spawn(|| {
            again(&|number| {
                db.backup(&backups).unwrap();
                db.copy_to(dir.path().join(number.to_string())).unwrap();
            });
        });
        for round in 0..30 {
            let names: Vec<String> = (0..4).map(|at| format!("{round}-{at}")).collect();
            for name in &names {
                let keyspace = db.keyspace(name).unwrap();
                for number in 0..60 {
                    keyspace.put(format!("{number}"), [1; 100]).unwrap();
                }
            }
            for name in &names {
                db.drop_keyspace(name).unwrap();
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(db.keyspace_names(), ["default"], "made anew");
}
