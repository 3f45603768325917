//! Exports of keyspaces as sorted files, and their imports.

use super::summary::Summary;
use crate::border::handle::free_slot;
use crate::border::{
    Bytes, ErrorPlace, Place, Slot, Status, Text, call, call_mut, call_take, plain,
};
use crate::calls::keyspace::KeyspaceHandle;
use crate::calls::reads::{ValueHandle, give_bytes};
use evendb::ExportWriter;

/// `evendb_export_writer`.
pub type ExportHandle = Slot<ExportWriter>;

#[unsafe(no_mangle)]
extern "C" fn evendb_export(
    keyspace: Option<&KeyspaceHandle>,
    directory: Text,
    summary: Place<'_, *mut Slot<Summary>>,
    error: ErrorPlace<'_>,
) -> Status {
    let summary = summary.cleared();
    call(keyspace, error, |keyspace| {
        let done = keyspace.export(directory.path("directory")?)?;
        summary.give(|| Summary::of_export(&done));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_import(
    keyspace: Option<&KeyspaceHandle>,
    directory: Text,
    summary: Place<'_, *mut Slot<Summary>>,
    error: ErrorPlace<'_>,
) -> Status {
    let summary = summary.cleared();
    call(keyspace, error, |keyspace| {
        let directory = directory.path("directory")?;
        let done = keyspace.import(directory)?;
        summary.give(|| Summary::of_ingest(&done));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_export_property(
    directory: Text,
    name: Text,
    property: Place<'_, *mut ValueHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let property = property.cleared();
    plain(error, || {
        property.needed("property")?;
        let mut all = evendb::exported_properties(directory.path("directory")?)?;
        property.fill(give_bytes(all.remove(name.str("name")?)));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_export_writer_create(
    directory: Text,
    writer: Place<'_, *mut ExportHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let writer = writer.cleared();
    plain(error, || {
        writer.needed("writer")?;
        writer.fill(Slot::give(ExportWriter::create(
            directory.path("directory")?,
        )?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_export_writer_put(
    writer: Option<&ExportHandle>,
    key: Bytes,
    key_size: usize,
    value: Bytes,
    value_size: usize,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(writer, error, |writer| {
        let (key, value) = (key.of(key_size, "key")?, value.of(value_size, "value")?);
        Ok(writer.put(key, value)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_export_writer_finish(
    writer: Option<&ExportHandle>,
    summary: Place<'_, *mut Slot<Summary>>,
    error: ErrorPlace<'_>,
) -> Status {
    let summary = summary.cleared();
    call_take(writer, error, |writer| {
        let done = writer.finish()?;
        summary.give(|| Summary::of_export(&done));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_export_writer_free(writer: *mut ExportHandle) {
    free_slot(writer);
}
