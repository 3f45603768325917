//! Where a chunk grows: the places at which it is best cut, so that what arrives in key order
//! behind one key (the newest event of an app, the last message of a user) is written once.
//!
//! ```text
//!   records in key order   o o o f o o o o f f f f f f f f f o o f o o
//!   (o of the base,                       |                 |
//!    f fresh: newer)                  cut here          and here
//! ```
//!
//! The part between the two cuts becomes a chunk of its own. What arrives later lies above all that this
//! chunk has, so runs join its base (decision 0004), and its base is never rewritten. If the stream
//! stayed in one chunk with the records around it, it would be rewritten with them at every rebalance
//! and split.
//!
//! Thread safety: pure. Not here: telling overwritten records from new ones. The caller knows that the
//! chunk has outgrown its limit.

/// A streak counts if it has at least this share of the fresh bytes, and of all bytes.
const FRESH_PART_MIN: u64 = 4;
const LIVE_PART_MIN: u64 = 32;

/// Sums up records in key order.
#[derive(Default)]
pub(crate) struct Growth {
    /// The last checkpoint of which the base holds everything.
    based_at: u64,
    live_bytes: u64,
    fresh_bytes: u64,
    records: u64,
    streak: Option<Streak>,
    ended: Vec<Streak>,
}

/// Fresh records without a record of the base between them.
struct Streak {
    first_key: Vec<u8>,
    bytes: u64,
    /// The key after the streak, if there is one.
    end: Option<Vec<u8>>,
    /// Whether records of the base come before it.
    inside: bool,
}

/// A key range of the chunk that is to become a chunk of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stream {
    /// Its first key.
    pub(crate) low: Vec<u8>,
    /// The first key behind it.
    pub(crate) end: Option<Vec<u8>>,
}

impl Growth {
    pub(crate) fn since(based_at: u64) -> Growth {
        Growth {
            based_at,
            ..Growth::default()
        }
    }

    /// Takes the next record: the newest version of its key, and the checkpoint that it belongs to.
    pub(crate) fn add(&mut self, key: &[u8], bytes: u64, checkpoint: u64) {
        self.live_bytes += bytes;
        self.records += 1;
        if checkpoint > self.based_at {
            self.fresh_bytes += bytes;
            let inside = self.records > 1;
            let streak = self.streak.get_or_insert_with(|| Streak {
                first_key: key.to_vec(),
                bytes: 0,
                end: None,
                inside,
            });
            streak.bytes += bytes;
        } else if let Some(mut streak) = self.streak.take() {
            // Most are single records.
            if streak.bytes * LIVE_PART_MIN >= self.live_bytes {
                streak.end = Some(key.to_vec());
                self.ended.push(streak);
            }
        }
    }

    /// Takes an older version of the last key, which a reader may need.
    pub(crate) fn add_older(&mut self, bytes: u64) {
        self.live_bytes += bytes;
    }

    /// Bytes of all records.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// The streams, ascending.
    pub(crate) fn streams(mut self) -> Vec<Stream> {
        self.ended.extend(self.streak.take());
        let counts = |streak: &Streak| {
            streak.bytes * FRESH_PART_MIN >= self.fresh_bytes
                && streak.bytes * LIVE_PART_MIN >= self.live_bytes
                // A streak that is the whole chunk is left: there is nothing to cut.
                && (streak.inside || streak.end.is_some())
        };
        let ended = self.ended.into_iter().filter(counts);
        ended
            .map(|streak| Stream {
                low: streak.first_key,
                end: streak.end,
            })
            .collect()
    }
}

#[cfg(test)]
#[cfg(not(evendb_loom))]
mod tests {
    use super::*;

    /// Streams of records `a`, `b`, ... of one checkpoint each: 1 for the base.
    fn streams(checkpoints: &[u64]) -> Vec<(String, Option<String>)> {
        let mut growth = Growth::since(1);
        for (at, &checkpoint) in checkpoints.iter().enumerate() {
            growth.add(&[b'a' + at as u8], 10, checkpoint);
        }
        let text = |key: Vec<u8>| String::from_utf8(key).expect("a letter");
        let streams = growth.streams().into_iter();
        streams
            .map(|stream| (text(stream.low), stream.end.map(text)))
            .collect()
    }

    #[test]
    fn a_streak_of_fresh_records_is_a_stream() {
        let found = |low: &str, end: Option<&str>| vec![(low.into(), end.map(String::from))];
        assert_eq!(streams(&[1, 1, 2, 3, 4, 1]), found("c", Some("f")));
        assert_eq!(streams(&[2, 3, 4, 1, 1]), found("a", Some("d")));
        assert_eq!(streams(&[1, 1, 2, 3, 4]), found("c", None));
        let both = streams(&[1, 2, 2, 1, 3, 3, 1]);
        assert_eq!(both.len(), 2, "{both:?}");
        assert_eq!(both[1], ("e".into(), Some("g".into())));
    }

    #[test]
    fn scattered_records_and_a_chunk_that_is_all_fresh_are_none() {
        assert!(streams(&[1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1]).is_empty());
        assert!(streams(&[2, 2, 3, 3]).is_empty());
        assert!(streams(&[1, 1, 1]).is_empty());
        assert!(streams(&[]).is_empty());
    }

    #[test]
    fn a_little_of_much_is_none() {
        let mut growth = Growth::since(1);
        for key in 0..100u8 {
            growth.add(&[key], 10, 1 + u64::from(key == 50));
        }
        growth.add_older(7);
        assert_eq!(growth.live_bytes(), 1007);
        assert!(growth.streams().is_empty());
    }
}
