//! Records that come into a database from elsewhere: files without a named format, packed files,
//! and the databases of LevelDB and RocksDB.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;
#[path = "common/leveldb_writer.rs"]
mod leveldb_writer;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Outcome, Place, evendb, skipped::skipped};
use flate2::Compression;
use flate2::write::GzEncoder;
use leveldb_writer::{Database, Packing, entry};

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
}

const PEOPLE: &str = "name,age,town\nann,31,Oslo\nbob,40,Rome\n";

/// A file, its text, options, the told format, and the value of `ann`.
type Guessed = (
    &'static str,
    String,
    &'static [&'static str],
    &'static str,
    &'static str,
);

fn guessed_columns() -> Vec<Guessed> {
    let with = |delimiter| PEOPLE.replace(',', delimiter);
    vec![
        (
            "a.csv",
            PEOPLE.to_owned(),
            &["--key-columns", "name"][..],
            "read as csv, for the name ends with .csv",
            "31,Oslo",
        ),
        (
            "a.CSV",
            PEOPLE.to_owned(),
            &[],
            "Line 1, `name,age,town`, is taken as a record",
            "31,Oslo",
        ),
        (
            "people",
            PEOPLE.to_owned(),
            &["--skip-header"],
            "have 3 columns between `,`",
            "31,Oslo",
        ),
        (
            "a.csv",
            with(";"),
            &["--value-column", "age"],
            "3 columns between `;`",
            "31",
        ),
        (
            "a.txt",
            with("|"),
            &["--value-column", "age"],
            "3 columns between `|`",
            "31",
        ),
        (
            "a.tsv",
            with("\t"),
            &["--skip-header"],
            "read as tsv, for the name ends with .tsv",
            "31\tOslo",
        ),
        (
            "people",
            with("\t"),
            &["--skip-header"],
            "3 columns between tabs",
            "31\tOslo",
        ),
    ]
}

fn guessed_lines() -> Vec<Guessed> {
    let objects = "{\"name\":\"ann\",\"age\":31}\n{\"name\":\"bob\",\"age\":40}\n";
    let scanned = "{\"key\":\"ann\",\"value\":\"31\"}\n";
    let ldb = "0x616E6E ==> 0x3331\nKeys in range: 1\n";
    vec![
        (
            "a.jsonl",
            objects.to_owned(),
            &["--key-columns", "name", "--value-column", "age"],
            "read as jsonl",
            "31",
        ),
        (
            "people",
            objects.to_owned(),
            &["--key-columns", "name", "--value-column", "age"],
            "read as jsonl",
            "31",
        ),
        ("people", scanned.to_owned(), &[], "read as scan-json", "31"),
        ("people", ldb.to_owned(), &[], "read as ldb-hex", "31"),
        (
            "words.txt",
            "ann\nbob\n".to_owned(),
            &[],
            "each line is a key with an empty value",
            "",
        ),
        (
            "a.csv",
            "ann\nbob, c\n".to_owned(),
            &[],
            "unlike numbers of columns",
            "",
        ),
    ]
}

/// Each file once without a format in the arguments: the told format, and the record of `ann`.
#[test]
fn the_format_is_guessed_and_told() {
    for (file, text, options, told, value) in guessed_columns().into_iter().chain(guessed_lines()) {
        let place = Place::new();
        let arguments = [&[file], options].concat();
        place.file(file, &text);
        let outcome = place.run("import", &arguments);
        assert!(
            outcome.error.contains(told),
            "{file} {text}: {}",
            outcome.error
        );
        let bad = u64::from(text.contains(", c"));
        assert!(
            outcome.error.contains(&format!("; {bad} bad line")),
            "{}",
            outcome.error
        );
        place.run("get", &["ann"]).expect(0, format!("{value}\n"));
        // The same bytes through a pipe give the same text, except for the name.
        if !file.contains('.') {
            let arguments = [&["-", "--keyspace", "piped"], options].concat();
            place
                .run_with_input("import", &arguments, text.as_bytes())
                .complains(0, told);
            place
                .run("get", &["ann", "--keyspace", "piped"])
                .expect(0, format!("{value}\n"));
        }
        // The told options can be given.
        let verified = place.run("verify-import", &[&[file], options].concat());
        assert_eq!(verified.code, Some(0), "{file}: {}", verified.error);
    }
}

/// Files in which a stray quote would have hidden the columns.
#[test]
fn a_stray_quote_hides_no_columns_from_the_guess() {
    let place = Place::new();
    let others: String = (0..2000)
        .map(|number| format!("k{number},\"\",x\n"))
        .collect();
    place.file("a.csv", format!("a,\"stray\n{others}"));
    let outcome = place
        .run("import", &["a.csv"])
        .complains(3, "have 3 columns between `,`");
    let why = "line 1: the quote that opens field 2 is still open at the end of the input";
    assert!(outcome.error.contains(why), "{}", outcome.error);
    assert!(
        outcome.error.contains("imported 2,000 records"),
        "{}",
        outcome.error
    );
    assert!(
        outcome.error.ends_with("; 1 bad line\n"),
        "{}",
        outcome.error
    );
    let cut = "a,1\nb,2\nc,3\nd,\"4\n5\n";
    place
        .run_with_input("import", &["-"], cut.as_bytes())
        .complains(3, "2 columns between");
}

/// Input without lines of records is refused before anything is made, and the refusal names an
/// option or a tool.
#[test]
fn what_looks_wrong_is_refused() {
    let (objects, columns) = ("{\"a\":1}\n", "a,1\nb,2\n");
    for (file, bytes, words) in [
        (
            "a.csv",
            objects.as_bytes(),
            "the name ends with .csv, and the first lines are objects of JSON; --format",
        ),
        (
            "a.jsonl",
            columns.as_bytes(),
            "the first lines are no objects of JSON; --format",
        ),
        (
            "a.tsv",
            columns.as_bytes(),
            "2 columns between `,`; --format",
        ),
        ("a.json", b"[\n  {\"a\": 1}\n]\n", "`jq -c '.[]'`"),
        ("a.json", b"[{\"a\": 1}]\n", "`jq -c '.[]'`"),
        ("a", b"{\n  \"a\": 1\n}\n", "`jq -c .`"),
        (
            "a.jsonl",
            b"{\"one\":1,\"two\":2}\n",
            "--key-columns, names of its members; the first object has: one, two",
        ),
        ("a", b"PK\x03\x04abc", "a zip archive"),
        ("a", b"\xFD7zXZ\x00abc", "`xzcat`"),
        ("a", b"BZh91AY", "`bzcat`"),
        ("a", b"SQLite format 3\x00abc", "an SQLite database"),
        ("a", b"\xFF\xFEa\x00,\x001\x00\n\x00", "UTF-16"),
        ("a", b"one\0two\0", "`tr '\\0' '\\n'`"),
        ("a", b"o\0ne\ntw\0o\n", "bytes of 0"),
    ] {
        let place = Place::new();
        place.file(file, bytes);
        let error = place.run("import", &[file]).complains(2, words).error;
        assert!(error.contains(file), "{error}");
        assert!(!place.path("db").exists(), "{file}");
        place.run_with_input("ingest", &["-"], bytes);
    }
    // A given format is believed.
    let place = Place::new();
    place.file("a.csv", objects);
    place
        .run(
            "import",
            &["a.csv", "--format", "jsonl", "--key-columns", "a"],
        )
        .complains(0, "imported 1 record,");
    place.file("zeros", b"o\0ne\t1\n");
    place
        .run("import", &["zeros", "--format", "tsv"])
        .complains(0, "imported 1 record,");
}

#[test]
fn packed_input_is_unpacked() {
    let lines: String = (0..20_000)
        .map(|number| format!("key{number:05},{number}\n"))
        .collect();
    let halves = lines.split_at(lines.len() / 2);
    let twice = |pack: fn(&[u8]) -> Vec<u8>| {
        [pack(halves.0.as_bytes()), pack(halves.1.as_bytes())].concat()
    };
    let skippable = b"\x50\x2A\x4D\x18\x03\0\0\0abc";
    for (file, bytes, words) in [
        ("a.csv.gz", gzip(lines.as_bytes()), "unpacked by gzip"),
        ("a.csv.zst", zstd(lines.as_bytes()), "unpacked by Zstandard"),
        ("a.csv.gz", twice(gzip), "unpacked by gzip"),
        ("a.csv.zst", twice(zstd), "unpacked by Zstandard"),
        (
            "a.csv.zst",
            [
                &zstd(halves.0.as_bytes())[..],
                skippable,
                &zstd(halves.1.as_bytes()),
            ]
            .concat(),
            "Zstandard",
        ),
    ] {
        let place = Place::new();
        place.file(file, &bytes);
        let outcome = place.run("import", &[file]).complains(0, words);
        assert!(
            outcome.error.contains("imported 20,000 records"),
            "{}",
            outcome.error
        );
        place.run("get", &["key19999"]).expect(0, "19999\n");
        place
            .run_with_input("verify-import", &["-"], &bytes)
            .expect_code(0);
        // Cut and damaged: records before that count, and the end is an error. Nothing is dropped
        // in silence.
        for wrong in [&bytes[..bytes.len() - 9], &[&bytes[..], b"tail"].concat()] {
            let place = Place::new();
            let outcome = place.run_with_input("import", &["-", "--format", "csv"], wrong);
            assert_eq!(outcome.code, Some(1), "{file}: {outcome:?}");
        }
    }
}

#[test]
fn values_are_objects_of_the_columns_by_their_names() {
    let place = Place::new();
    let people = "id;name;note\n1;ann;\"says \"\"hi\"\"; often\"\n2;bob;\u{e9}\t\n";
    place.file("people.csv", people);
    let options = ["people.csv", "--key-columns", "id:u32", "--json-values"];
    place
        .run("import", &options)
        .complains(0, "imported 2 records");
    place.run("get", &["1"]).expect(
        0,
        "{\"name\":\"ann\",\"note\":\"says \\\"hi\\\"; often\"}\n",
    );
    place
        .run("get", &["2"])
        .expect(0, "{\"name\":\"bob\",\"note\":\"\u{e9}\\t\"}\n");
    place.run("verify-import", &options).expect_code(0);
    let tsv = b"id\tname\nx\tann\ny\tbob\tmore\nz\t\xFF\n";
    let options = ["-", "--format", "tsv", "--json-values", "--keyspace", "tsv"];
    let outcome = place
        .run_with_input("import", &options, tsv)
        .complains(3, "2 bad lines");
    assert!(
        outcome
            .error
            .contains("line 3: column 3 has no name in the header"),
        "{}",
        outcome.error
    );
    assert!(
        outcome.error.contains("line 4: column `name` is no UTF-8"),
        "{}",
        outcome.error
    );
    place
        .run("get", &["x", "--keyspace", "tsv"])
        .expect(0, "{\"name\":\"ann\"}\n");
    place
        .run_with_input("import", &options, b"a\tb\tb\n")
        .complains(2, "two columns `b`");
    let jsonl = [
        "-",
        "--format",
        "jsonl",
        "--key-columns",
        "a",
        "--json-values",
    ];
    place
        .run_with_input("import", &jsonl, b"{}")
        .complains(2, "are for tsv and csv");
}

#[test]
fn hexadecimal_digits_are_read_as_bytes() {
    let place = Place::new();
    place.file("in.tsv", "00ff\t0a\n6B\t\n0x01\t0xfe\nxy\t00\n00\t0\n");
    place
        .run("import", &["in.tsv", "--hex"])
        .complains(3, "imported 3 records");
    place
        .run("scan", &["--output", "hex"])
        .expect(0, "00ff\t0a\n01\tfe\n6b\t\n");
    let scanned = place.run("scan", &["--output", "hex"]).out;
    let copy = ["-", "--hex", "--keyspace", "copy"];
    place
        .run_with_input("import", &copy, &scanned)
        .complains(0, "imported 3 records");
    place
        .run("scan", &["--output", "hex", "--keyspace", "copy"])
        .expect(0, &scanned);
    let typed = ["-", "--key-columns", "1:hex,2:u8", "--keyspace", "typed"];
    place
        .run_with_input("import", &typed, b"00ff\t7\tv\n")
        .complains(0, "key types `bytes,u8`");
    place
        .run("get", &["00ff,7", "--keyspace", "typed"])
        .expect(0, "v\n");
    place
        .run_with_input("import", &["-", "--hex", "--key-columns", "1,2"], b"")
        .complains(2, "--hex is for one");
}

#[test]
fn times_are_read_as_the_calendar_writes_them() {
    let place = Place::new();
    let events = "at,what\n2026-01-31T12:30:05.25Z,a\n2026-01-31T13:30:05+01:00,b\n2026-02-30,c\n";
    place.file("events.csv", events);
    let options = [
        "events.csv",
        "--key-columns",
        "at:time",
        "--value-column",
        "what",
    ];
    place
        .run("import", &options)
        .complains(3, "line 4: `2026-02-30` is no time");
    place.run("get", &["1769862605.25"]).expect(0, "a\n");
    place.run("get", &["2026-01-31 12:30:05"]).expect(0, "b\n");
    place
        .run(
            "put",
            &["--until", "2999-01-01", "2026-01-31T12:30:06Z", "c"],
        )
        .expect_code(0);
    place.run("get", &["1769862606"]).expect(0, "c\n");
}

#[test]
fn records_that_replaced_an_earlier_one_are_counted() {
    let place = Place::new();
    place.file("in.tsv", "a\t1\nb\t2\na\t3\na\t4\nc\t5\nb\t6\n");
    let words = "imported 6 records, ";
    let outcome = place.run("import", &["in.tsv"]).complains(0, words);
    assert!(
        outcome
            .error
            .contains("; 0 bad lines, 3 records replaced an earlier one of the same key"),
        "{outcome:?}"
    );
    place.run("get", &["a"]).expect(0, "4\n");
    // Earlier records are not of this input.
    place.file("in.tsv", "a\t7\n");
    let outcome = place
        .run("import", &["in.tsv"])
        .complains(0, "imported 1 record, ");
    assert!(!outcome.error.contains("replaced"), "{}", outcome.error);
    place.file("in.csv", "a,1\nb\nc,1\nd\n");
    place
        .run("import", &["in.csv"])
        .complains(3, "; 2 bad lines");
    place.file("in.csv", "a,1\nb\nc,1\n");
    let outcome = place.run("import", &["in.csv"]);
    assert!(
        outcome.error.ends_with("; 1 bad line\n"),
        "{}",
        outcome.error
    );
}

/// The text that `ldb` of RocksDB 7.8 prints, and text that no such tool prints.
#[test]
fn the_text_of_rocksdb_s_tool_is_read() {
    let place = Place::new();
    let options = ["-", "--format", "ldb-hex"];
    let dump = "0x00FF ==> 0xFE0A\n0x6B2032 ==> 0x\n0x ==> 0x31\nKeys in range: 3\n";
    place
        .run_with_input("import", &options, dump.as_bytes())
        .complains(0, "imported 3 records");
    place
        .run("scan", &["--output", "hex"])
        .expect(0, "\t31\n00ff\tfe0a\n6b2032\t\n");
    let scan = dump
        .replace(" ==> ", " : ")
        .replace("Keys in range: 3\n", "");
    place
        .run_with_input("verify-import", &options, scan.as_bytes())
        .expect_code(0);
    let wrong = "0x00 ==> 0x1\nkey ==> value\n0x01 ==> 0xzz\n0x02 ==> 0x02\nKeys in range: 7\n";
    let outcome = place
        .run_with_input("import", &options, wrong.as_bytes())
        .complains(3, "4 bad lines");
    assert!(
        outcome
            .error
            .contains("line 5: `ldb` counted 7 keys, and there are 4 lines before"),
        "{}",
        outcome.error
    );
}

fn leveldb_at(directory: &Path) {
    let put = |key: &str, sequence, value: &str| entry(key, sequence, Some(value.as_bytes()));
    leveldb_writer::write(
        directory,
        &Database {
            tables: &[(
                1,
                vec![
                    put("ann", 1, "30"),
                    put("bob", 2, "40"),
                    put("eve", 3, "50"),
                ],
            )],
            log: &[vec![put("ann", 4, "31"), entry("bob", 5, None)]],
            packing: Packing::Snappy,
            comparator: "leveldb.BytewiseComparator",
        },
    );
}

/// The commands whose help says that they take a database.
fn commands_of_databases() -> Vec<String> {
    let help = |arguments: &[&str]| {
        let output = evendb().args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let all = help(&["--help"]);
    let listed = all
        .split("Commands:")
        .nth(1)
        .unwrap()
        .split("Options:")
        .next()
        .unwrap();
    let names = listed
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let takes_one = |name: &&str| *name != "help" && help(&[name, "--help"]).contains("<DB>");
    let found: Vec<String> = names.filter(takes_one).map(str::to_owned).collect();
    assert!(found.len() > 15, "{found:?}");
    found
}

/// Every command that takes a database names another store's database, and says how it is brought
/// in.
#[test]
fn every_command_names_a_database_of_another_store() {
    let place = Place::new();
    leveldb_at(&place.path("level"));
    std::fs::create_dir(place.path("rocks")).unwrap();
    place.file("rocks/CURRENT", "MANIFEST-000005\n");
    place.file("rocks/IDENTITY", "x");
    place.file("empty", "");
    place.file("key", "00".repeat(32));
    let commands = [
        ("import", &["empty"][..]),
        ("ingest", &["empty"]),
        ("export", &["out"]),
        ("get", &["k"]),
        ("put", &["k", "v"]),
        ("merge", &["k", "v"]),
        ("delete", &["k"]),
        ("pop", &[]),
        ("scan", &[]),
        ("size", &[]),
        ("keyspaces", &[]),
        ("changes", &[]),
        ("stats", &[]),
        ("stats", &["--watch"]),
        ("compact", &[]),
        ("verify", &[]),
        ("dump", &["manifest"]),
        ("dump", &["sstable", "000005.ldb"]),
        ("repair", &["--into", "out"]),
        ("backup", &["out"]),
        ("fork", &["out"]),
        (
            "rotate-key",
            &["--key-file", "key", "--new-key-file", "key"],
        ),
        ("verify-import", &["empty"]),
    ];
    for command in commands_of_databases() {
        assert!(
            commands.iter().any(|(listed, _)| *listed == command),
            "{command}"
        );
    }
    for (command, more) in commands {
        for (directory, is, way) in [
            ("level", "is a LevelDB database", "evendb import DB level"),
            (
                "rocks",
                "is a RocksDB database",
                "ldb --db=rocks dump --hex | evendb import DB - --format ldb-hex",
            ),
        ] {
            let mut run = evendb();
            run.arg(command)
                .arg(directory)
                .args(more)
                .current_dir(place.0.path());
            let outcome = Outcome::of(run.output().unwrap());
            let refused_its_arguments = outcome.code == Some(2) && outcome.error.contains("Usage:");
            assert!(!refused_its_arguments, "{command}: {}", outcome.error);
            let outcome = outcome.complains(1, is);
            assert!(outcome.error.contains(way), "{command}: {}", outcome.error);
            assert!(
                !outcome.error.contains("damage"),
                "{command}: {}",
                outcome.error
            );
        }
    }
    // An input of RocksDB cannot be read, and is named too.
    for command in ["import", "ingest", "verify-import"] {
        place
            .run(command, &["rocks"])
            .complains(1, "is a RocksDB database");
    }
}

#[test]
fn a_leveldb_database_is_imported_ingested_and_verified() {
    let place = Place::new();
    leveldb_at(&place.path("level"));
    place
        .run("import", &["level"])
        .complains(0, "imported 2 records");
    place
        .run("scan", &["--output", "tsv"])
        .expect(0, "ann\t31\neve\t50\n");
    place.run("verify-import", &["level"]).complains(0, "");
    place
        .run("ingest", &["level", "--keyspace", "ingested"])
        .complains(0, "ingested 2 records");
    place
        .run("scan", &["--keyspace", "ingested", "--count"])
        .expect(0, "2\n");
    place
        .run("import", &["level", "--key-columns", "1:u64"])
        .complains(2, "leave out --format");
    // Damage in it is told as its own, by the file. Records that were imported before are told too.
    let table = place.path("level/000005.ldb");
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[10] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    let outcome = place
        .run("import", &["level"])
        .complains(5, "the LevelDB database is damaged");
    assert!(
        outcome
            .error
            .contains("000005.ldb, offset 0: a block's checksum"),
        "{}",
        outcome.error
    );
    place.run("scan", &["--count"]).expect(0, "2\n");
}

/// A database that LevelDB itself wrote, if Python has LevelDB.
#[test]
fn what_leveldb_itself_wrote_is_imported() {
    let script = "
import sys
try:
    import plyvel
except ImportError:
    sys.exit(77)
db = plyvel.DB(sys.argv[1], create_if_missing=True, write_buffer_size=65536, max_file_size=65536)
expected = {}
for i in range(30000):
    key, value = b'key%06d' % (i * 7919 % 20011), b'value %d ' % i * (i % 7)
    db.put(key, value)
    expected[key] = value
    if i % 5 == 0:
        key = b'key%06d' % (i * 31 % 20011)
        db.delete(key)
        expected.pop(key, None)
db.put(b'', b'empty')
expected[b''] = b'empty'
with db.write_batch() as batch:
    batch.put(b'zz\\x00\\xff', bytes(range(256)) * 400)
expected[b'zz\\x00\\xff'] = bytes(range(256)) * 400
held = 'held' in sys.argv
if not held:
    db.close()
with open(sys.argv[2], 'w') as out:
    for key in sorted(expected):
        out.write('%s\\t%s\\n' % (key.hex(), expected[key].hex()))
if held:
    print('open', flush=True)
    sys.stdin.read()
";
    let place = Place::new();
    let python = || {
        let mut python = Command::new(std::env::var_os("PYTHON").unwrap_or("python3".into()));
        python
            .args(["-c", script, "level", "expected"])
            .current_dir(place.0.path());
        python
    };
    let output = match python().output() {
        Ok(output) if output.status.code() != Some(77) => output,
        _ => {
            return skipped(
                "a database that LevelDB itself wrote",
                "there is no Python with plyvel",
            );
        }
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    place.run("import", &["level"]).complains(0, " records, ");
    let expected = std::fs::read(place.path("expected")).unwrap();
    let found = place.run("scan", &["--output", "hex"]).out;
    assert!(found == expected, "the records differ");
    // LevelDB has it open here.
    let mut open = python()
        .arg("held")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(open.stdout.as_mut().unwrap()),
        &mut line,
    )
    .unwrap();
    assert_eq!(line, "open\n");
    place
        .run("import", &["level"])
        .complains(1, "another process has the LevelDB database level open");
    drop(open.stdin.take());
    open.wait().unwrap();
}

/// The output of RocksDB's own tool for a database that it wrote.
#[test]
fn what_rocksdb_s_tool_prints_is_imported() {
    let place = Place::new();
    let ldb = |arguments: &[&str]| {
        let mut ldb = Command::new("ldb");
        ldb.arg("--db=rocks")
            .args(arguments)
            .current_dir(place.0.path())
            .output()
    };
    let Ok(created) = ldb(&["--create_if_missing", "put", "k1", "v1"]) else {
        return skipped("a database that RocksDB itself wrote", "there is no ldb");
    };
    assert!(created.status.success(), "{created:?}");
    for (key, value) in [("0x00FF", "0xFE0A"), ("0x6B2032", "0x")] {
        ldb(&["--hex", "put", key, value]).unwrap();
    }
    for (keyspace, dump) in [("dump", "dump"), ("scan", "scan")] {
        let printed = ldb(&[dump, "--hex"]).unwrap().stdout;
        let options = ["-", "--format", "ldb-hex", "--keyspace", keyspace];
        place
            .run_with_input("import", &options, &printed)
            .complains(0, "imported 3 records");
        let found = place.run("scan", &["--keyspace", keyspace, "--output", "hex"]);
        found.expect(0, "00ff\tfe0a\n6b2032\t\n6b31\t7631\n");
    }
    place
        .run("import", &["rocks"])
        .complains(1, "rocks is a RocksDB database");
}
