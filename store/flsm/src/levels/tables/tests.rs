use super::*;
use evendb_storage::table::Codec;
use evendb_storage::vfs::{Fault, FaultKind, FaultOn, SimVfs};
use evendb_storage::{ErrorKind, Kind, Version};

pub(crate) const FORM: TableForm = TableForm {
    options: TableOptions {
        block_bytes: 64,
        restart_interval: 4,
        codec: Codec::None,
        zstd_level: 1,
        filter_bits_per_key: 10,
    },
    past_cache: false,
    writes_ahead: 2,
};

pub(crate) fn sim_dir(vfs: &SimVfs) -> Arc<TableDir> {
    vfs.create_dir_all(Path::new("/db")).unwrap();
    TableDir::new(Arc::new(vfs.clone()), Path::new("/db"), TableLimits::NONE)
}

/// Key, version, kind, value.
pub(crate) type Record<'r> = (&'r [u8], u64, Kind, &'r [u8]);

/// A table with these records. Its file exists.
pub(crate) fn table_of(
    place: &Arc<TableDir>,
    number: u64,
    age: u64,
    records: &[Record<'_>],
) -> Arc<TableFile> {
    let mut output = TableOutput::create(place, TableId(number), FORM).unwrap();
    for &(key, version, kind, value) in records {
        let version = Version(version);
        let entry = EntryRef {
            key,
            version,
            kind,
            value,
        };
        output.add(entry).unwrap();
    }
    output.finish().unwrap().keep(Age(age))
}

fn some(place: &Arc<TableDir>, number: u64) -> Arc<TableFile> {
    table_of(place, number, number, &[(b"k", 1, Kind::Put, b"v")])
}

fn names(vfs: &SimVfs) -> Vec<String> {
    vfs.file_names(Path::new("/db"))
}

#[test]
fn a_table_is_read_back_and_knows_its_keys() {
    let place = sim_dir(&SimVfs::new(1));
    let table = some(&place, 7);
    assert!(table.covers(b"k") && !table.covers(b"j") && !table.covers(b"ka"));
    let found = table.open().unwrap().get(b"k", Version::MAX).unwrap();
    assert_eq!(found.unwrap().version, Version(1));
    assert!(Arc::ptr_eq(&table.open().unwrap(), &table.open().unwrap()));
}

#[test]
fn a_retired_table_goes_with_its_last_handle() {
    let vfs = SimVfs::new(1);
    let place = sim_dir(&vfs);
    let (stays, goes) = (some(&place, 1), some(&place, 2));
    let second = goes.clone();
    goes.retire();
    drop(goes);
    assert_eq!(names(&vfs), ["TABLE-000001", "TABLE-000002"]);
    assert!(second.open().is_ok());
    drop((second, stays));
    assert_eq!(names(&vfs), ["TABLE-000001"]);
}

#[test]
fn a_table_that_was_moved_goes_with_the_handles_of_both_places() {
    let vfs = SimVfs::new(1);
    let place = sim_dir(&vfs);
    let table = some(&place, 1);
    let moved = table.with_age(Age(9));
    assert_eq!((moved.number, moved.age), (TableId(1), Age(9)));
    assert!(Arc::ptr_eq(&moved.open().unwrap(), &table.open().unwrap()));
    drop(table);
    moved.retire();
    let last = moved.with_age(Age(10));
    drop(moved);
    assert_eq!(names(&vfs), ["TABLE-000001"]);
    drop(last);
    assert!(names(&vfs).is_empty());
}

#[test]
fn a_table_that_is_not_kept_leaves_no_file() {
    let vfs = SimVfs::new(1);
    let place = sim_dir(&vfs);
    drop(TableOutput::create(&place, TableId(1), FORM).unwrap());
    let output = TableOutput::create(&place, TableId(2), FORM).unwrap();
    drop(output.finish().unwrap());
    assert!(names(&vfs).is_empty());
    vfs.inject(Fault {
        at: 0,
        on: FaultOn::Sync,
        kind: FaultKind::Eio,
        sticky: false,
        path_contains: None,
    });
    let output = TableOutput::create(&place, TableId(3), FORM).unwrap();
    assert!(output.finish().is_err());
    assert!(names(&vfs).is_empty());
}

#[test]
fn a_failure_to_open_is_returned_and_tried_again() {
    let vfs = SimVfs::new(1);
    let place = sim_dir(&vfs);
    let table = some(&place, 1);
    let bytes = vfs.read_file(&table.path());
    vfs.write_file(&table.path(), Vec::new());
    assert_eq!(table.open().unwrap_err().kind(), ErrorKind::Corruption);
    vfs.write_file(&table.path(), bytes);
    assert!(table.open().is_ok());
}

#[test]
fn another_table_in_its_place_is_refused() {
    let vfs = SimVfs::new(1);
    let place = sim_dir(&vfs);
    let table = some(&place, 1);
    vfs.remove_file(&table.path());
    let other = table_of(&place, 1, 1, &[(b"k", 1, Kind::Put, b"w")]);
    assert_eq!(other.meta.len, table.meta.len);
    assert_eq!(table.open().unwrap_err().kind(), ErrorKind::Corruption);
    vfs.remove_file(&table.path());
    assert_eq!(table.open().unwrap_err().kind(), ErrorKind::Corruption);
}
