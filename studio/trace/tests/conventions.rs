//! What is believed of other formats beyond their lines: times, sizes of reads, conditions of puts,
//! marks at the beginning of a text.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod making;

use evendb_trace::formats::{self, Format, Imported, ReadSizes};
use evendb_trace::{Header, Kind, Operation, Outcome, Reader, Times, Writer};
use making::some_trace;

fn read_with(format: Format, sizes: ReadSizes, bytes: &[u8]) -> (Vec<Operation>, Imported) {
    let mut all = Vec::new();
    let imported = formats::read_with(format, sizes, &mut &bytes[..], &mut |one| {
        all.push(one.clone());
        Ok(())
    });
    (all, imported.unwrap())
}

fn read(format: Format, text: &str) -> (Vec<Operation>, Imported) {
    read_with(format, ReadSizes::Found, text.as_bytes())
}

/// Trouble of others, line 2: the convention that 0 is a miss can be turned off. Hits that the
/// trace counts are believed all the same.
#[test]
fn sizes_of_reads_are_ignored_where_that_is_asked_for() {
    let outcomes = |format, text: &str| -> Vec<Outcome> {
        let (all, _) = read_with(format, ReadSizes::Ignored, text.as_bytes());
        all.iter().map(|one| one.outcome).collect()
    };
    let twitter = "0,k,3,250,1,get,0\n0,k,3,0,1,get,0\n";
    assert_eq!(outcomes(Format::TwitterCsv, twitter), [Outcome::Unknown; 2]);
    let meta = "key,op,size\nk,GET,104\nk,GET,0\n";
    assert_eq!(outcomes(Format::MetaCsv, meta), [Outcome::Unknown; 2]);
    let counted = "key,op,size,op_count,cache_hits\nk,GET,104,2,1\n";
    let present = Outcome::Present {
        len: Some(104),
        hash: None,
    };
    assert_eq!(
        outcomes(Format::MetaCsv, counted),
        [present, Outcome::Absent]
    );
    assert!(Format::TwitterCsv.has_read_sizes() && !Format::RocksDb.has_read_sizes());
}

/// Trouble of others, line 9: what a time is worth is known before the first operation.
#[test]
fn a_format_says_how_far_its_times_can_be_believed() {
    let times = |format: Format, begin: &str| format.times(begin.as_bytes());
    assert_eq!(times(Format::RocksDb, ""), Times::Exact);
    assert_eq!(
        times(Format::TwitterCsv, "0,k,1,2,3,get,0\n"),
        Times::Seconds
    );
    assert_eq!(
        times(Format::MetaCsv, "\nop_time,key,op,size\n"),
        Times::Seconds
    );
    assert_eq!(
        times(Format::MetaCsv, "\u{feff}op_time,key,op,size\n"),
        Times::Seconds
    );
    assert_eq!(
        times(Format::MetaCsv, "key,op,size\n1,GET,2\n"),
        Times::Order
    );
    assert_eq!(
        times(Format::YcsbText, "READ usertable user1\n"),
        Times::Order
    );
    for times in [Times::Exact, Times::Seconds, Times::Order] {
        let header = Header {
            one_in: 1,
            times,
            has_values: true,
            ..Header::default()
        };
        let bytes = Writer::new(Vec::new(), &header)
            .unwrap()
            .finish()
            .unwrap()
            .0;
        assert_eq!(Reader::new(&bytes[..]).unwrap().header(), &header);
    }
}

#[test]
fn rocksdbs_traces_begin_at_a_wall_clock_and_caches_do_not() {
    assert_eq!(Format::RocksDb.wall_clock_millis(&some_trace(2)), 1000);
    let text = b"no line\n0x6B31 1 2 100 1700000000123456\n";
    assert_eq!(
        Format::RocksDbText.wall_clock_millis(text),
        1_700_000_000_123
    );
    assert_eq!(
        Format::TwitterCsv.wall_clock_millis(b"5,k,1,2,3,get,0\n"),
        0
    );
    assert_eq!(Format::RocksDb.wall_clock_millis(b""), 0);
}

/// Trouble of others, line 38: a file of one line, a heading, a mark of the order of bytes, other
/// ends of lines, a blank line and a comment. No operation is lost, and what is none is told.
#[test]
fn no_first_line_of_a_text_is_lost() {
    let line = "7,k,1,250,3,get,0";
    let cases = [
        (line.to_owned(), 0),
        (format!("{line}\n"), 0),
        (format!("\u{feff}{line}\r\n"), 0),
        (format!("\r\n{line}\r\n"), 0),
        (format!("time,key,key size,size,client,op,ttl\n{line}\n"), 1),
        (format!("# a comment\n{line}\n"), 1),
    ];
    for (text, bad) in cases {
        assert_eq!(
            formats::detect(text.as_bytes()),
            Some(Format::TwitterCsv),
            "{text:?}"
        );
        let (all, imported) = read(Format::TwitterCsv, &text);
        assert_eq!((all.len(), imported.bad), (1, bad), "{text:?}");
        assert_eq!(all[0].key, b"k", "{text:?}");
    }
    let meta = "\u{feff}key,op,size\nk,GET,5\n";
    assert_eq!(formats::detect(meta.as_bytes()), Some(Format::MetaCsv));
    assert_eq!(read(Format::MetaCsv, meta).0.len(), 1);
}

/// Trouble of others, line 40: one of each kind of Twitter's, and none is dropped in silence.
#[test]
fn kinds_without_a_counterpart_are_counted_by_name() {
    let names = [
        "get", "gets", "set", "add", "replace", "cas", "append", "prepend", "delete", "incr",
        "decr",
    ];
    let text: String = names
        .iter()
        .map(|name| format!("0,k,1,9,1,{name},0\n"))
        .collect();
    let (all, imported) = read(Format::TwitterCsv, &text);
    assert_eq!((all.len(), imported.bad), (names.len(), 0));
    let puts: Vec<_> = imported.as_puts.into_iter().collect();
    assert_eq!(puts, [("add", 1), ("cas", 1), ("replace", 1)]);
    assert_eq!(imported.as_merges.len(), 4);
    let count = |kind| all.iter().filter(|one| one.kind == kind).count();
    use Kind::{Delete, Get, Merge, Put};
    assert_eq!([Get, Put, Merge, Delete].map(count), [2, 4, 4, 1]);
}

/// Trouble of others, line 10: lines that stand for several operations, and sizes of keys.
#[test]
fn counts_and_sizes_of_keys_of_metas_lines_are_as_written() {
    let text = "key,op,size,op_count,key_size\n\
                k,GET,5,1,1\nk,GET,5,4,3\nk,SET,5,65535,0\nk,GET,5,0,1\nk,GET,5,,1\nkk,GET,5,1,1000000000\n";
    let (all, imported) = read(Format::MetaCsv, text);
    assert_eq!(imported.operations, 1 + 4 + 65_535 + 1 + 1);
    assert_eq!((imported.bad, imported.counted), (1, 4 + 65_535));
    assert_eq!(imported.first_bad.unwrap(), "line 5: 0 operations");
    let lens: Vec<_> = [0, 1, 5, 65_540, 65_541]
        .map(|at: usize| all[at].key.len())
        .into();
    // A size of a gigabyte is not believed.
    assert_eq!(lens, [1, 3, 1, 1, 2]);
}

/// Trouble of others, line 37: columns that are empty for long, and a file with other columns
/// behind the first one.
#[test]
fn metas_columns_are_read_by_their_names_also_when_they_change() {
    let mut text = "op_time,key,op,size,ttl\n".to_owned();
    text.push_str(&"1,k,SET,5,\n".repeat(70_000));
    text.push_str("1,k,SET,5,60\nkey,size,op\nlate,7,SET\n");
    let (all, imported) = read(Format::MetaCsv, &text);
    assert_eq!((all.len(), imported.bad), (70_002, 0));
    assert_eq!(all[69_999].ttl_millis, None);
    assert_eq!(all[70_000].ttl_millis, Some(60_000));
    assert_eq!(
        (&all[70_001].key[..], all[70_001].value_len),
        (&b"late"[..], Some(7))
    );
}
