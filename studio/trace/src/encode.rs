//! The operations of one frame: each is stored as its difference from the one before it.
//!
//! ```text
//! kind u8 | flags varint | outcome u8
//! | start: zigzag varint of the difference to the one before (the first: to 0)
//! | shared varint, rest varint, rest bytes: the key; its first `shared` bytes are those of the
//!   key before
//! | what the flags name, in the order of their bits
//! | what the outcome names: length varint; hash u64; failure u8
//! ```
//! If the flags do not name thread and keyspace, they are those of the operation before; 0 at the
//! first. A frame is read without any other.

use crate::codec::{Input, put_bytes, put_varint, unzigzag, zigzag};
use crate::error::{Error, ErrorKind, Result};
use crate::operation::{Call, Failure, KEY_BYTES_MAX, Kind, Operation, Outcome, VALUE_BYTES_MAX};

const THREAD: u64 = 1;
const KEYSPACE: u64 = 1 << 1;
const GROUP: u64 = 1 << 2;
const END_KEY: u64 = 1 << 3;
const VALUE_LEN: u64 = 1 << 4;
const VALUE: u64 = 1 << 5;
const LATENCY: u64 = 1 << 6;
const TTL: u64 = 1 << 7;
const COUNT: u64 = 1 << 8;
const LIMIT: u64 = 1 << 9;
const REVERSE: u64 = 1 << 10;
const KEYS_ONLY: u64 = 1 << 11;
const OLDER_MOMENT: u64 = 1 << 12;
const KNOWN: u64 = (1 << 13) - 1;

const UNKNOWN: u8 = 0;
const DONE: u8 = 1;
const ABSENT: u8 = 2;
const PRESENT: u8 = 3;
const PRESENT_LEN: u8 = 4;
const PRESENT_HASH: u8 = 5;
const FAILED: u8 = 6;

/// Gathers the operations of a frame.
#[derive(Default)]
pub(crate) struct Encoder {
    /// Its bytes so far.
    pub(crate) raw: Vec<u8>,
    /// The number of these operations.
    pub(crate) operations: u32,
    thread: u32,
    keyspace: u32,
    start_nanos: u64,
    key: Vec<u8>,
}

impl Encoder {
    /// Takes the bytes out, for a frame. The next operations go into `empty`.
    pub(crate) fn take(&mut self, mut empty: Vec<u8>) -> (Vec<u8>, u32) {
        empty.clear();
        self.thread = 0;
        self.keyspace = 0;
        self.start_nanos = 0;
        self.key.clear();
        let operations = std::mem::take(&mut self.operations);
        (std::mem::replace(&mut self.raw, empty), operations)
    }

    /// Adds an operation as a whole, or not at all.
    ///
    /// # Errors
    /// `TooLarge`.
    pub(crate) fn add(
        &mut self,
        call: &Call<'_>,
        thread: u32,
        start_nanos: u64,
        latency_nanos: Option<u64>,
    ) -> Result<()> {
        check(call)?;
        let value = call.value.filter(|value| value.len() <= VALUE_BYTES_MAX);
        let value_len = call
            .value_len
            .or(call.value.map(|value| value.len() as u64));
        let mut flags = 0;
        let mut flag = |bit: u64, is_there: bool| flags |= if is_there { bit } else { 0 };
        flag(THREAD, thread != self.thread);
        flag(KEYSPACE, call.keyspace != self.keyspace);
        flag(GROUP, call.group != 0);
        flag(END_KEY, call.end_key.is_some());
        flag(VALUE_LEN, value_len.is_some());
        flag(VALUE, value.is_some());
        flag(LATENCY, latency_nanos.is_some());
        flag(TTL, call.ttl_millis.is_some());
        flag(COUNT, call.count.is_some());
        flag(LIMIT, call.limit.is_some());
        flag(REVERSE, call.reverse);
        flag(KEYS_ONLY, call.keys_only);
        flag(OLDER_MOMENT, call.older_moment);
        let out = &mut self.raw;
        out.push(call.kind as u8);
        put_varint(out, flags);
        out.push(outcome_number(call.outcome));
        let difference = start_nanos.wrapping_sub(self.start_nanos) as i64;
        put_varint(out, zigzag(difference));
        let shared = shared_prefix(&self.key, call.key);
        put_varint(out, shared as u64);
        put_bytes(out, &call.key[shared..]);
        let numbers = [
            (THREAD, u64::from(thread)),
            (KEYSPACE, u64::from(call.keyspace)),
            (GROUP, call.group),
        ];
        put_flagged(out, flags, &numbers);
        if let Some(end_key) = call.end_key {
            put_bytes(out, end_key);
        }
        put_flagged(out, flags, &[(VALUE_LEN, value_len.unwrap_or_default())]);
        if let Some(value) = value {
            put_bytes(out, value);
        }
        let numbers = [
            (LATENCY, latency_nanos.unwrap_or_default()),
            (TTL, call.ttl_millis.unwrap_or_default()),
            (COUNT, call.count.unwrap_or_default()),
            (LIMIT, call.limit.unwrap_or_default()),
        ];
        put_flagged(out, flags, &numbers);
        put_outcome(out, call.outcome);
        self.operations += 1;
        self.thread = thread;
        self.keyspace = call.keyspace;
        self.start_nanos = start_nanos;
        self.key.truncate(shared);
        self.key.extend_from_slice(&call.key[shared..]);
        Ok(())
    }
}

fn check(call: &Call<'_>) -> Result<()> {
    let longest = call.key.len().max(call.end_key.map_or(0, <[u8]>::len));
    match longest <= KEY_BYTES_MAX {
        true => Ok(()),
        false => {
            let message = format!("a key of {longest} bytes; a trace takes {KEY_BYTES_MAX}");
            Err(Error::new(ErrorKind::TooLarge, message))
        }
    }
}

fn put_flagged(out: &mut Vec<u8>, flags: u64, numbers: &[(u64, u64)]) {
    for &(flag, number) in numbers {
        if flags & flag != 0 {
            put_varint(out, number);
        }
    }
}

#[inline]
fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn outcome_number(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Unknown => UNKNOWN,
        Outcome::Done => DONE,
        Outcome::Absent => ABSENT,
        Outcome::Present { len: None, .. } => PRESENT,
        Outcome::Present { hash: None, .. } => PRESENT_LEN,
        Outcome::Present { .. } => PRESENT_HASH,
        Outcome::Failed(_) => FAILED,
    }
}

fn put_outcome(out: &mut Vec<u8>, outcome: Outcome) {
    match outcome {
        Outcome::Present {
            len: Some(len),
            hash,
        } => {
            put_varint(out, len);
            if let Some(hash) = hash {
                out.extend_from_slice(&hash.to_le_bytes());
            }
        }
        Outcome::Failed(failure) => out.push(failure as u8),
        _ => {}
    }
}

/// Gives the operations of a frame in order.
#[derive(Default)]
pub(crate) struct Decoder {
    /// The bytes of the frame, and where the next operation begins.
    pub(crate) raw: Vec<u8>,
    pub(crate) at: usize,
}

impl Decoder {
    /// Begins a frame. Its bytes are in `raw`.
    pub(crate) fn begin(&mut self, operation: &mut Operation) {
        self.at = 0;
        operation.thread = 0;
        operation.keyspace = 0;
        operation.start_nanos = 0;
        operation.key.clear();
    }

    /// Puts the next operation into the place of the one before it in the same frame. `None` if the
    /// bytes are no operation.
    pub(crate) fn next(&mut self, operation: &mut Operation) -> Option<()> {
        let before = self.raw.get(self.at..)?;
        let mut input = Input::new(before);
        read(&mut input, operation)?;
        self.at += before.len() - input.rest.len();
        Some(())
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.raw.len()
    }
}

fn read(input: &mut Input<'_>, operation: &mut Operation) -> Option<()> {
    operation.kind = Kind::of_number(input.byte()?)?;
    let flags = input.varint()?;
    if flags & !KNOWN != 0 {
        return None;
    }
    let outcome = input.byte()?;
    let difference = unzigzag(input.varint()?);
    operation.start_nanos = operation.start_nanos.wrapping_add(difference as u64);
    let shared = usize::try_from(input.varint()?).ok()?;
    let rest = input.bytes()?;
    if shared > operation.key.len() || shared + rest.len() > KEY_BYTES_MAX {
        return None;
    }
    operation.key.truncate(shared);
    operation.key.extend_from_slice(rest);
    let has = |flag| flags & flag != 0;
    if has(THREAD) {
        operation.thread = input.varint_u32()?;
    }
    if has(KEYSPACE) {
        operation.keyspace = input.varint_u32()?;
    }
    operation.group = flagged(input, has(GROUP))?.unwrap_or_default();
    operation.end_key = match has(END_KEY) {
        true => Some(bytes_up_to(input, KEY_BYTES_MAX)?),
        false => None,
    };
    operation.value_len = flagged(input, has(VALUE_LEN))?;
    operation.value = match has(VALUE) {
        true => Some(bytes_up_to(input, VALUE_BYTES_MAX)?),
        false => None,
    };
    // A writer writes the length. A reader that looks only at lengths must not miss a value in a
    // trace that somebody else made.
    let own_len = operation.value.as_ref().map(|value| value.len() as u64);
    operation.value_len = operation.value_len.or(own_len);
    operation.latency_nanos = flagged(input, has(LATENCY))?;
    operation.ttl_millis = flagged(input, has(TTL))?;
    operation.count = flagged(input, has(COUNT))?;
    operation.limit = flagged(input, has(LIMIT))?;
    operation.reverse = has(REVERSE);
    operation.keys_only = has(KEYS_ONLY);
    operation.older_moment = has(OLDER_MOMENT);
    operation.outcome = read_outcome(input, outcome)?;
    Some(())
}

fn bytes_up_to(input: &mut Input<'_>, limit: usize) -> Option<Vec<u8>> {
    let bytes = input.bytes()?;
    (bytes.len() <= limit).then(|| bytes.to_vec())
}

fn flagged(input: &mut Input<'_>, is_there: bool) -> Option<Option<u64>> {
    Some(match is_there {
        true => Some(input.varint()?),
        false => None,
    })
}

fn read_outcome(input: &mut Input<'_>, number: u8) -> Option<Outcome> {
    Some(match number {
        UNKNOWN => Outcome::Unknown,
        DONE => Outcome::Done,
        ABSENT => Outcome::Absent,
        PRESENT => Outcome::Present {
            len: None,
            hash: None,
        },
        PRESENT_LEN => Outcome::Present {
            len: Some(input.varint()?),
            hash: None,
        },
        PRESENT_HASH => Outcome::Present {
            len: Some(input.varint()?),
            hash: Some(input.u64()?),
        },
        FAILED => Outcome::Failed(Failure::of_number(input.byte()?)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every writer writes the length, but a forged trace may lack it.
    #[test]
    fn a_value_has_its_length_whether_it_is_said_or_not() {
        let mut decoder = Decoder::default();
        decoder.raw.push(Kind::Put as u8);
        put_varint(&mut decoder.raw, VALUE);
        decoder.raw.extend_from_slice(&[DONE, 0, 0]);
        put_bytes(&mut decoder.raw, b"key");
        put_bytes(&mut decoder.raw, b"value");
        let mut operation = Operation::new(Kind::Get, Vec::new());
        decoder.begin(&mut operation);
        assert_eq!(decoder.next(&mut operation), Some(()));
        assert_eq!(operation.value.as_deref(), Some(&b"value"[..]));
        assert_eq!(operation.value_len, Some(5));
    }
}
