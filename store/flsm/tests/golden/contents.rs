//! The contents of the kept databases.

use std::collections::BTreeMap;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The number of parts. The last part is only in the log.
const PARTS: u32 = 5;

/// One fixed write; `None` deletes.
pub type Entry = (&'static str, String, Option<Vec<u8>>);

fn put(part: u32, name: &'static str, number: u32, len: usize) -> Entry {
    let mut value = format!("{part}-{number}:").into_bytes();
    value.resize(value.len() + len, b'a' + (number % 26) as u8);
    (name, format!("key{number:04}"), Some(value))
}

fn delete(name: &'static str, number: u32) -> Entry {
    (name, format!("key{number:04}"), None)
}

/// The writes of each part.
pub fn entries(part: u32) -> Vec<Entry> {
    match part {
        // Goes down to the last level.
        0 => (0..70).map(|n| put(0, "default", n * 7 % 70, 12)).collect(),
        // A second run there, with deletes over older records.
        1 => (0..70)
            .step_by(3)
            .map(|n| put(1, "default", n, 5))
            .chain((20..25).map(|n| delete("default", n)))
            .chain((0..20).map(|n| put(1, "other", n, 3)))
            .collect(),
        // Two tables of level 0.
        2 => (30..40).map(|n| put(2, "default", n, 2)).collect(),
        3 => (35..38)
            .map(|n| delete("default", n))
            .chain([put(3, "other", 7, 40)])
            .collect(),
        // In the log.
        _ => (40..45)
            .map(|n| put(4, "default", n, 9))
            .chain([delete("default", 50)])
            .chain([("other", String::new(), Some(b"empty key".to_vec()))])
            .collect(),
    }
}

/// The expected contents, by keyspace.
pub fn expected() -> BTreeMap<&'static str, Map> {
    let mut maps = BTreeMap::from([("default", Map::new()), ("other", Map::new())]);
    for (name, key, value) in (0..PARTS).flat_map(entries) {
        let map = maps.get_mut(name).expect("one of the two");
        match value {
            Some(value) => drop(map.insert(key.into_bytes(), value)),
            None => drop(map.remove(key.as_bytes())),
        }
    }
    maps
}
