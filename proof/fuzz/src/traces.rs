//! Traces: EvenDB's own, and other formats.

use crate::bytes::Input;
use evendb_trace::formats::{self, Format, Imported};
use evendb_trace::{Error, ErrorKind, Header, InOrder, Operation, Reader, Writer};
use xxhash_rust::xxh3::Xxh3;

/// The highest number of operations that are read: a short input may stand for a large number. Then
/// an error of ours ends it.
const OPERATIONS_MAX: u64 = 20_000;

/// A trace. The first byte gives its format, and says whether checksums of EvenDB's format are
/// corrected.
pub fn trace(data: &[u8]) {
    let mut input = Input(data);
    let form = input.byte();
    let (_, format) = Format::NAMES[usize::from(form >> 1) % Format::NAMES.len()];
    let mut bytes = input.0.to_vec();
    if format == Format::EvenDb && form & 1 == 1 {
        reseal(&mut bytes);
    }
    let _ = formats::detect(&bytes);
    let mut kept = Vec::new();
    let imported = import(format, &bytes, &mut |operation| {
        if kept.len() < 50 {
            kept.push(operation.clone());
        }
    });
    if let Err(error) = &imported {
        let kinds = [
            ErrorKind::NotATrace,
            ErrorKind::UnsupportedVersion,
            ErrorKind::Damaged,
            ErrorKind::Io,
        ];
        assert!(kinds.contains(&error.kind()), "{error}");
    }
    if format == Format::EvenDb {
        own(&bytes, imported.as_ref().ok());
    }
    check_written(&kept);
}

/// Reads a source whole, or its first `OPERATIONS_MAX` operations.
fn import(
    format: Format,
    bytes: &[u8],
    each: &mut dyn FnMut(&Operation),
) -> Result<Imported, Error> {
    let mut given = 0;
    let imported = formats::read(format, &mut &bytes[..], &mut |operation| {
        given += 1;
        each(operation);
        match given < OPERATIONS_MAX {
            true => Ok(()),
            false => Err(std::io::Error::other("that is enough").into()),
        }
    })?;
    assert_eq!(imported.operations, given);
    assert_eq!(imported.bad > 0, imported.first_bad.is_some());
    Ok(imported)
}

/// A trace of EvenDB's format: lenient, strict and in order readers come to the same result.
fn own(bytes: &[u8], imported: Option<&Imported>) {
    let (Ok(mut lenient), Ok(strict)) = (Reader::new(bytes), Reader::new(bytes)) else {
        assert!(imported.is_none(), "an import reads");
        return;
    };
    let mut strict = strict.strict();
    let (mut count, mut is_refused) = (0, false);
    loop {
        assert!(count <= OPERATIONS_MAX * 100, "it does not end");
        let next = lenient.next().expect("memory is read");
        if !is_refused {
            match strict.next() {
                Ok(same) => assert_eq!(same, next, "a strict reader gives the same"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
                    is_refused = true;
                }
            }
        }
        match next {
            Some(_) => count += 1,
            None => break,
        }
    }
    let mut losses = lenient.losses();
    losses.names_passed_over = 0;
    assert_eq!(is_refused, !losses.is_nothing(), "{losses:?}");
    if let Some(imported) = imported {
        assert_eq!(imported.operations, count);
    }
    if let Some(end) = lenient.end() {
        assert!(count.saturating_add(losses.missing_operations) >= end.recorded);
    }
    let reader = Reader::new(bytes).expect("it was read before");
    let in_order = InOrder::new(reader, 1 << 16).filter(Result::is_ok).count();
    assert_eq!(in_order as u64, count, "in order it is as many");
}

/// Operations of a reader are written and read back unchanged.
fn check_written(operations: &[Operation]) {
    let mut writer = Writer::new(Vec::new(), &Header::default()).expect("memory takes it");
    let mut written = Vec::new();
    for operation in operations {
        if writer.add(operation).is_ok() {
            written.push(operation);
        }
    }
    let (bytes, _) = writer.finish().expect("memory takes it");
    let mut reader = Reader::new(&bytes[..]).expect("what was written").strict();
    for operation in written {
        let read = reader.next().expect("what was written");
        assert_eq!(read, Some(operation), "what was written is read back");
    }
    assert_eq!(reader.next().expect("what was written"), None);
}

fn sum(head: &[u8], body: &[u8]) -> [u8; 8] {
    let mut hasher = Xxh3::new();
    hasher.update(head);
    hasher.update(body);
    hasher.digest().to_le_bytes()
}

/// Corrects the checksums of a trace's header and frames: their lengths stay, up to the first that
/// reaches beyond the end.
fn reseal(bytes: &mut [u8]) {
    const HEADER: usize = 24;
    const FRAME: usize = 32;
    let number = |bytes: &[u8], at: usize| {
        let field = bytes[at..].first_chunk::<4>();
        field.map_or(u32::MAX, |field| u32::from_le_bytes(*field)) as usize
    };
    let mut at = 0;
    let (mut fixed, mut len_at) = (HEADER, 12);
    while bytes.len().saturating_sub(at) >= fixed {
        let len = number(bytes, at + len_at);
        let Some(part) = bytes[at..].get_mut(..fixed.saturating_add(len)) else {
            return;
        };
        let (head, rest) = part.split_at_mut(fixed - 8);
        let (crc, body) = rest.split_at_mut(8);
        crc.copy_from_slice(&sum(head, body));
        at += fixed + len;
        (fixed, len_at) = (FRAME, 8);
    }
}
