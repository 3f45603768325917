//! Kinds that have hot keys of their own: planted, drawn by chance, counted, and made into a model
//! again.

use super::*;
use crate::access::Own;
use crate::model::OwnHeat;

/// Random numbers from 0 to 1: chance decides how often a pair is named.
fn chance(seed: u64) -> impl Iterator<Item = f64> {
    (1_u64..).map(move |n| {
        let mut mixed = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ seed << 56;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ mixed >> 31) >> 11) as f64 / (1_u64 << 53) as f64
    })
}

/// How often a kind of a model names each pair. Ranges and pairs lie where the model puts them.
fn named(model: &Model, kind: Kind, operations: usize, seed: u64) -> BTreeMap<(u64, u64), u64> {
    let ranges = model.ranges_of(kind).unwrap();
    let (shares, accesses) = (ranges.shares().unwrap(), model.accesses_of(kind).unwrap());
    let (among, touched) = (model.pairs / ranges.count, accesses.touched(model.pairs));
    let own = &model.own[kind as usize];
    let first_range = own
        .ranges
        .as_ref()
        .map_or(0, |own| own.first_of(ranges.count));
    let first_pair = own.accesses.as_ref().map_or(0, |own| own.first_of(among));
    let mut counts = BTreeMap::new();
    for (unit, pair) in chance(2 * seed).zip(chance(2 * seed + 1)).take(operations) {
        let mut left = unit;
        let heat = shares.iter().position(|share| {
            left -= share;
            left < 0.0
        });
        let range = (heat.unwrap_or(0) as u64 + first_range) % ranges.count;
        let rank = (accesses.rank(pair, among, touched) + first_pair) % among;
        *counts.entry((range, rank)).or_default() += 1;
    }
    counts
}

/// The figures about the places of these kinds' keys, and the numbers of operations.
fn of_kinds(model: &Model, kinds: &[(Kind, usize)]) -> Document {
    let load = zippydb(0.5);
    let mut found = document(&load, &Sizes::constant(40), &Sizes::constant(1));
    let (mut operations, mut by_range) = (Vec::new(), Vec::new());
    let (mut ranks, mut hottest, mut all) = (Vec::new(), Vec::new(), BTreeMap::new());
    for (number, &(kind, drawn)) in kinds.iter().enumerate() {
        let head = || vec![json!("app"), json!(kind.name())];
        let row = |cells: [Value; 2]| [head(), cells.to_vec()].concat();
        operations.push([head(), vec![json!(drawn)]].concat());
        let counts = named(model, kind, drawn, number as u64);
        let mut of_ranges = vec![0; model.ranges.as_ref().unwrap().count as usize];
        counts
            .iter()
            .for_each(|((range, _), count)| of_ranges[*range as usize] += count);
        by_range.extend(
            of_ranges
                .iter()
                .enumerate()
                .map(|(at, count)| row([json!(at), json!(count)])),
        );
        let mut falling: Vec<_> = counts.iter().map(|(pair, count)| (*count, *pair)).collect();
        falling.sort_by(|a, b| b.cmp(a));
        let key = |(range, pair): (u64, u64)| json!(format!("{range:03}-{pair:06}"));
        hottest.extend(
            falling
                .iter()
                .take(20)
                .map(|&(count, pair)| row([key(pair), json!(count)])),
        );
        let mut up_to = 0;
        for (at, (count, _)) in falling.iter().enumerate() {
            up_to += count;
            let share = up_to as f64 / drawn as f64;
            ranks.push([row([json!(at + 1), json!(count)]), vec![json!(share)]].concat());
        }
        all.extend(counts);
    }
    let mut replace = |id: &str, rows: Vec<Vec<Value>>| {
        let figure = found.figures.iter_mut().find(|figure| figure.id == id);
        figure.unwrap().rows = rows;
    };
    replace("composition", operations);
    replace("ranges", by_range);
    replace("access-ranks", ranks);
    replace(
        "unique-keys",
        vec![vec![json!("app"), json!(60), json!(all.len())]],
    );
    let columns = ["keyspace", "kind", "key", "accesses"];
    found
        .figures
        .push(figure("hottest-keys", &columns, hottest));
    found
}

/// The common part of the model in tests of kinds: as the study's, on 60,000 pairs.
fn planted() -> Model {
    let (load, b) = (zippydb(0.4), 0.4);
    let mut model = crate::presets::named("zippydb").unwrap();
    model.pairs = load.pairs;
    model.ranges = Some(load.ranges);
    let a = (0.8 * load.pairs as f64).powf(-b);
    model.accesses = Some(Accesses::Cumulative { a, b });
    model
}

fn remade(model: &Model, kinds: &[(Kind, usize)]) -> Made {
    let known = Known {
        pairs: Some(model.pairs),
        ..Known::default()
    };
    let made = make(&of_kinds(model, kinds), &known).unwrap();
    assert_eq!(
        Model::from_toml(&made.to_toml().unwrap()).unwrap(),
        made.model
    );
    made
}

/// Puts go to other ranges and to other pairs than gets, nearly all of them once; scans as gets.
#[test]
fn planted_kinds_come_back() {
    // In the first case no key is put often enough for a rank: then the order of pairs is the
    // common one.
    for (b, touched, puts, order) in [(0.7, 1.0, 65_000, 0.0), (0.5, 0.5, 300_000, 0.5)] {
        let mut model = planted();
        let a = (touched * model.pairs as f64).powf(-b);
        let own = &mut model.own[Kind::Put as usize];
        let curve = Accesses::Cumulative { a, b };
        own.accesses = Some(Own { curve, first: 0.5 });
        let curve = Curve::new(Shape::Exponential, vec![1.0, -0.05]).unwrap();
        own.ranges = Some(Own { curve, first: 0.3 });
        let kinds = [
            (Kind::Get, 600_000),
            (Kind::Put, puts),
            (Kind::Scan, 60_000),
        ];
        let made = remade(&model, &kinds);
        let notes = made.notes.join("\n");
        for kind in [Kind::Get, Kind::Put, Kind::Scan] {
            let shares = |model: &Model| model.ranges_of(kind).unwrap().shares().unwrap();
            for (planted, fitted) in shares(&model).iter().zip(shares(&made.model)) {
                assert!(
                    (planted - fitted).abs() < 0.005,
                    "{kind:?} {planted} {fitted}\n{notes}"
                );
            }
            let expected = |model: &Model| {
                let operations = kinds.iter().find(|(of, _)| *of == kind).unwrap().1;
                crate::counts::expected(model, kind, operations as f64).unwrap()
            };
            let (planted, fitted) = (expected(&model), expected(&made.model));
            assert!(
                (fitted.mean / planted.mean - 1.0).abs() < 0.05,
                "{kind:?} {planted:?} {fitted:?}\n{notes}"
            );
            assert!(
                (fitted.once - planted.once).abs() < 0.03,
                "{kind:?} {planted:?} {fitted:?}\n{notes}"
            );
        }
        let own = &made.model.own;
        let put = &own[Kind::Put as usize];
        assert_eq!(put.ranges.as_ref().unwrap().first_of(30), 9, "{notes}");
        let accesses = put.accesses.as_ref().unwrap();
        assert_eq!(accesses.first, order, "{notes}");
        let Accesses::Cumulative { b: fitted, .. } = accesses.curve else {
            panic!("{:?}\n{notes}", accesses.curve)
        };
        assert!((fitted - b).abs() < 0.05, "{fitted} of {b}\n{notes}");
        assert_eq!(own[Kind::Scan as usize], OwnHeat::default(), "{notes}");
    }
}

/// Kinds that have the same hot keys get no tables of their own. Kinds with the same curves on
/// other pairs get an order of their own.
#[test]
fn kinds_have_of_their_own_only_what_differs() {
    let mut model = planted();
    let kinds = [(Kind::Get, 600_000), (Kind::Put, 150_000)];
    let made = remade(&model, &kinds);
    assert!(
        made.model.own.iter().all(|own| *own == OwnHeat::default()),
        "{:?}",
        made.notes
    );
    let curve = model.accesses.unwrap();
    model.own[Kind::Put as usize].accesses = Some(Own { curve, first: 0.4 });
    let made = remade(&model, &kinds);
    let put = &made.model.own[Kind::Put as usize];
    assert_eq!(put.ranges, None);
    let accesses = put.accesses.as_ref().unwrap();
    assert_eq!(
        (accesses.first, Some(accesses.curve)),
        (0.5, made.model.accesses),
        "{:?}",
        made.notes
    );
    // Too few operations to say where they go.
    let made = remade(&model, &[(Kind::Get, 600_000), (Kind::Put, 900)]);
    assert_eq!(made.model.own[Kind::Put as usize], OwnHeat::default());
}
