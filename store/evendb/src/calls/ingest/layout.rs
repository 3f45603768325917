//! The new chunks when tables are ingested. A pure function of key ranges and sizes.
//!
//! ```text
//! chunk    |   B1      B2        B3      |   its base    T1 lies between tables: it joins the base
//! its log  |        r1                   |               T2 overlaps B3: it becomes the newest run
//! ingested |      T1          T2         |
//! after    |   B1    | T1   | B2   B3+T2 |   cut between tables, at about the size of a chunk
//! ```
//! Invariants: the base stays disjoint. No key is in the base while an older record of it is in the
//! log, because the log is read first: so a table joins the base only if neither base nor log reach
//! into it. Tables that an ingested table overlaps have older records, and are below it: in the
//! base, or as a run of a lower ordinal. No table is cut within a chunk; a table across the border
//! of two chunks is named by both, and each reads it within its own limits.
//!
//! A chunk with guards stays one chunk.
//!
//! Not here: views, versions, files.

use crate::chunk::KeyRange;
use crate::funk::Funk;
use crate::manifest::Level;
use crate::manifest::edit::{Part, Role};

/// A chunk that replaces an old one, or a part of it.
pub(super) struct NewChunk {
    pub(super) range: KeyRange,
    /// Base and runs, with their roles; first the base in order, then the runs.
    pub(super) parts: Vec<Part>,
    pub(super) run_end: u32,
    /// Its log is the old chunk's log.
    pub(super) same_log: bool,
}

/// The chunks that replace an old one of `range` and `funk`, which takes the `ingested` tables that
/// overlap it (ascending). `overlapping` gets the tables that become runs.
pub(super) fn chunks_of(
    range: &KeyRange,
    funk: &Funk,
    ingested: &[&Part],
    bytes_max: u64,
    overlapping: &mut dyn FnMut(&Part),
) -> Vec<NewChunk> {
    let mut parts = funk.parts();
    // Tables that lie alone in a chunk with guards are one run of its last level.
    let below = funk
        .tree
        .as_ref()
        .map_or(Role::Base, |tree| Role::Fragment {
            level: Level::LAST,
            age: tree.next_age(),
        });
    let mut run_end = funk.run_end;
    for part in ingested {
        let meta = &part.meta;
        let mut tables = funk.tables().map(|table| &table.part.meta);
        let role = match tables.any(|table| table.meets(&meta.min_key, &meta.max_key)) {
            false => below,
            true => {
                overlapping(part);
                let ordinal = run_end;
                run_end += 1;
                Role::Run { ordinal }
            }
        };
        let part: Part = (*part).clone();
        parts.push(Part { role, ..part });
    }
    parts.sort_by(|a, b| a.meta.min_key.cmp(&b.meta.min_key));
    let lows = match funk.is_guarded() {
        true => vec![range.low.clone()],
        false => cuts(range, &parts, bytes_max),
    };
    let mut new = Vec::with_capacity(lows.len());
    for (index, low) in lows.iter().enumerate() {
        let high = lows.get(index + 1).cloned().or_else(|| range.high.clone());
        let range = KeyRange {
            low: low.clone(),
            high,
        };
        let mut own: Vec<Part> = parts
            .iter()
            .filter(|part| range.overlaps(&part.meta))
            .cloned()
            .collect();
        // Stable: the base stays in the order of its keys.
        own.sort_by_key(|part| part.role.order());
        let runs = own.iter().filter(|part| part.role.is_run()).count();
        new.push(NewChunk {
            range,
            parts: own,
            run_end,
            same_log: run_end == funk.run_end && runs == funk.runs.len(),
        });
    }
    new
}

/// The low keys of the new chunks: about `bytes_max` each, and no table (ascending by least key) is
/// cut.
fn cuts(range: &KeyRange, parts: &[Part], bytes_max: u64) -> Vec<Box<[u8]>> {
    // A little less, as when a chunk is split between its tables.
    let group_max = bytes_max * 8 / 10;
    let mut lows = vec![range.low.clone()];
    let mut bytes = 0;
    let mut rest = parts;
    while let Some(first) = rest.first() {
        // Tables that overlap each other, directly or through others, stay together.
        let mut max_key = &first.meta.max_key;
        let mut group = 0;
        let mut count = 0;
        for part in rest {
            if count > 0 && part.meta.min_key > *max_key {
                break;
            }
            max_key = max_key.max(&part.meta.max_key);
            group += part.meta.data_bytes;
            count += 1;
        }
        let low = &first.meta.min_key[..];
        if bytes > 0 && bytes + group > group_max && *low > *range.low && range.contains(low) {
            lows.push(low.into());
            bytes = 0;
        }
        bytes += group;
        rest = &rest[count..];
    }
    lows
}
