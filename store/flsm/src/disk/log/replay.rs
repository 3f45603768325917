//! Reading the logs back, after any kind of end.
//!
//! Each log ends where the next one says that it does. The newest log ends where the first frame
//! does not verify. If a log ends before that place, a power failure tore it, or it was damaged:
//! * It was damaged if something that verifies says that the place was durable: a frame behind it
//!   in the same log, the begin of the next log, or a later log that was synced itself, because all
//!   older logs are synced first. That is an error: writes that were promised to survive are lost.
//! * Otherwise it is torn. The log is read up to that place, and later logs are given up whole. So
//!   a prefix of the writes survives, without holes.
//!
//! A log that is shorter than its first frame was never used, because its begin is durable before
//! its first use. Such a log need not be the newest: if there was no room for its begin, another
//! log was begun later, and the removal of the first may not have survived. The next log shows that
//! the log was not cut by damage, because it names the log before it.
//!
//! Replay writes nothing. The caller removes the logs that are given up, the newest first. If that
//! is cut short, the rest of them is given up again.

use super::record::{BEGIN_BYTES, Group, Previous, Refused, decode_begin, decode_group};
use crate::files::FileName;
use crate::types::FileNumber;
use evendb_storage::framed_log::{
    FrameCodec, HEADER_BYTES, Surveyed, header_id, read_frames, survey_frames,
};
use evendb_storage::vfs::{File, Vfs, read_exact_at};
use evendb_storage::{Error, NUMBER_MAX, Result, Version};
use std::path::Path;
use std::sync::Arc;

/// The result of reading the logs.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// The version of the last record, or the given version if there is no record.
    pub(crate) last_version: Version,
    /// Logs that were read, ascending. Each of them may have frames that are not durable.
    pub(crate) read: Vec<ReadLog>,
    /// Logs that hold nothing that counts, ascending.
    pub(crate) given_up: Vec<FileNumber>,
}

/// A log that was read.
#[derive(Debug)]
pub(crate) struct ReadLog {
    pub(crate) number: FileNumber,
    pub(crate) file: Arc<dyn File>,
    /// The offset where its last frame ends.
    pub(crate) end: u64,
}

/// A log that was begun.
struct Log {
    number: FileNumber,
    file: Arc<dyn File>,
    previous: Option<Previous>,
    /// The offset where its first frame ends.
    begun: u64,
}

/// Reads the logs of these numbers, ascending. The manifest needs the logs from `needed` on; tables
/// have all records up to `last_version`. Calls `each` for the groups in order.
pub(crate) fn replay(
    vfs: &dyn Vfs,
    dir: &Path,
    numbers: &[FileNumber],
    needed: FileNumber,
    last_version: Version,
    each: &mut dyn FnMut(Group<'_>) -> std::result::Result<(), Refused>,
) -> Result<Replayed> {
    let mut logs = Vec::new();
    let mut replayed = Replayed {
        last_version,
        read: Vec::new(),
        given_up: Vec::new(),
    };
    for number in numbers {
        match open(vfs, dir, *number)? {
            Some(log) => logs.push(log),
            None => replayed.given_up.push(*number),
        }
    }
    check_chain(&logs, needed)?;
    for (at, log) in logs.iter().enumerate() {
        let told_end = logs.get(at + 1).and_then(|next| next.previous);
        let told_end = told_end.map(|previous| previous.end);
        let end = read(log, told_end, &mut replayed.last_version, each)?;
        replayed.read.push(ReadLog {
            number: log.number,
            file: log.file.clone(),
            end,
        });
        let len = length(&*log.file)?;
        if end < told_end.unwrap_or(len) {
            check_torn(log, end, &logs[at + 1..])?;
            let later = logs[at + 1..].iter().map(|log| log.number);
            replayed.given_up.splice(0..0, later);
            break;
        }
    }
    Ok(replayed)
}

/// Fails unless each log follows the one before it in the list, and the first log follows no log
/// that is needed.
fn check_chain(logs: &[Log], needed: FileNumber) -> Result<()> {
    let mut before: Option<FileNumber> = None;
    for log in logs {
        let previous = log.previous.map(|previous| previous.number);
        let follows = match before {
            Some(before) => previous == Some(before),
            None => previous.is_none_or(|previous| previous < needed),
        };
        if !follows {
            let missing =
                previous.map_or_else(|| "none".to_owned(), |log| FileName::Log(log).name());
            let detail = format!("the log before it, {missing}, is missing");
            return Err(Error::corruption(log.file.path(), HEADER_BYTES, detail));
        }
        before = Some(log.number);
    }
    Ok(())
}

/// The log, if it was begun.
fn open(vfs: &dyn Vfs, dir: &Path, number: FileNumber) -> Result<Option<Log>> {
    let path = FileName::Log(number).path(dir);
    let file = vfs.open(&path, false);
    let file = file.map_err(|source| Error::open(&path, "open a log", source))?;
    let codec = FrameCodec::new(&*file, number.0);
    let begun = HEADER_BYTES + codec.frame_bytes(BEGIN_BYTES);
    let len = length(&*file)?;
    let mut head = vec![0; begun.min(len) as usize];
    let done = read_exact_at(&*file, &mut head, 0);
    done.map_err(|source| Error::io(&path, "read a log", source))?;
    let is_own = header_id(&head) == Ok(number.0);
    let first = head.get(HEADER_BYTES as usize..).filter(|_| is_own);
    let Some(payload) = first.and_then(|first| codec.payload(first, HEADER_BYTES)) else {
        if len <= begun {
            return Ok(None);
        }
        // This call returns an error that says what is wrong with the file.
        read_frames(&*file, number.0, begun, &mut |_, _| Ok(()))?;
        return Err(Error::corruption(
            &path,
            HEADER_BYTES,
            "a log without its first frame",
        ));
    };
    let previous = decode_begin(&payload);
    let previous = previous.map_err(|refused| refuse(&*file, HEADER_BYTES, refused))?;
    Ok(Some(Log {
        number,
        file,
        previous,
        begun,
    }))
}

/// Reads a log's groups up to the end that the next log names, and returns where it ends.
fn read(
    log: &Log,
    told_end: Option<u64>,
    last_version: &mut Version,
    each: &mut dyn FnMut(Group<'_>) -> std::result::Result<(), Refused>,
) -> Result<u64> {
    let mut behind = None;
    let end = read_frames(
        &*log.file,
        log.number.0,
        log.begun,
        &mut |offset, payload| {
            if offset < log.begun {
                return Ok(());
            }
            // Groups behind the named end were never acknowledged, and a later life of the database
            // went on without them.
            if told_end.is_some_and(|end| offset >= end) {
                behind.get_or_insert(offset);
                return Ok(());
            }
            let refused = |refused| refuse(&*log.file, offset, refused);
            let group = decode_group(payload).map_err(refused)?;
            let records = u64::from(group.records.left());
            if group.first <= *last_version || records == 0 {
                return Err(refused(Refused::Malformed));
            }
            let last = group.first.0.saturating_add(records - 1);
            if last > NUMBER_MAX {
                return Err(refused(Refused::Malformed));
            }
            *last_version = Version(last);
            each(group).map_err(refused)
        },
    )?;
    let end = behind.unwrap_or(end);
    match told_end {
        Some(told) if end > told => {
            let detail = "a log does not end where the next one says";
            Err(Error::corruption(log.file.path(), told, detail))
        }
        _ => Ok(end),
    }
}

/// Fails if a crash cannot have torn the log at `end`.
fn check_torn(log: &Log, end: u64, later: &[Log]) -> Result<()> {
    let mut durable = durable_end(log)?;
    if let Some(previous) = later.first().and_then(|next| next.previous) {
        durable = durable.max(previous.durable);
        for log in later {
            if durable_end(log)? > log.begun {
                durable = durable.max(previous.end);
            }
        }
    }
    match durable > end {
        true => {
            let detail = "a log frame does not verify, and was durable";
            Err(Error::corruption(log.file.path(), end, detail))
        }
        false => Ok(()),
    }
}

/// The offset up to which the log was durable, as its own frames say, also the frames behind
/// damage.
fn durable_end(log: &Log) -> Result<u64> {
    let codec = FrameCodec::new(&*log.file, log.number.0);
    let mut durable = 0;
    survey_frames(&*log.file, &codec, &mut |found| match found {
        Surveyed::Frame {
            offset, payload, ..
        } if offset >= log.begun => {
            let told = decode_group(payload).map_or(0, |group| group.durable);
            durable = durable.max(told);
        }
        _ => {}
    })?;
    Ok(durable)
}

fn length(file: &dyn File) -> Result<u64> {
    file.len()
        .map_err(|source| Error::io(file.path(), "read the length of a log", source))
}

fn refuse(file: &dyn File, offset: u64, refused: Refused) -> Error {
    match refused {
        Refused::Unknown(detail) => Error::unsupported(file.path(), detail),
        Refused::Malformed => {
            Error::corruption(file.path(), offset, "a log frame that makes no sense")
        }
    }
}
