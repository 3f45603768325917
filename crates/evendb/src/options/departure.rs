//! Departures from the paper's design, each of which can be undone: so the paper's own design can be measured
//! beside ours, and what each departure brings.
//!
//! Only those are here that a choice between two ways of working undoes. Others go through the whole engine: logs are runs
//! in one container, one commit log is there for all chunks, munks come and go by spans, a delta is in front of each chunk.
//!
//! Not for users, so not in the documentation: nothing is kept of it in a database, and a later release may have fewer of
//! them.

use super::{Advanced, LogSearch, MunkPolicy, RowPolicy};

/// A departure from the paper's design.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Departure {
    /// An index finds a record in a chunk's log. Undone: sixteen Bloom filters, each over a section of the log, which is read
    /// from end to end.
    LogIndex,
    /// Logs share the space that the space amplification allows. Undone: 2 MiB for each chunk, 20 MiB for one in RAM.
    LogShares,
    /// Rows leave by S3-FIFO. Undone: a queue of three tables, the last of which goes as a whole.
    RowQueue,
    /// Munks and rows share memory by what a byte more would bring. Undone: two parts and one.
    MemoryShares,
    /// A span is in RAM for what it spares, as far as rows of its keys would not spare it. Undone: for its decayed
    /// count alone, and what is counted more takes the place of what is counted least.
    SpanWorth,
}

const MIB: u64 = 1 << 20;

impl Departure {
    /// All of them: undone together they are the paper's design, as far as it can be had.
    pub const ALL: [Departure; 5] = [
        Departure::LogIndex,
        Departure::LogShares,
        Departure::RowQueue,
        Departure::MemoryShares,
        Departure::SpanWorth,
    ];
}

impl Advanced {
    /// Does as the paper does, in one respect. Settings that are given afterwards count.
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
