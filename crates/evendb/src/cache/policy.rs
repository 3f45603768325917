//! Which chunks have munks: a pure function from what each is worth to a choice. Applying it
//! (loads, evictions) is the caller's; what a munk is worth is [`super::split`]'s.
//!
//! Chunks are **ordered** by benefit per byte. But chunks displace others only if the **sum** of what they
//! are worth is [`BEAT_FACTOR`] times that of those which go. So one small dense chunk does not push out a large munk
//! of a greater benefit; several dense chunks that fit in the munk's place do.
//!
//! **Stability.** A load costs a read of the chunk, so a chunk must also be worth at least
//! [`LOAD_BENEFIT_MIN`] to be loaded. Every plan that displaces raises the summed benefit, so with
//! constant figures plans come to rest (tested).
//!
//! Thread safety: pure. Values that are not numbers count as 0.

/// Chunks must be worth this many times as much as their victims to displace them.
const BEAT_FACTOR: f32 = 1.5;
/// Decayed accesses below which loading a chunk is not worth reading it.
const LOAD_BENEFIT_MIN: f32 = 4.0;
/// Loads of one round.
const LOADS_MAX: usize = 8;
/// A munk takes somewhat more memory than the chunk's data on disk.
const MUNK_OVERHEAD_PERCENT: u64 = 115;

/// What a munk of a chunk is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ChunkWorth {
    /// Identity of the chunk; unique in a slice.
    pub(crate) id: u64,
    /// Decayed accesses that are answered from RAM if the chunk has its munk, and from disk if not.
    pub(crate) benefit: f32,
    /// Live data of the chunk in bytes.
    pub(crate) data_bytes: u64,
    /// Size of its munk in bytes, 0 if it has none.
    pub(crate) munk_bytes: u64,
}

impl ChunkWorth {
    /// Memory that its munk takes, or would take.
    pub(crate) fn bytes(&self) -> u64 {
        munk_bytes(self.munk_bytes, self.data_bytes)
    }

    /// Benefit per byte.
    pub(crate) fn density(&self) -> f32 {
        number(self.benefit) / self.bytes().max(1) as f32
    }

    /// Whether the chunk has no munk and is worth one.
    pub(crate) fn is_candidate(&self) -> bool {
        self.munk_bytes == 0 && number(self.benefit) >= LOAD_BENEFIT_MIN
    }
}

/// Memory that a munk takes, or would take if there is none (0).
pub(crate) fn munk_bytes(munk_bytes: u64, data_bytes: u64) -> u64 {
    match munk_bytes {
        0 => data_bytes.max(1).saturating_mul(MUNK_OVERHEAD_PERCENT) / 100,
        bytes => bytes,
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
pub(crate) fn plan_munks(chunks: &[ChunkWorth], munk_bytes_max: u64) -> MunkPlan {
    let mut plan = MunkPlan::default();
    let mut munks: Vec<&ChunkWorth> = chunks.iter().filter(|c| c.munk_bytes > 0).collect();
    let mut candidates: Vec<&ChunkWorth> = chunks
        .iter()
        .filter(|c| c.is_candidate() && c.bytes() <= munk_bytes_max)
        .collect();
    // Ties by id, so that a plan depends on the figures only and not on the order of chunks.
    munks.sort_by(|a, b| a.density().total_cmp(&b.density()).then(a.id.cmp(&b.id)));
    candidates.sort_by(|a, b| b.density().total_cmp(&a.density()).then(a.id.cmp(&b.id)));

    let mut used: u64 = munks.iter().map(|c| c.bytes()).sum();
    let mut evict = |munks: &mut Vec<&ChunkWorth>, going: Vec<usize>| {
        plan.evict.extend(going.iter().map(|&at| munks[at].id));
        let mut at = 0;
        munks.retain(|_| {
            at += 1;
            !going.contains(&(at - 1))
        });
    };
    let over = victims(&munks, used.saturating_sub(munk_bytes_max)).unwrap_or_default();
    used -= bytes_of(&munks, &over);
    evict(&mut munks, over);

    let mut next = 0;
    while next < candidates.len() && plan.load.len() < LOADS_MAX {
        let free = munk_bytes_max.saturating_sub(used);
        let need = candidates[next].bytes().saturating_sub(free);
        let Some(going) = victims(&munks, need) else {
            next += 1;
            continue;
        };
        let mut room = free + bytes_of(&munks, &going);
        // Either it is loaded with all others that find room then, or none of them is.
        let mut coming = Vec::new();
        for candidate in &candidates[next..] {
            let first_only = going.is_empty() && !coming.is_empty();
            if plan.load.len() + coming.len() == LOADS_MAX || first_only {
                break;
            }
            if candidate.bytes() <= room {
                room -= candidate.bytes();
                coming.push(candidate.id);
            }
        }
        let benefit: f32 = candidates[next..]
            .iter()
            .filter(|candidate| coming.contains(&candidate.id))
            .map(|candidate| number(candidate.benefit))
            .sum();
        let loss: f32 = going.iter().map(|&at| number(munks[at].benefit)).sum();
        if going.is_empty() || benefit > loss * BEAT_FACTOR {
            used = munk_bytes_max - room;
            evict(&mut munks, going);
            candidates.retain(|candidate| !coming.contains(&candidate.id));
            plan.load.append(&mut coming);
        } else {
            // A smaller chunk further down may still fit.
            next += 1;
        }
    }
    plan
}

/// The least dense of `munks`, which ascend by density, that together free `need` bytes; small ones that
/// a later, larger one makes unnecessary are left out. `None` if all together free less.
fn victims(munks: &[&ChunkWorth], need: u64) -> Option<Vec<usize>> {
    let (mut going, mut freed) = (Vec::new(), 0);
    for (at, munk) in munks.iter().enumerate() {
        if freed >= need {
            break;
        }
        freed += munk.bytes();
        going.push(at);
    }
    if freed < need {
        return None;
    }
    for at in (0..going.len()).rev() {
        let bytes = munks[going[at]].bytes();
        if freed - bytes >= need {
            freed -= bytes;
            going.remove(at);
        }
    }
    Some(going)
}

fn bytes_of(munks: &[&ChunkWorth], which: &[usize]) -> u64 {
    which.iter().map(|&at| munks[at].bytes()).sum()
}

/// Makes any number finite and at least zero.
pub(crate) fn number(value: f32) -> f32 {
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

    fn chunk(id: u64, benefit: f32) -> ChunkWorth {
        ChunkWorth {
            id,
            benefit,
            data_bytes: 100,
            munk_bytes: 0,
        }
    }

    /// Carries a plan out, as the engine would.
    fn apply(chunks: &mut [ChunkWorth], plan: &MunkPlan) {
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

    fn with_munks(chunks: &[ChunkWorth]) -> BTreeSet<u64> {
        let with = chunks.iter().filter(|chunk| chunk.munk_bytes > 0);
        with.map(|chunk| chunk.id).collect()
    }

    fn rounds_until_stable(chunks: &mut [ChunkWorth], budget: u64) -> usize {
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
        let rounds = rounds_until_stable(&mut chunks, 20 * 115);
        assert!(rounds <= 4, "at most eight loads a round: {rounds}");
        assert_eq!(with_munks(&chunks), (80..100).collect());
        // A little more heat elsewhere changes nothing; much more does.
        chunks[10].benefit = 81.0 * 10.0 * 1.3;
        assert_eq!(plan_munks(&chunks, 20 * 115), MunkPlan::default());
        chunks[10].benefit = 810.0 * 1.6;
        let plan = plan_munks(&chunks, 20 * 115);
        assert_eq!((plan.load, plan.evict), (vec![10], vec![80]));
    }

    #[test]
    fn cold_chunks_are_not_loaded_into_free_memory() {
        let chunks = [chunk(1, 3.9), chunk(2, 4.0), chunk(3, f32::NAN)];
        assert_eq!(plan_munks(&chunks, 10_000).load, [2]);
    }

    #[test]
    fn a_smaller_budget_evicts_the_coldest() {
        let mut chunks: Vec<_> = (0..10).map(|id| chunk(id, 10.0 + id as f32)).collect();
        chunks.iter_mut().for_each(|chunk| chunk.munk_bytes = 115);
        let plan = plan_munks(&chunks, 5 * 115 + 10);
        assert_eq!((plan.evict, plan.load), (vec![0, 1, 2, 3, 4], vec![]));
        assert_eq!(plan_munks(&chunks, 0).evict.len(), 10);
    }

    #[test]
    fn what_counts_is_the_sum() {
        // One large munk, less dense than each of the small chunks.
        let large = ChunkWorth {
            id: 1,
            benefit: 500.0,
            data_bytes: 10_000,
            munk_bytes: 10_000,
        };
        let mut chunks = vec![large, chunk(2, 100.0), chunk(3, 100.0), chunk(4, 100.0)];
        assert_eq!(plan_munks(&chunks, 10_000), MunkPlan::default());
        // Together they are worth it.
        chunks.extend((5..15).map(|id| chunk(id, 100.0)));
        let plan = plan_munks(&chunks, 10_000);
        assert_eq!((plan.load.len(), plan.evict), (LOADS_MAX, vec![1]));
        // And no more go than needed: the small one stays once the large one goes.
        let mut small = chunk(20, 0.001);
        small.munk_bytes = 115;
        let hot = ChunkWorth {
            benefit: 1e6,
            data_bytes: 8000,
            ..chunk(21, 0.0)
        };
        let plan = plan_munks(&[large, small, hot], 10_115);
        assert_eq!((plan.load, plan.evict), (vec![21], vec![1]));
    }

    proptest! {
        #[test]
        fn plans_keep_the_budget_and_come_to_rest(
            heats in prop::collection::vec((0f32..1e6, 0u64..5000, any::<bool>()), 0..60),
            budget in 0u64..100_000,
        ) {
            let mut chunks: Vec<_> = heats.iter().zip(0..).map(|(&(benefit, data_bytes, has), id)| {
                let munk_bytes = if has { data_bytes * 115 / 100 } else { 0 };
                ChunkWorth { id, benefit, data_bytes, munk_bytes }
            }).collect();
            let used = |chunks: &[ChunkWorth]| chunks.iter().map(|chunk| chunk.munk_bytes).sum::<u64>();
            let plan = plan_munks(&chunks, budget);
            prop_assert!(plan.load.len() <= LOADS_MAX);
            let mut reversed = chunks.clone();
            reversed.reverse();
            prop_assert_eq!(&plan_munks(&reversed, budget), &plan);
            if used(&chunks) <= budget && !plan.evict.is_empty() {
                let benefit = |ids: &[u64]| ids.iter().map(|&id| chunks[id as usize].benefit).sum::<f32>();
                prop_assert!(benefit(&plan.load) > BEAT_FACTOR * 0.999 * benefit(&plan.evict));
            }
            apply(&mut chunks, &plan);
            prop_assert!(used(&chunks) <= budget);
            rounds_until_stable(&mut chunks, budget);
            for loser in chunks.iter().filter(|c| c.is_candidate()) {
                prop_assert!(loser.bytes() > budget - used(&chunks), "left out beside free room");
            }
        }
    }
}
