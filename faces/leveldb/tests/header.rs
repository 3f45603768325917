//! `include/leveldb/c.h` declares exactly the functions of LevelDB's interface that the library
//! exports; `include/leveldb/evendb.h` declares the functions that it adds.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, which fail where they fail"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The names that begin with `prefix` right behind `before`.
fn names_behind(text: &str, before: &str, prefix: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let behind = text.match_indices(before).filter_map(|(at, _)| {
        let rest = &text[at + before.len()..];
        let name: String = rest.chars().take_while(|&c| is_part(c)).collect();
        name.starts_with(prefix).then_some(name)
    });
    behind.collect()
}

/// What the library exports, and what a header declares.
fn exported_and_declared(prefix: &str, header: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut exported = BTreeSet::new();
    for entry in fs::read_dir(here.join("src")).unwrap() {
        let source = fs::read_to_string(entry.unwrap().path()).unwrap();
        exported.extend(names_behind(&source, "extern \"C\" fn ", prefix));
        exported.extend(names_behind(&source, "extern \"C-unwind\" fn ", prefix));
    }
    let header = fs::read_to_string(here.join("include/leveldb").join(header)).unwrap();
    let mut declared = BTreeSet::new();
    for declaration in header.split("LEVELDB_EXPORT ").skip(1) {
        // The function's name stands before the first bracket.
        let before = declaration.split('(').next().unwrap();
        let name = before.rsplit([' ', '*', '\n']).next().unwrap();
        declared.insert(name.to_owned());
    }
    (exported, declared)
}

#[test]
fn the_header_declares_what_is_exported() {
    let (exported, declared) = exported_and_declared("leveldb_", "c.h");
    assert_eq!(declared, exported);
    // The number of LevelDB 1.23's functions.
    assert_eq!(declared.len(), 68);
    let (exported, declared) = exported_and_declared("evendb_", "evendb.h");
    assert_eq!(declared, exported);
    assert_eq!(declared.len(), 5);
}
