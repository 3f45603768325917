use super::test_file::TestFile;
use super::*;
use crate::options::Writing;
use crate::sync::Arc;
use evendb_storage::vfs::File;
use evendb_storage::{ErrorKind, Version};

const SEED: u64 = 0x0123_4567_89ab_cdef;
const EPOCH: u64 = 3;
const CAPACITY: u64 = CAPACITY_MIN;

const WAYS: [Writing; 3] = [Writing::Mapped, Writing::Written, Writing::Gathered];

fn open(file: &TestFile, writing: Writing, at: Lsn) -> CommitLog {
    let shared: Arc<dyn File> = Arc::new(file.clone());
    CommitLog::start(shared, CAPACITY, writing, EPOCH, SEED, at..at).unwrap()
}

fn segment(epoch: u64, seed: u64, start: Lsn, closed_at: Option<Lsn>) -> Segment {
    Segment {
        epoch,
        seed,
        start,
        closed_at,
    }
}

type Records = Vec<(Lsn, Lsn, Version, Vec<u8>)>;

fn recovered(file: &TestFile, from: Lsn, segments: &[Segment]) -> (Lsn, Records) {
    let mut records = Records::new();
    let end = recover(file, CAPACITY, from, segments, &mut |record| {
        records.push((
            record.lsn,
            record.end,
            record.version,
            record.payload.to_vec(),
        ));
        Ok(())
    })
    .unwrap();
    (end, records)
}

fn read_all(file: &TestFile, from: Lsn) -> (Lsn, Records) {
    recovered(file, from, &[segment(EPOCH, SEED, Lsn(0), None)])
}

fn payload(version: u64) -> Vec<u8> {
    // Lengths up to the limit of this ring, often odd, so that laps end in fillers and gaps.
    let len = (version * 797) % 5003;
    (0..len).map(|at| (at ^ version) as u8).collect()
}

#[test]
fn golden_bytes_of_a_record() {
    let file = TestFile::new(CAPACITY);
    let log = open(&file, Writing::Mapped, Lsn(0));
    let end = log.append(Version(0x0405), &[b"ab", b"", b"c"]).unwrap();
    assert_eq!(end, Lsn(48));
    assert_eq!(CommitLog::record_bytes(3), 48);
    let bytes = file.0.lock().bytes[..48].to_vec();
    assert_eq!(bytes[4..8], [3, 0, 0, 0x30], "length and kind");
    assert_eq!(bytes[8..16], [0; 8], "LSN");
    assert_eq!(bytes[16..24], [3, 0, 0, 0, 0, 0, 0, 0], "epoch, durable");
    assert_eq!(bytes[24..32], [5, 4, 0, 0, 0, 0, 0, 0], "version");
    assert_eq!(bytes[32..36], [0; 4], "tail");
    assert_eq!(&bytes[40..], b"abc\0\0\0\0\0");
}

#[test]
fn every_lap_is_recovered_from_every_tail() {
    for writing in WAYS {
        let file = TestFile::new(CAPACITY);
        let log = open(&file, writing, Lsn(0));
        let mut tending = log.tending(std::time::Instant::now());
        let mut live = Records::new();
        let (mut reserved, mut freed) = (0, 0);
        for version in 1..=150 {
            let body = payload(version);
            let total = CommitLog::record_bytes(body.len());
            reserved += total;
            while reserved - freed > CAPACITY - CAPACITY / 8 {
                // Drop the oldest record.
                let end = live.remove(0).1;
                freed += log.set_tail(end);
                assert!(log.durable() >= end);
            }
            let (head, tail) = body.split_at(body.len() / 3);
            let end = log.append(Version(version), &[head, tail]).unwrap();
            live.push((Lsn(end.0 - total), end, Version(version), body));
            log.tend(&mut tending, std::time::Instant::now());
            if version % 10 == 0 {
                // Gathered over many records, often over the end of a lap.
                log.flush().unwrap();
                assert_eq!(log.durable(), log.head());
                for first in 0..live.len() {
                    assert_eq!(read_all(&file, live[first].0).1, live[first..]);
                }
                assert_eq!(read_all(&file, log.tail()), (log.head(), live.clone()));
                assert_eq!(read_all(&file, log.head()), (log.head(), vec![]));
            }
        }
        assert!(log.head() > Lsn(3 * CAPACITY), "several laps");
        freed += log.set_tail(log.head());
        assert_eq!(freed, reserved, "fillers are nobody's");
    }
}

/// A ring in its second lap with small records at the end, and the places where these start.
fn second_lap() -> (TestFile, Vec<Lsn>) {
    let file = TestFile::new(CAPACITY);
    let log = open(&file, Writing::Mapped, Lsn(0));
    let mut ends = vec![];
    for version in 1..40 {
        ends.push(log.append(Version(version), &[&vec![7; 2000]]).unwrap());
        let tail = *ends.iter().rev().nth(10).unwrap_or(&Lsn(0));
        let _ = log.set_tail(tail);
    }
    let mut starts = vec![log.head()];
    for version in 40..43 {
        let end = log.append(Version(version), &[b"small payload"]).unwrap();
        starts.push(end);
    }
    assert!(log.head() > Lsn(CAPACITY));
    (file, starts)
}

#[test]
fn a_torn_tail_is_cut_at_the_record() {
    let (file, starts) = second_lap();
    let whole = file.0.lock().bytes.clone();
    let old = vec![0xa5; CAPACITY as usize];
    let end = starts[3].0 - 3; // the last three bytes are padding
    for cut in starts[0].0..end {
        let mut bytes = whole.clone();
        let offset = (cut % CAPACITY) as usize;
        bytes[offset..].copy_from_slice(&old[offset..]);
        let expected = starts.iter().rev().find(|start| start.0 <= cut).unwrap();
        // A record whose last bytes are padding is whole without them.
        let padded = starts
            .iter()
            .find(|start| start.0 > cut && start.0 - 3 <= cut)
            .unwrap_or(expected);
        assert_eq!(read_all(&TestFile::of(bytes), starts[0]).0, *padded);
    }
}

#[test]
fn a_flipped_bit_anywhere_cuts_the_log() {
    let (file, starts) = second_lap();
    let whole = file.0.lock().bytes.clone();
    for window in starts.windows(2) {
        for at in window[0].0..window[0].0 + 40 + 13 {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[(at % CAPACITY) as usize] ^= 1 << bit;
                assert_eq!(read_all(&TestFile::of(bytes), starts[0]).0, window[0]);
            }
        }
    }
}

#[test]
fn any_bytes_are_survived() {
    let (file, starts) = second_lap();
    let whole = file.0.lock().bytes.clone();
    let mut state = 1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        state >> 33
    };
    for _ in 0..500 {
        let mut bytes = whole.clone();
        for _ in 0..20 {
            let at = (next() % CAPACITY) as usize;
            bytes[at] = next() as u8;
        }
        let file = TestFile::of(bytes);
        for from in [
            Lsn(0),
            starts[0],
            Lsn(next() % (3 * CAPACITY)),
            Lsn(u64::MAX - 7),
        ] {
            let (end, _) = read_all(&file, from);
            assert!(end >= from && end.0 - from.0 <= CAPACITY);
        }
    }
    let short = TestFile::of(vec![0; 100]);
    let result = recover(
        &short,
        CAPACITY,
        Lsn(0),
        &[segment(EPOCH, SEED, Lsn(0), None)],
        &mut |_| Ok(()),
    );
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn segments_follow_each_other_and_a_short_one_kills_the_rest() {
    let file = TestFile::new(CAPACITY);
    let shared: Arc<dyn File> = Arc::new(file.clone());
    let first = open(&file, Writing::Mapped, Lsn(0));
    first.append(Version(1), &[b"one"]).unwrap();
    let closed = first.append(Version(2), &[b"two"]).unwrap();
    // Lost behind the close: an old record that must not return.
    first.append(Version(3), &[b"old"]).unwrap();
    first.append(Version(4), &[b"old"]).unwrap();
    let second = CommitLog::start(
        shared,
        CAPACITY,
        Writing::Mapped,
        EPOCH + 1,
        99,
        Lsn(0)..closed,
    )
    .unwrap();
    let end = second.append(Version(5), &[b"new"]).unwrap();
    let both = [
        segment(EPOCH, SEED, Lsn(0), Some(closed)),
        segment(EPOCH + 1, 99, closed, None),
    ];
    let (found, records) = recovered(&file, Lsn(0), &both);
    let versions: Vec<u64> = records.iter().map(|record| record.2.0).collect();
    assert_eq!((found, versions), (end, vec![1, 2, 5]));
    assert_eq!(
        recovered(&file, closed, &both).1.len(),
        1,
        "the first is skipped"
    );
    // A segment with the same seed but another epoch, or the same epoch but another seed, has no
    // records here.
    let foreign = [both[0], segment(EPOCH + 1, 98, closed, None)];
    assert_eq!(recovered(&file, Lsn(0), &foreign).0, closed);
    // Damage in the first segment: the second is dead, though it verifies.
    file.0.lock().bytes[48 + 41] ^= 1;
    assert_eq!(recovered(&file, Lsn(0), &both).0, Lsn(48));
}

#[test]
fn a_panic_in_the_middle_leaves_a_whole_prefix() {
    for writes_before in 0..3 {
        let file = TestFile::new(CAPACITY);
        let log = open(&file, Writing::Mapped, Lsn(0));
        let end = log.append(Version(1), &[b"a"]).unwrap();
        file.0.lock().panic_after = Some(writes_before);
        let append = std::panic::AssertUnwindSafe(|| log.append(Version(2), &[b"bb", b"b"]));
        assert!(std::panic::catch_unwind(append).is_err());
        assert_eq!((log.head(), read_all(&file, Lsn(0)).0), (end, end));
        log.append(Version(3), &[b"c"]).unwrap();
        let versions: Vec<_> = read_all(&file, Lsn(0)).1.iter().map(|r| r.2).collect();
        assert_eq!(versions, [Version(1), Version(3)]);
    }
}

#[test]
fn a_failed_write_latches() {
    // In a mapped log, records that come right after a sync are written, too.
    for writing in [Writing::Written, Writing::Mapped] {
        let file = TestFile::new(CAPACITY);
        let log = open(&file, writing, Lsn(0));
        let end = log.append(Version(1), &[b"a"]).unwrap();
        log.flush().unwrap();
        file.0.lock().fail_write = true;
        assert_eq!(
            log.append(Version(2), &[b"b"]).unwrap_err().kind(),
            ErrorKind::Io
        );
        file.0.lock().fail_write = false;
        assert!(log.append(Version(3), &[b"c"]).is_err());
        assert!(log.flush().is_err());
        assert_eq!(file.0.lock().syncs, 1, "no sync begins after the latch");
        assert_eq!(log.head(), end);
        log.wait_durable(end).unwrap();
    }
}

#[test]
fn a_mapped_log_is_written_for_a_while_after_a_sync() {
    let file = TestFile::new(CAPACITY);
    let log = open(&file, Writing::Mapped, Lsn(0));
    let mut version = 0;
    // Whether the next append copies into the mapping.
    let mut append_copies = || {
        version += 1;
        let before = file.0.lock().copies;
        log.append(Version(version), &[&payload(version)]).unwrap();
        file.0.lock().copies > before
    };
    assert!(append_copies());
    for _ in 0..2 {
        log.flush().unwrap();
        let begin = log.head().0;
        while log.head().0 < begin + CAPACITY / 8 {
            assert!(!append_copies());
        }
        assert!(append_copies());
    }
    let (end, records) = read_all(&file, Lsn(0));
    assert_eq!(end, log.head());
    assert!(records.iter().all(|r| r.3 == payload(r.2.0)));
}

#[test]
fn a_failed_write_of_what_was_gathered_latches() {
    let file = TestFile::new(CAPACITY);
    let log = open(&file, Writing::Gathered, Lsn(0));
    let end = log.append(Version(1), &[b"a"]).unwrap();
    log.wait_durable(end).unwrap();
    file.0.lock().fail_write = true;
    let lost = log.append(Version(2), &[b"b"]).unwrap();
    assert_eq!(log.wait_durable(lost).unwrap_err().kind(), ErrorKind::Io);
    file.0.lock().fail_write = false;
    assert!(log.wait_durable(lost).is_err(), "it is not tried again");
    assert!(log.flush().is_err());
    log.wait_durable(end).unwrap();
    assert_eq!((log.durable(), file.0.lock().syncs), (end, 1));
    assert_eq!(read_all(&file, Lsn(0)).0, end);
}

#[test]
fn what_is_gathered_reaches_the_file_by_one_sync() {
    let file = TestFile::new(CAPACITY);
    let log = open(&file, Writing::Gathered, Lsn(0));
    for version in 1..=5 {
        log.append(Version(version), &[b"together"]).unwrap();
    }
    assert_eq!(read_all(&file, Lsn(0)).0, Lsn(0), "nothing is written yet");
    log.flush().unwrap();
    log.flush().unwrap();
    log.wait_durable(log.head()).unwrap();
    assert_eq!(read_all(&file, Lsn(0)).1.len(), 5);
    assert_eq!(
        file.0.lock().syncs,
        1,
        "what is durable is not synced again"
    );
}

#[test]
fn groups_are_written_the_same_past_the_cache_and_through_it() {
    #[derive(Debug)]
    enum Way {
        Past,
        Refused,
        None,
    }
    let mut contents = vec![];
    for way in [Way::Past, Way::Refused, Way::None] {
        let file = TestFile::new(CAPACITY);
        file.0.lock().bytes.fill(0x5a);
        {
            let mut state = file.0.lock();
            state.refuse_blocks = matches!(way, Way::Refused);
            state.cache_only = matches!(way, Way::None);
        }
        let mut log = open(&file, Writing::Gathered, Lsn(0));
        let mut ends = vec![Lsn(0)];
        let mut after = vec![];
        for version in 1..=400 {
            let body = payload(version);
            let end = log.append(Version(version), &[&body[..body.len() % 1700]]);
            ends.push(end.unwrap());
            // Groups of one to four, the ring nearly full all the time.
            if version % 7 % 4 != 0 {
                log.flush().unwrap();
                assert_eq!(read_all(&file, log.tail()).0, log.head(), "{way:?}");
            }
            let kept = log.head().0.saturating_sub(CAPACITY * 7 / 8);
            let tail = ends.iter().find(|end| end.0 >= kept).unwrap();
            if *tail > log.tail() {
                let _ = log.set_tail(*tail);
            }
            if version % 50 == 0 {
                // Another life, in the middle of a block.
                log.close();
                let (head, records) = read_all(&file, log.tail());
                assert_eq!(head, log.head());
                after.push(records);
                let shared: Arc<dyn File> = Arc::new(file.clone());
                let tail = log.tail();
                log =
                    CommitLog::start(shared, CAPACITY, Writing::Gathered, EPOCH, SEED, tail..head)
                        .unwrap();
            }
        }
        assert!(log.head() > Lsn(3 * CAPACITY), "several laps");
        contents.push(after);
    }
    assert!(contents[0] == contents[1] && contents[1] == contents[2]);
}

#[test]
fn a_full_ring_keeps_what_lies_behind_the_last_group() {
    let file = TestFile::new(CAPACITY);
    let log = open(&file, Writing::Gathered, Lsn(0));
    // The first group ends in the middle of a block, and the lap's last group ends in the same
    // block.
    let first = log.append(Version(1), &[&[1; 2_000]]).unwrap();
    log.flush().unwrap();
    let mut version = 1;
    while log.head().0 + 4_000 < CAPACITY {
        version += 1;
        log.append(Version(version), &[&[2; 3_000]]).unwrap();
        log.flush().unwrap();
    }
    let _ = log.set_tail(first);
    while log.head().0 % CAPACITY != 48 {
        version += 1;
        log.append(Version(version), &[b"x"]).unwrap();
        log.flush().unwrap();
    }
    let (end, records) = read_all(&file, first);
    assert_eq!(end, log.head());
    assert_eq!(records.len() as u64, version - 1);
}

#[test]
fn what_a_checkpoint_holds_is_not_written_any_more() {
    let file = TestFile::new(CAPACITY);
    let log = open(&file, Writing::Gathered, Lsn(0));
    let mut ends = vec![Lsn(0)];
    for version in 1..=100 {
        let end = log.append(Version(version), &[&[7; 1600]]).unwrap();
        ends.push(end);
        // Always a few behind the head, at times beyond the end of a lap.
        let held = ends[ends.len() - 1 - (version as usize % 4).min(ends.len() - 1)];
        if held > log.tail() {
            let _ = log.set_tail(held);
        }
        log.wait_durable(log.tail()).unwrap();
        assert!(log.ring.lock().gathered.bytes.len() <= 4 * 1648);
        if version % 9 == 0 {
            log.flush().unwrap();
            let (end, records) = read_all(&file, log.tail());
            assert_eq!(end, log.head());
            assert_eq!(records.len(), version as usize % 4);
        }
    }
    assert!(log.head() > Lsn(2 * CAPACITY));
}

#[test]
fn a_failed_sync_reaches_every_waiter_and_stays() {
    for writing in WAYS {
        let file = TestFile::new(CAPACITY);
        let log = open(&file, writing, Lsn(0));
        file.0.lock().fail_sync = true;
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..3)
                .map(|version| {
                    let log = &log;
                    scope.spawn(move || {
                        let Ok(end) = log.append(Version(version), &[b"x"]) else {
                            // An append that writes checks for the error.
                            assert_ne!(writing, Writing::Gathered);
                            return log.flush();
                        };
                        log.wait_durable(end)
                    })
                })
                .collect();
            for waiter in waiters {
                let error = waiter.join().unwrap().unwrap_err();
                assert!(error.to_string().contains("planned failure"), "{error}");
            }
        });
        file.0.lock().fail_sync = false;
        assert!(
            log.flush().is_err(),
            "a second sync would hide what the first lost"
        );
        assert_eq!((log.durable(), file.0.lock().syncs), (Lsn(0), 1));
    }
}

#[test]
fn a_leader_that_panics_leaves_an_error_to_all() {
    for writing in WAYS {
        let file = TestFile::new(CAPACITY);
        let log = open(&file, writing, Lsn(0));
        let end = log.append(Version(1), &[b"x"]).unwrap();
        file.0.lock().panic_in_sync = true;
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| log.wait_durable(end)))
                .collect();
            waiters.into_iter().map(|thread| thread.join()).collect()
        });
        let panics = outcomes.iter().filter(|outcome| outcome.is_err()).count();
        assert_eq!(panics, 1, "one led, and nobody was made to after it");
        for error in outcomes.into_iter().flatten() {
            let error = error.unwrap_err().to_string();
            assert!(error.contains("panicked"), "{error}");
        }
        assert!(log.flush().is_err());
        assert_eq!(file.0.lock().syncs, 0);
        log.close();
    }
}

#[test]
fn closing_writes_what_is_gathered_and_nothing_after() {
    let file = TestFile::new(CAPACITY);
    let log = open(&file, Writing::Gathered, Lsn(0));
    let end = log.append(Version(1), &[b"x"]).unwrap();
    log.close();
    assert_eq!(read_all(&file, Lsn(0)).0, end);
    log.wait_durable(end).unwrap();
    let late = log.append(Version(2), &[b"late"]).unwrap();
    assert!(log.wait_durable(late).is_err());
    assert_eq!(read_all(&file, Lsn(0)).0, end);
}

#[test]
fn what_recovery_found_is_durable_only_after_a_flush() {
    let file = TestFile::new(CAPACITY);
    let end = open(&file, Writing::Mapped, Lsn(0))
        .append(Version(1), &[b"a"])
        .unwrap();
    let shared: Arc<dyn File> = Arc::new(file.clone());
    let log = CommitLog::start(shared, CAPACITY, Writing::Mapped, 9, 9, Lsn(0)..end).unwrap();
    assert_eq!((log.durable(), log.head()), (Lsn(0), end));
    log.flush().unwrap();
    assert_eq!(log.durable(), end);
    assert_eq!(log.set_tail(end), end.0);
}

#[test]
fn many_appenders_leave_exactly_their_records_in_order() {
    for writing in WAYS {
        let file = TestFile::new(CAPACITY);
        let log = open(&file, writing, Lsn(0));
        let mut appended: Vec<(Lsn, Version)> = std::thread::scope(|scope| {
            let appenders: Vec<_> = (0..6u64)
                .map(|thread| {
                    let (log, file) = (&log, &file);
                    scope.spawn(move || {
                        let mut mine = vec![];
                        for turn in 0..150 {
                            let version = Version(thread * 1000 + turn + 1);
                            let end = log.append(version, &[&version.0.to_le_bytes()]).unwrap();
                            if turn % 3 == 0 {
                                log.wait_durable(end).unwrap();
                                assert!(log.durable() >= end);
                            }
                            if turn % 30 == 0 {
                                let synced = TestFile::of(file.0.lock().synced.clone());
                                assert!(read_all(&synced, Lsn(0)).0 >= end);
                            }
                            mine.push((end, version));
                        }
                        mine
                    })
                })
                .collect();
            appenders
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        log.flush().unwrap();
        appended.sort();
        let (end, records) = read_all(&file, Lsn(0));
        assert_eq!(end, log.head());
        let found: Vec<_> = records.iter().map(|record| (record.1, record.2)).collect();
        assert_eq!(found, appended);
        assert!(records.iter().all(|r| r.3 == r.2.0.to_le_bytes()));
    }
}

#[test]
fn what_no_life_vouches_for_is_not_read() {
    let file = TestFile::new(CAPACITY);
    let log = open(&file, Writing::Written, Lsn(0));
    let end = log.append(Version(1), &[b"of the first life"]).unwrap();
    log.flush().unwrap();
    let shared: Arc<dyn File> = Arc::new(file.clone());
    let (epoch, seed) = (EPOCH + 1, SEED + 1);
    let log = CommitLog::start(shared, CAPACITY, Writing::Written, epoch, seed, end..end).unwrap();
    log.append(Version(2), &[b"of the second"]).unwrap();
    log.flush().unwrap();
    let first = |closed| segment(EPOCH, SEED, Lsn(0), Some(closed));
    let second = |start| segment(epoch, seed, start, None);
    let found = |lives: &[Segment]| {
        let (stopped, records) = recovered(&file, Lsn(0), lives);
        (stopped, records.len())
    };
    assert_eq!(found(&[first(end), second(end)]).1, 2);
    let further = Lsn(end.0 + 64);
    let gap = found(&[first(end), second(further)]);
    assert_eq!(gap, (end, 1), "it begins further on");
    let short = found(&[first(further), second(end)]);
    assert_eq!(short, (end, 1), "the one before was longer");
    let cut = found(&[first(Lsn(end.0 - 8)), second(end)]);
    assert_eq!(cut, (Lsn(0), 0), "it was closed within a record");
}
