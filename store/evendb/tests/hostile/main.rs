//! Hostile surroundings and odd arguments: second openers, read-only opens, limits, strange paths,
//! foreign files, newer formats. Each ends in a typed error or works.

mod calls;
#[path = "../common/mod.rs"]
mod common;
mod descriptors;
mod filters;
mod limits;
mod openers;
mod options;
mod places;
mod ranges;

use common::tiny;
use evendb::{Durability, ErrorKind, Options};
use openers::{STACK_BYTES, threads_that_cannot_be_started};
use std::path::Path;
use std::process::Command;

const ROLE_VARIABLE: &str = "EVENDB_HOSTILE_ROLE";
const DIR_VARIABLE: &str = "EVENDB_HOSTILE_DIR";

fn small() -> Options {
    tiny(Durability::Process, 1)
}

fn kind_of<T>(result: evendb::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

/// Runs this binary again in a role; its output must be as expected.
fn in_another_process(role: &str, dir: &Path) {
    let status = Command::new(std::env::current_exe().expect("the test binary"))
        .args(["other_process", "--exact", "--nocapture"])
        .env(ROLE_VARIABLE, role)
        .env(DIR_VARIABLE, dir)
        .env("RUST_MIN_STACK", STACK_BYTES.to_string())
        .status()
        .expect("runs");
    assert!(status.success(), "{role}");
}

/// Not a test of its own: [`in_another_process`] runs it.
#[test]
fn other_process() {
    let Some(dir) = std::env::var_os(DIR_VARIABLE) else {
        return;
    };
    match std::env::var(ROLE_VARIABLE).expect("a role").as_str() {
        "refused" => assert_eq!(kind_of(small().open(dir)), Some(ErrorKind::Locked)),
        "reader refused" => {
            assert_eq!(
                kind_of(small().read_only(true).open(dir)),
                Some(ErrorKind::Locked)
            );
        }
        "admitted" => {
            let db = small().open(dir).expect("opens");
            assert_eq!(db.get("key").expect("gets").as_deref(), Some(&b"value"[..]));
        }
        "relative" => {
            std::env::set_current_dir(&dir).expect("changes the directory");
            let db = small().open("relative/db").expect("opens");
            db.put("key", "value").expect("puts");
            std::env::set_current_dir("/").expect("changes the directory");
            for number in 0..2000 {
                db.put(format!("{number}"), vec![7; 100]).expect("puts");
            }
            db.settle_debt().expect("settles");
            db.close().expect("closes");
            assert!(!Path::new("/relative").exists());
        }
        "threads that cannot be started" => threads_that_cannot_be_started(Path::new(&dir)),
        "many readers" => descriptors::many_readers(Path::new(&dir)),
        "hints refused" => filters::without_hints(Path::new(&dir), libc::EPERM),
        "hints unknown" => filters::without_hints(Path::new(&dir), libc::ENOSYS),
        "no descriptor left" => descriptors::none_left(Path::new(&dir)),
        role => panic!("no such role: {role}"),
    }
}
