//! Structures whose bytes verify and which make no sense are examined without a panic, and
//! reported.

use super::{Dump, DumpOptions, FindingKind, InspectOptions, RepairOptions, dump, repair, verify};
use crate::commit_log::Lsn;
use crate::manifest::edit::{Change, ChunkRecord, EpochRecord, Part, Place, Role};
use crate::manifest::state::ManifestState;
use crate::manifest::writer::Manifest;
use crate::manifest::{ChunkId, KeyspaceId};
use crate::sync::Arc;
use evendb_storage::table::TableMeta;
use evendb_storage::vfs::{SimVfs, Vfs};
use evendb_storage::{NUMBER_MAX, TableId, Version};
use std::ops::ControlFlow;
use std::path::Path;

const DIR: &str = "/db";

fn part(table: u64, role: Role, place: Place, len: u64, keys: (&[u8], &[u8])) -> Part {
    Part {
        table: TableId(table),
        place,
        role,
        epoch: 1,
        checkpoint: 1,
        meta: std::sync::Arc::new(TableMeta {
            len,
            entries: 10,
            deletes: 0,
            data_bytes: 100,
            min_key: keys.0.to_vec(),
            max_key: keys.1.to_vec(),
            max_version: Version(1 << 24),
            checksum: 7,
            ..TableMeta::default()
        }),
    }
}

fn chunk(id: u64, low: &[u8], parts: Vec<Part>) -> Change {
    Change::SetChunk(ChunkRecord {
        id: ChunkId(id),
        keyspace: KeyspaceId(0),
        low: low.to_vec(),
        parts,
        covers: Vec::new(),
        guards: None,
    })
}

/// A directory with this state and a container of 4096 zeros.
fn database(ring_bytes: u64, replay_from: u64, changes: Vec<Change>) -> SimVfs {
    let vfs = SimVfs::new(1);
    let dir = Path::new(DIR);
    vfs.create_dir_all(dir).expect("creates");
    vfs.write_file(&dir.join("LOCK"), Vec::new());
    vfs.write_file(&dir.join("CHUNK-LOGS"), vec![0; 4096]);
    vfs.write_file(&dir.join("COMMIT-LOG"), vec![0; 1 << 16]);
    let mut state = ManifestState::default();
    let mut all = vec![
        Change::Format { ring_bytes },
        Change::Epoch(EpochRecord {
            epoch: 1,
            seed: 5,
            start: Lsn(0),
            previous_closed_at: Lsn(0),
            completed_before: 0,
            boot: None,
        }),
        Change::CreateKeyspace {
            id: KeyspaceId(0),
            name: "default".to_owned(),
        },
    ];
    all.extend(changes);
    all.push(Change::Checkpoint {
        number: 1,
        replay_from: Lsn(replay_from),
    });
    for change in &all {
        state.apply(change.clone()).expect("applies");
    }
    Manifest::create(Arc::new(vfs.clone()), dir, 1, state).expect("writes");
    vfs
}

/// The findings of verify; dump and repair must end normally as well.
fn found(vfs: &SimVfs) -> Vec<(FindingKind, String)> {
    let inspect = || InspectOptions::new().vfs(Arc::new(vfs.clone()));
    let report = verify(DIR, inspect()).expect("looks");
    assert!(!report.is_sound());
    for what in [
        Dump::Manifest,
        Dump::Chunk(1),
        Dump::Log(1),
        Dump::CommitLog,
        Dump::Table("5".into()),
    ] {
        let each = &mut |_| ControlFlow::Continue(());
        let _ = dump(DIR, &what, &DumpOptions::default(), inspect(), each);
    }
    let repaired = repair(DIR, "/saved", RepairOptions::default(), inspect()).expect("repairs");
    assert!(!repaired.is_complete());
    let told = |finding: &super::Finding| (finding.kind, finding.to_string());
    report.findings.iter().map(told).collect()
}

#[track_caller]
fn tells(findings: &[(FindingKind, String)], kind: FindingKind, words: &str) {
    let mut these = findings.iter();
    let told = these.any(|(of, text)| *of == kind && text.contains(words));
    assert!(told, "{kind:?} `{words}` in {findings:#?}");
}

#[test]
fn parts_that_contradict_each_other() {
    let base = |table, keys| part(table, Role::Base, Place::File, 100, keys);
    let run = |table, offset| {
        let role = Role::Run { ordinal: 3 };
        part(table, role, Place::Extent { offset }, 600, (b"a", b"b"))
    };
    let mut late = base(9, (b"c", b"d"));
    late.checkpoint = 2;
    let mut other = base(5, (b"a", b"k"));
    std::sync::Arc::make_mut(&mut other.meta).len = 101;
    let first = chunk(
        1,
        b"",
        vec![
            base(5, (b"a", b"k")),
            base(6, (b"j", b"z")),
            run(7, 512),
            run(8, 1024),
            run(11, 100),
            late,
        ],
    );
    let second = chunk(2, b"m", vec![other]);
    let findings = found(&database(0, 0, vec![first, second]));
    let structure = FindingKind::Structure;
    tells(&findings, structure, "overlap");
    tells(&findings, structure, "two runs at one place");
    tells(&findings, structure, "two runs overlap");
    tells(&findings, structure, "does not begin at a sector");
    tells(&findings, structure, "never completed");
    tells(&findings, structure, "outside of the chunk");
    tells(&findings, structure, "differently");
    tells(&findings, FindingKind::Missing, "0000000000000005.sst");
}

#[test]
fn a_key_space_with_a_gap() {
    let findings = found(&database(0, 0, vec![chunk(1, b"m", Vec::new())]));
    tells(&findings, FindingKind::Structure, "no first chunk");
    let two = vec![chunk(1, b"", Vec::new()), chunk(2, b"", Vec::new())];
    let findings = found(&database(0, 0, two));
    tells(&findings, FindingKind::Structure, "begin at one key");
}

#[test]
fn numbers_that_overflow() {
    // The longest table and the last positions that an edit may name: greater values are refused
    // with the edit (tests/hostile_files.rs).
    let (max, longest) = (u64::MAX, 1 << 48);
    for (offset, len) in [
        (max - 511, 600),
        (max / 512 * 512, longest),
        (0, longest),
        (512, longest - 512),
    ] {
        let place = Place::Extent { offset };
        let runs = part(
            5,
            Role::Run {
                ordinal: u32::MAX - 1,
            },
            place,
            len,
            (b"a", b"b"),
        );
        let file = part(6, Role::Base, Place::File, len, (b"a", b"b"));
        let vfs = database(1 << 16, 0, vec![chunk(1, b"", vec![runs, file])]);
        vfs.write_file(&Path::new(DIR).join("0000000000000006.sst"), vec![1; 300]);
        let findings = found(&vfs);
        tells(&findings, FindingKind::Length, "");
        tells(&findings, FindingKind::Table, "");
    }
    for below in [0, 8, 40, 1 << 16, 1 << 61] {
        let replay_from = NUMBER_MAX - below;
        let file = part(6, Role::Base, Place::File, 1, (b"a", b"b"));
        let findings = found(&database(
            1 << 16,
            replay_from,
            vec![chunk(1, b"", vec![file])],
        ));
        tells(&findings, FindingKind::Missing, "");
    }
}
