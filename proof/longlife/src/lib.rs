//! Long lives: databases with keyspaces of both layouts, which are opened again and again in one
//! process, by random programs with oracles, under every pair of options. At the end the process
//! and the disk must be as they were.
//!
//! ```text
//!   campaign:  look at the standard database, life 0, look, life 1, look ...
//!              judge: are the looks flat?
//!   life:      one directory, 8 openings, each with the next row of a covering array of options
//!   opening:   phases of 1 to 4 threads; each owns a part of the keys, and knows every answer
//! ```
//! Other tests run programs on simulated files, each in a new world. Here the files are real, and
//! the process lives on. Leaks and everything that piles up show after hours, and so do effects of
//! an earlier opening's options. Kills and power cuts have campaigns of their own.
//!
//! # Rooms
//! Each imports only those that stand after it, which the tests of `proof/house` check.
//! * `campaign` - lives in a row. `judge` - whether samples are flat. `standard` - what is sampled.
//!   `watchdog` - lives that do not end.
//! * `life` - openings of one database. `tally` - what was done. `ends` - how an opening ends.
//!   `room` - a file system that gets full.
//! * `program` - what a thread does. `together` - what all threads share.
//! * `store` - the database. `kept` - databases of earlier formats.
//! * `oracle` - what must be there. `content` - values. `options`, `covering` - rows of options.
//!   `time`, `process` - the clock; what the process takes.
//!
//! Linux only. Full disks need a mount namespace; without one they are left out.

pub mod campaign;
pub mod content;
pub mod covering;
pub mod ends;
pub mod judge;
pub mod kept;
pub mod life;
pub mod options;
pub mod oracle;
pub mod process;
pub mod program;
pub mod room;
pub mod standard;
pub mod store;
pub mod tally;
pub mod time;
pub mod together;
pub mod watchdog;
