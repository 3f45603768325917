//! Order of writes: the global version and its pending operations ([`clock`]), registered
//! snapshots, and which old versions may go ([`horizon`]); the words that show batches ([`stamp`]).

pub(crate) mod clock;
pub(crate) mod horizon;
pub(crate) mod stamp;
