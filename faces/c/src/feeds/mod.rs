//! What tells a program of changes.

mod change;
mod changes;
mod watch;
