//! The command's text forms: imported text keeps its digits and bytes, printed text is read back,
//! and the keyspace remembers how its keys are made.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]
#![expect(clippy::big_endian_bytes, reason = "the oracle makes keys of its own")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{Place, Terminal, evendb};
use evendb::Options;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

const JSONL: [&str; 6] = [
    "--format",
    "jsonl",
    "--key-columns",
    "k",
    "--value-column",
    "v",
];

fn with<'a>(first: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [first, more].concat()
}

#[test]
fn json_numbers_keep_their_digits() {
    let place = Place::new();
    let numbers = [
        "12345678901234567890123",
        "12345678901234567890124",
        "1.10",
        "1.1",
        "1e400",
        "-0",
    ];
    let lines = numbers.map(|number| format!("{{\"k\":{number},\"v\":{number}}}\n"));
    place.file("in.jsonl", lines.concat());
    let arguments = with(&["in.jsonl"], &JSONL);
    place
        .run("import", &arguments)
        .complains(0, "imported 6 records");
    for number in numbers {
        // Digits may begin with a sign.
        let outcome = place.run("get", &["--", number]);
        outcome.expect(0, format!("{number}\n"));
    }
    place.run("verify-import", &arguments).expect_code(0);
    let other = lines.concat().replace("0123", "0122");
    place.file("in.jsonl", other);
    place.run("verify-import", &arguments).expect_code(1);
}

#[test]
fn what_is_no_key_is_a_bad_line() {
    let place = Place::new();
    let keys = [
        "null",
        "true",
        "false",
        "[1]",
        "{}",
        "\"\"",
        "1,\"k\":2",
        "\"good\"",
    ];
    let lines = keys.map(|key| format!("{{\"k\":{key},\"v\":1}}\n"));
    let input = lines.concat() + "{\"v\":1}\n";
    let arguments = with(&["-"], &JSONL);
    let outcome = place.run_with_input("import", &arguments, input.as_bytes());
    for words in [
        "imported 1 record,",
        "8 bad lines",
        "line 1: member `k` is null",
        "line 2: member `k` is a boolean",
        "line 4: member `k` is an array",
        "line 5: member `k` is an object",
        "line 7: member `k` is there twice",
        "line 9: there is no member `k`",
    ] {
        assert!(
            outcome.error.contains(words),
            "`{words}` in {}",
            outcome.error
        );
    }
    outcome.expect_code(3);
    place.run("scan", &[]).expect(0, "good\t1\n");
}

#[test]
fn marks_and_returns_of_other_systems_do_not_matter() {
    for (format, plain) in [
        ("csv", "name,size\na,1\n\n\"b\nc\",2\n"),
        ("tsv", "name\tsize\na\t1\n\nb\t2\n"),
        (
            "jsonl",
            "{\"name\":\"a\",\"size\":1}\n\n{\"name\":\"b\",\"size\":2}\n",
        ),
    ] {
        let arguments = [
            "-",
            "--format",
            format,
            "--key-columns",
            "name",
            "--value-column",
            "size",
        ];
        let place = Place::new();
        // The line feed in quotes belongs to the data.
        let other = plain.replace('\n', "\r\n").replace("b\r\nc", "b\nc");
        let outcome = place.run_with_input("import", &arguments, other.as_bytes());
        outcome.complains(0, "imported 2 records");
        let marked = format!("\u{feff}{other}");
        place
            .run_with_input("import", &arguments, marked.as_bytes())
            .complains(0, "0 bad lines, 1 empty line skipped");
        place
            .run_with_input("verify-import", &arguments, plain.as_bytes())
            .expect_code(0);
        let second = if format == "csv" { "b\\nc" } else { "b" };
        place
            .run("scan", &["--output", "tsv"])
            .expect(0, format!("a\t1\n{second}\t2\n"));
    }
}

const EVENTS: &str = "app,time,event\nb,9,x\na,10,y\na,2,z\n";
const IMPORT_EVENTS: [&str; 7] = [
    "events.csv",
    "--format",
    "csv",
    "--key-columns",
    "app,time:u64",
    "--value-column",
    "event",
];

#[test]
fn the_database_remembers_the_types_of_an_import() {
    let place = Place::new();
    place.file("events.csv", EVENTS);
    place
        .run("import", &IMPORT_EVENTS)
        .complains(0, "keyspace `default` remembers the key types `str,u64`");
    let again = place.run("import", &IMPORT_EVENTS);
    assert!(
        !again.error.contains("remembers"),
        "only told once: {}",
        again.error
    );
    // Without types the remembered ones are meant.
    place.run("get", &["a,2"]).expect(0, "z\n");
    let scan = ["--output", "tsv"];
    place
        .run("scan", &scan)
        .expect(0, "a\t2\tz\na\t10\ty\nb\t9\tx\n");
    place
        .run(
            "scan",
            &[
                "--prefix",
                "a",
                "--reverse",
                "--limit",
                "1",
                "--output",
                "json",
            ],
        )
        .expect(0, "{\"key\":[\"a\",10],\"value\":\"y\"}\n");
    place
        .run("put", &["c,18446744073709551615", "w"])
        .expect(0, "");
    place.run("delete", &["b,9"]).expect(0, "");
    place.run("delete", &["--prefix", "a"]).expect(0, "");
    place
        .run("scan", &scan)
        .expect(0, "c\t18446744073709551615\tw\n");
    let untyped = IMPORT_EVENTS.map(|argument| argument.trim_end_matches(":u64"));
    place
        .run("import", &untyped)
        .complains(0, "imported 3 records");
    place.run("get", &["a,10"]).expect(0, "y\n");
    place
        .run("delete", &["c,18446744073709551615"])
        .expect(0, "");
    place.run("verify-import", &untyped).expect_code(0);
    let stats = place.run("stats", &[]);
    let stats = String::from_utf8(stats.out).unwrap();
    assert!(
        stats.contains("keyspaces: default (key types str,u64)"),
        "{stats}"
    );
    let json = place.run("stats", &["--json"]);
    let json = String::from_utf8(json.out).unwrap();
    assert!(
        json.contains("\"key_types\":{\"default\":\"str,u64\"}"),
        "{json}"
    );
    // Each keyspace has its own.
    place
        .run("put", &["a,2", "plain", "--keyspace", "other"])
        .expect(0, "");
    place
        .run("scan", &["--keyspace", "other"])
        .expect(0, "a,2\tplain\n");
}

#[test]
fn types_that_do_not_match_are_refused() {
    let place = Place::new();
    place.file("events.csv", EVENTS);
    place.run("import", &IMPORT_EVENTS).expect_code(0);
    let both = "have the types `str,u64`, not `str,i64`";
    let wrong = ["--key-types", "str,i64"];
    place.run("get", &with(&["a,2"], &wrong)).complains(2, both);
    place.run("scan", &wrong).complains(2, both);
    place
        .run("put", &with(&["a,2", "v"], &wrong))
        .complains(2, both);
    place
        .run("delete", &with(&["a,2"], &wrong))
        .complains(2, both);
    let import = IMPORT_EVENTS.map(|argument| match argument {
        "app,time:u64" => "app,time:i64",
        other => other,
    });
    place.run("import", &import).complains(2, both);
    place.run("verify-import", &import).complains(2, both);
    place
        .run("import", &["events.csv"])
        .complains(2, "have the types `str,u64`, not `str`");
    // Knowingly.
    let raw = ["--key-types", "raw"];
    place.run("put", &with(&["plain", "v"], &raw)).expect(0, "");
    place.run("get", &with(&["plain"], &raw)).expect(0, "v\n");
    place.run("get", &["plain"]).complains(2, "has 1 column,");
    place
        .run("scan", &["--from", "p", "--output", "tsv"])
        .complains(0, "")
        .expect(0, "\\kplain\tv\n");
    place
        .run(
            "get",
            &["61000100000000000000 02".replace(' ', "").as_str(), "--hex"],
        )
        .expect(0, "z\n");
    let line = b"more\tw\n";
    place
        .run_with_input("import", &with(&["-"], &raw), line)
        .expect_code(0);
    place.run("get", &with(&["more"], &raw)).expect(0, "w\n");
    place.run("delete", &with(&["more"], &raw)).expect(0, "");
    // Without keys nothing can contradict the types.
    place.run("delete", &with(&["plain"], &raw)).expect(0, "");
    place.run("delete", &["--prefix", "a"]).expect_code(0);
    place.run("delete", &["b,9"]).expect(0, "");
    place
        .run("import", &import)
        .complains(0, "remembers the key types `str,i64`");
    place.run("get", &["a,2"]).expect(0, "z\n");
}

#[test]
fn a_first_put_is_remembered_too() {
    let place = Place::new();
    place
        .run("put", &["1.5,ff00", "v", "--key-types", "f64,bytes"])
        .complains(0, "remembers the key types `f64,bytes`");
    place.run("put", &["-inf,", "u"]).expect(0, "");
    place.run("put", &["--", "-inf,", "w"]).expect(0, "");
    place.run("put", &["nan,00", "x"]).expect(0, "");
    place.run("scan", &["--output", "json"]).expect(
        0,
        "{\"key\":[\"-inf\",\"\"],\"value\":\"w\"}\n{\"key\":[1.5,\"ff00\"],\"value\":\"v\"}\n\
             {\"key\":[\"NaN\",\"00\"],\"value\":\"x\"}\n",
    );
    place.run("get", &["1.50,FF00"]).expect(0, "v\n");
    place
        .run("get", &["1.5,f"])
        .complains(2, "odd number of hexadecimal digits");
    let other = place.run(
        "put",
        &["a,1", "v", "--key-types", "str,u64", "--keyspace", "x"],
    );
    other.complains(0, "keyspace `x` remembers");
    // Not if there are keys that do not have these types.
    place
        .run("put", &["plain", "v", "--keyspace", "y"])
        .expect(0, "");
    let typed = place.run(
        "put",
        &["a,1", "v", "--key-types", "str,u64", "--keyspace", "y"],
    );
    typed.complains(2, "has keys that have not the types `str,u64`, as `plain`");
}

#[test]
fn a_wrong_key_creates_no_database() {
    let place = Place::new();
    place
        .run("put", &["x", "v", "--key-types", "u64"])
        .complains(2, "`x` is no u64");
    place
        .run("put", &["0g", "v", "--hex"])
        .complains(2, "hexadecimal");
    assert!(!place.path("db").exists());
}

#[test]
fn unknown_types_are_told_with_those_there_are() {
    let place = Place::new();
    place.file("in.csv", "a,b\n1,2\n");
    let import = ["in.csv", "--format", "csv", "--key-columns"];
    let types = "there are str, u64, i64, f32, f64, bytes";
    for (column, name) in [("1:u256", "u256"), ("a:float", "float")] {
        let outcome = place.run("import", &with(&import, &[column]));
        outcome
            .complains(2, &format!("no such type `{name}`"))
            .complains(2, types);
    }
    place
        .run("get", &["1", "--key-types", "str,int"])
        .complains(2, "no such type `int`")
        .complains(2, types);
    place
        .run("import", &with(&import, &["2:f64"]))
        .expect_code(3);
    place.run("get", &["2"]).expect(0, "1\n");
}

#[test]
fn bytes_and_floats_are_columns_of_every_format() {
    let inputs = [
        (
            "csv",
            "x,y,v\n1e2,00FF,p\n-0,,q\n\"NaN\",\"0a\",r\n0.1,0,bad\n",
        ),
        (
            "tsv",
            "x\ty\tv\n1e2\t00FF\tp\n-0\t\tq\nNaN\t0a\tr\n0.1\t0\tbad\n",
        ),
        (
            "jsonl",
            "{\"x\":1e2,\"y\":\"00FF\",\"v\":\"p\"}\n{\"x\":-0,\"y\":\"\",\"v\":\"q\"}\n\
             {\"x\":\"NaN\",\"y\":\"0a\",\"v\":\"r\"}\n{\"x\":0.1,\"y\":\"0\",\"v\":\"bad\"}\n",
        ),
    ];
    for (format, text) in inputs {
        for float in ["f32", "f64"] {
            let place = Place::new();
            let columns = format!("x:{float},y:bytes");
            let arguments = [
                "-",
                "--format",
                format,
                "--key-columns",
                &columns,
                "--value-column",
                "v",
            ];
            place
                .run_with_input("import", &arguments, text.as_bytes())
                .complains(3, "imported 3 records");
            place
                .run("scan", &["--output", "tsv"])
                .expect(0, "-0.0\t\tq\n100.0\t00ff\tp\nNaN\t0a\tr\n");
        }
    }
}

/// Bytes that are troublesome in one form or another.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        4 => any::<u8>(),
        4 => proptest::sample::select(b"\t\n\r\\\"k,{}x\0\x01\x7F\xFF".to_vec()),
    ];
    let letters = "[a\u{e9}\u{85}\u{feff}\u{1F600}\\\\\t\r\n]{0,4}".prop_map(String::into_bytes);
    prop_oneof![
        proptest::collection::vec(byte, 0..7),
        letters,
        Just(b"\xEF\xBB\xBF".to_vec()),
        Just(b"\\k".to_vec()),
        Just(b"{\"hex\":\"ff\"}".to_vec()),
    ]
}

fn escaped(bytes: &[u8], key: &mut Vec<u8>) {
    for &byte in bytes {
        key.push(byte);
        if byte == 0 {
            key.push(0xFF);
        }
    }
    key.extend_from_slice(b"\x00\x01");
}

fn float() -> impl Strategy<Value = f64> {
    let special = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        5e-324,
        f64::MAX,
        f64::MIN,
        0.1,
        1e23,
    ];
    prop_oneof![
        proptest::sample::select(special.to_vec()),
        any::<u64>().prop_map(f64::from_bits),
    ]
}

fn of_order_64(float: f64) -> [u8; 8] {
    let bits = float.to_bits();
    let flip = if bits >> 63 == 0 { 1 << 63 } else { u64::MAX };
    (bits ^ flip).to_be_bytes()
}

fn of_order_32(float: f32) -> [u8; 4] {
    let bits = float.to_bits();
    let flip = if bits >> 31 == 0 { 1 << 31 } else { u32::MAX };
    (bits ^ flip).to_be_bytes()
}

const EVERY_TYPE: &str = "str,u64,f64,bytes,i64,f32,str";

/// Keys of every type, with any bits for the floats: a NaN with other bits is a key that does not
/// fit the types, and must come back all the same.
fn typed() -> impl Strategy<Value = Vec<u8>> {
    let whole = prop_oneof![Just(0), Just(u64::MAX), Just(1 << 63), any::<u64>()];
    let columns = (
        bytes(),
        whole.clone(),
        float(),
        bytes(),
        whole,
        float(),
        bytes(),
    );
    columns.prop_map(|(a, b, c, d, e, f, g)| {
        let mut key = Vec::new();
        escaped(&a, &mut key);
        key.extend_from_slice(&b.to_be_bytes());
        key.extend_from_slice(&of_order_64(c));
        escaped(&d, &mut key);
        key.extend_from_slice(&e.to_be_bytes());
        key.extend_from_slice(&of_order_32(f as f32));
        escaped(&g, &mut key);
        key
    })
}

fn records(path: &Path) -> Records {
    let database = Options::new().create_if_missing(false).open(path).unwrap();
    let records = database.iter().map(|record| record.unwrap());
    records
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

/// Prints a database that has these records, imports the text into a new one in both forms, and
/// compares.
fn round_trip(types: Option<&str>, expected: &Records) {
    let source = Place::new();
    let database = Options::new().open(source.path("db")).unwrap();
    for (key, value) in expected {
        database.put(key, value).unwrap();
    }
    if let Some(types) = types {
        let keyspace = database.default_keyspace();
        keyspace.set_property("evendb.key-types", types).unwrap();
    }
    database.close().unwrap();
    for (output, format) in [("tsv", "scan-tsv"), ("json", "scan-json")] {
        let printed = source.run("scan", &["--output", output]);
        printed.expect_code(0);
        assert!(
            std::str::from_utf8(&printed.out).is_ok(),
            "{output} is text"
        );
        let target = Place::new();
        let mut arguments = vec!["-", "--format", format];
        if let Some(types) = types {
            arguments.extend(["--key-types", types]);
        }
        // As the editor of another system would leave it.
        let text = String::from_utf8(printed.out).unwrap();
        let text = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        target
            .run_with_input("import", &arguments, text.as_bytes())
            .complains(0, " 0 bad lines");
        assert_eq!(&records(&target.path("db")), expected, "{output}");
        arguments.truncate(3);
        target
            .run_with_input("verify-import", &arguments, text.as_bytes())
            .expect_code(0);
    }
}

#[test]
fn what_scan_prints_import_takes_back() {
    let mut runner = TestRunner::new(Config::with_cases(4));
    let many = 1..40;
    let plain = proptest::collection::btree_map(bytes(), bytes(), many.clone());
    let typed_or_not = prop_oneof![6 => typed(), 1 => bytes()];
    let typed = proptest::collection::btree_map(typed_or_not, bytes(), many);
    let one = |kind: &'static str| {
        let keys = proptest::collection::btree_map(bytes(), bytes(), 1..20);
        keys.prop_map(move |records| (kind, records))
    };
    let single = prop_oneof![one("str"), one("bytes"), one("f64"), one("u64")];
    runner
        .run(&(plain, typed, single), |(plain, typed, (kind, single))| {
            round_trip(None, &plain);
            round_trip(Some(EVERY_TYPE), &typed);
            round_trip(Some(kind), &single);
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_line_of_a_scan_that_is_cut_short_is_a_bad_line() {
    let place = Place::new();
    let tsv = ["-", "--format", "scan-tsv", "--key-types", "str,u64"];
    let outcome = place.run_with_input("import", &tsv, b"a\t1\tv\nb\t2\nc\t\\q\tv\n\\kd\tw\n");
    outcome
        .complains(3, "line 2: 2 fields instead of 3")
        .complains(3, "2 bad lines");
    place.run("scan", &["--count"]).expect(0, "2\n");
    let json = ["-", "--format", "scan-json"];
    let lines = [
        "{\"key\":[\"a\"],\"value\":\"v\"}",
        "{\"key\":[\"a\",null],\"value\":\"v\"}",
        "{\"key\":null,\"value\":\"v\"}",
        "{\"key\":\"a\"}",
        "{\"key\":\"a\",\"value\":1}",
        "{\"key\":\"a\",\"value\":\"v\",\"key\":\"b\"}",
        "{\"key\":\"a\",\"value\":{\"hex\":\"0\"}}",
        "{\"key\":\"a\",\"value\":{\"hex\":\"00\",\"more\":1}}",
        "{\"key\":\"a\",\"other\":\"v\"}",
    ];
    place
        .run_with_input("import", &json, lines.join("\n").as_bytes())
        .complains(3, "9 bad lines");
    // Without types a key has one field.
    let fresh = Place::new();
    fresh
        .run_with_input("import", &["-", "--format", "scan-tsv"], b"a\t1\tv\n")
        .complains(3, "3 fields instead of 2");
}

/// Runs the command with a terminal for its output. Returns what it wrote there.
fn on_a_terminal(place: &Place, command: &str, arguments: &[&str]) -> String {
    let mut command_line = evendb();
    command_line
        .arg(command)
        .arg(place.path("db"))
        .args(arguments);
    let (status, written) = common::on_a_terminal(command_line, Terminal::Output);
    assert!(status.success());
    written
}

#[test]
fn a_terminal_gets_escapes_and_a_pipe_gets_bytes() {
    let place = Place::new();
    let value = b"\x1B[2J\x07\xFF";
    place
        .run_with_input("put", &["00ff1b", "-", "--hex"], value)
        .expect(0, "");
    let raw = [&b"\x00\xFF\x1B\t"[..], value, b"\n"].concat();
    place.run("scan", &[]).expect(0, &raw);
    place
        .run("get", &["00ff1b", "--hex", "--no-newline"])
        .expect(0, value);
    let shown = "\\x1b[2J\\x07\\xff\n";
    assert_eq!(on_a_terminal(&place, "get", &["00ff1b", "--hex"]), shown);
    let scanned = on_a_terminal(&place, "scan", &[]);
    assert_eq!(scanned, format!("\\x00\\xff\\x1b\t{shown}"));
}
