//! How a command comes to a database: opening it, its key of encryption, and what is said of
//! databases of other stores.

pub(crate) mod foreign;
pub(crate) mod key_file;
pub(crate) mod open;
pub(crate) mod store;
