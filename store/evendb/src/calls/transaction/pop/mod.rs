//! Removing the first or last record of a range.
//!
//! Pops of one range take turns: each locks the least key of its range, as `get_for_update` would,
//! and takes its moment when it has the lock. Without turns, all but one of the pops that meet
//! would work in vain. The look at its reads at the commit still makes each pop right: no record
//! came to lie before the popped one.
//!
//! A pop does not pass over records that earlier pops have deleted: it begins behind them
//! ([`crate::chunk::emptied`]). Its read is the whole range up to the record all the same.
//!
//! Thread safety: as the session.

use super::Session;
use crate::catalog::KeyspaceState;
use crate::chunk::emptied::Since;
use crate::error::Result;
use crate::read::iter::Iter;
use crate::sync::{Arc, reclaim};
use crate::value::Value;
use crate::write::reads::{Read, ReadSpan};

/// Which end of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RangeEnd {
    First,
    Last,
}

impl RangeEnd {
    /// The record at this end of a range that was just opened.
    pub(crate) fn of(self, records: Iter) -> Result<Option<(Value, Value)>> {
        let mut records = records.limit(1);
        let item = match self {
            RangeEnd::First => records.next(),
            RangeEnd::Last => records.next_back(),
        };
        item.transpose()
    }
}

impl Session {
    /// Deletes the record at an end of a range, and returns it. The session has read and written
    /// nothing yet.
    pub(crate) fn pop(
        &mut self,
        keyspace: &Arc<KeyspaceState>,
        (low, high): (&[u8], Option<&[u8]>),
        end: RangeEnd,
    ) -> Result<Option<(Value, Value)>> {
        // Otherwise the pop would wait for a lock from before the drop.
        if keyspace.is_dropped() {
            return Err(keyspace.dropped_error());
        }
        self.lock_key((keyspace.id, low.into()))
            .map_err(|why| self.not_locked(keyspace, low, why))?;
        self.renew()?;
        let (from, to) = self.without_emptied(keyspace, (low, high), end);
        let cursor = self.cursor(keyspace, from, to);
        let found = end.of(Iter::new(cursor))?;
        let key = found.as_ref().map(|(key, _)| &**key);
        self.reads.borrow_mut().push(Read {
            keyspace: keyspace.clone(),
            span: span_up_to(key, (low, high), end),
            empties: key.is_some(),
        });
        if let Some(key) = key {
            self.set(keyspace, key, None)?;
        }
        Ok(found)
    }

    /// The range without the part at this end that pops have left empty.
    fn without_emptied(
        &self,
        keyspace: &KeyspaceState,
        (low, high): (&[u8], Option<&[u8]>),
        end: RangeEnd,
    ) -> (Vec<u8>, Option<Vec<u8>>) {
        let reader = Since {
            version: self.version(),
            time: self.time(),
        };
        let (mut low, mut high) = (low.to_vec(), high.map(<[u8]>::to_vec));
        while high.as_ref().is_none_or(|high| low < *high) {
            let chunk = {
                let pin = reclaim::pin();
                let index = keyspace.index.load(&pin);
                match (end, &high) {
                    (RangeEnd::First, _) => Some(index.get().find(&low).clone()),
                    (RangeEnd::Last, None) => Some(index.get().last().clone()),
                    (RangeEnd::Last, Some(high)) => index.get().find_below(high).cloned(),
                }
            };
            let Some(chunk) = chunk else { break };
            let writer = chunk.latch.lock();
            if writer.retired {
                break;
            }
            match end {
                RangeEnd::First => match writer.emptied.end_from(&low, reader) {
                    Some(Some(behind)) => low = behind.to_vec(),
                    Some(None) => high = Some(low.clone()),
                    None => break,
                },
                RangeEnd::Last => {
                    let limit = chunk.range.high.as_deref();
                    let below = match (high.as_deref(), limit) {
                        (Some(high), Some(limit)) => Some(high.min(limit)),
                        (high, limit) => high.or(limit),
                    };
                    match writer.emptied.begin_below(below, reader) {
                        Some(begin) => high = Some(begin.to_vec()),
                        None => break,
                    }
                }
            }
        }
        (low, high)
    }
}

/// The span that was read to find `key` at an end of the range: the whole range if there is no key.
fn span_up_to(key: Option<&[u8]>, (low, high): (&[u8], Option<&[u8]>), end: RangeEnd) -> ReadSpan {
    match (key, end) {
        (None, _) => ReadSpan::Range(low.into(), high.map(Box::from)),
        (Some(key), RangeEnd::First) => ReadSpan::through(low, key),
        (Some(key), RangeEnd::Last) => ReadSpan::Range(key.into(), high.map(Box::from)),
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;
