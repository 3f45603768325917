//! The cells of the paper's evaluation, each one measured phase, and how they share data.
//!
//! A cell belongs to one experiment, named after the paper's figure that asks for it. Figures that
//! show the same phases in another way are made from the same cells: figure 7 (write amplification)
//! from P's in figure 6, figures 8 and 9 (latencies and what serves gets) from A's in figure 6,
//! figure 4 (space) and table 2 (resources) from figure 3's. The drafts' table of reads is made
//! from C's. Table 3 is about the distributions alone: it has no cells.
//!
//! All sizes are multiples of the memory, which was 16 GiB in the paper: everything scales
//! together.

#[cfg(test)]
mod tests;
mod wanted;

use crate::distribution::DistributionKind;
use crate::mix::{LoadOrder, Mix};
use crate::opener::Variant;
use crate::stores::undone;
use std::fmt;

pub use wanted::Wanted;

/// The paper's memory.
pub const PAPER_MEMORY_BYTES: u64 = 16 << 30;
/// What a user can ask for by `--figures`. `reads` is the drafts' table of bytes and system calls
/// for a get.
pub const FIGURES: [&str; 14] = [
    "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "table-2", "table-3", "table-4", "reads",
];

/// The further figure that a user may ask for, and must name: what each departure from the paper's
/// design brings.
pub const DEPARTURES: &str = "departures";

/// What one phase does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// Puts all records.
    Load(LoadOrder),
    /// A mix over what was loaded.
    Mix {
        mix: Mix,
        distribution: DistributionKind,
        theta: f64,
    },
    /// Puts an event log in the order of time.
    Ingest,
    /// Queries the last minute of apps and puts on.
    Analytics,
}

impl Work {
    /// Whether the phase needs data that was read before.
    pub fn reads(self) -> bool {
        matches!(self, Work::Mix { mix, .. } if mix != Mix::P)
    }

    /// The name in results, and the order in which it goes through the records.
    pub fn names(self) -> (String, &'static str) {
        match self {
            Work::Load(order) => ("load".to_owned(), order.name()),
            Work::Mix {
                mix, distribution, ..
            } => (mix.to_string(), distribution.name()),
            Work::Ingest => ("ingest".to_owned(), "event-log"),
            Work::Analytics => ("scans".to_owned(), "event-log"),
        }
    }
}

/// One phase of one experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The experiment's name in results and reports.
    pub experiment: &'static str,
    pub work: Work,
    /// Bytes of keys and values that were loaded before, or are ingested.
    pub data_bytes: u64,
    pub threads: usize,
    /// EvenDB with one option changed.
    pub variant: Option<Variant>,
}

impl Cell {
    /// Whether only some stores are asked.
    pub fn concerns(&self, store: &str) -> bool {
        match self.experiment {
            // EvenDB's scaling and its options.
            "figure-12" => store == "evendb",
            DEPARTURES => store == "evendb" || undone::words(store).is_some(),
            "table-4" => matches!(store, "evendb" | "pebblesdb" | "rocksdb"),
            _ => true,
        }
    }

    /// The cells that share one loaded store with it: the cells of the same data.
    pub fn family(&self) -> Family {
        let data = match self.work {
            Work::Ingest => Data::Events,
            Work::Analytics => Data::EventsUnpaid,
            Work::Load(_) | Work::Mix { .. } => Data::Records,
        };
        Family {
            data,
            data_bytes: self.data_bytes,
            variant: self.variant,
        }
    }

    /// The place among the phases of a family: a phase that changes the data more comes later.
    fn order(&self) -> usize {
        let Work::Mix {
            mix, distribution, ..
        } = self.work
        else {
            return 0;
        };
        match mix {
            Mix::C => 2,
            Mix::E(_) => 3,
            Mix::B => 4,
            Mix::F => 5,
            Mix::A => 6,
            Mix::P if distribution != DistributionKind::Uniform => 7,
            Mix::P => 8,
            // Makes the data set larger.
            Mix::D => 9,
        }
    }

    /// The cell's name, unique within its experiment.
    pub fn name(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = crate::readable::bytes(self.data_bytes);
        match self.work {
            Work::Load(_) => write!(f, "load/{size}")?,
            Work::Ingest => write!(f, "ingest/{size}")?,
            Work::Analytics => write!(f, "scans/{size}")?,
            Work::Mix {
                mix,
                distribution,
                theta,
            } => {
                write!(f, "{mix}/{distribution}/{size}")?;
                if self.experiment == "figure-10" {
                    write!(f, "/theta {theta:.2}")?;
                }
            }
        }
        if matches!(self.experiment, "figure-11" | "table-4") {
            write!(f, "/{} threads", self.threads)?;
        }
        match self.variant {
            Some(variant) => write!(f, "/{variant}"),
            None => Ok(()),
        }
    }
}

/// The data that a store is loaded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Records, in one order or another.
    Records,
    /// An event log. The debt of its ingestion is paid and charged to it.
    Events,
    /// An event log. The debt of its ingestion is unpaid when the next phase begins, and charged to
    /// that phase.
    EventsUnpaid,
}

/// What the cells of one loaded store have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Family {
    pub data: Data,
    pub data_bytes: u64,
    pub variant: Option<Variant>,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.data {
            Data::Records => "records",
            Data::Events => "events",
            Data::EventsUnpaid => "events, debt unpaid",
        };
        write!(f, "{} of {what}", crate::readable::bytes(self.data_bytes))?;
        match self.variant {
            Some(variant) => write!(f, ", {variant}"),
            None => Ok(()),
        }
    }
}
