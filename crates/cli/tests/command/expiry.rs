//! Values that are put with a time, keyspaces that have one, imports with a column for it. Times are long past or far off, so
//! that nothing depends on when the test runs.

use crate::common::Place;

#[test]
fn values_are_put_until_a_time() {
    let place = Place::new();
    place
        .run("put", &["a", "stays", "--ttl", "1000000"])
        .expect(0, "");
    place
        .run("put", &["b", "gone", "--expires-at", "1000.5"])
        .expect(0, "");
    place.run("put", &["c", "older"]).expect(0, "");
    place.run("put", &["c", "gone", "--ttl", "0"]).expect(0, "");
    place.run("scan", &[]).expect(0, "a\tstays\n");
    place.run("get", &["b"]).expect(4, "");
    let changes = place.run("changes", &[]).text(0);
    assert!(
        changes.contains("\tput\tb\tgone\tuntil 1000.5\n"),
        "{changes}"
    );
    let dump = place.run("dump", &["manifest"]).text(0);
    assert!(dump.contains("expiring"), "{dump}");
    let both = ["d", "", "--ttl", "1", "--expires-at", "2"];
    place.run("put", &both).expect_code(2);
    place
        .run("put", &["d", "", "--ttl", "soon"])
        .complains(2, "seconds");
}

#[test]
fn a_keyspace_is_made_with_a_time_to_live() {
    let place = Place::new();
    place.run("put", &["a", "b"]).expect(0, "");
    let make = ["--keyspace", "log", "--ttl", "0.001"];
    place.run("keyspaces", &make).expect(0, "");
    let json = place
        .run("keyspaces", &["--keyspace", "log", "--json"])
        .text(0);
    assert!(json.contains("\"ttl_millis\":\"1\""), "{json}");
    place
        .run("put", &["--keyspace", "log", "k", "v"])
        .expect(0, "");
    // A process takes longer than a millisecond to start.
    place.run("scan", &["--keyspace", "log"]).expect(0, "");
    place.run("scan", &[]).expect(0, "a\tb\n");
}

#[test]
fn an_import_takes_times_from_a_column() {
    let place = Place::new();
    place.file(
        "in.csv",
        "user,until,token\nada,,1\neve,1000,2\nbob,99999999999,3\nmal,soon,4\n",
    );
    let columns = [
        "--format",
        "csv",
        "--key-columns",
        "user",
        "--expires-column",
        "until",
    ];
    let import = [&["in.csv"], &columns[..]].concat();
    place
        .run("import", &import)
        .complains(3, "says no time of expiry");
    place.run("scan", &[]).expect(0, "ada\t1\nbob\t3\n");
    place.file(
        "in.jsonl",
        "{\"k\":\"x\",\"until\":null}\n{\"k\":\"y\",\"until\":7}\n{\"k\":\"z\",\"until\":\"99999999999.5\"}\n",
    );
    let json = [
        "in.jsonl",
        "--format",
        "jsonl",
        "--key-columns",
        "k",
        "--expires-column",
        "until",
    ];
    place
        .run("import", &json)
        .complains(0, "imported 3 records");
    place
        .run("scan", &["--keys-only", "--from", "x"])
        .expect(0, "x\nz\n");
    place.file("in.tsv", "p\t1000\tv\nq\t\tv\tw\n");
    place
        .run("import", &["in.tsv", "--expires-column", "2"])
        .complains(0, "imported 2 records");
    place
        .run("scan", &["--from", "p", "--to", "r"])
        .expect(0, "q\tv\tw\n");
}
