//! Options by name and text: `--set` and `evendb options`.

use crate::common::Place;

#[test]
fn options_are_set_by_name_and_text() {
    let place = Place::new();
    let set = [
        "k",
        "v",
        "--set",
        "layout=guards",
        "--set",
        "durability=sync",
    ];
    place.run("put", &set).expect(0, "");
    place
        .run("keyspaces", &["--json"])
        .expect_start(0, "{\"keyspace\":\"default\",\"layout\":\"guards\"");
    place
        .run("get", &["k", "--set", "memory_budget=2MiB"])
        .expect(0, "v\n");
    // It counts in the end, after the command's own choices.
    place
        .run("put", &["k", "w", "--set", "read_only=on"])
        .complains(1, "open for reading only");
    place.run("get", &["k"]).expect(0, "v\n");
}

#[test]
fn a_wrong_setting_is_told_and_nothing_is_made() {
    let place = Place::new();
    for (setting, words) in [
        ("memory_bugdet=1GiB", "memory_budget"),
        ("memory_budget=lots", "1MiB to 16TiB"),
        ("memory_budget", "durability=sync"),
        ("ttl=1h", "an option of a keyspace"),
        ("=", "evendb options"),
    ] {
        place
            .run("put", &["k", "v", "--set", setting])
            .complains(2, words);
    }
    assert!(!place.path("db").exists());
}

#[test]
fn options_lists_the_tables() {
    let listed = crate::common::evendb()
        .args(["options", "budget"])
        .output()
        .expect("runs");
    let listed = String::from_utf8(listed.stdout).expect("is text");
    assert!(
        listed.starts_with("memory_budget\tauto\tsize\t1MiB to 16TiB, auto\t"),
        "{listed}"
    );
    assert_eq!(listed.lines().count(), 1);
    let all = crate::common::evendb()
        .args(["options", "--of-keyspaces", "--json"])
        .output()
        .expect("runs");
    let all = String::from_utf8(all.stdout).expect("is text");
    let rows: Vec<serde_json::Value> = all
        .lines()
        .map(|line| serde_json::from_str(line).expect("is JSON"))
        .collect();
    let names: Vec<&str> = rows
        .iter()
        .map(|row| row["name"].as_str().expect("a name"))
        .collect();
    let table = evendb::KeyspaceOptions::table().iter();
    assert_eq!(names, table.map(|row| row.name()).collect::<Vec<_>>());
}
