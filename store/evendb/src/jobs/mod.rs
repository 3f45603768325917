//! What runs beside the calls: checkpoints, rewrites, upkeep, and the figures.

pub(crate) mod checkpoint;
pub(crate) mod compact;
pub(crate) mod making_room;
pub(crate) mod observe;
pub(crate) mod rebalance;
pub(crate) mod worker;
