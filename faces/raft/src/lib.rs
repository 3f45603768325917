//! Raft storage on EvenDB: the log, the state machine and the snapshots of a node of openraft. The
//! consensus and the network stay openraft's and the application's. docs/raft.md goes from one
//! database to three nodes.
//!
//! ```text
//! openraft09   openraft 0.9's traits         machine   a ready state machine
//!      |                                        |
//!      '------------> store <-------------------'
//!                  /    |    \
//!               log   state   snapshot            no types of openraft
//! ```
//!
//! ```
//! use evendb_raft::machine::{Answer, Command, KeyValue};
//! use evendb_raft::openraft09::SnapshotFile;
//! use evendb_raft::store::Config;
//!
//! openraft::declare_raft_types!(
//!     /// What this application replicates.
//!     pub Types: D = Command, R = Answer, SnapshotData = SnapshotFile
//! );
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! let config = Config::new().keyspace("users");
//! let (log, machine) = evendb_raft::openraft09::open::<Types, _>(dir.path(), config, KeyValue)?;
//! // openraft::Raft::new(id, openraft_config, network, log, machine).await
//! assert_eq!(machine.state().applied_index(), None);
//! # Ok(())
//! # }
//! ```

pub mod log;
pub mod machine;
pub mod openraft09;
pub mod snapshot;
pub mod state;
pub mod store;

pub use evendb::{Error, ErrorKind, Result};

/// The page's program compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/raft.md")]
struct Page;
