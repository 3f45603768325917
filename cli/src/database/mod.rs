//! How a command comes to a database: the engine that made it, its key of encryption, one trait
//! over both engines, and what is said of databases of other stores.

pub(crate) mod engine;
pub(crate) mod foreign;
pub(crate) mod key_file;
pub(crate) mod open;
pub(crate) mod store;
