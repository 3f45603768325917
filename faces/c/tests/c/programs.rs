//! A program in C for each section of the header, and for what others did wrong: each over both
//! layouts, most of them also with AddressSanitizer.

use super::library::{build, check, library, run, source};
use super::skipped::skipped;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// Whether programs with AddressSanitizer can be compiled and run here.
fn has_sanitizer() -> bool {
    static THERE: OnceLock<bool> = OnceLock::new();
    *THERE.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let (file, program) = (dir.path().join("a.c"), dir.path().join("a"));
        std::fs::write(&file, "int main(void) { return 0; }\n").unwrap();
        let mut compiler = Command::new("cc");
        compiler
            .arg("-fsanitize=address")
            .arg(&file)
            .arg("-o")
            .arg(&program);
        let built = compiler.output().unwrap().status.success();
        built
            && Command::new(&program)
                .output()
                .is_ok_and(|ran| ran.status.success())
    })
}

fn over_both_layouts(program: &Path) {
    for layout in ["chunks", "guards"] {
        let dir = tempfile::tempdir().unwrap();
        check(program, &[dir.path().as_os_str(), OsStr::new(layout)]);
    }
}

fn plain(name: &str) {
    let dir = tempfile::tempdir().unwrap();
    over_both_layouts(&build(name, dir.path(), &[]));
}

fn sanitized(name: &str) {
    if !has_sanitizer() {
        skipped(
            &format!("{name}.c with AddressSanitizer"),
            "cc has no AddressSanitizer",
        );
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    over_both_layouts(&build(name, dir.path(), &["-fsanitize=address"]));
}

macro_rules! programs {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                plain(stringify!($name));
                sanitized(stringify!($name));
            }
        )*

        /// The programs that are run in this way.
        const BOTH_WAYS: &[&str] = &[$(stringify!($name)),*];
    };
}

programs! {
    errors database keyspaces reads writes cursors batches snapshots transactions merges changes
    loads backups figures misuse outlive options tasks watches beside
}

#[test]
fn a_forked_child_is_refused_and_the_parent_goes_on() {
    plain("fork");
}

/// The stack that docs/c.md asks for. The C library musl gives a thread 128 KiB, if not told
/// otherwise.
#[test]
fn a_thread_with_little_stack_makes_every_kind_of_call() {
    let dir = tempfile::tempdir().unwrap();
    let program = build("stack", dir.path(), &[]);
    for layout in ["chunks", "guards"] {
        let place = tempfile::tempdir().unwrap();
        let arguments = [
            place.path().as_os_str(),
            OsStr::new(layout),
            OsStr::new("64"),
        ];
        check(&program, &arguments);
    }
}

#[test]
fn signals_are_handled_by_threads_of_the_program() {
    plain("signals");
}

#[test]
fn the_library_is_unloaded_in_a_thread_that_ends() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("unload");
    run(Command::new("cc")
        .args(["-std=c99", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"])
        .arg(source("unload"))
        .arg("-o")
        .arg(&program)
        .args(["-lpthread", "-ldl"]));
    let shared = library().join("libevendb.so.1");
    let layout = OsStr::new("chunks");
    check(
        &program,
        &[dir.path().as_os_str(), layout, shared.as_os_str()],
    );
}

#[test]
fn a_program_ends_in_the_midst_of_its_work() {
    let dir = tempfile::tempdir().unwrap();
    let program = build("exits", dir.path(), &[]);
    for (layout, how) in [
        ("chunks", "main"),
        ("chunks", "thread"),
        ("chunks", "callback"),
        ("guards", "thread"),
        ("guards", "callback"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let ends = |how: &str| {
            run(Command::new(&program)
                .arg(place.path())
                .args([layout, how])
                .env("LD_LIBRARY_PATH", library()))
        };
        for _ in 0..3 {
            ends(how);
        }
        assert_eq!(ends("look").stdout, b"all of it\n", "{layout} {how}");
    }
}

#[test]
fn each_program_is_run() {
    let folder = std::fs::read_dir(source("x").parent().unwrap()).unwrap();
    let others = ["fork", "signals", "unload", "exits", "stack"];
    for entry in folder {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.extension() == Some(OsStr::new("c")) {
            let is_run = BOTH_WAYS.contains(&&*name) || others.contains(&&*name);
            assert!(is_run, "{name}.c is run by no test");
        }
    }
}
