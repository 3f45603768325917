//! The process and its threads: what they share, and what the system lets the process have.

#[doc(hidden)]
pub mod container;
#[doc(hidden)]
pub mod fork;
#[doc(hidden)]
pub mod gate;
#[doc(hidden)]
pub mod sync;
#[doc(hidden)]
pub mod wakers;
