//! Encrypted databases by the command, with the feature `encryption`; without it, that they are refused by its name.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;

use common::{Outcome, Place, evendb};

fn run(place: &Place, arguments: &[&str]) -> Outcome {
    let mut command = evendb();
    command.args(arguments).current_dir(place.0.path());
    Outcome::of(command.output().unwrap())
}

/// Two key files, one of digits and one of bytes.
fn place() -> Place {
    let place = Place::new();
    place.file("old.key", "0123456789abcdef".repeat(4) + "\n");
    place.file("new.key", [7; 32]);
    place
}

#[cfg(feature = "encryption")]
#[test]
fn a_database_opens_by_its_key_file_alone() {
    let place = place();
    let old = ["--key-file", "old.key"];
    let with = |arguments: &[&str], key: &[&str]| run(&place, &[arguments, key].concat());
    with(&["put", "db", "a", "secret"], &old).expect(0, "");
    with(&["get", "db", "a"], &old).expect(0, "secret\n");
    with(&["get", "db", "a"], &[]).complains(1, "encrypted, and no key was given");
    with(&["get", "db", "a"], &["--key-file", "new.key"]).complains(1, "which was not given");
    with(&["get", "db", "a"], &["--key-file", "missing.key"]).complains(2, "missing.key");
    place.file("bad.key", "0123");
    let bad = with(&["get", "db", "a"], &["--key-file", "bad.key"]);
    bad.complains(2, "a key is 32 bytes");
    for command in ["verify", "stats", "compact"] {
        with(&[command, "db"], &old).expect_code(0);
    }
    with(&["verify", "db"], &[]).complains(1, "no key was given");
    let dumped = ["dump", "db", "--key-file", "old.key", "manifest"];
    with(&dumped, &[]).expect_code(0);
    with(&["repair", "db", "--into", "saved"], &old).expect_code(0);
    with(&["get", "saved", "a"], &old).expect(0, "secret\n");
    with(&["backup", "db", "backups"], &old).expect_code(0);
    with(&["restore", "backups", "restored"], &[]).expect(0, "");
    with(&["get", "restored", "a"], &old).expect(0, "secret\n");
    let rotate = ["rotate-key", "db", "--new-key-file", "new.key"];
    with(&rotate, &old).expect_code(0);
    with(&["get", "db", "a"], &old).complains(1, "which was not given");
    with(&["get", "db", "a"], &["--key-file", "new.key"]).expect(0, "secret\n");
    with(&["put", "plain", "a", "b"], &[]).expect(0, "");
    with(&["get", "plain", "a"], &old).complains(1, "is not encrypted");
}

#[cfg(not(feature = "encryption"))]
#[test]
fn a_build_without_the_feature_refuses_by_its_name() {
    let place = place();
    let created = run(&place, &["put", "db", "a", "b", "--key-file", "new.key"]);
    created.complains(1, "feature `encryption`");
    assert!(!place.path("db").exists());
    run(&place, &["put", "db", "a", "b"]).expect(0, "");
    // A file of that name says that a database is encrypted.
    place.file("db/KEYS", "EVENKEY1");
    for arguments in [&["get", "db", "a"][..], &["verify", "db"]] {
        run(&place, arguments).complains(1, "feature `encryption`");
    }
}
