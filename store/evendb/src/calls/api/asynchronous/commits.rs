//! Commits as futures, and `persist`.
//!
//! ```text
//!   Asked --first poll--> written at once -------------------> Happened: waits for the sync
//!      |        '--it would have to wait--> Queued: the writer --^            |
//!      | dropped: nothing happens              | dropped: taken back          | dropped: it stays
//! ```
//! **Order.** It is fixed at the first poll: a commit whose first poll has ended before another's
//! begins is written before that one. So while the writer has anything to do, later commits queue
//! behind that.
//!
//! **Who owns a commit.** Until it happens, the future or the writer's task does, with the reads
//! that are to be checked, and keys that are locked. When it has happened, the log and the deltas
//! have it, and nothing of it depends on the future. What is written counts for admission until it
//! is in tables, whether or not a future waits for it.

use super::task::{Job, polled_again};
use crate::api::batch::{Batch, BatchRecord};
use crate::api::db::Db;
use crate::api::transaction::Transaction;
use crate::engine::handle::Handle;
use crate::engine::staff::ThreadRole;
use crate::error::Result;
use crate::options::Durability;
use crate::recording::transaction::TransactionRecord;
use crate::sync::Arc;
use crate::transaction::Session;
use crate::write::{Awaiting, Outcome, Patience, Pending};
use crate::{fork, worker};
use evendb_trace::{Began, Call, Kind as Asked};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A commit, ready when it is written and has the durability that it asks for:
/// [`Batch::commit_async`] and [`Transaction::commit_async`] make it.
///
/// `Send`, `Unpin` and `'static`. Its place among other commits is fixed at its first poll. Dropped
/// before that, nothing is written. Dropped later, everything is written or nothing, and which of
/// the two is not told: what is written stays, and what still waits for room is called off. Once it
/// has given its result, a further poll gives an error of kind `InvalidArgument`.
#[must_use = "a future does nothing until it is polled"]
pub struct CommitFuture(Stage);

/// Ready when everything acknowledged so far survives power loss: [`Db::persist_async`] makes it.
///
/// `Send`, `Unpin` and `'static`. Dropping it ends the wait alone.
#[must_use = "a future does nothing until it is polled"]
pub struct PersistFuture(PersistStage);

#[expect(
    clippy::large_enum_variant,
    reason = "a commit that needs no wait allocates nothing"
)]
enum Stage {
    Asked(Commit),
    Queued(Job<Happened>),
    Happened(Happened),
    Over,
}

/// A commit that has not happened.
struct Commit {
    handle: Arc<Handle>,
    what: What,
    record: Option<Record>,
}

// Both are here in whole: a commit that needs no wait allocates nothing.
enum What {
    Batch(Batch),
    Transaction(Session, Durability),
}

/// What a trace says of a commit, once its outcome is known.
enum Record {
    Batch(BatchRecord),
    Transaction {
        of: TransactionRecord,
        began: Option<Began>,
        writes: usize,
    },
}

/// A commit that has happened, and waits until it is durable.
struct Happened {
    handle: Arc<Handle>,
    awaiting: Awaiting,
    record: Option<Record>,
}

impl Commit {
    /// Notes when it began, for a trace.
    fn begin(&mut self) {
        match (&self.what, &mut self.record) {
            (What::Batch(batch), record) => *record = batch.record().map(Record::Batch),
            (What::Transaction(..), Some(Record::Transaction { of, began, .. })) => {
                *began = of.begin_commit();
            }
            (What::Transaction(..), _) => {}
        }
    }

    /// Commits, up to the wait for durability. `None` if it would have to wait before that, and
    /// there is no patience: then it can be attempted again.
    fn attempt(&mut self, patience: Patience) -> Option<Result<Happened>> {
        let attempted = match &mut self.what {
            What::Batch(batch) => batch.attempt(patience).map(|outcome| match outcome {
                Outcome::Written(pending) => Some(pending),
                Outcome::WouldWait | Outcome::Refused(_) => None,
            }),
            What::Transaction(session, durability) => session.attempt(*durability, patience),
        };
        let record = match &attempted {
            Ok(None) => return None,
            Ok(Some(_)) | Err(_) => self.record.take(),
        };
        Some(match attempted.transpose()? {
            Ok(pending) => Ok(Happened {
                handle: self.handle.clone(),
                awaiting: pending.awaiting(),
                record,
            }),
            Err(error) => {
                tell(record, &self.handle, &Err(error.clone()));
                Err(error)
            }
        })
    }
}

fn tell(record: Option<Record>, handle: &Handle, committed: &Result<()>) {
    match record {
        None => {}
        Some(Record::Batch(record)) => record.tell(&handle.engine.core.recording, committed),
        Some(Record::Transaction { of, began, writes }) => of.committed(began, writes, committed),
    }
}

impl Happened {
    fn poll(&mut self, waker: &Waker) -> Poll<Result<()>> {
        let polled = self.awaiting.poll(&self.handle.engine, waker);
        if let Poll::Ready(committed) = &polled {
            tell(self.record.take(), &self.handle, committed);
        }
        polled
    }
}

impl Drop for Happened {
    fn drop(&mut self) {
        if fork::is_child() {
            return;
        }
        self.awaiting.forget(&self.handle.engine);
        // It has happened, though nobody has waited for its durability.
        tell(self.record.take(), &self.handle, &Ok(()));
    }
}

impl CommitFuture {
    fn new(handle: Arc<Handle>, what: What, record: Option<Record>) -> CommitFuture {
        CommitFuture(Stage::Asked(Commit {
            handle,
            what,
            record,
        }))
    }

    /// The first poll: fixes the place of the commit.
    fn start(commit: Commit) -> Result<Stage> {
        fork::check()?;
        let handle = commit.handle.clone();
        // It ends behind the commit, so that a transaction's locks go before any waker runs.
        let _inside = handle.engine.core.health.enter();
        let mut commit = commit;
        commit.begin();
        let work = &commit.handle.engine.work;
        let patience = match work.may_have_threads() {
            true => Patience::Never,
            false => Patience::Waits,
        };
        let attempted = match work.pool(ThreadRole::Writer).is_busy() {
            true => None,
            false => commit.attempt(patience),
        };
        if let Some(happened) = attempted {
            return happened.map(Stage::Happened);
        }
        let own = handle.clone();
        let write = move || {
            let happened = commit.attempt(Patience::Waits);
            happened.expect("it has waited")
        };
        Ok(Stage::Queued(Job::new(own, ThreadRole::Writer, write)))
    }
}

impl Future for CommitFuture {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let stage = &mut self.0;
        let waker = context.waker();
        if matches!(stage, Stage::Asked(_))
            && let Stage::Asked(commit) = std::mem::replace(stage, Stage::Over)
        {
            match CommitFuture::start(commit) {
                Ok(started) => *stage = started,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        if let Stage::Queued(job) = stage {
            let polled = job.poll(waker);
            let Poll::Ready(happened) = polled else {
                return Poll::Pending;
            };
            *stage = Stage::Over;
            match happened {
                Ok(happened) => *stage = Stage::Happened(happened),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        let Stage::Happened(happened) = stage else {
            return Poll::Ready(Err(polled_again()));
        };
        let polled = match fork::check() {
            Ok(()) => happened.poll(waker),
            Err(error) => Poll::Ready(Err(error)),
        };
        if polled.is_ready() {
            *stage = Stage::Over;
        }
        polled
    }
}

impl Batch {
    /// Writes everything, or nothing, as a future that holds up no thread. At the first poll the
    /// writes are made, unless they have to wait for room; the future is ready when they have their
    /// durability. At the level [`Process`](Durability::Process) that is at the first poll as a
    /// rule, at the level [`Sync`](Durability::Sync) it is when the sync of the group is done.
    ///
    /// See [`CommitFuture`] for the order of commits, and for what dropping it means.
    ///
    /// ```
    /// # use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
    /// # fn block_on<T>(future: impl Future<Output = T>) -> T {
    /// #     let mut future = pin!(future);
    /// #     loop {
    /// #         if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
    /// #             return done;
    /// #         }
    /// #         std::thread::yield_now();
    /// #     }
    /// # }
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// let mut batch = db.batch();
    /// batch.put(db.default_keyspace(), "a", "1");
    /// // `block_on` stands for an executor; in an `async` block it is `batch.commit_async().await?`.
    /// block_on(batch.commit_async())?;
    /// assert_eq!(db.get("a")?.unwrap(), "1");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The future gives the errors of [`commit`](Self::commit).
    pub fn commit_async(self) -> CommitFuture {
        let handle = self.shared_handle().clone();
        CommitFuture::new(handle, What::Batch(self), None)
    }
}

impl Transaction {
    /// Commits as a future that holds up no thread: see [`Batch::commit_async`]. What was read is
    /// checked when it is written. Keys that [`get_for_update`](Self::get_for_update) has locked
    /// stay locked until then, or until the future is dropped before that.
    ///
    /// # Errors
    /// The future gives the errors of [`commit`](Self::commit).
    pub fn commit_async(self) -> CommitFuture {
        let (session, durability, record) = self.into_parts();
        let (handle, writes) = (session.handle().clone(), session.writes());
        let record = record.map(|of| Record::Transaction {
            of,
            began: None,
            writes,
        });
        CommitFuture::new(handle, What::Transaction(session, durability), record)
    }
}

enum PersistStage {
    Asked(Arc<Handle>),
    Queued(Job<()>),
    Waits(Persisting),
    Over,
}

/// A wait for everything that was written.
struct Persisting {
    handle: Arc<Handle>,
    awaiting: Awaiting,
    began: Option<Began>,
}

fn told(handle: &Handle, began: Option<Began>, result: &Result<()>) {
    if let Some(began) = began {
        let recording = &handle.engine.core.recording;
        recording.wrote(began, Call::new(Asked::Other, 0, b"persist"), result);
    }
}

impl PersistFuture {
    fn start(handle: Arc<Handle>) -> Result<PersistStage> {
        fork::check()?;
        let engine = &handle.engine;
        let began = engine.core.recording.begin_always();
        let checked = engine.core.health.enter_writable().map(drop);
        if checked.is_err() {
            told(&handle, began, &checked);
        }
        checked?;
        let threads = engine.work.may_have_threads();
        if let Some(all) = Pending::all_written(engine).filter(|_| threads) {
            return Ok(PersistStage::Waits(Persisting {
                awaiting: all.awaiting(),
                handle,
                began,
            }));
        }
        let own = handle.clone();
        let persist = move || {
            let engine = &own.engine;
            let inside = engine.core.health.enter_writable();
            let done = inside.and_then(|_inside| worker::persist(engine));
            told(&own, began, &done);
            done
        };
        let job = Job::new(handle, ThreadRole::Writer, persist);
        Ok(PersistStage::Queued(job))
    }
}

impl Drop for Persisting {
    fn drop(&mut self) {
        if !fork::is_child() {
            self.awaiting.forget(&self.handle.engine);
        }
    }
}

impl Future for PersistFuture {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let stage = &mut self.0;
        if let PersistStage::Asked(handle) = stage {
            match PersistFuture::start(handle.clone()) {
                Ok(started) => *stage = started,
                Err(error) => {
                    *stage = PersistStage::Over;
                    return Poll::Ready(Err(error));
                }
            }
        }
        let polled = match (fork::check(), &mut *stage) {
            (Err(error), _) => Poll::Ready(Err(error)),
            (_, PersistStage::Queued(job)) => job.poll(context.waker()),
            (_, PersistStage::Waits(wait)) => {
                let polled = wait.awaiting.poll(&wait.handle.engine, context.waker());
                if let Poll::Ready(result) = &polled {
                    told(&wait.handle, wait.began.take(), result);
                }
                polled
            }
            (_, PersistStage::Asked(_) | PersistStage::Over) => Poll::Ready(Err(polled_again())),
        };
        if polled.is_ready() {
            *stage = PersistStage::Over;
        }
        polled
    }
}

impl Db {
    /// Ready when everything acknowledged before its first poll survives power loss, as a future
    /// that holds up no thread: see [`persist`](Self::persist).
    ///
    /// # Errors
    /// The future gives the errors of [`persist`](Self::persist).
    pub fn persist_async(&self) -> PersistFuture {
        PersistFuture(PersistStage::Asked(self.shared_handle().clone()))
    }
}

impl std::fmt::Debug for CommitFuture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CommitFuture")
    }
}

impl std::fmt::Debug for PersistFuture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PersistFuture")
    }
}
