//! Small files that stand for large content.

use crate::making::{RocksDb, bytes as with_len};
use crate::{import, peak_of};
use evendb_trace::formats::Format;
use evendb_trace::{Header, Kind, NAMES_BYTES_MAX, Operation, Reader, Writer};

/// Names beyond the limits are passed over, in memory that the limits bound.
#[test]
fn names_of_keyspaces_are_bounded() {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    let long = "n".repeat(4000);
    for number in 0..3000 {
        writer.name_keyspace(number, &long).unwrap();
    }
    // Longer than any name may be, and a name that is replaced.
    writer.name_keyspace(1, &"n".repeat(5000)).unwrap();
    writer.name_keyspace(2, "short").unwrap();
    writer.add(&Operation::new(Kind::Get, "k")).unwrap();
    let bytes = writer.finish().unwrap().0;
    let ((read, names, losses), peak) = peak_of(|| {
        let mut reader = Reader::new(&bytes[..]).unwrap();
        let read = reader.operations().count();
        let names: usize = reader.keyspaces().values().map(String::len).sum();
        assert_eq!(reader.keyspaces()[&2], "short");
        (read, names, reader.losses())
    });
    assert_eq!(read, 1);
    let taken = (NAMES_BYTES_MAX / 4000) as u64;
    assert!(names <= NAMES_BYTES_MAX && losses.names_passed_over == 3000 - taken + 1);
    assert!(peak < NAMES_BYTES_MAX + (4 << 20), "{peak} bytes of memory");
}

/// A batch of the smallest writes there are does not become a list of operations.
#[test]
fn a_batch_of_millions_of_writes_takes_the_memory_of_its_record() {
    let count = 2_000_000_u32;
    let mut records = Vec::new();
    for _ in 0..count {
        records.push(0);
        with_len(&mut records, b"");
    }
    let mut trace = RocksDb::new(1);
    trace.write(count, &records);
    trace.record(2, b"");
    let (imported, peak) = peak_of(|| import(Format::RocksDb, &trace.out, &mut |_| {}).unwrap());
    assert_eq!(imported.operations, u64::from(count) + 1);
    assert!(peak < 4 * trace.out.len(), "{peak} bytes of memory");
}
