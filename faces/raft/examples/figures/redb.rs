//! The baseline: a log and a state on redb, with the same types and the same trick. The log commits
//! each append durably, in a thread for blocking work; the state commits without durability. It has
//! no snapshots: the measurement builds none.

use super::Types;
use evendb_raft::machine::{Answer, Command};
use evendb_raft::openraft09::SnapshotFile;
use evendb_raft::state::effects::Write;
use openraft::storage::{LogFlushed, LogState, RaftLogStorage, RaftStateMachine, Snapshot};
use openraft::{
    AnyError, EntryPayload, LogId, OptionalSend, RaftLogReader, RaftSnapshotBuilder, SnapshotMeta,
    StorageError, StorageIOError, StoredMembership, Vote,
};
use redb::{Database, Durability, ReadableDatabase, TableDefinition};
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::Arc;

const ENTRIES: TableDefinition<u64, &[u8]> = TableDefinition::new("entries");
const MARKS: TableDefinition<&str, &[u8]> = TableDefinition::new("marks");
const USERS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("users");

type Outcome<T> = Result<T, StorageError<u64>>;
type Entry = openraft::Entry<Types>;

#[derive(Clone)]
pub struct Log(Arc<Database>);

pub struct State {
    db: Arc<Database>,
    last: Option<LogId<u64>>,
    membership: StoredMembership<u64, openraft::BasicNode>,
}

pub struct NoSnapshots;

fn failed(error: impl std::error::Error + 'static) -> StorageError<u64> {
    StorageIOError::write(AnyError::new(&error)).into()
}

fn unsupported() -> StorageError<u64> {
    failed(io::Error::other("the baseline has no snapshots"))
}

fn create(path: &Path) -> Result<Arc<Database>, redb::Error> {
    let db = Database::create(path)?;
    let write = db.begin_write()?;
    write.open_table(ENTRIES)?;
    write.open_table(MARKS)?;
    write.open_table(USERS)?;
    write.commit()?;
    Ok(Arc::new(db))
}

/// A log and a state in this directory.
pub fn open(dir: &Path) -> Result<(Log, State), redb::Error> {
    let log = Log(create(&dir.join("log.redb"))?);
    let db = create(&dir.join("state.redb"))?;
    Ok((
        log,
        State {
            db,
            last: None,
            membership: StoredMembership::default(),
        },
    ))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, redb::Error> + Send + 'static,
) -> Outcome<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(failed)?
        .map_err(failed)
}

impl Log {
    async fn set(&self, name: &'static str, bytes: Vec<u8>, durability: Durability) -> Outcome<()> {
        let db = self.0.clone();
        let set = move || {
            let mut write = db.begin_write()?;
            write.set_durability(durability)?;
            write.open_table(MARKS)?.insert(name, &bytes[..])?;
            Ok(write.commit()?)
        };
        blocking(set).await
    }

    async fn delete(&self, range: std::ops::Range<u64>) -> Outcome<()> {
        let db = self.0.clone();
        let delete = move || {
            let write = db.begin_write()?;
            write.open_table(ENTRIES)?.retain_in(range, |_, _| false)?;
            Ok(write.commit()?)
        };
        blocking(delete).await
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, redb::Error> {
        let table = self.0.begin_read()?.open_table(MARKS)?;
        Ok(table.get(name)?.map(|bytes| bytes.value().to_vec()))
    }

    fn entries(&self, range: (Bound<u64>, Bound<u64>)) -> Result<Vec<Entry>, redb::Error> {
        let table = self.0.begin_read()?.open_table(ENTRIES)?;
        let mut entries = Vec::new();
        for record in table.range(range)? {
            entries.push(postcard::from_bytes(record?.1.value()).expect("was written here"));
        }
        Ok(entries)
    }
}

impl RaftLogReader<Types> for Log {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Outcome<Vec<Entry>> {
        let range = (range.start_bound().cloned(), range.end_bound().cloned());
        self.entries(range).map_err(failed)
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = Log;

    async fn get_log_state(&mut self) -> Outcome<LogState<Types>> {
        let entries = self
            .entries((Bound::Unbounded, Bound::Unbounded))
            .map_err(failed)?;
        let last_log_id = entries.last().map(|entry| entry.log_id);
        Ok(LogState {
            last_purged_log_id: None,
            last_log_id,
        })
    }

    async fn get_log_reader(&mut self) -> Log {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Outcome<()> {
        let bytes = postcard::to_stdvec(vote).expect("is a vote");
        self.set("vote", bytes, Durability::Immediate).await
    }

    async fn read_vote(&mut self) -> Outcome<Option<Vote<u64>>> {
        let bytes = self.get("vote").map_err(failed)?;
        Ok(bytes.map(|bytes| postcard::from_bytes(&bytes).expect("was written here")))
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<Types>) -> Outcome<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let encode = |entry: Entry| {
            (
                entry.log_id.index,
                postcard::to_stdvec(&entry).expect("is an entry"),
            )
        };
        let entries: Vec<_> = entries.into_iter().map(encode).collect();
        let db = self.0.clone();
        let append = move || {
            let write = db.begin_write()?;
            {
                let mut table = write.open_table(ENTRIES)?;
                for (index, bytes) in &entries {
                    table.insert(index, &bytes[..])?;
                }
            }
            Ok(write.commit()?)
        };
        // They can be read when this returns; so it waits for the commit.
        blocking(append).await?;
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId<u64>) -> Outcome<()> {
        self.delete(log_id.index..u64::MAX).await
    }

    async fn purge(&mut self, log_id: LogId<u64>) -> Outcome<()> {
        self.delete(0..log_id.index + 1).await
    }
}

impl RaftStateMachine<Types> for State {
    type SnapshotBuilder = NoSnapshots;

    async fn applied_state(
        &mut self,
    ) -> Outcome<(
        Option<LogId<u64>>,
        StoredMembership<u64, openraft::BasicNode>,
    )> {
        Ok((self.last, self.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Outcome<Vec<Answer>>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut writes = Vec::new();
        let mut answers = Vec::new();
        for entry in entries {
            self.last = Some(entry.log_id);
            answers.push(Answer::Done {
                held: true,
                values: Vec::new(),
            });
            match entry.payload {
                EntryPayload::Normal(Command::Batch(batch)) => writes.extend(batch),
                EntryPayload::Membership(membership) => {
                    self.membership = StoredMembership::new(self.last, membership);
                }
                _ => {}
            }
        }
        let (db, last) = (self.db.clone(), self.last);
        let apply = move || {
            let mut write = db.begin_write()?;
            write.set_durability(Durability::None)?;
            {
                let mut users = write.open_table(USERS)?;
                for one in &writes {
                    if let Write::Put { key, value, .. } = one {
                        users.insert(&key[..], &value[..])?;
                    }
                }
                let applied = postcard::to_stdvec(&last).expect("is a log id");
                write.open_table(MARKS)?.insert("applied", &applied[..])?;
            }
            Ok(write.commit()?)
        };
        blocking(apply).await?;
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
        _: &SnapshotMeta<u64, openraft::BasicNode>,
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
