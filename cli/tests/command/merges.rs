//! `evendb merge`, and keyspaces that are made with an operator.

use super::common::Place;

#[test]
fn operands_are_merged_by_the_keyspaces_operator() {
    let place = Place::new();
    place.run("put", &["a", "1"]).expect(0, "");
    let make = |name, operator| {
        place
            .run("keyspaces", &["--keyspace", name, "--merge", operator])
            .expect(0, "");
    };
    make("texts", "append");
    make("hits", "add-u64");
    make("tags", "union");
    let merge = |key, operand, name| {
        place
            .run("merge", &[key, operand, "--keyspace", name])
            .expect(0, "");
    };
    merge("a", "x", "texts");
    merge("a", "y", "texts");
    place
        .run("get", &["a", "--keyspace", "texts"])
        .expect(0, "xy\n");
    merge("page", "40", "hits");
    merge("page", "2", "hits");
    place
        .run("get", &["page", "--keyspace", "hits"])
        .expect(0, "42\n");
    place
        .run("get", &["page", "--keyspace", "hits", "--output", "hex"])
        .expect(0, "2a00000000000000\n");
    for tag in ["b", "a", "b"] {
        merge("page", tag, "tags");
    }
    place
        .run("get", &["page", "--keyspace", "tags", "--output", "hex"])
        .expect(0, "01610162\n");
    let changes = place.run("changes", &["--keyspace", "texts"]);
    changes.expect_code(0);
    let text = String::from_utf8(changes.out).unwrap();
    assert!(
        text.lines().all(|line| line.contains("\tmerge\ta\t")),
        "{text}"
    );
    assert_eq!(text.lines().count(), 2);
}

#[test]
fn what_cannot_be_merged_is_refused() {
    let place = Place::new();
    place.run("put", &["a", "1"]).expect(0, "");
    place
        .run("merge", &["a", "2"])
        .complains(2, "no merge operator");
    place
        .run("keyspaces", &["--keyspace", "hits", "--merge", "add-u64"])
        .expect(0, "");
    place
        .run("merge", &["a", "three", "--keyspace", "hits"])
        .complains(2, "`three` is no unsigned number of 64 bits");
    place
        .run("keyspaces", &["--keyspace", "hits", "--merge", "max"])
        .complains(2, "evendb.add-u64");
}

fn keyspace_with(place: &Place, name: &str, operator: &str) {
    place
        .run("keyspaces", &["--keyspace", name, "--merge", operator])
        .expect(0, "");
}

#[test]
fn counters_are_numbers_in_every_text_form_and_bytes_in_the_others() {
    let place = Place::new();
    place.run("put", &["a", "1"]).expect(0, "");
    keyspace_with(&place, "hits", "add-u64");
    keyspace_with(&place, "sums", "add-i64");
    for (key, value, name) in [("/k", "18446744073709551615", "hits"), ("/k", "-7", "sums")] {
        place
            .run("put", &[key, value, "--keyspace", name])
            .expect(0, "");
        place
            .run("get", &[key, "--keyspace", name])
            .expect(0, format!("{value}\n"));
        place
            .run("scan", &["--keyspace", name])
            .expect(0, format!("/k\t{value}\n"));
        let json = ["--keyspace", name, "--output", "json"];
        place
            .run("scan", &json)
            .expect(0, format!("{{\"key\":\"/k\",\"value\":{value}}}\n"));
    }
    let raw = ["--keyspace", "sums", "--output", "raw"];
    place
        .run("scan", &raw)
        .expect(0, b"/k\t\xF9\xFF\xFF\xFF\xFF\xFF\xFF\xFF\n");
    place.run("merge", &["/k", "-3", "--keyspace", "sums"]);
    let changes = place.run("changes", &["--keyspace", "sums"]).text(0);
    let told: Vec<&str> = changes
        .lines()
        .map(|line| &line[line.len() - 9..])
        .collect();
    assert_eq!(told, ["put\t/k\t-7", "rge\t/k\t-3"]);
    let changes = ["--keyspace", "sums", "--output", "json"];
    let changes = place.run("changes", &changes).text(0);
    assert!(
        changes.contains("\"keyspace\":\"sums\",\"key\":\"/k\",\"value\":-7"),
        "{changes}"
    );
    assert!(changes.contains("\"operands\":[-3]"), "{changes}");
    let raw = place
        .run("changes", &["--keyspace", "sums", "--raw"])
        .text(0);
    assert!(raw.contains("\\xf9\\xff"), "{raw}");
    place
        .run("pop", &["--keyspace", "sums"])
        .expect(0, "/k\t-10\n");
}

#[test]
fn counters_that_were_printed_are_imported_as_the_same_numbers() {
    let place = Place::new();
    place.run("put", &["a", "1"]).expect(0, "");
    keyspace_with(&place, "hits", "add-u64");
    // A value from before the operator: it is no number, and must not be taken for one.
    place
        .run("put", &["x", "7", "--keyspace", "late"])
        .expect(0, "");
    keyspace_with(&place, "hits2", "add-u64");
    for (key, value) in [("a", "0"), ("b", "18446744073709551615")] {
        place
            .run("put", &[key, value, "--keyspace", "hits"])
            .expect(0, "");
    }
    for (output, format) in [("tsv", "scan-tsv"), ("json", "scan-json")] {
        let printed = place
            .run("scan", &["--keyspace", "hits", "--output", output])
            .text(0);
        let import = ["-", "--format", format, "--keyspace", "hits2"];
        place
            .run_with_input("import", &import, printed.as_bytes())
            .complains(0, "imported 2 records");
        place
            .run_with_input("verify-import", &import, printed.as_bytes())
            .expect_code(0);
        let copied = ["--keyspace", "hits2", "--output", "hex"];
        place
            .run("scan", &copied)
            .expect(0, "61\t0000000000000000\n62\tffffffffffffffff\n");
        place
            .run("delete", &["--all", "--keyspace", "hits2"])
            .expect(0, "");
    }
    // Lines of other formats have numbers, too.
    let plain = ["-", "--keyspace", "hits2"];
    place
        .run_with_input("import", &plain, b"a\t5\nb\tsix\n")
        .complains(3, "line 2: `six` is no unsigned number of 64 bits")
        .complains(3, "imported 1 record,")
        .complains(3, "; 1 bad line\n");
    place
        .run("get", &["a", "--keyspace", "hits2"])
        .expect(0, "5\n");
    // A number of JSON is no number where nothing is added.
    let import = ["-", "--format", "scan-json"];
    place
        .run_with_input("import", &import, b"{\"key\":\"a\",\"value\":5}\n")
        .complains(3, "5 is neither a text nor");
    place
        .run(
            "keyspaces",
            &["--keyspace", "late", "--merge", "add-u64", "--change"],
        )
        .expect(0, "");
    place
        .run("scan", &["--keyspace", "late"])
        .expect(0, "x\t\\v7\n");
    let import = ["-", "--format", "scan-tsv", "--keyspace", "hits2"];
    place
        .run_with_input("import", &import, b"x\t\\v7\n")
        .complains(3, "1 byte where a number has 8");
}

#[test]
fn a_put_that_the_operator_cannot_read_is_refused() {
    let place = Place::new();
    place.run("put", &["a", "1"]).expect(0, "");
    keyspace_with(&place, "hits", "add-u64");
    keyspace_with(&place, "tags", "union");
    for wrong in ["five", "-1", "", "1.5"] {
        place
            .run("put", &["/k", wrong, "--keyspace", "hits"])
            .complains(2, "is no unsigned number of 64 bits");
    }
    place
        .run("get", &["/k", "--keyspace", "hits"])
        .expect(4, "");
    place
        .run("put", &["/k", "5", "--keyspace", "hits"])
        .expect(0, "");
    place
        .run("get", &["/k", "--keyspace", "hits", "--output", "hex"])
        .expect(0, "0500000000000000\n");
    // An element of a set, as for a merge.
    place
        .run("put", &["t", "b", "--keyspace", "tags"])
        .expect(0, "");
    place
        .run("merge", &["t", "a", "--keyspace", "tags"])
        .expect(0, "");
    place
        .run("get", &["t", "--keyspace", "tags", "--output", "hex"])
        .expect(0, "01610162\n");
}

#[test]
fn a_read_that_the_operator_fails_says_key_and_keyspace() {
    let place = Place::new();
    place
        .run("put", &["/k", "five", "--keyspace", "hits"])
        .expect(0, "");
    let change = ["--keyspace", "hits", "--merge", "add-u64", "--change"];
    place.run("keyspaces", &change).expect(0, "");
    place
        .run("merge", &["/k", "1", "--keyspace", "hits"])
        .expect(0, "");
    for command in [&["get", "/k"][..], &["scan"]] {
        place
            .run(
                command[0],
                &[&command[1..], &["--keyspace", "hits"]].concat(),
            )
            .complains(1, "in the keyspace \"hits\"")
            .complains(1, "for the key b\"/k\": 4 bytes where a number has 8");
    }
    place
        .run("put", &["/k", "5", "--keyspace", "hits"])
        .expect(0, "");
    place
        .run("get", &["/k", "--keyspace", "hits"])
        .expect(0, "5\n");
}
