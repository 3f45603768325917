//! What does not depend on the layout, on files that no engine made.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, which fail where they fail"
)]

use super::finding::list;
use super::manifest::{ManifestPart, survey_manifest};
use super::{Finding, FindingKind, LockedDirectory, Severity};
use crate::error::ErrorKind;
use evendb_storage::framed_log::{FRAME_HEADER_BYTES, FramedLogWriter, HEADER_BYTES};
use evendb_storage::vfs::{SimVfs, Vfs};
use std::path::Path;
use std::sync::Arc;

const NAME: &str = "MANIFEST-000007";
const PATH: &str = "/db/MANIFEST-000007";

/// A manifest with three edits of ten bytes, and where each of them ends.
fn manifest() -> (SimVfs, Vec<u64>) {
    let vfs = SimVfs::new(1);
    vfs.create_dir_all(Path::new("/db")).unwrap();
    let file = vfs.create(Path::new(PATH)).unwrap();
    let mut log = FramedLogWriter::create(file, 7).unwrap();
    let ends = [b'a', b'b', b'c'].map(|byte| log.append(&[byte; 10]).unwrap());
    (vfs, ends.to_vec())
}

/// The edits' first bytes; and the findings with whether they lose edits.
fn survey(vfs: &SimVfs, id: u64, verified: u64) -> (String, Vec<(Finding, bool)>) {
    let file = vfs.open(Path::new(PATH), false).unwrap();
    let (mut edits, mut found) = (String::new(), Vec::new());
    survey_manifest(&*file, NAME, (id, verified), &mut |part| match part {
        ManifestPart::Header => edits.push('-'),
        ManifestPart::Edit { payload, .. } => edits.push(char::from(payload[0])),
        ManifestPart::Wrong {
            finding,
            loses_edits,
        } => found.push((finding, loses_edits)),
    });
    (edits, found)
}

/// Changes a byte of the payload of the edit that ends there.
fn damage(vfs: &SimVfs, end: u64) {
    let mut bytes = vfs.read_file(Path::new(PATH));
    bytes[end as usize - 1] ^= 1;
    vfs.write_file(Path::new(PATH), bytes);
}

#[test]
fn a_whole_manifest_has_its_edits_and_no_finding() {
    let (vfs, ends) = manifest();
    assert_eq!(survey(&vfs, 7, ends[2]), ("-abc".to_owned(), Vec::new()));
}

#[test]
fn edits_behind_damage_are_found_and_the_damage_is_told() {
    let (vfs, ends) = manifest();
    damage(&vfs, ends[1]);
    for verified in [HEADER_BYTES, ends[2]] {
        let (edits, found) = survey(&vfs, 7, verified);
        assert_eq!(edits, "-ac");
        let [(finding, true)] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!(finding.severity, Severity::Corruption);
        assert_eq!(finding.kind, FindingKind::Manifest);
        assert_eq!(finding.offset, Some(ends[0]));
        assert_eq!(finding.len, Some(FRAME_HEADER_BYTES as u64 + 10));
    }
}

#[test]
fn an_end_that_was_not_vouched_for_is_a_warning() {
    let (vfs, ends) = manifest();
    damage(&vfs, ends[2]);
    let (edits, found) = survey(&vfs, 7, ends[1]);
    assert_eq!(edits, "-ab");
    let [(finding, false)] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(finding.kind, FindingKind::ManifestEnd);
    // `CURRENT` vouched for it.
    let (_, found) = survey(&vfs, 7, ends[2]);
    assert_eq!(found[0].0.kind, FindingKind::Manifest);
    assert!(found[0].1);
}

#[test]
fn a_manifest_that_is_too_short_or_another_one_is_told() {
    let (vfs, ends) = manifest();
    let (edits, found) = survey(&vfs, 7, ends[2] + 1);
    assert_eq!((&*edits, found.len()), ("-abc", 1));
    assert_eq!(found[0].0.kind, FindingKind::Length);
    assert!(found[0].1);
    let (edits, found) = survey(&vfs, 8, HEADER_BYTES);
    assert_eq!(edits, "");
    assert!(
        found[0].0.what.contains("header of manifest 7"),
        "{found:?}"
    );
    assert!(!found[0].1);
}

#[test]
fn a_full_list_of_findings_ends_with_one_that_says_so_and_is_as_bad_as_the_worst() {
    let mut findings = Vec::new();
    for number in 0..10_050 {
        let severity = match number {
            10_020 => Severity::Corruption,
            _ => Severity::Warning,
        };
        let what = format!("number {number}");
        let finding = Finding::new(severity, FindingKind::Table, "a file", None, what);
        list(&mut findings, finding);
    }
    assert_eq!(findings.len(), 10_000);
    assert_eq!(findings[9_998].what, "number 9998");
    let last = &findings[9_999];
    assert!(last.what.starts_with("more is wrong"), "{last}");
    assert_eq!(last.severity, Severity::Corruption);
}

#[test]
fn a_directory_is_locked_only_if_it_shows_a_database() {
    let vfs = SimVfs::new(1);
    let dir = Path::new("/db");
    vfs.create_dir_all(dir).unwrap();
    let open = || {
        let shows = |name: &str| name == "COMMIT-LOG";
        LockedDirectory::open(Arc::new(vfs.clone()), dir, &shows)
    };
    let kind = || open().err().map(|error| error.kind());
    assert_eq!(kind(), Some(ErrorKind::NotFound));
    vfs.write_file(&dir.join("LOCK"), Vec::new());
    assert_eq!(kind(), Some(ErrorKind::NotFound));
    vfs.write_file(&dir.join("COMMIT-LOG"), vec![7]);
    let writer = vfs.lock(&dir.join("LOCK"), false).unwrap();
    assert_eq!(kind(), Some(ErrorKind::Locked));
    drop(writer);
    let (one, other) = (open().unwrap(), open().unwrap());
    assert_eq!(one.without_lock(), None);
    assert!(other.has("COMMIT-LOG") && !other.has("COMMIT"));
    let (_, len) = one.open_file(&dir.join("COMMIT-LOG")).unwrap();
    assert_eq!(len, 1);
    assert!(one.open_file(&dir.join("CURRENT")).is_err());
    drop((one, other));
    vfs.remove_file(&dir.join("LOCK"));
    let missing = open().unwrap().without_lock().unwrap();
    assert_eq!(
        (missing.kind, missing.severity),
        (FindingKind::Lock, Severity::Warning)
    );
    assert!(vfs.file_names(dir).iter().all(|name| name != "LOCK"));
}
