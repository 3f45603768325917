//! Programs that are linked in other ways: with the archive, beside another library of Rust, in
//! C++, and as docs/c.md says.

use super::library::{check, compiler, here, is_there, library, run};
use super::skipped::skipped;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Another library of Rust, with std in it.
fn other_library(dir: &Path) -> std::path::PathBuf {
    let file = dir.join("other.rs");
    let text = r#"
        #[unsafe(no_mangle)]
        pub extern "C" fn other_sum(to: u64) -> u64 {
            let caught = std::panic::catch_unwind(|| (0..=to).map(|n| n.to_string()).collect::<Vec<_>>());
            caught.map_or(0, |texts| texts.iter().map(|text| text.parse::<u64>().unwrap_or(0)).sum())
        }
    "#;
    std::fs::write(&file, text).unwrap();
    let archive = dir.join("libother.a");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    run(Command::new(rustc)
        .args(["--crate-type", "staticlib", "--edition", "2024", "-O", "-o"])
        .arg(&archive)
        .arg(&file));
    archive
}

#[test]
fn the_archive_is_linked_beside_another_library_of_rust() {
    let dir = tempfile::tempdir().unwrap();
    let other = other_library(dir.path());
    let main = dir.path().join("main.c");
    let text = "#include <evendb.h>\n#include <stdio.h>\nuint64_t other_sum(uint64_t);\n\
                int main(int count, char **arguments) {\n\
                evendb_db *db;\n\
                if (count != 3 || evendb_open(arguments[1], NULL, &db, NULL) != EVENDB_OK) return 1;\n\
                if (evendb_close(db, NULL) != EVENDB_OK || other_sum(10) != 55) return 2;\n\
                evendb_free(db);\nputs(\"all of it\");\nreturn 0;\n}\n";
    std::fs::write(&main, text).unwrap();
    let program = dir.path().join("program");
    run(compiler("cc", "c99")
        .arg(&main)
        .arg(library().join("libevendb.a"))
        .arg(&other)
        .arg("-o")
        .arg(&program)
        .args(["-lpthread", "-ldl", "-lm", "-lrt"]));
    let place = dir.path().join("db");
    check(&program, &[place.as_os_str(), OsStr::new("chunks")]);
    // And into a shared library of the program's own.
    run(Command::new("cc")
        .args(["-shared", "-fPIC", "-std=c99", "-I"])
        .arg(here().join("include"))
        .arg(&main)
        .arg(library().join("libevendb.a"))
        .arg(&other)
        .arg("-o")
        .arg(dir.path().join("libboth.so"))
        .args(["-lpthread", "-ldl", "-lm", "-lrt"]));
}

#[test]
fn a_program_in_cpp() {
    if !is_there("c++") {
        skipped("a program in C++ over evendb.h", "there is no C++ compiler");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    run(compiler("c++", "c++11")
        .args(["-Wno-pedantic", "-x", "c++"])
        .arg(here().join("tests/programs/in_cpp.cc"))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(library())
        .args(["-levendb", "-lpthread"]));
    for layout in ["chunks", "guards"] {
        let place = dir.path().join(layout);
        check(&program, &[place.as_os_str(), OsStr::new(layout)]);
    }
}

/// The program of docs/c.md: compiled as it stands there, and what it prints.
#[test]
fn the_program_of_the_page() {
    let page = std::fs::read_to_string(here().join("../../docs/c.md")).unwrap();
    let text = page
        .split("```c\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (file, program) = (dir.path().join("hello.c"), dir.path().join("hello"));
    std::fs::write(&file, text).unwrap();
    run(compiler("cc", "c99")
        .arg(&file)
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(library())
        .arg("-levendb"));
    let mut command = Command::new(&program);
    command
        .current_dir(dir.path())
        .env("LD_LIBRARY_PATH", library());
    for _ in 0..2 {
        let said = String::from_utf8(run(&mut command).stdout).unwrap();
        assert_eq!(said, "ada = Ada Lovelace\nben = Ben\n");
    }
}
