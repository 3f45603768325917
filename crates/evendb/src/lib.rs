//! EvenDB, an embedded ordered key-value store for keys with spatial locality.

mod cache;
mod checkpoint;
mod chunk;
mod db;
mod error;
mod funk;
mod manifest;
mod metrics;
mod munk;
mod options;
mod read;
mod rebalance;
mod recovery;
mod sync;
mod value;
mod version;
mod worker;
mod write;
