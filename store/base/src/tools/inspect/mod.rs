//! The findings of a look inside a closed database, in the words that a command shows, and the
//! looks that do not depend on how records lie.
//!
//! * `directory` - a database's directory, locked against writers. `manifest` - the frames of a
//!   manifest, and what is wrong with them. `table` - a table, examined or dumped. `dump` - items
//!   for the caller of a dump. `item` - one item. `finding` - one thing that is wrong.
//!
//! The engine decides what it looks at. Damage is a finding and not an error.

mod directory;
mod dump;
mod finding;
mod item;
mod manifest;
mod table;
#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod tests;

#[doc(hidden)]
pub use directory::LockedDirectory;
#[doc(hidden)]
pub use dump::{DumpOutput, DumpWords, FramesPart, dump_frames};
pub use finding::{ChunkName, Finding, FindingKind, Progress, Severity};
#[doc(hidden)]
pub use finding::{list, unnamed_file};
pub use item::{DumpItem, DumpOptions, DumpValue};
#[doc(hidden)]
pub use manifest::{ManifestPart, survey_manifest};
#[doc(hidden)]
pub use table::{TableLook, dump_table, lost_keys, with_meta, wrong_length};
