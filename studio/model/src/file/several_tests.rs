//! Files of several keyspaces: they come back, files of one mean what they meant, and errors name
//! the keyspace and the line.

use super::*;
use crate::presets;

const TWO: &str = r#"format = 1
name = "two"
operations = 1000

[rate]
a = 5.0
b = 0.1
c = 0.0
d = 10.0

[[keyspace]]
name = "users"
share = 0.7
pairs = 500

[keyspace.mix]
get = 0.9
put = 0.1

[keyspace.keys]
spread = "constant"
size = 16

[keyspace.values.put]
spread = "constant"
size = 100

[keyspace.accesses]
by = "rank"
b = -0.8

[keyspace.accesses.put]
by = "rank"
b = 0.0

[[keyspace]]            # a second one
name = "log of events"
share = 0.3
pairs = 2000

[keyspace.mix]
put = 0.5
scan = 0.5

[keyspace.keys]
spread = "constant"
size = 24

[keyspace.values.put]
spread = "uniform"
least = 1
most = 9

[keyspace.scans]
spread = "constant"
size = 10
"#;

#[test]
fn a_file_of_several_keyspaces_comes_back() {
    let two = Workload::from_toml(TWO).unwrap();
    assert_eq!(Workload::from_toml(&two.to_toml().unwrap()).unwrap(), two);
    let of = |number: usize| &two.keyspaces[number];
    assert_eq!((&*of(0).name, of(0).share), ("users", 0.7));
    assert_eq!((&*of(1).name, of(1).share), ("log of events", 0.3));
    assert_eq!((of(0).load.pairs, of(1).load.pairs), (500, 2000));
    assert_eq!((of(0).load.operations, of(1).load.operations), (700, 300));
    assert_eq!((of(0).load.mix.get, of(1).load.mix.scan), (0.9, 0.5));
    assert!(of(0).load.own[1].accesses.is_some() && of(1).load.accesses.is_none());
    assert_eq!((two.pairs(), two.rate.unwrap().d), (2500, 10.0));
    assert!(two.only().is_none() && !two.counts());
    let scaled = two.scaled(0.1);
    assert_eq!((scaled.pairs(), scaled.operations), (250, 100));
    assert_eq!(scaled.keyspaces[1].share, 0.3);
    // A model is of one keyspace.
    let told = Model::from_toml(TWO).unwrap_err().to_string();
    assert!(told.contains("2 keyspaces"), "{told}");
}

#[test]
fn one_keyspace_with_a_name_keeps_it() {
    let first = TWO.split("[[keyspace]]            #").next().unwrap();
    let text = first.replace("share = 0.7", "share = 1");
    let one = Workload::from_toml(&text).unwrap();
    assert!(one.only().is_none());
    let again = one.to_toml().unwrap();
    assert!(again.contains("[[keyspace]]") && again.contains("users"));
    assert_eq!(Workload::from_toml(&again).unwrap(), one);
}

#[test]
fn a_file_of_one_keyspace_means_what_it_meant() {
    for name in presets::names() {
        let text = presets::text(name).unwrap();
        let Ok(model) = Model::from_toml(text) else {
            assert!(text.contains("[[keyspace]]"), "{name}");
            continue;
        };
        let workload = Workload::from_toml(text).unwrap();
        assert_eq!(workload.only(), Some(model.clone()));
        assert_eq!(workload.to_toml(), model.to_toml());
        assert_eq!(workload.keyspaces[0].load, model);
        assert_eq!(workload.rate, model.rate);
        let scaled = workload.scaled(0.01).only();
        assert_eq!(scaled, Some(model.scaled(0.01)));
    }
}

#[test]
fn what_is_wrong_with_keyspaces_is_told_with_name_and_line() {
    let long = format!("name = \"{}\"", "n".repeat(256));
    for (from, to, words) in [
        (
            "share = 0.3",
            "share = 0.2",
            "line 13: share of keyspace `users`: the shares of all keyspaces add up to 0.",
        ),
        (
            "share = 0.7",
            "share = 1.7",
            "line 13: share of keyspace `users`: must be from 0 to 1, and is 1.7",
        ),
        (
            "name = \"log of events\"",
            "name = \"users\"",
            "line 37: name of keyspace `users`: keyspace 1 has this name already",
        ),
        (
            "name = \"log of events\"",
            "name = \"\"",
            "line 37: name of keyspace 2: must have 1 to 255 bytes, and has 0",
        ),
        (
            "name = \"log of events\"",
            &long,
            "must have 1 to 255 bytes, and has 256",
        ),
        (
            "name = \"users\"",
            "name = \"us\\ters\"",
            "line 12: name of keyspace `us\\ters`: has the character U+0009",
        ),
        (
            "put = 0.5\nscan",
            "put = 0.4\nscan",
            "line 41: mix.get of keyspace `log of events`: all shares of the mix add up to 0.9",
        ),
        (
            "size = 24",
            "size = 7",
            "line 47: keys.size of keyspace `log of events`: must be from 8",
        ),
        (
            "most = 9",
            "most = 0",
            "line 52: values.put.most of keyspace `log of events`: must be from 1",
        ),
        (
            "b = 0.0",
            "b = 7.0",
            "line 34: accesses.put.b of keyspace `users`: must be from -4 to 0, and is 7",
        ),
        (
            "[keyspace.scans]",
            "[keyspace.scams]",
            "unknown field `scams`",
        ),
        ("pairs = 2000\n", "", "missing field `pairs`"),
        ("operations = 1000", "operations = 0", "line 3: operations"),
        ("operations = 1000", "pairs = 9", "unknown field `pairs`"),
        ("d = 10.0", "d = 1.0", "line 6: rate.a"),
        ("name = \"two\"", "name = \"\"", "line 2: name: is empty"),
    ] {
        let text = TWO.replace(from, to);
        assert_ne!(text, TWO, "{from}");
        let told = Workload::from_toml(&text).unwrap_err().to_string();
        assert!(told.contains(words), "{words}\n{told}");
    }
    let none = "format = 1\nname = \"none\"\noperations = 5\nkeyspace = []\n";
    let told = Workload::from_toml(none).unwrap_err().to_string();
    assert!(told.contains("line 4: keyspace: there are 0"), "{told}");
    let other = TWO.replace("format = 1", "format = 2");
    let found = Workload::from_toml(&other).unwrap_err();
    assert_eq!(found, ModelError::Format { found: 2 });
    // What would not be read back is not written.
    let mut two = Workload::from_toml(TWO).unwrap();
    two.keyspaces[1].name = "users".to_owned();
    assert!(two.to_toml().is_err());
}

/// Parameters with which a draw would divide by zero, wrap or name no pair.
#[test]
fn accesses_that_no_draw_can_follow_are_refused_by_field_and_line() {
    for (from, to, words) in [
        (
            "b = -0.8",
            "b = 0.1",
            "line 30: accesses.b of keyspace `users`: must be from -4 to 0",
        ),
        (
            "by = \"rank\"\nb = -0.8",
            "by = \"cumulative\"\na = 0.0\nb = 0.3",
            "line 30: accesses.a of keyspace `users`: must be from 0.000",
        ),
        (
            "by = \"rank\"\nb = -0.8",
            "by = \"cumulative\"\na = 0.1\nb = 0.0",
            "line 31: accesses.b of keyspace `users`: must be from 0.001 to 1, and is 0",
        ),
        (
            "by = \"rank\"\nb = -0.8",
            "by = \"cumulative\"\na = 0.1\nb = -0.3",
            "line 31: accesses.b of keyspace `users`: must be from 0.001 to 1, and is -0.3",
        ),
        (
            "by = \"rank\"\nb = -0.8",
            "by = \"cumulative\"\nb = 0.3",
            "line 28: accesses.a of keyspace `users`: is missing, and cumulative needs it",
        ),
        (
            "[keyspace.values.put]\nspread = \"constant\"\nsize = 100",
            "[keyspace.values.put]\nspread = \"constant\"",
            "line 24: values.put.size of keyspace `users`: is missing, and constant needs it",
        ),
    ] {
        let text = TWO.replace(from, to);
        assert_ne!(text, TWO, "{from}");
        let told = Workload::from_toml(&text).unwrap_err().to_string();
        assert!(told.contains(words), "{words}\n{told}");
    }
    let alike = TWO.replace("b = -0.8", "b = 0.0");
    assert!(Workload::from_toml(&alike).is_ok());
}
