//! The memory policy against random accesses: the real row cache, sampler, split, span policy and
//! heat, with spans that are mere counters. Nothing of it depends on time or threads.
//!
//! ```text
//! load: known frequencies --> accesses --> World (as the engine) --> misses
//!                         \-> ideal static cache of equal size --> misses
//! ```
//!
//! The **ideal static cache** holds the rows or spans with the largest number of reads per byte,
//! and never changes. Reads are counted, not accesses: a scan that finds its span absent takes
//! [`SCAN_READS`].
//!
//! Not here: how long loads take beside other work, gets that deltas answer, spans of different
//! sizes.

use super::super::row::RowCache;
use super::sample::{Sampler, Served};
use super::spans::{REFILL_ACCESSES, SAMPLED, SpanPolicy};
use super::split::{SpanSight, Split};
use crate::munk::heat::SpanHeat;
use crate::options::RowPolicy;
use crate::record::RecordRef;
use evendb_storage::key_hash::RamHash;
use std::collections::VecDeque;

mod courses;

/// Records of all spans, a power of two.
const RECORDS: u64 = 1 << 16;
const SPAN_RECORDS: u64 = 64;
/// Records of a prefix: four spans.
const PREFIX_RECORDS: u64 = 256;
const KEY_BYTES: u64 = 8;
/// Bytes of a value, unless a test says otherwise.
const VALUE_BYTES: u64 = 800;
/// Memory of a row beside its record.
const ROW_OVERHEAD_BYTES: u64 = 72;
/// Accesses of one round of the policy.
const ROUND: u64 = 1000;
/// Accesses that a load takes.
const LOAD_DELAY: u64 = 50;
/// Reads of a refill of a scan, which reads several blocks.
const SCAN_READS: u64 = 4;
/// One hit in this many hits of a hot span is counted.
const HITS_PER_COUNT: u64 = 16;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// From 0 to 1.
    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }
}

#[derive(Clone, Copy, Debug)]
enum Access {
    Get(u64),
    /// A refill that begins at a record and stays in its span.
    Scan(u64),
}

/// The size of memory, and of records.
#[derive(Clone, Copy)]
struct Scale {
    /// One in this many records fits into memory.
    one_in: u64,
    value_bytes: u64,
}

const EIGHTH: Scale = Scale {
    one_in: 8,
    value_bytes: VALUE_BYTES,
};
const QUARTER: Scale = Scale {
    one_in: 4,
    value_bytes: VALUE_BYTES,
};
const SMALL_VALUES: Scale = Scale {
    one_in: 8,
    value_bytes: 100,
};

impl Scale {
    fn record_bytes(&self) -> u64 {
        KEY_BYTES + self.value_bytes
    }

    /// Bytes for spans and rows together.
    fn bytes_max(&self) -> u64 {
        self.records() * self.record_bytes()
    }

    /// The number of records that memory has room for.
    fn records(&self) -> u64 {
        RECORDS / self.one_in
    }

    fn span_bytes(&self) -> u64 {
        SPAN_RECORDS * self.record_bytes() * 110 / 100
    }

    fn row_bytes(&self) -> u64 {
        RecordRef::memory_bytes_of(self.record_bytes() as usize) as u64 + ROW_OVERHEAD_BYTES
    }
}

#[derive(Default)]
struct Span {
    heat: SpanHeat,
    /// Its index among the residents, if it is resident.
    resident: Option<usize>,
    loading: bool,
}

/// Counts of reads.
#[derive(Clone, Copy, Default, Debug)]
struct Reads {
    hits: u64,
    misses: u64,
    /// The number of spans loaded.
    loads: u64,
}

impl Reads {
    fn miss_rate(&self) -> f64 {
        self.misses as f64 / (self.hits + self.misses) as f64
    }
}

/// The engine's use of the policy.
struct World {
    scale: Scale,
    rows: RowCache,
    sampler: Sampler,
    split: Split,
    policy: SpanPolicy,
    spans: Vec<Span>,
    residents: Vec<usize>,
    /// For each load: the access at which it ends, and its span.
    loads: VecDeque<(u64, usize)>,
    /// Bytes that all rows may take, and bytes of one row.
    row_bytes_max: u64,
    row_bytes: usize,
    random: Random,
    value: Vec<u8>,
    now: u64,
    /// Accesses of one round of the policy.
    round: u64,
    span_hits: u64,
    /// Since the last round.
    gets_outside: u64,
    accesses: f32,
    reads: Reads,
    /// The share after each round.
    course: Vec<f64>,
}

impl World {
    fn new(scale: Scale, share: Option<f64>) -> World {
        let split = Split::new(share);
        let row_bytes_max = (scale.bytes_max() as f64 * split.share()) as u64;
        World {
            rows: RowCache::with_policy(row_bytes_max as usize, RowPolicy::S3Fifo),
            sampler: Sampler::new(32 << 20),
            split,
            policy: SpanPolicy::default(),
            spans: (0..RECORDS / SPAN_RECORDS)
                .map(|_| Span::default())
                .collect(),
            residents: Vec::new(),
            loads: VecDeque::new(),
            row_bytes_max,
            row_bytes: scale.row_bytes() as usize,
            random: Random(7),
            value: vec![0; scale.value_bytes as usize],
            now: 0,
            round: ROUND,
            span_hits: 0,
            gets_outside: 0,
            accesses: 0.0,
            reads: Reads::default(),
            course: Vec::new(),
            scale,
        }
    }

    fn access(&mut self, access: Access) {
        self.now += 1;
        while let Some(&(until, span)) = self.loads.front()
            && until <= self.now
        {
            self.loads.pop_front();
            self.load(span);
        }
        match access {
            Access::Get(record) => self.get(record),
            Access::Scan(record) => self.scan(record),
        }
        if self.now.is_multiple_of(self.round) {
            self.round();
        }
    }

    fn get(&mut self, record: u64) {
        let key = record.swap_bytes().to_le_bytes();
        // No secret is needed: a simulation is the same each time.
        let hash = RamHash::of_bits(xxhash_rust::xxh3::xxh3_64(&key));
        let span = (record / SPAN_RECORDS) as usize;
        self.accesses += 1.0;
        if self.spans[span].resident.is_some() {
            self.reads.hits += 1;
            return self.count_hit(span, 1, Some(hash.bits() as u8));
        }
        self.gets_outside += 1;
        let served = match self.rows.get(0, &key, hash) {
            Some(_) => Served::Row,
            None => Served::Table,
        };
        self.sampler.see(0, hash, served);
        if served == Served::Row {
            self.reads.hits += 1;
            return;
        }
        self.reads.misses += 1;
        self.rows.insert_if(0, &key, hash, &self.value, || true);
        self.count_miss(span, 1, Some(hash.bits() as u8));
    }

    fn scan(&mut self, record: u64) {
        let span = (record / SPAN_RECORDS) as usize;
        self.accesses += REFILL_ACCESSES;
        if self.spans[span].resident.is_some() {
            self.reads.hits += SCAN_READS;
            self.count_hit(span, SCAN_READS, None);
        } else {
            self.reads.misses += SCAN_READS;
            self.count_miss(span, SCAN_READS, None);
        }
    }

    fn count_hit(&mut self, span: usize, reads: u64, key: Option<u8>) {
        self.span_hits += 1;
        let heat = &self.spans[span].heat;
        let weight = match heat.is_cool(reads as f32) {
            true => 1,
            false if self.span_hits.is_multiple_of(HITS_PER_COUNT) => HITS_PER_COUNT,
            false => return,
        };
        heat.touch((weight * reads) as f32, key, self.policy.tick());
    }

    fn count_miss(&mut self, span: usize, reads: u64, key: Option<u8>) {
        let tick = self.policy.tick();
        self.spans[span].heat.touch(reads as f32, key, tick);
        let bytes = self.scale.span_bytes();
        let fits = bytes <= self.room();
        if !self.spans[span].loading && fits && self.policy.wants(self.worth(span), bytes) {
            self.spans[span].loading = true;
            self.loads.push_back((self.now + LOAD_DELAY, span));
            self.reads.loads += 1;
            self.set_room();
        }
    }

    fn worth(&self, span: usize) -> f32 {
        let worth = self.spans[span].heat.worth(self.policy.tick());
        worth.beside_rows(self.scale.span_bytes() as usize, self.row_bytes)
    }

    /// Bytes that spans may take.
    fn room(&self) -> u64 {
        self.scale.bytes_max() - self.row_bytes_max
    }

    fn set_room(&self) {
        let spans = self.residents.len() + self.loads.len() + 1;
        let taken = spans as u64 * self.scale.span_bytes();
        self.policy.set_room(taken <= self.room());
    }

    fn load(&mut self, span: usize) {
        self.spans[span].loading = false;
        self.spans[span].resident = Some(self.residents.len());
        self.residents.push(span);
        self.make_room();
    }

    fn make_room(&mut self) {
        while self.residents.len() as u64 * self.scale.span_bytes() > self.room() {
            let Some(span) = self.note_least() else {
                break;
            };
            if let Some(at) = self.spans[span].resident.take() {
                self.residents.swap_remove(at);
                if let Some(&moved) = self.residents.get(at) {
                    self.spans[moved].resident = Some(at);
                }
            }
        }
        self.set_room();
    }

    /// Finds and notes the least dense of some spans.
    fn note_least(&mut self) -> Option<usize> {
        let mut least: Option<(f32, usize)> = None;
        for _ in 0..SAMPLED.min(self.residents.len()) {
            let span = self.residents[self.random.below(self.residents.len())];
            let worth = self.worth(span);
            if least.is_none_or(|(least, _)| worth < least) {
                least = Some((worth, span));
            }
        }
        let (worth, span) = least?;
        let density = worth / self.scale.span_bytes() as f32;
        self.policy.note_least(density);
        Some(span)
    }

    fn round(&mut self) {
        let bytes_max = self.scale.bytes_max();
        let counts = self.rows.counts();
        if let Some(row_bytes) = counts.bytes.checked_div(counts.rows) {
            self.row_bytes = row_bytes as usize;
        }
        let rows_max = bytes_max as f32 / self.row_bytes as f32;
        let accesses = std::mem::take(&mut self.accesses);
        let ticks = self.policy.advance(accesses, rows_max);
        self.note_least();
        let sight = SpanSight {
            ticks,
            price: self.policy.price(),
            refused: self.policy.take_refused(),
            span_bytes: self.scale.span_bytes() as f32,
            full: !self.policy.has_room(),
            gets_outside: std::mem::take(&mut self.gets_outside) as f32,
            accesses,
        };
        let edge = self.sampler.take_edge();
        let plan = self.split.round(&counts, &edge, &sight, bytes_max);
        self.row_bytes_max = plan.row_bytes_max;
        self.rows.set_capacity(plan.row_bytes_max as usize);
        self.sampler
            .round(plan.sampling, self.row_bytes as u64, bytes_max);
        self.make_room();
        self.course.push(self.split.share());
    }

    /// The reads of `accesses` accesses.
    fn run(&mut self, load: &Load, random: &mut Random, accesses: u64) -> Reads {
        self.reads = Reads::default();
        for _ in 0..accesses {
            let access = load.draw(random);
            self.access(access);
        }
        self.reads
    }
}

/// Known frequencies.
struct Load {
    /// The share of scans in the accesses.
    scan_part: f64,
    gets: Frequencies,
    scans: Frequencies,
}

/// The frequency of each record, with a sum of 1, and the sums up to each record.
struct Frequencies {
    each: Vec<f64>,
    summed: Vec<f64>,
}

impl Frequencies {
    /// In proportion to the weights.
    fn new(mut each: Vec<f64>) -> Frequencies {
        let sum: f64 = each.iter().sum();
        each.iter_mut().for_each(|weight| *weight /= sum);
        let mut below = 0.0;
        let add = |part: &f64| {
            below += part;
            below
        };
        let summed = each.iter().map(add).collect();
        Frequencies { each, summed }
    }

    /// Zipf 0.99 over groups of `group` records, in an order scattered by `salt`; uniform within a
    /// group.
    fn zipf(group: u64, salt: u64) -> Frequencies {
        let groups = RECORDS / group;
        let mut weights = vec![0.0; groups as usize];
        for rank in 0..groups {
            let at = (rank + salt).wrapping_mul(0x9e37_79b1).wrapping_add(12_345);
            weights[(at & (groups - 1)) as usize] = (rank as f64 + 1.0).powf(-0.99);
        }
        let each = weights
            .iter()
            .flat_map(|&weight| vec![weight; group as usize]);
        Frequencies::new(each.collect())
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let part = random.part();
        let at = self.summed.partition_point(|&below| below <= part);
        (at as u64).min(RECORDS - 1)
    }
}

impl Load {
    /// Hot records, scattered.
    fn simple() -> Load {
        Load::gets(Frequencies::zipf(1, 0))
    }

    /// Hot prefixes, scattered, uniform within a prefix.
    fn composite() -> Load {
        Load::gets(Frequencies::zipf(PREFIX_RECORDS, 0))
    }

    /// Scans of hot prefixes.
    fn scans() -> Load {
        Load::scans_of(Frequencies::zipf(PREFIX_RECORDS, 0))
    }

    /// Gets of hot records, and scans of hot prefixes that are independent of them.
    fn mixed() -> Load {
        Load {
            scan_part: 0.3,
            gets: Frequencies::zipf(1, 0),
            scans: Frequencies::zipf(PREFIX_RECORDS, 77),
        }
    }

    fn uniform() -> Load {
        Load::gets(Frequencies::zipf(RECORDS, 0))
    }

    fn gets(gets: Frequencies) -> Load {
        Load {
            scan_part: 0.0,
            gets,
            scans: Frequencies::zipf(RECORDS, 0),
        }
    }

    fn scans_of(scans: Frequencies) -> Load {
        Load {
            scan_part: 1.0,
            gets: Frequencies::zipf(RECORDS, 0),
            scans,
        }
    }

    fn draw(&self, random: &mut Random) -> Access {
        match self.scan_part > 0.0 && random.part() < self.scan_part {
            true => Access::Scan(self.scans.draw(random)),
            false => Access::Get(self.gets.draw(random)),
        }
    }

    /// The miss rate of the ideal static cache. A byte has a price: each record or span that is
    /// worth its bytes is there, and the price is as high as the memory demands.
    fn ideal(&self, scale: Scale) -> f64 {
        let (gets, scans) = (1.0 - self.scan_part, self.scan_part * SCAN_READS as f64);
        let (span_bytes, row_bytes) = (scale.span_bytes() as f64, scale.row_bytes() as f64);
        let at_price = |price: f64| {
            let (mut bytes, mut hits) = (0.0, 0.0);
            for first in (0..RECORDS as usize).step_by(SPAN_RECORDS as usize) {
                let (mut all, mut rows, mut row_hits) = (0.0, 0.0, 0.0);
                for record in first..first + SPAN_RECORDS as usize {
                    let get = gets * self.gets.each[record];
                    all += get + scans * self.scans.each[record];
                    if get > price * row_bytes {
                        rows += row_bytes;
                        row_hits += get;
                    }
                }
                let as_span = all - price * span_bytes > row_hits - price * rows;
                bytes += if as_span { span_bytes } else { rows };
                hits += if as_span { all } else { row_hits };
            }
            (bytes, hits)
        };
        let bytes_max = scale.bytes_max() as f64;
        let (mut low, mut high) = (1e-15f64, 1.0f64);
        let (mut over, mut under) = ((0.0, 0.0), (0.0, 0.0));
        for _ in 0..60 {
            let price = (low * high).sqrt();
            let at = at_price(price);
            if at.0 > bytes_max {
                (low, over) = (price, at);
            } else {
                (high, under) = (price, at);
            }
        }
        // The last one is there in part.
        let part = match over.0 > under.0 {
            true => (bytes_max - under.0) / (over.0 - under.0),
            false => 0.0,
        };
        let hits = under.1 + (over.1 - under.1) * part.clamp(0.0, 1.0);
        1.0 - hits / (gets + scans)
    }
}

/// Accesses until a state counts as steady, and accesses that are counted then.
const WARM: u64 = 400_000;
const COUNTED: u64 = 200_000;

fn steady(load: &Load, scale: Scale, share: Option<f64>) -> (Reads, World) {
    let (mut world, mut random) = (World::new(scale, share), Random(1));
    world.run(load, &mut random, WARM);
    let reads = world.run(load, &mut random, COUNTED);
    (reads, world)
}

/// Checks that misses in steady state are at most `most` times the ideal's misses.
fn check_steady(name: &str, load: &Load, scale: Scale, most: f64) {
    let ideal = load.ideal(scale);
    let (reads, world) = steady(load, scale, None);
    let ratio = reads.miss_rate() / ideal;
    println!(
        "{name} 1/{} {} B: hits {:.4}, ideal {:.4}; misses {ratio:.3} of the ideal's; share {:.2}, {} loads",
        scale.one_in,
        scale.value_bytes,
        1.0 - reads.miss_rate(),
        1.0 - ideal,
        world.split.share(),
        reads.loads,
    );
    assert!(ratio <= most, "{name}: {ratio}");
    // Except by chance, no static cache is better than the ideal one; a better one would be an
    // error here.
    assert!(ratio > 0.98, "{name}: {ratio}");
}

/// The limit for all loads is 1.15. Misses above it come from the row cache itself: if all memory
/// is for rows, S3-FIFO has 1.16 times the ideal's misses at a quarter.
#[test]
fn simple_gets_miss_little_more_than_ideal() {
    let load = Load::simple();
    check_steady("simple", &load, EIGHTH, 1.13);
    check_steady("simple", &load, QUARTER, 1.19);
    check_steady("simple", &load, SMALL_VALUES, 1.12);
}

#[test]
fn composite_gets_miss_little_more_than_ideal() {
    let load = Load::composite();
    check_steady("composite", &load, EIGHTH, 1.04);
    check_steady("composite", &load, QUARTER, 1.04);
    check_steady("composite", &load, SMALL_VALUES, 1.05);
}

#[test]
fn scans_miss_little_more_than_ideal() {
    let load = Load::scans();
    check_steady("scans", &load, EIGHTH, 1.05);
    check_steady("scans", &load, QUARTER, 1.06);
    check_steady("scans", &load, SMALL_VALUES, 1.06);
}

#[test]
fn gets_and_scans_miss_little_more_than_ideal() {
    let load = Load::mixed();
    check_steady("mixed", &load, EIGHTH, 1.1);
    check_steady("mixed", &load, QUARTER, 1.12);
    check_steady("mixed", &load, SMALL_VALUES, 1.1);
}

#[test]
fn uniform_gets_miss_little_more_than_ideal() {
    let load = Load::uniform();
    check_steady("uniform", &load, EIGHTH, 1.02);
    check_steady("uniform", &load, QUARTER, 1.02);
    check_steady("uniform", &load, SMALL_VALUES, 1.02);
}

/// The limit: the adaptive share has at least this part of the hits of the best fixed share.
const ENOUGH: f64 = 0.98;

fn check_share(name: &str, load: &Load) {
    let hits = |share| 1.0 - steady(load, EIGHTH, share).0.miss_rate();
    let fixed = [0.0, 0.25, 0.5, 1.0].map(|share| hits(Some(share)));
    let best = fixed.into_iter().fold(0.0, f64::max);
    let adaptive = hits(None);
    println!("{name}: fixed {fixed:.4?}, adaptive {adaptive:.4}");
    assert!(adaptive >= ENOUGH * best, "{name}: {adaptive} {fixed:?}");
}

#[test]
fn the_share_is_as_good_as_the_best_fixed_one_for_gets() {
    check_share("simple", &Load::simple());
    check_share("composite", &Load::composite());
}

#[test]
fn the_share_is_as_good_as_the_best_fixed_one_for_scans() {
    check_share("scans", &Load::scans());
    check_share("mixed", &Load::mixed());
}

#[test]
fn the_share_is_as_good_as_the_best_fixed_one_where_all_is_alike() {
    check_share("uniform", &Load::uniform());
}

/// If the share did not matter, the tests above could not fail.
#[test]
fn wrong_shares_miss_twice_as_much() {
    for (load, share) in [(Load::simple(), 0.0), (Load::scans(), 1.0)] {
        let (reads, _) = steady(&load, EIGHTH, Some(share));
        assert!(reads.miss_rate() > 2.0 * load.ideal(EIGHTH), "{share}");
    }
}

/// Misses after a change of load until a window of accesses has at most 1.3 times the ideal's
/// misses, as a part of the records that memory has room for. A scan counts as one miss.
fn misses_until_good(before: &Load, after: &Load, scale: Scale) -> f64 {
    let (mut world, mut random) = (World::new(scale, None), Random(3));
    world.run(before, &mut random, WARM / 2);
    let ideal = after.ideal(scale);
    let reads = if after.scan_part == 1.0 {
        SCAN_READS
    } else {
        1
    };
    let mut misses = 0;
    for _ in 0..100 {
        let window = world.run(after, &mut random, scale.records() / 4);
        misses += window.misses / reads;
        if window.miss_rate() <= 1.3 * ideal {
            return misses as f64 / scale.records() as f64;
        }
    }
    f64::INFINITY
}

fn check_change(name: &str, before: &Load, after: &Load, most: f64) {
    for scale in [EIGHTH, QUARTER] {
        let misses = misses_until_good(before, after, scale);
        println!("{name} 1/{}: {misses:.2} memories", scale.one_in);
        assert!(misses <= most, "{name}: {misses}");
    }
}

/// If spans are the better choice, the change is over when the number of misses equals the number
/// of records that memory has room for.
#[test]
fn spans_follow_a_change_of_load_within_a_memory_of_misses() {
    let (composite, scans) = (Load::composite(), Load::scans());
    check_change("simple to composite", &Load::simple(), &composite, 1.1);
    check_change("simple to scans", &Load::simple(), &scans, 0.6);
    check_change("composite to scans", &composite, &scans, 0.3);
    check_change("mixed to composite", &Load::mixed(), &composite, 1.1);
}

#[test]
fn spans_follow_a_hot_set_that_moves_within_a_memory_of_misses() {
    let moved = || Frequencies::zipf(PREFIX_RECORDS, 100);
    check_change("composite", &Load::composite(), &Load::gets(moved()), 1.1);
    check_change("scans", &Load::scans(), &Load::scans_of(moved()), 0.7);
}

/// Rows come one by one. Even if memory were without bounds and nothing were known before, the
/// misses would be 1.3 times the ideal's after 1.2 memories of misses, and 1.4 times after one
/// memory. S3-FIFO lets a row into its main queue at the second miss, and old rows leave that queue
/// after several rounds.
#[test]
fn rows_follow_a_change_of_load_within_some_memories_of_misses() {
    let moved = Load::gets(Frequencies::zipf(1, RECORDS / 2));
    check_change(
        "composite to simple",
        &Load::composite(),
        &Load::simple(),
        2.6,
    );
    check_change("scans to simple", &Load::scans(), &Load::simple(), 3.2);
    check_change("simple, moved", &Load::simple(), &moved, 3.8);
}

/// Under a constant load the share comes to rest, and few spans replace each other.
#[test]
fn a_constant_load_is_left_alone() {
    let loads = [
        Load::simple(),
        Load::composite(),
        Load::scans(),
        Load::mixed(),
    ];
    for (at, load) in loads.iter().enumerate() {
        let (reads, world) = steady(load, EIGHTH, None);
        let last = &world.course[world.course.len() / 2..];
        let low = last.iter().copied().fold(1.0, f64::min);
        let high = last.iter().copied().fold(0.0, f64::max);
        assert!(high - low < 0.15, "{at}: {low} to {high}");
        let often = reads.loads as f64 / COUNTED as f64;
        assert!(often < 0.004, "{at}: {often}");
    }
}
