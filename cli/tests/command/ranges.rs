//! Facts about ranges without reading them, records that are popped, and keyspaces with options.

use crate::common::Place;

fn filled() -> Place {
    let place = Place::new();
    let line = |n: u32| format!("k{n:03}\t{}\n", "v".repeat(96));
    let input: String = (0..1000).map(line).collect();
    place.file("in.tsv", input);
    place
        .run("import", &["in.tsv"])
        .complains(0, "imported 1,000 records");
    place
}

/// The number after a name of a JSON object.
fn number(text: &str, name: &str) -> u64 {
    let object: serde_json::Value = serde_json::from_str(text).unwrap();
    object[name].as_u64().unwrap()
}

#[test]
fn size_tells_about_how_much_there_is() {
    let place = filled();
    place
        .run("size", &[])
        .expect_start(0, "about 1,000 records, 97.66 KiB of keys and values, ");
    let json = place.run("size", &["--json"]).text(0);
    assert_eq!(number(&json, "records"), 1000);
    assert_eq!(number(&json, "bytes"), 100_000);
    assert!(number(&json, "disk_bytes") > 50_000);
    let part = ["--from", "k250", "--to", "k750", "--json"];
    let records = number(&place.run("size", &part).text(0), "records");
    assert!((400..=600).contains(&records), "{records}");
    let prefix = place.run("size", &["--prefix", "k1", "--json"]).text(0);
    assert!((1..=200).contains(&number(&prefix, "records")), "{prefix}");
    let inverted = place.run("size", &["--from", "k2", "--to", "k1", "--json"]);
    assert_eq!(number(&inverted.text(0), "records"), 0);
    place
        .run("size", &["--keyspace", "none"])
        .complains(1, "no keyspace");
}

#[test]
fn pop_takes_one_record_from_either_end() {
    let place = Place::new();
    for key in ["a", "b", "job/1", "job/2"] {
        place.run("put", &[key, "do"]).expect(0, "");
    }
    place.run("pop", &[]).expect(0, "a\tdo\n");
    place.run("pop", &["--last"]).expect(0, "job/2\tdo\n");
    place
        .run("pop", &["--prefix", "job/", "--output", "json"])
        .expect(0, "{\"key\":\"job/1\",\"value\":\"do\"}\n");
    place.run("pop", &["--prefix", "job/"]).expect(4, "");
    place.run("scan", &["--keys-only"]).expect(0, "b\n");
}

#[test]
fn keyspaces_are_listed_and_made_with_options() {
    let place = filled();
    place
        .run("keyspaces", &[])
        .expect_start(0, "default\tabout 1,000 records");
    let make = [
        "--keyspace",
        "texts",
        "--compression",
        "lz4",
        "--block-bytes",
        "16KiB",
    ];
    place.run("keyspaces", &make).expect(0, "");
    place.run("keyspaces", &make).expect(0, "");
    place
        .run("keyspaces", &["--keyspace", "texts", "--json"])
        .expect(
            0,
            "{\"keyspace\":\"texts\",\"layout\":\"chunks\",\"key_types\":null,\"options\":{\"compression\":\"lz4\",\"block_bytes\":\"16384\"},\
             \"records\":0,\"bytes\":0,\"disk_bytes\":0}\n",
        );
    let other = ["--keyspace", "texts", "--compression", "none"];
    place
        .run("keyspaces", &other)
        .complains(2, "has compression lz4, and none was asked for");
    place
        .run("keyspaces", &[&other[..], &["--change"]].concat())
        .expect(0, "");
    let listed = place.run("keyspaces", &["--keyspace", "texts"]).text(0);
    assert!(listed.ends_with("\tcompression=none\n"), "{listed}");
    let nonsense = ["--keyspace", "texts", "--compression", "zip"];
    place
        .run("keyspaces", &nonsense)
        .complains(2, "none, lz4, zstd or zstd:level");
    let zstd = ["--keyspace", "small", "--compression", "zstd:9"];
    let made = place.run("keyspaces", &zstd);
    match cfg!(feature = "zstd") {
        true => made.expect(0, ""),
        false => made.complains(1, "needs the feature `zstd`"),
    };
    place
        .run("keyspaces", &["--row-cache", "false"])
        .complains(2, "--keyspace");
    place
        .run("keyspaces", &["--keyspace", "never", "--change"])
        .complains(1, "no keyspace");
}

#[test]
fn a_scan_of_keys_or_for_a_count_has_no_values() {
    let place = filled();
    place
        .run("scan", &["--keys-only", "--reverse", "--limit", "2"])
        .expect(0, "k999\nk998\n");
    place
        .run("scan", &["--count", "--limit", "7"])
        .expect(0, "7\n");
    place
        .run("scan", &["--prefix", "k99", "--count", "--reverse"])
        .expect(0, "10\n");
}

/// A keyspace with keys of a text and a number.
fn cities() -> Place {
    let place = Place::new();
    let input = "Paris\t1\tx\nParis\t2\ty\nParma\t3\tz\nRome\t4\tw\n";
    place.file("in.tsv", input);
    let import = ["in.tsv", "--format", "scan-tsv", "--key-types", "str,u64"];
    place.run("import", &import).complains(0, "4 records");
    place
}

#[test]
fn a_prefix_is_whole_columns_and_starts_with_selects_the_texts_that_begin_so() {
    let place = cities();
    place
        .run("scan", &["--prefix", "Paris", "--count"])
        .expect(0, "2\n");
    place
        .run("scan", &["--starts-with", "Par", "--keys-only"])
        .expect(0, "Paris\t1\nParis\t2\nParma\t3\n");
    place
        .run("scan", &["--starts-with", "Par", "--from", "Parm"])
        .expect(0, "Parma\t3\tz\n");
    let size = place.run("size", &["--starts-with", "Par", "--json"]);
    assert!(number(&size.text(0), "records") <= 4);
    // Only users who may have meant that are told.
    let hint = "--starts-with Par selects keys";
    for command in ["scan", "size", "delete"] {
        place.run(command, &["--prefix", "Par"]).complains(0, hint);
    }
    place.run("pop", &["--prefix", "Par"]).complains(4, hint);
    for quiet in [
        &["--prefix", "Paris"][..],
        &["--prefix", "Paris,7"],
        &["--from", "Z"],
    ] {
        assert_eq!(place.run("scan", quiet).error, "");
        assert_eq!(place.run("size", quiet).error, "");
    }
    place
        .run("scan", &["--starts-with", "Paris,1"])
        .complains(2, "of the type u64")
        .complains(2, "--from and --to");
    place
        .run("scan", &["--starts-with", "a", "--prefix", "a"])
        .complains(2, "cannot be used");
    place.run("delete", &["--starts-with", "Par"]).expect(0, "");
    place.run("scan", &[]).expect(0, "Rome\t4\tw\n");
}

#[test]
fn delete_takes_a_range() {
    let place = filled();
    place
        .run("delete", &["--from", "k100", "--to", "k900"])
        .expect(0, "");
    place.run("scan", &["--count"]).expect(0, "200\n");
    place.run("delete", &["--from", "k950"]).expect(0, "");
    place.run("delete", &["--to", "k050"]).expect(0, "");
    place
        .run("delete", &["--prefix", "k06", "--from", "k065"])
        .expect(0, "");
    place.run("scan", &["--count"]).expect(0, "95\n");
    for empty in [
        &["--from", ""][..],
        &["--to", ""],
        &["--from", "", "--to", "k06"],
    ] {
        place
            .run("delete", empty)
            .complains(2, "is empty")
            .complains(2, "--all");
    }
    place
        .run("delete", &["--all", "--to", "k06"])
        .complains(2, "leave out --to");
    place
        .run("delete", &["k060", "--from", "k06"])
        .complains(2, "cannot be used");
    place.run("scan", &["--count"]).expect(0, "95\n");
    let cities = cities();
    cities
        .run("delete", &["--from", "Paris,2", "--to", "Rome"])
        .expect(0, "");
    cities
        .run("scan", &["--keys-only"])
        .expect(0, "Paris\t1\nRome\t4\n");
}

#[test]
fn get_takes_several_keys() {
    let place = cities();
    place
        .run("get", &["Rome,4", "Paris,1"])
        .expect(0, "Rome\t4\tw\nParis\t1\tx\n");
    place
        .run("get", &["Rome,4", "Rome,5", "--output", "json"])
        .complains(4, "there is no key `Rome,5`")
        .expect(4, "{\"key\":[\"Rome\",4],\"value\":\"w\"}\n");
    place.run("get", &["Rome,4"]).expect(0, "w\n");
    place.run("get", &["Rome,5"]).expect(4, "");
    place
        .run("get", &["Rome,4", "Rome"])
        .complains(2, "has 1 column,")
        .expect(2, "");
    place
        .run("get", &["Rome,4", "Paris,1", "--no-newline"])
        .complains(2, "of one key");
    place.run("get", &[]).complains(2, "KEY");
}

#[test]
fn keyspaces_shows_key_types() {
    let place = cities();
    place
        .run("put", &["a", "b", "--keyspace", "plain"])
        .expect(0, "");
    let listed = place.run("keyspaces", &[]).text(0);
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].ends_with("\tkey_types=str,u64"), "{listed}");
    assert!(lines[1].starts_with("plain\tabout 1 record, "), "{listed}");
    let json = place.run("keyspaces", &["--json"]).text(0);
    let types: Vec<serde_json::Value> = json
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["key_types"].clone())
        .collect();
    assert_eq!(types, ["str,u64".into(), serde_json::Value::Null]);
}
