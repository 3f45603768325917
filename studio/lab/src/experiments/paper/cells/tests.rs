//! Which cells a figure asks for, and in which order.

use super::*;
use crate::distribution::THETA_DEFAULT;
use std::collections::HashSet;

fn wanted(figures: &[&str]) -> Wanted {
    Wanted {
        figures: figures.iter().map(|&figure| figure.to_owned()).collect(),
        mixes: vec![],
        distributions: vec![],
        theta: THETA_DEFAULT,
        sizes: vec![],
        ingests: vec![],
        load_order: LoadOrder::Key,
        memory_bytes: 1 << 30,
        threads: 4,
        quick: false,
        scans_last: false,
    }
}

#[test]
fn scans_come_before_puts_or_after_them() {
    let mut wanted = wanted(&["6"]);
    wanted.mixes = vec![Mix::P, Mix::C, Mix::E(100)];
    wanted.distributions = vec![DistributionKind::ZipfSimple];
    wanted.sizes = vec![1 << 30];
    let names = |wanted: &Wanted| -> Vec<_> {
        let cells = wanted.cells().into_iter();
        cells.map(|cell| cell.work.names().0).collect()
    };
    assert_eq!(names(&wanted), ["load", "C", "E100", "P"]);
    wanted.scans_last = true;
    assert_eq!(names(&wanted), ["load", "C", "P", "E100"]);
}

#[test]
fn names_are_unique_and_families_stand_together() {
    let cells = wanted(&FIGURES).cells();
    let names: HashSet<_> = cells
        .iter()
        .map(|cell| (cell.experiment, cell.name()))
        .collect();
    assert_eq!(names.len(), cells.len());
    let mut families: Vec<Family> = cells.iter().map(Cell::family).collect();
    families.dedup();
    for (index, family) in families.iter().enumerate() {
        assert!(!families[..index].contains(family), "{family} comes twice");
    }
    // 5 sizes x (3 x 8 + uniform P + D).
    let figure_6 = cells.iter().filter(|cell| cell.experiment == "figure-6");
    assert_eq!(figure_6.count(), 5 * 26);
    // Figure 5 begins with a debt of its own; figure 3 pays it.
    let of_events = |data| families.iter().filter(|family| family.data == data).count();
    assert_eq!(
        (of_events(Data::Events), of_events(Data::EventsUnpaid)),
        (3, 3)
    );
}

#[test]
fn a_named_distribution_and_skew_are_taken() {
    let mut wanted = wanted(&["6", "11"]);
    wanted.distributions = vec![
        DistributionKind::ZipfCompositeSuffix,
        DistributionKind::ZipfCompositeContiguous,
    ];
    wanted.theta = 0.8;
    let cells = wanted.cells();
    let mixes: Vec<_> = cells
        .iter()
        .filter(|cell| cell.experiment != "load")
        .collect();
    // 5 sizes x 8 mixes x 2, and 5 numbers of threads x 3 mixes x 2.
    assert_eq!(mixes.len(), 5 * 8 * 2 + 5 * 3 * 2);
    let skewed = |cell: &&&Cell| matches!(cell.work, Work::Mix { theta: 0.8, .. });
    assert_eq!(mixes.iter().filter(skewed).count(), mixes.len());
}

#[test]
fn departures_are_measured_where_they_are_asked_for() {
    let cells = wanted(&[DEPARTURES]).cells();
    let mixes = cells.iter().filter(|cell| cell.experiment == DEPARTURES);
    assert_eq!(mixes.clone().count(), 4 * 2);
    for cell in mixes {
        assert!(cell.concerns("evendb") && cell.concerns("evendb-paper"));
        assert!(!cell.concerns("rocksdb") && !cell.concerns("evendb-half-memory"));
    }
    assert!(
        wanted(&FIGURES)
            .cells()
            .iter()
            .all(|cell| cell.experiment != DEPARTURES)
    );
}

#[test]
fn figures_of_the_same_phases_share_them() {
    let of = |figures: &[&str]| -> Vec<String> {
        let cells = wanted(figures).cells();
        cells.iter().map(Cell::name).collect()
    };
    let all = of(&["6"]);
    for part in ["7", "8", "9", "reads"] {
        let part = of(&[part]);
        assert!(!part.is_empty() && part.iter().all(|name| all.contains(name)));
    }
    assert_eq!(of(&["4"]), of(&["3"]));
    assert!(of(&[]).is_empty());
}

#[test]
fn phases_that_change_the_data_come_after_those_that_read() {
    for (before, after) in [("C/", "A/"), ("E100/", "P/"), ("P/", "D/"), ("load", "C/")] {
        let cells = wanted(&["6"]).cells();
        let family = cells[0].family();
        let own: Vec<String> = cells
            .iter()
            .filter(|cell| cell.family() == family)
            .map(Cell::name)
            .collect();
        let last = own.iter().rposition(|name| name.starts_with(before));
        let first = own.iter().position(|name| name.starts_with(after));
        assert!(last.unwrap() < first.unwrap(), "{before} {after}: {own:?}");
    }
}
