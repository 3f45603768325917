//! Loads whose store's keys are listed: accesses stay as they were, and the list is counted in
//! addition.

use crate::load::*;
use crate::tables::{bytes, texts, wholes};
use evendb_analyze::{Budget, Cut, Error, Options, Session, Stored, analyze, tables};
use evendb_report::Document;
use evendb_trace::{Header, Kind, Operation, Sampler, Writer};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;

fn listed(file: &Path, keys: &[Vec<u8>], keyspace: Option<&str>) -> Stored {
    let line = |key: &Vec<u8>| {
        let digits = key.iter().map(|byte| format!("{byte:02X}"));
        digits.collect::<String>() + "\n"
    };
    std::fs::write(file, keys.iter().map(line).collect::<String>()).unwrap();
    Stored {
        file: file.to_path_buf(),
        keyspace: keyspace.map(ToOwned::to_owned),
    }
}

fn with_keys(
    operations: &[Operation],
    keys: &[Vec<u8>],
    keyspace: Option<&str>,
) -> Result<Document, Error> {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("a.trace");
    write(operations, &trace);
    let stored = listed(&folder.path().join("keys"), keys, keyspace);
    analyzed(folder.path(), trace, Some(stored))
}

/// Every second key of the first keyspace, and others, in no order.
fn keys(operations: &[Operation]) -> Vec<Vec<u8>> {
    let named = operations
        .iter()
        .filter(|operation| has_key(operation) && operation.keyspace == 0);
    let named: BTreeSet<&Vec<u8>> = named.map(|operation| &operation.key).collect();
    let mut keys: Vec<Vec<u8>> = named.into_iter().step_by(2).cloned().collect();
    keys.extend((0..500).map(|number| format!("key {number} nobody asks for").into_bytes()));
    keys.extend([vec![0xff; 9], vec![], vec![0; 200]]);
    keys.reverse();
    keys
}

/// Exact figures about accesses that do not depend on places.
const OF_ACCESSES: [&str; 13] = [
    "composition",
    "accesses-per-key",
    "access-counts",
    "access-ranks",
    "hottest-keys",
    "rates",
    "unique-keys",
    "sizes",
    "key-sizes",
    "value-sizes",
    "scan-lengths",
    "scan-lengths-reverse",
    "pearson",
];

#[test]
fn what_was_accessed_is_the_same_with_the_list() {
    let Large {
        all: operations,
        document: without,
        ..
    } = large();
    let keys = keys(operations);
    let with = with_keys(operations, &keys, Some("users")).unwrap();
    for id in OF_ACCESSES {
        let (with, without) = (figure(&with, id), figure(without, id));
        assert_eq!(
            (&with.columns, with.rows.len()),
            (&without.columns, without.rows.len()),
            "{id}"
        );
        for (with, without) in with.rows.iter().zip(&without.rows) {
            let same = with.iter().zip(without).all(|(with, without)| {
                with == without || without.as_f64().is_some_and(|number| near(with, number))
            });
            assert!(same, "{id}: {with:?} {without:?}");
        }
    }
    assert!(without.figure("stored-keys").is_none());
    assert!(
        without
            .figures
            .iter()
            .all(|figure| with.figure(&figure.id).is_some())
    );
}

#[test]
fn stored_keys_are_counted_and_those_that_are_named() {
    let Large { all, done, .. } = large();
    let mut keys = keys(done);
    keys.push(keys[0].clone());
    let document = with_keys(all, &keys, Some("users")).unwrap();
    let found = figure(&document, "stored-keys");
    assert_columns(found, "keyspace stored accessed share others");
    let stored: BTreeSet<&Vec<u8>> = keys.iter().collect();
    let named = done
        .iter()
        .filter(|operation| has_key(operation) && operation.keyspace == 0);
    let named: BTreeSet<&Vec<u8>> = named.map(|operation| &operation.key).collect();
    let both = stored.intersection(&named).count();
    assert!(both > 50 && stored.len() > both && named.len() > both);
    let [row] = &found.rows[..] else {
        panic!("{:?}", found.rows)
    };
    assert_eq!(text(&row[0]), "users");
    assert_eq!(whole(&row[1]), stored.len() as u64);
    assert_eq!(whole(&row[2]), both as u64);
    assert!(near(&row[3], both as f64 / stored.len() as f64));
    assert_eq!(whole(&row[4]), (named.len() - both) as u64);
}

#[test]
fn the_table_of_keys_has_rows_of_the_list_beside() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("a.trace");
    let operation = |kind, key: &str| Operation::new(kind, key);
    let all = [
        operation(Kind::Get, "b"),
        operation(Kind::Put, "b"),
        operation(Kind::Get, "c"),
    ];
    write(&all, &trace);
    let list = ["d", "b", "a", "d"].map(|key| key.as_bytes().to_vec());
    let session = Session::new(folder.path(), &BUDGET).unwrap();
    let operations = session.table_file("operations");
    evendb_analyze::operations::write(&trace, None, &operations, &mut |_| {}).unwrap();
    let rows = run(async {
        session.open_table("operations").await.unwrap();
        let values = list.iter().map(|key| {
            let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("('users', CAST(X'{hex}' AS BYTEA))")
        });
        let values = values.collect::<Vec<_>>().join(", ");
        let sql = format!("SELECT column1 AS keyspace, column2 AS key FROM (VALUES {values})");
        session.make_table("stored", &sql).await.unwrap();
        tables::make_keys(&session, true, &Cut::default())
            .await
            .unwrap();
        session.rows("SELECT * FROM keys").await.unwrap()
    });
    let key = |key: &str| Some(key.as_bytes().to_vec());
    let kind = |kind: &str| Some(kind.to_owned());
    assert_eq!(bytes(&rows, "key"), ["a", "b", "b", "b", "c", "d"].map(key));
    let kinds = ["stored", "get", "put", "stored", "get", "stored"];
    assert_eq!(texts(&rows, "kind"), kinds.map(kind));
    assert_eq!(wholes(&rows, "accesses"), [0, 1, 1, 0, 1, 0].map(Some));
    assert_eq!(wholes(&rows, "id"), [0, 1, 1, 1, 2, 3].map(Some));
    let times = [None, Some(0), Some(0), None, Some(0), None];
    assert_eq!(wholes(&rows, "first_nanos"), times);
}

#[test]
fn of_a_sample_the_list_is_the_same_sample() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("a.trace");
    let (one_in, sampler) = (8, Sampler::new(8));
    let keys: Vec<Vec<u8>> = (0..4000).map(|n| format!("k{n}").into_bytes()).collect();
    let header = Header {
        one_in,
        keyspaces: names(),
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    let recorded = keys.iter().step_by(2).filter(|key| sampler.takes(key));
    let mut accessed = 0;
    for key in recorded {
        writer.add(&Operation::new(Kind::Get, key.clone())).unwrap();
        accessed += 1;
    }
    std::fs::write(&trace, writer.finish().unwrap().0).unwrap();
    let stored = listed(&folder.path().join("keys"), &keys, None);
    let document = analyzed(folder.path(), trace, Some(stored)).unwrap();
    let taken = keys.iter().filter(|key| sampler.takes(key)).count();
    assert!(accessed > 100 && taken > accessed);
    let row = &figure(&document, "stored-keys").rows[0];
    assert_eq!((&row[1], &row[2]), (&json!(taken), &json!(accessed)));
}

#[test]
fn a_store_of_which_nothing_was_asked_has_its_keys() {
    let keys = [b"a".to_vec(), b"b".to_vec()];
    let document = with_keys(&[], &keys, None).unwrap();
    let rows = &figure(&document, "stored-keys").rows;
    assert_eq!(json!(rows), json!([["default", 2, 0, 0.0, 0]]));
    assert!(evendb_report::page(&document).contains("</html>"));
    // Nothing is listed: as if there was no list.
    let get = Operation::new(Kind::Get, "a");
    let document = with_keys(&[get], &[], None).unwrap();
    assert!(document.figure("stored-keys").is_none());
    assert_eq!(figure(&document, "ranges").rows.len(), 1);
}

#[test]
fn a_list_that_cannot_be_taken_is_refused_in_words() {
    let get = |keyspace: u32| {
        let mut operation = Operation::new(Kind::Get, "a");
        operation.keyspace = keyspace;
        operation
    };
    let one = [get(0)];
    let two = [get(0), get(77)];
    let key = [b"a".to_vec()];
    let refused = with_keys(&two, &key, None).unwrap_err();
    let Error::Argument(message) = refused else {
        panic!("{refused:?}")
    };
    assert!(
        message.contains("\"users\", \"#77\"") && message.contains("--keys-of"),
        "{message}"
    );
    let refused = with_keys(&one, &key, Some("user")).unwrap_err();
    assert!(
        matches!(&refused, Error::Argument(message) if message.contains("no keyspace \"user\"; it has \"users\"")),
        "{refused:?}"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    for (text, why) in [("61\n6\n", "line 2"), ("61\n\nxx\n", "line 3")] {
        let trace = folder.path().join("a.trace");
        write(&one, &trace);
        let _ = std::fs::remove_dir_all(folder.path().join("tables"));
        let stored = listed(&file, &[], None);
        std::fs::write(&file, text).unwrap();
        let refused = analyzed(folder.path(), trace, Some(stored)).unwrap_err();
        let Error::Source(message) = refused else {
            panic!("{refused:?}")
        };
        assert!(
            message.contains(why) && message.contains("keys"),
            "{message}"
        );
    }
    // Before anything is read: there is not even a trace.
    let nowhere = Stored {
        file: "/nowhere/keys".into(),
        keyspace: None,
    };
    let _ = std::fs::remove_dir_all(folder.path().join("tables"));
    let refused = analyzed(folder.path(), "/nowhere/trace".into(), Some(nowhere)).unwrap_err();
    assert!(
        matches!(&refused, Error::Io(message) if message.contains("/nowhere/keys")),
        "{refused:?}"
    );
}

/// An analysis with these lists, and with tables in a new folder.
fn options(folder: &Path, trace: &Path, stored: Vec<Stored>) -> Options {
    let tables = folder.join("tables");
    let _ = std::fs::remove_dir_all(&tables);
    std::fs::create_dir(&tables).unwrap();
    Options {
        trace: trace.to_path_buf(),
        format: None,
        stored,
        folder: tables,
        budget: Budget {
            memory_bytes: 256 << 20,
            threads: 2,
        },
        cut: Cut::default(),
    }
}

/// Lists of several keyspaces: one named in the lines, one as a whole, one that was asked nothing.
#[test]
fn lists_of_several_keyspaces_are_counted_by_keyspace_and_summed() {
    let Large { all, done, .. } = large();
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("a.trace");
    write(all, &trace);
    let named = |number: u32| -> BTreeSet<Vec<u8>> {
        let own = done
            .iter()
            .filter(|operation| has_key(operation) && operation.keyspace == number);
        own.map(|operation| operation.key.clone()).collect()
    };
    let line = |keyspace: &str, key: &[u8]| {
        let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{keyspace}\t{digits}\n")
    };
    // Half of the first keyspace's keys and 100 others, by lines; two keys of a keyspace that the
    // trace does not name.
    let (first, second) = (named(0), named(1));
    let mut lines = String::new();
    for key in first.iter().step_by(2) {
        lines += &line("users", key);
    }
    for number in 0..100 {
        lines += &line("users", format!("nobody asks {number}").as_bytes());
    }
    lines += &line("idle", b"a");
    lines += &line("idle", b"b");
    let by_lines = folder.path().join("lines");
    std::fs::write(&by_lines, &lines).unwrap();
    let whole_list: Vec<Vec<u8>> = second.iter().step_by(3).cloned().collect();
    let names = names();
    let other = listed(&folder.path().join("keys"), &whole_list, Some(&names[&1]));
    let options = |stored: Vec<Stored>| options(folder.path(), &trace, stored);
    let by_lines = Stored {
        file: by_lines,
        keyspace: None,
    };
    let both = options(vec![by_lines.clone(), other]);
    let document = run(analyze(&both, &mut |_| ())).unwrap();
    let of = [
        ("idle".to_owned(), 2, 0),
        (
            names[&1].clone(),
            whole_list.len() as u64,
            whole_list.len() as u64,
        ),
        (
            "users".to_owned(),
            first.len().div_ceil(2) as u64 + 100,
            first.len().div_ceil(2) as u64,
        ),
    ];
    let rows = &figure(&document, "stored-keys").rows;
    let counted = rows
        .iter()
        .map(|row| (text(&row[0]), whole(&row[1]), whole(&row[2])));
    assert_eq!(counted.collect::<Vec<_>>(), of);
    // The sums over all keyspaces, and each beside them.
    let found = figure(&document, "keyspaces");
    assert_columns(
        found,
        "keyspace operations operations_share keys stored accessed accessed_share",
    );
    // Operations that failed count in no figure.
    let operations = |name: &str| {
        let own = done.iter().filter(|operation| keyspace(operation) == name);
        own.count() as u64
    };
    let (sum, each) = found.rows.split_last().unwrap();
    assert_eq!(text(&sum[0]), "(all)");
    assert_eq!(whole(&sum[1]), done.len() as u64);
    assert_eq!(whole(&sum[4]), of.iter().map(|one| one.1).sum::<u64>());
    assert_eq!(whole(&sum[5]), of.iter().map(|one| one.2).sum::<u64>());
    for row in each {
        let name = text(&row[0]);
        assert_eq!(whole(&row[1]), operations(&name), "{name}");
        if let Some(number) = names.iter().find(|(_, known)| **known == name) {
            assert_eq!(whole(&row[3]), named(*number.0).len() as u64, "{name}");
        }
    }
    // A line of another keyspace in a list of one is refused.
    let wrong = Stored {
        keyspace: Some(names[&1].clone()),
        ..by_lines
    };
    let refused = run(analyze(&options(vec![wrong]), &mut |_| ())).unwrap_err();
    assert!(
        matches!(&refused, Error::Source(message) if message.contains("\"users\" in a list")),
        "{refused:?}"
    );
}

#[test]
fn rates_of_keyspaces_are_sums_of_their_kinds() {
    let document = &large().document;
    let kinds = &figure(document, "rates").rows;
    let found = figure(document, "keyspace-rates");
    assert_columns(found, "keyspace time per_second");
    let mut checked = 0;
    for row in &found.rows {
        let name = text(&row[0]);
        let same = kinds
            .iter()
            .filter(|kind| kind[2] == row[1] && (name == "(all)" || kind[0] == row[0]));
        let sum: f64 = same.map(|kind| kind[3].as_f64().unwrap()).sum();
        assert!(near(&row[2], sum), "{row:?} {sum}");
        checked += 1;
    }
    // Four keyspaces and all.
    let times = kinds.iter().map(|row| row[2].to_string());
    let times = times.collect::<BTreeSet<_>>().len();
    assert_eq!(checked, 5 * times);
}
