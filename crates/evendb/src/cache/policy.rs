//! Which chunks have munks: a pure function from counters to a choice. Applying it (loads,
//! evictions) is the caller's.
//!
//! **Worth of a munk** is what it saves per byte of memory: decayed accesses that need more than
//! one row, divided by the munk's size. Gets of few distinct rows count little, because the row
//! cache serves those at a fraction of the memory; scans count in full; puts do not count as
//! such, since they go to deltas, but a munk absorbs them cheaply, so they count a little.
//!
//! **Stability.** Loads cost a read of the chunk, so a chunk must be worth [`BEAT_FACTOR`] times
//! its victims to displace them, and at least [`LOAD_HEAT_MIN`] to be loaded at all. With
//! constant heats two rounds never undo each other (tested): what is evicted is worth less than
//! what displaced it by that factor.
//!
//! Thread safety: pure. Values that are not numbers count as 0.

/// A chunk must be worth so many times its victims to displace them.
const BEAT_FACTOR: f32 = 1.5;
/// Decayed accesses below which loading a chunk is not worth reading it.
const LOAD_HEAT_MIN: f32 = 4.0;
/// Loads of one round.
const LOADS_MAX: usize = 8;
/// A munk takes somewhat more memory than the chunk's data on disk.
const MUNK_OVERHEAD_PERCENT: u64 = 115;
/// Weight of a put beside a get: absorbing puts in RAM spares rewriting the funk.
const PUT_WEIGHT: f32 = 0.1;
/// What is known of one chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChunkHeat {
    /// Identity of the chunk; unique in a slice.
    pub(crate) id: u64,
    /// Exponentially decayed gets.
    pub(crate) heat: f32,
    /// Exponentially decayed refills of scans.
    pub(crate) scan_heat: f32,
    /// Exponentially decayed puts.
    pub(crate) puts: f32,
    /// Share of the gets, 0 to 1, that the row cache answers or would answer: near 1 for a chunk
    /// with one hot row, near 0 where gets are spread over the chunk.
    pub(crate) row_share: f32,
    /// Live data of the chunk in bytes.
    pub(crate) data_bytes: u64,
    /// Size of its munk in bytes, 0 if it has none.
    pub(crate) munk_bytes: u64,
}

impl ChunkHeat {
    /// Accesses that a munk serves and the row cache would not.
    fn benefit(&self) -> f32 {
        let gets = number(self.heat) * (1.0 - number(self.row_share).min(1.0));
        gets + number(self.scan_heat) + PUT_WEIGHT * number(self.puts)
    }

    /// Memory that its munk takes, or would take.
    fn bytes(&self) -> u64 {
        if self.munk_bytes > 0 {
            self.munk_bytes
        } else {
            self.data_bytes.max(1).saturating_mul(MUNK_OVERHEAD_PERCENT) / 100
        }
    }

    fn density(&self) -> f32 {
        self.benefit() / self.bytes().max(1) as f32
    }
}

/// What to do in this round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MunkPlan {
    /// Chunks to load, the most valuable first.
    pub(crate) load: Vec<u64>,
    /// Chunks whose munks go, the least valuable first. Evict before loading.
    pub(crate) evict: Vec<u64>,
}

/// Chooses loads and evictions so that munks take at most `munk_bytes_max`.
pub(crate) fn plan_munks(chunks: &[ChunkHeat], munk_bytes_max: u64) -> MunkPlan {
    let mut plan = MunkPlan::default();
    let mut victims: Vec<&ChunkHeat> = chunks.iter().filter(|c| c.munk_bytes > 0).collect();
    let mut candidates: Vec<&ChunkHeat> = chunks
        .iter()
        .filter(|c| c.munk_bytes == 0 && c.benefit() >= LOAD_HEAT_MIN)
        .filter(|c| c.bytes() <= munk_bytes_max)
        .collect();
    // Ties by id, so that a plan depends on the counters only and not on the order of chunks.
    victims.sort_by(|a, b| a.density().total_cmp(&b.density()).then(a.id.cmp(&b.id)));
    candidates.sort_by(|a, b| b.density().total_cmp(&a.density()).then(a.id.cmp(&b.id)));

    let mut used: u64 = victims.iter().map(|c| c.bytes()).sum();
    let mut victims = victims.into_iter().peekable();
    while used > munk_bytes_max {
        let Some(victim) = victims.next() else { break };
        used -= victim.bytes();
        plan.evict.push(victim.id);
    }
    for candidate in candidates {
        if plan.load.len() == LOADS_MAX {
            break;
        }
        let mut room = munk_bytes_max.saturating_sub(used);
        // Only a prefix of victims, all of them worth clearly less; all or none.
        let mut going = victims.clone();
        let mut evict = Vec::new();
        while room < candidate.bytes() {
            match going.peek() {
                Some(victim) if victim.density() * BEAT_FACTOR < candidate.density() => {
                    room += victim.bytes();
                    evict.push(victim.id);
                    going.next();
                }
                _ => break,
            }
        }
        if room < candidate.bytes() {
            // A smaller candidate further down may still fit.
            continue;
        }
        used = munk_bytes_max - room + candidate.bytes();
        victims = going;
        plan.evict.append(&mut evict);
        plan.load.push(candidate.id);
    }
    plan
}

/// Not negative and finite, whatever comes in.
fn number(value: f32) -> f32 {
    if value.is_finite() {
        value.max(0.0)
    } else {
        0.0
    }
}

#[cfg(test)]
#[cfg(not(evendb_loom))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn chunk(id: u64, heat: f32) -> ChunkHeat {
        ChunkHeat {
            id,
            heat,
            data_bytes: 100,
            ..ChunkHeat::default()
        }
    }

    /// Carries a plan out, as the engine would.
    fn apply(chunks: &mut [ChunkHeat], plan: &MunkPlan) {
        for chunk in chunks {
            if plan.evict.contains(&chunk.id) {
                chunk.munk_bytes = 0;
            }
            if plan.load.contains(&chunk.id) {
                assert_eq!(chunk.munk_bytes, 0);
                chunk.munk_bytes = chunk.bytes();
            }
        }
    }

    fn with_munks(chunks: &[ChunkHeat]) -> BTreeSet<u64> {
        let with = chunks.iter().filter(|chunk| chunk.munk_bytes > 0);
        with.map(|chunk| chunk.id).collect()
    }

    fn settle(chunks: &mut [ChunkHeat], budget: u64) -> usize {
        for round in 0..200 {
            let plan = plan_munks(chunks, budget);
            if plan == MunkPlan::default() {
                return round;
            }
            apply(chunks, &plan);
        }
        panic!("never stable");
    }

    #[test]
    fn the_hottest_chunks_get_munks_and_keep_them() {
        let mut chunks: Vec<_> = (0..100)
            .map(|id| chunk(id, 10.0 + id as f32 * 10.0))
            .collect();
        let rounds = settle(&mut chunks, 20 * 115);
        assert!(rounds <= 4, "at most eight loads a round: {rounds}");
        assert_eq!(with_munks(&chunks), (80..100).collect());
        // A little more heat elsewhere changes nothing; much more does.
        chunks[10].heat = 81.0 * 10.0 * 1.3;
        assert_eq!(plan_munks(&chunks, 20 * 115), MunkPlan::default());
        chunks[10].heat = 810.0 * 1.6;
        let plan = plan_munks(&chunks, 20 * 115);
        assert_eq!((plan.load, plan.evict), (vec![10], vec![80]));
    }

    #[test]
    fn one_hot_row_does_not_load_a_chunk() {
        let mut chunks = [chunk(1, 1000.0), chunk(2, 50.0)];
        chunks[0].row_share = 0.99;
        assert_eq!(plan_munks(&chunks, 115).load, [2]);
        chunks[0].row_share = 0.2;
        assert_eq!(plan_munks(&chunks, 115).load, [1]);
        // Cold chunks are not loaded into free memory either, and scans count in full.
        let mut cold = [chunk(1, 3.9), chunk(2, 0.0)];
        cold[1].scan_heat = 4.0;
        assert_eq!(plan_munks(&cold, 10_000).load, [2]);
    }

    #[test]
    fn a_smaller_budget_evicts_the_coldest() {
        let mut chunks: Vec<_> = (0..10).map(|id| chunk(id, 10.0 + id as f32)).collect();
        chunks.iter_mut().for_each(|chunk| chunk.munk_bytes = 115);
        let plan = plan_munks(&chunks, 5 * 115 + 10);
        assert_eq!((plan.evict, plan.load), (vec![0, 1, 2, 3, 4], vec![]));
        assert_eq!(plan_munks(&chunks, 0).evict.len(), 10);
    }

    proptest! {
        #[test]
        fn plans_keep_the_budget_and_come_to_rest(
            heats in prop::collection::vec((0f32..1e6, 0f32..100.0, 0f32..1.0, 0u64..5000, any::<bool>()), 0..60),
            budget in 0u64..100_000,
        ) {
            let mut chunks: Vec<_> = heats.iter().zip(0..).map(|(&(heat, scan_heat, row_share, data_bytes, has), id)| {
                let munk_bytes = if has { data_bytes * 115 / 100 } else { 0 };
                ChunkHeat { id, heat, scan_heat, row_share, puts: 0.0, data_bytes, munk_bytes }
            }).collect();
            let plan = plan_munks(&chunks, budget);
            prop_assert!(plan.load.len() <= LOADS_MAX);
            let mut reversed = chunks.clone();
            reversed.reverse();
            prop_assert_eq!(&plan_munks(&reversed, budget), &plan);
            apply(&mut chunks, &plan);
            prop_assert!(chunks.iter().map(|chunk| chunk.munk_bytes).sum::<u64>() <= budget);
            settle(&mut chunks, budget);
            for loser in chunks.iter().filter(|c| c.munk_bytes == 0 && c.benefit() >= LOAD_HEAT_MIN) {
                let free = budget - chunks.iter().map(|chunk| chunk.munk_bytes).sum::<u64>();
                prop_assert!(loser.bytes() > free, "left out beside free room");
            }
        }
    }
}
