//! What a trace's times are worth, and who is the limit of a replay at most speed.

use std::io::Read;

use evendb_trace::Times;

use super::*;
use crate::recorder::RunError;

fn with_times(times: Times, operations: &[Operation]) -> Vec<u8> {
    let header = Header {
        times,
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    for operation in operations {
        writer.add(operation).unwrap();
    }
    writer.finish().unwrap().0
}

/// Trouble of others, line 9: without times, all operations would be due at once.
#[test]
fn a_trace_without_times_has_no_speed() {
    let trace = with_times(Times::Order, &puts(10, 1));
    let timed = ReplaySettings {
        speed: Speed::Times(1.0),
        ..ReplaySettings::default()
    };
    let go = AtomicBool::new(false);
    let reader = Reader::new(&trace[..]).unwrap();
    let refused = replay(reader, &MemoryStore::new(), &timed, &go).unwrap_err();
    assert!(
        matches!(&refused, RunError::Input(why) if why.contains("no times")),
        "{refused}"
    );
    let report = replayed(&trace, &MemoryStore::new(), &settings(1));
    assert_eq!((report.replayed(), report.times), (10, Times::Order));
    let seconds = with_times(Times::Seconds, &puts(10, 1));
    let report = replayed(&seconds, &MemoryStore::new(), &timed);
    assert_eq!(report.to_json()["times_in_trace"], "seconds");
}

/// A source whose every read takes its time.
struct SlowSource<'a>(&'a [u8]);

impl Read for SlowSource<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        thread::sleep(Duration::from_millis(100));
        let some = to.len().min(8 << 10);
        self.0.read(&mut to[..some])
    }
}

/// Trouble of others, line 41: the store looks slow where the reader of the trace is.
#[test]
fn waiting_for_the_reader_of_the_trace_is_told_from_waiting_for_the_store() {
    let trace = written(&puts(10_000, 1000));
    // Order of time is found within little memory, so that operations come while the source is
    // read.
    let slowly = ReplaySettings {
        order_bytes: 1,
        ..settings(2)
    };
    let go = AtomicBool::new(false);
    let reader = Reader::new(SlowSource(&trace)).unwrap();
    let report = replay(reader, &MemoryStore::new(), &slowly, &go).unwrap();
    assert_eq!(report.replayed(), 10_000);
    assert!(
        report.waited_share() > 0.5,
        "{:?} of {:?}",
        report.waited,
        report.duration
    );
    // A store whose every put takes a while: its queue is never empty for long.
    let trace = written(&puts(100, 0));
    let report = replayed(&trace, &Slow::new(5, false), &settings(1));
    assert!(
        report.waited_share() < 0.5,
        "{:?} of {:?}",
        report.waited,
        report.duration
    );
}

#[test]
fn the_share_is_of_all_threads() {
    let report = ReplayReport {
        duration: Duration::from_secs(2),
        threads: 4,
        waited: Duration::from_secs(6),
        ..ReplayReport::default()
    };
    assert_eq!(report.waited_share(), 0.75);
    assert_eq!(ReplayReport::default().waited_share(), 0.0);
}
