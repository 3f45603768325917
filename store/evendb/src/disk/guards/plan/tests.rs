//! Single plans, and what they say of older records.

use super::older::Older;
use super::sweep::Sweep;
use super::*;
use crate::guards::tree::bare::{BareTables, bare, meta};
use crate::manifest::GuardKey;
use crate::manifest::edit::Place;

/// Tables of a thousand bytes are no crumbs.
const LIMITS: Limits = Limits {
    run_bytes: 8000,
    level0_runs: 4,
    max_files_per_guard: 4,
    look_bytes: 0,
};

const LOG: Place = Place::Extent { offset: 0 };

fn guard(key: &str, level: u8) -> GuardKey {
    GuardKey {
        key: key.as_bytes().into(),
        level: Level(level),
    }
}

fn tree_of(fragments: &[(u8, Fragment)], guards: &[GuardKey]) -> Tree {
    let fragments = fragments.iter().cloned();
    let fragments = fragments.map(|(level, own)| (Level(level), own));
    Tree::of_parts(fragments.collect(), guards.to_vec()).expect("a tree")
}

/// A run of level 0.
fn run(id: u64, place: Place, meta: TableMeta) -> Arc<TableHandle> {
    BareTables::new().table(id, place, meta)
}

fn ids<'t>(fragments: impl IntoIterator<Item = &'t Fragment>) -> Vec<u64> {
    fragments.into_iter().map(|own| own.id().0).collect()
}

fn with_deletes(min: &str, max: &str) -> TableMeta {
    TableMeta {
        deletes: 1,
        ..meta(min, max)
    }
}

/// Run 2 overlaps run 1. Run 3 lies between these two and run 4, which has a delete. Run 5
/// straddles a guard. Run 6 lies behind all of them, and so does run 7, in the file of runs.
#[test]
fn what_overlaps_nothing_goes_down_as_it_is() {
    let level0 = [
        run(7, LOG, meta("w", "x")),
        run(6, Place::File, meta("u", "v")),
        run(5, Place::File, meta("s", "t")),
        run(4, Place::File, with_deletes("f", "h")),
        run(3, Place::File, meta("d", "e")),
        run(2, Place::File, meta("b", "b")),
        run(1, Place::File, meta("a", "c")),
    ];
    let mut tree = tree_of(&[], &[guard("d", 6), guard("t", 6)]);
    let job = Job::FromLevel0 { to: Level(6) };
    let plan = Plan::of(&tree, &level0, job, &LIMITS);
    assert_eq!((plan.from, plan.to), (Level(0), Level(6)));
    assert_eq!(ids(&plan.moved), [3, 6, 7]);
    let runs: Vec<_> = plan.runs.iter().map(ids).collect();
    assert_eq!(runs, [[5], [4], [2], [1]]);
    assert_eq!(plan.tables().count(), 7);
    assert_eq!(plan.limits(), Some((&b"a"[..], &b"x"[..])));
    let cuts = plan.cuts(&tree);
    // The moved table "d" begins at a guard.
    assert_eq!(
        cuts.iter().map(|key| key[0] as char).collect::<String>(),
        "ddtuw"
    );
    let new = [("a", "c"), ("f", "s"), ("t", "t"), ("w", "x")];
    let new = (10..).zip(new);
    let new = new.map(|(id, (min, max))| run(id, Place::File, meta(min, max)));
    let edit = plan.edit(&tree, new.collect());
    assert!(edit.removed.is_empty() && edit.level0_went);
    tree.apply(&edit).unwrap();
    let last = tree.guards(Level(6)).all();
    let guards: Vec<_> = last.iter().map(|guard| ids(&guard.fragments)).collect();
    assert_eq!(guards, [&[10][..], &[3, 11], &[12, 6, 13]]);
    assert!(last.iter().all(|guard| guard.runs().count() == 1));
}

/// Four runs of a guard: the second overlaps the first. The third is alone, and so is the fourth, a
/// crumb.
#[test]
fn a_merge_within_a_guard_leaves_what_is_in_nobodys_way_unless_it_is_a_crumb() {
    let of = |id, (min, max), len| {
        let meta = TableMeta {
            len,
            ..meta(min, max)
        };
        let table = run(id, Place::File, meta);
        (
            6,
            Fragment {
                age: Age(id),
                table,
            },
        )
    };
    let mut tree = tree_of(
        &[
            of(1, ("a", "c"), 1000),
            of(2, ("b", "d"), 1000),
            of(3, ("k", "m"), 1000),
            of(4, ("x", "z"), 999),
        ],
        &[],
    );
    let within = |runs| Job::Within {
        level: Level(6),
        guard: 0,
        runs,
    };
    let newest = Plan::of(&tree, &[], within(2), &LIMITS);
    assert_eq!(
        (ids(newest.tables()), ids(&newest.moved)),
        (vec![4, 3], vec![3])
    );
    let plan = Plan::of(&tree, &[], within(4), &LIMITS);
    assert_eq!(ids(&plan.moved), [3]);
    // What came to the guard meanwhile stays newer.
    let late = TreeEdit {
        added: vec![(Level(6), bare(5, 5, "a", "z"))],
        ..TreeEdit::default()
    };
    tree.apply(&late).unwrap();
    let new = vec![
        run(10, Place::File, meta("a", "d")),
        run(11, Place::File, meta("x", "z")),
    ];
    let edit = plan.edit(&tree, new);
    assert!(!edit.level0_went);
    tree.apply(&edit).unwrap();
    let guard = &tree.guards(Level(6)).all()[0];
    let runs: Vec<_> = guard.runs().map(ids).collect();
    assert_eq!(runs, [&[5][..], &[10, 3, 11]]);
    assert_eq!(guard.fragments[1].age, Age(4));
}

/// While a job goes down, a checkpoint brings a run to the same guard.
#[test]
fn what_goes_down_is_the_newest_of_the_tree_that_it_comes_to() {
    let mut tree = tree_of(&[(5, bare(1, 7, "a", "c")), (6, bare(2, 3, "a", "c"))], &[]);
    let down = Job::Down {
        level: Level(5),
        guard: 0,
    };
    let plan = Plan::of(&tree, &[], down, &LIMITS);
    assert_eq!((ids(&plan.moved), plan.to), (vec![1], Level(6)));
    let checkpoint = TreeEdit {
        added: vec![(Level(6), bare(3, tree.next_age().0, "d", "e"))],
        ..TreeEdit::default()
    };
    tree.apply(&checkpoint).unwrap();
    tree.apply(&plan.edit(&tree, Vec::new())).unwrap();
    let guard = &tree.guards(Level(6)).all()[0];
    let ages: Vec<_> = guard
        .fragments
        .iter()
        .map(|own| (own.id().0, own.age.0))
        .collect();
    assert_eq!(ages, [(1, 9), (3, 8), (2, 3)]);
    assert!(tree.guards(Level(5)).all()[0].fragments.is_empty());
}

#[test]
fn older_records_lie_below_and_in_the_older_runs_of_the_guard() {
    let tree = tree_of(
        &[
            (4, bare(1, 9, "a", "z")),
            (5, bare(2, 8, "a", "c")),
            (5, bare(3, 7, "b", "d")),
            (5, bare(4, 6, "e", "f")),
            (6, bare(5, 5, "k", "m")),
            (6, bare(6, 4, "l", "n")),
            (6, bare(7, 4, "p", "p")),
        ],
        &[],
    );
    let covered = |job, level0: &[Arc<TableHandle>]| {
        let plan = Plan::of(&tree, level0, job, &LIMITS);
        let older = Older::than(&tree, &plan);
        let keys: Vec<String> = (b'a'..=b'z').map(|key| (key as char).to_string()).collect();
        let covers = |key: &&String| older.meets(key.as_bytes(), key.as_bytes());
        let covered: String = keys.iter().filter(covers).cloned().collect();
        for min in &keys {
            for max in keys.iter().filter(|max| min <= *max) {
                let own = covered
                    .chars()
                    .any(|key| (min.as_str()..=max).contains(&&*key.to_string()));
                assert_eq!(
                    older.meets(min.as_bytes(), max.as_bytes()),
                    own,
                    "{min} {max}"
                );
            }
        }
        covered
    };
    let (level, guard) = (Level(5), 0);
    assert_eq!(
        covered(
            Job::Within {
                level,
                guard,
                runs: 1
            },
            &[]
        ),
        "bcdefklmnp"
    );
    assert_eq!(
        covered(
            Job::Within {
                level,
                guard,
                runs: 2
            },
            &[]
        ),
        "efklmnp"
    );
    assert_eq!(
        covered(
            Job::Within {
                level,
                guard,
                runs: 3
            },
            &[]
        ),
        "klmnp"
    );
    assert_eq!(covered(Job::Down { level, guard }, &[]), "klmnp");
    let level0 = [run(9, LOG, meta("a", "b"))];
    let down = Job::FromLevel0 { to: Level(4) };
    assert_eq!(covered(down, &level0), ('a'..='z').collect::<String>());
    let last = Job::Within {
        level: Level(6),
        guard,
        runs: 2,
    };
    assert_eq!(covered(last, &[]), "");
}

#[test]
fn deletes_count_with_the_bytes_of_puts_that_they_hide() {
    let of = |id, age, deletes| {
        let meta = TableMeta {
            entries: 10,
            deletes,
            data_bytes: 1000,
            ..meta("a", "c")
        };
        let table = run(id, Place::File, meta);
        (
            6,
            Fragment {
                age: Age(age),
                table,
            },
        )
    };
    // 4000 bytes of 30 puts: a put has 133 bytes.
    let tree = tree_of(&[of(1, 1, 4), of(2, 2, 0), of(3, 3, 6)], &[]);
    let level0 = [run(
        4,
        LOG,
        TableMeta {
            entries: 10,
            data_bytes: 1000,
            ..meta("a", "c")
        },
    )];
    let shape = shape(&tree, &level0);
    assert_eq!((shape.level0_runs, shape.level0_bytes), (1, 100));
    let guard = &shape.levels[5][0];
    assert_eq!(guard.runs, [100 + 6 * 133, 100, 100 + 4 * 133]);
    assert_eq!(guard.hidden, 6 * 133, "of the oldest run they count not");
    assert!(
        shape.levels[..5]
            .iter()
            .flatten()
            .all(|guard| guard.runs.is_empty())
    );
}

/// Tables that one checkpoint wrote are one run; ingested tables are runs of their own.
#[test]
fn the_tables_of_one_checkpoint_are_one_run_of_level_0() {
    let of =
        |id, checkpoint, min, max| BareTables::new().of_checkpoint(id, checkpoint, meta(min, max));
    let level0 = [
        of(6, 0, "a", "k"),
        of(5, 0, "a", "b"),
        of(4, 8, "m", "z"),
        of(3, 8, "a", "l"),
        of(2, 7, "c", "d"),
    ];
    let runs: Vec<usize> = runs_of_log(&level0).map(<[_]>::len).collect();
    assert_eq!(runs, [1, 1, 2, 1]);
    let tree = tree_of(&[], &[]);
    assert_eq!(shape(&tree, &level0).level0_runs, 4);
    let plan = Plan::of(&tree, &level0, Job::FromLevel0 { to: Level(6) }, &LIMITS);
    let runs: Vec<Vec<u64>> = plan.runs.iter().map(ids).collect();
    assert_eq!(runs, [vec![6], vec![5], vec![3], vec![2]], "4 lies alone");
    assert_eq!(ids(&plan.moved), [4]);
}

/// Jobs of a sweep are told, and not done.
#[test]
fn a_sweep_takes_what_touches_its_range_from_above() {
    let deleted = run(9, Place::File, with_deletes("x", "z"));
    let deleted = Fragment {
        age: Age(1),
        table: deleted,
    };
    let tree = tree_of(
        &[
            (4, bare(1, 1, "a", "c")),
            (4, bare(2, 1, "n", "p")),
            (6, bare(3, 1, "a", "c")),
            (6, bare(4, 1, "n", "p")),
            (6, bare(5, 2, "o", "o")),
            (6, deleted),
        ],
        &[guard("m", 4), guard("x", 6)],
    );
    let level0 = [run(20, LOG, meta("k", "l"))];
    let jobs = |low: &str, high: Option<&str>| {
        let mut sweep = Sweep::new(low.into(), high.map(|high| high.into()));
        let next = || sweep.next(&tree, &level0);
        std::iter::from_fn(next).collect::<Vec<_>>()
    };
    let from_level0 = Job::FromLevel0 { to: Level(4) };
    let down = |guard| Job::Down {
        level: Level(4),
        guard,
    };
    let within = |guard, runs| Job::Within {
        level: Level(6),
        guard,
        runs,
    };
    let all = [from_level0, down(0), down(1), within(1, 2), within(2, 1)];
    assert_eq!(jobs("", None), all);
    assert_eq!(jobs("b", Some("n")), [from_level0, down(0)]);
    assert_eq!(jobs("m", Some("q")), [down(1), within(1, 2)]);
    assert_eq!(jobs("d", Some("k")), []);
    let mut empty = Sweep::new(Vec::new(), None);
    let to_last = Job::FromLevel0 { to: Level(6) };
    assert_eq!(empty.next(&Tree::default(), &level0), Some(to_last));
    assert_eq!(
        empty.next(&Tree::default(), &level0),
        None,
        "newer runs do not count"
    );
}
