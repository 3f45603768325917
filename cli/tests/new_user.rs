//! Mistakes of a new user: backups that are taken for databases, types of keys that get lost,
//! remains of a failed call, figures and messages that mislead, and files of columns that are not
//! read as meant.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;

use common::{Outcome, Place, evendb};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn run(place: &Place, arguments: &[&str]) -> Outcome {
    let mut command = evendb();
    command.args(arguments).current_dir(place.0.path());
    Outcome::of(command.output().unwrap())
}

/// All files in a directory.
fn all_in(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(all_in(&path)),
            // The lock may name the last process that had it.
            false if path.ends_with("LOCK") => drop(found.insert(path, Vec::new())),
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    found
}

#[test]
fn a_backup_and_a_directory_of_backups_are_not_opened_for_writing_and_restore_is_named() {
    let place = Place::new();
    place.file("in.tsv", "a\t2\n");
    for value in ["1", "2"] {
        place.run("put", &["a", value]).expect(0, "");
        run(&place, &["backup", "db", "backups"]).expect_code(0);
    }
    std::os::unix::fs::symlink("backups/000002", place.path("link")).unwrap();
    let before = all_in(&place.path("backups"));
    for at in [
        "backups/000002",
        "link",
        "backups",
        "backups/../backups/000001/",
    ] {
        let commands: [&[&str]; 8] = [
            &["put", at, "a", "3"],
            &["delete", at, "a"],
            &["import", at, "in.tsv"],
            &["ingest", at, "in.tsv"],
            &["keyspaces", at, "--keyspace", "x", "--row-cache", "true"],
            &["compact", at],
            &["backup", at, "others"],
            &["pop", at],
        ];
        for command in commands {
            let outcome = run(&place, command).complains(2, "evendb restore ");
            assert!(outcome.error.contains(at), "{command:?}: {outcome:?}");
        }
    }
    assert!(all_in(&place.path("backups")) == before);
    assert!(!place.path("others").exists());
    run(&place, &["get", "backups/000001", "a"]).expect(0, "1\n");
    run(&place, &["backups", "backups", "--verify"]).expect_code(0);
    run(&place, &["restore", "backups", "new"]).expect(0, "");
    run(&place, &["put", "new", "a", "3"]).expect(0, "");
}

/// A place with a keyspace whose keys have two columns, and its export.
fn exported() -> Place {
    let place = Place::new();
    place.file("in.csv", "app7,7,x\napp7,10,y\n");
    let import = ["in.csv", "--key-columns", "1,2:u64"];
    place.run("import", &import).complains(0, "2 records");
    run(&place, &["export", "db", "files"]).expect(0, "");
    place
}

#[test]
fn an_export_carries_the_key_types_and_an_ingest_restores_them() {
    let place = exported();
    run(
        &place,
        &["ingest", "other", "files", "--keyspace", "events"],
    )
    .complains(0, "remembers the key types `str,u64`");
    let scanned = run(&place, &["scan", "other", "--keyspace", "events"]);
    scanned.expect(0, "app7\t7\tx\napp7\t10\ty\n");
    run(&place, &["get", "other", "app7,7", "--keyspace", "events"]).expect(0, "x\n");
    // The same types again change nothing, and an option that gives them is right.
    let again = ["ingest", "other", "files", "--keyspace", "events"];
    let told = run(&place, &[&again[..], &["--key-types", "str,u64"]].concat());
    assert!(!told.error.contains("remembers"), "{told:?}");
    told.expect_code(0);
}

#[test]
fn an_ingest_of_an_export_refuses_other_key_types_by_name() {
    let place = exported();
    let ingest =
        |into: &str, more: &[&str]| run(&place, &[&["ingest", into, "files"][..], more].concat());
    ingest("new", &["--key-types", "str,i64"]).complains(
        2,
        "the keys of the export have the types `str,u64`, not `str,i64`",
    );
    ingest("new", &["--format", "csv"]).complains(2, "leave out --format");
    ingest("new", &["--skip-header"]).complains(2, "only --key-types goes with it");
    assert!(!place.path("new").exists());
    run(&place, &["put", "typed", "-5", "a", "--key-types", "i64"]).expect_code(0);
    ingest("typed", &[]).complains(2, "have the types `i64`, not `str,u64`");
    run(&place, &["put", "plain", "a text", "b"]).expect_code(0);
    ingest("plain", &[]).complains(2, "has keys that have not the types `str,u64`, as `a text`");
    for name in ["typed", "plain"] {
        run(&place, &["scan", name, "--count"]).expect(0, "1\n");
    }
    ingest("plain", &["--key-types", "raw"]).expect_code(0);
    run(&place, &["scan", "plain", "--count"]).expect(0, "3\n");
}

#[test]
fn key_types_are_given_to_an_export_that_has_none() {
    let place = exported();
    let typed = ["--key-types", "str,u64"];
    // The key of a program, which notes no types.
    let key = "6170703900010000000000000001";
    run(&place, &["put", "untyped", key, "z", "--hex"]).expect(0, "");
    run(&place, &["export", "untyped", "of it"]).expect(0, "");
    run(&place, &["ingest", "db", "of it"])
        .complains(2, "--key-types str,u64 says that they have the same");
    run(&place, &[&["ingest", "db", "of it"][..], &typed].concat()).expect_code(0);
    run(&place, &["get", "db", "app9,1"]).expect(0, "z\n");
    run(&place, &[&["ingest", "new", "of it"][..], &typed].concat())
        .complains(0, "remembers the key types `str,u64`");
    run(&place, &["get", "new", "app9,1"]).expect(0, "z\n");
}

/// A place with a database whose tables are damaged.
fn damaged() -> Place {
    let place = Place::new();
    let line = |n: u32| format!("k{n:05}\t{}\n", "v".repeat(90));
    place.file("in.tsv", (0..2000).map(line).collect::<String>());
    run(&place, &["ingest", "db", "in.tsv"]).expect_code(0);
    let tables = fs::read_dir(place.path("db")).unwrap();
    let tables = tables.map(|entry| entry.unwrap().path());
    for path in tables.filter(|path| path.extension().is_some_and(|end| end == "sst")) {
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    place
}

#[test]
fn a_failed_backup_or_export_leaves_no_directory_that_it_made_and_none_that_is_not_as_it_was() {
    let place = damaged();
    fs::create_dir(place.path("empty")).unwrap();
    for command in ["backup", "export"] {
        for at in ["new", "around/new", "empty"] {
            run(&place, &[command, "db", at]).expect_code(5);
        }
        assert!(!place.path("new").exists(), "{command}");
        assert!(!place.path("around").exists(), "{command}");
        assert_eq!(all_in(&place.path("empty")).len(), 0, "{command}");
        assert!(place.path("empty").is_dir());
    }
    // If there were backups, they and their lock stay.
    run(&place, &["put", "sound", "a", "1"]).expect(0, "");
    run(&place, &["backup", "sound", "backups"]).expect_code(0);
    let before = all_in(&place.path("backups"));
    run(&place, &["backup", "db", "backups"]).expect_code(5);
    assert!(all_in(&place.path("backups")) == before);
}

#[test]
fn a_refused_ingest_import_or_put_leaves_no_database_and_no_keyspace_that_it_made() {
    let place = Place::new();
    place.file("unsorted.tsv", "b\t1\na\t2\n");
    place.file("header.csv", "a,b\n1,2\n");
    place.file("cut.gz", &b"\x1f\x8b\x08\0\0\0\0\0\0\x03"[..]);
    fs::create_dir(place.path("no export")).unwrap();
    let long = "k".repeat(66_000);
    let failing: [&[&str]; 5] = [
        &["ingest", "around/db", "unsorted.tsv"],
        &["ingest", "around/db", "no export"],
        &["import", "around/db", "header.csv", "--key-columns", "c"],
        &["import", "around/db", "cut.gz", "--format", "tsv"],
        &["put", "around/db", &long, "v"],
    ];
    for layout in ["chunks", "guards"] {
        for command in failing {
            let outcome = run(&place, &[command, &["--layout", layout]].concat());
            assert!(matches!(outcome.code, Some(1 | 2)), "{outcome:?}");
            assert!(!place.path("around").exists(), "{command:?}");
        }
    }
    for layout in ["chunks", "guards"] {
        run(&place, &["put", layout, "a", "1", "--layout", layout]).expect_code(0);
        let put = ["put", layout, &long, "v", "--keyspace", "x"];
        run(&place, &put).complains(1, "removed keyspace `x` again");
        let listed = run(&place, &["keyspaces", layout]).text(0);
        assert_eq!(listed.lines().count(), 1, "{listed}");
        run(&place, &["get", layout, "a"]).expect(0, "1\n");
    }
    // Earlier objects stay, even empty ones, and so do records that were written before a failure.
    run(&place, &["put", "chunks", "b", "1", "--keyspace", "y"]).expect_code(0);
    run(&place, &["delete", "chunks", "b", "--keyspace", "y"]).expect_code(0);
    run(&place, &["put", "chunks", &long, "v", "--keyspace", "y"]).expect_code(1);
    let listed = run(&place, &["keyspaces", "chunks"]).text(0);
    assert!(listed.contains("\ny\t"), "{listed}");
}

#[test]
fn a_small_part_of_a_keyspace_is_counted_and_a_whole_one_is_about_so_large() {
    let place = Place::new();
    let line = |n: u32| format!("k{n:05}\t{}\n", "v".repeat(94));
    place.file("in.tsv", (0..5000).map(line).collect::<String>());
    run(&place, &["ingest", "db", "in.tsv"]).expect_code(0);
    let import = ["import", "guards", "in.tsv", "--layout", "guards"];
    run(&place, &import).expect_code(0);
    for db in ["db", "guards"] {
        let size = |more: &[&str]| run(&place, &[&["size", db][..], more].concat()).text(0);
        for (prefix, records, bytes) in [
            ("k00", 1000, "97.66 KiB"),
            ("k0012", 10, "1000 B"),
            ("k00123", 1, "100 B"),
            ("x", 0, "0 B"),
        ] {
            let text = size(&["--prefix", prefix]);
            let unit = if records == 1 { "record" } else { "records" };
            let records = if records == 1000 {
                "1,000".to_owned()
            } else {
                records.to_string()
            };
            let start = format!("{records} {unit}, {bytes} of keys and values, about ");
            assert!(text.starts_with(&start), "{db}: {text}");
        }
        let json = size(&["--prefix", "k0012", "--json"]);
        assert!(json.contains("\"exact\":true"), "{json}");
        assert!(json.contains("\"records\":10"), "{json}");
        assert!(size(&["--json"]).contains("\"exact\":false"));
        assert!(size(&[]).starts_with("about "), "{}", size(&[]));
    }
}

#[test]
fn messages_name_the_option_of_the_command_too() {
    let place = Place::new();
    place.run("put", &["a", "1"]).expect(0, "");
    let make = ["--keyspace", "hits", "--compression", "lz4"];
    place.run("keyspaces", &make).expect(0, "");
    let other = ["--keyspace", "hits", "--merge", "add-u64"];
    place.run("keyspaces", &other).complains(2, "--change");
    place
        .run("changes", &["--since", "00"])
        .complains(2, "`evendb changes --position`");
    place
        .run("merge", &["a", "1", "--keyspace", "hits"])
        .complains(
            2,
            "`evendb keyspaces DB --keyspace NAME --merge OPERATOR --change`",
        );
}

/// The texts in quotes of a source file, without its tests and comments.
fn texts_of(source: &str) -> Vec<String> {
    let source = source.split("mod tests {").next().unwrap();
    let lines = source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let source: Vec<char> = lines.collect::<Vec<_>>().join("\n").chars().collect();
    let (mut texts, mut text, mut at) = (Vec::new(), None::<String>, 0);
    while at < source.len() {
        let letter = source[at];
        at += 1;
        match (&mut text, letter) {
            // The character in quotes does not begin a text.
            (None, '\'') if source.get(at..at + 2) == Some(&['"', '\'']) => at += 2,
            (None, '"') => text = Some(String::new()),
            (None, _) => {}
            (Some(_), '"') => texts.extend(text.take()),
            (Some(text), '\\') if source.get(at) == Some(&'\n') => {
                while source.get(at).is_some_and(|letter| letter.is_whitespace()) {
                    at += 1;
                }
                let _ = text;
            }
            (Some(text), '\\') => {
                text.push(' ');
                at += 1;
            }
            (Some(text), other) => text.push(other),
        }
    }
    texts
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    found
}

/// A message of the store that names something that only a program has must also name the command's
/// way.
#[test]
fn a_message_that_names_rust_names_the_command_too_or_never_reaches_it() {
    // The command never meets these: it has its own words for them, or calls nothing that returns
    // them.
    let elsewhere = [
        "set them by set_options",
        "open it without read_only to write",
        "create_if_missing is off",
        "is refreshed (Options::open_beside_writer)",
        "go on from a newer moment (Db::refresh)",
        "swap_keyspaces exchanges names",
        "open it without error_if_exists",
        "say so by TraceOptions::of_encrypted",
        "wait longer (lock_timeout)",
        // These are no messages.
        "iterators, cursors, multi_gets",
        "limited by record_bytes_max",
        "pointers from `into_raw`",
        "sync_file_range",
    ];
    let is_rust = |text: &str| {
        let mut depth = 0;
        let plain: String = text
            .chars()
            .filter(|&letter| {
                depth += i32::from(letter == '{');
                let is_outside = depth == 0;
                depth -= i32::from(letter == '}');
                is_outside
            })
            .collect();
        let word = |letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == ':');
        plain.contains(' ')
            && plain.split(word).any(|word| {
                let inner = word.trim_matches([':', '_']);
                inner.contains("::")
                    || inner.contains('_') && inner.starts_with(|c: char| c.is_ascii_lowercase())
            })
    };
    let store = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store");
    let mut met = 0;
    for dir in ["evendb/src", "base/src", "storage/src"] {
        for path in sources(&store.join(dir)) {
            let inside = path.strip_prefix(&store).unwrap();
            if inside.to_string_lossy().contains("test") {
                continue;
            }
            for text in texts_of(&fs::read_to_string(&path).unwrap()) {
                if !is_rust(&text) || elsewhere.iter().any(|known| text.contains(known)) {
                    continue;
                }
                met += 1;
                let names_command = text.contains("--") || text.contains("`evendb");
                assert!(names_command, "{}: {text}", path.display());
            }
        }
    }
    assert!(met > 8, "{met} messages");
}

#[test]
fn key_types_that_the_keys_of_a_keyspace_have_not_are_refused_and_others_are_told() {
    let place = Place::new();
    place.file("in.csv", "app7,7,x\n");
    place.run("put", &["some text", "1"]).expect(0, "");
    let import = ["in.csv", "--key-columns", "1,2:u64"];
    let why = "has keys that have not the types `str,u64`, as `some text`";
    place.run("import", &import).complains(2, why);
    place
        .run("put", &["app7,8", "x", "--key-types", "str,u64"])
        .complains(2, why);
    place.run("scan", &["--count"]).expect(0, "1\n");
    // Texts of one column are their bytes.
    place
        .run("put", &["b", "2", "--key-types", "str"])
        .expect(0, "");
    // Keys of a program, which notes no types.
    let key = [
        "6170703700010000000000000001",
        "1",
        "--hex",
        "--keyspace",
        "of a program",
    ];
    place.run("put", &key).expect(0, "");
    let typed = [
        "app7,8",
        "x",
        "--key-types",
        "str,u64",
        "--keyspace",
        "of a program",
    ];
    place.run("put", &typed).complains(
        0,
        "remembers no key types: `str,u64` holds for this command",
    );
    let into = [&import[..], &["--keyspace", "of a program"]].concat();
    place
        .run("import", &into)
        .complains(0, "remembers the key types `str,u64`");
}

#[test]
fn a_keyspace_that_is_made_is_told() {
    let place = Place::new();
    place.file("in.tsv", "a\t1\n");
    for layout in ["chunks", "guards"] {
        let put = ["put", layout, "a", "1", "--layout", layout];
        let made = |outcome: Outcome| outcome.error.contains("made keyspace `mispelt`");
        assert!(!made(run(&place, &put)));
        let mispelt = [&put[..], &["--keyspace", "mispelt"]].concat();
        assert!(made(run(&place, &mispelt)), "{layout}");
        assert!(!made(run(&place, &mispelt)), "{layout}");
        let import = ["import", layout, "in.tsv", "--keyspace", "other"];
        run(&place, &import).complains(0, "made keyspace `other`");
    }
}

#[test]
fn a_header_that_is_taken_as_a_record_is_told_whatever_the_columns_hold() {
    let place = Place::new();
    let told = |name: &str, text: &str, more: &[&str]| {
        place.file(name, text);
        let import = [&["import", "db", name][..], more].concat();
        let outcome = run(&place, &import);
        // An empty name is no key.
        assert!(matches!(outcome.code, Some(0 | 3)), "{outcome:?}");
        outcome.error.contains("is taken as a record")
    };
    for text in [
        "name,city\nada,London\nbob,Paris\n",
        "name,age\nada,31\nbob,\neve,40\n",
        ",name,age\n0,ada,31\n1,bob,40\n",
        "Stra\u{df}e,Ort\nWeg 1,Ulm\nWeg 2,Bonn\n",
        "who,mail\nada,ada@x.org\nbob,bob@y.org\n",
        "who,born (UTC)\nada,1815-12-10\nbob,1700-01-01\n",
        "id\n17\n18\n",
        "# of today\nwho,age\nada,31\n",
    ] {
        assert!(told("in.csv", text, &[]), "{text}");
        assert!(told("in.csv", text, &["--format", "csv"]), "{text}");
        let tsv = text.replace(',', "\t");
        assert!(told("in.tsv", &tsv, &["--format", "tsv"]), "{text}");
        assert!(!told("in.csv", text, &["--skip-header"]), "{text}");
    }
    for text in [
        "ada,London\nbob,Paris\n",
        "usr,dir\nusr/bin,dir\nusr/lib,dir\n",
        "README,5\nLICENSE,6\n",
        "17,name\n18,city\n",
        "just one line,of text\n",
    ] {
        assert!(!told("in.csv", text, &[]), "{text}");
        assert!(!told("in.csv", text, &["--format", "csv"]), "{text}");
    }
}

#[test]
fn lines_that_end_with_carriage_returns_alone_are_refused_by_name() {
    let place = Place::new();
    for (name, text) in [
        ("mac.csv", "id,v\r1,a\r2,b\r"),
        ("mac.tsv", "1\ta\r2\tb"),
        ("mac", "{\"k\":1}\r{\"k\":2}\r"),
    ] {
        place.file(name, text);
        for format in [&[][..], &["--format", "csv"], &["--format", "scan-json"]] {
            let import = [&["import", "new", name][..], format].concat();
            run(&place, &import).complains(2, "end with carriage returns alone");
            assert!(!place.path("new").exists());
        }
        let read = ["-", "--format", "csv"];
        place
            .run_with_input("import", &read, text.as_bytes())
            .complains(
                2,
                "standard input: its lines end with carriage returns alone",
            );
    }
    place.file("dos.csv", "1,a\r\n2,b\r\n");
    run(&place, &["import", "new", "dos.csv"]).complains(0, "2 records");
    place.file("one.csv", "1,a\r");
    run(&place, &["import", "new", "one.csv"]).complains(0, "1 record,");
}

#[test]
fn a_format_whose_columns_stand_between_other_marks_hints_at_the_delimiter() {
    let place = Place::new();
    let told = |text: &str, more: &[&str]| {
        place.file("in", text);
        run(&place, &[&["import", "db", "in"][..], more].concat())
    };
    let csv = ["--format", "csv"];
    told("1;a;x\n2;b;y\n", &csv).complains(0, "3 columns with --delimiter ';'");
    told("1\ta\n2\tb\n", &csv).complains(0, "2 columns with --delimiter tab");
    told("1,a\n2,b\n", &["--format", "tsv"]).complains(0, "2 columns with --delimiter ','");
    for quiet in [
        told("1,a;b\n2,c;d\n", &csv),
        told("1\n2\n", &csv),
        told("1;a\n2;b\n", &["--format", "csv", "--delimiter", ";"]),
    ] {
        assert!(!quiet.error.contains("--delimiter"), "{quiet:?}");
    }
}

#[test]
fn a_key_without_its_last_columns_hints_at_the_prefix() {
    let place = exported();
    for command in ["get", "delete"] {
        place.run(command, &["app7"]).complains(
            2,
            "--prefix app7 of scan and delete takes all keys that begin with it",
        );
    }
    place.run("scan", &["--count"]).expect(0, "2\n");
    place.run("delete", &["--prefix", "app7"]).expect(0, "");
    place.run("scan", &["--count"]).expect(0, "0\n");
}
