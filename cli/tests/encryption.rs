//! Encrypted databases with the command, with the feature `encryption`. Without it, the refusal
//! names the feature.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;

use common::{Outcome, Place, evendb};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

fn run(place: &Place, arguments: &[&str]) -> Outcome {
    let mut command = evendb();
    command.args(arguments).current_dir(place.0.path());
    Outcome::of(command.output().unwrap())
}

/// Two key files, one of digits and one of bytes.
fn place() -> Place {
    let place = Place::new();
    key_file(&place, "old.key", "0123456789abcdef".repeat(4) + "\n");
    key_file(&place, "new.key", [7; 32]);
    place
}

/// A file that only its owner may read.
fn key_file(place: &Place, name: &str, bytes: impl AsRef<[u8]>) {
    let path = place.file(name, bytes);
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
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

/// What a command tells of the readers of a key file, on standard error.
fn told_of_readers(place: &Place, arguments: &[&str]) -> Vec<String> {
    let told = run(place, arguments).error;
    let lines = told
        .lines()
        .filter(|line| line.contains("others than its owner"));
    lines.map(str::to_owned).collect()
}

#[test]
fn a_key_file_that_others_may_use_is_told_of_once() {
    let place = place();
    let with = ["get", "db", "a", "--key-file", "old.key"];
    assert_eq!(told_of_readers(&place, &with), [""; 0]);
    for mode in [0o640, 0o604, 0o620, 0o601] {
        fs::set_permissions(place.path("old.key"), Permissions::from_mode(mode)).unwrap();
        let line = format!(
            "evendb: others than its owner may use the key file old.key (mode {mode:03o}); \
             chmod 600 changes that"
        );
        assert_eq!(told_of_readers(&place, &with), [line]);
    }
    let both = [
        "rotate-key",
        "db",
        "--key-file",
        "old.key",
        "--new-key-file",
        "old.key",
    ];
    assert_eq!(told_of_readers(&place, &both).len(), 1);
    fs::set_permissions(place.path("new.key"), Permissions::from_mode(0o644)).unwrap();
    let both = [
        "rotate-key",
        "db",
        "--key-file",
        "old.key",
        "--new-key-file",
        "new.key",
    ];
    assert_eq!(told_of_readers(&place, &both).len(), 2);
}

#[test]
fn no_more_of_a_key_file_is_read_than_a_key_may_have() {
    let place = place();
    // One has no end, one is a key with too many bytes after it, one is a hole of a terabyte.
    key_file(
        &place,
        "long.key",
        "0123456789abcdef".repeat(4) + &" ".repeat(4096),
    );
    key_file(&place, "hole.key", "");
    fs::File::options()
        .write(true)
        .open(place.path("hole.key"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    for file in ["/dev/zero", "long.key", "hole.key"] {
        let refused = run(&place, &["get", "db", "a", "--key-file", file]);
        refused.complains(2, "longer than any key");
    }
    // The longest form that is allowed.
    let digits = "0123456789abcdef".repeat(4);
    key_file(&place, "padded.key", digits + &"\n".repeat(4096 - 64));
    let read = run(&place, &["get", "db", "a", "--key-file", "padded.key"]);
    read.expect_code(1);
}
