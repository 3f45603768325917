//! Fault P51.

#![expect(
    clippy::unwrap_used,
    reason = "tests, which fail where something is not as they expect"
)]

use super::{Key, KeyRing};
use crate::options::Options;
use crate::plant::Plant;
use evendb_storage::vfs::SimVfs;
use std::path::Path;
use std::sync::Arc;

/// The files that show a value after a put and a checkpoint.
fn showing(plant: Plant) -> Vec<String> {
    let vfs = SimVfs::new(1);
    let keys = Arc::new(KeyRing::new(Key::new([1; 32])));
    let mut options = Options::new()
        .vfs(Arc::new(vfs.clone()))
        .workers(0)
        .advanced(|advanced| advanced.encryption(keys));
    options.plant = plant;
    let db = options.open("/db").unwrap();
    for number in 0..50 {
        db.put(format!("plaintext {number}"), "plaintext").unwrap();
    }
    db.flush().unwrap();
    let mut names = vfs.file_names(Path::new("/db"));
    names.retain(|name| {
        let bytes = vfs.read_file(&Path::new("/db").join(name));
        bytes.windows(9).any(|window| window == b"plaintext")
    });
    names
}

/// Fault P51.
#[test]
fn p51_a_file_that_is_left_plain_is_noticed() {
    assert_eq!(showing(Plant::Nothing), [""; 0]);
    assert_eq!(showing(Plant::RunLeftPlain), ["CHUNK-LOGS"]);
}
