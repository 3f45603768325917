//! Gets as futures, and gets of what memory knows.
//!
//! Memory is asked in the call itself. So a hit costs what a get costs, copies no key and counts no
//! reference; and a future that waits for a file owns its key.

use super::task::{Answer, Job};
use crate::api::db::Db;
use crate::api::keyspace::Keyspace;
use crate::api::snapshot::Snapshot;
use crate::engine::staff::ThreadRole;
use crate::error::Result;
use crate::expiry::ReadPoint;
use crate::read::get::{self, WouldRead};
use crate::read::moment::Moment;
use crate::sync::Arc;
use crate::value::Value;
use evendb_trace::{Began, Call, Kind as Asked};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The value of a key, or `None`, when it is known: [`Keyspace::get_async`] makes it.
///
/// `Send`, `Unpin` and `'static`. Dropping it before it is ready calls the get off; a read of a
/// file that has begun goes on by itself, and nobody waits for it. Once it has given its result, a
/// further poll gives an error of kind `InvalidArgument`.
#[must_use = "a future does nothing until it is polled"]
pub struct GetFuture(Answer<Option<Value>>);

/// The values of several keys, when they are known: [`Keyspace::multi_get_async`] makes it. As
/// [`GetFuture`] otherwise.
#[must_use = "a future does nothing until it is polled"]
pub struct MultiGetFuture(Answer<Vec<Option<Value>>>);

impl Future for GetFuture {
    type Output = Result<Option<Value>>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context.waker())
    }
}

impl Future for MultiGetFuture {
    type Output = Result<Vec<Option<Value>>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context.waker())
    }
}

/// A keyspace at a moment, or now.
#[derive(Clone, Copy)]
struct At<'a> {
    keyspace: &'a Keyspace,
    moment: Option<&'a Arc<Moment>>,
}

impl<'a> At<'a> {
    fn point(self) -> ReadPoint<'a> {
        match self.moment {
            Some(moment) => moment.point(),
            None => ReadPoint::newest(&self.keyspace.handle.engine.core.clock.expiry),
        }
    }

    #[inline]
    fn try_get(self, key: &[u8]) -> Result<std::result::Result<Option<Value>, WouldRead>> {
        let engine = &self.keyspace.handle.engine;
        get::try_get_at(engine, &self.keyspace.state, key, self.point())
    }

    fn get(self, key: &[u8]) -> Result<Option<Value>> {
        let engine = &self.keyspace.handle.engine;
        get::get_at(engine, &self.keyspace.state, key, self.point())
    }

    fn call<'k>(self, asked: Asked, key: &'k [u8]) -> Call<'k> {
        let mut call = self.keyspace.call(asked, key);
        call.older_moment = self.moment.is_some();
        call
    }

    fn told(self, began: Option<Began>, key: &[u8], found: &Result<Option<Value>>) {
        if let Some(began) = began {
            let recording = self.keyspace.recording();
            recording.got(began, self.call(Asked::Get, key), found);
        }
    }

    /// A get of what memory knows. A trace has it if memory knew.
    fn recorded_try(self, key: &[u8]) -> Result<std::result::Result<Option<Value>, WouldRead>> {
        let began = self.keyspace.recording().begin(key);
        match self.try_get(key) {
            Ok(Ok(value)) => {
                let found = Ok(value);
                self.told(began, key, &found);
                found.map(Ok)
            }
            Ok(Err(would_read)) => Ok(Err(would_read)),
            Err(error) => {
                self.told(began, key, &Err(error.clone()));
                Err(error)
            }
        }
    }

    #[inline]
    fn start(self, key: &[u8]) -> GetFuture {
        let began = self.keyspace.recording().begin(key);
        let found = match self.try_get(key) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(WouldRead)) => return self.ask(key, began),
            Err(error) => Err(error),
        };
        self.told(began, key, &found);
        GetFuture(Answer::Ready(found))
    }

    /// A get that has to read a file.
    #[cold]
    fn ask(self, key: &[u8], began: Option<Began>) -> GetFuture {
        let (keyspace, moment) = (self.keyspace.clone(), self.moment.cloned());
        let key: Box<[u8]> = key.into();
        let read = move || {
            let at = At {
                keyspace: &keyspace,
                moment: moment.as_ref(),
            };
            let found = at.get(&key);
            at.told(began, &key, &found);
            found
        };
        let handle = self.keyspace.handle.clone();
        GetFuture(Answer::Asked(Job::new(handle, ThreadRole::Reader, read)))
    }

    /// Asks memory for all keys; those that it does not know are left for a job.
    fn gather<K: AsRef<[u8]>>(self, keys: &[K]) -> Result<Gathered> {
        let mut gathered = Gathered {
            found: Vec::with_capacity(keys.len()),
            missing: Vec::new(),
        };
        for (place, key) in keys.iter().enumerate() {
            let key = key.as_ref();
            let found = self.try_get(key)?.unwrap_or_else(|WouldRead| {
                gathered.missing.push((place, key.into()));
                None
            });
            gathered.found.push(found);
        }
        Ok(gathered)
    }
}

/// Values that memory knew, and the places and keys of the others.
struct Gathered {
    found: Vec<Option<Value>>,
    missing: Vec<(usize, Box<[u8]>)>,
}

/// What a trace says of a lookup of several keys, once its result is known.
struct MultiRecord {
    began: Began,
    keys: Vec<Box<[u8]>>,
    older_moment: bool,
}

impl MultiRecord {
    fn of<K: AsRef<[u8]>>(
        keyspace: &Keyspace,
        keys: &[K],
        older_moment: bool,
    ) -> Option<MultiRecord> {
        let began = keyspace.recording().begin_always()?;
        let keys = keys.iter().map(|key| key.as_ref().into()).collect();
        Some(MultiRecord {
            began,
            keys,
            older_moment,
        })
    }

    fn tell(self, keyspace: &Keyspace, found: &Result<Vec<Option<Value>>>) {
        let each = self.keys.iter().map(|key| (keyspace.id(), &**key));
        let recording = keyspace.recording();
        recording.got_all(self.began, each, self.older_moment, found);
    }
}

/// Starts a lookup of several keys at a moment.
fn start_all<K: AsRef<[u8]>>(
    keyspace: &Keyspace,
    moment: Result<Arc<Moment>>,
    keys: &[K],
    record: Option<MultiRecord>,
) -> MultiGetFuture {
    let gathered = moment.and_then(|moment| {
        keyspace.state.check_readable_at(moment.version())?;
        let at = At {
            keyspace,
            moment: Some(&moment),
        };
        let gathered = at.gather(keys)?;
        Ok((gathered, moment))
    });
    let found = match gathered {
        Ok((gathered, moment)) if !gathered.missing.is_empty() => {
            return ask_all(keyspace, moment, gathered, record);
        }
        Ok((gathered, _)) => Ok(gathered.found),
        Err(error) => Err(error),
    };
    if let Some(record) = record {
        record.tell(keyspace, &found);
    }
    MultiGetFuture(Answer::Ready(found))
}

/// Reads the keys that memory did not know, as one job.
fn ask_all(
    keyspace: &Keyspace,
    moment: Arc<Moment>,
    gathered: Gathered,
    record: Option<MultiRecord>,
) -> MultiGetFuture {
    let handle = keyspace.handle.clone();
    let keyspace = keyspace.clone();
    let read = move || {
        let at = At {
            keyspace: &keyspace,
            moment: Some(&moment),
        };
        let Gathered { mut found, missing } = gathered;
        let mut read_all = || {
            for (place, key) in &missing {
                found[*place] = at.get(key)?;
            }
            Ok(std::mem::take(&mut found))
        };
        let found = read_all();
        if let Some(record) = record {
            record.tell(&keyspace, &found);
        }
        found
    };
    MultiGetFuture(Answer::Asked(Job::new(handle, ThreadRole::Reader, read)))
}

impl Keyspace {
    /// The value of `key` if memory knows it: newest records, spans and rows in RAM, and absence
    /// where no file could have the key. It reads no file and waits for nothing. `Ok(Err(..))`
    /// means that [`get`](Self::get) would have to read one; nothing is counted or begun then.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// db.put("k", "v")?;
    /// assert_eq!(db.try_get("k")?, Ok(Some(db.get("k")?.unwrap())));
    /// assert_eq!(db.try_get("other")?, Ok(None));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn try_get(
        &self,
        key: impl AsRef<[u8]>,
    ) -> Result<std::result::Result<Option<Value>, WouldRead>> {
        let at = At {
            keyspace: self,
            moment: None,
        };
        at.recorded_try(key.as_ref())
    }

    /// The value of `key`, as a future that holds up no thread.
    ///
    /// Memory is asked in this call: if it knows the value, the future is ready at its first poll,
    /// and nothing was allocated. Otherwise the first poll hands the read to a thread of the
    /// database, and the future gives a value that the key had between this call and the result.
    /// See docs/async.md.
    ///
    /// ```
    /// # use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// db.put("k", "v")?;
    /// let get = pin!(db.get_async("k"));
    /// // An executor does this; in an `async` block it is `db.get_async("k").await?`.
    /// let Poll::Ready(found) = get.poll(&mut Context::from_waker(Waker::noop())) else {
    ///     panic!("memory knows it");
    /// };
    /// assert_eq!(found?.unwrap(), "v");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The future gives the errors of [`get`](Self::get), and `Io` if code of the application (a
    /// merge operator, a key provider) panicked in the read.
    #[inline]
    pub fn get_async(&self, key: impl AsRef<[u8]>) -> GetFuture {
        let at = At {
            keyspace: self,
            moment: None,
        };
        at.start(key.as_ref())
    }

    /// The values of `keys`, in their order, all of the moment of this call, as a future. What
    /// memory does not know is read by one thread of the database, key by key.
    ///
    /// # Errors
    /// As [`get_async`](Self::get_async); the error of one key is the error of the whole call.
    pub fn multi_get_async<K: AsRef<[u8]>>(&self, keys: &[K]) -> MultiGetFuture {
        let record = MultiRecord::of(self, keys, false);
        start_all(self, Moment::now(&self.handle), keys, record)
    }
}

impl Db {
    /// See [`Keyspace::try_get`].
    ///
    /// # Errors
    /// The same errors.
    pub fn try_get(
        &self,
        key: impl AsRef<[u8]>,
    ) -> Result<std::result::Result<Option<Value>, WouldRead>> {
        self.default_keyspace().try_get(key)
    }

    /// See [`Keyspace::get_async`].
    #[inline]
    pub fn get_async(&self, key: impl AsRef<[u8]>) -> GetFuture {
        self.default_keyspace().get_async(key)
    }

    /// See [`Keyspace::multi_get_async`].
    pub fn multi_get_async<K: AsRef<[u8]>>(&self, keys: &[K]) -> MultiGetFuture {
        self.default_keyspace().multi_get_async(keys)
    }
}

impl Snapshot {
    /// The value of `key` at this moment if memory knows it: see [`Keyspace::try_get`].
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn try_get(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<std::result::Result<Option<Value>, WouldRead>> {
        self.check_own(keyspace)?;
        let moment = Some(&self.moment);
        At { keyspace, moment }.recorded_try(key.as_ref())
    }

    /// The value of `key` at this moment, as a future: see [`Keyspace::get_async`].
    pub fn get_async(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> GetFuture {
        let moment = Some(&self.moment);
        match self.check_own(keyspace) {
            Ok(()) => At { keyspace, moment }.start(key.as_ref()),
            Err(error) => GetFuture(Answer::Ready(Err(error))),
        }
    }

    /// The values of `keys` at this moment, in their order, as a future: see
    /// [`Keyspace::multi_get_async`].
    pub fn multi_get_async<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> MultiGetFuture {
        let moment = self.check_own(keyspace).map(|()| self.moment.clone());
        let record = MultiRecord::of(keyspace, keys, true);
        start_all(keyspace, moment, keys, record)
    }
}

impl std::fmt::Debug for GetFuture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GetFuture")
    }
}

impl std::fmt::Debug for MultiGetFuture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MultiGetFuture")
    }
}
