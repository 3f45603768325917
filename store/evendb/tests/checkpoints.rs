//! Checkpoints run when there is something to write.

use evendb::Options;

const RING: u64 = 16 << 20;

#[test]
fn there_is_one_checkpoint_for_each_half_of_the_commit_log() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().memory_budget(64 << 20);
    let db = options
        .advanced(|advanced| advanced.commit_log_bytes(RING))
        .open(dir.path())
        .unwrap();
    // One key: the deltas stay small, so only the log asks for checkpoints.
    let value = vec![b'v'; 1000];
    for _ in 0..100_000 {
        db.put(b"key", &value).unwrap();
    }
    let stats = db.stats();
    let logged = stats.bytes_written.commit_log;
    assert!(stats.checkpoints >= logged / RING, "{stats:?}");
    // Each checkpoint begins when half of the usable bytes are used, and frees these; but a put
    // that waits for room may ask for another. Checkpoints that were asked for while one ran found
    // nothing to do.
    let half = RING / 8 * 7 / 2;
    let most = logged / half + stats.pauses.room.count + 2;
    assert!(stats.checkpoints <= most, "at most {most}: {stats:?}");
    db.close().unwrap();
}
