//! Composition, and how often keys are accessed.

use crate::load::*;
use evendb_trace::{Kind, Operation, Outcome};
use std::collections::{BTreeMap, BTreeSet};

type Group = (String, String);

fn group(operation: &Operation) -> Group {
    (keyspace(operation), operation.kind.name().to_owned())
}

/// How often each key was named, by keyspace and kind.
fn accesses(operations: &[Operation]) -> BTreeMap<Group, BTreeMap<Vec<u8>, u64>> {
    let mut groups: BTreeMap<Group, BTreeMap<Vec<u8>, u64>> = BTreeMap::new();
    for operation in operations.iter().filter(|operation| has_key(operation)) {
        let keys = groups.entry(group(operation)).or_default();
        *keys.entry(operation.key.clone()).or_default() += 1;
    }
    groups
}

fn by_count(keys: &BTreeMap<Vec<u8>, u64>) -> Counts {
    let mut counts = Counts::default();
    keys.values().for_each(|accesses| counts.add(*accesses));
    counts
}

#[test]
fn composition_counts_kinds_keys_and_outcomes() {
    let Large {
        all,
        done,
        document,
    } = large();
    let operations = placed(all);
    let all_done = done.len() as f64;
    let found = figure(document, "composition");
    assert_columns(
        found,
        "keyspace kind operations share keys found absent failed",
    );
    let mut kinds: BTreeMap<Group, ([u64; 4], BTreeSet<&[u8]>)> = BTreeMap::new();
    for operation in &operations {
        let (counts, keys) = kinds.entry(group(operation)).or_default();
        let is_done = !matches!(operation.outcome, Outcome::Failed(_));
        counts[0] += u64::from(is_done);
        counts[1] += u64::from(matches!(operation.outcome, Outcome::Present { .. }));
        counts[2] += u64::from(operation.outcome == Outcome::Absent);
        counts[3] += u64::from(matches!(operation.outcome, Outcome::Failed(_)));
        if has_key(operation) && is_done {
            keys.insert(&operation.key);
        }
    }
    assert_eq!(found.rows.len(), kinds.len());
    for row in &found.rows {
        let (counts, keys) = &kinds[&(text(&row[0]), text(&row[1]))];
        assert_eq!(whole(&row[2]), counts[0]);
        assert!(near(&row[3], counts[0] as f64 / all_done));
        assert_eq!(whole(&row[4]), keys.len() as u64);
        let outcomes = [5, 6, 7].map(|cell| whole(&row[cell]));
        assert_eq!(outcomes, counts[1..]);
    }
    let order = |row: &Vec<serde_json::Value>| (text(&row[0]), u64::MAX - whole(&row[2]));
    assert!(found.rows.is_sorted_by_key(order));
}

#[test]
fn accesses_per_key_are_those_of_a_sorted_list() {
    let Large {
        done: operations,
        document,
        ..
    } = large();
    let found = figure(document, "accesses-per-key");
    assert_columns(
        found,
        "keyspace kind keys mean median p99 most once at_least_10 at_least_100 accesses_of_those_above_100",
    );
    let groups = accesses(operations);
    assert_eq!(found.rows.len(), groups.len());
    for (row, (group, keys)) in found.rows.iter().zip(&groups) {
        assert_eq!((text(&row[0]), text(&row[1])), *group);
        let counts = by_count(keys);
        let all = counts.all();
        let sum: u64 = all.iter().sum();
        let share = |count: usize| count as f64 / all.len() as f64;
        assert_eq!(whole(&row[2]), all.len() as u64);
        assert!(near(&row[3], sum as f64 / all.len() as f64));
        assert_eq!(whole(&row[4]), counts.percentile(500));
        assert_eq!(whole(&row[5]), counts.percentile(990));
        assert_eq!(whole(&row[6]), all[all.len() - 1]);
        let at_least = |least: u64| all.iter().filter(|count| **count >= least).count();
        assert!(near(&row[7], share(all.len() - at_least(2))));
        assert!(near(&row[8], share(at_least(10))));
        assert!(near(&row[9], share(at_least(100))));
        let above: u64 = all.iter().filter(|count| **count > 100).sum();
        assert!(near(&row[10], above as f64 / sum as f64));
    }
    // The load must have keys of all these sorts, or the test would say little.
    let any = |cell: usize| found.rows.iter().any(|row| row[cell].as_f64() > Some(0.0));
    assert!([7, 8, 9, 10].into_iter().all(any));
}

#[test]
fn access_counts_are_sums_up_to_a_count() {
    let Large {
        done: operations,
        document,
        ..
    } = large();
    let found = figure(document, "access-counts");
    assert_columns(
        found,
        "keyspace kind accesses keys keys_up_to accesses_up_to",
    );
    let mut rows = found.rows.iter().peekable();
    let mut before = 0;
    for (group, keys) in accesses(operations) {
        let counts = by_count(&keys);
        let sum = counts.all().iter().sum::<u64>() as f64;
        let mut kept = Vec::new();
        while let Some(row) = rows.next_if(|row| (text(&row[0]), text(&row[1])) == group) {
            let number = whole(&row[2]);
            assert_eq!(whole(&row[3]), counts.0[&number]);
            assert!(near(&row[4], counts.share_up_to(number)));
            let up_to = counts.all().into_iter().filter(|one| *one <= number);
            assert!(near(&row[5], up_to.sum::<u64>() as f64 / sum));
            kept.push(number);
        }
        let all: Vec<u64> = counts.0.keys().copied().collect();
        assert_thinned(&kept, &all, 1.03);
        before += all.len();
    }
    assert!(rows.next().is_none());
    let thinned = found.rows_before.unwrap_or(found.rows.len() as u64);
    assert_eq!(thinned, before as u64);
}

#[test]
fn ranks_are_those_of_a_list_of_keys() {
    let Large {
        done: operations,
        document,
        ..
    } = large();
    let found = figure(document, "access-ranks");
    assert_columns(found, "keyspace kind rank accesses accesses_up_to");
    let mut rows = found.rows.iter().peekable();
    let mut before = 0;
    for (group, keys) in accesses(operations) {
        let mut all = by_count(&keys).all();
        all.reverse();
        let sum: u64 = all.iter().sum();
        let mut kept = Vec::new();
        while let Some(row) = rows.next_if(|row| (text(&row[0]), text(&row[1])) == group) {
            let rank = whole(&row[2]) as usize;
            assert_eq!(whole(&row[3]), all[rank - 1]);
            let up_to: u64 = all[..rank].iter().sum();
            assert!(near(&row[4], up_to as f64 / sum as f64));
            kept.push(rank as u64);
        }
        let ranks: Vec<u64> = (1..=all.len() as u64).collect();
        assert_thinned(&kept, &ranks, 1.05);
        before += all.len();
    }
    assert!(rows.next().is_none());
    assert_eq!(found.rows_before, Some(before as u64));
}

#[test]
fn the_hottest_keys_come_first() {
    let Large {
        done: operations,
        document,
        ..
    } = large();
    let found = figure(document, "hottest-keys");
    assert_columns(found, "keyspace kind rank key accesses share");
    let mut expected = Vec::new();
    for ((keyspace, kind), keys) in accesses(operations) {
        let sum: u64 = keys.values().sum();
        let mut keys: Vec<(Vec<u8>, u64)> = keys.into_iter().collect();
        // A stable order: among equally hot keys the smaller is first.
        keys.sort_by_key(|(_, accesses)| u64::MAX - accesses);
        for (rank, (key, accesses)) in keys.into_iter().take(20).enumerate() {
            let key = key.escape_ascii().to_string();
            let share = accesses as f64 / sum as f64;
            expected.push((
                keyspace.clone(),
                kind.clone(),
                rank as u64 + 1,
                key,
                accesses,
                share,
            ));
        }
    }
    assert_eq!(found.rows.len(), expected.len());
    for (row, (keyspace, kind, rank, key, accesses, share)) in found.rows.iter().zip(expected) {
        assert_eq!((text(&row[0]), text(&row[1])), (keyspace, kind));
        assert_eq!((whole(&row[2]), text(&row[3])), (rank, key));
        assert_eq!(whole(&row[4]), accesses);
        assert!(near(&row[5], share));
    }
}

/// The hottest keys of a kind, at most this number, and the accesses of the last one. Keys with as
/// many accesses are in the order of keys. None if the last was named once and others were, too.
fn hottest(keys: &BTreeMap<Vec<u8>, u64>, most: usize) -> Option<(Vec<&Vec<u8>>, u64)> {
    let mut sorted: Vec<(&Vec<u8>, u64)> = keys.iter().map(|(key, count)| (key, *count)).collect();
    sorted.sort_by_key(|(key, count)| (u64::MAX - count, *key));
    sorted.truncate(most);
    let least = sorted.last()?.1;
    let all = sorted.len() == keys.len();
    (least > 1 || all).then(|| (sorted.into_iter().map(|(key, _)| key).collect(), least))
}

#[test]
fn hot_keys_that_kinds_share_are_those_of_two_lists() {
    let Large { done, document, .. } = large();
    let found = figure(document, "hot-keys-shared");
    assert_columns(
        found,
        "keyspace kind other hottest keys least_accesses other_keys other_least_accesses shared share",
    );
    let groups = accesses(done);
    let mut right = Vec::new();
    for ((name, kind), keys) in &groups {
        for ((other_name, other), other_keys) in &groups {
            if name != other_name || kind == other {
                continue;
            }
            let all = keys.len().max(other_keys.len());
            let tops = [10, 100, 1000, 10_000];
            let last = tops.iter().position(|top| *top >= all).unwrap();
            for most in &tops[..=last] {
                let lists = (hottest(keys, *most), hottest(other_keys, *most));
                let (Some((own, least)), Some((others, other_least))) = lists else {
                    continue;
                };
                let shared = own.iter().filter(|key| others.contains(key)).count();
                let names = [name, kind, other].map(|text| serde_json::json!(text));
                let counts = [
                    *most,
                    own.len(),
                    least as usize,
                    others.len(),
                    other_least as usize,
                    shared,
                ];
                let share = shared as f64 / own.len() as f64;
                let mut row = names.to_vec();
                row.extend(counts.map(|count| serde_json::json!(count)));
                row.push(serde_json::json!(share));
                right.push(row);
            }
        }
    }
    assert!(right.len() > 100, "{}", right.len());
    assert_eq!(found.rows, right);
}

#[test]
fn hot_keys_that_gets_and_puts_share_are_as_counted_by_hand() {
    // Gets: a to l, 13 to 2 times. Puts: g to r, 13 to 2 times, and fifty keys once.
    let mut operations = Vec::new();
    let mut ask = |kind: Kind, key: String, times: usize| {
        operations.extend((0..times).map(|_| Operation::new(kind, key.clone())));
    };
    for (at, key) in ('a'..='l').enumerate() {
        ask(Kind::Get, key.to_string(), 13 - at);
    }
    for (at, key) in ('g'..='r').enumerate() {
        ask(Kind::Put, key.to_string(), 13 - at);
    }
    for number in 0..50 {
        ask(Kind::Put, format!("once {number}"), 1);
    }
    for (at, operation) in (0..).zip(&mut operations) {
        operation.start_nanos = at * 1000;
    }
    let document = found(&operations);
    let rows = &figure(&document, "hot-keys-shared").rows;
    // The ten hottest are a to j and g to p: they share g to j. Of all keys, g to l are both got
    // and put: 6 of 12 that are got, and 6 of 62 that are put.
    let right = serde_json::json!([
        ["users", "get", "put", 10, 10, 4, 10, 4, 4, 0.4],
        ["users", "get", "put", 100, 12, 2, 62, 1, 6, 0.5],
        ["users", "put", "get", 10, 10, 4, 10, 4, 4, 0.4],
        ["users", "put", "get", 100, 62, 1, 12, 2, 6, 6.0 / 62.0],
    ]);
    assert_eq!(serde_json::json!(rows), right);
}
