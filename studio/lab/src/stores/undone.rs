//! EvenDB with departures from the paper's design undone: the paper's own design beside ours, and
//! each departure alone.
//!
//! Each is a store of its own, which is told the same memory and durability as [`EvenDbOpener`].
//! Departures that cannot be undone by a choice stay ours in all of them:
//! decision 0079 (docs/decisions/caches.md) has the list.

use std::path::Path;

use evendb::Departure;

use super::evendb::{EvenDbOpener, EvenDbStore, options};
use crate::opener::{Opener, Settings};
use crate::store::{Store, StoreResult};

/// EvenDB without some departures.
#[derive(Clone, Copy)]
pub struct UndoneOpener {
    name: &'static str,
    /// What follows the paper, in words.
    words: &'static str,
    departures: &'static [Departure],
}

/// The paper's design as far as it can be had comes first, then each departure undone alone.
static ALL: [UndoneOpener; 6] = [
    UndoneOpener {
        name: "evendb-paper",
        words: "all of these as in the paper",
        departures: &Departure::ALL,
    },
    UndoneOpener {
        name: "evendb-bloom-logs",
        words: "16 Bloom filters for each log, each over a part that is read from end to end; no index",
        departures: &[Departure::LogIndex],
    },
    UndoneOpener {
        name: "evendb-fixed-logs",
        words: "logs of 2 and 20 MiB, not by rate and size",
        departures: &[Departure::LogShares],
    },
    UndoneOpener {
        name: "evendb-three-tables",
        words: "rows in a queue of three tables, not S3-FIFO",
        departures: &[Departure::RowQueue],
    },
    UndoneOpener {
        name: "evendb-two-to-one",
        words: "munks and rows share memory 2 to 1, not by use",
        departures: &[Departure::MemoryShares],
    },
    UndoneOpener {
        name: "evendb-counts",
        words: "munks by decayed counts alone",
        departures: &[Departure::SpanWorth],
    },
];

/// All of them.
#[must_use]
pub fn openers() -> Vec<Box<dyn Opener>> {
    let boxed = |opener: &UndoneOpener| -> Box<dyn Opener> { Box::new(*opener) };
    ALL.iter().map(boxed).collect()
}

/// What follows the paper in the store of this name, in words. `None` for other stores.
#[must_use]
pub fn words(store: &str) -> Option<&'static str> {
    let found = ALL.iter().find(|opener| opener.name == store);
    found.map(|opener| opener.words)
}

/// Their names, in order.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    ALL.iter().map(|opener| opener.name)
}

impl Opener for UndoneOpener {
    fn name(&self) -> &'static str {
        self.name
    }

    fn only_if_named(&self) -> bool {
        true
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        let undone = |options: evendb::Options, departure: &Departure| {
            options.advanced(|advanced| advanced.undo(*departure))
        };
        let options = self.departures.iter().fold(options(settings), undone);
        let store = EvenDbStore::open(directory, options, self.words)?;
        Ok(Box::new(store))
    }

    fn memory_within(&self, limit_bytes: u64) -> u64 {
        EvenDbOpener.memory_within(limit_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_departure_is_undone_alone_once() {
        let (whole, alone) = ALL.split_first().unwrap();
        assert_eq!(whole.departures, Departure::ALL);
        let alone: Vec<Departure> = (alone.iter())
            .flat_map(|one| one.departures.to_vec())
            .collect();
        assert_eq!(alone, Departure::ALL);
        assert!(words("evendb").is_none() && names().all(|name| words(name).is_some()));
    }
}
