//! A small run of the experiment on a store in memory.

use super::*;
use crate::stores::memory::MemoryStore;

#[test]
fn a_small_ingest_is_reported() {
    let settings = PauseSettings {
        data_bytes: 1 << 20,
        value_bytes: 100,
        ..PauseSettings::default()
    };
    let report = run(&MemoryStore::new(), &settings).unwrap();
    let put = report
        .pauses
        .iter()
        .find(|pauses| pauses.kind == "put")
        .unwrap();
    assert!(put.count >= Dataset::of_size(1 << 20, 100, 1).records * 3);
    assert!(report.bytes_overwritten >= 3 * (1 << 20) - 1000);
    assert!(put.percentiles.is_sorted());
    assert!(report.to_string().contains("put"));
    assert_eq!(report.to_json()["pauses"][0]["kind"], "get");
}
