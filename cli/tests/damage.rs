//! Exit codes of damage: every subcommand that reads a database, with every kind of damage.
//!
//! Each kind is planted in a copy of one database whose records lie in tables, in runs of the
//! chunks' logs and in the commit log. A subcommand that meets the damage ends with 5; one that
//! does not need the damaged bytes does its work. The table says which of the two must happen:
//! nothing is left open.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

use evendb::{Durability, Options};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Subcommands with their arguments after the database.
const SUBCOMMANDS: &[&[&str]] = &[
    &["get", "key00003"],
    &["scan"],
    &["scan", "--reverse", "--count"],
    &["stats"],
    &["put", "key00003", "new"],
    &["delete", "key00003"],
    &["delete", "--prefix", "key"],
    &["import", "in.tsv"],
    &["verify-import", "in.tsv"],
    &["compact"],
    &["verify"],
    &["dump", "manifest"],
    &["dump", "commit-log"],
    &["repair", "--into", "saved"],
];

/// The exit code of each subcommand: 0 for the named ones, otherwise 5.
struct Damage {
    name: &'static str,
    plant: fn(&Path),
    /// Subcommands that do not need the damaged bytes, in lists.
    unmoved: &'static [&'static [&'static str]],
}

/// Subcommands that print the manifest and the commit log, and read nothing else.
const DUMPS: &[&str] = &["dump manifest", "dump commit-log"];

/// Subcommands that need no record in a table or in a run in the chunks' logs.
const WITHOUT_RECORDS: &[&str] = &[
    "stats",
    "put",
    "delete",
    "import",
    "dump manifest",
    "dump commit-log",
];

const DAMAGES: &[Damage] = &[
    Damage {
        name: "a byte of CURRENT",
        plant: |db| flip(&db.join("CURRENT"), 12),
        // The newest manifest stands in, and is whole.
        unmoved: &[DUMPS, &["repair"]],
    },
    Damage {
        name: "CURRENT is missing",
        plant: |db| fs::remove_file(db.join("CURRENT")).unwrap(),
        unmoved: &[DUMPS, &["repair"]],
    },
    Damage {
        name: "a byte of the manifest",
        plant: |db| flip(&file(db, "MANIFEST-"), 80),
        unmoved: &[&["dump commit-log"]],
    },
    Damage {
        name: "the manifest's header",
        plant: |db| flip(&file(db, "MANIFEST-"), 2),
        unmoved: &[&["dump commit-log"]],
    },
    Damage {
        name: "the manifest is missing",
        plant: |db| fs::remove_file(file(db, "MANIFEST-")).unwrap(),
        unmoved: &[],
    },
    Damage {
        name: "the manifest is empty",
        plant: |db| fs::write(file(db, "MANIFEST-"), "").unwrap(),
        unmoved: &[],
    },
    Damage {
        name: "a byte of a table's first block",
        plant: |db| flip(&file(db, ".sst"), 100),
        unmoved: &[WITHOUT_RECORDS],
    },
    Damage {
        name: "a table's end",
        plant: |db| {
            let file = file(db, ".sst");
            flip(&file, fs::metadata(&file).unwrap().len() as usize - 9);
        },
        // `repair` finds the records without the index that lies there.
        unmoved: &[&["repair"], WITHOUT_RECORDS],
    },
    Damage {
        name: "a table is missing",
        plant: |db| fs::remove_file(file(db, ".sst")).unwrap(),
        unmoved: &[WITHOUT_RECORDS],
    },
    Damage {
        name: "a byte of a run in the chunks' logs",
        plant: |db| flip(&db.join("CHUNK-LOGS"), place_of_a_run(db) + 10),
        // The key's record lies in the table.
        unmoved: &[&["get"], WITHOUT_RECORDS],
    },
    Damage {
        name: "the chunks' logs are missing",
        plant: |db| fs::remove_file(db.join("CHUNK-LOGS")).unwrap(),
        unmoved: &[DUMPS],
    },
    Damage {
        name: "the chunks' logs are cut short",
        plant: |db| fs::write(db.join("CHUNK-LOGS"), "").unwrap(),
        unmoved: &[DUMPS],
    },
    Damage {
        name: "the commit log is missing",
        plant: |db| fs::remove_file(db.join("COMMIT-LOG")).unwrap(),
        unmoved: &[&["dump manifest"]],
    },
    Damage {
        name: "the commit log is cut short",
        plant: |db| fs::write(db.join("COMMIT-LOG"), "").unwrap(),
        unmoved: &[&["dump manifest"]],
    },
];

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x40;
    fs::write(path, bytes).unwrap();
}

/// The beginning of the newest run that the manifest names.
fn place_of_a_run(db: &Path) -> usize {
    let output = run(db.parent().unwrap(), &["dump", "manifest", "--json"]);
    let parts = std::str::from_utf8(&output.stdout).unwrap().lines();
    let mut parts = parts.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let run = parts.rfind(|part| part["file"] == "CHUNK-LOGS");
    run.unwrap()["offset"].as_u64().unwrap() as usize
}

/// The one file with this in its name.
fn file(db: &Path, part: &str) -> PathBuf {
    let entries = fs::read_dir(db).unwrap().map(|entry| entry.unwrap().path());
    let named: Vec<PathBuf> = entries
        .filter(|path| path.file_name().unwrap().to_str().unwrap().contains(part))
        .collect();
    assert_eq!(named.len(), 1, "{part}: {named:?}");
    named[0].clone()
}

/// One table, one run in the chunks' log, and records that only the commit log has.
fn make(db: &Path, input: &Path) {
    let options = Options::new().memory_budget(2 << 20).workers(0);
    let open = options.durability(Durability::Process).open(db).unwrap();
    let mut lines = String::new();
    let mut put = |numbers: std::ops::Range<u32>| {
        for number in numbers {
            open.put(format!("key{number:05}"), format!("value {number}"))
                .unwrap();
            lines += &format!("key{number:05}\tvalue {number}\n");
        }
    };
    put(0..200);
    open.flush().unwrap();
    put(200..300);
    open.compact().unwrap();
    put(300..310);
    open.flush().unwrap();
    put(310..320);
    copy(db, &db.with_extension("live"));
    fs::write(input, lines).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        // The owner's figures and its mark do not belong to the database.
        if name != "STATS" && name != "LOCK" {
            fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

fn run(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evendb"));
    command.current_dir(dir).arg(arguments[0]).arg("db");
    let memory = !matches!(arguments[0], "verify" | "dump" | "repair");
    command.args(memory.then_some("--memory=2MiB"));
    command.args(&arguments[1..]).output().unwrap()
}

#[test]
fn every_subcommand_tells_every_kind_of_damage() {
    let dir = tempfile::tempdir().unwrap();
    let (first, input) = (dir.path().join("first"), dir.path().join("in.tsv"));
    make(&first, &input);
    let live = dir.path().join("first.live");
    let db = dir.path().join("db");
    let mut wrong = Vec::new();
    let mut cells = 0;
    let sound = Damage {
        name: "nothing",
        plant: |_| (),
        unmoved: &[&[""]],
    };
    for damage in [&sound].into_iter().chain(DAMAGES) {
        for arguments in SUBCOMMANDS {
            copy(&live, &db);
            (damage.plant)(&db);
            let what = arguments.join(" ");
            let mut unmoved = damage.unmoved.iter().copied().flatten();
            let unmoved = unmoved.any(|name| what.starts_with(name));
            let expected = if unmoved { 0 } else { 5 };
            let output = run(dir.path(), arguments);
            let told = String::from_utf8_lossy(&output.stderr);
            if output.status.code() != Some(expected) {
                let code = output.status.code();
                wrong.push(format!(
                    "{}: {what}: {code:?}, not {expected}: {told}",
                    damage.name
                ));
            }
            // Inspections print what they find; the others say why they stop.
            let silent = output.stderr.is_empty() && output.stdout.is_empty();
            assert!(
                expected == 0 || !silent,
                "{}: {what} says nothing",
                damage.name
            );
            // And how to go on, by commands to run.
            let advised = |command| told.contains(command);
            let is_advised = match arguments[0] {
                "repair" => true,
                "verify" => advised("`evendb repair db --into NEWDIR`"),
                _ => advised("`evendb verify db`") && advised("`evendb repair db --into NEWDIR`"),
            };
            if output.status.code() == Some(5) && !is_advised {
                wrong.push(format!("{}: {what} names no command: {told}", damage.name));
            }
            cells += 1;
            fs::remove_dir_all(&db).unwrap();
            let _ = fs::remove_dir_all(dir.path().join("saved"));
        }
    }
    println!("{cells} cells");
    assert!(
        wrong.is_empty(),
        "{} of {cells}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// A repair tells the lost records and its summary once, and they agree.
#[test]
fn a_repair_without_current_says_one_thing() {
    let dir = tempfile::tempdir().unwrap();
    let (first, db) = (dir.path().join("first"), dir.path().join("db"));
    make(&first, &dir.path().join("in.tsv"));
    let live = dir.path().join("first.live");
    copy(&live, &db);
    fs::remove_file(db.join("CURRENT")).unwrap();
    let saved = |into: &str| {
        let output = run(dir.path(), &["repair", "--into", into]);
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let (code, text) = saved("whole");
    assert_eq!(code, Some(0), "{text}");
    for part in [
        "nothing is lost by that",
        "320 records saved",
        "\neverything was saved\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(
        !text.contains("perhaps") && !text.contains("older values"),
        "{text}"
    );
    // Nobody can tell which of several was in force.
    fs::copy(file(&db, "MANIFEST-"), db.join("MANIFEST-000000")).unwrap();
    let (code, text) = saved("unsure");
    assert_eq!(code, Some(0), "{text}");
    for part in [
        "perhaps lost: CURRENT",
        "which keys is not known",
        "whether there was more cannot be told",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("everything was saved"), "{text}");
}

#[test]
fn counts_have_their_singular() {
    let dir = tempfile::tempdir().unwrap();
    let command = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evendb"));
        let output = command
            .current_dir(dir.path())
            .args(arguments)
            .output()
            .unwrap();
        let told = [output.stdout, output.stderr].concat();
        String::from_utf8(told).unwrap()
    };
    fs::write(dir.path().join("in.tsv"), "a\t1\n\n").unwrap();
    fs::write(dir.path().join("bad.jsonl"), "no\n").unwrap();
    let jsonl = ["--format", "jsonl", "--key-columns", "k"];
    let refused = [&["verify-import", "db", "bad.jsonl"][..], &jsonl].concat();
    for (arguments, expected) in [
        (
            &["import", "db", "in.tsv"][..],
            &["imported 1 record, ", "; 0 bad lines, 1 empty line skipped"][..],
        ),
        (
            &["verify-import", "db", "in.tsv"],
            &[
                "1 pair, 1 key, 0 bad lines, 1 empty line skipped",
                "1 record equal",
            ],
        ),
        (&["size", "db"], &["about 1 record, "]),
        (&["keyspaces", "db"], &["about 1 record, "]),
        (
            &["export", "db", "files"],
            &["exported 1 record, ", " in 1 table\n"],
        ),
        (
            &["ingest", "db", "files", "--keyspace", "k"],
            &["ingested 1 record, ", " in 1 table, "],
        ),
        (
            &["verify", "db"],
            &[", 2 keyspaces, 2 chunks, ", "sound; 0 warnings"],
        ),
        (
            &["repair", "db", "--into", "new"],
            &["keyspace `k`: 1 record saved"],
        ),
        (
            &refused,
            &["there is nothing to compare: the input is 1 bad line\n"],
        ),
    ] {
        let told = command(arguments);
        for part in expected {
            assert!(told.contains(part), "{part} in {told}");
        }
    }
    flip(&file(&dir.path().join("db"), "MANIFEST-"), 80);
    let told = command(&["verify", "db"]);
    assert!(told.contains("\n1 corruption, "), "{told}");
}
