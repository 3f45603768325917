//! The traits of openraft 0.9 (`storage-v2`), on the core of this crate: a thin layer. It turns
//! openraft's types into bytes and indexes, and errors into openraft's.
//!
//! ```text
//! LogStore<C>                   RaftLogStorage, RaftLogReader     -> crate::log
//! StateMachine<C, M: Machine>   RaftStateMachine                  -> crate::state
//! Proposer<C, T, A>             many clients' commands as one entry
//! SnapshotBuilder<C>            RaftSnapshotBuilder               -> crate::snapshot
//! SnapshotFile                  C::SnapshotData                   a file on the shelf
//! ```
//! What is stored is postcard: specified, stable since its 1.0, compact (an entry's frame is some
//! ten bytes), without names of fields. So a type changes as its format allows: variants are added
//! at the end of an enum, fields never; a type that has to change more gets a new variant.
//!
//! Thread safety: as openraft asks for. Not here: networks and consensus, which are openraft's.

mod file;
mod group;
mod log;
mod machine;

pub use file::SnapshotFile;
pub use group::{Group, Grouped, Proposer, Written};
pub use log::LogStore;
pub use machine::{Machine, MachineOf, SnapshotBuilder, StateMachine};

use crate::state::Applied;
use crate::store::{Config, Store};
use evendb::{Error, ErrorKind, Result};
use openraft::{AnyError, LogId, NodeId, RaftTypeConfig, StoredMembership};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::sync::Arc;

/// Opens or creates a node's directory, and gives what `openraft::Raft::new` takes. Blocks.
///
/// # Errors
/// Those of [`Store::open`].
pub fn open<C, M>(
    dir: impl AsRef<Path>,
    config: Config,
    machine: M,
) -> Result<(LogStore<C>, StateMachine<C, M>)>
where
    C: Types,
    M: MachineOf<C>,
{
    let store = Arc::new(Store::open(dir.as_ref(), config)?);
    Ok((
        LogStore::new(store.clone()),
        StateMachine::new(store, machine),
    ))
}

/// The types of an application that this storage takes: openraft's own entries and this crate's
/// files of snapshots. Every fitting configuration has it.
pub trait Types:
    RaftTypeConfig<Entry = openraft::Entry<Self>, SnapshotData = SnapshotFile>
{
}

impl<C> Types for C where C: RaftTypeConfig<Entry = openraft::Entry<C>, SnapshotData = SnapshotFile> {}

fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(|error| {
        Error::new(
            ErrorKind::InvalidArgument,
            format!("cannot be serialized: {error}"),
        )
    })
}

fn decode<T: DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T> {
    let decoded = postcard::take_from_bytes(bytes);
    match decoded {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(unreadable(what, "bytes are left over")),
        Err(error) => Err(unreadable(what, &error.to_string())),
    }
}

fn unreadable(what: &str, why: &str) -> Error {
    let message = format!("{what} is not of the application's types: {why}");
    Error::new(ErrorKind::Corruption, message)
}

fn any(error: &Error) -> AnyError {
    AnyError::new(error)
}

type Membership<C> = StoredMembership<<C as RaftTypeConfig>::NodeId, <C as RaftTypeConfig>::Node>;

/// The last applied log id, and the last membership.
type Place<C> = (Option<LogId<<C as RaftTypeConfig>::NodeId>>, Membership<C>);

/// What the core has of openraft's ids: the index, and all of it as bytes.
fn place<N: NodeId>(id: &LogId<N>) -> Result<(u64, Vec<u8>)> {
    Ok((id.index, encode(id)?))
}

fn to_applied<C: RaftTypeConfig>(
    last: &Option<LogId<C::NodeId>>,
    membership: &Membership<C>,
) -> Result<Applied> {
    let last = last.as_ref().map(place).transpose()?;
    let membership = match membership.log_id() {
        Some(_) => encode(membership)?,
        // None was applied.
        None => Vec::new(),
    };
    Ok(Applied { last, membership })
}

fn from_applied<C: RaftTypeConfig>(applied: &Applied) -> Result<Place<C>> {
    let last = applied.last.as_ref();
    let last = last
        .map(|(_, id)| decode(id, "the applied log id"))
        .transpose()?;
    let membership = match &applied.membership[..] {
        [] => Membership::<C>::default(),
        bytes => decode(bytes, "the membership")?,
    };
    Ok((last, membership))
}

/// Does something that blocks, in a thread that may.
async fn blocking<T: Send + 'static>(
    is_inline: bool,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    if is_inline {
        return work();
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| {
        Err(Error::new(
            ErrorKind::Io,
            format!("a thread for blocking work ended: {error}"),
        ))
    })
}
