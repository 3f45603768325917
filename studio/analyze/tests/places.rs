//! Figures of places against plain programs with maps and lists.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use evendb_analyze::{Budget, Cut, Options, Stored, analyze};
use evendb_report::{Document, Exactness};
use evendb_trace::{Header, Kind, Operation, Outcome, Writer};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const KEYLESS: [Kind; 5] = [
    Kind::Begin,
    Kind::Commit,
    Kind::Abort,
    Kind::BatchCommit,
    Kind::Other,
];
const READS: [Kind; 6] = [
    Kind::Get,
    Kind::Contains,
    Kind::GetForUpdate,
    Kind::MultiGet,
    Kind::Scan,
    Kind::Pop,
];
const GRAINS: [&str; 4] = ["row", "block", "chunk", "prefix"];

fn cut() -> Cut {
    Cut {
        ranges: Some(7),
        block_bytes: 200,
        chunk_bytes: 1500,
        ..Cut::default()
    }
}

/// The result if nobody lists the keys of the store.
fn analysis(operations: &[Operation], cut: Cut) -> Document {
    analysis_of(operations, &[], cut)
}

/// The result if the store has these keys in the first keyspace. Empty: they are not listed.
fn analysis_of(operations: &[Operation], stored: &[Vec<u8>], cut: Cut) -> Document {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("it's a.trace");
    let keyspaces = [(0, "default".to_owned()), (1, "o'ther".to_owned())];
    let header = Header {
        one_in: 1,
        keyspaces: keyspaces.into(),
        ..Header::default()
    };
    let mut writer = Writer::new(std::fs::File::create(&trace).unwrap(), &header).unwrap();
    for operation in operations {
        writer.add(operation).unwrap();
    }
    writer.finish().unwrap();
    let tables = folder.path().join("the table's");
    std::fs::create_dir(&tables).unwrap();
    let file = folder.path().join("its keys");
    let line = |key: &Vec<u8>| key.iter().map(|byte| format!("{byte:02x}")).collect();
    let lines: Vec<String> = stored.iter().map(line).collect();
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    let listed = Stored {
        file,
        keyspace: Some("default".to_owned()),
    };
    let options = Options {
        trace,
        format: None,
        stored: Some(listed)
            .filter(|_| !stored.is_empty())
            .into_iter()
            .collect(),
        folder: tables,
        budget: Budget {
            memory_bytes: 512 << 20,
            threads: 2,
        },
        cut,
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(analyze(&options, &mut |_| ())).unwrap()
}

/// Numbers that look drawn at random.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// Operations of all kinds in two keyspaces, with keys that are short, long, empty and all ones.
fn mixture() -> Vec<Operation> {
    let mut draws = Draws(0x1234_5678_9abc_def1);
    let mut keys: Vec<Vec<u8>> = (0..150u32)
        .map(|number| format!("t{}/{:05}", number % 5, number * 37).into_bytes())
        .collect();
    keys.extend([
        vec![],
        vec![0],
        vec![0xff; 3],
        vec![0xff; 40],
        b"'".to_vec(),
        b"t".to_vec(),
    ]);
    let mut nanos = 0;
    let operation = |_| {
        nanos += draws.below(4_000_000);
        let kind = Kind::ALL[draws.below(17) as usize];
        let at = draws.below(156).min(draws.below(156)) as usize;
        let key = match KEYLESS.contains(&kind) {
            true => vec![],
            false => keys[at].clone(),
        };
        let mut operation = Operation::new(kind, key);
        operation.keyspace = u32::from(draws.below(4) == 0);
        operation.start_nanos = nanos;
        match kind {
            Kind::Put | Kind::Merge => operation.value_len = Some(draws.below(60)),
            Kind::Get if draws.below(2) == 0 => {
                let len = Some(draws.below(60));
                operation.outcome = Outcome::Present { len, hash: None };
            }
            _ => {}
        }
        operation
    };
    (0..2500).map(operation).collect()
}

/// Lists of the keys of a store: an empty one, and one of keys before, between and behind the keys
/// of the mixture, with some of these, one of them twice.
fn lists() -> [Vec<Vec<u8>>; 2] {
    let mut keys: Vec<Vec<u8>> = (0..30u32)
        .map(|number| format!("t{}/{:05}x", number % 7, number * 11).into_bytes())
        .collect();
    keys.extend([vec![], vec![0, 0], vec![0xff; 41], vec![0xff; 3]]);
    keys.extend([b"t1/00037".to_vec(), b"t1/00037".to_vec()]);
    [vec![], keys]
}

/// What is known of one keyspace, by a plain program.
struct Known<'a> {
    name: &'static str,
    operations: Vec<&'a Operation>,
    keys: Vec<&'a [u8]>,
    pair_bytes: f64,
    prefix_bytes: usize,
}

fn known<'a>(operations: &'a [Operation], stored: &'a [Vec<u8>]) -> Vec<Known<'a>> {
    let known = |(number, name): (u32, &'static str)| {
        let mine = operations
            .iter()
            .filter(|one| one.keyspace == number && !KEYLESS.contains(&one.kind));
        let mine: Vec<&Operation> = mine.collect();
        let listed = stored.iter().filter(|_| number == 0).map(Vec::as_slice);
        let keys = mine.iter().map(|one| one.key.as_slice());
        let keys: BTreeSet<&[u8]> = keys.chain(listed).collect();
        let keys: Vec<&[u8]> = keys.into_iter().collect();
        let mut values: BTreeMap<(&[u8], &str), Vec<f64>> = BTreeMap::new();
        for one in &mine {
            let found = match one.outcome {
                Outcome::Present { len, .. } => len,
                _ => None,
            };
            if let Some(bytes) = one.value_len.or(found) {
                let of = (one.key.as_slice(), one.kind.name());
                values.entry(of).or_default().push(bytes as f64);
            }
        }
        let means = values
            .values()
            .map(|all| all.iter().sum::<f64>() / all.len() as f64);
        let value = means.sum::<f64>() / values.len() as f64;
        let key = keys.iter().map(|key| key.len()).sum::<usize>() as f64 / keys.len() as f64;
        let different = |length: usize| {
            let prefixes = keys.iter().map(|key| &key[..length.min(key.len())]);
            prefixes.collect::<BTreeSet<_>>().len()
        };
        let prefix_bytes = (1..).find(|&length| different(length) >= 64.min(keys.len()));
        Known {
            name,
            operations: mine,
            pair_bytes: key + value,
            prefix_bytes: prefix_bytes.unwrap(),
            keys,
        }
    };
    [(0, "default"), (1, "o'ther")].map(known).into()
}

impl Known<'_> {
    fn id(&self, key: &[u8]) -> usize {
        self.keys.iter().position(|one| *one == key).unwrap()
    }

    fn prefix<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        &key[..self.prefix_bytes.min(key.len())]
    }

    fn pairs_in(&self, bytes: f64) -> usize {
        ((bytes / self.pair_bytes).round() as usize).clamp(1, self.keys.len())
    }

    /// The units that are read, in order, each with its time.
    fn units(&self, grain: &str) -> Vec<(usize, u64)> {
        let reads = self
            .operations
            .iter()
            .filter(|one| READS.contains(&one.kind));
        let unit = |key: &[u8]| match grain {
            "row" => self.id(key),
            "block" => self.id(key) / self.pairs_in(200.0),
            "chunk" => self.id(key) / self.pairs_in(1500.0),
            _ => {
                let mut all = self.keys.iter();
                all.position(|one| self.prefix(one) == self.prefix(key))
                    .unwrap()
            }
        };
        reads.map(|one| (unit(&one.key), one.start_nanos)).collect()
    }
}

fn rows<'d>(document: &'d Document, id: &str) -> &'d [Vec<Value>] {
    let figure = document.figure(id);
    &figure.unwrap_or_else(|| panic!("no figure {id}")).rows
}

fn row(cells: &[&dyn Fn() -> Value]) -> Vec<Value> {
    cells.iter().map(|cell| cell()).collect()
}

fn value(of: impl Into<Value>) -> Value {
    of.into()
}

fn text(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}

fn near(a: &Value, b: f64) -> bool {
    (a.as_f64().unwrap() - b).abs() <= 1e-9 * b.abs().max(1.0)
}

/// By keyspace, kind and part of the key space: its different keys and its accesses.
type Parts = BTreeMap<(&'static str, &'static str, usize), (BTreeSet<Vec<u8>>, u64)>;

fn parts(all: &[Known<'_>], part: impl Fn(&Known<'_>, &[u8]) -> usize) -> Parts {
    let mut parts = Parts::new();
    for one in all {
        for operation in &one.operations {
            let of = (one.name, operation.kind.name(), part(one, &operation.key));
            let (keys, accesses) = parts.entry(of).or_default();
            keys.insert(operation.key.clone());
            *accesses += 1;
        }
    }
    parts
}

#[test]
fn ranges_are_as_counted_one_by_one() {
    for stored in lists() {
        ranges_are_as_counted(&stored);
    }
}

fn ranges_are_as_counted(stored: &[Vec<u8>]) {
    let operations = mixture();
    let document = analysis_of(&operations, stored, cut());
    let all = known(&operations, stored);
    let range = |one: &Known<'_>, key: &[u8]| one.id(key) * 7 / one.keys.len();
    let mut parts = parts(&all, range);
    for key in stored {
        let of = (all[0].name, "stored", range(&all[0], key));
        parts.entry(of).or_default().0.insert(key.clone());
    }
    let first = |keyspace: &str, part: usize| {
        let one = all.iter().find(|one| one.name == keyspace).unwrap();
        let key = one.keys.iter().find(|key| range(one, key) == part);
        text(key.unwrap())
    };
    let right: Vec<Vec<Value>> = parts
        .iter()
        .map(|((keyspace, kind, part), (keys, accesses))| {
            row(&[
                &|| value(*keyspace),
                &|| value(*kind),
                &|| value(*part),
                &|| value(first(keyspace, *part)),
                &|| value(keys.len()),
                &|| value(*accesses),
            ])
        })
        .collect();
    assert_eq!(rows(&document, "ranges"), right);

    /// Accesses, number and keys.
    type Ranges = Vec<(u64, usize, usize)>;
    let mut by_kind: BTreeMap<(&str, &str), Ranges> = BTreeMap::new();
    let accessed = parts.iter().filter(|(_, (_, accesses))| *accesses > 0);
    for ((keyspace, kind, part), (keys, accesses)) in accessed {
        let of = by_kind.entry((keyspace, kind)).or_default();
        of.push((*accesses, *part, keys.len()));
    }
    let (mut ranks, mut hottest) = (Vec::new(), Vec::new());
    for ((keyspace, kind), ranges) in &mut by_kind {
        ranges.sort_by_key(|(accesses, part, _)| (u64::MAX - accesses, *part));
        let sum: u64 = ranges.iter().map(|(accesses, ..)| accesses).sum();
        for (rank, (accesses, part, keys)) in (1..).zip(ranges) {
            let share = *accesses as f64 / sum as f64;
            ranks.push(vec![
                value(*keyspace),
                value(*kind),
                value(rank),
                value(*accesses),
                value(share),
            ]);
            hottest.push(vec![
                value(*keyspace),
                value(*kind),
                value(first(keyspace, *part)),
                value(*keys),
                value(*accesses),
                value(*accesses as f64 / *keys as f64),
            ]);
        }
    }
    assert_eq!(rows(&document, "range-ranks"), ranks);
    assert_eq!(rows(&document, "hottest-ranges"), hottest);
}

#[test]
fn prefixes_are_as_counted_one_by_one() {
    for stored in lists() {
        prefixes_are_as_counted(&stored);
    }
}

fn prefixes_are_as_counted(stored: &[Vec<u8>]) {
    let operations = mixture();
    let document = analysis_of(&operations, stored, cut());
    let mut right = Vec::new();
    for one in known(&operations, stored) {
        type Counts<'k> = (BTreeSet<&'k [u8]>, u64);
        let mut counted: BTreeMap<(&str, &[u8]), Counts<'_>> = BTreeMap::new();
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for operation in &one.operations {
            let of = (operation.kind.name(), one.prefix(&operation.key));
            let (keys, accesses) = counted.entry(of).or_default();
            keys.insert(&operation.key);
            *accesses += 1;
            *sums.entry(operation.kind.name()).or_default() += 1;
        }
        for (kind, sum) in sums {
            let mine = counted.iter().filter(|((of, _), _)| *of == kind);
            let mut mine: Vec<_> = mine.collect();
            mine.sort_by_key(|((_, prefix), (_, accesses))| (u64::MAX - accesses, *prefix));
            for ((_, prefix), (keys, accesses)) in mine.into_iter().take(20) {
                right.push(vec![
                    value(one.name),
                    value(kind),
                    value(text(prefix)),
                    value(keys.len()),
                    value(*accesses),
                    value(*accesses as f64 / sum as f64),
                ]);
            }
        }
    }
    assert_eq!(rows(&document, "hottest-prefixes"), right);
}

#[test]
fn plots_of_the_key_space_have_every_operation_in_its_place() {
    for stored in lists() {
        plots_have_every_operation(&stored);
    }
}

fn plots_have_every_operation(stored: &[Vec<u8>]) {
    let operations = mixture();
    let document = analysis_of(&operations, stored, cut());
    let all = known(&operations, stored);
    assert!(all.iter().all(|one| one.keys.len() < 200));
    // There are fewer keys than parts: each key is a part.
    let right = parts(&all, |one, key| one.id(key));
    let right: Vec<Vec<Value>> = right
        .iter()
        .map(|((keyspace, kind, id), (keys, accesses))| {
            vec![
                value(*keyspace),
                value(*kind),
                value(*id),
                value(keys.len()),
                value(*accesses),
            ]
        })
        .collect();
    assert_eq!(rows(&document, "key-space"), right);

    let nanos = operations.last().unwrap().start_nanos / 120 + 1;
    let mut heat: BTreeMap<(&str, u64, usize), u64> = BTreeMap::new();
    let mut points: BTreeMap<(&str, &str), Vec<(f64, usize)>> = BTreeMap::new();
    for one in &all {
        for operation in &one.operations {
            let (bin, id) = (operation.start_nanos / nanos, one.id(&operation.key));
            *heat.entry((one.name, bin, id)).or_default() += 1;
            let seconds = operation.start_nanos as f64 / 1e9;
            let of = (one.name, operation.kind.name());
            points.entry(of).or_default().push((seconds, id));
        }
    }
    let found = rows(&document, "heat-map");
    assert_eq!(found.len(), heat.len());
    for (found, ((keyspace, bin, id), accesses)) in found.iter().zip(&heat) {
        assert_eq!(found[0], **keyspace);
        assert!(near(&found[1], *bin as f64 * nanos as f64 / 1e9));
        assert_eq!(found[2..], [value(*id), value(*accesses)]);
    }
    let points = points.iter().flat_map(|((keyspace, kind), points)| {
        let row = |(seconds, id): &(f64, usize)| {
            vec![value(*keyspace), value(*kind), value(*seconds), value(*id)]
        };
        points.iter().map(row)
    });
    assert_eq!(rows(&document, "time-series"), points.collect::<Vec<_>>());
}

/// The least and the most accesses of the cell that a number of accesses is in, and its name.
fn cell_of(accesses: u64) -> (u64, u64, String) {
    if accesses < 2 {
        return (accesses, accesses, accesses.to_string());
    }
    let mut least = 1;
    while least * 2 <= accesses {
        least *= 2;
    }
    let most = least * 2 - 1;
    (least, most, format!("{least} to {most}"))
}

#[test]
fn each_key_is_in_one_cell_of_the_map_of_a_kind() {
    let operations = mixture();
    for stored in lists() {
        let document = analysis_of(&operations, &stored, cut());
        let mut right = Vec::new();
        for one in known(&operations, &stored) {
            let mut accesses: BTreeMap<&str, BTreeMap<&[u8], u64>> = BTreeMap::new();
            for operation in &one.operations {
                let of_kind = accesses.entry(operation.kind.name()).or_default();
                *of_kind.entry(&operation.key).or_default() += 1;
            }
            for (kind, accesses) in accesses {
                // There are fewer keys than parts: each key is a part.
                let ids = one.keys.iter().enumerate();
                let mut cells: Vec<_> = ids
                    .map(|(id, key)| (cell_of(accesses.get(key).copied().unwrap_or(0)), id))
                    .collect();
                cells.sort();
                right.extend(cells.into_iter().map(|((least, most, name), id)| {
                    vec![
                        value(one.name),
                        value(kind),
                        value(format!("{}, {kind}", one.name)),
                        value(id),
                        value(name),
                        value(least),
                        value(most),
                        value(1),
                    ]
                }));
            }
        }
        assert_eq!(rows(&document, "key-map"), right);
    }
}

#[test]
fn many_keys_share_the_cells_of_the_map_and_none_is_lost() {
    // 1000 keys in 200 parts of five; key n was got n % 7 times.
    let mut operations = Vec::new();
    for number in 0..1000_u64 {
        let times = 0..number % 7;
        operations.extend(times.map(|_| Operation::new(Kind::Get, format!("{number:04}"))));
        operations.push(Operation::new(Kind::Put, format!("{number:04}")));
    }
    for (at, operation) in (0..).zip(&mut operations) {
        operation.start_nanos = at * 1000;
    }
    let document = analysis(&operations, Cut::default());
    let mut right: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for number in 0..1000 {
        let (least, ..) = cell_of(number % 7);
        *right.entry((least, number / 5)).or_default() += 1;
    }
    let found = rows(&document, "key-map").iter();
    let found = found.filter(|row| row[1] == "get");
    let number = |row: &[Value], cell: usize| row[cell].as_u64().unwrap();
    let found: Vec<_> = found
        .map(|row| ((number(row, 5), number(row, 3)), number(row, 7)))
        .collect();
    assert_eq!(found, right.into_iter().collect::<Vec<_>>());
    let puts = rows(&document, "key-map")
        .iter()
        .filter(|row| row[1] == "put");
    assert!(puts.clone().all(|row| row[4] == "1" && row[7] == 5) && puts.count() == 200);
}

#[test]
fn prefixes_have_their_borders_where_their_first_keys_lie() {
    let operations = mixture();
    for stored in lists() {
        for (prefix_bytes, is_shown) in [(Some(2), true), (Some(1), true), (Some(40), false)] {
            let cut = Cut {
                prefix_bytes,
                ..cut()
            };
            let document = analysis_of(&operations, &stored, cut);
            let mut right = Vec::new();
            for one in known(&operations, &stored) {
                let length = prefix_bytes.unwrap() as usize;
                let prefix = |key: &[u8]| key[..length.min(key.len())].to_vec();
                let mut prefixes: BTreeMap<Vec<u8>, (usize, usize, u64)> = BTreeMap::new();
                for (id, key) in one.keys.iter().enumerate() {
                    let (_, keys, accesses) = prefixes.entry(prefix(key)).or_insert((id, 0, 0));
                    *keys += 1;
                    let own = one
                        .operations
                        .iter()
                        .filter(|operation| operation.key == *key);
                    *accesses += own.count() as u64;
                }
                for (prefix, (id, keys, accesses)) in prefixes.iter().filter(|_| is_shown) {
                    right.push(vec![
                        value(one.name),
                        value(text(prefix)),
                        value(*id),
                        value(*id as f64),
                        value(*keys),
                        value(*accesses),
                    ]);
                }
            }
            let found = document.figure("prefix-borders");
            assert_eq!(found.map_or(&[][..], |figure| &figure.rows), right);
            assert_eq!(right.is_empty(), !is_shown);
            for id in ["key-space", "time-series"] {
                let borders = &document.figure(id).unwrap().charts[0].borders;
                let found: Vec<_> = borders
                    .iter()
                    .map(|border| (value(&*border.panel), border.at + 0.5, value(&*border.name)))
                    .collect();
                let begun = right.iter().filter(|row| row[2] != 0);
                let right =
                    begun.map(|row| (row[0].clone(), row[3].as_f64().unwrap(), row[1].clone()));
                assert_eq!(found, right.collect::<Vec<_>>(), "{id}");
            }
        }
    }
}

#[test]
fn what_follows_what_is_as_counted_one_by_one() {
    let operations = mixture();
    let document = analysis(&operations, cut());
    let mut right: BTreeMap<(&str, &str, &str), Vec<u64>> = BTreeMap::new();
    let mut sums: BTreeMap<&str, usize> = BTreeMap::new();
    for one in known(&operations, &[]) {
        let mut last: BTreeMap<&[u8], &Operation> = BTreeMap::new();
        for operation in one.operations {
            if let Some(before) = last.insert(&operation.key, operation) {
                let of = (one.name, before.kind.name(), operation.kind.name());
                let apart = operation.start_nanos - before.start_nanos;
                right.entry(of).or_default().push(apart);
                *sums.entry(one.name).or_default() += 1;
            }
        }
    }
    let found = rows(&document, "pair-correlations");
    assert_eq!(found.len(), right.len());
    for found in found {
        let [keyspace, a, b] = [0, 1, 2].map(|at| found[at].as_str().unwrap());
        let apart = right.get_mut(&(keyspace, a, b)).unwrap();
        apart.sort_unstable();
        assert_eq!(found[3], apart.len());
        assert!(near(&found[4], apart.len() as f64 / sums[keyspace] as f64));
        let median = found[5].as_f64().unwrap() * 1e9;
        let middle = apart.len() / 2;
        let least = apart[middle.saturating_sub(1)] as f64 - 1.0;
        let most = apart[(middle + 1).min(apart.len() - 1)] as f64 + 1.0;
        assert!(least <= median && median <= most, "{median}, {apart:?}");
    }
}

/// The number of accesses by distance, from a list that is searched; and the reads and the units.
fn distances(units: &[(usize, u64)]) -> (BTreeMap<usize, u64>, usize) {
    let mut list: Vec<usize> = Vec::new();
    let mut distances: BTreeMap<usize, u64> = BTreeMap::new();
    for (unit, _) in units {
        if let Some(at) = list.iter().rposition(|other| other == unit) {
            *distances.entry(list.len() - at).or_default() += 1;
            list.remove(at);
        }
        list.push(*unit);
    }
    (distances, list.len())
}

#[test]
fn caches_are_as_if_each_was_tried() {
    for stored in lists() {
        caches_are_as_if_tried(&stored);
    }
}

fn caches_are_as_if_tried(stored: &[Vec<u8>]) {
    let operations = mixture();
    let document = analysis_of(&operations, stored, cut());
    for one in known(&operations, stored) {
        for grain in GRAINS {
            let mine = |id: &str| -> Vec<Vec<Value>> {
                let mine = rows(&document, id)
                    .iter()
                    .filter(|row| row[0] == one.name && row[1] == grain);
                mine.cloned().collect()
            };
            let units = one.units(grain);
            let (distances, different) = distances(&units);
            let reads = units.len() as f64;
            let up_to = |size: u64| {
                let hits = distances
                    .iter()
                    .filter(|(distance, _)| **distance as u64 <= size);
                hits.map(|(_, count)| count).sum::<u64>()
            };
            let ratios = mine("miss-ratios");
            assert!(ratios.len() > 1);
            assert_eq!(ratios.last().unwrap()[2], different);
            for row in &ratios {
                let size = row[2].as_u64().unwrap();
                assert!(near(&row[4], 1.0 - up_to(size) as f64 / reads));
            }
            let reuse = mine("reuse-distances");
            let mut before = 0;
            for row in &reuse {
                let hits = up_to(row[2].as_u64().unwrap());
                assert_eq!(row[3], hits - before);
                assert!(near(&row[4], hits as f64 / reads));
                before = hits;
            }
            assert_eq!(before, up_to(u64::MAX));

            let duration = operations.last().unwrap().start_nanos + 1;
            let sets = mine("working-set");
            assert!(sets.len() > 2);
            for row in &sets {
                let length = (row[2].as_f64().unwrap() * 1e9).round() as u64;
                let periods = duration / length;
                let different: BTreeSet<(u64, usize)> = units
                    .iter()
                    .map(|(unit, nanos)| (nanos / length, *unit))
                    .filter(|(period, _)| *period < periods)
                    .collect();
                let mean = different.len() as f64 / periods as f64;
                assert!(near(&row[3], mean), "{grain} {row:?} {mean}");
            }

            let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
            for (unit, _) in &units {
                *counts.entry(*unit).or_default() += 1;
            }
            let mut counts: Vec<u64> = counts.into_values().collect();
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let most = |share: f64| {
                let hottest = (counts.len() as f64 * share).ceil() as usize;
                counts[..hottest].iter().sum::<u64>() as f64 / reads
            };
            let locality = &mine("locality")[0];
            assert_eq!(locality[2], different);
            assert!(near(&locality[3], reads / different as f64));
            assert!(near(&locality[4], most(0.01)));
            assert!(near(&locality[5], most(0.1)));
            let bytes = match grain {
                "row" => one.pair_bytes,
                "block" => one.pair_bytes * one.pairs_in(200.0) as f64,
                "chunk" => one.pair_bytes * one.pairs_in(1500.0) as f64,
                _ => continue,
            };
            assert_eq!(locality[6], bytes.round() as u64);
        }
    }
}

const IDS: [&str; 14] = [
    "ranges",
    "range-ranks",
    "hottest-ranges",
    "hottest-prefixes",
    "key-space",
    "key-map",
    "heat-map",
    "time-series",
    "prefix-borders",
    "pair-correlations",
    "miss-ratios",
    "reuse-distances",
    "working-set",
    "locality",
];

#[test]
fn a_trace_of_nothing_has_no_rows() {
    let other = Operation::new(Kind::Other, b"checkpoint".to_vec());
    for operations in [vec![], vec![other]] {
        let document = analysis(&operations, Cut::default());
        for id in IDS {
            assert!(
                document
                    .figure(id)
                    .is_none_or(|figure| figure.rows.is_empty())
            );
        }
    }
}

#[test]
fn a_trace_of_one_read_misses_once() {
    let get = Operation::new(Kind::Get, vec![]);
    let document = analysis(&[get], Cut::default());
    assert_eq!(
        rows(&document, "ranges"),
        [vec![
            value("default"),
            value("get"),
            value(0),
            value(""),
            value(1),
            value(1)
        ]]
    );
    for row in rows(&document, "miss-ratios") {
        assert_eq!(row[2..], [value(1), value(1), value(1.0)]);
    }
    assert_eq!(rows(&document, "miss-ratios").len(), 4);
    assert!(rows(&document, "reuse-distances").is_empty());
}

#[test]
fn a_sample_of_one_unit_in_twenty_is_near() {
    let count = 10_000u64;
    let mut sums = vec![0.0];
    for rank in 0..count {
        sums.push(sums[rank as usize] + (rank as f64 + 1.0).powf(-0.9));
    }
    let mut draws = Draws(0xfeed_f00d_dead_beef);
    let operation = |nanos| {
        let drawn = draws.below(1 << 40) as f64 / (1u64 << 40) as f64 * sums[count as usize];
        let rank = sums.partition_point(|sum| *sum <= drawn) as u64 - 1;
        // Hot keys all over the key space: the factor has no divisor in common with the count.
        let key = format!("{:08}", rank * 7919 % count);
        let mut get = Operation::new(Kind::Get, key.into_bytes());
        get.start_nanos = nanos;
        get
    };
    let operations: Vec<Operation> = (0..100_000).map(operation).collect();
    let exact = analysis(&operations, Cut::default());
    let sampled_units = 500;
    let sampled = analysis(
        &operations,
        Cut {
            sampled_units,
            ..Cut::default()
        },
    );
    let figure = sampled.figure("miss-ratios").unwrap();
    assert!(matches!(figure.exactness, Exactness::Sketched(_)));
    let exact: BTreeMap<u64, f64> = rows(&exact, "miss-ratios")
        .iter()
        .filter(|row| row[1] == "row")
        .map(|row| (row[2].as_u64().unwrap(), row[4].as_f64().unwrap()))
        .collect();
    let errors: Vec<f64> = figure
        .rows
        .iter()
        .filter(|row| row[1] == "row")
        .map(|row| (row[4].as_f64().unwrap() - exact[&row[2].as_u64().unwrap()]).abs())
        .collect();
    assert!(errors.len() > 50);
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    assert!(mean < 0.02, "{mean}: {errors:?}");
}
