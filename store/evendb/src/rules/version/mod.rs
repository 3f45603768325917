//! The order of writes: the global version and its pending operations ([`clock`]), registered
//! snapshots and the old versions that may be dropped ([`horizon`]), and the words that show
//! batches ([`stamp`]).

pub(crate) mod clock;
pub(crate) mod stamp;

pub(crate) use evendb_base::horizon;
