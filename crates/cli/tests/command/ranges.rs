//! What is told of ranges without reading them, records that are popped, and keyspaces with options.

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

/// The number behind a name of a JSON object.
fn number(text: &str, name: &str) -> u64 {
    let object: serde_json::Value = serde_json::from_str(text).unwrap();
    object[name].as_u64().unwrap()
}

#[test]
fn size_tells_about_how_much_there_is() {
    let place = filled();
    place
        .run("size", &[])
        .expect_start(0, "about 1000 records, 0.095 MiB of keys and values, ");
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
        .expect_start(0, "default\tabout 1000 records");
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
            "{\"keyspace\":\"texts\",\"options\":{\"compression\":\"lz4\",\"block_bytes\":\"16384\"},\
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
