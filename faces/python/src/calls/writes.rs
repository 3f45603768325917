//! Writes that are gathered: what batches, transactions and `update` have in common.

use crate::border::bytes::Input;
use crate::border::error::{Failure, OrRaise};
use crate::border::held::detach;
use crate::border::span::prefix_end;
use crate::opening::Opening;
use evendb::{Durability, Keyspace};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::ops::Bound as Limit;
use std::sync::Arc;
use std::time::Duration;

/// A level of durability by its name.
pub(crate) fn durability_of(py: Python<'_>, name: Option<&str>) -> PyResult<Option<Durability>> {
    name.map(|name| name.parse().or_raise(py)).transpose()
}

/// A time to live in seconds.
pub(crate) fn ttl_of(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(seconds) = seconds else {
        return Ok(None);
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(ttl) => Ok(Some(ttl)),
        Err(_) => {
            let message = format!("ttl is a number of seconds from 0 on, and not {seconds}");
            Err(PyValueError::new_err(message))
        }
    }
}

/// A keyspace of the same database, given by name (and made if it is missing) or as a handle.
pub(crate) fn keyspace_of(opening: &Arc<Opening>, which: &Bound<'_, PyAny>) -> PyResult<Keyspace> {
    let py = which.py();
    let inside = opening.enter(py)?;
    if let Ok(handle) = which.cast::<super::reader::Reader>() {
        let place = &handle.get().place;
        if !Arc::ptr_eq(opening, &place.opening) {
            let message = "the keyspace is of another database, or of an earlier opening of it";
            return Err(Failure::InvalidArgument.raised(py, message));
        }
        return Ok(place.enter(py)?.clone());
    }
    let Ok(name) = which.extract::<String>() else {
        return Err(PyTypeError::new_err(
            "a keyspace is given by its name, or as a handle",
        ));
    };
    detach(py, || inside.db().keyspace(&name)).or_raise(py)
}

/// The bounds of a range that is deleted.
pub(crate) struct Range {
    low: Vec<u8>,
    high: Option<Vec<u8>>,
}

impl Range {
    pub(crate) fn of(
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Range> {
        let low = Input::of_optional(start, "start")?;
        let high = Input::of_optional(stop, "stop")?;
        Ok(Range {
            low: low.map_or_else(Vec::new, Input::into_vec),
            high: high.map(Input::into_vec),
        })
    }

    pub(crate) fn of_prefix(prefix: &Bound<'_, PyAny>) -> PyResult<Range> {
        let low = Input::of(prefix, "prefix")?.into_vec();
        Ok(Range {
            high: prefix_end(&low),
            low,
        })
    }

    pub(crate) fn bounds(&self) -> (Limit<&[u8]>, Limit<&[u8]>) {
        let high = self.high.as_deref();
        (
            Limit::Included(&self.low),
            high.map_or(Limit::Unbounded, Limit::Excluded),
        )
    }
}

/// A write that is added to a batch or a transaction.
pub(crate) enum Write<'a> {
    Put(Input<'a>, Input<'a>, Option<Duration>),
    Delete(Input<'a>),
    Merge(Input<'a>, Input<'a>),
    DeleteRange(Range),
}

impl Write<'_> {
    pub(crate) fn into_batch(self, batch: &mut evendb::Batch, keyspace: &Keyspace) {
        match &self {
            Write::Put(key, value, None) => batch.put(keyspace, &**key, &**value),
            Write::Put(key, value, Some(ttl)) => {
                batch.put_with_ttl(keyspace, &**key, &**value, *ttl)
            }
            Write::Delete(key) => batch.delete(keyspace, &**key),
            Write::Merge(key, operand) => batch.merge(keyspace, &**key, &**operand),
            Write::DeleteRange(range) => batch.delete_range::<&[u8]>(keyspace, range.bounds()),
        };
    }

    pub(crate) fn into_transaction(
        self,
        transaction: &mut evendb::Transaction,
        keyspace: &Keyspace,
    ) -> evendb::Result<()> {
        match &self {
            Write::Put(key, value, None) => transaction.put(keyspace, &**key, &**value),
            Write::Put(key, value, Some(ttl)) => {
                transaction.put_with_ttl(keyspace, &**key, &**value, *ttl)
            }
            Write::Delete(key) => transaction.delete(keyspace, &**key),
            Write::Merge(key, operand) => transaction.merge(keyspace, &**key, &**operand),
            Write::DeleteRange(range) => {
                transaction.delete_range::<&[u8]>(keyspace, range.bounds())
            }
        }
    }
}

/// Writes a batch, without the interpreter's lock. The caller is inside.
pub(crate) fn commit(
    py: Python<'_>,
    mut batch: evendb::Batch,
    durability: Option<Durability>,
) -> PyResult<()> {
    if let Some(durability) = durability {
        batch.durability(durability);
    }
    detach(py, || batch.commit()).or_raise(py)
}

/// What a second use of a batch says.
pub(crate) const BATCH_USED: (Failure, &str) = (
    Failure::UsedUp,
    "the batch was committed or given up; begin another one",
);
/// What a second use of a transaction says.
pub(crate) const TRANSACTION_USED: (Failure, &str) = (
    Failure::UsedUp,
    "the transaction has ended; begin another one",
);
