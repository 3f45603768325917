//! The proofs that a hole in the ring is damage, and the bound on the search for it.

use super::record::{HEADER_BYTES, Header, HeaderKind};
use super::test_file::TestFile;
use super::*;
use crate::options::Writing;
use crate::sync::Arc;
use evendb_storage::Version;
use evendb_storage::vfs::File;

const SEED: u64 = 0x0123_4567_89ab_cdef;
const CAPACITY: u64 = CAPACITY_MIN;
const SEGMENT: Segment = Segment {
    epoch: 1,
    seed: SEED,
    start: Lsn(0),
    closed_at: None,
};

fn open(file: &TestFile, writing: Writing) -> CommitLog {
    let shared: Arc<dyn File> = Arc::new(file.clone());
    CommitLog::start(shared, CAPACITY, writing, 1, SEED, Lsn(0)..Lsn(0)).unwrap()
}

/// Whether the place where recovery stops is damage, and the number of records behind it.
fn judge(file: &TestFile, segments: &[Segment], same_boot: bool) -> (bool, usize) {
    let at = recover(file, CAPACITY, Lsn(0), segments, &mut |_| Ok(())).unwrap();
    let how = Survey {
        capacity: CAPACITY,
        from: Lsn(0),
        start: at,
        checkpointed: Version::ZERO,
        segments,
        same_boot,
    };
    let (mut behind, mut is_sealed) = (0, false);
    let proof = survey(file, &how, &mut |found| {
        match found {
            Surveyed::Record { .. } => behind += 1,
            Surveyed::Hole { lsn, sealed, .. } | Surveyed::End { lsn, sealed, .. } => {
                is_sealed |= sealed && lsn == at;
            }
            Surveyed::Filler { .. } => {}
        }
        Ok(())
    });
    (proof.unwrap().is_damage(at, is_sealed), behind)
}

fn flip(file: &TestFile, at: u64) {
    file.0.lock().bytes[(at % CAPACITY) as usize] ^= 1;
}

/// Ends of five records of 56 bytes; the first `synced` of them were synced one by one.
fn five(writing: Writing, synced: usize) -> (TestFile, Vec<u64>) {
    let file = TestFile::new(CAPACITY);
    let log = open(&file, writing);
    let mut ends = vec![0];
    for number in 1..=5 {
        ends.push(log.append(Version(number), &[&[7; 16]]).unwrap().0);
        if number as usize <= synced {
            log.flush().unwrap();
        }
    }
    log.flush().unwrap();
    (file, ends)
}

#[test]
fn while_the_machine_runs_whatever_follows_proves_damage() {
    for writing in [Writing::Mapped, Writing::Written, Writing::Gathered] {
        let (whole, ends) = five(writing, 0);
        assert_eq!(judge(&whole, &[SEGMENT], true), (false, 0), "a clean end");
        for damaged in 0..5 {
            for at in ends[damaged]..ends[damaged + 1] {
                let file = TestFile::of(whole.0.lock().bytes.clone());
                flip(&file, at);
                let of_payload = at - ends[damaged] >= HEADER_BYTES as u64;
                // The last record is proven only in a mapped log, and only if its payload is
                // damaged: its header came last.
                let proven = damaged < 4 || (of_payload && writing == Writing::Mapped);
                let (is_damage, behind) = judge(&file, &[SEGMENT], true);
                assert_eq!((is_damage, behind), (proven, 4 - damaged), "{at}");
                // Nothing was synced before the last record was written.
                assert!(!judge(&file, &[SEGMENT], false).0, "{at}: a torn group");
            }
        }
    }
}

#[test]
fn after_a_power_loss_what_was_synced_is_proven_by_the_next_group() {
    for writing in [Writing::Mapped, Writing::Written, Writing::Gathered] {
        for synced in 1..=5 {
            let (whole, ends) = five(writing, synced);
            for (damaged, start) in ends[..5].iter().enumerate() {
                let file = TestFile::of(whole.0.lock().bytes.clone());
                flip(&file, start + 45);
                // Synced, and followed by another record.
                let proven = damaged < synced && damaged < 4;
                let found = judge(&file, &[SEGMENT], false);
                assert_eq!(found, (proven, 4 - damaged), "{writing:?} {synced}");
            }
        }
    }
}

/// A group of many records; the first ones were appended before the group ahead of them was synced.
/// All of them say that it was.
#[test]
fn every_record_of_a_group_proves_the_group_before() {
    let file = TestFile::new(CAPACITY);
    let log = open(&file, Writing::Gathered);
    while log.head().0 < CAPACITY / 2 {
        log.append(Version(1), &[&[1; 4000]]).unwrap();
        log.flush().unwrap();
    }
    let before = log.head();
    let _ = log.set_tail(before);
    // A leader takes this record, and has not synced it yet.
    let first = log.append(Version(1), &[b"first"]).unwrap();
    drop(std::mem::take(&mut log.ring.lock().gathered));
    for number in 0..700 {
        log.append(Version(2), &[&vec![1; number % 90]]).unwrap();
    }
    let bytes = log.ring.lock().gathered.bytes.clone();
    let header = Header::decode(bytes.first_chunk().unwrap()).unwrap();
    assert_eq!(header.durable, before);
    let mut ring = log.ring.lock();
    ring.gathered.tell_durable(SEED, first);
    let (bytes, pieces) = (ring.gathered.bytes.clone(), ring.gathered.pieces.clone());
    assert!(pieces.len() > 1, "over the end of a lap");
    let mut seen = 0;
    for (index, &(lsn, start)) in pieces.iter().enumerate() {
        let end = pieces.get(index + 1).map_or(bytes.len(), |next| next.1);
        let mut at = start;
        while at < end {
            let header = Header::decode(bytes[at..].first_chunk().unwrap()).unwrap();
            assert_eq!(header.lsn, Lsn(lsn + (at - start) as u64));
            assert_eq!(header.durable, first);
            seen += 1;
            at += header.total_bytes() as usize;
        }
    }
    assert!(seen >= 700);
}

#[test]
fn a_later_life_proves_what_it_found_only_while_the_machine_runs() {
    let (file, ends) = five(Writing::Mapped, 0);
    let closed = Segment {
        closed_at: Some(Lsn(ends[5])),
        ..SEGMENT
    };
    let second = Segment {
        epoch: 2,
        seed: 9,
        start: Lsn(ends[5]),
        closed_at: None,
    };
    // The last record, with nothing behind it.
    flip(&file, ends[4]);
    assert_eq!(judge(&file, &[closed, second], true), (true, 0));
    assert_eq!(judge(&file, &[closed, second], false), (false, 0));
}

#[test]
fn records_of_other_lives_and_laps_prove_nothing() {
    let (file, ends) = five(Writing::Mapped, 5);
    let other = |epoch, seed| Segment {
        epoch,
        seed,
        ..SEGMENT
    };
    assert_eq!(judge(&file, &[other(1, SEED + 1)], true), (false, 0));
    assert_eq!(judge(&file, &[other(2, SEED)], true), (false, 0));
    // The same bytes in another place.
    let bytes = file.0.lock().bytes[ends[1] as usize..].to_vec();
    let mut moved = vec![0; 160];
    moved.extend_from_slice(&bytes);
    moved.truncate(CAPACITY as usize);
    assert_eq!(judge(&TestFile::of(moved), &[SEGMENT], true), (false, 0));
}

/// Values made up of headers for just these places, each with a payload as long as possible: none
/// is believed, and no payload is read.
#[test]
fn bytes_that_pretend_to_be_headers_cost_no_more_than_others() {
    let mut bytes = vec![0; CAPACITY as usize];
    for (index, header) in bytes.chunks_exact_mut(HEADER_BYTES).enumerate() {
        let lsn = (index * HEADER_BYTES) as u64;
        let forged = Header {
            kind: super::record::HeaderKind::Record,
            payload_len: (CAPACITY - lsn).saturating_sub(HEADER_BYTES as u64) as u32,
            lsn: Lsn(lsn),
            epoch: 1,
            version: Version(1),
            tail: Lsn(0),
            durable: Lsn(lsn),
            payload_checksum: 0,
        };
        // Everything is right except the seed, which nobody knows.
        header.copy_from_slice(&forged.encode(SEED ^ 1));
    }
    let file = TestFile::of(bytes);
    assert_eq!(judge(&file, &[SEGMENT], true), (false, 0));
    let reads = file.0.lock().read_bytes;
    assert!(reads <= 6 * CAPACITY as usize, "{reads} bytes read");
}

/// A damaged manifest that verifies may say so: a stretch that ends there would end before it
/// begins.
#[test]
fn lives_beyond_a_lap_end_in_no_stretch_that_goes_back() {
    let (file, _) = five(Writing::Mapped, 5);
    let beyond = Lsn(4 * CAPACITY);
    let closed = Segment {
        epoch: 9,
        seed: SEED ^ 9,
        closed_at: Some(beyond),
        ..SEGMENT
    };
    // The record at the ring's begin has this life's number, but not its seed.
    let second = Segment {
        seed: SEED ^ 1,
        start: beyond,
        ..SEGMENT
    };
    let how = Survey {
        capacity: CAPACITY,
        from: Lsn(0),
        start: Lsn(0),
        checkpointed: Version::ZERO,
        segments: &[closed, second],
        same_boot: true,
    };
    let mut last = Vec::new();
    let told = survey(&file, &how, &mut |found| {
        if let Surveyed::Hole { lsn, end, .. } = found {
            assert!(lsn < end);
        }
        if let Surveyed::End { lsn, torn, .. } = found {
            last.push((lsn, torn));
        }
        Ok(())
    });
    assert!(told.is_ok());
    assert_eq!(last, [(beyond, None)]);
}

/// Headers that verify, and each claims all bytes up to the end of the lap: these bytes are read
/// once, and not once for each header.
#[test]
fn headers_that_claim_each_others_bytes_cost_a_few_laps() {
    let capacity = 4 << 20;
    let mut bytes = vec![0; capacity];
    for at in (64..capacity - HEADER_BYTES).step_by(HEADER_BYTES) {
        let header = Header {
            kind: HeaderKind::Record,
            payload_len: (capacity - at - HEADER_BYTES) as u32,
            lsn: Lsn(at as u64),
            epoch: SEGMENT.epoch,
            version: Version(1),
            tail: Lsn(0),
            durable: Lsn(0),
            payload_checksum: 7,
        };
        bytes[at..at + HEADER_BYTES].copy_from_slice(&header.encode(SEED));
    }
    let file = TestFile::of(bytes);
    let how = Survey {
        capacity: capacity as u64,
        from: Lsn(0),
        start: Lsn(0),
        checkpointed: Version::ZERO,
        segments: &[SEGMENT],
        same_boot: true,
    };
    let mut found = Vec::new();
    let proof = survey(&file, &how, &mut |stretch| {
        found.push(format!("{stretch:?}"));
        Ok(())
    });
    assert!(proof.unwrap().is_damage(Lsn(0), false));
    assert_eq!(found.len(), 2, "a hole, and the end: {found:?}");
    let reads = file.0.lock().read_bytes;
    assert!(reads <= 8 * capacity, "{reads} bytes read");
}
