//! Which spans were in RAM, for the next opening: the bytes of `HEAT`, and in which order spans come back.
//!
//! ```text
//! magic 8 | checksum 4 | length of the rest 8
//! for each span:  keyspace | heat | bytes shared with the low key before | the rest of the low key     varints
//! ```
//! Spans are named by their low keys alone. So what a split, a merge or a rewrite did since only changes which chunk
//! and which span of it hold that key.
//!
//! **Order.** [`TIERS`] tiers, the hottest first; in a tier by keyspace and key, so that spans of a chunk come together.
//!
//! Thread safety: plain data. It is a hint: whatever does not verify counts as nothing, and nothing else depends on it.
//! Not here: when it is written, and who loads ([`crate::rebalance::warm`]).

use crate::manifest::KeyspaceId;
use crate::munk::heat::number;
use evendb_storage::codec::{
    checksum, get_slice, get_u32, get_u64, get_varint, put_slice, put_varint,
};
use evendb_storage::table::KEY_BYTES_MAX;

const MAGIC: &[u8; 8] = b"evenHEA1";
const HEADER_BYTES: usize = 8 + 4 + 8;
/// No more spans are written, and a file with more is not read.
const SPANS_MAX: usize = 1 << 20;
/// No more is written, and a longer file is not read; nor is one whose low keys are longer, of which each may begin as the one
/// before.
pub(crate) const FILE_BYTES_MAX: usize = 64 << 20;
/// Steps in which the hottest come first.
const TIERS: usize = 4;
/// Heat is kept in steps of this.
const HEAT_STEP: f32 = 0.125;

/// A span that was in RAM.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HotSpan {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) low: Box<[u8]>,
    /// As [`Worth::heat`](crate::munk::heat::Worth::heat).
    pub(crate) heat: f32,
}

/// The file's bytes for spans of ascending keyspaces and keys; as many as it may hold.
pub(crate) fn encode(spans: &[HotSpan]) -> Vec<u8> {
    let mut body = Vec::new();
    let mut last: &[u8] = &[];
    let mut low_bytes = 0;
    for span in spans.iter().take(SPANS_MAX) {
        let shared = last.iter().zip(&*span.low).take_while(|(a, b)| a == b);
        let shared = shared.count();
        let whole = body.len();
        put_varint(&mut body, u64::from(span.keyspace.0));
        put_varint(&mut body, (number(span.heat) / HEAT_STEP) as u64);
        put_varint(&mut body, shared as u64);
        put_slice(&mut body, &span.low[shared..]);
        low_bytes += span.low.len();
        if HEADER_BYTES + body.len() > FILE_BYTES_MAX || low_bytes > FILE_BYTES_MAX {
            body.truncate(whole);
            break;
        }
        last = &span.low;
    }
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&checksum(0, &[&body]).to_le_bytes());
    bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
    bytes.append(&mut body);
    bytes
}

/// The spans that [`encode`] was given; `None` if the bytes are not its own.
pub(crate) fn decode(mut bytes: &[u8]) -> Option<Vec<HotSpan>> {
    bytes = bytes.strip_prefix(MAGIC)?;
    let sum = get_u32(&mut bytes)?;
    let len = get_u64(&mut bytes)?;
    if len != bytes.len() as u64 || checksum(0, &[bytes]) != sum {
        return None;
    }
    let mut spans: Vec<HotSpan> = Vec::new();
    let mut low_bytes = 0;
    while !bytes.is_empty() {
        let keyspace = KeyspaceId(u32::try_from(get_varint(&mut bytes)?).ok()?);
        let heat = get_varint(&mut bytes)? as f32 * HEAT_STEP;
        let shared = usize::try_from(get_varint(&mut bytes)?).ok()?;
        let rest = get_slice(&mut bytes)?;
        let last = spans.last().map_or(&[][..], |last| &last.low);
        let low = [last.get(..shared)?, rest].concat().into_boxed_slice();
        // Keys that begin as the one before take hardly any bytes here.
        low_bytes += low.len();
        if low.len() > KEY_BYTES_MAX || low_bytes > FILE_BYTES_MAX || spans.len() >= SPANS_MAX {
            return None;
        }
        spans.push(HotSpan {
            keyspace,
            low,
            heat,
        });
    }
    Some(spans)
}

/// The order in which they come back, the first one last.
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

    /// Each key begins with all of the one before, so that few bytes say many.
    #[test]
    fn keys_that_share_their_beginnings_take_no_more_memory_than_a_file_may_have() {
        let long = vec![7; 60_000];
        let first = encode(&spans(&[(1, long)]));
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
        assert_eq!(decode(&bytes), None);
        // What is written is read: it ends before.
        let many = vec![(1, vec![7; 60_000]); 2000];
        let read = decode(&encode(&spans(&many))).unwrap();
        assert_eq!(read.len(), FILE_BYTES_MAX / 60_000);
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            keys in prop::collection::vec((0u32..3, prop::collection::vec(0u8..4, 0..9)), 0..50),
        ) {
            let mut keys = keys;
            keys.sort();
            let spans = spans(&keys);
            prop_assert_eq!(decode(&encode(&spans)), Some(spans));
        }

        #[test]
        fn other_bytes_are_nothing(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let len = bytes.len() as u64;
            let mut sealed = MAGIC.to_vec();
            sealed.extend_from_slice(&checksum(0, &[&bytes]).to_le_bytes());
            sealed.extend_from_slice(&len.to_le_bytes());
            sealed.extend_from_slice(&bytes);
            // Sealed or not, they may be anything, and panic nowhere.
            let _ = decode(&sealed);
            prop_assert_eq!(decode(&bytes), None);
        }
    }

    #[test]
    fn a_changed_byte_or_length_is_noticed() {
        let keys: Vec<(u32, Vec<u8>)> = (0..20).map(|key| (1, vec![key; 7])).collect();
        let bytes = encode(&spans(&keys));
        for at in 0..bytes.len() {
            assert_eq!(decode(&bytes[..at]), None, "cut at {at}");
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert_eq!(decode(&changed), None, "bit {bit} of byte {at}");
            }
        }
        assert_eq!(decode(&[&bytes[..], &[0]].concat()), None);
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
