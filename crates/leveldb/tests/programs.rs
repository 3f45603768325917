//! Programs in C and C++, compiled with the headers and linked to the shared library, over both engines.
#![expect(
    clippy::unwrap_used,
    reason = "a test, which fails where something is not as it expects"
)]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[path = "../../evendb/tests/common/skipped.rs"]
mod skipped;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where the shared library was built that this test was built with.
fn library_dir() -> PathBuf {
    let mut dir = std::env::current_exe().unwrap();
    dir.pop();
    assert!(dir.join("libleveldb.so").exists(), "{}", dir.display());
    dir
}

fn check(output: &Output) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{errors}", output.status);
}

/// Compiles sources to a program, and runs it over each engine, with a directory that is not there.
fn compile_and_run(compiler: &mut Command, sources: &[PathBuf]) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    let compiled = compiler
        .args(["-Wall", "-Wextra", "-Werror", "-I"])
        .arg(here().join("include"))
        .args(sources)
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(library_dir())
        .args(["-lleveldb", "-lpthread"])
        .output()
        .unwrap();
    check(&compiled);
    for engine in ["evendb", "flsm"] {
        let ran = Command::new(&program)
            .arg(dir.path().join(engine))
            .env("LD_LIBRARY_PATH", library_dir())
            .env("TEST_TMPDIR", dir.path())
            .env("EVENDB_LEVELDB_ENGINE", engine)
            .output()
            .unwrap();
        check(&ran);
        assert_eq!(ran.stdout, b"all of it\n", "{engine}");
    }
}

#[test]
fn a_program_in_c() {
    let source = here().join("tests/programs/in_c.c");
    compile_and_run(Command::new("cc").arg("-std=c99"), &[source]);
}

#[test]
fn a_program_in_cpp() {
    let compiler = "c++";
    if Command::new(compiler).arg("--version").output().is_err() {
        skipped::skipped("a program in C++", "there is no C++ compiler");
        return;
    }
    let folder = std::fs::read_dir(here().join("cpp")).unwrap();
    let sources = folder.map(|entry| entry.unwrap().path());
    let is_source = |path: &PathBuf| path.extension() == Some(OsStr::new("cc"));
    let mut sources: Vec<PathBuf> = sources.filter(is_source).collect();
    assert!(!sources.is_empty());
    sources.push(here().join("tests/programs/in_cpp.cc"));
    compile_and_run(Command::new(compiler).arg("-std=c++17"), &sources);
}
