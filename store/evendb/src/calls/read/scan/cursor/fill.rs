//! Many records at once, into bytes that belong to the caller: [`Cursor::fill`].
//!
//! ```text
//! | key length u32 | value length u32 | key | value | key length u32 | ...
//!   little-endian    little-endian
//! ```
//! No padding, no alignment. A record is looked at before it is taken: one that does not fit is the
//! next one still. Nothing is allocated for a record, except while a value that lies apart is read.
//! Thread safety: as the cursor. Not here: refills.

use super::Cursor;
use crate::error::Result;
use crate::fork;
use crate::read::tables::Direction;
use crate::value::Value;

/// The bytes of the two lengths before a key.
const LENGTHS: usize = 8;

/// What [`Cursor::fill`] has put into the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Filled {
    /// The number of records.
    pub records: usize,
    /// The number of bytes, from the buffer's beginning.
    pub bytes: usize,
    /// What comes after them.
    pub rest: Rest,
}

/// What a cursor still has after [`Cursor::fill`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// Nothing: all records of the range were given.
    Nothing,
    /// Perhaps more records: the buffer is full, or has the number of records that was asked for.
    More,
    /// A record that is larger than the whole buffer: it needs this number of bytes. Nothing was
    /// given, and the cursor stays before it.
    Needs(usize),
}

impl Filled {
    /// The records in a buffer that was filled so, as pairs of key and value. They end early if the
    /// bytes are not those of the call.
    pub fn pairs<'b>(&self, buffer: &'b [u8]) -> impl Iterator<Item = (&'b [u8], &'b [u8])> {
        let mut left = buffer.get(..self.bytes).unwrap_or_default();
        let records = std::iter::from_fn(move || {
            let (lengths, rest) = left.split_first_chunk::<LENGTHS>()?;
            let (key_len, value_len) = lengths.split_first_chunk::<4>()?;
            let key_len = u32::from_le_bytes(*key_len) as usize;
            let value_len = u32::from_le_bytes(value_len.try_into().ok()?) as usize;
            let (key, rest) = rest.split_at_checked(key_len)?;
            let (value, rest) = rest.split_at_checked(value_len)?;
            left = rest;
            Some((key, value))
        });
        records.take(self.records)
    }
}

/// What became of the next record.
enum Step {
    Given(usize),
    /// It needs this number of bytes.
    DoesNotFit(usize),
    Nothing,
}

impl Cursor {
    /// Puts the next records, in key order, into `buffer`, `most` records at most. Each is the
    /// length of its key and the length of its value, as 4 bytes each, little-endian, then the key
    /// and the value; the next record follows at once. [`Filled::pairs`] reads them.
    ///
    /// It is [`next`](Self::next) for many records in one call: callers in other languages pay for
    /// one call, and nothing is allocated for a record. Calls of both kinds may alternate. Records
    /// are whole: one that does not fit any more is the first one of the next call. One that does
    /// not fit into an empty buffer is told as [`Rest::Needs`], with the bytes that it needs, and
    /// the cursor stays before it: call again with a larger buffer, or pass over it by `next`.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use evendb::Rest;
    /// let db = evendb::Db::open(dir.path())?;
    /// db.put("a", "1")?;
    /// db.put("b", "22")?;
    /// db.put("c", "a long value")?;
    /// let mut cursor = db.cursor::<&str>(..);
    /// let mut buffer = [0; 20];
    /// let filled = cursor.fill(&mut buffer, 1000)?;
    /// assert_eq!((filled.records, filled.bytes, filled.rest), (1, 10, Rest::More));
    /// assert_eq!(buffer[..10], *b"\x01\0\0\0\x01\0\0\0a1");
    /// let filled = cursor.fill(&mut buffer, 1000)?;
    /// assert_eq!(filled.pairs(&buffer).next(), Some((&b"b"[..], &b"22"[..])));
    /// // The third record has 8 + 1 + 12 bytes.
    /// assert_eq!(cursor.fill(&mut buffer, 1000)?.rest, Rest::Needs(21));
    /// let mut buffer = [0; 21];
    /// assert_eq!(cursor.fill(&mut buffer, 1000)?.rest, Rest::Nothing);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`next`](Self::next). If records were put into the buffer before the failure,
    /// they are returned, and the next call returns the error.
    pub fn fill(&mut self, buffer: &mut [u8], most: usize) -> Result<Filled> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        fork::check()?;
        let mut filled = Filled {
            records: 0,
            bytes: 0,
            rest: Rest::More,
        };
        while filled.records < most {
            let step = self.put_next(&mut buffer[filled.bytes..]);
            if let Some(record) = &mut self.record
                && !matches!(step, Ok(Step::DoesNotFit(_)))
            {
                record.asked(false, matches!(step, Ok(Step::Given(_))));
            }
            match step {
                Ok(Step::Given(bytes)) => {
                    filled.records += 1;
                    filled.bytes += bytes;
                }
                Ok(Step::DoesNotFit(bytes)) => {
                    if filled.records == 0 {
                        filled.rest = Rest::Needs(bytes);
                    }
                    break;
                }
                Ok(Step::Nothing) => {
                    filled.rest = Rest::Nothing;
                    break;
                }
                Err(error) => {
                    self.error = Some(error.clone());
                    match filled.records {
                        0 => return Err(error),
                        _ => break,
                    }
                }
            }
        }
        Ok(filled)
    }

    /// Puts the next record into `target` and takes it, if it fits.
    fn put_next(&mut self, target: &mut [u8]) -> Result<Step> {
        loop {
            let end = &mut self.front;
            let Some(key) = end.buffer.look_ahead() else {
                if end.exhausted {
                    return Ok(Step::Nothing);
                }
                self.gather(Direction::Forward)?;
                continue;
            };
            if self.back.has_passed(Direction::Backward, key) {
                return Ok(Step::Nothing);
            }
            let step = match end.buffer.ahead_is_apart() {
                false => end
                    .buffer
                    .ahead()
                    .map(|(key, value)| put(target, key, value)),
                true => self.value_ahead()?.map(|value| {
                    let key = self.front.buffer.look_ahead().unwrap_or_default();
                    put(target, key, &value)
                }),
            };
            match step {
                Some(Step::DoesNotFit(bytes)) => return Ok(Step::DoesNotFit(bytes)),
                given => {
                    self.front.buffer.take();
                    self.in_place = None;
                    // Without a value after all, which only operands over a value can cause, the
                    // next one is looked at.
                    if let Some(given) = given {
                        return Ok(given);
                    }
                }
            }
        }
    }

    /// The value of the record ahead, which lies apart.
    #[cold]
    fn value_ahead(&mut self) -> Result<Option<Value>> {
        let place = self.front.buffer.place_ahead();
        if let (Some(place), Some(moment)) = (place, &self.moment)
            && let Some(bytes) = moment.engine().core.value_files.read(&place)?
        {
            return Ok(Some(Value::of_bytes(bytes)));
        }
        let key = self.front.buffer.look_ahead().unwrap_or_default().to_vec();
        self.get(&key)
    }
}

fn put(target: &mut [u8], key: &[u8], value: &[u8]) -> Step {
    let bytes = LENGTHS + key.len() + value.len();
    let Some(target) = target.get_mut(..bytes) else {
        return Step::DoesNotFit(bytes);
    };
    // Keys have at most 65,535 bytes, and values less than 4 GiB.
    let lengths = [key.len() as u32, value.len() as u32].map(u32::to_le_bytes);
    let (key_len, rest) = target.split_at_mut(4);
    let (value_len, rest) = rest.split_at_mut(4);
    let (of_key, of_value) = rest.split_at_mut(key.len());
    key_len.copy_from_slice(&lengths[0]);
    value_len.copy_from_slice(&lengths[1]);
    of_key.copy_from_slice(key);
    of_value.copy_from_slice(value);
    Step::Given(bytes)
}
