//! The command on keyspaces of both layouts: what works on both, which keyspace has which layout,
//! and databases of an engine of an earlier release.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;

use common::{Outcome, Place, evendb};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const LAYOUTS: [&str; 2] = ["chunks", "guards"];

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

/// A database of this layout with the records `k00` to `k29`, and `x` in the keyspace `other`.
fn filled(layout: &str) -> Place {
    let place = Place::new();
    let input: String = (0..30).map(|n| format!("k{n:02}\t{n}\n")).collect();
    place.file("in.tsv", input);
    place
        .run("import", &["in.tsv", "--layout", layout])
        .complains(0, "imported 30 records");
    let other = ["x", "in another", "--keyspace", "other", "--layout", layout];
    place.run("put", &other).expect(0, "");
    place
}

/// The keyspaces with their layouts, as the command tells them.
fn told(place: &Place) -> Vec<(String, String)> {
    let listed = place.run("keyspaces", &["--json"]).text(0);
    let listed = listed.lines().map(|line| {
        let listed: serde_json::Value = serde_json::from_str(line).unwrap();
        let field = |name: &str| listed[name].as_str().unwrap().to_owned();
        (field("keyspace"), field("layout"))
    });
    listed.collect()
}

#[test]
fn a_keyspace_keeps_the_layout_with_which_it_was_made() {
    for layout in LAYOUTS {
        let place = filled(layout);
        let both = ["default", "other"].map(|name| (name.to_owned(), layout.to_owned()));
        assert_eq!(told(&place), both);
        place.run("get", &["k07"]).expect(0, "7\n");
        let same = ["k07", "7", "--layout", layout];
        place.run("put", &same).expect(0, "");
        let other = LAYOUTS.into_iter().find(|other| *other != layout).unwrap();
        for arguments in [
            &["put", "k07", "new"][..],
            &["import", "in.tsv"],
            &["ingest", "in.tsv"],
            &["put", "x", "new", "--keyspace", "other"],
        ] {
            let asked = [&arguments[1..], &["--layout", other]].concat();
            let what = format!("has the layout {layout}, and --layout says {other}");
            place.run(arguments[0], &asked).complains(2, &what);
        }
        place.run("get", &["k07"]).expect(0, "7\n");
        let change = ["--keyspace", "other", "--layout", other, "--change"];
        let what = format!("has the layout {layout}, which cannot be changed");
        place.run("keyspaces", &change).complains(2, &what);
        // A new keyspace may have another.
        let third = ["y", "1", "--keyspace", "third", "--layout", other];
        place.run("put", &third).expect(0, "");
        let fourth = ["--keyspace", "fourth", "--layout", other];
        place.run("keyspaces", &fourth).expect(0, "");
        let new = ["fourth", "third"].map(|name| (name.to_owned(), other.to_owned()));
        let all = told(&place);
        assert!(new.iter().all(|one| all.contains(one)), "{all:?}");
        assert!(both.iter().all(|one| all.contains(one)), "{all:?}");
        let stats = place.run("stats", &[]).text(0);
        // Nothing was counted, so no rate is made up.
        let begin = "closed: no process writes to the database";
        assert!(stats.starts_with(begin), "{stats}");
        assert!(!stats.contains("hit rate"), "{stats}");
    }
}

#[test]
fn chunks_are_made_unless_guards_are_asked_for() {
    let place = Place::new();
    place.run("put", &["a", "1"]).expect(0, "");
    assert_eq!(told(&place), [("default".to_owned(), "chunks".to_owned())]);

    let place = Place::new();
    for (option, layout, what) in [
        ("--layout", "heap", "it is chunks or guards"),
        ("--engine", "flsm", "unexpected argument '--engine'"),
    ] {
        place
            .run("put", &["a", "1", option, layout])
            .complains(2, what);
    }
    for command in [&["get", "a"][..], &["scan"], &["compact"], &["delete", "a"]] {
        let asked = [&command[1..], &["--layout", "guards"]].concat();
        let what = "unexpected argument '--layout'";
        place.run(command[0], &asked).complains(2, what);
    }
    assert!(!place.path("db").exists());
}

#[test]
fn what_works_on_both_is_the_same_on_both() {
    for layout in LAYOUTS {
        let place = filled(layout);
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
        assert_eq!(size["records"], 30, "{layout}");
        assert!(size["disk_bytes"].as_u64().unwrap() > 0, "{layout}");
        place.run("pop", &[]).expect(0, "k00\t0\n");
        place.run("delete", &["--prefix", "k1"]).expect(0, "");
        place.run("scan", &["--count"]).expect(0, "19\n");
    }
}

#[test]
fn an_export_of_either_layout_is_ingested_and_imported_as_text_by_both() {
    for layout in LAYOUTS {
        let place = filled(layout);
        let exported = place.run("export", &["exported"]);
        exported.complains(0, "exported 30 records");
        place.run("export", &["exported"]).complains(1, "not empty");
        let at = |name: &str| place.path(name).to_str().unwrap().to_owned();
        let text = place.run("scan", &["--output", "tsv"]).text(0);
        place.file("text", &text);
        for other in LAYOUTS {
            let (copy, of_text) = (at(other), at(&format!("text of {other}")));
            let ingest = ["ingest", &copy, &at("exported"), "--layout", other];
            run(&ingest).complains(0, "ingested 30 records");
            run(&["verify-import", &copy, &at("in.tsv")]).expect_code(0);
            run(&[
                "import",
                &of_text,
                &at("text"),
                "--format",
                "scan-tsv",
                "--layout",
                other,
            ])
            .complains(0, "imported 30 records");
            run(&["scan", &of_text, "--output", "tsv"]).expect(0, &text);
        }
    }
}

#[test]
fn readers_change_nothing_and_read_side_by_side() {
    let place = filled("guards");
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

/// A database of the engine flsm of an earlier release is refused by every command, which names the
/// engine and the way to bring the records over.
#[test]
fn a_database_of_an_engine_of_an_earlier_release_is_refused_by_name() {
    let place = Place::new();
    place.file("in.tsv", "a\t1\n");
    place.file("key", "0".repeat(64));
    fs::create_dir(place.path("db")).unwrap();
    place.file("db/LOG-000003", "records");
    place.file("db/TABLE-000002", "more of them");
    // Also if the file that says it is damaged.
    for current in ["EVENCURF and the rest", "damaged"] {
        place.file("db/CURRENT", current);
        let before = files(&place.path("db"));
        for arguments in [
            &["get", "a"][..],
            &["put", "a", "1"],
            &["put", "a", "1", "--layout", "guards"],
            &["merge", "a", "1"],
            &["delete", "a"],
            &["delete", "--all"],
            &["pop"],
            &["scan"],
            &["size"],
            &["keyspaces"],
            &["keyspaces", "--keyspace", "c", "--compression", "lz4"],
            &["import", "in.tsv"],
            &["ingest", "in.tsv"],
            &["verify-import", "in.tsv"],
            &["export", "new"],
            &["backup", "new"],
            &["changes"],
            &["stats"],
            &["stats", "--watch"],
            &["compact"],
            &["verify"],
            &["dump", "current"],
            &["repair", "--into", "new"],
            &["repair", "--accept-log-loss"],
            &["rotate-key", "--new-key-file", "key"],
        ] {
            let refused = place.run(arguments[0], &arguments[1..]);
            let refused = refused.complains(1, "was made by EvenDB's engine flsm");
            assert!(
                refused
                    .error
                    .contains("`evendb export` of an earlier release")
            );
        }
        assert_eq!(files(&place.path("db")), before);
        assert!(!place.path("new").exists());
    }
}

#[test]
fn both_layouts_are_verified_and_dumped() {
    for layout in LAYOUTS {
        let place = filled(layout);
        let text = place.run("verify", &[]).text(0);
        assert!(text.contains("sound; 0 warnings"), "{layout}: {text}");
        let json = place.run("verify", &["--json"]).text(0);
        let json: serde_json::Value = serde_json::from_str(json.trim_end()).unwrap();
        assert_eq!(json["sound"], true, "{layout}: {json}");
        assert!(json["checked"]["bytes"].as_u64().unwrap() > 0, "{json}");
        for what in ["current", "manifest", "commit-log"] {
            let items = place.run("dump", &[what, "--json"]).text(0);
            assert!(items.lines().count() > 0, "{layout} {what}");
        }
    }
}

/// The same operations recorded on either layout give the same answers on both.
#[test]
fn a_bench_is_recorded_on_either_layout_and_replayed_on_both() {
    for layout in LAYOUTS {
        let place = Place::new();
        let [trace, dir, result] =
            ["trace", "bench", "result"].map(|name| place.path(name).to_str().unwrap().to_owned());
        let done = run(&[
            "bench",
            "--layout",
            layout,
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
        assert_eq!(report["settings"]["layout"], layout);
        assert!(report["settings"]["memory_bytes"].as_u64().unwrap() > 0);
        let listed = run(&["keyspaces", &dir, "--json"]).text(0);
        let made = format!("{{\"keyspace\":\"default\",\"layout\":\"{layout}\",");
        assert!(listed.starts_with(&made), "{listed}");
        let info = run(&["trace", "info", &trace, "--json"]).text(0);
        let info: serde_json::Value = serde_json::from_str(&info).unwrap();
        assert_eq!(info["is_whole"], true);
        assert!(info["operations"].as_u64().unwrap() > 2000, "{info}");
        for store in ["evendb", "guards"] {
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
fn a_model_is_run_and_recorded_on_guards() {
    let place = Place::new();
    let [trace, dir] =
        ["trace", "stores"].map(|name| place.path(name).to_str().unwrap().to_owned());
    let done = run(&[
        "mixgraph",
        "zippydb",
        "--stores",
        "guards",
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
    assert!(printed.contains("guards"), "{printed}");
    let info = run(&["trace", "info", &trace, "--json"]).text(0);
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert!(info["operations"].as_u64().unwrap() >= 2000, "{info}");
}
