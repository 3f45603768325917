//! The binary interface against the description of what was released, `faces/c/abi.txt`: the
//! header's declarations, one a line. A line that is there stays for ever; lines may be added.
//!
//! `EVENDB_WRITE_ABI=1 cargo test -p evendb-c abi` writes the description anew, when a version is
//! released.

use super::library::{here, is_there, run};
use super::prototypes::{declarations, header};
use super::skipped::skipped;
use std::path::Path;
use std::process::Command;

fn described() -> Vec<String> {
    let text = std::fs::read_to_string(here().join("abi.txt")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Lines of the description that a header does not have any more.
fn broken(described: &[String], header: &str) -> Vec<String> {
    let there = declarations(header);
    let gone = described.iter().filter(|line| !there.contains(line));
    gone.cloned().collect()
}

#[test]
fn abi_what_was_released_is_unchanged() {
    let header = header();
    if std::env::var_os("EVENDB_WRITE_ABI").is_some() {
        let text = declarations(&header).join("\n") + "\n";
        std::fs::write(here().join("abi.txt"), text).unwrap();
    }
    let described = described();
    assert!(described.len() > 200, "{}", described.len());
    assert_eq!(broken(&described, &header), Vec::<String>::new());
}

/// Headers that are changed in one place, and whether that is allowed.
fn changed() -> Vec<(&'static str, String, bool)> {
    let header = header();
    let change = |from: &str, to: &str| {
        assert!(header.contains(from), "{from}");
        header.replacen(from, to, 1)
    };
    let persist =
        "EVENDB_API evendb_status evendb_persist(const evendb_db *db, evendb_error **error);";
    vec![
        ("nothing", header.clone(), true),
        (
            "an added function",
            change(
                persist,
                &format!("{persist}\nEVENDB_API void evendb_added(evendb_db *db);"),
            ),
            true,
        ),
        ("a removed function", change(persist, ""), false),
        (
            "another parameter",
            change(
                "evendb_cursor_limit(evendb_cursor *cursor, uint64_t records",
                "evendb_cursor_limit(evendb_cursor *cursor, uint32_t records",
            ),
            false,
        ),
        (
            "one parameter more",
            change(
                "evendb_persist(const evendb_db *db,",
                "evendb_persist(const evendb_db *db, int32_t how,",
            ),
            false,
        ),
        (
            "another result",
            change(
                "EVENDB_API uint32_t evendb_abi_version",
                "EVENDB_API uint64_t evendb_abi_version",
            ),
            false,
        ),
    ]
}

#[test]
fn abi_an_added_function_passes_and_a_changed_one_fails() {
    let described = described();
    for (what, header, passes) in changed() {
        assert_eq!(broken(&described, &header).is_empty(), passes, "{what}");
    }
    let header = header();
    let renumbered = header.replacen("EVENDB_CONFLICT = 17", "EVENDB_CONFLICT = 117", 1);
    let retyped = header.replacen(
        "typedef int32_t evendb_status",
        "typedef int64_t evendb_status",
        1,
    );
    for wrong in [renumbered, retyped] {
        assert_eq!(broken(&described, &wrong).len(), 1);
    }
}

/// A shared library with these declarations, whose functions do nothing.
fn hollow(declarations: &[String], library: &Path) {
    let mut text = "#include <stddef.h>\n#include <stdint.h>\n".to_owned();
    for line in declarations {
        let is_function = !line.starts_with("typedef") && !line.starts_with("enum");
        match line.strip_suffix(';').filter(|_| is_function) {
            Some(prototype) => text += &format!("{prototype} {{ for (;;) {{}} }}\n"),
            None => text += &format!("{line}\n"),
        }
    }
    let file = library.with_extension("c");
    std::fs::write(&file, text).unwrap();
    run(Command::new("cc")
        .args(["-g", "-shared", "-fPIC", "-w", "-Wl,-soname,libevendb.so.1"])
        .arg(&file)
        .arg("-o")
        .arg(library));
}

/// The same question to libabigail, which compares the types by debug information.
#[test]
fn abi_as_abidiff_sees_it() {
    if !is_there("abidiff") {
        skipped(
            "abidiff of evendb.h against faces/c/abi.txt",
            "abigail-tools is not installed",
        );
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (before, after) = (dir.path().join("before.so"), dir.path().join("after.so"));
    hollow(&described(), &before);
    for (what, header, passes) in changed() {
        hollow(&declarations(&header), &after);
        let compared = Command::new("abidiff")
            .arg("--no-added-syms")
            .args([&before, &after])
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&compared.stdout);
        assert_eq!(compared.status.success(), passes, "{what}\n{told}");
        // 1 and 2 are failures of abidiff itself.
        assert_eq!(compared.status.code().unwrap() & 3, 0, "{what}");
    }
}
