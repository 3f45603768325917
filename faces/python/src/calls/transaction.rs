//! `Transaction`: reads and writes that take effect as one, or not at all.

use super::reader::{Default, Reader, given, missing, pairs_of};
use super::records::{iterator_over, not_pickled};
use super::source::{At, Kind, Place, Running};
use super::writes::{Range, TRANSACTION_USED, Write, keyspace_of, ttl_of};
use crate::border::bytes::Input;
use crate::border::error::OrRaise;
use crate::border::held::Held;
use crate::border::held::detach;
use crate::border::slot::Slot;
use crate::border::span::Span;
use crate::opening::Opening;
use evendb::{Durability, ErrorKind, Savepoint};
use evendb_base::fork;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The wait for a key's lock, if a call names none.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest wait between two looks for signals.
const ROUND: Duration = Duration::from_millis(50);

/// Reads and writes that take effect as one when the `with` block ends, or by `commit`: as if
/// nothing else had happened between the first read and the last write. `evendb.Conflict` says that
/// another write has changed something that was read; then nothing was written, and it may be tried
/// again (`db.transact` does that). It sees its own writes; nobody else does before the commit.
///
/// >>> db[b"stock"] = b"2"
/// >>> with db.transaction() as tx:
/// ...     tx[b"stock"] = b"%d" % (int(tx[b"stock"]) - 1)
/// >>> db[b"stock"]
/// b'1'
#[pyclass(frozen, extends = Reader, mapping, module = "evendb", name = "Transaction")]
pub(crate) struct Transaction {
    place: Arc<Place>,
    pub(crate) running: Arc<Running>,
    durability: Option<Durability>,
}

/// A state of a transaction to go back to.
#[pyclass(frozen, module = "evendb", name = "Savepoint")]
pub(crate) struct SavepointHandle(Savepoint);

impl Transaction {
    pub(crate) fn begin<'py>(
        py: Python<'py>,
        opening: &Arc<Opening>,
        keyspace: evendb::Keyspace,
        (durability, locks): (Option<Durability>, bool),
    ) -> PyResult<Bound<'py, Transaction>> {
        let inside = opening.enter(py)?;
        let transaction = Held::new(inside.db().transaction().or_raise(py)?);
        let running = Running {
            slot: Slot::new(opening, transaction, TRANSACTION_USED),
            locks,
        };
        Transaction::of(py, opening, Arc::new(running), (keyspace, durability))
    }

    fn of<'py>(
        py: Python<'py>,
        opening: &Arc<Opening>,
        running: Arc<Running>,
        (keyspace, durability): (evendb::Keyspace, Option<Durability>),
    ) -> PyResult<Bound<'py, Transaction>> {
        let place = Place::new(opening, keyspace, At::Transaction(running.clone()));
        let reader = Reader {
            place: place.clone(),
        };
        let made = PyClassInitializer::from(reader);
        Bound::new(
            py,
            made.add_subclass(Transaction {
                place,
                running,
                durability,
            }),
        )
    }

    fn add(&self, py: Python<'_>, write: Write<'_>) -> PyResult<()> {
        let here = self.place.enter(py)?;
        let keyspace: &evendb::Keyspace = &here;
        let slot = &self.running.slot;
        match self.place.opening.calls_python() {
            false => slot.brief(py, |tx| write.into_transaction(tx, keyspace))?,
            true => slot.at_length(py, |tx| write.into_transaction(tx, keyspace))?,
        }
        .or_raise(py)
    }

    fn put_now(
        &self,
        py: Python<'_>,
        (key, value): (&Bound<'_, PyAny>, &Bound<'_, PyAny>),
        ttl: Option<Duration>,
    ) -> PyResult<()> {
        let (key, value) = (Input::of(key, "key")?, Input::of(value, "value")?);
        self.add(py, Write::Put(key, value, ttl))
    }

    /// The transaction, for its commit.
    pub(crate) fn taken(&self, py: Python<'_>) -> PyResult<Held<evendb::Transaction>> {
        let mut transaction = self.running.slot.take(py)?;
        if let Some(durability) = self.durability {
            transaction.durability(durability);
        }
        Ok(transaction)
    }
}

#[pymethods]
impl Transaction {
    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (key, value) = (Input::of(key, "key")?, Input::of(value, "value")?);
        self.add(py, Write::Put(key, value, None))
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = Input::of(key, "key")?;
        match self.place.has(py, &bytes)? {
            true => self.add(py, Write::Delete(bytes)),
            false => Err(missing(key)),
        }
    }

    /// Sets the value of `key`, for `ttl` seconds if that is given.
    #[pyo3(signature = (key, value, *, ttl=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<f64>,
    ) -> PyResult<()> {
        self.put_now(py, (key, value), ttl_of(ttl)?)
    }

    /// Removes `key`, if it is there.
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.add(py, Write::Delete(Input::of(key, "key")?))
    }

    /// Merges `operand` into the value of `key`. It does not count as a read.
    fn merge(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        operand: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (key, operand) = (Input::of(key, "key")?, Input::of(operand, "operand")?);
        self.add(py, Write::Merge(key, operand))
    }

    /// Removes the keys from `start` to below `stop`, as one write.
    #[pyo3(signature = (start=None, stop=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.add(py, Write::DeleteRange(Range::of(start, stop)?))
    }

    /// Removes the keys that begin with `prefix`, as one write.
    fn delete_prefix(&self, py: Python<'_>, prefix: &Bound<'_, PyAny>) -> PyResult<()> {
        self.add(py, Write::DeleteRange(Range::of_prefix(prefix)?))
    }

    /// Sets many values, of a mapping or of pairs.
    #[pyo3(signature = (other=None, /))]
    fn update(&self, py: Python<'_>, other: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        pairs_of(other, |key, value| self.put_now(py, (&key, &value), None))
    }

    /// The value of `key`, which is removed; `default`, or KeyError, if there is none.
    #[pyo3(signature = (key, /, default=Default(None)))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Default<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let bytes = Input::of(key, "key")?;
        let found = self.place.look_up(py, &bytes)?;
        match (&found, &default.0) {
            (Some(_), _) => self.add(py, Write::Delete(bytes))?,
            (None, None) => return Err(missing(key)),
            (None, Some(_)) => {}
        }
        Ok(given(py, found, default.0))
    }

    /// The first record (or the last one), which is removed. KeyError if there is none.
    #[pyo3(signature = (last=false, *, prefix=None))]
    fn popitem<'py>(
        &self,
        py: Python<'py>,
        last: bool,
        prefix: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let span = Span {
            reverse: last,
            limit: Some(1),
            ..Span::of(prefix, None, None)?
        };
        let first = Bound::new(py, iterator_over(py, &self.place, &span, Kind::Items)?)?;
        let Some(record) = first.as_any().try_iter()?.next().transpose()? else {
            return Err(PyKeyError::new_err("popitem(): there is no record"));
        };
        self.add(py, Write::Delete(Input::of(&record.get_item(0)?, "key")?))?;
        Ok(record)
    }

    /// Removes everything: one write.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.add(py, Write::DeleteRange(Range::of(None, None)?))
    }

    fn __ior__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        self.update(py, Some(other))
    }

    /// The value of `key`, which is set to `default` if there is none.
    fn setdefault<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let bytes = Input::of(key, "key")?;
        let value = Input::of(default, "default")?;
        if let Some(found) = self.place.look_up(py, &bytes)? {
            return Ok(given(py, Some(found), None));
        }
        let answer = PyBytes::new(py, &value);
        self.add(py, Write::Put(bytes, value, None))?;
        Ok(answer.into_any())
    }

    /// The newest value of `key`, or `default`, and a lock: until this transaction ends, others
    /// that ask for the key by this method wait, up to `timeout` seconds.
    #[pyo3(signature = (key, default=None, *, timeout=None))]
    fn get_for_update<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let here = self.place.enter(py)?;
        let (key, timeout): (_, Option<Duration>) = (Input::of(key, "key")?, ttl_of(timeout)?);
        let keyspace: &evendb::Keyspace = &here;
        let until = Instant::now().checked_add(timeout.unwrap_or(PATIENCE));
        // In short rounds, between which signals are looked at.
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let round = left.map_or(ROUND, |left| left.min(ROUND));
            let found = self.running.slot.at_length(py, |transaction| {
                transaction.lock_timeout(round);
                transaction.get_for_update(keyspace, &*key)
            })?;
            match found {
                Err(error)
                    if error.kind() == ErrorKind::LockTimeout
                        && left.is_none_or(|left| left > round) =>
                {
                    py.check_signals()?;
                }
                found => return Ok(given(py, found.or_raise(py)?, default)),
            }
        }
    }

    /// A state to go back to by `rollback_to`.
    fn savepoint(&self, py: Python<'_>) -> PyResult<SavepointHandle> {
        let made = self
            .running
            .slot
            .brief(py, |transaction| transaction.savepoint());
        made.map(SavepointHandle)
    }

    /// Takes back the writes since the savepoint, which stays usable.
    fn rollback_to(&self, py: Python<'_>, savepoint: &SavepointHandle) -> PyResult<()> {
        let to = savepoint.0;
        let slot = &self.running.slot;
        slot.brief(py, |transaction| transaction.rollback_to(to))?
            .or_raise(py)
    }

    /// The same transaction over another keyspace, given by name or as a handle.
    fn keyspace<'py>(&self, which: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Transaction>> {
        let opening = &self.place.opening;
        let keyspace = keyspace_of(opening, which)?;
        let of = (keyspace, self.durability);
        Transaction::of(which.py(), opening, self.running.clone(), of)
    }

    /// Writes everything as one, if nothing that was read has changed; otherwise `Conflict`.
    pub(crate) fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let _inside = self.place.opening.enter(py)?;
        let transaction = self.taken(py)?;
        detach(py, || transaction.into_inner().commit()).or_raise(py)
    }

    /// Ends the transaction without writing anything; again, it does nothing.
    pub(crate) fn rollback(&self, py: Python<'_>) {
        if !fork::is_child() && !self.running.slot.is_used() {
            drop(self.running.slot.take(py));
        }
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let transaction = slf.get();
        transaction.place.opening.check(slf.py())?;
        transaction.running.slot.brief(slf.py(), |_| ())?;
        Ok(slf)
    }

    #[pyo3(signature = (kind, error, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _ = (error, traceback);
        match kind.is_none() {
            true if self.running.slot.is_used() => Ok(()),
            true => self.commit(py),
            false => {
                self.rollback(py);
                Ok(())
            }
        }
    }

    fn __repr__(&self) -> String {
        format!("<evendb.Transaction of {:?}>", self.place.name())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("a transaction"))
    }
}
