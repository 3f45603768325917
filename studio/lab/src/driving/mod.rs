//! How a store is asked: threads, closed and open loops, how long phases last, the limit of memory
//! around a process, and what the process has used.

pub mod arrivals;
pub mod driver;
pub mod memory_limit;
pub mod phase_length;
pub mod process;
