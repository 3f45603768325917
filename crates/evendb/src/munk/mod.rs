//! The munk: a chunk's records in RAM.
