//! Failures that tests cause on purpose, and the trace of operations.

use std::io;
use std::path::{Path, PathBuf};

/// What happens at a crash to changes that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashMode {
    /// The process dies (`kill -9`): everything visible survives, and stays unsynced.
    Process,
    /// Power fails, and only synced changes survive.
    PowerLossNothing,
    /// Power fails after all pending changes had been written back.
    PowerLossAll,
    /// Power fails at a random point of write-back; the number is the seed. It decides separately
    /// for every unsynced sector (the last version, an earlier unsynced one, or the durable one,
    /// which is zeros if there is none), for the length of every file, and for the changes of every
    /// name. Changes that a rename ties together survive up to some point in their order.
    /// changes tied by a rename survive up to some point in their order.
    PowerLossRandom(u64),
}

/// Which operations a [`Fault`] counts and hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultOn {
    /// Everything that changes state and can fail: create, write, sync of file or directory,
    /// rename, hard link, remove, set length, preallocate, punch hole. Not a mapped write.
    Change,
    /// Syncs of file contents only.
    Sync,
    /// Changes that are not syncs: a full disk refuses these at once.
    Room,
    /// Reads of file contents.
    Read,
    /// Open, list, exists and length.
    Lookup,
}

/// What an operation does instead of succeeding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Nothing is done; `EIO`.
    Eio,
    /// Nothing is done; `StorageFull`.
    NoSpace,
    /// A write stores a proper prefix, then `EIO`. Any other operation: as [`FaultKind::Eio`].
    ShortWrite,
    /// A sync fails with `EIO`, and the pending changes count as clean from then on: later syncs
    /// succeed without making them durable, as on Linux. Any other operation: as
    /// [`FaultKind::Eio`].
    SyncFailsThenClean,
    /// The same with `StorageFull`: the file system had not set room aside, or a quota was reached,
    /// which it found when it wrote the changes. Any other operation: as [`FaultKind::NoSpace`].
    SyncFullThenClean,
}

/// A fault to inject: the operation with number `at` fails. If it is sticky, all later ones fail
/// too.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The number of matching operations that succeed first, counted from the injection.
    pub at: u64,
    /// Which operations are counted and fail.
    pub on: FaultOn,
    /// What happens.
    pub kind: FaultKind,
    /// Whether later operations fail too.
    pub sticky: bool,
    /// Counts and hits only operations on paths that contain this text.
    pub path_contains: Option<String>,
}

/// An operation in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimEvent {
    /// Number of the operation, from 0.
    pub op: u64,
    /// What was done.
    pub kind: SimEventKind,
    /// The file or directory; of a rename or hard link, the old name.
    pub path: PathBuf,
    /// The new name of a rename or hard link.
    pub to: Option<PathBuf>,
    /// First byte concerned, where there is one.
    pub offset: u64,
    /// Number of bytes; of [`SimEventKind::SetLen`], the new length.
    pub len: u64,
}

/// The kinds of operation that change state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the operations say it")]
pub enum SimEventKind {
    Create,
    Write,
    MappedWrite,
    SyncData,
    SyncDir,
    Rename,
    HardLink,
    Remove,
    RemoveDir,
    SetLen,
    Preallocate,
    PunchHole,
}

#[derive(Debug)]
struct Armed {
    fault: Fault,
    seen: u64,
}

/// The faults in force.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Armed>);

impl Faults {
    pub(super) fn inject(&mut self, fault: Fault) {
        self.0.push(Armed { fault, seen: 0 });
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Counts an operation that belongs to any of these classes. Returns the fault that it must
    /// suffer.
    pub(super) fn hit(&mut self, classes: &[FaultOn], path: &Path) -> Option<FaultKind> {
        let mut hit = None;
        for Armed { fault, seen } in &mut self.0 {
            let path_matches = fault
                .path_contains
                .as_ref()
                .is_none_or(|part| path.to_string_lossy().contains(part));
            if !classes.contains(&fault.on) || !path_matches {
                continue;
            }
            if *seen == fault.at || (fault.sticky && *seen > fault.at) {
                hit = hit.or(Some(fault.kind));
            }
            *seen += 1;
        }
        hit
    }
}

impl FaultKind {
    pub(super) fn error(self) -> io::Error {
        match self {
            FaultKind::NoSpace | FaultKind::SyncFullThenClean => io::ErrorKind::StorageFull.into(),
            FaultKind::Eio | FaultKind::ShortWrite | FaultKind::SyncFailsThenClean => {
                rustix::io::Errno::IO.into()
            }
        }
    }
}
