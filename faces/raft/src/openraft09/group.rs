//! Commands of many clients as one entry.
//!
//! openraft 0.9 appends one entry after the other on a leader, each with a sync, however many
//! clients wait. So commands that come while an entry is on its way are kept, and are the next
//! entry together.
//!
//! ```text
//! client --write--> queue --nobody proposes--> a task: takes what is there, as one entry
//! client --write--> queue                           |          ^
//! client --write--> queue                           '- committed, applied: answers each client
//! ```
//! [`Group`] is what an entry and its answer are; [`Grouped`] makes a machine of commands one
//! of groups; [`Proposer`] is what clients call.
//!
//! Invariants: at most one entry of a proposer is on its way, so commands are applied in the order
//! of their calls; while the queue has commands, a task is there that takes them. A lone client's
//! command goes at once, as an entry of its own: nothing waits for a time.
//!
//! Thread safety: any thread. Not here: what commands mean; finding the leader.

use super::{Machine, Types};
use crate::state::effects::Effects;
use openraft::error::{ClientWriteError, Fatal, RaftError};
use openraft::impls::OneshotResponder;
use openraft::{AsyncRuntime, LogId, Raft, RaftTypeConfig};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The largest number of commands in an entry.
pub const GROUP_COMMANDS_MAX: usize = 1024;
/// An entry takes no further command when its commands have this many bytes.
pub const GROUP_BYTES: usize = 256 << 10;

/// The commands of an entry, or the answers to them, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group<T>(pub Vec<T>);

/// A machine of groups: each command is applied after the one before it, and sees what it did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Grouped<M>(pub M);

impl<M> Machine for Grouped<M>
where
    M: Machine<Command: Send, Answer: Send>,
{
    type Command = Group<M::Command>;
    type Answer = Group<M::Answer>;

    async fn apply(
        &self,
        group: Group<M::Command>,
        effects: &mut Effects<'_>,
    ) -> evendb::Result<Group<M::Answer>> {
        let mut answers = Vec::with_capacity(group.0.len());
        for command in group.0 {
            answers.push(self.0.apply(command, effects).await?);
        }
        Ok(Group(answers))
    }

    fn answer_to_none(&self) -> Group<M::Answer> {
        Group(Vec::new())
    }
}

type Failure<C> = RaftError<
    <C as RaftTypeConfig>::NodeId,
    ClientWriteError<<C as RaftTypeConfig>::NodeId, <C as RaftTypeConfig>::Node>,
>;

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written<N: openraft::NodeId, A> {
    /// The entry with the command. Commands of one group have the same.
    pub log_id: LogId<N>,
    /// The machine's answer.
    pub answer: A,
}

type Outcome<C, A> = Result<Written<<C as RaftTypeConfig>::NodeId, A>, Failure<C>>;

/// Proposes clients' commands, those that come together as one entry. One for each node; clones
/// are the same one.
///
/// ```no_run
/// use evendb_raft::machine::{Answer, Command, KeyValue};
/// use evendb_raft::openraft09::{Group, Grouped, Proposer, SnapshotFile, open};
/// use evendb_raft::store::Config;
///
/// openraft::declare_raft_types!(
///     pub Types: D = Group<Command>, R = Group<Answer>, SnapshotData = SnapshotFile
/// );
///
/// # async fn run(raft: openraft::Raft<Types>) -> Result<(), Box<dyn std::error::Error>> {
/// let config = Config::new().keyspace("users");
/// let (log, machine) = open::<Types, _>("node", config, Grouped(KeyValue))?;
/// // let raft = openraft::Raft::new(id, openraft_config, network, log, machine).await?;
/// let proposer = Proposer::new(raft);
/// let written = proposer.write(Command::Batch(Vec::new())).await?;
/// assert!(matches!(written.answer, Answer::Done { held: true, .. }));
/// # Ok(())
/// # }
/// ```
pub struct Proposer<C: RaftTypeConfig, T, A> {
    shared: Arc<Shared<C, T, A>>,
}

struct Shared<C: RaftTypeConfig, T, A> {
    raft: Raft<C>,
    queue: Mutex<Queue<C, T, A>>,
}

struct Queue<C: RaftTypeConfig, T, A> {
    waiting: VecDeque<Waiting<C, T, A>>,
    /// Whether a task takes what is waiting.
    is_attended: bool,
}

struct Waiting<C: RaftTypeConfig, T, A> {
    command: T,
    bytes: usize,
    answer: oneshot::Sender<Outcome<C, A>>,
}

/// The task's presence. If it ends before its work, clients that wait are told by the end of their
/// senders.
struct Attending<C: RaftTypeConfig, T, A> {
    shared: Arc<Shared<C, T, A>>,
    is_done: bool,
}

impl<C: RaftTypeConfig, T, A> Drop for Attending<C, T, A> {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let left = {
            let mut queue = self.shared.queue.lock();
            queue.is_attended = false;
            std::mem::take(&mut queue.waiting)
        };
        drop(left);
    }
}

impl<C: RaftTypeConfig, T, A> Clone for Proposer<C, T, A> {
    fn clone(&self) -> Self {
        let shared = self.shared.clone();
        Proposer { shared }
    }
}

impl<C, T, A> Proposer<C, T, A>
where
    C: Types + RaftTypeConfig<D = Group<T>, R = Group<A>, Responder = OneshotResponder<C>>,
    T: Serialize + Send + Sync + 'static,
    A: Send + Sync + 'static,
{
    /// The proposer of this node.
    pub fn new(raft: Raft<C>) -> Self {
        let queue = Mutex::new(Queue {
            waiting: VecDeque::new(),
            is_attended: false,
        });
        let shared = Arc::new(Shared { raft, queue });
        Proposer { shared }
    }

    /// The node's consensus.
    pub fn raft(&self) -> &Raft<C> {
        &self.shared.raft
    }

    /// Writes a command, with those of other clients that come at the same time. When it returns, a
    /// majority has it on disk and it is applied here. If the future is dropped, the command may
    /// happen or not.
    ///
    /// # Errors
    /// Those of `openraft::Raft::client_write`, the same one for all commands of a group; as there,
    /// it may leave open whether they happen. `Fatal::Stopped` also if the runtime ended the task
    /// that proposes.
    pub async fn write(&self, command: T) -> Outcome<C, A> {
        // What cannot be measured cannot be stored, which the append will say.
        let bytes = postcard::experimental::serialized_size(&command).unwrap_or(GROUP_BYTES);
        let (answer, answered) = oneshot::channel();
        let is_attended = {
            let mut queue = self.shared.queue.lock();
            queue.waiting.push_back(Waiting {
                command,
                bytes,
                answer,
            });
            std::mem::replace(&mut queue.is_attended, true)
        };
        if !is_attended {
            let attending = Attending {
                shared: self.shared.clone(),
                is_done: false,
            };
            // A task of its own: the client may go, and others wait for the same entry.
            drop(C::AsyncRuntime::spawn(attending.run()));
        }
        match answered.await {
            Ok(outcome) => outcome,
            Err(_) => Err(RaftError::Fatal(Fatal::Stopped)),
        }
    }
}

impl<C, T, A> Attending<C, T, A>
where
    C: Types + RaftTypeConfig<D = Group<T>, R = Group<A>, Responder = OneshotResponder<C>>,
    T: Send + Sync + 'static,
    A: Send + Sync + 'static,
{
    async fn run(mut self) {
        while let Some((commands, answers)) = self.next_group() {
            let written = self.shared.raft.client_write(Group(commands)).await;
            match written {
                Ok(written) => {
                    for (answer, to) in written.data.0.into_iter().zip(answers) {
                        let log_id = written.log_id.clone();
                        // The client may be gone.
                        let _ = to.send(Ok(Written { log_id, answer }));
                    }
                }
                Err(error) => {
                    for to in answers {
                        let _ = to.send(Err(error.clone()));
                    }
                }
            }
        }
    }

    /// The next entry's commands, and to whom their answers go. `None` if nobody waits: then the
    /// task is not there any more.
    #[expect(clippy::type_complexity, reason = "two lists of the same length")]
    fn next_group(&mut self) -> Option<(Vec<T>, Vec<oneshot::Sender<Outcome<C, A>>>)> {
        let mut queue = self.shared.queue.lock();
        let (mut commands, mut answers, mut taken) = (Vec::new(), Vec::new(), 0);
        while taken < GROUP_BYTES
            && commands.len() < GROUP_COMMANDS_MAX
            && let Some(next) = queue.waiting.pop_front()
        {
            taken += next.bytes;
            commands.push(next.command);
            answers.push(next.answer);
        }
        if commands.is_empty() {
            queue.is_attended = false;
            self.is_done = true;
            return None;
        }
        Some((commands, answers))
    }
}

impl<C: RaftTypeConfig, T, A> std::fmt::Debug for Proposer<C, T, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proposer").finish_non_exhaustive()
    }
}
