//! The libraries, made by `faces/c/link` of the archive that was built with this test; compilers.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command that has to succeed.
pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{errors}",
        output.status
    );
    output
}

/// The archive that cargo has built with this test.
pub fn archive() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.set_file_name("libevendb_c.a");
    assert!(path.exists(), "{}", path.display());
    path
}

/// The directory with libevendb.so.1, libevendb.so and libevendb.a, which is made once.
pub fn library() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libevendb");
        run(Command::new(here().join("link")).arg(archive()).arg(&out));
        out
    })
}

/// Whether there is a command of this name.
pub fn is_there(name: &str) -> bool {
    let tried = Command::new(name).arg("--version").output();
    tried.is_ok_and(|output| output.status.success())
}

/// A C compiler's command, with all warnings as errors, and the header.
pub fn compiler(name: &str, standard: &str) -> Command {
    let mut compiler = Command::new(name);
    compiler
        .arg(format!("-std={standard}"))
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
        .arg(here().join("include"));
    compiler
}

/// A program of the tests.
pub fn source(name: &str) -> PathBuf {
    here().join("tests/programs").join(format!("{name}.c"))
}

/// Compiles a program of the tests and links it to the shared library.
pub fn build(name: &str, into: &Path, arguments: &[&str]) -> PathBuf {
    let program = into.join(name);
    run(compiler("cc", "c99")
        .args(["-D_GNU_SOURCE", "-g", "-O1"])
        .args(arguments)
        .arg(source(name))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(library())
        .args(["-levendb", "-lpthread", "-ldl"]));
    program
}

/// Runs a program of the tests, which says "all of it" at its end.
pub fn check(program: &Path, arguments: &[&OsStr]) {
    let ran = run(Command::new(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", library()));
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert_eq!(said, "all of it\n", "{program:?} {arguments:?}");
}
