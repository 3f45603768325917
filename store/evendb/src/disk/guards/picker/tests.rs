use super::*;

const UNIT: u64 = 40;

fn limits(max_files_per_guard: usize) -> Limits {
    Limits {
        run_bytes: 10,
        level0_runs: 4,
        max_files_per_guard,
        look_bytes: 1,
    }
}

fn guard(runs: &[u64]) -> GuardShape {
    GuardShape {
        runs: runs.to_vec(),
        is_stuck: false,
        hidden: 0,
        looks: 0,
    }
}

/// A shape whose levels have these guards; the other levels have an empty guard.
fn shape(level0_runs: usize, levels: &[(u8, &[GuardShape])]) -> Shape {
    let mut shape = Shape {
        level0_runs,
        level0_bytes: 10 * level0_runs as u64,
        level0_looks: 0,
        level0_is_stuck: false,
        levels: std::array::from_fn(|_| vec![guard(&[])]),
    };
    for (level, guards) in levels {
        shape.levels[usize::from(*level) - 1] = guards.to_vec();
    }
    shape
}

fn to(level: u8) -> Option<Job> {
    Some(Job::FromLevel0 { to: Level(level) })
}

fn down(level: u8, guard: usize) -> Option<Job> {
    let level = Level(level);
    Some(Job::Down { level, guard })
}

fn within(level: u8, guard: usize, runs: usize) -> Option<Job> {
    let level = Level(level);
    Some(Job::Within { level, guard, runs })
}

#[test]
fn nothing_is_to_be_done_where_all_is_within_limits() {
    let few = shape(3, &[(6, &[guard(&[1, 2, 3, 4]), guard(&[])])]);
    assert_eq!(pick(&few, &limits(4)), None);
    assert_eq!(pick(&shape(0, &[]), &limits(1)), None);
    let one = shape(0, &[(5, &[guard(&[1])]), (6, &[guard(&[99]), guard(&[1])])]);
    assert_eq!(pick(&one, &limits(0)), pick(&one, &limits(1)));
}

#[test]
fn level_0_goes_to_the_last_level_of_a_small_tree() {
    assert_eq!(pick(&shape(4, &[]), &limits(4)), to(6));
    assert_eq!(pick(&shape(9, &[]), &limits(4)), to(6));
    assert_eq!(pick(&shape(3, &[]), &limits(4)), None);
}

#[test]
fn the_base_rises_with_the_data() {
    let base = |bytes: u64, runs| pick(&shape(4, &[(6, &[guard(&[bytes])])]), &limits(runs));
    for (runs, growth, units) in [
        (4, limits(4).growth(), limits(4).base_units()),
        (1, limits(1).growth(), limits(1).base_units()),
    ] {
        let least = units * UNIT;
        assert_eq!(base(growth * least - 1, runs), to(6));
        assert_eq!(base(growth * least, runs), to(5));
        assert_eq!(base(growth * growth * least, runs), to(4));
        assert_eq!(base(u64::MAX / 1000, runs), to(1));
    }
}

/// Newer data must not lie below older data, as it would in level 6.
#[test]
fn level_0_does_not_pass_tables_of_a_level_above_the_base() {
    let shrunk = shape(4, &[(4, &[guard(&[1])]), (6, &[guard(&[50])])]);
    assert_eq!(pick(&shrunk, &limits(4)), to(4));
}

#[test]
fn what_lies_above_the_base_goes_down() {
    let shrunk = |level0| {
        shape(
            level0,
            &[(4, &[guard(&[]), guard(&[1])]), (6, &[guard(&[50])])],
        )
    };
    assert_eq!(pick(&shrunk(0), &limits(4)), down(4, 1));
    assert_eq!(pick(&shrunk(4), &limits(4)), to(4));
}

#[test]
fn the_guard_of_the_last_level_with_the_most_runs_too_many_is_merged() {
    let last = [guard(&[1; 5]), guard(&[1; 7]), guard(&[1; 6])];
    assert_eq!(pick(&shape(0, &[(6, &last)]), &limits(4)), within(6, 1, 7));
    let last = [guard(&[1; 5]), guard(&[1; 4]), guard(&[1; 5])];
    assert_eq!(pick(&shape(0, &[(6, &last)]), &limits(4)), within(6, 0, 5));
}

#[test]
fn a_big_old_run_is_not_rewritten_for_small_new_ones() {
    for (runs, most, merged) in [
        (&[1, 2, 4, 90, 100][..], 4, 2),
        (&[5, 2, 4, 90, 100], 4, 3),
        (&[30, 30, 31, 90, 100], 4, 5),
        (&[1, 1, 50, 90, 100], 4, 2),
        (&[1, 1, 1, 1, 1000, 9000], 4, 4),
        (&[100, 1], 1, 2),
        (&[1, 100], 1, 2),
        (&[1, 100, 100], 2, 3),
        (&[1, 100, 201], 2, 3),
        (&[1, 100, 202], 2, 2),
    ] {
        assert_eq!(runs_to_merge(runs, most), merged, "{runs:?}");
    }
}

/// An eighth of the guard's share of level 5's target is enough to go down.
#[test]
fn a_guard_with_too_many_runs_goes_down_unless_it_would_be_crumbs() {
    let tree = |runs: &[u64]| {
        let level5 = [guard(&[1; 4]), guard(runs), guard(&[]), guard(&[])];
        shape(0, &[(5, &level5), (6, &[guard(&[5000])])])
    };
    let growth = limits(4).growth();
    let share = 5000 / growth / 4;
    assert_eq!(
        pick(&tree(&[share / 8 + 1, 1, 1, 1, 1]), &limits(4)),
        down(5, 1)
    );
    assert_eq!(pick(&tree(&[1; 5]), &limits(4)), within(5, 1, 5));
    assert_eq!(pick(&tree(&[1; 4]), &limits(4)), None);
}

/// With one run in a guard, an appended run is merged with the guard's run, up to the guard's
/// share.
#[test]
fn a_leveled_guard_is_merged_in_place_until_it_has_its_share() {
    let tree = |runs: &[u64]| {
        shape(
            0,
            &[(5, &[guard(runs), guard(&[])]), (6, &[guard(&[10_000])])],
        )
    };
    let share = 10_000 / limits(1).growth() / 2;
    assert_eq!(
        pick(&tree(&[100, share - 101]), &limits(1)),
        within(5, 0, 2)
    );
    assert_eq!(pick(&tree(&[100, 2 * share]), &limits(1)), down(5, 0));
}

#[test]
fn deeper_guards_come_first_and_the_last_level_before_them() {
    let many = guard(&[100; 5]);
    let mut tree = shape(
        0,
        &[
            (4, std::slice::from_ref(&many)),
            (5, std::slice::from_ref(&many)),
            (6, &[guard(&[1; 5])]),
        ],
    );
    assert_eq!(pick(&tree, &limits(4)), within(6, 0, 5));
    tree.levels[5][0].runs.truncate(1);
    assert_eq!(pick(&tree, &limits(4)), down(5, 0));
    tree.levels[4][0].runs.truncate(1);
    assert_eq!(pick(&tree, &limits(4)), down(4, 0));
}

#[test]
fn a_level_with_too_many_bytes_gives_its_largest_guard() {
    let level5 = [guard(&[900]), guard(&[1000, 1000]), guard(&[1999])];
    let tree = shape(0, &[(5, &level5), (6, &[guard(&[6000])])]);
    assert_eq!(pick(&tree, &limits(4)), down(5, 1));
    let level5 = [guard(&[900]), guard(&[100, 100])];
    let tree = shape(0, &[(5, &level5), (6, &[guard(&[60_000])])]);
    assert_eq!(pick(&tree, &limits(4)), None);
}

#[test]
fn a_guard_of_which_deletes_hide_half_is_merged() {
    let tree = |hidden| {
        let mut deleted = guard(&[30, 20, 100]);
        deleted.hidden = hidden;
        shape(0, &[(6, &[guard(&[1]), deleted])])
    };
    assert_eq!(pick(&tree(49), &limits(4)), None);
    assert_eq!(pick(&tree(50), &limits(4)), within(6, 1, 3));
}

fn looked(runs: &[u64], looks: u64) -> GuardShape {
    GuardShape {
        looks,
        ..guard(runs)
    }
}

/// A shape whose last level is large enough to make level 5 the base, and to allow the bytes of
/// `level5`.
fn looked_at(level5: &[GuardShape], level6: &[GuardShape]) -> Shape {
    let mut last = level6.to_vec();
    last.push(guard(&[1000]));
    shape(0, &[(5, level5), (6, &last)])
}

#[test]
fn what_seeks_have_paid_for_goes_down_or_is_merged() {
    let limits = limits(4);
    let none = guard(&[1]);
    let last = |looks| looked_at(std::slice::from_ref(&none), &[looked(&[30, 70], looks)]);
    assert_eq!(pick(&last(99), &limits), None);
    assert_eq!(pick(&last(100), &limits), within(6, 0, 2));
    let midst = |looks| {
        looked_at(
            &[none.clone(), looked(&[30], looks)],
            &[looked(&[9, 9], 99)],
        )
    };
    assert_eq!(pick(&midst(29), &limits), within(6, 0, 2));
    assert_eq!(pick(&midst(30), &limits), down(5, 1));
    let mut level0 = midst(30);
    level0.level0_runs = 3;
    level0.level0_bytes = 30;
    level0.level0_looks = 30;
    assert_eq!(pick(&level0, &limits), to(5));
    level0.level0_looks = 29;
    assert_eq!(pick(&level0, &limits), down(5, 1));
}

#[test]
fn the_guard_that_was_looked_into_most_is_first() {
    let limits = limits(4);
    let mut guards = [
        looked(&[30, 70], 150),
        looked(&[30, 70], 170),
        looked(&[300, 700], 900),
    ];
    let pick_of = |guards: &[GuardShape]| pick(&looked_at(&[guard(&[1])], guards), &limits);
    assert_eq!(pick_of(&guards), within(6, 1, 2));
    // One run cannot become fewer runs, and no run is nothing to merge.
    let few = [looked(&[30], 999), looked(&[], 999)];
    assert_eq!(pick_of(&few), None);
    assert_eq!(pick(&looked_at(&few[1..], &[]), &limits), None);
    guards[1].looks = 99;
    assert_eq!(pick_of(&guards), within(6, 0, 2));
    guards[0].looks = 99;
    assert_eq!(pick_of(&guards), None);
}

#[test]
fn seeks_come_last_and_can_be_left_out() {
    let too_many = [guard(&[1; 5]), looked(&[30, 70], 999)];
    let both = looked_at(&[guard(&[1])], &too_many);
    assert_eq!(pick(&both, &limits(4)), within(6, 0, 5));
    let off = Limits {
        look_bytes: 0,
        ..limits(4)
    };
    let paid = looked_at(&[guard(&[1])], &[looked(&[30, 70], u64::MAX)]);
    assert_eq!(pick(&paid, &off), None);
    let mut no_runs = looked_at(&[guard(&[1])], &[]);
    no_runs.level0_looks = 99;
    assert_eq!(pick(&no_runs, &limits(4)), None);
}

#[test]
fn options_give_the_limits() {
    let options = crate::options::Options::new().advanced;
    assert_eq!(options.guards.max_files_per_guard, 2);
    let limits = Limits::of(&options.guards, 1000, 4096);
    assert_eq!((limits.run_bytes, limits.level0_runs), (1000, 4));
    assert_eq!((limits.max_files_per_guard, limits.look_bytes), (2, 256));
    assert_eq!(Limits::of(&options.guards, 1000, 1).look_bytes, 1);
    let off = options.guards.compaction_by_seeks(false);
    assert_eq!(Limits::of(&off, 1000, 4096).look_bytes, 0);
}

/// Damaged properties of tables.
#[test]
fn bytes_that_no_table_has_do_not_make_sums_overflow() {
    let huge = guard(&[u64::MAX, u64::MAX, u64::MAX]);
    let levels = [
        (5, &[huge.clone(), huge.clone()][..]),
        (6, &[huge.clone(), huge.clone()]),
    ];
    assert_eq!(pick(&shape(0, &levels), &limits(4)), down(5, 0));
    assert_eq!(pick(&shape(0, &levels), &limits(2)), within(6, 0, 2));
}
