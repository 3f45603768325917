use super::verify::check;
use super::*;
use crate::options::TableLimits;
use crate::tables::tests::{sim_dir, table_of};
use crate::tables::{TableDir, TableFile};
use crate::types::Age;
use evendb_storage::table::TableMeta;
use evendb_storage::vfs::SimVfs;
use evendb_storage::{Kind, TableId, Version};
use proptest::prelude::*;

/// A table with known limits only. Its file does not exist.
pub(crate) fn bare(number: u64, age: u64, min: &str, max: &str) -> Arc<TableFile> {
    let meta = TableMeta {
        len: 100,
        entries: 2,
        min_key: min.into(),
        max_key: max.into(),
        ..TableMeta::default()
    };
    let place = TableDir::new(
        Arc::new(SimVfs::new(1)),
        std::path::Path::new("/db"),
        TableLimits::NONE,
    );
    TableFile::new(&place, TableId(number), Age(age), meta)
}

pub(crate) fn guard(key: &str, from: u8) -> GuardChange {
    GuardChange {
        key: key.as_bytes().into(),
        from: Some(Level(from)),
    }
}

fn add(level: u8, tables: &[&Arc<TableFile>]) -> TreeEdit {
    TreeEdit {
        added: tables
            .iter()
            .map(|&table| (Level(level), table.clone()))
            .collect(),
        ..TreeEdit::default()
    }
}

fn remove(level: u8, table: &Arc<TableFile>) -> TreeEdit {
    TreeEdit {
        removed: vec![(Level(level), table.clone())],
        ..TreeEdit::default()
    }
}

fn choose(keys: &[(&str, u8)]) -> TreeEdit {
    TreeEdit {
        guards: keys.iter().map(|(key, from)| guard(key, *from)).collect(),
        ..TreeEdit::default()
    }
}

/// The guards of a level and their tables, as `low: number number | low: number`, and behind them
/// the chosen keys.
fn text(tree: &Tree, level: u8) -> String {
    let guards = tree.guards(Level(level));
    let key = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    let list: Vec<String> = guards
        .all()
        .iter()
        .map(|guard| {
            let numbers = guard
                .tables
                .iter()
                .map(|table| format!(" {}", table.number.0));
            format!("{}:{}", key(&guard.low), numbers.collect::<String>())
        })
        .collect();
    let chosen = guards.chosen().iter().map(|own| format!(" +{}", key(own)));
    list.join(" | ") + &chosen.collect::<String>()
}

fn tree_of(edits: &[TreeEdit]) -> Tree {
    let mut tree = Tree::default();
    for edit in edits {
        tree.apply(edit).unwrap();
    }
    tree
}

/// The example from the paper's slides.
#[test]
fn a_get_looks_under_one_guard_of_each_level() {
    let vfs = SimVfs::new(1);
    let place = sim_dir(&vfs);
    let of = |number: u64, min: &'static str, max: &'static str| {
        table_of(
            &place,
            number,
            number,
            &[
                (min.as_bytes(), number, Kind::Put, b""),
                (max.as_bytes(), number, Kind::Put, b""),
            ],
        )
    };
    let level0 = [of(20, "02", "37"), of(21, "23", "48")];
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
        add(0, &[&level0[0], &level0[1]]),
        add(1, &level1.each_ref()),
        add(2, &level2.each_ref()),
    ]);
    assert_eq!(text(&tree, 1), ": 10 | 15: 11 | 70: 13 12");
    assert_eq!(text(&tree, 2), ": 1 | 15: 3 2 | 40: 4 | 70: 5 | 95: 6");
    let asked = tree.tables_for(b"23").map(|table| table.number.0);
    assert_eq!(asked.collect::<Vec<_>>(), [21, 20, 11, 3, 2]);
    let mut found = tree
        .tables_for(b"23")
        .filter_map(|table| table.open().unwrap().get(b"23", Version::MAX).unwrap());
    assert_eq!(found.next().unwrap().version, Version(21));
    verify::verify(&tree, &mut |_, table, verified| {
        assert!(verified.is_ok(), "{:?}: {verified:?}", table.number);
    });
}

/// The numbers of the tables that have a fault.
fn told(tree: &Tree) -> Vec<u64> {
    let mut told = Vec::new();
    verify::verify(tree, &mut |_, table, verified| {
        if verified.is_err() {
            told.push(table.number.0);
        }
    });
    told
}

#[test]
fn verifying_tells_of_damage_in_each_table() {
    let vfs = SimVfs::new(1);
    let place = sim_dir(&vfs);
    let of = |number| {
        table_of(
            &place,
            number,
            number,
            &[(b"k", number, Kind::Put, b"value")],
        )
    };
    let tables = [of(1), of(2), of(3)];
    let edits = [
        add(0, &[&tables[2]]),
        add(5, &[&tables[1]]),
        add(6, &[&tables[0]]),
    ];
    assert_eq!(told(&tree_of(&edits)), []);
    let bytes = vfs.read_file(&tables[1].path());
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        vfs.write_file(&tables[1].path(), bad);
        // Tables that were opened before do not see the damage.
        let again = |table: &Arc<TableFile>| {
            TableFile::new(&place, table.number, table.age, (*table.meta).clone())
        };
        let tables = tables.each_ref().map(again);
        let edits = [
            add(0, &[&tables[2]]),
            add(5, &[&tables[1]]),
            add(6, &[&tables[0]]),
        ];
        assert!(told(&tree_of(&edits)).contains(&2), "byte {at}");
    }
}

#[test]
fn verifying_tells_of_a_record_that_an_older_one_hides() {
    let vfs = SimVfs::new(1);
    let place = sim_dir(&vfs);
    let of = |number, version| table_of(&place, number, number, &[(b"k", version, Kind::Put, b"")]);
    let (old, new) = (of(1, 1), of(2, 2));
    assert_eq!(told(&tree_of(&[add(5, &[&old, &new])])), []);
    assert_eq!(told(&tree_of(&[add(6, &[&old]), add(5, &[&new])])), []);
    assert_eq!(told(&tree_of(&[add(5, &[&old]), add(6, &[&new])])), [2]);
    let wrong_age = of(3, 0);
    assert_eq!(told(&tree_of(&[add(6, &[&old, &wrong_age])])), [1]);
    assert_eq!(
        told(&tree_of(&[add(0, &[&wrong_age]), add(1, &[&old])])),
        [1]
    );
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

#[test]
fn a_moved_table_lets_guards_be_committed_where_it_was() {
    let (wide, other) = (bare(1, 1, "a", "z"), bare(2, 2, "b", "c"));
    let mut tree = tree_of(&[choose(&[("m", 5)]), add(5, &[&wide, &other])]);
    assert_eq!(text(&tree, 5), ": 2 1 +m");
    let moved = Moved {
        from: Level(5),
        to: Level(6),
        new: wide.with_age(Age(9)),
        old: wide,
    };
    let edit = TreeEdit {
        moved: vec![moved],
        ..TreeEdit::default()
    };
    assert!(!edit.is_empty());
    tree.apply(&edit).unwrap();
    assert_eq!(text(&tree, 5), ": 2 | m:");
    assert_eq!(text(&tree, 6), ": 1 +m");
    assert_eq!(tree.guards(Level(6)).all()[0].tables[0].age, Age(9));
    assert!(tree.apply(&edit).is_err());
}

#[test]
fn guards_are_of_all_deeper_levels_and_go_from_the_top() {
    let mut tree = tree_of(&[choose(&[("k", 3)]), add(6, &[&bare(1, 1, "l", "m")])]);
    assert_eq!(tree.guard_level(b"k"), Some(Level(3)));
    tree.apply(&choose(&[("k", 6)])).unwrap();
    assert_eq!(tree.guard_level(b"k"), Some(Level(6)));
    let gone = GuardChange {
        from: None,
        ..guard("k", 1)
    };
    tree.apply(&TreeEdit {
        guards: vec![gone],
        ..TreeEdit::default()
    })
    .unwrap();
    assert_eq!(tree.guard_level(b"k"), None);
    assert_eq!(text(&tree, 6), ": 1");
}

#[test]
fn guards_that_hold_nothing_anywhere_are_deserted() {
    let keys = [("b", 6), ("d", 5), ("f", 6), ("h", 4), ("k", 6), ("m", 6)];
    let tables = [
        (6, bare(1, 1, "b", "c")),
        (5, bare(2, 2, "da", "ea")),
        (6, bare(3, 3, "j", "l")),
    ];
    let mut tree = tree_of(&[choose(&keys)]);
    for (level, table) in &tables {
        tree.apply(&add(*level, &[table])).unwrap();
    }
    let names = |tree: &Tree| -> String {
        let keys = deserted::deserted(tree).into_iter();
        keys.map(|change| String::from_utf8_lossy(&change.key).into_owned())
            .collect()
    };
    // "b" and "h" hold a table, "d" holds one of level 5, "k" is straddled.
    assert_eq!(names(&tree), "fm");
    tree.apply(&add(0, &[&bare(9, 9, "g", "g")])).unwrap();
    assert_eq!(names(&tree), "m");
    let guards = deserted::deserted(&tree);
    tree.apply(&TreeEdit {
        guards,
        ..TreeEdit::default()
    })
    .unwrap();
    assert_eq!(
        (names(&tree), tree.guard_level(b"m")),
        (String::new(), None)
    );
    assert_eq!(tree.guard_level(b"f"), Some(Level(6)));
    assert!(deserted::deserted(&Tree::default()).is_empty());
}

#[test]
fn what_contradicts_the_tree_is_refused() {
    let table = bare(1, 1, "d", "f");
    let tree = tree_of(&[add(0, &[&table]), add(6, &[&bare(2, 2, "d", "f")])]);
    for (edit, what) in [
        (remove(6, &table), "not there"),
        (remove(1, &table), "not there"),
        (remove(7, &table), "a level that there is not"),
        (
            add(255, &[&bare(3, 3, "a", "b")]),
            "a level that there is not",
        ),
        (add(0, &[&bare(3, 1, "a", "b")]), "one age in level 0"),
        (add(6, &[&bare(3, 2, "f", "g")]), "one age overlap"),
        (add(6, &[&bare(3, 2, "a", "d")]), "one age overlap"),
        (add(6, &[&bare(3, 2, "e", "e")]), "one age overlap"),
        (add(6, &[&bare(3, 2, "a", "z")]), "one age overlap"),
        (add(6, &[&bare(3, 3, "b", "a")]), "the wrong way round"),
        (choose(&[("", 1)]), "the empty key"),
        (choose(&[("a", 0)]), "level 0"),
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
    /// tables does not matter, and a key is looked for in the tables that cover it.
    #[test]
    fn the_contract_holds_after_any_edits(
        steps in prop::collection::vec((0u8..4, 0u8..40, 0u8..12, 1u8..7), 1..60),
    ) {
        let mut tree = Tree::default();
        let mut there: Vec<(Level, Arc<TableFile>)> = Vec::new();
        for (number, &(what, low, len, level)) in steps.iter().enumerate() {
            let edit = match what {
                0 => choose(&[(&key(low), level)]),
                1 if !there.is_empty() => {
                    let (level, table) = there.remove(usize::from(low) % there.len());
                    remove(level.0, &table)
                }
                _ => {
                    let number = number as u64 + 1;
                    let table = bare(number, number, &key(low), &key(low + len));
                    let level = if what == 3 { 0 } else { level };
                    there.push((Level(level), table.clone()));
                    add(level, &[&table])
                }
            };
            tree.apply(&edit).unwrap();
            prop_assert_eq!(check(&tree), Ok(()));
        }
        for at in 0..60 {
            let key = key(at);
            let mut found: Vec<u64> = tree.tables_for(key.as_bytes()).map(|table| table.number.0).collect();
            let covers = there.iter().filter(|(_, table)| table.covers(key.as_bytes()));
            let mut expected: Vec<u64> = covers.map(|(_, table)| table.number.0).collect();
            found.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
        }
        // The tables decide which keys are committed.
        let again = TreeEdit {
            added: there,
            guards: tree.guard_keys().into_iter().map(|(key, from)| GuardChange { key, from: Some(from) }).collect(),
            ..TreeEdit::default()
        };
        let mut rebuilt = Tree::default();
        rebuilt.apply(&again).unwrap();
        for level in 1..7 {
            prop_assert_eq!(text(&rebuilt, level), text(&tree, level));
        }
    }
}
