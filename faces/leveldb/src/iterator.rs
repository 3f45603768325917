//! Iterators: `leveldb_iter_*`.
//!
//! LevelDB's iterator is at a record and goes either way from there; a cursor of EvenDB goes one
//! way. So an iterator has up to two cursors over one moment. Each is made when it is first needed:
//!
//! ```text
//!                 the record that the iterator is at
//! keys  . . . . . . . . . . [k] . . . . . . . . . .
//!                       <- backward | forward ->
//! ```
//!
//! The cursor that gave the record lends it until it moves. When the direction changes, the other
//! cursor seeks the record's key, returns it once more, and then goes on. An error ends the
//! iterator: it is at no record, and has the error.

use crate::engine::Moment;
use crate::error::{Error, ErrorPlace, Result, tell};
use crate::memory::slice;
use evendb::Cursor;
use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// `leveldb_iterator_t`.
pub struct Iterator {
    moment: Option<Arc<Moment>>,
    forward: Option<Cursor>,
    backward: Option<Cursor>,
    at: Option<Record>,
    error: Option<Error>,
}

/// A record that a cursor lends: the cursor of this way, which has not been called since.
#[derive(Clone, Copy)]
struct Record {
    given_by: Way,
    key: *const [u8],
    value: *const [u8],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Forward,
    Backward,
}

impl Iterator {
    pub(crate) fn new(moment: Result<Arc<Moment>>) -> Iterator {
        let (moment, error) = match moment {
            Ok(moment) => (Some(moment), None),
            Err(error) => (None, Some(error)),
        };
        Iterator {
            moment,
            forward: None,
            backward: None,
            at: None,
            error,
        }
    }

    /// The cursor of a way, unless the iterator has ended with an error.
    fn cursor(&mut self, way: Way) -> Option<&mut Cursor> {
        let moment = self.moment.as_ref().filter(|_| self.error.is_none())?;
        let cursor = match way {
            Way::Forward => &mut self.forward,
            Way::Backward => &mut self.backward,
        };
        Some(cursor.get_or_insert_with(|| moment.cursor()))
    }

    /// Moves to the next record of a cursor.
    fn step(&mut self, way: Way) {
        // The lent record is invalid from here on.
        self.at = None;
        let Some(cursor) = self.cursor(way) else {
            return;
        };
        let given = match way {
            Way::Forward => cursor.next(),
            Way::Backward => cursor.next_back(),
        };
        let record = given.map(|record| {
            record.map(|(key, value)| Record {
                given_by: way,
                key: &raw const *key,
                value: &raw const *value,
            })
        });
        match record {
            Ok(record) => self.at = record,
            Err(error) => self.error = Some(error.into()),
        }
    }

    fn seek_to_first(&mut self) {
        self.seek(&[]);
    }

    fn seek_to_last(&mut self) {
        self.at = None;
        // There is no greatest key, so only a new cursor begins at the end.
        self.backward = None;
        self.step(Way::Backward);
    }

    fn seek(&mut self, key: &[u8]) {
        self.at = None;
        if let Some(cursor) = self.cursor(Way::Forward) {
            cursor.seek(key);
        }
        self.step(Way::Forward);
    }

    /// Moves to the neighbour of the record, if there is a record.
    fn go(&mut self, way: Way) {
        let Some(at) = self.at else { return };
        if at.given_by != way {
            // SAFETY: the cursor that lends the key is the one of the other way, and is not called
            // here.
            let key = unsafe { &*at.key };
            if let Some(cursor) = self.cursor(way) {
                match way {
                    Way::Forward => cursor.seek(key),
                    Way::Backward => cursor.seek_back(key),
                }
            }
            // The cursor is now at the record itself, which exists: both cursors see the same
            // moment.
            self.step(way);
        }
        self.step(way);
    }

    fn is_valid(&self) -> bool {
        self.at.is_some()
    }
}

/// Destroys an iterator. It may be destroyed after its database was closed.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_destroy(_iterator: Option<Box<Iterator>>) {}

/// Whether it is at a record.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_valid(iterator: &Iterator) -> u8 {
    iterator.is_valid().into()
}

/// Moves to the first record.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_seek_to_first(iterator: &mut Iterator) {
    iterator.seek_to_first();
}

/// Moves to the last record.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_seek_to_last(iterator: &mut Iterator) {
    iterator.seek_to_last();
}

/// Moves to the first record whose key is `key` or above.
///
/// # Safety
/// Bytes are as [the crate](crate) says. They may be the key that the iterator lends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_seek(
    iterator: &mut Iterator,
    key: *const c_char,
    key_len: usize,
) {
    // SAFETY: the caller's bytes. Bytes that a cursor lends stay valid until they are copied here.
    let key = unsafe { slice(key, key_len) }.to_vec();
    iterator.seek(&key);
}

/// Moves to the next record. An iterator at no record stays there.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_next(iterator: &mut Iterator) {
    iterator.go(Way::Forward);
}

/// Moves to the previous record. An iterator at no record stays there.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_prev(iterator: &mut Iterator) {
    iterator.go(Way::Backward);
}

/// The key of the record, lent until the iterator moves; NULL at no record.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_key(
    iterator: &Iterator,
    len: &mut MaybeUninit<usize>,
) -> *const c_char {
    lend(iterator.at.map(|record| record.key), len)
}

/// The value of the record, lent until the iterator moves; NULL at no record.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_value(
    iterator: &Iterator,
    len: &mut MaybeUninit<usize>,
) -> *const c_char {
    lend(iterator.at.map(|record| record.value), len)
}

fn lend(bytes: Option<*const [u8]>, len: &mut MaybeUninit<usize>) -> *const c_char {
    len.write(bytes.map_or(0, |bytes| bytes.len()));
    bytes.map_or(std::ptr::null(), <*const [u8]>::cast)
}

/// Returns the error that ended the iterator, if there is one.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_get_error(iterator: &Iterator, error: ErrorPlace<'_>) {
    tell(error, iterator.error.clone().map_or(Ok(()), Err));
}
