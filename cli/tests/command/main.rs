//! The built `evendb` command: its output and its exit codes.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod advise;
mod bench;
#[path = "../common/mod.rs"]
mod common;
mod expiry;
mod foreign_traces;
mod merges;
mod options;
mod ranges;
mod traces;

use common::{Outcome, Place, evendb};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

/// Runs the command by a shell that redirects its streams in this way.
fn redirected(place: &Place, redirection: &str, arguments: &[&str]) -> Outcome {
    let mut shell = Command::new("sh");
    let script = format!("exec \"$0\" \"$@\" {redirection}");
    shell.args(["-c", &script]).arg(evendb().get_program());
    shell.args(arguments).current_dir(place.0.path());
    Outcome::of(shell.stdin(Stdio::null()).output().unwrap())
}

#[test]
fn closed_standard_output_is_an_error_for_each_command_that_prints() {
    let place = Place::new();
    place.run("put", &["a", "1"]).expect(0, "");
    let printing: [&[&str]; 9] = [
        &["scan", "db"],
        &["scan", "db", "--count"],
        &["get", "db", "a"],
        &["get", "db", "a", "a"],
        &["stats", "db"],
        &["verify", "db"],
        &["keyspaces", "db"],
        &["dump", "db", "manifest"],
        &["--help"],
    ];
    for arguments in printing {
        let closed = redirected(&place, ">&-", arguments);
        assert_eq!(closed.code, Some(1), "{arguments:?}: {closed:?}");
        let message = "evendb: cannot write the output: standard output is closed\n";
        assert_eq!(closed.error, message, "{arguments:?}");
        let full = redirected(&place, ">/dev/full", arguments);
        let is_help = arguments == ["--help"];
        assert_eq!(full.code == Some(1), !is_help, "{arguments:?}: {full:?}");
        // A device that takes everything is what the user wanted.
        for given in [">/dev/null", "1<>/dev/null"] {
            redirected(&place, given, arguments).expect(0, "");
        }
    }
    redirected(&place, ">&-", &["pop", "db"]).expect(1, "");
    place.run("get", &["a"]).expect(0, "1\n");
    redirected(&place, ">&-", &["put", "db", "b", "2"]).expect(0, "");
    place.run("get", &["b"]).expect(0, "2\n");
}

#[test]
fn closed_standard_input_is_an_error_where_it_is_read() {
    let place = Place::new();
    place.run("put", &["a", "1"]).expect(0, "");
    for arguments in [
        &["import", "db", "-", "--format", "scan-tsv"][..],
        &["put", "db", "a", "-"],
    ] {
        let closed = redirected(&place, "<&-", arguments);
        assert_eq!(closed.code, Some(1), "{arguments:?}: {closed:?}");
        let message = "standard input is closed";
        assert!(closed.error.contains(message), "{arguments:?}: {closed:?}");
        redirected(&place, "</dev/null", arguments);
    }
    place.run("put", &["a", "1"]).expect(0, "");
    redirected(&place, "<&-", &["get", "db", "a"]).expect(0, "1\n");
}

#[test]
fn closed_standard_error_changes_no_exit_code() {
    let place = Place::new();
    place.run("put", &["a", "1"]).expect(0, "");
    redirected(&place, "2>&-", &["get", "db", "a"]).expect(0, "1\n");
    redirected(&place, "2>&-", &["get", "db", "b"]).expect(4, "");
    redirected(&place, "2>&-", &["scan", "no database"]).expect(1, "");
    redirected(&place, "2>&-", &["scan"]).expect(2, "");
    redirected(&place, ">&- 2>&-", &["scan", "db"]).expect(1, "");
    redirected(&place, "<&- >&- 2>&-", &["verify", "db"]).expect(1, "");
}

#[test]
fn put_get_delete_across_processes() {
    let place = Place::new();
    place.run("put", &["a", "1"]).expect(0, "");
    place.run("get", &["a"]).expect(0, "1\n");
    place.run("get", &["a", "--no-newline"]).expect(0, "1");
    place
        .run("get", &["61", "--hex", "--output", "hex"])
        .expect(0, "31\n");
    place.run("get", &["b"]).expect(4, "");
    place
        .run_with_input("put", &["b", "-"], b"x\0\xFFy")
        .expect(0, "");
    place
        .run("get", &["b", "--no-newline"])
        .expect(0, b"x\0\xFFy");
    place.run("put", &["c", "-1"]).expect(0, "");
    place.run("delete", &["a"]).expect(0, "");
    place.run("delete", &["never there"]).expect(0, "");
    place.run("get", &["a"]).expect(4, "");
    place.run("scan", &["--keys-only"]).expect(0, "b\nc\n");
}

#[test]
fn a_missing_database_is_a_failure_and_is_not_created() {
    let place = Place::new();
    for command in [
        &["get", "a"][..],
        &["delete", "a"],
        &["pop"],
        &["scan"],
        &["size"],
        &["keyspaces"],
        &["keyspaces", "--keyspace", "a", "--row-cache", "true"],
        &["stats"],
    ] {
        place
            .run(command[0], &command[1..])
            .complains(1, "no database");
    }
    assert!(!place.path("db").exists());
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let place = Place::new();
    place.run("put", &["a", "1"]).expect(0, "");
    place
        .run("get", &["0g", "--hex"])
        .complains(2, "hexadecimal");
    place
        .run("get", &["a", "--key-types", "str,u64"])
        .complains(2, "has 1 column, the key types `str,u64` have 2");
    place
        .run("get", &["a", "--key-types", "u7"])
        .complains(2, "u64");
    place
        .run("delete", &["a", "--prefix", "b"])
        .complains(2, "cannot be used");
    place
        .run("scan", &["--no-such-flag"])
        .complains(2, "--no-such-flag");
    place
        .run("import", &["x", "--batch-bytes", "1XB"])
        .complains(2, "unit");
    let bench = evendb().args(["bench", "--mixes", "Q"]).output().unwrap();
    Outcome::of(bench).complains(2, "unknown mix");
}

#[test]
fn scans_take_every_kind_of_range() {
    let place = Place::new();
    let input: String = (0..30).map(|n| format!("k{n:02}\t{n}\n")).collect();
    place.file("in.tsv", input);
    place
        .run("import", &["in.tsv", "--batch-bytes", "40"])
        .complains(0, "imported 30 records");
    place.run("scan", &["--count"]).expect(0, "30\n");
    place
        .run("scan", &["--prefix", "k1", "--count"])
        .expect(0, "10\n");
    place
        .run("scan", &["--from", "k27"])
        .expect(0, "k27\t27\nk28\t28\nk29\t29\n");
    place
        .run("scan", &["--to", "k02", "--reverse"])
        .expect(0, "k01\t1\nk00\t0\n");
    place
        .run(
            "scan",
            &[
                "--prefix",
                "k1",
                "--from",
                "k18",
                "--to",
                "k25",
                "--keys-only",
            ],
        )
        .expect(0, "k18\nk19\n");
    place
        .run("scan", &["--from", "k2", "--to", "k1", "--count"])
        .expect(0, "0\n");
    place
        .run("scan", &["--reverse", "--limit", "2", "--output", "hex"])
        .expect(0, "6b3239\t3239\n6b3238\t3238\n");
    place
        .run("scan", &["--limit", "1", "--output", "json"])
        .expect(0, "{\"key\":\"k00\",\"value\":\"0\"}\n");
    place.run("scan", &["--limit", "0"]).expect(0, "");
    place.run("delete", &["--prefix", "k1"]).expect(0, "");
    place.run("scan", &["--count"]).expect(0, "20\n");
}

#[test]
fn composite_keys_sort_by_their_columns() {
    let place = Place::new();
    let rows = ["b,9,x", "a,10,y", "a,-2,z", "ab,0,w", "a,9,v"];
    place.file("in.csv", format!("app,time,event\n{}\n", rows.join("\n")));
    place
        .run(
            "import",
            &[
                "in.csv",
                "--format",
                "csv",
                "--key-columns",
                "app,time:i64",
                "--value-column",
                "event",
            ],
        )
        .complains(0, "imported 5 records");
    let typed = ["--key-types", "str,i64"];
    place
        .run("scan", &[&typed[..], &["--output", "tsv"]].concat())
        .expect(0, "a\t-2\tz\na\t9\tv\na\t10\ty\nab\t0\tw\nb\t9\tx\n");
    place
        .run(
            "scan",
            &[&typed[..], &["--prefix", "a", "--count"]].concat(),
        )
        .expect(0, "3\n");
    place
        .run("get", &[&["a,-2"], &typed[..]].concat())
        .expect(0, "z\n");
    place
        .run(
            "verify-import",
            &[
                "in.csv",
                "--format",
                "csv",
                "--key-columns",
                "app,time:i64",
                "--value-column",
                "event",
            ],
        )
        .complains(0, "");
}

#[test]
fn bad_lines_are_told_kept_and_counted() {
    let place = Place::new();
    let mut input = "a\t1\nbad\nb\t2\n".to_owned();
    input.extend((0..20).map(|n| format!("bad {n}\n")));
    input.push_str("c\t3");
    place.file("in.tsv", &input);
    let outcome = place
        .run(
            "import",
            &["in.tsv", "--value-column", "2", "--bad-lines", "bad.txt"],
        )
        .complains(3, "line 2: there is no column 2")
        .complains(3, "imported 3 records")
        .complains(3, "21 bad lines");
    assert_eq!(
        outcome.error.matches("there is no column").count(),
        10,
        "{}",
        outcome.error
    );
    let kept = fs::read_to_string(place.path("bad.txt")).unwrap();
    assert_eq!(kept.lines().count(), 21);
    assert!(kept.starts_with("bad\nbad 0\n"), "{kept}");
    place.run("scan", &[]).expect(0, "a\t1\nb\t2\nc\t3\n");
}

#[test]
fn imports_from_standard_input_and_into_keyspaces() {
    let place = Place::new();
    let input = b"{\"k\":\"x\",\"v\":1}\n{\"k\":\"y\",\"v\":\"two\"}\n";
    let arguments = [
        "-",
        "--format",
        "jsonl",
        "--key-columns",
        "k",
        "--value-column",
        "v",
        "--keyspace",
        "j",
    ];
    place
        .run_with_input("import", &arguments, input)
        .complains(0, "imported 2 records");
    place.run("scan", &["--count"]).expect(0, "0\n");
    place
        .run("scan", &["--keyspace", "j"])
        .expect(0, "x\t1\ny\ttwo\n");
    place
        .run("scan", &["--keyspace", "k"])
        .complains(1, "no keyspace `k`");
    place.run("get", &["x", "--keyspace", "j"]).expect(0, "1\n");
}

#[test]
fn missing_input_is_a_failure() {
    let place = Place::new();
    place
        .run("import", &["nowhere.tsv"])
        .complains(1, "nowhere.tsv");
    assert!(
        !place.path("db").exists(),
        "the input is opened before the database is made"
    );
}

/// Input that cannot be read is refused before anything is created.
#[test]
fn input_that_is_no_file_is_refused_first() {
    let place = Place::new();
    fs::create_dir(place.path("dir")).unwrap();
    let told = place
        .run("import", &["dir"])
        .complains(1, "cannot read dir: it is a directory; give a file");
    assert!(!told.error.contains("line 1"), "{told:?}");
    assert!(!place.path("db").exists());
    place.file("in.tsv", "a\t1\nbad\n");
    place
        .run("import", &["in.tsv", "--value-column", "2"])
        .expect_code(3);
    place
        .run("import", &["db"])
        .complains(1, "it is a database: `evendb scan`");
    place
        .run("verify-import", &["dir"])
        .complains(1, "it is a directory");
    // The file of bad lines must not take the place of the input.
    place
        .run("import", &["in.tsv", "--bad-lines", "./in.tsv"])
        .complains(2, "--bad-lines names the input");
    let kept = fs::read_to_string(place.path("in.tsv")).unwrap();
    assert_eq!(kept, "a\t1\nbad\n");
}

/// Mistakes with paths and sizes are told by their names.
#[test]
fn mistakes_are_called_by_their_names() {
    let place = Place::new();
    place.file("db", "this is a file");
    for arguments in [
        &["get", "a"][..],
        &["put", "a", "1"],
        &["scan"],
        &["stats"],
        &["verify"],
        &["dump", "current"],
        &["repair", "--into", "saved"],
    ] {
        place
            .run(arguments[0], &arguments[1..])
            .complains(1, "is a file, and a database is a directory");
    }
    fs::remove_file(place.path("db")).unwrap();
    place.run("put", &["a", "1"]).expect(0, "");
    fs::create_dir(place.path("full")).unwrap();
    place.file("full/of", "");
    let told = place
        .run("repair", &["--into", "full"])
        .complains(1, "full is not empty");
    assert!(!told.error.contains("cannot open"), "{told:?}");
    for memory in ["1EiB", "1KiB"] {
        place
            .run("get", &["a", "--memory", memory])
            .complains(2, "memory_budget must be between");
    }
    fs::create_dir(place.path("log")).unwrap();
    let log = place.path("log");
    let replay = ["bench", "--replay", log.to_str().unwrap()];
    Outcome::of(evendb().args(replay).output().unwrap())
        .complains(1, "it is a directory")
        .expect(1, "");
}

/// A variable that is not set must not delete everything.
#[test]
fn deleting_everything_takes_all() {
    let place = Place::new();
    place.file("in.tsv", "a\t1\nb\t2\n");
    place.run("import", &["in.tsv"]).complains(0, "2 records");
    for arguments in [
        &["--prefix", ""][..],
        &["--prefix="],
        &["--prefix", "", "--hex"],
        // A single text column has no end mark, so its prefix is empty, too.
        &["--prefix", "", "--key-types", "str"],
    ] {
        place
            .run("delete", arguments)
            .complains(2, "give --all if you want that");
    }
    place.run("delete", &[]).complains(2, "required");
    place
        .run("delete", &["--all", "--prefix", "a"])
        .complains(2, "leave out --prefix");
    place
        .run("delete", &["a", "--all"])
        .complains(2, "cannot be used");
    place.run("scan", &["--count"]).expect(0, "2\n");
    place.run("delete", &["--all"]).expect(0, "");
    place.run("scan", &["--count"]).expect(0, "0\n");
    place.run("import", &["in.tsv"]).complains(0, "2 records");
    place
        .run("delete", &["--all", "--prefix", ""])
        .expect(0, "");
    place.run("scan", &["--count"]).expect(0, "0\n");
}

#[test]
fn no_database_is_created_among_other_files() {
    let place = Place::new();
    place.file("in.tsv", "a\t1\n");
    fs::create_dir(place.path("db")).unwrap();
    fs::write(place.path("db").join("thesis.tex"), "").unwrap();
    for arguments in [&["put", "a", "1"][..], &["import", "in.tsv"]] {
        place
            .run(arguments[0], &arguments[1..])
            .complains(1, "\"thesis.tex\"")
            .complains(1, "empty or not there");
    }
    let names = fs::read_dir(place.path("db")).unwrap();
    assert_eq!(names.count(), 1, "nothing stays behind");
}

#[test]
fn verification_passes_and_finds_every_kind_of_difference() {
    let place = Place::new();
    // Later lines win, and the input is not sorted.
    let rows: String = (0..500)
        .map(|n| format!("p{:03}\tv{n}\n", n * 7 % 400))
        .collect();
    place.file("in.tsv", rows);
    place
        .run("import", &["in.tsv", "--batch-bytes", "1KiB"])
        .complains(0, "500 records");
    let verify = || place.run("verify-import", &["in.tsv", "--check-prefix", "p1"]);
    let outcome = verify();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let text = String::from_utf8_lossy(&outcome.out).into_owned();
    for words in [
        "forward scan  400 ",
        "reverse scan  400 ",
        "prefix scan   100 ",
        "400 keys",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    place.run("put", &["p200", "other"]).expect(0, "");
    verify().complains(1, "key `p200` has value `other`");
    place.run("delete", &["p200"]).expect(0, "");
    verify().complains(1, "where `p200` was expected");
    place.run("delete", &["--prefix", "p2"]).expect(0, "");
    let without = place.run("verify-import", &["in.tsv", "--without-prefix", "p2"]);
    assert_eq!(without.code, Some(0), "{without:?}");
    place.run("put", &["q", "1"]).expect(0, "");
    let extra = place.run("verify-import", &["in.tsv", "--without-prefix", "p2"]);
    extra.complains(1, "`q` is too many");
}

#[test]
fn stats_are_shown_in_both_forms() {
    let place = Place::new();
    place.run("put", &["a", "1"]).expect(0, "");
    let table = place.run("stats", &[]);
    assert!(table.code == Some(0) && !table.out.is_empty(), "{table:?}");
    let json = place.run("stats", &["--json"]);
    let object: serde_json::Value = serde_json::from_slice(&json.out).unwrap();
    assert!(
        object["gets.munk"].is_u64() && object["chunks"].is_u64(),
        "{object}"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Place::new();
    let rows: String = (0..50_000).map(|n| format!("key{n:08}\t{n}\n")).collect();
    place.file("in.tsv", rows);
    place
        .run("import", &["in.tsv"])
        .complains(0, "imported 50,000 records");
    let mut child = evendb();
    child
        .arg("scan")
        .arg(place.path("db"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    drop(child.stdout.take());
    Outcome::of(child.wait_with_output().unwrap()).expect(0, "");
}

/// Sends SIGINT through the shell's `kill`, which is everywhere where signals are.
#[cfg(unix)]
fn interrupt(process: u32) {
    let sent = Command::new("sh")
        .arg("-c")
        .arg(format!("kill -INT {process}"))
        .status()
        .unwrap();
    assert!(sent.success());
}

#[cfg(unix)]
#[test]
fn an_interrupted_import_keeps_what_it_read_and_says_so() {
    let place = Place::new();
    let mut child = evendb();
    child.arg("import").arg(place.path("db")).arg("-");
    child
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // After the first 64 KiB the import knows the kind of the lines.
    for line in 0..10_000 {
        writeln!(input, "key{line:08}\tvalue").unwrap();
    }
    // The database's directory appears only after the signal handlers are there.
    while !place.path("db").exists() {
        std::thread::yield_now();
    }
    // More bytes than the pipe and the command's read buffer hold: when the write ends, the import
    // has read nearly all of it. The pipe stays open, and the import waits for more.
    for line in 10_000..200_000 {
        writeln!(input, "key{line:08}\tvalue").unwrap();
    }
    input.flush().unwrap();
    interrupt(child.id());
    let outcome = Outcome::of(child.wait_with_output().unwrap()).complains(130, "interrupted");
    drop(input);
    let told = outcome
        .error
        .split("imported ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    let told: u64 = told.replace(',', "").parse().unwrap();
    assert!(told > 0);
    place
        .run("scan", &["--count"])
        .expect(0, format!("{told}\n"));
}

/// A sound database, a damaged one, the records that are saved from it, and the exit codes.
#[test]
fn verify_dump_and_repair() {
    let place = Place::new();
    let lines: String = (0..2000)
        .map(|number| format!("key{number:05}\tvalue {number}\n"))
        .collect();
    place.file("in.tsv", &lines);
    place.run("import", &["in.tsv"]);
    let sound = place.run("verify", &[]);
    assert_eq!(sound.code, Some(0), "{sound:?}");
    assert!(
        String::from_utf8_lossy(&sound.out).contains("2,000 records"),
        "{sound:?}"
    );
    let dump = place.run("dump", &["manifest", "--json"]);
    assert_eq!(dump.code, Some(0), "{dump:?}");
    let text = String::from_utf8_lossy(&dump.out).into_owned();
    let objects: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let part = objects
        .iter()
        .rfind(|object| object["item"] == "part")
        .unwrap();
    let table = part["table"].as_str().unwrap();
    let dump = place.run("dump", &["sstable", table, "--keys-only", "--limit", "2"]);
    let text = String::from_utf8_lossy(&dump.out).into_owned();
    assert!(
        text.contains("key=`key00000`") && text.contains("key=`key00001`"),
        "{text}"
    );
    assert!(!text.contains("value="), "{text}");
    let current = place.run("dump", &["current"]);
    assert!(String::from_utf8_lossy(&current.out).contains("MANIFEST-000001"));
    place.run("dump", &["commit-log"]).expect_code(0);
    place
        .run("dump", &["chunk", "99"])
        .complains(1, "no chunk 99");

    let offset = part["offset"].as_u64().unwrap() as usize;
    let file = place.path("db").join(part["file"].as_str().unwrap());
    let mut bytes = fs::read(&file).unwrap();
    bytes[offset + 100] ^= 1;
    fs::write(&file, bytes).unwrap();
    let bad = place.run("verify", &["--json"]);
    assert_eq!(bad.code, Some(5), "{bad:?}");
    let text = String::from_utf8_lossy(&bad.out).into_owned();
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["file"], part["file"]);
    assert_eq!(first["offset"], offset);
    assert_eq!(first["chunks"][0]["keyspace"], "default");
    let saved = place.path("saved");
    let into = ["--into", saved.to_str().unwrap()];
    let repaired = place.run("repair", &into);
    assert_eq!(repaired.code, Some(5), "{repaired:?}");
    let text = String::from_utf8_lossy(&repaired.out).into_owned();
    assert!(
        text.contains("lost: ") && text.contains("keys `key00000` to"),
        "{text}"
    );
    place.run("repair", &into).complains(1, "is not empty");
    let mut scan = evendb();
    scan.arg("get").arg(&saved).arg("key01999");
    let outcome = Outcome::of(scan.output().unwrap());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let mut nothing = evendb();
    nothing.arg("verify").arg(place.path("nowhere"));
    Outcome::of(nothing.output().unwrap()).complains(1, "no database");
}
