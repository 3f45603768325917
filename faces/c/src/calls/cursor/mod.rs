//! Cursors over keyspaces, snapshots and transactions: record by record, and many at a time into a
//! buffer of the caller.
//!
//! ```text
//! Walk            limit, and at each end the record that was read and not given yet
//!   Source        an engine's cursor (records or keys), or `own::Walk` over a transaction
//! ```
//! A filled buffer has records one behind the other, each as: length of the key (4 bytes,
//! little-endian), length of the value (4 bytes), key, value. That is the layout of the engine's
//! [`Cursor::fill`], which fills from the front of records. Here are the others: the back, keys
//! alone, transactions. There the record that did not fit is kept, and is the first one of that
//! end's next call.
//!
//! Thread safety: one thread at a time (a [`Slot`]).

mod functions;
mod own;

use crate::border::bytes::{copy_into, written};
use crate::border::{Failure, Result};
use evendb::{Cursor, KeyCursor, Rest, Value};
use std::mem::MaybeUninit;

/// One end of a cursor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Front,
    Back,
}

/// `evendb_cursor`.
pub struct Walk {
    /// `None` only while a limit is being set.
    source: Option<Source>,
    /// Records that may still be given.
    left: u64,
    front_ahead: Option<Record>,
    back_ahead: Option<Record>,
    /// The record that was ahead and is lent now.
    given: Option<Record>,
}

/// A copy of a record.
struct Record {
    key: Vec<u8>,
    value: Vec<u8>,
}

enum Source {
    Records(Cursor),
    Keys(KeyCursor),
    Own(Box<own::Walk>),
}

/// A record that a source lends.
type Lent<'c> = Option<(&'c [u8], &'c [u8])>;

impl Source {
    #[inline]
    fn step(&mut self, end: End) -> Result<Lent<'_>> {
        let keys_only = |key: Option<_>| key.map(|key| (key, &[][..]));
        Ok(match (self, end) {
            (Source::Records(cursor), End::Front) => cursor.next()?,
            (Source::Records(cursor), End::Back) => cursor.next_back()?,
            (Source::Keys(cursor), End::Front) => keys_only(cursor.next()?),
            (Source::Keys(cursor), End::Back) => keys_only(cursor.next_back()?),
            (Source::Own(walk), end) => walk.step(end)?,
        })
    }

    fn seek(&mut self, end: End, key: &[u8]) {
        match (self, end) {
            (Source::Records(cursor), End::Front) => cursor.seek(key),
            (Source::Records(cursor), End::Back) => cursor.seek_back(key),
            (Source::Keys(cursor), End::Front) => cursor.seek(key),
            (Source::Keys(cursor), End::Back) => cursor.seek_back(key),
            (Source::Own(walk), end) => walk.seek(end, key),
        }
    }

    fn limited(self, records: u64) -> Source {
        match self {
            Source::Records(cursor) => Source::Records(cursor.limit_hint(records)),
            Source::Keys(cursor) => Source::Keys(cursor.limit_hint(records)),
            Source::Own(mut walk) => {
                walk.expect(records);
                Source::Own(walk)
            }
        }
    }
}

/// What a filled buffer holds.
pub(super) struct Filled {
    pub(super) bytes: usize,
    pub(super) records: usize,
}

/// Bytes in front of each record in a filled buffer.
const HEADER_BYTES: usize = 8;

impl Walk {
    pub(super) fn over(cursor: Cursor, keys_only: bool) -> Walk {
        Walk::new(match keys_only {
            true => Source::Keys(cursor.keys_only()),
            false => Source::Records(cursor),
        })
    }

    fn new(source: Source) -> Walk {
        Walk {
            source: Some(source),
            left: u64::MAX,
            front_ahead: None,
            back_ahead: None,
            given: None,
        }
    }

    fn source(&mut self) -> Result<&mut Source> {
        let source = self.source.as_mut();
        source.ok_or_else(|| Failure::argument("the cursor was lost when its limit was set"))
    }

    fn ahead(&mut self, end: End) -> &mut Option<Record> {
        match end {
            End::Front => &mut self.front_ahead,
            End::Back => &mut self.back_ahead,
        }
    }

    /// Ends the cursor after `records` further records of both ends.
    fn limit(&mut self, records: u64) {
        self.left = records;
        self.source = self.source.take().map(|source| source.limited(records));
    }

    fn seek(&mut self, end: End, key: &[u8]) -> Result<()> {
        *self.ahead(end) = None;
        self.source()?.seek(end, key);
        Ok(())
    }

    /// The next record at an end, lent until the next call.
    #[inline]
    fn step(&mut self, end: End) -> Result<Lent<'_>> {
        if self.left == 0 {
            return Ok(None);
        }
        if let Some(record) = self.ahead(end).take() {
            self.left -= 1;
            let record = self.given.insert(record);
            return Ok(Some((&record.key, &record.value)));
        }
        let Some(source) = &mut self.source else {
            return Ok(None);
        };
        if let Some(stepped) = source.step(end)? {
            self.left -= 1;
            return Ok(Some(stepped));
        }
        // The ends have met: what the other one keeps is the last record between them.
        let other = match end {
            End::Front => &mut self.back_ahead,
            End::Back => &mut self.front_ahead,
        };
        let Some(record) = other.take() else {
            return Ok(None);
        };
        self.left -= 1;
        let record = self.given.insert(record);
        Ok(Some((&record.key, &record.value)))
    }

    /// Writes records of an end into `room` until it is full. A record that alone is too large
    /// stays ahead: the error says how many bytes it takes.
    fn fill(
        &mut self,
        end: End,
        room: &mut [MaybeUninit<u8>],
    ) -> Result<std::result::Result<Filled, usize>> {
        let keeps_any = self.front_ahead.is_some() || self.back_ahead.is_some();
        if end == End::Front
            && !keeps_any
            && let Some(Source::Records(cursor)) = &mut self.source
        {
            let most = usize::try_from(self.left).unwrap_or(usize::MAX);
            let filled = cursor.fill(written(room), most)?;
            self.left -= filled.records as u64;
            return Ok(match filled.rest {
                Rest::Needs(bytes) => Err(bytes),
                Rest::Nothing | Rest::More => Ok(Filled {
                    bytes: filled.bytes,
                    records: filled.records,
                }),
            });
        }
        let mut filled = Filled {
            bytes: 0,
            records: 0,
        };
        loop {
            let (key, value) = match self.step(end) {
                Ok(Some(record)) => record,
                Ok(None) => break,
                // What came before is given first: the source tells its error again.
                Err(_) if filled.records > 0 => break,
                Err(failure) => return Err(failure),
            };
            let bytes = HEADER_BYTES + key.len() + value.len();
            if bytes > room.len() - filled.bytes {
                let record = Record {
                    key: key.to_vec(),
                    value: value.to_vec(),
                };
                self.left += 1;
                *self.ahead(end) = Some(record);
                if filled.records == 0 {
                    return Ok(Err(bytes));
                }
                break;
            }
            write_record(&mut room[filled.bytes..filled.bytes + bytes], key, value);
            filled.bytes += bytes;
            filled.records += 1;
        }
        Ok(Ok(filled))
    }
}

/// Lengths of keys and values are below 4 GiB.
#[inline]
fn length(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes()
}

#[inline]
fn write_record(room: &mut [MaybeUninit<u8>], key: &[u8], value: &[u8]) {
    let (header, room) = room.split_at_mut(HEADER_BYTES);
    copy_into(&mut header[..4], &length(key));
    copy_into(&mut header[4..], &length(value));
    let (of_key, of_value) = room.split_at_mut(key.len());
    copy_into(of_key, key);
    copy_into(of_value, value);
}

/// A record of a transaction's moment or of its own writes.
type Seen = (Value, Option<Value>);
