//! Kinds that have hot keys of their own, and files from before there were such kinds.

use super::*;
use evendb_model::access::{Accesses, Own, Ranges};
use evendb_model::curve::{Curve, Shape};

/// A thousand pairs in ten ranges: gets name the first tenth of each range, and puts a tenth from
/// the middle on.
fn of_kinds() -> Model {
    let mut model = small("zippydb", 1000);
    let falls = |b: f64| Curve::new(Shape::Exponential, vec![1.0, b]).unwrap();
    let (count, curve) = (10, falls(-0.5));
    model.ranges = Some(Ranges { count, curve });
    let curve = Accesses::Cumulative { a: 0.1, b: 0.5 };
    model.accesses = Some(curve);
    let own = &mut model.own[Kind::Put as usize];
    own.accesses = Some(Own { curve, first: 0.5 });
    own.ranges = Some(Own {
        curve: falls(-1.0),
        first: 0.3,
    });
    model
}

#[test]
fn kinds_have_their_own_hot_pairs_where_the_model_says() {
    let model = of_kinds();
    let drawn = |allocation, kind| {
        let space = Arc::new(KeySpace::new(&model, allocation, 3));
        let mut chooser = space.chooser(Random::new(9, 0));
        let mut counts = vec![0_u64; 1000];
        (0..100_000).for_each(|_| counts[chooser.pair(kind) as usize] += 1);
        (space, counts)
    };
    let named =
        |counts: &[u64]| -> Vec<usize> { (0..1000).filter(|pair| counts[*pair] > 0).collect() };
    let (space, puts) = drawn(Allocation::PrefixDist, Kind::Put);
    let (_, gets) = drawn(Allocation::PrefixDist, Kind::Get);
    assert!(named(&gets).iter().all(|pair| pair % 100 < 10));
    assert!(
        named(&puts)
            .iter()
            .all(|pair| (50..60).contains(&(pair % 100)))
    );
    // The ranges are the same, and the hottest range of puts is the fourth of gets.
    let place = |kind, heat| space.place_of(kind, heat);
    assert_eq!(place(Kind::Put, 0), place(Kind::Get, 3));
    assert_eq!(place(Kind::Put, 9), place(Kind::Get, 2));
    let of_range = |counts: &[u64], place: u64| {
        counts[place as usize * 100..][..100].iter().sum::<u64>() as f64 / 1e5
    };
    // 1 - e^-b, as the shares of a geometric series.
    assert!((of_range(&puts, place(Kind::Put, 0)) - 0.632).abs() < 0.01);
    assert!((of_range(&gets, place(Kind::Get, 0)) - 0.396).abs() < 0.01);
    // The hottest pair has the share (1/10)^b of its range.
    let hottest = place(Kind::Put, 0) as usize * 100 + 50;
    assert!((puts[hottest] as f64 / 1e5 - 0.632 * 0.316).abs() < 0.01);
    // Kinds without tables of their own have the common ones.
    assert_eq!(drawn(Allocation::PrefixDist, Kind::Scan).1, gets);

    // Scattered, or in one range, they are apart as well.
    for allocation in [
        Allocation::PrefixRandom,
        Allocation::AllDist,
        Allocation::AllRandom,
    ] {
        let (puts, gets) = (
            drawn(allocation, Kind::Put).1,
            drawn(allocation, Kind::Get).1,
        );
        assert!(
            named(&puts).len() > 60 && named(&gets).len() > 60,
            "{allocation:?}"
        );
        assert!(
            named(&puts).iter().all(|pair| gets[*pair] == 0),
            "{allocation:?}"
        );
    }
    // Pairs that are alike still have hot ranges, and in YCSB's allocations all kinds are alike.
    let (space, _) = drawn(Allocation::PrefixUniform, Kind::Put);
    assert!(!space.alike(Kind::Get, Kind::Put) && space.alike(Kind::Get, Kind::Scan));
    for allocation in [
        Allocation::Uniform,
        Allocation::Zipfian,
        Allocation::Hotspot,
        Allocation::Exponential,
    ] {
        let (space, puts) = drawn(allocation, Kind::Put);
        assert!(space.alike(Kind::Get, Kind::Put));
        assert_eq!(puts, drawn(allocation, Kind::Get).1, "{allocation:?}");
    }
}

#[test]
fn frequencies_of_kinds_are_those_of_their_curves() {
    let model = of_kinds();
    for allocation in [
        Allocation::PrefixDist,
        Allocation::PrefixRandom,
        Allocation::AllRandom,
    ] {
        let space = Arc::new(KeySpace::new(&model, allocation, 3));
        for kind in [Kind::Get, Kind::Put] {
            let mut counts = vec![0; 1000];
            let mut chooser = space.chooser(Random::new(9, 0));
            (0..300_000).for_each(|_| counts[chooser.pair(kind) as usize] += 1);
            let accesses = model.accesses_of(kind).unwrap();
            let ranges = model.ranges_of(kind).and_then(|ranges| ranges.shares());
            let ranges = ranges
                .filter(|_| space.ranges() > 1)
                .unwrap_or_else(|| vec![1.0]);
            let (mut shares, touched) = (vec![0.0; 1000], accesses.touched(1000));
            for (heat, of_range) in ranges.into_iter().enumerate() {
                let place = space.place_of(kind, heat as u64);
                let among = space.range_at(place).1;
                for rank in 0..among {
                    let below = |rank| accesses.share_below(rank, among, touched);
                    let share = &mut shares[space.pair_of(kind, place, rank) as usize];
                    *share += of_range * (below(rank + 1) - below(rank));
                }
            }
            follows(&counts, &shares)
                .unwrap_or_else(|why| panic!("{allocation:?} {kind:?}: {why}"));
        }
    }
}

/// Files from before kinds could have hot keys of their own, and what was drawn from them then.
#[test]
fn files_of_before_draw_what_they_drew() {
    for (text, drawn) in BEFORE_KINDS {
        let model = Model::from_toml(text).unwrap();
        let model = model.scaled(20_000.0 / model.pairs as f64);
        let all = Allocation::FIGURE_14
            .iter()
            .chain(&[Allocation::PrefixUniform]);
        let hashes = all.map(|&allocation| {
            let mut worker = worker(&model, allocation, 5);
            (0..2000).fold(0, |hash, _| {
                let kind = worker.next_kind();
                let pair = worker.next_pair(kind);
                let size = worker.next_value(pair).0;
                let all = [kind as u64, pair, size, worker.next_length()];
                all.iter()
                    .fold(hash, |hash, one| crate::random::mix64(hash ^ one))
            })
        });
        let hashes: Vec<u64> = hashes.collect();
        assert_eq!(hashes, drawn, "{}", model.name);
    }
}

const BEFORE_KINDS: [(&str, [u64; 9]); 3] = [
    (
        include_str!("../../../../testdata/models-before-kinds/zippydb.toml"),
        [
            2405483786906578323,
            15529943966602691192,
            14042332063412271436,
            12447473342560698447,
            13092157340066206301,
            9820373987613566512,
            815185073187059563,
            15167111080591483960,
            15070240738512206528,
        ],
    ),
    (
        include_str!("../../../../testdata/models-before-kinds/udb-assoc.toml"),
        [
            11163659087012210189,
            11706162519608849176,
            16004071300551176007,
            8428006541166759706,
            13375478534302816216,
            10952466089517262595,
            2242231385777905328,
            18173592864446821821,
            14913097561166789112,
        ],
    ),
    (
        include_str!("../../../../testdata/models-before-kinds/up2x.toml"),
        [
            12598506646175405265,
            6651575960960618759,
            11776943998040729954,
            10836483745345451608,
            3162274017623874327,
            11371074772365448870,
            3206329971876756061,
            8580337133326137363,
            185791098499554470,
        ],
    ),
];
