//! Records of an encrypted database, and the faults P50 and P52.

#![expect(
    clippy::unwrap_used,
    reason = "tests, which fail where something is not as they expect"
)]

use super::record::{HEADER_BYTES, Header, payload_checksum};
use super::sealed::planted::TAGS_IGNORED;
use super::test_file::TestFile;
use super::{CAPACITY_MIN, CommitLog, LogPlant, Lsn, Segment, create_file, recover};
use crate::options::Writing;
use evendb_storage::sealing::{Key, Secrets};
use evendb_storage::vfs::{File, SealedVfs, SimVfs, Vfs, read_exact_at};
use evendb_storage::{ErrorKind, Result, Version};
use std::path::Path;
use std::sync::Arc;

const SEED: u64 = 7;
const PAYLOAD: &[u8] = b"plaintext plaintext plaintext";

struct World {
    sim: SimVfs,
    file: Arc<dyn File>,
}

impl World {
    fn new() -> World {
        let sim = SimVfs::new(1);
        let secrets = Secrets::new(Key::new([1; 32])).unwrap();
        let vfs = SealedVfs::new(Arc::new(sim.clone()), secrets);
        let path = Path::new("/log");
        create_file(&vfs, path, CAPACITY_MIN).unwrap();
        let file = vfs.open(path, true).unwrap();
        World { sim, file }
    }

    fn log(&self, writing: Writing, plant: LogPlant) -> CommitLog {
        let file = self.file.clone();
        let log = CommitLog::start(file, CAPACITY_MIN, writing, 3, SEED, Lsn(0)..Lsn(0));
        log.unwrap().planted(plant)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; CAPACITY_MIN as usize];
        read_exact_at(&*self.file, &mut bytes, 0).unwrap();
        bytes
    }

    /// All payloads from the beginning.
    fn recovered(&self) -> Result<Vec<Vec<u8>>> {
        let mut found = Vec::new();
        let segment = Segment {
            epoch: 3,
            seed: SEED,
            start: Lsn(0),
            closed_at: None,
        };
        recover(
            &*self.file,
            CAPACITY_MIN,
            Lsn(0),
            &[segment],
            &mut |record| {
                found.push(record.payload.to_vec());
                Ok(())
            },
        )?;
        Ok(found)
    }
}

#[test]
fn records_come_back_and_the_file_shows_nothing() {
    for writing in [Writing::Mapped, Writing::Written, Writing::Gathered] {
        let world = World::new();
        let log = world.log(writing, LogPlant::Nothing);
        for _ in 0..20 {
            log.append(Version(5), &[&PAYLOAD[..9], &PAYLOAD[9..]])
                .unwrap();
        }
        log.flush().unwrap();
        assert_eq!(
            world.recovered().unwrap(),
            vec![PAYLOAD.to_vec(); 20],
            "{writing:?}"
        );
        let bytes = world.sim.read_file(Path::new("/log"));
        assert!(
            !bytes.windows(9).any(|window| window == b"plaintext"),
            "{writing:?}"
        );
    }
}

/// The stored payload of the first record of two laps; both are the same record.
fn stored_in_two_laps(plant: LogPlant) -> [Vec<u8>; 2] {
    let world = World::new();
    let log = world.log(Writing::Written, plant);
    let stored = || world.bytes()[HEADER_BYTES..][..PAYLOAD.len()].to_vec();
    log.append(Version(5), &[PAYLOAD]).unwrap();
    let first = stored();
    while log.head().0 < CAPACITY_MIN {
        log.append(Version(5), &[PAYLOAD]).unwrap();
        let _ = log.set_tail(log.head());
    }
    log.append(Version(5), &[PAYLOAD]).unwrap();
    assert!(stored() != first || plant != LogPlant::Nothing);
    [first, stored()]
}

#[test]
fn no_nonce_comes_again_in_the_next_lap() {
    let [first, second] = stored_in_two_laps(LogPlant::Nothing);
    assert_ne!(first, second);
}

/// P50.
#[test]
fn p50_a_nonce_that_comes_again_is_noticed() {
    let [first, second] = stored_in_two_laps(LogPlant::PlaceAsNonce);
    assert_eq!(first, second, "the same bytes under the same nonce");
}

/// An append that panics in the middle of its copy has left bytes in the file: its place is not
/// used for encryption again.
#[test]
fn no_append_follows_one_that_did_not_end_at_its_place() {
    for writes_before in 0..2 {
        let secrets = Secrets::new(Key::new([1; 32])).unwrap();
        let file = TestFile::new(CAPACITY_MIN).with_secrets(secrets);
        let shared = Arc::new(file.clone());
        let log = CommitLog::start(
            shared,
            CAPACITY_MIN,
            Writing::Mapped,
            3,
            SEED,
            Lsn(0)..Lsn(0),
        );
        let log = log.unwrap();
        let end = log.append(Version(1), &[PAYLOAD]).unwrap();
        file.0.lock().panic_after = Some(writes_before);
        let append = std::panic::AssertUnwindSafe(|| log.append(Version(2), &[b"one"]));
        assert!(std::panic::catch_unwind(append).is_err());
        for _ in 0..2 {
            let refused = log.append(Version(3), &[b"two"]).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Io);
        }
        assert!(log.flush().is_err());
        assert_eq!(log.head(), end);
    }
}

/// Somebody changes a byte, and makes both checksums right, which takes no key.
fn read_of_a_forged_record() -> Result<Vec<Vec<u8>>> {
    let world = World::new();
    let log = world.log(Writing::Written, LogPlant::Nothing);
    for _ in 0..3 {
        log.append(Version(5), &[PAYLOAD]).unwrap();
    }
    let record = CommitLog::record_bytes(PAYLOAD.len() + log.seal_bytes()) as usize;
    let mut bytes = world.bytes()[record..2 * record].to_vec();
    bytes[HEADER_BYTES + 2] ^= 1;
    let mut header = Header::decode(bytes.first_chunk().unwrap()).unwrap();
    let end = HEADER_BYTES + header.payload_len as usize;
    header.payload_checksum = payload_checksum(SEED, &[&bytes[HEADER_BYTES..end]]);
    bytes[..HEADER_BYTES].copy_from_slice(&header.encode(SEED));
    world.file.write_at(&bytes, record as u64).unwrap();
    world.recovered()
}

#[test]
fn a_forged_record_is_corruption_and_no_end_of_the_log() {
    let error = read_of_a_forged_record().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(
        error.to_string().contains("not encrypted for this place"),
        "{error}"
    );
}

/// P52.
#[test]
fn p52_a_tag_that_is_not_looked_at_is_noticed() {
    TAGS_IGNORED.set(true);
    let found = read_of_a_forged_record();
    TAGS_IGNORED.set(false);
    let found = found.unwrap();
    assert_eq!(found.len(), 3);
    assert_ne!(found[1], PAYLOAD, "another value, and nothing told");
}
