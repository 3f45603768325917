//! WiredTiger: a B+ tree in C with a cache of its own, a log, and checkpoints. `wiredtiger_shim.c`
//! links it against the library that is installed when this crate is built.
//!
//! Settings: uncompressed (its default), cache half of the memory (the rest is the page cache's), a
//! checkpoint each 60 seconds or 2 GiB of log, at most 1,000 sessions, the rest are the defaults.
//! By itself it would never make a checkpoint, and so keep all of its log for ever; the two bounds
//! are those of MongoDB. Paying the debt is a checkpoint.
//!
//! | level | setting |
//! |---|---|
//! | sync | `transaction_sync` with method `fsync`: a commit waits for a sync of the log |
//! | process | `transaction_sync` with method `none`: a commit waits until the log is written |
//! | relaxed | no `transaction_sync`: the log is written when its buffer is full or turns old |
//!
//! Each put is a transaction of its own, a batch is one, and a scan reads one snapshot. A write
//! that meets an uncommitted one of the same key fails with a conflict and is tried again: by the
//! library for a single put or delete, here for a batch. That hides no error: to a plain write of a
//! key that others write too, a conflict means nothing. Each try is part of the call's latency.
//! There is no empty key: the library refuses it.
//!
//! Thread safety: a connection serves all threads, a session (with its cursor) one at a time. So a
//! call takes a session out of a pool, or makes one if there is none, and puts it back. In the end
//! there are as many sessions as there were calls at once. One store per directory.

#![expect(unsafe_code, reason = "a C interface")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};

use evendb_lab::opener::Durability;
use evendb_lab::store::{BatchWrite, Figure, Store, StoreError, StoreResult};
use parking_lot::Mutex;

/// An object of the library. Only the library looks into it.
type Handle = *mut c_void;

/// The shim asserts that these are the library's.
const ROLLBACK: c_int = -31800;
const NOT_FOUND: c_int = -31803;

/// Bytes that a session lends until its next call.
#[repr(C)]
struct Lent {
    bytes: *const u8,
    length: usize,
}

impl Lent {
    const NOTHING: Self = Self {
        bytes: null(),
        length: 0,
    };

    /// # Safety
    /// Lent by a call that succeeded, and the session is in no other call while the result is used.
    unsafe fn bytes(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: the caller keeps this function's contract.
        unsafe { std::slice::from_raw_parts(self.bytes, self.length) }
    }
}

// All take what `wiredtiger_shim.c` says.
unsafe extern "C" {
    fn evendb_wt_open(home: *const c_char, config: *const c_char, out: *mut Handle) -> c_int;
    fn evendb_wt_close(connection: Handle) -> c_int;
    fn evendb_wt_session_open(connection: Handle, out: *mut Handle) -> c_int;
    fn evendb_wt_session_close(session: Handle) -> c_int;
    fn evendb_wt_error(session: Handle, error: c_int) -> *const c_char;
    fn evendb_wt_version() -> *const c_char;
    fn evendb_wt_get(session: Handle, key: *const u8, length: usize, value: *mut Lent) -> c_int;
    fn evendb_wt_put(
        session: Handle,
        key: *const u8,
        key_length: usize,
        value: *const u8,
        value_length: usize,
    ) -> c_int;
    fn evendb_wt_delete(session: Handle, key: *const u8, length: usize) -> c_int;
    fn evendb_wt_seek(
        session: Handle,
        from: *const u8,
        length: usize,
        key: *mut Lent,
        value: *mut Lent,
    ) -> c_int;
    fn evendb_wt_next(session: Handle, key: *mut Lent, value: *mut Lent) -> c_int;
    fn evendb_wt_begin(session: Handle) -> c_int;
    fn evendb_wt_commit(session: Handle) -> c_int;
    fn evendb_wt_release(session: Handle) -> c_int;
    fn evendb_wt_checkpoint(session: Handle) -> c_int;
}

/// A session that is out of the pool, for one call of one thread.
struct Session<'a> {
    pool: &'a Mutex<Vec<Idle>>,
    handle: Handle,
}

/// A session that is in the pool.
struct Idle(Handle);

// SAFETY: the library lets any thread use a session, one at a time; the pool hands it to one.
unsafe impl Send for Idle {}

impl Session<'_> {
    fn outcome(&self, operation: &'static str, error: c_int) -> StoreResult<()> {
        if error == 0 {
            return Ok(());
        }
        Err(StoreError::new(operation, text(self.handle, error)))
    }

    /// Whether there is a record. The library may say that there is none.
    fn found(&self, operation: &'static str, error: c_int) -> StoreResult<bool> {
        if error == NOT_FOUND {
            return Ok(false);
        }
        self.outcome(operation, error).map(|()| true)
    }

    /// One write, in the transaction that was begun or in its own.
    fn write(&self, write: &BatchWrite<'_>) -> c_int {
        // SAFETY: an open session that is this call's alone; key and value live through the call.
        unsafe {
            match write {
                BatchWrite::Put(key, value) => evendb_wt_put(
                    self.handle,
                    key.as_ptr(),
                    key.len(),
                    value.as_ptr(),
                    value.len(),
                ),
                BatchWrite::Delete(key) => evendb_wt_delete(self.handle, key.as_ptr(), key.len()),
            }
        }
    }

    /// All writes in one transaction, which is rolled back if this fails.
    fn write_all(&self, writes: &[BatchWrite<'_>]) -> c_int {
        // SAFETY: an open session that is this call's alone.
        let mut error = unsafe { evendb_wt_begin(self.handle) };
        for write in writes {
            if error != 0 {
                break;
            }
            error = self.write(write);
        }
        if error == 0 {
            // SAFETY: as above, with a transaction.
            return unsafe { evendb_wt_commit(self.handle) };
        }
        // SAFETY: as above; the first error is the one that counts.
        unsafe { evendb_wt_release(self.handle) };
        error
    }
}

impl Drop for Session<'_> {
    /// Puts the session back into the pool, even after a panic in the caller's closure: with no
    /// position and no transaction.
    fn drop(&mut self) {
        // SAFETY: an open session that is this call's alone until it is in the pool again.
        unsafe { evendb_wt_release(self.handle) };
        self.pool.lock().push(Idle(self.handle));
    }
}

/// Copies the text of an error.
fn text(session: Handle, error: c_int) -> String {
    // SAFETY: no session or an open one; a NUL-terminated text that lives until its next call.
    let text = unsafe { CStr::from_ptr(evendb_wt_error(session, error)) };
    format!("{} ({error})", text.to_string_lossy())
}

/// A WiredTiger database with one table.
pub struct WiredTigerStore {
    connection: Handle,
    sessions: Mutex<Vec<Idle>>,
    durability: Durability,
}

// SAFETY: the library lets all threads use a connection at once.
unsafe impl Send for WiredTigerStore {}
// SAFETY: as above; sessions are guarded by the pool.
unsafe impl Sync for WiredTigerStore {}

impl WiredTigerStore {
    /// Opens or makes a database in this directory, which must be there, for `memory_bytes` bytes
    /// of memory in all.
    ///
    /// # Errors
    /// WiredTiger's own.
    pub fn open(path: &Path, memory_bytes: u64, durability: Durability) -> StoreResult<Self> {
        let transaction_sync = match durability {
            Durability::Sync => "(enabled=true,method=fsync)",
            Durability::Process => "(enabled=true,method=none)",
            Durability::Relaxed => "(enabled=false)",
        };
        // Settings of the environment or of an earlier opening do not count.
        let config = format!(
            "create,use_environment=false,config_base=false,session_max=1000,cache_size={},\
             checkpoint=(wait=60,log_size=2GB),log=(enabled=true),\
             transaction_sync={transaction_sync}",
            (memory_bytes / 2).max(1 << 20)
        );
        let home = CString::new(path.as_os_str().as_bytes());
        let home = home.map_err(|error| StoreError::new("open", error))?;
        let config = CString::new(config).map_err(|error| StoreError::new("open", error))?;
        let mut connection = null_mut();
        // SAFETY: NUL-terminated texts that live through the call, and a place for the result.
        let error = unsafe { evendb_wt_open(home.as_ptr(), config.as_ptr(), &mut connection) };
        if error != 0 {
            return Err(StoreError::new("open", text(null_mut(), error)));
        }
        Ok(Self {
            connection,
            sessions: Mutex::default(),
            durability,
        })
    }

    fn session(&self, operation: &'static str) -> StoreResult<Session<'_>> {
        let idle = self.sessions.lock().pop();
        let mut handle = null_mut();
        match idle {
            Some(idle) => handle = idle.0,
            None => {
                // SAFETY: an open connection and a place for the result.
                let error = unsafe { evendb_wt_session_open(self.connection, &mut handle) };
                if error != 0 {
                    return Err(StoreError::new(operation, text(null_mut(), error)));
                }
            }
        }
        Ok(Session {
            pool: &self.sessions,
            handle,
        })
    }

    fn write(&self, operation: &'static str, write: &BatchWrite<'_>) -> StoreResult<()> {
        let session = self.session(operation)?;
        session.outcome(operation, until_no_conflict(|| session.write(write)))
    }

    /// Closes the sessions and the connection, once.
    fn end(&mut self) -> StoreResult<()> {
        let connection = std::mem::replace(&mut self.connection, null_mut());
        if connection.is_null() {
            return Ok(());
        }
        let mut errors = Vec::new();
        for idle in self.sessions.get_mut().drain(..) {
            // SAFETY: an open session in no call, since this store is borrowed by nobody else.
            errors.push(unsafe { evendb_wt_session_close(idle.0) });
        }
        // SAFETY: an open connection without sessions; nobody has it after this.
        errors.push(unsafe { evendb_wt_close(connection) });
        match errors.into_iter().find(|error| *error != 0) {
            None => Ok(()),
            Some(error) => Err(StoreError::new("close", text(null_mut(), error))),
        }
    }
}

/// Tries until it does not meet another write of the same key.
fn until_no_conflict(mut attempt: impl FnMut() -> c_int) -> c_int {
    loop {
        match attempt() {
            ROLLBACK => std::thread::yield_now(),
            outcome => return outcome,
        }
    }
}

impl Drop for WiredTigerStore {
    fn drop(&mut self) {
        // A caller who wants the error calls `close`.
        let _ = self.end();
    }
}

impl Store for WiredTigerStore {
    fn name(&self) -> String {
        // SAFETY: takes nothing, and returns a text that lives as long as the library.
        let version = unsafe { CStr::from_ptr(evendb_wt_version()) }.to_string_lossy();
        // "WiredTiger 3.2.1: (date)".
        let number = version.split([' ', ':']).nth(1).unwrap_or_default();
        match self.durability {
            Durability::Process => format!("wiredtiger ({number})"),
            other => format!("wiredtiger ({number}, {})", other.name()),
        }
    }

    fn get(&self, key: &[u8], check: &mut dyn FnMut(&[u8])) -> StoreResult<bool> {
        let session = self.session("get")?;
        let mut value = Lent::NOTHING;
        // SAFETY: an open session that is this call's alone; the key lives through the call.
        let error = unsafe { evendb_wt_get(session.handle, key.as_ptr(), key.len(), &mut value) };
        let found = session.found("get", error)?;
        if found {
            // SAFETY: just lent, and `session` is not used until `value` was used.
            check(unsafe { value.bytes() });
        }
        Ok(found)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        self.write("put", &BatchWrite::Put(key, value))
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        self.write("delete", &BatchWrite::Delete(key))
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        if limit == 0 {
            return Ok(0);
        }
        let session = self.session("scan")?;
        let (mut key, mut value) = (Lent::NOTHING, Lent::NOTHING);
        let mut lent = 0;
        // SAFETY: an open session that is this call's alone; the key lives through the call.
        let mut error = unsafe {
            evendb_wt_seek(
                session.handle,
                from.as_ptr(),
                from.len(),
                &mut key,
                &mut value,
            )
        };
        while session.found("scan", error)? {
            lent += 1;
            // SAFETY: just lent, and `session` is not used until `each` returned.
            if !each(unsafe { key.bytes() }, unsafe { value.bytes() }) || lent == limit {
                break;
            }
            // SAFETY: as for the seek, which found a record.
            error = unsafe { evendb_wt_next(session.handle, &mut key, &mut value) };
        }
        Ok(lent)
    }

    fn batch(&self, writes: &[BatchWrite<'_>]) -> StoreResult<()> {
        let session = self.session("batch")?;
        session.outcome("batch", until_no_conflict(|| session.write_all(writes)))
    }

    fn stats(&self) -> Vec<Figure> {
        Vec::new()
    }

    fn settle_debt(&self) -> StoreResult<()> {
        let session = self.session("settle_debt")?;
        // SAFETY: an open session that is this call's alone, without a transaction.
        session.outcome("settle_debt", unsafe {
            evendb_wt_checkpoint(session.handle)
        })
    }

    fn close(mut self: Box<Self>) -> StoreResult<()> {
        self.end()
    }
}
