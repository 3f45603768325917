//! The header alone: every standard, every compiler that is there, all warnings; its numbers; and
//! that the library's sources export what it declares.

use super::library::{compiler, here, is_there, run};
use super::prototypes::{declarations, exported, functions, header};
use super::skipped::skipped;
use std::collections::BTreeSet;
use std::process::Command;

/// Standards that must be known, and standards for compilers that know them.
const C: (&[&str], &[&str]) = (&["c99", "c11", "c17"], &["c2x", "c23"]);
const CPP: (&[&str], &[&str]) = (
    &["c++11", "c++14", "c++17", "c++20"],
    &["c++2b", "c++23", "c++26"],
);

/// The compilers of a language, by family.
fn compilers(family: &str) -> Option<(String, String)> {
    if family == "gcc" {
        let there = is_there("gcc") && is_there("g++");
        return there.then(|| ("gcc".to_owned(), "g++".to_owned()));
    }
    let versions = (13..=24).rev().map(|version| format!("-{version}"));
    let mut each = std::iter::once(String::new()).chain(versions);
    let version = each.find(|version| is_there(&format!("clang{version}")))?;
    // The driver of C compiles C++, too; the header needs no library of C++.
    let clang = format!("clang{version}");
    Some((clang.clone(), clang))
}

fn knows(compiler: &str, standard: &str, language: &str) -> bool {
    let mut tried = Command::new(compiler);
    tried
        .arg(format!("-std={standard}"))
        .args(["-x", language, "-fsyntax-only", "/dev/null"]);
    tried.output().unwrap().status.success()
}

fn compile(of: &str, standard: &str, language: &str, file: &std::path::Path) {
    run(compiler(of, standard)
        .args(["-x", language, "-fsyntax-only"])
        .arg(file));
}

fn compile_with(family: &str) {
    let Some((c, cpp)) = compilers(family) else {
        skipped(
            &format!("the C header with {family}"),
            "it is not installed",
        );
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let header = here().join("include/evendb.h");
    let numbers = dir.path().join("numbers.c");
    std::fs::write(&numbers, asserts()).unwrap();
    for (compiler, language, (musts, mays)) in [(&c, "c", C), (&cpp, "c++", CPP)] {
        for standard in musts {
            compile(compiler, standard, language, &numbers);
        }
        for standard in mays {
            if knows(compiler, standard, language) {
                compile(compiler, standard, language, &numbers);
            }
        }
    }
    // The header as a file of its own, and twice.
    let twice = dir.path().join("twice.c");
    std::fs::write(
        &twice,
        "#include <evendb.h>\n#include <evendb.h>\ntypedef int some;\n",
    )
    .unwrap();
    compile(&c, "c99", "c", &twice);
    assert!(header.exists());
}

/// A file that compiles only if sizes and numbers are those of the interface.
fn asserts() -> String {
    let mut text = "#include <evendb.h>\n".to_owned();
    text += "typedef char size_of_status[sizeof(evendb_status) == 4 ? 1 : -1];\n";
    text += "typedef char sign_of_status[(evendb_status)-1 < 0 ? 1 : -1];\n";
    for (name, number) in statuses_of_sources() {
        text += &format!("typedef char of_{name}[{name} == {number} ? 1 : -1];\n");
    }
    for (name, number) in OTHER_NUMBERS {
        text += &format!("typedef char of_{name}[{name} == {number} ? 1 : -1];\n");
    }
    text
}

/// The numbers beside statuses; they never change.
const OTHER_NUMBERS: &[(&str, i32)] = &[
    ("EVENDB_ABI_VERSION", 1),
    ("EVENDB_RANGE_ALL", 0),
    ("EVENDB_RANGE_BETWEEN", 1),
    ("EVENDB_RANGE_FROM", 2),
    ("EVENDB_RANGE_PREFIX", 3),
    ("EVENDB_KEYS_ONLY", 1),
    ("EVENDB_DURABILITY_RELAXED", 0),
    ("EVENDB_DURABILITY_PROCESS", 1),
    ("EVENDB_DURABILITY_SYNC", 2),
    ("EVENDB_FILTER_KEEP", 0),
    ("EVENDB_FILTER_DROP", 1),
    ("EVENDB_FILTER_REPLACE", 2),
    ("EVENDB_CHANGE_PUT", 1),
    ("EVENDB_CHANGE_DELETE", 2),
    ("EVENDB_CHANGE_MERGE", 3),
    ("EVENDB_CHANGE_DELETE_RANGE", 4),
    ("EVENDB_CHECK_NEW", 0),
    ("EVENDB_CHECK_NOTHING", 1),
    ("EVENDB_CHECK_ALL", 2),
    ("EVENDB_FIGURE_COUNTER", 0),
    ("EVENDB_FIGURE_GAUGE", 1),
    ("EVENDB_UNIT_COUNT", 0),
    ("EVENDB_UNIT_BYTES", 1),
    ("EVENDB_UNIT_NANOSECONDS", 2),
    ("EVENDB_TRACE_VALUES", 1),
    ("EVENDB_TRACE_VALUE_HASHES", 2),
    ("EVENDB_TRACE_OF_ENCRYPTED", 4),
];

/// Names and numbers of statuses in the library's source.
fn statuses_of_sources() -> Vec<(String, i32)> {
    let source = std::fs::read_to_string(here().join("src/border/status.rs")).unwrap();
    let lines = source
        .lines()
        .filter_map(|line| line.split_once(" c\"EVENDB_"));
    let each = lines.map(|(before, after)| {
        let number = before.rsplit(' ').next().unwrap().parse().unwrap();
        let name = after.split('"').next().unwrap();
        (format!("EVENDB_{name}"), number)
    });
    each.collect()
}

#[test]
fn the_header_compiles_by_gcc_in_every_standard() {
    compile_with("gcc");
}

#[test]
fn the_header_compiles_by_clang_in_every_standard() {
    compile_with("clang");
}

#[test]
fn each_number_of_the_header_is_asserted() {
    let of_sources = statuses_of_sources();
    assert_eq!(of_sources.len(), 36);
    let mut known: BTreeSet<String> = of_sources.into_iter().map(|(name, _)| name).collect();
    known.extend(OTHER_NUMBERS.iter().map(|(name, _)| (*name).to_owned()));
    let lines = declarations(&header());
    let enumerators = lines.iter().filter_map(|line| line.strip_prefix("enum { "));
    let named: BTreeSet<String> = enumerators
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .chain(["EVENDB_ABI_VERSION".to_owned()])
        .collect();
    assert_eq!(named, known);
}

#[test]
fn the_header_declares_what_the_sources_export() {
    let (mut declared, mut exported) = (functions(&header()), exported());
    declared.sort();
    exported.sort();
    assert!(declared.len() > 140, "{}", declared.len());
    for (one, other) in declared.iter().zip(&exported) {
        assert_eq!(one, other);
    }
    assert_eq!(declared.len(), exported.len());
}

/// Every function has a comment of its own, or stands right below another of its kind.
#[test]
fn each_function_has_a_comment() {
    let header = header();
    let blocks = header.split("\n\n");
    for block in blocks.filter(|block| block.contains("EVENDB_API ") && !block.contains("#define"))
    {
        let plain_free = block.lines().count() <= 2 && block.contains("_free(");
        let plain_create = block.contains("evendb_batch_create(");
        assert!(
            block.contains("/*")
                || plain_free
                || plain_create
                || OF_THEIR_KIND.iter().any(|name| block.contains(name)),
            "no comment:\n{block}"
        );
    }
}

/// Functions that the comment of their handle, or of the functions above them, describes.
const OF_THEIR_KIND: &[&str] = &[
    "evendb_snapshot_create",
    "evendb_transaction_begin",
    "evendb_transaction_get(",
    "evendb_transaction_durability",
    "evendb_ingest_begin",
    "evendb_export_writer_create",
    "evendb_stats_take",
    "evendb_keyspace_remove_property",
    "evendb_backup_list_read",
];
