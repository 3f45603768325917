//! [`StateMachine`]: openraft's state machine over an application's [`Machine`].

use super::{Place, SnapshotFile, Types, any, blocking, encode, from_applied, place, to_applied};
use crate::snapshot::shelf::Kept;
use crate::state::State;
use crate::state::effects::Effects;
use crate::store::Store;
use openraft::storage::{RaftStateMachine, Snapshot};
use openraft::{
    EntryPayload, OptionalSend, RaftSnapshotBuilder, RaftTypeConfig, SnapshotMeta, StorageError,
    StorageIOError, StoredMembership,
};
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

type Outcome<C, T> = Result<T, StorageError<<C as RaftTypeConfig>::NodeId>>;

/// What an application's entries do. Every node applies the same entries in the same order, so the
/// effects may depend on the entry and the state alone: on no clock, no random number, no setting.
pub trait Machine: Send + Sync + 'static {
    /// What a client asks for: the configuration's `D`.
    type Command;
    /// What a client is answered: the configuration's `R`.
    type Answer;

    /// Applies one entry: reads and writes `effects`, and answers. A refusal that the application
    /// knows is an answer. An error stops the node, so that it does not differ from the others.
    ///
    /// # Errors
    /// Those of reads and writes.
    fn apply(
        &self,
        command: Self::Command,
        effects: &mut Effects<'_>,
    ) -> impl Future<Output = evendb::Result<Self::Answer>> + Send;

    /// The answer to entries that are openraft's own: blank ones and memberships.
    fn answer_to_none(&self) -> Self::Answer;
}

/// A machine for the commands and answers of a configuration. Every fitting machine is one.
pub trait MachineOf<C: RaftTypeConfig>: Machine<Command = C::D, Answer = C::R> {}

impl<C, M> MachineOf<C> for M
where
    C: RaftTypeConfig,
    M: Machine<Command = C::D, Answer = C::R>,
{
}

/// The state of a node, for `openraft::Raft::new`.
pub struct StateMachine<C, M> {
    store: Arc<Store>,
    machine: M,
    types: PhantomData<fn() -> C>,
}

/// Writes snapshots of a node's state.
pub struct SnapshotBuilder<C> {
    store: Arc<Store>,
    types: PhantomData<fn() -> C>,
}

impl<C, M> StateMachine<C, M> {
    pub(super) fn new(store: Arc<Store>, machine: M) -> StateMachine<C, M> {
        StateMachine {
            store,
            machine,
            types: PhantomData,
        }
    }

    /// The state, to read: after `Raft::ensure_linearizable`, or as of some earlier moment.
    pub fn state(&self) -> &Arc<State> {
        &self.store.state
    }

    /// The node's storage.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }
}

fn given<C: Types>(kept: &Kept, is_inline: bool) -> evendb::Result<Snapshot<C>> {
    let (last_log_id, last_membership) = from_applied::<C>(&kept.about)?;
    let meta = SnapshotMeta {
        last_log_id,
        last_membership,
        snapshot_id: kept.name.clone(),
    };
    let snapshot = Box::new(SnapshotFile::new(kept.file.clone(), is_inline));
    Ok(Snapshot { meta, snapshot })
}

fn write_failed<C: RaftTypeConfig>(error: &evendb::Error) -> StorageError<C::NodeId> {
    StorageIOError::write_state_machine(any(error)).into()
}

impl<C: Types, M: MachineOf<C>> StateMachine<C, M> {
    async fn apply_one(&self, entry: C::Entry, effects: &mut Effects<'_>) -> evendb::Result<C::R> {
        let (index, id) = place(&entry.log_id)?;
        let (answer, membership) = match entry.payload {
            EntryPayload::Blank => (self.machine.answer_to_none(), None),
            EntryPayload::Normal(request) => (self.machine.apply(request, effects).await?, None),
            EntryPayload::Membership(membership) => {
                let stored = StoredMembership::new(Some(entry.log_id), membership);
                (self.machine.answer_to_none(), Some(encode(&stored)?))
            }
        };
        effects.applied(index, id, membership).await?;
        Ok(answer)
    }

    async fn install(
        &self,
        meta: &SnapshotMeta<C::NodeId, C::Node>,
        file: SnapshotFile,
    ) -> evendb::Result<()> {
        let expected = to_applied::<C>(&meta.last_log_id, &meta.last_membership)?;
        let (store, is_inline) = (self.store.clone(), self.store.is_inline);
        let installed = blocking(is_inline, move || store.install(file.file(), &expected));
        installed.await?;
        self.store.log.settle().await
    }
}

impl<C: Types, M: MachineOf<C>> RaftStateMachine<C> for StateMachine<C, M> {
    type SnapshotBuilder = SnapshotBuilder<C>;

    async fn applied_state(&mut self) -> Outcome<C, Place<C>> {
        let applied = from_applied::<C>(&self.store.state.applied());
        applied.map_err(|error| StorageIOError::read_state_machine(any(&error)).into())
    }

    async fn apply<I>(&mut self, entries: I) -> Outcome<C, Vec<C::R>>
    where
        I: IntoIterator<Item = C::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut answers = Vec::new();
        let mut effects = self.store.state.effects();
        for entry in entries {
            let log_id = entry.log_id.clone();
            let applied = self.apply_one(entry, &mut effects).await;
            answers.push(applied.map_err(|error| StorageIOError::apply(log_id, any(&error)))?);
        }
        effects
            .finish()
            .await
            .map_err(|error| write_failed::<C>(&error))?;
        Ok(answers)
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder<C> {
        SnapshotBuilder {
            store: self.store.clone(),
            types: PhantomData,
        }
    }

    async fn begin_receiving_snapshot(&mut self) -> Outcome<C, Box<SnapshotFile>> {
        let (store, is_inline) = (self.store.clone(), self.store.is_inline);
        let part = blocking(is_inline, move || store.shelf.new_part()).await;
        let part = part.map_err(|error| StorageIOError::write_snapshot(None, any(&error)))?;
        Ok(Box::new(SnapshotFile::new(part, is_inline)))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<C::NodeId, C::Node>,
        snapshot: Box<SnapshotFile>,
    ) -> Outcome<C, ()> {
        let installed = self.install(meta, *snapshot).await;
        let signature = Some(meta.signature());
        installed.map_err(|error| StorageIOError::write_snapshot(signature, any(&error)).into())
    }

    async fn get_current_snapshot(&mut self) -> Outcome<C, Option<Snapshot<C>>> {
        let current = self.store.shelf.current();
        let current = current
            .map(|kept| given(&kept, self.store.is_inline))
            .transpose();
        current.map_err(|error| StorageIOError::read_snapshot(None, any(&error)).into())
    }
}

impl<C: Types> RaftSnapshotBuilder<C> for SnapshotBuilder<C> {
    async fn build_snapshot(&mut self) -> Outcome<C, Snapshot<C>> {
        let (store, is_inline) = (self.store.clone(), self.store.is_inline);
        let built = blocking(is_inline, move || {
            let moment = store.state.moment()?;
            given(&store.write_snapshot(&moment)?, is_inline)
        });
        built
            .await
            .map_err(|error| StorageIOError::write_snapshot(None, any(&error)).into())
    }
}

impl<C, M> std::fmt::Debug for StateMachine<C, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateMachine").finish_non_exhaustive()
    }
}

impl<C> std::fmt::Debug for SnapshotBuilder<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotBuilder").finish_non_exhaustive()
    }
}
