use super::bare::{BareTables, bare, meta};
use super::verify::check;
use super::*;
use crate::manifest::edit::Place;
use evendb_storage::table::TableMeta;
use proptest::prelude::*;

pub(super) fn guard(key: &str, level: u8) -> GuardKey {
    GuardKey {
        key: key.as_bytes().into(),
        level: Level(level),
    }
}

fn add(level: u8, fragments: &[&Fragment]) -> TreeEdit {
    let added = fragments.iter().map(|&own| (Level(level), own.clone()));
    TreeEdit {
        added: added.collect(),
        ..TreeEdit::default()
    }
}

fn remove(level: u8, fragment: &Fragment) -> TreeEdit {
    TreeEdit {
        removed: vec![(Level(level), fragment.clone())],
        ..TreeEdit::default()
    }
}

fn choose(keys: &[(&str, u8)]) -> TreeEdit {
    TreeEdit {
        guards: keys.iter().map(|(key, level)| guard(key, *level)).collect(),
        ..TreeEdit::default()
    }
}

/// The guards of a level and their tables, as `low: id id | low: id`, and behind them
/// the chosen keys.
fn text(tree: &Tree, level: u8) -> String {
    let guards = tree.guards(Level(level));
    let key = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    let list: Vec<String> = guards
        .all()
        .iter()
        .map(|guard| {
            let ids = guard.fragments.iter().map(|own| format!(" {}", own.id().0));
            format!("{}:{}", key(&guard.low), ids.collect::<String>())
        })
        .collect();
    let chosen = guards.chosen().iter().map(|own| format!(" +{}", key(own)));
    list.join(" | ") + &chosen.collect::<String>()
}

fn tree_of(edits: &[TreeEdit]) -> Tree {
    let mut tree = Tree::default();
    for edit in edits {
        tree.apply(edit).expect("an edit that fits");
    }
    tree
}

#[test]
fn a_chosen_guard_is_committed_when_no_table_straddles_it() {
    let (wide, left, right) = (
        bare(1, 1, "a", "z"),
        bare(2, 2, "a", "c"),
        bare(3, 2, "m", "p"),
    );
    let mut tree = tree_of(&[
        add(6, &[&wide, &left, &right]),
        choose(&[("m", 6), ("d", 5)]),
    ]);
    assert_eq!(text(&tree, 6), ": 2 3 1 +d +m");
    assert_eq!(text(&tree, 5), ": | d:");
    let before = tree.clone();
    tree.apply(&remove(6, &wide)).unwrap();
    assert_eq!(text(&tree, 6), ": 2 | d: | m: 3");
    assert_eq!(text(&before, 6), ": 2 3 1 +d +m");
}

/// The table's writer started before the guards were chosen.
#[test]
fn a_table_that_straddles_guards_makes_them_chosen_again() {
    let (left, right) = (bare(1, 1, "a", "c"), bare(2, 1, "e", "z"));
    let (late, newer) = (bare(3, 3, "b", "f"), bare(4, 4, "e", "e"));
    let mut tree = tree_of(&[
        choose(&[("d", 6), ("f", 6), ("y", 6)]),
        add(6, &[&left, &newer]),
        add(6, &[&right]),
    ]);
    assert_eq!(text(&tree, 6), ": 1 | d: 4 2 +f +y");
    tree.apply(&add(6, &[&late])).unwrap();
    assert_eq!(text(&tree, 6), ": 4 3 1 2 +d +f +y");
    tree.apply(&remove(6, &late)).unwrap();
    assert_eq!(text(&tree, 6), ": 1 | d: 4 2 +f +y");
}

#[test]
fn an_edit_may_remove_what_straddles_and_add_what_was_cut() {
    let wide = bare(1, 1, "a", "z");
    let tree = tree_of(&[
        add(6, &[&wide]),
        choose(&[("m", 6)]),
        TreeEdit {
            removed: vec![(Level(6), wide)],
            ..add(6, &[&bare(2, 1, "a", "l"), &bare(3, 1, "m", "z")])
        },
    ]);
    assert_eq!(text(&tree, 6), ": 2 | m: 3");
}

/// The ids of the tables of the chains that may have a key, in the order of chains.
fn asked(tree: &Tree, key: &str) -> Vec<u64> {
    let all = tree.chains().iter().flat_map(|chain| chain.iter());
    let covers = all.filter(|table| table.part.meta.meets(key.as_bytes(), key.as_bytes()));
    covers.map(|table| table.part.table.0).collect()
}

/// The example from PebblesDB's slides.
#[test]
fn a_get_looks_under_one_guard_of_each_level() {
    let of = |id: u64, min: &str, max: &str| bare(id, id, min, max);
    let level1 = [
        of(10, "01", "12"),
        of(11, "15", "59"),
        of(12, "77", "87"),
        of(13, "82", "95"),
    ];
    let level2 = [
        of(1, "02", "08"),
        of(2, "16", "32"),
        of(3, "15", "23"),
        of(4, "45", "65"),
        of(5, "70", "90"),
        of(6, "96", "99"),
    ];
    let tree = tree_of(&[
        choose(&[("15", 1), ("70", 1), ("40", 2), ("95", 2)]),
        add(1, &level1.each_ref()),
        add(2, &level2.each_ref()),
    ]);
    assert_eq!(text(&tree, 1), ": 10 | 15: 11 | 70: 13 12");
    assert_eq!(text(&tree, 2), ": 1 | 15: 3 2 | 40: 4 | 70: 5 | 95: 6");
    assert_eq!(asked(&tree, "23"), [11, 3, 2]);
    let chains = tree.chains().iter().map(|chain| {
        let ids = chain.iter().map(|table| table.part.table.0);
        ids.collect::<Vec<_>>()
    });
    let expected: [&[u64]; 4] = [&[10, 11, 13], &[12], &[1, 3, 4, 5, 6], &[2]];
    assert_eq!(chains.collect::<Vec<_>>(), expected);
}

#[test]
fn a_run_of_several_tables_is_in_one_chain() {
    let tree = tree_of(&[
        choose(&[("m", 6)]),
        add(6, &[&bare(1, 1, "a", "c"), &bare(2, 1, "d", "f")]),
        add(6, &[&bare(3, 2, "e", "e"), &bare(4, 1, "m", "p")]),
    ]);
    assert_eq!(text(&tree, 6), ": 3 1 2 | m: 4");
    let lens = tree.chains().iter().map(|chain| chain.len());
    assert_eq!(lens.collect::<Vec<_>>(), [2, 2]);
    assert_eq!(asked(&tree, "e"), [3, 2]);
    assert_eq!(asked(&tree, "p"), [4]);
    assert!(Tree::default().chains().is_empty());
}

#[test]
fn a_moved_table_lets_guards_be_committed_where_it_was() {
    let (wide, other) = (bare(1, 1, "a", "z"), bare(2, 2, "b", "c"));
    let mut tree = tree_of(&[choose(&[("m", 5)]), add(5, &[&wide, &other])]);
    assert_eq!(text(&tree, 5), ": 2 1 +m");
    assert_eq!(tree.next_age(), Age(3));
    let moved = Fragment {
        age: tree.next_age(),
        ..wide.clone()
    };
    let edit = TreeEdit {
        removed: vec![(Level(5), wide)],
        ..add(6, &[&moved])
    };
    tree.apply(&edit).unwrap();
    assert_eq!(text(&tree, 5), ": 2 | m:");
    assert_eq!(text(&tree, 6), ": 1 +m");
    assert_eq!(tree.guards(Level(6)).all()[0].fragments[0].age, Age(3));
    assert_eq!(tree.next_age(), Age(4));
    assert!(tree.apply(&edit).is_err());
}

#[test]
fn ages_begin_at_one_and_those_of_a_manifest_leave_room_for_more() {
    assert_eq!(Tree::default().next_age(), Age(1));
    let of = |age| Tree::of_parts(vec![(Level(6), bare(1, age, "a", "b"))], Vec::new());
    assert_eq!(
        of(MANIFEST_AGE_END.0 - 1).map(|tree| tree.next_age()).ok(),
        Some(MANIFEST_AGE_END)
    );
    assert!(of(MANIFEST_AGE_END.0).is_err() && of(u64::MAX).is_err());
}

#[test]
fn guards_are_of_all_deeper_levels_and_only_rise() {
    let mut tree = tree_of(&[choose(&[("k", 3)]), add(6, &[&bare(1, 1, "l", "m")])]);
    assert_eq!(tree.guard_level(b"k"), Some(Level(3)));
    tree.apply(&choose(&[("k", 6)])).unwrap();
    assert_eq!(tree.guard_level(b"k"), Some(Level(3)));
    assert_eq!(text(&tree, 2), ":");
    tree.apply(&choose(&[("k", 2), ("c", 4)])).unwrap();
    assert_eq!(text(&tree, 2), ": | k:");
    assert_eq!(text(&tree, 6), ": | c: | k: 1");
    assert_eq!(tree.guard_keys(), [guard("c", 4), guard("k", 2)]);
    assert_eq!(tree.guard_level(b"l"), None);
}

#[test]
fn what_contradicts_the_tree_is_refused() {
    let table = bare(1, 1, "d", "f");
    let tree = tree_of(&[add(5, &[&table]), add(6, &[&bare(2, 2, "d", "f")])]);
    let without_records = Fragment {
        age: Age(3),
        table: BareTables::new().table(
            3,
            Place::File,
            TableMeta {
                entries: 0,
                ..meta("a", "b")
            },
        ),
    };
    for (edit, what) in [
        (remove(6, &table), "not there"),
        (remove(1, &table), "not there"),
        (remove(0, &table), "a level that there is not"),
        (remove(7, &table), "a level that there is not"),
        (
            add(0, &[&bare(3, 3, "a", "b")]),
            "a level that there is not",
        ),
        (
            add(255, &[&bare(3, 3, "a", "b")]),
            "a level that there is not",
        ),
        (add(1, &[&bare(2, 9, "a", "b")]), "at two places"),
        (
            add(1, &[&bare(3, 8, "a", "b"), &bare(3, 9, "c", "d")]),
            "at two places",
        ),
        (add(6, &[&bare(3, 2, "f", "g")]), "one age overlap"),
        (add(6, &[&bare(3, 2, "a", "d")]), "one age overlap"),
        (add(6, &[&bare(3, 2, "e", "e")]), "one age overlap"),
        (add(6, &[&bare(3, 2, "a", "z")]), "one age overlap"),
        (add(6, &[&bare(3, 3, "b", "a")]), "the wrong way round"),
        (add(6, &[&without_records]), "without records"),
        (choose(&[("", 1)]), "the empty key"),
        (choose(&[("a", 0)]), "a guard of a level that there is not"),
        (choose(&[("a", 7)]), "a guard of a level that there is not"),
    ] {
        let refused = tree.clone().apply(&edit).unwrap_err();
        assert!(refused.contains(what), "{refused}");
    }
}

#[test]
fn cuts_are_the_keys_above_the_least_up_to_the_greatest() {
    let tree = tree_of(&[
        add(6, &[&bare(1, 1, "a", "e")]),
        choose(&[("b", 6), ("d", 6), ("h", 6), ("p", 6)]),
    ]);
    let cuts = |min: &str, max: &str| {
        let keys = tree
            .guards(Level(6))
            .keys_within(min.as_bytes(), max.as_bytes());
        keys.iter().map(|key| key[0] as char).collect::<String>()
    };
    assert_eq!(cuts("", "z"), "bdhp");
    assert_eq!(cuts("b", "h"), "dh");
    assert_eq!(cuts("d", "d"), "");
    assert_eq!(cuts("c", "d"), "d");
    assert_eq!(cuts("i", "o"), "");
}

fn key(at: u8) -> String {
    format!("{at:02}")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    /// Whatever tables and guards come and go, the contract holds. The order of edits of other
    /// tables does not matter. The chains have the tables that cover a key by level, and then the
    /// newest first.
    #[test]
    fn the_contract_holds_after_any_edits(
        steps in prop::collection::vec((0u8..4, 0u8..40, 0u8..12, 1u8..7), 1..60),
    ) {
        let mut tree = Tree::default();
        let mut there: Vec<(Level, Fragment)> = Vec::new();
        for (at, &(what, low, len, level)) in steps.iter().enumerate() {
            let edit = match what {
                0 => choose(&[(&key(low), level)]),
                1 if !there.is_empty() => {
                    let (level, own) = there.remove(usize::from(low) % there.len());
                    remove(level.0, &own)
                }
                _ => {
                    let id = at as u64 + 1;
                    let age = if what == 2 { id } else { 1000 - id };
                    let own = bare(id, age, &key(low), &key(low + len));
                    there.push((Level(level), own.clone()));
                    add(level, &[&own])
                }
            };
            tree.apply(&edit).unwrap();
            prop_assert_eq!(check(&tree), Ok(()));
        }
        for at in 0..60 {
            let key = key(at);
            let mut covers: Vec<_> = there
                .iter()
                .filter(|(_, own)| own.meta().meets(key.as_bytes(), key.as_bytes()))
                .map(|(level, own)| (*level, std::cmp::Reverse(own.age), own.id().0))
                .collect();
            covers.sort_unstable();
            let expected: Vec<u64> = covers.into_iter().map(|(.., id)| id).collect();
            prop_assert_eq!(asked(&tree, &key), &expected[..]);
        }
        // The tables decide which keys are committed.
        let rebuilt = Tree::of_parts(there, tree.guard_keys()).unwrap();
        for level in 1..7 {
            prop_assert_eq!(text(&rebuilt, level), text(&tree, level));
        }
    }

    /// Whatever parts a manifest names, they are a tree that keeps the contract, or they are
    /// refused.
    #[test]
    fn parts_that_make_no_sense_are_refused(
        parts in prop::collection::vec((0u8..9, 0u64..9, 0u64..3, 0u8..12, 0u8..12), 0..8),
        guards in prop::collection::vec((0u8..9, 0u8..12), 0..4),
    ) {
        let fragments = parts.iter().map(|&(level, id, age, min, max)| {
            let age = if age == 2 { u64::MAX } else { age };
            (Level(level), bare(id, age, &key(min), &key(max)))
        });
        let keys = guards.iter().map(|&(level, at)| match at {
            0 => guard("", level),
            _ => guard(&key(at), level),
        });
        let makes_sense = parts.iter().enumerate().all(|(at, &(level, id, age, min, max))| {
            let others = parts[..at].iter().all(|&(level2, id2, age2, min2, max2)| {
                id != id2 && (level != level2 || age != age2 || max < min2 || max2 < min)
            });
            (1..7).contains(&level) && age < 2 && min <= max && others
        });
        let of_guards = guards.iter().all(|&(level, at)| (1..7).contains(&level) && at > 0);
        let tree = Tree::of_parts(fragments.collect(), keys.collect());
        prop_assert_eq!(tree.is_ok(), makes_sense && of_guards);
        if let Ok(tree) = tree {
            prop_assert_eq!(check(&tree), Ok(()));
            prop_assert_eq!(tree.fragments().count(), parts.len());
        }
    }
}
