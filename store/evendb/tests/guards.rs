//! Keyspaces whose records lie in guards: what they answer, while tables go down the tree.

use evendb::vfs::SimVfs;
use evendb::{Db, Layout, Options};
use std::collections::BTreeMap;
use std::sync::Arc;

type Test = Result<(), Box<dyn std::error::Error>>;

/// Tiny limits, so that a few records fill all levels.
fn options(vfs: &SimVfs) -> Options {
    Options::new()
        .vfs(Arc::new(vfs.clone()))
        .memory_budget(1 << 20)
        .workers(0)
        .layout(Layout::Guards)
        .advanced(|advanced| {
            advanced.guards(|guards| guards.last_guard_bytes(4 << 10).table_bytes_max(2 << 10))
        })
}

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn records_are_found_wherever_they_lie() -> Test {
    let vfs = SimVfs::new(1);
    let mut model = BTreeMap::new();
    let mut chance = 42;
    for life in 0..4 {
        let db = options(&vfs).open("/db")?;
        for round in 0..40 {
            for _ in 0..300 {
                let key = format!("key {:05}", next(&mut chance) % 5_000);
                match next(&mut chance) % 4 {
                    0 => {
                        db.delete(&key)?;
                        model.remove(&key);
                    }
                    _ => {
                        let value = format!("{life} {round} {key} {:0100}", next(&mut chance));
                        db.put(&key, &value)?;
                        model.insert(key, value);
                    }
                }
            }
            db.flush()?;
        }
        same(&db, &model)?;
        db.settle_debt()?;
        same(&db, &model)?;
        db.close()?;
    }
    Ok(())
}

fn same(db: &Db, model: &BTreeMap<String, String>) -> Test {
    for number in 0..5_000 {
        let key = format!("key {number:05}");
        let found = db.get(&key)?.map(|value| value.to_vec());
        assert_eq!(
            found,
            model.get(&key).map(|value| value.clone().into_bytes()),
            "{key}"
        );
    }
    let mut expected = model.iter();
    for pair in db.iter() {
        let (key, value) = pair?;
        let (own, wanted) = expected.next().expect("no more records");
        assert_eq!((&*key, &*value), (own.as_bytes(), wanted.as_bytes()));
    }
    assert_eq!(expected.next(), None);
    let mut expected = model.iter().rev();
    for pair in db.iter().rev() {
        let (key, value) = pair?;
        let (own, wanted) = expected.next().expect("no more records");
        assert_eq!((&*key, &*value), (own.as_bytes(), wanted.as_bytes()));
    }
    assert_eq!(expected.next(), None);
    Ok(())
}
