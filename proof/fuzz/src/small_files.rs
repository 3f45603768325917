//! Small files beside a database's own: lists of backups and exports, properties of an export,
//! `HEAT`, `KEYS`.

use crate::bytes::Input;
use evendb_storage::codec::checksum;

/// Memory budgets for which `HEAT` is read: the least, and one for which it may be long.
const BUDGETS: [u64; 2] = [1 << 20, 1 << 30];

/// The forms of the first byte: from this bit on, the file. The bit below says whether the checksum
/// is corrected.
pub(crate) const LIST: u8 = 0;
pub(crate) const PROPERTIES: u8 = 1 << 1;
pub(crate) const HEAT: u8 = 2 << 1;
pub(crate) const KEYS: u8 = 3 << 1;
/// The place of the checksum of `HEAT`, and the beginning of the bytes that it covers.
const HEAT_SUM_AT: usize = 8;
const HEAT_BODY_AT: usize = 20;

/// Everything that is read is written in the same way, and is the same when it is read again.
pub(crate) fn small_files(data: &[u8]) {
    let mut input = Input(data);
    let form = input.byte();
    let mut bytes = input.0.to_vec();
    if form & 1 == 1 {
        seal(form, &mut bytes);
    }
    is_read(form, &bytes);
}

/// Whether a file of this form is valid. Its content must stay the same when it is written again.
pub(crate) fn is_read(form: u8, bytes: &[u8]) -> bool {
    match form & 6 {
        LIST => {
            let once = evendb::fuzzing::list_again(bytes).ok();
            if let Some(once) = &once {
                let twice = evendb::fuzzing::list_again(once).ok();
                assert_eq!(twice.as_ref(), Some(once), "a list that was written again");
            }
            once.is_some()
        }
        PROPERTIES => evendb::fuzzing::properties(bytes).is_some(),
        HEAT => BUDGETS.iter().all(|&budget| {
            let once = evendb::fuzzing::heat_again(bytes, budget);
            if let Some(once) = &once {
                let twice = evendb::fuzzing::heat_again(once, budget);
                assert_eq!(twice.as_ref(), Some(once), "spans that were written again");
            }
            once.is_some()
        }),
        _ => {
            let once = evendb::fuzzing::keys_again(bytes);
            let is_same = once.as_ref().is_none_or(|once| once == bytes);
            assert!(is_same, "a second form of KEYS");
            once.is_some()
        }
    }
}

/// Corrects the checksum of a file, by its form.
pub(crate) fn seal(form: u8, bytes: &mut [u8]) {
    match form & 6 {
        PROPERTIES => {}
        HEAT if bytes.len() >= HEAT_BODY_AT => {
            let len = (bytes.len() - HEAT_BODY_AT) as u64;
            bytes[HEAT_SUM_AT + 4..HEAT_BODY_AT].copy_from_slice(&len.to_le_bytes());
            let sum = checksum(0, &[&bytes[HEAT_BODY_AT..]]);
            bytes[HEAT_SUM_AT..HEAT_SUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
        }
        HEAT => {}
        _ => {
            if let Some((covered, crc)) = bytes.split_last_chunk_mut::<4>() {
                *crc = checksum(0, &[covered]).to_le_bytes();
            }
        }
    }
}
