//! Databases that the tests write, sound and damaged.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tempfile::TempDir;

use super::writer::{Database, Entry, Packing, batch, entry, log, write};
use super::*;

const USUAL: &str = "leveldb.BytewiseComparator";

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// All records and notes, or the error.
fn read(directory: &Path) -> Result<(Records, Vec<String>)> {
    let mut reader = Reader::open(directory)?;
    let mut records = Records::new();
    let mut last: Option<Vec<u8>> = None;
    while reader.next()? {
        let key = reader.key().to_vec();
        assert!(last.is_none_or(|last| last < key), "keys ascend");
        records.insert(key.clone(), reader.value().to_vec());
        last = Some(key);
    }
    Ok((records, reader.notes().to_vec()))
}

/// Keys in both level-0 tables, in levels 1 and 2, and in the log; old values and deletions at each
/// place.
fn tables() -> Vec<(u8, Vec<Entry>)> {
    let put = |key: u32, sequence, value: &str| {
        entry(format!("key{key:03}"), sequence, Some(value.as_bytes()))
    };
    let delete = |key: u32, sequence| entry(format!("key{key:03}"), sequence, None);
    vec![
        (
            2,
            (0..40)
                .map(|key| put(key, 1 + u64::from(key), "level 2"))
                .collect(),
        ),
        (
            1,
            (10..20)
                .map(|key| put(key, 100 + u64::from(key), "level 1"))
                .collect(),
        ),
        (
            1,
            (20..30)
                .map(|key| delete(key, 100 + u64::from(key)))
                .collect(),
        ),
        (
            0,
            vec![put(1, 201, "older"), put(5, 202, "first"), delete(12, 203)],
        ),
        (
            0,
            vec![
                put(1, 302, "newer"),
                put(1, 301, "new"),
                put(20, 303, "again"),
            ],
        ),
    ]
}

fn logged() -> Vec<Vec<Entry>> {
    let long = vec![b'x'; 70_000];
    vec![
        vec![
            entry("key002", 400, Some(b"logged")),
            entry("key003", 401, None),
        ],
        vec![
            entry("", 402, Some(b"empty key")),
            entry("long", 403, Some(&long)),
        ],
        vec![
            entry("key002", 404, Some(b"logged again")),
            entry("zebra", 405, Some(b"")),
        ],
    ]
}

fn expected(tables: &[(u8, Vec<Entry>)], log: &[Vec<Entry>]) -> Records {
    let mut all: Vec<&Entry> = tables
        .iter()
        .flat_map(|(_, entries)| entries)
        .chain(log.iter().flatten())
        .collect();
    all.sort_by_key(|entry| entry.sequence);
    let mut records = Records::new();
    for entry in all {
        match &entry.value {
            Some(value) => records.insert(entry.key.clone(), value.clone()),
            None => records.remove(&entry.key),
        };
    }
    records
}

fn written(packing: Packing) -> (TempDir, Records) {
    let directory = tempfile::tempdir().unwrap();
    let (tables, log) = (tables(), logged());
    write(
        directory.path(),
        &Database {
            tables: &tables,
            log: &log,
            packing,
            comparator: USUAL,
        },
    );
    (directory, expected(&tables, &log))
}

#[test]
fn the_newest_values_are_read_in_the_order_of_keys() {
    for packing in [Packing::None, Packing::Snappy] {
        let (directory, expected) = written(packing);
        let (found, notes) = read(directory.path()).unwrap();
        assert_eq!(found, expected, "{packing:?}");
        assert_eq!(found[&b"key001"[..]], b"newer");
        assert_eq!(found[&b"key002"[..]], b"logged again");
        assert!(!found.contains_key(&b"key025"[..]), "it was deleted");
        assert!(notes.is_empty(), "{notes:?}");
    }
}

#[test]
fn what_is_read_stays_as_it_was_and_is_locked_meanwhile() {
    let (directory, _) = written(Packing::None);
    let files = || {
        let files = fs::read_dir(directory.path()).unwrap();
        let file = |entry: std::io::Result<fs::DirEntry>| {
            let path = entry.unwrap().path();
            (path.clone(), fs::read(path).unwrap())
        };
        files.map(file).collect::<BTreeMap<_, _>>()
    };
    let before = files();
    read(directory.path()).unwrap();
    assert_eq!(files(), before);
    // A directory without a lock, as a copy may be.
    fs::remove_file(directory.path().join("LOCK")).unwrap();
    read(directory.path()).unwrap();
    assert!(!directory.path().join("LOCK").exists());
}

#[test]
fn another_order_of_keys_is_refused_by_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let (tables, log) = (tables(), logged());
    write(
        directory.path(),
        &Database {
            tables: &tables,
            log: &log,
            packing: Packing::None,
            comparator: "idb_cmp1",
        },
    );
    let error = read(directory.path()).unwrap_err();
    assert!(
        matches!(&error, Error::Unsupported { .. }) && error.to_string().contains("`idb_cmp1`"),
        "{error}"
    );
}

/// As in LevelDB: an interrupted write leaves such an end of the last log.
#[test]
fn a_log_that_is_cut_gives_the_batches_before() {
    let (directory, _) = written(Packing::Snappy);
    let path = directory.path().join("000004.log");
    let whole = fs::read(&path).unwrap();
    let (tables, logged) = (tables(), logged());
    let ends: Vec<usize> = (0..=logged.len())
        .map(|count| {
            log(&logged[..count]
                .iter()
                .map(|entries| batch(entries))
                .collect::<Vec<_>>())
            .len()
        })
        .collect();
    let cuts = (0..200)
        .chain((200..whole.len()).step_by(997))
        .chain(whole.len() - 100..=whole.len());
    for cut in cuts {
        fs::write(&path, &whole[..cut]).unwrap();
        let (found, notes) = read(directory.path()).unwrap();
        let batches = ends.iter().rposition(|&end| end <= cut).unwrap();
        assert!(
            found == expected(&tables, &logged[..batches]),
            "cut at {cut}"
        );
        // Zeros at the end of a block belong to no record.
        let is_cut = whole[ends[batches]..cut].iter().any(|&byte| byte != 0);
        assert_eq!(notes.len(), usize::from(is_cut), "cut at {cut}: {notes:?}");
    }
    // Space that was allocated and not written is no record.
    let mut longer = whole.clone();
    longer.resize(whole.len() + 50_000, 0);
    fs::write(&path, longer).unwrap();
    assert_eq!(
        read(directory.path()).unwrap().0,
        expected(&tables, &logged)
    );
    // It is cut, and not the last log.
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    fs::write(
        directory.path().join("000009.log"),
        log(&[batch(&[entry("a", 500, None)])]),
    )
    .unwrap();
    assert!(matches!(read(directory.path()), Err(Error::Damaged { .. })));
}

/// A manifest is a log as well, but the state before its cut end must not be imported in silence.
#[test]
fn a_manifest_that_is_cut_is_an_error() {
    let (directory, expected) = written(Packing::None);
    let path = directory.path().join("MANIFEST-000002");
    let whole = fs::read(&path).unwrap();
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        assert!(
            matches!(read(directory.path()), Err(Error::Damaged { .. })),
            "cut at {cut}"
        );
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(read(directory.path()).unwrap().0, expected);
    // The last edit repeats what the manifest said when it had fewer tables.
    let mut edit = Vec::new();
    for (tag, number) in [(2u64, 4u64), (3, 9)] {
        super::writer::varint(tag, &mut edit);
        super::writer::varint(number, &mut edit);
    }
    let mut older = whole.clone();
    older.extend_from_slice(&log(&[edit]));
    fs::write(&path, older).unwrap();
    let error = read(directory.path()).unwrap_err().to_string();
    assert!(
        error.contains("does not name the table 000009.ldb"),
        "{error}"
    );
}

/// Bits flipped and files cut or lengthened at random: an error with a type, or the right records.
#[test]
fn damage_is_an_error_or_gives_the_right_records() {
    for packing in [Packing::None, Packing::Snappy] {
        let (directory, expected) = written(packing);
        let mut names: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        let flips =
            proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4);
        let damage = (
            any::<proptest::sample::Index>(),
            flips,
            any::<bool>(),
            any::<proptest::sample::Index>(),
        );
        let mut runner = TestRunner::new(Config {
            failure_persistence: None,
            ..Config::with_cases(500)
        });
        let outcome = runner.run(&damage, |(name, flips, is_cut, cut)| {
            let name = &names[name.index(names.len())];
            let path = directory.path().join(name);
            let whole = fs::read(&path).unwrap();
            let mut bytes = whole.clone();
            for (at, bits) in flips {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] ^= bits;
                }
            }
            if is_cut {
                bytes.truncate(cut.index(bytes.len() + 1));
            }
            fs::write(&path, &bytes).unwrap();
            let outcome = read(directory.path());
            fs::write(&path, &whole).unwrap();
            match outcome {
                Ok((found, notes)) => {
                    // An end of the log that is left out is told.
                    let is_right = found == expected
                        || (name == "000004.log" && is_prefix(&found))
                            && (!notes.is_empty() || is_cut);
                    prop_assert!(is_right, "{name:?} {notes:?}");
                }
                Err(Error::Damaged { .. } | Error::Unsupported { .. } | Error::Io { .. }) => {}
                Err(error @ Error::Locked(_)) => prop_assert!(false, "{error}"),
            }
            Ok(())
        });
        outcome.unwrap();
    }
}

/// Whether these are the records without some last batches of the log.
fn is_prefix(found: &Records) -> bool {
    let (tables, log) = (tables(), logged());
    (0..=log.len()).any(|count| *found == expected(&tables, &log[..count]))
}

/// Every single bit of a small table: only the footer has no checksum.
#[test]
fn each_flipped_bit_of_a_table_is_found_or_harmless() {
    let (directory, expected) = written(Packing::Snappy);
    let path = directory.path().join("000008.ldb");
    let whole = fs::read(&path).unwrap();
    let mut errors = 0;
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &bytes).unwrap();
        match read(directory.path()) {
            Ok((found, _)) => assert!(found == expected, "bit {bit}"),
            Err(error) => {
                assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
                errors += 1;
            }
        }
    }
    assert!(errors > whole.len() * 8 / 2);
}

proptest! {
    #[test]
    fn any_bytes_are_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode::batch(Path::new("x"), 0, &bytes, |_| ());
        let mut left = decode::Bytes(&bytes);
        while left.varint().is_some() {}
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("CURRENT"), "MANIFEST-000001\n").unwrap();
        // A manifest with a correct checksum.
        fs::write(directory.path().join("MANIFEST-000001"), log(&[bytes])).unwrap();
        let _ = read(directory.path());
    }
}
