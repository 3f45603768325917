//! The ring as an inspection sees it: the records that recovery reads, and those behind the place
//! where it stops.
//!
//! A damaged record and the end that a crash leaves look alike where nothing follows. Where valid
//! records of the same life do follow, the log did not end there: the hole is damage, or a power
//! loss that took unsynced pages in the middle. A record verifies only at its own LSN under its
//! own life's seed, so records behind a hole are found by looking at every place where one could
//! start.

use super::record::{ALIGN, HEADER_BYTES, HeaderKind, LogRecord};
use super::recover::{RingReader, Segment};
use super::{CAPACITY_UNIT, Lsn};
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
    /// A filler, whose first bytes alone mean something.
    Filler { lsn: Lsn, end: Lsn },
    /// Bytes that do not verify, with the end of a closed life or valid records behind them.
    Hole { lsn: Lsn, end: Lsn },
    /// Where the last life's records end. `torn`: what lies there up to this end looks like a record
    /// of this very place that does not verify.
    End { lsn: Lsn, torn: Option<Lsn> },
}

/// Tells `each` what lies in the ring from `from` on, where `checkpointed` is the greatest version
/// that lies below. Errors are those of reading and of `each`.
pub(crate) fn survey(
    file: &dyn File,
    capacity: u64,
    from: Lsn,
    checkpointed: Version,
    segments: &[Segment],
    each: &mut dyn FnMut(Surveyed<'_>) -> Result<()>,
) -> Result<()> {
    if capacity == 0 || !capacity.is_multiple_of(CAPACITY_UNIT) {
        let detail = format!("commit log of {capacity} bytes");
        return Err(Error::corruption(file.path(), 0, detail));
    }
    let mut survey = Survey {
        reader: RingReader::new(file, capacity, from),
        limit: from.0.saturating_add(capacity),
        at: from,
        beyond: false,
        version_max: checkpointed,
    };
    for segment in segments {
        if segment.closed_at.is_some_and(|closed| closed <= survey.at) {
            continue;
        }
        if segment.start > survey.at {
            // Nothing was written there by any life that counts.
            let (lsn, end) = (survey.at, segment.start);
            each(Surveyed::Hole { lsn, end })?;
            survey.at = segment.start;
            survey.beyond = true;
        }
        survey.segment(segment, each)?;
    }
    Ok(())
}

struct Survey<'a> {
    reader: RingReader<'a>,
    limit: u64,
    at: Lsn,
    beyond: bool,
    version_max: Version,
}

impl Survey<'_> {
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
            let next = self.find_next(segment)?;
            match (next, closed) {
                (Some(end), _) => each(Surveyed::Hole { lsn, end })?,
                (None, Some(end)) => each(Surveyed::Hole { lsn, end })?,
                (None, None) => {
                    let torn = self.looks_torn(segment)?;
                    return each(Surveyed::End { lsn, torn });
                }
            }
            self.beyond = true;
            self.at = next.or(closed).unwrap_or(lsn);
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
            let Some((header, payload)) = self.reader.read(start, segment)? else {
                break;
            };
            let end = Lsn(start.0 + header.total_bytes());
            if segment.closed_at.is_some_and(|closed| end > closed) {
                break;
            }
            self.version_max = self.version_max.max(header.version);
            each(match header.kind {
                HeaderKind::Filler => Surveyed::Filler { lsn: start, end },
                HeaderKind::Record => Surveyed::Record {
                    record: LogRecord {
                        lsn: start,
                        end,
                        version: header.version,
                        tail: header.tail,
                        payload,
                    },
                    epoch: segment.epoch,
                    beyond: self.beyond,
                },
            })?;
            self.at = end;
        }
        Ok(())
    }

    /// The next place behind `at` where a record of the segment verifies.
    fn find_next(&mut self, segment: &Segment) -> Result<Option<Lsn>> {
        let limit = segment
            .closed_at
            .map_or(self.limit, |closed| closed.0.min(self.limit));
        let mut at = (self.at.0 / ALIGN).saturating_add(1).saturating_mul(ALIGN);
        while at.saturating_add(HEADER_BYTES as u64) <= limit {
            let here = self.reader.has_lsn(Lsn(at))?;
            if here && self.reader.read(Lsn(at), segment)?.is_some() {
                return Ok(Some(Lsn(at)));
            }
            let Some(next) = at.checked_add(ALIGN) else {
                break;
            };
            at = next;
        }
        Ok(None)
    }

    /// Where the bytes at `at` end, if they say of themselves that they are a record of this place
    /// or life, in ways that leftovers of an earlier lap cannot.
    fn looks_torn(&mut self, segment: &Segment) -> Result<Option<Lsn>> {
        let Some(at) = self.reader.skip_short_rest(self.at) else {
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
