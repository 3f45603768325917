//! What scans read is found by the next ones.

use evendb_flsm::Options;

/// A scan leaves the block of each table that it began in, and what lies behind once others were there: the third time every block of the
/// range is found in memory, in both directions. A long scan leaves no more.
#[test]
fn a_short_scan_reads_nothing_the_third_time() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().advanced(|advanced| advanced.write_buffer_bytes(256 << 10));
    let db = options.open(dir.path()).unwrap();
    // In no order, so that there are several runs.
    for at in 0..5000u32 {
        let number = at.wrapping_mul(2_654_435_761) % 5000;
        db.put(format!("{number:05}"), [at as u8; 300]).unwrap();
    }
    // No job changes the tables meanwhile.
    db.settle_debt().unwrap();
    let misses = || db.stats().cache_misses;
    let scan = |from: &str, count: usize| {
        let mut cursor = db.cursor(from.as_bytes()..);
        let mut keys = Vec::new();
        while keys.len() < count
            && let Some((key, _)) = cursor.next().unwrap()
        {
            keys.push(key.to_vec());
        }
        keys
    };
    let first = scan("02000", 40);
    assert_eq!(first.len(), 40);
    let of_one = db.stats().cache_bytes;
    assert_eq!(scan("02000", 40), first);
    assert!(db.stats().cache_bytes > of_one);
    let before = misses();
    assert!(before > 0);
    assert_eq!(scan("02000", 40), first);
    assert_eq!(misses(), before, "all of it is in memory");
    assert!(db.stats().cache_hits > 0);
    let bytes = db.stats().cache_bytes;
    let all = scan("", 5000);
    assert!(all.len() > 3000 && all.is_sorted());
    let grown = db.stats().cache_bytes - bytes;
    assert!(grown < 500 << 10, "{grown} bytes of a scan of 1.5 MB");
    let back = || {
        let pairs = db.range("02000".."02050").rev().take(20);
        let keys = pairs.map(|pair| pair.unwrap().0.to_vec());
        keys.collect::<Vec<_>>()
    };
    let first = back();
    assert_eq!(back(), first);
    let before = misses();
    assert_eq!(back(), first);
    assert_eq!(misses(), before);
}
