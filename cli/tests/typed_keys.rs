//! The command and a program of the library share keys: each reads the records of the other.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;

use common::{Place, Terminal, evendb, on_a_terminal};
use evendb::Db;
use evendb::keys::{self, Desc};

const TYPES: &str = "str,desc:time,bool,i32,fixed:2";
const SCANNED: &str = "a\\tb\t1.5\ttrue\t-7\t00ff\tnew\n\
                       a\\tb\t-0.5\tfalse\t2147483647\tffff\told\n";

#[test]
fn columns_of_new_types_go_in_and_come_out() {
    let place = Place::new();
    place.file("in.tsv", SCANNED);
    let import = ["in.tsv", "--format", "scan-tsv", "--key-types", TYPES];
    place
        .run("import", &import)
        .complains(0, "imported 2 records");
    place.run("scan", &["--output", "tsv"]).expect(0, SCANNED);
    let json = "{\"key\":[\"a\\tb\",\"1.5\",true,-7,\"00ff\"],\"value\":\"new\"}\n\
                {\"key\":[\"a\\tb\",\"-0.5\",false,2147483647,\"ffff\"],\"value\":\"old\"}\n";
    place.run("scan", &["--output", "json"]).expect(0, json);
    place.file("again.json", json);
    let again = ["again.json", "--format", "scan-json", "--keyspace", "again"];
    place
        .run("import", &[&again[..], &["--key-types", TYPES]].concat())
        .complains(0, "imported 2 records");
    place
        .run("scan", &["--keyspace", "again", "--output", "tsv"])
        .expect(0, SCANNED);
    place.file("bad.csv", "a,1.0000000001\nb,2\n");
    let bad = ["bad.csv", "--format", "csv", "--keyspace", "bad"];
    place
        .run(
            "import",
            &[&bad[..], &["--key-columns", "1,2:desc:time"]].concat(),
        )
        .complains(3, "`1.0000000001` is no time");
}

#[test]
fn a_program_and_the_command_read_each_others_keys() {
    let place = Place::new();
    let newest_first = ["app7,9", "by the command", "--key-types", "str,desc:u64"];
    place.run("put", &newest_first).complains(0, "remembers");
    let database = Db::open(place.path("db")).unwrap();
    database
        .put(keys::key(&("app7", Desc(10u64))), "by the program")
        .unwrap();
    database
        .put(keys::key(&("app70", Desc(1u64))), "of another")
        .unwrap();
    let records = database.prefix(keys::prefix(&("app7",)));
    let read: Vec<(String, u64)> = records
        .map(|record| {
            let (key, _) = record.unwrap();
            let (app, Desc(time)): (&str, Desc<u64>) = keys::decode(&key).unwrap();
            (app.to_owned(), time)
        })
        .collect();
    assert_eq!(read, [("app7".to_owned(), 10), ("app7".to_owned(), 9)]);
    // A text alone is its bytes, for both.
    let paths = database.keyspace("paths").unwrap();
    paths.put(keys::key("usr/share"), "a path").unwrap();
    drop(paths);
    // The program notes the types of its keys, for the command.
    let levels = database.keyspace("levels").unwrap();
    levels
        .set_property("evendb.key-types", "desc:f32,bool")
        .unwrap();
    levels.put(keys::key(&(Desc(0.1f32), true)), "low").unwrap();
    levels
        .put(keys::key(&(Desc(0.5f32), true)), "high")
        .unwrap();
    drop(levels);
    database.close().unwrap();
    place
        .run("scan", &["--prefix", "app7", "--output", "tsv"])
        .expect(0, "app7\t10\tby the program\napp7\t9\tby the command\n");
    place
        .run("scan", &["--keyspace", "levels", "--output", "json"])
        .expect(
            0,
            "{\"key\":[0.5,true],\"value\":\"high\"}\n{\"key\":[0.1,true],\"value\":\"low\"}\n",
        );
    place
        .run("get", &["0.1,true", "--keyspace", "levels"])
        .expect(0, "low\n");
    let path = ["usr/share", "--keyspace", "paths", "--key-types", "str"];
    place.run("get", &path).expect(0, "a path\n");
}

/// A keyspace with keys of a text and a number.
fn events() -> Place {
    let place = Place::new();
    place.file("in.tsv", "app7\t7\ta\\tb\na,b\t1\tc\n");
    let import = ["in.tsv", "--format", "scan-tsv", "--key-types", "str,u64"];
    place.run("import", &import).complains(0, "2 records");
    place
}

#[test]
fn typed_keys_are_the_same_text_in_a_pipe_and_on_a_terminal() {
    let place = events();
    let text = "a,b\t1\tc\napp7\t7\ta\\tb\n";
    place.run("scan", &[]).expect(0, text);
    let mut scan = evendb();
    scan.arg("scan").arg(place.path("db"));
    let (status, shown) = on_a_terminal(scan, Terminal::Output);
    assert!(status.success());
    assert_eq!(shown, text);
    let raw = b"a,b\x00\x01\0\0\0\0\0\0\0\x01\tc\napp7\x00\x01\0\0\0\0\0\0\0\x07\ta\tb\n";
    place.run("scan", &["--output", "raw"]).expect(0, raw);
    // The value alone goes to a pipe as its bytes.
    place.run("get", &["app7,7"]).expect(0, "a\tb\n");
    place.run("pop", &["--last"]).expect(0, "app7\t7\ta\\tb\n");
}

#[test]
fn a_scan_of_hexadecimal_keys_prints_them_so() {
    let place = events();
    let hex = "612c6200010000000000000001\t63\n";
    place
        .run("scan", &["--hex", "--prefix", "612c"])
        .expect(0, hex);
    place
        .run("scan", &["--hex", "--prefix", "612c", "--output", "tsv"])
        .expect(0, "a,b\t1\tc\n");
    let keys = ["612c6200010000000000000001", "61707037", "--hex"];
    place
        .run("get", &keys)
        .complains(4, "`61707037`")
        .expect(4, hex);
    place.run("get", &[keys[0], "--hex"]).expect(0, "c\n");
    place.run("pop", &["--hex"]).expect(0, hex);
}

#[test]
fn changes_have_the_columns_of_typed_keys() {
    let place = events();
    place.run("delete", &["a,b,1", "--key-types", "raw"]);
    place
        .run("delete", &["--from", "app7,3", "--to", "app8"])
        .expect(0, "");
    place.run("delete", &["--starts-with", "x"]).expect(0, "");
    place.run("delete", &["--from", "y,1"]).expect(0, "");
    let lines = |more: &[&str]| -> Vec<String> {
        let text = place.run("changes", more).text(0);
        let line = |line: &str| line.split_once('\t').unwrap().1.to_owned();
        text.lines().map(line).collect()
    };
    let expected = [
        "default\tput\ta\\x2cb,1\tc",
        "default\tput\tapp7,7\ta\\tb",
        "default\tdelete\t\\ka,b,1",
        "default\tdelete range\tapp7,3\tapp8",
        "default\tdelete range\t\\kx\t\\ky",
        "default\tdelete range\ty,1",
    ];
    assert_eq!(lines(&[]), expected);
    assert_eq!(
        lines(&["--raw"])[1],
        "default\tput\tapp7\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x07\ta\\tb"
    );
}

/// In JSON a key has the form of `scan` wherever there is a record.
#[test]
fn keys_have_one_shape_in_json_everywhere() {
    let place = events();
    let both =
        "{\"key\":[\"a,b\",1],\"value\":\"c\"}\n{\"key\":[\"app7\",7],\"value\":\"a\\tb\"}\n";
    place.run("scan", &["--output", "json"]).expect(0, both);
    place
        .run("get", &["app7,7", "app7,7", "--output", "json"])
        .expect(
            0,
            both.lines()
                .last()
                .unwrap()
                .to_owned()
                .repeat(2)
                .replace("}{", "}\n{")
                + "\n",
        );
    place
        .run("delete", &["--from", "b", "--to", "c,5"])
        .expect(0, "");
    let text = place.run("changes", &["--output", "json"]).text(0);
    let changes: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let keys: Vec<_> = changes[0]["writes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|write| &write["key"])
        .collect();
    assert_eq!(
        keys,
        [
            &serde_json::json!(["a,b", 1]),
            &serde_json::json!(["app7", 7])
        ]
    );
    let range = &changes[1]["writes"][0];
    assert_eq!(
        (&range["key"], &range["deleted_to"]),
        (&serde_json::json!(["b"]), &serde_json::json!(["c", 5]))
    );
    place
        .run("pop", &["--output", "json"])
        .expect(0, "{\"key\":[\"a,b\",1],\"value\":\"c\"}\n");
    // A text alone, and bytes without types, are a text in all of them.
    for name in ["typed", "plain"] {
        let mut put = vec!["a\tb", "v", "--keyspace", name];
        put.extend((name == "typed").then_some("--key-types=str"));
        place.run("put", &put).expect_code(0);
        let json = ["--keyspace", name, "--output", "json"];
        let record = "{\"key\":\"a\\tb\",\"value\":\"v\"}\n";
        place.run("scan", &json).expect(0, record);
        let changes = place.run("changes", &json).text(0);
        assert!(changes.contains("\"key\":\"a\\tb\""), "{changes}");
        place.run("pop", &json).expect(0, record);
    }
}

/// Every command takes keys, values and bounds that begin with a hyphen, negative numbers above
/// all.
#[test]
fn keys_values_and_bounds_may_begin_with_a_hyphen() {
    let place = Place::new();
    let done = |command: &str, arguments: &[&str], expected: &str| {
        place.run(command, arguments).expect(0, expected);
    };
    place
        .run("put", &["-9", "-nine", "--key-types", "i64"])
        .expect_code(0);
    done("put", &["-8", "--eight"], "");
    done("put", &["7", "-"], "");
    done("get", &["-9"], "-nine\n");
    done(
        "scan",
        &["--from", "-9", "--to", "-8", "--output", "tsv"],
        "-9\t-nine\n",
    );
    done(
        "scan",
        &["--from=-8", "--output", "tsv", "--limit", "1"],
        "-8\t--eight\n",
    );
    done("scan", &["--prefix", "-8", "--count"], "1\n");
    place
        .run("size", &["--from", "-9", "--to", "-1"])
        .expect_code(0);
    done("delete", &["-9"], "");
    done(
        "pop",
        &["--from", "-8", "--to", "0", "--output", "tsv"],
        "-8\t--eight\n",
    );
    done("scan", &["--count"], "1\n");
    let text = ["--keyspace", "-texts"];
    let with = |arguments: &[&'static str]| [arguments, &text].concat();
    done("put", &with(&["-k", "v"]), "");
    done("put", &with(&["--other", "w"]), "");
    done("get", &with(&["-k"]), "v\n");
    done(
        "scan",
        &with(&["--prefix", "-k", "--output", "tsv"]),
        "-k\tv\n",
    );
    // Options may stand after the keys, and a negative number may be any key.
    done("get", &with(&["-k", "--output", "tsv"]), "v\n");
    // A key that is the name of an option goes after two hyphens.
    done("put", &[&text[..], &["--", "--hex", "x"]].concat(), "");
    done("get", &[&text[..], &["--", "--hex"]].concat(), "x\n");
    place
        .run("compact", &with(&["--prefix", "-k"]))
        .expect_code(0);
    place
        .run("delete", &with(&["--prefix", "--o"]))
        .expect_code(0);
    done("scan", &with(&["--count"]), "2\n");
    place.file("in.csv", "-id,-v\n-5,x\n");
    let import = [
        "in.csv",
        "--keyspace",
        "-ids",
        "--key-columns",
        "-id:i64",
        "--value-column",
        "-v",
    ];
    place
        .run("import", &import)
        .complains(0, "imported 1 record,");
    done("get", &["-5", "--keyspace", "-ids"], "x\n");
    let verify = [
        &import[..],
        &["--check-prefix", "-", "--without-prefix", "--none"],
    ]
    .concat();
    place.run("verify-import", &verify).expect_code(0);
}
