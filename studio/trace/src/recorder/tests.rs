use super::{Plant, Recorder, RecorderHandle, RecorderOptions, Summary};
use crate::{Call, ErrorKind, Kind, Operation, Outcome, Reader, Sampler};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

/// A file in memory that is looked at afterwards.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const THREADS: u32 = 4;
const EACH: u32 = 20_000;

fn key(thread: u32, number: u32) -> Vec<u8> {
    format!("key/{thread}/{:06}", number % 5000).into_bytes()
}

/// Four threads record, and end before the recorder does.
fn record(options: RecorderOptions) -> (Summary, Vec<u8>) {
    let (file, slot) = (Shared::default(), Arc::new(RecorderHandle::default()));
    let recorder = Recorder::start(&slot, file.clone(), options).unwrap();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let slot = &slot;
            scope.spawn(move || {
                for number in 0..EACH {
                    let key = key(thread, number);
                    let Some(began) = slot.begin(&key) else {
                        continue;
                    };
                    let mut call = Call::new(Kind::Put, thread, &key);
                    call.value_len = Some(u64::from(number));
                    call.outcome = Outcome::Done;
                    slot.end(began, &call);
                }
            });
        }
    });
    let summary = recorder.stop().unwrap();
    let bytes = file.0.lock().clone();
    (summary, bytes)
}

fn read(bytes: &[u8]) -> (Vec<Operation>, crate::Losses) {
    let mut reader = Reader::new(bytes).unwrap();
    let operations = reader.operations().collect::<Result<_, _>>().unwrap();
    (operations, reader.losses())
}

/// All operations of all threads, each thread's in its order.
fn check_all(options: RecorderOptions) -> Result<(), String> {
    let one_in = options.one_in;
    let (summary, bytes) = record(options);
    let (operations, losses) = read(&bytes);
    if !losses.is_nothing() || summary.recorded != operations.len() as u64 {
        return Err(format!(
            "{losses:?}, {summary:?}, {} read",
            operations.len()
        ));
    }
    let sampler = Sampler::new(one_in);
    let mut by_thread: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for operation in &operations {
        let numbers = by_thread.entry(operation.keyspace).or_default();
        numbers.push(operation.value_len.unwrap_or_default());
    }
    let mut missing = 0;
    for thread in 0..THREADS {
        let taken = (0..EACH).filter(|&number| sampler.takes(&key(thread, number)));
        let expected: Vec<u64> = taken.map(u64::from).collect();
        let found = by_thread.remove(&thread).unwrap_or_default();
        if !found.is_sorted() {
            return Err(format!("thread {thread} is out of order"));
        }
        missing += usize::from(found != expected);
    }
    match missing + summary.dropped_behind as usize {
        0 => Ok(()),
        _ => Err(format!("{missing} threads are not whole, {summary:?}")),
    }
}

#[test]
fn everything_that_threads_record_is_in_the_file_in_their_order() {
    check_all(RecorderOptions::default()).unwrap();
}

/// P59.
#[test]
fn lost_last_buffers_are_noticed() {
    let plant = Plant::LastBuffersLost;
    let options = RecorderOptions {
        plant,
        ..RecorderOptions::default()
    };
    assert!(check_all(options).is_err());
}

#[test]
fn all_operations_of_a_sampled_key_are_recorded() {
    let options = RecorderOptions {
        one_in: 10,
        ..RecorderOptions::default()
    };
    check_all(options).unwrap();
}

/// P60.
#[test]
fn a_sample_of_operations_is_noticed() {
    let options = RecorderOptions {
        one_in: 10,
        plant: Plant::SamplesOperations,
        ..RecorderOptions::default()
    };
    assert!(check_all(options).is_err());
}

#[test]
fn a_full_file_counts_what_it_leaves_out() {
    let limit = 200 << 10;
    let options = RecorderOptions {
        bytes_max: limit,
        ..RecorderOptions::default()
    };
    let (summary, bytes) = record(options);
    assert!(bytes.len() as u64 <= limit && bytes.len() as u64 == summary.file_bytes);
    assert!(summary.dropped_full > 0);
    let all = u64::from(THREADS * EACH);
    assert_eq!(
        summary.recorded + summary.dropped_full + summary.dropped_behind,
        all
    );
    let (operations, losses) = read(&bytes);
    assert_eq!(operations.len() as u64, summary.recorded);
    assert!(losses.is_nothing(), "{losses:?}");
    let mut reader = Reader::new(&bytes[..]).unwrap();
    while reader.next().unwrap().is_some() {}
    assert_eq!(reader.end().unwrap().dropped_full, summary.dropped_full);
}

#[test]
fn one_trace_at_a_time_and_another_one_after_it() {
    let slot = Arc::new(RecorderHandle::default());
    let start = || Recorder::start(&slot, Shared::default(), RecorderOptions::default());
    let first = start().unwrap();
    let refused = start().map(|_| ()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyRecording);
    let began = slot.begin(b"k").unwrap();
    first.stop().unwrap();
    assert!(!slot.is_on());
    let second = start().unwrap();
    // It began in the first trace, and belongs to no trace.
    slot.end(began, &Call::new(Kind::Get, 0, b"k"));
    let began = slot.begin(b"k").unwrap();
    slot.end(began, &Call::new(Kind::Get, 0, b"k"));
    assert_eq!(second.stop().unwrap().recorded, 1);
}

#[test]
fn what_ended_before_the_stop_is_there_and_the_rest_is_not_waited_for() {
    let (file, slot) = (Shared::default(), Arc::new(RecorderHandle::default()));
    let options = RecorderOptions::default();
    let recorder = Recorder::start(&slot, file.clone(), options).unwrap();
    let (recorded, stopped) = (&Barrier::new(2), &Barrier::new(2));
    thread::scope(|scope| {
        let slot = &slot;
        scope.spawn(move || {
            let began = slot.begin(b"before").unwrap();
            slot.end(began, &Call::new(Kind::Get, 0, b"before"));
            let began = slot.begin(b"after").unwrap();
            recorded.wait();
            stopped.wait();
            slot.end(began, &Call::new(Kind::Get, 0, b"after"));
            assert!(slot.begin(b"off").is_none());
        });
        recorded.wait();
        // The thread still lives, with a buffer that is not full.
        assert_eq!(recorder.stop().unwrap().recorded, 1);
        stopped.wait();
    });
    let bytes = file.0.lock().clone();
    let (operations, losses) = read(&bytes);
    assert!(losses.is_nothing() && operations.len() == 1);
    assert_eq!(operations[0].key, b"before");
}

#[test]
fn a_disk_that_fails_is_told_at_the_end_and_disturbs_nobody() {
    struct Failing(usize);
    impl Write for Failing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.saturating_sub(bytes.len());
            match self.0 {
                0 => Err(io::Error::other("no more")),
                _ => Ok(bytes.len()),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let slot = Arc::new(RecorderHandle::default());
    let options = RecorderOptions::default();
    let recorder = Recorder::start(&slot, Failing(4096), options).unwrap();
    for number in 0..200_000 {
        let key = key(0, number);
        let began = slot.begin(&key).unwrap();
        slot.end(began, &Call::new(Kind::Get, 0, &key));
    }
    assert_eq!(recorder.stop().unwrap_err().kind(), ErrorKind::Io);
}

/// Waits for something that the writer's thread does by itself.
fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_slow_load_is_in_the_file_while_it_is_recorded_and_nothing_is_woken_in_between() {
    let (file, slot) = (Shared::default(), Arc::new(RecorderHandle::default()));
    let recorder = Recorder::start(&slot, file.clone(), RecorderOptions::default()).unwrap();
    let in_file = || {
        let bytes = file.0.lock().clone();
        read(&bytes).0.len()
    };
    // The header is there at once.
    assert_eq!(in_file(), 0);
    for number in 1..4 {
        // The writer's thread sleeps without an end.
        until(|| recorder.shared.asleep.load(Ordering::Relaxed));
        let began = slot.begin(b"k").unwrap();
        slot.end(began, &Call::new(Kind::Get, 0, b"k"));
        until(|| in_file() == number);
    }
    until(|| recorder.shared.asleep.load(Ordering::Relaxed));
    slot.name_keyspace(7, "late");
    until(|| {
        let bytes = file.0.lock().clone();
        crate::keyspaces_of(io::Cursor::new(bytes)).unwrap().len() == 1
    });
    assert_eq!(recorder.stop().unwrap().recorded, 3);
}
