//! The spans that were in RAM, for the next opening: the bytes of `HEAT`, and the order in which
//! spans come back.
//!
//! ```text
//! magic 8 | checksum 4 | length of the rest 8
//! for each span, as varints:
//!    keyspace | heat | bytes shared with the low key before | the rest of the low key
//! ```
//! Spans are named by their low keys alone. So splits, merges and rewrites since then only change
//! which chunk and which of its spans hold that key.
//!
//! **Order.** There are [`TIERS`] tiers, the hottest first; a tier is ordered by keyspace and key,
//! so that spans of a chunk come together.
//!
//! Thread safety: plain data. It is a hint: bytes that do not verify count as nothing, and nothing
//! else depends on them. Not here: when it is written, and who loads ([`crate::rebalance::warm`]).

use crate::manifest::KeyspaceId;
use crate::munk::heat::number;
use evendb_storage::codec::{
    checksum, get_slice, get_u32, get_u64, get_varint, put_slice, put_varint,
};
use evendb_storage::table::KEY_BYTES_MAX;

const MAGIC: &[u8; 8] = b"evenHEA1";
const HEADER_BYTES: usize = 8 + 4 + 8;
/// The smallest and the largest limit for the memory of the spans of a file, in bytes.
const MEMORY_BYTES: [u64; 2] = [1 << 20, 64 << 20];
/// The number of tiers in which the hottest spans come first.
const TIERS: usize = 4;
/// The step in which heat is stored.
const HEAT_STEP: f32 = 0.125;

/// A span that was in RAM.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HotSpan {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) low: Box<[u8]>,
    /// As [`Worth::heat`](crate::munk::heat::Worth::heat).
    pub(crate) heat: f32,
}

/// The largest memory in bytes for the spans of a file with their low keys. (In the file, a low key
/// that begins like the one before takes hardly any bytes.) No more spans are written, and a file
/// with more, or a longer file, is not read. A span has about 64 KiB, so this limit allows many
/// times the spans that can all be in RAM.
pub(crate) fn memory_max(budget: u64) -> usize {
    (budget / 64).clamp(MEMORY_BYTES[0], MEMORY_BYTES[1]) as usize
}

/// Memory of a span with a low key of this length.
fn memory_of(low_bytes: usize) -> usize {
    size_of::<HotSpan>() + low_bytes
}

/// The file's bytes for spans of ascending keyspaces and keys, up to the spans that take
/// `memory_max` bytes of memory.
pub(crate) fn encode(spans: &[HotSpan], memory_max: usize) -> Vec<u8> {
    let mut body = Vec::new();
    let mut last: &[u8] = &[];
    let mut memory = 0;
    for span in spans {
        memory += memory_of(span.low.len());
        if memory > memory_max {
            break;
        }
        let shared = last.iter().zip(&*span.low).take_while(|(a, b)| a == b);
        let shared = shared.count();
        put_varint(&mut body, u64::from(span.keyspace.0));
        put_varint(&mut body, (number(span.heat) / HEAT_STEP) as u64);
        put_varint(&mut body, shared as u64);
        put_slice(&mut body, &span.low[shared..]);
        last = &span.low;
    }
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&checksum(0, &[&body]).to_le_bytes());
    bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
    bytes.append(&mut body);
    bytes
}

/// Reads a span: keyspace, heat, bytes shared with the low key before, the rest of its own low key.
fn get_span<'b>(bytes: &mut &'b [u8]) -> Option<(KeyspaceId, f32, usize, &'b [u8])> {
    let keyspace = KeyspaceId(u32::try_from(get_varint(bytes)?).ok()?);
    let heat = get_varint(bytes)? as f32 * HEAT_STEP;
    let shared = usize::try_from(get_varint(bytes)?).ok()?;
    Some((keyspace, heat, shared, get_slice(bytes)?))
}

/// The spans that [`encode`] was given; `None` if the bytes are not of `encode`, or the spans take
/// more memory.
pub(crate) fn decode(mut bytes: &[u8], memory_max: usize) -> Option<Vec<HotSpan>> {
    bytes = bytes.strip_prefix(MAGIC)?;
    let sum = get_u32(&mut bytes)?;
    let len = get_u64(&mut bytes)?;
    if len != bytes.len() as u64 || checksum(0, &[bytes]) != sum {
        return None;
    }
    let (mut left, mut count, mut memory, mut last_bytes) = (bytes, 0, 0_usize, 0);
    while !left.is_empty() {
        let (_, _, shared, rest) = get_span(&mut left)?;
        let low_bytes = shared.checked_add(rest.len())?;
        if shared > last_bytes || low_bytes > KEY_BYTES_MAX {
            return None;
        }
        last_bytes = low_bytes;
        count += 1;
        memory = memory.checked_add(memory_of(low_bytes))?;
        if memory > memory_max {
            return None;
        }
    }
    let mut spans: Vec<HotSpan> = Vec::with_capacity(count);
    while !bytes.is_empty() {
        let (keyspace, heat, shared, rest) = get_span(&mut bytes)?;
        let last = spans.last().map_or(&[][..], |last| &last.low);
        let low = [last.get(..shared)?, rest].concat().into_boxed_slice();
        spans.push(HotSpan {
            keyspace,
            low,
            heat,
        });
    }
    Some(spans)
}

/// The order in which they come back; the first to come back is the last here.
pub(crate) fn in_tiers(mut spans: Vec<HotSpan>) -> Vec<HotSpan> {
    spans.sort_by(|a, b| b.heat.total_cmp(&a.heat));
    let tier = spans.len().div_ceil(TIERS).max(1);
    for spans in spans.chunks_mut(tier) {
        spans.sort_by(|a, b| (a.keyspace, &a.low).cmp(&(b.keyspace, &b.low)));
    }
    spans.reverse();
    spans
}

#[cfg(test)]
#[cfg(not(evendb_loom))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spans(keys: &[(u32, Vec<u8>)]) -> Vec<HotSpan> {
        let span = |(index, (keyspace, low)): (usize, &(u32, Vec<u8>))| HotSpan {
            keyspace: KeyspaceId(*keyspace),
            low: low.clone().into_boxed_slice(),
            heat: index as f32 * 0.5,
        };
        keys.iter().enumerate().map(span).collect()
    }

    /// Enough for the spans of the other tests.
    const MUCH: usize = 1 << 20;

    /// Each key begins with all of the one before, so that few bytes stand for many.
    #[test]
    fn keys_that_share_their_beginnings_take_no_more_memory_than_spans_may() {
        let long = vec![7; 60_000];
        let first = encode(&spans(&[(1, long)]), MUCH);
        let mut body = first[HEADER_BYTES..].to_vec();
        for _ in 0..10_000 {
            for number in [1, 0, 60_000, 0] {
                put_varint(&mut body, number);
            }
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&checksum(0, &[&body]).to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.append(&mut body);
        assert_eq!(decode(&bytes, MEMORY_BYTES[1] as usize), None);
        // Encoded spans can be read: encoding ends before the limit.
        let many = vec![(1, vec![7; 60_000]); 2000];
        let most = memory_max(4 << 30);
        assert_eq!(most, 64 << 20);
        let read = decode(&encode(&spans(&many), most), most).unwrap();
        assert_eq!(read.len(), most / memory_of(60_000));
    }

    #[test]
    fn what_spans_take_follows_the_budget() {
        let budgets = [0, 1 << 30, u64::MAX];
        assert_eq!(budgets.map(memory_max), [1 << 20, 16 << 20, 64 << 20]);
        let short = vec![(1, vec![7]); 100];
        let bytes = encode(&spans(&short), MUCH);
        let taken = 100 * memory_of(1);
        assert_eq!(decode(&bytes, taken).unwrap().len(), 100);
        assert_eq!(decode(&bytes, taken - 1), None);
        let fewer = encode(&spans(&short), taken - 1);
        assert_eq!(decode(&fewer, taken - 1).unwrap().len(), 99);
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            keys in prop::collection::vec((0u32..3, prop::collection::vec(0u8..4, 0..9)), 0..50),
        ) {
            let mut keys = keys;
            keys.sort();
            let spans = spans(&keys);
            prop_assert_eq!(decode(&encode(&spans, MUCH), MUCH), Some(spans));
        }

        #[test]
        fn other_bytes_are_nothing(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let len = bytes.len() as u64;
            let mut sealed = MAGIC.to_vec();
            sealed.extend_from_slice(&checksum(0, &[&bytes]).to_le_bytes());
            sealed.extend_from_slice(&len.to_le_bytes());
            sealed.extend_from_slice(&bytes);
            // The bytes may be anything, sealed or not, and nothing panics.
            let _ = decode(&sealed, MUCH);
            prop_assert_eq!(decode(&bytes, MUCH), None);
        }
    }

    #[test]
    fn a_changed_byte_or_length_is_noticed() {
        let keys: Vec<(u32, Vec<u8>)> = (0..20).map(|key| (1, vec![key; 7])).collect();
        let bytes = encode(&spans(&keys), MUCH);
        for at in 0..bytes.len() {
            assert_eq!(decode(&bytes[..at], MUCH), None, "cut at {at}");
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert_eq!(decode(&changed, MUCH), None, "bit {bit} of byte {at}");
            }
        }
        assert_eq!(decode(&[&bytes[..], &[0]].concat(), MUCH), None);
    }

    #[test]
    fn the_hottest_come_first_and_neighbours_together() {
        let keys: Vec<(u32, Vec<u8>)> = (0..40u32)
            .map(|key| (0, vec![(key * 7 % 40) as u8]))
            .collect();
        let mut order = in_tiers(spans(&keys));
        order.reverse();
        let heats = |range: std::ops::Range<usize>| order[range].iter().map(|span| span.heat);
        let least = heats(0..10).fold(f32::MAX, f32::min);
        let most = heats(10..40).fold(0.0, f32::max);
        assert!(least > most);
        assert!(order[..10].is_sorted_by(|a, b| a.low < b.low));
        assert!(in_tiers(Vec::new()).is_empty());
    }
}
