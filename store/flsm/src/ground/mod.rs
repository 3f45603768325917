//! What every room above may use.

pub(crate) mod error;
pub(crate) mod figures;
pub(crate) mod files;
pub(crate) mod options;
pub(crate) mod plant;
pub(crate) mod types;
