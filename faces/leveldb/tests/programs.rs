//! Programs in C and C++, compiled with the headers and linked to the shared library, over both
//! layouts.
#![expect(
    clippy::unwrap_used,
    reason = "a test, which fails where something is not as it expects"
)]

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

#[path = "../../../store/evendb/tests/common/skipped.rs"]
mod skipped;

/// Names of `namespace leveldb` that Debian's libleveldb1d exports.
const LEVELDBS_SYMBOLS: usize = 172;
/// Of these, the names that this library does not have.
const SYMBOLS_LACKING: usize = 10;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directory of the shared library that was built with this test.
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

/// A compiler's command, with warnings as errors and the headers.
fn compiler(name: &str, standard: &str) -> Command {
    let mut compiler = Command::new(name);
    compiler
        .arg(standard)
        .args(["-Wall", "-Wextra", "-Werror", "-I"])
        .arg(here().join("include"));
    compiler
}

fn run(command: &mut Command) {
    check(&command.output().unwrap());
}

fn program(name: &str) -> PathBuf {
    here().join("tests/programs").join(name)
}

/// Whether there is a C++ compiler; if not, it prints what is left out.
fn has_cpp(what: &str) -> bool {
    let found = Command::new("c++").arg("--version").output().is_ok();
    if !found {
        skipped::skipped(what, "there is no C++ compiler");
    }
    found
}

/// The library with C++ classes, under all names that `scripts/leveldb-install` gives it. It is
/// linked to the library that was built with this test, and not made from a static one. It is built
/// once for all tests of this file; returns its directory.
fn library_with_cpp() -> &'static Path {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("leveldb-with-cpp");
        match std::fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
            _ => std::fs::create_dir(&dir).unwrap(),
        }
        build_library_with_cpp(&dir);
        dir
    });
    &BUILT
}

fn build_library_with_cpp(dir: &Path) {
    let folder = std::fs::read_dir(here().join("cpp")).unwrap();
    let sources = folder.map(|entry| entry.unwrap().path());
    let is_source = |path: &PathBuf| path.extension() == Some(OsStr::new("cc"));
    let sources: Vec<PathBuf> = sources.filter(is_source).collect();
    assert!(!sources.is_empty());
    let exports = here().join("cpp/exports.map");
    run(compiler("c++", "-std=c++17")
        .args(["-fPIC", "-fvisibility=hidden", "-shared"])
        .arg("-Wl,-soname,libleveldb.so.1")
        .arg(format!("-Wl,--version-script,{}", exports.display()))
        .args(sources)
        .arg("-o")
        .arg(dir.join("libleveldb.so.1"))
        .arg("-L")
        .arg(library_dir())
        .args(["-lleveldb", "-lpthread"]));
    std::os::unix::fs::symlink("libleveldb.so.1", dir.join("libleveldb.so.1d")).unwrap();
}

/// Runs a program over each layout, with a directory that does not exist.
fn run_over_each_layout(program: &Path, libraries: &OsStr) {
    let dir = tempfile::tempdir().unwrap();
    for layout in ["chunks", "guards"] {
        let ran = Command::new(program)
            .arg(dir.path().join(layout))
            .env("LD_LIBRARY_PATH", libraries)
            .env("TEST_TMPDIR", dir.path())
            .env("EVENDB_LEVELDB_LAYOUT", layout)
            .output()
            .unwrap();
        check(&ran);
        assert_eq!(ran.stdout, b"all of it\n", "{layout}");
    }
}

/// The places where the loader looks for the library with C++ classes, and for the library to which
/// it is linked.
fn with_cpp_in_front(dir: &Path) -> OsString {
    std::env::join_paths([dir, &library_dir()]).unwrap()
}

#[test]
fn a_program_in_c() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program");
    run(compiler("cc", "-std=c99")
        .arg(program("in_c.c"))
        .arg("-o")
        .arg(&path)
        .arg("-L")
        .arg(library_dir())
        .args(["-lleveldb", "-lpthread"]));
    run_over_each_layout(&path, library_dir().as_os_str());
}

#[test]
fn a_program_in_cpp() {
    if !has_cpp("a program in C++") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let library = library_with_cpp();
    let path = dir.path().join("program");
    run(compiler("c++", "-std=c++17")
        .arg(program("in_cpp.cc"))
        .arg("-o")
        .arg(&path)
        .arg(library.join("libleveldb.so.1"))
        .arg(format!("-Wl,-rpath-link,{}", library_dir().display()))
        .arg("-L")
        .arg(library_dir())
        .args(["-lleveldb", "-lpthread"]));
    run_over_each_layout(&path, &with_cpp_in_front(library));
    check_traces(&path, &with_cpp_in_front(library));
}

/// The program leaves a trace of each database that it opens, and nothing else changes for it.
fn check_traces(program: &Path, libraries: &OsStr) {
    let dir = tempfile::tempdir().unwrap();
    let traces = dir.path().join("traces");
    std::fs::create_dir(&traces).unwrap();
    let ran = Command::new(program)
        .arg(dir.path().join("db"))
        .env("LD_LIBRARY_PATH", libraries)
        .env("TEST_TMPDIR", dir.path())
        .env("EVENDB_LEVELDB_TRACE", &traces)
        .output()
        .unwrap();
    check(&ran);
    assert_eq!(ran.stdout, b"all of it\n");
    let mut names: Vec<OsString> = std::fs::read_dir(&traces)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    // On the disk: the first database, one with the program's own classes, one that is left behind,
    // one before and one after a fork, one with a layout. In memory: two openings.
    let expected: Vec<OsString> = (1..=8).map(|n| format!("db-{n}.trace").into()).collect();
    assert_eq!(names, expected);
    let first = std::fs::read(traces.join("db-1.trace")).unwrap();
    assert!(first.len() > 100);
}

/// A program that was compiled with LevelDB's own headers knows these numbers of its classes, and
/// does not ask the library for them. `scripts/check-leveldb-programs` compares them with LevelDB's
/// headers.
#[test]
fn classes_have_the_sizes_places_and_bytes_of_leveldbs() {
    if !cfg!(target_arch = "x86_64") {
        skipped::skipped("LevelDB's classes", "the numbers are those of x86-64");
        return;
    }
    if !has_cpp("LevelDB's classes") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let library = library_with_cpp();
    let path = dir.path().join("program");
    run(compiler("c++", "-std=c++17")
        .arg(program("abi.cc"))
        .arg("-o")
        .arg(&path)
        .arg(library.join("libleveldb.so.1"))
        .arg(format!("-Wl,-rpath-link,{}", library_dir().display())));
    let libraries = with_cpp_in_front(library);
    let printed = Command::new(&path)
        .env("LD_LIBRARY_PATH", libraries)
        .output()
        .unwrap();
    check(&printed);
    let printed = String::from_utf8(printed.stdout).unwrap();
    let facts = std::fs::read_to_string(here().join("tests/facts/classes")).unwrap();
    assert!(facts.lines().count() > 100);
    for (ours, theirs) in printed.lines().zip(facts.lines()) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(printed.lines().count(), facts.lines().count());
}

/// `tests/facts/symbols` has all names of `namespace leveldb` that Debian's libleveldb1d exports.
/// The names that this library lacks are private functions, which only LevelDB itself calls, and
/// classes inside of functions.
#[test]
fn the_library_has_the_symbols_of_leveldbs_except_those_that_no_program_can_use() {
    if !cfg!(target_arch = "x86_64") {
        skipped::skipped("LevelDB's symbols", "the names are those of x86-64");
        return;
    }
    if !has_cpp("LevelDB's symbols") {
        return;
    }
    let library = library_with_cpp();
    let listed = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library.join("libleveldb.so.1"))
        .output()
        .unwrap();
    check(&listed);
    let listed = String::from_utf8(listed.stdout).unwrap();
    let names = listed
        .lines()
        .filter_map(|line| line.split(' ').next_back());
    let ours: std::collections::HashSet<&str> = names.collect();
    let facts = std::fs::read_to_string(here().join("tests/facts/symbols")).unwrap();
    let mut lacking = 0;
    for fact in facts.lines() {
        let (kind, name) = fact.split_once(' ').unwrap();
        assert!(matches!(kind, "has" | "lacks"), "{fact}");
        assert_eq!(ours.contains(name), kind == "has", "{fact}");
        lacking += usize::from(kind == "lacks");
    }
    assert_eq!(facts.lines().count(), LEVELDBS_SYMBOLS);
    assert_eq!(lacking, SYMBOLS_LACKING);
}
