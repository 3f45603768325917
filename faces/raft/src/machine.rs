//! A ready state machine: keyspaces, batches, transactions with conditions, and reads.
//!
//! ```text
//! Command::Batch         writes
//! Command::Transaction   conditions -> all hold: `then`, else: `otherwise`; and reads of the
//! result
//! ```
//! A command is one entry of the log, so all of it happens at one moment on every node. Reads of a
//! command see its writes. A command that names a keyspace that nobody declared is answered
//! ([`Answer::UnknownKeyspace`]) and does nothing.
//!
//! Not here: merges and times to live. Operators are code, which may differ between nodes, and
//! nodes have different clocks.

use crate::openraft09::Machine;
use crate::state::effects::{Effects, Write};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// These writes, all of them.
    Batch(Vec<Write>),
    /// Writes that depend on what is there.
    Transaction {
        /// All must hold for `then`.
        conditions: Vec<Condition>,
        /// What happens if they hold.
        then: Vec<Write>,
        /// What happens if one does not.
        otherwise: Vec<Write>,
        /// Keyspaces and keys whose values the answer has, as they are afterwards.
        reads: Vec<(String, Vec<u8>)>,
    },
}

/// A condition on a key's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// The keyspace's name.
    pub keyspace: String,
    /// The key.
    pub key: Vec<u8>,
    /// How its value must be.
    pub compare: Compare,
}

/// How a value must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compare {
    /// There is none.
    Absent,
    /// There is one.
    Present,
    /// It is this one.
    Equals(Vec<u8>),
    /// There is none, or another one.
    Differs(Vec<u8>),
    /// There is one, and it is less than this one, byte by byte.
    Less(Vec<u8>),
    /// There is one, and it is greater than this one, byte by byte.
    Greater(Vec<u8>),
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// An entry of the consensus itself.
    Nothing,
    /// It happened.
    Done {
        /// Whether all conditions held.
        held: bool,
        /// The values that were asked for.
        values: Vec<Option<Vec<u8>>>,
    },
    /// It names this keyspace, which the state does not have. Nothing happened.
    UnknownKeyspace(String),
}

/// The ready state machine, for [`Command`] and [`Answer`].
#[derive(Debug, Clone, Copy, Default)]
pub struct KeyValue;

impl Compare {
    /// Whether a value is as it must be.
    pub fn holds(&self, value: Option<&[u8]>) -> bool {
        match (self, value) {
            (Compare::Absent, value) => value.is_none(),
            (Compare::Present, value) => value.is_some(),
            (Compare::Equals(wanted), value) => value == Some(wanted),
            (Compare::Differs(wanted), value) => value != Some(wanted),
            (Compare::Less(bound), Some(value)) => value < &bound[..],
            (Compare::Greater(bound), Some(value)) => value > &bound[..],
            (Compare::Less(_) | Compare::Greater(_), None) => false,
        }
    }
}

impl Write {
    /// The keyspace that it is for.
    pub fn keyspace(&self) -> &str {
        match self {
            Write::Put { keyspace, .. }
            | Write::Delete { keyspace, .. }
            | Write::DeleteRange { keyspace, .. } => keyspace,
        }
    }
}

impl Command {
    fn keyspaces(&self) -> Vec<&str> {
        match self {
            Command::Batch(writes) => writes.iter().map(Write::keyspace).collect(),
            Command::Transaction {
                conditions,
                then,
                otherwise,
                reads,
            } => {
                let conditions = conditions.iter().map(|condition| &condition.keyspace[..]);
                let writes = then.iter().chain(otherwise).map(Write::keyspace);
                let reads = reads.iter().map(|(keyspace, _)| &keyspace[..]);
                conditions.chain(writes).chain(reads).collect()
            }
        }
    }
}

async fn all_hold(conditions: &[Condition], effects: &Effects<'_>) -> evendb::Result<bool> {
    for condition in conditions {
        let value = effects.get(&condition.keyspace, &condition.key).await?;
        if !condition.compare.holds(value.as_deref()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Does what a command asks for.
///
/// # Errors
/// Those of reads and writes.
pub async fn run(command: Command, effects: &mut Effects<'_>) -> evendb::Result<Answer> {
    let unknown = command
        .keyspaces()
        .into_iter()
        .find(|name| !effects.has_keyspace(name));
    if let Some(unknown) = unknown {
        return Ok(Answer::UnknownKeyspace(unknown.to_owned()));
    }
    let (held, writes, reads) = match command {
        Command::Batch(writes) => (true, writes, Vec::new()),
        Command::Transaction {
            conditions,
            then,
            otherwise,
            reads,
        } => {
            let held = all_hold(&conditions, effects).await?;
            (held, if held { then } else { otherwise }, reads)
        }
    };
    for write in writes {
        effects.write(write)?;
    }
    let mut values = Vec::new();
    for (keyspace, key) in &reads {
        values.push(effects.get(keyspace, key).await?);
    }
    Ok(Answer::Done { held, values })
}

impl Machine for KeyValue {
    type Command = Command;
    type Answer = Answer;

    async fn apply(&self, command: Command, effects: &mut Effects<'_>) -> evendb::Result<Answer> {
        run(command, effects).await
    }

    fn answer_to_none(&self) -> Answer {
        Answer::Nothing
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::Batch(writes) => write!(f, "a batch of {} writes", writes.len()),
            Command::Transaction { conditions, .. } => {
                write!(f, "a transaction with {} conditions", conditions.len())
            }
        }
    }
}
