//! Programs in C and C++, compiled with the headers and linked to the shared library, over both
//! layouts.
#![expect(
    clippy::unwrap_used,
    reason = "a test, which fails where something is not as it expects"
)]

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[path = "../../../store/evendb/tests/common/skipped.rs"]
mod skipped;

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
/// linked to the library that was built with this test, and not made from a static one.
fn library_with_cpp(dir: &Path) {
    let foreign = dir.join("foreign.o");
    run(compiler("cc", "-std=gnu11")
        .args(["-fPIC", "-c"])
        .arg(here().join("cpp/foreign.c"))
        .arg("-o")
        .arg(&foreign));
    let folder = std::fs::read_dir(here().join("cpp")).unwrap();
    let sources = folder.map(|entry| entry.unwrap().path());
    let is_source = |path: &PathBuf| path.extension() == Some(OsStr::new("cc"));
    let sources: Vec<PathBuf> = sources.filter(is_source).collect();
    assert!(!sources.is_empty());
    let exports = here().join("cpp/exports.map");
    run(compiler("c++", "-std=c++17")
        .args(["-fPIC", "-shared", "-Wl,-soname,libleveldb.so.1"])
        .arg(format!("-Wl,--version-script,{}", exports.display()))
        .args(sources)
        .arg(&foreign)
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
    library_with_cpp(dir.path());
    let path = dir.path().join("program");
    run(compiler("c++", "-std=c++17")
        .arg(program("in_cpp.cc"))
        .arg("-o")
        .arg(&path)
        .arg(dir.path().join("libleveldb.so.1"))
        .arg(format!("-Wl,-rpath-link,{}", library_dir().display()))
        .arg("-L")
        .arg(library_dir())
        .args(["-lleveldb", "-lpthread"]));
    run_over_each_layout(&path, &with_cpp_in_front(dir.path()));
}

/// Two kinds of programs: one looks up all functions when it is started, the other looks up each
/// function when it is first called.
#[test]
fn a_program_compiled_with_leveldbs_own_cpp_headers_is_not_started_and_hears_why() {
    if !has_cpp("a program of LevelDB's own headers") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    library_with_cpp(dir.path());
    let theirs = dir.path().join("theirs");
    std::fs::create_dir(&theirs).unwrap();
    run(Command::new("c++")
        .args(["-fPIC", "-shared", "-Wl,-soname,libleveldb.so.1d", "-I"])
        .arg(program("theirs"))
        .arg(program("theirs/library.cc"))
        .arg("-o")
        .arg(theirs.join("libleveldb.so.1d")));
    let path = dir.path().join("program");
    run(Command::new("c++")
        .args(["-Wl,-z,lazy", "-I"])
        .arg(program("theirs"))
        .arg(program("foreign.cc"))
        .arg("-o")
        .arg(&path)
        .arg(theirs.join("libleveldb.so.1d")));

    let started = |libraries: &OsStr, at_once: bool| {
        let mut command = Command::new(&path);
        command
            .env("LD_LIBRARY_PATH", libraries)
            .env_remove("LD_BIND_NOW");
        if at_once {
            command.env("LD_BIND_NOW", "1");
        }
        command.output().unwrap()
    };
    for at_once in [false, true] {
        let sound = started(theirs.as_os_str(), at_once);
        check(&sound);
        assert_eq!(sound.stdout, b"started\nOK\n");

        let refused = started(&with_cpp_in_front(dir.path()), at_once);
        let errors = String::from_utf8(refused.stderr).unwrap();
        // The loader ends programs in this way: not by a signal.
        assert_eq!(refused.status.code(), Some(127), "{errors}");
        assert_eq!(refused.stdout, b"", "{errors}");
        assert!(errors.contains(path.to_str().unwrap()), "{errors}");
        // The linker's order decides which of the three functions it is.
        assert!(errors.contains("_ZN"), "{errors}");
        assert!(errors.contains("7leveldb"), "{errors}");
        if !at_once {
            assert!(
                errors.contains("compiled with LevelDB's own C++ headers"),
                "{errors}"
            );
        }
    }
}
