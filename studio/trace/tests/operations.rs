//! Operations of all shapes, written, read, cut off and damaged.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use evendb_trace::{
    ErrorKind, Failure, Header, InOrder, Kind, Losses, Operation, Outcome, Reader, Writer,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Unknown),
        Just(Outcome::Done),
        Just(Outcome::Absent),
        Just(Outcome::Failed(Failure::Conflict)),
        (option::of(any::<u64>()), any::<u64>(), any::<bool>()).prop_map(|(len, hash, has)| {
            let hash = len.filter(|_| has).map(|_| hash);
            Outcome::Present { len, hash }
        }),
    ]
}

prop_compose! {
    fn operation()(
        kind in 0..Kind::ALL.len(),
        (keyspace, thread, start_nanos) in (0..3_u32, 0..3_u32, any::<u64>()),
        latency_nanos in option::of(any::<u64>()),
        key in vec(0..3_u8, 0..12),
        end_key in option::of(vec(any::<u8>(), 0..5)),
        group in prop_oneof![Just(0), any::<u64>()],
        value in option::of(vec(any::<u8>(), 0..40)),
        value_len in option::of(any::<u64>()),
        (ttl_millis, count, limit) in (option::of(any::<u64>()), option::of(any::<u64>()), option::of(any::<u64>())),
        (reverse, keys_only, older_moment) in any::<(bool, bool, bool)>(),
        outcome in outcome(),
    ) -> Operation {
        let len = value.as_ref().map(|value: &Vec<u8>| value.len() as u64);
        let mut operation = Operation::new(Kind::ALL[kind], key);
        operation.keyspace = keyspace;
        operation.thread = thread;
        operation.start_nanos = start_nanos;
        operation.latency_nanos = latency_nanos;
        operation.end_key = end_key;
        operation.group = group;
        operation.value_len = value_len.or(len);
        operation.value = value;
        operation.ttl_millis = ttl_millis;
        operation.count = count;
        operation.limit = limit;
        operation.reverse = reverse;
        operation.keys_only = keys_only;
        operation.older_moment = older_moment;
        operation.outcome = outcome;
        operation
    }
}

/// A trace in frames of this number of operations.
fn written(operations: &[Operation], frame: usize) -> Vec<u8> {
    let header = Header {
        one_in: 1,
        source: "a test".to_owned(),
        keyspaces: [(0, "default".to_owned())].into(),
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    for (number, operation) in operations.iter().enumerate() {
        if number > 0 && number % frame == 0 {
            // Ends the frame.
            writer.name_keyspace(number as u32, "another").unwrap();
        }
        writer.add(operation).unwrap();
    }
    writer.finish().unwrap().0
}

/// The operations and losses of a reader. It must end.
fn read(bytes: &[u8]) -> (Vec<Operation>, Losses) {
    let mut reader = Reader::new(bytes).unwrap();
    let operations = reader.operations().collect::<Result<_, _>>().unwrap();
    (operations, reader.losses())
}

/// Whether `part` is `whole` with some left out.
fn is_part(part: &[Operation], whole: &[Operation]) -> bool {
    let mut left = whole.iter();
    part.iter().all(|one| left.any(|other| one == other))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn operations_come_back(operations in vec(operation(), 0..60), frame in 1..20_usize) {
        let bytes = written(&operations, frame);
        let (read, losses) = read(&bytes);
        prop_assert!(losses.is_nothing(), "{:?}", losses);
        prop_assert_eq!(read, operations);
        let mut strict = Reader::new(&bytes[..]).unwrap().strict();
        while strict.next().unwrap().is_some() {}
    }

    /// Cut anywhere: whole frames before the cut come, nothing else, and the loss is told.
    #[test]
    fn a_torn_trace_gives_what_came_before(
        operations in vec(operation(), 1..60),
        frame in 1..20_usize,
        cut in any::<prop::sample::Index>(),
    ) {
        let bytes = written(&operations, frame);
        let header = written(&[], 1).len() - 36;
        let cut = header + cut.index(bytes.len() - header);
        match Reader::new(&bytes[..cut]) {
            Err(error) => prop_assert!(matches!(error.kind(), ErrorKind::NotATrace | ErrorKind::Damaged)),
            Ok(_) => {
                let (read, losses) = read(&bytes[..cut]);
                prop_assert!(operations.starts_with(&read));
                prop_assert!(losses.has_no_end);
                let strict = Reader::new(&bytes[..cut]).unwrap().strict();
                let mut strict = strict;
                let error = loop {
                    match strict.next() {
                        Ok(Some(_)) => {}
                        Ok(None) => break None,
                        Err(error) => break Some(error.kind()),
                    }
                };
                prop_assert_eq!(error, Some(ErrorKind::Damaged));
            }
        }
    }

    /// A flipped bit costs its frame, and is told.
    #[test]
    fn a_flipped_bit_costs_a_frame(
        operations in vec(operation(), 1..60),
        frame in 1..20_usize,
        (place, bit) in (any::<prop::sample::Index>(), 0..8),
    ) {
        let mut bytes = written(&operations, frame);
        let place = place.index(bytes.len());
        bytes[place] ^= 1_u8 << bit;
        if let Ok(mut reader) = Reader::new(&bytes[..]) {
            let read: Vec<_> = reader.operations().collect::<Result<_, _>>().unwrap();
            prop_assert!(!reader.losses().is_nothing(), "place {}", place);
            prop_assert!(is_part(&read, &operations));
            prop_assert!(read.len() + frame >= operations.len(), "{:?}", reader.losses());
        }
    }

    /// A removed frame is missed.
    #[test]
    fn any_bytes_behind_a_header_end_without_panic(rest in vec(any::<u8>(), 0..300), cut in 0..40_usize) {
        let mut bytes = written(&[Operation::new(Kind::Get, "k")], 1);
        bytes.truncate(bytes.len() - cut.min(bytes.len() - 60));
        bytes.extend_from_slice(&rest);
        if let Ok(mut reader) = Reader::new(&bytes[..]) {
            while reader.next().unwrap().is_some() {}
        }
        if let Ok(mut reader) = Reader::new(&rest[..]) {
            while reader.next().unwrap().is_some() {}
        }
    }

    #[test]
    fn in_order_gives_all_and_by_time(operations in vec(operation(), 0..80), memory in 0..20_000_usize) {
        let bytes = written(&operations, 7);
        let mut ordered = InOrder::new(Reader::new(&bytes[..]).unwrap(), memory);
        let given: Vec<_> = ordered.by_ref().collect::<Result<_, _>>().unwrap();
        let late = ordered.late();
        let back = given.windows(2).filter(|pair| pair[1].start_nanos < pair[0].start_nanos).count();
        prop_assert!(late >= back as u64);
        let mut all = InOrder::new(Reader::new(&bytes[..]).unwrap(), 1 << 30);
        let sorted: Vec<_> = all.by_ref().collect::<Result<_, _>>().unwrap();
        let mut expected = operations.clone();
        expected.sort_by_key(|operation| operation.start_nanos);
        prop_assert_eq!((sorted, all.late()), (expected, 0));
        prop_assert_eq!(given.len(), operations.len());
    }
}

/// Where each frame begins, by its marker and lengths.
fn frames(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let body = u32::from_le_bytes(bytes[12..16].try_into().unwrap());
    let (mut at, mut frames) = (24 + body as usize, Vec::new());
    while at < bytes.len() {
        let stored = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap());
        let end = at + 32 + stored as usize;
        frames.push(at..end);
        at = end;
    }
    frames
}

fn some(count: u32) -> Vec<Operation> {
    let each = (0..count).map(|number| Operation::new(Kind::Get, number.to_le_bytes()));
    each.collect()
}

#[test]
fn a_frame_that_is_missing_is_missed() {
    let operations = some(100);
    let bytes = written(&operations, 10);
    let frames = frames(&bytes);
    for missing in &frames[..frames.len() - 1] {
        let mut rest = bytes.clone();
        rest.drain(missing.clone());
        let (read, losses) = read(&rest);
        assert_eq!(losses.missing_frames, 1);
        assert_eq!(read.len() as u64 + losses.missing_operations, 100);
        assert!(is_part(&read, &operations));
    }
}

#[test]
fn absurd_lengths_allocate_nothing() {
    let operations = some(30);
    let bytes = written(&operations, 10);
    for frame in frames(&bytes) {
        for field in [8, 12, 20] {
            let mut damaged = bytes.clone();
            let at = frame.start + field;
            damaged[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
            let (read, losses) = read(&damaged);
            assert!(!losses.is_nothing() && read.len() >= 20, "{losses:?}");
        }
    }
    let mut damaged = bytes;
    damaged[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = Reader::new(&damaged[..]).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
}

#[test]
fn other_files_and_other_versions_are_refused_by_name() {
    let kind = |bytes: &[u8]| Reader::new(bytes).map(|_| ()).unwrap_err().kind();
    assert_eq!(kind(b""), ErrorKind::NotATrace);
    assert_eq!(kind(&[0; 100]), ErrorKind::NotATrace);
    let mut bytes = written(&[], 1);
    bytes[8] = 2;
    assert_eq!(kind(&bytes), ErrorKind::UnsupportedVersion);
}

#[test]
fn a_key_above_the_limit_is_refused_and_the_writer_goes_on() {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    let long = Operation::new(Kind::Put, vec![0; evendb_trace::KEY_BYTES_MAX + 1]);
    assert_eq!(writer.add(&long).unwrap_err().kind(), ErrorKind::TooLarge);
    let longest = Operation::new(Kind::Put, vec![0; evendb_trace::KEY_BYTES_MAX]);
    writer.add(&longest).unwrap();
    let bytes = writer.finish().unwrap().0;
    assert_eq!(read(&bytes).0, [longest]);
}

/// A value above the limit is in the trace with its length.
#[test]
fn a_long_value_is_left_out() {
    let mut operation = Operation::new(Kind::Put, "k");
    operation.value = Some(vec![7; evendb_trace::VALUE_BYTES_MAX + 1]);
    let bytes = written(std::slice::from_ref(&operation), 1);
    operation.value_len = operation.value.take().map(|value| value.len() as u64);
    assert_eq!(read(&bytes).0, [operation]);
}
