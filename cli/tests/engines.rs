//! The command on databases of both engines: what works on both, which engine opens which database,
//! and what the second one refuses.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;

use common::{Outcome, Place, evendb};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const ENGINES: [&str; 2] = ["evendb", "flsm"];

/// Runs the command with only these arguments.
fn run(arguments: &[&str]) -> Outcome {
    Outcome::of(evendb().args(arguments).output().unwrap())
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap();
    let files = entries.map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs::read(path).unwrap())
    });
    files.collect()
}

/// A database of this engine with the records `k00` to `k29`, and `x` in the keyspace `other`.
fn filled(engine: &str) -> Place {
    let place = Place::new();
    let input: String = (0..30).map(|n| format!("k{n:02}\t{n}\n")).collect();
    place.file("in.tsv", input);
    place
        .run("import", &["in.tsv", "--engine", engine])
        .complains(0, "imported 30 records");
    place
        .run("put", &["x", "in another", "--keyspace", "other"])
        .expect(0, "");
    place
}

#[test]
fn a_database_is_opened_by_the_engine_that_made_it() {
    for engine in ENGINES {
        let place = filled(engine);
        place.run("get", &["k07"]).expect(0, "7\n");
        place.run("get", &["absent"]).expect(4, "");
        let same = ["k07", "--engine", engine];
        place.run("get", &same).expect(0, "7\n");
        let stats = place.run("stats", &[]).text(0);
        // Nothing was counted, so no rate is made up.
        let begin = format!("engine: {engine}\nclosed: no process writes to the database");
        assert!(stats.starts_with(&begin), "{stats}");
        assert!(!stats.contains("hit rate"), "{stats}");

        let other = ENGINES.into_iter().find(|other| *other != engine).unwrap();
        let before = files(&place.path("db"));
        for arguments in [
            &["get", "k07"][..],
            &["put", "k07", "new"],
            &["scan"],
            &["stats"],
            &["compact"],
            &["import", "in.tsv"],
            &["merge", "k07", "1"],
        ] {
            let told = place.run(
                arguments[0],
                &[&arguments[1..], &["--engine", other]].concat(),
            );
            let told = told.complains(2, &format!("was made by the engine {engine}"));
            assert!(told.error.contains(&format!("--engine says {other}")));
        }
        assert_eq!(files(&place.path("db")), before);
    }
}

#[test]
fn evendb_makes_a_database_unless_another_engine_is_asked_for() {
    let place = Place::new();
    place.run("put", &["a", "1"]).expect(0, "");
    let current = fs::read(place.path("db/CURRENT")).unwrap();
    assert!(current.starts_with(b"EVENCUR5"), "{current:?}");

    let place = Place::new();
    place
        .run("put", &["a", "1", "--engine", "flsm"])
        .expect(0, "");
    let current = fs::read(place.path("db/CURRENT")).unwrap();
    assert!(current.starts_with(b"EVENCURF"), "{current:?}");

    let place = Place::new();
    for (engine, told) in [
        ("rocksdb", "there are the engines evendb and flsm"),
        ("", "engines"),
    ] {
        place
            .run("put", &["a", "1", "--engine", engine])
            .complains(2, told);
    }
    for command in [
        &["get", "a"][..],
        &["scan"],
        &["stats"],
        &["compact"],
        &["delete", "a"],
    ] {
        let arguments = [&command[1..], &["--engine", "flsm"]].concat();
        place
            .run(command[0], &arguments)
            .complains(1, "no database");
    }
    assert!(!place.path("db").exists());
    // No database is made in a directory with other files.
    fs::create_dir(place.path("db")).unwrap();
    place.file("db/notes.txt", "mine");
    place
        .run("put", &["a", "1", "--engine", "flsm"])
        .complains(1, "has other files");
    assert_eq!(files(&place.path("db")).len(), 1);
}

#[test]
fn what_both_engines_can_is_the_same_on_both() {
    for engine in ENGINES {
        let place = filled(engine);
        place.run("scan", &["--count"]).expect(0, "30\n");
        place
            .run("scan", &["--prefix", "k1", "--count"])
            .expect(0, "10\n");
        place
            .run("scan", &["--from", "k27"])
            .expect(0, "k27\t27\nk28\t28\nk29\t29\n");
        place
            .run("scan", &["--to", "k02", "--reverse"])
            .expect(0, "k01\t1\nk00\t0\n");
        let keys = [
            "--prefix",
            "k1",
            "--from",
            "k18",
            "--to",
            "k25",
            "--keys-only",
        ];
        place.run("scan", &keys).expect(0, "k18\nk19\n");
        place
            .run("scan", &["--from", "k2", "--to", "k1", "--count"])
            .expect(0, "0\n");
        place
            .run("scan", &["--reverse", "--limit", "2", "--output", "hex"])
            .expect(0, "6b3239\t3239\n6b3238\t3238\n");
        let json = ["--limit", "1", "--output", "json"];
        place
            .run("scan", &json)
            .expect(0, "{\"key\":\"k00\",\"value\":\"0\"}\n");

        place
            .run("put", &["k07", "new", "--durability", "sync"])
            .expect(0, "");
        place.run("delete", &["k08"]).expect(0, "");
        place.run("delete", &["never there"]).expect(0, "");
        place.run("get", &["k08"]).expect(4, "");
        place
            .run("verify-import", &["in.tsv"])
            .complains(1, "record 7: key `k07` has value `new`");
        place.run("put", &["k07", "7"]).expect(0, "");
        place.run("put", &["k08", "8"]).expect(0, "");
        let verified = place
            .run("verify-import", &["in.tsv", "--check-prefix", "k1"])
            .text(0);
        assert!(
            verified.contains("prefix scan   10 records equal"),
            "{verified}"
        );

        let other = ["--keyspace", "other"];
        place.run("scan", &other).expect(0, "x\tin another\n");
        place
            .run("get", &["k07", "--keyspace", "none"])
            .complains(1, "no keyspace `none`");
        let listed = place.run("keyspaces", &["--json"]).text(0);
        let listed: Vec<serde_json::Value> = listed
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let records = |at: usize| {
            (
                listed[at]["keyspace"].as_str().unwrap(),
                &listed[at]["records"],
            )
        };
        assert_eq!(records(1), ("other", &1.into()), "{engine}: {listed:?}");

        let compacted = place.run("compact", &["--json"]).text(0);
        let compacted: serde_json::Value = serde_json::from_str(&compacted).unwrap();
        assert!(
            compacted["bytes_after"].as_u64().unwrap() > 0,
            "{compacted}"
        );
        place.run("compact", &["--prefix", "k1"]).expect_code(0);
        place.run("scan", &["--count"]).expect(0, "30\n");
        let size: serde_json::Value =
            serde_json::from_str(&place.run("size", &["--json"]).text(0)).unwrap();
        assert_eq!(size["records"], 30, "{engine}");
        assert!(size["disk_bytes"].as_u64().unwrap() > 0, "{engine}");
    }
}

#[test]
fn an_export_of_either_engine_is_ingested_by_the_first_and_imported_as_text_by_both() {
    for engine in ENGINES {
        let place = filled(engine);
        let exported = place.run("export", &["exported"]);
        exported.complains(0, "exported 30 records");
        place.run("export", &["exported"]).complains(1, "not empty");
        let [from, copy] =
            ["exported", "copy"].map(|name| place.path(name).to_str().unwrap().to_owned());
        run(&["ingest", &copy, &from]).complains(0, "ingested 30 records");
        run(&[
            "verify-import",
            &copy,
            place.path("in.tsv").to_str().unwrap(),
        ])
        .expect_code(0);
        let text = place.run("scan", &["--output", "tsv"]).text(0);
        for other in ENGINES {
            let (copy, text_file) = (place.path(other), place.file("text", &text));
            let copy = copy.to_str().unwrap();
            let text_file = text_file.to_str().unwrap();
            run(&[
                "import", copy, text_file, "--format", "scan-tsv", "--engine", other,
            ])
            .complains(0, "imported 30 records");
            run(&["scan", copy, "--output", "tsv"]).expect(0, &text);
        }
    }
}

#[test]
fn statistics_of_the_second_engine_have_its_levels() {
    let place = filled("flsm");
    place.run("compact", &[]).expect_code(0);
    let text = place.run("stats", &[]).text(0);
    assert!(text.contains("most runs of a guard"), "{text}");
    assert!(text.contains("keyspaces: default, other\n"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&place.run("stats", &["--json"]).text(0)).unwrap();
    assert_eq!(json["engine"], "flsm");
    let levels = json["levels"].as_array().unwrap();
    assert_eq!(
        (levels.len(), &levels[6]["tables"]),
        (7, &2.into()),
        "{json}"
    );
    assert_eq!(levels[6]["runs_max"], 1);
    assert_eq!(
        (&json["tables"], &json["written.user"]),
        (&2.into(), &0.into())
    );
    assert_eq!(json["keyspaces"], serde_json::json!(["default", "other"]));
}

#[test]
fn readers_change_nothing_and_read_side_by_side() {
    let place = filled("flsm");
    let before = files(&place.path("db"));
    for arguments in [
        &["get", "k07"][..],
        &["scan", "--count"],
        &["stats"],
        &["size"],
        &["keyspaces"],
    ] {
        place.run(arguments[0], &arguments[1..]).expect_code(0);
    }
    // A command that waits at its pipe holds the lock, as a reader.
    let rows: String = (0..50_000).map(|n| format!("key{n:08}\t{n}\n")).collect();
    place.file("more.tsv", rows);
    assert_eq!(files(&place.path("db")), before);
    place
        .run("import", &["more.tsv"])
        .complains(0, "imported 50,000");
    let mut reader = evendb();
    reader.arg("scan").arg(place.path("db"));
    let mut reader = reader.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut first = [0; 1];
    std::io::Read::read_exact(reader.stdout.as_mut().unwrap(), &mut first).unwrap();
    place.run("get", &["k07"]).expect(0, "7\n");
    place
        .run("put", &["k07", "1"])
        .complains(1, "only while none reads");
    drop(reader.stdout.take());
    reader.wait().unwrap();
}

#[test]
fn what_the_second_engine_lacks_is_refused_before_anything_changes() {
    let place = filled("flsm");
    place.file("key", "0".repeat(64));
    let before = files(&place.path("db"));
    for (arguments, what) in [
        (&["put", "a", "1", "--ttl", "5"][..], "values that expire"),
        (&["put", "a", "1", "--until", "5"], "values that expire"),
        (&["import", "in.tsv", "--ttl", "5"], "values that expire"),
        (&["merge", "a", "1"], "merges"),
        (&["pop"], "pop"),
        (&["delete", "--prefix", "k1"], "deletes of many keys"),
        (&["delete", "--all"], "deletes of many keys"),
        (&["ingest", "in.tsv"], "ingest"),
        (&["backup", "backups"], "backups"),
        (&["changes"], "record of changes"),
        (&["changes", "--follow"], "record of changes"),
        (&["stats", "--watch"], "figures that it writes"),
        (
            &["keyspaces", "--keyspace", "c", "--compression", "lz4"],
            "keyspaces with options",
        ),
        (&["rotate-key", "--new-key-file", "key"], "encryption"),
        (&["get", "k07", "--key-file", "key"], "encryption"),
        (&["put", "k07", "1", "--key-file", "key"], "encryption"),
        (&["repair", "--into", "saved"], "repair"),
        (&["repair", "--accept-log-loss"], "repair"),
    ] {
        let told = place.run(arguments[0], &arguments[1..]);
        let told = told.complains(1, &format!("the engine flsm has no {what}"));
        assert!(told.error.contains("db: "), "{}", told.error);
    }
    assert_eq!(files(&place.path("db")), before);

    // Nothing is made for it either.
    let place = Place::new();
    place.file("in.tsv", "a\t1\n");
    for arguments in [
        &["put", "a", "1", "--ttl", "5", "--engine", "flsm"][..],
        &["ingest", "in.tsv", "--engine", "flsm"],
    ] {
        place
            .run(arguments[0], &arguments[1..])
            .complains(1, "the engine flsm has no ");
    }
    let bench = place.path("bench");
    for (option, what) in [
        (&["--transactions"][..], "transactions"),
        (&["--space-amplification", "2"], "limit of its size"),
        (&["--values-apart-from", "4KiB"], "values apart"),
    ] {
        let dir = [
            "bench",
            "--engine",
            "flsm",
            "--dir",
            bench.to_str().unwrap(),
        ];
        run(&[&dir, option].concat()).complains(1, &format!("the engine flsm has no {what}"));
    }
    assert!(!place.path("db").exists() && !bench.exists());
}

#[test]
fn both_engines_are_verified_and_dumped() {
    for engine in ENGINES {
        let place = filled(engine);
        let text = place.run("verify", &[]).text(0);
        assert!(text.contains("sound; 0 warnings"), "{engine}: {text}");
        let json = place.run("verify", &["--json"]).text(0);
        let json: serde_json::Value = serde_json::from_str(json.trim_end()).unwrap();
        assert_eq!(json["sound"], true, "{engine}: {json}");
        assert!(json["checked"]["bytes"].as_u64().unwrap() > 0, "{json}");
        for what in ["current", "manifest", "commit-log"] {
            let items = place.run("dump", &[what, "--json"]).text(0);
            assert!(items.lines().count() > 0, "{engine} {what}");
        }
    }
    let place = filled("flsm");
    // The last put; imported records are in tables.
    let log = place.run("dump", &["commit-log"]).text(0);
    assert!(log.contains("records=1"), "{log}");
    place.run("compact", &[]).expect_code(0);
    let trees = place.run("dump", &["trees"]).text(0);
    assert!(trees.contains("other"), "{trees}");
    for (arguments, what) in [
        (&["chunk", "1"][..], "chunks"),
        (&["log", "1"], "logs of chunks"),
        (&["kept-changes"], "record of changes"),
    ] {
        let told = format!("the engine flsm has no {what}");
        place.run("dump", arguments).complains(1, &told);
    }
    filled("evendb")
        .run("dump", &["trees"])
        .complains(1, "the engine evendb has no trees");
}

/// The second engine keeps no types of keys: each command is given them, and says so when it makes
/// such keys.
#[test]
fn key_types_are_given_to_each_command_on_the_second_engine() {
    let place = Place::new();
    place.file("in.csv", "app,time,event\nb,9,x\na,10,y\na,-2,z\n");
    let import = [
        "in.csv",
        "--format",
        "csv",
        "--key-columns",
        "app,time:i64",
        "--value-column",
        "event",
        "--engine",
        "flsm",
    ];
    let types = "give --key-types str,i64";
    place.run("import", &import).complains(0, types);
    let typed = ["--key-types", "str,i64", "--output", "tsv"];
    place
        .run("scan", &typed)
        .expect(0, "a\t-2\tz\na\t10\ty\nb\t9\tx\n");
    place
        .run("get", &["a,10", "--key-types", "str,i64"])
        .expect(0, "y\n");
    place.run("get", &["a,10"]).expect(4, "");
}

#[test]
fn damage_is_told_and_no_database_is_made_over_it() {
    let place = filled("flsm");
    place.run("compact", &[]).expect_code(0);
    let current = place.path("db/CURRENT");
    let bytes = fs::read(&current).unwrap();
    fs::remove_file(&current).unwrap();
    place.run("get", &["k07"]).complains(5, "CURRENT");
    place.run("put", &["k07", "1"]).complains(5, "CURRENT");
    place
        .run("put", &["k07", "1", "--engine", "evendb"])
        .complains(2, "was made by the engine flsm");
    fs::write(&current, &bytes[..20]).unwrap();
    place.run("scan", &[]).complains(5, "CURRENT");
    fs::write(&current, &bytes).unwrap();
    let tables = files(&place.path("db"));
    let tables_alone = tables.iter().filter(|(name, _)| name.starts_with("TABLE-"));
    // The table with the records of the keyspace `other` is shorter.
    let (table, _) = tables_alone.max_by_key(|(_, bytes)| bytes.len()).unwrap();
    let path = place.path("db").join(table);
    let mut damaged = tables[table].clone();
    damaged[20] ^= 1;
    fs::write(path, damaged).unwrap();
    place.run("verify", &[]).expect_code(5);
    let told = place.run("verify", &["--json"]);
    assert!(
        String::from_utf8_lossy(&told.out).contains(table),
        "{told:?}"
    );
    let told = place.run("scan", &[]).complains(5, table);
    assert!(!told.error.contains("panicked"), "{}", told.error);
}

/// The same operations recorded on either engine give the same answers on both.
#[test]
fn a_bench_is_recorded_on_either_engine_and_replayed_on_both() {
    for engine in ENGINES {
        let place = Place::new();
        let [trace, dir, result] =
            ["trace", "bench", "result"].map(|name| place.path(name).to_str().unwrap().to_owned());
        let done = run(&[
            "bench",
            "--engine",
            engine,
            "--dir",
            &dir,
            "--size",
            "100KiB",
            "--value-bytes",
            "100",
            "--ops",
            "500",
            "--mixes",
            "P,A,E10,F",
            "--distributions",
            "uniform",
            "--threads",
            "1",
            "--trace",
            &trace,
            "--json",
            &result,
        ]);
        let error = done.error.clone();
        let printed = done.text(0);
        assert!(error.contains("trace: "), "{error}");
        assert!(
            printed.contains("every answer checked and right"),
            "{printed}"
        );
        let report: serde_json::Value =
            serde_json::from_slice(&fs::read(&result).unwrap()).unwrap();
        assert_eq!(report["settings"]["engine"], engine);
        assert!(report["settings"]["memory_bytes"].as_u64().unwrap() > 0);
        let stats = run(&["stats", &dir]).text(0);
        assert!(stats.starts_with(&format!("engine: {engine}\n")), "{stats}");
        let info = run(&["trace", "info", &trace, "--json"]).text(0);
        let info: serde_json::Value = serde_json::from_str(&info).unwrap();
        assert_eq!(info["is_whole"], true);
        assert!(info["operations"].as_u64().unwrap() > 2000, "{info}");
        for store in ENGINES {
            // No report takes the place of another.
            fs::remove_file(&result).unwrap();
            run(&["replay", &trace, "--store", store, "--json", &result]).expect_code(0);
            let report: serde_json::Value =
                serde_json::from_slice(&fs::read(&result).unwrap()).unwrap();
            assert!(report["compared"].as_u64().unwrap() > 200, "{report}");
            let differences = report["differences"].as_object().unwrap();
            assert!(differences.values().all(|count| *count == 0), "{report}");
        }
    }
}

#[test]
fn a_model_is_run_and_recorded_on_the_second_engine() {
    let place = Place::new();
    let [trace, dir] =
        ["trace", "stores"].map(|name| place.path(name).to_str().unwrap().to_owned());
    let done = run(&[
        "mixgraph",
        "zippydb",
        "--stores",
        "flsm",
        "--dir",
        &dir,
        "--quick",
        "--rounds=1",
        "--operations=2000",
        "--allocation=all-dist",
        "--trace",
        &trace,
    ]);
    let printed = done.text(0);
    assert!(printed.contains("flsm"), "{printed}");
    let info = run(&["trace", "info", &trace, "--json"]).text(0);
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert!(info["operations"].as_u64().unwrap() >= 2000, "{info}");
}
