//! Records are counted into a merge and out of it, in release builds, too: a job must write all
//! records of its sources, except the ones that the merge dropped.
//!
//! ```text
//! held by the sources  =  taken by the merge  = kept + twins + hidden + spent tombstones + covered
//!                                                + folded into kept ones + paired + filtered
//!                                                kept  =  records in the tables that were written
//! ```
//!
//! The number of records of a source is known independently of reading it: from its table's footer,
//! from the munk's directory, from a walk through a delta. For a table that reaches beyond
//! the chunk only an upper limit is known. A job that finds a difference publishes nothing and
//! latches the database.

use super::Merge;
use crate::error::{Error, ErrorKind, Result};
use crate::munk::Loaded;
use crate::visibility::Fate;
use evendb_storage::Kind;
use evendb_storage::table::TableMeta;

/// The number of records of a source.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) least: u64,
    pub(crate) most: u64,
}

impl Held {
    /// Of a source that goes on where another one stopped, which has told it already.
    pub(crate) const UNKNOWN: Held = Held {
        least: 0,
        most: u64::MAX,
    };

    pub(crate) fn exactly(records: u64) -> Held {
        Held {
            least: records,
            most: records,
        }
    }

    pub(crate) fn at_most(records: u64) -> Held {
        Held {
            least: 0,
            most: records,
        }
    }

    pub(super) fn and(self, other: Held) -> Held {
        Held {
            least: self.least + other.least,
            most: self.most.saturating_add(other.most),
        }
    }
}

/// The fates of the records that a merge took.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Fates {
    pub(crate) kept: u64,
    /// Tombstones among the kept records.
    pub(crate) kept_deletes: u64,
    pub(crate) twins: u64,
    pub(crate) hidden: u64,
    pub(crate) spent: u64,
    pub(crate) covered: u64,
    /// In keys with operands: records that were folded into kept ones.
    pub(crate) folded: u64,
    /// Single deletes, and the puts that were dropped with them.
    pub(crate) paired: u64,
    pub(crate) filtered: u64,
}

impl Fates {
    #[inline]
    pub(super) fn note(&mut self, fate: Fate, kind: Kind) {
        match fate {
            Fate::Kept => {
                self.kept += 1;
                self.kept_deletes += u64::from(kind.is_tombstone());
            }
            Fate::Twin => self.twins += 1,
            Fate::Hidden => self.hidden += 1,
            Fate::SpentTombstone => self.spent += 1,
            Fate::Covered => self.covered += 1,
            Fate::Filtered => self.filtered += 1,
        }
    }

    pub(crate) fn taken(&self) -> u64 {
        let dropped = self.twins + self.hidden + self.spent + self.covered;
        self.kept + dropped + self.folded + self.paired + self.filtered
    }
}

/// The count of one job: of one merge, or of several that go on where the one before stopped.
#[derive(Clone, Default, Debug)]
pub(crate) struct Count {
    held: Option<Held>,
    fates: Fates,
    written: u64,
    written_deletes: u64,
}

impl Count {
    /// The job begins, or goes on, with this merge, which has not been advanced.
    pub(crate) fn begin(&mut self, merge: &Merge<'_>) {
        self.held.get_or_insert(merge.held());
    }

    /// The merge has been advanced to the first key after `tables`, into which it was written.
    pub(crate) fn add<'t>(
        &mut self,
        merge: &Merge<'_>,
        tables: impl Iterator<Item = &'t TableMeta>,
    ) {
        for meta in tables {
            self.written += meta.entries;
            self.written_deletes += meta.deletes;
        }
        self.add_fates(merge);
    }

    /// Like [`add`](Self::add), for a merge that became images of spans.
    pub(crate) fn add_images(&mut self, merge: &Merge<'_>, loaded: &Loaded) {
        let (entries, deletes) = loaded.counts();
        self.written += entries as u64;
        self.written_deletes += deletes as u64;
        self.add_fates(merge);
    }

    fn add_fates(&mut self, merge: &Merge<'_>) {
        let (fates, sum) = (merge.fates_of_kept_keys(), &mut self.fates);
        sum.kept += fates.kept;
        sum.kept_deletes += fates.kept_deletes;
        sum.twins += fates.twins;
        sum.hidden += fates.hidden;
        sum.spent += fates.spent;
        sum.covered += fates.covered;
        sum.folded += fates.folded;
        sum.paired += fates.paired;
        sum.filtered += fates.filtered;
    }

    /// Compares at the end of the job. `job` gives the names of the job and its files.
    pub(crate) fn check(&self, job: impl FnOnce() -> String) -> Result<()> {
        let (held, fates) = (self.held.unwrap_or_default(), &self.fates);
        let taken = fates.taken();
        if (held.least..=held.most).contains(&taken)
            && (self.written, self.written_deletes) == (fates.kept, fates.kept_deletes)
        {
            return Ok(());
        }
        let held = match held.least == held.most {
            true => format!("{}", held.least),
            false => format!("{} to {}", held.least, held.most),
        };
        let message = format!(
            "{}: the sources hold {held} records and {taken} were read; {} were dropped, and of {} \
             kept ({} deletes) {} ({} deletes) were written; nothing of it was published, and what \
             was there stays; close the database and verify it before it is opened again",
            job(),
            taken - fates.kept,
            fates.kept,
            fates.kept_deletes,
            self.written,
            self.written_deletes,
        );
        Err(Error::new(ErrorKind::Corruption, message))
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;
