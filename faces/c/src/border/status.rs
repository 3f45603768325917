//! The statuses and their numbers, which never change. `include/evendb.h` has the same list.

use evendb::ErrorKind;
use std::ffi::CStr;

/// `evendb_status`.
pub type Status = i32;

macro_rules! statuses {
    ($($name:ident = $number:literal $text:literal $(, $kind:ident)?;)*) => {
        $(pub(crate) const $name: Status = $number;)*

        /// The status of a failure of the engine.
        pub(crate) fn of_kind(kind: ErrorKind) -> Status {
            match kind {
                $($(ErrorKind::$kind => $name,)?)*
                _ => UNKNOWN,
            }
        }

        /// All numbers with their names.
        pub(crate) const ALL: &[(Status, &CStr)] = &[$(($number, $text),)*];
    };
}

statuses! {
    OK = 0 c"EVENDB_OK";
    IO = 1 c"EVENDB_IO", Io;
    NO_SPACE = 2 c"EVENDB_NO_SPACE", NoSpace;
    TOO_MANY_FILES = 3 c"EVENDB_TOO_MANY_FILES", TooManyFiles;
    CORRUPTION = 4 c"EVENDB_CORRUPTION", Corruption;
    UNSUPPORTED = 5 c"EVENDB_UNSUPPORTED", Unsupported;
    KEY_TOO_LARGE = 6 c"EVENDB_KEY_TOO_LARGE", KeyTooLarge;
    VALUE_TOO_LARGE = 7 c"EVENDB_VALUE_TOO_LARGE", ValueTooLarge;
    BATCH_TOO_LARGE = 8 c"EVENDB_BATCH_TOO_LARGE", BatchTooLarge;
    LOCKED = 9 c"EVENDB_LOCKED", Locked;
    READ_ONLY = 10 c"EVENDB_READ_ONLY", ReadOnly;
    NOT_FOUND = 11 c"EVENDB_NOT_FOUND", NotFound;
    ALREADY_EXISTS = 12 c"EVENDB_ALREADY_EXISTS", AlreadyExists;
    CLOSED = 13 c"EVENDB_CLOSED", Closed;
    LATCHED = 14 c"EVENDB_LATCHED", Latched;
    KEYSPACE_DROPPED = 15 c"EVENDB_KEYSPACE_DROPPED", KeyspaceDropped;
    MERGE_FAILED = 16 c"EVENDB_MERGE_FAILED", MergeFailed;
    CONFLICT = 17 c"EVENDB_CONFLICT", Conflict;
    LOCK_TIMEOUT = 18 c"EVENDB_LOCK_TIMEOUT", LockTimeout;
    DEADLOCK = 19 c"EVENDB_DEADLOCK", Deadlock;
    CHANGES_GONE = 20 c"EVENDB_CHANGES_GONE", ChangesGone;
    CHANGES_LOST = 21 c"EVENDB_CHANGES_LOST", ChangesLost;
    UNSORTED = 22 c"EVENDB_UNSORTED", Unsorted;
    INVALID_ARGUMENT = 23 c"EVENDB_INVALID_ARGUMENT", InvalidArgument;
    NEEDS_KEY = 24 c"EVENDB_NEEDS_KEY", NeedsKey;
    WRONG_KEY = 25 c"EVENDB_WRONG_KEY", WrongKey;
    NOT_ENCRYPTED = 26 c"EVENDB_NOT_ENCRYPTED", NotEncrypted;
    FORKED = 27 c"EVENDB_FORKED", Forked;
    CANNOT_LINK = 28 c"EVENDB_CANNOT_LINK", CannotLink;
    STALE = 29 c"EVENDB_STALE", Stale;
    PANIC = 100 c"EVENDB_PANIC";
    USED_UP = 101 c"EVENDB_USED_UP";
    BUSY = 102 c"EVENDB_BUSY";
    BUFFER_TOO_SMALL = 103 c"EVENDB_BUFFER_TOO_SMALL";
    CANCELLED = 104 c"EVENDB_CANCELLED";
    UNKNOWN = 999 c"EVENDB_UNKNOWN";
}
