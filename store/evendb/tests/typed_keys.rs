//! Prefixes and ranges of typed keys, in every call that takes one.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

use std::collections::BTreeMap;

use evendb::keys::{self, Desc, StartsWith};
use evendb::{Db, Options, Value};

type Key = (&'static str, Option<u8>, Desc<i16>);

const APPS: [&str; 5] = ["", "app", "app\0", "app7", "app70"];

fn all() -> impl Iterator<Item = Key> {
    let times = [None, Some(0), Some(1), Some(255)];
    APPS.into_iter().flat_map(move |app| {
        times
            .into_iter()
            .flat_map(move |time| [i16::MIN, -1, 0, 1].map(|number| (app, time, Desc(number))))
    })
}

fn open(dir: &tempfile::TempDir) -> Db {
    let options = Options::new().memory_budget(1 << 20).workers(0);
    let database = options.open(dir.path()).unwrap();
    let mut buffer = Vec::new();
    for key in all() {
        let bytes = keys::encode_into(&mut buffer, &key);
        database.put(bytes, format!("{key:?}")).unwrap();
    }
    database
}

/// The values of records.
fn values(records: impl Iterator<Item = evendb::Result<(Value, Value)>>) -> Vec<String> {
    let value = |record: evendb::Result<(Value, Value)>| {
        String::from_utf8(record.unwrap().1.to_vec()).unwrap()
    };
    records.map(value).collect()
}

/// The values of the keys that a filter takes, in the order of keys.
fn wanted(filter: impl Fn(&Key) -> bool) -> Vec<String> {
    let sorted: BTreeMap<Key, ()> = all().map(|key| (key, ())).collect();
    let kept = sorted.into_keys().filter(filter);
    kept.map(|key| format!("{key:?}")).collect()
}

#[test]
fn scans_take_prefixes_and_ranges_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&dir);
    let keyspace = database.default_keyspace();
    assert_eq!(values(database.iter()), wanted(|_| true));

    let app7 = keys::prefix(&("app7",));
    let of_app7 = wanted(|key| key.0 == "app7");
    assert_eq!(values(database.prefix(&app7)), of_app7);
    assert_eq!(values(database.range(&app7)), of_app7);
    assert_eq!(
        values(database.snapshot().unwrap().prefix(keyspace, &app7)),
        of_app7
    );
    let backwards = values(database.range(keys::range(("app7", ..))).rev());
    assert_eq!(backwards, of_app7.iter().rev().cloned().collect::<Vec<_>>());

    let late = keys::range(("app7", Some(1u8)..));
    let of_late = wanted(|key| key.0 == "app7" && key.1 >= Some(1));
    assert_eq!(values(database.range(&late)), of_late);
    assert_eq!(values(keyspace.range(late.clone())), of_late);
    assert_eq!(
        values(database.snapshot().unwrap().range(keyspace, &late)),
        of_late
    );
    let mut cursor = database.cursor(&late);
    let mut counted = 0;
    while cursor.next().unwrap().is_some() {
        counted += 1;
    }
    assert_eq!(counted, of_late.len());

    let positive = keys::range(("app", None::<u8>, ..Desc(0i16)));
    let of_positive = wanted(|key| key.0 == "app" && key.1.is_none() && key.2.0 > 0);
    assert_eq!(values(database.range(positive)), of_positive);
    let begins = values(database.range(keys::range((StartsWith("app7"),))));
    assert_eq!(begins, wanted(|key| key.0.starts_with("app7")));
    assert_eq!(
        values(database.range(keys::range(("app".."app7",)))),
        wanted(|key| { ("app".."app7").contains(&key.0) })
    );
}

#[test]
fn deletions_and_compactions_take_them_too() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&dir);
    let keyspace = database.default_keyspace();
    database
        .delete_range(keys::range(("app7", ..=Some(0u8))))
        .unwrap();
    let mut kept = wanted(|key| key.0 != "app7" || key.1 > Some(0));
    assert_eq!(values(database.iter()), kept);
    database.delete_prefix(keys::prefix(&("app7",))).unwrap();
    kept = wanted(|key| key.0 != "app7");
    assert_eq!(values(database.iter()), kept);
    keyspace.compact_prefix(keys::prefix(&("app7",))).unwrap();
    keyspace.compact_range(keys::range(("app", ..))).unwrap();
    assert_eq!(values(database.iter()), kept);
}
