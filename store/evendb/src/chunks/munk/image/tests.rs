//! Model tests: an image against an ordered map from key to its versions.

use super::*;
use crate::folding::Folding;
use crate::version::horizon::Horizon;
use evendb_storage::key_hash::RamHash;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{cmp::Reverse, collections::BTreeMap};

/// A number of objects that a test makes. It is smaller under Miri, which is more than a hundred
/// times slower.
const fn size(all: usize) -> usize {
    if cfg!(miri) { all.div_ceil(40) } else { all }
}

/// Key to (version, newest first) to (kind, value).
pub(in crate::chunks::munk) type Model = BTreeMap<Vec<u8>, BTreeMap<Reverse<u64>, (Kind, Vec<u8>)>>;

/// Records of a model, as an input.
pub(in crate::chunks::munk) struct Records {
    entries: Vec<(Vec<u8>, Version, Kind, Vec<u8>)>,
    at: usize,
}

impl Records {
    pub(in crate::chunks::munk) fn of(model: &Model) -> Records {
        let mut entries = Vec::new();
        for (key, versions) in model {
            for (version, (kind, value)) in versions {
                entries.push((key.clone(), Version(version.0), *kind, value.clone()));
            }
        }
        Records { entries, at: 0 }
    }
}

impl MunkInput for Records {
    fn current(&self) -> Option<EntryRef<'_>> {
        let (key, version, kind, value) = self.entries.get(self.at)?;
        Some(EntryRef {
            key,
            version: *version,
            kind: *kind,
            value,
        })
    }
    fn advance(&mut self) {
        self.at += 1;
    }
}

pub(in crate::chunks::munk) fn build(model: &Model, page_bytes: usize) -> Image {
    let mut builder = ImageBuilder::new(page_bytes, crate::memory::Ledger::SHARED);
    let mut records = Records::of(model);
    while let Some(entry) = records.current() {
        builder.add(entry);
        records.advance();
    }
    builder.finish()
}

pub(in crate::chunks::munk) fn newest(
    versions: &BTreeMap<Reverse<u64>, (Kind, Vec<u8>)>,
    at: u64,
) -> Option<(Version, Kind, Vec<u8>)> {
    let (version, (kind, value)) = versions.range(Reverse(at)..).next()?;
    Some((Version(version.0), *kind, value.clone()))
}

pub(in crate::chunks::munk) fn owned(hit: Option<MunkHit<'_>>) -> Option<(Version, Kind, Vec<u8>)> {
    hit.map(|hit| (hit.version, hit.kind, hit.value_bytes().to_vec()))
}

/// A key of one of several awkward shapes.
pub(in crate::chunks::munk) fn random_key(random: &mut StdRng) -> Vec<u8> {
    let tail = |random: &mut StdRng, most: usize, symbols: u8| {
        let len = random.random_range(0..=most);
        (0..len)
            .map(|_| random.random_range(0..symbols))
            .collect::<Vec<u8>>()
    };
    match random.random_range(0..5) {
        // Short, nearly all zero bytes: heads that are equal except for the length. Includes the
        // empty key.
        0 => tail(random, 9, 2),
        // Equal heads of eight bytes.
        1 => [b"prefix.eight.and.more".to_vec(), tail(random, 4, 4)].concat(),
        2 => [b"prefix.".to_vec(), tail(random, 3, 255)].concat(),
        3 => format!(
            "app{}/{:012}",
            random.random_range(0..3),
            random.random_range(0..300)
        )
        .into_bytes(),
        _ => [vec![0xff; random.random_range(0..12)], tail(random, 2, 255)].concat(),
    }
}

pub(in crate::chunks::munk) fn random_value(random: &mut StdRng) -> Vec<u8> {
    let len = match random.random_range(0..60) {
        0 => random.random_range(500..3_000),
        1 => 70_000,
        _ => random.random_range(0..40),
    };
    vec![random.random(); len]
}

/// `count` records of versions above `above`.
pub(in crate::chunks::munk) fn random_records(
    random: &mut StdRng,
    count: usize,
    above: u64,
) -> Model {
    let mut model = Model::new();
    let known: Vec<_> = (0..count).map(|_| random_key(random)).collect();
    for _ in 0..count {
        let key = known[random.random_range(0..known.len())].clone();
        let version = above + random.random_range(u64::from(above > 0)..30);
        let put = random.random_range(0..4) > 0;
        let record = if put {
            (Kind::Put, random_value(random))
        } else {
            (Kind::Delete, Vec::new())
        };
        model
            .entry(key)
            .or_default()
            .insert(Reverse(version), record);
    }
    model
}

/// Invariants of the module, counters and memory, and every way to read.
fn check(image: &Image, model: &Model, random: &mut StdRng) {
    check_structure(image, model);
    check_gets(image, model, random);
    check_cursor(image, model, random);
    check_pages(image, model, random);
}

/// Checks pages, record by record and page by page, as scans read pages that nothing overlays.
fn check_pages(image: &Image, model: &Model, random: &mut StdRng) {
    let at = [0, random.random_range(0..100), u64::MAX][random.random_range(0..3)];
    let from = random.random_range(0..model.len().max(1));
    let want = model.iter().skip(from).filter_map(|(key, versions)| {
        let (_, kind, value) = newest(versions, at)?;
        (kind == Kind::Put).then(|| (key.clone(), value))
    });
    let mut found = Vec::new();
    let mut cursor = image.cursor();
    if let Some(key) = model.keys().nth(from) {
        cursor.seek(key);
    }
    while cursor.valid() {
        let page = cursor.page();
        let (mut head, rest) = cursor.rest_of_page();
        assert_eq!(head + rest, page.count());
        assert_eq!(page.key_of_head(head), cursor.key());
        let end = cursor.end_of_page();
        assert!(end.is_none_or(|end| page.last_key() < end));
        while let Some(seen) = page.next_seen(head, Version(at), evendb_storage::Time(0)) {
            let [key, value] = [seen.key, seen.value].map(|range| page.bytes()[range].to_vec());
            found.push((key, value));
            head = seen.next;
        }
        cursor.next_page();
    }
    assert!(found.into_iter().eq(want), "from {from} at {at}");
}

fn check_structure(image: &Image, model: &Model) {
    let directory = &image.directory;
    let mut memory = 0;
    for (index, page) in directory.pages().iter().enumerate() {
        assert!(page.count() > 0);
        assert!(
            page.flags(0) & page::OLDER == 0,
            "a key's versions are in two pages"
        );
        assert!(page.key(0) >= directory.separator(index));
        if index + 1 < directory.pages().len() {
            let last = page.key(page.head(page.count() - 1));
            assert!(last < directory.separator(index + 1));
        }
        memory += page.memory_bytes();
        // A page is larger only because of its last key's versions.
        let last = page.head(page.count() - 1);
        let before = page.start(last) - page.start(0);
        assert!(last == 0 || Page::length(last, before) <= image.page_bytes);
    }
    let entries = || model.values().flatten();
    assert_eq!(image.entries(), entries().count());
    let deletes = entries().filter(|(_, (kind, _))| *kind == Kind::Delete);
    assert_eq!(image.deletes(), deletes.count());
    let values: usize = entries().map(|(_, (_, value))| value.len()).sum();
    let keys: usize = model.keys().map(Vec::len).sum();
    assert_eq!(image.data_bytes(), keys + values);
    assert!(image.bytes() >= memory);
    let separators: usize = model.keys().map(Vec::len).max().unwrap_or(0);
    assert!(image.bytes() <= memory + 256 + directory.pages().len() * (32 + separators));
    let found: Vec<_> = {
        let mut all = image.entries_from(None);
        std::iter::from_fn(|| {
            let entry = all.entry();
            all.advance();
            entry.map(|entry| {
                let value = (entry.kind, entry.value.to_vec());
                (entry.key.to_vec(), entry.version, value.0, value.1)
            })
        })
        .collect()
    };
    assert!(found == Records::of(model).entries, "entries differ");
}

pub(in crate::chunks::munk) fn probes(model: &Model, random: &mut StdRng) -> Vec<Vec<u8>> {
    let mut probes: Vec<_> = model.keys().cloned().collect();
    probes.extend((0..size(50)).map(|_| random_key(random)));
    for key in model.keys().take(size(100)) {
        probes.push([key.as_slice(), &[0]].concat());
        probes.push(key[..key.len().saturating_sub(1)].to_vec());
    }
    probes
}

fn check_gets(image: &Image, model: &Model, random: &mut StdRng) {
    for key in probes(model, random) {
        for at in [0, 1, random.random_range(0..100), u64::MAX] {
            let want = model.get(&key).and_then(|versions| newest(versions, at));
            let hash = RamHash::of(&key);
            assert_eq!(
                owned(image.get(&key, hash, Version(at))),
                want,
                "{key:?} at {at}"
            );
        }
    }
}

fn check_cursor(image: &Image, model: &Model, random: &mut StdRng) {
    let mut cursor = image.cursor();
    assert!(!cursor.valid());
    cursor.seek_first();
    for (key, versions) in model {
        assert!(cursor.valid() && cursor.key() == key);
        let at = random.random_range(0..100);
        assert_eq!(owned(cursor.newest_at(Version(at))), newest(versions, at));
        assert_eq!(&cursor.page().bytes()[cursor.key_range()], key);
        cursor.next();
    }
    assert!(!cursor.valid());
    cursor.seek_last();
    for (key, versions) in model.iter().rev() {
        assert!(cursor.valid() && cursor.key() == key);
        assert_eq!(
            owned(cursor.newest_at(Version::MAX)),
            newest(versions, u64::MAX)
        );
        cursor.prev();
    }
    assert!(!cursor.valid());
    for probe in probes(model, random) {
        let at = |cursor: &ImageCursor<'_>| cursor.valid().then(|| cursor.key().to_vec());
        let mut above = model.range(probe.clone()..).map(|(key, _)| key.clone());
        cursor.seek(&probe);
        assert_eq!(at(&cursor), above.next(), "seek {probe:?}");
        cursor.next();
        assert_eq!(at(&cursor), above.next());
        let mut below = model
            .range(..probe.clone())
            .rev()
            .map(|(key, _)| key.clone());
        cursor.seek_before(&probe);
        assert_eq!(at(&cursor), below.next(), "seek_before {probe:?}");
        cursor.prev();
        assert_eq!(at(&cursor), below.next());
        let from = image.entries_from(Some(&probe));
        let want = model.range(probe..).next().map(|(key, _)| key.as_slice());
        assert_eq!(from.entry().map(|entry| entry.key), want);
    }
}

/// The result of absorbing, by the definition.
pub(in crate::chunks::munk) fn absorb_model(
    model: &Model,
    newer: &Model,
    horizon: &Horizon,
    drop_tombstones: bool,
) -> Model {
    let mut all = model.clone();
    for (key, versions) in newer {
        all.entry(key.clone()).or_default().extend(versions.clone());
    }
    for versions in all.values_mut() {
        let mut kept: Option<u64> = None;
        versions.retain(|version, _| {
            let drop = kept.is_some_and(|kept| horizon.may_drop(Version(version.0), Version(kept)));
            if !drop {
                kept = Some(version.0);
            }
            !drop
        });
        if drop_tombstones
            && versions.len() == 1
            && let Some((version, (Kind::Delete, _))) = versions.first_key_value()
            && horizon.below_all(Version(version.0))
        {
            versions.clear();
        }
    }
    all.retain(|_, versions| !versions.is_empty());
    all
}

/// Pages without newer records keep all their records, droppable or not: the model takes records
/// from the image that the definition would allow to go.
fn lenient(image: &Image, before: &Model, strict: Model, newer: &Model) -> Model {
    let touched: Vec<usize> = newer.keys().map(|key| image.directory.find(key)).collect();
    let mut model = strict;
    for (key, versions) in before {
        if !touched.contains(&image.directory.find(key)) {
            model.insert(key.clone(), versions.clone());
        }
    }
    model
}

pub(in crate::chunks::munk) fn random_horizon(random: &mut StdRng, top: u64) -> Horizon {
    let mut snapshots: Vec<_> = (0..random.random_range(0..4))
        .map(|_| Version(random.random_range(0..=top)))
        .collect();
    snapshots.sort();
    let floor = match random.random_range(0..3) {
        0 => random.random_range(0..=top),
        _ => top + 30,
    };
    Horizon {
        floor: Version(floor),
        snapshots,
        ..Horizon::default()
    }
}

#[test]
fn built_images_read_like_the_model() {
    for seed in 0..size(60) as u64 {
        let random = &mut StdRng::seed_from_u64(seed);
        let count = [1, 3, 40, size(300)][seed as usize % 4];
        let model = random_records(random, count, 0);
        let page_bytes = [1, 100, 400, 8192][random.random_range(0..4)];
        check(&build(&model, page_bytes), &model, random);
    }
}

#[test]
fn an_empty_image_answers() {
    let random = &mut StdRng::seed_from_u64(1);
    let image = build(&Model::new(), 100);
    check(&image, &Model::new(), random);
    assert_eq!(image.middle_key(), None);
    let (left, right) = image.split_at(b"key");
    assert_eq!((left.entries(), right.entries()), (0, 0));
    assert_eq!(Image::concat(&left, &right).entries(), 0);
    let horizon = Horizon::default();
    let mut nothing = Records::of(&Model::new());
    assert_eq!(
        image
            .absorb(&mut nothing, &horizon, true, Folding::NONE)
            .entries(),
        0
    );
}

#[test]
fn absorbing_again_and_again_equals_the_definition() {
    for seed in 0..size(60) as u64 {
        let random = &mut StdRng::seed_from_u64(seed);
        let page_bytes = [1, 100, 400, 4096][random.random_range(0..4)];
        let mut model = random_records(random, [0, 5, size(200)][seed as usize % 3], 0);
        let mut image = build(&model, page_bytes);
        for round in 1..8 {
            let count = [0, 1, 10, size(150)][random.random_range(0..4)];
            let newer = random_records(random, count, round * 30);
            let horizon = random_horizon(random, round * 30 + 30);
            let drop_tombstones = random.random();
            let strict = absorb_model(&model, &newer, &horizon, drop_tombstones);
            model = lenient(&image, &model, strict, &newer);
            image = image.absorb(
                &mut Records::of(&newer),
                &horizon,
                drop_tombstones,
                Folding::NONE,
            );
            check(&image, &model, random);
        }
    }
}

#[test]
fn of_equal_versions_the_absorbed_one_wins() {
    let record = |value: &[u8]| {
        let versions = BTreeMap::from([(Reverse(7), (Kind::Put, value.to_vec()))]);
        Model::from([(b"key".to_vec(), versions)])
    };
    let image = build(&record(b"old"), 100);
    // The floor is below: the horizon by itself would keep both.
    let horizon = Horizon::default();
    let image = image.absorb(
        &mut Records::of(&record(b"new")),
        &horizon,
        false,
        Folding::NONE,
    );
    check(&image, &record(b"new"), &mut StdRng::seed_from_u64(1));
}

#[test]
fn absorbing_deletes_of_everything_leaves_nothing() {
    let random = &mut StdRng::seed_from_u64(3);
    let model = random_records(random, if cfg!(miri) { 60 } else { 300 }, 0);
    let image = build(&model, 300);
    let mut newer = model.clone();
    for versions in newer.values_mut() {
        *versions = BTreeMap::from([(Reverse(50), (Kind::Delete, Vec::new()))]);
    }
    let horizon = Horizon {
        floor: Version(60),
        snapshots: Vec::new(),
        ..Horizon::default()
    };
    let kept = image.absorb(&mut Records::of(&newer), &horizon, false, Folding::NONE);
    check(&kept, &newer, random);
    let empty = image.absorb(&mut Records::of(&newer), &horizon, true, Folding::NONE);
    check(&empty, &Model::new(), random);
    assert!(empty.bytes() < 512);
    // Small neighbours were joined.
    assert!(kept.directory.pages().len() < image.directory.pages().len());
}

pub(in crate::chunks::munk) fn numbered(range: impl Iterator<Item = usize>, version: u64) -> Model {
    range
        .map(|number| {
            let key = format!("app/{number:08}").into_bytes();
            let versions = BTreeMap::from([(Reverse(version), (Kind::Put, vec![7; 50]))]);
            (key, versions)
        })
        .collect()
}

fn shared_pages(one: &Image, other: &Image) -> usize {
    let others = other.directory.pages();
    let shared = |page: &&PageArc| others.iter().any(|other| PageArc::ptr_eq(page, other));
    one.directory.pages().iter().filter(shared).count()
}

#[test]
fn untouched_pages_are_shared() {
    let model = numbered(0..1_000, 1);
    let image = build(&model, 1_000);
    let pages = image.directory.pages().len();
    assert!(pages > 50);
    let horizon = Horizon {
        floor: Version(100),
        snapshots: Vec::new(),
        ..Horizon::default()
    };
    let newer = numbered([10, 500, 501, 990].into_iter(), 2);
    let absorbed = image.absorb(&mut Records::of(&newer), &horizon, false, Folding::NONE);
    let touched: std::collections::BTreeSet<_> =
        newer.keys().map(|key| image.directory.find(key)).collect();
    assert_eq!(shared_pages(&image, &absorbed), pages - touched.len());
    let (left, right) = image.split_at(b"app/00000503");
    let whole = shared_pages(&image, &left) + shared_pages(&image, &right);
    assert!(whole >= pages - 1);
    let joined = Image::concat(&left, &right);
    assert_eq!(
        joined.directory.pages().len(),
        shared_pages(&left, &joined) + shared_pages(&right, &joined)
    );
}

#[test]
fn records_absorbed_in_key_order_do_not_leave_tiny_pages() {
    let mut image = build(&Model::new(), 1_000);
    let horizon = Horizon {
        floor: Version(100),
        snapshots: Vec::new(),
        ..Horizon::default()
    };
    for number in 0..size(1_000) {
        let newer = numbered(number..number + 1, 1);
        image = image.absorb(&mut Records::of(&newer), &horizon, false, Folding::NONE);
    }
    check(
        &image,
        &numbered(0..size(1_000), 1),
        &mut StdRng::seed_from_u64(1),
    );
    let even = image.bytes() / 1_000;
    assert!(image.directory.pages().len() <= 3 * even);
}

#[test]
fn split_and_concat_give_the_model_back() {
    for seed in 0..size(60) as u64 {
        let random = &mut StdRng::seed_from_u64(seed);
        let model = random_records(random, [1, 10, size(200)][seed as usize % 3], 0);
        let image = build(&model, [1, 100, 400, 8192][random.random_range(0..4)]);
        let middle = image.middle_key();
        assert_eq!(middle.is_some(), model.len() > 1);
        if let Some(key) = &middle {
            assert!(model.range(..key.clone()).next().is_some());
            assert!(model.range(key.clone()..).next().is_some());
        }
        let keys = [Some(random_key(random)), middle, Some(Vec::new())];
        for key in keys.into_iter().flatten() {
            let (left, right) = image.split_at(&key);
            let mut lower = model.clone();
            let upper = lower.split_off(&key);
            check(&left, &lower, random);
            check(&right, &upper, random);
            check(&Image::concat(&left, &right), &model, random);
        }
    }
}

#[test]
fn the_middle_key_halves_the_data() {
    for page_bytes in [500, 8_192, 1_000_000] {
        let image = build(&numbered(0..size(2_000), 1), page_bytes);
        let (left, right) = image.split_at(&image.middle_key().expect("many keys"));
        assert!(left.entries().abs_diff(right.entries()) < 40);
    }
}

#[test]
fn a_key_keeps_its_versions_in_one_page_whatever_they_weigh() {
    let random = &mut StdRng::seed_from_u64(9);
    let mut model = numbered(0..20, 1);
    let last = if cfg!(miri) { 750 } else { 2_000 };
    let versions = (1..last).map(|version| (Reverse(version), (Kind::Put, vec![1; 100])));
    model.insert(b"app/00000010".to_vec(), versions.collect());
    let image = build(&model, 500);
    check(&image, &model, random);
    let horizon = Horizon {
        floor: Version(5_000),
        snapshots: vec![Version(5), Version(700)],
        ..Horizon::default()
    };
    let newer = numbered(10..11, 3_000);
    let slim = image.absorb(&mut Records::of(&newer), &horizon, true, Folding::NONE);
    let hash = RamHash::of(b"app/00000010");
    let version = |at| owned(slim.get(b"app/00000010", hash, Version(at))).map(|hit| hit.0.0);
    assert_eq!(
        [4, 5, 700, 2_999, 3_000].map(version),
        [None, Some(5), Some(700), Some(700), Some(3_000)]
    );
    assert_eq!(slim.entries(), 22);
}

#[test]
fn positions_are_as_wide_as_the_page_needs() {
    // One record: a header of 16 bytes and a group of eight tags and eight positions.
    let front = |record_bytes| Page::length(1, record_bytes) - record_bytes;
    let narrow = 16 + 8 + 8 * 2;
    assert_eq!(front(0xffff - narrow), narrow);
    assert_eq!(front(0xffff - narrow + 1), 16 + 8 + 8 * 4);
    let middle = 16 + 8 + 8 * 4;
    assert_eq!(front(0xffff_ffff - middle), middle);
    assert_eq!(front(0xffff_ffff - middle + 1), 16 + 8 + 8 * 8);
    let record_bytes = 5 << 30;
    assert_eq!(
        Page::length(9, record_bytes) - record_bytes,
        16 + 2 * (8 + 8 * 8)
    );
}

#[test]
fn padding_of_the_last_group_of_tags_is_no_record() {
    let image = build(&numbered(0..1, 1), 1_000);
    // The empty key with a hash whose tag equals the padding.
    assert!(image.get(b"", RamHash::of_bits(0), Version::MAX).is_none());
}
