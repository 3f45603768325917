//! The memory policy against recorded accesses: the real row cache, sampler, split and munk plan,
//! and chunks that are mere counters. Nothing of it depends on time or threads.

use super::policy::plan_munks;
use super::row::RowCache;
use super::sample::{Sampler, Served};
use super::split::Split;
use crate::chunk::Heat;
use crate::options::RowPolicy;
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// Records of all chunks, a power of two.
const RECORDS: u64 = 1 << 16;
const CHUNK_RECORDS: u64 = 256;
/// Bytes of a value where nothing else is said; keys have eight.
const VALUE_BYTES: usize = 800;
/// Accesses of one round of the policy.
const ROUND: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Get(u64),
    Scan(u64),
}

/// One in this many records fits into memory, in a munk or as a row.
const SHARE_IN_RAM: u64 = 8;

struct World {
    rows: RowCache,
    sampler: Sampler,
    split: Split,
    chunks: Vec<(Heat, bool)>,
    value: Vec<u8>,
    bytes_max: u64,
    hits: u64,
    accesses: u64,
    munk_loads: u64,
    /// The share after each round.
    course: Vec<f64>,
}

impl World {
    fn new(share: Option<f64>, value_bytes: usize) -> World {
        let record_bytes = 8 + value_bytes as u64;
        let bytes_max = RECORDS / SHARE_IN_RAM * record_bytes;
        World {
            rows: RowCache::with_policy(bytes_max as usize / 10, RowPolicy::S3Fifo),
            sampler: Sampler::new(32 << 20),
            split: Split::new(share),
            chunks: (0..RECORDS / CHUNK_RECORDS)
                .map(|_| (Heat::default(), false))
                .collect(),
            value: vec![0; value_bytes],
            bytes_max,
            hits: 0,
            accesses: 0,
            munk_loads: 0,
            course: Vec::new(),
        }
    }

    fn data_bytes(&self) -> u64 {
        CHUNK_RECORDS * (8 + self.value.len() as u64)
    }

    fn munk_bytes(&self) -> u64 {
        self.data_bytes() * 110 / 100
    }

    fn access(&mut self, access: Access) {
        let hit = match access {
            Access::Get(record) => self.get(record),
            Access::Scan(record) => {
                let (heat, munk) = &self.chunks[(record / CHUNK_RECORDS) as usize];
                Heat::count(&heat.scans);
                *munk
            }
        };
        // A refill of a scan reads several blocks; the policy weighs it so.
        let weight = match access {
            Access::Get(_) => 1,
            Access::Scan(_) => 4,
        };
        self.hits += weight * u64::from(hit);
        self.accesses += weight;
    }

    fn get(&mut self, record: u64) -> bool {
        let key = record.swap_bytes().to_le_bytes();
        let hash = xxhash_rust::xxh3::xxh3_64(&key);
        let (heat, munk) = &self.chunks[(record / CHUNK_RECORDS) as usize];
        Heat::count(&heat.gets);
        let served = if *munk {
            Served::Munk
        } else if self.rows.get(0, &key, hash).is_some() {
            Heat::count(&heat.row_hits);
            Served::Row
        } else {
            self.rows.insert_if(0, &key, hash, &self.value, || true);
            Served::Table
        };
        self.sampler.see(0, hash, heat, served);
        served != Served::Table
    }

    /// As the engine's round does.
    fn round(&mut self) {
        let decay = self.split.decay();
        let sights = self.chunks.iter().zip(0..).map(|((heat, munk), id)| {
            let mut sight = heat.sight(decay);
            sight.id = id;
            sight.data_bytes = self.data_bytes();
            sight.munk_bytes = if *munk { self.munk_bytes() } else { 0 };
            sight
        });
        let sights: Vec<_> = sights.collect();
        let counts = self.rows.counts();
        let edge = self.sampler.take_edge();
        let plan = self.split.round(&sights, &counts, &edge, self.bytes_max);
        let munks = plan_munks(&plan.worths, self.bytes_max - plan.row_bytes_max);
        self.rows.set_capacity(plan.row_bytes_max as usize);
        let row_bytes = counts.bytes.checked_div(counts.rows).unwrap_or(0);
        self.sampler.round(plan.sampling, row_bytes, self.bytes_max);
        for id in munks.evict {
            self.chunks[id as usize].1 = false;
        }
        for id in munks.load {
            self.chunks[id as usize].1 = true;
            self.munk_loads += 1;
        }
        self.course.push(self.split.share());
    }

    /// Hits of all accesses after the first `warm`.
    fn run(&mut self, trace: &[Access], warm: usize) -> f64 {
        for (at, &access) in trace.iter().enumerate() {
            if at == warm {
                (self.hits, self.accesses, self.munk_loads) = (0, 0, 0);
            }
            self.access(access);
            if (at + 1) % ROUND == 0 {
                self.round();
            }
        }
        self.hits as f64 / self.accesses as f64
    }
}

/// Zipf 0.99 by its summed weights.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(items: u64) -> Zipf {
        let mut sum = 0.0;
        let weight = |rank: u64| {
            sum += (rank as f64).powf(-0.99);
            sum
        };
        Zipf((1..=items).map(weight).collect())
    }

    fn rank(&self, random: &mut StdRng) -> u64 {
        let at = random.random_range(0.0..self.0[self.0.len() - 1]);
        self.0.partition_point(|&below| below < at) as u64
    }
}

/// The `rank`-th of `items`, a power of two, in a scattered order.
fn scattered(rank: u64, items: u64) -> u64 {
    rank.wrapping_mul(0x9e37_79b1).wrapping_add(12_345) & (items - 1)
}

#[derive(Clone, Copy, Debug)]
enum Load {
    /// Hot records, scattered.
    Simple,
    /// Hot prefixes, scattered, uniform within.
    Composite,
    /// Hot prefixes side by side.
    Contiguous,
    /// Scans of hot prefixes that lie side by side, among simple gets.
    Scans,
}

const PREFIXES: u64 = 1024;

fn trace(load: Load, seed: u64, accesses: usize) -> Vec<Access> {
    let mut random = StdRng::seed_from_u64(seed);
    let (keys, prefixes) = (Zipf::new(RECORDS), Zipf::new(PREFIXES));
    let within = |prefix: u64, random: &mut StdRng| {
        let span = RECORDS / PREFIXES;
        prefix * span + random.random_range(0..span)
    };
    (0..accesses)
        .map(|_| match load {
            Load::Simple => Access::Get(scattered(keys.rank(&mut random), RECORDS)),
            Load::Composite => {
                let prefix = scattered(prefixes.rank(&mut random), PREFIXES);
                Access::Get(within(prefix, &mut random))
            }
            Load::Contiguous => Access::Get(within(prefixes.rank(&mut random), &mut random)),
            Load::Scans if random.random_range(0..2) == 0 => {
                Access::Scan(within(prefixes.rank(&mut random), &mut random))
            }
            Load::Scans => Access::Get(scattered(keys.rank(&mut random), RECORDS)),
        })
        .collect()
}

const SHARES: [f64; 10] = [0.0, 0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0];

/// Hit rates of the best fixed share and of the adaptive split.
fn compare(name: &str, value_bytes: usize, trace: &[Access], warm: usize) -> (f64, f64) {
    let mut best = 0.0f64;
    let mut text = String::new();
    for share in SHARES {
        let rate = World::new(Some(share), value_bytes).run(trace, warm);
        text += &format!(" {share}: {rate:.4}");
        best = best.max(rate);
    }
    let mut world = World::new(None, value_bytes);
    let adaptive = world.run(trace, warm);
    let (last, loads) = (world.split.share(), world.munk_loads);
    println!(
        "{name}, {value_bytes} B:{text}; adaptive {adaptive:.4} (to {last:.2}, {loads} loads)"
    );
    (best, adaptive)
}

/// The rule: the adaptive split has at least this part of the best fixed one's hit rate.
const ENOUGH: f64 = 0.98;

#[test]
fn adaptive_is_as_good_as_the_best_fixed_share() {
    let loads = [Load::Simple, Load::Composite, Load::Contiguous, Load::Scans];
    for load in loads {
        let trace = trace(load, 1, 600_000);
        let (best, adaptive) = compare(&format!("{load:?}"), VALUE_BYTES, &trace, 300_000);
        assert!(adaptive >= ENOUGH * best, "{load:?}: {adaptive} {best}");
    }
}

#[test]
fn small_values_too() {
    for load in [Load::Simple, Load::Contiguous, Load::Scans] {
        let trace = trace(load, 1, 600_000);
        let (best, adaptive) = compare(&format!("{load:?}"), 100, &trace, 300_000);
        assert!(adaptive >= ENOUGH * best, "{load:?}: {adaptive} {best}");
    }
}

/// The hit rate includes the time of the shifts.
#[test]
fn a_load_that_shifts_is_followed() {
    for (first, second) in [
        (Load::Simple, Load::Composite),
        (Load::Simple, Load::Contiguous),
    ] {
        let turns = [first, second, first, second];
        let turns = turns.into_iter().zip(0..);
        let shifting: Vec<_> = turns
            .flat_map(|(load, seed)| trace(load, seed, 300_000))
            .collect();
        let name = format!("{first:?} and {second:?}");
        let (best, adaptive) = compare(&name, VALUE_BYTES, &shifting, 300_000);
        assert!(adaptive >= ENOUGH * best, "{name}: {adaptive} {best}");
    }
}

/// What was a load for rows becomes one for munks: the share is where it belongs within 200 rounds,
/// ten seconds of a busy database, and back.
#[test]
fn shifts_are_over_in_bounded_time() {
    let mut world = World::new(None, VALUE_BYTES);
    world.run(&trace(Load::Simple, 1, 300_000), 0);
    assert!(world.split.share() > 0.7, "{}", world.split.share());
    world.run(&trace(Load::Contiguous, 2, 200_000), 0);
    assert!(world.split.share() < 0.3, "{}", world.split.share());
    world.run(&trace(Load::Simple, 3, 200_000), 0);
    assert!(world.split.share() > 0.6, "{}", world.split.share());
}

/// Under a load that stays the same the share comes to rest, and munks stay.
#[test]
fn a_constant_load_is_left_alone() {
    for load in [Load::Simple, Load::Composite, Load::Contiguous, Load::Scans] {
        let mut world = World::new(None, VALUE_BYTES);
        let trace = trace(load, 1, 800_000);
        world.run(&trace, 500_000);
        let last = &world.course[500..];
        let low = last.iter().copied().fold(1.0, f64::min);
        let high = last.iter().copied().fold(0.0, f64::max);
        assert!(high - low < 0.15, "{load:?}: {low} to {high}");
        assert!(world.munk_loads < 30, "{load:?}: {}", world.munk_loads);
    }
}
