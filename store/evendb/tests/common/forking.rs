#![expect(unsafe_code, reason = "fork, alarm and _exit")]
//! Real children of a test's process, their calls of a database of their parent, and their
//! complaints.

use evendb_base::{ErrorKind, Result};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// A child that hangs is ended after this number of seconds; a sound one needs a fraction of a
/// second.
const HANGING_SECONDS: u32 = 120;

/// The parent's end of a child.
pub struct Child {
    process: libc::pid_t,
    complaints: std::io::PipeReader,
}

/// The process that returns from [`fork`].
pub enum Who {
    Parent(Child),
    Child(std::io::PipeWriter),
}

/// Forks a child of this process.
pub fn fork() -> Who {
    let (complaints, sink) = std::io::pipe().expect("a pipe");
    // SAFETY: the child calls the store, the allocator (which the C library makes safe to use) and
    // `_exit`; it calls nothing of the test's harness.
    match unsafe { libc::fork() } {
        -1 => panic!("cannot fork: {}", std::io::Error::last_os_error()),
        0 => {
            drop(complaints);
            // SAFETY: takes a number.
            unsafe { libc::alarm(HANGING_SECONDS) };
            Who::Child(sink)
        }
        process => Who::Parent(Child {
            process,
            complaints,
        }),
    }
}

/// The last message of a child.
const END: &str = "end";

/// Ends the child: tells the parent what was wrong.
pub fn leave(mut sink: std::io::PipeWriter, complaints: &[String]) -> ! {
    let _ = sink.write_all(complaints.join("\n").as_bytes());
    // A child that panics does not come here.
    let _ = sink.write_all(END.as_bytes());
    drop(sink);
    // SAFETY: ends the process without its destructors, which are the parent's.
    unsafe { libc::_exit(0) }
}

impl Child {
    /// Waits for the child's end; each of its complaints is the parent's failure.
    pub fn expect_content(mut self) {
        let mut text = String::new();
        self.complaints.read_to_string(&mut text).expect("reads");
        let mut status = 0;
        // SAFETY: writes to `status` only.
        let waited = unsafe { libc::waitpid(self.process, &raw mut status, 0) };
        assert_eq!(waited, self.process);
        assert_eq!(text, END, "what the child complained of");
        assert_eq!(status, 0, "how the child ended: hung, or crashed");
    }
}

/// Calls by their names, and their results.
pub type Calls = Vec<(&'static str, Result<()>)>;

/// Reads the first item of an iterator.
pub fn first<T>(mut items: impl Iterator<Item = Result<T>>) -> Result<()> {
    items.next().map_or(Ok(()), |item| item.map(drop))
}

/// The calls that were not refused as they should be.
pub fn not_refused(calls: Calls) -> Vec<String> {
    let wrong = calls.into_iter().filter_map(|(call, answer)| match answer {
        Err(error) if error.kind() == ErrorKind::Forked => None,
        Err(error) => Some(format!("{call}: {error:?}")),
        Ok(()) => Some(format!("{call}: took effect")),
    });
    wrong.collect()
}

/// Every file of a directory.
pub fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).expect("lists");
    let read = entries.map(|entry| {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        (name.into_owned(), std::fs::read(&path).expect("reads"))
    });
    read.collect()
}

/// Stops threads when it is dropped.
pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
