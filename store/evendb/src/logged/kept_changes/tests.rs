//! Kept changes after power losses.

use super::*;
use crate::{Db, Durability, Options};
use evendb_storage::vfs::{CrashMode, SimVfs};

const DIR: &str = "/db";

fn open(vfs: &SimVfs) -> Db {
    let options = Options::new()
        .memory_budget(1 << 20)
        .advanced(|advanced| {
            let small = advanced.commit_log_bytes(64 << 10).chunk_bytes(4096);
            small.keep_changes_bytes(8 << 20)
        })
        .durability(Durability::Process)
        .workers(0)
        .vfs(std::sync::Arc::new(vfs.clone()));
    options.open(DIR).unwrap()
}

/// The checkpoint's edit comes after the kept changes, and the reader of changes relies on this
/// order.
#[test]
fn what_a_checkpoint_kept_survives_power_loss_with_it() {
    let vfs = SimVfs::new(1);
    let db = open(&vfs);
    let start = db.position().unwrap();
    let keys: Vec<String> = (0..1500).map(|number| format!("k{number:05}")).collect();
    for key in &keys {
        db.put(key, [7; 100]).unwrap();
    }
    db.flush().unwrap();
    let db = open(&vfs.crash(CrashMode::PowerLossNothing));
    let feed = db.changes_since(&start).unwrap();
    let first_key = |change: crate::Result<crate::Change>| {
        let change = change.unwrap();
        let first = change.writes().next();
        first.map(|write| write.key.to_vec()).unwrap()
    };
    let found: Vec<Vec<u8>> = feed.map(first_key).collect();
    assert!(found.iter().eq(keys.iter().map(|key| key.as_bytes())));
}

/// Otherwise a file of changes that a crash took back would come back beside newer kept changes.
#[test]
fn what_an_opening_removes_is_gone_for_good() {
    let vfs = SimVfs::new(1);
    let dir = Path::new(DIR);
    vfs.create_dir_all(dir).unwrap();
    for (id, first) in [(1, 10), (2, 5000)] {
        let file = vfs.create(&dir.join(file_name(id))).unwrap();
        let mut log = FramedLogWriter::create(file, id).unwrap();
        let begin = First {
            lsn: Lsn(first),
            previous: id - 1,
            held: Summary::at(Lsn(first)),
        };
        log.append(&begin.encode()).unwrap();
        log.sync().unwrap();
    }
    vfs.sync_dir(dir).unwrap();
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let kept = KeptChanges::open(shared, dir, 1 << 20, Lsn(100), true).unwrap();
    assert!(kept.keeps());
    let left = vfs.crash(CrashMode::PowerLossNothing);
    assert_eq!(left.file_names(dir), [file_name(1)]);
}
