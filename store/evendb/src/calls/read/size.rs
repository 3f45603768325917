//! Estimates how much a key range holds, without a look at its data.
//!
//! ```text
//! chunk wholly inside    figures of its tables and runs, from the manifest;
//!                        a look at some pages of its deltas
//! chunk at an end        the same for tables wholly inside;
//!                        for cut tables a share, by their block index
//! ```
//! Base, log and deltas are counted each for itself. A put in the log or in a delta counts as a new
//! key by the share that rewrites of the chunk have found ([`crate::chunk::share`]), or fully if no
//! share is known. A tombstone takes one record away.
//!
//! Thread safety: any thread. No block of data is read. A table that is cut is opened, which reads
//! its block index.

use crate::catalog::KeyspaceState;
use crate::chunk::Chunk;
use crate::delta::DeltaShare;
use crate::error::Result;
use crate::funk::Funk;
use crate::sync::Arc;
use crate::sync::reclaim;
use crate::tables::TableHandle;
use evendb_base::RangeSize;
use std::ops::AddAssign;

/// Sums over one kind of source.
#[derive(Clone, Copy, Default)]
struct Held {
    puts: f64,
    deletes: f64,
    /// Bytes of keys and values.
    bytes: f64,
    disk_bytes: f64,
}

impl AddAssign for Held {
    fn add_assign(&mut self, other: Held) {
        self.puts += other.puts;
        self.deletes += other.deletes;
        self.bytes += other.bytes;
        self.disk_bytes += other.disk_bytes;
    }
}

impl From<DeltaShare> for Held {
    fn from(share: DeltaShare) -> Held {
        Held {
            puts: share.puts,
            deletes: share.deletes,
            bytes: share.put_bytes,
            disk_bytes: 0.0,
        }
    }
}

/// A key range, its upper limit exclusive.
#[derive(Clone, Copy)]
struct Limits<'a> {
    low: &'a [u8],
    high: Option<&'a [u8]>,
}

impl<'a> Limits<'a> {
    /// The intersection of two ranges, if they have a key in common.
    fn with(self, low: &'a [u8], high: Option<&'a [u8]>) -> Option<Limits<'a>> {
        let high = match (self.high, high) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let low = self.low.max(low);
        high.is_none_or(|high| low < high)
            .then_some(Limits { low, high })
    }
}

/// Estimates what the keyspace holds from `low` to below `high`.
pub(crate) fn approximate_size(
    keyspace: &KeyspaceState,
    low: &[u8],
    high: Option<&[u8]>,
) -> Result<RangeSize> {
    let mut size = Sums::default();
    let index = keyspace.index.load_full();
    for chunk in index.overlapping(low, high) {
        let asked = Limits { low, high };
        let range = &chunk.range;
        if let Some(limits) = asked.with(&range.low, range.high.as_deref()) {
            size.add_chunk(keyspace, chunk, limits)?;
        }
    }
    Ok(size.rounded())
}

/// Sums over chunks.
#[derive(Default)]
struct Sums {
    records: f64,
    bytes: f64,
    disk_bytes: f64,
}

impl Sums {
    fn add_chunk(
        &mut self,
        keyspace: &KeyspaceState,
        chunk: &Chunk,
        limits: Limits<'_>,
    ) -> Result<()> {
        let (mut newer, funk) = in_deltas(chunk, limits);
        let base = in_tables(funk.below_log(), limits)?;
        newer += in_tables(funk.runs.iter().map(|run| &run.table), limits)?;
        let share = chunk.new_share.get().or_else(|| keyspace.new_share.get());
        let share = f64::from(share.unwrap_or(1.0));
        let puts = base.puts + share * newer.puts;
        let bytes = base.bytes + share * newer.bytes;
        let deletes = (base.deletes + newer.deletes).min(puts);
        self.records += puts - deletes;
        // Deleted records are assumed to be as long as the others.
        self.bytes += bytes * (1.0 - deletes / puts.max(1.0));
        self.disk_bytes += base.disk_bytes + newer.disk_bytes;
        Ok(())
    }

    fn rounded(&self) -> RangeSize {
        RangeSize::rounded(self.records, self.bytes, self.disk_bytes)
    }
}

/// The size of the records that deltas have and no run has yet, and the funk that belongs to them.
fn in_deltas(chunk: &Chunk, limits: Limits<'_>) -> (Held, Arc<Funk>) {
    let guard = reclaim::pin();
    let view = chunk.view.load(&guard);
    let mut held = Held::default();
    for layer in view.deltas().filter(|layer| !layer.durable) {
        let limits = match layer.limits {
            Some(own) => limits.with(&own.low, own.high.as_deref()),
            None => Some(limits),
        };
        if let Some(Limits { low, high }) = limits {
            held += layer.delta.cursor(&guard).estimate(low, high).into();
        }
    }
    (held, view.funk.clone())
}

fn in_tables<'t>(
    tables: impl Iterator<Item = &'t Arc<TableHandle>>,
    limits: Limits<'_>,
) -> Result<Held> {
    let mut held = Held::default();
    for table in tables {
        let meta = &table.part.meta;
        let share = table.share_between(limits.low, limits.high)?;
        // Some of the bytes are keys of tombstones, which are short.
        held += Held {
            puts: share * meta.entries.saturating_sub(meta.deletes) as f64,
            deletes: share * meta.deletes as f64,
            bytes: share * meta.data_bytes as f64,
            disk_bytes: share * meta.len as f64,
        };
    }
    Ok(held)
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_to_what_they_have_in_common() {
        let range = |low, high| Limits { low, high };
        let cut = |a: Limits<'static>, b: Limits<'static>| {
            let both = a.with(b.low, b.high);
            both.map(|both| (both.low, both.high))
        };
        let all = range(b"", None);
        let middle = range(b"c", Some(b"f"));
        assert_eq!(cut(all, middle), Some((&b"c"[..], Some(&b"f"[..]))));
        assert_eq!(
            cut(middle, range(b"a", Some(b"d"))),
            Some((&b"c"[..], Some(&b"d"[..])))
        );
        assert_eq!(cut(middle, range(b"f", None)), None);
        assert_eq!(cut(range(b"x", Some(b"a")), all), None);
    }
}
