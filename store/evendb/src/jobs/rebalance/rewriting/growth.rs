//! Where a chunk grows: the places at which it is best cut, so that records that arrive in key
//! order behind one key (the newest event of an app, the last message of a user) are written once.
//!
//! ```text
//!   records in key order   o o o f o o o o f f f f f f f f f o o f o o
//!   (o of the base,                       |                 |
//!    f fresh: newer)                  cut here          and here
//! ```
//!
//! The part between the two cuts becomes a chunk of its own. Later records of the stream lie above
//! all keys of this chunk, so runs join its base (decisions 0004 and 0041), and its base is never
//! rewritten. If the stream stayed in one chunk with the records around it, it would be rewritten
//! with them at every rebalance and split.
//!
//! A stream's records are of ascending checkpoints, and its last records are of the newest
//! checkpoint. So if a fresh record is older than the one before it, another stream begins there,
//! or there is no stream: the next keys are not part of it, and the chunk is cut there. If they
//! were part of it, they would lie above the stream's next records.
//!
//! Thread safety: pure. Not here: telling overwritten records from new ones. The caller knows that
//! the chunk has outgrown its limit.

/// A streak counts if its bytes are at least one part in this number of all bytes.
const LIVE_PART_MIN: u64 = 128;
/// The number of records of the checkpoint before that may come behind the first record of the
/// newest checkpoint: several threads put, and a checkpoint falls between their puts.
const LATE_MAX: u32 = 16;

/// Sums up records in key order.
#[derive(Default)]
pub(crate) struct Growth {
    /// The base holds everything up to this checkpoint.
    based_at: u64,
    /// The newest checkpoint of all.
    newest: u64,
    live_bytes: u64,
    records: u64,
    streak: Option<Streak>,
    ended: Vec<Streak>,
}

/// Fresh records without a record of the base between them.
struct Streak {
    first_key: Vec<u8>,
    bytes: u64,
    /// The newest checkpoint, and the number of records since its first one.
    newest: u64,
    since_newest: u32,
    /// The key after the streak, if there is one.
    end: Option<Vec<u8>>,
    /// Whether records of the base come before the streak.
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

impl Streak {
    /// Whether a record of this checkpoint cannot be the stream's next one.
    fn is_left_by(&self, checkpoint: u64) -> bool {
        let late = u64::from(self.since_newest < LATE_MAX);
        checkpoint + late < self.newest
    }
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
        self.newest = self.newest.max(checkpoint);
        let fresh = checkpoint > self.based_at;
        if self
            .streak
            .as_ref()
            .is_some_and(|streak| !fresh || streak.is_left_by(checkpoint))
        {
            self.end_streak(key);
        }
        if !fresh {
            return;
        }
        let inside = self.records > 1;
        let streak = self.streak.get_or_insert_with(|| Streak {
            first_key: key.to_vec(),
            bytes: 0,
            newest: checkpoint,
            since_newest: 0,
            end: None,
            inside,
        });
        streak.bytes += bytes;
        match checkpoint > streak.newest {
            true => (streak.newest, streak.since_newest) = (checkpoint, 0),
            false => streak.since_newest += 1,
        }
    }

    /// The streak ends before `key`.
    fn end_streak(&mut self, key: &[u8]) {
        // Nearly all streaks are single records.
        if let Some(mut streak) = self.streak.take()
            && streak.bytes * LIVE_PART_MIN >= self.live_bytes
        {
            streak.end = Some(key.to_vec());
            self.ended.push(streak);
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

    /// The streams, ascending: those whose bytes at each checkpoint are at least
    /// `stretch_bytes_min`.
    pub(crate) fn streams(mut self, stretch_bytes_min: u64) -> Vec<Stream> {
        self.ended.extend(self.streak.take());
        let checkpoints = self.newest.saturating_sub(self.based_at);
        let counts = |streak: &Streak| {
            streak.bytes >= stretch_bytes_min.saturating_mul(checkpoints)
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

    /// Streams of records `a`, `b`, ... of 10 bytes; each has the given checkpoint, and 1 stands
    /// for the base.
    fn streams(checkpoints: &[u64]) -> Vec<(String, Option<String>)> {
        streams_of(10, checkpoints)
    }

    fn streams_of(stretch_bytes_min: u64, checkpoints: &[u64]) -> Vec<(String, Option<String>)> {
        let mut growth = Growth::since(1);
        for (at, &checkpoint) in checkpoints.iter().enumerate() {
            growth.add(&[b'a' + at as u8], 10, checkpoint);
        }
        let text = |key: Vec<u8>| String::from_utf8(key).expect("a letter");
        let streams = growth.streams(stretch_bytes_min).into_iter();
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
        assert!(streams_of(11, &[1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1]).is_empty());
        assert!(streams(&[2, 2, 3, 3]).is_empty());
        assert!(streams(&[1, 1, 1]).is_empty());
        assert!(streams(&[]).is_empty());
    }

    #[test]
    fn a_stream_ends_where_an_older_record_follows() {
        let found = |low: &str, end: &str| vec![(low.into(), Some(end.into()))];
        assert_eq!(streams(&[1, 1, 2, 3, 4, 2, 1]), found("c", "f"));
        // Records one checkpoint apart are those of threads side by side.
        assert_eq!(streams(&[1, 2, 3, 4, 3, 4, 1]), found("b", "g"));
        // Only a limited number of records may be one checkpoint apart.
        let checkpoints = [[1, 3, 4].as_slice(), &[4; 16], &[3, 3, 1]].concat();
        assert_eq!(streams(&checkpoints), found("b", "t"));
    }

    #[test]
    fn a_stream_brings_a_stretch_at_each_checkpoint() {
        assert_eq!(streams_of(10, &[1, 2, 3, 4, 1]).len(), 1);
        assert!(streams_of(11, &[1, 2, 3, 4, 1]).is_empty());
        // Another part of the chunk says that there were more checkpoints.
        assert!(streams(&[1, 2, 3, 4, 1, 5, 1]).is_empty());
    }

    #[test]
    fn a_little_of_much_is_none() {
        let mut growth = Growth::since(1);
        for key in 0..200u8 {
            growth.add(&[key], 10, 1 + u64::from(key == 50));
        }
        growth.add_older(7);
        assert_eq!(growth.live_bytes(), 2007);
        assert!(growth.streams(1).is_empty());
    }
}
