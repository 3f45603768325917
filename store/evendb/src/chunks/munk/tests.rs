//! Model tests: a munk with some absent spans, against an ordered map from key to its versions.

use super::image::tests::{
    Model, Records, absorb_model, newest, numbered, owned, probes, random_key, random_records,
};
use super::*;
use crate::folding::Folding;
use crate::memory::Ledger;
use crate::version::horizon::Horizon;
use evendb_storage::{Kind, key_hash::RamHash};
use rand::{RngExt, SeedableRng, rngs::StdRng};

fn build(model: &Model, sizes: Sizes) -> Munk {
    let mut builder = MunkBuilder::new(sizes, Ledger::SHARED);
    let mut records = Records::of(model);
    while let Some(entry) = records.current() {
        builder.add(entry);
        records.advance();
    }
    builder.finish()
}

fn random_sizes(random: &mut StdRng) -> Sizes {
    let page_bytes = [1, 100, 400][random.random_range(0..3)];
    Sizes {
        page_bytes,
        span_bytes: page_bytes * random.random_range(1..5),
    }
}

fn is_present(munk: &Munk, key: &[u8]) -> bool {
    munk.spans[munk.separators.find(key)].image().is_some()
}

/// The part of the model that lies in present spans.
fn present(munk: &Munk, model: &Model) -> Model {
    let present = model.iter().filter(|(key, _)| is_present(munk, key));
    present
        .map(|(key, versions)| (key.clone(), versions.clone()))
        .collect()
}

/// Checks every way to read a munk that has the model's records in its present spans.
fn check(munk: &Munk, model: &Model, random: &mut StdRng) {
    check_structure(munk, model);
    for key in probes(model, random) {
        let at = [0, random.random_range(0..100), u64::MAX][random.random_range(0..3)];
        let want = model.get(&key).and_then(|versions| newest(versions, at));
        match munk.get(&key, RamHash::of(&key), Version(at)) {
            Sought::Absent => assert!(!is_present(munk, &key)),
            Sought::Nothing => assert_eq!((want, is_present(munk, &key)), (None, true)),
            Sought::Found(hit) => assert_eq!(owned(Some(hit)), want),
        }
        check_segments(munk, model, &key);
    }
    check_whole_range(munk, model);
}

fn check_structure(munk: &Munk, model: &Model) {
    assert_eq!(munk.spans.len(), munk.separators.len());
    let borders: Vec<_> = (0..munk.spans.len())
        .map(|span| munk.separators.get(span))
        .collect();
    assert!(borders[0].is_empty() && borders[1..].is_sorted_by(|a, b| a < b));
    let images = munk.images().count();
    assert_eq!(munk.totals.absent, munk.spans.len() - images);
    let there = present(munk, model);
    let entries = there.values().map(|versions| versions.len());
    assert_eq!(munk.entries(), entries.sum::<usize>());
    let ends = munk
        .ends()
        .map(|(first, last)| (first.to_vec(), last.to_vec()));
    let want = there.first_key_value().zip(there.last_key_value());
    assert_eq!(
        ends,
        want.map(|(first, last)| (first.0.clone(), last.0.clone()))
    );
    let mut all = munk.all_entries();
    let mut wanted = Records::of(&there);
    while let Some(want) = wanted.current() {
        let entry = all.current().expect("as many records");
        assert_eq!((entry.key, entry.version), (want.key, want.version));
        assert_eq!((entry.kind, entry.value), (want.kind, want.value));
        all.advance();
        wanted.advance();
    }
    assert!(all.current().is_none());
}

/// Checks a segment's limits, and that cursors read all of it from `probe` on, and nothing beyond.
fn check_segments(munk: &Munk, model: &Model, probe: &[u8]) {
    let within = |segment: Segment<'_>, key: &[u8]| {
        segment.low.is_none_or(|low| *key >= *low) && segment.high.is_none_or(|high| *key < *high)
    };
    let segment = munk.segment_from(Some(probe));
    assert!(within(segment, probe));
    for key in model.keys() {
        assert!(!within(segment, key) || is_present(munk, key) == segment.present);
    }
    if let Some(high) = segment.high {
        assert_ne!(munk.segment_from(Some(high)).present, segment.present);
    }
    let mut cursor = munk.cursor();
    cursor.seek(probe);
    let above = model.range(probe.to_vec()..).map(|(key, _)| key);
    for key in above.filter(|key| segment.present && within(segment, key)) {
        assert_eq!(cursor.key(), key);
        cursor.next_within_page();
    }
    assert!(!cursor.valid());
    // The same, page by page.
    cursor.seek(probe);
    let above = model.range(probe.to_vec()..).map(|(key, _)| key);
    let mut rest = above.filter(|key| segment.present && within(segment, key));
    while cursor.valid() {
        let last = cursor.page().last_key();
        assert!(rest.any(|key| key == last));
        let end = cursor.end_of_page();
        assert!(end.is_none_or(|end| last < end));
        cursor.next_page();
        assert!(!cursor.valid() || end.is_some_and(|end| end <= cursor.key()));
    }
    assert_eq!(rest.next(), None);

    let segment = munk.segment_below(Some(probe));
    assert!(
        segment.low.is_none_or(|low| *low < *probe)
            && segment.high.is_none_or(|high| *high >= *probe)
    );
    if let Some(low) = segment.low {
        assert_ne!(munk.segment_below(Some(low)).present, segment.present);
    }
    cursor.seek_before(probe);
    let below = model.range(..probe.to_vec()).rev().map(|(key, _)| key);
    for key in below.filter(|key| segment.present && within(segment, key)) {
        assert_eq!(cursor.key(), key);
        cursor.prev();
    }
    assert!(!cursor.valid());
}

/// Reads from one end to the other, segment by segment, as scans do.
fn check_whole_range(munk: &Munk, model: &Model) {
    let mut cursor = munk.cursor();
    let (mut found, mut from) = (Vec::new(), None::<Vec<u8>>);
    loop {
        let segment = munk.segment_from(from.as_deref());
        if segment.present {
            match &from {
                Some(from) => cursor.seek(from),
                None => cursor.seek_first(),
            }
            while cursor.valid() {
                found.push(cursor.key().to_vec());
                cursor.next_within_page();
            }
        }
        let Some(high) = segment.high else { break };
        from = Some(high.to_vec());
    }
    let there = present(munk, model);
    assert!(found.iter().eq(there.keys()));
    let mut below: Option<Vec<u8>> = None;
    let mut found = Vec::new();
    loop {
        let segment = munk.segment_below(below.as_deref());
        if segment.present {
            match &below {
                Some(below) => cursor.seek_before(below),
                None => cursor.seek_last(),
            }
            while cursor.valid() {
                found.push(cursor.key().to_vec());
                cursor.prev();
            }
        }
        let Some(low) = segment.low else { break };
        below = Some(low.to_vec());
    }
    assert!(found.iter().eq(there.keys().rev()));
}

/// The images of `spans` with the records of the model.
fn images(munk: &Munk, spans: std::ops::Range<usize>, model: &Model) -> spans::Loaded {
    let mut images = SpanImages::new(munk, spans);
    let mut records = Records::of(model);
    while let Some(entry) = records.current() {
        images.add(entry);
        records.advance();
    }
    images.finish()
}

fn shares_image(one: &Span, other: &Span) -> bool {
    match (one, other) {
        (Span::Present(one), Span::Present(other)) => Arc::ptr_eq(one, other),
        _ => false,
    }
}

fn is_absent(span: &Span) -> bool {
    span.image().is_none()
}

fn without_some(munk: &Munk, random: &mut StdRng) -> Munk {
    let share = [0.1, 0.5, 1.0][random.random_range(0..3)];
    let gone: Vec<bool> = munk
        .spans
        .iter()
        .map(|_| random.random_bool(share))
        .collect();
    munk.without(|span| gone[span])
}

/// In a database that is much larger than memory nearly all spans are absent, and each has an
/// entry.
#[test]
fn an_absent_span_takes_little() {
    let lows: Vec<Vec<u8>> = (1..320u32)
        .map(|low| format!("user{:010}", low * 40).into_bytes())
        .collect();
    let sizes = Sizes::of_chunk(10 << 20);
    let munk = Munk::absent(&lows, sizes, Ledger::SHARED);
    let each = munk.bytes() / munk.span_count();
    assert!(each <= 64, "{each}");
    // At most a thousandth and a half of the bytes of the span.
    assert!(each * 600 <= sizes.span_bytes, "{each}");
}

#[test]
fn what_is_there_reads_like_the_model() {
    for seed in 0..40 {
        let random = &mut StdRng::seed_from_u64(seed);
        let model = random_records(random, [0, 3, 40, 300][seed as usize % 4], 0);
        let munk = build(&model, random_sizes(random));
        assert!(munk.is_whole());
        check(&munk, &model, random);
        let some = without_some(&munk, random);
        check(&some, &model, random);
        assert!(some.bytes() <= munk.bytes());
    }
}

/// Loads absent spans, a few at a time, until the munk is whole.
#[test]
fn spans_come_and_go() {
    for seed in 0..40 {
        let random = &mut StdRng::seed_from_u64(seed);
        let model = random_records(random, [3, 40, 300][seed as usize % 3], 0);
        let sizes = random_sizes(random);
        let borders: std::collections::BTreeSet<_> = (0..random.random_range(0..8))
            .map(|_| random_key(random))
            .collect();
        let lows: Vec<_> = borders.into_iter().filter(|low| !low.is_empty()).collect();
        let mut munk = Munk::absent(&lows, sizes, Ledger::SHARED);
        assert!(!munk.holds_any());
        check(&munk, &model, random);
        while let Some(first) = munk.spans.iter().position(is_absent) {
            let more = munk.spans[first..]
                .iter()
                .take_while(|span| is_absent(span));
            let end = first + random.random_range(1..=more.count());
            let mut part = model.clone();
            if let Some(high) = munk.separators.upper(end - 1) {
                part.split_off(high);
            }
            let part = part.split_off(munk.separators.get(first));
            munk = munk.with(vec![images(&munk, first..end, &part)]);
            check(&munk, &model, random);
        }
        assert!(munk.is_whole());
        check(&without_some(&munk, random), &model, random);
    }
}

#[test]
fn absorbing_changes_what_is_there_and_nothing_else() {
    for seed in 0..60 {
        let random = &mut StdRng::seed_from_u64(seed);
        let mut model = random_records(random, [0, 5, 200][seed as usize % 3], 0);
        let mut munk = build(&model, random_sizes(random));
        for round in 1..6 {
            if random.random() {
                munk = without_some(&munk, random);
                model = present(&munk, &model);
            }
            let count = [0, 1, 10, 150][random.random_range(0..4)];
            let newer = random_records(random, count, round * 30);
            let before = munk.clone();
            // All versions below the newest go.
            let horizon = Horizon {
                floor: Version(round * 30 + 60),
                snapshots: Vec::new(),
                ..Horizon::default()
            };
            let wanted = present(&munk, &newer);
            munk = munk.absorb(&mut Records::of(&newer), &horizon, false, Folding::NONE);
            let mut all = model.clone();
            all.extend(absorb_model(&Model::new(), &wanted, &horizon, false));
            for key in newer.keys() {
                assert_eq!(is_present(&before, key), is_present(&munk, key));
            }
            // Untouched pages keep older versions, so only the newest of each key is compared.
            for (key, versions) in &all {
                let hit = match munk.get(key, RamHash::of(key), Version::MAX) {
                    Sought::Found(hit) => owned(Some(hit)),
                    Sought::Nothing => None,
                    Sought::Absent => continue,
                };
                assert_eq!(hit, newest(versions, u64::MAX), "{key:?}");
            }
            model = read(&munk);
            assert!(model.keys().eq(present(&munk, &all).keys()));
            check(&munk, &model, random);
        }
    }
}

#[test]
fn mending_takes_what_is_hidden_and_nothing_else() {
    let mut lost = 0;
    for seed in 0..200 {
        let random = &mut StdRng::seed_from_u64(seed);
        let mut model = random_records(random, [3, 40, 200][seed as usize % 3], 0);
        let sizes = random_sizes(random);
        let munk = without_some(&build(&model, sizes), random);
        model = present(&munk, &model);
        let mut limits = [random_key(random), random_key(random)];
        limits.sort();
        let [low, high] = limits;
        let below = Version(random.random_range(5..40));
        let horizon = Horizon {
            floor: Version(60),
            snapshots: Vec::new(),
            ..Horizon::default()
        };
        let has = |key: &[u8]| *key >= *low && *key < *high;
        let is_touched = |span: usize| {
            let (first, end) = munk.limits(span);
            *first < *high && end.is_none_or(|end| *end > *low)
        };
        let mut hidden_below = |key: &[u8]| if has(key) { below } else { Version::ZERO };
        let mended = munk.mended(
            below,
            is_touched,
            &mut hidden_below,
            &horizon,
            Folding::NONE,
        );
        assert_eq!(mended.mended_to(), below);
        for (key, versions) in &model {
            let (newest, _, value) = newest(versions, u64::MAX).expect("one at least");
            let is_put = versions
                .values()
                .next()
                .is_some_and(|(kind, _)| *kind == Kind::Put);
            let wanted = (is_put && !(has(key) && newest < below)).then_some(value);
            let hit = match mended.get(key, RamHash::of(key), Version::MAX) {
                Sought::Absent => continue,
                Sought::Nothing => None,
                Sought::Found(hit) => (hit.kind == Kind::Put).then(|| hit.value_bytes().to_vec()),
            };
            assert_eq!(hit, wanted, "{key:?}");
        }
        // A span leaves only because of a key with hidden and visible records.
        let mut keys = model
            .iter()
            .filter(|(key, _)| !is_present(&mended, key))
            .peekable();
        lost += usize::from(keys.peek().is_some());
        let is_mixed = |(key, versions): (&Vec<u8>, &std::collections::BTreeMap<_, _>)| {
            let versions: Vec<Version> = versions
                .keys()
                .map(|v: &std::cmp::Reverse<u64>| Version(v.0))
                .collect();
            has(key) && versions[0] >= below && versions.iter().any(|version| *version < below)
        };
        let is_any = keys.peek().is_some();
        assert_eq!(keys.any(is_mixed), is_any);
        check(&mended, &read(&mended), random);
    }
    assert!(lost > 0, "no span had a key with a hidden part");
}

/// All records in present spans.
fn read(munk: &Munk) -> Model {
    let mut model = Model::new();
    let mut all = munk.all_entries();
    while let Some(entry) = all.current() {
        let versions = model.entry(entry.key.to_vec()).or_default();
        versions.insert(
            std::cmp::Reverse(entry.version.0),
            (entry.kind, entry.value.to_vec()),
        );
        all.advance();
    }
    model
}

#[test]
fn split_and_concat_keep_what_is_there() {
    for seed in 0..60 {
        let random = &mut StdRng::seed_from_u64(seed);
        let model = random_records(random, [1, 10, 200][seed as usize % 3], 0);
        let munk = build(&model, random_sizes(random));
        let middle = munk.middle_key();
        assert_eq!(middle.is_some(), model.len() > 1);
        if let Some(key) = &middle {
            assert!(model.range(..key.clone()).next().is_some());
            assert!(model.range(key.clone()..).next().is_some());
        }
        let some = without_some(&munk, random);
        let border = munk.separators.get(munk.spans.len() / 2).to_vec();
        for key in [Some(random_key(random)), middle, Some(border)]
            .into_iter()
            .flatten()
        {
            let (left, right) = some.split_at(&key);
            let mut lower = present(&some, &model);
            let upper = lower.split_off(&key);
            assert_eq!(read(&left), lower);
            assert_eq!(read(&right), upper);
            check(&left, &lower, random);
            check(&right, &upper, random);
            if !key.is_empty() {
                let joined = Munk::concat(&left, &key, &right);
                check(&joined, &present(&some, &model), random);
                for key in model.keys() {
                    assert_eq!(is_present(&joined, key), is_present(&some, key));
                }
            }
        }
    }
}

#[test]
fn the_middle_key_halves_the_data() {
    for (page_bytes, span_bytes) in [(500, 500), (500, 20_000), (8_192, 65_536)] {
        let sizes = Sizes {
            page_bytes,
            span_bytes,
        };
        let munk = build(&numbered(0..2_000, 1), sizes);
        let (left, right) = munk.split_at(&munk.middle_key().expect("many keys"));
        assert!(left.entries().abs_diff(right.entries()) < 40);
    }
}

#[test]
fn spans_keep_their_size() {
    let sizes = Sizes {
        page_bytes: 500,
        span_bytes: 4_000,
    };
    let horizon = Horizon {
        floor: Version(100),
        snapshots: Vec::new(),
        ..Horizon::default()
    };
    let random = &mut StdRng::seed_from_u64(7);
    let mut munk = build(&Model::new(), sizes);
    // First in order, one by one, and then between the existing keys.
    for number in (0..2_000).step_by(2).chain((1..2_000).step_by(2)) {
        let newer = numbered(number..number + 1, 1);
        munk = munk.absorb(&mut Records::of(&newer), &horizon, true, Folding::NONE);
    }
    check(&munk, &numbered(0..2_000, 1), random);
    let sizes: Vec<_> = munk.images().map(|image| image.bytes()).collect();
    assert!(sizes.iter().all(|&bytes| bytes <= 2 * 4_000));
    let mean = sizes.iter().sum::<usize>() / sizes.len();
    assert!(mean > 2_000, "{mean}");
    // Untouched spans are shared.
    let newer = numbered(1_000..1_001, 2);
    let absorbed = munk.absorb(&mut Records::of(&newer), &horizon, true, Folding::NONE);
    let pairs = munk.spans.iter().zip(&absorbed.spans);
    let shared = pairs.filter(|(old, new)| shares_image(old, new)).count();
    assert_eq!(shared, munk.spans.len() - 1);
    // All but a few are deleted: the remaining ones are joined.
    let mut deletes = numbered((0..2_000).filter(|number| number % 100 > 0), 3);
    for versions in deletes.values_mut() {
        versions
            .values_mut()
            .for_each(|record| *record = (evendb_storage::Kind::Delete, Vec::new()));
    }
    let few = absorbed.absorb(&mut Records::of(&deletes), &horizon, true, Folding::NONE);
    assert_eq!(few.entries(), 20);
    assert!(few.spans.len() <= 2, "{few:?}");
}
