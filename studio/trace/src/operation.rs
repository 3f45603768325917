//! One operation of a trace: its kind, its key, and its result.

/// The longest key that a trace takes, in bytes.
pub const KEY_BYTES_MAX: usize = 1 << 17;
/// For a value with more bytes, a trace has only its length, even if values are recorded.
pub const VALUE_BYTES_MAX: usize = 1 << 18;

/// The kind of an operation. The numbers are those of the format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
#[repr(u8)]
pub enum Kind {
    /// A value was looked up.
    Get = 1,
    /// It was asked whether a key has a value.
    Contains = 2,
    /// A value was looked up and its key locked, in a transaction.
    GetForUpdate = 3,
    /// One key of a lookup of several, which share their group.
    MultiGet = 4,
    /// A value was set.
    Put = 5,
    /// A key was removed.
    Delete = 6,
    /// A key was removed that was put once.
    SingleDelete = 7,
    /// All keys from the key to below the end key were removed.
    DeleteRange = 8,
    /// An operand was merged into a value.
    Merge = 9,
    /// `count` consecutive records were read within the range from the key to below the end key (to
    /// the last of all, if there is none). It began at the key; in reverse, below the end key.
    Scan = 10,
    /// The first record of a range was removed and returned (the last, if `reverse`). The key is
    /// the lower end of the range.
    Pop = 11,
    /// A batch was committed. Its writes have the same group. `count` is their number before
    /// sampling.
    BatchCommit = 12,
    /// A transaction began.
    Begin = 13,
    /// A transaction was committed, or its commit refused. `count` is the number of keys and ranges
    /// that it wrote, before sampling.
    Commit = 14,
    /// A transaction ended without a commit.
    Abort = 15,
    /// A record was written by an ingest.
    Ingest = 16,
    /// A call that concerns no single key, like a checkpoint. The key is its name.
    Other = 17,
}

impl Kind {
    /// All of them, by number.
    pub const ALL: [Kind; 17] = [
        Kind::Get,
        Kind::Contains,
        Kind::GetForUpdate,
        Kind::MultiGet,
        Kind::Put,
        Kind::Delete,
        Kind::SingleDelete,
        Kind::DeleteRange,
        Kind::Merge,
        Kind::Scan,
        Kind::Pop,
        Kind::BatchCommit,
        Kind::Begin,
        Kind::Commit,
        Kind::Abort,
        Kind::Ingest,
        Kind::Other,
    ];

    pub(crate) fn of_number(number: u8) -> Option<Kind> {
        let at = usize::from(number).checked_sub(1)?;
        Kind::ALL.get(at).copied()
    }

    /// A short name, for tables and text.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Get => "get",
            Kind::Contains => "contains",
            Kind::GetForUpdate => "get_for_update",
            Kind::MultiGet => "multi_get",
            Kind::Put => "put",
            Kind::Delete => "delete",
            Kind::SingleDelete => "single_delete",
            Kind::DeleteRange => "delete_range",
            Kind::Merge => "merge",
            Kind::Scan => "scan",
            Kind::Pop => "pop",
            Kind::BatchCommit => "batch_commit",
            Kind::Begin => "begin",
            Kind::Commit => "commit",
            Kind::Abort => "abort",
            Kind::Ingest => "ingest",
            Kind::Other => "other",
        }
    }

    /// Whether it reads one key.
    #[must_use]
    pub fn is_point_read(self) -> bool {
        use Kind::{Contains, Get, GetForUpdate, MultiGet};
        matches!(self, Get | Contains | GetForUpdate | MultiGet)
    }

    /// Whether it writes one key.
    #[must_use]
    pub fn is_point_write(self) -> bool {
        use Kind::{Delete, Ingest, Merge, Put, SingleDelete};
        matches!(self, Put | Delete | SingleDelete | Merge | Ingest)
    }
}

/// Why an operation failed. The numbers are those of the format; unknown ones are read as
/// [`Failure::Other`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
#[repr(u8)]
pub enum Failure {
    /// Another failure.
    Other = 0,
    /// The operating system refused.
    Io = 1,
    /// What was stored is damaged.
    Corruption = 2,
    /// The disk or a budget is full.
    NoSpace = 3,
    /// Another write came between.
    Conflict = 4,
    /// A lock could not be had in time.
    LockTimeout = 5,
    /// Waiting for a lock would not have ended.
    Deadlock = 6,
    /// Key, value or batch above a limit.
    TooLarge = 7,
    /// The store takes no writes.
    ReadOnly = 8,
    /// The store, or the keyspace, is gone.
    Closed = 9,
    /// The call was wrong.
    InvalidArgument = 10,
    /// The transaction that wrote it took it back, or ended without a commit.
    RolledBack = 11,
}

impl Failure {
    pub(crate) fn of_number(number: u8) -> Failure {
        use Failure::*;
        let all = [
            Other,
            Io,
            Corruption,
            NoSpace,
            Conflict,
            LockTimeout,
            Deadlock,
            TooLarge,
            ReadOnly,
            Closed,
            InvalidArgument,
            RolledBack,
        ];
        all.get(usize::from(number)).copied().unwrap_or(Other)
    }
}

/// The result of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Outcome {
    /// The trace does not say.
    #[default]
    Unknown,
    /// It was done.
    Done,
    /// The key had no value.
    Absent,
    /// The key had a value, of this length and [hash](crate::value_hash), if they are known.
    Present {
        /// Bytes of the value.
        len: Option<u64>,
        /// Its hash. Only if the length is known too.
        hash: Option<u64>,
    },
    /// It failed.
    Failed(Failure),
}

/// An operation for [`Recorder`](crate::Recorder) or [`Writer`](crate::Writer): an [`Operation`]
/// that borrows its bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call<'a> {
    /// The kind.
    pub kind: Kind,
    /// The number of the keyspace.
    pub keyspace: u32,
    /// The key. For a range, its lower end.
    pub key: &'a [u8],
    /// The end of a range, which is not in it.
    pub end_key: Option<&'a [u8]>,
    /// The group of operations that belong together: those of one batch, transaction or multi-get.
    /// 0: none.
    pub group: u64,
    /// Length of the value that was written.
    pub value_len: Option<u64>,
    /// The value that was written, if values are recorded.
    pub value: Option<&'a [u8]>,
    /// The time to live of the value, in milliseconds.
    pub ttl_millis: Option<u64>,
    /// The result.
    pub outcome: Outcome,
    /// A number: records that a scan gave, parts of a batch or transaction.
    pub count: Option<u64>,
    /// The number of records that a scan was allowed to give.
    pub limit: Option<u64>,
    /// From the end backwards.
    pub reverse: bool,
    /// A scan did not read values.
    pub keys_only: bool,
    /// It read an older moment, by a snapshot or transaction, so its result says nothing of now.
    pub older_moment: bool,
}

impl<'a> Call<'a> {
    /// A call without further facts.
    #[must_use]
    pub fn new(kind: Kind, keyspace: u32, key: &'a [u8]) -> Call<'a> {
        Call {
            kind,
            keyspace,
            key,
            end_key: None,
            group: 0,
            value_len: None,
            value: None,
            ttl_millis: None,
            outcome: Outcome::Unknown,
            count: None,
            limit: None,
            reverse: false,
            keys_only: false,
            older_moment: false,
        }
    }
}

/// One operation of a trace. Fields without an explanation are those of [`Call`].
#[derive(Clone, PartialEq, Debug)]
pub struct Operation {
    /// See [`Call::kind`].
    pub kind: Kind,
    /// See [`Call::keyspace`].
    pub keyspace: u32,
    /// The thread that called, numbered by the recorder.
    pub thread: u32,
    /// Nanoseconds from the beginning of the trace to that of the operation.
    pub start_nanos: u64,
    /// How long it took. For a scan: the time in which records were gathered, without the caller's
    /// time in between.
    pub latency_nanos: Option<u64>,
    /// See [`Call::key`].
    pub key: Vec<u8>,
    /// See [`Call::end_key`].
    pub end_key: Option<Vec<u8>>,
    /// See [`Call::group`].
    pub group: u64,
    /// See [`Call::value_len`].
    pub value_len: Option<u64>,
    /// See [`Call::value`].
    pub value: Option<Vec<u8>>,
    /// See [`Call::ttl_millis`].
    pub ttl_millis: Option<u64>,
    /// See [`Call::outcome`].
    pub outcome: Outcome,
    /// See [`Call::count`].
    pub count: Option<u64>,
    /// See [`Call::limit`].
    pub limit: Option<u64>,
    /// See [`Call::reverse`].
    pub reverse: bool,
    /// See [`Call::keys_only`].
    pub keys_only: bool,
    /// See [`Call::older_moment`].
    pub older_moment: bool,
}

impl Operation {
    /// An operation without further facts, at the beginning of the trace.
    #[must_use]
    pub fn new(kind: Kind, key: impl Into<Vec<u8>>) -> Operation {
        Operation {
            kind,
            keyspace: 0,
            thread: 0,
            start_nanos: 0,
            latency_nanos: None,
            key: key.into(),
            end_key: None,
            group: 0,
            value_len: None,
            value: None,
            ttl_millis: None,
            outcome: Outcome::Unknown,
            count: None,
            limit: None,
            reverse: false,
            keys_only: false,
            older_moment: false,
        }
    }

    /// The operation of a call, at the beginning of the trace.
    #[must_use]
    pub fn of_call(call: &Call<'_>) -> Operation {
        Operation {
            kind: call.kind,
            keyspace: call.keyspace,
            thread: 0,
            start_nanos: 0,
            latency_nanos: None,
            key: call.key.to_vec(),
            end_key: call.end_key.map(<[u8]>::to_vec),
            group: call.group,
            value_len: call.value_len,
            value: call.value.map(<[u8]>::to_vec),
            ttl_millis: call.ttl_millis,
            outcome: call.outcome,
            count: call.count,
            limit: call.limit,
            reverse: call.reverse,
            keys_only: call.keys_only,
            older_moment: call.older_moment,
        }
    }

    /// The call of this operation.
    #[must_use]
    pub fn as_call(&self) -> Call<'_> {
        Call {
            kind: self.kind,
            keyspace: self.keyspace,
            key: &self.key,
            end_key: self.end_key.as_deref(),
            group: self.group,
            value_len: self.value_len,
            value: self.value.as_deref(),
            ttl_millis: self.ttl_millis,
            outcome: self.outcome,
            count: self.count,
            limit: self.limit,
            reverse: self.reverse,
            keys_only: self.keys_only,
            older_moment: self.older_moment,
        }
    }
}
