//! The command and a program of the library share keys: each reads what the other one wrote.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;

use common::Place;
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

/// Keys, values and bounds that begin with a hyphen, negative numbers above all, as every command
/// takes them.
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
    // A key that is the name of an option goes behind two hyphens.
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
