//! `Keyspace`: a mutable mapping that lasts.

use super::batch::Batch;
use super::reader::{Default, Reader, given, missing, pairs_of};
use super::records::not_pickled;
use super::snapshot::Snapshot;
use super::source::{At, Place};
use super::transaction::Transaction;
use super::writes::{Range, commit, durability_of, ttl_of};
use crate::border::bytes::Input;
use crate::border::call;
use crate::border::error::{Failure, OrRaise};
use crate::border::held::Held;
use crate::border::held::detach;
use crate::opening::Opening;
use evendb::{Durability, Transaction as Tx, Value};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// A mutable mapping from bytes to bytes that lasts: a keyspace of a database. `len` counts.
#[pyclass(frozen, subclass, extends = Reader, mapping, module = "evendb", name = "Keyspace")]
pub(crate) struct Keyspace {
    pub(crate) place: Arc<Place>,
}

impl Keyspace {
    pub(crate) fn parts(
        opening: &Arc<Opening>,
        keyspace: evendb::Keyspace,
    ) -> PyClassInitializer<Keyspace> {
        let place = Place::new(opening, keyspace, At::Now);
        let reader = Reader {
            place: place.clone(),
        };
        PyClassInitializer::from(reader).add_subclass(Keyspace { place })
    }

    pub(crate) fn opening(&self) -> &Arc<Opening> {
        &self.place.opening
    }

    /// A change that depends on what is there, tried until nothing comes between.
    fn transact<R: Send>(
        &self,
        py: Python<'_>,
        body: impl FnMut(&mut Tx) -> evendb::Result<R> + Send,
    ) -> PyResult<R> {
        let here = self.place.enter(py)?;
        detach(py, || here.db().transact(body)).or_raise(py)
    }

    /// The value that was taken out.
    fn taken_out(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<Value>> {
        let here = self.place.enter(py)?;
        self.transact(py, |transaction| {
            let found = transaction.get(&here, key)?;
            if found.is_some() {
                transaction.delete(&here, key)?;
            }
            Ok(found)
        })
    }
}

#[pymethods]
impl Keyspace {
    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (key, value) = (Input::of(key, "key")?, Input::of(value, "value")?);
        let here = self.place.enter(py)?;
        detach(py, || here.put(&*key, &*value)).or_raise(py)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = Input::of(key, "key")?;
        match self.taken_out(py, &bytes)? {
            Some(_) => Ok(()),
            None => Err(missing(key)),
        }
    }

    /// Sets the value of `key`; for `ttl` seconds if that is given. `durability` ("process" or
    /// "sync") raises what this write survives above the database's own level.
    ///
    /// >>> db.put(b"session", b"ada", ttl=1800)
    /// >>> db.put(b"paid", b"1", durability="sync")
    #[pyo3(signature = (key, value, *, ttl=None, durability=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<f64>,
        durability: Option<&str>,
    ) -> PyResult<()> {
        let (key, value) = (Input::of(key, "key")?, Input::of(value, "value")?);
        let (ttl, durability) = (ttl_of(ttl)?, durability_of(py, durability)?);
        let here = self.place.enter(py)?;
        let handle: &evendb::Keyspace = &here;
        match (ttl, durability) {
            (None, None) => detach(py, || handle.put(&*key, &*value)).or_raise(py),
            (Some(ttl), None) => {
                detach(py, || handle.put_with_ttl(&*key, &*value, ttl)).or_raise(py)
            }
            (ttl, durability) => {
                let mut batch = here.db().batch();
                match ttl {
                    Some(ttl) => batch.put_with_ttl(handle, &*key, &*value, ttl),
                    None => batch.put(handle, &*key, &*value),
                };
                commit(py, batch, durability)
            }
        }
    }

    /// Removes `key`, if it is there; `del db[key]` raises KeyError if it is not.
    #[pyo3(signature = (key, *, durability=None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        durability: Option<&str>,
    ) -> PyResult<()> {
        let key = Input::of(key, "key")?;
        let here = self.place.enter(py)?;
        match durability_of(py, durability)? {
            None => detach(py, || here.delete(&*key)).or_raise(py),
            durability => {
                let mut batch = here.db().batch();
                batch.delete(&here, &*key);
                commit(py, batch, durability)
            }
        }
    }

    /// Removes the keys that begin with `prefix`: one write, however many they are.
    ///
    /// >>> db.update({b"tmp/1": b"", b"tmp/2": b"", b"kept": b""})
    /// >>> db.delete_prefix(b"tmp/")
    /// >>> list(db)
    /// [b'kept']
    fn delete_prefix(&self, py: Python<'_>, prefix: &Bound<'_, PyAny>) -> PyResult<()> {
        let range = Range::of_prefix(prefix)?;
        let here = self.place.enter(py)?;
        detach(py, || here.delete_range::<&[u8]>(range.bounds())).or_raise(py)
    }

    /// Removes the keys from `start` to below `stop`: one write, however many they are. Without
    /// `start` it begins at the first key, without `stop` it goes to the last.
    #[pyo3(signature = (start=None, stop=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let range = Range::of(start, stop)?;
        let here = self.place.enter(py)?;
        detach(py, || here.delete_range::<&[u8]>(range.bounds())).or_raise(py)
    }

    /// Removes everything: one write.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let here = self.place.enter(py)?;
        detach(py, || here.delete_range::<&[u8]>(..)).or_raise(py)
    }

    /// Merges `operand` into the value of `key` by the keyspace's merge operator. Nothing is read.
    ///
    /// >>> hits = db.keyspace("hits", merge="add-u64")
    /// >>> for page in [b"/", b"/about", b"/"]:
    /// ...     hits.merge(page, (1).to_bytes(8, "little"))
    /// >>> int.from_bytes(hits[b"/"], "little")
    /// 2
    fn merge(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        operand: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (key, operand) = (Input::of(key, "key")?, Input::of(operand, "operand")?);
        let here = self.place.enter(py)?;
        detach(py, || here.merge(&*key, &*operand)).or_raise(py)
    }

    /// Sets the value of `key` if it has none; returns whether it did. Of several callers at once
    /// one succeeds.
    ///
    /// >>> db.add(b"leader", b"a"), db.add(b"leader", b"b"), db[b"leader"]
    /// (True, False, b'a')
    fn add(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let (key, value) = (Input::of(key, "key")?, Input::of(value, "value")?);
        let here = self.place.enter(py)?;
        let swap = || here.compare_and_swap(&*key, None, Some(&*value));
        detach(py, swap).or_raise(py).map(|done| done.is_ok())
    }

    /// Sets the value of `key` to `new` if it is `expected`; returns whether it did. None stands
    /// for no value.
    fn compare_and_swap(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        expected: Option<&Bound<'_, PyAny>>,
        new: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let key = Input::of(key, "key")?;
        let expected = Input::of_optional(expected, "expected")?;
        let new = Input::of_optional(new, "new")?;
        let here = self.place.enter(py)?;
        let swap = || {
            let (expected, new) = (expected.as_deref(), new.as_deref());
            here.compare_and_swap(&*key, expected, new)
        };
        detach(py, swap).or_raise(py).map(|done| done.is_ok())
    }

    /// The value of `key`, which is set to `default` if there is none: all callers get the value
    /// that is stored.
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
        let here = self.place.enter(py)?;
        let swap = || here.compare_and_swap(&*bytes, None, Some(&*value));
        match detach(py, swap).or_raise(py)? {
            Ok(()) => Ok(PyBytes::new(py, &value).into_any()),
            Err(found) => Ok(given(py, found, None)),
        }
    }

    /// The value of `key`, which is removed; `default`, or KeyError, if there is none. Of several
    /// callers at once one gets the value.
    #[pyo3(signature = (key, /, default=Default(None)))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Default<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = self.taken_out(py, &Input::of(key, "key")?)?;
        match (found, default.0) {
            (None, None) => Err(missing(key)),
            (found, default) => Ok(given(py, found, default)),
        }
    }

    /// The first record (or the last one), which is removed. KeyError if there is none. Of several
    /// callers at once each gets another record: a queue.
    #[pyo3(signature = (last=false, *, prefix=None))]
    fn popitem<'py>(
        &self,
        py: Python<'py>,
        last: bool,
        prefix: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let prefix = Input::of_optional(prefix, "prefix")?;
        let prefix = prefix.as_deref().unwrap_or_default();
        let here = self.place.enter(py)?;
        let pop = || match last {
            false => here.pop_first_prefix(prefix),
            true => here.pop_last_prefix(prefix),
        };
        match detach(py, pop).or_raise(py)? {
            Some((key, value)) => {
                PyTuple::new(py, [PyBytes::new(py, &key), PyBytes::new(py, &value)])
            }
            None => Err(PyKeyError::new_err("popitem(): there is no record")),
        }
    }

    /// Sets many values, of a mapping or of pairs, as one batch: all of them or none.
    #[pyo3(signature = (other=None, /, *, durability=None))]
    fn update(
        &self,
        py: Python<'_>,
        other: Option<&Bound<'_, PyAny>>,
        durability: Option<&str>,
    ) -> PyResult<()> {
        let durability = durability_of(py, durability)?;
        let mut batch = Held::new(self.place.enter(py)?.db().batch());
        pairs_of(other, |key, value| {
            let (key, value) = (Input::of(&key, "key")?, Input::of(&value, "value")?);
            let here = self.place.enter(py)?;
            batch.put(&here, &*key, &*value);
            Ok(())
        })?;
        let _here = self.place.enter(py)?;
        commit(py, batch.into_inner(), durability)
    }

    fn __ior__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        self.update(py, Some(other), None)
    }

    /// A batch of writes, into this keyspace if they name no other.
    #[pyo3(signature = (*, durability=None))]
    fn batch(&self, py: Python<'_>, durability: Option<&str>) -> PyResult<Batch> {
        let durability = durability_of(py, durability)?;
        Ok(Batch::new(&self.place.enter(py)?, &self.place, durability))
    }

    /// A transaction, over this keyspace if a call names no other.
    #[pyo3(signature = (*, durability=None))]
    fn transaction<'py>(
        &self,
        py: Python<'py>,
        durability: Option<&str>,
    ) -> PyResult<Bound<'py, Transaction>> {
        let how = (durability_of(py, durability)?, false);
        let keyspace = self.place.enter(py)?.clone();
        Transaction::begin(py, self.opening(), keyspace, how)
    }

    /// Runs `function` with a transaction, and commits it; after a conflict it does so again, up to
    /// `retries` times, with random pauses. From the third time on, keys are locked when they are
    /// read, so that transactions over the same keys take turns. `function` does nothing except
    /// read and write through its argument. An exception of its own ends the transaction.
    ///
    /// >>> db[b"n"] = b"1"
    /// >>> def add_one(tx):
    /// ...     tx[b"n"] = b"%d" % (int(tx[b"n"]) + 1)
    /// ...     return tx[b"n"]
    /// >>> db.transact(add_one)
    /// b'2'
    #[pyo3(name = "transact", signature = (function, *, retries=64, durability=None))]
    fn transact_of_python<'py>(
        &self,
        py: Python<'py>,
        function: &Bound<'py, PyAny>,
        retries: u32,
        durability: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let durability: Option<Durability> = durability_of(py, durability)?;
        let mut attempt = 0;
        loop {
            let how = (durability, attempt >= 2);
            let keyspace = self.place.enter(py)?.clone();
            let transaction = Transaction::begin(py, self.opening(), keyspace, how)?;
            let done = call::call(function, (&transaction,)).and_then(|answer| {
                if answer.hasattr("__await__")? {
                    let message = "transact takes a plain function, and not an async one";
                    return Err(PyTypeError::new_err(message));
                }
                match transaction.get().running.slot.is_used() {
                    true => Ok(answer),
                    false => transaction.get().commit(py).map(|()| answer),
                }
            });
            transaction.get().rollback(py);
            match done {
                Err(error) if Failure::Conflict.is_class_of(py, &error) && attempt < retries => {}
                done => return done,
            }
            attempt += 1;
            py.check_signals()?;
            let most = 50_u64 << attempt.min(8);
            let clock = UNIX_EPOCH.elapsed().unwrap_or_default();
            let random = u64::from(clock.subsec_nanos()) / 100;
            let pause = Duration::from_micros(most / 2 + random % most);
            detach(py, || std::thread::sleep(pause));
        }
    }

    /// The database as it is now, as a mapping that is read; over this keyspace if a call names no
    /// other.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Snapshot>> {
        let keyspace = self.place.enter(py)?.clone();
        Snapshot::begin(py, self.opening(), keyspace)
    }

    fn __repr__(&self) -> String {
        let (name, path) = (self.place.name(), &self.opening().path);
        format!("<evendb.Keyspace {name:?} of {path:?}>")
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("a keyspace"))
    }
}
