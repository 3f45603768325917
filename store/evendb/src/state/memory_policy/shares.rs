//! How much of the memory budget each use may have, and what gives way when a use has too much.
//!
//! ```text
//! fixed at opening  ring, deltas, reserve                                 MemoryLimits
//!                   the part of deltas and ring that puts do not use      MemoryLimits::lent
//!                   is lent to munks and rows
//! as counted        metadata, buffers           whatever they take now
//! up to a share     open tables, log searches   a third of what is left   index_shares
//!                                               (an eighth of all at least)
//! the rest          munks and rows together                               cache_bytes
//!
//! gives way         searches: a filter for an index, then none            index_shares
//!                   metadata: fewer runs in a log                         log_runs.rs
//!                   metadata: then slower puts                            slow_for_metadata
//!                   buffers:  cursors read less at a time                 buffers_are_short
//!                   pages that users' values keep: values are copied      note_kept_pages
//! ```
//!
//! A part of a shared budget has no fixed uses: what puts used lately is theirs, with a little
//! more, and the rest belongs to the other uses as above ([`crate::memory::shared`]).
//!
//! Invariants: nothing here takes memory away from a call that has it; each share is a target that
//! the next rounds come down to. Munks and rows get the memory that all others leave, so memory
//! that is charged to the others is never given to munks and rows too.
//!
//! Thread safety: any thread may ask, and gets figures of about this moment. Not here: what is
//! charged ([`crate::memory`]), which munks and rows go (`room.rs`, `row`), which tables are closed
//! ([`crate::tables`]), who makes uses smaller ([`crate::rebalance::tending`]).

use super::{MemoryPolicy, RUNS_USUAL};
use crate::memory::shared::{BASE_BYTES, DELTAS_MIN, Member, PART_MIN, Report};
use crate::memory::{CHUNK_BYTES, TABLE_BYTES, Use, slab};
use crate::options::Options;
use crate::sync::Arc;
use crate::sync::atomic::Ordering;

/// Parts of the budget that do not depend on what the database holds.
#[derive(Clone, Debug)]
pub(super) struct MemoryLimits {
    budget: u64,
    ring: u64,
    deltas: u64,
    reserve: u64,
    /// The place in a shared budget: then the budget is a part of it that moves, and the other
    /// figures are only those by which the database was made.
    pub(super) member: Option<Arc<Member>>,
}

impl MemoryLimits {
    /// The limits for these options, with a mapped commit log of `ring` bytes (0: there is none).
    pub(super) fn of(options: &Options, ring: u64) -> MemoryLimits {
        let budget = options.memory_budget;
        MemoryLimits {
            budget,
            ring,
            deltas: options.delta_bytes_max(),
            // A sixteenth. For small budgets it is an eighth, but at most 24 MiB: threads,
            // libraries and the heap's holes take some memory anyway.
            reserve: (budget / 16).max((24 << 20).min(budget / 8)),
            member: options.member().cloned(),
        }
    }

    /// The bytes of the budget now.
    pub(super) fn budget(&self) -> u64 {
        self.member
            .as_ref()
            .map_or(self.budget, |member| member.part())
    }

    /// The budget by which uses are judged that cannot follow a part down: at least the least
    /// budget of a database alone.
    pub(super) fn usual_budget(&self) -> u64 {
        self.budget().max(1 << 20)
    }

    /// The bytes that are left after ring, deltas, reserve and `others`.
    fn left(&self, others: u64) -> u64 {
        if let Some(member) = &self.member {
            return member.part().saturating_sub(PART_MIN + others);
        }
        let fixed = self.ring + self.deltas + self.reserve;
        self.budget.saturating_sub(fixed + others)
    }

    /// The bytes that munks and rows may have of the memory of deltas and ring, after what puts
    /// used lately.
    fn lent(&self, lately: &UsedLately) -> u64 {
        // The ring gets memory back from the system, not from holes that spans leave: so more of
        // the ring's memory stays free.
        let ring = self.ring - self.ring / AHEAD_PART;
        lendable(self.deltas, lately.deltas) + lendable(ring, lately.ring)
    }

    /// The bytes that open tables and log searches may take together, besides these bytes of
    /// metadata. A cold get without its block index reads twice, so they come before rows and
    /// munks, up to a third.
    fn indexes(&self, metadata: u64) -> u64 {
        (self.left(metadata) / 3).max(self.budget() / 8)
    }
}

/// The memory that puts have used lately.
struct UsedLately {
    /// The most bytes of deltas.
    deltas: u64,
    /// Bytes of the ring since its memory was last given back.
    ring: u64,
}

/// The bytes that munks and rows may have of `all` bytes of a kind, when puts used `used` of them
/// lately: all others, except a part that puts may take at once. Puts never wait for lent memory.
/// While they take it, spans are evicted, which needs no I/O; until that is done, the reserve
/// covers it.
fn lendable(all: u64, used: u64) -> u64 {
    let needed = used + used / 2 + all / AHEAD_PART;
    all.saturating_sub(needed)
}

/// One part in this number of the puts' memory is free for them at any time.
const AHEAD_PART: u64 = 8;

/// What open tables and log searches may take now.
pub(crate) struct IndexShares {
    /// Bytes for open tables.
    pub(crate) tables_max: u64,
    /// Bytes by which log searches are above their share.
    pub(crate) searches_excess: u64,
}

impl MemoryPolicy {
    /// The bytes that munks and rows may take together now: the budget without everything that is
    /// charged for other uses, and without the reserve. Memory of munks that is not reclaimed yet,
    /// or that users keep, counts as the munks'.
    pub(crate) fn cache_bytes(&self) -> u64 {
        let others = [Use::Metadata, Use::Buffers, Use::Tables, Use::Searches];
        let others: u64 = others.iter().map(|&of| self.ledger.bytes(of)).sum();
        let limits = &self.limits;
        if let Some(member) = &limits.member {
            return member
                .part()
                .saturating_sub(BASE_BYTES + others + self.puts_bytes());
        }
        // Large batches may take the deltas above their limit.
        let deltas_above = self.admission.delta_used().saturating_sub(limits.deltas);
        limits.left(others + deltas_above) + limits.lent(&self.used_lately())
    }

    fn used_lately(&self) -> UsedLately {
        let ring = self.ring.as_ref();
        UsedLately {
            deltas: self.admission.delta_peak(),
            ring: ring.map_or(0, |ring| ring.bytes_used_lately()),
        }
    }

    /// The bytes of a shared budget's part that belong to puts now: what they used lately, half of
    /// that again, and the least. Puts may take more at once, up to the limit of their deltas;
    /// spans and rows leave then.
    fn puts_bytes(&self) -> u64 {
        let peak = self.admission.delta_peak();
        self.ring_bytes() + (peak + peak / 2).max(DELTAS_MIN)
    }

    /// The bytes of a mapped commit log that are in memory.
    fn ring_bytes(&self) -> u64 {
        self.ring.as_ref().map_or(0, |ring| ring.bytes_in_memory())
    }

    /// Tells the shared budget, if the database has a part of one, what it has, and what it could
    /// use: `data_bytes` are those of its live records, `operations` the number of its operations
    /// so far. Returns the bytes of deltas that its part then allows.
    pub(crate) fn tell_shared(&self, data_bytes: u64, operations: u64) -> Option<u64> {
        let member = self.limits.member.as_ref()?;
        let of = |of| self.ledger.bytes(of);
        let metadata = of(Use::Metadata);
        let indexes = of(Use::Tables) + of(Use::Searches) + of(Use::Buffers);
        let images = of(Use::Munks) + self.row_bytes();
        let deltas = self.admission.delta_used();
        let puts = (2 * self.admission.delta_peak()).clamp(DELTAS_MIN, self.limits.deltas);
        member.report(Report {
            held: metadata + indexes + images + deltas + self.ring_bytes(),
            fixed: metadata,
            // All records in RAM take a little more than on disk; rows take more than images.
            want: data_bytes + data_bytes / 4 + indexes + 2 * puts + self.ring_bytes(),
            operations,
        });
        let spare = member.part().saturating_sub(BASE_BYTES + metadata);
        Some((spare / 2).clamp(DELTAS_MIN, self.limits.deltas.max(DELTAS_MIN)))
    }

    /// Whether buffers take enough memory that cursors should read less at a time.
    pub(crate) fn buffers_are_short(&self) -> bool {
        self.ledger.bytes(Use::Buffers) > self.limits.usual_budget() / 32
    }

    /// Notes that the munks' memory has `bytes` that they no longer use. Above a share the reason
    /// is users' values: they get copies then, which keep no page, until it is less.
    pub(super) fn note_kept_pages(&self, bytes: u64) {
        let many = bytes > self.limits.budget() / 16;
        self.copies_values.store(many, Ordering::Relaxed);
    }

    /// Bytes of slabs that are resident without use, beyond those that stay for deltas.
    pub(super) fn holes_bytes(&self) -> u64 {
        if self.limits.member.is_some() {
            // They belong to all databases: the budget is divided without them.
            return 0;
        }
        slab::slack_bytes().saturating_sub(self.slack_left())
    }

    /// The part of these holes that comes back only with whole slabs.
    pub(super) fn small_holes_bytes(&self) -> u64 {
        if self.limits.member.is_some() {
            return 0;
        }
        slab::small_holes_bytes().saturating_sub(self.slack_left())
    }

    /// The bytes that slabs may hold without use: what deltas may take again at any time, and a
    /// part of the reserve.
    pub(crate) fn slack_left(&self) -> u64 {
        if let Some(member) = &self.limits.member {
            return member.slack();
        }
        self.delta_room() + self.limits.reserve / 2
    }

    fn delta_room(&self) -> u64 {
        let lent = lendable(self.limits.deltas, self.admission.delta_peak());
        let taken = self.admission.delta_used() + lent;
        self.limits.deltas.saturating_sub(taken)
    }

    /// What open tables and log searches may take now.
    pub(crate) fn index_shares(&self) -> IndexShares {
        let indexes = self.limits.indexes(self.ledger.bytes(Use::Metadata));
        let searches = self.ledger.bytes(Use::Searches);
        let searches_max = indexes / 4;
        IndexShares {
            tables_max: indexes - searches.min(searches_max),
            searches_excess: searches.saturating_sub(searches_max),
        }
    }

    /// Whether log searches are far enough below their share for a filter to become an index again.
    pub(super) fn searches_have_room(&self) -> bool {
        let max = self.limits.indexes(self.ledger.bytes(Use::Metadata)) / 4;
        self.ledger.bytes(Use::Searches) < max / 4 * 3
    }

    /// Slows puts for metadata, in a database of this number of chunks: each run of a log costs
    /// memory until it is merged away. If puts make runs faster than workers merge them, and
    /// nothing else could give way, puts give way. Metadata that no merge would free (long keys of
    /// many chunks) slows no put, since it would do so for ever; `mergeable_bytes` is what merges
    /// that are due would free.
    pub(crate) fn slow_for_metadata(&self, chunks: u64, mergeable_bytes: u64) {
        let budget = self.limits.usual_budget();
        let usual = chunks * (CHUNK_BYTES + RUNS_USUAL * TABLE_BYTES) as u64;
        let metadata = self.ledger.bytes(Use::Metadata);
        let above = metadata.saturating_sub(usual.max(budget / 5));
        self.admission
            .set_metadata(above.min(mergeable_bytes), budget / 8);
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    /// The table in the documentation of `Options::memory_budget`.
    #[test]
    fn defaults_scale_with_the_budget() {
        let mib = |bytes: u64| bytes >> 20;
        for (budget, chunk, ring, deltas, reserve, indexes) in [
            (64, 4, 8, 8, 8, 13),
            (256, 4, 32, 32, 24, 56),
            (1024, 10, 128, 128, 64, 234),
            (8192, 10, 256, 1024, 512, 2133),
            (65536, 10, 256, 8192, 4096, 17664),
        ] {
            let options = Options::new().memory_budget(budget << 20);
            let limits = MemoryLimits::of(&options, options.ring_bytes());
            assert_eq!(mib(options.chunk_bytes_max()), chunk);
            assert_eq!(mib(limits.ring), ring);
            assert_eq!(mib(limits.deltas), deltas);
            assert_eq!(mib(limits.reserve), reserve);
            assert_eq!(mib(limits.indexes(0)), indexes);
            // Puts have an eighth at once, and a quarter of the ring. When they have used six
            // tenths, nothing is lent.
            let lent = |deltas, ring| limits.lent(&UsedLately { deltas, ring });
            let parts = (limits.deltas, limits.ring);
            assert_eq!(lent(0, parts.1), parts.0 / 8 * 7);
            assert_eq!(lent(parts.0, 0), parts.1 / 64 * 49);
            assert_eq!(lent(0, 0), parts.0 / 8 * 7 + parts.1 / 64 * 49);
            assert_eq!(lent(parts.0 / 10 * 6, parts.1 / 10 * 6), 0);
            // Everything except the reserve fits beside the most that the indexes take.
            assert!(limits.left(limits.indexes(0)) >= limits.indexes(0));
        }
    }
}
