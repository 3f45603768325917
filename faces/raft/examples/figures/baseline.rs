//! A log and a state on another store, with the same types and the same trick as ours: the log is
//! durable before openraft is told, and the state is never synced, because the log replays it.
//!
//! ```text
//! "e" index, big-endian   an entry         in the log's store
//! "m" name                the vote         in the log's store
//! "u" key                 a record         in the state's store
//! "a"                     the last log id  in the state's store, in the batch of the effects
//! ```
//! What blocks is done in threads for blocking work. There are no snapshots: the measurement builds
//! none, and purges nothing.

use super::Types;
use evendb_raft::machine::{Answer, Command};
use evendb_raft::openraft09::{Group, SnapshotFile};
use evendb_raft::state::effects::Write;
use openraft::storage::{LogFlushed, LogState, RaftLogStorage, RaftStateMachine, Snapshot};
use openraft::{
    AnyError, BasicNode, EntryPayload, LogId, OptionalSend, RaftLogReader, RaftSnapshotBuilder,
    SnapshotMeta, StorageError, StorageIOError, StoredMembership, Vote,
};
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// A key and its value.
pub type Record = (Vec<u8>, Vec<u8>);

/// A store below a baseline.
pub trait Store: Send + Sync + 'static {
    /// Whether records can be put first and synced later, so that openraft may go on meanwhile.
    const SYNCS_APART: bool;

    /// Puts records, together. They can be read on return, and are durable if that is asked for.
    fn put(&self, records: &[Record], is_durable: bool) -> io::Result<()>;

    /// Makes everything durable that was put.
    fn sync(&self) -> io::Result<()>;

    /// A key's value.
    fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>>;

    /// The values from one key up to below another one.
    fn range(&self, from: &[u8], until: &[u8]) -> io::Result<Vec<Vec<u8>>>;

    /// Deletes the keys from one up to below another one, durably.
    fn delete(&self, from: &[u8], until: &[u8]) -> io::Result<()>;

    /// Writes what is due, so that the bytes of an entry are all counted.
    fn settle(&self) -> io::Result<()>;
}

type Outcome<T> = Result<T, StorageError<u64>>;
type Entry = openraft::Entry<Types>;

pub struct Log<S>(pub Arc<S>);

impl<S> Clone for Log<S> {
    fn clone(&self) -> Log<S> {
        Log(self.0.clone())
    }
}

pub struct State<S> {
    store: Arc<S>,
    last: Option<LogId<u64>>,
    membership: StoredMembership<u64, BasicNode>,
}

pub struct NoSnapshots;

fn failed(error: io::Error) -> StorageError<u64> {
    StorageIOError::write(AnyError::new(&error)).into()
}

fn unsupported() -> StorageError<u64> {
    failed(io::Error::other("the baseline has no snapshots"))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await?
}

fn done() -> Answer {
    Answer::Done {
        held: true,
        values: Vec::new(),
    }
}

/// The records that a command puts.
fn puts(command: Command) -> Vec<Record> {
    let Command::Batch(writes) = command else {
        return Vec::new();
    };
    let record = |write| match write {
        Write::Put { key, value, .. } => Some(([&b"u"[..], &key].concat(), value)),
        _ => None,
    };
    writes.into_iter().filter_map(record).collect()
}

fn key_of(index: u64) -> Vec<u8> {
    [&b"e"[..], &index.to_be_bytes()].concat()
}

fn encode<T: serde::Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).expect("is serialized")
}

fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> T {
    postcard::from_bytes(bytes).expect("was written here")
}

impl<S: Store> State<S> {
    pub fn new(store: Arc<S>) -> State<S> {
        State {
            store,
            last: None,
            membership: StoredMembership::default(),
        }
    }
}

impl<S: Store> Log<S> {
    fn entries(&self, from: &[u8], until: &[u8]) -> Outcome<Vec<Entry>> {
        let found = self.0.range(from, until).map_err(failed)?;
        Ok(found.iter().map(|bytes| decode(bytes)).collect())
    }

    async fn delete(&self, from: Vec<u8>, until: Vec<u8>) -> Outcome<()> {
        let store = self.0.clone();
        let deleted = blocking(move || store.delete(&from, &until)).await;
        deleted.map_err(failed)
    }
}

impl<S: Store> RaftLogReader<Types> for Log<S> {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Outcome<Vec<Entry>> {
        let from = match range.start_bound() {
            Bound::Included(start) => key_of(*start),
            Bound::Excluded(start) => key_of(*start + 1),
            Bound::Unbounded => b"e".to_vec(),
        };
        let until = match range.end_bound() {
            Bound::Included(end) => key_of(*end + 1),
            Bound::Excluded(end) => key_of(*end),
            Bound::Unbounded => b"f".to_vec(),
        };
        self.entries(&from, &until)
    }
}

impl<S: Store> RaftLogStorage<Types> for Log<S> {
    type LogReader = Log<S>;

    async fn get_log_state(&mut self) -> Outcome<LogState<Types>> {
        let entries = self.entries(b"e", b"f")?;
        let last_log_id = entries.last().map(|entry| entry.log_id);
        Ok(LogState {
            last_purged_log_id: None,
            last_log_id,
        })
    }

    async fn get_log_reader(&mut self) -> Log<S> {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Outcome<()> {
        let (store, bytes) = (self.0.clone(), encode(vote));
        let saved = blocking(move || store.put(&[(b"mvote".to_vec(), bytes)], true)).await;
        saved.map_err(failed)
    }

    async fn read_vote(&mut self) -> Outcome<Option<Vote<u64>>> {
        let bytes = self.0.get(b"mvote").map_err(failed)?;
        Ok(bytes.map(|bytes| decode(&bytes)))
    }

    /// The entries can be read when this returns.
    async fn append<I>(&mut self, entries: I, callback: LogFlushed<Types>) -> Outcome<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let encoded = |entry: Entry| (key_of(entry.log_id.index), encode(&entry));
        let records: Vec<Record> = entries.into_iter().map(encoded).collect();
        let store = self.0.clone();
        if !S::SYNCS_APART {
            let put = blocking(move || store.put(&records, true)).await;
            put.map_err(failed)?;
            callback.log_io_completed(Ok(()));
            return Ok(());
        }
        store.put(&records, false).map_err(failed)?;
        drop(tokio::task::spawn_blocking(move || {
            callback.log_io_completed(store.sync());
        }));
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId<u64>) -> Outcome<()> {
        self.delete(key_of(log_id.index), b"f".to_vec()).await
    }

    async fn purge(&mut self, log_id: LogId<u64>) -> Outcome<()> {
        self.delete(b"e".to_vec(), key_of(log_id.index + 1)).await
    }
}

impl<S: Store> RaftStateMachine<Types> for State<S> {
    type SnapshotBuilder = NoSnapshots;

    async fn applied_state(
        &mut self,
    ) -> Outcome<(Option<LogId<u64>>, StoredMembership<u64, BasicNode>)> {
        Ok((self.last, self.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Outcome<Vec<Group<Answer>>>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut records = Vec::new();
        let mut answers = Vec::new();
        for entry in entries {
            self.last = Some(entry.log_id);
            match entry.payload {
                EntryPayload::Normal(Group(commands)) => {
                    answers.push(Group(vec![done(); commands.len()]));
                    records.extend(commands.into_iter().flat_map(puts));
                    continue;
                }
                EntryPayload::Membership(membership) => {
                    self.membership = StoredMembership::new(self.last, membership);
                }
                EntryPayload::Blank => {}
            }
            answers.push(Group(Vec::new()));
        }
        records.push((b"a".to_vec(), encode(&self.last)));
        let store = self.store.clone();
        let applied = blocking(move || store.put(&records, false)).await;
        applied.map_err(failed)?;
        Ok(answers)
    }

    async fn get_snapshot_builder(&mut self) -> NoSnapshots {
        NoSnapshots
    }

    async fn begin_receiving_snapshot(&mut self) -> Outcome<Box<SnapshotFile>> {
        Err(unsupported())
    }

    async fn install_snapshot(
        &mut self,
        _: &SnapshotMeta<u64, BasicNode>,
        _: Box<SnapshotFile>,
    ) -> Outcome<()> {
        Err(unsupported())
    }

    async fn get_current_snapshot(&mut self) -> Outcome<Option<Snapshot<Types>>> {
        Ok(None)
    }
}

impl RaftSnapshotBuilder<Types> for NoSnapshots {
    async fn build_snapshot(&mut self) -> Outcome<Snapshot<Types>> {
        Err(unsupported())
    }
}
