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
