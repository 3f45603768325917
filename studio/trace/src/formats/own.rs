//! This crate's own format, read like the others: what was lost counts as bad.

use super::Imported;
use crate::error::Result;
use crate::operation::Operation;
use crate::reader::Reader;
use std::io::BufRead;

pub(super) fn read(
    from: &mut dyn BufRead,
    each: &mut dyn FnMut(&Operation) -> Result<()>,
) -> Result<Imported> {
    let mut reader = Reader::new(from)?;
    let mut imported = Imported::default();
    let mut latest = 0;
    while let Some(operation) = reader.next()? {
        match operation.start_nanos < latest {
            true => imported.times_back += 1,
            false => latest = operation.start_nanos,
        }
        each(operation)?;
        imported.operations += 1;
    }
    let losses = reader.losses();
    imported.is_torn = losses.is_torn || losses.has_no_end;
    if !losses.is_nothing() {
        imported.bad = losses.damaged_places.max(1);
        imported.first_bad = Some(losses.to_string());
    }
    Ok(imported)
}
