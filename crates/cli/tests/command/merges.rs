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
        .complains(2, "no number");
    place
        .run("keyspaces", &["--keyspace", "hits", "--merge", "max"])
        .complains(2, "evendb.add-u64");
}
