//! The contents of the kept databases, by their format version.

use std::collections::BTreeMap;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// When the values expire that outlive the tests, in seconds since 1970: beyond the year 5000.
pub const STAYS_SECONDS: u64 = 100_000_000_000;

/// One fixed write; `None` deletes.
pub type Entry = (&'static str, String, Option<Vec<u8>>);

/// The writes of each of three parts.
pub fn entries(part: u32) -> Vec<Entry> {
    let put = |name, number: u32, len: usize| {
        let mut value = format!("{part}-{number}:").into_bytes();
        value.resize(value.len() + len, b'a' + (number % 26) as u8);
        (name, format!("key{number:04}"), Some(value))
    };
    match part {
        // Rewritten into tables of their own by a rebalance.
        0 => (0..80).map(|n| put("default", n * 7 % 80, 16)).collect(),
        // A run in the chunks' logs, with deletions over older records.
        1 => (0..10)
            .map(|n| put("default", n * 9, 5))
            .chain((20..25).map(|n| ("default", format!("key{n:04}"), None)))
            .chain((0..5).map(|n| put("other", n, 3)))
            .collect(),
        // Only in the commit log; the last one in a value extent.
        _ => (40..45)
            .map(|n| put("default", n, 9))
            .chain([("default", "key0050".to_owned(), None)])
            .chain([("other", String::new(), Some(b"empty key".to_vec()))])
            .chain([put("other", 77, 8_300)])
            .collect(),
    }
}

/// The contents of a database of a format version, by keyspace.
pub fn expected(version: char) -> BTreeMap<&'static str, Map> {
    let mut maps = BTreeMap::from([("default", Map::new()), ("other", Map::new())]);
    if version >= '4' {
        let staying = ["in a table", "in the log"].map(|place| format!("until/{place}"));
        let staying = staying.map(|key| (key.into_bytes(), b"stays".to_vec()));
        maps.insert("default", Map::from(staying));
    }
    if version >= '7' {
        maps.insert(GUARDS, guarded());
    }
    if version >= '5' {
        for (key, value) in apart() {
            maps.get_mut("default")
                .expect("is there")
                .insert(key.into_bytes(), value);
        }
    }
    for (name, key, value) in (0..3).flat_map(entries) {
        let map = maps.get_mut(name).expect("one of the two");
        match value {
            Some(value) => drop(map.insert(key.into_bytes(), value)),
            None => drop(map.remove(key.as_bytes())),
        }
    }
    maps
}

/// The keyspace of guards, from version 7 on.
pub const GUARDS: &str = "guards";

/// The contents of the keyspace of guards. The records of each part are written one after the
/// other.
pub fn guarded() -> Map {
    let all = (0..3).flat_map(guarded_part);
    all.map(|(key, value)| (key.into_bytes(), value.into_bytes()))
        .collect()
}

/// The puts of one of three parts into the keyspace of guards: in tables of guards, in runs, and in
/// the commit log.
pub fn guarded_part(part: u32) -> impl Iterator<Item = (String, String)> {
    let numbers = (0..60).filter(move |number| number % (part + 1) == 0);
    numbers.map(move |number| {
        (
            format!("key{number:04}"),
            format!("guarded {part}, {number}"),
        )
    })
}

/// Two separately stored values, one named by a table and one by the commit log.
pub fn apart() -> [(String, Vec<u8>); 2] {
    ["in a table", "in the log"].map(|place| (format!("apart/{place}"), vec![b'v'; 700]))
}
