//! The ways on which the statistics leave the process, as named numbers
//! ([`crate::metrics::Figure`]).
//!
//! * [`live`]: the file `STATS`, which the owner of a database keeps up to date and any process may
//!   read while the database is open.
//! * [`export`] (feature `metrics`): the same numbers through the `metrics` facade.
//! * [`observer`]: the state that is kept between two looks.
//!
//! Not here: the counting and the names ([`crate::metrics`]), and the gathering of the numbers
//! ([`crate::observe`]).

#[cfg(feature = "metrics")]
pub(crate) mod export;
pub(crate) mod live;
pub(crate) mod observer;
