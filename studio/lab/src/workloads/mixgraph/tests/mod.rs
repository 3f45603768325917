//! Draws have the model's frequencies, by chi-square under fixed seeds; and wrong answers are
//! found.

use super::*;
use crate::driver::Worker;
use crate::permutation::Permutation;
use crate::purposes::CountingStore as _;
use crate::random::Random;
use crate::recorder::{OperationKind, Recorder};
use crate::stores::memory::{Fault, MemoryStore};
use evendb_model::{Model, Workload, presets};

mod comes_back;
mod kinds;
mod several;

/// Whether counts fit the shares: chi-square is below the value that one correct sample in a
/// thousand exceeds. Cells whose expected count is below 10 are joined to one.
fn follows(counts: &[u64], shares: &[f64]) -> Result<(), String> {
    let all: u64 = counts.iter().sum();
    let (mut squares, mut cells, mut rest) = (0.0, 0, (0.0, 0.0));
    let mut add = |expected: f64, counted: f64| {
        squares += (counted - expected).powi(2) / expected;
        cells += 1;
    };
    for (&counted, share) in counts.iter().zip(shares) {
        let expected = share * all as f64;
        match expected < 10.0 {
            true => rest = (rest.0 + expected, rest.1 + counted as f64),
            false => add(expected, counted as f64),
        }
    }
    if rest.0 >= 1.0 {
        add(rest.0, rest.1);
    } else if rest.1 > 5.0 {
        return Err(format!("{} where {} were expected", rest.1, rest.0));
    }
    // Wilson and Hilferty's form of the quantile.
    let free = f64::from(cells - 1).max(1.0);
    let part = 2.0 / (9.0 * free);
    let most = free * (1.0 - part + 3.09 * part.sqrt()).powi(3);
    match squares <= most {
        true => Ok(()),
        false => Err(format!(
            "chi-square {squares} above {most} of {cells} cells"
        )),
    }
}

fn small(name: &str, pairs: u64) -> Model {
    let model = presets::named(name).unwrap();
    let share = pairs as f64 / model.pairs as f64;
    model.scaled(share)
}

fn worker(model: &Model, allocation: Allocation, seed: u64) -> ModelWorker {
    ModelWorker::new(&Arc::new(Load::new(model, allocation, seed)), 0, 0)
}

#[test]
fn the_test_itself_sees_what_is_off() {
    assert!(follows(&[500, 500], &[0.5, 0.5]).is_ok());
    assert!(follows(&[600, 400], &[0.5, 0.5]).is_err());
    assert!(follows(&[990, 10], &[1.0, 0.0]).is_err());
}

#[test]
fn kinds_have_their_shares_to_the_last_digit() {
    let mut model = small("zippydb", 1000);
    // Below a thousandth, which the known tool cuts.
    model.mix.get = 0.8296;
    model.mix.delete = 0.0004;
    let mut worker = worker(&model, Allocation::PrefixDist, 5);
    let mut counts = [0; 5];
    for _ in 0..1_000_000 {
        counts[worker.next_kind() as usize] += 1;
    }
    let shares = model.mix.shares().map(|(_, share)| share);
    follows(&counts, &shares).unwrap();
}

#[test]
fn sizes_and_lengths_have_their_shares() {
    for name in ["zippydb", "udb-assoc"] {
        let model = small(name, 10_000);
        let mut worker = worker(&model, Allocation::PrefixDist, 6);
        let (mut values, mut lengths) = (vec![0; 10_001], vec![0; 10_001]);
        for _ in 0..200_000 {
            let pair = worker.next_pair(Kind::Put);
            values[worker.next_value(pair).0 as usize] += 1;
            lengths[worker.next_length() as usize] += 1;
        }
        let share = |sizes: &evendb_model::sizes::Sizes| -> Vec<f64> {
            (0..=10_000).map(|size| sizes.share(size)).collect()
        };
        follows(&values, &share(&model.values.sizes)).unwrap();
        follows(&lengths, &share(model.scans.as_ref().unwrap())).unwrap();
    }
}

#[test]
fn keys_have_their_sizes_and_the_order_of_their_numbers() {
    let model = small("udb-assoc", 50_000);
    let records = Records::new(&model, 1);
    let keys: Vec<Vec<u8>> = (0..50_000).map(|pair| records.key(pair)).collect();
    assert!(keys.is_sorted() && keys.windows(2).all(|two| two[0] != two[1]));
    let long = keys.iter().filter(|key| key.len() == 32).count() as u64;
    follows(&[50_000 - long, long], &[0.9, 0.1]).unwrap();
    assert!(keys.iter().all(|key| [28, 32].contains(&key.len())));
    for (pair, key) in keys.iter().enumerate().step_by(997) {
        assert_eq!(records.pair_of(key), Some(pair as u64));
        assert_eq!(records.pair_of(&key[..key.len() - 1]), None);
    }
    assert_eq!(records.pair_of(b""), None);
    assert_eq!(records.pair_of(&[0xff; 28]), None);
}

/// How often each pair was drawn.
fn counted(space: &Arc<KeySpace>, seed: u64, draws: u64) -> Vec<u64> {
    let mut counts = vec![0; space.pairs() as usize];
    let mut chooser = space.chooser(Random::new(seed, 0));
    for _ in 0..draws {
        counts[chooser.pair(Kind::Get) as usize] += 1;
    }
    counts
}

#[test]
fn the_four_allocations_have_the_models_frequencies_where_they_say() {
    let model = small("zippydb", 20_000);
    let accesses = model.accesses.unwrap();
    let touched = accesses.touched(model.pairs);
    let ranges = model.ranges.as_ref().unwrap().shares().unwrap();
    for allocation in [
        Allocation::PrefixDist,
        Allocation::PrefixRandom,
        Allocation::PrefixUniform,
        Allocation::AllDist,
        Allocation::AllRandom,
    ] {
        let space = Arc::new(KeySpace::new(&model, allocation, 3));
        let in_ranges = space.ranges() == 30;
        assert_eq!(in_ranges, allocation.has_ranges());
        let counts = counted(&space, 9, 500_000);
        let mut shares = vec![0.0; counts.len()];
        for heat in 0..space.ranges() {
            let (first, among) = space.range_at(space.place_of(Kind::Get, heat));
            let own = if in_ranges {
                ranges[heat as usize]
            } else {
                1.0
            };
            for rank in 0..among {
                let share = match allocation {
                    Allocation::PrefixUniform => 1.0 / among as f64,
                    _ => {
                        let below = |rank| accesses.share_below(rank, among, touched);
                        below(rank + 1) - below(rank)
                    }
                };
                let offset = match allocation {
                    Allocation::PrefixRandom | Allocation::AllRandom => {
                        let place = space.place_of(Kind::Get, heat);
                        Permutation::new(among, crate::random::mix64(3) ^ place).apply(rank)
                    }
                    _ => rank,
                };
                shares[(first + offset) as usize] = own * share;
            }
        }
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        follows(&counts, &shares).unwrap_or_else(|why| panic!("{allocation:?}: {why}"));
    }
}

/// Shares of ranges are not rounded to multiples of the least one.
#[test]
fn thirty_ranges_have_their_shares_over_ten_million_draws() {
    let model = small("zippydb", 30_000);
    let ranges = model.ranges.as_ref().unwrap().shares().unwrap();
    let space = Arc::new(KeySpace::new(&model, Allocation::PrefixDist, 3));
    let of_range = |model: &Model, space: &Arc<KeySpace>, draws: u64| {
        let pairs = counted(space, 9, draws);
        let heats = 0..model.ranges.as_ref().unwrap().count;
        let counts = heats.map(|heat| {
            let (first, among) = space.range_at(space.place_of(Kind::Get, heat));
            pairs[first as usize..(first + among) as usize].iter().sum()
        });
        counts.collect::<Vec<u64>>()
    };
    follows(&of_range(&model, &space, 10_000_000), &ranges).unwrap();
    // The second range has a share of 1e-9, and the third of 1e-18.
    let mut steep = model;
    steep.ranges = Some(evendb_model::access::Ranges {
        count: 3,
        curve: evendb_model::curve::Curve::new(
            evendb_model::curve::Shape::Exponential,
            vec![1.0, -20.723],
        )
        .unwrap(),
    });
    let shares = steep.ranges.as_ref().unwrap().shares().unwrap();
    assert!((shares[1] / 1e-9 - 1.0).abs() < 0.01, "{shares:?}");
    let space = Arc::new(KeySpace::new(&steep, Allocation::PrefixDist, 3));
    let counts = of_range(&steep, &space, 1_000_000);
    assert_eq!(counts, [1_000_000, 0, 0]);
}

/// A power that covers fewer pairs than there are names those alone, and one that covers more is
/// cut: no rank wraps.
#[test]
fn accesses_that_cover_a_thousandth_or_a_thousand_times_the_pairs_keep_to_them() {
    let mut model = small("zippydb", 20_000);
    model.ranges = None;
    let b = 0.4;
    for covered in [0.001, 1.0, 1000.0] {
        let a = (covered * 20_000.0f64).powf(-b);
        let accesses = evendb_model::access::Accesses::Cumulative { a, b };
        model.accesses = Some(accesses);
        let touched = accesses.touched(model.pairs);
        assert!((touched - f64::min(covered, 1.0)).abs() < 1e-9, "{touched}");
        let space = Arc::new(KeySpace::new(&model, Allocation::AllDist, 3));
        let counts = counted(&space, 9, 500_000);
        let below = |rank| accesses.share_below(rank, model.pairs, touched);
        let shares: Vec<f64> = (0..model.pairs)
            .map(|rank| below(rank + 1) - below(rank))
            .collect();
        follows(&counts, &shares).unwrap_or_else(|why| panic!("{covered}: {why}"));
        let named = counts.iter().rposition(|count| *count > 0).unwrap() as f64 + 1.0;
        assert!(named <= 20_000.0 * touched + 1e-6, "{covered}: {named}");
    }
}

#[test]
fn hot_pairs_lie_side_by_side_or_do_not() {
    let model = small("zippydb", 20_000);
    // The share of the accesses that the hottest 100 blocks of 20 pairs have: what a small cache of
    // blocks can hold.
    let held = |allocation| {
        let space = Arc::new(KeySpace::new(&model, allocation, 3));
        let counts = counted(&space, 9, 200_000);
        let mut blocks: Vec<u64> = counts.chunks(20).map(|block| block.iter().sum()).collect();
        blocks.sort_unstable();
        blocks.iter().rev().take(100).sum::<u64>() as f64 / 200_000.0
    };
    let [prefix, scattered, all, random, uniform] = [
        Allocation::PrefixDist,
        Allocation::PrefixRandom,
        Allocation::AllDist,
        Allocation::AllRandom,
        Allocation::Uniform,
    ]
    .map(held);
    assert!(
        prefix > 0.85 && prefix > scattered && scattered > random,
        "{prefix} {scattered} {random}"
    );
    assert!(
        all > random && random > uniform && uniform < 0.15,
        "{all} {random} {uniform}"
    );
}

#[test]
fn ycsbs_distributions_are_its_own() {
    let model = small("zippydb", 10_000);
    let sorted = |allocation| {
        let space = Arc::new(KeySpace::new(&model, allocation, 3));
        let mut counts = counted(&space, 11, 1_000_000);
        let first_half: u64 = counts[..5000].iter().sum();
        // No allocation has its hot pairs at an end of the key space.
        assert!(
            (0.35..0.65).contains(&(first_half as f64 / 1e6)),
            "{allocation:?}"
        );
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    };
    let share = |counts: &[u64], hottest: usize| counts[..hottest].iter().sum::<u64>() as f64 / 1e6;
    let space = Arc::new(KeySpace::new(&model, Allocation::Uniform, 3));
    follows(&counted(&space, 11, 1_000_000), &vec![1e-4; 10_000]).unwrap();
    assert!((share(&sorted(Allocation::Hotspot), 2000) - 0.8).abs() < 0.01);
    let exponential = share(&sorted(Allocation::Exponential), 8571);
    // 3 % of the draws lie beyond the last pair and are drawn again.
    assert!((exponential - 0.95 / 0.97).abs() < 0.01, "{exponential}");
    let zipf = share(&sorted(Allocation::Zipfian), 1);
    assert!((0.08..0.13).contains(&zipf), "{zipf}");
}

#[test]
fn nothing_that_is_drawn_says_anything_of_another() {
    let model = small("zippydb", 20_000);
    let mut worker = worker(&model, Allocation::PrefixDist, 8);
    let columns: Vec<[f64; 4]> = (0..100_000)
        .map(|_| {
            let kind = worker.next_kind();
            let pair = worker.next_pair(kind);
            let size = worker.next_value(pair).0;
            [
                f64::from(kind as u8),
                pair as f64,
                size as f64,
                (worker.next_length() as f64).ln(),
            ]
        })
        .collect();
    for first in 0..4 {
        for second in first + 1..4 {
            let column = |place: usize| columns.iter().map(|row| row[place]).collect::<Vec<_>>();
            let r = evendb_model::correlation::pearson(&column(first), &column(second)).unwrap();
            assert!(r.abs() < 0.015, "{first} {second}: {r}");
        }
    }
}

#[test]
fn the_same_seed_draws_the_same() {
    let model = small("zippydb", 1000);
    let draws = |seed, phase| {
        let load = Arc::new(Load::new(&model, Allocation::PrefixRandom, seed));
        let mut worker = ModelWorker::new(&load, phase, 0);
        let draw = |_| {
            let kind = worker.next_kind();
            (kind, worker.next_pair(kind), worker.next_length())
        };
        (0..50).map(draw).collect::<Vec<_>>()
    };
    assert_eq!(draws(1, 0), draws(1, 0));
    assert_ne!(draws(1, 0), draws(2, 0));
    assert_ne!(draws(1, 0), draws(1, 1));
}

/// Fills a store and carries out operations on it.
fn run(
    store: &dyn Store,
    model: impl Into<Workload>,
    steps: u32,
) -> Result<(Recorder, Arc<Load>), RunError> {
    let load = Arc::new(Load::new(model, Allocation::PrefixDist, 4));
    let mut fill = FillWorker::new(&load, &Arc::default());
    let mut recorder = Recorder::new(Arc::default());
    while fill.step(store, &mut recorder)? {}
    let mut worker = ModelWorker::new(&load, 0, 0);
    let mut recorder = Recorder::new(Arc::default());
    for _ in 0..steps {
        worker.step(store, &mut recorder)?;
    }
    load.check_sum(store)?;
    Ok((recorder, load))
}

#[test]
fn every_preset_runs_and_every_kind_is_timed() {
    for name in presets::names().filter(|name| presets::named(name).is_some()) {
        let model = small(name, 3000);
        let (recorder, load) = run(&MemoryStore::new(), &model, 5000).unwrap();
        for (kind, share) in [
            (OperationKind::Get, model.mix.get),
            (OperationKind::Put, model.mix.put),
            (OperationKind::Merge, model.mix.merge),
            (OperationKind::Scan, model.mix.scan),
        ] {
            let timed = recorder
                .histogram(kind)
                .map_or(0, hdrhistogram::Histogram::len);
            let off = timed as f64 / 5000.0 - share;
            assert!(off.abs() < 0.02, "{name} {kind:?}: {timed}");
        }
        assert_eq!(load.absent() > 0, model.mix.delete > 0.0, "{name}");
    }
}

#[test]
fn deletes_leave_holes_that_are_no_faults() {
    let mut model = small("zippydb", 2000);
    (model.mix.get, model.mix.delete) = (0.73, 0.1);
    let (recorder, load) = run(&MemoryStore::new(), &model, 20_000).unwrap();
    assert!(recorder.histogram(OperationKind::Delete).unwrap().len() > 1000);
    assert!(load.absent() > 100);
}

#[test]
fn wrong_answers_are_found() {
    for (fault, words) in [
        (Fault::FlipBit, "differ"),
        (Fault::LoseRecord, "missing"),
        (Fault::WrongRecord, "belongs to"),
        (Fault::ScanGap, "yielded key"),
    ] {
        let mut model = small("zippydb", 2000);
        // Values that say what they are.
        model.values.loaded = evendb_model::sizes::Sizes::constant(200);
        model.values.sizes.least = 100;
        (model.mix.get, model.mix.put, model.mix.scan) = match fault {
            Fault::ScanGap => (0.0, 0.1, 0.9),
            _ => (0.9, 0.1, 0.0),
        };
        let error = run(&MemoryStore::with_fault(fault), &model, 20_000);
        let error = error
            .err()
            .unwrap_or_else(|| panic!("{fault:?} was not seen"));
        assert!(error.to_string().contains(words), "{fault:?}: {error}");
    }
}

#[test]
fn counters_add_up_or_it_is_told() {
    let store = MemoryStore::new();
    let (_, load) = run(&store, small("up2x", 300), 5000).unwrap();
    store.add(&load.families[0].records.key(7), 1).unwrap();
    let told = load.check_sum(&store).unwrap_err().to_string();
    assert!(told.contains("were added"), "{told}");
    store.delete(&load.families[0].records.key(299)).unwrap();
    let told = load.check_sum(&store).unwrap_err().to_string();
    assert!(told.contains("299 of 300 counters are there"), "{told}");
}
