//! EvenDB's own traces.
//!
//! In traces that are not forged (no checksum was made for them), the operations that come are
//! those that were written, in their order, each once. Every operation that does not come is told.
//! A strict reader refuses exactly what a lenient one counts. A forged trace may be anything, and
//! reading it ends in bounded memory.

use crate::random::Random;
use crate::{MEMORY, peak_of, trials};
use evendb_trace::{
    EndNote, ErrorKind, Failure, Header, InOrder, Kind, Losses, Operation, Outcome, Reader, Writer,
};
use std::io::{self, Read};
use std::sync::LazyLock;
use xxhash_rust::xxh3::Xxh3;

pub(crate) struct Trace {
    pub(crate) operations: Vec<Operation>,
    pub(crate) bytes: Vec<u8>,
}

fn operation(random: &mut Random, number: u64) -> Operation {
    let mut key = format!("key/{:03}/{number:06}/", random.below(40)).into_bytes();
    let most = if random.one_in(50) { 5000 } else { 20 };
    let more = random.below(most);
    key.extend(random.bytes(more));
    let mut operation = Operation::new(Kind::ALL[random.below(Kind::ALL.len())], key);
    operation.keyspace = random.below(3) as u32;
    operation.thread = random.below(3) as u32;
    // Times go forward, and now and then back.
    operation.start_nanos = match random.one_in(20) {
        true => random.next(),
        false => number * 1000,
    };
    operation.latency_nanos = random.one_in(2).then(|| random.next() >> 40);
    operation.end_key = random.one_in(4).then(|| b"l".to_vec());
    operation.group = if random.one_in(3) { number / 4 } else { 0 };
    operation.count = random.one_in(3).then(|| random.next());
    operation.limit = random.one_in(3).then(|| random.next() >> 50);
    operation.ttl_millis = random.one_in(5).then(|| random.next() >> 30);
    operation.reverse = random.one_in(4);
    if random.one_in(3) {
        let len = random.below(200);
        operation.value = Some(random.bytes(len));
        operation.value_len = Some(len as u64);
    }
    operation.outcome = match random.below(5) {
        0 => Outcome::Done,
        1 => Outcome::Absent,
        2 => Outcome::Failed(Failure::Conflict),
        3 => Outcome::Present {
            len: Some(random.next() >> 44),
            hash: Some(random.next()),
        },
        _ => Outcome::Unknown,
    };
    operation
}

pub(crate) fn trace(random: &mut Random, count: u64, frame: u64, first: u64) -> Trace {
    let header = Header {
        one_in: 1,
        source: "a test".to_owned(),
        keyspaces: [(0, "default".to_owned()), (1, "other".to_owned())].into(),
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    let mut operations = Vec::new();
    for number in 0..count {
        if number > 0 && number % frame == 0 {
            // Ends the frame.
            writer.name_keyspace(2, &format!("name {number}")).unwrap();
        }
        let operation = operation(random, first + number);
        writer.add(&operation).unwrap();
        operations.push(operation);
    }
    let bytes = writer.finish().unwrap().0;
    Trace { operations, bytes }
}

/// Good traces, small ones and one of several full frames.
pub(crate) static GOOD: LazyLock<Vec<Trace>> = LazyLock::new(|| {
    let mut random = Random::new(7);
    let mut of = |count, frame, first| trace(&mut random, count, frame, first);
    let mut good: Vec<Trace> = (0..12)
        .map(|at| of(3 * at, 1 + at % 5, at * 100_000))
        .collect();
    good.push(of(400, 1000, 90_000_000));
    good
});

/// The result of reading to the end.
struct Done {
    given: Vec<Operation>,
    losses: Losses,
    end: Option<EndNote>,
}

fn read(source: impl Read, is_strict: bool) -> Result<Done, ErrorKind> {
    let reader = Reader::new(source).map_err(|error| error.kind())?;
    let mut reader = if is_strict { reader.strict() } else { reader };
    let mut given = Vec::new();
    while let Some(operation) = reader.next().map_err(|error| error.kind())? {
        assert!(given.len() < 100_000, "it does not end");
        given.push(operation.clone());
    }
    assert!(matches!(reader.next(), Ok(None)), "it has ended");
    let (losses, end) = (reader.losses(), reader.end());
    Ok(Done { given, losses, end })
}

/// Gives one or a few bytes, and is interrupted.
struct Sipping<'a>(&'a [u8], Random);

impl Read for Sipping<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.1.one_in(4) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let some = 1 + self.1.below(3000);
        let len = to.len().min(some);
        self.0.read(&mut to[..len])
    }
}

/// Whether `part` is `whole` with some left out.
fn is_part(part: &[Operation], whole: &[Operation]) -> bool {
    let mut left = whole.iter();
    part.iter().all(|one| left.any(|other| one == other))
}

/// What holds for all files: lenient, strict, by sips and in order, readers come to the same
/// result.
fn check_any(bytes: &[u8], random: &mut Random) -> Option<Done> {
    let (lenient, peak) = peak_of(|| {
        let done = read(bytes, false);
        // Memory that is kept here is not the reader's.
        done.map(|done| (done.losses, done.end, done.given.len()))
    });
    let done = read(bytes, false);
    let strict = read(bytes, true);
    let (losses, end, count) = match lenient {
        Ok(of) => of,
        Err(kind) => {
            let of_headers = [
                ErrorKind::NotATrace,
                ErrorKind::UnsupportedVersion,
                ErrorKind::Damaged,
            ];
            assert!(of_headers.contains(&kind), "{kind:?}");
            assert_eq!(strict.err(), Some(kind));
            return None;
        }
    };
    let done = done.unwrap();
    let kept: usize = done
        .given
        .iter()
        .map(|one| size_of::<Operation>() + one.key.len() + 300)
        .sum();
    assert!(peak < MEMORY + 3 * kept, "{peak} bytes of memory");
    let mut told = losses;
    told.names_passed_over = 0;
    match strict {
        Ok(strict) => assert!(
            told.is_nothing() && strict.given == done.given,
            "{losses:?}"
        ),
        Err(kind) => assert!(
            kind == ErrorKind::Damaged && !told.is_nothing(),
            "{losses:?}"
        ),
    }
    if let Some(end) = end {
        assert!(count as u64 + losses.missing_operations >= end.recorded);
    }
    if random.one_in(4) {
        let sips = Sipping(bytes, Random::new(random.next()));
        let again = read(sips, false).unwrap();
        assert_eq!((again.given.len(), again.losses), (count, losses));
    }
    let heap = random.below(20_000);
    let mut ordered = InOrder::new(Reader::new(bytes).unwrap(), heap);
    let (mut in_order, mut last, mut back) = (0, 0, 0);
    for operation in ordered.by_ref() {
        let start = operation.unwrap().start_nanos;
        back += u64::from(start < last);
        last = start;
        in_order += 1;
    }
    assert_eq!(in_order, count, "with {heap} bytes of memory");
    assert!(ordered.late() >= back);
    Some(done)
}

/// Where each frame begins and ends.
fn frames(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut frames) = (24 + number(12), Vec::new());
    while at < bytes.len() {
        let end = at + 32 + number(at + 8);
        frames.push(at..end);
        at = end;
    }
    frames
}

/// Removes, repeats or moves frames, each as it was written.
fn shuffle_frames(random: &mut Random, bytes: &[u8]) -> Vec<u8> {
    let frames = frames(bytes);
    let mut out = bytes[..frames[0].start].to_vec();
    let mut order: Vec<usize> = (0..frames.len()).collect();
    for _ in 0..1 + random.below(3) {
        let at = random.below(order.len());
        match random.below(3) {
            0 if order.len() > 1 => drop(order.remove(at)),
            1 => {
                let to = random.below(order.len() + 1);
                order.insert(to, order[at]);
            }
            _ => {
                let with = random.below(order.len());
                order.swap(at, with);
            }
        }
    }
    order
        .iter()
        .for_each(|&at| out.extend_from_slice(&bytes[frames[at].clone()]));
    out
}

#[test]
fn what_is_damaged_is_told_and_the_rest_is_what_was_written() {
    trials(|random| {
        let good = &GOOD[random.below(GOOD.len())];
        let mut bytes = match random.below(4) {
            0 => shuffle_frames(random, &good.bytes),
            _ => good.bytes.clone(),
        };
        if random.one_in(2) || bytes == good.bytes {
            for _ in 0..1 + random.below(3) {
                random.damage(&mut bytes);
            }
        }
        let Some(done) = check_any(&bytes, random) else {
            return;
        };
        assert!(is_part(&done.given, &good.operations), "{:?}", done.losses);
        let is_all = done.given.len() == good.operations.len();
        assert!(is_all || !done.losses.is_nothing(), "lost without a word");
        if let Some(end) = done.end {
            let all = done.given.len() as u64 + done.losses.missing_operations;
            assert_eq!(all, end.recorded, "{:?}", done.losses);
        }
    });
}

/// Parts of another trace, with its checksums: every operation that comes was written in one of
/// both.
#[test]
fn parts_of_another_trace_are_read_as_what_they_are() {
    trials(|random| {
        let (good, other) = (
            &GOOD[random.below(GOOD.len())],
            &GOOD[random.below(GOOD.len())],
        );
        let parts = frames(&other.bytes);
        let part = other.bytes[parts[random.below(parts.len())].clone()].to_vec();
        let mut bytes = good.bytes.clone();
        let places = frames(&bytes);
        let to = places[random.below(places.len())].start;
        bytes.splice(to..to, part);
        if random.one_in(3) {
            random.damage(&mut bytes);
        }
        if let Some(done) = check_any(&bytes, random) {
            let known =
                |one: &Operation| good.operations.contains(one) || other.operations.contains(one);
            assert!(done.given.iter().all(known));
        }
    });
}

fn sum(head: &[u8], body: &[u8]) -> [u8; 8] {
    let mut hasher = Xxh3::new();
    hasher.update(head);
    hasher.update(body);
    hasher.digest().to_le_bytes()
}

/// A frame of any content, with a correct checksum, and with some of its fields absurd.
fn forged_frame(random: &mut Random, frame: &[u8]) -> Vec<u8> {
    let number = |at: usize| u32::from_le_bytes(frame[at..at + 4].try_into().unwrap()) as usize;
    let stored = &frame[32..];
    let mut raw = match frame[5] {
        1 => lz4_flex::block::decompress(stored, number(12)).unwrap(),
        _ => stored.to_vec(),
    };
    if random.one_in(2) {
        random.damage(&mut raw);
    }
    let compressed = lz4_flex::block::compress(&raw);
    let is_compressed = random.one_in(2);
    let mut stored = if is_compressed {
        compressed
    } else {
        raw.clone()
    };
    let mut head = frame[..24].to_vec();
    head[5] = u8::from(is_compressed);
    head[8..12].copy_from_slice(&(stored.len() as u32).to_le_bytes());
    head[12..16].copy_from_slice(&(raw.len() as u32).to_le_bytes());
    match random.below(6) {
        0 => head[4] = random.next() as u8 % 5,
        1 | 2 => {
            let at = [8, 12, 16, 20][random.below(4)];
            head[at..at + 4].copy_from_slice(&(random.absurd() as u32).to_le_bytes());
        }
        3 => drop(random.damage(&mut stored)),
        _ => {}
    }
    let sum = sum(&head, &stored);
    [&head[..], &sum, &stored].concat()
}

fn forged_header(random: &mut Random, bytes: &[u8], body_end: usize) -> Vec<u8> {
    let mut body = bytes[24..body_end].to_vec();
    random.damage(&mut body);
    let mut head = bytes[..12].to_vec();
    head.extend_from_slice(&(body.len() as u32).to_le_bytes());
    let sum = sum(&head, &body);
    [&head[..], &sum, &body].concat()
}

#[test]
fn what_is_forged_ends_in_bounded_memory() {
    trials(|random| {
        let good = &GOOD[random.below(GOOD.len())];
        let frames = frames(&good.bytes);
        let mut bytes = match random.one_in(8) {
            true => forged_header(random, &good.bytes, frames[0].start),
            false => good.bytes[..frames[0].start].to_vec(),
        };
        for frame in frames {
            let frame = &good.bytes[frame];
            match random.one_in(3) {
                true => bytes.extend(forged_frame(random, frame)),
                false => bytes.extend_from_slice(frame),
            }
        }
        if random.one_in(4) {
            random.damage(&mut bytes);
        }
        check_any(&bytes, random);
    });
}

/// Times that go back, with little memory: all operations come, and the late ones are counted.
#[test]
fn times_that_go_back_are_given_and_counted() {
    let times = [5_u64, 9, 3, 9, 0, u64::MAX, 1, 2];
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    for (number, time) in times.into_iter().enumerate() {
        let mut operation = Operation::new(Kind::Get, vec![number as u8]);
        operation.start_nanos = time;
        writer.add(&operation).unwrap();
    }
    let bytes = writer.finish().unwrap().0;
    let given = |memory| {
        let mut ordered = InOrder::new(Reader::new(&bytes[..]).unwrap(), memory);
        let starts = ordered
            .by_ref()
            .map(|operation| operation.unwrap().start_nanos);
        (starts.collect::<Vec<_>>(), ordered.late())
    };
    // Room for one, or for none: the order of the file.
    for memory in [0, 1] {
        assert_eq!(given(memory), (times.to_vec(), 4));
    }
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    assert_eq!(given(1 << 20), (sorted, 0));
}
