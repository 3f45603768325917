//! Which public calls are recorded in a trace ([`Db::start_trace`](crate::Db::start_trace)), and
//! how the trace describes them.
//!
//! ```text
//!   public call:  began = recording.begin(key)      one relaxed load; None unless a trace is on,
//!                                                   and takes the key
//!                 result = the call's own work
//!                 if began: recording.got / wrote / did (began, description, &result)
//! ```
//! * A call is recorded when it ends, whatever its result; a scan when it is dropped or sought
//!   again ([`scan`]).
//! * One public call is one operation. The calls that it makes inside are not recorded again,
//!   except in `compare_and_swap`, `fetch_update` and `transact`: these are transactions, and are
//!   recorded by their parts.
//! * The parts of a batch, of a transaction, or of a lookup of several keys have one group. Each
//!   part is taken or not by its own key; the operation that holds them together is recorded if one
//!   of them is. The parts of a batch are recorded with the batch's outcome, once that is known.
//!
//! Thread safety: any thread. A forked child records nothing: the trace's writer is not in the
//! child, and its locks may be held. Not here: buffers, files and the format (`evendb-trace`).

pub(crate) mod scan;
pub(crate) mod transaction;

use crate::error::{Error, ErrorKind, Result};
use crate::fork;
use evendb_trace::{Began, Call, Failure, Kind, Operation, Outcome, RecorderHandle, value_hash};
use std::ops::Deref;
use std::sync::Arc;

/// Holds the trace of an open database, while one is recorded.
#[derive(Default)]
pub(crate) struct Recording {
    pub(crate) slot: Arc<RecorderHandle>,
}

impl Recording {
    /// Begins an operation on a key.
    #[inline]
    pub(crate) fn begin(&self, key: &[u8]) -> Option<Began> {
        match self.slot.is_on() {
            false => None,
            true => self.begin_of(key),
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_of(&self, key: &[u8]) -> Option<Began> {
        match fork::is_child() {
            true => None,
            false => self.slot.begin(key),
        }
    }

    /// Begins an operation without a key, or with several keys that are taken one by one.
    #[inline]
    pub(crate) fn begin_always(&self) -> Option<Began> {
        match self.slot.is_on() && !fork::is_child() {
            true => self.slot.begin_always(),
            false => None,
        }
    }

    /// Records a lookup.
    #[cold]
    pub(crate) fn got<V: Deref<Target = [u8]>>(
        &self,
        began: Began,
        mut call: Call<'_>,
        result: &Result<Option<V>>,
    ) {
        call.outcome = match result {
            Err(error) => failed(error),
            Ok(None) => Outcome::Absent,
            Ok(Some(value)) => Outcome::Present {
                len: Some(value.len() as u64),
                hash: began.wants_hash().then(|| value_hash(value)),
            },
        };
        self.slot.end(began, &call);
    }

    /// Records a question whether a key exists.
    #[cold]
    pub(crate) fn asked(&self, began: Began, mut call: Call<'_>, result: &Result<bool>) {
        call.outcome = match result {
            Err(error) => failed(error),
            Ok(false) => Outcome::Absent,
            Ok(true) => Outcome::Present {
                len: None,
                hash: None,
            },
        };
        self.slot.end(began, &call);
    }

    /// Records a write, or another call that succeeds or fails.
    #[cold]
    pub(crate) fn wrote<T>(&self, began: Began, mut call: Call<'_>, result: &Result<T>) {
        call.outcome = outcome(result);
        self.slot.end(began, &call);
    }

    /// Records a lookup of several keys, with the result for each key.
    #[cold]
    pub(crate) fn got_all<'k, V: Deref<Target = [u8]>>(
        &self,
        began: Began,
        keys: impl Iterator<Item = (u32, &'k [u8])>,
        older_moment: bool,
        result: &Result<Vec<Option<V>>>,
    ) {
        let group = self.slot.new_group();
        for (at, (keyspace, key)) in keys.enumerate() {
            if !self.slot.takes(key) {
                continue;
            }
            let mut call = Call::new(Kind::MultiGet, keyspace, key);
            call.group = group;
            call.older_moment = older_moment;
            let found = match result {
                Ok(found) => Ok(found.get(at).and_then(Option::as_deref)),
                Err(error) => Err(error.clone()),
            };
            self.got(began, call, &found);
        }
    }

    /// Records a batch: the parts that the trace takes, each with the outcome of the commit, and
    /// the commit itself.
    #[cold]
    pub(crate) fn wrote_batch(
        &self,
        began: Began,
        (group, parts): (u64, &mut [Operation]),
        count: usize,
        result: &Result<()>,
    ) {
        if parts.is_empty() {
            return;
        }
        for part in parts {
            part.outcome = outcome(result);
            self.slot.part(began, &part.as_call());
        }
        let mut call = Call::new(Kind::BatchCommit, 0, &[]);
        call.group = group;
        call.count = Some(count as u64);
        self.wrote(began, call, result);
    }

    /// Runs a call that belongs to no single key, and records it by its name.
    #[inline]
    pub(crate) fn other<T>(&self, name: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let began = self.begin_always();
        let result = run();
        if let Some(began) = began {
            self.wrote(began, Call::new(Kind::Other, 0, name.as_bytes()), &result);
        }
        result
    }
}

/// The outcome in a trace of a call that looks nothing up.
pub(crate) fn outcome<T>(result: &Result<T>) -> Outcome {
    match result {
        Ok(_) => Outcome::Done,
        Err(error) => failed(error),
    }
}

fn failed(error: &Error) -> Outcome {
    Outcome::Failed(match error.kind() {
        ErrorKind::Io => Failure::Io,
        ErrorKind::Corruption => Failure::Corruption,
        ErrorKind::NoSpace => Failure::NoSpace,
        ErrorKind::Conflict => Failure::Conflict,
        ErrorKind::LockTimeout => Failure::LockTimeout,
        ErrorKind::Deadlock => Failure::Deadlock,
        ErrorKind::KeyTooLarge | ErrorKind::ValueTooLarge | ErrorKind::BatchTooLarge => {
            Failure::TooLarge
        }
        ErrorKind::ReadOnly | ErrorKind::Latched => Failure::ReadOnly,
        ErrorKind::Closed | ErrorKind::KeyspaceDropped => Failure::Closed,
        ErrorKind::InvalidArgument => Failure::InvalidArgument,
        _ => Failure::Other,
    })
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;
