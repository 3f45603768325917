//! The ring as an inspection sees it: the records that recovery reads, and the records behind the
//! place where it stops. It also tells what they say about that place: whether a crash cut the log
//! there, or it is damaged.
//!
//! A header verifies only at its own LSN under its own life's seed, so headers behind a hole are
//! found by looking at every place where one could start. The following proves that a hole was
//! whole once ([`Proof`]):
//!
//! * a record behind it says that everything up to somewhere behind it was durable; or
//! * the machine has run all the time since the last life began, so nothing that a process wrote is
//!   lost, and one of three holds. A header behind the hole verifies, because records are written
//!   in the order of their LSNs. Or the last life found the log whole up to somewhere behind it. Or
//!   a header in its place verifies that was written when its payload was complete.
//!
//! A record whose value extent does not verify is such a hole, too, and then the record itself is
//! the one that was written after it.
//!
//! Without such a proof a power loss may have taken unsynced bytes from the middle, which is a
//! clean end. If nothing follows, a damaged record and one that a crash cut short look alike.

use crate::commit_log::record::{ALIGN, Header, HeaderKind, LogRecord};
use crate::commit_log::recover::{FoundInRing, RingReader, Segment};
use crate::commit_log::{CAPACITY_UNIT, Lsn};
use evendb_storage::vfs::File;
use evendb_storage::{Error, Result, Version};

/// A stretch of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Surveyed<'a> {
    /// A record that verifies. `beyond`: recovery stops before it.
    Record {
        record: LogRecord<'a>,
        epoch: u64,
        beyond: bool,
    },
    /// A filler; only its header means something.
    Filler { lsn: Lsn, end: Lsn },
    /// Bytes that do not verify, followed by the end of a closed life or by headers that verify.
    /// `sealed` says that a header there verifies that was written after its payload.
    Hole { lsn: Lsn, end: Lsn, sealed: bool },
    /// The end of the last life's records. `torn`: the bytes up to this end look like a record of
    /// this very place that does not verify.
    End {
        lsn: Lsn,
        torn: Option<Lsn>,
        sealed: bool,
    },
}

/// The evidence of the whole ring about any hole in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Proof {
    /// Nothing that was written since the last life began can be lost.
    same_boot: bool,
    /// Everything below was durable once.
    durable: Lsn,
    /// Everything below was found whole when the last life began.
    found_whole: Lsn,
    /// The last header that verifies.
    last: Option<Lsn>,
}

impl Proof {
    /// Whether bytes that do not verify at `lsn` are damage, and not an end that a crash leaves.
    pub(crate) fn is_damage(&self, lsn: Lsn, sealed: bool) -> bool {
        let written_behind = self.last.is_some_and(|last| last > lsn) || self.found_whole > lsn;
        self.durable > lsn || (self.same_boot && (written_behind || sealed))
    }

    /// Whether a value extent that does not verify is damage; the record at `lsn`, which verifies,
    /// names it. `is_synced` says that the extent was synced before that record was written.
    pub(crate) fn is_damaged_extent(&self, lsn: Lsn, is_synced: bool) -> bool {
        // The record was written when its extent was complete.
        is_synced || self.is_damage(lsn, true)
    }

    fn take(&mut self, header: &Header) {
        self.durable = self.durable.max(header.durable);
        self.last = self.last.max(Some(header.lsn));
    }
}

/// The place and the way to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Survey<'a> {
    /// Bytes of the ring.
    pub(crate) capacity: u64,
    /// The position where replay begins.
    pub(crate) from: Lsn,
    /// The caller knows everything below already; not below `from`.
    pub(crate) start: Lsn,
    /// The greatest version that lies below `from`.
    pub(crate) checkpointed: Version,
    /// The lives, in order.
    pub(crate) segments: &'a [Segment],
    /// The machine has run all the time since the last life began.
    pub(crate) same_boot: bool,
}

/// Tells `each` what lies in the ring. Errors are errors of reading and of `each`.
pub(crate) fn survey(
    file: &dyn File,
    how: &Survey<'_>,
    each: &mut dyn FnMut(Surveyed<'_>) -> Result<()>,
) -> Result<Proof> {
    let capacity = how.capacity;
    if capacity == 0 || !capacity.is_multiple_of(CAPACITY_UNIT) {
        let detail = format!("commit log of {capacity} bytes");
        return Err(Error::corruption(file.path(), 0, detail));
    }
    let mut reader = RingReader::new(file, capacity, how.from);
    reader.is_lenient = true;
    let mut surveyor = Surveyor {
        reader,
        limit: how.from.0.saturating_add(capacity),
        at: how.start.max(how.from),
        beyond: false,
        version_max: how.checkpointed,
        proof: Proof {
            same_boot: how.same_boot,
            found_whole: how.segments.last().map_or(Lsn(0), |last| last.start),
            ..Proof::default()
        },
        unverified: capacity,
    };
    for segment in how.segments {
        if segment
            .closed_at
            .is_some_and(|closed| closed <= surveyor.at)
        {
            continue;
        }
        if segment.start > surveyor.at {
            // No life that counts has written there.
            let (lsn, end) = (surveyor.at, segment.start);
            let sealed = false;
            each(Surveyed::Hole { lsn, end, sealed })?;
            surveyor.at = segment.start;
            surveyor.beyond = true;
        }
        surveyor.segment(segment, each)?;
    }
    Ok(surveyor.proof)
}

struct Surveyor<'a> {
    reader: RingReader<'a>,
    limit: u64,
    at: Lsn,
    beyond: bool,
    version_max: Version,
    proof: Proof,
    /// Bytes of payloads that may still be read behind holes. Records that one life wrote do not
    /// overlap, so one lap is enough for all; headers that claim each other's bytes would take the
    /// square of it.
    unverified: u64,
}

/// The bytes behind a place where nothing verifies.
enum Behind {
    /// A record.
    Whole(Lsn),
    /// Headers without their payloads; the last of them ends here.
    Stumps(Lsn),
    Nothing,
}

impl Surveyor<'_> {
    fn segment(
        &mut self,
        segment: &Segment,
        each: &mut dyn FnMut(Surveyed<'_>) -> Result<()>,
    ) -> Result<()> {
        loop {
            self.valid_records(segment, each)?;
            let closed = segment.closed_at;
            if closed.is_some_and(|closed| closed <= self.at) {
                return Ok(());
            }
            let lsn = self.at;
            let sealed = self.is_sealed(segment)?;
            let behind = self.look_behind(segment)?;
            let end = match (behind, closed) {
                (Behind::Whole(end), _) => end,
                (_, Some(closed)) => closed,
                (Behind::Stumps(end), None) => end,
                (Behind::Nothing, None) => {
                    let torn = self.looks_torn(segment)?;
                    return each(Surveyed::End { lsn, torn, sealed });
                }
            };
            each(Surveyed::Hole { lsn, end, sealed })?;
            self.beyond = true;
            self.at = end;
        }
    }

    fn valid_records(
        &mut self,
        segment: &Segment,
        each: &mut dyn FnMut(Surveyed<'_>) -> Result<()>,
    ) -> Result<()> {
        while segment.closed_at.is_none_or(|closed| self.at < closed) {
            let Some(start) = self.reader.skip_short_rest(self.at) else {
                break;
            };
            let FoundInRing::Whole(header, payload) = self.reader.read(start, segment)? else {
                break;
            };
            let end = Lsn(start.0 + header.total_bytes());
            if segment.closed_at.is_some_and(|closed| end > closed) {
                break;
            }
            self.version_max = self.version_max.max(header.version);
            self.proof.take(&header);
            each(match header.kind {
                HeaderKind::Filler => Surveyed::Filler { lsn: start, end },
                HeaderKind::Record | HeaderKind::Sealed => Surveyed::Record {
                    record: header.record(payload),
                    epoch: segment.epoch,
                    beyond: self.beyond,
                },
            })?;
            self.at = end;
        }
        Ok(())
    }

    /// Whether the payload at `at` was complete once.
    fn is_sealed(&mut self, segment: &Segment) -> Result<bool> {
        let Some(start) = self.reader.skip_short_rest(self.at) else {
            return Ok(false);
        };
        let found = self.reader.read(start, segment)?;
        Ok(matches!(found, FoundInRing::Stump(header) if header.kind == HeaderKind::Sealed))
    }

    /// Searches the segment behind `at`, where nothing verifies.
    fn look_behind(&mut self, segment: &Segment) -> Result<Behind> {
        let limit = segment
            .closed_at
            .map_or(self.limit, |closed| closed.0.min(self.limit));
        let Some(mut at) = self.reader.skip_short_rest(self.at) else {
            return Ok(Behind::Nothing);
        };
        let mut behind = Behind::Nothing;
        loop {
            let from = at.0.saturating_add(ALIGN);
            let Some(header) = self.reader.find_header(from, limit, segment)? else {
                return Ok(behind);
            };
            self.proof.take(&header);
            at = header.lsn;
            if let Some(left) = self.unverified.checked_sub(header.total_bytes()) {
                if let FoundInRing::Whole(..) = self.reader.read(at, segment)? {
                    return Ok(Behind::Whole(at));
                }
                self.unverified = left;
            }
            let told = header.total_bytes().min(self.reader.rest_of_lap(at));
            behind = Behind::Stumps(Lsn(at.0.saturating_add(told).min(limit)));
        }
    }

    /// The end of the bytes at `at`, if they claim to be a record of this place or life in a way
    /// that leftovers of an earlier lap cannot.
    fn looks_torn(&mut self, segment: &Segment) -> Result<Option<Lsn>> {
        // A damaged manifest may name lives beyond the lap, where nothing can have been written.
        let at = self.reader.skip_short_rest(self.at);
        let Some(at) = at.filter(|at| at.0 < self.limit) else {
            return Ok(None);
        };
        let Some(header) = self.reader.header(at)? else {
            return Ok(None);
        };
        let newer = header.epoch == segment.epoch && header.version > self.version_max;
        if header.lsn != at && !newer {
            return Ok(None);
        }
        let told = header.total_bytes().min(self.reader.rest_of_lap(at));
        Ok(Some(Lsn(at.0.saturating_add(told).min(self.limit))))
    }
}
