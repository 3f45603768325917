use super::file::Mutex;
use super::*;
use std::path::Path;

/// A hint for any place is accepted, also beyond the end and up to the last offset.
#[test]
fn what_will_be_needed_may_lie_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let file = OsVfs.create(&path).unwrap();
    let data = vec![7; 768 << 10];
    file.write_at(&data, 0).unwrap();
    for (offset, len) in [
        (0, 0),
        (1, data.len() as u64),
        (1 << 40, 1 << 20),
        (u64::MAX - 9, 100),
    ] {
        file.will_need(offset, len);
    }
    let mut read = vec![0; data.len()];
    assert_eq!(file.read_at(&mut read, 0).unwrap(), data.len());
    assert_eq!(read, data);
}

/// KiB of a file that this process has mapped in memory.
#[cfg(target_os = "linux")]
fn resident_kib(path: &Path) -> u64 {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let name = path.to_str().unwrap();
    let mut lines = maps.lines();
    let mut kib = 0;
    // If only a part of the mapping is locked, the lock splits the mapping there.
    while lines.by_ref().any(|line| line.ends_with(name)) {
        let rss = lines.by_ref().find_map(|line| line.strip_prefix("Rss:"));
        let number = rss.and_then(|rss| rss.trim().strip_suffix(" kB"));
        kib += number.unwrap().trim().parse::<u64>().unwrap();
    }
    kib
}

#[cfg(target_os = "linux")]
#[test]
fn a_mapping_gives_its_memory_back() {
    const LEN: usize = 8 << 20;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let file = OsVfs.create(&path).unwrap();
    file.write_at(&vec![1; LEN], 0).unwrap();
    let mapping = file.map(LEN).unwrap();
    mapping.write(0, &vec![2; LEN]);
    assert_eq!(resident_kib(&path), LEN as u64 >> 10);
    // Nothing was synced.
    assert!(mapping.give_back(4096, LEN - 4096));
    // A huge page leaves the page table as a whole.
    assert!(resident_kib(&path) <= 4);
    let mut read = vec![0; LEN];
    assert_eq!(file.read_at(&mut read, 0).unwrap(), LEN);
    assert!(read.iter().all(|&byte| byte == 2));
    mapping.write(LEN - 1, &[3]);
    file.sync_data().unwrap();
    assert!(mapping.give_back(0, LEN));
    assert_eq!(resident_kib(&path), 0);
    assert_eq!(file.read_at(&mut read, 0).unwrap(), LEN);
    assert!(read[..LEN - 1].iter().all(|&byte| byte == 2));
    assert_eq!(read[LEN - 1], 3);
}

/// The system reports a failure once to a handle. If a wait gets the report, it must not be
/// lost.
#[test]
fn a_sync_returns_what_a_wait_was_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let file = OsFile {
        file: Arc::new(fs::File::create_new(&path).unwrap()),
        path,
        failed_wait: Mutex::new(Some(io::Error::from_raw_os_error(5))),
    };
    let error = file.sync_data().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5));
    file.sync_data().unwrap();
    *file.failed_wait() = Some(io::Error::from_raw_os_error(5));
    assert!(file.write_at_durable(b"x", 0).is_err());
    file.write_at_durable(b"x", 0).unwrap();
}
