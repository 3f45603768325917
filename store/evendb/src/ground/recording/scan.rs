//! Cursors and iterators in a trace: one operation for each end that was used, from its beginning
//! or a seek to the next seek of that end, or to the drop.
//!
//! An operation is taken by the key where it begins: the front by the range's lowest key or the
//! sought key, the back by the end of the range. Its latency is the time that gathering records
//! took, without the caller's time between the calls. An iterator that gave no record is a scan of
//! no records, backward if only the back was asked, else forward.

use super::{Recording, failed};
use crate::error::Error;
use crate::fork;
use evendb_trace::{Began, Call, Kind, Outcome, RecorderHandle};
use std::sync::Arc;
use std::time::Duration;

/// The keyspace and the transaction that a scan belongs to.
#[derive(Clone, Copy)]
pub(crate) struct ScanOf {
    pub(crate) keyspace: u32,
    /// The group of its transaction; 0: none.
    pub(crate) group: u64,
    pub(crate) older_moment: bool,
}

/// The state of one cursor's scans so far. Dropping it records nothing.
pub(crate) struct ScanRecord {
    slot: Arc<RecorderHandle>,
    of: ScanOf,
    pub(crate) keys_only: bool,
    pub(crate) limit: Option<u64>,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    /// The front and the back.
    ends: [EndRecord; 2],
    told: bool,
}

struct EndRecord {
    began: Began,
    /// The key to which this end was sought.
    sought: Option<Vec<u8>>,
    asked: bool,
    given: u64,
    gathering: Duration,
}

impl Recording {
    /// Begins to note the steps of a cursor over a range, if a trace is on.
    #[inline]
    pub(crate) fn scan(
        &self,
        of: ScanOf,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Option<Box<ScanRecord>> {
        let began = self.begin_always()?;
        let end = || EndRecord {
            began,
            sought: None,
            asked: false,
            given: 0,
            gathering: Duration::ZERO,
        };
        Some(Box::new(ScanRecord {
            slot: self.slot.clone(),
            of,
            keys_only: false,
            limit: None,
            low: low.to_vec(),
            high: high.map(<[u8]>::to_vec),
            ends: [end(), end()],
            told: false,
        }))
    }
}

impl ScanRecord {
    /// Notes that an end was asked for a record, and whether it gave one.
    pub(crate) fn asked(&mut self, is_back: bool, gave: bool) {
        let end = &mut self.ends[usize::from(is_back)];
        end.asked = true;
        end.given += u64::from(gave);
    }

    /// Adds the time that an end took to gather records.
    pub(crate) fn gathered(&mut self, is_back: bool, took: Duration) {
        self.ends[usize::from(is_back)].gathering += took;
    }

    /// Notes a seek of an end: the front goes on from `to`, the back below it.
    pub(crate) fn sought(&mut self, is_back: bool, to: &[u8]) {
        self.tell(is_back, None);
        let Some(began) = self.slot.begin_always().filter(|_| !fork::is_child()) else {
            return;
        };
        // A group belongs to the trace in which the scan began.
        if self.of.group != 0 && !began.is_of_trace_of(&self.ends[0].began) {
            return;
        }
        self.ends[usize::from(is_back)] = EndRecord {
            began,
            sought: Some(to.to_vec()),
            asked: false,
            given: 0,
            gathering: Duration::ZERO,
        };
    }

    /// Records the scans when the cursor is dropped.
    pub(crate) fn dropped(&mut self, error: Option<&Error>) {
        self.tell(false, error);
        self.tell(true, error);
        if !self.told {
            let [front, back] = &self.ends;
            self.tell_of(back.asked && !front.asked, error);
        }
    }

    /// Records the operation of an end, if the end was used.
    fn tell(&mut self, is_back: bool, error: Option<&Error>) {
        let end = &self.ends[usize::from(is_back)];
        if end.given > 0 || end.sought.is_some() {
            self.tell_of(is_back, error);
        }
    }

    fn tell_of(&mut self, is_back: bool, error: Option<&Error>) {
        if fork::is_child() {
            return;
        }
        let end = &self.ends[usize::from(is_back)];
        self.told = true;
        let (low, high) = match is_back {
            false => (end.sought.as_ref().unwrap_or(&self.low), &self.high),
            true if end.sought.is_some() => (&self.low, &end.sought),
            true => (&self.low, &self.high),
        };
        let begins = match is_back {
            true => high.as_ref().unwrap_or(low),
            false => low,
        };
        if !self.slot.takes(begins) {
            return;
        }
        let mut call = Call::new(Kind::Scan, self.of.keyspace, low);
        call.end_key = high.as_deref();
        call.group = self.of.group;
        call.older_moment = self.of.older_moment;
        call.reverse = is_back;
        call.keys_only = self.keys_only;
        call.limit = self.limit;
        call.count = Some(end.given);
        call.outcome = error.map_or(Outcome::Done, failed);
        let nanos = end.gathering.as_nanos() as u64;
        self.slot.end_after(end.began, Some(nanos), &call);
    }
}
