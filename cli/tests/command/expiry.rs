//! Values that are put with a time, keyspaces that have one, imports with a column for it. Times
//! are long past or far off, so that nothing depends on when the test runs.

use crate::common::Place;

#[test]
fn values_are_put_until_a_time() {
    let place = Place::new();
    place
        .run("put", &["a", "stays", "--ttl", "1000000"])
        .expect(0, "");
    place
        .run("put", &["b", "gone", "--until", "1000.5"])
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
    let both = ["d", "", "--ttl", "1", "--until", "2"];
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

/// The single line of a text that contains this.
fn line<'t>(text: &'t str, with: &str) -> &'t str {
    let mut lines = text.lines().filter(|line| line.contains(with));
    let line = lines.next().unwrap_or_else(|| panic!("no {with}: {text}"));
    assert_eq!(lines.next(), None, "{with}");
    line
}

#[test]
fn an_import_keeps_all_for_a_while_or_until_a_time() {
    let place = Place::new();
    place.file("in.tsv", "a\t1\nb\t2\n");
    place
        .run("import", &["in.tsv", "--until", "99999999999"])
        .complains(0, "imported 2 records");
    place.run("scan", &[]).expect(0, "a\t1\nb\t2\n");
    let manifest = place.run("dump", &["manifest", "--json"]).text(0);
    let objects = manifest
        .lines()
        .map(serde_json::from_str::<serde_json::Value>);
    let mut parts = objects.map(Result::unwrap);
    let part = parts.find(|object| object["item"] == "part").unwrap();
    assert_eq!(part["expiring"], 2, "{part}");
    assert_eq!(part["last-until-millis"], 99_999_999_999_000_u64, "{part}");
    let table = part["table"].as_str().unwrap();
    let dump = place.run("dump", &["sstable", table]).text(0);
    for key in [" key=`a`", " key=`b`"] {
        let line = line(&dump, key);
        assert!(line.contains("put-until"), "{line}");
        assert!(line.contains("until-millis=99999999999000"), "{line}");
    }
    place
        .run("import", &["in.tsv", "--ttl", "0"])
        .complains(0, "imported 2 records");
    place.run("scan", &[]).expect(0, "");
    place
        .run("import", &["in.tsv", "--ttl", "100000"])
        .complains(0, "imported 2 records");
    place.run("scan", &[]).expect(0, "a\t1\nb\t2\n");
    for both in [
        ["--ttl", "1", "--until", "2"],
        ["--ttl", "1", "--expires-column", "2"],
        ["--until", "1", "--expires-column", "2"],
    ] {
        let arguments = [&["in.tsv"][..], &both].concat();
        place.run("import", &arguments).expect_code(2);
    }
    place
        .run("import", &["in.tsv", "--ttl", "-1"])
        .expect_code(2);
    place
        .run("import", &["in.tsv", "--until", "tomorrow"])
        .complains(2, "seconds since 1970");
}

#[test]
fn an_ingest_an_export_and_a_repair_keep_times() {
    let place = Place::new();
    place.file("in.tsv", "a\t\t1\nb\t1000\t2\nc\t99999999999\t3\n");
    let input = ["in.tsv", "--expires-column", "2"];
    place
        .run("ingest", &input)
        .complains(0, "ingested 3 records");
    place.run("scan", &[]).expect(0, "a\t1\nc\t3\n");
    // An expired record is not missed.
    place.run("verify-import", &input).expect_code(0);
    let exported = place.path("exported");
    place
        .run("export", &[exported.to_str().unwrap()])
        .complains(0, "exported 2 records");
    let into = ["--keyspace", "into", exported.to_str().unwrap()];
    place
        .run("ingest", &into)
        .complains(0, "ingested 2 records");
    let manifest = place.run("dump", &["manifest"]).text(0);
    let expiring = |line: &&str| line.contains("expiring=1") && line.contains("last-until-millis=");
    assert!(manifest.lines().any(|line| expiring(&line)), "{manifest}");
    let saved = place.path("saved");
    let repaired = place.run("repair", &["--into", saved.to_str().unwrap()]);
    let text = repaired.text(0);
    assert!(
        text.contains("keyspace `default`: 2 records saved"),
        "{text}"
    );
    assert!(text.contains("and 1 expired record:"), "{text}");
    assert!(text.contains("everything was saved"), "{text}");
}

#[test]
fn a_time_to_live_is_checked() {
    let place = Place::new();
    place.run("put", &["a", "b"]).expect(0, "");
    let none = ["--keyspace", "log", "--ttl", "0"];
    place
        .run("keyspaces", &none)
        .complains(2, "the option ttl takes");
    place.run("keyspaces", &["--ttl", "5"]).expect_code(2);
    let make = ["--keyspace", "log", "--ttl", "100000"];
    place.run("keyspaces", &make).expect(0, "");
    place
        .run("put", &["--keyspace", "log", "k", "v"])
        .expect(0, "");
    place
        .run("scan", &["--keyspace", "log"])
        .expect(0, "k\tv\n");
    let changes = place.run("changes", &["--keyspace", "log"]).text(0);
    assert!(changes.contains("\tuntil "), "{changes}");
    // Without one from now on.
    place
        .run("keyspaces", &["--keyspace", "log", "--change"])
        .expect(0, "");
    place
        .run("put", &["--keyspace", "log", "l", "v"])
        .expect(0, "");
    let changes = place.run("changes", &["--keyspace", "log"]).text(0);
    let last = changes.lines().last().unwrap();
    assert!(
        last.contains("\tl\tv") && !last.contains("until"),
        "{changes}"
    );
}
