//! Departures from the paper's design. Each can be undone, so that the paper's own design, and the
//! gain of each departure, can be measured beside ours.
//!
//! Only departures that are a choice between two ways of working are here. Others go through the
//! whole engine: logs are runs in one container, one commit log serves all chunks, munks come and
//! go by spans, and a delta is in front of each chunk.
//!
//! Not for users, and therefore not in the documentation: a database keeps nothing of it, and a
//! later release may have fewer departures.

use super::{Advanced, LogSearch, MunkPolicy, RowPolicy};

/// A departure from the paper's design.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Departure {
    /// An index finds a record in a chunk's log. Undone: sixteen Bloom filters, each over a section
    /// of the log, and a section is read from end to end.
    LogIndex,
    /// Logs share the space that the space amplification allows. Undone: 2 MiB for each chunk, 20
    /// MiB for a chunk in RAM.
    LogShares,
    /// Rows leave by S3-FIFO. Undone: a queue of three tables; the last table goes as a whole.
    RowQueue,
    /// Munks and rows share memory by the gain of one more byte. Undone: munks have two parts of
    /// three, and rows one.
    MemoryShares,
    /// A span is in RAM for the reads that it spares and that rows of its keys would not spare.
    /// Undone: for its decayed count alone; spans with higher counts replace spans with the lowest.
    SpanWorth,
}

const MIB: u64 = 1 << 20;

impl Departure {
    /// All departures: undone together they give the paper's design, as far as it can be had.
    pub const ALL: [Departure; 5] = [
        Departure::LogIndex,
        Departure::LogShares,
        Departure::RowQueue,
        Departure::MemoryShares,
        Departure::SpanWorth,
    ];
}

impl Advanced {
    /// Does as the paper does, in one respect. Settings that are given later override it.
    #[doc(hidden)]
    pub fn undo(mut self, departure: Departure) -> Self {
        match departure {
            Departure::LogIndex => {
                (self.log_search, self.reads_sections) = (LogSearch::bloom(), true);
            }
            Departure::LogShares => self.log_bytes_limits = Some((2 * MIB, 20 * MIB)),
            Departure::RowQueue => self.row_policy = RowPolicy::ThreeTables,
            Departure::MemoryShares => self.row_cache_share = Some(1.0 / 3.0),
            Departure::SpanWorth => self.munk_policy = MunkPolicy::Counts,
        }
        self
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn shown(advanced: &Advanced) -> String {
        format!("{advanced:?}")
    }

    #[test]
    fn each_changes_something_of_its_own() {
        let ours = Advanced::new();
        let alone = Departure::ALL.map(|departure| shown(&ours.clone().undo(departure)));
        let different: HashSet<&String> = alone.iter().collect();
        assert_eq!(different.len(), Departure::ALL.len());
        assert!(!different.contains(&shown(&ours)));
    }

    #[test]
    fn their_order_does_not_matter_and_later_settings_count() {
        let all = |order: &mut dyn Iterator<Item = Departure>| {
            order.fold(Advanced::new(), |advanced, departure| {
                advanced.undo(departure)
            })
        };
        let forward = all(&mut Departure::ALL.into_iter());
        let backward = all(&mut Departure::ALL.into_iter().rev());
        assert_eq!(shown(&forward), shown(&backward));
        let own = forward.log_bytes_limits(1 << 10, 1 << 20);
        assert_eq!(own.log_bytes_limits, Some((1 << 10, 1 << 20)));
    }
}
